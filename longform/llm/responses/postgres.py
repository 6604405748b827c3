"""The response store in PostgreSQL, for several processes at once: the schema `longform` of the database of a URL.

Beside the tables of longform/llm/responses/records.py:

    lease      keys for which a process is asking a model, and until when
    holder     processes that use an endpoint: how much of it each could use and has, until when it counts as alive

Each process has one event loop in a thread of its own, and a few connections. A lost connection is opened again for up
to half a minute, and its work is repeated; a line of the ledger has an id, so that it is never written twice. That half
minute begins with the first failure, is the same for all who wait, and for who opens the store: once it is over, all
fail at once, until the database answers again. A transaction whose process sleeps is ended by the server, so that
nobody waits for its locks. Texts are stored with escapes, because a server may send characters that a database cannot
store.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import socket
import time
import uuid
import zlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack, suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg
from anyio.from_thread import start_blocking_portal

from longform.errors import StoreError
from longform.llm.ask.keys import KEY_VERSION
from longform.llm.gate.sharing import TURN_SECONDS, Share, shared_now
from longform.llm.responses.groups import Groups, closed
from longform.llm.responses.records import (
    ADD,
    COLUMNS,
    COUNT_PURGED,
    FORGET_FAILED,
    HOLDINGS,
    PAY_ONCE,
    PURGE,
    PUT,
    PUT_UNLESS_USABLE,
    REPLY,
    SELECT_LEDGER,
    SELECT_LEDGER_OF,
    SELECT_STATS,
    Holdings,
    Line,
    Paid,
    Record,
    Row,
    checksum_of,
    ledger_row_of,
    line_of,
    row_of,
    settled_keys,
    storable,
)
from longform.llm.responses.unstored import Unstored

FORMAT = 2
CONNECTIONS = 4
CONNECT_SECONDS = 10.0
END_SECONDS = 10.0
ATTEMPT_SECONDS = 15.0
WHOLE_TABLE_SECONDS = 60.0
MIGRATION_SECONDS = 3_600.0
PATIENCE_SECONDS = 30.0
SILENT_SECONDS = 1.0
GONE_SECONDS = 5.0
ASLEEP_SECONDS = 10
LEASE_SECONDS = 60.0
HOLDER_SECONDS = 20.0

_CREATE = f"""
CREATE SCHEMA IF NOT EXISTS longform;
CREATE TABLE longform.meta(k text PRIMARY KEY, v text NOT NULL);
INSERT INTO longform.meta VALUES ('format', '1'), ('key_version', '{KEY_VERSION}');
CREATE TABLE longform.response(
  key bytea PRIMARY KEY, endpoint text COLLATE "C", model text COLLATE "C", task text COLLATE "C", prompt text,
  request bytea NOT NULL, body bytea NOT NULL, state smallint NOT NULL, code text, finish text,
  served_model text, fingerprint text, request_id text,
  input_tokens bigint, cached_tokens bigint, output_tokens bigint, reasoning_tokens bigint, token_limit bigint,
  milliseconds bigint, cost_nano bigint, batch boolean NOT NULL, created double precision NOT NULL);
ALTER TABLE longform.response ALTER request SET STORAGE EXTERNAL, ALTER body SET STORAGE EXTERNAL;
CREATE INDEX response_task ON longform.response(endpoint, model, task, created);
CREATE TABLE longform.ledger(
  id uuid PRIMARY KEY, number bigint GENERATED ALWAYS AS IDENTITY, created double precision NOT NULL,
  run text, dataset text, stage text, recipe text, endpoint text, model text, key bytea, answered boolean NOT NULL,
  input_tokens bigint, cached_tokens bigint, output_tokens bigint, cost_nano bigint, batch boolean NOT NULL);
CREATE INDEX ledger_dataset ON longform.ledger(dataset);
CREATE TABLE longform.lease(key bytea PRIMARY KEY, owner text NOT NULL, until timestamptz NOT NULL);
CREATE TABLE longform.job(
  name text PRIMARY KEY, endpoint text, state text NOT NULL, requests bigint, reserved_nano bigint,
  remote text, input_file text, created double precision NOT NULL, context text NOT NULL);
CREATE TABLE longform.job_item(job text, place integer, key bytea NOT NULL, PRIMARY KEY(job, place));
"""
_CREATE_HOLDER = """
CREATE TABLE IF NOT EXISTS longform.holder(
  endpoint text, owner text, wanted integer NOT NULL, held integer NOT NULL, until timestamptz NOT NULL,
  PRIMARY KEY(endpoint, owner));
"""
_NEW_IN_2 = """
ALTER TABLE longform.response ADD COLUMN checksum bigint;
ALTER TABLE longform.ledger ADD COLUMN reasoning_tokens bigint;
CREATE TABLE longform.failing(
  key bytea, run text, fault text NOT NULL, updated double precision NOT NULL, PRIMARY KEY(key, run));
"""
_ALL_CHECKED = "ALTER TABLE longform.response ALTER COLUMN checksum SET NOT NULL"
_WITHOUT_CHECKSUM = f"SELECT {', '.join(COLUMNS)} FROM longform.response WHERE key > $1 ORDER BY key LIMIT $2"
_SET_CHECKSUMS = """
UPDATE longform.response AS there SET checksum = given.checksum
FROM unnest($1::bytea[], $2::bigint[]) AS given(key, checksum) WHERE there.key = given.key
"""
_SET_META = "INSERT INTO longform.meta(k, v) VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET v = excluded.v"
_META = "SELECT k, v FROM longform.meta"
_OF_WHOLE_TABLES = frozenset({SELECT_STATS, SELECT_LEDGER, SELECT_LEDGER_OF})
_TABLES = "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = 'longform'"
_ONE_AT_A_TIME = f"SELECT pg_advisory_xact_lock({int.from_bytes(b'longform', 'big')})"

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\[\]:@]+)(:\d+)?")

# Rows of leases are always locked in the order of their keys, so that two processes never wait for each other.
_LEASE = """
INSERT INTO longform.lease AS held(key, owner, until)
SELECT key, $2, now() + make_interval(secs => $3) FROM unnest($1::bytea[]) AS asked(key) ORDER BY key
ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, until = excluded.until
WHERE held.until < now() OR held.owner = excluded.owner
RETURNING key
"""
_ANSWERED = f"""
DELETE FROM longform.lease AS held USING longform.response AS there
WHERE held.key = ANY($1::bytea[]) AND held.owner = $2
  AND there.key = held.key AND there.state = {REPLY} AND there.code IS NULL
RETURNING held.key
"""
_LOCKED = "(SELECT key FROM longform.lease WHERE {} ORDER BY key FOR UPDATE)"
_RENEW = (
    f"UPDATE longform.lease SET until = now() + make_interval(secs => $2) WHERE key IN {_LOCKED.format('owner = $1')}"
)
_SETTLE = "DELETE FROM longform.failing WHERE key = ANY($1)"
_END = f"DELETE FROM longform.lease WHERE key IN {_LOCKED.format('key = ANY($1::bytea[])')}"
_RELEASE = f"DELETE FROM longform.lease WHERE key IN {_LOCKED.format('key = ANY($1::bytea[]) AND owner = $2')}"
_RELEASE_ALL = f"DELETE FROM longform.lease WHERE key IN {_LOCKED.format('owner = $1')}"

_ALONE = "SELECT set_config('synchronous_commit', 'off', true), pg_advisory_xact_lock($1)"
_GONE = """
DELETE FROM longform.holder WHERE endpoint = $1 AND until < clock_timestamp()
AND pg_postmaster_start_time() < clock_timestamp() - make_interval(secs => $2)
"""
_HELD = "SELECT owner, wanted, held FROM longform.holder WHERE endpoint = $1"
_FOR_GOOD = "SELECT set_config('synchronous_commit', 'local', true)"
_TURN = f"SELECT floor(extract(epoch FROM clock_timestamp()) / {TURN_SECONDS})::bigint"
_HOLD = """
INSERT INTO longform.holder AS there(endpoint, owner, wanted, held, until)
VALUES ($1, $2, $3, $4, clock_timestamp() + make_interval(secs => $5))
ON CONFLICT (endpoint, owner) DO UPDATE SET wanted = excluded.wanted, held = excluded.held, until = excluded.until
"""
_LEAVE = "DELETE FROM longform.holder WHERE endpoint = $1 AND owner = $2"

_PASSING = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TooManyConnectionsError,
    asyncpg.TransactionRollbackError,
)
_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (
        asyncpg.InvalidAuthorizationSpecificationError,
        "refuses this user: check user and password in its URL, and that pg_hba.conf lets them in from here",
    ),
    (asyncpg.InvalidCatalogNameError, "has no database of this name: create it, or correct the name in its URL"),
    (
        asyncpg.InsufficientPrivilegeError,
        "gives this user too few rights: grant CREATE on the database, and all on the schema longform if it is there",
    ),
    (
        asyncpg.TooManyConnectionsError,
        "has no connection left: raise max_connections, or let fewer processes work at once",
    ),
)

T = TypeVar("T")
Entry = tuple[Sequence[tuple[str, Record]], Sequence[Line], list[Row]]  # the rows are those of the records


class Outage:
    """How long a database has not answered; the same for all who wait for it. `say` is called once an outage, with a
    line, when it has lasted SILENT_SECONDS. To be used in one event loop.
    """

    def __init__(self, named: str, say: Callable[[str], None]) -> None:
        self._named, self._say, self._said = named, say, False
        self._since: float | None = None
        self._last = self._until = self._answered = 0.0
        self._error: Exception | None = None

    def failed(self, error: Exception, began: float) -> bool:
        """Note that an attempt failed, which began at this time; whether to give up, as all have failed for
        PATIENCE_SECONDS. What began before the database last answered counts from then on.
        """
        now = time.monotonic()
        if self._since is None or began - self._last > PATIENCE_SECONDS:  # nobody tried in between
            self._since, self._said = max(began, self._answered), False
        self._last = now
        if now - self._since >= PATIENCE_SECONDS:
            self._error, self._until = error, now + GONE_SECONDS
            return True
        if now - self._since >= SILENT_SECONDS and not self._said:
            self._said = True
            why = type(error).__name__
            self._say(f"{self._named} does not answer ({why}): waiting for it, {PATIENCE_SECONDS:.0f} s at most.")
        return False

    def over(self) -> None:
        """Note that the database answered."""
        self._since, self._error = None, None
        self._answered = time.monotonic()

    def seconds_for(self, work_seconds: float) -> float:
        """How long an attempt may take that is otherwise allowed so many seconds: less once somebody waited in vain."""
        return min(work_seconds, GONE_SECONDS) if self._error else work_seconds

    @property
    def gone(self) -> Exception | None:
        """The error of a database that somebody has just waited for in vain, else None."""
        return self._error if time.monotonic() < self._until else None


class PostgresDatabase:
    """The database at a URL postgresql://user:password@host:port/database, as a `Database`
    (longform/llm/responses/store.py); missing tables are created.

    StoreError where it cannot be used, or not be reached for PATIENCE_SECONDS, or its host is unknown; messages name
    only host, port and database. Leases of keys run out `lease_seconds` after their last renewal. `unstored`: the
    folder for answers that cannot be stored; None: they are lost. `say` is called, from the database's thread, when it
    is waited for.
    """

    exclusive = False
    rows_per_query = 256

    def __init__(
        self,
        url: str,
        *,
        lease_seconds: float = LEASE_SECONDS,
        unstored: Path | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.named = f"The response store at {_place(url)}"
        self._lease_seconds = lease_seconds
        self._owner = f"{socket.gethostname()} {os.getpid()} {uuid.uuid4().hex[:12]}"
        self._renewing: asyncio.Task[None] | None = None
        self._pool: Any = None
        self._outage = Outage(self.named, say)
        self._at_work: set[Any] = set()
        self._unstored = Unstored(unstored)
        self._puts = Groups(self.named, partial(self._call, self._put_all), self._keep)
        self._leases = Groups(self.named, partial(self._call, self._grant))
        self._ending = ExitStack()
        self._portal = self._ending.enter_context(start_blocking_portal(name="responses"))
        self._ending.callback(self._portal.call, self._portal.stop, True)
        self._ending.callback(self._call, self._end)
        self.allowances = PostgresAllowances(self._do_for)
        try:
            self._call(self._connect, url)
        except BaseException:
            self.close()
            raise

    def rows(self, query: str, *values: Any) -> list[Any]:
        seconds = WHOLE_TABLE_SECONDS if query in _OF_WHOLE_TABLES else ATTEMPT_SECONDS
        work = partial(self._do, lambda connection: connection.fetch(query, *values), work_seconds=seconds)
        return list(self._call(work))

    def change(self, query: str, *values: Any, then: Iterable[tuple[str, Sequence[Row]]] = ()) -> int:
        async def change(connection: Any) -> int:
            async with connection.transaction(isolation="read_committed"):
                status = await connection.execute(query, *values)
                changed = int(status.split()[-1])  # as in "INSERT 0 1"
                for statement, rows in then if changed else ():
                    await connection.executemany(statement, rows)
                return changed

        return int(self._call(self._do, change))

    def add(self, records: Sequence[tuple[str, Record]]) -> int:
        rows = _rows(records)
        return len(self._call(self._do, lambda connection: connection.fetchmany(f"{ADD} RETURNING 1", rows)))

    def write(self, statements: Iterable[tuple[str, Sequence[Row]]]) -> None:
        async def write(connection: Any) -> None:
            async with connection.transaction(isolation="read_committed"):
                for statement, rows in statements:
                    await connection.executemany(statement, rows)

        self._call(self._do, write)

    def restore(self, records: Sequence[tuple[str, Record]], lines: Sequence[Line]) -> None:
        self._call(self._do, partial(_write, PUT_UNLESS_USABLE, _rows(records), _ledger_rows(lines)))

    def purge(self, keys: list[bytes]) -> int:
        async def purge(connection: Any) -> int:
            async with connection.transaction(isolation="read_committed"):
                deleted = int((await connection.execute(PURGE, keys)).split()[-1])
                await connection.execute(FORGET_FAILED, keys)
                await connection.execute(COUNT_PURGED, deleted)
                return deleted

        return int(self._call(partial(self._do, purge, work_seconds=WHOLE_TABLE_SECONDS)))

    def holdings(self, *, patient: bool = False) -> Holdings:
        patience_seconds = PATIENCE_SECONDS if patient else 0.0
        found = self._call(self._do, lambda connection: connection.fetchrow(HOLDINGS), patience_seconds)
        return Holdings(found[0] or "", found[1], int(found[2] or 0), found[3])

    def faults(self, *, repair: bool) -> list[str]:
        return []

    async def put(self, records: Sequence[tuple[str, Record]], paid: Sequence[Paid]) -> None:
        await self._puts.ask((records, list(map(line_of, paid)), _rows(records)))

    async def lease(self, keys: Sequence[str], again: bool) -> set[str]:
        granted: set[bytes] = await self._leases.ask(([bytes.fromhex(key) for key in keys], again))
        return {key.hex() for key in granted}

    async def release(self, keys: Sequence[str]) -> None:
        chosen = [bytes.fromhex(key) for key in keys]
        await self._do_for(lambda connection: connection.execute(_RELEASE, chosen, self._owner))

    def unstored(self) -> str:
        return self._unstored.said()

    def close(self) -> None:
        """Commit what waits (for at most END_SECONDS), release all leases, and close the connections."""
        self._puts.close(END_SECONDS)
        self._leases.close(END_SECONDS)
        self._ending.close()
        self._unstored.close()

    # groups

    async def _put_all(self, entries: list[Entry]) -> list[None]:
        """Commit the rows of records and of the ledger of all entries in one transaction, and end the leases of the
        records' keys. Of several records under one key the last is kept.
        """
        rows = sorted((row for *_, rows in entries for row in rows), key=itemgetter(0))
        lines = _ledger_rows(line for _, lines, _ in entries for line in lines)
        await self._do(partial(_write, PUT, rows, lines))
        return [None] * len(entries)

    def _keep(self, entries: list[Entry], errors: list[Exception]) -> list[Exception]:
        """Keep what could not be stored; the errors to raise."""
        return self._unstored.keep([(records, lines) for records, lines, _ in entries], errors)

    async def _grant(self, asked: list[tuple[list[bytes], bool]]) -> list[set[bytes]]:
        """For each pair (keys, again): those of its keys for which this process may now ask a model, as it has their
        lease.

        A key is granted if no other process has its lease and no usable reply is stored under it (or `again` is True).
        The reply is looked up after the lease was taken: the process that had the lease before has stored its reply by
        then. The commit is waited for: after a crash of the server nobody else is to ask at the same time.
        """
        self._renewing = self._renewing or asyncio.create_task(self._renew())
        keys = sorted({key for some, _ in asked for key in some})
        asked_again = {key for some, again in asked if again for key in some}

        async def grant(connection: Any) -> set[bytes]:
            async with connection.transaction(isolation="read_committed"):
                granted = {row[0] for row in await connection.fetch(_LEASE, keys, self._owner, self._lease_seconds)}
                found = await connection.fetch(_ANSWERED, list(granted - asked_again), self._owner)
                return granted - {row[0] for row in found}

        granted = await self._do(grant)
        return [granted.intersection(some) for some, _ in asked]

    async def _renew(self) -> None:
        """Renew this process's leases every fifth of `lease_seconds`, until cancelled. A StoreError is ignored."""
        while True:
            await asyncio.sleep(self._lease_seconds / 5)
            with suppress(StoreError):
                await self._do(lambda connection: connection.execute(_RENEW, self._owner, self._lease_seconds))

    # connections

    async def _connect(self, url: str) -> None:
        """Open the pool of connections, and create or check the tables."""
        self._pool = await asyncpg.create_pool(
            url,
            min_size=0,
            max_size=CONNECTIONS,
            timeout=CONNECT_SECONDS,
            init=_set_up,
            reset=_without_reset,
            server_settings={"application_name": "longform"},
        )
        if not await self._do(self._is_prepared, unknown_host_ends=True):
            await self._do(self._prepare, work_seconds=MIGRATION_SECONDS)

    async def _do(
        self,
        work: Callable[[Any], Awaitable[T]],
        patience_seconds: float = PATIENCE_SECONDS,
        work_seconds: float = ATTEMPT_SECONDS,
        *,
        unknown_host_ends: bool = False,
    ) -> T:
        """The result of `work`, which is called with a connection. If the connection is lost or refused, or the
        transaction was rolled back (a deadlock), all of the work is repeated, until the database has not answered for
        `patience_seconds`, or this work has been tried for so long. An attempt that takes more than `work_seconds`
        counts as a lost connection, and the next one gets a new connection. StoreError after that, and at once for any
        other error of the database, or while it counts as gone. To be awaited in the database's own event loop.
        """
        deadline, pause = time.monotonic() + patience_seconds, 0.05
        while True:
            if gone := self._outage.gone:
                raise self._failed(gone)
            began, seconds = time.monotonic(), self._outage.seconds_for(work_seconds)
            try:
                result = await self._attempt(work, seconds)
                self._outage.over()
                return result
            except _PASSING as error:
                if isinstance(error, ValueError) or (unknown_host_ends and isinstance(error, socket.gaierror)):
                    raise self._failed(error) from None
                answered = isinstance(error, asyncpg.TransactionRollbackError) or not patience_seconds
                over = not answered and self._outage.failed(error, began)
                if over:
                    self._break_off()
                if over or time.monotonic() >= deadline:
                    raise self._failed(error) from None
                if time.monotonic() - began >= seconds:  # the others may have been forgotten on the way as well
                    await self._pool.expire_connections()
            except (asyncpg.PostgresError, ValueError, OverflowError) as error:
                raise self._failed(error) from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)

    async def _attempt(self, work: Callable[[Any], Awaitable[T]], seconds: float) -> T:
        """The result of `work`, called with a connection; the connection is ended if that takes so many seconds, since
        a server that hangs would not even confirm that work is cancelled.
        """
        connection = await self._pool.acquire(timeout=seconds)
        watch = asyncio.get_running_loop().call_later(seconds, _terminate, connection)
        self._at_work.add(connection)
        try:
            return await work(connection)
        except asyncio.CancelledError:
            _terminate(connection)
            raise
        finally:
            watch.cancel()
            self._at_work.discard(connection)
            await self._pool.release(connection)

    def _break_off(self) -> None:
        """End all connections at work: nobody is to wait longer for a database that has been waited for in vain."""
        for connection in self._at_work:
            _terminate(connection)

    async def _do_for(self, *work: Any) -> Any:
        """`_do` for callers in any other event loop; StoreError once the database is closed."""
        return await asyncio.wrap_future(self._started(self._do, *work))

    def _call(self, work: Callable[..., Awaitable[T]], *values: Any) -> T:
        """Run the coroutine function in the database's event loop, and return its result; StoreError once that loop is
        closed. To be called from any other thread.
        """
        try:
            return self._started(work, *values).result()
        except CancelledError:
            raise closed(self.named) from None

    def _started(self, work: Callable[..., Awaitable[T]], *values: Any) -> Future[T]:
        """Start the coroutine function in the database's event loop, and return its future; StoreError once it is
        closed.
        """
        try:
            return self._portal.start_task_soon(work, *values)
        except RuntimeError:
            raise closed(self.named) from None

    async def _is_prepared(self, connection: Any) -> bool:
        """Whether all tables are there, of this version; StoreError where they are of one that cannot be migrated, or
        have keys of another one.
        """
        if not {"failing", "holder", "meta"} <= {row[0] for row in await connection.fetch(_TABLES)}:
            return False
        meta = dict(await connection.fetch(_META))
        if (meta.get("format"), meta.get("key_version")) != (str(FORMAT), str(KEY_VERSION)):
            raise self._of_another_release(meta)
        return True

    async def _prepare(self, connection: Any) -> None:
        """Create the missing tables and migrate older ones, one process at a time; StoreError where existing tables
        are of another version, or have keys of another one.
        """
        async with connection.transaction(isolation="read_committed"):
            await connection.execute(_ONE_AT_A_TIME)
            if "meta" not in {row[0] for row in await connection.fetch(_TABLES)}:
                await connection.execute(_CREATE)
            await connection.execute(_CREATE_HOLDER)  # an early release did without it
            meta = dict(await connection.fetch(_META))
            if meta == {"format": "1", "key_version": str(KEY_VERSION)}:
                await _migrate(connection)
            elif (meta.get("format"), meta.get("key_version")) != (str(FORMAT), str(KEY_VERSION)):
                raise self._of_another_release(meta)

    def _of_another_release(self, meta: dict[str, str]) -> StoreError:
        """The StoreError for tables of another version, or with keys of another one."""
        return StoreError(
            f"{self.named} has format {meta.get('format', 'unknown')} and keys of version "
            f"{meta.get('key_version', 'unknown')}; this release reads formats 1 and {FORMAT} with keys of version "
            f"{KEY_VERSION}: use the release that wrote it."
        )

    async def _end(self) -> None:
        """Release this process's leases, if it took any, and close the pool, each within ten seconds. Errors are
        ignored.
        """
        if self._pool is None:
            return
        if self._renewing:
            self._renewing.cancel()
            with suppress(StoreError):
                await self._do(lambda connection: connection.execute(_RELEASE_ALL, self._owner), 0.0, CONNECT_SECONDS)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._pool.close()
        except Exception:
            self._pool.terminate()

    def _failed(self, error: Exception) -> StoreError:
        """The StoreError to raise for an error of the database. Its message has neither user nor password."""
        if isinstance(error, asyncpg.exceptions.ClientConfigurationError):
            return _unreadable()
        for kind, reason in _REASONS:
            if isinstance(error, kind):
                return StoreError(f"{self.named} {reason}.")
        what = type(error).__name__
        if isinstance(error, _PASSING):
            step = "check that PostgreSQL runs there and lets this machine in (port, TLS), then run again"
            return StoreError(f"{self.named} cannot be reached ({what}): {step}.")
        if isinstance(error, asyncpg.PostgresError) and not isinstance(error, asyncpg.DataError):
            what = f"{what}: {error.args[0]}"
        return StoreError(f"{self.named} cannot be used ({what}): check its URL, and the server's log and disk.")


class PostgresAllowances:
    """Each process's share of an endpoint's concurrency, in the table `holder`, as `Allowances`
    (longform/llm/gate/sharing.py).

    `do` runs a function with a connection in the store's event loop, and is awaited in the caller's. A process that
    has not called `share` for `seconds` counts as dead, but none in the first seconds of a server that was away.
    """

    def __init__(self, do: Callable[..., Awaitable[Any]], *, seconds: float = HOLDER_SECONDS) -> None:
        self.seconds, self._do = seconds, do

    async def share(self, endpoint: str, owner: str, *, total: int, wanted: int, in_use: int) -> Share:
        async def share(connection: Any) -> Share:
            async with connection.transaction(isolation="read_committed"):
                digest = hashlib.sha256(f"endpoint {endpoint}".encode()).digest()
                await connection.execute(_ALONE, int.from_bytes(digest[:8], "big", signed=True))
                await connection.execute(_GONE, endpoint, self.seconds)
                others = {row[0]: (row[1], row[2]) for row in await connection.fetch(_HELD, endpoint)}
                _, held = others.pop(owner, (0, 0))
                turn = await connection.fetchval(_TURN)
                result = shared_now(owner, others, total=total, wanted=wanted, in_use=in_use, turn=turn)
                if result.granted > held:  # a crash of the server must not forget it
                    await connection.execute(_FOR_GOOD)
                await connection.execute(_HOLD, endpoint, owner, wanted, result.granted, self.seconds)
                return result

        return cast(Share, await self._do(share))

    async def leave(self, endpoint: str, owner: str) -> None:
        await self._do(lambda connection: connection.execute(_LEAVE, endpoint, owner), 0.0)


async def _write(put: str, rows: list[Row], lines: list[Row], connection: Any) -> None:
    """Store rows of records by the statement `put`, and rows of the ledger, in one transaction; this ends the leases of
    the records' keys, and forgets what failed before under them.
    """
    async with connection.transaction(isolation="read_committed"):
        if rows:
            await connection.executemany(put, rows)
            await connection.execute(_END, [row[0] for row in rows])
            await connection.execute(_SETTLE, settled_keys(rows))
        if lines:
            await connection.executemany(PAY_ONCE, lines)


async def _migrate(connection: Any) -> None:
    """Bring the tables from format 1 to 2, inside a transaction: every record gets its checksum. Processes of the older
    release wait, and cannot store records without one afterwards.
    """
    await connection.execute(_NEW_IN_2)
    after = b""
    while rows := await connection.fetch(_WITHOUT_CHECKSUM, after, PostgresDatabase.rows_per_query):
        await connection.execute(_SET_CHECKSUMS, [row[0] for row in rows], [checksum_of(row) for row in rows])
        after = rows[-1][0]
    await connection.execute(_ALL_CHECKED)
    for name, value in (("format", str(FORMAT)), ("id", uuid.uuid4().hex), ("purged", "0")):
        await connection.execute(_SET_META, name, value)


def _terminate(connection: Any) -> None:
    """End a connection without a word to the server, unless that was done already."""
    with suppress(asyncpg.InterfaceError):
        connection.terminate()


async def _set_up(connection: Any) -> None:
    """Set up a connection to encode texts as ASCII with Python's escapes: so it can store NUL, halves of surrogate
    pairs, and characters that the database's encoding lacks. A transaction whose process sleeps for ASLEEP_SECONDS is
    ended, as others may wait for what it has locked.
    """
    await connection.execute(f"SET idle_in_transaction_session_timeout = '{ASLEEP_SECONDS}s'")
    await connection.set_type_codec(
        "text",
        schema="pg_catalog",
        encoder=lambda text: text.encode("unicode_escape"),
        decoder=lambda content: bytes(content).decode("unicode_escape", "replace"),  # damage shows by its checksum
        format="binary",
    )


async def _without_reset(connection: Any) -> None:
    """Do nothing when a connection is given back: nothing is set for a session, and a reset is a round trip."""


def _place(url: str) -> str:
    """host:port/database of a URL, for messages, each also from the URL's query; host localhost and port 5432 if none
    is given, several hosts as in the URL. StoreError where the URL is malformed, as parts of a password might then
    appear.
    """
    try:
        parts = urlsplit(url)
        query = parse_qs(parts.query)
    except ValueError:
        raise _unreadable() from None
    hosts = parts.netloc.rpartition("@")[2] or query.get("host", ["localhost"])[-1]
    well_formed = all(_HOST.fullmatch(host) for host in hosts.split(","))
    if not well_formed or parts.netloc.count("@") > 1 or "@" in parts.path + parts.query + parts.fragment:
        raise _unreadable()
    port = "" if re.search(r":\d+$", hosts) else ":" + query.get("port", ["5432"])[-1]
    database = unquote(parts.path[1:]) or query.get("dbname", query.get("database", [""]))[-1]
    return f"{unquote(hosts)}{port}/{database}"


def _unreadable() -> StoreError:
    """The StoreError for a URL that cannot be read; it shows nothing of the URL."""
    return StoreError(
        "The URL of the response store cannot be read as postgresql://user:password@host:port/database: "
        "write special characters in user and password as %XX (@ as %40, / as %2F, # as %23)."
    )


def _rows(records: Sequence[tuple[str, Record]]) -> list[Row]:
    """The records as rows, sorted by key, with None for integers of more than 64 bits. All processes lock rows in this
    order, so that none waits for another forever.
    """
    rows = [row_of(key, record, partial(zlib.compress, level=1), storable) for key, record in records]
    return sorted(rows, key=itemgetter(0))


def _ledger_rows(lines: Iterable[Line]) -> list[Row]:
    """The lines of the ledger as rows, with their ids."""
    return [[number, *storable(ledger_row_of(paid, created))] for number, created, paid in lines]
