"""How much a source can hold, without reading it: bytes unpacked, and records of at least so many bytes.

A bound is never below what is read: a plain file has its size, a .7z states that of its members, the footer of a
Parquet file its rows, a .zip its members. Of what else is packed the readers refuse to unpack more than a thousand
times its size (`refuse_bomb`), and deflate cannot pack closer than 1 to 1,032.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from longform.artifacts.rows import Shard
from longform.engine.at_most import Sizes
from tasks.sources.files.bundles import ZIPS, Bundle
from tasks.sources.files.found import LARGEST_RATIO, RATIO_FROM_BYTES, WHOLE
from tasks.sources.files.lines import packing
from tasks.sources.files.parquet import is_parquet, rows_of

DEFLATE_RATIO = 1_032
TAR_BYTES = 1_024  # of a member: its header and a block of what it holds


def unpacked_at_most(piece: Shard) -> float:
    """Bytes of a piece as its reader sees them; of a range those that begin in it."""
    if isinstance(piece.source, Bundle):
        return sum(_unpacked(Path(file.path)) for file in piece.source.files)
    path = Path(piece.source.path)
    ranged = (piece.start, piece.end) != WHOLE and not path.name.lower().endswith(ZIPS)
    return piece.end - piece.start if ranged and not is_parquet(path) else _unpacked(path)


def records_at_most(piece: Shard, least_bytes: float) -> float:
    """Records of a piece, each of which takes at least so many bytes, its line feed included."""
    path = Path(piece.source.path)
    if isinstance(piece.source, Bundle):
        return len(piece.source.files)
    if path.name.lower().endswith(ZIPS):
        return piece.end - piece.start
    if is_parquet(path):
        return rows_of(piece)
    if ".tar" in path.name.lower() or path.suffix.lower() in (".tgz", ".tbz2", ".txz"):
        return unpacked_at_most(piece) // TAR_BYTES
    return unpacked_at_most(piece) // least_bytes + 1


def of_source(name: str) -> Callable[[Sizes], float]:
    """The bytes of the source that a stage calls so, as its bound declares them."""
    return lambda of: unpacked_at_most(of[name])


def lines_of(name: str, least: str) -> Callable[[Sizes], float]:
    """The records of that source, of which none is shorter than `least`."""
    return lambda of: records_at_most(of[name], len(least.encode()) + 1)


def _unpacked(path: Path) -> float:
    size = path.stat().st_size
    kind = None if is_parquet(path) else packing(path)
    if kind is None and not is_parquet(path) and not path.name.lower().endswith(ZIPS):
        return size
    most = max(RATIO_FROM_BYTES, LARGEST_RATIO * size)
    return min(most, DEFLATE_RATIO * size) if kind == "gzip" else most
