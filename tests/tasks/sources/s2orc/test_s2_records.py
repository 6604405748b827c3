"""Texts and names of authors as records of Semantic Scholar write them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.sources.s2orc.s2_records import names_of, words

PARTS = {"first": "Ann", "middle": ["B.", "C."], "last": "Lee", "suffix": ""}
BLANKS = st.text(st.sampled_from("ab  \t\n\x1c\u00a0\u2003\u2028é𝔸"))


@given(st.text() | BLANKS)
def test_words_are_parted_by_single_blanks(text: str) -> None:
    assert words(text) == " ".join(text.split())


@pytest.mark.parametrize(
    ("author", "name"),
    [
        (PARTS, "Ann B. C. Lee"),
        ({**PARTS, "suffix": "Jr."}, "Ann B. C. Lee Jr."),
        ({**PARTS, "middle": []}, "Ann Lee"),
        ({**PARTS, "middle": "Bo"}, "Ann Bo Lee"),
        ({**PARTS, "middle": {"Bo": 1}}, "Ann Lee"),
        ({**PARTS, "middle": None, "suffix": None}, "Ann Lee"),
        ({**PARTS, "middle": [None, "B.", 7]}, "Ann B. Lee"),
        ({**PARTS, "first": " Ann\n", "last": ["Lee"]}, "Ann B. C."),
        ({"first": "Ann", "last": "Lee"}, "Ann Lee"),
        ({**PARTS, "name": "A.  Lee"}, "A. Lee"),
        ({**PARTS, "name": None}, "Ann B. C. Lee"),
        (" Ann  Lee", "Ann Lee"),
    ],
)
def test_names_come_whole_or_in_parts(author: Any, name: str) -> None:
    assert names_of([author]) == [name]


def test_what_names_nobody_is_left_out() -> None:
    assert names_of([None, 7, [], {}, "", {**PARTS, "first": "", "middle": [], "last": " "}]) == []
    assert names_of(None) == names_of("Ann") == names_of({"name": "Ann"}) == []
