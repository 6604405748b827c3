"""The audits of KIWI: generated turns whose answer lost its references, is the one before, or in another language.

Turns that people rated, or that were imported, are never rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from longform.artifacts.rows import Row
from tasks.publishing.audits import Audit, Audits
from tasks.publishing.generated import CEILING, audits_of_texts, generated, is_generated
from tasks.text.audits.equality import equal_texts

SIMULATED = "simulated"
REFERENCE = re.compile(r"\[\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*\]")
_ON_REFERENCES = re.compile(r"\b(?:references?|citations?|cites?|numbers in brackets|sources?)\b", re.IGNORECASE)


def _lost(turn: Row) -> str | None:
    """What is wrong with a generated turn whose answer has no reference where the one before had some."""
    if turn["origin"] != SIMULATED or _ON_REFERENCES.search(turn["instruction"]):
        return None
    return (
        "the references were lost"
        if REFERENCE.search(turn["before"]) and not REFERENCE.search(turn["answer"])
        else None
    )


def _same(turn: Row) -> str | None:
    """What is wrong with a generated turn that left the answer as it was."""
    same = turn["origin"] == SIMULATED and equal_texts(turn["before"], turn["answer"])
    return "the answer is the one before" if same else None


def _answer(turn: Row) -> Iterator[tuple[str, str, str]]:
    if turn["origin"] == SIMULATED and is_generated(turn["response"], turn["model"]):
        yield "answer", turn["question"], turn["answer"]


def _initial(session: Row) -> Iterator[tuple[str, str, str]]:
    if session["origin"] == SIMULATED and is_generated(session["response"], session["model"]):
        yield "initial", session["question"], session["initial"]


OF_TURNS = (
    Audit("references_lost", CEILING, _lost),
    Audit("unchanged_answer", CEILING, _same),
    *audits_of_texts(_answer, generated()),
)
OF_ANSWERS = audits_of_texts(_initial, generated(), whole=True)
AUDITS = Audits(
    rows={"turns": OF_TURNS, "sessions": OF_ANSWERS},
    applied={"turns": "simulate_sessions", "sessions": "answer_first"},
)
