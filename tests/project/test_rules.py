"""The rules of the project: no private parts of others, no mock, small folders, a library that knows no dataset."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import paths
import pytest

from flows.registry import DATASETS

ROOT = paths.ROOT
SLOW = re.compile(
    "(argilla|datasets|flows.deployed|label_studio_sdk|mlcroissant|nbclient|nltk|polars|prefect|rouge_score|scipy|sklearn"
    r"|spacy|statsmodels)(\.|$)"
)
RUFF = str(Path(sys.executable).with_name("ruff"))


def found(code: str, path: str) -> set[str]:
    """The rules that code would break as the file at `path`."""
    command = [RUFF, "check", "--no-cache", "--output-format", "concise", "--stdin-filename", path, "-"]
    done = subprocess.run(command, input=code, cwd=ROOT, text=True, capture_output=True)
    return {line.split()[1] for line in done.stdout.splitlines() if line.startswith(path)}


@pytest.mark.parametrize("folder", ["flows", "tasks", "longform", "longform/llm", "schemas", "benchmarks"])
def test_private_parts_of_another_package_are_refused(folder: str) -> None:
    assert "SLF001" in found("import atexit\n\natexit._run_exitfuncs()\n", f"{folder}/new.py")
    assert (
        found("from typing import Any\n\n\ndef f(row: Any) -> Any:\n    return row._replace(a=1)\n", "tasks/a.py")
        == set()
    )


@pytest.mark.parametrize("line", ["from unittest.mock import patch", "from unittest import mock", "import mock"])
@pytest.mark.parametrize("folder", ["flows", "tasks", "longform", "schemas", "tests"])
def test_mock_is_refused(folder: str, line: str) -> None:
    assert "TID251" in found(f"{line}\n", f"{folder}/new.py")


def test_no_folder_holds_more_than_15_modules() -> None:
    tops = ("flows", "tasks", "longform", "schemas", "prompts", "tests")
    modules = [path for top in tops for path in (ROOT / top).rglob("*.py") if path.name != "__init__.py"]
    counted = Counter(str(path.parent.relative_to(ROOT)) for path in modules)
    assert {folder: number for folder, number in counted.items() if number > 15} == {}


def test_the_library_names_no_dataset() -> None:
    names = re.compile("|".join(re.sub("[_-]", "[_ -]", name) for name in DATASETS), re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in (ROOT / "longform").rglob("*.py")
        for line in path.read_text().splitlines()
        if names.search(line)
    ]
    assert found == []


def test_collecting_the_quick_tests_imports_no_package_that_takes_a_second() -> None:
    quick = (
        path for path in (ROOT / "tests").rglob("test_*.py") if "pytestmark = pytest.mark.check" not in path.read_text()
    )
    imported = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in quick
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None) or node.names[0].name]
        if SLOW.match(name)
    }
    assert imported == set()


def test_what_runs_seldom_is_there() -> None:
    tests = ROOT / "tests"
    for name, functions in tomllib.loads((tests / "seldom.toml").read_text()).items():
        written = (tests / name).read_text()
        assert [function for function in functions if f"def {function}(" not in written] == [], name
