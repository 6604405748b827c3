"""ROUGE-1, -2 and -L (Lin 2004) by the package rouge_score: F measures in [0, 1], without stemming.

Words are what that package takes for words: runs of a-z and 0-9 after lower-casing. A text in another script has none
and scores 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rouge_score.rouge_scorer import RougeScorer

KINDS = ("rouge1", "rouge2", "rougeL")


def rouge(pairs: Iterable[tuple[str, Sequence[str]]]) -> Iterator[dict[str, float]]:
    """Of each text and its references the F measures, each the mean over the references (at least one)."""
    for text, references in pairs:
        scores = [_scorer().score(reference, text) for reference in references]
        yield {kind: fmean(float(score[kind].fmeasure) for score in scores) for kind in KINDS}


@cache
def _scorer() -> RougeScorer:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer([*KINDS], use_stemmer=False)
