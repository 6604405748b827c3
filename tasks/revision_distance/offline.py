"""The offline model's rules for Revision Distance: it checks requests, writes drafts, lists edits and rates drafts.

Drafts are made of the request's own words or of sentences of the cited papers, in fixed sentence templates: they state
no facts of their own. With low effort about half is left out. Edits are made by tasks.text.revision_edits (to a
reference) and tasks.revision_distance.offline_editor (without one). A rating compares words, never meaning. A rule gets
the prompt's inputs, bytes to draw from (`random_bytes`) and the most characters of its reply (`max_characters`); see
longform.llm.offline.Rule.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, islice
from typing import NamedTuple

from longform.llm.offline import PromptInputs, Rule
from tasks.revision_distance.offline_editor import ASKED_CHARACTERS, NO_SUBJECT, WORD, asks_for, edit, keywords
from tasks.text.prose import COMMON, READ_CHARACTERS, balanced, sentences

MAX_POINTS = 8
POINT_CHARACTERS = 240
SENTENCE_CHARACTERS = (30, 350)
SHARED_IN_A_GROUP = 2
MAX_COMPARED = 200
NEAR_REPEAT = 0.8
SEGMENT_SENTENCES = 3
REFERENCE_WEIGHT = 0.7
END_MARK_CHARACTERS = 6

_TOKEN = re.compile(r"\w+")
_BLANKS = re.compile(r"\s+")


def _check_request(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """The verdict on a message ("yes" or "no") and the kind of writing it asks for, in tags."""
    return "<verdict>{}</verdict>\n<kind>{}</kind>".format(*asks_for(inputs.one("Message")))


# a piece of writing from a request's own words

_LEAD = re.compile(
    r"\A\W{0,10}"
    r"(?:(?:please|can you|could you|i (?:need|want|would like)(?: you)?(?: to)?|help me(?: to)?)\W{1,3}){0,3}"
    r"(?:write|draft|compose|create|generate|prepare|craft|produce|pen|make|type)?\W{0,3}"
    r"(?:(?:me|us|for me)\W{1,3})?(?:(?:an?|the|my|some)\W{1,3})?"
    r"(?:[\w-]{1,20}\W{1,3}){0,4}?"
    r"(?:e-?mails?|mails?|letters?|articles?|blog ?posts?|essays?|press releases?|columns?|text|reply)\b",
    re.IGNORECASE,
)
_TO = re.compile(r"\b(?:e-?mails?|mails?|letters?)\b[^.!?\n]{0,30}?\bto (?:my|our|the|a|an) ([a-z]{3,20})\b")
_ABOUT = re.compile(r"\b(?:about|regarding|concerning|on the (?:subject|topic) of|titled|called)\b[\s:]{1,3}", re.I)
_CUT = re.compile(r"(?<=[.!?;])\s+|\n+|,\s+(?:and|but|then)\s+")
_SUBJECT_END = re.compile(r"\s+(?:and|asking|that|who|which|so|where|because|to)\s|[,;:(]")
_JOINED = re.compile(r"\A[\s,;:(]*(?:and|but|then)?\s*", re.IGNORECASE)
_ASK = re.compile(
    r"\A(?:please )?ask(?:ing)? (?:him|her|them|you|for them|the \w+|my \w+)(?: please)? to ", re.IGNORECASE
)
_SAY = re.compile(
    r"\A(?:please )?(?:also )?(?:mention|say|explain|tell \w+|note|state|add|include|talk|speak|write)?(?:ing)?\s?"
    r"(?:that|about|of|on)?\s",
    re.IGNORECASE,
)
_MANNER = re.compile(
    r"\b(?:tone|polite\w{0,2}|formal|informal|friendly|professional|words?|paragraphs?|sentences|concise|keep it"
    r"|make it|short|style)\b",
    re.IGNORECASE,
)
_LIST_MARK = re.compile(r"\A\s*(?:[-*•]|\d{1,2}[.)])\s+")


class Frames(NamedTuple):
    """Sentence templates for a kind of text. Each point of the request is put into one of `points`, in turn.

    Of `opening`, `details` and `closing` one template each is drawn. `greeting` and `end` may be "". Fields of
    templates are {reader}, {subject}, {point}, and {a} and {b}, two keywords of the request.
    """

    greeting: str
    opening: tuple[str, ...]
    points: tuple[str, ...]
    details: tuple[str, ...]
    closing: tuple[str, ...]
    end: str


_TO_SOMEBODY = Frames(
    greeting="Dear {reader},",
    opening=(
        "I am writing to you about {subject}.",
        "I would like to turn to you about {subject}.",
        "This message is about {subject}.",
    ),
    points=(
        "What I have to say is this: {point}.",
        "In my own words: {point}.",
        "The matter stands as follows: {point}.",
        "To this I would like to add: {point}.",
        "One more point belongs here: {point}.",
    ),
    details=(
        "I would be glad to talk about {a}, and about what it means for {b}.",
        "For me {a} comes first here, and {b} after it.",
        "Please tell me if anything about {a} or {b} is not clear.",
    ),
    closing=(
        "Thank you for taking the time to read this.",
        "I look forward to hearing from you.",
        "Thank you for your help, and please write back when it suits you.",
    ),
    end="Kind regards",
)
_FOR_READERS = Frames(
    greeting="",
    opening=(
        "This article is about {subject}.",
        "The subject of the following lines is {subject}.",
        "What is there to say about {subject}? A few points may serve as a beginning.",
    ),
    points=(
        "A first thing to look at is this: {point}.",
        "It also belongs to the subject: {point}.",
        "Readers may ask for more than that: {point}.",
        "Another side of it is the following: {point}.",
        "Last, this should not be left out: {point}.",
    ),
    details=(
        "Whoever thinks about {a} will soon come to {b}.",
        "How {a} and {b} belong together depends on the case.",
        "It is worth asking what {a} has to do with {b}.",
    ),
    closing=(
        "All this shows at least where to begin with {subject}.",
        "Much remains to be said about {subject}, but this is its outline.",
        "How one sees {subject} is in the end for the reader to decide.",
    ),
    end="",
)


def _write(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """A text that repeats the points of the writing task in templates and adds no facts.

    It is an e-mail, a letter or, for any other kind, an article. With low effort it has only a greeting, an opening,
    the first half of the points and the end. `max_characters` is ignored.
    """
    request = inputs.one("Writing task")[:READ_CHARACTERS]
    kind = asks_for(request)[1]
    low = inputs.effort == "low"
    frames = _TO_SOMEBODY if kind in ("email", "letter") else _FOR_READERS
    subject, words = _subject(request), keywords(request) or ["this", "the rest"]
    body = [_turn(frames.points, at).format(point=point) for at, point in enumerate(_points(request))]
    opening = _turn(frames.opening, 0 if low else random_bytes[0]).format(subject=subject)
    if low:
        passage = " ".join([opening, *body[: (len(body) + 1) // 2]])
        return "\n\n".join(filter(None, [frames.greeting and "Hello,", passage, frames.end]))
    heading = {"email": "Subject: ", "letter": ""}.get(kind, "# ")
    parts = [
        heading and f"{heading}{subject[:1].upper()}{subject[1:]}",
        frames.greeting.format(reader=_reader(request)),
        opening,
        *(" ".join(body[at : at + 2]) for at in range(0, len(body), 2)),
        _turn(frames.details, random_bytes[2]).format(a=words[0], b=words[1 % len(words)]),
        _turn(frames.closing, random_bytes[3]).format(subject=subject),
        f"{frames.end}," if frames.end else "",
    ]
    return "\n\n".join(filter(None, parts))


def _reader(request: str) -> str:
    """Whom the requested letter is for ("landlord"), as a word of the request; "reader" if it does not say."""
    found = _TO.search(request[:ASKED_CHARACTERS])
    return found[1] if found and found[1] not in NO_SUBJECT and found[1] not in COMMON else "reader"


def _subject(request: str) -> str:
    """The subject of a request: at most ten words after "about" or the like, up to the end of the clause.

    If there are none, or no such word in the first ASKED_CHARACTERS characters, the request's first two keywords;
    "what was asked" without keywords.
    """
    found = _ABOUT.search(request[:ASKED_CHARACTERS])
    rest = _CUT.split(request[found.end() : found.end() + 2 * POINT_CHARACTERS], maxsplit=1)[0] if found else ""
    words = _SUBJECT_END.split(rest, maxsplit=1)[0].strip(" \"'.,;:!?").split()[:10]
    return _plain(" ".join(words)) or " and ".join(keywords(request)[:2]) or "what was asked"


def _points(request: str) -> list[str]:
    """What a request says besides its subject and the manner of writing, cut into points.

    At most MAX_POINTS, each once, each of two words or more and at most POINT_CHARACTERS characters. If there are none,
    one point that joins the request's first three keywords, or a fixed phrase if there are none of these either.
    """
    found = []
    for piece in _CUT.split(request)[: 4 * MAX_POINTS]:
        bare = _SAY.sub("", _ASK.sub("please ", _beyond_subject(_LIST_MARK.sub("", piece))))
        point = _plain(" ".join(bare.split())[:POINT_CHARACTERS]).strip(" \"'.,;:!?-")
        if len(WORD.findall(point)) >= 2 and not _MANNER.search(point):
            found.append(point[:1].lower() + point[1:] if point[1:2].islower() else point)
    return list(dict.fromkeys(found))[:MAX_POINTS] or [" and ".join(keywords(request)[:3]) or "this is all for now"]


def _beyond_subject(piece: str) -> str:
    """What a sentence that asks for the text says after its subject, "" if nothing; any other sentence unchanged."""
    if not (lead := _LEAD.match(piece)):
        return piece.strip()
    rest = piece[lead.end() :]
    if about := _ABOUT.search(rest):
        end = _SUBJECT_END.search(rest, about.end())
        rest = rest[end.start() :] if end else ""
    return _JOINED.sub("", rest)


def _plain(text: str) -> str:
    """The text without characters of markup, of placeholders and of template fields."""
    return re.sub(r"[\[\]{}<>*`#|\\]", "", text).strip()


def _turn(frames: Sequence[str], draw: int) -> str:
    """The template number `draw`, counted from 0; after the last one the first follows again."""
    return frames[draw % len(frames)]


# related work


class Paper(NamedTuple):
    """A paper as given in a prompt.

    `sentences`: those of its abstract that can be quoted; `words`: those of title and abstract, as `_words` returns
    them.
    """

    title: str
    sentences: list[str]
    words: frozenset[str]


_QUOTES = (
    'Of "{title}" it is said: {sentence}',
    'In "{title}" one reads: {sentence}',
    '"{title}" puts it this way: {sentence}',
)
_TITLE_ALONE = 'Of "{title}" only the title is known here.'
_NAMED = '"{title}" belongs here, too.'
_OWN = 'The present paper, "{title}", is set beside these works here.'
_NO_PAPERS = "No cited paper was given, so there is nothing to relate."


def paper(text: str) -> Paper:
    """The Paper of a text: the title, a line break, and the abstract, which may be missing.

    At most READ_CHARACTERS of the text and 300 of the title are read; double quotes in the title become single ones.
    """
    title, _, abstract = text[:READ_CHARACTERS].strip().partition("\n")
    return Paper(" ".join(title.split())[:300].replace('"', "'"), _quotable(abstract), _words(text[:READ_CHARACTERS]))


def _quotable(text: str) -> list[str]:
    """The sentences of a text that can stand alone, each on one line and once.

    Only those of 30 to 350 characters that do not end in a question mark, colon or comma, and in which brackets, code
    and emphasis are closed.
    """
    least, most = SENTENCE_CHARACTERS
    found = dict.fromkeys(" ".join(text[start:end].split()) for start, end in sentences(text))
    return [each for each in found if least <= len(each) <= most and each[-1] not in "?:," and balanced(each)]


def _words(text: str) -> frozenset[str]:
    """The set of words of a text in lower case, without common ones and those of fewer than four letters."""
    return frozenset(word for word in map(str.lower, WORD.findall(text)) if len(word) > 3 and word not in COMMON)


def _nearest(among: list[str], wanted: frozenset[str]) -> list[str]:
    """The sentences in `among`: first those that share most words with `wanted`, equal ones in their order."""
    return sorted(among, key=lambda sentence: -len(wanted & _words(sentence)))


def _related_vanilla(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """A quoted sentence of each cited paper, in their order, as far as they fit into `max_characters`.

    A paper without a sentence that can be quoted is named by its title alone, with low effort also every second paper.
    A fixed sentence if no paper is given or none fits.
    """
    own = paper(inputs.one("Own paper"))
    papers = [paper(text) for _, text in inputs.numbered("Cited paper")]
    quotes = [_quote(each, own.words, at + random_bytes[0]) for at, each in enumerate(papers)]
    if inputs.effort == "low":
        quotes[1::2] = [_NAMED.format(title=each.title) for each in papers[1::2]]
    return _fitting(quotes, max_characters) or _NO_PAPERS


def _quote(cited: Paper, wanted: frozenset[str], draw: int, rank: int = 0) -> str:
    """A sentence that quotes a cited paper, or names its title alone if none of its sentences can be quoted.

    Quoted is the sentence that shares most words with `wanted`; with `rank` 1 the next one, if there is one. `draw`
    chooses the template.
    """
    among = _nearest(cited.sentences, wanted)
    frame = _turn(_QUOTES, draw) if among else _TITLE_ALONE
    return frame.format(title=cited.title, sentence=among[min(rank, len(among) - 1)] if among else "")


_GENERAL = (
    "Work on {a} is often told apart by how it treats {b}.",
    "The terms {a} and {b} are not used in the same way everywhere.",
    "One may ask of each approach to {b} what it takes for granted about {c}.",
    "Approaches to {a} can be ordered by time, by method, or by the problem that they set out from.",
    "Results on {c} are hard to compare where data and measures differ.",
    "None of this was looked up: it is what can be said of {a} in general.",
)


def _recall(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """General sentences about three words of the subject, which state no facts. `max_characters` is ignored.

    The words are keywords of the subject's title, then words that at least two of the texts (the subject and the cited
    papers) share, then fixed phrases ("this subject").
    """
    subject = paper(inputs.one("Subject"))
    near = _shared_by_most([subject.words, *(paper(text).words for _, text in inputs.numbered("Cited paper"))])
    own = [word for word in keywords(subject.title) if word.lower() in subject.words]
    a, b, c = ([*dict.fromkeys([*own, *near]), "this subject", "its methods", "its data"])[:3]
    first = random_bytes[0] % 2
    return " ".join(frame.format(a=a, b=b, c=c) for frame in _GENERAL[first:])


def _shared_by_most(texts: list[frozenset[str]]) -> list[str]:
    """The words that at least two of the texts have: those of most texts first, equal ones in alphabetical order."""
    counts = Counter(word for words in texts for word in words)
    return sorted((word for word, count in counts.items() if count > 1), key=lambda word: (-counts[word], word))


def _segment(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """A segment: an opening, quotations of the cited papers nearest to the perspective, a sentence of the knowledge.

    At most SEGMENT_SENTENCES papers are quoted, with low effort two. `max_characters` is ignored.
    """
    own, perspective = paper(inputs.one("Own paper")), inputs.one("Perspective")[:READ_CHARACTERS]
    papers = [paper(text) for _, text in inputs.numbered("Cited paper")]
    wanted = _words(perspective) or own.words
    ranked = sorted(enumerate(papers), key=lambda each: (-len(wanted & each[1].words), -len(own.words & each[1].words)))
    nearest = sorted(ranked[: 2 if inputs.effort == "low" else SEGMENT_SENTENCES], key=lambda each: each[0])
    quotes = [_quote(cited, wanted | own.words, at + random_bytes[0]) for at, cited in nearest]
    known = _nearest(_quotable(inputs.one("Knowledge")[:READ_CHARACTERS]), wanted)[:1]
    named = " ".join(perspective.partition(":")[0].split())[:80].rstrip(".").lower() or "the whole"
    return " ".join([f"Seen from the side of {named}, this can be said.", *quotes, *known])


_GROUP = (
    "Several of these works have to do with {words}.",
    "Another group of works shares the words {words}.",
    "Close to each other are also the works on {words}.",
)
_ALONE = ("Apart from these stands another work.", "On its own stands one more work.")
_TURNS = ("", "Likewise, ", "Next to it, ", "In the same line, ")


def _related_cot(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """The paragraph of related work, the last step of the chain of thought: quotations of the cited papers, in groups
    that share words, each group introduced; then at most four sentences of the segments (what earlier replies said
    from several perspectives).

    It ends with a sentence on the own paper; what comes before is cut to fit into `max_characters`. With low effort
    the papers of a group after the first are only named, and segments are not read. A fixed sentence if no paper is
    given.
    """
    own = paper(inputs.one("Own paper"))
    papers = [paper(text) for _, text in inputs.numbered("Cited paper")]
    low = inputs.effort == "low"
    if not papers:
        return _NO_PAPERS
    text: list[str] = []
    for at, group in enumerate(_groups(papers)):
        text.append(_group_sentence(group, papers, at))
        quotes = [_quote(papers[each], own.words, random_bytes[1] + place, 1) for place, each in enumerate(group)]
        if low:
            quotes[1:] = [_NAMED.format(title=papers[each].title) for each in group[1:]]
        text += [_turned(sentence, place) for place, sentence in enumerate(quotes)]
    if not low:
        segments = (text[:READ_CHARACTERS] for _, text in inputs.numbered("Segment"))
        text += _added(text, (sentence for segment in segments for sentence in _quotable(segment)))
    ending = _OWN.format(title=own.title)
    return f"{_fitting(text, max_characters - len(ending) - 1)} {ending}"


def _groups(papers: list[Paper]) -> list[list[int]]:
    """The positions of the papers, in groups of papers that share words, the largest group first.

    A paper joins the first group (of the first MAX_COMPARED) whose first paper shares enough words with it; else it
    begins a group.
    """
    groups: dict[int, list[int]] = {}
    for at, each in enumerate(papers):
        first = next((first for first in islice(groups, MAX_COMPARED) if _near(papers[first], each)), at)
        groups.setdefault(first, []).append(at)
    return sorted(groups.values(), key=lambda group: (-len(group), group[0]))


def _near(one: Paper, other: Paper) -> bool:
    """Whether two papers share enough words to be in one group.

    At least SHARED_IN_A_GROUP, and an eighth of the words of the paper that has fewer.
    """
    least = max(SHARED_IN_A_GROUP, min(len(one.words), len(other.words)) // 8)
    return len(one.words & other.words) >= least


def _group_sentence(group: list[int], papers: list[Paper], at: int) -> str:
    """The sentence before a group's quotations: that one work stands alone, or two words that its papers share.

    They are the words that the most of these papers have, at least two. `group`: positions in `papers`. `at`: the
    group's number from 0, which chooses the template.
    """
    if len(group) == 1:
        return _turn(_ALONE, at)
    shared = _shared_by_most([papers[each].words for each in group])[:2]
    return _GROUP[min(at, len(_GROUP) - 1)].format(words=" and ".join(shared))


def _turned(sentence: str, place: int) -> str:
    """A sentence with a connecting phrase in front ("Likewise, "); for `place` 0, 4, 8 and so on unchanged.

    `place`: the position of the sentence in its group.
    """
    turn = _turn(_TURNS, place)  # none for the first
    return f"{turn}{sentence[0].lower()}{sentence[1:]}" if turn else sentence


def _added(text: list[str], others: Iterable[str]) -> list[str]:
    """At most four of `others`, none of which nearly repeats one of them or one of the last sentences of `text`.

    MAX_COMPARED sentences of the text are compared.
    """
    words = [_words(sentence) for sentence in text][-MAX_COMPARED:]
    added: list[str] = []
    for sentence, own in ((sentence, _words(sentence)) for sentence in others):
        if len(added) < 4 and own and all(len(own & other) < NEAR_REPEAT * len(own) for other in words):
            words.append(own)
            added.append(sentence)
    return added


def _fitting(text: list[str], max_characters: int) -> str:
    """The first sentences of a text, joined by blanks, that fit into `max_characters` with the end mark; may be ""."""
    lengths = accumulate(len(sentence) + 1 for sentence in text)
    return " ".join(text[: sum(length <= max_characters - END_MARK_CHARACTERS for length in lengths)])


# edits


def _edit_to_reference(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """The edits that turn the draft into the reference, as JSON. `max_characters` is ignored."""
    from tasks.text.revision_edits import revise

    return edits_as_json(revise(inputs.one("Draft"), inputs.one("Reference")))


def _edit_freely(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """The edits of a draft without a reference, as JSON. `max_characters` is ignored."""
    return edits_as_json(edit(inputs.one("Draft"), inputs.one("Request")))


def edits_as_json(edits: Sequence[dict[str, str | None]]) -> str:
    """The JSON object {"edits": …} on one line; `<` is escaped, so that nothing in it can be taken for a tag."""
    return json.dumps({"edits": edits}, ensure_ascii=False).replace("<", "\\u003c")


# a rating


def _rate(inputs: PromptInputs, random_bytes: bytes, max_characters: int) -> str:
    """The rating of the draft, 0 to 100, in a tag. Of each text READ_CHARACTERS are read."""
    texts = (inputs.one(label)[:READ_CHARACTERS] for label in ("Draft", "Reference", "Request"))
    return f"<score>{rating(*texts)}</score>"


def rating(draft: str, reference: str, request: str) -> int:
    """A rating of 0 to 100; 100 only for a draft that equals its reference, apart from white space.

    It is mostly the share of words that draft and reference have in common (Dice), and for 30 percent the share of the
    request's keywords that the draft has; for a request without keywords only the former. Letter case is ignored.
    """
    if _BLANKS.sub(" ", draft).strip() == _BLANKS.sub(" ", reference).strip():
        return 100
    present, wanted = ({*_TOKEN.findall(text.lower())} for text in (draft, reference))
    near = 2 * len(present & wanted) / (len(present) + len(wanted)) if present or wanted else 0.0
    asked = {word.lower() for word in keywords(request)}
    taken = len(asked.intersection([*present, *WORD.findall(draft.lower())])) / len(asked) if asked else near
    return min(99, round(100 * (REFERENCE_WEIGHT * near + (1 - REFERENCE_WEIGHT) * taken)))


_CITED = {"Cited paper"}
_BOTH = {"Own paper", *_CITED}

RULES = {
    "revision_distance/check_request": Rule(_check_request, {"Message"}),
    "revision_distance/write": Rule(_write, {"Writing task"}),
    "revision_distance/related_vanilla": Rule(_related_vanilla, _BOTH, _CITED),
    "revision_distance/recall": Rule(_recall, {"Subject", *_CITED}, _CITED),
    "revision_distance/segment": Rule(_segment, {*_BOTH, "Knowledge", "Perspective"}, _CITED),
    "revision_distance/related_cot": Rule(_related_cot, {*_BOTH, "Knowledge", "Segment"}, _CITED),
    "revision_distance/edit_to_reference": Rule(_edit_to_reference, {"Draft", "Reference"}, gives_object=True),
    "revision_distance/edit_freely": Rule(_edit_freely, {"Request", "Draft"}, gives_object=True),
    "revision_distance/rate": Rule(_rate, {"Request", "Reference", "Draft"}),
}
