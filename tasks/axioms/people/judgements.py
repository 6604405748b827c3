"""What people say of pairs, from filled-in sheets: which answer is better and how much, scores, flaws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import duckdb
import pyarrow as pa

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import AllRows, Rejected, Row, Rows, read_parquet
from longform.engine.stage import Shard, StageContext, stage
from schemas.axioms.validation import JUDGEMENTS
from tasks.annotation.files import Rejectable, labellings, open_sheets, read_records, read_sheets
from tasks.annotation.labelling import Checked, Labelling
from tasks.annotation.reviews import first_of, rows_of
from tasks.annotation.values import Unfit
from tasks.answers import NO_MODEL
from tasks.axioms.people.form import FORM, STRENGTHS, tasks
from tasks.sources.files.lines import read_lines

OF_PAIR = (
    *("pair_id", "question_id", "pair_type", "axiom"),
    *(f"{side}_{name}" for side in ("preferred", "rejected") for name in ("id", "source")),
)
POINTS = {name: points for points, name in enumerate(reversed(STRENGTHS), start=1)}
OTHER = {"preferred": "rejected", "rejected": "preferred"}
open_judgements = partial(open_sheets, group="judgements")


@stage(JUDGEMENTS, revision=2)
def read_judgements(context: StageContext, files: Shard, pairs: AllRows, further: AllRows) -> Rejectable:
    """What people say of pairs, from one file: the first judgement of each person on each pair. A Rejected for what is
    none, for a pair that is not among `pairs` or `further` (any more), and for one whose texts are not these.
    SourceError, after the last row, for a file without a judgement.
    """
    named = labellings(FORM, read_records(FORM, read_lines(files), files.source.path))
    ids = {found.task for found, _ in named if isinstance(found, Labelling)}
    rows = {row["pair_id"]: row for row in pairs_of([pairs, further], ids)}
    known = {task.id: task for task in tasks(rows.values())}
    yield from read_sheets(FORM, files, known, partial(judgement_rows, pairs=rows))


def judgement_rows(found: Iterable[Checked | Rejected], pairs: Mapping[str, Row]) -> Rejectable:
    """The rows of JUDGEMENTS of these sheets, the first of each person on each pair; Rejecteds. `pairs`: id -> row."""

    def read(sheet: Checked) -> list[Row | Unfit]:
        return [_judgement(sheet, pairs[sheet.task.id])]

    yield from first_of(rows_of(found, read), "judgement_id", "judgement_id")


def _judgement(sheet: Checked, pair: Row) -> Row | Unfit:
    """The row of JUDGEMENTS of a sheet, without its seconds; an Unfit if it prefers neither answer."""
    values = {name: value for (_, name), value in sheet.values.items()}
    if "preference" not in values:
        return Unfit("no preference", sheet.task.id)
    first = "rejected" if sheet.swapped else "preferred"
    side_of = {first: "a", OTHER[first]: "b"}
    better = first if values["preference"] == "A" else OTHER[first]
    return {
        **judgement_of(pair, "people", sheet.annotator, first),
        **preference(better, values["strength"]),
        **{f"{side}_score": values.get(f"score_{letter}") for side, letter in side_of.items()},
        **{f"{side}_flaws": values.get(f"flaws_{letter}", []) for side, letter in side_of.items()},
        "cut": [],
        **NO_MODEL,
    }


def judgement_of(pair: Row, who: str, annotator: str, first: str) -> Row:
    """The columns of JUDGEMENTS that say who judged which pair. `first`: the answer shown as A."""
    # people are known by what they say of a pair once, a judge is asked once in each order
    once = [who, pair["pair_id"], annotator, *([first] if who == "judge" else [])]
    return {
        "judgement_id": f"j_{fingerprint(once)}",
        "who": who,
        "annotator_id": annotator,
        "shown_first": first,
        "parent_ids": list(dict.fromkeys([*pair["preferred_parent_ids"], *pair["rejected_parent_ids"]])),
        **{name: pair[name] for name in OF_PAIR},
    }


def preference(better: str, strength: str) -> Row:
    """The columns of JUDGEMENTS that say which answer is better, and how clearly."""
    points = POINTS[strength]
    return {"better": better, "strength": strength, "points": -points if better == "rejected" else points}


def collected(rows: Iterable[Row]) -> Iterator[Row | Rejected]:
    """The first judgement of each person, or of a judge in an order, on each pair; a Rejected for each further one."""
    yield from first_of(rows, "judgement_id", "judgement_id")


def pairs_of(tables: Iterable[Rows], ids: Iterable[str]) -> Iterator[Row]:
    """The pairs of these ids, each once, with all columns. `tables`: of rows of PAIRS."""
    left = set(ids)
    for rows in tables:
        if not left or not rows.paths:
            continue
        wanted = pa.table({"pair_id": pa.array(sorted(left), pa.string())})
        with duckdb.connect(config={"memory_limit": "512MB", "threads": 1}) as database:
            database.execute("SET TimeZone = 'UTC'")
            database.register("wanted", wanted)
            query = f"FROM {read_parquet(rows.paths)} WHERE pair_id IN (SELECT pair_id FROM wanted)"
            for batch in database.sql(query).to_arrow_reader():
                found = batch.to_pylist()
                left -= {row["pair_id"] for row in found}
                yield from found
