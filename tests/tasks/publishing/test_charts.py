"""Charts of counts: what they write can be read from the picture's texts, and the picture goes into a page."""

from __future__ import annotations

import re

from tasks.publishing.charts import Counts, Spread, histograms, ranges, stacked_bars
from tasks.publishing.plots import inline, svg_of


def texts(svg: str) -> list[str]:
    return [text.strip() for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]


def bars(counts: dict[str, list[int]]) -> str:
    return svg_of(lambda: stacked_bars(["tea", "ale"], [Counts("pairs", counts), Counts("questions", counts)]))


def test_a_bar_ends_with_the_sum_of_its_series() -> None:
    svg = bars({"train": [1_000, 20], "test": [234, 0]})
    shown = texts(svg)
    assert shown.count("1,234") == 2, "one in each panel"
    assert {"tea", "ale", "pairs", "questions", "train", "test"} <= {*shown}
    assert "<svg" in inline(svg, "p")


def test_the_same_counts_give_the_same_bytes() -> None:
    assert bars({"train": [3, 5]}) == bars({"train": [3, 5]})


def test_one_series_has_no_legend() -> None:
    assert "train" not in texts(bars({"train": [3, 5]}))


def test_a_series_keeps_its_colour_in_every_panel() -> None:
    panels = [Counts("one", {"preferred": [1, 0], "rejected": [0, 1]}), Counts("two", {"rejected": [2, 2]})]
    svg = svg_of(lambda: histograms(["low", "high"], panels, "votes"))
    assert len(re.findall(r"fill: #d9813c", svg)) == len(re.findall(r"fill: #1b5e8a", svg)) + 2
    assert {"low", "high", "votes", "preferred", "rejected"} <= {*texts(svg)}
    assert inline(svg, "p")


def test_bins_without_a_count_are_drawn_empty() -> None:
    assert "low" in texts(svg_of(lambda: histograms(["low", "high"], [Counts("none", {"a": [0, 0]})], "votes")))


def test_ranges_have_plain_numbers_on_a_logarithmic_scale() -> None:
    spreads = [Spread(kind, side, (0, 20, 300, 4_000, 50_000)) for kind in ("a", "b") for side in ("x", "y")]
    svg = svg_of(lambda: ranges(spreads, "characters"))
    shown = texts(svg)
    assert {"1", "20", "1,000", "50,000", "a", "b", "x", "y", "characters"} <= {*shown}
    assert not [text for text in shown if "$" in text or "math" in text]
    assert inline(svg, "p")
