"""What a build would do and what it would cost, worked out without doing it.

Units of work whose inputs are built are looked up in the store. If such a unit has to be made and asks a model, its
body is run dry: its requests are looked up in the response store and their costs summed. For units whose inputs are not
built yet, the plan gives an upper bound, from the sizes of the sources and the bounds that stages declare (`AtMost`),
and an estimate, if the stage was built before, from that build's rates.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from longform.artifacts.parts import group_of
from longform.artifacts.rows import Rows
from longform.artifacts.store import Artifact, Digests, Part, Store
from longform.engine.at_most import UNKNOWN, Sizes, bound
from longform.engine.bounds import NOT_CUT, KnownRows, Rates, RowCount, bytes_by_group, shard_sizes
from longform.engine.build import asked_again, reusable_artifact, reusable_parts
from longform.engine.health import PILOT
from longform.engine.jobs import CUT, Job, hash_of_inputs, jobs_of, walk
from longform.engine.pricing import Pricing, calls_only
from longform.engine.stage import Method, NeedsReplies, Shape, StageCall
from longform.llm.ask.prompts import Prompt
from longform.llm.price import FIGURES, UNKNOWN_FIGURES, Figures
from longform.llm.retry import Retry

if TYPE_CHECKING:
    from longform.llm.estimate import Estimator

OFFLINE_ROWS = 20_000
How = Literal["exact", "at most", "unknown until read"]
Taken = Counter[tuple[str, str]]
EXACT: How = "exact"
AT_MOST: How = "at most"
UNREAD: How = "unknown until read"
NO_RETRY = Retry()


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned(Figures):
    """What a build would do for one stage. `state`: `run` or `reuse`; `why`: the reason for a run.

    `known`: how well its figures are known: of a stage that asks a model the number of questions (`calls`), else its
    `rows`. Figures that are not exact have bounds (`rows_at_most`, `calls`; None: unknown) and estimates beside them
    (`_about`), which use the rates of the groups in `rates_of`. `waits_for`: the stage upstream that has to be built
    before more is known, or `read`: its sources have to be read. `calls` counts questions; a question whose reply is
    cut off or unreadable is asked again.

    Tokens and USD have an estimate with a likely range (`_low`, `_high`) and a bound (`_at_most`). `unpriced`:
    endpoint -> model where the price is unknown. `endpoint`: the name of its first endpoint, None without one.
    `offline`: it asks no real model. `batch`: one of its models has a Batch API. `unbatched`: what becomes of questions
    that a batch leaves unanswered, "wait" or "online"; None unless it asks in batches. `measured`: the length of
    replies is estimated from stored ones. `web`: it asks the web, at most once for each row. `pilot`: of how many first
    questions the replies are looked at before more is asked; None where nothing is left to be asked after them.
    """

    stage: str
    state: str
    why: str
    fingerprint: str
    known: How
    waits_for: str | None
    units: int | None
    units_reused: int
    rows: int | None
    rows_about: int | None
    rows_at_most: int | None
    rates_of: tuple[str, ...]
    endpoint: str | None = None
    offline: bool = True
    batch: bool = False
    unbatched: str | None = None
    unpriced: dict[str, str] | None = None
    web: bool = False
    pilot: int | None = None

    @property
    def exact(self) -> bool:
        """Whether the stage's figures are exact (see `known`)."""
        return self.known == EXACT

    def as_dict(self) -> dict[str, Any]:
        """field -> value: the stage and the other fields of this class first, then the figures of calls, tokens and
        USD.
        """
        own = [field_.name for field_ in fields(self) if field_.name not in FIGURES]
        return {name: getattr(self, name) for name in [*own, *FIGURES]}


@dataclass(frozen=True, slots=True)
class UnitsOfCall:
    """The units of work of a stage, as a plan sees them. `artifact`: the stored one that would be reused, else None.
    `jobs`: all units, whether finished or not; empty with an `artifact`. `parts`: unit -> its parts if it is finished,
    None if it is to be made; it lacks the units whose inputs are not built.
    """

    call: StageCall
    artifact: Artifact | None
    jobs: list[Job]
    parts: dict[str, list[Part] | None]

    @property
    def finished(self) -> list[Job]:
        """The units whose parts are stored."""
        return [job for job in self.jobs if self.parts.get(job.unit) is not None]

    @property
    def to_make(self) -> list[Job]:
        """The units to make whose inputs are built."""
        return [job for job in self.jobs if job.unit in self.parts and self.parts[job.unit] is None]

    @property
    def unmade(self) -> list[Job]:
        """All units that are not finished: those to make, then those whose inputs are not built."""
        return [*self.to_make, *self.waiting]

    @property
    def waiting(self) -> list[Job]:
        """The units whose inputs are not built."""
        return [job for job in self.jobs if job.unit not in self.parts]

    @property
    def reused(self) -> int:
        """The number of finished units; all units of a stored artifact."""
        return len(self.artifact.units if self.artifact else self.finished)

    @property
    def count(self) -> int | None:
        """The number of units. None if it is not known yet, as it is not known into how many parts an input will be
        divided.
        """
        if self.artifact:
            return self.reused
        return None if any(NOT_CUT in job.label for job in self.waiting) else len(self.jobs)

    def rows_of(self, jobs: list[Job]) -> Taken:
        """(group, input) -> number of rows that these units read of this input. Only inputs of which a unit sees one
        part are counted, not those that it sees by group or whole.
        """
        found: Taken = Counter()
        for job in jobs:
            for name, value in job.inputs.items():
                if self.call.stage.inputs[name] is Shape.PART:
                    found[group_of_job(self.call, job), name] += value.count
        return found


class Plan:
    """A builder that works out for each stage whether a build would make it, and why. It sends and writes nothing.

    The results are in `stages`. `force`: the stage that is to be made again. `retry`: which rows that a model could
    not answer are to be asked again. With `responses`, the path or address of the response store, the plan also counts
    the requests of each stage and estimates their costs. `unbatched`: stage -> what becomes of questions that a batch
    leaves unanswered, of the stages in batch mode.
    """

    def __init__(
        self,
        store: Store,
        *,
        force: str | None = None,
        retry: Retry = NO_RETRY,
        responses: Path | str | None = None,
        unbatched: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._unbatched = unbatched
        self.store, self.force, self.retry = store, force, retry
        self.digests = Digests(store.home)
        self.stages: list[Planned] = []
        self.publication: Any = None
        self._pricing = None if responses is None else Pricing(responses)
        self._known: dict[str, KnownRows] = {}
        self._calls: dict[str, StageCall] = {}
        self._source_bytes = cache(bytes_by_group)
        self._rates = Rates(store, self._calls)

    def close(self) -> None:
        """Close the response store."""
        if self._pricing is not None:
            self._pricing.close()

    def plan_all(self, method: Method) -> None:
        """Plan all stages that a method calls; the results are added to `stages`."""
        for call in method.calls:
            self.add(call)

    def add(self, call: StageCall) -> None:
        """Plan one stage of a flow; the result is added to `stages`. If its rows are all built, `call.rows` is given
        their parts.
        """
        self._calls[call.recipe.fingerprint] = call
        units = self._units(call)
        known = self._known[call.recipe.fingerprint] = self._rows(call, units)
        if known.built:
            call.rows.set_parts_source(partial(list, known.parts))
        planned = self._planned(call, units, known)
        self.stages.append(self._asking(planned, call, units) if call.endpoints else planned)

    def rows(self, rows: Rows) -> KnownRows:
        """What is known of the rows that an earlier stage of the flow made or will make; of rows from elsewhere, their
        parts.
        """
        return self._known.get(rows.fingerprint) or KnownRows(rows.parts or [])

    @property
    def nothing_to_do(self) -> bool:
        """Whether every stage planned so far would be reused."""
        return all(planned.state == "reuse" for planned in self.stages)

    # which units are there

    def _units(self, call: StageCall) -> UnitsOfCall:
        """The units of work of a call. The artifact and the units whose inputs are built are looked up in the store."""
        inputs = {
            name: value.of(self.rows(value).parts) if isinstance(value, Rows) else value
            for name, value in call.inputs.items()
        }
        whole = all(self.rows(rows).built for rows in call.upstream.values())
        options = self.force, self.retry
        artifact = reusable_artifact(self.store, call, hash_of_inputs(inputs), *options) if whole else None
        jobs = [] if artifact else list(jobs_of(self.store, call, inputs))
        ready = [job for job in jobs if whole or not self._inputs_missing(call, job)]
        return UnitsOfCall(
            call, artifact, jobs, {job.unit: reusable_parts(self.store, call, job, *options) for job in ready}
        )

    def _inputs_missing(self, call: StageCall, job: Job) -> bool:
        """Whether some rows that a unit of work reads are not built yet. True also for a unit that numbers its parts
        if it is unknown how its first input will be divided, and so where the numbers begin.
        """
        first, known = next(iter(call.inputs)), {name: self.rows(rows) for name, rows in call.upstream.items()}
        if call.stage.max_rows_per_part and first in known and known[first].not_cut:
            return True  # its parts are numbered, and nobody knows from where on
        shapes = call.stage.inputs
        return any(rows.misses(shapes[name], call.stage.shape, job.label) for name, rows in known.items())

    # how many rows they make

    def _rows(self, call: StageCall, units: UnitsOfCall) -> KnownRows:
        """What is known of the rows that a call will have: stored parts, placeholders for the parts of other units,
        and by group the numbers of rows that are not built.
        """
        if units.artifact:
            return KnownRows(units.artifact.parts)
        parts = [part for job in units.jobs for part in units.parts.get(job.unit) or _placeholders(call, job)]
        taken, unmade = units.rows_of(units.finished), _by_group(call, units.unmade)
        return KnownRows(parts, {group: self._rest(call, jobs, taken) for group, jobs in unmade})

    def _rest(self, call: StageCall, jobs: list[Job], taken: Taken) -> RowCount:
        """Bound and estimate of the rows that these units of one group will make; the estimate is None without a rate
        of an earlier build that still holds, or without an estimate of the input rows. `jobs`: not empty. `taken`:
        (group, input) -> rows that finished units read.
        """
        group, most = group_of_job(call, jobs[0]), self._most(call, jobs, taken)
        if call.stage.shape is Shape.SHARD:
            rows_in = RowCount(most, None if most == UNKNOWN else most)
        else:
            rows_in = self._rows_in(call, group, taken)
        rate = self._rates.rate_for(call, group) if rows_in.about is not None else None
        if rate is None or rows_in.about is None:
            return RowCount(most, None)
        most_about = self._most(call, jobs, taken, of_about=True)
        guessed = all(self.rows(rows).count().about is not None for rows in call.upstream.values())
        about = rate.rows_about(rows_in.about, min(most, most_about), most_is_about=guessed)
        return RowCount(most, about, frozenset() if about is None else rows_in.like | rate.like)

    def _most(self, call: StageCall, jobs: list[Job], taken: Taken, *, of_about: bool = False) -> float:
        """Upper bound of the rows that these units of one group make. With `of_about` it is computed from estimates of
        the inputs, where there are any, in place of their bounds. `taken`: (group, input) -> rows that other units
        read.

        Without a declared bound it is the rows of the first input if these have the same key column or the stage asks
        a model; else infinity, also for source stages.
        """
        declared = call.stage.at_most.rows
        if call.stage.shape is Shape.SHARD:
            others = {name: self._total(rows, None, of_about) for name, rows in call.upstream.items()}
            sizes_of_jobs = [shard_sizes(call, next(iter(job.inputs.values())), others) for job in jobs]
            return sum(bound(declared, sizes, UNKNOWN) for sizes in sizes_of_jobs)
        first = next(iter(call.upstream.values()))
        sizes, rows_in = self._sizes(call, jobs, taken, of_about=of_about)
        return bound(declared, sizes, rows_in if first.key == call.stage.key or call.endpoints else UNKNOWN)

    def _sizes(self, call: StageCall, jobs: list[Job], taken: Taken, *, of_about: bool = False) -> tuple[Sizes, float]:
        """(sizes from which the bounds of these units of one group are computed, upper bound of the rows of their
        first input). Rows `taken` by other units, (group, input) -> rows, are subtracted. With `of_about` estimates of
        the inputs, where there are any, take the place of bounds.
        """
        group = group_of_job(call, jobs[0])
        rows_in = {
            name: self._total(rows, None if call.stage.inputs[name] is Shape.ALL else group or None, of_about)
            - taken[group, name]
            for name, rows in call.upstream.items()
        }
        known = {name: self._calls.get(rows.fingerprint) for name, rows in call.upstream.items()}
        upstream = {name: made_by.arguments for name, made_by in known.items() if made_by}
        units = UNKNOWN if any(NOT_CUT in job.label for job in jobs) else len(jobs)
        sizes = Sizes({**call.arguments, **rows_in}, units, *self._sources(call, group, of_about), upstream)
        return sizes, rows_in[next(iter(call.inputs))]

    def _total(self, rows: Rows, group: str | None, of_about: bool) -> float:
        """Upper bound of the number of rows of an input, in a group or in all (None); with `of_about` the estimate
        instead, if there is one.
        """
        known = self.rows(rows).count(group)
        return known.about if of_about and known.about is not None else known.most

    def _rows_in(self, call: StageCall, group: str, taken: Taken) -> RowCount:
        """Bound and estimate of the rows of the first input in a group ("": all rows), and of those in `also`. The rows
        `taken` by finished units, (group, input) -> rows, are subtracted from the estimate, not from the bound.
        """
        names = (next(iter(call.upstream)), *call.stage.also)
        counts = [self.rows(call.upstream[name]).count(group or None) for name in names]
        about = [rows.about for rows in counts if rows.about is not None]
        left = sum(about) - sum(taken[group, name] for name in names)
        return RowCount(
            sum(rows.most for rows in counts),
            max(0.0, left) if len(about) == len(counts) else None,
            frozenset[str]().union(*(rows.like for rows in counts)),
        )

    def _sources(self, call: StageCall, group: str, of_about: bool) -> tuple[float, float]:
        """(upper bound of the unpacked bytes of the sources that the first input goes back to, upper bound of the rows
        read from them): of the group if the sources have it, else of all groups. Infinity if the sources are unknown.
        With `of_about` an estimate of the rows, if there is one.
        """
        first = next(iter(call.inputs.values()))
        while isinstance(first, Rows):
            made_by = self._calls.get(first.fingerprint)
            if made_by is None:
                return UNKNOWN, UNKNOWN
            call, first = made_by, next(iter(made_by.inputs.values()))
        sizes = self._source_bytes(call)
        known = group in sizes
        return sizes[group] if known else sum(sizes.values()), self._total(
            call.rows, group if known else None, of_about
        )

    # what is said of it

    def _planned(self, call: StageCall, units: UnitsOfCall, known: KnownRows) -> Planned:
        """The plan of a stage with its state, rows and units; all figures of model calls are still unknown."""
        reused = units.artifact is not None
        rows, total_rows = known.rows.total(), known.count()
        most, about = total_rows.most, total_rows.about
        whole = known.built or most == rows
        return Planned(
            **{**UNKNOWN_FIGURES, "measured": False},
            stage=call.name,
            state="reuse" if reused else "run",
            why="" if reused else self._why(call, units),
            fingerprint=call.recipe.fingerprint,
            known=EXACT if whole else AT_MOST if most != UNKNOWN else UNREAD,
            waits_for=None if whole else self._waits_for(call, units),
            units=units.count,
            units_reused=units.reused,
            rows=rows if whole else None,
            rows_about=None if about is None else round(about),
            rows_at_most=None if most == UNKNOWN else math.floor(most),
            rates_of=tuple(sorted(total_rows.like - {""})),
            web=call.asks_web and bool(units.unmade),
        )

    def _why(self, call: StageCall, units: UnitsOfCall) -> str:
        """Why a stage would be made, in words: how many parts are reused, if any, and what has changed."""
        of_all = f" of {units.count:,}" if units.count is not None else ""
        reused = f"reuse {units.reused:,}{of_all} parts" if units.reused else ""
        return "; ".join(filter(None, (reused, self._change(call))))

    def _change(self, call: StageCall) -> str:
        """What has changed since the most similar earlier build of a stage, in words: `forced`; how many rows are
        asked again; `first build`; that a stage upstream is made again; the changes of its recipe; or, if nothing of
        all this, that its parts or inputs are gone or changed.
        """
        if call.name == self.force:
            return "forced"
        made = self.store.artifact(call.name, call.recipe.fingerprint)
        if made and (again := asked_again(made.parts, self.retry)):
            return f"{again:,} rows that the model could not answer are asked again"
        earlier = self._rates.artifacts(call.name)
        if not earlier:
            return "first build"
        changes = min((call.recipe.differences(other.recipe) for other in earlier), key=len)
        if not changes and (waiting := self._unbuilt(call)):
            return f"{waiting[0]} is made again; reused where it comes out the same"
        return "; ".join(_shortened(changes)) or "its parts or inputs are gone or changed"

    def _waits_for(self, call: StageCall, units: UnitsOfCall) -> str | None:
        """What has to be built before more is known of a stage: `read` if only its sources have to be read; else the
        last stage, in the order of the flow, that makes one of its inputs and is not built; None if all are built.
        """
        reads = call.stage.shape is Shape.SHARD and not units.waiting
        return "read" if reads else next(reversed(self._unbuilt(call)), None)

    def _unbuilt(self, call: StageCall) -> list[str]:
        """The stages that make inputs of the call and are not built yet, in the order of the flow."""
        order = list(self._calls)
        missing = [rows for rows in call.upstream.values() if not self.rows(rows).built]
        return [rows.stage for rows in sorted(missing, key=lambda rows: order.index(rows.fingerprint))]

    # what it asks

    def _asking(self, planned: Planned, call: StageCall, units: UnitsOfCall) -> Planned:
        """The plan of a stage that asks models, `planned` with its endpoint and number of questions; if the plan
        counts requests (`responses`), with tokens and costs.
        """
        from longform.llm.price import price_of

        online = [endpoint for endpoint in call.endpoints if not endpoint.offline]
        facts: dict[str, Any] = {
            "endpoint": call.endpoints[0].name,
            "offline": not online,
            "batch": any("batch" in endpoint.capabilities for endpoint in online),
            "unbatched": self._unbatched.get(call.name) if online else None,
        }
        if not units.unmade:
            return replace(planned, **facts, **Figures().as_fields(), known=EXACT)
        facts["unpriced"] = {endpoint.name: endpoint.model for endpoint in online if price_of(endpoint) is None}
        counted, whole = self._counted(call, units)
        costs = counted or Figures()
        unknown = units.waiting if counted is not None else [*units.waiting, *units.to_make]
        if unknown or not whole:
            costs += self._costs_of_uncounted(call, units, unknown, walked=counted is not None, whole=whole)
        facts["pilot"] = self._pilot(call, costs.calls) if online else None
        how: How = UNREAD if costs.calls is None else EXACT if whole and not unknown else AT_MOST
        return replace(planned, **facts, **costs.as_fields(), known=how)

    def _pilot(self, call: StageCall, calls: float | None) -> int | None:
        """The size of the pilot of a stage that asks so many questions (None: unknown); None where it has none: the
        whole stage is no larger, or asks for vectors only.
        """
        least = 2 * PILOT if call.name in self._unbatched else PILOT + 1
        asks = any(isinstance(each, Prompt) for each in call.arguments.values())
        return PILOT if asks and (calls is None or calls >= least) else None

    def _counted(self, call: StageCall, units: UnitsOfCall) -> tuple[Figures | None, bool]:
        """(sum of the figures of all requests of the units to make, whether these are all their requests), found by
        dry runs.

        (None, whether there are no units to make) if no dry run is made: the plan has no response store, or only the
        offline model is asked and the units read more than OFFLINE_ROWS rows. (None, True) if questions depend on
        replies.
        """
        rows = sum(rows.count for job in units.to_make for rows in job.inputs.values() if isinstance(rows, Rows))
        if self._pricing is None or (not call.online and rows > OFFLINE_ROWS):
            return None, not units.to_make
        from longform.llm.estimate import Estimator

        with ExitStack() as opened:
            estimators: dict[str, Estimator] = {}
            for endpoint in call.endpoints:
                store = None if endpoint.offline else self._pricing.store
                estimators[endpoint.name] = Estimator(endpoint, store, partial(self.retry.wants, call.name))
                opened.callback(estimators[endpoint.name].close)
            try:
                whole = [
                    walk(
                        self.store,
                        call.stage,
                        job,
                        lambda endpoint, request, _: estimators[endpoint.name].add(request),
                        lambda endpoint, texts: estimators[endpoint.name].embed(texts),
                    )
                    for job in units.to_make
                ]
            except NeedsReplies:
                return None, True
            return sum((estimator.estimate() for estimator in estimators.values()), Figures()), all(whole)

    def _costs_of_uncounted(
        self, call: StageCall, units: UnitsOfCall, jobs: list[Job], *, walked: bool, whole: bool
    ) -> Figures:
        """The sum of bounds, and of estimates if possible, of what `jobs`, the units that no dry run has counted, will
        ask.

        `walked`: dry runs of the other units to make were made. `whole`: they found all their requests. If `walked`
        and not `whole`, all figures but `cached` (0) are unknown.
        """
        if walked and not whole:
            return Figures(**{**UNKNOWN_FIGURES, "cached": 0})
        taken = units.rows_of([*units.finished, *units.to_make] if walked else units.finished)
        declared, total = call.stage.at_most.calls, Figures()
        for group, group_jobs in _by_group(call, jobs):
            sizes, rows_in = self._sizes(call, group_jobs, taken)
            most, about = bound(declared, sizes, rows_in), None
            about_in = self._rows_in(call, group, taken).about
            rate = None if about_in is None else self._rates.rate_for(call, group)
            if rate is not None and about_in is not None:
                most_about = bound(declared, *self._sizes(call, group_jobs, taken, of_about=True))
                about = rate.calls_about(about_in, min(most, most_about), taken[group, next(iter(call.inputs))])
            for endpoint in call.endpoints:
                kinds = call.stage.at_most.kinds_of(endpoint, sizes)
                own = most if kinds is None else min(most, sum(number for number, _ in kinds))
                total += (
                    calls_only(own, about)
                    if self._pricing is None or endpoint.offline
                    else self._pricing.bounded(call, endpoint, own, about, sizes)
                )
        return total


SUMMED = ("calls", "input_tokens_at_most", "output_tokens_at_most", "usd_at_most", "usd_batch_at_most")


def total(stages: Iterable[Planned]) -> dict[str, Any]:
    """The figures of all stages that would ask a model other than the offline one, summed; a sum is None if one of its
    figures is unknown.

    The estimates (`calls_about`, `usd`) and `exact`, whether all stages are exact, cover every such stage. The bounds
    (SUMMED: `calls`, tokens, USD) leave out stages with an unknown number of calls, or with an unknown bound of USD
    although the prices are known. `without` lists these: stage -> what has to be built before more is known, None if
    that is nothing.
    """
    asking = [planned for planned in stages if planned.endpoint and not planned.offline and planned.calls != 0]
    known = [p for p in asking if p.calls is not None and (p.unpriced or p.usd_at_most is not None)]
    return {
        **{name: _sum(known, name) for name in SUMMED},
        **{name: _sum(asking, name) for name in ("calls_about", "usd")},
        "exact": all(planned.exact for planned in asking),
        "without": {planned.stage: planned.waits_for for planned in asking if planned not in known},
    }


def _sum(stages: list[Planned], name: str) -> Any:
    """The sum of the figure `name` over these stages; None if it is unknown for one of them, 0 without stages."""
    figures = [getattr(planned, name) for planned in stages]
    return None if None in figures else sum(figures)


def _placeholders(call: StageCall, job: Job) -> list[Part]:
    """Parts with empty id and no rows in place of those that a unit will make. If it is unknown how the stage will
    divide the rows of a group, its part has the key `<group>/?`.
    """
    stage, first = call.stage, next(iter(job.inputs.values()))
    parts = (first.parts or []) if isinstance(first, Rows) else []
    unread = any(not part.id for part in parts)
    cut = all(CUT.fullmatch(part.key.split("/", 1)[1]) for part in parts)
    if stage.split_by or stage.max_rows_per_part or any(NOT_CUT in part.key for part in parts):
        keys = [
            f"{group}/{NOT_CUT}" for group in dict.fromkeys(map(group_of, [part.key for part in parts] or job.keys))
        ]
    elif stage.shape is Shape.GROUP and unread and not cut:
        keys = [f"{group_of(job.label)}/{NOT_CUT}"]
    else:
        keys = job.keys
    return [Part(stage.name, key, "", 0, 0, "") for key in keys]


def group_of_job(call: StageCall, job: Job) -> str:
    """The group that a unit belongs to; "" if it sees all rows."""
    return "" if call.stage.shape is Shape.ALL else group_of(job.label)


def _by_group(call: StageCall, jobs: Iterable[Job]) -> list[tuple[str, list[Job]]]:
    """(group, its jobs) for each group, in the order of its first job."""
    found: dict[str, list[Job]] = {}
    for job in jobs:
        found.setdefault(group_of_job(call, job), []).append(job)
    return list(found.items())


def _shortened(changes: list[str]) -> list[str]:
    """The changes of a recipe (`Recipe.differences`), those of inputs last and at most two of these; the others are
    counted.
    """
    inputs = [change for change in changes if change.startswith("its input")]
    others = [change for change in changes if change not in inputs]
    return [*others, *inputs[:2], *([f"{len(inputs) - 2} more inputs change"] if len(inputs) > 2 else [])]
