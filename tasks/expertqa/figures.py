"""Figures 4, 5, 8, 9 and 10 of ExpertQA as plots: stacked bars, one panel a property, on a light ground."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from longform.rows import Row
from tasks.card import Figure
from tasks.expertqa.distributions import (
    Counts,
    Distribution,
    agreements,
    by_property,
    cite_worthy,
    distribution,
    types_by_field,
)
from tasks.plots import svg_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot

COLOURS = {
    2: ("#1b5e8a", "#d9813c"),
    3: ("#1b5e8a", "#f0c36d", "#b5482f"),
    4: ("#1b5e8a", "#6aaed6", "#f0c36d", "#b5482f"),
    5: ("#1b5e8a", "#6aaed6", "#f0c36d", "#d9813c", "#9c3d2e"),
    7: ("#1b5e8a", "#6aaed6", "#3f8f6b", "#a9c85a", "#f0c36d", "#d9813c", "#8a4f7d"),
}
APART = {"Missing": "#7a7a7a", "N/A": "#c9c9c9"}
BLACK_ABOVE = 0.5
WRITTEN_FROM = 0.08
LABEL_CHARACTERS = 30
PANEL_INCHES, BAR_INCHES, CHARACTER_INCHES = 5.4, 0.26, 0.075
ABOVE_INCHES, BELOW_INCHES, RIGHT_INCHES = 0.4, 0.8, 0.1
SHARES = "Shares of the labelled claims; how many these are stands at the right of each bar."

Panel = tuple[str, Distribution]


def plots(
    questions: Sequence[Row], answers: Sequence[Row], claims: Sequence[Row], agreed: Sequence[Row]
) -> list[Figure]:
    """Figures 4, 5, 8, 9 and 10; those without a single label are left out. `agreed` are rows of `agreement`."""
    systems = [
        ("Usefulness (of answers)", distribution(answers, "usefulness", "system")),
        ("Support (cite-worthy claims)", distribution(cite_worthy(claims), "support", "system")),
        ("Support (all claims)", distribution(claims, "support", "system")),
        *(panel for panel in _titled(by_property(claims, "system")) if panel[1].property != "support"),
    ]
    fields = list(_titled(by_property(claims, "field")))
    types = list(_titled(by_property(claims, "question_types")))
    asked = [("Questions", types_by_field(questions))]
    several = "Questions of each field by type; a question of several types counts in each."
    second = [(found.property, found) for found in agreements(agreed)]
    both = "Of the labels that two people gave, shares; how many these are stands at the right of each bar."
    drawn = (
        _drawn("figure-4-agreement", "Agreement with a second labelling (figure 4)", both, second),
        _drawn("figure-5-systems", "Labels by system (figure 5)", SHARES, systems),
        _drawn("figure-8-question-types", "Question types by field (figure 8)", several, asked, counted=True),
        _drawn("figure-9-fields", "Labels by field (figure 9)", SHARES, fields),
        _drawn("figure-10-question-types", "Labels by question type (figure 10)", SHARES, types),
    )
    return [figure for figure in drawn if figure]


def _titled(found: Iterable[Distribution]) -> Iterable[Panel]:
    return ((one.property.capitalize(), one) for one in found)


def _drawn(name: str, title: str, note: str, given: Sequence[Panel], *, counted: bool = False) -> Figure | None:
    if not any(found.total.labelled for _, found in given):
        return None
    return Figure(name, title, note, svg_of(partial(panels, given, columns=min(2, len(given)), counted=counted)))


def panels(given: Sequence[Panel], *, columns: int, counted: bool) -> Plot:
    """One panel a distribution, `columns` of them side by side; bars are shares, or counts.

    Places are reckoned here: what matplotlib's own layout solves differs from run to run in the last digits.
    """
    from matplotlib.figure import Figure as Plot

    lines = [given[start : start + columns] for start in range(0, len(given), columns)]
    bars = [BAR_INCHES * max(len(found.groups) for _, found in line) for line in lines]
    wide, high = PANEL_INCHES * max(columns, 1.5), sum(bars) + (ABOVE_INCHES + BELOW_INCHES) * len(bars)
    names = CHARACTER_INCHES * max(len(shown(group.group)) for _, found in given for group in found.groups) + 0.2
    figure, top = Plot(figsize=(wide, high)), high
    for line, tall in zip(lines, bars, strict=True):
        bottom = top - ABOVE_INCHES - tall
        for place, (title, found) in enumerate(line):
            left, width = place * wide / columns + names, wide / columns - names - RIGHT_INCHES
            ax = figure.add_axes((left / wide, bottom / high, width / wide, tall / high))
            _bars(ax, found, counted=counted)
            _frame(ax, title, found, counted=counted)
        top = bottom - BELOW_INCHES
    return figure


def _bars(ax: Axes, found: Distribution, *, counted: bool) -> None:
    """A bar a group, the first on top: a piece for each label that was given, and how many were labelled."""
    places = range(len(found.groups))
    ends = [0.0] * len(found.groups)
    for label in found.labels:
        if found.total.labels[label]:
            fill = colour(found, label)
            widths = [_width(group, label, counted=counted) for group in found.groups]
            ax.barh(places, widths, left=ends, color=fill, label=label, height=0.8)
            for place, width, end in zip(places, widths, ends, strict=True):
                if width >= WRITTEN_FROM and not counted:
                    _write(ax, end + width / 2, place, f"{width:.0%}", color=ink(fill), ha="center")
            ends = [end + width for end, width in zip(ends, widths, strict=True)]
    for place, group, end in zip(places, found.groups, ends, strict=True):
        _write(ax, end, place, f" {group.labelled:,}", color="black", ha="left")


def _write(ax: Axes, x: float, y: float, text: str, *, color: str, ha: Literal["center", "left"]) -> None:
    """Beside a bar, or in it."""
    ax.text(x, y, text, color=color, ha=ha, va="center_baseline", fontsize=7)


def _frame(ax: Axes, title: str, found: Distribution, *, counted: bool) -> None:
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    ax.set_title(title, loc="left", fontweight="bold")
    ax.set_yticks(range(len(found.groups)), [shown(group.group) for group in found.groups])
    ax.set_ylim(max(1, len(found.groups)) - 0.5, -0.5)
    if counted:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    else:
        ax.set_xlim(0, 1.08)
        ax.set_xticks([0, 0.25, 0.5, 0.75, 1])
        ax.xaxis.set_major_formatter(PercentFormatter(1))
    if found.total.labelled:
        ax.legend(
            loc="upper right", bbox_to_anchor=(1, 0), borderaxespad=2.4, ncols=3, frameon=False, fontsize=7.5,
            handlelength=1, columnspacing=1,
        )  # fmt: skip


def _width(group: Counts, label: str, *, counted: bool) -> float:
    return float(group.labels[label]) if counted else group.share(label) or 0.0


def colour(found: Distribution, label: str) -> str:
    """From good to bad in the order of the labels, greys for what is no judgement."""
    if label in APART:
        return APART[label]
    ordered = [name for name in found.labels if name not in APART]
    return COLOURS[len(ordered)][ordered.index(label)]


def ink(fill: str) -> str:
    """Black or white, whichever is read better on this colour."""
    red, green, blue = (int(fill[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > BLACK_ABOVE else "white"


def shown(text: str) -> str:
    """A group's name on one line, short, and without characters that no XML may hold."""
    kept = "".join(
        char for char in " ".join(text.split()) if unicodedata.category(char) not in ("Cc", "Cs", "Cn", "Co")
    )
    return kept if len(kept) <= LABEL_CHARACTERS else f"{kept[: LABEL_CHARACTERS - 1]}…"
