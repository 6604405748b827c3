"""GROBID against a stand-in server with the real one's status codes and bodies: what is asked, waited for, refused."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paths
import pytest
from grobid_server import (
    ALIVE,
    BAD_REQUEST,
    BUSY,
    FULLTEXT,
    HEALTH,
    NO_CONTENT,
    NOT_READY,
    RESET,
    VERSION,
    failed,
    form_of,
    grobid,
    tei,
)
from http_server import Answer, Asked, Server, document
from toy_stages import building, rejected_by

from flows.sources import papers
from longform.artifacts.rows import Row
from longform.errors import Incomplete, SourceError, UsageError
from tasks.sources.files.bundles import Member
from tasks.sources.paper_body import UnreadableError
from tasks.sources.papers.grobid import Grobid, code_of, connect

KITES = (paths.SAMPLES / "papers" / "kites.tei.xml").read_bytes()
PDF = b"%PDF-1.4 a kite"


@pytest.fixture
def server() -> Iterator[Server]:
    with grobid() as server:
        server.on(FULLTEXT, tei(KITES))
        yield server


def quick(server: Server, **options: Any) -> Grobid:
    """Pauses are short and deadlines far: a machine that is busy with other things fails no test."""
    far = dict.fromkeys(("seconds", "patience_seconds", "ready_seconds", "connect_seconds"), 600.0)
    return connect(server.url, **{**far, "pause_seconds": 0.01, **options})


def member(content: bytes = PDF, name: str = "a.pdf") -> Member:
    return Member(name, "0" * 64, content, None)


def asked(server: Server, home: Path, *contents: bytes, **options: Any) -> list[Row | UnreadableError]:
    members = [member(content) for content in contents or (PDF,)]
    return [told for _, told in quick(server, **options).papers(members, home)]


def posts(server: Server) -> list[Asked]:
    return [one for one in server.asked if one.path == FULLTEXT]


def reason_of(told: Row | UnreadableError) -> tuple[str, str | None]:
    assert isinstance(told, UnreadableError), told
    return told.reason, told.detail


# ---------------------------------------------------------------- what is sent


def test_a_pdf_becomes_a_paper(server: Server, tmp_path: Path):
    (row,) = asked(server, tmp_path)
    assert isinstance(row, dict)
    assert (row["source"], row["parser"], row["title"]) == ("pdf", "grobid 0.8.2", "How Long a Tail Does a Kite Need?")
    assert row["pdf_sha"] == hashlib.md5(PDF).hexdigest()


def test_consolidation_is_off_and_said_so_and_raw_citations_are_on(server: Server, tmp_path: Path):
    asked(server, tmp_path)
    form = form_of(posts(server)[0])
    assert form == {
        "input": PDF,
        "consolidateHeader": b"0",
        "consolidateCitations": b"0",
        "consolidateFunders": b"0",
        "includeRawCitations": b"1",
    }


def test_names_of_files_are_not_sent(server: Server, tmp_path: Path):
    list(quick(server).papers([member(name="/home/me/secret.pdf")], tmp_path))
    assert b"secret" not in posts(server)[0].body


def test_what_is_no_pdf_is_not_sent(server: Server, tmp_path: Path):
    (told,) = asked(server, tmp_path, b"hello")
    assert reason_of(told)[0] == "no PDF"
    assert posts(server) == []


# ---------------------------------------------------------------- what comes back


@pytest.mark.parametrize(
    ("answers", "reason", "requests"),
    [
        ([NO_CONTENT], "GROBID: no content", 1),
        ([BAD_REQUEST], "GROBID: refused", 1),
        ([Answer(413, b"<html>too large</html>")], "GROBID: refused", 1),
        ([failed("BAD_INPUT_DATA")], "GROBID: BAD_INPUT_DATA", 1),
        ([failed("NO_BLOCKS")], "GROBID: NO_BLOCKS", 1),
        ([failed("TIMEOUT")], "GROBID: TIMEOUT", 2),
        ([failed("GENERAL")], "GROBID: GENERAL", 2),
        ([failed("OF_THE_FUTURE")], "GROBID: failed", 1),
        ([Answer(500)], "GROBID: failed", 2),
        ([Answer(200, b"", {"Content-Type": "application/xml"})], "GROBID: no content", 1),
        ([tei(b"<TEI><text>\x0b</text></TEI>\n")], "ill-formed XML", 3),
        ([tei(b"<!DOCTYPE TEI [<!ENTITY a 'b'>]><TEI/>")], "document type declaration", 1),
        ([tei(b"<TEI><text><body/></text></TEI>")], "empty body", 1),
        ([BUSY, failed("TAGGING_ERROR")], "GROBID: TAGGING_ERROR", 2),
        ([failed("TIMEOUT"), BUSY, failed("PARSING_ERROR")], "GROBID: PARSING_ERROR", 3),
    ],
    ids=range(15),
)
def test_a_failure_of_the_pdf_is_a_reason(
    server: Server, tmp_path: Path, answers: list[Answer], reason: str, requests: int
):
    server.on(FULLTEXT, *answers)
    (told,) = asked(server, tmp_path)
    found, detail = reason_of(told)
    assert (found, len(posts(server))) == (reason, requests)
    assert "/opt" not in str(detail)
    assert "origin7" not in str(detail)


@pytest.mark.parametrize(
    "answers",
    [
        [BUSY, BUSY, tei(KITES)],
        [failed("TIMEOUT"), tei(KITES)],
        [RESET, tei(KITES)],
        [tei(b"<html>log in first</html>"), tei(KITES[:2_000]), tei(KITES)],
        [tei(KITES.replace(b"</body>", b"&#1;</body>")), tei(KITES)],
    ],
)
def test_what_passes_is_waited_for(server: Server, tmp_path: Path, answers: list[Answer]):
    server.on(FULLTEXT, *answers)
    (row,) = asked(server, tmp_path)
    assert isinstance(row, dict)
    assert len(posts(server)) == len(answers)


def test_a_server_that_stays_busy_leaves_the_part_open(server: Server, tmp_path: Path):
    server.on(FULLTEXT, *[BUSY] * 30, tei(KITES))
    with pytest.raises(Incomplete, match="is busy"):
        asked(server, tmp_path, patience_seconds=0.2)  # 30 pauses are longer


@pytest.mark.parametrize(
    "answer",
    [RESET, Answer(200, KITES, length=len(KITES) + 9, drop_after=len(KITES)), Answer(502, b"bad gateway"), Answer(504)],
)
def test_a_lost_connection_is_no_bad_pdf(server: Server, tmp_path: Path, answer: Answer):
    server.on(FULLTEXT, answer)
    with pytest.raises(Incomplete, match="run the same command again"):
        asked(server, tmp_path)
    assert len(posts(server)) == 3


@pytest.mark.parametrize(
    "page",
    [b"<html>log in first</html>", b"<html><br>log in<p></html>", b"busy", b"<TEI>", KITES[:2_000], KITES[:-3]],
    ids=["page", "loose page", "text", "start", "cut", "cut at the end"],
)
def test_what_is_no_whole_tei_document_is_neither_a_row_nor_rejected(server: Server, tmp_path: Path, page: bytes):
    (tmp_path / "a.pdf").write_bytes(PDF)
    config = papers.Read(grobid=server.url, patience=0.3)
    server.on(FULLTEXT, tei(page))
    with building(tmp_path / "home") as run, pytest.raises(Incomplete, match=r"answers for a\.pdf .*run the same"):
        papers.read(run, [tmp_path / "a.pdf"], config)
    assert len(posts(server)) == 3
    server.on(FULLTEXT, tei(KITES))
    with building(tmp_path / "home") as run:
        assert papers.read(run, [tmp_path / "a.pdf"], config)[0].count == 1


def test_a_server_that_went_away_leaves_the_part_open(server: Server, tmp_path: Path):
    parser = quick(server)
    with socket.socket() as bound:  # and nothing listens
        bound.bind(("127.0.0.1", 0))
        moved = Grobid(f"http://127.0.0.1:{bound.getsockname()[1]}", parser.version, 2, 600, 600, 0.01)
        with pytest.raises(Incomplete, match="refused the connection"):
            list(moved.papers([member()], tmp_path))


@pytest.mark.parametrize(
    "slow", [Answer(200, KITES, delay=30), Answer(200, KITES, drip=0.2), Answer(200, KITES, head_drip=0.2)]
)
def test_a_pdf_has_a_deadline_of_our_own(server: Server, tmp_path: Path, slow: Answer):
    server.on(FULLTEXT, slow)
    started = time.monotonic()
    (told,) = asked(server, tmp_path, seconds=0.3)
    assert reason_of(told) == ("GROBID: too slow", "more than 0.3 seconds")
    assert time.monotonic() - started < 600  # the whole body would take longer


@pytest.mark.parametrize("status", [301, 401, 403, 404, 405])
def test_another_server_is_taken_for_no_grobid(server: Server, tmp_path: Path, status: int):
    server.on(FULLTEXT, Answer(status, b"", {"Location": "http://127.0.0.1:9/"}))
    with pytest.raises(SourceError, match=f"status {status}"):
        asked(server, tmp_path)
    assert len(posts(server)) == 1


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"[TIMEOUT] PDF took longer", ("TIMEOUT", "PDF took longer")),
        (b"[GENERAL] /opt/grobid/grobid-home/tmp/origin123.pdf is bad", ("GENERAL", "… is bad")),
        (b"<html><h1>Error</h1></html>", ("", "Error")),
        (b"", ("", "")),
        (b"[\xff\xfe", ("", "[\ufffd\ufffd")),
    ],
)
def test_codes_are_read_and_paths_left_out(body: bytes, expected: tuple[str, str]):
    assert code_of(body) == expected


# ---------------------------------------------------------------- many at once


def test_papers_come_in_their_order_and_no_more_at_once_than_allowed(server: Server, tmp_path: Path):
    running, most, lock, all_busy = 0, 0, threading.Lock(), threading.Event()

    def answer(asked: Asked) -> Answer:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == 3:
                all_busy.set()
        assert all_busy.wait(600)
        time.sleep(0.05)  # in which one too many would come
        with lock:
            running -= 1
        number = form_of(asked)["input"].split()[-1]
        return tei(KITES.replace(b"How Long a Tail", b"Kite " + number))

    server.on(FULLTEXT, answer)
    contents = [b"%%PDF- %d" % n for n in range(12)]
    told = asked(server, tmp_path, *contents, concurrency=3)
    assert [row["title"].split()[1] for row in told if isinstance(row, dict)] == [str(n) for n in range(12)]
    assert most == 3


def test_two_units_of_a_home_share_the_places(server: Server, tmp_path: Path):
    running, most, lock, all_busy = 0, 0, threading.Lock(), threading.Event()

    def answer(asked: Asked) -> Answer:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == 2:
                all_busy.set()
        assert all_busy.wait(600)
        time.sleep(0.05)  # in which one too many would come
        with lock:
            running -= 1
        return tei(KITES)

    server.on(FULLTEXT, answer)
    units = [
        threading.Thread(target=asked, args=(server, tmp_path, *pdfs), kwargs={"concurrency": 2})
        for pdfs in ([b"%%PDF- %s%d" % (unit, number) for number in range(5)] for unit in (b"a", b"b"))
    ]
    for unit in units:
        unit.start()
    for unit in units:
        unit.join()
    assert (most, len(posts(server))) == (2, 10)


# ---------------------------------------------------------------- the server


def test_the_version_is_the_identity_and_the_address_is_not(server: Server):
    here = quick(server)
    assert here.identity()["parser"] == "grobid 0.8.2 a91ee48"
    assert Grobid("http://elsewhere:1", here.version, 9, here.seconds, 9).identity() == here.identity()
    assert Grobid("http://elsewhere:1", here.version, 9, 9, 9).identity() != here.identity()


@pytest.mark.parametrize(
    ("answer", "version"),
    [(Answer(200, b"0.5.6\n"), "0.5.6"), (Answer(404), "unknown"), (Answer(200, b"[]"), "unknown")],
)
def test_versions_of_all_ages_are_read(server: Server, answer: Answer, version: str):
    server.on(VERSION, answer)
    assert quick(server).version == version


def test_no_more_is_asked_at_once_than_there_are_engines():
    with grobid("0.9.1", engines=3) as newer:
        assert quick(newer, concurrency=8).concurrency == 3
        assert quick(newer, concurrency=2).concurrency == 2
    with grobid("0.8.2") as older:
        assert quick(older, concurrency=8).concurrency == 8


def test_a_server_that_loads_its_models_is_waited_for():
    with grobid("0.9.1") as server:
        server.on(ALIVE, NOT_READY, NOT_READY, Answer(200, b"true"))
        assert quick(server).version.startswith("0.9.1")
        server.on(ALIVE, NOT_READY)
        with pytest.raises(Incomplete, match="still starting"):
            quick(server, ready_seconds=0.5)


@pytest.mark.parametrize("path", [ALIVE, VERSION])
@pytest.mark.parametrize("fault", [Answer(500, b"oops"), Answer(502, b"<html>"), RESET], ids=["500", "502", "reset"])
def test_a_server_that_fails_twice_before_it_answers_is_waited_for(path: str, fault: Answer) -> None:
    """Its version is part of what results are kept under: one that is not told must not look like another server."""
    with grobid("0.8.2") as sound:
        expected = quick(sound).version
    good = Answer(200, b"true") if path == ALIVE else document({"version": "0.8.2", "revision": "a91ee48"})
    with grobid("0.8.2") as server:
        server.on(path, fault, fault, good)
        assert quick(server).version == expected
        server.on(path, fault)
        with pytest.raises((Incomplete, SourceError), match=r"is failing|does not tell its version|No GROBID server"):
            quick(server, ready_seconds=0.5)


@pytest.mark.parametrize("answer", [Answer(200, b"<html>welcome</html>"), Answer(404), Answer(200, b"false")])
def test_a_server_that_is_no_grobid_is_an_error_at_once(server: Server, answer: Answer):
    server.on(ALIVE, answer)
    with pytest.raises(SourceError, match="not as GROBID does"):
        quick(server)


def test_no_server_at_all_is_an_error_with_how_to_start_one():
    with socket.socket() as bound:  # and nothing listens
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(SourceError, match="docker run"):
            connect(f"http://127.0.0.1:{bound.getsockname()[1]}")
    with pytest.raises(SourceError, match="no address"):
        connect("localhost:8070")


def test_a_broken_health_page_does_no_harm(server: Server):
    server.on(HEALTH, Answer(500, b"oops"))
    assert quick(server).concurrency == 4


# ---------------------------------------------------------------- the flow


def test_a_folder_is_read_by_the_server_that_is_named(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "in"
    folder.mkdir()
    for n in range(3):
        (folder / f"{n}.pdf").write_bytes(PDF + b"%d" % n)
    server.on(FULLTEXT, tei(KITES), failed("NO_BLOCKS"), tei(KITES))
    monkeypatch.setenv("GROBID_URL", server.url)
    with building(tmp_path / "home") as run:
        found, paragraphs, _ = papers.read(run, [folder], papers.Read(concurrency=1))
    assert sum(part.rows for part in found.parts or ()) == 2
    assert rejected_by(run, "read_pdfs") == [("defect", "GROBID: NO_BLOCKS", 1)]
    assert paragraphs.count == 2 * 13
    assert len({row["paper_id"] for row in found}) == 2


def test_a_build_that_a_busy_server_ended_goes_on_where_it_stopped(server: Server, tmp_path: Path):
    (tmp_path / "a.pdf").write_bytes(PDF)
    config = papers.Read(grobid=server.url, patience=0.3)
    server.on(FULLTEXT, BUSY)
    with building(tmp_path / "home") as run, pytest.raises(Incomplete):
        papers.read(run, [tmp_path / "a.pdf"], config)
    server.on(FULLTEXT, tei(KITES))
    with building(tmp_path / "home") as run:
        assert papers.read(run, [tmp_path / "a.pdf"], config)[0].count == 1
    before = len(posts(server))
    with building(tmp_path / "home") as run:
        assert papers.read(run, [tmp_path / "a.pdf"], config)[0].count == 1
    assert len(posts(server)) == before


def test_the_server_is_needed_where_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("GROBID_URL", raising=False)
    (tmp_path / "a.pdf").write_bytes(PDF)
    with building(tmp_path / "home") as run, pytest.raises(UsageError, match="needs a server"):
        papers.read(run, [tmp_path / "a.pdf"], papers.Read(parser="grobid"))
