"""A plan's questions and costs, compared with real stores and the tokens of a made-up model."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import BaseModel
from toy_stages import building, cap, order_items, read_items, source

from flows.builds.console import console
from flows.builds.plan_table import plan_foot, plan_table
from longform.artifacts.rows import Rows
from longform.artifacts.store import Store
from longform.engine.plan import Plan, Planned
from longform.engine.stage import Row, StageContext, stage
from longform.errors import StoreError
from longform.llm.ask.keys import canonical, key_of
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint, Price, Request
from longform.llm.client import PendingRequest, stored_result
from longform.llm.estimate import Estimator
from longform.llm.price import UNKNOWN_FIGURES, Figures
from longform.llm.responses.records import TOMBSTONE, Record
from longform.llm.responses.store import open_responses
from longform.llm.send.bodies import CHAT, EMBEDDINGS, body_of, embedding_body
from schemas import column, table

MINE = Endpoint(
    "mine", "m", base_url="http://127.0.0.1:9/v1", price=Price(2.0, 8.0, 0.5), capabilities=frozenset({"batch"})
)
FULL = Price(2.0, 8.0)
OFFLINE = Endpoint("offline", "offline-rules-1")
PROMPT = Prompt("toy/say", "0" * 8, ("item",), "", "Say it.", "{{ item }}")
SAYS = b'{"choices": [{"message": {"content": "So."}, "finish_reason": "stop"}]}'
SAID = table("said", column("item_id", pa.string(), "parent: items.item_id"), key="item_id")


@stage(SAID, revision=1)
def say(context: StageContext, items: Rows, *, model: Endpoint, prompt: Prompt, log: str) -> Iterator[Row]:
    (context.scratch() / "notes").write_text("gone soon")
    with open(log, "a") as file:
        file.write(f"{context.scratch()}\n")
    context.count("walked", 1)
    for item, _ in context.ask(model, ((item, question(item["value"])) for item in items)):
        yield {"item_id": item["item_id"]}


@stage(SAID, revision=1)
def weigh(context: StageContext, items: Rows, *, model: Endpoint, judge: Endpoint) -> Iterator[Row]:
    for item, _ in context.ask(model, ((item, question(item["value"])) for item in items)):
        yield {"item_id": item["item_id"]}
    for item, _ in context.ask(judge, ((item, question(item["value"])) for item in items)):
        yield {"item_id": item["item_id"]}


@stage(SAID, revision=1)
def place(context: StageContext, items: Rows, *, embedding: Endpoint) -> Iterator[Row]:
    vectors = context.embed(embedding, [f"text {item['value']}" for item in items])
    yield from ({"item_id": item["item_id"]} for item, _ in zip(items, vectors, strict=True))


def question(number: int, **fields: Any) -> Request:
    """A prompt of 300 to 6,000 characters."""
    words = random.Random(number).choices(["malt", "hops", "water", "yeast", "bitterness"], k=50 + number % 900)
    return Request((("system", "Say it."), ("user", " ".join(words))), task="toy/say", max_tokens=1000, **fields)


def truth(request: Request, sample: int = 0) -> tuple[int, int]:
    """(input, output) tokens that the made-up model takes: longer replies to longer prompts, with some randomness."""
    text = request.messages[1][1]
    chance = random.Random(hashlib.sha256(f"{text} {sample}".encode()).digest())
    return 12 + round(len(text) / 4.6), round((40 + len(text) / 20) * chance.uniform(0.7, 1.3))


def stored(request: Request, endpoint: Endpoint = MINE, sample: int = 0, **fields: Any) -> tuple[str, Record]:
    sent = canonical(body_of(endpoint, request, sample))
    tokens = truth(request, sample)
    record = Record(
        endpoint.name, endpoint.model, request.task, "", sent.encode(), SAYS, finish="stop",
        input_tokens=tokens[0], cached_tokens=0, output_tokens=tokens[1], milliseconds=2000,
    )  # fmt: skip
    return key_of(endpoint.name, CHAT, sent, sample=sample), replace(record, **fields)


def fill(path: Path, records: list[tuple[str, Record]]) -> None:
    with closing(open_responses(path)) as store:
        asyncio.run(store.put(records))


@contextmanager
def estimating(path: Path, endpoint: Endpoint = MINE) -> Iterator[Estimator]:
    with closing(open_responses(path, read_only=True)) as store, closing(Estimator(endpoint, store)) as estimator:
        yield estimator


def estimate(path: Path, requests: list[Request], endpoint: Endpoint = MINE) -> Figures:
    with estimating(path, endpoint) as estimator:
        for request in requests:
            estimator.add(request)
        return estimator.estimate()


def follow_up(path: Path, requests: list[Request], record: Record, text: str) -> None:
    """Store a reply with this text to the next attempt at each of these requests, whose first reply is of no use."""
    body = json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}).encode()
    with closing(open_responses(path)) as store:
        for request in requests:
            sent = canonical(body_of(MINE, request, 0))
            key = key_of(MINE.name, CHAT, sent)
            pending = PendingRequest(request, 0, sent, key)
            assert stored_result(pending, store.get([key])[key], MINE, store.get) is None
            asyncio.run(store.put([(pending.keys[-1], replace(record, body=body))]))


def usd(requests: list[Request], price: Price = FULL) -> float:
    return sum((sent * price.input + made * price.output) / 1e6 for sent, made in map(truth, requests))


# ---------------------------------------------------------------- estimates


@pytest.mark.parametrize("seed", range(8))
def test_after_a_pilot_the_estimate_is_within_ten_percent_of_what_is_then_spent(tmp_path: Path, seed: int) -> None:
    numbers = random.Random(seed).sample(range(100_000), 3000)
    fill(tmp_path / "r.sqlite", [stored(question(number)) for number in numbers[:60]])
    found = estimate(tmp_path / "r.sqlite", [question(number) for number in numbers])
    left = [question(number) for number in numbers[60:]]
    assert (found.calls, found.cached, found.measured) == (2940, 60, True)
    assert found.input_tokens == pytest.approx(sum(sent for sent, _ in map(truth, left)), rel=0.02)
    assert found.usd == pytest.approx(usd(left), rel=0.1)
    assert found.usd_low is not None
    assert found.usd_high is not None
    assert found.usd_low <= usd(left) <= found.usd_high
    assert found.usd_high < 1.25 * found.usd_low
    assert (found.usd_batch_low, found.usd_batch_high) == pytest.approx((found.usd_low / 2, found.usd_high / 2))


def test_answers_to_an_earlier_prompt_tell_of_the_same_task(tmp_path: Path) -> None:
    numbers = range(400)
    old = [replace(question(n), messages=(("system", "Please say it."), question(n).messages[1])) for n in numbers]
    fill(tmp_path / "r.sqlite", [stored(request) for request in old])
    requests = [question(number) for number in numbers]
    found = estimate(tmp_path / "r.sqlite", requests)
    assert (found.calls, found.cached, found.measured) == (400, 0, True)
    assert found.usd == pytest.approx(usd(requests), rel=0.1)


def test_without_stored_answers_the_prompts_are_counted_and_replies_bounded_by_their_limit(tmp_path: Path) -> None:
    requests = [question(number) for number in range(500)]
    found = estimate(tmp_path / "none.sqlite", requests)
    assert not (tmp_path / "none.sqlite").exists()
    assert (found.calls, found.cached, found.measured) == (500, 0, False)
    words = sum(len(request.messages[1][1].split()) for request in requests)
    assert found.input_tokens == pytest.approx(1.3 * words, rel=0.2)
    assert found.output_high == 500 * (1000 + 16)
    assert 0 < found.output_low < found.output_tokens < found.output_high
    assert found.usd_low is not None
    assert found.usd_high is not None
    assert found.usd_low < usd(requests) < found.usd_high
    assert found.seconds is None


def test_a_request_that_comes_again_counts_once_and_another_sample_does_not(tmp_path: Path) -> None:
    requests = [question(number % 7) for number in range(300)]
    assert estimate(tmp_path / "r.sqlite", requests).calls == 7
    several = [question(number % 7, samples=3) for number in range(300)]
    assert estimate(tmp_path / "r.sqlite", several).calls == 21
    together = replace(MINE, capabilities=frozenset({"n"}))
    found = estimate(tmp_path / "r.sqlite", several, together)
    assert (found.calls, found.output_high) == (7, 21 * (1_000 + 16))


def test_only_the_missing_samples_are_asked_for(tmp_path: Path) -> None:
    request = question(3, samples=4)
    fill(tmp_path / "r.sqlite", [stored(request, sample=sample) for sample in (0, 2)])
    found = estimate(tmp_path / "r.sqlite", [request])
    assert (found.calls, found.cached) == (2, 2)


def test_a_stored_refusal_is_not_asked_again_and_not_used_for_token_estimates(tmp_path: Path) -> None:
    refused = [stored(question(n), state=TOMBSTONE, input_tokens=None, output_tokens=None) for n in range(20)]
    fill(tmp_path / "r.sqlite", refused)
    found = estimate(tmp_path / "r.sqlite", [question(number) for number in range(30)])
    assert (found.calls, found.cached, found.measured) == (10, 20, False)


def test_prompt_tokens_that_the_provider_had_cached_are_cheaper_in_all_but_the_high_figure(tmp_path: Path) -> None:
    def cached(number: int) -> tuple[str, Record]:
        key, record = stored(question(number))
        return key, replace(record, cached_tokens=record.input_tokens)

    numbers = random.Random(0).sample(range(100_000), 400)
    fill(tmp_path / "r.sqlite", [cached(number) for number in numbers[:100]])
    found = estimate(tmp_path / "r.sqlite", [question(number) for number in numbers])
    left = [question(number) for number in numbers[100:]]
    assert found.usd == pytest.approx(usd(left, Price(0.5, 8.0)), rel=0.1)
    assert found.usd_high is not None
    assert found.usd_high >= usd(left)


def test_reasoning_is_the_share_of_the_output_that_stored_replies_say(tmp_path: Path) -> None:
    thinking = replace(MINE, capabilities=frozenset({"reasoning"}))
    records = [stored(question(n), output_tokens=1_500, reasoning_tokens=1_200) for n in range(20)]
    fill(tmp_path / "r.sqlite", records)
    found = estimate(tmp_path / "r.sqlite", [question(number) for number in range(30)], thinking)
    assert (found.output_tokens, found.reasoning_tokens) == (15_000, 12_000)
    assert found.output_tokens_at_most == 10 * (4 * 1_000 + 16)
    assert found.usd_at_most is not None
    assert found.usd_at_most >= 10 * 4 * 1_000 * 8 / 1e6
    assert estimate(tmp_path / "none.sqlite", [question(1)], thinking).reasoning_tokens is None


def test_a_beginning_that_prompts_share_is_reckoned_as_cached_where_that_has_a_price(tmp_path: Path) -> None:
    rules = " ".join(["hop"] * 1_300)
    requests = [replace(question(n), messages=(("system", rules), ("user", f"{n} malt"))) for n in range(200)]
    found = estimate(tmp_path / "none.sqlite", requests)
    full = estimate(tmp_path / "none.sqlite", requests, replace(MINE, price=FULL))
    assert found.cached_tokens == pytest.approx(199 * 1_280, rel=0.02)
    assert found.cached_tokens <= found.input_tokens
    assert full.usd - found.usd == pytest.approx(found.cached_tokens * 1.5 / 1e6, rel=0.01)
    assert (full.cached_tokens, found.usd_at_most) == (0, full.usd_at_most)
    short = [replace(question(n), messages=(("system", rules[:3_000]), ("user", f"{n} malt"))) for n in range(20)]
    assert estimate(tmp_path / "none.sqlite", short).cached_tokens == 0


def test_a_price_that_is_not_known_is_unknown_and_not_zero(tmp_path: Path) -> None:
    found = estimate(tmp_path / "r.sqlite", [question(1)], replace(MINE, price=None))
    assert (found.calls, found.usd, found.usd_low, found.usd_high) == (1, None, None, None)
    assert (found + Figures(usd=3.0)).usd is None


def test_the_time_is_the_longest_of_what_requests_tokens_and_latency_ask_for(tmp_path: Path) -> None:
    fill(tmp_path / "r.sqlite", [stored(question(number)) for number in range(50)])
    requests = [question(number) for number in range(250)]
    seconds = {
        name: estimate(tmp_path / "r.sqlite", requests, replace(MINE, **limits)).seconds
        for name, limits in {
            "latency": {"concurrency": 10}, "rpm": {"rpm": 60}, "tpm": {"tpm": 1000, "rpm": 60},
        }.items()
    }  # fmt: skip
    left = [truth(request) for request in requests[50:]]
    assert seconds["latency"] == pytest.approx(200 * 2.0 / 10)
    assert seconds["rpm"] == pytest.approx(200)
    assert seconds["tpm"] == pytest.approx(60 * sum(map(sum, left)) / 1000, rel=0.1)


def test_texts_are_embedded_many_a_call_and_looked_up_one_by_one(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(200)]
    vector = b'{"embedding": [0.5]}'
    sent = [canonical(embedding_body(MINE, text)) for text in texts[:64]]
    records = [
        (
            key_of("mine", EMBEDDINGS, each),
            Record("mine", "m", "embeddings", "", each.encode(), vector, input_tokens=3),
        )
        for each in sent
    ]
    fill(tmp_path / "r.sqlite", records)
    with estimating(tmp_path / "r.sqlite") as estimator:
        estimator.embed(texts + texts)
        found = estimator.estimate()
    assert (found.calls, found.cached, found.output_high) == (3, 64, 0)
    assert found.input_tokens == pytest.approx(136 * 3, rel=0.1)


class Word(BaseModel):
    word: str


def test_replies_that_were_sent_back_or_cut_off_are_reckoned_to_come_again(tmp_path: Path) -> None:
    def said(number: int, text: str, finish: str = "stop") -> tuple[str, Record]:
        message = {"choices": [{"message": {"content": text}, "finish_reason": finish}]}
        body = json.dumps(message).encode()
        return stored(asked[number], body=body, finish=finish, input_tokens=100, output_tokens=50)

    words = ["malt"] * 100
    asked = [
        replace(
            question(0),
            messages=(
                ("system", "Say it."),
                ("user", f"{number:04} {' '.join(words)}"),
            ),
            reply=Word,
            form="json",
        )
        for number in range(1000)
    ]
    good, bad = '{"word": "tea"}', "no such thing"
    fill(tmp_path / "all.sqlite", [said(number, good) for number in range(100)])
    fill(tmp_path / "bad.sqlite", [said(number, bad if number % 5 == 0 else good) for number in range(100)])
    fill(
        tmp_path / "cut.sqlite", [said(number, good, "length" if number % 5 == 0 else "stop") for number in range(100)]
    )
    for name in ("bad", "cut"):
        follow_up(tmp_path / f"{name}.sqlite", asked[:100:5], stored(question(0))[1], good)
    well, broken, cut = (estimate(tmp_path / f"{name}.sqlite", asked) for name in ("all", "bad", "cut"))
    assert (well.input_tokens, well.output_tokens) == (90_000, 45_000)
    assert (broken.input_tokens, broken.output_tokens) == (90_000 * 1.2 + 9_000, 54_000)
    assert (cut.input_tokens, cut.output_tokens) == (108_000, 315_000)


# ---------------------------------------------------------------- plans


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with 40 items of a site, read and ordered, and no stored replies."""
    (tmp_path / "tea").write_text("".join(f"{number}\n" for number in range(40)))
    with building(tmp_path / "home") as run:
        order_items(run, read_items(run, [source(tmp_path / "tea", "tea")]))
    return tmp_path / "home"


def planned(home: Path, batch: tuple[str, ...] = (), **asked: Any) -> list[Planned]:
    plan = Plan(Store(home), responses=home / "llm" / "responses.sqlite", unbatched=dict.fromkeys(batch, "wait"))
    items = order_items(plan, read_items(plan, [source(home.parent / "tea", "tea")]))
    asking = asked.pop("asking", say)
    arguments = {"prompt": PROMPT, "log": str(home.parent / "log")} if asking is say else {}
    asking(plan, items, **{**arguments, **asked})
    plan.close()
    return plan.stages


def tree(home: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in home.rglob("*")}


def test_a_plan_counts_what_would_be_asked_and_sends_and_writes_nothing(home: Path) -> None:
    before = tree(home)
    found = planned(home, model=MINE)[-1]
    assert (found.known, found.calls, found.cached) == ("exact", 40, 0)
    assert found.usd_low is not None
    assert found.usd_high is not None
    assert found.usd_low < usd([question(number) for number in range(40)]) < found.usd_high
    assert tree(home) == before
    for scratch in (home.parent / "log").read_text().split():
        assert not Path(scratch).exists()
        assert home not in Path(scratch).parents
    json.dumps(found.as_dict())


def test_stored_replies_are_not_counted_as_questions(home: Path) -> None:
    fill(home / "llm" / "responses.sqlite", [stored(question(number)) for number in range(25)])
    found = planned(home, model=MINE)[-1]
    left = [question(number) for number in range(25, 40)]
    assert (found.calls, found.cached, found.measured) == (15, 25, True)
    assert found.usd == pytest.approx(usd(left), rel=0.1)


def test_a_plan_can_be_made_while_another_process_holds_the_store(home: Path) -> None:
    with closing(open_responses(home / "llm" / "responses.sqlite")) as store:
        asyncio.run(store.put([stored(question(number)) for number in range(25)]))
        with closing(sqlite3.connect(home / "llm" / "responses.sqlite")) as other:
            assert other.execute("SELECT count(*) FROM response").fetchone() == (25,)
        assert planned(home, model=MINE)[-1].cached == 25


def test_two_endpoints_of_a_stage_are_added_up(home: Path) -> None:
    judge = Endpoint("judge", "j", base_url="http://127.0.0.1:9/v1", price=Price(1.0, 1.0))
    found = planned(home, asking=weigh, model=MINE, judge=judge)[-1]
    assert (found.calls, found.unpriced) == (80, {})
    found = planned(home, asking=weigh, model=MINE, judge=replace(judge, price=None))[-1]
    assert (found.calls, found.usd, found.unpriced) == (80, None, {"judge": "j"})


def test_embeddings_are_counted_and_end_the_walk(home: Path) -> None:
    found = planned(home, asking=place, embedding=MINE)[-1]
    assert (found.exact, found.calls, found.output_high) == (True, 1, 0)


def test_calls_of_the_offline_model_are_counted_and_cost_nothing(home: Path) -> None:
    found = planned(home, model=OFFLINE)[-1]
    assert (found.calls, found.cached, found.usd, found.offline, found.exact) == (40, 0, 0, True, True)
    assert not (home / "llm").exists()


def test_where_inputs_are_not_built_stored_answers_give_a_bound(home: Path) -> None:
    with (home.parent / "tea").open("a") as file:
        file.write("40\n")
    assert planned(home, model=MINE)[-1].usd_high is None
    fill(home / "llm" / "responses.sqlite", [stored(question(number)) for number in range(40)])
    found = planned(home, model=MINE)[-1]
    assert (found.exact, found.usd, found.cached) == (False, None, None)


def test_a_stage_behind_one_that_is_not_built_has_a_bound(home: Path) -> None:
    requests = [question(number) for number in range(40)]
    fill(home / "llm" / "responses.sqlite", [stored(request) for request in requests])
    plan = Plan(Store(home), responses=home / "llm" / "responses.sqlite")
    items = order_items(plan, read_items(plan, [source(home.parent / "tea", "tea")]))
    say(plan, cap(plan, items, most=1000), model=MINE, prompt=PROMPT, log=str(home.parent / "log"))
    plan.close()
    found = plan.stages[-1]
    assert (found.calls, found.known, found.waits_for) == (40, "at most", "cap")
    assert found.usd_at_most is None  # the stage does not say how long its questions may be
    assert not (home.parent / "log").exists()


def test_a_damaged_input_is_named(home: Path) -> None:
    (part,) = (home / "stages" / "order_items" / "parts").glob("*/rows.parquet")
    part.write_bytes(b"PAR1" * (part.stat().st_size // 4) + b"P" * (part.stat().st_size % 4))
    with pytest.raises(StoreError, match="--force order_items"):
        planned(home, model=MINE)


# ---------------------------------------------------------------- on a terminal


def shown(stages: list[Planned], capsys: pytest.CaptureFixture[str]) -> str:
    out = console()
    out.print(plan_table(stages))
    for line in plan_foot(stages):
        out.print(line, soft_wrap=True)
    return capsys.readouterr().out


def test_a_stage_of_unknown_price_and_unknown_number_of_calls_is_named_as_left_out(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (stage,) = [stage for stage in planned(home, model=MINE) if stage.endpoint]
    unknown = replace(stage, known="unknown until read", waits_for="cap", unpriced={"mine": "m"})
    unknown = replace(unknown, **UNKNOWN_FIGURES)
    assert "without say (unknown until cap)" in shown([unknown], capsys)


@pytest.mark.parametrize(("then", "words"), [("wait", "nothing goes online"), ("online", "at most 120 calls")])
def test_the_foot_says_what_is_asked_online_in_batch_mode_and_how_much_at_most(
    then: str, words: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = planned(home, model=MINE)
    assert "unbatched" not in shown(stages, capsys)
    stages = [replace(stage, unbatched=then if stage.endpoint else None) for stage in stages]
    (asking,) = [stage.stage for stage in stages if stage.endpoint]
    text = shown(stages, capsys)
    assert f'{asking} in batches, unbatched = "{then}"' in text
    assert words in text


def test_a_stage_with_more_questions_than_a_pilot_says_so_in_text_and_in_json(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = planned(home, model=MINE)
    assert [stage.as_dict()["pilot"] for stage in stages] == [None, None, 30]
    assert "the first 30 questions of say are a pilot: more is asked once" in shown(stages, capsys)
    none = [planned(home, model=MINE, batch=("say",)), planned(home, model=OFFLINE)]  # a small batch is one job
    fill(home / "llm" / "responses.sqlite", [stored(question(number)) for number in range(10)])
    none.append(planned(home, model=MINE))  # 30 questions are left: all are asked at once
    for each in none:
        assert [stage.pilot for stage in each] == [None, None, None]
        assert "pilot" not in shown(each, capsys).replace("a pilot (`build", "")


def test_the_table_shows_calls_tokens_money_and_how_to_know_better(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(planned(home, model=MINE), capsys)
    assert all(word in text for word in ("calls", "cached", "tokens in/out", "USD", "40", "≤ 40.6 k"))
    assert "--max-cost stops before overspending" in text
    assert "batch up to 24 h, USD" in text
    assert "`build --limit" in text
    assert max(map(len, text.splitlines()[:4])) <= 100


def test_the_foot_says_how_much_is_cached_and_how_much_is_reasoning(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = planned(home, model=MINE)
    assert "of which" not in shown(stages, capsys)
    stages[-1] = replace(stages[-1], cached_tokens=4_200, reasoning_tokens=1_300)
    assert "of which about 4.2 k tokens in cached, about 1.3 k tokens out reasoning" in shown(stages, capsys)


def test_a_missing_price_is_reported_with_the_setting_for_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(planned(home, model=replace(MINE, price=None)), capsys)
    assert "price of model m unknown: set [endpoints.mine.price]" in text
    assert "unknown" in text.splitlines()[3]


def test_a_plan_of_the_offline_model_has_no_columns_of_money(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(planned(home, model=OFFLINE), capsys)
    assert "USD" not in text
    assert "tokens" not in text
    assert "40" in text.splitlines()[3]
