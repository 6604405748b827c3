"""Kill -9 at any moment: the next run finishes, keeps what was finished, and the result is the same to the byte."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import paths
import psutil
import pytest
from axioms_builds import build_axioms
from processes import gone, started, wait_for
from two_sites import contents, dumps_of, parts, stamps

from longform.artifacts.store import Part, Store
from longform.artifacts.versions import find, problems
from longform.engine.jobs import Job
from longform.engine.runners import attempt

pytestmark = pytest.mark.check

ROOT = paths.ROOT
LONGFORM = str(Path(sys.executable).with_name("longform"))

DRIVER = """
import sys
from pathlib import Path
from tests.builds import test_kill
from axioms_builds import build_axioms
from longform.engine.runners import Processes
if __name__ == "__main__":
    build_axioms(Path(sys.argv[1]), dump=sys.argv[2:], runner=Processes(small_bytes=0, make=test_kill.held))
"""


def held(job: Job) -> list[Part] | Exception:
    """A unit of work that, once HELD_AT parts exist, reports its process and waits to be killed."""
    home, most = Path(os.environ["HELD_HOME"]), int(os.environ["HELD_AT"])
    if len(parts(home)) >= most:
        (home / f"held-{os.getpid()}").touch()
        time.sleep(3_600)
    return attempt(job)


def driven(home: Path, dumps: list[str]) -> list[str]:
    """Run a build without Prefect; the entry point of a child process."""
    return [sys.executable, "-c", DRIVER, str(home), *dumps]


def typed(home: Path, dumps: list[str]) -> list[str]:
    """Start a build by its command."""
    return [LONGFORM, "build", "axioms", "--home", str(home), "--version", "v1", "--set", f"dump={json.dumps(dumps)}"]


def start(command: list[str], home: Path, held_at: int = 1_000_000) -> AbstractContextManager[subprocess.Popen[bytes]]:
    environment = {
        **os.environ,
        "PYTHONPATH": paths.PYTHONPATH,
        "PREFECT_HOME": str(home.with_name("prefect")),
        **holding(home, held_at),
    }
    quiet = subprocess.DEVNULL
    return started(command, env=environment, stdout=quiet, stderr=quiet, start_new_session=True)


def end_of(process: AbstractContextManager[subprocess.Popen[bytes]]) -> int:
    """The exit code of a process, once it has ended."""
    with process as running:
        return running.wait()


def holding(home: Path, held_at: int) -> dict[str, str]:
    """The environment variables by which a driven build holds its workers once `held_at` parts exist."""
    return {"PYTHONPATH": paths.PYTHONPATH, "HELD_HOME": str(home), "HELD_AT": str(held_at)}


def killed_after(build: subprocess.Popen[bytes], home: Path, finished: int, delay: float) -> bool:
    """Whether the build was killed, shortly after `finished` parts existed; waits until its processes are gone."""
    wait_for(lambda: len(parts(home)) >= finished or build.poll() is not None, seconds=1_200)
    time.sleep(delay)
    try:
        family = psutil.Process(build.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        family = []
    build.kill()
    build.wait()
    wait_for(lambda: gone(family), seconds=600)
    return build.returncode == -signal.SIGKILL


def survive(home: Path, commands: list[list[str]], expected: Path, seed: int, most_delay: float) -> int:
    """Kill a build by each of the commands at moments spread over it, let one more finish; the number really killed.

    Driven builds cannot end before they are killed. The last one is killed while it publishes.
    """
    rng = random.Random(seed)
    total = len(parts(expected))
    targets = [*sorted(rng.sample(range(total - total // 4), len(commands) - 1)), total]
    kills, kept = 0, {}
    for command, finished in zip(commands, targets, strict=True):
        with start(command, home, finished + 2) as build:
            kills += killed_after(build, home, finished, rng.uniform(0, most_delay))
        now = stamps(home)
        assert {part: now.get(part) for part in kept} == kept
        assert all((version / "manifest.json").exists() for version in home.glob("datasets/*/[!.]*"))
        kept = now
    assert end_of(start(commands[-1], home)) == 0
    after = stamps(home)
    assert {part: after.get(part) for part in kept} == kept
    assert contents(home) == contents(expected)
    return kills


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return dumps_of(tmp_path_factory.mktemp("dumps"), 6)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, dumps: list[str]) -> Path:
    home = tmp_path_factory.mktemp("undisturbed") / "home"
    build_axioms(home, dump=dumps)
    return home


def test_a_build_that_is_killed_again_and_again_ends_as_if_it_had_not_been(
    undisturbed: Path, dumps: list[str], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    commands = [driven(home, dumps), driven(home, dumps), typed(home, dumps), driven(home, dumps)]
    assert survive(home, commands, undisturbed, seed=20, most_delay=0.3) >= 2
    assert list(problems(Store(home), find(home, "axioms"))) == []


def test_a_worker_that_is_killed_ends_the_build_with_a_sentence_and_the_next_run_goes_on(
    undisturbed: Path, dumps: list[str], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    environment = {**os.environ, **holding(home, 6)}
    killed: list[psutil.Process] = []
    with started(driven(home, dumps), env=environment, stderr=subprocess.PIPE, text=True) as build:
        wait_for(lambda: any(home.glob("held-*")) or build.poll() is not None)
        kept = stamps(home)
        assert len(kept) >= 6
        while build.poll() is None:  # a stage waits for all its parts, so each worker that is held is killed
            killed += _killed(home)
            time.sleep(0.1)
        _, said = build.communicate(timeout=600)
    assert re.search(r"LostWorker: A worker died while it made \w+ of .*: what was finished is kept; run", said)
    wait_for(lambda: gone(killed), seconds=600)
    build_axioms(home, dump=dumps)
    after = stamps(home)
    assert {part: after.get(part) for part in kept} == kept
    assert contents(home) == contents(undisturbed)


def test_a_worker_that_is_killed_costs_a_typed_build_its_part_which_is_made_again(
    undisturbed: Path, dumps: list[str], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    killed: list[psutil.Process] = []
    with start(typed(home, dumps), home) as build:
        while build.poll() is None and len(killed) < 2:
            for worker in _workers(build.pid)[:1]:
                worker.kill()
                killed.append(worker)
            time.sleep(0.5)
        assert build.wait(timeout=600) == 0
    assert killed
    assert contents(home) == contents(undisturbed)


def _killed(home: Path) -> list[psutil.Process]:
    """Kill the workers that are held."""
    killed = []
    for path in home.glob("held-*"):
        with suppress(psutil.NoSuchProcess):
            worker = psutil.Process(int(path.name.removeprefix("held-")))
            worker.kill()
            killed.append(worker)
        path.unlink()
    return killed


def _workers(build: int) -> list[psutil.Process]:
    """The started worker processes of a build."""
    with suppress(psutil.NoSuchProcess):
        children = psutil.Process(build).children()
        return [each for each in children if "spawn_main" in " ".join(each.cmdline())]
    return []


@pytest.mark.soak
def test_twenty_kills_of_a_build_over_200_megabytes(tmp_path: Path) -> None:
    dumps = dumps_of(tmp_path / "dumps", 200)
    expected, home = tmp_path / "undisturbed" / "home", tmp_path / "killed" / "home"
    for folder in (expected, home):
        folder.parent.mkdir()
    assert end_of(start(typed(expected, dumps), expected)) == 0
    commands = [typed(home, dumps) for _ in range(20)]
    assert survive(home, commands, expected, seed=200, most_delay=3) >= 15
