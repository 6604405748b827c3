"""A store that was altered, emptied, replaced or copied back is noticed before an answer is used or bought again."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from postgresql import Server
from stored_responses import FULL, full, key, put
from typer.testing import CliRunner

from flows.cli.main import app
from longform.errors import StoreError, UsageError
from longform.llm.ask.keys import canonical, key_of
from longform.llm.responses.records import RECORD, TOMBSTONE, Paid, Record
from longform.llm.responses.store import ResponseStore, open_responses

PAID = Paid("run", "axioms", "corrupt", "abc", "test", "m", "ab" * 32, True, 7, 2, 3, 40)


def answers(number: int) -> list[tuple[str, Record]]:
    return [full(n) for n in range(number)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("LONGFORM_RESPONSES", raising=False)
    return tmp_path / "home"


def path_in(home: Path) -> Path:
    return home / "llm" / "responses.sqlite"


def filled(home: Path, number: int) -> Path:
    with closing(open_responses(path_in(home))) as store:
        put(store, answers(number), [PAID] * number)
    return path_in(home)


def sql(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)


def cli(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["responses", *map(str, words)])
    return done.exit_code, done.output + (str(done.exception) if isinstance(done.exception, StoreError) else "")


# ---------------------------------------------------------------- altered rows

IN_SQLITE = {
    "input_tokens": "ptok",
    "cached_tokens": "cached_tok",
    "output_tokens": "ctok",
    "reasoning_tokens": "rtok",
    "token_limit": "tok_limit",
    "milliseconds": "ms",
}


@pytest.mark.parametrize("name", RECORD)
@pytest.mark.parametrize("change", ["another value", "null"])
def test_a_change_of_any_column_is_noticed_wherever_the_record_is_read(home: Path, name: str, change: str) -> None:
    column = IN_SQLITE.get(name, name)
    other = f"CAST('x' || coalesce({column}, 'x') AS BLOB)" if name in ("request", "body") else f"{column} || '1'"
    value = "NULL" if change == "null" else f"coalesce({other}, 'x')"
    if change == "null" and name in ("body", "state", "code"):
        return  # NOT NULL, or NULL already
    path = filled(home, 3)
    sql(path, f"UPDATE response SET {column} = {value} WHERE key = x'{key(1)}'")
    for read_only in (False, True):
        with closing(open_responses(path, read_only=read_only)) as store:
            assert store.damaged() == [key(1)]
            assert set(store.get([key(0), key(2)])) == {key(0), key(2)}
            with pytest.raises(
                StoreError, match=rf"{path} holds a damaged record .* {key(1)}: run `longform responses"
            ):
                store.get([key(1)])
            with pytest.raises(StoreError, match=key(1)):
                list(store.scan())


def test_a_record_that_stands_under_another_key_is_noticed(home: Path) -> None:
    path = filled(home, 2)
    sql(path, f"DELETE FROM response WHERE key = x'{key(0)}'", f"UPDATE response SET key = x'{key(0)}'")
    with closing(open_responses(path, read_only=True)) as store, pytest.raises(StoreError, match=key(0)):
        store.get([key(0)])


def test_estimates_use_no_altered_record(home: Path) -> None:
    path = filled(home, 2)
    sql(path, f"UPDATE response SET ctok = 9 WHERE key = x'{key(1)}'")
    with closing(open_responses(path)) as store, pytest.raises(StoreError, match=key(1)):
        store.usage("test", "m", "axioms/corrupt")


def test_text_that_is_no_text_any_more_is_a_damaged_record(home: Path) -> None:
    path = filled(home, 3)
    sql(path, f"UPDATE response SET model = CAST(x'6dff' AS TEXT) WHERE key = x'{key(1)}'")
    with closing(open_responses(path)) as store:
        assert store.damaged() == [key(1)]
        with pytest.raises(StoreError, match=key(1)):
            store.get([key(1)])
        assert store.get([key(0)])[key(0)].model == "m"


def test_flipped_bits_never_change_what_is_read(home: Path) -> None:
    """Whatever bit of the file is flipped: a record is as it was put, or an error says so, or it is not there."""
    path = filled(home, 40)
    whole, expected = path.read_bytes(), dict(answers(40))
    noticed = 0
    for seed in range(150):
        flipped, at = bytearray(whole), random.Random(seed).randrange(len(whole) * 8)
        flipped[at // 8] ^= 1 << at % 8
        path.write_bytes(flipped)
        try:
            with closing(open_responses(path, read_only=True)) as store:
                for name, record in expected.items():
                    found = store.get([name])
                    assert found in ({name: record}, {})
        except StoreError:
            noticed += 1
    assert noticed > 20


def test_damaged_records_are_listed_and_dropped_to_be_asked_again(home: Path) -> None:
    path = filled(home, 5)
    assert cli("check", "--home", home) == (0, "No stored response is damaged.\n")
    sql(path, f"UPDATE response SET body = x'007b7d' WHERE key IN (x'{key(1)}', x'{key(3)}')")
    code, said = cli("check", "--home", home)
    assert code == 1
    assert said.splitlines()[:2] == [key(1), key(3)]
    assert "2 stored responses are damaged" in said
    assert cli("check", "--drop", "--home", home)[1].splitlines()[-1] == "Deleted 2 damaged responses."
    assert cli("check", "--home", home) == (0, "No stored response is damaged.\n")
    with closing(open_responses(path)) as store:
        assert set(store.get([key(n) for n in range(5)])) == {key(0), key(2), key(4)}
        put(store, answers(5))
        assert dict(store.scan()) == dict(answers(5))


def test_an_index_that_lost_its_record_is_built_anew(home: Path) -> None:
    """The first byte of a page is 10 where it is of an index."""
    with closing(open_responses(path_in(home))) as store:
        put(store, [("ab" * 32, FULL)])
    path = path_in(home)
    content = bytearray(path.read_bytes())
    places = [at for at in range(len(content)) if content[at : at + 32] == b"\xab" * 32]
    (at,) = [at for at in places if content[at - at % 4096] == 10]
    content[at + 31] = 0xAC
    path.write_bytes(content)
    code, said = cli("check", "--home", home)
    assert code == 1, said
    assert cli("check", "--drop", "--home", home)[0] == 0
    with closing(open_responses(path)) as store:
        assert store.damaged() == store.faults() == []


def test_an_export_brings_dropped_records_back(home: Path, tmp_path: Path) -> None:
    path, file = path_in(home), tmp_path / "all.parquet"
    asked = [canonical({"model": "m", "n": n}) for n in range(5)]
    records = {key_of("test", "/chat/completions", sent): replace(FULL, request=sent.encode()) for sent in asked}
    with closing(open_responses(path)) as store:
        store.add(records.items())
    assert cli("export", file, "--home", home)[0] == 0
    sql(path, "UPDATE response SET cost_nano = 1")
    assert cli("export", tmp_path / "other.parquet", "--home", home)[0] == 1
    assert cli("check", "--drop", "--home", home)[0] == 0
    assert cli("import", file, "--home", home)[0] == 0
    with closing(open_responses(path)) as store:
        assert dict(store.scan()) == {name: replace(record, request_id=None) for name, record in records.items()}


# ---------------------------------------------------------------- another store


def refused(path: Path) -> str:
    before = {file: file.read_bytes() for file in path.parent.glob("*") if file.is_file() and file.suffix != ".sqlite"}
    with pytest.raises(StoreError) as told:
        open_responses(path)
    assert "run `longform responses forget` to go on with this one" in str(told.value)
    assert {file: file.read_bytes() for file in before} == before
    return str(told.value)


@pytest.mark.parametrize("how", ["missing", "empty", "a new store", "all deleted"])
def test_an_emptied_store_is_noticed_until_it_is_given_up(home: Path, tmp_path: Path, how: str) -> None:
    path = filled(home, 33)
    with closing(open_responses(tmp_path / "new" / "r.sqlite")):
        pass
    if how == "missing":
        path.unlink()
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "a new store":
        shutil.copy(tmp_path / "new" / "r.sqlite", path)
    else:
        sql(path, "DELETE FROM response", "DELETE FROM ledger")
    for _ in range(2):
        assert "held 33 answers and 33 lines of the ledger" in refused(path)
    assert path.exists() == (how != "missing")
    assert cli("forget", "--home", home)[0] == 0
    with closing(open_responses(path)) as store:
        assert list(store.scan()) == []
    assert cli("forget", "--home", home) == (0, "The next build takes the response store that is there.\n")
    assert cli("forget", "--home", home) == (0, "The home remembers no response store.\n")


def test_a_copy_from_before_is_noticed_and_a_copy_of_all_is_not(home: Path, tmp_path: Path) -> None:
    path = filled(home, 20)
    shutil.copy(path, tmp_path / "older")
    filled(home, 33)
    shutil.copy(path, tmp_path / "newest")
    shutil.copy(tmp_path / "older", path)
    assert "held 33 answers and 53 lines of the ledger, and holds 20 answers and 20 lines" in refused(path)
    shutil.copy(tmp_path / "newest", path)
    open_responses(path).close()
    shutil.copy(tmp_path / "older", path)
    assert cli("forget", "--home", home)[0] == 0
    open_responses(path).close()


def test_the_store_of_another_home_is_noticed(home: Path, tmp_path: Path) -> None:
    path, other = filled(home, 2), filled(tmp_path / "other", 5)
    shutil.copy(other, path)
    assert "held 2 answers" in refused(path)


def test_stores_of_other_names_in_a_folder_are_others(home: Path) -> None:
    filled(home, 2)
    for _ in range(2):
        with closing(open_responses(home / "llm" / "other.sqlite")) as store:
            put(store, answers(1))
    open_responses(path_in(home)).close()


def test_a_store_that_moves_with_its_home_is_the_same(home: Path, tmp_path: Path) -> None:
    filled(home, 2)
    shutil.copytree(home, tmp_path / "moved")
    open_responses(path_in(tmp_path / "moved")).close()


def test_a_store_that_was_never_filled_may_be_replaced(home: Path) -> None:
    path = filled(home, 0)
    path.unlink()
    open_responses(path).close()


def test_purged_records_are_not_missed_and_others_are(home: Path, tmp_path: Path) -> None:
    path = filled(home, 10)
    shutil.copy(path, tmp_path / "before")
    with closing(open_responses(path)) as store:
        assert store.purge([key(n) for n in range(6)]) == 6
    open_responses(path).close()
    shutil.copy(tmp_path / "before", path)
    open_responses(path).close()  # as much was ever in it; the takedown is for the next build to repeat
    sql(path, f"DELETE FROM response WHERE key = x'{key(8)}'")
    refused(path)


def test_reading_neither_looks_at_what_is_remembered_nor_changes_it(home: Path) -> None:
    path = filled(home, 3)
    remembered = (home / "llm" / "store.json").read_bytes()
    path.unlink()
    with closing(open_responses(path, read_only=True)) as store:
        assert list(store.scan()) == []
    assert (home / "llm" / "store.json").read_bytes() == remembered
    assert not path.exists()


@pytest.mark.parametrize("content", ["", "[1]", "{}", '{"id": "a", "records": "many", "purged": 0, "lines": 0}'])
def test_a_damaged_memory_is_reported(home: Path, content: str) -> None:
    path = filled(home, 1)
    (home / "llm" / "store.json").write_text(content)
    with pytest.raises(StoreError, match=r"store\.json is damaged"):
        open_responses(path)
    assert cli("forget", "--home", home)[0] == 0
    open_responses(path).close()


def test_what_a_killed_process_stored_is_remembered_soon(home: Path) -> None:
    child = os.fork()
    if child == 0:
        store = open_responses(path_in(home))
        put(store, answers(7))
        while json.loads((home / "llm" / "store.json").read_text())["records"] != 7:
            put(store, answers(7))
        os._exit(9)
    assert os.waitpid(child, 0)[1] >> 8 == 9
    path_in(home).unlink()
    for log in home.glob("llm/responses.sqlite-*"):
        log.unlink()
    assert "held 7 answers" in refused(path_in(home))


@pytest.fixture
def url(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("LONGFORM_RESPONSES", postgres_url)
    return postgres_url


@pytest.mark.check
def test_a_database_is_remembered_and_checked_as_a_file_is(home: Path, postgres: Server, url: str) -> None:
    def opened() -> None:
        open_responses(url, home=home).close()

    with closing(open_responses(url, home=home)) as store:
        put(store, answers(4), [PAID])
    opened()
    postgres.execute(f"UPDATE longform.response SET body = 'x' WHERE key = '\\x{key(1)}'", url)
    code, said = cli("check", "--home", home)
    assert (code, said.splitlines()[0]) == (1, key(1))
    assert cli("check", "--drop", "--home", home)[0] == 0
    opened()
    postgres.execute("DELETE FROM longform.ledger", url)
    with pytest.raises(StoreError, match="held 3 answers and 1 lines of the ledger, and holds 3 answers and 0 lines"):
        opened()
    other = postgres.database()
    with pytest.raises(
        StoreError, match=r"is not the one that this home used: the response store at .* held 3 answers"
    ):
        open_responses(other, home=home)
    with pytest.raises(StoreError, match="is not the one that this home used"):
        open_responses(path_in(home))
    open_responses(url, read_only=True).close()
    assert postgres.password not in (home / "llm" / "store.json").read_text()
    assert cli("forget", "--home", home)[0] == 0
    open_responses(other, home=home).close()


@pytest.mark.check
def test_a_purge_by_one_home_is_not_missed_by_another(home: Path, tmp_path: Path, url: str) -> None:
    for each in (home, tmp_path / "other"):
        with closing(open_responses(url, home=each)) as store:
            put(store, answers(9))
    with closing(open_responses(url, home=home)) as store:
        store.purge([key(n) for n in range(9)])
    open_responses(url, home=tmp_path / "other").close()


# ---------------------------------------------------------------- opened and closed


def test_a_store_may_be_opened_and_closed_by_many_threads_at_once_and_twice(home: Path) -> None:
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                store = open_responses(path_in(home))
                put(store, [(key(100 * number + turn), FULL)])
                closing_twice = [threading.Thread(target=store.close) for _ in range(2)]
                for thread in closing_twice:
                    thread.start()
                for thread in closing_twice:
                    thread.join()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    with closing(open_responses(path_in(home))) as store:
        assert len(list(store.scan())) == 20


def test_the_latest_answers_are_those_with_the_latest_time(home: Path) -> None:
    """An import adds old answers last."""
    late = [(key(n), replace(FULL, output_tokens=10, created=2e9 + n)) for n in range(300)]
    early = [(key(1_000 + n), replace(FULL, output_tokens=99, created=1e9 + n)) for n in range(300)]
    with closing(open_responses(path_in(home))) as store:
        put(store, late)
        store.add(early)
        usage = store.usage("test", "m", "axioms/corrupt")
        assert usage is not None
        assert usage.output_tokens == 10


@pytest.mark.parametrize("chosen", ["full", "normal", ""])
def test_the_setting_says_whether_commits_wait_for_the_disk(
    home: Path, monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    """strace would see it; so does the log, which SQLite syncs at each commit only with `full`."""
    monkeypatch.setenv("LONGFORM_DURABILITY", chosen)
    syncs = syncs_of(home)
    assert (syncs > 20) == (chosen != "normal"), syncs


def syncs_of(home: Path) -> int:
    """How often a process syncs a file while it puts 30 answers one after the other."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    code = f"""
import asyncio, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_responses_damage import answers, path_in, put
from pathlib import Path
from longform.llm.responses.store import open_responses
store = open_responses(path_in(Path({str(home)!r})))
for answer in answers(30):
    put(store, [answer])
store.close()
"""
    command = ["strace", "-f", "-c", "-e", "trace=fsync,fdatasync", sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    assert done.returncode == 0, done.stderr
    return sum(int(line.split()[3]) for line in done.stderr.splitlines() if "sync" in line.split()[-1:][0])


def test_another_setting_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGFORM_DURABILITY", "off")
    with pytest.raises(UsageError, match="LONGFORM_DURABILITY is 'off': set it to full or normal"):
        open_responses(path_in(home))


# ---------------------------------------------------------------- failed runs of a question


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.check)])
def store(request: pytest.FixtureRequest, home: Path) -> Iterator[ResponseStore]:
    sqlite = request.param == "sqlite"
    with closing(open_responses(path_in(home) if sqlite else request.getfixturevalue("postgres_url"))) as opened:
        yield opened


def test_the_runs_in_which_a_question_failed_are_counted_once_each(store: ResponseStore) -> None:
    def note(run: str, **faults: str) -> dict[str, int]:
        return asyncio.run(store.note_failed({key(int(name[1:])): fault for name, fault in faults.items()}, run))

    assert note("a", k1="cut off", k2="no JSON \ud800") == {key(1): 1, key(2): 1}
    assert note("a", k1="cut off again") == {key(1): 1}
    assert note("b", k1="500") == {key(1): 2}
    assert note("a", k1="late") == {key(1): 2}
    assert store.failing([key(1), key(2), key(3)]) == {key(1): (2, "late"), key(2): (1, "no JSON ?")}
    assert store.failing([]) == {}
    put(store, [(key(1), replace(FULL, code="unusable"))])
    assert store.failing([key(1)]) == {key(1): (2, "late")}
    put(store, [(key(1), FULL), (key(2), replace(FULL, state=TOMBSTONE, code="request"))])
    assert store.failing([key(1), key(2)]) == {}
    assert note("c", k2="500") == {key(2): 1}
    store.purge([key(2)])
    assert store.failing([key(2)]) == {}
