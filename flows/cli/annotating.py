"""The commands that open a form to annotators on the page, and that take annotations out of it and into it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.builds import completion
from flows.cli.shared.arguments import Address, Home, Json, home_of_group, print_json
from flows.forms import next_step
from flows.registry import checked_name
from longform.errors import UsageError
from longform.hints import hint
from longform.settings import home as home_of

if TYPE_CHECKING:
    from flows.page.work.database import Database
    from flows.page.work.rounds import Round
    from tasks.annotation.form import Task

app = typer.Typer()
commands = typer.Typer(
    no_args_is_help=True,
    callback=home_of_group,
    help="Forms on the page: open them, take annotations out or in.",
)
app.add_typer(commands, name="annotations")

FormName = Annotated[str | None, typer.Option("--form", metavar="NAME", help="of a dataset that has several")]
Opened = Annotated[
    str,
    typer.Argument(
        metavar="DATASET[@VERSION]", help="without a version: all of them", autocompletion=completion.addresses
    ),
]


@commands.command("open")
def open_form(
    address: Address,
    form: FormName = None,
    overlap: Annotated[int, typer.Option("--overlap", metavar="N", help="how many annotators each task gets")] = 1,
    most: Annotated[
        int | None, typer.Option("--most", metavar="N", help="at most N of each kind; else as many as in sheets")
    ] = None,
    role: Annotated[
        str, typer.Option("--role", help="for annotators, experts or adjudicators, and those above")
    ] = "annotator",
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="of what is drawn: tasks, their order, which text is A")
    ] = 0,
    home: Home = None,
) -> None:
    """Open a form of a version to annotators on the page."""
    from flows.page.work import rounds
    from flows.page.work.database import opened

    root = home_of(home)
    row, tasks = rounds.drawn(root, address, form, overlap=overlap, most=most, seed=seed, role=role)

    async def saving() -> None:
        async with opened(root) as database:
            await rounds.save(database, row, tasks)

    asyncio.run(saving())
    print(f"{len(tasks):,} tasks of {row['dataset']} {row['version']} are open, for {overlap} annotator(s) each.")


@commands.command("export")
def export_annotations(
    address: Opened,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="the file to write, over what an export left there")],
    form: FormName = None,
    format: Annotated[
        str,
        typer.Option("--format", metavar="F", help="jsonl, csv (for spreadsheets), plain-csv, label-studio, argilla"),
    ] = "jsonl",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Write what annotators submitted as filled-in sheets, for the dataset's setting that names such files."""
    from flows.page.work import exchange
    from longform.files import write_bytes
    from tasks.annotation.files import FORMATS

    if format not in FORMATS:
        raise UsageError(f'There is no format "{format}" of sheets; there is {", ".join(FORMATS)}.')
    of, found = asyncio.run(_submitted(home_of(home), address, form))
    if not found:
        raise UsageError(f"Nobody has submitted anything of {address} yet; {to} is not written.")
    write_bytes(to, exchange.exported(of.form, found, format))
    people = len({each.annotator for each in found})
    if as_json:
        return print_json({"annotations": len(found), "annotators": people, "format": format, "written": str(to)})
    print(f"{len(found):,} annotations of {people:,} annotators")
    print(to)
    print(f"Then {next_step(of.setting, address)}.")


async def _submitted(root: Path, address: str, form: str | None) -> tuple[Round, list[Any]]:
    """(the newest round of the form, what was submitted in all of its rounds)."""
    from flows.page.work import exchange
    from flows.page.work.database import opened

    async with opened(root) as database:
        own = await _rounds(database, root, address, form)
        found = [each for of in own for each in await exchange.submitted(database, of.id)]
    return own[0], found


async def _rounds(database: Database, root: Path, address: str, form: str | None) -> list[Round]:
    """The rounds of a form, at least one, the newest first: of a version, or without one of all versions of the
    dataset. UsageError if none was opened, or if `form` does not say which of several it is.
    """
    from flows.page.work import rounds
    from longform.artifacts.versions import find

    dataset, _, version = address.partition("@")
    named = find(root, address).name if version else None
    every = await rounds.rounds(database)
    own = [of for of in every if of.dataset == checked_name(dataset) and named in (None, of.version)]
    names = list(dict.fromkeys(of.form_name for of in own))
    if not names:
        raise UsageError(
            f"No form of {address} was opened: longform annotations open {address}, or on the page of an administrator."
        )
    if form is None and "" in names:  # the one without a name
        names = [""]
    if form is None and len(names) > 1:
        raise UsageError(f"Several forms of {address} were opened: name one with --form: {', '.join(names)}.")
    if form is not None and form not in names:
        raise UsageError(f'No form "{form}" of {address} was opened; {hint(form, names, "there is")}')
    return [of for of in own if of.form_name == (names[0] if form is None else form)]


@commands.command("import")
def import_annotations(
    address: Opened,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="filled-in sheets, or exports of a tool")],
    form: FormName = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Take filled-in sheets in, as if their annotators had worked on the page; none twice."""
    counted = asyncio.run(_imported(home_of(home), address, form, files))
    if as_json:
        return print_json(counted)
    print(f"{counted['added']:,} annotations were added, {counted['there']:,} were there already.")
    for reason, number in counted["rejected"].items():
        print(f"rejected   {number:>6,}   {reason}")


async def _imported(root: Path, address: str, form: str | None, files: list[Path]) -> dict[str, Any]:
    """How many annotations in the files were added to the first round that has their task, how many were there already,
    and reason -> how many labels were rejected.
    """
    from flows.page.work import exchange, rounds
    from flows.page.work.database import opened
    from longform.artifacts.rows import Shard
    from longform.files import sha256_of
    from tasks.annotation import labels
    from tasks.annotation.files import open_sheets, read_file
    from tasks.annotation.labelling import Checked

    sources = open_sheets(files, sha256_of, group="annotations", accounts={})
    added, there = 0, 0
    async with opened(root) as database:
        known: dict[str, Task] = {}
        owner: dict[str, str] = {}
        own = {of.id: of for of in await _rounds(database, root, address, form)}
        for of in own.values():
            tasks = [task for task in (await rounds.tasks_of(database, of.id)).values() if task.id not in known]
            known |= {task.id: task for task in tasks}
            owner |= dict.fromkeys((task.id for task in tasks), of.id)
        shape = next(iter(own.values())).form
        found = [each for source in sources for each in read_file(shape, Shard(source, 0), known)]
        for of in own.values():
            mine = [each for each in found if isinstance(each, Checked) and owner[each.task.id] == of.id]
            new, old = await exchange.take_in(database, of, of.form, mine)
            added, there = added + new, there + old
    return {"added": added, "there": there, "rejected": labels.reasons(found)}
