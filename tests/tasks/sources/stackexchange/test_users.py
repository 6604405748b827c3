"""Display names of users: read where the dump holds them, and nothing else of a person."""

from __future__ import annotations

from pathlib import Path

import py7zr
import pytest
from axioms_builds import Silent

from flows.sources.stackexchange import Read, read
from longform.artifacts.rows import Rejected, Shard
from longform.artifacts.store import Store
from longform.engine.build import Build
from longform.engine.runners import ThreadRunner
from longform.engine.thread_tasks import SequentialStages
from longform.files import sha256_of
from longform.llm.models import Models
from tasks.sources.stackexchange.posts import open_dump
from tasks.sources.stackexchange.tables import read_rows
from tasks.sources.stackexchange.threads import open_users, parse_users

POSTS = b'<?xml version="1.0"?>\n<posts>\n  <row Id="1" />\n</posts>'
USERS = (
    b'\xef\xbb\xbf<?xml version="1.0" encoding="utf-8"?>\r\n<users>\r\n'
    b'  <row Id="-1" DisplayName="Community" Location="on the server farm" />\r\n'
    b'  <row Id="7" Reputation="101" DisplayName="Hop &amp;  Ale" AboutMe="&lt;p&gt;me@example.org&lt;/p&gt;" />\r\n'
    b'  <row Id="8" DisplayName="&#x0E;Ann" />\r\n  <row Id="9" />\r\n'
    b'  <row DisplayName="nobody" />\r\n  <row Id="10" \r\n'
    b"</users>\r\n"
)
NAMES = [("hop.example/u-1", "Community"), ("hop.example/u7", "Hop & Ale"), ("hop.example/u8", "Ann")]


def users_of(dump: Path) -> list[tuple[str, str] | Rejected]:
    posts = open_dump(dump, site="hop.example", retrieved_at=None, digest=sha256_of)
    (source,) = open_users([posts], sha256_of)
    pieces = (Shard(source, index) for index in range(len(source.pieces)))
    return [user for piece in pieces for user in parse_users(read_rows(piece, "users"), site="hop.example")]


def packed(path: Path, **members: bytes) -> Path:
    with py7zr.SevenZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(content, f"{name}.xml")
    return path


@pytest.mark.parametrize("form", ["folder", "one archive", "an archive a table"])
def test_names_are_found_wherever_the_dump_keeps_its_users(tmp_path: Path, form: str) -> None:
    if form == "folder":
        (tmp_path / "Posts.xml").write_bytes(POSTS)
        (tmp_path / "Users.xml").write_bytes(USERS)
        dump = tmp_path
    elif form == "one archive":
        dump = packed(tmp_path / "hop.7z", Badges=b"<badges/>", Posts=POSTS, Users=USERS)
    else:
        packed(tmp_path / "hop-Users.7z", Users=USERS)
        dump = packed(tmp_path / "hop-Posts.7z", Posts=POSTS)
    found = users_of(dump)
    assert [user for user in found if not isinstance(user, Rejected)] == NAMES
    assert [(user.key, user.reason, user.raw) for user in found if isinstance(user, Rejected)][:1] == [
        ("hop.example/u9", "missing or ill-formed DisplayName", None)
    ]
    assert len(found) == 6


def test_a_dump_without_users_has_no_source_of_them(tmp_path: Path) -> None:
    (tmp_path / "Posts.xml").write_bytes(POSTS)
    posts = open_dump(tmp_path, site="hop.example", retrieved_at=None, digest=sha256_of)
    assert open_users([posts], sha256_of) == []


POST = '<row Id="{}" PostTypeId="{}" {} CreationDate="2020-01-01T00:00:00.000" Score="1" Body="Text." Title="T" {} />'


def test_a_thread_says_who_wrote_it_by_the_name_they_have_or_had(tmp_path: Path) -> None:
    rows = [
        POST.format(1, 1, "", 'OwnerUserId="7"'),
        POST.format(2, 2, 'ParentId="1"', 'OwnerUserId="8"'),
        POST.format(3, 2, 'ParentId="1"', 'OwnerDisplayName="user99"'),
        POST.format(4, 2, 'ParentId="1"', 'OwnerUserId="404"'),
    ]
    (tmp_path / "Posts.xml").write_text(f"<posts>{''.join(rows)}</posts>")
    (tmp_path / "Users.xml").write_bytes(USERS)
    store = Store(tmp_path / "home")
    store.prepare()
    build = Build(
        store,
        tasks=SequentialStages(),
        runner=ThreadRunner(),
        progress=Silent(),
        models=Models(tmp_path / "responses.sqlite"),
    )
    try:
        threads = read(build, [tmp_path / "Posts.xml"], Read(site="hop.example"))[-1]
    finally:
        build.close()
    (thread,) = threads
    assert thread["author"] == "Hop & Ale"
    assert {answer["answer_id"]: answer["author"] for answer in thread["answers"]} == {
        "hop.example/2": "Ann",
        "hop.example/3": "user99",
        "hop.example/4": None,
    }
