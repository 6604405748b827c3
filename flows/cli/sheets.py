"""The command that writes sheets of a version for experts to fill in: files for people, or for an annotation tool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.shared.arguments import Address, Home, Json, print_json, version_at

if TYPE_CHECKING:
    from longform.artifacts.rows import Row
    from longform.artifacts.store import Store
    from longform.artifacts.versions import Version

app = typer.Typer()

STAGES = ("read_questions", "sample_answers", "collect_answers", "link_evidence")
FILE_ENDINGS = (".json", ".jsonl", ".csv")
OF_FORMAT = {".jsonl": "jsonl", ".csv": "csv"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line says: None or nothing where it does not."""

    format: str
    fields: list[str]
    most: int | None
    seed: int


@dataclass(frozen=True, slots=True)
class Made:
    """The files, the main one first; how many of what, for programs; a sentence on it, and what to do then."""

    files: dict[str, bytes]
    counts: dict[str, int]
    told: str
    then: str


@app.command("sheets")
def write_sheets(
    address: Address,
    to: Annotated[
        Path, typer.Option("--to", metavar="DIR|FILE", help="a folder; of jsonl, csv and label-studio also a file")
    ],
    format: Annotated[
        str, typer.Option("--format", metavar="F", help="jsonl; of expertqa also label-studio, argilla, else csv")
    ] = "jsonl",
    fields: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="NAME", help="expertqa: only questions of this field; may come again"),
    ] = None,
    most: Annotated[
        int | None,
        typer.Option(
            "--most",
            metavar="N",
            min=1,
            help="at most N, drawn by --seed: questions of each field, or pairs of drafts (else 20)",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N")] = 0,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Write sheets for experts: answers of expertqa with their claims; drafts of revision-distance, two by two."""
    store, version = version_at(address, home)
    wanted = Wanted(format, fields or [], most, seed)
    made = OF.get(version.dataset, _none)(store, version, wanted)
    written = _write(made.files, to, format)
    if as_json:
        return print_json({**made.counts, "format": format, "written": [str(path) for path in written]})
    print(made.told)
    for path in written:
        print(path)
    print(made.then)


def _none(store: Store, version: Version, wanted: Wanted) -> Made:
    from longform.errors import UsageError

    raise UsageError(
        f"{version.dataset} {version.name} has nothing that experts fill in: sheets are made of {' and '.join(OF)}."
    )


def _check_format(format: str, known: tuple[str, ...]) -> None:
    from longform.errors import UsageError

    if format not in known:
        raise UsageError(f'There is no format "{format}" of sheets; there is {", ".join(known)}.')


# ---------------------------------------------------------------- expertqa


def _of_expertqa(store: Store, version: Version, wanted: Wanted) -> Made:
    """One for each sampled answer, sorted by the expert who asked."""
    from longform.errors import UsageError
    from tasks.expertqa.sheets.sheet_files import FORMATS, sheet_files
    from tasks.expertqa.sheets.sheets import choose

    _check_format(wanted.format, FORMATS)
    every = list(sheets_of(store, version))
    found = choose(every, wanted.fields, wanted.most, wanted.seed)
    if not found:
        there = ", ".join(sorted({one["field"] for one in every})) or "none was sampled"
        raise UsageError(
            f"{version.dataset} {version.name} has no answer to label of the fields given; it has {there}."
        )
    claims = sum(len(one["claims"]) for one in found)
    experts = len({one["annotator_id"] for one in found} - {None})
    return Made(
        sheet_files(found, wanted.format),  # type: ignore[arg-type]
        {"sheets": len(found), "claims": claims, "experts": experts},
        f"{len(found):,} answers with {claims:,} claims, by {experts:,} experts.",
        "When they are filled in, name the files under `labels` in the configuration and build again.",
    )


def sheets_of(store: Store, version: Version) -> Iterator[Row]:
    """The sheets of a version's sampled answers; UsageError for a version that has none."""
    from longform.errors import UsageError
    from tasks.expertqa.sheets.sheets import sheets

    if not {*STAGES} <= version.stages.keys():
        raise UsageError(f"{version.dataset} {version.name} has no answers to label: sheets are made of expertqa.")
    sampled = {row["answer_id"] for row in _rows(store, version, "sample_answers", ["answer_id"])}
    columns = ["question_id", "annotator_id", "field", "question"]
    yield from sheets(
        _rows(store, version, "read_questions", columns),
        (
            row
            for row in _rows(store, version, "collect_answers", ["answer_id", "question_id", "text"])
            if _in(row, sampled)
        ),
        (row for row in _rows(store, version, "link_evidence") if _in(row, sampled)),
    )


def _in(row: Row, sampled: set[Any]) -> bool:
    return row["answer_id"] in sampled


def _rows(store: Store, version: Version, stage: str, columns: list[str] | None = None) -> Iterator[Row]:
    from longform.artifacts.rows import read_batches
    from longform.artifacts.versions import artifact

    for part in artifact(store, version, stage).parts:
        for batch in read_batches(store.rows_path(part), 1_000, columns):
            yield from batch.to_pylist()


# ---------------------------------------------------------------- revision-distance


def _of_revision_distance(store: Store, version: Version, wanted: Wanted) -> Made:
    """One for each of at most so many cases that both systems wrote a draft for, by what was published."""
    from longform.errors import UsageError
    from tasks.revision_distance.sheets.sheets import FORMATS, MOST, SYSTEMS, sheet_file, sheets

    _check_format(wanted.format, FORMATS)
    if wanted.fields:
        raise UsageError(f"Drafts of {version.dataset} have no fields: leave out --field {wanted.fields[0]}.")
    found = sheets(_drafts(version), most=wanted.most or MOST, seed=wanted.seed)
    if not found:
        raise UsageError(
            f"{version.dataset} {version.name} has no case with a draft by {' and one by '.join(SYSTEMS)}: "
            "build with cases of related work."
        )
    return Made(
        {f"sheets.{wanted.format}": sheet_file(found, wanted.format)},
        {"sheets": len(found)},
        f"{len(found):,} pairs of drafts, drawn and blinded with seed {wanted.seed}: give every expert a copy.",
        "To fill in: expert (a number or a pseudonym), better (A, B or neither), and the ratings (1 to 5), if any.\n"
        "Then name the files under `judgements` in the configuration and build again.",
    )


def _drafts(version: Version) -> Iterator[Row]:
    from longform.artifacts.rows import read_batches
    from tasks.revision_distance.sheets.sheets import SHOWN

    for config, paths in version.tables().items():
        if version.key(config) == "draft_id":
            for path in paths:
                for batch in read_batches(path, 1_000, list(SHOWN)):
                    yield from batch.to_pylist()


OF: dict[str, Callable[[Store, Version, Wanted], Made]] = {
    "expertqa": _of_expertqa,
    "revision-distance": _of_revision_distance,
}


# ---------------------------------------------------------------- files


def _write(files: dict[str, bytes], to: Path, format: str) -> list[Path]:
    """The files written; nothing where one is there already, which may hold somebody's labels."""
    from longform.errors import UsageError
    from longform.files import write_bytes

    if format == "argilla" and to.suffix in FILE_ENDINGS:
        raise UsageError(f"Sheets for Argilla are a folder of files: give a folder instead of {to}.")
    if OF_FORMAT.get(to.suffix, format) != format:
        raise UsageError(f"{to} would hold {format}: name it so, or give --format {OF_FORMAT[to.suffix]}.")
    main, *others = files
    folder = to.parent if to.suffix in FILE_ENDINGS else to
    places = {
        folder / (to.name if name == main and to.suffix in FILE_ENDINGS else name): name for name in (main, *others)
    }
    for path, name in places.items():
        if path.exists() and (path.is_dir() or path.read_bytes() != files[name]):
            raise UsageError(f"{path} is there already and may hold labels: name another place, or move it away.")
    for path, name in places.items():
        write_bytes(path, files[name])
    return [*places]
