"""Utilization: whether a combined answer made something of both answers, or ignored or pasted them (axiom 5)."""

from tasks.text.shingles import words


def utilization(combined: str, first: str, second: str, *, n: int) -> float:
    """Share of each answer's n-grams that the combined answer uses, summed: in [0, 2].

    Near 0 it ignored both, near 2 it pasted them together (Axiomatic Preference Modeling, C.4).
    An answer shorter than n words counts as wholly used if it occurs verbatim, else as unused.
    An n-gram is of lower-cased words and counts once; an answer without a word is unused.
    """
    used = words(combined)
    return _share_used(used, words(first), n) + _share_used(used, words(second), n)


def _share_used(combined: list[str], answer: list[str], n: int) -> float:
    wanted = _ngrams(answer, min(n, len(answer)))
    return len(wanted & _ngrams(combined, min(n, len(answer)))) / len(wanted) if wanted else 0.0


def _ngrams(words: list[str], n: int) -> set[tuple[str, ...]]:
    return set(zip(*(words[start:] for start in range(n)), strict=False))
