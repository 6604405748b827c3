"""Texts changed to violate or to meet criteria (LLMCrit, 3.3 and 4.4): which, how, and whether a judge sees it.

    kind 1   violate every criterion of the aspect        kind 3   violate some, drawn by the seed
    kind 2   meet at least some, drawn by the seed        kind 4   meet all, or stay where the guideline does not apply

Demonstrations of each aspect have the kinds of their task; test texts that are modified violate some criteria (3) of
an aspect that is drawn for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from longform.artifacts.parts import key_hash
from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import AllRows, Rejected, Row, Rows, grouped
from longform.engine.at_most import Sizes, longest
from longform.engine.stage import AtMost, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint, Flaw, Request
from schemas.llmcrit import CHANGED, CHANGES, COMPLIANCE, TEXTS
from schemas.replies import Compliance
from tasks.answers import NO_MODEL, answered, made_by
from tasks.llmcrit.asking import MOST_CHARACTERS, Voices, longest_of_prompt, longest_request, tokens_to_rewrite
from tasks.llmcrit.audits import OF_CHANGES
from tasks.llmcrit.criteria.criteria import MOST_CRITERIA, shown
from tasks.publishing.audits import rejected_by
from tasks.text.audits.equality import equal_texts
from tasks.text.markdown.document import without_fence

VIOLATE_ALL, MEET_SOME, VIOLATE_SOME, MEET_ALL = 1, 2, 3, 4
TEST, DEMONSTRATION = "test", "demonstration"


def satisfaction(kind: int, criterion_ids: list[str], draw: str) -> list[bool | None]:
    """The satisfaction vector over criteria: True to be met, False to be violated, None as the text has it. Of the
    kinds that draw, each criterion is drawn by a coin, at least one of them and, of several, not all. `draw`: what the
    coins depend on.
    """
    if kind in (VIOLATE_ALL, MEET_ALL):
        return [kind == MEET_ALL] * len(criterion_ids)
    coins = {name: key_hash(f"{draw}\x1f{name}") for name in criterion_ids}
    drawn = {name for name, coin in coins.items() if coin & 1} or {min(coins, key=coins.__getitem__)}
    if len(drawn) == len(coins) > 1:
        drawn.remove(max(coins, key=coins.__getitem__))
    return [kind == MEET_SOME if name in drawn else None for name in criterion_ids]


@stage(CHANGES, revision=1, at_most=AtMost(rows=lambda sizes: sizes["drawn"] + sizes["aspects"] * _most_kinds(sizes)))
def plan_changes(
    context: StageContext,
    drawn: AllRows,
    aspects: AllRows,
    criteria: AllRows,
    *,
    kinds: dict[str, list[int]],
    seed: int,
) -> Iterator[Row | Rejected]:
    """Which text is to be changed by which aspect, how, with its satisfaction vector: a demonstration of each kind for
    each aspect, and a change of each test text that is to be modified. A Rejected for each other text. `kinds`: task ->
    kinds of its demonstrations.
    """
    of_aspect = grouped(criteria, "aspect_id")
    by_task = grouped((row for row in aspects if of_aspect.get(row["aspect_id"])), "task")
    chosen = _of_demonstrations(drawn, by_task, kinds, seed)
    for text in drawn:
        name, made = text["text_id"], False
        if text["modified"] and by_task[text["task"]]:
            aspect = min(by_task[text["task"]], key=lambda row: key_hash(f"{seed}\x1f{name}\x1f{row['aspect_id']}"))
            yield _change(text, aspect["aspect_id"], VIOLATE_SOME, 1, of_aspect[aspect["aspect_id"]], seed)
            made = True
        for aspect_id, kind, position in chosen.get(name, ()):
            yield _change(text, aspect_id, kind, position, of_aspect[aspect_id], seed)
            made = True
        if not made:
            reason = "not to be modified" if text["use"] == TEST else "no demonstration is made of it"
            yield Rejected(name, "filtered", reason)


def _most_kinds(sizes: Sizes) -> int:
    """The largest number of demonstrations of an aspect."""
    return max(map(len, sizes["kinds"].values()), default=0)


def _of_demonstrations(
    drawn: Rows, by_task: dict[str, list[Row]], kinds: dict[str, list[int]], seed: int
) -> dict[str, list[tuple[str, int, int]]]:
    """text id -> (aspect, kind, position) of the demonstrations that are made of it. Each aspect takes other texts for
    its kinds as long as there are some.
    """
    texts = grouped((row for row in drawn.as_dicts("text_id", "task", "use") if row["use"] == DEMONSTRATION), "task")
    found: dict[str, list[tuple[str, int, int]]] = {}
    for task, aspects in by_task.items():
        names = [row["text_id"] for row in texts.get(task, ())]
        for aspect in aspects:
            own = ((key_hash(f"{seed}\x1f{aspect['aspect_id']}\x1f{name}"), name) for name in names)
            ranked = [name for _, name in sorted(own)]
            for position, kind in enumerate(kinds.get(task, ()) if ranked else (), start=1):
                name = ranked[(position - 1) % len(ranked)]
                found.setdefault(name, []).append((aspect["aspect_id"], kind, position))
    return found


def _change(text: Row, aspect_id: str, kind: int, position: int, criteria: list[Row], seed: int) -> Row:
    """A row of CHANGES."""
    ordered = sorted(criteria, key=lambda row: row["position"])
    ids = [row["criterion_id"] for row in ordered]
    vector = satisfaction(kind, ids, f"{seed}\x1f{text['text_id']}\x1f{aspect_id}\x1f{kind}")
    return {
        "change_id": f"x_{fingerprint([text['text_id'], aspect_id, kind, position, ids, vector])}",
        "text_id": text["text_id"],
        "aspect_id": aspect_id,
        "task": text["task"],
        "use": text["use"],
        "kind": kind,
        "position": position,
        "criteria": [
            {"criterion_id": row["criterion_id"], "name": row["name"], "check": row["check"], "satisfied": satisfied}
            for row, satisfied in zip(ordered, vector, strict=True)
        ],
        "original": text["text"],
    }


# ---------------------------------------------------------------- changing


@stage(
    CHANGED,
    revision=2,
    at_most=AtMost(
        questions=lambda of: [
            longest_request(of["model"], of["meet"], max_tokens=tokens_to_rewrite(longest(MOST_CHARACTERS)))
        ]
    ),
)
def change_texts(
    context: StageContext,
    changes: Rows,
    aspects: AllRows,
    *,
    model: Endpoint,
    violate: Prompt,
    meet: Prompt,
    meet_or_leave: Prompt,
    voices: Voices,
) -> Iterator[Row | Rejected]:
    """The text of each change, written by a model that is told the criteria to violate or to meet. A reply that leaves
    the text as it was is asked for again, except of kind 4. A Rejected for one without a usable reply, and where the
    prompt is too long for the endpoint.
    """
    guidelines = {row["aspect_id"]: row["guideline"] for row in aspects.as_dicts("aspect_id", "guideline")}
    prompts = {VIOLATE_ALL: violate, VIOLATE_SOME: violate, MEET_SOME: meet, MEET_ALL: meet_or_leave}

    def request(change: Row) -> Request:
        violates, may_stay = change["kind"] in (VIOLATE_ALL, VIOLATE_SOME), change["kind"] == MEET_ALL
        inputs: dict[str, Any] = {**voices[change["task"]], "text": change["original"]}
        inputs |= {"guideline": guidelines[change["aspect_id"]], "criteria": _named(change, not violates)}
        if change["kind"] == MEET_SOME:
            inputs |= {"criteria": _named(change, None), "required": _named(change, True)}
        return prompts[change["kind"]].request(
            model,
            max_tokens=tokens_to_rewrite(change["original"]),
            check=None if may_stay else partial(_unchanged, change["original"]),
            copies=may_stay,
            subject=change["original"],
            **inputs,
        )

    for change, found in answered(context, model, ((row["change_id"], row, request(row)) for row in changes)):
        if isinstance(found, Rejected):
            yield found
        else:
            yield _changed(change, found[0], model, prompts[change["kind"]])


def _named(change: Row, satisfied: bool | None) -> list[str]:
    """The criteria of a change, as they are shown, that its text is to meet, or to violate; for None all."""
    return [shown(each) for each in change["criteria"] if satisfied is None or each["satisfied"] is satisfied]


def _unchanged(original: str, reply: str) -> Flaw | None:
    """What is wrong with a reply that leaves the text as it was."""
    same = equal_texts(without_fence(reply, original), original)
    return ("invalid", "the text was left as it was") if same else None


def _changed(change: Row, answer: Answer, model: Endpoint, prompt: Prompt) -> Row | Rejected:
    """A row of CHANGED from the model's reply, or the Rejected if an audit finds it."""
    text = without_fence(answer.value, change["original"])
    unchanged = equal_texts(text, change["original"])
    row = {**change, "text": text, "unchanged": unchanged, **made_by(answer, model, prompt)}
    return rejected_by(row, OF_CHANGES, "change_id") or row


# ---------------------------------------------------------------- checking


@stage(
    COMPLIANCE,
    revision=1,
    at_most=AtMost(
        rows=lambda sizes: MOST_CRITERIA * sizes["changed"],
        calls=lambda sizes: MOST_CRITERIA * sizes["changed"],
        questions=partial(longest_of_prompt, reply=Compliance),
    ),
)
def verify_changes(
    context: StageContext, changed: Rows, *, model: Endpoint, prompt: Prompt, voices: Voices
) -> Iterator[Row | Rejected]:
    """Whether a judge finds that the text of each demonstration meets or violates the criteria that it is to. A
    Rejected for a test text, and for each verdict that cannot be read.
    """
    tests: list[Rejected] = []

    def asked() -> Iterator[tuple[str, tuple[Row, Row], Request]]:
        for row in changed:
            if row["use"] == TEST:
                tests.append(Rejected(row["change_id"], "filtered", "a test text, which is not verified"))
                continue
            for each in row["criteria"]:
                if each["satisfied"] is not None:
                    texts = {"noun": voices[row["task"]]["noun"], "text": row["text"], "criterion": shown(each)}
                    yield row["change_id"], (row, each), prompt.request(model, reply=Compliance, **texts)

    for (row, each), found in answered(context, model, asked()):
        if isinstance(found, Rejected):
            yield found
            continue
        yield {
            "compliance_id": f"{row['change_id']}#{each['criterion_id']}",
            "change_id": row["change_id"],
            "criterion_id": each["criterion_id"],
            "wanted": each["satisfied"],
            "verdict": found[0].value.verdict,
            "reasoning": found[0].value.reasoning,
            **made_by(found[0], model, prompt),
        }
    yield from tests


# ---------------------------------------------------------------- test texts


@stage(TEXTS, revision=2, split_by="task")
def take_texts(context: StageContext, drawn: Rows, changed: AllRows) -> Iterator[Row | Rejected]:
    """The test texts, half of them modified. A Rejected for a text that is kept for demonstrations, and for one that
    was to be modified and is not.
    """
    of: Callable[[str], Row | None] = {row["text_id"]: row for row in changed if row["use"] == TEST}.get
    for row in drawn:
        change = of(row["text_id"])
        if row["use"] != TEST or (row["modified"] and change is None):
            reason = "kept for demonstrations" if row["use"] != TEST else "it was not modified as planned"
            yield Rejected(row["text_id"], "filtered", reason)
        else:
            yield _test_text(row, change)


def _test_text(row: Row, change: Row | None) -> Row:
    """A row of TEXTS. `change`: its row of CHANGED, None if it is not modified."""
    kept = {name: row[name] for name in TEXTS.names if name in row}
    if change is None:
        return {**kept, "original": None, "aspect_id": None, "violated": [], **NO_MODEL}
    violated = [each["criterion_id"] for each in change["criteria"] if each["satisfied"] is False]
    made = {name: change[name] for name in NO_MODEL}
    return {
        **kept,
        "text": change["text"],
        "original": row["text"],
        "aspect_id": change["aspect_id"],
        "violated": violated,
        **made,
    }
