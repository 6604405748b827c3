"""Feedback on texts by four strategies (LLMCrit, 3.4 and 5), and the choice among samples by self-consistency.

    base     the text alone                        icl      with demonstrations
    crit     with guideline and criteria           cricl    with both

Base is asked once a text, the others once an aspect, or, where single criteria are wanted, once a criterion (7.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import AllRows, Rejected, Row, Rows, grouped
from longform.engine.at_most import Sizes, embedding_calls
from longform.engine.stage import AtMost, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint
from schemas.llmcrit import FEEDBACK, SAMPLES
from tasks.answers import answered, made_by
from tasks.llmcrit.asking import REPLY_TOKENS, Voices, longest_request
from tasks.llmcrit.audits import OF_FEEDBACK
from tasks.llmcrit.criteria.criteria import shown
from tasks.publishing.audits import rejected_by
from tasks.retrieval.consistency import Vectors, most_central, tfidf
from tasks.retrieval.dense import check_local_models, local_model
from tasks.text.markdown.remarks import remarks

BASE, CRIT, ICL, CRICL = "base", "crit", "icl", "cricl"
TEXT, ASPECT, CRITERION = "text", "aspect", "criterion"
TFIDF = "tfidf"


class Subject(NamedTuple):
    """What one call is asked about: a text and, of an aspect (None: of all), the criteria it is judged on."""

    strategy: str
    granularity: str
    text: Row
    aspect: Row | None
    criteria: list[Row]
    demonstrations: list[Row]


class Known(NamedTuple):
    """task -> its aspects with criteria; aspect id -> its criteria; aspect id -> its demonstrations; all in order."""

    aspects: dict[str, list[Row]]
    criteria: dict[str, list[Row]]
    demonstrations: dict[str, list[Row]]

    @classmethod
    def of(cls, aspects: Iterable[Row], criteria: Iterable[Row], demonstrations: Iterable[Row] = ()) -> Known:
        of_aspect = grouped(sorted(criteria, key=lambda row: row["position"]), "aspect_id")
        with_criteria = (row for row in aspects if of_aspect.get(row["aspect_id"]))
        listed = grouped(sorted(with_criteria, key=lambda row: row["position"]), "task")
        shown_texts = sorted(demonstrations, key=lambda row: row["position"])
        return cls(listed, of_aspect, grouped(shown_texts, "aspect_id"))

    def subjects(self, text: Row, strategy: str, *, single: bool = False) -> Iterator[Subject]:
        """What a strategy asks about a text. `single`: one criterion at a time."""
        aspects = self.aspects[text["task"]]
        if strategy == BASE:
            criteria = [each for aspect in aspects for each in self.criteria[aspect["aspect_id"]]]
            yield Subject(BASE, TEXT, text, None, criteria, [])
            return
        for aspect in aspects:
            criteria = self.criteria[aspect["aspect_id"]]
            own = self.demonstrations[aspect["aspect_id"]] if strategy in (ICL, CRICL) else []
            for chosen in [[each] for each in criteria] if single else [criteria]:
                yield Subject(strategy, CRITERION if single else ASPECT, text, aspect, chosen, own)


def _subjects(sizes: Sizes) -> float:
    """Upper bound of what is asked about: one for each text (base), its aspects, and single criteria."""
    of_text = sizes["criteria"] * bool(sizes["single"])
    of_text += sum(1 if strategy == BASE else sizes["aspects"] for strategy in sizes["prompts"])
    return float(sizes["texts"] * of_text)


@stage(
    SAMPLES,
    revision=2,
    at_most=AtMost(
        rows=_subjects,
        calls=lambda sizes: _subjects(sizes) * sizes["samples"],
        questions=lambda sizes: [longest_request(sizes["model"], prompt) for prompt in sizes["prompts"].values()],
    ),
)
def give_feedback(
    context: StageContext,
    texts: Rows,
    aspects: AllRows,
    criteria: AllRows,
    demonstrations: AllRows,
    *,
    model: Endpoint,
    prompts: dict[str, Prompt],
    voices: Voices,
    samples: int,
    single: list[str],
) -> Iterator[Row | Rejected]:
    """Samples of feedback on each text by each strategy of `prompts` (strategy -> prompt); by crit also with one
    criterion at a time, for the texts of the tasks in `single`.

    A Rejected of the text, whose detail begins with the strategy, for each aspect without a demonstration that a
    strategy needs, without a usable sample, or whose prompt is too long for the endpoint.
    """
    known = Known.of(aspects, criteria, demonstrations)
    lacking: list[Rejected] = []

    def subjects() -> Iterator[Subject]:
        for text in texts:
            if not known.aspects[text["task"]]:
                lacking.append(Rejected(text["text_id"], "filtered", "its task has no criteria"))
                continue
            for strategy in prompts:
                yield from known.subjects(text, strategy)
            if text["task"] in single and CRIT in prompts:
                yield from known.subjects(text, CRIT, single=True)

    def asked() -> Iterator[tuple[str, Subject, Any]]:
        for subject in subjects():
            if subject.strategy in (ICL, CRICL) and not subject.demonstrations:
                detail = f"{subject.strategy}: {(subject.aspect or {}).get('aspect_id')}"
                lacking.append(
                    Rejected(subject.text["text_id"], "filtered", "an aspect without a demonstration", detail)
                )
            else:
                request = prompts[subject.strategy].request(
                    model,
                    samples=samples,
                    max_tokens=REPLY_TOKENS,
                    system=subject.strategy,
                    **_inputs(subject, prompts[subject.strategy], voices[subject.text["task"]]),
                )
                yield subject.text["text_id"], subject, request

    for subject, found in answered(context, model, asked()):
        if isinstance(found, Rejected):
            yield replace(found, detail=f"{subject.strategy}: {found.detail}")
        else:
            yield _samples(subject, found, model, prompts[subject.strategy])
    yield from lacking


def _inputs(subject: Subject, prompt: Prompt, voice: Row) -> dict[str, Any]:
    """The inputs that a prompt declares."""
    known = {
        "text": subject.text["text"],
        "guideline": subject.aspect["guideline"] if subject.aspect else "",
        "criteria": [shown(each) for each in subject.criteria],
        "examples": [row[name] for row in subject.demonstrations for name in ("input", "output")],
    }
    return {name: {**voice, **known}[name] for name in prompt.inputs}


def _samples(subject: Subject, answers: list[Answer], model: Endpoint, prompt: Prompt) -> Row:
    """A row of SAMPLES."""
    aspect = subject.aspect["aspect_id"] if subject.aspect else None
    criteria = [each["criterion_id"] for each in subject.criteria]
    about = criteria if subject.granularity == CRITERION else []
    identity = [subject.text["text_id"], subject.strategy, subject.granularity, aspect, about, model.name, model.model]
    return {
        "feedback_id": f"f_{fingerprint(identity)}",
        "text_id": subject.text["text_id"],
        "task": subject.text["task"],
        "strategy": subject.strategy,
        "granularity": subject.granularity,
        "aspect_id": aspect,
        "criteria": criteria,
        "demonstrations": [each["demonstration_id"] for each in subject.demonstrations],
        "samples": [{"text": each.value, "response": each.key} for each in answers],
        **made_by(answers[0], model, prompt),
    }


# ---------------------------------------------------------------- self-consistency


def check_embedding(embedding: str | Endpoint) -> None:
    """Raise UsageError if `embedding` names a local model and sentence-transformers is not installed."""
    if isinstance(embedding, str) and embedding != TFIDF:
        check_local_models(embedding)


def _embedded(sizes: Sizes) -> float:
    """Upper bound of the calls that embed samples."""
    return embedding_calls(sizes["given"] * sizes.arguments_of("given").get("samples", 1), sizes.units)


@stage(FEEDBACK, revision=1, at_most=AtMost(calls=_embedded))
def choose_feedback(
    context: StageContext, given: Rows, texts: Rows, criteria: AllRows, *, embedding: str | Endpoint
) -> Iterator[Row | Rejected]:
    """Of the samples of each feedback the one with the highest mean cosine to the others, the first of equals, and its
    remarks. `given`: rows of SAMPLES; `embedding`: tfidf, the name of a sentence-transformers model, or an endpoint.

    A Rejected for feedback that an audit finds. UsageError for a local model that cannot be loaded.
    """
    of = {row["criterion_id"]: row for row in criteria.as_dicts("criterion_id", "name", "check")}
    shown_texts = {row["text_id"]: row["text"] for row in texts.as_dicts("text_id", "text")}
    vectors = _vectors(context, given, embedding)
    for row in given:
        chosen, similarity = most_central(next(vectors))
        best = row["samples"][chosen]
        found = {
            **{column: row[column] for column in FEEDBACK.names if column in row},
            "feedback": best["text"],
            "response": best["response"],
            "remarks": remarks(best["text"], [of[each] for each in row["criteria"]]),
            "similarity": similarity,
            "samples": len(row["samples"]),
            "embedding": embedding.model if isinstance(embedding, Endpoint) else embedding,
        }
        yield rejected_by({**found, "text": shown_texts[row["text_id"]]}, OF_FEEDBACK, "feedback_id") or found


def _vectors(context: StageContext, given: Rows, embedding: str | Endpoint) -> Iterator[Vectors]:
    """The vectors of the samples of each row, (samples, width)."""
    texts = ([each["text"] for each in row["samples"]] for row in given.as_dicts("samples"))
    if isinstance(embedding, Endpoint):
        sizes = [len(of) for of in texts]
        every = (each["text"] for row in given.as_dicts("samples") for each in row["samples"])
        found = context.embeddings(embedding, every)
        yield from (np.array([next(found) for _ in range(size)], np.float64) for size in sizes)
    elif embedding == TFIDF:
        yield from map(tfidf, texts)
    else:
        embed = local_model(embedding)
        yield from (np.asarray(embed(of), np.float64) for of in texts)
