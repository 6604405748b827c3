"""What a batch's files may claim: tokens beyond all measure, lines without end, odd encodings. Each is paid once."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from longform.errors import Incomplete
from longform.llm.ask.types import Answer, Endpoint, Failure, Price, Request
from longform.llm.models import Models
from longform.llm.responses.store import open_responses
from tests.longform.llm.batch.test_batch import CHILDS, KEY, Place, completion, items_of
from tests.longform.llm.batch.test_batch_faults import REPO, Faulty

MB = 1 << 20


@pytest.fixture
def provider() -> Iterator[Faulty]:
    made = Faulty()
    yield made
    made.close()


@pytest.fixture
def place(provider: Faulty, tmp_path: Path) -> Place:
    return Place(provider, tmp_path)


def questions(number: int, **more: Any) -> list[Request]:
    return [Request((("user", f"What is tea number {n}?"),), task="x", max_tokens=50, **more) for n in range(number)]


def endpoint_of(provider: Faulty) -> Endpoint:
    price = Price(1.0, 10.0)
    return Endpoint("e", "m", base_url=provider.url, key_env="E", capabilities=frozenset({"batch"}), price=price)


def asked(
    place: Place, provider: Faulty, requests: list[Request], said: list[str], run: str = "1"
) -> list[Answer | Failure]:
    """The results of these questions in batch mode, without consent to single calls."""
    endpoint = endpoint_of(provider)
    with Models(place.where, key_of=lambda _: KEY, say=said.append, dataset="d", run=run) as models:
        models.prefetch(endpoint, requests, stage="s", recipe="", folder=place.folder / "b", say=said.append)
        return [found for _, found in models.client(endpoint, stage="s").ask((None, each) for each in requests)]


def ledger(place: Place) -> dict[str, Any]:
    with closing(open_responses(place.where, read_only=True)) as store:
        (line,) = store.ledger("d")
        return dict(line)


# usage


def test_a_batch_that_claims_tokens_beyond_all_measure_is_booked_with_the_most_that_can_be(
    place: Place, provider: Faulty
) -> None:
    usage = {"prompt_tokens": 10**30, "completion_tokens": 10**30}
    provider.answer = lambda key, body: (200, completion(body) | {"usage": usage})
    said: list[str] = []
    assert len(asked(place, provider, questions(3), said)) == 3
    bodies = [json.loads(line)["body"] for line in provider.uploads[0].splitlines()]
    sent = sum(len(json.dumps(body, separators=(",", ":"))) for body in bodies)
    booked = ledger(place)
    assert sent <= booked["input_tokens"] <= sent + 3 * 1024
    assert 3 * 50 <= booked["output_tokens"] <= 3 * 66
    assert booked["cost_nano"] <= (sent + 3 * 1024) * 500 + 3 * 66 * 5_000
    assert ["10^30" in line for line in said if "tokens than can be" in line] == [True]


def test_an_honest_usage_is_booked_as_it_is(place: Place, provider: Faulty) -> None:
    usage = {"prompt_tokens": 17, "completion_tokens": 50}
    provider.answer = lambda key, body: (200, completion(body) | {"usage": usage})
    said: list[str] = []
    asked(place, provider, questions(2), said)
    assert (ledger(place)["input_tokens"], ledger(place)["output_tokens"]) == (34, 100)
    assert not any("tokens than can be" in line for line in said)


def test_a_claim_of_a_request_that_is_not_known_any_more_is_bounded_by_what_was_set_aside(
    place: Place, provider: Faulty
) -> None:
    usage = {"prompt_tokens": 10**30, "completion_tokens": 3}
    provider.answer = lambda key, body: (200, completion(body) | {"usage": usage})
    provider.ends = [lambda batch: forget(place, provider, batch)]
    asked(place, provider, questions(2), [])
    assert ledger(place)["input_tokens"] == 0
    assert 0 < ledger(place)["cost_nano"] < 10_000_000


def forget(place: Place, provider: Faulty, batch: dict[str, Any]) -> None:
    """End a batch, and lose the requests' file everywhere."""
    provider.finish(batch)
    del provider.files[batch["input_file_id"]]
    for path in (place.folder / "b").glob("*.jsonl"):
        path.unlink()


# lines


def padded(number: int, key_last: bool = False) -> Callable[[bytes], Iterator[bytes]]:
    """Serve the first line of a file with so many megabytes more in its reply."""

    def cut(content: bytes) -> Iterator[bytes]:
        first, _, rest = content.partition(b"\n")
        key = re.search(rb'"custom_id": "[0-9a-f]{64}", ', first)
        assert key
        if key_last:
            first = first.replace(key[0], b"")[:-1] + b", " + key[0][:-2] + b"}"
        before, mark, after = first.partition(b'"content": "')
        yield before + mark
        for _ in range(number):
            yield b"a" * MB
        yield after + b"\n" + rest

    return cut


@pytest.mark.parametrize("key_last", [False, True])
def test_a_line_larger_than_its_own_request_may_have_is_a_failure_of_that_question_with_a_reason(
    place: Place, provider: Faulty, *, key_last: bool
) -> None:
    requests = questions(3)
    for run in ("1", "2"):  # in each of them it goes into one more batch
        provider.cut = [padded(4, key_last), padded(4, key_last)]
        with pytest.raises(Incomplete, match=r"No batch answered 1 of .* more than 1,1\d\d,\d\d\d bytes"):
            asked(place, provider, requests, [], run)
    provider.cut = [padded(4, key_last), padded(4, key_last)]
    found = asked(place, provider, requests, [], "3")
    (failure,) = [each for each in found if isinstance(each, Failure)]
    assert (failure.kind, "more than 1," in failure.message) == ("unanswered", True)
    assert ledger(place)["calls"] == 3 + 5
    before = provider.log.count("POST /batches")
    assert [each for each in asked(place, provider, requests, []) if isinstance(each, Failure)] == [failure]
    assert provider.log.count("POST /batches") == before


def test_a_line_that_a_large_request_may_have_is_read(place: Place, provider: Faulty) -> None:
    request = Request((("user", "long"),), task="x", max_tokens=20_000)
    provider.cut = [padded(9)]
    (answer,) = asked(place, provider, [request], [])
    assert isinstance(answer, Answer)
    assert len(answer.text) > 9 * MB


MEASURED = """
import resource, sys
from pathlib import Path
from tests.longform.llm.batch.test_batch import Place, items_of
class Elsewhere:
    url = sys.argv[1]
place, items = Place(Elsewhere(), Path(sys.argv[2])), items_of(33)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
counts = place.run(items, online=True)
assert (counts.stored, counts.missing) == (33, 1), counts
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.check
@pytest.mark.parametrize("gzipped", [False, True])
def test_a_line_of_200_megabytes_takes_no_memory(place: Place, provider: Faulty, *, gzipped: bool) -> None:
    provider.cut, provider.sizes_known, provider.gzipped = [padded(200)], False, gzipped
    child = [sys.executable, "-c", MEASURED, provider.url, place.folder]
    done = subprocess.run(child, cwd=REPO, env=CHILDS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 100, "megabytes"


# encodings


def lines_in(content: bytes, end: bytes) -> bytes:
    return end.join(content.splitlines())


def crlf(content: bytes) -> bytes:
    return lines_in(content, b"\r\n") + b"\r\n"


def with_mark(content: bytes) -> bytes:
    return b"\xef\xbb\xbf" + content


def without_last_end(content: bytes) -> bytes:
    return content.rstrip(b"\n")


def all_of_it(content: bytes) -> bytes:
    return with_mark(without_last_end(crlf(content)))


def latin(content: bytes) -> bytes:
    """Four bytes of the first reply's text are no UTF-8."""
    before, mark, after = content.partition(b'"content": "')
    return before + mark + b"caf\xe9\xff\xc3" + after


@pytest.mark.parametrize("odd", [crlf, with_mark, without_last_end, all_of_it, latin])
@pytest.mark.parametrize("gzipped", [False, True])
@pytest.mark.parametrize("sizes_known", [True, False])
def test_a_file_in_an_odd_encoding_is_read_whole_and_bought_once(
    odd: Callable[[bytes], bytes], place: Place, provider: Faulty, *, gzipped: bool, sizes_known: bool
) -> None:
    provider.cut, provider.gzipped, provider.sizes_known = [odd] * 20, gzipped, sizes_known
    items = items_of(9)
    counts = place.run(items)
    assert (counts.stored, counts.missing, counts.jobs, counts.broken) == (9, 0, 1, 0)
    assert set(provider.bought.values()) == {1}
    assert all(json.loads(record.body)["choices"] for record in place.stored(items).values())
    assert provider.files == {}
