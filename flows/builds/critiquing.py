"""Feedback on texts of one's own by criteria of one's own, without building a dataset: what would be asked and what it
costs, and the feedback itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from flows.builds import unpublished
from flows.builds.unpublished import asking, plan_of, reading
from flows.config.endpoints import check_batches
from flows.llmcrit import OFFLINE, OWN_GROUPS, LLMCritConfig, embedding_of, endpoints_by_stage, prompts, rubric
from longform.artifacts.rows import Row, Rows, Source, grouped
from longform.artifacts.store import Store
from longform.engine.build import Build, Progress, Tasks
from longform.engine.plan import Plan
from longform.engine.stage import Builder
from longform.errors import SourceError, UsageError
from longform.llm.retry import Retry
from tasks.llmcrit.criteria.criteria import distinct_criteria, label, propose_criteria
from tasks.llmcrit.criteria.guidelines import collect_aspects, read_guidelines
from tasks.llmcrit.criteria.released import (
    ENDINGS,
    has_demonstrations,
    released_aspects,
    released_criteria,
    released_demonstrations,
)
from tasks.llmcrit.feedback.feedback import BASE, CRIT, choose_feedback, give_feedback
from tasks.llmcrit.feedback.layers import judge_context, judge_critiques, judge_validity
from tasks.llmcrit.feedback.planted import mix_planted, plant_feedback
from tasks.llmcrit.task import FILE, GUIDELINES, Texts, WritingTask, load_task
from tasks.llmcrit.texts.draw import open_texts, own_texts
from tasks.sources.admission import listed_in
from tasks.sources.files.inputs import open_files

KIND = unpublished.Kind("llmcrit", "critique", OFFLINE)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for: feedback on the texts of a file, by criteria in a file or folder, by a strategy; with `layers`
    each feedback is judged as well. `noun`, `role`: what the texts are, and who gives feedback, where that is not
    in a task's folder.
    """

    file: Path
    criteria: Path
    strategy: str
    layers: bool
    noun: str | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class Tables:
    """The rows that a critique makes; `validity`, `belongs` and `critiques` are None without layers."""

    texts: Rows
    aspects: Rows
    criteria: Rows
    feedback: Rows
    validity: Rows | None = None
    belongs: Rows | None = None
    critiques: Rows | None = None


def task_of(asked: Asked) -> WritingTask:
    """The task by whose words is asked: that of a folder with a task.toml, else one made of `noun` and `role`."""
    texts = Texts(source="files", paths=[str(asked.file)])
    given = {name: value for name in ("noun", "role") if (value := getattr(asked, name))}
    if (asked.criteria / FILE).is_file():
        return load_task(asked.criteria).model_copy(update=given)
    return WritingTask(name="own", folder=asked.criteria, texts=texts, **given)


def opened(asked: Asked, task: WritingTask, builder: Builder) -> tuple[list[Source], list[Source]]:
    """(guideline documents, files of criteria) in what `criteria` names: one of the two is empty. UsageError if it is
    not there, or if the strategy needs demonstrations and there are none.
    """
    place = asked.criteria
    if not place.exists():
        raise UsageError(f"{place} does not exist: --criteria takes a file of criteria, or a folder.")
    guided = place.is_dir() and not task.criteria and (place / GUIDELINES).is_dir()
    own = task.guidelines if guided else task.criteria if place.is_dir() and task.criteria else [place]
    endings = (".md",) if guided else ENDINGS
    sources = open_files(own, group=task.name, endings=endings, digest=builder.digests)
    if asked.strategy not in (BASE, CRIT) and (guided or not has_demonstrations(sources)):
        raise UsageError(
            f"--strategy {asked.strategy} shows demonstrations, and {place} has none: take --strategy crit, or a file "
            "of criteria with demonstrations."
        )
    return (sources, []) if guided else ([], sources)


@dataclass(frozen=True, slots=True)
class Read:
    """The rows of what a critique reads, for which no model is asked; `criteria` is None if a model is to derive them
    from guideline documents (`documents`).
    """

    documents: Rows
    aspects: Rows
    released: Rows
    demonstrations: Rows
    texts: Rows
    criteria: Rows | None


def read(builder: Builder, asked: Asked, config: LLMCritConfig) -> Read:
    """Call the stages that read the texts and the criteria of a critique."""
    task = task_of(asked)
    guided, released = opened(asked, task, builder)
    documents = read_guidelines(builder, guided)
    aspects = collect_aspects(builder, documents, released_aspects(builder, released))
    imported = released_criteria(builder, released)
    shown = released_demonstrations(builder, released)
    files, taken_down = (
        open_texts([(task.name, [asked.file])], builder.digests),
        listed_in(builder.store.home, OWN_GROUPS),
    )
    texts = own_texts(builder, files, **taken_down)
    criteria = None if guided else criteria_of(builder, documents, imported, task, config)
    return Read(documents, aspects, imported, shown, texts, criteria)


def criteria_of(builder: Builder, documents: Rows, imported: Rows, task: WritingTask, config: LLMCritConfig) -> Rows:
    """Call the stages that make the criteria: of guideline documents, for which a model is asked, and imported ones."""
    proposed = propose_criteria(
        builder,
        documents,
        model=endpoints_by_stage(config)["propose_criteria"],
        prompt=prompts(config)["propose_criteria"],
        voices={task.name: {"role": task.role, "noun": task.noun}},
    )
    return distinct_criteria(builder, proposed, imported, similar=config.similar)


def method(builder: Builder, asked: Asked, config: LLMCritConfig) -> Tables:
    """Call the stages of a critique in order."""
    task, prompt, model = task_of(asked), prompts(config), endpoints_by_stage(config)
    voices = {task.name: {"role": task.role, "noun": task.noun}}
    given = read(builder, asked, config)
    texts, aspects, shown = given.texts, given.aspects, given.demonstrations
    criteria = given.criteria or criteria_of(builder, given.documents, given.released, task, config)
    samples = give_feedback(
        builder,
        texts,
        aspects,
        criteria,
        shown,
        model=model["give_feedback"],
        prompts={asked.strategy: prompt[f"feedback_{asked.strategy}"]},
        voices=voices,
        samples=config.samples,
        single=[],
    )
    feedback = choose_feedback(builder, samples, texts, criteria, embedding=embedding_of(config))
    if not asked.layers:
        return Tables(texts, aspects, criteria, feedback)
    none = plant_feedback(builder, texts, texts, criteria, number=0, nouns={task.name: task.noun}, seed=config.seed)
    mixed = mix_planted(builder, feedback, none)
    by = {task.name: rubric(task)}
    validity = judge_validity(
        builder, mixed, model=model["judge_validity"], prompt=prompt["judge_validity"], rubrics=by
    )
    belongs = judge_context(
        builder, mixed, validity, texts,
        model=model["judge_context"], prompt=prompt["judge_context"], rubrics=by,
    )  # fmt: skip
    critiques = judge_critiques(
        builder, mixed, belongs, texts, criteria,
        model=model["judge_critiques"], prompt=prompt["judge_critique"], rubrics=by,
    )  # fmt: skip
    return Tables(texts, aspects, criteria, feedback, validity, belongs, critiques)


def plan(asked: Asked, config: LLMCritConfig, home: Path, progress: Progress) -> Plan:
    """What a critique would do for each stage, and what it costs; nothing is sent, but texts and criteria are read into
    the home, so that the price is that of these. Errors as by `method`.
    """
    check_batches(config)
    read_into(asked, config, home, progress)
    return plan_of(config, home, lambda builder: method(builder, asked, config))


def read_into(asked: Asked, config: LLMCritConfig, home: Path, progress: Progress) -> None:
    """Build what a critique reads. Errors as by `method`; SourceError for a file of texts without a usable one."""
    with reading(KIND, home, progress) as build:
        texts = read(build, asked, config).texts
        build.finish()
    if not texts.count:
        reasons = [row["reason"] for row in left_out(build.store, build) if row["stage"] == "own_texts"]
        told = ", ".join(f"{number:,} {reason}" for reason, number in Counter(reasons).items())
        raise SourceError(f"{asked.file} holds no text that can be used ({told or 'it is empty'}).")


def critique(
    asked: Asked,
    config: LLMCritConfig,
    home: Path,
    *,
    tasks: Tasks,
    progress: Progress,
    max_cost: float | None = None,
    retry: Retry,
) -> tuple[Tables, Build]:
    """Make the feedback, reusing what is there; waits until it is made. The error of a stage that failed is raised;
    BusyError if another critique is at work in this home.
    """
    with asking(KIND, config, home, tasks=tasks, progress=progress, max_cost=max_cost, retry=retry) as build:
        tables = method(build, asked, config)
        build.finish()
    return tables, build


def records(tables: Tables) -> Iterator[Row]:
    """A record for each feedback, text by text: ids, aspect, strategy, feedback, its remarks with their criteria, and
    what the layers say (`validity`, `context`, `critiques`; None where a layer did not judge it).
    """
    names = {row["criterion_id"]: label(row) for row in tables.criteria}
    aspects = {row["aspect_id"]: row["name"] for row in tables.aspects.as_dicts("aspect_id", "name")}
    valid, matches = (_verdicts(rows) for rows in (tables.validity, tables.belongs))
    judged = grouped(tables.critiques or (), "feedback_id")
    for row in tables.feedback:
        of = partial(_shown, names)
        yield {
            "text": row["text_id"].split("/own/", 1)[-1],
            "aspect": aspects.get(row["aspect_id"]),
            "strategy": row["strategy"],
            "feedback": row["feedback"],
            "remarks": [of(each, "by", "text") for each in row["remarks"]],
            "validity": valid.get(row["feedback_id"]),
            "context": matches.get(row["feedback_id"]),
            "critiques": [of(each, "extraction", "constructive", "helpful") for each in judged[row["feedback_id"]]],
            "model": row["model"],
            "response": row["response"],
        }


def left_out(store: Store, build: Build) -> list[Row]:
    """What the stages of a critique left out, each with `stage`, `key`, `reason` and `detail`."""
    return unpublished.left_out(store, build, but=("plant_feedback",))


def _verdicts(rows: Rows | None) -> dict[str, str]:
    """feedback id -> the verdict of a layer; {} without it."""
    return {row["feedback_id"]: row["verdict"] for row in rows or ()}


def _shown(names: dict[str, str], row: Row, *columns: str) -> dict[str, Any]:
    """These columns of a row, with the label of its criterion first."""
    return {"criterion": names.get(row["criterion_id"]), **{name: row[name] for name in columns}}
