"""The published tables: feedback with the verdicts of all layers, its critiques, and where texts come from."""

from __future__ import annotations

from collections.abc import Iterator

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import AllRows, Rejected, Row, Rows, grouped
from longform.engine.stage import AtMost, StageContext, stage
from schemas.llmcrit import ORIGINS, PUBLISHED_CRITIQUES, PUBLISHED_FEEDBACK
from tasks.llmcrit.criteria.criteria import label

FROM = ("source_id", "licence", "url", "authors", "retrieved_at")


@stage(PUBLISHED_FEEDBACK, revision=1, split_by="split", at_most=AtMost(rows=lambda sizes: sizes["feedback"]))
def publish_feedback(
    context: StageContext,
    feedback: Rows,
    validity: AllRows,
    belongs: AllRows,
    critiques: Rows,
    texts: Rows,
    aspects: AllRows,
) -> Iterator[Row]:
    """Each feedback with its text and with what each layer says of it; null and 0 where a layer did not judge it.
    `belongs`: rows of CONTEXT.
    """
    of_text = {row["text_id"]: row for row in texts.as_dicts("text_id", "text", "modified", *FROM)}
    names = {row["aspect_id"]: row["name"] for row in aspects.as_dicts("aspect_id", "name")}
    valid, matches = (
        {row["feedback_id"]: row["verdict"] for row in rows.as_dicts("feedback_id", "verdict")}
        for rows in (validity, belongs)
    )
    judged = grouped(critiques.as_dicts("feedback_id", "constructive", "helpful"), "feedback_id")
    for row in feedback:
        own = judged[row["feedback_id"]]
        yield {
            **row,
            **of_text[row["text_id"]],
            "aspect": names.get(row["aspect_id"]),
            "validity": valid.get(row["feedback_id"]),
            "context": matches.get(row["feedback_id"]),
            "judged": len(own),
            "touched": sum(each["constructive"] for each in own),
            "helped": sum(each["helpful"] is True for each in own),
            "split": row["task"],
        }


@stage(PUBLISHED_CRITIQUES, revision=1, split_by="split", at_most=AtMost(rows=lambda sizes: sizes["critiques"]))
def publish_critiques(
    context: StageContext, critiques: Rows, feedback: Rows, texts: Rows, criteria: AllRows
) -> Iterator[Row | Rejected]:
    """What real feedback says with regard to each criterion; a Rejected for planted feedback."""
    names = ("feedback_id", "strategy", "granularity", "model")
    asked = {row["feedback_id"]: row for row in feedback.as_dicts(*names)}
    violated = {row["text_id"]: set(row["violated"]) for row in texts.as_dicts("text_id", "violated")}
    labels = {row["criterion_id"]: label(row) for row in criteria.as_dicts("criterion_id", "name", "check")}
    for row in critiques:
        if row["planted"]:
            yield Rejected(row["critique_id"], "filtered", "planted to check the judge")
            continue
        of = asked[row["feedback_id"]]
        yield {
            **row,
            "strategy": of["strategy"],
            "granularity": of["granularity"],
            "writer": of["model"],
            "criterion": labels[row["criterion_id"]],
            "violated": row["criterion_id"] in violated[row["text_id"]],
            "split": row["task"],
        }


@stage(ORIGINS, revision=1, at_most=AtMost(rows=lambda sizes: sizes["drawn"] + sizes["aspects"]))
def name_sources(
    context: StageContext, drawn: AllRows, demonstrations: AllRows, aspects: AllRows
) -> Iterator[Row | Rejected]:
    """The record of each test text and of each text that became a demonstration, and the document of each guideline; a
    Rejected for a text that became none.
    """
    used = {row["text_id"] for row in demonstrations.as_dicts("text_id")}
    for row in drawn.as_dicts("text_id", "task", "use", *FROM):
        if row["use"] == "test" or row["text_id"] in used:
            yield _origin(row["text_id"], row["use"], row["source_id"], row)
        else:
            yield Rejected(row["text_id"], "filtered", "no demonstration was made of it")
    for row in aspects:
        authors = [row["source"]] if row["source"] else []
        of_document = {"task": row["task"], "licence": row["licence"], "authors": authors}
        yield _origin(row["aspect_id"], "guideline", row["file"], of_document)


def _origin(used_by: str, kind: str, record_id: str, record: Row) -> Row:
    """A row of ORIGINS; what the record does not say is null."""
    return {
        "origin_id": f"o_{fingerprint([used_by, kind, record_id])}",
        "used_by": used_by,
        "kind": kind,
        "record_id": record_id,
        **{name: record.get(name) for name in ("task", *FROM[1:])},
    }
