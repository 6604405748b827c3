"""The pages of docs/recipes, run from their commands alone against the stand-in that the project ships."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import paths
import pyarrow.parquet as pq
import pytest

from flows.builds import fetching
from flows.cli.sources import CONFERENCES
from longform.standin.sources.papers import Paper, Section
from longform.standin.sources.pdf import pdf_of

pytestmark = pytest.mark.check

RECIPES = sorted((paths.ROOT / "docs" / "recipes").glob("*.md"))
ADDRESS = "http://127.0.0.1:8091"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## ", re.MULTILINE)
OWN_IDS = {"paper_id", "paragraph_id", "post_id", "question_id", "answer_id", "submission_id"}
PROGRAM = str(Path(sys.executable).parent / "longform")


def sections(page: str) -> dict[str, str]:
    """Head -> text of the page's sections."""
    found = (part.partition("\n") for part in SECTION.split(page)[1:])
    return {head: text for head, _, text in found}


def lines_of(text: str, language: str = "") -> list[str]:
    blocks = [block for kind, block in BLOCK.findall(text) if kind == language]
    return [line.split("  #")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


def steps(page: str) -> list[str]:
    """The commands of the numbered sections."""
    return [line for head, text in sections(page).items() if head[0].isdigit() for line in lines_of(text)]


def plain(line: str) -> str:
    """The line with single blanks, and any date as DATE."""
    return re.sub(r"\d{4}-\d\d-\d\d", "DATE", re.sub(r"\s+", " ", line).strip())


@dataclass
class Reader:
    """Types what a page says, in a folder of its own."""

    folder: Path
    url: str
    environment: dict[str, str] = field(default_factory=dict)
    printed: str = ""

    def __post_init__(self) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LONGFORM", "GROBID", "S2_"))}
        path = f"{Path(PROGRAM).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**kept, "PATH": path, "COLUMNS": "300"}

    def types(self, lines: list[str]) -> None:
        for line in lines:
            line = line.replace(ADDRESS, self.url)
            if line.startswith("export "):
                name, _, value = line.removeprefix("export ").partition("=")
                self.environment[name] = value
                continue
            done = self.run(line)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            line, shell=True, cwd=self.folder, env=self.environment, text=True, capture_output=True, timeout=600
        )
        self.printed += done.stdout
        return done

    def python(self, code: str) -> None:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=self.folder,
            env=self.environment,
            text=True,
            capture_output=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{code}\n{done.stderr}"
        self.printed += done.stdout

    def ids(self) -> set[str]:
        """The ids of records in the tables that were read; not those that others cite."""
        found: set[str] = set()
        for path in (self.folder / "out").glob("*.parquet"):
            if ".rejected." not in path.name and path.name != "read_citations.parquet":
                for row in pq.read_table(path).to_pylist():
                    for record in (row, *(row.get("answers") or ())):
                        found |= {str(record[name]) for name in OWN_IDS & record.keys()}
        return found


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    command = [PROGRAM, "standin", "sources", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        first = process.stdout.readline()
        try:
            yield first.split()[2]
        finally:
            process.terminate()
            process.stdout.close()


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_page_gives_its_answer_against_the_stand_in(path: Path, url: str, tmp_path: Path) -> None:
    page = path.read_text()
    reader, parts = Reader(tmp_path, url), sections(page)
    first, *rest = lines_of(parts["Rehearse it"])
    assert first == "longform standin sources"
    reader.types(rest)
    (code,) = [block for language, block in BLOCK.findall(page) if language == "python"]
    reader.python(code)
    printed = {plain(line) for line in reader.printed.splitlines()}
    for line in map(plain, lines_of(parts["Rehearse it"], "text")):
        assert any(said == line or re.fullmatch(re.escape(line) + r" [\d.]+ s", said) for said in printed), (
            f"{line}\n{reader.printed}"
        )
    _takes_down(reader, lines_of(parts["Terms and takedown"]))


KITES, WALKS = "kites.tei.xml", "walks.pdf"


@pytest.mark.parametrize(
    ("names", "printed"),
    [
        ([KITES], "1 papers, 3 related-work paragraphs with 3 citations"),
        ([WALKS], "1 papers, 2 related-work paragraphs with 3 citations"),
        ([KITES, WALKS], "2 papers, 5 related-work paragraphs with 6 citations"),
    ],
)
def test_the_answer_on_own_papers_counts_those_of_both_kinds(names: list[str], printed: str, tmp_path: Path) -> None:
    (tmp_path / "my-papers").mkdir()
    for name in names:
        shutil.copy(paths.SAMPLES / "papers" / name, tmp_path / "my-papers")
    assert printed in _answer_on_own_papers(tmp_path).printed


def test_the_answer_on_own_papers_without_related_work_names_the_heads(tmp_path: Path) -> None:
    (tmp_path / "my-papers").mkdir()
    shutil.copy(paths.SAMPLES / "papers" / "tides.tei.xml", tmp_path / "my-papers")
    printed = _answer_on_own_papers(tmp_path).printed
    assert (
        "1 papers, 0 related-work paragraphs with 0 citations\nNo head names related work. Heads: RESULTS;" in printed
    )


def test_the_answer_on_own_papers_without_heads_says_that_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "my-papers").mkdir()
    paper = Paper("Kettles", (), [], [Section("1", "Boiling", ["Water boils in a kettle."])], [])
    (tmp_path / "my-papers" / "kettles.pdf").write_bytes(pdf_of(paper))
    assert "No head names related work. Heads: none found" in _answer_on_own_papers(tmp_path).printed


def _answer_on_own_papers(folder: Path) -> Reader:
    """Read my-papers in this folder as my-own-pdfs.md does without GROBID, and run the Python of the page."""
    page = (paths.ROOT / "docs" / "recipes" / "my-own-pdfs.md").read_text()
    reader = Reader(folder, ADDRESS)
    reader.types([line for line in steps(page) if line.startswith("longform read")])
    (code,) = [block for language, block in BLOCK.findall(page) if language == "python"]
    reader.python(code)
    return reader


def test_the_answer_on_threads_takes_those_of_the_preset(url: str, tmp_path: Path) -> None:
    page = (paths.ROOT / "docs" / "recipes" / "eli5-threads.md").read_text()
    reader = Reader(tmp_path, url)
    fetch, read, *_ = lines_of(sections(page)["Rehearse it"])[1:]
    (setting,) = re.findall(r"`(--set first_month[^`]+)`", page)
    (code,) = [block for language, block in BLOCK.findall(page) if language == "python"]
    reader.types([fetch, f"{read} {setting}"])
    assert not (tmp_path / "out" / "join_reddit.parquet").exists()
    reader.python(code)
    assert "4 questions, 14 comments, 8 of them top-level answers" in reader.printed
    reader.types([f"{read} {setting.replace('2023', '2022')}"])
    reader.python(code)
    assert "\n0 questions, 0 comments, 0 of them top-level answers" in reader.printed


def _takes_down(reader: Reader, lines: list[str]) -> None:
    """Type the commands of the last section; what they name is in no table afterwards."""
    named = [word for line in lines if " takedowns add " in line for word in shlex.split(line)[3:] if "/" in word]
    before = reader.ids()
    assert not named or set(named) & before
    reader.types(lines)
    after = reader.ids()
    assert not set(named) & after
    assert len(after) < len(before)
    left_out = [
        row["key"]
        for path in (reader.folder / "out").glob("*.rejected.parquet")
        for row in pq.read_table(path).to_pylist()
        if row["reason"] == "taken down"
    ]
    assert set(named) <= set(left_out)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_steps_are_the_rehearsal_with_other_addresses(path: Path) -> None:
    page = path.read_text()
    rehearsed = iter([shlex.split(line)[:3] for line in lines_of(sections(page)["Rehearse it"])])
    own = [line for line in steps(page) if line.startswith("longform ")]
    assert own
    assert all(shlex.split(line)[:3] in rehearsed for line in own), "in their order"


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_settings_and_links_of_a_page_exist(path: Path) -> None:
    page = path.read_text()
    for line in [*steps(page), *re.findall(r"`(longform (?:fetch|read) [^`]+)`", page)]:
        if line.startswith(("longform fetch", "longform read")):
            _, act, source, *words = shlex.split(line)
            settings = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
            fetching.config_of(CONFERENCES.get(source, source), "fetch" if act == "fetch" else "read", settings)
    for target in re.findall(r"\]\(([^)#]+)\)", page):
        assert (path.parent / target).exists(), target
    for language, block in BLOCK.findall(page):
        if language == "python":
            ast.parse(block)


def test_every_page_has_the_same_parts_and_is_linked() -> None:
    names = {path.name for path in RECIPES}
    expected = {"iclr-related-work", "eli5-threads", "stackexchange-site", "s2orc-slice", "my-own-pdfs"}
    assert names == {f"{name}.md" for name in expected}
    for page in ("README.md", "docs/sources.md"):
        text = (paths.ROOT / page).read_text()
        assert all(f"recipes/{name})" in text for name in names), page
    for path in RECIPES:
        heads = sections(path.read_text())
        assert {"Rehearse it", "When it fails", "Terms and takedown"} <= set(heads), path.name
