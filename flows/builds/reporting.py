"""What a run's page in Prefect's UI tells: logs and progress of each stage, and at the end what was made."""

from __future__ import annotations

import logging
import threading
from typing import Any
from uuid import UUID

from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)

from flows.builds.console import Going, begun, tell_now_and_then
from longform.artifacts.store import Part
from longform.artifacts.versions import Version
from longform.engine.build import Build, Progress, StageRun, Watch
from longform.engine.prefect_tasks import ignoring_server_errors, log


class RunPage:
    """Progress that stands in the run's logs and artifacts, and is handed on to `shown`."""

    def __init__(self, dataset: str, shown: Progress) -> None:
        self.dataset, self.shown = dataset, shown
        self._at_work: dict[str, tuple[threading.Event, Bar]] = {}

    def begin(self, stage: str, units: int, calls: int, endpoint: str | None, watch: Watch) -> None:
        log(logging.INFO, f"{stage} begins: {begun(units, calls, endpoint)}")
        over, bar = threading.Event(), Bar(_key(f"{self.dataset}-{stage}-progress"))
        self._at_work[stage] = over, bar
        tell_now_and_then(over, Going(calls, watch), lambda phrase: bar.tell(f"{stage}: {phrase}", watch()["fraction"]))
        self.shown.begin(stage, units, calls, endpoint, watch)

    def advance(self, stage: str, parts: list[Part]) -> None:
        self.shown.advance(stage, parts)

    def end(self, entry: StageRun) -> None:
        if entry.stage in self._at_work:
            over, bar = self._at_work.pop(entry.stage)
            over.set()
            bar.finish()
        self.shown.end(entry)

    def say(self, text: str) -> None:
        log(logging.INFO, text)
        self.shown.say(text)

    def close(self) -> None:
        for over, _ in self._at_work.values():
            over.set()


class Bar:
    """A progress artifact of a stage, made when there is something to tell."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._artifact: UUID | None = None

    def tell(self, phrase: str, fraction: float) -> None:
        log(logging.INFO, phrase)
        with ignoring_server_errors():
            if self._artifact is None:
                self._artifact = _id(create_progress_artifact(100 * fraction, key=self.key))
            else:
                update_progress_artifact(self._artifact, 100 * fraction)

    def finish(self) -> None:
        if self._artifact is not None:
            with ignoring_server_errors():
                update_progress_artifact(self._artifact, 100.0)


def summarize(dataset: str, build: Build, version: Version | None) -> None:
    """The Markdown artifact at the end of a run: the version, its splits, its stages, and what to look at."""
    lines = [f"# {dataset} {version.name if version else '(nothing published)'}", ""]
    if version:
        splits = [
            f"| {config} | {split} | {rows:,} |"
            for config, found in version.configs.items()
            for split, rows in found.items()
        ]
        lines += [f"`{version.folder}`", "", "| config | split | rows |", "|---|---|---:|", *splits, ""]
    lines += _table_of(build.done)
    lines += ["", f"Look: `longform show {dataset}` · `longform rejects {dataset}` · `longform trace {dataset}`"]
    with ignoring_server_errors():
        create_markdown_artifact("\n".join(lines), key=f"{dataset}-build", description=f"{dataset}: what this run made")


def summarize_reading(source: str, runs: list[StageRun], folder: str) -> None:
    """The Markdown artifact at the end of reading a source: its stages, and where their rows are."""
    text = "\n".join([f"# {source}", "", *_table_of(runs), "", f"`{folder}`"])
    with ignoring_server_errors():
        create_markdown_artifact(text, key=f"{_key(source)}-read", description=f"{source}: what was read")


def summarize_fetching(source: str, files: list[dict[str, Any]]) -> None:
    """The table artifact at the end of fetching from a source: path, bytes, sha256 of each file, whether it is new."""
    with ignoring_server_errors():
        create_table_artifact(table=files, key=f"{_key(source)}-files", description=f"{source}: what was fetched")


def _table_of(runs: list[StageRun]) -> list[str]:
    head = ["| stage | state | what it made | seconds |", "|---|---|---|---:|"]
    return head + [f"| {run.stage} | {run.state} | {run.sentence} | {run.seconds:.1f} |" for run in runs]


def _key(name: str) -> str:
    return name.replace("_", "-").lower()


def _id(made: Any) -> UUID:
    assert isinstance(made, UUID)
    return made
