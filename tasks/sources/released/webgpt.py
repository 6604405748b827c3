"""WebGPT comparisons: two answers to a question, with the quotes they were written from, one JSON record a line.

    {"question": {"dataset": "eli5", "id": "8f2", "full_text": "Why is the sky blue?"},
     "quotes_0": {"title": ["Light (example.org)"], "extract": ["Short waves scatter more."]},
     "answer_0": "Air scatters blue light most [1].",
     "tokens_0": {"prefix": [464, 6766], "completion": [16170]}, "score_0": 0.5,
     "quotes_1": {"title": [], "extract": []}, "answer_1": "It reflects the sea.", "tokens_1": {...}, "score_1": -0.5}

Scores lie in [-1, 1] and cancel out; 0 is a tie. Tokens are the same texts again, for another model's vocabulary, and
are dropped. Most questions are from ELI5, which is Reddit's: rows say so. Records have no id, and some are there
twice: the id is a hash of the content, with a number if repeated. The set's page names no licence.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import orjson
import xxhash

from longform.artifacts.rows import Rejected, Row, Shard
from longform.engine.stage import StageContext, stage
from schemas.sources.preferences import COMPARISONS
from tasks.sources.files.inputs import raw_text, retrieved_at
from tasks.sources.files.lines import read_lines

GROUP = "webgpt"
URL = "https://openaipublic.blob.core.windows.net/webgpt-answer-viewer/comparisons.jsonl"
ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
SIDES = (0, 1)

_CITATION = re.compile(r"\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\]")


def comparison(record: Any) -> Row:
    """The row of COMPARISONS for one record, without retrieved_at.

    Raises ValueError, with what is wrong, if question, answers, quotes or scores are missing or ill-formed, the two
    scores do not add up to 0, or the record is nested too deep.
    """
    if not isinstance(record, dict) or not isinstance(record.get("question"), dict):
        raise ValueError("no question")
    question = record["question"]
    asked, dataset = _text(question.get("full_text"), "no question"), question.get("dataset")
    first, second = (side(record, number) for number in SIDES)
    if not math.isclose(first["score"], -second["score"], abs_tol=1e-6):
        raise ValueError("scores do not cancel out")
    upstream = question.get("id")
    return {
        "comparison_id": f"{GROUP}/{content_hash(record)}",
        "question": asked,
        "question_dataset": dataset if isinstance(dataset, str) else "",
        "question_id": None if upstream is None else str(upstream),
        "eli5": isinstance(dataset, str) and dataset.lower().startswith("eli5"),
        "first": first,
        "second": second,
        "preferred": "tie" if first["score"] == 0 else "first" if first["score"] > 0 else "second",
        "licence": None,
        "url": URL,
    }


def side(record: dict[str, Any], number: int) -> Row:
    """Answer `number` (0 or 1) of a record: its text, quotes, cited numbers and score.

    Raises ValueError, with what is wrong, for an empty text, a score that is no number in [-1, 1], or ill-formed
    quotes.
    """
    text = _text(record.get(f"answer_{number}"), "empty answer")
    score = record.get(f"score_{number}")
    if isinstance(score, bool) or not isinstance(score, int | float) or not -1 <= score <= 1:
        raise ValueError("no score in [-1, 1]")
    return {
        "text": text,
        "quotes": quotes(record.get(f"quotes_{number}")),
        "cites": cites(text),
        "score": float(score),
    }


def quotes(value: Any) -> list[Row]:
    """The quotes as {title, extract}, from the parallel lists `title` and `extract` in `value`.

    Raises ValueError if `value` is no dict of two lists of strings of the same length.
    """
    if not isinstance(value, dict):
        raise ValueError("no quotes")
    titles, extracts = value.get("title"), value.get("extract")
    if not (
        isinstance(titles, list)
        and isinstance(extracts, list)
        and len(titles) == len(extracts)
        and all(isinstance(text, str) for text in (*titles, *extracts))
    ):
        raise ValueError("titles and extracts do not match")
    return [{"title": title, "extract": extract} for title, extract in zip(titles, extracts, strict=True)]


def cites(text: str) -> list[int]:
    """The citation numbers in a text, from `[1]` and `[1, 3]` (up to three digits each), each once, in their order."""
    numbers = [int(number) for match in _CITATION.finditer(text) for number in match[1].split(",")]
    return list(dict.fromkeys(numbers))


def content_hash(record: dict[str, Any]) -> str:
    """16 hex digits over question, answers, quotes and scores; other fields and the order of keys do not count.

    `record`: one that has a question and both scores. Raises ValueError if it is nested too deep.
    """
    texts = [record.get(f"{name}_{number}") for name in ("answer", "quotes") for number in SIDES]
    scores = [float(record[f"score_{number}"]) for number in SIDES]
    try:
        document = orjson.dumps([record["question"], texts, scores], option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise ValueError("nested too deep") from error
    return hashlib.sha256(document).hexdigest()[:16]


def _text(value: Any, missing: str) -> str:
    """The value, if it is a string that is not blank; otherwise raises ValueError with the message `missing`."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(missing)
    return value


def comparisons(lines: Iterable[bytes], retrieved: int | None) -> Iterator[Row | Rejected]:
    """A row of COMPARISONS for each line, or a Rejected (a defect).

    The id of a repeated record ends in -2, -3 and so on. `retrieved`: when the file was fetched, in milliseconds since
    1970; None if unknown.
    """
    times: Counter[str] = Counter()
    for line in lines:
        try:
            row = comparison(orjson.loads(line))
        except ValueError as error:
            reason = "no JSON" if isinstance(error, orjson.JSONDecodeError) else str(error)
            yield Rejected(f"{GROUP}/?{xxhash.xxh3_64_hexdigest(line)}", "defect", reason, raw=raw_text(line))
        else:
            number = row["comparison_id"]
            times[number] += 1
            own = f"{number}-{times[number]}" if times[number] > 1 else number
            yield {**row, "comparison_id": own, "retrieved_at": retrieved}


@stage(COMPARISONS, revision=1)
def read_comparisons(context: StageContext, files: Shard) -> Iterator[Row | Rejected]:
    """A row of COMPARISONS for each line of the file, in order, or a Rejected if the line is broken."""
    for item in comparisons(read_lines(files), retrieved_at(files.source)):
        context.count("read", 1)
        if not isinstance(item, Rejected):
            context.count("eli5", int(item["eli5"]))
            context.count("ties", int(item["preferred"] == "tie"))
        yield item
