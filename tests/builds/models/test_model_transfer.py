"""A dataset is rebuilt elsewhere from its exported responses, without a call and byte by byte; what is asked again."""

from __future__ import annotations

import re
import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paths
import pytest
from axioms_builds import build_axioms
from old_responses import FORMAT_1
from standin_server import Server, serve

from benchmarks.make_dump import write_dump
from flows.axioms import SAMPLES
from flows.cli.shared.responses import export, load
from longform.artifacts.versions import Version
from longform.llm.responses.records import TOMBSTONE
from longform.llm.responses.store import open_responses
from longform.settings import responses

pytestmark = pytest.mark.check

PROMPTS = paths.ROOT / "prompts" / "axioms"
FAULTS = {"length": 0.05, "refusal": 0.03, "filtered": 0.03, "context": 0.05, "empty": 0.05, "whitespace": 0.03}
TASKS = {"open_book", "closed_book", "corrupt", "combine"}


def setting(server: Server, **more: Any) -> dict[str, Any]:
    price = {"input": 1.0, "output": 2.0}
    endpoint = {"base_url": server.url, "model": "m", "capabilities": ["json_schema"], "price": price}
    many = {"ceilings": dict.fromkeys(("refused", "cut_off", "unreadable", "not_taken"), 0.5)}  # of 33, by chance
    return {"model": "mine", "endpoints": {"mine": endpoint}, "msmarco": [], **many, **more}


def build(home: Path, server: Server, **more: Any) -> Version | None:
    return build_axioms(home, **setting(server, **more))[0]


def files(version: Version) -> dict[str, bytes]:
    return {str(p.relative_to(version.folder)): p.read_bytes() for p in version.folder.rglob("*") if p.is_file()}


def tasks(home: Path) -> Counter[str]:
    """task -> number of stored responses."""
    with closing(open_responses(responses(home), read_only=True)) as store:
        return Counter({row["task"].split("/")[1]: row["answers"] + row["errors"] for row in store.stats()})


def asked(server: Server) -> int:
    return sum(n for name, n in server.counters()["requests"].items() if name.startswith("POST"))


@dataclass(frozen=True)
class Origin:
    home: Path
    version: Version
    export: Path
    rows: int


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Origin:
    """A build with cut-off, empty and refused replies, and its exported responses."""
    folder = tmp_path_factory.mktemp("origin")
    with serve(faults=FAULTS, seed=3) as server:
        version = build(folder / "home", server)
    assert version is not None
    done = export(folder / "home", folder / "responses.parquet", version)
    assert done.missing == 0
    return Origin(folder / "home", version, folder / "responses.parquet", done.rows)


@pytest.fixture
def watched() -> Iterator[Server]:
    """A server that should get no request, and whose replies would differ from the first server's."""
    with serve(say="something else\n=====") as server:
        yield server
        assert asked(server) == 0


def test_the_origin_met_what_it_should(origin: Origin) -> None:
    with closing(open_responses(responses(origin.home), read_only=True)) as store:
        records = [record for _, record in store.scan()]
    finishes = Counter(record.finish for record in records)
    assert finishes["length"] >= 3
    assert finishes["content_filter"] >= 1
    assert sum(record.state == TOMBSTONE for record in records) >= 3
    assert origin.rows == len(records)


def test_imported_into_an_empty_home_it_is_rebuilt_without_a_call_to_the_byte(
    origin: Origin, watched: Server, tmp_path: Path
) -> None:
    assert load(tmp_path, origin.export) == (origin.rows, 0)
    version = build(tmp_path, watched)
    assert version is not None
    assert files(version) == files(origin.version)


def test_the_same_through_postgresql_and_back(
    origin: Origin, watched: Server, tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGFORM_RESPONSES", postgres_url)
    assert load(tmp_path, origin.export) == (origin.rows, 0)
    version = build(tmp_path, watched)
    assert version is not None
    assert files(version) == files(origin.version)
    export(tmp_path, tmp_path / "again.parquet", version)
    assert (tmp_path / "again.parquet").read_bytes() == origin.export.read_bytes()


def test_built_on_postgresql_it_travels_to_sqlite(
    watched: Server, tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGFORM_RESPONSES", postgres_url)
    with serve(faults=FAULTS, seed=4) as server:
        first = build(tmp_path / "first", server)
    assert first is not None
    rows = export(tmp_path / "first", tmp_path / "r.parquet", first).rows
    monkeypatch.delenv("LONGFORM_RESPONSES")
    assert load(tmp_path / "second", tmp_path / "r.parquet") == (rows, 0)
    second = build(tmp_path / "second", watched)
    assert second is not None
    assert files(second) == files(first)


def test_a_store_that_the_first_release_wrote_serves_todays_build(
    origin: Origin, watched: Server, tmp_path: Path
) -> None:
    first_release(origin.home, responses(tmp_path))
    version = build(tmp_path, watched)
    assert version is not None
    assert files(version) == files(origin.version)


def first_release(home: Path, path: Path | str) -> None:
    """The responses of a home as a file of the first release: format 1, all columns compressed."""
    Path(path).parent.mkdir(parents=True)
    columns = "created, endpoint, model, task, prompt, state, code, finish, served_model, ptok, ctok, request, body"
    with (
        closing(open_responses(responses(home), read_only=True)) as store,
        closing(sqlite3.connect(path)) as database,
    ):
        database.executescript(FORMAT_1)
        for key, r in store.scan():
            expected_message = (
                r.created,
                r.endpoint,
                r.model,
                r.task,
                r.prompt,
                r.state,
                r.code,
                r.finish,
                r.served_model,
            )
            packed = (zlib.compress(r.request, 1), zlib.compress(r.body, 1))
            row = (bytes.fromhex(key), *expected_message, r.input_tokens, r.output_tokens, *packed)
            database.execute(f"INSERT INTO response(key, {columns}) VALUES ({', '.join('?' * 14)})", row)
        database.commit()


@pytest.mark.parametrize("changed", sorted(TASKS))
def test_where_only_the_system_prompt_of_a_stage_changes_its_calls_are_made_again_and_no_other(
    changed: str, tmp_path: Path
) -> None:
    with serve() as server:
        build(tmp_path / "home", server)
        before, sent = tasks(tmp_path / "home"), asked(server)
        assert set(before) == TASKS
        other_wording(tmp_path / "mine" / "axioms", changed)
        version = build(tmp_path / "home", server, version="v2", prompts=str(tmp_path / "mine"))
        assert version is not None
        assert tasks(tmp_path / "home") - before == {changed: before[changed]}
        assert asked(server) - sent == before[changed]


def other_wording(folder: Path, name: str) -> None:
    """A folder of prompts with one more word in a system prompt."""
    written = (PROMPTS / f"{name}.md").read_text()
    folder.mkdir(parents=True)
    (folder / f"{name}.md").write_text(written.replace("# system\n", "# system\nAttention. ", 1))


def test_where_one_question_changes_one_closed_book_call_is_made(tmp_path: Path) -> None:
    assert changed_calls(SAMPLES / "Posts.xml", tmp_path) == 1


@pytest.mark.soak
def test_where_one_of_ten_thousand_questions_changes_one_closed_book_call_is_made(tmp_path: Path) -> None:
    write_dump(tmp_path / "tea.example" / "Posts.xml", 65_000_000, seed=9)
    calls = changed_calls(tmp_path / "tea.example" / "Posts.xml", tmp_path, least=10_000)
    print(f"one row of more than 10,000 changed: {calls} call")
    assert calls == 1


def changed_calls(dump: Path, folder: Path, least: int = 20) -> int:
    """The number of calls after one question with a closed-book answer got another word; of at least `least`
    questions.
    """
    path = folder / "community.example" / "Posts.xml"
    path.parent.mkdir()
    path.write_bytes(dump.read_bytes())
    stages = {"answer_open_book": {"model": "offline"}}
    with serve() as server:
        wanted = {"dump": str(path.parent), "stages": stages, "until": "answer_closed_book"}
        build(folder / "home", server, **wanted)
        sent = asked(server)
        assert sent == tasks(folder / "home")["closed_book"] >= least
        path.write_bytes(with_a_word_more(path.read_bytes(), a_question(folder / "home")))
        build(folder / "home", server, **wanted)
        assert tasks(folder / "home")["closed_book"] == asked(server)
        return asked(server) - sent


def a_question(home: Path) -> bytes:
    """The number of a question that was asked."""
    import pyarrow.parquet as pq

    rows = sorted(home.glob("stages/answer_closed_book/parts/*/rows.parquet"))
    return str(pq.read_table(rows[0])["question_id"][0].as_py()).rpartition("/")[2].encode()


def with_a_word_more(dump: bytes, question: bytes) -> bytes:
    made, times = re.subn(rb'(<row Id="%s" [^>]*?Body="[^"]*)"' % question, rb'\1 Indeed."', dump)
    assert times == 1
    return made
