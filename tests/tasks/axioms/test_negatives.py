from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.axioms.pairs import choose
from tasks.axioms.related import draw

VOTES = st.dictionaries(st.text(max_size=6), st.integers(-5, 300), max_size=12)
DRAWS = 20_000


def share_of(answer, n, votes):
    """The probability that a draw of n contains `answer`, summed over all sequences of draws."""
    weights = {name: max(count, 1) for name, count in votes.items()}
    total = 0.0
    for sequence in permutations(weights, n):
        left, probability = sum(weights.values()), 1.0
        for name in sequence:
            probability *= weights[name] / left
            left -= weights[name]
        total += probability if answer in sequence else 0.0
    return total


@pytest.mark.parametrize("n", [1, 2, 3])
def test_answers_are_drawn_in_proportion_to_their_votes_which_count_as_1_below_1(n):
    votes = {"a": 60, "b": 20, "c": 10, "d": 1, "e": 0, "f": -40}
    drawn = Counter(name for i in range(DRAWS) for name in draw(votes, n, seed=5, question_id=f"q{i}"))
    for name in votes:
        expected = share_of(name, n, votes)
        spread = (expected * (1 - expected) / DRAWS) ** 0.5
        assert drawn[name] / DRAWS == pytest.approx(expected, abs=4.5 * spread)


def test_the_first_of_several_drawn_is_as_likely_as_one_drawn_alone():
    votes = {"a": 3, "b": 2, "c": 1}
    for i in range(200):
        alone = draw(votes, 1, seed=1, question_id=f"q{i}")
        assert draw(votes, 3, seed=1, question_id=f"q{i}")[:1] == alone


@given(VOTES, st.integers(0, 14), st.integers(0, 99), st.randoms())
def test_a_draw_is_without_replacement_and_does_not_depend_on_the_order(votes, n, seed, random):
    drawn = draw(votes, n, seed=seed, question_id="q")
    assert len(drawn) == len(set(drawn)) == min(n, len(votes))
    assert set(drawn) <= set(votes)
    shuffled = list(votes.items())
    random.shuffle(shuffled)
    assert draw(dict(shuffled), n, seed=seed, question_id="q") == drawn


@given(VOTES, st.integers(0, 12), st.text(max_size=6), st.integers(-5, 300))
def test_another_answer_takes_at_most_its_own_place(votes, n, newcomer, count):
    votes.pop(newcomer, None)
    before = draw(votes, n, seed=7, question_id="q")
    after = draw(votes | {newcomer: count}, n, seed=7, question_id="q")
    assert [name for name in after if name != newcomer] == before[: len(after) - (newcomer in after)]


@given(VOTES, st.integers(0, 12))
def test_more_votes_never_lose_an_answer_its_place(votes, n):
    for name in draw(votes, n, seed=3, question_id="q"):
        assert name in draw(votes | {name: votes[name] + 50}, n, seed=3, question_id="q")


def test_the_seed_and_the_question_change_the_draw():
    votes = {f"a{i}": 1 for i in range(60)}
    draws = {tuple(draw(votes, 20, seed=seed, question_id=name)) for seed in (1, 2) for name in ("q", "r")}
    assert len(draws) == 4


def test_a_draw_is_the_same_in_every_release():
    votes = {"tea.example/1": 12, "tea.example/2": 3, "tea.example/3": 0, "tea.example/4": 40}
    assert draw(votes, 3, seed=13, question_id="tea.example/9") == ["tea.example/1", "tea.example/4", "tea.example/3"]
    assert choose(sorted(votes), seed=13, key="tea.example/9") == "tea.example/4"


def test_a_choice_is_uniform():
    options = [f"a{i}" for i in range(7)]
    chosen = Counter(choose(options, seed=2, key=f"k{i}") for i in range(DRAWS))
    chi_square = sum((chosen[name] - DRAWS / 7) ** 2 / (DRAWS / 7) for name in options)
    assert chi_square < 22.5  # 6 degrees of freedom, one in a thousand


@given(st.sets(st.text(max_size=5), min_size=1, max_size=9), st.integers(0, 9), st.text(max_size=5))
def test_a_choice_changes_only_for_an_option_that_wins(options, seed, newcomer):
    chosen = choose(sorted(options), seed=seed, key="k")
    assert chosen in options
    assert choose(sorted(options, reverse=True), seed=seed, key="k") == chosen
    assert choose([*options, newcomer], seed=seed, key="k") in (chosen, newcomer)
