"""The identity of a paper read from a file: which submission a PDF is, from what `longform fetch` wrote beside it.

    hUJGDNCOPA.pdf
    hUJGDNCOPA.pdf.fetch.json   {"url": "https://api2.openreview.net/pdf", "sha256": "9f0c…", "bytes": 412,
                                 "retrieved_at": "2026-11-20T08:00:00+00:00",
                                 "facts": {"note": "hUJGDNCOPA", "decision": "accept_oral", "licence": "CC BY 4.0",
                                           "authors": ["Ada Lovelace"], "author_ids": ["~Ada_Lovelace1"], …}}

A PDF with such a file has the id of its submission, openreview/<note id>, any other file/<start of its SHA-256>. What
the note says of title, abstract, authors, year, venue, licence and address counts before what a parser read. A side
file whose sha256 is not that of the PDF describes another file, and is not used. It may come out of an archive of
somebody else: what has not the expected form is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from longform.artifacts.rows import Row
from schemas.sources.openreview import DECISIONS
from tasks.sources.files.bundles import Member
from tasks.sources.files.inputs import moment, text_or_none

FILES, NOTES = "file", "openreview"
LONGEST_NAME = 255
LONGEST_TEXT = 20_000
MOST_AUTHORS = 10_000

_NOTE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NUMBERS = re.compile(r"[0-9]{4}")
_CONTROL = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)], " ")
_UNSEEN = {code: blank for code, blank in _CONTROL.items() if code != ord("\n")}


def paper_id_of(member: Member) -> str:
    """The id of the paper in a file: openreview/<note id> if its side file says so, else file/<hash>."""
    note = _note(facts_of(member))
    return f"{NOTES}/{note}" if note else f"{FILES}/{member.sha256[:16]}"


def completed(row: Row, member: Member, licence: str | None) -> Row:
    """The parsed row of PAPERS with the columns that depend on its file: those that the side file knows better, then
    paper_id, note_id, decision, author_ids, file, file_sha256 and retrieved_at. `licence`: where neither names one.
    """
    facts = facts_of(member)
    known = {name: found for name, found in _known(facts).items() if found}
    notes = _notes(member)
    url = row["url"] or _address(notes.get("url"))
    return {
        **row,
        "url": url,
        **known,
        "licence": known.get("licence") or row["licence"] or licence,
        "paper_id": paper_id_of(member),
        "note_id": _note(facts),
        "decision": facts["decision"] if facts.get("decision") in DECISIONS else None,
        "author_ids": _texts(facts.get("author_ids")) if "authors" in known else [],
        "file": file_name(member.name),
        "file_sha256": member.sha256,
        "retrieved_at": moment(member.retrieved_at) if member.retrieved_at and (notes or not member.notes) else None,
    }


def facts_of(member: Member) -> dict[str, Any]:
    """What the fetch of a file noted about it; {} if nothing did, if the notes are on another file, or if they name a
    note by an ill-formed id.
    """
    facts = _notes(member).get("facts")
    return facts if isinstance(facts, dict) and (_note(facts) or facts.get("note") is None) else {}


def file_name(name: str) -> str:
    """The name of a file without folders, control characters and what is no Unicode; at most LONGEST_NAME long."""
    base = name.replace("\\", "/").rpartition("/")[2]
    return base.encode("utf-8", "replace").decode().translate(_CONTROL)[:LONGEST_NAME]


def _notes(member: Member) -> dict[str, Any]:
    """The JSON object in a member's side file; {} without one, or if it is on another file."""
    try:
        notes = json.loads(member.notes) if member.notes else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(notes, dict):
        return {}
    is_other = member.name.lower().endswith(".pdf") and notes.get("sha256") not in (None, member.sha256)
    return {} if is_other else notes


def _note(facts: Mapping[str, Any]) -> str | None:
    """The note's id in what a fetch noted; None if there is none, or it is ill-formed."""
    note = facts.get("note")
    return note if isinstance(note, str) and _NOTE.fullmatch(note) else None


def _known(facts: Mapping[str, Any]) -> Row:
    """The columns that count before a parser's, with None or [] for what is not known."""
    note, year = _note(facts), facts.get("year")
    texts = {name: _text(facts.get(name)) for name in ("title", "abstract", "venue", "licence")}
    return {
        **texts,
        "authors": _texts(facts.get("authors")),
        "year": year if type(year) is int and _NUMBERS.fullmatch(str(year)) else None,
        "url": f"https://openreview.net/forum?id={note}" if note else None,
    }


def _text(found: Any) -> str | None:
    """A text of at most LONGEST_TEXT characters that can be stored, stripped, blanks in place of control characters
    but line feeds; None if it is empty or anything else.
    """
    text = text_or_none(found)
    return text[:LONGEST_TEXT].encode("utf-8", "replace").decode().translate(_UNSEEN).strip() or None if text else None


def _texts(found: Any) -> list[str]:
    """The texts in a list, stripped, without empty ones; [] for anything else."""
    listed = found[:MOST_AUTHORS] if isinstance(found, list) else []
    return [text for text in map(_text, listed) if text]


def _address(found: Any) -> str | None:
    """The address of a web page or file; None for anything else, or if it has a query, user, or white space."""
    text = _text(found)
    try:
        parts = urlsplit(text or "")
    except ValueError:
        return None
    is_bare = not parts.query and "@" not in parts.netloc and len((text or "").split()) == 1
    return text if parts.scheme in ("http", "https") and parts.hostname and is_bare else None
