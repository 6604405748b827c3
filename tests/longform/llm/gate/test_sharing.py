"""What several processes have of one endpoint together: never more than it allows, and nearly all of it.

The server counts what is in flight and refuses what is over its rate; four real processes ask it with one PostgreSQL.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import Any

import paths
import pytest
from hypothesis import given
from hypothesis import strategies as st
from postgresql import running
from standin_server import Server, serve

from longform.llm.ask.types import Answer, Endpoint, Request
from longform.llm.gate.sharing import Share, fair_shares, shared_now
from longform.llm.models import Models
from longform.llm.responses.store import open_responses

pytestmark = pytest.mark.check

ROOT = paths.ROOT
RPM, CONCURRENCY = 600, 8
SILENT_SECONDS = 6.0  # after which a process counts as dead: six times those between two of its words

ASK = """
import sys
from itertools import count
from longform.llm.models import Models
from longform.llm.ask.types import Endpoint, Request
from longform.llm.responses.store import open_responses
store, url, first, step, number = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
rpm, concurrency = int(sys.argv[6]) or None, int(sys.argv[7])  # 0: no rate of our own
open_responses(store).allowances.seconds = float(sys.argv[8])
endpoint = Endpoint("mine", "m", base_url=url, concurrency=concurrency, rpm=rpm)
numbers = range(first, first + step * number, step) if number else count(first, step)
asked = ((n, Request((("user", f"Question {n}"),), task="x", max_tokens=64)) for n in numbers)
print("ready", flush=True)
sys.stdin.readline()
with Models(store, first_pause_seconds=0.01) as models:
    print(sum(bool(answer.text) for _, answer in models.client(endpoint).ask(asked)), flush=True)
"""


@contextmanager
def asking(
    store: str, server: Server, first: int, *, step: int = 4, number: int = 0, rpm: int = RPM
) -> Iterator[subprocess.Popen[str]]:
    """A process that asks every `step`th question from `first` on; as many as there are, where `number` is 0."""
    told = [store, server.url, first, step, number, rpm, CONCURRENCY, SILENT_SECONDS]
    command = [sys.executable, "-c", ASK, *map(str, told)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as started:
        try:
            assert started.stdout is not None
            assert started.stdin is not None
            assert started.stdout.readline() == "ready\n"
            started.stdin.write("go\n")
            started.stdin.flush()
            yield started
        finally:
            started.kill()


def answered(server: Server) -> int:
    return int(server.counters()["answered_bodies"])


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def rate(server: Server, seconds: float) -> float:
    """Answers a second."""
    before, begun = answered(server), time.monotonic()
    time.sleep(seconds)
    return (answered(server) - before) / (time.monotonic() - begun)


def held(postgres: Any, store: str) -> list[int]:
    return sorted(row[0] for row in postgres.execute("SELECT held FROM longform.holder", store))


# processes


def test_four_processes_use_an_endpoint_to_its_limits_and_never_more_even_when_one_is_killed(
    postgres: Any, postgres_url: str
) -> None:
    """The server takes 30 requests at once before it counts the rate: more than are ever in flight."""
    with serve(rpm=RPM, burst=30, latency_seconds=0.3, headers=False) as server, ExitStack() as stack:
        asked = [stack.enter_context(asking(postgres_url, server, n)) for n in range(4)]
        wait_for(lambda: held(postgres, postgres_url) == [2, 2, 2, 2])
        wait_for(lambda: rate(server, 10) >= 0.8 * RPM / 60)
        asked[0].kill()
        asked[0].wait()
        begun = time.monotonic()
        wait_for(lambda: held(postgres, postgres_url) == [2, 3, 3])
        print(f"\nshared anew after {time.monotonic() - begun:.0f} s")
        wait_for(lambda: rate(server, 10) >= 0.8 * RPM / 60)
        counters = server.counters()
        assert counters["in_flight_highest"] <= CONCURRENCY
        assert set(counters["outcomes"]) == {"answered"}
        assert counters["repeated"] == {}


def test_processes_that_ask_the_same_questions_buy_each_once(postgres: Any, postgres_url: str) -> None:
    with serve(latency_seconds=0.05) as server, ExitStack() as stack:
        asked = [stack.enter_context(asking(postgres_url, server, 0, step=1, number=120, rpm=0)) for _ in range(3)]
        assert [process.stdout.readline() for process in asked if process.stdout] == ["120\n"] * 3
        counters = server.counters()
        assert (counters["answered_bodies"], counters["repeated"]) == (120, {})
        assert counters["in_flight_highest"] <= CONCURRENCY
        wait_for(lambda: held(postgres, postgres_url) == [])


def test_a_process_that_has_nothing_to_ask_gives_way_to_one_that_has(postgres: Any, postgres_url: str) -> None:
    """It keeps its models open, and asks again later."""
    endpoint = Endpoint("mine", "m", base_url="", concurrency=CONCURRENCY)
    with serve() as server, Models(postgres_url, first_pause_seconds=0.01) as models:
        client = models.client(replace(endpoint, base_url=server.url))

        def ask(first: int) -> int:
            asked = ((n, Request((("user", f"Mine {n}"),), task="x", max_tokens=64)) for n in range(first, first + 20))
            return sum(isinstance(answer, Answer) for _, answer in client.ask(asked))

        assert ask(0) == 20
        with asking(postgres_url, server, 0, rpm=0):
            wait_for(lambda: held(postgres, postgres_url) == [CONCURRENCY])
            assert ask(20) == 20
            wait_for(lambda: held(postgres, postgres_url) == [CONCURRENCY])


def test_who_is_not_heard_of_for_long_stops_asking(postgres: Any, postgres_url: str) -> None:
    """A process that sleeps loses its share to another, and has none when it wakes until it is given one."""
    with serve(latency_seconds=0.2) as server, ExitStack() as stack:
        sleeper = stack.enter_context(asking(postgres_url, server, 0, rpm=0))
        wait_for(lambda: answered(server) > 20)
        sleeper.send_signal(signal.SIGSTOP)
        stack.enter_context(asking(postgres_url, server, 1, rpm=0))
        wait_for(lambda: held(postgres, postgres_url) == [CONCURRENCY])
        before = server.counters()["outcomes"]["answered"]
        wait_for(lambda: server.counters()["outcomes"]["answered"] > before + 2 * CONCURRENCY)
        server.reset()
        sleeper.send_signal(signal.SIGCONT)
        wait_for(lambda: held(postgres, postgres_url) == [CONCURRENCY // 2] * 2)
        wait_for(lambda: server.counters()["outcomes"].get("answered", 0) > 40)
        assert server.counters()["in_flight_highest"] <= CONCURRENCY


def test_a_database_of_an_earlier_release_gets_the_tables_it_lacks(postgres: Any, postgres_url: str) -> None:
    open_responses(postgres_url).close()
    postgres.execute("DROP TABLE longform.holder", postgres_url)
    store = open_responses(postgres_url)
    assert store.allowances is not None
    share = asyncio.run(store.allowances.share("mine", "me", total=4, wanted=2, in_use=0))
    assert share == (4, 4), "what nobody else wants is there as well"
    store.close()


def test_who_could_not_be_heard_of_while_the_database_was_away_keeps_its_share() -> None:
    """It may still have requests in flight, however long the database was away."""
    seconds = 2.0
    with running() as postgres:
        url = postgres.database()
        with closing(open_responses(url)) as store:
            assert store.allowances
            store.allowances.seconds = seconds

            def share(owner: str, in_use: int) -> Share:
                assert store.allowances
                return asyncio.run(store.allowances.share("mine", owner, total=8, wanted=8, in_use=in_use))

            assert share("one", 0) == (8, 8)
            with postgres.stopped():
                time.sleep(1.5 * seconds)
            assert share("two", 0).granted == 0
            assert share("one", 8) == (8, 4)
            assert share("one", 4) == (4, 4)
            assert share("two", 0) == (4, 4)
            wait_for(lambda: share("two", 4) == (8, 8))


# rules


def test_each_has_what_it_wants_or_as_much_as_the_others() -> None:
    assert fair_shares(8, {"a": 8, "b": 8, "c": 8, "d": 8}) == {"a": 2, "b": 2, "c": 2, "d": 2}
    assert fair_shares(8, {"a": 8, "b": 8, "c": 8}) == {"a": 3, "b": 3, "c": 2}
    assert fair_shares(32, {"busy": 32, **{f"idle{n}": 1 for n in range(7)}})["busy"] == 25
    assert fair_shares(8, {"a": 3}) == {"a": 8}
    assert fair_shares(8, {"a": 1, "b": 3}) == {"a": 3, "b": 5}


def test_where_there_are_more_than_may_ask_at_once_all_have_their_turns() -> None:
    wanted = {f"p{n}": 5 for n in range(10)}
    turns = [fair_shares(3, wanted, turn) for turn in range(200)]
    assert all(sorted(shares.values()) == [0] * 7 + [1] * 3 for shares in turns)
    assert all(sum(shares[owner] for shares in turns) > 20 for owner in wanted)


@given(
    total=st.integers(1, 12),
    moves=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 12), st.integers(0, 20), st.booleans()), max_size=80),
)
def test_together_they_never_have_more_than_there_is(total: int, moves: list[tuple[int, int, int, bool]]) -> None:
    """Whoever looks, in whatever order, with however much in flight of what it may, and whoever dies."""
    table: dict[str, tuple[int, int]] = {}
    most: dict[str, int] = {}
    for number, flying, wanted, dies in moves:
        owner = f"p{number}"
        if dies:
            table.pop(owner, None)
            most.pop(owner, None)
            continue
        others = {name: row for name, row in table.items() if name != owner}
        may = most.get(owner, 0)
        in_flight = min(flying, table.get(owner, (0, 0))[1])
        share = shared_now(owner, others, total=total, wanted=wanted, in_use=max(may, in_flight), turn=0)
        table[owner], most[owner] = (wanted, share.granted), min(share)
        assert sum(held for _, held in table.values()) <= total
        assert all(most[name] <= table[name][1] for name in table)
