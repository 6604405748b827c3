"""The command that compares a version's figures with those that its paper prints."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.shared.arguments import Address, Home, Json, print_json, version_at
from flows.registry import DATASETS, checked_name, module_of
from longform.errors import GateError, UsageError

app = typer.Typer()
VERDICTS = ("within", "drift", NOT_COMPARED := "not compared")


@app.command("parity")
def parity(
    address: Address,
    tolerances: Annotated[
        Path | None,
        typer.Option("--tolerances", metavar="FILE", help="TOML of tolerances that take the place of the dataset's"),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="print also each figure that cannot be compared")] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Hold a version's figures against the paper's, each with its tolerance; exit code 1 if one is beyond it, 7
    if too few can be compared.
    """
    name = checked_name(address.partition("@")[0])
    compare = getattr(module_of(name), "PARITY", None)
    if compare is None:
        known = " and ".join(each for each in DATASETS if hasattr(module_of(each), "PARITY"))
        raise UsageError(f'"{name}" has no figures to compare by `longform parity`: {known} has.')
    _, version = version_at(address, home)
    cells, lacking = compare(version, tolerances)
    counts = Counter(cell.verdict for cell in cells)
    said = ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in VERDICTS)
    if as_json:
        print_json({
            "version": f"{version.dataset}@{version.name}",
            "figures": len(cells),
            **{verdict.replace(" ", "_"): counts[verdict] for verdict in VERDICTS},
            "cells": [asdict(cell) for cell in cells],
        })  # fmt: skip
    else:
        _print([cell for cell in cells if cell.verdict != NOT_COMPARED or every])
        reasons = Counter((cell.table, cell.why) for cell in cells if cell.verdict == NOT_COMPARED)
        for (table, why), number in reasons.items() if not every else ():
            print(f"{table}: {number:,} not compared: {why}")
        print(f"{version.dataset} {version.name}: {len(cells):,} figures of the paper: {said}.")
        if version.manifest["offline"]:
            print("Rows of the offline model are in it: its figures say nothing of systems.")
    if lacking:
        raise GateError(lacking)
    if counts["drift"]:
        raise typer.Exit(1)


def _print(cells: list[Any]) -> None:
    """Print a table of the cells."""
    from flows.builds.console import console, table

    columns = {
        "figure": "", "paper": "right", "ours": "right", "difference": "right", "tolerance": "right",
        "verdict": "whole", "why": "",
    }  # fmt: skip
    rows = [
        (f"{cell.table} · {cell.cell}", _number(cell.paper), _number(cell.ours), _number(cell.difference, signed=True),
         _number(cell.tolerance), cell.verdict, cell.why)
        for cell in cells
    ]  # fmt: skip
    console().print(table(columns, rows))


def _number(value: float | None, *, signed: bool = False) -> str:
    """A number with at most three decimals, a dash for None."""
    if value is None:
        return "–"
    return f"{value:{'+' if signed else ''},.3f}".rstrip("0").rstrip(".")
