import random
import statistics
from collections import defaultdict

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.axioms import PAIRS
from tasks.axioms.tables import Table10, questions_by_axiom

COLUMNS = ["split", "question_id", "axiom", "preferred_id", "rejected_id"]


def pair(axiom, preferred, rejected):
    return axiom, preferred, rejected


@pytest.fixture(scope="module")
def table_7(tmp_path_factory):
    """Table 7 of questions, each given as its split and its pairs; the pairs are read from two Parquet files."""
    folder = tmp_path_factory.mktemp("pairs")

    def counted(*questions):
        rows = [(split, f"q{n}", *pair) for n, (split, pairs) in enumerate(questions) for pair in pairs]
        schema = pa.schema([PAIRS.field(name) for name in COLUMNS])
        for name, some in (("one", rows[::2]), ("two", rows[1::2])):
            table = pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in some], schema=schema)
            pq.write_table(table, folder / f"{name}.parquet")
        return questions_by_axiom(sorted(folder.iterdir()))

    return counted


def added(table):
    """axiom -> number of answers it adds, of one question."""
    return {row["axiom"]: row["answers_added"] for row in table}


def test_table_10_of_three_questions_by_hand():
    table = Table10()
    table.add("tea.example", [("one two three", 4), ("one", 0)])
    table.add("ale.example", [("a b", 7)])
    table.add("tea.example", [("  one\n\ntwo  ", -1), ("a b c d", 3), ("", 4), ("$x = 2$", 2)])
    assert table.rows() == [
        {
            "site": "tea.example",
            "questions": 2,
            "answers_per_question": 3.0,
            "answers_per_question_std": 1.0,
            "words_per_answer": pytest.approx(13 / 6),
            "words_per_answer_std": pytest.approx((65 / 36) ** 0.5),
            "votes_per_answer": 2.0,
            "votes_per_answer_std": pytest.approx((22 / 6) ** 0.5),
        },
        {
            "site": "ale.example",
            "questions": 1,
            "answers_per_question": 1.0,
            "answers_per_question_std": 0.0,
            "words_per_answer": 2.0,
            "words_per_answer_std": 0.0,
            "votes_per_answer": 7.0,
            "votes_per_answer_std": 0.0,
        },
    ]


def test_deviations_are_those_of_the_whole_population_however_large_the_mean():
    rng = random.Random(3)
    questions = [
        [("w " * rng.randint(0, 400), 10**9 + rng.randint(-3, 900)) for _ in range(rng.randint(1, 9))]
        for _ in range(300)
    ]
    forward, backward = Table10(), Table10()
    for answers in questions:
        forward.add("s", answers)
    for answers in reversed(questions):
        backward.add("s", iter(answers))
    (row,) = forward.rows()
    columns = {
        "answers_per_question": [len(answers) for answers in questions],
        "words_per_answer": [len(text.split()) for answers in questions for text, _ in answers],
        "votes_per_answer": [votes for answers in questions for _, votes in answers],
    }
    for name, values in columns.items():
        assert row[name] == pytest.approx(statistics.fmean(values), rel=1e-15)
        assert row[f"{name}_std"] == pytest.approx(statistics.pstdev(values), rel=1e-12)
    assert backward.rows() == [row]


def test_the_largest_site_comes_first_and_equals_by_name():
    table = Table10()
    for site in ("b", "c", "a", "c"):
        table.add(site, [("x", 1)])
    assert [row["site"] for row in table.rows()] == ["c", "a", "b"]


def test_a_site_whose_questions_have_no_answers_has_no_means_of_answers():
    table = Table10()
    table.add("s", [])
    (row,) = table.rows()
    assert (row["questions"], row["answers_per_question"]) == (1, 0.0)
    assert row["words_per_answer"] is row["votes_per_answer_std"] is None
    assert Table10().rows() == []


ONE_QUESTION = [
    *(pair(0, "a1", low) for low in ("a2", "a3")),
    pair(0, "a2", "a3"),
    *(pair(1, "a1", related) for related in ("r1", "r2", "r3", "r4")),
    pair(2, "open", "closed"),
    pair(3, "open", "corrupted"),
    pair(3, "closed", "corrupted"),
    pair(5, "combined", "a3"),
]


def test_an_axiom_adds_the_answers_that_no_lower_one_has(table_7):
    assert added(table_7(("train", ONE_QUESTION))) == {0: 3, 1: 4, 2: 2, 3: 1, 5: 1}
    assert added(table_7(("train", ONE_QUESTION[::-1]))) == {0: 3, 1: 4, 2: 2, 3: 1, 5: 1}
    assert table_7() == []


def test_an_axiom_that_adds_no_answer_counts_its_question(table_7):
    (_, row) = table_7(("train", [pair(0, "a", "b"), pair(1, "b", "a")]))
    assert row == {"axiom": 1, "split": "train", "questions": 1, "answers_added": 0.0, "answers_added_std": 0.0}


def test_axiom_4_adds_two_answers_and_four_passages(table_7):
    passages = [pair(4, good, bad) for good in ("p1", "p2") for bad in ("n1", "n2")]
    answers = [pair(4, "D", bad) for bad in ("F", "n1", "n2")]
    assert added(table_7(("train", answers + passages))) == {4: 6}


def test_table_7_counts_questions_and_added_answers_by_axiom_and_split(table_7):
    numbers = {"questions": 2, "answers_added": 2.5, "answers_added_std": 0.5}
    assert table_7(
        ("train", ONE_QUESTION),
        ("test", [pair(0, "b1", "b2")]),
        ("train", [pair(0, "c1", "c2"), pair(1, "c2", "r9"), pair(1, "c1", "r8")]),
    ) == [
        {"axiom": 0, "split": "test", "questions": 1, "answers_added": 2.0, "answers_added_std": 0.0},
        {"axiom": 0, "split": "train", **numbers},
        {"axiom": 1, "split": "train", "questions": 2, "answers_added": 3.0, "answers_added_std": 1.0},
        {"axiom": 2, "split": "train", "questions": 1, "answers_added": 2.0, "answers_added_std": 0.0},
        {"axiom": 3, "split": "train", "questions": 1, "answers_added": 1.0, "answers_added_std": 0.0},
        {"axiom": 5, "split": "train", "questions": 1, "answers_added": 1.0, "answers_added_std": 0.0},
    ]


PAIR = st.tuples(st.integers(0, 5), st.sampled_from("abcd"), st.sampled_from("cdef"))


@given(st.lists(st.tuples(st.sampled_from(["train", "test"]), st.lists(PAIR, max_size=8)), max_size=5))
def test_table_7_is_what_a_walk_over_the_questions_counts(table_7, questions):
    cells = defaultdict(list)
    for split, pairs in questions:
        seen = set()
        for axiom in sorted({axiom for axiom, _, _ in pairs}):
            answers = {answer for found, *both in pairs if found == axiom for answer in both}
            cells[axiom, split].append(len(answers - seen))
            seen |= answers
    assert table_7(*questions) == [
        {
            "axiom": axiom,
            "split": split,
            "questions": len(numbers),
            "answers_added": pytest.approx(statistics.fmean(numbers)),
            "answers_added_std": pytest.approx(statistics.pstdev(numbers)),
        }
        for (axiom, split), numbers in sorted(cells.items())
    ]
