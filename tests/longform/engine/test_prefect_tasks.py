"""Stages and parts as Prefect task runs, on a real server: graph, keys, overlap, states, logs, retry and cancelling."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import paths
import psutil
import pytest
from axioms_builds import build_axioms
from prefect_server import Server, served
from processes import wait_for
from standin_server import serve

from benchmarks.make_dump import write_dump
from longform.artifacts.versions import Version, versions
from longform.standin.server import Server as Model

pytestmark = pytest.mark.check

PREFECT = str(Path(sys.executable).with_name("prefect"))
ROOT = paths.ROOT

LONGFORM = str(Path(sys.executable).with_name("longform"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("prefect")) as found:
        yield found


class Run:
    """A flow run as the server reports it; of a task run that was reported twice, the last report."""

    def __init__(self, server: Server, state: str, named: str = "") -> None:
        self.server, self.before = server, {run["id"] for run in server.all("flow_run")}
        self.state, self.named = state, named

    def found(self) -> dict[str, Any]:
        """The new flow run, once it reaches the named state."""

        def new() -> list[dict[str, Any]]:
            return [run for run in self.server.all("flow_run") if run["id"] not in self.before]

        wait_for(lambda: any(run["state_type"] == self.state for run in new()), seconds=600)
        (run,) = new()
        return run


def tasks_of(server: Server, run: str) -> list[dict[str, Any]]:
    found = [task for task in server.all("task_run") if task["flow_run_id"] == run]
    return sorted(found, key=lambda task: str(task["expected_start_time"]))


def stages_of(server: Server, run: str, stages: int) -> dict[str, dict[str, Any]]:
    """The last task run of each stage, once the server has stored the given number of ended ones."""

    def ended() -> dict[str, dict[str, Any]]:
        tasks = [task for task in tasks_of(server, run) if "__parents__" not in task["task_inputs"]]
        return {task["name"]: task for task in tasks if task["end_time"]}

    wait_for(lambda: len(ended()) >= stages, seconds=600)
    return ended()


def built(server: Server, home: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [LONGFORM, "build", "axioms", "--home", str(home), *words]
    done = subprocess.run(command, env=server.environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def first(server: Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], Version]:
    """The samples, built from the command line: home, flow run, version."""
    home, run = tmp_path_factory.mktemp("first") / "home", Run(server, "COMPLETED")
    built(server, home, "--version", "v1")
    (version,) = versions(home, "axioms")
    return home, run.found(), version


def test_the_edges_between_task_runs_are_the_inputs_of_the_manifest(
    server: Server, first: tuple[Path, dict[str, Any], Version]
) -> None:
    _, run, version = first
    stages = stages_of(server, run["id"], len(version.stages))
    names = {task["id"]: name for name, task in stages.items()}
    edges = {
        name: {parameter: names[found[0]["id"]] for parameter, found in task["task_inputs"].items()}
        for name, task in stages.items()
    }
    assert edges == version.manifest["inputs"]
    assert sum(map(len, edges.values())) > len(edges), "a graph, not a line"


def test_each_stage_has_a_task_key_of_its_own_and_tags_for_dataset_and_kind(
    server: Server, first: tuple[Path, dict[str, Any], Version]
) -> None:
    _, run, version = first
    stages = stages_of(server, run["id"], len(version.stages))
    assert len({task["task_key"] for task in stages.values()}) == len(stages)
    assert {"dataset:axioms", "kind:model", "endpoint:offline"} == set(stages["answer_open_book"]["tags"])
    assert {"dataset:axioms", "kind:source"} == set(stages["read_posts"]["tags"])


def test_independent_stages_run_at_the_same_time(server: Server, first: tuple[Path, dict[str, Any], Version]) -> None:
    _, run, version = first
    stages = stages_of(server, run["id"], len(version.stages)).values()
    spans = [(_time(task["start_time"]), _time(task["end_time"])) for task in stages]
    assert any(max(a[0], b[0]) < min(a[1], b[1]) for a, b in combinations(spans, 2))


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_parts_are_named_tasks_below_their_stage(server: Server, first: tuple[Path, dict[str, Any], Version]) -> None:
    _, run, version = first
    stages = stages_of(server, run["id"], len(version.stages))
    parts = [task for task in tasks_of(server, run["id"]) if "__parents__" in task["task_inputs"]]
    parents = {task["id"]: name for name, task in stages.items()}
    assert {task["task_key"].rsplit("-", 1)[0] for task in parts} == {
        f"{parents[task['task_inputs']['__parents__'][0]['id']]}_part" for task in parts
    }
    assert "read_posts community.example" in " ".join(task["name"] for task in parts)


def test_a_stage_says_in_its_state_and_its_log_what_it_made_and_why_rows_are_missing(
    server: Server, first: tuple[Path, dict[str, Any], Version]
) -> None:
    _, run, version = first
    stages = stages_of(server, run["id"], len(version.stages))
    assert stages["read_posts"]["state"]["message"] == "189 rows · 2 filtered · 1 rejected"
    logs = [each["message"] for each in server.all("log") if each["flow_run_id"] == run["id"]]
    assert "read_posts begins: 1 part" in logs
    ended = "189 rows · 2 filtered · 1 rejected (1 empty post; 1 answer bot; 1 not a question or answer)"
    assert f"read_posts ended: {ended}" in logs
    tables = {each["key"]: each for each in server.all("artifact") if each["flow_run_id"] == run["id"]}
    assert {"kind": "rejected", "reason": "empty post", "rows": 1} in json.loads(tables["axioms-read-posts"]["data"])
    assert tables["axioms-build"]["type"] == "markdown"
    assert "v1" in tables["axioms-build"]["data"]


def test_a_stage_that_is_reused_is_one_task_run_of_that_name(
    server: Server, first: tuple[Path, dict[str, Any], Version]
) -> None:
    home, _, version = first
    run = Run(server, "COMPLETED")
    built(server, home, "--version", "v2", "--set", "utilization_above=0.36")
    found = run.found()
    stages = stages_of(server, found["id"], len(version.stages))
    reused = {name for name, task in stages.items() if task["state"]["name"] == "Reused"}
    made = stages.keys() - reused
    views = {"view_as_chats", "draw_one_a_question", "view_as_texts"}
    sealing = {"list_generated", "find_generated_copies", "find_grounded_copies"}
    compared = {"list_evaluation_texts", "decontaminate"}
    validated = {"pair_for_validation", "assemble_validation_pairs", "sample_validation"}
    assert made == {"combine_answers", "pair_combined", "assemble_pairs", *sealing, *compared, *validated, *views}
    parts = [task["name"].split()[0] for task in tasks_of(server, found["id"]) if task["name"] not in stages]
    assert set(parts) <= made


# ---------------------------------------------------------------- what goes wrong


def test_a_failed_build_is_retried_by_prefect_and_does_only_what_is_missing(server: Server, tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "tea.stackexchange.com" / "Posts.xml", 100_000, seed=7).path
    home = tmp_path / "home"
    with serve(faults={"401": 1.0}) as model:
        run = Run(server, "FAILED")
        settings = [f"dump={dump}", "model=mine", f"endpoints.mine.base_url={model.url}", "endpoints.mine.model=m"]
        built(server, home, *(word for each in settings for word in ("--set", each)), code=3)
        found = run.found()
        stages = stages_of(server, found["id"], 10)
        failed = {name: task["state"]["message"] for name, task in stages.items() if task["state"]["type"] == "FAILED"}
        refused = {name for name, message in failed.items() if "refused" in message}
        assert refused  # those that began before the first of them failed
        assert refused <= {"answer_closed_book", "answer_open_book", "combine_answers"}
        assert stages["select_questions"]["state"]["type"] == "COMPLETED"
        assert "RolledBack" not in {task["state"]["name"] for task in tasks_of(server, found["id"])}
        made = {path: path.stat().st_mtime_ns for path in home.glob("stages/*/parts/*/part.json")}
        model.set_faults({})
        command = [PREFECT, "--no-prompt", "flow-run", "retry", found["id"], "--entrypoint", "flows/deployed.py:axioms"]
        done = subprocess.run(command, cwd=ROOT, env=server.environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    wait_for(lambda: _state(server, found["id"]) == "COMPLETED", seconds=600)
    assert {path: path.stat().st_mtime_ns for path in made} == made
    assert len(versions(home, "axioms")) == 1


def test_a_run_that_a_gate_refused_ends_failed_with_its_sentence_and_is_not_retried(
    server: Server, tmp_path: Path
) -> None:
    dump = write_dump(tmp_path / "tea.stackexchange.com" / "Posts.xml", 500_000, seed=7).path
    home = tmp_path / "home"
    with serve(faults={"refusal": 1.0}) as model:
        run = Run(server, "FAILED")
        settings = [f"dump={dump}", "model=mine", f"endpoints.mine.base_url={model.url}", "endpoints.mine.model=m"]
        done = built(server, home, *(word for each in settings for word in ("--set", each)), code=7)
        found = run.found()
        asked = _asked(model)
    sentence = done.stderr.splitlines()[-1]
    assert re.match(r"\w+: 2\d of its first 2\d replies decline \(ceiling 10 %\), e\.g\. \"", sentence)
    state = next(each["state"] for each in server.all("flow_run") if each["id"] == found["id"])
    assert state["message"] == sentence
    assert found["run_count"] == 1
    assert asked <= 3 * 30 + 3
    assert not (home / "datasets" / "axioms").exists()


def _state(server: Server, run: str) -> str:
    return next(str(each["state_type"]) for each in server.all("flow_run") if each["id"] == run)


def _asked(model: Model) -> int:
    return sum(model.counters()["requests"].values())


def test_a_run_that_is_cancelled_ends_so_and_asks_no_model_any_more(server: Server, tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "tea.stackexchange.com" / "Posts.xml", 300_000, seed=7).path
    home, run = tmp_path / "home", Run(server, "RUNNING")
    with serve(latency_seconds=0.2) as model:
        settings = [f"dump={dump}", "model=mine", f"endpoints.mine.base_url={model.url}", "endpoints.mine.model=m"]
        settings += ["endpoints.mine.concurrency=2"]
        command = [LONGFORM, "build", "axioms", "--home", str(home)]
        command += [word for each in settings for word in ("--set", each)]
        build = subprocess.Popen(command, env=server.environment, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: _asked(model) > 10, seconds=600)
        found = run.found()
        done = server.prefect("flow-run", "cancel", found["id"])
        assert done.returncode == 0, done.stderr
        _, said = build.communicate(timeout=600)
        asked = _asked(model)
        assert not psutil.pid_exists(build.pid)
    assert build.returncode != 0
    assert "ancelled" in said.splitlines()[-1]
    assert _state(server, found["id"]) == "CANCELLED"
    version, worked, _ = build_axioms(home, dump=dump)
    assert version is not None
    assert "read_posts" not in worked.begun
    assert asked < 1_000
