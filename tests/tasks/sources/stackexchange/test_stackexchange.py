import re
import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import paths
import py7zr
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.make_dump import write_dump
from longform.artifacts.rows import Rejected, Shard, Source
from longform.errors import SourceError, UsageError
from schemas.sources.stackexchange import POSTS, THREADS
from tasks.sources.stackexchange.posts import open_dump, parse_posts
from tasks.sources.stackexchange.tables import read_rows, repair, split_rows
from tasks.sources.stackexchange.threads import threads

DATA = paths.REAL_DATA / "stackexchange"
SITE = "beer.example.org"
real = pytest.mark.skipif(not DATA.exists(), reason="no real dumps beside the repository")

QUESTION = (
    'Id="3" PostTypeId="1" CreationDate="2014-01-21T20:26:05.383" Score="18" Body="&lt;p&gt;Why?&lt;/p&gt;" '
    'OwnerUserId="7" Title="Why?" Tags="&lt;hops&gt;&lt;c++&gt;"'
)
ANSWER = (
    'Id="4" PostTypeId="2" ParentId="3" CreationDate="2014-01-22T00:00:00.000" Score="-1" Body="No." OwnerUserId="8"'
)


def row(attributes: str, **changed: str | None) -> bytes:
    """`attributes` as a row, some replaced, added or (None) left out."""
    for name, value in changed.items():
        attributes = re.sub(rf'(^| ){name}="[^"]*"', "", attributes)
        if value is not None:
            attributes += f' {name}="{value}"'
    return f"<row {attributes.strip()} />".encode()


def dump_of(*rows: bytes, newline: bytes = b"\r\n") -> bytes:
    head = b'\xef\xbb\xbf<?xml version="1.0" encoding="utf-8"?>' + newline + b"<posts>" + newline
    return head + b"".join(b"  " + one + newline for one in rows) + b"</posts>"


def opened(path: Path, *, site: str | None = SITE, piece_bytes: int = 1 << 26) -> Source:
    return open_dump(path, site=site, retrieved_at=None, digest=lambda file: "0" * 64, piece_bytes=piece_bytes)


def rows_of(source: Source) -> list[bytes]:
    return [one for index in range(len(source.pieces)) for one in read_rows(Shard(source, index), "posts")]


def parsed(rows: list[bytes], retrieved_at: str | None = None) -> tuple[list[dict[str, Any]], list[Rejected]]:
    posts: list[dict[str, Any]] = []
    rejected: list[Rejected] = []
    for item in parse_posts(rows, site=SITE, retrieved_at=retrieved_at):
        if isinstance(item, Rejected):
            rejected.append(item)
        else:
            item.validate(full=True)
            assert item.schema.equals(POSTS, check_metadata=True)
            posts.extend(item.to_pylist())
    return posts, rejected


def only(attributes: str, **changed: str | None) -> dict[str, Any]:
    posts, rejected = parsed([row(attributes, **changed)])
    assert rejected == []
    return posts[0]


def refused(attributes: str, **changed: str | None) -> Rejected:
    posts, rejected = parsed([row(attributes, **changed)])
    assert posts == []
    return rejected[0]


# ---------------------------------------------------------------- which site


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("coffee.stackexchange.com.7z", "coffee.stackexchange.com"),
        ("coffee.meta.stackexchange.com.7z", "coffee.meta.stackexchange.com"),
        ("stackoverflow.com-Posts.7z", "stackoverflow.com"),
        ("stackoverflow.com.7z", "stackoverflow.com"),
        ("mathoverflow.net.7z", "mathoverflow.net"),
        ("meta.stackexchange.com.7z", "meta.stackexchange.com"),
        ("beer.stackexchange.com.7z", "alcohol.stackexchange.com"),
        ("beer.meta.stackexchange.com.7z", "alcohol.meta.stackexchange.com"),
        ("cogsci.stackexchange.com.7z", "psychology.stackexchange.com"),
        ("materials.stackexchange.com.7z", "mattermodeling.stackexchange.com"),
        ("alcohol.stackexchange.com.7z", "alcohol.stackexchange.com"),
        ("es.stackoverflow.com.7z", "es.stackoverflow.com"),
        ("meta.es.stackoverflow.com.7z", "es.meta.stackoverflow.com"),
        ("es.meta.stackoverflow.com.7z", "es.meta.stackoverflow.com"),
        ("Coffee.StackExchange.com (1).7z", "coffee.stackexchange.com"),
        ("coffee.stackexchange.com_2024-06-30.7z", "coffee.stackexchange.com"),
    ],
)
def test_an_archives_name_tells_the_host_of_today(tmp_path: Path, name: str, host: str) -> None:
    with py7zr.SevenZipFile(tmp_path / name, "w") as archive:
        archive.writestr(dump_of(row(QUESTION)), "Posts.xml")
    source = opened(tmp_path / name, site=None)
    assert (source.group, dict(source.facts)["site"]) == (host, host)


def test_a_folders_name_tells_the_host_and_a_given_site_goes_first(tmp_path: Path) -> None:
    folder = tmp_path / "writers.stackexchange.com"
    folder.mkdir()
    (folder / "Posts.xml").write_bytes(dump_of(row(QUESTION)))
    assert opened(folder, site=None).group == "writing.stackexchange.com"
    assert opened(folder / "Posts.xml", site=None).group == "writing.stackexchange.com"
    assert opened(folder, site="Community.example").group == "community.example"


@pytest.mark.parametrize("folder", ["beer_2017", "stackexchange.company", "x"])
def test_a_name_that_tells_no_site_asks_for_one(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "Posts.xml").write_bytes(dump_of(row(QUESTION)))
    with pytest.raises(UsageError, match=rf"name of dump .*{folder} does not say which site it is: set site"):
        opened(tmp_path / folder, site=None)


def test_a_site_that_is_no_host_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Posts.xml").write_bytes(dump_of(row(QUESTION)))
    for site in ("beer", "beer.example/x", ""):
        with pytest.raises(UsageError, match="is no host: set site to"):
            opened(tmp_path / "Posts.xml", site=site)


# ---------------------------------------------------------------- what is no dump


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty: fetch the dump again"),
        (b"hello\n", "is no dump of posts: it does not start as XML"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", "is no dump of posts: it does not start as XML"),
        (b"<!DOCTYPE html><html><body></body></html>", "its root element is <html>, not <posts>"),
        (dump_of(row('Id="1"')).replace(b"posts", b"users"), "its root element is <users>, not <posts>"),
        (dump_of(row(QUESTION))[:-8], "is truncated: it does not end in </posts>"),
        (dump_of(row(QUESTION))[:-40], "is truncated: it does not end in </posts>"),
        (dump_of(), "is an empty dump"),
        (b"<posts />", "is an empty dump"),
        (b"<posts>", "is truncated"),
    ],
)
def test_what_is_no_dump_is_refused_at_opening(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "Posts.xml").write_bytes(content)
    with pytest.raises(SourceError, match=message):
        opened(tmp_path / "Posts.xml")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"hello\n", "does not start as XML"),
        (dump_of(row('Id="1"')).replace(b"posts", b"users"), "its root element is <users>"),
        (dump_of(*[row(QUESTION)] * 9)[:-8], r"Posts.xml in .*a\.7z is truncated"),
        (dump_of(), "is an empty dump"),
        (b"<posts />", "is an empty dump"),
    ],
)
def test_in_an_archive_the_same_is_refused_while_reading(tmp_path: Path, content: bytes, message: str) -> None:
    with py7zr.SevenZipFile(tmp_path / "a.7z", "w") as archive:
        archive.writestr(content, "Posts.xml")
    with pytest.raises(SourceError, match=message):
        rows_of(opened(tmp_path / "a.7z"))


def test_a_folder_must_hold_one_dump(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"does not exist: give a dump's \.7z"):
        opened(tmp_path / "missing.7z")
    with pytest.raises(SourceError, match=r"holds no Posts.xml and 0 \.7z archives"):
        opened(tmp_path)
    for name in ("a.7z", "b.7z"):
        with py7zr.SevenZipFile(tmp_path / name, "w") as archive:
            archive.writestr(dump_of(row(QUESTION)), "Posts.xml")
    with pytest.raises(SourceError, match=r"holds no Posts.xml and 2 \.7z archives, not one: give the file itself"):
        opened(tmp_path)
    (tmp_path / "b.7z").unlink()
    assert rows_of(opened(tmp_path)) == [row(QUESTION)]


def test_a_folder_of_tables_is_read_at_its_posts(tmp_path: Path) -> None:
    for table, content in (("Posts", dump_of(row(QUESTION))), ("Users", b"<users></users>")):
        with py7zr.SevenZipFile(tmp_path / f"stackoverflow.com-{table}.7z", "w") as archive:
            archive.writestr(content, f"{table}.xml")
    source = opened(tmp_path, site=None)
    assert (source.group, rows_of(source)) == ("stackoverflow.com", [row(QUESTION)])


def test_retrieved_at_must_be_a_date_and_reaches_every_post(tmp_path: Path) -> None:
    (tmp_path / "Posts.xml").write_bytes(dump_of(row(QUESTION)))
    with pytest.raises(UsageError, match=r'retrieved_at "June" is no ISO 8601 date'):
        open_dump(tmp_path, site=SITE, retrieved_at="June", digest=str)
    posts, _ = parsed([row(QUESTION)], retrieved_at="2024-06-30")
    assert posts[0]["retrieved_at"] == datetime(2024, 6, 30, tzinfo=UTC)
    posts, _ = parsed([row(QUESTION)], retrieved_at="2024-06-30T02:00:00+02:00")
    assert posts[0]["retrieved_at"] == datetime(2024, 6, 30, tzinfo=UTC)


# ---------------------------------------------------------------- rows of a file


LAYOUTS = [
    dump_of(row(QUESTION), row(ANSWER)),
    dump_of(row(QUESTION), row(ANSWER), newline=b"\n"),
    b"<posts>" + row(QUESTION) + row(ANSWER) + b"</posts>",
    b"<posts>\t" + row(QUESTION) + b"<!-- between -->\n\n      " + row(ANSWER) + b"  </posts>\n",
    b'<?xml version="1.0"?>\n<!--\n <row Id="9" />\n <posts>\n-->\n<posts>\n'
    + row(QUESTION)
    + row(ANSWER)
    + b"\n</posts>",
    b'<!DOCTYPE posts [<!ENTITY a "<row Id=\'9\' />">]>\n<posts a="b">\n' + row(QUESTION) + row(ANSWER) + b"\n</posts>",
]


@pytest.mark.parametrize("content", LAYOUTS)
@pytest.mark.parametrize("piece_bytes", [1, 7, 100, 1 << 20])
def test_rows_are_found_however_they_are_laid_out(tmp_path: Path, content: bytes, piece_bytes: int) -> None:
    (tmp_path / "Posts.xml").write_bytes(content)
    source = opened(tmp_path / "Posts.xml", piece_bytes=piece_bytes)
    assert rows_of(source) == [row(QUESTION), row(ANSWER)]


def test_a_row_over_more_than_one_line_is_one_row() -> None:
    wide = row(QUESTION).replace(b'" ', b'"\r\n     ')
    posts, rejected = parsed(list(split_rows([b"\r\n  " + wide + b"\r\n" + row(ANSWER)])))
    assert [post["number"] for post in posts] == [3, 4]
    assert rejected == []


@given(st.lists(st.integers(1, 60), max_size=40))
def test_where_blocks_end_does_not_matter(cuts: list[int]) -> None:
    content = b"\r\n".join([row(QUESTION), row(ANSWER), row(QUESTION, Body="a /&gt; b")]) + b"\r\n</posts>"
    blocks, at = [], 0
    for cut in cuts:
        blocks.append(content[at : at + cut])
        at += cut
    assert list(split_rows([*blocks, content[at:]])) == [row(QUESTION), row(ANSWER), row(QUESTION, Body="a /&gt; b")]


def test_a_row_without_end_costs_one_row_and_little_memory() -> None:
    block = b"x" * (1 << 20)
    blocks = [row(QUESTION), b'<row Id="5" Body="', *[block] * 40, b'" />\n', row(ANSWER), b"</posts>"]
    rows = list(split_rows(blocks))
    assert [len(one) < 3_000 for one in rows] == [True, True, True]
    posts, rejected = parsed(rows)
    assert [post["number"] for post in posts] == [3, 4]
    assert [(one.key, one.kind, one.reason) for one in rejected] == [(f"{SITE}/5", "defect", "unreadable row")]


def test_a_broken_row_costs_one_row() -> None:
    posts, rejected = parsed(list(split_rows([b'<row Id="1" Body="cut\r\n  ' + row(QUESTION) + b"\r\n</posts>"])))
    assert [post["number"] for post in posts] == [3]
    assert [(one.key, one.raw) for one in rejected] == [(f"{SITE}/1", '<row Id="1" Body="cut')]


@real
@pytest.mark.parametrize(("name", "rows"), [("beer_2017", 2354), ("coffee_2015", 592), ("hostile", 9)])
def test_real_dumps_have_the_rows_that_a_plain_count_finds(tmp_path: Path, name: str, rows: int) -> None:
    path = DATA / name / "Posts.xml"
    whole = rows_of(opened(path))
    assert whole == [match.strip() for match in re.findall(rb"<row .*?/>(?=\r?\n)", path.read_bytes())]
    assert len(whole) == rows
    for piece_bytes in (10_007, 300_000):
        assert rows_of(opened(path, piece_bytes=piece_bytes)) == whole
    with py7zr.SevenZipFile(tmp_path / "a.7z", "w", filters=[{"id": py7zr.FILTER_COPY}]) as archive:
        archive.write(path, "Posts.xml")
    assert rows_of(opened(tmp_path / "a.7z")) == whole


# ---------------------------------------------------------------- posts


def test_a_question_has_every_column() -> None:
    post = only(QUESTION, AcceptedAnswerId="4", ClosedDate="2014-02-01T00:00:00.000", ContentLicense="CC BY-SA 3.0")
    assert post == {
        "post_id": f"{SITE}/3",
        "kind": "question",
        "question_id": f"{SITE}/3",
        "question_hash": xxhash.xxh3_64_intdigest(f"{SITE}/3".encode()),
        "site": SITE,
        "number": 3,
        "title": "Why?",
        "text": "Why?",
        "tags": ["hops", "c++"],
        "votes": 18,
        "created": datetime(2014, 1, 21, 20, 26, 5, 383_000, tzinfo=UTC),
        "accepted_id": f"{SITE}/4",
        "closed": True,
        "wiki": False,
        "author_id": "7",
        "author": None,
        "licence": "CC BY-SA 3.0",
        "retrieved_at": None,
        "repairs": 0,
        "scrubbed": 0,
    }


def test_an_answer_points_to_its_question() -> None:
    post = only(ANSWER, OwnerUserId=None, OwnerDisplayName="user9", CommunityOwnedDate="2015-01-01T00:00:00.000")
    assert (post["kind"], post["question_id"], post["title"], post["tags"]) == ("answer", f"{SITE}/3", None, [])
    assert post["question_hash"] == only(QUESTION)["question_hash"]
    assert (post["votes"], post["wiki"], post["author_id"], post["author"]) == (-1, True, None, "user9")


@pytest.mark.parametrize(
    ("written", "tags"),
    [
        ("&lt;hops&gt;&lt;pale-ale&gt;", ["hops", "pale-ale"]),
        ("|hops|pale-ale|", ["hops", "pale-ale"]),
        ("|c++|", ["c++"]),
        ("&lt;.net&gt;", [".net"]),
        ("", []),
        (None, []),
    ],
)
def test_both_ways_of_writing_tags_are_read(written: str | None, tags: list[str]) -> None:
    assert only(QUESTION, Tags=written)["tags"] == tags


@pytest.mark.parametrize(
    ("created", "licence"),
    [
        ("2011-04-07T23:59:59.999", "CC BY-SA 2.5"),
        ("2011-04-08T00:00:00.000", "CC BY-SA 3.0"),
        ("2018-05-01T23:59:59.999", "CC BY-SA 3.0"),
        ("2018-05-02T00:00:00.000", "CC BY-SA 4.0"),
    ],
)
def test_without_a_licence_the_date_tells_it(created: str, licence: str) -> None:
    assert only(ANSWER, CreationDate=created)["licence"] == licence


@pytest.mark.parametrize(
    ("attributes", "changed", "reason"),
    [
        (QUESTION, {"PostTypeId": "5"}, "not a question or answer"),
        (QUESTION, {"PostTypeId": "17", "Id": None}, "not a question or answer"),
        (ANSWER, {"OwnerUserId": "-2"}, "answer bot"),
        (QUESTION, {"OwnerUserId": "-1", "Id": "1000000001"}, "fabricated post"),
        (ANSWER, {"OwnerUserId": "-1", "Id": "1000000010", "ParentId": None}, "fabricated post"),
    ],
)
def test_posts_that_the_method_has_no_use_for_are_filtered(
    attributes: str, changed: dict[str, str | None], reason: str
) -> None:
    rejected = refused(attributes, **changed)
    assert (rejected.kind, rejected.reason) == ("filtered", reason)


@pytest.mark.parametrize(
    ("attributes", "changed", "reason"),
    [
        (QUESTION, {"Title": None}, "missing or ill-formed Title"),
        (QUESTION, {"Title": " &#xA; "}, "missing or ill-formed Title"),
        (QUESTION, {"PostTypeId": None}, "missing or ill-formed PostTypeId"),
        (QUESTION, {"PostTypeId": "one"}, "missing or ill-formed PostTypeId"),
        (QUESTION, {"Id": None}, "missing or ill-formed Id"),
        (QUESTION, {"Id": "3.5"}, "missing or ill-formed Id"),
        (QUESTION, {"Id": "9" * 30}, "missing or ill-formed Id"),
        (QUESTION, {"Score": ""}, "missing or ill-formed Score"),
        (QUESTION, {"Score": "9999999999"}, "missing or ill-formed Score"),
        (QUESTION, {"Score": "1_0"}, "missing or ill-formed Score"),
        (QUESTION, {"CreationDate": None}, "missing or ill-formed CreationDate"),
        (QUESTION, {"CreationDate": "2014-02-30T00:00:00.000"}, "missing or ill-formed CreationDate"),
        (ANSWER, {"ParentId": None}, "missing or ill-formed ParentId"),
        (ANSWER, {"ParentId": "x"}, "missing or ill-formed ParentId"),
        (ANSWER, {"Body": None}, "empty post"),
        (ANSWER, {"Body": ""}, "empty post"),
        (ANSWER, {"Body": "&lt;p&gt;&#xA;&lt;/p&gt;"}, "empty post"),
        (ANSWER, {"Body": "a &nbsp; b"}, "unreadable row"),
        (ANSWER, {"Body": "&lt;p> raw < here"}, "unreadable row"),
    ],
)
def test_a_broken_post_is_a_defect_that_keeps_its_text(
    attributes: str, changed: dict[str, str | None], reason: str
) -> None:
    rejected = refused(attributes, **changed)
    assert (rejected.kind, rejected.reason) == ("defect", reason)
    assert rejected.raw == row(attributes, **changed).decode()
    assert rejected.key.startswith(f"{SITE}/")


def test_of_a_long_broken_row_the_start_is_kept() -> None:
    rejected = refused(ANSWER, ParentId=None, Body="ä" * 10_000)
    assert rejected.raw is not None
    assert len(rejected.raw) == 2_000


def test_a_row_that_is_not_utf8_is_unreadable() -> None:
    _, rejected = parsed([row(ANSWER).replace(b"No.", b"caf\xe9")])
    assert [(one.reason, "caf�" in str(one.raw)) for one in rejected] == [("unreadable row", True)]


def test_entities_of_a_document_type_are_never_expanded() -> None:
    _, rejected = parsed([row(ANSWER, Body="&a;")])
    assert [one.reason for one in rejected] == ["unreadable row"]


def test_illegal_characters_are_removed_and_counted() -> None:
    post = only(ANSWER, Body="&lt;pre&gt;a&#x0E;b&#0;c&#xD800;d&#x9;e&#xA;f\x0bg&#xFFFF;h&lt;/pre&gt;")
    assert (post["text"], post["repairs"]) == ("```\nabcd\te\nfgh\n```", 5)
    assert only(ANSWER, Body="a\ue000b")["repairs"] == 1


CHARACTERS = st.text(st.characters(exclude_characters='<&">\r', exclude_categories=["Cs"]), max_size=8)
REFERENCES = st.one_of(
    st.integers(0, 0x110010).map(lambda code: f"&#{code};"),
    st.integers(0, 0x110010).map(lambda code: f"&#x{code:X};"),
    st.sampled_from(["&#x0A;", "&#x0E;", "&#00000;", "&#x000041;", "&#99999999999999999999;", "&#xD83D;", "&amp;#0;"]),
)


def allowed(code: int) -> bool:
    """The production Char of XML 1.0."""
    ranges = ((0x9, 0xA), (0xD, 0xD), (0x20, 0xD7FF), (0xE000, 0xFFFD), (0x10000, 0x10FFFF))
    return any(low <= code <= high for low, high in ranges)


@given(st.lists(st.one_of(CHARACTERS, REFERENCES), max_size=12))
def test_what_is_repaired_can_be_parsed_and_has_lost_nothing_legal(pieces: list[str]) -> None:
    expected, illegal = "", 0
    for piece in pieces:
        if match := re.fullmatch(r"&#(x?)([0-9a-fA-F]+);", piece):
            code = int(match[2], 16 if match[1] else 10)
            expected += chr(code) if allowed(code) else ""
            illegal += not allowed(code)
        elif piece == "&amp;#0;":
            expected += "&#0;"
        else:
            legal = "".join(character for character in piece if allowed(ord(character)))
            illegal += len(piece) - len(legal)
            expected += re.sub(r"[\n\t]", " ", legal)
    repaired, removed = repair(f'<row Body="{"".join(pieces)}"/>'.encode())
    text = ElementTree.fromstring(repaired).get("Body")
    assert (text, removed) == (expected, illegal)


@real
def test_the_hostile_dump_gives_the_four_posts_that_are_whole() -> None:
    posts, rejected = parsed(rows_of(opened(DATA / "hostile")))
    assert {post["number"]: post["repairs"] for post in posts} == {10: 0, 11: 1, 12: 0, 13: 1, 14: 0}
    assert Counter(one.reason for one in rejected) == {
        "answer bot": 1,
        "not a question or answer": 1,
        "fabricated post": 2,
    }
    assert posts[0]["title"] == "A & B <c>"
    assert posts[0]["text"] == "Q & A\n\n```py\nif x < 1:\n    return\n```"


@real
@pytest.mark.parametrize("name", ["beer_2017", "coffee_2015"])
def test_posts_of_real_dumps_agree_with_another_parser(name: str) -> None:
    path = DATA / name / "Posts.xml"
    posts, rejected = parsed(rows_of(opened(path)))
    elements = [element.attrib for element in ElementTree.parse(path).getroot()]
    wanted = {one["Id"]: one for one in elements if one["PostTypeId"] in "12"}
    assert len(posts) + len(rejected) == len(elements)
    assert {one.reason for one in rejected} <= {"not a question or answer"}
    assert [str(post["number"]) for post in posts] == list(wanted)
    for post in posts:
        source = wanted[str(post["number"])]
        assert post["votes"] == int(source["Score"])
        assert post["created"] == datetime.fromisoformat(source["CreationDate"] + "+00:00")
        assert post["author_id"] == source.get("OwnerUserId")
        assert post["tags"] == re.findall("<([^>]*)>", source.get("Tags", ""))
        assert post["closed"] == ("ClosedDate" in source)


# ---------------------------------------------------------------- threads


def write_posts(path: Path, posts: list[dict[str, Any]]) -> str:
    pq.write_table(pa.Table.from_pylist(posts, schema=POSTS), path)
    return str(path)


def joined(paths: list[str], scratch: Path, **options: Any) -> tuple[list[dict[str, Any]], list[Rejected]]:
    found: list[dict[str, Any]] = []
    rejected: list[Rejected] = []
    for item in threads(paths, scratch, **options):
        if isinstance(item, Rejected):
            rejected.append(item)
        else:
            item.validate(full=True)
            assert item.schema.equals(THREADS, check_metadata=True)
            found.extend(item.to_pylist())
    return found, rejected


def naive_threads(posts: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], set[str]]:
    """The same by dicts, and the ids of answers without a question."""
    questions = {post["post_id"]: {**post, "answers": []} for post in posts if post["kind"] == "question"}
    orphans = set()
    for post in sorted(posts, key=lambda post: (-post["votes"], post["number"])):
        if post["kind"] == "answer" and post["question_id"] in questions:
            question = questions[post["question_id"]]
            kept = ("text", "votes", "created", "wiki", "author_id", "author", "licence", "scrubbed")
            accepted = question["accepted_id"] == post["post_id"]
            answer = {name: post[name] for name in kept}
            question["answers"].append({"answer_id": post["post_id"], **answer, "accepted": accepted})
        elif post["kind"] == "answer":
            orphans.add(post["post_id"])
    ordered = sorted(questions.values(), key=lambda post: (post["question_hash"], post["question_id"]))
    return [{name: post[name] for name in THREADS.names} for post in ordered], orphans


@real
@pytest.mark.parametrize("name", ["beer_2017", "coffee_2015", "hostile"])
def test_threads_of_real_dumps_are_those_of_a_join_by_dicts(tmp_path: Path, name: str) -> None:
    posts, _ = parsed(rows_of(opened(DATA / name)))
    found, rejected = joined([write_posts(tmp_path / "a.parquet", posts)], tmp_path)
    expected, orphans = naive_threads(posts)
    assert found == expected
    assert {one.key for one in rejected} == orphans


def test_threads_do_not_depend_on_the_order_or_files_of_posts(tmp_path: Path) -> None:
    folder = tmp_path / "a [1] * folder"
    folder.mkdir()
    write_dump(folder / "Posts.xml", 2_000_000, seed=5)
    posts, _ = parsed(rows_of(opened(folder / "Posts.xml")))
    expected, orphans = naive_threads(posts)
    one = joined([write_posts(folder / "all.parquet", posts)], tmp_path)
    back = posts[::-1]
    halves = [write_posts(folder / "1.parquet", back[:700]), write_posts(folder / "2.parquet", back[700:])]
    assert joined(halves, tmp_path) == one
    assert one[0] == expected
    assert {rejected.key for rejected in one[1]} == orphans


def test_posts_beyond_the_memory_limit_are_spilled_and_nothing_stays_on_disk(tmp_path: Path) -> None:
    write_dump(tmp_path / "Posts.xml", 8_000_000, seed=6)
    posts, _ = parsed(rows_of(opened(tmp_path / "Posts.xml")))
    path, scratch = write_posts(tmp_path / "a.parquet", posts), tmp_path / "scratch"
    scratch.mkdir()
    iterator = threads([path], scratch, memory_limit_mb=16)
    next(iterator)
    assert list(scratch.rglob("*.arrows"))
    iterator.close()  # type: ignore[attr-defined]
    shutil.rmtree(scratch)
    scratch.mkdir()
    found, _ = joined([path], scratch, memory_limit_mb=16)
    assert found == naive_threads(posts)[0]
    assert not list(scratch.rglob("*"))


def test_a_question_without_answers_stays_and_an_answer_without_question_goes(tmp_path: Path) -> None:
    posts, _ = parsed([row(QUESTION), row(ANSWER, ParentId="99", Body="orphan"), row(ANSWER, Id="6", ParentId="6")])
    found, rejected = joined([write_posts(tmp_path / "a.parquet", posts)], tmp_path)
    assert [(thread["question_id"], thread["answers"]) for thread in found] == [(f"{SITE}/3", [])]
    assert {(one.key, one.kind, one.reason, one.raw) for one in rejected} == {
        (f"{SITE}/4", "defect", "orphan answer", "orphan"),
        (f"{SITE}/6", "defect", "orphan answer", "No."),
    }


def test_answers_are_ordered_by_votes_then_by_id_and_one_is_accepted(tmp_path: Path) -> None:
    scores = {"10": "2", "9": "2", "12": "30", "11": "-4"}
    answers = [row(ANSWER, Id=number, Score=score) for number, score in scores.items()]
    posts, _ = parsed([*answers[:2], row(QUESTION, AcceptedAnswerId="9"), *answers[2:]])
    (thread,), _ = joined([write_posts(tmp_path / "a.parquet", posts)], tmp_path)
    ids = [(answer["answer_id"].removeprefix(f"{SITE}/"), answer["accepted"]) for answer in thread["answers"]]
    assert ids == [("12", False), ("9", True), ("10", False), ("11", False)]


def test_of_posts_with_one_id_the_same_one_stays_whatever_their_order(tmp_path: Path) -> None:
    rows = [
        row(QUESTION),
        row(QUESTION, Title="Another"),
        row(ANSWER),
        row(ANSWER, Body="Yes.", Score="50"),
        row(ANSWER, ParentId="99"),
        row(ANSWER),
    ]
    outcomes = []
    for index, order in enumerate((rows, rows[::-1])):
        posts, _ = parsed(order)
        found, rejected = joined([write_posts(tmp_path / f"{index}.parquet", posts)], tmp_path)
        outcomes.append((found, sorted((one.key, one.reason, one.raw) for one in rejected)))
    assert outcomes[0] == outcomes[1]
    (thread,), rejected_rows = outcomes[0]
    assert (thread["title"], [answer["text"] for answer in thread["answers"]]) == ("Another", ["No."])
    assert [(key, reason) for key, reason, _ in rejected_rows] == [
        (f"{SITE}/3", "duplicate id"),
        *[(f"{SITE}/4", "duplicate id")] * 3,
    ]


def test_a_dump_given_twice_is_one_dump(tmp_path: Path) -> None:
    folder = tmp_path / "a [1] * folder?"
    folder.mkdir()
    write_dump(folder / "Posts.xml", 300_000, seed=2)
    posts, _ = parsed(rows_of(opened(folder / "Posts.xml")))
    path = write_posts(folder / "a.parquet", posts)
    shutil.copy(path, folder / "b.parquet")
    found, rejected = joined([path, str(folder / "b.parquet")], tmp_path)
    assert found == naive_threads(posts)[0]
    assert Counter(one.reason for one in rejected)["duplicate id"] == len(posts)


def test_no_posts_make_no_threads(tmp_path: Path) -> None:
    assert joined([write_posts(tmp_path / "a.parquet", [])], tmp_path) == ([], [])


def test_a_thread_longer_than_a_batch_stays_whole(tmp_path: Path) -> None:
    answers = [row(ANSWER, Id=str(number)) for number in range(10, 5_010)]
    posts, _ = parsed([*answers, row(QUESTION)])
    (thread,), rejected = joined([write_posts(tmp_path / "a.parquet", posts)], tmp_path)
    assert (len(thread["answers"]), rejected) == (5_000, [])


# ---------------------------------------------------------------- the generated dump


def test_a_generated_dump_is_valid_the_same_for_its_seed_and_counts_itself(tmp_path: Path) -> None:
    made = write_dump(tmp_path / "a.xml", 1_500_000, seed=3)
    write_dump(tmp_path / "b.xml", 1_500_000, seed=3)
    write_dump(tmp_path / "c.xml", 1_500_000, seed=4)
    content = (tmp_path / "a.xml").read_bytes()
    assert content == (tmp_path / "b.xml").read_bytes() != (tmp_path / "c.xml").read_bytes()
    assert (made.bytes, made.rows) == (len(content), content.count(b"<row "))
    posts, rejected = parsed(rows_of(opened(tmp_path / "a.xml")))
    assert Counter(post["kind"] for post in posts) == {"question": made.questions, "answer": made.answers}
    assert {one.reason for one in rejected} == {"not a question or answer"}
    assert sum(post["repairs"] for post in posts) >= 1
    assert 1.8 < made.answers / made.questions < 2.8
    assert 700 < made.bytes / made.rows < 1_400
