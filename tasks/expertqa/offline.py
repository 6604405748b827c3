"""Rules of the offline model for ExpertQA: answers with citations, verdicts by shared words, claims broken into
statements.

The offline model has no knowledge: its closed-book answers hedge around the question's words and cite addresses at
example.org; its other answers quote the passages. A verdict compares words without their endings, and numbers, never
meaning. A rule gets the prompt's inputs, `random_bytes` to draw choices from, and `max_characters`, the number of
characters that fit.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from longform.llm.offline import PromptInputs, Rule
from tasks.expertqa.estimates.factscore import joined_clauses
from tasks.text.prose import COMMON, READ_CHARACTERS, fit_to_quote, sentences

QUOTED_SENTENCES = 5
ENTAILED = 2 / 3
HELD = 3 / 4
MAX_STATEMENTS = 20
SUBJECT_CHARACTERS = 60
ITEM_WORDS = 6
END_MARK_CHARACTERS = 6

_MARK = re.compile(r"\s{0,3}(?:\[\^?\d[\d^,;\s–-]{0,40}\]|\(passages?[^)]{0,80}\))", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://\S{1,400}")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"[^\W\d_]+")
_WORD_OR_NUMBER = re.compile(r"[^\W_]")
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nor|neither|cannot|without|nothing|nobody|hardly)\b|n['’]t\b", re.IGNORECASE
)
_ENDINGS = ("ies", "ing", "ed", "es", "e", "s", "y")


class Content(NamedTuple):
    """What rules compare of a text: its words (lower-case, without common ones, without endings) and its numbers."""

    words: frozenset[str]
    numbers: frozenset[str]


class Sentence(NamedTuple):
    """A sentence: its text, its words as `content` finds them, and whether it is negated."""

    text: str
    words: frozenset[str]
    negated: bool


@lru_cache(maxsize=128)  # one passage is read for many claims
def content(text: str) -> Content:
    """The words and numbers of a text, outside its citation marks and addresses; cached."""
    return _content(text)


def _content(text: str) -> Content:
    """The words and numbers of a text, outside its citation marks and addresses; not cached."""
    bare = _ADDRESS.sub(" ", _MARK.sub(" ", text))
    numbers = frozenset(number.replace(",", "") for number in _NUMBER.findall(bare))
    return Content(frozenset(_stem(word) for word in _WORD.findall(bare.lower()) if word not in COMMON), numbers)


@lru_cache(maxsize=65_536)  # most words of a text have been in others
def _stem(word: str) -> str:
    """A lower-case word without its ending, such as -ing or -es, where at least three letters are left."""
    for ending in _ENDINGS:
        if len(word) > len(ending) + 2 and word.endswith(ending):
            return word[: -len(ending)]
    return word


def share(claim: Content, evidence: Content) -> float:
    """Share of the claim's words that the evidence has, in [0, 1]. 0 if the evidence lacks a number of the claim, or
    the claim has neither words nor numbers; 1 if it has only numbers, all of which the evidence has.
    """
    if not claim.numbers <= evidence.numbers or not (claim.words or claim.numbers):
        return 0.0
    return len(claim.words & evidence.words) / len(claim.words) if claim.words else 1.0


# answers

_HEDGES = (
    "It is hard to be definite about {a} and {b} without more of the circumstances [1].",
    "Much may come down to {a}, and to how far it is {b} that matters [1] [2].",
    "What is said of {a} need not be so for {b} [2].",
    "In the field of {field}, {a} and {c} may be understood differently [2].",
    "One might begin with {c}, and then look at {a} [1].",
    "Whether {b} or {c} comes first depends on the case.",
)
_ENDINGS_OF_ANSWERS = (
    "None of this was looked up, and the sources named are placeholders.",
    "This is a general remark, not checked against any source.",
    "A reliable source should be consulted before acting on this.",
)
_UNKNOWN = "I don't know: the question holds no word that I could go by."
_LACKS = {
    True: "The passages given here share words with the question, but have no sentence that could be quoted on it.",
    False: "The passages given here have no word in common with the question, so they do not speak of it.",
}


def _closed_book(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """An answer that hedges around the question's words, with addresses at example.org as sources; it states no facts.
    "I don't know" and why if the question has no word of 4 to 30 letters besides common ones. It is not shortened to
    `max_characters`.
    """
    keywords = _keywords(inputs.one("Question")[:READ_CHARACTERS])
    if not keywords:
        return _UNKNOWN
    keywords += [word for word in ("practice", "experience") if word not in keywords]
    a, b, c = (keywords[(random_bytes[0] + step) % len(keywords)] for step in range(3))
    field = " ".join(_WORD.findall(inputs.one("Field")[:60])) or "this question"
    first, number = random_bytes[1] % len(_HEDGES), 3 + random_bytes[2] % 3
    hedges = [_HEDGES[(first + step) % len(_HEDGES)] for step in range(number)]
    text = " ".join(hedge.format(a=a, b=b, c=c, field=field) for hedge in hedges)
    slugs = ("-".join(re.findall("[a-z0-9]+", word.lower())) or random_bytes.hex()[:8] for word in (a, b))
    references = [f"[{n}] https://example.org/{slug}" for n, slug in enumerate(slugs, 1)]
    ending = _ENDINGS_OF_ANSWERS[random_bytes[3] % len(_ENDINGS_OF_ANSWERS)]
    return "\n".join([f"{text} {ending}", "", "References:", *references])


def _keywords(question: str) -> list[str]:
    """The words of a question that an answer can be made of, in order, each once: 4 to 30 letters, no common ones; in
    lower case unless written in capitals.
    """
    found = (word for word in _WORD.findall(question) if 4 <= len(word) <= 30 and word.lower() not in COMMON)
    return list(dict.fromkeys(word if word.isupper() else word.lower() for word in found))


def _from_passages(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """An answer that quotes the sentences of the passages that share most words with the question, each with its
    passage's number; "I don't know" and why if no sentence can be quoted. It is not shortened to `max_characters`.
    """
    asked = content(inputs.one("Question")[:READ_CHARACTERS]).words
    passages = inputs.passages()
    chosen = _quoted(passages, asked)
    if not chosen:
        near = any(asked & content(text[:READ_CHARACTERS]).words for _, text in passages)
        return f"I don't know. {_LACKS[near]}"
    answer = " ".join(f"{sentence.rstrip('.!')} [{number}]." for number, sentence in chosen)
    return f"{answer} Further than that the passages do not go." if random_bytes[0] % 3 == 0 else answer


def _quoted(passages: list[tuple[int, str]], asked: frozenset[str]) -> list[tuple[int, str]]:
    """At most QUOTED_SENTENCES (passage number, sentence) that share most words with the question, in the order of the
    passages' numbers, without citation marks of the passages; [] if no sentence shares one.

    Only whole sentences of 30 to 350 characters that can stand alone. `passages`: (number, text). `asked`: the words
    of the question.
    """
    ranked = [
        (len(asked & sentence.words), number, _MARK.sub("", sentence.text))
        for number, text in passages
        for sentence in _sentences(text[:READ_CHARACTERS])
        if 30 <= len(sentence.text) <= 350 and not asked.isdisjoint(sentence.words)
    ]
    ranked.sort(key=lambda scored: -scored[0])
    best = list(islice(fit_to_quote(ranked), QUOTED_SENTENCES))
    return sorted(((number, sentence) for _, number, sentence in best), key=lambda pair: pair[0])


def _revise(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """The unchanged answer if the evidence supports all claims that have any, and the answer fits into
    `max_characters`; else the claims that are supported or have no evidence, as far as they fit.

    If there is no such claim, the one that shares most words with its evidence; a fixed sentence if no text is left.
    """
    evidence = dict(inputs.numbered("Evidence"))
    claims = [(" ".join(text.split()), evidence.get(number, "")) for number, text in inputs.numbered("Claim")]
    kept = [claim for claim, text in claims if not text.strip() or supports(text, claim)]
    answer = inputs.one("Answer").strip()
    whole = len(kept) == len(claims) and len(answer) + END_MARK_CHARACTERS <= max_characters
    revised = (
        answer if whole else _fitting(kept or _claim_nearest_its_evidence(claims), max_characters - END_MARK_CHARACTERS)
    )
    return revised if _WORD.search(revised) else "Nothing of this answer can be kept."


def _claim_nearest_its_evidence(claims: list[tuple[str, str]]) -> list[str]:
    """A list of the one claim that shares most words with its evidence, the first of equals; [] without claims.
    `claims`: (claim, evidence).
    """
    best = sorted(claims, key=lambda pair: -share(content(pair[0]), content(pair[1][:READ_CHARACTERS])))[:1]
    return [claim for claim, _ in best]


def _fitting(claims: list[str], max_characters: int) -> str:
    """The claims in order, joined by blanks, without those that would make the text longer than `max_characters`; ""
    if none fits.
    """
    text = ""
    for claim in claims:
        longer = f"{text} {claim}".strip()
        text = longer if len(longer) <= max_characters else text
    return text


# verdicts


def supports(evidence: str, claim: str) -> bool:
    """Whether the evidence has two thirds of the claim's words (ENTAILED), and all its numbers. Only its first
    READ_CHARACTERS are read.
    """
    return share(content(claim), content(evidence[:READ_CHARACTERS])) >= ENTAILED


def _entails(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """`<verdict>supported</verdict>` if the evidence supports the claim, else `<verdict>not supported</verdict>`."""
    supported = supports(inputs.one("Evidence"), inputs.one("Claim")[:READ_CHARACTERS])
    return f"<verdict>{'supported' if supported else 'not supported'}</verdict>"


def _judge_fact(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """`<verdict>true</verdict>` if some passage bears the statement out (see `holds`), else
    `<verdict>false</verdict>`.
    """
    fact = inputs.one("Statement")[:READ_CHARACTERS]
    held = any(holds(text[:READ_CHARACTERS], fact) for _, text in inputs.passages())
    return f"<verdict>{'true' if held else 'false'}</verdict>"


def holds(passage: str, fact: str) -> bool:
    """Whether a passage bears a fact out: it has three quarters (HELD) of the fact's words, and all its numbers, and
    its sentence that shares most words with the fact, if it has sentences, is negated exactly if the fact is.
    """
    wanted = content(fact)
    if share(wanted, content(passage)) < HELD:
        return False
    nearest = max(_sentences(passage), key=lambda sentence: len(wanted.words & sentence.words), default=None)
    return nearest is None or nearest.negated == _negated(fact)


@lru_cache(maxsize=128)
def _sentences(passage: str) -> tuple[Sentence, ...]:
    """The sentences of a passage, with their words and whether they are negated; cached."""
    texts = (passage[span.start : span.end] for span in sentences(passage))
    return tuple(Sentence(text, _content(text).words, _negated(text)) for text in texts)


def _negated(text: str) -> bool:
    """Whether a text is negated: it has an odd number of negations."""
    return len(_NEGATION.findall(text)) % 2 == 1


# atomic claims

_VERBS = (
    "is|are|was|were|has|have|had|can|could|may|might|must|should|will|would|does|did|includes?|contains?|needs?"
    "|requires?|helps?|causes?|makes?|gives?|takes?|keeps?|leads?|depends?"
)
_VERB = re.compile(rf"\b(?:{_VERBS})\b")
_CLAUSE = re.compile(r";\s+|,\s+(?:and|but|while|whereas)\s+(?=(?:it|they|he|she|we|you|this|these)\b)")
_NEXT_VERB = re.compile(rf",?\s+and\s+(?=(?:also\s+)?(?:{_VERBS})\b)")
_CLAUSE_WITH_VERB = re.compile(r",\s+(?:but|while|whereas)\s+|,\s+and\s+(?=(?:the|a|an|its|their)\b)")
_ITEMS = re.compile(r",\s+and\s+|,\s+|\s+and\s+")
_LISTING = re.compile(r"\b(?:includes?|contains?|requires?|needs?|causes?|are|has|have)\s")
_MARKUP = re.compile(r"\A\s*(?:[-*•+]|\d{1,3}[.)])\s+|\*\*|`|^#{1,6}\s+")
_TAG = re.compile(r"<(?=\s{0,3}/?\s{0,3}[^\W\d_])")


def _break_claim(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """The atomic claims of the claim, each in its tag on a line of its own; one empty tag if there is none. A `<` that
    begins a tag in them is written as ‹.
    """
    statements = atomic_claims(inputs.one("Claim")[:READ_CHARACTERS])
    tame = (_TAG.sub("‹", statement) for statement in statements or [""])
    return "\n".join(f"<atomic_claim>{statement}</atomic_claim>" for statement in tame)


def atomic_claims(claim: str) -> list[str]:
    """The statements that a claim makes, at most MAX_STATEMENTS, in order, each once, with a capital and a full stop.
    The claim itself, without markup and citation marks, if no rule breaks it up; [] if it has no word or number.
    """
    bare = " ".join(_MARKUP.sub("", _MARK.sub("", claim)).split()).rstrip(" .;:,")
    statements, subject = [], ""
    for clause in (part for whole in _CLAUSE.split(bare) for part in _split(_CLAUSE_WITH_VERB, whole)):
        subject = _subject(clause) or subject
        statements += [listed for phrase in _verb_phrases(clause, subject) for listed in _listed(phrase)]
    if len(statements) == 1:
        statements = list(joined_clauses(statements[0]) or statements)
    bare_ones = (one.rstrip(" .;:,") for one in statements if _WORD_OR_NUMBER.search(one))
    return list(dict.fromkeys(f"{one[:1].upper()}{one[1:]}." for one in bare_ones))[:MAX_STATEMENTS]


def _split(pattern: re.Pattern[str], text: str) -> list[str]:
    """The text cut where the pattern matches, which is left out there, but only so that each piece has a verb. A text
    with fewer than two verbs is one piece.
    """
    pieces: list[tuple[int, int]] = []
    complete, start = False, 0
    for end, then in [*(match.span() for match in pattern.finditer(text)), (len(text), len(text))]:
        has_verb = _VERB.search(text, start, end) is not None
        if pieces and not (complete and has_verb):
            pieces[-1] = (pieces[-1][0], end)
            complete = complete or has_verb
        else:
            pieces.append((start, end))
            complete = has_verb
        start = then
    return [text[start:end] for start, end in pieces]


def _subject(clause: str) -> str:
    """The words before the clause's first verb. "" if there is no verb or no word before it, or if they have a comma
    or more than SUBJECT_CHARACTERS.
    """
    verb = _VERB.search(clause)
    subject = clause[: verb.start()].strip() if verb else ""
    plain = len(subject) <= SUBJECT_CHARACTERS and "," not in subject
    return subject if plain else ""


def _verb_phrases(clause: str, subject: str) -> list[str]:
    """A statement for each verb of a clause that "and" joins: `It keeps cold and is cheap` gives `It keeps cold` and
    `It is cheap`.

    A clause without a plain subject is one statement; if it begins with a verb, `subject`, that of an earlier clause,
    is put before it.
    """
    own = _subject(clause)
    if not own:
        begins_with_verb = subject and _VERB.match(clause)
        return [f"{subject} {clause}" if begins_with_verb else clause]
    first, *others = _NEXT_VERB.split(clause)
    return [first, *(f"{own} {other}" for other in others)]


def _listed(statement: str) -> list[str]:
    """A statement for each item of a list after a verb such as `need` or `are`, at most MAX_STATEMENTS: `Kegs need
    gas, ice and a tap` gives `Kegs need gas` and so on.

    The statement alone if it has no list of three items or more with "and" in it, or if an item has a verb or more
    than ITEM_WORDS words.
    """
    listing = _LISTING.search(statement)
    items = _ITEMS.split(statement[listing.end() :]) if listing else []
    plain = all(item and len(item.split()) <= ITEM_WORDS and not _VERB.search(item) for item in items)
    if not listing or len(items) < 3 or not plain or " and " not in statement[listing.end() :]:
        return [statement]
    return [f"{statement[: listing.end()]}{item}" for item in items[:MAX_STATEMENTS]]


RULES = {
    "expertqa/closed_book": Rule(_closed_book, {"Field", "Question"}),
    "expertqa/from_passages": Rule(_from_passages, {"Field", "Question", "Passage"}, {"Passage"}),
    "expertqa/entails": Rule(_entails, {"Claim", "Evidence"}),
    "expertqa/break_claim": Rule(_break_claim, {"Claim"}),
    "expertqa/judge_fact": Rule(_judge_fact, {"Statement", "Passage"}, {"Passage"}),
    "expertqa/closed_book_as_in_paper": Rule(_closed_book, {"Field", "Question"}),
    "expertqa/judge_fact_as_in_paper": Rule(_judge_fact, {"Statement", "Passage"}, {"Passage"}),
    "expertqa/revise": Rule(_revise, {"Question", "Answer", "Claim", "Evidence"}),
}
