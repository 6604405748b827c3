from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.text.audits.equality import equal_texts

TIN = "Tin melts at -5.5 degrees, not at 3,000."


@pytest.mark.parametrize(
    "other",
    [
        TIN,
        f"\n{TIN}  \n",
        "tin MELTS at -5.5 degrees, not at 3,000",
        "**Tin** melts at _-5.5_ degrees, not\nat 3,000!",
        "# Tin melts at -5.5 degrees not at 3,000",
        '"Tin melts at -5.5 degrees, not at 3,000."',
        "“Tin melts at -5.5 degrees, not at 3,000.”",
        "Tin\u00a0melts at -5.5 degrees, not at 3,000.",
        "Ｔｉｎ melts at -5.5 degrees, not at 3,000.",
    ],
)
def test_texts_that_differ_in_their_setting_are_equal(other: str) -> None:
    assert equal_texts(TIN, other)
    assert equal_texts(other, TIN)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (TIN, TIN.replace("-5.5", "5.5")),
        (TIN, TIN.replace("5.5", "55")),
        (TIN, TIN.replace("3,000", "3.000")),
        (TIN, TIN.replace("not ", "")),
        ("C++ is old", "C is old"),
        ("a < b", "a > b"),
        ("कि", "की"),
        ("resume", "résumé"),
        ("Is 1/2 more?", "Is 12 more?"),
        ("", "a"),
        ("!", "?"),
    ],
)
def test_texts_that_say_something_else_are_not_equal(one: str, other: str) -> None:
    assert not equal_texts(one, other)
    assert not equal_texts(other, one)


@given(st.text(st.characters(exclude_characters="#"), max_size=40))
def test_a_text_equals_itself_with_other_white_space_and_emphasis(text: str) -> None:
    assert equal_texts(text, text)
    words = text.split()
    if any(map(str.isalnum, text)):
        assert equal_texts(" ".join(words), "\n".join(words))
