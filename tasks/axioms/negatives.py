"""Seeded draws that depend on nothing but the seed and the ids drawn from.

Every candidate gets its own uniform number, hashed from the seed, what is drawn for, and its id. So
a draw does not depend on the order of the candidates, and when one comes or goes, no other one's
luck changes.
"""

import math
from collections.abc import Mapping, Sequence

from xxhash import xxh3_64_intdigest


def draw(votes: Mapping[str, int], n: int, *, seed: int, question_id: str) -> list[str]:
    """At most n hard negatives for a question (axiom 1), in the order they are drawn.

    `votes` maps the ids of the candidate answers to their votes. Drawn without replacement, each
    time with probability proportional to the votes; votes below 1 count as 1, as in the margin.
    (Efraimidis and Spirakis 2006: the n smallest waiting times, exponential with rate `votes`.)
    """
    start = f"{seed}\x1f{question_id}\x1f"
    log = math.log
    times = [(-log(_uniform(start + answer)) / (count if count > 1 else 1), answer) for answer, count in votes.items()]
    return [answer for _, answer in sorted(times)[:n]]


def choose(options: Sequence[str], *, seed: int, key: str) -> str:
    """One of the options (one or more), each equally likely; `key` says what is chosen for.

    The same whatever their order; another option that comes or goes changes it only by being it.
    """
    start = f"{seed}\x1fchoose\x1f{key}\x1f"
    return min(options, key=lambda option: (xxh3_64_intdigest((start + option).encode()), option))


def _uniform(text: str) -> float:
    """In (0, 1], never 0: the hash's upper 53 bits, which a float holds."""
    return ((xxh3_64_intdigest(text.encode()) >> 11) + 0.5) * 2.0**-53
