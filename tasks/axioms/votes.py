"""What votes say: which questions qualify, which of two answers is preferred, and by how much (section 3)."""

import math
from collections.abc import Sequence
from decimal import Decimal


def why_not(votes: Sequence[int], *, min_answers: int, min_vote_ratio: float) -> str | None:
    """The reason to leave out a question whose answers have these votes, or None to keep it.

    A kept question has enough answers, one of them with positive votes, and a pair whose higher
    answer has more votes than the lower, at least `min_vote_ratio` times as many (negative votes
    count as 0 there). The ratio is the decimal it is written as: 55 is 1.1 times 50.
    """
    if len(votes) < min_answers:
        return f"fewer than {min_answers} answers"
    highest, lowest = max(votes, default=0), min(votes, default=0)
    if highest <= 0:
        return "no answer with positive votes"
    needed = Decimal(str(min_vote_ratio)) * max(lowest, 0)
    return None if highest > lowest and highest >= needed else "no vote gap"


def ordered_pairs(votes: Sequence[int]) -> list[tuple[int, int]]:
    """Positions (preferred, rejected) of every two answers whose votes differ: axiom 0.

    In order of the earlier position of a pair, then of the later one.
    """
    numbered = list(enumerate(votes))
    return [(i, j) if a > b else (j, i) for i, a in numbered for j, b in numbered[i + 1 :] if a != b]


def margin(preferred: int, rejected: int) -> float:
    """log10 of the ratio of votes; votes below 1 count as 1, so it is always finite."""
    return math.log10(max(preferred, 1) / max(rejected, 1))
