"""Builds of each dataset from its samples against a model server, in the test's own process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from axioms_builds import UNSEEN, Silent
from endpoint_server import Server

from flows.axioms import AxiomsConfig
from flows.builds.building import Options
from flows.builds.building import build as run_build
from flows.config.endpoints import EndpointConfig, StageConfig
from flows.config.prompts import PROMPTS
from flows.expertqa import PROMPT_NAMES as EXPERTQA_PROMPTS
from flows.expertqa import ExpertqaConfig
from flows.revision_distance import PROMPT_NAMES as REVISION_PROMPTS
from flows.revision_distance import RevisionDistanceConfig
from longform.artifacts.versions import Version
from longform.engine.thread_tasks import SequentialStages
from longform.llm.ask.prompts import load_prompt

DATASETS = ("axioms", "expertqa", "revision-distance")
AXIOMS_PROMPTS = ("open_book", "closed_book", "corrupt", "combine", "judge_negative", "irrelevant_book")


def built(dataset: str, config: Any, home: Path, **options: Any) -> Version:
    """The version that is published; GateError if none is."""
    published, _ = run_build(dataset, config, Options(home, **options), tasks=SequentialStages(), progress=Silent())
    assert published is not None
    return published.version


def mine(server: Server, dataset: str, names: Sequence[str], **more: Any) -> dict[str, Any]:
    """The settings by which a dataset asks the server, which then answers its prompts by the rules."""
    server.tasks |= {load_prompt(f"{dataset}/{name}", PROMPTS).system.strip(): f"{dataset}/{name}" for name in names}
    own = EndpointConfig(base_url=f"http://127.0.0.1:{server.server_address[1]}/v1", model="m")
    return {"model": "mine", "endpoints": {"mine": own, "weak": own.model_copy(update={"model": "w"})}, **more}


def config_of(server: Server, dataset: str, **more: Any) -> AxiomsConfig | ExpertqaConfig | RevisionDistanceConfig:
    """The configuration by which a dataset, from its samples, asks the server."""
    if dataset == "axioms":
        return AxiomsConfig(**mine(server, dataset, AXIOMS_PROMPTS, **{**UNSEEN, **more}))
    if dataset == "expertqa":
        cheap = {"autoais": "lexical", "factscore": "none", **more}
        return ExpertqaConfig(**mine(server, dataset, EXPERTQA_PROMPTS, **cheap))
    stages = {"write_weak": StageConfig(model="weak")}
    return RevisionDistanceConfig(**mine(server, "revision_distance", REVISION_PROMPTS, stages=stages, **more))
