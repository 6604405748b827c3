"""Which questions are the same: one table, by which questions are divided into splits, and in which no question is a
negative of another.

    declared         the site itself closed one as a duplicate of the other
    near-duplicate   they share so many word 3-grams
    paraphrase       they are as similar as the bound of axiom 1, or more
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa

from longform.engine.at_most import embedding_calls, unbounded
from longform.engine.stage import AllRows, AtMost, PerGroup, Rejected, Row, Rows, StageContext, stage
from longform.llm.ask.tokens import TOKENS_A_REQUEST
from longform.llm.ask.types import Endpoint
from schemas.axioms import PARAPHRASES, SAME, SIGNATURES
from tasks.axioms.questions import share
from tasks.axioms.related import embedded

HEAD_CHARACTERS = 400
REASONS = ("declared", "near-duplicate", "paraphrase")


@stage(SIGNATURES, revision=2)
def sign_questions(
    context: StageContext, threads: Rows, kept: Rows, *, others: int
) -> Iterator[pa.RecordBatch | Rejected]:
    """For each question whose answers may be shown, what tells which others it is the same as: when it was asked, its
    head, and the hashes of the word 3-grams of title and text.

    These are the questions that are `kept` and, of the others with an answer, at most `others` of a site: the first in
    the order of each part. A Rejected for each other question.
    """
    from tasks.text.copies.shingles import shingle_hashes

    ids = set(kept.table(["question_id"])["question_id"].to_pylist())
    remaining = share(others, threads.parts[0].key if threads.parts else "-/0-00000")
    for batch in threads.batches(["question_id", "created", "title", "text", "answers.list.element.answer_id"]):
        rows = []
        for thread in batch.to_pylist():
            key = thread["question_id"]
            if key not in ids and (not thread["answers"] or remaining <= 0):
                why = "over the cap of its site" if thread["answers"] else "without an answer to show"
                yield Rejected(key, "filtered", why)
                continue
            remaining -= key not in ids
            hashes = shingle_hashes(f"{thread['title']}\n{thread['text']}", 3)
            rows.append((key, thread["created"], head(thread["title"], thread["text"]), hashes))
        columns = zip(*rows, strict=True) if rows else [()] * len(SIGNATURES)
        arrays = [pa.array(list(column), field.type) for column, field in zip(columns, SIGNATURES, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=SIGNATURES)


def head(title: str, text: str) -> str:
    """The text by which similar questions are found: the title and the first HEAD_CHARACTERS of the text."""
    return f"{title}\n{text[:HEAD_CHARACTERS]}"


@stage(
    PARAPHRASES,
    revision=1,
    at_most=AtMost(
        rows=unbounded,
        calls=lambda sizes: embedding_calls(sizes["signatures"], sizes.units),
        tokens=lambda sizes: 4 * sizes.bytes + (4 * HEAD_CHARACTERS + TOKENS_A_REQUEST) * sizes["signatures"],
    ),
)
def find_paraphrases(
    context: StageContext, signatures: PerGroup, *, embedding: str | Endpoint, at_least: float
) -> Iterator[Row]:
    """Every two questions of a site whose heads have a cosine similarity of `at_least` or more; `embedding` as for
    `find_related`.
    """
    from tasks.retrieval.nearest import pairs_dense, pairs_tfidf

    table = signatures.table(["question_id", "head"])
    ids, texts = (table[name].to_pylist() for name in table.column_names)
    vectors = embedded(context, texts, embedding)
    pairs = pairs_tfidf(texts, at_least) if vectors is None else pairs_dense(vectors, at_least)
    for first, other, score in sorted(pairs):
        names = {"question_id": ids[first], "other_id": ids[other]}
        yield {"paraphrase_id": f"{ids[first]} {ids[other]}", **names, "similarity": score}


@stage(SAME, revision=1, at_most=AtMost(rows=unbounded))
def find_same(
    context: StageContext,
    signatures: AllRows,
    paraphrases: AllRows,
    duplicates: AllRows,
    *,
    similarity: float,
    sites: list[str],
) -> Iterator[Row]:
    """A row for every two questions that are the same, with all reasons why, in the order of `signatures`.

    `similarity`: Jaccard similarity of the 3-grams from which two questions, of whatever sites, are near-duplicates.
    `duplicates`: what sites declare duplicates, directly or by others, which need not be in the table.
    `sites`: in which order they count as earlier.
    """
    from tasks.text.copies.duplicates import near_duplicates

    table = signatures.table(["question_id", "created", "shingles"])
    ids = table["question_id"].to_pylist()
    place_of = {key: place for place, key in enumerate(ids)}
    rank = ranks(ids, table["created"].to_pylist(), sites)
    found: dict[tuple[int, int], tuple[set[str], float | None]] = {}

    def add(one: int, other: int, reason: str, score: float | None = None) -> None:
        pair = (one, other) if rank[one] > rank[other] else (other, one)
        reasons, known = found.get(pair, (set(), None))
        found[pair] = reasons | {reason}, known if score is None else score

    for one, other in near_duplicates([row.values.to_numpy() for row in table["shingles"]], similarity):
        add(one, other, "near-duplicate")
    for row in paraphrases:
        add(place_of[row["question_id"]], place_of[row["other_id"]], "paraphrase", row["similarity"])
    for alike in _declared(duplicates):
        there = sorted((place_of[key] for key in alike if key in place_of), key=rank.__getitem__)
        for one in there[1:]:
            add(one, there[0], "declared")
    for (later, earlier), (reasons, score) in sorted(found.items(), key=lambda item: (item[0][0], ids[item[0][1]])):
        yield {
            "same_id": f"{ids[later]} {ids[earlier]}",
            "question_id": ids[later],
            "same_as": ids[earlier],
            "reasons": [reason for reason in REASONS if reason in reasons],
            "similarity": score,
        }


def _declared(duplicates: Rows) -> list[list[str]]:
    """The questions that sites declare duplicates of each other, directly or by others, together."""
    ends = [(row["question_id"], row["duplicate_of"]) for row in duplicates.as_dicts("question_id", "duplicate_of")]
    place_of = {key: place for place, key in enumerate(dict.fromkeys(key for pair in ends for key in pair))}
    found: dict[int, list[str]] = {}
    together = groups(len(place_of), ((place_of[one], place_of[other]) for one, other in ends)).tolist()
    for key, group in zip(place_of, together, strict=True):
        found.setdefault(group, []).append(key)
    return list(found.values())


def site_of(key: str) -> str:
    """The site of a post id, `<site>/<number>`."""
    return key.partition("/")[0]


def ranks(ids: Sequence[str], created: Sequence[datetime], sites: Sequence[str]) -> np.ndarray:
    """The rank of each question, 0 for the earliest: by the place of its site in `sites`, creation date and id."""
    place = {site: number for number, site in enumerate(sites)}
    order = sorted(range(len(ids)), key=lambda at: (place[site_of(ids[at])], created[at], ids[at]))
    found = np.empty(len(ids), np.int64)
    found[order] = np.arange(len(ids))
    return found


def groups(size: int, pairs: Iterable[tuple[int, int]]) -> np.ndarray:
    """A number for each of so many questions, equal for those that `pairs` join, directly or by others."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ends = np.array(list(pairs), np.int64).reshape(-1, 2).T
    joined = coo_array((np.ones(ends.shape[1], np.int8), (ends[0], ends[1])), shape=(size, size))
    return np.asarray(connected_components(joined, directed=False)[1])
