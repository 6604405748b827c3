"""The hard task: paragraphs on related work with the papers they cite (appendix A)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from longform.artifacts.rows import AllRows, Rejected, Row
from longform.engine.stage import AtMost, StageContext, stage
from schemas.revision_distance import HARD
from tasks.sources.papers.related import OF_SUBMISSION, Cited
from tasks.sources.s2orc.s2_releases import database
from tasks.text.scrub import scrub

PARAGRAPHS_AT_ONCE = 1_000
LEAST_OWN_TITLE = 3

NO_ABSTRACT = "no abstract of its own"
FEW_CITED, SHORT, LONG = "too few cited papers with abstracts", "text too short", "text too long"
NAMES_ITSELF = "names its own paper"


# ---------------------------------------------------------------- cases


@stage(HARD, revision=5, at_most=AtMost(rows=lambda of: of["related"]))
def find_cited(
    context: StageContext,
    related: AllRows,
    papers: AllRows,
    metadata: AllRows,
    duplicates: AllRows,
    *,
    least_cited: int,
    least_words: int,
    most_words: int,
) -> Iterator[Row | Rejected]:
    """Cases made of related-work paragraphs, with the cited papers that were found in `papers` and `metadata`, of which
    `duplicates` (rows of DUPLICATES) says which are versions of one paper.

    At least `least_cited` of these must have an abstract, and the paragraph must have `least_words` to `most_words`
    words; the other conditions are those of `hard_case`. A missing title or abstract of the paragraph's own paper is
    looked up, too. A Rejected, with the reason, for every paragraph that is no case.
    """
    with database(context.scratch()) as connection:
        found = Cited(connection, related, [papers, metadata], duplicates)
        for batch in related.batches(size=PARAGRAPHS_AT_ONCE):
            cited, own = found.cited_by(batch["related_id"]), found.own_texts(batch["paper_id"])
            for row in batch.to_pylist():
                itself = own.get(row["paper_id"], {})
                row |= {name: row.get(name) or itself.get(name) for name in ("title", "abstract", "version")}
                case = hard_case(row, cited.get(row["related_id"], []), least_cited, least_words, most_words)
                if isinstance(case, str):
                    yield Rejected(row["related_id"], "filtered", case)
                else:
                    context.count("references", len(row["references"]))
                    context.count("references found", len(case["cited"]))
                    yield case


def hard_case(
    paragraph: Mapping[str, Any], cited: Sequence[Row], least_cited: int, least_words: int, most_words: int
) -> Row | str:
    """The row of HARD of a paragraph with its cited papers; or the reason why it is no case.

    `paragraph`: a row of RELATED; `cited`: rows of CITED, of which at least `least_cited` need an abstract.
    `least_words`, `most_words`: bounds of the number of words of the paragraph. A paragraph whose own paper has no
    abstract, or which names its own paper (`names_itself`), is no case either. In all texts of the row personal data
    (mail addresses, phone numbers, handles) is replaced by marks.
    """
    if not (paragraph["abstract"] or "").strip():
        return NO_ABSTRACT
    length = len(paragraph["text"].split())
    if length > most_words or length < least_words:
        return LONG if length > most_words else SHORT
    if names_itself(paragraph, cited):
        return NAMES_ITSELF
    if sum(one["abstract"] is not None for one in cited) < least_cited:
        return FEW_CITED
    text, title, abstract = (scrub((paragraph[name] or "").strip()) for name in ("text", "title", "abstract"))
    scrubbed = [_scrubbed(one) for one in cited]
    return {
        "case_id": f"hard/{paragraph['related_id']}",
        "task": "hard",
        "kind": "related_work",
        "rule": None,
        "request": None,
        "title": title.text or None,
        "abstract": abstract.text,
        "cited": [one for one, _ in scrubbed],
        "reference": text.text,
        "reference_by": "human",
        "given": [],
        "scrubbed": text.marks + title.marks + abstract.marks + sum(marks for _, marks in scrubbed),
        **{name: paragraph[name] for name in ("related_id", "paper_id", "licence", "url", "retrieved_at")},
        **{name: paragraph.get(name) for name in OF_SUBMISSION},
        "revision": None,
    }


def _scrubbed(cited: Row) -> tuple[Row, int]:
    """(the cited paper with personal data in title and abstract replaced by marks, number of these marks).

    A missing abstract stays None; a missing title becomes "".
    """
    title, abstract = scrub(cited["title"] or ""), scrub(cited["abstract"] or "")
    texts = {"title": title.text, "abstract": abstract.text if cited["abstract"] is not None else None}
    return {"paper_id": cited["paper_id"], **texts, "by": cited["by"]}, title.marks + abstract.marks


def names_itself(paragraph: Mapping[str, Any], cited: Sequence[Row]) -> bool:
    """Whether a paragraph cites its own paper, or a version of it, or names its full title, and so depends on the rest
    of the paper.

    A title of fewer than LEAST_OWN_TITLE words is not looked for. `cited`: rows of CITED; `version`, there and in the
    paragraph, is the id that versions of one paper share.
    """
    own = {paragraph["paper_id"], paragraph.get("version")} - {None}
    if any(own & {one["paper_id"], one.get("version")} for one in cited):
        return True
    title = title_words(paragraph["title"] or "")
    return len(title.split()) >= LEAST_OWN_TITLE and f" {title} " in f" {title_words(paragraph['text'])} "


def title_words(text: str) -> str:
    """The words of a text (letters and digits) in lower case, separated by single blanks."""
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))
