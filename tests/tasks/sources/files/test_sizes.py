"""Upper bounds of what files hold, against what reading them gives."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pytest

from longform.artifacts.rows import Shard
from longform.files import sha256_of
from tasks.sources.files.bundles import open_bundles
from tasks.sources.files.inputs import open_files
from tasks.sources.files.lines import read_lines
from tasks.sources.files.sizes import DEFLATE_RATIO, records_at_most, unpacked_at_most

LINES = b"".join(b'{"n": %d}\n' % n for n in range(500))


def pieces(path: Path, piece_bytes: int | None = None) -> list[Shard]:
    found = open_files([path], group="g", endings=(".jsonl",), digest=sha256_of, piece_bytes=piece_bytes)
    return [Shard(source, index) for source in found for index in range(len(source.pieces))]


def test_ranges_of_a_plain_file_have_its_size_together_and_no_range_has_more_lines_than_its_bound(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    cut = pieces(tmp_path / "a.jsonl", 1_000)
    assert len(cut) == -(-len(LINES) // 1_000)
    assert [unpacked_at_most(piece) for piece in cut] == [1_000] * (len(cut) - 1) + [len(LINES) % 1_000]
    for piece in cut:
        assert len(list(read_lines(piece))) <= records_at_most(piece, 9) + 1


def test_a_packed_file_is_bounded_by_what_its_packing_allows(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(LINES))
    (piece,) = pieces(path)
    assert len(LINES) <= unpacked_at_most(piece) <= DEFLATE_RATIO * max(path.stat().st_size, 1 << 20)
    assert records_at_most(piece, 9) >= 500


@pytest.mark.parametrize("members", [1, 5])
def test_the_members_of_a_zip_are_its_records(tmp_path: Path, members: int) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for n in range(members):
            archive.writestr(f"{n}.json", "{}")
    found = open_bundles([tmp_path / "a.zip"], group="g", endings=(".json",), digest=sha256_of, mean=2)
    cut = [Shard(source, index) for source in found for index in range(len(source.pieces))]
    assert sum(records_at_most(piece, 1) for piece in cut) == members
