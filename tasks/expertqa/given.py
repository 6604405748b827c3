"""What an annotator said of an answer, as a file of labels gives it: alike for every format, not yet checked."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from longform.artifacts.rows import Rejected, Row
from tasks.expertqa.vocabulary import LABELLED

RAW_CHARS = 2_000
DIVIDER = "---"
SHOWN_CHARS = 80

ANSWER_PROPERTIES = ("usefulness", "revised_answer")
CLAIM_RATINGS = LABELLED
CLAIM_PROPERTIES = (
    "support",
    "reason_missing_support",
    "informativeness",
    "worthiness",
    "correctness",
    "reliability",
    "revised_claim",
    "revised_evidence",
)
LEFT_OUT = "left_out"


@dataclass(frozen=True, slots=True)
class Given:
    """`claims` by claim_id or by the claim's place in the sheet, each {property: value}; `shown`: their texts there.

    `void`: why it does not count, though it names an answer. `at`: milliseconds since 1970.
    """

    source: str
    answer_id: str
    annotator: str | None
    said: Row
    claims: dict[str | int, Row]
    shown: dict[str | int, str] = field(default_factory=dict)
    at: int | None = None
    void: str | None = None

    @property
    def key(self) -> str:
        """The label_id, as far as it is known."""
        return self.answer_id if self.annotator is None else f"{self.answer_id}/{self.annotator}"


def filled(value: Any) -> bool:
    """Whether something was said: neither null, nor white space, nor an empty list."""
    return value is not None and value != [] and (not isinstance(value, str) or bool(value.strip()))


def name_of(value: Any) -> str | None:
    """An annotator's id: a text, or a number that a tool gave."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) and value.strip() else None


def seconds(value: Any) -> float | None:
    """A duration, where it is one."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
        return float(value)
    return None


def moment(value: Any) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 text, UTC where it names no zone; None for anything else."""
    try:
        when = datetime.fromisoformat(value)
        return int(when.replace(tzinfo=when.tzinfo or UTC).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        return None


def texts_of(value: Any) -> list[str] | None:
    """Several texts: a list, or one text that lines of `---` divide; None where it is neither."""
    if isinstance(value, str):
        blocks: list[list[str]] = [[]]
        for line in value.split("\n"):
            if line.strip() == DIVIDER:
                blocks.append([])
            else:
                blocks[-1].append(line)
        value = ["\n".join(block) for block in blocks]
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        return None
    return [text for text in value if text.strip()]


def without_empty(said: Iterable[tuple[str, Any]]) -> Row:
    """Of a tool's answers those that say something: its forms cannot give an empty text on purpose."""
    return {name: value for name, value in said if filled(value)}


def unknown_key(given: Row, known: Sequence[str]) -> str | None:
    """The first key that says something and is nearly one of the known ones; others are anybody's own."""
    for name, value in given.items():
        if name not in known and filled(value) and (near := nearest(name, (*known, LEFT_OUT), 0.75)):
            return f'"{name[:SHOWN_CHARS]}"' + (f', perhaps "{near}"' if near != name else "")
    return None


def nearest(name: str, known: Sequence[str], likeness: float) -> str | None:
    return next(iter(difflib.get_close_matches(name[:SHOWN_CHARS], known, 1, likeness)), None)


def misspelt(question: str) -> str | None:
    """Which property a question of a tool is meant for, though it is none; others may be anybody's own."""
    return nearest(question.rstrip("_0123456789"), (*ANSWER_PROPERTIES, *CLAIM_PROPERTIES, LEFT_OUT), 0.85)


def ill_formed(key: str, reason: str, raw: str, detail: str | None = None) -> Rejected:
    return Rejected(key, "defect", reason, detail, raw[:RAW_CHARS])
