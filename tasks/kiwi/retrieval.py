"""The passages of a question's papers that are nearest to a query: by words, by embeddings, or by both (KIWI, 2.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

import numpy as np

from longform.artifacts.rows import Row
from longform.errors import UsageError
from longform.llm.ask.types import Endpoint
from tasks.retrieval.bm25 import Index
from tasks.retrieval.dense import DECIMALS, Embed, check_local_models, local_model, unit
from tasks.retrieval.hits import DEPTH, Hit, best, fuse

Kind = Literal["bm25", "dense", "hybrid"]
Search = Callable[[str, int], list[Row]]  # query, k -> passages, best first
SHOWN = 5  # passages of an answer, and of a turn


class Embeds(Protocol):
    """What asks an endpoint for vectors: the context of a stage, or the page."""

    def embed(self, endpoint: Endpoint, texts: list[str], /) -> list[list[float]]: ...


def check_retrieval(kind: Kind, embedding: str | Endpoint | None) -> None:
    """Raise UsageError if embeddings are needed and no model is named, or one that cannot be had."""
    if kind != "bm25" and embedding is None:
        raise UsageError(
            f"retrieval = {kind} needs an embedding: an endpoint, or a sentence-transformers model such as "
            "facebook/contriever-msmarco (extra `dense`); or set retrieval = bm25."
        )
    if kind != "bm25" and isinstance(embedding, str):
        check_local_models(embedding)


def embedder(context: Embeds, embedding: str | Endpoint | None) -> Embed | None:
    """The function that embeds texts, by an endpoint or a local model; None without one."""
    if embedding is None:
        return None
    return local_model(embedding) if isinstance(embedding, str) else lambda texts: context.embed(embedding, texts)


def searching(kind: Kind, passages: list[Row], embed: Embed | None) -> Search:
    """The search of a question's passages (rows of PASSAGES). By words BM25, whose statistics are of these passages;
    dense by the cosine of embeddings, all compared; hybrid by the ranks of both. Ties by passage_id.
    """
    rows = sorted(passages, key=lambda row: row["passage_id"])
    texts, by_id = [f"{row['title']}\n{row['text']}" for row in rows], {row["passage_id"]: row for row in rows}
    ways = [_by_words(texts, list(by_id))] if kind != "dense" else []
    ways += [_by_vectors(texts, list(by_id), embed)] if kind != "bm25" and embed else []

    def search(query: str, k: int) -> list[Row]:
        ranked = [way(query, max(k, DEPTH)) for way in ways]
        return [by_id[hit.passage_id] for hit in (ranked[0][:k] if len(ranked) == 1 else fuse(ranked, k))]

    return search


def _by_words(texts: list[str], ids: list[str]) -> Callable[[str, int], list[Hit]]:
    index = Index(texts, np.zeros(len(texts), np.int64)) if texts else None

    def ranked(query: str, k: int) -> list[Hit]:
        if index is None:
            return []
        places, scores = index.top([query], np.array([-1]), min(k, len(ids)))
        pairs = zip(places[0].tolist(), scores[0].tolist(), strict=True)
        return [Hit(ids[place], score) for place, score in pairs if place >= 0]

    return ranked


def _by_vectors(texts: list[str], ids: list[str], embed: Embed) -> Callable[[str, int], list[Hit]]:
    raw = embed(texts) if texts else []
    vectors = unit(raw, len(raw[0])) if len(raw) else None

    def ranked(query: str, k: int) -> list[Hit]:
        if vectors is None:
            return []
        asked = unit(embed([query]), vectors.shape[1]).astype(np.float64)[0]
        scores = (vectors.astype(np.float64) @ asked).round(DECIMALS)
        return best(dict(zip(ids, scores.tolist(), strict=True)), k)

    return ranked
