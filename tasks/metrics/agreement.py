"""Agreement of two labellings of the same things."""

from collections.abc import Sequence


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
