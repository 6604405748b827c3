import math
import re
from collections import Counter

import bm25s
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.retrieval.bm25 import Index
from tasks.retrieval.counts import STOP_WORDS
from tasks.text.copies.shingles import WORD

TEXT = st.lists(st.sampled_from(["tea", "pot", "C", "the", "hot", "cup", "ale", "unseen?"]), max_size=7).map(" ".join)
NOBODY = -1


def groups(*numbers):
    return np.array(numbers, np.int64)


def bag(text):
    return Counter(word for word in re.findall(r"\w+", text.lower()) if word not in STOP_WORDS)


def brute_force(passages, query):
    """BM25 in Lucene's form, k1 1.5, b 0.75, by the definition in double precision."""
    bags = [bag(passage) for passage in passages]
    mean = sum(sum(one.values()) for one in bags) / max(len(bags), 1) or 1.0
    scores = np.zeros(len(passages))
    for word, asked in bag(query).items():
        df = sum(word in one for one in bags)
        idf = math.log(1 + (len(bags) - df + 0.5) / (df + 0.5))
        for i, one in enumerate(bags):
            norm = 1.5 * (1 - 0.75 + 0.75 * sum(one.values()) / mean)
            scores[i] += asked * idf * one[word] / (one[word] + norm)
    return scores


def test_a_score_by_hand():
    ids, scores = Index(["tea pot", "tea tea cup lid", "ale"], groups(0, 1, 2)).top(["Tea?"], groups(NOBODY), 3)
    idf = math.log(1 + 1.5 / 2.5)  # 2 of 3 passages; mean length 7 / 3
    one = idf * 1 / (1 + 1.5 * (0.25 + 0.75 * 2 / (7 / 3)))
    two = idf * 2 / (2 + 1.5 * (0.25 + 0.75 * 4 / (7 / 3)))
    assert ids.tolist() == [[1, 0, -1]] if two > one else [[0, 1, -1]]
    assert scores[0] == pytest.approx([max(one, two), min(one, two), 0], abs=1e-4)


@given(
    st.lists(st.tuples(TEXT, st.integers(0, 3)), max_size=14),
    st.lists(st.tuples(TEXT, st.integers(0, 4)), max_size=5),
    st.integers(0, 16),
)
def test_the_best_passages_are_the_brute_force_ones_of_other_groups(passages, queries, k):
    texts, of = [text for text, _ in passages], groups(*(group for _, group in passages))
    own = groups(*(group for _, group in queries))
    ids, scores = Index(texts, of).top([text for text, _ in queries], own, k)
    assert (ids.dtype, ids.shape, scores.dtype, scores.shape) == (np.int64, (len(queries), k), np.float32, ids.shape)
    for row, (query, group) in enumerate(queries):
        exact = np.round(brute_force(texts, query), 4)
        usable = [i for i in range(len(texts)) if of[i] != group and exact[i] > 0]
        best = sorted((-exact[i], i) for i in usable)[:k]
        found = ids[row][ids[row] >= 0].tolist()
        assert ids[row].tolist() == found + [-1] * (k - len(found))
        assert scores[row] == pytest.approx([-score for score, _ in best] + [0] * (k - len(best)), abs=2.1e-4)
        assert set(found) <= set(usable)
        assert exact[found] == pytest.approx(scores[row, : len(found)], abs=2.1e-4)
        assert found == [i for _, i in sorted(zip((-scores[row, : len(found)]).tolist(), found, strict=True))]


def corpus(n, seed, words=400):
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, words + 1)
    vocabulary = np.array([f"w{i}" for i in range(words)])
    return [" ".join(rng.choice(vocabulary, size=rng.integers(3, 40), p=weights / weights.sum())) for _ in range(n)]


def test_scores_are_those_of_bm25s():
    passages, queries = corpus(1500, seed=1), corpus(60, seed=2)
    options = {"token_pattern": WORD.pattern, "stopwords": sorted(STOP_WORDS), "show_progress": False}
    reference = bm25s.BM25(k1=1.5, b=0.75, method="lucene", backend="numpy")
    reference.index(bm25s.tokenize(passages, **options), show_progress=False)
    asked = bm25s.tokenize(queries, return_ids=False, **options)
    _, expected = reference.retrieve(asked, k=25, show_progress=False)
    ids, scores = Index(passages, np.arange(1500)).top(queries, np.full(60, NOBODY), 25)
    assert scores == pytest.approx(expected, abs=2e-4)
    for row in range(60):
        assert reference.get_scores(asked[row])[ids[row]] == pytest.approx(scores[row], abs=2e-4)


def test_a_group_of_any_size_does_not_crowd_out_the_others():
    passages = ["tea pot"] * 500 + ["tea", "tea cup", "tea pot and cup"]
    index = Index(passages, groups(*[7] * 500, 8, 9, 9))
    ids, _ = index.top(["tea pot", "tea pot"], groups(7, 9), 3)
    assert sorted(ids[0].tolist()) == [500, 501, 502]
    assert ids[1].tolist() == [0, 1, 2]


def test_ties_are_ordered_by_position_even_where_they_are_cut():
    index = Index(["ale"] * 3 + ["tea"] * 200, np.arange(203))
    ids, scores = index.top(["tea"], groups(NOBODY), 4)
    assert ids.tolist() == [[3, 4, 5, 6]]
    assert len(set(scores[0].tolist())) == 1


def test_unknown_words_empty_queries_and_empty_indexes_find_nothing():
    index = Index(["tea", "", "pot"], groups(0, 1, 2))
    ids, scores = index.top(["zebra", "", "the", "tea"], groups(*[NOBODY] * 4), 2)
    assert ids.tolist() == [[-1, -1], [-1, -1], [-1, -1], [0, -1]]
    assert not scores[:3].any()
    assert index.top([], groups(), 2)[0].shape == (0, 2)
    for nothing in ([], ["", "the", "?"]):
        assert Index(nothing, groups(*range(len(nothing)))).top(["tea"], groups(0), 2)[0].tolist() == [[-1, -1]]


def test_a_repeated_word_counts_each_time():
    index = Index(["tea", "ale", "hops"], groups(0, 1, 2))
    _, once = index.top(["tea"], groups(NOBODY), 1)
    _, twice = index.top(["tea tea"], groups(NOBODY), 1)
    assert twice[0, 0] == pytest.approx(2 * once[0, 0], abs=1e-4)
