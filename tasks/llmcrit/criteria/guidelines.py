"""Guideline documents: Markdown, whose sections are the aspects on which texts are judged.

    ---
    title: How we write
    source: written for longform        who wrote it, or its address
    licence: Apache-2.0                 under which you use it; a document without one is not read
    ---
    # How we write
    ## Headings                         an aspect: "introductions/headings"
    - A heading says what its section is about.

The sections of the highest level that occurs more than once are the aspects; deeper ones belong to them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from longform.artifacts.rows import Rejected, Row, Shard, Source, distinct
from longform.engine.stage import AllRows, AtMost, StageContext, stage
from longform.errors import SourceError
from schemas.llmcrit import ASPECTS
from tasks.llmcrit.asking import MOST_CHARACTERS
from tasks.llmcrit.task import WritingTask
from tasks.sources.files.inputs import open_files
from tasks.sources.files.lines import read_lines
from tasks.text.markdown.document import front_matter, sections, slug_of

MOST_ASPECTS = 100


def open_guidelines(tasks: list[WritingTask], digest: Callable[[Path], str]) -> list[Source]:
    """The guideline documents of these tasks as sources, each in the group of its task's name. SourceError for a folder
    without a document, or an unreadable one.
    """
    found = []
    for task in tasks:
        files = open_files(task.guidelines, group=task.name, endings=(".md",), digest=digest) if task.guidelines else []
        found += files
    return found


@stage(ASPECTS, revision=1, at_most=AtMost(rows=lambda sizes: MOST_ASPECTS))
def read_guidelines(context: StageContext, files: Shard) -> Iterator[Row | Rejected]:
    """The aspects of a guideline document: one for each section. A Rejected for a section without a text, one that is
    too long, and one beyond MOST_ASPECTS. SourceError for a document that names no licence.
    """
    name, task = Path(files.source.path).name, files.source.group
    front, body = front_matter(b"\n".join(read_lines(files)).decode("utf-8", "replace"))
    if not front.get("licence"):
        raise SourceError(
            f"{files.source.path} names no licence: begin it with --- lines between which `licence:` says under which "
            "you use it, and `source:` who wrote it."
        )
    seen = Counter[str]()
    for position, (heading, text) in enumerate(sections(body) or [(front.get("title") or name, body)], start=1):
        slug = slug_of(heading)
        seen[slug] += 1
        key = f"{task}/{slug}" + (f"-{seen[slug]}" if seen[slug] > 1 else "")
        if reason := _unusable(heading, text, position):
            yield Rejected(key, "filtered", reason, raw=text[:2_000])
        else:
            facts = {"origin": "guideline", "file": name, "licence": front["licence"], "source": front.get("source")}
            yield {
                "aspect_id": key,
                "task": task,
                "position": position,
                "name": heading,
                "guideline": text.strip(),
                **facts,
            }


def _unusable(heading: str, text: str, position: int) -> str | None:
    """Why a section is no aspect; None if it is one."""
    if position > MOST_ASPECTS:
        return "beyond the most aspects of a document"
    if len(text) > MOST_CHARACTERS:
        return "a section longer than 20,000 characters"
    return None if "\n" in text.strip() or text.strip("# \n") != heading else "a heading without a text"


@stage(ASPECTS, revision=1, split_by="task", at_most=AtMost(rows=lambda of: of["guided"] + of["released"]))
def collect_aspects(context: StageContext, guided: AllRows, released: AllRows) -> Iterator[Row | Rejected]:
    """The aspects of all documents and imported files; a Rejected for one whose task has another of the same name."""
    yield from distinct(chain(guided, released), "aspect_id", "another aspect of the task has this name")
