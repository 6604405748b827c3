"""The part of a file that has come: hashed as it is written, and only added to while the server's file is the same.

    <name>.part         the first bytes of the file; locked by the one process that writes it
    <name>.part.json    of which version at the server (ETag, Last-Modified, length) they are

If-Range, the length, and the last bytes that are there, which are asked for again, show whether it is the same. Its
SHA-256, noted when a run ends, shows that nothing changed the part meanwhile.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import IO

import requests
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from longform.errors import StoreError
from longform.files import read_json, remove, unwritable, write_json
from longform.machines import boot
from longform.net.wire import Changed, Dropped

OVERLAP_BYTES = 256
DURABLE_EVERY = 256 << 20
READ_BYTES = 1 << 20


@dataclass(config=ConfigDict(strict=True, extra="forbid"))
class Version:
    """What a server says of its file. Up to `durable` bytes of the part outlive a loss of power since `boot`.

    `sha256` is that of the part's first `hashed` bytes.
    """

    url: str = ""
    etag: str | None = None
    last_modified: str | None = None
    size: int | None = None
    durable: int = 0
    boot: str = ""
    hashed: int = 0
    sha256: str = ""

    @property
    def validator(self) -> str | None:
        """What If-Range takes: a strong ETag, else a time."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.last_modified


@contextmanager
def held(part: Path) -> Iterator[IO[bytes]]:
    """The part, open to be added to, by nobody else: another process that asks for the same file waits here."""
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        while True:
            file = part.open("a+b", buffering=0)
            fcntl.flock(file, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if part.stat().st_ino == os.fstat(file.fileno()).st_ino:
                    break
            file.close()  # who held it has moved it to its place
    except OSError as error:
        raise unwritable(part, error) from None
    with file:
        yield file


class Hashes:
    """Digests by name of blocks, as they come: sha256 and those that are asked for."""

    def __init__(self, names: Iterable[str]) -> None:
        self._hashes = {name: hashlib.new(name, usedforsecurity=False) for name in ("sha256", *names)}

    def add(self, block: bytes) -> None:
        for each in self._hashes.values():
            each.update(block)

    def add_file(self, path: Path) -> None:
        """StoreError where the file cannot be read."""
        try:
            with path.open("rb") as file:
                while block := file.read(READ_BYTES):
                    self.add(block)
        except OSError as error:
            raise StoreError(f"Cannot read {path} ({error.strerror}): make it readable.") from None

    def digests(self) -> dict[str, str]:
        return {name: each.hexdigest() for name, each in self._hashes.items()}


class Part:
    """`digests`: those to work out beside sha256. `largest`: more bytes than that are never written."""

    def __init__(self, place: Path, file: IO[bytes], digests: Collection[str], largest: int | None) -> None:
        self.path, self.notes = place.with_name(place.name + ".part"), place.with_name(place.name + ".part.json")
        self.file, self.names, self.largest = file, digests, largest
        self._empty()
        self._take_up()

    def _empty(self) -> None:
        self.version, self.size, self.complete, self.hashes = Version(), 0, False, Hashes(self.names)

    def _take_up(self) -> None:
        """What an earlier process left, hashed again; nothing where it is not known of which version it is."""
        length = os.fstat(self.file.fileno()).st_size
        try:
            noted = Version(**read_json(self.notes))
        except (StoreError, TypeError, ValueError):
            return self.clear()
        if not length or (noted.size is not None and length > noted.size):
            return self.clear()
        if noted.boot != boot():
            length = min(length, noted.durable)
            os.ftruncate(self.file.fileno(), length)
        self.version, self.size = noted, length
        self.hashes.add_file(self.path)
        if length == noted.hashed and self.hashes.digests()["sha256"] != noted.sha256:
            self.clear()
        return None

    @property
    def whole(self) -> bool:
        return self.complete or (self.version.size is not None and self.size == self.version.size)

    def clear(self) -> None:
        os.ftruncate(self.file.fileno(), 0)
        remove(self.notes)
        self._empty()

    def range_headers(self, url: str) -> dict[str, str]:
        """What asks for the rest only; nothing where all of it is to come."""
        known = self.version.validator or self.version.size is not None
        if self.version.url != url or not self.size or not known:
            return {}
        headers = {"Range": f"bytes={max(0, self.size - OVERLAP_BYTES)}-"}
        return headers | ({"If-Range": self.version.validator} if self.version.validator else {})

    def accept(self, response: requests.Response, url: str) -> int | None:
        """The offset at which this reply begins; None where all of the file is there already."""
        asked = response.request.headers.get("Range")
        if response.status_code == 200:
            self._begin(response, url)
            return 0
        if asked is None:
            raise Changed(f"it answers {response.status_code} to a request for all of it")
        etag = response.headers.get("ETag")
        if etag and self.version.etag and etag != self.version.etag:
            raise Changed("it is another file now")
        start, total = content_range(response)
        if response.status_code == 416:
            self.complete = total == self.size
            if not self.complete:
                raise Changed("it is shorter now")
            return None
        return self._continued(start, int(asked.removeprefix("bytes=").rstrip("-")), total)

    def _continued(self, start: int | None, asked: int, total: int | None) -> int:
        size = self.version.size
        if start != asked or (total is None and size is None):
            raise Changed("it answers with another part than the one that was asked for")
        if None not in (total, size) and total not in (size, self.size):
            raise Changed("it has another length now")
        self.version.size = size if total is None else total
        return asked

    def _begin(self, response: requests.Response, url: str) -> None:
        self.clear()
        length = response.raw.length_remaining
        if length is not None and self.largest is not None and length != self.largest:
            raise Changed(f"it has {length:,} bytes where {self.largest:,} are expected")
        self.version = Version(url, response.headers.get("ETag"), dated(response), length, 0, boot())
        self._note()

    def _note(self) -> None:
        write_json(self.notes, asdict(self.version))

    def add(self, chunk: bytes) -> None:
        if self.largest is not None and self.size + len(chunk) > self.largest:
            raise Changed(f"it has more than the {self.largest:,} bytes that are expected")
        view = memoryview(chunk)
        while view:
            view = view[self.file.write(view) :]
        self.hashes.add(chunk)
        self.size += len(chunk)
        if self.size - self.version.durable >= DURABLE_EVERY:
            os.fsync(self.file.fileno())
            self.version.durable = self.size
            self._note()

    def end(self) -> None:
        """A body has come to its end: that is the file's end, unless its length says otherwise."""
        self.complete = self.version.size in (None, self.size)
        if not self.complete:
            raise Dropped(f"sent only the bytes up to {self.size:,} of {self.version.size:,}")

    def leave(self) -> None:
        """Note what is there, that the next process may see if it is damaged."""
        self.version.hashed, self.version.sha256 = self.size, self.hashes.digests()["sha256"]
        with suppress(StoreError):
            if self.size and self.path.exists():
                self._note()


def content_range(response: requests.Response) -> tuple[int | None, int | None]:
    """(start, total) of Content-Range; None for what it does not say."""
    found = re.fullmatch(r"bytes (?:(\d{1,18})-\d{1,18}|\*)/(\d{1,18}|\*)", response.headers.get("Content-Range", ""))
    if not found:
        return None, None
    return int(found[1]) if found[1] else None, None if found[2] == "*" else int(found[2])


def dated(response: requests.Response) -> str | None:
    """Last-Modified, where the file cannot have changed once more in that second (RFC 9110, 8.8.2.2)."""
    text = response.headers.get("Last-Modified")
    try:
        now = parsedate_to_datetime(response.headers.get("Date", ""))
        return text if text and (now - parsedate_to_datetime(text)).total_seconds() >= 1 else None
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
