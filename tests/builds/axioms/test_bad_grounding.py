"""Axiom 4 with a model that writes what is no answer, and with takedowns of queries and passages."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from axioms_builds import build_axioms
from bad_models import BAD, replies, said, subject
from endpoint_server import Server, Verdict, server

from flows.cli.shared import takedown_effects as effects
from longform.artifacts.store import Store
from longform.artifacts.takedowns import add, mentions
from longform.artifacts.versions import Version, artifact
from longform.engine.build import Build
from longform.errors import GateError
from longform.llm.responses.store import open_responses
from longform.settings import responses

pytestmark = pytest.mark.check

__all__ = ["server"]

STAGES = {"axioms/open_book": "answer_from_relevant", "axioms/irrelevant_book": "answer_from_irrelevant"}


def build(home: Path, server: Server, *stages: str, version: str = "v1") -> tuple[Version, Build]:
    """Axiom 4's part of the samples, these stages asked of the server."""
    endpoint = {"base_url": f"http://127.0.0.1:{server.server_address[1]}/v1", "model": "m", "concurrency": 4}
    settings: dict[str, Any] = {
        "endpoints": {"mine": endpoint},
        "stages": {stage: {"model": "mine"} for stage in stages},
    }
    published, _, made = build_axioms(home, version, eli5=[], webgpt=[], limit=2, **settings)
    assert published is not None
    return published, made


@pytest.mark.parametrize("kind", ["refusal-en", "refusal-de", "language", "same", "source", "echo-question", "json"])
@pytest.mark.parametrize("prompt", STAGES)
def test_a_bad_model_is_stopped(prompt: str, kind: str, tmp_path: Path, server: Server) -> None:
    server.fails = replies(server, BAD[kind], tasks=[prompt])
    with pytest.raises(GateError) as caught:
        build(tmp_path, server, STAGES[prompt])
    assert caught.value.exit_code == 7
    assert not any((tmp_path / "datasets").rglob("*.parquet"))


def test_an_answer_of_both_sides_stands_on_one(tmp_path: Path, server: Server) -> None:
    train, test = "how tight should a bicycle chain be", "how much coffee for one cup"
    prompts = {"axioms/open_book": train, "axioms/irrelevant_book": test}
    text = "It depends on how much of it there is, and a little less is most often enough for a start (Passage 1)."

    def fails(body: dict[str, Any]) -> Verdict | None:
        system, user = (message["content"] for message in body["messages"][:2])
        asked = prompts.get(server.tasks[system.strip()])
        return said(f"{text}\n=====") if asked and subject(user) == asked else None

    server.fails = fails
    version, made = build(tmp_path, server, *STAGES.values())
    rows = {call.name: call.rows for call in made.calls}
    assert sum(row["text"] == text for name in STAGES.values() for row in rows[name]) == 2
    assert rows["find_grounded_copies"].count == 1
    texts: dict[str, set[str]] = {"train": set(), "test": set()}
    for row in rows["assemble_pairs"]:
        texts[row["split"]].update((row["preferred"], row["rejected"]))
    assert not texts["train"] & texts["test"]
    assert text in texts["train"] | texts["test"]
    gone = artifact(Store(tmp_path), version, "assemble_pairs").reasons("filtered")
    assert gone["a text of it stands on the other side"] in (1, 3)  # of F, or of D


def test_a_query_and_a_passage_are_taken_down(tmp_path: Path, server: Server) -> None:
    version, made = build(tmp_path, server, *STAGES.values())
    asked = list(next(call.rows for call in made.calls if call.name == "choose_passages"))
    query = asked[0]["question_id"]
    passage = next(
        each["passage_id"]
        for row in asked[1:]
        for each in (*row["relevant"], *row["irrelevant"])
        if each["passage_id"] not in {p["passage_id"] for p in (*asked[0]["relevant"], *asked[0]["irrelevant"])}
    )
    readers = {
        row["question_id"]
        for row in asked
        if passage in {each["passage_id"] for each in (*row["relevant"], *row["irrelevant"])}
    }
    answers = {
        row["response"]: row["question_id"]
        for stage in STAGES.values()
        for row in next(call.rows for call in made.calls if call.name == stage)
    }
    add(tmp_path, [(query, "2026-11-20", "asked"), (passage, "2026-11-20", "asked")])
    effects.purge_responses(tmp_path, [query, passage])
    with closing(open_responses(responses(tmp_path), read_only=True)) as stored:
        left = set(stored.get(list(answers)))
    assert left == {key for key, question in answers.items() if question not in {query, *readers}}
    again, _ = build(tmp_path, server, *STAGES.values(), version="v2")
    assert not mentions(sorted(again.folder.rglob("*.parquet")), [query, passage])
    assert mentions(sorted(version.folder.rglob("*.parquet")), [query, passage])
    for stage in ("admit_passages", "admit_queries"):
        assert artifact(Store(tmp_path), again, stage).reasons("filtered") == {"taken down": 1}
