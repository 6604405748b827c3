"""The report of the revision-distance dataset: its stages' columns, read once each, as tables and a plot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

import pyarrow as pa

from longform.artifacts.rows import Row, Rows
from tasks.publishing.card import Figure, ReportTable
from tasks.revision_distance.tables import tables as made
from tasks.revision_distance.tables.experts import expert_tables
from tasks.revision_distance.tables.figures import plots

KINDS = ("case_id", "task", "kind")
CHECKED = ("case_id", "checked", "checked_kind")
MEASURES = tuple(metric.column for metric in (*made.METRICS, made.SOURCE))
DRAFTS = ("draft_id", "case_id", "task", "system", *MEASURES, "bertscore_left_out", "reproduces")
EDITS = tuple(f"edits.list.element.{name}" for name in made.Edit._fields)
JUDGEMENTS = (
    *("sheet_id", "case_id", "expert", "better", "first", "second"),
    *("content", "structure", "argument"),
)


def tables(cases: Rows, candidates: Rows, checked: Rows, published: Rows, judgements: Rows) -> list[ReportTable]:
    """Tables 2, 3 and 5, the agreement with choices and experts, edits and cases. `published` are the drafts."""
    taken, drawn, said = list(read(cases, KINDS)), list(read(candidates, KINDS)), list(read(checked, CHECKED))
    drafts, judged = drafts_of(published), list(read(judgements, JUDGEMENTS))
    number = Counter(row["task"] for row in taken)
    return [
        *(made.weak_and_strong(drafts, task, number[task]) for task in ("easy", "hard")),
        made.categories(drafts, number["hard"]),
        made.preferences(drafts, number["free"]),
        made.source_scores(drafts),
        made.structure(drafts),
        *expert_tables(judged, drafts),
        made.intentions(drafts),
        made.placement(drafts),
        made.reproduced(drafts),
        made.selection(taken, drawn, said, rejected_keys(candidates)),
        made.kinds(taken, drawn, said),
    ]


def figures(published: Rows) -> list[Figure]:
    """How distances are distributed; nothing where there is no distance."""
    return plots(list(read(published, ("case_id", "task", "system", "distance"))))


def read(rows: Rows, columns: Sequence[str]) -> Iterator[Row]:
    for batch in rows.batches(list(columns)):
        yield from batch.to_pylist()


def drafts_of(published: Rows) -> list[Row]:
    """Drafts with their edits as `Edit`s, of which equal ones are one object: 8 bytes an edit, where dicts took 400."""
    known: dict[made.Edit, made.Edit] = {}
    return [
        {**row, "edits": own}
        for batch in published.batches([*DRAFTS, *EDITS])
        for row, own in zip(batch.select(DRAFTS).to_pylist(), edits_of(batch.column("edits"), known), strict=True)
    ]


def edits_of(lists: pa.ListArray, known: dict[made.Edit, made.Edit]) -> Iterator[tuple[made.Edit, ...]]:
    """The edits of each draft, in order; `known` holds those that were met before, and is added to."""
    structs = lists.flatten()
    every = map(made.Edit, *(structs.field(name).to_pylist() for name in made.Edit._fields))
    for number in lists.value_lengths().to_pylist():
        yield tuple(known.setdefault(edit, edit) for edit in islice(every, number))


def rejected_keys(rows: Rows) -> Iterator[str]:
    """Keys of what the stage left out."""
    import pyarrow.parquet as pq

    for part in rows.parts or ():
        if part.rejected_sha256:
            yield from pq.read_table(rows.store.rejected_path(part), columns=["key"]).column("key").to_pylist()
