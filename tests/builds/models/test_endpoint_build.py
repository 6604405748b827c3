"""The whole dataset over HTTP: a local server answers with the offline model's rules, and fails as it is told."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from axioms_builds import Silent, build_axioms
from endpoint_server import Server, server

from longform.artifacts.store import Store
from longform.artifacts.versions import Version, artifact
from longform.errors import EndpointError, Incomplete

pytestmark = pytest.mark.check

__all__ = ["server"]


def build(home: Path, server: Server, version: str = "v1", **settings: Any) -> tuple[Version | None, Silent]:
    endpoint = {"base_url": f"http://127.0.0.1:{server.server_address[1]}/v1", "model": "m"}
    version_made, progress, _ = build_axioms(home, version, model="mine", endpoints={"mine": endpoint}, **settings)
    return version_made, progress


def texts(home: Path, version: Version, stage: str) -> set[str]:
    store = Store(home)
    parts = artifact(store, version, stage).parts
    return {text for part in parts for text in pq.read_table(store.rows_path(part))["text"].to_pylist()}


def test_answers_over_http_are_those_of_the_offline_model_and_are_asked_for_once(
    tmp_path: Path, server: Server
) -> None:
    over_http, _ = build(tmp_path / "http", server)
    offline, _, _ = build_axioms(tmp_path / "offline")
    assert over_http is not None
    assert offline is not None
    for stage in ("answer_open_book", "answer_closed_book", "corrupt_answers", "combine_answers"):
        assert texts(tmp_path / "http", over_http, stage) == texts(tmp_path / "offline", offline, stage)
    train = pq.read_table(over_http.folder / "train").to_pylist()
    models = {row["rejected_model"] for row in train} | {row["preferred_model"] for row in train}
    assert models == {None, "stand-in-1"}
    assert not over_http.manifest["offline"]
    assert set(server.bodies.values()) == {1}
    asked = len(server.bodies)
    _, progress = build(tmp_path / "http", server, force="answer_open_book")
    assert progress.begun == {"answer_open_book": 1}
    assert len(server.bodies) == asked
    assert set(server.bodies.values()) == {1}


def test_a_question_the_endpoint_cannot_answer_is_a_rejected_row(tmp_path: Path, server: Server) -> None:
    refusal = json.dumps({"error": {"message": "too long", "code": "context_length_exceeded"}}).encode()
    server.fails = lambda body: (
        (400, {}, refusal) if "roasted coffee beans" in body["messages"][-1]["content"] else None
    )
    version, _ = build(tmp_path, server)
    assert version is not None
    made = artifact(Store(tmp_path), version, "answer_closed_book")
    assert made.rejected().get(("defect", "model: request"), 0) >= 1
    assert made.rows + sum(made.rejected().values()) == 33


@pytest.mark.soak  # the retries take their real pauses: 40 s
def test_a_passing_fault_leaves_its_part_open_and_the_next_run_asks_only_for_what_is_missing(
    tmp_path: Path, server: Server
) -> None:
    busy = (503, {"retry-after": "0"}, b"{}")
    server.fails = lambda body: busy if "roasted coffee beans" in body["messages"][-1]["content"] else None
    with pytest.raises(Incomplete, match="run"):
        build(tmp_path, server, until="answer_closed_book")
    answered = Counter(raw for raw in server.bodies if b"roasted coffee beans" not in raw)
    assert answered
    server.fails, before = (lambda body: None), server.bodies.copy()
    build(tmp_path, server, until="answer_closed_book")
    again = server.bodies - before
    assert not set(again) & set(answered)
    assert set(again.values()) == {1}


def test_a_refused_key_stops_the_run_with_one_sentence(tmp_path: Path, server: Server) -> None:
    server.fails = lambda body: (401, {}, b'{"error": {"message": "no such key", "code": "invalid_api_key"}}')
    with pytest.raises(EndpointError) as caught:
        build(tmp_path, server)
    assert "mine" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "datasets").exists()
