"""Commands printed in README and docs run, and do what the text says."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import paths
import pytest
import yaml

from longform.artifacts.versions import find, versions

pytestmark = pytest.mark.check

ROOT = paths.ROOT
README = (ROOT / "README.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
DEPLOYMENTS = (ROOT / "prefect.yaml").read_text()
NOT_TYPED = ("longform build", "longform.", "longform standin", "longform serve")  # the last two serve on
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(longform [^`]+)`")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the README's build commands were run, in order."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "draft.txt").write_text("Tea is old. Cups are round.")
    (folder / "final.txt").write_text("Cups are round. Tea is old.")
    (folder / "drafts.jsonl").write_text('{"draft": "Tea is old.", "reference": "Tea is new."}\n')
    (folder / "criteria.md").write_text("1. **Subject**: Does it begin with its subject?\n2. **End**: Does it end?\n")
    (folder / "notes").mkdir()
    (folder / "notes" / "lamps.md").write_text(
        "# Lamps\n\nLamps of a town use half of the current when it replaces old ones.\n"
    )
    for line in commands():
        done = typed(line, folder)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return folder


def commands() -> list[str]:
    lines = [line for language, text in BLOCK.findall(README) if not language for line in text.splitlines()]
    return [line.split("  #")[0].strip() for line in lines if line.startswith("longform ")]


def typed(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    return subprocess.run(line, shell=True, cwd=folder, env=environment, text=True, capture_output=True, timeout=600)


def test_the_build_commands_leave_what_the_readme_promises(folder: Path) -> None:
    assert len(commands()) == 7
    version = find(folder / "data", "axioms")
    promised = re.findall(r"^    (\S+(?:  \S+)*)", BLOCK.findall(README)[1][1], re.MULTILINE)
    for name in " ".join(promised).split():
        assert list(version.folder.glob(name)), name


def test_every_command_of_the_readme_can_be_typed(folder: Path) -> None:
    names = [version.name for version in versions(folder / "data", "axioms")]
    assert len(names) == 2, "the pilot and the whole"
    typed_lines = set()
    for line in [command for text in INLINE.findall(README) for command in text.split("` · `")]:
        if "…" in line or line.startswith(NOT_TYPED):
            continue
        line = line.replace("axioms@A", f"axioms@{names[0]}").replace("axioms@B", f"axioms@{names[1]}")
        line = line.replace("p_8c1f", first_pair(folder, names[1]))
        done = typed(line, folder)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        assert done.stdout.strip(), line
        typed_lines.add(line.split()[1])
    assert {"ls", "rejects", "trace", "diff", "verify", "withdraw"} <= typed_lines


def first_pair(folder: Path, version: str) -> str:
    import pyarrow.parquet as pq

    table = pq.read_table(folder / "data" / "datasets" / "axioms" / version / "train", columns=["pair_id"])
    return str(table["pair_id"][0])


def test_the_python_of_the_readme_runs(folder: Path) -> None:
    (code,) = [text for language, text in BLOCK.findall(README) if language == "python"]
    environment = {**os.environ, "LONGFORM_HOME": str(folder / "data")}
    check = "\nassert train.num_rows and negatives.num_rows"
    subprocess.run([sys.executable, "-c", code + check], env=environment, check=True)


def test_the_commands_of_operations_are_targets_and_deployments_that_exist() -> None:
    block = next(text for language, text in BLOCK.findall(OPERATIONS) if "prefect" in text)
    targets = re.findall(r"^make (\w+)", block, re.MULTILINE)
    assert targets == ["server", "worker"]
    assert all(re.search(rf"^{target}:", MAKEFILE, re.MULTILINE) for target in targets)
    deployments = yaml.safe_load(DEPLOYMENTS)["deployments"]
    there = {f"{each['entrypoint'].rpartition('.')[2].replace('_', '-')}/{each['name']}" for each in deployments}
    assert set(re.findall(r"^prefect deployment run (\S+)", block, re.MULTILINE)) <= there
    assert set(re.findall(r"`([\w-]+/[\w-]+)`", OPERATIONS)) & there == there


def test_what_make_does_for_a_worker_is_what_prefect_yaml_says() -> None:
    names = {"$(PREFECT)": "prefect", "$(BIN)/": "", "$(LIMIT)": "2"}
    recipes = functools.reduce(lambda text, name: text.replace(name, names[name]), names, MAKEFILE)
    output = re.findall(r"^#   ((?:prefect|longform) .*?)(?:   *#.*)?$", DEPLOYMENTS, re.MULTILINE)
    by_hand = {"prefect config set PREFECT_API_URL=http://127.0.0.1:4200/api", "prefect deployment run axioms/nightly"}
    assert by_hand < set(output)
    for command in set(output) - by_hand:
        assert command.replace("--no-prompt ", "") in recipes


def test_the_pins_name_no_index() -> None:
    assert not re.search(r"://|--index|--find-links|@", (ROOT / "constraints.txt").read_text())


def test_every_file_that_the_page_on_architecture_names_is_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"[\w/]+\.(?:py|md)\b", page.replace("<dataset>", "axioms")))
    there = [
        f"/{path.relative_to(ROOT)}"
        for top in ("flows", "longform", "tasks", "schemas", "prompts", "tests/project")
        for path in (ROOT / top).rglob("*.*")
    ]
    assert len(named) > 30
    assert not [name for name in named if not any(path.endswith(f"/{name}") for path in there)]
