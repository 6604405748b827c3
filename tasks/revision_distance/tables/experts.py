"""The expert study (section 4.1.3): what experts prefer, whether metrics agree with them, and they with each other.

`judgements` are rows of JUDGEMENTS: one expert's on one sheet, which shows two drafts, both of them in `drafts`. The
paper prints no figure of its study.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from tasks.annotation.agreement import alpha, pairwise_share
from tasks.revision_distance.tables.metrics import METRICS, SYSTEMS, Metric
from tasks.revision_distance.tables.tables import mean_with_bounds, outcomes

RATED = ("content", "structure", "argument")
OUTCOMES = ("chosen", "tie", "rejected")


def of_drafts(judgements: pd.DataFrame, drafts: pd.DataFrame) -> pd.DataFrame:
    """The judgements of which both drafts are known, by sheet_id."""
    known = judgements["first"].isin(drafts.draft_id) & judgements.second.isin(drafts.draft_id)
    return judgements[known].sort_values("sheet_id", kind="stable")


def shown_texts(judgements: pd.DataFrame) -> pd.DataFrame:
    """Two rows a sheet, its drafts: sheet_id, draft_id, votes, and `outcome`: chosen, rejected or tie.

    Chosen is the text that more experts call better than the other; those who prefer neither are not asked.
    """
    sides = judgements.melt(["sheet_id", "better"], ["first", "second"], value_name="draft_id")
    votes = (sides.better == sides.draft_id).groupby([sides.sheet_id, sides.draft_id])
    texts = votes.sum().rename("votes").reset_index()
    lead = 2 * texts.votes - texts.groupby("sheet_id").votes.transform("sum")
    return texts.assign(outcome=np.select([lead > 0, lead < 0], ["chosen", "rejected"], "tie"))


def metrics_of_chosen_texts(judgements: pd.DataFrame, drafts: pd.DataFrame) -> pd.DataFrame:
    """By metric: means of the texts that experts chose and rejected, and how often the metric prefers the chosen.

    Of pairs of which both drafts have the score; ties of experts stand apart.
    """
    texts = shown_texts(judgements).merge(drafts, on="draft_id")
    decided = texts[texts.outcome != "tie"]
    rows = [_preferred(decided, metric) for metric in METRICS] if len(judgements) else []
    return pd.DataFrame(rows)


def _preferred(decided: pd.DataFrame, metric: Metric) -> dict[str, Any]:
    pairs = decided.pivot(index="sheet_id", columns="outcome", values=metric.column).astype(float)
    both = pairs.reindex(columns=["chosen", "rejected"]).dropna()
    found = outcomes(both.chosen, both.rejected, metric)
    return {
        "metric": metric.name,
        "better": "less" if metric.sign < 0 else "more",
        **mean_with_bounds("chosen", both.chosen),
        **mean_with_bounds("rejected", both.rejected),
        **mean_with_bounds("chosen - rejected", both.chosen - both.rejected),
        "prefers the chosen": (found == 1).sum(),
        "tie": (found == 0).sum(),
        "prefers the rejected": (found == -1).sum(),
        "pairs": len(both),
        "left out": len(pairs) - len(both),
    }


def systems_as_experts_see_them(judgements: pd.DataFrame, drafts: pd.DataFrame) -> pd.DataFrame:
    """By system how many of its texts were chosen, and the mean of each rating (1 to 5) with how many these are."""
    system = drafts.set_index("draft_id").system
    texts, given = shown_texts(judgements), ratings(judgements)
    counts = pd.crosstab(texts.draft_id.map(system), texts.outcome).reindex(columns=list(OUTCOMES), fill_value=0)
    rows = counts.assign(texts=counts.sum(axis=1))
    by_system = given.groupby([given.property, given.draft_id.map(system)]).rating.agg(["mean", "size"])
    for name in RATED:
        own = by_system.reindex(pd.MultiIndex.from_product([[name], rows.index])).droplevel(0)
        rows[name], rows[f"{name} ratings"] = own["mean"], own["size"].fillna(0).astype(int)
    ordered = rows.reindex([name for name in SYSTEMS if name in rows.index])
    return ordered.rename_axis(index="system", columns=None).reset_index()


def ratings(judgements: pd.DataFrame) -> pd.DataFrame:
    """A row a rating: sheet_id, draft_id, property, rating (1 to 5)."""
    rows = [
        (row["sheet_id"], draft, name, rating)
        for row in judgements.to_dict("records")
        for name in RATED
        for draft, rating in zip((row["first"], row["second"]), row[name], strict=False)
    ]
    return pd.DataFrame(rows, columns=["sheet_id", "draft_id", "property", "rating"])


def agreement_of_experts(judgements: pd.DataFrame, drafts: pd.DataFrame) -> pd.DataFrame:
    """How often two judgements of one sheet, or two ratings of one text, are the same, and Krippendorff's alpha.

    Alpha is nominal of the better text and ordinal of ratings; NaN where it is not defined.
    """
    if not len(judgements):
        return pd.DataFrame()
    better = judgements.better.map(drafts.set_index("draft_id").system).fillna("neither")
    given = ratings(judgements)
    units = {"better text": better.groupby(judgements.sheet_id)}
    for name in RATED:
        own = given[given.property == name]
        units[name] = own.rating.groupby([own.sheet_id, own.draft_id])
    return pd.DataFrame([
        _agreed(name, (list(unit) for _, unit in groups), ordinal=name in RATED) for name, groups in units.items()
    ])  # fmt: skip


def _agreed(name: str, units: Iterable[list[Any]], *, ordinal: bool) -> dict[str, Any]:
    judged_twice = [unit for unit in units if len(unit) > 1]
    agreed = pairwise_share(judged_twice)
    return {
        "judgement": name,
        "judged by two or more": len(judged_twice),
        "judgements of these": sum(map(len, judged_twice)),
        "agreed, %": None if agreed is None else 100 * agreed,
        "Krippendorff's alpha": alpha(judged_twice, ordinal=ordinal).value,
    }
