"""Admission: listed records leave a source's rows, and nothing else changes; which record a link means."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from axioms_builds import build_axioms
from hypothesis import given
from hypothesis import strategies as st

from flows.axioms import SAMPLES
from longform.artifacts.rows import Rejected
from longform.artifacts.takedowns import add
from longform.artifacts.versions import Version
from longform.engine.build import Build
from longform.errors import UsageError
from schemas.sources.stackexchange import POSTS
from tasks.sources.admission import taken_down, without_listed
from tasks.sources.permalinks import ids_of_address, ids_with_former, record_of

SITE = "community.example"
IDS = pa.schema([("post_id", pa.string()), ("parent", pa.string())])


@given(
    rows=st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("uvw")), max_size=20),
    listed=st.sets(st.sampled_from("abcuvx")),
)
def test_every_row_is_admitted_or_rejected_without_its_text(rows: list[tuple[str, str]], listed: set[str]) -> None:
    batch = pa.RecordBatch.from_pylist([{"post_id": a, "parent": b} for a, b in rows], schema=IDS)
    kept, *rejected = without_listed(batch, listed, ["post_id", "parent"])
    assert isinstance(kept, pa.RecordBatch)
    assert [(row["post_id"], row["parent"]) for row in kept.to_pylist()] == [
        row for row in rows if not listed.intersection(row)
    ]
    assert rejected == [Rejected(a, "filtered", "taken down") for a, b in rows if listed & {a, b}]


def test_a_batch_without_listed_records_is_handed_on_as_it_is() -> None:
    batch = pa.RecordBatch.from_pylist([{"post_id": "a", "parent": None}], schema=IDS)
    (kept,) = without_listed(batch, {"b"}, ["post_id", "parent"])
    assert kept is batch


# ---------------------------------------------------------------- in a build


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Version, Build]:
    home = tmp_path_factory.mktemp("admission") / "home"
    version, _, made = build_axioms(home, "v1", dump=str(SAMPLES))
    assert version is not None
    return home, version, made


def rows_of(made: Build, stage: str) -> dict[str, dict[str, Any]]:
    (entry,) = [entry for entry in made.done if entry.stage == stage]
    tables = [pq.read_table(made.store.rows_path(part)) for part in entry.artifact.parts]
    return {next(iter(row.values())): row for table in tables for row in table.to_pylist()}


def test_a_takedown_elsewhere_changes_nothing(built: tuple[Path, Version, Build]) -> None:
    home, version, _ = built
    add(home, [("other.example/1", "2026-11-20", "asked"), ("openreview/abc", "2026-11-20", "asked")])
    again, progress, _ = build_axioms(home, "v1", dump=str(SAMPLES))
    assert again is not None
    assert progress.begun == {}
    assert again.manifest == version.manifest


def test_a_listed_answer_goes_and_every_other_post_stays_as_it_was(built: tuple[Path, Version, Build]) -> None:
    home, _, before = built
    posts = rows_of(before, "read_posts")
    answer = next(id for id, row in posts.items() if row["kind"] == "answer")
    question = next(id for id, row in posts.items() if row["kind"] == "question" and id != posts[answer]["question_id"])
    add(home, [(answer, "2026-11-20", "asked"), (question, "2026-11-20", "asked")])
    version, _, after = build_axioms(home, "v2", dump=str(SAMPLES))
    assert version is not None
    assert rows_of(after, "admit_posts") == {id: row for id, row in posts.items() if id not in (answer, question)}
    (entry,) = [entry for entry in after.done if entry.stage == "admit_posts"]
    assert entry.artifact.rejected() == {("filtered", "taken down"): 2}
    rejected = pq.read_table(after.store.rejected_path(entry.artifact.parts[0])).to_pylist()
    assert {row["key"]: row["raw"] for row in rejected} == {answer: None, question: None}
    orphans = {id for id, row in posts.items() if row["question_id"] == question and row["kind"] == "answer"} - {answer}
    threads = next(entry for entry in after.done if entry.stage == "join_threads").artifact
    left = [pq.read_table(after.store.rejected_path(part)).to_pylist() for part in threads.parts if part.rejected]
    without = [row for rows in left for row in rows if row["reason"] == "question taken down"]
    assert {row["key"] for row in without} == orphans
    assert {(row["kind"], row["raw"]) for row in without} == {("filtered", None)}


def test_the_old_name_of_a_site_and_todays_mean_the_same_record(tmp_path: Path) -> None:
    add(tmp_path, [(record_of("https://beer.stackexchange.com/a/12"), "2026-11-20", "asked")])
    assert taken_down(tmp_path, {"alcohol.stackexchange.com"}) == ["alcohol.stackexchange.com/12"]
    assert taken_down(tmp_path, {"beer.stackexchange.com"}) == ["beer.stackexchange.com/12"]
    assert taken_down(tmp_path, {"coffee.stackexchange.com"}) == []
    assert ids_with_former("coffee.stackexchange.com/1") == ["coffee.stackexchange.com/1"]


def test_ids_of_all_stages_are_those_of_the_schema() -> None:
    from longform.engine.stage import Stage
    from tasks.sources import admission

    stages = [value for value in vars(admission).values() if isinstance(value, Stage)]
    assert POSTS in [stage.schema for stage in stages]
    for stage in stages:
        assert stage.name.startswith("admit_")
        assert stage.schema.metadata[b"key"].decode() == stage.schema.names[0]


# ---------------------------------------------------------------- what a link means

LINKS = {
    "https://stackoverflow.com/questions/11/how-to": "stackoverflow.com/11",
    "https://stackoverflow.com/questions/11": "stackoverflow.com/11",
    "http://www.stackoverflow.com/questions/11/how-to?rq=1#tab-top": "stackoverflow.com/11",
    "https://stackoverflow.com/questions/11/how-to/12#12": "stackoverflow.com/12",
    "https://stackoverflow.com/questions/11/how-to/12": "stackoverflow.com/12",
    "https://stackoverflow.com/questions/11/how-to#12": "stackoverflow.com/12",
    "https://stackoverflow.com/questions/11/2048": "stackoverflow.com/11",
    "https://stackoverflow.com/questions/11/how-to#answer-12": "stackoverflow.com/12",
    "https://stackoverflow.com/q/11/99": "stackoverflow.com/11",
    "https://stackoverflow.com/a/12/99": "stackoverflow.com/12",
    "https://stackoverflow.com/posts/12/revisions": "stackoverflow.com/12",
    "https://beer.stackexchange.com/a/12": "alcohol.stackexchange.com/12",
    "https://meta.beer.stackexchange.com/q/12": "alcohol.meta.stackexchange.com/12",
    "https://meta.es.stackoverflow.com/q/12": "es.meta.stackoverflow.com/12",
    "mathoverflow.net/questions/11/how-to": "mathoverflow.net/11",
    "cooking.stackexchange.com/4711": "cooking.stackexchange.com/4711",
    "beer.stackexchange.com/4711": "alcohol.stackexchange.com/4711",
    "cooking.stackexchange.com/4711#3": "cooking.stackexchange.com/4711",
    "https://www.reddit.com/r/x/comments/1AbCd/some_title/": "reddit/t3_1abcd",
    "https://old.reddit.com/r/x/comments/1abcd/some_title/k9zzz/?context=3": "reddit/t1_k9zzz",
    "https://www.reddit.com/r/x/comments/1abcd/comment/k9zzz/": "reddit/t1_k9zzz",
    "https://reddit.com/comments/1abcd": "reddit/t3_1abcd",
    "https://redd.it/1abcd": "reddit/t3_1abcd",
    "t1_k9zzz": "reddit/t1_k9zzz",
    "reddit/t3_1abcd": "reddit/t3_1abcd",
    "https://openreview.net/forum?id=Ab-_9": "openreview/Ab-_9",
    "https://openreview.net/pdf?id=Ab-_9": "openreview/Ab-_9",
    "https://openreview.net/forum?id=Ab&noteId=Cd": "openreview/Cd",
    "https://api.semanticscholar.org/CorpusID:13756489": "s2/13756489",
    "https://notsemanticscholar.org/CorpusID:13756489": "web/notsemanticscholar.org/CorpusID:13756489",
    "CorpusID:13756489": "s2/13756489",
    "s2/13756489": "s2/13756489",
    "https://aclanthology.org/2020.acl-main.1/": "acl/2020.acl-main.1",
    "https://aclanthology.org/2020.acl-main.1v2.pdf": "acl/2020.acl-main.1",
    "https://www.aclweb.org/anthology/P18-1001.pdf": "acl/P18-1001",
    "file/0123456789abcdef": "file/0123456789abcdef",
    "msmarco/p12": "msmarco/p12",
    " https://redd.it/1abcd\n": "reddit/t3_1abcd",
    "T3_1ABCD": "reddit/t3_1abcd",
    "OpenReview:Ab-_9": "openreview/Ab-_9",
    "https://api2.openreview.net/pdf?id=Ab-_9": "openreview/Ab-_9",
    "S2/13756489": "s2/13756489",
    "FILE/0123456789ABCDEF": "file/0123456789abcdef",
    "https://cooking.stackexchange.com/a/4712.": "cooking.stackexchange.com/4712",
    "web/https://tea.example/steep/": "web/tea.example/steep",
    "p18-1001": "acl/P18-1001",
    "DOI: 10.5555/KITES.": "doi/10.5555/kites",
    "https://doi.org/10.5555/Kites/?utm=1": "doi/10.5555/kites",
    "https://doi.org/10.5555%2Fkites#sec2": "doi/10.5555/kites",
    "<http://dx.doi.org/10.5555/kites>": "doi/10.5555/kites",
    "10.1016/0022-2836(70)90057-4": "doi/10.1016/0022-2836(70)90057-4",
    "10.48550/arXiv.2101.00001v3": "arxiv/2101.00001",
    "2101.00001v2": "arxiv/2101.00001",
    "arXiv:2101.00001v2 [cs.CL]": "arxiv/2101.00001",
    "https://export.arxiv.org/pdf/2101.00001v2.pdf?x=1": "arxiv/2101.00001",
    "cs.CL/0101001": "arxiv/cs/0101001",
    "HEP-TH/9901001v1": "arxiv/hep-th/9901001",
    "author/E\u0301lodie  Durand": "author/\u00e9lodie durand",
    "wildchat/1234567": "wildchat/1234567",
}


@pytest.mark.parametrize("text", LINKS)
def test_a_link_is_turned_into_the_id_of_its_record(text: str) -> None:
    assert record_of(text) == LINKS[text]
    assert record_of(LINKS[text]) == LINKS[text]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "4711",
        "jo",
        "https://stackoverflow.com/users/12",
        "https://stackoverflow.com/questions/tagged/python",
        "https://stackoverflow.com/questions/11/how-to#comment5_12",
        "https://www.reddit.com/r/x/s/AbCdEf",
        "https://www.reddit.com/r/x/",
        "https://www.reddit.com/user/jo",
        "https://i.redd.it/abc.png",
        "https://www.semanticscholar.org/paper/Some-Title/0123456789012345678901234567890123456789",
        "https://openreview.net/group?id=ICLR.cc/2024",
        "https://aclanthology.org/venues/acl/",
        "reddit/1abcd",
        "s2/abc",
        "nowhere/12",
        "https://[",
        "ftp://stackoverflow.com/q/1",
        "cooking.stackexchange.com/0",
        "cooking.stackexchange.com/../4711",
    ],
)
def test_what_names_no_record_for_sure_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"names no record|names a comment|leads on"):
        record_of(text)


@pytest.mark.parametrize(
    ("address", "paper"),
    [
        ("https://dl.acm.org/doi/pdf/10.5555/Tea.2", "doi/10.5555/tea.2"),
        ("https://link.springer.com/article/10.1007/s11263-015-0816-y/figures/1", "doi/10.1007/s11263-015-0816-y"),
        (
            "https://papers.example/article?id=10.1371/journal.pone.0012345&type=printable",
            "doi/10.1371/journal.pone.0012345",
        ),
        ("https://doi.org/10.48550/arXiv.2101.00003", "arxiv/2101.00003"),
        ("http://www.arxiv.org/abs/cs.CL/0101001", "arxiv/cs/0101001"),
        ("https://doi.org/10.18653/v1/2020.acl-main.1", "acl/2020.acl-main.1"),
    ],
)
def test_the_address_of_a_page_names_the_paper_that_it_shows(address: str, paper: str) -> None:
    assert paper in ids_of_address(address)
    assert ids_of_address("https://tea.example/v/10.2/steep") == ["web/tea.example/v/10.2/steep"]


@given(text=st.text(max_size=40))
def test_any_text_is_an_id_or_a_clear_error(text: str) -> None:
    with suppress(UsageError):
        found = record_of(text)
        assert "/" in found
        assert record_of(found) == found
