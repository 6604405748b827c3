"""ROUGE-1, -2 and -L (Lin 2004) by the package rouge_score: F measures in [0, 1], without stemming.

For two texts in Latin script the words are those of the package's tokenizer: runs of a-z and 0-9 after lower-casing. If
either is in another script, of which that tokenizer leaves nothing, they are runs of letters, marks and digits of any
script after lower-casing (NFC), and of Chinese, Japanese, Thai, Lao, Khmer and Burmese, which have no blanks between
words, single characters with their marks. The longest common subsequence of ROUGE-L is computed here with bit vectors,
because the package's table has a cell for each pair of words: gigabytes for two texts of 200 kB.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from statistics import fmean
from typing import TYPE_CHECKING

from tasks.text.words import is_latin, subsequence_rows, words

if TYPE_CHECKING:
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import Tokenizer

KINDS = ("rouge1", "rouge2", "rougeL")
WORDS = (
    "Words of ROUGE: the tokenizer of rouge_score (a-z, 0-9) for texts in Latin script; else words of any script, and "
    "single characters of Chinese, Japanese, Thai, Lao, Khmer and Burmese."
)


def rouge(pairs: Iterable[tuple[str, Sequence[str]]]) -> Iterator[dict[str, float]]:
    """For each (text, references) pair, in order, the F measures in [0, 1] by the names in KINDS: means over the
    references, of which there must be at least one.
    """
    for text, references in pairs:
        scores = [_scores(text, reference) for reference in references]
        yield {kind: fmean(score[kind] for score in scores) for kind in KINDS}


def _scores(text: str, reference: str) -> dict[str, float]:
    """ROUGE-1, -2 and -L F measures of the text against one reference, by the names in KINDS."""
    scorer, tokenizer = _scorer(latin=is_latin(text) and is_latin(reference))
    grams = scorer.score(reference, text)
    longest = _rouge_l(tokenizer.tokenize(text), tokenizer.tokenize(reference))
    return {**{kind: float(score.fmeasure) for kind, score in grams.items()}, "rougeL": longest}


def _rouge_l(own: Sequence[str], wanted: Sequence[str]) -> float:
    """The F measure of ROUGE-L of a text's words against those of a reference; 0 if either has none."""
    from rouge_score.scoring import fmeasure

    common = longest_common(own, wanted)
    return float(fmeasure(common / max(len(own), 1), common / max(len(wanted), 1)))


def longest_common(words: Sequence[str], others: Sequence[str]) -> int:
    """The length of the longest common subsequence of two lists of words; 0 if they share no word.

    Time and memory depend only on the words that both lists have.
    """
    shared = set(words) & set(others)
    shorter, longer = sorted(([word for word in one if word in shared] for one in (words, others)), key=len)
    (last,) = deque(subsequence_rows(longer, shorter), maxlen=1)
    return len(shorter) - last.bit_count()


@cache
def _scorer(*, latin: bool) -> tuple[RougeScorer, Tokenizer]:
    """(the package's scorer of ROUGE-1 and ROUGE-2, its tokenizer) for two texts in Latin script, or others; cached."""
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import DefaultTokenizer, Tokenizer

    class AnyScript(Tokenizer):  # type: ignore[misc]
        def tokenize(self, text: str) -> list[str]:
            return words(text.lower().replace("_", " "))

    tokenizer = DefaultTokenizer(use_stemmer=False) if latin else AnyScript()
    return RougeScorer([kind for kind in KINDS if kind != "rougeL"], tokenizer=tokenizer), tokenizer
