"""The audits of the Revision Distance dataset: drafts by models that are no drafts, or repeat their reference.

`collect_drafts` applies them, so that no edits are bought for such a draft. Drafts of the source data are not looked
at, nor are edits.
"""

from __future__ import annotations

from collections.abc import Iterator

from longform.artifacts.rows import Rejected, Row
from tasks.publishing.audits import Audit, Audits, Kinds, rejected_by
from tasks.publishing.generated import CEILING, audits_of_texts, generated, is_generated
from tasks.text.audits.equality import equal_texts


def _generated_texts(row: Row) -> Iterator[tuple[str, str, str]]:
    if is_generated(row["response"], row["model"]):
        question = row["request"] or "\n".join(filter(None, (row["title"], row["abstract"])))
        yield "draft", question, row["draft"]


def _equal_texts(row: Row) -> str | None:
    if is_generated(row["response"], row["model"]) and equal_texts(row["draft"], row["reference"] or ""):
        return "the draft is the reference"
    return None


OF_DRAFTS = (
    Audit("equal_texts", CEILING, _equal_texts, generated()),
    *audits_of_texts(_generated_texts, generated()),
)
AUDITS = Audits(
    rows={"drafts": OF_DRAFTS},
    kinds=(Kinds("system", ("write_weak", "write_strong", "write_vanilla", "write_cot"), "collect_drafts"),),
    applied={"drafts": "collect_drafts"},
)


def audited_draft(draft: Row, case: Row) -> Rejected | None:
    """The Rejected of a row of DRAFTS that an audit finds; None if none does."""
    texts = {name: case[name] for name in ("request", "title", "abstract", "reference")}
    return rejected_by({**draft, **texts, "draft": draft["text"]}, OF_DRAFTS, "draft_id")
