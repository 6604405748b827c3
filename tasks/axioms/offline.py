"""The offline model's rules for axioms: answers by quoting, hedging, corrupting or merging, and verdicts by shared
words, without a language model.
"""

from __future__ import annotations

import re
from collections import deque
from itertools import chain, islice

from longform.llm.offline import END_MARK, PromptInputs, Rule
from tasks.axioms.corruption import corrupt
from tasks.axioms.judging.offline import JUDGE_RULES
from tasks.axioms.research.offline import RULES as RESEARCH_RULES
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
ANSWERING = 0.6

_FRAMES = (
    "The passages say this on the question:",
    "These statements of the passages bear on the question:",
    "Going by the passages alone, this can be said:",
)
_AGREED = "On this there is agreement:"
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


def _open_book(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """At most QUOTED_SENTENCES sentences of the passages that share most words with the question, each with its
    passage number, after a fixed phrase; a fixed sentence if nothing can be quoted.
    """
    question_words = words(inputs.one("Question")[:READ_CHARACTERS]) - COMMON
    chosen = _quotable(inputs.passages(), question_words)
    if not chosen:
        return "The passages given here say nothing that could be quoted on this question."
    quotes = " ".join(f"{sentence.rstrip('.')} (Passage {number})." for number, sentence in chosen)
    return f"{_FRAMES[random_bytes[0] % len(_FRAMES)]}\n\n{quotes}"


def _quotable(passages: list[tuple[int, str]], question_words: set[str]) -> list[tuple[int, str]]:
    """(passage number, sentence) of at most QUOTED_SENTENCES sentences that share most words with the question, in the
    order of the passages; [] if there are none. Only whole sentences of 30 to 350 characters that can stand alone.

    A sentence that shares no word with the question is chosen only if it is the best, or if all others are of one
    passage: then the best sentence of another passage is added, or replaces the last one.
    """
    ranked = [
        (shared_words(question_words, text[start:end]), number, text[start:end])
        for number, text in passages
        for start, end in sentences(text[:READ_CHARACTERS])
        if 30 <= end - start <= 350
    ]
    ranked.sort(key=lambda scored: -scored[0])
    fit = fit_to_quote(ranked)
    best = list(islice(fit, QUOTED_SENTENCES))
    chosen = best[:1] + [scored for scored in best[1:] if scored[0] > 0]
    other_passage = next((scored for scored in chain(best, fit) if scored[1] != best[0][1]), None)
    if other_passage and all(scored[1] == best[0][1] for scored in chosen):
        chosen = [*chosen[: QUOTED_SENTENCES - 1], other_passage]
    return sorted(((number, sentence) for _, number, sentence in chosen), key=lambda pair: pair[0])


def _closed_book(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """A hedged answer that uses words of the question's first line and states no facts."""
    title = inputs.one("Question")[:READ_CHARACTERS].strip().partition("\n")[0]
    keywords = [word for word in re.findall(r"[^\W\d_]{4,30}", title) if word.lower() not in COMMON]
    subjects = list(dict.fromkeys(keywords)) or ["this"]
    a, b = subjects[random_bytes[1] % len(subjects)], subjects[random_bytes[2] % len(subjects)]
    opening = _OPENINGS[random_bytes[3] % len(_OPENINGS)].format(a=f'"{a}"')
    middle = _MIDDLES[random_bytes[4] % len(_MIDDLES)].format(b=f'"{b}"')
    return f"{opening} {middle}\n\n{_ENDINGS[random_bytes[5] % len(_ENDINGS)]}"


def _corrupt(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """The reply in the prompt's tags: the answer's claims, the claims that were corrupted by rule, and the answer with
    these changes. Without claims one empty claim tag and the answer unchanged.
    """
    answer = inputs.one("Answer")
    evidence = "\n".join(text[:READ_CHARACTERS] for _, text in inputs.passages())
    claims, changed, rewritten = corrupt(answer, evidence, random_bytes, read=READ_CHARACTERS)
    lines = [f"<claim>{claim}</claim>" for claim in claims] or ["<claim></claim>"]
    lines += [f"<corrupted_claim>{claim}</corrupted_claim>" for claim in changed]
    return "\n".join([*lines, f"<corrupted_answer>\n{rewritten}\n</corrupted_answer>"])


def _combine(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """The first answer, followed by the half of the second answer's sentences that shares most words with the
    question, and its other blocks (lists, code, headings). Parts that repeat or nearly repeat another, or no longer
    fit into `max_characters`, are left out, also in the first answer; that answer after a fixed phrase if nothing of
    the second is left. Both are read only up to READ_CHARACTERS.
    """
    question_words = words(inputs.one("Question")[:READ_CHARACTERS]) - COMMON
    first, second = (inputs.one(f"{name} answer")[:READ_CHARACTERS] for name in ("First", "Second"))
    pieces = _pieces(second)
    wanted = _best_half(pieces, question_words)
    pieces = [(kind, [part for part in block if kind != "prose" or part in wanted]) for kind, block in pieces]
    is_new = _NewParts(max_characters - len(END_MARK) - 1)
    kept = [(kind, list(filter(is_new, block))) for kind, block in [*_pieces(first), *pieces]]
    text = "\n\n".join((" " if kind == "prose" else "\n").join(parts) for kind, parts in kept if parts) or first
    return f"{_AGREED} {text}" if " ".join(text.split()) in " ".join(first.split()) else text


def _judge_negative(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """`<verdict>yes</verdict>` if the answer has at least the share ANSWERING of the words of the question's first
    line, else `<verdict>no</verdict>`. Very common words do not count.
    """
    asked = words(inputs.one("Question")[:READ_CHARACTERS].strip().partition("\n")[0]) - COMMON
    shared = len(asked & words(inputs.one("Answer")[:READ_CHARACTERS]))
    return f"<verdict>{'yes' if asked and shared >= ANSWERING * len(asked) else 'no'}</verdict>"


class _NewParts:
    """A filter for parts of a text, called with each in turn: True to keep it. It drops a part that equals a kept one,
    nearly repeats one of the last COMPARED_PARTS kept ones (a Jaccard similarity of words of at least NEAR_REPEAT), or
    no longer fits into `max_characters`, where each kept part counts two characters more than it has.
    """

    def __init__(self, max_characters: int) -> None:
        self._left = max_characters
        self._kept: deque[set[str]] = deque(maxlen=COMPARED_PARTS)
        self._parts: set[str] = set()

    def __call__(self, part: str) -> bool:
        """Whether to keep a part. A kept part counts for later calls."""
        own = words(part)
        most = len(own) / NEAR_REPEAT + 1e-9  # words of what can be a near-repeat, which spares most comparisons
        near = (other for other in self._kept if len(other) <= most and len(own) <= len(other) / NEAR_REPEAT + 1e-9)
        if part in self._parts or len(part) + 2 > self._left or any(_jaccard(own, o) >= NEAR_REPEAT for o in near):
            return False
        self._parts.add(part)
        self._kept.append(own)
        self._left -= len(part) + 2
        return True


def _pieces(text: str) -> list[tuple[str, list[str]]]:
    """(kind, parts) of each block of a Markdown text, in order; `kind` is prose, list, code or other. The parts of a
    paragraph (prose) are its sentences, unless one has code, emphasis or a bracket cut off; any other block is one
    part. A code fence that is not closed is closed.
    """
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


def _best_half(pieces: list[tuple[str, list[str]]], question_words: set[str]) -> set[str]:
    """The half of the prose sentences, rounded up, that shares most words with the question. `pieces`: as returned by
    `_pieces`.
    """
    prose = [part for kind, block in pieces if kind == "prose" for part in block]
    ranked = sorted(prose, key=lambda part: -shared_words(question_words, part))
    return set(ranked[: (len(prose) + 1) // 2])


def _closed(code: str) -> str:
    """The code block, with a closing fence appended if it is fenced and not closed, so that later text stays outside
    of it.
    """
    bare = code.lstrip()
    if not bare.startswith(("```", "~~~")):
        return code
    fence = bare[: len(bare) - len(bare.lstrip(bare[0]))]
    return code if "\n" in code and code.rpartition("\n")[2].strip().startswith(fence) else f"{code}\n{fence}"


def _jaccard(a: set[str], b: set[str]) -> float:
    """The Jaccard similarity of two sets of words, from 0 to 1; 0 if they share none."""
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if shared else 0.0


RULES = {
    "axioms/open_book": Rule(_open_book, {"Question", "Passage"}, {"Passage"}),
    "axioms/irrelevant_book": Rule(_open_book, {"Question", "Passage"}, {"Passage"}),
    "axioms/closed_book": Rule(_closed_book, {"Question"}),
    "axioms/corrupt": Rule(_corrupt, {"Question", "Passage", "Answer"}, {"Passage"}),
    "axioms/combine": Rule(_combine, {"Question", "First answer", "Second answer"}),
    "axioms/judge_negative": Rule(_judge_negative, {"Question", "Answer"}),
    **JUDGE_RULES,
    **RESEARCH_RULES,
}
