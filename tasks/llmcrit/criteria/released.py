"""Criteria and demonstrations in the layout in which LLMCrit released its own: JSON lines, one aspect each.

    {"aspect_id": 1, "aspect_guideline": "## Titles\\n- Say it in one line",
     "criteria": "1. **One line**: Is it …?\\n\\n2. …",
     "demonstrations": [{"input": "Title: …", "output": "1. **One line**:\\n    - The title …"}]}

`criteria` is a numbered list in one text; a list of texts, or of objects with `name` and `check`, is read as well, and
so are one JSON array, and a plain list of criteria as Markdown (.md, .txt), in which each section is an aspect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import AllRows, Rejected, Row, Shard, Source, distinct, grouped
from longform.engine.stage import AtMost, StageContext, stage
from longform.errors import SourceError
from schemas.llmcrit import ASPECTS, CRITERIA, DEMONSTRATIONS
from tasks.answers import NO_MODEL
from tasks.llmcrit.criteria.criteria import criterion_rows, shown
from tasks.llmcrit.task import WritingTask
from tasks.publishing.exports import Export, Format, json_line
from tasks.sources.files.inputs import open_files
from tasks.sources.files.json_values import json_values
from tasks.sources.files.lines import read_lines
from tasks.text.markdown.document import front_matter, sections, slug_of
from tasks.text.markdown.named_items import items_of_lines, named_items

ENDINGS = (".jsonl", ".json", ".md", ".txt")
CHECKS = ("check", "text", "description", "criterion")


def open_released(tasks: list[WritingTask], digest: Callable[[Path], str]) -> list[Source]:
    """The files of criteria of these tasks as sources, each in the group of its task's name."""
    return [
        source
        for task in tasks
        for source in (
            open_files(task.criteria, group=task.name, endings=ENDINGS, digest=digest) if task.criteria else []
        )
    ]


def has_demonstrations(files: list[Source]) -> bool:
    """Whether one of these files has a demonstration."""
    aspects = (each for file in files for each in _aspects(Shard(file, 0)))
    return any(not isinstance(each, Rejected) and each["shown"] for each in aspects)


@stage(ASPECTS, revision=1)
def released_aspects(context: StageContext, files: Shard) -> Iterator[Row | Rejected]:
    """The aspects of an imported file; a Rejected for a record that is no aspect, or whose criteria are no list.
    SourceError for a file without a single criterion.
    """
    found = 0
    for each in _aspects(files):
        if isinstance(each, Rejected):
            yield each
        else:
            found += 1
            yield {name: each[name] for name in ASPECTS.names}
    if not found:
        raise SourceError(
            f"{files.source.path} holds no aspect with criteria: give JSON lines with aspect_id, aspect_guideline and "
            "criteria, or a list of criteria as Markdown."
        )


@stage(CRITERIA, revision=1)
def released_criteria(context: StageContext, files: Shard) -> Iterator[Row]:
    """The criteria of an imported file, in its order."""
    for aspect in _aspects(files):
        if not isinstance(aspect, Rejected):
            yield from criterion_rows(aspect, aspect["listed"], NO_MODEL)


@stage(DEMONSTRATIONS, revision=1)
def released_demonstrations(context: StageContext, files: Shard) -> Iterator[Row | Rejected]:
    """The demonstrations of an imported file, in its order; a Rejected for one without input or output."""
    for aspect in _aspects(files):
        if isinstance(aspect, Rejected):
            continue
        for position, shown_text in enumerate(aspect["shown"], start=1):
            shown_text = shown_text if isinstance(shown_text, dict) else {"text": shown_text}
            given, said = (shown_text.get(name) for name in ("input", "output"))
            key = f"d_{fingerprint([aspect['aspect_id'], given, said])}"
            if isinstance(given, str) and isinstance(said, str) and given.strip() and said.strip():
                nothing = dict.fromkeys(("kind", "change_id", "text_id", "changed_by"))
                yield {
                    **nothing,
                    **NO_MODEL,
                    **_counts(),
                    "demonstration_id": key,
                    "aspect_id": aspect["aspect_id"],
                    "task": aspect["task"],
                    "position": position,
                    "criteria": [],
                    "input": given,
                    "output": said,
                }
            else:
                yield Rejected(key, "defect", "a demonstration without input or output", raw=str(shown_text)[:2_000])


def _counts() -> Row:
    """What nobody has verified or reviewed."""
    return {"violations": 0, "verified": 0, "state": "proposed", "reviewers": 0}


@stage(DEMONSTRATIONS, revision=1, at_most=AtMost(rows=lambda of: of["written"] + of["released"]))
def gather_demonstrations(context: StageContext, written: AllRows, released: AllRows) -> Iterator[Row | Rejected]:
    """The demonstrations that were written and those that were imported; a Rejected for one that is there already."""
    yield from distinct(chain(written, released), "demonstration_id", "the same demonstration is there already")


# ---------------------------------------------------------------- records


def _aspects(files: Shard) -> Iterator[Row | Rejected]:
    """The columns of ASPECTS of each record of a file, with `listed`, (name, check) of its criteria, and `shown`, its
    demonstrations as objects; a Rejected for a record that is no aspect. An id that comes again gets a number.
    """
    task, name = files.source.group, Path(files.source.path).name
    seen = dict[str, int]()
    for position, record in enumerate(_records(files), start=1):
        listed = _listed(record.get("criteria")) if isinstance(record, dict) else []
        if not listed:
            reason = "no list of criteria" if isinstance(record, dict) else "no object of JSON"
            yield Rejected(f"{task}/{name}#{position}", "defect", reason, raw=str(record)[:2_000])
            continue
        guideline, shown_texts = str(record.get("aspect_guideline") or ""), record.get("demonstrations")
        key = slug_of(str(record.get("aspect_id", position)).rpartition("/")[2])
        seen[key] = seen.get(key, 0) + 1
        heading = next((line.strip("#* \t") for line in guideline.splitlines() if line.startswith("#")), None)
        yield {
            "aspect_id": f"{task}/{key}" + (f"-{seen[key]}" if seen[key] > 1 else ""),
            "task": task,
            "position": position,
            "name": _text(record, "name") or heading or f"aspect {record.get('aspect_id', position)}",
            "guideline": guideline,
            "origin": "released",
            "file": name,
            "licence": _text(record, "licence"),
            "source": _text(record, "source"),
            "listed": listed,
            "shown": shown_texts if isinstance(shown_texts, list) else [],
        }


def _records(files: Shard) -> Iterator[Any]:
    """The records of a file: JSON lines, one JSON array or object, or the sections of a Markdown list."""
    if files.source.path.lower().endswith((".md", ".txt")):
        front, body = front_matter(b"\n".join(read_lines(files)).decode("utf-8", "replace"))
        facts = {"licence": front.get("licence"), "source": front.get("source")}
        stem = front.get("title") or Path(files.source.path).stem
        parts = [(title, part.partition("\n")[2]) for title, part in sections(body)]
        for title, part in parts if any(named_items(part) for _, part in parts) else [(stem, items_of_lines(body))]:
            yield {"aspect_id": title, "name": title, "criteria": part, **facts}
    else:
        yield from (value for value, _ in json_values(files))


def _text(record: Row, name: str) -> str | None:
    """A field of a record, if it is a text that is not empty."""
    value = record.get(name)
    return value if isinstance(value, str) and value.strip() else None


def _listed(criteria: Any) -> list[tuple[str, str]]:
    """(name, check) of the criteria of a record: a list in one text, a list of texts, or of objects; [] if it has none
    of these.
    """
    if isinstance(criteria, str):
        return named_items(criteria)
    found = []
    for each in criteria if isinstance(criteria, list) else []:
        if isinstance(each, str):
            several = named_items(each)
            one = " ".join(re.sub(r"^\s*[-*•]\s", " ", each, flags=re.MULTILINE).split())
            found += several if len(several) > 1 else (named_items(one) or named_items(f"1. {one}"))[:1]
        elif isinstance(each, dict):
            check = next((each[name] for name in CHECKS if isinstance(each.get(name), str)), "")
            found.append((" ".join(str(each.get("name") or "").split()), " ".join(check.split())))
    return [(name, check) for name, check in found if name or check]


# ---------------------------------------------------------------- export


def _exported(export: Export) -> Iterator[Row]:
    """The aspects of a version in the released layout, task by task."""

    def published(config: str) -> Iterator[Row]:
        there = export.version.configs.get(config)
        return Export(export.store, export.version, None, config, frozenset()).published() if there else iter(())

    criteria, shown_texts = (grouped(published(name), "aspect_id") for name in ("criteria", "demonstrations"))
    for aspect in published("aspects"):
        own = sorted(criteria[aspect["aspect_id"]], key=lambda row: row["position"])
        if not own:
            export.left_out["an aspect without criteria"] += 1
            continue
        given = sorted(shown_texts[aspect["aspect_id"]], key=lambda row: row["position"])
        yield {
            "aspect_id": aspect["aspect_id"],
            "name": aspect["name"],
            "licence": aspect["licence"],
            "source": aspect["source"],
            "aspect_guideline": aspect["guideline"],
            "criteria": "\n\n".join(f"{number}. {shown(row)}" for number, row in enumerate(own, start=1)),
            "demonstrations": [{"input": row["input"], "output": row["output"]} for row in given],
        }


EXPORTS = {"llmcrit-jsonl": Format(_exported, json_line, (), ("criteria",))}
