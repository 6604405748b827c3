"""Of several texts the one that is most like the others: against scikit-learn, and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tasks.retrieval.consistency import most_central, tfidf
from tasks.text.copies.shingles import WORD

TEXTS = st.lists(
    st.text(max_size=30)
    | st.lists(st.sampled_from(["Tea", "tea", "pot", "a", "the", "été", "3_4", "—"])).map(" ".join),
    min_size=1,
    max_size=6,
)


@given(TEXTS)
def test_tfidf_weighs_words_as_scikit_learn_does(texts: list[str]) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = [*texts, "tea"]
    reference = TfidfVectorizer(token_pattern=WORD.pattern, norm=None, smooth_idf=True)
    expected = reference.fit_transform(texts).toarray()
    assert np.allclose(tfidf(texts), expected, rtol=1e-12, atol=0)


def test_tfidf_by_hand() -> None:
    rare, common = 1 + math.log(3 / 2), 1 + math.log(3 / 3)
    assert tfidf(["Tea, tea and a pot", "a cup and a pot"]) == pytest.approx(
        np.array([[common, common, 0, common, 2 * rare], [2 * common, common, rare, common, 0]])
    )  # a, and, cup, pot, tea


def test_texts_without_words_are_vectors_of_zero() -> None:
    assert tfidf(["", "—"]).tolist() == [[0], [0]]
    assert tfidf(["", "a"]).tolist() == [[0], [1 + math.log(3 / 2)]]
    assert tfidf([]).shape == (0, 1)


@given(TEXTS)
def test_the_text_is_chosen_whose_mean_cosine_is_the_highest_by_scikit_learn(texts: list[str]) -> None:
    from sklearn.metrics.pairwise import cosine_similarity

    vectors = tfidf(texts)
    place, similarity = most_central(vectors)
    if len(texts) == 1:
        assert (place, similarity) == (0, None)
        return
    cosines = cosine_similarity(vectors)
    means = [np.delete(row, at).mean() for at, row in enumerate(cosines)]
    assert similarity == pytest.approx(max(means), abs=2e-9)
    assert means[place] >= max(means) - 2e-9


@given(arrays(np.float64, st.tuples(st.integers(2, 6), st.integers(1, 5)), elements=st.integers(-9, 9).map(float)))
def test_the_choice_among_vectors_of_any_sign_is_that_of_scikit_learn(vectors: np.ndarray) -> None:
    from sklearn.metrics.pairwise import cosine_similarity

    cosines = cosine_similarity(vectors)
    means = [np.delete(row, at).mean() for at, row in enumerate(cosines)]
    best = [at for at, mean in enumerate(means) if mean > max(means) - 1e-9]
    place, similarity = most_central(vectors)
    assert place in best
    assert similarity == pytest.approx(max(means), abs=2e-9)


@pytest.mark.parametrize(
    ("vectors", "chosen"),
    [
        ([[1, 0], [1, 1], [0, 1]], (1, math.sqrt(0.5))),
        ([[3, 0], [0, 4]], (0, 0.0)),
        ([[1, 0], [5, 0], [0, 1]], (0, 0.5)),
        ([[0, 1], [1, 0], [5, 0]], (1, 0.5)),
        ([[1, 0], [-1, 0]], (0, -1.0)),
        ([[1, 0], [-1, 0], [-1, 0]], (1, 0.0)),
        ([[0, 0], [1, 0], [2, 0]], (1, 0.5)),
        ([[0, 0], [0, 0], [0, 0]], (0, 0.0)),
        ([[0, 0], [1, 0]], (0, 0.0)),
        ([[1e-90, 0], [1e90, 0], [0, 1]], (0, 0.5)),
        ([[7, 7]], (0, None)),
        ([[0, 0]], (0, None)),
    ],
)
def test_the_most_central_vector_by_hand(vectors: list[list[float]], chosen: tuple[int, float | None]) -> None:
    place, similarity = most_central(np.array(vectors, np.float64))
    assert (place, similarity) == (chosen[0], chosen[1] if chosen[1] is None else pytest.approx(chosen[1]))


ALIKE = st.lists(st.sampled_from(["a cup of tea", "a pot of tea", "a pot"]), min_size=2, max_size=7)


@given(ALIKE.flatmap(lambda texts: st.tuples(st.just(texts), st.permutations(texts))))
def test_of_equals_the_first_is_chosen_and_the_order_changes_no_similarity(orders: tuple[list[str], list[str]]) -> None:
    chosen = [most_central(tfidf(texts)) for texts in orders]
    for texts, (place, _) in zip(orders, chosen, strict=True):
        assert texts.index(texts[place]) == place
    assert chosen[0][1] == pytest.approx(chosen[1][1], abs=2e-9)


@pytest.mark.parametrize("scale", [1e-3, 7.0, 1e6])
def test_lengths_of_vectors_do_not_count(scale: float) -> None:
    vectors = tfidf(["tea in a pot", "tea in a cup", "a saucer", "tea"])
    chosen = most_central(vectors)
    scaled = vectors * np.array([[1.0], [scale], [1 / scale], [1.0]])
    assert most_central(scaled) == (chosen[0], pytest.approx(chosen[1]))
