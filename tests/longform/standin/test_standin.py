"""The stand-in over real HTTP: what a client receives, and what the counters show."""

from __future__ import annotations

import gc
import http.client
import json
import math
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jsonschema
import paths
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from offline_rules import RULES, respond, task_of
from processes import started
from standin_server import Server, serve, standin

from longform.errors import UsageError
from longform.llm.ask.fence import fenced
from longform.llm.ask.prompts import load_prompt
from longform.llm.ask.types import Request
from longform.llm.gate.limits import duration
from longform.llm.read.structured import read_reply, repair_messages, response_format
from longform.llm.send.bodies import read_completion
from longform.standin.faults import BATCH_FAULTS, FAULTS, read_script, shares_of
from longform.standin.limits import Bucket, go_duration
from longform.standin.replies import vector
from schemas.replies import Corruption

__all__ = ["standin"]

ROOT = paths.ROOT
DOCS = (ROOT / "docs" / "standin.md").read_text().partition("## Sources")[0]
LONGFORM = str(Path(sys.executable).with_name("longform"))
CHAT = "/v1/chat/completions"
QUESTION = "How long does an opened keg of beer keep?\n\nI poured half of it on Friday."
PASSAGES = ["An opened keg of beer keeps for six weeks if it stays cold. Is that long?", "Dogs like gardens very much."]
ANSWER = "An opened keg of beer keeps for 6 weeks in the cold. In 1842 it was brewed by Josef Groll in Pilsen."
INPUTS: dict[str, dict[str, Any]] = {
    "open_book": {"question": QUESTION, "passages": PASSAGES},
    "closed_book": {"question": QUESTION},
    "corrupt": {"question": QUESTION, "passages": PASSAGES, "answer": ANSWER},
    "combine": {"question": QUESTION, "first": ANSWER, "second": " ".join(PASSAGES)},
}


class Got:
    def __init__(self, response: http.client.HTTPResponse, body: bytes) -> None:
        self.status, self.headers, self.body = response.status, response.headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> Any:
        return self.json["choices"][0]["message"]["content"]


@contextmanager
def connection(server: Server, seconds: float = 600) -> Iterator[http.client.HTTPConnection]:
    made = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=seconds)
    try:
        yield made
    finally:
        made.close()


def send(server: Server, method: str, path: str, body: Any = None, seconds: float = 600, **headers: str) -> Got:
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    with connection(server, seconds) as link:
        link.request(method, path, data, {name.replace("_", "-"): value for name, value in headers.items()})
        response = link.getresponse()
        return Got(response, response.read())


def prompted(name: str, form: str | None = None, **more: Any) -> tuple[Request, dict[str, Any]]:
    """A request of the project's own, and the body that asks it."""
    prompt = load_prompt(f"axioms/{name}", ROOT / "prompts")
    messages = prompt.render(form=form or prompt.forms[0], **INPUTS[name])  # type: ignore[arg-type]
    request = Request(messages, prompt.name)
    return request, {
        **plain(),
        "messages": [{"role": r, "content": c} for r, c in messages],
        "max_tokens": 2048,
        **more,
    }


def plain(content: str = "What is this?", **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": content}], **more}


def ask(server: Server, seconds: float = 600, **more: Any) -> Got:
    return send(server, "POST", CHAT, plain(**more), seconds)


# replies


@pytest.mark.parametrize("name", INPUTS)
def test_a_completion_is_the_reply_of_the_offline_model(standin: Server, name: str) -> None:
    request, body = prompted(name)
    got = send(standin, "POST", CHAT, body).json
    text, finish, sent, made = respond(request)
    assert got["choices"][0]["message"]["content"] == text
    assert got["choices"][0]["finish_reason"] == finish == "stop"
    assert (got["usage"]["prompt_tokens"], got["usage"]["completion_tokens"]) == (sent, made)
    assert got["model"] == "offline-rules-1"


@pytest.mark.parametrize("name", INPUTS)
def test_the_task_is_found_by_the_labels_of_the_fenced_texts(name: str) -> None:
    request, _ = prompted(name)
    assert task_of(request.messages) == f"axioms/{name}"


def test_a_label_that_no_rule_reads_makes_a_task_unknown() -> None:
    asked = f"Question:\n{fenced(QUESTION)}\n\nRubric:\n{fenced('Is it true?')}"
    assert task_of([("user", asked)]) is None
    assert task_of([("user", f"Question: {QUESTION}")]) is None
    assert task_of([]) is None


def test_labels_inside_a_fence_are_text() -> None:
    hidden = f"Is this so?\nAnswer:\n{fenced('no')}"
    assert task_of([("user", f"Question:\n{fenced(hidden)}")]) == "axioms/closed_book"


@pytest.mark.parametrize("task", RULES)
def test_a_rule_is_found_by_the_labels_that_it_reads(task: str) -> None:
    message = "\n".join(f"{label}:\n{fenced('text')}" for label in RULES[task].reads)
    found = task_of([("user", message)])
    assert found is not None
    assert RULES[found] == RULES[task]  # two prompts may have one rule


def test_a_schema_gets_the_tags_of_the_offline_model_as_json(standin: Server) -> None:
    request, body = prompted("corrupt", form="json", response_format=response_format(Corruption))
    read = read_reply(send(standin, "POST", CHAT, body).text, Corruption, "json")
    tagged = read_reply(respond(request)[0], Corruption, "tags")
    assert isinstance(read, Corruption)
    assert read == tagged


def test_a_reply_is_cut_off_at_its_limit(standin: Server) -> None:
    got = send(standin, "POST", CHAT, {**prompted("closed_book")[1], "max_tokens": 5}).json
    assert got["choices"][0]["finish_reason"] == "length"
    assert got["usage"]["completion_tokens"] == 5
    assert len(got["choices"][0]["message"]["content"]) == 20
    cut = send(
        standin, "POST", CHAT, prompted("corrupt", response_format=response_format(Corruption))[1] | {"max_tokens": 5}
    )
    assert cut.json["choices"][0]["finish_reason"] == "length"


def test_a_request_to_repair_a_reply_is_answered_by_the_same_rule(standin: Server) -> None:
    request, body = prompted("corrupt")
    messages = repair_messages(request.messages, "I cannot.", "no claim tags in the reply", "tags")
    again = {**body, "messages": [{"role": role, "content": content} for role, content in messages]}
    assert send(standin, "POST", CHAT, again).text == respond(request)[0]


SCHEMA = {
    "type": "object",
    "properties": {
        "verdict": {"enum": ["yes", "no"]},
        "score": {"type": "integer", "minimum": 3, "maximum": 5},
        "share": {"type": "number"},
        "why": {"type": ["string", "null"]},
        "parts": {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/Part"}},
    },
    "required": ["verdict", "score", "share", "why", "parts"],
    "$defs": {
        "Part": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 9},
                "next": {"anyOf": [{"$ref": "#/$defs/Part"}, {"type": "null"}]},
            },
            "required": ["name", "next"],
        }
    },
}


def test_an_unknown_task_fills_its_schema(standin: Server) -> None:
    said = set()
    for number in range(30):
        asked = plain(f"Number {number}", response_format={"type": "json_schema", "json_schema": {"schema": SCHEMA}})
        text = send(standin, "POST", CHAT, asked).text
        jsonschema.validate(json.loads(text), SCHEMA)
        assert send(standin, "POST", CHAT, asked).text == text
        said.add(text)
    assert len(said) == 30


def test_an_unknown_task_gets_a_text_that_names_the_missing_rule(standin: Server) -> None:
    text = ask(standin).text
    assert text.endswith("\n=====")
    assert "rule" in text or "none of them" in text


def test_choices_differ_and_are_paid_for_together(standin: Server) -> None:
    got = send(standin, "POST", CHAT, prompted("closed_book", n=3, seed=5)[1]).json
    texts = [choice["message"]["content"] for choice in got["choices"]]
    assert [choice["index"] for choice in got["choices"]] == [0, 1, 2]
    assert len(set(texts)) == 3
    assert texts[0] == respond(prompted("closed_book")[0])[0]
    assert got["usage"]["completion_tokens"] == sum(-(-len(text) // 4) for text in texts)


def test_logprobs_spell_the_reply(standin: Server) -> None:
    got = ask(standin, logprobs=True, top_logprobs=2).json
    entries = got["choices"][0]["logprobs"]["content"]
    assert "".join(entry["token"] for entry in entries) == got["choices"][0]["message"]["content"]
    assert len(entries) == got["usage"]["completion_tokens"]
    assert all(entry["logprob"] <= 0 and len(entry["top_logprobs"]) == 2 for entry in entries)
    assert all(bytes(entry["bytes"]).decode() == entry["token"] for entry in entries)


def test_embeddings_are_unit_vectors_and_near_texts_are_near(standin: Server) -> None:
    texts = ["The keg is cold and full of beer.", "The keg is warm and full of beer.", "Dogs run in a garden."]
    got = send(standin, "POST", "/v1/embeddings", {"model": "m", "input": texts}).json
    first, near, far = (row["embedding"] for row in got["data"])
    assert [row["index"] for row in got["data"]] == [0, 1, 2]
    assert all(math.isclose(math.hypot(*each), 1, abs_tol=1e-5) for each in (first, near, far))
    assert dot(first, near) > 0.6 > 0.4 > dot(first, far)
    alone = send(standin, "POST", "/v1/embeddings", {"model": "m", "input": texts[0], "dimensions": 64}).json
    assert len(alone["data"][0]["embedding"]) == 64


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


@given(st.text(min_size=1), st.integers(min_value=1, max_value=300))
def test_any_text_has_a_unit_vector(text: str, dimensions: int) -> None:
    assert math.isclose(math.hypot(*vector(text, dimensions)), 1, abs_tol=1e-5)


# the openai SDK as another reader of the same shapes


def test_the_openai_sdk_reads_every_answer(standin: Server, tmp_path: Path) -> None:
    import openai

    path = tmp_path / "in.jsonl"
    path.write_bytes(lines_of(3))
    with openai.OpenAI(api_key="k", base_url=standin.url, max_retries=0) as sdk:
        said = sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": "So?"}], n=2)
        assert [choice.index for choice in said.choices] == [0, 1]
        assert said.usage
        assert said.usage.total_tokens
        vectors = sdk.embeddings.create(model="m", input=["a keg", "a dog"])
        assert vectors.data[1].embedding == pytest.approx(vector("a dog", 256), abs=1e-6)
        assert [model.id for model in sdk.models.list()] == ["offline-rules-1"]
        file = sdk.files.create(file=path, purpose="batch")
        assert (file.bytes, file.filename) == (len(lines_of(3)), "in.jsonl")
        made = [
            sdk.batches.create(
                input_file_id=file.id, endpoint=CHAT, completion_window="24h", metadata={"job": f"j{number}"}
            )
            for number in range(3)
        ]
        assert [each.metadata for each in sdk.batches.list(limit=1)] == [{"job": "j2"}, {"job": "j1"}, {"job": "j0"}]
        ended = wait_for_end(standin, made[0].id)
        assert ended["status"] == "completed"
        assert len(sdk.files.content(ended["output_file_id"]).text.splitlines()) == 3
        assert sdk.files.delete(file.id).deleted
        with pytest.raises(openai.NotFoundError):
            sdk.files.retrieve(file.id)
    assert standin.counters()["jobs"] == {"j0": 1, "j1": 1, "j2": 1}


# faults on the wire

STATUSES = {
    "429": (429, "rate_limit_exceeded"),
    "429-bare": (429, "rate_limit_exceeded"),
    "quota": (429, "insufficient_quota"),
    "401": (401, "invalid_api_key"),
    "401-echo": (401, "invalid_api_key"),
    "404": (404, "model_not_found"),
    "context": (400, "context_length_exceeded"),
    "filter": (400, "content_filter"),
    "parameter": (400, "unknown_parameter"),
    "500": (500, None),
    "503": (503, None),
}
FINISHES = {
    "length": "length",
    "whitespace": "length",
    "filtered": "content_filter",
    "refusal": "stop",
    "empty": "stop",
}


@pytest.mark.parametrize(("name", "status", "code"), [(name, *expected) for name, expected in STATUSES.items()])
def test_a_refusal_has_its_status_and_code(standin: Server, name: str, status: int, code: str | None) -> None:
    standin.script([{"fault": name, "retry_after": 0.5}])
    got = send(standin, "POST", CHAT, plain(), authorization="Bearer canary-1")
    assert (got.status, got.json["error"]["code"]) == (status, code)
    assert got.headers["retry-after"] == ("0.5" if name in ("429", "503") else None)
    assert ("canary-1" in got.body.decode()) == (name == "401-echo")
    counted = standin.counters()
    assert (counted["outcomes"], counted["tokens"]) == ({name: 1}, {"prompt": 0, "completion": 0})
    assert ask(standin).status == 200


def test_a_bad_gateway_is_html(standin: Server) -> None:
    standin.script([{"fault": "502"}])
    got = ask(standin)
    assert (got.status, got.headers["content-type"]) == (502, "text/html")
    assert got.body.startswith(b"<html>")


@pytest.mark.parametrize("name", ["reset", "reset-early"])
def test_a_reset_is_a_reset_and_costs_only_what_was_answered(standin: Server, name: str) -> None:
    standin.script([{"fault": name}])
    with pytest.raises(ConnectionResetError):
        ask(standin)
    billed = standin.counters()["tokens"]["completion"]
    assert (billed > 0) == (name == "reset")
    assert standin.counters()["answered_bodies"] == 0


def test_a_drip_outlives_a_time_out_on_each_read(standin: Server) -> None:
    standin.script([{"fault": "drip", "seconds": 3}, {"fault": "drip"}])
    started = time.monotonic()
    whole = ask(standin, seconds=1.5)
    assert time.monotonic() - started >= 3
    assert whole.status == 200
    assert whole.text
    with connection(standin) as link:
        link.request("POST", CHAT, json.dumps(plain()), {})
        assert len(link.getresponse().read(1)) == 1


def test_a_truncated_body_is_shorter_than_its_content_length(standin: Server) -> None:
    standin.script([{"fault": "truncated"}])
    with pytest.raises(http.client.IncompleteRead) as caught:
        ask(standin)
    assert caught.value.partial
    assert caught.value.expected


def test_broken_json_and_another_shape_are_no_completions(standin: Server) -> None:
    standin.script([{"fault": "broken"}, {"fault": "shape"}])
    broken, shape = ask(standin), ask(standin)
    assert broken.status == shape.status == 200
    with pytest.raises(json.JSONDecodeError):
        json.loads(broken.body)
    assert isinstance(shape.json, dict)
    assert read_completion(shape.body) is None
    assert standin.counters()["answered_bodies"] == 0


@pytest.mark.parametrize("name", FINISHES)
def test_a_fault_of_the_reply_replaces_the_message(standin: Server, name: str) -> None:
    standin.script([{"fault": name}])
    got = ask(standin, max_tokens=40)
    completion = read_completion(got.body)
    assert completion is not None
    assert completion.finish == FINISHES[name]
    assert bool(completion.refusal) == (name == "refusal")
    assert bool(completion.text.strip(" \t\n{")) == (name == "length")
    assert (completion.tokens[2] == 40) == (completion.finish == "length")
    assert standin.counters()["answered_bodies"] == (0 if name in ("whitespace", "empty") else 1)
    assert standin.counters()["tokens"]["completion"] == completion.tokens[2]


def test_a_slow_answer_comes_late_and_others_pass_it(standin: Server) -> None:
    standin.script([{"fault": "slow", "seconds": 0.4}, {"fault": "slow", "seconds": 3_600}])
    started = time.monotonic()
    assert ask(standin).status == 200
    assert time.monotonic() - started >= 0.4
    with connection(standin) as link:
        link.request("POST", CHAT, json.dumps(plain()))
        while not standin.counters()["in_flight"]:
            time.sleep(0.005)
        assert ask(standin).status == 200
        counted = standin.counters()
    assert (counted["in_flight"], counted["in_flight_highest"]) == (1, 2)


def test_every_fault_is_documented_and_tested_here() -> None:
    listed = next(part for part in DOCS.split("## ") if part.startswith("What goes wrong"))
    source = Path(__file__).read_text()
    assert [name for name in FAULTS if f"`{name}`" not in listed] == []
    assert [name for name in FAULTS if f'"{name}"' not in source] == []
    assert [name for name in BATCH_FAULTS if name not in listed] == []


def test_shares_are_kept_to_and_a_seed_draws_the_same_again() -> None:
    outcomes = []
    for _ in range(2):
        with serve(faults={"500": 0.2, "empty": 0.3}, seed=7) as server, connection(server) as link:
            got = [posted(link, plain()) for _ in range(400)]
            outcomes.append([each.status if each.status != 200 else each.text for each in got])
            counted = server.counters()["outcomes"]
            assert 50 <= counted["500"] <= 110
            assert 85 <= counted["empty"] <= 155
            assert sum(counted.values()) == 400
            server.set_faults({})
            assert posted(link, plain()).status == 200
    assert outcomes[0] == outcomes[1]


def posted(link: http.client.HTTPConnection, body: dict[str, Any]) -> Got:
    link.request("POST", CHAT, json.dumps(body).encode())
    response = link.getresponse()
    return Got(response, response.read())


def test_a_script_may_wait_for_a_path(standin: Server) -> None:
    standin.script([{"fault": "500", "path": "GET /v1/batches"}, {"fault": "reset", "path": "POST /v1/files"}])
    assert ask(standin).status == 200
    assert send(standin, "GET", "/v1/batches").status == 500
    assert send(standin, "GET", "/v1/batches").status == 200
    with pytest.raises(ConnectionResetError):
        upload(standin, lines_of(1))
    assert len(send(standin, "GET", "/v1/files").json["data"]) == 1


@pytest.mark.parametrize(
    "words", [["50=0.1"], ["500"], ["500=x"], ["500=1.5"], ["500=nan"], ["500=0.6", "404=0.6"], ["500=-0.1"]]
)
def test_shares_that_make_no_sense_are_refused(words: list[str]) -> None:
    with pytest.raises(UsageError), serve(faults=shares_of(words)):
        pass


NO_LINES = ["[]", "{", '{"fault": "x"}', '{"fault": []}', '{"fault": "500", "seconds": "1"}', '{"a": 1}']


@pytest.mark.parametrize("line", NO_LINES)
def test_a_script_that_makes_no_sense_is_refused_by_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "script"
    path.write_text(f"{{}}\n{line}\n")
    with pytest.raises(UsageError, match="Line 2 "):
        read_script(path)


# limits


def test_a_bucket_lets_through_its_burst_and_then_its_rate() -> None:
    with serve(rpm=120, burst=5) as server, connection(server) as link:
        started = time.monotonic()
        got = [posted(link, plain()) for _ in range(5)]
        assert {each.status for each in got} == {200}
        for _ in range(4):
            while got[-1].status == 200:
                got.append(posted(link, plain()))
            time.sleep(int(got[-1].headers["retry-after-ms"]) / 1000)
            got.append(posted(link, plain()))
            assert got[-1].status == 200, "retry-after-ms was the wait"
        passed = sum(each.status == 200 for each in got)
        assert passed <= 5 + 2 * (time.monotonic() - started)
        assert server.counters()["outcomes"] == {"answered": passed, "limited": len(got) - passed}
        refused = next(each for each in got if each.status == 429)
        assert refused.json["error"]["code"] == "rate_limit_exceeded"
        assert 1 <= int(refused.headers["retry-after-ms"]) <= 501
        assert refused.headers["retry-after"] == "1"


def test_headers_tell_the_rate() -> None:
    with serve(rpm=6000, tpm=60_000, burst=100) as server, connection(server) as link:
        headers = [posted(link, plain(max_tokens=50)).headers for _ in range(30)][-1]
        for name, capacity, per_second in (("requests", 100, 100), ("tokens", 60_000, 1000)):
            assert headers[f"x-ratelimit-limit-{name}"] == str(capacity)
            used = capacity - int(headers[f"x-ratelimit-remaining-{name}"])
            until_full = duration(headers[f"x-ratelimit-reset-{name}"])
            assert until_full is not None
            assert used == pytest.approx(until_full[0] * per_second, abs=0.1 * used + 1.2)


def test_tokens_are_charged_with_the_most_a_reply_may_be() -> None:
    with serve(tpm=1000) as server:
        started = time.monotonic()
        body = plain("x" * 400, max_tokens=400)
        assert send(server, "POST", CHAT, body).status == 200
        remaining = int(send(server, "POST", CHAT, body).headers["x-ratelimit-remaining-tokens"])
        assert remaining <= 1000 / 60 * (time.monotonic() - started)
        refused = send(server, "POST", CHAT, body)
        assert refused.status == 429
        assert 30 - (time.monotonic() - started) <= float(refused.headers["retry-after"]) <= 30
        too_large = send(server, "POST", CHAT, plain(max_tokens=1001))
        assert too_large.status == 429
        assert too_large.headers["retry-after"] is None


def test_headers_can_be_left_out() -> None:
    with serve(rpm=1, headers=False) as server:
        started = time.monotonic()
        assert [name for name in ask(server).headers if name.startswith("x-ratelimit")] == []
        assert 60 - (time.monotonic() - started) <= int(ask(server).headers["retry-after"]) <= 60


@given(st.lists(st.tuples(st.floats(0, 30), st.integers(1, 50)), max_size=30), st.integers(1, 600), st.integers(1, 100))
def test_a_bucket_never_lets_through_more_than_it_held_and_got(
    asked: list[tuple[float, int]], per_minute: int, capacity: int
) -> None:
    now = 0.0
    bucket, passed = Bucket(per_minute, capacity, lambda: now), 0
    for seconds, amount in asked:
        now += seconds
        if bucket.seconds_until(amount) == 0:
            bucket.take(amount)
            passed += amount
        elif amount <= capacity:
            now += bucket.seconds_until(amount) + 1e-6
            assert bucket.level() >= amount
        assert passed <= capacity + now * per_minute / 60 + 1e-6


@given(st.integers(0, 10**8))
def test_a_duration_is_written_as_go_writes_it(milliseconds: int) -> None:
    written = go_duration(milliseconds / 1000)
    assert re.fullmatch(r"\d+ms|(?:(?:\d+h)?\d+m)?\d+(?:\.\d{1,3})?s", written)
    read = duration(written)
    assert read is not None
    assert read[0] == pytest.approx(milliseconds / 1000)


# files and batches


def lines_of(number: int, **changes: Any) -> bytes:
    lines = [
        {"custom_id": f"c{at}", "method": "POST", "url": CHAT, "body": plain(f"Number {at}"), **changes}
        for at in range(number)
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def upload(server: Server, content: bytes, purpose: str = "batch") -> Got:
    parts = [
        f'--b1\r\nContent-Disposition: form-data; name="purpose"\r\n\r\n{purpose}\r\n',
        '--b1\r\nContent-Disposition: form-data; name="file"; filename="in.jsonl"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n",
    ]
    body = "".join(parts).encode() + content + b"\r\n--b1--\r\n"
    return send(server, "POST", "/v1/files", body, content_type="multipart/form-data; boundary=b1")


def start(server: Server, content: bytes, **more: Any) -> dict[str, Any]:
    name = upload(server, content).json["id"]
    body = {"input_file_id": name, "endpoint": CHAT, "completion_window": "24h", **more}
    got = send(server, "POST", "/v1/batches", body)
    assert got.status == 200
    return dict(got.json)


def wait_for_end(server: Server, name: str) -> dict[str, Any]:
    end = time.monotonic() + 600
    while time.monotonic() < end:
        shown = dict(send(server, "GET", f"/v1/batches/{name}").json)
        if shown["status"] in ("completed", "failed", "expired", "cancelled"):
            return shown
        time.sleep(0.02)
    raise AssertionError(f"the batch is still {shown['status']}")


def content(server: Server, name: str | None) -> list[dict[str, Any]]:
    if name is None:
        return []
    return [json.loads(line) for line in send(server, "GET", f"/v1/files/{name}/content").body.splitlines()]


def test_a_batch_answers_every_line_as_a_single_request_would() -> None:
    with serve(batch_seconds=0.3) as server:
        made = start(server, lines_of(5), metadata={"job": "a", "x": "y"})
        assert made["status"] == "validating"
        ended = wait_for_end(server, made["id"])
        assert ended["status"] == "completed"
        assert ended["metadata"] == {"job": "a", "x": "y"}
        assert ended["request_counts"] == {"total": 5, "completed": 5, "failed": 0}
        assert ended["error_file_id"] is None
        assert ended["created_at"] <= ended["in_progress_at"] <= ended["completed_at"] < ended["expires_at"]
        rows = {row["custom_id"]: row for row in content(server, ended["output_file_id"])}
        assert sorted(rows) == [f"c{at}" for at in range(5)]
        alone = send(server, "POST", CHAT, plain("Number 3")).text
        assert rows["c3"]["response"]["body"]["choices"][0]["message"]["content"] == alone
        assert rows["c3"]["response"]["status_code"] == 200
        counted = server.counters()
        assert counted["jobs"] == {"a": 1}
        assert counted["batch_lines"] == {"answered": 5}
        assert list(counted["repeated"].values()) == [2], "the single request asked for what the batch had answered"
        said = sum(row["response"]["body"]["usage"]["completion_tokens"] for row in rows.values())
        assert ended["usage"]["output_tokens"] == said


def test_lines_fail_by_the_same_shares_as_requests() -> None:
    with serve(batch_seconds=0, faults={"500": 0.2, "502": 0.1, "truncated": 0.2, "refusal": 0.1}, seed=3) as server:
        ended = wait_for_end(server, start(server, lines_of(200))["id"])
        out, errors = content(server, ended["output_file_id"]), content(server, ended["error_file_id"])
        counted = server.counters()["batch_lines"]
        assert ended["status"] == "completed"
        assert len(out) == counted["answered"] + counted["refusal"]
        assert len(errors) == counted["500"] + counted["502"]
        assert {row["response"]["status_code"] for row in errors} == {500, 502}
        assert 200 - len(out) - len(errors) == counted["truncated"] > 20
        assert ended["request_counts"] == {"total": 200, "completed": len(out), "failed": len(errors)}


def test_a_creation_that_is_repeated_under_its_idempotency_key_makes_one_batch(standin: Server) -> None:
    file = upload(standin, lines_of(1)).json["id"]
    body = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    first, again, other = (
        send(standin, "POST", "/v1/batches", body, idempotency_key=key).json["id"] for key in ("one", "one", "two")
    )
    assert first == again != other


@pytest.mark.parametrize("end", ["expired", "cancelled"])
def test_a_batch_that_ends_early_keeps_what_is_done(end: str) -> None:
    with serve(batch_seconds=0.1, batch_faults={end: 1}) as server:
        ended = wait_for_end(server, start(server, lines_of(9))["id"])
        assert ended["status"] == end
        assert ended[f"{end}_at"]
        done = {row["custom_id"] for row in content(server, ended["output_file_id"])}
        left = {row["custom_id"]: row for row in content(server, ended["error_file_id"])}
        assert len(done) == 4
        assert done | set(left) == {f"c{at}" for at in range(9)}
        assert all(row["error"]["code"] == f"batch_{end}" and row["response"] is None for row in left.values())


def test_a_batch_may_fail_as_a_whole_and_has_no_files_then() -> None:
    with serve(batch_seconds=0, batch_faults={"failed": 1}) as server:
        ended = wait_for_end(server, start(server, lines_of(2))["id"])
        assert (ended["status"], ended["output_file_id"], ended["error_file_id"]) == ("failed", None, None)
        assert ended["errors"]["data"][0]["code"] == "token_limit_exceeded"
        server.set_batch_faults({})
        assert wait_for_end(server, start(server, lines_of(2))["id"])["status"] == "completed"


def test_a_running_batch_can_be_cancelled_once() -> None:
    with serve(batch_seconds=30) as server:  # of which the first line takes three
        name = start(server, lines_of(200))["id"]
        while not send(server, "GET", f"/v1/batches/{name}").json["request_counts"]["completed"]:
            time.sleep(0.02)
        assert send(server, "POST", f"/v1/batches/{name}/cancel").json["status"] == "cancelling"
        ended = wait_for_end(server, name)
        assert ended["status"] == "cancelled"
        done = len(content(server, ended["output_file_id"]))
        assert 0 < done == ended["request_counts"]["completed"] < 200
        assert send(server, "POST", f"/v1/batches/{name}/cancel").status == 409


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (b"", "empty_file"),
        (b"\n{\n", "invalid_json_line"),
        (lines_of(1) + lines_of(1), "duplicate_custom_id"),
        (lines_of(2, custom_id=["a"]), "missing_required_parameter"),
        (lines_of(1, url="/v1/embeddings"), "invalid_url"),
        (lines_of(1, method="GET"), "invalid_method"),
        (lines_of(1, body=3), "missing_required_parameter"),
        (lines_of(1) + lines_of(1, custom_id="z", body={**plain(), "model": "other"}), "mismatched_model"),
        (b"{}\n" * 50_001, "too_many_requests"),
    ],
)
def test_a_batch_with_wrong_lines_fails(lines: bytes, code: str) -> None:
    with serve(batch_seconds=0) as server:
        ended = wait_for_end(server, start(server, lines)["id"])
        assert ended["status"] == "failed"
        assert ended["errors"]["data"][-1]["code"] == code


def test_batches_are_listed_newest_first_by_pages(standin: Server) -> None:
    made = [start(standin, lines_of(1))["id"] for _ in range(5)]
    seen: list[str] = []
    query = "limit=2"
    for more in (True, True, False):
        page = send(standin, "GET", f"/v1/batches?{query}").json
        assert page["has_more"] is more
        seen += [row["id"] for row in page["data"]]
        query = f"limit=2&after={page['last_id']}"
    assert seen == made[::-1]
    for wrong in ("limit=0", "limit=101", "limit=x", "after=batch_none"):
        assert send(standin, "GET", f"/v1/batches?{wrong}").status == 400


def test_what_a_batch_cannot_be_is_refused_at_once(standin: Server) -> None:
    name = upload(standin, lines_of(1)).json["id"]
    good = {"input_file_id": name, "endpoint": CHAT, "completion_window": "24h"}
    for change in (
        {"input_file_id": "file-none"},
        {"endpoint": "/v1/nothing"},
        {"completion_window": "1h"},
        {"metadata": {str(n): "" for n in range(17)}},
        {"metadata": {"a": 1}},
    ):
        assert send(standin, "POST", "/v1/batches", good | change).status == 400
    assert upload(standin, b"", purpose="other").status == 400
    assert send(standin, "POST", "/v1/files", b"x", content_type="text/plain").status == 400
    assert send(standin, "GET", "/v1/files/file-none/content").status == 404
    assert send(standin, "POST", "/v1/batches/batch_none/cancel").status == 404
    assert standin.counters()["jobs"] == {}


def test_a_file_comes_back_as_it_was_sent(standin: Server) -> None:
    odd = b"\r\n--b\r\n\x00\xff not JSON\n\n--b1 within a line\r\n"
    sent = upload(standin, odd).json
    assert sent["bytes"] == len(odd)
    assert send(standin, "GET", f"/v1/files/{sent['id']}/content").body == odd
    assert send(standin, "DELETE", f"/v1/files/{sent['id']}").json["deleted"] is True
    assert send(standin, "GET", f"/v1/files/{sent['id']}").status == 404


# malformed requests


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"[" * 100_000,
        {"messages": []},
        plain(messages=[]),
        plain(messages=[3]),
        plain(messages=[{"role": "user"}]),
        plain(messages=[{"role": "user", "content": [{"type": "image_url"}]}]),
        plain(model=7),
        plain(n=0),
        plain(n=True),
        plain(max_tokens=-1),
        plain(max_completion_tokens="9"),
        plain(top_logprobs=2),
        plain(stream=True),
        plain(response_format={"type": "json_schema"}),
        plain(response_format={"type": "xml"}),
        plain(response_format={"type": "json_schema", "json_schema": {"schema": {"properties": 3}}}),
    ],
)
def test_a_malformed_question_is_a_400_and_counted(standin: Server, body: Any) -> None:
    got = send(standin, "POST", CHAT, body)
    assert got.status == 400
    assert got.json["error"]["message"]
    assert standin.counters()["outcomes"] == {"invalid": 1}


@pytest.mark.parametrize("given", [None, "", [], ["a", ""], [["a"]], 3, {"a": 1}])
def test_malformed_embeddings_are_a_400(standin: Server, given: Any) -> None:
    assert send(standin, "POST", "/v1/embeddings", {"model": "m", "input": given}).status == 400


def test_wrong_paths_and_methods(standin: Server) -> None:
    assert send(standin, "GET", "/").status == 404
    assert send(standin, "POST", "/v1/completions", plain()).status == 404
    wrong = send(standin, "GET", CHAT)
    assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
    assert send(standin, "PUT", "/v1/files", b"x" * 1000).status == 405
    assert send(standin, "POST", f"{CHAT}/", plain()).status == 200


@contextmanager
def socket_of(server: Server) -> Iterator[socket.socket]:
    netloc = urlsplit(server.url)
    with socket.create_connection((netloc.hostname, netloc.port), timeout=600) as link:
        yield link


def first_reply(server: Server, sent: bytes) -> bytes:
    """What comes first in answer to bytes that are sent as they are."""
    with socket_of(server) as link:
        link.sendall(sent)
        return link.recv(65536)


def send_and_leave(server: Server, sent: bytes) -> None:
    with socket_of(server) as link, suppress(ConnectionError):
        link.sendall(sent)
        link.shutdown(socket.SHUT_WR)
        while link.recv(65536):
            pass


POSTED = f"POST {CHAT} HTTP/1.1\r\nhost: standin\r\n".encode()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"hello\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (POSTED.replace(CHAT.encode(), b"/v1/files") + b"content-length: 99999999999\r\n\r\n", b"413"),
        (POSTED + b"content-length: 40000000\r\n\r\n", b"413"),
        (POSTED + b"content-length: -4\r\n\r\n", b"400"),
        (POSTED + b"content-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc", b"400"),
        (POSTED + b"transfer-encoding: gzip\r\n\r\n", b"400"),
        (POSTED + b"transfer-encoding: chunked\r\n\r\nxyz\r\n", b"400"),
        (POSTED + b"transfer-encoding: chunked\r\n\r\n2000001\r\n" + b" " * 0x2000001 + b"\r\n0\r\n\r\n", b"413"),
        (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 20_000 + b"\r\n", b"400"),
    ],
    ids=lambda value: value[:60],
)
def test_bytes_that_are_no_request_get_an_error_and_others_are_answered(
    standin: Server, sent: bytes, status: bytes
) -> None:
    assert first_reply(standin, sent).split(b" ")[1] == status
    assert ask(standin).status == 200


@settings(max_examples=40)
@given(st.binary(max_size=300))
def test_noise_never_stops_it(noise: bytes) -> None:
    with serve() as server:
        send_and_leave(server, noise)
        send_and_leave(server, POSTED + b"content-length: 300\r\n\r\n" + noise)
        assert ask(server).status == 200


def test_chunked_bodies_and_requests_on_one_connection(standin: Server) -> None:
    data = json.dumps(plain()).encode()
    with connection(standin) as link:
        link.request(
            "POST", CHAT, iter([data[:9], data[9:]]), encode_chunked=True, headers={"Transfer-Encoding": "chunked"}
        )
        first = link.getresponse()
        assert first.status == 200
        first.read()
        assert posted(link, plain()).status == 200
    head = POSTED + f"content-length: {len(data)}\r\n".encode()
    assert first_reply(standin, head + b"expect: 100-continue\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    with socket_of(standin) as link:
        link.sendall((head + b"\r\n" + data) * 2 + head + b"connection: close\r\n\r\n" + data)
        assert b"".join(iter(lambda: link.recv(65536), b"")).count(b"HTTP/1.1 200 OK") == 3


# keys, models, counters


def test_only_its_key_and_model_are_accepted_where_they_are_set() -> None:
    with serve(key="right-key", model="mine") as server:
        assert send(server, "POST", CHAT, plain(model="mine")).status == 401
        wrong = send(server, "POST", CHAT, plain(model="mine"), authorization="Bearer wrong-key")
        assert wrong.status == 401
        assert b"wrong-key" not in wrong.body
        right = {"authorization": "Bearer right-key"}
        assert send(server, "POST", CHAT, plain(model="mine"), **right).json["model"] == "offline-rules-1"
        assert send(server, "POST", CHAT, plain(model="mine"), api_key="right-key").status == 200
        unknown = send(server, "POST", CHAT, plain(model="other"), **right)
        assert (unknown.status, unknown.json["error"]["code"]) == (404, "model_not_found")
        assert [row["id"] for row in send(server, "GET", "/v1/models", **right).json["data"]] == ["mine"]
        assert send(server, "GET", "/v1/models/mine", **right).json["id"] == "mine"
        assert server.counters()["outcomes"] == {"refused": 2, "answered": 2, "invalid": 1}


def test_counters_add_up_under_concurrency() -> None:
    with serve(latency_seconds=0.05) as server:
        with ThreadPoolExecutor(8) as pool:
            got = list(pool.map(lambda at: ask(server, content=f"{at % 30}"), range(40)))
        counted = json.loads(send(server, "GET", "/standin/counters").body)
        assert counted["requests"] == {f"POST {CHAT}": 40}
        assert counted["outcomes"] == {"answered": 40}
        assert counted["answered_bodies"] == 30
        assert list(counted["repeated"].values()) == [2] * 10
        assert counted["in_flight"] == 0
        assert 2 <= counted["in_flight_highest"] <= 8
        assert counted["best_second"] <= 40
        assert counted["tokens"]["completion"] == sum(each.json["usage"]["completion_tokens"] for each in got)
        assert counted == server.counters() | {"last_second": counted["last_second"]}
        reset = send(server, "POST", "/standin/reset").json
        assert (reset["requests"], reset["repeated"], reset["tokens"]["prompt"]) == ({}, {}, 0)


def test_the_same_request_is_known_whatever_the_order_of_its_fields(standin: Server) -> None:
    body = plain(max_tokens=9)
    send(standin, "POST", CHAT, body)
    send(standin, "POST", CHAT, dict(reversed(body.items())))
    assert len(standin.counters()["repeated"]) == 1


def test_latency_holds_for_every_answer() -> None:
    with serve(latency_seconds=0.2) as server:
        for lines in ([], [{"fault": "500"}], [{"fault": "length"}]):
            server.script(lines)
            started = time.monotonic()
            ask(server)
            assert time.monotonic() - started >= 0.2


def test_two_servers_share_nothing() -> None:
    with serve(faults={"500": 1}) as failing, serve() as working:
        assert failing.url != working.url
        assert (ask(failing).status, ask(working).status) == (500, 200)
        assert failing.counters()["outcomes"] == {"500": 1}
        assert working.counters()["outcomes"] == {"answered": 1}


def sockets() -> set[str]:
    """Open ones of this process."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # closed since
            found.add(os.readlink(f"/proc/self/fd/{name}"))
    return {link for link in found if link.startswith("socket:")}


def test_stopping_closes_everything_also_in_the_middle_of_an_answer() -> None:
    gc.collect()
    before = sockets()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with serve(batch_seconds=3_600) as server:
            start(server, lines_of(3))
            server.script([{"fault": "drip", "seconds": 3_600}, {"fault": "slow", "seconds": 3_600}])
            links = [http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=600) for _ in range(3)]
            links[0].connect()
            for link in links[1:]:
                link.request("POST", CHAT, json.dumps(plain()))
            while server.counters()["requests"].get(f"POST {CHAT}", 0) < 2:
                time.sleep(0.01)
            started = time.monotonic()
        assert time.monotonic() - started < 600
        for link in links:
            link.close()
        gc.collect()
    assert [str(each.message) for each in warned] == []
    assert sockets() <= before


def test_a_taken_port_is_a_usage_error() -> None:
    with serve() as server:
        port = urlsplit(server.url).port
        with pytest.raises(UsageError, match=f"Port {port} of 127.0.0.1 is taken"), serve(port=port or 0):
            pass


# the command


def typed(line: str, folder: Path) -> AbstractContextManager[subprocess.Popen[str]]:
    words = shlex.split(line)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return started([LONGFORM, *words[1:]], cwd=folder, text=True, **pipes)


def test_the_command_of_the_docs_runs_and_the_lines_it_prints_are_a_configuration(tmp_path: Path) -> None:
    import tomllib

    from flows.axioms import AxiomsConfig

    blocks = re.findall(r"^```(\w*)\n(.*?)^```", DOCS, re.MULTILINE | re.DOTALL)
    (command,) = [text.strip() for language, text in blocks if text.startswith("longform standin")]
    (documented,) = [text for language, text in blocks if language == "toml"]
    (script,) = [text for _, text in blocks if text.startswith('{"fault"')]
    (tmp_path / "script").write_text(script)
    with typed(f"{command} --port 0 --script script", tmp_path) as process:
        assert process.stdout
        printed = [process.stdout.readline() for _ in range(8)]
        snippet = "".join(printed[printed.index("[endpoints.standin]\n") :])
        (port,) = map(int, re.findall(r"127\.0\.0\.1:(\d+)", snippet))
        assert snippet.replace(str(port), "8090") in documented
        config = AxiomsConfig(**tomllib.loads(f'model = "standin"\n\n{snippet}'))
        assert config.endpoints["standin"].base_url == f"http://127.0.0.1:{port}/v1"
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        statuses = [posted(link, plain()).status for _ in range(2)]
        link.close()
        assert statuses == [429, 200]
        process.send_signal(signal.SIGINT)
        assert process.wait(600) == 0
        assert process.stderr
        assert process.stderr.read() == ""


def test_the_python_of_the_docs_runs() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", DOCS, re.MULTILINE | re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v1 \{\}\n", done.stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--fault 5000=0.1", 'There is no fault "5000"'),
        ("--fault 500", "write it as 500=0.05"),
        ("--batch-fault lost=1", 'There is no fault "lost"'),
        ("--script nowhere", "cannot be read"),
        ("--host 203.0.113.1", "cannot listen on"),
    ],
)
def test_what_cannot_be_served_is_one_sentence_and_exit_2(tmp_path: Path, arguments: str, message: str) -> None:
    with typed(f"longform standin --port 0 {arguments}", tmp_path) as process:
        out, error = process.communicate(timeout=600)
    assert (process.returncode, out) == (2, "")
    assert message in error
    assert error.count("\n") == 1


def test_the_faults_can_be_listed(tmp_path: Path) -> None:
    with typed("longform standin --faults", tmp_path) as process:
        out, _ = process.communicate(timeout=600)
    assert [line.split()[0] for line in out.splitlines()] == list(FAULTS)
