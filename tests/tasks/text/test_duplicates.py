import random
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.text.copies.duplicates import CELLS, near_duplicates
from tasks.text.copies.shingles import shingle_hashes

SETS = st.lists(st.frozensets(st.integers(0, 9), max_size=7), max_size=12)
WORDS = [f"w{i}" for i in range(400)]


def arrays(sets):
    return [np.array(sorted(one), np.uint64) for one in sets]


def brute_force(sets, threshold):
    return [
        (i, j) for (i, a), (j, b) in combinations(enumerate(sets), 2) if a | b and len(a & b) / len(a | b) >= threshold
    ]


def test_the_similarity_is_jaccards_and_the_threshold_is_reached_by_equality():
    four_of_five = arrays([{1, 2, 3, 4}, {1, 2, 3, 4, 5}])
    assert near_duplicates(four_of_five, 0.8) == [(0, 1)]
    assert near_duplicates(four_of_five, 0.81) == []


def test_a_pair_has_the_earlier_position_first_and_pairs_ascend():
    same = {3, 4, 5}
    sets = [same, {9}, same, {8, 9}, same]
    assert near_duplicates(arrays(sets), 0.9) == [(0, 2), (0, 4), (2, 4)]


def test_texts_without_shingles_are_like_no_other():
    assert near_duplicates(arrays([set(), set(), {1}]), 0.5) == []
    assert near_duplicates(arrays([set()]), 0.5) == near_duplicates([], 0.5) == []


def test_texts_that_share_nothing_are_no_pairs():
    assert near_duplicates(arrays([{1, 2}, {3, 4}, {5}]), 0.1) == []


@given(SETS, st.sampled_from([0.05, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]))
def test_no_pair_is_missed_and_none_is_made_up(sets, threshold):
    assert near_duplicates(arrays(sets), threshold) == brute_force(sets, threshold)


@pytest.mark.parametrize("percent", range(1, 101))
def test_a_subset_at_the_threshold_survives_float_noise(percent):
    whole, part = set(range(100)), set(range(percent))
    assert near_duplicates(arrays([whole, part]), percent / 100) == [(0, 1)]
    assert near_duplicates(arrays([part, whole]), percent / 100 + 0.001) == []


def copy(text, share, rng):
    return " ".join(rng.choice(WORDS) if rng.random() < share else word for word in text.split())


def corpus(seed, n=120):
    rng = random.Random(seed)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(20, 80))) for _ in range(n)]
    return texts + [copy(rng.choice(texts), rng.choice([0, 0.01, 0.03, 0.06, 0.1]), rng) for _ in range(n)]


@pytest.mark.parametrize("threshold", [0.5, 0.8])
def test_copies_with_changed_words_are_found_exactly(threshold):
    shingles = [shingle_hashes(text) for text in corpus(seed=4)]
    wanted = brute_force([set(one.tolist()) for one in shingles], threshold)
    assert len(wanted) > 50
    assert near_duplicates(shingles, threshold) == wanted


def test_a_crowd_of_equal_texts_is_compared_in_blocks():
    crowd = int((2 * CELLS) ** 0.5)  # one shingle of each is compared, with that of every other
    shingles = arrays([{1, 2, 3}]) * crowd + arrays([{4, 5}, {4, 5}])
    pairs = near_duplicates(shingles, 0.9)
    assert len(pairs) == crowd * (crowd - 1) // 2 + 1
    assert pairs[-1] == (crowd, crowd + 1)
