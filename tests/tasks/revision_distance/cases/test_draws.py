"""Draws: so many of each task, the same ones whatever else there is, and no case that is lost on the way."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from expertqa_tables import filled
from expertqa_toys import rejected_of, toy_source
from hypothesis import given
from hypothesis import strategies as st
from toy_stages import building

from longform.artifacts.rows import Rejected, Row, Rows, Shard
from longform.engine.build import Build
from longform.engine.stage import StageContext, stage
from schemas.revision_distance import CHECKED, EASY, FREE, HARD, STRUCTURE
from tasks.revision_distance.cases.draws import draw_candidates, drawn, take_cases, with_reserve

ALL: dict[str, int | None] = {"easy": None, "free": None, "hard": None}
Cases = dict[str, Row]


@stage(EASY, revision=1)
def make_easy(context: StageContext, files: Shard, *, rows: list[Row]) -> Iterator[Row]:
    yield from rows[files.index :: len(files.source.pieces)]


@stage(FREE, revision=1)
def make_free(context: StageContext, files: Shard, *, rows: list[Row]) -> Iterator[Row]:
    yield from rows


@stage(HARD, revision=1)
def make_hard(context: StageContext, files: Shard, *, rows: list[Row]) -> Iterator[Row]:
    yield from rows


@stage(STRUCTURE, revision=1)
def make_structure(context: StageContext, files: Shard, *, rows: list[Row]) -> Iterator[Row]:
    yield from rows


@stage(CHECKED, revision=1)
def make_checks(
    context: StageContext, candidates: Rows, *, verdicts: dict[str, tuple[str | None, str | None]]
) -> Iterator[Row | Rejected]:
    for row in candidates:
        key = row["case_id"]
        if key in verdicts:
            checked, kind = verdicts[key]
            yield filled(CHECKED, check_id=f"c_{key}", case_id=key, checked=checked, checked_kind=kind, model="judge")
        else:
            yield Rejected(key, "defect", "unreadable reply")


def easy(number: int, request: str = "") -> Row:
    key = f"wildchat/{number:03d}"
    return filled(EASY, case_id=f"easy/{key}", task="easy", conversation_id=key, request=request or f"Write {number}.")


def free(number: int) -> Row:
    key = f"ultrafeedback/{number:03d}"
    return filled(FREE, case_id=f"free/{key}", task="free", instruction_id=key, request=f"Compose {number}.")


def hard(number: int) -> Row:
    key = f"acl/2020.acl-main.{number}"
    return filled(HARD, case_id=f"hard/{key}#1", task="hard", related_id=f"{key}#1", paper_id=key)


def structure(number: int) -> Row:
    return filled(STRUCTURE, case_id=f"structure/{number}", task="structure")


def many(function: Any, number: int) -> list[Row]:
    return [function(place) for place in range(1, number + 1)]


def candidates_of(
    builder: Build, folder: Path, rows: tuple[list[Row], list[Row], list[Row]], pieces: int = 1, **given: Any
) -> Rows:
    one, cut = [toy_source(folder)], [toy_source(folder, pieces, "cut")] if pieces else []
    tables = (
        make_easy(builder, cut, rows=rows[0]),
        make_free(builder, one, rows=rows[1]),
        make_hard(builder, one, rows=rows[2]),
    )
    return draw_candidates(builder, *tables, **{"numbers": ALL, "spare": 1.5, "seed": 0, **given})


# ---------------------------------------------------------------- the draw itself


ids = st.sets(st.text(min_size=1, max_size=8), max_size=30)


@given(ids, st.text(min_size=1, max_size=8), st.integers(0, 10), st.integers(0, 3))
def test_one_more_case_pushes_out_at_most_one(cases: set[str], more: str, number: int, seed: int) -> None:
    before, after = drawn(cases, number, seed), drawn(cases | {more}, number, seed)
    assert len(before) == min(number, len(cases))
    assert before <= cases
    assert after - before <= {more}
    assert drawn(cases, number, seed) <= drawn(cases, number + 1, seed)
    assert drawn(cases, None, seed) == cases


def test_each_case_is_as_likely_as_any_other() -> None:
    counts = Counter(case for seed in range(3_000) for case in drawn("abcdef", 2, seed))
    assert sum(counts.values()) == 6_000
    assert all(900 < counts[case] < 1_100 for case in "abcdef")


@pytest.mark.parametrize(
    ("number", "spare", "candidates"),
    [(147, 1.5, 221), (41, 1.5, 62), (10, 1.1, 11), (10, 1.0, 10), (10, 0.5, 10), (0, 2.0, 0)],
)
def test_the_reserve_is_rounded_up_and_never_less_than_what_is_wanted(
    number: int, spare: float, candidates: int
) -> None:
    assert with_reserve(number, spare) == candidates
    assert with_reserve(None, spare) is None


# ---------------------------------------------------------------- the stages


def test_candidates_are_a_reserve_of_what_is_checked_and_no_more_of_what_is_not(tmp_path: Path) -> None:
    rows = many(easy, 20), many(free, 20), many(hard, 20)
    with building(tmp_path / "home") as run:
        found = candidates_of(run, tmp_path, rows, numbers={"easy": 4, "free": 3, "hard": 5}, spare=1.5)
        assert Counter(row["task"] for row in found) == {"easy": 6, "free": 5, "hard": 5}
        assert Counter(reason for _, reason in rejected_of(found).values()) == {"not drawn": 60 - 16}
        sources = {row["task"]: row["source_id"].split("/")[0] for row in found}
        assert sources == {"easy": "wildchat", "free": "ultrafeedback", "hard": "acl"}


@pytest.mark.parametrize("pieces", [0, 1, 3], ids=["no file", "one", "three"])
def test_cases_of_any_number_of_files_become_one_part(tmp_path: Path, pieces: int) -> None:
    with building(tmp_path / "home") as run:
        found = candidates_of(run, tmp_path, (many(easy, 7), many(free, 2), many(hard, 2)), pieces)
        assert found.count == 4 + 7 * (pieces > 0)
        checks = make_checks(run, found, verdicts={row["case_id"]: (None, None) for row in found})
        pairs = make_structure(run, [toy_source(tmp_path)], rows=many(structure, 2))
        assert take_cases(run, found, checks, pairs, numbers=ALL, seed=0).count == found.count + 2


def test_of_requests_in_the_same_words_one_is_kept(tmp_path: Path) -> None:
    again = [
        easy(1, "Write a letter."),
        easy(2, "write  a\nletter."),
        easy(3, "Write a letter!"),
        easy(4, "Write a LETTER."),
    ]
    with building(tmp_path / "home") as run:
        found = candidates_of(run, tmp_path, (again, [], []))
        kept = {row["source_id"] for row in found}
        assert len(kept) == 2
        assert "wildchat/003" in kept
        assert [reason for _, reason in rejected_of(found).values()] == ["same request again"] * 2
        others = candidates_of(run, tmp_path, (again[::-1], [], []))
        assert {row["source_id"] for row in others} == kept


def test_the_model_leaves_out_and_the_reserve_moves_up_in_the_same_order(tmp_path: Path) -> None:
    rows, numbers = (many(easy, 30), many(free, 30), many(hard, 30)), {"easy": 6, "free": 4, "hard": 3}
    with building(tmp_path / "home") as run:
        found = candidates_of(run, tmp_path, rows, numbers=numbers)
        ids = {task: [row["case_id"] for row in found if row["task"] == task] for task in numbers}
        verdicts: dict[str, tuple[str | None, str | None]] = dict.fromkeys(ids["easy"] + ids["free"], ("yes", "email"))
        verdicts |= dict.fromkeys(ids["hard"], (None, None))
        first = sorted(drawn(ids["easy"], 3, 0))
        verdicts[first[0]] = ("no", "other")
        verdicts[first[1]] = ("yes", "other")
        del verdicts[first[2]]
        pairs = make_structure(run, [toy_source(tmp_path)], rows=many(structure, 2))
        cases = take_cases(run, found, make_checks(run, found, verdicts=verdicts), pairs, numbers=numbers, seed=0)
        taken = {row["case_id"]: row for row in cases}
        reasons = {key: reason for key, (_, reason) in rejected_of(cases).items()}
    assert Counter(row["task"] for row in taken.values()) == {"easy": 6, "free": 4, "hard": 3, "structure": 2}
    assert [reasons[one] for one in first] == [
        "model: no writing request",
        "model: another kind of writing",
        "model: no usable reply",
    ]
    assert {one for one in taken if one.startswith("easy")} == drawn({*ids["easy"]} - {*first}, 6, 0)
    assert {reasons[one] for one in reasons if one not in first} == {"not drawn"}
    assert len(taken) - 2 + len(reasons) == found.count
    assert {(row["checked"], row["checked_kind"], row["check_model"]) for row in taken.values()} == {
        ("yes", "email", "judge"),
        (None, None, "judge"),
        (None, None, None),
    }
    assert taken["structure/1"]["source_id"] == "structure/1"


def test_those_that_are_confirmed_are_the_first_of_all_that_would_be(tmp_path: Path) -> None:
    """A reserve that suffices gives what a check of all cases would give."""
    rows: tuple[list[Row], list[Row], list[Row]] = many(easy, 40), [], []
    bad = {f"easy/wildchat/{number:03d}" for number in range(1, 41, 5)}
    verdicts: dict[str, tuple[str | None, str | None]] = {
        row["case_id"]: ("no" if row["case_id"] in bad else "yes", "letter") for row in rows[0]
    }
    numbers: dict[str, int | None] = {"easy": 10, "free": 0, "hard": 0}
    with building(tmp_path / "home") as run:
        pairs = make_structure(run, [toy_source(tmp_path)], rows=[])

        def taken(spare: float) -> set[str]:
            found = candidates_of(run, tmp_path, rows, numbers=numbers, spare=spare)
            checks = make_checks(run, found, verdicts=verdicts)
            return {row["case_id"] for row in take_cases(run, found, checks, pairs, numbers=numbers, seed=0)}

        assert taken(2.0) == taken(4.0) == drawn(verdicts.keys() - bad, 10, 0)
