"""One endpoint's allowances and one run's money, shared by processes that have a response store in common.

What all processes may have together is written down in the store, and what each has of it. A process takes more only
where it is free, and gives up only what it no longer uses: it first stops using it, then says so. So the sum never
exceeds the whole, whoever dies or sleeps meanwhile. Who has nothing to ask holds nothing.
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
    """`held` of an endpoint's concurrency is written down as this process's; it is to use no more than `fair`."""

    held: int
    fair: int


class Allowances(Protocol):
    """What a response store does for several processes. `seconds` after its last word a process counts as dead."""

    seconds: float

    async def share(self, endpoint: str, owner: str, *, total: int, wanted: int, held: int) -> Share:
        """Write down that the owner uses up to `held` and could use `wanted`; what it has of `total` now."""

    async def leave(self, endpoint: str, owner: str) -> None: ...


def fair_shares(total: int, wanted: Mapping[str, int], turn: int = 0) -> dict[str, int]:
    """What each may have: as much as it wants, or the same as the others who want more; what is left, evenly.

    Where there are more than `total`, each has one in some turns, and none in the others.
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
    owner: str, others: Mapping[str, tuple[int, int]], *, total: int, wanted: int, held: int, turn: int
) -> Share:
    """This owner's share beside others of whom each (wants, holds): no less than it uses, more only of what is free."""
    fair = fair_shares(total, {owner: wanted, **{name: wants for name, (wants, _) in others.items()}}, turn)[owner]
    free = total - sum(holds for _, holds in others.values())
    return Share(max(held, min(fair, free)), fair)


class SharedGate:
    """Keeps one endpoint's gate to this process's share, from the first call that is queued until nothing is.

    `demand` is how many calls could be in flight, `changed` is told when the gate may have opened, `failed` of a store
    that cannot be reached. In the event loop that the gate belongs to.
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
        gate.share(0, 0.0)

    def need(self) -> None:
        """There are calls to send."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Give everything back."""
        self._closing.set()
        if self._task:
            await self._task

    async def _run(self) -> None:
        try:
            while True:
                await self._work()
                self._most = 0
                self._gate.share(0, 0.0)
                with suppress(StoreError):
                    await self._allowances.leave(self._endpoint, self._owner)
                if self._closing.is_set() or not self._demand():
                    return
        except StoreError as error:
            self._failed(error)

    async def _work(self) -> None:
        """Look around again and again, until for a while there was nothing to do."""
        busy = time.monotonic()
        while time.monotonic() - busy < LINGER_SECONDS:
            settled = await self._look()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), LOOK_SECONDS if settled else HURRY_SECONDS)
                return
            if self._demand():
                busy = time.monotonic()

    async def _look(self) -> bool:
        """Whether this process has what is fair."""
        begun = time.monotonic()
        held = max(self._most if begun < self._until else 0, self._gate.in_flight)
        wanted = max(1, min(self._demand(), self._total))
        share = await self._allowances.share(self._endpoint, self._owner, total=self._total, wanted=wanted, held=held)
        self._most, self._until = min(share), begun + self._allowances.seconds
        self._gate.share(self._most, self._until)
        self._changed()
        return share.held == share.fair
