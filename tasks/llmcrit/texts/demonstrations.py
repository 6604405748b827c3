"""Demonstrations: a text that violates or meets criteria, and feedback on it (LLMCrit, 3.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import AllRows, Rejected, Row, Rows, grouped
from longform.engine.stage import AtMost, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint, Request
from schemas.llmcrit import DEMONSTRATIONS
from tasks.answers import answered, made_by
from tasks.llmcrit.asking import Voices, longest_of_prompt
from tasks.llmcrit.audits import OF_DEMONSTRATIONS
from tasks.llmcrit.criteria.criteria import shown
from tasks.llmcrit.texts.changes import DEMONSTRATION
from tasks.publishing.audits import rejected_by


@stage(DEMONSTRATIONS, revision=2, at_most=AtMost(rows=lambda sizes: sizes["changed"], questions=longest_of_prompt))
def write_demonstrations(
    context: StageContext,
    changed: Rows,
    compliance: Rows,
    aspects: AllRows,
    *,
    model: Endpoint,
    prompt: Prompt,
    voices: Voices,
    least_verified: float,
) -> Iterator[Row | Rejected]:
    """A demonstration for each text that was changed to be one, with feedback that a model writes by the guideline and
    the criteria, told which of these are violated. A Rejected for a test text, for one of whose violations the judge
    found a share below `least_verified`, and for one without usable feedback.
    """
    verdicts = grouped(compliance, "change_id")
    guidelines = {row["aspect_id"]: row["guideline"] for row in aspects.as_dicts("aspect_id", "guideline")}
    kept: list[tuple[Row, list[str]]] = []
    for change in changed:
        wanted = [each["criterion_id"] for each in change["criteria"] if each["satisfied"] is False]
        seen = {row["criterion_id"] for row in verdicts[change["change_id"]] if row["verdict"] == "violated"}
        violated = [name for name in wanted if name in seen]
        if change["use"] != DEMONSTRATION:
            yield Rejected(change["change_id"], "filtered", "a test text")
        elif wanted and len(violated) < least_verified * len(wanted):
            detail = f"{len(violated)} of {len(wanted)}"
            yield Rejected(change["change_id"], "filtered", "its violations were not found by the judge", detail)
        else:
            kept.append((change, violated))

    def request(change: Row, violated: list[str]) -> Request:
        inputs: dict[str, Any] = {**voices[change["task"]], "guideline": guidelines[change["aspect_id"]]}
        broken = [shown(each) for each in change["criteria"] if each["criterion_id"] in violated]
        inputs |= {"text": change["text"], "criteria": [shown(each) for each in change["criteria"]], "violated": broken}
        return prompt.request(model, **inputs)

    items = ((change["change_id"], (change, len(of)), request(change, of)) for change, of in kept)
    for (change, verified), found in answered(context, model, items):
        yield found if isinstance(found, Rejected) else _demonstration(change, verified, found[0], model, prompt)


def _demonstration(change: Row, verified: int, answer: Answer, model: Endpoint, prompt: Prompt) -> Row | Rejected:
    """A row of DEMONSTRATIONS, or the Rejected if an audit finds the feedback."""
    row = {
        "demonstration_id": f"d_{fingerprint([change['aspect_id'], change['text'], answer.value])}",
        **{
            name: change[name] for name in ("aspect_id", "task", "position", "kind", "criteria", "change_id", "text_id")
        },
        "input": change["text"],
        "output": answer.value,
        "violations": sum(each["satisfied"] is False for each in change["criteria"]),
        "verified": verified,
        "state": "proposed",
        "reviewers": 0,
        "changed_by": change["response"],
        **made_by(answer, model, prompt),
    }
    return rejected_by(row, OF_DEMONSTRATIONS, "change_id") or row
