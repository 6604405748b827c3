"""What a judge of answers is asked: to score several answers to a question at once (listwise), one (pointwise) or two
(pairwise), each with a critique before the scores or without.

    axioms/judge_listwise    axioms/judge_listwise_plain     scores of all answers
    axioms/judge_pointwise   axioms/judge_pointwise_plain    the score of one
    axioms/judge_pairwise    axioms/judge_pairwise_plain     scores of two, which is better and how clearly, flaws

The rubric of all of them are the paper's five principles. Scores are whole numbers from 1 to 100. A reply that gives
another number, or scores an answer twice, is sent back for repair. One that leaves an answer out, contradicts itself,
criticises nothing, or only copies the texts it judges is a Failure. What a reply says is read in
tasks/axioms/judging/scores.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import xxhash

import schemas.replies
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint, Flaw, Request
from schemas.replies import (
    ListwiseScores,
    PairwiseScores,
    PlainListwiseScores,
    PlainPairwiseScores,
    PlainPointwiseScore,
    PointwiseScore,
    Reply,
)

JUDGE_PROMPTS = tuple(
    f"judge_{shape}{variant}" for shape in ("listwise", "pointwise", "pairwise") for variant in ("", "_plain")
)
CRITIQUE_TOKENS, PLAIN_TOKENS = 500, 40  # of a reply, for each answer
LEAST_TOKENS = 600
COPIED_WORDS = 8  # of this many words a point that stands in an answer is a copy

T = TypeVar("T")


def listwise_request(
    model: Endpoint, prompt: Prompt, question: str, answers: Sequence[str], evidence: Sequence[str] = ()
) -> Request:
    """A request that scores all `answers` to a question at once. Its reply is a ListwiseScores, or a
    PlainListwiseScores if the prompt asks for no critique; `listwise_scores` reads it. `evidence`: passages that the
    judge may hold answers against.
    """
    check = partial(_listwise_flaw, len(answers), (*answers, *evidence))
    return _request(model, prompt, check, len(answers), question, answers=list(answers), evidence=list(evidence))


def pointwise_request(
    model: Endpoint, prompt: Prompt, question: str, answer: str, evidence: Sequence[str] = ()
) -> Request:
    """A request that scores one answer by itself. Its reply is a PointwiseScore, or a PlainPointwiseScore;
    `pointwise_score` reads it.
    """
    check = partial(_pointwise_flaw, (answer, *evidence))
    return _request(model, prompt, check, 1, question, answer=answer, evidence=list(evidence))


def pairwise_request(
    model: Endpoint, prompt: Prompt, question: str, first: str, second: str, evidence: Sequence[str] = ()
) -> Request:
    """A request that scores two answers side by side, `first` as answer A, and says which is better. Its reply is a
    PairwiseScores, or a PlainPairwiseScores; `pairwise_scores` reads it. Whose place is first is for `shuffled` to say.
    """
    check = partial(_pairwise_flaw, (first, second, *evidence))
    return _request(model, prompt, check, 2, question, first=first, second=second, evidence=list(evidence))


def shuffled(ids: Sequence[str], seed: int, key: str) -> list[str]:
    """The ids in an order that depends on nothing but them, the seed and `key` (the question's id), so that an
    answer's place tells a judge nothing.
    """
    return sorted(
        ids, key=lambda each: (xxhash.xxh3_64_intdigest(f"{seed}\x1fjudge\x1f{key}\x1f{each}".encode()), each)
    )


def _request(
    model: Endpoint, prompt: Prompt, check: Callable[[Any], Flaw | None], number: int, question: str, **inputs: Any
) -> Request:
    reply: type[Reply] = getattr(schemas.replies, prompt.reply)
    each = PLAIN_TOKENS if reply.__name__.startswith("Plain") else CRITIQUE_TOKENS
    return prompt.request(
        model,
        reply=reply,
        max_tokens=LEAST_TOKENS + each * number,
        check=check,
        subject=question,
        question=question,
        **inputs,
    )


# what is wrong with a reply


def _listwise_flaw(number: int, texts: Sequence[str], reply: ListwiseScores | PlainListwiseScores) -> Flaw | None:
    """Why a reply on so many answers is of no use; None if it is. `texts`: what it may not copy."""
    wanted = list(range(1, number + 1))
    if sorted(each.candidate_number for each in reply.scores) != wanted:
        return "invalid", "it does not score each answer once"
    if isinstance(reply, PlainListwiseScores):
        return None
    if sorted(each.candidate_number for each in reply.critiques) != wanted:
        return "invalid", "it does not criticise each answer once"
    points = [[*each.strengths, *each.weaknesses, *each.missing_information] for each in reply.critiques]
    return _critique_flaw(points, reply.explanation, texts)


def _pointwise_flaw(texts: Sequence[str], reply: PointwiseScore | PlainPointwiseScore) -> Flaw | None:
    if isinstance(reply, PlainPointwiseScore):
        return None
    return _critique_flaw([[*reply.strength, *reply.weakness, *reply.missing_information]], reply.explanation, texts)


def _pairwise_flaw(texts: Sequence[str], reply: PairwiseScores | PlainPairwiseScores) -> Flaw | None:
    ahead = reply.score_a - reply.score_b
    if ahead and (ahead > 0) != reply.preference.endswith("A"):
        return "invalid", "its scores and its preference contradict each other"
    if isinstance(reply, PlainPairwiseScores):
        return None
    points = [
        [*reply.strength_a, *reply.weakness_a, *reply.missing_a],
        [*reply.strength_b, *reply.weakness_b, *reply.missing_b],
    ]
    return _critique_flaw(points, reply.explanation, texts)


def _critique_flaw(points: Sequence[Sequence[str]], explanation: str | None, texts: Sequence[str]) -> Flaw | None:
    """Why a critique is none: an answer without any point, or nothing but copies of the texts. `points`: by answer."""
    said = [[point for point in of if point.strip()] for of in points]
    if not all(said):
        return "invalid", "it criticises an answer with no word"
    shown = [" ".join(text.split()).casefold() for text in texts]
    if all(_is_copied(point, shown) for of in said for point in of) or _is_copied(explanation or "", shown):
        return "degenerate", "the critique only copies the texts it judges"
    return None


def _is_copied(text: str, shown: Sequence[str]) -> bool:
    """Whether a text of COPIED_WORDS words or more stands in one of those `shown`, which are in lower case."""
    words = text.casefold().split()
    return len(words) >= COPIED_WORDS and any(" ".join(words) in each for each in shown)
