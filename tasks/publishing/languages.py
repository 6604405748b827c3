"""The languages of a table's texts, group by group (a site), as far as a sample of their prose shows them.

    languages_of(threads, ["title", "text"])   [Languages("beer.example", 200, (("en", 0.98), ("de", 0.02)))]

The sample are the rows with the lowest hashes of their keys, so equal rows give equal languages, whatever their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappush, heappushpop

from longform.artifacts.parts import group_of, key_hash
from longform.artifacts.rows import Rows
from tasks.text.audits.language import READ_CHARACTERS, language_of

MOST_TEXTS = 200  # of a group
LEAST_SHARE = 0.05  # with less a language is not one of the group's


@dataclass(frozen=True, slots=True)
class Languages:
    """What the sample of a group shows. `texts`: how many of its texts show a language. `shares`: (ISO 639-1 code,
    share of these texts), the commonest first; empty if none does.
    """

    group: str
    texts: int
    shares: Sequence[tuple[str, float]]

    @property
    def main(self) -> list[str]:
        """The languages with a share of at least LEAST_SHARE, the commonest first."""
        return [language for language, share in self.shares if share >= LEAST_SHARE]


def languages_of(rows: Rows, columns: Sequence[str], most: int = MOST_TEXTS) -> list[Languages]:
    """The languages of the groups of a table, sorted by group, from at most `most` rows of each. `columns`: those with
    the texts of a row, which count as one.
    """
    return [languages(group, texts) for group, texts in sorted(sample(_keyed(rows, columns), most).items())]


def languages(group: str, texts: Iterable[str]) -> Languages:
    """The languages of these texts of a group."""
    counts = Counter(found for found in map(language_of, texts) if found)
    order = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return Languages(group, counts.total(), tuple((language, count / counts.total()) for language, count in order))


def sample(items: Iterable[tuple[str, str]], most: int) -> dict[str, list[str]]:
    """group -> the texts of the `most` items of the group whose keys have the lowest hashes, lowest first. `items`:
    (key, text). No more than these are held in memory.
    """
    held: dict[str, list[tuple[int, str, str]]] = {}
    for key, text in items:
        lowest, entry = held.setdefault(group_of(key), []), (-key_hash(key), key, text)
        if len(lowest) < most:
            heappush(lowest, entry)
        elif entry > lowest[0]:
            heappushpop(lowest, entry)
    return {group: [text for _, _, text in sorted(lowest, reverse=True)] for group, lowest in held.items()}


def _keyed(rows: Rows, columns: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(key, text) of each row: the columns one below the other, as far as a language is looked for in them."""
    for batch in rows.batches([rows.key, *columns]):
        texts = zip(*(batch[name].to_pylist() for name in columns), strict=True)
        for key, parts in zip(batch[rows.key].to_pylist(), texts, strict=True):
            yield key, "\n".join(part for part in parts if part)[:READ_CHARACTERS]
