"""Scores from a file that somebody else made: Parquet, JSON lines or CSV, a row for each answer.

    question_id           answer_id             score
    beer.example/4        beer.example/17       0.81

Optional columns: `set` (empty: any set), `evidence` (true, or the evidence id: the score that the answer has when it
is read with its evidence; false or empty: without). A score that is empty is missing, one that is no finite number is
reported as such.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from longform.artifacts.rows import Row, read_batches
from longform.errors import UsageError
from tasks.axioms.scoring.groups import Found, Group, Missing

ENDINGS = (".parquet", ".jsonl", ".ndjson", ".csv")
COLUMNS = ("question_id", "answer_id", "score")
ROWS_AT_ONCE = 10_000
ANY = "*"  # some evidence, whichever
NO_SCORE = Missing("no score in the file")
NO_NUMBER = "no finite number in the file"

Key = tuple[str, str, str, str]  # set ("": any), question id, answer id, evidence id ("": none; ANY)


@dataclass(frozen=True, slots=True)
class FileOfScores:
    """The scores of a file by key."""

    scores: dict[Key, float]

    def of(self, group: Group) -> list[Found]:
        """The score of each answer of the group; a Missing where the file has none, or none that is finite."""
        return [self._one(group, answer) for answer, _ in group.answers]

    def _one(self, group: Group, answer: str) -> Found:
        question = group.question_id or group.key
        evidences = (group.evidence_id, ANY) if group.evidence else ("",)
        keys = [(name, question, answer, evidence) for name in (group.set, "") for evidence in evidences]
        found = next((self.scores[key] for key in keys if key in self.scores), None)
        if found is None:
            return NO_SCORE
        return found if math.isfinite(found) else Missing(NO_NUMBER, str(found))

    def unknown(self, asked: set[tuple[str, str]]) -> list[tuple[str, str]]:
        """The (question id, answer id) in the file that are not among the `asked` ones, sorted."""
        return sorted({(question, answer) for _, question, answer, _ in self.scores} - asked)


@lru_cache(maxsize=4)
def read_scores(path: Path, sha256: str) -> FileOfScores:
    """The scores in a file; cached by its content. UsageError if it cannot be read, has no row, lacks a column, has
    several rows for an answer, or a row without an id.
    """
    scores: dict[Key, float | None] = {}
    number = 0
    for number, row in enumerate(_rows(path), start=1):
        if missing := [name for name in COLUMNS if name not in row]:
            raise UsageError(
                f"{path} has no column {', '.join(missing)}: a file of scores has {', '.join(COLUMNS)}, and perhaps "
                "set and evidence."
            )
        key = _key(row)
        if not key[1] or not key[2]:
            raise UsageError(f"Row {number:,} of {path} has no question_id or no answer_id: give both.")
        if key in scores:
            raise UsageError(
                f"Row {number:,} of {path} scores the answer {key[2]} to {key[1]} again: give each one score, and the "
                "scores of several scorers in files of their own."
            )
        try:
            scores[key] = None if row["score"] in (None, "") else float(row["score"])
        except (TypeError, ValueError):
            raise UsageError(f'Row {number:,} of {path} has the score "{row["score"]}": a score is a number.') from None
    if not number:
        raise UsageError(f"{path} has no row: a file of scores has a row for each answer, with {', '.join(COLUMNS)}.")
    return FileOfScores({key: score for key, score in scores.items() if score is not None})


def _key(row: Row) -> Key:
    """By what the score of a row is looked up."""
    name, question, answer, evidence = (
        "" if row.get(column) is None else str(row[column])
        for column in ("set", "question_id", "answer_id", "evidence")
    )
    return name, question, answer, {"true": ANY, "false": "", "1": ANY, "0": ""}.get(evidence.lower(), evidence)


def _rows(path: Path) -> Iterator[Row]:
    """The rows of the file. UsageError if it is not there, or cannot be read."""
    import pyarrow as pa

    if path.suffix not in ENDINGS:
        raise UsageError(f"{path} is no file of scores: give one that ends in {', '.join(ENDINGS)}.")
    try:
        if path.suffix == ".parquet":
            yield from (row for batch in read_batches(path, ROWS_AT_ONCE) for row in batch.to_pylist())
        else:
            with path.open(encoding="utf-8-sig", newline="") as file:
                yield from csv.DictReader(file) if path.suffix == ".csv" else map(_object, filter(str.strip, file))
    except (OSError, ValueError, csv.Error, pa.ArrowInvalid) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise UsageError(f"{path} cannot be read ({reason}): give a file of scores.") from None


def _object(line: str) -> Row:
    """The JSON object of a line; ValueError for anything else."""
    found = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError("a line is no JSON object")
    return found
