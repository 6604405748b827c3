"""ExpertQA for others: in the form it is released in, as chats to train on, as pairs for an entailment model.

All are JSON objects, one a line. What was imported comes out as it was imported, from the rows that keep it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from longform.artifacts.rows import Row
from longform.errors import StoreError
from tasks.expertqa.answers.citations import without_marks
from tasks.expertqa.bank import released_record
from tasks.expertqa.estimates.autoais import RELEASED
from tasks.expertqa.estimates.factscore import best_passages, fact_score, judgements_of
from tasks.expertqa.exact import write_exact
from tasks.expertqa.vocabulary import type_text

Example = dict[str, Any]

SPLITS = ("train", "validation", "test")
CONFIGS = ("random", "domain")
RATED = ("support", "reason_missing_support", "informativeness", "worthiness", "correctness", "reliability")
REVISED = ("revised_claim", "revised_evidence")
BY_PEOPLE = ("person", "claims")

_LINE_ENDS = str.maketrans({end: f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"})


def line(row: Mapping[str, Any]) -> bytes:
    """One line of a JSONL file, also for readers that take other characters for line ends."""
    return write_exact(row).translate(_LINE_ENDS).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Made:
    """Rows of stages in the order of the questions: what was made of all of them, or of one.

    `claims` have their evidence; `split` are those of answers that were not sampled as well.
    """

    answers: Iterable[Row] = ()
    split: Iterable[Row] = ()
    claims: Iterable[Row] = ()
    labels: Iterable[Row] = ()
    revised: Iterable[Row] = ()
    attributions: Iterable[Row] = ()
    facts: Iterable[Row] = ()
    judged: Iterable[Row] = ()
    found: Iterable[Row] = ()


def examples(
    questions: Iterable[Row], made: Made, *, estimates: bool = False, only_imported: bool = False
) -> Iterator[tuple[str, Example]]:
    """(question id, example) in the released form, in the order of the bank.

    Imported examples are equal to what was imported; answers of our systems stand beside those they came with, or
    are left out. With `estimates` every claim has ours of `atomic_claims`, `atomic_evidences`, `fact_score` and
    `autoais_label`, which take the place of what it came with; where no claim was broken up, or AutoAIS is what was
    released, that stays. StoreError for rows in another order.
    """
    tables = {field.name: InOrder(field.name, getattr(made, field.name)) for field in fields(made)}
    scored = tables["facts"].ahead is not None
    for question in questions:
        own = Made(**{name: table.of(question["question_id"]) for name, table in tables.items()})
        record = released_record(question)
        if record is None and only_imported:
            continue
        estimated = _estimates(own, scored) if estimates else None
        yield question["question_id"], _example(question, record, own, estimated, only_imported)
    for table in tables.values():
        table.check_end()


class InOrder:
    """Takes the rows of one question after the other from a table that is never held whole."""

    def __init__(self, name: str, rows: Iterable[Row]) -> None:
        self.name, self.rows = name, iter(rows)
        self.ahead = next(self.rows, None)

    def of(self, question: str) -> list[Row]:
        found = []
        while self.ahead is not None and self.ahead["question_id"] == question:
            found.append(self.ahead)
            self.ahead = next(self.rows, None)
        return found

    def check_end(self) -> None:
        if self.ahead is not None:
            raise StoreError(
                f"The {self.name} of question {self.ahead['question_id']} are not in the order of the questions: "
                "build the version again with --force read_questions."
            )


def _example(
    question: Row, record: Example | None, own: Made, estimated: Mapping[str, Row] | None, only_imported: bool
) -> Example:
    example = _question(question) if record is None else record
    if estimated:
        _estimate(example, own.answers, estimated)
    ours = {} if only_imported else _ours(own, estimated)
    if not ours:
        return example
    given = example.get("answers")
    came = given if isinstance(given, dict) else {}
    return {**example, "answers": {**came, **{name: answer for name, answer in ours.items() if name not in came}}}


def _question(question: Row) -> Example:
    return {
        "question": question["question"],
        "annotator_id": question["annotator_id"],
        "answers": {},
        "metadata": {
            "question_type": type_text(question["question_types"]),
            "field": question["field"],
            "specific_field": question["specific_field"],
        },
    }


def _ours(own: Made, estimated: Mapping[str, Row] | None) -> Example:
    """system -> answer, of all that did not come with the question; `estimated` by claim id, if they are asked for."""
    labels = {row["answer_id"]: row for row in reversed(list(own.labels))}  # of one answer those of the first person
    revised = {row["answer_id"]: row["text"] for row in own.revised if row["revised_by"] in BY_PEOPLE}
    claims = {**_by_answer(own.split), **_by_answer(own.claims)}
    found = {}
    for answer in own.answers:
        key = answer["answer_id"]
        if answer["kind"] != "released":
            label = labels.get(key, {})
            found[answer["system"]] = {
                "answer_string": answer["text"],
                "attribution": answer["attribution"] or [_cited(source) for source in answer["cited"]],
                "claims": _claims(claims.get(key, []), label.get("claims", []), estimated),
                "revised_answer_string": label.get("revised_answer") or revised.get(key),
                "usefulness": label.get("usefulness"),
                "annotation_time": _milliseconds(label),
                "annotator_id": label.get("annotator_id"),
            }
    return found


def _milliseconds(label: Row) -> float | None:
    """As the released files count; sheets count in seconds."""
    time = label.get("annotation_time")
    return time if time is None or label["source"] == "released" else 1_000 * time


def _claims(claims: list[Row], labels: list[Row], estimated: Mapping[str, Row] | None) -> list[Example]:
    said = {label["claim_id"]: label for label in labels}
    return [
        {
            "claim_string": claim["text"],
            "evidence": [_evidence(one) for one in claim["evidence"]],
            **{name: said.get(claim["claim_id"], {}).get(name) for name in (*RATED, *REVISED)},
            **({} if estimated is None else UNESTIMATED | estimated.get(claim["claim_id"], {})),
        }
        for claim in claims
    ]


def _cited(source: Row) -> str:
    return f"[{source['number']}] {source['url'] or source['passage_id'] or ''}".rstrip()


def _evidence(one: Row) -> str:
    """'[1] address', with the passage after an empty line where it is known."""
    if one["given"] is not None:
        return str(one["given"])
    number = "" if one["number"] is None else f"[{one['number']}] "
    head = (number + (one["url"] or one["passage_id"] or "")).rstrip()
    return head if one["text"] is None else f"{head}\n\n{one['text']}"


UNESTIMATED: Row = {"atomic_claims": [], "atomic_evidences": [], "fact_score": None, "autoais_label": None}


def _estimates(own: Made, scored: bool) -> dict[str, Row]:
    """claim id -> of the four properties that the full released file has those that are ours."""
    passages = {row["fact_id"]: row["passages"] for row in own.found}
    facts = judgements_of(own.facts, own.judged)
    labels = {row["claim_id"]: _autoais_label(row) for row in own.attributions}
    return {
        claim: (_scores(facts.get(claim, []), passages) if scored else {}) | labels.get(claim, {})
        for claim in [*labels, *facts]
    }


def _scores(facts: list[Row], passages: Mapping[str, list[Row]]) -> Row:
    return {
        "atomic_claims": [fact["text"] for fact in facts],
        "atomic_evidences": [_read(fact, passages.get(fact["fact_id"], [])) for fact in facts],
        "fact_score": fact_score(fact["is_true"] for fact in facts),
    }


def _autoais_label(attribution: Row) -> Row:
    """Nothing where it is what the claim came with."""
    if attribution["backend"] == RELEASED:
        return {}
    return {"autoais_label": {None: None, True: "Y", False: "N"}[attribution["attributable"]]}


def _read(fact: Row, passages: list[Row]) -> str:
    """The passages the judge was given, or their ids where they are gone."""
    texts = {passage["passage_id"]: passage["text"] for passage in passages}
    read = fact["passages"] if fact["passages"] is not None else [row["passage_id"] for row in best_passages(passages)]
    return "\n\n".join(texts.get(key, key) for key in read)


def _estimate(example: Example, answers: Iterable[Row], estimated: Mapping[str, Row]) -> None:
    """Adds the estimates to the claims of the answers that came with a question."""
    released = {row["system"]: row["answer_id"] for row in answers if row["kind"] == "released"}
    for system, key in released.items():
        for position, claim in enumerate(example["answers"][system].get("claims") or []):
            claim.update(estimated.get(f"{key}#{position}", {}))


def _by_answer(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["answer_id"], []).append(row)
    return found


def chats(rows: Iterable[Row], *, split: str) -> Iterator[Example]:
    """Question and revised answer of a long-form split as messages of a user and an assistant."""
    names = ("row_id", "question_id", "answer_id", "revised_id", "system", "field", "revised_by", "split")
    for row in rows:
        if row["split"] == split:
            said = (("user", row["question"]), ("assistant", row["answer"]))
            yield {
                "messages": [{"role": role, "content": text} for role, text in said],
                "metadata": {name: row[name] for name in names},
            }


def entailments(claims: Iterable[Row], *, split: str, config: str) -> Iterator[Example | str]:
    """Claim, evidence, label of the published claims whose question is in the split, or why a claim is left out.

    The label is 1 where a person found complete support, and 0 for partial, incomplete and missing support. Left out
    are claims that nobody judged, claims with no evidence, with evidence of which only the address is known (nothing
    there to entail them), those labelled N/A, whose evidence the judge could not open, and those that are only a
    citation mark. Several pieces of evidence are one text, with empty lines between them; citation marks are taken out
    of the claim.
    """
    for row in claims:
        if row[f"{config}_split"] == split:
            texts = [
                text for text, url in zip(row["evidence"], row["evidence_urls"], strict=True) if text not in (url, "")
            ]
            claim = without_marks(row["claim"]).strip()
            yield _why_no_pair(row, claim, texts) or {
                "claim": claim,
                "evidence": "\n\n".join(texts),
                "label": int(row["support"] == "Complete"),
                "claim_id": row["claim_id"],
            }


def _why_no_pair(row: Row, claim: str, texts: list[str]) -> str | None:
    if row["support"] is None:
        return "nobody judged its support"
    if not row["evidence"]:
        return "no evidence"
    if row["support"] == "N/A":
        return "support N/A"
    if not texts:
        return "only the address of its evidence is known"
    return None if any(map(str.isalnum, claim)) else "no word but citation marks"
