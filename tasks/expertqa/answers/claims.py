"""Claims: the sentences of an answer, each with the sources it cites (ExpertQA, section 2.2).

The rules are those of the authors' code: runs of white space become one blank, spaCy splits sentences, claims of at
most 5 characters and questions are dropped, and so are chatbots' small talk and marks of the form [^1^].
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from longform.engine.at_most import unbounded
from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from schemas.expertqa import CLAIMS
from tasks.expertqa.answers.citations import (
    URL,
    caret_spans,
    citation_spans,
    cited_numbers,
    in_full,
    unseen_spans,
    urls,
)
from tasks.expertqa.answers.dangling import VERB_AFTER
from tasks.expertqa.answers.references import references
from tasks.expertqa.exact import read_exact, write_exact
from tasks.text.edit_sentences import prose_spans
from tasks.text.lists import listed_spans, without_quote_marks
from tasks.text.sentences import Folded, folded_spans

CLOSING = '"”’»›)]}'
_GAP = 8  # blanks between a citation and the sentence after it
_SMALL_FOLLOWS = re.compile(r" [a-z](?![A-Z])")
_NUMBERED = re.compile(r"\[\s?(\d{1,9})\s?\]:?[ \t]{0,4}(.*)", re.DOTALL)
_ADDRESS = re.compile(rf"((?=<?{URL})(?:doi:?\s)?\S{{1,4000}})(?:\s+|$)(.*)", re.DOTALL | re.IGNORECASE)
_LINKED = re.compile(rf"\[([^\[\]\n]{{1,300}})\]\(\s?<?({URL})>?\s?\)[.,;]?(?:\s+|$)(.*)", re.DOTALL)


class Claim(NamedTuple):
    """A sentence of an answer. `text`: with each run of white space as one blank, without marks of the form [^1^].
    `start`, `end`: its character offsets in the answer.

    `marks`, `urls`: the numbers and addresses that the sentence cites, in order, each once.
    """

    text: str
    start: int
    end: int
    marks: list[int]
    urls: list[str]


def claims_of(
    text: str, *, splitter: str, small_talk: bool = True, least_characters: int = 6, questions: bool = True
) -> list[Claim]:
    """The claims of an answer, in order: its sentences, except those that are no claims.

    `splitter`: `sentences` (as in the paper) or `lists` (see tasks/text/lists.py). Left out are sentences whose text
    has fewer than `least_characters`; with `small_talk`, those that begin with a chatbot's phrase (by `lists` also
    those that are nothing but one, such as `Hello!`, which the paper's splitter keeps); with `questions`, those
    that end in a question mark. A citation after a full stop belongs to the sentence before it. Marks of the form [^1^]
    are left out of a claim's text, but not of its `marks`. `lists` also leaves out headings, code, the marks of quotes,
    and the list of references at the end.
    """
    plain = splitter == "sentences"
    spans = folded_spans(text, unseen_spans(text)) if plain else _listed(text)
    parts = ((start, end, text[start:end] if plain else without_quote_marks(text[start:end])) for start, end in spans)
    found = (Claim(_folded(part), start, end, cited_numbers(part), urls(part)) for start, end, part in parts)
    spoken = (claim for claim in found if plain or not (small_talk and _is_void(claim.text)))
    return [claim for claim in spoken if _is_claim(claim.text, small_talk, least_characters, questions)]


def _listed(text: str) -> list[tuple[int, int]]:
    """(start, end) of the sentences of `listed_spans`, without those of the list of references at the end.

    Citations before a sentence, which are in none, belong to it. Where the text begins with one, and its last sentence
    has none at its end, each between two sentences belongs to the one after it.
    """
    body = text[: references(text)[0]]
    spans = listed_spans(body, _citations(body))
    runs = [(run[0][0], run[-1][1]) for run in _runs(body)]
    if runs and not _says_something(body[: runs[0][0]]) and _says_something(body[runs[-1][1] :]):
        closing = {end: start for start, end in runs}
        spans = [(start, closing.get(end, end)) for start, end in spans]
    owned = {end for _, end in spans}
    free = {end: start for start, end in runs if end not in owned}
    return [(_begin(body, free, start), end) for start, end in spans]


def _says_something(text: str) -> bool:
    """Whether the text has a letter or digit."""
    return any(map(str.isalnum, text))


def _begin(text: str, citations: Mapping[int, int], start: int) -> int:
    """Where a sentence at `start` begins with the citation right before it, if there is one. `citations`: end -> start
    with the blanks before it.
    """
    gap = text[max(0, start - _GAP) : start]
    first = citations.get(start - len(gap) + len(gap.rstrip(" \t")), start)
    return first + len(text[first:start]) - len(text[first:start].lstrip())


def _citations(text: str) -> list[tuple[int, int]]:
    """Spans of citations without the blanks before them, so that the splitter reads `copper [1].` as `copper .`; in
    order, overlapping ones merged. Intervals such as [0, 1] are no citations.

    Between a stop and a closing quote (`late. [1]" She`) the blanks go, too; of two stops around citations (`in Dec.
    [1]. Prices`) the first does, as the second ends the sentence, and so does a stop before citations and a small
    letter, as of an abbreviation (`the Univ. [3] of`). One that opens a sentence (`It fell. [4] says so.`) is a word
    of it.
    """
    found: list[tuple[int, int]] = []
    for run in _runs(text):
        start, end = run[0][0], run[-1][1]
        before, after = text[max(0, start - 1) : start], text[end : end + 1]
        if _opens(text, start, end):
            found.append((end - 1, end))  # a mark that is not closed is no citation to the splitter
            continue
        if before and before in ".!?…" and after and after in CLOSING:
            found.append((start, end))
            continue
        twice = after == "." and text[end : end + 3] != "..."
        if before == "." and (twice or _SMALL_FOLLOWS.match(text, end)):
            found.append((start - 1, start))
        found += [(high - len(text[low:high].lstrip()), high) for low, high in run]
    return found


def _opens(text: str, start: int, end: int) -> bool:
    """Whether a run of citations, with the blanks before it, is the subject of a sentence: a verb follows, and what
    stands before it is a whole sentence, which has three words.
    """
    before = text[max(0, start - 200) : start]
    if not before.endswith((".", "!", "?")) or start == end - len(text[start:end].lstrip()):
        return False
    if VERB_AFTER.match(text, end) is None:
        return False
    sentences = prose_spans(before)
    ends = len(prose_spans(f"{before} Next")) > len(sentences)
    return ends and before[slice(*sentences[-1])].count(" ") > 1


def _runs(text: str) -> list[list[tuple[int, int]]]:
    """The citations of a text in order, with the blanks before them; those with nothing between them in one list."""
    runs: list[list[tuple[int, int]]] = []
    for start, end in citation_spans(text):
        if runs and start <= runs[-1][-1][1]:
            runs[-1].append((max(start, runs[-1][-1][1]), end))
        else:
            runs.append([(start, end)])
    return runs


def _folded(text: str) -> str:
    """The text with each run of white space as one blank, and without marks of the form [^1^]."""
    carets = caret_spans(text)
    return Folded(text, carets).text if carets else " ".join(text.split())


def _is_claim(text: str, small_talk: bool, least_characters: int, questions: bool) -> bool:
    """Whether a sentence is a claim. It is none if it has fewer than `least_characters`, if it ends in a question mark
    (with `questions`), or if it begins with a chatbot's phrase of small_talk.txt (with `small_talk`).
    """
    if len(text) < least_characters or (questions and text.endswith("?")):
        return False
    return not (small_talk and text.casefold().replace("’", "'").startswith(_small_talk()))


_VOID = re.compile(
    r"(?:hello|hi|hey|greetings|good (?:morning|afternoon|evening|day))(?: (?:there|again|everyone|and welcome))?"
    r"|(?:thanks|thank you|you're welcome|sure|certainly|of course|absolutely|great question|good question"
    r"|that's an? (?:great|good|interesting|excellent) question|(?:good|best of) luck|take care)"
    r"(?:[,!.] (?:i can|i'd be happy to|i'll|i will) (?:help|assist)[a-z ]{0,40})?"
    r"|i (?:sincerely |really |do )?hope (?:this|that|it|you find this) (?:helps?|is helpful|was helpful|helpful"
    r"|is useful|clarifies things|makes sense)(?: you)?(?: (?:a bit|out|with [a-z ]{1,40}))?"
    r"|i'?(?: a)?m (?:happy|glad|here) to (?:help|assist)[a-z ]{0,60}"
)
_MODEL_SAYS = re.compile(
    r"(?:(?:i'm sorry|sorry|i apologi[sz]e|unfortunately)[,.;]? (?:but )?)?(?:as|being) an? (?:ai"
    r"|artificial intelligence|large language model|language model)"
    r"(?: language model| model| assistant| chatbot| system)?(?: (?:developed|trained|created|made)"
    r" by \w{1,20})?, (?:i |my )"
)
_AND_YET = re.compile(r"\b(?:but|however|although|though|yet|still|here (?:is|are))\b|[;:]|\[\d|\d{2}")


def _is_void(text: str) -> bool:
    """Whether a sentence greets, offers help, or says what a model is and cannot do, and says nothing else. False where
    a clause follows that may say something of the subject, or a number or a citation stands in it.
    """
    said = text.casefold().replace("’", "'").strip(' *_"')
    model = _MODEL_SAYS.match(said)
    return _VOID.fullmatch(said.rstrip(".!… ")) is not None or (
        model is not None and not _AND_YET.search(said, model.end())
    )


@cache
def _small_talk() -> tuple[str, ...]:
    """The beginnings of chatbots' phrases in small_talk.txt, in lower case."""
    lines = Path(__file__).with_name("small_talk.txt").read_text("utf-8").splitlines()
    return tuple(line.strip().casefold() for line in lines if line.strip() and not line.startswith("#"))


# ---------------------------------------------------------------- the stage


@stage(CLAIMS, revision=5, at_most=AtMost(rows=unbounded))
def split_claims(
    context: StageContext, answers: Rows, *, splitter: str, least_characters: int, small_talk: bool
) -> Iterator[Row | Rejected]:
    """The claims of each answer, in order; the claims of released answers are kept unchanged. A Rejected for each
    answer that abstains (unless its claims were released) or has no claim.

    `splitter`, `least_characters` and `small_talk` as in `claims_of`. Counts cited numbers that no source has, and
    released claims that are not found in their answer.
    """
    for answer in answers:
        rows = list(_claims(answer, splitter, least_characters, small_talk))
        if answer["abstention"] is not None and answer["claims"] is None:
            yield Rejected(answer["answer_id"], "filtered", "abstains", detail=answer["abstention"])
        elif not rows:
            yield Rejected(answer["answer_id"], "filtered", "no claim")
        else:
            counts = {
                "marks without a source": sum(len(row["unmatched"]) for row in rows),
                "claims not found in their answer": sum(row["start"] is None for row in rows),
            }
            for name, number in counts.items():
                if number:
                    context.count(name, number)
            yield from rows


def _claims(answer: Row, splitter: str, least_characters: int, small_talk: bool) -> Iterator[Row]:
    """Rows of CLAIMS of one answer, in order: its released claims if it has any, else those of `claims_of`."""
    if answer["claims"] is not None:
        yield from released_claims(answer)
        return
    found = claims_of(answer["text"], splitter=splitter, small_talk=small_talk, least_characters=least_characters)
    for position, claim in enumerate(found):
        yield {**_columns(answer, position), **linked(claim, answer["cited"])}


def _columns(answer: Row, position: int) -> Row:
    """The columns of CLAIMS that follow from the answer and the claim's position in it, from 0; `original` is None."""
    return {
        "claim_id": f"{answer['answer_id']}#{position}",
        **{name: answer[name] for name in ("answer_id", "question_id", "system")},
        "position": position,
        "original": None,
    }


def linked(claim: Claim, cited: Iterable[Row]) -> Row:
    """The columns of CLAIMS that follow from a claim and the sources its answer cites. The sources that the claim
    cites become its evidence: those by number in the order of the claim, then those by address, by their numbers.

    `cited`: rows of CITED; of several with one number the first counts. Numbers that the claim cites and no source has
    go to `unmatched`.
    """
    sources = {source["number"]: source for source in reversed(list(cited))}
    wanted = [number for number in claim.marks if number in sources]
    wanted += [number for number in sorted(sources) if sources[number]["url"] in claim.urls and number not in wanted]
    return {
        "text": claim.text,
        "start": claim.start,
        "end": claim.end,
        "marks": claim.marks,
        "unmatched": [number for number in claim.marks if number not in sources],
        "evidence": [
            {**{name: sources[number][name] for name in ("number", "url", "passage_id", "text")}, "given": None}
            for number in wanted
        ],
    }


# ---------------------------------------------------------------- released claims


def released_claims(answer: Row) -> Iterator[Row]:
    """Rows of CLAIMS of a released answer, in order. `start` and `end` are None for a claim that is not found in the
    answer; `original` is the claim as JSON.

    A claim is searched after the claim before it, then from the beginning. Released claims lack marks of the form
    [^1^], so these are ignored in the answer.
    """
    folded = Folded(answer["text"], caret_spans(answer["text"]))
    known = {source["number"] for source in answer["cited"]}
    search_from = 0
    for position, claim in enumerate(read_exact(answer["claims"])):
        text = claim["claim_string"]
        start, end, search_from = _span_of(text, folded, search_from)
        numbers = cited_numbers(text)
        yield {
            **_columns(answer, position),
            "text": text,
            "start": start,
            "end": end,
            "marks": numbers,
            "unmatched": [number for number in numbers if number not in known],
            "evidence": [parse_evidence(evidence) for evidence in claim.get("evidence") or []],
            "original": write_exact(claim),
        }


def _span_of(claim: str, answer: Folded, search_from: int) -> tuple[int | None, int | None, int]:
    """(start, end, offset to search the next claim from) of a claim in the answer. If it is blank or not there, start
    and end are None and the offset is `search_from` again.

    It is searched from `search_from` on, then from the beginning. Both offsets to search from count in `answer.text`,
    the folded answer; start and end count in the answer itself. Runs of white space count as one blank, and marks of
    the form [^1^] are left out of both texts.
    """
    text = _folded(claim)
    found = answer.text.find(text, search_from)
    if found < 0:
        found = answer.text.find(text)
    if found < 0 or not text:
        return None, None, search_from
    return *answer.span(found, found + len(text)), found + len(text)


def parse_evidence(released: str) -> dict[str, Any]:
    """A row of EVIDENCE from a released text: `[3] https://…` or `[3] [title](https://…)`, white space, the passage.

    Number and address may be missing (None); all else is the passage, None if that is empty. `given` keeps the whole
    text.
    """
    number, _, url, text = parts_of(released)
    return {"number": number, "url": url, "passage_id": None, "text": text.strip() or None, "given": released}


def parts_of(source: str) -> tuple[int | None, str | None, str | None, str]:
    """(number, title, address, the rest) of a source as it was released; None for what it lacks. A title is only read
    from a link, `[title](https://…)`.
    """
    numbered = _NUMBERED.match(source)
    number, rest = (int(numbered[1]), numbered[2]) if numbered else (None, source.strip())
    if linked := _LINKED.match(rest):
        return number, linked[1].strip() or None, in_full(linked[2]), linked[3]
    address = _ADDRESS.match(rest)
    return number, None, *((in_full(address[1]), address[2]) if address else (None, rest))
