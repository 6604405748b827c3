"""Audits of generated turns: lost references, an answer left as it was; turns of people are looked at by none."""

from __future__ import annotations

from typing import Any

import pytest
from expertqa_tables import filled

from longform.artifacts.rows import Row
from schemas.kiwi import PUBLISHED_TURNS
from tasks.kiwi.audits import OF_ANSWERS, OF_TURNS
from tasks.publishing.audits import rejected_by

BEFORE = "People keep the jars of fruit closed with wax and with lids made of tin over the whole winter [0]."
GERMAN = "Die Leute halten die Gläser mit Wachs und mit Deckeln aus Blech den ganzen Winter über geschlossen [0]."
AFTER = "People keep the jars of fruit closed with wax, and some of them use lids made of tin as well [0][2]."


def turn(answer: str, before: str = BEFORE, **given: Any) -> Row:
    own = {"origin": "simulated", "question": "How do people keep jars of fruit closed over the winter?"}
    own |= {"instruction": "Say more of lids.", "before": before, "answer": answer, "model": "m", "response": "0f"}
    return filled(PUBLISHED_TURNS, turn_id="t", **{**own, **given})


CASES = [
    (AFTER, {}, None),
    (AFTER.replace("[0][2]", ""), {}, "references_lost"),
    (AFTER.replace("[0][2]", "[0, 2]"), {}, None),
    (AFTER.replace("[0][2]", "[1-3]"), {}, None),
    (AFTER.replace("[0][2]", "[2024]"), {}, "references_lost"),
    (AFTER.replace("[0][2]", "[x]"), {}, "references_lost"),
    (AFTER.replace("[0][2]", ""), {"instruction": "Remove all citations."}, None),
    (AFTER.replace("[0][2]", ""), {"instruction": "Take the numbers in brackets out."}, None),
    (AFTER.replace("[0][2]", ""), {"before": BEFORE.replace(" [0]", "")}, None),
    (BEFORE, {}, "unchanged_answer"),
    (f"  {BEFORE.replace(' ', '  ')}\n", {}, "unchanged_answer"),
    (f"```markdown\n{AFTER}\n```", {}, "wrapped"),
    (f"```\n{AFTER}\n```", {}, "wrapped"),
    (GERMAN, {}, "language"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "given", "audit"), CASES, ids=[f"{n}-{case[2]}" for n, case in enumerate(CASES)])
def test_a_generated_turn_is_rejected_by_the_audit_that_finds_it(answer: str, given: Row, audit: str | None) -> None:
    found = rejected_by(turn(answer, **given), OF_TURNS, "turn_id")
    assert (found and found.reason) == (f"audit: {audit}" if audit else None)


@pytest.mark.parametrize("origin", ["released", "page"])
@pytest.mark.parametrize(("answer", "given", "audit"), CASES, ids=range(len(CASES)))
def test_a_turn_that_people_rated_is_never_rejected(answer: str, given: Row, audit: str | None, origin: str) -> None:
    assert rejected_by(turn(answer, **given, origin=origin), OF_TURNS, "turn_id") is None


@pytest.mark.parametrize("model", ["offline-rules-1", None])
def test_texts_of_the_offline_model_which_quotes_papers_are_not_looked_at(model: str | None) -> None:
    rejected = rejected_by(turn(GERMAN, model=model, response="0f" if model else None), OF_TURNS, "turn_id")
    assert rejected is None
    first = {"origin": "simulated", "question": turn(AFTER)["question"], "initial": GERMAN}
    for name, found in ((model, None), ("m", "audit: language")):
        row = {**first, "question_id": "q", "model": name, "response": "0f" if name else None}
        got = rejected_by(row, OF_ANSWERS, "question_id")
        assert (got and got.reason) == found
