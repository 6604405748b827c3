"""What the lists of edits of one draft are worth: a request for each reference, and a row for each list asked for.

Of several references the one counts that the draft is nearest to by the corrected distance, as a draft is as good as
the closest of the texts that it may become; the first of equal ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Rejected, Row
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from longform.llm.retry import MODEL_REASON
from tasks.revision_distance.drafts.measure import Revision, edit_request, measure, numbers_of, weight
from tasks.revision_distance.drafts.signature import named, signature

Item = tuple[Row, int | None]  # a draft, and the number of the reference that is asked about; None: none


@dataclass(frozen=True, slots=True)
class Editor:
    """Who lists the edits, and how: the endpoint, the prompts with and without a reference, and the number of lists for
    each draft.
    """

    model: Endpoint
    to_reference: Prompt
    freely: Prompt
    repeats: int = 1


@dataclass(frozen=True, slots=True)
class Lists:
    """The replies about one draft, as plain values that a worker process can be sent.

    `replies`: (number of the reference or None, repeat, reply as by `_plain`).
    """

    draft: Row
    replies: list[tuple[int | None, int, Row]]
    editor: str
    endpoint: str
    weights: Mapping[str, float]


def requests_of(draft: Row, editor: Editor) -> Iterator[tuple[Item, Request]]:
    """The requests for the edits of a draft (a row of OWN_DRAFTS): one for each of its references, else one without."""
    numbered: list[tuple[int | None, str | None]] = [*enumerate(draft["references"])] or [(None, None)]
    for number, reference in numbered:
        yield (
            (draft, number),
            edit_request(
                draft["draft"],
                reference,
                draft["request"] or "",
                editor.model,
                editor.to_reference,
                editor.freely,
                samples=editor.repeats,
            ),
        )


def lists_of(
    replies: Iterable[tuple[Item, Answer | Failure]], editor: Editor, weights: Mapping[str, float]
) -> Iterator[Lists]:
    """The replies draft by draft, which come in the order of the drafts."""
    told, current, own = named(editor.model), None, list[tuple[int | None, int, Row]]()
    for (draft, number), reply in replies:
        if current is not None and current["draft_id"] != draft["draft_id"]:
            yield Lists(current, own, told, editor.model.name, weights)
            own = []
        current = draft
        prompt = editor.freely if number is None else editor.to_reference
        own.append((number, reply.sample, _plain(reply, prompt)))
    if current is not None:
        yield Lists(current, own, told, editor.model.name, weights)


def _plain(reply: Answer | Failure, prompt: Prompt) -> Row:
    """A reply as plain values: its edits and where they come from, or `failed`, the kind of failure."""
    if isinstance(reply, Failure):
        text = reply.detail.get("text")
        return {"failed": reply.kind, "message": reply.message, "text": text, "response": reply.key}
    return {
        "edits": [edit.model_dump() for edit in reply.value.edits],
        "lost": reply.lost,
        "response": reply.key,
        "model": reply.model,
        "prompt": prompt.name,
        "prompt_hash": prompt.hash,
    }


def measured_lists(many: Sequence[Lists]) -> list[list[Row | Rejected]]:
    """For each draft its rows of MEASURED, one for each list that could be used; a Rejected, with the reply, where
    none could.
    """
    return [list(measured(each)) for each in many]


def measured(lists: Lists) -> Iterator[Row | Rejected]:
    """The rows of one draft, in the order of the repeats; one Rejected if no list can be used."""
    by_repeat: dict[int, list[tuple[int | None, Row]]] = {}
    for number, repeat, reply in lists.replies:
        by_repeat.setdefault(repeat, []).append((number, reply))
    used = 0
    for repeat, own in sorted(by_repeat.items()):
        usable = [(number, reply) for number, reply in own if "failed" not in reply]
        if usable:
            used += 1
            yield _best(lists, repeat, usable, len(own) - len(usable))
    if not used:
        yield _unanswered(lists)


def _unanswered(lists: Lists) -> Rejected:
    """The Rejected of a draft without a usable list, with the first reply."""
    _, _, reply = lists.replies[0]
    detail = f"{lists.draft['system']}, {lists.draft['id']}: {reply['message']}"
    key = lists.draft["draft_id"]
    return Rejected(key, "defect", f"{MODEL_REASON}{reply['failed']}", detail=detail, raw=reply["text"])


def _best(lists: Lists, repeat: int, usable: Sequence[tuple[int | None, Row]], failed: int) -> Row:
    """The row of the reference with the least corrected distance, of those with a usable list."""
    found = [(number, reply, _revision(lists, number, reply)) for number, reply in usable]
    number, reply, revision = min(
        found, key=lambda each: (each[2].numbers.corrected is None, each[2].numbers.corrected)
    )
    draft = lists.draft
    return {
        "measure_id": f"m_{fingerprint([draft['draft_id'], lists.endpoint, repeat])}",
        "draft_id": draft["draft_id"],
        "id": draft["id"],
        "system": draft["system"],
        "row": draft["row"],
        "editor": lists.endpoint,
        "repeat": repeat,
        **numbers(revision),
        "reference_number": number,
        "references_failed": failed,
        "edits": [_placed(each, lists.weights) for each in revision.edits],
        "revised": revision.revised,
        "signature": signature(lists.editor, reply["prompt"], reply["prompt_hash"], reply["model"]),
        "response": reply["response"],
        "prompt": reply["prompt"],
        "prompt_hash": reply["prompt_hash"],
        "endpoint": lists.endpoint,
        "model": reply["model"],
    }


def _revision(lists: Lists, number: int | None, reply: Row) -> Revision:
    """The Revision by a list of edits towards a reference."""
    reference = None if number is None else lists.draft["references"][number]
    return measure(lists.draft["draft"], reference, reply["edits"], lists.weights, lost_edits=reply["lost"])


def numbers(revision: Revision) -> Row:
    """The numbers of a Revision, as columns of MEASURED."""
    return {
        "distance": revision.distance,
        "weighted": revision.weighted,
        "not_placed": revision.not_placed,
        "not_applied": revision.not_applied,
        "reproduces": revision.reproduces,
        **numbers_of(revision),
    }


def _placed(placement: Any, weights: Mapping[str, float]) -> Row:
    """An edit with its place, as an entry of PLACED."""
    names = ("placed", "start", "end", "at", "applied", "why_not")
    edit = placement.edit.model_dump() if hasattr(placement.edit, "model_dump") else dict(placement.edit)
    own = {name: getattr(placement, name) for name in names}
    return {**edit, "category": None, "weight": weight(placement.edit, weights), **own}
