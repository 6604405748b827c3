"""Audits of the splits: near-duplicate questions on different sides.

question_on_two_sides   a question that was dealt anew is a near-duplicate of one on another side
released_on_two_sides   so are two questions that the authors released, or one is on several sides; reported only, of
                        published rows and of the authors' files, since their sides are kept
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from longform.artifacts.rows import Rows
from longform.engine.health import Gate, quote
from tasks.expertqa.splits import RELEASED, SAFEST_FIRST, SPLITS, folded, near_questions
from tasks.publishing.audits import Files, Finding, VersionAudit

CONFIGS = ("random", "domain")
RELEASED_AUDIT = "released_on_two_sides"
EXAMPLES = 5
COLUMNS = ["question_id", "question", "split", "split_from"]


@dataclass(frozen=True, slots=True)
class OnTwoSides:
    """The finding for each question that is a near-duplicate of one on another side. `released`: of those pairs of
    which both are released, else of the others.
    """

    audit: str
    released: bool

    def __call__(self, files: Files) -> Iterator[Finding]:
        """See above. None for a version that does not say where its sides are from."""
        for config in CONFIGS:
            rows = [row for split in SPLITS for path in files.get(config, {}).get(split, ()) for row in _rows(path)]
            sides: defaultdict[str, set[tuple[str, bool, str]]] = defaultdict(set)
            for row in rows:
                sides[folded(row["question"])].add((row["split"], row["split_from"] == RELEASED, row["question_id"]))
            near = near_questions(list(sides))
            for text, own in sides.items():
                others = {one for other in (text, *near.get(text, ())) for one in sides[other]}
                for split, is_released, key in sorted(own):
                    found = min(
                        (other for other in others if other[0] != split and self._concerns(is_released, other[1])),
                        default=None,
                    )
                    if found:
                        what = f"nearly the words of {found[2]} of {found[0]}"
                        yield Finding(self.audit, config, split, key, what)

    def _concerns(self, one: bool, other: bool) -> bool:
        """Whether a pair is looked at. `one`, `other`: whether these questions are released."""
        return (one and other) is self.released


def released_gates(released: Rows) -> list[Gate]:
    """What the authors' files themselves hold on two sides, as gates that let everything through: for each config one
    of near-duplicates, and one of questions that stand in files of several sides; none of what there is none of.
    `released`: rows of RELEASED_SIDES.
    """
    sides: dict[str, defaultdict[str, set[str]]] = {config: defaultdict(set) for config in CONFIGS}
    for row in released.as_dicts("config", "split", "question"):
        sides[row["config"]][row["question"]].add(row["split"])
    return [gate for config, own in sides.items() for gate in _gates(config, own)]


def _gates(config: str, sides: Mapping[str, set[str]]) -> Iterator[Gate]:
    """The gates of one config. `sides`: question -> its splits."""
    several = {text: sorted(own, key=SAFEST_FIRST.index) for text, own in sorted(sides.items()) if len(own) > 1}
    if several:
        examples = [f"{quote(text)} ({' and '.join(own)}, counted to {own[0]})" for text, own in several.items()]
        yield _reported(f"questions of the authors' {config} files stand on several sides", several, sides, examples)
    near = near_questions(list(sides))
    pairs = [
        (one, other)
        for one, others in sorted(near.items())
        for other in sorted(others)
        if one < other and sides[one] != sides[other]
    ]
    if pairs:
        examples = [
            " and ".join(f"{quote(text)} ({' and '.join(sorted(sides[text]))})" for text in pair) for pair in pairs
        ]
        found = {text for pair in pairs for text in pair}
        yield _reported(f"questions of the authors' {config} files nearly stand on two sides", found, sides, examples)


def _reported(what: str, found: Sized, checked: Sized, examples: Sequence[str]) -> Gate:
    """A gate that lets through what it found, with the first EXAMPLES."""
    more = f"; and {len(examples) - EXAMPLES:,} more" if len(examples) > EXAMPLES else ""
    return Gate(
        RELEASED_AUDIT, "version", f"{what}: {'; '.join(examples[:EXAMPLES])}{more}", len(found), len(checked), 1.0
    )


def _rows(path: Path) -> list[dict[str, str]]:
    """Question, split and what decided it of each row of a file; none where the file does not say the last."""
    if "split_from" not in pq.read_schema(path).names:
        return []
    rows: list[dict[str, str]] = pq.read_table(path, columns=COLUMNS).to_pylist()
    return rows


ON_TWO_SIDES = (
    VersionAudit("question_on_two_sides", 0.0, OnTwoSides("question_on_two_sides", released=False), CONFIGS),
    VersionAudit(RELEASED_AUDIT, 1.0, OnTwoSides(RELEASED_AUDIT, released=True), CONFIGS),
)
