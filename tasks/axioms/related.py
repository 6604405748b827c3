"""Related questions and hard negatives (axiom 1), and evidence passages from other threads (axiom 2)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from xxhash import xxh3_64_intdigest

from longform.engine.at_most import embedding_calls
from longform.engine.stage import AtMost, PerGroup, StageContext, stage
from longform.errors import UsageError
from longform.llm.ask.types import Endpoint
from schemas.axioms import NEGATIVE, PASSAGE, PASSAGES, RELATED

BLOCK = 5_000


@stage(RELATED, revision=2, at_most=AtMost(calls=lambda sizes: embedding_calls(sizes["candidates"], sizes.units)))
def find_related(
    context: StageContext,
    threads: PerGroup,
    candidates: PerGroup,
    *,
    embedding: str | Endpoint,
    k: int,
    below: float,
    negatives: int,
    seed: int,
) -> Iterator[pa.RecordBatch]:
    """For each question of `threads` its k nearest candidates of its site and its side of the split, and hard negatives
    drawn from the answers to these. Both lists may be shorter or empty.

    Nearest by cosine of the embeddings of their heads. `embedding`: "tfidf" for TF-IDF vectors, else the name of a
    local sentence-transformers model, or an endpoint. Questions that are the same, and such with a similarity of
    `below` or more, are left out; those with 0 or less are not related. At most `negatives` answers are drawn by
    `seed`, without replacement, with probability proportional to votes (below 1: as 1). UsageError for a local model
    that is not installed or cannot be loaded.
    """
    pool = _pool(candidates)
    asked = set(threads.table(["question_id"])["question_id"].to_pylist())
    neighbours, similarities = nearest(context, pool, embedding, k, below)
    wanted = np.array([place for place, key in enumerate(pool.ids) if key in asked], np.int64)
    for start in range(0, wanted.size, BLOCK):
        block = wanted[start : start + BLOCK]
        yield related_batch(pool, block, neighbours[block], similarities[block], negatives, seed)


class Answered(Protocol):
    """The answers of each candidate, by its position."""

    def __getitem__(self, position: int, /) -> list[tuple[str, int]]:
        """(id, votes) of each of its answers, in their order."""


class Pool(NamedTuple):
    """The candidates of a site, with an entry for each in every list: ids, heads, sides of the split and groups of
    those that are the same as numbers, and (id, votes) of their answers.
    """

    ids: list[str]
    heads: list[str]
    sides: np.ndarray
    groups: np.ndarray
    answers: Answered


def _pool(candidates: PerGroup) -> Pool:
    """The candidates of a site in memory."""
    names = ["candidate_id", "head", "split", "group", "answers.list.element.answer_id", "answers.list.element.votes"]
    rows = list(candidates.as_dicts(*names))
    sides, groups = (
        np.unique([row[name] for row in rows] or np.zeros(0, "U1"), return_inverse=True)[1]
        for name in ("split", "group")
    )
    answers = [[(answer["answer_id"], answer["votes"]) for answer in row["answers"]] for row in rows]
    return Pool([row["candidate_id"] for row in rows], [row["head"] for row in rows], sides, groups, answers)


def nearest(
    context: StageContext, pool: Pool, embedding: str | Endpoint, k: int, below: float
) -> tuple[np.ndarray, np.ndarray]:
    """(positions, similarities) of the k nearest others of each candidate, nearest first, ties by position. Only those
    of its side and not of its group count, with cosines above 0 and below `below`.

    Arrays of shape (n, k), int64 and float32, filled up with -1 and 0 where there are fewer than k. `embedding`, and
    UsageError: as for `find_related`.
    """
    from tasks.retrieval.nearest import nearest_dense, nearest_tfidf

    vectors = embedded(context, pool.heads, embedding)
    if vectors is None:
        return nearest_tfidf(pool.heads, k, below, sides=pool.sides, groups=pool.groups)
    return nearest_dense(vectors, k, below, sides=pool.sides, groups=pool.groups)


def embedded(context: StageContext, texts: list[str], embedding: str | Endpoint) -> np.ndarray | None:
    """The vectors of the texts (n, d) as float32; None for "tfidf". UsageError as for `find_related`."""
    from tasks.retrieval.dense import local_model

    if embedding == "tfidf":
        return None
    vectors = context.embed(embedding, texts) if isinstance(embedding, Endpoint) else local_model(embedding)(texts)
    return np.asarray(vectors, dtype=np.float32)


def check_embedding(embedding: str | Endpoint) -> None:
    """Raise UsageError if `embedding` names a local model and the package sentence-transformers is not installed.
    Nothing is loaded or computed.
    """
    if isinstance(embedding, str) and embedding != "tfidf" and find_spec("sentence_transformers") is None:
        raise UsageError(
            f'embedding = "{embedding}" names a sentence-transformers model, which is not installed: '
            'install the extra with `pip install -c constraints.txt -e ".[dense]"`, or use embedding = "tfidf".'
        )


def related_batch(
    pool: Pool, block: np.ndarray, neighbours: np.ndarray, similarities: np.ndarray, max_negatives: int, seed: int
) -> pa.RecordBatch:
    """The rows of RELATED for one block of questions.

    `block`: their positions in `pool`. `neighbours`, `similarities`: the rows of the block in the arrays of `nearest`,
    -1 where there is no neighbour. `max_negatives`: at most so many hard negatives for a question.
    """
    found = neighbours >= 0
    ids = [pool.ids[place] for place in block]
    drawn = [
        _negatives_of(pool, question, row[row >= 0], scores, max_negatives, seed)
        for question, row, scores in zip(ids, neighbours, similarities, strict=True)
    ]
    columns = list(zip(*chain.from_iterable(drawn), strict=True)) or [()] * len(NEGATIVE)
    negatives = [pa.array(column, field.type) for column, field in zip(columns, NEGATIVE, strict=True)]
    listed = {
        "neighbours": (found.sum(axis=1), pa.array([pool.ids[row] for row in neighbours[found]], pa.string())),
        "similarities": (found.sum(axis=1), pa.array(similarities[found], pa.float32())),
        "negatives": ([len(rows) for rows in drawn], pa.StructArray.from_arrays(negatives, fields=list(NEGATIVE))),
    }
    arrays = [_lists(sizes, values, RELATED.field(name).type) for name, (sizes, values) in listed.items()]
    return pa.RecordBatch.from_arrays([pa.array(ids, pa.string()), *arrays], schema=RELATED)


def _lists(sizes: Sequence[int] | np.ndarray, values: pa.Array, type: pa.DataType) -> pa.Array:
    """An Arrow array of lists: `values` in their order, cut into lists of these sizes. `type`: the array's type."""
    return pa.ListArray.from_arrays(pa.array(np.cumsum([0, *sizes]), pa.int32()), values, type=type)


def _negatives_of(
    pool: Pool, question: str, neighbours: np.ndarray, similarities: np.ndarray, max_negatives: int, seed: int
) -> list[tuple[str, str, int, float]]:
    """The hard negatives of one question in the order drawn: (answer id, id of the question it answers, votes,
    similarity of the two questions). At most `max_negatives`; [] if its neighbours have no answers.

    `neighbours`: positions in `pool`. `similarities`: theirs, in the same order; further entries are ignored.
    """
    answers = {
        answer: (pool.ids[position], votes, float(similarity))
        for position, similarity in zip(neighbours, similarities, strict=False)
        for answer, votes in pool.answers[position]
    }
    chosen = draw(
        {answer: fields[1] for answer, fields in answers.items()}, max_negatives, seed=seed, question_id=question
    )
    return [(answer, *answers[answer]) for answer in chosen]


def draw(votes: Mapping[str, int], n: int, *, seed: int, question_id: str) -> list[str]:
    """Ids of at most n hard negatives for a question (axiom 1), in the order they are drawn. `votes`: id of each
    candidate answer -> its votes.

    Drawn without replacement, with probability proportional to the votes; votes below 1 count as 1 (Efraimidis and
    Spirakis 2006: the n smallest waiting times, exponential with rate `votes`). The random number of a candidate is a
    hash of seed, question and candidate, so that neither the order of the candidates nor an added or removed one
    changes those of the others.
    """
    start = f"{seed}\x1f{question_id}\x1f"
    log = math.log
    times = [(-log(_uniform(start + answer)) / (count if count > 1 else 1), answer) for answer, count in votes.items()]
    return [answer for _, answer in sorted(times)[:n]]


def _uniform(text: str) -> float:
    """A number above 0 and at most 1, made of the upper 53 bits of the text's hash, as many as a float holds."""
    return ((xxh3_64_intdigest(text.encode()) >> 11) + 0.5) * 2.0**-53


@stage(PASSAGES, revision=2)
def retrieve_passages(
    context: StageContext, threads: PerGroup, candidates: PerGroup, *, passages: int, words: int
) -> Iterator[pa.RecordBatch]:
    """For each question of `threads` the passages, best first, that match its title best by BM25, cut from answers to
    other candidates of its site and its side of the split.

    `passages`: at most so many for a question. `words`: at most so many in a passage, except for code blocks and
    headings (see tasks/text/passages.py). A question without a match gets an empty list, and is counted.
    """
    titles = {row["question_id"]: row["title"] for row in threads.as_dicts("question_id", "title")}
    table, number, side_of = _passages(candidates, words)
    ids = list(titles)
    found, scores = _best(table, ids, titles, number, side_of, passages)
    context.count("questions without a passage", int(((found >= 0).sum(axis=1) == 0).sum()))
    shown = table.select(_PASSAGE_COLUMNS)
    for start in range(0, len(ids), BLOCK):
        block = slice(start, start + BLOCK)
        yield _passages_batch(ids[block], shown, found[block], scores[block])


def _best(
    table: pa.Table, ids: list[str], titles: Mapping[str, str], number: dict[str, int], side_of: dict[str, str], k: int
) -> tuple[np.ndarray, np.ndarray]:
    """(positions in `table`, BM25 scores), both (questions, k), of the best passages for each of `ids`, from other
    questions of its side; -1 where there is none. The other arguments: as `_passages` returns them.
    """
    from tasks.retrieval.bm25 import Index
    from tasks.retrieval.nearest import padded

    found, scores = padded(len(ids), k)
    sides = table["side"].to_numpy()
    for side in sorted(set(side_of.values())):
        own = np.array([place for place, key in enumerate(ids) if side_of[key] == side], np.int64)
        rows = np.flatnonzero(sides == side)
        index = Index(table["text"].take(rows).to_pylist(), table["group"].to_numpy()[rows])
        for start in range(0, own.size, BLOCK):
            some = own[start : start + BLOCK]
            asked = [ids[place] for place in some]
            places, best = index.top(
                [titles[key] for key in asked], np.array([number[key] for key in asked], np.int64), k
            )
            found[some] = np.where(places >= 0, rows[places] if rows.size else -1, -1)
            scores[some] = best
    return found, scores


def _passages(candidates: PerGroup, words: int) -> tuple[pa.Table, dict[str, int], dict[str, str]]:
    """(a table of all passages cut from the answers to the candidates, each of about `words` words; the number of each
    candidate by its id; its side). Left out are passages whose text stands on another side.

    The table has the columns of PASSAGE but the score, `side`, and `group`: the number of the candidate whose answer
    the passage is from. A passage's `question_id` and `title` are of that question, too.
    """
    from tasks.text.passages import cut

    number: dict[str, int] = {}
    side_of: dict[str, str] = {}
    columns: dict[str, list[object]] = {name: [] for name in (*_PASSAGE_COLUMNS, "side", "group")}
    names = ["candidate_id", "split", "title"]
    names += [f"answers.list.element.{name}" for name in ("answer_id", "text", "copied.list.element")]
    for thread in candidates.as_dicts(*names):
        key, side = thread["candidate_id"], thread["split"]
        number[key], side_of[key] = len(number), side
        for answer in thread["answers"]:
            for position, text in enumerate(cut(answer["text"], words=words)):
                if position not in answer["copied"]:
                    row = (f"{answer['answer_id']}#{position}", answer["answer_id"], key, thread["title"], text)
                    for name, value in zip(columns, (*row, side, number[key]), strict=True):
                        columns[name].append(value)
    return pa.table({**columns, "group": pa.array(columns["group"], pa.int64())}), number, side_of


_PASSAGE_COLUMNS = ("passage_id", "answer_id", "question_id", "title", "text")


def _passages_batch(ids: list[str], table: pa.Table, found: np.ndarray, scores: np.ndarray) -> pa.RecordBatch:
    """The rows of PASSAGES for the questions `ids`; a question without a hit has an empty list. `table`: all passages
    of the site. `found`, `scores`: positions in `table` and BM25 scores, both of shape (questions, k), -1 in `found`
    where there is no hit.
    """
    hits = found >= 0
    rows = table.take(pa.array(found[hits])).combine_chunks()
    arrays = [rows.column(name).combine_chunks() for name in _PASSAGE_COLUMNS]
    arrays.append(pa.array(scores[hits], pa.float32()))
    passages = pa.StructArray.from_arrays(arrays, fields=list(PASSAGE))
    listed = _lists(hits.sum(axis=1), passages, PASSAGES.field("passages").type)
    return pa.RecordBatch.from_arrays([pa.array(ids), listed], schema=PASSAGES)
