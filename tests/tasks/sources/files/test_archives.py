import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import py7zr
import pytest

from longform.errors import SourceError
from tasks.sources.files import archives
from tasks.sources.files.bombs import RATIO_FROM_BYTES

libarchive: Any = archives._libarchive()
TEXT = b"".join(b"%d squared is %d\r\n" % (number, number**2) for number in range(40_000))
OTHER = b"another table " * 1000
BOMB = bytes(RATIO_FROM_BYTES + 1)
FASTEST = [{"id": py7zr.FILTER_ZSTD, "level": 1}]
FAST = [{"id": py7zr.FILTER_LZMA2, "preset": 1}]
Reader = Callable[[IO[bytes], str], Iterator[bytes]]
STORED = [{"id": py7zr.FILTER_COPY}]


def seven_zip(path: Path, members: dict[str, bytes], **options: Any) -> Path:
    if "password" not in options:
        options.setdefault("filters", FAST)
    with py7zr.SevenZipFile(path, "w", **options) as archive:
        if options.get("header_encryption"):
            archive.set_encrypted_header(True)
        for name, content in members.items():
            archive.writestr(content, name)
    return path


def with_libarchive(file: IO[bytes], name: str) -> Iterator[bytes]:
    return archives.libarchive_blocks(libarchive, file, name, "the dump")


def with_py7zr(file: IO[bytes], name: str) -> Iterator[bytes]:
    return archives.py7zr_blocks(file, name, "the dump")


def checked_and_read(path: Path, reader: Reader) -> bytes | None:
    """Posts.xml, or None where the archive is refused at opening or while reading."""
    try:
        archives.check(path, "Posts.xml")
        with path.open("rb") as file:
            return b"".join(reader(file, "Posts.xml"))
    except SourceError:
        return None


READERS = [
    pytest.param(with_libarchive, marks=pytest.mark.skipif(libarchive is None, reason="no system libarchive")),
    with_py7zr,
]


@pytest.mark.parametrize("reader", READERS)
def test_each_reader_gives_the_member_that_was_packed(tmp_path: Path, reader: Reader) -> None:
    path = seven_zip(tmp_path / "a.7z", {"Badges.xml": OTHER, "Posts.xml": TEXT, "Users.xml": OTHER})
    with path.open("rb") as file:
        assert b"".join(reader(file, "Posts.xml")) == TEXT


@pytest.mark.parametrize("reader", READERS)
def test_a_flipped_byte_in_the_middle_ends_in_an_error_not_in_other_text(tmp_path: Path, reader: Reader) -> None:
    path = seven_zip(tmp_path / "a.7z", {"Posts.xml": TEXT})
    packed = bytearray(path.read_bytes())
    for position in (len(packed) // 3, len(packed) // 2, 40):
        damaged = bytearray(packed)
        damaged[position] ^= 0x55
        path.write_bytes(damaged)
        with path.open("rb") as file, pytest.raises(SourceError, match=r"the dump is damaged .* fetch it again"):
            list(reader(file, "Posts.xml"))


@pytest.mark.parametrize("reader", READERS)
def test_a_wrong_checksum_is_an_error(tmp_path: Path, reader: Reader) -> None:
    path = seven_zip(tmp_path / "a.7z", {"Posts.xml": TEXT}, filters=STORED)
    packed = bytearray(path.read_bytes())
    packed[5000] ^= 1
    path.write_bytes(packed)
    with path.open("rb") as file, pytest.raises(SourceError, match="damaged"):
        list(reader(file, "Posts.xml"))


def test_py7zr_ends_its_thread_when_the_reader_stops_early(tmp_path: Path) -> None:
    path = seven_zip(tmp_path / "a.7z", {"Posts.xml": TEXT * 60}, filters=STORED)
    before = threading.active_count()
    with path.open("rb") as file:
        blocks = with_py7zr(file, "Posts.xml")
        assert TEXT.startswith(next(blocks)[:1000])
        blocks.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


@pytest.mark.parametrize("name", ["Posts.xml", "posts.xml", "beer.stackexchange.com/Posts.xml", "./Posts.xml"])
def test_a_member_is_found_whatever_its_folder(tmp_path: Path, name: str) -> None:
    path = seven_zip(tmp_path / "a.7z", {"Badges.xml": OTHER, name: TEXT})
    archives.check(path, "Posts.xml")
    assert b"".join(archives.member_blocks(path, "Posts.xml")) == TEXT


def test_an_archive_in_an_archive_is_read_through(tmp_path: Path) -> None:
    inner = seven_zip(tmp_path / "inner.7z", {"Users.xml": OTHER, "Posts.xml": TEXT}).read_bytes()
    outer = seven_zip(tmp_path / "outer.7z", {"beer.stackexchange.com.7z": inner})
    archives.check(outer, "Posts.xml")
    assert b"".join(archives.member_blocks(outer, "Posts.xml")) == TEXT


def test_of_an_archive_of_tables_the_posts_are_read(tmp_path: Path) -> None:
    posts = seven_zip(tmp_path / "p.7z", {"Posts.xml": TEXT}).read_bytes()
    users = seven_zip(tmp_path / "u.7z", {"Users.xml": OTHER}).read_bytes()
    names = {"stackoverflow.com-Users.7z": users, "stackoverflow.com-Posts.7z": posts}
    assert b"".join(archives.member_blocks(seven_zip(tmp_path / "o.7z", names), "Posts.xml")) == TEXT


def test_archives_nested_without_end_are_given_up(tmp_path: Path) -> None:
    path = seven_zip(tmp_path / "0.7z", {"Users.xml": OTHER})
    for depth in range(1, 6):
        path = seven_zip(tmp_path / f"{depth}.7z", {"a.7z": path.read_bytes()})
    with pytest.raises(SourceError, match=r"nests archives 3 deep without Posts\.xml"):
        list(archives.member_blocks(path, "Posts.xml"))


@pytest.mark.parametrize("bomb", ["Posts.xml", "Badges.xml"])
def test_an_archive_that_grows_a_thousandfold_is_refused_at_opening(tmp_path: Path, bomb: str) -> None:
    members = {"Badges.xml": b"<badges/>", "Posts.xml": b"<posts/>", bomb: BOMB}
    with pytest.raises(SourceError, match="1000 times its size"):
        archives.check(seven_zip(tmp_path / "bomb.7z", members, filters=FASTEST), "Posts.xml")


def test_a_bomb_inside_an_archive_is_refused_when_it_is_reached(tmp_path: Path) -> None:
    inner = seven_zip(tmp_path / "inner.7z", {"Posts.xml": BOMB}, filters=FASTEST).read_bytes()
    outer = seven_zip(tmp_path / "outer.7z", {"beer.stackexchange.com.7z": inner})
    archives.check(outer, "Posts.xml")
    with pytest.raises(SourceError, match="1000 times its size"):
        list(archives.member_blocks(outer, "Posts.xml"))


def test_names_that_climb_out_of_the_folder_write_nothing(tmp_path: Path) -> None:
    pytest.importorskip("libarchive") if libarchive else pytest.skip("no system libarchive")
    folder = tmp_path / "deep" / "er"
    folder.mkdir(parents=True)
    with libarchive.file_writer(str(folder / "a.7z"), "7zip") as archive:
        archive.add_file_from_memory("../../Posts.xml", len(TEXT), TEXT)
    assert b"".join(archives.member_blocks(folder / "a.7z", "Posts.xml")) == TEXT
    with (folder / "a.7z").open("rb") as file, pytest.raises(SourceError, match="damaged"):
        list(with_py7zr(file, "../../Posts.xml"))
    assert sorted(file.name for file in tmp_path.rglob("*") if file.is_file()) == ["a.7z"]


def test_whatever_is_cut_off_an_archive_it_is_refused_at_opening(tmp_path: Path) -> None:
    whole = seven_zip(tmp_path / "a.7z", {"Posts.xml": TEXT}).read_bytes()
    cut = tmp_path / "cut.7z"
    for size in [1, 6, 31, 32, 33, *range(100, len(whole), len(whole) // 20), len(whole) - 1]:
        cut.write_bytes(whole[:size])
        with pytest.raises(SourceError, match="fetch it again"):
            archives.check(cut, "Posts.xml")


@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_list_of_members_never_gives_other_text(tmp_path: Path, reader: Reader) -> None:
    whole = seven_zip(tmp_path / "a.7z", {"Posts.xml": TEXT}).read_bytes()
    path = tmp_path / "damaged.7z"
    for position in [*range(8, 32), *range(len(whole) - 120, len(whole), 3)]:
        damaged = bytearray(whole)
        damaged[position] ^= 0x41
        path.write_bytes(damaged)
        assert checked_and_read(path, reader) in (TEXT, None)


@pytest.mark.parametrize("header", [False, True])
def test_an_encrypted_archive_is_refused_at_opening(tmp_path: Path, header: bool) -> None:
    path = seven_zip(tmp_path / "a.7z", {"Posts.xml": TEXT}, password="secret", header_encryption=header)
    with pytest.raises(SourceError, match=r"is encrypted: decrypt it first"):
        archives.check(path, "Posts.xml")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"Users.xml": OTHER}, r"holds no Posts.xml \(but Users.xml\)"),
        ({}, r"holds no Posts.xml \(but nothing\)"),
        ({"Posts.xml": b""}, "holds Posts.xml, but it is empty"),
        ({"a/Posts.xml": TEXT, "b/Posts.xml": TEXT}, "holds 2 files called Posts.xml"),
        ({"a.7z": TEXT, "b.7z": TEXT}, "holds 2 files called Posts.xml or archives of it"),
    ],
)
def test_an_archive_without_one_table_of_posts_says_so(tmp_path: Path, members: dict[str, bytes], message: str) -> None:
    path = seven_zip(tmp_path / "a.7z", members)
    with pytest.raises(SourceError, match=message):
        archives.check(path, "Posts.xml")


@pytest.mark.parametrize("content", [b"<posts></posts>", b"PK\x03\x04 a zip", b"\xff\xd8\xff\xe0 JFIF"])
def test_another_format_is_no_archive(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.7z").write_bytes(content)
    with pytest.raises(SourceError, match="is no 7z archive"):
        archives.check(tmp_path / "a.7z", "Posts.xml")


def test_an_archive_inside_that_is_none_is_refused_while_reading(tmp_path: Path) -> None:
    path = seven_zip(tmp_path / "a.7z", {"beer.stackexchange.com.7z": b"<posts>" * 100})
    with pytest.raises(SourceError, match=r"a\.7z \(beer\.stackexchange\.com\.7z\) is no 7z archive"):
        list(archives.member_blocks(path, "Posts.xml"))
