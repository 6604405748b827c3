import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.axioms.pairs import margin, ordered_pairs
from tasks.axioms.questions import rejection_reason

VOTES = st.lists(st.integers(-5, 12), max_size=8)


def verdict(votes, *, min_answers=2, min_vote_ratio=1.3):
    return rejection_reason(votes, min_answers=min_answers, min_vote_ratio=min_vote_ratio)


@pytest.mark.parametrize(
    ("votes", "reason"),
    [
        ([], "fewer than 2 answers"),
        ([9], "fewer than 2 answers"),
        ([0, 0], "no answer with positive votes"),
        ([0, -4], "no answer with positive votes"),
        ([1, 1], "no vote gap"),
        ([5, 4], "no vote gap"),
        ([6, 5, 5], "no vote gap"),
        ([1, 0], None),
        ([0, 1], None),
        ([1, -7], None),
        ([13, 10], None),
        ([129, 100], "no vote gap"),
        ([130, 100], None),
        ([5, 4, 3], None),
    ],
)
def test_section_3_keeps_two_answers_with_a_vote_and_a_gap_of_30_per_cent(votes, reason):
    assert verdict(votes) == reason


def test_the_reason_names_the_number_of_answers_that_was_asked_for():
    assert verdict([9, 3], min_answers=3) == "fewer than 3 answers"
    assert verdict([9, 3, 0], min_answers=3) is None


def test_the_ratio_is_the_decimal_it_is_written_as():
    assert 1.1 * 50 > 55  # in floating point
    assert verdict([55, 50], min_vote_ratio=1.1) is None
    assert verdict([54, 50], min_vote_ratio=1.1) == "no vote gap"


def test_a_ratio_of_one_still_wants_more_votes():
    assert verdict([4, 4], min_vote_ratio=1.0) == "no vote gap"


def test_one_answer_alone_has_no_gap_even_where_one_is_enough():
    assert verdict([4], min_answers=1) == "no vote gap"
    assert verdict([], min_answers=0) == "no answer with positive votes"


@given(VOTES)
def test_a_gap_is_found_whenever_any_two_answers_have_one(votes):
    gap = any(a > 0 and a > b and 10 * a >= 13 * max(b, 0) for a in votes for b in votes)
    assert (verdict(votes) is None) == (len(votes) >= 2 and gap)


def test_pairs_are_of_positions_with_the_higher_votes_first():
    assert ordered_pairs([7, 2, 2, 9]) == [(0, 1), (0, 2), (3, 0), (3, 1), (3, 2)]
    assert ordered_pairs([3, 3]) == ordered_pairs([3]) == ordered_pairs([]) == []


@given(VOTES)
def test_every_two_answers_with_different_votes_are_one_pair(votes):
    pairs = ordered_pairs(votes)
    wanted = {(i, j) for i, a in enumerate(votes) for j, b in enumerate(votes) if a > b}
    assert set(pairs) == wanted
    assert len(pairs) == len(wanted)


@given(VOTES)
def test_a_kept_question_has_a_pair(votes):
    assert verdict(votes) is not None or ordered_pairs(votes)


@pytest.mark.parametrize(
    ("preferred", "rejected", "expected"),
    [(100, 1, 2.0), (20, 2, 1.0), (7, -3, 0.8450980400142568), (2, 1, 0.3010299956639812), (1, 0, 0.0), (0, -9, 0.0)],
)
def test_the_margin_is_the_logarithm_of_the_ratio_with_votes_below_1_as_1(preferred, rejected, expected):
    assert margin(preferred, rejected) == pytest.approx(expected, abs=1e-15)


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_the_margin_is_always_finite_and_never_a_negative_zero(one, other):
    value = margin(one, other)
    assert math.isfinite(value)
    assert value != 0 or math.copysign(1, value) == 1
    assert one < other or value >= 0
