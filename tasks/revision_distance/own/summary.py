"""What the measured drafts say of systems and editors: ranking, trust, variance within editors, their agreement."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tasks.metrics.intervals import mean_interval
from tasks.publishing.card import ReportTable
from tasks.revision_distance.faults import CEILINGS
from tasks.revision_distance.tables.ranking import TRUST_NOTE, Ranking, ranking, ranking_notes, trust

FROM_DRAFTS = ["draft_id", "id", "system"]
FROM_MEASURED = [
    "draft_id", "editor", "repeat", "distance", "corrected", "normalised", "coverage", "residual", "valid", "silent",
    "wholesale", "not_placed", "no_ops", "duplicates", "lost_edits", "aligned", "ter", "signature",
]  # fmt: skip
MEANS = (
    "distance",
    "corrected",
    "normalised",
    "coverage",
    "residual",
    "not_placed",
    "no_ops",
    "duplicates",
    "lost_edits",
    "aligned",
    "ter",
)
ALWAYS, EVER = ("valid",), ("silent", "wholesale")


class Summary(NamedTuple):
    """What is said of the drafts. `rankings`: editor -> its Ranking; `drafts`: editor -> its drafts, a row each;
    `tables`: all of it, for a report; `signatures`: those of the numbers.
    """

    rankings: dict[str, Ranking]
    drafts: dict[str, pd.DataFrame]
    tables: list[ReportTable]
    signatures: list[str]


def summary(
    drafts: pd.DataFrame,
    measured: pd.DataFrame,
    ceilings: Mapping[str, float] = CEILINGS,
    aligned: Mapping[str, int] = MappingProxyType({}),
) -> Summary:
    """The Summary of drafts (FROM_DRAFTS) and of the rows of MEASURED (FROM_MEASURED). `ceilings`: as of `ranking`;
    `aligned`: draft_id -> what counts where an editor's list of it cannot be used.
    """
    own = {
        str(name): of_editor(drafts, rows).assign(stand_in=drafts.draft_id.map(dict(aligned)).to_numpy(float))
        for name, rows in measured.groupby("editor", sort=False)
    }
    rankings = {name: ranking(rows, ceilings) for name, rows in own.items()}
    tables: list[ReportTable] = []
    for name, rows in own.items():
        by = f" (editor: {name})" if len(own) > 1 else ""
        note, note_of_pairs = ranking_notes(rankings[name], rows)
        tables += [
            ReportTable(f"Systems by the corrected distance{by}", note, _whole_ranks(rankings[name].systems)),
            ReportTable(f"Differences between systems{by}", note_of_pairs, rankings[name].pairs),
            ReportTable(f"How far the lists of edits can be trusted{by}", TRUST_NOTE, trust(rows)),
        ]
    tables += [*_variance(measured), *_agreement(own)]
    return Summary(rankings, own, tables, sorted(map(str, measured.signature.dropna().unique())))


def _whole_ranks(systems: pd.DataFrame) -> pd.DataFrame:
    """The table of systems with ranks as whole numbers, also where a system has none."""
    return systems.assign(rank=systems["rank"].astype("Int64")) if "rank" in systems else systems


def of_editor(drafts: pd.DataFrame, measured: pd.DataFrame) -> pd.DataFrame:
    """A row for each draft with the means over an editor's lists, as `ranking` needs them; nothing but its case and
    system for a draft that has no list. Valid: all its lists are; silent, wholesale: one of them is.
    """
    numbers = measured[["draft_id", *MEANS]].astype(dict.fromkeys(MEANS, float)).groupby("draft_id").mean()
    for name in (*ALWAYS, *EVER):
        known = measured[["draft_id", name]].dropna().astype({name: bool}).groupby("draft_id")[name]
        numbers[name] = (known.all() if name in ALWAYS else known.any()).astype(object)
    numbers["signature"] = measured.groupby("draft_id").signature.first()
    return drafts.rename(columns={"id": "case_id"}).join(numbers, on="draft_id")


def _variance(measured: pd.DataFrame) -> list[ReportTable]:
    """The table of how much the lists of one editor for one draft differ; none without repeats."""
    if not len(measured) or measured.repeat.max() == 0:
        return []
    rows = []
    for name, own in measured.groupby("editor", sort=False):
        by_draft = own.astype({"corrected": float, "distance": float}).groupby("draft_id")
        row: dict[str, Any] = {"editor": name, "drafts with several lists": int((by_draft.size() > 1).sum())}
        for column in ("distance", "corrected"):
            within, between = within_and_between(by_draft[column])
            row |= {f"{column}: within": within, f"{column}: between drafts": between}
            row[f"{column}: same in all, %"] = 100 * (by_draft[column].nunique()[by_draft.size() > 1] <= 1).mean()
        rows.append(row)
    note = (
        "Variance of the lists that the editor made for one draft (within; the mean over drafts), and of the drafts' "
        "means (between drafts). The first should be small beside the second."
    )
    return [ReportTable("Variance within the editor", note, pd.DataFrame(rows))]


def within_and_between(groups: Any) -> tuple[float, float]:
    """(mean variance of the values of a group, of groups with two values and more; variance of the groups' means)."""
    several = groups.count() > 1
    return float(groups.var(ddof=1)[several].mean()), float(groups.mean().var(ddof=1))


def _agreement(own: Mapping[str, pd.DataFrame]) -> list[ReportTable]:
    """The table of how far editors agree on the drafts; none with one editor."""
    rows = []
    for one, other in combinations(own, 2):
        both = own[one].set_index("draft_id").join(own[other].set_index("draft_id"), rsuffix=" of the other")
        for column in ("distance", "corrected"):
            pairs = both[[column, f"{column} of the other"]].astype(float).dropna()
            rows.append({"editor": one, "other editor": other, "measure": column, **agreement(pairs)})
    note = (
        "Over the drafts that both measured. Spearman: of the order of drafts; ICC: of the values themselves (two-way, "
        "single, absolute agreement, 1 at most); difference: the other less the first."
    )
    return [ReportTable("Agreement between editors", note, pd.DataFrame(rows))] if rows else []


def agreement(pairs: pd.DataFrame) -> dict[str, Any]:
    """Spearman's correlation and the intraclass correlation of two columns, and the mean difference with its interval;
    NaN where one is not defined.
    """
    from scipy.stats import spearmanr

    one, other = (pairs.iloc[:, at].to_numpy(float) for at in (0, 1))
    varies = len(pairs) > 1 and np.ptp(one) > 0 and np.ptp(other) > 0
    low, high = mean_interval(other - one)
    return {
        "drafts": len(pairs),
        "Spearman": float(spearmanr(one, other).statistic) if varies else np.nan,
        "ICC": icc(np.stack([one, other], axis=1)) if len(pairs) > 1 else np.nan,
        "difference": (other - one).mean() if len(pairs) else np.nan,
        "difference from": low,
        "difference to": high,
    }


def icc(values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """ICC(2,1) of Shrout and Fleiss (1979) of (n subjects, k raters): two-way random, single rater, absolute agreement.
    NaN where nothing varies.
    """
    n, k = values.shape
    grand = values.mean()
    subjects = k * ((values.mean(axis=1) - grand) ** 2).sum() / (n - 1)
    raters = n * ((values.mean(axis=0) - grand) ** 2).sum() / (k - 1)
    left = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0, keepdims=True) + grand
    error = (left**2).sum() / ((n - 1) * (k - 1))
    whole = subjects + (k - 1) * error + k * (raters - error) / n
    return float((subjects - error) / whole) if whole else float("nan")
