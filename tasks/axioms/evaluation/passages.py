"""Queries of MS MARCO's dev set as passages to rank: those that people labelled, and the best by BM25 that nobody did.

What has no label is unknown, not wrong: a hard negative here may answer the query after all, as in the paper.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa

from longform.artifacts.rows import Rows, grouped, read_parquet
from longform.engine.stage import AtMost, PerGroup, Rejected, Row, StageContext, stage
from schemas.axioms.evaluation import RANKING
from tasks.axioms.evaluation.ranking import ranked, ranking_row
from tasks.sources.released.msmarco import GROUP

MSMARCO = "msmarco"
DEV = ("dev.small", "dev")  # the first that the files hold
OF_PASSAGE = ["passage_id", "text", "licence", "url"]
BATCH = 20_000
SHOWN_AT_ONCE = 200_000


@stage(RANKING, revision=1, split_by="split", at_most=AtMost(rows=lambda sizes: float(sizes["queries"])))
def rank_passages(
    context: StageContext, queries: PerGroup, qrels: PerGroup, passages: PerGroup, *, negatives: int
) -> Iterator[Row | Rejected]:
    """Each query of dev.small (of dev, where no file is that) with the passages labelled relevant to it, and the
    `negatives` best by BM25 that have no label; a Rejected for a query without a relevant passage in the collection.

    Queries of other splits are only counted. Memory: what `top_streamed` holds, and SHOWN_AT_ONCE passages.
    """
    from tasks.retrieval.streamed import top_streamed

    asked = _dev(context, queries)
    labels = _labels(qrels, {row["query_id"] for row in asked})
    most = max((len(of) for of in labels.values()), default=0)
    found, _ = top_streamed([row["text"] for row in asked], lambda: _texts(passages), negatives + most)
    labelled = _labelled(passages, {name for of in labels.values() for name in of})
    step = max(1, SHOWN_AT_ONCE // max(negatives + most, 1))
    for start in range(0, len(asked), step):
        some = found[start : start + step]
        texts = _at(passages, np.unique(some[some >= 0]))
        for row, places in zip(asked[start : start + step], some.tolist(), strict=True):
            best = [texts[place] for place in places if place >= 0]
            yield _row(row, labels[row["query_id"]], labelled, best, negatives)


def _dev(context: StageContext, queries: Rows) -> list[Row]:
    """The queries of the dev set, in their order."""
    splits = {split for row in queries.as_dicts("splits") for split in row["splits"]}
    wanted = next((split for split in DEV if split in splits), None)
    asked = [row for row in queries if wanted in row["splits"]]
    context.count("queries of other splits", queries.count - len(asked))
    return asked


def _labels(qrels: Rows, asked: set[str]) -> dict[str, dict[str, int]]:
    """query id -> passage id -> relevance, of these queries."""
    names = ("query_id", "passage_id", "relevance")
    found = grouped((row for row in qrels.as_dicts(*names) if row["query_id"] in asked), "query_id")
    return {key: {row["passage_id"]: row["relevance"] for row in found[key]} for key in asked}


def _texts(passages: Rows) -> Iterator[list[str]]:
    """The texts of the collection in batches."""
    for batch in passages.batches(["text"], size=BATCH):
        yield batch.column("text").to_pylist()


def _at(passages: Rows, places: np.ndarray) -> dict[int, Row]:
    """position in the collection -> the passage there. `places`: sorted, each once."""
    start, found = 0, dict[int, Row]()
    for batch in passages.batches(OF_PASSAGE, size=BATCH):
        own = places[np.searchsorted(places, start) : np.searchsorted(places, start + batch.num_rows)]
        found |= zip(own.tolist(), batch.take(pa.array(own - start)).to_pylist(), strict=True)
        start += batch.num_rows
    return found


def _labelled(passages: Rows, ids: set[str]) -> dict[str, Row]:
    """id -> the passage, of those that the collection has."""
    if not passages.paths:
        return {}
    wanted = pa.table({"passage_id": pa.array(sorted(ids), pa.string())})
    with duckdb.connect(config={"memory_limit": "512MB", "threads": 1}) as database:
        database.register("wanted", wanted)
        query = f"FROM {read_parquet(passages.paths)} SEMI JOIN wanted USING (passage_id)"
        rows = database.sql(f"SELECT {', '.join(OF_PASSAGE)} {query}").to_arrow_reader()
        return {row["passage_id"]: row for batch in rows for row in batch.to_pylist()}


def _row(query: Row, labels: dict[str, int], labelled: dict[str, Row], best: list[Row], most: int) -> Row | Rejected:
    """The row of RANKING of a query. `labels`: passage id -> relevance; `labelled`: passage id -> passage; `best`: by
    BM25, of which the first `most` without a label are taken. A passage that was judged irrelevant is none of them.
    """
    key = query["query_id"]
    relevant = [name for name, relevance in labels.items() if relevance > 0 and name in labelled]
    if not relevant:
        return Rejected(key, "filtered", "no relevant passage in the collection")
    others = [passage for passage in best if passage["passage_id"] not in labels][:most]
    shown = [(labelled[name], float(labels[name])) for name in relevant] + [(passage, 0.0) for passage in others]
    return ranking_row(
        MSMARCO,
        key,
        query["text"],
        [_passage(passage, gain) for passage, gain in shown],
        author=None,
        site=GROUP,
        **{name: query[name] for name in ("url", "licence", "retrieved_at")},
    )


def _passage(passage: Row, gain: float) -> Row:
    """A row of RANKED."""
    answer = {"answer_id": passage["passage_id"], "text": passage["text"], "votes": None}
    shown = {"author": None, "url": passage["url"], "licence": passage["licence"]}
    return ranked(answer, "passage", gain, **shown) | {"negative": gain == 0}
