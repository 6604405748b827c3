"""A build as the command line makes it, worker processes included, but without Prefect: what benchmarks measure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longform.engine.build import Build


class Silent:
    """Progress that nobody looks at."""

    def begin(self, stage: str, units: int, calls: int, endpoint: str | None, watch: Any = None) -> None: ...
    def end(self, entry: Any) -> None: ...
    def say(self, text: str) -> None: ...


@contextmanager
def building(home: Path) -> Iterator[Build]:
    """A build in this home; at its end all its workers have ended, so that their times count."""
    from longform.artifacts.store import Store
    from longform.engine.build import Build
    from longform.engine.runners import Processes
    from longform.engine.thread_tasks import SequentialStages
    from longform.llm.models import Models

    models = Models(home / "responses.sqlite")
    build = Build(Store(home), tasks=SequentialStages(), runner=Processes(), progress=Silent(), models=models)
    try:
        yield build
    finally:
        build.close()


def built(home: Path, reading: Callable[[Build], Any]) -> int:
    """Rows and rows left out of what `reading` builds."""
    with building(home) as build:
        reading(build)
    return accounted(build)


def accounted(build: Build) -> int:
    """Rows, and rows left out, of all its stages."""
    return sum(entry.artifact.rows + sum(entry.artifact.rejected().values()) for entry in build.done)
