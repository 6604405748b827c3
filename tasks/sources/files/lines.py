"""Lines of text files, plain or packed (.gz, .zst, .bz2, .xz), in constant memory; a truncated file is an error.

Lines end with a line feed and nothing else: other characters that Python's `splitlines` takes for line ends occur
inside texts. A packed file that ends early is a SourceError of the reader, never a shorter file.

.zst_blocks is a container of independent blocks that archives of Reddit used from 2023-04 to 2024-03.

    file  = block*             block = compressed size (uint32), that many bytes of zstd
    bytes = row count (uint32), (offset, size) of each row (uint32 each), rows      offsets count from the first row

All numbers are little-endian (https://github.com/ArthurHeitmann/zst_blocks_format). Nothing says how many blocks a
file has: one that was cut between two blocks looks whole.
"""

from __future__ import annotations

import bz2
import lzma
import struct
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import IO, Any

from longform.artifacts.rows import Shard
from longform.errors import SourceError
from tasks.sources.files.bombs import refuse_bomb, refuse_empty_lines
from tasks.sources.files.inputs import WHOLE

BLOCK_BYTES = 1 << 20
MAX_LINE_BYTES = MAX_BLOCK_BYTES = 64 << 20
ZSTD_WINDOW_LOG = 31
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
WIDE_MARKS = {"UTF-32": (b"\xff\xfe\0\0", b"\0\0\xfe\xff"), "UTF-16": (b"\xff\xfe", b"\xfe\xff")}
_SIZE = struct.Struct("<I")
_PLACE = struct.Struct("<II")

_ENDINGS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bzip2", ".xz": "xz"}
_SKIPPED = tuple(bytes((byte, 0x2A, 0x4D, 0x18)) for byte in range(0x50, 0x60))  # frames of notes, pzstd's first one
_MAGIC = {
    **dict.fromkeys(_SKIPPED, "zstd"),
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
}


def read_lines(piece: Shard, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """The lines of a piece of a text file, plain or packed, without their line feeds. A piece that is a byte range has
    the lines that start in it.

    A line of more than `max_line_bytes` bytes (which should be no less than BLOCK_BYTES) is cut to its first
    `max_line_bytes`. A byte order mark at the file's beginning is left out. SourceError if a packed file is damaged or
    truncated, or packed by its name only, if the file unpacks to far more than text does or is nearly nothing but line
    feeds, or if its byte order mark is that of UTF-16 or UTF-32. A piece that is a byte range is read as it is, not
    unpacked.
    """
    lines = _lines(piece, max_line_bytes)
    if piece.start == 0:
        for line in islice(lines, 1):
            _refuse_wide(line, piece.source.path)
            yield line.removeprefix(BYTE_ORDER_MARK)
    yield from lines


def _refuse_wide(start: bytes, path: str) -> None:
    """SourceError if a file that begins with these bytes is UTF-16 or UTF-32 by its byte order mark: none of its lines
    could be read.
    """
    kind = next((name for name, marks in WIDE_MARKS.items() if start.startswith(marks)), None)
    if kind:
        raise SourceError(
            f"{path} is {kind} by its first bytes: write it as UTF-8, e.g. with `iconv -f {kind} -t UTF-8`, from a "
            "spreadsheet as CSV UTF-8."
        )


def _lines(piece: Shard, max_line_bytes: int) -> Iterator[bytes]:
    """The lines of a piece, without their line feeds but with a byte order mark, if the file begins with one. A piece
    that is a byte range has the lines that start in it; a line of more than `max_line_bytes` bytes is cut.
    """
    path = Path(piece.source.path)
    if (piece.start, piece.end) == WHOLE:
        yield from split_lines(unpacked(path), path, max_line_bytes)
        return
    with path.open("rb") as file:
        start = piece.start
        if start:
            file.seek(start - 1)
            while (chunk := file.readline(BLOCK_BYTES)) and not chunk.endswith(b"\n"):
                pass  # a line that starts before the piece
            start = file.tell()
        yield from _until(_measured(_blocks(file), path, max_line_bytes), piece.end - start)


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    """The rest of the file from its position on, in blocks of at most BLOCK_BYTES."""
    return iter(lambda: file.read(BLOCK_BYTES), b"")


def _until(lines: Iterator[tuple[bytes, int]], stop: int) -> Iterator[bytes]:
    """The lines of (line, length in bytes without the line feed) pairs that start less than `stop` bytes after the
    first one.
    """
    offset = 0
    for line, length in lines:
        if offset >= stop:
            return
        yield line
        offset += length + 1


def split_lines(blocks: Iterator[bytes], subject: object, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """The lines of a stream of blocks, without their line feeds; a carriage return at the end stays. A line that
    extends over several blocks is cut to its first `max_line_bytes` bytes. SourceError, which names `subject`, if a
    block is nearly nothing but line feeds (`refuse_empty_lines`).
    """
    for line, _ in _measured(blocks, subject, max_line_bytes):
        yield line


def _measured(blocks: Iterator[bytes], subject: object, max_line_bytes: int) -> Iterator[tuple[bytes, int]]:
    """(line without line feed, its length in bytes before any cut) for each line of a stream of blocks. A line that
    extends over several blocks is cut to its first `max_line_bytes` bytes. SourceError, which names `subject`, if a
    block is nearly nothing but line feeds (`refuse_empty_lines`).
    """
    head, held = b"", 0
    for block in blocks:
        first, *more = block.split(b"\n")
        refuse_empty_lines(subject, len(more), len(block))
        head, held = head + first[: max_line_bytes - len(head)], held + len(first)
        if more:
            yield head, held
            yield from zip(more, map(len, more[:-1]), strict=False)
            head, held = more[-1], len(more[-1])
    if held:
        yield head, held


def unpacked(path: Path) -> Iterator[bytes]:
    """The content of a file in blocks; a file that begins as gzip, zstd, bzip2 or xz is unpacked, whatever its name.
    SourceError if it is damaged or truncated, if its name ends in .gz, .zst, .bz2 or .xz but it begins as none of them,
    or if it unpacks to far more than text does (`refuse_bomb`).
    """
    with path.open("rb") as file:
        kind, named = packing(path), _ENDINGS.get(path.suffix.lower())
        if kind is None and named is not None:
            start = file.read(4).hex(" ")
            raise SourceError(f"{path} is no {named} file (its first bytes are {start}): fetch it again.")
        with _readable(path), _opened(file, kind) as stream:
            read = 0
            for block in _blocks(stream):
                read += len(block)
                if kind:
                    refuse_bomb(path, read, file.tell())
                yield block


def packing(path: Path) -> str | None:
    """How a file is packed: "gzip", "zstd", "bzip2" or "xz", by its first bytes; None for any other file."""
    with path.open("rb") as file:
        start = file.read(8)
    return next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)


def _opened(file: IO[bytes], kind: str | None) -> Any:
    """A context manager that gives a file object of the file's unpacked bytes. `kind`: gzip, zstd, bzip2 or xz; None
    for a plain file, which is given as it is.
    """
    if kind == "gzip":
        from isal import igzip

        return igzip.IGzipFile(fileobj=file, mode="rb")  # type: ignore[no-untyped-call]
    if kind == "zstd":
        from backports import zstd

        return zstd.ZstdFile(file, options={zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG})
    if kind == "bzip2":
        return bz2.BZ2File(file)
    return lzma.LZMAFile(file) if kind == "xz" else nullcontext(file)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """A context in which what unpacking raises becomes a SourceError on `path`: truncated or damaged."""
    from backports.zstd import ZstdError
    from isal.igzip_lib import IsalError

    damage: tuple[Any, ...] = (OSError, IsalError, lzma.LZMAError, ZstdError)
    try:
        yield
    except EOFError as error:
        raise SourceError(f"{path} is truncated: its packed stream ends early; fetch it again.") from error
    except damage as error:
        raise SourceError(f"{path} is damaged ({error}): fetch it again and compare its SHA-256.") from error


# ---------------------------------------------------------------- .zst_blocks


def block_rows(path: Path) -> Iterator[bytes]:
    """The rows of a .zst_blocks file in order, with one block in memory at a time. SourceError if it is damaged or
    ends within a block, or if it unpacks to far more than text does (`refuse_bomb`). A file that was cut between two
    blocks is not noticed.
    """
    unpacked = 0
    with path.open("rb") as file:
        while head := file.read(_SIZE.size):
            content = _unpacked_block(_read_block(file, head, path), path)
            unpacked += len(content)
            refuse_bomb(path, unpacked, file.tell())
            yield from _rows_of_block(content, path)


def _read_block(file: IO[bytes], head: bytes, path: Path) -> bytes:
    """The packed bytes of a block. `head`: the 4 bytes before it, already read, which state its size. SourceError if
    the file ends before the block does (or within `head`), or the size is above MAX_BLOCK_BYTES.
    """
    size = _SIZE.unpack(head)[0] if len(head) == _SIZE.size else -1
    if size > MAX_BLOCK_BYTES:
        raise _damaged_block(path, f"a block claims {size:,} bytes")
    block = file.read(max(0, size))
    if len(block) != size:
        raise SourceError(f"{path} is truncated: its last block ends early; fetch it again.")
    return block


def _unpacked_block(block: bytes, path: Path) -> bytes:
    """The unpacked content of a block of zstd. SourceError if it is damaged, or has more than MAX_BLOCK_BYTES bytes."""
    from backports import zstd

    unpacker = zstd.ZstdDecompressor()
    try:
        content: bytes = unpacker.decompress(block, max_length=MAX_BLOCK_BYTES)
    except zstd.ZstdError as error:
        raise _damaged_block(path, str(error)) from error
    if not unpacker.eof:
        raise _damaged_block(path, f"a block is incomplete, or unpacks to more than {MAX_BLOCK_BYTES:,} bytes")
    return content


def _rows_of_block(content: bytes, path: Path) -> Iterator[bytes]:
    """The rows in the unpacked content of a block, in the order of its index. SourceError if the index or a row extends
    beyond the content, or if rows overlap so that together they are longer than it.
    """
    count = _SIZE.unpack_from(content)[0] if len(content) >= _SIZE.size else -1
    start = _SIZE.size + max(0, count) * _PLACE.size
    if count < 0 or start > len(content):
        raise _damaged_block(path, "a block is shorter than its index")
    end = start
    for offset, size in _PLACE.iter_unpack(content[_SIZE.size : start]):
        end += size
        if start + offset + size > len(content) or end > len(content):
            raise _damaged_block(path, "a row lies outside its block, or on another")
        yield content[start + offset : start + offset + size]


def _damaged_block(path: Path, why: str) -> SourceError:
    """The error to raise for a damaged .zst_blocks file; `why` says what was found."""
    return SourceError(f"{path} is damaged ({why}): fetch it again, or take the month's .zst instead.")
