"""A cost limit holds by the server's own count, whatever fails; and a build costs what its plan says."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import http_server
import pytest
from axioms_builds import UNSEEN, Silent, build_axioms
from http_server import Asked
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
HOP_HEADERS = ("content-length", "transfer-encoding", "connection", "date", "server")


@contextmanager
def wordless(url: str, share: float, seed: int) -> Iterator[str]:
    """The address of a gateway to this server that removes the token usage from a share of the replies."""
    dice = random.Random(seed)

    def forward(asked: Asked) -> http_server.Answer:
        with closing(HTTPConnection(urlsplit(url).netloc, timeout=2)) as connection:
            connection.request("POST", asked.path, asked.body, {"Content-Type": "application/json"})
            try:
                reply = connection.getresponse()
                content = reply.read()
            except (OSError, HTTPException):
                raise ConnectionAbortedError from None  # closes the connection to the client too
        headers = {name: value for name, value in reply.getheaders() if name.lower() not in HOP_HEADERS}
        document = as_object(content) if reply.status == 200 and dice.random() < share else None
        if document:
            document.pop("usage", None)
            content = json.dumps(document).encode()
        return http_server.Answer(reply.status, content, headers)

    with http_server.serve() as gateway:
        gateway.on("*", forward)
        yield gateway.url + urlsplit(url).path


def as_object(content: bytes) -> dict[str, Any] | None:
    """The JSON object in a body, None where it is none."""
    try:
        document = json.loads(content)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


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


def one_run(draw: Draw, store: Path) -> tuple[bool, int, list[Answer | Failure]]:
    """(whether the cost limit ended the run, what it thinks it spent, what it delivered)."""
    came: list[Answer | Failure] = []
    with Models(store, max_cost=draw.cap, first_pause_seconds=0.01) as models:
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
    with ExitStack() as stack:
        say = "said" * random.Random(seed).choice([1, LIMIT // 3, LIMIT])
        server = stack.enter_context(serve(say=say, seed=seed))
        draw = drawn(seed, server.url)
        if draw.wordless:
            url = stack.enter_context(wordless(server.url, draw.wordless, seed))
            draw = replace(draw, endpoint=replace(draw.endpoint, base_url=url))
        server.set_faults(draw.faults)
        wanted = sum(request.samples for request in draw.requests)
        price, most, runs = draw.endpoint.price, 0.0, 0
        assert price is not None
        for _ in range(1, MOST_RUNS):
            runs += 1
            before = billed(server, price)
            stopped, spent, came = one_run(draw, store)
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
        return runs, most


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
        published, _ = build(
            "axioms", AxiomsConfig(**UNSEEN | chosen), options, tasks=SequentialStages(), progress=Silent()
        )
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
