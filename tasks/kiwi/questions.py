"""Questions: of people, from files, or proposed by a model for related-work paragraphs and filtered (KIWI, A.6)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import AllRows, Rejected, Row, Rows, Shard, distinct
from longform.engine.at_most import Sizes, longest
from longform.engine.stage import AtMost, StageContext, stage
from longform.errors import SourceError
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint, Flaw, Request
from schemas.kiwi import ASKED, QUESTIONS
from schemas.replies import Answerable, Reply
from tasks.answers import answered, made_by
from tasks.sources.files.json_values import json_values
from tasks.text.audits.equality import bare
from tasks.text.markdown.named_items import named_items

MOST_PROPOSED = 20
LONGEST = 10_000  # characters of a paragraph that a plan reckons with
ANCHORED = re.compile(
    r"\b(?:(?:this|that|the|these|those|our|their|current|present) (?:paper|papers|work|works|study|studies|article|"
    r"articles|paragraph|passage|text|section|authors?)|mentioned|aforementioned|above|described here|discussed here|"
    r"authors?|et al|cited|as proposed (?:in|by)|this (?:approach|method|model|dataset))\b",
    re.IGNORECASE,
)  # words that anchor a question to one paper: filter 1 (A.6)

QUESTION = ("question", "initial_question", "query", "text")
PARAGRAPH = ("related_work_paragraph", "related_work", "paragraph")
PAPERS = ("cited_papers", "evidence_papers", "evidence", "papers")
PARAGRAPHS = ("cited_paragraphs", "evidence_paragraphs", "paragraphs")
TITLE, IDS = ("title", "paper_title", "name"), ("corpus_id", "corpusid", "corpusId", "s2_id")
TEXT = ("text", "paragraph", "passage", "content")
SOURCE_IDS = ("source_id", "source_paper_id", "source_corpus_id")


def first_text(record: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """The first of these fields of a record that is a text with words, stripped; None if there is none."""
    found = (record.get(name) for name in names)
    return next((text.strip() for text in found if isinstance(text, str) and text.strip()), None)


def question_id_of(question: str, paragraph: str = "") -> str:
    """The id of a question: a hash of its words and of the paragraph it was made from."""
    return f"q_{fingerprint([bare(question), bare(paragraph)])}"


# ---------------------------------------------------------------- by people


@stage(ASKED, revision=1, at_most=AtMost(rows=lambda of: of["read"] + of["written"]))
def collect_asked(context: StageContext, read: AllRows, written: AllRows) -> Iterator[Row | Rejected]:
    """The questions by people, of files and of sheets; a Rejected for one with an id that is there already."""
    yield from distinct(chain(read, written), "question_id", "an id that comes again")


@stage(ASKED, revision=1)
def read_questions(context: StageContext, files: Shard) -> Iterator[Row | Rejected]:
    """Questions from a file of JSON records (JSON lines, one array), of one's own or in the layout of the released
    longform_sciqa: question, related_work_paragraph, cited_papers, cited_paragraphs; other fields are not read.

    Papers are titles, or objects with a title and perhaps a paper_id or corpus_id. Paragraphs are texts, objects with a
    paper's title or id and its text or `paragraphs`, or lists of these in the order of the papers. A Rejected for a
    record without a question, or without papers. SourceError for a file without a question.
    """
    facts, found = dict(files.source.facts), 0
    for place, (value, raw) in enumerate(json_values(files), start=1):
        record = value if isinstance(value, dict) else {}
        question, key = first_text(record, QUESTION), record.get("question_id", record.get("id"))
        papers = _papers(next((record[name] for name in PAPERS if record.get(name)), []))
        given = _given(next((record[name] for name in PARAGRAPHS if record.get(name)), []), papers)
        if not question or not papers:
            reason = "no question" if not question else "no cited papers"
            yield Rejected(f"{facts['name']}#{place}", "defect", reason, raw=raw[:2_000])
            continue
        found += 1
        title, source_id = _source(record)
        yield {
            "question_id": str(key) if isinstance(key, str | int) and str(key) else question_id_of(question),
            "question": question,
            "topic": first_text(record, ("topic", "track")),
            "source_paper": title,
            "source_id": source_id or None,
            "paragraph": first_text(record, PARAGRAPH),
            "evidence": papers,
            "given": given,
            "licence": first_text(record, ("licence", "license")) or facts.get("licence"),
            "url": first_text(record, ("url",)),
            "retrieved_at": facts.get("retrieved_at"),
        }
    if not found:
        raise SourceError(
            f"{files.source.path} holds no question with papers: give JSON lines with question and cited_papers."
        )


def _source(record: Mapping[str, Any]) -> tuple[str | None, str]:
    """(title, paper_id) of the source paper that a record names; None and "" where it does not."""
    value = record.get("source_paper")
    if isinstance(value, dict):
        return first_text(value, TITLE), _id_of(value)
    own = next((record[name] for name in SOURCE_IDS if record.get(name)), None)
    return first_text(record, ("source_paper", "source_paper_title", "paper_title")), _id_of({"paper_id": own})


def _papers(value: Any) -> list[Row]:
    """The evidence papers of a record, each once, as DOCUMENT; ids are "" where the record has none. A number alone is
    a corpus id, another text a title.
    """
    found = {}
    for each in value if isinstance(value, list) else value.items() if isinstance(value, dict) else []:
        if isinstance(each, tuple):  # id -> title, or id -> object
            each = {"paper_id": each[0], **(each[1] if isinstance(each[1], dict) else {"title": each[1]})}
        record = each if isinstance(each, dict) else {"title": each}
        if _is_number(each):
            record = {"corpus_id": each}
        title = first_text(record, TITLE) or ""
        if title or _id_of(record):
            found[title.casefold() or _id_of(record)] = {"paper_id": _id_of(record), "title": title}
    return list(found.values())


def _id_of(record: Mapping[str, Any]) -> str:
    """The paper_id that a record names, s2/<number> for a corpus id; "" if it names none."""
    found = (record[name] for name in (*IDS, "paper_id") if record.get(name))
    own = next((each.strip() if isinstance(each, str) else each for each in found), "")
    return f"s2/{own}" if _is_number(own) else own if isinstance(own, str) else ""


def _is_number(value: Any) -> bool:
    """Whether a value is a number, as a corpus id is, or the digits of one."""
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, str) and value.isdecimal())


def _given(value: Any, papers: list[Row]) -> list[Row]:
    """(paper, text) of each paragraph that a record brings. `papers`: as `_papers` reads them."""
    titles = {paper["title"].casefold(): place for place, paper in reversed([*enumerate(papers)])}
    ids = {paper["paper_id"]: place for place, paper in enumerate(papers) if paper["paper_id"]}
    found: list[Row] = []
    for place, each in enumerate(value if isinstance(value, list) else []):
        record = each if isinstance(each, dict) else {}
        title = (first_text(record, TITLE) or "").casefold()
        paper = ids.get(_id_of(record), titles.get(title, place if not record and place < len(papers) else None))
        inner = next((record[name] for name in PARAGRAPHS if isinstance(record.get(name), list)), None)
        texts = each if isinstance(each, list) else inner if inner is not None else [record or each]
        for text in texts:
            words = first_text(text, TEXT) if isinstance(text, dict) else text
            if paper is not None and isinstance(words, str) and words.strip():
                found.append({"paper": paper, "text": words.strip()})
    return found


# ---------------------------------------------------------------- generated


def _longest_request(of: Sizes, reply: type[Reply] | None = None) -> list[Request]:
    """The longest request of a stage with this form of reply; none where no model is asked."""
    if of["model"] is None:
        return []
    return [of["prompt"].request(of["model"], reply=reply, **dict.fromkeys(of["prompt"].inputs, longest(LONGEST)))]


@stage(
    QUESTIONS,
    revision=1,
    at_most=AtMost(
        rows=lambda of: MOST_PROPOSED * of["documents"], calls=lambda of: of["documents"], questions=_longest_request
    ),
)
def propose_questions(
    context: StageContext, documents: Rows, *, model: Endpoint | None, prompt: Prompt
) -> Iterator[Row | Rejected]:
    """The questions that a model proposes for each related-work paragraph, five if it does as it is told (A.6, step 2).
    A Rejected for a paragraph without a usable list, and, without a model, for every one.
    """

    def request(row: Row) -> Request:
        inputs = {"title": row["title"] or "", "paragraph": row["text"]}
        assert model is not None
        return prompt.request(model, check=_no_questions, **inputs)

    if model is None:
        yield from (Rejected(row["related_id"], "filtered", "no questions are generated") for row in documents)
        return
    for row, found in answered(context, model, ((row["related_id"], row, request(row)) for row in documents)):
        if isinstance(found, Rejected):
            yield found
            continue
        for question in listed_questions(found[0].value):
            kept = {name: row[name] for name in ("documents", "cited", "missing", "licence", "url", "retrieved_at")}
            yield {
                **kept,
                "question_id": question_id_of(question, row["text"]),
                "question": question,
                "origin": "generated",
                "topic": row["venue"],
                "source_paper": row["title"],
                "source_id": row["paper_id"],
                "paragraph": row["text"],
                "answerable": None,
                **made_by(found[0], model, prompt),
            }


def listed_questions(reply: str) -> list[str]:
    """The questions of a reply, each once, at most MOST_PROPOSED: the items of its list, or its lines, that end in a
    question mark.
    """
    items = named_items(reply) or [("", line) for line in reply.splitlines()]
    texts = (" ".join((f"{name}: {check}" if name and check else name or check).split()) for name, check in items)
    return list(dict.fromkeys(text for text in texts if text.endswith(("?", "？", "؟"))))[:MOST_PROPOSED]


def _no_questions(reply: str) -> Flaw | None:
    """What is wrong with a reply that lists no question."""
    return None if listed_questions(reply) else ("invalid", "no list of questions")


@stage(QUESTIONS, revision=1, at_most=AtMost(keeps=True))
def drop_anchored(context: StageContext, proposed: Rows) -> Iterator[Row | Rejected]:
    """The questions that stand by themselves; a Rejected for each that is anchored to a paper by a word such as "this
    paper", "mentioned" or "author" (A.6, filter 1), and for one that is there already.
    """
    seen = set[str]()
    for row in proposed:
        if match := ANCHORED.search(row["question"]):
            yield Rejected(row["question_id"], "filtered", "anchored to one paper", detail=match[0])
        elif row["question_id"] in seen:
            yield Rejected(row["question_id"], "filtered", "the question is there already")
        else:
            seen.add(row["question_id"])
            yield row


@stage(QUESTIONS, revision=1, at_most=AtMost(keeps=True, questions=partial(_longest_request, reply=Answerable)))
def check_answerable(
    context: StageContext, questions: Rows, *, model: Endpoint | None, prompt: Prompt
) -> Iterator[Row | Rejected]:
    """The questions that their paragraph answers, by a model's verdict; a Rejected for partially and no (A.6, filter 2)
    and where there is no verdict.
    """

    def request(row: Row) -> Request:
        assert model is not None
        return prompt.request(model, reply=Answerable, question=row["question"], paragraph=row["paragraph"])

    if model is None:
        yield from questions
        return
    for row, found in answered(context, model, ((row["question_id"], row, request(row)) for row in questions)):
        if isinstance(found, Rejected):
            yield found
        elif (verdict := found[0].value.verdict) != "yes":
            yield Rejected(row["question_id"], "filtered", "not answered by its paragraph", detail=verdict)
        else:
            yield {**row, "answerable": verdict}


# ---------------------------------------------------------------- all


@stage(QUESTIONS, revision=1, at_most=AtMost(rows=lambda of: of["people"] + of["generated"]))
def collect_questions(
    context: StageContext, people: AllRows, generated: AllRows, *, limit: int | None
) -> Iterator[Row | Rejected]:
    """The questions of both routes, those of people first, at most `limit`; a Rejected for one with an id that is there
    already, and for those beyond the limit.
    """
    kept = 0
    for row in distinct(chain(people, generated), "question_id", "an id that comes again"):
        if isinstance(row, Rejected) or limit is None or kept < limit:
            kept += not isinstance(row, Rejected)
            yield row
        else:
            yield Rejected(row["question_id"], "filtered", "beyond the limit")
