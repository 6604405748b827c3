"""The pairs of a published version as training reads them, question by question; on disk, not in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from longform.artifacts.versions import Version
from longform.errors import UsageError
from longform.files import unwritable
from longform.hints import hint

CONFIG = "pairs"
TEXTS = ("question", "evidence", "preferred", "rejected")
KEYS = ("pair_id", "question_id", "preferred_id", "rejected_id", "axiom", "pair_type")
LICENCES = ("question_licence", "preferred_licence", "rejected_licence")
MARGINS = {"votes": "margin", "critic": "critic_margin"}
ROWS_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair as a trainer reads it. `evidence`: passages, empty where there are none; `margin`: λ of the loss."""

    pair_id: str
    question_id: str
    question: str
    evidence: Sequence[str]
    preferred_id: str
    preferred: str
    rejected_id: str
    rejected: str
    axiom: int
    pair_type: str
    margin: float


class PairFile:
    """Pairs in an Arrow file that is read where it lies, and the rows of each question.

    `questions`: question ids in the order of the file; `rows(number)`: the rows of one, by its number among them.
    """

    def __init__(self, file: Path) -> None:
        self._table = pa.ipc.open_file(pa.memory_map(str(file))).read_all()
        ids = pc.dictionary_encode(self._table["question_id"].combine_chunks())
        self.questions: list[str] = ids.dictionary.to_pylist()
        codes = ids.indices.to_numpy()
        self._order = np.argsort(codes, kind="stable")
        self._starts = np.searchsorted(codes[self._order], np.arange(len(self.questions) + 1))

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def rows(self, question: int) -> list[int]:
        """The rows of a question, in the order of the file."""
        return [int(row) for row in self._order[self._starts[question] : self._starts[question + 1]]]

    def pair(self, row: int) -> Pair:
        """The pair in a row."""
        return Pair(**self._table.slice(row, 1).to_pylist()[0])

    def counts(self) -> dict[int, int]:
        """axiom -> its pairs, in the order of the axioms."""
        return dict(sorted(Counter(self._table["axiom"].to_pylist()).items()))

    def texts(self, *columns: str) -> Iterator[str]:
        """Each text of these columns once, as long as equal ones follow each other; of a list each item."""
        for batch in self._table.select(columns).to_batches(ROWS_AT_ONCE):
            seen: set[str] = set()
            for name in columns:
                for value in batch.column(name).to_pylist():
                    for text in [value] if isinstance(value, str) else value:
                        if text not in seen:
                            seen.add(text)
                            yield text


def write_pairs(version: Version, split: str, axioms: Sequence[int], margins: str, to: Path) -> PairFile:
    """The pairs of these axioms of a split that have a margin of this kind, written to the Arrow file `to`.

    UsageError if the version has no such split or no such margins, or if none of its pairs is left: the message says
    which axioms it has. StoreError if the file cannot be written.
    """
    margin = _margin_column(version, split, margins)
    schema = pa.schema([
        *((name, pa.list_(pa.string()) if name == "evidence" else pa.string()) for name in TEXTS),
        *((name, pa.int8() if name == "axiom" else pa.string()) for name in KEYS),
        ("margin", pa.float64()),
    ])  # fmt: skip
    found: set[int] = set()
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        with pa.OSFile(str(to), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for batch in _batches(version, split, [*TEXTS, *KEYS, margin]):
                found |= set(pc.unique(batch.column("axiom")).to_pylist())
                wanted = pc.and_(
                    pc.is_in(batch.column("axiom"), pa.array(axioms, pa.int8())), pc.is_valid(batch.column(margin))
                )
                kept = batch.filter(wanted)
                columns = [kept.column(margin if name == "margin" else name) for name in schema.names]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    except OSError as error:
        raise unwritable(to, error) from None
    pairs = PairFile(to)
    if not len(pairs):
        wanted_axioms = ", ".join(map(str, axioms))
        raise UsageError(
            f"{version.dataset} {version.name} has no pair of axioms {wanted_axioms} with a margin by {margins} in its "
            f"split {split}: {hint('', map(str, sorted(found)), 'it has pairs of axioms')}"
        )
    return pairs


def licences(version: Version) -> dict[str, int]:
    """licence -> the pairs of the split train that show a text under it, most first."""
    found: Counter[str] = Counter()
    for batch in _batches(version, "train", LICENCES):
        for row in zip(*(batch.column(name).to_pylist() for name in LICENCES), strict=True):
            found.update({licence for licence in row if licence})
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _margin_column(version: Version, split: str, margins: str) -> str:
    """The column that holds margins of this kind. UsageError if the version has no such split or no such margins."""
    files = version.files(CONFIG, split) if CONFIG in version.configs else []
    if not files:
        splits = version.configs.get(CONFIG, {})
        raise UsageError(f"{version.dataset} {version.name} has no split {split}; {hint(split, splits, 'it has')}")
    if MARGINS[margins] not in pq.read_schema(files[0]).names:
        raise UsageError(
            f"{version.dataset} {version.name} has no margins by a {margins}: build it with one, or take "
            "--margins votes."
        )
    return MARGINS[margins]


def _batches(version: Version, split: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a split of the pairs with these columns, in the order of the files."""
    for file in version.files(CONFIG, split):
        with pq.ParquetFile(file) as opened:
            yield from opened.iter_batches(ROWS_AT_ONCE, columns=[*columns])
