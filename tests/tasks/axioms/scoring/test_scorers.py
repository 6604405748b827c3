"""Scorers: how they are named, and what length, BM25 and files of scores give."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pandas as pd
import pytest

from longform.errors import UsageError
from longform.files import sha256_of
from longform.llm.ask.types import Endpoint
from longform.llm.offline import ENDPOINT
from tasks.axioms.scoring.files import FileOfScores, read_scores
from tasks.axioms.scoring.groups import Group, Missing
from tasks.axioms.scoring.scorers import scorer_of
from tasks.axioms.scoring.words import by_bm25, by_length, count_texts

MINE = Endpoint("mine", "m", base_url="http://127.0.0.1:1/v1")
ENDPOINTS = {"offline": ENDPOINT, "mine": MINE}
GROUP = Group("q", "How long does cold beer keep?", (), [("a", "Beer keeps long."), ("b", "No idea"), ("c", "")])


def file_of(folder: Path, rows: list[dict[str, object]], name: str = "scores.jsonl") -> Path:
    path = folder / name
    if path.suffix == ".parquet":
        pd.DataFrame(rows).to_parquet(path)
    elif path.suffix == ".csv":
        pd.DataFrame(rows).to_csv(path, index=False)
    else:
        path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path


def scores_of(path: Path) -> FileOfScores:
    return read_scores(path, sha256_of(path))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("lenght", '"lenght" is no scorer'),
        ("judge", '"judge" is no scorer'),
        ("judge:gpt", 'There is no endpoint "gpt" to judge'),
        ("judge:mine:pairwise", 'a judge is not "pairwise"'),
        ("encoder:", "names no model"),
        ("nowhere.parquet", "There is no file of scores nowhere.parquet"),
    ],
)
def test_what_names_no_scorer_is_refused_with_what_does(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=re.escape(sentence)):
        scorer_of(text, ENDPOINTS, sha256_of)


def test_an_encoder_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.axioms.scoring.scorers.has_cross_encoders", lambda: False)
    with pytest.raises(UsageError, match=r"not installed: install the extra .*dense.* or score elsewhere"):
        scorer_of("encoder:some/model", ENDPOINTS, sha256_of)


def test_a_file_is_known_by_its_content_and_not_by_its_name(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"question_id": "q", "answer_id": "a", "score": 1}]
    one, same = (scorer_of(str(file_of(tmp_path, rows, name)), {}, sha256_of) for name in ("a.jsonl", "b.jsonl"))
    other = scorer_of(str(file_of(tmp_path, [rows[0] | {"score": 2}], "c.jsonl")), {}, sha256_of)
    assert one.identity() == same.identity() != other.identity()
    assert one.name == "a.jsonl"


def test_length_counts_words_between_white_space() -> None:
    assert by_length(GROUP) == [3, 2, 0]


def test_bm25_is_the_formula_over_all_different_answers_of_the_set() -> None:
    others = [Group("r", "Is beer cold?", (), [("a", "Beer keeps long."), ("d", "Cold cold beer, cold water")])]
    known = count_texts([GROUP, *others], [GROUP.question, "Is beer cold?"])
    texts = [["beer", "keeps", "long"], ["idea"], [], ["cold", "cold", "beer", "cold", "water"]]  # without stop words
    assert (known.texts, known.words) == (4, 9)
    assert dict(known.counts) == {"beer": 2, "cold": 1, "long": 1}

    def score(words: list[str]) -> float:
        found = 0.0
        for word in ("how", "long", "does", "cold", "beer", "keep"):
            have, times = sum(word in each for each in texts), words.count(word)
            rarity = math.log(1 + (4 - have + 0.5) / (have + 0.5))
            found += rarity * times / (times + 1.5 * (1 - 0.75 + 0.75 * len(words) / (9 / 4)))
        return found

    assert by_bm25(GROUP, known) == pytest.approx([score(words) for words in texts[:3]], abs=1e-9)
    assert by_bm25(GROUP, known)[1:] == [0, 0]


def test_bm25_without_any_word_is_zero() -> None:
    empty = Group("q", "?", (), [("a", "…")])
    assert by_bm25(empty, count_texts([empty], ["?"])) == [0]
    assert count_texts([], []).texts == 0


@pytest.mark.parametrize("name", ["scores.jsonl", "scores.csv", "scores.parquet"])
def test_a_file_gives_its_scores_in_any_order_and_says_what_it_lacks(name: str, tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"question_id": "q", "answer_id": "c", "score": 0.5},
        {"question_id": "7", "answer_id": "8", "score": -1.0},
        {"question_id": "q", "answer_id": "a", "score": 2.0},
    ]
    found = scores_of(file_of(tmp_path, rows, name))
    assert found.of(GROUP) == [2.0, Missing("no score in the file"), 0.5]
    assert found.unknown({("q", "a"), ("q", "b"), ("q", "c")}) == [("7", "8")]


def test_scores_that_are_no_numbers_are_told(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"question_id": "q", "answer_id": "a", "score": math.nan},
        {"question_id": "q", "answer_id": "b", "score": math.inf},
        {"question_id": "q", "answer_id": "c", "score": None},
    ]
    reasons = [each.reason for each in scores_of(file_of(tmp_path, rows)).of(GROUP) if isinstance(each, Missing)]
    assert reasons == ["no finite number in the file"] * 2 + ["no score in the file"]
    path = tmp_path / "scores.csv"
    path.write_text("question_id,answer_id,score\nq,a,nan\nq,b,inf\nq,c,\n")
    reasons = [each.reason for each in scores_of(path).of(GROUP) if isinstance(each, Missing)]
    assert reasons == ["no finite number in the file"] * 2 + ["no score in the file"]


def test_scores_may_be_of_one_set_and_with_evidence(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"question_id": "q", "answer_id": "a", "score": 1, "set": "", "evidence": ""},
        {"question_id": "q", "answer_id": "a", "score": 2, "set": "pairs", "evidence": "false"},
        {"question_id": "q", "answer_id": "a", "score": 3, "set": "", "evidence": "true"},
        {"question_id": "q", "answer_id": "a", "score": 4, "set": "", "evidence": "e_1"},
    ]
    found = scores_of(file_of(tmp_path, rows))
    answers = [("a", "A")]
    for group, score in (
        (Group("k", "Q", (), answers, "q", "webgpt"), 1),
        (Group("k", "Q", (), answers, "q", "pairs"), 2),
        (Group("k", "Q", ("e",), answers, "q", "webgpt", "e_2"), 3),
        (Group("k", "Q", ("e",), answers, "q", "webgpt", "e_1"), 4),
    ):
        assert found.of(group) == [score]
    only_with = scores_of(file_of(tmp_path, rows[2:3], "with.jsonl"))
    assert isinstance(only_with.of(Group("k", "Q", (), answers, "q"))[0], Missing)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([{"question_id": "q", "answer": "a", "score": 1}], "has no column answer_id"),
        (
            [{"question_id": "q", "answer_id": "a", "score": n} for n in (1, 2)],
            "Row 2 of .* scores the answer a to q again",
        ),
        ([{"question_id": "q", "answer_id": "", "score": 1}], "Row 1 of .* has no question_id or no answer_id"),
        ([{"question_id": "q", "answer_id": "a", "score": "good"}], 'Row 1 of .* has the score "good"'),
    ],
)
def test_a_wrong_file_is_refused_with_its_row(rows: list[dict[str, object]], sentence: str, tmp_path: Path) -> None:
    for name in ("scores.jsonl", "scores.csv", "scores.parquet"):
        with pytest.raises(UsageError, match=sentence):
            scores_of(file_of(tmp_path, rows, name))


@pytest.mark.parametrize(("name", "content"), [("s.csv", ""), ("s.csv", "a,b,c\n"), ("s.jsonl", "\n")])
def test_a_file_without_any_row_is_refused(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UsageError, match=r"has no row: .* question_id, answer_id, score"):
        scores_of(tmp_path / name)


@pytest.mark.parametrize("name", ["scores.jsonl", "scores.parquet", "scores.txt"])
def test_a_file_that_cannot_be_read_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\x00\xff{")
    with pytest.raises(UsageError, match=r"cannot be read|is no file of scores"):
        scores_of(tmp_path / name)
