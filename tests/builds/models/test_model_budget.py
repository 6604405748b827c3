"""A cost limit holds by the server's own count, whatever fails; and a build costs what its plan says."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from axioms_builds import Silent, build_axioms
from standin_server import Server, serve
from typer.testing import CliRunner

from flows.axioms import AxiomsConfig
from flows.builds.building import Options, build
from flows.cli.main import app
from longform.engine.thread_tasks import SequentialStages
from longform.errors import BudgetError, Incomplete
from longform.llm.ask.types import Answer, Endpoint, Failure, Price, Request
from longform.llm.models import Models
from longform.llm.price import NANO
from longform.llm.responses.store import open_responses
from longform.standin.faults import LOST, UNREADABLE

pytestmark = pytest.mark.check

MOST_RUNS = 200
LIMIT = 200


class Wordless(httpx2.AsyncBaseTransport):
    """A transport that removes the token usage from a share of the replies."""

    def __init__(self, share: float, seed: int) -> None:
        self.inner, self.share, self.dice = httpx2.AsyncHTTPTransport(), share, random.Random(seed)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self.inner.handle_async_request(request)
        if self.dice.random() >= self.share or response.status_code != 200:
            return response
        try:
            document = json.loads(await response.aread())
        except ValueError:
            return response
        document.pop("usage", None)
        return httpx2.Response(200, json=document)

    async def aclose(self) -> None:
        await self.inner.aclose()


@dataclass(frozen=True)
class Draw:
    """A randomly drawn case: an endpoint, questions, faults, and the cost limit of every run."""

    endpoint: Endpoint
    requests: list[Request]
    faults: dict[str, float]
    wordless: float
    cap: float


def drawn(seed: int, url: str) -> Draw:
    dice = random.Random(seed)
    price = Price(dice.choice([0.0, 0.1, 2.5]), dice.choice([0.2, 10.0, 120.0]), None)
    together = dice.random() < 0.5
    endpoint = Endpoint(
        "mine",
        "m",
        base_url=url,
        price=price,
        concurrency=dice.choice([1, 3, 16, 64]),
        timeout_seconds=1.5,
        capabilities=frozenset({"n"} if together else ()),
        parameters=(("seed", 1),),
    )
    requests = [
        Request(
            (("user", f"Question {n} " + "word " * dice.randint(0, 200)),),
            task="x",
            max_tokens=dice.choice([LIMIT, 2 * LIMIT]),
            samples=dice.choice([1, 1, 3]),
        )
        for n in range(30)
    ]
    kinds = ("429-bare", "500", "reset", "drip", "broken", "truncated", "length", "whitespace", "empty", "context")
    faults = {kind: dice.uniform(0, 0.05) for kind in dice.sample(kinds, 5)}
    dearest = max(bound(endpoint, request) for request in requests)
    return Draw(endpoint, requests, faults, dice.choice([0.0, 0.0, 0.2]), dearest * dice.uniform(1, 4) / NANO)


def bound(endpoint: Endpoint, request: Request) -> int:
    """The most that a question's dearest call may cost, in USD billionths: with three samples, or twice the tokens."""
    from longform.llm.ask.keys import canonical
    from longform.llm.ask.tokens import upper_bound
    from longform.llm.price import cost_nano
    from longform.llm.send.bodies import body_of

    sent = upper_bound(canonical(body_of(endpoint, request))) + 8
    return cost_nano(endpoint.price or Price(0, 0), sent, 0, 3 * request.max_tokens)


def billed(server: Server, price: Price) -> float:
    """USD billionths by the server's own count, including replies that were lost on the way."""
    tokens = settled(server)["tokens"]
    return float((tokens["prompt"] * price.input + tokens["completion"] * price.output) * 1000)


def settled(server: Server) -> dict[str, Any]:
    """The server's counters, once it has read all requests whose clients did not wait."""
    counted, calm = server.counters(), 0
    while calm < 50:
        before, counted = counted, server.counters()
        calm = calm + 1 if counted["requests"] == before["requests"] and not counted["in_flight"] else 0
    return counted


def lost(store: Path) -> int:
    """Ledger calls that brought no usable reply."""
    with closing(open_responses(store, read_only=True)) as responses:
        return sum(line["unanswered"] for line in responses.ledger(""))


def one_run(draw: Draw, store: Path, seed: int) -> tuple[bool, int, list[Answer | Failure]]:
    """(whether the cost limit ended the run, what it thinks it spent, what it delivered)."""
    transport = Wordless(draw.wordless, seed) if draw.wordless else None
    came: list[Answer | Failure] = []
    with Models(store, max_cost=draw.cap, transport=transport, first_pause_seconds=0.01) as models:
        try:
            came.extend(answer for _, answer in models.client(draw.endpoint).ask(enumerate(draw.requests)))
        except BudgetError:
            return True, models.budget.spent_nano, came
        except Incomplete:
            pass
        return False, models.budget.spent_nano, came


def spend(seed: int, store: Path) -> tuple[int, float]:
    """Run with the same limit until all is answered: (number of runs, the largest share of the limit that was
    spent).
    """
    with serve(say="said" * random.Random(seed).choice([1, LIMIT // 3, LIMIT]), seed=seed) as server:
        draw = drawn(seed, server.url)
        server.set_faults(draw.faults)
        wanted = sum(request.samples for request in draw.requests)
        price, most = draw.endpoint.price, 0.0
        assert price is not None
        for number in range(1, MOST_RUNS):
            before = billed(server, price)
            stopped, spent, came = one_run(draw, store, number)
            cost = billed(server, price) - before
            assert cost <= spent + 1
            assert spent <= draw.cap * NANO
            most = max(most, cost / (draw.cap * NANO))
            if not stopped and len(came) == wanted:
                break
        assert len(came) == wanted
        assert all(isinstance(each, Failure) or each.text.strip() for each in came)
        counted = settled(server)
        damaged = sum(counted["outcomes"].get(fault, 0) for fault in LOST | UNREADABLE)
        twice = sum(times - 1 for times in counted["repeated"].values())
        assert twice <= lost(store) - damaged, "no whole answer is asked for again, unless it came after the time-out"
        return number, most


@pytest.mark.parametrize("seed", range(8))
def test_the_cap_holds_by_the_servers_bill_and_the_next_run_goes_on(seed: int, tmp_path: Path) -> None:
    runs, most = spend(seed, tmp_path / "responses.sqlite")
    print(f"seed {seed}: {runs} runs, {most:.1%} of the cap at most")
    assert most <= 1


@pytest.mark.soak
def test_in_a_hundred_random_runs_the_cap_holds(tmp_path: Path) -> None:
    shares = []
    for seed in range(100, 200):
        _, most = spend(seed, tmp_path / f"{seed}.sqlite")
        shares.append(most)
    print(f"100 cases: {max(shares):.1%} of the cap at most, {sum(shares) / 100:.1%} on average")
    assert max(shares) <= 1


# ---------------------------------------------------------------- whole builds


PRICE = {"input": 2.0, "output": 8.0}
WRITING = ("answer_open_book", "answer_closed_book", "corrupt_answers", "combine_answers")


def settings(server: Server, **more: Any) -> dict[str, Any]:
    endpoint = {"base_url": server.url, "model": "m", "capabilities": ["json_schema", "batch"], "price": PRICE}
    return {"model": "mine", "endpoints": {"mine": endpoint}, **more}


@pytest.mark.parametrize(("mode", "cap"), [("online", 0.15), pytest.param("batch", 0.1, marks=pytest.mark.soak)])
def test_builds_with_a_cap_go_on_until_the_dataset_is_there(mode: str, cap: float, tmp_path: Path) -> None:
    paid, done = [], False
    with serve(batch_seconds=0.0) as server:
        while not done and len(paid) < 40:
            before = billed(server, Price(**PRICE))
            done = capped(tmp_path / "home", cap, settings(server, mode=mode))
            paid.append((billed(server, Price(**PRICE)) - before) * (0.5 if mode == "batch" else 1) / NANO)
        print(f"{mode}: cap {cap}, spent in each run {[round(usd, 4) for usd in paid]}")
        assert done
        assert len(paid) > 1
        assert max(paid) <= cap
        assert server.counters()["repeated"] == {}


def capped(home: Path, usd: float, chosen: dict[str, Any]) -> bool:
    """Whether a build with this cost limit published a version."""
    try:
        options = Options(home, "v1", max_cost=usd)
        published, _ = build("axioms", AxiomsConfig(**chosen), options, tasks=SequentialStages(), progress=Silent())
    except BudgetError:
        return False
    return published is not None


# ---------------------------------------------------------------- what a plan says


def planned(home: Path, config: Path) -> dict[str, Any]:
    """stage -> its entry in `longform plan --json`."""
    done = CliRunner().invoke(app, ["plan", "axioms", "--home", str(home), "--config", str(config), "--json"])
    assert done.exit_code == 0, done.output
    return {stage["stage"]: stage for stage in json.loads(done.stdout)["stages"]}


def spent(home: Path) -> dict[str, float]:
    """stage -> USD in the ledger."""
    path = home / "llm" / "responses.sqlite"
    with closing(open_responses(path, read_only=True)) as store:
        lines = store.ledger("axioms")
    return {stage: sum(x["cost_nano"] for x in lines if x["stage"] == stage) / NANO for stage in WRITING}


def told_and_spent(home: Path, server: Server, pilot: int, **more: Any) -> Iterator[tuple[str, float, float]]:
    """Of each stage: USD planned with its inputs built and after a pilot, and USD then spent."""
    chosen = settings(server, **more)
    build_axioms(home, "pilot", limit=pilot, **chosen)
    build_axioms(home, until="retrieve_passages", **chosen)
    config = home / "config.toml"
    config.write_text("\n".join(toml(chosen)))
    for stage in WRITING:
        plan, before = planned(home, config)[stage], spent(home)[stage]
        assert plan["known"] == "exact"
        assert plan["measured"]
        build_axioms(home, until=stage, **chosen)
        cost = spent(home)[stage] - before
        assert plan["usd_low"] <= cost <= plan["usd_high"]
        yield stage, plan["usd"], cost


def toml(chosen: dict[str, Any]) -> Iterator[str]:
    yield from (f"{name} = {json.dumps(value)}" for name, value in chosen.items() if not isinstance(value, dict))
    yield "[endpoints.mine]"
    yield from (f"{k} = {json.dumps(v)}" for k, v in chosen["endpoints"]["mine"].items() if k != "price")
    yield "price = {input = 2.0, output = 8.0}"


def within_a_tenth(lines: list[tuple[str, float, float]]) -> None:
    expected_message, cost = sum(line[1] for line in lines), sum(line[2] for line in lines)
    for stage, usd, paid in [*lines, ("all", expected_message, cost)]:
        print(f"{stage}: USD {usd:.4f} planned, {paid:.4f} spent, {usd / paid - 1:+.1%}")
    assert expected_message == pytest.approx(cost, rel=0.1)


def test_what_a_plan_says_after_a_pilot_is_what_is_spent_on_the_samples(tmp_path: Path) -> None:
    with serve() as server:
        within_a_tenth(list(told_and_spent(tmp_path / "home", server, pilot=12)))


def test_what_a_plan_says_after_a_pilot_is_what_is_spent_on_the_beer_site(tmp_path: Path, beer: Path) -> None:
    with serve() as server:
        lines = list(told_and_spent(tmp_path / "home", server, pilot=60, dump=str(beer), site="beer.stackexchange.com"))
    within_a_tenth(lines)
    assert all(usd == pytest.approx(cost, rel=0.1) for _, usd, cost in lines)
