"""The response store in PostgreSQL, for several processes at once: the schema `longform` of the database of a URL.

    response   one row a request: the reply's bytes as received (zlib), or the permanent error it met (a tombstone)
    ledger     one row a call that was, or may have been, billed; only ever added to
    lease      keys that a process is asking a model for, and until when
    job        one row a batch; job_item its keys
    meta       format, key_version
    holder     who asks which endpoint now, see postgres_sharing.py

A process has one event loop in a thread of its own and a few connections. What is put while a transaction is being
written goes into the next one, all of it. A connection that is lost is made anew for half a minute, and its work is
done again; a line of the ledger has an id, so that it is never written twice. Texts are stored with escapes, as a
server may send characters that a database cannot hold.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
import time
import uuid
import zlib
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from longform.errors import StoreError
from longform.llm.ask.keys import KEY_VERSION
from longform.llm.responses import postgres_sharing
from longform.llm.responses.records import REPLY, TOMBSTONE, Job, Paid, Record, Usage, usage_of

FORMAT = 1
CONNECTIONS = 4
CONNECT_SECONDS = 10.0
END_SECONDS = 10.0
COMMAND_SECONDS = 60.0
PATIENCE_SECONDS = 30.0
LEASE_SECONDS = 60.0
ENTRIES_PER_COMMIT = 512
KEYS_PER_QUERY = 1_000
ROWS_PER_PAGE = 256
LATEST_ANSWERS = 300

_CREATE = """
CREATE SCHEMA IF NOT EXISTS longform;
CREATE TABLE longform.meta(k text PRIMARY KEY, v text NOT NULL);
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
_MADE = "SELECT EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = 'longform' AND tablename = 'meta')"
_ONE_AT_A_TIME = f"SELECT pg_advisory_xact_lock({int.from_bytes(b'longform', 'big')})"

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\[\]:@]+)(:\d+)?")

_RECORD = [field.name for field in fields(Record)]
_NUMBERS = frozenset(name for name in _RECORD if name.endswith(("_tokens", "_limit", "_nano", "seconds")))
_PAID = [field.name for field in fields(Paid)]
_JOB = [field.name for field in fields(Job)]


def _marks(number: int) -> str:
    return ", ".join(f"${place}" for place in range(1, number + 1))


def _replaced(names: Iterable[str]) -> str:
    return ", ".join(f"{name} = excluded.{name}" for name in names)


_SELECT = f"SELECT key, {', '.join(_RECORD)} FROM longform.response"
_INSERT = f"INSERT INTO longform.response(key, {', '.join(_RECORD)}) VALUES ({_marks(1 + len(_RECORD))})"
_PUT = f"{_INSERT} ON CONFLICT (key) DO UPDATE SET {_replaced(_RECORD)}"
_ADD = f"{_INSERT} ON CONFLICT (key) DO NOTHING RETURNING 1"
_PAY = f"""
INSERT INTO longform.ledger(id, created, {", ".join(_PAID)}) VALUES ({_marks(2 + len(_PAID))})
ON CONFLICT (id) DO NOTHING
"""

_PURGE = "DELETE FROM longform.response WHERE key = ANY($1::bytea[]) RETURNING 1"

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
_END = f"DELETE FROM longform.lease WHERE key IN {_LOCKED.format('key = ANY($1::bytea[])')}"
_RELEASE = f"DELETE FROM longform.lease WHERE key IN {_LOCKED.format('key = ANY($1::bytea[]) AND owner = $2')}"
_RELEASE_ALL = f"DELETE FROM longform.lease WHERE key IN {_LOCKED.format('owner = $1')}"

_STAGE = f"""
INSERT INTO longform.job AS there({", ".join(_JOB)}) VALUES ({_marks(len(_JOB))})
ON CONFLICT (name) DO UPDATE SET {_replaced(_JOB[1:])} WHERE there.state NOT IN ('UPLOADED', 'SUBMITTED')
RETURNING name
"""
_STATS = f"""
SELECT endpoint, model, task,
       count(*) FILTER (WHERE state = {REPLY}) AS answers, count(*) FILTER (WHERE state = {TOMBSTONE}) AS errors,
       coalesce(sum(input_tokens), 0)::bigint AS input_tokens, coalesce(sum(output_tokens), 0)::bigint AS output_tokens,
       coalesce(sum(cost_nano), 0)::bigint AS cost_nano, sum(octet_length(request) + octet_length(body)) AS bytes
FROM longform.response GROUP BY endpoint, model, task ORDER BY endpoint, model, task
"""
_LEDGER = """
SELECT stage, endpoint, model, batch, count(*) AS calls, count(*) FILTER (WHERE NOT answered) AS unanswered,
       coalesce(sum(input_tokens), 0)::bigint AS input_tokens, coalesce(sum(cached_tokens), 0)::bigint AS cached_tokens,
       coalesce(sum(output_tokens), 0)::bigint AS output_tokens, coalesce(sum(cost_nano), 0)::bigint AS cost_nano,
       count(*) FILTER (WHERE cost_nano IS NULL) AS unpriced
FROM longform.ledger WHERE dataset = $1 AND ($2::text[] IS NULL OR recipe = ANY($2))
GROUP BY stage, endpoint, model, batch ORDER BY min(number)
"""
_USAGE = f"""
SELECT request, input_tokens, coalesce(output_tokens, 0), milliseconds FROM longform.response
WHERE endpoint = $1 AND model = $2 AND task = $3 AND state = {REPLY} AND input_tokens > 0
ORDER BY created DESC LIMIT {LATEST_ANSWERS}
"""

_PASSING = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
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
Row = tuple[Any, ...]
Entry = tuple[dict[bytes, Row], list[Row]]


@dataclass(slots=True)
class _Asked:
    what: Any
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]


class _Groups:
    """What is asked while a group is being worked on makes the next one. Answers go back to the loops that asked."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[list[Any]], Awaitable[list[Any]]]) -> None:
        self._loop, self._work = loop, work
        self._waiting: deque[_Asked] = deque()
        self._task: asyncio.Task[None] | None = None
        self._woken = False

    def ask(self, what: Any) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        asked = _Asked(what, loop, loop.create_future())
        self._waiting.append(asked)
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._begin)
        return asked.done

    def _begin(self) -> None:
        self._woken = False
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        while self._waiting:
            group = [self._waiting.popleft() for _ in range(min(len(self._waiting), ENTRIES_PER_COMMIT))]
            try:
                outcomes = await self._work([asked.what for asked in group])
            except Exception as error:
                outcomes = [error] * len(group)
            _tell(group, outcomes)


class PostgresResponses:
    """The response store of a URL postgresql://user:password@host:port/database; made there if it is not.

    StoreError, which names host, port and database only, where it cannot be reached or used.
    """

    exclusive = False

    def __init__(self, url: str, *, lease_seconds: float = LEASE_SECONDS) -> None:
        self.place = _place(url)
        self._lease_seconds = lease_seconds
        self._owner = f"{socket.gethostname()} {os.getpid()} {uuid.uuid4().hex[:12]}"
        self._asking = threading.Lock()
        self._closed = False
        self._heart: asyncio.Task[None] | None = None
        self._loop = asyncio.new_event_loop()
        self._puts = _Groups(self._loop, self._store)
        self._leases = _Groups(self._loop, self._grant)
        self.allowances = postgres_sharing.PostgresAllowances(self._do_here)
        self._thread = threading.Thread(target=self._loop.run_forever, name="responses", daemon=True)
        self._thread.start()
        try:
            self._pool = self._call(self._connect, url)
            self._call(self._do, self._prepare, 0.0)
        except BaseException:
            self.close()
            raise

    # reading

    def get(self, keys: Sequence[str]) -> dict[str, Record]:
        found: dict[str, Record] = {}
        for chunk in _chunks(keys, KEYS_PER_QUERY):
            found.update(self._records(f"{_SELECT} WHERE key = ANY($1)", [bytes.fromhex(key) for key in chunk]))
        return found

    def scan(self, keys: Collection[str] | None = None) -> Iterator[tuple[str, Record]]:
        if keys is not None:
            for chunk in _chunks(sorted(set(keys)), ROWS_PER_PAGE):
                yield from sorted(self.get(chunk).items())
            return
        query, after = f"{_SELECT} WHERE key > $1 ORDER BY key LIMIT {ROWS_PER_PAGE}", ""
        while page := self._records(query, bytes.fromhex(after)):
            yield from page
            after = page[-1][0]

    def stats(self) -> list[dict[str, Any]]:
        return [dict(row) for row in self._rows(_STATS)]

    def ledger(self, dataset: str, recipes: Collection[str] | None = None) -> list[dict[str, Any]]:
        return [dict(row) for row in self._rows(_LEDGER, dataset, None if recipes is None else list(recipes))]

    def usage(self, endpoint: str, model: str, task: str) -> Usage | None:
        rows = self._rows(_USAGE, endpoint, model, task)
        return usage_of([(len(self._unpacked(row[0])), row[1], row[2], row[3]) for row in rows])

    def _records(self, query: str, *values: Any) -> list[tuple[str, Record]]:
        return [self._record(row) for row in self._rows(query, *values)]

    def _record(self, row: Sequence[Any]) -> tuple[str, Record]:
        key, endpoint, model, task, prompt, request, body, *rest = row
        return key.hex(), Record(endpoint, model, task, prompt, self._unpacked(request), self._unpacked(body), *rest)

    def _unpacked(self, content: bytes) -> bytes:
        try:
            return zlib.decompress(content)
        except zlib.error as error:
            raise StoreError(f"{self._named} holds a damaged record ({error}): restore it from a backup.") from None

    def _rows(self, query: str, *values: Any) -> list[Any]:
        async def fetch(connection: Any) -> Any:
            return await connection.fetch(query, *values)

        return list(self._call(self._do, fetch))

    # writing

    async def put(self, records: Sequence[tuple[str, Record]], paid: Sequence[Paid] = ()) -> None:
        now = time.time()
        await self._ask(self._puts, (_by_key(records, now), [_line(line, now) for line in paid]))

    async def lease(self, keys: Sequence[str], *, again: bool = False) -> set[str]:
        granted: set[bytes] = await self._ask(self._leases, ([bytes.fromhex(key) for key in keys], again))
        return {key.hex() for key in granted}

    async def release(self, keys: Sequence[str]) -> None:
        chosen = [bytes.fromhex(key) for key in keys]

        async def release(connection: Any) -> None:
            await connection.execute(_RELEASE, chosen, self._owner)

        await self._do_here(release)

    def add(self, records: Iterable[tuple[str, Record]]) -> int:
        added = 0
        for chunk in _chunks(records, ROWS_PER_PAGE):
            rows = _in_order(_by_key(reversed(chunk), time.time()))

            async def add(connection: Any, rows: list[Row] = rows) -> int:
                return len(await connection.fetchmany(_ADD, rows))

            added += self._call(self._do, add)
        return added

    def purge(self, keys: Collection[str]) -> int:
        deleted = 0
        for chunk in _chunks(sorted(set(keys)), KEYS_PER_QUERY):
            rows = self._rows(_PURGE, [bytes.fromhex(key) for key in chunk])
            deleted += len(rows)
        return deleted

    async def _store(self, entries: list[Entry]) -> list[None]:
        """One transaction. Of records under the same key the last one stays."""
        rows = {key: row for records, _ in entries for key, row in records.items()}
        lines = [line for _, paid in entries for line in paid]

        async def store(connection: Any) -> None:
            async with connection.transaction(isolation="read_committed"):
                if rows:
                    await connection.executemany(_PUT, _in_order(rows))
                    await connection.execute(_END, list(rows))
                if lines:
                    await connection.executemany(_PAY, lines)

        await self._do(store)
        return [None] * len(entries)

    async def _grant(self, asked: list[tuple[list[bytes], bool]]) -> list[set[bytes]]:
        """Which of the keys are ours now, for each who asked.

        Whoever had a lease before us has stored its answer by the time that ours is written, so only then is it known
        whether there is one. Leases need not outlive a crash of the server, so their commit is not waited for.
        """
        self._heart = self._heart or asyncio.create_task(self._renew())
        keys = sorted({key for some, _ in asked for key in some})
        anew = {key for some, again in asked if again for key in some}

        async def grant(connection: Any) -> set[bytes]:
            async with connection.transaction(isolation="read_committed"):
                await connection.execute("SELECT set_config('synchronous_commit', 'off', true)")
                granted = {row[0] for row in await connection.fetch(_LEASE, keys, self._owner, self._lease_seconds)}
                found = await connection.fetch(_ANSWERED, list(granted - anew), self._owner)
                return granted - {row[0] for row in found}

        granted = await self._do(grant)
        return [granted.intersection(some) for some, _ in asked]

    async def _renew(self) -> None:
        """Keep this process's leases from running out, as long as it lives."""

        async def renew(connection: Any) -> None:
            await connection.execute(_RENEW, self._owner, self._lease_seconds)

        while True:
            await asyncio.sleep(self._lease_seconds / 5)
            with suppress(StoreError):
                await self._do(renew)

    # batches

    def stage_job(self, job: Job, keys: Sequence[str]) -> None:
        created = time.time() if job.created is None else job.created
        values = [created if name == "created" else value for name, value in zip(_JOB, astuple(job), strict=True)]
        items = [(job.name, place, bytes.fromhex(key)) for place, key in enumerate(keys)]

        async def stage(connection: Any) -> None:
            async with connection.transaction(isolation="read_committed"):
                if not await connection.fetch(_STAGE, *values):
                    raise StoreError(f"Batch {job.name} is under way in another process: wait until it has ended.")
                await connection.execute("DELETE FROM longform.job_item WHERE job = $1", job.name)
                await connection.executemany("INSERT INTO longform.job_item VALUES ($1, $2, $3)", items)

        self._call(self._do, stage)

    def update_job(self, name: str, **changes: Any) -> None:
        names = [column for column in _JOB if column in changes]
        columns = ", ".join(f"{column} = ${place}" for place, column in enumerate(names, 2))
        self._rows(f"UPDATE longform.job SET {columns} WHERE name = $1", name, *(changes[column] for column in names))

    def jobs(self, endpoint: str | None = None) -> list[Job]:
        query = f"SELECT {', '.join(_JOB)} FROM longform.job WHERE state NOT IN ('DONE', 'GONE')"
        rows = self._rows(f"{query} AND endpoint = coalesce($1, endpoint) ORDER BY created, name", endpoint)
        return [Job(*row) for row in rows]

    def job_keys(self, name: str) -> list[str]:
        rows = self._rows("SELECT key FROM longform.job_item WHERE job = $1 ORDER BY place", name)
        return [row[0].hex() for row in rows]

    def close(self) -> None:
        """Write what waits, give back the leases, let go of the server."""
        with self._asking:
            if self._closed:
                return
            self._closed = True
            ending = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        try:
            ending.result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    # the loop

    def _call(self, work: Callable[..., Any], *values: Any) -> Any:
        try:
            return self._begun(work, *values).result()
        except CancelledError:
            raise StoreError(f"{self._named} is closed.") from None

    async def _do_here(self, *work: Any) -> Any:
        """As `_do`, for who waits in an event loop of its own."""
        return await asyncio.wrap_future(self._begun(self._do, *work))

    def _begun(self, work: Callable[..., Any], *values: Any) -> Any:
        with self._asking:
            self._check_open()
            return asyncio.run_coroutine_threadsafe(work(*values), self._loop)

    async def _ask(self, groups: _Groups, what: Any) -> Any:
        with self._asking:
            self._check_open()
            answer = groups.ask(what)
        return await answer

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"{self._named} is closed.")

    async def _connect(self, url: str) -> Any:
        return await asyncpg.create_pool(
            url,
            min_size=0,
            max_size=CONNECTIONS,
            timeout=CONNECT_SECONDS,
            command_timeout=COMMAND_SECONDS,
            init=_with_any_text,
            reset=_as_it_is,
            server_settings={"application_name": "longform"},
        )

    async def _do(self, work: Callable[[Any], Awaitable[T]], patience: float = PATIENCE_SECONDS) -> T:
        """The work with a connection; all of it again for so many seconds where that was lost."""
        deadline, pause = self._loop.time() + patience, 0.05
        while True:
            try:
                async with self._pool.acquire() as connection:
                    return await work(connection)
            except _PASSING as error:
                if self._loop.time() >= deadline or isinstance(error, ValueError):
                    raise self._failed(error) from None
            except (asyncpg.PostgresError, ValueError, OverflowError) as error:
                raise self._failed(error) from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)

    async def _prepare(self, connection: Any) -> None:
        """Make the tables where there are none, one process at a time; check the versions of those there are."""
        if not await connection.fetchval(_MADE):
            async with connection.transaction(isolation="read_committed"):
                await connection.execute(_ONE_AT_A_TIME)
                if not await connection.fetchval(_MADE):
                    await connection.execute(_CREATE)
                    versions = [("format", str(FORMAT)), ("key_version", str(KEY_VERSION))]
                    await connection.executemany("INSERT INTO longform.meta VALUES ($1, $2)", versions)
        if not await connection.fetchval(postgres_sharing.MADE):  # made by a release that shared nothing
            async with connection.transaction(isolation="read_committed"):
                await connection.execute(_ONE_AT_A_TIME)
                await connection.execute(postgres_sharing.CREATE)
        meta = dict(await connection.fetch("SELECT k, v FROM longform.meta"))
        if (meta.get("format"), meta.get("key_version")) != (str(FORMAT), str(KEY_VERSION)):
            raise StoreError(
                f"{self._named} has format {meta.get('format', 'unknown')} and keys of version "
                f"{meta.get('key_version', 'unknown')}; this release reads format {FORMAT} with keys of version "
                f"{KEY_VERSION}: use the release that wrote it."
            )

    async def _end(self) -> None:
        if self._heart:
            self._heart.cancel()
        await _others(END_SECONDS)
        pool = getattr(self, "_pool", None)
        if pool is None:
            return
        if self._heart:
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(CONNECT_SECONDS):
                    await self._do(self._release_all, 0.0)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await pool.close()
        except Exception:
            pool.terminate()

    async def _release_all(self, connection: Any) -> None:
        await connection.execute(_RELEASE_ALL, self._owner)

    # messages

    @property
    def _named(self) -> str:
        return f"The response store at {self.place}"

    def _failed(self, error: Exception) -> StoreError:
        for kind, reason in _REASONS:
            if isinstance(error, kind):
                return StoreError(f"{self._named} {reason}.")
        what = type(error).__name__
        if isinstance(error, asyncpg.exceptions.ClientConfigurationError):
            return _unreadable()
        if isinstance(error, _PASSING):
            step = "check that PostgreSQL runs there and lets this machine in (port, TLS), then run again"
            return StoreError(f"{self._named} cannot be reached ({what}): {step}.")
        if isinstance(error, asyncpg.PostgresError) and not isinstance(error, asyncpg.DataError):
            what = f"{what}: {error.args[0]}"
        return StoreError(f"{self._named} cannot be used ({what}): check its URL, and the server's log and disk.")


# connections


async def _with_any_text(connection: Any) -> None:
    """Texts as ASCII with Python's escapes: also NUL, half of a surrogate pair, and what the encoding does not have."""
    await connection.set_type_codec(
        "text",
        schema="pg_catalog",
        encoder=lambda text: text.encode("unicode_escape"),
        decoder=lambda content: bytes(content).decode("unicode_escape"),
        format="binary",
    )


async def _as_it_is(connection: Any) -> None:
    """Nothing is set for a session, so nothing is reset after each use, which would take another round trip."""


async def _others(seconds: float) -> None:
    """Wait for all other tasks of the loop; break off those that take longer."""
    others: set[asyncio.Task[Any]] = set()
    try:
        async with asyncio.timeout(seconds):
            while others := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(others)
    except TimeoutError:
        for task in others:
            task.cancel()


def _place(url: str) -> str:
    """Host, port and database, as messages name them. StoreError where a URL may hold parts of a password there."""
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
    return StoreError(
        "The URL of the response store cannot be read as postgresql://user:password@host:port/database: "
        "write special characters in user and password as %XX (@ as %40, / as %2F, # as %23)."
    )


# groups and rows


def _tell(group: list[_Asked], outcomes: list[Any]) -> None:
    """Wake all who wait, with one call into each of their event loops."""
    of_loop = defaultdict(list)
    for asked, outcome in zip(group, outcomes, strict=True):
        of_loop[asked.loop].append((asked.done, outcome))
    for loop, pairs in of_loop.items():
        with suppress(RuntimeError):  # closed by now: nobody waits there
            loop.call_soon_threadsafe(_settle, pairs)


def _settle(pairs: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for done, outcome in pairs:
        if done.done():
            continue
        if isinstance(outcome, Exception):
            done.set_exception(outcome)
        else:
            done.set_result(outcome)


def _by_key(records: Iterable[tuple[str, Record]], now: float) -> dict[bytes, Row]:
    rows = (_row(key, record, now) for key, record in records)
    return {row[0]: row for row in rows}


def _in_order(rows: dict[bytes, Row]) -> list[Row]:
    return [rows[key] for key in sorted(rows)]


def _row(key: str, record: Record, now: float) -> Row:
    stored = {name: getattr(record, name) for name in _RECORD}
    stored.update({name: _number(stored[name]) for name in _NUMBERS})
    stored.update(request=zlib.compress(record.request, 1), body=zlib.compress(record.body, 1))
    stored["created"] = now if record.created is None else record.created
    return (bytes.fromhex(key), *stored.values())


def _line(paid: Paid, now: float) -> Row:
    stored = {name: getattr(paid, name) for name in _PAID}
    stored.update({name: _number(stored[name]) for name in _NUMBERS & stored.keys()})
    stored["key"] = bytes.fromhex(paid.key)
    return (uuid.uuid4(), now, *stored.values())


def _number(value: int | None) -> int | None:
    """A number that a server made up, as far as a database can hold it."""
    return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None


def _chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    remaining = iter(items)
    while chunk := list(islice(remaining, size)):
        yield chunk
