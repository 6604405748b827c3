"""Builds whose server answers by another model under the same name: within a stage, between versions, in batches."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from axioms_builds import Silent, build_axioms, found_of_replies
from endpoint_server import Server, server
from standin_server import serve
from typer.testing import CliRunner

from flows.builds.building import gate_lines
from flows.builds.reporting import summary
from flows.cli.main import app
from flows.cli.shared.verification import check
from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from longform.errors import GateError

pytestmark = pytest.mark.check

__all__ = ["server"]


class Told(Silent):
    """Progress that keeps the lines that are said."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


def build(home: Path, server: Server, name: str = "v1", seed: int = 1, **more: Any) -> Version:
    """A version without MS MARCO; another seed asks all questions again."""
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    endpoint = {"base_url": url, "model": "m", "concurrency": 8, "parameters": {"seed": seed}}
    version, _, _ = build_axioms(home, name, model="mine", endpoints={"mine": endpoint}, msmarco=[], **more)
    assert version is not None
    return version


def record(home: Path) -> dict[str, Any]:
    """The latest record in runs/."""
    paths = sorted((home / "runs" / "axioms").glob("*.json"), key=lambda path: path.stat().st_mtime)
    found: dict[str, Any] = json.loads(paths[-1].read_text())
    return found


def show(home: Path) -> str:
    return " ".join(CliRunner().invoke(app, ["show", "axioms", "--home", str(home)]).stdout.split())


def task_of(server: Server, body: dict[str, Any]) -> str:
    return server.tasks[body["messages"][0]["content"].strip()]


def test_another_model_within_a_stage_is_a_warning_everywhere_and_its_rows_stay(tmp_path: Path, server: Server) -> None:
    odd = {"open": 0, "all": 0}

    def names(body: dict[str, Any]) -> dict[str, str]:
        open_book = task_of(server, body) == "axioms/open_book"
        odd["all"] += open_book
        another = open_book and len(body["messages"][-1]["content"]) % 2
        odd["open"] += bool(another)
        return {"model": "m-2026-02"} if another else {"model": "m-2026-01"}

    server.names = names
    progress = Told()
    version = build(tmp_path, server, progress=progress)
    few, many = sorted((odd["open"], odd["all"] - odd["open"]))
    assert few
    (warning,) = [line for line in progress.lines if "was served by" in line]
    for what in (
        'answer_open_book: endpoint "mine", asked for m, was served by',
        f"({many} replies)",
        f"({few}): look",
    ):
        assert what in warning
    assert record(tmp_path)["warnings"] == [warning]
    assert record(tmp_path)["notes"] == []
    assert f"warning {warning}" in show(tmp_path)
    card = (version.folder / "README.md").read_text()
    assert warning.removesuffix(": look whether that is meant") in card
    (row,) = [each for each in version.manifest["served"] if each["stage"] == "answer_open_book"]
    assert row["models"].keys() == {"m-2026-01", "m-2026-02"}
    assert sum(row["models"].values()) == odd["all"]
    assert found_of_replies(version) == []
    again = Told()
    build(tmp_path, server, progress=again)
    assert [line for line in again.lines if "was served by" in line] == [warning]  # reused, and still so


def test_another_model_than_in_the_version_before_refuses_until_it_is_accepted(tmp_path: Path, server: Server) -> None:
    first = build(tmp_path, server)
    assert found_of_replies(first) == []
    server.names = lambda body: {"model": "stand-in-2" if task_of(server, body) == "axioms/combine" else "stand-in-1"}
    with pytest.raises(GateError) as caught:
        build(tmp_path, server, "v2", 2)
    assert caught.value.exit_code == 7
    changed = "combine_answers: m was served by stand-in-1 in v1, now by stand-in-2"
    assert changed in str(caught.value)
    assert "answer_open_book" not in str(caught.value)
    assert str(caught.value).count("--accept served_model") == 1
    assert not (tmp_path / "datasets" / "axioms" / "v2").exists()
    asked = server.bodies.total()
    version = build(tmp_path, server, "v2", 2, accept=["served_model"])
    assert server.bodies.total() == asked
    (gate,) = found_of_replies(version)
    assert (gate["gate"], gate["accepted"], gate["found"]) == ("served_model", True, gate["checked"])
    sentence = f"served_model: {gate['found']} of {gate['found']} replies of {changed} (100 %), accepted"
    assert sentence in (version.folder / "README.md").read_text()
    assert sentence in gate_lines(tmp_path, version)
    assert any(line.startswith("served_model: accepted by ") for line in gate_lines(tmp_path, version))
    assert list(check(Store(tmp_path), version)) == []
    build(tmp_path, server, "v3", 3)  # v2 is what it is compared with


def test_another_fingerprint_alone_is_a_note(tmp_path: Path, server: Server) -> None:
    server.names = lambda body: {"model": "m-1", "system_fingerprint": "fp_1"}
    build(tmp_path, server)
    server.names = lambda body: {
        "model": "m-1",
        "system_fingerprint": f"fp_{2 + len(body['messages'][1]['content']) % 2}",
    }
    progress = Told()
    version = build(tmp_path, server, "v2", 2, progress=progress)
    assert found_of_replies(version) == []
    assert not progress.lines
    assert any("had the fingerprints fp_" in note for note in record(tmp_path)["notes"])
    shown = show(tmp_path)
    assert "note answer_open_book: m had the fingerprint fp_1 in v1, now fp_" in shown
    assert 'note answer_open_book: endpoint "mine", asked for m, had the fingerprints fp_' in shown


def test_a_server_that_names_nothing_changes_nothing_and_equal_builds_have_equal_cards(
    tmp_path: Path, server: Server
) -> None:
    server.names = lambda body: {}
    one, two = (build(tmp_path / name, server) for name in "ab")
    for name in ("README.md", "croissant.json"):
        assert (one.folder / name).read_bytes() == (two.folder / name).read_bytes()
    assert one.manifest["served"] == two.manifest["served"]
    later = build(tmp_path / "a", server, "v2", 2)
    assert found_of_replies(later) == []


def test_the_offline_model_has_no_name_to_change(tmp_path: Path) -> None:
    version, _, _ = build_axioms(tmp_path)
    assert version is not None
    assert version.manifest["served"] == []
    assert "served_model" not in (version.folder / "README.md").read_text()


def test_batches_name_their_models_as_single_calls_do(tmp_path: Path) -> None:
    found = {}
    for mode in ("online", "batch"):
        with serve(batch_seconds=0.0) as model:
            endpoint = {"base_url": model.url, "model": "m", "capabilities": ["json_schema", "batch"]}
            settings = {"model": "mine", "mode": mode, "endpoints": {"mine": endpoint}}
            version, _, _ = build_axioms(tmp_path / mode, accept=["corrupt_answers"], **settings)
            assert version is not None
            batches = model.counters()["batch_lines"]
        assert bool(batches) == (mode == "batch")
        found[mode] = version.manifest["served"]
    assert found["batch"] == found["online"]
    assert {name for each in found["batch"] for name in each["models"]} == {"offline-rules-1"}
    assert all(each["fingerprints"] for each in found["batch"])


def test_names_that_a_server_gives_are_no_markup_on_the_page_of_a_run_and_in_the_card(
    tmp_path: Path, server: Server
) -> None:
    hostile = "[all is well](https://evil.example)<img src=x onerror=alert(1)>\x1b[2J`x`|a|\n# gpt"
    server.names = lambda body: {"model": hostile if len(body["messages"][-1]["content"]) % 2 else "**b**"}
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    endpoint = {"base_url": url, "model": "m", "concurrency": 8}
    version, _, made = build_axioms(tmp_path, "v1", model="mine", endpoints={"mine": endpoint})
    assert version is not None
    page, card = summary("axioms", made, version, gate_lines(tmp_path, version)), version.folder / "README.md"
    for text in (page, card.read_text()):
        assert "all is well" in text
        assert not re.search(r"(?<!\\)\[all is well|(?<!\\)<img|(?<!\\)\*\*b|\x1b|^# gpt", text, re.MULTILINE)
