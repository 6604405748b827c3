"""Audits of the splits: near-duplicate questions on different sides.

question_on_two_sides   a question that was dealt anew is a near-duplicate of one on another side
released_on_two_sides   so are two questions that the authors released; reported only, since their sides are kept
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from tasks.expertqa.splits import RELEASED, SPLITS, folded, near_questions
from tasks.publishing.audits import Files, Finding, VersionAudit

CONFIGS = ("random", "domain")
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


def _rows(path: Path) -> list[dict[str, str]]:
    """Question, split and what decided it of each row of a file; none where the file does not say the last."""
    if "split_from" not in pq.read_schema(path).names:
        return []
    rows: list[dict[str, str]] = pq.read_table(path, columns=COLUMNS).to_pylist()
    return rows


ON_TWO_SIDES = (
    VersionAudit("question_on_two_sides", 0.0, OnTwoSides("question_on_two_sides", released=False), CONFIGS),
    VersionAudit("released_on_two_sides", 1.0, OnTwoSides("released_on_two_sides", released=True), CONFIGS),
)
