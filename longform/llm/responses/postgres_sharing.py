"""Who asks which endpoint now, and how much of it each has: two tables in the schema of the PostgreSQL store.

holder   one row a process that asks an endpoint: what it could use, what it has, and until when it counts as alive
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, cast

from longform.llm.gate.sharing import TURN_SECONDS, Share, shared_now

SECONDS = 20.0

CREATE = """
CREATE TABLE IF NOT EXISTS longform.holder(
  endpoint text, owner text, wanted integer NOT NULL, held integer NOT NULL, until timestamptz NOT NULL,
  PRIMARY KEY(endpoint, owner));
"""
_ALONE = "SELECT set_config('synchronous_commit', 'off', true), pg_advisory_xact_lock($1)"
_GONE = "DELETE FROM longform.holder WHERE endpoint = $1 AND until < clock_timestamp()"
_OTHERS = "SELECT owner, wanted, held FROM longform.holder WHERE endpoint = $1 AND owner <> $2"
_TURN = f"SELECT floor(extract(epoch FROM clock_timestamp()) / {TURN_SECONDS})::bigint"
_HOLD = """
INSERT INTO longform.holder AS there(endpoint, owner, wanted, held, until)
VALUES ($1, $2, $3, $4, clock_timestamp() + make_interval(secs => $5))
ON CONFLICT (endpoint, owner) DO UPDATE SET wanted = excluded.wanted, held = excluded.held, until = excluded.until
"""
_LEAVE = "DELETE FROM longform.holder WHERE endpoint = $1 AND owner = $2"

Do = Callable[..., Awaitable[Any]]


class PostgresAllowances:
    """`do` gives work a connection, in the store's event loop, and waits for it in the caller's."""

    def __init__(self, do: Do, *, seconds: float = SECONDS) -> None:
        self.seconds, self._do = seconds, do

    async def share(self, endpoint: str, owner: str, *, total: int, wanted: int, held: int) -> Share:
        async def share(connection: Any) -> Share:
            async with connection.transaction(isolation="read_committed"):
                await connection.execute(_ALONE, _number(f"endpoint {endpoint}"))
                await connection.execute(_GONE, endpoint)
                rows = await connection.fetch(_OTHERS, endpoint, owner)
                others = {row[0]: (row[1], row[2]) for row in rows}
                turn = await connection.fetchval(_TURN)
                granted = shared_now(owner, others, total=total, wanted=wanted, held=held, turn=turn)
                await connection.execute(_HOLD, endpoint, owner, wanted, granted.held, self.seconds)
                return granted

        return cast(Share, await self._do(share))

    async def leave(self, endpoint: str, owner: str) -> None:
        await self._do(lambda connection: connection.execute(_LEAVE, endpoint, owner), 0.0)


def _number(name: str) -> int:
    """The number of the lock of this name in the database."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
