"""ROUGE-1, -2 and -L (Lin 2004) by the package rouge_score: F measures in [0, 1], without stemming.

Words are those of the package's tokenizer: runs of a-z and 0-9 after lower-casing, so a text in another script has none
and scores 0. The longest common subsequence of ROUGE-L is computed here with bit vectors, because the package's table
has a cell for each pair of words: gigabytes for two texts of 200 kB.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from statistics import fmean
from typing import TYPE_CHECKING

from tasks.text.alignment import subsequence_rows

if TYPE_CHECKING:
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import DefaultTokenizer

KINDS = ("rouge1", "rouge2", "rougeL")


def rouge(pairs: Iterable[tuple[str, Sequence[str]]]) -> Iterator[dict[str, float]]:
    """For each (text, references) pair, in order, the F measures in [0, 1] by the names in KINDS: means over the
    references, of which there must be at least one.
    """
    for text, references in pairs:
        scores = [_scores(text, reference) for reference in references]
        yield {kind: fmean(score[kind] for score in scores) for kind in KINDS}


def _scores(text: str, reference: str) -> dict[str, float]:
    """ROUGE-1, -2 and -L F measures of the text against one reference, by the names in KINDS."""
    grams = _scorer().score(reference, text)
    return {**{kind: float(score.fmeasure) for kind, score in grams.items()}, "rougeL": _rouge_l(text, reference)}


def _rouge_l(text: str, reference: str) -> float:
    """The F measure of ROUGE-L of the text against the reference; 0 if either has no word."""
    from rouge_score.scoring import fmeasure

    words, wanted = _tokenizer().tokenize(text), _tokenizer().tokenize(reference)
    common = longest_common(words, wanted)
    return float(fmeasure(common / max(len(words), 1), common / max(len(wanted), 1)))


def longest_common(words: Sequence[str], others: Sequence[str]) -> int:
    """The length of the longest common subsequence of two lists of words; 0 if they share no word.

    Time and memory depend only on the words that both lists have.
    """
    shared = set(words) & set(others)
    shorter, longer = sorted(([word for word in one if word in shared] for one in (words, others)), key=len)
    (last,) = deque(subsequence_rows(longer, shorter), maxlen=1)
    return len(shorter) - last.bit_count()


@cache
def _scorer() -> RougeScorer:
    """The scorer of ROUGE-1 and ROUGE-2 by the package; cached."""
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer([kind for kind in KINDS if kind != "rougeL"], tokenizer=_tokenizer())


@cache
def _tokenizer() -> DefaultTokenizer:
    """The package's tokenizer without stemming; cached."""
    from rouge_score.tokenizers import DefaultTokenizer

    return DefaultTokenizer(use_stemmer=False)
