"""The database of the part Work: SQLite in the home, or PostgreSQL. A transaction is on disk when its block ends."""

from __future__ import annotations

import os
import sqlite3
import time
from asyncio import Semaphore
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg
from sqlalchemy import AsyncAdaptedQueuePool, Connection, event, func, inspect, select, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from starlette.requests import Request

from flows.page.work.tables import FORMAT, FORMATS, METADATA
from longform import settings
from longform.errors import StoreError

BEGIN = "BEGIN IMMEDIATE"
PRAGMAS = ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "busy_timeout = 30000")
CONNECTIONS = 8
DRIVERS = (asyncpg.PostgresError, asyncpg.InterfaceError)  # what SQLAlchemy passes on as it is


class Database:
    """The database of a home, for one event loop. `create` makes its tables where they are missing; `close` ends it."""

    def __init__(self, home: Path) -> None:
        place = settings.work(home)
        self.name = str(place) if isinstance(place, Path) else "The database that LONGFORM_WORK names"
        self._engine = _sqlite(place) if isinstance(place, Path) else _postgresql(place)
        self._turn = Semaphore(1 if isinstance(place, Path) else CONNECTIONS)  # SQLite polls for its lock, ever slower

    async def create(self) -> None:
        """Make the tables that are missing: all that modules imported so far declare on METADATA. StoreError for tables
        of a newer release, and for a database that cannot be used.
        """
        try:
            async with self.writing() as connection:
                await connection.run_sync(self._create)
        except (*DRIVERS, SQLAlchemyError, OSError) as error:
            said = str(getattr(error, "orig", None) or error)
            raise StoreError(f"{self.name} cannot be used for accounts and annotations: {said}.") from None

    def _create(self, connection: Connection) -> None:
        found = 0
        if inspect(connection).has_table(FORMATS.name):
            found = connection.scalar(select(func.max(FORMATS.c.format))) or 0
        if found > FORMAT:
            raise StoreError(
                f"{self.name} has tables of format {found}, and this release knows formats up to {FORMAT}: use the "
                "release that wrote them, or another home or database. Nothing was changed."
            )
        METADATA.create_all(connection)
        if found < FORMAT:
            connection.execute(text(f"INSERT INTO {FORMATS.name} VALUES ({FORMAT}) ON CONFLICT DO NOTHING"))

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection to read with."""
        async with self._engine.connect() as connection:
            yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A connection in one transaction, committed when the block ends and rolled back by an error. In SQLite it is
        the only writer from its start.
        """
        async with self._turn, self._engine.connect() as connection:
            await connection.execution_options(writes=True)
            async with connection.begin():
                yield connection

    async def close(self) -> None:
        """Close all connections."""
        await self._engine.dispose()


@asynccontextmanager
async def opened(home: Path) -> AsyncIterator[Database]:
    """The database of a home, with its tables, closed when the block ends."""
    found = Database(home)
    try:
        await found.create()
        yield found
    finally:
        await found.close()


def database(request: Request) -> Database:
    """The database of the application that answers a request."""
    found: Database = request.app.state.database
    return found


def now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _postgresql(url: str) -> AsyncEngine:
    return create_async_engine(
        f"postgresql+asyncpg://{url.partition('://')[2]}", pool_size=CONNECTIONS, max_overflow=0, pool_pre_ping=True
    )


def _sqlite(path: Path) -> AsyncEngine:
    """The engine of a SQLite file, made if it is missing and readable by its owner alone. Transactions are begun by
    this module: the driver would begin them late, and two readers that both go on to write would block each other.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))

    async def connect() -> aiosqlite.Connection:
        return await Direct(partial(sqlite3.connect, path, isolation_level=None, check_same_thread=False), 64)

    engine = create_async_engine(
        "sqlite+aiosqlite://",
        async_creator=connect,
        poolclass=AsyncAdaptedQueuePool,
        pool_size=CONNECTIONS,
        max_overflow=0,
    )
    event.listen(engine.sync_engine, "connect", _prepare)
    event.listen(engine.sync_engine, "begin", _begin)
    return engine


class Direct(aiosqlite.Connection):
    """A connection whose statements run where they are called; only those that may wait, for the lock or for the disk,
    run in its thread. Where all do, a request changes threads forty times, and waits for a processor as often when
    other processes are busy.
    """

    async def _execute(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        waits = fn.__name__ in ("commit", "close") or args[:1] == (BEGIN,)
        if waits:
            return await super()._execute(fn, *args, **kwargs)  # type: ignore[no-untyped-call]
        return fn(*args, **kwargs)


def _prepare(connection: Any, _: Any) -> None:
    cursor = connection.cursor()
    for pragma in PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: Any) -> None:
    if connection.get_execution_options().get("writes"):
        connection.exec_driver_sql(BEGIN)
