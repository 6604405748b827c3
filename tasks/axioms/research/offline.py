"""The offline model's rules for research questions: queries of its words, passages and updates by quoting."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice, pairwise

from longform.llm.offline import PromptInputs, Rule
from longform.llm.read.replies import cited_passages
from tasks.text.prose import COMMON, READ_CHARACTERS, balanced, fit_to_quote, sentences, shared_words, words

PASSAGES, SENTENCES = 3, 2  # of a page; of a passage
QUOTED, ADDED = 6, 2  # sentences of a grounded answer; of an update
LEAST, MOST = 30, 350  # characters of a sentence that is quoted
UNCITED = "No passage is named for this: "
FRAME = "What was found on the question, with its sources:"
CLOSING = "Together these statements are what the passages hold on"
_WORD = re.compile(r"[^\W\d_][\w-]{2,30}")


def _queries(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """Queries in tags: the question's words, then each two that follow each other, at most as many as wanted."""
    names = _names(inputs.one("Question"))
    pairs = [f"{one} {other}" for one, other in pairwise(names)]
    return _tags("query", [" ".join(names[:8]) or "question", *pairs][: _wanted(inputs)])


def _plan(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """Queries in tags: the question's words, and these with words of the answer that the question lacks."""
    names = _names(inputs.one("Question"))
    seen = {name.lower() for name in names}
    others = [name for name in _names(inputs.one("First answer")) if name.lower() not in seen]
    more = [f"{' '.join(names[:3])} {other}" for other in others]
    return _tags("query", [" ".join(names[:8]) or "question", *more][: _wanted(inputs)])


def _wanted(inputs: PromptInputs) -> int:
    return int(inputs.one("Number of queries, at most"))


def _names(text: str) -> list[str]:
    """The words of a text that are not very common, each once, in order."""
    found = _WORD.findall(text[:READ_CHARACTERS])
    return list({word.lower(): word for word in reversed(found) if word.lower() not in COMMON}.values())[::-1]


def _summarise(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """At most PASSAGES passages in tags: the sentences of the page that share most words with the question, each with
    the one behind it; one empty tag if none shares a word.
    """
    wanted = words(inputs.one("Question")[:READ_CHARACTERS]) - COMMON
    page = inputs.one("Page")[:READ_CHARACTERS]
    lines = [page[start:end] for start, end in sentences(page)]
    ranked = sorted(range(len(lines)), key=lambda at: (-shared_words(wanted, lines[at]), at))
    used: set[int] = set()
    found: list[str] = []
    for at in ranked:
        if len(found) == PASSAGES or not shared_words(wanted, lines[at]):
            break
        near = [place for place in range(at, min(at + SENTENCES, len(lines))) if place not in used]
        if at in near and LEAST <= len(lines[at]) <= MOST:
            used.update(near)
            found.append(" ".join(" ".join(lines[place].split()) for place in near))
    return _tags("passage", found or [""])


def _update(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """The answer with at most ADDED sentences of the last passage behind it, each with its number; the answer as it is
    if it has them already.
    """
    answer = inputs.one("Answer so far")
    number, passage = inputs.passages()[-1]
    new = list(_quotable(passage, answer))[:ADDED]
    room = max_characters - len(answer) - 100
    text = " ".join(_cited(each, number) for each in new)
    return f"{answer}\n\n{text}" if new and len(text) < room else answer


def _ground(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """The sentences of the passages that share most words with the question, each with its number, after a phrase."""
    wanted = words(inputs.one("Question")[:READ_CHARACTERS]) - COMMON
    ranked = [
        (shared_words(wanted, each), number, each)
        for number, passage in inputs.passages()
        for each in _quotable(passage, "")
    ]
    ranked.sort(key=lambda scored: -scored[0])
    chosen = sorted(islice(fit_to_quote(ranked), QUOTED), key=lambda scored: scored[1])
    if not chosen:
        return "The passages given here say nothing that could be quoted on this question."
    return f"{FRAME}\n\n{' '.join(_cited(text, number) for _, number, text in chosen)}"


def _review(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """At most two problems in tags: sentences of the answer that name no passage, if others do."""
    answer = inputs.one("Answer to look over")
    lines = [answer[start:end] for start, end in sentences(answer)]
    uncited = [line for line in lines if not cited_passages(line)]
    named = len(lines) - len(uncited)
    return _tags("problem", [UNCITED + " ".join(line.split()) for line in uncited[:2]] if named else [""])


def _repair(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """The answer without the sentences that the problems quote; one on what is asked about takes their place."""
    answer = inputs.one("Answer to correct")
    wrong = {text.removeprefix(UNCITED) for _, text in inputs.numbered("Problem")}
    for start, end in reversed(sentences(answer)):
        if " ".join(answer[start:end].split()) in wrong:
            answer = answer[:start] + answer[end:]
    kept = [" ".join(block.split(" ")).strip() for block in answer.split("\n\n") if block.strip()]
    names = ", ".join(_names(inputs.one("Question"))[:10]) or "the question"
    number = next(iter(cited_passages(answer)), None)
    found = f"{CLOSING} {names}" + (f" (Passage {number})." if number else ".")
    return "\n\n".join([*kept, found]) if wrong and CLOSING not in answer else "\n\n".join(kept)


def _quotable(passage: str, answer: str) -> list[str]:
    """The whole sentences of a passage that can stand alone and that the answer does not have yet."""
    text = passage[:READ_CHARACTERS]
    lines = (" ".join(text[start:end].split()) for start, end in sentences(text))
    return [line for line in lines if LEAST <= len(line) <= MOST and balanced(line) and line.rstrip(".") not in answer]


def _cited(sentence: str, number: int) -> str:
    return f"{sentence.rstrip('.')} (Passage {number})."


def _tags(name: str, texts: Iterable[str]) -> str:
    return "\n".join(f"<{name}>{text}</{name}>" for text in texts)


RULES = {
    "axioms/research_queries": Rule(_queries, {"Question", "Number of queries, at most"}),
    "axioms/research_plan": Rule(_plan, {"Question", "First answer", "Number of queries, at most"}),
    "axioms/research_summarise": Rule(_summarise, {"Question", "Title of the page", "Page"}),
    "axioms/research_update": Rule(_update, {"Question", "Answer so far", "Passage"}),
    "axioms/research_ground": Rule(_ground, {"Question", "First answer", "Passage"}),
    "axioms/research_review": Rule(_review, {"Question", "Answer to look over", "Passage"}, {"Passage"}),
    "axioms/research_repair": Rule(
        _repair, {"Question", "Answer to correct", "Passage", "Problem"}, {"Passage", "Problem"}
    ),
}
