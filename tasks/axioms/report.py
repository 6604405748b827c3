"""Tables 7 and 10 of the paper for a version's report, read from its stages column by column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from longform.artifacts.rows import Rows
from tasks.publishing.card import ReportTable

if TYPE_CHECKING:
    import pandas as pd

QUESTIONS = pa.schema([("site", pa.string()), ("answers", pa.int32())])
ANSWERS = pa.schema([("site", pa.string()), ("words", pa.int32()), ("votes", pa.int64())])
THREADS = ["site", "answers.list.element.text", "answers.list.element.votes"]


def tables(threads: Rows, pairs: Rows) -> list[ReportTable]:
    """Tables 7 (questions and added answers by axiom and split) and 10 (sites) of the published rows."""
    from tasks.axioms.tables import table_7_questions_by_axiom, table_10_sites

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
    """A row a question (site, answers) and a row an answer (site, words, votes): numbers only, read batch by batch."""
    counted = [(_questions(batch), _answers(batch)) for batch in threads.batches(THREADS)]
    questions, answers = (
        pa.Table.from_batches([pair[side] for pair in counted], schema).to_pandas(strings_to_categorical=True)
        for side, schema in enumerate((QUESTIONS, ANSWERS))
    )
    return questions, answers


def _questions(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch([batch.column("site"), pc.list_value_length(batch.column("answers"))], QUESTIONS)


def _answers(batch: pa.RecordBatch) -> pa.RecordBatch:
    threads = batch.column("answers")
    answers, sites = threads.flatten(), batch.column("site").take(pc.list_parent_indices(threads))
    words = pa.array([len(text.split()) for text in answers.field("text").to_pylist()], pa.int32())
    return pa.record_batch([sites, words, answers.field("votes").cast(pa.int64())], ANSWERS)
