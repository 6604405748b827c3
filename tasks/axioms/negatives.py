"""Seeded random draws that depend only on the seed and the ids of the candidates.

Every candidate gets its own uniform number, hashed from the seed, the purpose of the draw and its id. So a draw does
not depend on the order of the candidates, and adding or removing one does not change the numbers of the others.
"""

import math
from collections.abc import Mapping, Sequence

from xxhash import xxh3_64_intdigest


def draw(votes: Mapping[str, int], n: int, *, seed: int, question_id: str) -> list[str]:
    """At most n hard negatives for a question (axiom 1), in the order they are drawn.

    `votes` maps the ids of the candidate answers to their votes. Drawn without replacement, with probability
    proportional to the votes; votes below 1 count as 1, as in the margin. (Efraimidis and Spirakis 2006: the n smallest
    waiting times, exponential with rate `votes`.)
    """
    start = f"{seed}\x1f{question_id}\x1f"
    log = math.log
    times = [(-log(_uniform(start + answer)) / (count if count > 1 else 1), answer) for answer, count in votes.items()]
    return [answer for _, answer in sorted(times)[:n]]


def choose(options: Sequence[str], *, seed: int, key: str) -> str:
    """One of the options (at least one), each equally likely, drawn by `seed` and `key`.

    The order of the options does not matter; an added option changes the result only if it is drawn itself.
    """
    start = f"{seed}\x1fchoose\x1f{key}\x1f"
    return min(options, key=lambda option: (xxh3_64_intdigest((start + option).encode()), option))


def _uniform(text: str) -> float:
    """A number in (0, 1], never 0, from the upper 53 bits of the text's hash, as many as a float holds."""
    return ((xxh3_64_intdigest(text.encode()) >> 11) + 0.5) * 2.0**-53
