"""The ExpertQA flow over HTTP: plans, costs, retries, kills and rebuilding."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from axioms_builds import Silent
from killed_builds import answered, asked_twice, calls, killed_when, start
from standin_server import Server, serve

from flows.builds.building import Options, build, declare, plan
from flows.cli.shared.responses import export, load
from flows.config.prompts import PROMPTS
from flows.expertqa import SAMPLES, ExpertqaConfig
from longform.artifacts.versions import Version
from longform.engine.build import Build
from longform.engine.plan import Planned
from longform.engine.thread_tasks import SequentialStages
from longform.errors import BudgetError
from longform.llm.responses.store import open_responses
from longform.settings import responses

pytestmark = pytest.mark.check

LINES = 5
PRICE = {"input": 1.0, "output": 4.0}
BEFORE = {  # stage that asks a model -> the one that has to be built for an exact plan
    "write_closed_book": "find_for_questions",
    "write_from_passages": "write_closed_book",
    "estimate_attribution": "collect_labels",
    "break_claims": "estimate_attribution",
    "judge_facts": "find_for_facts",
    "revise_answers": "judge_facts",
}
PROMPT = {
    "write_closed_book": "closed_book",
    "write_from_passages": "from_passages",
    "estimate_attribution": "entails",
    "break_claims": "break_claim",
    "judge_facts": "judge_fact",
    "revise_answers": "revise",
}
BUILDER = """
import json, sys
from pathlib import Path
from tests.flows.test_expertqa_models import made
if __name__ == "__main__":
    made(Path(sys.argv[1]), sys.argv[2], **json.loads(sys.argv[3]))
"""


def settings(
    home: Path, url: str, capabilities: tuple[str, ...] = ("json_schema",), concurrency: int = 16, **more: Any
) -> ExpertqaConfig:
    """Five of the sample questions, answered by all systems."""
    bank = home.parent / "questions.jsonl"
    if not bank.exists():
        bank.parent.mkdir(parents=True, exist_ok=True)
        bank.write_text("".join((SAMPLES / "questions.jsonl").read_text().splitlines(keepends=True)[:LINES]))
    mine: dict[str, Any] = {"base_url": url, "model": "m", "capabilities": list(capabilities), "price": PRICE}
    mine |= {"concurrency": concurrency}
    files = {name: str(SAMPLES / f"{name}.jsonl") for name in ("corpus", "pages")}
    given = {"questions": str(bank), **files, "autoais": "model", "model": "mine", "endpoints": {"mine": mine}}
    return ExpertqaConfig(**{**given, **more})


def made(home: Path, url: str, *, options: dict[str, Any] | None = None, **more: Any) -> tuple[Version | None, Build]:
    chosen = Options(home, **(options or {}))
    published, run = build("expertqa", settings(home, url, **more), chosen, tasks=SequentialStages(), progress=Silent())
    return published.version if published else None, run


def planned(home: Path, url: str, **more: Any) -> dict[str, Planned]:
    options = Options(home)
    found, _ = plan(declare("expertqa", settings(home, url, **more), options), options, priced=True)
    return {each.stage: each for each in found.stages}


def paid(home: Path) -> dict[str, tuple[int, int]]:
    """prompt -> (stored replies, USD in billionths)"""
    with closing(open_responses(responses(home), read_only=True)) as store:
        return {row["task"].split("/")[1]: (row["answers"], row["cost_nano"]) for row in store.stats()}


def files(version: Version | None) -> dict[str, bytes]:
    assert version is not None
    return {str(p.relative_to(version.folder)): p.read_bytes() for p in version.folder.rglob("*") if p.is_file()}


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as server:
        yield server


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Version]:
    """A build, and the replies exported from it."""
    home = tmp_path_factory.mktemp("origin") / "home"
    with serve() as server:
        version, _ = made(home, server.url)
        assert asked_twice(server) == 0
    assert version is not None
    assert export(home, home.parent / "responses.parquet", version).missing == 0
    return home, version


@pytest.mark.parametrize("capabilities", [("json_schema",), ()])
def test_the_plan_of_each_stage_tells_its_calls_and_what_is_paid_lies_between(
    tmp_path: Path, server: Server, capabilities: tuple[str, ...]
) -> None:
    home, given = tmp_path / "home", {"capabilities": capabilities}
    for stage, before in BEFORE.items():
        made(home, server.url, options={"until": before}, **given)
        output, asked, tokens = planned(home, server.url, **given)[stage], calls(server), server.counters()["tokens"]
        made(home, server.url, options={"until": stage}, **given)
        sent = server.counters()["tokens"]["prompt"] - tokens["prompt"]
        replies, cost = paid(home)[PROMPT[stage]]
        assert (output.exact, output.calls, output.cached) == (True, replies, 0), stage
        assert calls(server) - asked == replies > 0, stage
        assert output.input_tokens == pytest.approx(sent, rel=0.15), stage
        assert (output.usd_low or 0) <= cost / 1e9 <= (output.usd_high or 0), stage
    version, run = made(home, server.url, **given)
    assert version is not None
    assert run.models.budget.spent_nano == 0
    assert {each.state for each in planned(home, server.url, **given).values()} == {"reuse"}


def test_a_plan_bounds_what_is_asked_as_far_as_settings_do(tmp_path: Path, server: Server) -> None:
    home = tmp_path / "home"
    made(home, server.url, options={"until": "take_questions"})
    found = planned(home, server.url)
    assert (found["write_closed_book"].calls, found["write_closed_book"].exact) == (LINES, True)
    assert (found["write_from_passages"].calls, found["write_from_passages"].known) == (2 * LINES, "at most")
    made(home, server.url, options={"until": "link_cited_pages"})
    found = planned(home, server.url)
    assert found["judge_facts"].known == "unknown until read"  # a claim has any number of facts
    assert found["judge_facts"].calls is None
    assert found["revise_answers"].calls is not None


def test_post_hoc_systems_ask_nothing_and_only_what_changed_is_asked_again(
    tmp_path: Path, origin: tuple[Path, Version]
) -> None:
    home, _ = origin
    before = paid(home)
    assert before["closed_book"][0] == LINES
    assert before["from_passages"][0] == 2 * LINES
    folder = tmp_path / "prompts" / "expertqa"
    folder.mkdir(parents=True)
    text = (PROMPTS / "expertqa" / "judge_fact.md").read_text()
    (folder / "judge_fact.md").write_text(text.replace("# user\n", "Be careful.\n# user\n", 1))
    changes: list[tuple[dict[str, Any], set[str]]] = [
        ({"licence": "MIT"}, set()),
        ({"autoais": "lexical"}, set()),
        ({"prompts": str(folder.parent)}, {"judge_fact"}),
        ({"most_claims": 4}, {"break_claim", "entails", "judge_fact", "revise"}),
    ]
    for number, (change, may) in enumerate(changes):
        with serve() as server:
            held = paid(home)
            made(home, server.url, options={"version": f"w{number}"}, **change)
            assert {name for name, expected_message in paid(home).items() if expected_message != held[name]} <= may, (
                change
            )
            assert (calls(server) > 0) == bool(may & {"judge_fact"}), change
            assert asked_twice(server) == 0


def test_a_version_is_rebuilt_from_its_responses_with_the_server_gone(
    tmp_path: Path, origin: tuple[Path, Version]
) -> None:
    home, version = origin
    other = tmp_path / "home"
    load(other, home.parent / "responses.parquet")
    again, run = made(other, "http://127.0.0.1:9/v1", questions=str(home.parent / "questions.jsonl"))
    assert files(again) == files(version)
    assert run.models.budget.spent_nano == 0


def test_money_that_runs_out_stops_the_build_and_more_goes_on_from_there(tmp_path: Path, server: Server) -> None:
    home = tmp_path / "home"
    for limit in (0.02, 0.045):
        with pytest.raises(BudgetError, match="go on from there"):
            made(home, server.url, options={"max_cost": limit})
        last = json.loads(max((home / "runs" / "expertqa").glob("*.json")).read_text())
        assert last["spent_usd"] <= limit
    version, _ = made(home, server.url, options={"max_cost": 1.0})
    assert version is not None
    assert asked_twice(server) == 0
    assert sum(number for number, _ in paid(home).values()) == answered(server)


def test_kills_while_a_model_is_asked_cost_no_more_than_what_was_in_flight(tmp_path: Path) -> None:
    home, answers = tmp_path / "home", 8
    with serve(latency_seconds=0.05) as server:
        for task in ("write_from_passages", "judge_facts"):
            made(home, server.url, options={"until": BEFORE[task]}, concurrency=2)
            reached = calls(server) + answers + 2
            server.script([{}] * answers + [{"fault": "slow", "seconds": 3_600}] * 2)  # so that it cannot end
            given = json.dumps({"options": {"until": task}, "concurrency": 2})
            with start(BUILDER, home, server.url, given) as build:
                killed_when(build, lambda reached=reached: calls(server) >= reached)
        version, _ = made(home, server.url, concurrency=2)
        assert version is not None
        print(f"asked twice {asked_twice(server)}")
        assert 0 < asked_twice(server) <= 2 * 2  # of 8 that were answered before each kill


def test_an_unreadable_model_reply_is_a_rejected_row_with_its_text(tmp_path: Path) -> None:
    with serve(say="Opinions on that differ from town to town.\n=====") as server:
        accept = {"accept": [*ExpertqaConfig.MODEL_STAGES, "missing_kinds"]}
        version, run = made(tmp_path / "home", server.url, options=accept, capabilities=())
    assert version is not None
    wrong = {}
    for entry in run.done:
        for part in entry.artifact.parts:
            if part.rejected_sha256:
                rows = pq.read_table(run.store.rejected_path(part)).to_pylist()
                wrong |= {(entry.stage, row["reason"]): row["raw"] for row in rows if row["kind"] == "defect"}
    assert "differ from town" in wrong["break_claims", "model: invalid"]
    claims = pq.read_table(version.folder / "claims" / "full").to_pylist()
    assert claims
    assert {claim["fact_score"] for claim in claims} == {None}  # not scored is not zero
    card = (version.folder / "README.md").read_text()
    assert "offline-rules-1" in card
