"""Sessions from files: every spelling, odd shapes, what is rejected, and nothing lost on the way there and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from expertqa_tables import Home, filled
from hypothesis import given
from hypothesis import strategies as st
from revision_drafts import rejected

from longform.artifacts.rows import Row, Rows, Source
from longform.errors import SourceError
from longform.files import sha256_of
from schemas.kiwi import SESSIONS, TURN
from tasks.kiwi.sessions.released import FIELDS, OF_TURN, _released, kind_of, read_sessions, session_of

FACTS = {"name": "f.jsonl", "licence": None}
TURN_FIELDS = {
    "instruction": "Say more.",
    "instruction_type": "stylistic",
    "answer_1": "Jars are round [0].",
    "rating": "bad",
    "comment": "It is not more.",
    "answer_2": "Jars are round and old [0].",
}
SESSION_FIELDS = {
    "initial_question": "What are jars?",
    "model_name": "m",
    "annotator_id": "a1",
    "initial_answer": "Jars are.",
    "interaction": [TURN_FIELDS],
}


def read(record: Row, licence: str | None = None) -> Row:
    """The row of a session of which no turn is left out."""
    session, left_out = session_of(record, {**FACTS, "licence": licence}, "f.jsonl#1")
    assert left_out == []
    assert {*session} == {*SESSIONS.names}
    assert all({*turn} == {field.name for field in TURN} for turn in session["turns"])
    return session


def session(*turns: Row, **fields: Any) -> Row:
    return {**SESSION_FIELDS, "interaction": [{**TURN_FIELDS, **turn} for turn in turns or [{}]], **fields}


def file(path: Path, content: str | bytes, name: str = "sessions.jsonl") -> list[Source]:
    path.mkdir(parents=True, exist_ok=True)
    (path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return [
        Source("sessions", str(path / name), sha256_of(path / name), (("name", name), ("licence", None)), ((0, -1),))
    ]


def from_file(path: Path, content: str | bytes) -> tuple[Home, Rows]:
    home = Home(path / "home")
    return home, home.run(read_sessions, file(path, content))


def lines(*records: Any) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


# ---------------------------------------------------------------- one record


def test_a_released_session_is_read_column_by_column() -> None:
    found = read(SESSION_FIELDS, licence="CC0-1.0")
    expected = filled(
        TURN,
        position=1,
        instruction="Say more.",
        kind="style",
        before="Jars are.",
        answer="Jars are round [0].",
        rating="bad",
        comment="It is not more.",
        edited="Jars are round and old [0].",
    )
    assert found["turns"] == [expected]
    shown = {name: found[name] for name in ("question", "system", "annotator_id", "initial", "final", "origin")}
    assert shown == {
        "question": "What are jars?",
        "system": "m",
        "annotator_id": "a1",
        "initial": "Jars are.",
        "final": "Jars are round and old [0].",
        "origin": "released",
    }
    assert (found["licence"], found["extra"], found["passages"]) == ("CC0-1.0", None, [])


TEXTS = {"kind": "stylistic", "rating": "GOOD.", "passages": ["A text."], "turns": [TURN_FIELDS], "origin": "page"}
NUMBERS = {"position": 1, "seconds": 2.5}


@pytest.mark.parametrize(
    ("column", "name"),
    [(column, name) for column, (_, names) in FIELDS.items() for name in names if column != "turns"],
)
def test_every_spelling_of_a_field_of_a_session_is_read(column: str, name: str) -> None:
    canonical = FIELDS[column][1][0]
    record = {each: value for each, value in SESSION_FIELDS.items() if each != canonical}
    value: Any = TEXTS.get(column, "Some words.")
    found = read({**record, name: value})
    want = [{"passage_id": None, "title": "", "text": "A text."}] if column == "passages" else value
    assert (found[column], found["extra"]) == (want, None)


@pytest.mark.parametrize(
    ("column", "name"), [(column, name) for column, (_, names) in OF_TURN.items() for name in names]
)
def test_every_spelling_of_a_field_of_a_turn_is_read(column: str, name: str) -> None:
    record = {each: value for each, value in TURN_FIELDS.items() if each not in OF_TURN[column][1]}
    value: Any = {**TEXTS, **NUMBERS}.get(column, "Some words.")
    (turn,) = read({**SESSION_FIELDS, "interaction": [{**record, name: value}]})["turns"]
    want = {"kind": "style", "rating": "good", "passages": [{"passage_id": None, "title": "", "text": "A text."}]}
    assert (turn[column], turn["extra"]) == (want.get(column, value), None)


@pytest.mark.parametrize("name", FIELDS["turns"][1])
def test_turns_are_found_under_every_name_as_a_list_or_by_their_numbers(name: str) -> None:
    record = {each: value for each, value in SESSION_FIELDS.items() if each != "interaction"}
    for turns in ([TURN_FIELDS], {"1": TURN_FIELDS}):
        assert [turn["answer"] for turn in read({**record, name: turns})["turns"]] == ["Jars are round [0]."]


SCORED = {"title": "A", "text": "B", "score": 1}


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ({"survey": {"age": 3}}, {"survey": {"age": 3}}),
        ({"survey": None}, {"survey": None}),
        ({"question": "Another wording?"}, {"question": "Another wording?"}),
        ({"model": "gpt-9"}, {"model": "gpt-9"}),
        ({"origin": "elsewhere"}, {"origin": "elsewhere"}),
        ({"passages": [SCORED]}, {"passages": [SCORED]}),
        ({"passages": ["A text.", 3]}, {"passages": ["A text.", 3]}),
        ({"prompt": "You are …"}, {"prompt": "You are …"}),
        ({"qid": "", "user": None, "passages": []}, None),
    ],
    ids=str,
)  # fmt: skip
def test_what_no_column_of_a_session_holds_whole_is_kept_as_json(more: Row, kept: Row | None) -> None:
    extra = read({**SESSION_FIELDS, **more})["extra"]
    assert (json.loads(extra) if extra else None) == kept


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ({"time": "12 s"}, {"time": "12 s"}),
        ({"seconds": 3, "time": 4}, {"time": 4}),
        ({"instruction_type": "other"}, {"instruction_type": "other"}),
        ({"label": "neutral"}, {"label": "neutral"}),
        ({"turn": 0}, {"turn": 0}),
        ({"turn_id": "t1"}, {"turn_id": "t1"}),
        ({"turn_id": 1}, None),
        ({"response": "A further answer."}, {"response": "A further answer."}),
        ({"comment": ["a", "b"]}, {"comment": ["a", "b"]}),
    ],
    ids=str,
)
def test_what_no_column_of_a_turn_holds_whole_is_kept_as_json(more: Row, kept: Row | None) -> None:
    extra = read(session(more))["turns"][0]["extra"]
    assert (json.loads(extra) if extra else None) == kept


@pytest.mark.parametrize("rating", ["good", "GOOD", " Good. ", "neutral", "Bad"])
def test_a_rating_is_read_in_any_case(rating: str) -> None:
    assert read(session({"rating": rating}))["turns"][0]["rating"] == rating.strip(" .").lower()


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("information-seeking", "information"),
        ("Info", "information"),
        ("INFO_SEEKING", "information"),
        ("stylistic", "style"),
        ("Style ", "style"),
        ("other", None),
        (None, None),
        (["style"], None),
    ],
)
def test_a_type_of_instruction_is_information_or_style_or_unknown(words: Any, kind: str | None) -> None:
    assert kind_of(words) == kind


@pytest.mark.parametrize(
    ("rating", "edit", "after"),
    [
        ("good", None, "new"),
        ("neutral", None, "new"),
        ("bad", None, "old"),
        ("bad", "mended", "mended"),
        ("neutral", "mended", "mended"),
        ("bad", "new", "old"),
        ("good", "mended", "mended"),
    ],
)
def test_a_bad_answer_left_unedited_is_dropped_and_the_next_turn_revises_the_one_before(
    rating: str, edit: str | None, after: str
) -> None:
    found = read(session({"answer_1": "new", "rating": rating, "answer_2": edit}, {}, initial_answer="old"))
    assert found["turns"][1]["before"] == after


def test_the_answer_before_is_the_one_that_the_file_names() -> None:
    turns = read(session({}, {"previous_answer": "Another one."}))["turns"]
    assert [turn["before"] for turn in turns] == ["Jars are.", "Another one."]


def test_a_session_without_a_first_answer_takes_the_one_before_its_first_turn() -> None:
    record = session({"previous_answer": "Jars were."})
    del record["initial_answer"]
    assert read(record)["initial"] == "Jars were."


def test_ids_without_an_id_in_the_file_tell_sessions_apart_by_what_is_in_them() -> None:
    records = [
        session(),
        session(annotator_id="a2"),
        session({"answer_1": "Jars are square."}),
        session({"instruction": "Say less."}),
        session({}, {}),
        session(initial_question="What are cups?"),
    ]
    ids = [read(record)["session_id"] for record in records]
    assert len({*ids}) == len(records)
    assert ids == [read(record)["session_id"] for record in records]


# ---------------------------------------------------------------- files

BROKEN = [
    ({**SESSION_FIELDS, "initial_question": " "}, "no question"),
    ({**SESSION_FIELDS, "initial_answer": None}, "no initial answer"),
    ({**SESSION_FIELDS, "interaction": []}, "no turn that can be used"),
    ({**SESSION_FIELDS, "interaction": ["Say more."]}, "no turn that can be used"),
    ([], "no JSON object"),
    ("words", "no JSON object"),
]


@pytest.mark.parametrize(("record", "reason"), BROKEN, ids=[str(number) for number in range(len(BROKEN))])
def test_a_session_that_lacks_what_it_needs_is_rejected_with_its_text(tmp_path: Path, record: Any, reason: str) -> None:
    home, rows = from_file(tmp_path, lines(SESSION_FIELDS, record))
    assert rows.count == 1
    ((key, row),) = [(key, row) for key, row in rejected(home, rows).items() if row["reason"] == reason]
    assert key == "sessions.jsonl#2"
    assert row["raw"]


@pytest.mark.parametrize("lacks", ["instruction", "answer_1", "rating"])
def test_a_turn_that_lacks_what_it_needs_is_rejected_and_its_session_stays(tmp_path: Path, lacks: str) -> None:
    record = session({}, {lacks: None}, {"answer_1": "Jars are blue."})
    home, rows = from_file(tmp_path, lines(record))
    (row,) = rows
    assert [(turn["position"], turn["answer"]) for turn in row["turns"]] == [
        (1, "Jars are round [0]."),
        (2, "Jars are blue."),
    ]
    reasons = {key: each["reason"] for key, each in rejected(home, rows).items()}
    assert reasons == {"sessions.jsonl#1/2": f"a turn without {lacks.removesuffix('_1')}"}


@pytest.mark.parametrize(
    ("field", "value"), [("rating", "excellent"), ("label", 5), ("rating", ["good"]), ("instruction", {"a": "b"})]
)
def test_a_turn_whose_value_cannot_be_read_is_not_said_to_lack_it(tmp_path: Path, field: str, value: Any) -> None:
    unread = {"rating" if field == "label" else field: None, field: value}
    home, rows = from_file(tmp_path, lines(session({}, unread)))
    ((key, row),) = rejected(home, rows).items()
    name = "rating" if field == "label" else field
    assert (key, row["reason"]) == ("sessions.jsonl#1/2", f"a turn whose {name} cannot be read")
    assert str(value) in row["raw"]


def test_a_session_that_comes_again_is_rejected(tmp_path: Path) -> None:
    home, rows = from_file(tmp_path, lines(SESSION_FIELDS, SESSION_FIELDS, session(annotator_id="a2")))
    assert rows.count == 2
    assert {key: row["reason"] for key, row in rejected(home, rows).items()} == {
        "sessions.jsonl#2": "a session that comes again"
    }


def test_turns_on_lines_of_their_own_are_put_together_in_the_order_of_their_places(tmp_path: Path) -> None:
    of = {"question": "What are jars?", "model": "m", "annotator": "a1", "initial_answer": "Jars are."}
    said = [("Say more.", "One."), ("Say less.", "Two."), ("Say it.", "Three.")]
    turns = [
        {**of, "id": 10 + n, "turn": n, "instruction": instruction, "answer": answer, "rating": "Good"}
        for n, (instruction, answer) in enumerate(said, start=1)
    ]
    other = {**turns[0], "annotator": "a2", "survey": "yes"}
    _, rows = from_file(tmp_path, lines(turns[2], other, turns[0], turns[1]))
    found = {row["annotator_id"]: row for row in rows}
    assert [(turn["position"], turn["answer"]) for turn in found["a1"]["turns"]] == [
        (1, "One."),
        (2, "Two."),
        (3, "Three."),
    ]
    assert [json.loads(turn["extra"]) for turn in found["a1"]["turns"]] == [{"id": 11}, {"id": 12}, {"id": 13}]
    assert json.loads(found["a2"]["turns"][0]["extra"]) == {"id": 11, "survey": "yes"}


@pytest.mark.parametrize(
    "content",
    [
        json.dumps([SESSION_FIELDS, session(annotator_id="a2")]),
        json.dumps([SESSION_FIELDS, session(annotator_id="a2")], indent=1),
        "\n\n" + lines(SESSION_FIELDS, session(annotator_id="a2")) + "\n{\"broken\": \n",
        "\ufeff" + lines(SESSION_FIELDS, session(annotator_id="a2")),
        lines(SESSION_FIELDS, session(annotator_id="a2")).replace("\n", "\r\n"),
    ],
    ids=["array", "pretty array", "blank and broken lines", "byte order mark", "CRLF"],
)  # fmt: skip
def test_a_file_is_read_in_any_form_of_json(tmp_path: Path, content: str) -> None:
    _, rows = from_file(tmp_path, content)
    assert sorted(row["annotator_id"] for row in rows) == ["a1", "a2"]


@pytest.mark.parametrize("content", ["", "[]", "no json\n", lines({"question": "What?"})])
def test_a_file_without_a_session_is_refused_with_the_next_step(tmp_path: Path, content: str) -> None:
    with pytest.raises(SourceError, match=r"sessions\.jsonl holds no session: give JSON lines with initial_question"):
        from_file(tmp_path, content)


def test_a_file_in_utf_16_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is UTF-16 by its first bytes"):
        from_file(tmp_path, lines(SESSION_FIELDS).encode("utf-16"))


def test_a_session_of_5000_turns_is_read_whole(tmp_path: Path) -> None:
    turns = [{"instruction": f"Step {n}.", "answer_1": f"Jars {n}.", "rating": "good"} for n in range(5_000)]
    _, rows = from_file(tmp_path, lines({**SESSION_FIELDS, "interaction": turns}))
    (row,) = rows
    assert [turn["position"] for turn in row["turns"]] == [*range(1, 5_001)]
    assert row["final"] == "Jars 4999."


# ---------------------------------------------------------------- there and back

WORDS = st.text("ab [0].\n", min_size=1, max_size=12).filter(str.strip)
JSON = st.none() | st.booleans() | st.integers(-9, 9) | WORDS | st.lists(WORDS, max_size=2)


def fields_of(fields: Any, *required: str) -> st.SearchStrategy[Row]:
    """Records whose fields have any of the known names, or one that nobody knows, with values of any form."""
    names = sorted({name for column, (_, of) in fields.items() for name in of if column != "turns"})
    wild = st.dictionaries(st.sampled_from([*names, "survey", "score"]), JSON, max_size=5)
    return st.builds(lambda more, own: {**more, **own}, wild, st.fixed_dictionaries(dict.fromkeys(required, WORDS)))


RATED = st.sampled_from(["good", "Neutral", "BAD"]).map(lambda rating: {"rating": rating})
TURNS = st.builds(lambda turn, rating: {**turn, **rating}, fields_of(OF_TURN, "instruction", "answer_1"), RATED)
RECORDS = st.builds(
    lambda record, turns: {**record, "interaction": turns},
    fields_of(FIELDS, "initial_question", "initial_answer"),
    st.lists(TURNS, min_size=1, max_size=3),
)


@given(RECORDS)
def test_what_was_read_and_exported_is_read_again_to_equal_rows(record: Row) -> None:
    first, _ = session_of(record, FACTS, "f.jsonl#1")
    exported = _released(first, FIELDS) | {"interaction": [_released(turn, OF_TURN) for turn in first["turns"]]}
    again, _ = session_of(json.loads(json.dumps(exported)), FACTS, "f.jsonl#1")
    assert again == first


@given(RECORDS)
def test_no_value_of_a_record_is_lost(record: Row) -> None:
    found, left_out = session_of(record, FACTS, "f.jsonl#1")
    assert left_out == []
    whole = json.dumps(found) + "".join(
        json.dumps(json.loads(row["extra"])) for row in (found, *found["turns"]) if row["extra"]
    )
    for name, value in [pair for each in (record, *record["interaction"]) for pair in each.items()]:
        if name == "interaction" or value in (None, "", []):
            continue
        stripped = value.strip() if isinstance(value, str) else value
        shown = stripped.lower() if name in ("rating", "label") and isinstance(stripped, str) else stripped
        texts = shown if isinstance(shown, list) else [shown]
        for text in texts:
            inner = json.dumps(text.strip() if isinstance(text, str) else text).strip('"')
            assert inner in whole or json.dumps(value).strip('"') in whole, (name, value)
