"""Arguments and options that commands share, and look-ups for them: versions, their summaries, configurations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from flows.builds import completion
from flows.builds.options import Options, flag
from flows.builds.options import amount as amount
from flows.registry import DATASETS, checked_name, config_class
from longform.llm.retry import EVERY
from longform.settings import home as home_of


def _nearest_home(context: typer.Context, home: Path | None) -> Path | None:
    """The value of --home after the command; if it is not given there, that of --home before the command, or before
    the group of commands (or None).
    """
    before: Any = context.parent
    while home is None and before is not None:
        home, before = before.params.get("home"), before.parent
    return home


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


def home_of_group(home: Home = None) -> None:
    """Options between a group's name and its command; `--home` may also stand before and after these."""


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
RETRY = "--retry-errors"


class Retrying(TyperCommand):
    """A command whose option --retry-errors may stand alone or before one or two words: a stage and a reason."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_one_value(args))


def with_one_value(words: list[str]) -> list[str]:
    """The words of a command line in which each --retry-errors has one value: `all`, `STAGE` or `STAGE:REASON`, made of
    up to two words that follow it. Neither an option nor the name of a dataset is one of these.
    """
    found, remaining = [], list(words)
    while remaining:
        word = remaining.pop(0)
        if word == RETRY:
            own: list[str] = []
            while remaining and len(own) < 2 and not remaining[0].startswith("-") and remaining[0] not in DATASETS:
                own.append(remaining.pop(0))
            word = f"{RETRY}={':'.join(own) or EVERY}"
        found.append(word)
    return found


MaxCost = Annotated[float | None, flag("max_cost")]
Yes = Annotated[bool, typer.Option("--yes", help="go on without asking, whatever it costs")]
PlanOnly = Annotated[bool, typer.Option("--plan", help="show what would be asked, and the price; send nothing")]
RetryErrors = Annotated[bool, typer.Option("--retry-errors", help="ask again where the stored reply is of no use")]
PromptsFolder = Annotated[
    str | None, typer.Option("--prompts", metavar="DIR", help="folder whose files take the place of those in prompts/")
]


def version_at(address: str, home: Path | None) -> tuple[Any, Any]:
    """(the store of the home, the version) that `DATASET[@VERSION]` names, by default the latest. UsageError if there
    is no such dataset or version, StoreError if its manifest is damaged.
    """
    from longform.artifacts import versions
    from longform.artifacts.store import Store

    checked_name(address.partition("@")[0])
    root = home_of(home)
    return Store(root), versions.find(root, address)


def print_json(document: Any, indent: int | None = 2) -> None:
    """Print a JSON document, with control characters escaped. `indent` None: on one line."""
    from flows.builds.console import visible

    for line in json.dumps(document, indent=indent, ensure_ascii=False).split("\n"):
        print(visible(line))


def with_prompts(settings: list[str] | None, folder: str | None) -> list[str]:
    """The texts `key=value` of --set, followed by `prompts=FOLDER` if --prompts gives a folder."""
    return [*(settings or []), *([] if folder is None else [f"prompts={json.dumps(folder)}"])]


def read_options(
    dataset: str,
    config: Path | None,
    settings: list[str] | None,
    home: Path | None,
    limit: int | None,
    options: dict[str, Any],
) -> tuple[Any, Options]:
    """(the checked configuration of a dataset, the other options of a build) from what a command line gives: the file
    of --config, the texts of --set, --home, --limit (which wins over both), and the flags of `Options`. UsageError if
    a value is invalid.
    """
    from flows.config import configuration

    all_settings = list(settings or []) + ([f"limit={limit}"] if limit is not None else [])
    return configuration.read(dataset, config_class(dataset), config, all_settings), Options(home_of(home), **options)
