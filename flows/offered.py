"""The datasets there are: name -> module. Read before anything heavy is imported."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

DATASETS = {
    "axioms": "flows.axioms",
    "expertqa": "flows.expertqa",
    "revision-distance": "flows.revision_distance",
}


def module_of(dataset: str) -> ModuleType:
    """A dataset's module: `rebuild`, `about`, `ABOUT`, `STAGES`, and where it has its own `telling_row` and `trace`."""
    return import_module(DATASETS[dataset])
