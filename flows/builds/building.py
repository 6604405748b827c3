"""Building one dataset: the plan of a build, and the build itself, with its lock, its published version and its record
in runs/.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flows.builds.options import Options as Options
from flows.config.endpoints import ModelSettings, batched, check_batches, unbatched
from flows.registry import DATASETS as DATASETS
from flows.registry import module_of as module_of
from flows.registry import stages_of
from longform import __version__
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, check_name
from longform.engine.build import Build, Progress, Tasks
from longform.engine.plan import Plan
from longform.engine.runners import Processes, Runner
from longform.engine.stage import Method, UntilReached
from longform.errors import LongformError, StoreError, UsageError
from longform.files import read_json, write_json
from longform.hints import hint
from longform.llm.models import Models
from longform.llm.price import NANO
from longform.settings import responses
from tasks.publishing.publish import About, Published, existing, publish_version, recipe_of


def declare(dataset: str, config: ModelSettings, options: Options) -> Method:
    """The calls of the stages that a build would make, recorded by running the dataset's flow without making anything.
    Source files are hashed; no request is sent.

    With `until` the calls end with that stage. UsageError if a setting or the version's name is invalid, or if `until`
    or `force` names a stage that is not reached; SourceError if a source file is missing or damaged.
    """
    if options.version:
        check_name(options.version)
    check_batches(config)
    responses(options.home)
    method = Method(Store(options.home), until=options.until)
    with suppress(UntilReached):
        module_of(dataset).rebuild(method, config)
    _check_stages(dataset, method, options)
    return method


def plan(method: Method, options: Options, *, priced: bool = False) -> tuple[Plan, Version | None]:
    """(what a build would do for each stage, the published version that already has this recipe or None).

    With `priced` the plan also has the requests to models and their costs; the stored responses are read for that.
    UsageError if the chosen version name belongs to a version of another recipe.
    """
    planned = Plan(
        method.store,
        force=options.force,
        retry_errors=options.retry_errors,
        responses=responses(options.home) if priced else None,
    )
    with closing(planned):
        planned.plan_all(method)
    return planned, known_version(method, options)


def known_version(method: Method, options: Options) -> Version | None:
    """The published version that already has the recipe of `method`: the one that is named `options.version` or,
    without a name, the newest. None if there is none, or if the build ends at `until` and so publishes nothing.

    UsageError if the version of that name has another recipe.
    """
    if method.publication is None:
        return None
    about: About = method.publication.about
    recipe = recipe_of(about, method.fingerprints)
    return existing(options.home, about.dataset, recipe, options.version, method.fingerprints)


def _check_stages(dataset: str, method: Method, options: Options) -> None:
    """Raise UsageError if --until or --force names a stage that is not among the recorded calls of `method`."""
    names = [call.name for call in method.calls]
    for option in ("until", "force"):
        name = getattr(options, option)
        if name is not None and name not in names:
            if option == "force" and options.until and name in stages_of(dataset):
                raise UsageError(
                    f"The build ends with {options.until} (--until), before {name} (--force): leave out one of the two."
                )
            raise UsageError(f'{dataset} has no stage "{name}" (--{option}); {hint(name, names, "it has")}')


def build(
    dataset: str,
    config: ModelSettings,
    options: Options,
    *,
    tasks: Tasks,
    progress: Progress,
    runner: Runner | None = None,
    method: Method | None = None,
) -> tuple[Published | None, Build]:
    """Make the parts that are missing and publish the version, under the lock of the dataset (BusyError if it is
    taken). A record of the build is written to runs/.

    Returns (the published version, new or there before, or None if the build ended at `until`; the build). `runner`:
    where parts are made, by default worker processes. `method`: the result of `declare` with the same arguments, if it
    is there already. The error of a stage that failed is raised; UsageError, before anything is made, as by `declare`
    and `known_version`.
    """
    store = Store(options.home)
    store.prepare()
    with store.lock(dataset):
        method = method or declare(dataset, config, options)
        known_version(method, options)
        method.digests.keep()
        store.sweep()
        name = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}"
        where = responses(options.home)
        models = Models(
            where,
            max_cost=options.max_cost,
            retry_errors=options.retry_errors,
            run=name,
            dataset=dataset,
            offline=module_of(dataset).OFFLINE,
        )
        builder = Build(
            store,
            tasks=tasks,
            runner=runner or Processes(),
            progress=progress,
            models=models,
            force=options.force,
            batch=batched(config),
            unbatched_online={stage for stage, then in unbatched(config).items() if then == "online"},
            shared_responses=isinstance(where, str) and options.max_cost is None,
        )
        with _recorded(store, dataset, name, config, builder) as record:
            published = _published(builder, method, options)
            record["version"] = published.version.name if published else None
        store.sweep()  # a worker that was lost on the way leaves what it had half-written
        return published, builder


def _published(build: Build, method: Method, options: Options) -> Published | None:
    """Make all stages, then publish the version and return it; None if `until` ended the build. Closes the build and
    its runner, also if a stage fails, whose error is raised.
    """
    try:
        build.make(method)
        with ThreadPoolExecutor(1) as closing:
            closed = closing.submit(build.runner.close)  # which takes a second: the version is written meanwhile
            published = publish_version(build, options.version) if method.publication else None
        closed.result()
        return published
    finally:
        build.close()


@contextmanager
def _recorded(store: Store, dataset: str, name: str, config: ModelSettings, builder: Build) -> Iterator[dict[str, Any]]:
    """A context that writes runs/<dataset>/<name>.json: the configuration, host, times, outcome and stages of a build,
    which are no part of a version. Yields the record, to which the caller may add fields.

    The file is written at the start (outcome "interrupted") and again at the end, so that a killed build leaves one
    too. The outcome is then "done", the message of a LongformError, or "failed" for another Exception; after Ctrl-C it
    stays "interrupted". Errors pass through; a file that cannot be written is ignored.
    """
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
        "outcome": "interrupted",  # until the outcome is known
    }
    path = store.home / "runs" / dataset / f"{name}.json"
    _write_quietly(path, record)
    try:
        yield record
        record["outcome"] = "done"
    except Exception as error:
        record["outcome"] = str(error) if isinstance(error, LongformError) else "failed"
        raise
    finally:
        stages = [
            {
                "stage": entry.stage,
                "fingerprint": entry.artifact.fingerprint,
                "state": entry.state,
                "seconds": round(entry.seconds, 3),
                "units_run": entry.units_run,
                "units_reused": entry.units_reused,
            }
            for entry in builder.done
        ]
        spent, seconds = builder.models.budget.spent_nano / NANO, round(time.monotonic() - begin, 3)
        record.update(spent_usd=spent, seconds=seconds, stages=stages)
        _write_quietly(path, record)


def _write_quietly(path: Path, record: dict[str, Any]) -> None:
    """Write a build's record as JSON; a StoreError (a full disk) is ignored, as it must not hide the build's own
    error.
    """
    with suppress(StoreError):
        write_json(path, record)


def durations(home: Path, dataset: str) -> dict[str, float]:
    """fingerprint -> seconds that the stage with this fingerprint took when it was last made, by the records in runs/;
    stages that were only reused are left out, as are damaged records. Empty if there are no records.
    """
    records = []
    for path in sorted((home / "runs" / dataset).glob("*.json")):
        with suppress(StoreError):
            records.append(read_json(path) or {})
    stages = [stage for record in records for stage in record.get("stages", [])]
    return {stage["fingerprint"]: stage["seconds"] for stage in stages if stage["state"] == "run"}
