"""What tests of the response stores share: a disk that is soon full, and a PostgreSQL of their own that may die."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgresql import Server, running


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "toy", str(folder)], capture_output=True).returncode:
        pytest.skip("only root may mount the small disk that this test needs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def dying() -> Iterator[Server]:
    with running() as server:
        yield server
