"""Baseline metrics of each draft against its reference (table 2): ROUGE, BERTScore and GPT-Score, a model's rating.

The paper prints mean ratings from 0 to 100 without prompt or scale: both are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from longform.artifacts.recipe import fingerprint
from longform.engine.at_most import Sizes, longest
from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint, Failure, Request
from schemas.replies import Rating
from schemas.revision_distance import RATINGS, SCORES
from tasks.answers import NO_MODEL, made_by, unanswered
from tasks.metrics.bertscore import Bert, bertscore, check_bertscore, load_bertscore
from tasks.metrics.rouge import KINDS, rouge
from tasks.revision_distance.drafts.drafting import request_of
from tasks.revision_distance.drafts.editing import DRAFT_AND_REFERENCE_CHARACTERS, long_draft
from tasks.revision_distance.drafts.measure import REQUEST_CHARACTERS

__all__ = ["check_bertscore", "rate_drafts", "score_drafts", "scores"]

COLUMNS = ("draft_id", "case_id", "text")
BATCH_ROWS = 64
UNSCORED: Row = dict.fromkeys((*KINDS, "bertscore", "bertscore_model")) | {"bertscore_left_out": "no reference"}


@stage(SCORES, revision=2, at_most=AtMost(rows=lambda of: of["drafts"]))
def score_drafts(context: StageContext, drafts: Rows, cases: Rows, *, bertscore: str | None) -> Iterator[Row]:
    """ROUGE and BERTScore of each draft against the reference of its case; nulls if the case has no reference.

    `bertscore`: name of the BERTScore model; None for no BERTScore. It is loaded when a draft with a reference comes;
    UsageError if it cannot be.
    """
    references = {row["case_id"]: row["reference"] for row in cases.as_dicts("case_id", "reference")}
    load = (lambda: load_bertscore(bertscore)) if bertscore else None
    for batch in drafts.batches(list(COLUMNS), size=BATCH_ROWS):
        rows = list(scores(batch.to_pylist(), references, load))
        context.count("drafts without BERTScore", sum(row["bertscore"] is None for row in rows))
        yield from rows


def scores(
    drafts: Sequence[Row], references: Mapping[str, str | None], load: Callable[[], Bert] | None
) -> Iterator[Row]:
    """Rows of SCORES in the order of the drafts: 0 to 100 (BERTScore seldom below 0), None without a reference.

    `drafts`: with the columns COLUMNS. `references`: case id -> text. `load` loads the BERTScore model, once, if a
    draft has a reference; None for no BERTScore.
    """
    pairs = [(row["text"], reference) for row in drafts if (reference := references[row["case_id"]]) is not None]
    measured = _measured(pairs, load)
    for row in drafts:
        found = next(measured) if references[row["case_id"]] is not None else UNSCORED
        keys = {"score_id": f"s_{fingerprint([row['draft_id']])}", "draft_id": row["draft_id"]}
        yield {**keys, "case_id": row["case_id"], **found}


def _measured(pairs: Sequence[tuple[str, str]], load: Callable[[], Bert] | None) -> Iterator[Row]:
    """The columns of ROUGE (0 to 100) and BERTScore for each (draft, reference) pair, in order.

    Without `load`, BERTScore is None with the reason "no model". `load` is called when the first row is read.
    """
    bert = load() if load and pairs else None
    by_bert = bertscore(bert, pairs) if bert else [(None, "no model")] * len(pairs)
    by_rouge = rouge((text, [reference]) for text, reference in pairs)
    for measures, (score, left_out) in zip(by_rouge, by_bert, strict=True):
        yield {
            **{kind: 100 * measures[kind] for kind in KINDS},
            "bertscore": score,
            "bertscore_model": bert.model if bert and score is not None else None,
            "bertscore_left_out": left_out,
        }


# ---------------------------------------------------------------- ratings


def _longest(of: Sizes) -> list[Request]:
    """The longest request for a rating, for a plan. Draft and reference share one limit of characters."""
    texts = {"request": longest(REQUEST_CHARACTERS), "reference": longest(DRAFT_AND_REFERENCE_CHARACTERS), "draft": ""}
    return [of["prompt"].request(of["model"], reply=Rating, **texts)]


@stage(RATINGS, revision=1, at_most=AtMost(rows=lambda of: of["drafts"], questions=_longest))
def rate_drafts(
    context: StageContext, drafts: Rows, cases: Rows, *, model: Endpoint | None, prompt: Prompt | None
) -> Iterator[Row | Rejected]:
    """How well each draft does what was asked for, compared with the reference, as a model rates it: 0 to 100.

    Null without a model or a reference. A Rejected if draft and reference are too long to rate, or without a usable
    reply.
    """
    of = {case["case_id"]: case for case in cases}
    asked = []
    for draft in drafts:
        case = of[draft["case_id"]]
        if model is None or case["reference"] is None:
            yield _rated(draft, None, NO_MODEL)
        elif too_long := long_draft(draft, case, "too long to rate"):
            yield too_long
        else:
            asked.append((draft, case))
    if model is None or prompt is None:
        return
    requests = (
        (
            draft,
            prompt.request(
                model,
                reply=Rating,
                request=request_of(case)[:REQUEST_CHARACTERS],
                reference=case["reference"],
                draft=draft["text"],
            ),
        )
        for draft, case in asked
    )
    for draft, answer in context.ask(model, requests):
        if isinstance(answer, Failure):
            yield unanswered(draft["draft_id"], answer)
        else:
            yield _rated(draft, float(answer.value.score), made_by(answer, model, prompt))


def _rated(draft: Row, score: float | None, origin: Row) -> Row:
    """The row of RATINGS of a draft. `score`: 0 to 100 or None; `origin`: its columns of MADE_BY."""
    return {
        "rating_id": f"r_{fingerprint(draft['draft_id'])}",
        "draft_id": draft["draft_id"],
        "case_id": draft["case_id"],
        "gpt_score": score,
        **origin,
    }
