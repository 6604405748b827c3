"""Rules of the offline model for axioms: it quotes, hedges, merges or corrupts by rule, and knows nothing."""

from __future__ import annotations

import re
from collections import deque
from itertools import chain, islice

from longform.llm.offline import END_MARK, Rule
from longform.llm.prompt_inputs import PromptInputs
from tasks.axioms.corruption import corrupt
from tasks.text.prose import (
    COMMON,
    READ_CHARACTERS,
    balanced,
    blocks,
    fit_to_quote,
    sentences,
    sentences_of,
    shared_words,
    words,
)

QUOTED_SENTENCES = 5
NEAR_REPEAT = 0.6
COMPARED_PARTS = 200

_FRAMES = (
    "The passages say this on the question:",
    "These statements of the passages bear on the question:",
    "Going by the passages alone, this can be said:",
)
_OPENINGS = (
    "Whether and how this holds depends on the particular case, above all where {a} is concerned.",
    "There is probably no single answer here, because {a} can mean different things in practice.",
    "In general this comes down to {a}, and to what exactly is expected of it.",
    "It is hard to be definite about {a} without knowing more of the circumstances.",
)
_MIDDLES = (
    "It may help to look at {b} first and to change one thing at a time.",
    "One would usually want to weigh {b} against the effort, and to ask somebody who knows the case.",
    "A cautious way is to begin with {b}, note what happens, and go on from there.",
    "Much of what is said about {b} is a matter of habit, so a small trial may tell more.",
)
_ENDINGS = (
    "This is a general remark and not checked against any source.",
    "Take this as a starting point only: nothing here was looked up.",
    "I am not certain of this, and a reliable source should be consulted.",
)


def _open_book(inputs: PromptInputs, dice: bytes, room: int) -> str:
    """The sentences of the passages that share most words with the question, each with its passage's number."""
    asked = words(inputs.one("Question")[:READ_CHARACTERS]) - COMMON
    chosen = _quotable(inputs.passages(), asked)
    if not chosen:
        return "The passages given here say nothing that could be quoted on this question."
    quotes = " ".join(_cited(sentence, number) for number, sentence in chosen)
    return f"{_FRAMES[dice[0] % len(_FRAMES)]}\n\n{quotes}"


def _quotable(passages: list[tuple[int, str]], asked: set[str]) -> list[tuple[int, str]]:
    """At most five (passage number, sentence) in the order of the passages, from two passages where possible."""
    ranked = [
        (shared_words(asked, text[start:end]), number, text[start:end])
        for number, text in passages
        for start, end in sentences(text[:READ_CHARACTERS])
        if 30 <= end - start <= 350
    ]
    ranked.sort(key=lambda scored: -scored[0])
    fit = fit_to_quote(ranked)
    best = list(islice(fit, QUOTED_SENTENCES))
    chosen = best[:1] + [scored for scored in best[1:] if scored[0] > 0]
    elsewhere = next((scored for scored in chain(best, fit) if scored[1] != best[0][1]), None)
    if elsewhere and all(scored[1] == best[0][1] for scored in chosen):
        chosen = [*chosen[: QUOTED_SENTENCES - 1], elsewhere]
    return sorted(((number, sentence) for _, number, sentence in chosen), key=lambda pair: pair[0])


def _cited(sentence: str, number: int) -> str:
    return f"{sentence.rstrip('.')} (Passage {number})."


def _closed_book(inputs: PromptInputs, dice: bytes, room: int) -> str:
    """Hedges around the question's own words: no facts."""
    title = inputs.one("Question")[:READ_CHARACTERS].strip().partition("\n")[0]
    keywords = [word for word in re.findall(r"[^\W\d_]{4,30}", title) if word.lower() not in COMMON]
    subjects = list(dict.fromkeys(keywords)) or ["this"]
    a, b = subjects[dice[1] % len(subjects)], subjects[dice[2] % len(subjects)]
    opening = _OPENINGS[dice[3] % len(_OPENINGS)].format(a=f'"{a}"')
    middle = _MIDDLES[dice[4] % len(_MIDDLES)].format(b=f'"{b}"')
    return f"{opening} {middle}\n\n{_ENDINGS[dice[5] % len(_ENDINGS)]}"


def _corrupt(inputs: PromptInputs, dice: bytes, room: int) -> str:
    """Claims, some of them corrupted, and the answer with exactly these changes."""
    answer = inputs.one("Answer")
    evidence = "\n".join(text[:READ_CHARACTERS] for _, text in inputs.passages())
    claims, changed, rewritten = corrupt(answer, evidence, dice, read=READ_CHARACTERS)
    lines = [f"<claim>{claim}</claim>" for claim in claims] or ["<claim></claim>"]
    lines += [f"<corrupted_claim>{claim}</corrupted_claim>" for claim in changed]
    return "\n".join([*lines, f"<corrupted_answer>\n{rewritten}\n</corrupted_answer>"])


def _combine(inputs: PromptInputs, dice: bytes, room: int) -> str:
    """The first answer, then the half of the second that has most to do with the question; no near-repeats."""
    asked = words(inputs.one("Question")[:READ_CHARACTERS]) - COMMON
    merged = _Merged(room - len(END_MARK) - 1)
    first = inputs.one("First answer")[:READ_CHARACTERS]
    merged.add(first, None)
    merged.add(inputs.one("Second answer")[:READ_CHARACTERS], asked)
    return "\n\n".join(merged.blocks or [first])


class _Merged:
    """Blocks of Markdown that say nothing twice and fit into `room` characters."""

    def __init__(self, room: int) -> None:
        self.blocks: list[str] = []
        self.room = room
        self._kept: deque[set[str]] = deque(maxlen=COMPARED_PARTS)
        self._seen: set[str] = set()

    def add(self, text: str, asked: set[str] | None) -> None:
        """Add what is new in a text; with `asked`, only the half of its sentences that shares most words with it."""
        pieces = _pieces(text)
        wanted = _best_half(pieces, asked) if asked is not None else None
        for kind, block in pieces:
            kept = [part for part in block if (wanted is None or kind != "prose" or part in wanted) and self._new(part)]
            if kept:
                self.blocks.append((" " if kind == "prose" else "\n").join(kept))

    def _new(self, part: str) -> bool:
        """Whether it is no near-repeat and fits; then it counts as kept."""
        if part in self._seen or len(part) + 2 > self.room:
            return False
        own = words(part)
        most = len(own) / NEAR_REPEAT + 1e-9  # words of what can be a near-repeat, which spares most comparisons
        if any(
            len(other) <= most and len(own) <= len(other) / NEAR_REPEAT + 1e-9 and _jaccard(own, other) >= NEAR_REPEAT
            for other in self._kept
        ):
            return False
        self._seen.add(part)
        self._kept.append(own)
        self.room -= len(part) + 2
        return True


def _pieces(text: str) -> list[tuple[str, list[str]]]:
    """(kind, parts) of each block: a paragraph's sentences where each can stand alone, else the block whole."""
    found = []
    for kind, start, end in blocks(text):
        parts = [text[start:end]]
        if kind == "prose":
            spans = sentences_of(text, start, end)
            split = [text[span.start : span.end] for span in spans]
            parts = split if all(map(balanced, split)) else parts
        elif kind == "code":
            parts = [_closed(parts[0])]
        found.append((kind, parts))
    return found


def _best_half(pieces: list[tuple[str, list[str]]], asked: set[str]) -> set[str]:
    prose = [part for kind, block in pieces if kind == "prose" for part in block]
    ranked = sorted(prose, key=lambda part: -shared_words(asked, part))
    return set(ranked[: (len(prose) + 1) // 2])


def _closed(code: str) -> str:
    """A fenced block whose end is missing gets one, so that it does not swallow what follows."""
    bare = code.lstrip()
    if not bare.startswith(("```", "~~~")):
        return code
    fence = bare[: len(bare) - len(bare.lstrip(bare[0]))]
    return code if "\n" in code and code.rpartition("\n")[2].strip().startswith(fence) else f"{code}\n{fence}"


def _jaccard(a: set[str], b: set[str]) -> float:
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if shared else 0.0


RULES = {
    "axioms/open_book": Rule(_open_book, {"Question", "Passage"}, {"Passage"}),
    "axioms/closed_book": Rule(_closed_book, {"Question"}),
    "axioms/corrupt": Rule(_corrupt, {"Question", "Passage", "Answer"}, {"Passage"}),
    "axioms/combine": Rule(_combine, {"Question", "First answer", "Second answer"}),
}
