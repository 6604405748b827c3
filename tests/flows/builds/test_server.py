"""The temporary Prefect server of a build, and a configured one, as real processes."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paths
import psutil
import pytest
from ports import held_port, nobody
from prefect_server import Server, served, serving
from processes import gone, wait_for
from relay import Relay, busy_proxy

pytestmark = pytest.mark.check

ROOT = paths.ROOT
LONGFORM = str(Path(sys.executable).with_name("longform"))
PREFECT = str(Path(sys.executable).with_name("prefect"))
TASKS = 60
SECONDS_AWAY = 7  # a build says so after 4 and ends after 15

FLOW = """
import sys, time
from pathlib import Path
from longform.settings import quiet_prefect
quiet_prefect()
from flows.builds.server import connected

with connected(print):
    from prefect import flow, task

    @task
    def square(number):
        return number * number

    @flow
    def squares(numbers, held):
        done = [future.result() for future in square.map(range(numbers))]
        Path("begun").touch()
        while held:
            time.sleep(0.05)
        return done

    assert squares(int(sys.argv[1]), sys.argv[2:] == ["held"]) == [n * n for n in range(int(sys.argv[1]))]
"""


class Place:
    """A separate PREFECT_HOME, and flows started with it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "prefect"
        self.home.mkdir(parents=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "LONGFORM"))}
        self.environment = {**kept, "PREFECT_HOME": str(self.home), "PYTHONPATH": str(ROOT)}

    def flow(self, *words: str, cwd: Path | None = None) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", FLOW, str(TASKS), *words]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, cwd=cwd or self.folder, env=self.environment, start_new_session=True, **pipes)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Rows of Prefect's database, read when no server runs any more."""
        with sqlite3.connect(self.home / "prefect.db") as database:
            return database.execute(query).fetchall()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("running")) as server:
        yield server


def held(place: Place) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """A flow that has started and does not end, and its child processes, among them its server."""
    process = place.flow("held")
    wait_for(lambda: (place.folder / "begun").exists() or process.poll() is not None)
    return process, psutil.Process(process.pid).children(recursive=True)


STARTING = "starting a Prefect server for this build (set PREFECT_API_URL to use one that runs)\n"
FLOW_RUNS = "SELECT state_type, count(*) FROM flow_run GROUP BY state_type"
TASK_RUNS = "SELECT state_type, count(*) FROM task_run GROUP BY state_type"


def test_a_server_of_its_own_takes_in_every_task_run_and_prints_nothing(place: Place) -> None:
    process = place.flow()
    assert process.communicate(timeout=600) == (STARTING, "")
    assert process.returncode == 0
    assert place.rows(FLOW_RUNS) == [("COMPLETED", 1)]
    assert place.rows(TASK_RUNS) == [("COMPLETED", TASKS)]


def test_two_builds_at_once_share_a_database_that_neither_has_found(place: Place) -> None:
    (place.folder / "other").mkdir()
    both = [place.flow(), place.flow(cwd=place.folder / "other")]
    for process in both:
        assert process.communicate(timeout=600) == (STARTING, "")
        assert process.returncode == 0
    assert place.rows(FLOW_RUNS) == [("COMPLETED", 2)]
    assert place.rows(TASK_RUNS) == [("COMPLETED", 2 * TASKS)]


def test_a_server_of_its_own_ends_with_a_build_that_is_killed(place: Place) -> None:
    process, below = held(place)
    assert below
    process.kill()
    process.communicate(timeout=600)
    wait_for(lambda: gone(below))


def test_a_signal_to_the_whole_group_ends_the_flow_before_its_server(place: Place) -> None:
    process, below = held(place)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=600)
    assert gone(below)
    assert place.rows(FLOW_RUNS) == [("CRASHED", 1)]
    assert place.rows(TASK_RUNS) == [("COMPLETED", TASKS)]


@pytest.mark.parametrize("named_in", ["environment", "profile"])
def test_a_configured_server_is_used(place: Place, running: Server, named_in: str) -> None:
    before = {run["id"] for run in running.all("flow_run")}
    configure(place, running.url, named_in)
    process, below = held(place)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=600)
    assert (out, below) == (f"reporting to Prefect at {running.url}\n", [])
    assert [run["state_type"] for run in running.all("flow_run") if run["id"] not in before] == ["CRASHED"]


@pytest.mark.parametrize("named_in", ["environment", "profile"])
def test_a_configured_server_that_does_not_answer_is_one_sentence(place: Place, named_in: str) -> None:
    with nobody() as address:
        configure(place, f"{address}/api", named_in)
        done = build(place)
    assert (done.returncode, done.stdout) == (1, "")
    sentence = done.stderr.split("\n")[-2]
    assert sentence.startswith(f"The Prefect server at {address}/api does not answer (")
    assert "start it (`make server`), or take PREFECT_API_URL out of the environment" in sentence
    assert "(`prefect config unset PREFECT_API_URL`)" in sentence
    assert not [path for path in (place.folder / "home").rglob("*") if path.name == "rows.parquet"]


def test_a_server_that_cannot_start_is_one_sentence(place: Place) -> None:
    (place.home / "prefect.db").write_bytes(b"no database" * 1_000)
    done = build(place)
    assert (done.returncode, done.stdout) == (1, "")
    sentence = done.stderr.split("\n")[-2]
    assert sentence.startswith("Prefect's server for this build did not start (")
    assert "file is not a database" in sentence
    assert f"{place.home} (PREFECT_HOME)" in sentence


def test_a_server_of_its_own_that_is_killed_ends_the_build_in_one_sentence_and_the_next_goes_on(place: Place) -> None:
    place.environment["PREFECT_CLIENT_MAX_RETRIES"] = "1"
    process, seen = begun_build(place)
    kill_all("flows.builds.server", psutil.Process(process.pid).children())
    _, rest = process.communicate(timeout=600)
    assert process.returncode == 1
    assert re.search(
        r"\nThe Prefect server at http://\S+ was lost while the build reported to it\. What .*\n$", f"\n{rest}"
    )
    assert not re.search("Error|Traceback|Unable|Service", seen + rest)
    done = build(place)
    assert (done.returncode, "read_posts: " in done.stderr) == (0, False)


def test_a_server_that_is_back_within_seconds_is_waited_for(place: Place) -> None:
    """Its successor, on the same database, runs already: to start one takes longer than a build waits where other
    work goes on.
    """
    (place.folder / "server").mkdir()
    with held_port() as seen, held_port() as one, held_port() as other:
        first, second = (serving(port, place.folder / "server") for port in (one, other))
        next(first)
        server, relay = next(second), Relay(seen)
        relay.start(one)
        place.environment["PREFECT_API_URL"] = f"http://127.0.0.1:{seen}/api"
        place.environment["PREFECT_CLIENT_MAX_RETRIES"] = "6"
        process, _ = begun_build(place)
        kill_all(str(one), psutil.Process().children(recursive=True))
        relay.stop()
        time.sleep(SECONDS_AWAY)
        relay.start(other)
        _, rest = process.communicate(timeout=600)
        assert process.returncode == 0, rest
        assert "The Prefect server does not answer" in rest
        assert [run["state_type"] for run in server.all("flow_run")] == ["COMPLETED"]
        relay.stop()
        for each in (second, first):
            each.close()


def test_a_server_that_is_busy_for_a_while_is_asked_again(place: Place, running: Server) -> None:
    """It answers 503 to each of the first requests of a kind, as it does while its database is locked."""
    seen: Counter[str] = Counter()

    def busy(path: str) -> bool:
        seen[path] += 1
        return path != "/health" and seen[path] <= 2

    with busy_proxy(running.url, busy) as proxy:
        place.environment["PREFECT_API_URL"] = proxy.url
        done = build(place)
        assert done.returncode == 0, done.stderr
        assert any("concurrency_limits" in path for path in proxy.refused)
    assert not re.search("Traceback|Unable|Service", done.stderr)


def test_a_server_that_stays_busy_ends_the_build_in_one_sentence(place: Place, running: Server) -> None:
    place.environment["PREFECT_CLIENT_MAX_RETRIES"] = "1"
    with busy_proxy(running.url, lambda path: "concurrency_limits" in path) as proxy:
        place.environment["PREFECT_API_URL"] = proxy.url
        done = build(place)
        assert proxy.refused
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.split("\n")[-2].startswith(
        f"The Prefect server at {proxy.url} was lost while the build reported to it. What was finished is kept"
    )
    assert not re.search("Error|Traceback|Unable|Service", done.stderr)


def begun_build(place: Place) -> tuple[subprocess.Popen[str], str]:
    """A build of the samples whose first stage has just ended, and its output so far."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(build_command(place), cwd=place.folder, env=place.environment, **pipes)
    assert process.stderr
    seen = ""
    for line in process.stderr:
        seen += line
        if "189 rows" in line:
            break
    return process, seen


def kill_all(word: str, processes: list[psutil.Process]) -> None:
    """Kill all processes whose command line contains this word."""
    killed = [process for process in processes if word in process.cmdline()]
    assert killed
    for process in killed:
        process.kill()


def configure(place: Place, url: str, named_in: str) -> None:
    if named_in == "environment":
        place.environment["PREFECT_API_URL"] = url
    else:
        command = [PREFECT, "config", "set", f"PREFECT_API_URL={url}"]
        subprocess.run(command, env=place.environment, check=True, capture_output=True, timeout=600)


def build_command(place: Place) -> list[str]:
    return [LONGFORM, "build", "axioms", "--home", str(place.folder / "home")]


def build(place: Place) -> subprocess.CompletedProcess[str]:
    return subprocess.run(build_command(place), env=place.environment, capture_output=True, text=True, timeout=600)
