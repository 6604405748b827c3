"""The published tables: long-form questions with revised answers in two splits (section 6), and all claims.

The sides are those of `deal_sides`. Inputs are joined one question at a time: DuckDB, with 512 MB and a
folder to spill to, sorts each input by question, so that memory holds the rows of one question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from longform.artifacts.parts import key_hash
from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import grouped, read_parquet
from longform.engine.stage import AllRows, AtMost, PerGroup, Rejected, Row, Rows, StageContext, stage
from schemas.expertqa import DOMAIN_SPLIT, PUBLISHED_CLAIMS, RANDOM_SPLIT, SOURCES
from tasks.expertqa.annotators import decided
from tasks.expertqa.answers.audits import OF_REVISIONS
from tasks.expertqa.answers.citations import cited_numbers
from tasks.expertqa.answers.plain import plain, sources_of
from tasks.expertqa.estimates.autoais import RELEASED, released_claim
from tasks.expertqa.estimates.factscore import fact_score, judgements_of
from tasks.publishing.audits import audited

BATCH_ROWS = 500
KINDS = ("corpus", "web", "cited")
QUESTION = ("question_id", "question", "field", "specific_field", "question_types", "licence")
ANSWER = ("answer_id", "question_id", "text", "model", "response")
CITING = (*ANSWER, "cited")
EVIDENCE = ("claim_id", "answer_id", "question_id", "evidence")
CLAIM = ("claim_id", "answer_id", "question_id", "system", "position", "text", "start", "end", "evidence", "original")
ATTRIBUTION = ("claim_id", "question_id", "attributable", "backend")
FACT = ("fact_id", "claim_id", "question_id", "position", "text", "model")
JUDGEMENT = ("fact_id", "question_id", "is_true", "model")
SIDE_COLUMNS = {  # of SIDES -> of PUBLISHED_CLAIMS
    "random": "random_split",
    "domain": "domain_split",
    "random_from": "random_split_from",
    "domain_from": "domain_split_from",
}
SIDE = ("question_id", *SIDE_COLUMNS)

# ---------------------------------------------------------------- long-form questions


@stage(RANDOM_SPLIT, revision=7, split_by="split", at_most=AtMost(rows=lambda of: of["revised"]))
def split_randomly(
    context: StageContext, revised: PerGroup, questions: PerGroup, answers: PerGroup, claims: PerGroup, sides: PerGroup
) -> Iterator[Row | Rejected]:
    """Long-form questions with their revised answers, each on its question's side of the random split. A Rejected for
    each revision that an audit finds, or of which nothing but marks is there. Counts marks without a source.
    """
    rows = _long_form(context, "random", revised, questions, answers, claims, sides)
    yield from audited(rows, OF_REVISIONS, "revised_id")


@stage(DOMAIN_SPLIT, revision=7, split_by="split", at_most=AtMost(rows=lambda of: of["revised"]))
def split_by_field(
    context: StageContext, revised: PerGroup, questions: PerGroup, answers: PerGroup, claims: PerGroup, sides: PerGroup
) -> Iterator[Row | Rejected]:
    """Long-form questions with their revised answers, each on its question's side of the split by field. Rejecteds and
    counts as of `split_randomly`.
    """
    rows = _long_form(context, "domain", revised, questions, answers, claims, sides)
    yield from audited(rows, OF_REVISIONS, "revised_id")


def _long_form(
    context: StageContext, config: str, revised: Rows, questions: Rows, answers: Rows, claims: Rows, sides: Rows
) -> Iterator[Row | Rejected]:
    """The rows of LONG_FORM of all revised answers, question by question, within one by system; a Rejected for each of
    which nothing but marks is there. `config`: random or domain.
    """
    side = ("question_id", config, f"{config}_from")
    inputs = ((revised, ()), (questions, QUESTION), (answers, CITING), (claims, EVIDENCE), (sides, side))
    for _, (texts, [question], own, evidence, [dealt]) in joined(context, *inputs):
        claims_of = grouped(evidence, "answer_id")
        by_id = {answer["answer_id"]: answer for answer in own}
        placed = {"split_from": dealt[f"{config}_from"], "split": dealt[config]}
        for row in sorted(texts, key=lambda row: (row["system"], row["revised_id"])):
            answer = by_id[row["answer_id"]]
            sources = sources_of(row["text"], answer["cited"], claims_of.get(answer["answer_id"], ()))
            numbers = {source["number"] for source in sources}
            context.count("marks without a source", sum(number not in numbers for number in cited_numbers(row["text"])))
            made = long_form_row(config, row, question, answer, {**placed, "sources": sources})
            yield (
                made if made["answer"] else Rejected(row["revised_id"], "defect", "nothing but marks", raw=row["text"])
            )


def long_form_row(config: str, revised: Row, question: Row, answer: Row, placed: Row) -> Row:
    """A row of LONG_FORM. `model` and `response` are those of the revision if a model made it, else those of the
    answer.

    `config`: random or domain. `revised`, `question`, `answer`: rows of REVISED, QUESTIONS and ANSWERS. `placed`: the
    columns `split`, `split_from` and `sources`.
    """
    by_model = revised["revised_by"] == "model"
    return {
        "row_id": f"l_{fingerprint([config, revised['revised_id']])}",
        "question_id": revised["question_id"],
        "answer": plain(revised["text"], {one["number"] for one in (*placed["sources"], *answer["cited"])} - {None}),
        "cited_answer": revised["text"],
        **{name: question[name] for name in ("question", "field", "specific_field", "question_types", "licence")},
        "system": revised["system"],
        "original_answer": answer["text"],
        "revised_by": revised["revised_by"],
        "annotator_id": revised["annotator_id"],
        **{name: (revised if by_model else answer)[name] for name in ("model", "response")},
        "answer_id": revised["answer_id"],
        "revised_id": revised["revised_id"],
        **placed,
    }


# ---------------------------------------------------------------- joining


def joined(context: StageContext, *inputs: tuple[Rows, Sequence[str]]) -> Iterator[tuple[str, list[list[Row]]]]:
    """(question id, for each input the list of its rows), for each question of the first input, in the order of the
    id's hash. The list is empty for an input without rows of the question.

    `inputs`: (rows, columns to read; empty for all). The rows of a question are ordered by their keys.
    """
    first, _ = inputs[0]
    asked = {row["question_id"] for row in first.as_dicts("question_id")}
    order = sorted(asked, key=lambda question: (key_hash(question), question))
    places = pa.table({"question_id": pa.array(order, pa.string()), "place": pa.array(range(len(order)), pa.int64())})
    config: dict[str, Any] = {"memory_limit": "512MB", "threads": 1, "temp_directory": str(context.scratch())}
    with duckdb.connect(config=config) as database:
        streams = [
            _grouped(database.cursor(), rows, columns, places) if rows.count else iter(()) for rows, columns in inputs
        ]
        heads = [next(stream, None) for stream in streams]
        for question in order:
            found: list[list[Row]] = []
            for number, head in enumerate(heads):
                there = head is not None and head[0] == question
                found.append(head[1] if head is not None and there else [])
                heads[number] = next(streams[number], None) if there else head
            yield question, found


def _grouped(
    database: duckdb.DuckDBPyConnection, rows: Rows, columns: Sequence[str], places: pa.Table
) -> Iterator[tuple[str, list[Row]]]:
    """(question id, its rows ordered by key), in the order of `places`, a table of question ids and their positions in
    the result. Left out are questions that it lacks, and those without rows. `columns`: those to read; empty for all.
    """
    database.register("places", places)
    query = f"""
        SELECT {", ".join(f'r."{name}"' for name in columns or rows.schema.names)}
        FROM {read_parquet(rows.paths)} AS r JOIN places USING (question_id) ORDER BY place, r.{rows.key}
    """
    batches = database.sql(query).to_arrow_reader(BATCH_ROWS)
    ordered = (row for batch in batches for row in batch.to_pylist())
    yield from ((question, list(group)) for question, group in groupby(ordered, itemgetter("question_id")))


# ---------------------------------------------------------------- claims and sources


@stage(PUBLISHED_CLAIMS, revision=4, split_by="split")
def publish_claims(
    context: StageContext,
    claims: PerGroup,
    questions: PerGroup,
    answers: PerGroup,
    labels: PerGroup,
    attributions: PerGroup,
    facts: PerGroup,
    judged: PerGroup,
    sides: PerGroup,
    *,
    released_scores: bool,
) -> Iterator[Row]:
    """Each claim with its question, answer, evidence, an annotator's labels, AutoAIS and FActScore; question by
    question, within one by system, answer and position.

    Labels are those of a majority (see tasks/expertqa/annotators.py). Atomic claims are all of `facts`,
    also those without a verdict in `judged`. With `released_scores`, atomic claims and FActScore are those of the
    released file instead, none for claims that were not released. `sides`: the side of each question, whether or not a
    revised answer of it is published. Counts atomic claims without a verdict, and released scores that are no number
    from 0 to 1.
    """
    inputs = [(claims, CLAIM), (questions, QUESTION), (answers, ANSWER), (labels, ()), (attributions, ATTRIBUTION)]
    for _, found in joined(context, *inputs, (facts, FACT), (judged, JUDGEMENT), (sides, SIDE)):
        own, [question], own_answers, own_labels, entailed, atomic_claims, verdicts, [dealt] = found
        answer_by_id = {answer["answer_id"]: answer for answer in own_answers}
        labels_by_answer = grouped(own_labels, "answer_id")
        attribution = {row["claim_id"]: row for row in entailed}
        atomic = judgements_of(atomic_claims, verdicts)
        context.count(
            "atomic claims without a verdict", sum(row["is_true"] is None for of in atomic.values() for row in of)
        )
        for claim in sorted(own, key=lambda claim: (claim["system"], claim["answer_id"], claim["position"])):
            answer, key = answer_by_id[claim["answer_id"]], claim["claim_id"]
            released = released_claim(claim) if released_scores else {}
            score = released_score(released) if released_scores else {}
            unusable = released.get("fact_score") is not None and score["fact_score"] is None
            context.count("released scores that are no number from 0 to 1", int(unusable))
            yield {
                **claim_columns(claim, question, answer),
                **decided(key, labels_by_answer[claim["answer_id"]]),
                **estimate_columns(attribution.get(key), atomic.get(key, [])),
                **score,
                **{column: dealt[side] for side, column in SIDE_COLUMNS.items()},
                "split": "full",
            }


def claim_columns(claim: Row, question: Row, answer: Row) -> Row:
    """The columns of PUBLISHED_CLAIMS that come from the claim, its question and its answer. A piece of evidence
    without a text stands as its address, else as its released text.
    """
    return {
        **{name: claim[name] for name in ("claim_id", "answer_id", "question_id", "system", "position")},
        **{name: question[name] for name in ("question", "field", "question_types", "licence")},
        "answer": answer["text"],
        "claim": claim["text"],
        **{name: claim[name] for name in ("start", "end")},
        "evidence": [one["text"] or one["url"] or one["given"] or "" for one in claim["evidence"]],
        "evidence_urls": [one["url"] or "" for one in claim["evidence"]],
        **{name: answer[name] for name in ("model", "response")},
    }


def estimate_columns(attribution: Row | None, facts: Sequence[Row]) -> Row:
    """The columns of PUBLISHED_CLAIMS with AutoAIS and FActScore; null or empty if there are no estimates.

    `attribution`: the claim's row of ATTRIBUTIONS, None if it has none. `facts`: its atomic claims as in
    `judgements_of`.
    """
    judgements = [fact["is_true"] for fact in facts]
    return {
        "autoais": attribution and attribution["attributable"],
        "autoais_backend": attribution and attribution["backend"],
        "atomic_claims": [fact["text"] for fact in facts],
        "atomic_claims_model": next((fact["model"] for fact in facts if fact["model"]), None),
        "atomic_judgements": judgements,
        "fact_score": fact_score(judgements),
        "fact_score_model": next((fact["judge"] for fact in facts if fact["judge"]), None),
    }


def released_score(released: Row) -> Row:
    """The columns of FActScore in PUBLISHED_CLAIMS from the released JSON of a claim; a score that is no number in [0,
    1] counts as unscored (None). Atomic claims that are no texts are left out, and none has a judgement.
    """
    atomic, score = released.get("atomic_claims"), released.get("fact_score")
    texts = [text for text in atomic if isinstance(text, str)] if isinstance(atomic, list) else []
    value = score if isinstance(score, int | float) and not isinstance(score, bool) else -1
    scored = 0 <= value <= 1
    return {
        "atomic_claims": texts,
        "atomic_judgements": [None] * len(texts),
        "fact_score": float(value) if scored else None,
        "fact_score_model": RELEASED if scored else None,
    }


@stage(SOURCES, revision=1)
def name_sources(
    context: StageContext, claims: Rows, questions: PerGroup, corpus: AllRows, pages: AllRows
) -> Iterator[Row]:
    """The sources of the published claims: for each question a row for the question itself, and one for every address
    in its evidence; in the order of the claims.

    An address that has several kinds gets the first of corpus, web, cited. Title, licence and time of retrieval of an
    address come from the first document of `corpus` or `pages` that has it, else are null.
    """
    named: dict[str, dict[str, str]] = {}
    for claim in claims:
        cites = named.setdefault(claim["question_id"], {})
        for text, url in zip(claim["evidence"], claim["evidence_urls"], strict=True):
            if url:
                kind = address_kind(claim["system"], text, url)
                cites[url] = min(kind, cites.get(url, kind), key=KINDS.index)
    licences = {row["question_id"]: row["licence"] for row in questions.as_dicts("question_id", "licence")}
    known = _documents((corpus, pages), {url for cites in named.values() for url in cites})
    for question_id, cites in named.items():
        yield source_row(question_id, "question", None, {"licence": licences[question_id]})
        yield from (source_row(question_id, kind, url, known.get(url, {})) for url, kind in cites.items())


def address_kind(system: str, text: str, url: str) -> str:
    """The kind of an address in evidence: `corpus` or `web` if a passage of it was retrieved, by a system whose name
    has `_sphere` or `_gs`; else `cited`.

    `text`: the piece of evidence, equal to `url` if only the address is known.
    """
    if text != url and "_sphere" in system:
        return "corpus"
    return "web" if text != url and "_gs" in system else "cited"


def source_row(question_id: str, kind: str, url: str | None, facts: Row) -> Row:
    """A row of SOURCES. `kind`: question, corpus, web or cited. `url`: None for a question. `facts` may have title,
    licence and retrieved_at; missing ones are null.
    """
    return {
        "source_id": f"s_{fingerprint([question_id, url])}",
        "question_id": question_id,
        "kind": kind,
        "url": url,
        **{name: facts.get(name) for name in ("title", "licence", "retrieved_at")},
    }


def _documents(tables: Iterable[Rows], urls: set[str]) -> dict[str, Row]:
    """Address -> title, licence and time of retrieval of the first document with this address in these tables of
    DOCUMENTS. Addresses that none has are left out.
    """
    found: dict[str, Row] = {}
    wanted = pa.array(sorted(urls), pa.string())
    for rows in tables:
        for batch in rows.batches(["url", "title", "licence", "retrieved_at"], 20_000) if urls else ():
            for row in batch.filter(pc.is_in(batch.column("url"), wanted)).to_pylist():
                found.setdefault(row["url"], row)
    return found
