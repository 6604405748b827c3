"""The structure test (table 5): pairs of texts that differ only in the order of their sentences.

    {"original": "Roe (2019) counts boats. Lin (2021) weighs them.",
     "reordered": "Lin (2021) weighs them. Roe (2019) counts boats."}

The original is the reference, the reordered text the draft. Pairs whose texts do not have exactly the same words, case
and punctuation aside, are rejected.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from longform.artifacts.rows import Source
from longform.engine.stage import AtMost, Rejected, Row, Shard, StageContext, stage
from longform.errors import SourceError
from schemas.revision_distance import STRUCTURE
from tasks.sources.files.inputs import moment, open_files
from tasks.sources.files.lines import read_lines
from tasks.sources.files.sizes import most_bytes, most_records
from tasks.text.scrub import scrub

GROUP = "structure"
ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
MOST_CHARACTERS = 200_000
LEAST = '{"original":"a b","reordered":"b a"}'
RAW_CHARS = 2_000
NO_JSON, NO_RECORD, NO_TEXT, LONG = "no JSON", "no record", "original or reordered is no text", "text too long"
OTHER_WORDS, SAME, REPEATED = "not the same words", "the same order", "repeated pair"


def open_pairs(paths: Iterable[Path | str], *, digest: Callable[[Path], str]) -> list[Source]:
    """A source for each file of pairs that `paths` names, or that is in a folder it names, in order.

    Of files with equal contents the first is taken. Each source after the first carries its number (2, 3, …), which is
    part of its case ids. SourceError for a file that is missing, empty or has another ending than ENDINGS, and for a
    folder without such a file; UsageError if `paths` is empty. `digest`: gives the hash of a file.
    """
    files = [Path(path) for path in paths]
    for path in files:
        if path.exists() and not path.is_dir() and not path.name.lower().endswith(ENDINGS):
            raise SourceError(
                f"{path} does not end in {', '.join(ENDINGS)}: give the pairs of the structure test as JSON lines, "
                'each {"original": …, "reordered": …}.'
            )
    first, *others = open_files(files, group=GROUP, endings=ENDINGS, digest=digest)
    return [
        first,
        *(replace(one, facts=(*one.facts, ("number", str(number)))) for number, one in enumerate(others, 2)),
    ]


@stage(STRUCTURE, revision=5, at_most=AtMost(bytes=most_bytes("files"), rows=most_records("files", LEAST)))
def read_structure(context: StageContext, files: Shard) -> Iterator[Row | Rejected]:
    """The pairs of a text and its reordering in a file of JSON lines, in their order, as rows of STRUCTURE.

    A Rejected for each line, if not blank, that holds no such pair or repeats one. SourceError for a damaged packed
    file.
    """
    facts = dict(files.source.facts)
    when = facts.get("retrieved_at")
    retrieved = None if when is None else datetime.fromtimestamp(moment(when) / 1_000, UTC)
    yield from pairs(read_lines(files), facts.get("number"), retrieved)


def pairs(
    lines: Iterable[bytes], number: str | None = None, retrieved: datetime | None = None
) -> Iterator[Row | Rejected]:
    """Rows of STRUCTURE: structure/1 for line 1, structure/2.1 for line 1 of file 2; blank lines are skipped.

    A Rejected for each other line: a defect if it cannot be read as a pair, filtered if its texts have other words or
    the same order, or if it repeats a pair. `number`: the file's, None for the first. `retrieved`: when the file was
    retrieved, if known.
    """
    seen: set[tuple[str, str]] = set()
    for place, line in enumerate(lines, 1):
        if not line.strip():
            continue
        name = f"{number}.{place}" if number else str(place)
        found = pair_of(line)
        if isinstance(found, tuple) and found in seen:
            yield Rejected(f"{GROUP}/{name}", "filtered", REPEATED)
        elif isinstance(found, tuple):
            seen.add(found)
            reference, draft = map(scrub, found)
            yield {
                "case_id": f"{GROUP}/{name}",
                "task": "structure",
                "kind": "related_work",
                "rule": None,
                "request": None,
                "title": None,
                "abstract": None,
                "cited": [],
                "reference": reference.text,
                "reference_by": "human",
                "given": [{"system": "reordered", "text": draft.text, "writer": None, "score": None}],
                "scrubbed": reference.marks + draft.marks,
                "licence": None,
                "url": None,
                "revision": None,
                "retrieved_at": retrieved,
            }
        else:
            broken = found not in (OTHER_WORDS, SAME)
            raw = line[: 4 * RAW_CHARS].decode(errors="replace")[:RAW_CHARS] if broken else None
            yield Rejected(f"{GROUP}/{name}", "defect" if broken else "filtered", found, raw=raw)


def pair_of(line: bytes) -> tuple[str, str] | str:
    """(original, reordered text) of a line, both without white space at their ends; or the reason why it is no pair.

    Reasons: NO_JSON, NO_RECORD, NO_TEXT, LONG, OTHER_WORDS, SAME.
    """
    try:
        record: Any = orjson.loads(line)
    except orjson.JSONDecodeError:
        return NO_JSON
    if not isinstance(record, dict):
        return NO_RECORD
    texts = [text.strip() for name in ("original", "reordered") if isinstance(text := record.get(name), str)]
    if len(texts) < 2 or not all(texts):
        return NO_TEXT
    if max(map(len, texts)) > MOST_CHARACTERS:
        return LONG
    first, second = (re.findall(r"\w+", text.lower()) for text in texts)
    if Counter(first) != Counter(second):
        return OTHER_WORDS
    return SAME if first == second else (texts[0], texts[1])
