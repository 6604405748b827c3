"""Related questions among all sites (axiom 1), as the paper has it: the setting `neighbours_across_sites`.

One index of all candidates, so that a site appended may change the neighbours of every question. What is kept in memory
of a question is its ids, the ids and votes of its answers, and its TF-IDF weights; vectors are in a temporary file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longform.engine.at_most import embedding_calls
from longform.engine.stage import AllRows, AtMost, StageContext, stage
from longform.llm.ask.types import Endpoint
from schemas.axioms import RELATED
from tasks.axioms.related import BLOCK, Pool, related_batch

OF_ANSWERS = ("answers.list.element.answer_id", "answers.list.element.votes")


@stage(RELATED, revision=1, at_most=AtMost(calls=lambda sizes: embedding_calls(sizes["candidates"], sizes.units)))
def find_related_across_sites(
    context: StageContext,
    threads: AllRows,
    candidates: AllRows,
    *,
    embedding: str | Endpoint,
    k: int,
    below: float,
    negatives: int,
    seed: int,
) -> Iterator[pa.RecordBatch]:
    """As `find_related`, but the candidates are those of all sites, on the side of the question.

    By TF-IDF the neighbours are the nearest; by vectors they are the nearest of those in the lists of an index that are
    looked at, with exact similarities (tasks/retrieval/many.py). Memory: as the module says.
    """
    from tasks.retrieval.many import NearestVectors, NearestWords

    pool = _pool(candidates)
    places = dict(zip(pool.ids, range(len(pool.ids)), strict=True))
    asked = np.array([places[key] for key in threads.table(["question_id"])["question_id"].to_pylist()], np.int64)
    if embedding == "tfidf":
        words = NearestWords(_heads(candidates), sides=pool.sides, groups=pool.groups)
        found = (words.nearest(asked[start : start + BLOCK], k, below) for start in range(0, asked.size, BLOCK))
    else:
        vectors = NearestVectors(_vectors(context, candidates, embedding), sides=pool.sides, groups=pool.groups)
        whole = vectors.nearest(asked, k, below)
        found = (
            (whole[0][start : start + BLOCK], whole[1][start : start + BLOCK]) for start in range(0, asked.size, BLOCK)
        )
    for start, (neighbours, similarities) in zip(range(0, asked.size, BLOCK), found, strict=True):
        yield related_batch(pool, asked[start : start + BLOCK], neighbours, similarities, negatives, seed)


class Answers:
    """The answers of each of many questions, in two flat columns: `answers[position]` is a list of (id, votes)."""

    def __init__(self, ids: list[str], votes: np.ndarray, sizes: np.ndarray) -> None:
        self._ids, self._votes = ids, votes
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])

    def __getitem__(self, position: int) -> list[tuple[str, int]]:
        """The answers of the question at this position, in their order."""
        own = slice(self._starts[position], self._starts[position + 1])
        return list(zip(self._ids[own], self._votes[own].tolist(), strict=True))


def _pool(candidates: AllRows) -> Pool:
    """All candidates in memory, without their heads."""
    table = candidates.table(["candidate_id", "split", "group"])
    sides, groups = (
        table[name].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
        for name in ("split", "group")
    )
    ids, votes, sizes = list[str](), [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    for batch in candidates.batches(list(OF_ANSWERS)):
        answers = batch.column("answers")
        sizes.append(pc.list_value_length(answers).to_numpy(zero_copy_only=False).astype(np.int64))
        flat = answers.flatten()
        ids += flat.field("answer_id").to_pylist()
        votes.append(flat.field("votes").to_numpy(zero_copy_only=False))
    answers = Answers(ids, np.concatenate(votes), np.concatenate(sizes))
    return Pool(table["candidate_id"].to_pylist(), [], sides, groups, answers)


def _heads(candidates: AllRows) -> Iterator[str]:
    """The heads of all candidates, in order."""
    return chain.from_iterable(batch.column("head").to_pylist() for batch in candidates.batches(["head"]))


def _vectors(context: StageContext, candidates: AllRows, embedding: str | Endpoint) -> np.ndarray:
    """The vectors of the heads, each of length 1 or 0, in a memory-mapped temporary file."""
    from tasks.retrieval.dense import embedded, local_model, write_vectors
    from tasks.retrieval.many import read_vectors

    if isinstance(embedding, Endpoint):
        made: Iterable[Sequence[float]] = context.embeddings(embedding, _heads(candidates))
    else:
        model = local_model(embedding)
        made = (vector for _, vector in embedded((("", head) for head in _heads(candidates)), model))
    folder = context.scratch()
    write_vectors((("", vector) for vector in made), folder)
    return read_vectors(folder, candidates.count)
