"""Scores by a cross-encoder or reward model: what it gives for question and answer, before any activation.

It reads what the trained model read (tasks/axioms/training): the question, cut after as many of the model's
tokens as its config.json names in `question_tokens`, else QUESTION_TOKENS, below it the numbered passages, and as the
second text the answer; together at most as many tokens as the model reads, and 2,048, of which the longer text loses
its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path

from longform.files import read_json
from tasks.axioms.preference import prompt_of
from tasks.axioms.scoring.groups import Group, Scored
from tasks.retrieval.cross_encoder import DECIMALS, CrossEncoderSetting, load_raw

QUESTION_TOKENS = 256
GROUPS_AT_ONCE = 64


def by_encoder(encoder: CrossEncoderSetting, groups: Iterable[Group]) -> Iterator[Scored]:
    """(group, a score of each answer) for each group, in order. UsageError if the model cannot be loaded, or gives no
    single number.
    """
    model = load_raw(encoder.place)
    most = question_tokens(encoder.place)
    beginning = lru_cache(maxsize=GROUPS_AT_ONCE)(lambda text: model.beginning(text, most))
    groups = iter(groups)
    while block := list(islice(groups, GROUPS_AT_ONCE)):
        pairs = [
            (prompt_of(beginning(group.question), group.evidence), text) for group in block for _, text in group.answers
        ]
        scores = iter(model.raw(pairs).tolist())
        yield from ((group, [round(next(scores), DECIMALS) for _ in group.answers]) for group in block)


def question_tokens(place: str) -> int:
    """The tokens of a question that the model in this folder was trained on; QUESTION_TOKENS if it does not say."""
    config = read_json(Path(place) / "config.json")
    return int((config or {}).get("question_tokens") or QUESTION_TOKENS)
