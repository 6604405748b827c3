"""Predictions: read, matched with the test split, scored, averaged."""

from __future__ import annotations

import json
import resource
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from expertqa_tables import Home, filled, kept, refused
from hypothesis import given, settings
from hypothesis import strategies as st

from longform.artifacts.rows import Row
from longform.errors import SourceError
from longform.files import sha256_of
from schemas.expertqa import DOMAIN_SPLIT, RANDOM_SPLIT
from tasks.expertqa.answers.citations import without_marks
from tasks.expertqa.estimates.predictions import (
    References,
    open_predictions,
    predictions,
    read_predictions,
    scored_rows,
    scorer_of,
)
from tasks.metrics.qafacteval import MODELS, installed, qafacteval
from tasks.metrics.rouge import rouge

SIDES = [("train", "released"), ("test", "hash"), ("test", "near-duplicate")]


def test_where_test_sides_were_released_they_alone_are_scored() -> None:
    rows = [{"split": split, "split_from": decided} for split, decided in SIDES]
    assert scored_rows(rows) == rows[1:]
    released = {"split": "test", "split_from": "released"}
    assert scored_rows([*rows, released]) == [released]


WORDS = st.lists(st.sampled_from(["tea", "kite", "bread", "tide", "oak"]), max_size=9).map(" ".join)
TESTS = {
    "random": References({"expertqa/q1": ["tea is hot"], "expertqa/q2": ["a b", "c d"]}, {"why tea?": "expertqa/q1"}),
    "domain": References({"expertqa/q1": ["tea is hot"]}, {"why tea?": "expertqa/q1"}),
}


def ngram_f(text: str, reference: str, n: int) -> float:
    """ROUGE-n of texts of plain words, from its definition."""
    first, second = (
        Counter(zip(*(words[i:] for i in range(n)), strict=False)) for words in (text.split(), reference.split())
    )
    return f_measure(sum((first & second).values()), sum(first.values()), sum(second.values()))


def lcs_f(text: str, reference: str) -> float:
    """ROUGE-L of texts of plain words, by the recursion that defines a longest common subsequence."""
    first, second = text.split(), reference.split()
    best = {(i, j): 0 for i in range(len(first) + 1) for j in range(len(second) + 1)}
    for i, word in enumerate(first, start=1):
        for j, other in enumerate(second, start=1):
            best[i, j] = best[i - 1, j - 1] + 1 if word == other else max(best[i - 1, j], best[i, j - 1])
    return f_measure(best[len(first), len(second)], len(first), len(second))


def f_measure(common: int, ours: int, theirs: int) -> float:
    return 2 * common / (ours + theirs) if common else 0.0


@settings(deadline=None)  # the first call imports the package
@given(WORDS, WORDS)
def test_rouge_is_what_its_definition_says(text: str, reference: str) -> None:
    [scores] = rouge([(text, [reference])])
    expected = {"rouge1": ngram_f(text, reference, 1), "rouge2": ngram_f(text, reference, 2)}
    assert scores == pytest.approx(expected | {"rougeL": lcs_f(text, reference)}, abs=1e-12)


def test_rouge_by_hand_without_stemming_and_as_the_mean_over_references() -> None:
    [scores] = rouge([("The tides rise twice.", ["tides rise twice a day", "the tide rises"])])
    # against the first: 3 of 4 and 3 of 5 words, 2 of 3 and 2 of 4 pairs; against the second only "the", 1 of 4 and 3
    assert scores["rouge1"] == pytest.approx((2 * 3 / 9 + 2 * 1 / 7) / 2)
    assert scores["rouge2"] == pytest.approx((2 * 2 / 7 + 0) / 2)
    assert scores["rougeL"] == pytest.approx((2 * 3 / 9 + 2 * 1 / 7) / 2)


@given(WORDS, WORDS)
def test_rouge_is_what_its_package_says_to_the_last_digit(text: str, reference: str) -> None:
    from rouge_score.rouge_scorer import RougeScorer

    package = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=False).score(reference, text)
    assert next(rouge([(text, [reference])])) == {kind: score.fmeasure for kind, score in package.items()}


def test_rouge_of_long_texts_takes_seconds_and_no_table_of_all_pairs_of_words() -> None:
    words = [f"w{number}" for number in range(30_000)]
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    [scores] = rouge([(" ".join(words), [" ".join([*words[15_000:], *words[:15_000]])])])
    assert scores["rougeL"] == pytest.approx(0.5)
    assert time.process_time() - started < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 * 1_024


def test_a_text_without_latin_words_is_scored_by_those_of_its_script() -> None:
    assert next(rouge([("茶は熱い", ["茶は熱い"])])) == {"rouge1": 1.0, "rouge2": 1.0, "rougeL": 1.0}


# ---------------------------------------------------------------- reading


def read(*records: Any, score: Any = None) -> list[Any]:
    lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in records]
    return list(predictions(lines, TESTS, score))


def test_a_prediction_is_found_by_id_or_by_the_text_of_its_question() -> None:
    rows = read(
        {"question_id": "expertqa/q1", "model": "m", "prediction": "tea is cold"},
        {"question": "WHY\n tea?", "model": "m", "text": "hot tea", "config": "domain", "zero_shot": True},
    )
    assert [row.pop("prediction_id")[:2] for row in rows] == ["p_", "p_"]
    assert rows == [
        {
            "question_id": "expertqa/q1",
            "model": "m",
            "zero_shot": False,
            "config": "random",
            "text": "tea is cold",
            "rouge1": pytest.approx(2 / 3),
            "rouge2": 0.5,
            "rougeL": pytest.approx(2 / 3),
            "qafacteval": None,
        },
        {
            "question_id": "expertqa/q1",
            "model": "m",
            "zero_shot": True,
            "config": "domain",
            "text": "hot tea",
            "rouge1": pytest.approx(0.8),
            "rouge2": 0.0,
            "rougeL": pytest.approx(0.4),
            "qafacteval": None,
        },
    ]


GOOD = {"question_id": "expertqa/q1", "model": "m", "prediction": "tea"}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"{", "unreadable line"),
        (b"\xff", "unreadable line"),
        (b"[" * 2_000, "unreadable line"),
        (b'{"model": "\\ud800"}', "unreadable line"),
        ([GOOD], "no record"),
        (GOOD | {"prediction": None}, "missing or ill-formed prediction"),
        (GOOD | {"prediction": ["tea"]}, "missing or ill-formed prediction"),
        (GOOD | {"model": " "}, "missing or ill-formed model"),
        (GOOD | {"model": 7}, "missing or ill-formed model"),
        (GOOD | {"question_id": None}, "missing or ill-formed question"),
        (GOOD | {"question_id": {"a": 1}}, "missing or ill-formed question"),
        (GOOD | {"question_id": 3, "question": "Why tea?"}, "missing or ill-formed question"),
        (GOOD | {"question": 3}, "missing or ill-formed question"),
        (GOOD | {"config": "all"}, "config is neither random nor domain"),
        (GOOD | {"config": ["random"]}, "config is neither random nor domain"),
        (GOOD | {"zero_shot": "no"}, "zero_shot is neither true nor false"),
        (GOOD | {"prediction": "a" * 50_001}, "prediction of more than 50,000 characters"),
        (GOOD | {"question_id": "expertqa/q9"}, "not in the test split"),
        (GOOD | {"question_id": "expertqa/q2", "config": "domain"}, "not in the test split"),
        ({"question": "Why coffee?", "model": "m", "prediction": "x"}, "not in the test split"),
    ],
)
def test_lines_that_are_no_prediction_of_a_test_question_are_rejected(record: Any, reason: str) -> None:
    items = read(GOOD, record)
    assert len(kept(items)) == 1
    assert refused(items) == [("line 2", reason)]


def test_a_question_is_predicted_once_by_a_model_in_a_config() -> None:
    others = [GOOD | change for change in ({"model": "n"}, {"zero_shot": True}, {"config": "domain"})]
    items = read(GOOD, *others, GOOD | {"prediction": "coffee"})
    assert len(kept(items)) == 4
    assert refused(items) == [("line 5", "predicted before")]
    assert kept(items)[0]["text"] == "tea"


def test_an_empty_prediction_is_one_and_scores_0() -> None:
    [row] = read(GOOD | {"prediction": ""})
    assert (row["text"], row["rouge1"], row["rougeL"]) == ("", 0.0, 0.0)


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("Hot [1].", "Hot."),
        ("Hot [1, 2] [^3^][4–6].", "Hot."),
        ("Set [a] of [2023 rules] [] [1,].", "Set [a] of [2023 rules] [] [1,]."),
    ],
)
def test_citation_marks_do_not_count_as_words(text: str, bare: str) -> None:
    assert without_marks(text) == bare


# ---------------------------------------------------------------- the stage


def long_form(schema: Any, key: str, split: str, answer: str) -> Row:
    return filled(
        schema,
        row_id=f"{key}{answer}",
        question_id=f"expertqa/{key}",
        question=f"Why {key}?",
        answer=answer,
        split=split,
    )


def test_only_the_test_side_of_a_split_counts(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    sides = {"q1": "test", "q2": "train", "q3": "validation"}
    rows = [long_form(RANDOM_SPLIT, key, side, "Tea is hot [1].") for key, side in sides.items()]
    domain = [long_form(DOMAIN_SPLIT, "q2", "test", "Tea [2] is."), long_form(DOMAIN_SPLIT, "q2", "test", "No tea.")]
    tables = home.table(RANDOM_SPLIT, rows), home.table(DOMAIN_SPLIT, domain)
    records = [{"question": f"why {key}?", "model": "m", "text": "tea is hot"} for key in ("q1", "q2", "q3")]
    records.append({"question_id": "expertqa/q2", "model": "m", "text": "tea is hot", "config": "domain"})
    file = tmp_path / "answers.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    made = home.run(read_predictions, open_predictions([file], digest=sha256_of), *tables, scorer=None)
    found = {(row["config"], row["question_id"][9:]): row["rouge1"] for row in made}
    assert found == {("random", "q1"): 1.0, ("domain", "q2"): pytest.approx((0.8 + 0.4) / 2)}
    assert home.rejected(made) == {"line 2": "not in the test split", "line 3": "not in the test split"}


def test_empty_and_missing_files_are_source_errors(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(SourceError, match="is empty"):
        open_predictions([tmp_path / "empty.jsonl"], digest=sha256_of)
    with pytest.raises(SourceError, match="does not exist"):
        open_predictions([tmp_path / "none.jsonl"], digest=sha256_of)


# ---------------------------------------------------------------- QAFactEval


class FactScorer:
    """Scores as the package's metric does: by the length of the texts it was given."""

    def score_batch_qafacteval(
        self, source: list[str], summaries: list[list[str]], *, return_qa_pairs: bool
    ) -> list[tuple[dict[str, Any], ...]]:
        assert return_qa_pairs
        scores = [len(text) + 100 * len(summary) for text, [summary] in zip(source, summaries, strict=True)]
        return [({"qa-eval": {"lerc_quip": score}}, {}, {}, {}) for score in scores]


def test_qafacteval_is_asked_with_the_reference_as_the_source() -> None:
    pairs = [("abc", ["x", "xyz"]), (" ", ["x"]), ("a", ["xy"])]
    assert qafacteval(FactScorer(), pairs) == [(301 + 303) / 2, None, 102]
    assert qafacteval(FactScorer(), pairs[1:2]) == [None]


def test_with_its_package_qafacteval_is_scored_beside_rouge() -> None:
    def score(pairs: Sequence[tuple[str, Sequence[str]]]) -> list[float | None]:
        return qafacteval(FactScorer(), pairs)

    two = GOOD | {"question_id": "expertqa/q2"}
    assert [row["qafacteval"] for row in read(GOOD, two, score=score)] == [310.0, 303.0]


def test_without_its_package_or_models_qafacteval_is_left_out(tmp_path: Path) -> None:
    assert scorer_of(None) is None
    assert scorer_of(tmp_path) is None
    for name in MODELS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert installed(tmp_path, package="json")
    assert not installed(tmp_path, package="no_such_package")
    (tmp_path / MODELS[0]).unlink()
    assert not installed(tmp_path, package="json")
