"""Replies that are nearly word for word those to other questions, as of a template with a word or two exchanged.

A reply is remembered as the hashes of its runs of RUN words, and found by the SKETCH smallest of these: the share that
two replies have in common of them estimates that of all runs (bottom-k sketches, Broder 1997), which then is counted.
Only the last REMEMBERED replies are remembered, so that memory is bounded and each reply costs the same.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from functools import partial
from itertools import count

from xxhash import xxh3_64_intdigest

RUN = 3
LEAST_WORDS = 25  # shorter replies may well be alike
MOST_WORDS = 200  # of a reply; what follows is not read
SKETCH = 32
LEAST_SKETCHED = 0.5  # share of hashes from which all runs are compared
LEAST_SHARE = 5 / 6  # of all runs of two replies (Jaccard) from which they are nearly equal
LEAST_OTHERS = 2  # questions with nearly equal replies; two replies alone may be as alike as their questions
LEAST_COPIED = 0.5  # share of a reply's runs that its prompt has, too, from which its words are those of the prompt
REMEMBERED = 4_096  # replies
HOLDERS = 8  # replies that are remembered for one hash

Messages = tuple[tuple[str, str], ...]

_WORD = re.compile(r"[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|[^\W_]+")


class Sketches:
    """Finds texts that are nearly those of other questions, among the last REMEMBERED."""

    def __init__(self) -> None:
        self._numbers = count()
        self._known: OrderedDict[int, tuple[bytes, array[int]]] = OrderedDict()  # number -> question, runs
        self._holders: defaultdict[int, deque[int]] = defaultdict(partial(deque, maxlen=HOLDERS))

    def has(self, asked: bytes, text: str, messages: Messages) -> bool:
        """Whether a text is nearly that of LEAST_OTHERS other questions before, without being taken from the
        question; from now on it is remembered. `asked`: what the question is known by, `messages` as of a Request.
        """
        runs = runs_of(text)
        if len(runs) < LEAST_WORDS - RUN:
            return False
        questions = {self._known[number][0] for number in self._alike(runs)}
        if asked not in questions:
            self._add(asked, runs)
        return len(questions - {asked}) >= LEAST_OTHERS and not _is_copied(runs, messages)

    def _alike(self, runs: set[int]) -> list[int]:
        """The numbers of the texts that are nearly one with these runs."""
        sketch = sorted(runs)[:SKETCH]
        shared = Counter(number for each in sketch if each in self._holders for number in self._holders[each])
        least = LEAST_SKETCHED * len(sketch)
        return [number for number, common in shared.items() if common >= least and self._is_near(runs, number)]

    def _is_near(self, runs: set[int], number: int) -> bool:
        """Whether a text with these runs is nearly the one of this number."""
        known = self._known[number][1]
        common = len(runs.intersection(known))
        return common >= LEAST_SHARE * (len(runs) + len(known) - common)

    def _add(self, asked: bytes, runs: set[int]) -> None:
        if len(self._known) >= REMEMBERED:
            self._forget()
        number = next(self._numbers)
        ordered = sorted(runs)
        self._known[number] = asked, array("Q", ordered)
        for each in ordered[:SKETCH]:
            self._holders[each].append(number)

    def _forget(self) -> None:
        """Forget the text that came first."""
        number, (_, runs) = self._known.popitem(last=False)
        for each in runs[:SKETCH]:
            holders = self._holders[each]
            if holders and holders[0] == number:
                holders.popleft()
            if not holders:
                del self._holders[each]


def _is_copied(runs: set[int], messages: Messages) -> bool:
    """Whether a reply, whose runs these are, takes most of its words from the messages it replies to."""
    prompt = "\n".join(content for _, content in messages)
    return len(runs & runs_of(prompt, len(prompt))) >= LEAST_COPIED * len(runs)


def runs_of(text: str, words: int = MOST_WORDS) -> set[int]:
    """The hashes of the runs of RUN words of a text, of its first `words` at most."""
    read = text[: 20 * words].casefold()
    parts = [each.encode("utf-8", "surrogatepass") for each in _WORD.findall(read)[:words]]
    runs = zip(*(parts[at:] for at in range(RUN)), strict=False)
    return set(map(xxh3_64_intdigest, map(b" ".join, runs)))
