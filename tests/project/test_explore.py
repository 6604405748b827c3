"""docs/explore.ipynb runs in a kernel over two versions built from the samples; docs/loading.md does as well."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Any

import nbformat
import paths
import pytest
from axioms_builds import build_axioms

pytestmark = pytest.mark.check

NOTEBOOK = paths.ROOT / "docs" / "explore.ipynb"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `data` holds two versions of the axioms dataset."""
    folder = tmp_path_factory.mktemp("explore")
    build_axioms(folder / "data", "2026.11.20")
    build_axioms(folder / "data", "five", neighbours=5)
    return folder


@pytest.fixture(scope="module")
def executed(folder: Path) -> list[list[Any]]:
    """The outputs of each code cell of the notebook."""
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(folder)}})
    client.execute(env={**os.environ, "PYTHONPATH": paths.PYTHONPATH, "HOME": str(folder), "LONGFORM_HOME": "data"})
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


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


def test_the_page_on_loading_can_be_typed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(folder))
    found: dict[str, Any] = {}
    page = (paths.ROOT / "docs" / "loading.md").read_text()
    with contextlib.chdir(folder):
        for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
            exec(compile(block, "docs/loading.md", "exec"), found)
    assert found["pairs"].equals(found["train"])
    assert str(found["test"].dtypes["margin"]) == "double[pyarrow]"
    assert found["kept"].num_rows == 33
    assert list(found["rows"]["pair_id"]) == found["chats"]["pair_id"].to_pylist()
    assert found["rows"][0]["prompt"][0]["role"] == "user"
    assert list(found["tables"]["Questions by axiom (table 7 of the paper)"]["questions paper"])[:2] == [5_500, 905_000]


def test_what_the_page_of_the_dataset_says_to_trainers_can_be_typed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(folder))
    (code,) = re.findall(r"```python\n(.*?)```", (paths.ROOT / "docs" / "axioms.md").read_text(), re.DOTALL)
    found: dict[str, Any] = {}
    with contextlib.chdir(folder):
        exec(compile(code, "docs/axioms.md", "exec"), found)
    questions = set(found["train"]["question_id"])
    assert sorted(found["one"]["question_id"]) == sorted(questions)
    assert sorted(found["three"]["question_id"]) == sorted([*questions] * 3), "each has more than three pairs"
    assert 0 < len(found["train"]) - len(found["whole"]) < 20
    assert set(found["grounded"]["axiom"]) == {2, 3}
