"""Sides of questions: released ones are kept, new ones never move, and no near-duplicate crosses."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import paths
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from expertqa_tables import Home, filled, question
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from longform.artifacts.rows import Row
from longform.errors import SourceError, UsageError
from longform.files import sha256_of
from schemas.expertqa import QUESTIONS, RELEASED_SIDES
from tasks.expertqa.sides.audits import ON_TWO_SIDES, released_gates
from tasks.expertqa.sides.dealing import deal_sides
from tasks.expertqa.sides.released import open_released_sides, read_released_sides, side_named
from tasks.expertqa.splits import deal, folded, near_questions

SHARES = [0.8, 0.1, 0.1]
SPLITS = ("train", "validation", "test")
BANK = paths.REAL_DATA / "expertqa" / "r1_data_anon.jsonl"
WORDS = st.lists(
    st.sampled_from(["why", "is", "the", "tin", "red", "not", "cold", "or", "hot"]),
    min_size=1,
    max_size=6,
)


def dealt(texts: Sequence[str], released: dict[str, set[str]] | None = None) -> dict[str, str]:
    """Text -> split."""
    known, every = released or {}, list(dict.fromkeys([*texts, *(released or {})]))
    sides = deal(texts, known, near_questions(every), salt="0/random", shares=SHARES)
    return {text: side.split for text, side in sides.items()}


def test_without_near_duplicates_a_hash_of_salt_and_text_decides() -> None:
    texts = [f"q{number}" for number in range(3_000)]
    limits = {"train": Fraction(8, 10), "validation": Fraction(9, 10), "test": Fraction(1)}
    for text, side in dealt(texts).items():
        place = Fraction(xxh3_64_intdigest(f"0/random\x1f{text}".encode()), 2**64)
        assert side == next(name for name, limit in limits.items() if place < limit)
    counts = Counter(dealt(texts).values())
    assert all(abs(counts[side] - 3_000 * share) < 70 for side, share in zip(SPLITS, SHARES, strict=True))


@given(st.lists(WORDS.map(" ".join), max_size=30, unique=True), st.integers(0, 30))
def test_questions_added_at_the_end_move_none_and_none_of_them_crosses(texts: list[str], size: int) -> None:
    before, after = dealt(texts[:size]), dealt(texts)
    assert all(after[text] == side for text, side in before.items())
    for one, others in near_questions(texts).items():
        for other in others:
            assert len({after[one], after[other]} - {"overlap"}) <= 1


@pytest.mark.skipif(not BANK.exists(), reason="the released questions are not beside the project")
def test_real_questions_stay_where_they_were_as_their_bank_grows() -> None:
    texts = [folded(json.loads(line)["question"]) for line in BANK.read_text().splitlines()]
    sides = [dealt(texts[:size]) for size in (500, 1_500, len(texts))]
    for earlier, later in pairwise(sides):
        assert all(later[text] == side for text, side in earlier.items())
    assert Counter(sides[-1].values())["overlap"] < 5


@pytest.mark.parametrize(
    "again",
    [
        "what is the TREATMENT of choice for a carcinoma of the eyelid",
        "What is the best treatment of choice for a carcinoma of the eyelid?",
        "For a carcinoma of the eyelid, what is the treatment of choice?",
        "Please tell me: what is the treatment of choice for a carcinoma of the eyelid? Thanks.",
        "I would like to know: What is the treatment of choice for a carcinoma of the eyelid?",
        "As an expert in my field with many years of practice I was asked this: What is the treatment of choice for a "
        "carcinoma of the eyelid?",
        "Which would be the treatment of choice for a carcinoma of the eyelid?",
    ],
)
@pytest.mark.parametrize("side", SPLITS)
def test_a_near_duplicate_of_a_released_question_goes_to_its_side(again: str, side: str) -> None:
    known = folded("What is the treatment of choice for a carcinoma of the eyelid?")
    assert dealt([folded(again)], {known: {side}}) == {folded(again): side}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("How can countries help?", "In which way can countries help?"),
        ("Why is tin soft?", "For what reason is tin soft?"),
        ("When did it end?", "At what time did it end?"),
        ("What's a tin whisker?", "Which is a tin whisker?"),
        ("What are auer rods?", "I would really like to know: What are auer rods?"),
    ],
)
def test_other_words_to_ask_and_words_around_do_not_make_another_question(one: str, other: str) -> None:
    assert near_questions([one, other]) == {one: {other}, other: {one}}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is tin?", "Before we begin our long day of work, what is tin used for in Peru?"),
        ("How is tin made?", "Why is tin made?"),
        ("Who is the U.S. agent?", "Who is the UK agent?"),
        ("What is tin made of?", "What is lead made of, and where?"),
    ],
)
def test_questions_that_only_share_words_are_others(one: str, other: str) -> None:
    assert near_questions([one, other]) == {}


@pytest.mark.skipif(not BANK.exists(), reason="the released questions are not beside the project")
def test_few_real_questions_are_near_duplicates_of_others() -> None:
    texts = [folded(json.loads(line)["question"]) for line in BANK.read_text().splitlines()]
    assert sum(map(len, near_questions(list(dict.fromkeys(texts))).values())) == 2 * 3


def test_released_questions_are_decided_first_wherever_they_stand() -> None:
    texts = ["how is tin made from ore at home?", "how is tin made from ore at home"]
    assert dealt(texts, {texts[1]: {"test"}}) == dict.fromkeys(texts, "test")


def test_a_question_between_two_sides_is_used_by_none() -> None:
    sides = {"how is tin made of ore in all of china": {"train"}, "how is tin made of ore in all of peru": {"test"}}
    assert dealt(["how is tin made of ore in all of"], sides) == {"how is tin made of ore in all of": "overlap"}


def test_of_several_released_sides_of_one_text_the_one_that_shows_least_counts() -> None:
    assert dealt(["why"], {"why": {"train", "test"}}) == {"why": "test"}


@pytest.mark.parametrize("shares", [[0.8, 0.2], [0.8, 0.1, 0.2], [1.1, -0.05, -0.05], []])
def test_shares_that_are_no_split_are_usage_errors(shares: list[float]) -> None:
    with pytest.raises(UsageError, match="are no split: give three"):
        deal(["a"], {}, {}, salt="", shares=shares)


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("name", "side"),
    [
        ("rand_lfqa_train.json", "random/train"),
        ("rand_val.jsonl", "random/validation"),
        ("random_test.jsonl.gz", "random/test"),
        ("domain_lfqa_val.json", "domain/validation"),
        ("Domain_Test.jsonl", "domain/test"),
        ("r1_data_anon.jsonl", None),
        ("my_rand_val.jsonl", None),
        ("rand_val.csv", None),
    ],
)
def test_a_file_of_a_split_is_known_by_its_released_name(name: str, side: str | None) -> None:
    assert side_named(name) == side


def written(folder: Path, name: str, *questions: str, **more: Any) -> Path:
    folder.mkdir(exist_ok=True)
    lines = [
        {"example_id": n, "context": "", "question": text, "answer": "A.", **more} for n, text in enumerate(questions)
    ]
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder / name


def sides_read(home: Home, *paths: Path, bank: Sequence[Path] = ()) -> list[Row]:
    return list(home.run(read_released_sides, open_released_sides(paths, bank, digest=sha256_of)))


def test_a_folder_of_split_files_is_read_and_its_other_files_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "lfqa"
    written(folder, "rand_lfqa_train.json", "Why is tin soft?", "Why is  tin soft?", "Who?")
    written(folder, "domain_lfqa_test.json", "Why is tin soft?", answers={})
    written(folder, "r2_compiled.jsonl", "Never read?")
    found = {(row["config"], row["split"], row["question"]) for row in sides_read(Home(tmp_path / "home"), folder)}
    assert found == {
        ("random", "train", "why is tin soft?"),
        ("random", "train", "who?"),
        ("domain", "test", "why is tin soft?"),
    }


def test_files_of_equal_contents_are_of_all_their_sides_and_files_of_questions_count(tmp_path: Path) -> None:
    one, other = (written(tmp_path / "a", name, "Who?") for name in ("rand_test.jsonl", "domain_val.jsonl"))
    own = written(tmp_path / "b", "own.jsonl", "Mine?")
    rows = sides_read(Home(tmp_path / "home"), one, bank=[other, own])
    assert {(row["config"], row["split"]) for row in rows} == {("random", "test"), ("domain", "validation")}


def test_records_without_a_question_are_rejected(tmp_path: Path) -> None:
    file = tmp_path / "rand_val.jsonl"
    file.write_text('{"question": "Who?"}\n{"question": " "}\n[]\n')
    home = Home(tmp_path / "home")
    made = home.run(read_released_sides, open_released_sides([file], [], digest=sha256_of))
    assert [row["question"] for row in made] == ["who?"]
    assert [reason for part in made.parts or () for _, reason, _ in part.rejected] == ["no question", "no record"]


def test_files_that_name_no_side_are_errors_that_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"whose name says no split: keep the released names"):
        open_released_sides([written(tmp_path / "a", "train.jsonl", "Who?")], [], digest=sha256_of)
    with pytest.raises(SourceError, match="holds no file of a released split"):
        open_released_sides([tmp_path / "a"], [], digest=sha256_of)


# ---------------------------------------------------------------- the stage


def run(home: Home, bank: Sequence[Row], released: Sequence[tuple[str, str, str]] = ()) -> dict[str, Row]:
    sides = [
        filled(RELEASED_SIDES, side_id=f"s{n}", config=config, split=split, question=folded(text))
        for n, (config, split, text) in enumerate(released)
    ]
    made = home.run(deal_sides, home.table(QUESTIONS, bank), home.table(RELEASED_SIDES, sides), seed=0, shares=SHARES)
    return {row["question_id"].removeprefix("expertqa/"): row for row in made}


def test_each_config_has_its_own_released_sides_and_says_what_decided(tmp_path: Path) -> None:
    bank = [
        question("a", "Why is tin so soft and so grey?", position=0),
        question("b", "Why is tin so soft and grey?", position=1),
    ]
    found = run(Home(tmp_path), bank, [("random", "test", bank[0]["question"])])
    assert [found[key]["random"] for key in "ab"] == ["test", "test"]
    assert [found[key]["random_from"] for key in "ab"] == ["released", "near-duplicate"]
    assert [found[key]["domain_from"] for key in "ab"] == ["hash", "near-duplicate"]
    assert found["a"]["domain"] == found["b"]["domain"]
    assert found["a"]["like"] == ["expertqa/b"]


def test_a_question_of_a_later_file_never_decides_one_of_an_earlier_file(tmp_path: Path) -> None:
    first = [question(f"a{n}", f"Why is metal {n} of the old table grey?", position=n) for n in range(40)]
    later = [question(f"b{n}#file2", f"Why is the metal {n} of the old table grey?", position=n) for n in range(40)]
    before = run(Home(tmp_path / "one"), first)
    after = run(Home(tmp_path / "two"), [*later, *first])
    assert all(
        after[key]["random"] == row["random"] and after[key]["domain"] == row["domain"] for key, row in before.items()
    )


# ---------------------------------------------------------------- audits


def found(tmp_path: Path, *rows: tuple[str, str, str]) -> dict[str, list[tuple[str | None, str | None]]]:
    """Audit -> (split, key) of what it finds in rows of (question, split, what decided it)."""
    files: dict[str, list[Path]] = {}
    for place, (text, split, decided) in enumerate(rows):
        row = {"question_id": f"q{place}", "question": text, "split": split, "split_from": decided}
        path = tmp_path / f"{place}.parquet"
        pq.write_table(pa.Table.from_pylist([row]), path)
        files.setdefault(split, []).append(path)
    return {audit.name: [(one.split, one.key) for one in audit.finds({"random": files})] for audit in ON_TWO_SIDES}


def test_new_questions_across_sides_are_found_and_released_ones_reported(tmp_path: Path) -> None:
    text, like = "Why is tin so soft and so grey?", "Why is tin so soft and grey?"
    new, released = (audit.name for audit in ON_TWO_SIDES)
    assert [audit.ceiling for audit in ON_TWO_SIDES] == [0.0, 1.0]
    rows = [(text, "train", "released"), (like, "test", "released"), ("Who?", "test", "hash")]
    assert found(tmp_path, *rows) == {new: [], released: [("train", "q0"), ("test", "q1")]}
    rows[1] = (like, "test", "hash")
    assert found(tmp_path, *rows) == {new: [("train", "q0"), ("test", "q1")], released: []}
    assert found(tmp_path, (text, "train", "hash"), (like, "overlap", "near-duplicate")) == {new: [], released: []}


def test_what_the_authors_files_hold_on_two_sides_is_named_though_no_row_is_published(tmp_path: Path) -> None:
    like = ["why is tin so soft and so grey?", "why is tin so soft and grey?"]
    rows = [
        filled(RELEASED_SIDES, side_id=f"s{n}", config=config, split=split, question=text)
        for n, (config, split, text) in enumerate([
            ("random", "train", like[0]), ("random", "test", like[1]), ("random", "validation", "who?"),
            ("random", "train", "how is ale brewed?"), ("random", "test", "how is ale brewed?"),
            ("domain", "train", like[0]), ("domain", "train", like[1]),
        ])
    ]  # fmt: skip
    several, near = released_gates(Home(tmp_path).table(RELEASED_SIDES, rows))
    assert several.sentence == (
        "released_on_two_sides: 1 of 4 questions of the authors' random files stand on several sides: "
        '"how is ale brewed?" (test and train, counted to test) (25 %)'
    )
    assert (near.found, near.checked, near.ceiling, near.is_above) == (2, 4, 1.0, False)
    assert '"why is tin so soft and grey?" (test) and "why is tin so soft and so grey?" (train)' in near.what
    assert released_gates(Home(tmp_path).table(RELEASED_SIDES, rows[:1])) == []
