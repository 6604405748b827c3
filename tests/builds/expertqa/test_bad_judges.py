"""Builds of ExpertQA with judges that decline, answer in German, wrap what they say, or always say the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from bad_models import BAD, GERMAN, REFUSALS, drawn, material, said
from endpoint_server import Server, Verdict, server
from model_builds import built, config_of
from offline_rules import respond

from flows.builds.building import gate_lines
from longform.artifacts.versions import Version
from longform.errors import GateError
from longform.llm.ask.types import Request

pytestmark = pytest.mark.check

__all__ = ["server"]

STAGES = {"entails": "estimate_attribution", "break_claim": "break_claims", "judge_fact": "judge_facts"}
Reply = Callable[[str, str], str]  # (good reply, prompt) -> reply


def replying(server: Server, task: str, reply: Reply, share: float = 1.0) -> None:
    """This share of the replies to one prompt are of another kind."""

    def fails(body: dict[str, Any]) -> Verdict | None:
        messages = tuple((message["role"], message["content"]) for message in body["messages"][:2])  # without repairs
        prompt = messages[1][1]
        if server.tasks.get(messages[0][1].strip(), "") != f"expertqa/{task}" or not drawn(prompt, share):
            return None
        good = respond(Request(messages, task=f"expertqa/{task}"))[0].partition("\n=====")[0]
        return said(f"{reply(good, prompt)}\n=====")

    server.fails = fails


def build(server: Server, home: Path, **options: Any) -> Version:
    return built(
        "expertqa", config_of(server, "expertqa", autoais="model", factscore="model", limit=8), home, **options
    )


def refused(server: Server, home: Path) -> str:
    """The sentence by which the build ends with exit code 7; nothing is published."""
    with pytest.raises(GateError) as caught:
        build(server, home)
    assert caught.value.exit_code == 7
    assert "\n" not in str(caught.value)
    assert not any((home / "datasets").rglob("*.parquet"))
    return str(caught.value)


def claims(version: Version) -> list[dict[str, Any]]:
    return [row for path in version.files("claims", "full") for row in pq.read_table(path).to_pylist()]


def constant(verdict: str) -> Reply:
    return lambda good, prompt: f"<verdict>{verdict}</verdict>"


def test_judges_that_judge_are_found_nowhere(tmp_path: Path, server: Server) -> None:
    version = build(server, tmp_path)
    assert not [gate for gate in version.manifest["gates"] if gate["found"]]
    names = {gate["gate"] for gate in version.manifest["gates"]}
    assert names >= {*STAGES.values(), "entailment_constant", "facts_constant"}


@pytest.mark.parametrize("share", [1.0, 0.3])
@pytest.mark.parametrize("task", STAGES)
def test_a_judge_that_declines_is_stopped(task: str, share: float, tmp_path: Path, server: Server) -> None:
    replying(server, task, lambda good, prompt: REFUSALS["refusal-en"], share)
    sentence = refused(server, tmp_path)
    assert sentence.startswith(f"{STAGES[task]}: ")
    assert "replies decline" in sentence or "replies cannot be read" in sentence


@pytest.mark.parametrize("task", STAGES)
def test_a_judge_that_answers_in_german_is_stopped(task: str, tmp_path: Path, server: Server) -> None:
    german = f"<atomic_claim>{GERMAN}</atomic_claim>" if task == "break_claim" else "<verdict>gestützt</verdict>"
    replying(server, task, lambda good, prompt: german)
    sentence = refused(server, tmp_path)
    assert sentence.startswith(f"{STAGES[task]}: ")
    assert "replies cannot be read" in sentence or "replies repeat" in sentence


@pytest.mark.parametrize("kind", ["fence", "fence-markdown", "preamble"])
@pytest.mark.parametrize("task", STAGES)
def test_what_a_judge_wraps_its_reply_in_is_taken_off(task: str, kind: str, tmp_path: Path, server: Server) -> None:
    plain = claims(build(server, tmp_path / "plain"))
    replying(server, task, BAD[kind])
    wrapped = claims(build(server, tmp_path / "wrapped"))
    names = ("claim_id", "autoais", "atomic_claims", "atomic_judgements")
    assert [[row[name] for name in names] for row in wrapped] == [[row[name] for name in names] for row in plain]


@pytest.mark.parametrize("wrap", [lambda text: f"```\n{text}\n```", lambda text: json.dumps({"answer": text})])
def test_atomic_claims_that_are_wrapped_one_by_one_are_stopped(
    wrap: Callable[[str], str], tmp_path: Path, server: Server
) -> None:
    replying(server, "break_claim", lambda good, prompt: f"<atomic_claim>{wrap(material(prompt))}</atomic_claim>")
    assert refused(server, tmp_path).startswith("break_claims: ")


@pytest.mark.parametrize("verdict", ["supported", "not supported"])
def test_a_judge_of_entailment_that_always_says_the_same_is_not_published(
    verdict: str, tmp_path: Path, server: Server
) -> None:
    replying(server, "entails", constant(verdict))
    sentence = refused(server, tmp_path)
    assert sentence.startswith("expertqa was not published: entailment_constant: ")
    version = build(server, tmp_path, accept=["entailment_constant"])
    card = (version.folder / "README.md").read_text()
    assert "entailment_constant: " in card
    assert any("entailment_constant: " in line and "accepted" in line for line in gate_lines(tmp_path, version))
    findings = pq.read_table(version.folder / "audit.parquet").to_pylist()
    assert {row["what"].split(",")[0] for row in findings} == {verdict}


@pytest.mark.parametrize("verdict", ["true", "false"])
def test_a_judge_of_facts_that_always_says_the_same_is_not_published(
    verdict: str, tmp_path: Path, server: Server
) -> None:
    replying(server, "judge_fact", constant(verdict))
    assert refused(server, tmp_path).startswith("expertqa was not published: facts_constant: ")


def test_a_model_that_breaks_no_claim_is_stopped(tmp_path: Path, server: Server) -> None:
    bank = tmp_path / "joined.jsonl"
    texts = [
        f"Kegs of {word} beer are kept cold in the cellar, and casks of {word} ale are kept warm outside."
        for word in "abcdefgh"
    ]
    answer = {"attribution": [], "claims": [{"claim_string": text, "evidence": []} for text in texts]}
    answers = {"gpt4": {"answer_string": " ".join(texts), **answer}}
    bank.write_text(json.dumps({"question": "How is beer kept?", "answers": answers}) + "\n")
    replying(server, "break_claim", lambda good, prompt: f"<atomic_claim>{material(prompt)}</atomic_claim>")
    settings = config_of(
        server, "expertqa", questions=str(bank), systems=[], factscore="model", revise_with_model=False
    )
    with pytest.raises(GateError) as caught:
        built("expertqa", settings, tmp_path / "home")
    sentence = str(caught.value)
    assert sentence.startswith("break_claims: ")
    assert "as it was" in sentence


@pytest.mark.parametrize("text", ["", "I broke the sentence into parts."])
def test_a_model_whose_atomic_claims_are_none_is_stopped(text: str, tmp_path: Path, server: Server) -> None:
    replying(server, "break_claim", lambda good, prompt: f"<atomic_claim>{text}</atomic_claim>")
    assert refused(server, tmp_path).startswith("break_claims: ")
