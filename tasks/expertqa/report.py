"""The report of the expertqa dataset: its stages' columns, read once each, as the paper's tables and plots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import duckdb
import pyarrow as pa

from longform.artifacts.rows import Row, Rows, read_parquet
from tasks.expertqa.answers.citations import without_marks
from tasks.expertqa.estimates.autoais import disagreements
from tasks.expertqa.tables import tables as made
from tasks.expertqa.tables.agreement import agreement
from tasks.expertqa.tables.figures import plots
from tasks.expertqa.vocabulary import LABELLED
from tasks.metrics.entailment import lexical_entailment
from tasks.publishing.card import Figure, ReportTable

CLAIMS = (
    *("claim_id", "answer_id", "system", "field", "question_types", "random_split", *LABELLED),
    *("autoais", "autoais_backend", "fact_score", "fact_score_model"),
)
QUESTIONS = ("question_id", "field", "question_types")
PREDICTIONS = ("question_id", "model", "zero_shot", "config", "rouge1", "rouge2", "rougeL", "qafacteval")
GIVEN = ("label_id", "answer_id", "question_id", "system", "annotator_id", "usefulness")
CLAIMS_OF_LABELS = [f"claims.list.element.{name}" for name in ("claim_id", *LABELLED)]


def tables(
    questions: Rows,
    answers: Rows,
    samples: Rows,
    claims: Rows,
    attributions: Rows,
    labels: Rows,
    second_labels: Rows,
    entailed: Rows,
    predictions: Rows,
    random: Rows,
    domain: Rows,
) -> list[ReportTable]:
    """Tables 2, 4 to 9 and 14, and figures 4, 5 and 8 to 10 as tables. `claims` are the published ones."""
    asked, said = list(read(questions, QUESTIONS)), list(read(claims, CLAIMS))
    sampled = list(read(samples, ("answer_id", "system")))
    predicted, given = list(read(predictions, PREDICTIONS)), _labels(labels)
    backends = {row["autoais_backend"] for row in said if row["autoais_backend"]}
    judges = {row["fact_score_model"] for row in said if row["fact_score_model"]}
    tests = {"random": _tests(random), "domain": _tests(domain)}
    fields = {row["question_id"]: row["field"] for row in asked}
    return [
        made.question_types(asked),
        made.systems(read(answers, ("system", "kind", "abstention")), sampled),
        made.attribution(said, backends),
        made.attribution_against_people(said, backends),
        made.imported_against_people(said, read(entailed, ("claim_id", "model", "attributable"))),
        made.attribution_disagreements(_disagreed(said, claims, attributions), backends),
        made.factuality(said, judges),
        made.predictions(predicted, tests, zero_shot=False),
        made.predictions(predicted, tests, zero_shot=True),
        made.second_labelling(given, _labels(second_labels), fields),
        *made.by_systems(answers_of([*sampled, *said], given), said),
        made.types_table(asked),
        *made.by_fields_or_types(said, "field"),
        *made.by_fields_or_types(said, "question_types"),
    ]


def figures(questions: Rows, claims: Rows, labels: Rows, second_labels: Rows) -> list[Figure]:
    """Figures 4, 5 and 8 to 10 as plots; those that would be empty are left out. `claims` are the published ones."""
    asked, said, given = list(read(questions, QUESTIONS)), list(read(claims, CLAIMS)), _labels(labels)
    fields = {row["question_id"]: row["field"] for row in asked}
    return plots(asked, answers_of(said, given), said, agreement(given, _labels(second_labels), fields))


def read(rows: Rows, columns: Sequence[str]) -> Iterator[Row]:
    for batch in rows.batches(list(columns)):
        yield from batch.to_pylist()


def answers_of(rows: Iterable[Row], labels: Iterable[Row]) -> list[Row]:
    """Each answer of `rows` (answers or their claims) and labels, once: its system, and what its first labels say."""
    found = {row["answer_id"]: {"system": row["system"], "usefulness": None} for row in rows}
    first = {row["answer_id"]: row for row in reversed(list(labels))}
    return list((found | first).values())


def _labels(rows: Rows) -> list[Row]:
    """In the order in which the first of an answer counts."""
    return sorted(read(rows, (*GIVEN, *CLAIMS_OF_LABELS)), key=lambda row: str(row["label_id"]))


def _tests(split: Rows) -> int:
    """The questions of its test side."""
    return len({row["question_id"] for row in read(split, ("question_id", "split")) if row["split"] == "test"})


def _disagreed(said: Sequence[Row], claims: Rows, attributions: Rows) -> list[Row]:
    """The claims of table 7 with their texts: read of these alone, as evidence is long."""
    scores = {row["claim_id"]: row["score"] for row in read(attributions, ("claim_id", "score"))}
    chosen = disagreements(({**row, "score": scores.get(row["claim_id"]), "sources": 0} for row in said), made.SHOWN)
    wanted = [row["claim_id"] for row in chosen]
    shown = {row["claim_id"]: row for row in _of(claims, ("claim_id", "claim", "evidence", "evidence_urls"), wanted)}
    was_read = {row["claim_id"]: row["evidence"] for row in _of(attributions, ("claim_id", "evidence"), wanted)}
    return [{**row, **_texts(shown[row["claim_id"]], was_read.get(row["claim_id"]))} for row in chosen]


def _texts(claim: Row, was_read: str | None) -> Row:
    texts = sources_of(claim)
    shared = lexical_entailment("\n".join(texts), without_marks(claim["claim"])) if texts else None
    return {"claim": claim["claim"], "evidence": was_read, "sources": len(texts), "shared": shared}


def sources_of(claim: Row) -> list[str]:
    """The texts, each once, that are its evidence; addresses alone are none."""
    pairs = zip(claim["evidence"], claim["evidence_urls"], strict=True)
    return list(dict.fromkeys(text for text, url in pairs if text.strip() and text != url))


def _of(rows: Rows, columns: Sequence[str], claim_ids: Sequence[str]) -> list[Row]:
    if not claim_ids:
        return []
    with duckdb.connect(config={"memory_limit": "512MB", "threads": 1}) as database:
        database.register("wanted", pa.table({"claim_id": list(claim_ids)}))
        query = f"SELECT {', '.join(columns)} FROM {read_parquet(rows.paths)} SEMI JOIN wanted USING (claim_id)"
        found: list[Row] = database.sql(query).to_arrow_table().to_pylist()
    return found
