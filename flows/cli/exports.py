"""The command that exports a version in other formats: the released one, chats, entailment pairs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.shared.arguments import Address, Home, Json, print_json, version_at
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
    source = VersionRows(address, home)
    left_out: Counter[str] = Counter()
    by_model: list[str] = []
    split_name = split or ("" if form == "expertqa-jsonl" else "train")
    if form == "expertqa-jsonl":
        rows = _examples(source, split, config, estimates, imported)
    elif form == "chat-jsonl":
        rows = _chats(source, split_name, config, by_model)
    else:
        rows = _entailments(source, split_name, config, left_out)
    of_split = f" of split {split_name} ({config})" if split_name else ""
    empty_message = f"{source.name} has nothing to export as {form}{of_split}"
    written = _write(to, map(line, rows), lambda: f"{empty_message}{_why(left_out)}.")
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
    print(f"Wrote {written:,} {'row' if written == 1 else 'rows'} of {source.name} to {to}.")
    if by_model:
        print(f"  {len(by_model):,} of them revised by a model, as metadata.revised_by says", file=sys.stderr)
    for reason, number in sorted(left_out.items()):
        print(f"  {number:,} left out: {reason}", file=sys.stderr)


class VersionRows:
    """The rows of a version's stages, read on demand."""

    def __init__(self, address: str, home: Path | None) -> None:
        self.store, self.version = version_at(address, home)
        self.name = f"{self.version.dataset} {self.version.name}"

    def rows(self, stage: str) -> Iterator[dict[str, Any]]:
        """The rows of one stage."""
        from longform.artifacts.versions import stage_rows

        return stage_rows(self.store, self.version, stage)

    def tables(self, names: dict[str, str]) -> dict[str, Iterator[dict[str, Any]]]:
        """name -> rows, for those of these stages that the version has."""
        return {name: self.rows(stage) for name, stage in names.items() if stage in self.version.stages}


def _examples(source: VersionRows, split: str | None, config: str, estimates: bool, imported: bool) -> Iterator[Any]:
    """The examples in the released format, of one split or of all questions."""
    from tasks.expertqa.exports import examples

    estimated = source.tables(ESTIMATES) if estimates else {}
    if estimates and not estimated:
        raise UsageError(f"{source.name} has no estimates: build it with them, or leave out --estimates.")
    splits = {row["question_id"]: row["split"] for row in source.rows(SPLIT_STAGES[config])} if split else {}
    rows = source.tables(TABLES) | estimated
    bank = "take_questions" if "take_questions" in source.version.stages else "read_questions"
    with_questions = examples(source.rows(bank), rows, estimates=estimates, only_imported=imported)
    return (example for question, example in with_questions if split is None or splits.get(question) == split)


def _chats(source: VersionRows, split: str, config: str, by_model: list[str]) -> Iterator[Any]:
    """The chats of a split; ids of rows whose answer was revised by a model are appended to `by_model`."""
    from tasks.expertqa.exports import chats

    for chat in chats(source.rows(SPLIT_STAGES[config]), split=split):
        if chat["metadata"]["revised_by"] == "model":
            by_model.append(chat["metadata"]["row_id"])
        yield chat


def _entailments(source: VersionRows, split: str, config: str, left_out: Counter[str]) -> Iterator[Any]:
    """The entailment pairs of a split; rows left out are counted by reason in `left_out`."""
    from tasks.expertqa.exports import entailments

    for row in entailments(source.rows("publish_claims"), split=split, config=config):
        if isinstance(row, str):
            left_out[row] += 1
        else:
            yield row


def _check(address: str, form: str, split: str | None, config: str, only_for_examples: bool) -> None:
    """Raise UsageError for options that do not fit together."""
    from tasks.expertqa.exports import CONFIGS, SPLITS

    if address.partition("@")[0] != "expertqa":
        raise UsageError(f'"{address}" has no exports: name a version of expertqa, e.g. expertqa@latest.')
    for name, value, choices in (("format", form, FORMATS), ("split", split, SPLITS), ("config", config, CONFIGS)):
        if value is not None and value not in choices:
            raise UsageError(f'--{name} "{value}" is not known; there is {", ".join(choices)}.')
    if only_for_examples and form != "expertqa-jsonl":
        raise UsageError(f"--estimates and --imported go with --format expertqa-jsonl, not with {form}.")


def _check_target(to: Path, force: bool) -> None:
    """Raise UsageError if the target cannot be written, or exists and is not to be replaced."""
    if to.is_dir() or not to.parent.is_dir():
        raise UsageError(f"{to} cannot be written: --to takes a file in a folder that is there.")
    if to.exists() and not force:
        raise UsageError(f"{to} is there already: name another file, or replace it with --force.")


def _why(left_out: Counter[str]) -> str:
    """The counted reasons for rows that were left out, for a message."""
    return "".join(f"; {number:,} left out: {reason}" for reason, number in sorted(left_out.items()))


def _write(to: Path, lines: Iterable[bytes], empty_message: Callable[[], str]) -> int:
    """Write the lines, whole or not at all, and return their number. UsageError if there is none."""
    from contextlib import suppress

    from longform.files import sync
    from longform.machines import temporary

    unfinished = to.with_name(temporary())
    number = 0
    try:
        with unfinished.open("wb") as file:
            for text in lines:
                file.write(text)
                number += 1
        if not number:
            raise UsageError(empty_message())
        sync(unfinished)
        unfinished.replace(to)
    except OSError as error:
        raise UsageError(f"{to} cannot be written ({error.strerror}): name another file.") from error
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
    return number
