"""The command that tells how well a scorer of answers ranks and prefers."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
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
    version_at,
    with_prompts,
)
from flows.cli.shared.asking import agree, print_plan
from longform.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from flows.inspection.evaluating import Asked, Scored
    from tasks.publishing.card import Figure

app = typer.Typer()

DATASET = "axioms"
FILES = ("scores.parquet", "metrics.parquet", "report.html")
FIGURES = "figures"
SETTINGS = ("model", "mode", "unbatched", "prompts", "budget", "failed_runs", "ceilings", "stages", "endpoints")
OWN = ("seed", "text_characters")
REFERENCE = ("length", "BM25", "GPT-4 listwise", "PM 0-5 Llama-7b")  # rows of the paper that the console shows
NOT_SHOWN = ("source", "set", "subset", "left out")
WITHOUT_INTERVAL = ("accuracy with evidence", "change of preferred", "change of rejected", "score difference")
SHORT = {
    "accuracy p": "p",
    "accuracy with evidence": "with evidence",
    "change of preferred": "Δ preferred",
    "change of rejected": "Δ rejected",
    "score difference": "Δ score",
    "score difference p": "its p",
}
LEFT_OUT_SHOWN = 8
OFFLINE_NOTE = "The judge is the offline model, a rule of shared words and lengths: its figures say nothing of models."


@app.command("evaluate")
def evaluate(
    dataset: Annotated[str, typer.Argument(metavar="DATASET[@VERSION]", help="axioms; without a version: the latest")],
    scorer: Annotated[
        list[str],
        typer.Option(
            "--scorer",
            metavar="SCORER",
            help="length, bm25, judge:ENDPOINT[:pointwise][:plain], encoder:FOLDER, or a file of scores; repeatable",
        ),
    ],
    version: Annotated[
        str | None, typer.Option("--version", metavar="VERSION", help="the published version; else the latest")
    ] = None,
    sets: Annotated[
        str | None,
        typer.Option(
            "--sets", metavar="SET,…", help="of stackexchange, eli5, msmarco, pairs, webgpt, people; else all"
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="a pilot: at most N questions of each set")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FOLDER", help=f"write {', '.join(FILES)}, {FIGURES} there")
    ] = None,
    yes: Yes = False,
    plan_only: PlanOnly = False,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept", metavar="STAGE", help="go on although the gate of this stage refuses a judge's replies"
        ),
    ] = None,
    config: ConfigFile = None,
    settings: Settings = None,
    prompts: PromptsFolder = None,
    home: Home = None,
    max_cost: MaxCost = None,
    retry_errors: RetryErrors = False,
    as_json: Json = False,
) -> None:
    """Score the answers of a published version and tell how well the scores rank and prefer, beside the paper."""
    from flows.builds.console import Bars, Lines, console
    from flows.config import configuration
    from flows.inspection import evaluating
    from longform.llm.retry import Retry
    from longform.settings import home as home_of

    name, _, named = dataset.partition("@")
    if name != DATASET:
        raise UsageError(f'"{name}" has no scorers to evaluate: {DATASET} has.')
    if named and version and named != version:
        raise UsageError(f"{dataset} and --version {version} name two versions: leave one out.")
    given = with_prompts(settings, prompts)
    _refuse_settings(given)
    chosen = configuration.read(DATASET, evaluating.EvaluationConfig, config, given)
    root, most = home_of(home), amount(max_cost)
    _, found = version_at(f"{DATASET}@{version or named}", home)
    wanted = None if sets is None else [name.strip() for name in sets.split(",") if name.strip()]
    asked = evaluating.Asked(list(dict.fromkeys(scorer)), found, wanted, limit)
    _refuse_unwritable(to)
    evaluating.check(asked, chosen, root, priced=most is not None, send=not plan_only)
    out = console(stderr=True)
    with closing(Bars(out) if out.is_terminal else Lines()) as progress:
        planned = evaluating.plan(asked, chosen, root, progress)
    if plan_only:
        return print_plan(planned, as_json)
    agree(planned, yes)
    with closing(Bars(out) if out.is_terminal else Lines()) as progress:
        scored = evaluating.score(
            asked,
            chosen,
            root,
            progress=progress,
            max_cost=most,
            retry=Retry.of(retry_errors),
            accept=accept or (),
        )
    if to:
        _write(to, asked, scored)
    if as_json:
        print_json(_document(asked, scored))
    else:
        _print(asked, scored, to)
    _say_left_out(scored)


def _refuse_settings(settings: Iterable[str]) -> None:
    """Raise UsageError for a setting of builds that an evaluation does not use."""
    from flows.axioms import AxiomsConfig

    for setting in settings:
        name = setting.partition("=")[0].partition(".")[0].strip()
        if name in AxiomsConfig.model_fields and name not in (*SETTINGS, *OWN):
            raise UsageError(
                f"--set {name}: an evaluation has no such setting; it is one of `longform build {DATASET}`."
            )


def _refuse_unwritable(to: Path | None) -> None:
    """Raise UsageError if `--to` is no folder, holds one of the files or figures already, or cannot be written to."""
    if to is None:
        return
    if there := [name for name in (*FILES, FIGURES) if (to / name).exists()]:
        raise UsageError(f"{to / there[0]} is there already: name another folder, or move it away.")
    parent = next((each for each in (to, *to.absolute().parents) if each.exists()), to)
    if not (parent.is_dir() and os.access(parent, os.W_OK)):
        raise UsageError(f"--to {to}: {parent} is no folder that can be written to.")


def _write(to: Path, asked: Asked, scored: Scored) -> None:
    """Write the scores, the metrics, the figures and the report to a folder, which is made if missing."""
    from io import BytesIO

    import pyarrow as pa
    import pyarrow.parquet as pq

    from longform.files import write_bytes
    from schemas.axioms.scoring import METRICS_FILE, SCORES_FILE
    from tasks.axioms.scoring.figures import evaluation_figures

    to.mkdir(parents=True, exist_ok=True)
    for name, frame, schema in (
        (FILES[0], scored.scores, SCORES_FILE),
        (FILES[1], scored.metrics, METRICS_FILE),
    ):
        columns = {
            column: pa.array(frame[column], schema.field(column).type, from_pandas=True) for column in schema.names
        }
        made = BytesIO()
        pq.write_table(pa.table(columns, schema), made, compression="zstd")
        write_bytes(to / name, made.getvalue())
    drawn = evaluation_figures(scored.scores, scored.kinds, scored.scorers)
    for each in drawn:
        write_bytes(to / FIGURES / f"{each.name}.svg", each.svg.encode())
    write_bytes(to / FILES[2], _report(asked, scored, drawn).encode())


def _report(asked: Asked, scored: Scored, figures: Sequence[Figure]) -> str:
    """The text of report.html, with these figures."""
    from flows.axioms import ABOUT
    from tasks.axioms.scoring.tables import left_out_table, tables
    from tasks.publishing.report import Page, tables_page

    page = Page(
        title="Evaluation of scorers of answers",
        version=asked.version.name,
        summary=f"How well {', '.join(asked.scorers)} rank and prefer answers of {DATASET} {asked.version.name}.",
        paper=ABOUT.paper,
    )
    facts = [f"{DATASET} {asked.version.name}", f"{scored.groups:,} groups of answers", *scored.gates]
    found = [*tables(scored.metrics), *left_out_table(scored.left_out)]
    return tables_page(page, facts, found, figures, warning=OFFLINE_NOTE if scored.offline else "")


def _document(asked: Asked, scored: Scored) -> dict[str, Any]:
    """What --json prints."""
    cells = scored.metrics.astype(object)
    return {
        "dataset": DATASET,
        "version": asked.version.name,
        "scorers": list(asked.scorers),
        "groups": scored.groups,
        "metrics": cells.where(cells.notna(), None).to_dict("records"),
        "left_out": scored.left_out,
        "absent": scored.absent,
        "gates": scored.gates,
    }


def _print(asked: Asked, scored: Scored, to: Path | None) -> None:
    """Print the tables: of each kind of set those of all scorers, the paper's rows dim below them."""
    from flows.builds.console import console
    from tasks.axioms.scoring.tables import tables

    out = console()
    out.print(f"{DATASET} {asked.version.name} · {scored.groups:,} groups of answers · {', '.join(asked.scorers)}")
    if scored.offline:
        out.print(OFFLINE_NOTE)
    for line in scored.gates:
        out.print(line, soft_wrap=True)
    for table in tables(scored.metrics):
        out.print()
        out.print(_table(table.title, table.frame))
    for name, config in scored.absent.items():
        out.print(f"\n{name}: nothing of it in this version (config {config})", soft_wrap=True)
    if to:
        out.print(f"\n{to}/{{{','.join(FILES)}}}", soft_wrap=True)


def _table(title: str, frame: pd.DataFrame) -> Table:
    """A table of an evaluation for the console: a heading for each set and part of it, below it a line for each scorer,
    each figure with its interval; the paper's lines, those of REFERENCE alone, are dim.
    """
    from rich.text import Text

    from flows.builds.console import table

    shown = frame[(frame["source"] != "paper") | frame["scorer"].isin(REFERENCE)] if "source" in frame else frame
    headed = [name for name in ("set", "subset") if name in frame and frame[name].nunique() > 1]
    columns = [name for name in frame.columns if name not in NOT_SHOWN and not name.endswith((" from", " to"))]
    rows, styles = list[list[str]](), list[str]()
    for heading, lines in _under_headings(shown, headed):
        if headed:
            rows.append([heading, *[""] * (len(columns) - 1)])
            styles.append("bold")
        rows += [[_cell(line, name) for name in columns] for line in lines]
        styles += ["dim" if line.get("source") == "paper" else "" for line in lines]
    figures = set(frame.select_dtypes("number").columns)
    made = table({SHORT.get(name, name): "right" if name in figures else "whole" for name in columns}, rows)
    made.title, made.title_justify, made.title_style = Text(title, style="bold cyan"), "left", ""
    for column in made.columns:
        column.no_wrap = True
    for line, style in zip(made.rows, styles, strict=True):
        line.style = style
    return made


def _under_headings(frame: pd.DataFrame, names: list[str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """(heading, its lines) for each combination of these columns, in the order in which they come; without columns all
    lines under no heading.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for row in frame.to_dict("records"):
        line = {str(name): value for name, value in row.items()}
        found.setdefault(" · ".join(line[name] for name in names if line[name] != "all") or "all", []).append(line)
    yield from found.items()


def _cell(line: dict[str, Any], name: str) -> str:
    """A cell as text: `45.5 [44.1, 46.9]`, `0.012` (a p value), `  paper: length`."""
    import pandas as pd

    value, of_paper = line[name], line.get("source") == "paper"
    if pd.isna(value):
        return "" if of_paper else "–"
    if isinstance(value, str):
        return f"  {'paper: ' if of_paper else ''}{value}" if name == "scorer" else value
    if name == "n":
        return f"{int(value):,}"
    if name == "p" or name.endswith(" p"):
        return "<0.001" if value < 0.001 else f"{value:.3f}"
    low, high = line.get(f"{name} from", math.nan), line.get(f"{name} to", math.nan)
    bare = pd.isna(low) or name in WITHOUT_INTERVAL
    return _digits(name, value) + ("" if bare else f" [{_digits(name, low)}, {_digits(name, high)}]")


def _digits(name: str, value: float) -> str:
    """A figure as text: one decimal, of a difference with its sign; a small change of scores has three decimals."""
    if name.startswith(("change", "score")) and 0 < abs(value) < 1:
        return f"{value:+.3f}"
    return f"{value:+.1f}" if name.startswith(("change", "score", "difference")) else f"{value:.1f}"


def _say_left_out(scored: Scored) -> None:
    """Print to stderr what has no score, and what of the questions is in no figure."""
    from flows.builds.console import visible
    from tasks.axioms.scoring.evaluate import left_out

    lines = [
        f"{row['scorer']}, {row['set']}: {row['number']:,} answer{'s' * (row['number'] != 1)} without a score: "
        f"{row['reason']}"
        if row["set"]
        else f"{row['scorer']}: {row['number']:,} {row['reason']}"
        for row in scored.left_out
    ]
    lines += [
        f"{scorer}, {name}: {number:,} of {of:,} are in no figure, as a score is missing or all gains are equal"
        for scorer, name, number, of in left_out(scored.metrics)
    ]
    for line in lines[:LEFT_OUT_SHOWN]:
        print(visible(line), file=sys.stderr)
    if len(lines) > LEFT_OUT_SHOWN:
        print(f"{len(lines) - LEFT_OUT_SHOWN} more lines: see --json", file=sys.stderr)
