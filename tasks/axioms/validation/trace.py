"""What `longform trace` shows of validation: the pair behind a row of its configs, and what was said of a pair."""

from __future__ import annotations

from collections.abc import Iterator

from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from longform.errors import UsageError
from tasks.publishing.lineage import Line, Record, rows_where, stage_rows_where

PAIRS, JUDGED = "pairs", "judgements"
SIDES = ("preferred", "rejected")


def pair_of(store: Store, version: Version, config: str, row: Record, stages: tuple[str, ...]) -> tuple[str, Record]:
    """(the stage that assembled a pair, the pair) behind a published row of a config: a pair, or a row that names one
    in `pair_id`. `stages`: those that assemble pairs. UsageError for a row of something else.
    """
    if config == PAIRS:
        return next(stage for stage in stages if stage in version.stages), row
    for stage in stages if "pair_id" in row else ():
        if found := stage_rows_where(store, version, stage, "pair_id = ? LIMIT 1", row["pair_id"]):
            return stage, found[0]
    raise UsageError("This row belongs to no pair: trace takes a pair_id, validation_id or judgement_id.")


def judgement_lines(version: Version, pair_id: str) -> Iterator[Line]:
    """The lines to print of what people and a judge said of a pair; none if nobody did."""
    files = version.tables().get(JUDGED, [])
    for number, row in enumerate(rows_where(files, "pair_id = ? ORDER BY who DESC, judgement_id", pair_id)):
        scores = ", ".join(f"{side} {row[f'{side}_score']:g}" for side in SIDES if row[f"{side}_score"] is not None)
        flaws = ", ".join(f"{side} {flaw}" for side in SIDES for flaw in row[f"{side}_flaws"])
        said = [f"the {row['better']} answer is {row['strength']} better", *filter(None, (scores, flaws))]
        by = f"{row['who']} {row['annotator_id']}"
        said += [
            f"{row['shown_first']} shown first",
            *([f"response {row['response'][:16]}…"] if row["response"] else []),
        ]
        yield "" if number else "judged", " · ".join([by, *said])
