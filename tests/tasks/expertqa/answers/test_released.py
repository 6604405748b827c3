"""Answers that came with the questions, a commercial system's from a file, and the labels of released answers."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import paths
import pyarrow as pa
import pytest
from axioms_builds import Silent
from hypothesis import given, settings
from hypothesis import strategies as st

from longform.artifacts.parts import check_batch, row_check
from longform.artifacts.rows import Rejected
from longform.artifacts.store import Store
from longform.engine.build import Build
from longform.engine.runners import ThreadRunner
from longform.engine.thread_tasks import SequentialStages
from longform.files import sha256_of
from longform.llm.models import Models
from schemas.expertqa import ANSWERS, LABELS
from tasks.annotation.values import Unfit
from tasks.expertqa.answers.claims import released_claims
from tasks.expertqa.answers.released import (
    answers_of,
    claim_labels,
    labels_of,
    parse_commercial,
    read_commercial,
    read_released,
    sources_listed,
    unknown_systems,
)
from tasks.expertqa.bank import jsonl_records, open_banks, parse_questions, read_questions

REAL = paths.REAL_DATA / "expertqa"
CLAIM = {
    "claim_string": "Copper turns green [1].",
    "evidence": ["[1] https://copper.example/green\n\nCopper turns green in moist air."],
    "support": "Complete",
    "reason_missing_support": "",
    "informativeness": "Very relevant",
    "worthiness": "Yes",
    "correctness": "Definitely correct",
    "reliability": "Somewhat reliable",
    "revised_claim": "Copper slowly turns green [1].",
    "revised_evidence": "[1] https://copper.example/green",
}
ANSWER = {
    "answer_string": "Copper turns green [1].",
    "attribution": ["[1] https://copper.example/green"],
    "claims": [CLAIM],
    "revised_answer_string": "Copper slowly turns green [1].",
    "usefulness": "Useful",
    "annotation_time": 180000,
    "annotator_id": "a_17",
}
NULLS = {name: None for name in CLAIM if name not in ("claim_string", "evidence")}


def question(**answers: Any) -> dict[str, Any]:
    record = {"question": "Why does copper turn green?", "annotator_id": "a_17", "answers": answers, "metadata": {}}
    (row,) = parse_questions(jsonl_records([json.dumps(record).encode()]), "MIT")
    assert not isinstance(row, Rejected)
    return row


def checked(items: Any, schema: pa.Schema = ANSWERS) -> tuple[list[dict[str, Any]], list[Rejected]]:
    found = list(items)
    rows = [item for item in found if not isinstance(item, Rejected)]
    check = row_check(schema)
    for row in rows:
        check(row)
    check_batch(pa.RecordBatch.from_pylist(rows, schema=schema), schema)
    return rows, [item for item in found if isinstance(item, Rejected)]


def claims_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return list(released_claims(answer)) if answer["claims"] else []


def labels_and_wrong(answer: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The row of LABELS, as its stage completes it, and what of it is no label; ids without the answer's."""
    (row,), _ = checked(answers_of(question(gpt4=answer)))
    found, wrong = labels_of(row, claims_of(row))
    later = {name: None for name in LABELS.names if name not in found}
    row_check(LABELS)(found | later)
    check_batch(pa.RecordBatch.from_pylist([found | later], schema=LABELS), LABELS)
    return found, [(each.reason, str(each.detail).replace(row["answer_id"], "a")) for each in wrong]


def labelled(answer: dict[str, Any]) -> dict[str, Any]:
    found, wrong = labels_and_wrong(answer)
    assert wrong == []
    return found


def claim_labelled(given: dict[str, Any]) -> dict[str, Any]:
    wrong: list[Unfit] = []
    found = claim_labels("c", given, wrong)
    assert wrong == []
    return found


# released answers


def test_a_released_answer_is_kept_to_the_letter_its_claims_apart():
    rows, rejected = checked(answers_of(question(some_new_system=ANSWER)))
    assert rejected == []
    row = rows[0]
    assert (row["system"], row["kind"], row["text"]) == ("some_new_system", "released", "Copper turns green [1].")
    assert row["attribution"] == ["[1] https://copper.example/green"]
    assert [(one["number"], one["url"], one["text"]) for one in row["cited"]] == [
        (1, "https://copper.example/green", None)
    ]
    assert json.loads(row["original"]) == {**ANSWER, "claims": None}
    assert list(json.loads(row["original"])) == list(ANSWER)
    assert json.loads(row["claims"]) == [CLAIM]
    assert (row["response"], row["model"], row["abstention"]) == (None, None, None)


def test_each_system_is_an_answer_in_the_order_of_the_file():
    rows, _ = checked(answers_of(question(bing_chat=ANSWER, gpt4={"answer_string": ""})))
    assert [row["system"] for row in rows] == ["bing_chat", "gpt4"]
    assert len({row["answer_id"] for row in rows}) == 2
    assert (rows[1]["text"], rows[1]["attribution"], rows[1]["claims"]) == ("", [], None)
    assert json.loads(rows[1]["original"]) == {"answer_string": ""}


def test_a_question_without_answers_is_left_out():
    rows, rejected = checked(answers_of(question()))
    assert rows == []
    assert [(one.key, one.kind, one.reason) for one in rejected] == [
        (question()["question_id"], "filtered", "no released answer")
    ]


@pytest.mark.parametrize(
    ("system", "answer", "reason"),
    [
        ("gpt4", None, "ill-formed answer"),
        ("gpt4", "Copper turns green.", "ill-formed answer"),
        ("gpt4", {}, "missing or ill-formed answer_string"),
        ("gpt4", {**ANSWER, "answer_string": 4}, "missing or ill-formed answer_string"),
        ("gpt4", {**ANSWER, "attribution": "[1] https://copper.example"}, "ill-formed attribution"),
        ("gpt4", {**ANSWER, "attribution": [1]}, "ill-formed attribution"),
        ("gpt4", {**ANSWER, "claims": {}}, "ill-formed claims"),
        ("gpt4", {**ANSWER, "claims": ["Copper turns green"]}, "ill-formed claims"),
        ("gpt4", {**ANSWER, "claims": [CLAIM, {"evidence": []}]}, "ill-formed claims"),
        ("gpt4", {**ANSWER, "claims": [{**CLAIM, "evidence": "https://copper.example"}]}, "ill-formed claims"),
        ("gpt4", {**ANSWER, "claims": [{**CLAIM, "evidence": [None]}]}, "ill-formed claims"),
        ("", ANSWER, "ill-formed name of a system"),
        ("x" * 201, ANSWER, "ill-formed name of a system"),
    ],
)
def test_an_ill_typed_answer_is_rejected_with_its_text_and_others_stay(system, answer, reason):
    asked = question(**{"bing_chat": ANSWER, system: answer})
    rows, rejected = checked(answers_of(asked))
    assert [row["system"] for row in rows] == ["bing_chat"]
    assert [(one.key, one.kind, one.reason) for one in rejected] == [(asked["question_id"], "defect", reason)]
    assert rejected[0].raw == json.dumps(answer, separators=(",", ":"))[:2_000]


@settings(max_examples=50)
@given(st.dictionaries(st.text(max_size=5), st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists)))
def test_any_answers_become_rows_or_are_rejected(answers):
    rows, rejected = checked(answers_of(question(**answers)))
    assert len(rows) + len(rejected) == max(1, len(answers))


def test_sources_keep_their_numbers():
    listed = [
        "[2] https://b.example",
        "https://third.example",
        "[2] https://again.example",
        "[4]\thttps://d.example ",
        "",
    ]
    assert [(one["number"], one["url"]) for one in sources_listed(listed)] == [
        (2, "https://b.example"),
        (4, "https://d.example"),
    ]


def test_a_listed_link_has_an_address_and_a_title():
    [source] = sources_listed(["[3] [Title of it](http://h.example/ok12)"])
    assert source == {
        "number": 3,
        "url": "http://h.example/ok12",
        "passage_id": None,
        "title": "Title of it",
        "text": None,
    }


# labels


def test_the_labels_of_a_released_answer():
    found = labelled(ANSWER)
    assert isinstance(found, dict)
    answer = found["answer_id"]
    assert found == {
        "label_id": f"{answer}/a_17",
        "answer_id": answer,
        "question_id": question(gpt4=ANSWER)["question_id"],
        "system": "gpt4",
        "annotator_id": "a_17",
        "usefulness": "Useful",
        "usefulness_said_as": None,
        "revised_answer": "Copper slowly turns green [1].",
        "annotation_time": 180000.0,
        "source": "released",
        "claims": [
            {
                "claim_id": f"{answer}#0",
                "support": "Complete",
                "reason_missing_support": "",
                "informativeness": "Very relevant",
                "worthiness": "Yes",
                "correctness": "Definitely correct",
                "reliability": "Somewhat reliable",
                "revised_claim": "Copper slowly turns green [1].",
                "revised_evidence": ["[1] https://copper.example/green"],
                "said_as": None,
            }
        ],
    }


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ({"reliability": "Somewhat Reliable"}, {"reliability": "Somewhat reliable"}),
        ({"support": None, "worthiness": None}, {"support": None, "worthiness": None}),
        ({"support": "Missing", "reliability": "N/A"}, {"support": "Missing", "reliability": "N/A"}),
        ({"revised_evidence": ""}, {"revised_evidence": []}),
        ({"revised_evidence": []}, {"revised_evidence": []}),
        ({"revised_evidence": None}, {"revised_evidence": None}),
        ({"revised_evidence": ["a", "b"]}, {"revised_evidence": ["a", "b"]}),
        ({"revised_claim": ""}, {"revised_claim": ""}),
        ({"revised_claim": None, "revised_claim_string": "Other."}, {"revised_claim": "Other."}),
        ({"revised_claim": "One.", "revised_claim_string": "Other."}, {"revised_claim": "One."}),
        ({"source_reliability": None, "revised_claim_string": None}, {}),
        ({"reliability": None, "source_reliability": "Reliable"}, {"reliability": "Reliable"}),
        ({"reliability": "Missing", "source_reliability": "Reliable"}, {"reliability": "Missing"}),
    ],
)
def test_labels_of_a_claim(given, ours):
    plain = claim_labelled(CLAIM)
    found = claim_labelled({**CLAIM, **given})
    assert {name: value for name, value in found.items() if name != "said_as"} == {
        name: value for name, value in {**plain, **ours}.items() if name != "said_as"
    }


def test_what_a_label_came_as_is_kept_where_it_differs():
    found = claim_labelled({**CLAIM, "reliability": "Somewhat Reliable", "worthiness": " yes", "support": "Complete"})
    assert json.loads(found["said_as"]) == {"worthiness": " yes", "reliability": "Somewhat Reliable"}
    other = claim_labelled({**NULLS, "source_reliability": "NOT RELIABLE AT ALL"})
    assert json.loads(other["said_as"]) == {"reliability": "NOT RELIABLE AT ALL"}
    answer = labelled({**ANSWER, "usefulness": "partially  useful "})
    assert isinstance(answer, dict)
    assert (answer["usefulness"], answer["usefulness_said_as"]) == ("Partially useful", "partially  useful ")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"usefulness": "Very useful"}, ("unknown label", 'usefulness "Very useful" of a')),
        ({"claims": [CLAIM, {**CLAIM, "support": "Fully"}]}, ("unknown label", 'support "Fully" of a#1')),
        ({"claims": [{**CLAIM, "source_reliability": "So so"}]}, ("unknown label", 'reliability "So so" of a#0')),
        ({"claims": [{**CLAIM, "correctness": 3}]}, ("unknown label", "correctness 3 of a#0")),
        ({"claims": [{**CLAIM, "revised_claim": ["a"]}]}, ("ill-formed revised_claim", "a#0")),
        ({"claims": [{**CLAIM, "revised_evidence": 1}]}, ("ill-formed revised_evidence", "a#0")),
        ({"claims": [{**CLAIM, "reason_missing_support": {}}]}, ("ill-formed reason_missing_support", "a#0")),
        ({"revised_answer_string": 1}, ("ill-formed revised_answer_string", "a")),
        ({"annotation_time": "3 min"}, ("ill-formed annotation_time", "a")),
        ({"annotation_time": True}, ("ill-formed annotation_time", "a")),
        ({"annotation_time": float("nan")}, ("ill-formed annotation_time", "a")),
        ({"annotation_time": 10**400}, ("ill-formed annotation_time", "a")),
        ({"annotator_id": 17}, ("ill-formed annotator_id", "a")),
    ],
)
def test_labels_that_are_none_are_named(answer, why):
    _, wrong = labels_and_wrong({**ANSWER, **answer})
    assert wrong == [why]


def test_what_is_no_label_costs_no_other_one():
    bad = {"support": "Fully", "worthiness": 1, "revised_evidence": 7}
    found, wrong = labels_and_wrong(
        {**ANSWER, "usefulness": "Super", "annotator_id": 17, "claims": [{**CLAIM, **bad}, CLAIM]}
    )
    plain = labelled({**ANSWER, "claims": [CLAIM, CLAIM]})
    first, second = plain["claims"]
    assert found["claims"] == [{**first, **dict.fromkeys(bad)}, second]
    rest = ("revised_answer", "annotation_time")
    assert [found[name] for name in rest] == [plain[name] for name in rest]
    assert (found["usefulness"], found["annotator_id"]) == (None, "unknown")
    assert sorted(wrong) == [
        ("ill-formed annotator_id", "a"),
        ("ill-formed revised_evidence", "a#0"),
        ("unknown label", 'support "Fully" of a#0'),
        ("unknown label", 'usefulness "Super" of a'),
        ("unknown label", "worthiness 1 of a#0"),
    ]


def test_an_answer_without_labels_has_a_row_of_nulls():
    found = labelled({"answer_string": "Green.", "claims": [{"claim_string": "Green."}]})
    assert (found["usefulness"], found["annotator_id"], found["annotation_time"]) == (None, "unknown", None)
    (claim,) = found["claims"]
    assert {name for name, value in claim.items() if value is not None} == {"claim_id"}


def test_labels_of_the_released_file_are_counted_as_in_the_file():
    path = REAL / "rand_val.jsonl"
    if not path.exists():
        pytest.skip("the released files are not beside the project")
    lines = path.read_bytes().splitlines()
    counted: Counter[tuple[str, str | None]] = Counter()
    for asked in parse_questions(jsonl_records(lines), "MIT"):
        for answer in answers_of(asked):
            assert not isinstance(answer, Rejected)
            found, wrong = labels_of(answer, claims_of(answer))
            assert wrong == []
            assert all(claim["said_as"] is None for claim in found["claims"])
            counted.update(("usefulness", value) for value in [found["usefulness"]])
            for claim in found["claims"]:
                counted.update((name, claim[name]) for name in ("support", "correctness", "reliability"))
    assert {key: counted[key] for key in counted if key[0] == "usefulness"} == {
        ("usefulness", "Useful"): 173,
        ("usefulness", "Partially useful"): 37,
        ("usefulness", "Not useful at all"): 7,
    }
    support = {"Complete": 715, "Missing": 216, "Incomplete": 196, "Partial": 58, "N/A": 49, None: 3}
    assert {key[1]: number for key, number in counted.items() if key[0] == "support"} == support
    assert counted["reliability", "Somewhat reliable"] == 352
    assert counted["correctness", None] == 5


# a commercial system


ASKED = [
    ("expertqa/1", "Why does copper\nturn green?"),
    ("expertqa/2", "Who said no?"),
    ("expertqa/3", "Who said no? "),
]


def commercial(*records: Any) -> tuple[list[dict[str, Any]], list[Rejected]]:
    lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in records]
    return checked(parse_commercial(jsonl_records(lines), ASKED, "bing_chat"))


def test_answers_find_their_questions_by_id_or_by_folded_text():
    rows, rejected = commercial(
        {"question": " Why does  copper turn green?", "answer_string": "Air [^1^]."},
        {"question_id": "expertqa/3", "answer_string": "I did.", "attribution": ["[1] https://no.example"]},
        {"question": "Who said no?", "answer_string": "You did."},
    )
    assert rejected == []
    assert [(row["question_id"], row["text"]) for row in rows] == [
        ("expertqa/1", "Air [^1^]."),
        ("expertqa/3", "I did."),
        ("expertqa/2", "You did."),
    ]
    assert {(row["system"], row["kind"]) for row in rows} == {("bing_chat", "imported")}
    assert [(one["number"], one["url"]) for one in rows[1]["cited"]] == [(1, "https://no.example")]


@pytest.mark.parametrize(
    ("record", "kind", "reason"),
    [
        ({"question_id": "expertqa/9", "answer_string": "x"}, "defect", "no such question"),
        ({"question": "What?", "answer_string": "x"}, "defect", "no such question"),
        ({"question": ["What?"], "answer_string": "x"}, "defect", "no such question"),
        ({"answer_string": "x"}, "defect", "no such question"),
        ({"question_id": "expertqa/1", "answer_string": "Again."}, "filtered", "question answered before"),
        ({"question_id": "expertqa/2"}, "defect", "missing or ill-formed answer_string"),
        ({"question_id": "expertqa/2", "answer_string": "  "}, "defect", "missing or ill-formed answer_string"),
        (
            {"question_id": "expertqa/2", "answer_string": "x", "attribution": "[1] y"},
            "defect",
            "ill-formed attribution",
        ),
        (b"{", "defect", "ill-formed JSON"),
        ([], "defect", "no record"),
    ],
)
def test_answers_that_cannot_be_taken_are_rejected_with_their_text(record, kind, reason):
    first = {"question_id": "expertqa/1", "answer_string": "Air."}
    rows, rejected = commercial(first, record)
    assert [row["text"] for row in rows] == ["Air."]
    assert [(one.key, one.kind, one.reason) for one in rejected] == [("record 1", kind, reason)]
    assert rejected[0].raw


def test_an_ill_formed_answer_leaves_its_question_free():
    rows, rejected = commercial(
        {"question_id": "expertqa/1", "answer_string": ""}, {"question_id": "expertqa/1", "answer_string": "Air."}
    )
    assert [row["text"] for row in rows] == ["Air."]
    assert len(rejected) == 1


def test_sources_that_only_the_text_names_are_found_in_it():
    text = "Air [1].\n\n[1] https://copper.example/green"
    (row,), _ = commercial({"question_id": "expertqa/1", "answer_string": text})
    assert row["text"] == "Air [1]."
    assert [(one["number"], one["url"]) for one in row["cited"]] == [(1, "https://copper.example/green")]
    assert row["attribution"] == []
    listed = {"question_id": "expertqa/1", "answer_string": text, "attribution": ["[1] https://air.example"]}
    (row,), _ = commercial(listed)
    assert (row["text"], [one["url"] for one in row["cited"]]) == ("Air [1].", ["https://air.example"])
    (row,), _ = commercial({"question_id": "expertqa/1", "answer_string": "[1] https://copper.example/green"})
    assert row["text"] == "[1] https://copper.example/green"


# the stages


def test_the_stages_conserve_every_question(tmp_path):
    released = {"question": "Why?", "answers": {"gpt4": ANSWER, "odd": 5}, "metadata": {}}
    bare = {"question": "How?", "answers": {}, "metadata": {}}
    broken = {"question": "Who?", "answers": {"gpt4": 1, "bing_chat": {}}, "metadata": {}}
    bank = tmp_path / "bank.jsonl"
    bank.write_text("\n".join(map(json.dumps, (released, bare, broken, 5))) + "\n")
    answers = tmp_path / "bing.jsonl"
    answers.write_text(json.dumps({"question": "How?", "answer_string": "So."}) + "\n")
    home = tmp_path / "home"
    build = Build(
        Store(home),
        tasks=SequentialStages(),
        runner=ThreadRunner(),
        progress=Silent(),
        models=Models(home / "responses.sqlite"),
    )
    questions = read_questions(build, open_banks([bank], digest=sha256_of), licence="MIT")
    given = read_released(build, questions)
    bing = read_commercial(build, open_banks([answers], digest=sha256_of), questions, system="bing_chat")
    assert [row["question"] for row in questions] == ["Why?", "How?", "Who?"]
    assert [row["system"] for row in given] == ["gpt4"]
    assert [(row["text"], row["kind"]) for row in bing] == [("So.", "imported")]
    build.close()


def test_answers_of_systems_that_the_paper_has_not_are_kept_counted_and_named(tmp_path) -> None:
    bank = tmp_path / "bank.jsonl"
    names = ["gpt4", "mystery_system", *(f"s{number}" for number in range(7))]
    record = {"question": "Why?", "answers": dict.fromkeys(names, ANSWER), "metadata": {}}
    bank.write_text(json.dumps(record) + "\n")
    home = tmp_path / "home"
    build = Build(
        Store(home),
        tasks=SequentialStages(),
        runner=ThreadRunner(),
        progress=Silent(),
        models=Models(home / "responses.sqlite"),
    )
    given = read_released(build, read_questions(build, open_banks([bank], digest=sha256_of), licence="MIT"))
    assert len(list(given)) == 9
    counts = Counter({name: number for part in given.parts or () for name, number in part.counts})
    assert counts['answers of the unknown system "mystery_system"'] == 1
    assert counts["answers of the unknown system others"] == 3
    (gate,) = unknown_systems(given)
    assert gate.sentence.startswith(
        'unknown_system: 8 of 9 released answers are of systems that the paper has not: "mystery_system" (1), "s0" (1)'
    )
    assert "and 3 more" in gate.sentence
    assert not gate.is_above
    build.close()


def test_passwords_in_addresses_are_in_no_row_of_imported_answers():
    address = "https://user:secret@a.example/x"
    answer = {"answer_string": f"Air ({address}).", "attribution": [f"[1] {address}"]}
    rows, rejected = commercial(
        {"question_id": "expertqa/1", **answer}, {"question_id": "no", **answer}, address.encode()
    )
    assert "secret" not in f"{rows}{rejected}"
    assert rows[0]["text"] == "Air (https://a.example/x)."
    assert [row["url"] for row in rows[0]["cited"]] == ["https://a.example/x"]
    assert len(rejected) == 2


def test_addresses_of_sources_need_no_scheme():
    listed = sources_listed(["[1] www.a.example/x", "[2] doi:10.1000/xyz", "HTTP://A.example/y Tin."])
    assert [row["url"] for row in listed] == [
        "https://www.a.example/x",
        "https://doi.org/10.1000/xyz",
        "http://A.example/y",
    ]
    assert listed[2]["text"] == "Tin."
