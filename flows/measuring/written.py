"""What a measurement leaves in a folder: a row for each draft and list, what was left out, the tables, a report."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flows.measuring.measuring import Asked, Measured
from flows.revision_distance import ABOUT
from longform.artifacts.rows import Row
from longform.errors import UsageError
from longform.files import unwritable, write_bytes
from longform.machines import temporary

MARK = "measure.json"
FILES = ("drafts.parquet", "rejected.parquet", "tables.json", "report.html", MARK)
BASELINE_NOTE = (
    "The edits are those of the offline editor, a lexical baseline: it compares words sentence by sentence and sees no "
    "meaning. Name a model with --editor to measure as the paper does."
)


def refuse_unwritable(to: Path | None) -> None:
    """Raise UsageError if `--to` is a file, a folder of something else, or cannot be written to. A folder that a
    measurement wrote is written anew.
    """
    if to is None:
        return
    if to.exists() and not to.is_dir():
        raise UsageError(f"--to {to} is a file: name a folder.")
    if to.is_dir() and any(to.iterdir()) and not (to / MARK).is_file():
        raise UsageError(f"--to {to} holds something else: name another folder.")
    parent = next((each for each in to.absolute().parents if each.exists()), to)
    probe = parent / temporary()
    try:
        probe.mkdir()  # as access rights say nothing of file systems that take no files
        probe.rmdir()
    except OSError as error:
        raise UsageError(
            f"--to {to}: {parent} is no folder that can be written to ({error.strerror}): name another folder."
        ) from None


def write(to: Path, asked: Asked, found: Measured) -> None:
    """Write FILES into the folder: all of them or, if that fails, none. StoreError if it cannot be written to."""
    unfinished = to.with_name(temporary())
    try:
        unfinished.mkdir(parents=True)
        _write_drafts(unfinished / FILES[0], found)
        _write_rejected(unfinished / FILES[1], found.left_out)
        write_bytes(unfinished / FILES[2], tables_of(found).encode())
        write_bytes(unfinished / FILES[3], page(asked, found).encode())
        write_bytes(unfinished / MARK, (json.dumps(document(found), indent=1, ensure_ascii=False) + "\n").encode())
        if to.exists():
            shutil.rmtree(to)
        unfinished.rename(to)
    except OSError as error:
        raise unwritable(to, error) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write_drafts(path: Path, found: Measured) -> None:
    """The rows of all editors in one Parquet file, batch by batch; the signatures are in its metadata, too."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = next(iter(found.lists.values())).schema
    schema = schema.with_metadata(
        {**(schema.metadata or {}), b"signature": "\n".join(found.summary.signatures).encode()}
    )
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for rows in found.lists.values():
            for batch in rows.batches():
                writer.write_batch(pa.record_batch(batch.columns, schema))


def _write_rejected(path: Path, left_out: Sequence[Row]) -> None:
    """What was left out, as a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.string()) for name in ("stage", "editor", "key", "kind", "reason", "detail", "raw")])
    pq.write_table(pa.Table.from_pylist(list(left_out), schema), path, compression="zstd")


def tables_of(found: Measured) -> str:
    """The tables as JSON."""
    from tasks.publishing.report import as_data

    return as_data(found.summary.tables)


def page(asked: Asked, found: Measured) -> str:
    """The report as an HTML page."""
    from tasks.publishing.report import Page, tables_page

    editors = ", ".join(found.lists)
    head = Page(
        title=f"Revision distance of {asked.given.name}",
        version="",
        summary=f"How many edits the drafts still need, by {editors}: the corrected distance, and the paper's count.",
        paper=ABOUT.paper,
    )
    facts = [f"{found.drafts.count:,} drafts", *found.summary.signatures]
    return tables_page(head, facts, [*found.summary.tables, *_left_out_table(found)], warning=warning(found))


def warning(found: Measured) -> str:
    """What is to be said of the numbers where the offline editor made some of them; "" elsewhere."""
    return BASELINE_NOTE if any("lexical baseline" in each for each in found.summary.signatures) else ""


def _left_out_table(found: Measured) -> list[Any]:
    """A table of how many drafts were left out, by reason."""
    import pandas as pd

    from tasks.publishing.card import ReportTable

    rows = pd.DataFrame(found.left_out, columns=["editor", "reason", "key"])
    counts = rows.fillna({"editor": "–"}).groupby(["editor", "reason"], as_index=False).size()
    note = "rejected.parquet holds each with its reason and what it says."
    return [ReportTable("Left out", note, counts.rename(columns={"size": "drafts"}))]


def document(found: Measured) -> dict[str, Any]:
    """What was measured as a JSON value: signatures, and for each editor the systems, their differences, why some are
    not ranked; what was left out by reason.
    """
    from collections import Counter

    reasons = Counter((row["editor"], row["reason"]) for row in found.left_out)
    return {
        "signatures": found.summary.signatures,
        "drafts": found.drafts.count,
        "editors": {
            name: {
                "cases": ranking.cases,
                "systems": _records(ranking.systems),
                "pairs": _records(ranking.pairs),
                "unranked": ranking.unranked,
            }
            for name, ranking in found.summary.rankings.items()
        },
        "reliability": {
            table.title: _records(table.frame)
            for table in found.summary.tables
            if table.title.startswith(("Variance", "Agreement"))
        },
        "left_out": [
            {"editor": editor, "reason": reason, "drafts": number} for (editor, reason), number in reasons.items()
        ],
    }


def _records(frame: Any) -> list[dict[str, Any]]:
    """The rows of a frame as JSON values; null where a value is missing."""
    cells = frame.astype(object)
    return [
        {name: value.item() if hasattr(value, "item") else value for name, value in row.items()}
        for row in cells.where(cells.notna(), None).to_dict("records")
    ]
