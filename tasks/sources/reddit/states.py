"""What Reddit says today of items that are held: a file of states, what follows from it, and a newer score.

    {"id": "reddit/t1_x", "state": "present", "votes": 12, ..., "checked_at": "2026-11-21T10:00:00+00:00"}

`state` is present, deleted (by its author), removed (by moderators or Reddit) or missing (Reddit does not show it:
gone for good, or its subreddit is private or banned).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from longform.artifacts.rows import Rejected, Row, Rows
from longform.engine.stage import StageContext, stage
from longform.errors import SourceError, UsageError
from longform.files import unwritable, write_bytes
from schemas.sources.reddit import REDDIT_THREADS
from tasks.sources.reddit.dumps import GROUP, Record
from tasks.sources.reddit.reddit_api import IDS_A_REQUEST, fullname

STATES = ("present", "deleted", "removed", "missing")
REASONS = {"deleted": "deleted on Reddit", "removed": "removed on Reddit", "missing": "no longer on Reddit"}
_EVER = datetime.min.replace(tzinfo=UTC)
_ID_FIELDS = ("id", "post_id", "question_id", "answer_id", "name")

Ask = Callable[[list[str], str], list[Record]]
Clock = Callable[[], datetime]


class Advance(Protocol):
    def advance(self, name: str, bytes: int) -> None: ...


# ---------------------------------------------------------------- which items


def names_of(what: Iterable[str]) -> list[str]:
    """Full names (t1_x, t3_x), each once, of ids, permalinks and files of them.

    A file is Parquet (of posts, or of threads with their answers), JSON lines with an id, or an id a line.
    """
    found: dict[str, None] = {}
    for text in what:
        if name := fullname(text):
            found[name] = None
        elif Path(text).is_file():
            found.update(dict.fromkeys(_in_file(Path(text))))
        else:
            raise UsageError(f'"{text}" is neither an id of Reddit, such as reddit/t1_kod0b1, nor a file of them.')
    return list(found)


def _in_file(path: Path) -> Iterator[str]:
    if path.suffix == ".parquet":
        yield from _in_parquet(path)
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            text = line.decode(errors="replace").strip()
            if text:
                yield _in_line(text, f"{path}, line {number}")


def _in_line(text: str, place: str) -> str:
    fields = _record_of(text) or {}
    name = next((fields[field] for field in _ID_FIELDS if isinstance(fields.get(field), str)), text)
    if found := fullname(name):
        return found
    raise UsageError(f"{place}, holds no id of Reddit: write one a line, such as reddit/t1_kod0b1.")


def _in_parquet(path: Path) -> Iterator[str]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            column = next((name for name in _ID_FIELDS if name in names), None)
            if column is None:
                raise UsageError(f"{path} has none of the columns {', '.join(_ID_FIELDS)}: give posts or threads.")
            for batch in file.iter_batches(columns=[column, *(["answers"] if "answers" in names else [])]):
                for row in batch.to_pylist():
                    ids = [row[column], *(answer["answer_id"] for answer in row.get("answers") or ())]
                    yield from (name for own in ids if (name := fullname(str(own))))
    except pa.ArrowInvalid as error:
        raise SourceError(f"{path} is no Parquet file ({error}): give another.") from error


def _record_of(text: str | bytes) -> Record | None:
    try:
        record = json.loads(text)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


# ---------------------------------------------------------------- asking


def check(ask: Ask, names: Collection[str], place: Path, *, max_age: timedelta, now: Clock, progress: Advance) -> Path:
    """The file of states at `place`, with one for each name that was asked for within `max_age`.

    Every hundred states are on the disk before the next are asked for: an interrupted check goes on there. States of
    other items stay in the file.
    """
    partial = place.with_name(f"{place.name}.partial")
    known = _carried_over(place, partial, {f"{GROUP}/{name}" for name in names}, now() - max_age)
    open_names = (name for name in names if f"{GROUP}/{name}" not in known)
    try:
        with partial.open("ab") as file:
            while batch := list(islice(open_names, IDS_A_REQUEST)):
                states = ask(batch, now().isoformat(timespec="seconds"))
                file.write(b"".join(json.dumps(state).encode() + b"\n" for state in states))
                file.flush()
                os.fsync(file.fileno())
                progress.advance(place.name, len(batch))
        partial.replace(place)
    except OSError as error:
        raise unwritable(place, error) from None
    return place


def _carried_over(place: Path, partial: Path, wanted: set[str], oldest: datetime) -> set[str]:
    """Make `partial` hold the states that need not be asked for again, each id once; the ids of these."""
    kept: dict[str, bytes] = {}
    for line in (*_whole_lines(place), *_whole_lines(partial)):
        state = _record_of(line)
        if state and isinstance(state.get("id"), str):
            kept.pop(state["id"], None)
            if state["id"] not in wanted or _is_fresh(state, oldest):
                kept[state["id"]] = line
    write_bytes(partial, b"".join(line + b"\n" for line in kept.values()))
    return set(kept)


def _whole_lines(path: Path) -> list[bytes]:
    """The lines that end: a killed process may leave half of one."""
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def _is_fresh(state: Record, oldest: datetime) -> bool:
    try:
        checked = datetime.fromisoformat(state["checked_at"])
    except (KeyError, TypeError, ValueError):
        return False
    return checked.replace(tzinfo=checked.tzinfo or UTC) >= oldest


def write_takedowns(states: Path, place: Path, *, also_missing: bool) -> int:
    """A file for `longform takedowns add --file`, of what is gone from Reddit; how many lines it has.

    {"id": "reddit/t1_x", "reason": "deleted on Reddit", "date": "2026-11-21"}
    """
    gone = REASONS.keys() - (() if also_missing else ("missing",))
    found = [
        {"id": state["id"], "reason": REASONS[state["state"]], "date": state["checked_at"][:10]}
        for line in _whole_lines(states)
        if (state := _record_of(line)) and _is_fresh(state, _EVER) and state.get("state") in gone
    ]
    write_bytes(place, b"".join(json.dumps(line).encode() + b"\n" for line in found))
    return len(found)


# ---------------------------------------------------------------- using


class States:
    """A file of states as an argument of a stage: its identity is its content."""

    def __init__(self, path: Path, digest: Callable[[Path], str]) -> None:
        if not path.is_file():
            raise UsageError(f"{path} does not exist: make it with `longform fetch reddit`, or leave states unset.")
        self.path, self.sha256 = path, digest(path)

    def identity(self) -> dict[str, str]:
        return {"sha256": self.sha256}

    def by_id(self) -> dict[str, Record]:
        """The last state of each item."""
        found = {}
        for number, line in enumerate(_whole_lines(self.path), 1):
            state = _record_of(line)
            if state is None or not (
                state.get("state") in STATES and isinstance(state.get("id"), str) and _is_fresh(state, _EVER)
            ):
                raise SourceError(f"{self.path}, line {number}, is no state of an item: check the items again.")
            found[state["id"]] = state
        return found


@stage(REDDIT_THREADS, revision=1)
def refresh_threads(context: StageContext, threads: Rows, *, states: States) -> Iterator[Row | Rejected]:
    """Threads with the scores that Reddit showed at the check, without what was gone by then.

    Items without a state stay as they are.
    """
    known = states.by_id()
    for thread in threads:
        state = known.get(thread["question_id"], {})
        if state.get("state", "present") != "present":
            yield Rejected(thread["question_id"], "filtered", REASONS[state["state"]])
            continue
        answers = [(answer, known.get(answer["answer_id"], {})) for answer in thread["answers"]]
        here = [refreshed(answer, own) for answer, own in answers if own.get("state", "present") == "present"]
        context.count("answers gone from Reddit", len(answers) - len(here))
        context.count("refreshed", bool(state) + sum(bool(own) for _, own in answers))
        yield {**refreshed(thread, state), "answers": sorted(here, key=_by_votes)}


def _by_votes(answer: Row) -> tuple[bool, int, int, str]:
    """As threads are joined: most votes first, unknown last, then by id, which counts in base 36."""
    votes, own = answer["votes"], answer["answer_id"]
    return votes is None, -(votes or 0), len(own), own


def refreshed(row: Row, state: Record) -> Row:
    """The row with what is known newer of it; an author whose account was deleted has no hash any more."""
    if not state:
        return row
    seen = datetime.fromisoformat(state["checked_at"]).astimezone(UTC)
    newer: dict[str, Any] = {name: state[name] for name in ("votes", "upvote_ratio", "num_comments") if name in row}
    newer = {name: value for name, value in newer.items() if value is not None}
    if "votes" in newer:
        newer |= {"seen_at": seen, "score_age_s": int((seen - row["created"]).total_seconds())}
    gone = {"author_id": None, "author_deleted": True} if state.get("author_deleted") else {}
    return {**row, **newer, **gone}
