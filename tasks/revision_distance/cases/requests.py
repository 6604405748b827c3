"""Rules that decide by its words whether a message asks for a piece of writing, and of which kind; no model.

    Could you write me a short, polite email to my landlord?      email    write … email
    How do I write a cover letter?                                none: a question about one
    Write a summary of the following article: …                   none: asks for a summary

A request is a verb of writing in the imperative, followed by a kind of writing before the next preposition, clause or
end of the sentence. An imperative begins a sentence or follows "can you …", "I want you to …", "I need to …". Weaker
verbs (need, give) must be followed by "a" or a number. A message may also be only the name of the piece ("Cover letter
for a nurse"), or ask for a reply to an e-mail or a letter. Not accepted are changes of an existing text (translate,
shorten, "this email"), programs, parts of a piece (its title, its outline) and lists.

Blog posts, press releases, op-eds and news count as articles, cover letters as letters; essays are a kind of their own.
Poems, songs, scenes, tweets and captions are no kind, since readers do not revise them sentence by sentence. The words
are in selection.json, by language.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from longform.errors import UsageError

WORDS = Path(__file__).with_name("selection.json")
HEAD_CHARACTERS, TAIL_CHARACTERS = 1_500, 500
MOST_TOKENS = 400
LONGEST_GAP = 14
LONGEST_QUOTE = 40
ACTS = {"wants": "number", "gerunds": "", "verbs": "", "makes": "new", "gives": "number", "helps": "", "replies": ""}
NOT_IN_NAMES = (
    "breakers",
    "owners",
    "given",
    "questions",
    "verbs",
    "makes",
    "gives",
    "wants",
    "negations",
    "transforms",
)

_TOKENS = re.compile(r"\w+(?:['-]\w+)*|[^\w\s]")
_SENTENCES = re.compile(r"(?<=[.!?])\s+|[\n\r]+")
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUOTED = re.compile(rf'"[^"]{{{LONGEST_QUOTE},}}"')
_PLAIN = str.maketrans("\u2018\u2019\u201c\u201d\u2010\u2011\u2013\u2014", "''\"\"----")
_STARTS = frozenset(",:;.!?)]\"'*-•>")
_ENDS = frozenset(":;.!?[<>=|")


@dataclass(frozen=True, slots=True)
class Asked:
    """A kind of writing that a message asks for ("email"), and the words by which the rules found it."""

    kind: str
    rule: str


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a language from selection.json, prepared for look-up.

    `lists`: name of a list -> its words. `kinds`: a name of writing as its words -> kind of writing. `not_before`:
    kind -> words that, right before its name, give the name another meaning. `phrases`: name of a list of phrases
    (refusals, asks_back, salutations) -> its phrases. `longest`: number of words of the longest name in `kinds`.
    `any_kind`: a message without any of these strings names no kind.
    """

    lists: dict[str, frozenset[str]]
    kinds: dict[tuple[str, ...], str]
    not_before: dict[str, frozenset[str]]
    phrases: dict[str, tuple[str, ...]]
    longest: int
    any_kind: tuple[str, ...]

    def has(self, name: str, word: str) -> bool:
        """Whether the word is in the list called `name`."""
        return word in self.lists[name]

    def excludes(self, kind: str, word: str) -> bool:
        """Whether the word, right before the name of a kind, gives the name another meaning."""
        return word in self.not_before.get(kind, ())


def check_languages(languages: Sequence[str]) -> None:
    """Raise UsageError for a language that selection.json does not have."""
    for name in languages:
        words_of(name)


@cache
def words_of(language: str) -> Words:
    """The words of a language by its full name ("English"), read once; UsageError for a language without words."""
    known: dict[str, dict[str, Any]] = json.loads(WORDS.read_text(encoding="utf-8"))
    if language not in known:
        raise UsageError(
            f'languages names "{language}", of which requests cannot be told: known are {", ".join(sorted(known))}.'
        )
    words = known[language]
    kinds = {tuple(_tokens(phrase)): kind for kind, phrases in words["kinds"].items() for phrase in phrases}
    lists = {name: frozenset(value) for name, value in words.items() if isinstance(value, list)}
    acts = frozenset[str]().union(*(lists[name] for name in ACTS))
    lasts = {phrase[-1] for phrase in kinds}
    return Words(
        lists={**lists, "acts": acts, "says": acts | lists["transforms"]},
        kinds=kinds,
        not_before={kind: frozenset(others) for kind, others in words["not_before"].items()},
        phrases={
            "refusals": (
                *words["refusals"],
                *(f"{no} {what}" for no in words["cannot"] for what in words["cannot_do"]),
            ),
            **{name: tuple(words[name]) for name in ("asks_back", "salutations")},
        },
        longest=max(map(len, kinds)),
        any_kind=tuple(word for word in lasts if not any(other in word for other in lasts - {word})),
    )


def plain(text: str) -> str:
    """The text in lower case, with typographic quotes and dashes replaced by plain ones."""
    return text.translate(_PLAIN).lower()


def _tokens(text: str) -> list[str]:
    """The first MOST_TOKENS tokens of a text: words, with inner apostrophes and hyphens, and single other signs."""
    return _TOKENS.findall(text)[:MOST_TOKENS]


# ---------------------------------------------------------------- a message


def asked(message: str, language: str = "English") -> Asked | None:
    """The first writing that a message asks for, by a verb or, at its beginning, by a name alone; None without any.

    None, too, if it first asks for a change of an existing text. Of a long message only the first HEAD_CHARACTERS and
    the last TAIL_CHARACTERS are read. UsageError for an unknown language.
    """
    words = words_of(language)
    whole = len(message) <= HEAD_CHARACTERS + TAIL_CHARACTERS
    parts = list(map(plain, [message] if whole else [message[:HEAD_CHARACTERS], message[-TAIL_CHARACTERS:]]))
    if not any(word in part for part in parts for word in words.any_kind):  # most messages
        return None
    first = True
    for tokens in map(_tokens, _sentences(parts)):
        found = _of_sentence(tokens, words)
        if found == EXISTING_TEXT or isinstance(found, Asked):
            return found if isinstance(found, Asked) else None
        if first and (named := _name_alone(tokens, words)):
            return named
        first = first and all(words.has("fillers", token) or token in _STARTS for token in tokens)
    return None


def _sentences(parts: list[str]) -> Iterator[str]:
    """The sentences of the texts in order, those that are blank left out; a line break ends a sentence, too.

    Code blocks, and quotations of at least LONGEST_QUOTE characters, are removed first.
    """
    texts = (_QUOTED.sub('""', _CODE.sub("\n", part)) for part in parts)
    return (sentence for text in texts for sentence in _SENTENCES.split(text) if sentence.strip())


# ---------------------------------------------------------------- a sentence

EXISTING_TEXT: Literal["existing text"] = "existing text"  # the request is about a text that already exists
Found = Asked | Literal["existing text", "other"] | None


def _of_sentence(tokens: list[str], words: Words) -> Found:
    """What a sentence asks for, by its first verb that asks for a text; None if no verb does.

    EXISTING_TEXT if that verb orders a change of a text (translate, shorten); otherwise as `_by_verb`. `tokens`: of
    the sentence.
    """
    says = words.lists["says"]
    for place in (place for place, token in enumerate(tokens) if token in says):
        if words.has("transforms", tokens[place]) and _is_imperative(tokens, place, words):
            return EXISTING_TEXT
        if found := _by_verb(tokens, place, words):
            return found
    return None


def _by_verb(tokens: list[str], place: int, words: Words) -> Found:
    """What the verb at this place asks for, as an Asked, EXISTING_TEXT or "other" (see `_object`).

    None if the word is in no list of ACTS, if it is neither an order nor the author's wish, or if its object does not
    fit it. A verb of the list `verbs` ("write") with no object at all gives "other", not None.
    """
    act = next((act for act in ACTS if words.has(act, tokens[place])), None)
    if act == "wants":
        asks = _author_wants(tokens, place, words)
    elif act == "gerunds":
        helped = any(words.has("helps", one) for one in tokens[max(0, place - 5) : place])
        asks = helped and not _is_question(tokens, words)
    else:
        asks = act is not None and _is_imperative(tokens, place, words)
    if act is None or not asks:
        return None
    if act == "helps":
        return _object_of_help(tokens, place, words)
    if act == "replies":
        return _kind_answered(tokens, place + 1, tokens[place], words)
    return _object(tokens, place, words, ACTS[act]) or ("other" if act == "verbs" else None)


def _is_question(tokens: list[str], words: Words) -> bool:
    """Whether a sentence begins with a question word ("how"), apart from fillers and punctuation.

    Only its first six tokens are looked at.
    """
    opening = [token for token in tokens[:6] if token not in _STARTS and not words.has("fillers", token)]
    return bool(opening) and words.has("questions", opening[0])


def _is_imperative(tokens: list[str], place: int, words: Words) -> bool:
    """Whether the verb at this place is an order or a wish to somebody: "write", "can you write", "help me write".

    Not in a question ("how do I write"), nor with a negation among the three words before it.
    """
    if _is_question(tokens[: place + 1], words) or any(
        words.has("negations", one) for one in tokens[max(0, place - 3) : place]
    ):
        return False
    at = place - 1
    while at >= 0 and (words.has("fillers", tokens[at]) or (tokens[at].endswith("ly") and len(tokens[at]) > 4)):
        at -= 1
    if at < 0 or tokens[at] in _STARTS or tokens[at].isdigit():
        return True
    before = tokens[at - 1] if at else ""
    return _introduces_imperative(tokens[at], before, tokens[max(0, at - 4) : at], words)


def _introduces_imperative(last: str, before: str, left: list[str], words: Words) -> bool:
    """Whether the word `last`, which stands right before a verb, makes the verb an order or a wish to somebody.

    `before`: the word before `last`, empty if there is none. `left`: at most four words before `last`.
    """
    if last == "you":
        return not words.has("before_you", before)
    if last == "to":
        return words.has("before_to", before) and not any(words.has("ways", one) for one in left)
    if words.has("for_whom", last):
        return words.has("helps", before)
    if words.has("you_forms", last):
        return words.has("persons", before)
    return words.has("before_verb", last)


def _author_wants(tokens: list[str], place: int, words: Words) -> bool:
    """Whether the subject of the verb at this place ("need", "want") is the message's author.

    A verb without a subject ("Need a letter") counts; one in a question does not.
    """
    if _is_question(tokens, words):
        return False
    left = [token for token in tokens[max(0, place - 3) : place] if not words.has("fillers", token)]
    if left and left[-1] in ("would", "will"):
        left = left[:-1]
    return not left or left[-1] in ("i", "i'd", "we", "we'd") or left[-1] in _STARTS


# ---------------------------------------------------------------- the object of a verb


def _object(tokens: list[str], verb: int, words: Words, article_rule: str = "") -> Found:
    """The first kind of writing after the verb, as an Asked; EXISTING_TEXT or "other" if something else stands first.

    EXISTING_TEXT is for a text that is there already ("this email"), "other" for anything else and for no kind within
    LONGEST_GAP words. None if the object does not begin as `article_rule` demands: `number` for "a" or a number, `new`
    for neither "my" nor "the". `verb`: the verb's place.
    """
    at = _after_persons(tokens, verb + 1, words)
    if at >= len(tokens) or not _may_begin(tokens[at], words, article_rule):
        return None
    stop = min(len(tokens), at + LONGEST_GAP)
    while at < stop:
        token = tokens[at]
        if (kind := _kind_at(tokens, at, words)) and (found := _named_piece(tokens, verb, at, kind, words)):
            return found
        if words.has("given", token):
            return EXISTING_TEXT
        rule = f"{tokens[verb]} … {token}"
        if words.has("answers", token) and (found := _kind_answered(tokens, at + 1, rule, words)):
            return found
        if words.has("portions", token) and tokens[at + 1 : at + 2] == ["of"]:
            at += 2
        elif tokens[at + 1 : at + 3] in (["to", "read"], ["to", "understand"], ["to", "follow"]):
            at += 3
        elif token in _ENDS or words.has("breakers", token):
            return "other"
        else:
            at += max(1, kind[1] if kind else 1)
    return "other"


def _after_persons(tokens: list[str], at: int, words: Words) -> int:
    """The first place from `at` on that is not a word for the recipient: "me", "for us".

    The number of tokens if there is none.
    """
    while at < len(tokens):
        if words.has("indirect", tokens[at]):
            at += 1
        elif tokens[at] in ("for", "to") and any(words.has("for_whom", one) for one in tokens[at + 1 : at + 2]):
            at += 2
        else:
            return at
    return at


def _may_begin(token: str, words: Words, article_rule: str) -> bool:
    """Whether the object of a verb may begin with this token.

    `article_rule`: "number" demands "a" or a number, "new" demands neither "my" nor "the", "" demands nothing.
    """
    if article_rule == "number":
        return words.has("numbers", token) or token[:1].isdigit()
    return not (article_rule == "new" and (words.has("owners", token) or words.has("given", token)))


def _kind_at(tokens: list[str], at: int, words: Words) -> tuple[str, int] | None:
    """(kind of writing, number of words of its name), of the longest name that begins at `at`; None if none does."""
    for length in range(min(words.longest, len(tokens) - at), 0, -1):
        if kind := words.kinds.get(tuple(tokens[at : at + length])):
            return kind, length
    return None


def _named_piece(tokens: list[str], verb: int, at: int, kind: tuple[str, int], words: Words) -> Found:
    """The writing asked for, if the name of a kind at `at` means a whole piece; "other" if it is to be a program.

    None if the name means something else: a part of another name (invitation email), a letter of the alphabet. `kind`:
    as by `_kind_at`. `verb`: place of the verb.
    """
    name, length = kind
    after = at + length
    means_something_else = (
        any(words.excludes(name, token) for token in tokens[at - 1 : at])
        or any(words.has("not_after", token) or token.isdigit() for token in tokens[after : after + 1])
        or _kind_at(tokens, after, words)  # an invitation email
        or tokens[after : after + 3] == ["of", "the", "alphabet"]
    )
    if means_something_else:
        return None
    near = pairwise(tokens[after : after + 4])
    if any(words.has("by_means", token) and words.has("code", following) for token, following in near):
        return "other"
    return Asked(name, f"{tokens[verb]} … {' '.join(tokens[at:after])}")


def _object_of_help(tokens: list[str], place: int, words: Words) -> Found:
    """The writing asked for by "help me with a letter"; None if there is none. `place`: of "help"."""
    at = place + 1
    while at < len(tokens) and words.has("for_whom", tokens[at]):
        at += 1
    if at < len(tokens) and tokens[at] in ("with", "on"):
        found = _object(tokens, at, words, article_rule="number")
        return Asked(found.kind, f"{tokens[place]} {found.rule}") if isinstance(found, Asked) else None
    return None


def _kind_answered(tokens: list[str], at: int, rule: str, words: Words) -> Asked | None:
    """The kind of the e-mail or letter that a reply is asked for, as an Asked; None without one in the next 8 tokens.

    `at`: the place where the search begins; it ends with the clause. `rule`: the words that asked for the reply.
    """
    for place in range(at, min(at + 8, len(tokens))):
        kind = _kind_at(tokens, place, words)
        if kind and kind[0] in ("email", "letter"):
            after = place + kind[1]
            if not any(words.has("not_after", token) for token in tokens[after : after + 1]):
                return Asked(kind[0], f"{rule} … {tokens[place]}")
        if tokens[place] in _ENDS:
            break
    return None


def _name_alone(tokens: list[str], words: Words) -> Asked | None:
    """The writing that a sentence asks for only by its name: "Cover letter for a nurse"; None for other sentences.

    The name must begin within the first five tokens after fillers, without a word of the lists NOT_IN_NAMES before it,
    and a word like "for" must follow. None, too, for a question, or if the name or what follows means something else.
    """
    at = 0
    while at < len(tokens) and (words.has("fillers", tokens[at]) or tokens[at] in _STARTS):
        at += 1
    for place in range(at, min(at + 5, len(tokens))):
        if kind := _kind_at(tokens, place, words):
            after = place + kind[1]
            fits = (
                any(words.has("alone", token) for token in tokens[after : after + 1])
                and not words.excludes(kind[0], tokens[place - 1])
                and not any(words.has("not_alone", token) for token in tokens[after : after + 5])
                and tokens[-1] != "?"
            )
            return Asked(kind[0], " ".join(tokens[place : after + 1])) if fits else None
        if any(words.has(name, tokens[place]) for name in NOT_IN_NAMES):
            return None
    return None
