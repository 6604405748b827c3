"""CommitPackFT's lines as commits: what is kept, what is left out and why."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import paths
import pytest
from axioms_builds import Silent
from hypothesis import given
from hypothesis import strategies as st

from flows.sources.commitpackft import Fetch, Read, fetch, read
from longform.artifacts.rows import Rejected
from longform.artifacts.store import Store
from longform.engine.build import Build
from longform.engine.runners import ThreadRunner
from longform.engine.thread_tasks import SequentialStages
from longform.errors import SourceError, UsageError
from longform.llm.models import Models
from longform.net.download import Downloader
from tasks.sources.released.commitpackft import parse_commits, permalink, repositories

SAMPLES = paths.SAMPLES / "commitpackft"
COMMIT = {
    "commit": "0123456789abcdef0123456789abcdef01234567",
    "old_file": "tea/pot.py",
    "new_file": "tea/pot.py",
    "old_contents": "n = 1\n",
    "new_contents": "n = 2\n",
    "subject": "Make room for a second cup",
    "message": "Make room for a second cup\n\nOf tea.\n",
    "lang": "Python",
    "license": "mit",
    "repos": "ann/tea,bea/tea,ann/tea",
}


def parsed(*records: Any) -> tuple[list[dict[str, Any]], list[Rejected]]:
    rows: list[dict[str, Any]] = []
    rejected: list[Rejected] = []
    lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in records]
    for item in parse_commits(lines, None):
        if isinstance(item, Rejected):
            rejected.append(item)
        else:
            item.validate(full=True)
            rows.extend(item.to_pylist())
    return rows, rejected


def test_a_line_becomes_a_commit():
    rows, rejected = parsed(COMMIT)
    assert rejected == []
    assert rows == [
        {
            "commit_id": "commitpackft/0123456789abcdef0123456789abcdef01234567/tea/pot.py",
            "commit": "0123456789abcdef0123456789abcdef01234567",
            "language": "Python",
            "old_file": "tea/pot.py",
            "new_file": "tea/pot.py",
            "old_contents": "n = 1\n",
            "new_contents": "n = 2\n",
            "subject": "Make room for a second cup",
            "message": "Make room for a second cup\n\nOf tea.\n",
            "repos": ["ann/tea", "bea/tea"],
            "licence": "mit",
            "url": "https://github.com/ann/tea/commit/0123456789abcdef0123456789abcdef01234567",
            "retrieved_at": None,
        }
    ]


def test_every_line_is_accounted_for():
    records = [
        COMMIT,
        COMMIT,
        {**COMMIT, "new_file": "tea/cup.py"},
        {**COMMIT, "new_file": "made.py", "old_contents": ""},
        {**COMMIT, "new_file": "gone.py", "new_contents": ""},
        {**COMMIT, "new_file": "same.py", "old_contents": "n = 2\n"},
        {**COMMIT, "commit": "main"},
        {**COMMIT, "commit": None},
        {**COMMIT, "lang": 3},
        {name: value for name, value in COMMIT.items() if name != "repos"},
        {**COMMIT, "new_file": ""},
        b'{"commit": ',
        b"[]",
        b"",
    ]
    rows, rejected = parsed(*records)
    assert [row["new_file"] for row in rows] == ["tea/pot.py", "tea/cup.py", "made.py"]
    assert [(one.kind, one.reason) for one in rejected] == [
        ("filtered", "commit and file seen before"),
        ("defect", "no contents after the commit"),
        ("filtered", "contents unchanged"),
        ("defect", "missing or ill-formed commit"),
        ("defect", "missing or ill-formed commit"),
        ("defect", "missing or ill-formed lang"),
        ("defect", "missing or ill-formed repos"),
        ("defect", "no name of the file"),
        ("defect", "unreadable line"),
        ("defect", "no record"),
        ("defect", "unreadable line"),
    ]
    assert all(len(one.raw or "") <= 2_000 for one in rejected)


def test_a_link_is_built_only_of_what_may_be_a_repository():
    commit = COMMIT["commit"]
    assert permalink(["ann/tea.py_2-x", "b/c"], commit) == f"https://github.com/ann/tea.py_2-x/commit/{commit}"
    for name in ("tea", "ann/tea/pot", "ann/te a", "../x", "https://x.example/a", ""):
        assert permalink([name], commit) is None
    assert permalink([], commit) is None
    assert repositories(" a/b, c/d ,,a/b") == ["a/b", "c/d"]


@given(st.dictionaries(st.sampled_from(sorted(COMMIT)), st.none() | st.text() | st.integers() | st.lists(st.text())))
def test_any_record_is_a_row_or_rejected(fields: dict[str, Any]):
    rows, rejected = parsed({**COMMIT, **fields})
    assert len(rows) + len(rejected) == 1


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


def test_the_sample_comes_out_whole(builder: Build):
    rows = read(builder, [SAMPLES], Read(retrieved_at="2026-10-01"))[0]
    assert [(row["licence"], row["url"] is not None) for row in rows] == [
        ("mit", True),
        ("apache-2.0", True),
        ("mit", False),
    ]
    (entry,) = builder.done
    assert dict(entry.artifact.rejected()) == {
        ("defect", "no contents after the commit"): 1,
        ("filtered", "commit and file seen before"): 1,
    }


def test_a_truncated_packed_file_is_an_error(builder: Build, tmp_path: Path):
    import gzip

    file = tmp_path / "data.jsonl.gz"
    packed = gzip.compress((json.dumps(COMMIT) + "\n").encode() * 1_000)
    file.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(SourceError, match="truncated"):
        read(builder, [file], Read())


REVISION = "ab" * 20


class Hub(BaseHTTPRequestHandler):
    content = (SAMPLES / "data" / "python" / "data.jsonl").read_bytes()

    def log_message(self, *_: Any) -> None: ...

    def do_GET(self) -> None:
        git = hashlib.sha1(b"blob %d\0" % len(self.content) + self.content).hexdigest()
        listing = [{"type": "file", "path": "data/python/data.jsonl", "size": len(self.content), "oid": git}]
        body = json.dumps(listing).encode() if "/api/" in self.path else self.content
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_a_language_is_fetched_at_a_commit_and_read(builder: Build, tmp_path: Path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    settings = {"base_url": f"http://127.0.0.1:{server.server_port}"}
    http = Downloader(contact="tests@example.org")
    try:
        with pytest.raises(UsageError, match="revision"):
            fetch(http, ["python"], tmp_path / "to", Fetch(**settings), Quiet())
        for wrong in (["../etc"], [".."], [], ["a/b"], ["*"]):
            with pytest.raises(UsageError):
                fetch(http, wrong, tmp_path / "to", Fetch(revision=REVISION, **settings), Quiet())
        files = fetch(http, ["Python"], tmp_path / "to", Fetch(revision=REVISION, **settings), Quiet())
    finally:
        http.close()
        server.shutdown()
        server.server_close()
    rows = list(read(builder, files, Read())[0])
    assert len(rows) == 3
    assert all(row["retrieved_at"] is not None for row in rows)


class Quiet:
    def begin(self, name: str, total_bytes: int | None, done_bytes: int) -> None: ...
    def advance(self, name: str, bytes: int) -> None: ...
    def end(self, name: str) -> None: ...
