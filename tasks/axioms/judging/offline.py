"""The offline model as a judge of answers: a lexical baseline, which understands nothing.

A score is 1 + 99 · (c · coverage + l · length + s · support), rounded:

    coverage   share of the question's words (very common ones left out) that the answer has
    length     log(1 + words) / log(1 + LONG), at most 1
    support    share of the answer's words that stand in the passages; without passages it is left out

The weights (c, l, s) are WITH_PASSAGES or WITHOUT. The place of an answer counts for nothing. Of two answers with equal
scores the pairwise judge prefers one by a draw; a difference of STRONGLY points or more is a strong preference, of
MODERATELY a moderate one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import log
from typing import Any, NamedTuple

from longform.llm.offline import PromptInputs, Rule
from tasks.text.prose import COMMON, READ_CHARACTERS, words

LONG = 400
WITH_PASSAGES = (0.4, 0.3, 0.3)
WITHOUT = (0.55, 0.45, 0.0)
STRONGLY, MODERATELY = 20, 8
COVERED, SUPPORTED, SHORT = 0.5, 0.5, 40
NAMED_WORDS = 6


class _Judged(NamedTuple):
    score: int
    strengths: list[str]
    weaknesses: list[str]
    missing: list[str]


def _judge(inputs: PromptInputs, answer: str) -> _Judged:
    asked = words(inputs.one("Question")[:READ_CHARACTERS]) - COMMON
    said = answer[:READ_CHARACTERS]
    own = words(said) - COMMON
    passages = words("\n".join(text[:READ_CHARACTERS] for _, text in inputs.passages()))
    length = len(said.split())
    shared, lacking = sorted(asked & own), sorted(asked - own)
    coverage = len(shared) / len(asked) if asked else 0.0
    support = len(own & passages) / len(own) if own else 0.0
    weights = WITH_PASSAGES if passages else WITHOUT
    parts = (coverage, min(1.0, log(1 + length) / log(1 + LONG)), support)
    score = 1 + round(99 * sum(weight * part for weight, part in zip(weights, parts, strict=True)))
    strengths: list[str] = []
    weaknesses: list[str] = []
    covers = f"it has {len(shared)} of the {len(asked)} words of the question{_named(shared)}"
    (strengths if coverage >= COVERED else weaknesses).append(covers)
    if length < SHORT:
        weaknesses.append(f"it is short: {length} words")
    if passages:
        supported = f"{round(100 * support)} % of its words stand in the passages"
        (strengths if support >= SUPPORTED else weaknesses).append(supported)
    return _Judged(score, strengths, weaknesses, [f"it says nothing of{_named(lacking)[1:]}"] if lacking else [])


def _named(found: Sequence[str]) -> str:
    """Up to NAMED_WORDS words after a colon; "" if there are none."""
    return f": {', '.join(found[:NAMED_WORDS])}" if found else ""


def _listwise(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """The JSON object of a ListwiseScores."""
    judged = [(number, _judge(inputs, text)) for number, text in inputs.numbered("Candidate")]
    critiques = [
        {
            "candidate_number": number,
            "strengths": each.strengths,
            "weaknesses": each.weaknesses,
            "missing_information": each.missing,
        }
        for number, each in judged
    ]
    best = max(judged, key=lambda item: item[1].score)[0] if judged else 0
    asked = sorted(words(inputs.one("Question")[:READ_CHARACTERS].strip().partition("\n")[0]) - COMMON)
    explanation = f"By shared words and length alone, candidate {best} is ahead{_named(asked)}."
    return _json({"critiques": critiques, "explanation": explanation, "scores": _scores(judged)})


def _listwise_plain(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """The JSON object of a PlainListwiseScores."""
    judged = [(number, _judge(inputs, text)) for number, text in inputs.numbered("Candidate answer")]
    return _json({"scores": _scores(judged)})


def _scores(judged: Sequence[tuple[int, _Judged]]) -> list[dict[str, int]]:
    return [{"candidate_number": number, "candidate_score": each.score} for number, each in judged]


def _json(value: dict[str, Any]) -> str:
    """The object on one line; `<` is escaped, so that nothing in it can be taken for a tag."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


def _pointwise(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """The tags of a PointwiseScore."""
    judged = _judge(inputs, inputs.one("Answer to assess"))
    lines = [
        *_tags("strength", judged.strengths),
        *_tags("weakness", judged.weaknesses),
        *_tags("missing_information", judged.missing),
        f"<explanation>Shared words and length alone make {judged.score} points.</explanation>",
        f"<score>{judged.score}</score>",
    ]
    return "\n".join(lines)


def _pointwise_plain(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """The tag of a PlainPointwiseScore."""
    return f"<score>{_judge(inputs, inputs.one('Answer to rate')).score}</score>"


def _pairwise(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """The tags of a PairwiseScores."""
    sides = {side: _judge(inputs, inputs.one(f"Answer {side.upper()}")) for side in "ab"}
    lines = []
    for side, judged in sides.items():
        lines += _tags(f"strength_{side}", judged.strengths)
        lines += _tags(f"weakness_{side}", judged.weaknesses)
        lines += _tags(f"missing_{side}", judged.missing)
    lines.append("<explanation>Shared words and length alone decide.</explanation>")
    return "\n".join([*lines, *_compared(sides["a"], sides["b"], random_bytes)])


def _pairwise_plain(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """The tags of a PlainPairwiseScores."""
    first, second = (_judge(inputs, inputs.one(f"Candidate {side}")) for side in "AB")
    return "\n".join(_compared(first, second, random_bytes))


def _compared(first: _Judged, second: _Judged, random_bytes: bytes) -> list[str]:
    """Scores, preference and flaws of two answers in tags."""
    ahead = first.score - second.score
    how = "strongly" if abs(ahead) >= STRONGLY else "moderately" if abs(ahead) >= MODERATELY else "slightly"
    side = "A" if ahead > 0 or (ahead == 0 and random_bytes[0] % 2) else "B"
    return [
        f"<score_a>{first.score}</score_a>",
        f"<score_b>{second.score}</score_b>",
        f"<preference>{how} {side}</preference>",
        *_tags("flaw_a", _flaws(first)),
        *_tags("flaw_b", _flaws(second)),
    ]


def _flaws(judged: _Judged) -> list[str]:
    """`too narrow` for a low score, else none."""
    return ["too narrow"] if judged.score < 100 * SUPPORTED else []


def _tags(name: str, items: Sequence[str]) -> list[str]:
    """Each item in its pair of tags; one empty pair if there is none."""
    return [f"<{name}>{item}</{name}>" for item in items or [""]]


JUDGE_RULES = {
    "axioms/judge_listwise": Rule(_listwise, {"Question", "Passage", "Candidate"}, {"Passage"}, gives_object=True),
    "axioms/judge_listwise_plain": Rule(
        _listwise_plain, {"Question", "Passage", "Candidate answer"}, {"Passage"}, gives_object=True
    ),
    "axioms/judge_pointwise": Rule(_pointwise, {"Question", "Passage", "Answer to assess"}, {"Passage"}),
    "axioms/judge_pointwise_plain": Rule(_pointwise_plain, {"Question", "Passage", "Answer to rate"}, {"Passage"}),
    "axioms/judge_pairwise": Rule(_pairwise, {"Question", "Passage", "Answer A", "Answer B"}, {"Passage"}),
    "axioms/judge_pairwise_plain": Rule(
        _pairwise_plain, {"Question", "Passage", "Candidate A", "Candidate B"}, {"Passage"}
    ),
}
