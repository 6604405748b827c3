"""What commands that are no builds, but may cost money, show and ask before they do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from flows.cli.shared.arguments import print_json
from longform.errors import UsageError

if TYPE_CHECKING:
    from longform.engine.plan import Plan


def print_plan(planned: Plan, as_json: bool) -> None:
    """Print a plan, as a table or as JSON."""
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
