"""What becomes of errors that nobody thought of, in the dispatcher's own tasks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from http_server import document, serve
from processes import wait_for

from longform.errors import Incomplete
from longform.llm.ask.types import Endpoint
from longform.llm.price import Budget
from longform.llm.responses.sqlite import SqliteDatabase
from longform.llm.responses.store import ResponseStore
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


def test_a_lease_that_cannot_be_given_back_halts_the_endpoint_whatever_the_error_is(tmp_path: Path) -> None:
    results: list[Result] = []
    call = Call(
        path="/chat/completions",
        sent="{}",
        keys=["ab" * 32],
        bases=[{}],
        stage="",
        recipe="",
        input_bound=1,
        output_bound=1,
        tokens=1,
        read=lambda body: [(body, found)] if (found := read_completion(body)) else None,
        done=results.append,
        wanted=lambda: True,
    )
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
