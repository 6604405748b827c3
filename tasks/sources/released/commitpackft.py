"""CommitPackFT: in each line one commit that changes one file, data/<language>/data.jsonl on the Hugging Face hub.

    {"commit": "3f0a…40 hex", "old_file": "tea/pot.py", "new_file": "tea/pot.py", "old_contents": "n = 1\\n",
     "new_contents": "n = 2\\n", "subject": "Make room for a second cup of tea", "message": "Make room …\\n\\nMore.\\n",
     "lang": "Python", "license": "mit", "repos": "ann/tea,bea/tea,ann/tea"}

All values are texts. `old_contents` is empty where the commit made the file; `new_contents` should never be. `repos`
repeats names. The set is MIT, but each file is under its repository's licence, in `license`. The hub's own loading
script runs in no current version of `datasets`: the files are read as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

import orjson
import pyarrow as pa
import xxhash

from longform.artifacts.rows import Rejected, Shard
from longform.engine.stage import StageContext, stage
from schemas.sources.code import COMMITS
from tasks.sources.files.batches import batch_of, batched
from tasks.sources.files.inputs import raw_text, retrieved_at
from tasks.sources.files.lines import read_lines

GROUP = "commitpackft"
REPOSITORY = "bigcode/commitpackft"
BATCH_ROWS = 1_000
BATCH_BYTES = 16 << 20
FIELDS = ("old_file", "new_file", "old_contents", "new_contents", "subject", "message", "lang", "repos")

_fields = itemgetter(*FIELDS)
_TEXTS = [str] * len(FIELDS)
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}/[A-Za-z0-9_.-]{1,100}")


def commit_row(record: dict[str, Any], retrieved: int | None) -> tuple[Any, ...] | str:
    """The values of a record for the columns of COMMITS; or, as a text, why it is no commit: an ill-formed hash, a
    field that is missing or no text, no contents after the commit, or no file name. `retrieved`: milliseconds since
    1970.
    """
    commit = record.get("commit")
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit := commit.lower()):
        return "missing or ill-formed commit"
    try:
        values = _fields(record)
    except KeyError as missing:
        return f"missing or ill-formed {missing.args[0]}"
    if [*map(type, values)] != _TEXTS:
        return f"missing or ill-formed {next(name for name in FIELDS if not isinstance(record[name], str))}"
    old_file, new_file, old_contents, new_contents, subject, message, language, repos = values
    if not new_contents:
        return "no contents after the commit"
    if not new_file:
        return "no name of the file"
    held = repositories(repos)
    licence, url = record.get("license"), permalink(held, commit)
    return (
        f"{GROUP}/{commit}/{new_file}",
        commit,
        language,
        old_file,
        new_file,
        old_contents,
        new_contents,
        subject,
        message,
        held,
        licence if isinstance(licence, str) and licence else None,
        url,
        retrieved,
    )


def repositories(repos: str) -> list[str]:
    """The names in a text that lists them with commas, each once, in order; spaces and empty names are dropped."""
    found = dict.fromkeys(repos.replace(" ", "").split(","))
    found.pop("", None)
    return [*found]


def permalink(repos: list[str], commit: str) -> str | None:
    """The address of the commit on GitHub, in the first of the repositories; None if there is none, or if its name is
    not of the form that GitHub allows.
    """
    return f"https://github.com/{repos[0]}/commit/{commit}" if repos and _REPO.fullmatch(repos[0]) else None


@stage(COMMITS, revision=1)
def read_commits(context: StageContext, files: Shard) -> Iterator[pa.RecordBatch | Rejected]:
    """Commits in the order of the file. A Rejected for a line that is no commit, for one that repeats the commit and
    file of an earlier line, and for one that changes nothing.
    """
    yield from parse_commits(read_lines(files), retrieved_at(files.source))


def parse_commits(lines: Iterable[bytes], retrieved: int | None) -> Iterator[pa.RecordBatch | Rejected]:
    """Record batches of COMMITS, in the lines' order, and a Rejected for each line that is not used: a defect if it is
    no commit, filtered if it changes nothing or repeats the commit and file of an earlier line. `retrieved`:
    milliseconds since 1970.
    """
    rows = _rows(lines, retrieved)
    yield from batched(rows, lambda rows: batch_of(rows, COMMITS), rows=BATCH_ROWS, size=BATCH_BYTES)


def _rows(lines: Iterable[bytes], retrieved: int | None) -> Iterator[tuple[tuple[Any, ...], int] | Rejected]:
    """(values for the columns of COMMITS, bytes of the line) or a Rejected for each line."""
    seen: set[int] = set()
    for position, line in enumerate(lines, start=1):
        row = _row(line, position, retrieved, seen)
        yield row if isinstance(row, Rejected) else (row, len(line))


def _row(line: bytes, position: int, retrieved: int | None, seen: set[int]) -> tuple[Any, ...] | Rejected:
    """The values of a line for the columns of COMMITS, or a Rejected. `position`: the line's number, from 1. `seen`:
    hashes of the ids (commit and file) so far, to which this one's is added.
    """
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return _defect(f"line {position}", "unreadable line", line, str(error))
    if not isinstance(record, dict):
        return _defect(f"line {position}", "no record", line)
    row = commit_row(record, retrieved)
    if isinstance(row, str):
        named = (value if isinstance(value := record.get(name), str) else "?" for name in ("commit", "new_file"))
        return _defect("/".join((GROUP, *named)), row, line)
    key = xxhash.xxh3_64_intdigest(row[0].encode())
    if key in seen:
        return Rejected(row[0], "filtered", "commit and file seen before", f"line {position}")
    seen.add(key)
    if record["old_contents"] == record["new_contents"]:
        return Rejected(row[0], "filtered", "contents unchanged")
    return row


def _defect(key: str, reason: str, line: bytes, detail: str | None = None) -> Rejected:
    """A Rejected of the kind `defect`, with the beginning of the line as `raw`."""
    return Rejected(key, "defect", reason, detail, raw_text(line))
