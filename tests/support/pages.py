"""Runs the commands printed on pages of docs/, in their order."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import paths
from axioms_builds import Silent

from flows.builds.building import Options, build
from flows.config import configuration
from longform.engine.thread_tasks import SequentialStages

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def page(name: str) -> str:
    return (paths.ROOT / "docs" / f"{name}.md").read_text()


def commands(page: str) -> list[str]:
    blocks = [block for language, block in BLOCK.findall(page) if not language]
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    assert all(line.startswith("longform ") for line in lines)
    return lines


def typed(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = shlex.quote(str(Path(sys.executable).parent / "longform"))
    words = f"{program} {line.removeprefix('longform ')}"
    return subprocess.run(words, shell=True, cwd=folder, text=True, capture_output=True, timeout=600)


def built(line: str, model: Any, folder: Path) -> None:
    """Make a printed build by its settings, without Prefect; the whole command is run by the test of its flow."""
    _, _, dataset, *words = shlex.split(line)
    settings = words[1::2]
    assert words[::2] == ["--set"] * len(settings)
    config = configuration.read(dataset, model, None, settings)
    build(dataset, config, Options(folder / "data"), tasks=SequentialStages(), progress=Silent())
