import gzip
import json
from pathlib import Path
from typing import Any

import paths
import pytest
from axioms_builds import Silent
from http_server import Answer, serve
from hypothesis import given
from hypothesis import strategies as st

from flows.sources import webgpt as flow
from longform.artifacts.rows import Rejected
from longform.artifacts.store import Store
from longform.engine.build import Build
from longform.engine.runners import ThreadRunner
from longform.engine.thread_tasks import SequentialStages
from longform.errors import SourceError, UsageError
from longform.llm.models import Models
from longform.net.download import Downloader
from tasks.sources.released.webgpt import cites, comparison, comparisons

SAMPLES = paths.SAMPLES / "webgpt"


def record(**changed: Any) -> dict[str, Any]:
    quotes = {"title": ["A page (page.example)", "Another"], "extract": ["First.", "Second."]}
    return {
        "question": {"dataset": "eli5", "id": "q1", "full_text": "Why is it so?\n\nI wonder."},
        "quotes_0": quotes,
        "answer_0": "It is so [2], as they say [1, 2].",
        "tokens_0": {"prefix": [1, 2], "completion": [3]},
        "score_0": 0.5,
        "quotes_1": {"title": [], "extract": []},
        "answer_1": "Because.",
        "tokens_1": {"prefix": [1, 2], "completion": [4]},
        "score_1": -0.5,
        **changed,
    }


def found(*records: Any) -> tuple[list[dict[str, Any]], list[Rejected]]:
    lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in records]
    items = list(comparisons(lines, None))
    return [one for one in items if isinstance(one, dict)], [one for one in items if isinstance(one, Rejected)]


def read(home: Path, *paths: Path) -> Any:
    build = Build(
        Store(home),
        tasks=SequentialStages(),
        runner=ThreadRunner(),
        progress=Silent(),
        models=Models(home / "responses.sqlite"),
    )
    [rows] = flow.read(build, list(paths), flow.Read())
    build.close()
    return rows, build.done[-1].artifact


def test_a_record_becomes_a_row_without_its_tokens():
    [row], rejected = found(record())
    quotes = [{"title": "A page (page.example)", "extract": "First."}, {"title": "Another", "extract": "Second."}]
    assert row.pop("comparison_id").startswith("webgpt/")
    assert row == {
        "question": "Why is it so?\n\nI wonder.",
        "question_dataset": "eli5",
        "question_id": "q1",
        "eli5": True,
        "first": {"text": "It is so [2], as they say [1, 2].", "quotes": quotes, "cites": [2, 1], "score": 0.5},
        "second": {"text": "Because.", "quotes": [], "cites": [], "score": -0.5},
        "preferred": "first",
        "licence": None,
        "url": "https://openaipublic.blob.core.windows.net/webgpt-answer-viewer/comparisons.jsonl",
        "retrieved_at": None,
    }
    assert not rejected


@pytest.mark.parametrize(
    ("score", "preferred"),
    [(1, "first"), (0.25, "first"), (0, "tie"), (-0.0, "tie"), (-0.125, "second"), (-1, "second")],
)
def test_the_sign_of_the_score_says_who_is_preferred(score, preferred):
    assert comparison(record(score_0=score, score_1=-score))["preferred"] == preferred


@pytest.mark.parametrize(
    ("dataset", "eli5"),
    [("eli5", True), ("ELI5-fact-check", True), ("triviaqa", False), ("arc-challenge", False), (None, False)],
)
def test_questions_of_eli5_are_marked(dataset, eli5):
    assert comparison(record(question={"dataset": dataset, "id": 5, "full_text": "Why?"}))["eli5"] is eli5


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"question": None}, "no question"),
        ({"question": {"dataset": "eli5", "full_text": " "}}, "no question"),
        ({"answer_0": ""}, "empty answer"),
        ({"answer_1": None}, "empty answer"),
        ({"score_0": 0.5, "score_1": 0.5}, "scores do not cancel out"),
        ({"score_0": 1.5, "score_1": -1.5}, "no score in [-1, 1]"),
        ({"score_0": "0.5"}, "no score in [-1, 1]"),
        ({"score_0": True, "score_1": -1}, "no score in [-1, 1]"),
        ({"score_0": None}, "no score in [-1, 1]"),
        ({"score_0": float("nan")}, "no JSON"),
        ({"quotes_0": None}, "no quotes"),
        ({"quotes_0": {"title": ["a"], "extract": []}}, "titles and extracts do not match"),
        ({"quotes_0": {"title": ["a"], "extract": [None]}}, "titles and extracts do not match"),
        ({"quotes_0": {"title": "a", "extract": "b"}}, "titles and extracts do not match"),
    ],
)
def test_a_broken_record_is_a_defect_with_its_text(changed, reason):
    rows, [told] = found(record(), record(**changed))
    assert len(rows) == 1
    assert (told.kind, told.reason) == ("defect", reason)
    assert told.raw
    assert told.raw in json.dumps(record(**changed))


@pytest.mark.parametrize("line", [b"", b"null", b"[]", b"5", b'{"question": {"data', b"\xff", b"[" * 100_000])
def test_a_line_that_is_no_record_is_a_defect(line):
    rows, rejected = found(line, record())
    assert (len(rows), len(rejected)) == (1, 1)


def test_repeated_records_get_numbers_and_ids_mind_content_only():
    turned = dict(reversed(record().items()))
    rows, _ = found(record(), record(answer_1="No."), turned, record(tokens_0={"prefix": [], "completion": []}))
    first, other, second, third = (row["comparison_id"] for row in rows)
    assert (second, third) == (f"{first}-2", f"{first}-3")
    assert other != first
    again, _ = found(record(answer_1="No."), record())
    assert [row["comparison_id"] for row in again] == [other, first]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("a [1] b [2]", [1, 2]),
        ("[3][1][3]", [3, 1]),
        ("[1, 2,3]", [1, 2, 3]),
        ("[a] [] [1-2] [1234] (1)", []),
        ("[1] and array[0]", [1, 0]),
    ],
)
def test_citations_are_numbers_in_square_brackets(text, numbers):
    assert cites(text) == numbers


@given(st.lists(st.integers(1, 99)), st.text(st.characters(exclude_characters="[]")))
def test_every_citation_is_found_once_in_order(numbers, between):
    assert cites(between.join(f"[{number}]" for number in numbers)) == list(dict.fromkeys(numbers))


def test_the_sample_is_accounted_for(tmp_path):
    rows, artifact = read(tmp_path, SAMPLES)
    assert rows.count == 4
    assert [row["preferred"] for row in rows] == ["first", "second", "tie", "tie"]
    assert artifact.rejected() == {("defect", "no JSON"): 1}
    for row in rows:
        assert all(1 <= cite <= len(side["quotes"]) for side in (row["first"], row["second"]) for cite in side["cites"])


def test_a_packed_file_gives_the_same_rows_and_a_truncated_one_is_an_error(tmp_path):
    content = (SAMPLES / "comparisons.jsonl").read_bytes()
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(content))
    rows, _ = read(tmp_path / "home", tmp_path / "a.jsonl.gz")
    plain, _ = read(tmp_path / "home", SAMPLES)
    assert list(rows) == list(plain)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(content)[:-9])
    with pytest.raises(SourceError, match="truncated"):
        read(tmp_path / "home", tmp_path / "a.jsonl.gz")


def test_the_file_is_fetched_once_and_its_terms_say_that_there_is_no_licence(tmp_path):
    content = (SAMPLES / "comparisons.jsonl").read_bytes()
    with serve() as server:
        server.on(
            "/v/comparisons.jsonl",
            Answer(body=content, etag='"1"', ranges=True, drop_after=500),
            Answer(body=content, etag='"1"', ranges=True),
        )
        config, http = flow.Fetch(base_url=f"{server.url}/v"), Downloader(sleep=lambda seconds: None)
        [path] = flow.fetch(http, [], tmp_path, config, None)
        asked = len(server.asked)
        assert flow.fetch(http, ["comparisons.jsonl"], tmp_path, config, None) == [path]
        with pytest.raises(UsageError, match='has no "train"'):
            flow.fetch(http, ["train"], tmp_path, config, None)
    assert (path.read_bytes(), len(server.asked)) == (content, asked)
    assert flow.TERMS.licence.startswith("none")
