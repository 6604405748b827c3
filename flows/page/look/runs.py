"""Builds of a home: their records in runs/, and which of them is running now."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from longform.artifacts.versions import Version
from longform.errors import StoreError, UsageError
from longform.files import read_json
from longform.leases import FoundLease, highest_number, is_fresh, read_lease
from longform.machines import is_alive, this_machine
from longform.settings import prefect_api_url

MOST_SHOWN = 200


class StageRecord(BaseModel):
    """What a build's record says of a stage."""

    stage: str
    fingerprint: str = ""
    state: str = ""
    seconds: float = 0.0
    units_run: int = 0
    units_reused: int = 0


class Record(BaseModel):
    """A build's record. `outcome`: done, failed, interrupted, or the message of the error that ended it."""

    dataset: str
    started: datetime
    outcome: str = ""
    host: str = ""
    process: int = 0
    longform: str = ""
    python: str = ""
    version: str | None = None
    seconds: float | None = None
    spent_usd: float | None = None
    budget_usd: float | None = None
    config: dict[str, Any] = {}
    stages: list[StageRecord] = []
    warnings: list[str] = []
    notes: list[str] = []


@dataclass(frozen=True, slots=True)
class Run:
    """A build: its record, the name of the record's file, and whether it is running now."""

    name: str
    record: Record
    running: bool

    @property
    def state(self) -> str:
        """running, done, failed, refused by an error that the record names, or interrupted."""
        if self.running:
            return "running"
        return self.record.outcome if self.record.outcome in ("done", "interrupted") else "failed"


@dataclass(frozen=True, slots=True)
class Progress:
    """What a running build has made of a stage since it started. `seconds`: since the last part was finished."""

    stage: str
    finished: bool
    units: int
    seconds: float


def runs(home: Path, dataset: str | None = None) -> list[Run]:
    """The latest MOST_SHOWN builds of a home, or of a dataset, the newest first; damaged records are left out."""
    pattern = f"{dataset}/*.json" if dataset else "*/*.json"
    paths = sorted((home / "runs").glob(pattern), key=lambda path: path.name, reverse=True)[:MOST_SHOWN]
    return [run for path in paths if (run := _run(home, path)) is not None]


def run_named(home: Path, dataset: str, name: str) -> Run:
    """The build whose record has this name. UsageError if there is none, or if it is damaged."""
    paths = {path.stem: path for path in (home / "runs" / dataset).glob("*.json")}
    found = _run(home, paths[name]) if name in paths else None
    if found is None:
        raise UsageError(f"There is no readable record of such a build of {dataset} in {home / 'runs'}.")
    return found


def _run(home: Path, path: Path) -> Run | None:
    try:
        record = Record.model_validate(read_json(path))
    except (StoreError, ValidationError):
        return None
    return Run(path.stem, record, _is_running(home, path.parent.name, record))


def _is_running(home: Path, dataset: str, record: Record) -> bool:
    """Whether the process that wrote the record holds the lock of the dataset."""
    lease = _lease(home, dataset) if record.outcome == "interrupted" else None
    return bool(lease and (lease.owner.host, lease.owner.process) == (record.host, record.process))


def _lease(home: Path, dataset: str) -> FoundLease | None:
    """The lease of a dataset that somebody alive holds; None if nobody does."""
    folder = home / "locks" / dataset
    lease = read_lease(folder, highest_number(folder))
    if lease is None or not is_fresh(lease, time.time()):
        return None
    elsewhere = lease.owner.machine != this_machine()
    return lease if elsewhere or is_alive(lease.owner.process) else None


def progress(home: Path, run: Run) -> list[Progress]:
    """The stages of which a running build has made something since it started, the latest last."""
    since, now = run.record.started.timestamp(), time.time()
    found = []
    for folder in sorted((home / "stages").glob("[!.]*")):
        units = [at for at in _times(folder / "units") if at >= since]
        ends = [at for at in _times(folder) if at >= since]
        if units or ends:
            found.append(Progress(folder.name, bool(ends), len(units), now - max([*units, *ends])))
    return sorted(found, key=lambda each: (-each.seconds, each.stage))


def _times(folder: Path) -> Iterator[float]:
    """When each JSON file of a folder was last written, in seconds since 1970."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".json") and not entry.name.startswith("."):
                yield entry.stat().st_mtime


def settings_of(home: Path, version: Version) -> dict[str, Any] | None:
    """The settings of the build that published a version; None if its record is not there."""
    for run in runs(home, version.dataset):
        if run.record.version == version.name and run.record.outcome == "done":
            return run.record.config
    return None


def prefect_page() -> str | None:
    """The address of the Prefect server's page, if PREFECT_API_URL names a server."""
    url = prefect_api_url()
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}{parts.path.removesuffix('/').removesuffix('/api')}/runs"
