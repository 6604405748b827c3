"""Hostile files and records of every line-, table- and archive-shaped source: refused or rejected, within bounds."""

from __future__ import annotations

import lzma
import resource
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backports import zstd

from longform.artifacts.rows import Rejected, Shard, Source
from longform.errors import SourceError
from longform.files import sha256_of
from tasks.sources.files import archives
from tasks.sources.files.bombs import DENSE_FROM_BYTES
from tasks.sources.files.hash_join import number_of_ranges
from tasks.sources.files.inputs import open_files
from tasks.sources.files.lines import block_rows, read_lines
from tasks.sources.files.parquet import parquet_batches
from tasks.sources.openreview import submissions as openreview
from tasks.sources.released import commitpackft, ultrafeedback, webgpt, wildchat
from tasks.sources.stackexchange import posts as stackexchange
from tasks.text.html_to_markdown import to_markdown

LINES = b'{"n": 1}\n{"n": 2}\n'


def piece(path: Path, content: bytes, **how: Any) -> Shard:
    path.write_bytes(content)
    (source,) = open_files([path], group="g", endings=("",), digest=sha256_of, **how)
    return Shard(source, 0)


# ---------------------------------------------------------------- lines


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    marked = b"\xef\xbb\xbf" + LINES
    assert list(read_lines(piece(tmp_path / "a.jsonl", marked))) == LINES.splitlines()
    assert list(read_lines(piece(tmp_path / "b.jsonl.zst", zstd.compress(marked)))) == LINES.splitlines()
    cut = piece(tmp_path / "c.jsonl", marked, piece_bytes=5)
    pieces = (Shard(cut.source, index) for index in range(len(cut.source.pieces)))
    assert [line for one in pieces for line in read_lines(one)] == LINES.splitlines()


def test_a_zstd_file_may_begin_with_a_frame_to_skip(tmp_path: Path) -> None:
    notes = b"\x50\x2a\x4d\x18" + struct.pack("<I", 4) + b"note"
    packed = notes + zstd.compress(LINES) + notes
    assert list(read_lines(piece(tmp_path / "a.jsonl.zst", packed))) == LINES.splitlines()


@pytest.mark.parametrize("pack", [bytes, zstd.compress])
def test_a_file_of_line_feeds_is_refused(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    name = "a.jsonl" if pack is bytes else "a.jsonl.zst"
    with pytest.raises(SourceError, match="lines of less than 4 bytes"):
        list(read_lines(piece(tmp_path / name, pack(LINES + b"\n" * 2 * DENSE_FROM_BYTES))))


# ---------------------------------------------------------------- records that nest deep

DEPTHS = (300, 900, 1_010, 1_020, 100_000)


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def of_webgpt(deep: bytes) -> Iterable[Any]:
    side = b'"answer_%d":"a","score_%d":0,"quotes_%d":{"title":[],"extract":[]}'
    sides = b",".join(side % (number, number, number) for number in (0, 1))
    return webgpt.comparisons([b'{"question":{"full_text":"q","id":%s},%s}' % (deep, sides)], None)


def of_ultrafeedback(deep: bytes) -> Iterable[Any]:
    return ultrafeedback.instructions([ultrafeedback.document(b'{"instruction":%s}' % deep)], {}, corrected=True)


def of_commitpackft(deep: bytes) -> Iterable[Any]:
    return commitpackft.parse_commits([b'{"commit":%s}' % deep], None)


def of_openreview(deep: bytes) -> Iterable[Any]:
    return openreview.parse_submissions([b'{"id":%s,"forum":%s}' % (deep, deep)], openreview.Replies({}), None)


def of_wildchat(deep: bytes) -> Iterable[Any]:
    record = wildchat._document(b'{"conversation_hash":"h","conversation":[{"role":%s}]}' % deep)
    return [Rejected("", "defect", "no JSON") if record is None else wildchat._row(record, {})]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("source", [of_webgpt, of_ultrafeedback, of_commitpackft, of_openreview, of_wildchat])
def test_a_record_that_nests_deep_is_a_rejected_row(source: Callable[[bytes], Iterable[Any]], depth: int) -> None:
    assert [type(item) for item in source(nested(depth))] == [Rejected]


# ---------------------------------------------------------------- Stack Exchange


@pytest.mark.parametrize(
    ("created", "licence"),
    [
        ("9999-12-31T23:59:59.999999", "CC BY-SA 4.0"),
        ("0001-01-01T00:00:00", "CC BY-SA 2.5"),
        ("0001-01-01T00:00:00+05:00", None),
        ("9999-12-31T23:59:59-05:00", None),
    ],
)
def test_times_at_the_ends_of_time_cost_one_row_at_most(created: str, licence: str | None) -> None:
    row = f'<row Id="1" PostTypeId="1" CreationDate="{created}" Score="1" Title="t" Body="b" />'.encode()
    (item,) = stackexchange.parse_posts([row], site="a.example", retrieved_at=None)
    if isinstance(item, Rejected):
        assert (licence, item.reason) == (None, "missing or ill-formed CreationDate")
    else:
        assert item["licence"].to_pylist() == [licence]


def test_long_posts_are_batched_by_their_bytes() -> None:
    row = (
        b'<row Id="%d" PostTypeId="1" CreationDate="2014-01-01" Score="1" Title="t" Body="' + b"b " * 500_000 + b'" />'
    )
    batches = list(stackexchange.parse_posts((row % n for n in range(1, 41)), site="a.example", retrieved_at=None))
    assert [batch.num_rows for batch in batches] == [17, 17, 6]


@pytest.mark.parametrize("opening", ["<blockquote>", "<blockquote><ul><li>", "<ul><li>", "<pre>"])
def test_nested_quotes_and_lists_take_little_memory(opening: str) -> None:
    """Before, 27 KB of these took 3 GB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = to_markdown(opening * 900 + "<p>x</p>" * 2_000)
    assert text.count("x") == 2_000
    assert len(text) < 100_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10


def test_ranges_are_numbered_by_bytes_too(tmp_path: Path) -> None:
    table = pa.table({"text": ["x" * (1 << 20)]})
    with pq.ParquetWriter(tmp_path / "a.parquet", table.schema, use_dictionary=False) as file:
        for _ in range(12):
            file.write_table(table)
    assert number_of_ranges([str(tmp_path / "a.parquet")], memory_limit_mb=16) == 3


# ---------------------------------------------------------------- archives


def seven_zip(header: bytes, packed: bytes = b"") -> bytes:
    """An archive of this header, behind these packed bytes."""
    start = struct.pack("<QQI", len(packed), len(header), zlib.crc32(header))
    return archives.MAGIC + b"\0\4" + struct.pack("<I", zlib.crc32(start)) + start + packed + header


def number(value: int) -> bytes:
    return b"\xff" + struct.pack("<Q", value)


def packed_header(header: bytes) -> bytes:
    """An archive whose list of files is packed, as 7-Zip's format has it."""
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20}]
    packed = lzma.compress(header, lzma.FORMAT_RAW, filters=filters)
    folder = b"\x07\x0b" + number(1) + b"\0" + number(1) + b"\x21\x21\x01\x10"
    sizes = b"\x0c" + number(len(header)) + b"\x0a\x01" + struct.pack("<I", zlib.crc32(header)) + b"\0\0"
    streams = b"\x06" + number(0) + number(1) + b"\x09" + number(len(packed)) + b"\0"
    return seven_zip(b"\x17" + streams + folder + sizes, packed)


def empty_files(count: int) -> bytes:
    """The header of an archive of so many empty files."""
    flags = b"\xff" * ((count + 7) // 8)
    names = b"\0" + b"a\0\0\0" * count
    lists = ((b"\x0e", flags), (b"\x0f", flags), (b"\x11", names))
    return b"\x01\x05" + number(count) + b"".join(kind + number(len(of)) + of for kind, of in lists) + b"\0\0"


def test_the_hand_made_archive_is_one(tmp_path: Path) -> None:
    (tmp_path / "a.7z").write_bytes(packed_header(empty_files(3)))
    with pytest.raises(SourceError, match=r"holds no Posts\.xml \(but a\)"):
        archives.check(tmp_path / "a.7z", "Posts.xml")


@pytest.mark.parametrize("count", [20_000, 3_000_000])
def test_an_archive_of_countless_empty_files_is_refused(tmp_path: Path, count: int) -> None:
    (tmp_path / "a.7z").write_bytes(packed_header(empty_files(count)))
    assert (tmp_path / "a.7z").stat().st_size < 4_000
    with pytest.raises(SourceError, match="exceeds limit"):
        archives.check(tmp_path / "a.7z", "Posts.xml")


def block(content: bytes) -> bytes:
    packed = zstd.compress(content)
    return struct.pack("<I", len(packed)) + packed


def test_rows_that_share_bytes_are_refused(tmp_path: Path) -> None:
    row = b"x" * 1_000
    (tmp_path / "a.zst_blocks").write_bytes(block(struct.pack("<I", 50) + struct.pack("<II", 0, 1_000) * 50 + row))
    with pytest.raises(SourceError, match="or on another"):
        list(block_rows(tmp_path / "a.zst_blocks"))


def test_blocks_that_grow_a_thousandfold_are_refused(tmp_path: Path) -> None:
    row = bytes(20 << 20)
    content = block(struct.pack("<I", 1) + struct.pack("<II", 0, len(row)) + row)
    (tmp_path / "a.zst_blocks").write_bytes(content * 4)
    with pytest.raises(SourceError, match="1000 times its size"):
        list(block_rows(tmp_path / "a.zst_blocks"))


# ---------------------------------------------------------------- Parquet

IDS = pa.array(["a", "b"])
TIMES = pa.array([0, 0], pa.timestamp("us", "UTC"))
SAID = pa.array([[{"role": "user", "content": "x"}]] * 2)
ILL_FORMED = pa.StringArray.from_buffers(
    2, pa.py_buffer(np.array([0, 2, 4], np.int32).tobytes()), pa.py_buffer(b"\xff\xfeok")
)


def whole(path: Path) -> Shard:
    return Shard(Source("wildchat", str(path), "0" * 64, (("name", path.name), ("retrieved_at", None)), ((0, -1),)), 0)


@pytest.mark.parametrize(
    "columns",
    [
        {"conversation_hash": ILL_FORMED, "timestamp": TIMES, "conversation": SAID},
        {"conversation_hash": IDS, "timestamp": TIMES, "conversation": SAID, "toxic": pa.array(["no", "no"])},
        {
            "conversation_hash": IDS,
            "timestamp": TIMES,
            "conversation": pa.array([[{"role": "user", "content": b"\xff"}]] * 2),
        },
        {
            "conversation_hash": IDS,
            "timestamp": TIMES.cast(pa.int64()).cast(pa.timestamp("us")),
            "conversation": pa.nulls(2, SAID.type),
            "model": ILL_FORMED,
        },
    ],
    ids=["no UTF-8", "another type", "bytes for text", "no UTF-8 in a broken row"],
)
def test_columns_that_cannot_be_read_are_errors(tmp_path: Path, columns: dict[str, pa.Array]) -> None:
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match="is no whole Parquet file of this source"):
        list(wildchat.conversations(whole(tmp_path / "a.parquet"), np.zeros(0, int), toxic=False))


def repeats(path: Path, rows: int, length: int) -> Iterator[pa.RecordBatch]:
    """Of a file that holds one text, once, for so many rows."""
    texts = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["x" * length]).cast(pa.string())
    pq.write_table(pa.table({"content": texts}), path, compression="zstd", dictionary_pagesize_limit=length * 2)
    return parquet_batches(whole(path), lambda _: True, 1_000)


def test_a_dictionary_that_repeats_a_long_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    sizes = []
    with pytest.raises(SourceError, match="1000 times its size"):
        sizes = [batch.nbytes for batch in repeats(path, 300, 1 << 20)]
    assert not sizes
    assert path.stat().st_size < 10_000


def test_batches_are_cut_by_their_bytes(tmp_path: Path) -> None:
    batches = list(repeats(tmp_path / "a.parquet", 50, 1 << 20))
    assert [batch.num_rows for batch in batches] == [16, 16, 16, 2]
