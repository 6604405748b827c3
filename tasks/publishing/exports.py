"""Exports of a version in other formats: what a dataset declares of each format, and the arguments of one export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import orjson

from longform.artifacts.rows import Row, read_batches
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, stage_rows
from longform.errors import UsageError

ROWS_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Export:
    """One export of a version, as it is passed to `Format.rows`.

    `config`: the config whose splits are meant; `split`: the split to export, None for all rows. `options`: those of
    the format's options that were chosen. `Format.rows` adds to two counters: in `left_out` the rows that are not
    exported, by reason, and in `noted` what is to be said of the exported rows, by the keys of `Format.notes`.
    """

    store: Store
    version: Version
    split: str | None
    config: str
    options: frozenset[str]
    left_out: Counter[str] = field(default_factory=Counter)
    noted: Counter[str] = field(default_factory=Counter)

    @property
    def label(self) -> str:
        """Dataset and version, separated by a blank, for messages."""
        return f"{self.version.dataset} {self.version.name}"

    def rows(self, stage: str) -> Iterator[Row]:
        """The rows of one stage of this version, as dicts.

        Errors come only when the rows are read: UsageError if the version has no such stage, StoreError if its rows
        are gone or damaged.
        """
        return stage_rows(self.store, self.version, stage)

    def published(self) -> Iterator[Row]:
        """The published rows of the export's config, of its split or of all, as dicts. UsageError if the version lacks
        the config.
        """
        splits = self.version.configs.get(self.config)
        if not splits:
            raise UsageError(f"{self.label} has no config {self.config}: build it again with this release.")
        for split in [self.split] if self.split else splits:
            for path in self.version.files(self.config, split):
                for batch in read_batches(path, ROWS_AT_ONCE):
                    yield from batch.to_pylist()

    def tables(self, stages: Mapping[str, str]) -> dict[str, Iterator[Row]]:
        """name -> the rows of its stage, as an iterator. `stages`: name -> stage.

        A name whose stage this version does not have is left out. Reading the rows raises StoreError if they are gone
        or damaged.
        """
        return {name: self.rows(stage) for name, stage in stages.items() if stage in self.version.stages}


@dataclass(frozen=True, slots=True)
class Format:
    """A format that a dataset can be exported to.

    `rows` yields the rows of an export, and `line` makes one of them a line of JSON. `splits`, `configs`, `options`:
    what may be chosen. `split`: the default, None for all rows. `notes`: key of `Export.noted` -> the words to print
    after its count.
    """

    rows: Callable[[Export], Iterator[Row]]
    line: Callable[[Row], bytes]
    splits: tuple[str, ...]
    configs: tuple[str, ...]
    split: str | None = None
    options: frozenset[str] = frozenset()
    notes: Mapping[str, str] = field(default_factory=dict)


def json_line(row: Row) -> bytes:
    """A row as one line of a JSONL file, in UTF-8 with a line end; times are in ISO 8601. Other characters that some
    readers take for line ends are escaped.
    """
    text: bytes = orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
    for end in ("\x85", "\u2028", "\u2029"):
        text = text.replace(end.encode(), f"\\u{ord(end):04x}".encode())
    return text
