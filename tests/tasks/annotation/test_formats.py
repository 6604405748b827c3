"""Sheets of a form with every kind of field: round trips of hostile text, what is hidden, and what both tools say."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from http_server import Answer, serve
from hypothesis import given
from hypothesis import strategies as st

from longform.artifacts.rows import Rejected, Row, Shard
from longform.errors import SourceError
from longform.files import sha256_of
from tasks.annotation.argilla import UNKNOWN_STATE
from tasks.annotation.files import FORMATS, Format, labellings, open_sheets, read_file, read_records, sheet_files
from tasks.annotation.form import Field, Form, Item, Shown, Task, arranged
from tasks.annotation.labelling import WHOLE, Checked, Labelling, check_all
from tasks.annotation.labels import table
from tasks.annotation.sheets import MARK
from tasks.annotation.values import joined
from tasks.sources.files.csv_cells import as_meant, harmless

FORM = Form(
    name="toys",
    guidance="Judge <both> & every step.",
    key="pair_id",
    annotator="annotator",
    context=("source_id",),
    shown=(
        Shown("question"),
        Shown("text_a"),
        Shown("text_b"),
        Shown("step", of_item=True),
        Shown("earlier_labels", required=False, seen_by="adjudicator"),
    ),
    items="steps",
    item_key="step_id",
    fields=(
        Field("better", "Which is better?", "pairwise", required=True),
        Field("fluency_a", "Fluency of A", "number", scale=(1, 5)),
        Field("fluency_b", "Fluency of B", "number", scale=(1, 5)),
        Field("topics", "Topics", "choices", ("Tea & milk", "<Beer>", "Water"), guidance="All that fit."),
        Field("remark", "Anything else", "text"),
        Field("verdict", "Is the step right?", "choice", ("Right", "Wrong"), of_item=True, required=True),
        Field("share", "Share that is right", "number", of_item=True),
        Field("corrections", "Corrections", "texts", of_item=True),
        Field("final", "The final word", "choice", ("Yes", "No"), seen_by="adjudicator"),
    ),
)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00\r"), min_size=1, max_size=20)
HOSTILE = st.sampled_from(
    [
        '=HYPERLINK("http://x.example")',
        "'=1+1",
        "+1",
        "@a",
        "-2\n---\n3",
        '</Text><Choice value="x"/>',
        "$question",
        "\t",
    ]
)
FREE = (TEXT | HOSTILE).filter(lambda text: bool(text.strip()))
LINE = FREE.filter(lambda text: "---" not in text)


def task(name: str = "p1", first: str = "One.", second: str = "Two.", steps: tuple[str, ...] = ("s1", "s2")) -> Task:
    items = tuple(Item(step, {"step": f"Step {step} of {name}"}) for step in steps)
    texts = {"question": "Why?", "text_a": first, "text_b": second, "earlier_labels": "secret"}
    return Task(name, texts, items, {"source_id": "src"}, group=name)


TASKS = [task("p1", "One.", "Two."), task("p2", "Three.", "Four.")]
KNOWN = {each.id: each for each in TASKS}

WHOLE_SAID = st.fixed_dictionaries(
    {"better": st.sampled_from(["A", "B", "neither"])},
    optional={
        "fluency_a": st.integers(1, 5),
        "topics": st.lists(st.sampled_from(["Tea & milk", "<Beer>", "Water"]), min_size=1, unique=True),
        "remark": FREE,
    },
)
STEP_SAID = st.fixed_dictionaries(
    {"verdict": st.sampled_from(["Right", "Wrong"])},
    optional={"share": st.integers(-9, 9) | st.just(0.25), "corrections": st.lists(LINE, min_size=1, max_size=3)},
)
SAID = st.fixed_dictionaries({WHOLE: WHOLE_SAID, "s1": STEP_SAID, "s2": STEP_SAID})


def read(content: bytes, path: str, accounts: dict[str, str] | None = None) -> tuple[list[Checked], list[Rejected]]:
    lines = iter(content.removeprefix(MARK.encode()).split(b"\n"))
    found = list(check_all(FORM, labellings(FORM, read_records(FORM, lines, path)), KNOWN, accounts or {}))
    return [one for one in found if isinstance(one, Checked)], [one for one in found if isinstance(one, Rejected)]


# ---------------------------------------------------------------- round trips


def filled(drawn: list[Task], format: Format, said: dict[str, Row]) -> Iterator[tuple[bytes, str]]:
    """The files of a format in which ann labelled the first task."""
    files = sheet_files(FORM, drawn, format)
    if format == "jsonl":
        sheet = json.loads(files["sheets.jsonl"].splitlines()[0]) | said[WHOLE] | {"annotator": "ann"}
        sheet["steps"] = [{**step, **said[step["step_id"]]} for step in sheet["steps"]]
        yield json.dumps(sheet).encode(), "a.jsonl"
    elif "csv" in format:
        rows = list(csv.DictReader(io.StringIO(files["sheets.csv"].decode("utf-8-sig"), newline="")))
        written = io.StringIO(newline="")
        lines = csv.DictWriter(written, rows[0].keys())
        lines.writeheader()
        for place, row in enumerate(rows[:2]):
            cells = {**(said[WHOLE] if not place else {}), **said[row["step_id"]]}
            texts = {name: joined(cell) if isinstance(cell, list) else str(cell) for name, cell in cells.items()}
            safe = {name: harmless(cell) for name, cell in texts.items()} if format == "csv" else texts
            lines.writerow({**row, **safe, "annotator": "ann"})
        yield written.getvalue().encode(), "a.csv"
    else:
        for part in ("pairs", "steps"):
            name = "tasks" if format == "label-studio" else "records"
            records = json.loads(files[f"{part}/{name}.json"])[: 1 if part == "pairs" else 2]
            yield json.dumps([answered(record, format, said) for record in records]).encode(), "a.json"


def answered(record: Row, format: Format, said: dict[str, Row]) -> Row:
    ids = record["data"] if format == "label-studio" else record["metadata"]
    values = said[ids.get("step_id", WHOLE)]
    if format == "argilla":
        texts = {name: joined(value) if isinstance(value, list) else value for name, value in values.items()}
        texts |= {name: value for name, value in values.items() if name == "topics"}
        texts |= {name: str(value) for name, value in values.items() if name == "share"}
        given = {name: [{"value": value, "user_id": "ann"}] for name, value in texts.items()}
        return {**record, "responses": given, "status": "completed"}
    result = []
    for name, value in values.items():
        (kind,) = (field.kind for field in FORM.fields if field.name == name)
        of_kind = {"number": "number", "text": "text", "texts": "text"}.get(kind, "choices")
        listed = value if isinstance(value, list) or of_kind == "number" else [value]
        result.append({"from_name": name, "to_name": "step", "type": of_kind, "value": {of_kind: listed}})
    return {**record, "annotations": [{"completed_by": "ann", "result": result}]}


@pytest.mark.parametrize("format", FORMATS)
@given(said=SAID)
def test_whatever_is_filled_in_comes_back(format: Format, said: dict[str, Row]) -> None:
    back: Row = {}
    for content, path in filled(TASKS, format, said):
        found, rejected = read(content, path)
        assert rejected == []
        for each in found:
            assert (each.task.id, each.annotator, each.swapped) == ("p1", "ann", False)
            back |= each.values
    assert back == {(item, name): value for item, values in said.items() for name, value in values.items()}


@given(st.text() | st.from_regex(r"'{0,3}\s?[=+\-@\t\r].*"))
def test_no_cell_is_a_formula_and_every_text_comes_back(text: str) -> None:
    cell = harmless(text)
    assert not cell.startswith(("\t", "\r"))
    assert not cell.lstrip().startswith(("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"))
    assert as_meant(cell) == text


@given(text=FREE)
def test_texts_that_are_shown_are_data_in_every_file(text: str) -> None:
    shown = task("p1", text, "Two.")
    files = {format: sheet_files(FORM, [shown], format) for format in FORMATS}
    safe = csv.DictReader(io.StringIO(files["csv"]["sheets.csv"].decode("utf-8-sig"), newline=""))
    plain = csv.DictReader(io.StringIO(files["plain-csv"]["sheets.csv"].decode(), newline=""))
    assert {row["text_a"] for row in safe} == {harmless(text)}
    assert {row["text_a"] for row in plain} == {text}
    assert json.loads(files["jsonl"]["sheets.jsonl"])["text_a"] == text
    assert json.loads(files["label-studio"]["steps/tasks.json"])[0]["data"]["text_a"] == text
    assert files["label-studio"]["steps/config.xml"] == sheet_files(FORM, [], "label-studio")["steps/config.xml"]
    assert json.loads(files["argilla"]["pairs/records.json"])[0]["fields"]["text_a"] == text


# ---------------------------------------------------------------- what an annotator sees


@pytest.mark.parametrize("format", FORMATS)
def test_what_an_adjudicator_may_see_is_in_no_file_and_neither_is_the_seed(format: Format) -> None:
    for content in sheet_files(FORM, arranged(FORM, TASKS, 4711), format).values():
        for word in ("secret", "earlier_labels", "The final word", "final", "4711", "swapped", "order"):
            assert word not in content.decode()


def test_each_role_sees_what_those_before_it_see() -> None:
    names = {role: set(FORM.seen_by(role).belongs_to_items()) for role in ("annotator", "expert", "adjudicator")}
    assert names["annotator"] == names["expert"]
    assert names["adjudicator"] - names["annotator"] == {"earlier_labels", "final"}


def test_the_seed_draws_order_of_tasks_order_of_items_and_sides() -> None:
    tasks = [task(f"p{n}", f"one {n}", f"two {n}", tuple(f"{n}-{k}" for k in range(6))) for n in range(200)]
    found = {seed: arranged(FORM, tasks, seed) for seed in (0, 1)}
    for drawn in found.values():
        assert sorted(each.id for each in drawn) == sorted(each.id for each in tasks)
        assert [each.id for each in drawn] != [each.id for each in tasks]
        sides = [each.texts["text_a"][:3] for each in drawn]
        assert 70 < sides.count("one") < 130
        assert all({each.texts["text_a"][:3], each.texts["text_b"][:3]} == {"one", "two"} for each in drawn)
        assert sum([item.id for item in each.items] != sorted(item.id for item in each.items) for each in drawn) > 150
    assert found[0] != found[1]
    assert arranged(FORM, reversed(tasks), 0) == found[0]


def test_labels_of_swapped_sides_are_those_of_the_tasks_own_sides() -> None:
    sheets = []
    for annotator, (first, second) in {"ann": ("One.", "Two."), "bob": ("Two.", "One.")}.items():
        better = "A" if first == "One." else "B"
        sheet = {"pair_id": "p1", "question": "Why?", "text_a": first, "text_b": second, "steps": []}
        sheets.append({**sheet, "annotator": annotator, "better": better, f"fluency_{better.lower()}": 4})
    found, rejected = read("\n".join(map(json.dumps, sheets)).encode(), "a.jsonl")
    assert [(one.annotator, one.swapped, one.values[WHOLE, "better"]) for one in found] == [
        ("ann", False, "A"),
        ("bob", True, "B"),
    ]
    labels = table(FORM, found)
    assert set(zip(labels["field"], labels["value"], strict=True)) == {("better", "A"), ("fluency_a", 4)}
    assert rejected == []


# ---------------------------------------------------------------- accounts, and files that yield nothing


def exported(tmp_path: Path, name: str, account: Any) -> Path:
    (record,) = json.loads(next(filled(TASKS, "label-studio", {WHOLE: {"better": "A"}, "s1": {}, "s2": {}}))[0])
    record["annotations"][0]["completed_by"] = account
    path = tmp_path / name / "export.json"
    path.parent.mkdir()
    path.write_text(json.dumps([record]))
    return path.parent


def test_accounts_are_annotators_by_server_and_one_that_is_not_named_is_rejected(tmp_path: Path) -> None:
    lab, field, other = (exported(tmp_path, name, 1) for name in ("lab", "field", "other"))
    accounts = {str(lab): {"1": "e7"}, str(field): {"1": "e9"}, str(other): {"2": "e1"}}
    named = {}
    for folder in (lab, field, other):  # files of equal content
        sources = open_sheets([folder], sha256_of, group="g", accounts=accounts)
        named[folder.name] = [each for source in sources for each in read_file(FORM, Shard(source, 0), KNOWN)]
    assert [one.annotator for one in named["lab"] + named["field"] if isinstance(one, Checked)] == ["e7", "e9"]
    (rejected,) = named["other"]
    assert isinstance(rejected, Rejected)
    assert (rejected.kind, rejected.reason, rejected.detail) == (
        "defect",
        "an account that `accounts` does not name",
        "1",
    )
    (one,), (same,) = (open_sheets([lab], sha256_of, group="g", accounts=of) for of in (accounts, {}))
    assert one.identity() != same.identity()


def test_the_csv_of_label_studio_is_refused_by_name() -> None:
    content = b"annotation_id,annotator,better,question,steps\n1,3,A,Why?,x\n"
    with pytest.raises(SourceError, match=r"a\.csv is Label Studio's CSV.*export JSON"):
        read(content, "a.csv")


# ---------------------------------------------------------------- the tools' own word


@pytest.mark.parametrize("part", ["pairs", "steps"])
@pytest.mark.filterwarnings("ignore")
def test_label_studios_sdk_takes_configuration_tasks_and_annotations(part: str) -> None:
    interface = pytest.importorskip("label_studio_sdk.label_interface").LabelInterface
    files = sheet_files(FORM, TASKS, "label-studio")
    labelling = interface(files[f"{part}/config.xml"].decode())
    labelling.validate()
    said = {
        WHOLE: {"better": "B", "fluency_a": 2, "topics": ["<Beer>", "Water"], "remark": "x"},
        "s1": {"verdict": "Right", "share": 3, "corrections": ["x", "y"]},
        "s2": {"verdict": "Wrong"},
    }
    for content, _ in filled(TASKS, "label-studio", said):
        for record in json.loads(content):
            if ("step_id" in record["data"]) == (part == "steps"):
                annotation = {"result": [typed(each, part) for each in record["annotations"][0]["result"]]}
                assert labelling.validate_task({"data": record["data"]})
                assert labelling.validate_annotation(annotation)
    wrong = {
        "id": "x",
        "from_name": "no_such_control",
        "to_name": "step",
        "type": "choices",
        "value": {"choices": ["?"]},
    }
    assert not labelling.validate_annotation({"result": [wrong]})


def typed(result: Row, part: str) -> Row:
    kinds = {"text": "textarea"}
    to = "step" if part == "steps" else "text_b"
    return {**result, "id": result["from_name"], "type": kinds.get(result["type"], result["type"]), "to_name": to}


@pytest.fixture(scope="module")
def rg() -> Iterator[Any]:
    """Argilla's client, which asks its server who it is."""
    client = pytest.importorskip("argilla")
    me = {"id": str(UUID(int=1)), "username": "owner", "role": "owner", "first_name": "o", "last_name": None}
    with serve() as server:
        server.on("/api/v1/me", Answer(body=json.dumps(me).encode(), headers={"Content-Type": "application/json"}))
        client.Argilla(api_url=server.url, api_key="none", retries=0)
        yield client


@pytest.mark.parametrize("part", ["pairs", "steps"])
@pytest.mark.filterwarnings("ignore")
def test_argillas_client_takes_settings_and_records_one_an_item(rg: Any, part: str, tmp_path: Path) -> None:
    files = sheet_files(FORM, TASKS, "argilla")
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    settings = rg.Settings.from_json(tmp_path / part / ".argilla" / "settings.json")
    settings.validate()
    asked = FORM.seen_by("annotator").asked(of_item=part == "steps")
    assert [question.name for question in settings.questions] == [field.name for field in asked]
    records = json.loads(files[f"{part}/records.json"])
    assert len(records) == (4 if part == "steps" else 2)
    for record in map(rg.Record.from_dict, records):
        assert set(record.fields) <= {field.name for field in settings.fields}
        assert set(record.metadata) <= {each.name for each in settings.metadata}
        assert not list(record.responses)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("flatten", [True, False])
def test_of_what_argillas_writers_write_only_what_was_submitted_counts(rg: Any, flatten: bool) -> None:
    """Eight responses: five submitted, two drafts, one discarded. Nested, two records have one user, who submitted."""
    from argilla.records._io import GenericIO

    users = [UUID(int=number) for number in range(1, 4)]
    states = [("submitted", "submitted", "draft"), ("submitted",), ("submitted", "draft", "discarded"), ("submitted",)]
    records = []
    for (task_id, step), of_users in zip([("p1", "s1"), ("p1", "s2"), ("p2", "s1"), ("p2", "s2")], states, strict=True):
        given = [rg.Response("verdict", "Right", user, state) for user, state in zip(users, of_users, strict=False)]
        fields = {name: KNOWN[task_id].texts[name] for name in ("question", "text_a", "text_b")}
        fields |= {"step": f"Step {step} of {task_id}"}
        metadata = {"pair_id": task_id, "step_id": step}
        records.append(rg.Record(id=f"{task_id}{step}", fields=fields, metadata=metadata, responses=given))
    written = GenericIO.to_list(records, flatten=flatten)
    for record in written:
        record["status"] = "completed"  # as the server says of records with a submitted response
    found, rejected = read(json.dumps(written).encode(), "a.json")
    assert len(found) == (5 if flatten else 2)
    assert all(one.values[item, "verdict"] == "Right" for one in found for item in one.items)
    reasons = Counter(one.reason for one in rejected)
    states_of = {"draft by its annotator": 2, "discarded by its annotator": 1}
    assert reasons == (states_of if flatten else {UNKNOWN_STATE: 6})


@pytest.mark.parametrize(
    ("annotator", "key"), [("e1", "t/e1"), (7, "t/7"), ("ann@mail.test", "t"), (" ", "t"), (None, "t"), (["e1"], "t")]
)
def test_a_report_names_an_annotator_but_by_no_mail_address(annotator: Any, key: str) -> None:
    assert Labelling("a.jsonl", "t", annotator, {}).key == key
