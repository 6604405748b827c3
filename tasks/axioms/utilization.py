"""Utilization (axiom 5): how much of two answers is used in an answer that combines them, by shared n-grams."""

from tasks.text.copies.shingles import words


def utilization(combined: str, first: str, second: str, *, n: int) -> float:
    """The share of the first answer's n-grams that `combined` contains plus the same share of the second's: in [0, 2].

    Near 0 the combined answer ignored both answers, near 2 it pasted them together (Axiomatic Preference Modeling,
    C.4). n-grams are of lower-cased words, and repeated ones count once. The share of an answer with fewer than n words
    is 1 if its words occur in `combined` one after the other, else 0; that of an answer without a word is 0.
    """
    used = words(combined)
    return _share_used(used, words(first), n) + _share_used(used, words(second), n)


def outside_limits(share: float, *, above: float, below: float) -> str | None:
    """Why a combined answer is dropped: its utilization `share` (0 to 2) is not above `above`, or not below `below`.
    None if it is kept.
    """
    if above < share < below:
        return None
    return "utilization below minimum" if share <= above else "utilization above maximum"


def _share_used(combined: list[str], answer: list[str], n: int) -> float:
    """The share (0 to 1) of the n-grams of the words `answer` that are among those of `combined`, repeated ones once.
    n is cut to the number of words in `answer`; the share is 0 if there are none.
    """
    wanted = _ngrams(answer, min(n, len(answer)))
    return len(wanted & _ngrams(combined, min(n, len(answer)))) / len(wanted) if wanted else 0.0


def _ngrams(words: list[str], n: int) -> set[tuple[str, ...]]:
    """The n-grams of the words, each once; none if there are fewer than n words, or if n is 0."""
    return set(zip(*(words[start:] for start in range(n)), strict=False))
