"""Builds of research questions from the samples: answers in every condition, pairs for people, judgements, tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from axioms_builds import build_axioms
from endpoint_server import Server, server
from killed_builds import CHAT
from model_builds import built, mine
from paths import ROOT
from pydantic import ValidationError
from standin_server import serve

from flows.axioms import AxiomsConfig
from flows.builds.building import Options, declare, plan
from flows.config.endpoints import StageConfig
from flows.config.prompts import PROMPTS
from flows.preference.research import CONVERSING_STAGES
from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from tasks.annotation.form import arranged
from tasks.annotation.sheets import jsonl
from tasks.axioms.research.answers import CONDITIONS
from tasks.axioms.research.compared import FORM, sheets

__all__ = ["server"]

PROMPT_NAMES = sorted(path.stem for path in (PROMPTS / "axioms").glob("*.md"))
SAMPLES = ROOT / "data" / "samples" / "research"
QUESTIONS = str(SAMPLES / "questions.jsonl")
CHEAP: dict[str, Any] = {
    "dump": str(ROOT / "data" / "samples" / "community.example"), "eli5": [], "webgpt": [], "limit": 3, "negatives": 2,
    "research_questions": QUESTIONS, "validation_pairs": 0,
}  # fmt: skip


def rows(version: Version, config: str) -> list[dict[str, Any]]:
    return [row for path in version.tables().get(config, []) for row in pq.read_table(path).to_pylist()]


@pytest.fixture(scope="module")
def research(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Version]:
    home = tmp_path_factory.mktemp("home")
    version, _, _ = build_axioms(home, **CHEAP)
    assert version is not None
    return home, version


def test_every_condition_answers_and_every_step_and_score_is_there(research: tuple[Path, Version]) -> None:
    _, version = research
    answers = rows(version, "research")
    assert {row["condition"] for row in answers} == set(CONDITIONS)
    assert {row["research_question_id"] for row in answers} == {f"r{n}" for n in range(1, 7)}
    for row in answers:
        numbers = [each["number"] for each in row["evidence"]]
        assert numbers == list(range(1, len(numbers) + 1))
        assert set(row["cites"]) <= set(numbers)
        assert [each["scorer"] for each in row["scores"]] == ["length", "bm25", "judge:offline"]
        assert row["words"] == len(row["text"].split()) == row["scores"][0]["score"]
    steps = pd.DataFrame(rows(version, "research_steps"))
    assert set(steps.research_answer_id) == {row["research_answer_id"] for row in answers}
    updates = steps[(steps.condition == "assistant_guided") & (steps.kind == "update")]
    assert (updates.score > updates.score_before)[updates.kept].all()
    assert not updates.kept.all()
    assert steps[steps.condition == "assistant_naive"].score.isna().all()


def test_guided_and_naive_differ_and_repairs_name_what_they_repair(research: tuple[Path, Version]) -> None:
    _, version = research
    of = {(row["research_question_id"], row["condition"]): row for row in rows(version, "research")}
    both = [(of[q, "assistant_naive"], of[q, "assistant_guided"]) for q in ("r2", "r3", "r4")]
    assert any(naive["text"] != guided["text"] for naive, guided in both)
    ids = {row["research_answer_id"]: row for row in of.values()}
    repaired = [row for row in of.values() if row["condition"] == "repair"]
    assert repaired
    for row in repaired:
        start = ids[row["made_from"]]
        assert start["condition"] == "assistant_guided"
        assert row["text"] != start["text"]
        assert row["score"] >= start["score"]


def test_people_compare_pairs_and_the_report_says_how_scorers_agree(research: tuple[Path, Version]) -> None:
    home, version = research
    found = sheets(Store(home), version)
    pairs = {row["research_pair_id"]: row for row in rows(version, "research_pairs")}
    assert len(found.tasks) == len(pairs) > 20
    assert all(row["text_a"] != row["text_b"] and row["kind_a"] != row["kind_b"] for row in pairs.values())
    records = [json.loads(line) for line in jsonl(FORM, arranged(FORM, found.tasks, 0)).splitlines()]
    shown = "".join(map(json.dumps, records[0]))
    assert not any(condition in shown for condition in CONDITIONS), "nobody is told how an answer was made"
    filled = []
    for who in ("1", "2", "3"):
        for record in records:
            longer = "A" if len(record["text_a"]) > len(record["text_b"]) else "B"
            said = {"preference": longer, "strength": "slightly", "score_a": 5, "score_b": 6, "flaws_a": ["unclear"]}
            filled.append({**record, **said, "annotator_id": who})
    sheet = home / "said.jsonl"
    sheet.write_text("\n".join(map(json.dumps, filled)))
    judged, _, _ = build_axioms(home, "v2", **CHEAP, research_judgements=str(sheet))
    assert judged is not None
    said_rows = rows(judged, "research_judgements")
    assert len(said_rows) == 3 * len(pairs)
    swapped: set[str] = set()
    for row in said_rows:
        pair = pairs[row["research_pair_id"]]
        assert row["better"] == ("a" if len(pair["text_a"]) > len(pair["text_b"]) else "b")
        swapped |= {row["shown_first"]}
        assert row["flaws_a" if row["shown_first"] == "a" else "flaws_b"] == ["unclear"]
    assert swapped == {"a", "b"}
    tables = {each["title"]: each for each in json.loads((judged.folder / "tables.json").read_text())}
    table = tables["Agreement of scorers with people (table 4 of the paper)"]["rows"]
    overall = next(row for row in table if (row["source"], row["A"]) == ("this build", "overall"))
    assert overall["pairs"] == len(pairs)
    assert overall["length agrees"] > 80, "they preferred the longer text, sources included"
    assert any((row["source"], row["A"]) == ("paper", "GPT-4") for row in table)


def test_questions_can_be_left_out_and_settings_that_cannot_work_are_refused() -> None:
    assert AxiomsConfig(research_questions=[], research_pages=[]).research_questions == []
    for wrong, told in (
        ({"research_conditions": ["repair"]}, "name both"),
        ({"research_pages": []}, "set one, or leave out searches"),
        ({"research_models": ["a", "a"]}, "name each once"),
        ({"research_scorers": ["length", "length"]}, "name each once"),
    ):
        with pytest.raises(ValueError, match=told):
            AxiomsConfig(**wrong)  # type: ignore[arg-type]


def test_each_model_is_asked_once_within_the_plan(tmp_path: Path, server: Server) -> None:
    more = {
        **CHEAP, "research_models": ["mine", "weak"], "research_scorers": ["length", "judge:mine"],
        "stages": {"assist_research": StageConfig(model="weak")},
    }  # fmt: skip
    config = AxiomsConfig(**mine(server, "axioms", PROMPT_NAMES, **more))
    options = Options(tmp_path, "v1")
    planned, _ = plan(declare("axioms", config, options), options, priced=True, config=config)
    bounds = {each.stage: each.calls for each in planned.stages if "research" in each.stage and each.endpoint}
    version = built("axioms", config, tmp_path, version="v1")
    assert max(server.bodies.values()) == 1
    answers = rows(version, "research")
    assert {(row["condition"], row["endpoint"]) for row in answers} == {
        ("closed_book", "mine"), ("closed_book", "weak"), ("assistant_naive", "weak"), ("assistant_guided", "weak"),
        ("plan_search", "mine"), ("repair", "mine"),
    }  # fmt: skip
    tasks = [server.tasks[json.loads(body)["messages"][0]["content"].strip()] for body in server.bodies]
    of_research = sum("research" in task or "judge" in task for task in tasks)
    assert 0 < of_research <= sum(bounds.values())


# ---------------------------------------------------------------- batches


def test_in_batch_mode_what_depends_on_replies_is_asked_singly_and_the_plan_says_so(tmp_path: Path) -> None:
    with serve(batch_seconds=0.0) as model:
        endpoint = {"base_url": model.url, "model": "m", "capabilities": ["json_schema", "batch"]}
        chosen = {**CHEAP, "model": "mine", "mode": "batch", "endpoints": {"mine": endpoint}, "msmarco": []}
        options = Options(tmp_path, until="repair_research")
        config = AxiomsConfig(**chosen)
        found, _ = plan(declare("axioms", config, options), options, priced=True, config=config)
        planned = {stage.stage: stage.unbatched for stage in found.stages if stage.endpoint == "mine"}
        assert {stage for stage, then in planned.items() if then is None} == set(CONVERSING_STAGES)
        assert planned["answer_research_closed"] == "wait"
        _, progress, _ = build_axioms(tmp_path, until="repair_research", **chosen)
        rows = {run.stage: run.artifact.rows for run in progress.ended}
        singly = model.counters()["requests"][CHAT]
    assert all(rows[stage] for stage in CONVERSING_STAGES)
    assert singly > 0


def test_a_batch_mode_that_no_batch_can_keep_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"stages\.plan_research asks each question after the last reply"):
        AxiomsConfig(stages={"plan_research": StageConfig(mode="batch")})
