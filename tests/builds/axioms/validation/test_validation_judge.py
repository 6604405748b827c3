"""Builds in which a model compares the sampled pairs: what it decides, and what bad judges do not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from axioms_builds import build_axioms
from bad_models import REFUSALS
from endpoint_server import Server, Verdict, says, server

from flows.axioms import AxiomsConfig
from flows.builds.building import Options, declare, plan
from flows.cli.shared import takedown_effects as effects
from flows.config.endpoints import EndpointConfig, PriceConfig
from flows.config.prompts import PROMPTS
from longform.artifacts.rows import Row
from longform.artifacts.store import Store
from longform.artifacts.takedowns import add
from longform.artifacts.versions import Version, artifact
from longform.errors import GateError
from longform.llm.ask.fence import fenced, unfenced
from longform.llm.ask.prompts import load_prompt
from longform.llm.responses.store import open_responses
from longform.settings import responses
from tasks.axioms.validation.rates import counted

pytestmark = pytest.mark.check

__all__ = ["server"]

SYSTEM = load_prompt("axioms/judge_pairwise", PROMPTS).system.strip()
Judge = Callable[[str, str], str]  # (answer A, answer B) -> the preference, or a whole reply
SMALL: dict[str, Any] = {
    "limit": 8,
    "msmarco": [],
    "eli5": [],
    "webgpt": [],
    "research_questions": [],
    "validation_min_pairs": 6,
}


def reply(preference: str) -> str:
    scores = (70, 50) if preference.endswith("A") else (50, 70)
    return "\n".join([
        *(f"<{name}_{side}>Of {side}: {name}.</{name}_{side}>" for side in "ab" for name in ("strength", "weakness")),
        *(f"<missing_{side}></missing_{side}>" for side in "ab"),
        "<explanation>The longer one says more.</explanation>",
        *(f"<score_{side}>{score}</score_{side}>" for side, score in zip("ab", scores, strict=True)),
        f"<preference>{preference}</preference>",
        "<flaw_a></flaw_a><flaw_b>too narrow</flaw_b>",
        "=====",
    ])  # fmt: skip


def judging(judge: Judge) -> Callable[[dict[str, Any]], Verdict | None]:
    """For `fails`: the replies to the judge's prompt; the rules answer the others."""

    def answer(body: dict[str, Any]) -> Verdict | None:
        if body["messages"][0]["content"].strip() != SYSTEM:
            return None
        shown = dict(unfenced(body["messages"][1]["content"]))
        said = judge(shown["Answer A"], shown["Answer B"])
        return says(said if len(said) > 20 else reply(said))(body)

    return answer


def longer(first: str, second: str) -> str:
    return "strongly A" if len(first) > len(second) else "slightly B"


def endpoint(server: Server, **more: Any) -> EndpointConfig:
    return EndpointConfig(base_url=f"http://127.0.0.1:{server.server_address[1]}/v1", model="m", **more)


def judged(home: Path, server: Server, version: str = "judged", **settings: Any) -> Version:
    made, _, _ = build_axioms(
        home, version, validation_judge="judge", endpoints={"judge": endpoint(server)}, **{**SMALL, **settings}
    )
    assert made is not None
    return made


def rows_of(version: Version, config: str) -> list[Row]:
    files = [path for split in version.configs.get(config, {}) for path in version.files(config, split)]
    return [row for path in files for row in pq.read_table(path).to_pylist()]


def left_out(version: Version) -> dict[str, str]:
    """The sentences of the validation gate: beginning -> all."""
    found = [gate["what"] for gate in version.manifest["gates"] if gate["gate"] == "validation"]
    return {what.partition(" are not")[0]: what for what in found if "left out" in what}


def test_a_judge_decides_where_people_did_not_and_leaves_out_what_it_does_not_prefer(
    tmp_path: Path, server: Server
) -> None:
    before, _, _ = build_axioms(tmp_path, "before", **SMALL)
    assert before is not None
    server.fails = judging(longer)
    version = judged(tmp_path, server)
    sample = rows_of(before, "validation")
    said = rows_of(version, "judgements")
    assert Counter(row["shown_first"] for row in said) == {"preferred": len(sample), "rejected": len(sample)}
    assert {(row["who"], row["annotator_id"], row["model"]) for row in said} == {("judge", "judge", "stand-in-1")}
    assert {*version.configs["judgements"]} == {"judge"}
    # what the lengths of the texts say, where they differ
    rates: dict[str, list[bool]] = {}
    for row in sample:
        if len(row["preferred"]) != len(row["rejected"]):
            rates.setdefault(row["pair_type"], []).append(len(row["preferred"]) > len(row["rejected"]))
    trained = {row["pair_type"] for row in rows_of(before, "pairs") if row["split"] == "train"}
    expected = {
        kind
        for kind, longer in rates.items()
        if kind in trained and len(longer) >= 6 and 10 * sum(longer) < 7 * len(longer)
    }
    assert {f"pairs of {kind}" for kind in expected} == {*left_out(version)}
    assert expected
    assert {row["pair_type"] for row in rows_of(version, "pairs") if row["split"] == "train"} == trained - expected
    by_first = {(row["pair_id"], row["shown_first"]): row for row in said}
    for row in sample:
        one, other = (by_first[row["pair_id"], first] for first in ("preferred", "rejected"))
        if len(row["preferred"]) > len(row["rejected"]):
            assert (one["better"], one["points"], one["preferred_score"], one["rejected_score"]) == (
                *("preferred", 3),
                *(7, 5),
            )
            assert (other["better"], other["points"], other["preferred_flaws"]) == ("preferred", 1, ["too narrow"])


def test_a_judge_that_always_takes_the_first_decides_nothing(tmp_path: Path, server: Server) -> None:
    server.fails = judging(lambda first, second: "strongly A")
    version = judged(tmp_path, server)
    said = rows_of(version, "judgements")
    assert counted(said).decided == 0
    assert not left_out(version)
    last = [gate for gate in version.manifest["gates"] if gate["gate"] == "validation"][-1]
    assert (last["what"], last["found"]) == ("pair types of train are unvalidated", last["checked"])


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        (reply("neither"), "cannot be read"),
        (reply("strongly A").replace("<score_a>70", "<score_a>10"), "cannot be read"),
        (REFUSALS["refusal-en"], "decline"),
    ],
    ids=["a tie", "scores against the preference", "a refusal"],
)
def test_a_judge_of_no_use_is_stopped_and_if_accepted_leaves_nothing_out(
    tmp_path: Path, server: Server, said: str, fault: str
) -> None:
    server.fails = judging(lambda first, second: said)
    with pytest.raises(GateError, match=rf"judge_validation: (\d+) of its first \1 replies {fault}"):
        judged(tmp_path, server)


def test_a_judge_that_answers_in_one_order_alone_decides_nothing(tmp_path: Path, server: Server) -> None:
    server.fails = judging(
        lambda first, second: "strongly A" if len(first) > len(second) else "Nobody can say that of these."
    )
    version = judged(tmp_path, server, accept=["judge_validation"])
    said = rows_of(version, "judgements")
    assert said
    assert counted(said).decided == 0
    assert not left_out(version)


def test_a_plan_bounds_the_price_of_the_judge(tmp_path: Path, server: Server) -> None:
    build_axioms(tmp_path, until="sample_validation", **SMALL)
    priced = endpoint(server, price=PriceConfig(input=1.0, output=2.0))
    config = AxiomsConfig(validation_judge="judge", endpoints={"judge": priced}, **SMALL)
    chosen = Options(tmp_path)
    found, _ = plan(declare("axioms", config, chosen), chosen, priced=True, config=config)
    judge = next(each for each in found.stages if each.stage == "judge_validation")
    files = (tmp_path / "stages" / "sample_validation").rglob("rows.parquet")
    sampled = sum(pq.read_metadata(path).num_rows for path in files)
    assert 1.8 * sampled < judge.calls <= 2 * sampled, "a pair that is of two types is asked about once"
    assert judge.usd_at_most > 0


def test_a_takedown_takes_every_verdict_that_shows_the_post(tmp_path: Path, server: Server) -> None:
    server.fails = judging(longer)
    version = judged(tmp_path, server)
    human = next(row for row in rows_of(version, "validation") if row["preferred_source"] == "human")
    post, text = human["preferred_id"], fenced(human["preferred"])

    def requests() -> dict[str, str]:
        with closing(open_responses(responses(tmp_path), read_only=True)) as store:
            asked = {key: json.loads(record.request)["messages"] for key, record in store.scan()}
        return {key: of[1]["content"] for key, of in asked.items() if of[0]["content"].strip() == SYSTEM}

    before = requests()
    showing = {key for key, prompt in before.items() if text in prompt}
    made_from = {row["response"] for row in rows_of(version, "judgements") if post in row["parent_ids"]}
    assert showing
    add(tmp_path, [(post, "2026-11-24", "asked")])
    effects.purge_responses(tmp_path, [post])
    assert before.keys() - requests().keys() >= showing | made_from
    again = judged(tmp_path, server, "again")
    shown = {key for row in rows_of(again, "judgements") for key in (row["preferred_id"], row["rejected_id"])}
    assert post not in shown
    assert artifact(Store(tmp_path), again, "judge_validation").rows
