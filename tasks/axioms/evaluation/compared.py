"""Pairs of answers that people compared, as WebGPT's, of which one was clearly preferred."""

from __future__ import annotations

from collections.abc import Iterator

from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from schemas.axioms.evaluation import COMPARISONS
from tasks.axioms.evaluation.ranking import SPLIT
from tasks.text.audits.equality import equal_texts

WEBGPT = "webgpt"
SHARED = ("comparison_id", "question", "question_dataset", "licence", "url", "retrieved_at")


@stage(COMPARISONS, revision=2, split_by="split", at_most=AtMost(rows=lambda sizes: float(sizes["comparisons"])))
def select_comparisons(context: StageContext, comparisons: Rows) -> Iterator[Row | Rejected]:
    """The comparisons whose score is not 0, with the preferred answer first; a Rejected for each tie, and for answers
    that are the same but for case, white space and Markdown's marks.
    """
    for row in comparisons:
        if row["preferred"] == "tie":
            yield Rejected(row["comparison_id"], "filtered", "no clear preference")
            continue
        if equal_texts(row["first"]["text"], row["second"]["text"]):
            yield Rejected(row["comparison_id"], "filtered", "both answers are the same")
            continue
        sides = ("first", "second") if row["preferred"] == "first" else ("second", "first")
        preferred, rejected = (_compared(row[side]) for side in sides)
        own = {"set": WEBGPT, "preferred": preferred, "rejected": rejected, "split": SPLIT}
        yield {name: row[name] for name in SHARED} | own


def _compared(side: Row) -> Row:
    """A row of COMPARED: the evidence is each quotation below the title of its page."""
    evidence = ["\n".join(filter(None, (quote["title"], quote["extract"]))) for quote in side["quotes"]]
    return {"text": side["text"], "evidence": evidence, "score": side["score"]}
