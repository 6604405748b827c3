"""Locks for processes of several machines that share a folder: leases with an owner and an end.

    <folder>/<number>/owner.json       who holds it, and for how many seconds after it was last renewed (its time)
                     /released.json    the same, given back

The highest number counts; its folder appears whole, by renaming, which only one process can do, and the one before
goes when there is a higher one. So who holds a lease, slept, and finds a higher number, has lost it and must stop.

On one machine the owner's death ends a lease at once: an operating-system lock on `owner.json` tells. Such locks are
not trusted between machines, nor are their clocks: there a lease has ended when its file's time lags three quarters
of its seconds behind that of a file written now, and then stays as it is for another quarter. It is renewed six times
in its seconds.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path

from longform.machines import lives, temporary, this_machine

SECONDS = 60.0
RENEWALS = 6
POLL_SECONDS = 0.05
HELD, RELEASED = "owner.json", "released.json"


@dataclass(frozen=True, slots=True)
class Owner:
    machine: str
    host: str
    process: int
    seconds: float

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}" if self.process else "another process"


@dataclass(frozen=True, slots=True)
class Seen:
    """A lease as somebody found it: its number, its owner, and the time of its file by the file system's clock."""

    number: int
    owner: Owner
    renewed: float

    def described(self, machine: str, now: float) -> str:
        """The owner, and of one on another machine when its lease ends unless it is renewed."""
        if self.owner.machine == machine:
            return str(self.owner)
        ends = datetime.now() + timedelta(seconds=max(0.0, self.owner.seconds - (now - self.renewed)))
        return f"{self.owner} (until {ends:%H:%M:%S} at the latest, unless it is renewed)"


class Lease:
    """One process's way to a lease. `machine` and `seconds` are arguments for tests, which need a second machine soon.

    Methods raise OSError where the folder cannot be written.
    """

    def __init__(self, folder: Path, *, machine: str | None = None, seconds: float = SECONDS) -> None:
        self.folder, self.machine, self.seconds = folder, machine or this_machine(), seconds
        self.before: Owner | None = None
        self._number = 0
        self._file = -1
        self._renewed = 0.0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, patience_seconds: float = 0.0) -> str | None:
        """None, and the lease is held; or in words who holds it. `before` is then the owner that did not give it back.

        An owner on another machine who seems dead is watched for a while, so this may take a quarter of a lease.
        """
        deadline = time.monotonic() + patience_seconds
        while (holder := self._try()) is not None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return holder

    def _try(self) -> str | None:
        self.folder.mkdir(parents=True, exist_ok=True)
        while True:
            number = top(self.folder)
            there = seen(self.folder, number)
            if there and self._is_held(there):
                now = seen(self.folder, top(self.folder))
                if now and now.number == number:
                    return now.described(self.machine, clock_of(self.folder))
            elif self._claim(number + 1, there):
                self.before = there.owner if there else None
                self._thread = threading.Thread(target=self._keep, name=f"lease {self.folder.name}", daemon=True)
                self._thread.start()
                return None

    def taken_by(self, within_seconds: float = 0.0) -> str | None:
        """In words who took the lease from its holder, or None: it is still held.

        Renews it, and looks at the folder, unless it was renewed within so many seconds.
        """
        if awake() - self._renewed < within_seconds:
            return None
        number = self._renew()
        if number == self._number:
            return None
        there = seen(self.folder, number) or seen(self.folder, number, RELEASED)
        return str(there.owner) if there else "another process"

    def give_back(self) -> None:
        """Free the lease; nothing where it was lost."""
        self._ended.set()
        if self._thread:
            self._thread.join()
        place = self.folder / str(self._number)
        with suppress(OSError):
            (place / HELD).rename(place / RELEASED)
        with suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_UN)  # also where a child has the file open
        os.close(self._file)

    def _is_held(self, there: Seen) -> bool:
        if there.owner.machine == self.machine:
            return lives(there.owner.process) and _is_locked(self.folder / str(there.number) / HELD)
        if is_fresh(there, clock_of(self.folder)):
            return True
        return self._changes(there, there.owner.seconds / 4)

    def _changes(self, there: Seen, seconds: float) -> bool:
        """Whether the lease is renewed or changes hands in so many seconds of this machine's clock."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(min(1.0, seconds / 10))
            if seen(self.folder, top(self.folder)) != there:
                return True
        return False

    def _claim(self, number: int, before: Seen | None) -> bool:
        """Whether the lease of this number is ours now; it is not where others were quicker.

        An owner renews, then looks for a higher number; here it is the other way round, so that one of two sees both.
        """
        place, beside = self.folder / str(number), self.folder / temporary(self.machine)
        beside.mkdir()
        try:
            self._file = _written(beside / HELD, Owner(self.machine, socket.gethostname(), os.getpid(), self.seconds))
            begun = awake()
            beside.rename(place)
        except OSError as error:
            self._drop(beside)
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                return False
            raise
        if top(self.folder) != number or seen(self.folder, number - 1) != before:
            self._drop(place)
            return False
        self._number, self._renewed = number, begun
        for older in _numbers(self.folder):
            if older < number:
                shutil.rmtree(self.folder / str(older), ignore_errors=True)
        return True

    def _drop(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _keep(self) -> None:
        while not self._ended.wait(self.seconds / RENEWALS):
            with suppress(OSError):
                self._renew()

    def _renew(self) -> int:
        """Give the file the time of now, which needs no space on a full disk; the number that counts."""
        begun = awake()
        with suppress(OSError):
            os.utime(self._file)  # by the clock of the server, where the file system is one of the network
            clock_of(self.folder)  # such a file system looks again at a folder that it has just changed
        number = top(self.folder)
        if number == self._number:
            self._renewed = begun
        return number


def awake() -> float:
    """Seconds of a clock that also runs while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def top(folder: Path) -> int:
    """The number that counts; 0 where nobody ever held the lease."""
    return max(_numbers(folder), default=0)


def _numbers(folder: Path) -> list[int]:
    try:
        return [int(name) for name in os.listdir(folder) if name.isascii() and name.isdigit()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def seen(folder: Path, number: int, name: str = HELD) -> Seen | None:
    """What stands there; None where nobody holds it. A damaged file is of nobody known."""
    try:
        with (folder / str(number) / name).open("rb") as file:  # opening asks a server of the network again
            content, renewed = file.read(), os.fstat(file.fileno()).st_mtime
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        owner = Owner(**json.loads(content))
    except (ValueError, TypeError):
        owner = Owner("", "", 0, SECONDS)
    return Seen(number, owner, renewed)


def is_fresh(there: Seen, now: float) -> bool:
    """Whether the owner seems alive at `now` of the file system's clock; a time to come tells as little as the past."""
    return abs(now - there.renewed) < 0.75 * there.owner.seconds


def holders(folder: Path) -> Iterator[Seen]:
    """The leases in this folder's folders that seem to be held by somebody alive, on whichever machine."""
    places = sorted(folder.iterdir()) if folder.is_dir() else []
    now = clock_to_read(folder) if places else 0.0
    for place in places:
        there = seen(place, top(place)) if place.is_dir() else None
        if there and is_fresh(there, now):
            yield there


def holder_elsewhere(folder: Path, machine: str | None = None) -> str | None:
    """In words who on another machine holds this lease and seems alive; None where nobody does."""
    there = seen(folder, top(folder))
    machine = machine or this_machine()
    if there is None or there.owner.machine == machine:
        return None
    now = clock_to_read(folder)
    return there.described(machine, now) if is_fresh(there, now) else None


def clock_of(folder: Path) -> float:
    """The time of the folder's file system: that of a file written now."""
    probe = folder / temporary()
    with probe.open("xb") as file:
        os.utime(file.fileno())
        now = os.fstat(file.fileno()).st_mtime
    probe.unlink(missing_ok=True)
    return now


def clock_to_read(folder: Path) -> float:
    """The same, or this machine's time where the folder may only be read."""
    try:
        return clock_of(folder)
    except OSError:
        return time.time()


def _written(path: Path, owner: Owner) -> int:
    """The open file of a new lease, locked for this process where the file system can do that."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(file, json.dumps(asdict(owner)).encode())
        os.fsync(file)
    except BaseException:
        os.close(file)
        raise
    return file


def _is_locked(path: Path) -> bool:
    """Whether its owner's lock is on it; also where nobody can say."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
