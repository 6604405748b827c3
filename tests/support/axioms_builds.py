"""Builds of the axioms dataset in the test's own process, without Prefect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flows.axioms import AxiomsConfig
from flows.builds.building import Options, build
from longform.artifacts.versions import Version
from longform.engine.build import Build, StageRun, Tasks
from longform.engine.thread_tasks import SequentialStages

UNSEEN: dict[str, Any] = {"research_questions": [], "eli5": [], "webgpt": []}


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
    """Build the axioms dataset in this process: (the published version, its progress, the build). Besides settings:
    the options `until`, `force`, `accept` and `retry_errors`, further `options`, `runner`, `tasks` and `progress`.
    Parts that most tests do not look at (UNSEEN) are left out unless they are named.
    """
    progress: Silent = settings.pop("progress", None) or Silent()
    more = settings.pop("options", {})
    more |= {name: settings.pop(name) for name in ("accept", "retry_errors") if name in settings}
    settings = UNSEEN | settings
    options = Options(home, version, settings.pop("until", None), settings.pop("force", None), **more)
    runner = settings.pop("runner", None)
    tasks: Tasks = settings.pop("tasks", None) or SequentialStages()
    published, made = build("axioms", AxiomsConfig(**settings), options, tasks=tasks, progress=progress, runner=runner)
    return published.version if published else None, progress, made


def found_of_replies(version: Version) -> list[dict[str, Any]]:
    """The gates that found something, but `validation`, which counts the pair types that nobody judged: here all."""
    found = [gate for gate in version.manifest["gates"] if gate["found"]]
    (unvalidated,) = [gate for gate in found if gate["gate"] == "validation"]
    assert unvalidated["found"] == unvalidated["checked"]
    return [gate for gate in found if gate is not unvalidated]
