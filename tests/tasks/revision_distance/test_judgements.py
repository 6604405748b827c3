"""Sheets of the expert study: blinded, read back to the letter; what does not fit the build is told, never counted."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pytest
from expertqa_tables import Home
from hypothesis import given
from hypothesis import strategies as st
from revision_rows import case, cited, draft, published
from typer.testing import CliRunner

from flows.cli.main import app
from longform.artifacts.rows import Row
from longform.errors import SourceError, UsageError
from longform.files import sha256_of, write_json
from schemas.revision_distance import DRAFTS, PUBLISHED_DRAFTS
from tasks.annotation import sheets as written_as
from tasks.annotation.files import FORMATS, sheet_files
from tasks.annotation.form import arranged, draw
from tasks.annotation.sheets import MARK
from tasks.revision_distance.form import FORM, tasks
from tasks.revision_distance.judgements import collect_judgements, open_judgements, read_judgements
from tasks.sources.files.csv_cells import as_meant, harmless

NASTY = '=HYPERLINK("http://tea.example")\r\n\'=1+1\t"a", ‮ \x1b[31m'


def two(number: int, **given: Any) -> list[Row]:
    """The drafts of a case, as published."""
    shown: dict[str, Any] = {"title": f"On tea {number}", "abstract": "We boil.", "cited": [cited("acl/1"), cited("x")]}
    key = f"hard/acl/{number}"
    return [published(key, system, f"{system} {number}.", **{**shown, **given}) for system in ("vanilla", "cot")]


def sheets(drafts: list[Row], *, most: int = 20, seed: int = 0) -> list[Row]:
    """The sheets of at most so many cases, as JSON."""
    drawn = arranged(FORM, draw(tasks(drafts), most, seed), seed)
    return [written_as.sheet(FORM, task) for task in drawn]


def as_csv(found: list[Row]) -> bytes:
    """Sheets that somebody filled in, as a spreadsheet holds them."""
    written = io.StringIO(newline="")
    lines = csv.DictWriter(written, written_as.columns(FORM), extrasaction="ignore")
    lines.writeheader()
    lines.writerows({name: harmless(str(value or "")) for name, value in sheet.items()} for sheet in found)
    return (MARK + written.getvalue()).encode()


def many(number: int) -> list[Row]:
    return [row for each in range(number) for row in two(each)]


# ---------------------------------------------------------------- what an expert is shown


def test_a_sheet_shows_both_texts_and_the_papers_and_is_empty_where_it_is_filled_in() -> None:
    (sheet,) = sheets(two(1, title=None))
    name = sheet.pop("sheet_id")
    assert re.fullmatch(r"s_[0-9a-f]{20}", name)
    assert {sheet.pop("text_a"), sheet.pop("text_b")} == {"vanilla 1.", "cot 1."}
    assert sheet == {
        "case_id": "hard/acl/1",
        "title": "",
        "abstract": "We boil.",
        "cited": "On acl/1\nOn x",
        "expert": None,
        "better": None,
        "content_a": None,
        "content_b": None,
        "structure_a": None,
        "structure_b": None,
        "argument_a": None,
        "argument_b": None,
        "annotation_time": None,
        "labelled_at": None,
        "ratings": {"better": ["A", "B", "neither"]},
    }


def test_nothing_tells_which_system_it_was() -> None:
    rows = two(1, distance=4, rouge1=50.0, model="big-model", response="feed", edits=[])
    rows = [{**row, "draft": text} for row, text in zip(rows, ("Tea is old.", "Tea is hot."), strict=True)]
    for content in (part for format in FORMATS for part in sheet_files(FORM, list(tasks(rows)), format).values()):
        written = content.decode()
        for word in ("vanilla", "cot", "d_1", "big-model", "feed", "distance.:", "rouge", "system", "draft", "seed"):
            assert word not in written


def test_the_side_is_drawn_for_each_sheet_and_the_name_of_a_sheet_is_that_of_its_drafts() -> None:
    rows = many(400)
    found = {seed: sheets(rows, most=400, seed=seed) for seed in (0, 1)}
    sides = {seed: {one["sheet_id"]: one["text_a"][0] for one in of} for seed, of in found.items()}
    for of_seed in sides.values():
        assert len(of_seed) == 400
        assert 150 < sum(letter == "v" for letter in of_seed.values()) < 250
    assert sides[0].keys() == sides[1].keys()
    assert 100 < sum(sides[0][name] == sides[1][name] for name in sides[0]) < 300
    first = [one["text_a"][0] for one in found[0][:200]]
    assert 60 < first.count("v") < 140  # what is drawn first says nothing of the side
    assert sheets(list(reversed(rows)), most=400) == found[0]


def test_at_most_so_many_are_drawn_and_fewer_are_the_first_of_more() -> None:
    assert len(sheets(many(30))) == 20
    ten = sheets(many(30), most=10, seed=3)
    assert ten == sheets(many(30), most=25, seed=3)[:10]
    assert [one["case_id"] for one in ten] != [one["case_id"] for one in sheets(many(30), most=10, seed=4)]
    others = [one for one in sheets(many(60), most=60, seed=3) if int(one["case_id"].rsplit("/")[-1]) < 30]
    assert others[:10] == ten


def test_a_case_with_one_draft_and_drafts_that_read_the_same_are_no_choice() -> None:
    alike = [{**row, "draft": text} for row, text in zip(two(1), ("Tea\nis hot.", "Tea is hot. "), strict=True)]
    others = [published("hard/acl/3", "vanilla", "Alone."), published("free/u/4", "chosen", "Tea.")]
    assert sheets([*alike, *others, *two(2)])[0]["case_id"] == "hard/acl/2"
    assert len(sheets([*alike, *others, *two(2)])) == 1


# ---------------------------------------------------------------- spreadsheets


@given(st.text() | st.from_regex(r"'{0,3}\s?[=+\-@\t\r].*"))
def test_no_cell_is_a_formula_and_every_text_comes_back(text: str) -> None:
    cell = harmless(text)
    assert not cell.startswith(("\t", "\r"))
    assert not cell.lstrip().startswith(("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"))
    assert as_meant(cell) == text
    assert cell in (text, f"'{text}")


def test_a_spreadsheet_finds_columns_titles_on_lines_and_its_mark() -> None:
    rows = [{**row, "draft": f"{NASTY} {row['system']}"} for row in two(1)]
    written = sheet_files(FORM, list(tasks(rows)), "csv")["sheets.csv"]
    assert written.startswith(b"\xef\xbb\xbfsheet_id,case_id,title,abstract,cited,text_a,text_b,expert,better,")
    (line,) = csv.DictReader(io.StringIO(written.decode("utf-8-sig"), newline=""))
    assert line["cited"] == "On acl/1\nOn x"
    assert line["text_a"][1:].startswith(NASTY)
    assert line["text_a"][0] == "'"


# ---------------------------------------------------------------- read back


def home_with(tmp_path: Path, rows: list[Row]) -> tuple[Home, Any]:
    """A store with these published drafts as the drafts of a build."""
    home = Home(tmp_path)
    drafts = [draft(case(row["case_id"]), row["system"], row["draft"]) for row in rows]
    ids = [{"draft_id": row["draft_id"]} for row in rows]
    return home, home.table(DRAFTS, [row | own for row, own in zip(drafts, ids, strict=True)])


def judged(tmp_path: Path, rows: list[Row], *files: tuple[str, bytes]) -> tuple[list[Row], list[Row]]:
    """Rows and rejected rows of files, as a build makes them."""
    import pyarrow.parquet as pq

    home, drafts = home_with(tmp_path / "home", rows)
    for name, content in files:
        (tmp_path / name).write_bytes(content)
    sources = open_judgements([tmp_path / name for name, _ in files], digest=sha256_of, accounts={})
    read = home.run(read_judgements, sources, drafts)
    made = home.run(collect_judgements, read)
    left = [
        row
        for rows in (read, made)
        for part in rows.parts or ()
        if part.rejected_sha256
        for row in pq.read_table(home.store.rejected_path(part)).to_pylist()
    ]
    return list(made), left


def jsonl(*records: Row) -> bytes:
    return b"".join(orjson.dumps(record) + b"\n" for record in records)


def filled_in(sheet: Row, expert: Any = "7", better: Any = "A", **said: Any) -> Row:
    return {**sheet, "expert": expert, "better": better, **said}


def test_what_experts_said_is_found_again_whatever_the_seed_or_the_form(tmp_path: Path) -> None:
    rows = many(6)
    of_text = {row["draft"]: row["draft_id"] for row in rows}
    kinds = [("A", [5, 4], [3, 2], []), ("B", [1, 2], [], [4, 4]), ("neither", [], [], [])]
    given, expected = [], []
    for seed in (0, 1):
        for number, sheet in enumerate(sheets(rows, seed=seed)):
            better, content, structure, argument = kinds[number % 3]
            names = {"content": content, "structure": structure, "argument": argument}
            said = {f"{name}_{side}": n for name, both in names.items() for side, n in zip("ab", both, strict=False)}
            given.append(filled_in(sheet, seed + 1, better, **said))
            first, second = of_text[sheet["text_a"]], of_text[sheet["text_b"]]
            chosen = {"A": first, "B": second, "neither": None}[better]
            expected.append((sheet["sheet_id"], str(seed + 1), chosen, content, structure, argument, first, second))
    columns = ("sheet_id", "expert", "better", "content", "structure", "argument", "first", "second")
    for name, written in (("a.jsonl", jsonl(*given)), ("b.csv", as_csv(given))):
        (tmp_path / name).mkdir()
        made, left = judged(tmp_path / name, rows, (name, written))
        assert left == []
        assert sorted(tuple(row[column] for column in columns) for row in made) == sorted(expected)
        assert {row["case_id"] for row in made} == {row["case_id"] for row in rows}
        assert len({row["judgement_id"] for row in made}) == 12


def test_files_of_several_experts_packed_or_saved_by_a_spreadsheet_count_together(tmp_path: Path) -> None:
    rows = two(1)
    (sheet,) = sheets(rows)
    written = io.StringIO(newline="")
    columns = ["better", "remarks", *(name for name in reversed(sheet) if name != "better")]
    lines = csv.DictWriter(written, columns, delimiter=";", lineterminator="\r\n")
    lines.writeheader()
    saved = {
        **filled_in(sheet, " e2 ", " b "),
        "content_a": "4,0",
        "content_b": "2.0",
        "text_a": sheet["text_a"] + "\r\n",
    }
    lines.writerow({**saved, "remarks": "hm", "cited": ""})
    lines.writerow(dict.fromkeys(columns, " "))
    made, left = judged(
        tmp_path,
        rows,
        ("one.jsonl.gz", gzip.compress(jsonl(filled_in(sheet, 1, "neither")))),
        ("two.csv", written.getvalue().encode()),
        ("three.jsonl", jsonl(sheet, {**sheet, "expert": "e3"}) + b"\n  \n" + jsonl(filled_in(sheet, "e4", "Neither"))),
    )
    assert sorted((row["expert"], row["better"] is None, row["content"]) for row in made) == [
        ("1", True, []),
        ("e2", False, [4, 2]),
        ("e4", True, []),
    ]
    assert [(row["kind"], row["reason"]) for row in left] == [("filtered", "not labelled")] * 2


BAD: dict[str, Row] = {
    "unknown sheet": {"sheet_id": "s_00000000000000000000"},
    "texts that are not those of this build": {"text_b": "Rewritten by hand."},
    "no annotator": {"expert": " "},
    "ill-formed annotator": {"expert": "someone@tea.example"},
    "no better text named": {"better": None, "content_a": 3, "content_b": 3},
    "unknown label": {"better": "the first"},
    "a rating of one text only": {"structure_a": 3},
    "outside the scale": {"argument_a": 6, "argument_b": 5},
    "unknown key": {"beter": "A"},
}


@pytest.mark.parametrize("reason", BAD)
def test_what_is_no_judgement_is_a_defect_with_its_reason(tmp_path: Path, reason: str) -> None:
    rows = two(1)
    (sheet,) = sheets(rows)
    bad = {**filled_in(sheet), **BAD[reason]}
    made, left = judged(tmp_path, rows, ("a.jsonl", jsonl(filled_in(sheet, "2"), bad)))
    assert [row["expert"] for row in made] == ["2"]
    assert [(row["kind"], row["reason"]) for row in left] == [("defect", reason)]
    if reason == "ill-formed annotator":
        assert "someone" not in json.dumps(left)
    else:
        assert json.loads(left[0]["raw"]) == bad


@pytest.mark.parametrize("value", [0, 5.5, True, "4 or 5", [4, 5], "-1", 10**30, {"a": 1}])
def test_only_one_to_five_is_a_rating(tmp_path: Path, value: Any) -> None:
    (sheet,) = sheets(two(1))
    record = filled_in(sheet, content_a=value, content_b=4)
    content = json.dumps(record).encode() + b"\n" + jsonl(filled_in(sheet, "2"))
    made, left = judged(tmp_path, two(1), ("a.jsonl", content))
    assert [row["expert"] for row in made] == ["2"]
    assert [row["reason"] for row in left] == ["outside the scale"]


def test_a_file_of_an_older_build_stops_the_build_and_says_what_to_do(tmp_path: Path) -> None:
    (old,) = sheets(two(1))
    now = [{**row, "draft_id": f"{row['draft_id']}_new"} for row in two(1)]
    with pytest.raises(
        SourceError, match=r"a\.jsonl yields no label \(unknown sheet: 1\), .*: give the filled-in sheets"
    ):
        judged(tmp_path, now, ("a.jsonl", jsonl(filled_in(old))))


def test_the_same_expert_twice_on_a_sheet_counts_once_in_one_file_and_across_files(tmp_path: Path) -> None:
    rows = two(1)
    (sheet,) = sheets(rows)
    first, other = filled_in(sheet, "1", "A"), filled_in(sheet, "1", "B")
    made, left = judged(tmp_path, rows, ("a.jsonl", jsonl(first, other)), ("b.csv", as_csv([other])))
    assert [row["better"] for row in made] == [made[0]["first"]]
    assert [(row["kind"], row["reason"]) for row in left] == [
        ("defect", "the expert has judged this sheet already")
    ] * 2


def test_the_number_of_an_expert_is_the_same_however_pandas_writes_it(tmp_path: Path) -> None:
    rows = two(1)
    (sheet,) = sheets(rows)
    whole = pd.DataFrame([filled_in(sheet, 3), filled_in(sheet, 12)])
    holed = pd.DataFrame([filled_in(sheet, 3), filled_in(sheet, 12), {**sheet, "expert": None}])
    assert (str(whole.expert[0]), str(holed.expert[0])) == ("3", "3.0")
    lines = holed.head(2).to_json(orient="records", lines=True).replace('"expert":3,', '"expert":3.0,')
    assert lines.count('"expert":3.0,') == 1
    made, left = judged(
        tmp_path,
        rows,
        ("a.csv", whole.to_csv(index=False).encode()),
        ("b.csv", holed.to_csv(index=False).encode()),
        ("c.jsonl", lines.encode()),
        ("d.jsonl", jsonl(*(filled_in(sheet, name) for name in ("3,0", " 3.00 ", "v3.0", "3.5", "30")))),
    )
    assert sorted(row["expert"] for row in made) == ["12", "3", "3.5", "30", "v3.0"]
    assert [row["reason"] for row in left if row["kind"] == "defect"] == [
        "the expert has judged this sheet already"
    ] * 6


@pytest.mark.parametrize("expert", [3.5, 1e30, True, [3], {"a": 1}])
def test_what_is_neither_a_number_nor_a_pseudonym_is_no_expert(tmp_path: Path, expert: Any) -> None:
    (sheet,) = sheets(two(1))
    made, left = judged(tmp_path, two(1), ("a.jsonl", jsonl(filled_in(sheet, expert), filled_in(sheet, "2"))))
    assert [row["expert"] for row in made] == ["2"]
    assert [row["reason"] for row in left] == ["ill-formed annotator"]


def test_lines_that_are_no_sheets_cost_themselves_only(tmp_path: Path) -> None:
    rows = two(1)
    (sheet,) = sheets(rows)
    sound = filled_in(sheet)
    made, left = judged(tmp_path, rows, ("a.jsonl", b'{"a": \n[1]\n"\xff"\n' + jsonl(sound)))
    assert len(made) == 1
    assert [(row["key"], row["reason"]) for row in left] == [
        ("line 1", "unreadable line"),
        ("line 2", "no record"),
        ("line 3", "unreadable line"),
    ]
    head, line = as_csv([sound]).split(b"\r\n", 1)
    broken = b"\xff,,,,,,,9,A\r\n"
    (tmp_path / "csv").mkdir()
    made, left = judged(tmp_path / "csv", rows, ("a.csv", head + b"\r\n" + broken + line + b",,,,,,,,,,,,,,,,x\r\n"))
    assert len(made) == 1
    assert sorted(row["reason"] for row in left) == ["more cells than the first line", "no UTF-8"]


def test_a_table_of_something_else_is_no_file_of_sheets(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r'a\.csv has no column "expert"'):
        judged(tmp_path, two(1), ("a.csv", b"sheet_id,better\ns_1,A\n"))


def test_a_table_with_a_column_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r'a\.csv has the column "better" twice'):
        judged(tmp_path, two(1), ("a.csv", b"sheet_id,expert,better,Better\ns_1,e,A,B\n"))


def test_a_spreadsheet_saved_as_utf_16_is_reported(tmp_path: Path) -> None:
    rows = two(1)
    text = as_csv([filled_in(each) for each in sheets(rows)]).decode("utf-8-sig")
    with pytest.raises(SourceError, match=r"a\.csv is UTF-16 .* as CSV UTF-8"):
        judged(tmp_path, rows, ("a.csv", text.encode("utf-16")))


def test_json_lines_with_the_ending_of_csv_are_reported(tmp_path: Path) -> None:
    rows = two(1)
    with pytest.raises(SourceError, match=r"a\.csv holds JSON lines: give it the ending \.jsonl"):
        judged(tmp_path, rows, ("a.csv", jsonl(*(filled_in(each) for each in sheets(rows)))))


def test_no_file_of_judgements_is_no_judgement(tmp_path: Path) -> None:
    home, drafts = home_with(tmp_path, two(1))
    assert list(home.run(collect_judgements, home.run(read_judgements, [], drafts))) == []


# ---------------------------------------------------------------- the command


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A version of 30 pairs, as publishing lays it out."""
    return version_with(tmp_path / "home", many(30))


def version_with(path: Path, rows: list[Row]) -> Path:
    table = Home(path).table(PUBLISHED_DRAFTS, rows)
    place = path / "datasets" / "revision-distance" / "v1"
    (place / "hard").mkdir(parents=True)
    (place / "hard" / "hard-0-00000.parquet").write_bytes(Path(table.paths[0]).read_bytes())
    manifest = {"number": 1, "recipe": "r", "stages": {}, "splits": {"hard": len(rows)}, "offline": True, "files": {}}
    write_json(place / "manifest.json", {**manifest, "keys": {"default": "draft_id"}})
    return path


def run(home: Path, *words: str) -> Any:
    result = CliRunner().invoke(app, ["sheets", "revision-distance", "--home", str(home), *words])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_command_writes_twenty_sheets_the_same_every_time(home: Path, tmp_path: Path) -> None:
    to = tmp_path / "sheets.jsonl"
    said = json.loads(run(home, "--to", str(to), "--json").stdout)
    assert said == {"sheets": 20, "format": "jsonl", "written": [str(to)]}
    run(home, "--to", str(to))
    assert [json.loads(line) for line in to.read_text().splitlines()] == sheets(many(30))
    run(home, "--to", str(tmp_path), "--format", "csv", "--most", "5", "--seed", "9")
    written = (tmp_path / "sheets.csv").read_bytes()
    drawn = arranged(FORM, draw(tasks(many(30)), 5, 9), 9)
    assert written == sheet_files(FORM, drawn, "csv")["sheets.csv"]
    assert "`judgements`" in run(home, "--to", str(tmp_path / "mine.csv"), "--format", "csv").stdout


def test_filled_in_sheets_are_never_written_over(home: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("an evening's work")
    with pytest.raises(UsageError, match="may hold labels"):
        run(home, "--to", str(tmp_path / "mine.csv"), "--format", "csv")
    assert (tmp_path / "mine.csv").read_text() == "an evening's work"


def test_no_file_has_the_ending_of_the_other_format(home: Path, tmp_path: Path) -> None:
    for name, words in (("sheets.csv", []), ("sheets.jsonl", ["--format", "csv"])):
        with pytest.raises(UsageError, match=f"{name} would hold .*--format {name.partition('.')[2]}"):
            run(home, "--to", str(tmp_path / name), *words)
        assert not (tmp_path / name).exists()


def test_the_command_says_what_is_to_be_filled_in(home: Path, tmp_path: Path) -> None:
    (sheet, *_) = sheets(many(30))
    said = run(home, "--to", str(tmp_path)).stdout
    words = {name for name, value in sheet.items() if value is None} - {"annotation_time", "labelled_at"}
    assert {"expert", "better"} < words
    assert all(word in said for word in words)


def test_wrong_words_are_reported(home: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="jsonl, csv"):
        run(home, "--to", str(tmp_path), "--format", "excel")
    with pytest.raises(UsageError, match="leave out --field Tea"):
        run(home, "--to", str(tmp_path), "--field", "Tea")
    none = version_with(tmp_path / "none", [published("free/u/1", "chosen", "Tea.", split="free")])
    with pytest.raises(UsageError, match="no case with a draft by vanilla and one by cot"):
        run(none, "--to", str(tmp_path))
