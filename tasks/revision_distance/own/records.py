"""Drafts of one's own as records: which columns they have, and what is wrong with one.

    {"id": "q7", "system": "b", "draft": "Dear all, ...", "references": ["Dear colleagues, ..."]}

`draft` is needed, and may be empty. `reference` is one text, `references` a list of several. `system` is `draft` where
it is missing; `id` says which drafts are of one case. Where it is missing drafts of one case are those with the same
references. `request` says what a draft without references was to be.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Rejected, Row

COLUMNS = ("id", "system", "draft", "reference", "references", "request")
ONE_SYSTEM = "draft"
RAW_CHARACTERS = 2_000
LONGEST = 120_000

NO_DRAFT = "no draft"
NO_TEXT = "the draft is no text"
BAD_REFERENCE = "a reference is no text"
EMPTY_REFERENCE = "a reference is empty"
NO_REFERENCE = "no reference, although other drafts have one"
TWICE = "id and system stand there twice"
A_LINK = "a link, which is not followed"
NO_UNICODE = "no valid Unicode"
TOO_LONG = "too long to revise"
BAD_ID = "id or system is no text or number"


@dataclass(frozen=True, slots=True)
class Bad:
    """A record that is no draft to measure: why, and what it says."""

    reason: str
    raw: str
    detail: str | None = None


@dataclass(slots=True)
class Reader:
    """Turns records into rows of OWN_DRAFTS, one by one; each has `row`, its place in the file, from 1.

    `with_references`: some drafts have references, so that one without is of no use beside them.
    """

    with_references: bool
    _seen: set[str] = field(default_factory=set)
    _times: Counter[str] = field(default_factory=Counter)

    def read(self, record: Mapping[str, Any], row: int) -> Row | Rejected:
        """The row of a record with some of COLUMNS, or the Rejected that says what is wrong with it."""
        found = checked(record)
        if isinstance(found, Bad):
            return rejected(found, row)
        if self.with_references and not found["references"]:
            return rejected(Bad(NO_REFERENCE, _raw(record), _named(found)), row)
        return self._identified(found, row, record)

    def _identified(self, found: Row, row: int, record: Mapping[str, Any]) -> Row | Rejected:
        """The row with `id` and `draft_id`; a Rejected if another has the same id and system."""
        case = found["id"]
        if case is None:
            case = fingerprint(found["references"] or [found["request"] or "", str(row)])
            key = f"{found['system']}\0{case}"
            self._times[key] += 1
            case = case if self._times[key] == 1 else f"{case}#{self._times[key]}"
        draft_id = f"d_{fingerprint([case, found['system']])}"
        if draft_id in self._seen:
            return rejected(Bad(TWICE, _raw(record), _named(found)), row)
        self._seen.add(draft_id)
        return {**found, "id": case, "draft_id": draft_id, "row": row}


def checked(record: Mapping[str, Any]) -> Row | Bad:
    """`id` (None where it is missing), `system`, `draft`, `references` and `request` of a record; or what is wrong."""
    names: dict[str, str | None] = {}
    for name in ("id", "system"):
        value = record.get(name)
        if isinstance(value, bool) or not (value is None or isinstance(value, str | int)):
            return Bad(BAD_ID, _raw(record), name)
        names[name] = str(value).strip() or None if value is not None else None
    draft, request = record.get("draft"), record.get("request")
    if draft is None:
        return Bad(NO_DRAFT, _raw(record), _named(names))
    if not isinstance(draft, str):
        return Bad(NO_TEXT, _raw(record), _named(names))
    references = _references(record)
    if isinstance(references, str):
        return Bad(references, _raw(record), _named(names))
    request = request if isinstance(request, str) and request.strip() else None
    texts = [draft, *references, request or "", names["id"] or "", names["system"] or ""]
    if any(not _is_unicode(text) for text in texts):
        return Bad(NO_UNICODE, _raw(record), _named(names))
    longest = len(draft) + max(map(len, references), default=0)
    if longest > LONGEST:
        said = f"{longest:,} characters with its reference, at most {LONGEST:,}"
        return Bad(TOO_LONG, "", ", ".join(filter(None, (_named(names), said))))
    return {
        "id": names["id"],
        "system": names["system"] or ONE_SYSTEM,
        "draft": draft,
        "references": references,
        "request": request,
    }


def has_reference(record: Mapping[str, Any]) -> bool:
    """Whether a record names a text that its draft may become."""
    found = _references(record)
    return isinstance(found, list) and bool(found)


def _references(record: Mapping[str, Any]) -> list[str] | str:
    """The references of a record, each once; [] without any; or what is wrong with them.

    A blank `reference` is none, as it is in a table. `references` may also be one
    text, or a JSON list in a text, as tables hold it.
    """
    several, one = record.get("references"), record.get("reference")
    if isinstance(several, str):
        several = _listed(several)
    values: list[Any] = [*several] if isinstance(several, Sequence) else [] if several is None else [several]
    if not (one is None or (isinstance(one, str) and not one.strip())):
        values.insert(0, one)
    if any(not isinstance(value, str) for value in values):
        return BAD_REFERENCE
    return EMPTY_REFERENCE if any(not value.strip() for value in values) else list(dict.fromkeys(values))


def _listed(text: str) -> list[Any]:
    """The values of a JSON list; else the text alone, none if it is blank."""
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if isinstance(found, list):
            return found
    return [text] if text.strip() else []


def rejected(bad: Bad, row: int) -> Rejected:
    """The Rejected of a record; its key is its place in the file."""
    kind = "filtered" if bad.reason in (TOO_LONG, NO_REFERENCE, TWICE) else "defect"
    detail = ", ".join(filter(None, (f"row {row:,}", bad.detail)))
    return Rejected(str(row), kind, bad.reason, detail=detail, raw=bad.raw or None)  # type: ignore[arg-type]


def records_of(lines: Iterator[bytes]) -> Iterator[tuple[int, dict[str, Any] | Bad]]:
    """(line number from 1, its record or what is wrong with it) of JSON lines; blank lines are left out."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            why = error.msg if isinstance(error, json.JSONDecodeError) else "no UTF-8, or too deep"
            yield number, Bad("the line is no JSON", line[:RAW_CHARACTERS].decode(errors="replace"), why)
            continue
        yield number, found if isinstance(found, dict) else Bad("the line is no JSON object", _raw(found))


def _named(found: Mapping[str, Any]) -> str | None:
    """`id q7, system b` of a record, as far as it says so."""
    said = ", ".join(f"{name} {found[name]}" for name in ("id", "system") if found.get(name))
    return readable(said) or None


def _raw(record: object) -> str:
    """The beginning of a record as JSON."""
    try:
        text = json.dumps(record, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        text = str(record)
    return readable(text[:RAW_CHARACTERS])


def readable(text: str) -> str:
    """A text that can be stored: a question mark for each half of a surrogate pair."""
    return text.encode(errors="replace").decode()


def _is_unicode(text: str) -> bool:
    """Whether a text has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
