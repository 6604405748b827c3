"""What the commands share: their arguments, and how a version is found and shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.builds import completion
from flows.builds.options import Options, flag
from flows.builds.options import amount as amount
from flows.registry import DATASETS, known, model_of


def _nearest_home(context: typer.Context, given: Path | None) -> Path | None:
    """What stands after the command, else what stands before it."""
    before: Path | None = context.find_root().params.get("home")
    return before if given is None else given


Dataset = Annotated[
    str, typer.Argument(metavar="DATASET", help=", ".join(DATASETS), autocompletion=completion.datasets)
]
Address = Annotated[
    str,
    typer.Argument(
        metavar="DATASET[@VERSION]", help="without a version: the latest", autocompletion=completion.addresses
    ),
]
Home = Annotated[Path | None, flag("home", callback=_nearest_home)]
Json = Annotated[bool, typer.Option("--json", help="print one JSON document")]
JsonLines = Annotated[bool, typer.Option("--json", help="print JSON lines: one document a row, each as it is read")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE.toml", help="settings; see `longform config`")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="one setting; wins over the file")
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=1, help="a pilot: at most N questions of each site or file, or cases"),
]
MaxCost = Annotated[float | None, flag("max_cost")]
PromptsFolder = Annotated[
    str | None, typer.Option("--prompts", metavar="DIR", help="folder whose files take the place of those in prompts/")
]


ROWS_AT_ONCE = 100


def version_at(address: str, home: Path | None) -> tuple[Any, Any]:
    from longform.artifacts import versions
    from longform.artifacts.store import Store
    from longform.settings import home as home_of

    known(address.partition("@")[0])
    root = home_of(home)
    return Store(root), versions.find(root, address)


def stage_rows(store: Any, version: Any, stage: str, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a stage of a version, read as they are asked for, all columns or these.

    UsageError where the version has no such stage, StoreError where its rows are gone or damaged.
    """
    from pyarrow import ArrowInvalid

    from longform.artifacts.rows import read_batches
    from longform.artifacts.versions import artifact
    from longform.errors import StoreError

    for part in artifact(store, version, stage).parts:
        try:
            for batch in read_batches(store.rows_path(part), ROWS_AT_ONCE, columns):
                yield from batch.to_pylist()
        except (OSError, ArrowInvalid) as error:
            raise StoreError(f"{store.part(part)} is damaged ({error}): build again with --force {stage}.") from None


def summary(version: Any) -> dict[str, Any]:
    """Rows of all configs; of further ones each split stands under `<config>/<split>`."""
    splits = dict(named_splits(version))
    return {
        "dataset": version.dataset,
        "version": version.name,
        "rows": sum(splits.values()),
        "splits": splits,
        "offline": version.manifest["offline"],
        "recipe": version.recipe,
    }


def named_splits(version: Any) -> Iterator[tuple[str, int]]:
    for number, (config, splits) in enumerate(version.configs.items()):
        for split, rows in splits.items():
            yield (f"{config}/{split}" if number else split), rows


def print_json(document: Any, indent: int | None = 2) -> None:
    from flows.builds.console import visible

    for line in json.dumps(document, indent=indent, ensure_ascii=False).split("\n"):
        print(visible(line))


def with_prompts(settings: list[str] | None, folder: str | None) -> list[str]:
    return [*(settings or []), *([] if folder is None else [f"prompts={json.dumps(folder)}"])]


def read_options(
    dataset: str,
    config: Path | None,
    settings: list[str] | None,
    home: Path | None,
    limit: int | None,
    options: dict[str, Any],
) -> tuple[Any, Options]:
    from flows.config import configuration
    from longform.settings import home as home_of

    given = list(settings or []) + ([f"limit={limit}"] if limit is not None else [])
    chosen = configuration.read(dataset, model_of(dataset), config, given)
    return chosen, Options(home_of(home), **options)


def splits_text(splits: dict[str, int]) -> str:
    return ", ".join(f"{name} {rows:,}" for name, rows in splits.items())
