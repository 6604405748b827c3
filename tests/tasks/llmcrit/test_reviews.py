"""Reviews of criteria and demonstrations: read from sheets, and what becomes of what was reviewed."""

from __future__ import annotations

import csv
import io
import itertools
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from expertqa_tables import Home, filled
from hypothesis import given
from hypothesis import strategies as st

from longform.artifacts.rows import Rejected, Row, Rows
from longform.errors import SourceError
from longform.files import sha256_of
from schemas.llmcrit import ASPECTS, CRITERIA, DEMONSTRATIONS, REVIEWS
from tasks.annotation import sheets as written_as
from tasks.annotation.files import sheet_files
from tasks.annotation.reviews import TWICE, reviewed
from tasks.llmcrit.form import CRITERION_FORM, DEMONSTRATION_FORM, criterion_tasks, demonstration_tasks
from tasks.llmcrit.people.reviews import (
    open_reviews,
    read_criterion_reviews,
    read_demonstration_reviews,
    review_criteria,
    review_demonstrations,
)

ASPECT = filled(ASPECTS, aspect_id="jars/labels", task="jars", position=1, name="Labels", guideline="Label jars.")


def criterion(key: str, position: int, aspect: str = "jars/labels", **given: Any) -> Row:
    given = {"name": f"Name {key}", "check": f"Check {key}?", "state": "proposed", "task": "jars", **given}
    return filled(CRITERIA, criterion_id=key, aspect_id=aspect, position=position, **given)


def demonstration(key: str, position: int) -> Row:
    given = {"input": f"Text {key}.", "output": f"Feedback {key}.", "state": "proposed", "task": "jars"}
    return filled(DEMONSTRATIONS, demonstration_id=key, aspect_id="jars/labels", position=position, **given)


CRITERIA_ROWS = [criterion("c2", 2), criterion("c1", 1), criterion("c3", 3, name="")]
DEMONSTRATION_ROWS = [demonstration("d1", 1), demonstration("d2", 2)]


def review(item: str, who: str, verdict: str, **given: Any) -> Row:
    return filled(REVIEWS, review_id=f"{item}/{who}", item_id=item, annotator_id=who, verdict=verdict, **given)


def rejected_rows(home: Home, rows: Rows) -> list[Row]:
    paths = [home.store.rejected_path(part) for part in rows.parts or () if part.rejected_sha256]
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


# ---------------------------------------------------------------- read


def aspect_sheet(who: str, **said: Row) -> Row:
    """The sheet of the aspect, in which a person says this of these criteria."""
    (task,) = criterion_tasks([ASPECT], CRITERIA_ROWS)
    sheet = written_as.sheet(CRITERION_FORM, task)
    items = [{**item, **said.get(item["criterion_id"], {})} for item in sheet["criteria"]]
    return {**sheet, "annotator_id": who, "criteria": items}


def read(tmp_path: Path, *records: Row, name: str = "a.jsonl", content: bytes = b"") -> tuple[list[Row], list[Row]]:
    """(reviews, rejected rows) of a file of these sheets of criteria."""
    home = Home(tmp_path / "home")
    (tmp_path / name).write_bytes(content or b"\n".join(map(orjson.dumps, records)))
    sources = open_reviews([tmp_path / name], digest=sha256_of, accounts={})
    tables = home.table(CRITERIA, CRITERIA_ROWS), home.table(ASPECTS, [ASPECT])
    made = home.run(read_criterion_reviews, sources, *tables)
    return list(made), rejected_rows(home, made)


def test_what_a_person_says_of_each_criterion_is_a_review_and_the_time_of_the_sheet_is_shared(tmp_path: Path) -> None:
    edit = {"verdict": "Edit", "new_name": " Date ", "new_check": "Is there a date?"}
    sheet = aspect_sheet("ann", c1=edit, c2={"verdict": "reject"}) | {"annotation_time": 30}
    made, left = read(tmp_path, sheet)
    assert left == []
    assert {row["item_id"]: {**row, "review_id": ""} for row in made} == {
        "c1": review("c1", "ann", "edit", name="Date", text="Is there a date?", seconds=15.0) | {"review_id": ""},
        "c2": review("c2", "ann", "reject", seconds=15.0) | {"review_id": ""},
    }
    assert len({row["review_id"] for row in made}) == 2


def test_a_spreadsheet_that_is_filled_in_row_by_row_says_the_same(tmp_path: Path) -> None:
    written = sheet_files(CRITERION_FORM, list(criterion_tasks([ASPECT], CRITERIA_ROWS)), "csv")["sheets.csv"]
    rows = list(csv.DictReader(io.StringIO(written.decode("utf-8-sig"), newline="")))
    assert [row["criterion_id"] for row in rows] == ["c1", "c2", "c3"]
    out = io.StringIO(newline="")
    lines = csv.DictWriter(out, rows[0].keys())
    lines.writeheader()
    verdicts = ("accept", "", "edit")
    for row, verdict in zip(rows, verdicts, strict=True):
        new = "Is it short?" if verdict == "edit" else ""
        lines.writerow({**row, "annotator_id": "7", "verdict": verdict, "new_check": new})
    made, left = read(tmp_path, name="a.csv", content=out.getvalue().encode())
    assert [(row["item_id"], row["annotator_id"], row["verdict"], row["text"]) for row in made] == [
        ("c1", "7", "accept", None),
        ("c3", "7", "edit", "Is it short?"),
    ]
    assert [row["reason"] for row in left] == ["not labelled"]


BAD = {
    "an edit without a new text": {"verdict": "edit"},
    "a new text without an edit": {"verdict": "accept", "new_name": "Date"},
    "no verdict": {"new_check": "Is there a date?"},
    "unknown label": {"verdict": "fine"},
    "unknown key": {"verdct": "accept"},
}


@pytest.mark.parametrize("reason", BAD)
def test_what_is_no_review_is_a_defect_that_costs_no_other_review(tmp_path: Path, reason: str) -> None:
    sheets = aspect_sheet("ann", c1=BAD[reason]), aspect_sheet("bob", c1={"verdict": "accept"})
    made, left = read(tmp_path, *sheets)
    assert [(row["item_id"], row["annotator_id"]) for row in made] == [("c1", "bob")]
    assert [(row["kind"], row["reason"]) for row in left] == [("defect", reason)]


def test_a_criterion_whose_text_was_changed_in_the_sheet_is_not_reviewed(tmp_path: Path) -> None:
    changed = aspect_sheet("ann", c1={"verdict": "accept", "criterion": "**Name c1**: Another check?"})
    with pytest.raises(SourceError, match=r"yields no label \(the criterion had another text: 1\)"):
        read(tmp_path, changed)


def test_the_first_review_of_a_person_counts_in_one_file(tmp_path: Path) -> None:
    made, left = read(
        tmp_path, aspect_sheet("ann", c1={"verdict": "accept"}), aspect_sheet("ann", c1={"verdict": "reject"})
    )
    assert [row["verdict"] for row in made] == ["accept"]
    assert [(row["key"], row["kind"], row["reason"], row["detail"]) for row in left] == [("c1", "defect", TWICE, "ann")]


def test_reviews_of_demonstrations_are_read_with_their_new_texts(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    said = {"d1": {"verdict": "edit", "new_output": "Better.", "annotation_time": 8}, "d2": {"verdict": "accept"}}
    records = [
        {**written_as.sheet(DEMONSTRATION_FORM, task), "annotator_id": "ann", **said[task.id]}
        for task in demonstration_tasks(DEMONSTRATION_ROWS)
    ]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(map(orjson.dumps, records)))
    sources = open_reviews([tmp_path / "a.jsonl"], digest=sha256_of, accounts={})
    made = home.run(read_demonstration_reviews, sources, home.table(DEMONSTRATIONS, DEMONSTRATION_ROWS))
    columns = ("item_id", "verdict", "name", "text", "input", "seconds")
    assert [tuple(row[name] for name in columns) for row in made] == [
        ("d1", "edit", None, "Better.", None, 8.0),
        ("d2", "accept", None, None, None, None),
    ]


# ---------------------------------------------------------------- what becomes of them


def after(tmp_path: Path, *files: list[Row], reviewed_only: bool = False) -> tuple[list[Row], list[Row]]:
    """(criteria, rejected rows) after the reviews of these files, made as a build makes them: nothing may vanish."""
    home = Home(tmp_path)
    others = [criterion("e1", 1, "jars/lids"), criterion("e2", 2, "jars/lids")]
    tables = home.table(CRITERIA, [*CRITERIA_ROWS, *others]), home.table(REVIEWS, *(files or ([],)))
    made = home.run(review_criteria, *tables, reviewed_only=reviewed_only)
    return list(made), rejected_rows(home, made)


def test_without_reviews_criteria_stay_as_they_were_proposed_in_the_order_of_their_aspects(tmp_path: Path) -> None:
    made, left = after(tmp_path)
    assert [row["criterion_id"] for row in made] == ["c1", "c2", "c3", "e1", "e2"]
    assert sorted(made, key=lambda row: row["criterion_id"]) == sorted(
        [*CRITERIA_ROWS, criterion("e1", 1, "jars/lids"), criterion("e2", 2, "jars/lids")],
        key=lambda row: row["criterion_id"],
    )
    assert left == []


def test_most_reviewers_decide_and_what_stays_is_numbered_anew(tmp_path: Path) -> None:
    reviews = [
        review("c1", "ann", "reject"),
        review("c1", "bob", "reject"),
        review("c1", "cat", "edit", name="Lost"),
        review("c2", "bob", "accept"),
        review("c2", "ann", "reject"),
        review("c3", "cat", "edit", text="By cat?"),
        review("c3", "bob", "edit", name="Bob's"),
        review("c3", "ann", "reject"),
        review("e1", "ann", "accept"),
    ]
    made, left = after(tmp_path, reviews)
    shown = ("criterion_id", "position", "state", "reviewers", "name", "check", "proposed")
    assert [tuple(row[name] for name in shown) for row in made] == [
        ("c2", 1, "proposed", 2, "Name c2", "Check c2?", None),
        ("c3", 2, "edited", 3, "Bob's", "Check c3?", "Check c3?"),
        ("e1", 1, "accepted", 1, "Name e1", "Check e1?", None),
        ("e2", 2, "proposed", 0, "Name e2", "Check e2?", None),
    ]
    assert [(row["key"], row["kind"], row["reason"]) for row in left] == [
        ("c1", "filtered", "rejected by its reviewers")
    ]


def test_an_edited_criterion_keeps_its_id_and_what_was_proposed(tmp_path: Path) -> None:
    made, _ = after(tmp_path, [review("c1", "ann", "edit", name="Date", text="Is there a date?")])
    assert made[0] == CRITERIA_ROWS[1] | {
        "name": "Date",
        "check": "Is there a date?",
        "state": "edited",
        "reviewers": 1,
        "proposed": "**Name c1**: Check c1?",
    }


def test_only_what_people_accept_can_be_asked_for(tmp_path: Path) -> None:
    reviews = [review("c2", "ann", "edit", text="New?"), review("e2", "ann", "accept"), review("c1", "ann", "reject")]
    made, left = after(tmp_path, reviews, reviewed_only=True)
    assert [(row["criterion_id"], row["position"]) for row in made] == [("c2", 1), ("e2", 1)]
    assert {row["key"]: (row["kind"], row["reason"]) for row in left} == {
        "c1": ("filtered", "rejected by its reviewers"),
        "c3": ("filtered", "not accepted by reviewers"),
        "e1": ("filtered", "not accepted by reviewers"),
    }


def test_a_person_counts_once_also_across_files(tmp_path: Path) -> None:
    made, left = after(tmp_path, [review("c1", "ann", "accept")], [review("c1", "ann", "reject")])
    assert (made[0]["criterion_id"], made[0]["state"], made[0]["reviewers"]) == ("c1", "accepted", 1)
    assert [(row["key"], row["kind"], row["reason"]) for row in left] == [("c1", "defect", TWICE)]


def test_demonstrations_are_reviewed_alike(tmp_path: Path) -> None:
    home = Home(tmp_path)
    reviews = [review("d1", "ann", "reject"), review("d2", "bob", "edit", input="New text.", text="New feedback.")]
    tables = home.table(DEMONSTRATIONS, DEMONSTRATION_ROWS), home.table(REVIEWS, reviews)
    made = home.run(review_demonstrations, *tables, reviewed_only=False)
    new = {"input": "New text.", "output": "New feedback.", "state": "edited", "reviewers": 1, "position": 1}
    assert list(made) == [DEMONSTRATION_ROWS[1] | new]
    assert home.rejected(made) == {"d1": "rejected by its reviewers"}


VERDICTS = st.lists(st.sampled_from(["accept", "edit", "reject"]), max_size=5)


@given(st.lists(VERDICTS, min_size=1, max_size=4), st.booleans())
def test_every_item_is_kept_or_rejected_by_a_vote_whatever_the_order_of_reviews(
    verdicts: list[list[str]], reviewed_only: bool
) -> None:
    items = [criterion(f"c{number}", number) for number in range(1, len(verdicts) + 1)]
    reviews = [
        review(item["criterion_id"], f"p{who}", verdict, name=f"By p{who}" if verdict == "edit" else None)
        for item, own in zip(items, verdicts, strict=True)
        for who, verdict in enumerate(own)
    ]

    def edited(item: Row, review: Row) -> Row:
        return {"name": review["name"]}

    made = list(reviewed(items, reviews, "criterion_id", "aspect_id", edited, reviewed_only))
    assert made == list(reviewed(items, reviews[::-1], "criterion_id", "aspect_id", edited, reviewed_only))
    expected = []
    for item, own in zip(items, verdicts, strict=True):
        against = own.count("reject")
        votes = (len(own) - against > against) - (against > len(own) - against)
        first = next((who for who, verdict in enumerate(own) if verdict == "edit"), None)
        state = {-1: "rejected", 0: "proposed", 1: "accepted" if first is None else "edited"}[votes]
        name = f"By p{first}" if state == "edited" else item["name"]
        expected.append((item["criterion_id"], state, name))
    wanted = ("accepted", "edited") if reviewed_only else ("accepted", "edited", "proposed")
    kept = [row for row in made if not isinstance(row, Rejected)]
    assert [(row["criterion_id"], row["state"], row["name"]) for row in kept] == [
        each for each in expected if each[1] in wanted
    ]
    assert [row["position"] for row in kept] == list(itertools.islice(itertools.count(1), len(kept)))
    assert {row.key for row in made if isinstance(row, Rejected)} == {
        each[0] for each in expected if each[1] not in wanted
    }
