"""The datasheet of a source: what it holds, its terms, its known defects, and the counts of the last read of a home.

HOME/reads/<source>.json    what the last `longform read` of the source counted
DIR/DATASHEET.md            beside the Parquet files of `longform read … --to DIR`
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flows.builds.fetching import module_of, terms_of
from longform import __version__
from longform.artifacts.rows import Rows, read_parquet
from longform.engine.build import StageRun
from longform.files import read_json, write_bytes, write_json
from tasks.publishing.card import escaped

NAME = "DATASHEET.md"
READS = "reads"
LABELS = {"rejected": "rejected", "filtered": "filtered", "counters": "counted", "notes": "noted in rows"}
_TIMES = re.compile(r": \d+$")  # how often a note is meant within its row


def keep_counts(home: Path, source: str, tables: Sequence[Rows], runs: Sequence[StageRun]) -> None:
    """Write what a read of a source counted to `READS/<source>.json` of the home, in place of the read before: when,
    release, number of sources, and of each stage rows, rejected and filtered rows by reason, counters, notes of its
    rows, revision and fingerprint. StoreError if it cannot be written.
    """
    notes = {rows.fingerprint: notes_of(rows) for rows in tables}
    stages = [_counted(run, notes.get(run.artifact.fingerprint, {})) for run in runs]
    now = datetime.now(UTC).isoformat(timespec="seconds")
    document = {"source": source, "at": now, "longform": __version__, "sources": _sources(runs), "stages": stages}
    write_json(home / READS / f"{source}.json", document)


def _counted(run: StageRun, notes: dict[str, int]) -> dict[str, Any]:
    """The counts of one stage as a JSON value; `notes`: note -> number of rows that have it."""
    artifact = run.artifact
    return {
        "stage": run.stage,
        "rows": artifact.rows,
        "rejected": artifact.reasons("defect"),
        "filtered": artifact.reasons("filtered"),
        "counters": artifact.counts(),
        "notes": notes,
        "revision": artifact.recipe.revision,
        "fingerprint": artifact.fingerprint,
    }


def _sources(runs: Sequence[StageRun]) -> int:
    """The number of different files, or bundles of small files, that the stages read."""
    found = [value for run in runs for value in run.artifact.recipe.inputs.values() if isinstance(value, list)]
    return len({str(one["sha256"]) for sources in found for one in sources})


def notes_of(rows: Rows) -> dict[str, int]:
    """note -> number of rows that have it, most frequent first, of a table with the column `notes`; how often a
    note is meant within its row (`: 3`) is left out. Empty for other tables.
    """
    import duckdb

    if "notes" not in rows.schema.names or not rows.paths:
        return {}
    query = f"select note, count(*) from (select unnest(notes) as note from {read_parquet(rows.paths)}) group by note"
    found: Counter[str] = Counter()
    with duckdb.connect() as connection:
        for note, number in connection.execute(query).fetchall():
            found[_TIMES.sub("", note)] += number
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def datasheet(source: str, home: Path) -> dict[str, Any]:
    """The datasheet of a source as a JSON value: what, licence, attribution, decide, `defects` (a sentence, the reasons
    that count it, and how many rows of the last read have one of them, null without a read), and `last_read`, as
    `keep_counts` wrote it, or null. UsageError for an unknown source, StoreError if the counts are damaged.
    """
    module, last = module_of(source), read_json(home / READS / f"{source}.json")
    counts = _all_counts(last) if last else None
    defects = [
        {
            "defect": defect.sentence,
            "reasons": list(defect.reasons),
            "rows": None if counts is None or not defect.reasons else sum(counts[name] for name in defect.reasons),
        }
        for defect in module.DEFECTS
    ]
    return {"source": source, **terms_of(module.TERMS), "defects": defects, "last_read": last}


def _all_counts(last: Mapping[str, Any]) -> Counter[str]:
    """reason, counter or note -> its number over all stages of a read."""
    found: Counter[str] = Counter()
    for stage in last["stages"]:
        for label in LABELS:
            found.update(stage[label])
    return found


def markdown(sheet: Mapping[str, Any]) -> str:
    """The datasheet as Markdown. Texts that come from files (reasons, notes) are escaped: no markup, no HTML."""
    lines = [f"# {escaped(sheet['source'])}", "", escaped(sheet["what"]), "", "## Terms", ""]
    terms = {"Licence": "licence", "Name as source": "attribution", "Decide first": "decide"}
    lines += [f"- {label}: {escaped(sheet[name])}" for label, name in terms.items() if sheet[name]]
    lines += ["", "## Known defects", ""]
    for defect in sheet["defects"]:
        number = "" if defect["rows"] is None else f" Last read: {defect['rows']:,} rows."
        lines.append(f"- {escaped(defect['defect'])}{number}")
    return "\n".join([*lines, "", "## Last read", "", *_last_read(sheet["last_read"]), ""])


def _last_read(last: Mapping[str, Any] | None) -> list[str]:
    """The lines of Markdown on the last read: a table of stages, and a list of what they counted by reason."""
    if last is None:
        return ["Not read in this home yet."]
    lines = [f"{escaped(last['at'])}, longform {escaped(last['longform'])}, {last['sources']:,} files or bundles.", ""]
    lines += ["| stage | rows | rejected | filtered | recipe |", "|---|---:|---:|---:|---|"]
    for stage in last["stages"]:
        sums = " | ".join(f"{sum(stage[label].values()):,}" for label in ("rejected", "filtered"))
        recipe = f"{stage['fingerprint']}, revision {stage['revision']}"
        lines.append(f"| {escaped(stage['stage'])} | {stage['rows']:,} | {sums} | {escaped(recipe)} |")
    lines.append("")
    for stage in last["stages"]:
        for label, words in LABELS.items():
            found = ", ".join(f"{number:,} {escaped(name)}" for name, number in stage[label].items() if number)
            lines += [f"- {escaped(stage['stage'])}, {words}: {found}"] if found else []
    return lines


def write_markdown(source: str, home: Path, folder: Path) -> Path:
    """Write the datasheet as `folder`/DATASHEET.md and return its path. StoreError if it cannot be written."""
    place = folder / NAME
    write_bytes(place, markdown(datasheet(source, home)).encode("utf-8", "replace"))
    return place
