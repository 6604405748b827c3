"""Folders and archives of many small files: which units they become, and what hostile archives cost."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from longform.artifacts.rows import Shard, Source
from longform.errors import SourceError
from longform.files import sha256_of
from tasks.sources.files.bundles import Bundle, Member, members, open_bundles
from tasks.sources.files.inputs import SIDE_FILE

XML = (".xml",)


def opened(*paths: Path, mean: int = 8, endings: tuple[str, ...] = XML) -> list[Source]:
    return open_bundles(paths, group="file", endings=endings, digest=sha256_of, mean=mean)


def read(sources: list[Source], max_bytes: int = 1_000) -> list[Member]:
    pieces = [Shard(source, index) for source in sources for index in range(len(source.pieces))]
    return [member for piece in pieces for member in members(piece, endings=XML, max_bytes=max_bytes)]


def files(folder: Path, number: int) -> Path:
    for n in range(number):
        (folder / f"{n:04}.xml").write_bytes(f"<a>{n}</a>".encode())
    return folder


def tar(path: Path, contents: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def zipped(path: Path, contents: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return path


# ---------------------------------------------------------------- folders


def test_each_file_of_a_folder_is_in_one_bundle(tmp_path: Path):
    sources = opened(files(tmp_path, 200))
    assert all(isinstance(source, Bundle) for source in sources)
    assert 12 < len(sources) < 50
    assert [member.content for member in read(sources)] == [f"<a>{n}</a>".encode() for n in range(200)]


def test_one_more_file_changes_one_bundle_or_two(tmp_path: Path):
    before = {source.sha256 for source in opened(files(tmp_path, 200))}
    (tmp_path / "0100b.xml").write_bytes(b"<a>new</a>")
    after = {source.sha256 for source in opened(tmp_path)}
    assert 1 <= len(after - before) <= 2


def test_names_of_folders_are_no_identity_but_names_contents_and_times_of_files_are(tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.xml").write_bytes(b"<a/>")
    inside = opened(tmp_path / "in")
    (tmp_path / "in" / "a.xml").rename(tmp_path / "a.xml")
    first = opened(tmp_path)
    assert [source.identity() for source in first] == [source.identity() for source in inside]
    (tmp_path / "a.xml").rename(tmp_path / "b.xml")  # the name is a column of papers
    assert [source.identity() for source in opened(tmp_path)] != [source.identity() for source in first]
    (tmp_path / f"b.xml{SIDE_FILE}").write_text(json.dumps({"retrieved_at": "2026-01-02"}))
    later = opened(tmp_path)
    assert later[0].identity() != first[0].identity()
    assert read(later)[0].retrieved_at == "2026-01-02"


def test_equal_files_count_once_and_hidden_ones_not(tmp_path: Path):
    for name in ("a.xml", "b.xml", ".c.xml", "._d.xml", "e.txt"):
        (tmp_path / name).write_bytes(b"<a/>")
    found = [(member.name, member.fault) for member in read(opened(tmp_path, tmp_path))]
    assert found == [("a.xml", None), ("b.xml", "repeated file")]


def test_an_empty_and_a_large_file_are_members_with_a_fault(tmp_path: Path):
    (tmp_path / "a.xml").write_bytes(b"")
    (tmp_path / "b.xml").write_bytes(b"x" * 2_000)
    (tmp_path / "c.xml.gz").write_bytes(gzip.compress(b"x" * 2_000))
    (tmp_path / "d.xml.gz").write_bytes(gzip.compress(b"<d/>"))
    found = {member.name: (member.fault, member.content) for member in read(opened(tmp_path))}
    assert found["a.xml"] == ("empty file", b"")
    assert found["b.xml"] == found["c.xml.gz"] == ("too large", b"")
    assert found["d.xml.gz"] == (None, b"<d/>")


def test_a_file_that_changes_meanwhile_is_an_error(tmp_path: Path):
    sources = opened(files(tmp_path, 3))
    (tmp_path / "0001.xml").write_bytes(b"<b/>")
    with pytest.raises(SourceError, match="changed while it was being read"):
        read(sources)


def test_what_is_not_there_is_an_error(tmp_path: Path):
    with pytest.raises(SourceError, match="does not exist"):
        opened(tmp_path / "no")
    assert opened(tmp_path) == []


# ---------------------------------------------------------------- archives

CONTENTS = {"x/a.xml": b"<a/>", "x/b.txt": b"no", "c.XML": b"<c/>", "d.xml": b""}


@pytest.mark.parametrize(
    ("ending", "mode"), [(".tar", "w"), (".tar.gz", "w:gz"), (".tar.bz2", "w:bz2"), (".tar.xz", "w:xz")]
)
def test_members_of_a_tar_are_read_as_a_stream(tmp_path: Path, ending: str, mode: str):
    found = read(opened(tar(tmp_path / f"a{ending}", CONTENTS, mode)))
    assert [(member.name, member.content, member.fault) for member in found] == [
        ("x/a.xml", b"<a/>", None),
        ("c.XML", b"<c/>", None),
        ("d.xml", b"", "empty file"),
    ]
    assert found[0].sha256 == hashlib.sha256(b"<a/>").hexdigest()


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_names_of_both_kinds_are_read(tmp_path: Path, form: int):
    name = "folder/" * 40 + "é.xml"
    with tarfile.open(tmp_path / "a.tar", "w", format=form) as archive:
        for each in (name, "b.xml"):
            info = tarfile.TarInfo(each)
            info.size = 4
            archive.addfile(info, io.BytesIO(each[-5:-4].encode()[:1] + b"123"[: 4 - 1]))
    assert [member.name for member in read(opened(tmp_path / "a.tar"))] == [name, "b.xml"]


def test_a_zip_is_cut_into_ranges_of_its_members(tmp_path: Path):
    archive = zipped(tmp_path / "a.zip", {f"{n}.xml": f"<a>{n}</a>".encode() for n in range(20)} | {"x.txt": b""})
    (source,) = opened(archive)
    assert source.pieces == ((0, 8), (8, 16), (16, 20))
    assert [member.content for member in read([source])] == [f"<a>{n}</a>".encode() for n in range(20)]


def test_equal_members_count_once(tmp_path: Path):
    found = read(opened(tar(tmp_path / "a.tar", {"a.xml": b"<a/>", "b.xml": b"<a/>"})))
    assert [member.fault for member in found] == [None, "repeated file"]


def test_an_archive_of_two_kinds_is_a_source_of_each(tmp_path: Path):
    contents = {"a.pdf": b"%PDF-", "b.xml": b"<a/>", "c.txt": b"no", "d.pdf": b"%PDF-2"}
    for archive in (zipped(tmp_path / "a.zip", contents), tar(tmp_path / "a.tar.gz", contents, "w:gz")):
        assert [member.name for member in read(opened(archive))] == ["b.xml"]
        (source,) = opened(archive, endings=(".pdf",))
        found = [member.name for member in members(Shard(source, 0), endings=(".pdf",), max_bytes=99)]
        assert found == ["a.pdf", "d.pdf"]
        assert opened(archive, endings=(".json",)) == []


HOSTILE = {"../../../tmp/evil.xml": b"<a/>", "/etc/evil.xml": b"<b/>", "..\\evil.xml": b"<c/>", "C:\\evil.xml": b"<d/>"}


def test_names_that_climb_are_only_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for archive in (tar(tmp_path / "a.tar", HOSTILE), zipped(tmp_path / "a.zip", HOSTILE)):
        assert len(read(opened(archive))) == 4
    assert sorted(os.listdir(tmp_path)) == ["a.tar", "a.zip"]


def test_links_and_devices_in_a_tar_are_not_read(tmp_path: Path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
            info = tarfile.TarInfo("evil.xml")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        info = tarfile.TarInfo("a.xml")
        info.size = 4
        archive.addfile(info, io.BytesIO(b"<a/>"))
    found = [(member.name, member.content) for member in read(opened(tmp_path / "a.tar"))]
    assert found == [("evil.xml", b""), ("evil.xml", b""), ("a.xml", b"<a/>")]


@pytest.mark.parametrize("cut", [100, 600, 1_500])
def test_a_truncated_archive_is_no_shorter_one(tmp_path: Path, cut: int):
    whole = {f"{n}.xml": os.urandom(700) for n in range(4)}
    for archive in (
        tar(tmp_path / "a.tar", whole),
        zipped(tmp_path / "a.zip", whole),
        tar(tmp_path / "a.tgz", whole, "w:gz"),
    ):
        content = archive.read_bytes().rstrip(b"\0") if archive.suffix == ".tar" else archive.read_bytes()
        archive.write_bytes(content[:-cut])
        with pytest.raises(SourceError, match=r"truncated|damaged"):
            read(opened(archive))


def test_a_zip_with_a_wrong_checksum_or_a_password_is_an_error(tmp_path: Path):
    archive = zipped(tmp_path / "a.zip", {"a.xml": b"<a>plain</a>"})
    content = bytearray(archive.read_bytes())
    content[40] ^= 0xFF
    (tmp_path / "b.zip").write_bytes(content)
    with pytest.raises(SourceError, match="damaged"):
        read(opened(tmp_path / "b.zip"))
    content = bytearray(archive.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "c.zip").write_bytes(content)
    with pytest.raises(SourceError, match="encrypted"):
        read(opened(tmp_path / "c.zip"))


def test_a_member_that_unpacks_to_much_is_not_unpacked(tmp_path: Path):
    for archive in (
        zipped(tmp_path / "a.zip", {"a.xml": b"x" * 5_000_000, "b.xml": b"<b/>"}),
        tar(tmp_path / "a.tgz", {"a.xml": b"x" * 5_000_000, "b.xml": b"<b/>"}, "w:gz"),
    ):
        assert [member.fault for member in read(opened(archive))] == ["too large", None]


def test_a_packed_archive_that_grows_without_end_is_refused(tmp_path: Path):
    bomb = tmp_path / "bomb.tar.gz"
    head = tarfile.TarInfo("a.xml")
    head.size = 8 << 30
    block = gzip.compress(bytes(64 << 20), compresslevel=9)
    bomb.write_bytes(gzip.compress(head.tobuf(tarfile.GNU_FORMAT)) + block * 12)
    with pytest.raises(SourceError, match="hostile"):
        read(opened(bomb))


def test_a_name_without_end_is_not_read_into_memory(tmp_path: Path):
    head = tarfile.TarInfo("././@LongLink")
    head.type, head.size = tarfile.GNUTYPE_LONGNAME, 64 << 20
    path = tmp_path / "a.tar.gz"
    content = head.tobuf(tarfile.GNU_FORMAT) + bytes(64 << 20)
    tail = tar(tmp_path / "b.tar", {"a.xml": b"<a/>"}).read_bytes()
    path.write_bytes(gzip.compress(content + tail, compresslevel=1))
    assert [member.name for member in read(opened(path))] == ["a.xml"]


def test_a_zip_that_lists_too_much_is_refused(tmp_path: Path):
    archive = zipped(tmp_path / "a.zip", {"a.xml": b"<a/>"})
    content = bytearray(archive.read_bytes())
    end = content.rindex(b"PK\x05\x06")
    content[end + 12 : end + 16] = (100 << 20).to_bytes(4, "little")
    archive.write_bytes(content)
    with pytest.raises(SourceError, match="more members than"):
        opened(archive)
