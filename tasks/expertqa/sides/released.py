"""Which questions the paper's authors released on which side: their files of the random and the domain split.

    rand_lfqa_train.json   {"example_id": 0, "context": "", "question": "Why is tin soft?", "answer": "Tin …"}
    domain_test.jsonl      {"question": "Why is tin soft?", "annotator_id": "a_17", "answers": {…}, "metadata": {…}}

One record a line, also in files that end in .json. Config and split stand in the name alone: rand or random, or domain;
an optional `lfqa`; train, val or test. Train is released in the first form only. A question has a line for each of its
answers in the first form; records are matched by the question's text, case and white space aside.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Source
from longform.engine.stage import AtMost, Rejected, Row, Shard, StageContext, stage
from longform.errors import SourceError, UsageError
from schemas.expertqa import RELEASED_SIDES
from tasks.expertqa.bank import GROUP, defect, is_filled_text, jsonl_records
from tasks.expertqa.exact import write_exact
from tasks.expertqa.splits import folded
from tasks.sources.files.inputs import files_in, open_files
from tasks.sources.files.lines import read_lines
from tasks.sources.files.sizes import most_bytes, records_at_most

_NAME = re.compile(
    r"(?P<config>rand|random|domain)_(lfqa_)?(?P<split>train|val|valid|validation|dev|test)"
    r"\.jsonl?(\.gz|\.zst|\.bz2|\.xz)?",
    re.IGNORECASE,
)
CONFIGS = {"rand": "random", "random": "random", "domain": "domain"}
NAMES = {"val": "validation", "valid": "validation", "dev": "validation"}
LEAST = '{"question":"a"}'


def side_named(name: str) -> str | None:
    """`<config>/<split>`, e.g. random/validation, that a file's name says; None if it says none."""
    found = _NAME.fullmatch(name)
    if not found:
        return None
    split = found["split"].lower()
    return f"{CONFIGS[found['config'].lower()]}/{NAMES.get(split, split)}"


def open_released_sides(paths: Iterable[Path], bank: Iterable[Path], *, digest: Callable[[Path], str]) -> list[Source]:
    """A source for each file of a released split, with the fact `sides`: what the names of the files with this content
    say, such as "random/test" or "domain/val random/test".

    `paths`: files, whose names must say it, and folders, of which the other files are left out. `bank`: files and
    folders of questions, of which those count whose names say it. UsageError for a file whose name does not say its
    side, SourceError for a folder without such a file, and as `open_files`.
    """
    found: list[tuple[str, Source]] = []
    for path in paths:
        own = [(side, file) for file in files_in(path) if (side := side_named(file.name))]
        if not own:
            raise _unnamed(path)
        found += _opened(own, digest)
    for path in bank:
        found += _opened([(side, file) for file in files_in(path) if (side := side_named(file.name))], digest)
    sides: defaultdict[str, set[str]] = defaultdict(set)
    first: dict[str, Source] = {}
    for side, source in found:
        sides[source.sha256].add(side)
        first.setdefault(source.sha256, source)
    return [
        replace(source, facts=(("name", dict(source.facts)["name"]), ("sides", " ".join(sorted(sides[key])))))
        for key, source in first.items()
    ]


def _opened(files: Iterable[tuple[str, Path]], digest: Callable[[Path], str]) -> list[tuple[str, Source]]:
    """(side, source) of each of these (side, file)."""
    return [
        (side, source) for side, file in files for source in open_files([file], group=GROUP, endings=(), digest=digest)
    ]


def _unnamed(path: Path) -> UsageError | SourceError:
    """The error for a file whose name says no side, or a folder without one whose name does."""
    names = "such as rand_lfqa_train.json, rand_val.jsonl or domain_lfqa_test.json"
    if path.is_dir():
        return SourceError(f"{path} holds no file of a released split, {names}: give the folder of these files.")
    return UsageError(
        f"released_splits names {path}, whose name says no split: keep the released names, {names}, or leave it out."
    )


@stage(
    RELEASED_SIDES,
    revision=1,
    at_most=AtMost(
        bytes=most_bytes("files"),
        rows=lambda of: len(sides_of(of["files"].source)) * records_at_most(of["files"], len(LEAST) + 1),
    ),
)
def read_released_sides(context: StageContext, files: Shard) -> Iterator[Row | Rejected]:
    """The distinct questions of a file of a released split, each with the config and the split of its name, in the
    order of the file; a Rejected for each record without a question.
    """
    seen: set[str] = set()
    for position, record in enumerate(jsonl_records(read_lines(files), files.source.path)):
        if isinstance(record, Rejected):
            yield record
        elif not is_filled_text(record.get("question")):
            yield defect(position, "no question", write_exact(record))
        elif (text := folded(record["question"])) in seen:
            context.count("further answers to a question of the file", 1)
        else:
            seen.add(text)
            for config, split in sides_of(files.source):
                key = fingerprint([config, split, text])
                yield {"side_id": f"s_{key}", "config": config, "split": split, "question": text}


def sides_of(source: Source) -> list[tuple[str, str]]:
    """(config, split) of each side that a source of `open_released_sides` is of."""
    sides = (dict(source.facts).get("sides") or "").split()
    return [(config, split) for config, split in (side.split("/") for side in sides)]
