"""The papers that answer a question: those that a related-work paragraph cites, or that a person names (KIWI, 3.1).

Two routes, two rules. Of a paragraph (generated questions) at most 30 % of the cited papers may be missing, and 4 must
be at hand; of a question by a person at most one evidence paper may be missing, and there must be 4 in all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import pyarrow as pa

from longform.artifacts.rows import AllRows, Rejected, Row, Rows, grouped
from longform.engine.stage import AtMost, StageContext, stage
from schemas.kiwi import DOCUMENT_SETS, EVIDENCE, PASSAGES, QUESTIONS
from tasks.answers import NO_MODEL
from tasks.sources.admission import REASON
from tasks.sources.papers.named import imported_id, names_of_paper, taken_down_papers
from tasks.sources.papers.related import FOLDED, Cited, rows_of_query
from tasks.sources.s2orc.s2_releases import database

LEAST = 4  # papers
MOST_MISSING = 0.3  # of the cited papers of a paragraph
MOST_MISSING_OF_PEOPLE = 1  # evidence paper of a question by a person
LEAST_WORDS = 5  # of a passage; shorter paragraphs are captions, lines of formulas, leftovers
PARAGRAPHS_AT_ONCE = 1_000

OTHER_VENUE, MISSING, FEW = "another venue", "too many cited papers missing", "fewer than 4 cited papers at hand"
MISSING_OF_PEOPLE, FEW_OF_PEOPLE = "more than one evidence paper missing", "fewer than 4 evidence papers"
_WITH_TEXT = "SELECT paper_id FROM {} WHERE len(paragraphs) > 0"


# ---------------------------------------------------------------- of paragraphs


@stage(DOCUMENT_SETS, revision=1, at_most=AtMost(rows=lambda of: of["related"]))
def find_documents(
    context: StageContext, related: AllRows, papers: AllRows, duplicates: AllRows, *, venues: list[str]
) -> Iterator[Row | Rejected]:
    """The document set of each paragraph of these venues; a Rejected where too few papers are at hand (A.6)."""
    wanted = [name.casefold() for name in venues]
    with database(context.scratch()) as connection:
        found = Cited(connection, related, [papers], duplicates)
        texts = {name for (name,) in rows_of_query(connection, _WITH_TEXT, papers)}
        for batch in related.batches(size=PARAGRAPHS_AT_ONCE):
            cited = found.cited_by(batch["related_id"])
            for row in batch.to_pylist():
                at_hand = [each for each in cited.get(row["related_id"], []) if each["paper_id"] in texts]
                count = len(row["references"])
                if wanted and not any(name in (row["venue"] or "").casefold() for name in wanted):
                    yield Rejected(row["related_id"], "filtered", OTHER_VENUE, detail=row["venue"])
                elif reason := _too_few(count, len(at_hand)):
                    yield Rejected(row["related_id"], "filtered", reason, detail=f"{len(at_hand)} of {count}")
                else:
                    yield _document_set(row, at_hand, count)


def _too_few(cited: int, at_hand: int) -> str | None:
    """Why a paragraph that cites so many papers, of which so many are at hand, has no document set."""
    if cited and (cited - at_hand) / cited > MOST_MISSING:
        return MISSING
    return FEW if at_hand < LEAST else None


def _document_set(related: Row, at_hand: list[Row], cited: int) -> Row:
    """A row of DOCUMENT_SETS. `at_hand`: rows of CITED."""
    names = ("related_id", "paper_id", "title", "venue", "text", "licence", "url", "retrieved_at")
    documents = [{"paper_id": each["paper_id"], "title": each["title"]} for each in at_hand]
    return {**{name: related[name] for name in names}, "documents": documents, "cited": cited} | {
        "missing": cited - len(at_hand)
    }


# ---------------------------------------------------------------- of questions by people


@stage(QUESTIONS, revision=1, at_most=AtMost(keeps=True))
def match_evidence(
    context: StageContext, asked: AllRows, papers: AllRows, *, takedowns: Collection[str] = ()
) -> Iterator[Row | Rejected]:
    """Questions by people with their evidence papers, which are at hand if the file brings their paragraphs, or their
    texts are in `papers`: found by id, else by title (case, punctuation and white space aside). One that is taken down
    is missing. A Rejected for a question with more than one paper missing, or with fewer than 4 in all (KIWI, 3.1), and
    for one whose source paper is taken down.
    """
    listed = taken_down_papers(asked, takedowns)
    with database(context.scratch()) as connection:
        asked_titles = f"""
            SELECT title, {FOLDED} FROM (SELECT unnest([each.title FOR each IN evidence] || [source_paper]) AS title
            FROM {{}}) WHERE title IS NOT NULL
        """
        folded = dict(rows_of_query(connection, asked_titles, asked))
        connection.register("wanted", pa.table({"folded": pa.array(folded.values(), pa.string())}))
        by_title = f"""
            SELECT folded, min(paper_id) FROM (SELECT paper_id, {FOLDED} AS folded FROM {{}} WHERE len(paragraphs) > 0)
            SEMI JOIN wanted USING (folded) GROUP BY folded
        """
        titles = dict(rows_of_query(connection, by_title, papers))
        wanted = sorted({paper["paper_id"] for row in asked.as_dicts("evidence") for paper in row["evidence"]})
        connection.register("named", pa.table({"paper_id": pa.array(wanted, pa.string())}))
        by_id = "SELECT paper_id, title FROM {} SEMI JOIN named USING (paper_id) WHERE len(paragraphs) > 0"
        ids = dict(rows_of_query(connection, by_id, papers))
        for row in asked:
            if listed & names_of_paper(row["source_id"], row["source_paper"]):
                yield Rejected(row["question_id"], "filtered", REASON)
            else:
                yield _with_evidence(row, ids, {title: titles.get(key) for title, key in folded.items()}, listed)


def _with_evidence(
    asked: Row, ids: Mapping[str, str | None], by_title: Mapping[str, str | None], listed: Collection[str]
) -> Row | Rejected:
    """A row of QUESTIONS. `ids`: paper with a text -> title; `by_title`: title -> id; `listed`: taken-down papers."""
    brought = {each["paper"] for each in asked["given"]}
    documents = []
    for place, paper in enumerate(asked["evidence"]):
        known = paper["paper_id"] if paper["paper_id"] in ids else by_title.get(paper["title"])
        if (known or place in brought) and not names_of_paper(paper["paper_id"], paper["title"]) & {*listed}:
            title = paper["title"] or ids.get(paper["paper_id"]) or ""
            documents.append({"paper_id": known or imported_id(paper), "title": title})
    cited, missing = len(asked["evidence"]), len(asked["evidence"]) - len(documents)
    if missing > MOST_MISSING_OF_PEOPLE or cited < LEAST:
        reason = MISSING_OF_PEOPLE if missing > MOST_MISSING_OF_PEOPLE else FEW_OF_PEOPLE
        return Rejected(asked["question_id"], "filtered", reason, detail=f"{cited - missing} of {cited}")
    kept = {name: asked[name] for name in QUESTIONS.names if name in asked}
    source_id = asked["source_id"] or by_title.get(asked["source_paper"])
    found = {"documents": documents, "cited": cited, "missing": missing, "answerable": None, "source_id": source_id}
    return {**NO_MODEL, **kept, **found, "origin": "people"}


# ---------------------------------------------------------------- passages


@stage(EVIDENCE, revision=1, at_most=AtMost(rows=lambda of: of.bytes))
def evidence_paragraphs(context: StageContext, papers: Rows, questions: AllRows) -> Iterator[Row | Rejected]:
    """The paragraphs of at least 5 words of the papers that are evidence; a Rejected for each other paper."""
    wanted = {each["paper_id"] for row in questions.as_dicts("documents") for each in row["documents"]}
    for paper in papers.as_dicts("paper_id", "title", "text", "paragraphs", "licence", "url"):
        if paper["paper_id"] not in wanted:
            yield Rejected(paper["paper_id"], "filtered", "evidence of no question")
            continue
        texts = (paper["text"][each["start"] : each["end"]].strip() for each in paper["paragraphs"])
        for position, text in enumerate(texts):
            if len(text.split()) >= LEAST_WORDS:
                names = ("paper_id", "licence", "url")
                yield {
                    "paragraph_id": f"{paper['paper_id']}#{position}",
                    "title": paper["title"] or "",
                    "text": text,
                } | {name: paper[name] for name in names}


@stage(PASSAGES, revision=1, at_most=AtMost(rows=lambda of: of["questions"] * (of["evidence"] + of["asked"] * 1_000)))
def split_passages(
    context: StageContext, questions: Rows, evidence: AllRows, asked: AllRows
) -> Iterator[Row | Rejected]:
    """The paragraphs of each question's papers (`evidence`, else `asked` brings them); a Rejected without any."""
    of_paper = grouped(evidence, "paper_id")
    brought = {row["question_id"]: row for row in asked.as_dicts("question_id", "evidence", "given", "licence", "url")}
    for question in questions:
        found = 0
        for document in question["documents"]:
            paragraphs = of_paper.get(document["paper_id"]) or _brought(brought.get(question["question_id"]), document)
            for paragraph in paragraphs:
                found += 1
                names = ("paper_id", "title", "text", "licence", "url")
                yield {
                    "passage_id": f"{question['question_id']}/{paragraph['paragraph_id']}",
                    "question_id": question["question_id"],
                    **{name: paragraph[name] for name in names},
                }
        if not found:
            yield Rejected(question["question_id"], "defect", "no passage of its papers")


def _brought(asked: Row | None, document: Row) -> list[Row]:
    """The paragraphs of a paper that a question's file brings, as rows of EVIDENCE; [] if it brings none."""
    if asked is None:
        return []
    names = names_of_paper(document["paper_id"], document["title"])
    places = [place for place, paper in enumerate(asked["evidence"]) if imported_id(paper) in names]
    texts = [each["text"] for each in asked["given"] if each["paper"] in places]
    same = {**document, "licence": asked["licence"], "url": None}
    return [{**same, "paragraph_id": f"{document['paper_id']}#{n}", "text": text} for n, text in enumerate(texts)]
