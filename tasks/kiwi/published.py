"""The published tables: turns, sessions, questions, and the papers they are made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import AllRows, Row, Rows, grouped
from longform.engine.stage import AtMost, StageContext, stage
from schemas.kiwi import MEASURES, ORIGINS, PUBLISHED_QUESTIONS, PUBLISHED_SESSIONS, PUBLISHED_TURNS
from tasks.kiwi.audits import SIMULATED
from tasks.kiwi.evaluation import label_of
from tasks.kiwi.interaction import RATINGS
from tasks.kiwi.sessions.turns import paper_of, target_of
from tasks.sources.papers.named import title_id

OF_MEASURES = MEASURES.names[3:]
SEVERAL = "several"  # side of a session or question whose turns stand on more than one


@stage(PUBLISHED_TURNS, revision=1, split_by="split", at_most=AtMost(rows=lambda of: of["turns"]))
def publish_turns(
    context: StageContext, turns: Rows, sides: Rows, categories: Rows, errors: Rows, measures: Rows
) -> Iterator[Row]:
    """Each turn with its side, its label, its category, its error and what an edit took."""
    side = {row["turn_id"]: row["split"] for row in sides}
    category, error = ({row["turn_id"]: row["label"] for row in rows} for rows in (categories, errors))
    taken = {row["turn_id"]: row for row in measures}
    for turn in turns:
        name = turn["turn_id"]
        yield {
            **turn,
            "label": label_of(turn["rating"]),
            "category": category.get(name),
            "error": error.get(name),
            "target": target_of(turn),
            **{column: taken.get(name, {}).get(column) for column in OF_MEASURES},
            "split": side[name],
        }


@stage(PUBLISHED_SESSIONS, revision=1, split_by="split", at_most=AtMost(rows=lambda of: of["sessions"]))
def publish_sessions(context: StageContext, sessions: Rows, sides: Rows) -> Iterator[Row]:
    """Each session without its turns, with their number, ratings and edits, and the side of all of them."""
    side = {row["turn_id"]: row["split"] for row in sides}
    for session in sessions:
        turns = session["turns"]
        ratings = Counter(turn["rating"] for turn in turns)
        found = {side[f"{session['session_id']}#{turn['position']}"] for turn in turns}
        yield {
            **session,
            "turns": len(turns),
            **{name: ratings[name] for name in RATINGS},
            "edits": sum(turn["edited"] is not None for turn in turns),
            "split": found.pop() if len(found) == 1 else SEVERAL,
        }


@stage(PUBLISHED_QUESTIONS, revision=1, split_by="split", at_most=AtMost(rows=lambda of: of["questions"]))
def publish_questions(context: StageContext, questions: Rows, sides: AllRows) -> Iterator[Row]:
    """Each question with the side of its turns by people; `unused` for one without any."""
    of_question = grouped(sides.as_dicts("question_id", "split"), "question_id")
    for question in questions:
        found = {row["split"] for row in of_question[question["question_id"]]} - {SIMULATED}
        yield {**question, "split": (found.pop() if len(found) == 1 else SEVERAL) if found else "unused"}


@stage(ORIGINS, revision=1, at_most=AtMost(rows=lambda of: 20 * of["questions"] + of["sessions"]))
def name_sources(context: StageContext, questions: AllRows, evidence: AllRows, sessions: AllRows) -> Iterator[Row]:
    """The source paper and the evidence papers of each question, and each session with the papers that it shows."""
    papers = {row["paper_id"]: row for row in evidence.as_dicts("paper_id", "title", "licence", "url")}
    named = set[tuple[str, str]]()
    for question in questions:
        key = question["question_id"]
        if question["source_id"] or question["source_paper"]:
            own = {"title": question["source_paper"], "licence": question["licence"], "url": question["url"]}
            yield _origin(key, "source", question["source_id"] or title_id(question["source_paper"]), own)
        for document in question["documents"]:
            named.add((key, document["paper_id"]))
            yield _origin(key, "evidence", document["paper_id"], papers.get(document["paper_id"], document))
    for session in sessions:
        key, own = session["question_id"], {"title": session["source_paper"], "licence": session["licence"]}
        yield _origin(key, "session", session["session_id"], own)
        for passage in chain(session["passages"], *(turn["passages"] for turn in session["turns"])):
            paper_id = paper_of(passage["passage_id"], key)
            if paper_id and (key, paper_id) not in named:
                named.add((key, paper_id))
                yield _origin(key, "evidence", paper_id, papers.get(paper_id, {"title": passage["title"]}))


def _origin(question_id: str, kind: str, record_id: str, record: Row) -> Row:
    """A row of ORIGINS."""
    return {
        "origin_id": f"o_{fingerprint([question_id, kind, record_id])}",
        "question_id": question_id,
        "kind": kind,
        "record_id": record_id,
        **{name: record.get(name) for name in ("title", "licence", "url")},
    }
