"""The form by which people say which of two answers is better: a pair of a version, its two texts in an order drawn at
random (section 4.2: preferences on a scale of six, scores from 1 to 10, six flaws).

It does not show which answer the pair prefers, its type, who or what wrote them, or their votes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from longform.artifacts.rows import Row, read_batches
from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from tasks.annotation.form import NEITHER, Field, Form, Sheets, Shown, Task
from tasks.annotation.values import folded

STRENGTHS = ("strongly", "moderately", "slightly")
FLAWS = ("unclear", "repetitive", "irrelevant", "too narrow", "too broad", "inaccurate")
SHOWN = ("pair_id", "pair_type", "question", "evidence", "preferred", "rejected")


def no_tie(values: Mapping[str, Any]) -> str | None:
    """Why the values of a sheet do not count together: a tie, which there is not, or a preference without strength."""
    if values.get("preference") == NEITHER:
        return "a tie: one of the two is at least slightly better"
    return "a preference without its strength" if ("preference" in values) != ("strength" in values) else None


GUIDANCE = (
    "Two answers to one question: say which is better, and how much. There is no tie. Give each a score from 1 to "
    "10, and mark every flaw that you see."
)
FIELDS = (
    Field("preference", "Which answer is better?", "pairwise", ("A", "B"), {NEITHER: NEITHER}, required=True),
    Field("strength", "How much better?", "choice", STRENGTHS, required=True),
    *(
        Field(f"score_{side}", f"Score of text {side.upper()}, 1 to 10", "number", scale=(1, 10), required=True)
        for side in "ab"
    ),
    *(Field(f"flaws_{side}", f"Flaws of text {side.upper()}", "choices", FLAWS) for side in "ab"),
)
FORM = Form(
    name="axioms-preference",
    guidance=GUIDANCE,
    key="pair_id",
    annotator="annotator_id",
    shown=(Shown("question"), Shown("evidence", required=False), Shown("text_a"), Shown("text_b")),
    fields=FIELDS,
    unfit=no_tie,
)


def sheets(store: Store, version: Version) -> Sheets:
    """The sheets of a version: a task for each pair of its config `validation`; `store` is not used."""
    missing = (
        f"{version.dataset} {version.name} has no pairs to compare (config validation): build it again, with "
        "validation_pairs above 0, or name another version."
    )
    files = version.tables().get("validation", ())
    rows = (row for path in files for batch in read_batches(path, 1_000, list(SHOWN)) for row in batch.to_pylist())
    return Sheets(FORM, list(tasks(rows)), "judgements", missing)


def tasks(pairs: Iterable[Row]) -> Iterator[Task]:
    """A task for each pair, in the group of its id and the stratum of its type; none for one whose texts are equal but
    for white space.
    """
    for row in pairs:
        if folded(row["preferred"]) != folded(row["rejected"]):
            texts = {"question": row["question"], "evidence": "\n\n".join(row["evidence"])}
            texts |= {"text_a": row["preferred"], "text_b": row["rejected"]}
            yield Task(row["pair_id"], texts, group=row["pair_id"], stratum=row["pair_type"])
