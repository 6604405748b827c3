"""What was paid, from the ledger of the response store: by stage and model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from longform.artifacts.versions import find
from longform.llm.price.budget import NANO
from longform.llm.responses.store import open_responses
from longform.settings import responses

if TYPE_CHECKING:
    from rich.table import Table

SUMS = ("calls", "unanswered", "input_tokens", "cached_tokens", "output_tokens", "unpriced")
FIGURES = {
    "calls": "calls",
    "unanswered": "unanswered",
    "input_tokens": "tokens in",
    "cached_tokens": "cached",
    "output_tokens": "tokens out",
}
SELDOM = ("unanswered", "cached_tokens")


def paid(home: Path, address: str) -> dict[str, Any]:
    """What was paid for a dataset, or with `@version` for the stages as that version has them.

    `usd` is of the calls whose price is known; `unpriced` says how many are not among them. Reads only.
    """
    dataset, at, _ = address.partition("@")
    version = find(home, address) if at else None
    store = open_responses(responses(home), read_only=True)
    try:
        lines = store.ledger(dataset, None if version is None else set(version.stages.values()))
    finally:
        store.close()
    stages = [{**line, "usd": _usd(line)} for line in lines]
    total = {name: sum(line[name] for line in stages) for name in SUMS}
    return {
        "dataset": dataset,
        "version": version.name if version else None,
        "stages": [{name: value for name, value in line.items() if name != "cost_nano"} for line in stages],
        "total": {**total, "usd": sum(line["cost_nano"] or 0 for line in lines) / NANO},
    }


def _usd(line: dict[str, Any]) -> float | None:
    """None where no call of the line has a known price."""
    return None if line["unpriced"] == line["calls"] else (line["cost_nano"] or 0) / NANO


def costs_table(found: dict[str, Any]) -> Table:
    """One line a stage and model, and the sum; columns that hold nothing but 0 are left out."""
    from flows.builds.console import table

    total = found["total"]
    shown = {name: title for name, title in FIGURES.items() if total[name] or name not in SELDOM}
    columns = {"stage": "", "model": "", **dict.fromkeys([*shown.values(), "USD"], "right")}
    rows = [(line["stage"], _model(line), *(line[name] for name in shown), _usd_text(line)) for line in found["stages"]]
    whole = ("", "", *(total[name] for name in shown), _usd_text(total))
    return table(columns, [*rows, whole] if len(rows) > 1 else rows)


def _model(line: dict[str, Any]) -> str:
    return f"{line['model']} via {line['endpoint']}{', batch' if line['batch'] else ''}"


def _usd_text(line: dict[str, Any]) -> str:
    if line["unpriced"] == line["calls"]:
        return "unknown"
    return f"{line['usd']:,.4f}{' + unknown' if line['unpriced'] else ''}"


def costs_lines(found: dict[str, Any]) -> list[str]:
    """What the table cannot say: nothing paid, prices that are not known, calls without an answer."""
    name = found["dataset"] + (f" {found['version']}" if found["version"] else "")
    total = found["total"]
    if not total["calls"]:
        return [f"Nothing was paid for {name}."]
    lines = []
    if total["unpriced"]:
        calls = "1 call is" if total["unpriced"] == 1 else f"{total['unpriced']:,} calls are"
        lines.append(f"{calls} of unknown price and not in USD: set [endpoints.NAME.price] before the next build.")
    if total["unanswered"]:
        calls = "1 call" if total["unanswered"] == 1 else f"{total['unanswered']:,} calls"
        lines.append(f"{calls} without a usable answer may have been billed as well.")
    return ["", *lines] if lines else []
