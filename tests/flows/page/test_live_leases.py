"""Who reads which question live: leases that end, topics that are preferred, sessions that go on; on both databases."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from page_server import add_account
from postgresql import Server
from sqlalchemy import update

from flows.page.live import sessions
from flows.page.live.study import Study
from flows.page.live.tables import LIVE_SESSIONS
from flows.page.live.writing import Cost
from flows.page.work.database import Database, opened

CAPS = (1_000_000_000, 100)
WRITTEN = {
    **dict.fromkeys(("response", "prompt", "prompt_hash", "endpoint", "model")),
    "passages": [{"passage_id": "p", "title": "T", "text": "t"}] * 5,
    "summary": None,
    "answer": "Shorter [0].",
}


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.check)])
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with three readers, whose sessions are in SQLite or in PostgreSQL."""
    if request.param == "postgresql":
        server: Server = request.getfixturevalue("postgres")
        monkeypatch.setenv("LONGFORM_WORK", server.database())
    for name in ("ann", "bob", "cat"):
        add_account(tmp_path, name, pseudonym=name)
    return tmp_path


def study(topics: tuple[str, ...] = ("tides",), systems: tuple[str, ...] = ("m",)) -> Study:
    """A study with a question of each topic."""
    made = WRITTEN | {"passages": [], "answer": "Long answer [0]."}
    questions = {
        f"q{n}": {"question_id": f"q{n}", "question": "How?", "topic": topic, "documents": [], "source_paper": None}
        for n, topic in enumerate(topics)
    }
    answers = {name: {system: {**made, "system": system} for system in systems} for name in questions}
    nothing: Any = None
    return Study(nothing, nothing, nothing, questions, answers)


def working(home: Path, work: Any) -> None:
    async def run() -> None:
        async with opened(home) as database:
            await work(database)

    asyncio.run(run())


async def rested(database: Database) -> None:
    """All sessions were touched long ago."""
    async with database.writing() as connection:
        await connection.execute(update(LIVE_SESSIONS).values(touched_at=1))


async def begun(database: Database, of: Study, who: str) -> str:
    found = await sessions.begin(database, of, who)
    assert found
    return found


def test_a_question_waits_for_its_reader_until_the_lease_ends_and_then_goes_to_somebody_else(home: Path) -> None:
    async def work(database: Database) -> None:
        of = study()
        anns = await begun(database, of, "ann")
        assert await sessions.begin(database, of, "ann") == anns
        assert await sessions.begin(database, of, "bob") is None
        await rested(database)
        assert await begun(database, of, "bob") != anns
        assert await sessions.ask(database, anns, "ann", "style", "Shorten it.", CAPS) == "lost"
        assert await sessions.begin(database, of, "ann") is None, "nobody gets a question twice"

    working(home, work)


def test_a_rested_session_goes_on_where_nobody_took_its_question(home: Path) -> None:
    async def work(database: Database) -> None:
        anns = await begun(database, study(), "ann")
        await rested(database)
        assert await sessions.ask(database, anns, "ann", "style", "Shorten it.", CAPS) == "done"
        assert await sessions.begin(database, study(), "bob") is None

    working(home, work)


def test_questions_of_preferred_topics_come_first_and_the_others_after_them(home: Path) -> None:
    async def work(database: Database) -> None:
        of = study(("tides", "ovens", "tides", "ovens"))
        await sessions.prefer(database, "ann", {"ovens"})
        seen = []
        for _ in range(4):
            mine = await begun(database, of, "ann")
            live = await sessions.found(database, mine, "ann")
            assert live
            seen.append(live.question["topic"])
            await sessions.ask(database, mine, "ann", "style", "Shorten it.", CAPS)
            await sessions.keep(database, mine, 1, WRITTEN, Cost(0, 1), None)
            await sessions.rate(database, mine, "ann", 1, "good", "It did.", None, 3.0)
            assert await sessions.finish(database, home / "page" / "kiwi", mine, "ann") == "done"
        assert seen == ["ovens", "ovens", "tides", "tides"]
        assert await sessions.begin(database, of, "ann") is None
        assert len([*(home / "page" / "kiwi").glob("*.jsonl")]) == 4

    working(home, work)


def test_each_reader_of_a_question_has_it_with_another_model(home: Path) -> None:
    async def work(database: Database) -> None:
        of = study(systems=("m", "n"))
        found = [await sessions.found(database, await begun(database, of, who), who) for who in ("ann", "bob")]
        assert {live.row["system"] for live in found if live} == {"m", "n"}
        assert await sessions.begin(database, of, "cat") is None

    working(home, work)


@pytest.mark.parametrize(
    ("rating", "edited", "now"),
    [
        ("good", None, "Shorter [0]."),
        ("neutral", None, "Shorter [0]."),
        ("neutral", "Mine [0].", "Mine [0]."),
        ("bad", "Mine [0].", "Mine [0]."),
        ("bad", None, "Long answer [0]."),
    ],
)
def test_the_answer_that_a_next_turn_revises_is_the_edited_one_and_a_bad_one_left_as_it_is_is_dropped(
    home: Path, rating: str, edited: str | None, now: str
) -> None:
    async def work(database: Database) -> None:
        mine = await begun(database, study(), "ann")
        assert await sessions.ask(database, mine, "ann", "information", "More.", CAPS) == "done"
        assert await sessions.ask(database, mine, "ann", "style", "And more.", CAPS) == "not now"
        await sessions.keep(database, mine, 1, WRITTEN, Cost(7, 2), None)
        assert await sessions.rate(database, mine, "ann", 1, rating, "Why.", edited, 1.0) == "done"
        live = await sessions.found(database, mine, "ann")
        assert live
        assert (live.now, live.next_reference) == (now, 5)
        assert await sessions.found(database, mine, "bob") is None

    working(home, work)


def test_a_session_ends_after_ten_turns_and_a_finished_one_takes_nothing_more(home: Path) -> None:
    async def work(database: Database) -> None:
        mine = await begun(database, study(), "ann")
        assert await sessions.finish(database, home / "page" / "kiwi", mine, "ann") == "not now", "nothing was rated"
        for position in range(1, 11):
            assert await sessions.ask(database, mine, "ann", "style", f"Again, {position}.", CAPS) == "done"
            await sessions.keep(database, mine, position, WRITTEN, Cost(0, 1), None)
            await sessions.rate(database, mine, "ann", position, "good", "Fine.", None, 1.0)
        assert await sessions.ask(database, mine, "ann", "style", "Once more.", CAPS) == "not now"
        assert await sessions.finish(database, home / "page" / "kiwi", mine, "ann") == "done"
        assert await sessions.ask(database, mine, "ann", "style", "Once more.", CAPS) == "not now"
        (row,) = await sessions.progress(database)
        assert (row["rated"], row["state"], row["seconds"]) == (10, "finished", 10.0)

    working(home, work)


def test_a_file_that_a_killed_server_did_not_write_is_written_when_it_starts(home: Path) -> None:
    async def work(database: Database) -> None:
        folder = home / "page" / "kiwi"
        mine = await begun(database, study(), "ann")
        await sessions.ask(database, mine, "ann", "style", "Shorten it.", CAPS)
        await sessions.keep(database, mine, 1, WRITTEN, Cost(0, 1), None)
        await sessions.rate(database, mine, "ann", 1, "good", "Fine.", None, 1.0)
        await sessions.finish(database, folder, mine, "ann")
        (file,) = folder.glob("*.jsonl")
        content = file.read_bytes()
        file.unlink()
        await sessions.write_finished(database, folder)
        assert file.read_bytes() == content

    working(home, work)
