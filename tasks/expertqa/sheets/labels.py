"""Labels of annotators: read back from files of any of the three formats, and merged with the released ones.

A file is JSON lines or one JSON array, and each of its records says itself which format it is of: sheets of our own
(tasks/expertqa/sheets/sheets.py), tasks of Label Studio (label_studio.py), records of Argilla 2 (argilla.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from longform.artifacts.rows import AllRows, Rejected, Row, Rows, Source
from longform.engine.stage import AtMost, Shard, StageContext, stage
from longform.errors import SourceError
from schemas.expertqa import LABELS
from tasks.expertqa.answers.released import LONGEST_TIME, NO_LABEL, labels_of
from tasks.expertqa.given import ANSWER_PROPERTIES, CLAIM_PROPERTIES, CLAIM_RATINGS, RAW_CHARS, Given, texts_of
from tasks.expertqa.sheets.argilla import SETTINGS, is_record, read_record
from tasks.expertqa.sheets.label_studio import is_minimal, is_task, read_task
from tasks.expertqa.sheets.sheets import read_sheet
from tasks.expertqa.vocabulary import UnknownLabel, label
from tasks.sources.files.found import open_files
from tasks.sources.files.lines import read_lines

GROUP = "expertqa"
ENDINGS = (".json", ".jsonl", ".json.gz", ".jsonl.gz", ".json.zst", ".jsonl.zst")
MOST_ARRAY_BYTES = 1 << 30
SUPERSEDED = "labelled again by the same annotator"
NOT_GIVEN = "claims left out of a sheet"


def open_labels(paths: Iterable[Path | str], digest: Callable[[Path], str]) -> list[Source]:
    """Files of labels, and those in folders: JSON or JSON lines, plain or packed; not the settings of Argilla."""
    found = open_files(paths, group=GROUP, endings=ENDINGS, digest=digest)
    return [source for source in found if Path(source.path).parent.name != SETTINGS]


@dataclass(slots=True)
class Labelled:
    """An answer that labels can be of. `claims`: (claim_id, text) in its order."""

    question_id: str
    system: str
    claims: list[tuple[str, str]] = field(default_factory=list)


class Unfit(ValueError):
    """Labels that cannot be taken: `reason`, and the words in question."""

    def __init__(self, reason: str, detail: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


def label_row(given: Given, answers: dict[str, Labelled]) -> tuple[Row, list[Unfit]]:
    """The row of LABELS, with every claim of the answer, and what of it is no label: null there, it costs no other.

    Unfit for labels that are none of any answer we have.
    """
    answer = answers.get(given.answer_id)
    if answer is None:
        raise Unfit("unknown answer")
    if given.annotator is None:
        raise Unfit("no annotator")
    if (given.claims or given.shown) and not answer.claims:
        raise Unfit("answer not sampled, or without claims")
    said = _of_claims(given, answer)
    key, wrong = given.answer_id, list[Unfit]()
    usefulness, said_as = _taken(wrong, _label, "usefulness", given.said.get("usefulness"), key) or NO_LABEL
    row = {
        "label_id": given.key,
        "answer_id": given.answer_id,
        "question_id": answer.question_id,
        "system": answer.system,
        "annotator_id": given.annotator,
        "usefulness": usefulness,
        "usefulness_said_as": said_as,
        "revised_answer": _taken(wrong, _text, "revised_answer", given.said.get("revised_answer"), key),
        "annotation_time": _taken(wrong, _number, given.said.get("annotation_time"), key),
        "labelled_at": given.at,
        "claims": [_claim_row(name, said.get(name, {}), wrong) for name, _ in answer.claims],
        "source": given.source,
    }
    return row, wrong


def _taken(wrong: list[Unfit], read: Callable[..., Any], *said: Any) -> Any:
    """What `read` makes of what was said; None where that is no label, which is then one of `wrong`."""
    try:
        return read(*said)
    except Unfit as error:
        wrong.append(error)
        return None


def _of_claims(given: Given, answer: Labelled) -> dict[str, Row]:
    """What was said of each claim, by claim_id. A sheet that shows another text was made of other claims."""
    texts = dict(answer.claims)
    found: dict[str, Row] = {}
    for name in dict.fromkeys([*given.claims, *given.shown]):
        place = _claim_id(name, answer)
        if place not in texts:
            raise Unfit("unknown claim", f"{name} of {given.answer_id}")
        if name in given.shown and _folded(given.shown[name]) != _folded(texts[place]):
            raise Unfit("the claim had another text", place)
        found[place] = given.claims.get(name, {})
    return found


def _claim_id(name: str | int, answer: Labelled) -> str:
    if isinstance(name, str):
        return name
    return answer.claims[name][0] if name < len(answer.claims) else ""


def _folded(text: str) -> str:
    return " ".join(text.split())


def _claim_row(claim_id: str, said: Row, wrong: list[Unfit]) -> Row:
    found = {name: _taken(wrong, _label, name, said.get(name), claim_id) or NO_LABEL for name in CLAIM_RATINGS}
    reason = said.get("reason_missing_support")
    as_given = {name: word for name, (_, word) in found.items() if word is not None}
    return {
        "claim_id": claim_id,
        **{name: ours for name, (ours, _) in found.items()},
        "reason_missing_support": _taken(wrong, _text, "reason_missing_support", reason, claim_id),
        "revised_claim": _taken(wrong, _revised, said, claim_id),
        "revised_evidence": _taken(wrong, _evidence, said.get("revised_evidence"), claim_id),
        "said_as": orjson.dumps(as_given, option=orjson.OPT_SORT_KEYS).decode() if as_given else None,
    }


def _label(name: str, said: Any, of: str) -> tuple[str | None, str | None]:
    try:
        return label(name, said)
    except UnknownLabel as error:
        reason, _, what = str(error).partition(": ")
        raise Unfit(reason, f"{what} of {of}") from None


def _revised(said: Row, claim_id: str) -> str | None:
    """The revised claim; empty where a form says that it is to be left out."""
    text, left_out = _text("revised_claim", said.get("revised_claim"), claim_id), said.get("left_out")
    if left_out not in (None, "Yes", "No"):
        raise Unfit("unknown label", f"left_out {left_out!r} of {claim_id}")
    if left_out == "Yes" and text:
        raise Unfit("a claim left out and revised", claim_id)
    return "" if left_out == "Yes" else text


def _text(name: str, said: Any, of: str) -> str | None:
    if said is not None and not isinstance(said, str):
        raise Unfit(f"ill-formed {name}", of)
    return said


def _evidence(said: Any, claim_id: str) -> list[str] | None:
    if said is None:
        return None
    texts = texts_of(said)
    if texts is None:
        raise Unfit("ill-formed revised_evidence", claim_id)
    return texts


def _number(said: Any, of: str) -> float | None:
    if said is None:
        return None
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 <= said <= LONGEST_TIME:
        raise Unfit("ill-formed annotation_time", of)
    return float(said)


def says_something(row: Row) -> bool:
    """Whether any property of the answer or of one of its claims is filled in."""
    own = any(row[name] is not None for name in ANSWER_PROPERTIES)
    return own or any(claim[name] is not None for claim in row["claims"] for name in CLAIM_PROPERTIES)


# ---------------------------------------------------------------- files


def parse_labels(
    records: Iterable[tuple[Any, str, str]],
    answers: dict[str, Labelled],
    count: Callable[[str, int], None] = lambda name, number: None,
) -> Iterator[Row | Rejected]:
    """Rows of LABELS, in the order their annotators and answers first come, and a Rejected for whatever is none.

    `records`: each with what names it, and its JSON. Of several annotations of an answer by one annotator the latest
    counts where both are dated, else the first.
    """
    kept: dict[str, Row] = {}
    for record, key, raw in records:
        for given in read_given(record, key, raw):
            if isinstance(given, Rejected):
                yield given
                continue
            row, rejected = _row(given, answers, raw)
            yield from rejected
            if row is None:
                continue
            count(NOT_GIVEN, len(row["claims"]) - len({*given.claims, *given.shown}))
            if row["label_id"] not in kept:
                kept[row["label_id"]] = row
            else:
                kept[row["label_id"]] = later(kept[row["label_id"]], row)
                yield Rejected(row["label_id"], "filtered", SUPERSEDED)
    yield from kept.values()


def later(first: Row, second: Row) -> Row:
    """Of two labellings by one annotator the one that counts."""
    dated = first["labelled_at"] is not None and second["labelled_at"] is not None
    return second if dated and second["labelled_at"] > first["labelled_at"] else first


def read_given(record: Any, key: str, raw: str) -> Iterator[Given | Rejected]:
    """What a record of any of the formats says."""
    if isinstance(record, Rejected):
        yield record
    elif not isinstance(record, dict):
        yield Rejected(key, "defect", "no record", raw=raw[:RAW_CHARS])
    elif is_minimal(record):
        yield Rejected(key, "defect", "Label Studio's JSON-MIN: export JSON", raw=raw[:RAW_CHARS])
    elif is_task(record):
        yield from read_task(record, key, raw)
    elif is_record(record):
        yield from read_record(record, key, raw)
    else:
        yield read_sheet(record, key, raw)


def _row(given: Given, answers: dict[str, Labelled], raw: str) -> tuple[Row | None, list[Rejected]]:
    """The row of a labelling, where it says something, and a Rejected for whatever of it is no label."""
    if given.void:
        return None, [Rejected(given.key, "filtered", given.void)]
    try:
        row, wrong = label_row(given, answers)
    except Unfit as error:
        row, wrong = {}, [error]
    rejected = [Rejected(given.key, "defect", each.reason, each.detail, raw[:RAW_CHARS]) for each in wrong]
    if row and says_something(row):
        return row, rejected
    return None, rejected or [Rejected(given.key, "filtered", "not labelled")]


def read_records(lines: Iterator[bytes], subject: str) -> Iterator[tuple[Any, str, str]]:
    """(record, what names it, its JSON) of JSON lines or of one JSON array; SourceError for a file that is neither."""
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    first = next(numbered, None)
    if first is None:
        raise SourceError(f"{subject} holds no record: give a file of labels.")
    if first[1].lstrip().startswith(b"["):
        yield from _of_array(chain([first[1]], (line for _, line in numbered)), subject)
        return
    for number, line in chain([first], numbered):
        yield _of_line(line, f"line {number}")


def _of_line(line: bytes, key: str) -> tuple[Any, str, str]:
    raw = line[: 4 * RAW_CHARS].decode("utf-8", "replace")[:RAW_CHARS]
    try:
        return orjson.loads(line), key, raw
    except orjson.JSONDecodeError as error:
        return Rejected(key, "defect", "unreadable line", str(error), raw), key, raw


def _of_array(lines: Iterable[bytes], subject: str) -> Iterator[tuple[Any, str, str]]:
    held = bytearray()
    for line in lines:
        held += line + b"\n"
        if len(held) > MOST_ARRAY_BYTES:
            raise SourceError(
                f"{subject} is one JSON array of more than {MOST_ARRAY_BYTES >> 20} MiB: cut it in several."
            )
    try:
        records = orjson.loads(held)
    except orjson.JSONDecodeError as error:
        raise SourceError(f"{subject} is no JSON array that can be read ({error}): export the labels again.") from None
    for number, record in enumerate(records, 1):
        yield record, f"record {number}", orjson.dumps(record).decode()[:RAW_CHARS]


# ---------------------------------------------------------------- stages


@stage(LABELS, revision=3)
def read_labels(context: StageContext, files: Shard, claims: AllRows, answers: AllRows) -> Iterator[Row | Rejected]:
    """What annotators said of answers and their claims."""
    yield from _read(context, files, claims, answers)


@stage(LABELS, revision=3)
def read_second_labels(
    context: StageContext, files: Shard, claims: AllRows, answers: AllRows
) -> Iterator[Row | Rejected]:
    """As `read_labels`: a second labelling, which only agreement is computed with (section 4.2)."""
    yield from _read(context, files, claims, answers)


def _read(context: StageContext, files: Shard, claims: AllRows, answers: AllRows) -> Iterator[Row | Rejected]:
    known = labelled(answers, claims)
    yield from parse_labels(read_records(read_lines(files), files.source.path), known, context.count)


def labelled(answers: Rows, claims: Rows) -> dict[str, Labelled]:
    """The answers that labels can be of, by their ids."""
    found: dict[str, Labelled] = {}
    for batch in answers.batches(["answer_id", "question_id", "system"]):
        for row in batch.to_pylist():
            found[row["answer_id"]] = Labelled(row["question_id"], row["system"])
    for batch in claims.batches(["answer_id", "claim_id", "text"]):
        for row in batch.to_pylist():
            if row["answer_id"] in found:
                found[row["answer_id"]].claims.append((row["claim_id"], row["text"]))
    return found


@stage(LABELS, revision=2, at_most=AtMost(rows=lambda of: of["answers"] + of["given"]))
def collect_labels(context: StageContext, answers: Rows, claims: Rows, given: AllRows) -> Iterator[Row | Rejected]:
    """The labels of each answer, released and given ones, by annotator; a Rejected for every released one that is none.

    Given ones win over released ones of the same annotator; of given ones from several files the latest counts where
    both are dated, else the first.
    """
    of_answer: defaultdict[str, list[Row]] = defaultdict(list)
    for claim in claims:
        of_answer[claim["answer_id"]].append(claim)
    for batch in answers.batches():
        of_batch = _given(given, batch["answer_id"])
        for answer in batch.to_pylist():
            yield from _collected(context, answer, of_answer[answer["answer_id"]], of_batch[answer["answer_id"]])


def _given(given: Rows, ids: pa.Array) -> defaultdict[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for batch in given.batches():
        for row in batch.filter(pc.is_in(batch["answer_id"], pa.array(ids))).to_pylist():
            found[row["answer_id"]].append(row)
    return found


def _collected(context: StageContext, answer: Row, claims: list[Row], given: list[Row]) -> Iterator[Row | Rejected]:
    found: dict[str, Row] = {}
    for row in given:
        found[row["annotator_id"]] = later(found.get(row["annotator_id"], row), row)
    released, wrong = released_labels(answer, claims)
    yield from wrong
    if released is not None:
        found.setdefault(released["annotator_id"], released)
    context.count(
        "labellings by an annotator who has a later or a given one",
        len(given) + (released is not None) - len(found),
    )
    yield from (found[annotator] for annotator in sorted(found))
    if not found and not wrong:
        yield Rejected(answer["answer_id"], "filtered", "not labelled")


def released_labels(answer: Row, claims: list[Row]) -> tuple[Row | None, list[Rejected]]:
    """The labels that a released answer came with, None where it has none; and what of them is no label."""
    if answer["kind"] != "released":
        return None, []
    row, wrong = labels_of(answer, [claim for claim in claims if claim["original"] is not None])
    rejected = [
        Rejected(answer["answer_id"], "defect", reason, detail, (answer["claims"] or "")[:RAW_CHARS])
        for reason, detail in wrong
    ]
    return ({**row, "labelled_at": None} if says_something(row) else None), rejected
