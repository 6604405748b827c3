"""The database of the part Work as it is opened: its format, and what cannot be used."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from postgresql import Server
from sqlalchemy import delete, func, insert, select, text

from flows.page.work import accounts
from flows.page.work.database import opened
from flows.page.work.tables import ACCOUNTS, FORMAT, FORMATS
from longform.errors import StoreError


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.check)])
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose accounts and annotations are in SQLite or in PostgreSQL."""
    if request.param == "postgresql":
        server: Server = request.getfixturevalue("postgres")
        monkeypatch.setenv("LONGFORM_WORK", server.database())
    return tmp_path


def test_tables_of_a_newer_release_are_refused_and_left_as_they_are(home: Path) -> None:
    async def newer() -> None:
        async with opened(home) as database, database.writing() as connection:
            await connection.execute(insert(FORMATS).values(format=FORMAT + 1))
            await connection.execute(text("DROP TABLE live_topics"))

    async def tables() -> None:
        async with opened(home):
            pass

    asyncio.run(newer())
    for _ in range(2):
        with pytest.raises(StoreError, match=f"format {FORMAT + 1}, and this release knows formats up to {FORMAT}"):
            asyncio.run(tables())


def test_tables_from_before_there_were_formats_are_taken_as_the_first(home: Path) -> None:
    async def before() -> None:
        async with opened(home) as database:
            await accounts.add(database, "ann", "annotator", "a long password")
            async with database.writing() as connection:
                await connection.execute(text("DROP TABLE page_format"))

    async def after() -> tuple[int, int]:
        async with opened(home) as database, database.reading() as connection:
            number = await connection.scalar(select(func.count()).select_from(ACCOUNTS))
            return int(number or 0), int(await connection.scalar(select(func.max(FORMATS.c.format))) or 0)

    asyncio.run(before())
    assert asyncio.run(after()) == (1, FORMAT)
    assert asyncio.run(after()) == (1, FORMAT)


def test_a_database_without_its_format_gets_it_again(home: Path) -> None:
    async def without() -> int:
        async with opened(home) as database, database.writing() as connection:
            found = await connection.scalar(select(func.count()).select_from(FORMATS))
            await connection.execute(delete(FORMATS))
            return int(found or 0)

    assert [asyncio.run(without()) for _ in range(2)] == [1, 1]


def test_a_damaged_file_and_a_server_that_is_away_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def open_it() -> None:
        async with opened(tmp_path):
            pass

    file = tmp_path / "page" / "work.sqlite"
    file.parent.mkdir()
    file.write_bytes(b"no database at all, but longer than a header of one would be" * 40)
    with pytest.raises(StoreError, match=r"work\.sqlite cannot be used .* file is not a database"):
        asyncio.run(open_it())
    monkeypatch.setenv("LONGFORM_WORK", "postgresql://me:a-secret-word@127.0.0.1:1/none")
    with pytest.raises(StoreError, match="LONGFORM_WORK names cannot be used") as found:
        asyncio.run(open_it())
    assert "a-secret-word" not in str(found.value)
