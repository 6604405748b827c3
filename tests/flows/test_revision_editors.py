"""Builds whose editor is of no use: nothing is published, and the sentence says why."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axioms_builds import Silent
from endpoint_server import Server, Verdict

from flows.builds.building import Options, build
from flows.config.endpoints import EndpointConfig, StageConfig
from flows.revision_distance import ABOUT, RevisionDistanceConfig
from longform.engine.thread_tasks import SequentialStages
from longform.errors import GateError
from longform.llm.ask.fence import unfenced

EDIT = {"action_name": "x", "revision_description": "", "revision_level": "word", "revision_intention": "meaning"}


def edits(*pairs: tuple[str, str]) -> str:
    return json.dumps({"edits": [
        {**EDIT, "original_snippet": old, "revised_snippet": new, "preceding_snippet": None} for old, new in pairs
    ]})  # fmt: skip


def draft(prompt: str) -> str:
    return dict(unfenced(prompt))["Draft"]


def reference(prompt: str) -> str:
    return dict(unfenced(prompt)).get("Reference", "")


@contextmanager
def editor(say: Callable[[str], str]) -> Iterator[str]:
    """The address of a server whose every reply is what `say` makes of the prompt."""

    def fails(body: dict[str, Any]) -> Verdict:
        prompt = next(m["content"] for m in body["messages"] if m["role"] == "user")
        choice = {"index": 0, "message": {"role": "assistant", "content": say(prompt)}, "finish_reason": "stop"}
        return 200, {}, json.dumps({"model": "m", "choices": [choice], "usage": {}}).encode()

    with Server() as server:
        server.fails = fails
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def made(home: Path, url: str, **settings: Any) -> None:
    config = RevisionDistanceConfig(
        endpoints={"editor": EndpointConfig(base_url=url, model="m", capabilities=["json_schema"])},
        stages={"propose_edits": StageConfig(model="editor")},
        wildchat=[], papers=[], ultrafeedback=[], **settings,
    )  # fmt: skip
    build(ABOUT.dataset, config, Options(home, "v1"), tasks=SequentialStages(), progress=Silent())


BAD: dict[str, tuple[Callable[[str], str], str]] = {
    "nothing": (lambda prompt: edits(), "silent_editor|leave the text as it was|structure_test"),
    "no-ops": (
        lambda prompt: edits((draft(prompt).split()[0], draft(prompt).split()[0])),
        "silent_editor|leave the text as it was|structure_test",
    ),
    "unusable": (lambda prompt: f"I like it, all {len(prompt)} letters.", "cannot be read"),
    "one edit": (lambda prompt: edits((draft(prompt).split()[-1], "x")), "invalid_edits"),
    "padded": (
        lambda prompt: edits((draft(prompt), reference(prompt)), *[(draft(prompt).split()[0],) * 2] * 3),
        "padded_edits",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_build_whose_editor_is_of_no_use_is_refused(name: str, tmp_path: Path) -> None:
    say, told = BAD[name]
    with editor(say) as url, pytest.raises(GateError, match=told) as raised:
        made(tmp_path, url)
    assert raised.value.exit_code == 7
    assert not (tmp_path / "datasets" / "revision-distance" / "v1").exists()


def test_an_honest_editor_passes(tmp_path: Path) -> None:
    from tasks.text.revision_edits import revise

    with editor(lambda prompt: json.dumps({"edits": revise(draft(prompt), reference(prompt))})) as url:
        made(tmp_path, url)
    assert (tmp_path / "datasets" / "revision-distance" / "v1").exists()
