"""Takedowns from end to end: the list, what is published afterwards, what is purged, and the messages."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from axioms_builds import Silent, build_axioms
from endpoint_server import Server, server

from flows.axioms import AxiomsConfig
from flows.builds.building import Options
from flows.builds.building import build as build_dataset
from flows.cli.shared import takedown_effects as effects
from longform.artifacts.store import Store
from longform.artifacts.takedowns import add, load, mentions
from longform.artifacts.versions import Version, artifact, garbage, withdraw
from longform.engine.build import StageRun
from longform.engine.thread_tasks import SequentialStages
from longform.errors import BusyError, LongformError, StoreError, UsageError
from longform.llm.responses.store import open_responses
from longform.settings import responses
from tasks.publishing.responses_made_from import contains_window, windows_of, words_of

pytestmark = pytest.mark.check

__all__ = ["server"]
BEER = "beer.stackexchange.com"
LONGFORM = str(Path(sys.executable).with_name("longform"))


# ---------------------------------------------------------------- the list


def test_an_added_takedown_is_listed_once(tmp_path: Path) -> None:
    new, known = add(
        tmp_path, [("a.example/1", "2026-11-20", " its author \n asked "), ("a.example/2", "2026-11-21", "b")]
    )
    assert [(each.id, each.date, each.reason) for each in new] == [
        ("a.example/1", "2026-11-20", "its author asked"),
        ("a.example/2", "2026-11-21", "b"),
    ]
    assert known == []
    again, known = add(tmp_path, [("a.example/2", "2026-11-22", "another reason"), ("a.example/3", "2026-11-22", "c")])
    assert ([each.id for each in again], known) == (["a.example/3"], [new[1]])
    assert load(tmp_path) == [*new, *again]
    assert [json.loads(line)["id"][-1] for line in (tmp_path / "takedowns.jsonl").read_text().splitlines()] == list(
        "123"
    )


def test_one_record_named_twice_is_added_once(tmp_path: Path) -> None:
    new, known = add(tmp_path, [("a.example/1", "2026-11-20", "a"), ("a.example/1", "2026-11-20", "b")])
    assert ([each.reason for each in new], known) == (["a"], [])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "Line 2 of .*takedowns.jsonl is damaged"),
        ("[]", "Line 2 of .* is damaged"),
        ('{"id": 1, "date": "2026-11-20", "reason": "b", "added_at": "x"}', "Line 2 of .* is damaged"),
        ('{"id": "a.example/1", "date": "2026-11-20", "reason": "b"}', "Line 2 of .* lacks the field added_at"),
        ('{"id": "a", "date": "d", "reason": "b", "added_at": "x", "by": "me"}', "Line 2 of .* unknown field by"),
        ("\x00\xff", "Line 2 of .* is damaged"),
    ],
)
def test_a_line_that_cannot_be_read_stops_everything(tmp_path: Path, line: str, message: str) -> None:
    add(tmp_path, [("a.example/1", "2026-11-20", "a")])
    with (tmp_path / "takedowns.jsonl").open("ab") as file:
        file.write(line.encode("latin-1") + b"\n")
    before = (tmp_path / "takedowns.jsonl").read_bytes()
    with pytest.raises(StoreError, match=message):
        load(tmp_path)
    with pytest.raises(StoreError, match=message):
        add(tmp_path, [("a.example/2", "2026-11-20", "a")])
    with pytest.raises(StoreError, match=message):
        build_axioms(tmp_path)
    assert (tmp_path / "takedowns.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("day", "reason"), [("20.11.2026", "a"), ("2026-13-01", "a"), ("20261120", "a"), ("2026-11-20", " ")]
)
def test_a_takedown_has_a_day_and_a_reason(tmp_path: Path, day: str, reason: str) -> None:
    with pytest.raises(UsageError, match=r"YYYY-MM-DD|needs its reason"):
        add(tmp_path, [("a.example/1", day, reason)])
    assert load(tmp_path) == []


def test_many_who_add_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_add_ten, args=(tmp_path, worker)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert {each.id for each in load(tmp_path)} == {f"a.example/{worker}{n}" for worker in range(4) for n in range(10)}


def _add_ten(home: Path, worker: int) -> None:
    for number in range(10):
        add(home, [(f"a.example/{worker}{number}", "2026-11-20", "asked")])


# ---------------------------------------------------------------- what holds a record


def test_ids_are_found_in_every_id_column_and_behind_passages(tmp_path: Path) -> None:
    rows = [{"row_id": "x", "post_id": "a/1", "evidence_ids": ["a/2#0", "a/3#7"], "text": "a/4", "note_ids": None}]
    pq.write_table(_table(rows), tmp_path / "a'b.parquet")
    found = mentions([tmp_path / "a'b.parquet"], ["a/1", "a/3", "a/4", "a/30"])
    assert [(hit.id, hit.column) for hit in found] == [("a/1", "post_id"), ("a/3", "evidence_ids")]
    assert mentions([tmp_path / "a'b.parquet"], []) == []


def _table(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    texts = pa.list_(pa.string())
    names = [("row_id", pa.string()), ("post_id", pa.string()), ("evidence_ids", texts), ("text", pa.string())]
    return pa.Table.from_pylist(rows, schema=pa.schema([*names, ("note_ids", texts)]))


def test_a_passage_of_a_text_holds_one_of_its_windows() -> None:
    text = " ".join(f"word{number}" for number in range(200))
    windows = windows_of([text])
    assert {len(window) for window in windows} == {60}
    for start in range(0, 150, 7):
        passage = text.split()[start : start + 25]
        assert contains_window("> " + "\n* ".join(passage).upper(), windows)
    assert not contains_window(" ".join(f"other{number}" for number in range(200)), windows)
    assert windows_of(["too short to say whose it is"]) == set()
    assert words_of("A-b_c 1é!") == "abc1é"


# ---------------------------------------------------------------- a real site


def build(home: Path, server: Server, dump: Path, version: str, **settings: Any) -> Version:
    endpoint = {"base_url": f"http://127.0.0.1:{server.server_address[1]}/v1", "model": "m"}
    given = {"model": "mine", "endpoints": {"mine": endpoint}, "dump": str(dump), "site": BEER, **settings}
    made, _, _ = build_axioms(home, version, **given)
    assert made is not None
    return made


def stage(home: Path, version: Version, name: str) -> list[dict[str, Any]]:
    store = Store(home)
    parts = artifact(store, version, name).parts
    return [row for part in parts for row in pq.read_table(store.rows_path(part)).to_pylist()]


def rows_of(version: Version) -> list[dict[str, Any]]:
    return [row for path in sorted(version.folder.glob("*/*.parquet")) for row in pq.read_table(path).to_pylist()]


def letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()


def used_everywhere(home: Path, version: Version) -> dict[str, Any]:
    """An answer that is evidence, a hard negative and a parent of a combined one; with a sentence that only it
    contains.
    """
    rows = rows_of(version)
    evidence = {passage.split("#")[0] for row in rows for passage in row["evidence_ids"]}
    negatives = {row["rejected_id"] for row in rows if row["axiom"] == 1}
    shown: dict[str, str] = {}
    for passage in [passage for row in stage(home, version, "retrieve_passages") for passage in row["passages"]]:
        shown[passage["answer_id"]] = f"{shown.get(passage['answer_id'], '')} {letters(passage['text'])}"
    combined = {row[side] for row in stage(home, version, "combine_answers") for side in ("first_id", "second_id")}
    posts = stage(home, version, "scrub_posts")
    for post in sorted(posts, key=lambda post: -len(post["text"])):
        if post["post_id"] in evidence & negatives & combined:
            for sentence in re.split(r"[.!?\n]", post["text"]):
                mark = letters(sentence)
                if (
                    len(mark) > 90
                    and mark in shown[post["post_id"]]
                    and sum(mark in letters(other["text"]) for other in posts) == 1
                ):
                    return {**post, "sentence": mark}
    raise AssertionError("no such answer")


def parquet_texts(folder: Path) -> str:
    """The letters of all strings in all Parquet files below a folder."""
    tables = [pq.read_table(path) for path in sorted(folder.rglob("*.parquet"))]
    return letters(json.dumps([table.to_pylist() for table in tables], default=str, ensure_ascii=False))


def stored(home: Path) -> dict[str, tuple[str, str]]:
    """key -> (task, the letters of the whole request)."""
    with closing(open_responses(responses(home), read_only=True)) as store:
        return {
            key: (record.task, letters(" ".join(m["content"] for m in json.loads(record.request)["messages"])))
            for key, record in store.scan()
        }


def test_nothing_of_a_listed_answer_is_in_the_next_version_and_nothing_is_bought_twice(
    beer: Path, tmp_path: Path, server: Server
) -> None:
    home = tmp_path / "home"
    first = build(home, server, beer, "v1", limit=60)
    answer = used_everywhere(home, first)
    record = answer["post_id"].replace("beer.", "alcohol.")  # as its permalink of today says
    assert answer["sentence"] in parquet_texts(first.folder)
    before = stored(home)
    derived = {key for key, (_, asked) in before.items() if answer["sentence"] in asked}
    assert len({before[key][0] for key in derived}) >= 2

    add(home, [(record, "2026-11-20", "its author asked")])
    assert [(each.dataset, each.version, each.withdraw) for each in effects.holders(home, [record])] == [
        ("axioms", "v1", "longform withdraw axioms@v1")
    ]
    names = _names(home, first, answer["post_id"])
    purged = effects.purge_responses(home, [record])
    after = stored(home)
    assert before.keys() - after.keys() >= derived | names
    assert len(before) - len(after) == purged
    assert not any(answer["sentence"] in asked for _, asked in after.values())
    assert len(after) > 0.9 * len(before)
    gone = [asked for key, (_, asked) in before.items() if key not in after]
    assert all(_shares(answer["text"], asked) for asked in gone)
    assert answer["sentence"].encode() not in (home / "llm" / "responses.sqlite").read_bytes()

    second = build(home, server, beer, "v2", limit=60)
    assert answer["sentence"] not in parquet_texts(second.folder)
    assert not any(answer["sentence"] in asked for _, asked in stored(home).values())
    assert [each.version for each in effects.holders(home, [record])] == ["v1"]
    assert set(server.bodies.values()) == {1}
    assert rows_of(second)

    withdraw(first.folder)
    for path, _ in garbage(Store(home)):
        subprocess.run(["rm", "-r", str(path)], check=True)
    still = {path.parts[-4] for path in home.glob("stages/*/parts/*/*.parquet") if _mentions(path, answer["sentence"])}
    assert still == {"read_posts"}


def _names(home: Path, version: Version, answer: str) -> set[str]:
    """Responses whose rows name the answer as parent or as evidence."""
    evidence = {
        row["question_id"]
        for row in stage(home, version, "retrieve_passages")
        if answer in [passage["answer_id"] for passage in row["passages"]]
    }
    found = {row["response"] for name in ("answer_open_book", "corrupt_answers") for row in stage(home, version, name)
             if row["question_id"] in evidence}  # fmt: skip
    combined = stage(home, version, "combine_answers")
    return found | {row["response"] for row in combined if answer in (row["first_id"], row["second_id"])}


def _shares(text: str, asked: str) -> bool:
    """Whether any 60 consecutive letters of the text occur in the request."""
    words = letters(text)
    return any(words[start : start + 60] in asked for start in range(0, max(1, len(words) - 59)))


def _mentions(path: Path, sentence: str) -> bool:
    return sentence in letters(json.dumps(pq.read_table(path).to_pylist(), default=str, ensure_ascii=False))


def test_all_answers_to_a_listed_question_are_purged_and_asked_no_more(tmp_path: Path, server: Server) -> None:
    made, _, _ = build_axioms(tmp_path, "v1", **_mine(server))
    assert made is not None
    rows = {
        name: stage(tmp_path, made, name)
        for name in ("answer_open_book", "answer_closed_book", "corrupt_answers", "combine_answers")
    }
    question = rows["corrupt_answers"][0]["question_id"]
    of_question = {row["response"] for found in rows.values() for row in found if row["question_id"] == question}
    assert len(of_question) >= 3
    asked = letters(next(row["text"] for row in stage(tmp_path, made, "read_posts") if row["post_id"] == question))[
        :120
    ]
    before = set(stored(tmp_path))
    add(tmp_path, [(question, "2026-11-20", "asked")])
    effects.purge_responses(tmp_path, [question])
    left = stored(tmp_path)
    assert not of_question & left.keys()
    assert not any(asked in text for _, text in left.values())
    others = {row["response"] for row in rows["answer_closed_book"] if row["question_id"] != question}
    assert others <= left.keys()
    assert before - left.keys() >= of_question
    version, _, _ = build_axioms(tmp_path, "v2", **_mine(server))
    assert version is not None
    assert question not in {row["question_id"] for row in rows_of(version)}
    assert set(server.bodies.values()) == {1}


def _mine(server: Server) -> dict[str, Any]:
    return {
        "model": "mine",
        "endpoints": {"mine": {"base_url": f"http://127.0.0.1:{server.server_address[1]}/v1", "model": "m"}},
    }


def test_replies_of_rejected_rows_and_of_builds_that_stopped_are_purged_too(tmp_path: Path, server: Server) -> None:
    build_axioms(tmp_path, "v1", until="combine_answers", **_mine(server))
    with closing(open_responses(responses(tmp_path), read_only=True)) as store:
        keys = {key for key, _ in store.scan()}
    posts = {p.name: p for p in (tmp_path / "stages").iterdir()}
    combined = (
        duckdb.sql(f"SELECT * FROM '{posts['combine_answers']}/parts/*/rows.parquet'").to_arrow_table().to_pylist()
    )
    rejected = duckdb.sql(
        f"SELECT key FROM '{posts['combine_answers']}/parts/*/rejected.parquet' WHERE reason LIKE 'utilization %'"
    ).fetchall()
    texts = dict(
        duckdb.sql(
            f"SELECT post_id, title || ' ' || text FROM '{posts['read_posts']}/parts/*/rows.parquet' WHERE title <> ''"
        ).fetchall()
    )
    question = next(key for (key,) in rejected if len(letters(texts[key])) > 120)
    named = {row["response"] for row in combined}
    add(tmp_path, [(question, "2026-11-20", "asked")])
    effects.purge_responses(tmp_path, [question])
    asked = [text for _, text in stored(tmp_path).values()]
    assert len(asked) < len(keys)
    assert not any(letters(texts[question])[:100] in text for text in asked)
    assert named & stored(tmp_path).keys() == named


def test_a_purge_waits_for_no_build_and_says_what_to_do(tmp_path: Path, server: Server) -> None:
    build_axioms(tmp_path, "v1", until="answer_closed_book", **_mine(server))
    with Store(tmp_path).lock("axioms"), pytest.raises(BusyError, match=r"written down, but .* not purged.*again"):
        effects.purge_responses(tmp_path, ["community.example/1"])


def test_a_takedown_that_comes_while_a_build_runs_stops_its_publishing(tmp_path: Path) -> None:
    class Late(Silent):
        def end(self, entry: StageRun) -> None:
            if entry.stage == "assemble_pairs":
                parts = [pq.read_table(Store(tmp_path).rows_path(part)) for part in entry.artifact.parts if part.rows]
                add(tmp_path, [(parts[0]["question_id"][0].as_py(), "2026-11-20", "asked")])

    options = Options(tmp_path, "v1")
    with pytest.raises(
        LongformError, match=r"not published: community.example/\d+ is taken down, but \w+_id of .*Build again"
    ):
        build_dataset("axioms", AxiomsConfig(), options, tasks=SequentialStages(), progress=Late())
    assert list((tmp_path / "datasets" / "axioms").iterdir()) == []
    published, _, _ = build_axioms(tmp_path, "v1")
    assert published is not None
    assert not mentions(sorted(published.folder.rglob("*.parquet")), [each.id for each in load(tmp_path)])


def test_terms_are_part_of_a_version_and_no_row(tmp_path: Path) -> None:
    undecided, _, _ = build_axioms(tmp_path, "v1")
    decided, progress, _ = build_axioms(tmp_path, "v2", terms="no-agreement")
    assert undecided is not None
    assert decided is not None
    assert progress.begun == {}
    assert (undecided.manifest["terms"], decided.manifest["terms"]) == ("undecided", "no-agreement")
    assert "did not state" in (undecided.folder / "README.md").read_text()
    assert "without a download agreement" in (decided.folder / "README.md").read_text()
    same = [
        {n: f["sha256"] for n, f in v.manifest["files"].items() if n.endswith(".parquet")} for v in (undecided, decided)
    ]
    assert same[0] == same[1]


# ---------------------------------------------------------------- the command line


def longform(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LONGFORM")}
    return subprocess.run([LONGFORM, *words], cwd=folder, env=kept, capture_output=True, text=True, timeout=600)


def test_the_commands_add_and_list(tmp_path: Path, server: Server) -> None:
    version, _, _ = build_axioms(tmp_path / "data", "v1", **_mine(server))
    assert version is not None
    row = next(row for row in rows_of(version) if row["axiom"] == 0)
    link = row["preferred_url"]
    done = longform(tmp_path, "takedowns", "add", link, "--reason", "its author asked", "--date", "2026-11-20")
    assert done.returncode == 0, done.stderr
    assert re.search(rf"taken down +{row['preferred_id']} +2026-11-20 +its author asked", done.stdout)
    assert f"axioms v1 holds {row['preferred_id']} (in " in done.stdout
    assert "longform withdraw axioms@v1" in done.stdout
    assert re.search(r"\d+ stored responses .* purged", done.stdout)
    again = longform(tmp_path, "takedowns", "add", link, "--reason", "once more", "--json")
    output = json.loads(again.stdout)
    assert (output["added"], [each["reason"] for each in output["known"]]) == ([], ["its author asked"])
    assert (output["purged"], output["versions"][0]["withdraw"]) == (0, "longform withdraw axioms@v1")
    (tmp_path / "more.jsonl").write_text(
        '{"id": "https://redd.it/1abcd", "reason": "gone there"}\n{"id": "CorpusID:5"}\n'
    )
    more = longform(tmp_path, "takedowns", "add", "--file", "more.jsonl", "--reason", "for the others")
    assert more.returncode == 0, more.stderr
    assert "No published version names them." in more.stdout
    found = json.loads(longform(tmp_path, "takedowns", "list", "--json").stdout)
    assert [(each["id"], each["reason"]) for each in found[1:]] == [
        ("reddit/t3_1abcd", "gone there"),
        ("s2/5", "for the others"),
    ]
    assert "reddit/t3_1abcd" in longform(tmp_path, "takedowns", "list").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["https://redd.it/1abcd"], "needs its reason"),
        (["nonsense", "--reason", "x"], "names no record"),
        (["--reason", "x"], "Name what is taken down"),
        (["t3_a", "--reason", "x", "--date", "yesterday"], "YYYY-MM-DD"),
        (["--file", "none.jsonl", "--reason", "x"], "cannot be read"),
        (["--file", "bad.jsonl", "--reason", "x"], "Line 2 of bad.jsonl is no takedown"),
    ],
)
def test_an_invalid_takedown_is_an_error_and_nothing_is_written(tmp_path: Path, words: list[str], message: str) -> None:
    (tmp_path / "bad.jsonl").write_text('{"id": "t3_a"}\n{"id": "t3_b", "who": "me"}\n')
    done = longform(tmp_path, "takedowns", "add", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "data" / "takedowns.jsonl").exists()


def test_plan_says_that_the_terms_are_undecided(tmp_path: Path) -> None:
    expected_message = longform(tmp_path, "plan", "axioms")
    decided = longform(tmp_path, "plan", "axioms", "--set", "terms=no-agreement")
    assert "docs/data-policy.md" in expected_message.stderr
    assert "terms" not in decided.stderr
    assert (expected_message.returncode, decided.returncode) == (0, 0)
