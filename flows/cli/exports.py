"""The command that writes a version in the forms of others: the released one, chats, entailment pairs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.shared.arguments import Address, Home, Json, print_json, stage_rows, version_at
from longform.errors import UsageError

app = typer.Typer()

FORMATS = ("expertqa-jsonl", "chat-jsonl", "entailment-jsonl")
SPLIT_STAGES = {"random": "split_randomly", "domain": "split_by_field"}
TABLES = {
    "answers": "collect_answers",
    "split": "split_claims",
    "claims": "link_evidence",
    "labels": "collect_labels",
    "revised": "revise_answers",
}
ESTIMATES = {
    "attributions": "estimate_attribution",
    "facts": "break_claims",
    "judged": "judge_facts",
    "found": "find_for_facts",
}

Format = Annotated[str, typer.Option("--format", metavar="F", help=", ".join(FORMATS))]
Target = Annotated[Path, typer.Option("--to", metavar="FILE", help="the file to write")]
Split = Annotated[
    str | None, typer.Option("--split", metavar="S", help="train, validation or test; expertqa-jsonl: else all")
]
Division = Annotated[str, typer.Option("--config", metavar="C", help="whose split: random or domain")]
Estimates = Annotated[bool, typer.Option("--estimates", help="expertqa-jsonl: AutoAIS and FActScore of each claim")]
Imported = Annotated[bool, typer.Option("--imported", help="expertqa-jsonl: only what was imported")]
Overwrite = Annotated[bool, typer.Option("--force", help="replace the file if it is there")]


@app.command()
def export(
    address: Address,
    form: Format,
    to: Target,
    split: Split = None,
    config: Division = "random",
    estimates: Estimates = False,
    imported: Imported = False,
    force: Overwrite = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Write a version as JSONL: in the form it is released in, as chats, or as claims with evidence."""
    from tasks.expertqa.exports import line

    _check(address, form, split, config, estimates or imported)
    _check_target(to, force)
    built = Built(address, home)
    left_out: Counter[str] = Counter()
    by_model: list[str] = []
    named = split or ("" if form == "expertqa-jsonl" else "train")
    if form == "expertqa-jsonl":
        rows = _examples(built, split, config, estimates, imported)
    elif form == "chat-jsonl":
        rows = _chats(built, named, config, by_model)
    else:
        rows = _entailments(built, named, config, left_out)
    nothing = f"{built.name} has nothing to export as {form}{f' of split {named} ({config})' if named else ''}"
    written = _write(to, map(line, rows), lambda: f"{nothing}{_why(left_out)}.")
    if as_json:
        return print_json(
            {
                "file": str(to),
                "format": form,
                "rows": written,
                "left_out": dict(sorted(left_out.items())),
                **({"revised_by_model": len(by_model)} if form == "chat-jsonl" else {}),
            }
        )
    print(f"Wrote {written:,} {'row' if written == 1 else 'rows'} of {built.name} to {to}.")
    if by_model:
        print(f"  {len(by_model):,} of them revised by a model, as metadata.revised_by says", file=sys.stderr)
    for reason, number in sorted(left_out.items()):
        print(f"  {number:,} left out: {reason}", file=sys.stderr)


class Built:
    """The rows of a version's stages, read as they are asked for."""

    def __init__(self, address: str, home: Path | None) -> None:
        self.store, self.version = version_at(address, home)
        self.name = f"{self.version.dataset} {self.version.name}"

    def rows(self, stage: str) -> Iterator[dict[str, Any]]:
        return stage_rows(self.store, self.version, stage)

    def tables(self, names: dict[str, str]) -> dict[str, Iterator[dict[str, Any]]]:
        """Of these stages, those that ran for this version."""
        return {name: self.rows(stage) for name, stage in names.items() if stage in self.version.stages}


def _examples(built: Built, split: str | None, config: str, estimates: bool, imported: bool) -> Iterator[Any]:
    from tasks.expertqa.exports import Made, examples

    estimated = built.tables(ESTIMATES) if estimates else {}
    if estimates and not estimated:
        raise UsageError(f"{built.name} has no estimates: build it with them, or leave out --estimates.")
    splits = {row["question_id"]: row["split"] for row in built.rows(SPLIT_STAGES[config])} if split else {}
    made = Made(**built.tables(TABLES), **estimated)
    bank = "take_questions" if "take_questions" in built.version.stages else "read_questions"
    found = examples(built.rows(bank), made, estimates=estimates, only_imported=imported)
    return (example for question, example in found if split is None or splits.get(question) == split)


def _chats(built: Built, split: str, config: str, by_model: list[str]) -> Iterator[Any]:
    """The chats; `by_model` takes the rows whose answer no person revised."""
    from tasks.expertqa.exports import chats

    for chat in chats(built.rows(SPLIT_STAGES[config]), split=split):
        if chat["metadata"]["revised_by"] == "model":
            by_model.append(chat["metadata"]["row_id"])
        yield chat


def _entailments(built: Built, split: str, config: str, left_out: Counter[str]) -> Iterator[Any]:
    from tasks.expertqa.exports import entailments

    for row in entailments(built.rows("publish_claims"), split=split, config=config):
        if isinstance(row, str):
            left_out[row] += 1
        else:
            yield row


def _check(address: str, form: str, split: str | None, config: str, of_examples: bool) -> None:
    from tasks.expertqa.exports import CONFIGS, SPLITS

    if address.partition("@")[0] != "expertqa":
        raise UsageError(f'"{address}" has no exports: name a version of expertqa, e.g. expertqa@latest.')
    for name, value, known in (("format", form, FORMATS), ("split", split, SPLITS), ("config", config, CONFIGS)):
        if value is not None and value not in known:
            raise UsageError(f'--{name} "{value}" is not known; there is {", ".join(known)}.')
    if of_examples and form != "expertqa-jsonl":
        raise UsageError(f"--estimates and --imported go with --format expertqa-jsonl, not with {form}.")


def _check_target(to: Path, force: bool) -> None:
    if to.is_dir() or not to.parent.is_dir():
        raise UsageError(f"{to} cannot be written: --to takes a file in a folder that is there.")
    if to.exists() and not force:
        raise UsageError(f"{to} is there already: name another file, or replace it with --force.")


def _why(left_out: Counter[str]) -> str:
    """The reasons for which every row was left out."""
    return "".join(f"; {number:,} left out: {reason}" for reason, number in sorted(left_out.items()))


def _write(to: Path, lines: Iterable[bytes], nothing: Callable[[], str]) -> int:
    """How many lines; whole or not at all: beside its place, then renamed. UsageError where there is none."""
    from contextlib import suppress

    from longform.files import sync
    from longform.machines import temporary

    beside = to.with_name(temporary())
    number = 0
    try:
        with beside.open("wb") as file:
            for text in lines:
                file.write(text)
                number += 1
        if not number:
            raise UsageError(nothing())
        sync(beside)
        beside.replace(to)
    except OSError as error:
        raise UsageError(f"{to} cannot be written ({error.strerror}): name another file.") from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
    return number
