"""The stand-in for sources: what it serves is what the real servers serve, and its faults are what they are called."""

from __future__ import annotations

import hashlib
import io
import json
import re
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import paths
import py7zr
import pypdfium2
import pytest
import requests
from backports import zstd
from lxml import etree

from flows.sources import openreview, stackexchange
from longform.errors import UsageError
from longform.net.download import Downloader
from longform.standin.listening import Running
from longform.standin.sources.faults import FAULTS
from longform.standin.sources.papers import Paper, Reference, Section, read_paper
from longform.standin.sources.pdf import pdf_of
from longform.standin.sources.server import serve
from longform.standin.sources.tei import tei_of
from tasks.sources.papers.grobid import connect
from tasks.sources.s2orc.s2_api import DatasetsApi, fetch_release

SAMPLES = paths.SAMPLES
TEXTS = SAMPLES / "standin" / "openreview" / "papers"
PDFS = sorted((paths.REAL_DATA / "grobid_tei").glob("*.pdf"))
TEI = {"t": "http://www.tei-c.org/ns/1.0"}
BEARER = {"Authorization": "bearer standin"}
FULLTEXT = "/grobid/api/processFulltextDocument"


class Quiet:
    def begin(self, name: str, total_bytes: int | None, done_bytes: int) -> None: ...
    def advance(self, name: str, bytes: int) -> None: ...
    def end(self, name: str) -> None: ...


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with serve(samples=SAMPLES) as server:
        yield server


@pytest.fixture
def server(shared: Running) -> Iterator[Running]:
    shared.reset()
    yield shared
    shared.set_faults({})


def get(server: Running, path: str, status: int = 200, **headers: str) -> requests.Response:
    found = requests.get(server.url + path, headers=headers, timeout=60)
    assert found.status_code == status, found.text
    return found


def parsed(server: Running, pdf: bytes) -> requests.Response:
    return requests.post(server.url + FULLTEXT, files={"input": ("a.pdf", pdf, "application/pdf")}, timeout=60)


# ---------------------------------------------------------------- PDFs and TEI


def words(text: str) -> list[str]:
    return re.sub(r"[#*-]", " ", text).split()


@pytest.mark.parametrize("path", sorted(TEXTS.glob("*.md")), ids=lambda path: path.stem)
def test_a_pdf_prints_the_words_of_its_text_in_their_order(path: Path) -> None:
    pdf = pdf_of(read_paper(path.read_text()))
    with pypdfium2.PdfDocument(pdf) as document:
        pages = [page.get_textpage().get_text_bounded().splitlines() for page in document]
    printed = [word for page in pages for line in page[:-1] for word in words(line)]
    assert pages[0][-1] == "1", "the page's number"
    for number in range(1, 9):
        printed = [word for word in printed if word != f"[{number}]"]
    expected = [word for word in words(path.read_text()) if not re.fullmatch(r"\[\d\]", word)]
    assert printed == expected


def test_the_table_of_a_pdf_points_at_its_objects_and_the_bytes_are_always_the_same() -> None:
    paper = read_paper((TEXTS / "Broth24oral.md").read_text())
    pdf = pdf_of(paper)
    assert pdf == pdf_of(paper)
    start = int(re.search(rb"startxref\n(\d+)", pdf)[1])  # type: ignore[index]
    places = re.findall(rb"(\d{10}) 00000 n ", pdf[start:])
    assert len(places) > 6
    for number, place in enumerate(places, 1):
        assert pdf[int(place) :].startswith(b"%d 0 obj\n" % number)


def test_grobid_knows_the_pdfs_of_the_stand_in(server: Running) -> None:
    pdf = get(server, "/openreview/pdf?id=Broth24oral").content
    tei = etree.fromstring(parsed(server, pdf).content)
    heads = [(head.get("n"), head.text) for head in tei.iterfind(".//t:body/t:div/t:head", TEI)]
    assert heads[:4] == [("1", "Introduction"), ("2", "Related Work"), ("2.1", "Stirring"), ("2.2", "Blind Tasting")]
    names = [name.text for name in tei.iterfind(".//t:sourceDesc//t:surname", TEI)]
    assert names == ["Sample", "Placeholder"]
    assert tei.findtext(".//t:idno[@type='MD5']", namespaces=TEI) == hashlib.md5(pdf).hexdigest().upper()
    entries = {entry.get("{http://www.w3.org/XML/1998/namespace}id") for entry in tei.iterfind(".//t:listBibl/*", TEI)}
    refs = tei.findall(".//t:body//t:ref[@type='bibr']", TEI)
    assert {ref.get("target") for ref in refs} <= {f"#{entry}" for entry in entries}
    assert [ref.text for ref in refs if ref.text in ("[2,", "5]")] == ["[2,", "5]"]
    divs = tei.findall(".//t:body/t:div", TEI)
    assert "".join(divs[2].itertext()).startswith(
        "StirringThe first to time a spoon were Specimen and Example [1], who"
    )


def test_grobid_reads_the_text_of_a_strange_pdf_or_refuses_it(server: Running) -> None:
    found = parsed(server, (SAMPLES / "papers" / "walks.pdf").read_bytes())
    assert found.headers["Content-Type"].startswith("application/xml")
    heads = [head.text for head in etree.fromstring(found.content).iterfind(".//t:body/t:div/t:head", TEI)]
    assert "Related Work" in heads
    assert "References" not in heads
    broken = parsed(server, b"%PDF-1.4 nothing")
    assert (broken.status_code, broken.text[:16]) == (500, "[BAD_INPUT_DATA]")
    empty = pypdfium2.PdfDocument.new()
    empty.new_page(200, 200)
    file = io.BytesIO()
    empty.save(file)
    assert parsed(server, file.getvalue()).status_code == 204
    assert requests.post(server.url + FULLTEXT, data={"input": "x"}, timeout=60).status_code == 400
    assert connect(server.url + "/grobid").version == "0.8.2-standin standin"


def test_the_tei_of_a_pdf_with_control_characters_in_its_text_is_well_formed(server: Running) -> None:
    text = "self- " * 60  # pdfium gives a hyphen at the end of a line as U+0002
    pdf = pdf_of(Paper("Hyphens", (), [], [Section("1", "Introduction", [text])], []))
    page = pypdfium2.PdfDocument(pdf)[0].get_textpage().get_text_bounded()
    assert "\x02" in page
    tei = etree.fromstring(parsed(server, pdf).content)
    assert "self" in "".join(tei.find(".//t:body", TEI).itertext())


@pytest.mark.parametrize("character", ["\x00", "\x02", "\x0b", "\x1b", "\x1f", "\ud800", "\ufffe", "\uffff"])
def test_tei_holds_no_character_that_xml_forbids(character: str) -> None:
    text = f"a{character}b\t\x85\ue000\U0010ffff"
    paper = Paper(text, (text,), [text], [Section("1", text, [text])], [Reference(text, (text,), text, text)])
    tei = etree.fromstring(tei_of(paper, "0", "0.8.2"))
    assert tei.findtext(".//t:body/t:div/t:head", namespaces=TEI) == "ab\t\x85\ue000\U0010ffff"


@pytest.mark.skipif(not PDFS, reason="the PDFs of real papers are not there")
def test_the_tei_of_real_pdfs_is_well_formed(server: Running) -> None:
    for path in PDFS:
        assert etree.fromstring(parsed(server, path.read_bytes()).content).tag.endswith("}TEI"), path.name


# ---------------------------------------------------------------- OpenReview


def test_a_year_is_fetched_with_decisions_in_their_several_places(server: Running, tmp_path: Path) -> None:
    config = openreview.Fetch(
        base_url=server.url + "/openreview", base_url_v1=server.url + "/openreview-v1", pdfs=True, decisions=[]
    )
    files = openreview.fetch(Downloader(), ["2024"], tmp_path, config, Quiet())
    notes = [json.loads(line) for line in files[0].read_text().splitlines()]
    told = {note["id"]: [reply["content"].get("decision") for reply in _replies(note)] for note in notes}
    assert {"value": "Accept (oral)"} in told["Broth24oral"]
    assert all(decision is None for decision in told["Broth24post"]), "only its venue says it"
    assert sorted(path.stem for path in files[1:]) == sorted(path.stem for path in TEXTS.glob("Broth*.md"))
    requests_made = server.counters()["requests"]
    assert (requests_made["GET /openreview/attachment"], "GET /openreview/pdf" in requests_made) == (1, False)


def _replies(note: dict[str, Any]) -> list[dict[str, Any]]:
    return note["details"]["directReplies"]


def test_notes_come_page_after_page_and_never_without_a_question(server: Running) -> None:
    invitation = "/openreview/notes?invitation=ICLR.cc/2024/Conference/-/Submission&sort=id"
    first = get(server, f"{invitation}&limit=4").json()
    rest = get(server, f"{invitation}&limit=100&after={first['notes'][-1]['id']}").json()
    assert first["count"] == 7
    assert len({note["id"] for note in first["notes"] + rest["notes"]}) == 7
    assert "details" not in first["notes"][0]
    venue = "content.venueid=ICLR.cc/2024/Conference/Withdrawn_Submission"
    assert [note["id"] for note in get(server, f"/openreview/notes?{venue}").json()["notes"]] == ["Broth24with"]
    assert get(server, "/openreview/notes", 400).json()["name"] == "InvalidFieldError"
    assert get(server, f"{invitation.replace('openreview', 'openreview-v1')}").json()["notes"] == []


def test_pdfs_come_one_by_one_by_their_path_and_as_a_zip_of_fifty_at_most(server: Running) -> None:
    one = get(server, "/openreview/pdf?id=Broth24rej").content
    note = get(server, "/openreview/notes?id=Broth24rej").json()["notes"][0]
    assert get(server, "/openreview" + note["content"]["pdf"]["value"]).content == one
    found = get(server, "/openreview/attachment?name=pdf&ids=Broth24rej,Broth24oral").content
    with zipfile.ZipFile(io.BytesIO(found)) as archive:
        assert archive.namelist() == [
            "104_Lukewarm_Is_Enough.pdf",
            "101_Stirring_Clockwise_Does_the_Direction_Ma.pdf",
        ]
        assert archive.read("104_Lukewarm_Is_Enough.pdf") == one
    get(server, "/openreview/pdf?id=Broth24with", 404)
    get(server, "/openreview/attachment?name=pdf&ids=" + ",".join(["Broth24rej"] * 51), 400)


def test_a_used_up_limit_says_in_its_body_when_it_ends() -> None:
    with serve(samples=SAMPLES, requests=1, window_seconds=500) as server:
        get(server, "/openreview/pdf?id=Broth24rej")
        refused = get(server, "/openreview/pdf?id=Broth24rej", 429)
        left = datetime.fromisoformat(refused.json()["details"]["resetTime"]) - datetime.now(UTC)
        assert 400 < left.total_seconds() <= 502
        assert "Retry-After" not in refused.headers
        get(server, "/openreview/notes?id=Broth24rej")
        assert server.counters()["outcomes"]["limited"] == 1


# ---------------------------------------------------------------- Semantic Scholar


def test_a_release_is_fetched_with_a_key_and_links_expire(tmp_path: Path) -> None:
    with serve(samples=SAMPLES, link_seconds=0.0) as server:
        get(server, "/s2/release/1999-01-01/dataset/papers", 404, **{"x-api-key": "k"})
        get(server, "/s2/release/2025-01-14/dataset/papers", 403)
        (link, _) = get(server, "/s2/release/2025-01-14/dataset/papers", **{"x-api-key": "k"}).json()["files"]
        assert requests.get(link, timeout=60).status_code == 403
    with serve(samples=SAMPLES) as server:
        api = DatasetsApi(Downloader(), server.url + "/s2", key="k", per_second=1e6)
        files = fetch_release(api, ["s2orc_v2"], tmp_path, "latest", None, None)
        assert [file.name for file in files] == ["00000.jsonl.gz", "00001.jsonl.gz"]
        (link, _) = get(server, "/s2/release/2025-01-14/dataset/papers", **{"x-api-key": "k"}).json()["files"]
        assert requests.get(link + "0", timeout=60).status_code == 403


@pytest.mark.parametrize("name", ["papers", "abstracts", "s2orc", "s2orc_v2"])
def test_the_older_release_and_the_difference_make_the_newer(server: Running, name: str) -> None:
    older, newer = (
        _records(server, f"release/{date}/dataset/{name}", "files") for date in ("2025-01-07", "2025-01-14")
    )
    (step,) = get(server, f"/s2/diffs/2025-01-07/to/latest/{name}", **{"x-api-key": "k"}).json()["diffs"]
    made = {record["corpusid"]: record for record in older}
    made |= {record["corpusid"]: record for record in _lines(step["update_files"])}
    for record in _lines(step["delete_files"]):
        del made[record["corpusid"]]
    assert made == {record["corpusid"]: record for record in newer}
    assert {record["corpusid"] for record in older} != made.keys()


def _records(server: Running, path: str, field: str) -> list[dict[str, Any]]:
    return _lines(get(server, f"/s2/{path}", **{"x-api-key": "k"}).json()[field])


def _lines(links: list[str]) -> list[dict[str, Any]]:
    import gzip

    assert links
    return [
        json.loads(line)
        for link in links
        for line in gzip.decompress(requests.get(link, timeout=60).content).splitlines()
    ]


# ---------------------------------------------------------------- Reddit


def test_items_are_shown_as_they_are_now_to_apps_with_a_token(server: Running) -> None:
    get(server, "/reddit/api/info?id=t1_k7b001", 401)
    token = requests.post(f"{server.url}/reddit/api/v1/access_token", auth=("app", "secret"), timeout=60).json()
    asked = "t3_17k101,t1_k7b001,t1_k7b005,t1_k7d001,t3_17k105,t1_k7f001,t1_nobody"
    found = get(server, f"/reddit/api/info?id={asked}", Authorization=f"bearer {token['access_token']}").json()
    texts = {child["data"]["name"]: child["data"].get("body") for child in found["data"]["children"]}
    assert list(texts) == ["t3_17k101", "t1_k7b001", "t1_k7b005", "t1_k7d001", "t1_k7f001"]
    assert texts["t1_k7b001"].startswith("Bread has more water")
    assert [texts[name] for name in ("t1_k7b005", "t1_k7d001", "t1_k7f001")] == ["[deleted]", "[removed]", "[deleted]"]


def test_a_tree_and_what_hangs_in_its_more_are_all_comments(server: Running) -> None:
    post, comments = get(server, "/reddit/comments/17k101?limit=3", **BEARER).json()
    assert post["data"]["children"][0]["data"]["title"].startswith("ELI5: Why does bread")
    shown, more = _walked(comments)
    assert len(shown) == 3
    for parent, ids in more.items():
        rest = get(server, f"/reddit/api/morechildren?link_id=t3_17k101&children={','.join(ids)}", **BEARER).json()
        things = rest["json"]["data"]["things"]
        assert {thing["data"]["parent_id"] for thing in things if thing["data"]["id"] in ids} == {parent}
        shown += [thing["data"]["id"] for thing in things]
    assert sorted(shown) == [f"k7b00{number}" for number in range(1, 9)]


def _walked(listing: Any) -> tuple[list[str], dict[str, list[str]]]:
    shown: list[str] = []
    more: dict[str, list[str]] = {}
    for child in listing["data"]["children"]:
        data = child["data"]
        if child["kind"] == "more":
            more[data["parent_id"]] = data["children"]
        else:
            shown.append(data["id"])
            below = _walked(data["replies"]) if data["replies"] else ([], {})
            shown += below[0]
            more |= below[1]
    return shown, more


def test_dumps_are_packed_with_the_window_of_the_archives(server: Running) -> None:
    packed = get(server, "/reddit/dumps/RC_2023-11.zst").content
    plain = (SAMPLES / "standin" / "reddit" / "RC_2023-11.jsonl").read_bytes()
    assert zstd.decompress(packed, options={zstd.DecompressionParameter.window_log_max: 31}) == plain


def test_limits_stand_in_headers_of_reddit() -> None:
    with serve(samples=SAMPLES, requests=2, window_seconds=600) as server:
        heads = [get(server, "/reddit/api/info?id=t1_a", **BEARER).headers for _ in range(2)]
        assert [head["x-ratelimit-remaining"] for head in heads] == ["1.0", "0.0"]
        assert 590 <= int(heads[1]["x-ratelimit-reset"]) <= 600
        get(server, "/reddit/api/info?id=t1_a", 429, **BEARER)


# ---------------------------------------------------------------- archive.org


def test_a_site_is_listed_and_fetched_as_on_archive_org(server: Running, tmp_path: Path) -> None:
    config = stackexchange.Fetch(base_url=server.url + "/stackexchange")
    (file,) = stackexchange.fetch(Downloader(), ["community.example"], tmp_path, config, Quiet())
    listed = get(server, "/stackexchange/metadata/stackexchange").json()["files"]
    assert listed == [
        {
            "name": file.name,
            "size": str(file.stat().st_size),
            "md5": hashlib.md5(file.read_bytes()).hexdigest(),
        }
    ]
    with py7zr.SevenZipFile(file) as archive:
        archive.extractall(tmp_path / "out")
    posts = (tmp_path / "out" / "Posts.xml").read_bytes()
    assert posts == (SAMPLES / "community.example" / "Posts.xml").read_bytes()


def test_ranges_are_answered_where_the_file_is_the_same(server: Running) -> None:
    path = "/papers/walks.pdf"
    whole = get(server, path)
    part = get(server, path, 206, Range="bytes=100-199", **{"If-Range": whole.headers["ETag"]})
    assert (part.content, part.headers["Content-Range"]) == (
        whole.content[100:200],
        f"bytes 100-199/{len(whole.content)}",
    )
    assert get(server, path, Range="bytes=100-", **{"If-Range": '"other"'}).content == whole.content
    assert get(server, path, 416, Range="bytes=99999999-").headers["Content-Range"] == f"bytes */{len(whole.content)}"


# ---------------------------------------------------------------- faults, scripts, counters


def raw(server: Running, path: str) -> bytes:
    """All bytes of the answer to a GET, until the connection ends or is reset."""
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=60) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        found = b""
        try:
            while piece := connection.recv(1 << 16):
                found += piece
        except ConnectionResetError:
            return b"reset"
    return found


@pytest.mark.parametrize(
    ("name", "status", "head"),
    [
        ("429", b"429", b"Retry-After: 1"),
        ("429-bare", b"429", b"Content-Type: text/html"),
        ("403", b"403", b"HTTP/1.1"),
        ("500", b"500", b"HTTP/1.1"),
        ("502", b"502", b"Content-Type: text/html"),
        ("503", b"503", b"Retry-After: 1"),
        ("page", b"200", b"Content-Type: text/html"),
        ("etag", b"200", b'ETag: "changed-'),
    ],
)
def test_a_fault_is_what_it_is_called(server: Running, name: str, status: bytes, head: bytes) -> None:
    server.set_faults({name: 1.0})
    found = raw(server, "/stackexchange/download/stackexchange/community.example.7z")
    assert found.split()[1] == status
    assert head in found
    assert (b"Retry-After" in found) == (name in ("429", "503"))
    assert server.counters()["outcomes"] == {name: 1}


def test_bodies_are_lost_in_four_ways(server: Running) -> None:
    path = "/papers/walks.pdf"
    whole = get(server, path)
    size = len(whole.content)
    server.script([{"fault": name} for name in ("reset", "reset-early", "truncated", "broken")])
    answers = [raw(server, path) for _ in range(4)]
    assert answers[:2] == [b"reset", b"reset"]
    bodies = [answer.partition(b"\r\n\r\n") for answer in answers[2:]]
    assert [len(body) for _, _, body in bodies] == [size // 2, size // 2]
    lengths = [re.search(rb"Content-Length: (\d+)", head)[1] for head, _, _ in bodies]  # type: ignore[index]
    assert lengths == [b"%d" % size, b"%d" % (size // 2)]
    assert f"ETag: {whole.headers['ETag']}".encode() in bodies[1][0]
    assert server.counters()["repeated"] == {}, "only the first came whole"


def test_a_line_of_a_script_waits_for_its_path_and_repeats_are_counted(server: Running) -> None:
    server.script([{"fault": "500", "path": f"POST {FULLTEXT}"}])
    get(server, "/grobid/api/isalive")
    pdf = get(server, "/papers/walks.pdf").content
    refused = parsed(server, pdf)
    assert (refused.status_code, refused.text[:9]) == (500, "[GENERAL]")
    assert [parsed(server, pdf).status_code for _ in range(2)] == [200, 200]
    counted = server.counters()
    assert counted["repeated"] == {f"pdf {hashlib.sha256(pdf).hexdigest()}": 2}
    assert counted["requests"][f"POST {FULLTEXT}"] == 3
    with pytest.raises(UsageError, match="names no fault: there are 429, "):
        server.script([{"fault": "length"}])
    with pytest.raises(UsageError, match='There is no fault "refusal"'):
        server.set_faults({"refusal": 0.5})


def test_whether_grobid_is_there_is_answered_without_faults_unless_a_script_names_it(server: Running) -> None:
    server.set_faults({"500": 1.0})
    get(server, "/grobid/api/isalive")
    assert parsed(server, b"%PDF-1.4 x").status_code == 500
    server.script([{"fault": "503", "path": "GET /grobid/api/isalive"}])
    get(server, "/grobid/api/isalive", 503)


def test_a_download_through_many_faults_is_whole(tmp_path: Path) -> None:
    shares = {"429": 0.1, "500": 0.1, "502": 0.1, "503": 0.1, "reset": 0.1, "truncated": 0.1, "reset-early": 0.1}
    with serve(samples=SAMPLES) as server:
        expected = get(server, "/stackexchange/download/stackexchange/community.example.7z").content
        server.set_faults(shares)
        config = stackexchange.Fetch(base_url=server.url + "/stackexchange")
        for number in range(5):
            http = Downloader(sleep=lambda seconds: None, tries=50)
            (file,) = stackexchange.fetch(http, ["community.example"], tmp_path / str(number), config, Quiet())
            assert file.read_bytes() == expected
        assert sum(server.counters()["outcomes"][name] for name in server.counters()["outcomes"].keys() & shares) > 3


# ---------------------------------------------------------------- files of one's own, the command


def test_files_of_ones_own_take_the_place_of_the_samples_of_their_kind(tmp_path: Path) -> None:
    (tmp_path / "papers").mkdir()
    walks = (SAMPLES / "papers" / "walks.pdf").read_bytes()
    (tmp_path / "papers" / "mine.pdf").write_bytes(walks)
    (tmp_path / "papers" / "mine.tei.xml").write_bytes(b"<TEI>mine</TEI>")
    with serve(samples=SAMPLES, folder=tmp_path) as server:
        assert get(server, "/papers/").json() == {"papers": ["mine.pdf"]}
        assert parsed(server, walks).content == b"<TEI>mine</TEI>"
        assert get(server, "/openreview/notes?id=Broth24rej").json()["count"] == 1
    with (
        pytest.raises(UsageError, match=r"has none of the folders openreview, papers"),
        serve(samples=SAMPLES, folder=tmp_path / "papers"),
    ):
        pass


def test_the_lines_that_are_printed_name_every_source(server: Running) -> None:
    lines = get(server, "/").text
    for prefix in ("openreview", "openreview-v1", "grobid", "s2", "reddit", "stackexchange", "papers"):
        assert f"{server.url}/{prefix}" in lines


def command(*words: str) -> list[str]:
    return [str(Path(sys.executable).with_name("longform")), "standin", *words]


def test_the_command_prints_its_lines_and_ends_when_it_is_stopped() -> None:
    with subprocess.Popen(command("sources", "--port", "0"), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        url = process.stdout.readline().split()[2]
        assert requests.get(f"{url}/grobid/api/isalive", timeout=60).text == "true"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert f"GROBID_URL={url}/grobid" in process.stdout.read()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sources", "--fault", "nonsense=1"], 'There is no fault "nonsense"'),
        (["sources", "--folder", "/proc/self/fd"], "has none of the folders"),
        (["--port", "1", "sources"], "--port is of the stand-in for models"),
    ],
)
def test_mistakes_of_the_command_end_with_a_sentence(words: list[str], said: str) -> None:
    done = subprocess.run(command(*words), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_faults_are_listed_and_are_on_their_page() -> None:
    listed = subprocess.run(command("sources", "--faults"), capture_output=True, text=True, timeout=60).stdout
    names = [line.split()[0] for line in listed.splitlines()]
    assert names == list(FAULTS)
    page = (paths.ROOT / "docs" / "standin.md").read_text()
    assert all(f"`{name}`" in page.partition("## Sources")[2] for name in names)


def test_the_python_of_the_page_runs_in_a_checkout() -> None:
    page = (paths.ROOT / "docs" / "standin.md").read_text().partition("## Sources")[2]
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], cwd=paths.ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.endswith("/grobid {}\n"), done.stderr
