"""Commands printed on the pages about sources: their sources, settings and terms exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import paths
import pytest

from flows.builds import fetching
from flows.cli.sources import CONFERENCES
from flows.sources import SOURCES

DOCS = paths.ROOT / "docs"
PAGES = ("sources.md", "grobid.md", "search.md", "data-policy.md")
COMMAND = re.compile(r"(?:^|`)(longform (?:fetch|read) [^`\n#]+)", re.MULTILINE)
COMMANDS = sorted({found.strip() for page in PAGES for found in COMMAND.findall((DOCS / page).read_text())})


def settings(words: list[str]) -> list[str]:
    return [words[place + 1] for place, word in enumerate(words) if word == "--set"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_printed_command_is_taken(command: str) -> None:
    _, act, source, *words = shlex.split(command)
    if source == "SOURCE":
        return
    source = CONFERENCES.get(source, source)
    fetching.config_of(source, "read" if act == "read" else "fetch", settings(words))
    if act == "fetch":
        fetching.check_terms(source, "--accept-terms" in words, command)


def test_the_table_has_every_source_and_no_other() -> None:
    table = re.findall(r"^\| `(\w+)` \|", (DOCS / "sources.md").read_text(), re.MULTILINE)
    assert sorted(table) == sorted(SOURCES)
    assert {shlex.split(command)[2] for command in COMMANDS} >= set(SOURCES)


def test_the_samples_are_read_by_the_printed_command(tmp_path: Path) -> None:
    samples = paths.SAMPLES
    line = next(command for command in COMMANDS if command.startswith("longform read stackexchange"))
    line = line.replace("data/sources/stackexchange", str(samples / "community.example"))
    words = [str(Path(sys.executable).parent / "longform"), *shlex.split(line)[1:], "--home", str(tmp_path / "home")]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"read_posts.parquet", "join_threads.parquet"}
