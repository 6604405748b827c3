"""Completions at the Tab key: names of datasets, versions, stages and sources, found without opening Parquet files."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from flows.registry import DATASETS, stages_of


def datasets(incomplete: str) -> list[str]:
    """Datasets whose names begin with the typed text."""
    return [name for name in DATASETS if name.startswith(incomplete)]


def addresses(context: typer.Context, incomplete: str) -> list[str]:
    """Each dataset, and each `dataset@version` in the home, that begins with the typed text."""
    folders = {dataset: _versions(context, dataset) for dataset in DATASETS}
    names = [name for dataset in DATASETS for name in (dataset, *(f"{dataset}@{f.name}" for f in folders[dataset]))]
    return [name for name in names if name.startswith(incomplete)]


def stages(context: typer.Context, incomplete: str) -> list[str]:
    """Stages whose names begin with the typed text, of the first dataset among the words typed before; empty if there
    is none. They are those of its last published version by name, whichever version was typed, or, without a readable
    one, those of its flow.
    """
    words = [word.partition("@")[0] for word in (*context.params.values(), *context.args) if isinstance(word, str)]
    dataset = next((word for word in words if word in DATASETS), None)
    if dataset is None:
        return []
    found = _published_stages(context, dataset) or list(stages_of(dataset))
    return [name for name in found if name.startswith(incomplete)]


def sources(incomplete: str) -> list[str]:
    """Sources whose names begin with the typed text."""
    from flows.sources import SOURCES

    return [name for name in SOURCES if name.startswith(incomplete)]


def _versions(context: typer.Context, dataset: str) -> list[Path]:
    """The folders of a dataset's versions in the home of the command line, sorted by name."""
    from longform.settings import home

    return sorted((home(context.params.get("home")) / "datasets" / dataset).glob("[!.]*"))


def _published_stages(context: typer.Context, dataset: str) -> list[str]:
    """The stages in the manifest of the dataset's last version by name whose manifest is readable; empty if there is
    none.
    """
    for folder in reversed(_versions(context, dataset)):
        try:
            return list(json.loads((folder / "manifest.json").read_bytes())["stages"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return []
