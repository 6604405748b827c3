"""Reading a reply's body within a bound of bytes, whatever it claims to be, and undoing its content-encoding.

What a few bytes unpack to is known only after unpacking: gzip makes a gigabyte of a megabyte. So a body is unpacked in
pieces, and the pieces are counted.
"""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from longform.files import unwritable
from longform.machines import temporary

ACCEPTED_ENCODINGS = "gzip, identity"
PIECE_BYTES = 1 << 20
GZIP, ZLIB, BARE_DEFLATE = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
MOST_MEMBERS = 64

NextChunk = Callable[[], Awaitable[bytes]]


class BodyError(Exception):
    """Raised for a body that is not kept; its text says why, after the status. `too_large`: it has more bytes than
    are allowed.
    """

    def __init__(self, words: str, *, too_large: bool = False) -> None:
        super().__init__(words)
        self.too_large = too_large


async def read_body(encoding: str | None, next_chunk: NextChunk, most_bytes: int) -> bytes:
    """The unpacked body. `encoding` is its Content-Encoding; `next_chunk` returns the next bytes as they come, none at
    the end. BodyError where it is larger than `most_bytes`, packed or unpacked, or cannot be unpacked.
    """
    pieces: list[bytes] = []
    if not encoding:
        left = most_bytes
        while chunk := await next_chunk():
            left -= len(chunk)
            if left < 0:
                raise _too_large(most_bytes)
            pieces.append(chunk)
        return b"".join(pieces)
    body = Body(encoding, most_bytes)
    while chunk := await next_chunk():
        pieces += body.unpack(chunk)
    body.finish()
    return b"".join(pieces)


async def save_body(encoding: str | None, next_chunk: NextChunk, most_bytes: int, to: Path) -> None:
    """Write the unpacked body to a file as it comes, a piece in memory at a time. The file is replaced only by a whole
    body. BodyError as of `read_body`; StoreError where the file cannot be written.
    """
    body = Body(encoding, most_bytes)
    with _replacing(to) as write:
        while chunk := await next_chunk():
            for piece in body.unpack(chunk):
                write(piece)
        body.finish()


@contextmanager
def _replacing(path: Path) -> Iterator[Callable[[bytes], None]]:
    """A function that writes to a file beside `path`, which takes its place when the block ends, and is removed where
    it fails.
    """
    unfinished = path.with_name(temporary())
    with ExitStack() as stack:
        with _as_store_error(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(unfinished.open("xb"))
        stack.callback(unfinished.unlink, missing_ok=True)

        def write(piece: bytes) -> None:
            with _as_store_error(path):
                file.write(piece)

        yield write
        with _as_store_error(path):
            file.close()
            unfinished.replace(path)


@contextmanager
def _as_store_error(path: Path) -> Iterator[None]:
    """Raise StoreError for an error of the operating system in the block."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error) from None


class Body:
    """A body that comes in chunks, of which at most `most_bytes` are taken, packed and unpacked."""

    def __init__(self, encoding: str | None, most_bytes: int) -> None:
        self._most = self._left = self._left_packed = most_bytes
        self._packed = _packed(encoding)

    def unpack(self, chunk: bytes) -> Iterable[bytes]:
        """The pieces of the body that a chunk holds, of at most PIECE_BYTES where it is packed."""
        self._left_packed -= len(chunk)
        if self._left_packed < 0:
            raise _too_large(self._most)
        return self._counted(self._packed, chunk) if self._packed else (chunk,)

    def finish(self) -> None:
        """Check that the body is whole, after its last chunk."""
        if self._packed:
            self._packed.finish()

    def _counted(self, packed: Packed, chunk: bytes) -> Iterator[bytes]:
        packed.feed(chunk)
        while piece := packed.piece(min(PIECE_BYTES, self._left + 1)):
            self._left -= len(piece)
            if self._left < 0:
                raise _too_large(self._most)
            yield piece


class Packed:
    """A body in gzip or deflate, unpacked in pieces. Deflate is with the head of zlib, as the standard says, or
    without, as some servers send it. Gzip may be several members in a row, but not more than MOST_MEMBERS.
    """

    def __init__(self, encoding: str) -> None:
        self._encoding, self._members = encoding, 0
        self._inflate: zlib._Decompress | None = None
        self._rest = b""

    def feed(self, packed: bytes) -> None:
        """Take the next packed bytes, once `piece` has given all of those before."""
        self._rest = packed

    def piece(self, most_bytes: int) -> bytes:
        """The next unpacked bytes, at most so many; none where more packed ones are needed."""
        piece = b""
        while not piece and (self._rest or self._inflate):
            inflate = self._inflate = self._inflate or self._member(self._rest)
            try:
                piece = inflate.decompress(self._rest, most_bytes)
            except zlib.error:
                raise self._invalid() from None
            self._rest = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            if inflate.eof:
                self._inflate = None
            elif not piece:
                break
        return piece

    def finish(self) -> None:
        """Check that no member breaks off."""
        if self._inflate:
            raise self._invalid()

    def _member(self, start: bytes) -> zlib._Decompress:
        """A decompressor for the member that begins so."""
        self._members += 1
        if self._members > (MOST_MEMBERS if self._encoding == "gzip" else 1):
            raise self._invalid()
        if self._encoding == "gzip":
            return zlib.decompressobj(GZIP)
        return zlib.decompressobj(ZLIB if start[0] & 0x0F == zlib.DEFLATED else BARE_DEFLATE)

    def _invalid(self) -> BodyError:
        return BodyError(f"with a body that is no valid {self._encoding}")


def _too_large(most_bytes: int) -> BodyError:
    return BodyError(f"with more than {most_bytes:,} bytes", too_large=True)


def _packed(encoding: str | None) -> Packed | None:
    """How the body is packed, None if it is not. BodyError for a content-encoding other than gzip and deflate."""
    name = encoding.strip().lower() if encoding else ""
    if name in ("", "identity"):
        return None
    if name not in ("gzip", "x-gzip", "deflate"):
        raise BodyError("with a body in a content-encoding that was not asked for")
    return Packed(name.removeprefix("x-"))
