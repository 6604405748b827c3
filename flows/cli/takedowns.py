"""Commands about takedowns: adding and listing records that must not be used."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.shared.arguments import Home, Json, home_of_group, print_json
from longform.settings import home as home_of

app = typer.Typer()
takedowns = typer.Typer(
    no_args_is_help=True,
    callback=home_of_group,
    help="List records that must not be used, and add to them.",
)
app.add_typer(takedowns, name="takedowns")


@takedowns.command("add")
def add_takedowns(
    records: Annotated[list[str] | None, typer.Argument(metavar="ID|URL…", help="upstream ids or permalinks")] = None,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="why; must be given")] = None,
    date: Annotated[str | None, typer.Option("--date", metavar="YYYY-MM-DD", help="of the request; else today")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE.jsonl", help="more of them: id, reason and date a line")
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Take records down: builds leave them out, responses made from them go, versions that hold them are named."""
    from datetime import UTC, datetime

    from flows.cli.shared import takedown_effects as effects
    from longform.artifacts import takedowns as listed

    root = home_of(home)
    requested = effects.wanted(root, records or [], file, reason, date or f"{datetime.now(UTC):%Y-%m-%d}")
    new, listed_before = listed.add(root, requested)
    ids = [record for record, _, _ in requested]
    holders, reached = effects.holders(root, ids), effects.reached(root, ids)
    forgotten = effects.forget_parsed(root, ids)
    if not as_json:
        _say_listed(new, listed_before)
        print(*reached.sentences({hit.id for holder in holders for hit in holder.hits}), sep="\n")
        _say_held(holders)
    purged = effects.purge_responses(root, ids)
    if as_json:
        added = {"added": [asdict(entry) for entry in new], "known": [asdict(entry) for entry in listed_before]}
        return print_json(
            {
                **added,
                "rows": reached.rows,
                "other_versions": reached.versions,
                "versions": [effects.described(entry) for entry in holders],
                "purged": purged,
                "parsed": forgotten,
            }
        )
    print(f"{purged:,} stored responses that were made from them were purged; what was paid stays in the ledger.")
    if forgotten:
        print(f"Results of PDF parsers deleted: {forgotten:,}.")
    print(
        "The next build or read leaves them out. Dumps, the parts read from them, and what `read --to` wrote before"
        " still hold them: docs/data-policy.md."
    )


def _say_listed(new: list[Any], listed_before: list[Any]) -> None:
    """Print the new takedowns, and those that were listed before."""
    for state, takedowns in (("taken down", new), ("listed before", listed_before)):
        for takedown in takedowns:
            print(f"{state:<13}  {takedown.id}   {takedown.date}   {takedown.reason}")


def _say_held(holders: list[Any]) -> None:
    """Print a line for each published version that contains taken-down records: up to three of their ids, the columns,
    and the command that removes the version. If there is no such version, a line that says so.
    """
    if not holders:
        print("No published version names them.")
    for holder in holders:
        records = sorted({hit.id for hit in holder.hits})
        columns = ", ".join(sorted({hit.column for hit in holder.hits}))
        names = f"{', '.join(records[:3])}{f' and {len(records) - 3:,} more' if len(records) > 3 else ''}"
        print(f"{holder.dataset} {holder.version} holds {names} (in {columns}); build again, then: {holder.withdraw}")


@takedowns.command("list")
def list_takedowns(home: Home = None, as_json: Json = False) -> None:
    """List the records that must not be used, in the order they were added."""
    from flows.builds.console import console, table
    from longform.artifacts.takedowns import load

    found = load(home_of(home))
    if as_json:
        return print_json([asdict(takedown) for takedown in found])
    if not found:
        return print("Nothing is taken down.")
    columns = {"record": "", "date": "", "reason": "", "added": ""}
    console().print(
        table(columns, [(takedown.id, takedown.date, takedown.reason, takedown.added_at) for takedown in found])
    )
