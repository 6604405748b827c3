"""Passages found by every backend, beside scores computed from the definitions; indexes under kills and deletions."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import paths
import pyarrow as pa
import pytest
from http_server import Answer, Asked, document, serve
from hypothesis import example, given, settings
from hypothesis import strategies as st
from processes import started
from toy_stages import building, source

from longform.artifacts.rows import Rows, Source
from longform.engine.build import Build
from longform.engine.jobs import jobs_of, walk
from longform.engine.stage import Row, Shard, StageContext, stage
from longform.errors import BusyError, UsageError
from longform.llm.ask.types import Endpoint, Price
from schemas import column, table
from tasks.retrieval.bm25 import FixedIndex
from tasks.retrieval.counts import STOP_WORDS
from tasks.retrieval.dense import DenseIndex, write_vectors
from tasks.retrieval.growing import GrowingIndex
from tasks.retrieval.hits import Hit, Hybrid, fuse, index_words
from tasks.sources.web.search import search_passages
from tasks.text.copies.shingles import WORD

ROOT = paths.ROOT
TEXT = st.lists(st.sampled_from(["tea", "pot", "C", "the", "hot", "cup", "ale", "ÄLE", "茶", "unseen?"]), max_size=7)
CORPUS = st.lists(TEXT.map(" ".join), max_size=14)
HOSTILE = [
    'why "is (this AND', "a OR b:c^2 -x +y [1 TO 2] {a} ~ * ?", "\x00\x07", "\ud800 tea", "((((", '"', "words:tea",
    "tea/*", "\\", "e" * 100_000, "тест", "👩‍👩‍👧", "", " \n", "the", "e\u0301", "id:0",
]  # fmt: skip


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


def named(texts: list[str]) -> list[tuple[str, str]]:
    """Ids whose order is not that of the texts."""
    return [(f"p{(7 * n) % 101:03}", text) for n, text in enumerate(texts)]


def bag(text: str) -> Counter[str]:
    return Counter(word for word in re.findall(r"\w+", text.lower()) if word not in STOP_WORDS)


def bm25(passages: list[tuple[str, str]], query: str) -> dict[str, float]:
    """BM25 in Lucene's form, k1 1.5, b 0.75, by the definition; only passages that share a word."""
    bags = {name: bag(text) for name, text in passages}
    mean = sum(map(Counter.total, bags.values())) / max(len(bags), 1) or 1.0
    scores: dict[str, float] = {}
    for word, asked in bag(query).items():
        df = sum(word in one for one in bags.values())
        idf = math.log(1 + (len(bags) - df + 0.5) / (df + 0.5))
        for name, one in bags.items():
            if one[word]:
                norm = 1.5 * (1 - 0.75 + 0.75 * one.total() / mean)
                scores[name] = scores.get(name, 0.0) + asked * idf * one[word] / (one[word] + norm)
    return scores


def in_order(hits: list[Hit]) -> bool:
    return hits == sorted(hits, key=lambda hit: (-hit.score, hit.passage_id))


# ---------------------------------------------------------------- BM25 over a fixed corpus


@given(CORPUS, st.lists(TEXT.map(" ".join), max_size=5), st.integers(0, 16))
@settings(max_examples=60)
def test_a_fixed_index_finds_what_the_definition_finds(texts: list[str], queries: list[str], k: int) -> None:
    passages = named(texts)
    with tempfile.TemporaryDirectory() as path:
        FixedIndex.build(iter(passages), Path(path, "index"))
        found = FixedIndex(Path(path, "index")).search(queries, k)
    for query, hits in zip(queries, found, strict=True):
        exact = bm25(passages, query)
        ranked = sorted((-round(score, 4), name) for name, score in exact.items())[:k]
        assert [hit.score for hit in hits] == pytest.approx([-score for score, _ in ranked], abs=2.1e-4)
        assert [exact[hit.passage_id] for hit in hits] == pytest.approx([hit.score for hit in hits], abs=2.1e-4)
        assert in_order(hits)
        assert len({hit.passage_id for hit in hits}) == len(hits)


def corpus(n: int, seed: int, vocabulary: int = 400) -> list[str]:
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, vocabulary + 1)
    drawn = [f"w{i}" for i in range(vocabulary)]
    return [" ".join(rng.choice(drawn, size=rng.integers(3, 40), p=weights / weights.sum())) for _ in range(n)]


def test_scores_are_bm25s_own(folder: Path) -> None:
    texts, queries = corpus(1_500, seed=1), corpus(60, seed=2)
    reference = bm25s.BM25(k1=1.5, b=0.75, method="lucene", backend="numpy")
    options: dict[str, Any] = {"token_pattern": WORD.pattern, "stopwords": sorted(STOP_WORDS), "show_progress": False}
    reference.index(bm25s.tokenize(texts, **options), show_progress=False)
    ids = [f"{n:04}" for n in range(1_500)]
    found = FixedIndex.build(zip(ids, texts, strict=True), folder / "index").search(queries, 25)
    for asked, hits in zip(bm25s.tokenize(queries, return_ids=False, **options), found, strict=True):
        scores = reference.get_scores(asked)
        assert [hit.score for hit in hits] == pytest.approx(sorted(scores, reverse=True)[:25], abs=2e-4)
        assert [scores[int(hit.passage_id)] for hit in hits] == pytest.approx([hit.score for hit in hits], abs=2e-4)


def test_ties_are_in_order_of_ids_also_where_they_are_cut(folder: Path) -> None:
    passages = [(f"p{n:03}", "tea pot") for n in reversed(range(300))] + [("a", "ale")]
    (hits,) = FixedIndex.build(passages, folder / "index").search(["tea"], 4)
    assert [hit.passage_id for hit in hits] == ["p000", "p001", "p002", "p003"]
    with GrowingIndex(folder / "growing", write=True) as index:
        index.add(passages)
        index.commit()
        assert [hit.passage_id for hit in index.search(["tea"], 4)[0]] == ["p000", "p001", "p002", "p003"]


def test_two_passages_of_one_id_are_an_error(folder: Path) -> None:
    with pytest.raises(ValueError, match="two passages have the id 'a'"):
        FixedIndex.build([("a", "x"), ("a", "y")], folder / "index")
    assert list(folder.iterdir()) == []


def test_an_index_that_was_not_finished_is_not_there(folder: Path) -> None:
    def dying() -> Iterator[tuple[str, str]]:
        yield "a", "tea"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FixedIndex.build(dying(), folder / "index")
    assert not (folder / "index").exists()
    assert FixedIndex.build([("a", "tea")], folder / "index").search(["tea"], 1)[0][0].passage_id == "a"


# ---------------------------------------------------------------- a growing corpus


@given(CORPUS, TEXT.map(" ".join), st.integers(0, 16))
@settings(max_examples=15)
def test_a_growing_index_finds_the_passages_that_share_a_word(texts: list[str], query: str, k: int) -> None:
    passages = named(texts)
    with tempfile.TemporaryDirectory() as path, GrowingIndex(Path(path), write=True) as index:
        index.add(passages[:5])
        index.commit()
        index.add(passages[5:])
        index.commit()
        (hits,) = index.search([query], k)
    sharing = {name for name, text in passages if bag(text).keys() & bag(query).keys()}
    assert {hit.passage_id for hit in hits} <= sharing
    assert len(hits) == min(k, len(sharing))
    assert in_order(hits)


def test_a_growing_index_ranks_as_the_definition_where_lengths_are_equal(folder: Path) -> None:
    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice([f"w{n}" for n in range(60)], size=20)) for _ in range(300)]
    passages = named(texts)[:101]
    with GrowingIndex(folder, write=True) as index:
        index.add(passages)
        index.commit()
        for query in texts[200:230]:
            (hits,) = index.search([query], 10)
            exact = lucene(passages, query)
            assert [hit.score for hit in hits] == pytest.approx(sorted(exact.values(), reverse=True)[:10], abs=1e-3)
            assert [exact[hit.passage_id] for hit in hits] == pytest.approx([hit.score for hit in hits], abs=1e-3)


def lucene(passages: list[tuple[str, str]], query: str) -> dict[str, float]:
    """BM25 with k1 1.2, b 0.75 and the factor (k1 + 1), where all passages are of one length."""
    bags = {name: bag(text) for name, text in passages}
    scores = dict.fromkeys(bags, 0.0)
    for word, asked in bag(query).items():
        df = sum(word in one for one in bags.values())
        idf = math.log(1 + (len(bags) - df + 0.5) / (df + 0.5))
        for name, one in bags.items():
            scores[name] += asked * idf * one[word] * 2.2 / (one[word] + 1.2)
    return scores


def test_added_replaced_and_deleted(folder: Path) -> None:
    with GrowingIndex(folder, write=True) as index:
        index.add([("a", "tea"), ("b", "tea pot"), ("c d/é", "tea cup")])
        index.commit()
        index.add([("a", "ale")])
        index.delete(["c d/é", "never there"])
        assert ids(index.search(["tea"], 9)) == {"a", "b", "c d/é"}  # not committed yet
        index.commit()
        assert ids(index.search(["tea"], 9)) == {"b"}
        assert ids(index.search(["ale"], 9)) == {"a"}
        assert ids(index.search(["tea ale pot cup"], 9)) == {"a", "b"}
        index.delete(["b"])
    assert ids(GrowingIndex(folder).search(["tea"], 9)) == {"b"}  # closed before it was committed


def ids(found: list[list[Hit]]) -> set[str]:
    return {hit.passage_id for hits in found for hit in hits}


def test_only_one_may_write(folder: Path) -> None:
    with GrowingIndex(folder, write=True), pytest.raises(BusyError, match="written by somebody else"):
        GrowingIndex(folder, write=True)
    GrowingIndex(folder, write=True).close()


KILLED = """
import sys
from pathlib import Path
from tasks.retrieval.growing import GrowingIndex
index = GrowingIndex(Path(sys.argv[1]), write=True)
for block in range(1_000_000):
    index.add((f"p{block:06}-{n}", f"tea block{block}") for n in range(50))
    index.delete([f"p{block - 1:06}-0"])
    index.commit()
    print(block, flush=True)
"""


def test_what_was_committed_survives_a_kill(folder: Path) -> None:
    for wanted in (3, 9):
        with started([sys.executable, "-c", KILLED, folder], stdout=subprocess.PIPE, cwd=ROOT) as process:
            assert process.stdout
            for line in process.stdout:
                if int(line) >= wanted:
                    break
        with GrowingIndex(folder, write=True) as index:
            for block in range(wanted):
                found = ids(index.search([f"block{block}"], 99))
                assert found == {f"p{block:06}-{n}" for n in range(1, 50)}
            index.add([("new", "new")])
            index.commit()
            assert ids(index.search(["new"], 9)) == {"new"}


# ---------------------------------------------------------------- embeddings


def dense(folder: Path, vectors: np.ndarray, queries: np.ndarray, **options: Any) -> DenseIndex:
    write_vectors(((f"p{(7 * n) % 101:03}", vector.tolist()) for n, vector in enumerate(vectors)), folder)
    return DenseIndex(folder, lambda texts: [queries[int(text)] for text in texts], **options)


@given(
    st.lists(st.lists(st.integers(-2, 2), min_size=4, max_size=4), max_size=40),
    st.lists(st.lists(st.integers(-2, 2), min_size=4, max_size=4), min_size=1, max_size=4),
    st.integers(0, 45),
)
@example([[0, 0, 0, 0]] * 30 + [[1, 0, 0, 0]] * 9, [[1, 1, 0, 0], [0, 0, 0, 0]], 5)
@settings(max_examples=80)
def test_the_nearest_are_those_of_a_plain_product(vectors: Any, queries: Any, k: int) -> None:
    one, asked = (np.array(each, float).reshape(-1, 4) for each in (vectors, queries))
    with tempfile.TemporaryDirectory() as path:
        index = dense(Path(path), one, asked, block_bytes=16 * 7)  # seven rows
        found = index.search([str(n) for n in range(len(asked))], k)
    unit = [each / np.where((n := np.linalg.norm(each, axis=1, keepdims=True)) > 0, n, 1) for each in (one, asked)]
    for hits, scores in zip(found, unit[1] @ unit[0].T, strict=True):
        ranked = sorted((-round(score, 5) + 0.0, f"p{(7 * n) % 101:03}") for n, score in enumerate(scores.tolist()))[:k]
        assert [hit.score for hit in hits] == pytest.approx([-score for score, _ in ranked], abs=1.1e-5)
        assert [hit.passage_id for hit in hits] == [name for _, name in ranked]


def test_a_large_index_is_searched_block_by_block(folder: Path) -> None:
    rng = np.random.default_rng(0)
    vectors, queries = rng.normal(size=(5_000, 32)), rng.normal(size=(20, 32))
    write_vectors(((str(n), vector.tolist()) for n, vector in enumerate(vectors)), folder)
    found = DenseIndex(folder, lambda texts: queries, block_bytes=128 * 999).search(["x"] * 20, 10)
    lengths = np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(vectors, axis=1)
    for hits, scores in zip(found, queries @ vectors.T / lengths, strict=True):
        assert [int(hit.passage_id) for hit in hits] == np.argsort(-scores)[:10].tolist()


@pytest.mark.parametrize("bad", [[1.0, float("nan")], [1.0, float("inf")], [1.0], [1.0, 2.0, 3.0]])
def test_a_vector_that_is_none_is_an_error(folder: Path, bad: list[float]) -> None:
    with pytest.raises(ValueError, match="an embedding"):
        write_vectors([("a", [1.0, 2.0]), ("b", bad)], folder)
    assert not (folder / "shape.json").exists()


# ---------------------------------------------------------------- together


def test_reciprocal_rank_fusion_by_hand() -> None:
    one, two = [Hit("a", 9.0), Hit("b", 8.0)], [Hit("c", 0.9), Hit("b", 0.8), Hit("a", 0.7)]
    expected = {"b": 1 / 62 + 1 / 62, "a": 1 / 61 + 1 / 63, "c": 1 / 61}
    fused = fuse([one, two], 3)
    assert {hit.passage_id: hit.score for hit in fused} == pytest.approx(expected)
    assert [hit.passage_id for hit in fused] == ["a", "b", "c"]
    assert fuse([[Hit("b", 1)], [Hit("a", 1)]], 1) == [Hit("a", pytest.approx(1 / 61))]
    assert fuse([two, one], 3) == fused


class Listed:
    """A backend that knows one ranking, and how deep it was asked."""

    def __init__(self, *names: str) -> None:
        self.names, self.asked = names, 0

    def search(self, queries: Any, k: int) -> list[list[Hit]]:
        self.asked = k
        return [[Hit(name, 1.0) for name in self.names[:k]] for _ in queries]


def test_a_hybrid_asks_deeper_than_it_answers() -> None:
    one, two = Listed("a", "b", "c"), Listed("c", "d")
    (hits,) = Hybrid([one, two]).search(["q"], 1)
    assert [hit.passage_id for hit in hits] == ["c"]
    assert (one.asked, two.asked) == (100, 100)
    assert Hybrid([one]).search(["q"], 0) == [[]]


def test_no_query_is_wrong_and_no_text_breaks_an_index(folder: Path) -> None:
    passages = [(f"p{n}", text) for n, text in enumerate([*HOSTILE, "tea pot"])]
    fixed = FixedIndex.build(passages, folder / "fixed")
    with GrowingIndex(folder / "growing", write=True) as growing:
        growing.add(passages)
        growing.commit()
        for backend in (fixed, growing):
            found = backend.search(HOSTILE, 50)
            assert len(found) == len(HOSTILE)
            assert [bool(hits) for hits in found] == [bool(index_words(text)) for text in HOSTILE]
            assert backend.search([], 5) == []
            assert backend.search(["tea"], -1) == [[]]
            assert {"p" + str(len(HOSTILE)), "p3"} <= ids(backend.search(["TEA?"], 50))


def test_an_empty_corpus_and_one_without_words_find_nothing(folder: Path) -> None:
    for number, passages in enumerate(([], [("a", ""), ("b", "the ?")])):
        assert FixedIndex.build(passages, folder / f"fixed{number}").search(["tea", ""], 3) == [[], []]
        with GrowingIndex(folder / f"growing{number}", write=True) as index:
            index.add(passages)
            index.commit()
            assert index.search(["tea", ""], 3) == [[], []]
    write_vectors([], folder / "dense")
    assert DenseIndex(folder / "dense", lambda texts: []).search(["tea"], 3) == [[]]


# ---------------------------------------------------------------- the stage

QUESTIONS = table(
    "questions",
    column("question_id", pa.string(), "id"),
    column("question", pa.string(), "text", null=True),
    column("topic", pa.string(), "set", null=True),
    key="question_id",
)
PARAGRAPHS = table(
    "paragraphs",
    column("paragraph_id", pa.string(), "id"),
    column("topic", pa.string(), "set", null=True),
    column("text", pa.string(), "text"),
    key="paragraph_id",
)
ASKED = [("q1", "tea pot", "x"), ("q2", "tea pot", "y"), ("q3", None, "x"), ("q4", "tea", "z"), ("q5", "zebra", "y")]
HELD = [("a", "x", "tea"), ("b", "y", "tea pot"), ("c", "x", "pot tea tea"), ("d", "y", "ale"), ("e", "w", "tea")]


@stage(QUESTIONS, revision=1)
def read_questions(context: StageContext, file: Shard) -> Iterator[Row]:
    yield from json.loads(Path(file.source.path).read_text())


@stage(PARAGRAPHS, revision=1)
def read_paragraphs(context: StageContext, file: Shard) -> Iterator[Row]:
    yield from json.loads(Path(file.source.path).read_text())


@dataclass
class Corpus:
    """Questions and passages on disk, and a home to search them in."""

    folder: Path

    def rows(self, builder: Build, asked: list[Any], held: list[Any]) -> tuple[Rows, Rows]:
        return read_questions(builder, self.file("q", QUESTIONS, asked)), read_paragraphs(
            builder, self.file("p", PARAGRAPHS, held)
        )

    def file(self, name: str, schema: pa.Schema, rows: list[Any]) -> list[Source]:
        path = self.folder / name
        path.write_text(json.dumps([dict(zip(schema.names, row, strict=True)) for row in rows]))
        return [source(path, "toy")]

    def search(self, *, asked: list[Any] = ASKED, held: list[Any] = HELD, **arguments: Any) -> dict[str, list[str]]:
        given = {"k": 5, "query": "question", "within": None, "embedding": None, **arguments}
        with building(self.folder / "home") as run:
            found = list(search_passages(run, *self.rows(run, asked, held), **given))
        for row in found:
            assert [hit["rank"] for hit in row["results"]] == list(range(1, len(row["results"]) + 1))
        return {row["query_id"]: [hit["passage_id"] for hit in row["results"]] for row in found}


@pytest.fixture
def toy(folder: Path) -> Corpus:
    return Corpus(folder)


@pytest.mark.parametrize("backend", ["bm25", "tantivy"])
def test_a_stage_finds_passages_for_questions(toy: Corpus, backend: str) -> None:
    found = toy.search(backend=backend, k=3)
    assert found == {"q1": ["b", "c", "a"], "q2": ["b", "c", "a"], "q3": [], "q4": found["q4"], "q5": []}
    assert set(found["q4"]) < {"a", "b", "c", "e"}
    assert toy.search(backend=backend, k=3) == found


@pytest.mark.parametrize("backend", ["bm25", "tantivy"])
def test_a_question_finds_only_passages_of_its_own_set(toy: Corpus, backend: str) -> None:
    found = toy.search(backend=backend, within="topic")
    assert found == {"q1": ["c", "a"], "q2": ["b"], "q3": [], "q4": [], "q5": []}


def test_nothing_to_ask_and_nothing_to_find(toy: Corpus) -> None:
    assert toy.search(backend="bm25", asked=[]) == {}
    assert toy.search(backend="bm25", held=[]) == {name: [] for name, *_ in ASKED}
    assert toy.search(backend="bm25", held=[], within="topic") == {name: [] for name, *_ in ASKED}


def test_a_search_that_cannot_work_is_refused(toy: Corpus) -> None:
    with pytest.raises(UsageError, match='no search backend "best": choose one of bm25, tantivy, dense, hybrid'):
        toy.search(backend="best")
    with pytest.raises(UsageError, match='"dense" needs an embedding'):
        toy.search(backend="dense")
    with pytest.raises(UsageError, match=r"\[dense\]"):
        toy.search(backend="dense", embedding="some-local-model")


def embedding(asked: Asked) -> Answer:
    """Counts of letters as vectors: tea, pot, ale."""
    texts = json.loads(asked.body)["input"]
    assert all(text.strip() for text in texts)
    vectors = [[float(text.count(word)) for word in ("tea", "pot", "ale")] for text in texts]
    rows = [{"index": place, "embedding": vector, "object": "embedding"} for place, vector in enumerate(vectors)]
    return document({"object": "list", "data": rows, "model": "m", "usage": {"prompt_tokens": 9, "total_tokens": 9}})


@pytest.mark.parametrize("within", [None, "topic"])
def test_embeddings_of_an_endpoint_are_asked_for_once(toy: Corpus, within: str | None) -> None:
    with serve() as server:
        server.on("/v1/embeddings", embedding)
        endpoint = Endpoint("local", "m", base_url=f"{server.url}/v1")
        found = toy.search(backend="dense", embedding=endpoint, within=within, held=[*HELD, ("f", "x", "  ")])
        asked = len(server.asked)
        hybrid = toy.search(backend="hybrid", embedding=endpoint, within=within)
        assert len(server.asked) == asked
    if within:
        assert found == {"q1": ["c", "a"], "q2": ["b", "d"], "q3": [], "q4": [], "q5": ["b", "d"]}
        assert hybrid == found
    else:
        assert found["q1"] == ["b", "c", "a", "e", "d"]
        assert found["q4"] == ["a", "e", "c", "b", "d"]
        assert hybrid["q1"] == ["b", "c", "a", "e", "d"]


def test_a_plan_counts_all_texts_to_embed(toy: Corpus) -> None:
    endpoint = Endpoint("local", "m", base_url="http://127.0.0.1:9/v1", price=Price(1.0, 1.0))
    told: list[str] = []
    with building(toy.folder / "home") as run:
        questions, passages = toy.rows(run, ASKED, HELD)
    given = {"backend": "hybrid", "k": 5, "query": "question", "within": "topic", "embedding": endpoint}
    inputs = {"questions": questions, "passages": passages}
    (job,) = jobs_of(run.store, search_passages.called(run.store, inputs, given))
    walk(run.store, search_passages, job, lambda *_: None, lambda endpoint, texts: told.extend(texts))
    assert sorted(told) == sorted(["tea pot", "tea", "zebra", "tea", "tea pot", "pot tea tea", "ale"])
