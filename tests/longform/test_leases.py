"""Leases: one holder at a time, on one machine and on several; whoever slept through its end is told.

A second machine is a process of its own with another identity, which then trusts neither process numbers nor locks of
the system. Where a lease must last, it has ten minutes; where it must end, a few seconds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import paths
import pytest

from longform.artifacts.store import Store
from longform.errors import BusyError
from longform.leases import Lease
from longform.machines import this_machine

pytestmark = pytest.mark.check

ROOT = paths.ROOT
LASTING, SHORT = 600.0, 0.5

HOLD = """
import sys
from pathlib import Path
from longform.leases import Lease
folder, machine, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
lease = Lease(folder, machine=machine, seconds=seconds)
print("ready", flush=True)
sys.stdin.readline()
print(lease.take() or "held", flush=True)
sys.stdin.readline()
"""
FORK = """
import os, sys
from pathlib import Path
from longform.leases import Lease
assert Lease(Path(sys.argv[1])).take() is None
if os.fork():
    print("held", flush=True)
sys.stdin.readline()
"""
COUNT = """
import sys
from pathlib import Path
from longform.leases import Lease
folder, machine, seconds, file = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), Path(sys.argv[4])
for _ in range(10):
    lease = Lease(folder, machine=machine, seconds=seconds)
    assert lease.take(patience_seconds=600) is None
    number = int(file.read_text())
    file.write_text(str(number + 1))
    lease.give_back()
"""
PUBLISH = """
import sys
from pathlib import Path
from longform.errors import StoreError
from longform.machines import temporary
from longform.artifacts.store import Store
store = Store(Path(sys.argv[1]), machine=sys.argv[2], lease_seconds=float(sys.argv[3]))
place = store.home / "datasets" / "axioms" / "v1"
with store.lock("axioms"):
    folder = place.with_name(temporary(store.machine))
    folder.mkdir(parents=True)
    print("held", flush=True)
    sys.stdin.readline()
    try:
        if sys.argv[4] == "check":
            store.check_locks()
        folder.rename(place)
        print("published", flush=True)
    except (StoreError, FileNotFoundError) as error:
        print(error, flush=True)
"""


@contextmanager
def process(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as started:
        try:
            yield started
        finally:
            started.kill()


def line_of(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return started.stdout.readline().strip()


def go(started: subprocess.Popen[str]) -> None:
    assert started.stdin is not None
    started.stdin.write("go\n")
    started.stdin.flush()


@contextmanager
def holder(folder: Path, machine: str, seconds: float) -> Iterator[subprocess.Popen[str]]:
    with process(HOLD, folder, machine, seconds) as started:
        assert line_of(started) == "ready"
        go(started)
        assert line_of(started) == "held"
        yield started


# one machine


def test_a_killed_owner_on_this_machine_frees_its_lease_at_once(tmp_path: Path) -> None:
    with holder(tmp_path, this_machine(), LASTING) as other:
        lease = Lease(tmp_path)
        assert str(lease.take()).startswith(f"process {other.pid} on ")
        other.kill()
        other.wait()
        begun = time.monotonic()
        assert lease.take() is None
        assert time.monotonic() - begun < LASTING / 4
        lease.give_back()


def test_a_killed_owner_frees_its_lease_though_its_child_lives_on(tmp_path: Path) -> None:
    """A child has the lock of the system, as it was forked; it ends with its input."""
    with process(FORK, tmp_path) as other:
        assert line_of(other) == "held"
        other.kill()
        other.wait()
        lease = Lease(tmp_path)
        assert lease.take() is None
        lease.give_back()


def test_a_stopped_owner_on_this_machine_keeps_its_lease(tmp_path: Path) -> None:
    with holder(tmp_path, this_machine(), SHORT) as other:
        os.kill(other.pid, signal.SIGSTOP)
        time.sleep(2 * SHORT)
        assert Lease(tmp_path).take() is not None


def test_a_lease_is_had_again_by_the_process_that_gave_it_back(tmp_path: Path) -> None:
    for _ in range(3):
        lease = Lease(tmp_path)
        assert lease.take() is None
        assert Lease(tmp_path).take() is not None
        assert lease.taken_by() is None
        lease.give_back()
    assert len(list(tmp_path.iterdir())) == 1, "older numbers are removed"


# several machines


def test_a_living_owner_on_another_machine_is_named_with_the_end_of_its_lease(tmp_path: Path) -> None:
    with holder(tmp_path, "elsewhere", LASTING) as other:
        begun = time.monotonic()
        said = Lease(tmp_path).take()
        assert time.monotonic() - begun < LASTING / 4, "it is told at once"
        assert said is not None
        assert said.startswith(f"process {other.pid} on ")
        assert said.endswith("at the latest, unless it is renewed)")
        go(other)
        other.wait()


def test_an_owner_that_renews_keeps_its_lease_far_beyond_its_seconds(tmp_path: Path) -> None:
    """Also where its file looks old each time: then it is watched, and seen to change."""
    with holder(tmp_path, "elsewhere", 40.0):
        (file,) = tmp_path.glob("*/owner.json")
        os.utime(file, (0, 0))
        assert Lease(tmp_path).take() is not None


def test_the_lease_of_a_machine_that_died_ends_and_not_before_it_was_watched(tmp_path: Path) -> None:
    with holder(tmp_path, "elsewhere", SHORT) as other:
        other.kill()
        other.wait()
        begun = time.monotonic()
        lease = Lease(tmp_path)
        assert lease.take(patience_seconds=600) is None
        assert time.monotonic() - begun >= SHORT / 4
        assert lease.before is not None
        assert (lease.before.machine, lease.before.process) == ("elsewhere", other.pid)
        lease.give_back()


@pytest.mark.parametrize("ahead", [-3600, 3600])
def test_a_dead_lease_ends_whatever_the_clocks_of_its_machine_said(tmp_path: Path, ahead: float) -> None:
    with holder(tmp_path, "elsewhere", SHORT) as other:
        other.kill()
        other.wait()
        (file,) = tmp_path.glob("*/owner.json")
        os.utime(file, (time.time() + ahead,) * 2)
        lease = Lease(tmp_path)
        assert lease.take(patience_seconds=600) is None
        lease.give_back()


def test_a_damaged_lease_is_somebody_elses_until_it_has_not_changed_for_long(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    file = tmp_path / "7" / "owner.json"
    file.write_bytes(b"")
    assert str(Lease(tmp_path).take()).startswith("another process (until ")
    file.write_text('{"machine": "elsewhere", "host": "h", "process": 1, "seconds": 0.4}')
    lease = Lease(tmp_path)
    assert lease.take(patience_seconds=600) is None
    assert [path.name for path in tmp_path.iterdir()] == ["8"]
    lease.give_back()


@pytest.mark.parametrize("left", ["nothing", "a lease that ended"])
def test_of_twenty_takers_on_as_many_machines_one_wins(tmp_path: Path, left: str) -> None:
    if left != "nothing":
        with holder(tmp_path, "elsewhere", SHORT):
            pass
    takers = [process(HOLD, tmp_path, f"machine{n}", LASTING) for n in range(20)]
    started = [taker.__enter__() for taker in takers]
    try:
        assert [line_of(each) for each in started] == ["ready"] * 20
        time.sleep(SHORT)
        for each in started:
            go(each)
        said = [line_of(each) for each in started]
        winners = [each.pid for each, words in zip(started, said, strict=True) if words == "held"]
        assert len(winners) == 1
        assert sum(words.startswith(f"process {winners[0]} on ") for words in said) == 19
    finally:
        for taker in takers:
            taker.__exit__(None, None, None)


def test_what_is_counted_under_a_lease_is_counted_once(tmp_path: Path) -> None:
    file = tmp_path / "count"
    file.write_text("0")
    counters = [process(COUNT, tmp_path / "lease", f"machine{n % 3}", LASTING, file) for n in range(6)]
    started = [each.__enter__() for each in counters]
    assert [each.wait(600) for each in started] == [0] * 6
    for each in counters:
        each.__exit__(None, None, None)
    assert file.read_text() == "60"


def test_an_owner_that_slept_and_was_replaced_does_not_publish(tmp_path: Path) -> None:
    store = Store(tmp_path, machine="here")
    with process(PUBLISH, tmp_path, "elsewhere", SHORT, "check") as sleeper:
        assert line_of(sleeper) == "held"
        os.kill(sleeper.pid, signal.SIGSTOP)
        with store.lock("axioms", patience_seconds=600):
            os.kill(sleeper.pid, signal.SIGCONT)
            go(sleeper)
            said = line_of(sleeper)
            assert said.startswith(f"The lock of axioms in {tmp_path} was taken over by process {os.getpid()} on ")
            assert said.endswith("nothing was published, wait for that one and run again.")
            assert sleeper.wait(600) == 0
            store.check_locks()
            with pytest.raises(BusyError):
                Store(tmp_path, machine="a third").lock("axioms").__enter__()
    assert list((tmp_path / "datasets" / "axioms").iterdir()) == []


def test_an_owner_that_slept_between_looking_and_publishing_finds_nothing_to_publish(tmp_path: Path) -> None:
    with process(PUBLISH, tmp_path, "elsewhere", SHORT, "has looked") as sleeper:
        assert line_of(sleeper) == "held"
        os.kill(sleeper.pid, signal.SIGSTOP)
        with Store(tmp_path, machine="here").lock("axioms", patience_seconds=600):
            os.kill(sleeper.pid, signal.SIGCONT)
            go(sleeper)
            assert "No such file" in line_of(sleeper)
    assert not (tmp_path / "datasets" / "axioms" / "v1").exists()
