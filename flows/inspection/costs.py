"""What was paid, by stage and model, from the ledger of the response store."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.builds.building import last_budget
from longform.artifacts.versions import find
from longform.llm.price import NANO, Cap, caps_of
from longform.llm.responses.store import open_responses
from longform.settings import budget, responses

if TYPE_CHECKING:
    from rich.table import Table

SUMS = ("calls", "unanswered", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "unpriced")
FIGURES = {
    "calls": "calls",
    "unanswered": "unanswered",
    "input_tokens": "tokens in",
    "cached_tokens": "cached",
    "output_tokens": "tokens out",
    "reasoning_tokens": "reasoning",
}
LEFT_OUT_IF_ZERO = ("unanswered", "cached_tokens", "reasoning_tokens")


def paid(home: Path, address: str) -> dict[str, Any]:
    """What was paid for a dataset, or with `dataset@version` for the stages of that version, as a JSON value: `stages`
    (calls, tokens and USD by stage, endpoint, model and whether in batches), `total` and `budgets` (of all runs; that
    of the dataset is the latest build's). Only reads.

    `usd` covers the calls whose price is known, and is None in a line of `stages` without such calls; `unpriced`
    counts the other calls. UsageError if there is no such version.
    """
    dataset, with_version, _ = address.partition("@")
    version = find(home, address) if with_version else None
    with closing(open_responses(responses(home), read_only=True)) as store:
        lines = store.ledger(dataset, None if version is None else set(version.stages.values()))
    stages = [{**line, "usd": _usd(line)} for line in lines]
    total = {name: sum(line[name] for line in stages) for name in SUMS}
    return {
        "dataset": dataset,
        "version": version.name if version else None,
        "stages": [{name: value for name, value in line.items() if name != "cost_nano"} for line in stages],
        "total": {**total, "usd": sum(line["cost_nano"] or 0 for line in lines) / NANO},
        "budgets": spent_of(home, caps_of(dataset, last_budget(home, dataset), budget())),
    }


def spent_of(home: Path, caps: Iterable[Cap]) -> list[dict[str, Any]]:
    """What all runs have spent under each of these limits, in USD, as a JSON value: `of` (the dataset; None: all
    datasets), `budget`, `spent` and `left`. Only reads.
    """
    with closing(open_responses(responses(home), read_only=True)) as store:
        spent = [(cap, store.spent(cap.dataset)) for cap in caps]
    return [
        {
            "of": cap.dataset,
            "budget": cap.limit_nano / NANO,
            "spent": nano / NANO,
            "left": max(0, cap.limit_nano - nano) / NANO,
        }
        for cap, nano in spent
    ]


def budget_lines(budgets: Iterable[dict[str, Any]]) -> list[str]:
    """A line for each limit of `spent_of`, e.g. `budget of axioms: USD 3.20 of 50.00 spent, 46.80 left`."""
    return [
        f"budget of {each['of'] or 'all datasets'}: USD {each['spent']:,.2f} of {each['budget']:,.2f} spent, "
        f"{each['left']:,.2f} left"
        for each in budgets
    ]


def _usd(line: dict[str, Any]) -> float | None:
    """The USD of a ledger line (a dict with `cost_nano`, `calls` and `unpriced`); None if the price is known of none
    of its calls.
    """
    return None if line["unpriced"] == line["calls"] else (line["cost_nano"] or 0) / NANO


def costs_table(found: dict[str, Any]) -> Table:
    """The result of `paid` as a table: a line for each entry of `stages` and, if these are several, their sum. The
    columns `unanswered`, `cached` and `reasoning` are left out if they hold only zeros.
    """
    from flows.builds.console import table

    total = found["total"]
    shown_figures = {name: title for name, title in FIGURES.items() if total[name] or name not in LEFT_OUT_IF_ZERO}
    columns = {"stage": "", "model": "", **dict.fromkeys([*shown_figures.values(), "USD"], "right")}
    rows = [
        (line["stage"], _model(line), *(line[name] for name in shown_figures), _usd_text(line))
        for line in found["stages"]
    ]
    sum_row = ("", "", *(total[name] for name in shown_figures), _usd_text(total))
    return table(columns, [*rows, sum_row] if len(rows) > 1 else rows)


def _model(line: dict[str, Any]) -> str:
    """The model and its endpoint as text: `gpt via openai`, followed by `, batch` for calls in batches."""
    return f"{line['model']} via {line['endpoint']}{', batch' if line['batch'] else ''}"


def _usd_text(line: dict[str, Any]) -> str:
    """USD with four decimals, followed by `+ unknown` if some calls have no known price; `unknown` if none has."""
    if line["unpriced"] == line["calls"]:
        return "unknown"
    return f"{line['usd']:,.4f}{' + unknown' if line['unpriced'] else ''}"


def costs_lines(found: dict[str, Any]) -> list[str]:
    """Lines to print below the table: that nothing was paid, or an empty line and how many calls have no known price
    or no usable answer, and what is left of budgets; no lines if there is nothing to say. `found`: the result of
    `paid`.
    """
    name = found["dataset"] + (f" {found['version']}" if found["version"] else "")
    total = found["total"]
    budgets = budget_lines(found["budgets"])
    if not total["calls"]:
        return [f"Nothing was paid for {name}.", *budgets]
    lines = []
    if total["unpriced"]:
        calls = "1 call is" if total["unpriced"] == 1 else f"{total['unpriced']:,} calls are"
        lines.append(f"{calls} of unknown price and not in USD: set [endpoints.NAME.price] before the next build.")
    if total["unanswered"]:
        calls = "1 call" if total["unanswered"] == 1 else f"{total['unanswered']:,} calls"
        lines.append(f"{calls} without a usable answer may have been billed as well.")
    lines += budgets
    return ["", *lines] if lines else []
