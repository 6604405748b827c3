"""A record that is taken down leaves every source's rows, and nothing else does."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import paths
import pytest
from axioms_builds import Silent

from flows.sources import SOURCES
from longform.artifacts import takedowns
from longform.artifacts.store import Store
from longform.engine.build import Build
from longform.engine.runners import ThreadRunner
from longform.engine.thread_tasks import SequentialStages
from longform.llm.models import Models

SAMPLES = paths.SAMPLES
FOLDERS = {"stackexchange": "community.example"}
SETTINGS: dict[str, dict[str, Any]] = {"papers": {"parser": "pdfium"}}
WITHOUT_FILES = {"url"}


def read(source: str, home: Path) -> tuple[str, dict[str, Any], set[tuple[str, str]]]:
    """(name of the key, rows of the first table by key, what was left out and why)."""
    module = import_module(f"flows.sources.{source}")
    store = Store(home)
    store.prepare()
    build = Build(
        store,
        tasks=SequentialStages(),
        runner=ThreadRunner(),
        progress=Silent(),
        models=Models(home / "responses.sqlite"),
    )
    try:
        rows = module.read(build, [SAMPLES / FOLDERS.get(source, source)], module.Read(**SETTINGS.get(source, {})))[0]
        left_out = {(stage.stage, reason) for stage in build.done for (_, reason) in stage.artifact.rejected()}
        return rows.key, {row[rows.key]: row for row in rows}, left_out
    finally:
        build.close()


@pytest.mark.parametrize("source", sorted(set(SOURCES) - WITHOUT_FILES))
def test_what_is_taken_down_leaves_the_rows_of_its_source(source: str, tmp_path: Path) -> None:
    key, before, _ = read(source, tmp_path)
    gone = sorted(before)[0]
    takedowns.add(tmp_path, [(gone, "2026-11-21", "asked for")])
    _, after, left_out = read(source, tmp_path)
    assert after == {name: row for name, row in before.items() if name != gone}, key
    assert "taken down" in {reason for _, reason in left_out}
