"""Revised answers (section 6): an expert's text, an expert's revised claims joined, or a model's revision.

An expert's text is kept unchanged. Where experts revised only claims, the answer is these claims, as in the released
files: 201 of the 217 revised answers of `rand_val` are exactly that, white space aside. Between them stand the line
breaks of the answer, or a blank where it has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from longform.addresses import without_logins
from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import grouped
from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from schemas.expertqa import REVISED
from tasks.answers import NO_MODEL, made_by, unanswered
from tasks.expertqa.answers.abstentions import abstention
from tasks.text.audits.equality import equal_texts

QUESTION_CHARACTERS = 8_000
ANSWER_CHARACTERS = 12_000
EVIDENCE_CHARACTERS = 4_000


@stage(
    REVISED,
    revision=6,
    at_most=AtMost(rows=lambda of: of["samples"], calls=lambda of: min(of["samples"], of["answers"])),
)
def revise_answers(
    context: StageContext,
    answers: Rows,
    claims: Rows,
    samples: Rows,
    labels: Rows,
    attributions: Rows,
    questions: Rows,
    *,
    model: Endpoint | None,
    prompt: Prompt | None,
) -> Iterator[Row | Rejected]:
    """For each sampled answer, in order, its revision, by a person, else by the model if `model` and `prompt` are set.
    A Rejected for each answer that was not sampled or not revised, or whose revision is unusable.
    """
    sampled = {row["answer_id"] for row in samples}
    claims_of, labels_of = (
        grouped((row for row in rows if row["answer_id"] in sampled), "answer_id") for rows in (claims, labels)
    )
    found: dict[str, Row | Rejected | None] = {}
    for answer in answers:
        key = answer["answer_id"]
        own = by_people(answer, claims_of[key], labels_of[key]) if key in sampled else None
        found[key] = own if key in sampled else Rejected(key, "filtered", "answer not sampled")
    if model is not None and prompt is not None:
        without_revision = (answer for answer in answers if found[answer["answer_id"]] is None)
        requests = _requests(without_revision, claims_of, attributions, questions, model, prompt)
        for answer, reply in context.ask(model, requests):
            found[answer["answer_id"]] = by_model(answer, reply, model, prompt)
    yield from (row or Rejected(key, "filtered", "no revised answer") for key, row in found.items())


def by_people(answer: Row, claims: Sequence[Row], labels: Sequence[Row]) -> Row | Rejected | None:
    """The revision of an answer by annotators as a row of REVISED; None if nobody revised it.

    A revised answer is preferred to revised claims; of several annotators the first by `label_id` is taken. A Rejected
    if the annotator whose claims are taken left out all of them. `labels`: the answer's rows of LABELS.
    """
    labels = sorted(labels, key=lambda label: str(label["label_id"]))
    for label in labels:
        if (label["revised_answer"] or "").strip():
            return _revised(answer, label["revised_answer"], "person", label["annotator_id"], NO_MODEL)
    for label in labels:
        revised = {row["claim_id"]: row["revised_claim"] for row in label["claims"]}
        if any(text is not None for text in revised.values()):
            text = join_revised_claims(answer["text"], claims, revised)
            if not text:
                return Rejected(answer["answer_id"], "filtered", "every claim left out by a person")
            return _revised(answer, text, "claims", label["annotator_id"], NO_MODEL)
    return None


def join_revised_claims(answer: str, claims: Sequence[Row], revised: Mapping[str, str | None]) -> str:
    """The claims of an answer in order: the revision of a claim, or the claim itself if it has none; claims with a
    blank revision are left out. "" if none is left. Between two stands what `gap` finds between them in the answer, or
    between a claim left out there and its neighbours, if that has more line breaks.

    `answer`: its text. `revised`: claim id -> revision, None if it has none.
    """
    joined, between = "", ""
    for before, claim in zip((None, *claims), claims, strict=False):
        between = max(between, gap(answer, before, claim), key=lambda text: (text.count("\n"), len(text)))
        text = revised.get(claim["claim_id"])
        text = str(claim["text"]) if text is None else text
        if text.strip():
            joined, between = f"{joined}{between if joined else ''}{text}", ""
    return joined


def gap(answer: str, before: Row | None, after: Row) -> str:
    """What parts two neighbouring claims in their answer: the line breaks of the longest white space between them; a
    blank where there is none, or nothing where nothing stands between; "" before the first claim.

    A line break for claims whose places in the answer are not known.
    """
    if before is None:
        return ""
    if before["end"] is None or after["start"] is None or before["end"] > after["start"]:
        return "\n"
    between = answer[before["end"] : after["start"]]
    breaks = max((space.count("\n") for space in re.findall(r"\s+", between)), default=0)
    return "\n" * breaks or " " * bool(between)


def by_model(answer: Row, reply: Answer | Failure, model: Endpoint, prompt: Prompt) -> Row | Rejected:
    """The model's revision of an answer as a row of REVISED; a Rejected if there is no usable reply, or if it
    abstains.
    """
    key = answer["answer_id"]
    if isinstance(reply, Failure):
        return unanswered(key, reply)
    text = without_logins(reply.value)
    if declines := abstention(text):
        return Rejected(key, "filtered", "the revision abstains", detail=declines, raw=text)
    return _revised(answer, text, "model", None, made_by(reply, model, prompt))


def _requests(
    answers: Iterable[Row],
    claims: dict[str, list[Row]],
    attributions: Rows,
    questions: Rows,
    model: Endpoint,
    prompt: Prompt,
) -> Iterator[tuple[Row, Request]]:
    """(answer, request to revise it) of each answer. A request has the question, the answer, the answer's claims and,
    for each, the evidence that AutoAIS read, "" if it read none. Question, answer and evidence are cut to
    QUESTION_CHARACTERS, ANSWER_CHARACTERS and EVIDENCE_CHARACTERS; claims are not. Whether the reply leaves the answer
    as it is counts where AutoAIS found a claim that its evidence does not support.

    `claims`: answer id -> claims.
    """
    asked = {row["question_id"]: row["question"] for row in questions}
    judged = {row["claim_id"]: row for row in attributions}
    unsupported = {key for key, row in judged.items() if row["evidence"] and row["attributable"] is False}
    for answer in answers:
        own = claims[answer["answer_id"]]
        keys = [claim["claim_id"] for claim in own]
        read = [(judged[key]["evidence"] or "") if key in judged else "" for key in keys]
        yield (
            answer,
            prompt.request(
                model,
                copies=True,
                abstains=abstention,
                unchanged=partial(equal_texts, answer["text"]) if unsupported.intersection(keys) else None,
                subject=answer["question_id"],
                question=asked[answer["question_id"]][:QUESTION_CHARACTERS],
                answer=answer["text"][:ANSWER_CHARACTERS],
                claims=[claim["text"] for claim in own],
                evidence=[text[:EVIDENCE_CHARACTERS] for text in read],
            ),
        )


def _revised(answer: Row, text: str, by: str, annotator: str | None, written_by: Row) -> Row:
    """A row of REVISED of this answer. `text`: the revision. `by`: person, claims or model. `annotator`: the id of the
    person, None for a model. `written_by`: the columns of MADE_BY.
    """
    key = answer["answer_id"]
    return {
        "revised_id": f"r_{fingerprint([key, text])}",
        "answer_id": key,
        "question_id": answer["question_id"],
        "system": answer["system"],
        "text": text,
        "revised_by": by,
        "annotator_id": annotator,
        **written_by,
    }
