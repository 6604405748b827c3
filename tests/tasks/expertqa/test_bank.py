"""The question bank: released files, own JSONL, CSV; vocabularies; JSON that is kept exactly."""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from typing import Any

import paths
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_stages import building

from longform.artifacts.parts import check_batch, row_check
from longform.artifacts.rows import Rejected, Shard
from longform.errors import SourceError
from longform.files import sha256_of
from schemas.expertqa import QUESTIONS
from tasks.annotation.values import Unfit
from tasks.expertqa import bank
from tasks.expertqa.bank import csv_records, jsonl_records, open_banks, parse_questions, question_id, released_record
from tasks.expertqa.exact import IllFormed, read_exact, write_exact
from tasks.expertqa.vocabulary import (
    field_of_study,
    fields,
    label,
    question_types,
    ratings,
    type_text,
    type_texts,
)
from tasks.sources.files.csv_cells import csv_rows
from tasks.sources.files.lines import read_lines

REAL = paths.REAL_DATA / "expertqa"
OPEN_ENDED = "Open-ended question that is potentially ambiguous"
RELEASED = {
    "question": "Why does copper turn green?",
    "annotator_id": "a_17",
    "answers": {},
    "metadata": {"question_type": OPEN_ENDED, "field": "Chemistry", "specific_field": "Corrosion"},
}


def parsed(*records: Any, **options: Any) -> tuple[list[dict[str, Any]], list[Rejected]]:
    """Rows and rejected records of JSONL lines, the rows checked against their schema."""
    lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in records]
    return sorted_out(parse_questions(jsonl_records(lines), "MIT", **options))


def parsed_csv(text: str | bytes) -> tuple[list[dict[str, Any]], list[Rejected]]:
    content = text if isinstance(text, bytes) else text.encode()
    lines = content.removesuffix(b"\n").split(b"\n")
    return sorted_out(parse_questions(csv_records(lines), None, "csv"))


def sorted_out(items: Any) -> tuple[list[dict[str, Any]], list[Rejected]]:
    found = list(items)
    rows = [item for item in found if not isinstance(item, Rejected)]
    check = row_check(QUESTIONS)
    for row in rows:
        check(row)
    import pyarrow as pa

    check_batch(pa.RecordBatch.from_pylist(rows, schema=QUESTIONS), QUESTIONS)
    return rows, [item for item in found if isinstance(item, Rejected)]


# JSON kept exactly


def equal(one: Any, other: Any) -> bool:
    """As Python's ==, but 1, 1.0 and True differ, as do key orders, and NaN is NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other) or (isinstance(one, float) and math.isnan(one) and math.isnan(other))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_written_is_read_as_the_same_document_with_its_keys_in_order(document):
    assert equal(read_exact(write_exact(document)), document)
    assert equal(read_exact(json.dumps(document)), document)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b'{"a": 1, "b": 2, "a": 1}', 'the key "a" comes twice'),
        (b'[{"deep": {"b": 2, "b": 3}}]', 'the key "b" comes twice'),
        (b'{"a": "\\ud83d"}', "half a surrogate pair"),
        (b'{"\\udc00": 1}', "half a surrogate pair"),
        (b"[" * 101 + b"]" * 101, "nested deeper than 100"),
        (b"[" * 200_000, "nested deeper than 100"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "4300"),
        (b'"\xff"', "no UTF-8 at byte 1"),
        (b'{"a": 1', "Expecting"),
        (b"", "Expecting"),
    ],
)
def test_json_that_cannot_be_kept_is_refused_with_the_reason(text, says):
    with pytest.raises(IllFormed, match=says):
        read_exact(text)


def test_what_looks_like_trouble_and_is_none_is_kept():
    assert read_exact(b"[" * 100 + b"]" * 100) is not None
    assert read_exact('["' + "[" * 300 + '"]') == ["[" * 300]
    assert read_exact(b'"\\ud83d\\ude0a \\\\ud83d"') == "\U0001f60a \\ud83d"


# vocabularies


@pytest.mark.parametrize(
    ("property", "said", "ours", "said_as"),
    [
        ("reliability", "Somewhat Reliable", "Somewhat reliable", "Somewhat Reliable"),
        ("reliability", "Somewhat reliable", "Somewhat reliable", None),
        ("reliability", " somewhat  RELIABLE\n", "Somewhat reliable", " somewhat  RELIABLE\n"),
        ("support", "N/A", "N/A", None),
        ("support", "Missing", "Missing", None),
        ("support", "N/A (if link broken)", "N/A", "N/A (if link broken)"),
        ("correctness", "N/A", "N/A", None),
        ("usefulness", "useful", "Useful", "useful"),
        ("worthiness", None, None, None),
        ("worthiness", "", None, ""),
    ],
)
def test_spellings_come_to_one_label_and_are_kept_where_they_differ(property, said, ours, said_as):
    assert label(property, said, "c") == (ours, said_as)


@pytest.mark.parametrize(
    ("property", "said", "says"),
    [
        ("support", "Fully", 'unknown label: support "Fully"'),
        ("usefulness", "N/A", 'unknown label: usefulness "N/A"'),
        ("worthiness", True, "unknown label: worthiness true"),
        ("worthiness", 1, "unknown label: worthiness 1"),
        ("correctness", ["Unsure"], 'unknown label: correctness ["Unsure"]'),
        ("support", "Very relevant", 'unknown label: support "Very relevant"'),
        ("support", "x" * 500, 'unknown label: support "' + "x" * 78 + "…"),
    ],
)
def test_an_unknown_label_names_property_and_label(property, said, says):
    with pytest.raises(Unfit) as error:
        label(property, said, "c")
    assert f"{error.value.reason}: {error.value.detail}" == f"{says} of c"


def test_what_a_person_may_choose_is_table_3():
    assert ratings("usefulness") == ("Useful", "Partially useful", "Not useful at all")
    assert ratings("support") == ("Complete", "Partial", "Incomplete", "Missing", "N/A")
    assert ratings("correctness") == (
        "Definitely correct",
        "Probably correct",
        "Unsure",
        "Likely incorrect",
        "Definitely incorrect",
    )
    assert ratings("informativeness") == ("Very relevant", "A bit relevant", "Not too important", "Uninformative")
    assert ratings("worthiness") == ("Yes", "No")
    for property in ("usefulness", "support", "informativeness", "correctness", "reliability", "worthiness"):
        assert [label(property, rating, "c") for rating in ratings(property)] == [
            (one, None) for one in ratings(property)
        ]


@pytest.mark.parametrize(
    ("said", "types", "unknown"),
    [
        (f"{OPEN_ENDED}", ["II"], []),
        (f"Request for opinion on a topic| {OPEN_ENDED} |", ["II", "VII"], []),
        (f" {OPEN_ENDED.upper()}|{OPEN_ENDED}", ["II"], []),
        ("I,III", ["I", "III"], []),
        ("vii; i  i", ["I", "VII"], []),
        (["V", "I"], ["I", "V"], []),
        (["I, II", OPEN_ENDED], ["I", "II"], []),
        ("VIII", [], ["VIII"]),
        ("I, else", [], ["I, else"]),
        ("Request for opinion on a topic|A riddle", ["VII"], ["A riddle"]),
        ("", [], []),
        ([], [], []),
    ],
)
def test_question_types_come_as_full_texts_or_as_numerals(said, types, unknown):
    assert question_types(said) == (types, unknown)


@given(st.sets(st.sampled_from(["I", "II", "III", "IV", "V", "VI", "VII"])))
def test_types_written_as_released_are_read_back(types):
    ordered = [one for one in type_texts() if one in types]
    assert question_types(type_text(ordered)) == (ordered, [])


@pytest.mark.parametrize(
    ("said", "ours"),
    [
        ("Healthcare / Medicine", "Healthcare / Medicine"),
        ("Healthcare/Medicine", "Healthcare / Medicine"),
        ("healthcare /medicine ", "Healthcare / Medicine"),
        ("Medicine", "Healthcare / Medicine"),
        ("Physics & Astronomy", "Physics and Astronomy"),
        ("Physics&Astronomy", "Physics and Astronomy"),
        ("Engineering  &  technology", "Engineering and Technology"),
        ("Other", "Other"),
    ],
)
def test_fields_come_to_one_spelling(said, ours):
    assert field_of_study(said) == (ours, True)


def test_there_are_32_fields_and_others_stay_as_given():
    assert len(fields()) == 32
    assert field_of_study(" Nuclear  Science") == ("Nuclear Science", False)


# the bank


def test_a_released_question_without_answers():
    rows, rejected = parsed(RELEASED)
    assert rejected == []
    assert {name: value for name, value in rows[0].items() if name != "question_id"} == {
        "question": "Why does copper turn green?",
        "annotator_id": "a_17",
        "field": "Chemistry",
        "specific_field": "Corrosion",
        "question_types": ["II"],
        "source": "released",
        "position": 0,
        "licence": "MIT",
        "original": json.dumps(RELEASED, separators=(",", ":")),
        "answers": None,
    }
    assert rows[0]["question_id"].startswith("expertqa/")


def test_answers_are_kept_in_their_own_column_and_restored_in_place():
    record = {"answers": {"gpt4": {"answer_string": "It rusts."}}, **RELEASED, "more": [1, 1.0]}
    record["answers"] = {"gpt4": {"answer_string": "It rusts."}}
    row = parsed(record)[0][0]
    assert "It rusts" not in row["original"]
    assert json.loads(row["answers"]) == {"gpt4": {"answer_string": "It rusts."}}
    assert equal(released_record(row), record)


def test_a_released_record_loses_users_and_passwords_of_addresses():
    address = "https://user:secret@a.example/x"
    claim = {"claim_string": address, "evidence": [address]}
    record = {**RELEASED, "answers": {"gpt4": {"answer_string": address, "claims": [claim]}}}
    rows, rejected = parsed(record, {**RELEASED, "question": None, "more": address}, f"[{address}".encode())
    assert "secret" not in f"{rows}{rejected}"
    assert equal(released_record(rows[0]), json.loads(json.dumps(record).replace("user:secret@", "")))
    assert len(rejected) == 2


def test_people_write_their_own_questions():
    own = {"question": "Why\ndoes rye bread sour?", "field": "culinary arts", "question_types": ["I", "II"]}
    listed = {"question": "And wheat?", "question_types": "V", "annotator_id": "a_1", "specific_field": "Bread"}
    rows, rejected = parsed(own, listed)
    assert rejected == []
    assert [(row["question"], row["field"], row["question_types"]) for row in rows] == [
        ("Why\ndoes rye bread sour?", "Culinary Arts", ["I", "II"]),
        ("And wheat?", "Other", ["V"]),
    ]
    assert [(row["source"], row["original"], row["answers"]) for row in rows] == [("own", None, None)] * 2
    assert [(row["annotator_id"], row["specific_field"]) for row in rows] == [(None, None), ("a_1", "Bread")]
    assert [released_record(row) for row in rows] == [None, None]


@pytest.mark.parametrize("name", ["question_types", "question_type", "types"])
@pytest.mark.parametrize("said", ["I, V", ["V", "I"], f"{type_texts()['I']}| {type_texts()['V']}"])
def test_types_are_taken_by_each_of_their_names_in_jsonl_as_in_csv(name, said):
    rows, rejected = parsed({"question": "Why?", name: said}, {"question": "How?", "question_types": [], name: said})
    assert [row["question_types"] for row in rows] == [["I", "V"]] * 2
    assert rejected == []
    if isinstance(said, str):
        assert parsed_csv(f'question,{name}\nWhy?,"{said}"\n')[0][0]["question_types"] == ["I", "V"]
    _, (wrong,) = parsed({"question": "Why?", name: "VIII"})
    assert (wrong.reason, wrong.detail) == ("unknown question type", "VIII")


@pytest.mark.parametrize("indent", [None, 0, 2])
def test_an_array_of_questions_is_refused_with_what_to_do(tmp_path, indent):
    (tmp_path / "q.jsonl").write_text("\n" + json.dumps([{"question": "Why?"}, {"question": "How?"}], indent=indent))
    (source,) = open_banks([tmp_path / "q.jsonl"], digest=sha256_of)
    with pytest.raises(SourceError, match=r"q\.jsonl is one JSON array: .* `jq -c"):
        list(jsonl_records(read_lines(Shard(source, 0)), source.path))


def test_a_first_line_that_is_a_list_costs_no_other_line():
    for first in (b"[1, 2]", b'["a"]', b"[[["):
        rows, rejected = parsed(first, RELEASED)
        assert (len(rows), len(rejected)) == (1, 1)


def test_experts_with_less_than_the_paper_asked_for_are_counted(tmp_path):
    """One with five questions, two of type V; one with five and one V; one with two of V alone; and nobody known."""
    asked = {"full": ["V", "V", "I", "I", "I"], "calm": ["V", "I", "I", "I", "I"], "new": ["V", "V"], None: ["I"]}
    records = [
        {"question": f"Why {who} {number}?", "annotator_id": who, "types": of_type}
        for who, types in asked.items()
        for number, of_type in enumerate(types)
    ]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, records)))
    with building(tmp_path / "home") as run:
        made = bank.read_questions(run, open_banks([tmp_path / "q.jsonl"], digest=sha256_of), licence=None)
    counts = dict(made.parts[0].counts)
    assert made.parts[0].rows == 13
    assert counts["experts with fewer than five questions"] == 1
    assert counts["experts with fewer than two questions of type V"] == 1


def test_a_question_that_comes_again_is_another_row():
    other = {**RELEASED, "annotator_id": "a_18"}
    rows, rejected = parsed(RELEASED, other, RELEASED, {**RELEASED, "answers": {"gpt4": {}}}, number="2")
    first = rows[0]["question_id"]
    assert rejected == []
    assert first.endswith("#file2")
    assert rows[1]["question_id"] != first
    assert [row["question_id"] for row in rows[2:]] == [f"{first}.2", f"{first}.3"]
    assert [row["position"] for row in rows] == [0, 1, 2, 3]
    assert [question_id("ab", None, time) for time in (1, 2)] == ["expertqa/ab", "expertqa/ab#2"]
    assert len({row["question_id"].split("#")[0] for row in rows}) == 2


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({}, "no question"),
        ({"question": None}, "no question"),
        ({"question": 7}, "no question"),
        ({"question": " \n"}, "no question"),
        ({**RELEASED, "question": ["Why?"]}, "no question"),
        ({"question": "x" * 20_001}, "question of more than 20,000 characters"),
        ({"question": "Why?", "field": "x" * 501}, "field of more than 500 characters"),
        ({"question": "Why?", "field": 5}, "ill-formed field"),
        ({"question": "Why?", "annotator_id": {}}, "ill-formed annotator_id"),
        ({"question": "Why?", "question_types": [1]}, "ill-formed question_types"),
        ({"question": "Why?", "question_types": 1}, "ill-formed question_types"),
        ({"question": "Why?", "question_types": "VIII"}, "unknown question type"),
        ({"question": "Why?", "question_types": ["V"] * 2_501}, "question_types of more than 5,000 characters"),
        ([1, 2], "no record"),
        ("Why?", "no record"),
        (b"{'question': 'Why?'}", "ill-formed JSON"),
        (b'{"question": "Why?", "question": "How?"}', "ill-formed JSON"),
        (b'{"question": "\\ud83d"}', "ill-formed JSON"),
        (b'{"question": "\xff"}', "ill-formed JSON"),
    ],
)
def test_a_record_that_is_no_question_is_rejected_with_its_text(record, reason):
    rows, rejected = parsed(RELEASED, record, RELEASED)
    assert [row["position"] for row in rows] == [0, 2]
    assert [(one.key, one.kind, one.reason) for one in rejected] == [("record 1", "defect", reason)]
    assert rejected[0].raw is not None
    assert len(rejected[0].raw) <= 2_000
    rejected[0].raw.encode()


def test_lines_of_blanks_hold_no_record_and_do_not_count():
    rows, rejected = parsed(b"", RELEASED, b" \t\r", RELEASED, b"")
    assert rejected == []
    assert [row["position"] for row in rows] == [0, 1]


def test_released_records_are_kept_whatever_their_metadata_hold():
    odd = {"question": "Why?", "annotator_id": 3, "metadata": {"question_type": "A riddle|", "field": 9, "x": None}}
    rows, rejected = parsed(odd, {"question": "Why?", "metadata": None}, {"question": "Why?", "answers": [1]})
    assert rejected == []
    assert [(row["field"], row["question_types"], row["annotator_id"]) for row in rows] == [("Other", [], None)] * 3
    assert released_record(rows[0]) == odd
    assert released_record(rows[2]) == {"question": "Why?", "answers": [1]}
    assert rows[2]["answers"] is None


@settings(max_examples=150)
@given(
    st.dictionaries(st.sampled_from(["answers", "metadata", "annotator_id", "x", "é"]) | st.text(max_size=4), VALUES),
    st.sampled_from(["answers", "metadata"]),
    VALUES,
)
def test_any_released_record_comes_back_as_it_was(others, must, value):
    record = {**others, must: value, "question": "Why does copper turn green?"}
    rows, rejected = parsed(record)
    assert rejected == []
    assert equal(released_record(rows[0]), record)


# CSV


def test_csv_columns_may_be_in_any_order_and_cells_hold_any_text():
    text = (
        'Question Types,notes,FIELD,question,Annotator ID\r\n"I, IV",x,Law,"Who said ""no"",\r\nand when?",a_1\r\n'
        "\r\n,,,Why?,\r\n"
    )
    rows, rejected = parsed_csv(text)
    assert rejected == []
    assert [(row["question"], row["field"], row["question_types"], row["annotator_id"]) for row in rows] == [
        ('Who said "no",\r\nand when?', "Law", ["I", "IV"], "a_1"),
        ("Why?", "Other", [], None),
    ]
    assert [(row["source"], row["original"], row["position"]) for row in rows] == [("csv", None, 0), ("csv", None, 1)]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_csv_file_is_separated_as_its_first_line_shows(separator):
    rows, _ = parsed_csv(f"field{separator}question\nLaw{separator}Why?\n")
    assert [(row["field"], row["question"]) for row in rows] == [("Law", "Why?")]


@given(st.lists(st.tuples(st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)), max_size=6))
def test_whatever_pythons_writer_writes_is_read(cells):
    texts = [f"Q {cell[0]}" for cell in cells]
    file = io.StringIO(newline="")
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["question", "field"], *([text, "Law"] for text in texts)])
    rows, rejected = parsed_csv(file.getvalue())
    assert rejected == []
    assert [row["question"] for row in rows] == texts


def test_a_quote_that_is_not_closed_costs_its_line_alone():
    many = "".join(f"Q{n}?,Law\n" for n in range(5))
    rows, rejected = parsed_csv(f'question,field\nQ?,Law\n"open,Law\n{many}Last?,Law\n')
    assert [row["question"] for row in rows] == ["Q?", *(f"Q{n}?" for n in range(5)), "Last?"]
    assert [(one.key, one.reason, one.raw) for one in rejected] == [("record 1", "ill-formed CSV", '"open,Law\n')]


def test_broken_records_one_after_the_other_are_rejected_one_by_one():
    rows, rejected = parsed_csv('question,field\n"a,Law\nB?,Law\n"c"x,Law\nD?\nE?,Law\n"f\n')
    assert [row["question"] for row in rows] == ["B?", "E?"]
    assert Counter(one.reason for one in rejected) == {
        "ill-formed CSV": 3,
        "another number of cells than the first line": 1,
    }


def test_cells_and_records_are_bounded():
    long = "x" * 200_000
    rows, rejected = parsed_csv(f'question\n"{long}"\nWhy?\n{"y" * 20_001}\n')
    assert [row["question"] for row in rows] == ["Why?"]
    assert [one.reason for one in rejected] == ["ill-formed CSV", "question of more than 20,000 characters"]
    assert all(len(one.raw or "") <= 2_000 for one in rejected)


def test_a_hostile_csv_file_ends_in_an_error_and_not_in_hours():
    with pytest.raises(SourceError, match="more than 1,000 lines that are no CSV"):
        parsed_csv("question,field\n" + '"c"x,Law\n' * 1_001)
    _, rejected = parsed_csv("question,field\n" + '"c"x,Law\n' * 1_000)
    assert len(rejected) == 1_000
    hostile = [b"question,field", *[b'a","'] * 100_000]
    with pytest.raises(SourceError, match="more than 20 lines that are no CSV"):
        list(csv_rows(hostile, "own/q.csv", most_broken=20))


def test_bytes_that_are_no_utf8_cost_their_record():
    rows, rejected = parsed_csv(b"question,field\nCaf\xe9?,Law\nWhy?,Law\n")
    assert [row["question"] for row in rows] == ["Why?"]
    assert [(one.key, one.reason) for one in rejected] == [("record 0", "no UTF-8")]


@pytest.mark.parametrize("text", ["", "field\nLaw\n", '"', "Warum?\nWeil.\n", "q\0estion\n"])
def test_a_csv_file_needs_a_column_of_questions(text):
    with pytest.raises(SourceError, match='no column "question"'):
        parsed_csv(text)
    with pytest.raises(SourceError, match=r"^own/q\.csv has no column"):
        list(csv_records(text.encode().split(b"\n"), "own/q.csv"))


def test_an_empty_file_says_what_to_give(tmp_path):
    (tmp_path / "q.jsonl").write_bytes(b"")
    with pytest.raises(SourceError, match=r"q\.jsonl is empty: give a file that holds records"):
        open_banks([tmp_path / "q.jsonl"], digest=sha256_of)


# files


def test_files_are_opened_by_their_names(tmp_path):
    (tmp_path / "b.jsonl").write_text(json.dumps(RELEASED) + "\n")
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfquestion\nWhy?\n")
    (tmp_path / "notes.txt").write_text("no questions")
    sources = open_banks([tmp_path], digest=sha256_of)
    assert [(dict(one.facts)["name"], dict(one.facts).get("number")) for one in sources] == [
        ("a.csv", None),
        ("b.jsonl", "2"),
    ]
    assert [Shard(one, 0).key.split("/")[0] for one in sources] == ["expertqa"] * 2
    assert [bank.is_csv(name) for name in ("a.csv", "A.CSV", "a.csv.gz", "a.jsonl", "csv.jsonl.gz")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    rows, _ = sorted_out(parse_questions(csv_records(read_lines(Shard(sources[0], 0))), None, "csv"))
    assert [row["question"] for row in rows] == ["Why?"]


@pytest.mark.parametrize(("name", "number"), [("rand_val.jsonl", 217), ("r1_data_anon.jsonl", 2_507)])
def test_released_files_are_restored_unchanged(name, number):
    if not (REAL / name).exists():
        pytest.skip("the released files are not beside the project")
    lines = (REAL / name).read_bytes().splitlines()
    rows, rejected = sorted_out(parse_questions(jsonl_records(lines), "MIT"))
    assert rejected == []
    assert len(rows) == number
    assert len({row["question_id"] for row in rows}) == number
    assert [released_record(row) for row in rows] == [json.loads(line) for line in lines]
    assert all(row["question_types"] for row in rows)
    assert {row["field"] for row in rows} - set(fields()) <= {"Nuclear Science"}


def test_types_of_stage_one_are_counted_as_in_the_file():
    path = REAL / "r1_data_anon.jsonl"
    if not path.exists():
        pytest.skip("the released files are not beside the project")
    rows, _ = sorted_out(parse_questions(jsonl_records(path.read_bytes().splitlines()), "MIT"))
    counted = Counter(one for row in rows for one in row["question_types"])
    assert counted == {"V": 1016, "II": 595, "I": 496, "III": 421, "IV": 297, "VII": 234, "VI": 175}
