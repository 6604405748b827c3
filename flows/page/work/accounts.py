"""Accounts: adding, listing, disabling, new passwords. Rows never hold an account's name, but its pseudonym."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Literal, get_args

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from flows.page.work.database import Database, now
from flows.page.work.passwords import checked, hashed
from flows.page.work.tables import ACCOUNTS, SESSIONS
from longform.errors import UsageError
from longform.hints import hint
from tasks.annotation.form import ROLES, Role
from tasks.annotation.values import Unfit, annotator_name

AccountRole = Role | Literal["administrator"]
ADMINISTRATOR = "administrator"
ALL_ROLES: tuple[str, ...] = (*ROLES, *get_args(Literal["administrator"]))


def name_of(text: str) -> str:
    """The name of an account as it is stored: without blanks at its ends, in lower case. UsageError if it is empty,
    longer than 64 characters, or has unprintable ones.
    """
    name = text.strip().casefold()
    if not name or len(name) > 64 or not name.isprintable():
        raise UsageError(f"{text!r} is no name of an account: give 1 to 64 printable characters.")
    return name


async def add(database: Database, name: str, role: str, password: str, pseudonym: str | None = None) -> str:
    """Add an account and return its pseudonym: the given one, else a random one. UsageError for an unknown role, an
    unfit name, password or pseudonym, and where name or pseudonym are taken.
    """
    if role not in ALL_ROLES:
        raise UsageError(f'There is no role "{role}"; {hint(role, ALL_ROLES, "there is")}')
    try:
        account_id = annotator_name(pseudonym or f"p{secrets.token_hex(4)}", {})
    except Unfit as error:
        raise UsageError(f"{pseudonym!r} is no pseudonym: give {error.detail or 'one'}.") from None
    row = {"account_id": account_id, "name": name_of(name), "role": role, "created_at": now(), "disabled": False}
    try:
        async with database.writing() as connection:
            await connection.execute(insert(ACCOUNTS).values(**row, password_hash=hashed(checked(password))))
    except IntegrityError:
        raise UsageError(f"An account {name_of(name)}, or the pseudonym {account_id}, is there already.") from None
    return account_id


async def listed(database: Database) -> Sequence[Any]:
    """The accounts by name, each with account_id, name, role, disabled and created_at."""
    columns = [column for column in ACCOUNTS.c if column.name != "password_hash"]
    async with database.reading() as connection:
        return (await connection.execute(select(*columns).order_by(ACCOUNTS.c.name))).all()


async def change(database: Database, name: str, **values: Any) -> None:
    """Change an account, and end its sessions. UsageError if there is none of this name."""
    async with database.writing() as connection:
        found = select(ACCOUNTS.c.account_id).where(ACCOUNTS.c.name == name_of(name))
        account_id = (await connection.execute(found)).scalar()
        if account_id is None:
            names = (await connection.execute(select(ACCOUNTS.c.name))).scalars()
            raise UsageError(f'There is no account "{name}"; {hint(name, names, "there is")}')
        await connection.execute(update(ACCOUNTS).where(ACCOUNTS.c.account_id == account_id).values(**values))
        await connection.execute(delete(SESSIONS).where(SESSIONS.c.account_id == account_id))


async def set_password(database: Database, name: str, password: str) -> None:
    """Give an account a new password. UsageError as for `add` and `change`."""
    await change(database, name, password_hash=hashed(checked(password)))
