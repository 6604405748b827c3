"""Input files as sources: found, checked, identified by their content, with what a fetch wrote to <name>.fetch.json."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from longform.artifacts.rows import Source
from longform.errors import SourceError, UsageError
from longform.files import sha256_of

WHOLE = (0, -1)
SIDE_FILE = ".fetch.json"
NOTES = (SIDE_FILE, ".part.json")
RAW_CHARS = 2_000
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
    """A source for each file that `paths` names, whatever its ending, and for each file with one of `endings` (in lower
    case) in a folder that `paths` names; in this order, within a folder by path. Of files with equal contents the
    first.

    A file is cut into pieces of `piece_bytes` bytes, if given; one that is packed, by its name (PACKED), is one piece.
    Facts of a source: `name`, the file's; `retrieved_at`, from <name>.fetch.json beside the file, else the argument;
    and `facts`. SourceError for a file that is missing, empty or may not be read, and for a folder without such a file;
    UsageError if `paths` is empty, or a `retrieved_at` is no ISO 8601 date.
    """
    found: dict[str, Source] = {}
    for path in map(Path, paths):
        files = [file for file in files_in(path) if file == path or file.name.lower().endswith(tuple(endings))]
        if not files:
            left = " but links, which are not followed" if links_in(path) else ""
            raise SourceError(
                f"{path} holds no file that ends in {', '.join(endings)}{left}: give the files themselves."
            )
        for file in files:
            size, cut = check_file(file), None if file.name.lower().endswith(PACKED) else piece_bytes
            noted = (("name", file.name), ("retrieved_at", fetched_at(file, retrieved_at)), *facts)
            source = Source(group, str(file), digest(file), noted, cut_evenly(size, cut) if cut else (WHOLE,))
            found.setdefault(source.sha256, source)
    if not found:
        raise UsageError("No file was named: give a file, a folder, or several.")
    return list(found.values())


def with_distinct_names(files: Sequence[Source]) -> list[Source]:
    """The files with a `name` of their own: where several have the same, with as many folders in front as tell them
    apart, e.g. one/README.md and two/README.md.
    """
    tails = [["/".join(Path(file.path).parts[-most:]) for most in range(1, 100)] for file in files]
    times = Counter(name for own in tails for name in dict.fromkeys(own))
    names = [next((name for name in own if times[name] == 1), own[-1]) for own in tails]
    return [
        replace(file, facts=tuple({**dict(file.facts), "name": name}.items()))
        for file, name in zip(files, names, strict=True)
    ]


def files_in(path: Path) -> list[Path]:
    """The file itself, or all files in and below the folder, sorted by path, without hidden ones, those in which a
    fetch keeps notes (names that end as in NOTES), and symbolic links (`links_in`). SourceError if `path` does not
    exist, or a folder may not be read.
    """
    if not path.exists():
        raise SourceError(f"{path} does not exist: give a file or a folder that is there.")
    if not path.is_dir():
        return [path]
    return [entry for entry in _entries(path) if not entry.is_symlink() and entry.is_file()]


def links_in(path: Path) -> list[Path]:
    """The symbolic links in and below a folder, to files and to folders, sorted by path; [] for a file. They are not
    followed: whoever packed the folder could point them at any file of this machine. One that a user names is.
    """
    return [entry for entry in _entries(path) if entry.is_symlink()] if path.is_dir() else []


def repeated_in(paths: Iterable[Path], read_once: Collection[str]) -> list[tuple[Path, Path]]:
    """(file, the first with the same bytes) of the files in `paths` whose content another has that comes before it, if
    its SHA-256 is in `read_once`: so neither files that are no records, nor those read under each of their names.
    """
    by_size, found = defaultdict[int, list[Path]](list), list[tuple[Path, Path]]()
    for file in dict.fromkeys(file for path in paths for file in files_in(path)):
        by_size[file.stat().st_size].append(file)
    for files in (files for files in by_size.values() if len(files) > 1):
        first = dict[str, Path]()
        digests = [(file, sha256_of(file)) for file in files]
        known = [(file, sha256) for file, sha256 in digests if sha256 in read_once]
        found += [(file, first[sha256]) for file, sha256 in known if first.setdefault(sha256, file) != file]
    return found


def _entries(folder: Path) -> list[Path]:
    """What is in the folder and below, without what is behind links, sorted by path; no hidden names, no notes."""
    found = [
        Path(place, name) for place, folders, files in os.walk(folder, onerror=_closed) for name in (*folders, *files)
    ]
    return sorted(entry for entry in found if not entry.name.startswith(".") and not entry.name.endswith(NOTES))


def _closed(error: OSError) -> None:
    """Raise SourceError for a folder that could not be listed."""
    raise SourceError(f"{error.filename} cannot be read ({error.strerror}): change its permissions.")


def check_access(file: Path) -> None:
    """SourceError if this user may not read the file."""
    if not os.access(file, os.R_OK):
        raise SourceError(f"{file} may not be read by this user: change its permissions.")


def check_file(file: Path, advice: str = "give a file that holds records, or fetch it again") -> int:
    """The file's size in bytes. SourceError if it may not be read, or if it is empty; `advice` then says what to do."""
    check_access(file)
    if not (size := file.stat().st_size):
        raise SourceError(f"{file} is empty: {advice}.")
    return size


def cut_evenly(size: int, piece_bytes: int) -> tuple[tuple[int, int], ...]:
    """(start, end) of consecutive pieces of `piece_bytes` each that cover 0 to `size`, in bytes or any other unit; the
    last may be shorter. Empty if `size` is 0.
    """
    return tuple((start, min(start + piece_bytes, size)) for start in range(0, size, piece_bytes))


def fetched_at(file: Path, otherwise: str | None = None) -> str | None:
    """When the file was fetched, as ISO 8601: what `longform fetch` wrote to <name>.fetch.json beside it, else
    `otherwise`; None if neither says it. A date beside the file that is ill-formed counts as none; UsageError if
    `otherwise` is no ISO 8601 date.
    """
    found = read_notes(file.with_name(file.name + SIDE_FILE)).get("retrieved_at")
    with suppress(UsageError, OverflowError):
        if isinstance(found, str):
            moment(found)
            return found
    if otherwise is not None:
        moment(otherwise)
    return otherwise


def read_notes(file: Path) -> dict[str, Any]:
    """The JSON object in a file; {} if there is no file, if it cannot be read, is a symbolic link or a pipe, or if it
    holds something else.
    """
    if file.is_symlink() or not file.is_file():
        return {}
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def moment(text: str) -> int:
    """An ISO 8601 date, with or without a time, as milliseconds since 1970; UTC if it names no zone. UsageError if it
    is ill-formed.
    """
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f'retrieved_at "{text}" is no ISO 8601 date: write e.g. 2024-06-30.') from error
    return int(when.replace(tzinfo=when.tzinfo or UTC).timestamp() * 1000)


def retrieved_at(source: Source) -> int | None:
    """When the source was fetched, in milliseconds since 1970, from its fact `retrieved_at`; None if it has none."""
    when = dict(source.facts).get("retrieved_at")
    return None if when is None else moment(when)


def raw_text(raw: str | bytes) -> str:
    """The first RAW_CHARS characters of a rejected record, as text that can be stored as UTF-8: what is ill-formed is
    replaced.
    """
    text = raw[:RAW_CHARS].encode("utf-8", "replace") if isinstance(raw, str) else raw[: 4 * RAW_CHARS]
    return text.decode("utf-8", "replace")[:RAW_CHARS]


def text_or_none(value: Any) -> str | None:
    """The value if it is a string and not empty, else None."""
    return value if isinstance(value, str) and value else None
