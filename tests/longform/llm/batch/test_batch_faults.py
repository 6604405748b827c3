"""Batches at a provider that loses answers, lists late, creates twice, cuts files and miscounts: each bought once."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import paths
import pytest
from standin_server import serve

from longform.errors import EndpointError, Incomplete, StoreError
from longform.llm.ask.types import Answer, Endpoint, Failure, Price, Request
from longform.llm.batch.collect import SHORT_SECONDS
from longform.llm.batch.jobs import prefetch
from longform.llm.batch.remote import SEARCH_SECONDS
from longform.llm.batch.replies import LINE_BYTES
from longform.llm.models import Models
from longform.llm.price import Budget
from longform.llm.responses.records import TOMBSTONE
from longform.llm.responses.store import open_responses
from longform.llm.send.wire import Wire
from tests.longform.llm.batch.test_batch import (
    CHILDS,
    COST,
    CREATED,
    KEY,
    SUBMITTED,
    UPLOADED,
    Killed,
    Place,
    Provider,
    completion,
    items_of,
    keep,
)

REPO = paths.ROOT
CHAT = "POST /v1/chat/completions"


class Faulty(Provider):
    """A provider that counts what it charges for (`bought`: key -> times). `late`: so many times the list does not show
    a new batch. `knows_keys`: it honours idempotency keys. `cut`: what is served of a file in place of its content,
    each once. `lie`: added to the answers that it counts. `half`: answers that a cancelled batch has finished.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bought: Counter[str] = Counter()
        self.late, self.knows_keys, self.lie, self.half = 0, False, 0, 0
        self.unseen: dict[str, int] = {}
        self.by_key: dict[str, dict[str, Any]] = {}
        self.cut: list[Callable[[bytes], bytes | Iterator[bytes]]] = []
        self.inputs: set[str] = set()
        self.slow_seconds = 0.0
        self.sizes_known = True

    def post(self, body: dict[str, Any], key: str | None) -> tuple[int, Any]:
        time.sleep(self.slow_seconds)
        if self.knows_keys and key in self.by_key:
            return 200, self.by_key[key]
        status, made = self.create(body)
        if status == 200:
            self.unseen[made["id"]] = self.late
            self.by_key[str(key)] = made
            self.inputs.add(made["input_file_id"])
        return status, made

    def listed(self) -> list[str]:
        seen = [name for name in super().listed() if self.unseen.get(name, 0) <= 0]
        self.unseen = {name: left - 1 for name, left in self.unseen.items()}
        return seen

    def content(self, name: str) -> bytes | Iterator[bytes]:
        content = super().content(name)
        assert isinstance(content, bytes)
        return self.cut.pop(0)(content) if self.cut and name not in self.inputs else content

    def size(self, name: str) -> dict[str, Any]:
        return super().size(name) | ({"bytes": len(self.files.get(name, b""))} if self.sizes_known else {})

    def poll(self, batch: dict[str, Any]) -> dict[str, Any]:
        if batch["status"] == "cancelling":
            self.finish(batch, "cancelled", most=self.half)
            return batch
        return super().poll(batch)

    def finish(self, batch: dict[str, Any], status: str = "completed", most: int | None = None) -> None:
        super().finish(batch, status, most)
        lines = [self.files[str(batch[f"{kind}_file_id"])] if batch[f"{kind}_file_id"] else b"" for kind in KINDS]
        good, bad = ({json.loads(line)["custom_id"] for line in content.splitlines()} for content in lines)
        self.bought.update(good)
        total = len(self.files[batch["input_file_id"]].splitlines())
        batch["request_counts"] = {"total": total, "completed": len(good) + self.lie, "failed": len(bad)}


KINDS = ("output", "error")


@pytest.fixture
def provider() -> Iterator[Faulty]:
    made = Faulty()
    yield made
    made.close()


@pytest.fixture
def place(provider: Faulty, tmp_path: Path) -> Place:
    return Place(provider, tmp_path)


def creations(provider: Provider) -> int:
    return provider.log.count("POST /batches")


# creating


@pytest.mark.parametrize("what", ["lost", "garbage", "hold"])
def test_a_job_whose_creation_got_no_answer_is_found_although_the_list_is_late(
    what: str, place: Place, provider: Faulty
) -> None:
    provider.late, provider.faults = 8, [("POST /batches", what)]
    provider.go_on.set()
    assert place.run(items_of(33)).stored == 33
    assert (creations(provider), set(provider.bought.values())) == (1, {1})
    assert place.slept[:8] == [1, 2, 4, 8, 16, 32, 64, 128]


def test_a_creation_slower_than_the_endpoints_time_out_is_waited_for(place: Place, provider: Faulty) -> None:
    provider.slow_seconds = 1.0

    async def create() -> int:
        wire = Wire(Endpoint("e", "m", base_url=provider.url, timeout_seconds=0.2), KEY, None)
        file = provider.new_file(b"")
        body = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        try:
            return (await wire.call("POST", "/batches", json=body | {"metadata": {"job": "j"}})).status
        finally:
            await wire.close()

    assert asyncio.run(create()) == 200


def test_a_job_that_a_killed_process_may_have_created_is_looked_for_with_the_same_patience(
    place: Place, provider: Faulty
) -> None:
    provider.late = 8
    with pytest.raises(Killed):
        place.run(items_of(3), die_at=CREATED)
    assert place.jobs()[0].state == "CREATING"
    assert place.run(items_of(3)).stored == 3
    assert creations(provider) == 1


def test_a_creation_that_reached_nobody_is_repeated_under_the_same_key_after_the_search(
    place: Place, provider: Faulty
) -> None:
    provider.faults = [("POST /batches", "reset")]
    assert place.run(items_of(3)).stored == 3
    assert sum(place.slept[:-1]) == SEARCH_SECONDS
    first, second = [key for key in provider.once if "batch" in key]
    assert first == second


def test_a_provider_that_honours_keys_is_asked_again_and_has_one_batch(place: Place, provider: Faulty) -> None:
    provider.knows_keys, provider.late, provider.faults = True, 1000, [("POST /batches", "lost")]
    assert place.run(items_of(3)).stored == 3
    assert (creations(provider), list(provider.created.values())) == (2, [1])


def test_a_refusal_that_surely_created_nothing_needs_no_search(place: Place, provider: Faulty) -> None:
    provider.faults = [("POST /batches", 429)]
    assert place.run(items_of(3)).stored == 3
    assert "GET /batches" not in provider.log


def test_a_provider_that_never_answers_a_creation_ends_the_run_which_goes_on_later(
    place: Place, provider: Faulty
) -> None:
    provider.faults = [("POST /batches", "reset")] * 3
    budget = Budget(1000)
    with pytest.raises(Incomplete, match="run the same command again"):
        place.run(items_of(3), budget)
    assert (creations(provider), budget.reserved_nano, sum(place.slept)) == (3, 0, 3 * SEARCH_SECONDS)
    assert place.run(items_of(3)).stored == 3


def test_a_job_that_a_killed_process_uploaded_only_is_submitted_without_a_search(
    place: Place, provider: Faulty
) -> None:
    with pytest.raises(Killed):
        place.run(items_of(3), die_at=UPLOADED)
    assert place.run(items_of(3)).stored == 3
    assert "GET /batches" not in provider.log


def test_several_jobs_of_a_killed_process_are_looked_for_together(place: Place, provider: Faulty) -> None:
    with pytest.raises(Killed):
        place.run(items_of(6), die_at=2 * SUBMITTED, max_requests=3)
    with closing(open_responses(place.where)) as store:
        for job in store.jobs():
            store.update_job(job.name, state="CREATING", remote=None)
    provider.batches.clear()
    assert place.run(items_of(6), max_requests=3).stored == 6
    assert creations(provider) == 4
    assert SEARCH_SECONDS <= sum(place.slept) < SEARCH_SECONDS + 60


def test_an_uploaded_job_of_an_earlier_release_is_looked_for_first(place: Place, provider: Faulty) -> None:
    with pytest.raises(Killed):
        place.run(items_of(3), die_at=CREATED)
    with closing(open_responses(place.where)) as store:
        (job,) = store.jobs()
        context = {name: value for name, value in json.loads(job.context).items() if name != "progress"}
        store.update_job(job.name, state="UPLOADED", context=json.dumps(context))
    assert place.run(items_of(3)).stored == 3
    assert creations(provider) == 1


def test_a_job_whose_file_is_gone_is_counted_and_said(place: Place, provider: Faulty) -> None:
    with pytest.raises(Killed):
        place.run(items_of(3), die_at=UPLOADED)
    for path in (place.folder / "batches").iterdir():
        path.unlink()
    provider.files.clear()
    counts = place.run(items_of(3))
    assert (counts.gone, counts.stored) == (1, 3)
    assert any("never submitted" in line for line in place.said)


# twins


def twins(place: Place, provider: Faulty, half: int, ends: list[Any]) -> Counter[str]:
    """Run with a provider that creates a second batch, as its list came later than the patience; what it bought."""
    provider.late, provider.half, provider.busy = 11, half, 2
    provider.faults = [("POST /batches", "lost")]
    provider.ends = ends
    budget = Budget(10**6)
    assert place.run(items_of(4), budget).stored == 4
    assert next(iter(provider.created.values())) == 2
    assert sum("is kept" in line for line in place.said) == 1
    assert sorted(batch["status"] for batch in provider.batches.values())[0] == "cancelled"
    assert place.paid() == sum(provider.bought.values())
    assert (budget.spent_nano, budget.reserved_nano) == (COST * sum(provider.bought.values()), 0)
    assert (place.jobs(), provider.files) == ([], {})
    return provider.bought


def test_of_two_batches_of_a_job_one_is_cancelled(place: Place, provider: Faulty) -> None:
    assert set(twins(place, provider, 0, []).values()) == {1}


def test_what_a_cancelled_twin_finished_is_paid_and_fills_what_the_kept_one_lacks(
    place: Place, provider: Faulty
) -> None:
    bought = twins(place, provider, 2, [lambda batch: provider.finish(batch, "expired", most=1)])
    assert sum(bought.values()) == 1 + 2 + 2
    assert max(bought.values()) == 2
    assert len(place.stored(items_of(4))) == 4


# short files


def lines(number: int) -> Callable[[bytes], bytes]:
    """Serve only the first so many lines of a file, and half of the next."""

    def cut(content: bytes) -> bytes:
        whole = content.splitlines(keepends=True)
        return b"".join(whole[:number]) + (whole[number][:30] if number < len(whole) else b"")

    return cut


def broken_off(content: bytes) -> bytes:
    """The first half of a file, and then a proxy's page."""
    return b"".join(content.splitlines(keepends=True)[:16]) + page(content)


def page(content: bytes) -> bytes:
    return b"<html>\n" + b"<p>come back later</p>\n" * 100 + b"</html>\n"


@pytest.mark.parametrize("cut", [lines(16), lines(0), lines(32), page, broken_off, lambda content: b""])
@pytest.mark.parametrize("sizes_known", [True, False])
def test_a_file_served_short_is_fetched_again_and_nothing_is_bought_twice(
    cut: Callable[[bytes], bytes], place: Place, provider: Faulty, *, sizes_known: bool
) -> None:
    provider.cut, provider.sizes_known = [cut, page, cut, cut], sizes_known
    counts = place.run(items_of(33))
    assert (counts.stored, counts.missing, counts.jobs, place.paid()) == (33, 0, 1, 33)
    assert set(provider.bought.values()) == {1}
    assert provider.files == {}


def test_files_that_stay_short_keep_the_job_open_and_the_providers_copy(place: Place, provider: Faulty) -> None:
    provider.cut = [lines(16)] * 100
    for run in (1, 2):
        place.slept.clear()
        budget = Budget(10**6)
        counts = place.run(items_of(33), budget)
        assert (counts.missing, budget.reserved_nano, len(provider.files)) == (17, 0, 2)
        assert SHORT_SECONDS <= sum(place.slept) <= SHORT_SECONDS + 10
        assert [job.state for job in place.jobs()] == ["COLLECTING"]
        assert "17 of 33 answers" in next(iter(counts.unanswered.values())), run
    provider.cut = []
    assert place.run(items_of(33)).stored == 17
    assert (place.paid(), provider.files, creations(provider)) == (33, {}, 1)


def test_after_three_runs_what_stays_missing_goes_into_a_new_batch(place: Place, provider: Faulty) -> None:
    provider.lie = 5
    provider.ends = [lambda batch: provider.finish(batch, "completed", most=30)]
    for _ in (1, 2):
        assert place.run(items_of(33)).missing == 3
    provider.lie = 0
    counts = place.run(items_of(33))
    assert (counts.jobs, counts.stored, counts.missing) == (1, 3, 0)
    assert provider.sizes == [33, 3]
    assert set(provider.bought.values()) == {1}


def test_with_consent_to_single_calls_short_files_are_given_up_in_the_same_run(place: Place, provider: Faulty) -> None:
    provider.cut = [lines(16)] * 100
    counts = place.run(items_of(33), online=True)
    assert (counts.stored, counts.missing, place.jobs(), provider.files) == (16, 17, [], {})


def test_counts_that_promise_too_much_do_no_harm_where_every_request_has_an_answer(
    place: Place, provider: Faulty
) -> None:
    provider.lie = 7
    assert place.run(items_of(5)).stored == 5
    assert place.jobs() == []


# lines and files of any size


def test_a_line_larger_than_a_reply_may_be_is_an_unusable_reply_that_is_paid(place: Place, provider: Faulty) -> None:
    items = items_of(3)

    def answer(key: str, body: dict[str, Any]) -> tuple[int, Any]:
        reply = completion(body)
        return 200, reply if key != items[1].key else reply | {"padding": "x" * LINE_BYTES}

    def keep_all(budget: Budget) -> None:
        place.run(items, budget, online=True)

    provider.answer = answer
    keep_all(budget := Budget())
    assert place.stored(items)[items[1].key].code == "unusable"
    assert place.stored(items)[items[1].key].body == b"200 with more than 8,388,608 bytes"
    assert (place.paid(), budget.spent_nano) == (3, 3 * COST)


MEASURED = """
import resource, sys
from pathlib import Path
from tests.longform.llm.batch.test_batch import Place, items_of
class Elsewhere:
    url = sys.argv[1]
place, items = Place(Elsewhere(), Path(sys.argv[2])), items_of(int(sys.argv[3]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert place.run(items).stored == len(items)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.soak
def test_a_file_of_300_megabytes_takes_no_more_memory_than_a_small_one(place: Place, provider: Faulty) -> None:
    provider.answer = lambda key, body: (200, completion(body) | {"padding": key * 2_400})
    child = [sys.executable, "-c", MEASURED, provider.url, place.folder, "2000"]
    done = subprocess.run(child, cwd=REPO, env=CHILDS, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 120, "megabytes"


# the disk


def test_a_folder_that_cannot_be_made_is_named(place: Place, provider: Faulty) -> None:
    (place.folder / "batches").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be used"):
        place.run(items_of(2))


def test_a_disk_that_fails_while_a_batch_is_collected_is_named_and_the_job_stays(
    place: Place, provider: Faulty
) -> None:
    with pytest.raises(Killed):
        place.run(items_of(2), die_at=SUBMITTED)
    folder = place.folder / "batches"
    for path in folder.iterdir():
        path.unlink()
    (folder / f"{place.jobs()[0].name}.jsonl").mkdir()
    with pytest.raises(StoreError, match="cannot be used"):
        place.run(items_of(2))
    assert len(place.jobs()) == 1


# two stages of one process


def test_two_stages_that_ask_the_same_collect_each_job_once(place: Place, provider: Faulty) -> None:
    provider.busy = 3
    endpoint = Endpoint("e", "m", base_url=provider.url, key_env="E_KEY", capabilities=frozenset({"batch"}))

    async def both() -> None:
        dispatcher = models.dispatcher(endpoint)
        await asyncio.gather(
            *(
                prefetch(
                    dispatcher.wire(),
                    dispatcher.store,
                    endpoint,
                    iter(items_of(5)),
                    keep,
                    budget=models.budget,
                    folder=place.folder / "batches",
                    context={"stage": stage},
                    sleep=place.sleep,
                )
                for stage in ("one", "two")
            )
        )

    with Models(place.where, key_of=lambda _: KEY, dataset="d") as models:
        models.dispatcher(endpoint).run(both())
    assert creations(provider) == 1
    assert place.paid() == 5


# any schedule


def schedule(provider: Faulty, chance: random.Random) -> None:
    """Faults of all kinds that a run has to survive, drawn by chance."""
    provider.late, provider.knows_keys = chance.randrange(9), chance.random() < 0.5
    provider.busy, provider.sizes_known = chance.randrange(3), chance.random() < 0.5
    calls = [
        "POST /files",
        "POST /batches",
        "GET /batches",
        "GET /batches/batch.*",
        "GET /files/.*",
        "DELETE /files/.*",
    ]
    kinds: list[Any] = ["lost", "garbage", "reset", 500, 429, 503]
    provider.faults = [(chance.choice(calls), chance.choice(kinds)) for _ in range(chance.randrange(8))]
    cuts = [lines(chance.randrange(6)), page, broken_off, lambda content: b""]
    provider.cut = [chance.choice(cuts) for _ in range(chance.randrange(8))]

    def odd(out: list[bytes], bad: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        doubled = out + chance.choices(out, k=2) if out else out
        chance.shuffle(doubled)
        return doubled, bad

    provider.odd = odd
    ends = ["completed", "expired", "cancelled", "queue"]

    def end(batch: dict[str, Any]) -> None:
        kind = chance.choice(ends)
        if kind == "queue":
            full = {"data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit"}]}
            batch.update(status="failed", errors=full)
        else:
            provider.finish(batch, kind, most=None if kind == "completed" else chance.randrange(9))

    provider.ends = [end] * chance.randrange(3)


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.check) for seed in range(6, 60))])
def test_under_any_faults_and_kills_no_request_is_bought_twice(seed: int, place: Place, provider: Faulty) -> None:
    chance, items = random.Random(seed), items_of(9)
    for _ in range(chance.randrange(1, 5)):
        schedule(provider, chance)
        budget = Budget(10**6)
        with suppress(Killed, EndpointError, Incomplete):
            place.run(items, budget, die_at=chance.randrange(60), max_requests=chance.choice([4, 9]))
        assert budget.reserved_nano == 0
    provider.faults, provider.cut, provider.ends, provider.late = [], [], [], 0
    for _ in range(4):
        place.run(items)
    assert len(place.stored(items)) == 9
    assert set(provider.bought.values()) == {1}
    assert place.paid() == 9
    assert place.jobs() == []
    ours = f"{os.getpid()}-"  # which the next process deletes
    assert [name for name in place.left_on_disk() if not name.startswith(ours)] == []


# what a stage gets


REQUESTS = [Request((("user", f"What is tea number {n}?"),), task="x", max_tokens=50) for n in range(6)]


def ask(models: Models, endpoint: Endpoint, stage: str = "s") -> list[Answer | Failure]:
    return [answer for _, answer in models.client(endpoint, stage=stage).ask((None, request) for request in REQUESTS)]


def test_questions_that_a_batch_left_wait_for_the_next_run_and_the_sentence_says_what_to_set(tmp_path: Path) -> None:
    with serve(batch_seconds=0.0, batch_faults={"expired": 1}) as server, Models(tmp_path / "r.sqlite") as models:
        endpoint = Endpoint("mine", "m", base_url=server.url, capabilities=frozenset({"batch"}))
        given: dict[str, Any] = {"stage": "s", "recipe": "", "folder": tmp_path / "b", "say": lambda _: None}
        models.prefetch(endpoint, REQUESTS, **given)
        with pytest.raises(Incomplete, match="No batch answered 2 of the questions of s") as left:
            ask(models, endpoint)
        assert "expired" in str(left.value)
        assert 'unbatched = "online"' in str(left.value)
        assert CHAT not in server.counters()["requests"]
        models.prefetch(endpoint, REQUESTS, **given, online=True)
        server.set_batch_faults({})
        models.prefetch(endpoint, REQUESTS, **given)
        assert len(ask(models, endpoint)) == 6
        assert server.counters()["repeated"] == {}
        assert CHAT not in server.counters()["requests"]


def test_with_consent_they_are_asked_singly(tmp_path: Path) -> None:
    with serve(batch_seconds=0.0, batch_faults={"expired": 1}) as server, Models(tmp_path / "r.sqlite") as models:
        endpoint = Endpoint("mine", "m", base_url=server.url, capabilities=frozenset({"batch"}))
        given: dict[str, Any] = {"stage": "s", "recipe": "", "folder": tmp_path / "b", "say": lambda _: None}
        models.prefetch(endpoint, REQUESTS, **given, online=True)
        assert len(ask(models, endpoint)) == 6
        assert server.counters()["requests"][CHAT] == 3
        assert server.counters()["repeated"] == {}


def test_another_stage_may_ask_online_what_one_holds_back(tmp_path: Path) -> None:
    with serve(batch_seconds=0.0, batch_faults={"expired": 1}) as server, Models(tmp_path / "r.sqlite") as models:
        endpoint = Endpoint("mine", "m", base_url=server.url, capabilities=frozenset({"batch"}))
        models.prefetch(endpoint, REQUESTS, stage="s", recipe="", folder=tmp_path / "b", say=lambda _: None)
        assert len(ask(models, endpoint, stage="other")) == 6


def test_the_tombstone_of_a_batchs_refusal_repeats_no_question(place: Place, provider: Faulty) -> None:
    question = "A question of more than twenty characters, which belongs into no log"
    request = Request((("user", question),), task="x", max_tokens=50)
    error = {"error": {"code": "content_filter", "message": f"held back: {question}"}}
    provider.answer = lambda key, body: (400, error)
    endpoint = Endpoint("e", "m", base_url=provider.url, key_env="E_KEY", capabilities=frozenset({"batch"}))
    with Models(place.where, key_of=lambda _: KEY) as models:
        models.prefetch(endpoint, [request], stage="s", recipe="", folder=place.folder / "b", say=lambda _: None)
    with closing(open_responses(place.where, read_only=True)) as store:
        ((_, record),) = store.scan()
    assert record.state == TOMBSTONE
    assert question not in record.body.decode()
    assert "held back" in record.body.decode()


def test_usage_that_cannot_be_true_is_booked_at_what_was_set_aside(place: Place, provider: Faulty) -> None:
    usage = {"prompt_tokens": 10**30, "completion_tokens": 10**30}
    provider.answer = lambda key, body: (200, {**completion(body), "usage": usage})
    endpoint = Endpoint(
        "e", "m", base_url=provider.url, key_env="E_KEY", capabilities=frozenset({"batch"}), price=Price(1.0, 3.0)
    )
    told: list[str] = []
    with Models(place.where, key_of=lambda _: KEY, max_cost=0.01, dataset="d", say=told.append) as models:
        models.prefetch(endpoint, REQUESTS, stage="s", recipe="", folder=place.folder / "b", say=lambda _: None)
        assert 0 < models.budget.spent_nano <= 10_000_000
    with closing(open_responses(place.where, read_only=True)) as store:
        (line,) = store.ledger("d")
    assert line["output_tokens"] == len(REQUESTS) * (50 + 16)
    assert line["input_tokens"] < len(REQUESTS) * 1_000
    assert len([text for text in told if "counts more tokens than can be" in text]) == 1
