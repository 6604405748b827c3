import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from longform.errors import BusyError, StoreError
from longform.llm.keys import request_key
from longform.llm.store import TOMBSTONE, Record, open_responses

REPO = Path(__file__).parents[1]
KEY = request_key("test", "/chat/completions", {"model": "m"})
RECORD = Record(
    endpoint="test",
    model="m",
    task="axioms/corrupt",
    prompt="hash",
    request=b'{"model":"m"}',
    body=b'{"choices":[]}' * 100,
    finish="stop",
    served_model="m-1",
    input_tokens=7,
    output_tokens=3,
    token_limit=99,
    milliseconds=12,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "llm" / "responses.sqlite"


def test_what_was_put_is_there_after_reopening(path: Path) -> None:
    store = open_responses(path)
    assert store.get(KEY) is None
    store.put(KEY, RECORD)
    store.close()
    store = open_responses(path)
    assert store.get(KEY) == RECORD
    store.close()


def test_a_later_record_takes_the_place_of_an_earlier_one(path: Path) -> None:
    store = open_responses(path)
    store.put(KEY, RECORD)
    tombstone = Record("test", "m", "t", "", b"{}", b"too long", state=TOMBSTONE, code="request")
    store.put(KEY, tombstone)
    assert store.get(KEY) == tombstone
    store.close()


def test_the_columns_say_what_was_paid_for_without_our_code(path: Path) -> None:
    store = open_responses(path)
    store.put(KEY, RECORD)
    store.close()
    database = sqlite3.connect(path)
    row = database.execute("SELECT lower(hex(key)), task, served_model, ptok, ctok, state FROM response").fetchone()
    settings = [database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "journal_mode")]
    assert database.execute("SELECT v FROM meta WHERE k = 'key_version'").fetchone() == ("1",)
    database.close()
    assert row == (KEY, "axioms/corrupt", "m-1", 7, 3, 0)
    assert settings == [1, "wal"]


def test_a_record_outlives_a_process_that_dies_right_after_putting_it(path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from longform.llm.store import Record, open_responses;"
        "open_responses(Path(sys.argv[1])).put(sys.argv[2], Record('e', 'm', 't', 'p', b'{}', b'paid'));"
        "os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", code, str(path), KEY], cwd=REPO, check=False)
    store = open_responses(path)
    record = store.get(KEY)
    store.close()
    assert record is not None
    assert record.body == b"paid"


def test_all_of_a_process_share_one_store_and_other_processes_are_kept_out(path: Path) -> None:
    first, second = open_responses(path), open_responses(path)
    assert first is second
    first.close()
    second.put(KEY, RECORD)
    code = (
        "import sys; from pathlib import Path; from longform.llm.store import open_responses as o; o(Path(sys.argv[1]))"
    )
    other = subprocess.run(
        [sys.executable, "-c", code, str(path)], cwd=REPO, capture_output=True, text=True, check=False
    )
    second.close()
    assert BusyError.__name__ in other.stderr
    assert "is in use by process" in other.stderr
    open_responses(path).close()


def test_threads_may_put_and_get_at_once(path: Path) -> None:
    store = open_responses(path)
    keys = [request_key("test", "/x", {"n": n}) for n in range(200)]

    def put(part: list[str]) -> None:
        for key in part:
            store.put(key, RECORD)

    threads = [threading.Thread(target=put, args=(keys[start::4],)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(store.get(key) == RECORD for key in keys)
    store.close()


@pytest.mark.parametrize("sql", ["PRAGMA user_version = 2", "UPDATE meta SET v = '7'", "DELETE FROM meta"])
def test_a_store_of_another_release_is_refused_untouched(path: Path, sql: str) -> None:
    open_responses(path).close()
    database = sqlite3.connect(path, isolation_level=None)
    database.execute(sql)
    database.close()
    with pytest.raises(StoreError, match="this release reads format 1 with keys of version 1"):
        open_responses(path)


def test_a_damaged_store_is_told_with_its_path(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is not a database, it only has the name of one" * 100)
    with pytest.raises(StoreError, match=r"responses\.sqlite"):
        open_responses(path)
    path.unlink()
    open_responses(path).close()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be used"):
        open_responses(tmp_path / "file" / "responses.sqlite")
