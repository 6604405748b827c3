"""Commands and addresses printed in docs/look.md work, in their order."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from page_server import served
from pages import commands, page, typed

from flows.inspection.tracing import example_row_id
from longform.artifacts.versions import find

pytestmark = pytest.mark.check

PAGE = page("look")


def test_every_address_of_the_page_answers_and_names_what_it_shows(tmp_path: Path) -> None:
    build, serve = commands(PAGE)
    done = typed(build, tmp_path)
    assert done.returncode == 0, done.stderr
    assert serve == "longform serve --port 8010"
    version = find(tmp_path / "data", "axioms")
    addresses = re.findall(r"^\| `(/[^`]*)`", PAGE, re.MULTILINE)
    assert len(addresses) == 11
    with served(tmp_path / "data") as server:
        for address in addresses:
            for name in (version.name, "latest"):
                path = address.replace("VERSION", name).replace("ID", example_row_id(version))
                assert httpx.get(server.address + path, timeout=60).status_code == 200, path


def test_the_commands_that_the_pages_stand_for_can_be_typed(tmp_path: Path) -> None:
    typed("longform build axioms --limit 12", tmp_path)
    key = example_row_id(find(tmp_path / "data", "axioms"))
    named = re.findall(r"`(longform (?:ls|show|trace|rejects|costs|diff)[^`]*)`", PAGE)
    assert len(named) == 8
    for line in named:
        of = "" if "axioms" in line or line.endswith("ls") else " axioms axioms" if "diff" in line else " axioms"
        done = typed(line.replace("ID", key) + of, tmp_path)
        assert done.returncode == 0, (line, done.stderr)
