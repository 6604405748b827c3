"""The report of LLMCrit: the paper's tables and a plot, from the published tables alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from longform.artifacts.rows import Rows
from tasks.publishing.card import Figure, ReportTable
from tasks.publishing.charts import Counts, stacked_bars
from tasks.publishing.plots import svg_of

if TYPE_CHECKING:
    import pandas as pd

ASKED = ["text_id", "task", "strategy", "granularity"]
FEEDBACK = [*ASKED, "model", "aspect_id", "aspect", "validity", "context"]
CRITIQUES = [*ASKED, "writer", "criterion_id", "violated", "constructive", "helpful"]
CRITERIA = ["criterion_id", "aspect_id", "task", "position", "name", "check", "state"]
TEXTS = ["text_id", "task", "stratum", "modified"]

TABLE_25 = (
    "Judged: feedback texts judged for validity. Valid: specific. Contextual: match, as a share of all judged and of "
    "the valid ones. Intervals (95 %): Wilson. The paper's caption says of valid, but 93.0 % (introductions, "
    "LAlpaca, base) is no share of the 96 texts that are valid: its figures stand as shares of all judged."
)
TABLE_1 = (
    "Criteria judged: a contextual feedback text counts once for each criterion that it was judged on. Touched: it "
    "criticises or suggests (constructive). Helped: that helps. Intervals (95 %) by bootstrap over the texts with "
    "feedback. The paper's table 1 is a plot: its helpful share here is its table 2 over its table 26."
)
TOTALS = "In all texts together, and the mean of a text. Texts: those with feedback; in the paper 100 of each task."
TABLE_3 = (
    "Touched: share of the contextual feedback judged on the criterion. Helpful: share of these critiques, 0 if there "
    "are none. Feedback of all models together. The paper shows a plot, of code only."
)
TABLE_4 = (
    "Strategy crit. Single: a call for each criterion, batch: for each aspect. Validity and contextualization are of "
    "the feedback texts judged for validity, constructiveness of the criteria judged, helpfulness of those touched; "
    "`of` says how many. Cells of the paper that our copy does not show are missing."
)
VIOLATIONS = (
    "Not in the paper. Judged: criteria that contextual feedback on modified texts was judged on. Helped: touched by a "
    "helpful critique. Feedback of all models together. Intervals (95 %) by bootstrap over these texts."
)
CHECKS = "Not in the paper. Planted: feedback made right or wrong; hits: the judge says so. Intervals (95 %): Wilson."
JUDGEMENTS = ["layer", "item_id", "task", "annotator_id", "label", "judge"]
AGREEMENT = (
    "Compared: items on which all people say the same (of those that two or more judged; else all). Accuracy and macro "
    "F1 of the judge are of these, with 95 % intervals by Wilson and by bootstrap over items. Positive: specific, "
    "match, yes."
)
CRITERIA_AND_TEXTS = "Aspects: those with criteria. Strata: what the draw of texts is balanced over, with their texts."


def tables(
    feedback: Rows, critiques: Rows, checks: Rows, criteria: Rows, texts: Rows, marks: Mapping[str, str]
) -> list[ReportTable]:
    """The report's tables: 25, 1, 26, 2, 3 and 4 of the paper, planted violations, checks, criteria and texts.

    `feedback`, `critiques`: the published ones. `marks`: layer -> a sentence for the notes of tables that use it.
    """
    from tasks.llmcrit import tables as made

    given, judged = feedback.to_pandas(FEEDBACK), critiques.to_pandas(CRITIQUES)
    checked, drawn = checks.to_pandas(["layer", "planted", "hit"]), texts.to_pandas(TEXTS)
    known, found = criteria.to_pandas(CRITERIA), made.counts(given, judged)

    def table(title: str, note: str, frame: pd.DataFrame, layers: int = len(made.LAYERS)) -> ReportTable:
        """The table with the marks of the first `layers` layers, each said once, at the end of its note."""
        said = dict.fromkeys(marks[layer] for layer in made.LAYERS[:layers] if layer in marks)
        return ReportTable(title, " ".join([note, *said]), frame)

    return [
        table("Valid and contextual feedback (table 25)", TABLE_25, made.table_25_valid_and_contextual(found), 2),
        table("Constructive and helpful feedback (table 1)", TABLE_1, made.table_1_constructive_and_helpful(found)),
        table("Criteria touched (table 26)", TOTALS, made.table_26_touched(found), 3),
        table("Criteria helpfully addressed (table 2)", TOTALS, made.table_2_helped(found)),
        table("Feedback by criterion (table 3)", TABLE_3, made.table_3_by_criterion(given, judged, known)),
        table("Asked by criterion or by aspect (table 4)", TABLE_4, made.table_4_granularity(found)),
        table("Planted violations", VIOLATIONS, made.planted_violations(drawn, judged)),
        table("Checks of the judges", CHECKS, made.checks_of_judges(checked)),
        table("Criteria and texts", CRITERIA_AND_TEXTS, made.criteria_and_texts(known, drawn), 0),
    ]


def doubts(judgements: Rows, least: float) -> dict[str, str]:
    """layer -> a sentence for the notes of its tables, where its judge agrees too little with people. `judgements`:
    rows of JUDGEMENTS; `least`: the share of agreement below which a judge is in doubt.
    """
    from tasks.llmcrit.people.judgements import doubted

    return doubted(judgements.to_pandas(JUDGEMENTS), least)


def agreement_tables(judgements: Rows) -> list[ReportTable]:
    """The table on judges and people; [] if nobody judged. `judgements`: rows of JUDGEMENTS."""
    from tasks.llmcrit.people.judgements import agreement_by_layer

    frame = agreement_by_layer(judgements.to_pandas(JUDGEMENTS))
    return [ReportTable("Judges and people", AGREEMENT, frame)] if len(frame) else []


def figures(feedback: Rows) -> list[Figure]:
    """The plot of touched and helpfully addressed criteria; [] if none was judged. `feedback`: the published one."""
    from tasks.llmcrit.tables import STRATEGIES, as_in_paper

    given = as_in_paper(feedback.to_pandas(["task", "strategy", "granularity", "judged", "touched", "helped"]))
    sums = given[given.judged > 0].groupby(["task", "strategy"])[["touched", "helped"]].sum()
    if not len(sums):
        return []
    title = "Criteria touched and helpfully addressed, by strategy and task"
    note = "Sums over all texts and models. Feedback that was asked for criterion by criterion is left out."
    ordered = sums.loc[sorted(sums.index, key=lambda row: (row[0], STRATEGIES.index(row[1])))]
    panels = [
        Counts("touched", {"criteria": ordered.touched.tolist()}),
        Counts("helpfully addressed", {"criteria": ordered.helped.tolist()}),
    ]
    chart = partial(stacked_bars, [", ".join(row) for row in ordered.index], panels)
    return [Figure("criteria", title, note, svg_of(chart, title))]
