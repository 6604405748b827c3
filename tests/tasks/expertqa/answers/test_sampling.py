"""Which answers are shown to experts: what may be drawn, how evenly, and that nothing vanishes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import paths
import pytest
from expertqa_toys import (
    answer,
    claims,
    collect_answers,
    link_cited_pages,
    question,
    read_questions,
    rejected_of,
    toy_source,
)
from hypothesis import given
from hypothesis import strategies as st
from toy_stages import building

from longform.artifacts.rows import Rejected, Row
from tasks.expertqa.answers.sampling import draw, sample, sample_answers, take_claims

SYSTEMS = ["gpt4", "rr_sphere_gpt4", "rr_gs_gpt4", "post_hoc_sphere_gpt4", "post_hoc_gs_gpt4", "bing_chat"]
RELEASED = paths.REAL_DATA / "expertqa" / "rand_val.jsonl"


def sampled(answers: list[Row], counts: dict[str, int], seed: int = 0) -> tuple[list[Row], dict[str, str]]:
    """The rows, and key -> reason of what was rejected."""
    items = list(sample("expertqa/q", answers, counts, most_claims=10, seed=seed))
    rejected = {item.key: item.reason for item in items if isinstance(item, Rejected)}
    return [item for item in items if not isinstance(item, Rejected)], rejected


def test_abstentions_and_answers_without_or_with_too_many_claims_are_never_drawn() -> None:
    one, two, three, four = (answer("q", system) for system in SYSTEMS[:4])
    two["abstention"] = "I don't know"
    counts = {one["answer_id"]: 10, two["answer_id"]: 3, three["answer_id"]: 11}
    rows, rejected = sampled([one, two, three, four], counts)
    assert rows == [{"answer_id": "a_q_gpt4", "question_id": "expertqa/q", "system": "gpt4", "eligible": ["gpt4"]}]
    assert rejected == {
        "a_q_rr_sphere_gpt4": "abstains",
        "a_q_rr_gs_gpt4": "too many claims",
        "a_q_post_hoc_sphere_gpt4": "no claim",
    }


@pytest.mark.parametrize(
    ("answers", "counts", "reason"),
    [
        ([], {}, "no answer"),
        ([answer("q", abstention="I don't know")], {}, "all abstain"),
        ([answer("q")], {"a_q_gpt4": 11}, "all have too many claims"),
        ([answer("q")], {}, "no answer has a claim"),
        ([answer("q"), answer("q", "bing_chat")], {"a_q_gpt4": 11}, "no answer can be drawn"),
    ],
)
def test_a_question_without_an_eligible_answer_says_why(
    answers: list[Row], counts: dict[str, int], reason: str
) -> None:
    rows, rejected = sampled(answers, counts)
    assert rows == []
    assert rejected["expertqa/q"] == reason
    assert rejected.keys() == {"expertqa/q", *(one["answer_id"] for one in answers)}


def test_released_answers_are_all_kept_however_long_and_no_other_beside_them() -> None:
    long, short = answer("q", kind="released"), answer("q", "rr_gs_gpt4", kind="released", abstention="I don't know")
    other = answer("q", "bing_chat", kind="imported")
    rows, rejected = sampled([long, short, other], {long["answer_id"]: 31, other["answer_id"]: 3})
    assert [(row["system"], row["eligible"]) for row in rows] == [("gpt4", ["gpt4"]), ("rr_gs_gpt4", ["rr_gs_gpt4"])]
    assert rejected == {"a_q_bing_chat": "its question has released answers"}


def test_of_two_answers_of_a_system_the_first_can_be_drawn() -> None:
    first, second = answer("q"), answer("q", answer_id="a_again")
    rows, rejected = sampled([first, second], {first["answer_id"]: 1, "a_again": 1})
    assert [row["answer_id"] for row in rows] == ["a_q_gpt4"]
    assert rejected == {"a_again": "not drawn"}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_system_is_drawn_as_often(seed: int) -> None:
    from scipy.stats import chisquare

    drawn = Counter(draw(f"expertqa/{number}", SYSTEMS, seed) for number in range(6_000))
    assert drawn.keys() == {*SYSTEMS}
    assert chisquare([*drawn.values()]).pvalue > 0.001


@given(st.sets(st.sampled_from(SYSTEMS), min_size=2), st.text(), st.integers(0, 99))
def test_one_more_system_moves_only_the_questions_that_it_wins(systems: set[str], name: str, seed: int) -> None:
    before = draw(name, sorted(systems)[:-1], seed)
    assert draw(name, systems, seed) in (before, max(systems))
    assert draw(name, sorted(systems, reverse=True), seed) == draw(name, systems, seed)


def test_seeds_differ() -> None:
    assert len({tuple(draw(f"q{n}", SYSTEMS, seed) for n in range(20)) for seed in range(5)}) == 5


@pytest.mark.parametrize("pieces", [1, 3])
def test_the_stages_lose_nothing_and_cut_parts_change_nothing(tmp_path: Path, pieces: int) -> None:
    questions = [question(f"q{number}") for number in range(9)]
    answers = [answer(f"q{number}", system) for number in range(8) for system in SYSTEMS]
    for one in answers[:6]:  # all of q0 abstain
        one["abstention"] = "I don't know"
    of_answers = [row for number, one in enumerate(answers[6:]) for row in claims(one, number % 13)]
    with building(tmp_path / "home") as run:
        asked = read_questions(run, [toy_source(tmp_path, pieces)], rows=questions)
        given_answers = collect_answers(run, asked, rows=answers)
        given_claims = link_cited_pages(run, given_answers, rows=of_answers)
        shown = sample_answers(run, asked, given_answers, given_claims, most_claims=10, seed=7)
        taken = take_claims(run, given_claims, shown)
    rejected = rejected_of(shown)
    assert {row["question_id"] for row in shown} | (rejected.keys() & {row["question_id"] for row in questions}) == {
        row["question_id"] for row in questions
    }
    assert rejected["expertqa/q0"] == ("filtered", "all abstain")
    assert rejected["expertqa/q8"] == ("filtered", "no answer")
    counts = Counter(row["answer_id"] for row in of_answers)
    alone = {row["answer_id"] for name in range(8) for row in sampled_of(f"q{name}", answers, counts)}
    assert {row["answer_id"] for row in shown} == alone
    assert [row["claim_id"] for row in taken if row["position"] == 0] != []
    assert {row["claim_id"] for row in taken} == {row["claim_id"] for row in of_answers if row["answer_id"] in alone}
    assert {*rejected_of(taken).values()} == {("filtered", "answer not sampled")}


def sampled_of(name: str, answers: list[Row], counts: Counter[str]) -> list[Row]:
    own = [one for one in answers if one["question_id"] == f"expertqa/{name}"]
    items = sample(f"expertqa/{name}", own, counts, most_claims=10, seed=7)
    return [item for item in items if not isinstance(item, Rejected)]


def test_all_real_released_answers_are_kept_also_those_of_more_than_ten_claims() -> None:
    if not RELEASED.exists():
        pytest.skip("the released file is not beside the project")
    lengths = []
    for line in RELEASED.read_text().splitlines():
        given_answers = json.loads(line)["answers"]
        own = [answer("q", system, kind="released") for system in given_answers]
        counts = {one["answer_id"]: len(given_answers[one["system"]]["claims"]) for one in own}
        rows, rejected = sampled(own, counts)
        assert (len(rows), rejected) == (len(own), {})
        lengths += counts.values()
    assert len(lengths) == 217
    assert sum(lengths) == 1237
