"""The command that measures many drafts: one run with its price first, a table of systems, a folder of results."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.shared.arguments import (
    ConfigFile,
    Home,
    Json,
    MaxCost,
    PlanOnly,
    PromptsFolder,
    RetryErrors,
    Settings,
    Yes,
    amount,
    print_json,
    with_prompts,
)
from flows.cli.shared.asking import agree, print_plan
from longform.errors import UsageError

if TYPE_CHECKING:
    from flows.measuring.measuring import Measured
    from tasks.revision_distance.tables.ranking import Ranking

app = typer.Typer()

MOST_REPEATS = 20
REASONS_SHOWN = 8
EXAMPLES = 3
PAIRS_SHOWN = 6  # as many as four systems have
DOUBTS_SHOWN = 3
CLEAR_SHOWN = 20
SHOWN = ("rank", "system", "cases", "corrected", "from", "to", "per 100 words", "paper's distance", "valid", "drafts")


@app.command("measure")
def measure(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|FOLDER", help="drafts with references: .jsonl, .json, .csv, .parquet, or a folder"
        ),
    ],
    editor: Annotated[
        list[str] | None,
        typer.Option("--editor", metavar="ENDPOINT", help="who lists the edits; several: how far they agree"),
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="N", min=1, max=MOST_REPEATS, help="lists asked for each draft")
    ] = 1,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="NAME=THEIRS", help="what a column is called, e.g. draft=prediction"),
    ] = None,
    ceiling: Annotated[
        list[str] | None,
        typer.Option("--ceiling", metavar="FAULT=SHARE", help="share of a fault up to which a system is ranked"),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FOLDER", help="write a row for each draft (Parquet), rejects, tables, a report"),
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option("--accept", metavar="STAGE", help="go on although nearly no reply is of use: measure_drafts"),
    ] = None,
    yes: Yes = False,
    plan_only: PlanOnly = False,
    config: ConfigFile = None,
    settings: Settings = None,
    prompts: PromptsFolder = None,
    home: Home = None,
    max_cost: MaxCost = None,
    retry_errors: RetryErrors = False,
    as_json: Json = False,
) -> None:
    """Measure many drafts: how many edits each still needs, and which system needs least."""
    from flows.builds.console import Bars, Lines, console
    from flows.config import configuration
    from flows.measuring import measuring, written
    from longform.llm.retry import Retry
    from longform.settings import home as home_of

    chosen = configuration.read(measuring.DATASET, measuring.MeasureConfig, config, with_prompts(settings, prompts))
    root, most, ceilings = home_of(home), amount(max_cost), measuring.ceilings_of(ceiling or ())
    asked = measuring.Asked(file, tuple(editor or ()), repeats, _columns(column or ()))
    written.refuse_unwritable(to)
    measuring.check(asked, chosen, priced=most is not None, send=not plan_only)
    given = measuring.kept(asked, root)
    out = console(stderr=True)
    with closing(Bars(out) if out.is_terminal else Lines()) as progress:
        measuring.read_into(asked, root, given, progress)
    if plan_only:
        return print_plan(measuring.plan(asked, chosen, root, given), as_json)
    if not yes:
        agree(measuring.plan(asked, chosen, root, given), yes)
    with closing(Bars(out) if out.is_terminal else Lines()) as progress:
        found = measuring.measure(
            asked,
            chosen,
            root,
            given,
            progress=progress,
            ceilings=ceilings,
            max_cost=most,
            retry=Retry.of(retry_errors),
            accept=accept or (),
        )
    if to:
        written.write(to, asked, found)
    if as_json:
        print_json(written.document(found))
    else:
        _print(found, to)
    _say_left_out(found)
    measuring.refuse_useless(found)


def _columns(given: list[str] | tuple[str, ...]) -> dict[str, str]:
    """name -> what the file calls it. UsageError for a text without `=`."""
    found = {}
    for each in given:
        name, equals, theirs = each.partition("=")
        if not (name and equals and theirs):
            raise UsageError(f"--column {each}: give NAME=THEIRS, e.g. draft=prediction.")
        found[name] = theirs
    return found


def _print(found: Measured, to: Path | None) -> None:
    """Print the systems of each editor, how they differ, what reliability was measured, and the signatures."""
    from flows.builds.console import console, on_one_line
    from flows.measuring.written import warning
    from tasks.revision_distance.tables.differences import doubts

    out = console()

    def say(line: str) -> None:
        out.print(on_one_line(line), soft_wrap=True)

    for name, ranking in found.summary.rankings.items():
        say(_heading(name, ranking))
        out.print(_table(ranking.systems))
        for system, why in ranking.unranked.items():
            say(f"{system} is not ranked: {why}")
        for line in _differences(ranking.pairs.to_dict("records")):
            say(line)
        doubted = list(doubts(ranking.pairs))
        for line in doubted[:DOUBTS_SHOWN]:
            say(f"note {line}")
        if (more := len(doubted) - DOUBTS_SHOWN) > 0:
            say(f"note {more:,} more differences rest on the editor's lists alone: see the report (--to)")
    for table in found.summary.tables:
        if table.title.startswith(("Variance", "Agreement")):
            out.print()
            say(table.title)
            for row in table.frame.to_dict("records"):
                say("  " + " · ".join(f"{name} {_cell(value)}" for name, value in row.items()))
    lost = sum(int(rows.lost_edits.fillna(0).sum()) for rows in found.summary.drafts.values())
    if lost:
        say(f"{lost:,} edits could not be read, the others of their lists were kept")
    for each in found.summary.signatures:
        say(f"signature {each}")
    if told := warning(found):
        say(told)
    say(str(to) if to else "--to FOLDER writes a row for each draft, the rejects, the tables and a report.")


def _heading(editor: str, ranking: Ranking) -> str:
    """What stands above the table of systems."""
    if not len(ranking.systems) or len(ranking.unranked) == len(ranking.systems):
        return f"by {editor}, no system is ranked: means over all measured drafts of each; less is better"
    return f"by {editor}, over {ranking.cases:,} case{'s' * (ranking.cases != 1)}; less is better"


def _differences(pairs: Sequence[Mapping[Any, Any]]) -> Iterator[str]:
    """A line for each two systems; of more than PAIRS_SHOWN for the clear ones only, and one for how many are left."""
    shown = pairs
    if len(pairs) > PAIRS_SHOWN:
        shown = [row for row in pairs if row["clear"] == "yes"][:CLEAR_SHOWN]
    yield from map(_difference, shown)
    if left := len(pairs) - len(shown):
        clear = sum(row["clear"] == "yes" for row in pairs) - len(shown) if shown is not pairs else 0
        of_them = f"{clear:,} of them clear" if clear else "none of them clear"
        yield f"{left:,} {'more ' if shown else ''}pairs of systems, {of_them}, in the report (--to) and with --json"


def _table(systems: object) -> object:
    """The table of systems for the console."""
    import pandas as pd
    from rich.table import Table

    assert isinstance(systems, pd.DataFrame)
    shown = systems.rename(columns={"corrected from": "from", "corrected to": "to", "valid drafts": "valid"})
    table = Table(box=None, pad_edge=False)
    for name in SHOWN:
        table.add_column(name, justify="left" if name == "system" else "right")
    for row in shown.reindex(columns=list(SHOWN)).to_dict("records"):
        table.add_row(*(_cell(row[name]) for name in SHOWN))
    return table


def _difference(row: Mapping[Any, Any]) -> str:
    """A difference of two systems as one line."""
    if abs(row["difference"]) < 1e-9:  # as ranks have it
        return (
            f"{row['better']} and {row['worse']} are equal in the mean, and in {row['equal']} of {row['cases']} cases"
        )
    bounds = f"{_cell(row['difference from'])} to {_cell(row['difference to'])}"
    clear = "" if row["clear"] == "yes" else ", not clear"
    return (
        f"{row['better']} before {row['worse']} by {_cell(row['difference'])} ({bounds}{clear}), paired Cohen's d "
        f"{_cell(row['effect size'])}, better in {row['cases better']} of {row['cases']} cases, equal in {row['equal']}"
    )


def _cell(value: object) -> str:
    """A value for the console: two decimals, a dash where it is missing."""
    from flows.builds.console import on_one_line

    if value is None or value != value:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) >= 1_000 else f"{value:.2f}".removesuffix(".00")
    return f"{value:,}" if isinstance(value, int) else on_one_line(str(value))


def _say_left_out(found: Measured) -> None:
    """Say on stderr what was left out, by reason, with a few places."""
    from flows.builds.console import on_one_line

    numbers = Counter((row["editor"], row["reason"]) for row in found.left_out)
    for (editor, reason), number in numbers.most_common(REASONS_SHOWN):
        own = [row for row in found.left_out if (row["editor"], row["reason"]) == (editor, reason)]
        few = "; ".join(row["detail"] or row["key"] for row in own[:EXAMPLES]) + ("; …" if number > EXAMPLES else "")
        by = f"{editor}: " if editor else ""
        print(on_one_line(f"{by}left out {number:,} {reason} ({few})"), file=sys.stderr)
