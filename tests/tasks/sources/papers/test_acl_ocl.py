"""ACL OCL: the table of publications and the JSON files, with licences by year and publisher."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import paths
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from axioms_builds import Silent

from flows.sources.acl_ocl import Fetch, Read, fetch, read
from longform.artifacts.store import Store
from longform.engine.build import Build
from longform.engine.runners import ThreadRunner
from longform.engine.thread_tasks import SequentialStages
from longform.errors import SourceError, UsageError
from longform.llm.models import Models
from tasks.sources.papers.acl_ocl import acl_id_of, authors, is_acl_id, is_front_matter, licence_of, year_of
from tasks.sources.s2orc.s2_records import from_doc2json

SAMPLES = paths.SAMPLES / "acl_ocl"
PAPER = SAMPLES / "Base_JSON" / "prefixA" / "json" / "acl" / "2020.acl-main.9001.json"
ACL = "Association for Computational Linguistics"


@pytest.fixture
def builder(tmp_path: Path) -> Iterator[Build]:
    home = tmp_path / "home"
    build = Build(
        Store(home),
        tasks=SequentialStages(),
        runner=ThreadRunner(),
        progress=Silent(),
        models=Models(home / "responses.sqlite"),
    )
    yield build
    build.close()


def rejected(builder: Build) -> dict[tuple[str, str], int]:
    return {reason: number for entry in builder.done for reason, number in entry.artifact.rejected().items()}


def test_front_matter_is_no_paper():
    front = ["P18-1000", "P18-2000", "W08-1300", "D19-5000", "C69-0100", "2020.acl-main.0", "2020.wosp-1.0", "J79-1000"]
    papers = ["P18-1001", "W08-1301", "W08-1000"[:-1] + "1", "D19-5001", "D19-1010", "C69-0101", "2020.wosp-1.10"]
    assert [name for name in front if not is_front_matter(name)] == []
    assert [name for name in papers if is_front_matter(name)] == []
    assert all(is_acl_id(name) for name in front + papers)
    assert not any(is_acl_id(name) for name in ("", "acl", "P18", "p18-1001", "2020.acl-main", "../P18-1001"))


def test_the_year_and_the_licence_follow_the_anthology_s_statement():
    assert [year_of(name) for name in ("P18-1001", "C69-0101", "J79-1002", "2020.acl-main.7", "x")] == [
        2018, 1969, 1979, 2020, None
    ]  # fmt: skip
    assert licence_of("P15-1001", 2015, ACL) == "CC BY-NC-SA 3.0"
    assert licence_of("P16-1001", 2016, ACL) == licence_of("2020.acl-main.7", 2020) == "CC BY 4.0"
    elsewhere = "European Language Resources Association (ELRA)"
    assert (
        licence_of("L16-1001", 2016)
        is licence_of("2020.lrec-1.7", 2020)
        is licence_of("C18-1", 2018, elsewhere)
        is None
    )


def test_authors_of_bibtex_are_full_names():
    assert authors("Lee, Ann  and\n      Bo, Cy") == ["Ann Lee", "Cy Bo"]
    assert authors("de {L}a Cruz, Ana and Plato") == ["Ana de La Cruz", "Plato"]
    assert authors("Anders, Andy") == ["Andy Anders"]
    assert authors("") == []


def test_a_file_is_named_by_its_id():
    assert acl_id_of("prefixW/json/wosp/2020.wosp-1.1.json") == "2020.wosp-1.1"
    assert acl_id_of("P18-1001.json.gz") == "P18-1001"
    assert acl_id_of("readme.json") is None


def test_the_samples_come_out_whole(builder: Build):
    metadata, papers, _ = read(builder, [SAMPLES], Read(retrieved_at="2026-10-01"))
    rows = {row["acl_id"]: row for row in metadata}
    assert {name: row["licence"] for name, row in rows.items()} == {
        "2020.acl-main.9001": "CC BY 4.0",
        "W08-1399": None,
        "P09-1999": "CC BY-NC-SA 3.0",
        "L16-1999": None,
    }
    first = rows["2020.acl-main.9001"]
    assert first["paper_id"] == "acl/2020.acl-main.9001"
    assert first["authors"] == ["Ann Lee", "Cy Bo"]
    assert first["title"] == "Kettles in Recipes"
    assert (first["corpus_id"], first["year"]) == (900_000_001, 2020)
    assert first["doi"] == "10.18653/v1/2020.acl-main.9001"
    assert rows["P09-1999"]["abstract"] is None
    (paper,) = papers
    assert paper["paper_id"] == "acl/2020.acl-main.9001"
    assert (paper["licence"], paper["year"], paper["source"]) == ("CC BY 4.0", 2020, "doc2json")
    assert [section["role"] for section in paper["sections"]] == ["introduction", "related_work"]
    for paragraph in paper["paragraphs"]:
        text = paper["text"][paragraph["start"] : paragraph["end"]]
        assert text.startswith(("Recipes name", "Labels were"))
        assert [paper["text"][one["start"] : one["end"]] for one in paragraph["citations"]] in (
            ["(Dorn, 2008)"],
            ["(Hark, 2016)"],
        )
    assert rejected(builder) == {("filtered", "front matter of a volume"): 1}
    counts = [dict(part.counts) for entry in builder.done for part in entry.artifact.parts if part.counts]
    assert counts == [{"with full text": 2, "without full text": 3}]
    assert {row["retrieved_at"].year for row in (*rows.values(), paper)} == {2026}


def publications(folder: Path, *rows: dict[str, Any]) -> Path:
    table = pq.read_table(SAMPLES / "publication-info.parquet")
    names = table.schema.names
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist([{n: row.get(n) for n in names} for row in rows]), folder / "t.parquet")
    return folder / "t.parquet"


def test_every_row_of_the_table_is_accounted_for(builder: Build, tmp_path: Path):
    table = publications(
        tmp_path / "t",
        {"acl_id": "P18-1001", "year": "2018", "corpus_paper_id": 7.0, "url": "javascript:x", "publisher": ACL},
        {"acl_id": "P18-1001"},
        {"acl_id": "P18-1000"},
        {"acl_id": "nonsense"},
        {"acl_id": None},
        {"acl_id": "P18-1002", "year": "in press", "doi": "https://doi.org/10.1/A B", "journal": "A\n  Journal"},
    )
    first, last = read(builder, [table], Read())[0]
    assert (first["corpus_id"], first["url"]) == (7, "https://aclanthology.org/P18-1001")
    assert (last["year"], last["doi"], last["venue"]) == (2018, None, "A Journal")
    assert rejected(builder) == {
        ("filtered", "seen before in this file"): 1,
        ("filtered", "front matter of a volume"): 1,
        ("defect", "missing or ill-formed acl_id"): 2,
    }


def test_files_of_every_kind_are_accounted_for_also_in_a_zip(builder: Build, tmp_path: Path):
    whole = PAPER.read_text()
    files = {
        "P18-1001.json": whole,
        "P18-1002.json": '{"half',
        "P18-1003.json": "[]",
        "P18-1004.json": "{}",
        "readme.json": "{}  ",
        "W08-1300.json": "{ }",
        "../../P18-1005.json": whole + " ",
    }
    with zipfile.ZipFile(tmp_path / "Base_JSON.zip", "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    papers, _ = read(builder, [tmp_path / "Base_JSON.zip"], Read())
    found = {row["acl_id"] for row in papers}
    assert {"P18-1001", "P18-1005"} <= found
    assert len(found) + sum(rejected(builder).values()) == len(files)
    reasons = set(rejected(builder))
    assert {
        ("defect", "unreadable file"),
        ("defect", "no record"),
        ("defect", "missing or ill-formed acl_id"),
        ("filtered", "front matter of a volume"),
    } <= reasons


def test_a_broken_or_another_table_is_an_error(builder: Build, tmp_path: Path):
    broken = tmp_path / "broken.parquet"
    broken.write_bytes((SAMPLES / "publication-info.parquet").read_bytes()[:-200])
    with pytest.raises(SourceError, match="damaged or no Parquet"):
        read(builder, [broken], Read())
    builder._stage_errors.clear()
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"x": [1]}), other)
    with pytest.raises(SourceError, match="has no column acl_id"):
        read(builder, [other], Read())


def test_nothing_to_read_or_to_fetch_is_an_error(builder: Build, tmp_path: Path):
    (tmp_path / "x.txt").write_text("x")
    with pytest.raises(UsageError, match=r"No \.parquet"):
        read(builder, [tmp_path], Read())
    for what in ([], ["papers"], ["../W"]):
        with pytest.raises(UsageError, match="table"):
            fetch(None, what, tmp_path, Fetch(revision="ab" * 20), None)  # type: ignore[arg-type]


def test_an_id_that_the_file_holds_elsewhere_is_the_file_s(builder: Build, tmp_path: Path):
    record = json.loads(PAPER.read_text())
    (tmp_path / "W16-1301.json").write_text(json.dumps({**record, "paper_id": "other", "year": "1999"}))
    papers, _ = read(builder, [tmp_path / "W16-1301.json"], Read())
    (row,) = papers
    assert (row["paper_id"], row["licence"]) == ("acl/W16-1301", "CC BY 4.0")


def test_paragraphs_go_on_in_their_section_as_long_as_number_and_head_are_the_same():
    said = [("Data", None), ("Data", None), ("Data", "1"), ("Data", "1"), ("Data", 1), ("Data", "2"), (["Data"], None)]
    body = [{"text": "t", "section": section, "sec_num": number} for section, number in said]
    row = from_doc2json({"pdf_parse": {"body_text": body}}, paper_id="acl/x")
    heads = [(one["number"], one["head"]) for one in row["sections"]]
    assert heads == [(None, "Data"), ("1", "Data"), ("2", "Data"), (None, "Data")]
    assert [one["section"] for one in row["paragraphs"]] == [0, 0, 1, 1, 1, 2, 3]


def test_a_head_that_nests_deep_is_no_head():
    deep = orjson.loads(b"[" * 900 + b"]" * 900)
    body = [{"text": "u", "section": deep}, {"text": "v", "section": deep}, {"text": "w"}]
    row = from_doc2json({"pdf_parse": {"body_text": body}}, paper_id="acl/x")
    assert [(one["number"], one["head"]) for one in row["sections"]] == [(None, None)]


def test_citations_of_no_entry_are_counted():
    spans = [{"start": n, "end": n + 1, "text": "abcd"[n], "ref_id": ref} for n, ref in enumerate(["b0", "b7", None])]
    entry = {"title": "On  Tea", "authors": [], "year": "1999", "other_ids": {"DOI": ["10.1/A."]}}
    parse = {"body_text": [{"text": "abcd", "cite_spans": spans}], "bib_entries": {"b0": entry}}
    row = from_doc2json({"pdf_parse": parse}, paper_id="acl/x")
    assert row["notes"] == ["citations of no entry"]
    (found,) = row["bibliography"]
    assert (found["title"], found["year"], found["doi"], found["raw"]) == ("On Tea", 1999, "10.1/a", None)
