"""Agreement of labellings of the same things: of two, or of any number."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations


def share_agreed(first: Sequence[str], second: Sequence[str]) -> float | None:
    """Share of the things that both label alike, in [0, 1]; None where there is nothing to compare."""
    if not first:
        return None
    return sum(one == other for one, other in zip(first, second, strict=True)) / len(first)


def kappa(first: Sequence[str], second: Sequence[str]) -> float | None:
    """Cohen's kappa, unweighted, in [-1, 1]: agreement beyond chance (Cohen 1960).

    None where there is nothing to compare, or both use one and the same label alone: chance then agrees as well.
    """
    if len({*first, *second}) < 2:
        return None
    from sklearn.metrics import cohen_kappa_score

    return float(cohen_kappa_score(first, second))


def pairwise_share(units: Sequence[Sequence[str | int]]) -> float | None:
    """Share of the pairs of labels of one thing that are alike, over all such pairs; None where there is none."""
    pairs = [one == other for labels in units for one, other in combinations(labels, 2)]
    return sum(pairs) / len(pairs) if pairs else None


def alpha(units: Sequence[Sequence[str | int]], *, ordinal: bool = False) -> float | None:
    """Krippendorff's alpha of any number of labels a thing: 1 is agreement, 0 chance, below it worse than chance.

    Nominal, or ordinal in the order of the labels. Things with fewer than two labels count nowhere. None where there is
    nothing to compare, or all labels are one and the same: chance then agrees as well (Krippendorff 2011).
    """
    compared = [labels for labels in units if len(labels) > 1]
    counts = Counter(label for labels in compared for label in labels)
    apart = _rank_distance(counts) if ordinal else lambda one, other: float(one != other)
    total = counts.total()
    expected = sum(number * counts[other] * apart(one, other) for one, number in counts.items() for other in counts) / (
        total - 1 or 1
    )
    if not expected:
        return None
    observed = sum(
        2 * sum(apart(one, other) for one, other in combinations(labels, 2)) / (len(labels) - 1) for labels in compared
    )
    return 1 - observed / expected


def _rank_distance(counts: Counter[str | int]) -> Callable[[str | int, str | int], float]:
    """Between two labels: how many labels lie between them, half of their own counted, squared."""
    ranks: dict[str | int, float] = {}
    below = 0
    for label in sorted(counts):
        ranks[label] = below + counts[label] / 2
        below += counts[label]
    return lambda one, other: (ranks[one] - ranks[other]) ** 2
