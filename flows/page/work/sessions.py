"""Log-ins and sessions: throttled, with random tokens of which only hashes are stored, and which expire."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass

from sqlalchemy import delete, func, insert, select, update

from flows.page.work.accounts import ADMINISTRATOR
from flows.page.work.database import Database, now
from flows.page.work.passwords import Passwords
from flows.page.work.tables import ACCOUNTS, FAILED_LOG_INS, SESSIONS

IDLE = 12 * 3_600_000
LONGEST = 7 * 24 * 3_600_000
WINDOW = 15 * 60_000
MOST_OF_ACCOUNT, MOST_OF_ADDRESS = 8, 40
MOST_WAITING = 100


@dataclass(frozen=True, slots=True)
class Account:
    """Who is logged in. `id`: the pseudonym, the only one of these that goes into rows; `csrf`: the token that each of
    the session's forms carries.
    """

    id: str
    name: str
    role: str
    csrf: str

    @property
    def administers(self) -> bool:
        """Whether this is an administrator."""
        return self.role == ADMINISTRATOR


class Throttled(Exception):
    """Raised for a log-in after too many that failed, or while too many wait."""


def csrf_of(token: str) -> str:
    """The token of the forms of a session, from the session's own, which it does not reveal."""
    return hmac.new(token.encode(), b"form", hashlib.sha256).hexdigest()


def hash_of(text: str) -> str:
    """SHA-256 as 64 hex digits."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


async def log_in(database: Database, passwords: Passwords, name: str, password: str, address: str) -> str | None:
    """A new session's token; None if name and password do not fit, or the account is disabled. Throttled after
    MOST_OF_ACCOUNT failures with this name or MOST_OF_ADDRESS from this address in WINDOW.
    """
    name = name.strip().casefold()
    limits = {hash_of(f"name {name}"): MOST_OF_ACCOUNT, hash_of(f"address {address}"): MOST_OF_ADDRESS}
    if passwords.waiting > MOST_WAITING:
        raise Throttled
    await _check_failures(database, limits)
    async with database.reading() as connection:
        found = (await connection.execute(select(ACCOUNTS).where(ACCOUNTS.c.name == name))).one_or_none()
    fits = await passwords.fits(password, found.password_hash if found else None)
    await _check_failures(database, limits)  # of those that were checked meanwhile
    if not (found and fits and not found.disabled):
        await _note_failure(database, list(limits))
        return None
    return await _begin(database, found.account_id, next(iter(limits)))


async def _check_failures(database: Database, limits: dict[str, int]) -> None:
    counted = (
        select(FAILED_LOG_INS.c.subject, func.count())
        .where(FAILED_LOG_INS.c.subject.in_(list(limits)), FAILED_LOG_INS.c.at > now() - WINDOW)
        .group_by(FAILED_LOG_INS.c.subject)
    )
    async with database.reading() as connection:
        failures = (await connection.execute(counted)).all()
    if any(number >= limits[subject] for subject, number in failures):
        raise Throttled


async def _note_failure(database: Database, subjects: list[str]) -> None:
    async with database.writing() as connection:
        await connection.execute(delete(FAILED_LOG_INS).where(FAILED_LOG_INS.c.at < now() - WINDOW))
        await connection.execute(insert(FAILED_LOG_INS), [{"subject": subject, "at": now()} for subject in subjects])


async def _begin(database: Database, account_id: str, subject: str) -> str:
    """A new session's token; the account's failures are forgotten."""
    token, at = secrets.token_urlsafe(32), now()
    row = {"token_hash": hash_of(token), "account_id": account_id, "created_at": at, "expires_at": at + IDLE}
    async with database.writing() as connection:
        await connection.execute(delete(FAILED_LOG_INS).where(FAILED_LOG_INS.c.subject == subject))
        await connection.execute(delete(SESSIONS).where(SESSIONS.c.expires_at < at))
        await connection.execute(insert(SESSIONS).values(**row))
    return token


async def account_of(database: Database, token: str) -> Account | None:
    """Whose session has this token; None if it is unknown or expired, or the account disabled. A session that is used
    lasts IDLE from then on, LONGEST at most.
    """
    at, own = now(), SESSIONS.c.token_hash == hash_of(token)
    query = select(SESSIONS, ACCOUNTS.c.name, ACCOUNTS.c.role).join(ACCOUNTS)
    async with database.reading() as connection:
        found = (
            await connection.execute(query.where(own, SESSIONS.c.expires_at > at, ~ACCOUNTS.c.disabled))
        ).one_or_none()
    if found is None:
        return None
    end = min(at + IDLE, found.created_at + LONGEST)
    if end - found.expires_at > IDLE // 2:
        async with database.writing() as connection:
            await connection.execute(update(SESSIONS).where(own).values(expires_at=end))
    return Account(found.account_id, found.name, found.role, csrf_of(token))


async def log_out(database: Database, token: str) -> None:
    """End the session with this token."""
    async with database.writing() as connection:
        await connection.execute(delete(SESSIONS).where(SESSIONS.c.token_hash == hash_of(token)))
