"""Predictions of other models, read from files: of long-form QA models, and of entailment models.

Answers to the test questions are scored against the revised answers of the test split (tables 9 and 14):

    {"question_id": "expertqa/…", "model": "a-7b", "prediction": "Tides are …", "config": "domain", "zero_shot": true}

`question`, the text, may replace `question_id`, and `text` may replace `prediction`; `config` defaults to random,
`zero_shot` to false. Only questions of that config's test split are scored; where the authors released some of these,
only they are.

ROUGE as the authors compute it: F measures without stemming, citation marks such as [1] left out of the reference (and
here of the prediction too: the paper's models wrote none). With more than one revised answer the mean is taken.

Entailments, e.g. of a model fine-tuned on the exported rows, are the second half of table 6:

    {"claim_id": "a_3f…#0", "model": "t5-expertqa", "label": 1}

`label` is 1 or true where the evidence supports the claim, else 0 or false. The table scores all such claims, and
separately those of the random split's test questions, since a model may be trained on the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson

from longform.artifacts.recipe import fingerprint
from longform.engine.stage import AllRows, AtMost, Rejected, Row, Rows, Shard, StageContext, stage
from longform.settings import qafacteval_models
from schemas.expertqa import ENTAILED, PREDICTIONS
from tasks.expertqa.answers.citations import without_marks
from tasks.expertqa.bank import GROUP, defect, first_fault, is_filled_text, jsonl_records
from tasks.expertqa.splits import RELEASED, folded
from tasks.metrics.qafacteval import PACKAGE, installed, load_scorer, qafacteval
from tasks.metrics.rouge import KINDS, rouge
from tasks.sources.files.inputs import open_files, raw_text
from tasks.sources.files.lines import read_lines
from tasks.sources.files.sizes import most_bytes, most_records

ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
CONFIGS = ("random", "domain")
SCORES = (*KINDS, "qafacteval")
LONGEST = 50_000
BATCH_ROWS = 64
LEAST_ENTAILMENT = '{"claim_id":"a","model":"a","label":1}'

Score = Callable[[Sequence[tuple[str, Sequence[str]]]], Sequence[float | None]]
open_predictions = partial(open_files, group="predictions", endings=ENDINGS)
open_entailments = partial(open_files, group=GROUP, endings=ENDINGS)


def scorer_of(models: Path | None) -> str | None:
    """The argument `scorer` of `read_predictions`: "qafacteval"; None if its package, the folder or one of its models
    is missing.

    `models`: the folder of QAFactEval's models.
    """
    return "qafacteval" if installed(models) else None


def why_no_qafacteval(models: Path | None, package: str = PACKAGE) -> str | None:
    """Why QAFactEval cannot run, as a clause of a message; None if it can. `models`: the folder of its models, None if
    none is set.
    """
    if find_spec(package) is None:
        return "its package is not installed"
    return None if installed(models, package) else "LONGFORM_QAFACTEVAL_MODELS names no folder with all its models"


@stage(PREDICTIONS, revision=2)
def read_predictions(
    context: StageContext, files: Shard, random: AllRows, domain: AllRows, *, scorer: str | None
) -> Iterator[Row | Rejected]:
    """Predicted answers to test questions with their scores, in the order of the file; a Rejected for lines that are
    no prediction, not for a test question, or repeated.

    `random`, `domain`: the published splits. QAFactEval scores are null if `scorer` is None or no folder of its models
    is set.
    """
    tests = {"random": references_of(random), "domain": references_of(domain)}
    models = qafacteval_models()
    score = partial(qafacteval, load_scorer(models)) if scorer and models else None
    yield from predictions(read_lines(files), tests, score)


@dataclass(frozen=True, slots=True)
class References:
    """The test questions of a split. `references`: question id -> its revised answers without citation marks.

    `ids`: question text, in lower case with single blanks -> id of the first question with this text.
    """

    references: dict[str, list[str]]
    ids: dict[str, str]


def references_of(rows: Rows) -> References:
    """The test questions of a published split that are scored (`scored_rows`), with their revised answers; both
    mappings are empty if there are none.
    """
    references: defaultdict[str, list[str]] = defaultdict(list)
    ids: dict[str, str] = {}
    for row in scored_rows(rows.as_dicts("question_id", "question", "answer", "split", "split_from")):
        references[row["question_id"]].append(without_marks(row["answer"]))
        ids.setdefault(folded(row["question"]), row["question_id"])
    return References(dict(references), ids)


def scored_rows(rows: Iterable[Row]) -> list[Row]:
    """Those of the rows, which have split and split_from, on whose questions models are scored: the test rows, and if
    some of these are on a released side, these alone.
    """
    tests = [row for row in rows if row["split"] == "test"]
    return [row for row in tests if row["split_from"] == RELEASED] or tests


def predictions(
    lines: Iterable[bytes], tests: Mapping[str, References], score: Score | None
) -> Iterator[Row | Rejected]:
    """Rows of PREDICTIONS with scores, in the order of the lines; a Rejected for lines that are no prediction, not for
    a test question, or a model's second one for a question. A Rejected may come before rows of earlier lines.

    `tests`: random and domain -> its test questions. `score`: QAFactEval; None leaves its column null.
    """
    seen: set[tuple[Any, ...]] = set()
    waiting: list[Row] = []
    for number, line in enumerate(lines, start=1):
        item = _prediction(line, number, tests)
        if isinstance(item, Rejected):
            yield item
            continue
        key = itemgetter("model", "zero_shot", "config", "question_id")(item)
        if key in seen:
            yield Rejected(f"line {number}", "filtered", "predicted before", detail=item["question_id"])
            continue
        seen.add(key)
        waiting.append(item)
        if len(waiting) == BATCH_ROWS:
            yield from _scored(waiting, tests, score)
            waiting = []
    yield from _scored(waiting, tests, score)


def _prediction(line: bytes, number: int, tests: Mapping[str, References]) -> Row | Rejected:
    """A row of PREDICTIONS without its scores; a Rejected if the line is no prediction, or its question is not in the
    test split of its config.

    `number`: that of the line, from 1. `tests`: random and domain -> its test questions.
    """
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
    """The first reason why a JSON value is no prediction: a missing or ill-formed field, or a text of more than
    LONGEST characters. None if it is one.
    """
    if not isinstance(record, dict):
        return "no record"
    text, model = record.get("prediction", record.get("text")), record.get("model")
    asked = [record[name] for name in ("question_id", "question") if record.get(name) is not None]
    faults = {
        "missing or ill-formed prediction": not isinstance(text, str),
        "missing or ill-formed model": not is_filled_text(model),
        "missing or ill-formed question": not asked or not all(map(is_filled_text, asked)),
        "config is neither random nor domain": (record.get("config") or "random") not in CONFIGS,
        "zero_shot is neither true nor false": not isinstance(record.get("zero_shot") or False, bool),
        f"prediction of more than {LONGEST:,} characters": len(str(text)) > LONGEST,
    }
    return first_fault(faults)


def _scored(rows: list[Row], tests: Mapping[str, References], score: Score | None) -> Iterator[Row]:
    """The rows, in order, with ROUGE and QAFactEval (null if `score` is None) against the revised answers of their
    questions; citation marks are left out of both texts.

    `tests`: random and domain -> its test questions.
    """
    pairs = [(without_marks(row["text"]), tests[row["config"]].references[row["question_id"]]) for row in rows]
    checked = score(pairs) if score and pairs else [None] * len(rows)
    for row, measures, fact in zip(rows, rouge(pairs), checked, strict=True):
        yield {**row, **measures, "qafacteval": fact}


# ---------------------------------------------------------------- entailments


@stage(ENTAILED, revision=1, at_most=AtMost(bytes=most_bytes("files"), rows=most_records("files", LEAST_ENTAILMENT)))
def read_entailments(context: StageContext, files: Shard, claims: AllRows) -> Iterator[Row | Rejected]:
    """Imported predictions of entailment models as rows of ENTAILED, in the order of the file.

    A Rejected for ill-formed records, claims that are not in `claims` (the published ones), and a model's second
    prediction for a claim. SourceError if the file is one JSON array or cannot be read.
    """
    known = {row["claim_id"] for row in claims.as_dicts("claim_id")}
    seen: set[tuple[str, str]] = set()
    for position, record in enumerate(jsonl_records(read_lines(files))):
        item = record if isinstance(record, Rejected) else entailed(record, position, known)
        if not isinstance(item, Rejected):
            key = (item["model"], item["claim_id"])
            if key in seen:
                item = Rejected(item["entailed_id"], "filtered", "predicted before")
            seen.add(key)
        yield item


def entailed(record: dict[str, Any], position: int, known: set[str]) -> Row | Rejected:
    """A row of ENTAILED; a Rejected if the record has no model, its label is neither 1 nor 0 (true and false count as
    these), or its claim is unknown.

    `position`: that of the record in its file, from 0. `known`: the ids of all published claims.
    """
    claim, model, label = (record.get(name) for name in ("claim_id", "model", "label"))
    if not is_filled_text(model):
        return defect(position, "missing or ill-formed model", str(record))
    if not isinstance(label, int | float) or label not in (0, 1):
        return defect(position, "label is neither 1 nor 0", str(record), repr(label)[:100])
    if not isinstance(claim, str) or claim not in known:
        return defect(position, "unknown claim", str(record), str(claim)[:100])
    row = {"claim_id": claim, "model": model, "attributable": bool(label)}
    return {"entailed_id": f"e_{fingerprint([model, claim])}", **row}
