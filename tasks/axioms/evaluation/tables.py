"""What the evaluation sets hold, and what training lost to them, as tables of the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import duckdb

from longform.artifacts.rows import Rows, read_parquet
from tasks.axioms.evaluation.contamination import REASONS
from tasks.publishing.card import ReportTable

if TYPE_CHECKING:
    import pandas as pd

PRINTED = Path(__file__).parents[1] / "printed.toml"
OF_SETS = (
    "Questions with answers to rank. Answers are people's, or passages labelled relevant; hard negatives are answers "
    "to related questions, or the best passages by BM25 without a label. Both are means. The paper has about 20,000 "
    "questions of ELI5 in all."
)
OF_COMPARISONS = "Ties are left out. Words are separated by white space; each mean is followed by its deviation."
OF_TRAINING = (
    "Training texts were compared with these texts of the evaluation sets (docs/axioms.md says how); the questions and "
    "pairs that show one of them left the split train. A pair counts under the first measure and set that found it."
)


def set_tables(rankings: Sequence[Rows], read: Rows, compared: Rows) -> list[ReportTable]:
    """The tables of the report on the evaluation sets; the card shows the first. `read`: comparisons with ties,
    `compared`: without.
    """
    return [
        ReportTable("Evaluation sets", OF_SETS, sets(rankings), on_card=True),
        ReportTable("Comparisons of answers", OF_COMPARISONS, comparisons(read, compared)),
    ]


def decontamination_table(texts: Rows, assembled: Rows, pairs: Rows) -> ReportTable:
    """The table of the report, and of the card, on what training lost to evaluation. `texts`: with which training texts
    were compared; `assembled`: the pairs before, `pairs`: after.
    """
    return ReportTable("Decontamination", OF_TRAINING, removed(texts, assembled, pairs), on_card=True)


def sets(rankings: Sequence[Rows]) -> pd.DataFrame:
    """set (of ELI5 with its subreddit), questions, answers and hard negatives a question, rounded to two decimals, the
    paper's beside.
    """
    from tasks.publishing.printed import beside, printed

    query = """
        SELECT set || if(set = 'eli5', ': ' || replace(site, 'reddit.com/', ''), '') AS set, count(*) AS questions,
               round(avg(len(list_filter(answers, lambda one: NOT one.negative))), 2) AS "answers a question",
               round(avg(len(list_filter(answers, lambda one: one.negative))), 2) AS "hard negatives a question"
        FROM ranking GROUP BY 1 ORDER BY min(set) <> 'stackexchange', 1
    """
    paths = [path for rows in rankings for path in rows.paths]
    columns = "NULL::VARCHAR AS set, NULL::VARCHAR AS site, NULL::STRUCT(negative BOOL)[] AS answers"
    frame = _frame(query, ranking=f"FROM {read_parquet(paths)}" if paths else f"SELECT {columns} LIMIT 0")
    return beside(frame, printed(PRINTED, "evaluation_sets"), on=["set"])


def comparisons(read: Rows, compared: Rows) -> pd.DataFrame:
    """set, comparisons, those with a clear preference, and the words of both answers of these, mean and standard
    deviation rounded to one decimal, the paper's beside; no row without comparisons.
    """
    import pandas as pd

    from tasks.publishing.printed import beside, printed

    names = ["words of the preferred", "words of the preferred ±", "words of the other", "words of the other ±"]
    words = {
        side: pd.Series([len(row[side]["text"].split()) for row in compared], dtype="float64")
        for side in ("preferred", "rejected")
    }
    figures = [figure for own in words.values() for figure in (own.mean(), own.std(ddof=0))]
    row = {"set": "webgpt", "comparisons": read.count, "clear preference": compared.count}
    frame = pd.DataFrame([row | dict(zip(names, figures, strict=True))] if read.count else [], columns=[*row, *names])
    return beside(frame.round(1), printed(PRINTED, "comparisons"), on=["set"])


def removed(texts: Rows, assembled: Rows, pairs: Rows) -> pd.DataFrame:
    """set, its texts, and the questions and pairs of training that left for it, pairs also by measure."""
    by_measure = ", ".join(
        f"count_if(reason = '{reason}')::BIGINT AS \"pairs: {measure}\"" for measure, reason in REASONS.items()
    )
    paths = [pairs.store.rejected_path(part) for part in pairs.parts or () if part.rejected]
    query = f"""
        WITH gone AS (
            SELECT split_part(detail, ': ', 1) AS set, reason, question_id
            FROM rejected JOIN pairs ON pair_id = key
        ), counted AS (
            SELECT set, count(DISTINCT question_id) AS questions, count(*) AS pairs, {by_measure} FROM gone GROUP BY set
        )
        SELECT set, texts, coalesce(columns(counted.* EXCLUDE (set)), 0)::BIGINT
        FROM (SELECT set, count(*) AS texts FROM evaluated GROUP BY set) AS own LEFT JOIN counted USING (set)
        ORDER BY set <> 'stackexchange', set
    """
    nothing = "SELECT NULL::VARCHAR AS key, NULL::VARCHAR AS reason, NULL::VARCHAR AS detail LIMIT 0"
    frame = _frame(
        query,
        rejected=f"FROM {read_parquet(paths)}" if paths else nothing,
        pairs=_ids(assembled),
        evaluated=f"SELECT set FROM {read_parquet(texts.paths)}" if texts.paths else "SELECT '' AS set LIMIT 0",
    )
    return frame.rename(columns={"questions": "training questions removed", "pairs": "training pairs removed"})


def _ids(pairs: Rows) -> str:
    """SQL of pair_id and question_id of all pairs."""
    if not pairs.paths:
        return "SELECT NULL::VARCHAR AS pair_id, NULL::VARCHAR AS question_id LIMIT 0"
    return f"SELECT pair_id, question_id FROM {read_parquet(pairs.paths)}"


def _frame(query: str, **views: str) -> pd.DataFrame:
    """The result of a query; `views`: name -> SQL."""
    with (
        TemporaryDirectory() as spill,
        duckdb.connect(config={"memory_limit": "512MB", "threads": 2, "temp_directory": spill}) as database,
    ):
        for name, sql in views.items():
            database.execute(f"CREATE VIEW {name} AS {sql}")
        frame: pd.DataFrame = database.sql(query).df()
        return frame
