"""The critic: a judge that criticises, then scores, the answers of a question's pairs in one call (critique-then-score,
B.3 of the paper), so that the margin of a pair can come from its scores.

A question often has more answers than one prompt should hold. Its pairs are then taken in the order of `draw_order`,
one of each pair type before a second of any, and both answers of a pair are shown where they still fit. A pair of which
not both are shown has no score. Pairs of the split `overlap` are never shown, as they belong to no side.

The passages that answers were written from are shown as evidence, unless an answer is itself a passage (axiom 4): to
find it among the evidence would tell the critic which one it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from longform.engine.at_most import Sizes, longest
from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from schemas.axioms.judging import CRITIQUES
from tasks.answers import made_by, unanswered
from tasks.axioms.answers import shown
from tasks.axioms.judging.requests import listwise_request, shuffled
from tasks.axioms.judging.scores import listwise_scores
from tasks.axioms.preference import draw_order

SIDES = ("preferred", "rejected")
PASSAGE = "passage"
NO_SIDE = "its question belongs to no side"
NOT_SHOWN = "not both answers are among those shown to the critic"
NOT_CRITICISED = "its question has no usable critique"
OF_IDS = ("pair_id", "question_id", "pair_type", "split", "preferred_id", "rejected_id")
OF_ANSWER = ("", "_id", "_source", "_licence", "_parent_ids")
OF_TEXTS = ("pair_id", "question_id", "question", "question_licence", "evidence", "evidence_ids", "split")


@dataclass(slots=True)
class Asked:
    """A question and its answers as the critic is to see them. `order`: ids of the answers, in the order in which they
    are shown. `pairs`: ids of the pairs of which both answers are shown; `answers`: id -> row with text, source,
    licence and parents.
    """

    order: list[str]
    pairs: dict[str, tuple[str, str]] = field(default_factory=dict)
    row: Row = field(default_factory=dict)
    answers: dict[str, Row] = field(default_factory=dict)
    evidence: list[str] = field(default_factory=list)
    evidence_ids: list[str] = field(default_factory=list)


def _critiques_at_most(sizes: Sizes) -> float:
    """Upper bound of the critiques: both answers of each pair."""
    return float(2 * sizes["pairs"])


def _longest(sizes: Sizes) -> list[Request]:
    """The longest request that may be sent, in a list, by which the cost is bounded before a run."""
    text = longest(sizes["characters"])
    evidence = [text] * sizes["passages"]
    return [listwise_request(sizes["model"], sizes["prompt"], text, [text] * sizes["answers"], evidence)]


@stage(CRITIQUES, revision=1, at_most=AtMost(rows=_critiques_at_most, questions=_longest))
def criticise_answers(
    context: StageContext,
    pairs: Rows,
    *,
    model: Endpoint,
    prompt: Prompt,
    answers: int,
    passages: int,
    characters: int,
    seed: int,
) -> Iterator[Row | Rejected]:
    """What the critic says of each answer that it is shown: one call a question, with at most `answers` answers of its
    `pairs` (rows of PAIRS; a part holds a question whole) in an order that `seed` says, and with at most `passages` of
    the passages that answers of these pairs were written from.

    A Rejected for each pair of which not both answers are shown, and for each of a question without a usable reply, of
    which the first has the reason. `characters`: of longer texts the prompt holds the beginning.
    """
    asked: dict[str, Asked] = {}
    for question, own in _by_question(pairs).items():
        of_side = [pair for pair in own if pair["split"] != "overlap"]
        asked[question] = _chosen(question, of_side, answers, seed)
        for pair in own:
            if pair["pair_id"] not in asked[question].pairs:
                yield Rejected(pair["pair_id"], "filtered", NOT_SHOWN if pair["split"] != "overlap" else NO_SIDE)
    _add_texts(pairs, asked)
    requests = ((each, _request(each, model, prompt, passages, characters)) for each in asked.values() if each.pairs)
    for each, reply in context.ask(model, requests):
        if isinstance(reply, Failure):
            first, *others = each.pairs
            yield unanswered(first, reply)
            yield from (Rejected(pair, "filtered", NOT_CRITICISED) for pair in others)
        else:
            yield from _critiques(each, reply, model, prompt, characters)


def _by_question(pairs: Rows) -> dict[str, list[Row]]:
    """question id -> the ids of its pairs and of their answers, in their order."""
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for pair in pairs.as_dicts(*OF_IDS):
        found[pair["question_id"]].append(pair)
    return found


def _chosen(question: str, pairs: list[Row], most: int, seed: int) -> Asked:
    """The answers of a question that are shown, at most `most`, and the pairs of which both are."""
    places = draw_order([(pair["pair_id"], pair["pair_type"]) for pair in pairs], question, seed)
    wanted: dict[str, None] = {}
    for _, pair in sorted(zip(places, pairs, strict=True), key=lambda placed: placed[0]):
        both = dict.fromkeys(pair[f"{side}_id"] for side in SIDES)
        if len(wanted | both) <= most:
            wanted |= both
    ids = {pair["pair_id"]: (pair["preferred_id"], pair["rejected_id"]) for pair in pairs}
    kept = {pair: both for pair, both in ids.items() if wanted.keys() >= set(both)}
    return Asked(shuffled(list(wanted), seed, question), kept)


def _add_texts(pairs: Rows, asked: dict[str, Asked]) -> None:
    """Add to each of `asked` its question, evidence and answers, as they stand in the rows of its pairs."""
    columns = [*OF_TEXTS, *(f"{side}{name}" for side in SIDES for name in OF_ANSWER)]
    for pair in pairs.as_dicts(*columns):
        each = asked[pair["question_id"]]
        if pair["pair_id"] not in each.pairs:
            continue
        each.row = each.row or {name: pair[name] for name in ("question_id", "question", "question_licence", "split")}
        if pair["evidence"] and not each.evidence:
            each.evidence, each.evidence_ids = pair["evidence"], pair["evidence_ids"]
        for side in SIDES:
            each.answers[pair[f"{side}_id"]] = {
                "text": pair[side],
                "source": pair[f"{side}_source"],
                "licence": pair[f"{side}_licence"],
                "parent_ids": pair[f"{side}_parent_ids"],
            }
    for each in asked.values():
        if any(answer["source"] == PASSAGE for answer in each.answers.values()):
            each.evidence, each.evidence_ids = [], []


def _request(each: Asked, model: Endpoint, prompt: Prompt, passages: int, characters: int) -> Request:
    texts = [shown(each.answers[key]["text"], characters) for key in each.order]
    evidence = [shown(text, characters) for text in each.evidence[:passages]]
    return listwise_request(model, prompt, shown(each.row["question"], characters), texts, evidence)


def _critiques(each: Asked, reply: Answer, model: Endpoint, prompt: Prompt, characters: int) -> Iterator[Row]:
    """A row of CRITIQUES for each answer that was shown, in this order."""
    question = each.row["question_id"]
    texts = {question: each.row["question"]} | {key: each.answers[key]["text"] for key in each.order}
    of_call = {
        "question_id": question,
        "split": each.row["split"],
        "explanation": reply.value.explanation,
        "shown": len(each.order),
        "parent_ids": _parents(each),
        "licences": sorted({each.row["question_licence"], *(each.answers[key]["licence"] for key in each.order)}),
        "cut": [key for key, text in texts.items() if len(text) > characters],
        **made_by(reply, model, prompt),
    }
    for place, (key, judged) in enumerate(zip(each.order, listwise_scores(reply.value), strict=True), start=1):
        yield {
            "critique_id": f"{question} {key}",
            "answer_id": key,
            "score": judged.score,
            "strengths": list(judged.strengths),
            "weaknesses": list(judged.weaknesses),
            "missing": list(judged.missing),
            "place": place,
            "pairs": [{"pair_id": pair} for pair, both in each.pairs.items() if key in both],
            **of_call,
        }


def _parents(each: Asked) -> list[str]:
    """The ids of the posts that were shown as answers or passages, or that shown answers were written from."""
    own = [key for key in each.order if "/" in key]
    behind = [parent for key in each.order for parent in each.answers[key]["parent_ids"]]
    passages = [key.partition("#")[0] for key in each.evidence_ids]
    return list(dict.fromkeys([*own, *behind, *passages]))
