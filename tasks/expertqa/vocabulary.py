"""Words that came in several spellings, in one: labels (table 3), question types (table 2), fields of study.

The words are data files beside this one. Case and blanks never count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from tasks.annotation.values import spelled

LABELLED = ("support", "informativeness", "worthiness", "correctness", "reliability")
OTHER_FIELD = "Other"

_FOLDER = Path(__file__).parent
_BREAKS = re.compile(r"[\s,;/]+")
_SLASH = re.compile(r"\s*/\s*")


def label(property: str, said: Any, of: str) -> tuple[str | None, str | None]:
    """(the label in our spelling, what it came as where that differs); Unfit where it is none of them.

    null is no label; so is a blank text, which is kept as what it came as.
    """
    if said is None or (isinstance(said, str) and not said.strip()):
        return None, said
    ours = spelled(property, said, ratings(property), spellings(property), of)
    return ours, None if said == ours else said


def question_types(said: str | list[str]) -> tuple[list[str], list[str]]:
    """(types of I to VII, in order, each once; what was none): from "I,III", ["I", "III"], or their full texts.

    The released files separate full texts by `|`, with stray blanks.
    """
    found: set[str] = set()
    unknown: list[str] = []
    for piece in said.split("|") if isinstance(said, str) else said:
        types = _types_in(piece)
        found |= types
        if not types and piece.strip():
            unknown.append(piece)
    return [one for one in type_texts() if one in found], unknown


def _types_in(piece: str) -> set[str]:
    known = _types()
    if whole := known.get(_folded(piece)):
        return {whole}
    numerals = [numeral for numeral in _BREAKS.split(piece.upper()) if numeral]
    return set(numerals) if all(numeral in type_texts() for numeral in numerals) else set()


def type_text(types: list[str]) -> str:
    """As the released files write them."""
    return "| ".join(type_texts()[one] for one in types)


def field_of_study(said: str) -> tuple[str, bool]:
    """(one of the 32 fields in one spelling, or as given; whether it is one of them)."""
    ours = _fields().get(_folded_field(said))
    return (ours, True) if ours else (" ".join(said.split()), False)


@cache
def ratings(property: str) -> tuple[str, ...]:
    """What an expert may choose of a property, in the order of table 3."""
    return tuple(_read("labels")["ratings"][property])


@cache
def fields() -> tuple[str, ...]:
    """The 32 fields."""
    return tuple(_read("fields"))


@cache
def type_texts() -> dict[str, str]:
    """I to VII, in order -> full text."""
    return dict(_read("question_types"))


@cache
def spellings(property: str) -> dict[str, str]:
    """Spellings of a property's labels -> ours; also of labels that are only known from released files."""
    known = _read("labels")
    labels = known["ratings"][property] | known["also"].get(property, {})
    return {each: ours for ours, others in labels.items() for each in (ours, *others)}


@cache
def _fields() -> dict[str, str]:
    return _spellings(_read("fields"), _folded_field)


@cache
def _types() -> dict[str, str]:
    return {_folded(text): numeral for numeral, text in type_texts().items()}


def _spellings(known: dict[str, list[str]], fold: Callable[[str], str]) -> dict[str, str]:
    return {fold(spelling): ours for ours, others in known.items() for spelling in (ours, *others)}


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _folded_field(text: str) -> str:
    return _SLASH.sub("/", _folded(text.replace("&", " and ")))


def _read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return document
