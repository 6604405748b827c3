"""Builds that publish nothing: a few stages of a dataset on what a user brings, their plan and what they left out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.config.endpoints import ModelSettings, batched, ceilings_of_stages, check_batches, unbatched
from longform.artifacts.rows import Row, read_batches
from longform.artifacts.store import Store
from longform.engine.build import Build, Progress, Tasks
from longform.engine.plan import Plan
from longform.engine.runners import Processes, Runner
from longform.engine.stage import Builder, Method
from longform.engine.thread_tasks import Threads
from longform.llm.models import Models
from longform.llm.offline import Rule
from longform.llm.price import caps_of
from longform.llm.retry import Retry
from longform.settings import budget, responses

ROWS_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Kind:
    """What is built. `dataset`: whose settings, budget and stages; `lock`: the name under which one command at a time
    works in a home, which is also how the ledger calls its runs; `offline`: the rules of the offline model.
    """

    dataset: str
    lock: str
    offline: Mapping[str, Rule]


@contextmanager
def reading(kind: Kind, home: Path, progress: Progress, *, runner: Runner | None = None) -> Iterator[Build]:
    """A build that reads what is brought and asks no model; wait for its rows with `finish`. `runner`: where it reads,
    by default worker processes.
    """
    store = Store(home)
    store.prepare()
    with store.lock(kind.lock):
        models = Models(responses(home), home=home, dataset=kind.dataset, offline=kind.offline)
        build = Build(store, tasks=Threads(), runner=runner or Processes(), progress=progress, models=models)
        try:
            yield build
            build.digests.keep()
        finally:
            build.close()


@contextmanager
def asking(
    kind: Kind,
    config: ModelSettings,
    home: Path,
    *,
    tasks: Tasks,
    progress: Progress,
    max_cost: float | None,
    retry: Retry,
    accept: Collection[str] | None = None,
    runner: Runner | None = None,
) -> Iterator[Build]:
    """A build that asks models as the settings say, with the limits of cost and the ceilings of a dataset's build; wait
    for its rows with `finish`. BusyError if another command of this kind is at work in the home. `accept`: the stages
    whose replies are not judged; None: all, as nothing is published, unless the settings have ceilings. `runner`: as of
    `reading`.
    """
    unjudged = () if "ceilings" in config.model_fields_set else config.MODEL_STAGES
    store = Store(home)
    store.prepare()
    with store.lock(kind.lock):
        store.sweep()
        models = Models(
            responses(home),
            home=home,
            max_cost=max_cost,
            caps=caps_of(kind.dataset, config.budget, budget()),
            retry=retry,
            failed_runs=config.failed_runs,
            run=f"{kind.lock}-{time.time_ns()}-{os.getpid()}",
            dataset=kind.dataset,
            offline=kind.offline,
            say=progress.say,
        )
        online = {stage for stage, then in unbatched(config).items() if then == "online"}
        build = Build(
            store, tasks=tasks, runner=runner or Processes(), progress=progress, models=models, batch=batched(config),
            unbatched_online=online, ceilings=ceilings_of_stages(config),
            accept=unjudged if accept is None else accept,
        )  # fmt: skip
        try:
            yield build
            build.digests.keep()
        finally:
            build.close()


def plan_of(config: ModelSettings, home: Path, declare: Callable[[Builder], Any]) -> Plan:
    """What the stages that `declare` calls would do, and what it costs; nothing is sent or written."""
    check_batches(config)
    declared = Method(Store(home))
    declare(declared)
    planned = Plan(declared.store, responses=responses(home), unbatched=unbatched(config))
    with closing(planned):
        planned.plan_all(declared)
    return planned


def left_out(store: Store, build: Build, *, but: tuple[str, ...] = ()) -> list[Row]:
    """What the stages of a build left out, each as `stage`, `key`, `reason` and `detail`; without the stages `but`."""
    return [
        {"stage": done.stage, **{name: row[name] for name in ("key", "reason", "detail")}}
        for done in build.done
        if done.stage not in but
        for part in done.artifact.parts
        if part.rejected
        for batch in read_batches(store.rejected_path(part), ROWS_AT_ONCE)
        for row in batch.to_pylist()
    ]
