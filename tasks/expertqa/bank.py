"""The question bank: released files, or a user's own questions as JSONL or CSV.

    {"question": "Why does copper turn green?", "annotator_id": "a_17",
     "answers": {"gpt4": {"answer_string": "…", "claims": […], …}},
     "metadata": {"question_type": "Summarization of information on a topic| Request for opinion on a topic",
                  "field": "Chemistry", "specific_field": "Electrochemistry"}}
    {"question": "Why does copper turn green?", "field": "Chemistry", "question_types": ["I", "IV"]}
    question,field,question_types
    Why does copper turn green?,Chemistry,"I, IV"
    {"field": "Chemistry", "annotator_id": "e7", "questions": [{"question": "Why does …?", "question_types": ["I"]}]}

The last is a filled-in sheet (`longform sheets expertqa --form questions`). A record with `answers` or `metadata` is a
released one; it is kept whole, in the columns `original` and `answers`. In
the released file r1, from before the systems answered, `answers` is an empty object. Question types are full texts
with stray blanks between bars. Fields vary in spelling; no record holds a name. Repeated questions are all kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from longform.addresses import without_logins, without_logins_in
from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Source
from longform.engine.at_most import Sizes, bound_by
from longform.engine.stage import AtMost, Rejected, Row, Rows, Shard, StageContext, stage
from longform.errors import SourceError
from schemas.expertqa import QUESTIONS
from tasks.annotation.values import is_answered
from tasks.expertqa.exact import IllFormed, read_exact, write_exact
from tasks.expertqa.vocabulary import OTHER_FIELD, field_of_study, question_types
from tasks.sources.files.csv_cells import csv_rows
from tasks.sources.files.inputs import open_files, raw_text
from tasks.sources.files.lines import read_lines
from tasks.sources.files.sizes import most_bytes, records_at_most
from tasks.sources.files.spellings import first_fault as first_fault
from tasks.sources.files.spellings import is_filled_text as is_filled_text

GROUP = "expertqa"
ENDINGS = tuple(f"{plain}{packed}" for plain in (".jsonl", ".csv") for packed in ("", ".gz", ".zst", ".bz2", ".xz"))
LONGEST = {"question": 20_000, "annotator_id": 500, "field": 500, "specific_field": 2_000, "question_types": 5_000}
TYPES = ("question_types", "question_type", "types")
HEADERS = {**{name: name for name in LONGEST}, **dict.fromkeys(TYPES, "question_types")}
LEAST = {"jsonl": '{"question":"a"}', "csv": "a"}
QUESTIONS_A_PART = 256  # with what is found for them, 100 MB

_FILE = re.compile(r"#file(\d+)(?:\.\d+)?\Z")
_ARRAY = re.compile(rb"\s*\[\s*(\{|\Z)")

Record = dict[str, Any]


def open_banks(paths: Iterable[Path | str], *, digest: Callable[[Path], str]) -> list[Source]:
    """The sources of the question bank's files, in order; files with equal contents are one. Those after the first
    have their number, from 2, as the fact `number`, which becomes part of the ids of their questions.

    `digest`: the hash of a file. SourceError for a file that is missing or empty and for a folder without a file of
    ENDINGS; UsageError if `paths` is empty.
    """
    return [
        replace(source, facts=(*source.facts, ("number", str(number)))) if number > 1 else source
        for number, source in enumerate(open_files(paths, group=GROUP, endings=ENDINGS, digest=digest), 1)
    ]


def _questions_at_most(of: Sizes) -> float:
    """Upper bound of the number of questions in the stage's file, from its size and the shortest possible record."""
    name = dict(of["files"].source.facts)["name"] or ""
    return records_at_most(of["files"], len(LEAST["csv" if is_csv(name) else "jsonl"]) + 1)


@stage(QUESTIONS, revision=3, at_most=AtMost(bytes=most_bytes("files"), rows=_questions_at_most))
def read_questions(context: StageContext, files: Shard, *, licence: str | None) -> Iterator[Row | Rejected]:
    """The questions of a file, in its order; a Rejected for each record that is no question. `licence`: that of the
    file.

    Counts questions of unknown field or type, and experts with fewer than the five questions, two of them of type V,
    that the paper asked for (section 2.1). SourceError for a file that cannot be read as records (see `jsonl_records`,
    `csv_records`).
    """
    facts, path = dict(files.source.facts), files.source.path
    lines, csv_file = read_lines(files), is_csv(facts["name"] or "")
    records = csv_records(lines, path) if csv_file else jsonl_records(lines, path)
    asked: Counter[str] = Counter()
    scenarios: Counter[str] = Counter()
    for item in parse_questions(records, licence, "csv" if csv_file else "own", facts.get("number")):
        if not isinstance(item, Rejected):
            context.count("questions of a field that is none of the 32", int(not field_of_study(item["field"])[1]))
            context.count("questions of no known type", int(not item["question_types"]))
            if item["annotator_id"]:
                asked[item["annotator_id"]] += 1
                scenarios[item["annotator_id"]] += "V" in item["question_types"]
        yield item
    context.count("experts with fewer than five questions", sum(number < 5 for number in asked.values()))
    context.count("experts with fewer than two questions of type V", sum(number < 2 for number in scenarios.values()))


@stage(
    QUESTIONS,
    revision=2,
    max_rows_per_part=QUESTIONS_A_PART,
    at_most=AtMost(rows=lambda of: min(of["questions"], of.units * bound_by(of["limit"])), keeps=True),
)
def take_questions(context: StageContext, questions: Rows, *, limit: int | None) -> Iterator[Row | Rejected]:
    """The questions, in parts of at most QUESTIONS_A_PART; with `limit` (a pilot) only the first `limit` of each file,
    and a Rejected for each other one. `questions`: those of one file of the bank.
    """
    for number, question in enumerate(questions):
        within = limit is None or number < limit
        yield question if within else Rejected(question["question_id"], "filtered", "beyond the limit")


def is_csv(name: str) -> bool:
    """Whether a file's name ends in .csv, also with one more ending such as .gz."""
    return ".csv" in Path(name.lower()).suffixes[-2:]


def parse_questions(
    records: Iterable[Record | Rejected], licence: str | None, source: str = "own", number: str | None = None
) -> Iterator[Row | Rejected]:
    """Rows of QUESTIONS, in order, and a Rejected for every record that is no question. Rejecteds among the records
    are passed on.

    `licence`: that of the file. `source`: the value of that column for records that are not released ones. `number`:
    that of the file, for the ids; None for the first file.
    """
    seen: Counter[str] = Counter()
    for position, record in enumerate(_one_by_one(records)):
        row = record if isinstance(record, Rejected) else question_row(record, position, licence, source)
        if isinstance(row, str):
            reason, _, detail = row.partition(": ")
            yield defect(position, reason, write_exact(record), detail or None)
        elif isinstance(row, Rejected):
            yield row
        else:
            name = fingerprint([row["annotator_id"], row["question"]])
            seen[name] += 1
            yield {"question_id": question_id(name, number, seen[name]), **row}


def _one_by_one(records: Iterable[Record | Rejected]) -> Iterator[Record | Rejected]:
    """The records, and in place of a filled-in sheet of questions each question that it holds, with the sheet's field
    and expert.
    """
    for record in records:
        written = None if isinstance(record, Rejected) or "question" in record else record.get("questions")
        if isinstance(record, Rejected) or not isinstance(written, list):
            yield record
            continue
        of_sheet = {name: record.get(name) for name in ("annotator_id", "field")}
        yield from ({**of_sheet, **each} for each in written if isinstance(each, dict) and each.get("question"))


def question_id(name: str, file_number: str | None, occurrence: int) -> str:
    """expertqa/<hash>; for its second occurrence in a file expertqa/<hash>#2. In the second file <hash>#file2 and
    <hash>#file2.2.

    `name`: the hash of asker and question. `file_number`: None for the first file. `occurrence`: which one in the file,
    from 1. The part before # is the same for all copies of a question, so that a takedown reaches all of them.
    """
    which = ".".join([f"file{file_number}"] * bool(file_number) + [str(occurrence)] * (occurrence > 1))
    return f"{GROUP}/{name}" + (f"#{which}" if which else "")


def file_number(key: str) -> int:
    """The number of the file, from 1, that the question with this id was read from."""
    found = _FILE.search(key)
    return int(found[1]) if found else 1


def question_row(record: Record, position: int, licence: str | None, source: str) -> Row | str:
    """The columns of QUESTIONS without the id; or, as a text, the reason why the record is no question, with ": "
    before a detail.

    A record with `answers` or `metadata` is a released one. An unknown question type is a reason only in other
    records; in a released one it is left out. Without a field of study the field is `Other`. `position`, `licence` and
    `source` are columns; `source` is used only for records that are not released ones.
    """
    released = "answers" in record or "metadata" in record
    fields = _released(record) if released else _own(record)
    if reason := _why_no_question(fields):
        return reason
    types, unknown = question_types(fields.get("question_types") or [])
    if unknown and not released:
        return f"unknown question type: {unknown[0].strip()[:80]}"
    return {
        "question": fields["question"],
        "annotator_id": fields.get("annotator_id"),
        "field": field_of_study(fields.get("field") or OTHER_FIELD)[0],
        "specific_field": fields.get("specific_field"),
        "question_types": types,
        "source": "released" if released else source,
        "position": position,
        "licence": licence,
        **(_kept(record) if released else {"original": None, "answers": None}),
    }


def _own(record: Record) -> Record:
    """A user's own record, with `question_types` taken from the first of the fields TYPES that is not blank, None if
    all are.
    """
    return {**record, "question_types": next((record[name] for name in TYPES if is_answered(record.get(name))), None)}


def _released(record: Record) -> Record:
    """A released record in the form of a user's own: field, specific field and types from its `metadata`; each that
    `metadata` lacks from the record itself. Values that are no texts are left out, except that of `question`.
    """
    metadata = record.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    found = {
        "annotator_id": record.get("annotator_id"),
        "field": known.get("field", record.get("field")),
        "specific_field": known.get("specific_field", record.get("specific_field")),
        "question_types": known.get("question_type", record.get("question_types")),
    }
    texts = {name: value for name, value in found.items() if isinstance(value, str)}
    return {"question": record.get("question"), **texts}


def _why_no_question(fields: Record) -> str | None:
    """The first reason why a record in the form of a user's own is no question; None if it is one. `question` must be a
    text that is not blank; each field of LONGEST a text (question_types also a list of texts) of at most so many
    characters, or null.
    """
    if not is_filled_text(fields.get("question")):
        return "no question"
    for name, longest in LONGEST.items():
        value = fields.get(name)
        if name == "question_types" and isinstance(value, list):
            value = "|".join(value) if all(isinstance(one, str) for one in value) else 0
        faults = {
            f"ill-formed {name}": not isinstance(value, str | None),
            f"{name} of more than {longest:,} characters": len(str(value or "")) > longest,
        }
        if fault := first_fault(faults):
            return fault
    return None


def _kept(record: Record) -> Row:
    """The columns `original` (the released record as JSON, its answers replaced by null) and `answers` (its answers as
    JSON). If it has no answers, `original` is the whole record and `answers` None.
    """
    answers = record.get("answers")
    if not isinstance(answers, dict) or not answers:
        return {"original": write_exact(record), "answers": None}
    return {"original": write_exact({**record, "answers": None}), "answers": write_exact(answers)}


def released_record(question: Row) -> Record | None:
    """The released record that a row of QUESTIONS was read from, as it was read; None if it was not released."""
    if question["original"] is None:
        return None
    record: Record = read_exact(question["original"])
    return record if question["answers"] is None else {**record, "answers": read_exact(question["answers"])}


def jsonl_records(lines: Iterable[bytes], subject: str = "A JSONL file") -> Iterator[Record | Rejected]:
    """The objects of a JSONL file, blank lines skipped, addresses in their texts without user and password; a Rejected
    for each line that is no object.

    SourceError if the first line that is not blank begins a JSON array of objects; `subject` names the file there.
    """
    filled = (line for line in lines if not line.isspace() and line)
    for position, line in enumerate(filled):
        if position == 0 and _ARRAY.match(line):
            raise SourceError(
                f"{subject} is one JSON array: give one object a line, as `jq -c '.[]' FILE > questions.jsonl` writes."
            )
        try:
            record = read_exact(line)
        except IllFormed as error:
            yield defect(position, "ill-formed JSON", line, str(error))
        else:
            yield without_logins_in(record) if isinstance(record, dict) else defect(position, "no record", line)


def defect(position: int, reason: str, raw: str | bytes, detail: str | None = None) -> Rejected:
    """A Rejected of kind `defect` for the record at this position of its file, from 0. `raw`: the record's text, in
    which addresses lose user and password.
    """
    return Rejected(f"record {position}", "defect", reason, detail, without_logins(raw_text(raw)))


def csv_records(lines: Iterable[bytes], subject: str = "A CSV file of questions") -> Iterator[Record | Rejected]:
    """The records of a CSV file as dicts by column name, blank cells left out; a Rejected for each ill-formed one.

    Columns may come in any order, separated by commas, semicolons or tabs; case does not matter in their names, a blank
    counts as `_`, and those not in HEADERS are left out. SourceError if no column is named `question`, or too many
    lines are ill-formed (see `csv_rows`); `subject` names the file there.
    """
    rows = csv_rows(lines, subject)
    headers = next(rows, [])
    named = [] if isinstance(headers, Rejected) else ["_".join(header.lower().split()) for header in headers]
    columns = [HEADERS.get(name) for name in named]
    if "question" not in columns:
        raise SourceError(f'{subject} has no column "question" in its first line: name its columns there.')
    for position, row in enumerate(rows):
        yield (
            replace(row, key=f"record {position}") if isinstance(row, Rejected) else _csv_record(position, row, columns)
        )


def _csv_record(position: int, cells: list[str], columns: list[str | None]) -> Record | Rejected:
    """One row of a CSV file as a dict by column name, blank cells and columns without a name left out. A Rejected if
    it is no UTF-8, or has another number of cells than `columns`. `columns`: the name of each column, None for those
    to leave out.
    """
    raw = "\t".join(cells)
    if raw != raw.encode("utf-8", "replace").decode():
        return defect(position, "no UTF-8", raw)
    if len(cells) != len(columns):
        detail = f"{len(cells)} cells, the first line has {len(columns)}"
        return defect(position, "another number of cells than the first line", raw, detail)
    return {name: without_logins(cell) for name, cell in zip(columns, cells, strict=True) if name and cell.strip()}
