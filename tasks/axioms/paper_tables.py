"""Tables 7 (questions by axiom) and 10 (sites) of the paper for a version's report, computed in a stream.

All sums are of integers, hence exact: the order of the rows changes no digit. Standard deviations are those of a
population (divided by n, not n - 1), as the tables describe all of the data.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from longform.artifacts.rows import Rows, read_parquet
from tasks.publishing.card import ReportTable

if TYPE_CHECKING:
    import pandas as pd

PRINTED = Path(__file__).with_name("printed.toml")
AXIOMS = {
    0: "usefulness",
    1: "relevance",
    2: "groundedness",
    3: "truthfulness",
    4: "relevant grounding",
    5: "thoroughness",
}
QUESTIONS = pa.schema([("site", pa.string()), ("answers", pa.int32())])
ANSWERS = pa.schema([("site", pa.string()), ("words", pa.int32()), ("votes", pa.int64())])
THREADS = ["site", "answers.list.element.text", "answers.list.element.votes"]


def tables(threads: Rows, pairs: Rows) -> list[ReportTable]:
    """The two tables of a version's report, with the paper's figures beside ours: table 7 (questions and answers
    added, by axiom and split) from the published `pairs`, then table 10 (sites) from the `threads`.
    """
    return [
        ReportTable(
            "Questions by axiom (table 7 of the paper)",
            "Answers added: those of a question's pairs that no lower axiom has.",
            table_7_questions_by_axiom(pairs.paths),
        ),
        ReportTable(
            "Questions and answers by site (table 10 of the paper)",
            "Words are separated by white space. Each mean is followed by its standard deviation.",
            table_10_sites(*questions_and_answers(threads)),
        ),
    ]


def questions_and_answers(threads: Rows) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(a frame with a row for each question, columns `site` and `answers`, the number of its answers; a frame with a
    row for each answer, columns `site`, `words` and `votes`).

    `words` counts runs between white space. Threads are read batch by batch; texts are counted and not kept.
    """
    counted = [(_questions(batch), _answers(batch)) for batch in threads.batches(THREADS)]
    questions, answers = (
        pa.Table.from_batches([pair[side] for pair in counted], schema).to_pandas(strings_to_categorical=True)
        for side, schema in enumerate((QUESTIONS, ANSWERS))
    )
    return questions, answers


def _questions(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A row for each thread of the batch: its site and its number of answers."""
    return pa.record_batch([batch.column("site"), pc.list_value_length(batch.column("answers"))], QUESTIONS)


def _answers(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A row for each answer of the batch: its site, number of words (runs between white space) and votes."""
    threads = batch.column("answers")
    answers, sites = threads.flatten(), batch.column("site").take(pc.list_parent_indices(threads))
    words = pa.array([len(text.split()) for text in answers.field("text").to_pylist()], pa.int32())
    return pa.record_batch([sites, words, answers.field("votes").cast(pa.int64())], ANSWERS)


def table_7_questions_by_axiom(pairs: Iterable[str | Path]) -> pd.DataFrame:
    """Table 7: a row for each axiom and split with the number of questions that have a pair of this axiom, and mean
    and standard deviation of the answers that the axiom adds to such a question, rounded to two decimals. Beside each
    figure stand the paper's and the difference (columns `… paper` and `… difference`).

    An axiom adds those answers of a question's pairs that are in no pair of a lower axiom; it may add 0. `pairs`:
    Parquet files with split, question_id, axiom, preferred_id and rejected_id. DuckDB counts in these files and spills
    to disk, as the ids of all pairs may not fit in memory.
    """
    from tasks.publishing.printed import beside, printed

    with (
        TemporaryDirectory() as spill,
        duckdb.connect(config={"memory_limit": "512MB", "threads": 2, "temp_directory": spill}) as database,
    ):
        counted = database.sql(f"""
            WITH pairs AS (FROM {read_parquet(pairs)}),
            answers AS (
                SELECT split, question_id, axiom, preferred_id AS answer FROM pairs
                UNION ALL SELECT split, question_id, axiom, rejected_id FROM pairs
            ),
            lowest AS (
                SELECT split, question_id, min(axiom) AS axiom FROM answers GROUP BY split, question_id, answer
            ),
            added AS (SELECT split, question_id, axiom, count(*) AS number FROM lowest GROUP BY ALL),
            asked AS (SELECT DISTINCT split, question_id, axiom FROM pairs)
            SELECT axiom, split, count(*) AS questions, avg(coalesce(number, 0)) AS "answers added",
                   stddev_pop(coalesce(number, 0)) AS "standard deviation"
            FROM asked LEFT JOIN added USING (split, question_id, axiom) GROUP BY axiom, split ORDER BY axiom, split
        """).df()
    names = {number: f"{number} {name}" for number, name in AXIOMS.items()}
    named = counted.assign(axiom=counted.axiom.map(names).astype(str)).round(2)
    return beside(named, printed(PRINTED, "table_7"), on=["axiom", "split"])


def table_10_sites(questions: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """Table 10: by site, the number of questions; mean and standard deviation of the answers to a question, and of the
    words and votes of an answer, rounded to two decimals. Beside each figure stand the paper's and the difference
    (columns `… paper` and `… difference`).

    The site with most questions comes first, ties by name. `questions`, `answers`: the frames of
    `questions_and_answers`.
    """
    import pandas as pd

    from tasks.publishing.printed import beside, printed

    asked, answered = questions.groupby("site").answers, answers.groupby("site")
    sites = pd.DataFrame({
        "questions": asked.size(),
        "answers": asked.mean(),
        "answers ±": asked.std(ddof=0),
        "words an answer": answered.words.mean(),
        "words an answer ±": answered.words.std(ddof=0),
        "votes an answer": answered.votes.mean(),
        "votes an answer ±": answered.votes.std(ddof=0),
    })  # fmt: skip
    named = sites.rename_axis("site").reset_index().astype({"site": str})
    largest = named.sort_values(["questions", "site"], ascending=[False, True], ignore_index=True)
    return beside(largest.round(2), printed(PRINTED, "table_10"), on=["site"])
