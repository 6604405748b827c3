"""Labels back from annotators: sheets filled in as people and tools do it, and everything that can be wrong in them."""

from __future__ import annotations

import copy
import csv
import gzip
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paths
import pytest
from expertqa_toys import (
    answer,
    claim,
    collect_answers,
    link_cited_pages,
    question,
    read_questions,
    rejected_of,
    toy_source,
)
from hypothesis import given
from hypothesis import strategies as st
from toy_stages import building

from longform.artifacts.rows import Rejected, Row
from longform.errors import SourceError
from longform.files import sha256_of
from tasks.annotation import argilla, files
from tasks.annotation.files import Format, labellings, read_records, sheet_files
from tasks.annotation.form import Item, Task, arranged
from tasks.annotation.labelling import check_all
from tasks.annotation.values import joined, texts_of
from tasks.expertqa import labels
from tasks.expertqa.form import CLAIM_PROPERTIES, FORM, tasks
from tasks.expertqa.labels import label_rows, open_labels
from tasks.expertqa.vocabulary import LABELLED, ratings
from tasks.sources.files.csv_cells import harmless

FORMATS: list[Format] = ["jsonl", "csv", "plain-csv", "label-studio", "argilla"]
RELEASED = paths.REAL_DATA / "expertqa" / "rand_val.jsonl"
FIRST, SECOND = answer("q1"), answer("q2", "bing_chat")
CLAIMS = [claim(FIRST, 0, "One claim."), claim(FIRST, 1, "Another claim."), claim(SECOND, 0, "A third claim.")]


def known_of(answers: list[Row], claims: list[Row]) -> dict[str, Task]:
    """The answers that labels can be of, as a build knows them."""
    return {
        one["answer_id"]: Task(
            one["answer_id"],
            items=tuple(
                Item(row["claim_id"], {"claim": row["text"]}) for row in claims if row["answer_id"] == one["answer_id"]
            ),
            context={name: one[name] for name in ("question_id", "system")},
        )
        for one in answers
    }


ANSWERS = known_of([FIRST, SECOND], CLAIMS)
A = FIRST["answer_id"]
EMPTY = dict.fromkeys((*CLAIM_PROPERTIES, "said_as"))


def made() -> list[Task]:
    asked = [question("q1"), question("q2", "e2")]
    return arranged(FORM, tasks(asked, [FIRST, SECOND], CLAIMS), 0)


def contents(drawn: list[Task], format: Format) -> list[bytes]:
    """The files that are filled in."""
    return [
        content
        for name, content in sheet_files(FORM, drawn, format).items()
        if name.endswith((".jsonl", ".csv", "tasks.json", "records.json"))
    ]


def parsed(
    *records: Any,
    raw: bytes | None = None,
    path: str = "labels.jsonl",
    known: dict[str, Task] = ANSWERS,
    accounts: dict[str, str] | None = None,
    count: Callable[[str, int], None] = lambda name, number: None,
) -> tuple[list[Row], list[Rejected]]:
    content = b"\n".join(json.dumps(record).encode() for record in records) if raw is None else raw
    lines = iter(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"))  # as reading a file does
    read = labellings(FORM, read_records(FORM, lines, path))
    items = list(label_rows(check_all(FORM, read, known, accounts or {}), count))
    rejected = [item for item in items if isinstance(item, Rejected)]
    return [item for item in items if not isinstance(item, Rejected)], rejected


def merged(files_of: list[tuple[bytes, str]], known: dict[str, Task]) -> tuple[list[Row], list[Rejected]]:
    """The rows of filled-in files, put together as a build does."""
    read = [parsed(raw=content, path=path, known=known) for content, path in files_of]
    rows = labels.merged(row for found, _ in read for row in found)
    return [row for row, _ in rows.values()], [item for _, rejected in read for item in rejected]


# ---------------------------------------------------------------- filling in, as a person with each tool does

Said = dict[str, dict[str, Row]]
Filled = list[tuple[bytes, str]]
AT = "2026-11-21T17:00:00.000001Z"


def fill_jsonl(drawn: list[Task], said: Said) -> Filled:
    """One line for each annotator of each answer, as they send back copies of the file."""
    lines = []
    for line in contents(drawn, "jsonl")[0].splitlines():
        for annotator, labelled in said.get(json.loads(line)["answer_id"], {}).items():
            sheet = {**json.loads(line), **labelled, "annotator_id": annotator}
            sheet["claims"] = [
                {**one, **values} for one, values in zip(json.loads(line)["claims"], labelled["claims"], strict=True)
            ]
            lines.append(json.dumps(sheet))
    return [("\n".join(lines).encode() or b"{}", "labels.jsonl")]


def fill_csv(drawn: list[Task], said: Said, format: Format = "csv") -> Filled:
    """A row for each claim; the answer as a whole is labelled in the row of its first claim."""
    text = contents(drawn, format)[0].decode("utf-8-sig")
    read = list(csv.DictReader(io.StringIO(text, newline="")))
    written = io.StringIO(newline="")
    lines = csv.DictWriter(written, read[0].keys(), delimiter=";" if format == "csv" else ",")
    lines.writeheader()
    for annotator in sorted({annotator for by in said.values() for annotator in by}):
        places: Counter[str] = Counter()
        for row in read:
            name = row["answer_id"]
            labelled = said.get(name, {}).get(annotator)
            if labelled is None:
                continue
            whole = {key: labelled[key] for key in ("usefulness", "revised_answer")} if not places[name] else {}
            cells = {**whole, **with_left_out(labelled["claims"][places[name]])}
            texts = {key: joined(cell) if isinstance(cell, list) else cell or "" for key, cell in cells.items()}
            safe = {key: harmless(cell) for key, cell in texts.items()} if format == "csv" else texts
            lines.writerow({**row, **safe, "annotator_id": annotator})
            places[name] += 1
    return [(written.getvalue().encode(), "labels.csv")]


def fill_plain_csv(drawn: list[Task], said: Said) -> Filled:
    return fill_csv(drawn, said, "plain-csv")


def fill_label_studio(drawn: list[Task], said: Said) -> Filled:
    """The exports of both projects: controls that somebody used have an item in `result`, the others none."""
    answers, claims = (json.loads(content) for content in contents(drawn, "label-studio"))
    for number, task in enumerate(answers + claims, 1):
        data = task["data"]
        task |= {"id": number, "annotations": [], "drafts": [], "predictions": [], "total_annotations": 1, "meta": {}}
        for annotator, labelled in said.get(data["answer_id"], {}).items():
            values = {name: labelled[name] for name in ("usefulness", "revised_answer")}
            if "claim_id" in data:
                values = with_left_out(labelled["claims"][int(data["claim_id"].rpartition("#")[2])])
            result = [item for name in values for item in items(name, "claim", values)]
            time = labelled["annotation_time"] if "claim_id" not in data else None
            task["annotations"].append(annotation_of(annotator, result, time))
    return [(json.dumps(of, indent=1).encode(), "labels.json") for of in (answers, claims)]


def fill_old_label_studio(drawn: list[Task], said: Said) -> Filled:
    """An export of a project whose configuration repeated the controls for each claim of an answer."""
    exported = [old_task(task) for task in drawn]
    for task in exported:
        for annotator, labelled in said.get(task["data"]["answer_id"], {}).items():
            result = [*items("usefulness", "answer", labelled), *items("revised_answer", "answer", labelled)]
            for place, values in enumerate(labelled["claims"]):
                for name in with_left_out(values):
                    result += items(name, f"claim_{place}", with_left_out(values), f"{name}_{place}")
            task["annotations"].append(annotation_of(annotator, result, labelled["annotation_time"]))
    return [(json.dumps(exported).encode(), "labels.json")]


def old_task(task: Task) -> Row:
    claims = [{"claim_id": item.id, **item.texts} for item in task.items]
    data = {"answer_id": task.id, **task.context, "annotator_id": task.annotator, **task.texts, "claims": claims}
    return {"data": data, "annotations": []}


def annotation_of(annotator: str, result: list[Row], time: float | None) -> Row:
    who = {"id": annotator, "email": "a@mail.test"} if annotator == "7" else annotator
    dates = {"created_at": AT, "updated_at": AT}
    return {"id": 9, "completed_by": who, "was_cancelled": False, "result": result, "lead_time": time, **dates}


def with_left_out(values: Row) -> Row:
    """Of these tools, a form cannot hold an empty text: a claim that is left out is told by its own question."""
    left_out = values.get("revised_claim") == ""
    return {**values, "revised_claim": None, "left_out": "Yes"} if left_out else values


def items(name: str, to: str, values: Row, control: str | None = None) -> Iterator[Row]:
    value = values[name]
    if value is None:
        return
    kind = "choices" if name in (*LABELLED, "usefulness", "left_out") else "textarea"
    texts = value if isinstance(value, list) else [value]
    of_kind = {"choices": texts} if kind == "choices" else {"text": texts}
    yield {"id": "x", "from_name": control or name, "to_name": to, "type": kind, "value": of_kind, "origin": "manual"}


def fill_argilla(drawn: list[Task], said: Said) -> Filled:
    """What `records.to_list(flatten=True)` gives of both data sets; columns that a record lacks are null."""
    return [(flattened(json.loads(content), said), "labels.jsonl") for content in contents(drawn, "argilla")]


def flattened(records: list[Row], said: Said) -> bytes:
    flat_records = []
    for record in records:
        flat = {"id": record["id"], "status": "pending", **record["fields"], **record["metadata"]}
        for annotator, labelled in said.get(record["metadata"]["answer_id"], {}).items():
            for name, value in responses(record, labelled):
                for column, item in (("", value), (".users", annotator), (".status", "submitted")):
                    flat.setdefault(f"{name}.responses{column}", []).append(item)
        flat_records.append(flat)
    columns = dict.fromkeys(name for flat in flat_records for name in flat)
    return "\n".join(json.dumps({**dict.fromkeys(columns), **flat}) for flat in flat_records).encode()


def fill_old_argilla(drawn: list[Task], said: Said) -> Filled:
    """Flattened records of a data set that had one record an answer."""
    return [(flattened([old_record(task) for task in drawn], said), "labels.jsonl")]


def old_record(task: Task) -> Row:
    fields = dict(task.texts)
    for place, item in enumerate(task.items):
        fields |= {f"{name}_{place}": text for name, text in item.texts.items()}
    metadata = {"answer_id": task.id, **task.context}
    return {"id": task.id, "fields": fields, "metadata": metadata, "suggestions": {}, "responses": {}, "vectors": {}}


def responses(record: Row, labelled: Row) -> Iterator[tuple[str, str]]:
    """(question, value) of what is asked in a record: of an answer, of one claim, or, as it once was, of both."""
    values: Row = {name: labelled[name] for name in ("usefulness", "revised_answer")}
    if "claim_id" in record["metadata"]:
        values = with_left_out(labelled["claims"][int(record["id"].rpartition("#")[2])])
    elif "claim_0" in record["fields"]:
        for place, claimed in enumerate(labelled["claims"]):
            values |= {f"{name}_{place}": value for name, value in with_left_out(claimed).items()}
    for name, value in values.items():
        if value is not None:
            yield name, joined(value) if isinstance(value, list) else value


FILL: list[Callable[[list[Task], Said], Filled]] = [
    fill_jsonl,
    fill_csv,
    fill_plain_csv,
    fill_label_studio,
    fill_old_label_studio,
    fill_argilla,
    fill_old_argilla,
]
SOURCES = {"jsonl": "jsonl", "csv": "csv", "plain_csv": "csv", "label_studio": "label-studio", "argilla": "argilla"}

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(lambda text: text.strip())
WHOLE = TEXT.filter(lambda text: len(texts_of(text) or []) == 1 and texts_of(text) == [text])


def one_of(name: str) -> st.SearchStrategy[Any]:
    return st.none() | st.sampled_from(ratings(name))


OF_CLAIM = st.fixed_dictionaries(
    {
        **{name: one_of(name) for name in LABELLED},
        "reason_missing_support": st.none() | TEXT,
        "revised_claim": st.none() | st.just("") | TEXT,
        "revised_evidence": st.none() | st.lists(WHOLE, min_size=1, max_size=3),
    }
)


def of_answer(claims: int) -> st.SearchStrategy[Row]:
    return st.fixed_dictionaries(
        {
            "usefulness": st.sampled_from(ratings("usefulness")),
            "revised_answer": st.none() | TEXT,
            "annotation_time": st.none() | st.integers(0, 9_000).map(float),
            "claims": st.lists(OF_CLAIM, min_size=claims, max_size=claims),
        }
    )


SAID = st.fixed_dictionaries(
    {
        FIRST["answer_id"]: st.dictionaries(st.sampled_from(["7", "e1", "3f9c-11"]), of_answer(2), max_size=2),
        SECOND["answer_id"]: st.dictionaries(st.sampled_from(["7", "e1"]), of_answer(1), min_size=1, max_size=2),
    }
)


@pytest.mark.parametrize("fill", FILL, ids=lambda fill: fill.__name__)
@given(said=SAID)
def test_every_label_comes_back(fill: Callable[[list[Task], Said], Filled], said: Said) -> None:
    rows, rejected = merged(fill(made(), said), ANSWERS)
    assert {item.reason for item in rejected} <= {"not labelled", "no answer_id"}
    back = {(row["answer_id"], row["annotator_id"]): row for row in rows}
    given_labels = {(name, who): labelled for name, by in said.items() for who, labelled in by.items()}
    assert back.keys() == given_labels.keys()
    for key, labelled in given_labels.items():
        row = back[key]
        assert {name: row[name] for name in ("usefulness", "revised_answer")} == {
            name: labelled[name] for name in ("usefulness", "revised_answer")
        }
        if "argilla" not in fill.__name__ and "csv" not in fill.__name__:  # which keep no times
            assert row["annotation_time"] == labelled["annotation_time"]
        assert [{name: one[name] for name in CLAIM_PROPERTIES} for one in row["claims"]] == labelled["claims"]
        assert [one["claim_id"] for one in row["claims"]] == [item.id for item in ANSWERS[key[0]].items]
        assert row["label_id"] == f"{key[0]}/{key[1]}"
        assert {name: row[name] for name in ("question_id", "system")} == ANSWERS[key[0]].context
        assert row["source"] == SOURCES[fill.__name__.removeprefix("fill_").removeprefix("old_")]


@pytest.mark.parametrize("format", FORMATS)
def test_sheets_that_nobody_filled_in_are_filtered(format: Format) -> None:
    for content in contents(made(), format):
        rows, rejected = parsed(raw=content, path="sheets.csv" if "csv" in format else "sheets.jsonl")
        assert rows == []
        assert {(item.kind, item.reason) for item in rejected} == {("filtered", "not labelled")}
        assert {item.key.partition("/")[0] for item in rejected} == {*ANSWERS}


# ---------------------------------------------------------------- faults, in each format


def filled_sheet(**changes: Any) -> Row:
    (sheet,) = [json.loads(line) for line in contents(made(), "jsonl")[0].splitlines() if b'"a_q1' in line]
    return copy.deepcopy({**sheet, "usefulness": "Useful", **changes})


def task(*annotations: Row, **data: Any) -> Row:
    """An export of a task of an older configuration, with all claims of an answer."""
    (found,) = [old_task(each)["data"] for each in made() if each.id == A]
    return {"data": {**found, **data}, "annotations": list(annotations)}


def annotation(*result: Row, **changes: Any) -> Row:
    return {"completed_by": 7, "was_cancelled": False, "result": list(result), **changes}


def chosen(control: str, *values: str) -> Row:
    return {"from_name": control, "to_name": "x", "type": "choices", "value": {"choices": list(values)}}


def written(control: str, *values: str) -> Row:
    return {"from_name": control, "to_name": "x", "type": "textarea", "value": {"text": list(values)}}


def record(**answers: Any) -> Row:
    """A record of an older data set, with all claims of an answer; one user submitted it."""
    (found,) = [old_record(each) for each in made() if each.id == A]
    as_given = {name: [{"value": value, "user_id": "u"}] for name, value in answers.items()}
    return {**found, "responses": as_given, "status": "completed"}


PSEUDONYM = "a number or a pseudonym of at most 64 characters"


def with_claim(place: int = 0, **changes: Any) -> Row:
    sheet = filled_sheet()
    sheet["claims"][place] |= changes
    return sheet


@pytest.mark.parametrize(
    ("one", "reason", "detail"),
    [
        (filled_sheet(answer_id="a_none"), "unknown answer", None),
        (filled_sheet(answer_id=7), "no answer_id", None),
        (filled_sheet(annotator_id=None), "no annotator", None),
        (filled_sheet(annotator_id=True), "ill-formed annotator", PSEUDONYM),
        (filled_sheet(annotator_id="ann@mail.test"), "ill-formed annotator", PSEUDONYM),
        (filled_sheet(claims="none"), "ill-formed record", ": Input should be a valid list"),
        (filled_sheet(claims=[["a claim"]]), "ill-formed record", "0: Input should be a valid dictionary"),
        (filled_sheet(usefulness="Splendid"), "unknown label", f'usefulness "Splendid" of {A}'),
        (
            filled_sheet(usefulness=["Useful", "Useful"]),
            "unknown label",
            f'usefulness ["Useful", "Useful"] of {A}',
        ),
        (filled_sheet(revised_answer=7), "ill-formed revised_answer", A),
        (filled_sheet(annotation_time="long"), "ill-formed annotation_time", A),
        (filled_sheet(annotation_time=-5), "ill-formed annotation_time", A),
        (filled_sheet(annotation_time=10**30), "ill-formed annotation_time", A),
        (filled_sheet(labelled_at="yesterday"), "ill-formed labelled_at", '"yesterday"'),
        (filled_sheet(labelled_at=1_795_000_000), "ill-formed labelled_at", "1795000000"),
        (filled_sheet(usefullness="Useful"), "unknown key", f'"usefullness", perhaps "usefulness" of {A}'),
        (with_claim(1, suport="Complete"), "unknown key", f'"suport", perhaps "support" of {A}#1'),
        (with_claim(Support="Complete"), "unknown key", f'"Support", perhaps "support" of {A}#0'),
        (with_claim(claim_id=None), "ill-formed record", "0: Input should be a valid string"),
        (with_claim(claim_id="a_q1_gpt4#9"), "unknown claim", f"a_q1_gpt4#9 of {A}"),
        (with_claim(claim_id="a_q2_bing_chat#0"), "unknown claim", f"a_q2_bing_chat#0 of {A}"),
        (with_claim(claim_id="a_q1_gpt4#1"), "claim given twice", f"a_q1_gpt4#1 of {A}"),
        (with_claim(claim="Something else."), "the claim had another text", f"{A}#0"),
        (with_claim(1, support="Mostly"), "unknown label", f'support "Mostly" of {A}#1'),
        (with_claim(worthiness=True), "unknown label", f"worthiness true of {A}#0"),
        (with_claim(reason_missing_support=["x", "y"]), "ill-formed reason_missing_support", f"{A}#0"),
        (with_claim(revised_evidence=[7]), "ill-formed revised_evidence", f"{A}#0"),
        (with_claim(left_out="Yes", revised_claim="No!"), "revised_claim beside left_out Yes", f"{A}#0"),
        (task(annotation(chosen("usefulness", "Splendid"))), "unknown label", f'usefulness "Splendid" of {A}'),
        (task(annotation(chosen("support_1", "Mostly"))), "unknown label", f'support "Mostly" of {A}#1'),
        (task(annotation(chosen("support_2", "Partial"))), "unknown claim", f"2 of {A}"),
        (
            task(annotation(chosen("support_0", "Partial", "Complete"))),
            "unknown label",
            f'support ["Partial", "Complete"] of {A}#0',
        ),
        (
            task(annotation(chosen("support_0", "Partial"), chosen("support_0", "Partial"))),
            "a field given twice",
            "support_0",
        ),
        (task(annotation({"from_name": "support_0", "value": {}})), "ill-formed value", "support_0"),
        (task(annotation(chosen("suport_0", "Partial"))), "unknown key", '"suport_0", perhaps "support" of the form'),
        (task(annotation(chosen("support0", "Partial"))), "unknown key", '"support0", perhaps "support" of the form'),
        (
            task(annotation(chosen("usefulness", "Useful"), updated_at="yesterday")),
            "ill-formed updated_at",
            '"yesterday"',
        ),
        (
            task(annotation({"from_name": "support_0", "value": 7})),
            "ill-formed record",
            "result.0.value: Input should be a valid dictionary",
        ),
        (
            task(annotation(chosen("left_out_0", "Yes"), written("revised_claim_0", "No!"))),
            "revised_claim beside left_out Yes",
            f"{A}#0",
        ),
        (task(annotation(chosen("left_out_0", "Maybe"))), "unknown label", f'left_out "Maybe" of {A}#0'),
        (task(annotation(chosen("support_0", "Partial"), completed_by=None)), "no annotator", None),
        (task(annotation(result="none")), "ill-formed record", "result: Input should be a valid list"),
        (task({"completed_by": 7}), "ill-formed record", "result: Field required"),
        (task(annotation(chosen("support_0", "Partial")), answer_id="a_none"), "unknown answer", None),
        (task(annotation(), answer_id=None), "no answer_id", None),
        (task(annotation(), claims="none"), "ill-formed record", ": Input should be a valid list"),
        ({**task(), "annotations": None}, "ill-formed record", "annotations: Input should be a valid list"),
        ({**task(), "data": 7}, "no answer_id", None),
        (task(annotation(chosen("support", "Partial"))), "unknown key", '"support", perhaps "support" of the form'),
        (record(support_1="Mostly"), "unknown label", f'support "Mostly" of {A}#1'),
        (record(support_2="Partial"), "unknown claim", f"2 of {A}"),
        (record(suport_0="Partial"), "unknown key", '"suport_0", perhaps "support" of the form'),
        ({**record(), "responses": ["Useful"]}, "ill-formed record", ": Input should be a valid dictionary"),
        (
            {**record(), "responses": {"usefulness": "Useful"}},
            "ill-formed record",
            "usefulness: Input should be a valid list",
        ),
        (
            {**record(), "responses": {"usefulness": [{"value": "Useful", "user_id": "u"}] * 2}},
            "a field given twice",
            "usefulness",
        ),
        ({**record(), "responses": {"usefulness": [{"value": "Useful"}]}}, "no annotator", None),
        ({"id": A, "support_0.responses": ["Partial"]}, "ill-formed record", "user_id: Input should be a valid list"),
        (
            {"id": A, "support_0.responses": 7, "support_0.responses.users": ["u"]},
            "ill-formed record",
            "value: Input should be a valid list",
        ),
        (
            {"id": A, "support_0.responses": ["Partial"], "support_0.responses.users": []},
            "ill-formed responses",
            "support_0.responses",
        ),
        ({"id": 7, "support_0.responses": None}, "no answer_id", None),
        ({"answer": "none"}, "no answer_id", None),
        (
            {**task()["data"], "usefulness": "Useful", "support_0": "Partial", "annotator": 7, "annotation_id": 1},
            "Label Studio's CSV or JSON-MIN: export JSON",
            None,
        ),
        (["a list"], "no record", None),
        (7, "no record", None),
    ],
)
def test_a_record_with_a_fault_is_rejected_with_its_reason_and_the_next_one_is_read(
    one: Any, reason: str, detail: str | None
) -> None:
    rows, rejected = parsed({"first": 1}, one, filled_sheet(annotator_id="another"))
    assert rows[-1]["annotator_id"] == "another"
    assert all("useful" in str(row["usefulness"]).lower() for row in rows[:-1]), "what is right of it is kept"
    assert [(item.kind, item.reason, item.detail) for item in rejected[1:]] == [("defect", reason, detail)]
    assert (rejected[1].raw is None or rejected[1].raw == "") == (reason == "ill-formed annotator")


def test_what_is_no_label_of_a_sheet_costs_no_other_and_is_named() -> None:
    sheet = filled_sheet(usefulness="Superb", annotation_time=7)
    sheet["claims"][0] |= {"support": "Bogus", "reliability": 4, "correctness": "Unsure", "revised_claim": "Better."}
    sheet["claims"][1] |= {"worthiness": "No", "revised_evidence": 7}
    (row,), rejected = parsed(sheet)
    assert (row["usefulness"], row["annotation_time"]) == (None, 7.0)
    first, second = row["claims"]
    assert first == {**EMPTY, "claim_id": f"{A}#0", "correctness": "Unsure", "revised_claim": "Better."}
    assert second == {**EMPTY, "claim_id": f"{A}#1", "worthiness": "No"}
    assert [(item.reason, item.detail) for item in rejected] == [
        ("unknown label", f'usefulness "Superb" of {A}'),
        ("unknown label", f'support "Bogus" of {A}#0'),
        ("unknown label", f"reliability 4 of {A}#0"),
        ("ill-formed revised_evidence", f"{A}#1"),
    ]


def faulty(kind: str) -> Row:
    """A sheet with labels of the answer and of both claims, in which one thing is wrong with the first claim."""
    sheet = filled_sheet(labelled_at="yesterday" if kind == "date" else "2026-11-21")
    for one in sheet["claims"]:
        one |= {"support": "Complete", "worthiness": "Yes"}
    first = sheet["claims"][0]
    if kind == "key":
        first["suport"] = first.pop("support")
    elif kind == "twice":
        sheet["claims"] = [first, {**first, "support": "Missing"}, sheet["claims"][1]]
    elif kind != "date":
        first |= {"text": {"claim": "Something else."}, "unknown": {"claim_id": "a_q2_bing_chat#0"}}[kind]
    return sheet


@pytest.mark.parametrize(
    ("kind", "reason", "support", "worthiness"),
    [
        ("text", "the claim had another text", None, None),
        ("unknown", "unknown claim", None, None),
        ("twice", "claim given twice", None, None),
        ("key", "unknown key", None, "Yes"),
        ("date", "ill-formed labelled_at", "Complete", "Yes"),
    ],
)
def test_a_fault_in_a_json_sheet_costs_what_it_concerns_alone(
    kind: str, reason: str, support: str | None, worthiness: str | None
) -> None:
    (row,), (rejected,) = parsed(faulty(kind))
    first, second = row["claims"]
    assert rejected.reason == reason
    assert (first["support"], first["worthiness"]) == (support, worthiness)
    assert (row["usefulness"], second["support"], second["worthiness"]) == ("Useful", "Complete", "Yes")
    assert (row["labelled_at"] is None) == (kind == "date")


def test_a_control_that_cannot_be_read_costs_no_other_control() -> None:
    read = chosen("usefulness", "Useful")
    for unread, reason in (
        ([chosen("suport_0", "Partial")], "unknown key"),
        ([chosen("support_0", "Partial")] * 2, "a field given twice"),
        ([{"from_name": "support_0", "value": {}}], "ill-formed value"),
    ):
        (row,), (rejected,) = parsed(task(annotation(*unread, read)))
        assert (row["usefulness"], row["claims"][0]["support"], rejected.reason) == ("Useful", None, reason)


def rows_of_csv(*usefulness: str, dates: tuple[str, ...] = ("", "")) -> bytes:
    """A row for each claim of the first answer, each of which says how useful the whole answer is."""
    lines = [
        f"{A},{A}#{place},e1,{word},Complete,{date}"
        for place, (word, date) in enumerate(zip(usefulness, dates, strict=True))
    ]
    return "\n".join(["answer_id,claim_id,annotator_id,usefulness,support,labelled_at", *lines]).encode()


def test_rows_of_an_answer_that_contradict_each_other_are_told() -> None:
    (row,), (rejected,) = parsed(raw=rows_of_csv("Useful", "Not useful at all"), path="labels.csv")
    assert (row["usefulness"], [one["support"] for one in row["claims"]]) == ("Useful", ["Complete"] * 2)
    detail = f'usefulness "Not useful at all" of {A}'
    assert (rejected.kind, rejected.reason, rejected.detail) == ("defect", "another value in an earlier row", detail)
    dated = rows_of_csv("Useful", "Not useful at all", dates=("2026-11-21", "2026-11-22"))
    for content, word in ((rows_of_csv("Useful", "USEFUL"), "Useful"), (dated, "Not useful at all")):
        (row,), rejected_rows = parsed(raw=content, path="labels.csv")
        assert (row["usefulness"], rejected_rows) == (word, [])


def test_a_claim_left_out_and_revised_is_told_before_a_build_and_keeps_its_labels() -> None:
    sheet = with_claim(support="Complete", left_out="Yes", revised_claim="No!")
    read = labellings(FORM, read_records(FORM, iter([json.dumps(sheet).encode()]), "labels.jsonl"))
    rejected, kept = check_all(FORM, read, ANSWERS, {})
    assert isinstance(rejected, Rejected)
    assert rejected.reason == "revised_claim beside left_out Yes"
    assert not isinstance(kept, Rejected)
    assert {name for item, name in kept.values if item} == {"support"}


def test_a_single_choice_that_a_tool_writes_as_a_list_is_its_text(tmp_path: Path) -> None:
    one = answer("q1")
    choices = annotation(chosen("usefulness", "Not useful at all"))
    exported = {"data": {"answer_id": one["answer_id"]}, "annotations": [choices]}
    (row,), _, _ = collected(tmp_path, [one], [], json.dumps([exported]).encode())
    assert (row["usefulness"], row["usefulness_said_as"], row["source"]) == ("Not useful at all", None, "label-studio")
    (row,), _ = parsed(task(annotation(chosen("usefulness", "USEFUL"), chosen("support_0", "Complete"))))
    assert (row["usefulness_said_as"], row["claims"][0]["said_as"]) == ("USEFUL", None)


def test_spellings_are_ours_and_the_word_written_is_kept() -> None:
    (row,), _ = parsed(with_claim(support="complete ", reliability="Somewhat Reliable"))
    assert (row["claims"][0]["support"], row["claims"][0]["reliability"]) == ("Complete", "Somewhat reliable")
    assert json.loads(row["claims"][0]["said_as"]) == {"reliability": "Somewhat Reliable", "support": "complete "}
    (answer,), _ = parsed(filled_sheet(usefulness="USEFUL"))
    assert (answer["usefulness"], answer["usefulness_said_as"]) == ("Useful", "USEFUL")
    assert row["usefulness_said_as"] is None
    assert row["claims"][1] == {"claim_id": f"{A}#1", **EMPTY}


def test_claims_may_come_in_any_order_and_some_may_be_missing() -> None:
    sheet = filled_sheet()
    sheet["claims"] = [{"claim_id": f"{A}#1", "correctness": "Unsure"}]
    (row,), _ = parsed(sheet)
    assert [(one["claim_id"], one["correctness"]) for one in row["claims"]] == [(f"{A}#0", None), (f"{A}#1", "Unsure")]


def test_keys_that_say_nothing_and_questions_of_ones_own_are_left_alone() -> None:
    rows, rejected = parsed(
        filled_sheet(notes=None, comment="Well put.", system="gpt4"),
        task(annotation(chosen("usefulness", "Useful"), written("correctness_note", "Fine."), chosen("sure", "Yes"))),
        task(annotation(chosen("usefulness", "Useful"), written("question", "Why so?"), completed_by=8)),
        record(usefulness="Useful", comment="Fine."),
    )
    assert [row["annotator_id"] for row in rows] == ["e1", "7", "8", "u"]
    assert rejected == []


def test_claims_that_a_filled_in_sheet_does_not_have_are_counted() -> None:
    """FIRST has two claims, SECOND one; a sheet that is rejected or says nothing counts none."""
    whole, one, none = filled_sheet(), filled_sheet(annotator_id="a"), filled_sheet(annotator_id="b", claims=[])
    one["claims"] = one["claims"][1:]
    shorter = task(annotation(chosen("usefulness", "Useful")), claims=task()["data"]["claims"][:1])
    empty, wrong = filled_sheet(usefulness=None, claims=[]), filled_sheet(usefulness="Splendid", claims=[])
    unshown = record(usefulness="Useful", correctness_1="Unsure")
    unshown["fields"] = {"question": "Why?"}
    for given_records, expected in (
        ([whole, record(usefulness="Useful")], 0),
        ([one], 1),
        ([none], 2),
        ([whole, one, none, shorter, empty, wrong, unshown], 1 + 2 + 1 + 1),
    ):
        counts: Counter[str] = Counter()
        parsed(*given_records, count=lambda name, number, to=counts: to.update({name: number}))
        assert counts["claims left out of a sheet"] == expected


@pytest.mark.parametrize("fill", [fill_label_studio, fill_argilla])
def test_a_tools_file_of_answers_has_no_claims_to_leave_out(fill: Callable[[list[Task], Said], Filled]) -> None:
    labelled = {"usefulness": "Useful", "revised_answer": None, "annotation_time": None}
    said = {A: {"e1": {**labelled, "claims": [{**EMPTY, "support": "Complete"}] * 2}}}
    answers, claims = fill(made(), said)
    for (content, path), expected in ((answers, 0), (claims, 0)):
        counts: Counter[str] = Counter()
        rows, _ = parsed(raw=content, path=path, count=lambda name, number, to=counts: to.update({name: number}))
        assert (len(rows), counts["claims left out of a sheet"]) == (1, expected)


def test_folded_white_space_is_no_other_text() -> None:
    rows, rejected = parsed(with_claim(claim=" One\n claim. "))
    assert (len(rows), rejected) == (1, [])


def test_one_text_of_evidence_is_divided_by_lines_of_dashes() -> None:
    (row,), _ = parsed(with_claim(revised_evidence="https://a.example\n---\nTwo\nlines\n ---\n\n"))
    assert row["claims"][0]["revised_evidence"] == ["https://a.example", "Two\nlines"]


@pytest.mark.parametrize("status", ["completed", "pending", None])
def test_nested_records_count_where_their_only_user_must_have_submitted(status: str | None) -> None:
    """Argilla's nested writers (`records.to_json`, `to_disk`) do not say which responses are drafts or discarded."""
    one = record(usefulness="Useful") | {"status": status}
    two = copy.deepcopy(one)
    two["responses"]["usefulness"].append({"value": "Not useful at all", "user_id": "v"})
    rows, rejected = parsed(one, two)
    assert [row["annotator_id"] for row in rows] == (["u"] if status == "completed" else [])
    assert {(item.kind, item.reason) for item in rejected} == {("filtered", argilla.UNKNOWN_STATE)}
    assert len(rejected) == (2 if status == "completed" else 3)


def test_flattened_records_without_states_are_left_out() -> None:
    flat = {"id": A, "usefulness.responses": ["Useful"], "usefulness.responses.users": ["u"]}
    for states in ({}, {"usefulness.responses.status": None}, {"usefulness.responses.status": [None]}):
        rows, rejected = parsed({**flat, **states})
        assert (rows, [item.reason for item in rejected]) == ([], [argilla.UNKNOWN_STATE])


def test_skipped_tasks_drafts_and_discarded_responses_do_not_count() -> None:
    skipped = task(annotation(chosen("support_0", "Partial"), was_cancelled=True), annotation(completed_by=8))
    flat = {"id": A, "usefulness.responses": ["Useful"] * 3, "usefulness.responses.users": ["u", "v", "w"]}
    flat["usefulness.responses.status"] = ["draft", "discarded", "submitted"]
    rows, rejected = parsed(skipped, flat)
    assert [row["label_id"] for row in rows] == [f"{A}/w"]
    assert {(item.key, item.kind, item.reason) for item in rejected} == {
        (f"{A}/7", "filtered", "skipped by its annotator"),
        (f"{A}/8", "filtered", "not labelled"),
        (f"{A}/u", "filtered", "draft by its annotator"),
        (f"{A}/v", "filtered", "discarded by its annotator"),
    }


def test_controls_that_are_none_of_ours_are_left_alone() -> None:
    relation = {"type": "relation", "from_id": "x", "to_id": "y"}
    (row,), rejected = parsed(task(annotation(chosen("usefulness", "Useful"), written("comment", "Fine."), relation)))
    assert (row["usefulness"], rejected) == ("Useful", [])


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ("2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z", "Not useful at all"),
        ("2026-11-21T11:00:00Z", "2026-11-21T10:00:00Z", "Useful"),
        ("2026-11-21T11:00:00+02:00", "2026-11-21T10:00:00", "Not useful at all"),
        ("2026-11-21", "2026-11-21", "Useful"),
        (None, "2026-11-21", "Useful"),
        (None, None, "Useful"),
    ],
)
def test_of_two_labellings_by_one_annotator_the_later_counts_if_both_are_dated(
    first: str | None, second: str | None, kept: str
) -> None:
    (row,), (superseded,) = parsed(
        filled_sheet(labelled_at=first), filled_sheet(labelled_at=second, usefulness="Not useful at all")
    )
    assert row["usefulness"] == kept
    assert (superseded.key, superseded.kind) == (f"{A}/e1", "filtered")


def test_a_superseded_sheet_adds_no_time_also_if_nobody_labelled_some_claim() -> None:
    first, second = (
        filled_sheet(usefulness=None, labelled_at=f"2026-11-2{day}", annotation_time=day) for day in (1, 2)
    )
    assert len(first["claims"]) > 1
    first["claims"][0]["support"], second["claims"][0]["support"] = "Complete", "Missing"
    (row,), (superseded,) = parsed(first, second)
    assert [claim["support"] for claim in row["claims"]] == ["Missing"] + [None] * (len(row["claims"]) - 1)
    assert (row["annotation_time"], superseded.kind) == (2, "filtered")


# ---------------------------------------------------------------- files


def test_unreadable_lines_are_rejected_one_by_one() -> None:
    good = json.dumps(filled_sheet()).encode()
    rows, rejected = parsed(raw=b'{"answer_id": \n\n' + good + b"\n\xff\xfe\n" + b"[" * 9_000)
    assert len(rows) == 1
    assert [(item.key, item.reason) for item in rejected] == [
        ("line 1", "unreadable line"),
        ("line 4", "unreadable line"),
        ("line 5", "unreadable line"),
    ]


@pytest.mark.parametrize("content", [b'[{"answer_id": "a"}', b"[" * 9_000, b"[NaN]", b"\n \n", b"[1][2]"])
def test_a_file_that_is_no_json_array_and_no_lines_is_a_source_error(content: bytes) -> None:
    with pytest.raises(SourceError, match=r"labels\.jsonl"):
        parsed(raw=content)


def test_an_array_over_the_limit_is_refused() -> None:
    with pytest.raises(SourceError, match="cut it"):
        list(files._of_array([b"[1,", b"2,", b"3,", b"4,", b"5]"], "labels.json", most_bytes=10))


@given(
    st.binary(max_size=60)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "answer_id",
                        "claims",
                        "claim_id",
                        "data",
                        "annotations",
                        "result",
                        "fields",
                        "responses",
                        "id",
                        "value",
                        "from_name",
                        "x.responses",
                        "x.responses.users",
                        "metadata",
                    ]
                ),
                inner,
            )
        ),
        max_leaves=12,
    ).map(lambda document: json.dumps(document).encode())
)
def test_whatever_a_file_holds_it_is_rows_rejected_rows_or_a_source_error(content: bytes) -> None:
    try:
        rows, _ = parsed(raw=content)
    except SourceError:
        return
    assert rows == []


def test_settings_of_argilla_are_no_labels(tmp_path: Path) -> None:
    for name, content in sheet_files(FORM, made(), "argilla").items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_bytes(content)
    found = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {one.path for one in open_labels(found, sha256_of, accounts={})} == {
        str(path) for path in found if path.name == "records.json"
    }


def test_a_sheet_of_an_answer_that_is_no_longer_sampled_says_so() -> None:
    unsampled = {name: Task(name, context=task.context) for name, task in ANSWERS.items()}
    _, (found,) = parsed(filled_sheet(), known=unsampled)
    assert (found.kind, found.reason) == ("defect", "answer not drawn, or without claims")


def test_files_are_found_in_folders_plain_and_packed(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}")
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(b"[]"))
    (tmp_path / "notes.txt").write_text("no labels")
    found = open_labels([tmp_path], sha256_of, accounts={})
    assert [(Path(one.path).name, one.group) for one in found] == [("a.jsonl", "expertqa"), ("b.json.gz", "expertqa")]


# ---------------------------------------------------------------- stages


def released(**changes: Any) -> tuple[Row, list[Row]]:
    """A released answer with one claim, and that claim."""
    of_claim = {"claim_string": "One claim.", "evidence": [], "support": "Complete", "correctness": "Unsure", **changes}
    of_one = {"usefulness": "Useful", "annotator_id": "e1", "claims": None}
    one = answer("q1", kind="released", original=json.dumps(of_one), claims=json.dumps([of_claim]))
    return one, [claim(one, 0, "One claim.", original=json.dumps(of_claim))]


def collected(tmp_path: Path, answers: list[Row], claims: list[Row], *files: bytes) -> tuple[list[Row], Any, Any]:
    """Rows of labels, what was rejected while collecting and while reading; from files of labels."""
    paths = [tmp_path / f"{number}.jsonl" for number in range(len(files))]
    for path, content in zip(paths, files, strict=True):
        path.write_bytes(content)
    names = dict.fromkeys(one["question_id"].removeprefix("expertqa/") for one in answers)
    with building(tmp_path / "home") as run:
        asked = read_questions(run, [toy_source(tmp_path, 2)], rows=[question(name) for name in names])
        told = collect_answers(run, asked, rows=answers)
        split = link_cited_pages(run, told, rows=claims)
        given_labels = labels.read_labels(run, open_labels(paths, sha256_of, accounts={}), split, told)
        made = labels.collect_labels(run, told, split, given_labels)
    return list(made), rejected_of(made), rejected_of(given_labels)


def test_given_and_released_labels_stand_side_by_side_by_annotator(tmp_path: Path) -> None:
    one, claims = released()
    two, three = answer("q2"), answer("q3")
    sheet = {"answer_id": one["answer_id"], "annotator_id": "d4", "usefulness": "Not useful at all", "claims": []}
    content = b"\n".join(
        json.dumps(line).encode()
        for line in (sheet, {**sheet, "answer_id": "a_none"}, {**sheet, "answer_id": two["answer_id"]})
    )
    rows, rejected, unread = collected(tmp_path, [one, two, three], claims, content)
    assert [
        (row["label_id"], row["source"], row["usefulness"]) for row in sorted(rows, key=lambda row: row["label_id"])
    ] == [
        ("a_q1_gpt4/d4", "jsonl", "Not useful at all"),
        ("a_q1_gpt4/e1", "released", "Useful"),
        ("a_q2_gpt4/d4", "jsonl", "Not useful at all"),
    ]
    assert rejected == {"a_q3_gpt4": ("filtered", "not labelled")}
    assert unread == {"a_none/d4": ("defect", "unknown answer")}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"answer_id": \n[1]\n"\xff"', "unreadable line: 2, no record: 1"),
        (b'{"answer_id": "a_none", "annotator_id": "e1", "usefulness": "Useful"}', "unknown answer: 1"),
        (b'{"answer_id": "a_q1_gpt4", "annotator_id": "e1", "usefulness": null}', "not labelled: 1"),
    ],
)
def test_a_file_that_yields_no_label_stops_the_build(tmp_path: Path, content: bytes, why: str) -> None:
    one, claims = released()
    with pytest.raises(
        SourceError, match=rf"0\.jsonl yields no label \({why}\).*must hold labels.*: give the filled-in"
    ):
        collected(tmp_path, [one], claims, content)


def test_given_labels_win_over_released_ones_of_the_same_annotator(tmp_path: Path) -> None:
    one, claims = released()
    sheet = {"answer_id": one["answer_id"], "annotator_id": "e1", "usefulness": "Partially useful", "claims": []}
    rows, rejected, _ = collected(tmp_path, [one], claims, json.dumps(sheet).encode())
    assert [(row["source"], row["usefulness"]) for row in rows] == [("jsonl", "Partially useful")]
    assert rejected == {}


def test_of_labels_in_two_files_the_latest_counts(tmp_path: Path) -> None:
    one = answer("q1")
    sheet = {"answer_id": one["answer_id"], "annotator_id": "e1", "claims": []}
    new = {**sheet, "usefulness": "Useful", "labelled_at": "2026-11-22T10:00:00Z"}
    old = {**sheet, "usefulness": "Not useful at all", "labelled_at": "2026-11-21T10:00:00Z"}
    for number, both in enumerate(((new, old), (old, new))):
        folder = tmp_path / str(number)
        folder.mkdir()
        rows, _, _ = collected(folder, [one], [], *(json.dumps(each).encode() for each in both))
        assert [row["usefulness"] for row in rows] == ["Useful"]
        assert rows[0]["labelled_at"].isoformat() == "2026-11-22T10:00:00+00:00"


def test_a_released_label_outside_the_known_ones_is_rejected_and_the_others_stand(tmp_path: Path) -> None:
    one, claims = released(support="Mostly")
    rows, rejected, _ = collected(tmp_path, [one], claims)
    (row,) = rows
    assert (row["usefulness"], row["claims"][0]["support"], row["claims"][0]["correctness"]) == (
        "Useful",
        None,
        "Unsure",
    )
    assert rejected == {one["answer_id"]: ("defect", "unknown label")}


def test_a_released_answer_without_a_label_is_not_labelled(tmp_path: Path) -> None:
    one = answer("q1", kind="released", original='{"usefulness": null}')
    rows, rejected, _ = collected(tmp_path, [one], [])
    assert (rows, rejected) == ([], {one["answer_id"]: ("filtered", "not labelled")})


@pytest.mark.parametrize("fill", FILL, ids=lambda fill: fill.__name__)
def test_the_released_labels_survive_every_format(fill: Callable[[list[Task], Said], Filled]) -> None:
    if not RELEASED.exists():
        pytest.skip("the released file is not beside the project")
    from tasks.expertqa.answers.released import claim_labels

    answers, claims, said = [], [], {}
    for number, line in enumerate(RELEASED.read_text().splitlines()):
        ((system, given_answer),) = json.loads(line)["answers"].items()
        one = answer(f"q{number}", system, text=given_answer["answer_string"])
        own = [claim(one, place, each["claim_string"]) for place, each in enumerate(given_answer["claims"])]
        found = [claim_labels(row["claim_id"], each, []) for row, each in zip(own, given_answer["claims"], strict=True)]
        labelled = {
            "usefulness": given_answer["usefulness"],
            "revised_answer": given_answer["revised_answer_string"] or None,
            "annotation_time": float(given_answer["annotation_time"]),
            "claims": [_as_sheets_say_it(each) for each in found],
        }
        answers, claims, said = [*answers, one], [*claims, *own], {**said, one["answer_id"]: {"e1": labelled}}
    asked = [question(f"q{number}") for number in range(len(answers))]
    drawn = arranged(FORM, tasks(asked, answers, claims), 0)
    rows, rejected = merged(fill(drawn, said), known_of(answers, claims))
    assert {item.reason for item in rejected} <= {"not labelled"}
    assert len(rows) == 217
    for row in rows:
        labelled = said[row["answer_id"]]["e1"]
        assert (row["usefulness"], row["revised_answer"]) == (labelled["usefulness"], labelled["revised_answer"])
        assert [{name: one[name] for name in CLAIM_PROPERTIES} for one in row["claims"]] == labelled["claims"]
    assert sum(len(row["claims"]) for row in rows) == 1237


def _as_sheets_say_it(found: Row) -> Row:
    """White space alone says nothing; as a revised claim it leaves the claim out."""
    said = {name: found[name] for name in CLAIM_PROPERTIES}
    texts = [text for each in found["revised_evidence"] or [] for text in texts_of(each) or []]
    reason, revised = found["reason_missing_support"] or "", found["revised_claim"]
    said |= {"reason_missing_support": reason if reason.strip() else None, "revised_evidence": texts or None}
    return said | {"revised_claim": revised if revised is None or revised.strip() else ""}
