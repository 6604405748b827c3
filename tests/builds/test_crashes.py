"""A killed flow, alone or with its worker, is soon marked Crashed on a real server, and the next run starts."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from prefect_server import PREFECT, ROOT, Server, served
from processes import gone, wait_for

pytestmark = pytest.mark.check

LONGFORM = str(Path(sys.executable).with_name("longform"))
HELD = """
import time
from pathlib import Path
from prefect import flow

@flow(name="axioms")
def held():
    while Path("hold").exists():
        time.sleep(0.1)

if __name__ == "__main__":
    held()
"""


class Flows:
    """A folder with a flow that ends once the file `hold` is gone, and a server."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.environment = {**server.environment, "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30"}
        (folder / "held.py").write_text(HELD)
        (folder / "hold").touch()

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        quiet = subprocess.DEVNULL
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=quiet, stderr=quiet)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=600
        )

    def runs(self, *states: str) -> list[dict[str, Any]]:
        found = [run for run in self.server.all("flow_run") if run["state_type"] in states]
        return sorted(found, key=lambda run: str(run["state"]["timestamp"]))

    def heartbeats(self, run: dict[str, Any]) -> int:
        asked = {"filter": {"event": {"name": ["prefect.flow-run.heartbeat"]}}}
        events = self.server.post("events/filter", asked)["events"]
        return sum(event["resource"]["prefect.resource.id"].endswith(run["id"]) for event in events)


@contextmanager
def flows(folder: Path, **settings: str) -> Iterator[Flows]:
    (folder / "prefect").mkdir()
    with served(folder / "prefect", **settings) as server:
        yield Flows(server, folder)


def detect(held: Flows, seconds: int) -> dict[str, Any]:
    done = held.run(LONGFORM, "prefect", "automations", "--patience", str(seconds), "--json")
    assert done.returncode == 0, done.stderr
    output: dict[str, Any] = json.loads(done.stdout)
    return output


def killed(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all its descendants at once (SIGKILL)."""
    everyone = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for each in everyone:
        each.kill()
    process.wait(600)
    wait_for(lambda: gone(everyone))


def test_a_killed_flow_is_crashed_and_a_retry_completes_it(tmp_path: Path) -> None:
    with flows(tmp_path) as held:
        assert [detect(held, 10)["done"], detect(held, 10)["done"]] == ["installed", "there already"]
        assert len(held.server.all("automation")) == 1
        process = held.start(sys.executable, "held.py")
        wait_for(lambda: bool(held.runs("RUNNING")) and held.heartbeats(held.runs("RUNNING")[0]) > 0)
        killed(process)
        wait_for(lambda: not held.runs("RUNNING"))
        (run,) = held.runs("CRASHED")
        assert run["state"]["message"].startswith("No heartbeat for 10 s: its process is gone.")
        (tmp_path / "hold").unlink()
        again = held.run(PREFECT, "--no-prompt", "flow-run", "retry", run["id"], "--entrypoint", "held.py:held")
        assert again.returncode == 0, again.stdout + again.stderr
        assert [each["id"] for each in held.runs("COMPLETED")] == [run["id"]]
        assert detect(held, 20)["done"] == "changed"


def deploy_every_minute(held: Flows) -> None:
    """Deploy the held flow like the project's nightly deployment, but every minute."""
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    nightly = next(each for each in deployments if each["name"] == "nightly")
    schedule = {"cron": "* * * * *", "timezone": "UTC", "active": True, "slug": "nightly"}
    every_minute = {**nightly, "entrypoint": "held.py:held", "parameters": {}, "schedules": [schedule]}
    (held.folder / "prefect.yaml").write_text(yaml.safe_dump({"name": "held", "deployments": [every_minute]}))
    for command in (("work-pool", "create", "local", "--type", "process"), ("deploy", "--all")):
        done = held.run(PREFECT, "--no-prompt", *command)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.soak
def test_after_the_loss_of_worker_and_flow_the_next_run_starts_within_two_minutes(tmp_path: Path) -> None:
    asked_again = {"PREFECT_SERVER_DEPLOYMENTS_CONCURRENCY_SLOT_WAIT_SECONDS": "20"}  # as `make server` has it
    with flows(tmp_path, **asked_again) as held, workers(held) as started:
        done = held.run(LONGFORM, "prefect", "automations")
        assert done.returncode == 0, done.stderr
        deploy_every_minute(held)
        first = started()
        wait_for(lambda: bool(held.runs("RUNNING")))
        (run,) = held.runs("RUNNING")
        wait_for(lambda: held.heartbeats(run) >= 5)  # two minutes and more: it lives, and is left alone
        assert [each["id"] for each in held.runs("RUNNING")] == [run["id"]]
        killed(first)
        lost = time.monotonic()
        started()
        wait_for(lambda: bool(held.runs("CRASHED")))
        crashed = time.monotonic() - lost
        wait_for(lambda: bool(held.runs("RUNNING")))
        at_work = time.monotonic() - lost
        print(f"Crashed after {crashed:.0f} s, the next run at work after {at_work:.0f} s")
        assert [each["id"] for each in held.runs("CRASHED")] == [run["id"]]
        assert held.runs("CANCELLED") == []
        assert at_work < 120


@contextmanager
def workers(held: Flows) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """A context that starts workers, and ends them."""
    all_of_them: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        command = (PREFECT, "worker", "start", "--pool", "local", "--type", "process", "--limit", "2")
        all_of_them.append(held.start(*command))
        return all_of_them[-1]

    try:
        yield start
    finally:
        for each in all_of_them:
            if each.poll() is None:
                killed(each)
