import json
import math
from pathlib import Path
from typing import Any

import paths
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from axioms_builds import Silent

from flows.sources import ultrafeedback as flow
from longform.artifacts.rows import Rejected
from longform.artifacts.store import Store
from longform.engine.build import Build
from longform.engine.runners import ThreadRunner
from longform.engine.thread_tasks import SequentialStages
from longform.errors import UsageError
from longform.llm.models import Models
from longform.net.download import Downloader
from tasks.sources.released.ultrafeedback import CORRECTED, document, doubt_of, instructions, number, rating

SAMPLES = paths.SAMPLES / "ultrafeedback"
ASPECTS = ("instruction_following", "honesty", "truthfulness", "helpfulness")


def completion(
    response: str = "Oak.", overall: Any = 8.0, fine: Any = 4.25, ratings: str = "5 4 4 4"
) -> dict[str, Any]:
    rated = dict(zip(ASPECTS, ratings.split(), strict=True))
    return {
        "model": "model-a",
        "principle": "honesty",
        "custom_system_prompt": "Be honest.",
        "response": response,
        "critique": "Right.",
        "overall_score": overall,
        "fine-grained_score": fine,
        "annotations": {
            aspect: {"Rating": value, "Rationale": "x", "Rationale For Rating": "y", "Type": ["None"]}
            for aspect, value in rated.items()
        },
    }


def record(*completions: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {
        "source": "flan",
        "instruction": "Name a tree.",
        "models": ["model-a", "model-a"],
        "completions": list(completions) or [completion(), completion("Ash.", 3, 2.0, "2 2 2 2")],
        "correct_answers": ["None"],
        "incorrect_answers": ["None"],
        **changed,
    }


def found(*records: Any, corrected: bool = False) -> tuple[list[dict[str, Any]], list[Rejected]]:
    items = list(instructions(records, {}, corrected=corrected))
    return [one for one in items if isinstance(one, dict)], [one for one in items if isinstance(one, Rejected)]


def read(home: Path, *paths: Path, **given: Any) -> Any:
    build = Build(
        Store(home),
        tasks=SequentialStages(),
        runner=ThreadRunner(),
        progress=Silent(),
        models=Models(home / "responses.sqlite"),
    )
    [rows] = flow.read(build, list(paths), flow.Read(**given))
    build.close()
    return rows, build.done[-1].artifact


def test_a_record_becomes_a_row_with_numbers():
    [row], rejected = found(
        record(completion(ratings="5 N/A 4 3", fine=4.0), completion("Ash.", "7.5", None, "2 2 3 2"))
    )
    first, second = row["completions"]
    assert first == {
        "model": "model-a",
        "response": "Oak.",
        "principle": "honesty",
        "overall_score": 8.0,
        "doubt": None,
        "fine_grained_score": 4.0,
        "instruction_following": 5.0,
        "honesty": None,
        "truthfulness": 4.0,
        "helpfulness": 3.0,
        "critique": "Right.",
    }
    assert (second["overall_score"], second["fine_grained_score"]) == (7.5, 2.25)  # the mean, where it is missing
    assert (row["left_out"], row["correct_answers"], row["incorrect_answers"]) == (0, [], [])
    assert not rejected


@pytest.mark.parametrize(
    ("overall", "fine", "corrected", "doubt"),
    [
        (10.0, 1.0, False, "10 given for 1"),
        (10.0, 2.0, False, "10 given for 1"),
        (10.0, 2.0, True, "10 given for 1"),
        (10.0, 2.25, False, "10 may stand for 1"),
        (10.0, 4.0, False, "10 may stand for 1"),
        (10.0, None, False, "10 may stand for 1"),
        (10.0, 4.0, True, None),
        (10.0, 4.25, False, None),
        (9.0, 1.0, False, None),
        (1.0, 1.0, False, None),
        (None, 3.0, False, "no overall score"),
    ],
)
def test_a_ten_is_doubted_by_the_rule_of_the_correction(overall, fine, corrected, doubt):
    assert doubt_of(overall, fine, corrected=corrected) == doubt


def test_a_ten_given_for_one_is_no_score_and_one_in_doubt_stays():
    wrong, maybe = completion(overall=10, fine=1.5, ratings="1 2 1 2"), completion("Ash.", 10, 3.0, "3 3 3 3")
    [row], _ = found(record(wrong, maybe))
    assert [(one["overall_score"], one["doubt"]) for one in row["completions"]] == [
        (None, "10 given for 1"),
        (10.0, "10 may stand for 1"),
    ]
    [row], _ = found(record(wrong, maybe), corrected=True)
    assert [one["doubt"] for one in row["completions"]] == ["10 given for 1", None]


NO_MEAN = "fine-grained score outside 1 to 5"


@pytest.mark.parametrize(
    ("written", "score", "doubt"),
    [
        ("1", 1.0, None),
        ('"5.0"', 5.0, None),
        ("4.75", 4.75, None),
        ("0.99", None, NO_MEAN),
        ("5.01", None, NO_MEAN),
        ("42", None, NO_MEAN),
        ("-3", None, NO_MEAN),
        ("0", None, NO_MEAN),
        ("Infinity", None, NO_MEAN),
        ("-Infinity", None, NO_MEAN),
        ("1e999", None, NO_MEAN),
        ("NaN", 3.0, None),  # what upstream writes for none: the mean of 2, 3 and 4
        ("null", 3.0, None),
    ],
)
def test_a_fine_grained_score_that_no_ratings_have_as_their_mean_is_null_with_its_doubt(
    tmp_path, written, score, doubt
):
    text = json.dumps(record(completion(fine="FINE", ratings="2 3 4 N/A"), completion("Ash.")))
    line = text.replace('"FINE"', written)
    (tmp_path / "a.jsonl").write_text(line + "\n")
    rows, artifact = read(tmp_path / "home", tmp_path / "a.jsonl")
    [row] = rows
    assert [(one["fine_grained_score"], one["doubt"]) for one in row["completions"]] == [(score, doubt), (4.25, None)]
    [part] = artifact.parts
    assert dict(part.counts).get("fine-grained scores outside 1 to 5", 0) == (doubt is not None)


@pytest.mark.parametrize("fine", [math.inf, -math.inf, 1e300, 5.5, math.nan, 2.5])
def test_parquet_and_json_lines_agree_on_scores_that_are_none(tmp_path, fine):
    given = record(completion(fine=fine), completion("Ash.", fine=2.0))
    (tmp_path / "a.jsonl").write_text(json.dumps(given) + "\n")
    pq.write_table(pa.Table.from_pylist([given]), tmp_path / "b.parquet")
    assert list(read(tmp_path / "home", tmp_path / "a.jsonl")[0]) == list(read(tmp_path, tmp_path / "b.parquet")[0])


def test_both_scores_may_be_in_doubt():
    unrated = completion("Ash.", None, math.nan, "N/A N/A N/A N/A")
    [row], _ = found(record(completion(overall=10, fine=50.0), unrated))
    assert [(one["overall_score"], one["fine_grained_score"], one["doubt"]) for one in row["completions"]] == [
        (10.0, None, "10 may stand for 1; fine-grained score outside 1 to 5"),
        (None, None, "no overall score; no fine-grained score"),
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("4", 4.0),
        ("4.5", 4.5),
        (3, 3.0),
        (" 5 ", 5.0),
        ("N/A", None),
        ("0", None),
        ("6", None),
        (None, None),
        ("nan", None),
    ],
)
def test_ratings_are_texts(value, expected):
    assert rating(value) == expected


@pytest.mark.parametrize("value", [math.nan, math.inf, "NaN", "inf", "", "x", None, True, [1]])
def test_what_is_no_number_is_none(value):
    assert number(value) is None


@pytest.mark.parametrize(
    ("one", "kind", "reason"),
    [
        (record(source="truthful_qa"), "filtered", "source is a benchmark"),
        (record(completion()), "filtered", "fewer than two completions"),
        (record(completion(), completion(" ")), "filtered", "fewer than two completions"),
        (record(completions=None), "filtered", "fewer than two completions"),
        (record(completions="x"), "filtered", "fewer than two completions"),
        (record(completions=[None, 5, {}]), "filtered", "fewer than two completions"),
        (record(instruction=" "), "defect", "no instruction"),
        (record(instruction=None), "defect", "no instruction"),
        ([1], "defect", "no record"),
        (b'{"cut', "defect", "no JSON"),
    ],
)
def test_what_becomes_no_row_says_why(one, kind, reason):
    rows, [told] = found(record(), one)
    assert len(rows) == 1
    assert (told.kind, told.reason, bool(told.raw)) == (kind, reason, kind == "defect")


def test_a_repeated_record_stays_once_and_ids_mind_the_texts():
    other = record(completion(overall=2), completion("Ash."))
    rows, rejected = found(record(), record(source="sharegpt"), other)
    assert len({row["instruction_id"] for row in rows}) == 2
    assert [(one.kind, one.reason, one.key) for one in rejected] == [
        ("filtered", "repeated record", rows[0]["instruction_id"])
    ]


def test_nan_is_no_json_but_is_read_and_texts_that_hold_it_stay():
    text = json.dumps(
        record(completion("a: NaN, b", fine=math.nan), completion("Ash.", math.nan, math.nan, "N/A N/A N/A N/A"))
    )
    [row], _ = found(document(text.encode()))
    assert [one["response"] for one in row["completions"]] == ["a: NaN, b", "Ash."]
    assert [(one["fine_grained_score"], one["overall_score"]) for one in row["completions"]] == [
        (4.25, 8.0),
        (None, None),
    ]


@pytest.mark.parametrize("line", [b'{"a": NaN', b'{"a": "\\ud800", "b": NaN}', b"[" * 200_000, b"", b"\xff"])
def test_a_line_that_is_no_json_comes_back_itself(line):
    assert document(line) == line


def test_parquet_gives_the_same_rows(tmp_path):
    records = [record(), record(completion(ratings="N/A 1 2 3"), completion("Elm.")), record(source="truthful_qa")]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "b.parquet")
    lines, one = read(tmp_path / "home", tmp_path / "a.jsonl")
    columns, other = read(tmp_path / "home", tmp_path / "b.parquet")
    assert list(lines) == list(columns)
    assert one.rejected() == other.rejected() == {("filtered", "source is a benchmark"): 1}


def test_the_sample_is_accounted_for(tmp_path):
    rows, artifact = read(tmp_path, SAMPLES, revision=CORRECTED)
    first, second = rows
    assert [one["overall_score"] for one in first["completions"]] == [9.0, None, 5.0, 10.0]
    assert [one["doubt"] for one in first["completions"]] == [None, "10 given for 1", None, None]
    assert [one["fine_grained_score"] for one in second["completions"]] == [4.5, None]
    assert first["url"] is None
    assert (first["revision"], first["licence"]) == (CORRECTED, "MIT")
    assert artifact.rejected() == {
        ("filtered", "fewer than two completions"): 1,
        ("filtered", "source is a benchmark"): 1,
    }
    first, _ = read(tmp_path, SAMPLES)[0]
    assert first["completions"][3]["doubt"] == "10 may stand for 1"


def test_a_fetch_takes_the_corrected_commit_by_default(tmp_path):
    assert flow.Fetch().revision == "40b436560ca83a8dba36114c22ab3c66e43f6d5e"
    assert "truthful_qa" not in flow.SOURCES
    with pytest.raises(UsageError, match="is no source"):
        flow.fetch(Downloader(), ["../x"], tmp_path, flow.Fetch(), None)
    with pytest.raises(UsageError, match="40 hex digits"):
        flow.fetch(Downloader(), [], tmp_path, flow.Fetch(revision="main"), None)
