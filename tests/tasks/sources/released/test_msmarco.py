import gzip
import hashlib
import io
import re
import tarfile
from pathlib import Path
from typing import Any

import ftfy
import numpy as np
import paths
import pyarrow as pa
import pytest
from axioms_builds import Silent
from http_server import Answer, serve
from hypothesis import example, given
from hypothesis import strategies as st

from flows.sources import msmarco as flow
from longform.artifacts.rows import Rejected, Rows, Shard
from longform.artifacts.store import Digests, Store
from longform.engine.build import Build
from longform.engine.runners import ThreadRunner
from longform.engine.thread_tasks import SequentialStages
from longform.errors import Incomplete, SourceError, UsageError
from longform.llm.models import Models
from longform.net.download import Downloader
from tasks.sources.files.inputs import open_files
from tasks.sources.released.msmarco import (
    COLLECTION,
    ENDINGS,
    GROUP,
    PIDS,
    careful_columns,
    check_names,
    holding,
    kind_of,
    lines_of,
    passages,
    plain_columns,
    qrels,
    queries,
    repaired,
    split_of,
)

SAMPLES = paths.SAMPLES / "msmarco"


def mangled(text: str) -> str:
    return text.encode().decode("latin-1")


def rows_of(*lines: bytes, repair: bool = True) -> tuple[list[dict[str, Any]], list[Rejected]]:
    items = list(passages(lines, np.zeros(PIDS, bool), repair=repair, retrieved=None))
    rows = [row for item in items if isinstance(item, pa.RecordBatch) for row in item.to_pylist()]
    return rows, [item for item in items if isinstance(item, Rejected)]


def read(home: Path, *paths: Path, **settings: Any) -> tuple[list[Rows], Build]:
    build = Build(
        Store(home),
        tasks=SequentialStages(),
        runner=ThreadRunner(),
        progress=Silent(),
        models=Models(home / "responses.sqlite"),
    )
    found = flow.read(build, list(paths), flow.Read(**settings))
    build.close()
    return found, build


# ---------------------------------------------------------------- encoding


def by_windows(text: str) -> tuple[str, int]:
    """The rule as it is told: windows of 4, then 3, then 2 characters whose Latin-1 bytes decode to exactly one."""
    mended = 0
    for width in (4, 3, 2):
        place = 0
        while place + width <= len(text):
            window = text[place : place + width]
            if any("\x80" <= one <= "\xff" for one in window):
                try:
                    one = window.encode("latin-1").decode()
                except UnicodeError:
                    one = ""
                if len(one) == 1:
                    text, mended = text[:place] + one + text[place + width :], mended + 1
            place += 1
    return text, mended


@given(
    st.text(
        st.sampled_from("ab é\x80\x85\x9f\xa0\xbf\xc2\xc3\xdf\xe2\xe0\xef\xf0\xf4\xf5\xff’€\U0001f600"), max_size=30
    )
)
@example(mangled("é") + "é" + mangled("€") + mangled("\U0001f600"))
@example("\xed\xa0\x80")  # a surrogate, which is no character
@example("\xc0\xaf")  # an overlong form of "/"
def test_repairs_are_those_of_the_rule_applied_window_by_window(text):
    assert repaired(text) == by_windows(text)


WORDS = ["café", "naïve", "“quoted”", "it’s", "–", "€4", "½", "Zürich", "Σ", "日本", "\U0001f600", "plain", "100 °C"]


@given(st.lists(st.tuples(st.sampled_from(WORDS), st.booleans()), max_size=12))
def test_mixes_of_mangled_and_right_characters_come_back(parts):
    text = " ".join(mangled(word) if bad else word for word, bad in parts)
    mended, repairs = repaired(text)
    assert mended == " ".join(word for word, _ in parts)
    assert repairs == sum(sum(one > "\x7f" for one in word) for word, bad in parts if bad)


@pytest.mark.parametrize("word", [word for word in WORDS if not word.isascii()])
def test_ftfy_reads_mangled_words_the_same(word):
    sentence = f"Here is {word} in a row of words"
    assert repaired(mangled(sentence))[0] == ftfy.fix_encoding(mangled(sentence)) == sentence


@given(st.text())
def test_text_without_mangled_characters_stays(text):
    mended, repairs = repaired(text)
    assert (mended == text) == (repairs == 0)


def test_rows_say_which_text_they_hold():
    line = f"7\t{mangled('é')} beside é".encode()
    [row], _ = rows_of(line)
    assert (row["passage_id"], row["text"], row["text_held"], row["repairs"]) == (
        "msmarco/p7",
        "é beside é",
        "repaired",
        1,
    )
    [row], _ = rows_of(line, repair=False)
    assert (row["text"], row["text_held"], row["repairs"]) == (f"{mangled('é')} beside é", "as distributed", 0)


# ---------------------------------------------------------------- lines


def test_quotes_and_separators_stand_for_themselves():
    texts = ['"never ends', "a\u2028b", "a\x85b", 'x "y" z', "a\x0bb\x0cc\x1db", "trailing space "]
    rows, rejected = rows_of(*(f"{pid}\t{text}".encode() for pid, text in enumerate(texts)))
    assert [row["text"] for row in rows] == texts
    assert not rejected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"no tab", "no upstream id"),
        (b"", "no upstream id"),
        (b"x\ttext", "no upstream id"),
        (b"-1\ttext", "no upstream id"),
        (b"123456789\ttext", "no upstream id"),
        (b"1\t", "empty text"),
        (b"1\t  \xe3\x80\x80", "empty text"),
        (b"1\t\r", "empty text"),
        (b"1\ta\tb", "too many columns"),
        (b"1\t\xff\xfe", "not UTF-8"),
        (b"1\t" + b"x" * 70_000, "text of 64 KiB or more"),
    ],
)
def test_a_line_that_is_no_passage_is_a_defect_with_its_text(line, reason):
    rows, [told] = rows_of(b"5\tgood", line, b"6\tgood too")
    assert [row["passage_id"] for row in rows] == ["msmarco/p5", "msmarco/p6"]
    assert (told.kind, told.reason) == ("defect", reason)
    assert told.raw == line.decode(errors="replace")[:2_000]


def test_lines_may_end_with_a_carriage_return():
    rows, _ = rows_of(b"1\tone\r", b"2\ttwo")
    assert [row["text"] for row in rows] == ["one", "two"]


def test_of_an_id_that_comes_again_the_first_stays():
    lines = [f"{pid}\ttext {place}".encode() for place, pid in enumerate([3, 1, 3, *range(10, 2_000), 1, 1_999])]
    rows, rejected = rows_of(*lines)
    assert len(rows) == len({row["passage_id"] for row in rows}) == 1_992
    assert [(one.key, one.reason) for one in rejected] == [
        ("msmarco/p3", "repeated upstream id"),
        ("msmarco/p1", "repeated upstream id"),
        ("msmarco/p1999", "repeated upstream id"),
    ]
    assert {row["text"] for row in rows} >= {"text 0", "text 1"}


FRAGMENT = st.sampled_from(
    [b"\t", b"\r", b" ", b"7", b"0", b"12", b"-", b"a", b"\xc3\xa9", b"\xff", b'"', b"\x85", b"+"]
)


@given(st.lists(st.lists(FRAGMENT, max_size=6).map(b"".join), min_size=1, max_size=4))
@example([b"007\ta", b"7\tb"])
@example([b"0x1f\ta"])
@example([b"-0\ta"])
@example([b"+7\ta"])
@example([b"0000000000007\ta"])
@example([b"100000000\ta"])
@example([b"7\t" + b"x" * (64 << 10)])
def test_the_fast_way_finds_what_the_careful_one_finds(lines):
    fast = plain_columns(lines)
    if fast is not None:
        careful = careful_columns(lines)
        with pytest.raises(StopIteration) as stopped:
            next(careful)  # nothing is rejected
        assert [column.to_pylist() for column in fast] == [column.to_pylist() for column in stopped.value.value]


# ---------------------------------------------------------------- files


def opened(folder: Path, *paths: Path, piece_bytes: int | None = None) -> Any:
    digest = Digests(folder / "home")
    return open_files(paths, group=GROUP, endings=ENDINGS, digest=digest, piece_bytes=piece_bytes)


@given(piece_bytes=st.integers(1, 700))
def test_pieces_together_hold_every_line_once(piece_bytes):
    path = SAMPLES / "collection.tsv"
    [source] = opened(SAMPLES, path, piece_bytes=piece_bytes)
    found = [
        line
        for index in range(len(source.pieces))
        for _, lines in lines_of(Shard(source, index), COLLECTION)
        for line in lines
    ]
    assert found == path.read_bytes().removesuffix(b"\n").split(b"\n")


def archive_of(path: Path, *files: tuple[str, bytes], links: int = 0) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for number in range(links):
            link = tarfile.TarInfo(f"collection{number}.tsv")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(link)
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


COLLECTION_TSV, QUERIES_TSV = b"1\tone\n2\ttwo\n", b"9\twhich\n"


def test_archives_are_read_as_streams_and_their_names_never_become_paths(tmp_path):
    files = [
        ("../../collection.tsv", COLLECTION_TSV),
        ("/abs/queries.dev.tsv", QUERIES_TSV),
        ("top1000.dev.tsv", b"1\t2\tx\ty\n"),
        ("d" * 140 + "/qrels.dev.tsv", b"9 0 1 1\n"),
    ]
    path = archive_of(tmp_path / "collectionandqueries.tar.gz", *files, links=2)
    (rows, repeated, asked, judged), _ = read(tmp_path / "home", path)
    assert [row["passage_id"] for row in rows] == ["msmarco/p1", "msmarco/p2"]
    assert [(row["query_id"], row["text"], row["splits"]) for row in asked] == [("msmarco/q9", "which", ["dev"])]
    assert (repeated.count, judged.count) == (0, 1)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["collectionandqueries.tar.gz", "home"]


def test_a_truncated_archive_is_an_error_wherever_it_ends(tmp_path):
    whole = archive_of(tmp_path / "whole.tar.gz", ("collection.tsv", COLLECTION_TSV * 2_000)).read_bytes()
    for size in range(20, len(whole) - 1, max(1, len(whole) // 40)):
        path = tmp_path / "collection.tar.gz"
        path.write_bytes(whole[:size])
        with pytest.raises(SourceError, match="truncated"):
            _lines(path)
    path.write_bytes(gzip.compress(gzip.decompress(whole)[:2_000]))
    with pytest.raises(SourceError, match="its last member is not whole"):
        _lines(path)


def _lines(path: Path) -> list[bytes]:
    [source] = holding(opened(path.parent, path), COLLECTION)
    return [line for _, lines in lines_of(Shard(source, 0), COLLECTION) for line in lines]


def test_what_is_no_archive_is_an_error(tmp_path):
    path = tmp_path / "collection.tar.gz"
    path.write_bytes(gzip.compress(b"1\tone\n" * 1_000))
    with pytest.raises(SourceError, match="is no tar archive"):
        _lines(path)


def test_an_extended_header_that_says_it_is_huge_is_passed_over_unread(tmp_path):
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 1 << 40
    path = tmp_path / "collection.tar.gz"
    path.write_bytes(gzip.compress(header.tobuf(tarfile.USTAR_FORMAT if header.size < 8 << 30 else tarfile.GNU_FORMAT)))
    with pytest.raises(SourceError, match="its last member is not whole"):
        _lines(path)


@pytest.mark.parametrize(
    ("name", "kind", "split"),
    [
        ("collection.tsv", "collection", "collection"),
        ("queries.dev.small.tsv", "queries", "dev.small"),
        ("qrels.train.tsv.gz", "qrels", "train"),
        ("msmarco-test2019-queries.tsv.gz", "queries", "msmarco-test2019"),
        ("2019qrels-pass.txt", "qrels", "2019-pass"),
        ("queries.tsv", "queries", "all"),
        ("triples.train.small.tsv", None, "triples.train.small"),
        ("top1000.dev", None, "top1000.dev"),
    ],
)
def test_names_say_what_files_hold(name, kind, split):
    assert kind_of(name) == kind
    assert split_of(name) == split


@pytest.mark.parametrize("name", ["triples.train.small.tsv", "top1000.dev.tar.gz", "qidpidtriples.train.full.2.tsv.gz"])
def test_triples_are_refused_by_name(tmp_path, name):
    with pytest.raises(UsageError, match="is not read, as its texts are mangled"):
        check_names([tmp_path / name])


def test_a_file_of_an_unknown_name_is_refused(tmp_path):
    (tmp_path / "notes.tsv").write_text("1\tx\n")
    with pytest.raises(UsageError, match="does not say what it holds"):
        check_names([tmp_path / "notes.tsv"])


# ---------------------------------------------------------------- queries and judgements


def test_judgements_of_the_collection_and_of_trec():
    items = list(qrels([b"1\t0\t7\t1\r", b"2 Q0 8 -1", b"3\t0\t9", b"x\t0\t1\t1", b"4\t0\t5\tyes", b""], "dev"))
    [batch] = [item for item in items if isinstance(item, pa.RecordBatch)]
    assert [
        (row["judgement_id"], row["query_id"], row["passage_id"], row["relevance"]) for row in batch.to_pylist()
    ] == [
        ("msmarco/q1-p7", "msmarco/q1", "msmarco/p7", 1),
        ("msmarco/q2-p8", "msmarco/q2", "msmarco/p8", -1),
    ]
    assert sorted(item.reason for item in items if isinstance(item, Rejected)) == [
        "no grade",
        "no upstream id",
        "not four columns",
        "not four columns",
    ]


def test_queries_are_not_repaired():
    [batch] = queries([f"1\t{mangled('é')}".encode()], "dev", None)
    assert batch["text"].to_pylist() == [mangled("é")]


def test_a_query_of_more_than_one_file_is_one_row(tmp_path):
    (tmp_path / "queries.dev.tsv").write_bytes(b"1\twhat\n2\twhere\n3\twho\n")
    (tmp_path / "queries.dev.small.tsv").write_bytes(b"2\twhere\n3\twhom\n")
    (tmp_path / "qrels.dev.tsv").write_bytes(b"1\t0\t5\t1\n1\t0\t6\t1\n2\t0\t5\t1\n")
    (tmp_path / "qrels.dev.small.tsv").write_bytes(b"2\t0\t5\t1\n1\t0\t6\t0\n")
    (_, _, asked, judged), build = read(tmp_path / "home", tmp_path)
    assert {(row["query_id"], row["text"], tuple(row["splits"])) for row in asked} == {
        ("msmarco/q1", "what", ("dev",)),
        ("msmarco/q2", "where", ("dev", "dev.small")),
        ("msmarco/q3", "who", ("dev",)),
    }
    assert {(row["judgement_id"], row["relevance"], tuple(row["splits"])) for row in judged} == {
        ("msmarco/q1-p5", 1, ("dev",)),
        ("msmarco/q1-p6", 1, ("dev",)),
        ("msmarco/q2-p5", 1, ("dev", "dev.small")),
    }
    told = {run.stage: run.artifact.rejected() for run in build.done}
    assert told["join_queries"] == {("defect", "another text of this query"): 1}
    assert told["join_qrels"] == {("defect", "another grade of this pair"): 1}


def test_the_sample_is_accounted_for(tmp_path):
    (rows, repeated, asked, judged), build = read(tmp_path / "home", SAMPLES)
    assert (rows.count, repeated.count, asked.count, judged.count) == (8, 0, 4, 4)
    assert build.done[0].artifact.rejected() == {("defect", "no upstream id"): 1}
    held = {row["passage_id"]: row for row in rows}
    assert held["msmarco/p1"]["text"].count("café") == 2
    assert {row["passage_id"] for row in judged} <= set(held)


def test_two_copies_of_the_collection_are_noticed(tmp_path):
    (tmp_path / "collection.tsv").write_bytes(COLLECTION_TSV)
    archive_of(tmp_path / "collection.tar.gz", ("collection.tsv", COLLECTION_TSV + b"3\tthree\n"))
    (rows, repeated, _, _), _ = read(tmp_path / "home", tmp_path)
    assert rows.count == 5
    assert list(repeated) == [
        {"repeated_id": "msmarco/p1", "rows": 2},
        {"repeated_id": "msmarco/p2", "rows": 2},
    ]


# ---------------------------------------------------------------- fetching


def test_fetched_files_are_checked_against_their_published_md5(tmp_path):
    good = b"1\t0\t7\t1\n"
    facts = {"qrels.dev.tsv": (len(good), hashlib.md5(good).hexdigest())}
    with serve() as server:
        server.on("/m/qrels.dev.tsv", Answer(body=good[::-1]))
        http = Downloader(tries=2, sleep=lambda seconds: None)
        with pytest.raises((SourceError, Incomplete)):
            flow.download(http, facts, tmp_path, f"{server.url}/m/", None)
        assert not (tmp_path / "qrels.dev.tsv").exists()
        server.on("/m/qrels.dev.tsv", Answer(body=good))
        [path] = flow.download(http, facts, tmp_path, f"{server.url}/m/", None)
        asked = len(server.asked)
        assert flow.download(http, facts, tmp_path, f"{server.url}/m/", None) == [path]
    assert path.read_bytes() == good
    assert len(server.asked) == asked


def test_what_there_is_not_is_an_error():
    with pytest.raises(UsageError, match="name some of collection, queries, qrels"):
        flow.chosen(["triples"])
    assert list(flow.chosen([])) == [
        "collectionandqueries.tar.gz",
        "queries.tar.gz",
        "qrels.train.tsv",
        "qrels.dev.tsv",
    ]
    assert all(re.fullmatch("[0-9a-f]{32}", md5) for _, md5 in flow.chosen([]).values())
    assert flow.TERMS.decide
