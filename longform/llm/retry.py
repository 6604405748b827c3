"""Which questions without a usable reply a build asks again.

A row without a usable reply is rejected with the reason `model: ` and the kind of failure (`Failure.kind`), whichever
stage asked. Parts of earlier releases have some reasons in other words (EARLIER).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MODEL_REASON = "model: "
EVERY = "all"
EARLIER = {
    "the reply is cut off": "length",
    "the reply is empty": "empty",
    "the reply is nothing but references": "empty",
}


def kind_of(reason: str) -> str | None:
    """The kind of failure in a rejected row's reason; None if no model caused it."""
    return reason.removeprefix(MODEL_REASON) if reason.startswith(MODEL_REASON) else EARLIER.get(reason)


@dataclass(frozen=True, slots=True)
class Retry:
    """The failures that are asked again, as pairs (stage, kind of failure), where "" stands for every stage or kind.
    Without pairs none is.
    """

    chosen: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, words: Iterable[str] | bool | None) -> Retry:
        """The choice in words: `all`, `STAGE` or `STAGE:REASON` each, the reason with or without `model: `. True: all;
        False and None: nothing.
        """
        if isinstance(words, bool) or words is None:
            words = (EVERY,) if words else ()
        pairs = [("" if word == EVERY else word).partition(":") for word in words]
        return cls(tuple((stage, kind_of(why.strip()) or why.strip()) for stage, _, why in pairs))

    def wants(self, stage: str, kind: str) -> bool:
        """Whether failures of this kind in this stage are asked again."""
        return any(of in ("", stage) and what in ("", kind) for of, what in self.chosen)

    def among(self, stage: str, rejected: Iterable[tuple[str, str, int]]) -> int:
        """How many of a stage's rejected rows, (kind of row, reason, number) each, are asked again."""
        kinds = ((kind_of(reason), number) for _, reason, number in rejected)
        return sum(number for kind, number in kinds if kind is not None and self.wants(stage, kind))
