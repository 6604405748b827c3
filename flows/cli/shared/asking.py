"""What commands share that ask models and publish nothing: the price first, and files that are not overwritten."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from flows.cli.shared.arguments import print_json
from longform.errors import UsageError

if TYPE_CHECKING:
    from longform.artifacts.rows import Row
    from longform.engine.plan import Plan


def refuse_unwritable(to: Path | None) -> None:
    """Raise UsageError if `--to` names a file that is there, or one in a folder that is not there or not writable."""
    if to and to.exists():
        raise UsageError(f"--to {to} is there already: name another file, or move it away.")
    if to and not (to.parent.is_dir() and os.access(to.parent, os.W_OK)):
        raise UsageError(f"--to {to}: there is no folder {to.parent} that can be written to.")


def print_plan(planned: Plan, as_json: bool) -> None:
    """Print the plan of a build that publishes nothing, as a table or as JSON."""
    from flows.builds.console import console
    from flows.builds.plan_table import plan_foot, plan_table
    from longform.engine.plan import total

    if as_json:
        return print_json({"stages": [each.as_dict() for each in planned.stages], "total": total(planned.stages)})
    out = console()
    out.print(plan_table(planned.stages))
    for line in plan_foot(planned.stages, builds=False):
        out.print(line, soft_wrap=True)


def agree(planned: Plan, yes: bool) -> None:
    """Say what a command asks of real models and ask whether to go on, unless `yes` says so or it costs nothing.
    UsageError if nobody agrees: what would be asked is unknown or has a price, and no terminal is there to ask at.
    """
    from flows.builds.console import console
    from flows.builds.plan_table import plan_foot

    online = [each for each in planned.stages if each.endpoint and not each.offline and each.state != "reuse"]
    if yes or not any(each.calls is None or each.calls for each in online):
        return
    out = console(stderr=True)
    for line in plan_foot(planned.stages, builds=False):
        out.print(line, soft_wrap=True)
    if all(each.exact and each.usd_high == 0 for each in online):
        return
    if not sys.stdin.isatty():
        raise UsageError("Nothing was asked: see the price above (or --plan), and add --yes to go on.")
    if not typer.confirm("go on?", err=True):
        raise UsageError("Nothing was asked.")


def write_lines(to: Path, found: Iterable[Row]) -> None:
    """Write a line of JSON for each row."""
    from longform.files import write_bytes
    from tasks.publishing.exports import json_line

    write_bytes(to, b"".join(map(json_line, found)))
