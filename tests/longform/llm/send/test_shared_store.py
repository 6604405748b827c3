"""Processes that ask overlapping questions of one endpoint over one PostgreSQL store, at the same time: each ends, and
each sample and each text is bought once, whoever is killed.

The server here is the test's own: it counts what it sells by question and by text, whatever the calls are cut into.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import paths
import pytest
from aiohttp import web

from longform.llm.responses.store import open_responses

pytestmark = pytest.mark.check

SAMPLES, QUESTIONS, TEXTS = 3, 60, 300
PATIENCE_SECONDS = 90.0

ASK = f"""
import random, sys
from longform.llm.ask.types import Endpoint, Request
from longform.llm.models import Models
store, url, pair, seed = sys.argv[1:]
drawn = random.Random(seed)
capabilities = frozenset({{"n"}} if drawn.random() < 0.5 else ())
endpoint = Endpoint("mine", "m", base_url=url, concurrency=8, capabilities=capabilities)
questions = drawn.sample(range({QUESTIONS}), drawn.randint(20, {QUESTIONS}))
texts = [f"{{pair}} text {{n}}" for n in drawn.sample(range({TEXTS}), 200)]
requests = [
    (n, Request((("user", f"{{pair}} question {{n}}"),), task="x", max_tokens=64, samples={SAMPLES}))
    for n in questions
]
print("ready", flush=True)
sys.stdin.readline()
with Models(store, first_pause_seconds=0.01) as models:
    client = models.client(endpoint)
    answers = sum(bool(answer.text) for _, answer in client.ask(requests))
    vectors = client.embed(texts)
    print(answers == len(requests) * {SAMPLES} and len(vectors) == len(texts), flush=True)
"""


class Shop:
    """What was sold: a question once for each choice of a reply, and texts."""

    def __init__(self, latency_seconds: float) -> None:
        self.sold: Counter[str] = Counter()
        self.in_flight: Counter[str] = Counter()
        self._latency = latency_seconds

    async def chat(self, request: web.Request) -> web.Response:
        asked = orjson.loads(await request.read())
        question, number = asked["messages"][-1]["content"], asked.get("n", 1)
        self.sold[question] += number
        await self.wait()
        message = {"role": "assistant", "content": f"On {question}."}
        choices = [{"index": n, "message": message, "finish_reason": "stop"} for n in range(number)]
        return self.reply({"choices": choices, "usage": {"prompt_tokens": 5, "completion_tokens": 5 * number}})

    async def embeddings(self, request: web.Request) -> web.Response:
        texts = orjson.loads(await request.read())["input"]
        texts = [texts] if isinstance(texts, str) else texts
        self.sold.update(texts)
        await self.wait()
        data = [{"index": n, "embedding": [float(len(text)), 1.0]} for n, text in enumerate(texts)]
        return self.reply({"data": data, "usage": {"prompt_tokens": len(texts)}})

    async def wait(self) -> None:
        await asyncio.sleep(self._latency * random.uniform(0.5, 1.5))

    def reply(self, document: dict[str, Any]) -> web.Response:
        return web.Response(body=orjson.dumps({"id": "x", "model": "m", **document}), content_type="application/json")


@contextmanager
def shop(latency_seconds: float = 0.03) -> Iterator[tuple[Shop, str]]:
    """A server that sells, in a thread of its own: (what it sold, its address)."""
    sells, loop = Shop(latency_seconds), asyncio.new_event_loop()
    application = web.Application(client_max_size=1 << 26)
    application.router.add_post("/v1/chat/completions", sells.chat)
    application.router.add_post("/v1/embeddings", sells.embeddings)
    runner = web.AppRunner(application)

    async def start() -> int:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return int(runner.addresses[0][1])

    port = loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield sells, f"http://127.0.0.1:{port}/v1"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def asking(store: str, url: str, pair: str, seed: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", ASK, store, url, pair, str(seed)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=paths.ROOT, text=True, **pipes) as started:
        try:
            yield started
        finally:
            started.kill()


def begin(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


def ended_well(process: subprocess.Popen[str]) -> bool:
    out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    return out == "True\n" and process.returncode == 0


def leases(postgres: Any, store: str) -> int:
    return int(postgres.execute("SELECT count(*) FROM longform.lease", store)[0][0])


@pytest.mark.parametrize("pairs", [4, pytest.param(100, marks=pytest.mark.soak)])
def test_two_that_ask_overlapping_questions_both_end_and_buy_each_once(
    pairs: int, postgres: Any, postgres_url: str
) -> None:
    open_responses(postgres_url).close()
    with shop() as (sells, url):
        for pair in range(pairs):
            with (
                asking(postgres_url, url, f"pair {pair}", 2 * pair) as one,
                asking(postgres_url, url, f"pair {pair}", 2 * pair + 1) as two,
            ):
                begin(one, two)
                assert ended_well(one), f"pair {pair}"
                assert ended_well(two), f"pair {pair}"
            sold = {what: number for what, number in sells.sold.items() if what.startswith(f"pair {pair} ")}
            assert {number for what, number in sold.items() if " question " in what} == {SAMPLES}, f"pair {pair}"
            assert {number for what, number in sold.items() if " text " in what} == {1}, f"pair {pair}"
            assert leases(postgres, postgres_url) == 0


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.soak)])
def test_of_three_two_are_killed_and_the_third_ends_when_their_leases_have_run_out(
    rounds: int, postgres_url: str
) -> None:
    """A lease runs out after a minute. What was in flight at a kill may be bought again, and no more."""
    open_responses(postgres_url).close()
    for number in range(rounds):
        drawn = random.Random(number)
        with shop(0.1) as (sells, url), asking(postgres_url, url, f"kill {number}", 3 * number) as third:
            with (
                asking(postgres_url, url, f"kill {number}", 3 * number + 1) as one,
                asking(postgres_url, url, f"kill {number}", 3 * number + 2) as two,
            ):
                begin(one, two, third)
                for each in (one, two):
                    time.sleep(drawn.uniform(0.1, 0.6))
                    each.kill()
            assert ended_well(third)
            again = sum(number > (SAMPLES if " question " in what else 1) for what, number in sells.sold.items())
            assert again <= 2 * 8 * 64, "no more than was in flight: 8 calls each, of up to 64 texts"
            questions = sum(n > SAMPLES for what, n in sells.sold.items() if " question " in what)
            assert questions <= 2 * 9 * SAMPLES
