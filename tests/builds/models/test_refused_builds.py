"""Builds whose model declines everything: nothing of that is published, and nothing is asked twice."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from axioms_builds import Silent, build_axioms
from endpoint_server import Server, says, server

from flows.axioms import AxiomsConfig
from flows.builds.building import Options, build
from flows.config.endpoints import EndpointConfig, StageConfig
from flows.expertqa import SAMPLES, ExpertqaConfig
from flows.revision_distance import RevisionDistanceConfig
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, artifact
from longform.engine.thread_tasks import SequentialStages

pytestmark = pytest.mark.check

__all__ = ["server"]

REFUSAL = "I'm sorry, but I can't help with that."
ABROAD = "Lo siento, pero no puedo ayudarte con eso."
REFUSED = ("defect", "model: refusal")


def endpoint(server: Server) -> dict[str, Any]:
    return {"base_url": f"http://127.0.0.1:{server.server_address[1]}/v1", "model": "m"}


def axioms(home: Path, server: Server, version: str) -> Version:
    accept = [*AxiomsConfig.MODEL_STAGES, "missing_kinds"]
    made, _, _ = build_axioms(home, version, model="mine", endpoints={"mine": endpoint(server)}, accept=accept)
    assert made is not None
    return made


def published(version: Version) -> str:
    return json.dumps([pq.read_table(path).to_pylist() for path in version.folder.rglob("*.parquet")], default=str)


def test_stored_refusals_are_rejected_rows_of_a_rebuild_that_sends_nothing(tmp_path: Path, server: Server) -> None:
    server.fails = says(REFUSAL)
    first = axioms(tmp_path, server, "v1")
    asked = sum(server.bodies.values())
    assert asked >= 33
    shutil.rmtree(tmp_path / "stages")
    shutil.rmtree(first.folder)
    second = axioms(tmp_path, server, "v2")
    assert sum(server.bodies.values()) == asked
    assert REFUSAL not in published(second)
    rejected = artifact(Store(tmp_path), second, "answer_closed_book").rejected()
    assert rejected == {REFUSED: 33}


def test_a_corrupted_answer_that_declines_is_no_pair(tmp_path: Path, server: Server) -> None:
    declined = f"<claim>It is.</claim><corrupted_claim>It is not.</corrupted_claim><corrupted_answer>{REFUSAL}"
    reply = says(f"{declined}</corrupted_answer>\n=====")
    server.fails = lambda body: reply(body) if "corrupted_answer" in body["messages"][-1]["content"] else None
    version = axioms(tmp_path, server, "v1")
    made = artifact(Store(tmp_path), version, "corrupt_answers")
    assert made.rows == 0
    assert made.rejected().keys() == {REFUSED}
    assert REFUSAL not in published(version)


def built(dataset: str, config: Any, home: Path, until: str) -> dict[str, tuple[int, dict[tuple[str, str], int]]]:
    """stage -> (its rows, its rejected rows by kind and reason)."""
    _, made = build(
        dataset,
        config,
        Options(home, until=until, accept=[*config.MODEL_STAGES]),
        tasks=SequentialStages(),
        progress=Silent(),
    )
    return {run.stage: (run.artifact.rows, run.artifact.rejected()) for run in made.done}


def expertqa(home: Path, server: Server) -> dict[str, tuple[int, dict[tuple[str, str], int]]]:
    bank = home / "questions.jsonl"
    bank.write_text("".join((SAMPLES / "questions.jsonl").read_text().splitlines(keepends=True)[:3]))
    config = ExpertqaConfig(
        questions=str(bank),
        corpus=str(SAMPLES / "corpus.jsonl"),
        pages=str(SAMPLES / "pages.jsonl"),
        model="mine",
        endpoints={"mine": EndpointConfig(**endpoint(server))},
    )
    return built("expertqa", config, home / "home", "collect_answers")


def test_answers_whose_abstention_is_counted_stay_rows(tmp_path: Path, server: Server) -> None:
    server.fails = says(REFUSAL)
    made = expertqa(tmp_path, server)
    assert made["write_closed_book"][0] == 3
    assert made["write_from_passages"][0] > 0
    assert REFUSED not in made["write_closed_book"][1] | made["write_from_passages"][1]


def test_answers_that_decline_in_words_that_nothing_counts_are_rejected(tmp_path: Path, server: Server) -> None:
    server.fails = says(ABROAD)
    made = expertqa(tmp_path, server)
    assert made["write_closed_book"] == (0, {REFUSED: 3})
    assert made["write_from_passages"][0] == 0
    assert made["write_from_passages"][1][REFUSED] > 0


def test_drafts_that_decline_are_rejected(tmp_path: Path, server: Server) -> None:
    reply = says(REFUSAL)
    yes = says('{"verdict": "yes", "kind": "letter"}')
    server.fails = lambda body: yes(body) if "verdict" in body["messages"][-1]["content"] else reply(body)
    own = EndpointConfig(**endpoint(server))
    config = RevisionDistanceConfig(
        model="mine",
        endpoints={"mine": own, "weak": own.model_copy(update={"model": "w"})},
        stages={"write_weak": StageConfig(model="weak")},
        limit=2,
    )
    made = built("revision-distance", config, tmp_path, "collect_drafts")
    for stage in ("write_weak", "write_strong", "write_vanilla", "recall_knowledge"):
        rows, rejected = made[stage]
        assert rows == 0
        assert rejected[REFUSED] > 0
