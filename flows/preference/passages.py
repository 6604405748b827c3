"""Axiom 4: queries of MS MARCO, passages that are relevant to them, and passages that are not."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from flows.config.inputs import listed
from flows.preference.community import ALL_SAMPLES, CommunitySettings
from longform.artifacts.rows import Rows
from longform.engine.stage import Builder
from tasks.axioms.evaluation.passages import rank_passages
from tasks.axioms.grounding.queries import select_queries
from tasks.axioms.grounding.retrieved import retrieve_candidates
from tasks.axioms.grounding.shown import choose_passages
from tasks.text.scrub import REGIONS

MSMARCO = [str(ALL_SAMPLES / name) for name in ("msmarco", "msmarco_train")]
TERMS = {
    "undecided": (
        "Queries and passages of the site msmarco have the terms of MS MARCO, non-commercial research only: whoever "
        "built this version did not state that this use fits them (docs/data-policy.md)."
    ),
    "non-commercial": (
        "Queries and passages of the site msmarco have the terms of MS MARCO, non-commercial research only: whoever "
        "built this version decided that this use fits them, and whoever passes it on has to decide the same."
    ),
}


class PassageSettings(CommunitySettings):
    """Settings of MS MARCO."""

    msmarco: str | list[str] = Field(
        MSMARCO,
        description="axiom 4, evaluation: MS MARCO's collection, queries and qrels, files or folders; [] for none",
    )
    msmarco_terms: Literal["undecided", "non-commercial"] = Field(
        "undecided",
        description="MS MARCO is for non-commercial research: say so if your use is that; see docs/data-policy.md",
    )
    msmarco_retrieval: Literal["bm25", "tantivy"] = Field(
        "bm25", description="axiom 4: how passages are found: bm25, in memory, or tantivy, for the whole collection"
    )
    msmarco_queries: int = Field(48_800, ge=1, description="axiom 4: at most this many queries with a labelled passage")
    msmarco_depth: int = Field(1_000, ge=2, le=10_000, description="axiom 4: passages looked at for a query")
    msmarco_k: int = Field(5, ge=2, le=50, description="axiom 4: P+ are the best so many, and the labelled passages")
    msmarco_below: float = Field(
        0.7, gt=0, le=1, description="axiom 4: P- are passages with less than this share of the query's best score"
    )
    msmarco_irrelevant: int = Field(5, ge=2, le=50, description="axiom 4: passages in P-")
    msmarco_negatives: int = Field(1_000, ge=1, description="evaluation: passages without a label a query, at most")


def passages_of_queries(builder: Builder, config: PassageSettings, marco: list[Rows], texts: Rows) -> Rows:
    """Queries of MS MARCO with passages that are relevant to them, and passages that are not (axiom 4). `marco`: its
    four tables; `texts`: of the community sites, with their sides.
    """
    passages, _, all_queries, qrels = marco
    regions = list(REGIONS) if config.scrub else []
    queries = select_queries(
        builder,
        all_queries,
        qrels,
        most=config.msmarco_queries,
        similarity=config.duplicate_similarity,
        test_share=config.test_share,
        regions=regions,
        seed=config.seed,
        split_seed=config.split_seed,
    )
    found = retrieve_candidates(
        builder,
        queries,
        passages,
        backend=config.msmarco_retrieval,
        depth=config.msmarco_depth,
        best=config.msmarco_k,
        far=config.msmarco_irrelevant,
        below=config.msmarco_below,
        seed=config.seed,
    )
    return choose_passages(
        builder,
        queries,
        found,
        passages,
        qrels,
        texts,
        k=config.msmarco_k,
        irrelevant=config.msmarco_irrelevant,
        similarity=config.duplicate_similarity,
        regions=regions,
    )


def passages_to_rank(builder: Builder, config: PassageSettings, marco: list[Rows]) -> Rows:
    """Queries of MS MARCO as passages to rank. `marco`: its four tables."""
    passages, _, queries, qrels = marco
    return rank_passages(builder, queries, qrels, passages, negatives=config.msmarco_negatives)


def msmarco_terms(config: PassageSettings) -> list[str]:
    """What the card says of the terms of MS MARCO; [] if no file of it is named."""
    return [TERMS[config.msmarco_terms]] if listed(config.msmarco) else []
