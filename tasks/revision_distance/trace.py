"""The trace of a published draft or edit: its sources, model calls, edits, judgements and stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from longform.errors import UsageError
from tasks.publishing.lineage import (
    Line,
    Record,
    calls_of,
    lines_on_model,
    rows_where,
    short,
    stage_rows_where,
    traced,
)

MADE_BY = {"draft_id": "publish_drafts", "edit_id": "publish_edits"}
JUDGED = ("collect_judgements", "read_judgements")
BEHIND = {
    "checks": ("check_requests", "case_id"),
    "draft": ("collect_drafts", "draft_id"),
    "edits": ("propose_edits", "draft_id"),
    "ratings": ("rate_drafts", "draft_id"),
}
COT = {"knowledge": ("recall_knowledge", "case_id"), "segments": ("write_segments", "case_id")}
SCORES = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L", "bertscore": "BERTScore"}


def trace(store: Store, version: Version, row_id: str) -> dict[str, Any]:
    """The draft, or edit of a draft, with this id, the stage rows it was derived from, and lines to print.

    `row_id`: a draft_id or its beginning; for an edit followed by #<position>. UsageError if no row has such an id, or
    more than one; StoreError if the rows of a stage are gone. Keys: `config` and `row` of the published row; a list of
    rows for each of BEHIND (and COT for the system cot), `judgements` and `origins`; `calls`, as by `calls_of`;
    `stages`, name -> fingerprint; `lines`, pairs (label, text).
    """
    beginning, mark, position = row_id.partition("#")
    draft = _draft(version, beginning, row_id)
    edit = _edit(version, draft["draft_id"], position, row_id) if mark else None
    behind = _behind(store, version, draft)
    calls = calls_of(store, sorted({key for rows in behind.values() for row in rows if (key := row.get("response"))}))
    key = "edit_id" if edit else "draft_id"
    lines = [*_case(draft, edit, behind, calls), *_text(draft, behind, calls)]
    lines += [*_edits(draft, edit, behind, calls), *_scores(draft, behind, calls)]
    shown = {"config": _config(version, key), "row": edit or draft, **behind, "calls": calls}
    return traced(store, version, MADE_BY[key], lines, **shown)


# ---------------------------------------------------------------- looking up


def _config(version: Version, key: str) -> str | None:
    """The config whose key column is `key`; None if the version has none with rows."""
    return next((config for config in version.tables() if version.key(config) == key), None)


def _published(version: Version, key: str, condition: str, value: str) -> list[Record]:
    """The rows of the config with this key column that meet an SQL condition; [] if there is no such config.

    `value` is put in place of the `?` in the condition.
    """
    config = _config(version, key)
    return rows_where(version.tables()[config], condition, value) if config else []


def _draft(version: Version, beginning: str, row_id: str) -> Record:
    """The published draft whose id is `beginning`, else the only one whose id begins with it.

    UsageError if there is none or more than one, or if `beginning` is empty. `row_id`: what the user asked for, for
    the message.
    """
    found = _published(version, "draft_id", "starts_with(draft_id, ?) ORDER BY draft_id LIMIT 2", beginning)
    if not found or not beginning:
        raise _no_row(version, row_id)
    if len(found) > 1 and found[0]["draft_id"] != beginning:
        raise UsageError(
            f"More than one row of {version.dataset} {version.name} begins with {row_id}: give more of it."
        )
    return found[0]


def _edit(version: Version, draft_id: str, position: str, row_id: str) -> Record:
    """The published edit at this position of a draft; UsageError if there is none.

    `row_id`: what the user asked for, for the message.
    """
    for found in _published(version, "edit_id", "edit_id = ?", f"{draft_id}#{position}"):
        return found
    raise _no_row(version, row_id)


def _no_row(version: Version, row_id: str) -> UsageError:
    """The error, for the caller to raise, for an id that no published row has."""
    return UsageError(
        f"{version.dataset} {version.name} has no row {row_id}: "
        "take a draft_id or an edit_id of its Parquet files, or the beginning of a draft_id."
    )


def _behind(store: Store, version: Version, draft: Record) -> dict[str, list[Record]]:
    """name -> the rows that a draft was derived from or that judge it; [] if the version has no such stage.

    Names are those of BEHIND, for the system cot also those of COT, `judgements`, and `origins`: the draft's rows of
    ORIGINS, the cited papers last.
    """
    stages = {**BEHIND, **(COT if draft["system"] == "cot" else {})}
    judged_by = next((stage for stage in JUDGED if stage in version.stages), JUDGED[0])
    either, origins = "? IN (first, second) ORDER BY expert", [version.folder / "attribution.parquet"]
    return {
        **{
            name: stage_rows_where(store, version, stage, f"{column} = ? ORDER BY ALL", draft[column])
            for name, (stage, column) in stages.items()
        },
        "judgements": stage_rows_where(store, version, judged_by, either, draft["draft_id"]),
        "origins": rows_where(origins, "case_id = ? ORDER BY kind = 'cited', record_id", draft["case_id"]),
    }


# ---------------------------------------------------------------- lines to print


def _case(
    draft: Record, edit: Record | None, behind: Mapping[str, Sequence[Record]], calls: Mapping[str, Record]
) -> Iterator[Line]:
    """Lines on the case: ids of edit, draft and case, sources, the check of the request, the request, the reference.

    What is missing has no line.
    """
    if edit:
        yield "edit", f"{edit['edit_id']}   {edit['split']}"
    yield "draft" if edit else "row", f"{draft['draft_id']}   {draft['system']}   {draft['split']}"
    yield "case", f"{draft['case_id']}   {draft['kind']}"
    for origin in behind["origins"]:
        yield ("  cited" if origin["kind"] == "cited" else "source"), _origin(origin)
        if origin["url"] and origin["kind"] != "cited":
            yield "", origin["url"]
    for check in behind["checks"]:
        if check["response"]:
            yield "checked", f"{check['checked']}, {check['checked_kind']}"
            yield from lines_on_model(check, calls)
    if draft["request"]:
        yield "request", f'"{short(draft["request"])}"'
    if draft["reference"]:
        yield "reference", f'by {draft["reference_by"] or "unknown"}   "{short(draft["reference"])}"'


def _origin(origin: Record) -> str:
    """A source record on one line: id, title, licence and authors; a title or authors not known are left out."""
    title = f'"{short(origin["title"])}"' if origin["title"] else ""
    authors = f"by {short('; '.join(origin['authors']))}" if origin["authors"] else ""
    licence = origin["licence"] or "licence unknown"
    return "   ".join(part for part in (origin["record_id"], title, licence, authors) if part)


def _text(draft: Record, behind: Mapping[str, Sequence[Record]], calls: Mapping[str, Record]) -> Iterator[Line]:
    """Lines on the text: recalled knowledge, segments, the text and its writer, each with the model that wrote it."""
    for row in (*behind.get("knowledge", ()), *behind.get("segments", ())):
        perspective = f"{row['perspective']}   " if "perspective" in row else ""
        yield "segment" if perspective else "knowledge", f'{perspective}"{short(row["text"])}"'
        yield from lines_on_model(row, calls)
    writer = f"by {draft['writer']}   " if draft["writer"] else ""
    yield "text", f'{writer}"{short(draft["draft"])}"'
    yield from (line for row in behind["draft"] for line in lines_on_model(row, calls))


def _edits(
    draft: Record, edit: Record | None, behind: Mapping[str, Sequence[Record]], calls: Mapping[str, Record]
) -> Iterator[Line]:
    """Lines on the distance, the editor and each edit; with `edit` only on this edit.

    A draft without a distance has a line that says so.
    """
    if draft["distance"] is None:
        yield "distance", "none: the editor's reply could not be used"
    else:
        placed = f"{draft['not_placed']} not placed, {draft['not_applied']} not applied"
        gives = f" · gives the reference: {draft['reproduces']}" if draft["reproduces"] else ""
        yield "distance", f"{draft['distance']}, weighted {draft['weighted']:g} · {placed}{gives}"
        if draft["corrected"] is not None:
            left = "" if draft["residual"] is None else f", {draft['residual']} left to the reference"
            without = f"{draft['no_ops']} without effect, {draft['duplicates']} twice, {draft['lost_edits']} lost"
            yield "corrected", f"{draft['corrected']}, {draft['normalised']:.1f} per 100 words{left} · {without}"
            yield "signature", draft["signature"]
    yield from (line for row in behind["edits"] for line in lines_on_model(row, calls))
    for position, each in enumerate(draft["edits"]):
        if edit is None or position == edit["position"]:
            yield from _edit_lines(position, each)


def _edit_lines(position: int, edit: Record) -> Iterator[Line]:
    """Three lines on an edit: what it does and why, its snippets, and its place and whether it is applied."""
    kind = ", ".join(part for part in (edit["revision_level"], edit["revision_intention"], edit["category"]) if part)
    yield f"edit {position}", f"{edit['action_name']} ({kind})   {short(edit['revision_description'])}"
    yield "", f'"{short(edit["original_snippet"])}" -> "{short(edit["revised_snippet"])}"'
    place = f" at {edit['start']} to {edit['end']}" if edit["start"] is not None else ""
    if edit["at"] is not None and edit["at"] != edit["start"]:
        place += f", goes to {edit['at']}"
    outcome = "applied" if edit["applied"] else f"not applied: {edit['why_not']}"
    yield "", f"placed {edit['placed']}{place} · {outcome}"


def _scores(draft: Record, behind: Mapping[str, Sequence[Record]], calls: Mapping[str, Record]) -> Iterator[Line]:
    """Lines on the scores, the rating and the judgements of a draft; what it does not have has no line."""
    scored = [f"{title} {draft[name]:.1f}" for name, title in SCORES.items() if draft[name] is not None]
    if scored:
        yield "scores", ", ".join(scored)
    if draft["gpt_score"] is not None:
        yield "rating", f"{draft['gpt_score']:g} of 100 by {draft['rater']}"
        yield from (line for row in behind["ratings"] for line in lines_on_model(row, calls))
    if draft["experts"] is not None:
        yield "judgements", f"the better text to {draft['experts_better']} of {draft['experts']} experts"
        yield from (("", _judgement(draft, row)) for row in behind["judgements"])


def _judgement(draft: Record, row: Record) -> str:
    """An expert's judgement as text, as said of this draft: which text is better, then the draft's ratings.

    "this", "the other" or "neither" is better; a property without ratings is left out.
    """
    place = [row["first"], row["second"]].index(draft["draft_id"])
    rated = [f"{name} {row[name][place]}" for name in ("content", "structure", "argument") if row[name]]
    better = "neither" if row["better"] is None else "this" if row["better"] == draft["draft_id"] else "the other"
    return ", ".join([f"{row['expert']}: {better}", *rated])
