"""What a judge's reply says of each answer, in the order in which the answers were asked about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from schemas.replies import (
    ListwiseScores,
    PairwiseScores,
    PlainListwiseScores,
    PlainPairwiseScores,
    PlainPointwiseScore,
    PointwiseScore,
)

Strength = Literal["strongly", "moderately", "slightly"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a judge says of one answer: its score, from 1 to 100, and the points of its critique, all empty if it was
    asked for none. `flaws`: those of table 8 of the paper, of a pairwise judge only.
    """

    score: int
    strengths: tuple[str, ...] = ()
    weaknesses: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    flaws: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a judge says of two answers. `prefers`: first or second, the one that was shown first or second; there is no
    tie, though their scores may be equal. `how`: how clearly.
    """

    first: Judgement
    second: Judgement
    prefers: Literal["first", "second"]
    how: Strength
    explanation: str | None = None


def listwise_scores(reply: ListwiseScores | PlainListwiseScores) -> list[Judgement]:
    """What a reply to a listwise request says of each answer, in their order."""
    scores = {each.candidate_number: each.candidate_score for each in reply.scores}
    if isinstance(reply, PlainListwiseScores):
        return [Judgement(scores[number]) for number in sorted(scores)]
    critiques = {each.candidate_number: each for each in reply.critiques}
    return [
        Judgement(
            scores[number],
            _points(critiques[number].strengths),
            _points(critiques[number].weaknesses),
            _points(critiques[number].missing_information),
        )
        for number in sorted(scores)
    ]


def pointwise_score(reply: PointwiseScore | PlainPointwiseScore) -> Judgement:
    """What a reply to a pointwise request says of its answer."""
    if isinstance(reply, PlainPointwiseScore):
        return Judgement(reply.score)
    return Judgement(reply.score, _points(reply.strength), _points(reply.weakness), _points(reply.missing_information))


def pairwise_scores(reply: PairwiseScores | PlainPairwiseScores) -> Comparison:
    """What a reply to a pairwise request says of its two answers."""
    if isinstance(reply, PlainPairwiseScores):
        first = Judgement(reply.score_a, flaws=tuple(reply.flaw_a))
        second = Judgement(reply.score_b, flaws=tuple(reply.flaw_b))
    else:
        first = Judgement(
            reply.score_a,
            _points(reply.strength_a),
            _points(reply.weakness_a),
            _points(reply.missing_a),
            tuple(reply.flaw_a),
        )
        second = Judgement(
            reply.score_b,
            _points(reply.strength_b),
            _points(reply.weakness_b),
            _points(reply.missing_b),
            tuple(reply.flaw_b),
        )
    how, _, side = reply.preference.partition(" ")
    explanation = reply.explanation if isinstance(reply, PairwiseScores) else None
    return Comparison(first, second, "first" if side == "A" else "second", _strength(how), explanation)


def _strength(word: str) -> Strength:
    """The word as a Strength; slightly unless it is one of the others."""
    return "strongly" if word == "strongly" else "moderately" if word == "moderately" else "slightly"


def _points(points: list[str]) -> tuple[str, ...]:
    """The points with each run of white space as one blank, without empty ones."""
    return tuple(" ".join(point.split()) for point in points if point.strip())
