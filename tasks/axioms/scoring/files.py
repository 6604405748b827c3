"""Scores from a file that somebody else made: Parquet, JSON lines or CSV, a row for each answer.

    question_id           answer_id             score
    beer.example/4        beer.example/17       0.81

Optional columns: `set` (empty: any set), `evidence` (true, or the evidence id: the score that the answer has when it
is read with its evidence; false or empty: without). A score that is empty is missing, one that is no finite number is
reported as such.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longform.errors import UsageError
from tasks.axioms.scoring.groups import Found, Group, Missing

if TYPE_CHECKING:
    import pandas as pd

ENDINGS = (".parquet", ".jsonl", ".ndjson", ".csv")
COLUMNS = ("question_id", "answer_id", "score")
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
    """The scores in a file; cached by its content. UsageError if it cannot be read, lacks a column, has several rows
    for an answer, or a row without an id.
    """
    frame = _frame(path)
    if missing := [name for name in COLUMNS if name not in frame.columns]:
        raise UsageError(
            f"{path} has no column {', '.join(missing)}: a file of scores has {', '.join(COLUMNS)}, and perhaps set "
            "and evidence."
        )
    scores: dict[Key, float] = {}
    for number, (key, score) in enumerate(_rows(frame, path), start=1):
        if key in scores:
            raise UsageError(
                f"Row {number:,} of {path} scores the answer {key[2]} to {key[1]} again: give each one score, and the "
                "scores of several scorers in files of their own."
            )
        scores[key] = score
    return FileOfScores({key: score for key, score in scores.items() if score is not None})


def _frame(path: Path) -> pd.DataFrame:
    """The file as a frame, whose ids are text. UsageError if it is not there, or cannot be read."""
    import pandas as pd

    if path.suffix not in ENDINGS:
        raise UsageError(f"{path} is no file of scores: give one that ends in {', '.join(ENDINGS)}.")
    as_text: Any = {"question_id": str, "answer_id": str, "set": str, "evidence": str}
    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path)
        if path.suffix == ".csv":
            return pd.read_csv(path, dtype=as_text, keep_default_na=False)
        return pd.read_json(path, lines=True, dtype=as_text | {"score": False}, convert_dates=False)
    except (OSError, ValueError, UnicodeDecodeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise UsageError(f"{path} cannot be read ({reason}): give a file of scores.") from None


def _rows(frame: pd.DataFrame, path: Path) -> Iterator[tuple[Key, Any]]:
    """(key, score or None) of each row. UsageError for a row without an id, or with a score that is no number."""
    import pandas as pd

    def column(name: str, of: Callable[[Any], Any]) -> list[Any]:
        values = frame[name].tolist() if name in frame.columns else [None] * len(frame)
        return [None if value is None or value is pd.NA else of(value) for value in values]

    sets, questions, answers = (column(name, _text) for name in ("set", "question_id", "answer_id"))
    rows = zip(sets, questions, answers, column("evidence", _evidence), frame["score"].tolist(), strict=True)
    for number, (name, question, answer, evidence, score) in enumerate(rows, start=1):
        if not question or not answer:
            raise UsageError(f"Row {number:,} of {path} has no question_id or no answer_id: give both.")
        try:
            value = None if score is None or score is pd.NA or score == "" else float(score)
        except (TypeError, ValueError):
            raise UsageError(f'Row {number:,} of {path} has the score "{score}": a score is a number.') from None
        yield (name or "", question, answer, evidence or ""), value


def _text(value: Any) -> str:
    """An id as text; "" for NaN."""
    return "" if isinstance(value, float) and math.isnan(value) else str(value)


def _evidence(value: Any) -> str:
    """What the column `evidence` says: "" for none, ANY for some, else the evidence id."""
    text = _text(value)
    return {"true": ANY, "false": "", "1": ANY, "0": ""}.get(text.lower(), text)
