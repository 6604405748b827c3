"""Rules of the offline model for KIWI: answers of sentences from passages, revisions and ratings by what texts share.

The rules know no subject. They quote sentences, move and drop them, and compare texts sentence by sentence, so a rating
tells an ignored instruction, a lost sentence and a missed length from a revision that does what was asked.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice

from longform.llm.offline import PromptInputs, Rule
from tasks.text.prose import COMMON, paragraphs_joined, sentences_by_paragraph

MOST_SENTENCES = 6  # of an answer or a summary
SHORTER = 0.7  # of the length, up to which a text is a shortened one
LONG = 110  # words from which a reader asks for a shorter answer

_WORD = re.compile(r"[^\W\d_]{3,}|\d+(?:[.,]\d+)*")
_REFERENCES = re.compile(r"\s?\[\d{1,3}\]")
_QUOTED = re.compile(r"[“\"]([^”\"]{8,400})[”\"]")
_MARKS = re.compile(r"\[(\d{1,3})\]")
_ASKS = frozenset(
    re.findall(
        r"\w+",
        "add give say what which more also include explain example answer text sentence paragraph please instruction "
        "document paper tell information known work like remov shorten begin",
    )
)
KINDS = {
    "condense": r"shorten|condens|summari[sz]|sum up|brief|concise|cut (?:this|it|the)|half|at most \d+ (?:words|sent)",
    "reorganize": r"reorgani[sz]|re-?order|move|put .* (?:first|last|end|beginning|before|after)|group|split|\blist\b"
    r"|order by",
    "remove": r"remove|delete|drop|leave out|take out|omit|without the",
    "specific edit": r"[“\"]|replace|change .* to|begin with|insert|rename|correct",
    "clarification": r"clarif|what (?:is|are) meant|what does .* mean|do all|does it|is it|are they|define"
    r"|explain the term",
    "expand coverage": r"other|further|additional|another|more (?:methods|ways|approaches|kinds|reasons)|also cover"
    r"|all of the",
    "more information": r"example|result|figure|how (?:much|many|well|long|often)|cost|limit|detail|more|add|give|say"
    r"|explain|which",
}  # category -> words of its instructions; the first counts
WRONG = {
    "unrequested change": r"lost|gone|also changed|changed .* too|removed .* too|did not ask|not asked|unasked"
    r"|unrequested|as well",
    "ignored": r"ignor|same as before|unchanged|nothing|not (?:done|follow|added|remov|there)|still there|did not",
    "constraint failure": r"\b(?:too (?:long|short)|words|sentences?|half|length|place|beginning|number|limit)\b"
    r"|instead of",
    "poor integration": r"tack|integrat|flow|twice|repeat|abrupt|fit|wrong place|incoher|disconnect|at the end of",
}  # error -> words of comments; the first counts


@lru_cache(maxsize=8_192)
def _words(text: str) -> frozenset[str]:
    """The words and numbers of a text in lower case, without common ones and endings."""
    found = (word.lower() for word in _WORD.findall(_REFERENCES.sub(" ", text)))
    return frozenset(re.sub(r"(?:ies|ing|ed|es|s|y)\Z", "", word) or word for word in found if word not in COMMON)


def _quotes(
    wanted: frozenset[str], documents: list[tuple[str, str]], most: int, known: frozenset[str] = frozenset()
) -> str:
    """The `most` sentences of (number, text) documents nearest to `wanted` and not in `known`, with their numbers."""
    found = []
    for place, (number, text) in enumerate(documents):
        for part in sentences_by_paragraph(text):
            for at, sentence in enumerate(part):
                own = _words(sentence)
                shared = len(own & wanted)
                if shared and len(own) >= 4 and len(own & known) < 0.8 * len(own):
                    found.append((-shared / len(own) ** 0.3, place, at, f"{sentence.rstrip('.')} [{number}]."))
    best = sorted(islice(sorted(found), most), key=lambda each: each[1:3])
    return " ".join(dict.fromkeys(each[3] for each in best))


def _numbered(given: PromptInputs) -> list[tuple[str, str]]:
    """(number, text) of the documents of a prompt."""
    numbers = [text for label, text in given.texts if label == "Number of the document"]
    texts = [text for label, text in given.texts if label == "Text of the document"]
    return list(zip(numbers, texts, strict=True)) or [(str(n), text) for n, text in given.numbered("Document")]


# ---------------------------------------------------------------- questions


def _propose(given: PromptInputs, random: bytes, fits: int) -> str:
    """Five questions on what the sentences of a paragraph speak of; one in about five leans on the paper."""
    told = [sentence for part in sentences_by_paragraph(given.one("Paragraph")) for sentence in part]
    forms = ("How can {0} be told from {1} where {2} matters?", "What is known of {0}, {1} and {2}?",
             "In which ways do {0} and {1} depend on {2}?", "How well does {0} work beside {1} for {2}?")  # fmt: skip
    questions = []
    for place in range(5):
        sentence = told[place % len(told)] if told else given.one("Paragraph")
        nouns = [word.lower() for word in _WORD.findall(_REFERENCES.sub("", sentence)) if word.lower() not in COMMON]
        nouns = sorted(dict.fromkeys(nouns), key=lambda word: (-len(word), word))[:6]
        picked = [nouns[(place + step) % len(nouns)] for step in range(3)] if nouns else ["this", "that", "it"]
        question = forms[random[place] % len(forms)].format(*picked)
        anchored = random[place + 5] < 51
        questions.append(question.replace("?", " in this paper?") if anchored else question)
    return "\n".join(f"{n}. {question}" for n, question in enumerate(questions, start=1))[:fits]


def _answerable(given: PromptInputs, random: bytes, fits: int) -> str:
    """yes if the paragraph has most words of the question, partially if it has some."""
    asked = _words(given.one("Question"))
    share = len(asked & _words(given.one("Paragraph"))) / max(1, len(asked))
    return _reply({"verdict": "yes" if share >= 0.5 else "partially" if share >= 0.3 else "no"})


# ---------------------------------------------------------------- answers


def _answer(given: PromptInputs, random: bytes, fits: int) -> str:
    """Sentences of the documents that share most with the question."""
    found = _quotes(_words(given.one("Question")), _numbered(given), MOST_SENTENCES)
    return found[:fits] or "The documents do not say anything of this."


def _summarise(given: PromptInputs, random: bytes, fits: int) -> str:
    """Sentences of the documents that share most with the instruction and are not in the answer yet."""
    wanted = _words(given.one("Instruction")) - _ASKS
    found = _quotes(wanted, _numbered(given), 3, _words(given.one("Previous answer")))
    return found[:fits] or "No document says anything of it."


def _inform(given: PromptInputs, random: bytes, fits: int) -> str:
    """The previous answer with the summary behind the paragraph that shares most with the instruction."""
    parts = [list(part) for part in sentences_by_paragraph(given.one("Previous answer"))]
    summary, wanted = given.one("Information"), _words(given.one("Instruction"))
    if not _MARKS.search(summary):
        words = [word for word in _WORD.findall(given.one("Instruction")) if _words(word) - _ASKS]
        summary = f"Of {' '.join(words[:4]) or 'this'} the documents say nothing more."
    best = max(range(len(parts)), key=lambda at: (len(_words(" ".join(parts[at])) & wanted), at), default=0)
    parts[best:best] = [] if parts else [[]]
    parts[best].append(summary)
    return paragraphs_joined(parts)[:fits]


def _restyle(given: PromptInputs, random: bytes, fits: int) -> str:
    """The previous answer, changed as the kind of instruction says."""
    return _changed(given.one("Previous answer"), given.one("Instruction"))[:fits]


def _changed(answer: str, instruction: str) -> str:
    """An answer after a stylistic instruction."""
    parts, kind = [list(part) for part in sentences_by_paragraph(answer)], kind_of(instruction)
    flat = [(at, place) for at, part in enumerate(parts) for place in range(len(part))]
    quoted = _QUOTED.search(instruction)
    if kind == "specific edit" and quoted:
        first = re.search(r"begin|start|first", instruction, re.I)
        parts[0].insert(0, quoted[1]) if first else parts[-1].append(quoted[1])
    elif kind == "condense":
        kept = max(1, len(flat) // 2)
        left = {place: sum(1 for _ in _MARKS.findall(parts[place[0]][place[1]])) for place in flat}
        chosen = set(sorted(flat, key=lambda place: (-left[place], place))[:kept])
        parts = [[text for place, text in enumerate(part) if (at, place) in chosen] for at, part in enumerate(parts)]
    elif kind == "remove" and len(flat) > 1:
        at, place = _meant(parts, instruction)
        del parts[at][place]
    elif len(flat) > 1:
        at, place = _meant(parts, instruction)
        moved = parts[at].pop(place)
        if re.search(r"\b(?:first|begin\w*|start)\b", instruction, re.I) and (at, place) != (0, 0):
            parts[0].insert(0, moved)
        elif (at, place) != flat[-1]:
            parts[-1].append(moved)
        else:
            parts[0].insert(0, moved)
    return paragraphs_joined(parts)


def _meant(parts: list[list[str]], instruction: str) -> tuple[int, int]:
    """The place (paragraph, sentence) that shares most with an instruction; the last if it says so, or of equals."""
    flat = [(at, place) for at, part in enumerate(parts) for place in range(len(part))]
    if re.search(r"\blast sentence\b", instruction, re.I):
        return flat[-1]
    wanted = _words(instruction) - _ASKS
    return max(flat, key=lambda each: (len(_words(parts[each[0]][each[1]]) & wanted), each))


# ---------------------------------------------------------------- the reader


def _instruct(given: PromptInputs, random: bytes, fits: int) -> str:
    """First a paper that the answer leaves out, then a shorter text or a sentence less; then the reader is done."""
    earlier = [text for _, text in given.numbered("Earlier instruction")]
    answer, titles = given.one("Answer"), [text for _, text in given.numbered("Paper")]
    missing = sorted(titles, key=lambda title: (len(_words(title) & _words(answer)), title))
    asked = " ".join(earlier)
    new = next((title for title in missing if title not in asked), None)
    flat = [sentence for part in sentences_by_paragraph(answer) for sentence in part]
    if len(earlier) % 2 == 0 and new:
        return _reply({"kind": "information", "instruction": f"Add what is known from work like {new}."})
    if len(answer.split()) > LONG and "Shorten" not in asked:
        return _reply({"kind": "style", "instruction": "Shorten the answer to about half of its length."})
    if len(flat) > 2 and "Remove" not in asked:
        topic = " ".join(_REFERENCES.sub("", flat[-1]).split()[:6]).rstrip(",.;:")
        return _reply({"kind": "style", "instruction": f"Remove the sentence that begins with {topic}."})
    return _reply({"kind": "done", "instruction": ""})


def verdict(before: str, instruction: str, answer: str) -> tuple[str, str]:
    """(good, neutral, bad or unsure; the reason) for a revision."""
    old = [sentence for part in sentences_by_paragraph(before) for sentence in part]
    new = [sentence for part in sentences_by_paragraph(answer) for sentence in part]
    own = {_REFERENCES.sub("", sentence).strip() for sentence in new}
    lost = [
        sentence for sentence in old if _REFERENCES.sub("", sentence).strip() not in own and not _kept(sentence, new)
    ]
    gained = [sentence for sentence in new if not _kept(sentence, old)]
    kind, ratio = kind_of(instruction), len(answer.split()) / max(1, len(before.split()))
    if not gained and not lost and (kind != "reorganize" or old == new):
        return "bad", "The answer is the same as before."
    if kind == "condense":
        if ratio <= SHORTER:
            return "good", "The answer is as short as I asked."
        return ("neutral" if ratio < 0.95 else "bad"), "The answer is still too long."
    if kind == "remove":
        wanted = _words(instruction) - _ASKS
        meant = max(old, key=lambda sentence: len(_words(sentence) & wanted), default="")
        if meant and meant in lost:
            return (
                ("good", "It was removed.")
                if len(lost) <= 2 and not gained
                else ("neutral", "Other parts are gone as well.")
            )
        return "bad", "What I wanted out is still there."
    if kind == "specific edit" and (quoted := _QUOTED.search(instruction)):
        there = quoted[1].strip(" .") in answer
        return ("good", "The words stand where I wanted them.") if there and len(lost) <= 1 else (
            ("neutral", "Other parts are gone as well.") if there else ("bad", "The words are not there.")
        )  # fmt: skip
    if kind == "reorganize":
        return ("good", "The order is as I asked.") if len(lost) <= 1 else ("neutral", "Parts were lost on the way.")
    wanted = _words(instruction) - _ASKS
    hits = len(wanted & frozenset().union(*map(_words, gained))) if gained else 0
    if len(lost) > max(1, len(old) // 4):
        return "neutral", "It was added, but other parts of the answer are gone."
    if not gained or not hits:
        return "bad", "What I asked for was not added."
    return ("good" if 2 * hits >= len(wanted) or len(gained) > 1 else "unsure"), "What I asked for was added."


def _kept(sentence: str, others: list[str]) -> bool:
    """Whether a text has a sentence with nearly the same words."""
    own = _words(sentence)
    return any(len(own & _words(other)) >= 0.8 * max(1, len(own)) for other in others)


def _rate(given: PromptInputs, random: bytes, fits: int) -> str:
    """The rating of a revision; a sentence that should have gone is taken out by the reader."""
    before, instruction, answer = (given.one(name) for name in ("Previous answer", "Instruction", "Revised answer"))
    rating, comment = verdict(before, instruction, answer)
    rating = "neutral" if rating == "unsure" else rating
    edited = (
        _changed(answer, instruction) if rating != "good" and kind_of(instruction) in ("remove", "condense") else ""
    )
    return _reply({"rating": rating, "comment": comment, "edited": edited[: max(0, fits - 200)]})


def _judge(given: PromptInputs, random: bytes, fits: int) -> str:
    """good or bad, as `verdict`; where that is unsure as the last example was rated, good without any."""
    rating, _ = verdict(*(given.one(name) for name in ("Previous answer", "Instruction", "Revised answer")))
    examples = [text for label, text in given.texts if label == "Example, rating"]
    unsure = examples[-1] if examples else "good"
    return _reply({"rating": unsure if rating == "unsure" else "good" if rating == "good" else "bad"})


# ---------------------------------------------------------------- labels


@lru_cache(maxsize=4_096)
def kind_of(instruction: str) -> str:
    """The category of an instruction, by its words."""
    return next((kind for kind, pattern in KINDS.items() if re.search(pattern, instruction, re.IGNORECASE)), "others")


def _category(given: PromptInputs, random: bytes, fits: int) -> str:
    return _reply({"category": kind_of(given.one("Instruction"))})


def _error(given: PromptInputs, random: bytes, fits: int) -> str:
    comment = given.one("Comment")
    return _reply(
        {"category": next((name for name, look in WRONG.items() if re.search(look, comment, re.I)), "others")}
    )


def _reply(fields: dict[str, str]) -> str:
    return "\n".join(f"<{name}>{value}</{name}>" for name, value in fields.items())


DOCUMENTS = frozenset({"Title of document", "Document"})
NUMBERED = frozenset({"Number of the document", "Title of the document", "Text of the document"})
ASKED = frozenset({"Question", "Previous answer", "Instruction"})
EXAMPLES = frozenset(
    f"Example, {name}" for name in ("question", "previous answer", "instruction", "revised answer", "rating")
)
RULES = {
    "kiwi/propose_questions": Rule(_propose, frozenset({"Title of the paper", "Paragraph"})),
    "kiwi/check_answerable": Rule(_answerable, frozenset({"Question", "Paragraph"})),
    "kiwi/answer": Rule(_answer, DOCUMENTS | {"Question"}),
    "kiwi/summarise": Rule(_summarise, NUMBERED | ASKED),
    "kiwi/update_information": Rule(_inform, ASKED | {"Information"}),
    "kiwi/update_style": Rule(_restyle, ASKED),
    "kiwi/instruct": Rule(
        _instruct,
        frozenset({"Question", "Paper", "Earlier instruction", "Answer"}),
        frozenset({"Paper", "Earlier instruction"}),
    ),
    "kiwi/rate": Rule(_rate, ASKED | {"Revised answer"}),
    "kiwi/classify_instruction": Rule(_category, frozenset({"Question", "Instruction"})),
    "kiwi/classify_error": Rule(_error, frozenset({"Instruction", "Comment"})),
    "kiwi/judge": Rule(_judge, ASKED | EXAMPLES | {"Revised answer"}, EXAMPLES),
}
