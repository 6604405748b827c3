"""The deployment of prefect.yaml on a real Prefect server, run by a real worker."""

import json
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import postgresql
import pytest
from http_server import Answer, serve
from prefect_server import ROOT, Server, served
from processes import wait_for

from flows.axioms import SAMPLES
from flows.registry import DATASETS
from longform.artifacts.versions import versions

pytestmark = pytest.mark.check


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("prefect")) as server:
        yield server


@pytest.fixture(scope="module")
def deployed(server: Server) -> Server:
    return deploy(server)


def deploy(server: Server) -> Server:
    for arguments in (("work-pool", "create", "local", "--type", "process"), ("deploy", "--all")):
        done = server.prefect(*arguments)
        assert done.returncode == 0, done.stderr + done.stdout
    for deployment in server.all("deployment"):
        server.pause(deployment["id"])
    return server


def test_every_flow_is_deployed_on_demand_and_axioms_every_night(deployed: Server) -> None:
    flows = {flow["id"]: flow["name"] for flow in deployed.all("flow")}
    found = {f"{flows[each['flow_id']]}/{each['name']}": each for each in deployed.all("deployment")}
    assert found.keys() == {
        "axioms/nightly",
        *(f"{name}/on-demand" for name in (*DATASETS, "sources", "fetch", "train")),
    }
    assert all(each["enforce_parameter_schema"] for each in found.values())
    assert all(each["global_concurrency_limit"]["limit"] == 1 for each in found.values())
    beats = {name: each["job_variables"]["env"]["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"] for name, each in found.items()}
    assert set(beats.values()) == {"30"}
    schedules = {name: [each["schedule"]["cron"] for each in one["schedules"]] for name, one in found.items()}
    assert {name: crons for name, crons in schedules.items() if crons} == {"axioms/nightly": ["0 3 * * *"]}


def test_the_server_plans_the_runs_of_a_schedule(deployed: Server) -> None:
    """With SQLAlchemy 2.1 every attempt of Prefect 3.8's scheduler fails, visible only in the server's log."""
    nightly = next(each["id"] for each in deployed.all("deployment") if each["name"] == "nightly")
    deployed.post(f"deployments/{nightly}/resume_deployment", {})
    try:
        wait_for(lambda: any(run["auto_scheduled"] for run in deployed.all("flow_run")), seconds=600)
    finally:
        deployed.pause(nightly)  # which takes the planned ones away


def test_every_parameter_of_every_deployment_says_what_it_means(deployed: Server) -> None:
    for each in deployed.all("deployment"):
        schema = each["parameter_openapi_schema"]
        tables = {"": schema, **schema["definitions"]}
        silent = [
            f"{each['name']} {table}.{name}"
            for table, found in tables.items()
            for name, parameter in found.get("properties", {}).items()
            if not parameter.get("description")
        ]
        assert silent == []


def test_the_parameters_of_a_deployment_are_a_configuration_and_the_run_options(deployed: Server) -> None:
    nightly = next(each for each in deployed.all("deployment") if each["name"] == "nightly")
    schema = nightly["parameter_openapi_schema"]
    asked = {"version", "home", "until", "force", "max_cost", "budget", "retry_errors", "accept", "runner", "address"}
    assert set(schema["properties"]) == {"config", *asked}
    assert schema["properties"]["runner"]["anyOf"][0]["enum"] == ["threads", "processes", "dask", "ray"]
    settings = schema["definitions"]["AxiomsConfig"]["properties"]
    assert settings["neighbours"]["description"] == "axiom 1: related questions looked at"
    assert (settings["neighbours"]["minimum"], settings["neighbours"]["maximum"]) == (1, 100)


@pytest.mark.parametrize(("config", "options", "field"), [
    ({"neighbours": "many"}, {}, "config.neighbours"),
    ({"neighbors": 3}, {}, "config"),
    ({"test_share": 2}, {}, "config.test_share"),
    ({}, {"runner": "spark"}, "runner"),
    ({}, {"until": "read_pots"}, "until"),
    ({}, {"max_cost": "-1"}, "max_cost"),
])  # fmt: skip
def test_parameters_that_do_not_fit_are_refused_before_anything_runs(
    deployed: Server, config: dict[str, Any], options: dict[str, str], field: str
) -> None:
    before = {run["id"] for run in deployed.all("flow_run")}
    done = deployed.run(config, **options)
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
    names = [task["name"] for task in deployed.all("task_run") if task["flow_run_id"] == run["id"]]
    wait_for(lambda: {*version.stages} <= {*_names(deployed, run["id"])}, seconds=600)  # events come after the run
    parts = {name.split()[0] for name in _names(deployed, run["id"])} - {*version.stages}
    assert parts == set(), names
    logs = {log["message"] for log in deployed.all("log") if log["flow_run_id"] == run["id"]}
    assert any(message.startswith("assemble_pairs ended: ") for message in logs)


def _names(deployed: Server, run: str) -> list[str]:
    return [task["name"] for task in deployed.all("task_run") if task["flow_run_id"] == run]


def test_a_worker_reads_a_source_and_the_server_shows_its_stages(deployed: Server, tmp_path: Path) -> None:
    config = {"source": "webgpt", "paths": [str(ROOT / "data" / "samples" / "webgpt")], "to": str(tmp_path / "out")}
    run = worked(deployed, config, "sources/on-demand", home=str(tmp_path / "home"))
    assert (tmp_path / "out" / "read_comparisons.parquet").exists()

    def reading() -> list[dict[str, Any]]:
        named = [task for task in deployed.all("task_run") if task["name"].startswith("read_comparisons")]
        return [task for task in named if task["flow_run_id"] == run["id"]]

    wait_for(lambda: bool(reading()), seconds=600)  # the server takes in events after the run
    keys = {each["key"] for each in deployed.all("artifact") if each["flow_run_id"] == run["id"]}
    assert keys == {"webgpt-read", "webgpt-read-comparisons"}


def test_a_worker_fetches_a_source(deployed: Server, tmp_path: Path) -> None:
    with serve() as site:
        site.on("/notes.txt", Answer(body=b"one\n"))
        config = {"source": "url", "what": [f"{site.url}/notes.txt"], "to": str(tmp_path / "got")}
        run = worked(deployed, config, "fetch/on-demand", home=str(tmp_path / "home"))
    assert (tmp_path / "got" / "notes.txt").read_bytes() == b"one\n"
    [files] = [json.loads(each["data"]) for each in deployed.all("artifact") if each["flow_run_id"] == run["id"]]
    assert [(file["bytes"], file["new"]) for file in files] == [(4, True)]


def test_the_server_keeps_its_records_in_postgresql(postgres: postgresql.Server, tmp_path: Path) -> None:
    database = postgres.database()
    named = database.replace("postgresql://", "postgresql+asyncpg://")
    with served(tmp_path, PREFECT_API_DATABASE_CONNECTION_URL=named) as server:
        deploy(server)
        given = {"home": str(tmp_path / "home"), "version": "five"}
        run = worked(server, {"limit": 5}, "expertqa/on-demand", **given)
        assert postgres.execute("SELECT id::text, state_type::text FROM flow_run", database) == [
            (run["id"], "COMPLETED")
        ]
    assert [version.name for version in versions(tmp_path / "home", "expertqa")] == ["five"]
    assert not (tmp_path / "prefect.db").exists()


def worked(server: Server, config: dict[str, Any], deployment: str, **parameters: str) -> dict[str, Any]:
    """The run of a deployment, completed by a worker started for it."""
    before = {run["id"] for run in server.all("flow_run")}
    asked = server.run(config, deployment=deployment, **parameters)
    assert asked.returncode == 0, asked.stderr
    done = server.prefect("worker", "start", "--pool", "local", "--type", "process", "--run-once")
    (run,) = (run for run in server.all("flow_run") if run["id"] not in before)
    assert run["state"]["name"] == "Completed", done.stdout + done.stderr
    return run


def test_no_module_of_flows_has_the_name_of_a_library() -> None:
    """Prefect puts flows/ on the import path, where a module would hide a library of its name."""
    names = {path.stem for path in (ROOT / "flows").glob("*.py")} - {"__init__"}
    libraries = packages_distributions().keys() | sys.stdlib_module_names
    assert not names & libraries
