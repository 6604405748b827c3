"""The installed wheel, without a checkout: it builds from its own samples and deploys its flows."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import paths
import pytest
import yaml
from ports import held_port
from prefect_server import Server, serving

from longform.artifacts.versions import find, versions

pytestmark = pytest.mark.check

ROOT = paths.ROOT
OPENED = """
import os, sys
OURS, NOTED = os.environ["CHECKOUT"] + os.sep, os.environ["NOTED"]

def note(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and arguments[0].startswith(OURS):
        if "site-packages" not in arguments[0]:
            with os.fdopen(os.open(NOTED, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "a") as file:
                file.write(arguments[0] + os.linesep)

sys.addaudithook(note)
"""


@dataclass
class Installed:
    """A Python environment with the wheel, which uses this environment's packages for its dependencies."""

    python: str
    environment: dict[str, str]
    noted: Path

    def run(self, folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **more}
        return subprocess.run(
            [self.python, "-m", *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
        )

    def opened_of_the_checkout(self) -> list[str]:
        return self.noted.read_text().splitlines() if self.noted.exists() else []


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    pytest.importorskip("hatchling")
    top = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(top)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(top / "venv")], check=True)
    [site] = (top / "venv").glob("lib/python*/site-packages")
    [wheel] = top.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (site / "dependencies.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    (site / "sitecustomize.py").write_text(OPENED)
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "LONGFORM", "PYTHONPATH"))
    }
    given = {"PREFECT_HOME": str(top / "prefect"), "CHECKOUT": str(ROOT), "NOTED": str(top / "opened")}
    return Installed(str(top / "venv" / "bin" / "python"), {**kept, **given}, top / "opened")


def test_a_build_in_an_empty_folder_finds_samples_and_prompts(installed: Installed, tmp_path: Path) -> None:
    done = installed.run(tmp_path, "flows.cli.main", "build", "axioms", "--limit", "20")
    assert done.returncode == 0, done.stderr
    version = find(tmp_path / "data", "axioms")
    assert list(version.folder.glob("train/*.parquet"))
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert installed.opened_of_the_checkout() == []
    assert (ROOT / "prompts" / "axioms" / "open_book.md").exists(), "else nothing could have been opened"


@pytest.mark.parametrize("dataset", ["expertqa", "kiwi", "llmcrit", "revision-distance"])
def test_the_other_datasets_have_a_plan_there(installed: Installed, tmp_path: Path, dataset: str) -> None:
    done = installed.run(tmp_path, "flows.cli.main", "plan", dataset)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_deployments_of_the_wheel_are_written_once(installed: Installed, tmp_path: Path) -> None:
    folder = tmp_path / 'a "folder"'
    folder.mkdir()
    done = installed.run(folder, "flows.cli.main", "prefect", "init")
    assert (done.returncode, done.stderr) == (0, "")
    written, source = (yaml.safe_load((path / "prefect.yaml").read_text()) for path in (folder, ROOT))
    assert written["pull"] == [{"prefect.deployments.steps.set_working_directory": {"directory": str(folder)}}]
    assert all(each["entrypoint"].startswith("flows.") for each in written["deployments"]), "modules, not files"
    assert {**written, "pull": None} == {**source, "pull": None}
    again = installed.run(folder, "flows.cli.main", "prefect", "init")
    assert again.returncode == 2
    assert "prefect.yaml is there already: move it away, or run this in another folder." in again.stderr
    assert again.stderr.count("\n") == 1


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "prefect").mkdir()
    with held_port() as port:
        yield from serving(port, tmp_path / "prefect")


def test_a_worker_builds_what_the_wheel_deployed(installed: Installed, server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    reached = {name: server.environment[name] for name in ("PREFECT_HOME", "PREFECT_API_URL")}

    def typed(*words: str) -> None:
        done = installed.run(folder, *words, **reached)
        assert done.returncode == 0, done.stdout + done.stderr

    typed("flows.cli.main", "prefect", "init")
    typed("prefect", "--no-prompt", "work-pool", "create", "local", "--type", "process")
    typed("prefect", "--no-prompt", "deploy", "--all")
    deployments = server.all("deployment")
    for deployment in deployments:
        server.pause(deployment["id"])
    written = yaml.safe_load((folder / "prefect.yaml").read_text())["deployments"]
    assert len(deployments) == len(written)
    name = next(each["name"] for each in written if each["entrypoint"].endswith(".axioms"))
    config = '--param=config={"model": "offline", "limit": 5}'
    typed("prefect", "--no-prompt", "deployment", "run", f"axioms/{name}", config, "--param=version=five")
    typed("prefect", "--no-prompt", "worker", "start", "--pool", "local", "--type", "process", "--run-once")
    [run] = server.all("flow_run")
    assert run["state"]["name"] == "Completed", run["state"]
    assert [version.name for version in versions(folder / "data", "axioms")] == ["five"]
    assert installed.opened_of_the_checkout() == []
