"""Stores that the first published release wrote still serve: the same questions, and not one call.

`data/stored_responses/*.sql` are dumps of both databases as that release left them, after the questions below had
been answered by a server in this process. They are kept as they are; nothing here can write them anew.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import aiohttp
import paths
import pytest
from postgresql import Server
from pydantic import BaseModel

from longform.llm.ask.types import Answer, Endpoint, Failure, Price, Request
from longform.llm.models import Models
from longform.llm.responses.records import Job, Record
from longform.llm.responses.store import open_responses

DUMPS = paths.TEST_DATA / "stored_responses"
ENDPOINT = Endpoint("test", "model-x", base_url="http://test/v1", price=Price(1.0, 2.0))


class Cellar(BaseModel):
    degrees: int
    casks: list[str]


def question(text: str, **options: object) -> Request:
    return Request((("system", "Answer."), ("user", text)), task="cellar/answers", prompt="abc123", **options)  # type: ignore[arg-type]


REQUESTS = {
    "short": question("How warm is it?"),
    "long": question("Tell me all, half \ud83d of a pair."),
    "structured": question("How warm, and which casks?", reply=Cellar, form="json"),
    "cut off": question("Which casks are there?", max_tokens=8),
    "refused": question("Something that a filter holds back?"),
    "twice": question("Draw one.", samples=2),
}
ANSWERS: dict[str, list[object]] = {
    "short": ["Twelve degrees."],
    "long": ["It is cold there, " * 400],
    "structured": [Cellar(degrees=12, casks=["oak", "chestnut"])],
    "cut off": ["Oak, and chestnut."],
    "refused": ["filter"],
    "twice": ["Oak.", "Chestnut."],
}
TEXTS = ["casks", "a cellar"]
VECTORS = [[0.25, -1.5], [1e-3, 4.0]]
JOB = Job("f" * 64, "test", "SUBMITTED", 2, 1_500, "batch_1", "file_1", 1_790_000_000.5, '{"given": {}}')
JOB_KEYS = ["ab" * 32, "01" * 32]


def never() -> aiohttp.BaseConnector:
    raise AssertionError("a connection was opened")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.check)])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path | str]:
    dump = (DUMPS / f"{request.param}.sql").read_text()
    if request.param == "postgresql":
        server: Server = request.getfixturevalue("postgres")
        url = server.database()
        for statement in dump.split(";\n"):
            server.execute(statement, url)
        yield url
        return
    path = tmp_path / "responses.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(dump)
    yield path


def test_every_answer_is_served_without_a_call(where: Path | str) -> None:
    with Models(where, transport=never) as models:
        client = models.client(ENDPOINT)
        found: dict[str, list[object]] = {}
        for name, answer in client.ask(REQUESTS.items()):
            assert isinstance(answer, Failure) or answer.cached
            found.setdefault(name, []).append(said(answer))
        assert found == ANSWERS
        assert client.embed(TEXTS) == VECTORS


def said(answer: Answer | Failure) -> object:
    return answer.kind if isinstance(answer, Failure) else answer.value or answer.text


def test_records_ledger_and_jobs_are_as_they_were_written(where: Path | str) -> None:
    expected = json.loads((DUMPS / "expected.json").read_text())
    with closing(open_responses(where)) as store:
        found = [[key, *shown(record)] for key, record in store.scan()]
        assert found == expected["records"]
        assert store.ledger("cellars") == [{**line, "reasoning_tokens": 0} for line in expected["ledger"]]
        assert [{**row, "bytes": 0} for row in store.stats()] == expected["stats"]
        assert store.jobs() == [JOB]
        assert store.job_keys(JOB.name) == JOB_KEYS
        usage = store.usage("test", "model-x", "cellar/answers")
        assert usage is not None
        assert [usage.answers, usage.output_tokens, usage.output_tokens_p90] == expected["usage"]


def test_its_ledger_can_be_read_before_it_is_brought_to_the_new_format(tmp_path: Path) -> None:
    path = tmp_path / "responses.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.executescript((DUMPS / "sqlite.sql").read_text())
    expected = json.loads((DUMPS / "expected.json").read_text())["ledger"]
    with closing(open_responses(path, read_only=True)) as store:
        assert store.ledger("cellars") == [{**line, "reasoning_tokens": 0} for line in expected]


def shown(record: Record) -> list[object]:
    """What does not depend on when the dump was made, and on which database: SQLite holds no half characters."""
    fields = {name: getattr(record, name) for name in Record.__slots__ if name not in ("created", "milliseconds")}
    return [readable(value) for value in fields.values()]


def readable(value: object) -> object:
    value = value.decode() if isinstance(value, bytes) else value
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
