"""A real Prefect server in a process of its own, with a database of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paths
from ports import held_port
from processes import wait_for

ROOT = paths.ROOT


PREFECT = str(Path(sys.executable).with_name("prefect"))


PAGE = 200  # the most that the server tells at once


@dataclass
class Server:
    url: str
    environment: dict[str, str]

    def prefect(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [PREFECT, "--no-prompt", *arguments]
        return subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=600)

    def run(
        self, config: dict[str, Any], *, deployment: str = "axioms/nightly", **parameters: str
    ) -> subprocess.CompletedProcess[str]:
        """Start a run of a deployment, as a user does."""
        given = [f"--param={name}={value}" for name, value in parameters.items()]
        return self.prefect("deployment", "run", deployment, f"--param=config={json.dumps(config)}", *given)

    def all(self, what: str) -> list[dict[str, Any]]:
        """Every flow_run, task_run or artifact that the server knows."""
        found: list[dict[str, Any]] = []
        while len(found) % PAGE == 0:
            page = self.post(f"{what}s/filter", {"limit": PAGE, "offset": len(found)})
            if not page:
                break
            found += page
        return found

    def post(self, path: str, document: dict[str, Any]) -> Any:
        asked = json.dumps(document).encode()
        request = urllib.request.Request(f"{self.url}/{path}", asked, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as reply:
            return json.loads(reply.read() or b"null")

    def pause(self, deployment: str) -> None:
        """Pause a deployment's schedule, so that it starts no run during the test."""
        request = urllib.request.Request(f"{self.url}/deployments/{deployment}/pause_deployment", method="POST")
        with urllib.request.urlopen(request, timeout=600):
            pass


@contextmanager
def served(home: Path, **settings: str) -> Iterator[Server]:
    """A server with a database of its own, unless the settings name another."""
    with held_port() as port:
        yield from serving(port, home, **settings)


def serving(port: int, home: Path, **settings: str) -> Iterator[Server]:
    url = f"http://127.0.0.1:{port}/api"
    quiet = {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "LONGFORM"))}
    environment = {**kept, **quiet, **settings, "PREFECT_HOME": str(home), "PREFECT_API_URL": url}
    with (home / "server.log").open("w") as log:
        command = [PREFECT, "server", "start", "--port", str(port), "--no-ui"]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            wait_for(lambda: process.poll() is not None or _is_up(url), seconds=600)
            yield Server(url, environment)
        finally:
            process.terminate()
            process.wait(600)


def _is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5):
            return True
    except OSError:
        return False
