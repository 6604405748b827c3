"""Questions: of people, from files, or proposed by a model for related-work paragraphs and filtered (KIWI, A.6)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
from tasks.sources.files.spellings import first_text
from tasks.sources.papers.named import PARAGRAPHS, TITLE, paper_id_of, papers_named, paragraphs_named
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
SOURCE_IDS = ("source_id", "source_paper_id", "source_corpus_id")


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
        papers = papers_named(next((record[name] for name in PAPERS if record.get(name)), []))
        given = paragraphs_named(next((record[name] for name in PARAGRAPHS if record.get(name)), []), papers)
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
        return first_text(value, TITLE), paper_id_of(value)
    own = next((record[name] for name in SOURCE_IDS if record.get(name)), None)
    return first_text(record, ("source_paper", "source_paper_title", "paper_title")), paper_id_of({"paper_id": own})


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
    """The questions that a model proposes for each paragraph (A.6); a Rejected for one without a list of them."""

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
    """The items, or lines, of a reply that end in a question mark, each once, at most MOST_PROPOSED."""
    items = named_items(reply) or [("", line) for line in reply.splitlines()]
    texts = (" ".join((f"{name}: {check}" if name and check else name or check).split()) for name, check in items)
    return list(dict.fromkeys(text for text in texts if text.endswith(("?", "？", "؟"))))[:MOST_PROPOSED]


def _no_questions(reply: str) -> Flaw | None:
    """What is wrong with a reply that lists no question."""
    return None if listed_questions(reply) else ("invalid", "no list of questions")


@stage(QUESTIONS, revision=1, at_most=AtMost(keeps=True))
def drop_anchored(context: StageContext, proposed: Rows) -> Iterator[Row | Rejected]:
    """The questions that stand by themselves, each once; a Rejected for one anchored to a paper (A.6, filter 1)."""
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
    """The questions that their paragraph answers, as a model judges; a Rejected for others (A.6, filter 2)."""

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
    """The questions of both routes, those of people first, each id once; a Rejected for those beyond `limit`."""
    kept = 0
    for row in distinct(chain(people, generated), "question_id", "an id that comes again"):
        if isinstance(row, Rejected) or limit is None or kept < limit:
            kept += not isinstance(row, Rejected)
            yield row
        else:
            yield Rejected(row["question_id"], "filtered", "beyond the limit")
