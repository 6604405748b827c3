"""What the commands share: their arguments, and how a version is found and shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.offered import DATASETS, module_of

Dataset = Annotated[str, typer.Argument(metavar="DATASET", help=", ".join(DATASETS))]
Address = Annotated[str, typer.Argument(metavar="DATASET[@VERSION]", help="without a version: the latest")]
Home = Annotated[
    Path | None, typer.Option("--home", metavar="DIR", help="where everything is kept; else LONGFORM_HOME, else ./data")
]
Json = Annotated[bool, typer.Option("--json", help="print one JSON document")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE.toml", help="settings; see `longform config`")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="one setting; wins over the file")
]
VersionName = Annotated[str | None, typer.Option("--version", metavar="NAME", help="else today's date")]
Limit = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=1, help="a pilot: at most N questions of each site or file, or cases"),
]
Until = Annotated[str | None, typer.Option("--until", metavar="STAGE", help="stop after this stage, publish nothing")]
Force = Annotated[
    str | None, typer.Option("--force", metavar="STAGE", help="make this stage again even if it is there")
]
MaxCost = Annotated[float | None, typer.Option("--max-cost", metavar="USD", help="stop before more than this is spent")]
RetryErrors = Annotated[
    bool, typer.Option("--retry-errors", help="ask again what a model could not answer (rejected rows `model: …`)")
]
PromptsFolder = Annotated[
    str | None, typer.Option("--prompts", metavar="DIR", help="folder whose files take the place of those in prompts/")
]


def known(dataset: str) -> str:
    import difflib

    from longform.errors import UsageError

    if dataset not in DATASETS:
        near = difflib.get_close_matches(dataset, DATASETS, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"there is {', '.join(DATASETS)}."
        raise UsageError(f'There is no dataset "{dataset}"; {hint}')
    return dataset


def amount(usd: float | None) -> float | None:
    from longform.errors import UsageError

    if usd is not None and not 0 <= usd < 1e9:
        raise UsageError(f"--max-cost {usd} is no amount of US dollars: give a number, e.g. 50 or 0.5.")
    return usd


def model_of(dataset: str) -> Any:
    """The configuration model of a dataset: what its `rebuild` takes."""
    import inspect

    rebuild = module_of(known(dataset)).rebuild
    return inspect.signature(rebuild, eval_str=True).parameters["config"].annotation


def version_at(address: str, home: Path | None) -> tuple[Any, Any]:
    from longform import versions
    from longform.settings import home as home_of
    from longform.store import Store

    known(address.partition("@")[0])
    root = home_of(home)
    return Store(root), versions.find(root, address)


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
    from flows.console import visible

    for line in json.dumps(document, indent=indent, ensure_ascii=False).split("\n"):
        print(visible(line))


def with_prompts(settings: list[str] | None, folder: str | None) -> list[str]:
    return [*(settings or []), *([] if folder is None else [f"prompts={json.dumps(folder)}"])]


def read_options(
    dataset: str,
    config: Path | None,
    settings: list[str] | None,
    version: str | None,
    home: Path | None,
    limit: int | None,
    until: str | None,
    force: str | None,
) -> tuple[Any, Any]:
    from flows import configuration
    from flows.building import Options
    from longform.settings import home as home_of

    given = list(settings or []) + ([f"limit={limit}"] if limit is not None else [])
    chosen = configuration.read(dataset, model_of(dataset), config, given)
    return chosen, Options(home_of(home), version, until, force)


def splits_text(splits: dict[str, int]) -> str:
    return ", ".join(f"{name} {rows:,}" for name, rows in splits.items())
