"""Which passages are relevant to a query (P+), and which are not (P-): pure functions over what a search found.

P+   the best k found, and the passages that people labelled
P-   found far below the best; none is in P+, says nearly the same, or has a label
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEAST = 2  # passages of each kind, which pairs are made of
NO_LABELLED = "no labelled passage that its side may show"
FEW_RELEVANT = f"fewer than {LEAST} relevant passages"
FEW_IRRELEVANT = f"fewer than {LEAST} passages far below the best"
Choice = tuple[list[str], list[str]]  # ids of the passages in P+, in P-


class Text:
    """A passage's text. `hash`: the same for texts that are equal but for how they are set; `scrubbed`: marks in it."""

    def __init__(self, text: str, hash: int, scrubbed: int = 0) -> None:
        self.text, self.hash, self.scrubbed = text, hash, scrubbed

    @cached_property
    def shingles(self) -> NDArray[np.uint64]:
        """The hashes of its word 3-grams."""
        from tasks.text.copies.shingles import shingle_hashes

        return shingle_hashes(self.text, 3)


def choose(
    labelled: Sequence[str],
    best: Sequence[str],
    far: Sequence[str],
    texts: Mapping[str, Text],
    allowed: Callable[[str], bool],
    *,
    k: int,
    irrelevant: int,
    similarity: float,
) -> Choice | str:
    """The passages in P+ and in P-, or why there are none.

    P+: the first k of `best`, then those of the first k of `labelled` that are not among them; of equal texts one, a
    labelled one first. P-: the first `irrelevant` of `far` that are not in P+, have no label, equal no other, and share
    less than `similarity` of their word 3-grams with each passage that is in P+ or has a label.

    `texts`: of the passages in the collection. `allowed`: whether the query's side may show a passage of `texts`.
    """
    there = [name for name in labelled if name in texts]
    own = [name for name in there if allowed(name)][:k]
    if not own:
        return NO_LABELLED
    by_hash = {texts[name].hash: name for name in reversed(own)}
    found = (by_hash.get(texts[name].hash, name) for name in best if name in texts and allowed(name))
    relevant = _distinct(found, texts, set(), k)
    relevant += _distinct(own, texts, {texts[name].hash for name in relevant}, k)
    if len(relevant) < LEAST:
        return FEW_RELEVANT
    known = [*relevant, *there]
    other = (
        name
        for name in far
        if name in texts
        and allowed(name)
        and name not in known
        and not any(_alike(texts[name], texts[one], similarity) for one in known)
    )
    drawn = _distinct(other, texts, {texts[name].hash for name in known}, irrelevant)
    return FEW_IRRELEVANT if len(drawn) < LEAST else (relevant, drawn)


def _distinct(names: Iterable[str], texts: Mapping[str, Text], seen: set[int], most: int) -> list[str]:
    """The first `most` of the passages whose texts are not in `seen` (hashes), of equal texts the first."""
    found: dict[int, str] = {}
    for name in names:
        if len(found) == most:
            break
        if texts[name].hash not in seen:
            found.setdefault(texts[name].hash, name)
    return list(found.values())


def _alike(one: Text, other: Text, similarity: float) -> bool:
    """Whether two texts share so much of their word 3-grams (Jaccard)."""
    import numpy as np

    both = np.intersect1d(one.shingles, other.shingles, assume_unique=True).size
    return bool(both) and both >= similarity * (one.shingles.size + other.shingles.size - both)
