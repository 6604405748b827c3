"""Who gets which task, under leases, many at once and kills: nobody collides, and nothing counts twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from page_server import add_account
from postgresql import Server
from sqlalchemy import update
from toy_form import VALUES, open_round, pairs, sheets

from flows.page.work import assignment, exchange, rounds
from flows.page.work.assignment import Assignment
from flows.page.work.database import Database, opened
from flows.page.work.rounds import Round
from flows.page.work.tables import ASSIGNMENTS


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.check)])
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose accounts and annotations are in SQLite or in PostgreSQL."""
    if request.param == "postgresql":
        server: Server = request.getfixturevalue("postgres")
        monkeypatch.setenv("LONGFORM_WORK", server.database())
    return tmp_path


async def taken(database: Database, of: Round, who: str) -> Assignment | None:
    """The assignment that an annotator gets."""
    name = await assignment.next_task(database, of, who)
    return None if name is None else await assignment.found(database, name, who)


async def submitted(database: Database, mine: Assignment, who: str, number: str = "1") -> str:
    return await assignment.submit(database, mine.id, who, VALUES, 3.0, f"{mine.id}{number}")


async def end_leases(database: Database) -> None:
    async with database.writing() as connection:
        await connection.execute(update(ASSIGNMENTS).values(lease_until=1))


async def round_in(database: Database, round_id: str) -> Round:
    of = await rounds.round_of(database, round_id)
    assert of
    return of


@pytest.mark.parametrize("overlap", [1, 2])
def test_twenty_annotators_at_once_never_get_more_than_the_overlap_of_a_task(home: Path, overlap: int) -> None:
    round_id = open_round(home, sheets(15), overlap=overlap)

    async def work() -> list[tuple[int, str]]:
        async with opened(home) as database:
            of = await round_in(database, round_id)

            async def one(who: str) -> list[tuple[int, str]]:
                done = []
                while mine := await taken(database, of, who):
                    assert await submitted(database, mine, who) == "submitted"
                    done.append((mine.position, who))
                return done

            return [pair for done in await asyncio.gather(*(one(f"w{n}") for n in range(20))) for pair in done]

    done = asyncio.run(work())
    assert Counter(position for position, _ in done) == dict.fromkeys(range(1, 16), overlap)
    assert len(set(done)) == len(done)


def test_an_open_task_is_given_again_to_its_annotator_and_to_nobody_else_until_its_lease_ends(home: Path) -> None:
    round_id = open_round(home, sheets(1))

    async def work() -> None:
        async with opened(home) as database:
            of = await round_in(database, round_id)
            mine = await taken(database, of, "ann")
            assert mine
            assert await assignment.save_draft(database, mine.id, "ann", [("task.remark", "so far")], 2.0, "s1")
            again = await taken(database, of, "ann")
            assert again
            assert (again.id, again.draft) == (mine.id, [("task.remark", "so far")])
            assert await taken(database, of, "bob") is None
            await end_leases(database)
            bobs = await taken(database, of, "bob")
            assert bobs
            assert await submitted(database, mine, "ann") == "taken"
            assert not await assignment.save_draft(database, mine.id, "ann", [("task.remark", "more")], 2.0, "s1")
            kept = await assignment.found(database, mine.id, "ann")
            assert kept
            assert (kept.lost, kept.draft) == (True, [("task.remark", "more")])
            assert await submitted(database, bobs, "bob") == "submitted"

    asyncio.run(work())


def test_a_lease_that_ended_counts_for_nothing_as_long_as_nobody_takes_the_place(home: Path) -> None:
    round_id = open_round(home, sheets(1))

    async def work() -> None:
        async with opened(home) as database:
            mine = await taken(database, await round_in(database, round_id), "ann")
            await end_leases(database)
            assert mine
            assert await submitted(database, mine, "ann") == "submitted"

    asyncio.run(work())


def test_a_skipped_task_goes_to_others_and_may_be_come_back_to(home: Path) -> None:
    round_id = open_round(home, sheets(1))

    async def work() -> None:
        async with opened(home) as database:
            of = await round_in(database, round_id)
            mine = await taken(database, of, "ann")
            assert mine
            await assignment.skip(database, mine.id, "ann", [("task.remark", "hm")], 1.0)
            assert await taken(database, of, "ann") is None
            assert await submitted(database, mine, "ann") == "submitted"
            assert await taken(database, of, "bob") is None

    asyncio.run(work())


def test_a_task_meant_for_somebody_here_waits_for_them(home: Path) -> None:
    of_ann = sheets(2)
    of_ann.tasks[:] = [task.__class__(task.id, task.texts, task.items, task.context, "e7") for task in of_ann.tasks[:1]]
    round_id = open_round(home, of_ann)

    async def work(who: str) -> Assignment | None:
        async with opened(home) as database:
            return await taken(database, await round_in(database, round_id), who)

    add_account(home, "ann", "expert", "e7")
    assert asyncio.run(work("bob")) is None
    assert asyncio.run(work("e7"))


def test_a_task_about_somebodys_own_work_never_goes_to_them(home: Path) -> None:
    made = sheets(2)
    mixed = [replace(task, not_for=who) for task, who in zip(made.tasks, ("ann", None), strict=True)]
    round_id = open_round(home, replace(made, tasks=mixed))

    async def work() -> None:
        async with opened(home) as database:
            of = await round_in(database, round_id)
            mine = await taken(database, of, "ann")
            assert mine
            assert mine.task.not_for is None
            assert await submitted(database, mine, "ann") == "submitted"
            assert await taken(database, of, "ann") is None
            other = await taken(database, of, "bob")
            assert other
            assert other.task.not_for == "ann"

    asyncio.run(work())


def test_nothing_of_a_closed_round_is_given_out_or_taken(home: Path) -> None:
    round_id = open_round(home, sheets(2))

    async def work() -> None:
        async with opened(home) as database:
            of = await round_in(database, round_id)
            mine = await taken(database, of, "ann")
            await rounds.set_open(database, round_id, False)
            assert mine
            assert await submitted(database, mine, "ann") == "closed"
            assert await taken(database, of, "bob") is None

    asyncio.run(work())


def test_a_changed_annotation_counts_as_last_submitted_and_a_late_draft_of_it_does_not(home: Path) -> None:
    round_id = open_round(home, sheets(1))

    async def work() -> list[exchange.Annotation]:
        async with opened(home) as database:
            mine = await taken(database, await round_in(database, round_id), "ann")
            assert mine
            await submitted(database, mine, "ann")
            changed = {**VALUES, ("", "usefulness"): "Not useful"}
            await assignment.submit(database, mine.id, "ann", changed, 5.0, f"{mine.id}2")
            await submitted(database, mine, "ann")  # sent again by a browser
            await assignment.save_draft(database, mine.id, "ann", [("task.remark", "late")], 5.0, f"{mine.id}2")
            kept = await assignment.found(database, mine.id, "ann")
            assert kept
            assert kept.draft is None
            return await exchange.submitted(database, round_id)

    (found,) = asyncio.run(work())
    assert found.entries == {**VALUES, ("", "usefulness"): "Not useful"}


def test_further_rounds_of_a_form_are_told_apart_by_their_number(home: Path) -> None:
    ids = [open_round(home, sheets(3), seed=seed) for seed in range(3)]
    other = open_round(home, pairs(2))

    async def titles() -> dict[str, str]:
        async with opened(home) as database:
            listed = {of.id: of.title for of in await rounds.rounds(database)}
            assert {name: (await round_in(database, name)).title for name in listed} == listed
            return listed

    found = asyncio.run(titles())
    first = found[ids[0]]
    assert [found[name] for name in ids[1:]] == [f"{first} · round 2", f"{first} · round 3"]
    assert "round" not in found[other]
