"""The paper's tables about its data, computed in a stream: 7 (questions by axiom) and 10 (sites).

All sums are of integers, hence exact: the order of the rows changes no digit. Standard deviations are those of a
population (divided by n, not n - 1), as the tables describe all of the data.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from longform.artifacts.rows import Row, read_parquet


@dataclass(slots=True)
class _Moments:
    """Count, sum and sum of squares of integers, for their mean and standard deviation."""

    count: int = 0
    total: int = 0
    squares: int = 0

    def add(self, value: int) -> None:
        self.count += 1
        self.total += value
        self.squares += value * value

    def columns(self, name: str) -> Row:
        """Mean and standard deviation, under `name` and `<name>_std`; None if empty."""
        if not self.count:
            return {name: None, f"{name}_std": None}
        spread = self.count * self.squares - self.total**2
        return {name: self.total / self.count, f"{name}_std": math.sqrt(spread) / self.count}


class Table10:
    """Table 10: by site its questions, and answers per question, words and votes per answer, each as mean and
    deviation.
    """

    def __init__(self) -> None:
        self._sites: dict[str, tuple[_Moments, _Moments, _Moments]] = {}

    def add(self, site: str, answers: Iterable[tuple[str, int]]) -> None:
        """Count one question: `answers` are the text and votes of each. Words are what white space separates."""
        if site not in self._sites:
            self._sites[site] = (_Moments(), _Moments(), _Moments())
        per_question, words, votes = self._sites[site]
        before = words.count
        for text, count in answers:
            words.add(len(text.split()))
            votes.add(count)
        per_question.add(words.count - before)

    def rows(self) -> list[Row]:
        """The rows of table 10, the largest site first, ties by name."""
        largest = sorted(self._sites.items(), key=lambda item: (-item[1][0].count, item[0]))
        return [
            {"site": site, "questions": per_question.count}
            | per_question.columns("answers_per_question")
            | words.columns("words_per_answer")
            | votes.columns("votes_per_answer")
            for site, (per_question, words, votes) in largest
        ]


def questions_by_axiom(pairs: Iterable[str | Path]) -> list[Row]:
    """Table 7: by axiom and split, its questions and the answers it adds to a question, as mean and deviation.

    An axiom adds those answers of a question's pairs that are in no pair of a lower axiom. `pairs`: Parquet files with
    split, question_id, axiom, preferred_id and rejected_id.
    """
    with (
        TemporaryDirectory() as spill,
        duckdb.connect(config={"memory_limit": "512MB", "threads": 2, "temp_directory": spill}) as database,
    ):
        found = database.sql(f"""
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
            SELECT axiom, split, count(*), sum(coalesce(number, 0)), sum(coalesce(number, 0) * coalesce(number, 0))
            FROM asked LEFT JOIN added USING (split, question_id, axiom) GROUP BY axiom, split ORDER BY axiom, split
        """).fetchall()
    return [
        {"axiom": axiom, "split": split, "questions": count}
        | _Moments(count, int(total), int(squares)).columns("answers_added")
        for axiom, split, count, total, squares in found
    ]
