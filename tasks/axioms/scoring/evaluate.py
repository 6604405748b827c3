"""How well scores rank and prefer: pure functions from frames of scores to a frame of metrics.

    scores      scorer, set, question_id, answer_id, evidence ("" without), score
    ranking     set, subset, question_id, answer_id, gain
    pairs       set, axiom, pair_type, parent, question_id, preferred_id, rejected_id, preferred_evidence,
                rejected_evidence
    metrics     METRICS

A question with an answer that has no score, and a question whose answers all have the same gain, are left out and
counted: such a question says nothing of a scorer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.metrics.intervals import mean_interval, ratio_interval
from tasks.metrics.ranking import ndcg, pair_wins, reciprocal_rank, t_test

if TYPE_CHECKING:
    import pandas as pd

METRICS = ("scorer", "set", "subset", "metric", "value", "low", "high", "n", "left_out", "p", "against")
ALL, COMBINED = "all", "combined > "
MRR, NDCG, ACCURACY, WITH_EVIDENCE = "MRR", "NDCG", "accuracy", "accuracy with evidence"
CHANGE_OF_PREFERRED, CHANGE_OF_REJECTED = "change of preferred", "change of rejected"
DIFFERENCE = "score difference"
PERCENT = (MRR, NDCG, ACCURACY, WITH_EVIDENCE)
TESTED = ("webgpt", "people")  # sets of which a question is one pair
ID = ["set", "question_id"]
NO_AXIOM = -1  # of pairs that are for validation alone

Measured = dict[str, Any]


def evaluate(
    scores: pd.DataFrame, *, ranking: pd.DataFrame | None = None, pairs: pd.DataFrame | None = None
) -> pd.DataFrame:
    """A row for each scorer, set, part of the set (`subset`) and metric: value, its 95 % interval by bootstrap over
    questions, the number of questions or pairs (`n`), how many were left out, and a p value.

    MRR and NDCG of ranked answers, accuracy of pairs and agreement are in percent; changes of scores are in the
    scorer's own unit. `p`: that the accuracy is 50 %, or the mean difference 0, by a t-test; of sets whose questions
    are one pair. Rows with `against` hold a scorer's value less that of the first scorer, on the questions that both
    have scored, with the p value of the paired t-test over questions.

    The scorers come in the order of `scores`. Without anything to measure the frame has no rows.
    """
    import pandas as pd

    names = list(dict.fromkeys(scores["scorer"]))
    measured = {name: _units(scores[scores["scorer"] == name], ranking, pairs) for name in names}
    rows = [row for name in names for row in _summaries(name, measured[name])]
    rows += [row for name in names[1:] for row in _differences(name, measured[name], names[0], measured[names[0]])]
    types = dict.fromkeys(("value", "low", "high", "p"), float) | dict.fromkeys(("n", "left_out"), int)
    return pd.DataFrame(rows, columns=list(METRICS)).astype(types)


def _units(scores: pd.DataFrame, ranking: pd.DataFrame | None, pairs: pd.DataFrame | None) -> pd.DataFrame:
    """What is averaged for one scorer, a row for each question or pair, subset and metric: set, subset, metric,
    question_id, unit, value (NaN: left out).
    """
    import pandas as pd

    found = [
        *([] if ranking is None else [ranked(scores, ranking)]),
        *([] if pairs is None else [paired(scores, pairs)]),
    ]
    columns = ["set", "subset", "metric", "question_id", "unit", "value"]
    return pd.concat(found, ignore_index=True)[columns] if found else pd.DataFrame(columns=columns)


def ranked(scores: pd.DataFrame, ranking: pd.DataFrame) -> pd.DataFrame:
    """MRR and NDCG in percent of each question, for the whole set and, if it has several, its `subset`; NaN where a
    question is left out. Scores given with evidence are not used.
    """
    import pandas as pd

    own = scores.loc[scores["evidence"] == "", [*ID, "answer_id", "score"]]
    ranking = ranking.drop_duplicates([*ID, "answer_id"])
    joined = ranking.merge(own, on=[*ID, "answer_id"], how="left", validate="one_to_one")
    several = {name for name, parts in ranking.groupby("set")["subset"].nunique().items() if parts > 1}
    rows = [
        {"set": name, "subset": subset, "question_id": question, "unit": question, MRR: first, NDCG: gained}
        for (name, question), answers in joined.groupby(ID, sort=True)
        for first, gained in [_of_question(answers["score"].to_numpy(float), answers["gain"].to_numpy(float))]
        for subset in (ALL, *([answers["subset"].iloc[0]] if name in several else []))
    ]
    wide = pd.DataFrame(rows, columns=["set", "subset", "question_id", "unit", MRR, NDCG])
    return wide.melt(["set", "subset", "question_id", "unit"], var_name="metric")


def _of_question(scores: np.ndarray[Any, Any], gains: np.ndarray[Any, Any]) -> tuple[float, float]:
    """(reciprocal rank, NDCG) in percent; NaN if a score is missing, or all gains are equal."""
    if not np.isfinite(scores).all() or np.ptp(gains) == 0:
        return math.nan, math.nan
    return 100 * reciprocal_rank(scores, gains), 100 * ndcg(scores, gains)


def paired(scores: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Of each pair whether it is told (100, 50 or 0), and the difference of its scores; with evidence also whether it
    is told then, and by how much the evidence changes both scores. For the whole set, the axiom, the pair type, and the
    parent of a combined answer; NaN where a score is missing.
    """
    import pandas as pd

    bare, shown = _both(scores, pairs, with_evidence=False), _both(scores, pairs, with_evidence=True)
    read = (pairs[["preferred_evidence", "rejected_evidence"]] != "").any(axis=1).to_numpy()
    measured = {
        ACCURACY: 100 * pair_wins(*bare),
        DIFFERENCE: bare[0] - bare[1],
        WITH_EVIDENCE: 100 * pair_wins(*shown),
        CHANGE_OF_PREFERRED: shown[0] - bare[0],
        CHANGE_OF_REJECTED: shown[1] - bare[1],
    }
    base = pairs[["set", "question_id", "axiom", "pair_type", "parent"]].assign(unit=np.arange(len(pairs)).astype(str))
    parts = []
    for metric, values in measured.items():
        of = base.assign(metric=metric, value=values)
        of = of[of["set"].isin(TESTED)] if metric == DIFFERENCE else of
        of = of if metric in (ACCURACY, DIFFERENCE) else of[read]
        parts += [
            of.assign(subset=ALL),
            of[of["axiom"].fillna(NO_AXIOM) != NO_AXIOM].assign(subset=lambda rows: _axiom(rows["axiom"])),
        ]
        parts.append(of[of["pair_type"].notna()].assign(subset=lambda rows: rows["pair_type"]))
        parts.append(of[of["parent"].notna()].assign(subset=lambda rows: COMBINED + rows["parent"]))
    return pd.concat(parts, ignore_index=True)


def _axiom(numbers: pd.Series) -> pd.Series:
    return "axiom " + numbers.astype(int).astype(str)


def _both(scores: pd.DataFrame, pairs: pd.DataFrame, *, with_evidence: bool) -> tuple[Any, Any]:
    """(score of the preferred, of the rejected answer) of each pair, arrays (pairs,), NaN where there is none."""
    found = []
    for side in ("preferred", "rejected"):
        asked = pairs[[*ID]].assign(
            answer_id=pairs[f"{side}_id"], evidence=pairs[f"{side}_evidence"] if with_evidence else ""
        )
        keys = [*ID, "answer_id", "evidence"]
        joined = asked.merge(scores[[*keys, "score"]], on=keys, how="left", validate="many_to_one")
        found.append(joined["score"].to_numpy(float))
    return found[0], found[1]


def _summaries(scorer: str, units: pd.DataFrame) -> Iterator[Measured]:
    """A row of METRICS for each set, subset and metric of one scorer."""
    for key, of in _grouped(units):
        known = of[of["value"].notna()]
        tested = key[0] in TESTED
        middle = 50.0 if key[2] in (ACCURACY, WITH_EVIDENCE) else 0.0
        yield {
            **_row(scorer, key),
            **_mean(known),
            "left_out": len(of) - len(known),
            "p": t_test(known["value"] - middle).p if tested else math.nan,
        }


def _differences(scorer: str, units: pd.DataFrame, first: str, of_first: pd.DataFrame) -> Iterator[Measured]:
    """A row of METRICS for each set, subset and metric in percent: a scorer less the first one, on the units that both
    have scored.
    """
    keys = ["set", "subset", "metric", "question_id", "unit"]
    both = units.merge(of_first, on=keys, suffixes=("", " of first"))
    both = both[both["metric"].isin(PERCENT)]
    both = both.assign(value=both["value"] - both["value of first"])
    for key, of in _grouped(both):
        known = of[of["value"].notna()]
        by_question = known.groupby("question_id")["value"].mean()
        yield {
            **_row(scorer, key),
            **_mean(known),
            "left_out": len(of) - len(known),
            "p": t_test(by_question).p,
            "against": first,
        }


def _grouped(units: pd.DataFrame) -> list[tuple[tuple[str, str, str], pd.DataFrame]]:
    """((set, subset, metric), its units), in the order of the sets; of each the whole first, then its parts by name."""
    sets, metrics = (list(dict.fromkeys(units[name])) for name in ("set", "metric"))
    found = [
        ((str(key[0]), str(key[1]), str(key[2])), of)
        for key, of in units.groupby(["set", "subset", "metric"], sort=False)
    ]
    return sorted(found, key=lambda of: (sets.index(of[0][0]), of[0][1] != ALL, of[0][1], metrics.index(of[0][2])))


def _row(scorer: str, key: Sequence[Any]) -> Measured:
    return {"scorer": scorer, "set": key[0], "subset": key[1], "metric": key[2], "against": None}


def _mean(known: pd.DataFrame) -> Measured:
    """The mean of the units and its interval by bootstrap over their questions."""
    if not len(known):
        return {"value": math.nan, "low": math.nan, "high": math.nan, "n": 0}
    of = known.groupby("question_id")["value"].agg(["sum", "size"])
    values = of["sum"].to_numpy(float)
    alone = bool((of["size"] == 1).all())
    low, high = mean_interval(values) if alone else ratio_interval(values, of["size"].to_numpy(float))
    return {"value": float(known["value"].mean()), "low": low, "high": high, "n": len(known)}


def left_out(metrics: pd.DataFrame) -> Iterable[tuple[str, str, int, int]]:
    """(scorer, set, questions or pairs left out, of all) for each whole set of which some were left out."""
    whole = metrics[(metrics["subset"] == ALL) & metrics["against"].isna() & metrics["metric"].isin((MRR, ACCURACY))]
    for row in whole[whole["left_out"] > 0].to_dict("records"):
        yield row["scorer"], row["set"], row["left_out"], row["left_out"] + row["n"]
