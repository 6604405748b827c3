"""A published version, read by other people's libraries; and what publishing never does."""

import json
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from axioms_builds import build_axioms

import longform
from benchmarks.make_dump import write_dump
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, find, problems, versions
from longform.errors import NothingToPublish, StoreError, UsageError
from longform.files import sha256_of
from schemas.axioms import PAIRS
from tasks.publishing.publish import free_name

SPLITS = ("train", "test", "overlap")
FETCHED = "2024-04-02"


@dataclass
class Built:
    home: Path
    dumps: list[str]
    version: Version
    rows: dict[str, list[dict[str, Any]]]

    def settings(self, **changed: Any) -> dict[str, Any]:
        """Those of the two sites alone."""
        alone: dict[str, Any] = {"msmarco": [], "eli5": [], "webgpt": []}
        return {"dump": self.dumps, "retrieved_at": FETCHED, "test_share": 0.3, **alone, **changed}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Two small sites; the rows as the parts of the last stage that keeps pairs hold them, by split."""
    top = tmp_path_factory.mktemp("published")
    names = ("tea.stackexchange.com", "bees.stackexchange.com")
    dumps = [write_dump(top / name / "Posts.xml", 150_000, seed=name).path for name in names]
    made = Built(top / "home", dumps, None, {})  # type: ignore[arg-type]
    version, _, run = build_axioms(made.home, "2026.11.20", **made.settings())
    assert version is not None
    (pairs,) = (entry.artifact for entry in run.done if entry.stage == "decontaminate")
    parts = [pq.read_table(run.store.rows_path(part)) for part in pairs.parts]
    made.version = version
    for row in pa.concat_tables(parts).to_pylist():
        made.rows.setdefault(row["split"], []).append(row)
    return made


def by_id(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found = {row["pair_id"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def instant(value: Any) -> datetime:
    return pandas.Timestamp(value).to_pydatetime().astimezone(UTC)


def test_the_card_has_the_first_table_of_the_report(built: Built) -> None:
    first = json.loads((built.version.folder / "tables.json").read_text())[0]
    card = (built.version.folder / "README.md").read_text()
    section = card.split(f"## {first['title']}\n")[1].split("\n## ")[0]
    assert sum(line.startswith("|") for line in section.splitlines()) == len(first["rows"]) + 2


# ---------------------------------------------------------------- read by others


def test_the_folders_hold_what_the_stage_made(built: Built) -> None:
    assert built.version.manifest["splits"] == {
        split: len(built.rows[split]) for split in SPLITS if split in built.rows
    }
    for split, rows in built.rows.items():
        files = sorted((built.version.folder / split).glob("*.parquet"))
        assert {path.name.split("-")[0] for path in files} == {"bees.stackexchange.com", "tea.stackexchange.com"}
        published = pa.concat_tables([pq.read_table(path) for path in files])
        assert published.schema.equals(PAIRS)
        assert by_id(published.to_pylist()) == by_id(rows)


@pytest.mark.parametrize("split", ["train", "test"])
def test_pandas_reads_a_split(built: Built, split: str) -> None:
    frame = pandas.read_parquet(built.version.folder / split)
    rows = by_id(built.rows[split])
    assert list(frame.columns) == PAIRS.names
    assert set(frame["pair_id"]) == rows.keys()
    for read in frame.itertuples():
        row = rows[read.pair_id]
        assert (read.question, read.preferred, read.rejected) == (row["question"], row["preferred"], row["rejected"])
        assert (list(read.evidence), read.margin, read.axiom) == (row["evidence"], row["margin"], row["axiom"])
        assert instant(read.retrieved_at) == datetime(2024, 4, 2, tzinfo=UTC)


@pytest.mark.parametrize("split", ["train", "test"])
def test_polars_and_duckdb_read_a_split(built: Built, split: str) -> None:
    import polars

    pattern = f"{built.version.folder}/{split}/*.parquet"
    rows = by_id(built.rows[split])
    assert by_id(polars.read_parquet(pattern).to_dicts()) == rows
    with duckdb.connect() as database:
        found = database.sql(f"SELECT * FROM '{pattern}'").to_arrow_table()
    times = [instant(value) for value in found["retrieved_at"].to_pylist()]
    assert times == [rows[key]["retrieved_at"] for key in found["pair_id"].to_pylist()]
    plain = PAIRS.remove(PAIRS.get_field_index("retrieved_at")).names
    expected = {key: {name: row[name] for name in plain} for key, row in rows.items()}
    assert by_id(found.select(plain).to_pylist()) == expected


DATASETS = """
import json, sys
from datasets import load_dataset
found = load_dataset(sys.argv[1])
print(json.dumps({split: rows.to_list() for split, rows in found.items()}, default=lambda when: when.isoformat()))
"""


def test_datasets_finds_the_splits_with_none_of_our_code(built: Built, tmp_path: Path) -> None:
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "TZ": "UTC", "PYTHONUTF8": "1"}
    command = [sys.executable, "-c", DATASETS, str(built.version.folder)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.keys() == built.rows.keys() - {"overlap"}
    for split, rows in found.items():
        expected = json.loads(json.dumps(built.rows[split], default=lambda when: when.isoformat()))
        assert by_id(rows) == by_id(expected)


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """What is logged at warning or above; absl's logger does not always propagate."""
    messages: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    handler, loggers = Collect(logging.WARNING), [logging.getLogger(), logging.getLogger("absl")]
    for logger in loggers:
        logger.addHandler(handler)
    yield messages
    for logger in loggers:
        logger.removeHandler(handler)


@pytest.mark.check
def test_mlcroissant_validates_without_a_warning_and_reads_the_records_back(built: Built, logged: list[str]) -> None:
    import mlcroissant as mlc

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DeprecationWarning)  # rdflib's own code
        dataset = mlc.Dataset(str(built.version.folder / "croissant.json"))
    assert logged == []
    assert not dataset.metadata.ctx.issues.warnings
    for split in ("train", "test"):
        prefix = f"pairs/{split}/"
        read = [
            {name.removeprefix(prefix): decoded(value) for name, value in row.items()}
            for row in dataset.records(prefix[:-1])
        ]
        assert by_id(read) == by_id(built.rows[split])


def decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [decoded(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


# ---------------------------------------------------------------- longform.load


def test_load_gives_a_split_or_a_stage_of_the_latest_or_a_named_version(built: Built) -> None:
    train = longform.load("axioms", home=built.home)
    assert by_id(train.to_pylist()) == by_id(built.rows["train"])
    assert longform.load("axioms", "2026.11.20", home=built.home).equals(train)
    assert longform.load("axioms", split="test", home=built.home).num_rows == len(built.rows["test"])
    assert train.schema.equals(PAIRS), "names, types and nullability"
    for stage in built.version.stages:
        longform.load("axioms", stage=stage, home=built.home).validate(full=True)
    threads = longform.load("axioms", stage="select_questions", home=built.home)["question_id"].to_pylist()
    assembled = longform.load("axioms", stage="assemble_pairs", home=built.home)["question_id"].to_pylist()
    assert set(assembled) == set(threads)


def test_load_in_pandas_keeps_every_type_and_null(built: Built) -> None:
    for asked in ({"dataset": "axioms/pairs"}, {"dataset": "axioms", "stage": "select_questions"}):
        table = longform.load(**asked, version="2026.11.20", home=str(built.home))
        frame = longform.load(**asked, version="2026.11.20", home=str(built.home), as_pandas=True)
        back = pa.Table.from_pandas(frame, preserve_index=False)
        assert back.cast(table.schema).equals(table)
        assert [field.type for field in back.schema] == [field.type for field in table.schema]
        assert frame.isna().sum().to_dict() == {name: table[name].null_count for name in table.column_names}


@pytest.mark.parametrize(("asked", "sentence"), [
    ({"dataset": "axioms/pears"}, 'axioms 2026.11.20 has no config pears; did you mean "pairs"?'),
    ({"dataset": "axoims"}, 'axoims has no version in HOME: did you mean "axioms"?'),
    ({"dataset": "kiwi"}, "kiwi has no version in HOME: build one with `longform build kiwi`, or give another --home"),
    ({"version": "2026.11.2"}, 'axioms has no version 2026.11.2; did you mean "2026.11.20"?'),
    ({"split": "tset"}, 'axioms 2026.11.20 has no split tset in its config pairs; did you mean "test"?'),
    ({"split": "dev"}, "axioms 2026.11.20 has no split dev in its config pairs; it has train, test"),
    ({"stage": "read_post"}, 'axioms 2026.11.20 has no stage read_post; did you mean "read_posts"?'),
])  # fmt: skip
def test_load_says_what_is_not_there(built: Built, asked: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError) as raised:
        longform.load(**{"dataset": "axioms", "version": "2026.11.20", **asked}, home=built.home)
    assert str(raised.value).startswith(sentence.replace("HOME", str(built.home)))


def test_load_is_found_and_named_by_python_itself() -> None:
    """In a process of its own: where nothing was asked for, `load` is no name of the module yet."""
    code = "import longform, sys; assert 'load' in dir(longform) and 'pyarrow' not in sys.modules; longform.lod"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        "AttributeError: module 'longform' has no attribute 'lod'. Did you mean: 'load'?"
    )


# ---------------------------------------------------------------- whole or not at all, never overwritten


def test_an_equal_recipe_and_name_gives_equal_bytes_in_another_home(built: Built, tmp_path: Path) -> None:
    again, _, _ = build_axioms(tmp_path / "elsewhere", "2026.11.20", **built.settings())
    assert again is not None
    assert again.manifest["recipe"] == built.version.recipe
    names = {str(path.relative_to(again.folder)) for path in again.folder.rglob("*") if path.is_file()}
    assert names == {"manifest.json", *built.version.manifest["files"]}
    for name in names:
        assert (again.folder / name).read_bytes() == (built.version.folder / name).read_bytes(), name


def test_the_manifest_has_the_checksum_of_every_file(built: Built) -> None:
    for name, fields in built.version.manifest["files"].items():
        path = built.version.folder / name
        assert (sha256_of(path), path.stat().st_size) == (fields["sha256"], fields["bytes"])
    assert list(problems(Store(built.home), built.version)) == []


def test_one_recipe_is_published_once_unless_another_name_is_given(built: Built, tmp_path: Path) -> None:
    home = tmp_path / "home"
    small = built.settings(dump=built.dumps[0])
    first, _, _ = build_axioms(home, "first", **small)
    unnamed, _, _ = build_axioms(home, None, **small)  # type: ignore[arg-type]
    second, _, _ = build_axioms(home, "second", **small)
    assert None not in (first, unnamed, second)
    assert unnamed.folder == first.folder
    assert second.recipe == first.recipe
    assert [version.name for version in versions(home, "axioms")] == ["first", "second"]
    before = {path: path.read_bytes() for path in first.folder.rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match=r"first was built by another recipe \(it differs from pair_by_votes on\)"):
        build_axioms(home, "first", **small, pairs_per_question=1)
    assert {path: path.read_bytes() for path in first.folder.rglob("*") if path.is_file()} == before
    assert find(home, "axioms").name == "second"


def test_names_by_date_count_on_where_the_day_has_a_version(built: Built) -> None:
    assert free_name(built.home, "axioms", date(2026, 11, 20)) == "2026.11.20.2"
    assert free_name(built.home, "axioms", date(2026, 11, 21)) == "2026.11.21"


def test_a_build_that_leaves_no_row_publishes_nothing(built: Built, tmp_path: Path) -> None:
    with pytest.raises(NothingToPublish, match="axioms has no row to publish"):
        build_axioms(tmp_path / "home", **built.settings(dump=built.dumps[0], min_answers=50))
    assert not (tmp_path / "home" / "datasets").exists() or not list((tmp_path / "home" / "datasets").rglob("*.*"))


def test_a_damaged_part_is_never_published(built: Built, tmp_path: Path) -> None:
    home = tmp_path / "home"
    small = built.settings(dump=built.dumps[0])
    _, _, made = build_axioms(home, "first", **small)
    part = next(part for part in made.done[-1].artifact.parts if part.rows)
    path = made.store.rows_path(part)
    path.write_bytes(path.read_bytes()[:-9] + b"x" + path.read_bytes()[-8:])
    with pytest.raises(StoreError, match=r"rows\.parquet is damaged"):
        build_axioms(home, "second", **small)
    assert [found.name for found in (home / "datasets" / "axioms").iterdir()] == ["first"]
