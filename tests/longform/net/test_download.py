"""Downloads against real servers that fail in every way: the file is whole and right, or the error is clear."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from random import Random
from typing import Any

import paths
import pytest
from http_server import Answer, Asked, Scripted, Server, serve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from processes import started

from longform.errors import HttpError, Incomplete, LongformError, SourceError, StoreError, UsageError
from longform.files import unwritable
from longform.net.download import Downloader, Fetched

CONTENT = Random(1).randbytes(200_000)
OTHER = Random(2).randbytes(200_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
ETAG = '"one"'
FILE = Answer(body=CONTENT, etag=ETAG, ranges=True)


@pytest.fixture(scope="module")
def one_server() -> Iterator[Server]:
    with serve() as server:
        yield server


@pytest.fixture
def server(one_server: Server) -> Server:
    one_server.asked.clear()
    one_server.scripts.clear()
    return one_server


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "dumps" / "a.7z"


class Sleeps(list[float]):
    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def client(**options: Any) -> Downloader:
    return Downloader(**{"sleep": Sleeps(), **options})


def dropping(after: int, **changed: Any) -> Answer:
    """As FILE, but each reply breaks off."""
    return Answer(**{"body": CONTENT, "etag": ETAG, "ranges": True, "drop_after": after, **changed})


def ranges(server: Server) -> list[str | None]:
    return [asked.headers.get("range") for asked in server.asked]


def rest_from(there: int) -> str:
    """The range that is asked for where so many bytes are there: it repeats the last of them."""
    return f"bytes={there - 256}-"


def whole(fetched: Fetched, content: bytes = CONTENT) -> None:
    """The file is there, right, and described; nothing else is."""
    assert fetched.path.read_bytes() == content
    noted = json.loads(fetched.path.with_name(fetched.path.name + ".fetch.json").read_text())
    assert noted["bytes"] == fetched.bytes == len(content)
    assert noted["sha256"] == fetched.sha256 == hashlib.sha256(content).hexdigest()
    assert sorted(file.name for file in fetched.path.parent.iterdir()) == [
        fetched.path.name,
        fetched.path.name + ".fetch.json",
    ]


def nothing_whole(place: Path) -> None:
    assert not place.exists()
    assert not place.with_name(place.name + ".fetch.json").exists()


# ---------------------------------------------------------------- what is left behind


def test_a_file_is_whole_and_says_where_it_is_from(server: Server, place: Path) -> None:
    server.on("/a.7z", FILE)
    before = datetime.now(UTC) - timedelta(seconds=1)
    done = client().download(server.url + "/a.7z?sig=hidden", place, facts={"terms_accepted": "true"})
    whole(done)
    assert done.new
    text = place.with_name("a.7z.fetch.json").read_text()
    noted = json.loads(text)
    assert (noted["url"], noted["etag"], noted["facts"]) == (server.url + "/a.7z", ETAG, {"terms_accepted": "true"})
    assert before <= datetime.fromisoformat(noted["retrieved_at"]) <= datetime.now(UTC)
    assert "hidden" not in text
    assert server.asked[0].headers["accept-encoding"] == "identity"


def test_a_file_that_is_there_is_not_asked_for(server: Server, place: Path) -> None:
    server.on("/a.7z", FILE)
    http = client()
    http.download(server.url + "/a.7z", place)
    again = http.download(server.url + "/a.7z", place, sha256=SHA256.upper(), size=len(CONTENT))
    assert (again.new, again.sha256, len(server.asked)) == (False, SHA256, 1)


def test_a_file_that_is_another_is_not_taken_for_it(server: Server, place: Path) -> None:
    server.on("/a.7z", FILE)
    http = client()
    http.download(server.url + "/a.7z", place)
    with pytest.raises(UsageError, match=f"{SHA256} where {'0' * 64} is expected"):
        http.download(server.url + "/a.7z", place, sha256="0" * 64)
    with pytest.raises(UsageError, match="md5"):
        http.download(server.url + "/a.7z", place, md5="0" * 32)
    os.truncate(place, 5)
    with pytest.raises(UsageError, match="5 bytes where 200000 were fetched"):
        http.download(server.url + "/a.7z", place)
    assert len(server.asked) == 1


def test_a_file_of_the_users_own_is_taken_if_it_is_known_to_be_right(server: Server, place: Path) -> None:
    place.parent.mkdir()
    place.write_bytes(CONTENT)
    http = client()
    with pytest.raises(UsageError, match="nothing says if it is whole"):
        http.download(server.url + "/a.7z", place)
    with pytest.raises(UsageError, match="200,000 bytes where 7 are expected"):
        http.download(server.url + "/a.7z", place, size=7)
    assert not http.download(server.url + "/a.7z", place, size=len(CONTENT)).new
    assert not http.download(server.url + "/a.7z", place, md5=hashlib.md5(CONTENT).hexdigest()).new
    assert server.asked == []


def test_an_empty_file_is_a_file(server: Server, place: Path) -> None:
    server.on("/a.7z", Answer())
    whole(client().download(server.url + "/a.7z", place), b"")


# ---------------------------------------------------------------- connections that break


@pytest.mark.parametrize("version", [{"etag": ETAG}, {"etag": None, "last_modified": True}, {"etag": None}])
def test_a_download_goes_on_where_it_stopped(server: Server, place: Path, version: dict[str, Any]) -> None:
    """By ETag, by time, and by length and last bytes: more often than there are tries, as long as bytes come."""
    if "last_modified" in version:
        hour = timedelta(hours=1)
        stamp = format_datetime(datetime.now(UTC) - hour, usegmt=True)
        date = {"Date": format_datetime(datetime.now(UTC), usegmt=True)}
        version = {"etag": None, "last_modified": stamp, "headers": date}
    server.on("/a.7z", dropping(20_000, **version))
    whole(client(tries=3).download(server.url + "/a.7z", place))
    assert 10 <= len(server.asked) <= 12
    assert ranges(server)[0] is None
    assert None not in ranges(server)[1:]


def test_without_progress_there_is_an_end(server: Server, place: Path) -> None:
    server.on("/a.7z", dropping(1_000), dropping(0))
    with pytest.raises(Incomplete, match="dropped the connection"):
        client(tries=4).download(server.url + "/a.7z", place)
    assert len(server.asked) == 4
    nothing_whole(place)
    assert place.with_name("a.7z.part").read_bytes() == CONTENT[:1_000]


def test_what_always_breaks_at_the_same_place_has_an_end(server: Server, place: Path) -> None:
    server.on("/a.7z", dropping(50_000, ranges=False))
    with pytest.raises(Incomplete):
        client(tries=4).download(server.url + "/a.7z", place)
    assert len(server.asked) == 4


def test_the_next_run_goes_on(server: Server, place: Path) -> None:
    server.on("/a.7z", dropping(70_000), Answer(404), FILE)
    with pytest.raises(HttpError, match="404"):
        client().download(server.url + "/a.7z", place)
    nothing_whole(place)
    whole(client().download(server.url + "/a.7z", place))
    assert ranges(server)[-1] == rest_from(70_000)
    assert server.asked[-1].headers["if-range"] == ETAG


def test_refusals_for_a_while_are_waited_for(server: Server, place: Path) -> None:
    server.on("/a.7z", Answer(503), dropping(9_000), Answer(429, headers={"Retry-After": "33"}), FILE)
    http = client()
    whole(http.download(server.url + "/a.7z", place))
    assert http.sleep[2] == 33  # type: ignore[index]


def test_chunked_files_have_an_end_of_their_own(server: Server, place: Path) -> None:
    server.on("/a.7z", Answer(body=CONTENT, chunked=True, drop_after=150_000), Answer(body=CONTENT, chunked=True))
    whole(client().download(server.url + "/a.7z", place))


def test_a_chunked_file_is_resumed_by_its_etag(server: Server, place: Path) -> None:
    server.on("/a.7z", dropping(70_000, chunked=True), FILE)
    whole(client().download(server.url + "/a.7z", place))
    assert ranges(server) == [None, rest_from(70_000) if ranges(server)[1] else None]


def test_a_file_without_any_length_is_taken_only_if_it_can_be_checked(server: Server, place: Path) -> None:
    server.on("/a.7z", Answer(body=CONTENT, length=-1))
    with pytest.raises(SourceError, match="does not say where its file ends"):
        client().download(server.url + "/a.7z", place)
    nothing_whole(place)
    whole(client().download(server.url + "/a.7z", place, sha256=SHA256))


# ---------------------------------------------------------------- lengths and ranges that lie


def test_more_than_announced_is_no_whole_file(server: Server, place: Path) -> None:
    server.on("/a.7z", Answer(body=CONTENT, length=len(CONTENT) - 100))
    for _ in range(2):  # also not the next time
        with pytest.raises(SourceError, match="sends more than the 199,900 bytes it announces"):
            client().download(server.url + "/a.7z", place)
    assert list(place.parent.iterdir()) == []


def test_less_than_announced_is_no_whole_file(server: Server, place: Path) -> None:
    server.on("/a.7z", Answer(body=CONTENT, length=len(CONTENT) + 100))
    with pytest.raises(Incomplete, match="100 bytes before the end"):
        client().download(server.url + "/a.7z", place)
    nothing_whole(place)


def test_a_server_that_says_that_there_is_no_more_is_believed(server: Server, place: Path) -> None:
    """A wrong length at first: asked for the rest, the server says that it ends where we are: all is asked again."""
    plain = Answer(body=CONTENT, ranges=True)
    server.on("/a.7z", Answer(body=CONTENT, length=len(CONTENT) + 100), plain)
    whole(client().download(server.url + "/a.7z", place))
    assert ranges(server) == [None, rest_from(len(CONTENT)), None]


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Range": "bytes 0-199999/200000"},
        {"Content-Range": "bytes 20000-199999/200000"},
        {"Content-Range": "bytes 19744-199999/200000"},
        {"Content-Range": "lines 19744-199999/200000"},
        {},
    ],
)
def test_another_range_than_asked_for_is_not_added(server: Server, place: Path, headers: dict[str, str]) -> None:
    server.on("/a.7z", dropping(20_000), Answer(206, OTHER[20_000:], headers), FILE)
    whole(client().download(server.url + "/a.7z", place))
    assert ranges(server) == [None, rest_from(20_000), None]


def test_a_part_for_a_whole_is_refused(server: Server, place: Path) -> None:
    server.on("/a.7z", Answer(206, CONTENT, {"Content-Range": "bytes 0-199999/200000"}))
    with pytest.raises(SourceError, match="206 to a request for all of it"):
        client().download(server.url + "/a.7z", place)
    nothing_whole(place)


def test_the_expected_size_is_held_against_the_servers(server: Server, place: Path) -> None:
    server.on("/a.7z", FILE)
    with pytest.raises(SourceError, match="200,000 bytes where 150,000 are expected"):
        client().download(server.url + "/a.7z", place, size=150_000)
    server.on("/b.7z", Answer(body=CONTENT, chunked=True))
    with pytest.raises(SourceError, match="more than the 150,000 bytes"):
        client().download(server.url + "/b.7z", place, size=150_000)
    with pytest.raises(SourceError, match="200,000 bytes where 250,000 are expected"):
        client().download(server.url + "/b.7z", place, size=250_000)
    nothing_whole(place)


def test_a_wrong_digest_is_tried_once_more_and_named(server: Server, place: Path) -> None:
    server.on("/a.7z", Answer(body=OTHER))
    with pytest.raises(SourceError, match=f"{hashlib.sha256(OTHER).hexdigest()} where {SHA256}"):
        client().download(server.url + "/a.7z", place, sha256=SHA256)
    assert len(server.asked) == 2
    assert list(place.parent.iterdir()) == []
    server.on("/a.7z", Answer(body=OTHER), FILE)
    whole(client().download(server.url + "/a.7z", place, sha256=SHA256, md5=hashlib.md5(CONTENT).hexdigest()))


# ---------------------------------------------------------------- files that change


@pytest.mark.parametrize(
    "etags", [('"one"', '"two"'), ("W/one", "W/two"), (None, None)], ids=["strong", "weak", "none"]
)
def test_a_file_that_changed_is_fetched_again(server: Server, place: Path, etags: tuple[str, str]) -> None:
    server.on("/a.7z", dropping(70_000, etag=etags[0]), Answer(body=OTHER, etag=etags[1], ranges=True))
    whole(client().download(server.url + "/a.7z", place), OTHER)


def test_a_server_that_ignores_if_range_is_caught_by_its_etag(server: Server, place: Path) -> None:
    rest = Answer(206, OTHER[70_000:], {"Content-Range": "bytes 70000-199999/200000", "ETag": '"two"'})
    server.on("/a.7z", dropping(70_000), rest, Answer(body=OTHER, etag='"two"'))
    whole(client().download(server.url + "/a.7z", place), OTHER)


def test_a_file_that_is_shorter_now_is_fetched_again(server: Server, place: Path) -> None:
    server.on("/a.7z", dropping(70_000, etag=None), Answer(body=OTHER[:30_000], ranges=True))
    whole(client().download(server.url + "/a.7z", place), OTHER[:30_000])


def test_a_part_of_another_address_is_not_gone_on_with(server: Server, place: Path) -> None:
    server.on("/a.7z", dropping(70_000, etag=None), Answer(404))
    with pytest.raises(HttpError):
        client().download(server.url + "/a.7z", place)
    server.on("/b.7z", FILE)
    whole(client().download(server.url + "/b.7z", place))
    assert server.asked[-1].headers.get("range") is None


@given(
    length=st.integers(0, 5_000),
    drops=st.lists(st.integers(0, 3_000), max_size=12),
    changes=st.sets(st.integers(0, 12), max_size=2),
    etag=st.booleans(),
    honest=st.booleans(),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_breaks_the_file_is_one_of_the_servers_or_there_is_an_error(
    one_server: Server,
    tmp_path_factory: pytest.TempPathFactory,
    length: int,
    drops: list[int],
    changes: set[int],
    etag: bool,
    honest: bool,
) -> None:
    place, version, answers = tmp_path_factory.mktemp("any") / "a.bin", 0, []
    versions = [Random(number).randbytes(length + 7 * number) for number in range(3)]
    for number, drop in enumerate([*drops, None]):
        version = min(version + (number in changes), 2)
        body = versions[version]
        over = 0 if honest or drop is None else 11
        answers.append(
            Answer(body=body, etag=f'"{version}"' if etag else None, ranges=True, drop_after=drop, length=None)
            if not over
            else Answer(body=body, etag=f'"{version}"' if etag else None, length=len(body) + over)
        )
    one_server.on("/a.bin", *answers)
    try:
        done = client().download(one_server.url + "/a.bin", place)
    except LongformError:
        nothing_whole(place)
    else:
        assert done.path.read_bytes() in versions


# ---------------------------------------------------------------- links, pages, credentials


def expiring(valid: list[str]) -> Callable[[Asked], Answer]:
    """A link is good while its signature is the last one given, and a reply breaks off after 60,000 bytes."""

    def answer(asked: Asked) -> Answer:
        return dropping(60_000) if asked.query.get("sig") == valid[-1] else Answer(403, b"<Error>expired sig</Error>")

    return answer


def test_a_link_that_expired_is_replaced(server: Server, place: Path) -> None:
    given: list[str] = []

    def link() -> str:
        given.append(f"s3cret{len(given)}")
        return f"{server.url}/signed?sig={given[-1]}"

    valid = ["s3cret0"]

    def answer(asked: Asked) -> Answer:
        reply = expiring(valid)(asked)
        if len(server.asked) == 2:
            valid.append("s3cret1")
        return reply

    server.on("/signed", answer)
    whole(client().download(link, place))
    assert given == ["s3cret0", "s3cret1"]
    assert "s3cret" not in place.with_name("a.7z.fetch.json").read_text()


def test_a_new_link_that_expires_while_the_server_is_busy_is_replaced_as_well(server: Server, place: Path) -> None:
    replies = iter([Answer(403), Answer(503), Answer(403), Answer(503), Answer(403), FILE])
    given: list[str] = []

    def link() -> str:
        given.append(f"{server.url}/signed?sig={len(given)}")
        return given[-1]

    server.on("/signed", lambda asked: next(replies))
    whole(client().download(link, place))
    assert len(given) == 4


def test_a_link_that_is_always_refused_has_an_end(server: Server, place: Path) -> None:
    server.on("/signed", Answer(403))
    with pytest.raises(HttpError, match="403"):
        client().download(lambda: server.url + "/signed?sig=s3cret", place)
    assert len(server.asked) == 2


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_plain_address_that_is_refused_is_an_error_at_once(server: Server, place: Path, status: int) -> None:
    server.on("/a.7z", Answer(status))
    with pytest.raises(HttpError, match=rf"/a.7z answered {status}"):
        client().download(server.url + "/a.7z?sig=s3cret", place)
    assert len(server.asked) == 1
    assert list(place.parent.iterdir()) == []


def test_credentials_do_not_follow_to_where_the_file_lies(server: Server, place: Path) -> None:
    with serve("localhost") as cdn:
        server.on("/a.7z", Answer(302, b"", {"Location": f"{cdn.url}/blob?sig=s3cret"}))
        cdn.on("/blob", dropping(90_000))
        whole(client().download(server.url + "/a.7z", place, credentials={"Authorization": "Bearer k"}))
        assert {asked.headers.get("authorization") for asked in server.asked} == {"Bearer k"}
        assert [asked.headers.get("authorization") for asked in cdn.asked] == [None] * 3
        assert "s3cret" not in place.with_name("a.7z.fetch.json").read_text()


def test_a_page_where_a_file_was_expected_is_refused(server: Server, place: Path) -> None:
    page = Answer(body=b"<html>Please sign in</html>", headers={"Content-Type": "text/html; charset=utf-8"})
    server.on("/a.7z", page)
    with pytest.raises(SourceError, match="answers with a page"):
        client().download(server.url + "/a.7z", place)
    assert list(place.parent.iterdir()) == []
    whole(client().download(server.url + "/a.7z", place.with_name("a.html")), page.body)


@pytest.mark.parametrize("answer", [Answer(204), Answer(304), Answer(300, b"choose")])
def test_a_status_without_a_file_is_refused(server: Server, place: Path, answer: Answer) -> None:
    server.on("/a.7z", answer)
    with pytest.raises(SourceError, match="without a file"):
        client().download(server.url + "/a.7z", place)
    nothing_whole(place)


def test_a_packed_answer_is_refused_where_the_file_is_not_packed(server: Server, place: Path) -> None:
    server.on("/a", Answer(body=CONTENT, headers={"Content-Encoding": "gzip"}))
    for name in ("a.jsonl", "a.7z", "a.jsonl.zst"):
        with pytest.raises(SourceError, match="packed"):
            client().download(server.url + "/a", place.with_name(name))
    packed = gzip.compress(CONTENT)
    server.on("/b", Answer(body=packed, headers={"Content-Encoding": "gzip"}))
    assert client().download(server.url + "/b", place.with_name("b.jsonl.gz")).path.read_bytes() == packed


@pytest.mark.parametrize("body", [gzip.compress(CONTENT)[:-8], gzip.compress(CONTENT)[:300], CONTENT])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_gzip_file_without_its_ending_is_refused(server: Server, place: Path, body: bytes, chunked: bool) -> None:
    """By its Content-Encoding the server says where the file ends, whatever length it announces."""
    server.on("/a", Answer(body=body, headers={"Content-Encoding": "gzip"}, chunked=chunked))
    with pytest.raises(SourceError, match="without the ending of a gzip file"):
        client().download(server.url + "/a", place.with_name("a.gz"))
    assert list(place.parent.glob("a.gz*")) == []


def test_a_gzip_file_that_is_packed_once_more_is_refused(server: Server, place: Path) -> None:
    once = gzip.compress(CONTENT)
    labelled = {"Content-Encoding": "gzip"}
    server.on("/twice", Answer(body=gzip.compress(once), headers=labelled))
    with pytest.raises(SourceError, match="packed"):
        client().download(server.url + "/twice", place.with_name("b.gz"))
    server.on("/once", Answer(body=once, headers=labelled))
    assert client().download(server.url + "/once", place.with_name("a.gz")).path.read_bytes() == once


def test_a_server_that_drips_does_not_hold_for_ever(server: Server, place: Path) -> None:
    http = client()

    def impatient(asked: Asked) -> Answer:
        """The head of the reply may still take its time."""
        http.patience_seconds = 0.5
        return Answer(body=CONTENT, drip=0.02)  # an hour and more

    server.on("/a.7z", impatient)
    with pytest.raises(Incomplete, match="less than 1,000 bytes a second"):
        http.download(server.url + "/a.7z", place)
    assert len(server.asked) == 1
    assert 0 < place.with_name("a.7z.part").stat().st_size < len(CONTENT) // 2


# ---------------------------------------------------------------- progress


class Seen:
    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def begin(self, name: str, total_bytes: int | None, done_bytes: int) -> None:
        self.events.append(("begin", name, total_bytes, done_bytes))

    def advance(self, name: str, bytes: int) -> None:
        self.events.append(("advance", bytes))

    def end(self, name: str) -> None:
        self.events.append(("end", name))


def test_progress_adds_up(server: Server, place: Path) -> None:
    server.on("/a.7z", dropping(70_000), Answer(404))
    with pytest.raises(HttpError):
        client().download(server.url + "/a.7z", place)
    server.on("/a.7z", FILE)
    seen = Seen()
    client().download(server.url + "/a.7z", place, progress=seen)
    assert seen.events[0] == ("begin", "a.7z", 200_000, 70_000)
    assert sum(event[1] for event in seen.events if event[0] == "advance") == 130_000
    assert seen.events[-1] == ("end", "a.7z")


# ---------------------------------------------------------------- disks and processes

DOWNLOAD = """
import resource, sys
from pathlib import Path
from longform.errors import LongformError
from longform.net.download import Downloader
if len(sys.argv) > 3:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
try:
    done = Downloader().download(sys.argv[1], Path(sys.argv[2]))
    print("new" if done.new else "there", done.sha256)
except LongformError as error:
    print(type(error).__name__, error)
"""


def process(url: str, place: Path, *more: str) -> AbstractContextManager[subprocess.Popen[str]]:
    command = [sys.executable, "-c", DOWNLOAD, url, place, *more]
    return started(command, stdout=subprocess.PIPE, text=True, cwd=paths.ROOT)


def said(process: subprocess.Popen[str]) -> str:
    return process.communicate(timeout=600)[0].strip()


def test_two_processes_fetch_a_file_once(server: Server, place: Path) -> None:
    slow: Scripted = Answer(body=CONTENT[:3_000], etag=ETAG, ranges=True, drip=0.0003)
    server.on("/a.7z", slow)
    with ExitStack() as stack:
        running = [stack.enter_context(process(server.url + "/a.7z", place)) for _ in range(3)]
        results = sorted(map(said, running))
    digest = hashlib.sha256(CONTENT[:3_000]).hexdigest()
    assert results == [f"new {digest}", f"there {digest}", f"there {digest}"]
    assert len(server.asked) == 1


def test_threads_fetch_a_file_once(server: Server, place: Path) -> None:
    server.on("/a.7z", FILE)
    http, found = client(), []
    threads = [
        threading.Thread(target=lambda: found.append(http.download(server.url + "/a.7z", place))) for _ in "1234"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done.new for done in found) == [False, False, False, True]
    assert len(server.asked) == 1


def test_a_killed_download_goes_on(server: Server, place: Path) -> None:
    server.on("/a.7z", Answer(body=CONTENT, etag=ETAG, ranges=True, drip=0.0001))
    part = place.with_name("a.7z.part")
    there = 0
    for _ in range(2):
        with process(server.url + "/a.7z", place) as running:
            while not (part.exists() and part.stat().st_size >= there + 1_500) and running.poll() is None:
                time.sleep(0.01)
        nothing_whole(place)
        there = part.stat().st_size
    server.on("/a.7z", FILE)
    whole(client().download(server.url + "/a.7z", place))
    assert ranges(server)[-1] == rest_from(there)
    assert there >= 3_000


def test_a_kill_before_the_file_got_its_name_costs_no_request(server: Server, place: Path) -> None:
    server.on("/a.7z", dropping(199_999), Answer(404))
    with pytest.raises(HttpError):
        client().download(server.url + "/a.7z", place)
    with place.with_name("a.7z.part").open("ab") as file:
        file.write(CONTENT[-1:])
    server.asked.clear()
    whole(client().download(server.url + "/a.7z", place))
    assert server.asked == []


def test_what_a_loss_of_power_may_have_taken_is_fetched_again(server: Server, place: Path) -> None:
    server.on("/a.7z", dropping(70_000), Answer(404), FILE)
    with pytest.raises(HttpError):
        client().download(server.url + "/a.7z", place)
    notes = place.with_name("a.7z.part.json")
    notes.write_text(json.dumps({**json.loads(notes.read_text()), "boot": "an earlier one", "durable": 50_000}))
    place.with_name("a.7z.part").write_bytes(CONTENT[:50_000] + bytes(20_000))
    whole(client().download(server.url + "/a.7z", place))
    assert ranges(server)[-1] == rest_from(50_000)


@pytest.mark.parametrize(
    "notes", [b"", b"{", b"[]", b'{"etag": "x", "more": 1}', b'{"size": 5}', b'{"size": "x"}', b"[" * 100_000]
)
def test_a_part_that_nothing_is_known_of_is_fetched_again(server: Server, place: Path, notes: bytes) -> None:
    place.parent.mkdir()
    place.with_name("a.7z.part").write_bytes(b"something else")
    place.with_name("a.7z.part.json").write_bytes(notes)
    server.on("/a.7z", FILE)
    whole(client().download(server.url + "/a.7z", place))


@pytest.mark.parametrize("where", [0, 40_000, 69_999])
def test_a_part_that_was_damaged_meanwhile_is_fetched_again(server: Server, place: Path, where: int) -> None:
    server.on("/a.7z", dropping(70_000), Answer(404), FILE)
    with pytest.raises(HttpError):
        client().download(server.url + "/a.7z", place)
    with place.with_name("a.7z.part").open("r+b") as file:
        file.seek(where)
        file.write(bytes([CONTENT[where] ^ 1]))
    whole(client().download(server.url + "/a.7z", place))


def test_what_was_added_to_a_part_meanwhile_is_found_out(server: Server, place: Path) -> None:
    server.on("/a.7z", dropping(70_000), Answer(404), FILE)
    with pytest.raises(HttpError):
        client().download(server.url + "/a.7z", place)
    with place.with_name("a.7z.part").open("ab") as file:
        file.write(b"something else")
    whole(client().download(server.url + "/a.7z", place))


@pytest.mark.parametrize(
    "side", [b"", b"[1]", b'"x"', b"5", b'{"bytes": "x"}', b'{"bytes": 200000, "sha256": 5}', b"[" * 100_000]
)
def test_a_side_file_that_is_damaged_is_named(server: Server, place: Path, side: bytes) -> None:
    place.parent.mkdir()
    place.write_bytes(CONTENT)
    place.with_name("a.7z.fetch.json").write_bytes(side)
    with pytest.raises(StoreError, match=r"a\.7z\.fetch\.json is damaged: delete it"):
        client().download(server.url + "/a.7z", place)
    assert place.read_bytes() == CONTENT


def test_an_empty_file_without_a_length_is_one_if_it_is_expected(server: Server, place: Path) -> None:
    server.on("/a.7z", Answer(length=-1))
    whole(client().download(server.url + "/a.7z", place, size=0), b"")


def test_a_head_that_breaks_off_is_tried_again(server: Server, place: Path) -> None:
    """The parser of heads takes the end of the connection for the end of the head."""
    for expected in ({}, {"sha256": SHA256}):
        server.on("/a.7z", Answer(length=-1), FILE)
        fetched = client().download(server.url + "/a.7z", place, **expected)
        whole(fetched)
        place.unlink()
        place.with_name("a.7z.fetch.json").unlink()


def test_a_disk_that_is_full_keeps_what_is_there(server: Server, place: Path) -> None:
    server.on("/a.7z", FILE)
    with process(server.url + "/a.7z", place, "120000") as limited:
        result = said(limited)
    assert result.startswith("StoreError Cannot write")
    nothing_whole(place)
    assert place.with_name("a.7z.part").read_bytes() == CONTENT[:120_000]
    whole(client().download(server.url + "/a.7z", place))
    assert ranges(server)[-1] == rest_from(120_000)


def test_a_device_without_space_is_reported_as_full(tmp_path: Path) -> None:
    if not os.access("/dev/full", os.W_OK):
        pytest.skip("no /dev/full here")
    with pytest.raises(OSError, match="No space") as refused, open("/dev/full", "wb", buffering=0) as device:
        device.write(b"x")
    assert re.search("full.*run the same command again", str(unwritable(tmp_path, refused.value)))


def test_a_part_that_is_a_link_is_not_written_through(server: Server, tmp_path: Path) -> None:
    """Else whoever packed the folder could have it write over any file of this user."""
    (tmp_path / "own.txt").write_text("my own")
    (tmp_path / "a.7z.part").symlink_to("own.txt")
    server.on("/a.7z", FILE)
    with pytest.raises(StoreError, match=r"a\.7z\.part is a symbolic link.*delete it"):
        client().download(server.url + "/a.7z", tmp_path / "a.7z")
    assert (tmp_path / "own.txt").read_text() == "my own"


def test_a_file_that_was_changed_after_it_was_fetched_is_not_taken_for_it(server: Server, place: Path) -> None:
    server.on("/a.7z", FILE)
    done = client().download(server.url + "/a.7z", place)
    with place.open("r+b") as file:
        file.write(b"damaged")
    side = place.with_name("a.7z.fetch.json").stat().st_mtime_ns
    os.utime(place, ns=(side + 1, side + 1))
    for known in ({}, {"sha256": done.sha256}):
        with pytest.raises(UsageError, match="changed after it was fetched: delete it"):
            client().download(server.url + "/a.7z", place, **known)


@pytest.mark.parametrize(
    ("name", "kind", "body"),
    [
        ("a.jsonl.gz", "application/xml", b"<?xml version='1.0'?><Error><Code>SlowDown</Code></Error>"),
        ("a.7z", "application/json", b'{"error": "quota"}'),
        ("a.bin", "application/octet-stream", b"\n<!DOCTYPE html><html>log in</html>"),
        ("a.csv", "", b"<html>log in</html>"),
    ],
)
def test_the_text_of_an_error_is_not_taken_for_a_file(
    server: Server, tmp_path: Path, name: str, kind: str, body: bytes
) -> None:
    server.on("/a", Answer(body=body, headers={"Content-Type": kind}))
    with pytest.raises(SourceError, match="answers with a text where"):
        client().download(server.url + "/a", tmp_path / name)
    assert not (tmp_path / name).exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_must_not_be_written_is_named(server: Server, place: Path) -> None:
    place.parent.mkdir(mode=0o500)
    with pytest.raises(StoreError, match="Cannot write"):
        client().download(server.url + "/a.7z", place)
