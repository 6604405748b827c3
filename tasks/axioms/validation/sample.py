"""The pairs of each type that people and a judge compare: drawn by the seed, from different questions while there are
such.
"""

from __future__ import annotations

from collections.abc import Iterator
from tempfile import TemporaryDirectory

import duckdb

from longform.artifacts.rows import read_parquet
from longform.engine.at_most import Sizes
from longform.engine.stage import AllRows, AtMost, Row, Rows, StageContext, stage
from schemas.axioms.validation import VALIDATION
from tasks.annotation.values import folded
from tasks.axioms.people.judgements import pairs_of

TYPES_AT_MOST = 32
DRAWN = """
    WITH marked AS (
        SELECT pair_id, pair_type, question_id, md5(concat_ws(chr(31), {seed}, 'validation', pair_id)) AS mark
        FROM {pairs} WHERE split <> 'overlap'
    ), in_rounds AS (
        SELECT *, row_number() OVER (PARTITION BY pair_type, question_id ORDER BY mark, pair_id) AS round FROM marked
    )
    SELECT pair_id FROM in_rounds
    QUALIFY row_number() OVER (PARTITION BY pair_type ORDER BY round, mark, pair_id) <= {each}
"""


def _at_most(sizes: Sizes) -> float:
    """Upper bound of the pairs drawn."""
    return float(min(sizes["pairs"] + sizes["further"], sizes["each"] * TYPES_AT_MOST))


@stage(VALIDATION, revision=1, split_by="split", at_most=AtMost(rows=_at_most))
def sample_validation(
    context: StageContext, pairs: AllRows, further: AllRows, *, each: int, seed: int
) -> Iterator[Row]:
    """`each` pairs of each pair type, or as many as there are, by type and id. One of each question before a second of
    any; which, a hash with `seed` of the pair's id says. Pairs of the split `overlap`, and those whose texts are equal
    but for white space, are left out.

    `further`: pairs of types that are made for validation alone.
    """
    drawn = _drawn(pairs, each, seed) | _drawn(further, each, seed)
    for row in sorted(pairs_of([pairs, further], drawn), key=lambda row: (row["pair_type"], row["pair_id"])):
        if folded(row["preferred"]) != folded(row["rejected"]):
            own = {"validation_id": f"v{row['pair_id'].removeprefix('p')}", "pair_split": row["split"]}
            every = {**row, **own, "split": "validation"}
            yield {name: every[name] for name in VALIDATION.names}


def _drawn(pairs: Rows, each: int, seed: int) -> set[str]:
    """The ids of the pairs drawn."""
    if not pairs.paths:
        return set()
    with (
        TemporaryDirectory() as spill,
        duckdb.connect(config={"memory_limit": "512MB", "threads": 1, "temp_directory": spill}) as database,
    ):
        query = DRAWN.format(pairs=read_parquet(pairs.paths), each=each, seed=seed)
        return {pair for (pair,) in database.execute(query).fetchall()}
