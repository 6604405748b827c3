"""Sessions from files: in the layout of the released interaction data, of one's own, or as the page keeps them.

    {"initial_question": …, "model_name": …, "annotator_id": …, "initial_answer": …, "interaction": [
        {"instruction": …, "instruction_type": …, "answer_1": …, "rating": …, "comment": …, "answer_2": …}, …]}

`answer_1` is the model's revision, `answer_2` the answer as the reader edited it. Further spellings of these fields are
in FIELDS and OF_TURN. A file with one turn a line is read as well: lines of the same session are put together. Fields
that are not known are kept as JSON in `extra`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Rejected, Row, Shard
from longform.engine.stage import StageContext, stage
from longform.errors import SourceError
from schemas.kiwi import SESSIONS
from tasks.answers import NO_MODEL
from tasks.kiwi.interaction import INFORMATION, RATINGS, STYLE, current
from tasks.kiwi.questions import TEXT, TITLE, first_text, question_id_of
from tasks.sources.files.json_values import json_values

FIELDS = {
    "session_id": ("session_id", "interaction_id", "session", "id"),
    "question_id": ("question_id", "qid"),
    "question": ("question", "initial_question", "original_question", "query"),
    "system": ("system", "model_name", "model"),
    "annotator_id": ("annotator_id", "annotator", "worker_id", "user_id", "user"),
    "source_paper": ("source_paper", "source_paper_title", "paper_title"),
    "initial": ("initial_answer", "initial", "initial_model_answer", "answer_0", "first_answer", "original_answer"),
    "passages": ("passages", "initial_passages", "retrieved_passages"),
    "turns": ("turns", "interaction", "interactions", "interaction_history", "conversation"),
    "licence": ("licence", "license"),
    "origin": ("origin",),
}
OF_TURN = {
    "position": ("position", "turn", "turn_id", "turn_number", "turn_index"),
    "instruction": ("instruction", "user_instruction", "feedback"),
    "kind": ("kind", "instruction_type", "type", "instruction_category"),
    "before": ("before", "previous_answer", "prev_answer", "original_text", "answer_before"),
    "passages": ("passages", "retrieved_passages", "retrieved_paragraphs", "retrieved_documents", "documents"),
    "summary": ("summary", "intermediate_answer", "extra_information"),
    "answer": ("answer", "answer_1", "model_answer", "updated_answer", "revised_answer", "generated_text", "response"),
    "rating": ("rating", "label"),
    "comment": ("comment", "explanation", "rationale"),
    "edited": ("edited", "edited_answer", "answer_2", "edited_text", "human_edited_answer"),
    "seconds": ("seconds", "annotation_time", "time"),
}
MADE = tuple(NO_MODEL)


class Lacking(ValueError):
    """Raised for a record that lacks what a session or a turn needs; the message is the reason."""


@stage(SESSIONS, revision=1)
def read_sessions(context: StageContext, files: Shard) -> Iterator[Row | Rejected]:
    """The sessions of a file, each with its turns. A Rejected for a session without question, initial answer or usable
    turn, and for a turn without instruction, answer or rating, without which its session is kept. SourceError for a
    file without a session.
    """
    facts, found, keys = dict(files.source.facts), 0, set[str]()
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
        found += 1
        yield session
    if not found:
        raise SourceError(
            f"{files.source.path} holds no session: give JSON lines with initial_question, initial_answer and "
            "interaction, of which each turn has instruction, answer_1 and rating."
        )


def _records(files: Shard) -> Iterator[tuple[int, Row, str]]:
    """(place, record, text) of each session; lines that are single turns are put together by their session."""
    single: dict[str, Row] = {}
    for place, (value, raw) in enumerate(json_values(files), start=1):
        record = value if isinstance(value, dict) else {}
        if _named(record, FIELDS["turns"]) is None and _named(record, OF_TURN["instruction"]) is not None:
            names = ("session_id", "question", "system", "annotator_id")
            key = orjson.dumps([record.get(_named(record, FIELDS[name]) or "") for name in names]).decode()
            own = single.setdefault(key, {**_first_line(record), "interaction": [], "place": place})
            own["interaction"].append({name: each for name, each in record.items() if name not in own or name == "id"})
        else:
            yield place, record, raw
    for record in single.values():
        place = record.pop("place")
        record["interaction"].sort(key=lambda turn: _number(_value(turn, OF_TURN["position"])) or 0)
        yield place, record, orjson.dumps(record).decode()


def _first_line(record: Row) -> Row:
    """The fields of a single turn that belong to its session."""
    of_session = {name for names in FIELDS.values() for name in names} - {
        name for of in OF_TURN.values() for name in of
    }
    return {name: value for name, value in record.items() if name in of_session}


def session_of(record: Row, facts: Mapping[str, str | None], key: str) -> tuple[Row, list[Rejected]]:
    """(the row of SESSIONS of a record, a Rejected for each turn that is left out). Lacking if there is no question, no
    initial answer or no turn. `facts`: of the file; `key`: the record's place, for the Rejecteds.
    """
    text = {name: first_text(record, names) for name, names in FIELDS.items()}
    turns, left_out = _value(record, FIELDS["turns"]), list[Rejected]()
    listed = list(turns.values()) if isinstance(turns, dict) else turns if isinstance(turns, list) else []
    first = next((turn for turn in listed if isinstance(turn, dict)), {})
    initial = text["initial"] or first_text(first, OF_TURN["before"])
    if not text["question"] or not initial:
        raise Lacking("no question" if not text["question"] else "no initial answer")
    before, rows = initial, list[Row]()
    for place, turn in enumerate(listed, start=1):
        try:
            rows.append(_turn(turn if isinstance(turn, dict) else {}, len(rows) + 1, before))
            before = current(rows[-1]["before"], rows[-1])
        except Lacking as error:
            left_out.append(Rejected(f"{key}/{place}", "defect", str(error), raw=str(turn)[:2_000]))
    if not rows:
        raise Lacking("no turn that can be used")
    names = ("question", "system", "annotator_id", "source_paper", "licence")
    said = {name: text[name] or _as_name(_value(record, FIELDS[name])) for name in names}
    session = said | {
        "question_id": _as_name(_value(record, FIELDS["question_id"])) or question_id_of(str(said["question"])),
        "session_id": _as_name(_value(record, FIELDS["session_id"])) or f"s_{fingerprint([said, initial, len(rows)])}",
        "origin": text["origin"] if text["origin"] in ("page", "released") else "released",
        "system": said["system"] or "not named",
        "annotator_id": said["annotator_id"] or "not named",
        "licence": said["licence"] or facts.get("licence"),
        "initial": initial,
        "passages": passages_of(_value(record, FIELDS["passages"])),
        "turns": rows,
        "final": before,
        "extra": _rest(record, FIELDS),
    }
    return {**session, **_made_by(record)}, left_out


def _turn(record: Row, position: int, before: str) -> Row:
    """The row of TURN of a record; `before`: the answer after the turn before it, where the record does not say it."""
    texts = {name: first_text(record, names) for name, names in OF_TURN.items()}
    rating = _rating(_value(record, OF_TURN["rating"]))
    for name, value in (("instruction", texts["instruction"]), ("answer", texts["answer"]), ("rating", rating)):
        if not value:
            raise Lacking(f"a turn without {name}")
    edited = texts["edited"] if texts["edited"] != texts["answer"] else None
    return {
        **{name: texts[name] for name in ("instruction", "answer", "summary")},
        "position": position,
        "kind": kind_of(texts["kind"]),
        "before": texts["before"] or before,
        "passages": passages_of(_value(record, OF_TURN["passages"])),
        "rating": rating,
        "comment": texts["comment"] or "",
        "edited": edited,
        "seconds": _number(_value(record, OF_TURN["seconds"])),
        "extra": _rest(record, OF_TURN),
        **_made_by(record),
    }


def kind_of(text: str | None) -> str | None:
    """information or style for a type of instruction in any words; None for others."""
    words = (text or "").lower()
    if "info" in words or "seek" in words or words == "content":
        return INFORMATION
    return STYLE if "styl" in words or words == "format" else None


def passages_of(value: Any) -> list[Row]:
    """The passages of a record, as PASSAGE: texts, or objects with a title and a text."""
    found = []
    for each in value if isinstance(value, list) else []:
        record = each if isinstance(each, dict) else {"text": each}
        if words := first_text(record, TEXT):
            name = record.get("passage_id")
            kept = {"passage_id": name if isinstance(name, str) else None, "title": first_text(record, TITLE) or ""}
            found.append({**kept, "text": words})
    return found


def _rating(value: Any) -> str | None:
    """good, neutral or bad for a rating in any case; None for others."""
    words = value.strip().strip(".").lower() if isinstance(value, str) else ""
    return words if words in RATINGS else None


def _named(record: Row, names: Iterable[str]) -> str | None:
    """The first of these fields that a record has a value for."""
    return next((name for name in names if record.get(name) not in (None, "", [])), None)


def _value(record: Row, names: Iterable[str]) -> Any:
    return record.get(_named(record, names) or "")


def _as_name(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip() else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _made_by(record: Row) -> Row:
    """The columns of MADE_BY that sessions of the page have; null in others."""
    return {
        name: value if isinstance(value := record.get(name), str) and "response" in record else None for name in MADE
    }


def _rest(record: Row, known: Mapping[str, Iterable[str]]) -> str | None:
    """The fields of a record that are not known, as JSON; None if there are none."""
    names = {name for of in known.values() for name in of} | {*MADE}
    rest = {name: value for name, value in record.items() if name not in names}
    return orjson.dumps(rest, option=orjson.OPT_SORT_KEYS).decode() if rest else None
