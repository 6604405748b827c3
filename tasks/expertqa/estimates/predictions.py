"""Predictions of long-form QA models, scored against the revised answers of the test split (tables 9 and 14).

    {"question_id": "expertqa/…", "model": "a-7b", "prediction": "Tides are …", "config": "domain", "zero_shot": true}

`question`, the text, may replace `question_id`, and `text` may replace `prediction`; `config` defaults to random,
`zero_shot` to false. Only questions of that config's test split are scored.

ROUGE as the authors compute it: F measures without stemming, citation marks such as [1] left out of the reference (and
here of the prediction too: the paper's models wrote none). With more than one revised answer the mean is taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Source
from longform.engine.stage import AllRows, Rejected, Row, Rows, Shard, StageContext, stage
from longform.settings import qafacteval_models
from schemas.expertqa import PREDICTIONS
from tasks.expertqa.answers.citations import without_marks
from tasks.expertqa.estimates.longform_qa import folded
from tasks.metrics.qafacteval import PACKAGE, installed, load_scorer, qafacteval
from tasks.metrics.rouge import KINDS, rouge
from tasks.sources.files.found import open_files, raw_text
from tasks.sources.files.lines import read_lines

GROUP = "predictions"
ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
CONFIGS = ("random", "domain")
SCORES = (*KINDS, "qafacteval")
LONGEST = 50_000
BATCH_ROWS = 64


Score = Callable[[Sequence[tuple[str, Sequence[str]]]], Sequence[float | None]]


def open_predictions(paths: Iterable[str | Path], digest: Callable[[Path], str]) -> list[Source]:
    """The sources of these files of predictions."""
    return open_files(paths, group=GROUP, endings=ENDINGS, digest=digest)


def scorer_of(models: Path | None) -> str | None:
    """The argument `scorer` of `read_predictions`: "qafacteval", or None if its package or models are missing."""
    return "qafacteval" if installed(models) else None


def missing(models: Path | None, package: str = PACKAGE) -> str | None:
    """Reason why QAFactEval cannot run, as a clause of a message; None if it can."""
    if find_spec(package) is None:
        return "its package is not installed"
    return None if installed(models, package) else "LONGFORM_QAFACTEVAL_MODELS names no folder with all its models"


@stage(PREDICTIONS, revision=1)
def read_predictions(
    context: StageContext, files: Shard, random: AllRows, domain: AllRows, *, scorer: str | None
) -> Iterator[Row | Rejected]:
    """Predictions for test questions with their scores, in the order of the file. Without `scorer`, no QAFactEval."""
    tests = {"random": references_of(random), "domain": references_of(domain)}
    models = qafacteval_models()
    score = partial(qafacteval, load_scorer(models)) if scorer and models else None
    yield from predictions(read_lines(files), tests, score)


@dataclass(frozen=True, slots=True)
class References:
    """The test questions of a split.

    `references`: question id -> its revised answers without citation marks. `ids`: normalised question text -> id of
    the first question with this text.
    """

    references: dict[str, list[str]]
    ids: dict[str, str]


def references_of(rows: Rows) -> References:
    """The test questions of a split with their revised answers."""
    references: defaultdict[str, list[str]] = defaultdict(list)
    ids: dict[str, str] = {}
    for row in rows.only("question_id", "question", "answer", "split"):
        if row["split"] == "test":
            references[row["question_id"]].append(without_marks(row["answer"]))
            ids.setdefault(folded(row["question"]), row["question_id"])
    return References(dict(references), ids)


def predictions(
    lines: Iterable[bytes], tests: Mapping[str, References], score: Score | None
) -> Iterator[Row | Rejected]:
    """Rows of PREDICTIONS; a Rejected for lines that are no prediction, not of a test question, or repeated."""
    seen: set[tuple[Any, ...]] = set()
    waiting: list[Row] = []
    for number, line in enumerate(lines, start=1):
        item = _prediction(line, number, tests)
        if not isinstance(item, Rejected):
            key = tuple(item[name] for name in ("model", "zero_shot", "config", "question_id"))
            if key in seen:
                item = Rejected(f"line {number}", "filtered", "predicted before", detail=item["question_id"])
            seen.add(key)
        if isinstance(item, Rejected):
            yield item
            continue
        waiting.append(item)
        if len(waiting) == BATCH_ROWS:
            yield from _scored(waiting, tests, score)
            waiting = []
    yield from _scored(waiting, tests, score)


def _prediction(line: bytes, number: int, tests: Mapping[str, References]) -> Row | Rejected:
    """The row of PREDICTIONS without its scores; a Rejected if the line is no prediction for a test question."""
    key = f"line {number}"
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return Rejected(key, "defect", "unreadable line", str(error), raw_text(line))
    if reason := _why_no_prediction(record):
        return Rejected(key, "defect", reason, raw=raw_text(line))
    config, text = record.get("config") or "random", record.get("prediction", record.get("text"))
    test = tests[config]
    question = record.get("question_id") or test.ids.get(folded(record["question"]))
    if question not in test.references:
        return Rejected(key, "filtered", "not in the test split", detail=config, raw=raw_text(line))
    row = {
        "question_id": question,
        "model": record["model"],
        "zero_shot": record.get("zero_shot") or False,
        "config": config,
        "text": text,
    }
    return {"prediction_id": f"p_{fingerprint(row)}", **row}


def _why_no_prediction(record: Any) -> str | None:
    """Reason why a record is no prediction; None if it is one."""
    if not isinstance(record, dict):
        return "no record"
    text = record.get("prediction", record.get("text"))
    if not isinstance(text, str):
        return "missing or ill-formed prediction"
    if not isinstance(record.get("model"), str) or not record["model"].strip():
        return "missing or ill-formed model"
    asked = [record[name] for name in ("question_id", "question") if record.get(name) is not None]
    if not asked or not all(isinstance(value, str) and value.strip() for value in asked):
        return "missing or ill-formed question"
    if (record.get("config") or "random") not in CONFIGS:
        return "config is neither random nor domain"
    if not isinstance(record.get("zero_shot") or False, bool):
        return "zero_shot is neither true nor false"
    return f"prediction of more than {LONGEST:,} characters" if len(text) > LONGEST else None


def _scored(rows: list[Row], tests: Mapping[str, References], score: Score | None) -> Iterator[Row]:
    pairs = [(without_marks(row["text"]), tests[row["config"]].references[row["question_id"]]) for row in rows]
    checked = score(pairs) if score and pairs else [None] * len(rows)
    for row, measures, fact in zip(rows, rouge(pairs), checked, strict=True):
        yield {**row, **measures, "qafacteval": fact}
