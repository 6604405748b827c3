"""What becomes of errors that nobody thought of, in the dispatcher's own tasks."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from http_server import document, serve
from processes import wait_for

from longform.errors import Incomplete
from longform.llm.ask.types import Endpoint
from longform.llm.price import Budget
from longform.llm.responses.sqlite import SqliteDatabase
from longform.llm.responses.store import ResponseStore, open_responses
from longform.llm.send.bodies import read_completion
from longform.llm.send.calls import Call, Result
from longform.llm.send.dispatch import Dispatcher


class Forgetful(SqliteDatabase):
    """A store for several processes whose leases cannot be given back."""

    exclusive = False

    async def release(self, keys: Sequence[str]) -> None:
        raise RuntimeError("a driver's own fault")


@contextmanager
def running_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def question(results: list[Result]) -> Call:
    return Call(
        path="/chat/completions",
        sent="{}",
        keys=["ab" * 32],
        bases=[{"endpoint": "mine", "model": "m", "task": "t", "prompt": "", "request": b"{}"}],
        stage="",
        recipe="",
        input_bound=1,
        output_bound=1,
        tokens=1,
        read=lambda body: [(body, found)] if (found := read_completion(body)) else None,
        done=results.append,
        wanted=lambda: True,
    )


def test_a_lease_that_cannot_be_given_back_halts_the_endpoint_whatever_the_error_is(tmp_path: Path) -> None:
    results: list[Result] = []
    call = question(results)
    with serve() as server, running_loop() as loop, closing(ResponseStore(Forgetful(tmp_path / "r.sqlite"))) as store:
        server.on("/v1/chat/completions", document({"error": {"message": "no"}}, 400))
        dispatcher = Dispatcher(Endpoint("mine", "m", base_url=f"{server.url}/v1"), store, Budget(), loop, api_key=None)
        dispatcher.submit([call])
        try:
            wait_for(lambda: dispatcher.halted is not None, 20)
            assert isinstance(dispatcher.halted, Incomplete)
            assert "RuntimeError" in str(dispatcher.halted)
            assert "driver" not in str(dispatcher.halted)
            assert len(results) == 1
        finally:
            asyncio.run_coroutine_threadsafe(dispatcher.close(), loop).result(20)


def test_a_call_is_not_sent_by_who_lost_its_share_between_leave_and_sending(tmp_path: Path) -> None:
    """As where a process sleeps just then: others have its share when it wakes."""
    results: list[Result] = []
    reply = {"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}], "usage": {}}
    with serve() as server, running_loop() as loop, closing(open_responses(tmp_path / "r.sqlite")) as store:
        server.on("/v1/chat/completions", document(reply))
        dispatcher = Dispatcher(Endpoint("mine", "m", base_url=f"{server.url}/v1"), store, Budget(), loop, api_key=None)

        def lose() -> None:
            dispatcher.submit([question(results)])  # looked at by the loop next, sent by a task after that
            loop.call_soon(dispatcher.gate.set_share, 4, 0.0)

        try:
            loop.call_soon_threadsafe(lose)
            time.sleep(0.5)
            assert server.asked == []
            assert (dispatcher.gate.in_flight, results) == (0, [])
            loop.call_soon_threadsafe(dispatcher.gate.set_share, 4, float("inf"))
            dispatcher.wake()
            wait_for(lambda: len(results) == 1, 20)
            assert len(server.asked) == 1
        finally:
            asyncio.run_coroutine_threadsafe(dispatcher.close(), loop).result(20)
