"""The command that trains a preference model on a published version."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.shared.arguments import Home, Json, print_json
from longform.settings import home as home_of

if TYPE_CHECKING:
    from flows.training.runs import Trainings
    from flows.training.training import Trained

app = typer.Typer()


@app.command("train")
def train(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="axioms")],
    to: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="the model; with --runs one folder for each")],
    runs: Annotated[
        Path | None, typer.Option("--runs", metavar="FILE.toml", help="a list of models, trained one after the other")
    ] = None,
    version: Annotated[
        str | None, typer.Option("--version", metavar="VERSION", help="the published version; else the latest")
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option("--backbone", metavar="FOLDER|NAME", help="a model of Hugging Face, or random:tiny, random:small"),
    ] = None,
    axioms: Annotated[str | None, typer.Option("--axioms", metavar="0,1,…", help="whose pairs; else all")] = None,
    margins: Annotated[str | None, typer.Option("--margins", help="votes, or critic")] = None,
    steps: Annotated[int | None, typer.Option("--steps", metavar="N", min=1, help="else the paper's 16,000")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="one setting of docs/training.md, the paper's are the defaults"
        ),
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Train a preference model with margin loss on a published version, and evaluate it; goes on where it was ended."""
    from flows.builds.console import Bars, Lines, console
    from flows.training.progress import TrainingLines
    from flows.training.runs import settings_of, text_of, train_all
    from flows.training.training import check_dataset
    from flows.training.training import train as train_model

    check_dataset(dataset)
    options = {"version": version, "backbone": backbone, "margins": margins, "steps": steps}
    given = [*(settings or []), *(text_of(name, value) for name, value in options.items() if value is not None)]
    given += [f"axioms={axioms}"] if axioms is not None else []
    out, root = console(stderr=True), home_of(home)
    with closing(Bars(out) if out.is_terminal else Lines()) as building:
        if runs is not None:
            return _print_all(train_all(runs, given, to, root, TrainingLines(), building), to, as_json)
        run = settings_of({}, given, to, "training")
        trained = train_model(run, root, TrainingLines(), building)
    if as_json:
        return print_json(document(trained))
    _print(trained)


def document(trained: Trained) -> dict[str, Any]:
    """The model as one JSON value: folder, whether it is new, run and metrics."""
    return {"folder": str(trained.folder), "new": trained.new, "run": trained.run, "metrics": trained.metrics}


def _print(trained: Trained) -> None:
    """Print what was trained, its accuracy on held-out pairs beside that of length, and its folder."""
    if not trained.new:
        return print(f"Nothing to do: {trained.folder} holds this run.")
    last = trained.metrics["reports"][-1]
    print(f"{last['step']:,} steps on {trained.metrics['questions']:,} questions, loss {last['loss']:.3f}")
    if missing := set(map(str, trained.run["settings"]["axioms"])) - set(trained.metrics["pairs"]):
        print(f"  no pair of axiom {', '.join(sorted(missing))} in {trained.run['dataset']} {trained.run['version']}")
    rows = [row for row in trained.metrics["evaluation"] if row["set"] == "pairs" and row["metric"] == "accuracy"]
    by_length = {row["subset"]: row["value"] for row in rows if row["scorer"] == "length" and not row["against"]}
    for row in rows:
        if row["scorer"] != "length" and not row["against"]:
            print(
                f"  {row['subset']:<40} {row['value']:5.1f} %   length {by_length[row['subset']]:5.1f} %   {row['n']:,}"
            )
    print(trained.folder)


def _print_all(trained: Trainings, to: Path, as_json: bool) -> None:
    """Print the tables of a list of models, or all of them as JSON."""
    from flows.builds.console import console
    from tasks.publishing.card import table_markdown

    if as_json:
        tables = [{"title": table.title, "rows": table.cells.to_dict("records")} for table in trained.tables]
        return print_json({"models": {name: document(each) for name, each in trained.models.items()}, "tables": tables})
    out = console()
    for table in trained.tables:
        out.print(f"{table.title}\n\n{table_markdown(table)}\n", soft_wrap=True)
    print(to)
