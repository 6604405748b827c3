"""Two builds of the same questions at once on one PostgreSQL store, each with worker processes of its own: whoever is
killed, and while the database is away, nothing hangs, nothing is bought twice, and the bytes are as of a quiet build.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import paths
import psutil
import pytest
from killed_builds import answered, asked_twice, calls, family_of, lives
from postgresql import Server as Postgres
from postgresql import running
from processes import started, wait_for
from standin_server import Server, serve
from two_sites import contents, dumps_of

pytestmark = pytest.mark.check

CONCURRENCY, WORKERS = 16, 2
MEGABYTES = 1.5
LEASE_SECONDS = 60.0
OUTAGE_SECONDS = 20.0
ENDS_WITHIN_SECONDS = 600.0

BUILDER = f"""
import json, sys
from pathlib import Path
from axioms_builds import build_axioms
from longform.engine.runners import Processes
if __name__ == "__main__":
    runner = Processes({WORKERS}, small_bytes=0)
    build_axioms(Path(sys.argv[1]), runner=runner, **json.loads(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return dumps_of(tmp_path_factory.mktemp("dumps"), MEGABYTES)


@pytest.fixture
def database() -> Iterator[Postgres]:
    with running() as server:
        yield server


def building(
    home: Path, store: str, server: Server, dumps: list[str]
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A build in a process of its own, with what it says in a file beside its home."""
    endpoint = {"base_url": server.url, "model": "m", "capabilities": ["json_schema"], "concurrency": CONCURRENCY}
    settings = {"dump": dumps, "model": "mine", "endpoints": {"mine": endpoint}}
    environment = {**os.environ, "PYTHONPATH": paths.PYTHONPATH, "LONGFORM_RESPONSES": store}
    command = [sys.executable, "-c", BUILDER, home, json.dumps(settings)]
    with home.with_suffix(".log").open("ab") as said:
        return started(command, env=environment, stdout=said, stderr=said, start_new_session=True)


def quiet(home: Path, database: Postgres, dumps: list[str]) -> tuple[dict[str, bytes], int]:
    """(what an undisturbed build makes, how many questions it asks)."""
    with serve(latency_seconds=0.01) as server, building(home, database.database(), server, dumps) as build:
        assert build.wait(ENDS_WITHIN_SECONDS) == 0, said(home)
        return published(home), calls(server)


def published(home: Path) -> dict[str, bytes]:
    """Each file of the versions but the manifest, which names its build."""
    return {name: content for name, content in contents(home).items() if name.startswith("datasets/")}


def said(home: Path) -> str:
    return home.with_suffix(".log").read_text()[-3_000:]


def killed_at_random(builds: list[subprocess.Popen[bytes]], server: Server, drawn: random.Random) -> int:
    """Kill one worker of a build, or a build with all its workers; how many requests were in flight."""
    build = drawn.choice([build for build in builds if build.poll() is None])
    family = family_of(build)
    victims = [drawn.choice(family)] if family and drawn.random() < 0.6 else [psutil.Process(build.pid), *family]
    before = int(server.counters()["in_flight"])
    for each in victims:
        if lives(each):
            each.send_signal(signal.SIGKILL)
    wait_for(lambda: not any(map(lives, victims)))
    return max(before, int(server.counters()["in_flight"]))


@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.soak)])
def test_builds_and_workers_killed_at_random_hang_nobody_and_buy_no_more_again_than_was_in_flight(
    kills: int, tmp_path: Path, database: Postgres, dumps: list[str]
) -> None:
    """Whatever ended is started again; a lease of the killed runs out after a minute."""
    expected, total = quiet(tmp_path / "quiet", database, dumps)
    drawn, store, in_flight = random.Random(kills), database.database(), list[int]()
    homes = [tmp_path / "one", tmp_path / "two"]
    moments = sorted(drawn.randint(1, round(0.95 * total)) for _ in range(kills))
    with serve(latency_seconds=0.1) as server:
        for moment in moments:
            builds = [building(home, store, server, dumps) for home in homes]
            with builds[0] as one, builds[1] as two:
                due = max(moment, answered(server) + 1)
                wait_for(lambda: answered(server) >= due or {one.poll(), two.poll()} == {0})  # noqa: B023
                time.sleep(drawn.uniform(0, 0.1))
                if None in (one.poll(), two.poll()):
                    in_flight.append(killed_at_random([one, two], server, drawn))
                everybody = [*family_of(one), *family_of(two)]
            wait_for(lambda: not any(map(lives, everybody)))  # noqa: B023
            wait_for(lambda: server.counters()["in_flight"] == 0)
        begun = time.monotonic()
        builds = [building(home, store, server, dumps) for home in homes]
        with builds[0] as one, builds[1] as two:
            codes = [build.wait(ENDS_WITHIN_SECONDS) for build in (one, two)]
        assert codes == [0, 0], said(homes[0]) + said(homes[1])
        print(
            f"killed {len(in_flight)} times, in flight {sum(in_flight)} {in_flight}, of {total} questions "
            f"{asked_twice(server)} asked twice; rebuilt in {time.monotonic() - begun:.0f} s"
        )
        assert answered(server) == total
        assert asked_twice(server) <= sum(in_flight) + (CONCURRENCY // 10 + 1) * len(in_flight)
        assert server.counters()["in_flight_highest"] <= CONCURRENCY
    assert [published(home) == expected for home in homes] == [True, True]


@pytest.mark.parametrize("how", ["stopped", "hanging"])
def test_an_outage_of_twenty_seconds_ends_neither_of_two_builds_and_nothing_is_asked_twice(
    how: str, tmp_path: Path, database: Postgres, dumps: list[str]
) -> None:
    expected, total = quiet(tmp_path / "quiet", database, dumps)
    store, homes = database.database(), [tmp_path / "one", tmp_path / "two"]
    with serve(latency_seconds=0.1) as server:
        builds = [building(home, store, server, dumps) for home in homes]
        with builds[0] as one, builds[1] as two:
            wait_for(lambda: answered(server) > total // 3)
            with database.stopped() if how == "stopped" else database.hanging():
                time.sleep(OUTAGE_SECONDS)
            codes = [build.wait(ENDS_WITHIN_SECONDS) for build in (one, two)]
        assert codes == [0, 0], said(homes[0]) + said(homes[1])
        assert (answered(server), asked_twice(server)) == (total, 0)
        assert server.counters()["in_flight_highest"] <= CONCURRENCY
    assert [published(home) == expected for home in homes] == [True, True]
