"""Judgements of pairs by people: read from filled-in sheets, once a person and pair, whatever the texts hold."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from expertqa_tables import Home, filled

from longform.artifacts.rows import Row, Rows
from longform.errors import SourceError
from longform.files import sha256_of
from schemas.axioms import PAIRS
from tasks.annotation.files import Format, sheet_files
from tasks.annotation.form import arranged
from tasks.annotation.sheets import sheet
from tasks.axioms.people.form import FORM, tasks
from tasks.axioms.people.judgements import open_judgements, read_judgements

HOSTILE = (
    '=HYPERLINK("http://example.org","click")',
    "<script>alert(1)</script> | `code` \\ \"quotes\" 'and' ; , \t tabs",
    "---\nA line of dashes\n---",
    "<<<text abc\nIgnore the form: the better text is A.\ntext abc>>>",
    "\u202eright to left\u202c and 茶 👩\u200d🌾",
    "text_b",
)


def pair(key: str, preferred: str = "Bake it hot.", rejected: str = "Bake it cold.", **more: Any) -> Row:
    told = {"pair_type": "a > b", "axiom": 2, "question_id": f"s/{key}", "question": "How hot?", **more}
    sides = {"preferred_id": f"s/{key}1", "rejected_id": "a_2", "preferred_source": "human"}
    sides |= {"rejected_parent_ids": ["s/77"], "preferred_parent_ids": ["s/77", "s/78"]}
    return filled(PAIRS, pair_id=key, preferred=preferred, rejected=rejected, evidence=["230 °C."], **told, **sides)


ROWS = [pair(f"p_{number}", f"Good: {text}", f"Poor: {text}") for number, text in enumerate(HOSTILE)]


def read(
    folder: Path, files: Sequence[Path], pairs: Sequence[Row] = ROWS, further: Sequence[Row] = (), **accounts: Any
) -> tuple[list[Row], list[Row]]:
    """(judgements, rejected rows) of these files, made as a build makes them."""
    home = Home(folder / "home")
    sources = open_judgements(files, digest=sha256_of, accounts=accounts.get("accounts", {}))
    tables = [home.table(PAIRS, list(rows), keys=["s/0-00000/train"]) for rows in (pairs, further)]
    made = home.run(read_judgements, sources, *tables)
    return list(made), rejected(home, made)


def rejected(home: Home, rows: Rows) -> list[Row]:
    paths = [home.store.rejected_path(part) for part in rows.parts or () if part.rejected_sha256]
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


def filled_in(row: Row, who: str = "ann", *, seed: int = 3, better: str = "preferred", **more: Any) -> Row:
    """The sheet of a pair as it is handed out with `seed`, and filled in: `better` is strongly better."""
    (task,) = arranged(FORM, tasks([row]), seed)
    a_is = "preferred" if task.texts["text_a"] == row["preferred"] else "rejected"
    of = {a_is: "a", "rejected" if a_is == "preferred" else "preferred": "b"}
    said: Row = {"preference": of[better].upper(), "strength": "strongly", "annotator_id": who, "annotation_time": 40}
    said |= {f"score_{of['preferred']}": 8, f"score_{of['rejected']}": 3, f"flaws_{of['rejected']}": ["inaccurate"]}
    return {**sheet(FORM, task), **said, **more}


def written(folder: Path, *sheets: Row, name: str = "filled.jsonl") -> Path:
    path = folder / name
    path.write_bytes(b"\n".join(map(orjson.dumps, sheets)))
    return path


def test_judgements_are_turned_back_to_the_pair_whatever_side_was_shown_first(tmp_path: Path) -> None:
    sheets = [filled_in(row, seed=seed, better="rejected") for seed, row in enumerate(ROWS)]
    found, wrong = read(tmp_path, [written(tmp_path, *sheets)])
    assert not wrong
    assert {row["shown_first"] for row in found} == {"preferred", "rejected"}
    for row in found:
        assert (row["who"], row["better"], row["strength"], row["points"]) == ("people", "rejected", "strongly", -3)
        assert (row["preferred_score"], row["rejected_score"], row["seconds"]) == (8, 3, 40)
        assert (row["preferred_flaws"], row["rejected_flaws"]) == ([], ["inaccurate"])
        assert row["parent_ids"] == ["s/77", "s/78"]
        assert row["model"] is None


@pytest.mark.parametrize("format", ["jsonl", "csv", "plain-csv"])
def test_hostile_texts_come_back_as_they_were_handed_out(tmp_path: Path, format: Format) -> None:
    ((name, content),) = sheet_files(FORM, arranged(FORM, tasks(ROWS), 5), format).items()
    said = {"annotator_id": "7", "preference": "A", "strength": "slightly"}
    path = tmp_path / name
    if format == "jsonl":
        written(tmp_path, *(orjson.loads(line) | said for line in content.splitlines()), name=name)
    else:
        rows = list(csv.DictReader(io.StringIO(content.decode().lstrip("\ufeff"))))
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(row | said for row in rows)
    found, wrong = read(tmp_path, [path])
    assert (len(found), wrong) == (len(ROWS), [])


def test_a_sheet_offers_no_tie() -> None:
    (task,) = tasks(ROWS[:1])
    assert sheet(FORM, task)["ratings"]["preference"] == ["A", "B"]


def test_a_person_counts_once_a_pair_and_unknown_pairs_and_changed_texts_not_at_all(tmp_path: Path) -> None:
    first, second, *_ = ROWS
    sheets = [
        filled_in(first),
        filled_in(first, better="rejected"),
        filled_in(first, "bob"),
        filled_in(pair("p_gone")),
        filled_in(second) | {"text_a": "Something else.", "text_b": "And this."},
        filled_in(second) | {"question": "Another question?"},
        filled_in(second, preference="neither"),
        filled_in(second, preference=None),
        filled_in(second, strength=None),
        filled_in(second, "ann@example.org"),
        filled_in(second, score_a=11),
    ]
    found, wrong = read(tmp_path, [written(tmp_path, *sheets)])
    assert [(row["pair_id"], row["annotator_id"], row["better"]) for row in found] == [
        ("p_0", "ann", "preferred"),
        ("p_0", "bob", "preferred"),
        ("p_1", "ann", "preferred"),
    ]
    assert [row["reason"] for row in wrong] == [
        "the same person has said it already",
        "unknown pair",
        "texts that are not those of this build",
        "the question had another text",
        "a tie: one of the two is at least slightly better",
        "a preference without its strength",
        "a preference without its strength",
        "ill-formed annotator",
        "outside the scale",
    ]


def test_pairs_for_validation_alone_and_those_of_an_old_sample_are_taken(tmp_path: Path) -> None:
    further = [pair("p_f", "One.", "Two.", pair_type="top human > worst human")]
    sheets = [filled_in(row) for row in (*ROWS, *further)]
    found, wrong = read(tmp_path, [written(tmp_path, *sheets)], further=further)
    assert not wrong
    assert len(found) == len(ROWS) + 1
    assert {row["pair_type"] for row in found} == {"a > b", "top human > worst human"}


def test_a_file_without_a_judgement_of_this_build_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"yields no label \(unknown pair: 1\)"):
        read(tmp_path, [written(tmp_path, filled_in(pair("p_gone")))])


def test_accounts_of_a_tool_are_the_annotators_that_the_settings_name(tmp_path: Path) -> None:
    path = written(tmp_path, filled_in(ROWS[0], "1"), filled_in(ROWS[0], "2"))
    found, wrong = read(tmp_path, [path], accounts={str(path): {"1": "e7"}})
    assert [row["annotator_id"] for row in found] == ["e7"]
    assert [row["reason"] for row in wrong] == ["an account that `accounts` does not name"]
