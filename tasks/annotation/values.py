"""Values that annotators enter: whether they are blank, and their reading as a label, text, number, name or date."""

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
    """Raised for a labelling or a value that does not fit the form or the build. `reason`: a fixed phrase; `detail`:
    the name, text or id that does not fit, if any; `kind`: "defect" or "filtered", as in Rejected.
    """

    def __init__(self, reason: str, detail: str | None = None, kind: Literal["filtered", "defect"] = "defect") -> None:
        super().__init__(reason)
        self.reason, self.detail, self.kind = reason, detail, kind


def collecting_unfit(wrong: list[Unfit], read: Callable[..., Any], *values: Any) -> Any:
    """The result of `read(*values)`; None if it raises Unfit, which is then appended to `wrong`."""
    try:
        return read(*values)
    except Unfit as error:
        wrong.append(error)
        return None


def is_answered(value: Any) -> bool:
    """Whether a value is not blank: neither null, nor an empty list, nor a text of white space alone."""
    return value is not None and value != [] and (not isinstance(value, str) or bool(value.strip()))


def folded(text: str) -> str:
    """The text with each run of white space as one blank and none at its ends, to compare texts that a spreadsheet may
    have changed.
    """
    return " ".join(text.split())


def spelled(name: str, value: Any, choices: Iterable[str], also: Mapping[str, str], of: str) -> str:
    """The choice that a value names, ignoring case and white space; Unfit if there is none or the value is no text.
    `also`: another accepted spelling -> choice. `name` and `of` (an id) are for the message.
    """
    known = {folded(each).casefold(): ours for each, ours in [*also.items(), *((each, each) for each in choices)]}
    ours = known.get(folded(value).casefold()) if isinstance(value, str) else None
    if ours is None:
        raise Unfit("unknown label", f"{name} {as_shown(value)} of {of}")
    return ours


def read_value(field: Field, value: Any, of: str) -> Any:
    """The value of a field in the form's type and spelling; Unfit if the field does not accept it. `of` is an id for
    the message.

    For a field of one value, a list of one value is that value (`alone`). Numbers may be text, with a point or a
    comma as decimal mark. Several choices or texts may be one text, divided by lines of `---`; blank ones are left out.
    """
    if field.kind in ("choices", "texts"):
        texts = texts_of(value)
        if texts is None:
            raise Unfit(f"ill-formed {field.name}", of)
        return texts if field.kind == "texts" else [_choice(field, each, of) for each in texts]
    value = alone(value)
    if field.kind == "number":
        return _number(field, value, of)
    if field.kind != "text":
        return _choice(field, value, of)
    if not isinstance(value, str):
        raise Unfit(f"ill-formed {field.name}", of)
    return value


def alone(value: Any) -> Any:
    """The value of a list of one value, as tools write a single choice or text; any other value as it is."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _choice(field: Field, value: Any, of: str) -> str:
    """The choice of this field that a value names; Unfit if there is none. `of` is an id for the message."""
    return spelled(field.name, value, field.offered, field.also, of)


def _number(field: Field, value: Any, of: str) -> float:
    """The number, an int if it is whole; text is read with a point or a comma as decimal mark. Unfit for any other
    value, one outside the field's scale, or a fraction on a scale.
    """
    least, most = field.scale or (-math.inf, math.inf)
    try:
        found = math.nan if isinstance(value, bool) else float(str(value).strip().replace(",", "."))
    except ValueError:
        found = math.nan
    if not (least <= found <= most and math.isfinite(found) and (field.scale is None or found.is_integer())):
        raise Unfit("outside the scale", f"{field.name} {as_shown(value)} of {of}")
    return int(found) if found.is_integer() else found


def texts_of(value: Any) -> list[str] | None:
    """The texts that are not blank, in a list or in one text divided by lines of `---`; None for any other value."""
    if isinstance(value, str):
        value = _DIVIDERS.split(value)
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        return None
    return [text for text in value if text.strip()]


def joined(texts: Sequence[str]) -> str:
    """Texts joined by lines of `---` into one, which `texts_of` divides again."""
    return f"\n{DIVIDER}\n".join(texts)


def as_shown(value: Any) -> str:
    """A value as JSON for a message, cut to SHOWN_CHARS characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 1]}…"


def annotator_name(value: Any, accounts: Mapping[str, str]) -> str:
    """The id of an annotator as text: a number or a pseudonym. Whole numbers lose the .0 that pandas adds to a column
    with empty cells. Unfit for a blank value, a text with an "@" (a mail address) or unprintable characters or longer
    than LONGEST_NAME, a number that is not whole, or any other type of value.

    `accounts`: account in a tool -> annotator id, which then is the result; if there are any, Unfit for any other
    account.
    """
    if not is_answered(value):
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
    """A duration in seconds, None if `value` is null. Unfit for anything but a number from 0 to LONGEST_TIME; `of` is
    an id for the message.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | None) or not 0 <= (value or 0) <= LONGEST_TIME:
        raise Unfit("ill-formed annotation_time", of)
    return None if value is None else float(value)


def moment(name: str, value: Any) -> int | None:
    """An ISO 8601 date, with or without a time, as milliseconds since 1970, in UTC if it names no time zone; None for
    a blank value. Unfit for any other value, named `name` in the message.
    """
    try:
        when = datetime.fromisoformat(value) if is_answered(value) else None
        return int(when.replace(tzinfo=when.tzinfo or UTC).timestamp() * 1000) if when else None
    except (TypeError, ValueError, OverflowError):
        raise Unfit(f"ill-formed {name}", as_shown(value)) from None


def near_misses(names: Iterable[Any], known: Collection[str], asked: Sequence[str], of: str) -> list[Unfit]:
    """An Unfit for each of `names` that is not in `known` but is almost one of `asked`: probably a misspelt field,
    whose label is lost. A number at its end is ignored, and so are other unknown names. `of` is an id for the message.
    """
    found = []
    for name in names:
        if isinstance(name, str) and name not in known:
            word = name[:SHOWN_CHARS]
            if near := difflib.get_close_matches(word.rstrip("_0123456789"), asked, 1, 0.85):
                found.append(Unfit("unknown key", f'"{word}", perhaps "{near[0]}" of {of}'))
    return found
