"""What a build asks, asks again, may spend and needs a key for, over several runs, against a local server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from axioms_builds import UNSEEN, Silent, build_axioms
from endpoint_server import Server, server

from flows.axioms import AxiomsConfig
from flows.builds.building import Options, declare, plan
from flows.cli.shared.responses import export, load
from flows.inspection.costs import budget_lines, paid
from longform.artifacts.store import Store
from longform.artifacts.versions import artifact
from longform.engine.thread_tasks import Threads
from longform.errors import BudgetError, EndpointError, Incomplete, UsageError
from longform.llm.ask.types import Endpoint, Request
from longform.llm.models import Models

pytestmark = pytest.mark.check

__all__ = ["server"]

ROASTED = "roasted coffee beans"
BUSY = (429, {"retry-after": "0"}, b"{}")
UNREADABLE = (200, {}, b"<html>no JSON</html>")
CLOSED = "answer_closed_book"
NOTHING = "Much depends on the circumstances, and it is worth taking the time to weigh the options before deciding."


def url(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/v1"


def settings(server: Server, **more: Any) -> dict[str, Any]:
    endpoint = {"base_url": url(server), "model": "m", "price": {"input": 2.0, "output": 8.0}, **more}
    return {"model": "mine", "endpoints": {"mine": endpoint}}


def says(text: str) -> tuple[int, dict[str, str], bytes]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return 200, {}, json.dumps({"model": "stand-in-1", "choices": [choice], "usage": usage}).encode()


def last(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


def closed_book(server: Server, body: dict[str, Any]) -> bool:
    return server.tasks.get(body["messages"][0]["content"].strip()) == "axioms/closed_book"


def asked(server: Server) -> int:
    return sum(server.bodies.values())


def planned_calls(home: Path, chosen: dict[str, Any], **options: Any) -> dict[str, int | None]:
    given = Options(home, **options)
    found, _ = plan(declare("axioms", AxiomsConfig(**UNSEEN | chosen), given), given, priced=True)
    return {stage.stage: stage.calls for stage in found.stages if stage.endpoint and stage.state == "run"}


# ---------------------------------------------------------------- asked again


def test_a_text_that_answered_several_questions_is_asked_again_and_the_plan_counts_it(
    tmp_path: Path, server: Server
) -> None:
    chosen = settings(server)
    server.fails = lambda body: (
        says(f"{NOTHING}\n=====") if "coffee" in last(body) and closed_book(server, body) else None
    )
    version, _, _ = build_axioms(tmp_path, **chosen, accept=[CLOSED])
    assert version is not None
    number = artifact(Store(tmp_path), version, CLOSED).rejected()["defect", "model: repeated"]
    assert number >= 1
    server.fails = lambda body: None
    retry, before = [f"{CLOSED}:repeated"], asked(server)
    assert planned_calls(tmp_path, chosen, retry_errors=retry)[CLOSED] == number
    again, _, _ = build_axioms(tmp_path, "v2", options={"retry_errors": retry}, **chosen)
    assert again is not None
    assert asked(server) - before >= number  # and pairs of what is answered now
    assert ("defect", "model: repeated") not in artifact(Store(tmp_path), again, CLOSED).rejected()


def test_rows_of_a_chosen_stage_and_reason_are_asked_again_and_the_plan_counts_them(
    tmp_path: Path, server: Server
) -> None:
    chosen = settings(server)
    server.fails = lambda body: (
        says("It was roasted and") if ROASTED in last(body) and closed_book(server, body) else None
    )
    version, _, _ = build_axioms(tmp_path, **chosen)
    assert version is not None
    store, reason = Store(tmp_path), ("defect", "model: length")
    cut = artifact(store, version, CLOSED).rejected()[reason]
    assert cut >= 1
    server.fails = lambda body: None
    for retry, number in (([f"{CLOSED}:filter"], 0), (["answer_open_book"], 0), ([f"{CLOSED}:length"], cut)):
        before = asked(server)
        assert sum(planned_calls(tmp_path, chosen, retry_errors=retry).values() or [0]) == number  # type: ignore[arg-type]
        again, progress, _ = build_axioms(tmp_path, f"v{number + 2}", options={"retry_errors": retry}, **chosen)
        assert asked(server) - before == number
        assert (CLOSED in progress.begun) == bool(number)
    assert again is not None
    assert reason not in artifact(store, again, CLOSED).rejected()


@pytest.mark.parametrize(
    ("retry", "words"),
    [
        (["answer_closed_bok"], 'no stage "answer_closed_bok" that asks a model (--retry-errors); did you mean'),
        (["select_questions"], 'no stage "select_questions" that asks a model'),
        ([f"{CLOSED}:lenght"], 'did you mean "length"?'),
    ],
)
def test_a_stage_or_reason_that_is_unknown_is_said_with_a_hint(tmp_path: Path, retry: list[str], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        build_axioms(tmp_path, options={"retry_errors": retry})
    assert words in str(refused.value)


# ---------------------------------------------------------------- rows without an answer


def test_stages_that_need_no_missing_row_go_on_and_those_below_do_not_begin(tmp_path: Path, server: Server) -> None:
    server.fails = lambda body: BUSY if ROASTED in last(body) and closed_book(server, body) else None
    progress = Silent()
    with pytest.raises(Incomplete, match="no answer"):
        build_axioms(tmp_path, tasks=Threads(), progress=progress, **settings(server))
    ended = {entry.stage for entry in progress.ended}
    assert CLOSED in progress.begun
    assert CLOSED not in ended
    assert {"answer_open_book", "corrupt_answers", "combine_answers"} <= ended
    assert not {"judge_pairs", "split_pairs"} & progress.begun.keys()
    assert not (tmp_path / "datasets").exists()


def test_each_stage_with_questions_that_got_no_answer_is_named_with_their_number(
    tmp_path: Path, server: Server
) -> None:
    spoiled = {"axioms/closed_book": 3, "axioms/combine": 2}
    told: dict[str, set[str]] = {task: set() for task in spoiled}

    def fails(body: dict[str, Any]) -> tuple[int, dict[str, str], bytes] | None:
        task = server.tasks[body["messages"][0]["content"].strip()]
        if task in spoiled and len(told[task]) < spoiled[task]:
            told[task].add(last(body))
        return UNREADABLE if last(body) in told.get(task, ()) else None

    server.fails = fails
    with pytest.raises(Incomplete) as ended:
        build_axioms(tmp_path, tasks=Threads(), **settings(server))
    at = f'(at last: endpoint "mine" at {url(server)}: 200 with a page)'
    assert str(ended.value) == (
        f"3 questions got no answer in {CLOSED} {at} and 2 in combine_answers: "
        "answers so far are stored; run the same command again; after 3 runs without an answer, this was number 1, it "
        "is left out."
    )
    (record,) = (tmp_path / "runs" / "axioms").glob("*.json")
    assert json.loads(record.read_text())["outcome"] == str(ended.value)


def test_a_few_questions_without_a_readable_reply_do_not_stop_the_others_of_their_endpoint(
    tmp_path: Path, server: Server
) -> None:
    server.fails = lambda body: (200, {}, b"no JSON") if "bad" in last(body) else says("Well.\n=====")
    requests = [Request((("user", f"{kind} {n}"),), task="x") for kind in ("bad", "good") for n in range(8)]
    endpoint = Endpoint("mine", "m", base_url=url(server))
    for run in range(2):
        came: list[Request] = []
        with Models(tmp_path / "r.sqlite", first_pause_seconds=0.01) as models:
            answers = models.client(endpoint).ask((request, request) for request in requests)
            with pytest.raises(Incomplete) as ended:
                came.extend(request for request, _ in answers)
        assert len(came) == 8
        assert "8 questions got no answer" in str(ended.value)
        assert sorted(server.bodies.values()) == [1] * 8 + [4 * (run + 1)] * 8


def test_a_gateway_that_fails_for_one_question_alone_does_not_block_for_good(tmp_path: Path, server: Server) -> None:
    endpoint = Endpoint("mine", "m", base_url=url(server))

    def ask(*texts: str, run: str) -> list[Any]:
        with Models(tmp_path / "r.sqlite", first_pause_seconds=1e-6, run=run) as models:
            asked = [(text, Request((("user", text),), task="x")) for text in texts]
            return [reply for _, reply in models.client(endpoint).ask(asked)]

    server.fails = lambda body: (504, {}, b"") if "bad" in last(body) else says("Well.\n=====")
    good = [f"good {n}" for n in range(8)]
    for number in (1, 2):
        with pytest.raises(Incomplete, match=rf"after 3 runs .* this was number {number}, it is left out\.$"):
            ask(*good, "bad", run=str(number))
    (*_, failure) = ask(*good, "bad", run="3")
    assert (failure.kind, failure.message) == ("unanswered", "no answer in 3 runs, at last: 504 Gateway Timeout")
    server.fails = lambda body: (504, {}, b"")
    for number in range(4):
        with pytest.raises(Incomplete, match=r"run the same command again\.$"):
            ask("new", run=f"down {number}")


def test_after_three_runs_without_an_answer_a_row_is_a_defect_and_can_be_asked_again(
    tmp_path: Path, server: Server
) -> None:
    chosen = settings(server)
    server.fails = lambda body: UNREADABLE if ROASTED in last(body) and closed_book(server, body) else None
    for _ in range(2):
        with pytest.raises(Incomplete, match="no answer"):
            build_axioms(tmp_path, until=CLOSED, **chosen)
    version, _, _ = build_axioms(tmp_path, **chosen)
    assert version is not None
    rejected = artifact(Store(tmp_path), version, CLOSED).rejected()
    assert rejected.get(("defect", "model: unanswered"), 0) >= 1
    before = asked(server)
    build_axioms(tmp_path, "v2", force=CLOSED, **chosen)
    assert asked(server) == before
    server.fails = lambda body: None
    build_axioms(tmp_path, "v3", options={"retry_errors": [f"{CLOSED}:unanswered"]}, **chosen)
    assert asked(server) - before == rejected["defect", "model: unanswered"]


# ---------------------------------------------------------------- keys


def test_a_rebuild_from_stored_answers_needs_no_key(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = settings(server, key_env="AXIOMS_TEST_KEY", capabilities=["batch"])
    monkeypatch.setenv("AXIOMS_TEST_KEY", "a-long-secret-key")
    first, _, _ = build_axioms(tmp_path / "one", **chosen)
    assert first is not None
    monkeypatch.delenv("AXIOMS_TEST_KEY")
    export(tmp_path / "one", tmp_path / "answers.parquet", first)
    for mode in ("online", "batch"):
        load(tmp_path / mode, tmp_path / "answers.parquet")
        before = asked(server)
        again, _, _ = build_axioms(tmp_path / mode, mode=mode, **chosen)
        assert again is not None
        assert (again.folder / "croissant.json").read_bytes() == (first.folder / "croissant.json").read_bytes()
        assert asked(server) == before


def test_a_key_that_a_later_stage_will_want_is_missed_before_the_first_call(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = settings(server)
    other = {"base_url": url(server), "model": "o", "key_env": "OTHER_TEST_KEY"}
    chosen["endpoints"]["other"] = other
    chosen["stages"] = {"combine_answers": {"model": "other"}}
    with pytest.raises(EndpointError, match='OTHER_TEST_KEY of endpoint "other"'):
        build_axioms(tmp_path, **chosen)
    assert asked(server) == 0
    build_axioms(tmp_path, until="answer_open_book", **chosen)  # ends before the other endpoint is asked
    assert asked(server) > 0
    monkeypatch.setenv("OTHER_TEST_KEY", "another-secret-key")
    build_axioms(tmp_path, until="combine_answers", **chosen)
    monkeypatch.delenv("OTHER_TEST_KEY")
    version, _, _ = build_axioms(tmp_path, **chosen)  # what the other endpoint has to answer is there
    assert version is not None


# ---------------------------------------------------------------- budgets


def test_a_budget_holds_over_runs_and_says_what_is_left(tmp_path: Path, server: Server) -> None:
    chosen, spent = settings(server), []
    for budget in (0.05, 0.05, 0.1):
        with pytest.raises(BudgetError) as stopped:
            build_axioms(tmp_path, **chosen, budget=budget)
        assert f"of {budget:.4f}, the budget of axioms over all runs" in str(stopped.value)
        assert "raise the budget of axioms" in str(stopped.value)
        found = paid(tmp_path, "axioms")
        spent.append(found["total"]["usd"])
        assert 0 < spent[-1] <= budget
        assert found["budgets"] == [
            {"of": "axioms", "budget": budget, "spent": spent[-1], "left": pytest.approx(budget - spent[-1])}
        ]
    assert spent[1] == pytest.approx(spent[0], abs=0.02)
    assert spent[2] > spent[1]
    assert budget_lines(found["budgets"])[0].startswith("budget of axioms: USD 0.0")
    version, _, _ = build_axioms(tmp_path, options={"budget": 5.0}, **chosen, budget=0.05)
    assert version is not None
    assert set(server.bodies.values()) == {1}
    total = paid(tmp_path, "axioms")["total"]["usd"]
    records = [*(tmp_path / "runs" / "axioms").iterdir()]
    assert len(records) == 4  # none is taken for another, though all began in one second
    again, _, _ = build_axioms(tmp_path, "v1", options={"budget": total / 2}, force="answer_open_book", **chosen)
    assert again is not None  # a budget that is used up stops no rebuild from stored answers


def test_the_homes_budget_counts_all_datasets(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGFORM_BUDGET", "0.05")
    with pytest.raises(BudgetError, match="LONGFORM_BUDGET for all datasets and runs"):
        build_axioms(tmp_path, **settings(server))
    with pytest.raises(BudgetError, match="raise LONGFORM_BUDGET to go on"):
        build_axioms(tmp_path, **settings(server))
    assert 0 < paid(tmp_path, "axioms")["total"]["usd"] <= 0.05
    monkeypatch.setenv("LONGFORM_BUDGET", "many")
    with pytest.raises(UsageError, match="LONGFORM_BUDGET=many is no amount"):
        build_axioms(tmp_path, **settings(server))


def test_with_a_budget_a_model_without_a_price_is_not_asked(tmp_path: Path, server: Server) -> None:
    chosen = settings(server)
    del chosen["endpoints"]["mine"]["price"]
    with pytest.raises(UsageError, match="price of model m"):
        build_axioms(tmp_path, **chosen, budget=1.0)
    assert asked(server) == 0
