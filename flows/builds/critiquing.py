"""Feedback on texts of one's own by criteria of one's own, without building a dataset: what would be asked and what it
costs, and the feedback itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from flows.config.endpoints import batched, ceilings_of_stages, check_batches, unbatched
from flows.llmcrit import OFFLINE, LLMCritConfig, embedding_of, endpoints_by_stage, prompts, rubric
from longform.artifacts.rows import Row, Rows, Source, grouped
from longform.artifacts.store import Store
from longform.engine.build import Build, Progress, Tasks
from longform.engine.plan import Plan
from longform.engine.runners import Processes
from longform.engine.stage import Builder, Method
from longform.errors import UsageError
from longform.llm.models import Models
from longform.llm.price import caps_of
from longform.llm.retry import Retry
from longform.settings import budget, responses
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
from tasks.sources.files.inputs import open_files

DATASET, LOCK = "llmcrit", "critique"


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


def method(builder: Builder, asked: Asked, config: LLMCritConfig) -> Tables:
    """Call the stages of a critique in order."""
    task, prompt, model = task_of(asked), prompts(config), endpoints_by_stage(config)
    voices = {task.name: {"role": task.role, "noun": task.noun}}
    guided, released = opened(asked, task, builder)
    documents = read_guidelines(builder, guided)
    proposed = propose_criteria(
        builder, documents, model=model["propose_criteria"], prompt=prompt["propose_criteria"], voices=voices
    )
    aspects = collect_aspects(builder, documents, released_aspects(builder, released))
    criteria = distinct_criteria(builder, proposed, released_criteria(builder, released), similar=config.similar)
    shown = released_demonstrations(builder, released)
    texts = own_texts(builder, open_texts([(task.name, [asked.file])], builder.digests))
    given = give_feedback(
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
    feedback = choose_feedback(builder, given, texts, criteria, embedding=embedding_of(config))
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


def plan(asked: Asked, config: LLMCritConfig, home: Path) -> Plan:
    """What a critique would do for each stage, and what it costs; nothing is sent. Errors as by `method`."""
    check_batches(config)
    declared = Method(Store(home))
    method(declared, asked, config)
    planned = Plan(declared.store, responses=responses(home), unbatched=unbatched(config))
    with closing(planned):
        planned.plan_all(declared)
    return planned


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
    store = Store(home)
    store.prepare()
    with store.lock(LOCK):
        store.sweep()
        models = Models(
            responses(home),
            home=home,
            max_cost=max_cost,
            caps=caps_of(DATASET, config.budget, budget()),
            retry=retry,
            failed_runs=config.failed_runs,
            run=f"critique-{time.time_ns()}-{os.getpid()}",
            dataset=DATASET,
            offline=OFFLINE,
            say=progress.say,
        )
        online = {stage for stage, then in unbatched(config).items() if then == "online"}
        build = Build(
            store, tasks=tasks, runner=Processes(), progress=progress, models=models, batch=batched(config),
            unbatched_online=online, ceilings=ceilings_of_stages(config),
        )  # fmt: skip
        try:
            tables = method(build, asked, config)
            build.finish()
            build.digests.keep()
            return tables, build
        finally:
            build.close()


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


def _verdicts(rows: Rows | None) -> dict[str, str]:
    """feedback id -> the verdict of a layer; {} without it."""
    return {row["feedback_id"]: row["verdict"] for row in rows or ()}


def _shown(names: dict[str, str], row: Row, *columns: str) -> dict[str, Any]:
    """These columns of a row, with the label of its criterion first."""
    return {"criterion": names.get(row["criterion_id"]), **{name: row[name] for name in columns}}
