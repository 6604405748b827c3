"""`longform critique`: what it refuses, reads, and leaves out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.cli.main import app
from longform.errors import SourceError, UsageError

TEXT = "# Kettle\n\nA library for kettles. It boils water and tells when it is done.\n"
LINES = "The README shows an example.\nThe README names its licence.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kettle.md").write_text(TEXT)
    (tmp_path / "criteria.txt").write_text(LINES)
    return tmp_path


def critique(folder: Path, *words: str, file: str = "kettle.md") -> dict[str, Any]:
    command = ["critique", str(folder / file), "--criteria", str(folder / "criteria.txt"), "--home", str(folder / "h")]
    result = CliRunner().invoke(app, [*command, "--json", *words])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return dict(json.loads(result.stdout))


def test_plain_lines_are_criteria_and_remarks_on_them_name_them(folder: Path) -> None:
    (feedback,) = critique(folder)["feedback"]
    assert [each["criterion"] for each in feedback["remarks"]] == LINES.splitlines()
    assert {each["by"] for each in feedback["remarks"]} == {"name"}


def test_a_file_that_is_there_is_not_written_over(folder: Path) -> None:
    with pytest.raises(UsageError, match="is there already"):
        critique(folder, "--to", str(folder / "kettle.md"))
    assert (folder / "kettle.md").read_text() == TEXT
    with pytest.raises(UsageError, match="can be written to"):
        critique(folder, "--to", str(folder / "no" / "out.jsonl"))


def test_settings_of_builds_are_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="--set limit: a critique has no such setting"):
        critique(folder, "--set", "limit=1")


@pytest.mark.parametrize("content", [b" \n", b"\xff\x01caf\xe9", b"a\0b"])
def test_a_file_without_a_usable_text_is_refused_with_the_reason(folder: Path, content: bytes) -> None:
    (folder / "bad.md").write_bytes(content)
    with pytest.raises(SourceError, match=r"bad\.md"):
        critique(folder, file="bad.md")


def test_a_text_that_is_taken_down_by_id_or_address_is_left_out_and_named(folder: Path) -> None:
    records = [{"id": n, "text": f"{TEXT} {n}", "url": f"https://a.example/{n}"} for n in range(3)]
    (folder / "texts.jsonl").write_text("\n".join(map(json.dumps, records)))
    assert len(critique(folder, file="texts.jsonl")["feedback"]) == 3
    ids = ["own/0", "https://a.example/1"]
    CliRunner().invoke(app, ["takedowns", "add", *ids, "--reason", "asked", "--home", str(folder / "h")])
    found = critique(folder, file="texts.jsonl")
    assert [row["text"] for row in found["feedback"]] == ["2"]
    left_out = [(row["stage"], row["key"], row["reason"]) for row in found["left_out"]]
    assert left_out == [("own_texts", f"texts.jsonl#{n}", "taken down") for n in (1, 2)]


def test_an_array_of_texts_is_read_as_lines_are(folder: Path) -> None:
    (folder / "texts.json").write_text(
        json.dumps([{"id": "a", "text": TEXT}, {"id": "b", "text": "Another."}], indent=1)
    )
    assert [row["text"] for row in critique(folder, file="texts.json")["feedback"]] == ["a", "b"]


def test_a_price_is_told_before_real_models_are_asked_also_by_new_criteria(folder: Path) -> None:
    critique(folder)
    (folder / "criteria.txt").write_text("- **Licence**: Is there a licence?\n")
    (folder / "real.toml").write_text(
        'model = "mine"\n[endpoints.mine]\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m"\n'
        "price = { input = 2.5, output = 10 }\n"
    )
    planned = critique(folder, "--config", str(folder / "real.toml"), "--plan")
    (asked,) = [each for each in planned["stages"] if each["stage"] == "give_feedback"]
    assert asked["calls"] == 1
    with pytest.raises(UsageError, match="Nothing was asked"):
        critique(folder, "--config", str(folder / "real.toml"))
