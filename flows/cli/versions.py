"""Commands about published versions: their stages, rows and origins; comparing, checking and removing them."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import typer

from flows.builds import completion
from flows.cli.shared.arguments import Address, Home, Json, JsonLines, print_json, version_at
from flows.registry import DATASETS, checked_name
from longform.errors import UsageError
from longform.settings import home as home_of

app = typer.Typer()
ROWS_SHOWN = 20


@app.command("ls")
def list_versions(
    dataset: Annotated[str | None, typer.Argument(metavar="[DATASET]", autocompletion=completion.datasets)] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List the published versions."""
    from flows.builds.console import console, table
    from flows.inspection.describe import splits_text, summary
    from longform.artifacts import versions

    root = home_of(home)
    names = [checked_name(dataset)] if dataset else versions.datasets(root)
    rows = [summary(version) for name in names for version in versions.versions(root, name)]
    if as_json:
        return print_json(rows)
    if not rows:
        print(f"No version in {root}. Build one: longform build {dataset or next(iter(DATASETS))}")
        return None
    columns = {"dataset": "", "version": "", "rows": "right", "splits": "", "": "", "recipe": ""}
    cells = [
        (
            r["dataset"],
            r["version"],
            r["rows"],
            splits_text(r["splits"]),
            "offline" if r["offline"] else "",
            r["recipe"][:12],
        )
        for r in rows
    ]
    console().print(table(columns, cells))


@app.command()
def show(address: Address, home: Home = None, as_json: Json = False) -> None:
    """Show a version's stages: fingerprints, rows in and out, left out by reason, duration; its models and gates."""
    from flows.builds.building import gate_lines, served_lines
    from flows.builds.console import console, table
    from flows.inspection.describe import KIND_NAMES, describe, summary

    store, version = version_at(address, home)
    stages = describe(store, version)
    if as_json:
        return print_json(
            {
                **summary(version),
                "folder": str(version.folder),
                "stages": stages,
                "gates": version.manifest.get("gates", []),
                "served": version.manifest.get("served", []),
            }
        )
    out = console()
    mark = "   holds rows of the offline model" if version.manifest["offline"] else ""
    out.print(f"{version.dataset} {version.name}   recipe {version.recipe}{mark}\n{version.folder}\n")
    columns = {
        "stage": "",
        "fingerprint": "",
        "in": "right",
        "out": "right",
        "filtered": "right",
        "rejected": "right",
        "s": "right",
    }
    names = ("stage", "fingerprint", "rows_in", "rows_out", "filtered", "rejected", "seconds")
    rows = [["–" if stage[name] is None else stage[name] for name in names] for stage in stages]
    out.print(table(columns, [[row[0], row[1][:12], *row[2:]] for row in rows]))
    for stage in stages:
        for reason in stage["reasons"]:
            out.print(f"  {stage['stage']}: {reason['rows']:,} {KIND_NAMES[reason['kind']]}: {reason['reason']}")
        for name, number in stage["counts"].items():
            if number:
                out.print(f"  {stage['stage']}: {number:,} {name}")
    for line in [*served_lines(store.home, version), *(f"gate {line}" for line in gate_lines(store.home, version))]:
        out.print(f"  {line}")


@app.command()
def rejects(
    address: Address,
    stage: Annotated[
        str | None,
        typer.Option("--stage", metavar="S", help="of this stage only", autocompletion=completion.stages),
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="K", help="rejected, for what is broken; or filtered, by a rule")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", min=1, help=f"rows to print; else {ROWS_SHOWN}, with --json all"),
    ] = None,
    home: Home = None,
    as_json: JsonLines = False,
) -> None:
    """Print the rows a build left out, the rejected ones first, each with its reason and, if rejected, its raw text."""
    from flows.builds.console import console, table
    from flows.inspection.describe import KIND_NAMES, rejected_number, rejected_rows

    store, version = version_at(address, home)
    kinds = _kinds_named(kind)
    rows = rejected_rows(store, version, stage, kinds)
    if as_json:
        for row in islice(rows, limit):
            print_json(row, indent=None)
        return
    shown = [
        (row["stage"], KIND_NAMES[row["kind"]], row["reason"], _named(row), _short(_telling(row)))
        for row in islice(rows, limit or ROWS_SHOWN)
    ]
    columns = {"stage": "whole", "kind": "", "reason": "", "row": "whole", "detail or raw text": ""}
    console().print(table(columns, shown))
    if more := rejected_number(store, version, stage, kinds) - len(shown):
        print(f"… and {more:,} more: --limit N shows more, --json all of them")


def _named(row: dict[str, Any]) -> str:
    """The key of a row that was left out; after the name of its file where it is a line or record of one."""
    return f"{row['file']}: {row['key']}" if row["file"] and row["key"].startswith(("line ", "record ")) else row["key"]


def _kinds_named(name: str | None) -> list[str]:
    """The stored kinds of left-out rows that --kind stands for; all kinds for None. `defect` is the stored kind that
    users call rejected. UsageError for an unknown name.
    """
    from flows.inspection.describe import KIND_NAMES

    found = [kind for kind, word in KIND_NAMES.items() if name in (None, kind, word)]
    if not found:
        raise UsageError(f'There is no kind "{name}" of rows left out; there is {" and ".join(KIND_NAMES.values())}.')
    return found


@app.command()
def trace(
    address: Address,
    row_id: Annotated[str, typer.Argument(metavar="ROW_ID", help="the id of a row, or the beginning of one")],
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show how a published row came to be: its sources, prompts, model calls, and the stages that made it."""
    from flows.builds.console import console
    from flows.inspection.describe import trace_lines
    from flows.inspection.tracing import trace_row

    store, version = version_at(address, home)
    found = trace_row(store, version, row_id)
    if as_json:
        return print_json(found)
    out = console()
    for line in trace_lines(found):
        out.print(line, soft_wrap=True)


@app.command()
def diff(
    first: Annotated[str, typer.Argument(metavar="DATASET@A", autocompletion=completion.addresses)],
    second: Annotated[str, typer.Argument(metavar="DATASET@B", autocompletion=completion.addresses)],
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Compare two versions: recipes, row counts, rows added, removed and changed."""
    from flows.builds.console import console, table
    from flows.inspection.comparison import compare

    store, before = version_at(first, home)
    _, after = version_at(second, home)
    found = compare(store, before, after)
    if as_json:
        return print_json(found)
    out = console()
    out.print(f"{first} -> {second}: {'the same recipe' if found['same_recipe'] else 'another recipe'}")
    for change in found["stages"]:
        out.print(f"  {change['stage']}: {change['why']}")
    rows = [(s["split"], s["before"], s["after"], s["added"], s["removed"], s["changed"]) for s in found["splits"]]
    columns = {
        "split": "",
        "rows before": "right",
        "after": "right",
        "added": "right",
        "removed": "right",
        "changed": "right",
    }
    out.print(table(columns, rows))


@app.command()
def verify(
    address: Annotated[
        str | None,
        typer.Argument(metavar="[DATASET[@VERSION]]", help="else every version", autocompletion=completion.addresses),
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Check files against their checksums, schemas and the stages they were built from, and conservation."""
    from flows.cli.shared.verification import check
    from longform.artifacts import versions
    from longform.artifacts.store import Store

    root = home_of(home)
    store = Store(root)
    chosen = (
        [version_at(address, home)[1]]
        if address
        else [version for name in versions.datasets(root) for version in versions.versions(root, name)]
    )
    names = [chosen[0].dataset] if address else versions.datasets(root)
    broken = [] if address else [(name, path) for name in names for path in versions.broken_versions(root, name)]
    found = [{"dataset": v.dataset, "version": v.name, "problems": list(check(store, v))} for v in chosen]
    found += [
        {"dataset": name, "version": path.name, "problems": [f"{path} has no readable manifest.json"]}
        for name, path in broken
    ]
    if as_json:
        print_json(found)
    else:
        for entry in found:
            print(f"{entry['dataset']} {entry['version']}: {'sound' if not entry['problems'] else 'NOT sound'}")
            for problem in entry["problems"]:
                print(f"  {problem}")
            if entry["problems"]:
                print("  a stage: build again with --force STAGE; a published file: withdraw this version, build again")
        if not found:
            print(f"No version in {root}.")
    if any(entry["problems"] for entry in found):
        raise typer.Exit(1)


@app.command()
def withdraw(
    address: Annotated[str, typer.Argument(metavar="DATASET@VERSION", autocompletion=completion.addresses)],
    home: Home = None,
) -> None:
    """Remove a published version; its stages stay until `longform gc`."""
    from longform.artifacts import versions
    from longform.artifacts.store import Store

    if "@" not in address or address.endswith(("@", "@latest")):
        raise UsageError(f"Name the version to withdraw, as {address.split('@')[0]}@VERSION; `longform ls` lists them.")
    dataset, _, name = address.partition("@")
    root = home_of(home)
    broken = {path.name: path for path in versions.broken_versions(root, checked_name(dataset))}
    folder = broken[name] if name in broken else versions.find(root, address).folder
    with Store(root).lock(dataset):
        versions.withdraw(folder)
    print(f"Withdrew {dataset} {name}. `longform gc` frees what only it needed.")


@app.command()
def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would go")] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Delete parts and leftovers that no published version needs, and what GROBID refused or a later version of it
    answered anew; model responses and its other answers stay.
    """
    from contextlib import ExitStack

    from longform.artifacts import versions
    from longform.artifacts.store import Store
    from longform.files import remove
    from tasks.sources.papers import parsed

    store = Store(home_of(home))
    with ExitStack() as locks:
        if not dry_run and store.home.exists():
            for dataset in DATASETS:
                locks.enter_context(store.lock(dataset))
        found = [*versions.garbage(store), *parsed.garbage(store.home)]
        if not dry_run:
            for path, _ in found:
                store.check_locks(within_seconds=10)
                remove(path)
    size = sum(size for _, size in found)
    if as_json:
        return print_json({"dry_run": dry_run, "paths": [str(path) for path, _ in found], "bytes": size})
    if dry_run:
        for path, _ in found:
            print(path)
    print(f"{'Would free' if dry_run else 'Freed'} {size / 1e6:,.1f} MB in {len(found):,} files and folders.")


def _telling(row: dict[str, Any]) -> str | None:
    """What tells most of a rejected row: what a model said if it is to blame, else the detail, else the raw text."""
    from longform.llm.retry import kind_of

    said = row["raw"] if kind_of(row["reason"]) else None
    telling: str | None = said or row["detail"] or row["raw"]
    return telling


def _short(text: str | None) -> str:
    """The text on one line, at most 60 characters; what is cut off becomes `…`. Empty for None."""
    flat = " ".join((text or "").split())
    return flat if len(flat) <= 60 else f"{flat[:59]}…"
