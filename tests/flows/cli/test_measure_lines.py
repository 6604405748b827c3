"""The lines that `longform measure` prints of systems and their differences."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from flows.builds.console import on_one_line
from flows.cli.revision.measure import _differences, _heading
from longform.engine.health import counter_phrase
from tasks.revision_distance.tables.ranking import Ranking


def pair(number: int, difference: float, clear: str) -> dict[str, Any]:
    return {
        "better": f"s{number}", "worse": "z", "difference": difference, "difference from": 0.5, "difference to": 2.0,
        "effect size": 0.8, "clear": clear, "cases better": 3, "equal": 4, "worse in": 0, "cases": 7,
    }  # fmt: skip


def test_few_differences_are_all_shown_and_equal_means_are_equal() -> None:
    assert [*_differences([pair(1, 1.25, "yes"), pair(2, 1.0, "no"), pair(3, 0.0, "no")])] == [
        "s1 before z by 1.25 (0.50 to 2), paired Cohen's d 0.80, better in 3 of 7 cases, equal in 4",
        "s2 before z by 1 (0.50 to 2, not clear), paired Cohen's d 0.80, better in 3 of 7 cases, equal in 4",
        "s3 and z are equal in the mean, and in 4 of 7 cases",
    ]


def test_of_many_differences_the_clear_ones_are_shown_and_the_others_counted() -> None:
    told = [*_differences([pair(n, 1.0, "yes" if n < 2 else "no") for n in range(15)])]
    assert [line.split()[0] for line in told[:-1]] == ["s0", "s1"]
    assert told[-1] == "13 more pairs of systems, none of them clear, in the report (--to) and with --json"
    told = [*_differences([pair(n, 1.0, "yes") for n in range(45)])]
    assert told[-1] == "25 more pairs of systems, 25 of them clear, in the report (--to) and with --json"
    assert len(told) == 21


def test_a_heading_says_of_no_cases_what_the_rows_are_over() -> None:
    systems = pd.DataFrame({"system": ["a", "b"], "rank": [1, None]})
    none = Ranking(systems, pd.DataFrame(), 0, {"a": "why", "b": "why"})
    assert (
        _heading("mine", none) == "by mine, no system is ranked: means over all measured drafts of each; less is better"
    )
    assert _heading("mine", none._replace(cases=1, unranked={"b": "why"})) == "by mine, over 1 case; less is better"


def test_no_character_of_a_name_breaks_a_line() -> None:
    assert on_one_line("a\nb\r\tc\x1b[0m\u2028\x85") == "a\\u000ab\\u000d\\u0009c\\u001b[0m\\u2028\\u0085"


@pytest.mark.parametrize(
    ("name", "number", "said"),
    [
        ("unchanged: ", 12, "12 replies leave the text as it was"),
        ("unchanged: ", 1, "1 reply leaves the text as it was"),
        ("unchanged: rr: x", 3, "3 replies of rr: x leave the text as it was"),
        ("abstained: ", 2, "2 replies abstain"),
        ("replies", 24, "24 replies"),
        ("other: words", 5, "5 other: words"),
    ],
)
def test_what_replies_do_is_said_in_words(name: str, number: int, said: str) -> None:
    assert counter_phrase(name, number) == said
