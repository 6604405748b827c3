"""Rows of .zst_blocks files, a container of independent blocks that archives of Reddit used from 2023-04 to 2024-03.

    file  = block*             block = compressed size (uint32), that many bytes of zstd
    bytes = row count (uint32), (offset, size) of each row (uint32 each), rows      offsets count from the first row

All numbers are little-endian (https://github.com/ArthurHeitmann/zst_blocks_format). Nothing says how many blocks a
file has: one that was cut between two blocks looks whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from longform.errors import SourceError
from tasks.sources.files.found import refuse_bomb

MAX_BLOCK_BYTES = 64 << 20
_SIZE = struct.Struct("<I")
_PLACE = struct.Struct("<II")


def block_rows(path: Path) -> Iterator[bytes]:
    """The rows of all blocks in order, one block in memory at a time."""
    unpacked = 0
    with path.open("rb") as file:
        while head := file.read(_SIZE.size):
            content = _unpacked(_read(file, head, path), path)
            unpacked += len(content)
            refuse_bomb(path, unpacked, file.tell())
            yield from _rows(content, path)


def _read(file: IO[bytes], head: bytes, path: Path) -> bytes:
    size = _SIZE.unpack(head)[0] if len(head) == _SIZE.size else -1
    if size > MAX_BLOCK_BYTES:
        raise _damaged(path, f"a block claims {size:,} bytes")
    block = file.read(max(0, size))
    if len(block) != size:
        raise SourceError(f"{path} is truncated: its last block ends early; fetch it again.")
    return block


def _unpacked(block: bytes, path: Path) -> bytes:
    from backports import zstd

    unpacker = zstd.ZstdDecompressor()
    try:
        content: bytes = unpacker.decompress(block, max_length=MAX_BLOCK_BYTES)
    except zstd.ZstdError as error:
        raise _damaged(path, str(error)) from error
    if not unpacker.eof:
        raise _damaged(path, f"a block is incomplete, or unpacks to more than {MAX_BLOCK_BYTES:,} bytes")
    return content


def _rows(content: bytes, path: Path) -> Iterator[bytes]:
    count = _SIZE.unpack_from(content)[0] if len(content) >= _SIZE.size else -1
    start = _SIZE.size + max(0, count) * _PLACE.size
    if count < 0 or start > len(content):
        raise _damaged(path, "a block is shorter than its index")
    end = start
    for offset, size in _PLACE.iter_unpack(content[_SIZE.size : start]):
        end += size
        if start + offset + size > len(content) or end > len(content):
            raise _damaged(path, "a row lies outside its block, or on another")
        yield content[start + offset : start + offset + size]


def _damaged(path: Path, why: str) -> SourceError:
    return SourceError(f"{path} is damaged ({why}): fetch it again, or take the month's .zst instead.")
