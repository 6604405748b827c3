"""Taking down a conversation, an instruction or a paper: builds leave it out, and responses made from it are purged."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from axioms_builds import Silent
from standin_server import Server, serve

from flows.builds.building import Options, build
from flows.cli.shared import takedown_effects as effects
from flows.config.endpoints import EndpointConfig, StageConfig
from flows.revision_distance import ABOUT, SAMPLES, RevisionDistanceConfig
from longform.artifacts.store import Store
from longform.artifacts.takedowns import add
from longform.artifacts.versions import Version, find
from longform.engine.build import Build
from longform.engine.thread_tasks import SequentialStages
from longform.errors import GateError, LongformError
from longform.llm.ask.fence import fenced
from longform.llm.responses.store import open_responses
from longform.settings import responses
from tasks.publishing.publish import check_takedowns
from tasks.publishing.responses_made_from import words_of
from tasks.revision_distance.takedown import ASKED, responses_of
from tasks.sources.permalinks import record_of

LONGFORM = str(Path(sys.executable).with_name("longform"))
DAY = "2026-11-21"
KINDS = ("conversation", "instruction", "citing", "cited")


def make(home: Path, url: str, version: str, **settings: Any) -> tuple[Version, Build]:
    mine = {"base_url": url, "capabilities": ["json_schema"]}
    config = RevisionDistanceConfig(
        model="mine",
        endpoints={name: EndpointConfig(model=name, **mine) for name in ("mine", "smaller")},  # type: ignore[arg-type]
        stages={"write_weak": StageConfig(model="smaller")},
        **settings,
    )
    published, run = build(ABOUT.dataset, config, Options(home, version), tasks=SequentialStages(), progress=Silent())
    assert published is not None
    return published.version, run


@dataclass(frozen=True)
class Origin:
    """A built home, which tests copy and do not change, and the server it asked."""

    home: Path
    server: Server
    run: Build

    def copied(self, to: Path) -> Path:
        shutil.copytree(self.home, to / "home")
        return to / "home"


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origin]:
    home = tmp_path_factory.mktemp("takedowns") / "home"
    with serve() as server:
        yield Origin(home, server, make(home, server.url, "v1")[1])


def rows_of(builder: Build, stage: str) -> list[dict[str, Any]]:
    (entry,) = [entry for entry in builder.done if entry.stage == stage]
    return [row for part in entry.artifact.parts for row in pq.read_table(builder.store.rows_path(part)).to_pylist()]


def record(builder: Build, kind: str) -> str:
    """The id of a record from which rows were made."""
    cases = rows_of(builder, "take_cases")
    if kind == "cited":
        citing = {case["source_id"] for case in cases}
        cited = [paper["paper_id"] for case in cases for paper in case["cited"] if paper["paper_id"] not in citing]
        return str(min(set(cited), key=cited.count))
    task = {"conversation": "easy", "instruction": "free", "citing": "hard"}[kind]
    return str(next(case["source_id"] for case in cases if case["task"] == task))


def touched(builder: Build, gone: str) -> set[str]:
    """The cases that were made from a record, or cite it."""
    cases = rows_of(builder, "take_cases")
    return {
        case["case_id"]
        for case in cases
        if case["source_id"] == gone or gone in [paper["paper_id"] for paper in case["cited"]]
    }


def made_of(builder: Build, cases: set[str]) -> set[str]:
    """The responses that rows of all model stages name for these cases."""
    rows = (row for stage in ASKED for row in rows_of(builder, stage))
    return {row["response"] for row in rows if row["case_id"] in cases and row["response"]}


def requests(home: Path) -> dict[str, str]:
    with closing(open_responses(responses(home), read_only=True)) as store:
        return {key: record.request.decode() for key, record in store.scan()}


def calls(server: Server) -> int:
    return int(server.counters()["requests"]["POST /v1/chat/completions"])


def typed(home: Path, *words: str) -> dict[str, Any]:
    command = [LONGFORM, *words, "--home", str(home), "--json"]
    done = subprocess.run(command, cwd=home.parent, text=True, capture_output=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout))


def text_of(version: Version) -> str:
    tables = [pq.read_table(path).to_pylist() for path in sorted(version.folder.rglob("*.parquet"))]
    return json.dumps(tables, default=str, ensure_ascii=False)


@pytest.mark.check
@pytest.mark.parametrize("kind", KINDS)
def test_a_record_leaves_the_build_and_its_responses_go_and_no_others(
    kind: str, origin: Origin, tmp_path: Path
) -> None:
    home, gone = origin.copied(tmp_path), record(origin.run, kind)
    cases, before = touched(origin.run, gone), requests(home)
    expected_message = typed(home, "takedowns", "add", gone, "--reason", "asked", "--date", DAY)
    assert [(each["dataset"], each["version"]) for each in expected_message["versions"]] == [(ABOUT.dataset, "v1")]
    purged = before.keys() - requests(home).keys()
    assert purged == made_of(origin.run, cases)
    assert len(purged) == expected_message["purged"]
    with pytest.raises(LongformError, match=f"was not published: {gone} is taken down"):
        check_takedowns(home, ABOUT.dataset, find(home, f"{ABOUT.dataset}@v1").folder)

    asked = calls(origin.server)
    version, run = make(home, origin.server.url, "v2")
    left = {row["case_id"] for row in rows_of(run, "take_cases")}
    again = made_of(run, cases) if kind == "cited" else set()
    assert calls(origin.server) - asked == len(again)  # what cited it is asked anew, without it; nothing else
    assert {row["case_id"] for row in rows_of(origin.run, "take_cases")} - left == cases - (left if again else set())
    assert gone not in text_of(version)
    check_takedowns(home, ABOUT.dataset, version.folder)
    assert {holder.version for holder in effects.holders(home, [gone])} == {"v1"}


@pytest.mark.parametrize("kind", KINDS)
def test_no_request_that_shows_its_words_is_left(kind: str, origin: Origin, tmp_path: Path) -> None:
    home, gone = origin.copied(tmp_path), record(origin.run, kind)
    own = [case for case in rows_of(origin.run, "take_cases") if case["source_id"] == gone]
    texts = [case[name] for case in own for name in ("request", "reference", "abstract")]
    texts += [draft["text"] for case in own for draft in case["given"]]
    texts += [
        paper["abstract"]
        for case in rows_of(origin.run, "take_cases")
        for paper in case["cited"]
        if paper["paper_id"] == gone
    ]
    pieces = [words_of(text)[:80] for text in texts if text]
    assert pieces
    assert any(piece in words_of(asked) for piece in pieces for asked in requests(home).values())
    add(home, [(record_of(gone), DAY, "asked")])
    effects.purge_responses(home, [gone])
    assert not [piece for piece in pieces for asked in requests(home).values() if piece in words_of(asked)]


@pytest.mark.parametrize("kind", KINDS)
def test_what_no_row_names_is_found_by_its_words(kind: str, origin: Origin, tmp_path: Path) -> None:
    """The state after a build that was killed before a stage was done, or whose replies could not be read."""
    home, gone = origin.copied(tmp_path), record(origin.run, kind)
    wanted, store = made_of(origin.run, touched(origin.run, gone)), Store(home)
    for stage in ASKED:
        for path in store.stage(stage).glob("parts/*/rows.parquet"):
            pq.write_table(nameless(pq.read_table(path)), path)
    with closing(open_responses(responses(home), read_only=True)) as stored:
        found = responses_of(store, [gone], stored)
    assert wanted <= found
    related = {row["case_id"] for row in rows_of(origin.run, "take_cases") if row["task"] == "hard"}
    assert found - wanted <= (made_of(origin.run, related) if kind in ("citing", "cited") else set())


def nameless(rows: pa.Table) -> pa.Table:
    """Rows with texts but without response keys."""
    if "text" not in rows.column_names:
        return rows.slice(0, 0)
    at = rows.schema.get_field_index("response")
    return rows.set_column(at, rows.schema.field(at), pa.nulls(len(rows), pa.string()))


def test_a_request_of_a_few_words_that_no_row_names_is_found_where_it_stands_by_itself(tmp_path: Path) -> None:
    """The model refuses to check the request, so that no row names it; its few words may occur in other texts."""
    home, file = tmp_path / "home", tmp_path / "wildchat.jsonl"
    wanted = ["Write an article about tea.", "Write an article about tea and kettles.", "Write an article about cups."]
    file.write_text("".join(f"{json.dumps(asking(str(n), text))}\n" for n, text in enumerate(wanted)))
    with serve(faults={"refusal": 1.0}) as server, pytest.raises(GateError):
        make(home, server.url, "v1", wildchat=str(file), ultrafeedback=[], papers=[], structure=[])
    assert len(requests(home)) == len(wanted)
    add(home, [("wildchat/0", DAY, "asked")])
    assert effects.purge_responses(home, ["wildchat/0"]) == 1
    assert not [
        asked for asked in requests(home).values() if fenced(wanted[0]) in json.loads(asked)["messages"][1]["content"]
    ]
    assert len(requests(home)) == len(wanted) - 1


def asking(name: str, text: str) -> dict[str, Any]:
    """A conversation with this request and a long answer."""
    (first, *_) = (SAMPLES / "wildchat.jsonl").read_text().splitlines()
    sample = json.loads(first)
    sample["conversation"][0]["content"] = text
    return {**sample, "conversation_hash": name}
