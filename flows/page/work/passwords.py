"""Argon2 hashes of passwords, made one at a time in a thread, so that log-ins never hold up other requests."""

from __future__ import annotations

from functools import cache

import anyio.to_thread
from anyio import CapacityLimiter
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from longform.errors import UsageError

SHORTEST, LONGEST = 10, 200
HASHER = PasswordHasher(parallelism=1)


class Passwords:
    """Checks passwords for one event loop. `waiting`: how many log-ins wait for their turn."""

    def __init__(self) -> None:
        self._turn = CapacityLimiter(1)

    @property
    def waiting(self) -> int:
        return self._turn.statistics().tasks_waiting

    async def fits(self, password: str, hashed: str | None) -> bool:
        """Whether a password is the one that was hashed; False, after as long a time, for no hash."""
        return await anyio.to_thread.run_sync(fits, password, hashed, limiter=self._turn)


def checked(password: str) -> str:
    """The password unchanged; UsageError if it is shorter than SHORTEST or longer than LONGEST characters."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise UsageError(f"The password has {len(password)} characters: give one of {SHORTEST} to {LONGEST}.")
    return password


def hashed(password: str) -> str:
    """The Argon2 hash of a password."""
    return HASHER.hash(password)


def fits(password: str, hashed: str | None) -> bool:
    """Whether a password is the one that was hashed; False, after as long a time, for no hash."""
    try:
        return HASHER.verify(hashed or _of_nobody(), password[: LONGEST + 1]) and hashed is not None
    except (VerificationError, InvalidHashError):
        return False


@cache
def _of_nobody() -> str:
    return HASHER.hash("of nobody")
