"""OpenAI's Responses API: what is sent, what comes back in whatever state, and that nothing is asked twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from http_server import Answer, Asked, Server, document, serve
from pydantic import BaseModel, ValidationError
from standin_server import serve as serve_standin

from flows.config.endpoints import EndpointConfig
from longform.errors import EndpointError, Incomplete
from longform.llm.ask import types
from longform.llm.ask.types import Endpoint, Failure, Price, Request
from longform.llm.client import Client
from longform.llm.estimate import Estimator
from longform.llm.models import Models
from longform.llm.responses.exchange import export_parquet, import_parquet
from longform.llm.responses.store import open_responses

PATH = "/v1/responses"
USAGE = {
    "input_tokens": 30,
    "input_tokens_details": {"cached_tokens": 10},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 12},
    "total_tokens": 50,
}


class Cellar(BaseModel):
    degrees: int


def reply(*parts: dict[str, Any], status: str = "completed", **fields: Any) -> dict[str, Any]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": list(parts)}
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "status": status, "error": None,
        "incomplete_details": None, "model": "gpt-x-2026", "usage": USAGE,
        "output": [{"id": "rs_1", "type": "reasoning", "summary": []}, message], **fields,
    }  # fmt: skip


def text(words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": words, "annotations": [], **fields}


def incomplete(reason: str, words: str = "It is co") -> dict[str, Any]:
    return reply(text(words), status="incomplete", incomplete_details={"reason": reason})


def question(words: str = "How warm is it?", **fields: Any) -> Request:
    return Request((("system", "Answer."), ("user", words)), task="cellar", max_tokens=99, **fields)


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as server:
        yield server


@contextmanager
def asking(url: str, tmp_path: Path, **settings: Any) -> Iterator[Client]:
    capabilities = frozenset[types.Capability]({"json_schema", "logprobs"})
    settings = {"api": "responses", "capabilities": capabilities, "price": Price(2.0, 8.0, 0.5), **settings}
    with Models(tmp_path / "r.sqlite", first_pause_seconds=0.01) as models:
        yield models.client(Endpoint("mine", "gpt-x", base_url=url, **settings))


def one(client: Client, request: Request) -> Any:
    ((_, answer),) = client.ask([(0, request)])
    return answer


def sent(server: Server) -> list[dict[str, Any]]:
    return [json.loads(asked.body) for asked in server.asked]


def test_a_question_and_its_answer(server: Server, tmp_path: Path) -> None:
    server.on(PATH, document(reply(text("Twelve "), text("degrees."))))
    with asking(f"{server.url}/v1", tmp_path, parameters=(("reasoning", {"effort": "low"}),)) as client:
        answer = one(client, question())
        record = client.models.store.get([answer.key])[answer.key]
        assert one(client, question()).cached
    assert sent(server) == [
        {
            "input": [{"role": "system", "content": "Answer."}, {"role": "user", "content": "How warm is it?"}],
            "max_output_tokens": 99,
            "model": "gpt-x",
            "reasoning": {"effort": "low"},
            "store": False,
        }
    ]
    assert (answer.text, answer.finish, answer.model) == ("Twelve degrees.", "stop", "gpt-x-2026")
    tokens = record.input_tokens, record.cached_tokens, record.output_tokens, record.reasoning_tokens
    assert tokens == (30, 10, 20, 12)
    assert record.cost_nano == 20 * 2_000 + 10 * 500 + 20 * 8_000


def test_a_reply_in_a_form_with_log_probabilities(server: Server, tmp_path: Path) -> None:
    said = [{"token": "12", "logprob": -0.1, "bytes": [49, 50], "top_logprobs": []}]
    server.on(PATH, document(reply(text('{"degrees": 12}', logprobs=said))))
    with asking(f"{server.url}/v1", tmp_path) as client:
        answer = one(client, question(reply=Cellar, form="json", logprobs=2))
        again = one(client, question(reply=Cellar, form="json", logprobs=2))
    (body,) = sent(server)
    schema = {
        "type": "object", "properties": {"degrees": {"type": "integer"}}, "required": ["degrees"],
        "additionalProperties": False,
    }  # fmt: skip
    given = body["text"]["format"]
    assert given.pop("schema").items() >= schema.items()
    assert given == {"type": "json_schema", "name": "Cellar", "strict": True}
    assert (body["include"], body["top_logprobs"]) == (["message.output_text.logprobs"], 2)
    assert (answer.value, answer.logprobs) == (Cellar(degrees=12), said)
    assert (again.value, again.logprobs, again.cached) == (answer.value, said, True)


@pytest.mark.parametrize(
    ("came", "kind", "calls"),
    [
        (reply({"type": "refusal", "refusal": "I will not."}), "refusal", 1),
        (incomplete("content_filter"), "filter", 1),
        (incomplete("max_output_tokens"), "length", 2),
        (reply(text("")), "empty", 2),
        (reply() | {"output": [{"type": "reasoning", "summary": []}]}, "empty", 2),
    ],
)
def test_replies_of_no_use_are_failures_of_their_kind(
    server: Server, tmp_path: Path, came: dict[str, Any], kind: str, calls: int
) -> None:
    server.on(PATH, document(came))
    for _ in range(2):
        with asking(f"{server.url}/v1", tmp_path) as client:
            answer = one(client, question())
        assert isinstance(answer, Failure)
        assert (answer.kind, len(server.asked)) == (kind, calls)


def test_a_reply_that_is_cut_off_is_asked_for_with_twice_the_room(server: Server, tmp_path: Path) -> None:
    server.on(PATH, document(incomplete("max_output_tokens")), document(reply(text("It is cold."))))
    with asking(f"{server.url}/v1", tmp_path) as client:
        assert one(client, question()).text == "It is cold."
    assert [body["max_output_tokens"] for body in sent(server)] == [99, 198]


def test_a_reply_that_is_not_in_the_form_is_sent_back_and_an_empty_one_asked_for_without(
    server: Server, tmp_path: Path
) -> None:
    server.on(PATH, document(reply(text("Twelve."))), document(reply(text('{"degrees": 12}'))))
    with asking(f"{server.url}/v1", tmp_path) as client:
        assert one(client, question(reply=Cellar, form="json")).value == Cellar(degrees=12)
        server.on(PATH, document(reply(text(" "))), document(reply(text('{"degrees": 13}'))))
        assert one(client, question("And now?", reply=Cellar, form="json")).value == Cellar(degrees=13)
    _, repair, _, again = sent(server)
    assert [message["role"] for message in repair["input"]][:3] == ["system", "user", "assistant"]
    assert ("messages" in repair, "text" in repair, "text" in again) == (False, True, False)


ERROR = {"code": "server_error", "message": "The model failed."}


@pytest.mark.parametrize(
    "came",
    [
        reply(status="failed", error=ERROR, output=[]),
        reply(text("half of"), status="failed", error=ERROR),
        reply(text("half of"), status="cancelled"),
        reply(status="queued", output=[]),
        reply(output=[]),
        reply(output=[7, {"type": "message", "content": "no parts"}], status="in_progress"),
        incomplete("a reason that nobody knows"),
    ],
)
def test_a_reply_that_failed_is_none_and_is_asked_for_again(
    server: Server, tmp_path: Path, came: dict[str, Any]
) -> None:
    server.on(PATH, document(came), document(reply(text("It is cold."))))
    with asking(f"{server.url}/v1", tmp_path) as client:
        assert one(client, question()).text == "It is cold."
    assert len(server.asked) == 2


def test_errors_stop_or_pass_as_those_of_chat_completions_do(server: Server, tmp_path: Path) -> None:
    server.on(PATH, document({"error": {"message": "Unknown parameter: 'seed'.", "param": "seed"}}, 400))
    with (
        asking(f"{server.url}/v1", tmp_path, parameters=(("seed", 1),)) as client,
        pytest.raises(EndpointError) as told,
    ):
        one(client, question())
    assert "take seed out of its parameters" in str(told.value)
    quoted = {
        "error": {
            "message": "Unsupported parameter: 'max_output_tokens'. Asked: How warm is it in\nthe very old cellar?"
        }
    }
    server.on(PATH, document(quoted, 400))
    with asking(f"{server.url}/v1", tmp_path) as client, pytest.raises(EndpointError) as told:
        one(client, question("How warm is it in\nthe very old cellar?"))
    assert "limit_field" not in str(told.value)
    assert "very old" not in str(told.value)
    server.on(PATH, document({"error": {"message": "down"}}, 500))
    with asking(f"{server.url}/v1", tmp_path) as client, pytest.raises(Incomplete):
        one(client, question())


def test_the_same_question_by_chat_is_another_one(server: Server, tmp_path: Path) -> None:
    server.on(PATH, document(reply(text("By responses."))))
    choice = {"message": {"role": "assistant", "content": "By chat."}, "finish_reason": "stop"}
    server.on("/v1/chat/completions", document({"choices": [choice], "model": "gpt-x"}))
    with asking(f"{server.url}/v1", tmp_path) as client:
        found = [one(client, question())]
        chat = client.models.client(replace(client.endpoint, name="other", api="chat"))
        found.append(one(chat, question()))
        assert client.endpoint.identity() == {**chat.endpoint.identity(), "endpoint": "mine", "api": "responses"}
    assert [answer.text for answer in found] == ["By responses.", "By chat."]
    assert found[0].key != found[1].key


def test_samples_are_asked_for_one_by_one_and_stored_apart(server: Server, tmp_path: Path) -> None:
    server.on(PATH, document(reply(text("One."))), document(reply(text("Two."))))
    with asking(f"{server.url}/v1", tmp_path, concurrency=1) as client:
        said = [answer.text for _, answer in client.ask([(0, question(samples=2))])]  # type: ignore[union-attr]
        assert sorted(said) == ["One.", "Two."]
        assert [answer.text for _, answer in client.ask([(0, question(samples=2))])] == said  # type: ignore[union-attr]
    assert ["n" in body for body in sent(server)] == [False, False]


def test_answers_travel_in_an_export(server: Server, tmp_path: Path) -> None:
    server.on(PATH, document(incomplete("max_output_tokens")), document(reply(text("It is cold."))))
    with asking(f"{server.url}/v1", tmp_path) as client:
        one(client, question())
    (there := tmp_path / "there").mkdir()
    with closing(open_responses(tmp_path / "r.sqlite")) as store:
        assert export_parquet(store, tmp_path / "r.parquet") == 2
    with closing(open_responses(there / "r.sqlite")) as store:
        assert import_parquet(store, tmp_path / "r.parquet") == (2, 0)
    with asking(f"{server.url}/v1", there) as client:
        assert one(client, question()).text == "It is cold."
    assert len(server.asked) == 2


@pytest.mark.parametrize("capability", ["n", "batch"])
def test_what_only_chat_completions_can_is_refused_in_the_configuration(capability: str) -> None:
    settings: dict[str, Any] = {"base_url": "http://127.0.0.1:1/v1", "model": "m", "capabilities": [capability]}
    EndpointConfig(**settings)
    with pytest.raises(ValidationError, match=f'"{capability}" needs api = "chat"'):
        EndpointConfig(**settings, api="responses")


def echo(asked: Asked) -> Answer:
    """Says the question back, with a reasoning of three times the limit beside it."""
    body = json.loads(asked.body)
    thought = 3 * body["max_output_tokens"]
    usage = {**USAGE, "output_tokens": thought + 5, "output_tokens_details": {"reasoning_tokens": thought}}
    return document(reply(text(body["input"][-1]["content"]), usage=usage))


def test_the_faults_of_the_stand_in_are_survived_and_nothing_is_bought_twice(tmp_path: Path) -> None:
    faults = ("500", "reset", "broken", "shape", "429-bare", "truncated", "length", "refusal", "filtered")
    asked = [(n, question(f"What of number {n}?", reply=Cellar, form="json", logprobs=1)) for n in range(60)]
    with serve_standin(script=[{"fault": name} for name in faults], headers=False) as standin:
        with asking(standin.url, tmp_path) as client:
            first = [answer for _, answer in client.ask(asked)]
        counted = standin.counters()
        with asking(standin.url, tmp_path) as client:
            second = [answer for _, answer in client.ask(asked)]
        assert standin.counters()["requests"] == counted["requests"]
    assert counted["requests"].keys() == {"POST /v1/responses"}
    kinds = {answer.kind for answer in first if isinstance(answer, Failure)}
    answers = [answer for answer in first if not isinstance(answer, Failure)]
    assert kinds == {"refusal", "filter"}
    assert len(answers) == 58
    assert all(isinstance(answer.value, Cellar) and answer.logprobs for answer in answers)
    assert [getattr(answer, "text", "") for answer in second] == [getattr(answer, "text", "") for answer in first]


def test_reasoning_beside_the_limit_is_set_aside(server: Server, tmp_path: Path) -> None:
    server.on(PATH, echo)
    capabilities = frozenset[types.Capability]({"reasoning"})
    with asking(f"{server.url}/v1", tmp_path, capabilities=capabilities, price=Price(0.0, 1.0)) as client:
        one(client, question())
        assert client.models.budget.spent_nano == (3 * 99 + 5) * 1_000  # type: ignore[attr-defined]


def test_a_plan_counts_the_attempt_that_is_left_after_a_reply_that_was_cut_off(server: Server, tmp_path: Path) -> None:
    server.on(PATH, document(incomplete("max_output_tokens")), document({"error": {"message": "no"}}, 401))
    with asking(f"{server.url}/v1", tmp_path) as client, pytest.raises(EndpointError):
        one(client, question())
    where = tmp_path / "r.sqlite"
    with (
        closing(open_responses(where, read_only=True)) as store,
        closing(Estimator(client.endpoint, store)) as estimator,
    ):
        estimator.add(question())
        found = estimator.estimate()
    assert (found.calls, found.cached, found.output_tokens_at_most) == (1, 0, 198 + 16)
