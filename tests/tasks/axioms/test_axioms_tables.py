import random
import statistics
import tomllib
from collections import defaultdict
from datetime import UTC, datetime

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from expertqa_tables import Home, filled
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.axioms import PAIRS
from schemas.sources.stackexchange import THREADS
from tasks.axioms.paper_tables import PRINTED, questions_and_answers, table_7_questions_by_axiom, table_10_sites

COLUMNS = ["split", "question_id", "axiom", "preferred_id", "rejected_id"]
NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
MEASURES = ("answers", "words an answer", "votes an answer")


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
        return table_7_questions_by_axiom(sorted(folder.iterdir()))

    return counted


def added(table):
    """axiom -> number of answers it adds, of one question."""
    return dict(zip(table.axiom.str[0].astype(int), table["answers added"], strict=True))


def sites(tmp_path, *threads):
    """Table 10 of threads, each its site and its answers' text and votes, as two parts hold them."""
    rows = [
        filled(
            THREADS,
            question_id=f"{site}/{number}",
            site=site,
            created=NOON,
            answers=[filled_answer(text, votes) for text, votes in answers],
        )
        for number, (site, answers) in enumerate(threads)
    ]
    table = Home(tmp_path).table(THREADS, rows[::2], rows[1::2])
    return table_10_sites(*questions_and_answers(table)).set_index("site")


def filled_answer(text, votes):
    return filled(THREADS.field("answers").type.value_type.fields, text=text, votes=votes, created=NOON)


def test_table_10_of_three_questions_by_hand(tmp_path):
    found = sites(
        tmp_path,
        ("tea.example", [("one two three", 4), ("one", 0)]),
        ("ale.example", [("a b", 7)]),
        ("tea.example", [("  one\n\ntwo  ", -1), ("a b c\u00a0d", 3), ("", 4), ("$x = 2$", 2)]),
    )
    assert list(found.index) == ["tea.example", "ale.example"]
    assert found.loc["tea.example"].to_dict() == {
        "questions": 2,
        "answers": 3.0,
        "answers ±": 1.0,
        "words an answer": 2.17,  # 13 / 6
        "words an answer ±": 1.34,  # the root of 65 / 36
        "votes an answer": 2.0,
        "votes an answer ±": 1.91,  # the root of 22 / 6
    }
    assert list(found.loc["ale.example"]) == [1, 1.0, 0.0, 2.0, 0.0, 7.0, 0.0]


def test_deviations_are_those_of_the_whole_population_however_large_the_mean(tmp_path):
    rng = random.Random(3)
    questions = [
        [("w " * rng.randint(0, 400), 10**9 + rng.randint(-3, 900)) for _ in range(rng.randint(1, 9))]
        for _ in range(300)
    ]
    row = sites(tmp_path, *(("s", answers) for answers in questions)).loc["s"]
    values = (
        [len(answers) for answers in questions],
        [len(text.split()) for answers in questions for text, _ in answers],
        [votes for answers in questions for _, votes in answers],
    )
    for name, numbers in zip(MEASURES, values, strict=True):
        assert row[name] == pytest.approx(statistics.fmean(numbers), abs=0.005)
        assert row[f"{name} ±"] == pytest.approx(statistics.pstdev(numbers), abs=0.0051)


def test_the_largest_site_comes_first_and_equals_by_name(tmp_path):
    assert list(sites(tmp_path, *((site, [("x", 1)]) for site in ("b", "c", "a", "c"))).index) == ["c", "a", "b"]


def test_a_site_whose_questions_have_no_answers_has_no_means_of_answers(tmp_path):
    row = sites(tmp_path, ("s", [])).loc["s"]
    assert (row.questions, row.answers) == (1, 0.0)
    assert row[["words an answer", "votes an answer ±"]].isna().all()


def test_no_thread_makes_an_empty_table(tmp_path):
    assert sites(tmp_path).empty


def test_a_site_of_the_paper_has_its_figures_beside_ours(tmp_path):
    found = sites(tmp_path, ("travel.stackexchange.com", [("a b", 7), ("a b", 8)]), ("tea.example", [("x", 1)]))
    travel = found.loc["travel.stackexchange.com"]
    assert (travel["questions paper"], travel["questions difference"]) == (8221, -8220)
    assert (travel["votes an answer"], travel["votes an answer paper"], travel["votes an answer difference"]) == (
        *(7.5, 9.5),
        -2.0,
    )
    assert (travel["words an answer ± paper"], travel["answers paper"]) == (148.7, 3.5)
    assert found.loc["tea.example"].filter(like="paper").isna().all()


def test_the_printed_sites_are_those_of_the_papers_table():
    """46 rows, of which the first two were cut to one size, as its caption says; all means are positive."""
    rows = tomllib.loads(PRINTED.read_text())["table_10"]["csv"].strip().splitlines()[1:]
    assert len(rows) == len({row.split(",")[0] for row in rows}) == 46
    assert [row.split(",")[:2] for row in rows[:2]] == [
        ["math.stackexchange.com", "97646"],
        ["stackoverflow.com", "97646"],
    ]
    assert sum(int(row.split(",")[1]) for row in rows) < 905_000, "some of the 159 sites"


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
    assert table_7().empty


def test_an_axiom_that_adds_no_answer_counts_its_question(table_7):
    row = table_7(("train", [pair(0, "a", "b"), pair(1, "b", "a")])).iloc[1]
    assert list(row[["axiom", "split", "questions", "answers added", "standard deviation"]]) == [
        *("1 relevance", "train", 1),
        *(0.0, 0.0),
    ]


def test_axiom_4_adds_two_answers_and_four_passages(table_7):
    passages = [pair(4, good, bad) for good in ("p1", "p2") for bad in ("n1", "n2")]
    answers = [pair(4, "D", bad) for bad in ("F", "n1", "n2")]
    assert added(table_7(("train", answers + passages))) == {4: 6}


def test_table_7_counts_questions_and_added_answers_by_axiom_and_split(table_7):
    found = table_7(
        ("train", ONE_QUESTION),
        ("test", [pair(0, "b1", "b2")]),
        ("train", [pair(0, "c1", "c2"), pair(1, "c2", "r9"), pair(1, "c1", "r8")]),
    )
    assert found[["axiom", "split", "questions", "answers added", "standard deviation"]].to_numpy().tolist() == [
        ["0 usefulness", "test", 1, 2.0, 0.0],
        ["0 usefulness", "train", 2, 2.5, 0.5],
        ["1 relevance", "train", 2, 3.0, 1.0],
        ["2 groundedness", "train", 1, 2.0, 0.0],
        ["3 truthfulness", "train", 1, 1.0, 0.0],
        ["5 thoroughness", "train", 1, 1.0, 0.0],
    ]
    assert found["answers added paper"].tolist()[1:] == [3.4, 37, 2, 1, 1]
    assert found["questions paper"].tolist() == [5_500, 905_000, 905_000, 35_000, 50_000, 69_000]
    assert found["answers added difference"].tolist()[1:] == pytest.approx([-0.9, -34, 0, 0, 0])
    assert pandas.isna(found["answers added paper"][0]), "the paper prints none of test questions"


PAIR = st.tuples(st.integers(0, 5), st.sampled_from("abcd"), st.sampled_from("cdef"))


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(["train", "test"]), st.lists(PAIR, max_size=8)), max_size=5))
def test_table_7_is_what_a_walk_over_the_questions_counts(table_7, questions):
    cells = defaultdict(list)
    for split, pairs in questions:
        seen = set()
        for axiom in sorted({axiom for axiom, _, _ in pairs}):
            answers = {answer for found, *both in pairs if found == axiom for answer in both}
            cells[axiom, split].append(len(answers - seen))
            seen |= answers
    found = table_7(*questions)
    assert list(zip(found.axiom.str[0].astype(int), found.split, found.questions, strict=True)) == [
        (*key, len(numbers)) for key, numbers in sorted(cells.items())
    ]
    for row, (_, numbers) in zip(found.to_dict("records"), sorted(cells.items()), strict=True):
        assert row["answers added"] == pytest.approx(statistics.fmean(numbers), abs=0.0051)
        assert row["standard deviation"] == pytest.approx(statistics.pstdev(numbers), abs=0.0051)
