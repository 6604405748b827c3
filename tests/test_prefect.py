"""The deployment of prefect.yaml on a real Prefect server, run by a real worker."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from ports import held_port
from test_kill import wait_for

from flows.axioms import SAMPLES, STAGES
from longform.versions import versions

ROOT = Path(__file__).parents[1]
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
        """Ask for a run of a deployment, as a person does."""
        given = [f"--param={name}={value}" for name, value in parameters.items()]
        return self.prefect("deployment", "run", deployment, f"--param=config={json.dumps(config)}", *given)

    def all(self, what: str) -> list[dict[str, Any]]:
        """Every flow_run, task_run or artifact that the server knows."""
        found: list[dict[str, Any]] = []
        while len(found) % PAGE == 0:
            asked = json.dumps({"limit": PAGE, "offset": len(found)}).encode()
            request = urllib.request.Request(f"{self.url}/{what}s/filter", asked, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=600) as reply:
                page = json.load(reply)
            if not page:
                break
            found += page
        return found

    def pause(self, deployment: str) -> None:
        """What its schedule wants does not run, whatever the hour."""
        request = urllib.request.Request(f"{self.url}/deployments/{deployment}/pause_deployment", method="POST")
        with urllib.request.urlopen(request, timeout=600):
            pass


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with held_port() as port:
        yield from serving(port, tmp_path_factory.mktemp("prefect"))


def serving(port: int, home: Path) -> Iterator[Server]:
    url = f"http://127.0.0.1:{port}/api"
    quiet = {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "LONGFORM"))}
    environment = {**kept, **quiet, "PREFECT_HOME": str(home), "PREFECT_API_URL": url}
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


@pytest.fixture(scope="module")
def deployed(server: Server) -> Server:
    for arguments in (("work-pool", "create", "local", "--type", "process"), ("deploy", "--all")):
        done = server.prefect(*arguments)
        assert done.returncode == 0, done.stderr + done.stdout
    for deployment in server.all("deployment"):
        server.pause(deployment["id"])
    return server


def test_the_deployment_has_its_schedule_and_says_what_each_parameter_means(deployed: Server) -> None:
    deployment, *others = sorted(deployed.all("deployment"), key=lambda each: str(each["name"]))
    assert all(each["enforce_parameter_schema"] for each in (deployment, *others))
    assert (deployment["name"], *((each["name"], each["schedules"]) for each in others)) == (
        "nightly",
        ("on-demand", []),
        ("on-demand", []),
    )
    defined = {name for each in others for name in each["parameter_openapi_schema"]["definitions"]}
    assert {"ExpertqaConfig", "RevisionDistanceConfig"} <= defined
    assert [schedule["schedule"]["cron"] for schedule in deployment["schedules"]] == ["0 3 * * *"]
    schema = deployment["parameter_openapi_schema"]
    assert set(schema["properties"]) == {"config", "version", "home", "until", "force", "max_cost", "retry_errors"}
    settings = schema["definitions"]["AxiomsConfig"]["properties"]
    assert settings["neighbours"]["description"] == "axiom 1: related questions looked at"
    assert (settings["neighbours"]["minimum"], settings["neighbours"]["maximum"]) == (1, 100)


@pytest.mark.parametrize(("config", "field"), [
    ({"neighbours": "many"}, "config.neighbours"),
    ({"neighbors": 3}, "config"),
    ({"test_share": 2}, "config.test_share"),
])  # fmt: skip
def test_parameters_that_do_not_fit_are_refused_before_anything_runs(
    deployed: Server, config: dict[str, Any], field: str
) -> None:
    before = {run["id"] for run in deployed.all("flow_run")}
    done = deployed.run(config)
    assert done.returncode == 1
    assert f"Validation failed for field '{field}'" in " ".join((done.stdout + done.stderr).split())
    assert {run["id"] for run in deployed.all("flow_run")} == before


@pytest.mark.parametrize("dataset", ["expertqa", "revision-distance"])
def test_a_worker_builds_the_other_datasets(deployed: Server, tmp_path: Path, dataset: str) -> None:
    home, name = str(tmp_path / "home"), f"five-{dataset}"
    asked = deployed.run({"limit": 5}, deployment=f"{dataset}/on-demand", home=home, version=name)
    assert asked.returncode == 0, asked.stderr
    worked = deployed.prefect("worker", "start", "--pool", "local", "--type", "process", "--run-once")
    (run,) = (run for run in deployed.all("flow_run") if run["parameters"].get("version") == name)
    assert run["state"]["name"] == "Completed", worked.stdout + worked.stderr
    assert [version.name for version in versions(tmp_path / "home", dataset)] == [name]


def test_a_worker_builds_the_samples_and_the_server_shows_what_it_did(deployed: Server, tmp_path: Path) -> None:
    if not SAMPLES.exists():
        pytest.skip("no samples in data/samples")
    asked = deployed.run({"model": "offline", "limit": 10}, home=str(tmp_path / "home"), version="nightly")
    assert asked.returncode == 0, asked.stderr
    worked = deployed.prefect("worker", "start", "--pool", "local", "--type", "process", "--run-once")
    (run,) = (run for run in deployed.all("flow_run") if run["parameters"].get("version") == "nightly")
    assert run["state"]["name"] == "Completed", worked.stdout + worked.stderr
    (version,) = versions(tmp_path / "home", "axioms")
    assert version.name == "nightly"
    _task_runs_have_readable_names(deployed, run["id"])
    _the_table_sums_up(deployed, run["id"], version.stages)


def _task_runs_have_readable_names(deployed: Server, run: str) -> None:
    """A task run a stage, and below it one a part, named by its site and range."""

    def names() -> set[str]:
        return {task["name"] for task in deployed.all("task_run") if task["flow_run_id"] == run}

    expected = {*STAGES, "community.example", "community.example/0-00000", "all"}
    wait_for(lambda: expected <= names(), seconds=600)  # the server takes in events after the run
    parts = names() - set(STAGES)
    assert all(name == "all" or name.startswith("community.example") for name in parts)


def _the_table_sums_up(deployed: Server, run: str, stages: dict[str, str]) -> None:
    (table,) = (a for a in deployed.all("artifact") if a["flow_run_id"] == run and a["key"] == "axioms-build")
    rows = json.loads(table["data"])
    assert {row["stage"]: row["fingerprint"] for row in rows} == stages
    assert {row["state"] for row in rows} == {"run"}


def test_a_source_is_read_as_a_flow_whose_stages_the_server_shows(server: Server, tmp_path: Path) -> None:
    given = ["webgpt", [str(ROOT / "data" / "samples" / "webgpt")]]
    code = f"from flows.deployed import sources; print(sources(*{given!r}, home='home', to='out'))"
    environment = {**server.environment, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "{'read_comparisons': 4}"
    assert (tmp_path / "out" / "read_comparisons.parquet").exists()
    runs = [run for run in server.all("flow_run") if run["state_type"] == "COMPLETED"]

    def reading() -> list[dict[str, Any]]:
        return [run for run in server.all("task_run") if run["name"].startswith("read_comparisons")]

    wait_for(lambda: bool(reading()), seconds=600)  # the server takes in events after the run
    task, *_ = reading()
    assert task["flow_run_id"] in {run["id"] for run in runs}


def test_no_module_of_flows_has_the_name_of_a_library() -> None:
    """Prefect puts flows/ on the path, where a module would take the place of a library of its name."""
    names = {path.stem for path in (ROOT / "flows").glob("*.py")} - {"__init__"}
    libraries = packages_distributions().keys() | sys.stdlib_module_names
    assert not names & libraries
