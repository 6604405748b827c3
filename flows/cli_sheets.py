"""The command that writes annotation sheets of a version: files for people, or for an annotation tool."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.arguments import Address, Home, Json, print_json, version_at

if TYPE_CHECKING:
    from longform.rows import Row
    from longform.store import Store
    from longform.versions import Version

app = typer.Typer()

STAGES = ("read_questions", "sample_answers", "collect_answers", "link_evidence")
FILE_ENDINGS = (".json", ".jsonl")


@app.command("sheets")
def write_sheets(
    address: Address,
    to: Annotated[
        Path, typer.Option("--to", metavar="DIR|FILE", help="a folder; of jsonl and label-studio also a file")
    ],
    format: Annotated[str, typer.Option("--format", metavar="F", help="jsonl, label-studio or argilla")] = "jsonl",
    fields: Annotated[
        list[str] | None, typer.Option("--field", metavar="NAME", help="only questions of this field; may come again")
    ] = None,
    most: Annotated[
        int | None,
        typer.Option("--most", metavar="N", min=1, help="of each field at most N questions, drawn by --seed"),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N")] = 0,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Write annotation sheets: one for each sampled answer, sorted by the expert who asked."""
    from longform.errors import UsageError
    from tasks.expertqa.sheet_files import FORMATS, sheet_files
    from tasks.expertqa.sheets import choose

    if format not in FORMATS:
        raise UsageError(f'There is no format "{format}" of sheets; there is {", ".join(FORMATS)}.')
    store, version = version_at(address, home)
    every = list(sheets_of(store, version))
    found = choose(every, fields or [], most, seed)
    if not found:
        there = ", ".join(sorted({one["field"] for one in every})) or "none was sampled"
        raise UsageError(
            f"{version.dataset} {version.name} has no answer to label of the fields given; it has {there}."
        )
    written = _write(sheet_files(found, format), to, format)  # type: ignore[arg-type]
    claims = sum(len(one["claims"]) for one in found)
    experts = len({one["annotator_id"] for one in found} - {None})
    if as_json:
        said = {"sheets": len(found), "claims": claims, "experts": experts}
        return print_json({**said, "format": format, "written": [str(path) for path in written]})
    print(f"{len(found):,} answers with {claims:,} claims, by {experts:,} experts.")
    for path in written:
        print(path)
    print("When they are filled in, name the files under `labels` in the configuration and build again.")


def sheets_of(store: Store, version: Version) -> Iterator[Row]:
    """The sheets of a version's sampled answers; UsageError for a dataset that has none."""
    from longform.errors import UsageError
    from tasks.expertqa.sheets import sheets

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
    from longform.rows import read_batches
    from longform.versions import artifact

    for part in artifact(store, version, stage).parts:
        for batch in read_batches(store.rows_path(part), 1_000, columns):
            yield from batch.to_pylist()


def _write(files: dict[str, bytes], to: Path, format: str) -> list[Path]:
    """The files written; nothing where one is there already, which may hold somebody's labels."""
    from longform.errors import UsageError
    from longform.store import write_bytes

    if format == "argilla" and to.suffix in FILE_ENDINGS:
        raise UsageError(f"Sheets for Argilla are a folder of files: give a folder instead of {to}.")
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
