"""The pairs that are made for validation alone, counted again from the stages by plain loops."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from axioms_builds import build_axioms

from longform.engine.build import Build
from tasks.axioms.for_validation.pairs import TYPES

Row = dict[str, Any]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return build_axioms(tmp_path_factory.mktemp("home"), until="assemble_validation_pairs", test_share=0.3)[2]


def rows(build: Build, stage: str) -> list[Row]:
    return list(next(call.rows for call in build.calls if call.name == stage))


def expected(build: Build) -> set[tuple[str, str, str, str]]:
    """(question, pair type, preferred id, rejected id), made by plain rules from what the stages before have made."""
    made = {row["question_id"]: {} for row in rows(build, "select_questions")}
    for thread in rows(build, "select_questions"):
        by_votes = sorted(thread["answers"], key=lambda answer: -answer["votes"])
        made[thread["question_id"]] |= {"top human": by_votes[0]["answer_id"], "worst human": by_votes[-1]["answer_id"]}
    for stage in ("answer_open_book", "answer_closed_book"):
        for row in rows(build, stage):
            made[row["question_id"]][row["kind"]] = row["answer_id"]
    for row in rows(build, "corrupt_answers"):
        made[row["question_id"]]["corrupted"] = row["corrupted_id"]
    for row in rows(build, "combine_answers"):
        made[row["question_id"]] |= {"combined": row["combined_id"], "second best": row["second_id"]}
    for row in rows(build, "find_related"):
        made[row["question_id"]]["related"] = row["negatives"][0]["answer_id"]
    return {
        (question, f"{better} > {worse}", own[better], own[worse])
        for question, own in made.items()
        for _, better, worse in TYPES
        if better in own and worse in own
    }


def test_every_question_has_a_pair_of_each_type_of_which_it_has_both_answers(build: Build) -> None:
    found = rows(build, "assemble_validation_pairs")
    keys = [(row["question_id"], row["pair_type"], row["preferred_id"], row["rejected_id"]) for row in found]
    assert len(keys) == len({row["pair_id"] for row in found})
    assert set(keys) == expected(build)
    assert Counter(row["pair_type"] for row in found).keys() == {f"{better} > {worse}" for _, better, worse in TYPES}


def test_with_the_published_types_these_are_the_15_of_the_paper(build: Build) -> None:
    published = {row["pair_type"] for row in rows(build, "assemble_pairs")}
    assert {"open_book > closed_book", "closed_book > corrupted", "open_book > corrupted"} <= published
    assert not published & {f"{better} > {worse}" for _, better, worse in TYPES}
    assert len(TYPES) + 4 == 15  # with open_book > irrelevant_grounding


def test_texts_votes_and_splits_are_those_of_the_answers(build: Build) -> None:
    answers = {answer["answer_id"]: answer for row in rows(build, "join_threads") for answer in row["answers"]}
    texts = {key: answer["text"] for key, answer in answers.items()}
    for stage in ("answer_open_book", "answer_closed_book", "corrupt_answers", "combine_answers"):
        key = {"corrupt_answers": "corrupted_id", "combine_answers": "combined_id"}.get(stage, "answer_id")
        texts |= {row[key]: row["text"] for row in rows(build, stage)}
    splits = {row["question_id"]: row["split"] for row in rows(build, "assign_splits")}
    for row in rows(build, "assemble_validation_pairs"):
        assert row["split"] == splits[row["question_id"]]
        for side in ("preferred", "rejected"):
            assert row[side] == texts[row[f"{side}_id"]]
            human = answers.get(row[f"{side}_id"])
            assert row[f"{side}_votes"] == (human["votes"] if human else None)
            assert (row[f"{side}_source"] == "human") == (human is not None)


def test_a_cap_keeps_the_first_questions_of_a_larger_one(
    build: Build, tmp_path_factory: pytest.TempPathFactory
) -> None:
    capped = build_axioms(
        tmp_path_factory.mktemp("home"), until="pair_for_validation", test_share=0.3, validation_questions=5
    )[2]
    kept = {row["question_id"] for row in rows(capped, "pair_for_validation")}
    assert kept == {row["question_id"] for row in rows(build, "select_questions")[:5]}
