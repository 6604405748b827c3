"""Annotation sheets: what an expert is shown of an answer, and the properties to fill in (section 2.2, table 3).

One sheet is one line of the project's own format, where null is what nobody filled in yet:

    {"answer_id": "a_4f…", "question_id": "expertqa/91…", "annotator_id": "e7", "field": "Brewing",
     "question": "How warm is cask ale served?", "answer": "At 12 degrees [1].",
     "claims": [{"claim_id": "a_4f…#0", "claim": "At 12 degrees [1].",
                 "evidence": [{"number": 1, "url": "https://ale.example", "text": "Casks at 12 degrees."}],
                 "support": null, "reason_missing_support": null, "informativeness": null, "worthiness": null,
                 "correctness": null, "reliability": null, "revised_claim": null, "revised_evidence": null}],
     "usefulness": null, "revised_answer": null, "annotation_time": null, "labelled_at": null,
     "ratings": {"usefulness": ["Useful", "Partially useful", "Not useful at all"], …}}

Read back, `revised_claim` "" leaves the claim out, `revised_evidence` is a list or one text divided by lines of `---`,
`annotation_time` is in seconds, `labelled_at` in ISO 8601; `annotator_id` is who labelled, at first who asked. Which
system answered is not shown. `ratings` says what may be filled in, and is not read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from xxhash import xxh3_64_intdigest

from longform.artifacts.rows import Rejected, Row
from tasks.expertqa.given import (
    ANSWER_PROPERTIES,
    CLAIM_PROPERTIES,
    CLAIM_RATINGS,
    SHOWN_CHARS,
    Given,
    filled,
    ill_formed,
    moment,
    name_of,
    unknown_key,
)
from tasks.expertqa.vocabulary import ratings

ASKED = {
    "usefulness": "How useful is the whole answer to you?",
    "support": "How far does the evidence support the claim?",
    "reason_missing_support": "If it does not support all of it: what is missing?",
    "informativeness": "How relevant is the claim to the question?",
    "worthiness": "Does the claim need a citation?",
    "correctness": "As far as you know: is the claim correct?",
    "reliability": "How reliable is the source of the evidence?",
    "left_out": "Should the claim be left out of the answer?",
    "revised_claim": "The claim as you would have it, where it needs a change",
    "revised_evidence": "Better evidence, as addresses or passages",
    "revised_answer": "The whole answer as you would have it",
}
NO_EVIDENCE = "(no evidence)"
SHOWN = ("question_id", "annotator_id", "field", "question", "answer_id", "answer", "claims", "ratings")
KEYS = (*SHOWN, *ANSWER_PROPERTIES, "annotation_time", "labelled_at")
CLAIM_KEYS = ("claim_id", "claim", "evidence", *CLAIM_PROPERTIES)


def sheets(questions: Iterable[Row], answers: Iterable[Row], claims: Iterable[Row]) -> Iterator[Row]:
    """One sheet for each answer, by who asked, then in the order of the answers; those nobody is known of come last.

    `answers`: those that were sampled; `claims`: theirs, in the order of each answer.
    """
    asked = {question["question_id"]: question for question in questions}
    of_answer: defaultdict[str, list[Row]] = defaultdict(list)
    for claim in claims:
        of_answer[claim["answer_id"]].append(claim)
    whose = [(asked[answer["question_id"]], answer) for answer in answers]
    for question, answer in sorted(whose, key=lambda pair: _nobody_last(pair[0]["annotator_id"])):
        yield sheet(question, answer, of_answer[answer["answer_id"]])


def _nobody_last(annotator_id: str | None) -> tuple[bool, str]:
    return annotator_id is None, annotator_id or ""


def sheet(question: Row, answer: Row, claims: Sequence[Row]) -> Row:
    """The sheet of an answer, empty."""
    return {
        **{name: question[name] for name in ("question_id", "annotator_id", "field", "question")},
        "answer_id": answer["answer_id"],
        "answer": answer["text"],
        "claims": [_claim(claim) for claim in claims],
        **dict.fromkeys((*ANSWER_PROPERTIES, "annotation_time", "labelled_at")),
        "ratings": {name: list(ratings(name)) for name in ("usefulness", *CLAIM_RATINGS)},
    }


def _claim(claim: Row) -> Row:
    evidence = [
        {name: each[name] for name in ("number", "url", "text")} | _as_given(each) for each in claim["evidence"]
    ]
    return {
        "claim_id": claim["claim_id"],
        "claim": claim["text"],
        "evidence": evidence,
        **dict.fromkeys(CLAIM_PROPERTIES),
    }


def _as_given(evidence: Row) -> Row:
    """What was released, where it is neither an address nor a text that we know."""
    known = evidence["url"] or evidence["text"]
    return {} if known else {"text": evidence["given"]}


def shown(evidence: Sequence[Row]) -> str:
    """The evidence of a claim as one text, for tools that show nothing but texts."""
    return "\n\n".join(_one(each) for each in evidence) or NO_EVIDENCE


def _one(evidence: Row) -> str:
    number = f"[{evidence['number']}]" if evidence["number"] is not None else None
    head = " ".join(part for part in (number, evidence["url"]) if part)
    return "\n".join(part for part in (head, evidence["text"]) if part)


def choose(found: Iterable[Row], fields: Sequence[str], most: int | None, seed: int) -> list[Row]:
    """Sheets of these fields (of all, where none is named), and of each field of at most so many questions.

    Which questions is drawn by the hash of seed and question: for a second labelling (section 4.2: 60 of each of two).
    """
    kept = [one for one in found if not fields or one["field"] in fields]
    if most is None:
        return kept
    questions: defaultdict[str, set[str]] = defaultdict(set)
    for one in kept:
        questions[one["field"]].add(one["question_id"])
    drawn = {name for ids in questions.values() for name in sorted(ids, key=lambda name: _rank(name, seed))[:most]}
    return [one for one in kept if one["question_id"] in drawn]


def _rank(question_id: str, seed: int) -> int:
    return xxh3_64_intdigest(f"{seed}\x1f{question_id}".encode())


def read_sheet(record: Row, key: str, raw: str) -> Given | Rejected:
    """What a filled-in sheet of the own format says."""
    answer_id, claims = record.get("answer_id"), record.get("claims")
    if not isinstance(answer_id, str) or not answer_id:
        return ill_formed(key, "no answer_id", raw)
    if not isinstance(claims, list) or not all(isinstance(claim, dict) for claim in claims):
        return ill_formed(answer_id, "missing or ill-formed claims", raw)
    ids = [claim.get("claim_id") for claim in claims]
    if not all(isinstance(name, str) for name in ids):
        return ill_formed(answer_id, "no claim_id", raw)
    if len({*ids}) < len(ids):
        return ill_formed(answer_id, "a claim given twice", raw)
    unknown = _unknown(record, claims)
    if unknown:
        return ill_formed(answer_id, "unknown key", raw, unknown)
    at = moment(record.get("labelled_at"))
    if at is None and filled(record.get("labelled_at")):
        return ill_formed(answer_id, "ill-formed labelled_at", raw, str(record["labelled_at"])[:SHOWN_CHARS])
    said = {name: record.get(name) for name in (*ANSWER_PROPERTIES, "annotation_time")}
    return Given(
        "jsonl",
        answer_id,
        name_of(record.get("annotator_id")),
        {name: value for name, value in said.items() if filled(value)},
        {claim["claim_id"]: _said(claim) for claim in claims},
        {claim["claim_id"]: claim["claim"] for claim in claims if isinstance(claim.get("claim"), str)},
        at,
    )


def _unknown(record: Row, claims: Sequence[Row]) -> str | None:
    """A key of a sheet or of one of its claims that is nearly one that sheets have: a label under it would be lost."""
    of_claims = ((claim["claim_id"], unknown_key(claim, CLAIM_KEYS)) for claim in claims)
    found = ((of, unknown) for of, unknown in ((record["answer_id"], unknown_key(record, KEYS)), *of_claims) if unknown)
    return next((f"{unknown} of {of}" for of, unknown in found), None)


def _said(claim: Row) -> dict[str, Any]:
    """What was filled in; a `revised_claim` of nothing but white space leaves the claim out."""
    said = {name: claim.get(name) for name in CLAIM_PROPERTIES}
    left_out = {"revised_claim": ""} if isinstance(said["revised_claim"], str) else {}
    return {**left_out, **{name: value for name, value in said.items() if filled(value)}}
