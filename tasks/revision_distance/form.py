"""The form that experts fill in: two related-work paragraphs on the same papers, side by side, and which is better.

It does not show which system wrote which text. A sheet's id names the two drafts, whichever of them is text A.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Row, read_batches
from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from tasks.annotation.form import Field, Form, Sheets, Shown, Task
from tasks.annotation.values import folded

SYSTEMS = ("vanilla", "cot")
RATED = ("content", "structure", "argument")
SHOWN = ("draft_id", "case_id", "system", "title", "abstract", "cited", "draft")
MOST = 20

FORM = Form(
    name="revision-distance",
    guidance=(
        "Two paragraphs of related work on the same papers: say which is better, and rate both from 1 to 5 "
        "where you can."
    ),
    key="sheet_id",
    annotator="expert",
    context=("case_id",),
    shown=(
        Shown("title", required=False),
        Shown("abstract", required=False),
        Shown("cited", required=False),
        Shown("text_a"),
        Shown("text_b"),
    ),
    fields=(
        Field("better", "Which text is better?", "pairwise", required=True),
        *(
            Field(f"{name}_{side}", f"{name.capitalize()} of text {side.upper()}", "number", scale=(1, 5))
            for name in RATED
            for side in "ab"
        ),
    ),
)


def sheets(store: Store, version: Version) -> Sheets:
    """The sheets for a version: a task for each case with drafts by both systems, unless their texts are equal.

    Reads the published drafts; `store` is not used.
    """
    missing = (
        f"{version.dataset} {version.name} has no case with a draft by {' and one by '.join(SYSTEMS)}: "
        "build with cases of related work."
    )
    files = [path for config, paths in version.tables().items() if version.key(config) == "draft_id" for path in paths]
    drafts = (row for path in files for batch in read_batches(path, 1_000, list(SHOWN)) for row in batch.to_pylist())
    return Sheets(FORM, list(tasks(drafts)), "judgements", missing, MOST)


def tasks(drafts: Iterable[Row]) -> Iterator[Task]:
    """A judgement task for each case that has a draft by each of SYSTEMS, unless the two texts are equal.

    `drafts`: rows of PUBLISHED_DRAFTS, with the columns SHOWN at least.
    """
    for first, second in pairs(drafts):
        name = sheet_id(first["draft_id"], second["draft_id"])
        cited = "\n".join(paper["title"] for paper in first["cited"] if paper["title"])
        texts = {"title": first["title"] or "", "abstract": first["abstract"] or "", "cited": cited}
        texts |= {"text_a": first["draft"], "text_b": second["draft"]}
        yield Task(name, texts, context={"case_id": first["case_id"]}, group=name)


def pairs(drafts: Iterable[Row]) -> Iterator[tuple[Row, Row]]:
    """(draft by the first of SYSTEMS, draft by the second) of each case that has both, in the order of the cases.

    A case whose two texts are equal but for white space is left out. `drafts`: rows with `case_id`, `system`, `draft`;
    of several by one system the last counts.
    """
    of_case: dict[str, dict[str, Row]] = {}
    for draft in drafts:
        if draft["system"] in SYSTEMS:
            of_case.setdefault(draft["case_id"], {})[draft["system"]] = draft
    for found in of_case.values():
        if len(found) == len(SYSTEMS):
            first, second = (found[system] for system in SYSTEMS)
            if folded(first["draft"]) != folded(second["draft"]):
                yield first, second


def sheet_id(one: str, other: str) -> str:
    """The id of the sheet that compares the drafts with these ids, independent of their order."""
    return f"s_{fingerprint(sorted([one, other]))}"
