"""What tests share: real data where it lies beside the project, and builds without Prefect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from postgresql import postgres as postgres
from postgresql import postgres_url as postgres_url

from flows.axioms import AxiomsConfig
from flows.builds.building import Options, build
from longform.artifacts.store import Part
from longform.artifacts.versions import Version
from longform.engine.build import Build, StageRun
from longform.engine.tasks import InTurn

# Other work may run beside the tests. They draw the same examples each time; `make soak` draws new ones.
settings.register_profile("soak", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("soak"), derandomize=True)
settings.load_profile("same")

SHARED = Path(__file__).parents[1].parent / "shared" / "data" / "stackexchange"


class Silent:
    """Progress that remembers which stages worked, and on how many units."""

    def __init__(self) -> None:
        self.begun: dict[str, int] = {}
        self.ended: list[StageRun] = []

    def begin(self, stage: str, units: int, calls: int, endpoint: str | None, watch: Any = None) -> None:
        self.begun[stage] = units

    def advance(self, stage: str, parts: list[Part]) -> None:
        pass

    def end(self, entry: StageRun) -> None:
        self.ended.append(entry)

    def say(self, text: str) -> None:
        pass


@pytest.fixture
def beer() -> Path:
    """The beer site of 2017, whole: 663 questions, 1,572 answers."""
    folder = SHARED / "beer_2017"
    if not folder.exists():
        pytest.skip("the real dumps are not beside the project")
    return folder


def build_axioms(home: Path, version: str = "v1", **settings: Any) -> tuple[Version | None, Silent, Build]:
    """Build the axioms dataset in this process; the version, what worked, and the build."""
    progress = Silent()
    options = Options(home, version, settings.pop("until", None), settings.pop("force", None))
    published, made = build("axioms", AxiomsConfig(**settings), options, tasks=InTurn(), progress=progress)
    return published.version if published else None, progress, made
