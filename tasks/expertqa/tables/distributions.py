"""How often each label was given, by system, field or question type: figures 5, 8, 9 and 10, as counts.

What nobody labelled is counted beside the labels, never among them and never dropped.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from longform.artifacts.rows import Row
from tasks.expertqa.estimates.autoais import SYSTEMS
from tasks.expertqa.vocabulary import LABELLED, ratings, type_texts

By = Literal["system", "field", "question_types"]
NO_TYPE = "none"


@dataclass(frozen=True, slots=True)
class Counts:
    """Of one group: label -> how often it was given, and how many have none."""

    group: str
    labels: Counter[str]
    unlabelled: int

    @property
    def labelled(self) -> int:
        return self.labels.total()

    def share(self, label: str) -> float | None:
        """Of the labelled, in [0, 1]; None where nothing is labelled."""
        return self.labels[label] / self.labelled if self.labelled else None


@dataclass(frozen=True, slots=True)
class Distribution:
    """`labels` in the order of table 3; `total` counts each row once, also where it is in several groups."""

    property: str
    labels: Sequence[str]
    groups: Sequence[Counts]
    total: Counts


def distribution(rows: Iterable[Row], property: str, by: By) -> Distribution:
    """Rows have `property`, null where nobody labelled it, and the column `by`.

    Systems come in the paper's order, question types from I to VII, fields from the largest down; others by name. A row
    of several question types counts in each of them.
    """
    found: defaultdict[str, Counter[str | None]] = defaultdict(Counter)
    total: Counter[str | None] = Counter()
    for row in rows:
        total[row[property]] += 1
        for group in _groups(row, by):
            found[group][row[property]] += 1
    known = ratings(property)
    others = sorted({label for label in total if label is not None} - set(known))
    order = sorted(found, key=_order(by, {group: counts.total() for group, counts in found.items()}))
    return Distribution(
        property, [*known, *others], [_counts(group, found[group]) for group in order], _counts("all", total)
    )


def types_by_field(questions: Iterable[Row]) -> Distribution:
    """How many questions of each field have each type: a question of several types counts in each."""
    types: defaultdict[str, Counter[str]] = defaultdict(Counter)
    asked: Counter[str] = Counter()
    for row in questions:
        asked[row["field"]] += 1
        types[row["field"]].update(row["question_types"])
    groups = [Counts(field, types[field], 0) for field in sorted(asked, key=_order("field", asked))]
    total = sum((group.labels for group in groups), Counter[str]())
    return Distribution("question_types", tuple(type_texts()), groups, Counts("all", total, 0))


def agreements(rows: Iterable[Row]) -> Iterator[Distribution]:
    """Of each field, the rows of `agreement`: how many labels of each property two labellings share."""
    found: defaultdict[str, list[Counts]] = defaultdict(list)
    for row in rows:
        if row["labelled"]:
            shared = Counter({"the same label": row["agreed"], "another label": row["labelled"] - row["agreed"]})
            found[row["field"] or "all fields"].append(Counts(row["property"], shared, 0))
    for field, groups in found.items():
        total = sum((group.labels for group in groups), Counter[str]())
        yield Distribution(field, ("the same label", "another label"), groups, Counts(field, total, 0))


def by_property(rows: Sequence[Row], by: By) -> Iterator[Distribution]:
    """Of each claim property."""
    for name in LABELLED:
        yield distribution(rows, name, by)


def cite_worthy(rows: Iterable[Row]) -> list[Row]:
    """Those that a person calls worth a citation."""
    return [row for row in rows if row["worthiness"] == "Yes"]


def _groups(row: Row, by: By) -> Sequence[str]:
    if by == "question_types":
        return row[by] or (NO_TYPE,)
    return (row[by],)


def _counts(group: str, counts: Counter[str | None]) -> Counts:
    labels = Counter({label: number for label, number in counts.items() if label is not None})
    return Counts(group, labels, counts[None])


def _order(by: By, sizes: dict[str, int]) -> Callable[[str], tuple[int, str]]:
    if by == "field":
        return lambda group: (-sizes[group], group)
    known = {group: place for place, group in enumerate(SYSTEMS if by == "system" else type_texts())}
    return lambda group: (known.get(group, len(known)), group)
