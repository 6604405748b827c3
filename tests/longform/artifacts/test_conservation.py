"""Nothing vanishes: every input row is the parent of an output row, or is rejected; and no parent is invented."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from longform.artifacts.conservation import check_conservation, parent_columns
from longform.artifacts.parts import Parts
from longform.artifacts.rows import Rejected, Row, Rows
from longform.artifacts.store import Part, Store
from longform.errors import ConservationError
from schemas import column, table

POSTS = table("posts", column("post_id", pa.string(), ""), key="post_id")
ANSWER = pa.struct([column("answer_id", pa.string(), ""), column("votes", pa.int32(), "")])
THREADS = table(
    "threads",
    column("question_id", pa.string(), ""),
    column("answers", pa.list_(ANSWER), ""),
    key="question_id",
    parents={"post_id": ["question_id", "answers.answer_id"]},
)
PAIRS = table(
    "pairs",
    column("pair_id", pa.string(), ""),
    column("question_id", pa.string(), "parent"),
    key="pair_id",
)
COUNTS = table("counts", column("site", pa.string(), ""), column("number", pa.int32(), ""), key="site")


class Tables:
    """Parts in a store, written with few words."""

    def __init__(self, home: Path) -> None:
        self.store = Store(home)
        self.number = 0

    def parts(self, schema: pa.Schema, *items: Iterable[Row | Rejected]) -> list[Part]:
        """One part for each list of rows."""
        return [self._part(schema, rows) for rows in items]

    def _part(self, schema: pa.Schema, items: Iterable[Row | Rejected]) -> Part:
        self.number += 1
        parts = Parts(self.store, "stage", schema, [f"ale/{self.number}-00000"], None)
        for item in items:
            parts.add(item)
        return parts.finish()[0]

    def rows(self, schema: pa.Schema, *items: Iterable[Row | Rejected]) -> Rows:
        return Rows(self.store, schema, "before", "abcd", self.parts(schema, *items))

    def check(self, schema: pa.Schema, made: list[Part], *inputs: Rows) -> None:
        check_conservation(self.store, "stage", schema, made, list(inputs))


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


def posts(*ids: str) -> list[Row]:
    return [{"post_id": id} for id in ids]


def thread(question: str, *answers: str) -> Row:
    return {"question_id": question, "answers": [{"answer_id": id, "votes": 1} for id in answers]}


def pair(number: int, question: str) -> Row:
    return {"pair_id": f"p{number}", "question_id": question}


def rejected(*ids: str) -> list[Rejected]:
    return [Rejected(id, "filtered", "short") for id in ids]


def test_rows_that_are_parents_or_rejected_are_conserved(tables: Tables) -> None:
    given = tables.rows(POSTS, posts("q1", "a1", "a2"), posts("q2", "a9"))
    made = tables.parts(THREADS, [thread("q1", "a1", "a2"), *rejected("a9")], [thread("q2")])
    tables.check(THREADS, made, given)


def test_a_row_that_is_neither_is_named_and_counted(tables: Tables) -> None:
    given = tables.rows(POSTS, posts("q1", "a1", "a2", "a3"))
    made = tables.parts(THREADS, [thread("q1", "a3")])
    with pytest.raises(ConservationError, match=r"^stage: post_id a1 is neither .* nor rejected \(2 such\)"):
        tables.check(THREADS, made, given)


def test_a_nested_parent_that_is_no_input_row_is_named(tables: Tables) -> None:
    given = tables.rows(POSTS, posts("q1", "a1"))
    made = tables.parts(THREADS, [thread("q1", "a1", "a7")])
    with pytest.raises(ConservationError, match=r"post_id a7 is no row of its input \(1 such\)"):
        tables.check(THREADS, made, given)


def test_a_rejected_row_that_is_no_input_row_is_named(tables: Tables) -> None:
    given = tables.rows(POSTS, posts("q1"))
    made = tables.parts(THREADS, [thread("q1"), *rejected("a8")])
    with pytest.raises(ConservationError, match="post_id a8 is no row of its input"):
        tables.check(THREADS, made, given)


def test_a_row_may_be_the_parent_of_many(tables: Tables) -> None:
    given = tables.rows(THREADS, [thread("q1"), thread("q2")])
    made = tables.parts(PAIRS, [pair(1, "q1"), pair(2, "q1"), pair(3, "q2")])
    tables.check(PAIRS, made, given)


def test_a_stage_without_any_row_must_have_rejected_all(tables: Tables) -> None:
    given = tables.rows(THREADS, [thread("q1"), thread("q2")])
    tables.check(PAIRS, tables.parts(PAIRS, rejected("q1", "q2")), given)
    with pytest.raises(ConservationError, match=r"question_id q1 is neither .*\(2 such\)"):
        tables.check(PAIRS, tables.parts(PAIRS, []), given)


def test_an_empty_output_of_an_empty_input_is_conserved(tables: Tables) -> None:
    tables.check(PAIRS, tables.parts(PAIRS, []), tables.rows(THREADS, []))
    with pytest.raises(ConservationError, match="question_id q1 is no row of its input"):
        tables.check(PAIRS, tables.parts(PAIRS, [pair(1, "q1")]), tables.rows(THREADS, []))


def test_several_inputs_of_one_key_are_checked_together(tables: Tables) -> None:
    first, second = tables.rows(THREADS, [thread("q1")]), tables.rows(THREADS, [thread("q2")])
    tables.check(PAIRS, tables.parts(PAIRS, [pair(1, "q1"), pair(2, "q2")]), first, second)
    with pytest.raises(ConservationError, match="question_id q2 is neither"):
        tables.check(PAIRS, tables.parts(PAIRS, [pair(1, "q1")]), first, second)


def test_inputs_of_different_keys_are_checked_apart(tables: Tables) -> None:
    threads = tables.rows(THREADS, [thread("q1")])
    pairs = tables.rows(PAIRS, [pair(1, "q1"), pair(2, "q1")])
    tables.check(PAIRS, tables.parts(PAIRS, [pair(1, "q1"), pair(2, "q1")]), threads, pairs)
    with pytest.raises(ConservationError, match="pair_id p2 is neither"):
        tables.check(PAIRS, tables.parts(PAIRS, [pair(1, "q1")]), threads, pairs)


def test_an_input_whose_key_the_output_lacks_is_not_checked(tables: Tables) -> None:
    made = tables.parts(COUNTS, [{"site": "ale", "number": 1}])
    tables.check(COUNTS, made, tables.rows(PAIRS, [pair(1, "q1"), pair(2, "q1")]))


def test_parents_are_declared_or_are_the_column_of_that_name() -> None:
    assert parent_columns(THREADS, "post_id") == ["question_id", "answers.answer_id"]
    assert parent_columns(PAIRS, "question_id") == ["question_id"]
    assert parent_columns(COUNTS, "question_id") == []


@pytest.mark.parametrize("name", ["it's here", "a [b] c", "star*?", 'quoted"', "{braces}", "日本"])
def test_a_home_may_have_any_name(tmp_path: Path, name: str) -> None:
    tables = Tables(tmp_path / name)
    given = tables.rows(POSTS, posts("q1", "a1"))
    tables.check(THREADS, tables.parts(THREADS, [thread("q1"), *rejected("a1")]), given)
    with pytest.raises(ConservationError):
        tables.check(THREADS, tables.parts(THREADS, [thread("q1")]), given)


def test_keys_are_compared_letter_by_letter(tables: Tables) -> None:
    odd = ["ale/1", "ale/1 ", "Ale/1", "ale/é", "ale/e\u0301", ""]
    tables.check(POSTS, tables.parts(POSTS, posts(*odd)), tables.rows(POSTS, posts(*odd)))
    for missing in odd:
        made = tables.parts(POSTS, posts(*(id for id in odd if id != missing)))
        with pytest.raises(ConservationError, match=r"\(1 such\)"):
            tables.check(POSTS, made, tables.rows(POSTS, posts(*odd)))


def test_the_check_leaves_no_file(tables: Tables) -> None:
    tables.check(POSTS, tables.parts(POSTS, posts("q1")), tables.rows(POSTS, posts("q1")))
    assert list(tables.store.home.rglob(".tmp-*")) == []


def test_a_row_may_come_from_a_side_input_whose_rows_need_not_be_used(tables: Tables) -> None:
    given, elsewhere = tables.rows(POSTS, posts("1", "2")), tables.rows(POSTS, posts("3", "4"))
    made = tables.parts(POSTS, posts("1", "2", "3"))
    with pytest.raises(ConservationError, match="post_id 3 is no row of its input"):
        tables.check(POSTS, made, given)
    check_conservation(tables.store, "stage", POSTS, made, [given], [elsewhere])
    for ids, expected_message in (("125", "post_id 5 is no row of its input"), ("13", "post_id 2 is neither")):
        made = tables.parts(POSTS, posts(*ids))
        with pytest.raises(ConservationError, match=expected_message):
            check_conservation(tables.store, "stage", POSTS, made, [given], [elsewhere])


def test_a_row_of_a_side_input_may_be_rejected_beside_rows_of_another_key(tables: Tables) -> None:
    questions, more = tables.rows(THREADS, [thread("q", "1")]), tables.rows(PAIRS, [pair(1, "q"), pair(2, "x")])
    made = tables.parts(PAIRS, [pair(3, "q"), *rejected("p1")])
    with pytest.raises(ConservationError, match="question_id p1 is no row of its input"):
        tables.check(PAIRS, made, questions)
    check_conservation(tables.store, "stage", PAIRS, made, [questions], [more])


def test_rows_of_the_first_input_that_a_stage_is_not_for_may_be_missing(tables: Tables) -> None:
    given, more = tables.rows(POSTS, posts("a1", "a2", "b1")), tables.rows(POSTS, posts("b2"))
    only = "post_id LIKE 'a%'"
    check_conservation(tables.store, "stage", POSTS, tables.parts(POSTS, posts("a1", "a2")), [given], (), only)
    check_conservation(tables.store, "stage", POSTS, tables.parts(POSTS, posts("a1", "a2", "b1")), [given], (), only)
    with pytest.raises(ConservationError, match="post_id a2 is neither"):
        check_conservation(tables.store, "stage", POSTS, tables.parts(POSTS, posts("a1")), [given], (), only)
    made = tables.parts(POSTS, posts("a1", "a2"))
    with pytest.raises(ConservationError, match="post_id b2 is neither"):
        check_conservation(tables.store, "stage", POSTS, made, [given, more], (), only)
