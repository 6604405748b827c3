"""Taking down a question or a page: the next build leaves it out, and responses made from it are purged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from axioms_builds import Silent
from expertqa_toys import answer, question
from hypothesis import given
from hypothesis import strategies as st
from standin_server import Server, serve

from flows.builds.building import Options, build
from flows.cli.shared import takedown_effects as effects
from flows.expertqa import SAMPLES, ExpertqaConfig
from longform.addresses import page_of
from longform.artifacts.rows import Rejected
from longform.artifacts.store import Store
from longform.artifacts.takedowns import add, mentions
from longform.artifacts.versions import Version
from longform.engine.build import Build
from longform.engine.stage import Stage
from longform.engine.thread_tasks import SequentialStages
from longform.errors import LongformError, UsageError
from longform.llm.responses.store import open_responses
from longform.settings import responses
from tasks.expertqa.takedown import admit_commercial, admit_questions, question_of, responses_of
from tasks.publishing.publish import check_takedowns
from tasks.sources.permalinks import ids_of_address, record_of
from tasks.sources.web.web import Crawl

DAY = "2026-11-21"
LINES = 4


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SAMPLES / name).read_text().splitlines()]


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bank") / "questions.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines("questions.jsonl")[:LINES]))
    return path


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as server:
        yield server


def make(home: Path, bank: Path, server: Server, version: str) -> tuple[Version, Build]:
    mine = {"base_url": server.url, "model": "m", "capabilities": ["json_schema"]}
    config = ExpertqaConfig(
        questions=str(bank),
        corpus=str(SAMPLES / "corpus.jsonl"),
        pages=str(SAMPLES / "pages.jsonl"),
        commercial=str(SAMPLES / "bing_chat.jsonl"),
        autoais="model",
        model="mine",
        endpoints={"mine": mine},  # type: ignore[dict-item]
    )
    published, run = build("expertqa", config, Options(home, version), tasks=SequentialStages(), progress=Silent())
    assert published is not None
    return published.version, run


def rows_of(builder: Build, stage: str) -> list[dict[str, Any]]:
    (entry,) = [entry for entry in builder.done if entry.stage == stage]
    return [row for part in entry.artifact.parts for row in pq.read_table(builder.store.rows_path(part)).to_pylist()]


def requests(home: Path) -> dict[str, str]:
    with closing(open_responses(responses(home), read_only=True)) as store:
        return {key: record.request.decode() for key, record in store.scan()}


def take_down(home: Path, record: str) -> int:
    add(home, [(record_of(record), DAY, "asked")])
    return effects.purge_responses(home, [record_of(record)])


def words(version: Version) -> str:
    tables = [pq.read_table(path).to_pylist() for path in sorted(version.folder.rglob("*.parquet"))]
    return json.dumps(tables, default=str, ensure_ascii=False)


@pytest.mark.check
def test_a_question_leaves_the_build_and_its_responses_go(tmp_path: Path, bank: Path, server: Server) -> None:
    version, run = make(tmp_path, bank, server, "v1")
    gone = rows_of(run, "read_questions")[0]
    before = requests(tmp_path)
    expected_message = {key for key, text in before.items() if gone["question"] in text}
    purged = take_down(tmp_path, gone["question_id"])
    after = requests(tmp_path)
    assert (
        len(before) - len(after) == purged > len(expected_message) >= 4
    )  # its claims, which do not repeat the question, too
    assert not expected_message & after.keys()
    assert [holder.version for holder in effects.holders(tmp_path, [gone["question_id"]])] == ["v1"]
    asked = server.counters()["answered_bodies"]
    again, run = make(tmp_path, bank, server, "v2")
    assert server.counters()["answered_bodies"] == asked  # nothing of the other questions is bought again
    assert gone["question"] in words(version)
    assert gone["question"] not in words(again)
    assert {row["question_id"] for row in rows_of(run, "admit_questions")} == {
        row["question_id"] for row in rows_of(run, "read_questions")
    } - {gone["question_id"]}


@pytest.mark.check
def test_a_page_leaves_corpus_and_web_and_what_was_made_from_it_goes(
    tmp_path: Path, bank: Path, server: Server
) -> None:
    version, run = make(tmp_path, bank, server, "v1")
    url = max(
        (passage["url"] for row in rows_of(run, "find_for_questions") for passage in row["passages"]),
        key=words(version).count,
    )
    text = next(line["text"] for name in ("corpus.jsonl", "pages.jsonl") for line in lines(name) if line["url"] == url)
    before = requests(tmp_path)
    expected_message = {key for key, request in before.items() if json.dumps(text)[1:60] in request}
    assert expected_message
    assert [holder.version for holder in effects.holders(tmp_path, [record_of(url)])] == ["v1"]
    add(tmp_path, [(record_of(url), DAY, "asked")])
    with pytest.raises(LongformError, match="evidence_urls"):
        check_takedowns(tmp_path, "expertqa", version.folder)
    assert take_down(tmp_path, url.replace("https://", "http://www.") + "/#top") >= len(expected_message)
    assert not expected_message & requests(tmp_path).keys()
    again, run = make(tmp_path, bank, server, "v2")
    assert text[:60] in words(version)
    assert text[:60] not in words(again)
    for stage in ("admit_corpus", "admit_pages", "link_evidence"):
        assert url not in json.dumps(rows_of(run, stage), default=str), stage
    assert effects.holders(tmp_path, [record_of(url)])[0].version == "v1"
    assert not any(json.dumps(text)[1:60] in request for request in requests(tmp_path).values())


def test_what_no_row_names_is_found_by_the_words_of_a_page(tmp_path: Path, bank: Path, server: Server) -> None:
    _, run = make(tmp_path, bank, server, "v1")
    (found, *_), store = rows_of(run, "find_for_questions"), Store(tmp_path)
    passage = found["passages"][0]
    for stage in ("write_from_passages", "judge_facts", "estimate_attribution", "revise_answers"):
        for path in store.stage(stage).glob("parts/*/rows.parquet"):
            pq.write_table(pq.read_table(path).slice(0, 0), path)
    with closing(open_responses(responses(tmp_path), read_only=True)) as stored:
        made = responses_of(store, [record_of(passage["url"])], stored)
    held_by = {key for key, text in requests(tmp_path).items() if json.dumps(passage["text"])[1:-1] in text}
    assert held_by
    assert held_by <= made


# ---------------------------------------------------------------- stages


class Given:
    """Rows for a stage that no build made."""

    def __init__(self, schema: pa.Schema, rows: list[dict[str, Any]]) -> None:
        self.key = schema.metadata[b"key"].decode()
        self._table = pa.Table.from_pylist(rows, schema=schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._table.to_batches(2)


def admitted(work: Stage, rows: list[dict[str, Any]], *listed: str) -> tuple[list[str], list[str]]:
    """(keys of the rows that stay, keys of the rows left out)."""
    given = Given(work.schema, rows)
    found = list(work.body(None, given, takedowns=list(listed)))
    stays = [key for each in found if isinstance(each, pa.RecordBatch) for key in each.column(given.key).to_pylist()]
    return stays, [each.key for each in found if isinstance(each, Rejected) and each.raw is None]


def test_a_question_goes_with_all_its_copies_and_no_other() -> None:
    names = ["a" * 20, "a" * 20 + "#2", "a" * 20 + "#file2.3", "b" * 20]
    rows = [question(name) for name in names]
    ids = [f"expertqa/{name}" for name in names]
    assert admitted(admit_questions, rows, record_of(ids[2])) == (ids[3:], ids[:3])
    assert {question_of(name) for name in ids[:3]} == {record_of(name) for name in ids[:3]}


EVIDENCE = {
    "[1] https://tea.example/steep\n\nLeaves are left in hot water.": True,
    "[1]: http://www.tea.example/steep/ Leaves are left in hot water.": True,
    "[1] https://tea.example/steep": False,
    "https://tea.example/steep.": False,
    "[1] https://tea.example/steeper Leaves are left in hot water.": False,
    "Leaves are left in hot water, says https://tea.example/steep too.": False,
}


@pytest.mark.parametrize("said", EVIDENCE)
def test_an_imported_answer_goes_where_its_evidence_is_a_listed_page_and_its_words(said: str) -> None:
    claims = [{"claim_string": "Hot.", "evidence": [said], "support": None}]
    answers = json.dumps({"gpt4": {"answer_string": "Hot [1].", "attribution": [], "claims": claims}})
    gone = EVIDENCE[said]
    listed = record_of("https://tea.example/steep")
    rows = [question("x", answers=answers), question("y", answers="{}"), question("z")]
    stays, goes = admitted(admit_questions, rows, listed)
    assert ("expertqa/x" in goes, "expertqa/x" in stays) == (gone, not gone)
    assert stays[-2:] == ["expertqa/y", "expertqa/z"]
    imported = answer("x", "bing_chat", attribution=[said])
    assert admitted(admit_commercial, [imported], listed)[int(gone)] == [imported["answer_id"]]


def test_pages_of_a_web_search_that_are_listed_are_left_alone_and_without_any_nothing_is_another_recipe() -> None:
    crawl = Crawl(takedowns=("web/tea.example/steep", "cooking.stackexchange.com/4711"))
    gone = ["http://tea.example/steep/", "https://www.tea.example/steep#x", "https://cooking.stackexchange.com/q/4711"]
    assert [crawl.leaves(url) for url in [*gone, "https://tea.example/", None]] == [True, True, True, False, False]
    assert Crawl().identity() == {"private_hosts": False, "robots": True}
    assert crawl.identity() != Crawl().identity()
    assert not Crawl().leaves(gone[0])


# ---------------------------------------------------------------- names of pages


def test_one_page_has_one_name_however_its_address_is_written() -> None:
    spellings = [
        "https://tea.example/steep?x=1",
        "http://www.tea.example:80/steep/?utm_source=a&x=1#top",
        " HTTPS://Tea.Example/steep?x=1 ",
        "web/tea.example/steep?x=1",
    ]
    assert {record_of(text) for text in spellings} == {"web/tea.example/steep?x=1"}
    assert ids_of_address("https://cooking.stackexchange.com/a/4712") == [
        "web/cooking.stackexchange.com/a/4712",
        "cooking.stackexchange.com/4712",
    ]
    assert record_of("web/stackoverflow.com/users/12") == "web/stackoverflow.com/users/12"
    for other in (
        "https://stackoverflow.com/users/12",
        "https://old.reddit.com/r/x/",
        "web/",
        "web/a b",
        "tea.example",
    ):
        with pytest.raises(UsageError, match="names no record"):
            record_of(other)


@given(st.text(max_size=30), st.sampled_from(["https://", "http://www.", "http://a.example/", "https://a.example:443"]))
def test_a_name_names_itself(rest: str, start: str) -> None:
    if name := page_of(start + rest):
        assert page_of(f"https://{name.removeprefix('web/')}") == name
        assert "web/" + name.removeprefix("web/") == name


def test_texts_are_held_under_their_address_and_mere_addresses_are_not(tmp_path: Path) -> None:
    rows = [
        {
            "x_id": "a",
            "said": ["Hot water.", "https://b.example/"],
            "said_urls": ["https://a.example/", "https://b.example/"],
        },
        {"x_id": "b", "said": [], "said_urls": []},
        {"x_id": "c", "said": ["Cold."], "said_urls": [""]},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    found = mentions([tmp_path / "a.parquet"], ["web/a.example", "web/b.example"])
    assert [(each.id, each.column) for each in found] == [("web/a.example", "said_urls")]
