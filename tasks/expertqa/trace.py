"""The trace of a published ExpertQA row: its answer, model calls, claims, evidence, labels and stages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from tasks.expertqa.vocabulary import LABELLED
from tasks.publishing.lineage import (
    Line,
    Record,
    calls_of,
    lines_on_model,
    published_row,
    rows_where,
    short,
    stage_rows_where,
    traced,
)

MADE_BY = {"random": "split_randomly", "domain": "split_by_field", "claims": "publish_claims"}
ANSWERS_BY, REVISED_BY = "collect_answers", "revise_answers"
WRITTEN_BY = {"person": "a person", "claims": "a person's claims, put together", "model": "a model"}


def trace(store: Store, version: Version, row_id: str) -> dict[str, Any]:
    """The published row with this id, or the only one whose id begins with `row_id`, and what it was made from. Keys:
    `config`, `row`, `answer` and `revised` (stage rows, or None), `claims` (the published claims of its answer, or the
    claim alone), `calls` (response key -> call), `stages` and `lines` of (title, text) to print.

    UsageError if no row, or more than one, has such an id; StoreError if the rows of a stage are no longer stored.
    """
    config, row = published_row(version, row_id)
    answer = _stage_row(store, version, ANSWERS_BY, row["answer_id"])
    revised = _stage_row(store, version, REVISED_BY, row["answer_id"])
    published = version.tables().get("claims", [])
    own = rows_where(published, "answer_id = ? ORDER BY position", row["answer_id"]) if config != "claims" else [row]
    calls = calls_of(store, [made["response"] for made in (answer, revised) if made and made["response"]])
    lines = [*_head(config, row), *_answer(row, answer, calls), *_revision(row, revised, calls)]
    lines += (line for claim in own for line in _claim(claim))
    shown = {"config": config, "row": row, "answer": answer, "revised": revised, "claims": own, "calls": calls}
    return traced(store, version, MADE_BY[config], lines, **shown)


# ---------------------------------------------------------------- looking up


def _stage_row(store: Store, version: Version, stage: str, answer_id: str) -> Record | None:
    """The row of a stage for this answer, without its columns `original` and `claims` (released JSON); None if the
    version has no such stage or the stage no such row. StoreError if the stage's rows are no longer stored.
    """
    found = stage_rows_where(store, version, stage, "answer_id = ? LIMIT 1", answer_id)
    return {name: value for name, value in found[0].items() if name not in ("original", "claims")} if found else None


# ---------------------------------------------------------------- lines to print


def _head(config: str, row: Record) -> Iterator[Line]:
    """The lines to print of the row itself and its question. `config`: random, domain or claims."""
    key = row["claim_id"] if config == "claims" else row["row_id"]
    side = f"split {row['split']}" if config != "claims" else f"random {row['random_split'] or 'in no split'}"
    yield "row", f"{key}   {config}   {side}"
    about = " · ".join([row["field"], *row["question_types"], row["licence"] or "licence unknown"])
    yield "question", f'{row["question_id"]}   "{short(row["question"])}"   {about}'


def _answer(row: Record, answer: Record | None, calls: dict[str, Record]) -> Iterator[Line]:
    """The lines to print of the answer: its text, and the model call that wrote it, if stored. `row`: the published
    row. `answer`: its stage row, None if there is none. `calls`: response key -> call.
    """
    kind = f"   {answer['kind']}" if answer else ""
    text = short(row["original_answer"] if "original_answer" in row else row["answer"])
    yield "answer", f'{row["answer_id"]}   {row["system"]}{kind}   "{text}"'
    yield from lines_on_model(answer, calls)


def _revision(row: Record, revised: Record | None, calls: dict[str, Record]) -> Iterator[Line]:
    """The lines to print of the revised answer and who wrote it; none if it was not revised. `revised`: its stage row.
    `calls`: response key -> call.
    """
    if revised is None:
        return
    who = f" ({revised['annotator_id']})" if revised["annotator_id"] else ""
    text = short(revised["text"])
    yield "revised", f'{revised["revised_id"]}   by {WRITTEN_BY[revised["revised_by"]]}{who}   "{text}"'
    yield from lines_on_model(revised, calls)


def _claim(claim: Record) -> Iterator[Line]:
    """The lines to print of a published claim: its text, evidence, labels and estimates."""
    labels = [f"{name} {claim[name]}" for name in LABELLED if claim[name]]
    who = f" (by {claim['annotator_id']})" if labels else ""
    yield f"claim {claim['position'] + 1}", f'"{short(claim["claim"])}"'
    for number, (text, url) in enumerate(zip(claim["evidence"], claim["evidence_urls"], strict=True), start=1):
        words = "" if text == url else f'"{short(text)}"'
        yield "  evidence", "   ".join(part for part in (f"[{number}]", url, words) if part)
    yield "  labels", f"{', '.join(labels) or 'none'}{who}"
    yield "  estimate", ", ".join(_estimates(claim))


def _estimates(claim: Record) -> Iterator[str]:
    """Two phrases on a published claim: its AutoAIS verdict and its FActScore, each with its judge if it has one."""
    entailed = {True: "supported", False: "not supported", None: "no evidence"}[claim["autoais"]]
    yield f"AutoAIS {entailed}" + (f" by {claim['autoais_backend']}" if claim["autoais_backend"] else "")
    score, judge = claim["fact_score"], claim["fact_score_model"]
    yield "FActScore not scored" if score is None else f"FActScore {score:.2f} by {judge}"
