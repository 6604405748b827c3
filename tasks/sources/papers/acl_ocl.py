"""ACL OCL: papers of the ACL Anthology, as one table and as a JSON file for each.

acl-publication-info.*.parquet, 21 columns, of which we read

    {"acl_id": "2020.acl-main.7", "title": "On {T}ea", "author": "Lee, Ann  and\\n      Bo, Cy", "year": "2020",
     "abstract": "We boil water.", "full_text": "On Tea Ann Lee …", "corpus_paper_id": 218487002, "doi": "10.18653/…",
     "url": "https://aclanthology.org/2020.acl-main.7", "booktitle": "Proceedings of …", "journal": null,
     "publisher": "Association for Computational Linguistics", …}

Values come from BibTeX: authors are parted by `and`, family name first, and titles hold braces. `full_text` is one flat
text without sections or citations, and empty for many: it is counted, and not read; the text comes from

Base_JSON/prefix<X>/json/<volume>/<acl_id>.json     what doc2json made of GROBID's TEI (see tasks.sources.s2orc.s2orc)

Front matter of volumes is among them (P18-1000, W08-1300, 2020.acl-main.0). The Anthology gives materials of ACL
from 2016 on under CC BY 4.0, older ones under CC BY-NC-SA 3.0 (its FAQ on copyright); of others, such as ELRA's LREC,
it says nothing, so neither do we.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from longform.artifacts.rows import Rejected, Row, Shard
from longform.engine.stage import AtMost, StageContext, stage
from longform.errors import SourceError
from schemas.sources.papers import METADATA, PAPERS
from tasks.sources.files.batches import batched
from tasks.sources.files.bundles import Member, members
from tasks.sources.files.inputs import moment, raw_text, retrieved_at
from tasks.sources.files.sizes import most_bytes, most_records
from tasks.sources.paper_body import papers_batch as papers_of
from tasks.sources.s2orc.s2_records import Unusable, from_doc2json, whole_number

GROUP = "acl"
SITE = "https://aclanthology.org"
BATCH_ROWS = 500
BATCH_PAPERS = 50
ENDINGS = (".json",)
MAX_JSON_BYTES = 32 << 20
COLUMNS = (
    "acl_id",
    "title",
    "author",
    "year",
    "abstract",
    "corpus_paper_id",
    "doi",
    "url",
    "booktitle",
    "journal",
    "publisher",
)
FULL_TEXT = "full_text"
NEW_LICENCE, NEW_FROM, OLD_LICENCE = "CC BY 4.0", 2016, "CC BY-NC-SA 3.0"

_OLD_ID = re.compile(r"[A-Z]([0-9]{2})-[0-9]{4,5}")
_NEW_ID = re.compile(r"((?:19|20)[0-9]{2})\.[a-z0-9]+-[A-Za-z0-9]+\.[0-9]+")
_AND = re.compile(r"\s+and\s+")
_BLANK = re.compile(r"\s+")
_DOI = re.compile(r"10\.[0-9]{4,9}/\S+")


# ---------------------------------------------------------------- ids


def is_acl_id(acl_id: str) -> bool:
    """Whether a text has the form of an id of the ACL Anthology, such as P18-1001 or 2020.acl-main.7."""
    return year_of(acl_id) is not None


def is_front_matter(acl_id: str) -> bool:
    """Whether an id is that of a volume or its front matter: its paper number is 0. False for a text that is no id of
    the Anthology.

    In an old id (P18-1000) one digit after the hyphen is the volume's; two are in workshops (W), C69, and D19 from
    D19-50 on.
    """
    if not is_acl_id(acl_id):
        return False
    of_volume = 2 if acl_id.startswith(("W", "C69-", "D19-5", "D19-6")) else 1
    number = acl_id.rpartition(".")[2] if "." in acl_id else acl_id.partition("-")[2][of_volume:]
    return int(number) == 0


def year_of(acl_id: str) -> int | None:
    """The year that an id of the Anthology contains (1960 to 2059 for two digits); None if the text is no such id."""
    if match := _NEW_ID.fullmatch(acl_id):
        return int(match[1])
    match = _OLD_ID.fullmatch(acl_id)
    return (1900 if int(match[1]) >= 60 else 2000) + int(match[1]) if match else None


def licence_of(acl_id: str, year: int | None, publisher: str | None = None) -> str | None:
    """The licence of the ACL's own materials: NEW_LICENCE from NEW_FROM on, before that OLD_LICENCE. None without a
    year, for a paper of LREC (by its id), and if another publisher than the ACL is named.
    """
    others = publisher and not re.search(r"association for computational linguistics|\bacl\b", publisher, re.IGNORECASE)
    if others or year is None or acl_id.startswith("L") or ".lrec-" in acl_id:
        return None
    return NEW_LICENCE if year >= NEW_FROM else OLD_LICENCE


# ---------------------------------------------------------------- the table


def metadata_row(record: dict[str, Any], retrieved: int | None) -> Row | Rejected:
    """The row of METADATA for a record of the table; a Rejected for front matter (filtered) and for a record without a
    valid id (a defect). `retrieved`: milliseconds since 1970. The year is the record's if from 1900 to 2100, else the
    one in the id.
    """
    acl_id = _text(record["acl_id"])
    if acl_id is None or not is_acl_id(acl_id):
        return Rejected(f"{GROUP}/{acl_id}", "defect", "missing or ill-formed acl_id", raw=raw_text(str(record)))
    if is_front_matter(acl_id):
        return Rejected(f"{GROUP}/{acl_id}", "filtered", "front matter of a volume")
    printed = _number(record["year"]) or 0
    year = printed if 1900 <= printed <= 2100 else year_of(acl_id)
    doi = _DOI.search((_text(record["doi"]) or "").lower())
    url = _text(record["url"]) or ""
    return {
        "paper_id": f"{GROUP}/{acl_id}",
        "corpus_id": _number(record["corpus_paper_id"]),
        "title": _plain(record["title"]),
        "authors": authors(_text(record["author"]) or ""),
        "year": year,
        "venue": _plain(record["booktitle"]) or _plain(record["journal"]),
        "abstract": _text(record["abstract"]),
        "doi": doi[0] if doi else None,
        "acl_id": acl_id,
        "licence": licence_of(acl_id, year, _plain(record["publisher"])),
        "url": url if url.startswith(("https://", "http://")) else permalink(acl_id),
        "retrieved_at": retrieved,
    }


def permalink(acl_id: str) -> str:
    """The address of the paper's page in the ACL Anthology."""
    return f"{SITE}/{acl_id}"


def authors(field: str) -> list[str]:
    """Full names from the author field of a BibTeX entry: `Lee, Ann and Bo, Cy` gives Ann Lee and Cy Bo. Braces are
    removed; empty for a blank field.
    """
    people = [_BLANK.sub(" ", person).strip() for person in _AND.split(_unbraced(field))]
    parted = [person.partition(",") for person in people if person]
    return [f"{given.strip()} {family.strip()}".strip() for family, _, given in parted]


def _plain(value: Any) -> str | None:
    """A BibTeX value on one line, without its braces; None if it is no text or nothing is left."""
    return _BLANK.sub(" ", _unbraced(_text(value) or "")).strip() or None


def _unbraced(value: str) -> str:
    """The text without its braces."""
    return value.replace("{", "").replace("}", "")


def _text(value: Any) -> str | None:
    """The value, stripped, if it is a text and not blank; else None."""
    return value.strip() or None if isinstance(value, str) else None


def _number(value: Any) -> int | None:
    """A whole number from 0 up to 2**53, also from "2020" and 2020.0, as tables with gaps hold them; None for any other
    value.
    """
    number = whole_number(value.strip() if isinstance(value, str) else value)
    return number if 0 <= number < 2**53 else None


@stage(METADATA, revision=1, at_most=AtMost(bytes=most_bytes("files"), rows=most_records("files", "")))
def read_acl_metadata(context: StageContext, files: Shard) -> Iterator[pa.RecordBatch | Rejected]:
    """A row of METADATA for each paper of the table, in its order; a Rejected for front matter, for a record without a
    valid id, and for one that repeats an id. Counts records with and without a full text. SourceError if a column is
    missing or the file is damaged.
    """
    when = retrieved_at(files.source)
    seen: set[str] = set()
    for batch in _table(files):
        _count_texts(context, batch)
        rows = [_once(metadata_row(record, when), seen, "file") for record in batch.select(list(COLUMNS)).to_pylist()]
        yield from (row for row in rows if isinstance(row, Rejected))
        if kept := [row for row in rows if not isinstance(row, Rejected)]:
            yield pa.RecordBatch.from_pylist(kept, schema=METADATA)


def _once(row: Row | Rejected, seen: set[str], where: str) -> Row | Rejected:
    """The row, whose paper_id is added to `seen`; a Rejected (filtered) if it is there already, with `where` ("file",
    "bundle") in its reason. A Rejected is returned unchanged.
    """
    if isinstance(row, Rejected):
        return row
    if row["paper_id"] in seen:
        return Rejected(row["paper_id"], "filtered", f"seen before in this {where}")
    seen.add(row["paper_id"])
    return row


def _table(piece: Shard) -> Iterator[pa.RecordBatch]:
    """The columns in COLUMNS and FULL_TEXT of a Parquet file, whole, in batches of up to BATCH_ROWS rows: the file may
    be one row group of gigabytes. SourceError if a column is missing or the file is damaged.
    """
    path = Path(piece.source.path)
    try:
        with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            missing = [name for name in (*COLUMNS, FULL_TEXT) if name not in file.schema_arrow.names]
            if missing:
                raise SourceError(f"{path} has no column {missing[0]}: give ACL OCL's table of publications.")
            yield from file.iter_batches(batch_size=BATCH_ROWS, columns=[*COLUMNS, FULL_TEXT], use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path} is damaged or no Parquet ({error}): fetch it again.") from error


def _count_texts(context: StageContext, batch: pa.RecordBatch) -> None:
    """Add the numbers of rows with and without a full text to the stage's counters of these names."""
    texts = batch.column(FULL_TEXT).cast(pa.large_string())  # of a table without a single text the type is null
    full = pc.sum(pc.greater(pc.fill_null(pc.binary_length(texts), 0), 0)).as_py() or 0
    context.count("with full text", full)
    context.count("without full text", len(batch) - full)


# ---------------------------------------------------------------- the files


def paper_row(member: Member, retrieved: int | None) -> Row | Rejected:
    """The row of PAPERS for the JSON file of a paper, or a Rejected: filtered for front matter, a defect for a file
    that has a fault (also a repeated one), is no usable record, or has no id in its name. `retrieved`: milliseconds
    since 1970.
    """
    acl_id = acl_id_of(member.name)
    key = f"{GROUP}/{acl_id or member.name}"
    if acl_id is not None and is_front_matter(acl_id):
        return Rejected(key, "filtered", "front matter of a volume")
    if member.fault is not None:
        return Rejected(key, "defect", member.fault)
    try:
        record = orjson.loads(member.content)
    except orjson.JSONDecodeError as error:
        return _defect(key, "unreadable file", member, str(error))
    if not isinstance(record, dict) or acl_id is None:
        return _defect(key, "no record" if acl_id else "missing or ill-formed acl_id", member)
    try:
        row = from_doc2json(record, paper_id=key, retrieved_at=retrieved, url=permalink(acl_id))
    except Unusable as fault:
        return _defect(key, fault.reason, member, fault.detail)
    year = row["year"] or year_of(acl_id)
    return {**row, "acl_id": acl_id, "year": year, "licence": licence_of(acl_id, year_of(acl_id))}


def acl_id_of(name: str) -> str | None:
    """The Anthology's id in the name of a JSON file, `<id>.json` with any folders before it, perhaps packed
    (`.json.gz`); None if the name has none.
    """
    acl_id = re.sub(r"\.json(\.[a-z0-9]+)?$", "", name.replace("\\", "/").rsplit("/", 1)[-1])
    return acl_id if is_acl_id(acl_id) else None


def _defect(key: str, reason: str, member: Member, detail: str | None = None) -> Rejected:
    """A Rejected of the kind `defect`, with the beginning of the file as `raw`."""
    return Rejected(key, "defect", reason, detail, raw_text(member.content))


@stage(PAPERS, revision=1, at_most=AtMost(bytes=most_bytes("files"), rows=most_records("files", "")))
def read_acl_papers(context: StageContext, files: Shard) -> Iterator[pa.RecordBatch | Rejected]:
    """A row of PAPERS for each JSON file, in the files' order; a Rejected for front matter, for a file that cannot be
    used, and for one that repeats an id.
    """
    yield from batched(_papers(files, dict(files.source.facts).get("fetched")), papers_of, rows=BATCH_PAPERS)


def _papers(files: Shard, default: str | None) -> Iterator[tuple[Row, int] | Rejected]:
    """(row, 1) or a Rejected for each JSON file. `default`: when a file was fetched of which no time is recorded (ISO
    8601; None: unknown).
    """
    seen: set[str] = set()
    for member in members(files, endings=ENDINGS, max_bytes=MAX_JSON_BYTES):
        when = member.retrieved_at or default
        row = _once(paper_row(member, None if when is None else moment(when)), seen, "bundle")
        yield row if isinstance(row, Rejected) else (row, 1)
