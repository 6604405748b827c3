"""Rules about votes: which questions qualify, which of two answers is preferred, and by how much (section 3)."""

import math
from collections.abc import Sequence
from decimal import Decimal


def rejection_reason(votes: Sequence[int], *, min_answers: int, min_vote_ratio: float) -> str | None:
    """Why a question whose answers have these votes is left out; None if it is kept.

    A kept question has enough answers, one of them with positive votes, and two answers of which the higher has more
    votes than the lower, at least `min_vote_ratio` times as many (negative votes count as 0 there). The ratio is used
    as a decimal, as it is written: 55 is 1.1 times 50.
    """
    if len(votes) < min_answers:
        return f"fewer than {min_answers} answers"
    highest, lowest = max(votes, default=0), min(votes, default=0)
    if highest <= 0:
        return "no answer with positive votes"
    needed = Decimal(str(min_vote_ratio)) * max(lowest, 0)
    return None if highest > lowest and highest >= needed else "no vote gap"


def ordered_pairs(votes: Sequence[int]) -> list[tuple[int, int]]:
    """Positions (preferred, rejected) of every two answers whose votes differ (axiom 0), ordered by position."""
    numbered = list(enumerate(votes))
    return [(i, j) if a > b else (j, i) for i, a in numbered for j, b in numbered[i + 1 :] if a != b]


def margin(preferred: int, rejected: int) -> float:
    """log10 of the ratio of the two votes, always finite: votes below 1 count as 1."""
    return math.log10(max(preferred, 1) / max(rejected, 1))
