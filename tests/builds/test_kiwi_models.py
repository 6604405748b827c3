"""Builds of kiwi with a model server that is partly or wholly wrong: stopped with one sentence, or turns rejected with
a reason; turns of people never rejected; money as planned; nothing asked twice, also after a kill in a simulation.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from axioms_builds import Silent
from bad_models import BAD, replies, said
from endpoint_server import Server, server
from killed_builds import CHAT, killed_when, run
from model_builds import built, mine
from standin_server import serve

from flows.builds.building import Options, declare, plan
from flows.builds.building import build as run_build
from flows.cli.shared.verification import check
from flows.config.endpoints import EndpointConfig
from flows.kiwi import PROMPT_NAMES, KiwiConfig
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, artifact
from longform.engine.plan import total
from longform.engine.thread_tasks import SequentialStages
from longform.errors import GateError, Incomplete
from longform.llm.ask.fence import unfenced

pytestmark = pytest.mark.check

__all__ = ["server"]

REVISIONS = ("kiwi/update_information", "kiwi/update_style")
WRITTEN = ("kiwi/answer", *REVISIONS)
OF_PEOPLE = 36  # turns of the samples
GOOD = "<rating>good</rating><comment>As I asked.</comment><edited></edited>"


def config_of(server: Server, **more: Any) -> KiwiConfig:
    return KiwiConfig(**mine(server, "kiwi", PROMPT_NAMES, **{"generate": False, "turns": 2, **more}))


def refused(config: KiwiConfig, home: Path) -> str:
    with pytest.raises(GateError) as caught:
        built("kiwi", config, home)
    assert not any((home / "datasets").rglob("*.parquet"))
    return str(caught.value)


def rows(version: Version, config: str = "turns") -> list[dict[str, Any]]:
    return [row for path in version.tables().get(config, []) for row in pq.read_table(path).to_pylist()]


def rejected(home: Path, version: Version, stage: str) -> dict[str, int]:
    """reason -> rows, of a stage of this version."""
    return artifact(Store(home), version, stage).reasons("defect") | artifact(Store(home), version, stage).reasons(
        "filtered"
    )


def in_german(good: str, prompt: str) -> str:
    return f"{BAD['language'](good, prompt)} [0]"


def without_references(good: str, prompt: str) -> str:
    return re.sub(r"\s?\[\d+\]", "", good)


def unchanged(good: str, prompt: str) -> str:
    return dict(unfenced(prompt))["Previous answer"]


# ---------------------------------------------------------------- wholly wrong


@pytest.mark.parametrize(
    ("change", "tasks", "sentence"),
    [
        (BAD["language"], ("kiwi/answer",), "language: "),
        (BAD["fence"], ("kiwi/answer",), "wrapped: "),
        (BAD["refusal-en"], ("kiwi/answer",), "replies decline"),
        (BAD["word"], ("kiwi/answer",), "one word"),
        (BAD["same"], ("kiwi/answer",), "repeat that to another question"),
        (in_german, REVISIONS, "language: "),
        (BAD["fence"], REVISIONS, "wrapped: "),
        (BAD["json"], REVISIONS, "wrapped: "),
        (BAD["preamble"], REVISIONS, "wrapped: "),
        (BAD["loop"], REVISIONS, "the same words over and over"),
        (BAD["refusal-de"], REVISIONS, "replies decline"),
        (without_references, REVISIONS, "references_lost: "),
        (unchanged, REVISIONS, "simulate_sessions: "),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_generated_texts_that_are_none_are_not_published(
    change: Callable[[str, str], str], tasks: tuple[str, ...], sentence: str, tmp_path: Path, server: Server
) -> None:
    config = config_of(server)
    server.fails = replies(server, change, tasks=tasks)
    assert sentence in refused(config, tmp_path)


@pytest.mark.parametrize("task", ["kiwi/instruct", "kiwi/rate", "kiwi/judge", "kiwi/classify_instruction"])
def test_a_structured_reply_that_cannot_be_read_stops_its_stage(task: str, tmp_path: Path, server: Server) -> None:
    config = config_of(server)
    server.fails = replies(server, BAD["same"], tasks=[task])
    stages = {"instruct": "simulate_sessions", "rate": "simulate_sessions", "judge": "judge_following"}
    stage = stages.get(task.removeprefix("kiwi/"), "label_instructions")
    assert refused(config, tmp_path).startswith(f"{stage}: ")


@pytest.mark.parametrize("task", WRITTEN)
def test_replies_that_are_cut_stop_the_build(task: str, tmp_path: Path, server: Server) -> None:
    config = config_of(server)
    server.fails = replies(server, lambda good, prompt: good[:40], tasks=[task], finish="length")
    assert "cut" in refused(config, tmp_path)


def test_a_reader_that_finds_everything_good_is_published_as_what_it_is(tmp_path: Path, server: Server) -> None:
    config = config_of(server)
    server.fails = lambda body: (
        said(f"{GOOD}\n=====") if server.tasks.get(body["messages"][0]["content"].strip()) == "kiwi/rate" else None
    )
    version = built("kiwi", config, tmp_path)
    assert {row["rating"] for row in rows(version) if row["origin"] == "simulated"} == {"good"}
    tables = json.loads((version.folder / "tables.json").read_text())
    errors = next(table["rows"] for table in tables if "table 4" in table["title"])
    assert sum(row["turns"] or 0 for row in errors) == 18, "of people alone"


# ---------------------------------------------------------------- partly wrong


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda good, prompt: "", "model: "),
        (in_german, "audit: language"),
        (BAD["fence"], "audit: wrapped"),
        (without_references, "audit: references_lost"),
        (unchanged, "audit: unchanged_answer"),
        (BAD["refusal-en"], "model: "),
    ],
    ids=["empty", "language", "fence", "references", "unchanged", "refusal"],
)
def test_a_few_bad_revisions_are_rejected_turns_and_their_sessions_go_on(
    change: Callable[[str, str], str], reason: str, tmp_path: Path, server: Server
) -> None:
    config = config_of(server)
    server.fails = replies(server, change, tasks=REVISIONS, share=0.15)
    accept = ["simulate_sessions", "references_lost", "unchanged_answer", "language", "wrapped", "missing_kinds"]
    version = built("kiwi", config, tmp_path, accept=accept)
    found = {name: count for name, count in rejected(tmp_path, version, "simulate_sessions").items() if reason in name}
    assert sum(found.values()) >= 1, rejected(tmp_path, version, "simulate_sessions")
    made = [row for row in rows(version) if row["origin"] == "simulated"]
    assert made
    assert sum(row["origin"] != "simulated" for row in rows(version)) == OF_PEOPLE
    sessions = {row["session_id"]: row for row in rows(version, "sessions")}
    for name, session in sessions.items():
        places = sorted(row["position"] for row in rows(version) if row["session_id"] == name)
        assert places == [*range(1, session["turns"] + 1)]
    assert list(check(Store(tmp_path), version)) == []


def test_turns_of_people_are_never_rejected_whatever_they_hold(tmp_path: Path, server: Server) -> None:
    turn = {"instruction": "Go on.", "instruction_type": "stylistic", "rating": "good", "comment": "Fine."}
    bad = ["Jars hold tea [0].", "```\nJars hold tea.\n```", "Die Fässer lagern im Keller unter dem Haus.", "Sorry."]
    session = {
        "initial_question": "How are jars kept closed over a whole winter?",
        "model_name": "m",
        "annotator_id": "a1",
        "initial_answer": "Jars hold tea [0].",
        "interaction": [{**turn, "answer_1": text} for text in bad],
    }
    (tmp_path / "own.jsonl").write_text(json.dumps(session))
    config = config_of(server, sessions=str(tmp_path / "own.jsonl"), turns=0)
    version = built("kiwi", config, tmp_path / "home", accept=["missing_kinds"])
    assert [row["answer"] for row in sorted(rows(version), key=lambda row: row["position"])] == bad


# ---------------------------------------------------------------- money, and nothing twice


def test_calls_are_at_most_as_planned_and_nothing_is_asked_twice(tmp_path: Path, server: Server) -> None:
    config = config_of(server, generate=True)
    options = Options(tmp_path, "v1")
    planned, _ = plan(declare("kiwi", config, options), options, priced=True)
    assert server.bodies.total() == 0
    bound = total(planned.stages)["calls"]
    built("kiwi", config, tmp_path, version="v1")
    assert 0 < server.bodies.total() <= bound
    assert {*server.bodies.values()} == {1}
    before = server.bodies.total()
    built("kiwi", config.model_copy(update={"shots": 10, "seed": 4, "venues": ["measurement"]}), tmp_path, version="v2")
    assert server.bodies.total() == before


def test_two_writers_answer_in_sessions_of_their_own(tmp_path: Path, server: Server) -> None:
    version = built("kiwi", config_of(server, writers=["mine", "weak"], turns=1), tmp_path)
    of_system = {
        system: {row["question_id"] for row in rows(version) if row["system"] == system} for system in ("mine", "weak")
    }
    assert of_system["mine"] == of_system["weak"] != set()
    assert {*server.bodies.values()} == {1}


def test_an_endpoint_with_embeddings_finds_passages_and_is_asked_for_each_text_once(
    tmp_path: Path, server: Server
) -> None:
    """The vector of a text counts its letters, so the nearest texts are known without the code that is tested."""
    asked: list[str] = []

    def embeds(body: dict[str, Any]) -> Any:
        if "input" not in body:
            return None
        asked.extend(body["input"])
        data = [
            {"index": n, "embedding": [float(text.lower().count(letter)) + 0.01 for letter in "abcdefghijklmno"]}
            for n, text in enumerate(body["input"])
        ]
        usage = {"prompt_tokens": 5, "total_tokens": 5}
        return 200, {}, json.dumps({"model": "e", "data": data, "usage": usage}).encode()

    base = f"http://127.0.0.1:{server.server_address[1]}/v1"
    config = config_of(server, retrieval="hybrid", embedding="vectors", turns=2, writers=["mine", "weak"])
    config = config.model_copy(
        update={"endpoints": {**config.endpoints, "vectors": EndpointConfig(base_url=base, model="e")}}
    )
    server.fails = embeds
    options = Options(tmp_path, until="split_passages")
    run_build("kiwi", config, options, tasks=SequentialStages(), progress=Silent())
    options = Options(tmp_path, until="simulate_sessions")
    planned, _ = plan(declare("kiwi", config, options), options, priced=True)
    assert not asked
    run_build("kiwi", config, options, tasks=SequentialStages(), progress=Silent())
    assert 0 < server.bodies.total() <= total(planned.stages)["calls"]
    version = built("kiwi", config, tmp_path)
    assert asked
    shown = [row for row in rows(version) if row["origin"] == "simulated" and row["kind"] == "information"]
    assert shown
    assert all(len({each["passage_id"] for each in row["passages"]}) == 5 for row in shown)
    before = len(asked)
    built("kiwi", config.model_copy(update={"shots": 3}), tmp_path, version="again")
    assert len(asked) == before


def test_in_batch_mode_questions_that_wait_for_vectors_need_single_calls_and_the_error_says_so(tmp_path: Path) -> None:
    with serve(batch_seconds=0.0) as model:
        endpoint = {"base_url": model.url, "model": "m", "capabilities": ["json_schema", "batch"]}
        chosen: dict[str, Any] = {"model": "mine", "mode": "batch", "retrieval": "dense", "embedding": "mine"}
        chosen |= {"endpoints": {"mine": endpoint}, "generate": False, "limit": 2}
        options = Options(tmp_path, until="answer_first")
        with pytest.raises(Incomplete, match=r'answer_first.*unbatched = "online"'):
            run_build("kiwi", KiwiConfig(**chosen), options, tasks=SequentialStages(), progress=Silent())
        assert CHAT not in model.counters()["requests"]
        chosen["unbatched"] = "online"
        run_build("kiwi", KiwiConfig(**chosen), options, tasks=SequentialStages(), progress=Silent())
        assert model.counters()["requests"][CHAT] > 0


DRIVER = """
import json, sys
from pathlib import Path
from axioms_builds import Silent
from flows.builds.building import Options, build
from flows.kiwi import KiwiConfig
from longform.engine.thread_tasks import SequentialStages
if __name__ == "__main__":
    build("kiwi", KiwiConfig(**json.loads(sys.argv[2])), Options(Path(sys.argv[1]), "v1"), tasks=SequentialStages(),
          progress=Silent())
"""


@pytest.mark.parametrize("task", ["kiwi/instruct", "kiwi/summarise", *REVISIONS, "kiwi/rate"])
def test_a_simulation_that_is_killed_goes_on_and_asks_nothing_again_that_was_answered(
    task: str, tmp_path: Path, server: Server
) -> None:
    own = EndpointConfig(base_url=f"http://127.0.0.1:{server.server_address[1]}/v1", model="m", concurrency=1)
    config = config_of(server, endpoints={"mine": own})
    seen: list[str] = []

    def notes(body: dict[str, Any]) -> None:
        seen.append(server.tasks.get(body["messages"][0]["content"].strip(), ""))

    server.fails = notes  # type: ignore[assignment]
    words = [sys.executable, "-c", DRIVER, tmp_path, config.model_dump_json(exclude_defaults=True)]
    with run(words) as process:
        killed_when(process, lambda: seen.count(task) >= 3)
    assert not any((tmp_path / "datasets").rglob("*.parquet"))
    version = built("kiwi", config, tmp_path, version="v1")
    assert sum(server.bodies.values()) - len(server.bodies) <= 1, "what was under way alone"
    whole = built("kiwi", config, tmp_path / "whole", version="v1")
    assert published(version) == published(whole)


def published(version: Version) -> dict[str, bytes]:
    """file -> its bytes, of the tables of a version."""
    return {str(path.relative_to(version.folder)): path.read_bytes() for path in version.folder.rglob("*.parquet")}
