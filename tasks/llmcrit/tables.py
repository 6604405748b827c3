"""Tables 1 to 4, 25 and 26 of LLMCrit with the paper's rows below ours; planted violations; checks; criteria and texts.

The frames are rows of the schemas PUBLISHED_FEEDBACK, PUBLISHED_CRITIQUES, CHECKS, CRITERIA and TEXTS, with the columns
that report.py reads. A critique is a row for a criterion that contextual feedback was judged on: the feedback touches
the criterion if the critique is constructive. `found` is what `counts` returns. Shares are in percent, missing if they
are of nothing; `… from` and `… to` after a share are its interval (95 %).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from tasks.metrics.shares import sums_and_shares
from tasks.publishing.printed import above_paper, beside, printed

PRINTED = Path(__file__).with_name("printed.toml")
STRATEGIES = ("base", "crit", "icl", "cricl")
LAYERS = ("validity", "context", "constructive", "helpful")
STATES = ("proposed", "accepted", "edited")
ROW = ["task", "model", "strategy"]
OF_FEEDBACK, OF_CRITIQUES = ["feedback judged", "valid", "contextual"], ["criteria judged", "touched", "helped"]
MEASURES = {
    "validity": ("valid", "feedback judged"),
    "contextualization": ("contextual", "feedback judged"),
    "constructiveness": ("touched", "criteria judged"),
    "helpfulness": ("helped", "touched"),
}


def table_25_valid_and_contextual(found: pd.DataFrame) -> pd.DataFrame:
    """Table 25: of the feedback texts judged for validity how many are valid, and how many match their text."""
    shares = {
        "valid, % of judged": ("valid", "feedback judged"),
        "contextual, % of judged": ("contextual", "feedback judged"),
        "contextual, % of valid": ("contextual", "valid"),
    }
    return above_paper(
        sums_and_shares(as_in_paper(found).groupby(ROW), OF_FEEDBACK, shares), printed(PRINTED, "table_25"), same="task"
    )


def table_1_constructive_and_helpful(found: pd.DataFrame) -> pd.DataFrame:
    """Table 1: of the criteria that contextual feedback was judged on those touched, and of these those helped."""
    shares = {
        "constructive, % of judged": ("touched", "criteria judged"),
        "helpful, % of touched": ("helped", "touched"),
    }
    ours = sums_and_shares(as_in_paper(found).groupby(ROW), ["contextual", *OF_CRITIQUES], shares, over_texts=True)
    paper = printed(PRINTED, "table_26").merge(printed(PRINTED, "table_2"), on=[*ROW, "texts"])
    paper["helpful, % of touched"] = 100 * paper.helped / paper.touched
    return above_paper(ours, paper, same="task")


def table_26_touched(found: pd.DataFrame, column: str = "touched", table: str = "table_26") -> pd.DataFrame:
    """Table 26: how many criteria are touched, in how many texts with feedback, and the mean of a text."""
    ours = sums_and_shares(as_in_paper(found).groupby(ROW), [column, "texts"])
    rows = above_paper(ours, printed(PRINTED, table), same="task")
    rows[f"{column} a text"] = rows[column].astype(float) / rows.texts.astype(float)
    return rows


def table_2_helped(found: pd.DataFrame) -> pd.DataFrame:
    """Table 2: as table 26, of the criteria that are helpfully addressed."""
    return table_26_touched(found, "helped", "table_2")


def table_3_by_criterion(feedback: pd.DataFrame, critiques: pd.DataFrame, criteria: pd.DataFrame) -> pd.DataFrame:
    """Table 3: by criterion, for each strategy the share of contextual feedback judged on it that touches it, and the
    helpful share of these critiques, 0 if there are none; both are missing if none was judged. All models together.
    """
    judged = as_in_paper(counts_of_critiques(critiques))
    own = criteria[criteria.task.isin(judged.task)].sort_values(["task", "aspect_id", "position"], ignore_index=True)
    headings = feedback.dropna(subset=["aspect"]).drop_duplicates("aspect_id").set_index("aspect_id").aspect
    aspects = [headings.get(each, each) for each in own.aspect_id]
    rows = own[["task"]].assign(aspect=aspects, criterion=own.name.where(own.name != "", own.check))
    for strategy, of_strategy in judged.groupby("strategy"):
        sums = of_strategy.groupby("criterion_id")[OF_CRITIQUES].sum()
        touched, helped = sums.touched / sums["criteria judged"], (sums.helped / sums.touched).fillna(0)
        rows[f"{strategy} touched, % of judged"] = 100 * own.criterion_id.map(touched)
        rows[f"{strategy} helpful, % of touched"] = 100 * own.criterion_id.map(helped)
    return rows


def table_4_granularity(found: pd.DataFrame) -> pd.DataFrame:
    """Table 4: the four shares of feedback by strategy crit, asked for by criterion (single) and by aspect (batch), of
    the tasks and models that have both. `single of` and `batch of`: how many the share is of.
    """
    crit = found[found.strategy == "crit"]
    single, batch = (
        crit[crit.granularity == by].groupby(ROW[:2])[OF_FEEDBACK + OF_CRITIQUES].sum()
        for by in ("criterion", "aspect")
    )
    both = single.index.intersection(batch.index)
    shares = [
        pd.DataFrame({
            "measure": measure,
            "single, %": 100 * single[part] / single[whole],
            "batch, %": 100 * batch[part] / batch[whole],
            "single of": single[whole],
            "batch of": batch[whole],
        }, index=both)
        for measure, (part, whole) in MEASURES.items()
    ]  # fmt: skip
    rows = pd.concat(shares).reset_index()
    rows.insert(5, "batch - single", rows["batch, %"] - rows["single, %"])
    return above_paper(rows, printed(PRINTED, "table_4"), same="task")


def planted_violations(texts: pd.DataFrame, critiques: pd.DataFrame) -> pd.DataFrame:
    """On modified texts, how many of the criteria judged are touched and helped: those made to violate, and others."""
    modified = critiques[critiques.text_id.isin(texts.text_id[texts.modified.astype(bool)])]
    kinds = np.where(modified.violated.astype(bool), "made to violate", "others")
    judged, row = as_in_paper(counts_of_critiques(modified.assign(criteria=kinds))), ["task", "strategy", "criteria"]
    groups = judged.groupby([*row, "text_id"])[OF_CRITIQUES].sum().reset_index().assign(texts=1).groupby(row)
    shares = {f"{part}, % of judged": (part, "criteria judged") for part in ("touched", "helped")}
    return sums_and_shares(groups, ["texts", *OF_CRITIQUES], shares, over_texts=True)


def checks_of_judges(checks: pd.DataFrame) -> pd.DataFrame:
    """By layer and kind of planted feedback, how often the judge gives the right verdict."""
    layers = pd.Categorical(checks.layer, LAYERS)
    hits = checks.assign(layer=layers, kind=checks.planted, planted=1, hits=checks.hit.astype(int))
    return sums_and_shares(
        hits.groupby(["layer", "kind"]), ["planted", "hits"], {"hits, % of planted": ("hits", "planted")}
    )


def criteria_and_texts(criteria: pd.DataFrame, texts: pd.DataFrame) -> pd.DataFrame:
    """By task the numbers of aspects that have criteria, of criteria, all and by state, and of texts; their strata."""
    numbers = {
        "aspects": criteria.drop_duplicates("aspect_id").task.value_counts(),
        "criteria": criteria.task.value_counts(),
        **{state: criteria.task[criteria.state == state].value_counts() for state in STATES},
        "texts": texts.task.value_counts(),
        "modified": texts.task[texts.modified.astype(bool)].value_counts(),
    }
    tasks = pd.Index(sorted({*criteria.task, *texts.task}), name="task", dtype=object)
    rows = pd.DataFrame(numbers, tasks).fillna(0).astype(int).reset_index()
    numbered = texts.stratum.replace("", "none").groupby(texts.task)
    strata = {task: _in_words(own.value_counts().sort_index()) for task, own in numbered}
    return beside(rows.assign(strata=rows.task.map(strata)), printed(PRINTED, "criteria_and_texts"), on=["task"])


def _in_words(numbers: pd.Series[int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in numbers.items())


# ---------------------------------------------------------------- counting


def counts(feedback: pd.DataFrame, critiques: pd.DataFrame) -> pd.DataFrame:
    """A row for each task, model, strategy, granularity and text with feedback: the sums of OF_FEEDBACK and
    OF_CRITIQUES, and `texts`, which is 1. Strategies are ordered.
    """
    of_feedback = feedback.assign(
        model=feedback.model.fillna("not named"),
        strategy=pd.Categorical(feedback.strategy, STRATEGIES),
        **{"feedback judged": feedback.validity.notna().astype(int)},
        valid=feedback.validity.eq("specific").astype(int),
        contextual=feedback.context.eq("match").astype(int),
    )
    rows = pd.concat([of_feedback, counts_of_critiques(critiques)], ignore_index=True)
    sums = rows.groupby([*ROW, "granularity", "text_id"])[OF_FEEDBACK + OF_CRITIQUES].sum()
    return sums.astype(int).reset_index().assign(texts=1)


def counts_of_critiques(critiques: pd.DataFrame) -> pd.DataFrame:
    """A row for each critique, with OF_CRITIQUES as 0 or 1. `model`: the one that wrote the feedback."""
    return critiques.assign(
        model=critiques.writer.fillna("not named"),
        strategy=pd.Categorical(critiques.strategy, STRATEGIES),
        **{"criteria judged": 1},
        touched=critiques.constructive.astype(int),
        helped=critiques.helpful.eq(True).astype(int),
    )


def as_in_paper(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows without those of feedback that was asked for criterion by criterion, which only table 4 shows."""
    return rows[rows.granularity != "criterion"]
