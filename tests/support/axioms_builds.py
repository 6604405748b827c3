"""Builds of the axioms dataset in the test's own process, without Prefect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flows.axioms import AxiomsConfig
from flows.builds.building import Options, build
from longform.artifacts.versions import Version
from longform.engine.build import Build, StageRun
from longform.engine.thread_tasks import SequentialStages


class Silent:
    """Progress that records which stages started, with their numbers of units, and which ended."""

    def __init__(self) -> None:
        self.begun: dict[str, int] = {}
        self.ended: list[StageRun] = []

    def begin(self, stage: str, units: int, calls: int, endpoint: str | None, watch: Any = None) -> None:
        self.begun[stage] = units

    def end(self, entry: StageRun) -> None:
        self.ended.append(entry)

    def say(self, text: str) -> None:
        pass


def build_axioms(home: Path, version: str = "v1", **settings: Any) -> tuple[Version | None, Silent, Build]:
    """Build the axioms dataset in this process: (the published version, its progress, the build)."""
    progress = Silent()
    until, force, accept = (settings.pop(name, None) for name in ("until", "force", "accept"))
    retry_errors = settings.pop("retry_errors", False)
    options = Options(home, version, until, force, retry_errors=retry_errors, accept=accept)
    runner = settings.pop("runner", None)
    published, made = build(
        "axioms", AxiomsConfig(**settings), options, tasks=SequentialStages(), progress=progress, runner=runner
    )
    return published.version if published else None, progress, made
