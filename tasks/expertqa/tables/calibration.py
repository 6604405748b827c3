"""How far a judge of attribution can be trusted: its precision, recall and calibration against people's labels.

People: support is complete, against partial, incomplete and missing; other labels and unscored claims do not count.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tasks.metrics.binary import binary_scores

BINS = 5
SUPPORT = ("Complete", "Partial", "Incomplete", "Missing")
FEW = 30
MEANS = ("claims", "mean score, %", "complete, %")


def compared(claims: pd.DataFrame, attributions: pd.DataFrame) -> pd.DataFrame:
    """The claims that are both scored and labelled, as backend, score, said (by the judge) and complete (by people).

    `claims`: claim_id, support. `attributions`: claim_id, backend, attributable, score.
    """
    scored = attributions.dropna(subset=["score", "attributable"]).merge(claims[["claim_id", "support"]], on="claim_id")
    scored = scored[scored.support.isin(SUPPORT)]
    return pd.DataFrame({
        "backend": scored.backend,
        "score": scored.score.astype(float),
        "said": scored.attributable.astype(bool),
        "complete": scored.support == "Complete",
    }).reset_index(drop=True)  # fmt: skip


def calibration(found: pd.DataFrame) -> pd.DataFrame:
    """For each backend a row for each fifth of the scale of scores, and a last one for all of it: the number of claims,
    their mean score, the share that people call complete (both in percent), and over all precision, recall and F1 of
    the judge's verdict, the Brier score and the expected calibration error (both from 0, which is best, to 1).

    `found`: a frame as `compared` makes it.
    """
    rows = [row for backend, own in found.groupby("backend") for row in _rows(str(backend), own)]
    columns = [
        "backend",
        "score",
        "claims",
        "mean score, %",
        "complete, %",
        "precision",
        "recall",
        "F1",
        "Brier",
        "ECE",
    ]
    return pd.DataFrame(rows, columns=columns)


def _rows(backend: str, own: pd.DataFrame) -> list[dict[str, object]]:
    """The rows of `calibration` of one backend."""
    place = np.minimum((own.score * BINS).astype(int), BINS - 1)
    bins = [(number, own[place == number]) for number in range(BINS) if (place == number).any()]
    gap = sum(len(each) * abs(each.score.mean() - each.complete.mean()) for _, each in bins) / len(own)
    rows = [
        {"backend": backend, "score": f"{number / BINS:.1f} to {(number + 1) / BINS:.1f}", **_means(each)}
        for number, each in bins
    ]
    verdicts = binary_scores(own.said.map({True: "Y", False: "N"}), own.complete.map({True: "Y", False: "N"}), "Y")
    whole = {name: verdicts[name] for name in ("precision", "recall", "F1")}
    brier = float(((own.score - own.complete) ** 2).mean())
    return [*rows, {"backend": backend, "score": "all", **_means(own), **whole, "Brier": brier, "ECE": gap}]


def _means(own: pd.DataFrame) -> dict[str, object]:
    return dict(zip(MEANS, (len(own), 100 * own.score.mean(), 100 * own.complete.mean()), strict=True))


def trust(found: pd.DataFrame) -> str:
    """A sentence for a number's note: how well its judge agrees with people, or that nobody has compared them."""
    if found.empty:
        return "Nobody has compared this judge with people's labels here."
    said = []
    for row in calibration(found).query("score == 'all'").to_dict("records"):
        few = f", few: below {FEW}" if row["claims"] < FEW else ""
        figures = ", ".join(
            f"{name} {'undefined' if pd.isna(row[name]) else format(row[name], '.2f')}"
            for name in ("precision", "recall", "ECE")
        )
        said.append(f"{row['backend']} against people's labels of {row['claims']:,} claims{few}: {figures}.")
    return " ".join(said)
