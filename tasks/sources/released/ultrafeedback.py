"""UltraFeedback: four models' answers to an instruction, each rated by GPT-4; JSON lines by source, or Parquet.

    {"source": "evol_instruct", "instruction": "Name three trees.", "models": ["alpaca-7b", ...],
     "completions": [{"model": "alpaca-7b", "principle": "helpfulness", "custom_system_prompt": "...",
                      "response": "Oak, ash, elm.", "critique": "Short but right.",
                      "overall_score": 8.0, "fine-grained_score": 4.25,
                      "annotations": {"instruction_following": {"Rating": "5", "Rationale": "..."},
                                      "honesty": {"Rating": "4", "Rationale": "..."},
                                      "truthfulness": {"Type": ["None"], "Rationale": "...", "Rating": "5",
                                                       "Rationale For Rating": "..."},
                                      "helpfulness": {"Rating": "N/A", ...}}}, ...],
     "correct_answers": ["None"], "incorrect_answers": ["None"]}

Ratings are texts, "N/A" where a model gave none; fine-grained_score, their mean, may be NaN, which JSON has not. One
that is no mean of ratings (outside 1 to 5, infinite) is null, and `doubt` says so.
Before 2023-12-29 (commit 40b4365 of the repository) 2,628 answers that deserved 1 have an overall_score of 10: upstream
then wrote 1 where the mean of the ratings was at most 2, kept 10 where it was above 4, and had the others rated again.
The source truthful_qa is a benchmark, and is left out. Some records have fewer than four completions.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import xxhash

from longform.artifacts.rows import Rejected, Row, Shard
from longform.engine.stage import AtMost, StageContext, stage
from schemas.sources.preferences import COMPLETIONS
from tasks.sources.files.hub import origin_of
from tasks.sources.files.inputs import raw_text, retrieved_at, text_or_none
from tasks.sources.files.lines import read_lines
from tasks.sources.files.parquet import is_parquet, parquet_batches, readable
from tasks.sources.files.sizes import most_bytes, most_records

GROUP = "ultrafeedback"
LICENCE = "MIT"
REPOSITORY = "openbmb/UltraFeedback"
CORRECTED = "40b436560ca83a8dba36114c22ab3c66e43f6d5e"
CONTAMINATED = "truthful_qa"
ASPECTS = ("instruction_following", "honesty", "truthfulness", "helpfulness")
ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")
BATCH_ROWS = 200
LEAST = '{"instruction":"a","completions":[{"response":"a"},{"response":"b"}]}'


class Filtered(ValueError):
    """Raised for a record that a rule of the method leaves out: it is rejected as filtered, not as a defect."""


def instruction(record: Any, *, corrected: bool) -> Row:
    """The row of COMPLETIONS for one record, without the columns of its file (revision, url, retrieved_at).

    Answers without a text are left out, and counted in `left_out`. Raises Filtered for a record of the benchmark
    CONTAMINATED or with fewer than two answers, ValueError for one that is no dict or has no instruction; the message
    says why. `corrected`: the file is of the commit in which upstream corrected the scores of 10 that stand for 1.
    """
    if not isinstance(record, dict):
        raise ValueError("no record")
    text, source = record.get("instruction"), text_or_none(record.get("source")) or ""
    if not isinstance(text, str) or not text.strip():
        raise ValueError("no instruction")
    if source == CONTAMINATED:
        raise Filtered("source is a benchmark")
    listed = _list(record.get("completions"))
    answered = [one for one in listed if isinstance(one, dict) and (text_or_none(one.get("response")) or "").strip()]
    found = [completion(one, corrected=corrected) for one in answered]
    if len(found) < 2:
        raise Filtered("fewer than two completions")
    return {
        "instruction_id": f"{GROUP}/{content_hash(source, text, found)}",
        "source": source,
        "instruction": text,
        "completions": found,
        "left_out": len(listed) - len(found),
        "correct_answers": _answers(record.get("correct_answers")),
        "incorrect_answers": _answers(record.get("incorrect_answers")),
        "licence": LICENCE,
    }


def _list(value: Any) -> list[Any]:
    """The value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def _answers(value: Any) -> list[str]:
    """The strings in `value` without "None", which upstream writes where there is no answer.

    [] if `value` is no list.
    """
    return [text for text in _list(value) if isinstance(text, str) and text != "None"]


def content_hash(source: str, text: str, completions: list[Row]) -> str:
    """16 hex digits over source, instruction, models and responses; ratings and critiques do not count."""
    document = orjson.dumps([source, text, [[one["model"], one["response"]] for one in completions]])
    return hashlib.sha256(document).hexdigest()[:16]


def completion(record: dict[str, Any], *, corrected: bool) -> Row:
    """One answer with its scores, as an item of the column `completions`.

    `record`: an item of the record's completions, with a text as `response`. The overall score is null if it is
    missing or known to be wrong (a 10 given for 1); `doubt` says why, and also why a fine-grained score is null or an
    overall score is doubtful. `corrected`: the file is of the commit in which upstream corrected the scores of 10 that
    stand for 1.
    """
    ratings = {aspect: rating(_annotation(record, aspect).get("Rating")) for aspect in ASPECTS}
    overall = number(record.get("overall_score"))
    fine, fine_doubt = fine_grained(
        record.get("fine-grained_score"), [one for one in ratings.values() if one is not None]
    )
    doubt = doubt_of(overall, fine, corrected=corrected)
    return {
        "model": text_or_none(record.get("model")) or "",
        "response": record["response"],
        "principle": text_or_none(record.get("principle")),
        "overall_score": None if doubt in (MISSING, TEN_FOR_ONE) else overall,
        "doubt": "; ".join(filter(None, (doubt, fine_doubt))) or None,
        "fine_grained_score": fine,
        **ratings,
        "critique": text_or_none(record.get("critique")),
    }


MISSING = "no overall score"
TEN_FOR_ONE = "10 given for 1"
MAYBE_TEN_FOR_ONE = "10 may stand for 1"
NO_FINE = "no fine-grained score"
OUTSIDE = "fine-grained score outside 1 to 5"
_COUNTED = {
    "scores of 10 given for 1": TEN_FOR_ONE,
    "scores of 10 in doubt": MAYBE_TEN_FOR_ONE,
    "fine-grained scores outside 1 to 5": OUTSIDE,
}


def fine_grained(value: Any, ratings: Sequence[float]) -> tuple[float | None, str | None]:
    """(score, reason why there is none): the fine-grained score from 1 to 5 and None, or None and the reason.

    A score that is NaN or no number is replaced by the mean of `ratings`; without ratings the reason is NO_FINE. Any
    number outside 1 to 5 becomes None, with the reason OUTSIDE.
    """
    score = _float(value)
    if score is None or math.isnan(score):
        return (sum(ratings) / len(ratings), None) if ratings else (None, NO_FINE)
    return (score, None) if 1 <= score <= 5 else (None, OUTSIDE)


def doubt_of(overall: float | None, fine: float | None, *, corrected: bool) -> str | None:
    """Why an overall score is missing, wrong or doubtful; None if it can be trusted, as every score below 10 can.

    A 10 stands for 1 if the fine-grained score is at most 2: so upstream corrected them (OpenBMB, 2023-12-29). Any
    other 10 is doubtful, unless the fine-grained score is above 4 or the file is `corrected`, that is, of the commit
    that did so.
    """
    if overall is None:
        return MISSING
    if overall < 10:
        return None
    if fine is not None and fine <= 2:
        return TEN_FOR_ONE
    return None if corrected or (fine is not None and fine > 4) else MAYBE_TEN_FOR_ONE


def _annotation(record: dict[str, Any], aspect: str) -> dict[str, Any]:
    """The dict that `annotations` of an answer has for one aspect ("Rating" and others); {} if there is none."""
    annotations = record.get("annotations")
    found = annotations.get(aspect) if isinstance(annotations, dict) else None
    return found if isinstance(found, dict) else {}


def rating(value: Any) -> float | None:
    """The rating as a number from 1 to 5, also from text such as "5"; None for "N/A" and anything else."""
    found = number(value)
    return found if found is not None and 1 <= found <= 5 else None


def number(value: Any) -> float | None:
    """The value as a finite number, also from text such as "8.5"; None if it is none, or a bool."""
    found = _float(value)
    return found if found is not None and math.isfinite(found) else None


def _float(value: Any) -> float | None:
    """The value as a number, also from text such as "8.5", and also if it is NaN or infinite.

    None if it is none, or a bool.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


# ---------------------------------------------------------------- files


def records(piece: Shard) -> Iterator[Any]:
    """The records of a Parquet or JSON Lines file, in order. Of JSON, NaN becomes null, infinite numbers strings.

    A line that is not JSON is yielded as its bytes. Raises SourceError if the file is damaged.
    """
    if is_parquet(Path(piece.source.path)):
        with readable(piece):
            for batch in parquet_batches(piece, lambda path: True, BATCH_ROWS):
                yield from batch.to_pylist()
    else:
        yield from map(document, read_lines(piece))


def document(line: bytes) -> Any:
    """The JSON value of a line, with NaN as null and infinite numbers as strings; the line itself if it is not JSON."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        pass
    try:
        return orjson.loads(orjson.dumps(json.loads(line, parse_constant=_finite, parse_float=_finite)))
    except (ValueError, TypeError, RecursionError):
        return line


def _finite(text: str) -> float | str | None:
    """The number that a JSON text writes, as a float; None for NaN, the text itself for an infinite number."""
    found = float(text)
    return found if math.isfinite(found) else None if math.isnan(found) else text


def instructions(listed: Iterable[Any], origin: dict[str, Any], *, corrected: bool) -> Iterator[Row | Rejected]:
    """A row of COMPLETIONS for each record, in order, or a Rejected: a defect if the record is broken.

    It is filtered if a rule leaves the record out, or an earlier one has the same instruction_id (instruction, source,
    models and responses). `listed`: the records, as `records` yields them; `origin`: columns of the file, added to
    every row; `corrected`: the file is of the commit in which upstream corrected the scores of 10 that stand for 1.
    """
    seen: set[str] = set()
    for record in listed:
        try:
            row = instruction(record, corrected=corrected)
        except ValueError as error:
            yield _rejected(record, error)
        else:
            if row["instruction_id"] in seen:
                yield Rejected(row["instruction_id"], "filtered", "repeated record")
            else:
                seen.add(row["instruction_id"])
                yield {**row, **origin}


def _rejected(record: Any, error: ValueError) -> Rejected:
    """The Rejected for a record: filtered if `error` is a Filtered, else a defect.

    A defect has the beginning of the record as raw text. Its key is a hash of the record. `record`: bytes if it is a
    line that is not JSON.
    """
    raw = record if isinstance(record, bytes) else _raw(record)
    key = f"{GROUP}/?{xxhash.xxh3_64_hexdigest(raw)}"
    if isinstance(error, Filtered):
        return Rejected(key, "filtered", str(error))
    reason = "no JSON" if isinstance(record, bytes) else str(error)
    return Rejected(key, "defect", reason, raw=raw_text(raw))


def _raw(record: Any) -> bytes:
    """The record as JSON; if it is nested too deep for that, the error's message."""
    try:
        return orjson.dumps(record, default=str)
    except TypeError as error:  # nested too deep
        return str(error).encode()


@stage(COMPLETIONS, revision=2, at_most=AtMost(bytes=most_bytes("files"), rows=most_records("files", LEAST)))
def read_instructions(context: StageContext, files: Shard) -> Iterator[Row | Rejected]:
    """Instructions with their rated completions, in the order of the file; a Rejected for each record left out."""
    origin = origin_of(files.source)
    columns = {**origin, "retrieved_at": retrieved_at(files.source)}
    for item in instructions(records(files), columns, corrected=origin["revision"] == CORRECTED):
        context.count("read", 1)
        if not isinstance(item, Rejected):
            doubts = [why for one in item["completions"] for why in (one["doubt"] or "").split("; ")]
            for name, doubt in _COUNTED.items():
                context.count(name, doubts.count(doubt))
        yield item
