"""`longform costs`: the ledger by stage and model; unknown figures are never shown as 0."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.cli.main import app
from flows.inspection.costs import costs_lines, costs_table, paid
from longform.errors import UsageError
from longform.llm.responses.records import Paid, Record
from longform.llm.responses.store import open_responses


def line(stage: str, recipe: str, key: int, cost: int | None, **fields: Any) -> Paid:
    known = {"run": "r", "dataset": "axioms", "endpoint": "mine", "model": "m", "answered": True} | fields
    return Paid(stage=stage, recipe=recipe, key=f"{key:064x}", input_tokens=100, cached_tokens=40, output_tokens=10,
                cost_nano=cost, **known)  # fmt: skip


def spend(home: Path, *lines: Paid) -> None:
    """Store replies and ledger lines as a build does; no reply where the call brought none."""
    with closing(open_responses(home / "llm" / "responses.sqlite")) as store:
        for each in lines:
            record = Record(each.endpoint, each.model, "t", "", b"{}", b"{}", cost_nano=each.cost_nano)
            asyncio.run(store.put([(each.key, record)] if each.answered else [], [each]))


def publish(home: Path, name: str, stages: dict[str, str]) -> None:
    folder = home / "datasets" / "axioms" / name
    folder.mkdir(parents=True)
    manifest = {"number": 1, "recipe": "r", "stages": stages, "splits": {}, "offline": False, "files": {}}
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    spend(
        tmp_path,
        line("open_book", "a" * 20, 1, 1_500_000_000),
        line("open_book", "b" * 20, 2, 500_000_000),
        line("open_book", "b" * 20, 3, 250_000_000, answered=False),
        line("open_book", "b" * 20, 4, 100_000_000, batch=True),
        line("combine", "c" * 20, 5, None, endpoint="own", model="tiny"),
        line("combine", "c" * 20, 6, 9_000_000_000, dataset="other"),
    )
    publish(tmp_path, "v1", {"open_book": "b" * 20, "combine": "c" * 20})
    return tmp_path


def test_everything_paid_for_a_dataset_is_added_up_by_stage_and_model(home: Path) -> None:
    found = paid(home, "axioms")
    shown = [(s["stage"], s["model"], s["batch"], s["calls"], s["unanswered"], s["usd"]) for s in found["stages"]]
    assert shown == [
        ("open_book", "m", False, 3, 1, 2.25),
        ("open_book", "m", True, 1, 0, 0.1),
        ("combine", "tiny", False, 1, 0, None),
    ]
    assert found["total"] == {
        "calls": 5, "unanswered": 1, "input_tokens": 500, "cached_tokens": 200, "output_tokens": 50,
        "reasoning_tokens": 0, "unpriced": 1, "usd": 2.35,
    }  # fmt: skip


def test_with_a_version_only_what_was_paid_under_its_recipes_counts(home: Path) -> None:
    found = paid(home, "axioms@v1")
    assert (found["version"], found["total"]["calls"], found["total"]["usd"]) == ("v1", 4, 0.85)
    assert paid(home, "axioms@latest") == found
    with pytest.raises(UsageError, match="no version v2"):
        paid(home, "axioms@v2")


def test_unknown_prices_and_lost_replies_are_shown_and_not_summed_as_zero(home: Path) -> None:
    found = paid(home, "axioms")
    cells = {column.header: list(column.cells) for column in costs_table(found).columns}
    assert cells["USD"] == ["2.2500", "0.1000", "unknown", "2.3500 + unknown"]
    assert cells["model"][:3] == ["m via mine", "m via mine, batch", "tiny via own"]
    output = " ".join(costs_lines(found))
    assert "1 call is of unknown price" in output
    assert "1 call without a usable answer may have been billed" in output


def test_tokens_of_reasoning_are_shown_where_there_are_any(home: Path) -> None:
    assert "reasoning" not in [column.header for column in costs_table(paid(home, "axioms")).columns]
    spend(home, line("open_book", "a" * 20, 7, 1, reasoning_tokens=8))
    found = paid(home, "axioms")
    assert found["total"]["reasoning_tokens"] == 8
    cells = {column.header: list(column.cells) for column in costs_table(found).columns}
    assert cells["reasoning"] == ["8", "0", "0", "8"]


def test_nothing_paid_is_one_line_and_makes_no_file(tmp_path: Path) -> None:
    found = paid(tmp_path, "axioms")
    assert (found["stages"], costs_lines(found)) == ([], ["Nothing was paid for axioms."])
    assert list(tmp_path.iterdir()) == []


def test_costs_can_be_read_while_a_build_writes_them(home: Path) -> None:
    before = paid(home, "axioms")
    with closing(open_responses(home / "llm" / "responses.sqlite")) as store:
        asyncio.run(store.put([], [line("open_book", "b" * 20, 7, 1_000_000_000, answered=False)]))
        assert paid(home, "axioms")["total"]["usd"] == before["total"]["usd"] + 1


def test_the_command_prints_a_table_or_one_document(home: Path, tmp_path: Path) -> None:
    run = CliRunner()
    text = run.invoke(app, ["costs", "axioms", "--home", str(home)])
    assert text.exit_code == 0
    assert "tiny via own" in text.stdout
    assert max(map(len, text.stdout.splitlines()[:5])) <= 100
    document = json.loads(run.invoke(app, ["costs", "axioms@v1", "--home", str(home), "--json"]).stdout)
    assert document == paid(home, "axioms@v1")
    empty = run.invoke(app, ["costs", "axioms", "--home", str(tmp_path / "none")])
    assert empty.stdout == "Nothing was paid for axioms.\n"
