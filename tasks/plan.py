"""What a build would do and cost, said without doing it.

Where the inputs of a stage that asks a model are built, its bodies are run dry: what they would ask is looked up in
the response store and added up, and no reply is given. Where they are not, a bound is told.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longform.llm.budget import NANO
from longform.llm.prompts import Prompt
from longform.llm.types import Endpoint
from longform.recipe import Recipe, fingerprint
from longform.rows import Rows
from longform.store import Artifact, Store
from tasks.build import Stopped, failed
from tasks.dry import walk
from tasks.stage import Stage
from tasks.units import Job, contents_of, jobs_of

if TYPE_CHECKING:
    from longform.llm.estimate import Estimate, Estimator
    from longform.llm.records import ResponseStore

OFFLINE_ROWS = 20_000
MARGIN = 1.25


@dataclass(frozen=True, slots=True)
class Planned:
    """What a build would do for one stage.

    Of a plan with prices: `exact` where its inputs are built and what it would ask was counted; else `usd_high` may be
    a bound. `unpriced` maps endpoints to their models where the price is unknown. `measured`: what replies take is
    reckoned from stored ones. `web`: it asks the web, as often as it has rows at most.
    """

    stage: str
    state: str
    why: str
    rows: str
    calls: int | None
    calls_exact: bool
    endpoint: str | None
    fingerprint: str
    offline: bool = True
    exact: bool = False
    cached: int | None = None
    input_tokens: int | None = None
    output_low: int | None = None
    output_tokens: int | None = None
    output_high: int | None = None
    usd_low: float | None = None
    usd: float | None = None
    usd_high: float | None = None
    usd_batch_low: float | None = None
    usd_batch_high: float | None = None
    seconds: float | None = None
    measured: bool = False
    batch: bool = False
    unpriced: dict[str, str] | None = None
    web: bool = False

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


class Plan:
    """A plan: says of every stage called with it whether it would run, and why. Sends and writes nothing.

    With `responses`, the response store, it also counts what would be asked, and what that costs.
    """

    def __init__(
        self,
        store: Store,
        *,
        force: str | None = None,
        until: str | None = None,
        retry_errors: bool = False,
        responses: Path | str | None = None,
    ) -> None:
        self.store, self.force, self.until, self.retry_errors = store, force, until, retry_errors
        self.stages: list[Planned] = []
        self._where = responses
        self._opened: ResponseStore | None = None

    def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def stage(self, work: Stage, inputs: dict[str, Any], arguments: dict[str, Any]) -> Rows:
        recipe = work.recipe(inputs, arguments)
        artifact = self._reusable(work, recipe, inputs)
        rows = self._rows(work, recipe, inputs, arguments, artifact)
        endpoint = work.endpoint(arguments)
        state, why = ("reuse", "") if artifact else self._why(work, recipe, inputs, arguments)
        calls = None if endpoint is None else 0 if artifact else _most_calls(work, inputs)
        known = all(_is_known(value) for value in inputs.values())
        planned = Planned(
            work.name,
            state,
            why,
            _rows_text(work, inputs, artifact),
            calls,
            known,
            endpoint.name if endpoint else None,
            recipe.fingerprint,
            web=work.asks_web(arguments) and not artifact,
        )
        if self._where is not None and endpoint and not artifact:
            jobs = self._unfinished(work, recipe, inputs, arguments) if known else []
            planned = self._priced(planned, work, jobs if known else None, arguments)
        self.stages.append(planned)
        if work.name == self.until:
            raise Stopped
        return rows

    @property
    def nothing_to_do(self) -> bool:
        return all(planned.state == "reuse" for planned in self.stages)

    def _reusable(self, work: Stage, recipe: Recipe, inputs: dict[str, Any]) -> Artifact | None:
        if work.name == self.force or not all(_is_known(value) for value in inputs.values()):
            return None
        artifact = self.store.artifact(recipe.stage, recipe.fingerprint)
        contents = fingerprint({name: contents_of(value) for name, value in inputs.items()})
        if artifact is None or artifact.contents != contents:
            return None
        return None if self.retry_errors and failed(artifact.parts) else artifact

    def _rows(
        self,
        work: Stage,
        recipe: Recipe,
        inputs: dict[str, Any],
        arguments: dict[str, Any],
        artifact: Artifact | None,
    ) -> Rows:
        """Where they are not built: no more than rows of the first input, if they are the same things, or replies."""
        parts = artifact.parts if artifact else None
        first = next(iter(inputs.values()))
        same = isinstance(first, Rows) and first.key == work.schema.metadata[b"key"].decode()
        bound = _most(first) if (same or work.endpoints(arguments)) and not work.several else None
        return Rows(self.store, work.schema, work.name, recipe.fingerprint, parts, bound)

    def _why(self, work: Stage, recipe: Recipe, inputs: dict[str, Any], arguments: dict[str, Any]) -> tuple[str, str]:
        if work.name == self.force:
            return "run", "forced"
        made = self.store.artifact(work.name, recipe.fingerprint) if self.retry_errors else None
        if made and failed(made.parts):
            return "run", f"{failed(made.parts):,} rows that the model could not answer are asked again"
        earlier = self.store.artifacts(work.name)
        if not earlier:
            return "run", "first build"
        changes = min((recipe.differences(other.recipe) for other in earlier), key=len)
        own = [change for change in changes if not change.startswith("its input")]
        known = all(_is_known(value) for value in inputs.values())
        if not known and not own:
            names = [name for name, value in inputs.items() if not _is_known(value)]
            more = f" and {len(names) - 1} more are" if len(names) > 1 else " is"
            return "unknown", f"until {names[0]}{more} built"
        parts = self._parts_left(work, recipe, inputs, arguments) if known else ""
        why = "; ".join(_few(changes)) or "its parts or inputs are gone or changed"
        return "run", f"{why}{parts}"

    def _parts_left(self, work: Stage, recipe: Recipe, inputs: dict[str, Any], arguments: dict[str, Any]) -> str:
        jobs = list(jobs_of(self.store, work, recipe, inputs, arguments))
        made = sum(self.store.unit(work.name, job.unit) is not None for job in jobs)
        return f" ({made} of {len(jobs)} parts are there)" if made else ""

    # what it costs

    def _unfinished(self, work: Stage, recipe: Recipe, inputs: dict[str, Any], arguments: dict[str, Any]) -> list[Job]:
        jobs = jobs_of(self.store, work, recipe, inputs, arguments)
        return [job for job in jobs if work.name == self.force or not self._made(work, job)]

    def _made(self, work: Stage, job: Job) -> bool:
        parts = self.store.unit(work.name, job.unit)
        return parts is not None and not (self.retry_errors and failed(parts))

    def _priced(self, planned: Planned, work: Stage, jobs: list[Job] | None, arguments: dict[str, Any]) -> Planned:
        """With what the unfinished units would ask; with a bound, where they are not known yet (None)."""
        from longform.llm.prices import price_of

        endpoints = work.endpoints(arguments)
        online = [endpoint for endpoint in endpoints if not endpoint.offline]
        facts: dict[str, Any] = {
            "offline": not online,
            "batch": any("batch" in endpoint.capabilities for endpoint in online),
            "unpriced": {each.name: each.model for each in online if price_of(each) is None},
        }
        if jobs is None or (not online and _rows_of(jobs) > OFFLINE_ROWS):
            return replace(planned, **facts, usd_high=self._bound(planned.calls, online, arguments))
        found = self._walked(work, jobs, endpoints)
        counted: dict[str, Any] = {name: value for name, value in asdict(found).items() if name != "seconds_online"}
        return replace(planned, **facts, **counted, calls_exact=True, exact=True, seconds=found.seconds_online)

    def _walked(self, work: Stage, jobs: list[Job], endpoints: list[Endpoint]) -> Estimate:
        from longform.llm.estimate import Estimate, Estimator

        with ExitStack() as opened:
            estimators: dict[str, Estimator] = {}
            for endpoint in endpoints:
                store = None if endpoint.offline else self._responses()
                estimators[endpoint.name] = Estimator(endpoint, store)
                opened.callback(estimators[endpoint.name].close)
            for job in jobs:
                walk(
                    self.store,
                    work,
                    job,
                    lambda endpoint, request: estimators[endpoint.name].add(request),
                    lambda endpoint, texts: estimators[endpoint.name].embed(texts),
                )
            return sum((estimator.estimate() for estimator in estimators.values()), Estimate())

    def _bound(self, calls: int | None, endpoints: list[Endpoint], arguments: dict[str, Any]) -> float | None:
        """USD that so many calls cost at most, going by what stored answers to the same prompt cost; None: unknown."""
        from longform.llm.prices import cost_nano, price_of

        prompts = [value.name for value in arguments.values() if isinstance(value, Prompt)]
        if calls is None or len(endpoints) != 1 or len(prompts) != 1:
            return None
        endpoint, price = endpoints[0], price_of(endpoints[0])
        wanted = {"endpoint": endpoint.name, "model": endpoint.model, "task": prompts[0]}
        found = [row for row in self._responses().stats() if row.items() >= wanted.items() and row["answers"]]
        if price is None or not found:
            return None
        answers, sent, made = (found[0][name] for name in ("answers", "input_tokens", "output_tokens"))
        return float(round(MARGIN * calls * cost_nano(price, sent, 0, made) / answers)) / NANO

    def _responses(self) -> ResponseStore:
        from longform.llm.store import open_responses

        assert self._where is not None
        if self._opened is None:
            self._opened = open_responses(self._where, read_only=True)
        return self._opened


def _few(changes: list[str]) -> list[str]:
    """Of the inputs that change, two by name."""
    inputs = [change for change in changes if change.startswith("its input")]
    own = [change for change in changes if change not in inputs]
    more = [f"{len(inputs) - 2} more inputs change"] if len(inputs) > 2 else []
    return [*own, *inputs[:2], *more]


def _rows_of(jobs: list[Job]) -> int:
    return sum(rows.count for job in jobs for rows in job.inputs.values() if isinstance(rows, Rows))


def _is_known(value: Any) -> bool:
    return not isinstance(value, Rows) or value.parts is not None


def _most(value: Rows) -> int | None:
    return value.count if value.parts is not None else value.at_most


def _most_calls(work: Stage, inputs: dict[str, Any]) -> int | None:
    """One a row, where no stage says otherwise."""
    first = next(iter(inputs.values()))
    return _most(first) if isinstance(first, Rows) and not work.several else None


def _rows_text(work: Stage, inputs: dict[str, Any], artifact: Artifact | None) -> str:
    if artifact:
        return f"{artifact.rows:,}"
    first = next(iter(inputs.values()))
    if not isinstance(first, Rows):
        return "unknown until read"
    most = _most(first)
    if most is None:
        return f"unknown until {first.stage}"
    return f"{most:,} in" if first.parts is not None else f"up to {most:,} in"
