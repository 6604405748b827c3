"""The command that exports a version in other formats, as its dataset declares them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from flows.cli.shared.arguments import Address, Home, Json, print_json, version_at
from flows.registry import DATASETS, checked_name, module_of
from longform.errors import UsageError

if TYPE_CHECKING:
    from tasks.publishing.exports import Format

app = typer.Typer()
CONFIG_HELP = (
    "expertqa: whose split, random or domain; axioms: preference, preference_sampled or preference_text; else the first"
)


@app.command()
def export(
    address: Address,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="the file to write")],
    form: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="F", help="expertqa: expertqa-jsonl, chat-jsonl, entailment-jsonl; axioms has only one"
        ),
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", metavar="S", help="train, validation or test; expertqa-jsonl: else all")
    ] = None,
    config: Annotated[str | None, typer.Option("--config", metavar="C", help=CONFIG_HELP)] = None,
    estimates: Annotated[
        bool, typer.Option("--estimates", help="expertqa-jsonl: AutoAIS and FActScore of each claim")
    ] = False,
    imported: Annotated[bool, typer.Option("--imported", help="expertqa-jsonl: only what was imported")] = False,
    force: Annotated[bool, typer.Option("--force", help="replace the file if it is there")] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Write a version as JSONL: in the form it is released in, as chats, as claims with evidence, or as preference
    pairs for trainers.
    """
    from tasks.publishing.exports import Export

    options = frozenset(name for name, chosen in (("estimates", estimates), ("imported", imported)) if chosen)
    form, format = _format(address, form, split, config, options)
    _check_target(to, force)
    asked = Export(*version_at(address, home), split or format.split, config or format.configs[0], options)
    of_split = f" of split {asked.split} ({asked.config})" if asked.split else ""
    empty_message = f"{asked.label} has nothing to export as {form}{of_split}"
    written = _write(to, map(format.line, format.rows(asked)), lambda: f"{empty_message}{_why(asked.left_out)}.")
    left_out = dict(sorted(asked.left_out.items()))
    if as_json:
        noted = {name: asked.noted[name] for name in format.notes}
        return print_json({"file": str(to), "format": form, "rows": written, "left_out": left_out, **noted})
    print(f"Wrote {written:,} {'row' if written == 1 else 'rows'} of {asked.label} to {to}.")
    for name, number in asked.noted.items():
        print(f"  {number:,} {format.notes[name]}", file=sys.stderr)
    for reason, number in left_out.items():
        print(f"  {number:,} left out: {reason}", file=sys.stderr)


def _format(
    address: str, form: str | None, split: str | None, config: str | None, options: frozenset[str]
) -> tuple[str, Format]:
    """(name, format) of the format `form` (--format) of the address's dataset; None means the only one. UsageError if
    there is no such dataset, or it has no formats, several and none is named, lacks this one, or if the split, the
    config or an option does not go with it.
    """
    formats = {name: getattr(module_of(name), "EXPORTS", {}) for name in DATASETS}
    known = formats[checked_name(address.partition("@")[0])]
    if not known:
        others = " or ".join(name for name, of in formats.items() if of)
        raise UsageError(f'"{address}" has no exports: name a version of {others}.')
    if form is None:
        if len(known) > 1:
            raise UsageError(f"{address} has several exports: name one by --format; there is {', '.join(known)}.")
        form = next(iter(known))
    _check_choice("format", form, known)
    format = known[form]
    _check_choice("split", split, format.splits)
    _check_choice("config", config, format.configs)
    for option in sorted(options - format.options):
        names = " or ".join(name for name, of in known.items() if option in of.options)
        goes = f"goes with --format {names}, not with {form}" if names else f"does not go with {address}"
        raise UsageError(f"--{option} {goes}.")
    return form, cast("Format", format)


def _check_choice(option: str, value: str | None, choices: Iterable[str]) -> None:
    """Raise UsageError if a value is given for --<option> that is none of the choices."""
    if value is not None and value not in choices:
        raise UsageError(f'--{option} "{value}" is not known; there is {", ".join(choices)}.')


def _check_target(to: Path, force: bool) -> None:
    """Raise UsageError if the file `to` is a folder, if its folder is missing, or if it exists and `force` is False,
    unless it is a pipe or a device, which is written to.
    """
    if to.is_dir() or not to.parent.is_dir():
        raise UsageError(f"{to} cannot be written: --to takes a file in a folder that is there.")
    if to.is_file() and not force:
        raise UsageError(f"{to} is there already: name another file, or replace it with --force.")


def _why(left_out: Counter[str]) -> str:
    """Reasons for rows left out, with their counts, as the end of a sentence: `; 3 left out: no evidence`; empty if
    none.
    """
    return "".join(f"; {number:,} left out: {reason}" for reason, number in sorted(left_out.items()))


def _write(to: Path, lines: Iterable[bytes], empty_message: Callable[[], str]) -> int:
    """Write the lines, which end in their own line breaks, to the file `to`, whole or not at all, and return their
    number. A link stays, what it leads to is written; into a pipe or a device the lines go one by one. UsageError with
    `empty_message()` if there are no lines, and if the file cannot be written.
    """
    from contextlib import suppress

    from longform.files import sync
    from longform.machines import temporary

    kept = not to.exists() or to.is_file()
    target = to.resolve()
    unfinished = target.with_name(temporary())
    number = 0
    try:
        with (unfinished if kept else to).open("wb") as file:
            for text in lines:
                file.write(text)
                number += 1
        if not number:
            raise UsageError(empty_message())
        if kept:
            sync(unfinished)
            unfinished.replace(target)
    except OSError as error:
        raise UsageError(f"{to} cannot be written ({error.strerror}): name another file.") from error
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
    return number
