"""Scorers held against a published version of the axioms dataset: what would be asked and what it costs, the scores,
and how well they rank and prefer. Nothing is published.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import model_validator

from flows.axioms import OFFLINE, AxiomsConfig
from flows.builds.unpublished import ROWS_AT_ONCE, Kind, asking, plan_of, reading
from flows.config.endpoints import batched, check_keys, check_prices, endpoint_of
from flows.config.prompts import PROMPTS
from longform.artifacts.rows import Row, Rows, read_batches
from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from longform.engine.build import Build, Progress
from longform.engine.plan import Plan
from longform.engine.stage import Builder, Method
from longform.engine.thread_tasks import SequentialStages
from longform.errors import SourceError, UsageError
from longform.hints import hint
from longform.llm.ask.prompts import load_prompt, prompt_folders
from longform.llm.offline import ENDPOINT as OFFLINE_ENDPOINT
from longform.llm.price import caps_of
from longform.llm.retry import Retry
from longform.settings import budget
from tasks.axioms.judging.requests import JUDGE_PROMPTS
from tasks.axioms.scoring.evaluate import evaluate
from tasks.axioms.scoring.files import read_scores
from tasks.axioms.scoring.kinds import kinds_of
from tasks.axioms.scoring.reading import CONFIGS, SETS, items_of, read_groups, sets_in, sources_of
from tasks.axioms.scoring.scorers import Scorer, scorer_of
from tasks.axioms.scoring.stages import count_words, score_answers, score_by_bm25, score_rows

if TYPE_CHECKING:
    import pandas as pd

DATASET = "axioms"
KIND = Kind(DATASET, "evaluate", OFFLINE)
ANSWER = "answers.list.element.answer_id"
NOT_ASKED = "in the file, not asked for"
SCORE_COLUMNS = ("set", "question_id", "answer_id", "evidence", "score", "scorer")


class EvaluationConfig(AxiomsConfig):
    """The settings of an evaluation: those of the dataset that say which models are asked, and how."""

    MODEL_STAGES: ClassVar = (*AxiomsConfig.MODEL_STAGES, score_answers.name)

    @model_validator(mode="after")
    def judges_are_named_by_scorers(self) -> Self:
        """The settings unchanged; ValueError if they say which endpoint scores."""
        if score_answers.name in self.stages and self.stages[score_answers.name].model:
            raise ValueError(f"stages.{score_answers.name} takes no model: --scorer judge:ENDPOINT says who judges")
        return self

    def endpoint_name(self, stage: str) -> str | None:
        """As for a build; the offline one for the stage that scores, whose endpoints the scorers name."""
        return OFFLINE_ENDPOINT.name if stage == score_answers.name else super().endpoint_name(stage)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for: `scorers`, as the command line names them, on these sets of a version (None: on those it
    has), `limit` questions of each (None: all).
    """

    scorers: Sequence[str]
    version: Version
    sets: Sequence[str] | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """What an evaluation made. `scores`: SCORE_COLUMNS; `kinds`: as from `kinds_of`; `scorers`: whose scores they are;
    `metrics`: as from `evaluate`; `left_out`: scorer, set, reason, number of answers; `absent`: the sets that the
    version does not have, with the config that would hold them. `groups`: how many were scored; `offline`: the offline
    model is a judge; `gates`: what was found of the replies of real judges.
    """

    scores: pd.DataFrame
    kinds: pd.DataFrame
    scorers: Sequence[Scorer]
    metrics: pd.DataFrame
    left_out: list[Row]
    absent: dict[str, str]
    groups: int
    offline: bool
    gates: list[str]


def sets_of(asked: Asked) -> tuple[dict[str, list[Path]], dict[str, str]]:
    """(set -> its files, set that the version does not have -> the config that would hold it), of those asked for.
    UsageError for an unknown set, or if there is none.
    """
    wanted = asked.sets or SETS
    for name in wanted:
        if name not in SETS:
            raise UsageError(f'There is no set "{name}" to score; {hint(name, SETS, "there are")}')
    found = {name: paths for name, paths in sets_in(asked.version).items() if name in wanted}
    absent = {name: CONFIGS[name] for name in wanted if name not in found}
    if not found:
        there = ", ".join(sets_in(asked.version)) or "none"
        raise UsageError(
            f"{DATASET} {asked.version.name} has no row of {', '.join(wanted)}; it has the sets {there}: build it with "
            "the sources that they need, or choose others with --sets."
        )
    return found, absent


def scorers_of(asked: Asked, config: EvaluationConfig, builder: Builder) -> list[Scorer]:
    """The scorers that are asked for. UsageError if one cannot be used, or two have the same name."""
    endpoints = {name: endpoint_of(name, config.endpoints) for name in (OFFLINE_ENDPOINT.name, *config.endpoints)}
    folders = prompt_folders(config.prompts, PROMPTS)
    prompts = {name: load_prompt(f"{DATASET}/{name}", *folders) for name in JUDGE_PROMPTS if "pairwise" not in name}
    found = [scorer_of(text, endpoints, builder.digests, prompts) for text in asked.scorers]
    for name, times in Counter(each.name for each in found).items():
        if times > 1:
            raise UsageError(f'{times} scorers are called "{name}": name each once, and rename a file or folder.')
    if score_answers.name in batched(config):
        for scorer in found:
            if scorer.endpoint and not scorer.endpoint.offline and "batch" not in scorer.endpoint.capabilities:
                raise UsageError(
                    f'{score_answers.name} is in batch mode, but the endpoint "{scorer.endpoint.name}" does not '
                    f'declare batches: add "batch" to its capabilities, or set mode = "online".'
                )
    return found


def check(asked: Asked, config: EvaluationConfig, home: Path, *, priced: bool, send: bool) -> None:
    """Raise UsageError if a scorer or set cannot be used, or the price of a judge is unknown although there is a limit
    of cost (`priced`, or a budget); EndpointError if its key is not set and requests are to be sent (`send`).
    """
    sets_of(asked)
    scorers = scorers_of(asked, config, Method(Store(home)))
    judges = [scorer.endpoint.name for scorer in scorers if scorer.endpoint]
    if send:
        check_keys(judges, config.endpoints)
    if priced or caps_of(DATASET, config.budget, budget()):
        check_prices(judges, config.endpoints)


def method(builder: Builder, asked: Asked, config: EvaluationConfig) -> tuple[Rows, dict[str, Rows]]:
    """Call the stages of an evaluation in order: (groups, name of a scorer -> its scores)."""
    scorers = scorers_of(asked, config, builder)
    groups = read(builder, asked)
    return groups, {scorer.name: _scores(builder, groups, scorer, config) for scorer in scorers}


def read(builder: Builder, asked: Asked) -> Rows:
    """Call the stage that reads what is scored."""
    return read_groups(builder, sources_of(asked.version, sets_of(asked)[0], asked.limit))


def _scores(builder: Builder, groups: Rows, scorer: Scorer, config: EvaluationConfig) -> Rows:
    """Call the stages that score by one scorer."""
    if scorer.kind == "bm25":
        return score_by_bm25(builder, groups, count_words(builder, groups), scorer=scorer)
    return score_answers(
        builder,
        groups,
        scorer=scorer,
        model=scorer.endpoint,
        prompt=scorer.prompt,
        encoder=scorer.encoder,
        characters=config.text_characters,
        seed=config.seed,
    )


def plan(asked: Asked, config: EvaluationConfig, home: Path, progress: Progress) -> Plan:
    """What an evaluation would do for each stage, and what it costs; nothing is sent, but what is scored is read into
    the home, so that the price is that of it. Errors as by `method`.
    """
    with reading(KIND, home, progress) as build:
        scorers_of(asked, config, build)
        read(build, asked)
        build.finish()
    return plan_of(config, home, lambda builder: method(builder, asked, config))


def score(
    asked: Asked,
    config: EvaluationConfig,
    home: Path,
    *,
    progress: Progress,
    max_cost: float | None = None,
    retry: Retry,
    accept: Collection[str] = (),
) -> Scored:
    """Score and measure, reusing what is there; waits until it is done. The error of a stage that failed is raised,
    GateError if a judge's replies are of too little use and `accept` does not name its stage; SourceError if nothing
    has a score; BusyError if another evaluation is at work in this home.
    """
    tasks = SequentialStages()  # each scorer's stage has the same name
    with asking(
        KIND, config, home, tasks=tasks, progress=progress, max_cost=max_cost, retry=retry, accept=accept
    ) as build:
        groups, scores = method(build, asked, config)
        build.finish()
        return measured(asked, config, build, groups, scores)


def measured(asked: Asked, config: EvaluationConfig, build: Build, groups: Rows, scores: dict[str, Rows]) -> Scored:
    """The scores of the rows that were made, and how well they rank and prefer. SourceError if nothing has a score."""
    import pandas as pd

    files, absent = sets_of(asked)
    columns = ["scorer", *SCORE_COLUMNS[:-1]]
    found = pd.concat(
        [pd.DataFrame(score_rows(rows, name), columns=columns) for name, rows in scores.items()], ignore_index=True
    )
    scorers = scorers_of(asked, config, build)
    left_out = list(_left_out(build.store, groups, scores)) + list(_unknown(groups, scorers))
    if not len(found):
        reasons = ", ".join(_left_out_reason(row) for row in left_out) or "there is nothing to score"
        raise SourceError(f"No answer has a score: {reasons}.")
    metrics = evaluate(found, **_items(files, groups))
    offline = any(scorer.endpoint is not None and scorer.endpoint.offline for scorer in scorers)
    gates = [gate.sentence for gate in build.gates]
    known = found[list(SCORE_COLUMNS)]
    return Scored(known, kinds_of(files), scorers, metrics, left_out, absent, groups.count, offline, gates)


def _left_out_reason(row: Row) -> str:
    """How many of a set have no score, by which scorer and why: "mine.csv: 3 of eli5 no score in the file"."""
    place = f" of {row['set']}" if row["set"] else ""
    return f"{row['scorer']}: {row['number']:,}{place} {row['reason']}"


def _items(files: dict[str, list[Path]], groups: Rows) -> dict[str, pd.DataFrame]:
    """`ranking` and `pairs` of `evaluate`, of the questions that were read; a table without a row is left out."""
    import pandas as pd

    asked = pd.DataFrame(groups.as_dicts("set", "question_id"), columns=["set", "question_id"]).drop_duplicates()
    by_kind: dict[str, list[pd.DataFrame]] = {}
    for name, paths in files.items():
        items = items_of(name, paths)
        by_kind.setdefault("ranking" if "gain" in items.columns else "pairs", []).append(items)
    joined = {kind: pd.concat(frames, ignore_index=True) for kind, frames in by_kind.items()}
    return {kind: frame.merge(asked, on=["set", "question_id"]) for kind, frame in joined.items()}


def _left_out(store: Store, groups: Rows, scores: dict[str, Rows]) -> Iterator[Row]:
    """(scorer, set, reason, number of answers) for what has no score."""
    answers = {row["group_id"]: (row["set"], len(row["answers"])) for row in groups.as_dicts("group_id", "set", ANSWER)}
    for name, rows in scores.items():
        counted = Counter[tuple[str, str]]()
        for part in rows.parts or ():
            if part.rejected:
                for batch in read_batches(store.rejected_path(part), ROWS_AT_ONCE):
                    for row in batch.to_pylist():
                        of_set, number = answers[row["key"]]
                        counted[of_set, row["reason"]] += number
        for row in rows.as_dicts("set", "scores"):
            counted.update((row["set"], each["reason"]) for each in row["scores"] if each["score"] is None)
        for (of_set, reason), number in sorted(counted.items()):
            yield {"scorer": name, "set": of_set, "reason": reason, "number": number}


def _unknown(groups: Rows, scorers: Sequence[Scorer]) -> Iterator[Row]:
    """How many scores of each file are of answers that were not asked for."""
    files = [(scorer.name, scorer.path, scorer.digest) for scorer in scorers if scorer.path and scorer.digest]
    if not files:
        return
    asked = {
        (row["question_id"], each["answer_id"])
        for row in groups.as_dicts("question_id", ANSWER)
        for each in row["answers"]
    }
    for name, path, digest in files:
        if unknown := read_scores(path, digest).unknown(asked):
            example = " ".join(unknown[0])
            yield {"scorer": name, "set": "", "reason": f"{NOT_ASKED} (e.g. {example})", "number": len(unknown)}
