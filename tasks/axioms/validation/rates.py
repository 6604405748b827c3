"""How often a pair's preferred answer is the one that is preferred: majorities, rates, intervals, kappa, flaws.

A pair counts as its majority says: more than half of its judgements. Without one it is undecided, and then neither for
nor against its type: the rate is of the decided pairs alone, and the undecided ones are reported beside it. A model
that judges says something of a pair only where it was asked in both orders of the two answers: one that always takes
the first decides nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from longform.artifacts.rows import Row, grouped

if TYPE_CHECKING:
    from tasks.annotation.agreement import Measure

PEOPLE, JUDGE, UNVALIDATED = "people", "judge", "unvalidated"
LEAST_VOTES = {PEOPLE: 1, JUDGE: 2}  # of a pair, without which it is undecided
SIDES = ("preferred", "rejected")


@dataclass(frozen=True, slots=True)
class Counted:
    """Pairs of a type by what their majorities say. `raters`: fewest and most judgements of a pair."""

    preferred: int = 0
    rejected: int = 0
    undecided: int = 0
    raters: tuple[int, int] = (0, 0)

    @property
    def judged(self) -> int:
        """The number of pairs."""
        return self.decided + self.undecided

    @property
    def decided(self) -> int:
        """The number of pairs with a majority."""
        return self.preferred + self.rejected

    @property
    def rate(self) -> float | None:
        """Share of the decided pairs whose preferred answer is preferred; None if none is decided."""
        return self.preferred / self.decided if self.decided else None

    def is_under(self, share: float) -> bool:
        """Whether the rate is less than this share, as it is written in decimals; False if no pair is decided."""
        return self.preferred < Fraction(str(share)) * self.decided

    @property
    def bounds(self) -> tuple[float, float] | tuple[None, None]:
        """(low, high) of the rate, its 95 % interval (Wilson); (None, None) if no pair is decided."""
        from tasks.metrics.intervals import share_interval

        return share_interval(self.preferred, self.decided) if self.decided else (None, None)

    @property
    def p_value(self) -> float | None:
        """Of a rate of one half, by the two-sided binomial test; None if no pair is decided."""
        from scipy.stats import binomtest

        return float(binomtest(self.preferred, self.decided).pvalue) if self.decided else None


def majority(better: Iterable[str], *, least: int = 1) -> str | None:
    """What more than half of the judgements of a pair call better, "preferred" or "rejected"; None if there is no such
    side, or if there are fewer judgements than `least`.
    """
    votes = Counter(better)
    number = votes.total()
    return next((side for side in SIDES if number >= least and 2 * votes[side] > number), None)


def counted(judgements: Iterable[Row]) -> Counted:
    """The pairs of these judgements, all of the same `who`, counted by their majorities."""
    of_pair = grouped(judgements, "pair_id")
    results = Counter(
        majority((row["better"] for row in rows), least=LEAST_VOTES[rows[0]["who"]]) for rows in of_pair.values()
    )
    sizes = [len(rows) for rows in of_pair.values()]
    raters = (min(sizes), max(sizes)) if sizes else (0, 0)
    return Counted(results["preferred"], results["rejected"], results[None], raters)


def evidence_of(of: Mapping[str, Counted], least_pairs: int) -> str:
    """Who decides on a pair type: people, if they decided `least_pairs` of its pairs or more; else the judge, likewise;
    else nobody ("unvalidated"). `of`: people and judge -> their pairs.
    """
    return next((who for who in (PEOPLE, JUDGE) if who in of and of[who].decided >= least_pairs), UNVALIDATED)


def kappa(judgements: Iterable[Row], value: str = "better") -> tuple[float | None, int, int]:
    """(Fleiss' kappa of a column, the pairs that it is of, judgements of each of these). They are the pairs with the
    most frequent number of judgements, of two or more (of several as frequent ones the largest); kappa is None if
    there are none, or if all of them have the same value.
    """
    from tasks.annotation.agreement import fleiss

    units = [[str(row[value]) for row in rows] for rows in grouped(judgements, "pair_id").values()]
    sizes = Counter(len(unit) for unit in units if len(unit) > 1)
    size = max(sizes, key=lambda each: (sizes[each], each), default=0)
    measure: Measure | None = fleiss(units) if size else None
    return (measure.value if measure else None), sizes[size], size


def mean_difference(judgements: Iterable[Row]) -> float | None:
    """Mean of the preferred answer's score less the other's, over judgements that score both; None if none does."""
    found = [
        row["preferred_score"] - row["rejected_score"]
        for row in judgements
        if row["preferred_score"] is not None and row["rejected_score"] is not None
    ]
    return sum(found) / len(found) if found else None


def flagged(judgements: Iterable[Row], side: str, flaw: str) -> float:
    """Share of the pairs of which any judgement flags this flaw of the answer `side`; judgements of one pair at
    least.
    """
    pairs = grouped(judgements, "pair_id").values()
    return sum(any(flaw in row[f"{side}_flaws"] for row in rows) for rows in pairs) / len(pairs)


def equal_scores(judgements: Iterable[Row]) -> float | None:
    """Share of the judgements that score both answers alike; None without a judgement."""
    found = [row["preferred_score"] == row["rejected_score"] for row in judgements]
    return sum(found) / len(found) if found else None


def same_in_both_orders(judgements: Iterable[Row]) -> float | None:
    """Share of the pairs judged in both orders whose two judgements are the same; None if there is no such pair."""
    twice = [rows for rows in grouped(judgements, "pair_id").values() if len({row["shown_first"] for row in rows}) > 1]
    return sum(len({row["better"] for row in rows}) == 1 for rows in twice) / len(twice) if twice else None
