"""What is asked and where it is looked up: files of questions, and pages of one's own to search.

    {"id": "r1", "question": "How does drinking water shape a city?", "topic": "water"}      questions, .jsonl or .json
    {"url": "https://water.example/", "title": "Wells", "text": "A well is dug …"}         pages, .jsonl or .parquet

A file of pages may also be one text (.md, .txt), whose address is then its name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Rejected, Row, Shard
from longform.engine.stage import AtMost, StageContext, stage
from longform.errors import SourceError
from schemas.axioms.research import RESEARCH_PAGES, RESEARCH_QUESTIONS
from tasks.sources.files.inputs import raw_text, retrieved_at
from tasks.sources.files.json_values import json_values
from tasks.sources.files.lines import read_lines
from tasks.sources.files.sizes import most_bytes, records_at_most
from tasks.sources.files.spellings import first_text
from tasks.sources.permalinks import ids_of_address
from tasks.sources.web.documents import ENDINGS, Document, documents
from tasks.sources.web.extraction import clean
from tasks.text.audits.equality import bare
from tasks.text.scrub import scrub

QUESTION_ENDINGS = (".jsonl", ".json")
TEXTS = (".md", ".txt")
PAGE_ENDINGS = (*ENDINGS, *TEXTS)
LONGEST_QUESTION = 2_000
LEAST = '{"question":"a"}'
READ = ("question", "query", "text", "id", "question_id", "licence", "license", "url")


def question_id_of(question: str) -> str:
    """The id of a question of which no file says one: a hash of its words."""
    return f"rq_{fingerprint([bare(question)])}"


def _most_questions(of: Any) -> float:
    return float(records_at_most(of["files"], len(LEAST) + 1))


@stage(RESEARCH_QUESTIONS, revision=1, at_most=AtMost(bytes=most_bytes("files"), rows=_most_questions))
def read_research_questions(context: StageContext, files: Shard) -> Iterator[Row | Rejected]:
    """The questions of a file of JSON; what else a record holds is kept as `metadata`. A Rejected for a record without
    a question, one that is too long, and one with an id or words that the file has had before. SourceError for a file
    without a question.
    """
    name, seen, found = dict(files.source.facts)["name"], set[str](), 0
    for place, (value, raw) in enumerate(json_values(files), start=1):
        record = value if isinstance(value, dict) else {}
        question = clean(first_text(record, ("question", "query", "text")) or "", one_line=True)
        if not question or len(question) > LONGEST_QUESTION:
            reason = "no question" if not question else f"question of more than {LONGEST_QUESTION:,} characters"
            yield Rejected(f"{name}#{place}", "defect", reason, raw=raw_text(raw))
            continue
        key = record.get("id", record.get("question_id"))
        own = str(key) if isinstance(key, str | int) and str(key).strip() else question_id_of(question)
        if {own, bare(question)} & seen:
            yield Rejected(f"{name}#{place}", "filtered", "a question that comes again", detail=own)
            continue
        seen |= {own, bare(question)}
        found += 1
        rest = {name: value for name, value in record.items() if name not in READ}
        yield {
            "research_question_id": own,
            "question": question,
            "metadata": json.dumps(rest, ensure_ascii=False, sort_keys=True) if rest else None,
            "licence": first_text(record, ("licence", "license")),
            "url": first_text(record, ("url",)),
        }
    if not found:
        raise SourceError(f"{files.source.path} holds no question: give JSON lines with `question`.")


@stage(
    RESEARCH_PAGES,
    revision=1,
    at_most=AtMost(bytes=most_bytes("files"), rows=lambda of: 1 + records_at_most(of["files"], 20)),
)
def read_research_pages(
    context: StageContext, files: Shard, *, scrubbed: bool, takedowns: Sequence[str] = ()
) -> Iterator[Row | Rejected]:
    """The pages of a file; a Rejected for ill-formed and repeated ones, and for those with an id among `takedowns`.
    `scrubbed`: with marks in place of mail addresses, phone numbers and handles. SourceError for a file
    of records without a page.
    """
    listed = set(takedowns)
    found, seen = 0, set[str]()
    for page in _documents(context, files):
        if isinstance(page, Rejected):
            yield page
            continue
        if listed and listed.intersection(ids_of_address(page.url)):
            found += 1
            yield Rejected(page.url, "filtered", "taken down")
            continue
        key = f"p_{fingerprint([page.url, page.text])}"
        if key in seen:
            continue
        seen.add(key)
        found += 1
        yield {
            "page_id": key,
            "url": page.url,
            "title": _plain(page.title or "", scrubbed),
            "text": _plain(page.text, scrubbed),
            "licence": page.licence,
            "retrieved_at": page.retrieved_at,
        }
    if not found and not _is_text(files):
        raise SourceError(
            f"{files.source.path} holds no page: give JSON lines or Parquet with `url` and `text`, or .md and .txt."
        )


def _documents(context: StageContext, files: Shard) -> Iterator[Document | Rejected]:
    """The documents of a file; a text is one document."""
    if not _is_text(files):
        yield from documents(context, files)
        return
    name = dict(files.source.facts)["name"] or ""
    text = clean(b"\n".join(read_lines(files)).decode("utf-8", "replace")).strip()
    if "\x00" in text or not text:
        yield Rejected(name, "defect", "no text")
        return
    first = text.partition("\n")[0]
    title = first.lstrip("# ").strip()[:200] if first.startswith("#") else Path(name).stem
    yield Document(name, title, text, None, retrieved_at(files.source))


def _is_text(files: Shard) -> bool:
    """Whether a file is one text, by its name."""
    return (dict(files.source.facts)["name"] or "").lower().endswith(TEXTS)


def _plain(text: str, scrubbed: bool) -> str:
    return scrub(text).text if scrubbed else text
