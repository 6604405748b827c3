"""The figures of a published version beside the paper's, read from its files alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow.parquet as pq

from longform.artifacts.rows import Row, read_batches
from longform.artifacts.versions import Version
from longform.errors import UsageError
from tasks.expertqa.tables.parity import Cell, compared, frames_of, lacking, read_tolerances
from tasks.expertqa.tables.reasons import facts_of
from tasks.expertqa.tables.rules import CLAIMS, MARKS, flagged

BATCH_ROWS = 1_000
SINCE = ("random_split_from", "domain_split_from")  # columns that versions of earlier releases lack


class Compared(NamedTuple):
    """A version's figures beside the paper's. `lacking`: why these say nothing of parity, and what to set; "" if they
    do.
    """

    cells: list[Cell]
    lacking: str


def parity_of(version: Version, tolerances: Path | None) -> Compared:
    """A cell for every figure that the paper prints (tables/parity.py). `tolerances`: a file that says others than
    parity.toml. UsageError for a version without claims or without tables.json.
    """
    limits = read_tolerances(tolerances)
    files, report = sorted((version.folder / "claims").rglob("*.parquet")), version.folder / "tables.json"
    if not files or not report.is_file():
        raise UsageError(
            f"{version.dataset} {version.name} has no claims or no tables.json to compare: build it again."
        )
    claims = pd.concat([_claims(file) for file in files], ignore_index=True)
    judged = claims.merge(flagged(_texts(files)), on="claim_id")
    text = report.read_text(encoding="utf-8")
    facts = facts_of(judged, _questions(text))
    cells = compared(frames_of(judged, text), facts, limits)
    return Compared(cells, lacking(f"{version.dataset} {version.name}", cells, facts))


def _claims(file: Path) -> pd.DataFrame:
    """The columns CLAIMS of a file of published claims; those that it lacks are missing."""
    there = pq.read_schema(file).names
    if missing := [name for name in CLAIMS if name not in there and name not in SINCE]:
        raise UsageError(f"{file} has no column {missing[0]}: build the version again with this release.")
    frame: pd.DataFrame = pq.read_table(file, columns=[name for name in CLAIMS if name in there]).to_pandas()
    return frame.reindex(columns=CLAIMS)


def _texts(files: list[Path]) -> Iterator[Row]:
    """The columns MARKS of all published claims."""
    for file in files:
        for batch in read_batches(file, BATCH_ROWS, list(MARKS)):
            yield from batch.to_pylist()


def _questions(report: str) -> int | None:
    """The number of questions of the bank, as table 2 of tables.json says it; None if it does not."""
    tables: list[dict[str, Any]] = json.loads(report)
    rows: list[Row] = next((table["rows"] for table in tables if table["title"].endswith("(table 2)")), [])
    return next((int(row["questions"]) for row in rows if row.get("meaning") == "all questions"), None)
