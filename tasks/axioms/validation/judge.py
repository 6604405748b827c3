"""A model as a judge of the pairs that people compare: each pair is judged twice, once in each order of its answers, so
that its answers' places decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from longform.engine.at_most import Sizes, longest
from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint, Request
from schemas.axioms.validation import JUDGEMENTS
from tasks.answers import answered, made_by
from tasks.axioms.answers import shown
from tasks.axioms.judging.requests import pairwise_request
from tasks.axioms.judging.scores import pairwise_scores
from tasks.axioms.people.judgements import OTHER, judgement_of, preference
from tasks.axioms.validation.rates import JUDGE, SIDES

MOST_PASSAGES = 50
Item = tuple[Row, str]  # a pair, and the side that is shown first


def _twice(sizes: Sizes) -> float:
    """Upper bound of the judgements: two of each pair."""
    return 2.0 * float(sizes["sample"])


def _longest(sizes: Sizes) -> list[Request]:
    """The longest request that may be sent, in a list, by which the cost is bounded before a run."""
    if sizes["model"] is None:
        return []
    text = longest(sizes["characters"])
    evidence = [text] * MOST_PASSAGES
    return [pairwise_request(sizes["model"], sizes["prompt"], text, text, text, evidence)]


@stage(JUDGEMENTS, revision=1, at_most=AtMost(rows=_twice, calls=_twice, questions=_longest))
def judge_validation(
    context: StageContext, sample: Rows, *, model: Endpoint, prompt: Prompt, characters: int
) -> Iterator[Row | Rejected]:
    """What the endpoint `model` says of each pair, asked once in each order of its answers, with the pair's evidence. A
    Rejected for each order without a usable reply.

    `characters`: of longer texts the judge gets the beginning (see `shown`).
    """
    items = (
        (f"{pair['validation_id']} {first}", (pair, first), _request(model, prompt, pair, first, characters))
        for pair in sample
        for first in SIDES
    )
    for item, replies in answered(context, model, items):
        yield replies if isinstance(replies, Rejected) else _judgement(item, replies[0], model, prompt, characters)


def _request(model: Endpoint, prompt: Prompt, pair: Row, first: str, characters: int) -> Request:
    question, one, other = (shown(pair[name], characters) for name in ("question", first, OTHER[first]))
    evidence = [shown(passage, characters) for passage in pair["evidence"]]
    return pairwise_request(model, prompt, question, one, other, evidence)


def _judgement(item: Item, reply: Answer, model: Endpoint, prompt: Prompt, characters: int) -> Row:
    """The row of JUDGEMENTS of a reply."""
    pair, first = item
    said = pairwise_scores(reply.value)
    of = {first: said.first, OTHER[first]: said.second}
    texts = {pair["question_id"]: pair["question"], **{pair[f"{side}_id"]: pair[side] for side in SIDES}}
    return {
        **judgement_of(pair, JUDGE, model.name, first),
        **preference(first if said.prefers == "first" else OTHER[first], said.how),
        **{f"{side}_score": each.score / 10 for side, each in of.items()},
        **{f"{side}_flaws": list(each.flaws) for side, each in of.items()},
        "seconds": None,
        "cut": [key for key, text in texts.items() if len(text) > characters],
        **made_by(reply, model, prompt),
    }
