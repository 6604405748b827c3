import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.axioms.answers import of_one_author
from tasks.axioms.utilization import outside_limits, utilization

WORDS = st.lists(st.sampled_from(["tea", "is", "hot", "no", "2"]), max_size=12).map(" ".join)
FIRST = "Warm the pot before you pour the water."  # 8 words: 7 bigrams
SECOND = "Green tea wants cooler water."  # 5 words: 4 bigrams


def test_pasting_both_answers_uses_them_wholly():
    assert utilization(f"{FIRST}\n\n{SECOND}", FIRST, SECOND, n=2) == 2.0
    assert utilization(f"{SECOND} {FIRST}", FIRST, SECOND, n=5) == 2.0


def test_an_answer_of_its_own_uses_nothing():
    assert utilization("Ask a monk in Uji.", FIRST, SECOND, n=1) == 0.0


def test_shares_are_of_each_answers_n_grams_and_add_up():
    combined = "Warm the pot first; green tea wants less heat."
    # "warm the", "the pot" of 7 and "green tea", "tea wants" of 4
    assert utilization(combined, FIRST, SECOND, n=2) == pytest.approx(2 / 7 + 2 / 4)
    # warm, the, pot of 7 distinct words (the twice); green, tea, wants of 5
    assert utilization(combined, FIRST, SECOND, n=1) == pytest.approx(3 / 7 + 3 / 5)
    # "warm the pot" of 6 and "green tea wants" of 3
    assert utilization(combined, FIRST, SECOND, n=3) == pytest.approx(1 / 6 + 1 / 3)


def test_an_n_gram_counts_once_however_often_it_occurs():
    assert utilization("no no no", "no no no no yes", "-", n=2) == pytest.approx(1 / 2)


def test_case_punctuation_and_markdown_do_not_hide_a_copy():
    assert utilization("**warm** the pot, before you pour the WATER", FIRST, "x", n=3) == 1.0


@pytest.mark.parametrize(
    ("combined", "short", "used"),
    [
        ("Yes, of course not.", "Of course.", 1.0),
        ("Of, well, course.", "Of course.", 0.0),
        ("Nobody knows.", "No", 0.0),
        ("Not so.", "Of course not so.", 0.0),
        ("", "No", 0.0),
        ("No", "", 0.0),
        ("", "", 0.0),
    ],
)
def test_an_answer_shorter_than_n_words_is_used_only_where_it_occurs_verbatim(combined, short, used):
    assert utilization(combined, short, "unrelated", n=5) == used
    assert utilization(combined, "unrelated", short, n=5) == used


@given(WORDS, WORDS, WORDS, st.integers(1, 4))
def test_it_lies_between_0_and_2_and_treats_both_answers_alike(combined, first, second, n):
    value = utilization(combined, first, second, n=n)
    assert 0 <= value <= 2
    assert value == utilization(combined, second, first, n=n)
    assert utilization(f"{first} {combined} {second}", first, second, n=n) >= value


@pytest.mark.parametrize(
    ("share", "reason"),
    [
        (0.35, "utilization below minimum"),
        (0.36, None),
        (1.84, None),
        (1.85, "utilization above maximum"),
    ],
)
def test_a_combined_answer_is_kept_only_between_the_limits(share, reason):
    assert outside_limits(share, above=0.35, below=1.85) == reason


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (("7", "Ann"), ("7", None), True),
        (("7", "Ann"), ("8", "Ann"), False),  # two users of one name
        (("7", "Ann"), (None, "Ann"), True),  # a post whose user is deleted has only the name
        ((None, "Ann"), (None, "Bo"), False),
        (("7", None), (None, "Ann"), False),
        ((None, None), (None, None), False),  # nobody knows
    ],
)
def test_two_answers_are_of_one_author_if_both_are_known(one, other, same):
    answers = [{"author_id": number, "author": name} for number, name in (one, other)]
    assert of_one_author(*answers) == of_one_author(*answers[::-1]) == same
