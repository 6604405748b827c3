"""A paper is taken down by any of its names, and is gone from every table: from a PDF to the published version."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paths
import pyarrow.parquet as pq
import pytest
from axioms_builds import Silent
from grobid_server import FULLTEXT, form_of, grobid, tei
from http_server import Answer, Asked, Server

from flows.builds.building import Options, build
from flows.revision_distance import ABOUT, RevisionDistanceConfig
from longform.artifacts.versions import Version
from longform.engine.build import Build
from longform.engine.thread_tasks import SequentialStages

LONGFORM = str(Path(sys.executable).with_name("longform"))
READ = ("read_pdfs", "read_tei", "read_metadata", "gather_papers")  # what was read, before anything is left out
WORDS = " ".join(["winds over the sea carry kites further than anyone measured before"] * 6)
IDS = {"alpha": "noteAlpha_1", "beta": "noteBeta_2", "gamma": "noteGamma_3"}
AUTHORS = {"alpha": "Ada  Aloft", "beta": "Ben Breeze", "gamma": "Cy Cirrus"}
CITES = {"alpha": ("x", "y"), "beta": ("x", "y", "alpha"), "gamma": ("x", "y")}
TITLES = {"x": "Strings that do not tangle", "y": "Knots for the impatient", "alpha": "Kites as a means of transport"}


def pdf_of(name: str) -> bytes:
    return b"%%PDF-1.4 %s" % name.encode()


def sha256_of(name: str) -> str:
    return hashlib.sha256(pdf_of(name)).hexdigest()


def tei_of(name: str) -> bytes:
    """The TEI of a paper whose texts say its name; its related work cites others by their titles."""
    refs = " ".join(f'<ref type="bibr" target="#b{n}">[{n}]</ref>' for n, _ in enumerate(CITES[name]))
    entries = "".join(
        f'<biblStruct xml:id="b{n}"><analytic><title level="a" type="main">{TITLES[one]}</title></analytic>'
        f'<monogr><imprint><date type="published" when="2020"/></imprint></monogr></biblStruct>'
        for n, one in enumerate(CITES[name])
    )
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><fileDesc>
<titleStmt><title level="a" type="main">parsed title of {name}</title></titleStmt>
<sourceDesc><biblStruct><analytic/><monogr/><idno type="DOI">10.5555/{name.upper()}</idno>
<idno type="arXiv">arXiv:2401.0000{list(IDS).index(name)}v2</idno></biblStruct></sourceDesc></fileDesc>
<profileDesc><abstract><p>abstract-of-{name} says little.</p></abstract></profileDesc></teiHeader>
<text><body><div><head n="1">Introduction</head><p>intro-of-{name} flies.</p></div>
<div><head n="2">Related Work</head><p>related-of-{name} {WORDS} {refs}.</p></div></body>
<back><div type="references"><listBibl>{entries}</listBibl></div></back></text></TEI>""".encode()


def parsed(asked: Asked) -> Answer:
    return tei(tei_of(form_of(asked)["input"].split()[-1].decode()))


def sources(folder: Path) -> None:
    """Three fetched PDFs with their side files, and metadata of what they cite."""
    (folder / "pdfs").mkdir(parents=True)
    for name, note in IDS.items():
        file = folder / "pdfs" / f"{note}.pdf"
        file.write_bytes(pdf_of(name))
        facts = {
            "note": note,
            "decision": "accept_poster",
            "title": TITLES.get(name, f"title-of-{name}"),
            "abstract": f"abstract-of-{name} by its note.",
            "authors": [AUTHORS[name]],
            "author_ids": [f"~{AUTHORS[name].replace('  ', '_').replace(' ', '_')}1"],
            "venue": "ICLR 2024 poster",
            "year": 2024,
            "licence": "CC BY 4.0",
        }
        side = {"url": "https://api2.openreview.net/pdf", "retrieved_at": "2026-11-20", "sha256": sha256_of(name)}
        file.with_name(f"{file.name}.fetch.json").write_text(json.dumps({**side, "facts": facts}))
    known = [{"title": TITLES[one], "abstract": f"What {one} is about.", "corpusId": ord(one)} for one in "xy"]
    known += [
        {"title": TITLES["alpha"], "abstract": "abstract-of-alpha elsewhere", "corpusId": 777, "doi": "10.5555/alpha"}
    ]
    (folder / "cited.jsonl").write_text("".join(json.dumps(one) + "\n" for one in known))


def make(home: Path, folder: Path, version: str) -> tuple[Version, Build]:
    config = RevisionDistanceConfig(
        wildchat=[],
        ultrafeedback=[],
        structure=[],
        papers=str(folder / "pdfs"),
        papers_source="files",
        metadata=str(folder / "cited.jsonl"),
    )
    published, run = build(ABOUT.dataset, config, Options(home, version), tasks=SequentialStages(), progress=Silent())
    assert published is not None
    return published.version, run


@dataclass(frozen=True)
class Built:
    home: Path
    folder: Path
    server: Server
    rows: dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    place = tmp_path_factory.mktemp("papers")
    sources(place / "in")
    with grobid() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GROBID_URL", server.url)
        server.on(FULLTEXT, parsed)
        version, run = make(place / "home", place / "in", "v1")
        yield Built(place / "home", place / "in", server, tables(version, run))


def tables(version: Version, run: Build) -> dict[str, list[dict[str, Any]]]:
    """Stage or published file -> its rows, of all tables that stand after a build but those that were only read."""
    found = {
        entry.stage: [
            row for part in entry.artifact.parts for row in pq.read_table(run.store.rows_path(part)).to_pylist()
        ]
        for entry in run.done
        if entry.stage not in READ
    }
    for file in sorted(version.folder.rglob("*.parquet")):
        found[str(file.relative_to(version.folder))] = pq.read_table(file).to_pylist()
    return found


def holding(rows: dict[str, list[dict[str, Any]]], *words: str) -> dict[str, int]:
    """Table -> how many of its rows hold one of the words, of tables that hold some."""
    told = {name: [json.dumps(row, default=str) for row in found] for name, found in rows.items()}
    counts = {name: sum(any(word in row for word in words) for row in found) for name, found in told.items()}
    return {name: number for name, number in counts.items() if number}


def names_of(name: str) -> list[str]:
    """The texts and ids of a paper; not the title, which papers that cite it print."""
    return [
        f"related-of-{name}",
        f"intro-of-{name}",
        f"abstract-of-{name}",
        IDS[name],
        f"10.5555/{name}",
        sha256_of(name)[:16],
        AUTHORS[name],
    ]


# ---------------------------------------------------------------- the way there


def test_a_fetched_pdf_reaches_published_rows_under_its_note_with_its_decision(built: Built):
    drafts = built.rows["publish_drafts"]
    alpha = [row for row in drafts if row["source_id"] == "openreview/noteAlpha_1"]
    assert {row["system"] for row in alpha} == {"vanilla", "cot"}
    for row in alpha:
        assert (row["note_id"], row["decision"], row["venue"]) == ("noteAlpha_1", "accept_poster", "ICLR 2024 poster")
        assert (row["file"], row["licence"]) == ("noteAlpha_1.pdf", "CC BY 4.0")
        assert row["url"] == "https://openreview.net/forum?id=noteAlpha_1"
    for stage in ("related_paragraphs", "find_cited", "draw_candidates", "take_cases", "name_sources"):
        own = [row for row in built.rows[stage] if row["note_id"] == "noteAlpha_1"]
        assert own, stage
        assert {(row["decision"], row["file"]) for row in own} == {("accept_poster", "noteAlpha_1.pdf")}, stage


# ---------------------------------------------------------------- takedowns

GIVEN = {
    "note": "noteAlpha_1",
    "id": "openreview/noteAlpha_1",
    "forum": "https://openreview.net/forum?id=noteAlpha_1",
    "doi": "https://doi.org/10.5555/Alpha",
    "corpus id": "CorpusID:777",
    "file name": "noteAlpha_1.pdf",
    "hash": sha256_of("alpha"),
    "author": "ada aloft",
    "author id": "~Ada_Aloft1",
}


@pytest.mark.parametrize("kind", GIVEN)
def test_a_paper_taken_down_by_any_name_is_in_no_table_and_no_parser_result(built: Built, tmp_path: Path, kind: str):
    home = tmp_path / "home"
    shutil.copytree(built.home, home)
    assert holding(built.rows, *names_of("alpha"))
    added = typed(home, GIVEN[kind])
    assert {"openreview/noteAlpha_1", "s2/777", "doi/10.5555/alpha", f"sha256/{sha256_of('alpha')}"} <= {
        entry["id"] for entry in added["added"]
    }
    assert added["parsed"] == 1
    assert [version["version"] for version in added["versions"]] == ["v1"]
    version, run = make(home, built.folder, "v2")
    rows = tables(version, run)
    assert holding(rows, *names_of("alpha")) == {}
    same = built.rows.keys() - {"find_duplicates"}  # admission is a stage more, and pairs with the paper are gone
    others, before = ({name: each[name] for name in same} for each in (rows, built.rows))
    assert holding(others, *names_of("gamma")) == holding(before, *names_of("gamma"))
    assert [row for row in rows["take_cases"] if "noteGamma_3" in row["case_id"]] == [
        row for row in built.rows["take_cases"] if "noteGamma_3" in row["case_id"]
    ]
    held = {path.name[:64] for path in home.glob("parsed/*/*.gz")}
    assert held == {sha256_of("beta"), sha256_of("gamma")}


def test_what_is_read_again_after_a_takedown_is_not_kept_by_the_parser(built: Built, tmp_path: Path):
    home = tmp_path / "home"
    shutil.copytree(built.home, home)
    typed(home, "noteAlpha_1")
    shutil.rmtree(home / "stages")
    version, run = make(home, built.folder, "v2")
    assert holding(tables(version, run), *names_of("alpha")) == {}
    assert not list(home.glob(f"parsed/*/{sha256_of('alpha')}*"))


def test_a_name_that_no_paper_has_is_an_error_that_says_what_to_give(built: Built):
    done = run_typed(built.home, "Nobody Known")
    assert done.returncode == 2
    assert "author/<name or id>" in " ".join(done.stderr.split())


def typed(home: Path, *names: str) -> dict[str, Any]:
    done = run_typed(home, *names)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def run_typed(home: Path, *names: str) -> subprocess.CompletedProcess[str]:
    command = [LONGFORM, "takedowns", "add", *names, "--reason", "asked", "--json", "--home", str(home)]
    environment = {**os.environ, "PYTHONPATH": paths.PYTHONPATH}
    return subprocess.run(command, env=environment, text=True, capture_output=True, timeout=600)
