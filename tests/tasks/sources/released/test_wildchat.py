"""Parquet is read by columns and JSON lines record by record: two ways to the same rows, checked against each other."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import paths
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from axioms_builds import Silent
from hypothesis import given
from hypothesis import strategies as st

from flows.sources import wildchat as flow
from longform.artifacts.rows import Rejected, Rows, Shard, Source
from longform.artifacts.store import Store
from longform.engine.build import Build
from longform.engine.plan import Plan
from longform.engine.runners import ThreadRunner
from longform.engine.thread_tasks import SequentialStages
from longform.errors import SourceError, UsageError
from longform.llm.models import Models
from longform.net.download import Downloader
from tasks.sources.released import wildchat
from tasks.sources.released.wildchat import conversation, conversations, created

SAMPLES = paths.SAMPLES / "wildchat"
NOON = datetime(2024, 1, 5, 12, tzinfo=UTC)
PRIVATE = ("SECRET-ADDRESS", "SECRET-AGENT", "SECRET-STATE", "SECRET-COUNTRY")
ORIGIN = {"licence": "ODC-BY-1.0", "revision": None, "url": None, "retrieved_at": None}


def person() -> dict[str, Any]:
    address, agent, state, country = PRIVATE
    header = {"accept-language": agent, "user-agent": agent}
    return {"hashed_ip": address, "header": header, "state": state, "country": country}


def turn(role: str = "user", content: str | None = "Name a tree.", **changed: Any) -> dict[str, Any]:
    told = {"role": role, "content": content, "language": "English", "toxic": False, "redacted": False}
    return {**told, "turn_identifier": 7, "timestamp": None, **person(), **changed}


def record(number: str | None = "a1", *turns: dict[str, Any], **changed: Any) -> dict[str, Any]:
    flags = {"harassment/threatening": False, "harassment_threatening": False, "self-harm": True, "self_harm": True}
    return {
        "conversation_hash": number,
        "model": "gpt-4-0314",
        "timestamp": NOON,
        "conversation": list(turns) or [turn(), turn("assistant", "Oak.")],
        "turn": 1,
        "language": "English",
        "openai_moderation": [{"categories": flags, "flagged": False}],
        "toxic": False,
        "redacted": False,
        **person(),
        **changed,
    }


def parquet_of(path: Path, records: list[dict[str, Any]], **options: Any) -> Path:
    pq.write_table(pa.Table.from_pylist(records), path, **options)
    return path


def lines_of(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one, default=lambda when: when.isoformat()) + "\n" for one in records))
    return path


def piece_of(path: Path, *pieces: tuple[int, int], index: int = 0) -> Shard:
    source = Source("wildchat", str(path), "0" * 64, (("name", path.name),), pieces or ((0, -1),))
    return Shard(source, index)


def found(path: Path, again: tuple[int, ...] = (), *, toxic: bool = True) -> tuple[list[dict[str, Any]], list[Any]]:
    items = list(conversations(piece_of(path), np.array(again, int), toxic=toxic))
    rows = [row for item in items if isinstance(item, pa.RecordBatch) for row in item.to_pylist()]
    return rows, [(item.key, item.kind, item.reason) for item in items if isinstance(item, Rejected)]


def read(home: Path, *paths: Path, **given: Any) -> tuple[Rows, Build]:
    build = Build(
        Store(home),
        tasks=SequentialStages(),
        runner=ThreadRunner(),
        progress=Silent(),
        models=Models(home / "responses.sqlite"),
    )
    [rows] = flow.read(build, list(paths), flow.Read(**given))
    build.close()
    return rows, build


# ---------------------------------------------------------------- rows


def test_a_conversation_becomes_a_row(tmp_path):
    rows, rejected = found(
        parquet_of(tmp_path / "a.parquet", [record("a1", turn(redacted=True), turn("assistant", ""))])
    )
    assert rows == [
        {
            "conversation_id": "wildchat/a1",
            "model": "gpt-4-0314",
            "created": NOON,
            "language": "English",
            "turns": [
                {
                    "role": "user",
                    "content": "Name a tree.",
                    "language": "English",
                    "toxic": False,
                    "redacted": True,
                },
                {"role": "assistant", "content": "", "language": "English", "toxic": False, "redacted": False},
            ],
            "toxic": False,
            "redacted": True,
            **ORIGIN,
        }
    ]
    assert not rejected


TEXT = st.sampled_from([None, "", "  ", "\u3000", "word", "x" * 150, " " * 120 + "y", "日本\U0001f600"])
FLAG = st.sampled_from([None, False, True])
TURN = st.builds(
    lambda role, content, language, toxic, redacted: turn(
        role, content, language=language, toxic=toxic, redacted=redacted
    ),
    st.sampled_from(["user", "assistant", None]),
    TEXT,
    st.sampled_from(["English", None, ""]),
    FLAG,
    FLAG,
)
RECORD = st.builds(
    lambda number, turns, when, model, toxic, redacted: {
        **record(number, model=model, timestamp=when, toxic=toxic, redacted=redacted),
        "conversation": turns,
    },
    st.sampled_from(["a1", "b2", None, "", "n" * 201, "ü" * 101]),
    st.none() | st.lists(st.none() | TURN, max_size=4),
    st.sampled_from([NOON, NOON + timedelta(seconds=1), None]),
    st.sampled_from(["gpt-4", None, ""]),
    FLAG,
    FLAG,
)


def test_an_empty_language_of_a_turn_is_none_in_parquet_too(tmp_path):
    turns = [turn("user", "word", language=""), turn("assistant", "word", language="English")]
    pq.write_table(pa.Table.from_pylist([{**record(), "conversation": turns}]), tmp_path / "a.parquet")
    ((row,), _) = found(tmp_path / "a.parquet", toxic=False)
    assert [each["language"] for each in row["turns"]] == [None, "English"]


@given(records=st.lists(RECORD, max_size=6), toxic=st.booleans())
def test_parquet_and_json_lines_give_the_same_rows(tmp_path_factory, records, toxic):
    folder = tmp_path_factory.mktemp("both")
    schema = pa.Table.from_pylist([record()]).schema
    pq.write_table(pa.Table.from_pylist(records, schema=schema), folder / "a.parquet")
    by_columns = found(folder / "a.parquet", toxic=toxic)
    by_record = found(lines_of(folder / "a.jsonl", records), toxic=toxic)
    assert sorted(by_columns[0], key=str) == sorted(by_record[0], key=str)
    assert sorted(reason for _, _, reason in by_columns[1]) == sorted(reason for _, _, reason in by_record[1])
    assert len(by_columns[0]) + len(by_columns[1]) == len(records)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"conversation": []}, "empty conversation"),
        ({"conversation": None}, "empty conversation"),
        ({"conversation": 5}, "empty conversation"),
        ({"conversation": [turn(content=" "), turn("assistant", "\n")]}, "empty conversation"),
        ({"conversation": [turn(content=None)]}, "turn without a content"),
        ({"conversation": [turn(role=None)]}, "turn without a role"),
        ({"conversation": ["text"]}, "turn without a role"),
        ({"conversation_hash": None}, "no upstream id"),
        ({"conversation_hash": "x" * 201}, "no upstream id"),
        ({"timestamp": "yesterday"}, "no timestamp"),
        ({"timestamp": True}, "no timestamp"),
    ],
)
def test_a_broken_conversation_is_a_defect(changed, reason):
    with pytest.raises(ValueError, match=reason):
        conversation({**record(), **changed}, ORIGIN)


@pytest.mark.parametrize(
    ("value", "when"),
    [
        ("2024-01-05T12:00:00Z", NOON),
        ("2024-01-05 12:00:00", NOON),
        ("2024-01-05T13:00:00+01:00", NOON),
        (1_704_456_000, NOON),
        (1_704_456_000_000, NOON),
        (NOON.replace(tzinfo=None), NOON),
        (None, None),
    ],
)
def test_times_are_read_in_every_form(value, when):
    assert created(value) == when


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", None])
def test_times_of_every_unit_and_the_older_id(tmp_path, unit, zone):
    kept = {name: value for name, value in record().items() if name != "conversation_hash"}
    table = pa.Table.from_pylist([{**kept, "conversation_id": "old"}])
    times = table["timestamp"].cast(pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit, zone))
    table = table.set_column(table.schema.get_field_index("timestamp"), "timestamp", times)
    pq.write_table(table, tmp_path / "a.parquet", version="2.6")
    [row], _ = found(tmp_path / "a.parquet")
    assert (row["conversation_id"], row["created"]) == ("wildchat/old", NOON)


def test_texts_that_the_file_codes_otherwise_are_read(tmp_path):
    table = pa.Table.from_pylist([record()])
    for name, kind in (("model", pa.dictionary(pa.int32(), pa.string())), ("conversation_hash", pa.large_string())):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, table[name].cast(kind))
    pq.write_table(table, tmp_path / "a.parquet")
    [row], _ = found(tmp_path / "a.parquet")
    assert (row["conversation_id"], row["model"]) == ("wildchat/a1", "gpt-4-0314")


# ---------------------------------------------------------------- what points at a person


def test_what_points_at_a_person_is_in_no_byte_of_what_is_kept(tmp_path):
    good, broken = record("a1"), record("b2", turn(content=None))
    parquet_of(tmp_path / "a.parquet", [good, broken])
    lines_of(tmp_path / "b.jsonl", [record("c3"), record("d4", turn(content=None))])
    with (tmp_path / "b.jsonl").open("a") as file:
        file.write('{"hashed_ip": "SECRET-ADDRESS", cut')
    rows, build = read(tmp_path / "home", tmp_path / "a.parquet", tmp_path / "b.jsonl")
    store = Store(tmp_path / "home")
    kept = [str(row) for row in rows]
    for done in build.done:
        for part in done.artifact.parts:
            if part.rejected_sha256:
                kept.append(str(pq.read_table(store.rejected_path(part)).to_pylist()))
    assert rows.count == 2
    assert len(kept) == 4
    assert not [secret for secret in PRIVATE if any(secret in text for text in kept)]
    assert "'content': None" in kept[2]  # but the text of what is broken is kept


def test_columns_that_no_row_is_made_of_are_not_decoded(tmp_path):
    """Their pages are overwritten, so that decoding one of them would fail."""
    path = parquet_of(tmp_path / "a.parquet", [record(str(number)) for number in range(50)], compression="zstd")
    content = bytearray(path.read_bytes())
    with pq.ParquetFile(path) as file:
        group = file.metadata.row_group(0)
        columns = [group.column(index) for index in range(group.num_columns)]
        for column in columns:
            if any(word in column.path_in_schema for word in ("hashed_ip", "header", "state", "country", "moderation")):
                start = column.dictionary_page_offset or column.data_page_offset
                content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(content)
    with pytest.raises((OSError, pa.ArrowException)):
        pq.read_table(path)
    rows, rejected = found(path)
    assert (len(rows), rejected) == (50, [])


# ---------------------------------------------------------------- repeated and toxic ones


def test_of_a_conversation_that_was_logged_again_the_earliest_stays(tmp_path):
    early, late = NOON - timedelta(days=1), NOON + timedelta(days=1)
    parquet_of(tmp_path / "a.parquet", [record("x"), record("y"), record("x", timestamp=late), record("z")])
    parquet_of(tmp_path / "b.parquet", [record("x", timestamp=early), record("z", timestamp=None), record("w")])
    lines_of(tmp_path / "c.jsonl", [record("y", timestamp=late), record("w"), record("v")])
    rows, build = read(tmp_path / "home", tmp_path)
    kept = {row["conversation_id"]: row["created"] for row in rows}
    assert kept == {
        "wildchat/x": early,
        "wildchat/y": NOON,
        "wildchat/z": NOON,
        "wildchat/w": NOON,
        "wildchat/v": NOON,
    }
    assert rows.count == 5
    assert build.done[-1].artifact.rejected() == {("filtered", "same conversation logged again"): 5}


def test_records_without_an_id_are_not_taken_for_one_another(tmp_path):
    parquet_of(tmp_path / "a.parquet", [record(None), record(""), record("x")])
    lines_of(tmp_path / "b.jsonl", [record(None)])
    rows, build = read(tmp_path / "home", tmp_path)
    assert rows.count == 1
    assert build.done[-1].artifact.rejected() == {("defect", "no upstream id"): 3}


def test_toxic_conversations_are_left_out_unless_asked_for(tmp_path):
    records = [record("a", toxic=True), record("b", turn(toxic=True)), record("c")]
    path = parquet_of(tmp_path / "a.parquet", records)
    rows, rejected = found(path, toxic=False)
    assert [row["conversation_id"] for row in rows] == ["wildchat/c"]
    assert rejected == [("wildchat/a", "filtered", "toxic"), ("wildchat/b", "filtered", "toxic")]
    rows, rejected = found(path, toxic=True)
    assert [(row["conversation_id"], row["toxic"]) for row in rows] == [
        ("wildchat/a", True),
        ("wildchat/b", True),
        ("wildchat/c", False),
    ]
    assert not rejected


# ---------------------------------------------------------------- files


def test_pieces_hold_every_row_group_once(tmp_path):
    records = [record(str(number), turn(content=f"text {number} " * 50)) for number in range(300)]
    path = parquet_of(tmp_path / "a.parquet", records, row_group_size=25)
    size = path.stat().st_size
    for cut in (size // 7, 100, size):
        pieces = tuple((start, min(start + cut, size)) for start in range(0, size, cut))[:2_000]
        ids = []
        for index in range(len(pieces)):
            for item in conversations(piece_of(path, *pieces, index=index), np.zeros(0, int), toxic=False):
                ids += item["conversation_id"].to_pylist()
        if sum(end - start for start, end in pieces) == size:
            assert ids == [f"wildchat/{number}" for number in range(300)]


def test_a_truncated_file_is_an_error(tmp_path):
    whole = parquet_of(tmp_path / "a.parquet", [record(str(number)) for number in range(100)]).read_bytes()
    for size in range(5, len(whole), len(whole) // 20):
        (tmp_path / "a.parquet").write_bytes(whole[:size])
        with pytest.raises(SourceError, match="is no whole Parquet file"):
            found(tmp_path / "a.parquet")


def test_a_file_of_something_else_is_an_error(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match="none of the columns"):
        found(tmp_path / "a.parquet")


def test_the_sample_is_accounted_for_and_names_its_revision(tmp_path):
    rows, build = read(tmp_path / "home", SAMPLES, revision="0123456789" * 4, retrieved_at="2026-11-01")
    assert {row["conversation_id"][9] for row in rows} == {"a", "b", "d"}
    assert {row["revision"] for row in rows} == {"0123456789" * 4}
    assert {row["licence"] for row in rows} == {"ODC-BY-1.0"}
    assert {row["retrieved_at"] for row in rows} == {datetime(2026, 11, 1, tzinfo=UTC)}
    assert build.done[-1].artifact.rejected() == {
        ("filtered", "same conversation logged again"): 1,
        ("filtered", "toxic"): 1,
        ("defect", "empty conversation"): 1,
    }


def test_a_fetch_asks_for_a_commit_and_for_parquet(tmp_path):
    with pytest.raises(UsageError, match=r"no revision is set.*allenai/WildChat-1M/commits/main"):
        flow.fetch(Downloader(), [], tmp_path, flow.Fetch(), None)
    with pytest.raises(UsageError, match="is no file of"):
        flow.fetch(Downloader(), ["README.md"], tmp_path, flow.Fetch(revision="0" * 40), None)


def test_records_of_a_piece_match_their_listing(tmp_path):
    records = [record("x"), record(None), record("y", turn(content=None)), record("x")]
    parquet_of(tmp_path / "a.parquet", records)
    build = Build(
        Store(tmp_path),
        tasks=SequentialStages(),
        runner=ThreadRunner(),
        progress=Silent(),
        models=Models(tmp_path / "r.sqlite"),
    )
    logged = wildchat.list_conversations(build, [piece_of(tmp_path / "a.parquet").source])
    build.close()
    assert [row["logged_id"] for row in logged] == ["wildchat/x", "", "wildchat/y", "wildchat/x"]


def test_a_plan_knows_what_would_run_and_a_second_reading_runs_nothing(tmp_path):
    before, after = Plan(Store(tmp_path)), Plan(Store(tmp_path))
    flow.read(before, [SAMPLES], flow.Read())
    read(tmp_path, SAMPLES)
    flow.read(after, [SAMPLES], flow.Read())
    assert [(one.stage, one.state) for one in before.stages] == [
        ("list_conversations", "run"),
        ("read_conversations", "run"),
    ]
    assert {one.state for one in after.stages} == {"reuse"}
    _, again = read(tmp_path, SAMPLES)
    assert [run.units_run for run in again.done] == [0, 0]
