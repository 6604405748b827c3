"""Files as sources: found, checked, identified by their content, with what a fetch noted beside them."""

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
    """The sources of these files, and of the files with one of `endings` in these folders, by their names.

    Each file once, however often it is named. A plain file is cut at multiples of `piece_bytes`, if given; a packed
    one is one piece. `retrieved_at` is that of the fetch's side file, else the one given.
    """
    found: dict[str, Source] = {}
    for path in map(Path, paths):
        files = [file for file in files_in(path) if file == path or file.name.lower().endswith(tuple(endings))]
        if not files:
            raise SourceError(f"{path} holds no file that ends in {', '.join(endings)}: give the files themselves.")
        for file in files:
            size, cut = check_file(file), None if file.name.lower().endswith(PACKED) else piece_bytes
            noted = (("name", file.name), ("retrieved_at", fetched_at(file, retrieved_at)), *facts)
            source = Source(group, str(file), digest(file), noted, ranges(size, cut) if cut else (WHOLE,))
            found.setdefault(source.sha256, source)
    if not found:
        raise UsageError("No file was named: give a file, a folder, or several.")
    return list(found.values())


def files_in(path: Path) -> list[Path]:
    """The file itself, or those of the folder, by name, without hidden ones and what stands beside a fetched one."""
    if not path.exists():
        raise SourceError(f"{path} does not exist: give a file or a folder that is there.")
    if not path.is_dir():
        return [path]
    files = (file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
    return sorted(file for file in files if not file.name.endswith(NOTES))


def check_access(file: Path) -> None:
    if not os.access(file, os.R_OK):
        raise SourceError(f"{file} may not be read by this user: change its permissions.")


def check_file(file: Path, advice: str = "give a file that holds records, or fetch it again") -> int:
    """Its bytes; SourceError where it has none, or may not be read."""
    check_access(file)
    if not (size := file.stat().st_size):
        raise SourceError(f"{file} is empty: {advice}.")
    return size


def ranges(size: int, piece_bytes: int) -> tuple[tuple[int, int], ...]:
    """Pieces of so many bytes, the last one of what is left."""
    return tuple((start, min(start + piece_bytes, size)) for start in range(0, size, piece_bytes))


def fetched_at(file: Path, otherwise: str | None = None) -> str | None:
    """When `longform fetch` got this file, as its side file says, else `otherwise`; UsageError where it is no date."""
    found = noted(file.with_name(file.name + SIDE_FILE)).get("retrieved_at")
    when = (found if isinstance(found, str) else None) or otherwise
    if when is not None:
        moment(when)
    return when


def noted(file: Path) -> dict[str, Any]:
    """The JSON object in a file; empty where there is none, or none that can be read."""
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def refuse_bomb(subject: object, unpacked_bytes: int, packed_bytes: int) -> None:
    """SourceError where a packed file grows as no text does: text packs to a hundredth at best."""
    if unpacked_bytes > RATIO_FROM_BYTES and unpacked_bytes > LARGEST_RATIO * max(1, packed_bytes):
        raise SourceError(
            f"{subject} unpacks to more than {LARGEST_RATIO} times its size, as only hostile files do: leave it out."
        )


def refuse_chaff(subject: object, lines: int, length: int) -> None:
    """SourceError for a block of next to nothing but line feeds: such lines hold no records, but each costs time."""
    if length >= DENSE_FROM_BYTES and lines * SHORTEST_LINE > length:
        raise SourceError(
            f"{subject} holds lines of less than {SHORTEST_LINE} bytes by the ten thousands, as only hostile files do: "
            "leave it out."
        )


def moment(text: str) -> int:
    """Milliseconds since 1970 of an ISO 8601 date or time; UTC where it names no zone."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f'retrieved_at "{text}" is no ISO 8601 date: write e.g. 2024-06-30.') from error
    return int(when.replace(tzinfo=when.tzinfo or UTC).timestamp() * 1000)


def retrieved_at(source: Source) -> int | None:
    """Milliseconds since 1970 when a source was fetched; None where nothing says it."""
    when = dict(source.facts).get("retrieved_at")
    return None if when is None else moment(when)


def raw_text(raw: str | bytes) -> str:
    """The beginning of a record that is left out, as UTF-8 holds it."""
    text = raw[:RAW_CHARS].encode("utf-8", "replace") if isinstance(raw, str) else raw[: 4 * RAW_CHARS]
    return text.decode("utf-8", "replace")[:RAW_CHARS]


def text_or_none(value: Any) -> str | None:
    """A text of a record; None where it is empty, or something else."""
    return value if isinstance(value, str) and value else None
