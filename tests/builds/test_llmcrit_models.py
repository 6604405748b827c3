"""Builds of llmcrit with a model server that is partly or wholly wrong: stopped with one sentence, or left out with a
reason; money as planned; nothing asked twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from axioms_builds import Silent
from bad_models import BAD, replies, said
from endpoint_server import Server, Verdict, server
from model_builds import built, mine

from flows.builds.building import Options, declare, plan
from flows.builds.building import build as run_build
from flows.cli.shared.verification import check
from flows.config.endpoints import EndpointConfig, StageConfig
from flows.llmcrit import PROMPT_NAMES, LLMCritConfig
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, artifact
from longform.engine.plan import total
from longform.engine.thread_tasks import SequentialStages
from longform.errors import GateError
from longform.llm.ask.fence import unfenced

pytestmark = pytest.mark.check

__all__ = ["server"]

FEEDBACK = [f"llmcrit/feedback_{name}" for name in ("base", "crit", "icl", "cricl")]
CHANGES = ["llmcrit/violate", "llmcrit/meet", "llmcrit/meet_or_leave"]
YES = {
    "llmcrit/judge_validity": "<reasoning>It is.</reasoning><verdict>specific</verdict>",
    "llmcrit/judge_context": "<reasoning>It is.</reasoning><verdict>match</verdict>",
    "llmcrit/judge_critique": "<reasoning>It is.</reasoning><extraction>It says so.</extraction>"
    "<critique>yes</critique><helpful>yes</helpful>",
}
NO = {
    "llmcrit/judge_validity": "<reasoning>It is not.</reasoning><verdict>not specific</verdict>",
    "llmcrit/judge_context": "<reasoning>It is not.</reasoning><verdict>not match</verdict>",
    "llmcrit/judge_critique": "<reasoning>It is not.</reasoning><extraction></extraction><critique>no</critique>"
    "<helpful>no</helpful>",
}


def config_of(server: Server, **more: Any) -> LLMCritConfig:
    return LLMCritConfig(**mine(server, "llmcrit", PROMPT_NAMES, **{"texts": 6, "samples": 2, **more}))


def refused(config: LLMCritConfig, home: Path) -> str:
    with pytest.raises(GateError) as caught:
        built("llmcrit", config, home)
    assert not any((home / "datasets").rglob("*.parquet"))
    return str(caught.value)


def rejected(home: Path, version: Version, stage: str) -> dict[str, int]:
    return artifact(Store(home), version, stage).reasons("defect")


def always(server: Server, replies_by_task: dict[str, str]) -> None:
    """Have the server give the same reply to all requests of a prompt."""

    def fails(body: dict[str, Any]) -> Verdict | None:
        task = server.tasks.get(body["messages"][0]["content"].strip(), "")
        return said(f"{replies_by_task[task]}\n=====") if task in replies_by_task else None

    server.fails = fails


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("same", "repeat that to another question"),
        ("word", "one word"),
        ("loop", "the same words over and over"),
        ("refusal-en", "replies decline"),
        ("language", "language: "),
        ("fence", "wrapped: "),
        ("json", "wrapped: "),
        ("preamble", "wrapped: "),
    ],
)
def test_feedback_that_is_none_is_not_published(kind: str, sentence: str, tmp_path: Path, server: Server) -> None:
    config = config_of(server)
    server.fails = replies(server, BAD[kind], tasks=FEEDBACK)
    assert sentence in refused(config, tmp_path)


def test_modifications_that_leave_the_text_as_it_was_are_asked_for_again_and_stop_the_build(
    tmp_path: Path, server: Server
) -> None:
    config = config_of(server)
    server.fails = replies(server, lambda good, prompt: _given(prompt), tasks=CHANGES[:2])
    sentence = refused(config, tmp_path)
    assert sentence.startswith("change_texts: ")


def _given(prompt: str) -> str:
    return next(text for label, text in unfenced(prompt) if label.startswith("Text"))


def test_code_in_a_fence_is_taken_out_of_it(tmp_path: Path, server: Server) -> None:
    config = config_of(server)
    server.fails = replies(server, lambda good, prompt: f"```python\n{good}\n```", tasks=CHANGES)
    version = built("llmcrit", config, tmp_path)
    texts = [row["text"] for row in _rows(version, "texts") if row["modified"]]
    assert texts
    assert not any(text.startswith("```") for text in texts)


def test_feedback_that_is_equal_for_several_aspects_of_a_text_is_told(tmp_path: Path, server: Server) -> None:
    config = config_of(server)
    of_text = {}

    def once(good: str, prompt: str) -> str:
        return str(of_text.setdefault(dict(unfenced(prompt))["Text"], good))

    server.fails = replies(server, once, tasks=["llmcrit/feedback_crit"])
    assert "repeat that to another question" in refused(config, tmp_path)


@pytest.mark.parametrize("task", YES)
@pytest.mark.parametrize("always_says", [YES, NO], ids=["yes", "no"])
def test_a_judge_that_always_says_the_same_publishes_nothing(
    task: str, always_says: dict[str, str], tmp_path: Path, server: Server
) -> None:
    config = config_of(server)
    always(server, {task: always_says[task]})
    sentence = refused(config, tmp_path)
    assert "planted_feedback: " in sentence
    version = built("llmcrit", config, tmp_path, accept=["planted_feedback", "missing_kinds"])
    assert "planted_feedback: " in (version.folder / "README.md").read_text()
    layers = {row["layer"] for row in _rows(version, "checks") if not row["hit"]}
    assert layers <= {task.split("judge_")[1]} | ({"constructive", "helpful"} if task.endswith("critique") else set())


def _rows(version: Version, config: str) -> list[dict[str, Any]]:
    return [row for path in version.tables().get(config, []) for row in pq.read_table(path).to_pylist()]


def test_a_few_bad_replies_are_rejected_rows_that_the_card_counts(tmp_path: Path, server: Server) -> None:
    config = config_of(server)
    server.fails = replies(server, BAD["loop"], tasks=["llmcrit/demonstrate"], share=0.12)
    version = built("llmcrit", config, tmp_path)
    number = rejected(tmp_path, version, "write_demonstrations").get("model: degenerate", 0)
    assert number >= 1
    assert f"write_demonstrations: {number} of " in (version.folder / "README.md").read_text()
    assert list(check(Store(tmp_path), version)) == []


def test_calls_are_as_planned_and_nothing_is_asked_twice(tmp_path: Path, server: Server) -> None:
    config = config_of(server, texts=4, strategies=["base", "crit"])
    run_build("llmcrit", config, Options(tmp_path, until="mix_planted"), tasks=SequentialStages(), progress=Silent())
    options = Options(tmp_path, "v1", until="judge_validity")
    planned, _ = plan(declare("llmcrit", config, options), options, priced=True)
    calls, before = total(planned.stages)["calls"], server.bodies.total()
    run_build("llmcrit", config, options, tasks=SequentialStages(), progress=Silent())
    assert server.bodies.total() - before == calls > 0
    built("llmcrit", config, tmp_path, version="v1")
    asked = server.bodies.total()
    built("llmcrit", config.model_copy(update={"planted": 3}), tmp_path, version="v2")
    assert server.bodies.total() == asked


def test_a_prompt_that_is_longer_than_the_window_is_a_rejected_row(tmp_path: Path, server: Server) -> None:
    own = EndpointConfig(base_url=f"http://127.0.0.1:{server.server_address[1]}/v1", model="m")
    both = {"mine": own, "small": own.model_copy(update={"window": 4_200})}
    stages = {"give_feedback": StageConfig(model="small")}
    config = config_of(server, endpoints=both, stages=stages)
    version = built("llmcrit", config, tmp_path)
    left_out = artifact(Store(tmp_path), version, "give_feedback").reasons("filtered")
    assert left_out["longer than the endpoint's window"] > 0
    files = (tmp_path / "stages" / "give_feedback").rglob("rejected.parquet")
    details = [row["detail"] for path in files for row in pq.read_table(path).to_pylist() if "window" in row["reason"]]
    assert all("the window has 4,200" in detail for detail in details)


def test_a_model_that_follows_the_rules_passes_all_gates(tmp_path: Path, server: Server) -> None:
    version = built("llmcrit", config_of(server, single=["posts"]), tmp_path)
    assert not any(gate["found"] and gate["share"] > gate["ceiling"] for gate in version.manifest["gates"])
    assert list(check(Store(tmp_path), version)) == []
