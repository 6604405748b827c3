"""Commands printed in docs/kiwi.md run in their order and do what it says; the names on it exist."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import duckdb
import pytest
from pages import built, commands, page, typed

from flows.kiwi import FORMS, KiwiConfig
from flows.registry import stages_of
from longform.artifacts.versions import Version, versions
from tasks.kiwi.audits import AUDITS
from tasks.kiwi.labels import CATEGORIES, ERRORS
from tasks.kiwi.sessions.released import FIELDS, OF_TURN

pytestmark = pytest.mark.check

PAGE = page("kiwi")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which every command of the page was run, in order."""
    folder = tmp_path_factory.mktemp("kiwi-page")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in commands(PAGE):
            if line.startswith("longform build"):
                built(line, KiwiConfig, folder)
                continue
            done = typed(line, folder)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return folder


def turns(version: Version) -> list[tuple[object, ...]]:
    files = [str(path) for path in version.tables()["turns"]]
    return duckdb.sql(f"SELECT * EXCLUDE (split, extra) FROM read_parquet({files}) ORDER BY turn_id").fetchall()


def test_exported_sessions_are_read_back_with_their_origin(folder: Path) -> None:
    first, second = sorted(versions(folder / "data", "kiwi"), key=lambda version: len(version.name))
    assert len((folder / "sessions.jsonl").read_text().splitlines()) == 28
    assert turns(second) == turns(first)


def test_sheets_have_the_numbers_of_the_page(folder: Path) -> None:
    questions = (folder / "question-sheets" / "sheets.jsonl").read_text().splitlines()
    assert set(json.loads(questions[0])) >= {"related_id", "title", "paragraph", "papers", "question", "evidence"}
    with (folder / "rating-sheets" / "sheets.csv").open(encoding="utf-8-sig", newline="") as file:
        assert len(list(csv.DictReader(file))) == 36, "all turns of people, fewer than 65"


def test_every_stage_gate_form_table_category_and_spelling_is_on_the_page(folder: Path) -> None:
    version = next(each for each in versions(folder / "data", "kiwi"))
    spellings = [name for fields in (FIELDS, OF_TURN) for _, names in fields.values() for name in names]
    for name in (*version.stages, *FORMS, *version.tables(), *spellings):
        assert f"`{name}`" in PAGE, name
    for audit in (*AUDITS.version, *(each for of in AUDITS.rows.values() for each in of)):
        assert audit.name in ("refusal", "degenerate") or f"`{audit.name}`" in PAGE, audit.name
    for name in (*CATEGORIES, *ERRORS):
        assert f"| {name} |" in PAGE, name


def test_names_of_stages_and_settings_on_the_page_exist() -> None:
    table = PAGE.partition("## Stages")[2].partition("## Report")[0]
    assert set(re.findall(r"`(\w+)`", table)) <= {*stages_of("kiwi")}
    settings = re.findall(r"^\| `(\w+)` \|", PAGE.partition("| setting | |")[2].partition("\n\n")[0], re.MULTILINE)
    assert settings
    assert {*settings} <= {*KiwiConfig.model_fields}
