"""Builds whose margins come from a critic that is of no use: what stops them, and what is left out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from axioms_builds import build_axioms
from endpoint_server import Server, Verdict, says, server
from offline_rules import respond

from flows.builds.building import gate_lines
from flows.cli.shared import takedown_effects as effects
from flows.inspection.describe import rejected_rows
from longform.artifacts.store import Store
from longform.artifacts.takedowns import add
from longform.artifacts.versions import Version
from longform.errors import GateError
from longform.llm.ask.fence import unfenced
from longform.llm.ask.types import Request
from longform.llm.responses.store import open_responses
from longform.settings import responses
from tasks.axioms.judging.critic import NOT_CRITICISED

pytestmark = pytest.mark.check

__all__ = ["server"]

TASK = "axioms/judge_listwise"
OTHERS: dict[str, Any] = {"eli5": [], "msmarco": [], "webgpt": [], "research_questions": []}
Critic = Callable[[dict[str, Any], list[str]], dict[str, Any]]  # (a good reply, the answers) -> a bad one


def critic(server: Server, change: Critic, only: Callable[[str], bool] = lambda question: True) -> None:
    """Let the server answer the critic's prompt by a changed reply; where `only` holds of the question."""

    def fails(body: dict[str, Any]) -> Verdict | None:
        messages = tuple((message["role"], message["content"]) for message in body["messages"])
        shown = unfenced(messages[1][1])
        if server.tasks.get(messages[0][1].strip()) != TASK or not only(dict(shown)["Question"]):
            return None
        good = json.loads(respond(Request(messages[:2], task=TASK, max_tokens=8_000))[0].partition("\n=====")[0])
        answers = [text for label, text in shown if label.startswith("Candidate ")]
        return says(f"{json.dumps(change(good, answers))}\n=====")(body)

    server.fails = fails


def scored(score: Callable[[int, int], int]) -> Critic:
    """The scores by number of the candidate, from 1, and number of candidates."""

    def change(good: dict[str, Any], answers: list[str]) -> dict[str, Any]:
        numbers = range(1, len(answers) + 1)
        of = [{"candidate_number": number, "candidate_score": score(number, len(answers))} for number in numbers]
        return {**good, "scores": of}

    return change


def build(home: Path, server: Server, **settings: Any) -> Version:
    endpoint = {"base_url": f"http://127.0.0.1:{server.server_address[1]}/v1", "model": "m", "concurrency": 8}
    settings = {"endpoints": {"judge": endpoint}, "stages": {"criticise_answers": {"model": "judge"}}} | settings
    version, _, _ = build_axioms(home, margins="critic", **OTHERS | settings)
    assert version is not None
    return version


def rows(version: Version, config: str) -> list[dict[str, Any]]:
    return [row for path in version.tables()[config] for row in pq.read_table(path).to_pylist()]


USELESS = {
    "the same score": (scored(lambda number, of: 70), "critic_same_scores", 1.0),
    "the same score but to one": (scored(lambda number, of: 70 + 5 * (number == 3)), "critic_same_scores", 0.9),
    "the first is best": (scored(lambda number, of: 90 if number == 1 else 30 + 3 * number), "critic_order", 0.1),
    "the last is best": (scored(lambda number, of: 5 * number), "critic_order", 0.1),
}


@pytest.mark.parametrize("kind", USELESS)
def test_a_critic_whose_scores_say_nothing_stops_the_version(kind: str, tmp_path: Path, server: Server) -> None:
    change, audit, share = USELESS[kind]
    critic(server, change)
    with pytest.raises(GateError, match=rf"{audit}: .*--accept {audit}") as caught:
        build(tmp_path, server)
    assert caught.value.exit_code == 7
    assert not list((tmp_path / "datasets").glob("axioms/*/manifest.json"))
    sent = server.bodies.total()
    version = build(tmp_path, server, accept=[audit])
    assert server.bodies.total() == sent
    (gate,) = (gate for gate in version.manifest["gates"] if gate["gate"] == audit)
    assert gate["accepted"]
    assert gate["share"] == pytest.approx(share, abs=0.11)
    assert any(audit in line for line in gate_lines(tmp_path, version))
    tables = json.loads((version.folder / "tables.json").read_text())
    ((habits,),) = (each["rows"] for each in tables if each["title"] == "The critic")
    first = {"the first is best": 100, "the last is best": 0, "the same score but to one": 0}.get(kind)
    assert habits["best is shown first, %"] == first
    assert (habits["ties, %"] == 100) == (kind == "the same score")


def echoed(good: dict[str, Any], answers: list[str]) -> dict[str, Any]:
    for each, answer in zip(good["critiques"], answers, strict=True):
        each |= {"strengths": [answer], "weaknesses": [], "missing_information": []}
    return {**good, "explanation": answers[0]}


def without_last(good: dict[str, Any], answers: list[str]) -> dict[str, Any]:
    return {**good, "scores": good["scores"][:-1]}


def uncritical(good: dict[str, Any], answers: list[str]) -> dict[str, Any]:
    empty = {"strengths": [], "weaknesses": [], "missing_information": []}
    return {**good, "critiques": [each | empty for each in good["critiques"]]}


def percent(good: dict[str, Any], answers: list[str]) -> dict[str, Any]:
    return {**good, "scores": [each | {"candidate_score": 0.7} for each in good["scores"]]}


def parrot(good: dict[str, Any], answers: list[str]) -> dict[str, Any]:
    return {**good, "explanation": "The first candidate is better than all the others by far, as it is more helpful."}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (echoed, "the same words over and over, or the prompt"),
        (without_last, "cannot be read"),
        (uncritical, "cannot be read"),
        (percent, "cannot be read"),
        (parrot, "replies repeat that to another question"),
    ],
)
def test_a_critic_that_does_not_criticise_is_stopped_after_its_pilot(
    change: Critic, said: str, tmp_path: Path, server: Server
) -> None:
    critic(server, change)
    with pytest.raises(GateError, match=rf"criticise_answers: \d+ of its first 2\d .*{said}"):
        build(tmp_path, server)
    assert not (tmp_path / "datasets").exists()


def test_pairs_of_a_question_without_a_usable_critique_have_no_margin(tmp_path: Path, server: Server) -> None:
    critic(server, without_last, only=lambda question: sha256(question.encode()).digest()[0] < 30)
    version = build(tmp_path, server, ceilings={"unreadable": 0.5})
    reasons = Counter(row["reason"] for row in rejected_rows(Store(tmp_path), version, "criticise_answers"))
    assert 0 < reasons["model: invalid"] < 15  # one for each question
    assert reasons[NOT_CRITICISED] > reasons["model: invalid"]
    criticised = {row["question_id"] for row in rows(version, "critiques")}
    pairs = rows(version, "pairs")
    failed = {row["question_id"] for row in pairs if row["split"] != "overlap"} - criticised
    assert len(failed) == reasons["model: invalid"]
    for pair in pairs:
        if pair["question_id"] in failed:
            assert (pair["preferred_score"], pair["critic_margin"]) == (None, None)


def test_a_takedown_purges_what_the_critic_said_where_the_post_was_shown(tmp_path: Path, server: Server) -> None:
    version = build(tmp_path, server)
    shown = [row for row in rows(version, "critiques") if row["answer_id"].startswith("community.example/")]
    post = min(row["answer_id"] for row in shown)
    behind = {row["response"] for row in rows(version, "critiques") if post in row["parent_ids"]}
    assert {row["response"] for row in shown if row["answer_id"] == post} <= behind
    others = {row["response"] for row in rows(version, "critiques")} - behind
    add(tmp_path, [(post, "2026-11-24", "asked")])
    effects.purge_responses(tmp_path, [post])
    with closing(open_responses(responses(tmp_path), read_only=True)) as stored:
        assert not stored.get(sorted(behind))
        assert stored.get(sorted(others)).keys() == others
