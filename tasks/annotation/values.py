"""What annotators write: whether it says something, and what it says as a label, a text, a number, a name or a date."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from tasks.annotation.form import Field

DIVIDER = "---"
SHOWN_CHARS = 80
LONGEST_NAME = 64
LONGEST_TIME = 1e15
ILL_FORMED = "ill-formed annotator"  # which may be a name: it is written down nowhere
_DIVIDERS = re.compile(rf"\n?^[^\S\n]*{DIVIDER}[^\S\n]*$\n?", re.MULTILINE)
_WHOLE = re.compile(r"([+-]?[0-9]+)[.,]0+")


class Unfit(ValueError):
    """What does not fit the form or the build: `reason`, a fixed phrase, and the words in question; `kind` as that of
    a rejected row."""

    def __init__(self, reason: str, detail: str | None = None, kind: Literal["filtered", "defect"] = "defect") -> None:
        super().__init__(reason)
        self.reason, self.detail, self.kind = reason, detail, kind


def taken(wrong: list[Unfit], read: Callable[..., Any], *values: Any) -> Any:
    """What `read` makes of these values; None where that is no label, which is then one of `wrong`."""
    try:
        return read(*values)
    except Unfit as error:
        wrong.append(error)
        return None


def filled(value: Any) -> bool:
    """Whether a value says something: it is neither null, nor white space, nor an empty list."""
    return value is not None and value != [] and (not isinstance(value, str) or bool(value.strip()))


def folded(text: str) -> str:
    """What a spreadsheet leaves of a text: white space does not count."""
    return " ".join(text.split())


def spelled(name: str, value: Any, choices: Iterable[str], also: Mapping[str, str], of: str) -> str:
    """The choice that is meant, case and white space aside; Unfit for what is none."""
    known = {folded(each).casefold(): ours for each, ours in [*also.items(), *((each, each) for each in choices)]}
    ours = known.get(folded(value).casefold()) if isinstance(value, str) else None
    if ours is None:
        raise Unfit("unknown label", f"{name} {as_shown(value)} of {of}")
    return ours


def read_value(field: Field, value: Any, of: str) -> Any:
    """The value of a field as the form has it; Unfit where it is none of what the field takes.

    A list of one value is that value; numbers may come as text, with either decimal mark.
    """
    if field.kind in ("choices", "texts"):
        texts = texts_of(value)
        if texts is None:
            raise Unfit(f"ill-formed {field.name}", of)
        return texts if field.kind == "texts" else [_choice(field, each, of) for each in texts]
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if field.kind == "number":
        return _number(field, value, of)
    if field.kind != "text":
        return _choice(field, value, of)
    if not isinstance(value, str):
        raise Unfit(f"ill-formed {field.name}", of)
    return value


def _choice(field: Field, value: Any, of: str) -> str:
    return spelled(field.name, value, field.offered, field.also, of)


def _number(field: Field, value: Any, of: str) -> float:
    least, most = field.scale or (-math.inf, math.inf)
    try:
        found = math.nan if isinstance(value, bool) else float(str(value).strip().replace(",", "."))
    except ValueError:
        found = math.nan
    if not (least <= found <= most and math.isfinite(found) and (field.scale is None or found.is_integer())):
        raise Unfit("outside the scale", f"{field.name} {as_shown(value)} of {of}")
    return int(found) if found.is_integer() else found


def texts_of(value: Any) -> list[str] | None:
    """A list of texts, or one text that lines of `---` divide; None where it is neither."""
    if isinstance(value, str):
        value = _DIVIDERS.split(value)
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        return None
    return [text for text in value if text.strip()]


def joined(texts: Sequence[str]) -> str:
    """Texts as the one that a cell or a text question takes; `texts_of` gives them back."""
    return f"\n{DIVIDER}\n".join(texts)


def as_shown(value: Any) -> str:
    """A value in a message, cut after 80 characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 1]}…"


def annotator_name(value: Any, accounts: Mapping[str, str]) -> str:
    """A number or a pseudonym: whole numbers without the .0 that pandas adds to a column with empty cells.

    `accounts`: account of a tool -> annotator; where there are any, Unfit for another account.
    """
    if not filled(value):
        raise Unfit("no annotator")
    name = str(value).strip()
    if accounts and name not in accounts:
        raise Unfit("an account that `accounts` does not name", name[:SHOWN_CHARS])
    name = accounts.get(name, name)
    if (whole := _WHOLE.fullmatch(name)) and not isinstance(value, bool):
        return whole[1]
    pseudonym = len(name) <= LONGEST_NAME and name.isprintable() and "@" not in name
    if isinstance(value, bool) or not isinstance(value, int | str) or not pseudonym:
        raise Unfit(ILL_FORMED, f"a number or a pseudonym of at most {LONGEST_NAME} characters")
    return name


def seconds(value: Any, of: str) -> float | None:
    """A duration; Unfit where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | None) or not 0 <= (value or 0) <= LONGEST_TIME:
        raise Unfit("ill-formed annotation_time", of)
    return None if value is None else float(value)


def moment(name: str, value: Any) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 text, UTC where it names no zone; None for nothing, Unfit for others."""
    try:
        when = datetime.fromisoformat(value) if filled(value) else None
        return int(when.replace(tzinfo=when.tzinfo or UTC).timestamp() * 1000) if when else None
    except (TypeError, ValueError, OverflowError):
        raise Unfit(f"ill-formed {name}", as_shown(value)) from None


def refuse_near_misses(names: Iterable[Any], known: Collection[str], asked: Sequence[str], of: str) -> None:
    """Unfit for a name that is none of the known ones but nearly one of those asked for: a label under it would be
    lost. Other names are anybody's own."""
    for name in names:
        if isinstance(name, str) and name not in known:
            word = name[:SHOWN_CHARS]
            if near := difflib.get_close_matches(word.rstrip("_0123456789"), asked, 1, 0.85):
                raise Unfit("unknown key", f'"{word}", perhaps "{near[0]}" of {of}')
