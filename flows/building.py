"""One build of one dataset: locked, recorded, published or stopped; and its plan."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from flows.endpoints import batched, check_batches
from flows.offered import DATASETS as DATASETS
from flows.offered import module_of as module_of
from longform import __version__
from longform.errors import LongformError, StoreError, UsageError
from longform.llm.budget import NANO
from longform.llm.models import Models
from longform.settings import responses
from longform.store import Store, read_json, write_json
from longform.versions import Version, check_name
from tasks.build import Build, Progress, Stopped
from tasks.plan import Plan
from tasks.publish import Published, existing, recipe_of, stages_of
from tasks.workers import Runner


@dataclass(frozen=True, slots=True)
class Options:
    """What a person asks of a build besides its configuration."""

    home: Path
    version: str | None = None
    until: str | None = None
    force: str | None = None
    max_cost: float | None = None
    retry_errors: bool = False


def plan(dataset: str, config: BaseModel, options: Options, *, priced: bool = False) -> tuple[Plan, Version | None]:
    """What a build would do, and the version that has its recipe already, if any.

    With `priced` also what it would ask models, and what that costs.
    Raises UsageError where a stage's name is unknown or another recipe has taken the version's name.
    """
    if options.version:
        check_name(options.version)
    check_batches(config)
    where = responses(options.home)
    planned = Plan(
        Store(options.home),
        force=options.force,
        until=options.until,
        retry_errors=options.retry_errors,
        responses=where if priced else None,
    )
    module = module_of(dataset)
    try:
        module.rebuild(planned, config)
    except Stopped:
        return planned, None
    finally:
        planned.close()
    _check_stages(dataset, planned, options)
    recipe = recipe_of(module.about(config), planned)
    return planned, existing(options.home, dataset, recipe, options.version, stages_of(planned))


def _check_stages(dataset: str, planned: Plan, options: Options) -> None:
    import difflib

    names = [stage.stage for stage in planned.stages]
    for option in ("until", "force"):
        name = getattr(options, option)
        if name is not None and name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f'did you mean "{near[0]}"?' if near else f"it has {', '.join(names)}."
            raise UsageError(f'{dataset} has no stage "{name}" (--{option}); {hint}')


def build(
    dataset: str, config: BaseModel, options: Options, *, runner: Runner, progress: Progress
) -> tuple[Published | None, Build]:
    """Make what is missing and publish it. None is published where `until` ended the build."""
    store = Store(options.home)
    store.prepare()
    with store.lock(dataset):
        plan(dataset, config, options)
        store.sweep()
        name = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}"
        models = Models(
            responses(options.home),
            max_cost=options.max_cost,
            retry_errors=options.retry_errors,
            run=name,
            dataset=dataset,
        )
        run = Build(
            store,
            runner=runner,
            progress=progress,
            models=models,
            force=options.force,
            until=options.until,
            batch=batched(config),
        )
        with _recorded(store, dataset, name, config, run) as record:
            published = _rebuilt(dataset, config, options, run)
            record["version"] = published.version.name if published else None
        return published, run


def _rebuilt(dataset: str, config: BaseModel, options: Options, run: Build) -> Published | None:
    try:
        published: Published | None = module_of(dataset).rebuild(run, config, options.version)
        return published
    except Stopped:
        return None
    finally:
        run.close()


@contextmanager
def _recorded(store: Store, dataset: str, name: str, config: BaseModel, run: Build) -> Iterator[dict[str, Any]]:
    """Write runs/<dataset>/<time>.json: what holds times, hosts and outcomes, and is no part of a version."""
    started = datetime.now(UTC)
    begin = time.monotonic()
    record: dict[str, Any] = {
        "dataset": dataset,
        "started": started.isoformat(timespec="seconds"),
        "host": platform.node(),
        "process": os.getpid(),
        "longform": __version__,
        "python": platform.python_version(),
        "config": config.model_dump(mode="json"),
        "outcome": "interrupted",  # by a signal, unless it is said below
    }
    try:
        yield record
        record["outcome"] = "done"
    except Exception as error:
        record["outcome"] = str(error) if isinstance(error, LongformError) else "failed"
        raise
    finally:
        record["spent_usd"] = run.models.budget.spent_nano / NANO
        record["seconds"] = round(time.monotonic() - begin, 3)
        record["stages"] = [entry.as_dict() for entry in run.done]
        _write_quietly(store.home / "runs" / dataset / f"{name}.json", record)


def _write_quietly(path: Path, record: dict[str, Any]) -> None:
    """A record that cannot be written (a full disk) must not hide what went wrong."""
    try:
        write_json(path, record)
    except StoreError:
        return


def durations(home: Path, dataset: str) -> dict[str, float]:
    """fingerprint -> seconds its stage took when it was last made."""
    found: dict[str, float] = {}
    for path in sorted((home / "runs" / dataset).glob("*.json")):
        for stage in (read_json(path) or {}).get("stages", []):
            if stage["state"] == "run":
                found[stage["fingerprint"]] = stage["seconds"]
    return found
