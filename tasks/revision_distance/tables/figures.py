"""How the distances of two systems are distributed: one panel a task, a pair of bars a number of edits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from longform.artifacts.rows import Row
from tasks.publishing.card import Figure
from tasks.publishing.plots import svg_of
from tasks.revision_distance.tables.tables import DISTANCES, WEAK_AND_STRONG, Pairs, pairs_of, scored

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot

COLOURS = ("#d9813c", "#1b5e8a")
MOST = 15  # edits that have bars of their own
WIDE, HIGH = 9.0, 2.3
LEFT, RIGHT, ABOVE, BELOW = 0.6, 0.1, 0.4, 0.6


def plots(drafts: Sequence[Row]) -> list[Figure]:
    """One figure of all tasks that have pairs with distances; none where no task has."""
    panels = [(task, pairs) for task in WEAK_AND_STRONG if (pairs := scored(pairs_of(drafts, task), DISTANCES[0]))]
    if not panels:
        return []
    note = "How many texts need so many edits, of the cases of which both drafts have a distance."
    title = "Distances by task and system"
    return [Figure("distances", title, note, svg_of(partial(_drawn, panels), title))]


def _drawn(panels: Sequence[tuple[str, Pairs]]) -> Plot:
    """Places are reckoned here: what matplotlib's own layout solves differs from run to run in the last digits."""
    from matplotlib.figure import Figure as Plot

    tall = HIGH * len(panels)
    figure = Plot(figsize=(WIDE, tall))
    for place, (task, pairs) in enumerate(panels):
        bottom = (tall - HIGH * (place + 1) + BELOW) / tall
        ax = figure.add_axes((LEFT / WIDE, bottom, (WIDE - LEFT - RIGHT) / WIDE, (HIGH - ABOVE - BELOW) / tall))
        _bars(ax, task, pairs)
    return figure


def _bars(ax: Axes, task: str, pairs: Pairs) -> None:
    from matplotlib.ticker import MaxNLocator

    counted = [Counter(min(pair[side]["distance"], MOST + 1) for pair in pairs) for side in (0, 1)]
    last = max(max(found) for found in counted)
    for side, (system, found, colour) in enumerate(zip(WEAK_AND_STRONG[task], counted, COLOURS, strict=True)):
        places = [edits + (side - 0.5) * 0.4 for edits in range(last + 1)]
        mean = sum(pair[side]["distance"] for pair in pairs) / len(pairs)
        heights = [found[edits] for edits in range(last + 1)]
        ax.bar(places, heights, width=0.4, color=colour, label=f"{system}, mean {mean:.2f}")
    ax.set_title(f"{task} ({len(pairs):,} cases)", loc="left", fontweight="bold")
    ax.set_xticks(range(last + 1), [str(edits) if edits <= MOST else f"> {MOST}" for edits in range(last + 1)])
    ax.set_xlabel("edits")
    ax.set_ylabel("texts")
    ax.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.2, ncols=2, frameon=False, handlelength=1)
