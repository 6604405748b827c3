"""The rules of the project that a linter keeps: no private parts of others, no mock."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import paths
import pytest

ROOT = paths.ROOT
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
