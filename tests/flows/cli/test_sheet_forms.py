"""`longform sheets` and `longform labels` of a dataset with several forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from expertqa_tables import Home, filled
from typer.testing import CliRunner

from flows.cli.main import app
from flows.forms import chosen, forms_of
from longform.errors import UsageError
from longform.files import write_json
from schemas.llmcrit import ASPECTS, CRITERIA, PUBLISHED_FEEDBACK

FORMS = ["criteria", "demonstrations", "validity", "context", "critiques"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A version of three judged feedback texts, of a dataset whose forms are those of llmcrit."""
    rows = [
        filled(PUBLISHED_FEEDBACK, feedback_id=f"f{number}", task="jars", feedback=f"On {number}.", validity="specific")
        for number in range(3)
    ]
    folder = tmp_path / "home" / "datasets" / "llmcrit" / "v1"
    written = Home(tmp_path / "home")
    given = {"aspect_id": "jars/a", "task": "jars", "name": "Date", "position": 1}
    criteria = [filled(CRITERIA, criterion_id=f"c{n}", check=f"Is there a {n}?", **given) for n in range(3)]
    tables = {
        "jars/jars-0": (PUBLISHED_FEEDBACK, rows),
        "aspects/all/all-0": (ASPECTS, [filled(ASPECTS, guideline="Say when.", **given)]),
        "criteria/all/all-0": (CRITERIA, criteria),
    }
    for name, (schema, items) in tables.items():
        file = folder / f"{name}.parquet"
        file.parent.mkdir(parents=True)
        file.write_bytes(Path(written.table(schema, items).paths[0]).read_bytes())
    manifest = {"number": 1, "recipe": "r", "stages": {}, "splits": {"jars": 3}, "offline": True, "files": {}}
    write_json(
        folder / "manifest.json",
        manifest | {"configs": {"feedback": {"jars": 3}, "aspects": {"all": 1}, "criteria": {"all": 3}}},
    )
    return tmp_path / "home"


def run(home: Path, command: str, *words: str) -> str:
    result = CliRunner().invoke(app, [command, "llmcrit", "--home", str(home), *words])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_sheets_of_a_form_are_handed_out_and_read_by_the_same_name(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "sheets.jsonl"
    printed = run(home, "sheets", "--form", "validity", "--field", "jars", "--to", str(file))
    assert "3 sheets" in printed
    assert "annotator_id (a number or a pseudonym), validity" in printed
    assert "`validity_judgements`" in printed
    sheets = [json.loads(line) for line in file.read_text().splitlines()]
    said = [sheet | {"annotator_id": who, "validity": "specific"} for sheet in sheets for who in ("ann", "bob")]
    filled_in = tmp_path / "filled.jsonl"
    filled_in.write_text("\n".join(json.dumps(each) for each in [*said[:-1], said[-1] | {"validity": "not specific"}]))
    shown: dict[str, Any] = json.loads(run(home, "labels", str(filled_in), "--form", "validity", "--json"))
    assert shown["progress"] == [{"field": "validity", "units": 3, "by one": 0, "by more": 3, "labels": 6}]
    assert shown["agreement"][0]["agreed"] == pytest.approx(2 / 3)
    assert shown["rejected"] == {}


def test_a_review_that_a_build_would_refuse_is_refused_beforehand(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "sheets.jsonl"
    run(home, "sheets", "--form", "criteria", "--to", str(file))
    (sheet,) = (json.loads(line) for line in file.read_text().splitlines())
    said = ({"verdict": "edit"}, {"verdict": "accept", "new_name": "Year"}, {"verdict": "accept"})
    items = [item | {"verdict": None} | given for item, given in zip(sheet["criteria"], said, strict=True)]
    filled_in = tmp_path / "filled.jsonl"
    filled_in.write_text(json.dumps(sheet | {"annotator_id": "ann", "criteria": items}))
    shown: dict[str, Any] = json.loads(run(home, "labels", str(filled_in), "--form", "criteria", "--json"))
    assert shown["rejected"] == {"a new text without an edit": 1, "an edit without a new text": 1}
    assert {row["field"]: row["labels"] for row in shown["progress"]} == {"verdict": 1, "new_name": 0, "new_check": 0}


def test_without_a_form_all_are_listed_and_an_unknown_one_gets_a_hint(home: Path, tmp_path: Path) -> None:
    for command, words in (("sheets", ["--to", str(tmp_path)]), ("labels", ["filled.jsonl"])):
        with pytest.raises(UsageError, match=f"llmcrit has several forms: name one with --form: {', '.join(FORMS)}"):
            run(home, command, *words)
        with pytest.raises(UsageError, match='llmcrit has no form "validty"; did you mean "validity"'):
            run(home, command, *words, "--form", "validty")
        with pytest.raises(UsageError, match='no form "x"; it has criteria, demonstrations'):
            run(home, command, *words, "--form", "x")


def test_a_form_without_tasks_says_what_the_version_lacks(home: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="llmcrit v1 has no demonstrations to review"):
        run(home, "sheets", "--form", "demonstrations", "--to", str(tmp_path))


def test_a_dataset_with_one_form_takes_no_name_of_one() -> None:
    dataset = "revision-distance"
    (make,) = forms_of(dataset).values()
    assert chosen(dataset, forms_of(dataset), None) is make
    with pytest.raises(UsageError, match=f"{dataset} has one form, .* leave out --form validity"):
        chosen(dataset, forms_of(dataset), "validity")
    assert chosen("jars", {"lids": make}, None) is make
