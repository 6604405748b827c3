"""Which models served the replies of a stage, by the names that servers give in them.

A provider may serve another model under the same name. So each reply that a row may be made of, also a stored one, is
counted with the part, in a counter named after what it says of itself:

    .served ["mine", "gpt-x", "gpt-x-2026-01-15", "fp_44709d6fcb"]      endpoint, model asked for, served, fingerprint

None stands for what a reply does not say. The offline model is not counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from longform.artifacts.store import Part
from longform.lines import beginning
from longform.llm.ask.types import Endpoint

SERVED = ".served "
MOST, SHOWN = 20, 5
NAME_CHARACTERS = 100
OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Served:
    """What served a stage, asked through an endpoint for the model `asked`. `models`, `fingerprints`: name -> number
    of replies, the largest first; embeddings count once for each text. `unnamed`: replies that name no model.
    """

    stage: str
    endpoint: str
    asked: str
    models: Mapping[str, int]
    unnamed: int
    fingerprints: Mapping[str, int]

    @property
    def replies(self) -> int:
        """The number of replies."""
        return sum(self.models.values()) + self.unnamed

    @property
    def sentence(self) -> str:
        """E.g. `answer: endpoint "mine", asked for gpt-x, was served by gpt-x-2026-01 (31 replies) and gpt-y (2)`."""
        counts = Counter(self.models) + Counter({"a model that it does not name": self.unnamed})
        return f'{self.stage}: endpoint "{self.endpoint}", asked for {self.asked}, was served by {numbered(counts)}'


class Names:
    """The names of the counters of one unit of work. At most MOST models, and MOST fingerprints, are told apart, so
    that a server that invents names does not fill the parts with them; the rest are OTHERS.
    """

    def __init__(self) -> None:
        self._counters: dict[tuple[str, str, str | None, str | None], str] = {}
        self._models: set[str] = set()
        self._fingerprints: set[str] = set()

    def counter(self, endpoint: Endpoint, model: str | None, fingerprint: str | None) -> str:
        """The name of the counter of a reply that names this model and this fingerprint."""
        key = endpoint.name, endpoint.model, model, fingerprint
        name = self._counters.get(key)
        if name is None:
            served = [_told_apart(model, self._models), _told_apart(fingerprint, self._fingerprints)]
            name = SERVED + json.dumps([endpoint.name, endpoint.model, *served], ensure_ascii=False)
            if len(self._counters) < MOST * MOST:
                self._counters[key] = name
        return name


def _told_apart(name: str | None, known: set[str]) -> str | None:
    """The name on one short line, None if nothing is left of it; OTHERS if it is new and MOST are known already."""
    short = beginning(name or "", NAME_CHARACTERS)
    if short and short not in known and len(known) >= MOST:
        return OTHERS
    known.update({short} if short else ())
    return short or None


def served_of(stage: str, parts: Iterable[Part]) -> list[Served]:
    """What served a stage, by the counters of its parts: one for each endpoint and model asked for, sorted; [] if no
    real model was asked, or by an earlier release.
    """
    models: dict[tuple[str, str], Counter[str | None]] = {}
    fingerprints: dict[tuple[str, str], Counter[str | None]] = {}
    for part in parts:
        for name, number in part.counts:
            if name.startswith(SERVED):
                endpoint, asked, model, fingerprint = json.loads(name.removeprefix(SERVED))
                models.setdefault((endpoint, asked), Counter())[model] += number
                fingerprints.setdefault((endpoint, asked), Counter())[fingerprint] += number
    return [
        Served(stage, *key, _largest(models[key]), models[key][None], _largest(fingerprints[key]))
        for key in sorted(models)
    ]


def _largest(counts: Mapping[str | None, int]) -> dict[str, int]:
    """The MOST largest counts, largest first, without that of None; the rest of them together as OTHERS."""
    ordered = _ordered({name: number for name, number in counts.items() if name is not None})
    largest, rest = Counter(dict(ordered[:MOST])), sum(number for _, number in ordered[MOST:])
    return dict(_ordered(largest + Counter({OTHERS: rest})))


def _ordered(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """(name, number), the largest number first, equal ones by name."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def numbered(counts: Mapping[str, int]) -> str:
    """Names with their numbers of replies: `a (31 replies), b (2) and c (1)`; SHOWN of them, then how many more."""
    (first, number), *others = _ordered(counts)
    replies = "reply" if number == 1 else "replies"
    return listed([f"{first} ({number:,} {replies})", *(f"{name} ({number:,})" for name, number in others)])


def listed(phrases: Sequence[str]) -> str:
    """`a, b and c`; SHOWN of them, then how many more there are."""
    shown = [*phrases[:SHOWN], *([f"{len(phrases) - SHOWN:,} more"] if len(phrases) > SHOWN else [])]
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def warnings_of(served: Iterable[Served]) -> Iterator[str]:
    """A sentence for each endpoint of a stage that was served by models of several names. Replies without a name tell
    nothing.
    """
    return (f"{each.sentence}: look whether that is meant" for each in served if len(each.models) > 1)


def notes_of(served: Iterable[Served]) -> Iterator[str]:
    """A sentence for each endpoint of a stage with several fingerprints: the same model, set up in another way."""
    for each in served:
        if len(each.fingerprints) > 1:
            found = numbered(each.fingerprints)
            yield f'{each.stage}: endpoint "{each.endpoint}", asked for {each.asked}, had the fingerprints {found}'
