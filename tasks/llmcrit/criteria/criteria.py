"""Criteria: checks that can be done one by one, which a model lists for each aspect, or which are imported.

1. **Contents on the label**: Does the label say what is in the jar?
"""

from __future__ import annotations

from collections.abc import Iterator

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Rejected, Row
from longform.engine.stage import AllRows, AtMost, Rows, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint, Flaw, Request
from schemas.llmcrit import CRITERIA
from tasks.answers import answered, made_by
from tasks.llmcrit.asking import Voices, longest_of_prompt
from tasks.text.copies.shingles import words
from tasks.text.markdown.named_items import named_items

MOST_CRITERIA = 50  # of an aspect
NO_LIST: Flaw = ("invalid", "no list of criteria")


# ---------------------------------------------------------------- rows


def criterion_id(aspect_id: str, name: str, check: str) -> str:
    """The id of a criterion: a hash of its aspect, name and check."""
    return f"c_{fingerprint([aspect_id, name, check])}"


def criterion_rows(aspect: Row, listed: list[tuple[str, str]], made: Row) -> Iterator[Row]:
    """The rows of CRITERIA of an aspect's list, each criterion once. `made`: which model listed them, as MADE_BY."""
    seen = dict.fromkeys(listed)
    for position, (name, check) in enumerate(seen, start=1):
        yield {
            "criterion_id": criterion_id(aspect["aspect_id"], name, check),
            "aspect_id": aspect["aspect_id"],
            "task": aspect["task"],
            "position": position,
            "name": name,
            "check": check or name,
            "state": "proposed",
            "reviewers": 0,
            "proposed": None,
            **made,
        }


def shown(criterion: Row) -> str:
    """A criterion as prompts and people see it: **name**: check."""
    return f"**{criterion['name']}**: {criterion['check']}" if criterion["name"] else str(criterion["check"])


def label(criterion: Row) -> str:
    """A short label of a criterion: its name, else its check."""
    return str(criterion["name"] or criterion["check"])


@stage(
    CRITERIA,
    revision=1,
    at_most=AtMost(rows=lambda sizes: MOST_CRITERIA * sizes["aspects"], questions=longest_of_prompt),
)
def propose_criteria(
    context: StageContext, aspects: Rows, *, model: Endpoint, prompt: Prompt, voices: Voices
) -> Iterator[Row | Rejected]:
    """The criteria that a model lists for each aspect, from its guideline alone (LLMCrit, 3.2). A Rejected for an
    aspect without a usable list.
    """

    def request(aspect: Row) -> Request:
        inputs = {"noun": voices[aspect["task"]]["noun"], "guideline": aspect["guideline"]}
        return prompt.request(model, **inputs, check=lambda reply: None if named_items(reply) else NO_LIST, copies=True)

    for aspect, found in answered(context, model, ((row["aspect_id"], row, request(row)) for row in aspects)):
        if isinstance(found, Rejected):
            yield found
        else:
            listed = named_items(found[0].value)
            yield from criterion_rows(aspect, listed[:MOST_CRITERIA], made_by(found[0], model, prompt))
            for name, check in listed[MOST_CRITERIA:]:
                yield Rejected(aspect["aspect_id"], "filtered", f"over {MOST_CRITERIA} criteria", detail=name or check)


@stage(CRITERIA, revision=1, at_most=AtMost(rows=lambda of: of["proposed"] + of["released"]))
def distinct_criteria(
    context: StageContext, proposed: AllRows, released: AllRows, *, similar: float
) -> Iterator[Row | Rejected]:
    """The criteria that models proposed, without those that say what an earlier one of their task says, and all
    imported ones. A Rejected for each that is left out: its words and those of the earlier one share `similar` or more
    (Jaccard).
    """
    seen: dict[str, list[tuple[Row, set[str]]]] = {}
    for row in proposed:
        own = set(words(row["check"]))
        earlier = seen.setdefault(row["task"], [])
        same = next((other for other, theirs in earlier if len(own & theirs) >= similar * len(own | theirs)), None)
        if same is None:
            earlier.append((row, own))
            yield row
        else:
            yield Rejected(row["criterion_id"], "filtered", "says what another criterion says", detail=shown(same))
    yield from released
