"""Two pairs of each pair type with their texts, for a version's report. Each text of a post names author, licence and
address, as its licence demands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import duckdb

from longform.artifacts.rows import Row, Rows, read_parquet
from tasks.axioms.paper_tables import AXIOMS
from tasks.publishing.card import Example, Passage

EACH = 2


def examples(pairs: Rows, attribution: Rows) -> list[Example]:
    """At most two pairs of each pair type, by axiom: those with the lowest ids, of two questions where there are two,
    and of train where it has such pairs. `pairs`: the published ones; `attribution`: of all posts, for passages.
    """
    if not pairs.paths:
        return []
    with duckdb.connect(config={"memory_limit": "512MB", "threads": 2}) as database:
        files = read_parquet(pairs.paths)
        chosen = database.sql(f"""
            WITH numbered AS (
                SELECT pair_id, pair_type, split,
                       row_number() OVER (PARTITION BY pair_type, question_id ORDER BY pair_id) AS of_question
                FROM {files}
            ),
            first AS (
                SELECT pair_id FROM numbered QUALIFY row_number() OVER (
                    PARTITION BY pair_type ORDER BY split <> 'train', of_question, pair_id
                ) <= {EACH}
            )
            FROM {files} SEMI JOIN first USING (pair_id) ORDER BY axiom, pair_type, split <> 'train', pair_id
        """)
        rows = [row for batch in chosen.to_arrow_reader() for row in batch.to_pylist()]
        posts = sorted({_post_of(passage) for row in rows for passage in row["evidence_ids"]})
        query = f"SELECT * FROM {read_parquet(attribution.paths)} WHERE post_id IN (SELECT unnest(?))"
        found = database.sql(query, params=[posts]).to_arrow_reader()
        credits = {post["post_id"]: _credit(post) for batch in found for post in batch.to_pylist()}
    return [_example(row, credits) for row in rows]


def _post_of(passage: str) -> str:
    """The id of the answer that a passage was cut from."""
    return passage.partition("#")[0]


def _example(row: Row, credits: Mapping[str, str]) -> Example:
    facts = [
        ("axiom", f"{row['axiom']} {AXIOMS[row['axiom']]}"),
        ("margin", f"{row['margin']:.2f}"),
        ("split", row["split"]),
        ("pair", row["pair_id"]),
    ]
    return Example(row["pair_type"], facts, list(_passages(row, credits)))


def _passages(row: Row, credits: Mapping[str, str]) -> Iterator[Passage]:
    """The texts of a pair: question, evidence, both answers. `credits`: of posts, by their ids."""
    yield Passage("Question", row["question"], _credit(row, "question_"))
    for number, (key, text) in enumerate(zip(row["evidence_ids"], row["evidence"], strict=True), start=1):
        yield Passage(f"Evidence {number}", text, credits.get(_post_of(key), key))
    for side in ("preferred", "rejected"):
        votes = row[f"{side}_votes"]
        voted = f", {votes:,} {'vote' if votes == 1 else 'votes'}" if votes is not None else ""
        yield Passage(f"{side.capitalize()} ({row[f'{side}_source']}{voted})", row[side], _credit(row, f"{side}_"))


def _credit(row: Row, start: str = "") -> str:
    """Author, licence and address of a post; of a generated text its model and licence. `start`: how the names of its
    columns begin.
    """
    by = row.get(f"{start}model") or row[f"{start}author"] or row[f"{start}author_url"] or "author unknown"
    return " · ".join(filter(None, (f"by {by}", row[f"{start}licence"], row[f"{start}url"])))
