"""Questions that a site closed as duplicates: linked in PostLinks.xml, or named in the banner of an old question."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import paths
import py7zr
import pyarrow.parquet as pq
import pytest
from axioms_builds import Silent

from longform.artifacts.rows import Rejected, Rows, Shard, Source
from longform.artifacts.store import Store
from longform.engine.build import Build
from longform.engine.runners import ThreadRunner
from longform.engine.thread_tasks import SequentialStages
from longform.errors import SourceError
from longform.files import sha256_of
from longform.llm.models import Models
from tasks.sources.stackexchange.links import join_duplicates, named_originals, open_links, parse_links, read_links
from tasks.sources.stackexchange.posts import open_dump, open_dumps, read_posts
from tasks.sources.stackexchange.tables import pieces_of, read_rows
from tasks.text.html_to_markdown import to_markdown

SITE = "hop.example"
REAL = paths.REAL_DATA / "stackexchange" / "conlang_meta_2018"
POSTS = b'<?xml version="1.0"?>\n<posts>\n  <row Id="1" />\n</posts>'
LINK = '<row Id="{}" CreationDate="2018-05-20T17:02:28.207" PostId="{}" RelatedPostId="{}" LinkTypeId="{}" />'
WHEN = 1_526_835_748_207


def table_of(*rows: str, root: str = "postlinks") -> bytes:
    lines = "".join(f"  {row}\r\n" for row in rows)
    return f'\ufeff<?xml version="1.0" encoding="utf-8"?>\r\n<{root}>\r\n{lines}</{root}>'.encode()


def links_of(dump: Path) -> list[tuple[str, str, str, int] | Rejected]:
    posts = open_dump(dump, site=SITE, retrieved_at=None, digest=sha256_of)
    (source,) = open_links([posts], sha256_of)
    return [link for shard in shards(source) for link in parse_links(read_rows(shard, "postlinks"), site=SITE)]


def shards(source: Source) -> Iterator[Shard]:
    return (Shard(source, index) for index in range(len(source.pieces)))


def parsed(*rows: str) -> list[tuple[str, str, str, int] | Rejected]:
    return list(parse_links((row.encode() for row in rows), site=SITE))


def packed(path: Path, **members: bytes) -> Path:
    with py7zr.SevenZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(content, f"{name}.xml")
    return path


# ---------------------------------------------------------------- where the links are


@pytest.mark.parametrize("form", ["folder", "lower case", "one archive", "an archive a table"])
def test_links_are_found_wherever_the_dump_keeps_them(tmp_path: Path, form: str) -> None:
    links = table_of(LINK.format(518, 79, 119, 3))
    if form in ("folder", "lower case"):
        (tmp_path / "Posts.xml").write_bytes(POSTS)
        (tmp_path / ("PostLinks.xml" if form == "folder" else "postlinks.xml")).write_bytes(links)
        dump = tmp_path
    elif form == "one archive":
        dump = packed(tmp_path / "hop.7z", Badges=b"<badges/>", Posts=POSTS, PostLinks=links)
    else:
        packed(tmp_path / "hop-PostLinks.7z", PostLinks=links)
        dump = packed(tmp_path / "hop-Posts.7z", Posts=POSTS)
    assert links_of(dump) == [(f"{SITE}/l518", f"{SITE}/79", f"{SITE}/119", WHEN)]


def test_a_dump_without_links_has_no_source_of_them(tmp_path: Path) -> None:
    (tmp_path / "Posts.xml").write_bytes(POSTS)
    posts = open_dump(tmp_path, site=SITE, retrieved_at=None, digest=sha256_of)
    assert open_links([posts], sha256_of) == []


@pytest.mark.parametrize("empty", [table_of(), b"<postlinks/>"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_young_site_may_have_no_link_yet(tmp_path: Path, empty: bytes, is_packed: bool) -> None:
    (tmp_path / "Posts.xml").write_bytes(POSTS)
    (tmp_path / "PostLinks.xml").write_bytes(empty)
    dump = packed(tmp_path / "hop.7z", Posts=POSTS, PostLinks=empty) if is_packed else tmp_path
    assert links_of(dump) == []


def test_a_truncated_table_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Posts.xml").write_bytes(POSTS)
    (tmp_path / "PostLinks.xml").write_bytes(table_of(LINK.format(1, 2, 3, 3))[:-5])
    with pytest.raises(SourceError, match=r"PostLinks\.xml is truncated"):
        links_of(tmp_path)


# ---------------------------------------------------------------- rows


def test_rows_come_in_any_order_with_attributes_nobody_knows() -> None:
    new = LINK.format(9, 5, 4, 3).replace("/>", 'Weight="3" Note="&lt;b&gt;" />')
    assert parsed(new, LINK.format(2, 7, 5, 3)) == [
        (f"{SITE}/l9", f"{SITE}/5", f"{SITE}/4", WHEN),
        (f"{SITE}/l2", f"{SITE}/7", f"{SITE}/5", WHEN),
    ]


def test_a_link_in_a_text_declares_no_duplicate() -> None:
    (found,) = parsed(LINK.format(1, 2, 3, 1))
    assert found == Rejected(f"{SITE}/l1", "filtered", "not a duplicate", "LinkTypeId 1")


@pytest.mark.parametrize(
    ("row", "key", "reason"),
    [
        (LINK.format(1, 2, 2, 3), "l1", "duplicate of itself"),
        (LINK.format(1, "", 2, 3), "l1", "missing or ill-formed PostId"),
        (LINK.format(1, "2x", 2, 3), "l1", "missing or ill-formed PostId"),
        (LINK.format(1, 2, -3, 3), "l1", "missing or ill-formed RelatedPostId"),
        (LINK.format(1, 2, 3, 3).replace('RelatedPostId="3"', ""), "l1", "missing or ill-formed RelatedPostId"),
        (LINK.format(1, 2, 3, 3).replace('LinkTypeId="3"', ""), "l1", "missing or ill-formed LinkTypeId"),
        (LINK.format(1, 2, 3, "three"), "l1", "missing or ill-formed LinkTypeId"),
        (LINK.format(1, 2, 3, 3).replace("2018-05-20T", ""), "l1", "missing or ill-formed CreationDate"),
        (LINK.format("", 2, 3, 3), "l?", "missing or ill-formed Id"),
        (LINK.format(1, 2, 3, 3)[:-2], "l?", "unreadable row"),
        (LINK.format(1, "&secret;", 3, 3), "l?", "unreadable row"),
    ],
)
def test_a_row_that_links_nothing_is_rejected_with_its_text(row: str, key: str, reason: str) -> None:
    (found,) = parsed(row)
    assert isinstance(found, Rejected)
    assert (found.kind, found.reason, found.raw) == ("defect", reason, row)
    assert found.key.startswith(f"{SITE}/{key}")


def test_a_row_with_a_character_that_xml_forbids_is_repaired() -> None:
    assert parsed(LINK.format("1&#x0E;", 2, 3, 3)) == [(f"{SITE}/l1", f"{SITE}/2", f"{SITE}/3", WHEN)]


def test_every_row_is_read_once_wherever_the_file_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "PostLinks.xml"
    file.write_bytes(table_of(*(LINK.format(number, number + 1, 1, 3) for number in range(1, 300))))
    for piece_bytes in (7, 100, 1_000):
        source = Source(SITE, str(file), "0" * 64, (), pieces_of(file, "postlinks", piece_bytes))
        found = [link for shard in shards(source) for link in parse_links(read_rows(shard, "postlinks"), site=SITE)]
        assert [link[0] for link in found if not isinstance(link, Rejected)] == [
            f"{SITE}/l{number}" for number in range(1, 300)
        ]


# ---------------------------------------------------------------- banners


BANNER = """<blockquote>
  <p><strong>Possible Duplicate:</strong><br>
  <a href="https://hop.example/questions/463/write-an-elevator-pitch">Write an Elevator Pitch</a><br>
  <a href="/questions/12/k">And [this]</a> <a href="http://hop.example/q/12">again</a>
  <a href="https://other.example/questions/7/elsewhere">Elsewhere</a>  </p>
</blockquote>



<h2>Note:</h2><p><a href="https://hop.example/questions/99/not-this">Another</a></p>"""


def test_a_banner_names_the_originals_of_its_site() -> None:
    assert named_originals(to_markdown(BANNER), SITE) == [f"{SITE}/463", f"{SITE}/12"]


def test_a_banner_of_a_renamed_site_names_its_former_host() -> None:
    html = BANNER.replace("hop.example", "beer.stackexchange.com")
    assert named_originals(to_markdown(html), "alcohol.stackexchange.com")[0] == "alcohol.stackexchange.com/463"


@pytest.mark.parametrize("text", ["", "Possible Duplicate: [a](/q/3)", "> **Possible Duplicate:** none", "> [a](/q/3)"])
def test_a_text_that_only_looks_like_it_names_none(text: str) -> None:
    assert named_originals(text, SITE) == []


# ---------------------------------------------------------------- built


POST = '<row Id="{}" PostTypeId="{}" {} CreationDate="2020-01-01T00:00:00.000" Score="1" Body="{}" Title="T" />'


@contextmanager
def a_build(home: Path) -> Iterator[Build]:
    store = Store(home)
    store.prepare()
    build = Build(
        store,
        tasks=SequentialStages(),
        runner=ThreadRunner(),
        progress=Silent(),
        models=Models(home.parent / "responses.sqlite"),
    )
    try:
        yield build
    finally:
        build.close()


def built(home: Path, dumps: list[str], sites: list[str]) -> tuple[Rows, Rows]:
    with a_build(home) as build:
        opened = open_dumps(dumps, sites, None, sha256_of)
        links = read_links(build, open_links(opened, sha256_of))
        found = join_duplicates(build, read_posts(build, opened), links)
        return links, found


def rejected(rows: Rows) -> list[tuple[str, str]]:
    files = [rows.store.rejected_path(part) for part in rows.parts or () if part.rejected_sha256]
    return [(row["key"], row["reason"]) for file in files for row in pq.read_table(file).to_pylist()]


def folder_of(place: Path, posts: list[str], links: list[str] | None) -> str:
    place.mkdir()
    (place / "Posts.xml").write_bytes(table_of(*posts, root="posts"))
    if links is not None:
        (place / "PostLinks.xml").write_bytes(table_of(*links))
    return str(place)


def escaped(html: str) -> str:
    return html.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;").replace("\n", "&#xA;")


def test_a_question_is_a_duplicate_of_each_original_once(tmp_path: Path) -> None:
    closed = 'ClosedDate="2020-01-02T00:00:00.000"'
    posts = [
        *(POST.format(number, 1, "", "Text.") for number in (12, 40, 41, 42, 463)),
        POST.format(50, 2, 'ParentId="40"', "An answer."),
        POST.format(60, 1, closed, escaped(BANNER)),
        POST.format(61, 1, "", escaped(BANNER)),
    ]
    later = LINK.format(1, 41, 40, 3).replace("2018", "2019")
    links = [
        later,
        LINK.format(2, 41, 40, 3),
        LINK.format(3, 41, 42, 3),
        LINK.format(4, 42, 41, 3),
        LINK.format(5, 404, 40, 3),
        LINK.format(6, 40, 405, 3),
        LINK.format(7, 40, 50, 3),
        LINK.format(8, 60, 12, 3),
        LINK.format(9, 60, 463, 1),
        LINK.format(10, 404, 405, 3),
    ]
    dump = folder_of(tmp_path / "dump", posts, links)
    _, found = built(tmp_path / "home", [dump], [SITE])
    moment = datetime(2018, 5, 20, 17, 2, 28, 207_000, UTC)
    assert {(row["question_id"], row["duplicate_of"]): (row["link_id"], row["created"]) for row in found} == {
        (f"{SITE}/41", f"{SITE}/40"): (f"{SITE}/l2", moment),
        (f"{SITE}/41", f"{SITE}/42"): (f"{SITE}/l3", moment),
        (f"{SITE}/42", f"{SITE}/41"): (f"{SITE}/l4", moment),
        (f"{SITE}/60", f"{SITE}/12"): (f"{SITE}/l8", moment),
        (f"{SITE}/60", f"{SITE}/463"): (None, None),
        (f"{SITE}/404", f"{SITE}/40"): (f"{SITE}/l5", moment),  # one of both is not there
        (f"{SITE}/40", f"{SITE}/405"): (f"{SITE}/l6", moment),
        (f"{SITE}/40", f"{SITE}/50"): (f"{SITE}/l7", moment),
    }
    assert len({row["duplicate_id"] for row in found}) == found.count == 8
    assert sorted(rejected(found)) == [
        (f"{SITE}/l1", "repeated link"),
        (f"{SITE}/l10", "no such question"),
    ]


def test_a_site_without_links_is_built_beside_one_that_has_some(tmp_path: Path) -> None:
    posts = [POST.format(number, 1, "", "Text.") for number in (1, 2)]
    one = folder_of(tmp_path / "one", posts, [LINK.format(1, 2, 1, 3)])
    other = folder_of(tmp_path / "other", posts, None)
    links, found = built(tmp_path / "home", [one, other], ["one.example", "other.example"])
    assert [row["link_id"] for row in links] == ["one.example/l1"]
    assert [row["duplicate_id"] for row in found] == ["one.example/2 one.example/1"]


@pytest.mark.skipif(not REAL.exists(), reason="no real dumps beside the repository")
def test_a_real_site_has_the_duplicates_that_another_parser_counts(tmp_path: Path) -> None:
    rows = list(ElementTree.parse(REAL / "PostLinks.xml").getroot())
    expected = {
        f"l{row.get('Id')} {row.get('PostId')} {row.get('RelatedPostId')} {row.get('CreationDate')}"
        for row in rows
        if row.get("LinkTypeId") == "3"
    }
    links, found = built(tmp_path / "home", [str(REAL)], [SITE])
    shown = {
        f"{row['link_id']} {row['question_id']} {row['duplicate_of']} {row['created']:%Y-%m-%dT%H:%M:%S.%f}"[:-3]
        for row in links
    }
    assert {line.replace(f"{SITE}/", "") for line in shown} == expected != set()
    assert len(rejected(links)) + links.count == len(rows)
    questions = {
        row.get("Id") for row in ElementTree.parse(REAL / "Posts.xml").getroot() if row.get("PostTypeId") == "1"
    }
    there = {" ".join(line.split()[1:3]) for line in expected if set(line.split()[1:3]) <= questions}
    assert {row["duplicate_id"].replace(f"{SITE}/", "") for row in found} == there
