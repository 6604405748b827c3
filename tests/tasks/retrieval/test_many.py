"""Neighbours among very many texts: the exact index and the one of lists, against all cosines in float64."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.retrieval.counts import STOP_WORDS
from tasks.retrieval.dense import write_vectors
from tasks.retrieval.many import NearestVectors, NearestWords, read_vectors

K, BELOW = 4, 0.9


def cosines_of_words(texts):
    from sklearn.feature_extraction.text import TfidfVectorizer

    made = TfidfVectorizer(token_pattern=r"\w+", stop_words=list(STOP_WORDS), sublinear_tf=True).fit_transform(texts)
    return (made @ made.T).toarray()


def cosines_of(vectors):
    vectors = np.asarray(vectors, np.float64)
    return vectors @ vectors.T


def expected(cosines, sides, groups, row, k=K, below=BELOW):
    """(position, cosine) of the k nearest of one row, one after the other."""
    rounded = np.round(cosines[row], 5)
    usable = [
        place
        for place in range(len(cosines))
        if sides[place] == sides[row] and groups[place] != groups[row] and 0 < rounded[place] < below
    ]
    best = sorted(usable, key=lambda place: (-rounded[place], place))[:k]
    return best, [rounded[place] for place in best]


def agrees(index, asked, cosines, sides, groups):
    found, scores = index.nearest(np.array(asked, np.int64), K, BELOW)
    assert (found.shape, scores.shape) == ((len(asked), K), (len(asked), K))
    for row, columns, near in zip(asked, found.tolist(), scores.tolist(), strict=True):
        best, best_scores = expected(cosines, sides, groups, row)
        assert near == pytest.approx(best_scores + [0] * (K - len(best)), abs=2e-5)
        assert columns[len(best) :] == [-1] * (K - len(best))
        found_here = columns[: len(best)]
        assert near[: len(best)] == pytest.approx(cosines[row, found_here], abs=2e-5)
        assert all(sides[place] == sides[row] and groups[place] != groups[row] for place in found_here)


def drawn(size, seed):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 3, size), rng.integers(0, size, size), rng


def test_neighbours_by_words_are_the_brute_force_ones_for_those_that_are_asked():
    sides, groups, rng = drawn(300, 1)
    texts = [" ".join(f"w{int(w)}" for w in rng.zipf(1.4, size=12) % 80) for _ in range(300)]
    index = NearestWords(iter(texts), sides=sides, groups=groups)
    agrees(index, range(7, 290, 2), cosines_of_words(texts), sides, groups)
    assert index.nearest(np.zeros(0, np.int64), K, BELOW)[0].shape == (0, K)


def test_equally_near_texts_are_taken_by_position():
    texts = ["tea pot"] + ["tea cup"] * 30
    index = NearestWords(texts, sides=np.zeros(31, np.int64), groups=np.arange(31))
    assert index.nearest(np.array([0]), 3, 0.99)[0].tolist() == [[1, 2, 3]]


def test_no_texts_have_no_index():
    none = np.zeros(0, np.int64)
    assert NearestWords([], sides=none, groups=none).nearest(none, K, BELOW)[0].shape == (0, K)
    assert NearestVectors(np.zeros((0, 1), np.float32), sides=none, groups=none).nearest(none, K, BELOW)[0].size == 0


def clustered(size, seed, width=24):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(40, width))[rng.integers(0, 40, size)] + 0.5 * rng.normal(size=(size, width))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@given(st.integers(1, 60), st.integers(0, 99))
def test_small_sides_are_compared_whole(size, seed):
    sides, groups, _ = drawn(size, seed)
    vectors = clustered(size, seed)
    index = NearestVectors(vectors, sides=sides, groups=groups)
    agrees(index, range(0, size, 2), cosines_of(vectors), sides, groups)


@given(st.integers(2, 60), st.integers(0, 99))
def test_an_index_of_which_every_list_is_looked_at_is_exact(size, seed):
    sides, groups, _ = drawn(size, seed)
    vectors = clustered(size, seed)
    index = NearestVectors(vectors, sides=sides, groups=groups, exact=0, probes=1_000)
    agrees(index, range(size), cosines_of(vectors), sides, groups)


def test_lists_find_nearly_all_and_nothing_that_is_wrong():
    sides, groups, _ = drawn(4_000, 5)
    vectors = clustered(4_000, 5)
    cosines = cosines_of(vectors)
    index = NearestVectors(vectors, sides=sides, groups=groups, exact=0, probes=16)
    asked = np.arange(0, 4_000, 7)
    found, scores = index.nearest(asked, K, BELOW)
    hits = 0
    for row, columns, near in zip(asked, found, scores, strict=True):
        best, _ = expected(cosines, sides, groups, row)
        hits += len(set(best) & set(columns.tolist()))
        assert near == pytest.approx(cosines[row, columns], abs=2e-5)
        assert (np.diff(near) <= 0).all()
        assert (sides[columns] == sides[row]).all()
        assert (groups[columns] != groups[row]).all()
        assert ((near > 0) & (near < BELOW)).all()
    assert hits / (K * len(asked)) > 0.97


def test_any_number_of_paraphrases_does_not_hide_the_related_in_lists():
    base = clustered(2, 3)
    near = base[0] + 0.02 * clustered(900, 4)
    vectors = np.concatenate([near, [0.5 * base[0] + 0.5 * base[1]], clustered(300, 6)]).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    size = len(vectors)
    index = NearestVectors(vectors, sides=np.zeros(size, np.int64), groups=np.arange(size), exact=0, probes=1_000)
    agrees(index, [0, 5, 800], cosines_of(vectors), np.zeros(size), np.arange(size))


def test_which_rows_are_asked_together_changes_nothing():
    sides, groups, _ = drawn(3_000, 8)
    vectors = clustered(3_000, 8)
    index = NearestVectors(vectors, sides=sides, groups=groups, exact=100, probes=8)
    whole, some = index.nearest(np.arange(3_000), K, BELOW), index.nearest(np.arange(50, 800, 3), K, BELOW)
    assert (whole[0][50:800:3] == some[0]).all()
    assert (whole[1][50:800:3] == some[1]).all()


def test_vectors_in_a_file_are_found_as_those_in_memory(tmp_path: Path):
    sides, groups, _ = drawn(2_500, 9)
    vectors = clustered(2_500, 9)
    write_vectors((("", vector) for vector in vectors), tmp_path)
    held = read_vectors(tmp_path, 2_500)
    asked = np.arange(0, 2_500, 3)
    one = NearestVectors(held, sides=sides, groups=groups, exact=0).nearest(asked, K, BELOW)
    other = NearestVectors(np.array(held), sides=sides, groups=groups, exact=0).nearest(asked, K, BELOW)
    assert (one[0] == other[0]).all()
    assert (one[1] == other[1]).all()
