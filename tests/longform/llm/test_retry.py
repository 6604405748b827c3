"""Which stored failures are asked again, and what a reply must be to be of use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from standin_server import Server, serve

from flows.cli.shared.arguments import with_one_value
from longform.errors import EndpointError
from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from longform.llm.estimate import Estimator
from longform.llm.models import Models
from longform.llm.retry import Retry


@pytest.fixture
def server() -> Iterator[Server]:
    with serve(say="It ends here.\n=====") as server:
        yield server


def endpoint(server: Server, **more: Any) -> Endpoint:
    return Endpoint("mine", "m", base_url=server.url, **more)


def asked(text: str, **more: Any) -> Request:
    return Request((("user", text),), task="x", max_tokens=64, **more)


def ask(server: Server, where: Path, *requests: Request, retry: Retry = Retry(), stage: str = "write") -> list[Any]:  # noqa: B008
    with Models(where, first_pause_seconds=0.01, retry=retry) as models:
        return [answer for _, answer in models.client(endpoint(server), stage=stage).ask((None, r) for r in requests)]


def sent(server: Server) -> int:
    return int(server.counters()["requests"].get("POST /v1/chat/completions", 0))


def planned(server: Server, where: Path, *requests: Request, retry: Retry = Retry(), stage: str = "write") -> int:  # noqa: B008
    with Models(where) as models:
        estimator = Estimator(endpoint(server), models.store, lambda kind: retry.wants(stage, kind))
        for request in requests:
            estimator.add(request)
        figures = estimator.estimate()
        estimator.close()
    assert figures.calls is not None
    return figures.calls


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("build axioms --retry-errors", "all"),
        ("build --retry-errors axioms", "all"),
        ("build axioms --retry-errors --json", "all"),
        ("build axioms --retry-errors answer_open_book", "answer_open_book"),
        ("build axioms --retry-errors answer_open_book length --json", "answer_open_book:length"),
        ("build --retry-errors answer_open_book axioms", "answer_open_book"),
    ],
)
def test_retry_errors_takes_nothing_a_stage_or_a_stage_and_a_reason(words: str, value: str) -> None:
    plain = [word for word in words.split() if word not in {"--retry-errors", *value.split(":")}]
    found = with_one_value(words.split())
    assert [word for word in found if word.startswith("--retry-errors")] == [f"--retry-errors={value}"]
    assert [word for word in found if not word.startswith("--retry-errors")] == plain


def test_a_choice_is_of_a_stage_and_a_reason_in_todays_words_or_earlier_ones() -> None:
    assert not Retry.of(False).wants("write", "length")
    assert Retry.of(True).wants("write", "length")
    assert Retry.of(["all"]).wants("write", "filter")
    for words in ("write:length", "write:model: length", "write:the reply is cut off"):
        chosen = Retry.of([words])
        assert [chosen.wants(*each) for each in (("write", "length"), ("write", "empty"), ("rate", "length"))] == [
            True, False, False,
        ]  # fmt: skip
    several = Retry.of(["write", "rate:empty"])
    assert several.wants("write", "filter")
    assert not several.wants("rate", "filter")
    rows = [("defect", "the reply is cut off", 2), ("defect", "model: filter", 3), ("filtered", "abstains", 5)]
    assert Retry.of(["write:length"]).among("write", rows) == 2
    assert Retry.of(True).among("write", rows) == 5


def test_a_reply_that_the_model_ended_in_the_middle_of_a_sentence_is_asked_again_if_its_reason_is_chosen(
    server: Server, tmp_path: Path
) -> None:
    question, where = asked("Why?", whole=True), tmp_path / "r.sqlite"
    with serve(say="It ends in the middle of,") as hasty:
        (cut,) = ask(hasty, where, question)
    assert (cut.kind, cut.detail["text"]) == ("length", "It ends in the middle of,")
    for retry in (Retry(), Retry.of(["write:filter"]), Retry.of(["rate"])):
        assert planned(server, where, question, retry=retry) == 0
        (again,) = ask(server, where, question, retry=retry)
        assert isinstance(again, Failure)
    assert sent(server) == 0
    chosen = Retry.of(["write:length"])
    assert planned(server, where, question, retry=chosen) == 1
    (answer,) = ask(server, where, question, retry=chosen)
    assert isinstance(answer, Answer)
    assert answer.value == "It ends here."
    assert sent(server) == 1
    assert planned(server, where, question, retry=chosen) == 0
    assert ask(server, where, question, retry=chosen)[0].cached
    assert sent(server) == 1


def test_a_stage_says_itself_what_is_of_no_use_and_the_reply_can_be_asked_again(server: Server, tmp_path: Path) -> None:
    question = asked("Why?", whole=True, check=lambda text: ("invalid", "it ends") if "ends" in text else None)
    (refused,) = ask(server, tmp_path / "r.sqlite", question)
    assert (refused.kind, refused.message) == ("invalid", "it ends")
    with serve(say="It goes on.\n=====") as other:
        (answer,) = ask(other, tmp_path / "r.sqlite", question, retry=Retry.of(["write:invalid"]))
    assert answer.value == "It goes on."


def test_a_plan_counts_unreadable_replies_and_attempts_that_are_still_due(server: Server, tmp_path: Path) -> None:
    where = tmp_path / "r.sqlite"
    unreadable, cut = asked("unreadable"), asked("cut off")
    server.script([{"fault": "broken"}, {"fault": "401"}])
    with pytest.raises(EndpointError):
        ask(server, where, unreadable)
    assert planned(server, where, unreadable) == 1
    server.script([{"fault": "length"}, {"fault": "401"}])
    with pytest.raises(EndpointError):
        ask(server, where, cut)
    assert planned(server, where, cut) == 1
    before = sent(server)
    server.script([])
    ask(server, where, unreadable, cut)
    assert sent(server) - before == 2
    assert planned(server, where, unreadable, cut) == 0


def test_stored_embeddings_need_no_key_and_missing_ones_name_it(tmp_path: Path) -> None:
    with serve(key="secret-key") as server:
        mine = endpoint(server, key_env="EMBEDDING_KEY")
        with Models(tmp_path / "r.sqlite", key_of=lambda _: "secret-key") as models:
            vectors = models.client(mine).embed(["one", "two"])
        with Models(tmp_path / "r.sqlite", key_of=lambda _: None) as models:
            assert models.client(mine).embed(["two", "one"]) == vectors[::-1]
            with pytest.raises(EndpointError, match="EMBEDDING_KEY"):
                models.client(mine).embed(["three"])
        assert server.counters()["requests"]["POST /v1/embeddings"] == 1


def test_before_the_first_call_the_keys_of_all_endpoints_ahead_are_checked(server: Server, tmp_path: Path) -> None:
    first, second = endpoint(server, key_env="FIRST_KEY"), Endpoint("other", "o", base_url=server.url, key_env="O_KEY")
    third = Endpoint("third", "o", base_url=server.url, key_env="THIRD_KEY")
    known = {"FIRST_KEY": "a-first-key"}
    with Models(tmp_path / "r.sqlite", key_of=known.get, ahead=lambda: [second, third]) as models:
        for _ in range(2):
            with pytest.raises(EndpointError) as refused:
                list(models.client(first).ask([(None, asked("q"))]))
            assert 'O_KEY of endpoint "other" and THIRD_KEY of endpoint "third"' in str(refused.value)
        assert "requests" not in server.counters() or not server.counters()["requests"]
        known |= {"O_KEY": "another-key", "THIRD_KEY": "a-third-key"}
        assert len(list(models.client(first).ask([(None, asked("q"))]))) == 1


def test_the_batch_api_is_not_needed_for_stored_answers(tmp_path: Path) -> None:
    with serve(key="secret-key") as server:
        mine = endpoint(server, key_env="SOME_KEY", capabilities=frozenset({"batch"}))
        requests = [asked(f"Question {n}") for n in range(3)]
        more = {"stage": "write", "recipe": "", "folder": tmp_path / "batches", "say": print}
        with Models(tmp_path / "r.sqlite", key_of=lambda _: "secret-key") as models:
            list(models.client(mine).ask((None, request) for request in requests))
        with Models(tmp_path / "r.sqlite", key_of=lambda _: None) as models:
            models.prefetch(mine, requests, **more)  # type: ignore[arg-type]
            with pytest.raises(EndpointError, match="SOME_KEY"):
                models.prefetch(mine, [*requests, asked("new")], **more)  # type: ignore[arg-type]
