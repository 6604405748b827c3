"""croissant.json, read by mlcroissant: no warnings, the rows as they were written, and real checks of hashes."""

import dataclasses
import hashlib
import json
import logging
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from card_rows import ROWS, example_version, version_of, write_files
from hypothesis import given
from hypothesis import strategies as st

from longform.errors import SchemaError
from schemas import column, table
from schemas.axioms import PAIRS
from tasks.publishing.card import Config, File, Split, VersionFacts
from tasks.publishing.croissant import croissant, semantic_version

# The pattern that semver.org suggests.
SEMVER = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(?:-((?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?"
)


def published(folder: Path, version: VersionFacts) -> Path:
    path = folder / "croissant.json"
    path.write_text(croissant(version), encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "2026.11.20.2"


@pytest.fixture
def jsonld(folder: Path) -> Path:
    return published(folder, version_of(write_files(folder)))


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """What is logged at warning or above while the test runs; absl's logger does not always propagate."""
    messages: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    handler = Collect(logging.WARNING)
    loggers = [logging.getLogger(), logging.getLogger("absl")]
    for logger in loggers:
        logger.addHandler(handler)
    yield messages
    for logger in loggers:
        logger.removeHandler(handler)


def decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [decoded(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


def records(jsonld: Path, record_set: str) -> list[dict[str, Any]]:
    """The records, as text instead of bytes, under the names of the columns."""
    import mlcroissant as mlc

    found = mlc.Dataset(str(jsonld)).records(record_set)
    return [{key.removeprefix(f"{record_set}/"): decoded(value) for key, value in row.items()} for row in found]


def record_sets(jsonld: Path) -> list[str]:
    return [node["@id"] for node in json.loads(jsonld.read_text(encoding="utf-8"))["recordSet"]]


def read_all(jsonld: Path) -> None:
    for name in record_sets(jsonld):
        records(jsonld, name)


def test_mlcroissant_validates_it_without_a_word(jsonld: Path, logged: list[str], capfd: Any) -> None:
    import mlcroissant as mlc

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DeprecationWarning)  # rdflib's own code
        dataset = mlc.Dataset(str(jsonld))
    output = capfd.readouterr()
    assert (logged, output.out, output.err) == ([], "", "")
    assert not dataset.metadata.ctx.issues.warnings
    assert dataset.metadata.version == "2026.11.20+2"


def test_the_collector_of_warnings_would_see_one(jsonld: Path, logged: list[str]) -> None:
    import mlcroissant as mlc

    content = json.loads(jsonld.read_text(encoding="utf-8"))
    del content["license"]
    jsonld.write_text(json.dumps(content), encoding="utf-8")
    mlc.Dataset(str(jsonld))
    assert any("license" in message for message in logged)


def test_the_command_line_validates_it_without_a_warning(jsonld: Path) -> None:
    command = [str(Path(sys.executable).with_name("mlcroissant")), "validate", "--jsonld", str(jsonld)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    lines = (done.stdout + done.stderr).splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("I")
    assert lines[0].endswith("Done.")


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_splits_records_are_the_rows_of_its_files(jsonld: Path, split: str) -> None:
    paths = sorted(path for path in ROWS if path.startswith(f"{split}/"))
    expected = [row for path in paths for row in pq.read_table(jsonld.parent / path).to_pylist()]
    assert [row["pair_id"] for row in expected] == {"train": ["p_1", "p_2", "p_3"], "test": ["p_4", "p_5"]}[split]
    assert records(jsonld, f"pairs/{split}") == expected


def test_each_file_of_a_split_of_several_has_its_keys_as_records(jsonld: Path) -> None:
    assert record_sets(jsonld) == ["pairs/train", "train/a1.parquet/keys", "train/b2.parquet/keys", "pairs/test"]
    assert records(jsonld, "train/a1.parquet/keys") == [{"pair_id": "p_1"}, {"pair_id": "p_2"}]


@pytest.mark.parametrize("path", list(ROWS))
def test_reading_every_record_set_finds_any_wrong_sha256(folder: Path, path: str) -> None:
    import mlcroissant as mlc

    files = write_files(folder)
    files[path] = dataclasses.replace(files[path], sha256="0" * 64)
    jsonld = published(folder, version_of(files))
    with pytest.raises(mlc.GenerationError) as caught:
        read_all(jsonld)
    assert "not identical" in str(caught.value.__cause__)


def test_a_stray_parquet_file_in_a_splits_folder_is_not_read(jsonld: Path) -> None:
    stray = pa.Table.from_pylist(ROWS["test/c3.parquet"], schema=PAIRS)
    pq.write_table(stray, jsonld.parent / "train" / "stray.parquet")
    assert [row["pair_id"] for row in records(jsonld, "pairs/train")] == ["p_1", "p_2", "p_3"]


def test_files_carry_size_and_hash_and_a_relative_address(folder: Path) -> None:
    files = write_files(folder)
    nodes = {n["@id"]: n for n in json.loads(croissant(version_of(files)))["distribution"] if "sha256" in n}
    assert list(nodes) == list(ROWS)
    for path, node in nodes.items():
        assert node["contentUrl"] == path
        assert node["contentSize"] == f"{(folder / path).stat().st_size} B"
        assert node["sha256"] == files[path].sha256


def test_every_column_is_a_field_with_its_meaning_and_lists_say_so() -> None:
    fields = json.loads(croissant(example_version()))["recordSet"][0]["field"]
    assert [field["name"] for field in fields] == PAIRS.names
    assert [field["description"] for field in fields] == [c.metadata[b"doc"].decode() for c in PAIRS]
    assert {f["name"] for f in fields if f.get("isArray")} == {
        "evidence",
        "evidence_ids",
        "preferred_cut",
        "preferred_parent_ids",
        "rejected_cut",
        "rejected_parent_ids",
        "tags",
    }
    types = {field["name"]: field["dataType"] for field in fields}
    assert (types["axiom"], types["margin"], types["retrieved_at"]) == ("cr:Int8", "cr:Float64", "sc:DateTime")


def test_what_mlcroissant_does_not_ask_for_is_there_too() -> None:
    dataset = json.loads(croissant(example_version()))
    assert dataset["license"] == [
        "https://creativecommons.org/licenses/by-sa/3.0/",
        "https://creativecommons.org/licenses/by-sa/4.0/",
    ]
    assert dataset["alternateName"] == "Axioms: preference pairs, version 2026.11.20.2"
    assert "offline-rules-1" in dataset["description"]
    assert all(dataset[key] for key in ("name", "url", "creator", "citeAs", "datePublished"))


def test_other_scalar_types_and_lists_of_them_read_back(tmp_path: Path) -> None:
    schema = table(
        "numbers",
        column("n_id", pa.string(), "key"),
        column("wide", pa.uint64(), "beyond the signed range"),
        column("kept", pa.bool_(), "may be null", null=True),
        column("weight", pa.float32(), "may be null", null=True),
        column("cites", pa.list_(pa.int32()), "may be null", null=True),
        key="n_id",
    )
    rows = [
        {"n_id": "a", "wide": 2**64 - 1, "kept": True, "weight": 0.5, "cites": [3, 1]},
        {"n_id": "b", "wide": 0, "kept": None, "weight": None, "cites": None},
    ]
    (tmp_path / "test").mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), tmp_path / "test" / "n.parquet")
    data = (tmp_path / "test" / "n.parquet").read_bytes()
    file = File("test/n.parquet", len(data), hashlib.sha256(data).hexdigest())
    config = Config("numbers", True, [Split("test", 2, [file])], schema)
    jsonld = published(tmp_path, dataclasses.replace(example_version(), configs=[config]))
    assert records(jsonld, "numbers/test") == rows


def test_lists_of_structs_read_back_as_records_within_the_record(tmp_path: Path, logged: list[str]) -> None:
    inner = [column("name", pa.string(), "may be null", null=True), column("at", pa.int32(), "a place", null=True)]
    parts = pa.list_(pa.struct([*inner, column("sure", pa.bool_(), "a doubt")]))
    schema = table("nested", column("n_id", pa.string(), "key"), column("parts", parts, "of it"), key="n_id")
    rows = [
        {"n_id": "a", "parts": [{"name": "x", "at": 1, "sure": True}, {"name": None, "at": None, "sure": False}]},
        {"n_id": "b", "parts": []},
        {"n_id": "c", "parts": [{"name": "y", "at": 0, "sure": True}]},
    ]
    (tmp_path / "test").mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), tmp_path / "test" / "n.parquet")
    data = (tmp_path / "test" / "n.parquet").read_bytes()
    config = Config(
        "n", True, [Split("test", 3, [File("test/n.parquet", len(data), hashlib.sha256(data).hexdigest())])], schema
    )
    jsonld = published(tmp_path, dataclasses.replace(example_version(), configs=[config]))
    found = [
        {
            **row,
            "parts": [
                {key.removeprefix("n/test/parts/"): decoded(value) for key, value in one.items()}
                for one in row["parts"]
            ],
        }
        for row in records(jsonld, "n/test")
    ]
    assert found == rows
    assert logged == []


def test_a_struct_reads_back_as_a_record_within_the_record(tmp_path: Path, logged: list[str]) -> None:
    side = pa.struct([column("text", pa.string(), "a text"), column("score", pa.float64(), "a number")])
    schema = table("nested", column("n_id", pa.string(), "key"), column("side", side, "of it"), key="n_id")
    rows = [{"n_id": "a", "side": {"text": "x", "score": 0.5}}, {"n_id": "b", "side": {"text": "", "score": -1.0}}]
    (tmp_path / "test").mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), tmp_path / "test" / "n.parquet")
    data = (tmp_path / "test" / "n.parquet").read_bytes()
    file = File("test/n.parquet", len(data), hashlib.sha256(data).hexdigest())
    config = Config("n", True, [Split("test", 2, [file])], schema)
    jsonld = published(tmp_path, dataclasses.replace(example_version(), configs=[config]))
    found = [
        {**row, "side": {key.removeprefix("n/test/side/"): decoded(value) for key, value in row["side"].items()}}
        for row in records(jsonld, "n/test")
    ]
    assert found == rows
    assert logged == []


def test_a_column_of_structs_is_refused_by_name() -> None:
    schema = table("nested", column("n_id", pa.string(), "key"), column("parts", pa.struct([]), "parts"), key="n_id")
    with pytest.raises(SchemaError, match="Column parts has type struct"):
        croissant(
            dataclasses.replace(
                example_version(), configs=[dataclasses.replace(example_version().configs[0], schema=schema)]
            )
        )


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("2026.11.20", "2026.11.20"),
        ("2026.11.20.2", "2026.11.20+2"),
        ("2026.01.05", "2026.1.5"),
        ("2026.01.05.13", "2026.1.5+13"),
        ("pilot_b", "0.0.0+pilot-b"),
    ],
)
def test_a_versions_name_becomes_a_semantic_version(name: str, version: str) -> None:
    assert semantic_version(name) == version


@given(st.one_of(st.text(), st.from_regex(r"[0-9]{1,4}\.[0-9]{1,3}\.[0-9]{1,3}[a-z0-9._-]*", fullmatch=True)))
def test_every_name_becomes_a_valid_semantic_version(name: str) -> None:
    assert SEMVER.fullmatch(semantic_version(name))


def test_it_ends_with_a_newline_and_is_plain_json() -> None:
    text = croissant(example_version())
    assert text.endswith("}\n")
    assert json.loads(text)["conformsTo"] == "http://mlcommons.org/croissant/1.1"
