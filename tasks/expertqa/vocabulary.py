"""Canonical spellings of labels (table 3), question types (table 2) and fields of study.

The spellings are in JSON files in the folder tasks/expertqa. Case and white space never matter.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from tasks.annotation.values import spelled

LABELLED = ("support", "informativeness", "worthiness", "correctness", "reliability")
OTHER_FIELD = "Other"

_FOLDER = Path(__file__).parent
_BREAKS = re.compile(r"(?:[\s,;/]|---)+")
_SLASH = re.compile(r"\s*/\s*")


def label(property: str, value: Any, of: str) -> tuple[str | None, str | None]:
    """(canonical label, the value itself if it is spelled otherwise, else None). Unfit if the value is no label of the
    property, one of table 3.

    For None and blank texts (None, value). `of` names the labelled claim or answer in the error.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return None, value
    canonical = spelled(property, value, ratings(property), spellings(property), of)
    return canonical, None if value == canonical else value


def question_types(text: str | list[str]) -> tuple[list[str], list[str]]:
    """(numerals of the types, I to VII, in order, each once; pieces that are no type, as written) of "I,III", ["I",
    "III"], or the types' full texts.

    The released files separate full texts by `|`, with stray blanks; blank pieces are ignored.
    """
    found: set[str] = set()
    unknown: list[str] = []
    for piece in text.split("|") if isinstance(text, str) else text:
        types = _types_in(piece)
        found |= types
        if not types and piece.strip():
            unknown.append(piece)
    return [one for one in type_texts() if one in found], unknown


def _types_in(piece: str) -> set[str]:
    """The numerals of the types in one piece, a full text or numerals; empty if any numeral is unknown, or the piece
    is blank.
    """
    known = _types()
    if whole := known.get(_folded(piece)):
        return {whole}
    numerals = [numeral for numeral in _BREAKS.split(piece.upper()) if numeral]
    return set(numerals) if all(numeral in type_texts() for numeral in numerals) else set()


def type_text(types: list[str]) -> str:
    """The full texts of the types with these numerals, joined by `| ` as in the released files; KeyError for another
    numeral.
    """
    return "| ".join(type_texts()[one] for one in types)


def field_of_study(name: str) -> tuple[str, bool]:
    """(its canonical spelling, True) for one of the 32 fields in any known spelling; for any other name (the name with
    single blanks, False).
    """
    known = _fields().get(_folded_field(name))
    return (known, True) if known else (" ".join(name.split()), False)


@cache
def ratings(property: str) -> tuple[str, ...]:
    """The labels that an expert may choose for a property, in the order of table 3; cached. KeyError for another
    property.
    """
    return tuple(_read("labels")["ratings"][property])


@cache
def fields() -> dict[str, list[str]]:
    """Canonical spelling of each of the 32 fields of study -> its other spellings."""
    return dict(_read("fields"))


@cache
def type_texts() -> dict[str, str]:
    """Numeral of a question type (I to VII, in order) -> its full text."""
    return dict(_read("question_types"))


@cache
def spellings(property: str) -> dict[str, str]:
    """Spelling -> canonical label, for all labels of a property, including labels that occur only in released files."""
    known = _read("labels")
    labels = known["ratings"][property] | known["also"].get(property, {})
    return {each: ours for ours, others in labels.items() for each in (ours, *others)}


@cache
def _fields() -> dict[str, str]:
    """Spelling of a field, as `_folded_field` returns it -> its canonical spelling."""
    return {_folded_field(spelling): ours for ours, others in fields().items() for spelling in (ours, *others)}


@cache
def _types() -> dict[str, str]:
    """Full text of a question type, in lower case -> its numeral."""
    return {_folded(text): numeral for numeral, text in type_texts().items()}


def _folded(text: str) -> str:
    """The text in lower case, with runs of white space as one blank."""
    return " ".join(text.split()).casefold()


def _folded_field(text: str) -> str:
    """The name of a field in lower case with single blanks, "and" for &, and no blanks around slashes."""
    return _SLASH.sub("/", _folded(text.replace("&", " and ")))


def _read(name: str) -> dict[str, Any]:
    """The content of a JSON file of the folder tasks/expertqa. `name`: its name without ending."""
    document: dict[str, Any] = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return document
