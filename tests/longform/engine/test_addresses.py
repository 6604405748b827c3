"""Where rows can be looked up: by a column, by the form of their ids, by the row that they were made from."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from longform.artifacts.parts import Parts
from longform.artifacts.rows import Rows
from longform.artifacts.store import Store
from longform.engine.addresses import addresses, id_of
from schemas import column, table
from schemas.sources.stackexchange import THREADS
from tasks.sources.permalinks import permalink

POSTS = table("posts", column("post_id", pa.string(), ""), column("text", pa.string(), ""), key="post_id",
              link="https://{0}/q/{1}")  # fmt: skip
PAPERS = table("papers", column("paper_id", pa.string(), ""), column("url", pa.string(), "permalink", null=True),
               key="paper_id")  # fmt: skip
DRAFTS = table("drafts", column("draft_id", pa.string(), ""), column("paper_id", pa.string(), "parent"),
               column("post_id", pa.string(), "parent", null=True), key="draft_id")  # fmt: skip


def rows(home: Path, schema: pa.Schema, *contents: dict[str, Any]) -> Rows:
    store, name = Store(home), schema.metadata[b"name"].decode()
    parts = Parts(store, name, schema, ["all/0-00000"], None, None)
    for row in contents:
        parts.add(row)
    return Rows(store, schema, name, "f", parts.finish())


def test_a_row_has_the_address_of_its_column_of_its_table_or_of_its_parent(tmp_path: Path) -> None:
    posts = rows(tmp_path, POSTS, {"post_id": "tea.example/7", "text": "?"}, {"post_id": "odd", "text": "?"})
    papers = rows(tmp_path, PAPERS, {"paper_id": "p1", "url": "https://x.org/p1"}, {"paper_id": "p2", "url": None})
    drafts = rows(
        tmp_path,
        DRAFTS,
        {"draft_id": "d1", "paper_id": "p1", "post_id": None},
        {"draft_id": "d2", "paper_id": "p2", "post_id": None},
        {"draft_id": "d3", "paper_id": "none", "post_id": "tea.example/7"},
    )
    wanted = ["tea.example/7", "odd", "p1", "p2", "d1", "d2", "d3", "nobody"]
    assert addresses(wanted, [posts, papers, drafts]) == {
        "tea.example/7": "https://tea.example/q/7",
        "p1": "https://x.org/p1",
        "d1": "https://x.org/p1",
        "d3": "https://tea.example/q/7",
    }
    assert addresses([], [posts]) == {}


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "https://x.org/\x1b[2J", "https://x.org/ <b>", "https://" + "x" * 999]
)
def test_an_address_that_is_none_is_not_shown(url: str, tmp_path: Path) -> None:
    papers = rows(tmp_path, PAPERS, {"paper_id": "p1", "url": url})
    assert addresses(["p1"], [papers]) == {}


def test_threads_have_the_links_of_their_questions() -> None:
    key = "cooking.stackexchange.com/4711"
    assert THREADS.metadata[b"link"].decode().format(*key.split("/")) == permalink(key, "question")


def test_the_row_of_a_request_is_known_by_what_its_stage_asks_with(tmp_path: Path) -> None:
    drafts = rows(tmp_path, DRAFTS)
    draft = {"paper_id": "p1", "draft_id": "d1"}
    assert [id_of(item, [drafts]) for item in ("d1", draft, ("d1", "x"), (draft, draft), None, 7, (), {"a": "b"})] == [
        "d1", "d1", "d1", "d1", None, None, None, None,
    ]  # fmt: skip
