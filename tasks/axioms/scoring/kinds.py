"""Of which kind the answers are whose scores are drawn: held-out answers to rank, and the answers of test pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from longform.artifacts.rows import read_parquet
from tasks.axioms.scoring.reading import MEMORY, OF_PAIRS

if TYPE_CHECKING:
    import pandas as pd

HELD_OUT = "stackexchange"
HUMAN, HARD_NEGATIVE = "human", "hard negative"
KIND_COLUMNS = ("set", "question_id", "answer_id", "kind")


def kinds_of(sets: Mapping[str, Sequence[Path]]) -> pd.DataFrame:
    """A row of KIND_COLUMNS for each answer of the sets stackexchange and pairs, those of them that are among `sets`
    (set -> its files). The kind is the source of the answer: human, open_book and so on; "hard negative" if it is a
    human answer to another question.
    """
    import pandas as pd

    found = [
        *(_held_out(path) for path in sets.get(HELD_OUT, ())),
        *([_of_pairs(sets[OF_PAIRS])] if OF_PAIRS in sets else []),
    ]
    return pd.concat([pd.DataFrame(columns=list(KIND_COLUMNS)).astype(str), *found], ignore_index=True)


def _held_out(path: Path) -> pd.DataFrame:
    """KIND_COLUMNS of the answers of the set stackexchange in a file of RANKING."""
    inner = [f"answers.list.element.{name}" for name in ("answer_id", "source", "negative")]
    rows = pq.ParquetFile(path).read(["set", "question_id", *inner])
    rows = rows.filter(pc.equal(rows["set"], HELD_OUT)).combine_chunks()
    answers = rows["answers"].combine_chunks()
    own, each = rows["question_id"].take(pc.list_parent_indices(answers)), answers.flatten()
    kind = pc.if_else(each.field("negative"), HARD_NEGATIVE, each.field("source"))
    made = pa.table({"question_id": own, "answer_id": each.field("answer_id"), "kind": kind})
    frame: pd.DataFrame = made.to_pandas().drop_duplicates(["question_id", "answer_id"])
    return frame.assign(set=HELD_OUT)[list(KIND_COLUMNS)]


def _of_pairs(paths: Sequence[Path]) -> pd.DataFrame:
    """KIND_COLUMNS of the answers of pairs, each once."""
    query = f"""
        WITH pairs AS (FROM {read_parquet(paths)}), sides AS (
            SELECT question_id, preferred_id AS answer_id, preferred_source AS kind FROM pairs UNION ALL
            SELECT question_id, rejected_id,
                   if(related_question_id IS NULL, rejected_source, '{HARD_NEGATIVE}') FROM pairs
        )
        SELECT '{OF_PAIRS}' AS set, question_id, answer_id, min(kind) AS kind FROM sides
        GROUP BY question_id, answer_id ORDER BY question_id, answer_id
    """
    with duckdb.connect(config=MEMORY) as database:
        found: pd.DataFrame = database.sql(query).df()
    return found
