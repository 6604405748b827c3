"""What a flow run shows in Prefect's UI: logs and progress of each stage, and a summary at the end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)

from flows.builds.console import StageStatus, report_periodically, start_phrase
from longform.artifacts.versions import Version
from longform.engine.build import Build, Progress, StageRun, Watch
from longform.engine.prefect_tasks import ignoring_server_errors, log
from longform.engine.served import warnings_of
from tasks.publishing.card import escaped


class RunPage:
    """A build's progress display that writes to the logs and progress artifacts of the Prefect flow run. `begin`, `end`
    and `say` are passed on to the display `display`; `close` ends the reports on running stages and leaves it open.
    """

    def __init__(self, dataset: str, display: Progress) -> None:
        self.dataset, self.display = dataset, display
        self._running: dict[str, Bar] = {}

    def begin(self, stage: str, units: int, calls: int, endpoint: str | None, watch: Watch) -> None:
        log(logging.INFO, f"{stage} begins: {start_phrase(units, calls, endpoint)}")
        bar = self._running[stage] = Bar(_key(f"{self.dataset}-{stage}-progress"))
        report_periodically(
            bar.finished,
            StageStatus(calls, watch),
            lambda phrase: bar.report(f"{stage}: {phrase}", watch()["fraction"]),
        )
        self.display.begin(stage, units, calls, endpoint, watch)

    def end(self, entry: StageRun) -> None:
        if entry.stage in self._running:
            self._running.pop(entry.stage).finish()
        self.display.end(entry)

    def say(self, text: str) -> None:
        log(logging.INFO, text)
        self.display.say(text)

    def close(self) -> None:
        for bar in self._running.values():
            bar.finished.set()


class Bar:
    """The Prefect progress artifact of a stage, created at its first report. HTTP errors of the server are ignored.
    `finished` is an event that `finish` sets.
    """

    def __init__(self, key: str) -> None:
        self.key, self.finished = key, threading.Event()
        self._artifact: Any = None

    def report(self, phrase: str, fraction: float) -> None:
        """Log the phrase, and show the fraction that is done (0 to 1) as percent in the artifact."""
        log(logging.INFO, phrase)
        with ignoring_server_errors():
            if self._artifact is None:
                self._artifact = create_progress_artifact(100 * fraction, key=self.key)
            else:
                update_progress_artifact(self._artifact, 100 * fraction)

    def finish(self) -> None:
        """Set the event `finished`, and show 100 percent if there has been a report."""
        self.finished.set()
        if self._artifact is not None:
            with ignoring_server_errors():
                update_progress_artifact(self._artifact, 100.0)


def summarize(dataset: str, build: Build, version: Version | None, gates: Sequence[str] = ()) -> None:
    """Write the Markdown artifact of a finished build (`summary`). HTTP errors of the server are ignored."""
    text = summary(dataset, build, version, gates)
    with ignoring_server_errors():
        create_markdown_artifact(text, key=f"{dataset}-build", description=f"{dataset}: what this run made")


def summary(dataset: str, build: Build, version: Version | None, gates: Sequence[str] = ()) -> str:
    """A finished build in Markdown: the version (None: nothing published), its splits, the stages, models that changed
    within a stage, what the gates found, and commands to look at them. What servers say is no markup.
    """
    lines = [f"# {dataset} {version.name if version else '(nothing published)'}", ""]
    if version:
        splits = [
            f"| {config} | {split} | {rows:,} |"
            for config, found in version.configs.items()
            for split, rows in found.items()
        ]
        lines += [f"`{version.folder}`", "", "| config | split | rows |", "|---|---|---:|", *splits, ""]
    lines += _table_of(build.done)
    warnings = list(warnings_of(served for run in build.done for served in run.served))
    lines += ["", *(f"- {escaped(sentence)}" for sentence in [*warnings, *gates])] if warnings or gates else []
    lines += ["", f"Look: `longform show {dataset}` · `longform rejects {dataset}` · `longform trace {dataset}`"]
    return "\n".join(lines)


def summarize_reading(source: str, runs: list[StageRun], folder: str) -> None:
    """Write the Markdown artifact of a source that was read: its stages, and the folder with their rows. HTTP errors
    of the server are ignored.
    """
    text = "\n".join([f"# {source}", "", *_table_of(runs), "", f"`{folder}`"])
    with ignoring_server_errors():
        create_markdown_artifact(text, key=f"{_key(source)}-read", description=f"{source}: what was read")


def summarize_fetching(source: str, files: list[dict[str, Any]]) -> None:
    """Write the table artifact of a fetched source, a row for each of `files`: path, bytes, sha256 and `new`. HTTP
    errors of the server are ignored.
    """
    with ignoring_server_errors():
        create_table_artifact(table=files, key=f"{_key(source)}-files", description=f"{source}: what was fetched")


def _table_of(runs: list[StageRun]) -> list[str]:
    """The lines of a Markdown table of the stages: name, state, what was made, and seconds."""
    head = ["| stage | state | what it made | seconds |", "|---|---|---|---:|"]
    return head + [f"| {run.stage} | {run.state} | {run.sentence} | {run.seconds:.1f} |" for run in runs]


def _key(name: str) -> str:
    """The name in the form that Prefect wants of artifact keys: lower case, dashes instead of underscores."""
    return name.replace("_", "-").lower()
