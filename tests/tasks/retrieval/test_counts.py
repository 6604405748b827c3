"""Counts of words, against scikit-learn's."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tasks.retrieval.counts import STOP_WORDS, count_known, count_words
from tasks.text.copies.shingles import WORD

TEXTS = st.lists(st.text(max_size=30) | st.lists(st.sampled_from(["Tea", "pot", "C", "the", "été"])).map(" ".join))


@given(TEXTS, TEXTS)
def test_scikit_learn_counts_the_same(texts: list[str], others: list[str]) -> None:
    from sklearn.feature_extraction.text import CountVectorizer

    texts = [*texts, "tea"]
    reference = CountVectorizer(dtype=np.float32, token_pattern=WORD.pattern, stop_words=sorted(STOP_WORDS))
    counts, words = count_words(texts)
    assert (counts.toarray() == reference.fit_transform(texts).toarray()).all()
    assert words == reference.vocabulary_
    assert counts.has_sorted_indices
    known = count_known(others, words).toarray()
    assert known.shape == (len(others), len(words))
    assert not others or (known == reference.transform(others).toarray()).all()


def test_no_text_and_no_word_have_no_column() -> None:
    assert count_words([])[0].shape == (0, 0)
    assert count_words(["", "the"])[0].shape == (2, 0)
    assert count_known(["tea"], {}).shape == (1, 0)
