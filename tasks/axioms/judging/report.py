"""What the margins of a critic look like in a version's report: pairs by type, the critic itself, and its
margins.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import duckdb

from longform.artifacts.rows import Rows, read_parquet
from tasks.axioms.paper_tables import AXIOMS
from tasks.publishing.card import Figure, ReportTable
from tasks.publishing.charts import Counts, histograms
from tasks.publishing.plots import svg_of

if TYPE_CHECKING:
    import pandas as pd

BY_TYPE = (
    "Pairs of train and test of which the critic scored both answers, and what it says of them: its scores are at "
    "least {least} points apart in the pair's favour (these are the rows of preference_critic), nearer than that, or "
    "in favour of the rejected answer. A critic that draws its scores agrees as often as it disagrees. Pairs of which "
    "not both answers were shown to it have no score."
)
OF_CRITIC = (
    "Calls, answers and scores of the critic. Ties: pairs of answers of a call with equal scores. The order of the "
    "answers is drawn: of a critic that does not go by it the best answer is the first as often as by chance, and the "
    "earlier of two answers is the better one in half of the pairs that are no ties."
)
MARGINS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
MARGIN_BINS = ("< .05", "< .1", "< .15", "< .2", "< .3", "< .4", "< .5", "< .6", "< .8", "≥ .8")


def critic_tables(pairs: Rows, critiques: Rows, *, least: int) -> list[ReportTable]:
    """The tables of the report on the critic. `pairs`: the published ones, with its scores; `critiques`: what it said;
    `least`: points by which scores must differ.
    """
    return [
        ReportTable("Margins by the critic", BY_TYPE.format(least=least), margins_by_type(pairs, least), on_card=True),
        ReportTable("The critic", OF_CRITIC, habits(critiques)),
    ]


def margins_by_type(pairs: Rows, least: int) -> pd.DataFrame:
    """axiom, pair type, pairs, those scored, those kept, those under `least` points apart, those of which the critic
    prefers the rejected answer, the last three also in percent of those scored; mean margin of those kept.
    """
    ahead = "(preferred_score - rejected_score)"
    found = _counted(
        {"pairs": pairs},
        f"""
        SELECT axiom, pair_type AS "pair type", count(*) AS pairs, count(preferred_score) AS scored,
               count_if({ahead} >= {least})::BIGINT AS kept,
               count_if({ahead} >= 0 AND {ahead} < {least})::BIGINT AS near, count_if({ahead} < 0)::BIGINT AS against,
               avg(critic_margin) AS "mean margin"
        FROM pairs WHERE split <> 'overlap' GROUP BY ALL ORDER BY axiom, pair_type
        """,
    )
    for name in ("kept", "near", "against"):
        found[f"{name} %"] = (100 * found[name] / found["scored"]).round(2)
    names = {
        "near": f"under {least} points",
        "near %": f"under {least} points, %",
        "kept %": "kept, %",
        "against": "critic disagrees",
        "against %": "critic disagrees, %",
    }
    order = ["axiom", "pair type", "pairs", "scored"]
    order += [part for name in ("kept", "near", "against") for part in (name, f"{name} %")] + ["mean margin"]
    axioms = {number: f"{number} {name}" for number, name in AXIOMS.items()}
    return found.assign(axiom=found.axiom.map(axioms).astype(str))[order].rename(columns=names)


def habits(critiques: Rows) -> pd.DataFrame:
    """For each model: calls, answers, mean and standard deviation of the scores, ties in percent, how often the best
    answer (where there is one) is the first and how often chance makes it so, and how often the earlier of two answers
    is the better one, in percent.
    """
    return _counted(
        {"critiques": critiques},
        """
        WITH two AS (
            SELECT a.model, a.score - b.score AS ahead FROM critiques AS a JOIN critiques AS b
            ON a.question_id = b.question_id AND a.place < b.place
        ), of_two AS (
            SELECT model, 100 * avg((ahead = 0)::INT) AS ties,
                   100 * avg(if(ahead = 0, NULL, (ahead > 0)::INT)) AS earlier
            FROM two GROUP BY model
        ), ranked AS (
            SELECT *, max(score) OVER (PARTITION BY question_id) AS top,
                   count(*) OVER (PARTITION BY question_id, score) AS alike FROM critiques
        ), of_best AS (
            SELECT model, 100 * avg((place = 1)::INT) AS first, 100 * avg(1 / shown) AS chance
            FROM ranked WHERE score = top AND alike = 1 GROUP BY model
        )
        SELECT model, count(DISTINCT question_id) AS calls, count(*) AS answers, avg(score) AS "mean score",
               stddev_pop(score) AS "standard deviation", any_value(ties) AS "ties, %",
               any_value(first) AS "best is shown first, %", any_value(chance) AS "by chance, %",
               any_value(earlier) AS "earlier is better, %"
        FROM critiques LEFT JOIN of_two USING (model) LEFT JOIN of_best USING (model) GROUP BY model ORDER BY model
        """,
    )


def _counted(tables: Mapping[str, Rows], query: str) -> pd.DataFrame:
    """The result of a query over these tables; figures rounded to two decimals."""
    with (
        TemporaryDirectory() as spill,
        duckdb.connect(config={"memory_limit": "512MB", "threads": 2, "temp_directory": spill}) as database,
    ):
        for name, rows in tables.items():
            if rows.paths:
                database.execute(f"CREATE VIEW {name} AS FROM {read_parquet(rows.paths)}")
            else:
                database.register(name, rows.schema.empty_table())
        found: pd.DataFrame = database.sql(query).df()
    return found.round(2)


def critic_figures(pairs: Rows) -> list[Figure]:
    """The distribution of the critic's margins by pair type; none without such a margin."""
    bins = " + ".join(f"(critic_margin >= {bound} - 1e-9)::INT" for bound in MARGINS)
    counted = _counted(
        {"pairs": pairs},
        f"""
        SELECT axiom, pair_type, {bins} AS place, count(*) AS number FROM pairs
        WHERE critic_margin IS NOT NULL AND split <> 'overlap' GROUP BY ALL ORDER BY axiom, pair_type, place
        """,
    )
    panels: dict[str, list[int]] = {}
    for kind, place, number in zip(counted.pair_type, counted.place, counted.number, strict=True):
        panels.setdefault(kind, [0] * len(MARGIN_BINS))[place] = number
    if not panels:
        return []
    drawn = [Counts(kind, {"margin": counts}) for kind, counts in panels.items()]
    note = "Share of the rows of preference_critic of a type by margin: the difference of the critic's scores / 100."
    return [_figure("critic_margins", "Margins by the critic", note, MARGIN_BINS, drawn, "margin")]


def _figure(name: str, title: str, note: str, bins: tuple[str, ...], panels: list[Counts], what: str) -> Figure:
    return Figure(name, title, note, svg_of(partial(histograms, bins, panels, what), title))
