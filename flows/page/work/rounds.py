"""Rounds: a form of a version that was opened to annotators, with the tasks that were drawn for it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import anyio.to_thread
from pydantic import TypeAdapter
from sqlalchemy import Select, and_, func, insert, select, tuple_, update
from sqlalchemy.exc import IntegrityError

from flows.forms import forms_of, sheets_of
from flows.page.work.database import Database, now
from flows.page.work.tables import ACCOUNTS, ASSIGNMENTS, ROUNDS, TASKS
from flows.registry import DATASETS
from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Row
from longform.artifacts.store import Store
from longform.artifacts.versions import find, versions
from longform.errors import LongformError, UsageError
from tasks.annotation.form import ROLES, Form, Role, Sheets, Task, arranged, draw

OF_FORM = TypeAdapter(Form)
OF_TASK = TypeAdapter(Task)
MOST_OVERLAP = 100
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True, slots=True)
class Round:
    """An opened form, its `form` without `unfit` (see `rule_of`), for this role and those after it. `overlap`: how
    many annotators each task gets; `tasks`: how many tasks there are; `setting`: the dataset's, which names filled-in
    files; `number`: which one it is of the rounds of this form, by the time they were opened, from 1.
    """

    id: str
    dataset: str
    version: str
    form_name: str
    form: Form
    has_rule: bool
    setting: str
    role: Role
    overlap: int
    seed: int
    tasks: int
    open: bool
    created_at: int
    number: int

    @property
    def title(self) -> str:
        """What people call it: the dataset, the form where it has several, and the number of a further round."""
        further = f"round {self.number}" if self.number > 1 else ""
        return " · ".join(filter(None, (self.dataset, self.form_name, further)))

    def is_for(self, role: str) -> bool:
        """Whether accounts of this role work on it."""
        return role in ROLES[ROLES.index(self.role) :]


def choices(home: Path) -> list[tuple[str, str]]:
    """(`DATASET@VERSION form`, without a form for a dataset's only one; the same in words) for each form of each
    version, newest versions first.
    """
    return [
        (f"{dataset}@{version.name} {name}".strip(), " · ".join(filter(None, (dataset, version.name, name))))
        for dataset in DATASETS
        if (own := list(versions(home, dataset))) and (forms := forms_of(dataset))
        for version in reversed(own)
        for name in forms
    ]


def drawn(home: Path, address: str, form_name: str | None, **options: Any) -> tuple[Row, list[Row]]:
    """(row of ROUNDS, rows of TASKS) of a form of a version; `options` as of `handed_out`. UsageError for what is
    unknown, and as there.
    """
    version = find(home, address)
    of = sheets_of(Store(home), version, form_name)
    return handed_out(of, version.dataset, version.name, form_name or "", **options)


def handed_out(
    of: Sheets, dataset: str, version: str, form_name: str, *, overlap: int, most: int | None, seed: int, role: str
) -> tuple[Row, list[Row]]:
    """(row of ROUNDS, rows of TASKS) of these sheets, drawn and arranged by `seed`, at most `most` of each stratum
    (None: as many as the form's sheets have). UsageError for options that do not fit, or if there is no task.
    """
    if role not in ROLES:
        raise UsageError(f'There is no role "{role}" of annotators: there is {", ".join(ROLES)}.')
    if not 1 <= overlap <= MOST_OVERLAP or (most is not None and most < 1):
        raise UsageError(f"Each task goes to 1 to {MOST_OVERLAP} annotators, and at least one task is drawn.")
    tasks = arranged(of.form, draw(of.tasks, most or of.most, seed), seed)
    if not tasks:
        raise UsageError(of.missing)
    round_id = fingerprint([dataset, version, of.form.name, overlap, most, seed, role])[:16]
    row = {
        "round_id": round_id,
        "dataset": dataset,
        "version": version,
        "form_name": form_name,
        "form": json.dumps(asdict(replace(of.form, unfit=None)), ensure_ascii=False),
        "has_rule": of.form.unfit is not None,
        "setting": of.setting,
        "role": role,
        "overlap": overlap,
        "seed": seed,
        "tasks": len(tasks),
        "open": True,
        "created_at": now(),
    }
    return row, [_row(round_id, position, task) for position, task in enumerate(tasks, 1)]


def _row(round_id: str, position: int, task: Task) -> Row:
    document = json.dumps(asdict(task), ensure_ascii=False)
    meant_for = task.annotator
    return {"round_id": round_id, "position": position, "task_id": task.id, "meant_for": meant_for,
            "not_for": task.not_for, "task": document}  # fmt: skip


async def save(database: Database, row: Row, tasks: list[Row]) -> str:
    """Open a round to its annotators and return its id. UsageError if the same one was opened before."""
    try:
        async with database.writing() as connection:
            await connection.execute(insert(ROUNDS).values(**row))
            await connection.execute(insert(TASKS), tasks)
    except IntegrityError:
        raise UsageError(
            f"This form of {row['dataset']} {row['version']} was opened with the same tasks before: choose another "
            "seed or number."
        ) from None
    return str(row["round_id"])


def _rounds() -> Select[Any]:
    """The query for all rounds, each with its number."""
    other = ROUNDS.alias()
    same = and_(other.c.dataset == ROUNDS.c.dataset, other.c.form_name == ROUNDS.c.form_name)
    until = tuple_(other.c.created_at, other.c.round_id) <= tuple_(ROUNDS.c.created_at, ROUNDS.c.round_id)
    return select(ROUNDS, select(func.count()).where(same, until).scalar_subquery().label("number"))


def _round(row: Any) -> Round:
    values = dict(row)
    form = OF_FORM.validate_json(values.pop("form"))
    return Round(id=values.pop("round_id"), form=form, **values)


async def rounds(database: Database) -> list[Round]:
    """All rounds, the newest first."""
    async with database.reading() as connection:
        rows = (await connection.execute(_rounds().order_by(ROUNDS.c.created_at.desc()))).mappings().all()
    return [_round(row) for row in rows]


async def round_of(database: Database, round_id: str) -> Round | None:
    """The round with this id; None if there is none."""
    async with database.reading() as connection:
        row = (await connection.execute(_rounds().where(ROUNDS.c.round_id == round_id))).mappings().one_or_none()
    return None if row is None else _round(row)


async def set_open(database: Database, round_id: str, is_open: bool) -> None:
    """Close a round, so that nobody gets or submits a task of it, or open it again."""
    async with database.writing() as connection:
        await connection.execute(update(ROUNDS).where(ROUNDS.c.round_id == round_id).values(open=is_open))


async def tasks_of(database: Database, round_id: str) -> dict[int, Task]:
    """position -> task of a round."""
    query = select(TASKS.c.position, TASKS.c.task).where(TASKS.c.round_id == round_id).order_by(TASKS.c.position)
    async with database.reading() as connection:
        return {position: OF_TASK.validate_json(task) for position, task in await connection.execute(query)}


async def counts(database: Database, round_id: str) -> Sequence[Any]:
    """For each annotator of a round and each state: annotator_id, name (None if there is no such account), state,
    number, seconds.
    """
    own = ASSIGNMENTS.c
    query = (
        select(own.annotator_id, ACCOUNTS.c.name, own.state, func.count(), func.sum(own.seconds))
        .outerjoin(ACCOUNTS, ACCOUNTS.c.account_id == own.annotator_id)
        .where(own.round_id == round_id)
        .group_by(own.annotator_id, ACCOUNTS.c.name, own.state)
        .order_by(own.annotator_id)
    )
    async with database.reading() as connection:
        return (await connection.execute(query)).all()


Rule = Callable[[Mapping[str, Any]], str | None]


async def rule_of(home: Path, of: Round) -> Rule | None:
    """The rule `unfit` of a round's form; None if it has none, or the version it was opened for is gone. It comes with
    the sheets of that version, which are made once, in a thread.
    """
    if not of.has_rule:
        return None
    return await anyio.to_thread.run_sync(_rule, home, f"{of.dataset}@{of.version}", of.form_name or None)


def _rule(home: Path, address: str, form_name: str | None) -> Rule | None:
    with _ONE_AT_A_TIME:
        return _rule_read(home, address, form_name)


@lru_cache(maxsize=64)
def _rule_read(home: Path, address: str, form_name: str | None) -> Rule | None:
    try:
        return sheets_of(Store(home), find(home, address), form_name).form.unfit
    except LongformError:
        return None
