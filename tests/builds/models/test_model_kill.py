"""Kill -9 during model calls: received replies are kept, and at most the requests in flight are sent twice.

The server counts: a request body that got two complete replies was paid for twice.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path

import psutil
import pytest
from axioms_builds import build_axioms
from killed_builds import answered, asked_twice, calls, family_of, killed_when, lives, run, start, wait_for
from standin_server import Server, serve

from benchmarks.make_dump import write_dump
from longform.artifacts.store import Store
from longform.artifacts.versions import find, problems
from longform.llm.ask.types import Endpoint, Request
from longform.llm.responses.store import open_responses
from longform.settings import responses

pytestmark = pytest.mark.check

LONGFORM = str(Path(sys.executable).with_name("longform"))
CONCURRENCY = 32
WINDOWS = ("POST /v1/files", "POST /v1/batches", "GET /v1/batches/{id}", "GET /v1/files/{id}/content")

ASKER = """
import sys
from pathlib import Path
from tests.builds.models.test_model_kill import ask
print(ask(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
"""
BUILDER = """
import json, sys
from pathlib import Path
from axioms_builds import build_axioms
if __name__ == "__main__":
    build_axioms(Path(sys.argv[1]), **json.loads(sys.argv[2]))
"""


def ask(store: Path, url: str, number: int) -> int:
    """Ask all questions and return how many were answered; also the entry point of a child process."""
    from longform.llm.models import Models

    endpoint = Endpoint("mine", "m", base_url=url, concurrency=CONCURRENCY)
    questions = ((n, Request((("user", f"Question {n}"),), task="x", max_tokens=64)) for n in range(number))
    with Models(store, first_pause_seconds=0.01) as models:
        return sum(bool(answer.text) for _, answer in models.client(endpoint).ask(questions))  # type: ignore[union-attr]


def end_of(process: AbstractContextManager[subprocess.Popen[bytes]]) -> int:
    """The exit code of a process, once it has ended."""
    with process as running:
        return running.wait()


def killed_at(process: subprocess.Popen[bytes], server: Server, due: Callable[[], bool]) -> int | None:
    """The number of requests in flight when the process and its children were killed; None if it had ended before."""
    wait_for(lambda: due() or process.poll() is not None)
    family = family_of(process)
    before = server.counters()["in_flight"]
    process.kill()
    in_flight = max(before, server.counters()["in_flight"])
    process.wait()
    wait_for(lambda: not any(map(lives, family)))
    wait_for(lambda: server.counters()["in_flight"] == 0)
    return in_flight if process.returncode == -signal.SIGKILL else None


def moments(seed: int, kills: int, total: int) -> list[int]:
    """Random numbers of replies after which to kill, in ascending order."""
    return sorted(random.Random(seed).randint(1, round(0.97 * total)) for _ in range(kills))


def more_than(server: Server, number: int, seed: int) -> Callable[[], bool]:
    """Whether that many replies were sent, and some milliseconds have passed since."""
    delay, reached = random.Random(seed).uniform(0, 0.06), [0.0]

    def due() -> bool:
        if answered(server) < number:
            return False
        reached[0] = reached[0] or time.monotonic()
        return time.monotonic() - reached[0] >= delay

    return due


def once_more(server: Server, path: str) -> Callable[[], bool]:
    """Whether another request for this path has arrived."""
    seen = server.counters()["requests"].get(path, 0)
    return lambda: server.counters()["requests"].get(path, 0) > seen


# ---------------------------------------------------------------- single calls


@pytest.mark.parametrize(("kills", "total"), [(4, 2_000), pytest.param(20, 6_000, marks=pytest.mark.soak)])
def test_killed_at_any_moment_hardly_more_is_asked_twice_than_was_in_flight(
    kills: int, total: int, tmp_path: Path
) -> None:
    store, in_flight = tmp_path / "responses.sqlite", []
    with serve(latency_seconds=0.05) as server:
        for number, target in enumerate(moments(kills, kills, total)):
            due = more_than(server, max(target, answered(server) + 1), number)
            with start(ASKER, store, server.url, total) as asker:
                in_flight.append(killed_at(asker, server, due))
        assert end_of(start(ASKER, store, server.url, total)) == 0
        assert answered(server) == total
        report("model layer", in_flight, asked_twice(server))
        # In flight for who asks, and a tenth: the server has sent some of these answers, and they are not yet stored.
        assert asked_twice(server) <= (CONCURRENCY + CONCURRENCY // 10) * len(in_flight)
        sent = calls(server)
        assert ask(store, server.url, total) == total
        assert calls(server) == sent


def report(what: str, in_flight: list[int | None], twice: int) -> None:
    killed = [number for number in in_flight if number is not None]
    print(f"{what}: killed {len(killed)} times, in flight {sum(killed)} {killed}, asked twice {twice}")


# ---------------------------------------------------------------- whole builds


@pytest.mark.soak
def test_twenty_kills_of_a_build_over_http(tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "tea.example" / "Posts.xml", 12_000_000, seed=5)
    home, config = tmp_path / "home", tmp_path / "c.toml"
    command = [LONGFORM, "build", "axioms", "--home", str(home), "--config", str(config), "--version", "v1"]
    mine = {"PREFECT_HOME": str(tmp_path / "prefect")}
    with serve(latency_seconds=0.05) as server:
        config.write_text(
            f'dump = "{Path(dump.path).parent}"\nmodel = "mine"\n[endpoints.mine]\nbase_url = "{server.url}"\n'
            'model = "m"\ncapabilities = ["json_schema"]\nconcurrency = 16\n'
        )
        total = questions_of(dump.path, tmp_path / "offline")
        in_flight = []
        for number, target in enumerate(moments(20, 20, total)):
            due = more_than(server, max(target, answered(server) + 1), number)
            with run(command, **mine) as build:
                in_flight.append(killed_at(build, server, due))
        assert end_of(run(command, **mine)) == 0
        report(f"build of {answered(server):,} calls", in_flight, asked_twice(server))
        assert sum(number is not None for number in in_flight) == 20
        assert asked_twice(server) <= (16 + 16 // 10) * len(in_flight)
        sent = calls(server)
        assert end_of(run([*command[:-1], "v2", "--force", "answer_open_book"], **mine)) == 0
        assert calls(server) == sent
    assert list(problems(Store(home), find(home, "axioms@v1"))) == []
    wait_for(lambda: not any(str(home) in " ".join(each.info["cmdline"] or []) for each in _processes()))


def _processes() -> Iterator[psutil.Process]:
    return psutil.process_iter(["cmdline"])


def questions_of(dump: str, home: Path) -> int:
    """About how many questions a build of this dump asks, counted with the offline model."""
    _, progress, _ = build_axioms(home, dump=str(Path(dump).parent))
    made = {entry.stage: entry.artifact for entry in progress.ended}
    written = sum(made[stage].rows for stage in ("answer_open_book", "answer_closed_book", "corrupt_answers"))
    return written + made["combine_answers"].rows


# ---------------------------------------------------------------- batches


def settings(server: Server) -> str:
    endpoint = {"base_url": server.url, "model": "m", "capabilities": ["json_schema", "batch"]}
    return json.dumps({"model": "mine", "mode": "batch", "endpoints": {"mine": endpoint}, "msmarco": []})


@pytest.mark.parametrize("stages", [1, pytest.param(4, marks=pytest.mark.soak)])
def test_a_build_in_batch_mode_killed_between_any_two_of_its_steps_submits_no_job_twice(
    stages: int, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    with serve(batch_seconds=0.3) as server:
        for window in WINDOWS * stages:
            server.script([{"path": window, "fault": "slow", "seconds": 3_600}])  # so that it cannot end
            due = once_more(server, window)
            with start(BUILDER, home, settings(server)) as build:
                killed_when(build, due)
        assert end_of(start(BUILDER, home, settings(server))) == 0
        counted = server.counters()
        print(f"batch: jobs {sorted(counted['jobs'].values())}, single calls {calls(server)}")
        assert len(counted["jobs"]) == 4
        assert set(counted["jobs"].values()) == {1}
        assert counted["repeated"] == {}
        assert calls(server) == 0
        sent = counted["requests"]
        again, _, _ = build_axioms(home, "v2", force="answer_open_book", **json.loads(settings(server)))
        assert again is not None
        assert server.counters()["requests"] == sent
    with closing(open_responses(responses(home), read_only=True)) as store:
        assert sum(1 for _ in store.scan()) == counted["answered_bodies"]
        assert store.jobs() == []
    offline, _, _ = build_axioms(tmp_path / "offline", msmarco=[])
    assert offline is not None
    assert find(home, "axioms@v1").manifest["splits"] == offline.manifest["splits"]
