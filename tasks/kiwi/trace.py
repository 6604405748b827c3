"""The trace of a published row: its question and papers, its session, turns, passages, calls and labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from tasks.publishing.lineage import (
    Line,
    Record,
    calls_of,
    lines_on_model,
    published_row,
    rows_where,
    short,
    stage_rows_where,
    traced,
)

MADE_BY = {
    "turns": "publish_turns",
    "sessions": "publish_sessions",
    "questions": "publish_questions",
    "predictions": "collect_predictions",
    "said": "collect_said",
}
OF_A_TURN = ("label_instructions", "label_errors", "collect_predictions", "collect_said")


def trace(store: Store, version: Version, row_id: str) -> dict[str, Any]:
    """The published row, the stage rows `behind` it, `origins`, `calls`, `stages`, and `lines` to print."""
    config, row = published_row(version, row_id)
    behind = list(_behind(store, version, row))
    question_id = next((each["question_id"] for each in [row, *behind] if each.get("question_id")), "")
    attribution = [version.folder / "attribution.parquet"]
    origins = rows_where(
        attribution, "question_id = ? AND kind <> 'session' ORDER BY kind DESC, record_id", question_id
    )
    turns = [turn for each in behind for turn in each.get("turns", ())]
    calls = calls_of(store, sorted({each["response"] for each in [*behind, *turns] if each.get("response")}))
    lines = [("row", f"{row[version.key(config)]}   {config}"), *_lines(behind, origins, calls)]
    shown = {"config": config, "row": row, "behind": behind, "origins": origins, "calls": calls}
    return traced(store, version, MADE_BY[config], lines, **shown)


def _behind(store: Store, version: Version, row: Record) -> Iterator[Record]:
    """The question, the session with the turns that are meant, and what was said of a turn, each with its `stage`."""

    def rows(stage: str, column: str, value: str) -> list[Record]:
        found = stage_rows_where(store, version, stage, f"{column} = ? ORDER BY ALL", value)
        return [{"stage": stage, **each} for each in found]

    turn_id: str | None = row.get("turn_id")
    session_id = turn_id.rpartition("#")[0] if turn_id else row.get("session_id", "")
    sessions = rows("collect_sessions", "session_id", session_id) if session_id else []
    for question_id in sorted({each["question_id"] for each in [row, *sessions] if each.get("question_id")}):
        yield from rows("collect_questions", "question_id", question_id)
    for session in sessions:
        kept = [turn for turn in session["turns"] if turn_id in (None, f"{session_id}#{turn['position']}")]
        yield {**session, "turns": kept}
    for stage in OF_A_TURN if turn_id else ():
        yield from rows(stage, "turn_id", turn_id or "")


def _lines(behind: Sequence[Record], origins: Sequence[Record], calls: Mapping[str, Record]) -> Iterator[Line]:
    """The lines on each row behind a published one, in their order; the papers stand below the question."""
    for row in behind:
        if row["stage"] == "collect_sessions":
            yield from _session(row, calls)
        elif row["stage"] == "collect_questions":
            yield "question", f'{row["question_id"]}   {row["origin"]}   "{short(row["question"])}"'
            yield from lines_on_model(row, calls)
        elif row["stage"] == "collect_said":
            yield row["form"], f"{row['annotator_id']}: {row['label']}"
        else:
            what = row.get("what") or f"followed ({row['system']})"
            yield what, row.get("label") or row["predicted"]
            yield from lines_on_model(row, calls)
    for origin in origins:
        title, licence = f'"{short(origin["title"] or "")}"', origin["licence"] or "licence unknown"
        yield origin["kind"], "   ".join([origin["record_id"], title, licence])
        yield from [("", origin["url"])] if origin["url"] else []


def _session(session: Record, calls: Mapping[str, Record]) -> Iterator[Line]:
    """The lines on a session: its first answer, and of each turn instruction, passages, revision, rating and edit."""
    who = f"{session['origin']}, {session['system']} with {session['annotator_id']}"
    yield "session", f'{session["session_id"]}   {who}   "{short(session["question"])}"'
    yield "answer", f'"{short(session["initial"])}"'
    yield from lines_on_model(session, calls)
    for turn in session["turns"]:
        yield f"turn {turn['position']}", f'{turn["kind"] or "no kind"}   "{short(turn["instruction"])}"'
        yield from (("passage", f'{each["passage_id"] or each["title"]}   "{short(each["text"])}"')
                    for each in turn["passages"])  # fmt: skip
        yield "before", f'"{short(turn["before"])}"'
        yield "revision", f'"{short(turn["answer"])}"'
        yield from lines_on_model(turn, calls)
        yield "rating", f'{turn["rating"]}   "{short(turn["comment"])}"'
        yield from [("edited", f'"{short(turn["edited"])}"')] if turn["edited"] else []
