"""The draw of test texts and of those that become demonstrations, and texts of one's own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from expertqa_tables import Home, filled, kept, refused
from hypothesis import given
from hypothesis import strategies as st
from revision_drafts import rejected

from longform.artifacts.rows import Row
from longform.files import sha256_of
from schemas.llmcrit import CANDIDATES, DEMONSTRATIONS
from tasks.llmcrit.texts.draw import draw_texts, open_texts, own_texts

Drawn = tuple[dict[str, Row], dict[str, str]]  # text id -> row, text id -> reason
OPTIONS: Row = {"demonstrations": {"jars": 4, "lids": 4}, "popular": {}, "characters": 20_000, "seed": 0}
NONE = {"demonstrations": {"jars": 0}}
WORDS = [one + other for one in ("plum", "fig", "pear", "sloe") for other in ("jam", "jar", "lid", "mash", "pie")]


class Memory(list[Row]):
    """Rows in memory, which a stage reads as it reads a table."""

    def as_dicts(self, *columns: str) -> Any:
        return ({name: row[name] for name in columns} for row in self)


def candidate(key: Any, text: str = "", task: str = "jars", **given: Any) -> Row:
    text = text or " ".join(f"{key} {word}" for word in WORDS[:6])
    return filled(CANDIDATES, text_id=f"{task}/own/{key}", task=task, text=text, source_id=f"own/{key}", **given)


def drawn(rows: list[Row], texts: int = 10, released: Iterable[Row] = (), **options: Any) -> Drawn:
    tables = map(Memory, ([], [], rows[::2], rows[1::2], released))
    items = list(draw_texts.body(None, *tables, texts=texts, **OPTIONS | options))
    assert len(items) == len(rows)
    return {row["text_id"]: row for row in kept(items)}, dict(refused(items))


def of_test(rows: dict[str, Row]) -> list[Row]:
    return [row for row in rows.values() if row["use"] == "test"]


@pytest.mark.parametrize(
    ("pool", "texts", "expected"),
    [
        ({"": 30}, 10, {"": 10}),
        ({"": 7}, 10, {"": 7}),
        ({"": 7}, 0, {}),
        ({"accept": 40, "reject": 40}, 20, {"accept": 10, "reject": 10}),
        ({"accept": 3, "reject": 40}, 20, {"accept": 3, "reject": 17}),
        ({"a": 9, "b": 9, "c": 9}, 12, {"a": 4, "b": 4, "c": 4}),
        ({"a": 9, "b": 9, "c": 9}, 10, {"a": 4, "b": 3, "c": 3}),
        ({"accept": 10, "reject": 290}, 20, {"accept": 10, "reject": 10}),
    ],
)  # fmt: skip
def test_test_texts_are_at_most_so_many_of_equal_numbers_of_strata_and_half_modified(
    pool: dict[str, int], texts: int, expected: dict[str, int]
) -> None:
    rows = [candidate(f"{name}{n}", stratum=name) for name, number in pool.items() for n in range(number)]
    found = of_test(drawn(rows, texts, **NONE)[0])
    assert Counter(row["stratum"] for row in found) == expected
    assert sum(row["modified"] for row in found) == len(found) // 2
    for name, number in expected.items():
        changed = sum(row["modified"] for row in found if row["stratum"] == name)
        assert number // 2 <= changed <= (number + 1) // 2


@given(st.integers(0, 60), st.integers(0, 20), st.integers(0, 9), st.integers(0, 99))
def test_at_most_half_of_the_texts_are_kept_for_demonstrations_and_none_is_on_both_sides(
    pool: int, texts: int, least: int, seed: int
) -> None:
    rows = [candidate(n) for n in range(pool)]
    found, _ = drawn(rows, texts, demonstrations={"jars": least}, seed=seed)
    kept_apart = sum(row["use"] == "demonstration" for row in found.values())
    assert kept_apart == 0 if not least else min(least, pool // 2) <= kept_apart <= pool // 2
    assert len(of_test(found)) == min(texts, pool - kept_apart)
    assert not any(row["modified"] for row in found.values() if row["use"] == "demonstration")


def test_each_task_is_drawn_by_itself_and_keeps_its_rows_as_they_were() -> None:
    rows = [candidate(n, task=task, url=f"https://a.example/{n}") for n in range(30) for task in ("jars", "lids")]
    found, reasons = drawn(rows, 8)
    assert Counter(row["task"] for row in of_test(found)) == {"jars": 8, "lids": 8}
    alone, _ = drawn([row for row in rows if row["task"] == "lids"], 8)
    assert {key: row for key, row in found.items() if row["task"] == "lids"} == alone
    for row in rows:
        assert row.items() <= found.get(row["text_id"], row).items()
    assert set(reasons.values()) == {"not drawn"}


@given(st.integers(0, 40), st.integers(0, 300), st.integers(1, 20))
def test_another_candidate_pushes_out_at_most_two_and_changes_no_side(pool: int, more: int, texts: int) -> None:
    rows = [candidate(n) for n in range(pool)]
    before, after = (drawn(of, texts)[0] for of in (rows, [*rows, candidate(f"more{more}")]))
    assert max(len(after.keys() - before.keys()), len(before.keys() - after.keys())) <= 2
    moved = [key for key in before.keys() & after.keys() if before[key]["use"] != after[key]["use"]]
    assert len(moved) <= 1  # half of the texts may be kept for demonstrations


def test_another_candidate_changes_for_few_texts_whether_they_are_modified() -> None:
    rows = [candidate(n) for n in range(80)]
    before = drawn(rows, 50)[0]
    for more in range(40):
        after = drawn([*rows, candidate(f"more{more}")], 50)[0]
        both = before.keys() & after.keys()
        assert sum(before[key]["modified"] != after[key]["modified"] for key in both) <= 2


def test_of_the_most_popular_is_drawn_and_ties_go_by_id() -> None:
    rows = [candidate(n, popularity=votes) for n, votes in enumerate([5, 9, None, 5, 7, 5, -1, 5])]
    found, reasons = drawn(rows, 10, popular={"jars": 4}, **NONE)
    assert (sorted(found), set(reasons.values())) == ([f"jars/own/{n}" for n in (0, 1, 3, 4)], {"fewer votes"})


def test_equal_and_long_texts_are_left_out_and_the_first_is_kept() -> None:
    same = ["# A jar\n\nof **plums**.", "a jar of plums", "A JAR,  of plums"]
    rows = [candidate(n, text) for n, text in enumerate([*same, "A jar of pears.", "x" * 101, "y" * 100])]
    rows.append(candidate(9, same[1], task="lids"))
    found, reasons = drawn(rows, characters=100, demonstrations={})
    again = dict.fromkeys(("jars/own/1", "jars/own/2"), "the text of another")
    assert reasons == {**again, "jars/own/4": "longer than the most characters"}
    assert sorted(found) == ["jars/own/0", "jars/own/3", "jars/own/5", "lids/own/9"]


@pytest.mark.parametrize("seed", range(3))
def test_no_test_text_is_nearly_one_of_a_demonstration_kept_or_imported(seed: int) -> None:
    texts = {n: [f"{word}{n}" for word in WORDS * 3] for n in range(20)}
    rows = [candidate(f"{n}{twin}", " ".join([*texts[n], twin])) for n in texts for twin in "ab"]
    found, reasons = drawn(rows, 40, seed=seed)
    pairs = [{found.get(f"jars/own/{n}{twin}", {}).get("use") for twin in "ab"} for n in texts]
    assert {"demonstration", None} in pairs
    assert {"demonstration", "test"} not in pairs
    assert set(reasons.values()) == {near := "nearly the text of a demonstration"}
    given = [filled(DEMONSTRATIONS, demonstration_id=f"d{n}", task="jars", input=" ".join(texts[n])) for n in (3, 4)]
    given[1]["task"] = "lids"
    assert drawn(rows, 40, given, **NONE)[1] == dict.fromkeys(("jars/own/3a", "jars/own/3b"), near)


def own(path: Path, files: dict[str, Any], **options: Any) -> tuple[list[Row], dict[str, Row]]:
    for name, content in files.items():
        (path / "own" / name).parent.mkdir(parents=True, exist_ok=True)
        lines = [line if isinstance(line, str) else json.dumps(line) for line in content]
        (path / "own" / name).write_text("\n".join(lines))
    home = Home(path / "home")
    made = home.run(own_texts, open_texts([("jars", [path / "own"])], sha256_of, licence="MIT"), **options)
    return list(made), rejected(home, made)


def test_own_texts_have_their_ids_and_facts_and_a_file_that_is_no_json_is_one_text(tmp_path: Path) -> None:
    told = {"licence": "CC-BY-4.0", "url": "https://a.example/", "stratum": "a", "authors": ["Ann"]}
    lines = [{"id": 7, "post": "One."}, {"text_id": "b", "text": "Two.\n", **told}, {"code": "three()"}]
    rows, _ = own(tmp_path, {"a.jsonl": lines, "b.md": ["# Four", "", "five", ""]}, takedowns=["own/9"])
    found = {row["text"]: row for row in rows}
    assert list(found) == ["One.", "Two.", "three()", "# Four\n\nfive"]
    assert [rows[n]["text_id"] for n in (0, 1, 3)] == ["jars/own/7", "jars/own/b", "jars/own/b.md"]
    assert {name: found["Two."][name] for name in told} == told
    assert (found["One."]["licence"], found["One."]["url"], found["One."]["source_id"]) == ("MIT", None, "own/7")


def test_own_texts_that_cannot_be_read_or_are_taken_down_are_rejected_with_their_place(tmp_path: Path) -> None:
    lines = ["{broken", '["a"]', {"id": 1}, {"id": 2, "text": " "}, {"id": 3, "text": 4}, {"id": 5, "text": "a"}] * 2
    rows, left_out = own(tmp_path, {"a.jsonl": [*lines, {"id": 6, "text": "b"}]}, takedowns=["own/6"])
    assert [row["text_id"] for row in rows] == ["jars/own/5"]
    reasons = Counter(row["reason"] for row in left_out.values())
    no_text = "no text under text, post, code, introduction, input, content"
    assert reasons == {no_text: 10, "an id that comes again": 1, "taken down": 1}
    assert (left_out["a.jsonl#1"]["raw"], left_out["a.jsonl#13"]["reason"]) == ("{broken", "taken down")


@pytest.mark.parametrize(
    ("record", "key"),
    [
        ({"id": 0}, "0"),
        ({"id": 1, "licence": 4}, "1"),
        ({"id": 1, "url": ["b"]}, "1"),
    ],
)
def test_own_texts_with_odd_fields_are_read(tmp_path: Path, record: Row, key: str) -> None:
    rows, _ = own(tmp_path, {"a.jsonl": [{"text": "a", **record}]})
    assert [row["source_id"] for row in rows] == [f"own/{key}"]


def test_own_texts_of_one_name_in_two_folders_have_two_ids(tmp_path: Path) -> None:
    rows, _ = own(tmp_path, {"a/README.md": ["On a."], "b/README.md": ["On b."]})
    assert len({row["text_id"] for row in rows}) == 2
