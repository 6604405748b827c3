import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paths
import pyarrow as pa
import pytest

from benchmarks.building import Silent
from flows.sources import s2orc as source
from longform.artifacts.rows import Rejected, Row, Rows
from longform.artifacts.store import Store
from longform.engine.build import Build
from longform.engine.runners import ThreadRunner
from longform.engine.thread_tasks import SequentialStages
from longform.llm.models import Models
from tasks.sources.papers.papers import introduction, paragraphs_of, related_work
from tasks.sources.s2orc.s2_releases import merged, open_release, read_s2_metadata
from tasks.sources.s2orc.s2orc import from_record

SAMPLES = paths.SAMPLES / "s2orc"
DATA = paths.REAL_DATA / "s2orc"
real = pytest.mark.skipif(not DATA.exists(), reason="no real papers beside the repository")


def papers(name: str) -> list[Row]:
    lines = (SAMPLES / name).read_text().splitlines()
    return [from_record(json.loads(line)) for line in lines if line.endswith("}")]


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
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


def rejected(build: Build, stage: str) -> dict[tuple[str, str], int]:
    return next(done.artifact.rejected() for done in build.done if done.stage == stage)


# ---------------------------------------------------------------- one paper


@pytest.mark.parametrize(
    ("position", "start", "end", "related"),
    [
        (0, "Whoever keeps bees", "and no bees.", []),
        (1, "A hive that", "wrote it down.", ["Instruments in", "Barriers at", "Sound was"]),
        (2, "Bees do not fly", "(2019) proposed.", ["Counts of", "Two summers"]),
        (3, "Three groups", "read the others.", ["We sort", "Flights are", "Sounds are"]),
    ],
)
def test_introduction_and_related_work(position: int, start: str, end: str, related: list[str]) -> None:
    paper = papers("s2orc.jsonl")[position]
    span = introduction(paper)
    assert span is not None
    text = paper["text"][slice(*span)]
    assert text.startswith(start)
    assert text.endswith(end)
    found = [paper["text"][one["start"] : one["end"]] for one in related_work(paper)]
    assert [text.startswith(beginning) for text, beginning in zip(found, related, strict=True)] == [True] * len(related)


def test_a_paper_without_either() -> None:
    paper = papers("pdf_parses_2020.jsonl")[3]
    assert (introduction(paper), related_work(paper), paragraphs_of(paper)) == (None, [], [])


def test_paragraphs_of_a_paper() -> None:
    rows = paragraphs_of(papers("s2orc.jsonl")[3])
    first, flights = rows[0], rows[2]
    assert first["paragraph_id"] == "s2/1004#0"
    assert first["cited"] == ["s2/1001", "s2/1002", "s2/1003"]
    assert (flights["number"], flights["head"], flights["role"]) == ("A", "Flights", "related_work")
    quoted = [flights["text"][one["start"] : one["end"]] for one in flights["citations"]]
    assert quoted == ["Arden and Quill (2017)", "Ostrow (2020)"]
    assert rows[3]["cited"] == ["s2/1002"]


def test_a_paper_cited_twice_is_there_once() -> None:
    paper = papers("s2orc.jsonl")[1]
    paper["bibliography"][1]["paper_id"] = "s2/1001"
    paper["paragraphs"][2]["citations"] *= 2
    assert paragraphs_of(paper)[2]["cited"] == ["s2/1001"]


# ---------------------------------------------------------------- joined


def test_citations_are_resolved(build: Build) -> None:
    paths = [SAMPLES / name for name in ("s2orc.jsonl", "papers.jsonl", "abstracts.jsonl")]
    _, paragraphs, cited, *_ = source.read(build, paths, source.Read())
    rows = list(cited)
    assert [(row["paragraph_id"], row["cited_id"]) for row in rows] == [
        (row["paragraph_id"], paper) for row in paragraphs for paper in row["cited"]
    ]
    assert all(row["at_hand"] for row in rows)
    titles = {row["cited_id"]: row["title"] for row in rows}
    assert titles["s2/1003"] == "Weather and the Morning Flight"
    assert next(row["abstract"] for row in rows if row["cited_id"] == "s2/1001").startswith("A light barrier")
    without = sum(not row["cited"] for row in paragraphs)
    assert rejected(build, "resolve_citations") == {("filtered", "no linked citation"): without}


def test_cited_papers_may_be_elsewhere(build: Build, tmp_path: Path) -> None:
    lines = (SAMPLES / "s2orc.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "one.jsonl").write_text(lines[3])
    (tmp_path / "papers.jsonl").write_text((SAMPLES / "papers.jsonl").read_text().splitlines(keepends=True)[0])
    _, _, cited, *_ = source.read(build, [tmp_path], source.Read())
    found = {row["cited_id"]: (row["title"], row["abstract"], row["at_hand"]) for row in cited}
    assert found == {
        "s2/1001": ("Counting Bees at the Door of the Hive", None, True),
        "s2/1002": (None, None, False),
        "s2/1003": (None, None, False),
    }


def test_a_paper_without_paragraphs_is_filtered(build: Build) -> None:
    source.read(build, [SAMPLES / "pdf_parses_2020.jsonl"], source.Read())
    assert rejected(build, "split_paragraphs") == {("filtered", "no paragraphs"): 1}


def test_a_second_run_makes_nothing(build: Build) -> None:
    for states in (["run"] * 9, ["reuse"] * 18):  # a stage that is called twice stands there twice, as it ended last
        source.read(build, [SAMPLES], source.Read())
        assert [run.state for run in build.done] == states


# ---------------------------------------------------------------- metadata


def metadata(build: Build, *paths: Path) -> dict[str, Row]:
    rows: Rows = source.read(build, list(paths), source.Read())[3]
    return {row["paper_id"]: row for row in rows}


def test_papers_and_abstracts_are_one_row(build: Build) -> None:
    rows = metadata(build, SAMPLES / "papers.jsonl", SAMPLES / "abstracts.jsonl")
    assert sorted(rows) == ["s2/1001", "s2/1002", "s2/1003", "s2/1004"]
    first = rows["s2/1001"]
    assert (first["title"], first["authors"]) == ("Counting Bees at the Door of the Hive", ["Mira Arden", "Leo Quill"])
    assert (first["doi"], first["licence"], first["year"]) == ("10.5555/garden.2017.1", "CCBY", 2017)
    assert first["abstract"].startswith("A light barrier")
    assert rows["s2/1003"]["abstract"] is None


def test_metadata_of_2020_marks_new_lines(build: Build) -> None:
    rows = metadata(build, SAMPLES / "metadata_2020.jsonl")
    assert rows["s2/1001"]["abstract"] == (
        "A light barrier at the door of a hive counts the bees that leave.\n"
        "Two barriers tell those that leave from those that come back."
    )
    assert rows["s2/1004"]["venue"] == "Journal of Garden Measurement"


def test_deletions_of_one_dataset_leave_the_other(build: Build, tmp_path: Path) -> None:
    base, step = tmp_path / "2025-01-07", tmp_path / "2025-01-07-to-2025-01-14"
    for folder in (base / "papers", base / "abstracts", step / "abstracts" / "delete", step / "papers" / "update"):
        folder.mkdir(parents=True)
    (base / "papers" / "x.jsonl").write_bytes((SAMPLES / "papers.jsonl").read_bytes())
    (base / "abstracts" / "x.jsonl").write_bytes((SAMPLES / "abstracts.jsonl").read_bytes())
    (step / "abstracts" / "delete" / "d.jsonl").write_text('{"corpusid": 1001}\n')
    (step / "papers" / "update" / "u.jsonl").write_text('{"corpusid": 1002, "title": "Renamed", "authors": []}\n')
    rows = metadata(build, tmp_path)
    assert (rows["s2/1001"]["abstract"], rows["s2/1001"]["year"]) == (None, 2017)
    assert (rows["s2/1002"]["title"], rows["s2/1002"]["authors"]) == ("Renamed", [])
    assert rejected(build, "merge_metadata") == {
        ("filtered", "deleted upstream"): 1,
        ("filtered", "deletion record"): 1,
        ("filtered", "replaced upstream"): 1,
    }


def test_metadata_in_many_ranges_is_the_same(build: Build, tmp_path: Path) -> None:
    with (tmp_path / "papers.jsonl").open("w") as file:
        for number in range(3_000):
            file.write(json.dumps({"corpusid": number % 2_500, "title": f"T{number % 2_500}", "authors": []}) + "\n")
    files = open_release([tmp_path], digest=build.digests)["metadata"]
    items = list(merged(read_s2_metadata(build, files), tmp_path, rows_per_range=100))
    lost = Counter((item.kind, item.reason) for item in items if isinstance(item, Rejected))
    titles = {
        row["paper_id"]: row["title"] for item in items if isinstance(item, pa.RecordBatch) for row in item.to_pylist()
    }
    assert titles == {f"s2/{n}": f"T{n}" for n in range(2_500)}
    assert lost == {("filtered", "duplicate id"): 500}
    assert len(list((tmp_path / "ranges").iterdir())) == 32


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"corpusid": "x", "title": "a"}, "no id"),
        ({"corpusid": 1, "year": 4}, "unknown record shape"),
        ({"paper_id": None, "title": "a"}, "no id"),
        ([], "no JSON object"),
    ],
)
def test_metadata_that_cannot_be_used(build: Build, tmp_path: Path, record: Any, reason: str) -> None:
    good = (SAMPLES / "papers.jsonl").read_text()
    (tmp_path / "papers.jsonl").write_text(good + json.dumps(record) + "\n")
    assert len(metadata(build, tmp_path)) == 4
    assert rejected(build, "read_s2_metadata") == {("defect", reason): 1}


def test_citations_have_ids_of_one_kind(build: Build) -> None:
    rows = list(source.read(build, [SAMPLES / "citations.jsonl"], source.Read())[4])
    assert len(rows) == 10
    assert (rows[1]["paper_id"], rows[1]["cited_id"], rows[1]["contexts"]) == ("s2/1002", "s2/1001", 1)
    assert (rows[0]["citation_id"], rows[0]["cited_id"]) == ("s2/1001-?", None)


@real
def test_real_metadata(build: Build) -> None:
    """Counts of AI2's samples: 100 lines a file, whose ids do not meet; no two papers are versions of one."""
    found = source.read(build, [DATA], source.Read())
    assert [rows.count for rows in found] == [3, 173, 135, 200, 100, 0]
    assert sum(row["abstract"] is not None for row in found[3]) == 100
