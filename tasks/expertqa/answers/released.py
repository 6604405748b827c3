"""Released answers, with their claims and labels; and answers of a commercial system, from a file.

    {"answer_string": "Copper turns green [1].", "attribution": ["[1] https://copper.example/green"],
     "claims": [{"claim_string": "Copper turns green [1].", "evidence": ["[1] https://copper.example/green"],
                 "support": "Complete", "reason_missing_support": "", "informativeness": "Very relevant",
                 "worthiness": "Yes", "correctness": "Definitely correct", "reliability": "Somewhat reliable",
                 "revised_claim": "Copper turns green [1].", "revised_evidence": "[1] https://copper.example/green"}],
     "revised_answer_string": "…", "usefulness": "Useful", "annotation_time": 180000, "annotator_id": "a_17"}

Evidence is an address, or an address, an empty line and the passage. `revised_evidence` is a text, a list or null.
Some claims also have `revised_claim_string` and `source_reliability`, mostly null. `annotation_time` is in
milliseconds. Lines of a commercial system's file: {"question" or "question_id", "answer_string", "attribution": […]}.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from longform.artifacts.recipe import fingerprint
from longform.engine.health import Gate, quote
from longform.engine.stage import AllRows, AtMost, Rejected, Row, Rows, Shard, StageContext, stage
from schemas.expertqa import ANSWERS
from tasks.annotation.values import LONGEST_TIME, Unfit, collecting_unfit, is_answered
from tasks.answers import NO_MODEL
from tasks.expertqa.answers.answers import SYSTEMS
from tasks.expertqa.answers.claims import parse_evidence, parts_of
from tasks.expertqa.answers.references import cited_sources
from tasks.expertqa.bank import GROUP, first_fault, is_filled_text, jsonl_records
from tasks.expertqa.exact import read_exact, write_exact
from tasks.expertqa.vocabulary import LABELLED, label
from tasks.sources.files.inputs import open_files, raw_text
from tasks.sources.files.lines import read_lines
from tasks.sources.files.sizes import most_bytes, records_at_most

SYSTEM_CHARS = 200
NAMED = 5
UNKNOWN_ANNOTATOR = "unknown"
NO_LABEL = (None, None)
LEAST_ANSWER, LEAST_CLAIM = '"a":{"answer_string":""}', '{"claim_string":""}'
LEAST_COMMERCIAL = '{"question":"a","answer_string":"a"}'


def released_at_most(size: float) -> float:
    """Upper bound of the number of released answers in a question bank of `size` bytes."""
    return size / len(LEAST_ANSWER)


@stage(ANSWERS, revision=4, at_most=AtMost(rows=lambda of: released_at_most(of.bytes)))
def read_released(context: StageContext, questions: Rows) -> Iterator[Row | Rejected]:
    """The released answers of the questions, of any system, in the order of the file, as rows of ANSWERS. A Rejected
    for each ill-typed answer, and for each question without a released answer. Counts answers of systems that the paper
    has not, by name.
    """
    named: set[str] = set()
    for question in questions:
        for answer in answers_of(question):
            if isinstance(answer, dict) and (system := answer["system"]) not in SYSTEMS:
                named.update([system] if len(named) < NAMED else [])
                context.count(f"answers of the unknown system {quote(system) if system in named else 'others'}", 1)
            yield answer


def unknown_systems(answers: Rows) -> list[Gate]:
    """What card and console say of released answers of systems that the paper has not, as a gate that lets everything
    through; [] if there is none. `answers`: rows of ANSWERS.
    """
    found = Counter(row["system"] for row in answers.as_dicts("system", "kind") if row["kind"] == "released")
    unknown = [(quote(system), number) for system, number in sorted(found.items()) if system not in SYSTEMS]
    if not unknown:
        return []
    named = ", ".join(f"{system} ({number:,})" for system, number in unknown[:NAMED])
    more = f" and {len(unknown) - NAMED:,} more" if len(unknown) > NAMED else ""
    what = f"released answers are of systems that the paper has not: {named}{more}"
    return [Gate("unknown_system", "version", what, sum(number for _, number in unknown), found.total(), 1.0)]


def answers_of(question: Row) -> Iterator[Row | Rejected]:
    """The released answers of a question as rows of ANSWERS, of any system, in the order of the file. A Rejected for
    each answer that is ill-typed, or for the question if it has none.
    """
    key = question["question_id"]
    if question["answers"] is None:
        yield Rejected(key, "filtered", "no released answer")
        return
    for system, answer in read_exact(question["answers"]).items():
        wrong = ill_typed(system, answer)
        if wrong:
            yield Rejected(key, "defect", wrong, f"system {system[:SYSTEM_CHARS]}", raw_text(write_exact(answer)))
        else:
            yield _answer(key, system, answer)


def ill_typed(system: str, answer: Any) -> str | None:
    """The first reason why later stages could not read a released answer of the system; None if they can. The name
    must not be blank or longer than SYSTEM_CHARS; the answer must be an object with a text `answer_string` and, if
    any, `attribution` as a list of texts and `claims` as a list of claims (see `_is_claim`).
    """
    fields = answer if isinstance(answer, dict) else {}
    claims = fields.get("claims")
    return first_fault({
        "ill-formed name of a system": not system.strip() or len(system) > SYSTEM_CHARS,
        "ill-formed answer": not isinstance(answer, dict),
        "missing or ill-formed answer_string": not isinstance(fields.get("answer_string"), str),
        "ill-formed attribution": not is_texts(fields.get("attribution")),
        "ill-formed claims": claims is not None and not (isinstance(claims, list) and all(map(_is_claim, claims))),
    })  # fmt: skip


def _is_claim(claim: Any) -> bool:
    """Whether a released claim has the expected types: an object with a text `claim_string` and, if any, a list of
    texts as `evidence`.
    """
    return isinstance(claim, dict) and isinstance(claim.get("claim_string"), str) and is_texts(claim.get("evidence"))


def is_texts(value: Any) -> bool:
    """Whether the value is None or a list of texts, which may be empty."""
    return value is None or (isinstance(value, list) and all(isinstance(one, str) for one in value))


def _answer(question: str, system: str, answer: dict[str, Any]) -> Row:
    """A row of ANSWERS of kind `released`. `original` is the released answer as JSON with null in place of its claims,
    `claims` its claims as JSON, None if it has none. `question`: the question's id.
    """
    claims = answer.get("claims")
    kept = answer if claims is None else {**answer, "claims": None}
    return {
        **answer_columns(question, system, answer["answer_string"], answer.get("attribution") or []),
        "kind": "released",
        "original": write_exact(kept),
        "claims": None if claims is None else write_exact(claims),
    }


def answer_columns(question: str, system: str, text: str, attribution: list[str]) -> Row:
    """A row of ANSWERS of kind `imported`, written by no model of this project. `question`: the question's id.
    `attribution`: its list of sources, such as '[1] https://…', from which `cited` is read.
    """
    return {
        "answer_id": f"a_{fingerprint([question, system, text])}",
        "question_id": question,
        "system": system,
        "kind": "imported",
        "text": text,
        "abstention": None,
        "attribution": attribution,
        "cited": sources_listed(attribution),
        "original": None,
        "claims": None,
        **NO_MODEL,
    }


def sources_listed(attribution: list[str]) -> list[Row]:
    """Rows of CITED, in the order of a released list of sources: '[2] https://…' is source 2. Blank entries are left
    out.

    A source without a number gets its position in the list, from 1. Of several sources with one number the first is
    kept. Words after an address are the source's text, words without an address, or of a link, its title.
    """
    found: dict[int, Row] = {}
    for position, listed in enumerate(attribution, 1):
        parsed = parse_evidence(listed)
        if parsed["url"] or parsed["text"]:
            _, linked, _, _ = parts_of(listed)
            title, text = (linked, parsed["text"]) if parsed["url"] else (parsed["text"], None)
            number = position if parsed["number"] is None else parsed["number"]
            source = {"number": number, "url": parsed["url"], "passage_id": None, "title": title, "text": text}
            found.setdefault(number, source)
    return list(found.values())


open_commercial = partial(open_files, group=GROUP, endings=(".jsonl", ".jsonl.gz", ".jsonl.zst"))


@stage(
    ANSWERS,
    revision=4,
    at_most=AtMost(
        bytes=most_bytes("files"),
        rows=lambda of: min(of["questions"], records_at_most(of["files"], len(LEAST_COMMERCIAL) + 1)),
    ),
)
def read_commercial(
    context: StageContext, files: Shard, questions: AllRows, *, system: str
) -> Iterator[Row | Rejected]:
    """Answers of a commercial system, read from its file, in the order of the file. `system`: the name to give it. A
    Rejected for each ill-formed record, unknown question, or further answer to a question. SourceError if the file is
    one JSON array or cannot be read.
    """
    asked = [(row["question_id"], row["question"]) for row in questions.as_dicts("question_id", "question")]
    yield from parse_commercial(jsonl_records(read_lines(files), files.source.path), asked, system)


def parse_commercial(
    records: Iterable[dict[str, Any] | Rejected], asked: Iterable[tuple[str, str]], system: str
) -> Iterator[Row | Rejected]:
    """Rows of ANSWERS from a commercial system's records, in their order; a Rejected for each ill-formed record,
    unknown question, or further answer to a question. Rejecteds among the records are passed on.

    `asked`: (id, text) of all questions. A record names its question by id or, if it has no id that is a text, by
    text, white space aside; if several questions have this text, it answers the first that has no answer yet.
    """
    by_id: dict[str, list[str]] = {}
    by_text: defaultdict[str, list[str]] = defaultdict(list)
    for key, words in asked:
        by_id[key] = [key]
        by_text[_folded(words)].append(key)
    answered: set[str] = set()
    for position, record in enumerate(records):
        if isinstance(record, Rejected):
            yield record
            continue
        name, raw = f"record {position}", raw_text(write_exact(record))
        named, text = record.get("question_id"), record.get("question")
        keys = (
            by_id.get(named, []) if isinstance(named, str) else by_text[_folded(text)] if isinstance(text, str) else []
        )
        free = next((key for key in keys if key not in answered), None)
        faults = {
            "missing or ill-formed answer_string": not is_filled_text(record.get("answer_string")),
            "ill-formed attribution": not is_texts(record.get("attribution")),
            "no such question": not keys,
        }
        if wrong := first_fault(faults):
            yield Rejected(name, "defect", wrong, raw=raw)
        elif free is None:
            yield Rejected(name, "filtered", "question answered before", keys[0], raw)
        else:
            answered.add(free)
            yield commercial_row(record, free, system)


def commercial_row(record: dict[str, Any], question: str, system: str) -> Row:
    """A row of ANSWERS for the question with id `question`; its text leaves out the list of references at the end,
    unless it is nothing else.

    Its sources are those of the record's `attribution`; if that is missing or empty, those that the text lists or
    cites.
    """
    text, attribution = record["answer_string"], record.get("attribution") or []
    body, cited = cited_sources(text)
    row = answer_columns(question, system, body if body.strip() else text, attribution)
    return row if attribution else {**row, "cited": cited}


def _folded(text: str) -> str:
    """The text with each run of white space as one blank."""
    return " ".join(text.split())


def labels_of(answer: Row, claims: list[Row]) -> tuple[Row, list[Unfit]]:
    """(row of LABELS of a released answer, its invalid labels, each an Unfit with the reason and the answer or claim
    it is of). `claims`: the answer's rows of CLAIMS.

    An invalid label is null in the row, the others are kept; the JSON in `original` of the answer and of its claims
    still has it. An answer without a valid annotator has `unknown`.
    """
    original, key = read_exact(answer["original"]), answer["answer_id"]
    wrong: list[Unfit] = []
    annotator = collecting_unfit(wrong, _text, original, "annotator_id", key) or UNKNOWN_ANNOTATOR
    usefulness, said_as = collecting_unfit(wrong, label, "usefulness", original.get("usefulness"), key) or NO_LABEL
    row = {
        "label_id": f"{key}/{annotator}",
        "answer_id": key,
        "question_id": answer["question_id"],
        "system": answer["system"],
        "annotator_id": annotator,
        "usefulness": usefulness,
        "usefulness_said_as": said_as,
        "revised_answer": collecting_unfit(wrong, _text, original, "revised_answer_string", key),
        "annotation_time": collecting_unfit(wrong, _time, original, key),
        "claims": [claim_labels(claim["claim_id"], read_exact(claim["original"]), wrong) for claim in claims],
        "source": "released",
    }
    return row, wrong


def claim_labels(claim_id: str, original: dict[str, Any], wrong: list[Unfit]) -> Row:
    """An element of LABELS.claims from a released claim, `original`; invalid labels are null, and are added to `wrong`
    as Unfit.

    `source_reliability` replaces a blank `reliability`, and `revised_claim_string` a null `revised_claim`. `said_as` is
    JSON of the labels that the file spells otherwise or as a blank text: property -> its text; None if none is so.
    """
    words = {name: original.get(name) for name in LABELLED}
    found = {name: collecting_unfit(wrong, label, name, value, claim_id) or NO_LABEL for name, value in words.items()}
    other = collecting_unfit(wrong, label, "reliability", original.get("source_reliability"), claim_id)
    if not is_answered(words["reliability"]) and other:
        found["reliability"] = other
    as_read = {name: word for name, (_, word) in found.items() if word is not None}
    revised = "revised_claim_string" if original.get("revised_claim") is None else "revised_claim"
    return {
        "claim_id": claim_id,
        **{name: ours for name, (ours, _) in found.items()},
        "reason_missing_support": collecting_unfit(wrong, _text, original, "reason_missing_support", claim_id),
        "revised_claim": collecting_unfit(wrong, _text, original, revised, claim_id),
        "revised_evidence": collecting_unfit(wrong, _revised_evidence, original.get("revised_evidence"), claim_id),
        "said_as": write_exact(as_read) if as_read else None,
    }


def _revised_evidence(value: Any, of: str) -> list[str] | None:
    """The revised evidence as a list of texts: a text becomes a list of one, an empty text []; None stays None. Unfit
    for other types; `of` names the claim in the error.
    """
    if isinstance(value, str):
        return [value] if value else []
    if not is_texts(value):
        raise Unfit("ill-formed revised_evidence", of)
    return None if value is None else list(value)


def _text(original: dict[str, Any], name: str, of: str) -> str | None:
    """The text of the field `name`, None if it is missing or null. Unfit for other types; `of` names the claim or
    answer in the error.
    """
    value = original.get(name)
    if value is not None and not isinstance(value, str):
        raise Unfit(f"ill-formed {name}", of)
    return value


def _time(original: dict[str, Any], of: str) -> float | None:
    """The annotation time in milliseconds, None if it is missing or null. Unfit for what is no number, or beyond
    LONGEST_TIME in size; `of` names the answer in the error.
    """
    value = original.get("annotation_time")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LONGEST_TIME:
        raise Unfit("ill-formed annotation_time", of)
    return float(value)
