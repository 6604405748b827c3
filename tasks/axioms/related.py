"""Related questions and hard negatives (axiom 1), and evidence passages from other threads (axiom 2)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain

import numpy as np
import pyarrow as pa
from xxhash import xxh3_64_intdigest

from longform.engine.at_most import embedding_calls
from longform.engine.stage import AtMost, PerGroup, Rejected, StageContext, stage
from longform.errors import UsageError
from longform.llm.ask.tokens import TOKENS_A_REQUEST
from longform.llm.ask.types import Endpoint
from schemas.axioms import NEGATIVE, PASSAGE, PASSAGES, RELATED

QUESTION_CHARACTERS = 400
BLOCK = 5_000


@stage(
    RELATED,
    revision=1,
    at_most=AtMost(
        calls=lambda sizes: embedding_calls(sizes["threads"], sizes.units),
        tokens=lambda sizes: 4 * sizes.bytes + (4 * QUESTION_CHARACTERS + TOKENS_A_REQUEST) * sizes["threads"],
    ),
)
def find_related(
    context: StageContext,
    threads: PerGroup,
    *,
    embedding: str | Endpoint,
    k: int,
    below: float,
    negatives: int,
    seed: int,
) -> Iterator[pa.RecordBatch]:
    """For each question the k nearest questions of its site that are no paraphrases of it, and hard negatives drawn
    from the answers to these. Both lists may be shorter or empty.

    Nearest by cosine of the embeddings of title and first QUESTION_CHARACTERS of the text. `embedding`: "tfidf" for
    TF-IDF vectors, else the name of a local sentence-transformers model, or an endpoint. Questions with a similarity
    of `below` or more are paraphrases; those with 0 or less are not related. At most `negatives` answers are drawn by
    `seed`, without replacement, with probability proportional to votes (below 1: as 1). UsageError for a local model
    that is not installed or cannot be loaded.
    """
    ids, texts, answers = _questions(threads)
    neighbours, similarities = nearest(context, texts, embedding, k, below)
    for start in range(0, len(ids), BLOCK):
        block = slice(start, start + BLOCK)
        yield _related_batch(ids, answers, block, neighbours[block], similarities[block], negatives, seed)


def nearest(
    context: StageContext, texts: list[str], embedding: str | Endpoint, k: int, below: float
) -> tuple[np.ndarray, np.ndarray]:
    """(positions, similarities) of the k nearest other texts of each text, nearest first, ties by position. Only
    cosines above 0 and below `below` count.

    Arrays of shape (n, k), int64 and float32, filled up with -1 and 0 where there are fewer than k. `embedding`, and
    UsageError: as for `find_related`.
    """
    from tasks.retrieval.dense import local_model
    from tasks.retrieval.nearest import nearest_dense, nearest_tfidf

    if embedding == "tfidf":
        return nearest_tfidf(texts, k, below)
    vectors = context.embed(embedding, texts) if isinstance(embedding, Endpoint) else local_model(embedding)(texts)
    return nearest_dense(np.asarray(vectors, dtype=np.float32), k, below)


def check_embedding(embedding: str | Endpoint) -> None:
    """Raise UsageError if `embedding` names a local model and the package sentence-transformers is not installed.
    Nothing is loaded or computed.
    """
    if isinstance(embedding, str) and embedding != "tfidf" and find_spec("sentence_transformers") is None:
        raise UsageError(
            f'embedding = "{embedding}" names a sentence-transformers model, which is not installed: '
            'install the extra with `pip install -c constraints.txt -e ".[dense]"`, or use embedding = "tfidf".'
        )


def _questions(threads: PerGroup) -> tuple[list[str], list[str], list[list[tuple[str, int]]]]:
    """Three lists with an entry for each question of a site: its id, the text to embed (title and first
    QUESTION_CHARACTERS of the text), and the (answer id, votes) of its answers.
    """
    ids: list[str] = []
    texts: list[str] = []
    answers: list[list[tuple[str, int]]] = []
    columns = ("question_id", "title", "text", "answers.list.element.answer_id", "answers.list.element.votes")
    for thread in threads.as_dicts(*columns):
        ids.append(thread["question_id"])
        texts.append(f"{thread['title']}\n{thread['text'][:QUESTION_CHARACTERS]}")
        answers.append([(answer["answer_id"], answer["votes"]) for answer in thread["answers"]])
    return ids, texts, answers


def _related_batch(
    ids: list[str],
    answers: list[list[tuple[str, int]]],
    block: slice,
    neighbours: np.ndarray,
    similarities: np.ndarray,
    max_negatives: int,
    seed: int,
) -> pa.RecordBatch:
    """The rows of RELATED for one block of questions.

    `ids`, `answers`: of all questions of the site. `block`: the positions of the block in `ids`. `neighbours`,
    `similarities`: the rows of the block in the arrays of `nearest`, -1 where there is no neighbour. `max_negatives`:
    at most so many hard negatives for a question.
    """
    found = neighbours >= 0
    drawn = [
        _negatives_of(ids, answers, question, row[row >= 0], scores, max_negatives, seed)
        for question, row, scores in zip(ids[block], neighbours, similarities, strict=True)
    ]
    columns = list(zip(*chain.from_iterable(drawn), strict=True)) or [()] * len(NEGATIVE)
    negatives = [pa.array(column, field.type) for column, field in zip(columns, NEGATIVE, strict=True)]
    listed = {
        "neighbours": (found.sum(axis=1), pa.array([ids[row] for row in neighbours[found]], pa.string())),
        "similarities": (found.sum(axis=1), pa.array(similarities[found], pa.float32())),
        "negatives": ([len(rows) for rows in drawn], pa.StructArray.from_arrays(negatives, fields=list(NEGATIVE))),
    }
    arrays = [_lists(sizes, values, RELATED.field(name).type) for name, (sizes, values) in listed.items()]
    return pa.RecordBatch.from_arrays([pa.array(ids[block]), *arrays], schema=RELATED)


def _lists(sizes: Sequence[int] | np.ndarray, values: pa.Array, type: pa.DataType) -> pa.Array:
    """An Arrow array of lists: `values` in their order, cut into lists of these sizes. `type`: the array's type."""
    return pa.ListArray.from_arrays(pa.array(np.cumsum([0, *sizes]), pa.int32()), values, type=type)


def _negatives_of(
    ids: list[str],
    answers: list[list[tuple[str, int]]],
    question: str,
    neighbours: np.ndarray,
    similarities: np.ndarray,
    max_negatives: int,
    seed: int,
) -> list[tuple[str, str, int, float]]:
    """The hard negatives of one question in the order drawn: (answer id, id of the question it answers, votes,
    similarity of the two questions). At most `max_negatives`; [] if its neighbours have no answers.

    `ids`, `answers`: of all questions of the site. `question`: the question's id. `neighbours`: positions of its
    neighbours in `ids`. `similarities`: theirs, in the same order; further entries are ignored.
    """
    pool = {
        answer: (ids[position], votes, float(similarity))
        for position, similarity in zip(neighbours, similarities, strict=False)
        for answer, votes in answers[position]
    }
    chosen = draw(
        {answer: fields[1] for answer, fields in pool.items()}, max_negatives, seed=seed, question_id=question
    )
    return [(answer, *pool[answer]) for answer in chosen]


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


@stage(PASSAGES, revision=1)
def retrieve_passages(
    context: StageContext, threads: PerGroup, *, passages: int, words: int
) -> Iterator[pa.RecordBatch | Rejected]:
    """For each question the passages, best first, that match its title best by BM25, cut from answers of other threads
    of its site.

    `passages`: at most so many for a question. `words`: at most so many in a passage, except for code blocks and
    headings (see tasks/text/passages.py). A question without a match gets an empty list, and is counted.
    """
    from tasks.retrieval.bm25 import Index

    titles, table = _passages(threads, words)
    groups = np.asarray(table.column("group").to_numpy(), dtype=np.int64)
    index = Index(table.column("text").to_pylist(), groups)
    ids = [question for question, _ in titles]
    table = table.drop_columns(["group"])
    for start in range(0, len(ids), BLOCK):
        own = np.arange(start, min(start + BLOCK, len(ids)), dtype=np.int64)
        found, scores = index.top([titles[place][1] for place in own], own, passages)
        yield _passages_batch([ids[place] for place in own], table, found, scores)
        unmatched = own[(found >= 0).sum(axis=1) == 0]
        context.count("questions without a passage", len(unmatched))


def _passages(threads: PerGroup, words: int) -> tuple[list[tuple[str, str]], pa.Table]:
    """((id, title) of each question of the site, a table of all passages cut from the answers, each of about `words`
    words).

    The table has the columns of PASSAGE but the score, and `group`: the position, in that list, of the question whose
    answer the passage is from. A passage's `question_id` and `title` are of that question, too.
    """
    from tasks.text.passages import cut

    titles: list[tuple[str, str]] = []
    columns: dict[str, list[object]] = {name: [] for name in (*_PASSAGE_COLUMNS, "group")}
    names = ["question_id", "title", "answers.list.element.answer_id", "answers.list.element.text"]
    for batch in threads.batches(names):
        for thread in batch.to_pylist():
            for answer in thread["answers"]:
                for position, text in enumerate(cut(answer["text"], words=words)):
                    row = (f"{answer['answer_id']}#{position}", answer["answer_id"], thread["question_id"])
                    for name, value in zip(columns, (*row, thread["title"], text, len(titles)), strict=True):
                        columns[name].append(value)
            titles.append((thread["question_id"], thread["title"]))
    return titles, pa.table({**columns, "group": pa.array(columns["group"], pa.int64())})


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
