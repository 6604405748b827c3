"""Members of tar archives as streams of bytes, in constant memory; names never become paths.

An archive is 512-byte blocks: a header (name, size, kind), the content, zeros up to a full block, and so on, and a
block of zeros at the end. Kinds other than a plain file (folders, links, devices) are passed over; so are headers of
long names beyond MAX_NAME_BYTES: the library's own reader takes those into memory whole, however large they say
they are, and keeps every member it saw.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

from longform.errors import SourceError
from tasks.sources.files.lines import unpacked

MAX_NAME_BYTES = 64 << 10

_BLOCK = 512
_LONG_NAMES = b"L"
_EXTENDED = b"x"
_NO_CONTENT = {tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE}


def members(path: Path) -> Iterator[tuple[str, int, Iterator[bytes]]]:
    """(name as written, size, content in blocks) of each plain file, in the archive's order.

    What a reader leaves of a content is passed over. SourceError where the archive is damaged or ends early.
    """
    stream, name = _Stream(unpacked(path), path), ""
    while header := _header(stream):
        end = stream.at + header.size
        if header.type == _LONG_NAMES and header.size <= MAX_NAME_BYTES:
            name = stream.read(header.size).rstrip(b"\0").decode(errors="replace")
        elif header.type == _EXTENDED and header.size <= MAX_NAME_BYTES:
            name = _extended_name(stream.read(header.size)) or name
        else:
            if header.isreg():
                yield name or header.name, header.size, stream.take(header.size)
            name = ""
        stream.skip(end - stream.at + -header.size % _BLOCK)
    for _ in stream.blocks:
        pass  # so that a damaged packing is noticed


def _header(stream: _Stream) -> tarfile.TarInfo | None:
    """The next header; None at the archive's end, which is a block of zeros."""
    block = stream.read(_BLOCK)
    if not block.strip(b"\0"):
        return None
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "replace")
    except tarfile.HeaderError as error:
        raise SourceError(f"{stream.path} is no tar archive, or a damaged one ({error}): fetch it again.") from error
    if header.size < 0:
        raise SourceError(f"{stream.path} is damaged (a member of negative size): fetch it again.")
    if header.type in _NO_CONTENT:
        header.size = 0
    return header


def _extended_name(content: bytes) -> str:
    """The path in a PAX header, `<length> path=<name>` in a line of its own."""
    fields = (line.partition(b" ")[2] for line in content.split(b"\n"))
    return next((field[5:].decode(errors="replace") for field in fields if field.startswith(b"path=")), "")


class _Stream:
    """Bytes of an iterator of blocks, a given number at a time."""

    def __init__(self, blocks: Iterator[bytes], path: Path) -> None:
        self.blocks, self.path = blocks, path
        self.held, self.offset, self.at = b"", 0, 0

    def read(self, size: int) -> bytes:
        return b"".join(self.take(size))

    def skip(self, size: int) -> None:
        for _ in self.take(size):
            pass

    def take(self, size: int) -> Iterator[bytes]:
        """The next `size` bytes, in blocks."""
        while size:
            if self.offset == len(self.held):
                self.held, self.offset = next(self.blocks, b""), 0
            if not self.held:
                raise SourceError(f"{self.path} is truncated: its last member is not whole; fetch it again.")
            found = self.held[self.offset : self.offset + size]
            self.offset += len(found)
            self.at += len(found)
            size -= len(found)
            yield found
