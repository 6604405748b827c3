"""What every response store does, on SQLite and on a real PostgreSQL; and what only several processes see."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import asyncpg
import paths
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from postgresql import Server
from processes import started
from stored_responses import FULL, key, lease, paid, put

from longform.errors import StoreError
from longform.llm.responses.groups import MOST_IN_A_GROUP
from longform.llm.responses.postgres import PostgresDatabase
from longform.llm.responses.records import TOMBSTONE, Job, Record
from longform.llm.responses.store import ResponseStore, open_responses

pytestmark = pytest.mark.check

REPO = paths.ROOT
STONE = Record("test", "m", "t", "", b"{}", b"too long", state=TOMBSTONE, code="request", created=1.0)


def made(number: int, **fields: object) -> Record:
    return Record("test", "m", "t", "p", b"{}", b"%d" % number, created=float(number), **fields)  # type: ignore[arg-type]


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ResponseStore]:
    sqlite = request.param == "sqlite"
    opened = open_responses(tmp_path / "responses.sqlite" if sqlite else request.getfixturevalue("postgres_url"))
    yield opened
    opened.close()


@pytest.fixture
def mine(postgres_url: str) -> Iterator[ResponseStore]:
    opened = ResponseStore(PostgresDatabase(postgres_url))
    yield opened
    opened.close()


@pytest.fixture
def theirs(postgres_url: str) -> Iterator[ResponseStore]:
    opened = ResponseStore(PostgresDatabase(postgres_url))
    yield opened
    opened.close()


# every store


def test_what_was_put_is_there_and_a_later_one_takes_its_place(store: ResponseStore) -> None:
    assert store.get([key(1)]) == {}
    put(store, [(key(1), FULL), (key(2), STONE)])
    assert store.get([key(2), key(3), key(1)]) == {key(1): FULL, key(2): STONE}
    put(store, [(key(1), STONE), (key(2), STONE), (key(2), FULL)])
    assert store.get([key(1), key(2)]) == {key(1): STONE, key(2): FULL}


def test_the_store_dates_what_has_no_date(store: ResponseStore) -> None:
    before = time.time()
    put(store, [(key(1), Record("e", "m", "t", "", b"{}"))])
    created = store.get([key(1)])[key(1)].created
    assert created is not None
    assert before <= created <= time.time()


def test_the_ledger_adds_up_by_stage_in_the_order_of_payment(store: ResponseStore) -> None:
    put(store, [], [paid(1, stage="score", recipe="f2"), paid(2), paid(3, answered=False, cost_nano=None)])
    put(store, [(key(4), FULL)], [paid(4, batch=True, cost_nano=10**15), paid(5, dataset="other"), paid(2)])
    corrupt = {"stage": "corrupt", "endpoint": "test", "model": "m", "batch": False, "calls": 3, "unanswered": 1}
    corrupt |= {"input_tokens": 21, "cached_tokens": 6, "output_tokens": 9, "reasoning_tokens": 3}
    corrupt |= {"cost_nano": 90, "unpriced": 1}
    one = {"calls": 1, "unanswered": 0, "input_tokens": 7, "cached_tokens": 2, "output_tokens": 3, "unpriced": 0}
    one |= {"reasoning_tokens": 1}
    score, batch = corrupt | one | {"stage": "score", "cost_nano": 45}, corrupt | one | {"cost_nano": 10**15}
    assert store.ledger("axioms") == [score, corrupt, batch | {"batch": True}]
    assert store.ledger("axioms", ["f2", "f3"]) == [score]
    assert store.ledger("axioms", []) == []
    assert store.ledger("none") == []


def test_usage_is_of_answers_of_this_task_only(store: ResponseStore) -> None:
    assert store.usage("test", "m", "t") is None
    put(store, [(key(1), STONE), (key(2), FULL)])
    assert store.usage("test", "m", "t") is None
    numbers = range(1, 11)
    request = b"x" * 100
    sizes = {n: {"input_tokens": 10 * n, "output_tokens": n, "milliseconds": 100 * n} for n in numbers}
    put(store, [(key(10 + n), Record("test", "m", "t", "", request, **sizes[n], created=float(n))) for n in numbers])
    usage = store.usage("test", "m", "t")
    assert usage is not None
    assert (usage.answers, usage.input_tokens_per_byte) == (10, 0.55)
    assert (usage.output_tokens, usage.output_tokens_p90, usage.milliseconds) == (5.5, 9, 550.0)


def test_stats_count_answers_and_errors(store: ResponseStore) -> None:
    put(store, [(key(1), FULL), (key(2), FULL), (key(3), STONE), (key(4), made(1))])
    tokens = {"input_tokens": 14, "output_tokens": 6, "cost_nano": 2 * 2**40}
    none = dict.fromkeys(tokens, 0)
    first, second = store.stats()
    assert first.pop("bytes") > 0
    assert second.pop("bytes") > 0
    assert first == {"endpoint": "test", "model": "m", "task": "axioms/corrupt", "answers": 2, "errors": 0} | tokens
    assert second == {"endpoint": "test", "model": "m", "task": "t", "answers": 1, "errors": 1} | none


def test_scan_goes_through_all_or_some_in_the_order_of_keys(store: ResponseStore) -> None:
    numbers = random.Random(1).sample(range(10**9), 700)
    put(store, [(key(number), made(number)) for number in numbers])
    assert list(store.scan()) == [(key(number), made(number)) for number in sorted(numbers)]
    some = numbers[:300]
    asked = {key(number) for number in some} | {key(10**9 + 1)}
    assert list(store.scan(asked)) == [(key(number), made(number)) for number in sorted(some)]
    assert list(store.scan([])) == []


def test_add_keeps_what_is_there_and_counts_the_new(store: ResponseStore) -> None:
    put(store, [(key(1), FULL)])
    others = ((key(number), made(number)) for number in range(601))
    assert store.add(others) == 600
    assert store.add([(key(0), FULL), (key(900), FULL), (key(900), STONE)]) == 1
    assert store.get([key(0), key(1), key(900)]) == {key(0): made(0), key(1): FULL, key(900): FULL}
    assert store.ledger("axioms") == []


def test_purged_records_are_gone_and_what_was_paid_for_them_is_not(store: ResponseStore) -> None:
    put(store, [(key(number), FULL) for number in range(1, 1_500)], [paid()])
    assert store.purge([key(number) for number in range(1_000, 3_000)] + [key(1_000)]) == 500
    assert [found for found, _ in store.scan()] == [key(number) for number in range(1, 1_000)]
    assert store.purge([key(2_000)]) == store.purge([]) == 0
    assert store.ledger("axioms")[0]["calls"] == 1
    put(store, [(key(1_200), FULL)])
    assert store.get([key(1_200)]) == {key(1_200): FULL}


def test_a_job_is_written_down_followed_and_forgotten(store: ResponseStore) -> None:
    job = Job("j1", "test", "STAGED", 3, reserved_nano=9, created=2.0, context='{"stage":"s"}')
    store.stage_job(job, [key(3), key(1), key(2)])
    store.stage_job(Job("j0", "other", "STAGED", 1, created=1.0), [key(4)])
    assert store.job_keys("j1") == [key(3), key(1), key(2)]
    assert [found.name for found in store.jobs()] == ["j0", "j1"]
    assert store.jobs("test") == [job]
    store.update_job("j1", state="SUBMITTED", remote="batch_1", input_file="file_1")
    (found,) = store.jobs("test")
    assert (found.state, found.remote, found.input_file, found.requests) == ("SUBMITTED", "batch_1", "file_1", 3)
    store.update_job("j1", state="GONE")
    assert store.jobs("test") == []
    store.stage_job(job, [key(1)])
    assert (store.jobs("test"), store.job_keys("j1")) == ([job], [key(1)])


def test_threads_and_loops_may_put_and_get_at_once(store: ResponseStore) -> None:
    def work(part: int) -> None:
        async def puts() -> None:
            await asyncio.gather(*[store.put([(key(n), made(n))], [paid(n)]) for n in range(part, 200, 4)])

        asyncio.run(puts())
        assert len(store.get([key(n) for n in range(part, 200, 4)])) == 50

    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(store.scan())) == 200
    assert store.ledger("axioms")[0]["calls"] == 200


def test_a_number_without_end_does_not_cost_the_reply(store: ResponseStore) -> None:
    put(store, [(key(1), made(1, input_tokens=10**30)), (key(2), made(2))])
    assert store.get([key(1)])[key(1)].body == b"1"
    assert store.get([key(2)]) == {key(2): made(2)}


# PostgreSQL: content


ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=[]), max_size=20)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200), texts=st.lists(ANY_TEXT, min_size=5, max_size=5))
def test_any_bytes_and_any_text_come_back_as_they_were(mine: ResponseStore, content: bytes, texts: list[str]) -> None:
    endpoint, task, finish, model, dataset = texts
    record = Record(endpoint, "m", task, "", content, content, finish=finish, served_model=model, created=1.0)
    put(mine, [(key(1), record)], [paid(dataset=dataset, stage=task)])
    assert mine.get([key(1)]) == {key(1): record}
    assert task in [line["stage"] for line in mine.ledger(dataset)]


def test_columns_can_be_read_without_our_code(postgres: Server, postgres_url: str, mine: ResponseStore) -> None:
    put(mine, [(key(1), FULL)], [paid()])
    query = "SELECT encode(key, 'hex'), task, served_model, input_tokens, cost_nano, state FROM longform.response"
    assert [tuple(row) for row in postgres.execute(query, postgres_url)] == [
        (key(1), "axioms/corrupt", "m-1", 7, 2**40, 0)
    ]
    meta = postgres.execute("SELECT k, v FROM longform.meta", postgres_url)
    assert {name: dict(meta)[name] for name in ("format", "key_version")} == {"format": "2", "key_version": "1"}


def test_a_thousand_puts_share_few_transactions(postgres: Server, postgres_url: str, mine: ResponseStore) -> None:
    keys = [key(number) for number in range(2_000)]

    async def puts() -> None:
        """The first transaction waits until all of them are asked for."""
        blocking = await asyncpg.connect(postgres_url)
        async with blocking.transaction():
            await blocking.execute("LOCK TABLE longform.response")
            tasks = [asyncio.create_task(mine.put([(name, FULL)], [paid(n)])) for n, name in enumerate(keys)]
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        await blocking.close()

    before = time.perf_counter()
    asyncio.run(puts())
    between = time.perf_counter()
    assert len(mine.get(keys)) == 2_000
    after = time.perf_counter()
    print(f"\nput {2_000 / (between - before):,.0f} a second, got {2_000 / (after - between):,.0f} a second")
    # xmin is the transaction that wrote a row
    ((transactions,),) = postgres.execute("SELECT count(DISTINCT xmin::text) FROM longform.response", postgres_url)
    assert transactions <= 1 + -(-len(keys) // MOST_IN_A_GROUP)
    assert mine.ledger("axioms")[0]["calls"] == 2_000


# PostgreSQL: several processes


def test_a_lease_is_granted_to_one_at_a_time(mine: ResponseStore, theirs: ResponseStore) -> None:
    assert lease(mine, key(1), key(2)) == {key(1), key(2)}
    assert lease(theirs, key(1), key(2), key(3)) == {key(3)}
    assert lease(mine, key(1)) == {key(1)}
    asyncio.run(theirs.release([key(1)]))
    assert lease(theirs, key(1)) == set()
    asyncio.run(mine.release([key(1)]))
    assert lease(theirs, key(1)) == {key(1)}


def test_an_answer_ends_the_lease_and_nobody_is_granted_another(mine: ResponseStore, theirs: ResponseStore) -> None:
    broken = made(2, code="unusable")
    assert lease(mine, key(0), key(1), key(2)) == {key(0), key(1), key(2)}
    put(mine, [(key(0), FULL), (key(1), STONE), (key(2), broken)])
    assert lease(theirs, key(0), key(1), key(2)) == {key(1), key(2)}
    assert lease(mine, key(0)) == set()
    assert theirs.get([key(0)]) == {key(0): FULL}


def test_closing_gives_leases_back(postgres_url: str, mine: ResponseStore) -> None:
    other = ResponseStore(PostgresDatabase(postgres_url))
    assert lease(other, key(1)) == {key(1)}
    other.close()
    assert lease(mine, key(1)) == {key(1)}


def test_two_who_want_the_same_keys_ask_for_each_once(mine: ResponseStore, theirs: ResponseStore) -> None:
    """As workers do: ask where granted, else look for the other's answer. Overlapping groups in any order."""
    asked: Counter[str] = Counter()

    async def work(store: ResponseStore, seed: int) -> None:
        shuffled = random.Random(seed).sample(range(120), 120)
        groups = [[key(n) for n in shuffled[at : at + 3]] for at in range(0, 120, 3)]
        await asyncio.gather(*[answered(store, group) for group in groups])

    async def answered(store: ResponseStore, group: list[str]) -> None:
        missing = set(group)
        while missing:
            granted = await store.lease(list(missing))
            asked.update(granted)
            await asyncio.sleep(random.uniform(0, 0.01))
            if granted:
                await store.put([(name, FULL) for name in granted], [paid() for _ in granted])
            missing -= (await asyncio.to_thread(store.get, list(missing))).keys()

    threads = [threading.Thread(target=asyncio.run, args=(work(s, n),)) for n, s in enumerate([mine, theirs])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert asked == Counter({key(n): 1 for n in range(120)})
    assert mine.ledger("axioms")[0]["calls"] == 120


HOLD = """
import asyncio, sys
from longform.llm.responses.postgres import PostgresDatabase
from longform.llm.responses.store import ResponseStore
store = ResponseStore(PostgresDatabase(sys.argv[1], lease_seconds=float(sys.argv[2])))
print(len(asyncio.run(store.lease(sys.argv[3:]))), flush=True)
sys.stdin.read()
"""


def test_a_killed_process_loses_its_leases_and_a_living_one_does_not(postgres: Server, postgres_url: str) -> None:
    """Time is moved on in the database: waiting for it, a process that is held up for long would lose its lease."""
    seconds = 20.0

    def left() -> float:
        ((found,),) = postgres.execute("SELECT extract(epoch FROM until - now()) FROM longform.lease", postgres_url)
        return float(found)

    def move_on() -> None:
        postgres.execute(f"UPDATE longform.lease SET until = until - interval '{seconds} seconds'", postgres_url)

    command = [sys.executable, "-c", HOLD, postgres_url, str(seconds), key(1)]
    with started(command, cwd=REPO, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        store = ResponseStore(PostgresDatabase(postgres_url, lease_seconds=seconds))
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"1\n"
            move_on()
            deadline = time.monotonic() + 600
            while left() < 0.5 * seconds:
                assert time.monotonic() < deadline, "the lease is not renewed"
                time.sleep(0.05)
            assert lease(store, key(1)) == set()
            holder.kill()
            holder.wait()
            assert left() <= seconds
            move_on()
            assert lease(store, key(1)) == {key(1)}
        finally:
            store.close()


FIRST = """
import asyncio, sys
from longform.llm.responses.postgres import PostgresDatabase
from longform.llm.responses.store import ResponseStore
from longform.llm.responses.records import Record
print("ready", flush=True)
sys.stdin.readline()
store = ResponseStore(PostgresDatabase(sys.argv[1]))
asyncio.run(store.put([(sys.argv[2], Record("e", "m", "t", "", b"{}"))]))
store.close()
"""


def test_four_may_be_the_first_to_open_a_database(postgres_url: str) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    commands = [[sys.executable, "-c", FIRST, postgres_url, key(number)] for number in range(4)]
    with ExitStack() as stack:
        workers = [stack.enter_context(started(command, cwd=REPO, **pipes)) for command in commands]
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"ready\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write(b"go\n")
            worker.stdin.flush()
        for worker in workers:
            worker.communicate(timeout=600)
        assert [worker.returncode for worker in workers] == [0] * 4
    store = ResponseStore(PostgresDatabase(postgres_url))
    assert len(list(store.scan())) == 4
    store.close()


def test_a_batch_under_way_is_not_staged_again(mine: ResponseStore, theirs: ResponseStore) -> None:
    job = Job("j1", "test", "STAGED", 1, created=1.0)
    mine.stage_job(job, [key(1)])
    theirs.stage_job(job, [key(1)])
    mine.update_job("j1", state="SUBMITTED", remote="batch_1")
    with pytest.raises(StoreError, match="Batch j1 is under way"):
        theirs.stage_job(job, [key(1)])
    assert theirs.jobs()[0].remote == "batch_1"


# PostgreSQL: faults


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_puts_go_on_over_a_restart_and_are_booked_once(
    postgres: Server, mine: ResponseStore, how: signal.Signals
) -> None:
    stored = threading.Event()
    over = threading.Event()
    count = 0

    async def put_on() -> None:
        nonlocal count
        while not over.is_set():
            numbers = range(count, count + 20)
            await asyncio.gather(*[mine.put([(key(n), made(n))], [paid(n)]) for n in numbers])
            count += 20
            stored.set()

    working = threading.Thread(target=asyncio.run, args=(put_on(),))
    working.start()
    try:
        assert stored.wait(600)
        postgres.stop(how)
    finally:
        postgres.start()
        stored.clear()
        stored.wait(600)
        over.set()
        working.join()
    assert len(list(mine.scan())) == count
    assert mine.ledger("axioms")[0]["calls"] == count


@contextmanager
def losing_the_first_commit(port: int) -> Iterator[tuple[int, list[bytes]]]:
    """A way to the server that breaks when it has committed, before the client hears of it. Its port; what was lost."""
    lost: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))
    armed = threading.Event()

    async def one_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, from_client: bool) -> None:
        try:
            while content := await reader.read(65536):
                if from_client and b"COMMIT" in content and b"INTO longform.ledger" in seen and not lost:
                    armed.set()
                if from_client:
                    seen.extend(content)
                if not from_client and armed.is_set() and not lost:
                    lost.append(content)
                    return
                writer.write(content)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    seen = bytearray()

    async def both_ways(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        try:
            ways = [one_way(reader, back, True), one_way(there, writer, False)]
            await asyncio.wait(map(asyncio.ensure_future, ways), return_when=asyncio.FIRST_COMPLETED)
        finally:
            writer.close()
            back.close()

    async def serve() -> None:
        server = await asyncio.start_server(both_ways, sock=listener)
        while not done.is_set():
            await asyncio.sleep(0.01)
        server.close()
        pending = asyncio.all_tasks() - {asyncio.current_task()}
        if pending:
            await asyncio.wait(pending, timeout=600)

    done = threading.Event()
    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        yield listener.getsockname()[1], lost
    finally:
        done.set()
        thread.join()
        listener.close()


def test_a_put_whose_commit_was_not_heard_of_is_booked_once(postgres: Server, postgres_url: str) -> None:
    with losing_the_first_commit(postgres.port) as (port, lost):
        store = ResponseStore(PostgresDatabase(postgres_url.replace(f":{postgres.port}/", f":{port}/")))
        put(store, [(key(1), FULL)], [paid(1)])
        assert b"COMMIT" in lost[0]
        assert store.get([key(1)]) == {key(1): FULL}
        assert store.ledger("axioms")[0]["calls"] == 1
        store.close()


def test_a_store_can_be_closed_while_the_server_is_away(postgres: Server, postgres_url: str) -> None:
    store = ResponseStore(PostgresDatabase(postgres_url))
    lease(store, key(1))
    postgres.stop()
    try:
        before = time.monotonic()
        store.close()
        assert time.monotonic() - before < 30
    finally:
        postgres.start()
    with pytest.raises(StoreError, match="is closed"):
        store.get([key(1)])
    with pytest.raises(StoreError, match="is closed"):
        lease(store, key(1))


def opening(url: str, *secrets: str) -> str:
    """What is said of a URL that cannot be opened; no log that shows where it came from has the secrets."""
    with pytest.raises(StoreError) as told:
        ResponseStore(PostgresDatabase(url))
    shown = "".join(traceback.format_exception(told.value))
    assert not any(secret in shown for secret in secrets)
    assert told.value.__cause__ is None
    return str(told.value)


def test_what_cannot_be_opened_is_reported_without_secrets(postgres: Server) -> None:
    place = f"127.0.0.1:{postgres.port}"
    secrets = ("s3cret-canary", postgres.password)
    wrong = opening(postgres.url(password="s3cret-canary"), *secrets)
    assert f"The response store at {place}/postgres refuses this user: check user and password" in wrong
    nowhere = opening(postgres.url("nowhere"), *secrets)
    assert f"{place}/nowhere has no database of this name" in nowhere
    unknown = opening("postgresql://owner:s3cret-canary@nobody.invalid/x", *secrets)
    assert "nobody.invalid:5432/x cannot be reached (gaierror)" in unknown
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        silent = opening(f"postgresql://owner:s3cret-canary@127.0.0.1:{port}/x", *secrets)
    assert f"127.0.0.1:{port}/x cannot be reached (ConnectionRefusedError)" in silent
    assert not any("owner" in message for message in (wrong, nowhere, unknown, silent))


def test_too_few_rights_are_reported(postgres: Server, postgres_url: str) -> None:
    postgres.execute("CREATE ROLE guest LOGIN PASSWORD 'guest-canary'")
    database = postgres_url.rpartition("/")[2]
    message = opening(postgres.url(database, user="guest", password="guest-canary"), "guest-canary")
    assert "too few rights: grant CREATE on the database" in message
    assert "guest" not in message


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://bob:can@ry@host/db",
        "postgresql://bob:can/ary@host/db",
        "postgresql://bob:can#ary@host/db",
        "postgresql://bob:can?ary@host/db",
        "postgresql://bob:can[ary@host/db",
        "postgresql://bob:canary/db",
        "postgresql://bob:canary@host:port/db",
        "postgresql://bob:canary@host:99999999/db?sslmode=sideways",
    ],
)
def test_a_url_that_cannot_be_read_is_not_shown(url: str) -> None:
    message = opening(url)
    assert "cannot be read as postgresql://user:password@host:port/database" in message
    assert not any(part in message for part in ("can@", "canary", "can/", "can#", "can?", "can[", "bob", "ary@"))


@pytest.mark.parametrize("change", ["UPDATE longform.meta SET v = '7' WHERE k = 'format'", "DELETE FROM longform.meta"])
def test_a_store_of_another_release_is_refused(postgres: Server, postgres_url: str, change: str) -> None:
    ResponseStore(PostgresDatabase(postgres_url)).close()
    postgres.execute(change, postgres_url)
    assert "this release reads formats 1 and 2 with keys of version 1: use the release that wrote it" in opening(
        postgres_url
    )
    ResponseStore(PostgresDatabase(postgres.database())).close()


def test_nothing_is_left_running(postgres_url: str) -> None:
    before = set(threading.enumerate())
    with pytest.raises(StoreError):
        ResponseStore(PostgresDatabase(postgres_url.replace("owner", "nobody")))
    ResponseStore(PostgresDatabase(postgres_url)).close()
    assert not set(threading.enumerate()) - before  # those of other tests may end meanwhile
