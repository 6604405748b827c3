"""The published tables: long-form questions with revised answers in two splits (section 6), and all claims.

A question is on one side with every revised answer it has, and with every question of the same text (white space and
case folded). Sides are ranges of the rank of a hash: the same whatever order the rows came in.

Inputs are joined question by question: DuckDB, with 512 MB and a folder to spill to, brings each into the order of
the questions; of their rows memory holds one question's at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from operator import itemgetter
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from longform.artifacts.parts import key_hash
from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import read_parquet
from longform.engine.stage import AllRows, AtMost, PerGroup, Row, Rows, StageContext, stage
from longform.errors import UsageError
from schemas.expertqa import DOMAIN_SPLIT, PUBLISHED_CLAIMS, RANDOM_SPLIT, SOURCES
from tasks.expertqa.estimates.autoais import RELEASED, released_claim
from tasks.expertqa.estimates.factscore import fact_score, judgements_of

BATCH_ROWS = 500
SIDES = ("train", "validation", "test")
KINDS = ("corpus", "web", "cited")
QUESTION = ("question_id", "question", "field", "specific_field", "question_types", "licence")
ANSWER = ("answer_id", "question_id", "text", "model", "response")
CLAIM = ("claim_id", "answer_id", "question_id", "system", "position", "text", "start", "end", "evidence", "original")
ATTRIBUTION = ("claim_id", "question_id", "attributable", "backend")
FACT = ("fact_id", "claim_id", "question_id", "position", "text", "model")
JUDGEMENT = ("fact_id", "question_id", "is_true", "model")
CLAIM_LABELS = (
    "support",
    "reason_missing_support",
    "informativeness",
    "worthiness",
    "correctness",
    "reliability",
    "revised_claim",
)

# ---------------------------------------------------------------- splits


@stage(RANDOM_SPLIT, revision=1, split_by="split", at_most=AtMost(rows=lambda of: of["revised"]))
def split_randomly(
    context: StageContext, revised: PerGroup, questions: PerGroup, answers: PerGroup, *, seed: int, shares: list[float]
) -> Iterator[Row]:
    """Long-form questions, drawn at random: `shares` of the distinct questions to train, validation and test."""
    asked = _asked(revised, questions)
    sides = random_sides([folded(text) for text, _ in asked.values()], seed=seed, shares=shares)
    yield from _long_form(context, "random", revised, questions, answers, sides)


@stage(DOMAIN_SPLIT, revision=1, split_by="split", at_most=AtMost(rows=lambda of: of["revised"]))
def split_by_field(
    context: StageContext, revised: PerGroup, questions: PerGroup, answers: PerGroup, *, seed: int, shares: list[float]
) -> Iterator[Row]:
    """Long-form questions, where of each field `shares` go to train, validation and test."""
    asked = _asked(revised, questions)
    sides = field_sides([(folded(text), field) for text, field in asked.values()], seed=seed, shares=shares)
    yield from _long_form(context, "domain", revised, questions, answers, sides)


def random_sides(texts: Iterable[str], *, seed: int, shares: Sequence[float]) -> dict[str, str]:
    """text -> side: of n distinct texts exactly the shares, rounded by largest remainder, earlier sides first."""
    ranked = _ranked(texts, seed)
    return _dealt(ranked, rounded(len(ranked), _exact(shares), [Fraction(0)] * len(SIDES)))


def field_sides(texts: Iterable[tuple[str, str]], *, seed: int, shares: Sequence[float]) -> dict[str, str]:
    """text -> side, given (text, field): of each field each side's share, rounded up or down.

    Which is rounded up: the side that the fields before, in the order of their names, left furthest below its share;
    of equals the earlier side. So fields of 1 to 9 questions, which cannot be shared out 80/10/10, go to train first,
    and together they still come as near to the shares as can be. A text of two fields counts in the first by name.
    """
    exact, owed = _exact(shares), [Fraction(0)] * len(SIDES)
    fields: dict[str, str] = {}
    for text, field in texts:
        fields[text] = min(field, fields.get(text, field))
    sides: dict[str, str] = {}
    for field in sorted(set(fields.values())):
        ranked = _ranked((text for text, own in fields.items() if own == field), seed)
        sizes = rounded(len(ranked), exact, owed)
        owed = [debt + share * len(ranked) - size for debt, share, size in zip(owed, exact, sizes, strict=True)]
        sides |= _dealt(ranked, sizes)
    return sides


def rounded(n: int, shares: Sequence[Fraction], owed: Sequence[Fraction]) -> list[int]:
    """The shares of n as whole numbers that sum to n, each rounded up or down.

    Up where the remainder and what the side is `owed` from before are largest; of equals the first.
    """
    sizes = [int(share * n) for share in shares]
    rest = [share * n - size for share, size in zip(shares, sizes, strict=True)]
    open_sides = [side for side, remainder in enumerate(rest) if remainder]
    open_sides.sort(key=lambda side: (-(rest[side] + owed[side]), side))
    for side in open_sides[: n - sum(sizes)]:
        sizes[side] += 1
    return sizes


def folded(text: str) -> str:
    """What two equal questions have in common: white space and case aside."""
    return " ".join(text.split()).casefold()


def _exact(shares: Sequence[float]) -> list[Fraction]:
    exact = [Fraction(str(share)) for share in shares]
    if len(exact) != len(SIDES) or sum(exact) != 1 or min(exact) < 0:
        raise UsageError(
            f"The shares {list(shares)} are no split: give three of 0 or more that sum to 1, such as 0.8, 0.1 and 0.1."
        )
    return exact


def _ranked(texts: Iterable[str], seed: int) -> list[str]:
    return sorted(set(texts), key=lambda text: (key_hash(f"{seed}\x1f{text}"), text))


def _dealt(ranked: Sequence[str], sizes: Sequence[int]) -> dict[str, str]:
    sides = [side for side, size in zip(SIDES, sizes, strict=True) for _ in range(size)]
    return dict(zip(ranked, sides, strict=True))


def _asked(revised: Rows, questions: Rows) -> dict[str, tuple[str, str]]:
    """question_id -> text and field of the questions that have a revised answer."""
    wanted = set(_column(revised, "question_id"))
    columns = (_column(questions, name) for name in ("question_id", "question", "field"))
    return {key: (text, field) for key, text, field in zip(*columns, strict=True) if key in wanted}


def _long_form(
    context: StageContext,
    config: str,
    revised: Rows,
    questions: Rows,
    answers: Rows,
    sides: Mapping[str, str],
) -> Iterator[Row]:
    for _, (texts, [question], given) in joined(context, (revised, ()), (questions, QUESTION), (answers, ANSWER)):
        answered = {answer["answer_id"]: answer for answer in given}
        side = sides[folded(question["question"])]
        for row in sorted(texts, key=lambda row: (row["system"], row["revised_id"])):
            yield long_form_row(config, row, question, answered[row["answer_id"]], side)


def long_form_row(config: str, revised: Row, question: Row, answer: Row, side: str) -> Row:
    by_model = revised["revised_by"] == "model"
    return {
        "row_id": f"l_{fingerprint([config, revised['revised_id']])}",
        "question_id": revised["question_id"],
        "answer": revised["text"],
        **{name: question[name] for name in ("question", "field", "specific_field", "question_types", "licence")},
        "system": revised["system"],
        "original_answer": answer["text"],
        "revised_by": revised["revised_by"],
        "annotator_id": revised["annotator_id"],
        **{name: (revised if by_model else answer)[name] for name in ("model", "response")},
        "answer_id": revised["answer_id"],
        "revised_id": revised["revised_id"],
        "split": side,
    }


# ---------------------------------------------------------------- joining


def joined(context: StageContext, *inputs: tuple[Rows, Sequence[str]]) -> Iterator[tuple[str, list[list[Row]]]]:
    """(question_id, its rows of each input), for each question of the first, in the order of the hash of its id.

    Inputs come with the columns that are wanted (none: all); rows of one question in the order of their keys.
    """
    first, _ = inputs[0]
    order = sorted(set(_column(first, "question_id")), key=lambda question: (key_hash(question), question))
    places = pa.table({"question_id": pa.array(order, pa.string()), "place": pa.array(range(len(order)), pa.int64())})
    config: dict[str, Any] = {"memory_limit": "512MB", "threads": 1, "temp_directory": str(context.scratch())}
    with duckdb.connect(config=config) as database:
        streams = [_grouped(database.cursor(), rows, columns, places) for rows, columns in inputs]
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
    """(question_id, rows) in the order of `places`, of the questions that stand there."""
    if not rows.count:
        return
    database.register("places", places)
    query = f"""
        SELECT {", ".join(f'r."{name}"' for name in columns or rows.schema.names)}
        FROM {read_parquet(rows.paths)} AS r JOIN places USING (question_id) ORDER BY place, r.{rows.key}
    """
    batches = database.sql(query).to_arrow_reader(BATCH_ROWS)
    ordered = (row for batch in batches for row in batch.to_pylist())
    yield from ((question, list(group)) for question, group in groupby(ordered, itemgetter("question_id")))


def _column(rows: Rows, name: str) -> Iterator[Any]:
    return (value for batch in rows.batches([name], 20_000) for value in batch.column(0).to_pylist())


# ---------------------------------------------------------------- claims and sources


@stage(PUBLISHED_CLAIMS, revision=2, split_by="split")
def publish_claims(
    context: StageContext,
    claims: PerGroup,
    questions: PerGroup,
    answers: PerGroup,
    labels: PerGroup,
    attributions: PerGroup,
    facts: PerGroup,
    judged: PerGroup,
    random: PerGroup,
    domain: PerGroup,
    *,
    released_scores: bool,
) -> Iterator[Row]:
    """Each claim with its question, answer and evidence, what people say of it, and what models estimate.

    Of several annotators of an answer the first by `label_id` is shown. Atomic claims are all of `facts`, also those
    that `judged` has no verdict of. With `released_scores` FActScore is what a claim came with.
    """
    sides = {
        "random_split": dict(zip(_column(random, "question_id"), _column(random, "split"), strict=True)),
        "domain_split": dict(zip(_column(domain, "question_id"), _column(domain, "split"), strict=True)),
    }
    inputs = [(claims, CLAIM), (questions, QUESTION), (answers, ANSWER), (labels, ()), (attributions, ATTRIBUTION)]
    for question_id, found in joined(context, *inputs, (facts, FACT), (judged, JUDGEMENT)):
        own, [question], given, labelled, entailed, broken, verdicts = found
        answered = {answer["answer_id"]: answer for answer in given}
        said = {label["answer_id"]: label for label in reversed(labelled)}
        estimated = {row["claim_id"]: row for row in entailed}
        atomic = judgements_of(broken, verdicts)
        context.count(
            "atomic claims without a verdict", sum(row["is_true"] is None for of in atomic.values() for row in of)
        )
        split = {name: side.get(question_id) for name, side in sides.items()}
        for claim in sorted(own, key=lambda claim: (claim["system"], claim["answer_id"], claim["position"])):
            answer, key = answered[claim["answer_id"]], claim["claim_id"]
            came = released_claim(claim) if released_scores else {}
            score = released_score(came) if released_scores else {}
            unread = came.get("fact_score") is not None and score["fact_score"] is None
            context.count("released scores that are no number from 0 to 1", int(unread))
            yield {
                **claim_columns(claim, question, answer),
                **label_columns(key, said.get(claim["answer_id"])),
                **estimate_columns(estimated.get(key), atomic.get(key, [])),
                **score,
                **split,
                "split": "full",
            }


def claim_columns(claim: Row, question: Row, answer: Row) -> Row:
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


def label_columns(claim_id: str, label: Row | None) -> Row:
    """What one person says of a claim and of its answer; nulls where nobody does."""
    said: Row = next((row for row in (label or {}).get("claims", ()) if row["claim_id"] == claim_id), {})
    return {
        "usefulness": label and label["usefulness"],
        "annotator_id": label and label["annotator_id"],
        **{name: said.get(name) for name in CLAIM_LABELS},
        "revised_evidence": said.get("revised_evidence") or [],
    }


def estimate_columns(attribution: Row | None, facts: Sequence[Row]) -> Row:
    """AutoAIS and FActScore of a claim, by `judgements_of`: the share of true ones among those that were judged."""
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


def released_score(came: Row) -> Row:
    """Atomic claims and FActScore of a released claim; what is no number from 0 to 1 is unscored."""
    atomic, score = came.get("atomic_claims"), came.get("fact_score")
    texts = [text for text in atomic if isinstance(text, str)] if isinstance(atomic, list) else []
    value = float(score) if isinstance(score, int | float) and not isinstance(score, bool) else -1.0
    scored = 0 <= value <= 1
    return {
        "atomic_claims": texts,
        "atomic_judgements": [None] * len(texts),
        "fact_score": value if scored else None,
        "fact_score_model": RELEASED if scored else None,
    }


@stage(SOURCES, revision=1)
def name_sources(
    context: StageContext, claims: Rows, questions: PerGroup, corpus: AllRows, pages: AllRows
) -> Iterator[Row]:
    """What published claims are from: of each question its set, and each address its evidence names, once."""
    named: dict[str, dict[str, str]] = {}
    for claim in claims:
        cites = named.setdefault(claim["question_id"], {})
        for text, url in zip(claim["evidence"], claim["evidence_urls"], strict=True):
            if url:
                kind = address_kind(claim["system"], text, url)
                cites[url] = min(kind, cites.get(url, kind), key=KINDS.index)
    licences = dict(zip(_column(questions, "question_id"), _column(questions, "licence"), strict=True))
    known = _documents((corpus, pages), {url for cites in named.values() for url in cites})
    for question_id, cites in named.items():
        yield source_row(question_id, "question", None, {"licence": licences[question_id]})
        yield from (source_row(question_id, kind, url, known.get(url, {})) for url, kind in cites.items())


def address_kind(system: str, text: str, url: str) -> str:
    """corpus or web where the evidence is a passage that was retrieved, else cited."""
    if text != url and "_sphere" in system:
        return "corpus"
    return "web" if text != url and "_gs" in system else "cited"


def source_row(question_id: str, kind: str, url: str | None, facts: Row) -> Row:
    shown = {name: facts.get(name) for name in ("title", "licence", "retrieved_at")}
    return {
        "source_id": f"s_{fingerprint([question_id, url])}",
        "question_id": question_id,
        "kind": kind,
        "url": url,
        **shown,
    }


def _documents(tables: Iterable[Rows], urls: set[str]) -> dict[str, Row]:
    """url -> what is known of it, by the first document that has it."""
    found: dict[str, Row] = {}
    wanted = pa.array(sorted(urls), pa.string())
    for rows in tables:
        for batch in rows.batches(["url", "title", "licence", "retrieved_at"], 20_000) if urls else ():
            for row in batch.filter(pc.is_in(batch.column("url"), wanted)).to_pylist():
                found.setdefault(row["url"], row)
    return found
