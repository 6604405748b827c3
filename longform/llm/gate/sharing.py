"""How processes that use the same response store share an endpoint's concurrency and rate limits.

The store has the total of the endpoint, and how much of that each process has. A process takes more only if it is free,
and gives back only what it no longer uses: it first stops using it, then writes so. So the sum of all shares never
exceeds the total, also where a process dies or sleeps. A process without requests has no share.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple, Protocol

from longform.errors import StoreError
from longform.llm.gate.limits import Gate

LOOK_SECONDS = 1.0
HURRY_SECONDS = 0.2
LINGER_SECONDS = 2.0
TURN_SECONDS = 5.0


class Share(NamedTuple):
    """A process's share of an endpoint's concurrency: `granted` is what the store has written down for it, `fair` its
    fair share (see `fair_shares`). It is to use no more than the smaller one.
    """

    granted: int
    fair: int


class Allowances(Protocol):
    """The shares of an endpoint's concurrency that a response store has written down, one for each owner (a process).
    An owner that has not called `share` for `seconds` counts as dead, and its share is free.
    """

    seconds: float

    async def share(self, endpoint: str, owner: str, *, total: int, wanted: int, in_use: int) -> Share:
        """Update and return the owner's share of `total`, in one transaction. `wanted`: how many requests it could
        have in flight; `in_use`: how many it may have now, below which its share is not cut.
        """

    async def leave(self, endpoint: str, owner: str) -> None:
        """Delete the owner's share."""


def fair_shares(total: int, wanted: Mapping[str, int], turn: int = 0) -> dict[str, int]:
    """Owner -> fair share of `total`; the shares add up to it ({} without owners). `wanted`: owner -> how much it
    could use. An owner gets no less than the others, up to a rounding by 1, unless it wants less. What nobody wants is
    spread evenly.

    Where more owners than `total` want any, some get 1 and the others 0; the number `turn` decides which.
    """
    crowded = len(wanted) > total
    order = sorted(wanted, key=lambda owner: hashlib.sha256(f"{turn} {owner}".encode()).digest() if crowded else owner)
    shares, left = dict.fromkeys(order, 0), total
    while left and (hungry := [owner for owner in order if shares[owner] < wanted[owner]]):
        each = max(1, left // len(hungry))
        for owner in hungry:
            more = min(each, wanted[owner] - shares[owner], left)
            shares[owner], left = shares[owner] + more, left - more
    for place, owner in enumerate(order):
        shares[owner] += left // len(order) + (place < left % len(order))
    return shares


def shared_now(
    owner: str, others: Mapping[str, tuple[int, int]], *, total: int, wanted: int, in_use: int, turn: int
) -> Share:
    """The share of `owner` beside the other owners, which are given as name -> (wanted, in use). What is granted is
    its fair share (see `fair_shares`), or what the others leave free if that is less, but never less than `in_use`.
    """
    fair = fair_shares(total, {owner: wanted, **{name: wants for name, (wants, _) in others.items()}}, turn)[owner]
    free = total - sum(holds for _, holds in others.values())
    return Share(max(in_use, min(fair, free)), fair)


class SharedGate:
    """Keeps a gate limited to this process's share of the endpoint, while there are calls queued or in flight.

    `total` is the endpoint's concurrency. `demand` returns how many calls could be in flight. `changed` is called when
    the gate may have opened, `failed` with the error where the store cannot be reached. Runs in the gate's event loop.
    """

    def __init__(
        self,
        endpoint: str,
        total: int,
        gate: Gate,
        allowances: Allowances,
        *,
        demand: Callable[[], int],
        changed: Callable[[], None],
        failed: Callable[[StoreError], None],
    ) -> None:
        self._endpoint, self._total, self._gate, self._allowances = endpoint, total, gate, allowances
        self._demand, self._changed, self._failed = demand, changed, failed
        self._owner = uuid.uuid4().hex
        self._task: asyncio.Task[None] | None = None
        self._most, self._until = 0, 0.0
        self._closing = asyncio.Event()
        gate.set_share(0, 0.0)

    def need(self) -> None:
        """Start to keep a share for the calls that are to be sent; without effect while that is running."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop, give the whole share back, and wait until that is done."""
        self._closing.set()
        if self._task:
            await self._task

    async def _run(self) -> None:
        """Keep a share while there is demand, then set the gate's share to 0 and give it back to the store; again if
        new demand came meanwhile. An error is passed to `failed`, as a StoreError (without a share nothing would be
        sent, and nobody would hear of it), except one from giving back, which is ignored.
        """
        try:
            while True:
                await self._work()
                self._most = 0
                self._gate.set_share(0, 0.0)
                with suppress(StoreError):
                    await self._allowances.leave(self._endpoint, self._owner)
                if self._closing.is_set() or not self._demand():
                    return
        except StoreError as error:
            self._failed(error)
        except Exception as error:
            self._failed(StoreError(f"The share of endpoint {self._endpoint} is lost ({type(error).__name__})."))

    async def _work(self) -> None:
        """Update the share every second, or every 0.2 seconds while it is not the fair one, until there was no demand
        for two seconds or `close` is called.
        """
        busy = time.monotonic()
        while time.monotonic() - busy < LINGER_SECONDS:
            settled = await self._update_share()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), LOOK_SECONDS if settled else HURRY_SECONDS)
                return
            if self._demand():
                busy = time.monotonic()

    async def _update_share(self) -> bool:
        """Ask the store for this process's share of the endpoint's concurrency, and set it in the gate: the granted
        share, or the fair one if that is less. True if both are equal.
        """
        begun = time.monotonic()
        in_use = max(self._most if begun < self._until else 0, self._gate.in_flight)
        wanted = max(1, min(self._demand(), self._total))
        share = await self._allowances.share(
            self._endpoint, self._owner, total=self._total, wanted=wanted, in_use=in_use
        )
        self._most, self._until = min(share), begun + self._allowances.seconds
        self._gate.set_share(self._most, self._until)
        self._changed()
        return share.granted == share.fair
