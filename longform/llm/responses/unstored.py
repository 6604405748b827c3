"""Answers that a database did not take, kept in files beside the home's store until it takes them.

    <home>/llm/unstored/<process id>-<random>.jsonl     one line for each put: its checksum, a space, then as JSON
    {"records": [[key, {fields of Record}]], "lines": [[id, created, {fields of Paid}]]}

Bytes are {"base64": "..."}. A file is of mode 600, and locked by the process that writes it for as long as that has
its database open. The next process that opens the store to write stores what it finds, and deletes the file. A line
that a kill cut off is passed over.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import uuid
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

from longform.errors import StoreError
from longform.llm.responses.records import Line, Paid, Record, chunks
from longform.machines import temporary

PUTS_AT_ONCE = 64

Entry = tuple[Sequence[tuple[str, Record]], Sequence[Line]]


class Unstored:
    """The file in `folder` (None: there is none) with what this process could not store; made when first needed. To be
    used by one thread at a time.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._path, self._file, self._size = Path(), -1, 0
        self._kept = self._lost = 0

    def keep(self, entries: Sequence[Entry], errors: Sequence[Exception]) -> list[Exception]:
        """Write down the entries whose puts ended with these errors. The result has a StoreError for each, which also
        says how many answers are kept so far, and how many are lost as they could not even be written here; other
        errors, and those of entries that no store could take, are returned as they are.
        """
        lines = [
            _written(entry) if isinstance(error, StoreError) else None
            for entry, error in zip(entries, errors, strict=True)
        ]
        answers = sum(max(1, len(entry[0])) for entry, line in zip(entries, lines, strict=True) if line)
        if not answers:
            return list(errors)
        try:
            self._append(b"".join(filter(None, lines)))
            self._kept += answers
            why = ""
        except OSError as error:
            self._lost += answers
            why = error.strerror or str(error)
        said = self.said(why)
        return [StoreError(f"{error} {said}") if line else error for line, error in zip(lines, errors, strict=True)]

    def said(self, why: str = "") -> str:
        """The sentences that say how many answers are kept, and how many are lost, and why these are; empty if none
        is.
        """
        kept = (
            f"Kept until it is opened again, in {self._path}: {self._kept:,} answers that were paid for."
            if self._kept
            else ""
        )
        lost = f"Lost: {self._lost:,} answers that were paid for ({why or 'the disk was full'})." if self._lost else ""
        return " ".join(filter(None, (kept, lost)))

    def _append(self, content: bytes) -> None:
        """Append to the file and flush it to disk. OSError where that fails; the file is then as it was before."""
        if self._folder is None:
            raise OSError(0, "no home is given to keep them in")
        if self._file < 0:
            self._path, self._file = _created(self._folder)
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
            self._size += len(content)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
                os.lseek(self._file, self._size, os.SEEK_SET)
            raise

    def close(self) -> None:
        """Leave the file to the next process that opens the store."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def replay(folder: Path, restore: Callable[[Sequence[tuple[str, Record]], Sequence[Line]], None]) -> None:
    """Call `restore` with the records and lines that ended processes left in a folder, and delete their files. The
    errors of `restore` are raised; the file that it failed in stays, as do those that another process is writing.
    """
    for path in sorted(folder.glob("*.jsonl")):
        with suppress(FileNotFoundError), path.open("rb") as file:
            if not _ours(file):
                continue
            for entries in chunks(_entries(file), PUTS_AT_ONCE):
                records = {key: record for entry in entries for key, record in entry[0]}
                restore(list(records.items()), [line for entry in entries for line in entry[1]])
            path.unlink()


def _created(folder: Path) -> tuple[Path, int]:
    """(path, descriptor) of a new, empty file in the folder, locked before another process can see it."""
    folder.mkdir(parents=True, exist_ok=True)
    path, unfinished = folder / f"{os.getpid()}-{secrets.token_hex(6)}.jsonl", folder / temporary()
    file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with suppress(OSError):  # where the file system has no locks
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unfinished.rename(path)
        _sync_folder(folder)
    except OSError:
        os.close(file)
        raise
    return path, file


def _sync_folder(folder: Path) -> None:
    """Flush the folder's list of files to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _ours(file: BinaryIO) -> bool:
    """Lock an open file; False where another process has it, or has stored and deleted it meanwhile."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # the file system has no locks
    return os.fstat(file.fileno()).st_nlink > 0


def _written(entry: Entry) -> bytes | None:
    """The line of an entry; None where a key of it is none, so that no store could take it."""
    now = entry[1][0][1] if entry[1] else None
    records, lines = entry
    try:
        for key in (*(key for key, _ in records), *(paid.key for _, _, paid in lines)):
            bytes.fromhex(key)
    except ValueError:
        return None
    document = {
        "records": [[key, asdict(_dated(record, now))] for key, record in records],
        "lines": [[str(number), created, asdict(paid)] for number, created, paid in lines],
    }
    content = json.dumps(document, default=lambda value: {"base64": b64encode(value).decode()}).encode()
    return b"%08x %s\n" % (crc32(content), content)


def _dated(record: Record, now: float | None) -> Record:
    """The record, created `now` if it has no time of its own."""
    return record if record.created is not None else replace(record, created=now)


def _entries(lines: Iterable[bytes]) -> Iterator[Entry]:
    """The entries of a file's lines, without those that are damaged."""
    for line in lines:
        checksum, _, content = line.rstrip(b"\n").partition(b" ")
        if checksum != b"%08x" % crc32(content):
            continue
        document = json.loads(content, object_hook=_with_bytes)
        yield (
            [(key, Record(**fields)) for key, fields in document["records"]],
            [(uuid.UUID(number), created, Paid(**fields)) for number, created, fields in document["lines"]],
        )


def _with_bytes(document: dict[str, Any]) -> Any:
    """The JSON object, or the bytes that it stands for."""
    return b64decode(document["base64"]) if document.keys() == {"base64"} else document
