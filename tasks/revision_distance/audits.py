"""The audits of the Revision Distance dataset: drafts by models that are no drafts, or repeat their reference; lists of
edits that are no measure.

`collect_drafts` applies the former, so that no edits are bought for such a draft. Drafts of the source data are not
looked at. The latter are of a version: its drafts stay, but it is not published where too many lists say nothing,
replace all, are padded or cut off, or do not lead to the reference.
"""

from __future__ import annotations

from collections.abc import Iterator

from longform.artifacts.rows import Rejected, Row
from tasks.publishing.audits import Audit, Audits, Kinds, QueryAudit, VersionAudit, rejected_by
from tasks.publishing.generated import CEILING, audits_of_texts, generated, is_generated
from tasks.revision_distance.faults import CEILINGS
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
    *audits_of_texts(_generated_texts, generated(), whole=True),
)


def _of_edits(name: str, ceiling: float, found: str, what: str, among: str) -> VersionAudit:
    """The audit of the published drafts that the SQL condition `found` holds for; `what` is told of each."""
    query = f"SELECT 'drafts', draft_id, {what} FROM {{drafts}} WHERE ({among}) AND ({found})"
    return VersionAudit(name, ceiling, QueryAudit(name, ("drafts",), query), ("drafts",), among)


_MEASURED, _WITH_REFERENCE = "corrected IS NOT NULL", "valid IS NOT NULL"
OF_EDITS = (
    _of_edits("invalid_edits", CEILINGS["invalid"], "NOT valid", "residual || ' edits are left'", _WITH_REFERENCE),
    _of_edits(
        "silent_editor", CEILINGS["silent"], "silent", "distance || ' edits, none with an effect'", "silent IS NOT NULL"
    ),
    _of_edits(
        "unplaced_edits",
        CEILINGS["unplaced"],
        "2 * not_placed > distance - no_ops - duplicates",
        "not_placed || ' of ' || distance || ' edits have no place in the draft'",
        _MEASURED,
    ),
    _of_edits(
        "wholesale_edits", CEILINGS["wholesale"], "wholesale", "distance || ' edits replace the draft'", _MEASURED
    ),
    _of_edits(
        "padded_edits",
        CEILINGS["padded"],
        "2 * (no_ops + duplicates) > distance",
        "(no_ops + duplicates) || ' of ' || distance || ' edits have no effect, or stand there twice'",
        _MEASURED,
    ),
    _of_edits("lost_edits", 0.1, "lost_edits > 0", "lost_edits || ' edits could not be read'", _MEASURED),
    _of_edits(
        "structure_test",
        0.1,
        "silent OR corrected = 0",
        "distance || ' edits, although the order differs'",
        f"task = 'structure' AND {_MEASURED}",
    ),
)
AUDITS = Audits(
    rows={"drafts": OF_DRAFTS},
    version=OF_EDITS,
    kinds=(Kinds("system", ("write_weak", "write_strong", "write_vanilla", "write_cot"), "collect_drafts"),),
    applied={"drafts": "collect_drafts"},
)


def audited_draft(draft: Row, case: Row) -> Rejected | None:
    """The Rejected of a row of DRAFTS that an audit finds; None if none does."""
    texts = {name: case[name] for name in ("request", "title", "abstract", "reference")}
    return rejected_by({**draft, **texts, "draft": draft["text"]}, OF_DRAFTS, "draft_id")
