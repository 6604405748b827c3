"""Drafts of one's own measured against their references, without building a dataset: what would be asked and what it
costs, and what each draft and each system is worth.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import model_validator

from flows.builds.console import on_one_line
from flows.builds.unpublished import ROWS_AT_ONCE, Kind, asking, plan_of, reading
from flows.config.endpoints import CeilingsConfig, check_keys, check_prices, endpoint_of, sampling
from flows.revision_distance import OFFLINE, RevisionDistanceConfig, prompts
from longform.artifacts.rows import Row, Rows, read_batches
from longform.artifacts.store import Store
from longform.engine.build import Build, Progress
from longform.engine.health import quote
from longform.engine.plan import Plan
from longform.engine.runners import ThreadRunner
from longform.engine.stage import Builder
from longform.engine.thread_tasks import SequentialStages
from longform.errors import GateError, SourceError, UsageError
from longform.llm.ask.types import Endpoint
from longform.llm.price import caps_of
from longform.llm.retry import Retry
from longform.settings import budget
from tasks.revision_distance.faults import CEILINGS
from tasks.revision_distance.own.files import Kept, keep
from tasks.revision_distance.own.stages import measure_drafts, read_own_drafts
from tasks.sources.files.inputs import open_files

if TYPE_CHECKING:
    import pandas as pd

    from tasks.revision_distance.own.summary import Summary

DATASET = "revision-distance"
KIND = Kind(DATASET, "measure", OFFLINE)
FOLDER = "measured"  # of the home: the drafts that were read, as JSON lines
EDITING, STAGE = "propose_edits", measure_drafts.name
HOPELESS = CeilingsConfig(
    refused=0.9, cut_off=0.9, unreadable=0.9, not_taken=0.9, degenerate=0.9, repeated=0.9, abstained=1.0, unchanged=1.0
)  # from here on nothing more is asked: single replies of no use cost single rows


class MeasureConfig(RevisionDistanceConfig):
    """The settings of the dataset that say which model lists edits, and how."""

    MODEL_STAGES: ClassVar = (*RevisionDistanceConfig.MODEL_STAGES, measure_drafts.name)

    @model_validator(mode="after")
    def editors_are_named(self) -> Self:
        """The settings unchanged; ValueError if they name the editor where they do not for a build."""
        if measure_drafts.name in self.stages and self.stages[measure_drafts.name].model:
            raise ValueError(f"stages.{measure_drafts.name} takes no model: name it in stages.{EDITING}, or --editor")
        return self

    def endpoint_name(self, stage: str) -> str | None:
        """As for a build; drafts are measured by the endpoint that lists edits there."""
        return super().endpoint_name(EDITING if stage == measure_drafts.name else stage)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for: the drafts of a file or folder, whose columns may have other names (`columns`: name ->
    theirs), by these editors (names of endpoints; none: that of the settings), `repeats` lists for each draft.
    """

    given: Path
    editors: Sequence[str] = ()
    repeats: int = 1
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured. `drafts`: rows of OWN_DRAFTS; `lists`: editor -> rows of MEASURED; `left_out`: what was not
    measured, each with stage, editor, key, kind, reason, detail and raw; `summary`: what is said of systems.
    """

    drafts: Rows
    lists: dict[str, Rows]
    left_out: list[Row]
    summary: Summary


def editors_of(asked: Asked, config: MeasureConfig) -> list[Endpoint]:
    """The endpoints that list edits, each once, with the sampling of the settings. UsageError for an unknown one."""
    names = dict.fromkeys(asked.editors or [str(config.endpoint_name(measure_drafts.name))])
    return [sampling(endpoint_of(name, config.endpoints), config.editor_parameters) for name in names]


def check(asked: Asked, config: MeasureConfig, *, priced: bool, send: bool) -> None:
    """Raise UsageError for an unknown editor, or if its price is unknown although there is a limit of cost (`priced`,
    or a budget); EndpointError if its key is not set and requests are to be sent (`send`).
    """
    names = [editor.name for editor in editors_of(asked, config)]
    if send:
        check_keys(names, config.endpoints)
    if priced or caps_of(DATASET, config.budget, budget()):
        check_prices(names, config.endpoints)


def kept(asked: Asked, home: Path) -> Kept:
    """The records of what is given, written into the home. Errors as of `keep`."""
    return keep(asked.given, home / FOLDER, asked.columns)


def method(builder: Builder, asked: Asked, config: MeasureConfig, given: Kept) -> tuple[Rows, dict[str, Rows]]:
    """Call the stages of a measurement in order: (drafts, name of an editor -> what its lists make of them)."""
    drafts, loaded = read(builder, given), prompts(config)
    return drafts, {
        editor.name: measure_drafts(
            builder,
            drafts,
            model=editor,
            to_reference=loaded["edit_to_reference"],
            freely=loaded["edit_freely"],
            repeats=asked.repeats,
            weights=config.weights,
        )
        for editor in editors_of(asked, config)
    }


def read(builder: Builder, given: Kept) -> Rows:
    """Call the stage that reads the drafts."""
    sources = open_files([given.path], group="own", endings=(".jsonl",), digest=builder.digests)
    return read_own_drafts(builder, sources, with_references=given.with_references)


def plan(asked: Asked, config: MeasureConfig, home: Path, given: Kept) -> Plan:
    """What a measurement of drafts that were read into the home would do for each stage, and what it costs; nothing is
    sent.
    """
    return plan_of(config, home, lambda builder: method(builder, asked, config, given))


def read_into(asked: Asked, home: Path, given: Kept, progress: Progress) -> None:
    """Read the drafts into the home. SourceError if none of them can be measured."""
    with reading(KIND, home, progress, runner=ThreadRunner()) as build:
        drafts = read(build, given)
        build.finish()
        if not drafts.count:
            reasons = {row["reason"]: row for row in _rejected(build.store, drafts)}
            told = on_one_line("; ".join(f"{reason} ({row['detail']})" for reason, row in reasons.items()))
            raise SourceError(f"{asked.given} holds no draft that can be measured: {told}.")


def measure(
    asked: Asked,
    config: MeasureConfig,
    home: Path,
    given: Kept,
    *,
    progress: Progress,
    ceilings: Mapping[str, float] = CEILINGS,
    max_cost: float | None = None,
    retry: Retry,
    accept: Collection[str] = (),
) -> Measured:
    """Measure the drafts, reusing what is there; waits until it is done. The error of a stage that failed is raised,
    GateError if nearly no reply is of use and `accept` does not name the stage; BusyError if another measurement is at
    work in this home. `ceilings`: as of `ranking`.
    """
    tasks = SequentialStages()  # the stages of several editors have one name
    config = config if "ceilings" in config.model_fields_set else config.model_copy(update={"ceilings": HOPELESS})
    with asking(
        KIND,
        config,
        home,
        tasks=tasks,
        progress=progress,
        max_cost=max_cost,
        retry=retry,
        accept=accept,
        runner=ThreadRunner(),  # which only reads: to start workers for it would take as long as hundreds of replies
    ) as build:
        drafts, lists = method(build, asked, config, given)
        build.finish()
        return _measured(build, drafts, lists, ceilings)


def _measured(build: Build, drafts: Rows, lists: dict[str, Rows], ceilings: Mapping[str, float]) -> Measured:
    """What the rows that were made say."""
    import pandas as pd

    from tasks.revision_distance.own.summary import FROM_DRAFTS, FROM_MEASURED, summary

    left_out = [{"stage": drafts.stage, "editor": None, **row} for row in _rejected(build.store, drafts)]
    for editor, rows in lists.items():
        left_out += [{"stage": rows.stage, "editor": editor, **row} for row in _rejected(build.store, rows)]
    frame: pd.DataFrame = pd.concat([rows.to_pandas(FROM_MEASURED) for rows in lists.values()], ignore_index=True)
    aligned = _aligned(drafts, {row["key"] for row in left_out if row["editor"] is not None})
    return Measured(drafts, lists, left_out, summary(drafts.to_pandas(FROM_DRAFTS), frame, ceilings, aligned))


def _aligned(drafts: Rows, wanted: Collection[str]) -> dict[str, int]:
    """draft_id -> the edits that the alignment needs to its nearest reference, of the drafts with these ids."""
    from tasks.revision_distance.drafts.corrected import ALIGNED_CHARACTERS, needed

    found: dict[str, int] = {}
    for row in drafts.as_dicts("draft_id", "draft", "references") if wanted else ():
        short = [each for each in row["references"] if len(row["draft"]) + len(each) <= ALIGNED_CHARACTERS]
        if row["draft_id"] in wanted and short:
            found[row["draft_id"]] = min(needed(row["draft"], each) for each in short)
    return found


def _rejected(store: Store, rows: Rows) -> Iterator[Row]:
    """What a stage rejected: key, kind, reason, detail and raw."""
    for part in rows.parts or ():
        if part.rejected:
            for batch in read_batches(store.rejected_path(part), ROWS_AT_ONCE):
                yield from batch.to_pylist()


def refuse_useless(found: Measured) -> None:
    """Raise GateError if no reply of an editor is a list of edits, or if it ranks no system, as too many are of no
    use.
    """
    for editor, rows in found.lists.items():
        lost = [row for row in found.left_out if row["editor"] == editor]
        if not rows.count and lost:
            raise GateError(
                f"No reply of {editor} is a list of edits ({len(lost):,} drafts; {lost[0]['reason']}, e.g. "
                f"{quote(lost[0]['raw'] or lost[0]['detail'])}): nothing is measured. Try it with `longform revise "
                f"--self-test {editor}`, name another --editor, or ask again with --retry-errors."
            )
    for editor, ranking in found.summary.rankings.items():
        if ranking.unranked and len(ranking.unranked) == len(ranking.systems):
            why = on_one_line("; ".join(f"{system}: {reason}" for system, reason in ranking.unranked.items()))
            raise GateError(
                f"No system is ranked by {editor}: {why}. Look at the drafts with these faults, try the editor with "
                f"`longform revise --self-test {editor}`, or let more of them pass, e.g. with --ceiling invalid=1."
            )


def ceilings_of(given: Sequence[str]) -> dict[str, float]:
    """CEILINGS with those of `fault=share` in place of its own. UsageError for an unknown fault, or no share."""
    found = dict(CEILINGS)
    for each in given:
        name, _, value = each.partition("=")
        try:
            share = float(value)
        except ValueError:
            share = -1.0
        if name not in found or not 0 <= share <= 1:
            raise UsageError(f"--ceiling {each}: give a fault ({', '.join(found)}) and a share, e.g. invalid=0.8.")
        found[name] = share
    return found
