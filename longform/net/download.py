"""Downloads of files that are whole or not there at all, and that continue after interruptions.

    <name>              there only when it is whole
    <name>.fetch.json   its URL, the time it was fetched, its bytes and SHA-256
    <name>.part         the first bytes of the file (the part); locked by the one process that writes it
    <name>.part.json    the server's version of the file (ETag, Last-Modified, length) that the part belongs to

A part is hashed as it is written. It is continued only while the server's file is the same. This is checked by
If-Range, by the length, and by the last bytes of the part, which are requested again. The SHA-256 of the part, written
down when a run ends, shows whether the part was changed since.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import os
import re
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import inf
from pathlib import Path
from typing import IO, Any, Protocol

import requests
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass as pydantic_dataclass

from longform.addresses import shown
from longform.errors import HttpError, Incomplete, SourceError, StoreError, UsageError
from longform.files import read_json, remove, sync, unwritable, write_json
from longform.machines import boot
from longform.net import wire
from longform.net.http import Call, Http, RetryBudget, Wait
from longform.net.wire import Changed, Dropped

OVERLAP_BYTES = 256
DURABLE_EVERY = 256 << 20
READ_BYTES = 1 << 20
SLOWEST_BYTES_PER_SECOND = 1_000
CHANGES = 3
WRONG_DIGESTS = 2
RESTART_SECONDS = 1.0
EXPIRED = (400, 401, 403, 410)
GZIP = ("gzip", "x-gzip")
GZIP_BEGINS = b"\x1f\x8b"
PACKED = {
    **dict.fromkeys(GZIP, (".gz", ".tgz")),
    "x-bzip2": (".bz2",),
    "x-xz": (".xz",),
    "xz": (".xz",),
    "zstd": (".zst",),
}
BINARY = (".7z", ".bz2", ".gz", ".parquet", ".pdf", ".tgz", ".xz", ".zip", ".zst")
UNTOLD = ("", "application/octet-stream", "binary/octet-stream", "application/xhtml+xml")
PAGES = ("", ".html", ".htm", ".xhtml")


@dataclass(frozen=True, slots=True)
class Fetched:
    """A whole file at `path`: its size in bytes and its SHA-256 (hex). `new`: this call downloaded it, else it was
    there already.
    """

    path: Path
    new: bool
    bytes: int
    sha256: str


class Progress(Protocol):
    """Receives the progress of downloads, to show it. `name` is the name of the file."""

    def begin(self, name: str, total_bytes: int | None, done_bytes: int) -> None:
        """A download has begun, or begun again from its start. `total_bytes`: the size of the file, None if it is
        unknown; `done_bytes`: how many of them are there already.
        """

    def advance(self, name: str, bytes: int) -> None:
        """So many more bytes of the file have arrived."""

    def end(self, name: str) -> None:
        """The file is whole, or this attempt to download it has ended without it."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What is known of a file before it is downloaded: its size in bytes (None: unknown), and its digests as algorithm
    -> hex digits. False as a truth value if neither is known.
    """

    size: int | None
    digests: Mapping[str, str]

    def __bool__(self) -> bool:
        return self.size is not None or bool(self.digests)

    def missed(self, size: int, found: Mapping[str, str]) -> str | None:
        """What differs from what is expected, in words for a message: the size, else the first digest that differs.
        None if nothing differs. `found`: algorithm -> hex digest, with every expected algorithm.
        """
        if self.size is not None and size != self.size:
            return f"{size:,} bytes where {self.size:,} are expected"
        for name, expected in self.digests.items():
            if found[name] != expected:
                return f"the {name} {found[name]} where {expected} is expected"
        return None


@pydantic_dataclass(config=ConfigDict(strict=True, extra="forbid"))
class Version:
    """What `<name>.part.json` says: the version of the server's file that a part (the unfinished download) belongs to,
    and the state of the part.

    `url` is without query; `size` is the size of the whole file in bytes, None if unknown. The first `durable` bytes
    of the part survive a loss of power; all its bytes count while the machine's `boot` id is still the same. `sha256`
    is that of the part's first `hashed` bytes.
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
        """The value for the header If-Range: a strong ETag, else Last-Modified; None if there is neither."""
        return self.strong or self.last_modified

    @property
    def strong(self) -> str | None:
        """The ETag, if it is a strong one: two replies with it have the same bytes. Else None."""
        return self.etag if self.etag and not self.etag.startswith("W/") else None


@contextmanager
def locked_part(part: Path) -> Iterator[IO[bytes]]:
    """Open the file `part` (an unfinished download) for appending, created with its folder if missing; yield it,
    locked while the block runs. Waits while another process has the lock. StoreError if the file cannot be written, or
    is a symbolic link: whoever packed the folder could have it write over any file of this user.
    """
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        while True:
            if part.is_symlink():
                raise StoreError(f"{part} is a symbolic link, which is not written through: delete it.")
            file = open(part, "a+b", buffering=0, opener=_not_through_links)  # noqa: SIM115
            fcntl.flock(file, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if part.stat().st_ino == os.fstat(file.fileno()).st_ino:
                    break
            file.close()  # who held it has moved it to its place
    except OSError as error:
        raise unwritable(part, error) from None
    with file:
        yield file


def _not_through_links(path: str, flags: int) -> int:
    """Open a file as open() does, but never through a symbolic link."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


class Hashes:
    """Digests of bytes that come block by block: sha256, and the algorithms in `names` (as in hashlib)."""

    def __init__(self, names: Iterable[str]) -> None:
        self._hashes = {name: hashlib.new(name, usedforsecurity=False) for name in ("sha256", *names)}

    def add(self, block: bytes) -> None:
        for each in self._hashes.values():
            each.update(block)

    def add_file(self, path: Path) -> None:
        """Add all bytes of a file. StoreError if it cannot be read."""
        try:
            with path.open("rb") as file:
                while block := file.read(READ_BYTES):
                    self.add(block)
        except OSError as error:
            raise StoreError(f"Cannot read {path} ({error.strerror}): make it readable.") from None

    def digests(self) -> dict[str, str]:
        """Algorithm -> hex digest of all bytes added so far, sha256 first."""
        return {name: each.hexdigest() for name, each in self._hashes.items()}


class Part:
    """The part of a download to `place`: its bytes so far in `<name>.part`, how many they are (`size`), their hashes,
    and the version of the server's file that they belong to. Bytes that an earlier process left are taken up.

    `file` is the open part, locked by `locked_part`. `digests` are algorithms to compute beside sha256.
    `expected_size`: the size of the whole file in bytes, None if unknown; replies of another length, and bytes beyond
    it, raise Changed. `complete`: the server said, or its reply showed, that all bytes are there. `lengths`: the size
    of the whole file under each strong ETag that a reply had, which stays when the part is emptied.
    """

    def __init__(self, place: Path, file: IO[bytes], digests: Collection[str], expected_size: int | None) -> None:
        self.path, self.notes = place.with_name(place.name + ".part"), place.with_name(place.name + ".part.json")
        self.file, self.names, self.expected_size = file, digests, expected_size
        self.lengths = dict[str, int]()
        self._empty()
        self._take_up()

    def _empty(self) -> None:
        """Set version, size and hashes to those of an empty part; the files on disk stay."""
        self.version, self.size, self.complete, self.hashes = Version(), 0, False, Hashes(self.names)

    def _take_up(self) -> None:
        """Continue with the bytes that an earlier process left, which are hashed again; after a reboot only with those
        that were synced to disk. All are deleted if their number is the noted one but not their SHA-256, if they are
        more than the file has, or if nothing tells to which version of the file they belong. StoreError if the part
        cannot be read.
        """
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
        if noted.strong and noted.size is not None:
            self.lengths[noted.strong] = noted.size
        self.hashes.add_file(self.path)
        if length == noted.hashed and self.hashes.digests()["sha256"] != noted.sha256:
            self.clear()
        return None

    @property
    def whole(self) -> bool:
        """Whether the part has all bytes of the file."""
        return self.complete or (self.version.size is not None and self.size == self.version.size)

    def clear(self) -> None:
        """Delete the part's bytes and its `<name>.part.json`; version, size and hashes are those of an empty part
        again.
        """
        os.ftruncate(self.file.fileno(), 0)
        remove(self.notes)
        self._empty()

    def range_headers(self, url: str) -> dict[str, str]:
        """The headers Range and, if there is a validator, If-Range that ask for the rest of the file, beginning with
        the last OVERLAP_BYTES that are there. {} if all of the file must be requested: there is no part, it is of
        another URL, or neither the file's size nor a validator is known.
        """
        known = self.version.validator or self.version.size is not None
        if self.version.url != url or not self.size or not known:
            return {}
        headers = {"Range": f"bytes={max(0, self.size - OVERLAP_BYTES)}-"}
        return headers | ({"If-Range": self.version.validator} if self.version.validator else {})

    def accept(self, response: requests.Response, url: str) -> int | None:
        """The offset at which the body of this reply (status 200, 206 or 416) begins; None if the part turns out to be
        the whole file (416). A reply of 200 empties the part: the offset is 0.

        Changed if the server's file is another one now or has not the expected size, or if the reply is not the range
        that was requested; SourceError, with the part kept, for another length under the same strong ETag.
        """
        asked = response.request.headers.get("Range")
        if response.status_code == 200:
            self._begin(response, url)
            return 0
        if asked is None:
            raise Changed(f"it answers {response.status_code} to a request for all of it")
        etag = response.headers.get("ETag")
        if etag and self.version.etag and etag != self.version.etag:
            raise Changed("it is another file now")
        start, end, total = content_range(response)
        self._check_length(self.version.strong, total, url)
        if response.status_code == 416:
            self.complete = total == self.size and self.version.size in (None, total)
            if not self.complete:
                raise Changed("it is shorter now")
            return None
        length = response.raw.length_remaining
        if start is not None and end is not None and length not in (None, end - start + 1):
            raise Changed(f"it sends {length:,} bytes as the part {start}-{end}")
        return self._continued(start, int(asked.removeprefix("bytes=").rstrip("-")), total)

    def _check_length(self, etag: str | None, length: int | None, url: str) -> None:
        """Note the size of the whole file under a strong ETag. SourceError if another was noted for it: then one of
        both replies is not the file, and nothing tells which. None as either argument: nothing to check.
        """
        if etag is None or length is None:
            return
        before = self.lengths.setdefault(etag, length)
        if before != length:
            raise SourceError(
                f"{url} announces {length:,} bytes, and {before:,} before, under the same ETag {etag[:80]}: one of "
                f"both is not the file. What came is kept, run this again, or delete {self.path.name} to begin anew."
            )

    def _continued(self, start: int | None, asked: int, total: int | None) -> int:
        """The offset `asked`, from which bytes were requested, if a reply of 206 begins there (`start`); else Changed.
        `total`: the size of the whole file by this reply, None if it does not say; it is noted as the version's size.
        Changed also if no reply has told the size, or if `total` differs from the size told before.
        """
        size = self.version.size
        if start != asked or (total is None and size is None):
            raise Changed("it answers with another part than the one that was asked for")
        if None not in (total, size) and total != size:
            raise Changed("it has another length now")
        self.version.size = size if total is None else total
        return asked

    def _begin(self, response: requests.Response, url: str) -> None:
        """Empty the part, and write down the version of the file that this reply of 200 brings. Its size is the reply's
        length; if it has none, that under the same strong ETag, or, if nothing else ends the reply, the expected one.

        Changed if the length differs from the expected size; SourceError as in `accept`.
        """
        length = response.raw.length_remaining
        version = Version(url, response.headers.get("ETag"), dated(response), length, 0, boot())
        self._check_length(version.strong, length, url)
        self.clear()
        if length is not None and self.expected_size is not None and length != self.expected_size:
            raise Changed(f"it has {length:,} bytes where {self.expected_size:,} are expected")
        self.version = version
        if length is None:
            otherwise = None if wire.delimited(response) else self.expected_size
            version.size = self.lengths.get(version.strong or "", otherwise)
        self._note()

    def _note(self) -> None:
        """Write the version to `<name>.part.json`."""
        write_json(self.notes, asdict(self.version))

    def add(self, chunk: bytes) -> None:
        """Append bytes to the part and its hashes, and sync the part to disk every DURABLE_EVERY bytes. Changed, with
        nothing appended, if the part would exceed the expected size, or the one that the server told.
        """
        for size, known in ((self.expected_size, "are expected"), (self.version.size, "it announced")):
            if size is not None and self.size + len(chunk) > size:
                raise Changed(f"it has more than the {size:,} bytes that {known}")
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
        """Note that a reply's body has ended: the part is complete if it has the announced size, or none was
        announced. Else Dropped.
        """
        self.complete = self.version.size in (None, self.size)
        if not self.complete:
            raise Dropped(f"sent only the bytes up to {self.size:,} of {self.version.size:,}")

    def leave(self) -> None:
        """Write the SHA-256 of the part to `<name>.part.json`, so that the next process can see whether the bytes were
        changed. Nothing is written if the part is empty or was moved away; a disk that cannot be written is no error.
        """
        self.version.hashed, self.version.sha256 = self.size, self.hashes.digests()["sha256"]
        with suppress(StoreError):
            if self.size and self.path.exists():
                self._note()


def content_range(response: requests.Response) -> tuple[int | None, int | None, int | None]:
    """(first byte, last byte, size of the whole file) from the header Content-Range; the first two, or the third, are
    None if the header does not say them, all if it is missing, ill-formed or contradicts itself.
    """
    found = re.fullmatch(r"bytes (?:(\d{1,18})-(\d{1,18})|\*)/(\d{1,18}|\*)", response.headers.get("Content-Range", ""))
    if not found:
        return None, None, None
    total = None if found[3] == "*" else int(found[3])
    if found[1] is None:
        return None, None, total
    start, end = int(found[1]), int(found[2])
    return (None, None, None) if end < start or (total is not None and end >= total) else (start, end, total)


def dated(response: requests.Response) -> str | None:
    """The header Last-Modified, if it can serve as a validator: at least one second before the header Date, so that
    the file cannot have changed again within that second (RFC 9110, 8.8.2.2). Else None, also if one of the headers is
    missing or ill-formed.
    """
    text = response.headers.get("Last-Modified")
    try:
        now = parsedate_to_datetime(response.headers.get("Date", ""))
        return text if text and (now - parsedate_to_datetime(text)).total_seconds() >= 1 else None
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


class Downloader(Http):
    """An HTTP client that also fetches files to disk, whole or not at all."""

    def download(
        self,
        url: str | Callable[[], str],
        place: Path,
        *,
        size: int | None = None,
        sha256: str | None = None,
        md5: str | None = None,
        at_most: float = inf,
        credentials: Mapping[str, str] | None = None,
        facts: Mapping[str, str] | None = None,
        progress: Progress | None = None,
        retry_after: Wait | None = None,
    ) -> Fetched:
        """Download a file to `place`, unless it is there already. An interrupted download continues where it stopped,
        if the server's file is still the same.

        A callable `url` returns the link, and a new one when that has expired: such links may be signed, so they are
        written down without query. `size` (bytes), `sha256` and `md5` are what is expected; `at_most` is the most
        bytes the file may have. `credentials`: headers for the host of the link alone. `facts` are written to
        `<name>.fetch.json`. `retry_after` reads the seconds to wait from a 429 or 503 reply without a usable
        Retry-After header. While another process downloads the same file, this waits for it.

        SourceError if the server refuses (HttpError), sends no file or keeps sending another than expected, sends more
        than `at_most` bytes, or neither it nor the arguments tell where the file ends; Incomplete if retries are used
        up or the server is too slow; UsageError as in `already`; StoreError if the disk cannot be read or written.
        """
        given = {"sha256": sha256, "md5": md5}
        expected = Expected(size, {name: digest.lower() for name, digest in given.items() if digest})
        if known := already(place, expected):
            return known
        path = place.with_name(place.name + ".part")
        with locked_part(path) as file:
            try:
                if known := already(place, expected):  # another process may have been downloading it until now
                    return known
                return _Download(
                    self,
                    url,
                    place,
                    expected,
                    file,
                    at_most,
                    facts or {},
                    credentials=credentials,
                    progress=progress,
                    retry_after=retry_after,
                ).run()
            except OSError as error:
                raise unwritable(place, error) from None
            finally:
                if not os.fstat(file.fileno()).st_size:
                    remove(path)


def already(place: Path, expected: Expected) -> Fetched | None:
    """The file at `place`, if it is there and whole; None if there is none. UsageError if it is not the expected one,
    has not the size noted in its `<name>.fetch.json`, or neither `expected` nor these notes tell whether it is whole.

    Digests are taken from the notes. They are computed from the file if one is missing there, or if the file was
    written after its notes; UsageError if it has another SHA-256 then than was noted. Missing notes are written.
    StoreError if the notes are damaged, or the file cannot be read.
    """
    if not place.exists():
        return None
    noted, size = _noted(side_file(place)), place.stat().st_size
    if not noted and not expected:
        raise UsageError(f"{place} is there, but nothing says if it is whole: move it away, or give its size.")
    if noted and noted.get("bytes") != size:
        raise UsageError(
            f"{place} has {size:,} bytes where {noted.get('bytes')} were fetched: delete it to fetch it again."
        )
    found = _digests(place, expected, noted)
    if noted.get("sha256") not in (None, found["sha256"]):
        raise UsageError(f"{place} was changed after it was fetched: delete it to fetch it again, or move it away.")
    if missed := expected.missed(size, found):
        raise UsageError(f"{place} is there, but has {missed}: move it away, or correct what is expected.")
    if not noted:
        write_json(side_file(place), {"bytes": size, **found, "facts": {}})
    return Fetched(place, False, size, found["sha256"])


def side_file(place: Path) -> Path:
    """The path of the notes on a downloaded file: `<name>.fetch.json` beside it."""
    return place.with_name(place.name + ".fetch.json")


def note_fetch(place: Path, url: str, size: int, known: Mapping[str, str | None], facts: Mapping[str, Any]) -> None:
    """Write `<name>.fetch.json` for a file fetched just now: URL, time, `size` in bytes, `known` and `facts`. `known`:
    its digests as algorithm -> hex digits, and `etag`.
    """
    when = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(side_file(place), {"url": url, "retrieved_at": when, "bytes": size, **known, "facts": dict(facts)})


def _noted(side: Path) -> dict[str, Any]:
    """The content of a `<name>.fetch.json`; {} if there is none. StoreError if it is damaged."""
    noted = read_json(side) or {}
    kinds = {"bytes": int, "sha256": str, "md5": str}
    if not isinstance(noted, dict) or not all(isinstance(noted[name], kinds[name]) for name in kinds if name in noted):
        raise StoreError(f"{side} is damaged: delete it and run again.")
    return noted


def _digests(place: Path, expected: Expected, noted: Mapping[str, Any]) -> dict[str, str]:
    """The sha256 of the file at `place` and its digests by the expected algorithms, as algorithm -> hex digits. They
    come from `noted` (the content of its `<name>.fetch.json`) if it has all of them and is not older than the file,
    else are computed from the file.
    """
    hashes = Hashes(expected.digests)
    older = noted and side_file(place).stat().st_mtime_ns < place.stat().st_mtime_ns
    if not older and all(noted.get(name) for name in hashes.digests()):
        return {name: noted[name] for name in hashes.digests()}
    hashes.add_file(place)
    return hashes.digests()


class _Download:
    """One download: requests, until the part is whole. Parameters as in `Downloader.download`; `file` is the locked
    `<name>.part`.
    """

    def __init__(
        self,
        http: Http,
        url: str | Callable[[], str],
        place: Path,
        expected: Expected,
        file: IO[bytes],
        at_most: float,
        facts: Mapping[str, str],
        *,
        credentials: Mapping[str, str] | None,
        progress: Progress | None,
        retry_after: Wait | None,
    ) -> None:
        self.http, self.url, self.place, self.expected = http, url, place, expected
        self.credentials, self.facts, self.progress = credentials, facts, progress
        self.part, self.tries = Part(place, file, expected.digests, expected.size), RetryBudget(http, retry_after)
        self.link = None if callable(url) else url
        self.refused, self.restarts, self.most, self.at_most = False, 0, 0, at_most
        self.gzipped = False

    @property
    def where(self) -> str:
        """The address for messages, without query; the place on disk if no address is known yet."""
        return shown(self.link or self.part.version.url or str(self.place))

    def run(self) -> Fetched:
        """Download the file, check its size and digests, and move it to its place. If they differ it is downloaded
        again; SourceError at the WRONG_DIGESTS-th restart, those after a changed file included. After any other failure
        the bytes that arrived are kept for the next run.
        """
        self._show()
        try:
            while True:
                while not self.part.whole:
                    self._once()
                missed = self.expected.missed(self.part.size, self.part.hashes.digests())
                if not missed:
                    self._check_ending()
                    return self._placed()
                self._restart(f"it has {missed}", WRONG_DIGESTS)
        except BaseException:
            self.part.leave()
            raise
        finally:
            if self.progress:
                self.progress.end(self.place.name)

    def _show(self) -> None:
        """Tell `progress`, if there is one, that the download has begun, or begun again."""
        if self.progress:
            size = self.part.version.size
            self.progress.begin(self.place.name, self.expected.size if size is None else size, self.part.size)

    def _once(self) -> None:
        """Send one request and append what arrives to the part. After a failure that may pass (Dropped) waits for the
        next attempt, or raises Incomplete if none is left. After Changed empties the part, so that the whole file is
        requested again; SourceError at the CHANGES-th restart of this download.
        """
        try:
            with self._open_reply() as response:
                self._check_kind(response)
                self._receive(response)
        except Dropped as failure:
            self.refused = False  # the link held until now, and may expire while this waits
            self.tries.wait(failure, self.where)
        except Changed as change:
            self._restart(str(change), CHANGES)

    def _open_reply(self) -> requests.Response:
        """A reply with the status 416 or one below 400, its body not yet read. If a link was refused as expired
        (EXPIRED) and `url` is callable, it is called for a new one, but only once until further bytes arrive or an
        attempt fails otherwise; else HttpError. Dropped if another attempt may help.
        """
        while True:
            self.link = self.link or (self.url() if callable(self.url) else self.url)
            headers = {"Accept-Encoding": "identity", **self.part.range_headers(shown(self.link))}
            try:
                return self.http.open(Call("GET", self.link, None, self.credentials, headers), also=(416,))
            except HttpError as error:
                if not callable(self.url) or error.status not in EXPIRED or self.refused:
                    raise
                self.refused, self.link = True, None

    def _check_kind(self, response: requests.Response) -> None:
        """SourceError if the reply is not the bytes of a file: a status other than 200, 206 and 416, an HTML page
        unless the file's name ends as one or has no ending (PAGES), a Content-Encoding that the name does not show
        (as `.gz` shows gzip), or a Transfer-Encoding other than chunks.
        """
        name, status, kind = self.place.name.lower(), response.status_code, response.headers.get("Content-Type", "")
        if status not in (200, 206, 416):
            raise SourceError(f"{self.where} answered {status} without a file: check the address.")
        if kind.lower().startswith("text/html") and status != 416 and Path(name).suffix not in PAGES:
            raise SourceError(
                f"{self.where} answers with a page where {name} was expected: it wants a login, or it is gone."
            )
        packing, transfer = packing_of(response), response.headers.get("Transfer-Encoding", "chunked").strip().lower()
        if (packing and not name.endswith(PACKED.get(packing, ()))) or transfer not in ("chunked", "identity", ""):
            raise self._packed()
        self.gzipped = packing in GZIP

    def _check_start(self, response: requests.Response, start: bytes) -> None:
        """SourceError if a body that begins with the bytes `start` is a gzip file compressed once more, or the text of
        an error where a binary file is expected (BINARY), or an HTML page as in `_check_kind` of a type that says
        nothing (UNTOLD).
        """
        if packed_twice(response, start):
            raise self._packed()
        name, text = self.place.name.lower(), start[:400].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        page = text.startswith((b"<!doctype html", b"<html")) and Path(name).suffix not in PAGES and kind in UNTOLD
        if page or (name.endswith(BINARY) and text.startswith((b"<", b"{"))):
            raise SourceError(
                f"{self.where} answers with a text where {name} was expected, {start[:40].decode(errors='replace')!r}: "
                "it wants a login, or it is gone."
            )

    def _check_ending(self) -> None:
        """SourceError if the server said that its reply is packed with gzip, which tells where a file ends, and the
        whole part has no such end; the part is removed. A file whose digest is known has been checked already.
        """
        if not self.gzipped or self.expected.digests:
            return
        try:
            with gzip.open(self.part.path) as unpacked:
                while unpacked.read(READ_BYTES):
                    pass
        except (EOFError, OSError, zlib.error):
            remove(self.part.path)
            remove(self.part.notes)
            raise SourceError(
                f"{self.where} sends {self.place.name} without the ending of a gzip file: fetch it from a mirror."
            ) from None

    def _packed(self) -> SourceError:
        """The SourceError, for the caller to raise, for a reply that is compressed although this was not asked for."""
        return SourceError(
            f"{self.where} answers packed, although it was asked not to: fetch it from a mirror, or by hand."
        )

    def _receive(self, response: requests.Response) -> None:
        """Append the body of the reply to the part; nothing of a 416 that shows the part to be whole. Dropped if the
        body ends too early, or is empty and nothing shows that this is the whole file; Changed if it is not of the same
        or the expected file; SourceError if neither the reply nor what is expected tells where the file ends, or for
        more than `at_most` bytes; Incomplete if it is too slow.
        """
        start = self.part.accept(response, shown(self.link or ""))
        if start is None:
            return
        if response.status_code == 200:
            self._show()
        delimited = wire.delimited(response)
        for chunk in self._paced(self._new_bytes(response, start)):
            if not delimited and not self.expected and self.part.version.size is None:
                raise SourceError(f"{self.where} does not say where its file ends: give its size or its sha256.")
            self.part.add(chunk)
            self._count(len(chunk))
        expected = self.expected and not self.expected.missed(self.part.size, self.part.hashes.digests())
        if not self.part.size and not delimited and not expected:
            raise Dropped("dropped the connection before its reply")
        self.part.end()

    def _new_bytes(self, response: requests.Response, start: int) -> Iterator[bytes]:
        """The bytes of the reply from the end of the part on. The body begins at offset `start` of the file; its bytes
        before the end of the part are compared with the part's: Changed if they differ. SourceError for a gzip file
        compressed once more.
        """
        there = os.pread(self.part.file.fileno(), self.part.size - start, start)
        for chunk in wire.chunks(response, strict=not self.expected):
            if not self.part.size:
                self._check_start(response, chunk)
            if there[: len(chunk)] != chunk[: len(there)]:
                raise Changed("it is another file now")
            chunk, there = chunk[len(there) :], there[len(chunk) :]
            if chunk:
                yield chunk

    def _paced(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The chunks, unchanged. Incomplete if fewer than SLOWEST_BYTES_PER_SECOND arrive on average over
        `patience_seconds`: without this a very slow server would keep the download running for ever.
        """
        since, came = time.monotonic(), 0
        for chunk in chunks:
            yield chunk
            came, seconds = came + len(chunk), time.monotonic() - since
            if seconds < self.http.patience_seconds:
                continue
            if came < SLOWEST_BYTES_PER_SECOND * seconds:
                raise Incomplete(
                    f"{self.where} sends less than {SLOWEST_BYTES_PER_SECOND:,} bytes a second: "
                    "what is there is kept, run this again later."
                )
            since, came = time.monotonic(), 0

    def _count(self, number: int) -> None:
        """Note that `number` bytes arrived. Retries are counted anew only when the part is larger than ever before, so
        that a download that always breaks at the same place ends. SourceError if the part has more than `at_most`
        bytes.
        """
        self.refused = False
        if self.part.size > self.at_most:
            raise SourceError(f"{self.where} sends more than the {self.at_most:,} bytes that such a file may have.")
        if self.progress:
            self.progress.advance(self.place.name, number)
        if self.part.size > self.most:
            self.most = self.part.size
            self.tries.progress()

    def _restart(self, why: str, most: int) -> None:
        """Empty the part and wait RESTART_SECONDS, so that all of the file is downloaded again; SourceError instead of
        waiting at the `most`-th restart of this download. `why`: words for the message.
        """
        self.restarts += 1
        self.part.clear()
        if self.restarts >= most:
            raise SourceError(
                f"{self.where} gives no whole file, {why}, {self.restarts} times: check the address and what is "
                "expected."
            )
        self.http.sleep(RESTART_SECONDS)
        self._show()

    def _placed(self) -> Fetched:
        """Move the whole part to its place, after its bytes and its `<name>.fetch.json` are on disk; return
        the file.
        """
        part, digests = self.part, self.part.hashes.digests()
        os.fsync(part.file.fileno())
        note_fetch(self.place, part.version.url, part.size, {**digests, "etag": part.version.etag}, self.facts)
        part.path.replace(self.place)
        remove(part.notes)
        sync(self.place.parent)
        return Fetched(self.place, True, part.size, digests["sha256"])


def packing_of(response: requests.Response) -> str:
    """The Content-Encoding of a reply in lower case; empty if there is none, or `identity`. Servers also name one for
    files that are themselves compressed and are sent as they are.
    """
    name = response.headers.get("Content-Encoding", "").strip().lower()
    return "" if name == "identity" else name


def packed_twice(response: requests.Response, start: bytes) -> bool:
    """Whether the reply, whose body begins with the bytes `start`, is a gzip file compressed with gzip once more.
    False if `start` is too short to tell.
    """
    if packing_of(response) not in GZIP or not start.startswith(GZIP_BEGINS):
        return False
    with suppress(zlib.error):
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(start, len(GZIP_BEGINS)) == GZIP_BEGINS
    return False
