"""The Prefect flows: one a dataset, its parameters checked by its configuration model. A build is one flow run."""

from __future__ import annotations

from contextlib import closing
from contextvars import ContextVar
from dataclasses import asdict
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from pydantic import BaseModel

from flows.axioms import AxiomsConfig
from flows.building import Options, build
from flows.console import Lines
from flows.expertqa import ExpertqaConfig
from flows.fetching import config_of
from flows.reading import export, read
from flows.revision_distance import RevisionDistanceConfig
from flows.runner import PrefectRunner, prepare_server, task_runner
from longform.settings import home as home_of
from longform.store import Store
from tasks.build import Build, Progress


@flow(name="axioms", task_runner=task_runner())
def axioms(
    config: AxiomsConfig = AxiomsConfig(),  # noqa: B008 - Prefect shows it as the form's defaults
    version: str | None = None,
    home: str | None = None,
    until: str | None = None,
    force: str | None = None,
    max_cost: float | None = None,
    retry_errors: bool = False,
) -> str | None:
    """Rebuild the axioms dataset from Stack Exchange dumps; returns the version's folder."""
    folder = home_of(Path(home) if home else None)
    options = Options(folder, version, until, force, max_cost, retry_errors)
    return run("axioms", config, options)


@flow(name="expertqa", task_runner=task_runner())
def expertqa(
    config: ExpertqaConfig = ExpertqaConfig(),  # noqa: B008 - Prefect shows it as the form's defaults
    version: str | None = None,
    home: str | None = None,
    until: str | None = None,
    force: str | None = None,
    max_cost: float | None = None,
    retry_errors: bool = False,
) -> str | None:
    """Rebuild the expertqa dataset from a bank of questions; returns the version's folder."""
    folder = home_of(Path(home) if home else None)
    options = Options(folder, version, until, force, max_cost, retry_errors)
    return run("expertqa", config, options)


@flow(name="revision-distance", task_runner=task_runner())
def revision_distance(
    config: RevisionDistanceConfig = RevisionDistanceConfig(),  # noqa: B008 - Prefect shows it as the form's defaults
    version: str | None = None,
    home: str | None = None,
    until: str | None = None,
    force: str | None = None,
    max_cost: float | None = None,
    retry_errors: bool = False,
) -> str | None:
    """Rebuild the revision-distance dataset from WildChat, UltraFeedback and papers; returns the version's folder."""
    folder = home_of(Path(home) if home else None)
    options = Options(folder, version, until, force, max_cost, retry_errors)
    return run("revision-distance", config, options)


@flow(name="sources", task_runner=task_runner())
def sources(
    source: str, paths: list[str], settings: list[str] | None = None, home: str | None = None, to: str | None = None
) -> dict[str, int]:
    """Read files of a source into Parquet, as `longform read` does; returns the rows of each stage."""
    folder = home_of(Path(home) if home else None)
    config = config_of(source, "read", settings or [])
    with closing(Lines()) as lines:
        files = [Path(path) for path in paths]
        rows, entries = read(source, files, config, folder, runner=PrefectRunner(), progress=lines)
    if to is not None:
        export(rows, entries, Store(folder), Path(to))
    return {entry.stage: entry.artifact.rows for entry in entries}


FLOWS: dict[str, Any] = {"axioms": axioms, "expertqa": expertqa, "revision-distance": revision_distance}
PROGRESS: ContextVar[Progress | None] = ContextVar("progress", default=None)


def start(dataset: str, config: BaseModel, options: Options, progress: Progress) -> str | None:
    """Run a dataset's flow from the command line, which shows its progress."""
    prepare_server()
    PROGRESS.set(progress)
    given = {**asdict(options), "home": str(options.home)}
    folder: str | None = FLOWS[dataset](config, **given)
    return folder


def run(dataset: str, config: BaseModel, options: Options) -> str | None:
    """The body of every flow: build with Prefect's task runs, then sum up in a table artifact."""
    with closing(Lines()) as lines:
        progress = PROGRESS.get() or lines
        published, made = build(dataset, config, options, runner=PrefectRunner(), progress=progress)
    create_table_artifact(table=_table(made), key=f"{dataset}-build", description=f"{dataset}: stages of this build")
    return str(published.version.folder) if published else None


def _table(made: Build) -> list[dict[str, str]]:
    return [
        {
            "stage": entry.stage,
            "state": entry.state,
            "rows": f"{entry.artifact.rows:,}",
            "rejected": f"{sum(entry.artifact.rejected().values()):,}",
            "seconds": f"{entry.seconds:.1f}",
            "fingerprint": entry.artifact.fingerprint,
        }
        for entry in made.done
    ]
