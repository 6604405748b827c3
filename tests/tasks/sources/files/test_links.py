"""Links in what is read: never followed, and said. Files that are there twice: said as well."""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli.main import app
from longform.artifacts.rows import Shard
from longform.errors import SourceError
from longform.files import sha256_of
from tasks.sources.files.bundles import Member, members, open_bundles
from tasks.sources.files.inputs import files_in, links_in, open_files
from tasks.sources.files.sizes import records_at_most, unpacked_at_most

SECRET = b"root:x:0:0"


def read(*paths: Path) -> list[Member]:
    sources = open_bundles(paths, group="file", endings=(".xml",), digest=sha256_of, mean=3)
    pieces = [Shard(source, index) for source in sources for index in range(len(source.pieces))]
    assert len({source.sha256 for source in sources}) == len(sources)
    found = [list(members(piece, endings=(".xml",), max_bytes=1_000)) for piece in pieces]
    for piece, each in zip(pieces, found, strict=True):
        assert records_at_most(piece, 1) >= len(each)
        assert unpacked_at_most(piece) >= sum(len(member.content) for member in each)
    return [member for each in found for member in each]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    folder = tmp_path / "system"
    folder.mkdir()
    (folder / "passwd.xml").write_bytes(SECRET)
    return folder


@pytest.fixture
def folder(tmp_path: Path, secret: Path) -> Path:
    """One true file, links to a file, to a folder, to nowhere, to itself, and out of the folder by a relative path."""
    folder = tmp_path / "papers"
    (folder / "deep").mkdir(parents=True)
    (folder / "true.xml").write_bytes(b"<a/>")
    (folder / "file.xml").symlink_to(secret / "passwd.xml")
    (folder / "folder").symlink_to(secret)
    (folder / "nowhere.xml").symlink_to("/does/not/exist.xml")
    (folder / "deep" / "loop").symlink_to(folder)
    (folder / "deep" / "up.xml").symlink_to("../../system/passwd.xml")
    return folder


def test_links_in_a_folder_are_not_followed_and_listed(folder: Path) -> None:
    assert files_in(folder) == [folder / "true.xml"]
    assert [link.relative_to(folder).as_posix() for link in links_in(folder)] == [
        "deep/loop",
        "deep/up.xml",
        "file.xml",
        "folder",
        "nowhere.xml",
    ]


def test_links_of_a_folder_are_members_with_a_fault(folder: Path) -> None:
    found = {member.name: (member.fault, member.content) for member in read(folder)}
    link = ("link, not followed", b"")
    assert found == {"true.xml": (None, b"<a/>"), "up.xml": link, "file.xml": link, "nowhere.xml": link}


def test_what_a_user_names_is_read_although_it_is_a_link(folder: Path, tmp_path: Path) -> None:
    assert [member.content for member in read(folder / "file.xml")] == [SECRET]
    (tmp_path / "alias").symlink_to(folder)
    assert [member.content for member in read(tmp_path / "alias") if not member.fault] == [b"<a/>"]


def test_a_folder_of_links_alone_says_why_nothing_is_read(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "dumps").mkdir()
    (tmp_path / "dumps" / "RC_2024.xml").symlink_to(secret / "passwd.xml")
    with pytest.raises(SourceError, match="links, which are not followed"):
        open_files([tmp_path / "dumps"], group="x", endings=(".xml",), digest=sha256_of)


def test_notes_behind_a_link_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text(json.dumps({"retrieved_at": "2001-01-01"}))
    (tmp_path / "a.xml").write_bytes(b"<a/>")
    (tmp_path / "a.xml.fetch.json").symlink_to(tmp_path / "notes")
    assert [member.retrieved_at for member in read(tmp_path / "a.xml")] == [None]


def test_links_in_a_tar_are_rejected_rows(tmp_path: Path, secret: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for kind, name in ((tarfile.SYMTYPE, "symbolic.xml"), (tarfile.LNKTYPE, "hard.xml")):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, str(secret / "passwd.xml")
            archive.addfile(link)
        plain = tarfile.TarInfo("true.xml")
        plain.size = 4
        archive.addfile(plain, io.BytesIO(b"<a/>"))
    found = [(member.name, member.fault, member.content) for member in read(tmp_path / "a.tar")]
    assert found == [
        ("symbolic.xml", "link, not followed", b""),
        ("hard.xml", "link, not followed", b""),
        ("true.xml", None, b"<a/>"),
    ]


def test_a_link_in_a_zip_is_a_rejected_row(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        link = zipfile.ZipInfo("link.xml")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("true.xml", "<a/>")
    found = [(member.name, member.fault, member.content) for member in read(tmp_path / "a.zip")]
    assert found == [("link.xml", "link, not followed", b""), ("true.xml", None, b"<a/>")]


def test_a_pipe_and_a_closed_folder_do_not_pass_in_silence(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.xml")
    assert files_in(tmp_path) == []
    (tmp_path / "closed").mkdir(mode=0)
    if os.geteuid() == 0:
        pytest.skip("root may read every folder")
    with pytest.raises(SourceError, match="cannot be read"):
        files_in(tmp_path)


@pytest.mark.parametrize("copies", [1, 4, 60])
def test_each_file_of_a_folder_is_in_the_account(copies: int, tmp_path: Path) -> None:
    """Whatever their number, also where a bundle holds nothing but copies."""
    for number in range(20):
        for copy in range(copies):
            (tmp_path / f"{copy:02}-{number:02}.xml").write_bytes(b"<a>%d</a>" % (number % 5))
    found = read(tmp_path)
    assert len(found) == 20 * copies
    assert sorted(member.content for member in found if not member.fault) == [b"<a>%d</a>" % n for n in range(5)]
    assert {member.fault for member in found if not member.content} == {"repeated file"}
    first = [member.name for member in found if not member.fault]
    assert first == [f"00-{number:02}.xml" for number in range(5)]


def test_an_archive_that_is_there_twice_is_in_the_account(tmp_path: Path) -> None:
    for name in ("a.zip", "b.zip"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr(zipfile.ZipInfo("one.xml"), "<a/>")
    assert [(member.name, member.fault) for member in read(tmp_path)] == [("b.zip", "repeated file"), ("one.xml", None)]


def test_longform_read_counts_links_and_copies(folder: Path, tmp_path: Path) -> None:
    tei = b'<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader/><text><body><p>Of tea.</p></body></text></TEI>'
    for name in ("true.xml", "copy.xml", "third.xml"):
        (folder / name).write_bytes(tei)
    words = ["read", "papers", str(folder), "--home", str(tmp_path / "home"), "--json"]
    answer = json.loads(CliRunner().invoke(app, words).stdout)
    stage = answer["stages"][0]
    assert stage["rows"] == 1
    assert stage["filtered"] == {"repeated file": 2}
    assert stage["rejected"] == {"link, not followed": 3}
    assert len(answer["links"]) == 5
    assert SECRET.decode() not in json.dumps(answer)
    assert "5 symbolic links are not followed" in CliRunner().invoke(app, words[:-1]).stdout


def test_equal_dumps_are_read_once_and_said(tmp_path: Path) -> None:
    comment = {"id": "b", "link_id": "t3_a", "parent_id": "t3_a", "subreddit": "kites", "body": "High.", "score": 1}
    line = json.dumps({**comment, "created_utc": 1_600_000_000}) + "\n"
    folder = tmp_path / "dumps"
    folder.mkdir()
    for name in ("kites_comments", "RC_2020-09.jsonl", "RC_2020-10"):
        (folder / name).write_text(line.replace("High", "Deep") if name == "RC_2020-10" else line)
    arguments = ["read", "reddit", str(folder), "--home", str(tmp_path / "home"), "--json"]
    answer = json.loads(CliRunner().invoke(app, arguments).stdout)
    first, second = sorted(map(str, [folder / "RC_2020-09.jsonl", folder / "kites_comments"]))
    assert answer["repeated"] == [{"file": second, "same_as": first}]
    assert answer["stages"][0]["rows"] == 2, "the unpacked dumps of a month and of a subreddit, by their names"


def test_files_are_said_to_be_read_once_only_if_they_are(tmp_path: Path) -> None:
    deleted = gzip.compress(b'{"corpusid": 9}\n', mtime=0)
    for dataset in ("papers", "abstracts"):
        folder = tmp_path / "s2" / "2025-01-07-to-2025-01-14" / dataset / "delete"
        folder.mkdir(parents=True)
        (folder / "00000.jsonl.gz").write_bytes(deleted)
    (tmp_path / "s2" / "table.parquet").write_bytes(b"no records")
    (tmp_path / "s2" / "copy.parquet").write_bytes(b"no records")
    words = ["read", "s2orc", str(tmp_path / "s2"), "--home", str(tmp_path / "home"), "--json"]
    answer = json.loads(CliRunner().invoke(app, words).stdout)
    stage = next(stage for stage in answer["stages"] if stage["stage"] == "read_s2_metadata")
    assert (stage["rows"], answer["repeated"]) == (2, [])
