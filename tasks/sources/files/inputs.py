"""Input files as sources: found, checked, identified by their content, with what a fetch noted in a side file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from longform.artifacts.rows import Source
from longform.errors import SourceError, UsageError

WHOLE = (0, -1)
SIDE_FILE = ".fetch.json"
NOTES = (SIDE_FILE, ".part.json")
LARGEST_RATIO = 1_000
RATIO_FROM_BYTES = 64 << 20
SHORTEST_LINE = 4
RAW_CHARS = 2_000
DENSE_FROM_BYTES = 128 << 10
PACKED = (".gz", ".zst", ".zst_blocks", ".bz2", ".xz", ".7z", ".zip", ".tar")


def open_files(
    paths: Iterable[Path | str],
    *,
    group: str,
    endings: Sequence[str],
    digest: Callable[[Path], str],
    retrieved_at: str | None = None,
    facts: Sequence[tuple[str, str | None]] = (),
    piece_bytes: int | None = None,
) -> list[Source]:
    """A source for each file in `paths`, and for each file with one of `endings` in the folders of `paths`, in this
    order; within a folder by path. Of files with equal contents the first.

    A plain file is cut into pieces of `piece_bytes`, if given; a packed one is one piece. The fact `retrieved_at` is
    that of the file's side file, else the argument. SourceError for a file that is missing, empty or may not be read.
    """
    found: dict[str, Source] = {}
    for path in map(Path, paths):
        files = [file for file in files_in(path) if file == path or file.name.lower().endswith(tuple(endings))]
        if not files:
            raise SourceError(f"{path} holds no file that ends in {', '.join(endings)}: give the files themselves.")
        for file in files:
            size, cut = check_file(file), None if file.name.lower().endswith(PACKED) else piece_bytes
            noted = (("name", file.name), ("retrieved_at", fetched_at(file, retrieved_at)), *facts)
            source = Source(group, str(file), digest(file), noted, cut_evenly(size, cut) if cut else (WHOLE,))
            found.setdefault(source.sha256, source)
    if not found:
        raise UsageError("No file was named: give a file, a folder, or several.")
    return list(found.values())


def files_in(path: Path) -> list[Path]:
    """The file itself, or all files below the folder, sorted by path. Hidden files and side files of fetches are left
    out. SourceError where `path` does not exist.
    """
    if not path.exists():
        raise SourceError(f"{path} does not exist: give a file or a folder that is there.")
    if not path.is_dir():
        return [path]
    files = (file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
    return sorted(file for file in files if not file.name.endswith(NOTES))


def check_access(file: Path) -> None:
    """SourceError where this user may not read the file."""
    if not os.access(file, os.R_OK):
        raise SourceError(f"{file} may not be read by this user: change its permissions.")


def check_file(file: Path, advice: str = "give a file that holds records, or fetch it again") -> int:
    """The file's size in bytes. SourceError where it is empty, with `advice` what to do then, or may not be read."""
    check_access(file)
    if not (size := file.stat().st_size):
        raise SourceError(f"{file} is empty: {advice}.")
    return size


def cut_evenly(size: int, piece_bytes: int) -> tuple[tuple[int, int], ...]:
    """(start, end) of consecutive pieces of `piece_bytes` each that cover 0 to `size`; the last may be shorter."""
    return tuple((start, min(start + piece_bytes, size)) for start in range(0, size, piece_bytes))


def fetched_at(file: Path, otherwise: str | None = None) -> str | None:
    """When `longform fetch` got this file, from its side file, else `otherwise`: ISO 8601. UsageError where it is no
    date.
    """
    found = read_notes(file.with_name(file.name + SIDE_FILE)).get("retrieved_at")
    when = (found if isinstance(found, str) else None) or otherwise
    if when is not None:
        moment(when)
    return when


def read_notes(file: Path) -> dict[str, Any]:
    """The JSON object in a file; empty where there is no file, it cannot be read, or has no such object."""
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def refuse_bomb(subject: object, unpacked_bytes: int, packed_bytes: int) -> None:
    """SourceError where more than RATIO_FROM_BYTES were unpacked, and more than LARGEST_RATIO times the packed size, as
    no text packs: it packs to a hundredth at best. `subject` is what the message calls the file.
    """
    if unpacked_bytes > RATIO_FROM_BYTES and unpacked_bytes > LARGEST_RATIO * max(1, packed_bytes):
        raise SourceError(
            f"{subject} unpacks to more than {LARGEST_RATIO} times its size, as only hostile files do: leave it out."
        )


def refuse_empty_lines(subject: object, lines: int, length: int) -> None:
    """SourceError for a block of `length` bytes whose `lines` line feeds leave almost no text between them: such lines
    hold no records, but each costs time.
    """
    if length >= DENSE_FROM_BYTES and lines * SHORTEST_LINE > length:
        raise SourceError(
            f"{subject} holds lines of less than {SHORTEST_LINE} bytes by the ten thousands, as only hostile files do: "
            "leave it out."
        )


def moment(text: str) -> int:
    """An ISO 8601 date or time as milliseconds since 1970; UTC where it names no zone. UsageError where it is
    ill-formed.
    """
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f'retrieved_at "{text}" is no ISO 8601 date: write e.g. 2024-06-30.') from error
    return int(when.replace(tzinfo=when.tzinfo or UTC).timestamp() * 1000)


def retrieved_at(source: Source) -> int | None:
    """When the source was fetched, in milliseconds since 1970, from its fact `retrieved_at`; None where it has none."""
    when = dict(source.facts).get("retrieved_at")
    return None if when is None else moment(when)


def raw_text(raw: str | bytes) -> str:
    """The first RAW_CHARS characters of a rejected record, as text that can be stored as UTF-8."""
    text = raw[:RAW_CHARS].encode("utf-8", "replace") if isinstance(raw, str) else raw[: 4 * RAW_CHARS]
    return text.decode("utf-8", "replace")[:RAW_CHARS]


def text_or_none(value: Any) -> str | None:
    """The value if it is a string and not empty, else None."""
    return value if isinstance(value, str) and value else None
