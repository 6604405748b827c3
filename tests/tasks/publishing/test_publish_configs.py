"""A version of several tables: configs of their own, read by other people's libraries and by ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pytest
import xxhash
from toy_stages import building, source

import longform
from flows.inspection.comparison import compare
from flows.inspection.describe import summary
from flows.inspection.tracing import first_row, trace_by_ids
from longform.artifacts.rows import Rejected, Shard
from longform.artifacts.store import Store
from longform.artifacts.takedowns import add
from longform.artifacts.versions import Version, find, problems
from longform.engine.build import Build
from longform.engine.stage import PerGroup, Row, Rows, StageContext, stage
from longform.errors import LongformError, NothingToPublish, UsageError
from schemas import column, table
from schemas.sources.stackexchange import MOMENT
from tasks.publishing.card import Figure, Paper, ReportTable, Wording, table_of
from tasks.publishing.publish import About, Published, Table, publish_version, set_publication

QUESTIONS = table(
    "questions",
    column("question_id", pa.string(), "quiz/<line>"),
    column("text", pa.string(), "of the line"),
    key="question_id",
)
ANSWERS = table(
    "answers",
    column("row_id", pa.string(), "of the answer"),
    column("question_id", pa.string(), "parent: questions.question_id"),
    column("answer", pa.string(), "in words"),
    column("model", pa.string(), "who wrote it", null=True),
    column("split", pa.string(), "train, validation or test"),
    key="row_id",
    cut="question_id",
)
CLAIMS = table(
    "claims",
    column("claim_id", pa.string(), "of the claim"),
    column("question_id", pa.string(), "parent: questions.question_id"),
    column("facts", pa.list_(pa.string()), "in words; may be empty"),
    column("verdicts", pa.list_(pa.bool_()), "of each fact, null where there is none"),
    column("score", pa.float64(), "share that is true", null=True),
    column("judge_model", pa.string(), "who judged", null=True),
    column("search_backend", pa.string(), "who found it", null=True),
    column("split", pa.string(), "full"),
    key="claim_id",
    cut="question_id",
)
SOURCES = table(
    "sources",
    column("source_id", pa.string(), "of the source"),
    column("question_id", pa.string(), "parent: questions.question_id"),
    column("url", pa.string(), "where it is from", null=True),
    column("licence", pa.string(), "where known", null=True),
    column("retrieved_at", MOMENT, "where known", null=True),
    key="source_id",
    cut="question_id",
)
SIDES = ("train", "train", "validation", "test", "odd")


def number_of(row: Row) -> int:
    return int(row["question_id"].split("/")[1])


@stage(QUESTIONS, revision=1)
def read_quiz(context: StageContext, lines: Shard) -> Iterator[Row]:
    found = Path(lines.source.path).read_text().splitlines()
    rows = [{"question_id": f"quiz/{number}", "text": text} for number, text in enumerate(found)]
    yield from sorted(rows, key=lambda row: xxhash.xxh3_64_intdigest(row["question_id"].encode()))


@stage(ANSWERS, revision=1, split_by="split")
def answer(context: StageContext, questions: PerGroup, *, model: str | None, none: bool) -> Iterator[Row | Rejected]:
    for row in questions:
        if none:
            yield Rejected(row["question_id"], "filtered", "none is wanted")
            continue
        number = number_of(row)
        yield {
            "row_id": f"r_{number}",
            "question_id": row["question_id"],
            "answer": f"So is {row['text']}.",
            "model": model if number % 2 else None,
            "split": SIDES[number % len(SIDES)],
        }


@stage(CLAIMS, revision=1, split_by="split")
def claim(context: StageContext, questions: PerGroup, *, judge: str | None, search: str | None) -> Iterator[Row]:
    for row in questions:
        number = number_of(row)
        yield {
            "claim_id": f"c_{number}",
            "question_id": row["question_id"],
            "facts": ["a", "b"][: number % 3],
            "verdicts": [True, None][: number % 3],
            "score": number / 7 if number % 3 else None,
            "judge_model": judge,
            "search_backend": search,
            "split": "full",
        }


@stage(SOURCES, revision=1)
def cite(context: StageContext, questions: Rows, *, licence: str | None, day: str | None) -> Iterator[Row]:
    moment = datetime.fromisoformat(day).replace(tzinfo=UTC) if day else None
    for row in questions:
        url = f"https://quiz.example/{number_of(row)}"
        kept = {"source_id": f"s_{number_of(row)}", "question_id": row["question_id"], "url": url}
        yield {**kept, "licence": licence if number_of(row) else None, "retrieved_at": moment}


STAGES = {work.name: work for work in (read_quiz, answer, claim, cite)}
DAY = "2024-04-02"
ABOUT = About(
    dataset="quiz",
    title="A quiz",
    summary="Questions and answers, written for these tests.",
    paper=Paper("On quizzes", "On quizzes, 2024."),
    wording=Wording(credit="Name the quiz."),
)
SQUARE = (
    '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">'
    '<rect id="a" width="9" height="9"/></svg>'
)


def tables() -> list[ReportTable]:
    return [table_of("Rows by day", "", ("day", "rows"), [("Monday", 3)])]


def squares() -> list[Figure]:
    return [Figure("squares", "Squares & more", "One.", SQUARE)]


def build(
    home: Path, name: str | None = "v1", *, model: str | None = "model-x", judge: str | None = None,
    search: str | None = None, lines: int = 40,
    licence: str | None = "MIT", day: str | None = DAY, none: bool = False, about: About = ABOUT,
    before_publishing: Callable[[Build], Any] = lambda run: None,
) -> Published:  # fmt: skip
    home.mkdir(parents=True, exist_ok=True)
    file = home / "quiz.txt"
    file.write_text("".join(f"question {number}\n" for number in range(lines)))
    with building(home) as run:
        questions = read_quiz(run, [source(file, "quiz")])
        answers = answer(run, questions, model=model, none=none)
        claims = claim(run, questions, judge=judge, search=search)
        sources = cite(run, questions, licence=licence, day=day)
        before_publishing(run)
        published = [Table("answers", answers), Table("claims", claims)]
        set_publication(run, about, published, sources, tables=tables, figures=squares)
        return publish_version(run, name)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("configs") / "home"
    assert build(home) is not None
    return home


@pytest.fixture
def version(home: Path) -> Version:
    return find(home, "quiz@v1")


# ---------------------------------------------------------------- layout


def test_the_first_tables_splits_lie_on_top_and_those_of_others_in_their_own_folder(version: Version) -> None:
    folders = {str(path.parent.relative_to(version.folder)) for path in version.folder.rglob("*.parquet")}
    assert folders == {"train", "validation", "test", "odd", "claims/full", "."}
    assert version.manifest["splits"] == {"train": 16, "validation": 8, "test": 8, "odd": 8}
    assert version.manifest["configs"] == {"answers": version.manifest["splits"], "claims": {"full": 40}}
    assert version.manifest["keys"] == {"answers": "row_id", "claims": "claim_id"}
    assert list(version.manifest["splits"]) == ["train", "validation", "test", "odd"], "known ones first"


def test_a_plot_is_a_file_of_its_own_and_in_the_report_and_the_manifest(version: Version) -> None:
    assert (version.folder / "figures" / "squares.svg").read_text() == SQUARE
    assert "figures/squares.svg" in version.manifest["files"]
    page = (version.folder / "report.html").read_text()
    assert "Squares &amp; more" in page
    assert '<rect id="plot-1-a" width="9" height="9"/>' in page


def test_it_is_sound_and_a_changed_plot_is_noticed(home: Path, version: Version) -> None:
    assert list(problems(Store(home), version)) == []
    path = version.folder / "figures" / "squares.svg"
    path.write_text(SQUARE.replace("9", "8"))
    (found,) = problems(Store(home), version)
    path.write_text(SQUARE)
    assert "squares.svg was changed" in found


def test_equal_recipes_give_equal_bytes_in_another_home(version: Version, tmp_path: Path) -> None:
    again = build(tmp_path / "home")
    assert again is not None
    files = {str(path.relative_to(version.folder)) for path in version.folder.rglob("*") if path.is_file()}
    assert files == {"manifest.json", *again.version.manifest["files"]}
    for name in files:
        assert (again.version.folder / name).read_bytes() == (version.folder / name).read_bytes(), name


def test_an_equal_recipe_is_not_published_twice(home: Path) -> None:
    again = build(home, None)
    assert again is not None
    assert (again.version.name, again.new) == ("v1", False)


# ---------------------------------------------------------------- read by others

READ = """
import json, sys
from datasets import load_dataset
folder = sys.argv[1]
answers, claims = load_dataset(folder), load_dataset(folder, "claims")
print(json.dumps([{name: rows.to_list() for name, rows in found.items()} for found in (answers, claims)]))
"""


@pytest.mark.check
def test_datasets_finds_both_configs_with_none_of_our_code(version: Version, tmp_path: Path) -> None:
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PYTHONUTF8": "1"}
    command = [sys.executable, "-c", READ, str(version.folder)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    answers, claims = json.loads(done.stdout.splitlines()[-1])
    assert {split: len(rows) for split, rows in answers.items()} == version.manifest["splits"]
    assert {row["row_id"]: row["split"] for rows in answers.values() for row in rows} == {
        f"r_{number}": SIDES[number % 5] for number in range(40)
    }
    found = {row["claim_id"]: row for row in claims["full"]}
    assert found["c_4"]["facts"] == ["a"]
    assert (found["c_5"]["verdicts"], found["c_5"]["score"]) == ([True, None], 5 / 7)
    assert (found["c_3"]["facts"], found["c_3"]["score"]) == ([], None)


@pytest.mark.check
def test_croissant_has_record_sets_of_both_schemas(version: Version) -> None:
    import mlcroissant as mlc

    document = json.loads((version.folder / "croissant.json").read_text())
    sets = {node["@id"]: node for node in document["recordSet"]}
    assert list(sets) == ["answers/train", "answers/validation", "answers/test", "answers/odd", "claims/full"]
    assert [field["name"] for field in sets["claims/full"]["field"]] == CLAIMS.names
    assert sets["claims/full"]["key"] == {"@id": "claims/full/claim_id"}
    dataset = mlc.Dataset(str(version.folder / "croissant.json"))
    assert all("datePublished" in warning for warning in dataset.metadata.ctx.issues.warnings), "v1 is no date"
    read = {row["answers/train/row_id"].decode() for row in dataset.records("answers/train")}
    assert read == {f"r_{number}" for number in range(40) if SIDES[number % 5] == "train"}
    claims = {row["claims/full/claim_id"].decode(): row["claims/full/facts"] for row in dataset.records("claims/full")}
    assert len(claims) == 40
    assert [fact.decode() for fact in claims["c_5"]] == ["a", "b"]


def test_pandas_reads_a_split_of_each(version: Version) -> None:
    assert len(pandas.read_parquet(version.folder / "train")) == 16
    assert len(pandas.read_parquet(version.folder / "claims" / "full")) == 40


def test_the_card_says_licences_and_columns_of_both_and_the_datasets_own_words(version: Version) -> None:
    text = (version.folder / "README.md").read_text()
    assert "## Columns of answers\n" in text
    assert "## Columns of claims\n" in text
    assert "Licences found in the rows: MIT." in text
    assert "Name the quiz." in text
    assert "Version v1, newest source of 2024-04-02, 80 rows." in text
    assert "published" not in text, "its name is no date"
    assert "offline" not in text


# ---------------------------------------------------------------- ours


def test_load_takes_a_config_and_says_what_there_is(home: Path) -> None:
    assert longform.load("quiz", home=home).num_rows == 16
    assert longform.load("quiz", split="odd", home=home).num_rows == 8
    assert longform.load("quiz", config="claims", home=home).schema.equals(CLAIMS), "full, as it has no other"
    assert longform.load("quiz", config="answers", split="test", home=home).num_rows == 8
    with pytest.raises(UsageError, match=r'quiz v1 has no config claim; did you mean "claims"\?'):
        longform.load("quiz", config="claim", home=home)
    with pytest.raises(UsageError, match=r"quiz v1 has no config pairs; it has answers, claims\."):
        longform.load("quiz", config="pairs", home=home)
    with pytest.raises(UsageError, match=r"quiz v1 has no split train in its config claims; it has full\."):
        longform.load("quiz", config="claims", split="train", home=home)


def test_a_manifest_from_before_there_were_configs_is_read(home: Path, version: Version) -> None:
    old = {name: value for name, value in version.manifest.items() if name not in ("configs", "keys")}
    before = replace(version, manifest=old)
    assert before.configs == {"default": version.manifest["splits"]}
    assert before.key("default") == "row_id"
    assert [path.name for path in before.files("default", "test")] == ["quiz-0-00000.parquet"]
    changes = compare(Store(home), before, version)["splits"]
    assert [change["split"] for change in changes] == ["train", "validation", "test", "odd", "claims/full"]
    assert [change["added"] for change in changes] == [0, 0, 0, 0, 40]


def test_what_is_listed_counts_the_rows_of_every_config(version: Version) -> None:
    told = summary(version)
    assert told["rows"] == 80
    assert told["splits"] == {"train": 16, "validation": 8, "test": 8, "odd": 8, "claims/full": 40}


def test_diff_compares_every_config_by_its_own_key(home: Path, version: Version, tmp_path: Path) -> None:
    other = build(tmp_path / "home", "v2", judge="judge-y", lines=41)
    assert other is not None
    changes = {change["split"]: change for change in compare(Store(home), version, version)["splits"]}
    assert {change["changed"] for change in changes.values()} == {0}
    store = Store(tmp_path / "home")
    before = build(tmp_path / "home", "v3")
    assert before is not None
    changes = {change["split"]: change for change in compare(store, before.version, other.version)["splits"]}
    assert (changes["claims/full"]["added"], changes["claims/full"]["changed"]) == (1, 40)
    assert (changes["train"]["added"], changes["train"]["changed"]) == (1, 0)


def test_a_row_of_any_config_is_traced_by_its_ids(home: Path, version: Version) -> None:
    found = trace_by_ids(Store(home), version, "c_7", STAGES)
    assert (found["config"], found["row"]["question_id"]) == ("claims", "quiz/7")
    assert [(row["stage"], row["key"]) for row in found["behind"]] == [
        ("read_quiz", "question_id"),
        ("claim", "claim_id"),
    ]
    lines = dict(found["lines"])
    assert lines["row"] == "c_7   claims/full"
    assert lines["question"] == 'quiz/7   "question 7"'
    assert lines["built by"].startswith("claim ")
    assert trace_by_ids(Store(home), version, first_row(version), STAGES)["row"]["row_id"] == "r_0"


@pytest.mark.parametrize(("asked", "sentence"), [
    ("c_", r"More than one row of quiz v1 begins with c_"),
    ("zzz", r"quiz v1 has no row zzz: take a row_id or a claim_id of its Parquet files"),
])  # fmt: skip
def test_an_id_that_names_no_row_or_several_is_reported(
    home: Path, version: Version, asked: str, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        trace_by_ids(Store(home), version, asked, STAGES)


def test_an_id_that_another_begins_with_is_itself(home: Path, version: Version) -> None:
    assert trace_by_ids(Store(home), version, "r_3", STAGES)["row"]["row_id"] == "r_3", "not r_30"


# ---------------------------------------------------------------- what is marked, refused or left out


@pytest.mark.parametrize(("models", "column"), [
    ({"model": "offline-rules-1"}, "model"),
    ({"judge": "offline-rules-1"}, "judge_model"),
    ({"search": "offline-rules-1"}, "search_backend"),
])  # fmt: skip
def test_rows_of_the_offline_model_in_any_table_mark_the_version(
    tmp_path: Path, models: dict[str, Any], column: str
) -> None:
    made = build(tmp_path / "home", **models)
    assert made is not None
    assert made.version.manifest["offline"] is True
    card = (made.version.folder / "README.md").read_text()
    assert "written by a rule-based offline model (offline-rules-1)" in card
    assert column in card.split("such a row says offline-rules-1 in ")[1].split(".")[0]


def test_a_version_without_offline_rows_is_not_marked(version: Version) -> None:
    assert version.manifest["offline"] is False


def test_a_table_without_rows_is_no_config_and_the_next_is_read_by_default(tmp_path: Path) -> None:
    made = build(tmp_path / "home", none=True)
    assert made is not None
    assert made.version.manifest["configs"] == {"answers": {}, "claims": {"full": 40}}
    text = (made.version.folder / "README.md").read_text()
    assert text.count("config_name") == 1
    assert 'config_name: "claims"\n  default: true' in text
    assert 'load_dataset(folder, split="full")' in text
    assert first_row(made.version) == "c_0"
    assert longform.load("quiz", config="claims", home=tmp_path / "home").num_rows == 40
    with pytest.raises(UsageError, match=r"no split train in its config answers; it has none"):
        longform.load("quiz", home=tmp_path / "home")


def test_without_any_row_nothing_is_published(tmp_path: Path) -> None:
    with pytest.raises(NothingToPublish, match="quiz has no row to publish"):
        build(tmp_path / "home", lines=0)
    assert not list((tmp_path / "home").glob("datasets/quiz/*"))


def test_sources_that_say_no_licence_and_no_day_are_reported_as_such(tmp_path: Path) -> None:
    import mlcroissant as mlc

    made = build(tmp_path / "home", licence=None, day=None)
    assert made is not None
    text = (made.version.folder / "README.md").read_text()
    assert 'license:\n- "unknown"' in text
    assert "Licences found in the rows: none." in text
    assert "Version v1, 80 rows." in text
    assert "datePublished" not in json.loads((made.version.folder / "croissant.json").read_text())
    assert len(list(mlc.Dataset(str(made.version.folder / "croissant.json")).records("claims/full"))) == 40


def test_a_record_taken_down_while_a_build_runs_is_found_in_a_further_config(tmp_path: Path) -> None:
    def takedown(builder: Build) -> None:
        add(builder.store.home, [("c_4", "2026-11-20", "its author asked")])

    with pytest.raises(LongformError, match=r"c_4 is taken down, but claim_id of claims/full/.*parquet names it"):
        build(tmp_path / "home", before_publishing=takedown)
    assert not list((tmp_path / "home").glob("datasets/quiz/*"))
