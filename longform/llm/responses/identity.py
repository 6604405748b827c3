"""Which response store a home used, and how much was in it: so that an emptied, older or other one is noticed before
answers that were paid for are bought again.

    <home>/llm/store.json     {"id": "...", "records": 33, "purged": 0, "lines": 35, "named": "The response store ..."}

Purged records count on, so that the numbers only grow, also where several homes use one store.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from longform.errors import StoreError
from longform.files import read_json, remove, write_json
from longform.llm.responses.records import Holdings

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 30.0
FORGET = "run `longform responses forget` to go on with this one, which may buy answers again"


class Held(Protocol):
    """A database that says what it holds."""

    named: str

    def holdings(self, *, patient: bool = False) -> Holdings:
        """What the database holds; `patient`: it is waited for."""


class Memory:
    """What a home remembers of its response store, in a file. StoreError where that is damaged."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known, self._named = _read(self._path)
        self._next, self._pause = 0.0, FIRST_PAUSE_SECONDS
        self._noting: threading.Thread | None = None

    def check_file(self, path: Path, named: str) -> None:
        """Raise StoreError where the file of a store is missing or empty although this home remembers a store with
        answers: before a new one is made in its place.
        """
        if self._known and _held(self._known) and not (path.exists() and path.stat().st_size):
            raise self._refusal(named, "empty" if path.exists() else "gone")

    def check(self, database: Held) -> None:
        """Raise StoreError where the database is another one than this home remembers, or holds less."""
        known, found = self._known, database.holdings(patient=True)
        if known is None or not _held(known):
            return
        if found.id != known.id:
            raise self._refusal(database.named, "another one" if _held(found) else "empty")
        if found.records + found.purged < known.records + known.purged or found.lines < known.lines:
            raise StoreError(
                f"{database.named} held {_amount(known)}, and holds {_amount(found)} now, as an older copy would: "
                f"restore the newer one, or {FORGET}."
            )

    def _refusal(self, named: str, state: str) -> StoreError:
        """The StoreError for a store of this name that is not the one remembered, but `state`."""
        assert self._known
        if self._named == named:
            return StoreError(f"{named} held {_amount(self._known)} and is now {state}: restore it, or {FORGET}.")
        used = f"{self._named[:1].lower()}{self._named[1:]} held {_amount(self._known)}"
        return StoreError(f"{named} is not the one that this home used: {used}. Use that one, or {FORGET}.")

    def note(self, database: Held, *, patient: bool = True) -> None:
        """Remember what the database holds. StoreError where that cannot be written or the database does not say, for
        which it is waited for if `patient`.
        """
        found = database.holdings(patient=patient)
        if found != self._known or database.named != self._named:
            write_json(self._path, {**asdict(found), "named": database.named})
            self._known, self._named = found, database.named

    def note_now_and_then(self, database: Held) -> None:
        """`note` in a thread, without its errors, unless that was done in the last seconds: up to LONGEST_PAUSE_SECONDS
        of them in a long run. To be called from any thread.
        """
        now = time.monotonic()
        if now < self._next or (self._noting and self._noting.is_alive()):
            return
        self._next, self._pause = now + self._pause, min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        self._noting = threading.Thread(target=self._note_quietly, args=[database], name="store.json", daemon=True)
        self._noting.start()

    def _note_quietly(self, database: Held) -> None:
        with suppress(StoreError):
            self.note(database, patient=False)

    def end(self, database: Held) -> None:
        """Remember what the database holds before it is closed, if it says so and that can be written."""
        self._next = float("inf")
        if self._noting:
            self._noting.join()
        self._note_quietly(database)


def forget(path: Path) -> bool:
    """Delete what a home remembers of its store in this file; whether there was anything."""
    there = path.exists()
    remove(path)
    return there


def _read(path: Path) -> tuple[Holdings | None, str]:
    """(what is remembered or None, the name of the store in messages)."""
    document: Any = read_json(path)
    if document is None:
        return None, ""
    try:
        known = Holdings(str(document["id"]), *(int(document[name]) for name in ("records", "purged", "lines")))
        return known, str(document["named"])
    except (KeyError, TypeError, ValueError):
        raise StoreError(f"{path} is damaged: run `longform responses forget`, which deletes it.") from None


def _held(holdings: Holdings) -> bool:
    """Whether there is, or was, anything in a store."""
    return bool(holdings.records or holdings.purged or holdings.lines)


def _amount(holdings: Holdings) -> str:
    return f"{holdings.records:,} answers and {holdings.lines:,} lines of the ledger"
