"""The commands that write a version's annotation sheets, and that check the sheets that come back filled in."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from flows.cli.shared.arguments import Address, ConfigFile, Home, Json, print_json, version_at
from flows.forms import next_step, sheets_of
from flows.registry import config_class
from longform.errors import UsageError
from longform.hints import hint

if TYPE_CHECKING:
    import pandas as pd

    from tasks.annotation.form import Sheets, Task

app = typer.Typer()

FILE_ENDINGS = (".json", ".jsonl", ".csv")
BOUNDS = (" from", " to")  # of the columns of an interval's bounds
OF_FORMAT = {".jsonl": ("jsonl",), ".csv": ("csv", "plain-csv")}
FormName = Annotated[
    str | None,
    typer.Option(
        "--form",
        metavar="NAME",
        help="of datasets that have several, as llmcrit (criteria, validity, …) and kiwi (questions, ratings, …)",
    ),
]


@app.command("sheets")
def write_sheets(
    address: Address,
    to: Annotated[Path, typer.Option("--to", metavar="DIR|FILE", help="a folder; of jsonl and csv also a file")],
    format: Annotated[
        str,
        typer.Option("--format", metavar="F", help="jsonl, csv (for spreadsheets), plain-csv, label-studio, argilla"),
    ] = "jsonl",
    form: FormName = None,
    fields: Annotated[
        list[str] | None,
        typer.Option(
            "--field",
            metavar="NAME",
            help="only questions of this field (expertqa), or this task (llmcrit); may come again",
        ),
    ] = None,
    most: Annotated[
        int | None,
        typer.Option(
            "--most",
            metavar="N",
            min=1,
            help="at most N, drawn by --seed: questions of each field, pairs of drafts (else 20), or feedback of each "
            "task (else 100)",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="of what is drawn: tasks, their order, which text is A")
    ] = 0,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Write sheets for experts: answers of expertqa with their claims; drafts of revision-distance, two by two;
    criteria, demonstrations and judged feedback of llmcrit; questions, turns and their passages of kiwi.
    """
    from tasks.annotation.files import FORMATS, sheet_files
    from tasks.annotation.form import arranged, draw

    if format not in FORMATS:
        raise UsageError(f'There is no format "{format}" of sheets; there is {", ".join(FORMATS)}.')
    of = sheets_of(*version_at(address, home), form)
    kept = _of_fields(of, fields or [])
    drawn = arranged(of.form, draw(kept, most or of.most, seed), seed)
    written = _write(sheet_files(of.form, drawn, format), to, format)
    items = sum(len(task.items) for task in drawn)
    experts = len({task.annotator for task in drawn} - {None})
    counts = (
        {"sheets": len(drawn)}
        | ({of.form.items: items} if of.form.items else {})
        | ({"experts": experts} if experts else {})
    )
    if as_json:
        return print_json({**counts, "format": format, "written": [str(path) for path in written]})
    print(", ".join(f"{number:,} {name}" for name, number in counts.items()) + f", drawn with seed {seed}.")
    for path in written:
        print(path)
    asked = ", ".join(field.name for field in of.form.fields)
    print(f"To fill in: {of.form.annotator} (a number or a pseudonym), {asked}. Then {next_step(of.setting, address)}.")


def _of_fields(of: Sheets, fields: list[str]) -> list[Task]:
    """The tasks whose question is of one of these fields of knowledge; all tasks if `fields` is empty. UsageError for
    an unknown field, or if the version has no tasks.
    """
    if not of.tasks:
        raise UsageError(of.missing)
    known = sorted({task.stratum for task in of.tasks} - {""})
    if unknown := [name for name in fields if name not in known]:
        raise UsageError(
            f'There is no field "{unknown[0]}" to be labelled: the version has {", ".join(known) or "no fields"}; '
            f"leave out --field {unknown[0]}."
        )
    return [task for task in of.tasks if not fields or task.stratum in fields]


@app.command("labels")
def show_labels(
    address: Address,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE...]", help="filled-in sheets, exports of a tool; else what --config names"),
    ] = None,
    form: FormName = None,
    config: ConfigFile = None,
    rule: Annotated[
        str, typer.Option("--rule", help="what annotators say together: majority, plurality or unanimous")
    ] = "majority",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """What filled-in sheets say of a version, before it is built: progress, agreement, and what cannot be taken."""
    from longform.artifacts.rows import Shard
    from longform.files import sha256_of
    from tasks.annotation import agreement, labels
    from tasks.annotation.files import open_sheets, read_file, yields_no_label
    from tasks.annotation.labelling import Checked

    if rule not in get_args(labels.Rule):
        raise UsageError(f'There is no rule "{rule}"; {hint(rule, get_args(labels.Rule), "there is")}')
    of = sheets_of(*version_at(address, home), form)
    named, accounts = _configured(address, of, config)
    if not (paths := files or named):
        raise UsageError(f"No file is named: give filled-in sheets, or --config with a file that names `{of.setting}`.")
    sources = open_sheets(paths, sha256_of, group="labels", accounts=accounts)
    known = {task.id: task for task in of.tasks}
    by_file = {source.path: list(read_file(of.form, Shard(source, 0), known)) for source in sources}
    found = [each for of_file in by_file.values() for each in of_file]
    table = labels.table(of.form, (each for each in found if isinstance(each, Checked)))
    together = labels.aggregate(table, rule=cast(labels.Rule, rule))
    tables = {
        "progress": labels.progress(of.form, of.tasks, table),
        "annotators": labels.by_annotator(table),
        "agreement": agreement.agreement(of.form, table),
        rule: labels.decision_counts(together),
    }
    rejected = labels.reasons(found)
    if as_json:
        shown = tables | {"together": together}
        records = {name: json.loads(frame.to_json(orient="records")) for name, frame in shown.items()}
        print_json({**records, "rejected": rejected})
    else:
        _print(tables, rejected)
    for path, of_file in by_file.items():
        if not any(isinstance(each, Checked) for each in of_file):
            raise yields_no_label(path, labels.reasons(of_file))


def _print(tables: Mapping[str, pd.DataFrame], rejected: Mapping[str, int]) -> None:
    """Print each table under its title, without rows of 0 units, then the number of rejected labellings for each
    reason. A table without rows is printed as a phrase that says so.
    """
    from flows.builds.console import console, table

    out = console()
    for name, frame in tables.items():
        out.print(name, style="bold")
        rows = [_cells(row) for row in frame.to_dict("records") if row.get("units", 1)]
        if rows:
            out.print(
                table({column: "right" if at else "whole" for at, column in enumerate(rows[0])}, map(dict.values, rows))
            )
        else:
            out.print("none" if name == "annotators" else "nothing that two or more annotators labelled")
        out.print()
    for reason, number in rejected.items():
        out.print(f"rejected   {number:>6,}   {reason}")


def _cells(row: dict[Any, Any]) -> dict[str, object]:
    """column -> the value as it is printed. The bounds of an interval (the columns `<measure> from` and `<measure>
    to`) stand in brackets behind their measure instead of in columns of their own; without a lower bound nothing does.
    """
    cells: dict[str, object] = {name: _cell(value) for name, value in row.items() if not name.endswith(BOUNDS)}
    for name in cells:
        low, high = (row.get(f"{name}{bound}") for bound in BOUNDS)
        if _cell(low) != "-":
            cells[name] = f"{cells[name]} [{_cell(low)}, {_cell(high)}]"
    return cells


def _cell(value: Any) -> object:
    """A value as it is printed: `-` for None and NaN, any other float (also 1.0) as text with two decimals, anything
    else unchanged.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else value


def _configured(address: str, of: Sheets, file: Path | None) -> tuple[list[str], dict[str, dict[str, str]]]:
    """(the label files that a configuration file names, its setting `accounts`: file or folder -> account ->
    annotator); ([], {}) if `file` is None. UsageError for a wrong configuration.
    """
    from flows.config import configuration
    from flows.config.inputs import listed

    if file is None:
        return [], {}
    if not of.setting:
        raise UsageError(f"No setting names sheets of {of.form.name}: give the filled-in files themselves.")
    dataset = address.partition("@")[0]
    config = configuration.read(dataset, config_class(dataset), file, [])
    return list(map(str, listed(getattr(config, of.setting)))), config.accounts


# ---------------------------------------------------------------- files


def _write(files: dict[str, bytes], to: Path, format: str) -> list[Path]:
    """Write the sheets (file name -> content) into the folder `to` or, if `to` has an ending of FILE_ENDINGS, a single
    sheet as this file; return the paths.

    UsageError, before anything is written, if there are several sheets for one file, if a file exists with another
    content, as it may hold somebody's labels, or if `to` ends in .jsonl or .csv and the format is another.
    """
    from longform.files import write_bytes

    one_file = to.suffix in FILE_ENDINGS
    if one_file and len(files) > 1:
        raise UsageError(f"Sheets as {format} are a folder of files: give a folder instead of {to}.")
    if format not in OF_FORMAT.get(to.suffix, (format,)):
        raise UsageError(f"{to} would hold {format}: name it so, or give --format {OF_FORMAT[to.suffix][0]}.")
    places = {to if one_file else to / name: content for name, content in files.items()}
    for path, content in places.items():
        if path.exists() and (path.is_dir() or path.read_bytes() != content):
            raise UsageError(f"{path} is there already and may hold labels: name another place, or move it away.")
    for path, content in places.items():
        write_bytes(path, content)
    return [*places]
