"""Builds against a model that is of no use, wholly or now and then: what is stopped, published and said."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from axioms_builds import build_axioms, found_of_replies
from endpoint_server import Server, server
from standin_server import serve

from benchmarks.make_dump import write_dump
from flows.axioms import AxiomsConfig
from flows.builds.building import Options, gate_lines
from flows.cli.shared.verification import check
from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from longform.engine.thread_tasks import Threads
from longform.errors import GateError, UsageError

pytestmark = pytest.mark.check

__all__ = ["server"]

DECLINES = "I'm sorry, but I can't help with that request."
Verdict = tuple[int, dict[str, str], bytes]


def completion(text: str, finish: str = "stop", **message: Any) -> Verdict:
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    return 200, {}, json.dumps({"model": "m", "choices": [choice], "usage": usage}).encode()


def refused(code: str) -> Verdict:
    return 400, {}, json.dumps({"error": {"message": "This is too much for me.", "code": code}}).encode()


BAD = {
    "refusal": (completion("", refusal=DECLINES), "replies decline", DECLINES),
    "filter": (completion("", "content_filter"), "replies decline", "held back by a filter"),
    "filter-400": (refused("content_filter"), "replies decline", "too much for me"),
    "empty": (completion(""), "replies cannot be read", ""),
    "cut-off": (completion("It begins with the", "length"), "replies are cut off", "It begins with the"),
    "unfinished": (completion("It begins with the"), "replies are cut off", "It begins with the"),
    "too-long": (refused("context_length_exceeded"), "questions are not taken", "too much for me"),
}


def build(home: Path, server: Server, price: dict[str, float] | None = None, **settings: Any) -> Version:
    address = f"http://127.0.0.1:{server.server_address[1]}/v1"
    endpoint = {"base_url": address, "model": "m", "concurrency": 8} | ({"price": price} if price else {})
    version, _, _ = build_axioms(home, model="mine", endpoints={"mine": endpoint}, **settings)
    assert version is not None
    return version


def questions(server: Server) -> set[tuple[str, str]]:
    """(task, question) of what was asked, in one attempt or more."""
    bodies = [json.loads(raw) for raw in server.bodies]
    return {(task_of(server, body), body["messages"][1]["content"]) for body in bodies}


def task_of(server: Server, body: dict[str, Any]) -> str:
    return server.tasks[body["messages"][0]["content"].strip()]


def by_hash(body: dict[str, Any], share: float) -> bool:
    digest = hashlib.sha256(body["messages"][-1]["content"].encode()).digest()
    return digest[0] < 256 * share


@pytest.mark.parametrize("kind", BAD)
def test_a_model_that_is_of_no_use_stops_the_build_after_its_pilot(kind: str, tmp_path: Path, server: Server) -> None:
    verdict, said, example = BAD[kind]
    server.fails = lambda body: verdict
    with pytest.raises(GateError) as caught:
        build(tmp_path, server)
    sentence = str(caught.value)
    assert caught.value.exit_code == 7
    assert re.match(rf"\w+: 2\d of its first 2\d {said}.* \(ceiling 10 %\)", sentence), sentence
    assert example in sentence
    assert "\n" not in sentence
    stage = sentence.split(":")[0]
    assert f"--accept {stage}" in sentence
    assert max(Counter(task for task, _ in questions(server)).values()) <= 30
    assert not (tmp_path / "datasets").exists()
    (record,) = (tmp_path / "runs" / "axioms").glob("*.json")
    assert json.loads(record.read_text())["outcome"] == sentence
    before = server.bodies.total()
    with pytest.raises(GateError):
        build(tmp_path, server)
    assert server.bodies.total() - before <= 8  # what was asked is stored; what was in flight is not


def test_all_stages_that_gates_refuse_are_named_at_once_and_what_was_spent(tmp_path: Path, server: Server) -> None:
    server.fails = lambda body: BAD["refusal"][0]
    with pytest.raises(GateError) as caught:
        build(tmp_path, server, tasks=Threads())
    sentence = str(caught.value)
    assert "Nothing was published." in sentence  # the price is unknown
    stages = re.findall(r"--accept (\w+)", sentence)
    begun = {"answer_closed_book", "combine_answers"}  # side by side; answer_open_book may wait for its passages still
    assert begun <= set(stages) <= begun | {"answer_open_book"}
    assert all(re.search(rf"{stage}: 2\d of its first 2\d replies decline", sentence) for stage in stages)
    price = {"input": 2.5, "output": 10.0}
    with pytest.raises(GateError, match=r"USD \d\.\d\d was spent, nothing was published\.$"):
        build(tmp_path / "priced", server, price=price)


def test_the_examples_of_a_gate_name_posts_that_exist_with_their_links(tmp_path: Path, server: Server) -> None:
    server.fails = lambda body: BAD["refusal"][0]
    with pytest.raises(GateError) as caught:
        build(tmp_path, server)
    assert_rows_named(str(caught.value), tmp_path)


def test_the_examples_of_a_stage_that_asks_about_answers_link_to_their_questions(
    tmp_path: Path, server: Server
) -> None:
    server.fails = lambda body: BAD["refusal"][0] if task_of(server, body) == "axioms/corrupt" else None
    with pytest.raises(GateError, match=r"corrupt_answers: .*\(a_\w+, https://") as caught:
        build(tmp_path, server)
    assert_rows_named(str(caught.value), tmp_path)


def assert_rows_named(sentence: str, home: Path) -> None:
    """Assert that the sentence has examples of three rows, each with the link of a question that was read."""
    named = re.findall(r"([\w./-]+), https://([\w.]+)/q/(\d+)(?=[;)])", sentence)
    questions = {
        row["question_id"]
        for path in home.glob("stages/join_threads/parts/*/rows.parquet")
        for row in pq.read_table(path, columns=["question_id"]).to_pylist()
    }
    assert len(set(named)) == 3, sentence
    assert {f"{site}/{number}" for _, site, number in named} <= questions
    assert all(key.startswith("a_") or key == f"{site}/{number}" for key, site, number in named)


def test_equal_replies_of_a_small_stage_are_one_example(tmp_path: Path, server: Server) -> None:
    server.fails = lambda body: BAD["refusal"][0]
    with pytest.raises(GateError) as caught:
        build(tmp_path, server, limit=6)
    assert str(caught.value).count(DECLINES) == 1


def test_a_model_that_fails_now_and_then_is_published_and_the_card_says_how_often(
    tmp_path: Path, server: Server
) -> None:
    server.fails = lambda body: BAD["refusal"][0] if by_hash(body, 0.05) else None
    version = build(tmp_path, server)
    found = found_of_replies(version)
    assert found
    assert all(0 < gate["share"] <= 0.1 and not gate["accepted"] and gate["of"] == "stage" for gate in found)
    card = (version.folder / "README.md").read_text()
    for gate in found:
        assert f"{gate['gate']}: {gate['found']} of {gate['checked']} replies decline" in card
    assert pq.read_table(version.folder / "audit.parquet").num_rows == 0
    assert list(check(Store(tmp_path), version)) == []


def test_an_accepted_stage_is_published_and_everything_says_so(tmp_path: Path, server: Server) -> None:
    server.fails = lambda body: BAD["refusal"][0] if task_of(server, body) == "axioms/combine" else None
    with pytest.raises(GateError, match="--accept combine_answers"):
        build(tmp_path, server)
    version = build(tmp_path, server, accept=["combine_answers"])
    (gate,) = [gate for gate in version.manifest["gates"] if gate["found"] and gate["of"] == "stage"]
    assert (gate["gate"], gate["share"], gate["accepted"]) == ("combine_answers", 1.0, True)
    sentence = f"combine_answers: {gate['found']} of {gate['checked']} replies decline (100 %), accepted"
    assert sentence in (version.folder / "README.md").read_text()
    lines = gate_lines(tmp_path, version)
    assert sentence in lines
    assert any(re.fullmatch(r"combine_answers: accepted by \w+, \d{4}-\d\d-\d\d \d\d:\d\d UTC", line) for line in lines)
    (missing,) = pq.read_table(version.folder / "audit.parquet").to_pylist()
    assert (missing["audit"], missing["config"]) == ("missing_kinds", "combine_answers")
    assert list(check(Store(tmp_path), version)) == []
    asked = server.bodies.total()
    assert build(tmp_path, server).name == version.name  # it is there: nothing is refused any more
    assert server.bodies.total() == asked


def test_a_kind_of_row_that_is_missing_is_refused_also_where_ceilings_are_high(tmp_path: Path, server: Server) -> None:
    server.fails = lambda body: BAD["refusal"][0] if task_of(server, body) == "axioms/combine" else None
    settings = {"stages": {"combine_answers": {"ceilings": {"refused": 1.0}}}, "msmarco": []}
    with pytest.raises(GateError, match=r"missing_kinds: 1 of 4 stages made no row.*combine_answers"):
        build(tmp_path, server, **settings)
    assert not list((tmp_path / "datasets" / "axioms").glob("*"))
    version = build(tmp_path, server, accept=["missing_kinds"], **settings)
    assert "missing_kinds: 1 of 4 stages" in (version.folder / "README.md").read_text()


def test_equal_recipes_names_and_acceptances_give_equal_cards(tmp_path: Path, server: Server) -> None:
    server.fails = lambda body: BAD["refusal"][0] if task_of(server, body) == "axioms/combine" else None
    one, two = (build(tmp_path / name, server, accept=["combine_answers"]) for name in "ab")
    for name in ("README.md", "croissant.json", "audit.parquet"):
        assert (one.folder / name).read_bytes() == (two.folder / name).read_bytes()


@pytest.mark.parametrize("mode", ["online", "batch"])
def test_of_many_questions_only_a_pilot_is_asked(mode: str, tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "tea.stackexchange.com" / "Posts.xml", 600_000, seed=7).path
    with serve(faults={"refusal": 1.0}, batch_seconds=0.0) as model:
        endpoint = {"base_url": model.url, "model": "m", "capabilities": ["json_schema", "batch"], "concurrency": 16}
        home, settings = (
            tmp_path / "home",
            {"dump": dump, "model": "mine", "mode": mode, "endpoints": {"mine": endpoint}},
        )
        with pytest.raises(GateError, match=r"2\d of its first 2\d replies decline") as caught:
            build_axioms(home, until="answer_closed_book", **settings)
        assert_rows_named(str(caught.value), home)
        answered = sum(model.counters()["outcomes"].values())
        model.set_faults({})
        version, progress, _ = build_axioms(home, retry_errors=True, **settings)
    assert version is not None
    assert found_of_replies(version) == []
    assert answered <= 2 * 30  # two stages may be at it
    assert next(run.artifact.rows for run in progress.ended if run.stage == "answer_closed_book") > 90


def test_a_gate_that_nobody_knows_is_an_error_with_a_hint(tmp_path: Path, server: Server) -> None:
    with pytest.raises(UsageError, match=r'no gate "combine_answer".*did you mean "combine_answers"'):
        build(tmp_path, server, accept=["combine_answer"])
    assert not server.bodies
    assert Options(tmp_path).accept is None
    assert AxiomsConfig().ceilings.refused == 0.1
