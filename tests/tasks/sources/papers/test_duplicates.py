"""Versions of one paper: own texts with their traps, and generated papers compared with all pairs by brute force."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import paths
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.building import Silent
from flows.sources import papers as papers_source
from flows.sources import s2orc as s2orc_source
from longform.artifacts.rows import Row
from longform.artifacts.store import Store
from longform.engine.build import Build
from longform.engine.runners import ThreadRunner
from longform.engine.thread_tasks import SequentialStages
from longform.errors import SourceError, UsageError
from longform.llm.models import Models
from schemas.sources.papers import DUPLICATES, METADATA, SKETCHES
from tasks.sources.papers.duplicates import duplicates, duplicates_in_files
from tasks.sources.papers.sketches import sketch_of, surnames, title_words
from tasks.sources.papers.versions import OTHER_PAPER, SERIES, compare_titles

VOCABULARY = [
    f"{a}{b}{c}" for a in ("ka", "lo", "mi", "ne", "ru", "so") for b in ("ba", "di", "fu", "ge") for c in "nrst"
]


def prose(seed: object, length: int = 400) -> str:
    draw = random.Random(str(seed))
    return " ".join(draw.choice(VOCABULARY) for _ in range(length))


def paper(paper_id: str, title: str | None, text: str = "", abstract: str | None = None, **more: Any) -> Row:
    return {"paper_id": paper_id, "title": title, "text": text, "abstract": abstract, "authors": [], **more}


def found(folder: Path, *papers: Row) -> list[Row]:
    file = folder / "sketches.parquet"
    pq.write_table(pa.Table.from_pylist([sketch_of(one) for one in papers], schema=SKETCHES), file)
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    return list(duplicates([str(file)], scratch))


def verdicts(folder: Path, *papers: Row) -> list[tuple[str, str | None, list[str]]]:
    return [(row["verdict"], row["reason"], row["found_by"]) for row in found(folder, *papers)]


# ---------------------------------------------------------------- what is one paper


def test_an_anonymous_submission_and_its_camera_ready_with_another_title_are_one(tmp_path: Path) -> None:
    body = prose("body")
    submission = paper("openreview/x", "Bees count to four", body, prose("a", 90), authors=["Anonymous authors"])
    final = paper("acl/x", "Bees count to four and remember it", f"{body} {prose('more', 60)}", prose("b", 90))
    final |= {"authors": ["Jane Roe"]}
    [row] = found(tmp_path, submission, final)
    assert (row["verdict"], row["found_by"], row["group_id"]) == ("same", ["text"], "acl/x")
    assert row["text_similarity"] > 0.9
    assert row["shared_authors"] is None


def test_title_author_and_year_are_enough_without_texts(tmp_path: Path) -> None:
    one = paper("a/1", "Pre-training Hives: a Study", authors=["Jane Roe"], year=2019)
    two = paper("b/1", "Pretraining hives - a study", authors=["Roe, J.", "Ümit Öz"], year=2020)
    assert verdicts(tmp_path, one, two) == [("same", None, ["title"])]


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        ({"doi": "10.48550/arxiv.2101.00001"}, {"arxiv_id": "2101.00001v3"}, "arxiv_id"),
        ({"doi": "10.18653/v1/N18-3011"}, {"acl_id": "n18-3011"}, "acl_id"),
        ({"pdf_sha": "AB12"}, {"pdf_sha": "ab12"}, "file"),
        ({"corpus_id": 7}, {"corpus_id": 7}, "corpus_id"),
    ],
)
def test_identifiers_are_compared_across_their_forms(first: Row, second: Row, name: str, tmp_path: Path) -> None:
    title = "On the dance of bees"
    [(verdict, _, how)] = verdicts(tmp_path, paper("a", title, **first), paper("b", title, **second))
    assert (verdict, name in how) == ("same", True)


def test_versions_are_one_group_though_only_neighbours_share_something(tmp_path: Path) -> None:
    one = paper("c", "The first title of it", prose("x"), doi="10.1/a")
    two = paper("b", "The first title of it", prose("x"), arxiv_id="1")
    three = paper("a", "The first title of it (extended)", "", arxiv_id="1")
    assert {row["group_id"] for row in found(tmp_path, one, two, three)} == {"a"}


# ---------------------------------------------------------------- traps


@pytest.mark.parametrize("title", ["Introduction", "Editorial", "Related Work", "Message from the Program Chairs"])
def test_a_generic_title_with_other_texts_is_no_duplicate(title: str, tmp_path: Path) -> None:
    one = paper("a", title, prose(1), authors=["Jane Roe"], year=2019)
    two = paper("b", title, prose(2), authors=["Jane Roe"], year=2019)
    assert found(tmp_path, one, two) == []
    assert found(tmp_path, paper("a", title, authors=["Roe"]), paper("b", title, authors=["Roe"])) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("A theory of hives: Part I", "A theory of hives: Part II"),
        ("Findings of WMT19", "Findings of WMT20"),
        ("SemEval-2013 Task 2: Sentiment of bees", "SemEval-2014 Task 9: Sentiment of bees"),
        ("YOLOv2: faster bees", "YOLOv3: faster bees"),
        ("A first look at bees", "A second look at bees"),
    ],
)
def test_parts_of_a_series_are_never_the_same(first: str, second: str, tmp_path: Path) -> None:
    shared = {"authors": ["Jane Roe"], "year": 2019}
    assert found(tmp_path, paper("a", first, prose(1), **shared), paper("b", second, prose(2), **shared)) == []
    alike = prose(3)
    pair = paper("a", first, alike, **shared), paper("b", second, alike + " " + prose(4, 50), **shared)
    assert verdicts(tmp_path, *pair) == [("doubtful", SERIES, ["text"])]


def test_a_misread_doi_merges_nothing(tmp_path: Path) -> None:
    one = paper("a", "Bees of the north", prose(1), doi="10.1/volume")
    two = paper("b", "Wasps in the south", prose(2), doi="10.1/volume")
    [row] = found(tmp_path, one, two)
    assert (row["verdict"], row["reason"], row["found_by"], row["group_id"]) == ("doubtful", OTHER_PAPER, ["doi"], None)


def test_a_thesis_that_holds_a_paper_is_no_version_of_it(tmp_path: Path) -> None:
    body = prose(1)
    assert found(tmp_path, paper("a", "Bees", body), paper("b", "Insects, a thesis", f"{body} {prose(2, 4_000)}")) == []


def test_one_title_of_two_papers_by_others_is_no_duplicate(tmp_path: Path) -> None:
    title = "Learning to dance with bees"
    one, two = paper("a", title, prose(1), authors=["Jane Roe"]), paper("b", title, prose(2), authors=["Ann Doe"])
    assert found(tmp_path, one, two) == []


def test_a_record_that_stands_in_two_tables_is_one(tmp_path: Path) -> None:
    assert found(tmp_path, paper("s2/1", "On the dance of bees", prose(1)), paper("s2/1", "On the dance of bees")) == []


# ---------------------------------------------------------------- words


def test_surnames_and_titles_are_folded() -> None:
    assert surnames(["Jane van Dœ", "ÖZ, Ümit", "Sammy Roe Jr.", "Anonymous", "Paper Authors"]) == ["dœ", "oz", "roe"]
    assert title_words("WMT19: ﬁnding Überbees") == ["wmt", "19", "finding", "uberbees"]
    assert compare_titles(["a"], []) == ("unknown", None)


# ---------------------------------------------------------------- by brute force


def generated(number: int) -> list[Row]:
    """Papers of which every third has one to three versions: with words changed, cut short, or another title."""
    draw, papers = random.Random(5), list[Row]()
    for place in range(number):
        title, body, abstract = prose(f"t{place}", 7), prose(f"p{place}", 700), prose(f"a{place}", 120)
        for version in range(1 + (place % 3 == 0) * draw.randint(1, 3)):
            words = body.split()
            changed = [word if draw.random() > 0.04 else "changed" for word in words[: draw.randint(450, 700)]]
            own = title if draw.random() < 0.5 else f"{title} again"
            papers.append(paper(f"{'abc'[version % 3]}/{place}.{version}", own, " ".join(changed), abstract))
    draw.shuffle(papers)
    return papers


def triples(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"[a-z]+", text.lower())
    return set(zip(words, words[1:], words[2:], strict=False))


def work(paper_id: str) -> str:
    """The number of the generated paper, without its version."""
    return paper_id.split("/")[1].split(".")[0]


def test_the_same_pairs_as_comparing_all_with_all(tmp_path: Path) -> None:
    papers = generated(200)
    sets = {one["paper_id"]: triples(one["text"]) for one in papers}
    expected = {
        tuple(sorted((a, b)))
        for a, b in combinations(sets, 2)
        if len(sets[a] & sets[b]) >= 0.5 * min(len(sets[a]), len(sets[b]))
    }
    rows = found(tmp_path, *papers)
    assert {(row["first_id"], row["second_id"]) for row in rows if row["verdict"] == "same"} == expected
    assert len(expected) > 100
    assert all(
        row["first_id"].split("/")[1].split(".")[0] == row["second_id"].split("/")[1].split(".")[0] for row in rows
    )
    members: dict[str, set[str]] = {}
    for row in rows:
        members.setdefault(row["first_id"].split("/")[1].split(".")[0], set()).update(
            {row["first_id"], row["second_id"]}
        )
    assert {min(ids) for ids in members.values()} == {row["group_id"] for row in rows}
    assert rows == found(tmp_path, *reversed(papers))


def test_a_thousand_papers_of_one_title_are_not_compared_with_each_other(tmp_path: Path) -> None:
    papers = [paper(f"a/{place:04}", "Message from the chairs of it", prose(place, 60)) for place in range(1_000)]
    copies = [paper(f"b/{place:04}", "Copied bees in the hive", prose("copy", 80)) for place in range(300)]
    rows = found(tmp_path, *papers, *copies)
    assert {row["group_id"] for row in rows} == {"b/0000"}
    assert 299 <= len(rows) < 700


# ---------------------------------------------------------------- files of several sources


def test_tables_of_several_sources_are_compared(tmp_path: Path) -> None:
    row = {"paper_id": "acl/1", "title": "On the dance of bees", "authors": ["Jane Roe"], "year": 2020}
    pq.write_table(pa.Table.from_pylist([row], schema=METADATA), tmp_path / "acl.parquet")
    note = {"submission_id": "openreview/n", "title": "On the Dance of Bees", "authors": ["J. Roe"], "year": 2019}
    pq.write_table(pa.Table.from_pylist([{**note, "abstract": None}]), tmp_path / "notes.parquet")
    [pair] = duplicates_in_files([tmp_path / "acl.parquet", tmp_path / "notes.parquet"], tmp_path)
    assert pair["pair_id"] == "acl/1=openreview/n"
    pa.Table.from_pylist([pair], schema=DUPLICATES)


def test_files_of_something_else_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"post_id": ["1"]}), tmp_path / "posts.parquet")
    (tmp_path / "no.parquet").write_text("no")
    with pytest.raises(UsageError, match="holds no papers"):
        list(duplicates_in_files([tmp_path / "posts.parquet"], tmp_path))
    with pytest.raises(SourceError, match="cannot be read as Parquet"):
        list(duplicates_in_files([tmp_path / "no.parquet"], tmp_path))


# ---------------------------------------------------------------- real papers


@pytest.mark.skipif(not paths.REAL_DATA.exists(), reason="no real papers beside the repository")
def test_real_papers_are_the_same_as_their_pdfs_only(build: Build) -> None:
    """Of 5 TEI documents, 2 PDFs and 3 papers of S2ORC two are of one paper twice: those that stand in both forms."""
    settings = papers_source.Read(parser="pdfium")
    tei, _, pdfs, _, pairs = papers_source.read(build, [paths.REAL_DATA / "grobid_tei"], settings)
    assert {(row["verdict"], tuple(row["found_by"])) for row in pairs} == {("same", ("title", "text"))}
    titles = {row["paper_id"]: row["title"] for rows in (tei, pdfs) for row in rows}
    assert len(list(pairs)) == 2
    assert all(titles[row["first_id"]].casefold() == titles[row["second_id"]].casefold() for row in pairs)
    assert all(row["text_similarity"] > 0.9 for row in pairs)
    assert list(s2orc_source.read(build, [paths.REAL_DATA / "s2orc"], s2orc_source.Read())[-1]) == []


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    home = tmp_path / "home"
    models = Models(home / "responses.sqlite")
    build = Build(Store(home), tasks=SequentialStages(), runner=ThreadRunner(), progress=Silent(), models=models)
    yield build
    build.close()
