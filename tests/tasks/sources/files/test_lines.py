"""Lines of plain and packed files: every line once, whatever the packing and the cut; truncation is told."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
from pathlib import Path

import pytest
from backports import zstd
from hypothesis import assume, given
from hypothesis import strategies as st

from longform.artifacts.rows import Shard
from longform.errors import SourceError, UsageError
from longform.files import sha256_of
from tasks.sources.files.bombs import RATIO_FROM_BYTES
from tasks.sources.files.inputs import open_files
from tasks.sources.files.lines import BLOCK_BYTES, read_lines, split_lines, unpacked

PACK = {".gz": gzip.compress, ".zst": zstd.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".jsonl": bytes}
CONTENT = b"".join(
    b'{"n": %d, "text": "%s"}\n' % (n, random.Random(n).randbytes(n % 97).hex().encode()) for n in range(900)
)
ODD = "a\x85b\u2028c\x0bd\r\n\ne".encode()


def pieces(path: Path, piece_bytes: int | None = None) -> list[Shard]:
    (source,) = open_files([path], group="g", endings=("",), digest=sha256_of, piece_bytes=piece_bytes)
    return [Shard(source, index) for index in range(len(source.pieces))]


@pytest.mark.parametrize("ending", PACK)
def test_lines_end_with_a_line_feed_and_nothing_else_in_every_packing(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x{ending}"
    path.write_bytes(PACK[ending](CONTENT + ODD))
    (piece,) = pieces(path)
    assert list(read_lines(piece)) == (CONTENT + ODD).split(b"\n")


def test_frames_and_members_one_after_the_other_are_one_file(tmp_path: Path) -> None:
    half = len(CONTENT) // 2
    for ending in (".gz", ".zst", ".bz2", ".xz"):
        path = tmp_path / f"x{ending}"
        path.write_bytes(PACK[ending](CONTENT[:half]) + PACK[ending](CONTENT[half:]))
        assert b"".join(unpacked(path)) == CONTENT


def test_zeros_after_a_gzip_member_are_left_out_and_anything_else_is_damage(tmp_path: Path) -> None:
    path, zeros = tmp_path / "x.gz", bytes(200_000)
    path.write_bytes(gzip.compress(CONTENT) + zeros + gzip.compress(b"") + gzip.compress(ODD) + zeros)
    assert b"".join(unpacked(path)) == gzip.decompress(path.read_bytes()) == CONTENT + ODD
    for rest in (b"x", zeros + b"x" * 40, b"\x1f\x8b"):
        path.write_bytes(gzip.compress(CONTENT) + rest)
        with pytest.raises(SourceError, match=r"truncated|damaged"):
            list(unpacked(path))


def test_a_wrong_sum_of_a_gzip_member_is_damage(tmp_path: Path) -> None:
    path, packed = tmp_path / "x.gz", bytearray(gzip.compress(CONTENT))
    for place in (-1, -5):  # the length, and the CRC
        path.write_bytes(packed[:place] + bytes([packed[place] ^ 1]) + packed[len(packed) + place + 1 :])
        with pytest.raises(SourceError, match="damaged"):
            list(unpacked(path))


@pytest.mark.parametrize("ending", [".gz", ".zst", ".bz2", ".xz"])
def test_blocks_are_bounded_whatever_the_packing(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x{ending}"
    path.write_bytes(PACK[ending](bytes(8 << 20)))
    sizes = [len(block) for block in unpacked(path)]
    assert sum(sizes) == 8 << 20
    assert max(sizes) <= BLOCK_BYTES


@given(st.lists(st.binary(max_size=30), max_size=40), st.integers(1, 60))
def test_the_pieces_of_a_plain_file_have_each_line_once(
    tmp_path_factory: pytest.TempPathFactory, texts: list[bytes], cut: int
) -> None:
    path = tmp_path_factory.mktemp("cut") / "x.txt"
    assume(not b"".join(texts[:1]).startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")))  # UTF-16, UTF-32
    path.write_bytes(b"\n".join(texts) + b"\nend")
    got = [line for piece in pieces(path, cut) for line in read_lines(piece)]
    assert got == path.read_bytes().split(b"\n")


@given(st.lists(st.binary(max_size=20), max_size=30), st.integers(1, 9))
def test_blocks_may_end_anywhere(texts: list[bytes], size: int) -> None:
    whole = b"\n".join(texts)
    blocks = [whole[at : at + size] for at in range(0, len(whole), size)]
    want = whole.split(b"\n")
    assert list(split_lines(iter(blocks), "blocks")) == (want if want[-1] else want[:-1])


@pytest.mark.parametrize("ending", [".gz", ".zst", ".bz2", ".xz"])
def test_a_file_cut_anywhere_is_an_error_and_never_a_shorter_file(tmp_path: Path, ending: str) -> None:
    packed = PACK[ending](CONTENT)
    path = tmp_path / f"x{ending}"
    for size in [1, 5, 9, 40, *random.Random(1).sample(range(50, len(packed)), 60), len(packed) - 1]:
        path.write_bytes(packed[:size])
        with pytest.raises(SourceError, match=r"truncated|damaged|is no"):
            list(unpacked(path))


def test_a_page_that_is_named_like_a_packed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "RC_2020-01.zst"
    path.write_text("<html>Please log in</html>")
    with pytest.raises(SourceError, match=r"is no zstd file \(its first bytes are 3c 68 74 6d\)"):
        list(unpacked(path))


def test_a_file_that_unpacks_to_a_thousand_times_its_size_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zst"
    path.write_bytes(zstd.compress(bytes(RATIO_FROM_BYTES + 1)))
    blocks = unpacked(path)
    with pytest.raises(SourceError, match="1000 times its size"):
        sum(1 for _ in iter(lambda: len(next(blocks)), 0))
    assert list(blocks) == []


def test_of_a_line_without_end_only_the_start_is_held(tmp_path: Path) -> None:
    path, held = tmp_path / "x.txt", BLOCK_BYTES
    path.write_bytes(b"a\n" + b"b" * (10 * held) + b"\nc\nd")
    read = [line for piece in pieces(path, 3 * held) for line in read_lines(piece, max_line_bytes=held)]
    assert read == [b"a", b"b" * held, b"c", b"d"]


def test_a_folder_stands_for_its_files_and_a_file_counts_once(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", ".hidden.jsonl", "c.txt"):
        (tmp_path / name).write_text(name)
    found = open_files([tmp_path, tmp_path / "a.jsonl"], group="g", endings=(".jsonl",), digest=sha256_of)
    assert [Path(source.path).name for source in found] == ["a.jsonl", "b.jsonl"]


def test_the_side_file_of_a_fetch_tells_when(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}")
    (tmp_path / "a.jsonl.fetch.json").write_text('{"retrieved_at": "2026-01-02T03:04:05+00:00"}')
    (source,) = open_files(
        [tmp_path / "a.jsonl"], group="g", endings=("",), digest=sha256_of, retrieved_at="2020-01-01"
    )
    assert dict(source.facts)["retrieved_at"] == "2026-01-02T03:04:05+00:00"


def test_what_cannot_be_a_source_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "folder").mkdir()
    for path, error, said in (
        (tmp_path / "nothing", SourceError, "does not exist"),
        (tmp_path / "empty.jsonl", SourceError, "is empty"),
        (tmp_path / "folder", SourceError, "holds no file that ends in .jsonl"),
    ):
        with pytest.raises(error, match=said):
            open_files([path], group="g", endings=(".jsonl",), digest=sha256_of)
    with pytest.raises(UsageError, match="No file was named"):
        open_files([], group="g", endings=(".jsonl",), digest=sha256_of)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "utf-32-be"])
@pytest.mark.parametrize("ending", [".jsonl", ".gz"])
def test_a_file_of_wide_characters_is_named_instead_of_read_as_nothing(
    tmp_path: Path, encoding: str, ending: str
) -> None:
    path = tmp_path / f"x{ending}"
    path.write_bytes(PACK[ending](("\ufeff" * encoding.endswith("be") + '{"n": 1}\n{"n": 2}\n').encode(encoding)))
    with pytest.raises(SourceError, match=f"is UTF-{encoding[4:6]} by its first bytes"):
        list(read_lines(pieces(path)[0]))
