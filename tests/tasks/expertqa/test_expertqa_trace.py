"""From a published row of ExpertQA back to its answer, claims and stages."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from expertqa_tables import Home, filled

from longform.artifacts.recipe import Recipe
from longform.artifacts.rows import Row, Rows
from longform.artifacts.store import Artifact
from longform.artifacts.versions import Version
from longform.errors import UsageError
from schemas.expertqa import ANSWERS, PUBLISHED_CLAIMS, QUESTIONS, RANDOM_SPLIT, REVISED
from tasks.expertqa.trace import trace

QUESTION = {"question_id": "expertqa/q", "question": "Why do kites\nneed a tail?", "field": "Other"}
SOURCE = {"group": "expertqa", "sha256": "abcdef0123456789", "facts": {}, "pieces": 1}
MADE = {"response": "feed" * 16, "prompt": "expertqa/closed_book", "prompt_hash": "12345678" * 8, "endpoint": "offline"}


def version_of(home: Home) -> Version:
    """A version of two splits' rows and three claims, as publishing lays it out."""
    own = {"answer_id": "a_1", "system": "gpt4", **QUESTION}
    splits = [
        filled(RANDOM_SPLIT, **own, row_id=key, revised_id="r_1", original_answer="A tail\nsteadies it.", split="test")
        for key in ("l_aa1", "l_aa2", "l_b")
    ]
    claims = [
        filled(
            PUBLISHED_CLAIMS,
            **own,
            claim_id=f"a_1#{n}",
            answer="A tail steadies it.",
            position=n,
            claim=f"Claim {n}.",
            split="full",
            **given,
        )
        for n, given in enumerate(
            (
                {
                    "evidence": ["A kite's tail adds drag.", "https://kites.example"],
                    "evidence_urls": ["", "https://kites.example"],
                    "support": "Complete",
                    "worthiness": "Yes",
                    "annotator_id": "e1",
                    "autoais": False,
                    "autoais_backend": "lexical-1",
                    "fact_score": 0.5,
                    "fact_score_model": "judge",
                },
                {},
            )
        )
    ]
    answered = filled(ANSWERS, answer_id="a_1", system="gpt4", kind="closed_book", model="offline-rules-1", **MADE)
    revised = filled(REVISED, revised_id="r_1", answer_id="a_1", text="A tail helps.", revised_by="person")
    stages: dict[str, str] = {}
    made: dict[str, Rows] = {}
    for stage, schema, rows, inputs in (
        ("read_questions", QUESTIONS, [], {"files": [SOURCE]}),
        ("collect_answers", ANSWERS, [answered], {"questions": "read_questions"}),
        ("read_predictions", RANDOM_SPLIT, [], {"random": "collect_answers"}),
        ("revise_answers", REVISED, [revised | {"annotator_id": "e1"}], {"answers": "collect_answers"}),
        ("split_randomly", RANDOM_SPLIT, splits, {"revised": "revise_answers", "questions": "read_questions"}),
        ("publish_claims", PUBLISHED_CLAIMS, claims, {"questions": "read_questions"}),
    ):
        given: dict[str, Any] = {name: stages[mark] if isinstance(mark, str) else mark for name, mark in inputs.items()}
        recipe = Recipe(stage, 1, [], {}, given)
        made[stage] = home.table(schema, rows)
        stages[stage] = recipe.fingerprint
        home.store.commit_artifact(Artifact(recipe.fingerprint, recipe, "", {}, made[stage].parts or []))
    return published(
        home, stages, {"random": (made["split_randomly"], "test"), "claims": (made["publish_claims"], "full")}
    )


def published(home: Home, stages: dict[str, str], tables: dict[str, tuple[Rows, str]]) -> Version:
    folder = home.store.home / "datasets" / "expertqa" / "v1"
    for number, (config, (rows, split)) in enumerate(tables.items()):
        place = folder / split if number == 0 else folder / config / split
        place.mkdir(parents=True)
        shutil.copy(rows.paths[0], place / "expertqa-0-00000.parquet")
    manifest = {
        "stages": stages,
        "configs": {config: {split: rows.count} for config, (rows, split) in tables.items()},
        "keys": {"random": "row_id", "claims": "claim_id"},
    }
    return Version("expertqa", "v1", folder, manifest)


def traced(home: Home, version: Version, key: str) -> tuple[Row, list[str]]:
    found = trace(home.store, version, key)
    json.dumps(found)
    return found, [f"{title}: {text}" for title, text in found["lines"]]


def test_a_row_of_a_split_shows_its_answer_its_revision_and_its_claims(tmp_path: Path) -> None:
    home = Home(tmp_path)
    version = version_of(home)
    marks = {name: mark[:8] for name, mark in version.stages.items()}
    found, lines = traced(home, version, "l_aa1")
    assert lines == [
        "row: l_aa1   random   split test",
        'question: expertqa/q   "Why do kites need a tail?"   Other · licence unknown',
        'answer: a_1   gpt4   closed_book   "A tail steadies it."',
        ": offline-rules-1 via offline · prompt expertqa/closed_book@123456781234 · response feedfeedfeedfeed…",
        'revised: r_1   by a person (e1)   "A tail helps."',
        'claim 1: "Claim 0."',
        '  evidence: [1]   "A kite\'s tail adds drag."',
        "  evidence: [2]   https://kites.example",
        "  labels: support Complete, worthiness Yes (by e1)",
        "  estimate: AutoAIS not supported by lexical-1, FActScore 0.50 by judge",
        'claim 2: "Claim 1."',
        "  labels: none",
        "  estimate: AutoAIS no evidence, FActScore not scored",
        f"built by: split_randomly {marks['split_randomly']} <- revise_answers {marks['revise_answers']} <- "
        f"collect_answers {marks['collect_answers']} <- read_questions {marks['read_questions']} <- "
        "expertqa sha256 abcdef012345…",
    ]
    assert found["config"] == "random"
    assert [claim["claim_id"] for claim in found["claims"]] == ["a_1#0", "a_1#1"]


def test_a_claim_shows_itself_and_is_built_by_fewer_stages(tmp_path: Path) -> None:
    home = Home(tmp_path)
    version = version_of(home)
    found, lines = traced(home, version, "a_1#1")
    assert lines[0] == "row: a_1#1   claims   random in no split"
    assert [claim["claim_id"] for claim in found["claims"]] == ["a_1#1"]
    assert [link.split()[0] for link in lines[-1].removeprefix("built by: ").split(" <- ")] == [
        "publish_claims",
        "read_questions",
        "expertqa",
    ]


def test_the_beginning_of_an_id_is_enough_where_it_is_one_row_only(tmp_path: Path) -> None:
    home = Home(tmp_path)
    version = version_of(home)
    assert trace(home.store, version, "l_b")["row"]["row_id"] == "l_b"
    with pytest.raises(UsageError, match=r"More than one row of expertqa v1 begins with l_a: give more"):
        trace(home.store, version, "l_a")
    with pytest.raises(UsageError, match=r"expertqa v1 has no row nope: take a row_id or a claim_id"):
        trace(home.store, version, "nope")
    with pytest.raises(UsageError, match="has no row ' OR 1=1"):
        trace(home.store, version, "' OR 1=1 --")
