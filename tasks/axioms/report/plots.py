"""The plots of a version's report: mixture, votes, margins and lengths of its pairs, counted by DuckDB in its files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import duckdb

from longform.artifacts.rows import Rows, read_parquet
from tasks.publishing.card import Figure
from tasks.publishing.charts import Counts, Spread, histograms, ranges, stacked_bars
from tasks.publishing.plots import svg_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

VOTES = (0, 1, 2, 3, 5, 10, 20, 50, 100)
VOTE_BINS = ("< 0", "0", "1", "2", "3–4", "5–9", "10–19", "20–49", "50–99", "≥ 100")
MARGINS = (0.001, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.5)
MARGIN_BINS = ("0", "< .1", "< .2", "< .3", "< .4", "< .6", "< .8", "< 1", "< 1.5", "≥ 1.5")
SIDES = ("preferred", "rejected")
Counted = list[tuple[int, str, str, int, int]]  # axiom, pair type, series, bin, number


def figures(pairs: Rows) -> list[Figure]:
    """The plots, in order; without a pair there is none. `pairs`: the published ones."""
    if not pairs.paths:
        return []
    with duckdb.connect(config={"memory_limit": "512MB", "threads": 2}) as database:
        database.execute(f"CREATE VIEW pairs AS FROM {read_parquet(pairs.paths)}")
        drawn = [_mixture(database), _votes(database), _margins(database), _lengths(database)]
    return [figure for figure in drawn if figure]


def _mixture(database: duckdb.DuckDBPyConnection) -> Figure:
    found = database.execute("""
        SELECT axiom || ' ' || pair_type AS kind, split, count(*), count(DISTINCT question_id)
        FROM pairs GROUP BY ALL ORDER BY kind, split DESC
    """).fetchall()
    kinds, splits = (list(dict.fromkeys(row[place] for row in found)) for place in (0, 1))
    splits.sort(key=("train", "test", "overlap").index)
    panels = []
    for title, place in (("pairs", 2), ("questions", 3)):
        numbers = {row[:2]: row[place] for row in found}
        panels.append(Counts(title, {split: [numbers.get((kind, split), 0) for kind in kinds] for split in splits}))
    return _figure(
        "mixture",
        "Mixture",
        "Pairs, and questions with such a pair, by axiom, pair type and split.",
        partial(stacked_bars, kinds, panels),
    )


def _votes(database: duckdb.DuckDBPyConnection) -> Figure | None:
    """The plot of the votes of people's answers; None if there is none."""
    found: Counted = []
    for side in SIDES:
        found += database.execute(f"""
            SELECT axiom, pair_type, '{side}', {_bin(f"{side}_votes", VOTES)} AS bin, count(*)
            FROM pairs WHERE {side}_votes IS NOT NULL GROUP BY ALL ORDER BY ALL
        """).fetchall()
    note = "Of people's answers, by pair type: share of the pairs by votes of the answer."
    return _histograms("votes", "Votes", note, found, VOTE_BINS, "votes")


def _margins(database: duckdb.DuckDBPyConnection) -> Figure | None:
    """The plot of the margins of those pair types that have several, the others in words; None if all have one."""
    constant = database.execute("""
        SELECT pair_type, min(margin) FROM pairs GROUP BY pair_type HAVING min(margin) = max(margin) ORDER BY pair_type
    """).fetchall()
    found = database.execute(f"""
        SELECT axiom, pair_type, 'margin', {_bin("margin", MARGINS)} AS bin, count(*) FROM pairs
        WHERE pair_type NOT IN (SELECT unnest(?)) GROUP BY ALL ORDER BY ALL
    """, [[kind for kind, _ in constant]]).fetchall()  # fmt: skip
    alike = ", ".join(f"{kind} {margin:.2f}" for kind, margin in constant)
    note = "Share of the pairs of a type by margin." + (f" One margin for all pairs: {alike}." if alike else "")
    return _histograms("margins", "Margins", note, found, MARGIN_BINS, "margin")


def _lengths(database: duckdb.DuckDBPyConnection) -> Figure:
    spreads = [
        Spread(kind, side, tuple(percentiles))
        for side in SIDES
        for kind, percentiles in database.execute(f"""
            SELECT pair_type, quantile_disc(length({side}), [0.1, 0.25, 0.5, 0.75, 0.9])
            FROM pairs GROUP BY pair_type ORDER BY min(axiom), pair_type
        """).fetchall()
    ]
    return _figure(
        "lengths",
        "Lengths",
        "Characters of the texts by pair type: from the 10th to the 90th percentile, thick the middle half, the dot is "
        "the median.",
        partial(ranges, spreads, "characters"),
    )


def _bin(value: str, bounds: Sequence[float]) -> str:
    """SQL for the number of bounds that are at most the value: the place of its bin."""
    return " + ".join(f"({value} >= {bound})::INT" for bound in bounds)


def _histograms(name: str, title: str, note: str, found: Counted, bins: Sequence[str], what: str) -> Figure | None:
    """The plot with a panel for each pair type, by axiom; None without numbers."""
    series = dict.fromkeys(each[2] for each in found)
    panels: dict[str, dict[str, list[int]]] = {}
    for _, kind, side, place, number in sorted(found):
        panels.setdefault(kind, {each: [0] * len(bins) for each in series})[side][place] = number
    drawn = [Counts(kind, counts) for kind, counts in panels.items()]
    return _figure(name, title, note, partial(histograms, bins, drawn, what)) if drawn else None


def _figure(name: str, title: str, note: str, draw: Callable[[], Plot]) -> Figure:
    return Figure(name, title, note, svg_of(draw, title))
