"""The store of parser results: what a GROBID server answered is never asked for again, whatever ends the reading."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import paths
import psutil
import pytest
from grobid_server import BUSY, FULLTEXT, NO_CONTENT, VERSION, failed, form_of, grobid, tei
from http_server import Answer, Asked, Server, document
from processes import gone, started, wait_for
from toy_stages import building, rejected_by

from flows.sources import papers
from longform.errors import Incomplete
from tasks.sources.files.bundles import Member
from tasks.sources.papers.grobid import Grobid, connect
from tasks.sources.papers.parsed import Parsed, Result, forget, garbage, sha256_of_pdf

LONGFORM = str(Path(sys.executable).with_name("longform"))
KITES = (paths.SAMPLES / "papers" / "kites.tei.xml").read_bytes()
PARSER = {"parser": "grobid 0.8.2 a91ee48", "form": {"consolidateHeader": "0"}}
PDF = sha256_of_pdf(b"%PDF- a kite")


@pytest.fixture
def server() -> Iterator[Server]:
    with grobid() as server:
        server.on(FULLTEXT, tei(KITES))
        yield server


def folder_of(tmp_path: Path, count: int) -> Path:
    folder = tmp_path / "in"
    folder.mkdir(exist_ok=True)
    for number in range(count):
        (folder / f"{number}.pdf").write_bytes(b"%%PDF-1.4 kite %d" % number)
    return folder


def posted(server: Server) -> Counter[int]:
    """How often each kite was sent to the server."""
    bodies = [form_of(one)["input"] for one in list(server.asked) if one.path == FULLTEXT]
    return Counter(int(body.split()[-1]) for body in bodies)


def read(folder: Path, home: Path, server: Server, **options: Any) -> tuple[int, list[tuple[str, str, int]]]:
    """(rows, what was rejected) of a folder, read in this process."""
    with building(home) as run:
        found, *_ = papers.read(run, [folder], papers.Read(grobid=server.url, **options))
    return found.count, rejected_by(run, "read_pdfs")


def typed(
    folder: Path, home: Path, server: Server, concurrency: int
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """`longform read papers`, as a process group of its own."""
    settings = [f"grobid={server.url}", f"concurrency={concurrency}"]
    words = [word for setting in settings for word in ("--set", setting)]
    environment = {**os.environ, "PYTHONPATH": paths.PYTHONPATH, "PREFECT_HOME": str(home.with_name("prefect"))}
    command = [LONGFORM, "read", "papers", folder, "--home", home, *words]
    quiet = subprocess.DEVNULL
    return started(command, env=environment, stdout=quiet, stderr=quiet, start_new_session=True)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its descendants (SIGKILL), and wait until they are gone."""
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for each in family:
        if each.is_running():
            each.kill()
    wait_for(lambda: gone(family))


# ---------------------------------------------------------------- kills


def test_a_killed_reading_posts_at_most_what_was_in_flight_again(server: Server, tmp_path: Path):
    folder, home = folder_of(tmp_path, 8), tmp_path / "home"
    answered = threading.Semaphore(3)

    def three_then_none(asked: Asked) -> Answer:
        return tei(KITES) if answered.acquire(blocking=False) else Answer(200, KITES, delay=3_600)

    server.on(FULLTEXT, three_then_none)
    with typed(folder, home, server, concurrency=2) as process:
        wait_for(lambda: posted(server).total() == 5 or process.poll() is not None)
        kill(process)
    assert len(list(home.glob("parsed/*/*.gz"))) == 3
    before = posted(server)
    server.on(FULLTEXT, tei(KITES))
    with typed(folder, home, server, concurrency=2) as process:
        assert process.wait() == 0
    again = posted(server) - before
    assert (before.total(), again.total()) == (5, 5)
    assert sorted(posted(server).values()) == [1] * 6 + [2] * 2  # the two that were in flight
    assert list(home.glob("parsed/*/*.lock")) == []


def test_two_processes_do_not_post_one_pdf_twice(server: Server, tmp_path: Path):
    homes, folder = tmp_path / "home", folder_of(tmp_path, 6)
    server.on(FULLTEXT, Answer(200, KITES, delay=0.3))
    code = (
        "import sys\nfrom pathlib import Path\nfrom tests.tasks.sources.papers.test_parsed import asked_all\n"
        "asked_all(*sys.argv[1:])"
    )
    environment = {**os.environ, "PYTHONPATH": paths.PYTHONPATH}
    command = [sys.executable, "-c", code, server.url, str(folder), str(homes)]
    running = [subprocess.Popen(command, env=environment) for _ in "ab"]
    assert [process.wait(600) for process in running] == [0, 0]
    assert posted(server) == Counter(range(6))


def asked_all(url: str, folder: str, home: str) -> None:
    """Ask for each PDF of a folder by a connection of its own; the entry point of a child process."""
    members = [Member(path.name, "0" * 64, path.read_bytes(), None) for path in sorted(Path(folder).iterdir())]
    told = [row for _, row in connect(url, concurrency=4).papers(members, Path(home))]
    assert all(isinstance(row, dict) for row in told), told


# ---------------------------------------------------------------- what is posted


def test_a_server_that_dies_after_three_of_eight_is_asked_for_five(server: Server, tmp_path: Path):
    folder, home = folder_of(tmp_path, 8), tmp_path / "home"
    server.on(FULLTEXT, *[tei(KITES)] * 3, BUSY)
    with pytest.raises(Incomplete):
        read(folder, home, server, concurrency=1, patience=0.3)
    done = len(list(home.glob("parsed/*/*.gz")))
    server.on(FULLTEXT, tei(KITES))
    server.asked.clear()
    assert read(folder, home, server)[0] == 8
    assert (done, posted(server).total()) == (3, 5)


def test_one_more_pdf_beside_eight_is_one_post(server: Server, tmp_path: Path):
    home = tmp_path / "home"
    read(folder_of(tmp_path, 8), home, server)
    server.asked.clear()
    assert read(folder_of(tmp_path, 9), home, server)[0] == 9
    assert posted(server) == {8: 1}


def test_another_reader_of_tei_posts_nothing(server: Server, tmp_path: Path):
    folder, home = folder_of(tmp_path, 3), tmp_path / "home"
    server.on(FULLTEXT, tei(KITES), failed("NO_BLOCKS"), tei(KITES))
    first = read(folder, home, server, concurrency=1)
    shutil.rmtree(home / "stages")  # as all rows are made again by a stage of another revision
    server.asked.clear()
    assert read(folder, home, server) == first == (2, [("defect", "GROBID: NO_BLOCKS", 1)])
    assert posted(server).total() == 0


def test_another_version_of_the_server_is_asked_anew(server: Server, tmp_path: Path):
    folder, home = folder_of(tmp_path, 2), tmp_path / "home"
    read(folder, home, server)
    server.on(VERSION, document({"version": "0.9.0", "revision": "77"}))
    server.asked.clear()
    read(folder, home, server)
    assert posted(server).total() == 2


@pytest.mark.parametrize("answer", [NO_CONTENT, failed("BAD_INPUT_DATA"), failed("TIMEOUT"), Answer(413)])
def test_a_refusal_is_a_result(server: Server, tmp_path: Path, answer: Answer):
    server.on(FULLTEXT, answer)
    parser, members = quick(server), [Member("a.pdf", "0" * 64, b"%PDF- kite 1", None)]
    first, second = (str(told) for _ in "ab" for _, told in parser.papers(members, tmp_path))
    assert first == second
    assert posted(server)[1] == (2 if b"TIMEOUT" in answer.body else 1)


def test_what_was_too_slow_is_asked_again_only_with_a_longer_deadline(server: Server, tmp_path: Path):
    server.on(FULLTEXT, Answer(200, KITES, delay=3_600))
    members = [Member("a.pdf", "0" * 64, b"%PDF- kite 1", None)]
    for _ in "ab":
        list(quick(server, seconds=0.2).papers(members, tmp_path))
    assert posted(server) == {1: 1}
    server.on(FULLTEXT, tei(KITES))
    ((_, told),) = quick(server, seconds=600.0).papers(members, tmp_path)
    assert isinstance(told, dict)


def test_a_longer_deadline_posts_only_what_was_too_slow(server: Server, tmp_path: Path):
    folder, home = folder_of(tmp_path, 3), tmp_path / "home"

    def slow_for_the_second(asked: Asked) -> Answer:
        return Answer(200, KITES, delay=3_600) if form_of(asked)["input"].endswith(b" 1") else tei(KITES)

    server.on(FULLTEXT, slow_for_the_second)
    assert read(folder, home, server, seconds=4) == (2, [("defect", "GROBID: too slow", 1)])
    server.on(FULLTEXT, tei(KITES))
    server.asked.clear()
    assert read(folder, home, server, seconds=4)[0] == 2
    assert posted(server) == {}
    assert read(folder, home, server, seconds=600) == (3, [])
    assert posted(server) == {1: 1}
    assert read(folder, home, server, seconds=300) == (3, [])
    assert posted(server) == {1: 1}


@pytest.mark.parametrize("page", [b"<html>log in first</html>", KITES[:2_000]], ids=["page", "cut"])
def test_what_is_no_whole_tei_is_not_kept(server: Server, tmp_path: Path, page: bytes):
    server.on(FULLTEXT, tei(page))
    with pytest.raises(Incomplete, match=r"a\.pdf"):
        list(quick(server).papers([Member("a.pdf", "0" * 64, b"%PDF- kite 1", None)], tmp_path))
    assert list(tmp_path.glob("parsed/*/*.gz")) == []


def test_ill_formed_tei_holds_up_no_other_pdf_and_is_asked_for_again_with_the_next_change(
    server: Server, tmp_path: Path
):
    home, ill_formed = tmp_path / "home", KITES.replace(b"</body>", b"\x0b</body>")

    def ill_formed_for_the_second(asked: Asked) -> Answer:
        return tei(ill_formed if form_of(asked)["input"].endswith(b" 1") else KITES)

    server.on(FULLTEXT, ill_formed_for_the_second)
    assert read(folder_of(tmp_path, 3), home, server) == (2, [("defect", "ill-formed XML", 1)])
    assert posted(server) == {0: 1, 1: 3, 2: 1}
    assert len(list(home.glob("parsed/*/*.gz"))) == 2
    server.on(FULLTEXT, tei(KITES))
    server.asked.clear()
    assert read(folder_of(tmp_path, 4), home, server) == (4, [])
    assert posted(server) == {1: 1, 3: 1}


def test_a_kept_answer_that_is_cut_off_is_asked_for_again(server: Server, tmp_path: Path):
    parser, pdf = quick(server), b"%PDF- kite 1"
    Parsed(tmp_path, parser.answers()).put(sha256_of_pdf(pdf), Result(KITES[:2_000]))
    ((_, told),) = parser.papers([Member("a.pdf", "0" * 64, pdf, None)], tmp_path)
    assert isinstance(told, dict)
    assert posted(server) == {1: 1}


def quick(server: Server, **options: Any) -> Grobid:
    return connect(server.url, **{"pause_seconds": 0.01, "patience_seconds": 600.0, **options})


# ---------------------------------------------------------------- the files


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "of another", "text"])
def test_a_damaged_result_counts_as_missing_and_is_made_anew(tmp_path: Path, damage: str):
    store, other = Parsed(tmp_path, PARSER), sha256_of_pdf(b"%PDF- another")
    store.put(PDF, Result(KITES))
    store.put(other, Result(KITES[:500]))
    place = store.place(PDF)
    content = bytearray(place.read_bytes())
    content[len(content) // 2] ^= 0xFF
    places = {"cut": place.read_bytes()[:-9], "flipped": bytes(content), "empty": b"", "text": KITES}
    place.write_bytes(places.get(damage, store.place(other).read_bytes()))
    assert store.get(PDF) is None
    assert [path for path, _ in garbage(tmp_path)] == [place]
    store.put(PDF, Result(KITES))
    assert store.get(PDF) == Result(KITES)


def test_gc_drops_refusals_and_what_a_later_version_replaced(tmp_path: Path):
    pdfs = [sha256_of_pdf(b"%d" % number) for number in range(3)]
    old, new = Parsed(tmp_path, PARSER), Parsed(tmp_path, {**PARSER, "parser": "grobid 0.9.0 77"})
    for store, pdf, result, age in [
        (old, pdfs[0], Result(KITES), 2),
        (new, pdfs[0], Result(KITES), 1),
        (old, pdfs[1], Result(KITES), 2),
        (new, pdfs[1], Result(b"", "GROBID: NO_BLOCKS"), 1),
        (old, pdfs[2], Result(b"", "GROBID: refused", "status 400"), 1),
    ]:
        store.put(pdf, result)
        os.utime(store.place(pdf), (0, 1_700_000_000 - age))
    dropped = {path for path, _ in garbage(tmp_path)}
    assert dropped == {old.place(pdfs[0]), new.place(pdfs[1]), old.place(pdfs[2])}


def test_gc_takes_locks_of_the_dead_and_leaves_those_that_are_held(tmp_path: Path):
    store = Parsed(tmp_path, PARSER)
    left = store.place(PDF).with_suffix(".lock")
    left.parent.mkdir(parents=True)
    left.touch()
    assert [path for path, _ in garbage(tmp_path)] == [left]
    with store.asking(PDF, threading.Event()):
        assert garbage(tmp_path) == []
    assert not left.exists()


def test_the_command_gc_frees_them(server: Server, tmp_path: Path):
    store = Parsed(tmp_path, PARSER)
    store.put(PDF, Result(KITES))
    store.put(sha256_of_pdf(b"2"), Result(b"", "GROBID: no content"))
    done = subprocess.run(
        [LONGFORM, "gc", "--home", tmp_path, "--json"],
        env={**os.environ, "PYTHONPATH": paths.PYTHONPATH},
        capture_output=True,
        check=True,
    )
    assert [Path(path).name for path in json.loads(done.stdout)["paths"]] == [store.place(sha256_of_pdf(b"2")).name]
    assert store.get(PDF) == Result(KITES)


def test_after_gc_a_pdf_that_the_server_failed_on_is_posted_once_more_and_no_other(server: Server, tmp_path: Path):
    folder, home = folder_of(tmp_path, 2), tmp_path / "home"

    def failing_for_the_second(asked: Asked) -> Answer:
        return failed("GENERAL") if form_of(asked)["input"].endswith(b" 1") else tei(KITES)

    server.on(FULLTEXT, failing_for_the_second)
    assert read(folder, home, server) == (1, [("defect", "GROBID: GENERAL", 1)])
    assert posted(server) == {0: 1, 1: 2}
    server.on(FULLTEXT, tei(KITES))
    subprocess.run([LONGFORM, "gc", "--home", home], env={**os.environ, "PYTHONPATH": paths.PYTHONPATH}, check=True)
    server.asked.clear()
    assert read(folder, home, server) == (2, [])
    assert posted(server) == {1: 1}


def test_results_of_a_pdf_are_forgotten_by_all_parsers(tmp_path: Path):
    stores = [Parsed(tmp_path, {**PARSER, "parser": f"grobid 0.{number}"}) for number in range(2)]
    for store in stores:
        store.put(PDF, Result(KITES))
        store.put(sha256_of_pdf(b"2"), Result(KITES))
    assert forget(tmp_path, [PDF]) == 2
    assert [store.get(PDF) for store in stores] == [None, None]
    assert all(store.get(sha256_of_pdf(b"2")) for store in stores)
