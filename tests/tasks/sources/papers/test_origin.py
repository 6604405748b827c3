"""One identity from a fetch to a row: a PDF of OpenReview is its submission, wherever its file lies."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import paths
import pytest
from grobid_server import FULLTEXT, grobid, tei
from toy_stages import building

from flows.sources import papers
from longform.artifacts.rows import Row
from tasks.sources.files.bundles import Member
from tasks.sources.papers.origin import completed, file_name, paper_id_of

KITES = (paths.SAMPLES / "papers" / "kites.tei.xml").read_bytes()
PDF = b"%PDF-1.4 kites over the sea"
FACTS: dict[str, Any] = {
    "note": "kIt3s_0ver-Sea",
    "decision": "accept_spotlight",
    "title": "Kites over the Sea",
    "abstract": "We fly kites.",
    "authors": ["Ada Aloft", "Ben Breeze"],
    "author_ids": ["~Ada_Aloft1", "~Ben_Breeze2"],
    "venue": "ICLR 2024 spotlight",
    "year": 2024,
    "licence": "CC BY 4.0",
    "site_path": "/pdf/aa.pdf",
}


def side_of(content: bytes, **facts: Any) -> bytes:
    known = {"url": "https://api2.openreview.net/pdf", "retrieved_at": "2026-11-20T08:00:00+00:00"}
    sha256 = hashlib.sha256(content).hexdigest()
    return json.dumps({**known, "bytes": len(content), "sha256": sha256, "facts": {**FACTS, **facts}}).encode()


def read(tmp_path: Path, place: Path, **settings: Any) -> tuple[list[Row], list[Row]]:
    """(papers, paragraphs) that a GROBID server makes of a folder, file or archive."""
    with grobid() as server, building(tmp_path / "home") as run:
        server.on(FULLTEXT, tei(KITES))
        found = papers.read(run, [place], papers.Read(grobid=server.url, **settings))
        return list(found[0]), list(found[1])


def folder(tmp_path: Path, side: bytes | None) -> Path:
    place = tmp_path / "pdfs"
    place.mkdir(exist_ok=True)
    (place / "a.pdf").write_bytes(PDF)
    if side:
        (place / "a.pdf.fetch.json").write_bytes(side)
    return place


# ---------------------------------------------------------------- the row


def test_a_pdf_of_openreview_is_its_submission_in_papers_and_paragraphs(tmp_path: Path):
    ((row,), paragraphs) = read(tmp_path, folder(tmp_path, side_of(PDF)))
    assert row["paper_id"] == "openreview/kIt3s_0ver-Sea"
    assert row["note_id"] == "kIt3s_0ver-Sea"
    for name in ("decision", "title", "abstract", "authors", "author_ids", "venue", "year", "licence"):
        assert row[name] == FACTS[name], name
    assert row["url"] == "https://openreview.net/forum?id=kIt3s_0ver-Sea"
    assert (row["file"], row["file_sha256"]) == ("a.pdf", hashlib.sha256(PDF).hexdigest())
    assert f"{row['retrieved_at']:%Y-%m-%d %H}" == "2026-11-20 08"
    assert row["parser"] == "grobid 0.8.2"
    for paragraph in paragraphs:
        assert paragraph["paragraph_id"].startswith("openreview/kIt3s_0ver-Sea#")
        of_paper = {name: paragraph[name] for name in ("note_id", "decision", "venue", "licence", "url", "file")}
        assert of_paper == {name: row[name] for name in of_paper}


def test_a_pdf_of_ones_own_is_a_file(tmp_path: Path):
    ((row,), _) = read(tmp_path, folder(tmp_path, None), licence="CC0")
    digest = hashlib.sha256(PDF).hexdigest()
    assert (row["paper_id"], row["file"], row["file_sha256"]) == (f"file/{digest[:16]}", "a.pdf", digest)
    assert (row["note_id"], row["decision"], row["author_ids"]) == (None, None, [])
    assert row["title"] == "How Long a Tail Does a Kite Need?"


@pytest.mark.parametrize("ending", [".zip", ".tar", ".tar.gz"])
@pytest.mark.parametrize("side_first", [False, True])
def test_a_side_file_in_an_archive_counts(tmp_path: Path, ending: str, side_first: bool):
    held = [("x/a.pdf", PDF), ("x/a.pdf.fetch.json", side_of(PDF)), ("x/b.pdf", PDF + b" b")]
    place = tmp_path / f"pdfs{ending}"
    pack(place, held[1::-1] + held[2:] if side_first else held)
    rows, _ = read(tmp_path, place)
    assert sorted(row["paper_id"][:11] for row in rows) == [
        "file/" + hashlib.sha256(PDF + b" b").hexdigest()[:6],
        "openreview/",
    ]
    assert {row["file"] for row in rows} == {"a.pdf", "b.pdf"}


def pack(place: Path, held: list[tuple[str, bytes]]) -> None:
    if place.suffix == ".zip":
        with zipfile.ZipFile(place, "w") as archive:
            for name, content in held:
                archive.writestr(name, content)
        return
    with tarfile.open(place, "w:gz" if place.suffix == ".gz" else "w") as archive:
        for name, content in held:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def test_tei_made_of_a_fetched_pdf_is_the_submission(tmp_path: Path):
    place = tmp_path / "tei"
    place.mkdir()
    (place / "a.grobid.tei.xml").write_bytes(KITES)
    (place / "a.pdf.fetch.json").write_bytes(side_of(PDF))
    ((row,), _) = read(tmp_path, place)
    assert (row["paper_id"], row["decision"]) == ("openreview/kIt3s_0ver-Sea", "accept_spotlight")


def test_a_decision_that_comes_later_is_read(tmp_path: Path):
    place = folder(tmp_path, side_of(PDF, decision="unknown", venue="Submitted to ICLR 2024"))
    ((before,), _) = read(tmp_path, place)
    ((after,), _) = read(tmp_path, folder(tmp_path, side_of(PDF)))
    assert (before["decision"], after["decision"]) == ("unknown", "accept_spotlight")


# ---------------------------------------------------------------- what cannot be trusted


@pytest.mark.parametrize(
    "side",
    [
        b"",
        b"{",
        b"[]",
        b'{"facts": 7}',
        b"[" * 100_000,
        side_of(PDF, note="../../etc"),
        side_of(PDF, note=7),
        side_of(b"another PDF"),
    ],
)
def test_a_side_file_that_is_none_leaves_the_file_a_file(side: bytes):
    assert paper_id_of(member(side)).startswith("file/")


def test_odd_values_of_a_side_file_are_left_out():
    odd = {"decision": "accept_bribe", "authors": [7, "", {"a": 1}], "title": ["x"], "year": "2024", "licence": 5}
    row = completed(parsed(), member(side_of(PDF, **odd)), "CC0")
    assert row["paper_id"] == "openreview/kIt3s_0ver-Sea"
    assert (row["decision"], row["authors"], row["author_ids"]) == (None, ["Parsed"], [])
    assert (row["title"], row["year"], row["licence"]) == ("As parsed", 1999, "CC0")


def test_what_the_note_leaves_open_is_as_the_parser_read_it():
    row = completed(parsed(), member(side_of(PDF, title=None, authors=[], licence=None)), None)
    assert (row["title"], row["authors"], row["licence"]) == ("As parsed", ["Parsed"], None)
    assert row["venue"] == "ICLR 2024 spotlight"


def test_names_of_files_are_labels():
    assert file_name("/home/me/x\\..\\a\nb.pdf") == "a b.pdf"
    assert file_name("a\udce4.pdf") == "a?.pdf"


def member(side: bytes) -> Member:
    return Member("a.pdf", hashlib.sha256(PDF).hexdigest(), PDF, None, notes=side.decode())


def parsed() -> Row:
    return {"title": "As parsed", "authors": ["Parsed"], "year": 1999, "venue": None, "licence": None, "url": None}


@pytest.mark.parametrize("when", ["yesterday", "99999-01-01", 5, None, ["2024-01-01"]])
def test_a_time_that_is_none_costs_the_time_only(tmp_path: Path, when: Any):
    side = json.dumps({**json.loads(side_of(PDF)), "retrieved_at": when}).encode()
    ((row,), _) = read(tmp_path, folder(tmp_path, side))
    assert (row["note_id"], row["retrieved_at"]) == (FACTS["note"], None)


def test_a_pipe_in_place_of_a_side_file_holds_nobody_up(tmp_path: Path):
    place = folder(tmp_path, None)
    os.mkfifo(place / "a.pdf.fetch.json")
    ((row,), _) = read(tmp_path, place)
    assert row["note_id"] is None


@pytest.mark.parametrize("note", ["../../etc/passwd", "<b>x</b>", "a\nb", "", 7])
def test_of_a_side_file_with_an_ill_formed_note_no_fact_is_used(tmp_path: Path, note: Any):
    ((row,), _) = read(tmp_path, folder(tmp_path, side_of(PDF, note=note)))
    assert {**row, "retrieved_at": None} == without_side_file(tmp_path)


def test_of_a_side_file_of_another_pdf_nothing_is_used(tmp_path: Path):
    ((row,), _) = read(tmp_path, folder(tmp_path, side_of(PDF + b"another")))
    assert row == without_side_file(tmp_path)


def without_side_file(tmp_path: Path) -> Row:
    (tmp_path / "plain").mkdir()
    ((row,), _) = read(tmp_path / "plain", folder(tmp_path / "plain", None))
    return row


@pytest.mark.parametrize("url", ["http://u:p@host.example/x", "https://host.example/x\nSet: y", "file:///etc/passwd"])
def test_an_address_with_a_login_or_a_line_break_is_none_and_no_text_steers_a_terminal(url: str):
    side = json.dumps({**json.loads(side_of(PDF)), "url": url, "facts": {"venue": "A \x1b[31mvenue"}})
    member = Member("a.pdf", hashlib.sha256(PDF).hexdigest(), PDF, None, notes=side)
    row = completed({"url": None, "licence": None}, member, None)
    assert (row["url"], row["venue"]) == (None, "A  [31mvenue")
