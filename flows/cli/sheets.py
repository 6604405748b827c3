"""The command that writes a version's annotation sheets for experts, as files or for an annotation tool."""

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
class SheetOptions:
    """The options of the command; None or an empty list where one is not set."""

    format: str
    fields: list[str]
    most: int | None
    seed: int


@dataclass(frozen=True, slots=True)
class Sheets:
    """Written sheets: the files (the main one first), counts for programs, a summary, and the next step for people."""

    files: dict[str, bytes]
    counts: dict[str, int]
    summary: str
    next_step: str


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
    options = SheetOptions(format, fields or [], most, seed)
    written_sheets = SHEETS.get(version.dataset, _no_sheets)(store, version, options)
    written = _write(written_sheets.files, to, format)
    if as_json:
        return print_json({**written_sheets.counts, "format": format, "written": [str(path) for path in written]})
    print(written_sheets.summary)
    for path in written:
        print(path)
    print(written_sheets.next_step)


def _no_sheets(store: Store, version: Version, options: SheetOptions) -> Sheets:
    """Raise UsageError for a dataset without sheets."""
    from longform.errors import UsageError

    raise UsageError(
        f"{version.dataset} {version.name} has nothing that experts fill in: sheets are made of {' and '.join(SHEETS)}."
    )


def _check_format(format: str, known: tuple[str, ...]) -> None:
    from longform.errors import UsageError

    if format not in known:
        raise UsageError(f'There is no format "{format}" of sheets; there is {", ".join(known)}.')


# ---------------------------------------------------------------- expertqa


def _expertqa_sheets(store: Store, version: Version, options: SheetOptions) -> Sheets:
    """One sheet for each sampled answer, sorted by the expert who asked."""
    from longform.errors import UsageError
    from tasks.expertqa.sheets.sheet_files import FORMATS, sheet_files
    from tasks.expertqa.sheets.sheets import choose

    _check_format(options.format, FORMATS)
    all_sheets = list(sheets_of(store, version))
    chosen = choose(all_sheets, options.fields, options.most, options.seed)
    if not chosen:
        fields = ", ".join(sorted({sheet["field"] for sheet in all_sheets})) or "none was sampled"
        raise UsageError(
            f"{version.dataset} {version.name} has no answer to label of the fields given; it has {fields}."
        )
    claims = sum(len(sheet["claims"]) for sheet in chosen)
    experts = len({sheet["annotator_id"] for sheet in chosen} - {None})
    return Sheets(
        sheet_files(chosen, options.format),  # type: ignore[arg-type]
        {"sheets": len(chosen), "claims": claims, "experts": experts},
        f"{len(chosen):,} answers with {claims:,} claims, by {experts:,} experts.",
        "When they are filled in, name the files under `labels` in the configuration and build again.",
    )


def sheets_of(store: Store, version: Version) -> Iterator[Row]:
    """The sheets of a version's sampled answers; UsageError if the version has none."""
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
            if _is_sampled(row, sampled)
        ),
        (row for row in _rows(store, version, "link_evidence") if _is_sampled(row, sampled)),
    )


def _is_sampled(row: Row, sampled: set[Any]) -> bool:
    return row["answer_id"] in sampled


def _rows(store: Store, version: Version, stage: str, columns: list[str] | None = None) -> Iterator[Row]:
    from longform.artifacts.rows import read_batches
    from longform.artifacts.versions import artifact

    for part in artifact(store, version, stage).parts:
        for batch in read_batches(store.rows_path(part), 1_000, columns):
            yield from batch.to_pylist()


# ---------------------------------------------------------------- revision-distance


def _revision_distance_sheets(store: Store, version: Version, options: SheetOptions) -> Sheets:
    """One sheet for each drawn case of which both systems wrote a published draft, at most `most`."""
    from longform.errors import UsageError
    from tasks.revision_distance.sheets.sheets import FORMATS, MOST, SYSTEMS, sheet_file, sheets

    _check_format(options.format, FORMATS)
    if options.fields:
        raise UsageError(f"Drafts of {version.dataset} have no fields: leave out --field {options.fields[0]}.")
    found = sheets(_drafts(version), most=options.most or MOST, seed=options.seed)
    if not found:
        raise UsageError(
            f"{version.dataset} {version.name} has no case with a draft by {' and one by '.join(SYSTEMS)}: "
            "build with cases of related work."
        )
    return Sheets(
        {f"sheets.{options.format}": sheet_file(found, options.format)},
        {"sheets": len(found)},
        f"{len(found):,} pairs of drafts, drawn and blinded with seed {options.seed}: give every expert a copy.",
        "To fill in: expert (a number or a pseudonym), better (A, B or neither), and the ratings (1 to 5), if any.\n"
        "Then name the files under `judgements` in the configuration and build again.",
    )


def _drafts(version: Version) -> Iterator[Row]:
    """The published drafts of a version."""
    from longform.artifacts.rows import read_batches
    from tasks.revision_distance.sheets.sheets import SHOWN

    for config, paths in version.tables().items():
        if version.key(config) == "draft_id":
            for path in paths:
                for batch in read_batches(path, 1_000, list(SHOWN)):
                    yield from batch.to_pylist()


SHEETS: dict[str, Callable[[Store, Version, SheetOptions], Sheets]] = {
    "expertqa": _expertqa_sheets,
    "revision-distance": _revision_distance_sheets,
}


# ---------------------------------------------------------------- files


def _write(files: dict[str, bytes], to: Path, format: str) -> list[Path]:
    """Write the files and return their paths. UsageError if one exists that differs, as it may hold
    somebody's labels.
    """
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
