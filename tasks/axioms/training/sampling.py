"""The order in which training reads questions and pairs: a function of seed and step alone, so that a run that goes on
reads what it would have read. Questions count alike, however many pairs they have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

ORDER, PAIRS, EVIDENCE = range(3)  # what is drawn


def _random(seed: int, *key: int) -> np.random.Generator:
    """A generator of this seed and key."""
    return np.random.Generator(np.random.PCG64([seed & (2**64 - 1), *key]))


@dataclass(slots=True)
class QuestionOrder:
    """The questions of each step: every question once an epoch, in an order drawn anew for each epoch."""

    questions: int
    per_step: int
    seed: int
    _epoch: int = field(default=-1, init=False)
    _order: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64), init=False)

    def at(self, step: int) -> list[int]:
        """The numbers of the questions of a step (both from 0); a question may come twice in it where an epoch ends."""
        first = step * self.per_step
        return [self._nth(place) for place in range(first, first + self.per_step)]

    def _nth(self, place: int) -> int:
        epoch, at = divmod(place, self.questions)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, _random(self.seed, ORDER, epoch).permutation(self.questions)
        return int(self._order[at])


def drawn(rows: Sequence[int], most: int | None, seed: int, place: int) -> list[int]:
    """`rows`, the pairs of a question, or at most `most` of them, each as likely as any other, in their order. `place`:
    of the question among all that training reads, from 0.
    """
    if most is None or len(rows) <= most:
        return list(rows)
    return [rows[at] for at in sorted(_random(seed, PAIRS, place).choice(len(rows), most, replace=False))]


def shows_evidence(share: float, seed: int, place: int) -> bool:
    """Whether the evidence of a question is shown at this place: True in `share` of them."""
    return bool(_random(seed, EVIDENCE, place).random() < share)
