import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import paths
import pytest
from hypothesis import given
from hypothesis import strategies as st
from old_responses import FORMAT_1
from processes import started
from stored_responses import FULL, put

from longform.errors import BusyError, StoreError
from longform.llm.ask.keys import canonical, key_of
from longform.llm.responses.records import TOMBSTONE, Job, Paid, Record
from longform.llm.responses.sqlite import SqliteDatabase
from longform.llm.responses.store import ResponseStore, open_responses

REPO = paths.ROOT
KEY = key_of("test", "/chat/completions", canonical({"model": "m"}))
PAID = Paid("run", "axioms", "corrupt", "abc", "test", "m", KEY, True, 7, 2, 3, 40)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "llm" / "responses.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[ResponseStore]:
    opened = open_responses(path)
    yield opened
    opened.close()


def keys(number: int) -> list[str]:
    return [key_of("test", "/x", canonical({"n": n})) for n in range(number)]


def python(code: str, *arguments: object) -> AbstractContextManager[subprocess.Popen[str]]:
    command = [sys.executable, "-c", code, *arguments]
    return started(command, cwd=REPO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


# ---------------------------------------------------------------- what is put is there


def test_what_was_put_is_there_after_reopening(path: Path) -> None:
    store = open_responses(path)
    assert store.get([KEY]) == {}
    put(store, [(KEY, FULL)])
    store.close()
    store = open_responses(path)
    assert store.get([KEY]) == {KEY: FULL}
    store.close()


@given(st.binary(max_size=3000), st.integers(0, 9))
def test_any_bytes_come_back_as_they_went_in(tmp_path_factory: pytest.TempPathFactory, body: bytes, times: int) -> None:
    store = open_responses(tmp_path_factory.mktemp("bytes") / "r.sqlite")
    record = replace(FULL, request=body * times, body=body)
    put(store, [(KEY, record)])
    assert store.get([KEY]) == {KEY: record}
    store.close()


def test_a_later_record_takes_the_place_of_an_earlier_one(store: ResponseStore) -> None:
    put(store, [(KEY, FULL)])
    tombstone = Record("test", "m", "t", "", b"{}", b"too long", state=TOMBSTONE, code="request", created=1.0)
    put(store, [(KEY, tombstone)])
    assert store.get([KEY]) == {KEY: tombstone}


def test_a_record_without_a_time_gets_one(store: ResponseStore) -> None:
    put(store, [(KEY, replace(FULL, created=None))])
    assert (store.get([KEY])[KEY].created or 0) > 1_700_000_001


def test_many_keys_are_found_in_one_call(store: ResponseStore) -> None:
    put(store, [(key, FULL) for key in keys(1000)])
    assert store.get([*keys(1000), "ff" * 32]) == dict.fromkeys(keys(1000), FULL)


def test_the_columns_say_what_was_paid_for_without_our_code(path: Path) -> None:
    store = open_responses(path)
    put(store, [(KEY, FULL)], [PAID])
    store.close()
    database = sqlite3.connect(path)
    row = database.execute("SELECT lower(hex(key)), task, served_model, ptok, ctok, state FROM response").fetchone()
    line = database.execute("SELECT dataset, stage, lower(hex(key)), cost_nano FROM ledger").fetchone()
    settings = [database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "journal_mode")]
    assert database.execute("SELECT v FROM meta WHERE k = 'key_version'").fetchone() == ("1",)
    database.close()
    assert row == (KEY, "axioms/corrupt", "m-1", 7, 3, 0)
    assert line == ("axioms", "corrupt", KEY, 40)
    assert settings == [3, "wal"]


def test_what_a_server_made_up_is_stored_as_far_as_it_can_be(store: ResponseStore) -> None:
    odd = replace(FULL, served_model="half \ud800", output_tokens=2**70)

    async def put_both() -> None:
        await asyncio.gather(store.put([(keys(2)[0], odd)]), store.put([(keys(2)[1], FULL)]))

    asyncio.run(put_both())
    found = store.get(keys(2))
    assert found[keys(2)[0]] == replace(FULL, served_model="half ?", output_tokens=None)
    assert found[keys(2)[1]] == FULL


def test_one_entry_that_cannot_be_written_spoils_no_other(store: ResponseStore) -> None:
    async def put_three() -> list[BaseException | None]:
        entries = [[(KEY, FULL)], [("no key", FULL)], [(keys(1)[0], FULL)]]
        return await asyncio.gather(*(store.put(entry) for entry in entries), return_exceptions=True)

    first, second, third = asyncio.run(put_three())
    assert (first, third) == (None, None)
    assert isinstance(second, StoreError)
    assert len(store.get([KEY, keys(1)[0]])) == 2


def test_an_answer_and_its_line_in_the_ledger_are_stored_both_or_none(store: ResponseStore) -> None:
    with pytest.raises(StoreError):
        put(store, [(KEY, FULL)], [replace(PAID, key="no key")])
    assert store.get([KEY]) == {}
    assert store.ledger("axioms") == []


def test_a_damaged_reply_is_reported(path: Path) -> None:
    store = open_responses(path)
    put(store, [(KEY, FULL)])
    store.close()
    database = sqlite3.connect(path)
    database.execute("UPDATE response SET body = substr(body, 1, 9)")
    database.commit()
    database.close()
    store = open_responses(path)
    with pytest.raises(StoreError, match="holds a damaged record"):
        store.get([KEY])
    store.close()


# ---------------------------------------------------------------- many at once


def test_several_event_loops_put_at_once_and_see_what_they_put(store: ResponseStore) -> None:
    missed: list[str] = []

    async def each(key: str) -> None:
        await store.put([(key, FULL)], [replace(PAID, key=key)])
        if store.get([key]) != {key: FULL}:
            missed.append(key)

    async def all_of(part: list[str]) -> None:
        await asyncio.gather(*(each(key) for key in part))

    chosen = keys(2000)
    threads = [threading.Thread(target=lambda n=n: asyncio.run(all_of(chosen[n::4]))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert missed == []
    assert len(store.get(chosen)) == 2000
    assert store.ledger("axioms")[0]["calls"] == 2000


def test_one_who_no_longer_waits_hinders_nobody_and_loses_nothing(store: ResponseStore) -> None:
    async def give_up() -> None:
        tasks = [asyncio.create_task(store.put([(key, FULL)])) for key in keys(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await store.put([(KEY, FULL)])

    asyncio.run(give_up())
    assert len(store.get([*keys(20), KEY])) == 21


def test_a_loop_that_ended_meanwhile_does_not_stop_the_others(store: ResponseStore) -> None:
    loop = asyncio.new_event_loop()
    task = loop.create_task(store.put([(KEY, FULL)]))
    loop.call_soon(loop.stop)
    loop.run_forever()
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
    put(store, [(keys(1)[0], FULL)])
    assert len(store.get([KEY, keys(1)[0]])) == 2


def test_all_of_a_process_share_one_store_and_other_processes_are_kept_out(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    first, second = open_responses(path), open_responses(tmp_path / "link" / "llm" / "responses.sqlite")
    first.close()
    first.close()
    put(second, [(KEY, FULL)])
    with pytest.raises(StoreError, match="closed"):
        put(_closed(path.with_name("other.sqlite")), [(KEY, FULL)])
    code = """
import sys
from longform.errors import BusyError
from longform.llm.responses.store import open_responses
try:
    open_responses(sys.argv[1])
except BusyError as error:
    print(error)
"""
    with python(code, path) as other:
        said, _ = other.communicate(timeout=600)
    second.close()
    assert f"is in use by process {os.getpid()}" in said
    open_responses(path).close()


def _closed(path: Path) -> ResponseStore:
    store = open_responses(path)
    store.close()
    return store


def test_one_process_is_granted_every_lease(store: ResponseStore) -> None:
    assert asyncio.run(store.lease(keys(3))) == set(keys(3))
    asyncio.run(store.release(keys(3)))
    assert store.exclusive


# ---------------------------------------------------------------- several machines

ELSEWHERE = """
import asyncio, sys
from pathlib import Path
from longform.errors import StoreError
from longform.llm.responses.records import Record
from longform.llm.responses.sqlite import SqliteDatabase
from longform.llm.responses.store import ResponseStore
store = ResponseStore(SqliteDatabase(Path(sys.argv[1]), machine="elsewhere", lease_seconds=float(sys.argv[2])))
asyncio.run(store.put([("00" * 32, Record("e", "m", "t", "p", b"{}"))]))
print("stored", flush=True)
sys.stdin.readline()
try:
    asyncio.run(store.put([("01" * 32, Record("e", "m", "t", "p", b"{}"))]))
    print("stored", flush=True)
except StoreError as error:
    print(error, flush=True)
store.close()
"""


def test_a_second_machine_is_refused_while_the_first_uses_the_file(path: Path) -> None:
    with python(ELSEWHERE, path, 600) as first:
        assert first.stdout
        assert first.stdout.readline() == "stored\n"
        for read_only in (False, True):
            with pytest.raises(StoreError, match=rf"in use by process {first.pid} on .* set LONGFORM_RESPONSES to"):
                SqliteDatabase(path, read_only=read_only)
        first.communicate("\n", timeout=600)
    store = ResponseStore(SqliteDatabase(path))
    assert store.get(["00" * 32, "01" * 32]).keys() == {"00" * 32, "01" * 32}
    store.close()


def test_a_file_moves_to_another_machine_for_good_and_the_first_writes_no_more(path: Path) -> None:
    with python(ELSEWHERE, path, 2) as first:
        assert first.stdout
        assert first.stdout.readline() == "stored\n"
        first.send_signal(signal.SIGSTOP)
        store = opened_in_time(path)
        first.send_signal(signal.SIGCONT)
        said, _ = first.communicate("\n", timeout=600)
        assert f"was taken over by process {os.getpid()} on " in said
        put(store, [(KEY, FULL)])
        assert store.get(["01" * 32, KEY]) == {KEY: FULL}
        store.close()


def opened_in_time(path: Path) -> ResponseStore:
    deadline = time.monotonic() + 600
    while True:
        try:
            return ResponseStore(SqliteDatabase(path))
        except StoreError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


# ---------------------------------------------------------------- faults

WRITE_FOREVER = """
import asyncio, sys
from longform.llm.ask.keys import canonical, key_of
from longform.llm.responses.records import Record
from longform.llm.responses.store import open_responses

store = open_responses(sys.argv[1])
record = Record('e', 'm', 't', 'p', b'{}', b'paid' * 500)

async def write(worker):
    n = 0
    while True:
        key = key_of('e', sys.argv[2], canonical({'worker': worker, 'n': n}))
        await store.put([(key, record)])
        print(key, flush=True)
        n += 1

async def main():
    await asyncio.gather(*map(write, range(16)))

asyncio.run(main())
"""


def test_a_killed_process_leaves_all_that_its_puts_had_returned_for(path: Path) -> None:
    printed: list[str] = []
    for attempt in range(5):
        with python(WRITE_FOREVER, path, attempt) as child:
            assert child.stdout
            for _ in range(40 * (attempt + 1)):
                printed.append(child.stdout.readline().strip())
            child.kill()
            printed += [line.strip() for line in child.stdout if line.endswith("\n")]
    store = open_responses(path)
    assert len(store.get(printed)) == len(printed) >= 600
    store.close()
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


def test_readers_work_while_another_process_writes_and_change_nothing(path: Path) -> None:
    with python(WRITE_FOREVER, path, 0) as child:
        assert child.stdout
        seen = [child.stdout.readline().strip() for _ in range(50)]
        reader = open_responses(path, read_only=True)
        for _ in range(50):
            seen.append(child.stdout.readline().strip())
            assert len(reader.get(seen)) == len(seen)
        assert len(list(reader.scan())) >= len(seen)
        assert reader.stats()[0]["answers"] >= len(seen)
        with pytest.raises(StoreError, match="open to read"):
            put(reader, [(KEY, FULL)])
        with pytest.raises(StoreError, match="open to read"):
            reader.add([(KEY, FULL)])
        with pytest.raises(BusyError, match=f"process {child.pid}"):
            open_responses(path)
        child.kill()
    log = path.with_name("responses.sqlite-wal")
    size = log.stat().st_size
    assert len(reader.get(seen)) == len(seen)
    reader.close()
    assert log.stat().st_size == size > 0


def test_a_reader_shares_the_connection_of_a_writer_of_its_own_process(store: ResponseStore, path: Path) -> None:
    reader = open_responses(path, read_only=True)
    put(store, [(KEY, FULL)])
    assert reader.get([KEY]) == {KEY: FULL}
    reader.close()
    put(store, [(KEY, FULL)])


def test_a_missing_file_reads_as_an_empty_store_and_is_not_made(path: Path) -> None:
    reader = open_responses(path, read_only=True)
    found = (reader.get([KEY]), list(reader.scan()), reader.stats(), reader.ledger("axioms"), reader.jobs())
    assert found == ({}, [], [], [], [])
    assert reader.usage("test", "m", "t") is None
    assert reader.job_keys("j") == []
    reader.close()
    assert not path.parent.exists()


def test_a_full_disk_is_reported_to_all_who_wait_and_what_was_stored_stays(small_disk: Path) -> None:
    store = open_responses(small_disk / "r.sqlite")
    bodies = {key: replace(FULL, body=os.urandom(30_000)) for key in keys(60)}

    async def fill() -> list[BaseException | None]:
        return await asyncio.gather(*(store.put([entry]) for entry in bodies.items()), return_exceptions=True)

    outcomes = dict(zip(bodies, asyncio.run(fill()), strict=True))
    stored = [key for key, outcome in outcomes.items() if outcome is None]
    assert 0 < len(stored) < 60
    assert all("full" in str(outcome) for outcome in outcomes.values() if outcome)
    assert {type(outcome) for outcome in outcomes.values() if outcome} == {StoreError}
    assert store.get(list(bodies)) == {key: bodies[key] for key in stored}
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    asyncio.run(fill())
    assert store.get(list(bodies)) == bodies
    store.close()


def test_a_disk_that_may_only_be_read_is_read(small_disk: Path) -> None:
    path = small_disk / "r.sqlite"
    store = open_responses(path)
    put(store, [(KEY, FULL)])
    store.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    reader = open_responses(path, read_only=True)
    assert dict(reader.scan()) == {KEY: FULL}
    reader.close()
    with pytest.raises(StoreError, match="Read-only"):
        open_responses(path)


def test_a_damaged_store_is_reported_with_its_path(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is not a database, it only has the name of one" * 100)
    for read_only in (False, True):
        with pytest.raises(StoreError, match=r"responses\.sqlite"):
            open_responses(path, read_only=read_only)
    path.unlink()
    open_responses(path).close()


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be used"):
        open_responses(tmp_path / "file" / "responses.sqlite")


# ---------------------------------------------------------------- older and newer releases

OLD = replace(FULL, cost_nano=None, batch=False)


@pytest.fixture
def old(path: Path) -> Path:
    """A file as the first release wrote it."""
    path.parent.mkdir()
    database = sqlite3.connect(path)
    database.executescript(FORMAT_1)
    database.execute(
        "INSERT INTO response(key, created, endpoint, model, task, prompt, state, code, finish, served_model, "
        "fingerprint, request_id, ptok, cached_tok, ctok, rtok, tok_limit, ms, request, body) "
        "VALUES (?, 1700000000.25, 'test', 'm', 'axioms/corrupt', 'hash', 0, NULL, 'stop', 'm-1', "
        "'fp', 'req', 7, 2, 3, 1, 99, 12, ?, ?)",
        (bytes.fromhex(KEY), zlib.compress(OLD.request, 1), zlib.compress(OLD.body, 1)),
    )
    database.commit()
    database.close()
    return path


def test_a_store_of_the_first_release_is_migrated_and_used(old: Path) -> None:
    store = open_responses(old)
    assert store.get([KEY]) == {KEY: OLD}
    put(store, [(keys(1)[0], FULL)], [PAID])
    store.stage_job(Job("j", "test", "STAGED", 1), [KEY])
    assert store.usage("test", "m", "axioms/corrupt") is not None
    store.close()
    store = open_responses(old)
    assert len(store.get([KEY, *keys(1)])) == 2
    assert store.ledger("axioms")[0]["calls"] == 1
    store.close()


def test_a_store_of_the_first_release_is_read_without_being_changed(old: Path) -> None:
    before = old.read_bytes()
    reader = open_responses(old, read_only=True)
    assert dict(reader.scan()) == {KEY: OLD}
    assert (reader.ledger("axioms"), reader.jobs()) == ([], [])
    assert reader.stats()[0]["answers"] == 1
    reader.close()
    assert old.read_bytes() == before


def test_a_migration_that_fails_leaves_the_old_file(old: Path) -> None:
    database = sqlite3.connect(old)
    database.execute("CREATE TABLE job_item(x)")
    database.close()
    for _ in range(2):
        with pytest.raises(StoreError, match="job_item"):
            open_responses(old)
    database = sqlite3.connect(old)
    assert database.execute("PRAGMA user_version").fetchone() == (1,)
    tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    database.close()
    assert tables == {"response", "meta", "job_item"}


@pytest.mark.parametrize("sql", ["PRAGMA user_version = 4", "UPDATE meta SET v = '7'", "DELETE FROM meta"])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_of_another_release_is_refused_untouched(path: Path, sql: str, read_only: bool) -> None:
    open_responses(path).close()
    database = sqlite3.connect(path, isolation_level=None)
    database.execute(sql)
    database.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"has format \d and .*; this release reads formats 1 to 3"):
        open_responses(path, read_only=read_only)
    assert path.read_bytes() == before


# ---------------------------------------------------------------- all of them


def test_a_scan_goes_through_all_in_the_order_of_keys_while_others_write(store: ResponseStore) -> None:
    chosen = sorted(keys(500))
    put(store, [(key, FULL) for key in chosen[:400]])
    scan = store.scan()
    first = [key for key, _ in (next(scan) for _ in range(10))]
    put(store, [(chosen[-1], FULL)])
    rest = [key for key, _ in scan]
    assert [*first, *rest] == [*chosen[:400], chosen[-1]]


def test_a_scan_of_some_keys_skips_those_that_are_not_there(store: ResponseStore) -> None:
    put(store, [(key, FULL) for key in keys(300)])
    wanted = keys(310)[100:]
    assert [key for key, _ in store.scan(wanted)] == sorted(keys(300)[100:])
    assert list(store.scan([])) == []


def test_of_a_purged_record_no_byte_is_left_in_the_files(store: ResponseStore, path: Path) -> None:
    put(store, [(KEY, replace(FULL, request=b"words that must go" * 3)), ("ab" * 32, FULL)])
    assert b"words that must go" in b"".join(file.read_bytes() for file in path.parent.iterdir() if file.is_file())
    assert store.purge([KEY]) == 1
    assert b"words that must go" not in b"".join(file.read_bytes() for file in path.parent.iterdir() if file.is_file())
    assert list(store.get([KEY, "ab" * 32])) == ["ab" * 32]


def test_a_store_open_to_read_purges_nothing(path: Path) -> None:
    open_responses(path).close()
    reader = open_responses(path, read_only=True)
    with pytest.raises(StoreError, match="open to read"):
        reader.purge([KEY])
    reader.close()


def test_adding_keeps_what_is_there(store: ResponseStore) -> None:
    put(store, [(KEY, FULL)])
    other = replace(FULL, body=b"another")
    assert store.add([(KEY, other), *((key, other) for key in keys(600)), (keys(1)[0], FULL)]) == 600
    assert store.get([KEY, keys(1)[0]]) == {KEY: FULL, keys(1)[0]: other}
    assert store.ledger("axioms") == []


def test_stats_count_by_endpoint_model_and_task(store: ResponseStore) -> None:
    first, second, third, fourth = keys(4)
    free = replace(FULL, task="axioms/write", cost_nano=None, input_tokens=None)
    stone = Record("test", "m", "axioms/write", "", b"{}", b"no", state=TOMBSTONE, code="request")
    put(store, [(first, FULL), (second, replace(FULL, cost_nano=1)), (third, free), (fourth, stone)])
    corrupt, write = store.stats()
    assert (corrupt["task"], corrupt["answers"], corrupt["errors"], corrupt["input_tokens"]) == (FULL.task, 2, 0, 14)
    assert corrupt["cost_nano"] == 2**40 + 1
    assert (write["answers"], write["errors"], write["output_tokens"], write["cost_nano"]) == (1, 1, 3, 0)
    assert 0 < write["bytes"] < corrupt["bytes"]


def test_the_ledger_sums_what_was_paid_by_stage_model_and_mode(store: ResponseStore) -> None:
    lost = replace(PAID, answered=False, input_tokens=0, cached_tokens=0, output_tokens=0, cost_nano=100)
    batch = replace(PAID, batch=True, cost_nano=20, reasoning_tokens=2)
    unpriced = replace(PAID, stage="judge", recipe="def", cost_nano=None)
    put(store, [], [unpriced, PAID])
    put(store, [], [PAID, lost, batch, replace(PAID, dataset="other")])
    judge, online, in_batch = store.ledger("axioms")
    assert judge == {
        "stage": "judge",
        "endpoint": "test",
        "model": "m",
        "batch": False,
        "calls": 1,
        "unanswered": 0,
        "input_tokens": 7,
        "cached_tokens": 2,
        "output_tokens": 3,
        "reasoning_tokens": 0,
        "cost_nano": 0,
        "unpriced": 1,
    }
    assert (online["calls"], online["unanswered"], online["cost_nano"], online["input_tokens"]) == (3, 1, 180, 14)
    assert (in_batch["batch"], in_batch["cost_nano"], in_batch["reasoning_tokens"]) == (True, 20, 2)
    assert [line["stage"] for line in store.ledger("axioms", ["abc"])] == ["corrupt", "corrupt"]
    assert store.ledger("axioms", []) == []


def test_usage_is_of_the_latest_answers_that_tell_theirs(store: ResponseStore) -> None:
    chosen = keys(403)
    early = replace(FULL, request=b"x" * 10, input_tokens=9_999, output_tokens=9_999)
    late = [replace(FULL, request=b"x" * 2_000, input_tokens=500, output_tokens=n, milliseconds=n) for n in range(300)]
    put(store, [(key, early) for key in chosen[:100]])
    put(store, list(zip(chosen[100:400], late, strict=True)))
    silent = replace(FULL, input_tokens=0, output_tokens=0)
    stone = replace(FULL, state=TOMBSTONE)
    put(store, [(chosen[400], silent), (chosen[401], stone), (chosen[402], replace(early, task="other"))])
    usage = store.usage("test", "m", "axioms/corrupt")
    assert usage is not None
    assert (usage.answers, usage.input_tokens_per_byte) == (300, 0.25)
    assert (usage.output_tokens, usage.output_tokens_p90, usage.milliseconds) == (149.5, 269, 149.5)
    assert store.usage("test", "other", "axioms/corrupt") is None


def test_a_batch_is_remembered_until_it_has_ended(path: Path) -> None:
    job = Job("j", "test", "STAGED", 3, reserved_nano=5, created=10.0, context='{"a": 1}')
    store = open_responses(path)
    store.stage_job(job, keys(3)[::-1])
    store.stage_job(Job("earlier", "other", "STAGED", 1, created=5.0), [KEY])
    store.close()
    store = open_responses(path)
    assert [found.name for found in store.jobs()] == ["earlier", "j"]
    assert store.jobs("test") == [job]
    assert store.job_keys("j") == keys(3)[::-1]
    store.update_job("j", state="SUBMITTED", remote="batch_1", input_file="file_1")
    assert store.jobs("test") == [replace(job, state="SUBMITTED", remote="batch_1", input_file="file_1")]
    store.update_job("j", state="DONE")
    store.update_job("earlier", state="GONE")
    assert store.jobs() == []
    store.stage_job(replace(job, created=None), keys(1))
    assert (store.jobs()[0].created or 0) > 1_700_000_000
    assert store.job_keys("j") == keys(1)
    store.close()


def test_a_scan_takes_little_memory(path: Path) -> None:
    """1,500 records of 20 kB are 30 MB; a scan holds 64 of them."""
    import tracemalloc

    store = open_responses(path)
    body = os.urandom(20_000)
    store.add((key, replace(FULL, body=body)) for key in keys(1_500))
    tracemalloc.start()
    assert sum(1 for _ in store.scan()) == 1_500
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    store.close()
    assert peak < 8 << 20
    shutil.rmtree(path.parent)
