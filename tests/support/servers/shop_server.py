"""A model server that sells answers by a script, and counts what it sold: a question once for each choice, and texts.

with shop(answer) as sells: ...   # answer(asked, place): a reply's document, bytes, or an aiohttp response
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import orjson
from aiohttp import web

Answer = Callable[[dict[str, Any], int], "dict[str, Any] | bytes | web.Response | None"]


class Shop:
    """`calls` are the bodies that were asked, in their order; `sold` counts choices by question and texts by text, of
    replies with status 200. `url` is the address.
    """

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.calls: list[dict[str, Any]] = []
        self.sold: Counter[str] = Counter()
        self.url = ""

    async def serve(self, request: web.Request) -> web.StreamResponse:
        asked = orjson.loads(await request.read())
        self.calls.append(asked)
        given = self.answer(asked, len(self.calls) - 1)
        given = given if given is not None else honest(asked)
        if isinstance(given, dict):
            given = json.dumps(given).encode()  # also numbers of more than 64 bits
        if isinstance(given, bytes):
            given = web.Response(body=given, content_type="application/json")
        if given.status == 200:
            self.sold.update(wanted(asked))
        return given


def wanted(asked: dict[str, Any]) -> list[str]:
    """What a call asks for: its question once for each choice, or its texts."""
    if "messages" in asked:
        return [asked["messages"][-1]["content"]] * asked.get("n", 1)
    return [asked["input"]] if isinstance(asked["input"], str) else list(asked["input"])


def honest(asked: dict[str, Any]) -> dict[str, Any]:
    """The reply of a server without faults."""
    items = wanted(asked)
    if "messages" in asked:
        usage = {"prompt_tokens": 5, "completion_tokens": 7 * len(items), "total_tokens": 5 + 7 * len(items)}
        return {"model": "m", "choices": [choice(n, f"{items[0]}: {n}.") for n in range(len(items))], "usage": usage}
    usage = {"prompt_tokens": len(items), "total_tokens": len(items)}
    data = [{"object": "embedding", "index": n, "embedding": vector(text)} for n, text in enumerate(items)]
    return {"model": "m", "data": data, "usage": usage}


def choice(index: int, text: str | None, **more: Any) -> dict[str, Any]:
    return {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": "stop", **more}


def vector(text: str) -> list[float]:
    return [float(len(text)), float(sum(text.encode()) % 997)]


@contextmanager
def shop(answer: Answer = lambda asked, place: None) -> Iterator[Shop]:
    """Such a server, in a thread of its own; where `answer` gives None, it replies honestly."""
    sells, loop = Shop(answer), asyncio.new_event_loop()
    application = web.Application(client_max_size=1 << 26)
    application.router.add_post("/v1/{what:.*}", sells.serve)
    runner = web.AppRunner(application, shutdown_timeout=0.1)

    async def start() -> int:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return int(runner.addresses[0][1])

    sells.url = f"http://127.0.0.1:{loop.run_until_complete(start())}/v1"
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield sells
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
