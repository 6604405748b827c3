"""What a judge of the hard negatives has changed, as a table of the report."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import duckdb

from longform.artifacts.rows import Rows, read_parquet
from tasks.publishing.card import ReportTable

if TYPE_CHECKING:
    import pandas as pd

ALL = "all sites"
NOTE = (
    "Answers to related questions that were drawn as hard negatives of axiom 1, and what the judge said of each beside "
    "the question itself. Those that answer it after all, and those that were not judged (no usable reply), are in no "
    "pair. Pairs are those of the stage that pairs, before the audits."
)


def judged_negatives(
    related: Rows, verdicts: Rows, threads: Rows, paired: Rows, *, with_all_answers: bool
) -> ReportTable:
    """The table of the report on judged negatives. `related`: the questions with all negatives drawn; `threads`: their
    answers; `paired`: the pairs of axiom 1. `with_all_answers`: each negative is paired with every answer, not one.
    """
    frame = effect(related, verdicts, threads, paired, with_all_answers=with_all_answers)
    return ReportTable("Judged negatives", NOTE, frame)


def effect(related: Rows, verdicts: Rows, threads: Rows, paired: Rows, *, with_all_answers: bool) -> pd.DataFrame:
    """For each site, and last for all where there are several: negatives, how many of them were judged, answer after
    all (with their share of the judged in percent) and were not judged; questions, and those that lost all negatives;
    pairs of axiom 1 without the judge, and with it.
    """
    each = "len(answers)" if with_all_answers else "1"
    query = f"""
        WITH drawn AS (
            SELECT split_part(question_id, '/', 1) AS site, question_id, len(negatives) AS n,
                   n * (SELECT {each} FROM threads WHERE threads.question_id = related.question_id) AS pairs
            FROM related WHERE len(negatives) > 0
        ), judged AS (
            SELECT question_id, count(*) AS n, count_if(answers) AS answering FROM verdicts GROUP BY ALL
        ), paired_of AS (
            SELECT question_id, count(*) AS pairs FROM paired GROUP BY ALL
        ), of_questions AS (
            SELECT site, drawn.n, coalesce(judged.n, 0) AS judged, coalesce(answering, 0) AS answering,
                   drawn.pairs, coalesce(paired_of.pairs, 0) AS kept
            FROM drawn LEFT JOIN judged USING (question_id) LEFT JOIN paired_of USING (question_id)
        )
        SELECT coalesce(site, '{ALL}') AS site, sum(n)::BIGINT AS negatives, sum(judged)::BIGINT AS judged,
               sum(answering)::BIGINT AS "answer after all",
               round(100 * sum(answering) / nullif(sum(judged), 0), 2) AS "answer after all %",
               sum(n - judged)::BIGINT AS "not judged", count(*) AS questions,
               count_if(judged = answering)::BIGINT AS "lost all negatives",
               sum(pairs)::BIGINT AS "pairs before", sum(kept)::BIGINT AS "pairs after"
        FROM of_questions GROUP BY GROUPING SETS ((site), ()) ORDER BY grouping(site), site
    """
    tables = {"related": related, "verdicts": verdicts, "threads": threads, "paired": paired}
    with (
        TemporaryDirectory() as spill,
        duckdb.connect(config={"memory_limit": "512MB", "threads": 2, "temp_directory": spill}) as database,
    ):
        for name, rows in tables.items():
            if rows.paths:
                database.execute(f"CREATE VIEW {name} AS FROM {read_parquet(rows.paths)}")
            else:
                database.register(name, rows.schema.empty_table())
        found: pd.DataFrame = database.sql(query).df()
    return found if len(found) > 2 else found[found.site != ALL]
