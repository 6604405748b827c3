"""Replies that decline by their words: failures, however they come, except where the method counts them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from endpoint_server import Server, says, server

from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from longform.llm.models import Models
from longform.llm.retry import Retry
from schemas.replies import Corruption, Entailment

__all__ = ["server"]

REFUSAL = "I'm sorry, but I can't help with that."
CORRUPTION = {"claim": ["Tin melts at 232 degrees."], "corrupted_claim": ["Tin melts at 332 degrees."]}


def asked(home: Path, server: Server, request: Request, **options: Any) -> Answer | Failure:
    endpoint = Endpoint("mine", "m", base_url=f"http://127.0.0.1:{server.server_address[1]}/v1")
    with Models(home / "responses.sqlite", **options) as models:
        ((_, answer),) = models.client(endpoint).ask([(None, request)])
    return answer


def question(**more: Any) -> Request:
    return Request((("user", "What is tin?"),), task="x", **more)


def test_a_reply_that_declines_by_its_words_is_a_failure_with_its_text(tmp_path: Path, server: Server) -> None:
    server.fails = says(REFUSAL)
    answer = asked(tmp_path, server, question())
    assert isinstance(answer, Failure)
    assert (answer.kind, answer.detail["text"]) == ("refusal", REFUSAL)
    assert sum(server.bodies.values()) == 1


def test_a_stored_refusal_is_judged_anew_and_not_bought_again(tmp_path: Path, server: Server) -> None:
    server.fails = says(REFUSAL)
    counted = asked(tmp_path, server, question(declines=True))
    assert isinstance(counted, Answer)
    assert counted.text == REFUSAL
    assert isinstance(asked(tmp_path, server, question()), Failure)
    assert sum(server.bodies.values()) == 1


def test_a_stored_refusal_is_asked_again_where_failures_are(tmp_path: Path, server: Server) -> None:
    server.fails = says(REFUSAL)
    asked(tmp_path, server, question())
    server.fails = says("Tin is a metal.")
    again = asked(tmp_path, server, question(), retry=Retry.of(True))
    assert isinstance(again, Answer)
    assert again.text == "Tin is a metal."


def test_a_structured_reply_that_stays_unreadable_because_it_declines_is_a_refusal(
    tmp_path: Path, server: Server
) -> None:
    server.fails = says(REFUSAL)
    answer = asked(tmp_path, server, question(reply=Entailment))
    assert isinstance(answer, Failure)
    assert answer.kind == "refusal"
    assert sum(server.bodies.values()) == 2, "the first reply and one repair"


def test_an_unreadable_reply_that_declines_stays_unreadable_where_refusals_are_counted(
    tmp_path: Path, server: Server
) -> None:
    server.fails = says(REFUSAL)
    answer = asked(tmp_path, server, question(reply=Entailment, declines=True))
    assert isinstance(answer, Failure)


@pytest.mark.parametrize(("text", "kind"), [(REFUSAL, "refusal"), ("Tin melts at 332 degrees.", None)])
def test_a_text_of_a_structured_reply_that_declines_is_a_refusal(
    tmp_path: Path, server: Server, text: str, kind: str | None
) -> None:
    server.fails = says(json.dumps({**CORRUPTION, "corrupted_answer": text}))
    answer = asked(tmp_path, server, question(reply=Corruption, form="json"))
    assert (answer.kind if isinstance(answer, Failure) else None) == kind
