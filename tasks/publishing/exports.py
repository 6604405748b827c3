"""Exports of a version in other formats: what a dataset declares of each, and what one export reads and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from longform.artifacts.rows import Row
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, stage_rows


@dataclass(frozen=True, slots=True)
class Export:
    """One export of a version. `split`: None for all rows. `options`: which of the format's options are set.

    Whoever makes the rows counts in `left_out` what is not written, by reason, and in `noted` what of the rows is
    worth knowing.
    """

    store: Store
    version: Version
    split: str | None
    config: str
    options: frozenset[str]
    left_out: Counter[str] = field(default_factory=Counter)
    noted: Counter[str] = field(default_factory=Counter)

    @property
    def name(self) -> str:
        """The version, in messages."""
        return f"{self.version.dataset} {self.version.name}"

    def rows(self, stage: str) -> Iterator[Row]:
        """The rows of one stage."""
        return stage_rows(self.store, self.version, stage)

    def tables(self, stages: Mapping[str, str]) -> dict[str, Iterator[Row]]:
        """name -> rows, for those of these stages that the version has."""
        return {name: self.rows(stage) for name, stage in stages.items() if stage in self.version.stages}


@dataclass(frozen=True, slots=True)
class Format:
    """A format that a dataset exports: its rows, each a line of JSON, and the bytes of a row.

    `split`: the one that is written if none is named, None for all rows. `notes`: what `Export.noted` counts, in words.
    """

    rows: Callable[[Export], Iterator[Row]]
    line: Callable[[Row], bytes]
    splits: tuple[str, ...]
    configs: tuple[str, ...]
    split: str | None = None
    options: frozenset[str] = frozenset()
    notes: Mapping[str, str] = field(default_factory=dict)
