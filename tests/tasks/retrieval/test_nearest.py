import math
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.retrieval.counts import STOP_WORDS
from tasks.retrieval.nearest import CELLS, nearest_dense, nearest_tfidf, pairs_dense, pairs_tfidf

NOISE = 6e-6  # 5 decimals, and float32
TEXTS = st.lists(
    st.lists(st.sampled_from(["tea", "pot", "C", "R", "the", "hot", "cup", "ale"]), max_size=5).map(" ".join),
    max_size=14,
)


def tfidf_cosines(texts):
    """All cosines by the definition: (1 + log tf) * (log((1 + n) / (1 + df)) + 1), rows of length 1."""
    bags = [Counter(word for word in re.findall(r"\w+", text.lower()) if word not in STOP_WORDS) for text in texts]
    df = Counter(word for bag in bags for word in bag)
    rows = []
    for bag in bags:
        row = {w: (1 + math.log(tf)) * (math.log((1 + len(texts)) / (1 + df[w])) + 1) for w, tf in bag.items()}
        length = math.sqrt(sum(value**2 for value in row.values())) or 1.0
        rows.append({w: value / length for w, value in row.items()})
    return np.array([[sum(a[w] * b.get(w, 0) for w in a) for b in rows] for a in rows]).reshape(len(rows), len(rows))


def dense_cosines(vectors):
    vectors = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    return vectors @ vectors.T / np.maximum(np.outer(lengths, lengths), 1e-300)


def agrees(columns, scores, cosines, k, below):
    """Nothing returned is wrong, unsorted or unusable, and nothing nearer was left out."""
    n = len(cosines)
    assert (columns.dtype, columns.shape) == (np.int64, (n, k))
    assert (scores.dtype, scores.shape) == (np.float32, (n, k))
    for row in range(n):
        found = columns[row][columns[row] >= 0].tolist()
        near = scores[row, : len(found)]
        assert columns[row, len(found) :].tolist() == [-1] * (k - len(found))
        assert not scores[row, len(found) :].any()
        assert len(set(found)) == len(found)
        assert row not in found
        assert all(0 < score < below for score in near.tolist())
        assert near == pytest.approx(cosines[row, found], abs=NOISE)
        assert found == [j for _, j in sorted(zip((-near).tolist(), found, strict=True))]
        usable = [j for j in range(n) if j != row and NOISE < cosines[row, j] < below - NOISE]
        least = near[-1] if len(found) == k > 0 else 0
        assert k == 0 or not any(cosines[row, j] > least + NOISE for j in usable if j not in found)


def test_the_similarity_of_two_texts_by_hand():
    columns, scores = nearest_tfidf(["tea pot", "Tea cup!", "ale"], 1, 0.9)
    tea, pot = math.log(4 / 3) + 1, math.log(4 / 2) + 1
    expected = tea**2 / (tea**2 + pot**2)
    assert columns.tolist() == [[1], [0], [-1]]
    assert scores[:, 0] == pytest.approx([expected, expected, 0], abs=NOISE)


@given(TEXTS, st.integers(0, 16), st.sampled_from([0.3, 0.7, 0.95, 1.0, 1.5]))
def test_neighbours_by_words_are_the_brute_force_ones(texts, k, below):
    agrees(*nearest_tfidf(texts, k, below), tfidf_cosines(texts), k, below)


def test_two_texts_are_enough_and_one_or_none_is_none():
    assert nearest_tfidf(["green tea", "black tea"], 3, 0.99)[0].tolist() == [[1, -1, -1], [0, -1, -1]]
    assert nearest_tfidf(["green tea"], 2, 0.99)[0].tolist() == [[-1, -1]]
    assert nearest_tfidf([], 2, 0.99)[0].shape == (0, 2)


def test_texts_without_words_are_near_to_none():
    assert nearest_tfidf(["", "tea", "?!", "tea", "the"], 2, 2.0)[0].tolist() == [
        [-1, -1],
        [3, -1],
        [-1, -1],
        [1, -1],
        [-1, -1],
    ]
    assert nearest_tfidf(["", "the", "..."], 2, 2.0)[0].tolist() == [[-1, -1]] * 3


def test_a_one_letter_word_tells_questions_apart():
    (first, *_), _ = nearest_tfidf(["sort in R", "sort in C", "sort lists in R"], 1, 0.99)
    assert first.tolist() == [2]


def test_equal_texts_are_paraphrases_whatever_the_rounding():
    texts = [
        f"{words} {words} brew" for words in ("tea pot kettle", "ale hops malt barley", "a bean") for _ in range(3)
    ]
    columns, scores = nearest_tfidf(texts, 8, 1.0)
    for row in range(9):
        assert sorted(columns[row].tolist()) == [-1, -1, *(j for j in range(9) if j // 3 != row // 3)]
    assert scores.max() < 1


def test_ties_are_ordered_by_position_even_where_they_are_cut():
    texts = ["tea pot"] * 3 + ["tea cup"] * 70
    columns, scores = nearest_tfidf(texts, 5, 0.99)
    assert columns[0].tolist() == [3, 4, 5, 6, 7]
    assert columns[60].tolist() == [0, 1, 2, -1, -1]
    assert len(set(scores[0].tolist())) == 1


def test_any_number_of_paraphrases_does_not_hide_the_related():
    texts = ["tea pot lid"] * 300 + ["tea pot"] + ["tea cup"] * 2 + ["ale"]
    columns, _ = nearest_tfidf(texts, 4, 0.8)
    near = dict(enumerate(tfidf_cosines(["tea pot lid"] * 300 + ["tea pot", "tea cup", "tea cup", "ale"])[0]))
    assert near[300] > 0.8 > near[301] > 0
    assert columns[:300].tolist() == [[301, 302, -1, -1]] * 300


def test_neighbours_among_many_texts_are_the_brute_force_ones():
    rng = np.random.default_rng(5)
    words = [f"w{i}" for i in range(60)]
    texts = [" ".join(rng.choice(words, size=rng.integers(1, 9))) for _ in range(250)]
    texts += texts[:40]
    agrees(*nearest_tfidf(texts, 10, 0.8), tfidf_cosines(texts), 10, 0.8)


@given(
    st.lists(st.lists(st.integers(-2, 2), min_size=3, max_size=3), max_size=14),
    st.integers(0, 16),
    st.sampled_from([0.3, 0.7, 0.95, 1.0, 1.5]),
)
def test_neighbours_by_vectors_are_the_brute_force_ones(vectors, k, below):
    array = np.array(vectors, np.float32).reshape(-1, 3)
    agrees(*nearest_dense(array, k, below), dense_cosines(array), k, below)


def test_vectors_in_several_blocks_are_compared_with_all_others():
    n = int((1.2 * CELLS) ** 0.5)
    vectors = np.random.default_rng(2).normal(size=(n, 5)).astype(np.float32)
    columns, scores = nearest_dense(vectors, 3, 0.99)
    cosines = dense_cosines(vectors)
    np.fill_diagonal(cosines, 0)
    cosines[cosines >= 0.99] = 0
    assert scores == pytest.approx(-np.sort(-cosines, axis=1)[:, :3], abs=NOISE)
    assert np.take_along_axis(cosines, columns, axis=1) == pytest.approx(scores, abs=NOISE)


def test_the_length_of_a_vector_does_not_matter_and_none_is_near_to_none():
    vectors = np.array([[1, 0], [30, 30], [0, 0], [0.1, 0.01], [-1, 0]], np.float32)
    columns, scores = nearest_dense(vectors, 3, 0.999)
    assert columns.tolist() == [[3, 1, -1], [3, 0, -1], [-1] * 3, [0, 1, -1], [-1] * 3]
    assert scores[0, :2] == pytest.approx([10 / math.sqrt(101), math.sqrt(0.5)], abs=NOISE)


def test_equal_vectors_are_paraphrases_and_ties_go_by_position():
    base = np.random.default_rng(3).normal(size=(2, 384)).astype(np.float32)
    vectors = np.repeat(base + 3, 40, axis=0)
    columns, scores = nearest_dense(vectors, 4, 1.0)
    assert columns[:40].tolist() == [[40, 41, 42, 43]] * 40
    assert columns[40:].tolist() == [[0, 1, 2, 3]] * 40
    assert len(np.unique(scores)) == 1


def test_no_vectors_have_no_neighbours():
    assert nearest_dense(np.zeros((0, 4), np.float32), 2, 0.9)[0].shape == (0, 2)
    assert nearest_dense(np.ones((1, 4), np.float32), 2, 0.9)[0].tolist() == [[-1, -1]]


# ---------------------------------------------------------------- sides and groups, pairs


def within(cosines, sides, groups):
    """Cosines with 0 for each cell that must not be a neighbour."""
    allowed = (sides[:, None] == sides[None, :]) & (groups[:, None] != groups[None, :])
    return np.where(allowed, cosines, 0)


@st.composite
def divided(draw):
    texts = draw(TEXTS)
    numbers = st.lists(st.integers(0, 2), min_size=len(texts), max_size=len(texts))
    groups = st.lists(st.integers(0, 5), min_size=len(texts), max_size=len(texts))
    return texts, np.array(draw(numbers), np.int64), np.array(draw(groups), np.int64)


@given(divided(), st.integers(0, 6))
def test_neighbours_are_of_the_same_side_and_of_another_group(case, k):
    texts, sides, groups = case
    cosines = within(tfidf_cosines(texts), sides, groups) if texts else np.zeros((0, 0))
    agrees(*nearest_tfidf(texts, k, 0.95, sides=sides, groups=groups), cosines, k, 0.95)
    vectors = np.array([[len(text), text.count("tea"), text.count("ale")] for text in texts], np.float32).reshape(-1, 3)
    cosines = within(dense_cosines(vectors), sides, groups)
    agrees(*nearest_dense(vectors, k, 0.95, sides=sides, groups=groups), cosines, k, 0.95)


@given(TEXTS, st.sampled_from([0.3, 0.8, 1.0]))
def test_pairs_are_all_that_are_as_similar_as_asked(texts, at_least):
    vectors = np.array([[len(text), text.count("tea"), text.count("ale")] for text in texts], np.float32).reshape(-1, 3)
    for found, cosines in (
        (pairs_tfidf(texts, at_least), tfidf_cosines(texts)),
        (pairs_dense(vectors, at_least), dense_cosines(vectors)),
    ):
        pairs = {(i, j): score for i, j, score in found}
        for i in range(len(texts)):
            for j in range(i + 1, len(texts)):
                if cosines[i, j] >= at_least + NOISE:
                    assert pairs[i, j] == pytest.approx(cosines[i, j], abs=NOISE)
                elif cosines[i, j] < at_least - NOISE:
                    assert (i, j) not in pairs


def test_pairs_of_many_equal_texts_are_all_found():
    assert len(list(pairs_tfidf(["green tea pot"] * 40 + ["ale"] * 3, 0.9))) == 40 * 39 / 2 + 3
