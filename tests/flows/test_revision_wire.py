"""What goes on the wire: the paper's sampling for writers and nothing for others, online and in batches; asked once.

And of one text, for which `longform revise` asks: refused keys, remembered refusals, what is stored.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from axioms_builds import Silent
from standin_server import serve

from flows.builds.building import Options, build
from flows.config.endpoints import EndpointConfig, StageConfig
from flows.revision_distance import ABOUT, RevisionDistanceConfig
from longform.engine.thread_tasks import SequentialStages
from longform.llm.ask.types import Answer, Endpoint, Request
from longform.llm.models import Models
from longform.llm.responses.store import open_responses
from longform.settings import responses

pytestmark = pytest.mark.check

LONGFORM = str(Path(sys.executable).with_name("longform"))
KEY, WRONG = "sk-right-1234567890", "sk-wrong-1234567890"
CHAT = "POST /v1/chat/completions"
EASY = {"temperature": 0.9, "top_p": 0.95, "seed": 41, "stop": ["</s>"]}
SENT = {"model", "messages", "max_completion_tokens", "response_format"}


def parameters(home: Path) -> dict[str, list[dict[str, Any]]]:
    """prompt -> the distinct sampling parameters of its requests."""
    found: dict[str, set[str]] = defaultdict(set)
    with closing(open_responses(responses(home), read_only=True)) as store:
        for _, record in store.scan():
            sent = json.loads(record.request)
            output = {name: value for name, value in sent.items() if name not in SENT}
            found[record.task.split("/")[1]].add(json.dumps(output, sort_keys=True))
    return {prompt: [json.loads(each) for each in sorted(output)] for prompt, output in found.items()}


@pytest.mark.parametrize(("mode", "form"), [("online", ["json_schema"]), ("batch", ["json_schema", "batch"])])
def test_writers_sample_as_in_the_paper_and_an_endpoint_has_the_last_word(
    mode: str, form: list[str], tmp_path: Path
) -> None:
    with serve(batch_seconds=0.0) as server:
        own = {"mine": {}, "smaller": {"temperature": 0.2}}
        config = RevisionDistanceConfig(
            model="mine",
            mode=mode,  # type: ignore[arg-type]
            endpoints={
                name: EndpointConfig(base_url=server.url, model=name, capabilities=form, parameters=output)  # type: ignore[arg-type]
                for name, output in own.items()
            },
            stages={"write_weak": StageConfig(model="smaller")},
            limit=2,
        )
        build(ABOUT.dataset, config, Options(tmp_path, "v1"), tasks=SequentialStages(), progress=Silent())
        counted = server.counters()
    assert parameters(tmp_path) == {
        "check_request": [{}],
        "write": [{**EASY, "temperature": 0.2}, EASY],
        **{prompt: [{"temperature": 1.0}] for prompt in ("related_vanilla", "recall", "segment", "related_cot")},
        **{prompt: [{"seed": 41, "temperature": 0}] for prompt in ("edit_to_reference", "edit_freely")},
        "rate": [{}],
    }
    assert counted["repeated"] == {}
    with closing(open_responses(responses(tmp_path), read_only=True)) as store:
        assert sum(1 for _ in store.scan()) == counted["answered_bodies"]
        assert sum(line["calls"] for line in store.ledger(ABOUT.dataset)) == counted["answered_bodies"]
    assert counted["requests"].get(CHAT, 0) == (counted["answered_bodies"] if mode == "online" else 0)


def test_a_batch_asks_as_its_stage_does_whoever_asked_this_endpoint_before(tmp_path: Path) -> None:
    request = Request((("user", "What is tea?"),), task="x", max_tokens=50)
    with serve(batch_seconds=0.0) as server, Models(tmp_path / "responses.sqlite") as models:
        plain = Endpoint("mine", "m", base_url=server.url, capabilities=frozenset({"batch"}))
        for endpoint in (plain, replace(plain, parameters=(("temperature", 0.5),))):
            models.prefetch(endpoint, [request], stage="s", recipe="", folder=tmp_path / "batches", say=lambda _: None)
            ((_, answer),) = models.client(endpoint).ask([(None, request)])
            assert isinstance(answer, Answer)
            assert answer.cached
        assert server.counters()["answered_bodies"] == 2
        assert CHAT not in server.counters()["requests"]


def test_revise_asks_once_about_a_text_and_stores_no_key(tmp_path: Path) -> None:
    (tmp_path / "draft.txt").write_text("Tea is old. Kettles whistle.\n")
    (tmp_path / "final.txt").write_text("Kettles whistle. Tea is old.\n")
    output = []

    def revise(key: str | None, *more: str) -> int:
        command = [LONGFORM, "revise", "draft.txt", "--reference", "final.txt", "--config", "c.toml", "--home", "home"]
        known = {"MY_KEY": key} if key else {}
        done = subprocess.run(
            [*command, *more], cwd=tmp_path, text=True, capture_output=True, env={**os.environ, **known}, timeout=600
        )
        output.append(done.stdout + done.stderr)
        return done.returncode

    with serve(key=KEY) as server:
        (tmp_path / "c.toml").write_text(
            f'model = "mine"\n[endpoints.mine]\nbase_url = "{server.url}"\nmodel = "m"\nkey_env = "MY_KEY"\n'
            "price = {input = 2.0, output = 8.0}\n"
        )
        assert revise(None) == 3
        assert 'The key MY_KEY of endpoint "mine" is not set.' in output[-1]
        assert revise(WRONG) == 3
        assert "check the key MY_KEY" in output[-1]
        server.script([{"fault": "401-echo"}, {"fault": "refusal"}])
        assert [revise(KEY, "--max-cost", "0.001"), revise(KEY), revise(KEY)] == [4, 3, 1]
        assert output[-1].count("I cannot help with that") == 1
        asked = server.counters()["requests"][CHAT]
        assert revise(KEY) == 1  # remembered
        assert server.counters()["requests"][CHAT] == asked
        assert revise(KEY, "--retry-errors") == revise(KEY) == revise(None, "--json") == 0  # stored: no key is needed
        assert server.counters()["requests"][CHAT] == asked + 1
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    for key in (KEY, WRONG):
        assert not [text for text in output if key in text]
        assert not [content for content in files if key.encode() in content]
