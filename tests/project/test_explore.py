"""docs/explore.ipynb runs in a kernel of its own over two versions built from the samples, and shows what it says."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import nbformat
import paths
import pytest
from axioms_builds import build_axioms
from nbclient import NotebookClient

NOTEBOOK = paths.ROOT / "docs" / "explore.ipynb"


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    """The outputs of each code cell."""
    folder = tmp_path_factory.mktemp("explore")
    build_axioms(folder / "home", "ten")
    build_axioms(folder / "home", "five", neighbours=5)
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(folder)}})
    client.execute(env=environment(folder))
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": paths.PYTHONPATH, "LONGFORM_HOME": str(folder / "home"), "HOME": str(folder)}


def text_of(outputs: list[Any]) -> str:
    return "".join(output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in outputs)


def test_the_notebook_is_stored_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")


def test_ten_rows_a_trace_two_plots_a_table_and_a_comparison_are_shown(executed: list[list[Any]]) -> None:
    _, rows, trace, *plots, table, stages, splits = executed
    assert len(re.findall(r"<th>\d+</th>", rows[-1]["data"]["text/html"])) == 10
    assert "corrupt" in text_of(trace)
    assert "CC BY-SA" in text_of(trace)
    assert ["image/png" in outputs[-1]["data"] for outputs in plots] == [True, True]
    assert "905000" in text_of(table)
    assert "find_related" in text_of(stages)
    assert "k: 10 -> 5" in text_of(stages)
    assert "train" in text_of(splits)
    assert not [output for outputs in executed for output in outputs if output.get("name") == "stderr"]
