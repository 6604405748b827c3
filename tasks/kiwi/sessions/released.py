"""Sessions from files: in the layout of the released interaction data, of one's own, or as the page keeps them.

    {"initial_question": …, "model_name": …, "annotator_id": …, "initial_answer": …, "interaction": [
        {"instruction": …, "instruction_type": …, "answer_1": …, "rating": …, "comment": …, "answer_2": …}, …]}

`answer_1` is the model's revision, `answer_2` the answer as the reader edited it. Further spellings of these fields are
in FIELDS and OF_TURN; the first that can be read counts. A file with one turn a line is read as well: lines of the same
session are put together. What no column holds whole, be it unknown, a second spelling or of another form, is kept as
JSON in `extra`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Rejected, Row, Shard
from longform.engine.stage import StageContext, stage
from longform.errors import SourceError
from schemas.kiwi import SESSIONS
from tasks.answers import NO_MODEL
from tasks.kiwi.audits import SIMULATED
from tasks.kiwi.interaction import INFORMATION, RATINGS, STYLE, current
from tasks.kiwi.questions import question_id_of
from tasks.publishing.exports import Export, Format, json_line
from tasks.sources.files.json_values import json_values
from tasks.sources.files.spellings import EMPTY, Fields, as_list, as_name, as_number, as_text, read_fields
from tasks.sources.papers.named import are_held_whole, passages_named

ORIGINS = ("released", "page", SIMULATED)
RELEASED_KINDS = {INFORMATION: "information-seeking", STYLE: "stylistic"}
MADE = tuple(NO_MODEL)
MADE_HERE = "prompt_hash"  # a field that only sessions of this project have


class Lacking(ValueError):
    """Raised for a record that lacks what a session or a turn needs; the message is the reason."""


# ---------------------------------------------------------------- what a field says; None if it cannot be read


def _origin(value: Any) -> str | None:
    return value if value in ORIGINS else None


def _rating(value: Any) -> str | None:
    """good, neutral or bad for a rating in any case."""
    words = value.strip().strip(".").lower() if isinstance(value, str) else ""
    return words if words in RATINGS else None


def kind_of(value: Any) -> str | None:
    """information or style for a type of instruction in any words; None for others."""
    words = value.strip().lower() if isinstance(value, str) else ""
    if "info" in words or "seek" in words or words == "content":
        return INFORMATION
    return STYLE if "styl" in words or words == "format" else None


FIELDS: Fields = {
    "session_id": (as_name, ("session_id", "interaction_id", "session", "id")),
    "question_id": (as_name, ("question_id", "qid")),
    "question": (as_text, ("initial_question", "question", "original_question", "query")),
    "system": (as_name, ("model_name", "system", "model")),
    "annotator_id": (as_name, ("annotator_id", "annotator", "worker_id", "user_id", "user")),
    "source_paper": (as_text, ("source_paper", "source_paper_title", "paper_title")),
    "initial": (
        as_text,
        ("initial_answer", "initial", "initial_model_answer", "answer_0", "first_answer", "original_answer"),
    ),
    "passages": (passages_named, ("initial_passages", "passages", "retrieved_passages")),
    "turns": (as_list, ("interaction", "interactions", "turns", "interaction_history", "conversation")),
    "licence": (as_text, ("licence", "license")),
    "origin": (_origin, ("origin",)),
}
OF_TURN: Fields = {
    "position": (as_number, ("position", "turn", "turn_id", "turn_number", "turn_index")),
    "instruction": (as_text, ("instruction", "user_instruction", "feedback")),
    "kind": (kind_of, ("instruction_type", "kind", "type", "instruction_category")),
    "before": (as_text, ("previous_answer", "before", "prev_answer", "original_text", "answer_before")),
    "passages": (
        passages_named,
        ("retrieved_passages", "passages", "retrieved_paragraphs", "retrieved_documents", "documents"),
    ),
    "summary": (as_text, ("summary", "intermediate_answer", "extra_information")),
    "answer": (
        as_text,
        ("answer_1", "answer", "model_answer", "updated_answer", "revised_answer", "generated_text", "response"),
    ),
    "rating": (_rating, ("rating", "label")),
    "comment": (as_text, ("comment", "explanation", "rationale")),
    "edited": (as_text, ("answer_2", "edited", "edited_answer", "edited_text", "human_edited_answer")),
    "seconds": (as_number, ("seconds", "annotation_time", "time")),
}
OF_SESSION = {name for _, names in FIELDS.values() for name in names} - {
    "id", *(name for _, names in OF_TURN.values() for name in names)
}  # fmt: skip


def _read(record: Row, fields: Fields) -> tuple[Row, Row]:
    """As `read_fields`; the columns of MADE_BY are apart where a record has them."""
    apart = MADE if MADE_HERE in record else ()
    return read_fields(record, fields, apart, lambda column, value: column != "passages" or are_held_whole(value))


# ---------------------------------------------------------------- sessions


@stage(SESSIONS, revision=2)
def read_sessions(context: StageContext, files: Shard) -> Iterator[Row | Rejected]:
    """The sessions of a file; a Rejected for sessions and turns that lack something. SourceError without any."""
    facts, keys = dict(files.source.facts), set[str]()
    for place, record, raw in _records(files):
        key = f"{facts['name']}#{place}"
        try:
            session, left_out = session_of(record, facts, key)
        except Lacking as error:
            yield Rejected(key, "defect", str(error), raw=raw[:2_000])
            continue
        yield from left_out
        if session["session_id"] in keys:
            yield Rejected(key, "defect", "a session that comes again", detail=session["session_id"])
            continue
        keys.add(session["session_id"])
        yield session
    if not keys:
        raise SourceError(
            f"{files.source.path} holds no session: give JSON lines with initial_question, initial_answer and "
            "interaction, of which each turn has instruction, answer_1 and rating."
        )


def _records(files: Shard) -> Iterator[tuple[int, Row, str]]:
    """(place, record, text) of each session; lines that are single turns are put together by their session."""
    single: dict[str, tuple[int, Row, list[Row]]] = {}
    for place, (value, raw) in enumerate(json_values(files), start=1):
        record = value if isinstance(value, dict) else {}
        if _read(record, FIELDS)[0]["turns"] is None and _read(record, OF_TURN)[0]["instruction"] is not None:
            of_session = {name: each for name, each in record.items() if name in OF_SESSION}
            said = _read(of_session, FIELDS)[0]
            key = orjson.dumps([said[name] for name in ("session_id", "question", "system", "annotator_id")]).decode()
            _, own, turns = single.setdefault(key, (place, of_session, []))
            turns.append({name: each for name, each in record.items() if name not in own or own[name] != each})
        else:
            yield place, record, raw
    for place, own, turns in single.values():
        turns.sort(key=lambda turn: _read(turn, OF_TURN)[0]["position"] or 0)
        record = {**own, "interaction": turns}
        yield place, record, orjson.dumps(record).decode()


def session_of(record: Row, facts: Mapping[str, str | None], key: str) -> tuple[Row, list[Rejected]]:
    """(row, a Rejected for each turn left out). Lacking without question, initial answer or turn."""
    said, rest = _read(record, FIELDS)
    listed = [turn if isinstance(turn, dict) else {"": turn} for turn in said["turns"] or []]
    initial = said["initial"] or (_read(listed[0], OF_TURN)[0]["before"] if listed else None)
    if not said["question"] or not initial:
        raise Lacking("no initial answer" if said["question"] else "no question" if record else "no JSON object")
    now, rows, left_out = initial, list[Row](), list[Rejected]()
    for place, turn in enumerate(listed, start=1):
        try:
            rows.append(_turn(turn, len(rows) + 1, now))
            now = current(rows[-1]["before"], rows[-1])
        except Lacking as error:
            left_out.append(Rejected(f"{key}/{place}", "defect", str(error), raw=str(turn)[:2_000]))
    if not rows:
        raise Lacking("no turn that can be used")
    said |= {name: said[name] or "not named" for name in ("system", "annotator_id")}
    told = [said["question"], said["system"], said["annotator_id"], initial]
    told += [[row["instruction"], row["answer"]] for row in rows]
    session = said | {
        "question_id": said["question_id"] or question_id_of(str(said["question"])),
        "session_id": said["session_id"] or f"s_{fingerprint(told)}",
        "origin": said["origin"] or "released",
        "licence": said["licence"] or facts.get("licence"),
        "initial": initial,
        "passages": said["passages"] or [],
        "turns": rows,
        "final": now,
        "extra": _json(rest),
    }
    return {**session, **_made_by(record)}, left_out


def _turn(record: Row, position: int, now: str) -> Row:
    """The row of TURN of a record; `now`: the answer as it stands. Lacking without what a turn needs."""
    said, rest = _read(record, OF_TURN)
    for name in ("instruction", "answer", "rating"):
        if not said[name]:
            given = any(record.get(each) not in EMPTY for each in OF_TURN[name][1])
            raise Lacking(f"a turn whose {name} cannot be read" if given else f"a turn without {name}")
    if said["position"] not in (None, position):
        rest |= {name: record[name] for name in OF_TURN["position"][1] if name in record}
    return {
        **said,
        "position": position,
        "before": said["before"] or now,
        "passages": said["passages"] or [],
        "comment": said["comment"] or "",
        "edited": said["edited"] if said["edited"] != said["answer"] else None,
        "extra": _json(rest),
        **_made_by(record),
    }


def _made_by(record: Row) -> Row:
    """The columns of MADE_BY that sessions of this project have; null in others."""
    own = record if MADE_HERE in record else {}
    return {name: value if isinstance(value := own.get(name), str) else None for name in MADE}


def _json(rest: Row) -> str | None:
    """Fields as JSON; None if there are none."""
    return orjson.dumps(rest, option=orjson.OPT_SORT_KEYS).decode() if rest else None


# ---------------------------------------------------------------- back into the released layout


def _exported(export: Export) -> Iterator[Row]:
    """The sessions of a version as the released file has them, from which `read_sessions` makes equal rows."""
    splits = {row["session_id"]: row["split"] for row in export.published()}
    for session in export.rows("collect_sessions"):
        if session["session_id"] in splits:
            yield _released(session, FIELDS) | {"interaction": [_released(turn, OF_TURN) for turn in session["turns"]]}


def _released(row: Row, fields: Fields) -> Row:
    """A row under the released names, or the next ones where `extra` holds fields of these names."""
    extra = orjson.loads(row["extra"]) if row["extra"] else {}
    shown = {**row, "kind": RELEASED_KINDS.get(row.get("kind") or ""), "turns": None, "position": None}
    record = {name: row[name] for name in MADE} if row[MADE_HERE] else {}
    for column, (read, names) in fields.items():
        if shown[column] not in EMPTY and not any(read(extra.get(name)) == row[column] for name in names):
            record[next((name for name in names if name not in extra), names[0])] = shown[column]
    return {**record, **extra}


SPLITS = ("train", "validation", "test", SIMULATED)
EXPORTS = {"kiwi-jsonl": Format(_exported, json_line, SPLITS, ("sessions",))}
