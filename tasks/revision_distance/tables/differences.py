"""Differences between systems over the same cases, and what measures that ask no editor say of them.

An editor that lists one edit where it lists three for another system brings the first nearer than it is. Nothing in
the lists shows that; so the lexical baseline's count and TER, which read the texts alone, stand beside each difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tasks.metrics.intervals import mean_interval

WITHOUT_EDITOR = {"aligned": "by the baseline", "ter": "by TER"}  # column of drafts -> column of the differences
LESS, MORE, ALIKE = "less", "more", "no clear difference"


def differences(scores: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """A row for each two systems, the better one first: how much less its corrected distance is, in the mean over the
    cases, with the 95 % interval by paired bootstrap and the effect size (mean by standard deviation of the
    differences), and in how many cases it is better, equal or worse. `clear`: the interval does not hold 0; `by the
    baseline`, `by TER`: whether the better one needs clearly less or more by these (missing where they are not known).

    `scores`: system, the best first -> its drafts, indexed by the same cases in one order: corrected, and perhaps
    `aligned` and `ter`.
    """
    return pd.DataFrame([
        {"better": one, "worse": other, **_difference(scores[one], scores[other])}
        for one, other in combinations(scores, 2)
    ])  # fmt: skip


def _difference(mine: pd.DataFrame, theirs: pd.DataFrame) -> dict[str, Any]:
    gaps = _gaps(mine, theirs, "corrected")
    low, high = mean_interval(gaps)
    return {
        "difference": gaps.mean() if len(gaps) else np.nan,
        "difference from": low,
        "difference to": high,
        "effect size": effect_size(gaps),
        "clear": "yes" if low > 0 or high < 0 else "no",
        "cases better": int((gaps > 0).sum()),
        "equal": int((gaps == 0).sum()),
        "worse in": int((gaps < 0).sum()),
        "cases": len(gaps),
        **{name: _told(_gaps(mine, theirs, column)) for column, name in WITHOUT_EDITOR.items() if column in mine},
    }


def _gaps(mine: pd.DataFrame, theirs: pd.DataFrame, column: str) -> NDArray[np.floating[Any]]:
    """By how much less mine are than theirs, of the cases where both are known."""
    return (theirs[column].astype(float) - mine[column].astype(float)).dropna().to_numpy(float)


def _told(gaps: NDArray[np.floating[Any]]) -> str | None:
    """Which of LESS, MORE and ALIKE the differences say; None for fewer than two."""
    low, high = mean_interval(gaps)
    if np.isnan(low):
        return None
    return LESS if low > 0 else MORE if high < 0 else ALIKE


def effect_size(gaps: NDArray[np.floating[Any]]) -> float:
    """Cohen's d of paired differences: their mean by their standard deviation; 0 if all are 0, NaN for fewer than two,
    or if all are equal.
    """
    if len(gaps) < 2:
        return float("nan")
    spread = float(gaps.std(ddof=1))
    if spread == 0:
        return 0.0 if not gaps.any() else float("nan")
    return float(gaps.mean()) / spread


def doubts(pairs: pd.DataFrame) -> Iterator[str]:
    """A sentence for each difference that rests on the editor's lists alone: a clear one that neither measure without
    an editor confirms, and one that is not clear where these agree on the contrary. `pairs`: as of `differences`.
    """
    for row in pairs.to_dict("records"):
        told = [row[name] for name in WITHOUT_EDITOR.values() if isinstance(row.get(name), str)]
        better, worse = row["better"], row["worse"]
        if told and row["clear"] == "yes" and LESS not in told:
            yield (
                f"{better} is before {worse} by the editor's lists alone: {_said(row)}. The editor may list finer "
                f"edits for {worse} than for {better}."
            )
        elif told and row["clear"] == "no" and set(told) == {MORE}:
            yield (
                f"{better} is no worse than {worse} by the editor's lists alone: {_said(row)}. The editor may list "
                f"coarser edits for {better}."
            )


def _said(row: Mapping[Any, Any]) -> str:
    """What the measures without an editor say of a difference, as a clause."""
    names = {"by the baseline": "the lexical baseline", "by TER": "TER"}
    said = {MORE: f"by {{}} {row['better']} clearly needs more", ALIKE: "{} does not tell them apart", LESS: ""}
    return ", ".join(said[row[name]].format(names[name]) for name in names if isinstance(row.get(name), str))
