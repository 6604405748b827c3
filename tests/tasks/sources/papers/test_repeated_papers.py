"""A paper that several files hold is one row: in papers, in paragraphs, over TEI and PDFs together."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import paths
import pyarrow.parquet as pq
import pytest
from grobid_server import FULLTEXT, grobid, tei
from toy_stages import building

from flows.builds.reading import export
from flows.sources import papers
from longform.artifacts.takedowns import add

KITES = (paths.SAMPLES / "papers" / "kites.tei.xml").read_bytes()
PDF = b"%PDF-1.4 kites over the sea"
FINAL = PDF + b", camera-ready"


def side_of(content: bytes, day: int) -> str:
    facts = {"note": "kIt3s", "decision": "accept_oral", "licence": "CC BY 4.0", "venue": "ICLR 2024 oral"}
    sha256 = hashlib.sha256(content).hexdigest()
    return json.dumps({"retrieved_at": f"2026-11-{day:02d}T08:00:00+00:00", "sha256": sha256, "facts": facts})


def pack(place: Path, *files: tuple[str, bytes, int]) -> None:
    place.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(place, "w") as archive:
        for name, content, day in files:
            archive.writestr(name, content)
            if day:
                archive.writestr(f"{name}.fetch.json", side_of(content, day))


def put(folder: Path, name: str, content: bytes, day: int) -> None:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / name).write_bytes(content)
    (folder / f"{name}.fetch.json").write_text(side_of(content, day))


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Reads tmp_path/in with a GROBID server; file name -> rows of the Parquet that `longform read --to` writes."""

    def read() -> dict[str, list[dict[str, Any]]]:
        with grobid() as server, building(tmp_path / "home") as run:
            server.on(FULLTEXT, tei(KITES))
            tables = papers.read(run, [tmp_path / "in"], papers.Read(grobid=server.url))
            run.finish()
            written = export(tables, run.done, run.store, tmp_path / "out")
            return {place.stem: pq.read_table(place).to_pylist() for place in written}

    return read


def left_out(found: dict[str, list[dict[str, Any]]], name: str = "read_pdfs") -> list[tuple[str, str, str]]:
    return sorted((row["key"], row["reason"], row["detail"]) for row in found[f"{name}.rejected"])


def test_a_pdf_in_two_archives_is_one_paper(tmp_path: Path, read: Any):
    pack(tmp_path / "in" / "a.zip", ("one.pdf", PDF, 0), ("other.pdf", PDF + b" not", 0))
    pack(tmp_path / "in" / "b.zip", ("two.pdf", PDF, 0))
    found, own = read(), f"file/{hashlib.sha256(PDF).hexdigest()[:16]}"
    assert sorted(row["file"] for row in found["read_pdfs"]) == ["one.pdf", "other.pdf"]
    assert left_out(found) == [(own, "repeated paper", "one.pdf is kept")]
    ids = [row["paragraph_id"] for row in found["split_paragraphs"]]
    assert len(ids) == len(set(ids)) > 0


def test_of_two_pdfs_of_one_note_the_one_that_was_fetched_last_is_read(tmp_path: Path, read: Any):
    put(tmp_path / "in" / "x", "final.pdf", FINAL, 24)
    put(tmp_path / "in" / "y", "a.pdf", PDF, 20)
    found = read()
    assert [(row["paper_id"], row["file"]) for row in found["read_pdfs"]] == [("openreview/kIt3s", "final.pdf")]
    assert left_out(found) == [("openreview/kIt3s", "repeated paper", "final.pdf is kept")]
    assert {row["file"] for row in found["split_paragraphs"]} == {"final.pdf"}


def test_the_tei_beside_a_pdf_of_openreview_stands_for_it(tmp_path: Path, read: Any):
    put(tmp_path / "in", "a.pdf", PDF, 20)
    (tmp_path / "in" / "a.tei.xml").write_bytes(KITES)
    found = read()
    assert [(row["paper_id"], row["file"]) for row in found["read_tei"]] == [("openreview/kIt3s", "a.tei.xml")]
    assert found["read_pdfs"] == found["split_paragraphs-2"] == found["find_duplicates"] == []
    assert left_out(found) == [("openreview/kIt3s", "repeated paper", "a.tei.xml is kept")]
    assert {row["decision"] for row in found["split_paragraphs"]} == {"accept_oral"}


def test_a_file_that_is_taken_down_stands_for_no_other(tmp_path: Path, read: Any):
    put(tmp_path / "in" / "x", "final.pdf", FINAL, 24)
    put(tmp_path / "in" / "y", "a.pdf", PDF, 20)
    read()
    add(tmp_path / "home", [(f"file/{hashlib.sha256(FINAL).hexdigest()[:16]}", "2026-11-24", "its author asked")])
    found = read()
    assert [row["file"] for row in found["read_pdfs"]] == ["a.pdf"]
    assert [reason for _, reason, _ in left_out(found)] == ["taken down"]
    assert {row["file"] for row in found["split_paragraphs"]} == {"a.pdf"}
