"""Text on a terminal: control characters, direction marks and invisible characters are made visible."""

from __future__ import annotations

import json
import unicodedata

import pytest

from flows.builds.console import StageStatus, visible


@pytest.mark.parametrize(
    "name",
    [
        "ZERO WIDTH SPACE",
        "LEFT-TO-RIGHT MARK",
        "RIGHT-TO-LEFT MARK",
        "WORD JOINER",
        "ZERO WIDTH NO-BREAK SPACE",
        "RIGHT-TO-LEFT OVERRIDE",
        "FIRST STRONG ISOLATE",
    ],
)
def test_invisible_characters_are_escaped_as_in_json(name: str) -> None:
    mark = unicodedata.lookup(name)
    assert visible(f"tea{mark}pot") == json.dumps(f"tea{mark}pot")[1:-1]
    assert json.loads(f'"{visible(mark)}"') == mark


@pytest.mark.parametrize(
    "text", ["می\u200cخواهم", "क्\u200dष", "👩\u200d👩\u200d👧", "שלום, مرحبا", "a\tb\nc", "naïve \u00a0 – ‘x’"]
)
def test_joiners_of_scripts_and_emoji_stay(text: str) -> None:
    assert visible(text) == text


def test_no_mark_of_direction_and_no_control_is_left_in_all_of_unicode() -> None:
    turning = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
    for number in range(0x11_0000):
        sign = chr(number)
        steers = unicodedata.bidirectional(sign) in turning or unicodedata.category(sign) == "Cc"
        if steers and sign not in "\t\n":
            assert visible(sign) == f"\\u{number:04x}"


@pytest.mark.parametrize(
    ("fraction", "said"),
    [(0.0, "at work for 0 s"), (0.5, "50% done, about 0 s left"), (1.0, "all read, at work for 0 s")],
)
def test_a_stage_that_has_read_all_does_not_say_that_it_is_done(fraction: float, said: str) -> None:
    assert StageStatus(0, lambda: {"fraction": fraction}).phrase() == said
