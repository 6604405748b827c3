"""Plots of how the distances of two systems are distributed: a panel per task, a pair of bars per number of edits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from tasks.publishing.card import Figure
from tasks.publishing.plots import svg_of
from tasks.revision_distance.tables.paper_tables import WEAK_AND_STRONG, scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot

COLOURS = ("#d9813c", "#1b5e8a")
MOST = 15  # edits that have bars of their own
WIDE, HIGH = 9.0, 2.3
LEFT, RIGHT, ABOVE, BELOW = 0.6, 0.1, 0.4, 0.6


def plots(drafts: pd.DataFrame) -> list[Figure]:
    """One figure with a panel for each task that has cases with two distances; [] if no task has.

    `drafts`: rows with case_id, task, system and distance.
    """
    panels = [(task, found) for task in WEAK_AND_STRONG if len(found := scores(drafts, task, "distance"))]
    if not panels:
        return []
    note = "How many texts need so many edits, of the cases of which both drafts have a distance."
    title = "Distances by task and system"
    return [Figure("distances", title, note, svg_of(partial(_drawn, panels), title))]


def _drawn(panels: Sequence[tuple[str, pd.DataFrame]]) -> Plot:
    """The matplotlib figure of these panels: (task, distances of both systems as by `scores`).

    Positions are computed here: those of matplotlib's own layout differ from run to run in the last digits.
    """
    from matplotlib.figure import Figure as Plot

    tall = HIGH * len(panels)
    figure = Plot(figsize=(WIDE, tall))
    for place, (task, found) in enumerate(panels):
        bottom = (tall - HIGH * (place + 1) + BELOW) / tall
        ax = figure.add_axes((LEFT / WIDE, bottom, (WIDE - LEFT - RIGHT) / WIDE, (HIGH - ABOVE - BELOW) / tall))
        _bars(ax, task, found)
    return figure


def _bars(ax: Axes, task: str, found: pd.DataFrame) -> None:
    """Draw a task's panel: two bars, one for each system, for each number of edits; their height counts texts.

    Numbers of edits above MOST share a pair of bars. `found`: a row per case, a column of distances per system.
    """
    from matplotlib.ticker import MaxNLocator

    counts = found.clip(upper=MOST + 1).apply(pd.Series.value_counts).fillna(0)
    last = int(counts.index.max())
    heights = counts.reindex(range(last + 1), fill_value=0)
    for column, side, system, colour in zip(heights, (-0.2, 0.2), WEAK_AND_STRONG[task], COLOURS, strict=True):
        label = f"{system}, mean {found[column].mean():.2f}"
        ax.bar([edits + side for edits in range(last + 1)], heights[column], width=0.4, color=colour, label=label)
    ax.set_title(f"{task} ({len(found):,} cases)", loc="left", fontweight="bold")
    ax.set_xticks(range(last + 1), [str(edits) if edits <= MOST else f"> {MOST}" for edits in range(last + 1)])
    ax.set_xlabel("edits")
    ax.set_ylabel("texts")
    ax.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.2, ncols=2, frameon=False, handlelength=1)
