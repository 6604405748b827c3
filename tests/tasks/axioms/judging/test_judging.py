"""Judges of answers: what they are asked, what is refused, what is read."""

from __future__ import annotations

import json
from typing import Any

import paths
import pytest
from offline_rules import respond, task_of

from longform.llm.ask.prompts import load_prompt
from longform.llm.ask.types import Endpoint, Request
from longform.llm.offline import ENDPOINT
from longform.llm.read.structured import form_of, read_reply, strict_schema
from tasks.axioms.judging.requests import (
    JUDGE_PROMPTS,
    listwise_request,
    pairwise_request,
    pointwise_request,
    shuffled,
)
from tasks.axioms.judging.scores import Judgement, listwise_scores, pairwise_scores, pointwise_score

PROMPTS = {name: load_prompt(f"axioms/{name}", paths.ROOT / "prompts") for name in JUDGE_PROMPTS}
SCHEMA = Endpoint("m", "m", base_url="http://x", capabilities=frozenset({"json_schema"}))
QUESTION = "How long does an opened keg of beer keep?\n\nI poured half of it on Friday."
LONG = (
    "An opened keg of beer keeps for about six weeks if it stays cold and nobody lets air into it. With a hand pump, "
    "air gets in and the beer is flat by the next day, so pour the rest soon if you tapped it on Friday."
)
SHORT = "My dog likes the garden."
PASSAGES = ["An opened keg keeps for six weeks if it stays cold."]


def asked(name: str, *answers: str, evidence: list[str] | None = None, model: Endpoint = ENDPOINT) -> Request:
    given = evidence or []
    if "listwise" in name:
        return listwise_request(model, PROMPTS[name], QUESTION, answers, given)
    if "pointwise" in name:
        return pointwise_request(model, PROMPTS[name], QUESTION, answers[0], given)
    return pairwise_request(model, PROMPTS[name], QUESTION, answers[0], answers[1], given)


def read(request: Request, text: str) -> Any:
    assert request.reply is not None
    return read_reply(text, request.reply, form_of(request))


def replied(request: Request) -> Any:
    text, finish, _, _ = respond(request)
    assert finish == "stop"
    value = read(request, text)
    assert not isinstance(value, str), value
    assert request.check is not None
    assert request.check(value) is None
    return value


def flaw(request: Request, text: str) -> Any:
    value = read(request, text)
    if isinstance(value, str):
        return value
    assert request.check is not None
    return request.check(value)


# requests and the offline judge


@pytest.mark.parametrize("name", JUDGE_PROMPTS)
@pytest.mark.parametrize("evidence", [[], PASSAGES])
def test_each_prompt_is_told_by_its_labels_and_answered_offline(name: str, evidence: list[str]) -> None:
    request = asked(name, LONG, SHORT, evidence=evidence)
    assert task_of(request.messages) == request.task == f"axioms/{name}"
    value = replied(request)
    if "listwise" in name:
        long, short = (each.score for each in listwise_scores(value))
    elif "pairwise" in name:
        compared = pairwise_scores(value)
        long, short = compared.first.score, compared.second.score
        assert compared.prefers == "first"
    else:
        long = pointwise_score(value).score
        short = pointwise_score(replied(asked(name, SHORT, evidence=evidence))).score
    assert long > short


@pytest.mark.parametrize("name", JUDGE_PROMPTS)
def test_both_forms_can_be_asked_for(name: str) -> None:
    request = asked(name, LONG, SHORT, model=SCHEMA)
    assert request.form == "json"
    assert request.reply is not None
    assert strict_schema(request.reply)["additionalProperties"] is False


def test_the_offline_judge_gives_an_answer_the_same_score_in_any_place() -> None:
    there = listwise_scores(replied(asked("judge_listwise", LONG, SHORT)))
    back = listwise_scores(replied(asked("judge_listwise", SHORT, LONG)))
    assert there == back[::-1]
    compared = pairwise_scores(replied(asked("judge_pairwise", SHORT, LONG)))
    assert (compared.prefers, compared.how) == ("second", "strongly")


def test_of_two_equal_answers_the_offline_judge_does_not_always_prefer_the_first() -> None:
    texts = [f"An opened keg keeps for {number} weeks." for number in range(20)]
    preferred = {pairwise_scores(replied(asked("judge_pairwise_plain", text, text))).prefers for text in texts}
    assert preferred == {"first", "second"}


def test_the_score_of_the_lexical_baseline_by_hand() -> None:
    # 1 of the 6 words long, opened, keg, beer, keep, poured, half, friday without the common ones; 2 words
    request = asked("judge_pointwise_plain", "Keep cold")
    words = {"long", "opened", "keg", "beer", "keep", "poured", "half", "friday"}
    from math import log

    expected = 1 + round(99 * (0.55 / len(words) + 0.45 * log(3) / log(401)))
    assert pointwise_score(replied(request)) == Judgement(expected)


def test_the_order_depends_on_the_ids_the_seed_and_the_question_alone() -> None:
    ids = [f"a{number}" for number in range(30)]
    one = shuffled(ids, 0, "q1")
    assert shuffled(ids[::-1], 0, "q1") == one
    assert sorted(one) == sorted(ids) != one
    assert shuffled(ids, 1, "q1") != one != shuffled(ids, 0, "q2")
    assert shuffled(ids[:10], 0, "q1") == [each for each in one if each in ids[:10]]


# what is refused


def listwise(scores: list[tuple[int, object]], critiques: list[tuple[int, list[str]]], explanation: str = "") -> str:
    return json.dumps({
        "critiques": [
            {"candidate_number": number, "strengths": points, "weaknesses": [], "missing_information": []}
            for number, points in critiques
        ],
        "explanation": explanation or "The first says how long, and the second nothing of kegs.",
        "scores": [{"candidate_number": number, "candidate_score": score} for number, score in scores],
    })  # fmt: skip


POINTS = [(1, ["says how long"]), (2, ["is short"])]


def test_scores_and_critiques_are_read_in_the_order_of_the_answers() -> None:
    request = asked("judge_listwise", LONG, SHORT)
    value = read(request, listwise([(2, 20), (1, "80")], [(2, ["a", " "]), (1, ["b"])]))
    assert request.check is not None
    assert request.check(value) is None
    assert listwise_scores(value) == [Judgement(80, ("b",)), Judgement(20, ("a",))]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (listwise([(1, 80)], POINTS), "score each"),
        (listwise([(1, 80), (1, 70), (2, 20)], POINTS), "scores: not allowed"),
        (listwise([(1, 80), (2, 20), (3, 20)], POINTS), "score each"),
        (listwise([(0, 80), (1, 20)], POINTS), "scores: not allowed"),
        (listwise([(1, 80), (2, 0)], POINTS), "fit"),
        (listwise([(1, 80), (2, 101)], POINTS), "fit"),
        (listwise([(1, 80), (2, "good")], POINTS), "fit"),
        (listwise([(1, 80), (2, None)], POINTS), "fit"),
        (listwise([(1, 80), (2, 20)], POINTS[:1]), "criticise each"),
        (listwise([(1, 80), (2, 20)], [*POINTS, (2, ["b"])]), "critiques: not allowed"),
        (listwise([(1, 80), (2, 20)], [(1, ["a"]), (2, [" "])]), "no word"),
        (listwise([(1, 80), (2, 20)], POINTS, LONG), "copies"),
        (listwise([(1, 80), (2, 20)], [(1, [LONG.upper()]), (2, [LONG[:120]])]), "copies"),
    ],
)
def test_a_listwise_reply_is_refused(text: str, why: str) -> None:
    assert why in str(flaw(asked("judge_listwise", LONG, SHORT), text))


def pairwise(a: object, b: object, preference: str, *flaws: str) -> str:
    tags = [
        ("strength_a", "says how long"),
        ("strength_b", ""),
        ("weakness_b", "of a dog"),
        ("explanation", "A helps."),
    ]
    tags += [("score_a", str(a)), ("score_b", str(b)), ("preference", preference)]
    return "\n".join(f"<{name}>{text}</{name}>" for name, text in [*tags, *(("flaw_b", each) for each in flaws)])


def test_preference_and_flaws_are_read() -> None:
    request = asked("judge_pairwise", LONG, SHORT)
    value = read(request, pairwise(80, 20, "Strongly a", "Irrelevant", "too_narrow", "irrelevant", "none"))
    compared = pairwise_scores(value)
    assert (compared.prefers, compared.how, compared.first.strengths) == ("first", "strongly", ("says how long",))
    assert compared.second == Judgement(20, (), ("of a dog",), (), ("irrelevant", "too narrow"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (pairwise(80, 20, "slightly B"), "contradict"),
        (pairwise(20, 80, "strongly A"), "contradict"),
        (pairwise(80, 20, "tie"), "fit"),
        (pairwise(80, 20, "slightly A", "boring"), "fit"),
        (pairwise(80, 0, "slightly A"), "fit"),
        (pairwise("80/100", 20, "slightly A"), "fit"),
        (pairwise(80, 20, "slightly A") + "<score_a>70</score_a>", "more than one"),
    ],
)
def test_a_pairwise_reply_is_refused(text: str, why: str) -> None:
    assert why in str(flaw(asked("judge_pairwise", LONG, SHORT), text))


def test_equal_scores_go_with_either_preference() -> None:
    for preference in ("slightly A", "slightly B"):
        assert flaw(asked("judge_pairwise", LONG, SHORT), pairwise(50, 50, preference)) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<strength></strength><explanation>x</explanation><score>3</score>", "no word"),
        ("<strength>good</strength><explanation>x</explanation><score>101</score>", "fit"),
        ("<strength>good</strength><explanation>x</explanation>", "no score"),
        (f"<strength>{LONG}</strength><explanation>x</explanation><score>3</score>", "copies"),
    ],
)
def test_a_pointwise_reply_is_refused(text: str, why: str) -> None:
    assert why in str(flaw(asked("judge_pointwise", LONG), text))
