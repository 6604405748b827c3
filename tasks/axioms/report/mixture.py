"""What a version is made of, and what it does to a trainer, as tables: pairs and questions by kind of pair, rows that
are too long for a trainer, and what length alone gets. DuckDB counts in the files.
"""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import duckdb

from longform.artifacts.rows import Rows, read_parquet
from tasks.axioms.paper_tables import AXIOMS
from tasks.publishing.card import ReportTable
from tasks.publishing.leaks import TEST, TRAIN, memory_of_train

if TYPE_CHECKING:
    import pandas as pd

TRAINER_TOKENS = 1_024
LONG = f"over {TRAINER_TOKENS:,} tokens"
WEIGHING = (
    "Questions differ in their number of rows, and a trainer that draws rows counts each as often as it has rows. "
    "Every question counts alike in preference_sampled, which has one row of each (its draw is 1); so it does in the "
    "rows of preference whose draw is at most k, as far as a question has k, and if each row counts by its weight, 1 / "
    "number of rows of its question. TRL's trainers read no weight. "
    f"TRL's RewardTrainer leaves out rows of which prompt and answer have more than {TRAINER_TOKENS:,} tokens (its "
    "default max_length) without a word, DPOTrainer cuts their texts. How many rows that are is an estimate (columns "
    "chosen_tokens and rejected_tokens), made without any model's vocabulary and without the marks of a chat template: "
    "English within about 5 % in all, other languages within 20 %."
)
BY_MEMORY = (
    "Accuracy on test of whoever scores a text by how often train prefers it, less how often train rejects it, and "
    "reads nothing; a tie counts half. Of texts that train does not hold this is 50 %; a version is not published "
    "where an axiom is further from it than chance explains (gate memorised)."
)
BY_LENGTH = (
    "Accuracy of whoever calls the longer text (in characters) the better one and reads neither; a tie counts half. "
    "The further it is from 50 %, the more a model of these pairs can learn from length alone."
)


def mixture_tables(pairs: Rows, chats: Rows) -> list[ReportTable]:
    """The tables of the report on the mixture, on rows for trainers, on length and on memory. `pairs`: the
    published ones; `chats`: the same as trainers read them. The card shows the second and third.
    """
    return [
        ReportTable(
            "Pairs by axiom and pair type",
            "Questions: those with such a pair, of which one may have several types. Shares are of the split's pairs.",
            mixture(pairs),
        ),
        ReportTable("Rows for trainers", WEIGHING, rows_for_trainers(chats), on_card=True),
        ReportTable("What length alone gets", BY_LENGTH, accuracy_of_length(pairs), on_card=True),
        ReportTable("What remembering train gets", BY_MEMORY, accuracy_of_memory(pairs)),
    ]


def mixture(pairs: Rows) -> pd.DataFrame:
    """axiom, pair type, split, pairs, their share of the split's pairs in percent, and questions."""
    return _named(
        _counted(
            pairs,
            """
            SELECT axiom, pair_type AS "pair type", split, count(*) AS pairs,
                   100 * count(*) / sum(count(*)) OVER (PARTITION BY split) AS "pairs %",
                   count(DISTINCT question_id) AS questions
            FROM rows GROUP BY axiom, pair_type, split ORDER BY axiom, pair_type, split DESC
            """,
        )
    )


def rows_for_trainers(chats: Rows) -> pd.DataFrame:
    """For each config and split: rows, questions, the most rows of a question, and how many rows are longer than
    TRAINER_TOKENS, with their share in percent.
    """
    too_long = f"count_if(greatest(chosen_tokens, rejected_tokens) > {TRAINER_TOKENS})"
    return _counted(
        chats,
        f"""
        WITH configs AS (
            SELECT 'preference' AS config, * FROM rows
            UNION ALL SELECT 'preference_sampled', * FROM rows WHERE draw = 1
        )
        SELECT config, split, count(*) AS rows, count(DISTINCT question_id) AS questions,
               max(draw) AS "most rows of a question", {too_long}::BIGINT AS "{LONG}",
               100 * {too_long} / count(*) AS "{LONG} %"
        FROM (SELECT config, split, question_id, draw, chosen_tokens, rejected_tokens FROM configs)
        GROUP BY ALL ORDER BY config, split DESC
        """,
    )


def accuracy_of_length(pairs: Rows) -> pd.DataFrame:
    """axiom, pair type, split, pairs, and the accuracy in percent of choosing the longer text, of which a tie counts
    half.
    """
    return _named(
        _counted(
            pairs,
            """
            SELECT axiom, pair_type AS "pair type", split, count(*) AS pairs,
                   50 * sum(1 + sign(length(preferred) - length(rejected))) / count(*) AS "longer is preferred, %"
            FROM rows GROUP BY ALL ORDER BY axiom, pair_type, split DESC
            """,
        )
    )


def accuracy_of_memory(pairs: Rows) -> pd.DataFrame:
    """axiom, pairs of test, the accuracy in percent of who remembers train, and 1.96 times its standard error."""
    import pandas as pd

    train, test = (f"(FROM {read_parquet(pairs.paths)} WHERE split = '{side}')" for side in (TRAIN, TEST))
    found = memory_of_train(train, test, "axiom") if pairs.paths else []
    rows = [(axiom, count, round(100 * right, 2), round(196 * spread, 2)) for axiom, count, right, spread in found]
    return _named(pd.DataFrame(rows, columns=["axiom", "pairs", "remembered, %", "±"]))


def _named(counted: pd.DataFrame) -> pd.DataFrame:
    """The frame with number and name of each axiom, for its number."""
    names = {number: f"{number} {name}" for number, name in AXIOMS.items()}
    return counted.assign(axiom=counted.axiom.map(names).astype(str))


def _counted(rows: Rows, query: str) -> pd.DataFrame:
    """The result of a query over the table `rows`; figures rounded to two decimals."""
    with (
        TemporaryDirectory() as spill,
        duckdb.connect(config={"memory_limit": "512MB", "threads": 2, "temp_directory": spill}) as database,
    ):
        if rows.paths:
            database.execute(f"CREATE VIEW rows AS FROM {read_parquet(rows.paths)}")
        else:
            database.register("rows", rows.schema.empty_table())
        found: pd.DataFrame = database.sql(query).df()
    return found.round(2)
