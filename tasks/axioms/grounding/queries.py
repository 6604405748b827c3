"""The queries of MS MARCO that axiom 4 asks: those with a labelled passage, on the two sides of the split."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from heapq import nsmallest

from xxhash import xxh3_64_intdigest

from longform.artifacts.rows import Rejected, Row, Rows
from longform.engine.stage import AtMost, PerGroup, StageContext, stage
from schemas.axioms.grounding import SELECTED
from tasks.axioms.sealed.splits import split_by_hash

TRAIN, UNNAMED = "train", "all"  # splits by the names of files; `all`: the name tells none


@stage(SELECTED, revision=1, at_most=AtMost(rows=lambda sizes: float(min(sizes["queries"], sizes["most"]))))
def select_queries(
    context: StageContext,
    queries: PerGroup,
    qrels: PerGroup,
    *,
    most: int,
    similarity: float,
    test_share: float,
    regions: list[str],
    seed: int,
    split_seed: int,
) -> Iterator[Row | Rejected]:
    """The queries with a passage that people found relevant, at most `most` of them: those with the lowest hashes of
    `seed` and id. A Rejected for each other query, and for one that is nearly one of train and one of test.

    Of queries of train files the share `test_share` is test, by a hash of `split_seed` and id; those of dev and eval
    files are all test, and so are all others where there are train files. Queries that share `similarity` of their word
    3-grams are on one side. `regions`: as for `scrub`; nothing is scrubbed without one.
    """
    labelled = _labelled(qrels) & {row["query_id"] for row in queries.as_dicts("query_id")}
    kept = set(lowest(labelled, most, seed))
    labels = _labels(qrels, kept)
    asked = [row for row in queries if row["query_id"] in kept]
    training = _training(queries)
    trained = {row["query_id"] for row in asked if training >= set(row["splits"])}
    texts = {row["query_id"]: _scrubbed(row["text"], regions) for row in asked}
    order = sorted(texts, key=lambda key: (key in trained, _hash(seed, key), key))
    sides = assign(order, [texts[key][0] for key in order], trained, similarity, test_share, split_seed)
    for row in queries.as_dicts("query_id", "licence", "retrieved_at"):
        key = row.pop("query_id")
        if key not in kept:
            yield Rejected(key, "filtered", "over the cap" if key in labelled else "no passage was found relevant")
        elif sides[key] is None:
            yield Rejected(key, "filtered", "nearly a query of train and one of test")
        else:
            text, marks = texts[key]
            shown = {"text": text, "scrubbed": marks, "split": sides[key], "labelled": labels[key]}
            yield {"question_id": key, **shown, **row}


def held_out(qrels: Rows) -> set[str]:
    """The passages that are labelled for a query of another file than those for training, such as dev and eval."""
    training = _training(qrels)
    rows = qrels.as_dicts("passage_id", "relevance", "splits")
    return {row["passage_id"] for row in rows if row["relevance"] > 0 and not training >= set(row["splits"])}


def _training(rows: Rows) -> set[str]:
    """The splits of files that are for training: train, or, where no file is called that, files that name none."""
    named = {split for row in rows.as_dicts("splits") for split in row["splits"]}
    return {TRAIN if TRAIN in named else UNNAMED}


def lowest(ids: Collection[str], most: int, seed: int) -> list[str]:
    """At most `most` of the ids: those with the lowest hashes of seed and id, so that more of them hold fewer."""
    return nsmallest(most, ids, key=lambda key: (_hash(seed, key), key))


def assign(
    ids: Sequence[str],
    texts: Sequence[str],
    trained: Collection[str],
    similarity: float,
    test_share: float,
    seed: int,
) -> dict[str, str | None]:
    """id -> train, test, or None for a query that is nearly the same as one of train and one of test.

    In the order of `ids`, a query takes the side of those before it that are nearly the same (`similarity` or more of
    the word 3-grams of both); without one it is test unless it is in `trained`, of which the share `test_share` is
    test, by a hash of seed and id. Queries that are not in `trained` come first, so that they are all test.
    """
    from tasks.text.copies.duplicates import near_duplicates
    from tasks.text.copies.shingles import shingle_hashes

    earlier: defaultdict[int, list[int]] = defaultdict(list)
    for first, later in near_duplicates([shingle_hashes(text) for text in texts], similarity):
        earlier[later].append(first)
    sides: dict[str, str | None] = {}
    for place, key in enumerate(ids):
        found = {sides[ids[other]] for other in earlier[place]} if key in trained else {"test"}
        if not found:
            sides[key] = split_by_hash(key, test_share, seed)
        else:
            sides[key] = next(iter(found)) if len(found) == 1 else None
    return sides


def _hash(seed: int, key: str) -> int:
    return xxh3_64_intdigest(f"{seed}\x1fquery\x1f{key}".encode())


def _labelled(qrels: Rows) -> set[str]:
    """The queries with a relevant passage."""
    return {row["query_id"] for row in qrels.as_dicts("query_id", "relevance") if row["relevance"] > 0}


def _labels(qrels: Rows, queries: Collection[str]) -> dict[str, list[str]]:
    """query id -> its relevant passages, the most relevant first, then by id."""
    found: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for row in qrels.as_dicts("query_id", "passage_id", "relevance"):
        if row["relevance"] > 0 and row["query_id"] in queries:
            found[row["query_id"]].append((-row["relevance"], row["passage_id"]))
    return {key: [passage for _, passage in sorted(own)] for key, own in found.items()}


def _scrubbed(text: str, regions: Sequence[str]) -> tuple[str, int]:
    """(the text, how many marks were put into it)."""
    from tasks.text.scrub import scrub

    if not regions:
        return text, 0
    found = scrub(text, regions)
    return found.text, found.marks
