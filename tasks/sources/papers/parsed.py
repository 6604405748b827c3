"""The store of parser results: what a server answered for a PDF, kept from the moment it answers.

    <home>/parsed/<aa>/<sha256 of the PDF>.<hash of the parser>.gz     <aa>: the first two digits of the sha256
    <home>/parsed/<aa>/<the same>.lock                                 while a process asks for it

A file is gzip: one line of JSON, then what the server answered, byte for byte.

    {"format": 1, "pdf": "9f0c…", "parser": {"parser": "grobid 0.8.2 a91ee48", …}, "reason": null, "detail": null}
    <?xml version="1.0" …

A refusal ("this PDF has no text") is a result as well: `reason` says why, and nothing follows. The hash is that of all
that determines the answer: parser, version, parameters and form. Our own reader of TEI is no part of it, so a better
reader asks no server. A file is written beside its place, synced and renamed, so a killed process loses only what was
in flight; a damaged file counts as missing.
"""

from __future__ import annotations

import errno
import fcntl
import gzip
import hashlib
import json
import os
import re
import threading
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from longform.artifacts.recipe import fingerprint
from longform.errors import Incomplete
from longform.files import unwritable, write_bytes

FOLDER = "parsed"
FORMAT = 1
POLL_SECONDS = 0.05
HELD = (errno.EAGAIN, errno.EACCES)
BROKEN = (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError)

_NAME = re.compile(r"([0-9a-f]{64})\.([0-9a-f]{20})\.gz")


@dataclass(frozen=True, slots=True)
class Result:
    """What a parser made of a PDF: `content`, as it answered, or b"" with the `reason` of its refusal and a `detail`.
    `seconds`: the deadline that a PDF missed that was too slow, else None.
    """

    content: bytes
    reason: str | None = None
    detail: str | None = None
    seconds: float | None = None


def sha256_of_pdf(content: bytes) -> str:
    """The SHA-256 of a PDF's bytes, 64 hex digits, by which its results are found."""
    return hashlib.sha256(content).hexdigest()


# ---------------------------------------------------------------- one parser's results


class Parsed:
    """The results of one parser in a home. `parser`: all that determines what it answers, a JSON value."""

    def __init__(self, home: Path, parser: Any) -> None:
        self.folder, self.parser, self.hash = home / FOLDER, parser, fingerprint(parser)

    def place(self, pdf: str) -> Path:
        """The path of a PDF's result, which need not exist. `pdf`: SHA-256."""
        return self.folder / pdf[:2] / f"{pdf}.{self.hash}.gz"

    def get(self, pdf: str) -> Result | None:
        """The result for the PDF with this SHA-256; None if there is none, or its file is damaged."""
        found = _read(self.place(pdf))
        return found[1] if found and found[0] == {"pdf": pdf, "parser": self.parser} else None

    def put(self, pdf: str, result: Result) -> None:
        """Keep a result; it is on disk when this returns. StoreError if it cannot be written."""
        about = {"reason": result.reason, "detail": result.detail, "seconds": result.seconds}
        head = json.dumps({"format": FORMAT, "pdf": pdf, "parser": self.parser, **about})
        write_bytes(self.place(pdf), gzip.compress(head.encode() + b"\n" + result.content, 6, mtime=0))

    @contextmanager
    def asking(self, pdf: str, stopped: threading.Event) -> Iterator[None]:
        """A context that only one thread of all processes of the home is in for a PDF, so that no two ask for it at
        once; waits for the others. The lock of a dead process is free. Incomplete if `stopped` is set while waiting.
        """
        place = self.place(pdf).with_suffix(".lock")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(place, error) from None
        while not (held := _lock(place)):
            if stopped.wait(POLL_SECONDS):
                raise Incomplete("Another PDF of this unit could not be read now: run the same command again.")
        with held:
            try:
                yield
            finally:
                place.unlink(missing_ok=True)


def _lock(place: Path) -> IO[bytes] | None:
    """The opened lock file, locked; None if another holds it, or deleted it in between. A file system without locks
    gives it unlocked.
    """
    file = place.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in HELD:
            file.close()
            return None
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(file.fileno()), place.stat()):
            return file
    file.close()
    return None


def _read(path: Path) -> tuple[dict[str, Any], Result] | None:
    """({"pdf": SHA-256, "parser": …}, result) of a file; None if it is missing, damaged, or of another format."""
    try:
        head, _, content = gzip.decompress(path.read_bytes()).partition(b"\n")
        fields = json.loads(head)
        if fields.pop("format") != FORMAT or not (content or fields["reason"]):
            return None
        about = {name: fields.pop(name) for name in ("reason", "detail", "seconds")}
        return fields, Result(content, **about)
    except BROKEN:
        return None


# ---------------------------------------------------------------- all results of a home


def garbage(home: Path) -> list[tuple[Path, int]]:
    """(path, bytes) of every file of the store that is not worth its place, sorted: damaged ones, refusals (so the next
    read asks once more), results of which the same parser made a later one for the PDF (by another version or with
    other parameters), and locks that nobody holds. Deletes nothing.
    """
    found = [path for path in _files(home) if path.suffix == ".lock" and not _is_held(path)]
    latest: dict[tuple[str, str], Path] = {}
    for path in sorted((path for path in _files(home) if path.suffix == ".gz"), key=_age):
        read = _read(path)
        if read is None or read[1].reason or not _fits(path, *read[0].values()):
            found.append(path)
            continue
        kind = str(read[0]["parser"]["parser"]).split(" ")[0]
        if before := latest.get((read[0]["pdf"], kind)):
            found.append(before)
        latest[read[0]["pdf"], kind] = path
    return [(path, path.stat().st_size) for path in sorted(found)]


def forget(home: Path, pdfs: Collection[str]) -> int:
    """Delete all results of the PDFs whose SHA-256 begin with one of these texts of 16 hex digits or more, and return
    how many there were.
    """
    starts = {pdf for pdf in pdfs if re.fullmatch("[0-9a-f]{16,64}", pdf)}
    found = {path for start in starts for path in (home / FOLDER / start[:2]).glob(f"{start}*.gz")}
    for path in found:
        path.unlink(missing_ok=True)
    return len(found)


def _files(home: Path) -> list[Path]:
    """The results and locks of the store, without files that are being written."""
    return [path for path in (home / FOLDER).glob("*/[!.]*") if path.suffix in (".gz", ".lock")]


def _age(path: Path) -> tuple[float, str]:
    """When a file was written, then its name: sorts the latest last."""
    return path.stat().st_mtime, path.name


def _fits(path: Path, pdf: str, parser: Any) -> bool:
    """Whether the name of a file is that of the result which it holds."""
    match = _NAME.fullmatch(path.name)
    return match is not None and match.groups() == (pdf, fingerprint(parser)) and path.parent.name == pdf[:2]


def _is_held(place: Path) -> bool:
    """Whether a process holds the lock file."""
    if file := _lock(place):
        file.close()
    return file is None
