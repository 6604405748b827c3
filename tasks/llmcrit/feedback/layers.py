"""The layered evaluation of feedback (LLMCrit, 4.5): each layer judges only what passed the one before.

    validity        is it feedback on one text at all?                      specific passes
    context         is it on this text?                                     match passes
    constructive    does it criticise or suggest, criterion by criterion?   yes passes
    helpful         does that help the writer?

The last two come of one question each, as in the paper. Planted feedback is put to the judges of the layers that it
checks, in among the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from longform.artifacts.rows import AllRows, Rejected, Row, Rows
from longform.engine.stage import AtMost, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint, Request
from schemas.llmcrit import CONTEXT, CRITIQUES, VALIDITY
from schemas.replies import Contextualization, Critique, Validity
from tasks.answers import answered, made_by
from tasks.llmcrit.asking import Voices, longest_of_prompt
from tasks.llmcrit.criteria.criteria import shown
from tasks.llmcrit.feedback.planted import CONSTRUCTIVE, HELPFUL, asked_of
from tasks.llmcrit.feedback.planted import CONTEXT as CONTEXT_LAYER
from tasks.llmcrit.feedback.planted import VALIDITY as VALIDITY_LAYER
from tasks.text.markdown.quotations import is_drawn_from

SPECIFIC, MATCH, YES = "specific", "match", "yes"


def _bounds(reply: Any, *, each: str = "") -> AtMost:
    """Upper bounds of a layer: a question for each feedback, and for each row of the input `each`."""
    most: Callable[[Any], float] = lambda of: of["mixed"] * (of[each] if each else 1)  # noqa: E731
    return AtMost(most, most, partial(longest_of_prompt, reply=reply))


@stage(VALIDITY, revision=1, at_most=_bounds(Validity))
def judge_validity(
    context: StageContext, mixed: Rows, *, model: Endpoint, prompt: Prompt, rubrics: Voices
) -> Iterator[Row | Rejected]:
    """Whether each feedback is specific, seen without its text. A Rejected for one without a usable verdict, and for
    planted feedback that checks other layers. `rubrics`: task -> noun, and examples of both verdicts.
    """
    kinds = asked_of({VALIDITY_LAYER})

    def request(row: Row) -> Request:
        names = ("noun", "specific", "not_specific")
        inputs = {name: rubrics[row["task"]][name] for name in names}
        return prompt.request(model, reply=Validity, feedback=row["feedback"], subject=row["feedback_id"], **inputs)

    rows = list(_sifted(mixed, kinds))
    yield from (row for row in rows if isinstance(row, Rejected))
    items = ((row["feedback_id"], row, request(row)) for row in rows if not isinstance(row, Rejected))
    for row, found in answered(context, model, items):
        yield found if isinstance(found, Rejected) else _verdict(row, found[0], model, prompt)


@stage(CONTEXT, revision=1, at_most=_bounds(Contextualization))
def judge_context(
    context: StageContext,
    mixed: Rows,
    validity: Rows,
    texts: Rows,
    *,
    model: Endpoint,
    prompt: Prompt,
    rubrics: Voices,
) -> Iterator[Row | Rejected]:
    """Whether each feedback that is specific belongs to its text. A Rejected for one that is not specific; else as by
    `judge_validity`. `rubrics`: task -> noun, and what feedback counts as that belongs to the text in part.
    """
    passed = {row["feedback_id"] for row in validity.as_dicts("feedback_id", "verdict") if row["verdict"] == SPECIFIC}
    of_text = {row["text_id"]: row["text"] for row in texts.as_dicts("text_id", "text")}

    def request(row: Row) -> Request:
        rubric = rubrics[row["task"]]
        inputs = {"noun": rubric["noun"], "mixed": rubric["mixed"], "text": of_text[row["text_id"]]}
        subject = row["feedback_id"]
        return prompt.request(model, reply=Contextualization, feedback=row["feedback"], subject=subject, **inputs)

    rows = list(_sifted(mixed, asked_of({CONTEXT_LAYER}), passed, "not specific"))
    yield from (row for row in rows if isinstance(row, Rejected))
    items = ((row["feedback_id"], row, request(row)) for row in rows if not isinstance(row, Rejected))
    for row, found in answered(context, model, items):
        yield found if isinstance(found, Rejected) else _verdict(row, found[0], model, prompt)


@stage(CRITIQUES, revision=1, at_most=_bounds(Critique, each="criteria"))
def judge_critiques(
    context: StageContext,
    mixed: Rows,
    belongs: Rows,
    texts: Rows,
    criteria: AllRows,
    *,
    model: Endpoint,
    prompt: Prompt,
    rubrics: Voices,
) -> Iterator[Row | Rejected]:
    """What each feedback that matches its text says against it with regard to each of its criteria, and whether that
    helps; `helpful` is null where it says nothing. A Rejected for feedback that does not match; else as by
    `judge_validity`. `belongs`: rows of CONTEXT; `rubrics`: task -> noun, role, grounds, examples.
    """
    passed = {row["feedback_id"] for row in belongs.as_dicts("feedback_id", "verdict") if row["verdict"] == MATCH}
    of_text = {row["text_id"]: row["text"] for row in texts.as_dicts("text_id", "text")}
    of_id = {row["criterion_id"]: row for row in criteria.as_dicts("criterion_id", "name", "check")}

    def request(row: Row, criterion: str) -> Request:
        rubric = rubrics[row["task"]]
        names = ("role", "noun", "unhelpful", "examples")
        inputs = {**{name: rubric[name] for name in names}, "text": of_text[row["text_id"]]}
        inputs |= {"feedback": row["feedback"], "criterion": shown(of_id[criterion])}
        return prompt.request(model, reply=Critique, subject=f"{row['feedback_id']}#{criterion}", **inputs)

    kinds = asked_of({CONSTRUCTIVE, HELPFUL})
    rows = list(_sifted(mixed, kinds, passed, "it does not match its text"))
    yield from (row for row in rows if isinstance(row, Rejected))
    bare = [row["feedback_id"] for row in rows if not isinstance(row, Rejected) and not row["criteria"]]
    yield from (Rejected(name, "filtered", "there is no criterion for it") for name in bare)
    items = (
        (row["feedback_id"], (row, criterion), request(row, criterion))
        for row in rows
        if not isinstance(row, Rejected)
        for criterion in row["criteria"]
    )
    for (row, criterion), found in answered(context, model, items):
        yield found if isinstance(found, Rejected) else _critique(row, criterion, found[0], model, prompt)


def _sifted(mixed: Rows, kinds: set[str], passed: set[str] | None = None, reason: str = "") -> Iterator[Row | Rejected]:
    """Real and planted feedback; a Rejected for real feedback that is not in `passed` (None: all pass), with the
    reason, and for planted feedback of other `kinds`.
    """
    for row in mixed:
        if row["planted"] is not None and row["planted"] not in kinds:
            yield Rejected(row["feedback_id"], "filtered", "planted to check another layer")
        elif row["planted"] is None and passed is not None and row["feedback_id"] not in passed:
            yield Rejected(row["feedback_id"], "filtered", reason)
        else:
            yield row


def _judged(row: Row, answer: Answer, model: Endpoint, prompt: Prompt) -> Row:
    """The columns that all layers have."""
    kept = {name: row[name] for name in ("feedback_id", "text_id", "task", "planted")}
    return {**kept, "reasoning": answer.value.reasoning, **made_by(answer, model, prompt)}


def _verdict(row: Row, answer: Answer, model: Endpoint, prompt: Prompt) -> Row:
    """A row of VALIDITY or CONTEXT."""
    return {**_judged(row, answer, model, prompt), "verdict": answer.value.verdict}


def _critique(row: Row, criterion: str, answer: Answer, model: Endpoint, prompt: Prompt) -> Row:
    """A row of CRITIQUES. A critique without an extraction from the feedback is none."""
    extraction = (answer.value.extraction or "").strip()
    constructive = answer.value.critique == YES and is_drawn_from(row["feedback"], extraction)
    return {
        **_judged(row, answer, model, prompt),
        "critique_id": f"{row['feedback_id']}#{criterion}",
        "criterion_id": criterion,
        "extraction": extraction if constructive else "",
        "constructive": constructive,
        "helpful": answer.value.helpful == YES if constructive else None,
    }
