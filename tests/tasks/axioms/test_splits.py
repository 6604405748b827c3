from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.axioms.sealed.splits import assign

DAY = datetime(2020, 1, 1, tzinfo=UTC)


def sides(ids, days, duplicates, *, test_share=0.5, seed=1, sites=()):
    created = [DAY + timedelta(days=day) for day in days]
    named = sites or sorted({name.partition("/")[0] for name in ids})
    return assign(ids, created, duplicates, test_share=test_share, sites=named, seed=seed)


def alone(question_id, **kwargs):
    return sides([question_id], [0], [], **kwargs)[0]


TRAIN = next(name for name in map("q/{}".format, range(99)) if alone(name) == "train")
TEST = next(name for name in map("q/{}".format, range(99)) if alone(name) == "test")


def test_a_question_without_near_duplicates_is_assigned_by_its_hash_alone():
    ids = [f"tea.example/{i}" for i in range(300)]
    assert sides(ids, range(300), []) == [alone(name) for name in ids]
    assert sides(ids, [0] * 300, [], seed=2) != sides(ids, [0] * 300, [], seed=1)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.5, 1.0])
def test_the_share_of_test_questions_is_the_one_asked_for(share):
    n = 20_000
    found = sides([f"tea.example/{i}" for i in range(n)], [0] * n, [], test_share=share)
    assert found.count("test") / n == pytest.approx(share, abs=4.5 * (share * (1 - share) / n) ** 0.5)
    assert found.count("overlap") == 0


def test_a_larger_share_only_moves_questions_into_test():
    ids = [f"q/{i}" for i in range(500)]
    small = sides(ids, [0] * 500, [], test_share=0.1)
    large = sides(ids, [0] * 500, [], test_share=0.3)
    assert all(after == "test" for before, after in zip(small, large, strict=True) if before == "test")


def test_a_near_duplicate_takes_the_split_of_the_earlier_question():
    assert sides([TRAIN, TEST], [0, 1], [(0, 1)]) == ["train", "train"]
    assert sides([TRAIN, TEST], [1, 0], [(0, 1)]) == ["test", "test"]
    assert sides([TRAIN, TEST], [1, 0], [(1, 0)]) == ["test", "test"]


def test_of_questions_created_at_the_same_time_the_lower_id_counts_as_earlier():
    first, second = sorted([TRAIN, TEST])
    assert sides([second, first], [0, 0], [(0, 1)]) == [alone(first)] * 2


def test_a_question_whose_earlier_near_duplicates_disagree_is_overlap():
    assert sides([TRAIN, TEST, "q/later"], [0, 1, 2], [(0, 2), (1, 2)]) == ["train", "test", "overlap"]


def test_near_duplicates_of_an_overlap_question_are_overlap_too():
    links = [(0, 2), (1, 2), (2, 3), (3, 4), (0, 4)]
    assert sides([TRAIN, TEST, "q/x", "q/y", "q/z"], range(5), links)[2:] == ["overlap"] * 3


def test_a_chain_of_near_duplicates_stays_in_one_split():
    ids = [TEST, *(f"q/copy{i}" for i in range(30))]
    assert set(sides(ids, range(31), [(i, i + 1) for i in range(30)])) == {"test"}


@st.composite
def growing(draw):
    n = draw(st.integers(1, 14))
    days = draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda two: two[0] != two[1])
    links = draw(st.lists(pair, max_size=25)) if n > 1 else []
    return [f"q/{i:02}" for i in range(n)], days, links, draw(st.integers(0, 9))


@given(growing())
def test_no_train_question_is_a_near_duplicate_of_a_test_question(case):
    ids, days, links, seed = case
    found = sides(ids, days, links, seed=seed)
    assert set(found) <= {"train", "test", "overlap"}
    assert not any({found[i], found[j]} == {"train", "test"} for i, j in links)


@given(growing(), st.integers(0, 14))
def test_later_questions_change_no_earlier_split(case, kept):
    ids, days, links, seed = case
    order = sorted(range(len(ids)), key=lambda place: (days[place], ids[place]))[:kept]
    inner = [(order.index(i), order.index(j)) for i, j in links if i in order and j in order]
    before = sides([ids[place] for place in order], [days[place] for place in order], inner, seed=seed)
    after = sides(ids, days, links, seed=seed)
    assert before == [after[place] for place in order]


@given(growing(), st.randoms())
def test_the_order_of_the_rows_does_not_matter(case, random):
    ids, days, links, seed = case
    order = list(range(len(ids)))
    random.shuffle(order)
    moved = [(order.index(j), order.index(i)) for i, j in links]
    shuffled = sides([ids[place] for place in order], [days[place] for place in order], moved, seed=seed)
    assert shuffled == [sides(ids, days, links, seed=seed)[place] for place in order]


# ---------------------------------------------------------------- several sites


def test_a_question_that_another_site_has_too_is_overlap_there_whichever_was_asked_first():
    ids, days = ["tea.example/1", "ale.example/1"], [9, 0]
    found = sides(ids, days, [(0, 1)], sites=["tea.example", "ale.example"])
    assert found == [alone("tea.example/1"), "overlap"]
    assert sides(ids, days, [(0, 1)], sites=["ale.example", "tea.example"]) == ["overlap", alone("ale.example/1")]


@given(growing(), st.lists(st.booleans(), min_size=14, max_size=14))
def test_a_site_named_later_changes_no_split_of_those_before_it(case, second):
    _, days, links, seed = case
    ids = [f"{'ale' if other else 'tea'}.example/{i:02}" for i, other in zip(range(len(days)), second, strict=False)]
    first = [i for i in range(len(ids)) if not second[i]]
    inner = [(first.index(i), first.index(j)) for i, j in links if i in first and j in first]
    alone_there = sides([ids[i] for i in first], [days[i] for i in first], inner, seed=seed, sites=["tea.example"])
    both = sides(ids, days, links, seed=seed, sites=["tea.example", "ale.example"])
    assert alone_there == [both[i] for i in first]
    assert not any({both[i], both[j]} == {"train", "test"} for i, j in links)
