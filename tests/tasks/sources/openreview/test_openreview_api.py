"""Fetching from OpenReview: both APIs, pages, limits, logins and PDFs, against servers that behave like them."""

from __future__ import annotations

import io
import json
import os
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from flows.sources.openreview import Fetch, fetch
from longform.errors import HttpError, Incomplete, SourceError, UsageError
from longform.net.download import Downloader
from tasks.sources.openreview.openreview_api import Api, years
from tasks.sources.openreview.openreview_pdfs import Paper, batches, fetch_pdfs

PDF = b"%PDF-1.4\n%of a test\n" + b"x" * 2_000 + b"\n%%EOF\n"


class Quiet:
    def begin(self, name: str, total_bytes: int | None, done_bytes: int) -> None: ...
    def advance(self, name: str, bytes: int) -> None: ...
    def end(self, name: str) -> None: ...


class OpenReview:
    """One of the two APIs: notes by invitation (v1) or by invitation and venueid (v2), PDFs by id."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.notes: list[dict[str, Any]] = []
        self.pdfs: dict[str, bytes] = {}
        self.asked: list[tuple[str, dict[str, str], str | None]] = []
        self.faults: list[tuple[int, bytes, dict[str, str]]] = []
        self.most = 1_000
        self.knows_after = self.gives_zips = True
        self.token: str | None = None
        self.login_says: dict[str, Any] | None = None
        self.names_in_zip = lambda note: f"{note['number']}_{note['id']}_title_cut_short.pdf"
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def paths(self) -> Counter[str]:
        return Counter(path for path, _, _ in self.asked)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None: ...

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                params = {name: values[0] for name, values in parse_qs(parts.query).items()}
                api.asked.append((parts.path, params, self.headers.get("Authorization")))
                self._send(*api.answer(parts.path, params, self.headers.get("Authorization")))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                api.asked.append((self.path, body, self.headers.get("Authorization")))
                found = api.login_says or {"token": api.token, "user": {"id": body["id"]}}
                self._send(400 if "name" in found else 200, json.dumps(found).encode(), {})

            def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return Handler

    def answer(self, path: str, params: dict[str, str], authorization: str | None) -> tuple[int, bytes, dict[str, str]]:
        if self.faults:
            return self.faults.pop(0)
        if self.token and authorization != f"Bearer {self.token}":
            return 403, b'{"name": "ForbiddenError"}', {}
        if path == "/notes":
            return self._notes(params)
        if path == "/attachment":
            return self._attachments(params["ids"].split(","))
        if path == "/pdf" and params["id"] in self.pdfs:
            return 200, self.pdfs[params["id"]], {"Content-Type": "application/pdf"}
        return 404, b'{"name": "NotFoundError"}', {}

    def _notes(self, params: dict[str, str]) -> tuple[int, bytes, dict[str, str]]:
        found = sorted((note for note in self.notes if self._fits(note, params)), key=lambda note: str(note["id"]))
        count = len(found)
        if self.knows_after and "after" in params:
            found = [note for note in found if note["id"] > params["after"]]
        found = found[int(params.get("offset", 0)) :][: min(self.most, int(params["limit"]))]
        if params.get("details") != "directReplies":
            found = [{name: value for name, value in note.items() if name != "details"} for note in found]
        return 200, json.dumps({"notes": found, "count": count}).encode(), {}

    def _fits(self, note: dict[str, Any], params: dict[str, str]) -> bool:
        if "content.venueid" in params:
            return bool(self.version == 2 and note["content"]["venueid"]["value"] == params["content.venueid"])
        return params["invitation"] in note.get("invitations", [note.get("invitation")])

    def _attachments(self, ids: list[str]) -> tuple[int, bytes, dict[str, str]]:
        if not self.gives_zips or not all(one in self.pdfs for one in ids):
            return 404, b'{"name": "NotFoundError"}', {}
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for note in self.notes:
                if note["id"] in ids:
                    archive.writestr(self.names_in_zip(note), self.pdfs[note["id"]])
        return 200, file.getvalue(), {"Content-Type": "application/zip"}


def conference(year: int) -> str:
    return f"ICLR.cc/{year}/Conference"


def v1(year: int, id: str, number: int, invitation: str = "Blind_Submission", **content: Any) -> dict[str, Any]:
    decision = {
        "id": f"d{id}",
        "forum": id,
        "replyto": id,
        "invitation": f"{conference(year)}/Paper{number}/-/Decision",
        "content": {"decision": "Reject"},
    }
    return {
        "id": id,
        "forum": id,
        "number": number,
        "invitation": f"{conference(year)}/-/{invitation}",
        "content": {"title": id, "pdf": f"/pdf/{number}.pdf", **content},
        "details": {"directReplies": [decision]},
    }


def v2(year: int, id: str, number: int, venueid: str = "", pdf: str | None = None) -> dict[str, Any]:
    content = {"title": id, "venueid": conference(year) + venueid, "pdf": f"/pdf/{number}.pdf" if pdf is None else pdf}
    return {
        "id": id,
        "forum": id,
        "number": number,
        "invitations": [f"{conference(year)}/-/Submission"],
        "content": {name: {"value": value} for name, value in content.items()},
        "details": {"directReplies": []},
    }


def limited(seconds: float) -> tuple[int, bytes, dict[str, str]]:
    """The 429 of 2026: when it ends is told in the body only."""
    reset = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    body = {"name": "RateLimitError", "status": 429, "details": {"limit": 36, "remaining": 0, "resetTime": reset}}
    return 429, json.dumps(body).encode(), {}


@pytest.fixture
def one() -> Iterator[OpenReview]:
    server = OpenReview(1)
    yield server
    server.close()


@pytest.fixture
def two() -> Iterator[OpenReview]:
    server = OpenReview(2)
    yield server
    server.close()


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENREVIEW_USERNAME", raising=False)
    monkeypatch.delenv("OPENREVIEW_PASSWORD", raising=False)


@pytest.fixture
def http(slept: list[float]) -> Iterator[Downloader]:
    client = Downloader(contact="tests@example.org", sleep=slept.append, patience_seconds=300)
    yield client
    client.close()


def config(one: OpenReview, two: OpenReview, **settings: Any) -> Fetch:
    return Fetch(base_url=two.url, base_url_v1=one.url, **settings)


def ids(file: Path) -> list[str]:
    return [json.loads(line)["id"] for line in file.read_text().splitlines()]


# ---------------------------------------------------------------- listing


def test_a_year_of_the_first_api_comes_with_decisions_and_what_was_withdrawn(one, two, http, tmp_path):
    one.notes = [v1(2021, "a", 1), v1(2021, "b", 2), v1(2021, "w", 3, "Withdrawn_Submission")]
    files = fetch(http, ["2021"], tmp_path, config(one, two), Quiet())
    assert [file.name for file in files] == ["2021-submissions.jsonl", "2021-withdrawn.jsonl"]
    assert ids(files[0]) == ["a", "b"]
    assert ids(files[1]) == ["w"]
    assert json.loads(files[0].read_text().splitlines()[0])["details"]["directReplies"][0]["id"] == "da"
    assert two.asked == []
    noted = json.loads((tmp_path / "2021-submissions.jsonl.fetch.json").read_text())
    assert noted["url"] == f"{one.url}/notes"
    assert noted["bytes"] == files[0].stat().st_size
    assert noted["facts"]["api"] == "v1"
    assert noted["retrieved_at"].startswith("20")


def test_a_year_of_the_second_api_names_a_withdrawn_submission_once(one, two, http, tmp_path):
    two.notes = [v2(2024, "a", 1), v2(2024, "w", 2, "/Withdrawn_Submission")]
    hidden = v2(2024, "h", 3, "/Withdrawn_Submission")
    hidden["invitations"] = [f"{conference(2024)}/-/Withdrawn_Submission"]
    two.notes.append(hidden)
    files = fetch(http, ["2024"], tmp_path, config(one, two), Quiet())
    assert {file.name: ids(file) for file in files} == {
        "2024-submissions.jsonl": ["a", "w"],
        "2024-withdrawn.jsonl": ["h"],
    }
    assert one.asked == []


def test_a_year_that_was_moved_to_the_other_api_is_found_there(one, two, http, tmp_path):
    two.notes = [v2(2023, "moved", 1)]
    one.notes = [v1(2024, "old", 1)]
    fetch(http, ["2023-2024"], tmp_path, config(one, two), Quiet())
    assert ids(tmp_path / "2023-submissions.jsonl") == ["moved"]
    assert ids(tmp_path / "2024-submissions.jsonl") == ["old"]


def test_the_decisions_of_2018_are_notes_apart(one, two, http, tmp_path):
    decision = v1(2018, "dec", 0, "Acceptance_Decision")
    one.notes = [v1(2018, "a", 1), decision]
    files = fetch(http, ["2018"], tmp_path, config(one, two, ratings=False), Quiet())
    assert [file.name for file in files] == ["2018-submissions.jsonl", "2018-decisions.replies.jsonl"]
    assert "details" not in json.loads(files[0].read_text())


@pytest.mark.parametrize("year", [2021, 2024])
def test_without_ratings_replies_are_asked_for_only_where_decisions_stand_in_them(year, one, two, http, tmp_path):
    one.notes, two.notes = [v1(2021, "a", 1)], [v2(2024, "a", 1)]
    fetch(http, [str(year)], tmp_path, config(one, two, ratings=False), Quiet())
    with_replies = [params for _, params, _ in one.asked + two.asked if "details" in params]
    assert bool(with_replies) == (year == 2021)


@pytest.mark.parametrize("knows_after", [True, False])
def test_every_page_comes_once_also_where_pages_are_short_or_after_is_unknown(knows_after, one, two, http, tmp_path):
    names = [f"n{number:03}" for number in range(107)]
    one.notes = [v1(2021, name, number) for number, name in enumerate(names)]
    one.most, one.knows_after = 10, knows_after
    fetch(http, ["2021"], tmp_path, config(one, two), Quiet())
    assert ids(tmp_path / "2021-submissions.jsonl") == names


def test_a_finished_year_is_not_asked_for_again_and_another_question_is(one, two, http, tmp_path):
    one.notes = [v1(2021, "a", 1)]
    fetch(http, ["2021"], tmp_path, config(one, two), Quiet())
    before = len(one.asked)
    assert [file.name for file in fetch(http, ["2021"], tmp_path, config(one, two), Quiet())] == [
        "2021-submissions.jsonl"
    ]
    assert len(one.asked) == before
    fetch(http, ["2021"], tmp_path, config(one, two, limit=1), Quiet())
    assert len(one.asked) > before


def test_an_interrupted_year_goes_on_after_the_last_whole_line(one, two, http, tmp_path):
    names = [f"n{number:03}" for number in range(30)]
    one.notes = [v1(2021, name, number) for number, name in enumerate(names)]
    settings = config(one, two, replies_page=10)
    refused = (418, b"{}", {})
    pages = iter([None, None, None, refused])  # the probe, two pages, then a fault
    answer = one.answer

    def failing(path: str, params: dict[str, str], authorization: str | None) -> tuple[int, bytes, dict[str, str]]:
        return next(pages, None) or answer(path, params, authorization)

    one.answer = failing  # type: ignore[method-assign]
    with pytest.raises(HttpError):
        fetch(http, ["2021"], tmp_path, settings, Quiet())
    part = tmp_path / "2021-submissions.jsonl.part"
    assert not (tmp_path / "2021-submissions.jsonl").exists()
    assert len(ids(part)) == 20
    part.write_bytes(part.read_bytes() + b'{"id": "n020", "half')
    one.asked.clear()
    fetch(http, ["2021"], tmp_path, settings, Quiet())
    assert ids(tmp_path / "2021-submissions.jsonl") == names
    first = next(params for _, params, _ in one.asked if "details" in params)
    assert first["after"] == "n019"
    assert not list(tmp_path.glob("*.part*"))


def test_a_limit_stops_a_listing(one, two, http, tmp_path):
    one.notes = [v1(2021, f"n{number}", number) for number in range(9)]
    fetch(http, ["2021"], tmp_path, config(one, two, limit=4, replies_page=3), Quiet())
    assert ids(tmp_path / "2021-submissions.jsonl") == ["n0", "n1", "n2", "n3"]


def test_a_year_that_neither_api_holds_is_an_error(one, two, http, tmp_path):
    with pytest.raises(SourceError, match=r"Neither API .* ICLR\.cc/2022/Conference"):
        fetch(http, ["2022"], tmp_path, config(one, two), Quiet())


def test_years_are_read_and_checked():
    assert years(["2019", "2018-2020"]) == [2018, 2019, 2020]
    for wrong in (["20"], ["2016"], [], ["2024-"], ["2024-20"], ["latest"]):
        with pytest.raises(UsageError):
            years(wrong)


# ---------------------------------------------------------------- limits and logins


def test_a_limit_that_ends_soon_is_waited_for_as_its_body_says(one, two, http, slept, tmp_path):
    one.notes = [v1(2021, "a", 1)]
    began = time.time()
    one.faults = [limited(120)]
    fetch(http, ["2021"], tmp_path, config(one, two), Quiet())
    passed = time.time() - began
    assert ids(tmp_path / "2021-submissions.jsonl") == ["a"]
    assert 120 - passed < slept[0] <= 121  # a second more than is left of it


def test_a_bad_gateway_s_page_and_a_limit_that_says_nothing_are_waited_for(one, two, http, slept, tmp_path):
    two.notes = [v2(2024, "a", 1)]
    two.faults = [(502, b"<html>bad gateway</html>", {}), (429, b"", {}), (429, b"{}", {"Retry-After": "3"})]
    fetch(http, ["2024"], tmp_path, config(one, two), Quiet())
    assert ids(tmp_path / "2024-submissions.jsonl") == ["a"]
    assert len(slept) >= 3
    assert any(3 <= seconds < 10 for seconds in slept)


def test_a_limit_that_ends_late_says_when_and_keeps_what_came(one, two, http, slept, tmp_path):
    one.notes = [v1(2021, "a", 1)]
    one.faults = [limited(3_600)]
    with pytest.raises(Incomplete, match="again after 20"):
        fetch(http, ["2021"], tmp_path, config(one, two), Quiet())
    assert slept == []


def test_a_page_for_browsers_is_no_empty_list(one, two, http, tmp_path):
    one.faults = [(200, b"<!doctype html><title>Verifying your browser</title>", {"Content-Type": "text/html"})]
    with pytest.raises(SourceError, match="OPENREVIEW_USERNAME"):
        fetch(http, ["2021"], tmp_path, config(one, two), Quiet())


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"notes": {}}', b'{"notes": [{"id": 3}]}', b'{"notes": ["x"]}', b"n"])
def test_what_is_no_list_of_notes_is_an_error(body, one, two, http, tmp_path):
    one.faults = [(200, body, {})]
    with pytest.raises(SourceError):
        fetch(http, ["2021"], tmp_path, config(one, two), Quiet())


def test_a_refusal_says_how_to_log_in(one, two, http, tmp_path):
    one.token = two.token = "secret"
    with pytest.raises(HttpError, match="set OPENREVIEW_USERNAME and OPENREVIEW_PASSWORD"):
        fetch(http, ["2021"], tmp_path, config(one, two), Quiet())


def test_each_api_gets_its_own_token_and_never_the_other_s(one, two, http, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENREVIEW_USERNAME", "ann@example.org")
    monkeypatch.setenv("OPENREVIEW_PASSWORD", "pa55word")
    one.token, two.token = "token-one", "token-two"
    one.notes, two.notes = [v1(2021, "a", 1)], [v2(2024, "b", 1)]
    fetch(http, ["2021", "2024"], tmp_path, config(one, two), Quiet())
    for server, own in ((one, "Bearer token-one"), (two, "Bearer token-two")):
        assert {said for path, _, said in server.asked if path != "/login"} == {own}
        assert server.paths()["/login"] == 1
    written = "".join(file.read_text() for file in tmp_path.rglob("*") if file.is_file())
    assert not any(secret in written for secret in ("pa55word", "token-one", "token-two"))


def test_an_expired_token_is_renewed_once(one, two, http, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENREVIEW_USERNAME", "ann@example.org")
    monkeypatch.setenv("OPENREVIEW_PASSWORD", "pa55word")
    one.token, one.notes = "token", [v1(2021, "a", 1)]
    api = Api(http, one.url, 1)
    question = {"invitation": f"{conference(2021)}/-/Blind_Submission", "limit": 5}
    assert len(api.notes(question)) == 1
    one.faults = [(401, b'{"name": "TokenExpiredError"}', {})]
    assert len(api.notes(question)) == 1
    assert one.paths()["/login"] == 2


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"mfaPending": True, "mfaMethods": ["totp"]}, "second factor"),
        ({"name": "MfaRequiredError", "message": "multi-factor"}, "second factor"),
        ({"name": "Error", "message": "Invalid username or password"}, "gives no token"),
        ({"token": 7}, "gives no token"),
    ],
)
def test_a_login_that_gives_no_token_is_an_error_without_the_password(said, message, one, http, monkeypatch):
    monkeypatch.setenv("OPENREVIEW_USERNAME", "ann@example.org")
    monkeypatch.setenv("OPENREVIEW_PASSWORD", "pa55word")
    one.login_says = said
    with pytest.raises(SourceError, match=message) as caught:
        Api(http, one.url, 1).notes({"invitation": "x", "limit": 1})
    assert "pa55word" not in str(caught.value)


def test_half_a_login_is_a_wrong_setting(one, http, monkeypatch):
    monkeypatch.setenv("OPENREVIEW_USERNAME", "ann@example.org")
    with pytest.raises(UsageError, match="belong together"):
        Api(http, one.url, 1).notes({"invitation": "x", "limit": 1})


# ---------------------------------------------------------------- PDFs


def many(two: OpenReview, number: int) -> list[Paper]:
    two.notes = [v2(2024, f"p{n:03}", n) for n in range(1, number + 1)]
    two.pdfs = {note["id"]: PDF + note["id"].encode() for note in two.notes}
    return [Paper(note["id"], note["number"], "/pdf/x.pdf") for note in two.notes]


def held(folder: Path) -> dict[str, bytes]:
    return {file.stem: file.read_bytes() for file in (folder / "pdfs").glob("*.pdf")}


def test_pdfs_come_fifty_at_a_time_and_only_once(two, http, tmp_path):
    wanted = many(two, 101)
    api = Api(http, two.url, 2)
    assert len(fetch_pdfs(api, wanted, tmp_path, Quiet())) == 101
    assert held(tmp_path) == two.pdfs
    assert two.paths() == {"/attachment": 3}
    fetch_pdfs(api, wanted, tmp_path, Quiet())
    assert two.paths() == {"/attachment": 3}
    side = json.loads((tmp_path / "pdfs" / "p001.pdf.fetch.json").read_text())
    assert side["bytes"] == len(two.pdfs["p001"])
    assert [file.name for file in (tmp_path / "pdfs").iterdir() if file.name.startswith(".")] == []


def test_no_batch_has_a_single_paper_but_of_one_in_all():
    for number in (0, 1, 2, 49, 50, 51, 52, 100, 101, 151):
        papers = [Paper(str(n), n, "/pdf/x.pdf") for n in range(number)]
        dealt = list(batches(papers))
        assert [paper for batch in dealt for paper in batch] == papers
        assert all(1 < len(batch) <= 50 for batch in dealt) or number == 1


def test_where_there_are_no_zips_pdfs_come_one_by_one(two, http, tmp_path):
    wanted = many(two, 55)
    two.gives_zips = False
    fetch_pdfs(Api(http, two.url, 2), wanted, tmp_path, Quiet())
    assert held(tmp_path) == two.pdfs
    assert two.paths() == {"/attachment": 2, "/pdf": 55}


def test_the_limit_on_pdfs_ends_a_run_that_the_next_goes_on_with(two, http, tmp_path):
    wanted = many(two, 3)
    two.gives_zips = False
    api = Api(http, two.url, 2)
    fetch_pdfs(api, wanted[:1], tmp_path, Quiet())
    two.faults = [limited(3_600)]
    with pytest.raises(Incomplete, match="again after 20"):
        fetch_pdfs(api, wanted, tmp_path, Quiet())
    assert list(held(tmp_path)) == ["p001"]
    two.asked.clear()
    fetch_pdfs(api, wanted, tmp_path, Quiet())
    assert held(tmp_path) == two.pdfs
    assert "p001" not in str([params for path, params, _ in two.asked if path == "/pdf"])


@pytest.mark.parametrize("name", ["../../../tmp/{id}.pdf", "/etc/{id}.pdf", "..\\..\\{id}.pdf", "{id}.pdf"])
def test_names_in_a_zip_never_become_paths(name, two, http, tmp_path):
    wanted = many(two, 2)
    two.names_in_zip = lambda note: name.format(id=note["id"])
    fetch_pdfs(Api(http, two.url, 2), wanted, tmp_path / "in", Quiet())
    assert held(tmp_path / "in") == two.pdfs
    assert {file.parent.name for file in tmp_path.rglob("*") if file.is_file()} == {"pdfs"}


def test_what_a_zip_leaves_out_or_breaks_is_asked_for_singly(two, http, tmp_path):
    wanted = many(two, 3)
    two.names_in_zip = lambda note: "no_idea.txt" if note["number"] == 2 else f"{note['number']}_x.pdf"
    fetch_pdfs(Api(http, two.url, 2), wanted, tmp_path, Quiet())
    assert held(tmp_path) == two.pdfs
    assert two.paths() == {"/attachment": 1, "/pdf": 1}


def test_a_damaged_zip_costs_nothing_but_its_request(two, http, tmp_path):
    wanted = many(two, 2)
    two.faults = [(200, b"PK\x03\x04 broken " + b"\0" * 100, {"Content-Type": "application/zip"})]
    fetch_pdfs(Api(http, two.url, 2), wanted, tmp_path, Quiet())
    assert held(tmp_path) == two.pdfs


def test_a_bomb_in_a_zip_is_not_unpacked(two, http, tmp_path):
    wanted = many(two, 2)
    two.pdfs["p001"] = b"%PDF-" + b"\0" * 1_000_000
    with pytest.raises(SourceError, match="p001"):
        fetch_pdfs(Api(http, two.url, 2), wanted, tmp_path, Quiet(), max_pdf_bytes=100_000)
    assert list(held(tmp_path)) == ["p002"]
    assert sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) < 10_000


def test_what_there_is_no_pdf_of_is_noted_and_not_asked_for_again(two, http, tmp_path):
    two.pdfs = {"page": b"<html>", "late": PDF}
    wanted = [
        Paper("withdrawn", 1, None),
        Paper("gone", 2, "/pdf/gone.pdf"),
        Paper("page", 3, "/pdf/p.pdf"),
        Paper("late", 4, "/pdf/l.pdf"),
    ]
    api = Api(http, two.url, 2)
    found = fetch_pdfs(api, wanted, tmp_path, Quiet())
    assert [file.name for file in found] == ["late.pdf"]
    assert json.loads((tmp_path / "pdfs" / "without_pdf.json").read_text()) == {
        "withdrawn": "its note names no PDF",
        "gone": "the server has none",
        "page": "what the server gives is no PDF",
    }
    two.asked.clear()
    fetch_pdfs(api, wanted, tmp_path, Quiet())
    assert two.asked == []


def test_a_server_that_has_none_of_several_pdfs_is_an_error_and_is_asked_again(two, http, tmp_path):
    wanted = many(two, 3)
    pdfs, two.pdfs = two.pdfs, {}
    with pytest.raises(SourceError, match=r"has none of the PDFs of 3 submissions, p001"):
        fetch_pdfs(Api(http, two.url, 2), wanted, tmp_path, Quiet())
    two.pdfs = pdfs
    fetch_pdfs(Api(http, two.url, 2), wanted, tmp_path, Quiet())
    assert held(tmp_path) == pdfs


@pytest.mark.parametrize("change", ["no side file", "side file of another form", "longer", "other bytes"])
def test_a_pdf_keeps_its_note_whatever_happens_to_the_files(two, http, tmp_path, change: str):
    wanted, api = many(two, 2), Api(http, two.url, 2)
    fetch_pdfs(api, wanted, tmp_path, Quiet())
    place = tmp_path / "pdfs" / "p001.pdf"
    side, content = place.with_name("p001.pdf.fetch.json"), place.read_bytes()
    before = json.loads(side.read_text())
    if change == "no side file":
        side.unlink()
    elif change == "side file of another form":
        side.write_text("[1]")
    else:
        place.write_bytes(content + b"!" if change == "longer" else content[:-1] + b"!")
        os.utime(place, (time.time() + 60, time.time() + 60))
    two.asked.clear()
    fetch_pdfs(api, wanted, tmp_path, Quiet())
    after = json.loads(side.read_text())
    assert place.read_bytes() == content
    assert {name: after[name] for name in ("bytes", "sha256", "facts")} == {
        name: before[name] for name in ("bytes", "sha256", "facts")
    }
    assert len(two.asked) == (change in ("longer", "other bytes"))


def test_decisions_are_asked_for_again_where_this_is_wanted(one, two, http, tmp_path):
    two.notes, two.pdfs = [v2(2024, "a", 1, "")], {"a": PDF}
    side = tmp_path / "pdfs" / "a.pdf.fetch.json"
    for given, decision in ({}, None), ({}, None), ({"refresh": True}, "accept_oral"):
        fetch(http, ["2024"], tmp_path, config(one, two, pdfs=True, **given), Quiet())
        found = json.loads(side.read_text())["facts"]["decision"]
        assert (found == "accept_oral") == (decision is not None)
        two.notes = [v2(2024, "a", 1)]
        two.notes[0]["content"]["venue"] = {"value": "ICLR 2024 oral"}


def test_a_pdf_that_comes_to_a_note_later_is_fetched(two, http, tmp_path):
    api, asked = Api(http, two.url, 2), tmp_path / "pdfs" / "without_pdf.json"
    two.pdfs = {"a": PDF, "b": PDF}
    fetch_pdfs(api, [Paper("a", 1, None), Paper("b", 2, "/pdf/b.pdf")], tmp_path, Quiet())
    assert json.loads(asked.read_text()) == {"a": "its note names no PDF"}
    fetch_pdfs(api, [Paper("a", 1, "/pdf/a.pdf"), Paper("b", 2, "/pdf/b.pdf")], tmp_path, Quiet())
    assert held(tmp_path) == two.pdfs
    assert json.loads(asked.read_text()) == {}


def test_a_pdf_that_the_server_did_not_have_is_asked_for_again_where_this_is_wanted(two, http, tmp_path):
    api, wanted = Api(http, two.url, 2), [Paper("a", 1, "/pdf/a.pdf"), Paper("b", 2, "/pdf/b.pdf")]
    two.pdfs = {"b": PDF}
    fetch_pdfs(api, wanted, tmp_path, Quiet())
    two.pdfs["a"] = PDF
    for refresh, ids in (False, ["b"]), (True, ["a", "b"]):
        fetch_pdfs(api, wanted, tmp_path, Quiet(), refresh=refresh)
        assert sorted(held(tmp_path)) == ids


def test_a_note_that_names_another_pdf_gets_it_and_keeps_the_earlier_one_until_then(two, http, tmp_path):
    api, about = Api(http, two.url, 2), {"decision": "accept"}
    side = tmp_path / "pdfs" / "a.pdf.fetch.json"
    two.pdfs = {"a": PDF}
    fetch_pdfs(api, [Paper("a", 1, "/pdf/1.pdf", {"decision": "unknown"})], tmp_path, Quiet())
    final = [Paper("a", 1, "/pdf/2.pdf", about)]
    two.faults = [(403, b"{}", {})]
    with pytest.raises(SourceError, match="refuses the PDFs of 1 submissions"):
        fetch_pdfs(api, final, tmp_path, Quiet())
    facts = json.loads(side.read_text())["facts"]
    assert (held(tmp_path), facts["site_path"], facts["decision"]) == ({"a": PDF}, "/pdf/1.pdf", "accept")
    two.pdfs = {"a": PDF.replace(b"test", b"camera-ready")}
    fetch_pdfs(api, final, tmp_path, Quiet())
    assert held(tmp_path) == two.pdfs
    assert json.loads(side.read_text())["facts"]["site_path"] == "/pdf/2.pdf"
    two.asked.clear()
    fetch_pdfs(api, final, tmp_path, Quiet())
    assert two.asked == []


@pytest.mark.parametrize("first", [PDF[:900], b""])
def test_a_pdf_that_was_cut_off_is_asked_for_once_more(first: bytes, two, http, tmp_path):
    two.pdfs = {"a": PDF}
    two.faults = [(200, first, {"Content-Type": "application/pdf"})]
    fetch_pdfs(Api(http, two.url, 2), [Paper("a", 1, "/pdf/a.pdf")], tmp_path, Quiet())
    assert held(tmp_path) == two.pdfs


def test_a_pdf_without_an_ending_is_taken_as_it_came_twice(two, http, tmp_path):
    two.pdfs = {"a": PDF[:900]}
    fetch_pdfs(Api(http, two.url, 2), [Paper("a", 1, "/pdf/a.pdf")], tmp_path, Quiet())
    assert held(tmp_path) == two.pdfs
    assert two.paths() == {"/pdf": 2}


def test_refused_pdfs_are_an_error_in_the_end_and_stay_open(two, http, tmp_path):
    wanted = many(two, 2)
    two.gives_zips = False
    forbidden = (403, b"{}", {})
    two.faults = [forbidden, forbidden]  # of the batch, and of the first paper
    with pytest.raises(SourceError, match=r"refuses the PDFs of 1 submissions, p001"):
        fetch_pdfs(Api(http, two.url, 2), wanted, tmp_path, Quiet())
    assert list(held(tmp_path)) == ["p002"]
    fetch_pdfs(Api(http, two.url, 2), wanted, tmp_path, Quiet())
    assert held(tmp_path) == two.pdfs


def test_where_all_are_refused_not_all_are_asked_for(two, http, tmp_path):
    wanted = many(two, 150)
    two.token = "secret"
    with pytest.raises(SourceError, match="OPENREVIEW_USERNAME"):
        fetch_pdfs(Api(http, two.url, 2), wanted, tmp_path, Quiet())
    assert len(two.asked) < 105


def test_pdfs_of_a_year_are_those_of_the_decisions_named(one, two, http, tmp_path):
    two.notes = [
        v2(2024, "good", 1),
        v2(2024, "bad", 2, "/Rejected_Submission"),
        v2(2024, "w", 3, "/Withdrawn_Submission", ""),
    ]
    two.pdfs = {"good": PDF, "bad": PDF}
    fetch(http, ["2024"], tmp_path, config(one, two, pdfs=True, decisions=["accept"]), Quiet())
    assert list(held(tmp_path)) == ["good"]
    fetch(http, ["2024"], tmp_path, config(one, two, pdfs=True), Quiet())
    assert sorted(held(tmp_path)) == ["bad", "good"]
    assert json.loads((tmp_path / "pdfs" / "without_pdf.json").read_text()) == {"w": "its note names no PDF"}
    with pytest.raises(UsageError, match="accepted"):
        fetch(http, ["2024"], tmp_path, config(one, two, decisions=["accepted"]), Quiet())


def test_beside_a_pdf_stands_what_its_note_says_and_later_what_it_says_then(one, two, http, tmp_path):
    note = v2(2024, "good", 1, "/Submission")
    note["license"] = "CC BY 4.0"
    note["content"] |= {"authors": {"value": ["Ada Aloft"]}, "authorids": {"value": ["~Ada_Aloft1"]}}
    two.notes, two.pdfs = [note], {"good": PDF}
    side = tmp_path / "pdfs" / "good.pdf.fetch.json"
    fetch(http, ["2024"], tmp_path, config(one, two, pdfs=True), Quiet())
    before = json.loads(side.read_text())
    assert before["facts"] == {
        "note": "good",
        "decision": "unknown",
        "title": "good",
        "abstract": None,
        "venue": None,
        "authors": ["Ada Aloft"],
        "author_ids": ["~Ada_Aloft1"],
        "year": 2024,
        "licence": "CC BY 4.0",
        "site_path": "/pdf/1.pdf",
    }
    note["content"]["venueid"] = {"value": conference(2024)}
    for listing in tmp_path.glob("2024-*"):
        listing.unlink()
    fetch(http, ["2024"], tmp_path, config(one, two, pdfs=True), Quiet())
    after = json.loads(side.read_text())
    assert after == {**before, "facts": {**before["facts"], "decision": "accept"}}
    assert two.paths()["/pdf"] == 1


def test_another_second_api_alone_is_asked_as_the_first_too(two, http, tmp_path):
    two.notes = [v1(2021, "a", 1)]
    fetch(http, ["2021"], tmp_path, Fetch(base_url=two.url), Quiet())
    assert ids(tmp_path / "2021-submissions.jsonl") == ["a"]
