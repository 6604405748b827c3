"""Audits of what leaks from one side of a split to the other: texts, questions, and what a memory of train is worth.

    text_on_both_sides      a text or passage of a test row stands in a train row too
    question_on_both_sides  a question of test has nearly the words of one in train
    memorised               who only remembers train does better or worse than chance on test

They look at the published files alone, so `longform verify` runs them again on any version.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from longform.artifacts.rows import read_parquet
from tasks.publishing.audits import Files, Finding

TRAIN, TEST = "train", "test"
NEARLY = 0.8  # of the word 3-grams of both questions are shared
POINTS = 0.03  # from one half, or less, is chance
DEVIATIONS = 1.96
PLAIN = r"hash(lower(trim(regexp_replace({}, '\s+', ' ', 'g'))))"


@dataclass(frozen=True, slots=True)
class SharedTexts:
    """The finding for each test row of `config` of which a text stands in train too. `columns`: of texts; `lists`: of
    lists of texts; `key`: identifies a row.
    """

    config: str
    key: str
    columns: Sequence[str]
    lists: Sequence[str] = ()

    def __call__(self, files: Files) -> Iterator[Finding]:
        """See above; texts are equal but for case and white space."""
        splits = files.get(self.config, {})
        if not (splits.get(TRAIN) and splits.get(TEST)):
            return
        texts = [*self.columns, *(f"unnest({name})" for name in self.lists)]
        of_rows = " UNION ALL ".join(
            f"SELECT {self.key} AS key, '{text}' AS place, {PLAIN.format('text')} AS hash "
            f"FROM (SELECT {self.key}, {text} AS text FROM {{0}})"
            for text in texts
        )
        query = f"""
            WITH train AS (SELECT DISTINCT hash FROM ({of_rows.format(read_parquet(splits[TRAIN]))}))
            SELECT key, min(place) FROM ({of_rows.format(read_parquet(splits[TEST]))})
            WHERE hash IN (FROM train) GROUP BY key ORDER BY key
        """
        for key, place in _rows(query):
            name = place.removeprefix("unnest(").removesuffix(")")
            yield Finding("text_on_both_sides", self.config, TEST, key, f"{name}: stands in train too")


@dataclass(frozen=True, slots=True)
class SharedQuestions:
    """The finding for each question of test that shares NEARLY all of its word 3-grams (Jaccard) with one of train."""

    config: str
    key: str
    question: str

    def __call__(self, files: Files) -> Iterator[Finding]:
        """See above."""
        from tasks.text.copies.duplicates import near_duplicates
        from tasks.text.copies.shingles import shingle_hashes

        splits = files.get(self.config, {})
        sides = [side for side in (TRAIN, TEST) if splits.get(side)]
        found = [
            (key, side, shingle_hashes(text))
            for side in sides
            for key, text in _rows(
                f"SELECT {self.key}, any_value({self.question}) FROM {read_parquet(splits[side])} GROUP BY 1 ORDER BY 1"
            )
        ]
        for one, other in near_duplicates([hashes for _, _, hashes in found], NEARLY):
            if found[one][1] != found[other][1]:
                what = f"nearly the words of {found[one][0]} of train"
                yield Finding("question_on_both_sides", self.config, TEST, found[other][0], what)


@dataclass(frozen=True, slots=True)
class Memorised:
    """The finding for each value of `by` (of pairs in `config`) on which somebody who scores a text by how often train
    prefers it, less how often train rejects it, is right about test more or less often than chance.
    """

    config: str
    by: str

    def __call__(self, files: Files) -> Iterator[Finding]:
        """See above; a tie counts half. Chance is what is POINTS from one half, or has it in its 95 % interval."""
        splits = files.get(self.config, {})
        if not (splits.get(TRAIN) and splits.get(TEST)):
            return
        train, test = (f"(FROM {read_parquet(splits[side])})" for side in (TRAIN, TEST))
        for value, pairs, right, spread in memory_of_train(train, test, self.by):
            if abs(right - 0.5) > max(POINTS, DEVIATIONS * spread):
                what = f"who remembers train is right on {right:.1%} of {pairs:,} pairs"
                yield Finding("memorised", self.config, TEST, f"{self.by} {value}", what)


def memory_of_train(train: str, test: str, by: str) -> list[tuple[Any, int, float, float]]:
    """(value of `by`, pairs of test, share on which who remembers train is right, its standard error), see Memorised.
    `train`, `test`: the pairs of each side, as SQL relations.
    """
    preferred, rejected = (PLAIN.format(name) for name in ("preferred", "rejected"))
    query = f"""
        WITH seen AS (
            SELECT hash, sum(score) AS score FROM (
                SELECT {preferred} AS hash, 1 AS score FROM {train}
                UNION ALL SELECT {rejected}, -1 FROM {train}
            ) GROUP BY hash
        ),
        test AS (SELECT {by} AS value, {preferred} AS p, {rejected} AS r FROM {test}),
        right_of AS (
            SELECT value, 0.5 + 0.5 * sign(coalesce(better.score, 0) - coalesce(worse.score, 0)) AS right_
            FROM test LEFT JOIN seen AS better ON p = better.hash LEFT JOIN seen AS worse ON r = worse.hash
        )
        SELECT value, count(*), avg(right_), stddev_pop(right_) FROM right_of GROUP BY value ORDER BY value
    """
    return [(value, pairs, share, spread / math.sqrt(pairs)) for value, pairs, share, spread in _rows(query)]


def _rows(query: str) -> list[tuple[Any, ...]]:
    """The rows of a query; what memory does not hold is spilled to disk."""
    with (
        TemporaryDirectory() as spill,
        duckdb.connect(config={"memory_limit": "1GB", "threads": 2, "temp_directory": spill}) as database,
    ):
        return database.execute(query).fetchall()
