"""A form with every kind of field, its tasks, and a round of it that needs no version."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from flows.page.work import rounds
from flows.page.work.database import opened
from tasks.annotation.form import Field, Form, Item, Sheets, Shown, Task

FORM = Form(
    name="toy",
    guidance="Judge the answer, then each of its claims.",
    key="answer_id",
    annotator="annotator_id",
    context=("question_id",),
    shown=(Shown("question"), Shown("answer"), Shown("claim", of_item=True), Shown("evidence", of_item=True)),
    items="claims",
    item_key="claim_id",
    ordered=True,
    fields=(
        Field("usefulness", "How useful is it?", "choice", ("Useful", "Not useful"), required=True),
        Field("flaws", "What is wrong with it?", "choices", ("too long", "off topic", "unsafe")),
        Field("quality", "How good is it?", "number", scale=(1, 5)),
        Field("minutes", "Minutes to write it", "number"),
        Field("remark", "A remark", "text"),
        Field("secret", "For experts", "text", seen_by="expert"),
        Field("support", "Is it supported?", "choice", ("Yes", "No"), of_item=True, required=True),
        Field("sources", "Better evidence", "texts", of_item=True),
    ),
)
PAIRS = Form(
    name="pairs",
    guidance="Which text is better?",
    key="pair_id",
    annotator="expert",
    shown=(Shown("title", required=False), Shown("text_a"), Shown("text_b")),
    fields=(
        Field("better", "Which text is better?", "pairwise", required=True),
        Field("quality_a", "Quality of text A", "number", scale=(1, 5)),
        Field("quality_b", "Quality of text B", "number", scale=(1, 5)),
    ),
)


def task(number: int, text: str = "Ice floats.", annotator: str | None = None) -> Task:
    items = tuple(Item(f"a{number}#{n}", {"claim": f"{text} ({n})", "evidence": "Ice is light."}) for n in range(2))
    texts = {"question": "Why?", "answer": f"{text} {number}"}
    return Task(f"a{number}", texts, items, {"question_id": f"q{number}"}, annotator, group=f"a{number}")


def sheets(number: int, text: str = "Ice floats.") -> Sheets:
    return Sheets(FORM, [task(n, text) for n in range(number)], "labels", "Nothing to do.")


def pairs(number: int) -> Sheets:
    tasks = [Task(f"p{n}", {"title": "", "text_a": f"First {n}", "text_b": f"Second {n}"}) for n in range(number)]
    return Sheets(PAIRS, tasks, "judgements", "Nothing to do.")


def open_round(home: Path, of: Sheets, **options: Any) -> str:
    """Save a round of these sheets, as if a version `v1` of expertqa had them, and return its id."""
    chosen: dict[str, Any] = {"overlap": 1, "most": None, "seed": 0, "role": "annotator", **options}

    async def saving() -> str:
        async with opened(home) as database:
            return await rounds.save(database, *rounds.handed_out(of, "expertqa", "v1", of.form.name, **chosen))

    return asyncio.run(saving())


FILLED = {
    "task.usefulness": "Useful",
    "task.flaws": ["too long", "unsafe"],
    "task.quality": "4",
    "task.minutes": "2,5",
    "task.remark": "=1+1 <script>alert(1)</script>\nsecond line",
    "0.support": "Yes",
    "1.support": "No",
    "1.sources": "https://a.example\n---\nA passage.",
}
VALUES = {
    ("", "usefulness"): "Useful",
    ("", "flaws"): ["too long", "unsafe"],
    ("", "quality"): 4,
    ("", "minutes"): 2.5,
    ("", "remark"): "=1+1 <script>alert(1)</script>\nsecond line",
    ("a0#0", "support"): "Yes",
    ("a0#1", "support"): "No",
    ("a0#1", "sources"): ["https://a.example", "A passage."],
}
