"""Upper bounds of what is in a source, without reading it: its unpacked bytes, and its records.

A bound is never below what is read. A plain file has its size, the footer of a Parquet file states its rows, a .zip its
members, a .7z the sizes of its members (`archives.unpacked_bytes`). Of any other packed file the readers refuse to
unpack more than a thousand times its size (`refuse_bomb`), and deflate cannot pack closer than 1 to 1,032.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from longform.artifacts.rows import Shard
from longform.engine.at_most import Sizes
from tasks.sources.files.bombs import LARGEST_RATIO, RATIO_FROM_BYTES
from tasks.sources.files.bundles import ZIPS, Bundle
from tasks.sources.files.inputs import WHOLE
from tasks.sources.files.lines import packing
from tasks.sources.files.parquet import is_parquet, rows_of

DEFLATE_RATIO = 1_032
TAR_BYTES = 1_024  # of a member: its header and a block of what it holds


def unpacked_at_most(piece: Shard) -> float:
    """Upper bound of the unpacked bytes of a piece: for a byte range of a plain file the length of the range, for a
    bundle that of its files that are read, together, else that of the whole file, also for a piece of a .zip or Parquet
    file. Not for .7z and .zst_blocks files, which count as plain.
    """
    if isinstance(piece.source, Bundle):
        return sum(_unpacked(Path(file.path)) for file in piece.source.files if not file.fault)
    path = Path(piece.source.path)
    ranged = (piece.start, piece.end) != WHOLE and not path.name.lower().endswith(ZIPS)
    return piece.end - piece.start if ranged and not is_parquet(path) else _unpacked(path)


def records_at_most(piece: Shard, least_bytes: float) -> float:
    """Upper bound of the records of a piece. For a bundle or a piece of a .zip its number of files, for Parquet its
    number of rows, for a tar what its unpacked bytes allow at TAR_BYTES a file; for lines, what the unpacked bytes
    allow if none is shorter than `least_bytes`, line feed included.
    """
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


def most_bytes(name: str) -> Callable[[Sizes], float]:
    """For `AtMost(bytes=...)` of a stage: a function that gives the upper bound of the unpacked bytes
    (`unpacked_at_most`) of the stage's parameter `name`, which is a piece of a source.
    """
    return lambda of: unpacked_at_most(of[name])


def most_records(name: str, least: str) -> Callable[[Sizes], float]:
    """For `AtMost(rows=...)` of a stage: a function that gives the upper bound of the records (`records_at_most`) of
    the stage's parameter `name`, which is a piece of a source. `least`: the text of the shortest possible record,
    without line feed.
    """
    return lambda of: records_at_most(of[name], len(least.encode()) + 1)


def _unpacked(path: Path) -> float:
    """Upper bound of the unpacked bytes of a file: its size if it is plain; else LARGEST_RATIO times its size, or
    RATIO_FROM_BYTES if that is more, and for gzip at most DEFLATE_RATIO times its size. A file is plain unless it is a
    .zip by its name, or begins as Parquet, gzip, zstd, bzip2 or xz: a .7z or .zst_blocks file counts as plain.
    """
    size = path.stat().st_size
    kind = None if is_parquet(path) else packing(path)
    if kind is None and not is_parquet(path) and not path.name.lower().endswith(ZIPS):
        return size
    most = max(RATIO_FROM_BYTES, LARGEST_RATIO * size)
    return min(most, DEFLATE_RATIO * size) if kind == "gzip" else most
