"""Tables of an evaluation: the paper's tables 2 and 3, its rows below ours, agreement with people, and differences."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from longform.artifacts.rows import Row
from tasks.axioms.scoring.evaluate import (
    ACCURACY,
    ALL,
    CHANGE_OF_PREFERRED,
    CHANGE_OF_REJECTED,
    DIFFERENCE,
    MRR,
    NDCG,
    WITH_EVIDENCE,
)
from tasks.axioms.scoring.reading import OF_COMPARISONS, OF_PAIRS, OF_PEOPLE, RANKED_SETS, SETS
from tasks.publishing.card import ReportTable
from tasks.publishing.printed import printed

if TYPE_CHECKING:
    import pandas as pd

PRINTED = Path(__file__).parents[1] / "printed.toml"
COUNTS = ("n", "left out")
OURS, PAPER = "this evaluation", "paper"
SHOWN_OF_PAIRS = (ACCURACY, WITH_EVIDENCE, CHANGE_OF_PREFERRED, CHANGE_OF_REJECTED)

RANKED = (
    "Reciprocal rank of the best answers (those of the greatest gain) and NDCG with linear gains, means over questions "
    "in percent. Those with equal scores count by the mean over all their orders, so equal scores for all are as good "
    "as chance. Left out: questions with an answer that has no score, and those whose answers all have the same gain. "
    "Intervals (95 %) by bootstrap over questions."
)
COMPARED = (
    "Share of comparisons in which the answer that people preferred has the higher score, equal scores counting one "
    "half; with evidence, each answer is read with the passages that it was written from. p: by a t-test, that the "
    "share is 50 %. Score difference: preferred less rejected, with the p value of the paired t-test."
)
OF_PAIRS_NOTE = (
    "Share of the test pairs in which the preferred answer has the higher score, equal scores counting one half; with "
    "evidence, both answers are read with the passages of the pair, on pairs that have some. Changes: by how much that "
    "changes the mean score, in the scorer's own unit. A combined answer's first parent has more votes than its second."
)
AGREED = (
    "Share of the validated pairs that a majority of people decided in which the answer they prefer has the higher "
    "score, equal scores counting one half. p: by a t-test, that the share is 50 %."
)
DIFFERENCES = "The scorer less the first one, on what both have scored; p by the paired t-test over questions."


def tables(metrics: pd.DataFrame) -> list[ReportTable]:
    """The tables of which the metrics have a figure: ranking (table 2), WebGPT, pairs (table 3), agreement with people,
    and differences between scorers. The paper's rows of the same sets stand below ours.
    """
    own = metrics[metrics["against"].isna()]
    others = metrics[metrics["against"].notna()]
    found = [
        ReportTable("Answer ranking (table 2)", RANKED, ranking_table(own)),
        ReportTable("WebGPT comparisons (table 2)", COMPARED, comparisons_table(own)),
        ReportTable("Held-out pairs (table 3)", OF_PAIRS_NOTE, pairs_table(own)),
        ReportTable("Agreement with people", AGREED, agreement_table(own)),
        ReportTable("Differences", DIFFERENCES, differences_table(others)),
    ]
    return [table for table in found if len(table.frame)]


def wide(metrics: pd.DataFrame, sets: tuple[str, ...], names: tuple[str, ...]) -> pd.DataFrame:
    """A row for each set, subset and scorer, in the order of the metrics: source, scorer, set, subset; of each metric
    the value, `… from` and `… to`, those alone that have a value; `n` and `left out`, of the first metric.
    """
    rows = metrics[metrics["set"].isin(sets) & metrics["metric"].isin(names)]
    keys = ["scorer", "set", "subset"]
    found = rows[keys].drop_duplicates().sort_values("set", key=_place, kind="stable")
    for name in names:
        ends = {"value": name, "low": f"{name} from", "high": f"{name} to"}
        of = rows[rows["metric"] == name].rename(columns=ends)
        if of[name].notna().any():
            first = {"n": "n", "left_out": "left out"} if "n" not in found.columns else {}
            found = found.merge(of.rename(columns=first)[[*keys, *ends.values(), *first.values()]], on=keys, how="left")
    found.insert(0, "source", OURS)
    found = found[[*(name for name in found.columns if name not in COUNTS), *(COUNTS if len(rows) else ())]]
    return found.reset_index(drop=True)


def ranking_table(metrics: pd.DataFrame) -> pd.DataFrame:
    """Table 2 without WebGPT: a row for each scorer, set and its parts, and the paper's rows of these."""
    return _below(wide(metrics, RANKED_SETS, (MRR, NDCG)), printed(PRINTED, "table_2"), [MRR, NDCG])


def comparisons_table(metrics: pd.DataFrame) -> pd.DataFrame:
    """WebGPT's column of table 2: a row for each scorer with its accuracy, and the paper's rows."""
    found = wide(metrics, (OF_COMPARISONS,), (ACCURACY, WITH_EVIDENCE, DIFFERENCE))
    found = _with_p(found, metrics, OF_COMPARISONS, ACCURACY, DIFFERENCE)
    return _below(found, printed(PRINTED, "table_2"), [ACCURACY])


def pairs_table(metrics: pd.DataFrame) -> pd.DataFrame:
    """Table 3: a row for each scorer and kind of pair, and the paper's rows of these."""
    found = wide(metrics, (OF_PAIRS,), SHOWN_OF_PAIRS)
    return _below(found, printed(PRINTED, "table_3").assign(set=OF_PAIRS), list(SHOWN_OF_PAIRS))


def agreement_table(metrics: pd.DataFrame) -> pd.DataFrame:
    """A row for each scorer and kind of pair: how often it prefers what most people do."""
    return _with_p(wide(metrics, (OF_PEOPLE,), (ACCURACY, WITH_EVIDENCE)), metrics, OF_PEOPLE, ACCURACY)


def differences_table(metrics: pd.DataFrame) -> pd.DataFrame:
    """A row for each scorer, whole set and metric: its value less that of the first scorer."""
    whole = metrics[metrics["subset"] == ALL]
    names = {"value": "difference", "low": "difference from", "high": "difference to"}
    columns = ["scorer", "against", "set", "metric", *names, "p", "n"]
    ordered = whole[columns].rename(columns=names).sort_values("set", key=_place, kind="stable")
    return ordered.reset_index(drop=True)


def _place(sets: pd.Series) -> pd.Series:
    """The place of each set in SETS; sets that are not there come last."""
    return sets.map(lambda name: SETS.index(name) if name in SETS else len(SETS))


def _with_p(found: pd.DataFrame, metrics: pd.DataFrame, of_set: str, *names: str) -> pd.DataFrame:
    """The table with a column `p` after the interval of each of these metrics that it has."""
    for name in names:
        if name in found.columns:
            rows = metrics[(metrics["set"] == of_set) & (metrics["metric"] == name)]
            place = list(found.columns).index(f"{name} to") + 1
            values = found[["scorer", "subset"]].merge(rows, on=["scorer", "subset"], how="left")["p"]
            found.insert(place, f"{name} p", values.to_numpy())
    return found


def _below(ours: pd.DataFrame, paper: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Our rows and below them those of the paper that have one of these figures for a set and subset of ours."""
    import pandas as pd

    shown = [name for name in names if name in ours.columns]
    keys = ours[["set", "subset"]].drop_duplicates()
    theirs = paper.merge(keys, on=["set", "subset"])
    theirs = theirs[theirs[shown].notna().any(axis=1)].assign(source=PAPER)
    if not len(ours) or not len(theirs):
        return ours
    both = [
        frame[[name for name in ours.columns if name in frame.columns]].astype(
            dict.fromkeys(shown, "Float64") | {name: "Int64" for name in COUNTS if name in frame.columns}
        )
        for frame in (ours, theirs)
    ]
    return pd.concat(both, ignore_index=True)[list(ours.columns)]


def left_out_table(rows: list[Row]) -> list[ReportTable]:
    """The table of what has no score, by scorer, set and reason; [] if all have one."""
    import pandas as pd

    frame = pd.DataFrame(rows, columns=["scorer", "set", "reason", "number"]).rename(columns={"number": "answers"})
    return [ReportTable("Left out", "Answers without a score.", frame)] if len(frame) else []
