"""Metadata of papers from JSON lines of one's own, for the papers that others cite.

    {"title": "Kites over the Sea", "abstract": "We fly kites.", "year": 2024, "authors": ["Ada Aloft"],
     "doi": "10.1000/kites", "arxiv_id": "2401.00001", "corpus_id": 7, "licence": "CC BY 4.0", "url": "https://…"}
    {"paperId": "…", "corpusId": 7, "externalIds": {"DOI": "…"}, "authors": [{"name": "Ada Aloft"}], "title": …}
    {"id": "hUJGDNCOPA", "invitations": […], "content": {"title": {"value": "…"}, …}}

The second line is as Semantic Scholar's Graph API answers, the third a note of OpenReview as `longform fetch` keeps it.
A line needs a title; its paper_id is the one it names, else made of the first of its ids, else of its title.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa

from longform.artifacts.rows import Rejected, Row, Shard
from longform.engine.stage import AtMost, StageContext, stage
from schemas.sources.papers import METADATA
from tasks.sources.files.batches import batched
from tasks.sources.files.inputs import raw_text, retrieved_at
from tasks.sources.files.lines import read_lines
from tasks.sources.files.sizes import most_bytes, most_records
from tasks.sources.openreview.submissions import licence_of, names, text, value, year_of
from tasks.sources.paper_names import canonical

ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
LEAST = '{"title":"a"}'
BATCH_ROWS = 1_000

_PAPER_ID = re.compile(r"(?:openreview|s2|acl|doi|arxiv|file|title)/\S{1,300}")
_NAMED = {"doi": "doi", "arxiv_id": "arxiv", "acl_id": "acl"}
_EXTERNAL = {"doi": "DOI", "arxiv_id": "ArXiv", "acl_id": "ACL", "corpus_id": "CorpusId"}


@stage(METADATA, revision=2, at_most=AtMost(bytes=most_bytes("files"), rows=most_records("files", LEAST)))
def read_metadata(context: StageContext, files: Shard) -> Iterator[pa.RecordBatch | Rejected]:
    """A row of METADATA for each line that has a title, in order; a Rejected for each other line."""
    when = retrieved_at(files.source)
    rows = (_row(line, number, when) for number, line in enumerate(read_lines(files), start=files.start + 1))
    weighed = (row if isinstance(row, Rejected) else (row, 1) for row in rows)
    yield from batched(weighed, lambda rows: pa.RecordBatch.from_pylist(list(rows), METADATA), rows=BATCH_ROWS)


def _row(line: bytes, number: int, retrieved: int | None) -> Row | Rejected:
    """The row of a line, or a Rejected that says why there is none. `number`: for the Rejected's key."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return Rejected(f"line {number}", "defect", "unreadable line", str(error), raw_text(line))
    row = metadata_row(record, retrieved) if isinstance(record, dict) else None
    return row or Rejected(f"line {number}", "defect", "no title", raw=raw_text(line))


def metadata_row(record: dict[str, Any], retrieved: int | None) -> Row | None:
    """The row of METADATA for a record of one of the three forms; None if it has no title. `retrieved`: milliseconds
    since 1970, of the file.
    """
    flat = _note(record) if isinstance(record.get("content"), dict) else _flat(record)
    if flat["title"] is None:
        return None
    row = {"corpus_id": None, "doi": None, "arxiv_id": None, "acl_id": None, **flat, "retrieved_at": retrieved}
    return {**row, "paper_id": row.get("paper_id") or _id_of(row)}


def _note(note: dict[str, Any]) -> Row:
    """The columns that a note of OpenReview gives."""
    content, own = note["content"], note.get("id")
    known = isinstance(own, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", own)
    return {
        "paper_id": f"openreview/{own}" if known else None,
        **{name: text(content, name) for name in ("title", "abstract", "venue")},
        "authors": names(value(content, "authors")),
        "year": year_of(note),
        "licence": licence_of(note),
        "url": f"https://openreview.net/forum?id={own}" if known else None,
    }


def _flat(record: dict[str, Any]) -> Row:
    """The columns that a record of one's own, or one of Semantic Scholar's, gives."""
    external = {name.lower(): found for name, found in (_dict(record, "externalIds", "externalids")).items()}
    ids = {name: record.get(name) or external.get(theirs.lower()) for name, theirs in _EXTERNAL.items()}
    corpus = str(ids["corpus_id"] or record.get("corpusId") or record.get("corpusid") or "")
    people, paper_id = record.get("authors"), record.get("paper_id")
    named = [one.get("name") if isinstance(one, dict) else one for one in (people if isinstance(people, list) else [])]
    return {
        "paper_id": canonical(paper_id) if isinstance(paper_id, str) and _PAPER_ID.fullmatch(paper_id) else None,
        **{name: text(record, name) for name in ("title", "abstract", "venue", "licence", "url")},
        "authors": [name.strip() for name in named if isinstance(name, str) and name.strip()],
        "year": record["year"] if type(record.get("year")) is int and 0 < record["year"] < 10_000 else None,
        "corpus_id": int(corpus) if re.fullmatch("[0-9]{1,18}", corpus) else None,
        **{name: _in_one_form(group, text(ids, name)) for name, group in _NAMED.items()},
    }


def _in_one_form(group: str, name: str | None) -> str | None:
    """The part behind the group of an id in its one form; None for None."""
    return canonical(f"{group}/{name.strip()}").partition("/")[2] if name and name.strip() else None


def _dict(record: dict[str, Any], *fields: str) -> dict[str, Any]:
    """The first of the fields that is an object; {} if none is."""
    return next((record[name] for name in fields if isinstance(record.get(name), dict)), {})


def _id_of(row: Row) -> str:
    """<group>/<id> of the first id that a row has; title/<hash of the title> without any."""
    groups = {"corpus_id": "s2", "acl_id": "acl", "doi": "doi", "arxiv_id": "arxiv"}
    found = (f"{group}/{row[name]}" for name, group in groups.items() if row[name])
    return next(found, f"title/{hashlib.sha256(row['title'].casefold().encode()).hexdigest()[:16]}")
