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
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, get_args

from flows.builds.options import Options as Options
from flows.config.endpoints import ModelSettings, batched, ceilings_of_stages, check_batches, unbatched
from flows.registry import DATASETS as DATASETS
from flows.registry import audits_of, config_class, stages_of
from flows.registry import module_of as module_of
from longform import __version__
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, check_name, versions
from longform.engine.build import Build, Progress, Tasks
from longform.engine.plan import Plan
from longform.engine.runners import Processes, Runner
from longform.engine.served import notes_of, warnings_of
from longform.engine.stage import Method, UntilReached
from longform.errors import GateError, LongformError, StoreError, UsageError
from longform.files import read_json, write_json
from longform.hints import hint
from longform.llm.ask.types import Endpoint, FailureKind
from longform.llm.models import Models
from longform.llm.price import NANO, Cap, caps_of
from longform.llm.retry import kind_of
from longform.llm.send.secrets import without_secrets
from longform.machines import this_user
from longform.settings import api_key, budget, responses
from tasks.publishing.audits import gate_sentences, gates_in
from tasks.publishing.publish import About, Published, existing, publish_version, recipe_of
from tasks.publishing.served import SERVED_MODEL, fingerprint_notes, served_in


def declare(dataset: str, config: ModelSettings, options: Options) -> Method:
    """The calls of the stages that a build would make, recorded by running the dataset's flow without making anything.
    Source files are hashed; no request is sent.

    With `until` the calls end with that stage. UsageError if a setting or the version's name is invalid, if `until`,
    `force` or `retry_errors` names a stage that is not reached, or `accept` no gate; SourceError if a source file is
    missing or damaged.
    """
    if options.version:
        check_name(options.version)
    check_batches(config)
    responses(options.home)
    method = Method(Store(options.home), until=options.until)
    with suppress(UntilReached):
        module_of(dataset).rebuild(method, config)
    _check_stages(dataset, method, options)
    _check_accepted(dataset, method, options)
    return method


def plan(method: Method, options: Options, *, priced: bool = False, config: Any = None) -> tuple[Plan, Version | None]:
    """(what a build would do for each stage, the published version that already has this recipe or None).

    With `config`, the dataset's configuration, the plan says what becomes of questions that batches leave unanswered.
    With `priced` the plan also has the requests to models and their costs; the stored responses are read for that.
    UsageError if the chosen version name belongs to a version of another recipe.
    """
    planned = Plan(
        method.store,
        force=options.force,
        retry=options.retry,
        responses=responses(options.home) if priced else None,
        unbatched=unbatched(config) if config is not None else {},
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
    for stage, kind in options.retry.chosen:
        _check_retry(dataset, method, stage, kind)


def _check_retry(dataset: str, method: Method, stage: str, kind: str) -> None:
    """Raise UsageError if --retry-errors names a stage that asks no model, or a reason that is neither a kind of
    failure nor that of a row that the stage's artifact rejects. "" stands for all.
    """
    asking = {call.name: call for call in method.calls if call.endpoints}
    if stage and stage not in asking:
        did_you = hint(stage, asking, "those that do:")
        raise UsageError(f'{dataset} has no stage "{stage}" that asks a model (--retry-errors); {did_you}')
    chosen = [call for name, call in asking.items() if stage in ("", name)]
    made = [method.store.artifact(call.name, call.recipe.fingerprint) for call in chosen]
    reasons = [kind_of(reason) for artifact in made if artifact for _, reason in artifact.rejected()]
    known = dict.fromkeys([*get_args(FailureKind), *filter(None, reasons)])
    if kind and kind not in known:
        raise UsageError(
            f'No row is rejected as "{kind}" by a model\'s fault (--retry-errors {stage}:{kind}); '
            f"{hint(kind, known, 'the reasons are')}"
        )


def _check_accepted(dataset: str, method: Method, options: Options) -> None:
    """Raise UsageError if --accept names neither a stage that asks a model nor an audit of the version."""
    asking = {*config_class(dataset).MODEL_STAGES, *(call.name for call in method.calls if call.endpoints)}
    gates = [*sorted(asking), *audits_of(dataset).names]
    for name in options.accept or ():
        if name not in gates:
            raise UsageError(f'{dataset} has no gate "{name}" (--accept); {hint(name, gates, "it has")}')


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
        known = known_version(method, options)
        method.digests.keep()
        store.sweep()
        name = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{token_hex(3)}"  # in containers all processes have one id
        where = responses(options.home)
        for endpoint in config.endpoints.values():  # from here on all keys are known, and taken out of every reply
            api_key(endpoint.key_env or "")
        models = Models(
            where,
            home=options.home,
            max_cost=options.max_cost,
            caps=caps(dataset, config, options),
            retry=options.retry,
            failed_runs=config.failed_runs,
            run=name,
            dataset=dataset,
            offline=module_of(dataset).OFFLINE,
            say=progress.say,
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
            shared_responses=isinstance(where, str) and not models.budget.caps,
            ceilings=ceilings_of_stages(config),
            accept=[*(options.accept or ()), *_accepted_before(known, options)],
        )
        models.ahead = partial(_endpoints_ahead, dataset, config, options, builder)
        with _recorded(store, dataset, name, config, builder) as record:
            record["budget_usd"] = budget_of(config, options)
            try:
                published = _published(builder, method, options)
            except GateError as error:
                raise GateError(f"{error} {_spent(builder)}", error.findings) from None
            record["version"] = published.version.name if published else None
            if published and published.new:
                record["gates"] = published.version.manifest["gates"]
                record["accepted"] = _acceptances(published.version)
        store.sweep()  # a worker that was lost on the way leaves what it had half-written
        return published, builder


def _spent(builder: Build) -> str:
    """What a build that a gate refused leaves: `USD 0.11 was spent, nothing was published.`"""
    usd = builder.models.budget.spent_nano / NANO
    return f"USD {usd:,.2f} was spent, nothing was published." if usd else "Nothing was published."


def budget_of(config: ModelSettings, options: Options) -> float | None:
    """The budget of the dataset in US dollars: by the option, else by the setting; None: no limit."""
    return config.budget if options.budget is None else options.budget


def caps(dataset: str, config: ModelSettings, options: Options) -> tuple[Cap, ...]:
    """The limits of cost over all runs: of the dataset and of the home."""
    return caps_of(dataset, budget_of(config, options), budget())


def _endpoints_ahead(dataset: str, config: ModelSettings, options: Options, builder: Build) -> list[Endpoint]:
    """The endpoints that a build may still call: those of the stages that it has not made or reused yet, and would not
    reuse by a plan made now.
    """
    method = declare(dataset, config, options)
    planned, _ = plan(method, options)
    done = {entry.stage for entry in builder.done}
    unmade = {stage.stage for stage in planned.stages if stage.state != "reuse"} - done
    calls = [call for call in method.calls if call.name in unmade]
    return [endpoint for call in calls for endpoint in call.endpoints if not endpoint.offline]


def _accepted_before(known: Version | None, options: Options) -> set[str]:
    """The gates that were accepted for the published version of the same recipe, so that a build that finds all of it
    there does not refuse it; none if answers are to be asked for or stages to be made again.
    """
    if known is None or options.retry_errors or options.force:
        return set()
    accepted = {gate["gate"] for gate in known.manifest.get("gates", []) if gate["accepted"]}
    return accepted - {SERVED_MODEL}  # whose refusal is of one change


def _acceptances(version: Version) -> list[dict[str, str]]:
    """{gate, by, at} for each gate that was accepted for a version that is new: by whom, the user of the operating
    system, and when.
    """
    accepted = {gate["gate"]: None for gate in version.manifest["gates"] if gate["accepted"]}
    at = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return [{"gate": gate, "by": this_user(), "at": at} for gate in accepted]


def gate_lines(home: Path, version: Version) -> list[str]:
    """What the gates of a version found, one sentence each, and by whom and when gates were accepted, as its build
    recorded it.
    """
    lines = gate_sentences(gates_in(version.manifest))
    for record in _records(home, version.dataset):
        if record.get("version") == version.name and record.get("gates") == version.manifest.get("gates"):
            lines += [f"{each['gate']}: accepted by {each['by']}, {each['at']}" for each in record.get("accepted", [])]
    return lines


def served_lines(home: Path, version: Version) -> list[str]:
    """What served the stages of a version, one sentence each that begins with `warning` if names differ within a
    stage, and notes on fingerprints that differ in a stage or from those of earlier versions.
    """
    served = served_in(version)
    earlier = [each for each in versions(home, version.dataset) if each.manifest["number"] < version.manifest["number"]]
    plain = [f"model {each.sentence}" for each in served if len(each.models) < 2]
    notes = [*notes_of(served), *fingerprint_notes(version, earlier)]
    return [*plain, *(f"warning {line}" for line in warnings_of(served)), *(f"note {line}" for line in notes)]


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
        record["outcome"] = without_secrets(str(error)) if isinstance(error, LongformError) else "failed"
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
                "served": [asdict(each) for each in entry.served],
            }
            for entry in builder.done
        ]
        spent, seconds = builder.models.budget.spent_nano / NANO, round(time.monotonic() - begin, 3)
        served = [each for entry in builder.done for each in entry.served]
        said = {"warnings": list(warnings_of(served)), "notes": list(notes_of(served))}
        record.update(spent_usd=spent, seconds=seconds, stages=stages, **said)
        _write_quietly(path, record)


def _write_quietly(path: Path, record: dict[str, Any]) -> None:
    """Write a build's record as JSON; a StoreError (a full disk) is ignored, as it must not hide the build's own
    error.
    """
    with suppress(StoreError):
        write_json(path, record)


def last_budget(home: Path, dataset: str) -> float | None:
    """The budget of the dataset in US dollars that its latest build had, by the records in runs/; None if it had none,
    or if there is no readable record.
    """
    for path in sorted((home / "runs" / dataset).glob("*.json"), reverse=True):
        with suppress(StoreError):
            return (read_json(path) or {}).get("budget_usd")
    return None


def durations(home: Path, dataset: str) -> dict[str, float]:
    """fingerprint -> seconds that the stage with this fingerprint took when it was last made, by the records in runs/;
    stages that were only reused are left out, as are damaged records. Empty if there are no records.
    """
    stages = [stage for record in _records(home, dataset) for stage in record.get("stages", [])]
    return {stage["fingerprint"]: stage["seconds"] for stage in stages if stage["state"] == "run"}


def _records(home: Path, dataset: str) -> Iterator[dict[str, Any]]:
    """The records in runs/ of a dataset's builds, oldest first, without damaged ones."""
    for path in sorted((home / "runs" / dataset).glob("*.json")):
        with suppress(StoreError):
            yield read_json(path) or {}
