"""Faults of a real server: no row is lost, none is empty, and the allowed rate is used."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from axioms_builds import build_axioms
from ports import held_port, nobody
from standin_server import Server, serve

from longform.artifacts.store import Store
from longform.artifacts.versions import artifact, find, problems
from longform.errors import EndpointError, Incomplete
from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from longform.llm.models import Models

pytestmark = pytest.mark.check

LONGFORM = str(Path(sys.executable).with_name("longform"))
CHAT = "POST /v1/chat/completions"
LOST = {"500": 0.02, "broken": 0.01, "reset": 0.01, "truncated": 0.01, "slow": 0.01}
SPOKEN = dict.fromkeys(("length", "whitespace", "refusal", "filtered", "context", "empty"), 0.02)
MIX = {"429": 0.05, **LOST, **SPOKEN}
WRITING = ("answer_open_book", "answer_closed_book", "corrupt_answers", "combine_answers")
KINDS = {"request", "filter", "refusal", "length", "whitespace", "empty", "invalid"}
ANSWERED_FOR_GOOD = {"context": "request", "filtered": "filter", "refusal": "refusal"}


def questions(number: int) -> Iterator[tuple[int, Request]]:
    return ((n, Request((("user", f"Question {n}"),), task="x", max_tokens=64)) for n in range(number))


def mine(server: Server, **more: Any) -> Endpoint:
    return replace(Endpoint("mine", "m", base_url=server.url, concurrency=32, timeout_seconds=600.0), **more)


def ask(where: Path, endpoint: Endpoint, number: int, pause: float = 0.05) -> list[tuple[int, Answer | Failure]]:
    with Models(where, first_pause_seconds=pause) as models:
        return list(models.client(endpoint).ask(questions(number)))


def outcomes(server: Server) -> Counter[str]:
    return Counter(server.counters()["outcomes"])


# ---------------------------------------------------------------- every row


@pytest.mark.parametrize("kind", ["429", "429-bare"])
@pytest.mark.parametrize("number", [120, pytest.param(5_000, marks=pytest.mark.soak)])
def test_every_question_is_answered_or_rejected_with_its_reason(kind: str, number: int, tmp_path: Path) -> None:
    faults = {kind: 0.05, **LOST, **SPOKEN}
    with serve(faults=faults, seed=number) as server:
        came = ask(tmp_path / "r.sqlite", mine(server), number)
        met = outcomes(server)
        sent = server.counters()["requests"][CHAT]
        again = ask(tmp_path / "r.sqlite", mine(server), number)
        assert server.counters()["requests"][CHAT] == sent
        repeated = server.counters()["repeated"]
    assert [n for n, _ in came] == list(range(number))
    assert all(isinstance(each, Failure) or each.text.strip() for _, each in came)
    failed = Counter(each.kind for _, each in came if isinstance(each, Failure))
    assert [each.text if isinstance(each, Answer) else each.kind for _, each in again] == [
        each.text if isinstance(each, Answer) else each.kind for _, each in came
    ]
    assert all(each.message for _, each in came if isinstance(each, Failure))
    for fault, wanted in ANSWERED_FOR_GOOD.items():
        assert failed[wanted] == met[fault] >= 1  # type: ignore[index]
    assert set(failed) <= KINDS
    assert repeated == {}
    print(f"{kind}: {number} questions, {sent} requests, met {dict(met)}, rejected {dict(failed)}")


def test_a_whole_build_loses_no_row_and_publishes_no_empty_text(tmp_path: Path) -> None:
    with serve(faults={**MIX, "429": 0.03}, seed=8) as server:
        build_and_check(tmp_path / "home", server, capabilities=["json_schema"])


@pytest.mark.soak
@pytest.mark.parametrize("capabilities", [["json_schema"], []])
def test_a_whole_build_over_a_real_site_loses_no_row(capabilities: list[str], tmp_path: Path, beer: Path) -> None:
    with serve(faults=MIX, seed=9) as server:
        more = {"dump": str(beer), "site": "beer.stackexchange.com"}
        build_and_check(tmp_path / "home", server, capabilities=capabilities, **more)


def build_and_check(home: Path, server: Server, *, capabilities: list[str], **more: Any) -> None:
    endpoint = {"base_url": server.url, "model": "m", "capabilities": capabilities, "concurrency": 32}
    version, progress, _ = build_axioms(home, model="mine", endpoints={"mine": endpoint}, **more)
    assert version is not None
    store = Store(home)
    assert list(problems(store, find(home, "axioms"))) == []
    rows = {entry.stage: entry.artifact.rows for entry in progress.ended}
    wanted = {"answer_open_book": "select_questions", "answer_closed_book": "select_questions"}
    wanted |= {"corrupt_answers": "answer_open_book", "combine_answers": "select_questions"}
    rejected: Counter[str] = Counter()
    for stage, source in wanted.items():
        made = artifact(store, version, stage)
        assert made.rows + sum(made.rejected().values()) == rows[source]
        rejected.update({reason: n for (_, reason), n in made.rejected().items()})
    assert {reason.removeprefix("model: ") for reason in rejected if reason.startswith("model: ")} <= KINDS
    assert any(reason.startswith("model: ") for reason in rejected)
    assert empty_texts(home) == []
    print(f"build: met {dict(outcomes(server))}, rejected {dict(rejected)}")


def empty_texts(home: Path) -> list[str]:
    """Columns of texts in model stages or in the published rows that contain an empty text."""
    written = itertools.chain.from_iterable(home.glob(f"stages/{s}/parts/*/rows.parquet") for s in WRITING)
    found = []
    for path in [*written, *home.glob("datasets/axioms/*/t*/*.parquet")]:
        table = pq.read_table(path)
        for name in {"text", "question", "preferred", "rejected"} & set(table.column_names):
            found += [f"{path} {name}" for text in table[name].to_pylist() if text is not None and not text.strip()]
    return found


# ---------------------------------------------------------------- the rate


def rate(
    where: Path,
    *,
    rpm: int,
    burst: int,
    seconds: float,
    faults: dict[str, float],
    headers: bool = True,
    own_rpm: int | None = None,
) -> tuple[float, float]:
    """(share of the allowed requests that were let in over the run, share of the requests that were refused)."""
    with serve(rpm=rpm, burst=burst, faults=faults, headers=headers, latency_seconds=0.05) as server:
        stop = threading.Event()

        def consume() -> None:
            with (
                Models(where, first_pause_seconds=0.5) as models,
                closing(models.client(mine(server, rpm=own_rpm)).ask(questions(10**9))) as answers,
            ):
                while not stop.is_set():
                    next(answers)

        thread = threading.Thread(target=consume)
        started = time.monotonic()
        thread.start()
        while not server.counters()["requests"]:
            time.sleep(0.001)
        began = time.monotonic()
        time.sleep(seconds)
        met, ended = outcomes(server), time.monotonic()
        stop.set()
        thread.join()
        passed, admitted = ended - began, sum(met.values()) - met["limited"]
        assert admitted <= burst + rpm / 60 * (ended - started)
        return admitted / (burst + rpm / 60 * passed), met["limited"] / sum(met.values())


BURSTS = (600, 60, 10, 1)


def test_the_rate_a_server_allows_is_used(tmp_path: Path) -> None:
    """At 1,800 requests a minute, in five seconds in which the machine does little else.

    Other work on the machine may spoil such seconds; then the next ones count.
    """
    left: dict[str, tuple[dict[str, float], float]] = {"calm": ({}, 0.8), "faulty": (MIX, 0.7)}
    for attempt in range(20):
        folders = {name: tmp_path / f"{name}-{attempt}" for name in left}
        with ThreadPoolExecutor(len(left)) as pool:
            runs = {}
            for name, (faults, _) in left.items():
                folders[name].mkdir()
                runs[name] = pool.submit(rates, folders[name], (200, 60), rpm=1_800, seconds=5, faults=faults)
        for name, run in runs.items():
            if all(used >= left[name][1] and refused <= 0.01 for used, refused in run.result().values()):
                del left[name]
        if not left:
            return
    raise AssertionError(f"the rate is never used, or too much of it refused: {', '.join(left)}")


@pytest.mark.soak
@pytest.mark.parametrize(
    ("faults", "least"), [({}, (0.97, 0.97, 0.97, 0.85)), (MIX, (0.97, 0.97, 0.95, 0.15))], ids=["calm", "faulty"]
)
def test_600_a_minute_are_used_for_three_minutes(
    faults: dict[str, float], least: tuple[float, ...], tmp_path: Path
) -> None:
    """A pause of one second fills the small bucket, and what would have come in then is lost."""
    found = rates(tmp_path, BURSTS, rpm=600, seconds=180, faults=faults)
    for wanted, (used, refused) in zip(least, found.values(), strict=True):
        assert wanted <= used <= 1.01
        assert refused <= (0.01 if wanted >= 0.9 else 0.03)


@pytest.mark.soak
def test_600_a_minute_where_nothing_is_reported_but_when_to_come_again(tmp_path: Path) -> None:
    """Without `rpm` only refusals tell, and a small bucket is used as far as one request at a time meets it."""
    found = rates(tmp_path, BURSTS, rpm=600, seconds=90, faults={}, headers=False)
    assert found[600][0] >= 0.97
    assert all(used >= 0.5 for used, _ in found.values())


@pytest.mark.soak
def test_600_a_minute_of_ones_own_are_kept_where_nothing_is_reported(tmp_path: Path) -> None:
    """Two buckets of one rate: the server's fills while the first requests are on their way."""
    found = rates(tmp_path, (60, 10), rpm=600, seconds=60, faults={}, headers=False, own_rpm=600)
    for burst, (used, refused) in found.items():
        assert used * (burst + 600) >= 0.97 * 600
        assert refused <= 0.01


def rates(folder: Path, bursts: tuple[int, ...], **settings: Any) -> dict[int, tuple[float, float]]:
    """The rates of servers with these bursts, asked at the same time."""
    with ThreadPoolExecutor(len(bursts)) as pool:
        runs = {b: pool.submit(rate, folder / f"{b}.sqlite", burst=b, **settings) for b in bursts}
    found = {burst: run.result() for burst, run in runs.items()}
    for burst, (used, refused) in found.items():
        print(f"{settings['rpm']} a minute, burst {burst}: {used:.1%} of the allowance used, {refused:.2%} refused")
    return found


def test_a_server_that_tells_nothing_but_when_to_come_again_loses_no_question(tmp_path: Path) -> None:
    with serve(rpm=1_200, burst=20, headers=False) as server:
        began = time.monotonic()
        came = ask(tmp_path / "r.sqlite", mine(server), 60)
        passed = time.monotonic() - began
        met = outcomes(server)
    assert len(came) == met["answered"] == 60
    assert passed < 600
    print(f"no headers: 60 answers in {passed:.1f} s (the bucket alone: 2 s), {met['limited']} refused")


# ---------------------------------------------------------------- the end


@pytest.mark.parametrize("fault", ["quota", "401", "404", "parameter"])
@pytest.mark.parametrize("before", [0, 40])
def test_an_endpoint_that_refuses_for_good_hears_hardly_anything_after_its_refusal(
    fault: str, before: int, tmp_path: Path
) -> None:
    with serve(latency_seconds=0.02, faults={fault: 1.0}) as server:
        server.script([{}] * before)
        with pytest.raises(EndpointError) as caught:
            ask(tmp_path / "r.sqlite", mine(server, concurrency=8), 500)
        met = outcomes(server)
    said = str(caught.value)
    assert caught.value.exit_code == 3
    assert "\n" not in said
    assert "mine" in said
    assert met[fault] <= 8
    assert met["answered"] == before
    print(f"{fault} after {before}: {met[fault]} refused. {said}")


def typed(home: Path, url: str, *words: str) -> tuple[int, str, float]:
    """(exit code, last output, seconds) of a command."""
    sets = [f"endpoints.mine.base_url={url}", "endpoints.mine.model=m", "model=mine"]
    command = [LONGFORM, "build", "axioms", "--home", str(home), *words]
    command += [word for each in sets for word in ("--set", each)]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PREFECT_HOME": str(home / "p")})
    return done.returncode, done.stderr.strip().splitlines()[-1], time.monotonic() - began


@pytest.mark.soak  # Prefect's server takes its time: 15 s
def test_the_command_ends_with_a_sentence_and_exit_code_3(tmp_path: Path) -> None:
    with serve(faults={"quota": 1.0}) as server:
        code, said, _ = typed(tmp_path, server.url)
        met = outcomes(server)
    assert code == 3, said
    assert 'The endpoint "mine"' in said
    assert met["quota"] <= 16
    print(f"exit {code}, {dict(met)}: {said}")


@pytest.mark.soak
def test_where_no_server_is_there_the_command_ends_with_exit_code_3(tmp_path: Path) -> None:
    with nobody() as url:
        code, said, seconds = typed(tmp_path, f"{url}/v1")
    print(f"exit {code} after {seconds:.0f} s: {said}")
    assert code == 3
    assert seconds < 60
    assert "start the server, or check base_url" in said


def test_two_questions_to_nobody_end_at_once(tmp_path: Path) -> None:
    with nobody() as url, pytest.raises(EndpointError, match="nothing listens at 127"):
        ask(tmp_path / "r.sqlite", Endpoint("mine", "m", base_url=f"{url}/v1"), 2, pause=0.01)


@pytest.mark.parametrize("seconds", [1.0, pytest.param(10.0, marks=pytest.mark.soak)])
def test_a_server_that_is_gone_for_a_while_loses_nothing(seconds: float, tmp_path: Path) -> None:
    with held_port() as port, ExitStack() as up, Models(tmp_path / "r.sqlite") as models:
        first = up.enter_context(serve(port=port, latency_seconds=0.02))
        waiting = models.client(mine(first, concurrency=4)).ask(questions(600))
        came = list(itertools.islice(waiting, 100))
        up.close()
        time.sleep(seconds)
        with serve(port=port) as second:
            came += waiting
            assert second.counters()["repeated"] == {}
    assert [n for n, _ in came] == list(range(600))
    assert all(isinstance(answer, Answer) for _, answer in came)


def test_a_server_that_mostly_fails_is_left_alone(tmp_path: Path) -> None:
    """The breaker opens after twenty questions, each tried seven times at most; then one request tries it every five
    seconds or more, four at most.
    """
    with serve(faults={"500": 1.0}, latency_seconds=0.01) as server:
        server.script([{"fault": "500"}, {}, *[{"fault": "500"}] * 9, {}])
        with Models(tmp_path / "r.sqlite", first_pause_seconds=0.01) as models:
            client = models.client(mine(server, concurrency=8))
            thread = threading.Thread(target=lambda: drain(client.ask(questions(300))))
            thread.start()
            while not models.status()["waits"]:
                assert thread.is_alive()
                time.sleep(0.01)
            time.sleep(2)
            asked = server.counters()["requests"][CHAT]
            assert models.status()["waits"]
        thread.join()
        assert asked <= 20 * 7 + 8


def drain(answers: Iterator[Any]) -> None:
    try:
        for _ in answers:
            pass
    except Incomplete:
        pass


@pytest.mark.soak
@pytest.mark.parametrize("share", [0.6, 1.0])
def test_a_server_that_mostly_fails_ends_the_run_in_bounded_time_and_keeps_what_it_answered(
    share: float, tmp_path: Path
) -> None:
    with serve(faults={"500": share}, seed=2) as server:
        began = time.monotonic()
        with pytest.raises(Incomplete) as caught:
            ask(tmp_path / "r.sqlite", mine(server, concurrency=8), 200, pause=1.0)
        passed, met = time.monotonic() - began, outcomes(server)
        print(f"{share:.0%} fail: {passed:.0f} s, {dict(met)}: {caught.value}")
        assert passed < 600
        server.set_faults({})
        assert all(isinstance(each, Answer) for _, each in ask(tmp_path / "r.sqlite", mine(server), 200))
        assert server.counters()["repeated"] == {}
