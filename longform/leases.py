"""Locks for processes of several machines that share a folder: leases, each with an owner and an end.

    <folder>/<number>/owner.json       who holds the lease, and for how many seconds after its last renewal (mtime)
                     /released.json    the same file, renamed when the owner released the lease

The highest number is the current lease. Its folder appears whole, by renaming, at which only one process can succeed;
lower numbers are then deleted. So an owner that slept, wakes up and finds a higher number has lost its lease and must
stop.

On one machine a lease ends at once when its owner dies: the operating system releases the lock on `owner.json`. Such
locks are not trusted between machines, nor are their clocks. There a lease counts as ended when the time of its file
lags three quarters of its seconds behind that of a file written now, and does not change for another quarter. Owners
renew their lease six times in its seconds.
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
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path

from longform.machines import is_alive, temporary, this_machine

SECONDS = 60.0
RENEWALS = 6
POLL_SECONDS = 0.05
HELD, RELEASED = "owner.json", "released.json"


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a lease: machine (as `this_machine` names it), host and process, and for how many seconds the lease
    lasts after each renewal.
    """

    machine: str
    host: str
    process: int
    seconds: float

    def __str__(self) -> str:
        """`process 4711 on host`; `another process` if the process is unknown (0)."""
        return f"process {self.process} on {self.host}" if self.process else "another process"


@dataclass(frozen=True, slots=True)
class FoundLease:
    """A lease as it was read from disk: its number, its owner, and its last renewal (`renewed`, seconds since 1970 by
    the file system's clock).
    """

    number: int
    owner: Owner
    renewed: float

    def described(self, machine: str, now: float) -> str:
        """The owner in words, as seen from `machine`; if the owner is on another machine, also when its lease ends
        unless it is renewed. `now`: seconds since 1970 by the file system's clock.
        """
        if self.owner.machine == machine:
            return str(self.owner)
        ends = datetime.now() + timedelta(seconds=max(0.0, self.owner.seconds - (now - self.renewed)))
        return f"{self.owner} (until {ends:%H:%M:%S} at the latest, unless it is renewed)"


class Lease:
    """One process's handle of the lease of a folder: `take` gets the lease, `taken_by` tells whether it was lost,
    `give_back` releases it. `seconds`: how long the lease lasts after each renewal. `machine` and `seconds` are
    parameters for tests, which simulate a second machine.

    OSError if the folder cannot be read or, in `take`, cannot be written.
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
        """Take the lease and return None. If another process holds it, try again until `patience_seconds` have passed,
        then return in words who holds it.

        On success the lease is renewed in a background thread, and `before` is the previous owner if that one never
        released the lease, else None. An owner on another machine that seems dead is watched first, so this may take a
        quarter of a lease's seconds.
        """
        deadline = time.monotonic() + patience_seconds
        while (holder := self._try()) is not None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return holder

    def _try(self) -> str | None:
        """One attempt to take the lease: None if it succeeded, else the holder in words. On success `before` is set
        and the thread that renews the lease is started.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        while True:
            number = highest_number(self.folder)
            current = read_lease(self.folder, number)
            if current and self._is_held(current):
                reread = read_lease(self.folder, highest_number(self.folder))
                if reread and reread.number == number:
                    return reread.described(self.machine, clock_of(self.folder))
            elif self._claim(number + 1, current):
                self.before = current.owner if current else None
                self._thread = threading.Thread(target=self._keep, name=f"lease {self.folder.name}", daemon=True)
                self._thread.start()
                return None

    def taken_by(self, within_seconds: float = 0.0) -> str | None:
        """In words who took the lease over from this process; None while this process still holds it. `another
        process` if that one's name cannot be read.

        Renews the lease and checks the folder, unless it was renewed in the last `within_seconds`: then None at once.
        """
        if seconds_since_boot() - self._renewed < within_seconds:
            return None
        number = self._renew()
        if number == self._number:
            return None
        current = read_lease(self.folder, number) or read_lease(self.folder, number, RELEASED)
        return str(current.owner) if current else "another process"

    def give_back(self) -> None:
        """Release the lease and end its renewal; nothing is released if the lease was lost to another process. To be
        called once, and only after a `take` that succeeded.
        """
        self._ended.set()
        if self._thread:
            self._thread.join()
        place = self.folder / str(self._number)
        with suppress(OSError):
            (place / HELD).rename(place / RELEASED)
        with suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_UN)  # also where a child has the file open
        os.close(self._file)

    def _is_held(self, current: FoundLease) -> bool:
        """Whether the lease's owner is alive: on this machine by its process and its lock; on another by its renewals,
        for which this may wait a quarter of the lease's seconds. A lease that changes meanwhile counts as held.
        """
        if current.owner.machine == self.machine:
            return is_alive(current.owner.process) and _is_locked(self.folder / str(current.number) / HELD)
        if is_fresh(current, clock_of(self.folder)):
            return True
        end = time.monotonic() + current.owner.seconds / 4
        while time.monotonic() < end:
            time.sleep(min(1.0, current.owner.seconds / 40))
            if read_lease(self.folder, highest_number(self.folder)) != current:
                return True
        return False

    def _claim(self, number: int, before: FoundLease | None) -> bool:
        """Try to take the lease under a new number, and delete older leases; False if another process was faster.
        `before`: the lease found under the number before it, None if there was none.

        An owner first renews, then looks for a higher number. This does it the other way round, so that of two
        processes that compete at least one sees both.
        """
        folder, unfinished = self.folder / str(number), self.folder / temporary(self.machine)
        with ExitStack() as undoing:
            undoing.callback(shutil.rmtree, unfinished, ignore_errors=True)
            unfinished.mkdir()
            file = os.open(unfinished / HELD, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
            undoing.callback(os.close, file)
            with suppress(OSError):  # where the file system has no locks
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            owner = Owner(self.machine, socket.gethostname(), os.getpid(), self.seconds)
            os.write(file, json.dumps(asdict(owner)).encode())
            os.fsync(file)
            started = seconds_since_boot()
            try:
                unfinished.rename(folder)
            except OSError as error:
                if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                    return False
                raise
            if highest_number(self.folder) != number or read_lease(self.folder, number - 1) != before:
                undoing.callback(shutil.rmtree, folder, ignore_errors=True)
                return False
            undoing.pop_all()
        self._file, self._number, self._renewed = file, number, started
        for older in _numbers(self.folder):
            if older < number:
                shutil.rmtree(self.folder / str(older), ignore_errors=True)
        return True

    def _keep(self) -> None:
        """Renew the lease RENEWALS times in its seconds, until it is released; runs in a background thread. Errors are
        ignored.
        """
        while not self._ended.wait(self.seconds / RENEWALS):
            with suppress(OSError):
                self._renew()

    def _renew(self) -> int:
        """Set the lease file's time to now, which needs no disk space, and return the lease number that is now the
        highest: another than this lease's own if the lease was lost.
        """
        started = seconds_since_boot()
        with suppress(OSError):
            os.utime(self._file)  # by the clock of the server, where the file system is one of the network
            clock_of(self.folder)  # such a file system looks again at a folder that it has just changed
        number = highest_number(self.folder)
        if number == self._number:
            self._renewed = started
        return number


def seconds_since_boot() -> float:
    """Seconds of a clock that keeps running while the machine sleeps (CLOCK_BOOTTIME)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def highest_number(folder: Path) -> int:
    """The number of the current lease in a folder, the highest one; 0 if there is none."""
    return max(_numbers(folder), default=0)


def _numbers(folder: Path) -> list[int]:
    """The numbers of all leases in a folder, in no order; empty if there is no folder."""
    try:
        return [int(name) for name in os.listdir(folder) if name.isascii() and name.isdigit()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def read_lease(folder: Path, number: int, name: str = HELD) -> FoundLease | None:
    """The lease with this number in a folder; None if its file does not exist. `name`: the file of a held or of a
    released lease. A damaged file gives an owner with empty names, process 0 and SECONDS.
    """
    try:
        with (folder / str(number) / name).open("rb") as file:  # opening asks a server of the network again
            content, renewed = file.read(), os.fstat(file.fileno()).st_mtime
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        owner = Owner(**json.loads(content))
    except (ValueError, TypeError):
        owner = Owner("", "", 0, SECONDS)
    return FoundLease(number, owner, renewed)


def is_fresh(lease: FoundLease, now: float) -> bool:
    """Whether a lease was renewed within three quarters of its seconds before `now` (seconds since 1970 by the file
    system's clock). A renewal that lies at least as far in the future counts as old.
    """
    return abs(now - lease.renewed) < 0.75 * lease.owner.seconds


def holders(parent: Path) -> Iterator[FoundLease]:
    """The leases in the subfolders of `parent`, one lock each, that were renewed lately (`is_fresh`), on whichever
    machine, in the order of the folders' names; nothing if there is no such folder.
    """
    folders = sorted(parent.iterdir()) if parent.is_dir() else []
    now = clock_of(parent) if folders else 0.0
    for folder in folders:
        lease = read_lease(folder, highest_number(folder)) if folder.is_dir() else None
        if lease and is_fresh(lease, now):
            yield lease


def holder_elsewhere(folder: Path, machine: str | None = None) -> str | None:
    """In words who on another machine than `machine` (None: this one) holds the lease of a folder and renewed it
    lately (`is_fresh`); None if nobody does.
    """
    lease = read_lease(folder, highest_number(folder))
    machine = machine or this_machine()
    if lease is None or lease.owner.machine == machine:
        return None
    now = clock_of(folder)
    return lease.described(machine, now) if is_fresh(lease, now) else None


def clock_of(folder: Path) -> float:
    """The current time, in seconds since 1970, by the clock of the folder's file system, read from a file that is
    written for this and deleted; by this machine's clock if the folder cannot be written.
    """
    probe = folder / temporary()
    try:
        with probe.open("xb") as file:
            os.utime(file.fileno())
            now = os.fstat(file.fileno()).st_mtime
        probe.unlink(missing_ok=True)
        return now
    except OSError:
        return time.time()


def _is_locked(path: Path) -> bool:
    """Whether a lease file carries its owner's lock (flock); True also if the file system cannot tell, False if there
    is no file.
    """
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
