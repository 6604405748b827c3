"""Baseline metrics of Revision Distance: ROUGE and BERTScore of each draft against its reference (table 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Row
from longform.engine.stage import AtMost, Rows, StageContext, stage
from schemas.revision_distance import SCORES
from tasks.metrics.bertscore import Bert, bertscore, check_bertscore, load_bertscore
from tasks.metrics.rouge import KINDS, rouge

__all__ = ["check_bertscore", "score_drafts", "scores"]

COLUMNS = ("draft_id", "case_id", "text")
BATCH_ROWS = 64
NO_REFERENCE, NO_MODEL = "no reference", "no model"
UNSCORED: Row = dict.fromkeys((*KINDS, "bertscore", "bertscore_model")) | {"bertscore_left_out": NO_REFERENCE}


@stage(SCORES, revision=1, at_most=AtMost(rows=lambda of: of["drafts"]))
def score_drafts(context: StageContext, drafts: Rows, cases: Rows, *, bertscore: str | None) -> Iterator[Row]:
    """ROUGE and BERTScore (by the model `bertscore`, if any) of each draft; nulls if its case has no reference."""
    references = {row["case_id"]: row["reference"] for row in cases.only("case_id", "reference")}
    load = (lambda: load_bertscore(bertscore)) if bertscore else None
    for batch in drafts.batches(list(COLUMNS), size=BATCH_ROWS):
        rows = list(scores(batch.to_pylist(), references, load))
        context.count("drafts without BERTScore", sum(row["bertscore"] is None for row in rows))
        yield from rows


def scores(
    drafts: Sequence[Row], references: Mapping[str, str | None], load: Callable[[], Bert] | None
) -> Iterator[Row]:
    """Rows of SCORES in the order of the drafts, from 0 to 100.

    `references`: case id -> text. `load` loads the BERTScore model; it is called once, if a draft has a reference.
    """
    pairs = [(row["text"], reference) for row in drafts if (reference := references[row["case_id"]]) is not None]
    measured = _measured(pairs, load)
    for row in drafts:
        found = next(measured) if references[row["case_id"]] is not None else UNSCORED
        keys = {"score_id": f"s_{fingerprint([row['draft_id']])}", "draft_id": row["draft_id"]}
        yield {**keys, "case_id": row["case_id"], **found}


def _measured(pairs: Sequence[tuple[str, str]], load: Callable[[], Bert] | None) -> Iterator[Row]:
    bert = load() if load and pairs else None
    by_bert = bertscore(bert, pairs) if bert else [(None, NO_MODEL)] * len(pairs)
    by_rouge = rouge((text, [reference]) for text, reference in pairs)
    for measures, (score, left_out) in zip(by_rouge, by_bert, strict=True):
        yield {
            **{kind: 100 * measures[kind] for kind in KINDS},
            "bertscore": score,
            "bertscore_model": bert.model if bert and score is not None else None,
            "bertscore_left_out": left_out,
        }
