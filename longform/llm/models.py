"""The models of a build: one response store, one budget, one event loop, and one gate for each endpoint.

All users of an endpoint in a build share its limits and connections. Equal questions in flight share one answer.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from longform.errors import EndpointError, LongformError, UsageError
from longform.llm.ask.types import Endpoint, Request, broken_off
from longform.llm.price import BUDGET, HOME_BUDGET, MAX_COST, NANO, Budget, Cap
from longform.llm.retry import Retry
from longform.settings import api_key

if TYPE_CHECKING:
    from longform.llm.batch.batched import Batched
    from longform.llm.client import Client
    from longform.llm.offline import Rules
    from longform.llm.responses.store import ResponseStore
    from longform.llm.send.connections import Transport
    from longform.llm.send.dispatch import Dispatcher


LOOP_SECONDS = 20.0
SECONDS_BETWEEN_SUMS = 5.0
FAILED_RUNS = 3
NO_RETRY = Retry()


class Models:
    """The response store, budget and endpoints' connections of a build. The store (`where`: a file, or the URL of a
    PostgreSQL database) and the event loop's thread are opened when first needed.

    `batched`: stage -> what its batches have done, of those stages that may make no single calls.

    `max_cost`: the cap of this run in US dollars; None: no cap. `caps`: limits that other runs count for as well.
    `retry`: which questions whose stored result is a failure are asked again. `failed_runs`: after so many runs without
    an answer a question ends as a failure. `run` and `dataset` are written to the ledger. `ahead` returns the endpoints
    that the rest of the build may call. `offline`: the rules of the offline model. `transport` replaces the network.
    `key_of` returns the API key for the name of an environment variable. `first_pause_seconds`: the longest pause
    before a call is sent again for the first time. `home`: the home that uses a PostgreSQL store, where answers are
    kept that it does not take. `say` is called with what the user should know, from any thread; without it only that
    the store is waited for is said, on stderr. `close` waits up to `loop_seconds` for calls to end.
    """

    def __init__(
        self,
        where: Path | str,
        *,
        max_cost: float | None = None,
        caps: Sequence[Cap] = (),
        retry: Retry = NO_RETRY,
        failed_runs: int = FAILED_RUNS,
        run: str = "",
        dataset: str = "",
        ahead: Callable[[], Iterable[Endpoint]] = tuple,
        offline: Rules | None = None,
        transport: Transport | None = None,
        key_of: Callable[[str], str | None] = api_key,
        first_pause_seconds: float = 1.0,
        loop_seconds: float = LOOP_SECONDS,
        say: Callable[[str], None] | None = None,
        home: Path | None = None,
    ) -> None:
        self.budget = Budget(None if max_cost is None else int(max_cost * NANO), caps)
        self.retry, self.failed_runs, self.ahead = retry, failed_runs, ahead
        self.where, self._home, self._transport, self._key_of = where, home, transport, key_of
        self._run, self._dataset = run, dataset
        self._first_pause_seconds, self._loop_seconds = first_pause_seconds, loop_seconds
        self._say, self._say_of_store = say or (lambda _: None), say
        self.batched: dict[str, Batched] = {}
        self.offline: Rules = offline or {}
        self._lock = threading.RLock()
        self._store: ResponseStore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._dispatchers: dict[str, Dispatcher] = {}
        self._closed = False
        self._with_key: set[str] = set()
        self._checking = threading.Lock()
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def client(
        self,
        endpoint: Endpoint,
        *,
        stage: str = "",
        recipe: str = "",
        note: Callable[[Iterable[str]], None] = lambda _: None,
    ) -> Client:
        """A client of the endpoint for one stage. `stage` and `recipe` (the fingerprint of the stage's artifact) are
        written to the ledger; `note` is called with the store keys of the responses that are used. Opens nothing.
        """
        from longform.llm.client import Client

        return Client(self, endpoint, stage, recipe, note)

    def prefetch(
        self,
        endpoint: Endpoint,
        requests: Iterable[Request],
        *,
        stage: str,
        recipe: str,
        folder: Path,
        say: Callable[[str], None],
        online: bool = False,
    ) -> bool:
        """Have the provider's Batch API answer those of these requests that have no stored reply, and, unless single
        calls are allowed (`online`), make the further attempts that are due at the others; returns when its jobs have
        ended. Whether replies were stored, which may have made another attempt due.

        Requests that get no reply there are left to single calls if these are allowed; else a client of this stage
        gets Incomplete for them, and for all other questions without a stored reply (`batched`).

        Request files are kept in `folder` until their job has ended. `say` is called with messages for the user.
        BudgetError where the budget has no room for all requests, EndpointError where the key is missing or the
        endpoint refuses, Incomplete where it gives no answer for an hour or the models are closed; UsageError as of
        `dispatcher`.
        """
        from longform.llm.batch.batched import Batched
        from longform.llm.prefetch import due_attempts, first_attempts, prefetch_stage

        dispatcher, batched = self.dispatcher(endpoint), Batched()
        if online:
            self.batched.pop(stage, None)
            items = first_attempts(dispatcher, endpoint, requests)
        else:
            batched = self.batched.setdefault(stage, batched)
            items = due_attempts(dispatcher, endpoint, requests, batched, partial(self.retry.wants, stage))
        first = next(items, None)
        if first is None and (self._keyless([endpoint]) or not self.store.jobs(endpoint.name)):
            return False
        self.check_keys(endpoint)
        left, stored = prefetch_stage(
            dispatcher,
            endpoint,
            chain([] if first is None else [first], items),
            stage=stage,
            recipe=recipe,
            folder=folder,
            say=say,
            online=online,
        )
        batched.left |= left
        return stored > 0

    @property
    def store(self) -> ResponseStore:
        """The response store, opened when first needed. Incomplete once the models are closed; BusyError where another
        process writes to its file, StoreError where it cannot be used.
        """
        from longform.llm.responses.store import open_responses

        with self._open():
            if self._store is None:
                self._store = open_responses(self.where, home=self._home, say=self._say_of_store)
                self._sum_up(self._store)
            return self._store

    def asking(self) -> dict[str, Any]:
        """Arguments for the Models of a worker that asks on behalf of these; they can be pickled. They have no limits:
        under a limit one process asks.
        """
        own = {"run": self._run, "dataset": self._dataset, "retry": self.retry, "failed_runs": self.failed_runs}
        return {**own, "ahead": partial(list, list(self.ahead()))}

    def check_keys(self, endpoint: Endpoint) -> None:
        """Before the first call to an endpoint: EndpointError where its API key is not set, or that of another one
        that the rest of the build may call (`ahead`), naming all of these.
        """
        with self._checking:
            if endpoint.name in self._with_key:
                return
            wanted = {each.name: each for each in (endpoint, *self.ahead())}
            if missing := self._keyless(wanted.values()):
                raise EndpointError(keyless(missing))
            self._with_key |= wanted.keys()

    def _keyless(self, endpoints: Iterable[Endpoint]) -> list[Endpoint]:
        """Those endpoints that name a variable for their API key which is not set."""
        return [each for each in endpoints if each.key_env and not self._key_of(each.key_env)]

    def _sum_up(self, store: ResponseStore) -> None:
        """Set what other runs have spent under the limits (`Cap.before_nano`), by the ledger; in a store that other
        processes share again every SECONDS_BETWEEN_SUMS, in a thread, until the models are closed.
        """
        caps = [cap for cap in self.budget.caps if cap.name != MAX_COST]
        for cap in caps:
            cap.before_nano = store.spent(cap.dataset, without_run=self._run)
        if caps and not store.exclusive:
            threading.Thread(target=self._sum_again, args=(store, caps), name="budget", daemon=True).start()

    def _sum_again(self, store: ResponseStore, caps: list[Cap]) -> None:
        """The thread of `_sum_up`. An error of the store is left to the calls, which meet it as well."""
        while not self._ended.wait(SECONDS_BETWEEN_SUMS):
            with suppress(LongformError):
                for cap in caps:
                    cap.before_nano = store.spent(cap.dataset, without_run=self._run)

    def dispatcher(self, endpoint: Endpoint) -> Dispatcher:
        """The dispatcher for endpoints of this name, made for the first one that comes; this opens the store and
        starts the event loop. UsageError where there is a cap but the price of its model is unknown; Incomplete once
        the models are closed; the errors of `store`.
        """
        from longform.llm.send.dispatch import Dispatcher

        with self._open():
            if endpoint.name not in self._dispatchers:
                dispatcher = Dispatcher(
                    endpoint,
                    self.store,
                    self.budget,
                    self.loop,
                    api_key=self._key_of(endpoint.key_env) if endpoint.key_env else None,
                    transport=self._transport,
                    first_pause_seconds=self._first_pause_seconds,
                    failed_runs=self.failed_runs,
                    say=self._say,
                    run=self._run,
                    dataset=self._dataset,
                )
                if dispatcher.price is None and self.budget.caps:
                    raise UsageError(unpriced(endpoint))
                self._dispatchers[endpoint.name] = dispatcher
            return self._dispatchers[endpoint.name]

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of all calls, started in a thread of its own when first needed. Incomplete once the models
        are closed.
        """
        with self._open():
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run, args=(self._loop,), name="models", daemon=True)
                self._thread.start()
            return self._loop

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Holds the lock of the models during the block. Raises Incomplete once they are closed."""
        with self._lock:
            if self._closed:
                raise broken_off()
            yield

    def status(self) -> dict[str, Any]:
        """Figures for progress: `answered` replies so far, `in_flight` requests, `waits` (a text: the endpoints that
        send nothing, and why; empty if none), and `spent_nano` of `cap_nano` (None: no cap) in billionths of a US
        dollar.
        """
        dispatchers = list(self._dispatchers.values())
        return {
            "answered": sum(each.answered for each in dispatchers),
            "in_flight": sum(each.gate.in_flight for each in dispatchers),
            "waits": "; ".join(f"{each.endpoint.name} {each.gate.state}" for each in dispatchers if each.gate.state),
            "spent_nano": self.budget.spent_nano,
            "cap_nano": self.budget.cap_nano,
        }

    def close(self) -> None:
        """End all calls, close connections and the store. Threads that wait for answers, or ask later, get Incomplete.

        Takes at most about 10 seconds. If the event loop hangs, it takes `loop_seconds`, and the loop's thread is left
        running.
        """
        self._ended.set()
        with self._lock:
            self._closed = True
        loop, self._loop = self._loop, None
        dispatchers, self._dispatchers = list(self._dispatchers.values()), {}
        try:
            if loop is not None and self._thread is not None:
                _end(loop, self._thread, dispatchers, self._loop_seconds)
        finally:
            for each in dispatchers:
                each.refuse()
            store, self._store = self._store, None
            if store is not None:
                store.close()
                if unstored := store.unstored():  # another error may have ended the build
                    self._say(unstored)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run the event loop until it is stopped, then close it."""
    try:
        loop.run_forever()
    finally:
        loop.close()


def _end(
    loop: asyncio.AbstractEventLoop, thread: threading.Thread, dispatchers: list[Dispatcher], seconds: float
) -> None:
    """Close the dispatchers, stop the loop and wait for its thread; where closing takes more than `seconds`, leave it
    running.
    """
    ending = asyncio.run_coroutine_threadsafe(_close_all(dispatchers), loop)
    ending.add_done_callback(lambda _: loop.call_soon_threadsafe(loop.stop))
    if wait([ending], seconds).done:
        thread.join()


async def _close_all(dispatchers: list[Dispatcher]) -> None:
    """Close the dispatchers concurrently, then cancel all other tasks of the loop and give them a second to end."""
    await asyncio.gather(*(each.close() for each in dispatchers), return_exceptions=True)
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=1)


def keyless(endpoints: Sequence[Endpoint]) -> str:
    """The message for endpoints whose API key is not set, where a call is to be sent."""
    named = " and ".join(f'{each.key_env} of endpoint "{each.name}"' for each in endpoints)
    if len(endpoints) == 1:
        return f"The key {named} is not set. Set it, or use another endpoint. Nothing was sent to it."
    return f"The keys {named} are not set. Set them, or use other endpoints. Nothing was sent to them."


def unpriced(endpoint: Endpoint) -> str:
    """The message for an endpoint whose model has no known price, where a limit of cost is set."""
    return (
        f'The price of model {endpoint.model} of endpoint "{endpoint.name}" is not known, so no limit of cost '
        f"({MAX_COST}, {BUDGET} or {HOME_BUDGET}) can hold: "
        f"set [endpoints.{endpoint.name}.price] input and output, in USD per million tokens (0 for your own model)."
    )
