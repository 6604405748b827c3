"""FActScore: claims broken up, atomic claims judged, scores and table 8."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from autoais_claims import claim, given_claims, made_rejections
from hypothesis import given
from hypothesis import strategies as st
from standin_server import Server, serve, standin
from toy_stages import building, source

from flows.config.prompts import PROMPTS
from longform.engine.stage import Rejected, Row, Rows, StageContext, stage
from longform.llm.ask.prompts import load_prompt
from longform.llm.ask.types import Endpoint
from longform.llm.offline import MODEL
from schemas.expertqa import FOUND_FOR_FACTS
from schemas.replies import AtomicClaims
from tasks.answers import NO_MODEL
from tasks.expertqa.estimates.factscore import (
    atomic_claims,
    best_passages,
    break_claims,
    fact_score,
    judge_facts,
    leave_facts,
)

__all__ = ["standin"]

OFFLINE = Endpoint("offline", MODEL)
PAGE = "Casks are served at 12 degrees. Kegs need a tap."


def passage(corpus: str, name: str, text: str = "", score: float = 1.0) -> Row:
    return {
        "corpus": corpus,
        "passage_id": name,
        "url": "https://example.org/",
        "title": None,
        "text": text or name,
        "score": score,
    }


@stage(FOUND_FOR_FACTS, revision=1)
def find_given(context: StageContext, facts: Rows, *, pages: str) -> Iterator[Row | Rejected]:
    """The passages that `pages`, a JSON list, holds, for each fact; none for facts that speak of nothing found."""
    for fact in facts:
        found = [] if "unknown" in fact["text"].lower() else json.loads(pages)
        yield {"fact_id": fact["fact_id"], "question_id": fact["question_id"], "passages": found}


def scored(
    home: Path, claims: list[Row], pages: list[Row], model: Endpoint = OFFLINE, judge: Endpoint | None = None
) -> dict[str, Any]:
    """The rows of both stages, and why claims and facts have none; `judge` judges, where it is not the model."""
    file = home / "claims.jsonl"
    home.mkdir(exist_ok=True)
    file.write_text("".join(f"{json.dumps(row)}\n" for row in claims))
    breaks, judges = (load_prompt(f"expertqa/{name}", PROMPTS) for name in ("break_claim", "judge_fact"))
    with building(home, accept=("break_claims", "judge_facts")) as run:
        read = given_claims(run, [source(file, "expertqa")])
        facts = break_claims(run, read, model=model, prompt=breaks)
        judged = judge_facts(
            run, facts, find_given(run, facts, pages=json.dumps(pages)), model=judge or model, prompt=judges
        )
        return {
            "facts": list(facts),
            "judged": list(judged),
            "broken": dict(made_rejections(facts)),
            "unjudged": dict(made_rejections(judged)),
        }


# ---------------------------------------------------------------- stages

GIVEN = [
    claim(0, "Casks are served at 12 degrees [1]."),
    claim(1, "Casks are served at 4 degrees [1] [2]."),
    claim(2, "The unknown is unknown."),
]


def test_the_offline_model_breaks_claims_up_and_judges_what_was_found_for_them(tmp_path: Path) -> None:
    found = scored(tmp_path, GIVEN, [passage("sphere", "p1", PAGE)])
    facts = found["facts"]
    assert [fact["fact_id"] for fact in facts] == ["a_1#0.0", "a_1#1.0", "a_1#2.0"]
    assert [fact["text"] for fact in facts][:2] == ["Casks are served at 12 degrees.", "Casks are served at 4 degrees."]
    assert all(fact["model"] == MODEL and fact["prompt"] == "expertqa/break_claim" for fact in facts)
    judged = found["judged"]
    assert [row["fact_id"] for row in judged] == [fact["fact_id"] for fact in facts]
    assert [row["is_true"] for row in judged] == [True, False, None]
    assert [row["passages"] for row in judged] == [["p1"], ["p1"], []]
    assert [row["response"] is None for row in judged] == [False, False, True]
    assert judged[2] | NO_MODEL == judged[2]
    assert [row["claim_id"] for row in judged] == ["a_1#0", "a_1#1", "a_1#2"]
    assert [fact_score([row["is_true"]]) for row in judged] == [1.0, 0.0, None]
    assert found == scored(tmp_path / "again", GIVEN, [passage("sphere", "p1", PAGE)])


def test_a_claim_without_atomic_claims_is_rejected_and_counted(tmp_path: Path) -> None:
    with serve(say=json.dumps({"atomic_claim": [" ", "- ", "…"]})) as server:
        found = scored(tmp_path, [claim(0, "Well, well."), claim(1, "[1] …")], [], endpoint(server))
    assert (found["facts"], found["judged"]) == ([], [])
    assert found["broken"] == {"a_1#0": "model: empty", "a_1#1": "no atomic claim"}  # of words there is one


def endpoint(server: Server) -> Endpoint:
    return Endpoint("mine", "m", base_url=server.url, capabilities=frozenset(["json_schema"]), concurrency=1)


def test_calls_that_fail_are_rejected_rows_and_no_judgement(tmp_path: Path, standin: Server) -> None:
    standin.script([{"fault": "refusal"}, {}, {}, {"fault": "filtered"}])
    found = scored(tmp_path, GIVEN, [passage("sphere", "p1", PAGE)], endpoint(standin))
    assert found["broken"] == {"a_1#0": "model: refusal"}
    assert list(found["unjudged"].values()) == ["model: filter"]
    assert len(found["judged"]) == len(found["facts"]) - 1
    assert {row["is_true"] for row in found["judged"]} == {None}


TAGGED = "<verdict>{}</verdict>\n====="


@pytest.mark.parametrize(
    ("said", "is_true"),
    [
        (TAGGED.format("True."), True),
        (TAGGED.format("**FALSE**"), False),
        ("The passage is clear.\n" + TAGGED.format("true"), True),
        ('Here:\n```json\n{"verdict": false}\n```\nWell.', False),
        (TAGGED.format("not false"), None),
        (TAGGED.format("true or false"), None),
        (TAGGED.format("false") + TAGGED.format("true"), None),
        ("<verdict>tr", None),
        ('{"verdict": "true"} {"verdict": "false"}', None),
        ("It is not false.", None),
        ("I cannot help with that.\n=====", None),
        (" ", None),
    ],
)
@pytest.mark.parametrize("capabilities", [["json_schema"], []])
def test_a_verdict_is_read_right_or_not_at_all(
    tmp_path: Path, said: str, is_true: bool | None, capabilities: list[str]
) -> None:
    with serve(say=said) as server:
        judge = Endpoint("mine", "m", base_url=server.url, capabilities=frozenset(capabilities), concurrency=1)
        found = scored(tmp_path, GIVEN[:1], [passage("sphere", "p1", PAGE)], judge=judge)
    assert [row["is_true"] for row in found["judged"]] == ([] if is_true is None else [is_true])
    assert list(found["unjudged"]) == (["a_1#0.0"] if is_true is None else [])


def test_two_hundred_atomic_claims_are_kept_and_repeated_ones_are_one(tmp_path: Path) -> None:
    texts = [f"Cask {number} is cold." for number in range(200)]
    with serve(say=json.dumps({"atomic_claim": [*texts, *texts[::-1], "- Cask 7  is cold."]})) as server:
        found = scored(tmp_path, GIVEN[:1], [passage("sphere", "p1", PAGE)], endpoint(server), judge=OFFLINE)
    assert [fact["text"] for fact in found["facts"]] == texts
    assert [row["fact_id"] for row in found["judged"]] == [f"a_1#0.{number}" for number in range(200)]


def test_factscore_can_be_left_out(tmp_path: Path) -> None:
    file = tmp_path / "claims.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in GIVEN))
    with building(tmp_path, accept=("break_claims", "judge_facts")) as run:
        left = leave_facts(run, given_claims(run, [source(file, "expertqa")]))
        assert list(left) == []
        assert set(dict(made_rejections(left)).values()) == {"FActScore not asked for"}


def test_atomic_claims_are_on_one_line_and_distinct() -> None:
    said = AtomicClaims(atomic_claim=["Kegs\n hold beer.", "- Taps leak.", "", "Kegs hold beer.", "-", "Taps leak."])
    assert atomic_claims(said) == ["Kegs hold beer.", "Taps leak."]


def test_every_passage_that_was_found_is_read_once_the_best_of_each_corpus_first() -> None:
    found = [
        passage("sphere", "s1", score=0.1),
        passage("sphere", "s2", score=0.05),
        passage("gs", "g1", score=900.0),
        passage("gs", "g2", "s1", score=800.0),
        passage("gs", "g3", score=700.0),
    ]
    assert [row["passage_id"] for row in best_passages(found)] == ["s1", "g1", "s2", "g3"]
    many = [passage("gs", f"g{number}") for number in range(20)]
    assert best_passages(many) == many
    assert best_passages([]) == []


# ---------------------------------------------------------------- figures


def test_the_score_of_a_claim_is_the_share_of_its_judged_atomic_claims_that_are_true() -> None:
    assert fact_score([True, False, True, None]) == 2 / 3
    assert fact_score([False]) == 0.0
    assert fact_score([None, None]) is fact_score([]) is None


@given(st.lists(st.sampled_from([True, False, None])))
def test_pandas_says_the_same_of_a_claim(values: list[bool | None]) -> None:
    mean = pd.Series([None if value is None else float(value) for value in values], dtype=float).mean()
    assert fact_score(values) == (None if math.isnan(mean) else pytest.approx(mean))
