"""What scorers score: the answers to a question, with or without the evidence that they are read with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Group:
    """Answers to one question, which a listwise judge reads together. `answers`: (id, text), the ids different.

    `key` identifies the group. `question_id`, `set` and `evidence_id` are by what a file of scores is looked up;
    `question_id` is the key where it is not given, and `evidence_id` is empty without evidence.
    """

    key: str
    question: str
    evidence: tuple[str, ...]
    answers: Sequence[tuple[str, str]]
    question_id: str = ""
    set: str = ""
    evidence_id: str = ""


class Missing(NamedTuple):
    """Why an answer has no score: a short fixed phrase, by which reports count, and what is special about this one."""

    reason: str
    detail: str = ""


Found = float | Missing
Scored = tuple[Group, Sequence[Found]]  # a group, and what was found of each of its answers
