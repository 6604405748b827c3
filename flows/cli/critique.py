"""The command that gives feedback on one's own texts by criteria of one's own."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
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
from flows.cli.shared.asking import agree, print_plan, refuse_unwritable, write_lines
from longform.errors import SourceError, UsageError

if TYPE_CHECKING:
    from longform.artifacts.rows import Row

app = typer.Typer()

STRATEGIES = ("base", "crit", "icl", "cricl")
OF_BUILDS = {
    *[
        "tasks",
        "sources",
        "texts",
        "limit",
        "strategies",
        "single",
        "planted",
        "reviewed_only",
        "least_verified",
        "characters",
    ]
}
KEYS_SHOWN = 5
LEFT_OUT_SHOWN = 5
SAID = {"specific": "specific", "match": "on this text"}  # a verdict that passes -> as it is shown


@app.command("critique")
def critique(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="a text, or JSON lines with a text each (id, text, licence, url)")
    ],
    criteria: Annotated[
        Path,
        typer.Option(
            "--criteria", metavar="FOLDER|FILE", help="criteria (JSON lines, Markdown), or a task with guidelines"
        ),
    ],
    strategy: Annotated[
        str, typer.Option("--strategy", help="base, crit, icl or cricl; the latter two show demonstrations")
    ] = "crit",
    layers: Annotated[
        bool, typer.Option("--layers", help="judge each feedback: is it specific, on this text, and does it help?")
    ] = False,
    noun: Annotated[str | None, typer.Option("--noun", metavar="TEXT", help="what the text is, e.g. README")] = None,
    role: Annotated[str | None, typer.Option("--role", metavar="TEXT", help="who gives the feedback")] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE.jsonl", help="write a line for each feedback")
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
    """Give feedback on texts of your own, remark by remark with the criterion that each belongs to."""
    from flows.builds import critiquing
    from flows.builds.console import Bars, Lines, console
    from flows.config import configuration
    from flows.registry import config_class
    from longform.artifacts.store import Store
    from longform.engine.thread_tasks import Threads
    from longform.hints import hint
    from longform.llm.retry import Retry
    from longform.settings import home as home_of

    if strategy not in STRATEGIES:
        raise UsageError(f'There is no strategy "{strategy}"; {hint(strategy, STRATEGIES, "there is")}')
    given = with_prompts(settings, prompts)
    if unused := [name for name in (each.partition("=")[0] for each in settings or []) if name in OF_BUILDS]:
        raise UsageError(f"--set {unused[0]}: a critique has no such setting; it is one of `longform build llmcrit`.")
    chosen = configuration.read("llmcrit", config_class("llmcrit"), config, ["samples=1", *given])
    asked, root = critiquing.Asked(file, criteria, strategy, layers, noun, role), home_of(home)
    refuse_unwritable(to)
    out = console(stderr=True)
    with closing(Bars(out) if out.is_terminal else Lines()) as progress:
        planned = critiquing.plan(asked, chosen, root, progress)
    if plan_only:
        return print_plan(planned, as_json)
    agree(planned, yes)
    with closing(Bars(out) if out.is_terminal else Lines()) as progress:
        tables, build = critiquing.critique(
            asked,
            chosen,
            root,
            tasks=Threads(),
            progress=progress,
            max_cost=amount(max_cost),
            retry=Retry.of(retry_errors),
        )
    found = list(critiquing.records(tables))
    left_out = critiquing.left_out(Store(root), build)
    if to and found:
        write_lines(to, found)
    if as_json:
        print_json({"feedback": found, "left_out": left_out})
    else:
        _print(found, layers, tables.criteria.count, to)
    numbers = Counter((row["stage"], row["reason"]) for row in left_out)
    for (stage, reason), number in numbers.most_common(LEFT_OUT_SHOWN):
        keys = [row["key"] for row in left_out if (row["stage"], row["reason"]) == (stage, reason)]
        few = ", ".join(keys[:KEYS_SHOWN]) + (", …" if number > KEYS_SHOWN else "")
        print(f"{stage}: left out {number:,} {reason} ({few})", file=sys.stderr)
    if not found:
        raise SourceError(f"There is no feedback on {file}: look at what was left out.")


def _print(found: list[Row], layers: bool, criteria: int, to: Path | None) -> None:
    """Print the feedback on one text remark by remark; of several texts only how much there is, and where."""
    from rich.text import Text

    from flows.builds.console import console, visible

    out = console()
    texts = dict.fromkeys(row["text"] for row in found)
    remarks = sum(len(row["remarks"]) for row in found)
    told = sum(each["criterion"] is not None for row in found for each in row["remarks"])
    if len(texts) == 1:
        for row in found:
            out.print(Text(visible(row["aspect"] or row["text"]), style="bold"), soft_wrap=True)
            if layers:
                out.print(Text(f"  {_verdict(row)}", style="dim"), soft_wrap=True)
            for line in _remark_lines(row, layers):
                out.print(line, soft_wrap=False)
            out.print()
    words = (f"{len(texts):,} text{'s' * (len(texts) != 1)}", f"{criteria:,} criteri{'on' if criteria == 1 else 'a'}")
    out.print(f"{' · '.join(words)} · {remarks:,} remark{'s' * (remarks != 1)}, {told:,} on a criterion")
    if layers:
        out.print(_passed(found))
    if to:
        out.print(str(to), soft_wrap=True)
    elif len(texts) > 1:
        out.print("--to FILE.jsonl writes them, a line for each feedback.")


def _verdict(row: Row) -> str:
    """What the first two layers say of a feedback."""
    said: list[str] = [each for each in (row["validity"], row["context"]) if each]
    return " · ".join(SAID.get(each, each) for each in said) or "not judged"


def _remark_lines(row: Row, layers: bool) -> Iterable[Any]:
    """The lines of a feedback: each remark below its criterion, with what the layers say of it."""
    from rich.padding import Padding
    from rich.text import Text

    from flows.builds.console import visible

    helps = {each["criterion"]: each for each in row["critiques"]}
    for remark in row["remarks"]:
        judged = helps.get(remark["criterion"])
        words = {None: "", True: "helpful", False: "not helpful"}
        note = ("no critique" if not judged["constructive"] else words[judged["helpful"]]) if layers and judged else ""
        yield Text.assemble(
            "  ", (visible(remark["criterion"] or "on no criterion"), "bold cyan"), (f"  {note}", "dim")
        )
        yield Padding(Text(visible(remark["text"] or "")), (0, 0, 0, 4))


def _passed(found: list[Row]) -> str:
    """How many pass each layer, as one line."""
    critiques = [each for row in found for each in row["critiques"]]
    counts = {
        "specific": sum(row["validity"] == "specific" for row in found),
        "on their text": sum(row["context"] == "match" for row in found),
        "criticised criteria": sum(each["constructive"] for each in critiques),
        "helpfully": sum(each["helpful"] is True for each in critiques),
    }
    return f"{len(found):,} feedback texts · " + " · ".join(f"{number:,} {name}" for name, number in counts.items())
