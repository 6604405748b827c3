"""longform sources, fetch and read as users run them, against a local server."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import paths
import py7zr
import pyarrow.parquet as pq
import pytest
from http_server import Answer, Server, document, serve
from pydantic import BaseModel

from flows.builds.fetching import (
    Act,
    RecordingDownloader,
    check_terms,
    config_of,
    fetch,
    listed,
    module_of,
    settings_of,
)
from flows.builds.transfers import TransferLines
from flows.config import configuration
from flows.sources import SOURCES, Terms, url
from flows.sources.stackexchange import ITEM, archive_of
from longform.artifacts.rows import REJECTED
from longform.errors import UsageError

LONGFORM = str(Path(sys.executable).with_name("longform"))
SAMPLE = paths.SAMPLES / "community.example"
CONTENT = b"some bytes" * 1_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Shell:
    """Runs `longform` in a folder of its own, without the environment of whoever runs the tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("LONGFORM")}

    def __call__(self, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        command, given = [LONGFORM, *map(str, arguments)], {**self.environment, **environment}
        return subprocess.run(command, cwd=self.folder, env=given, capture_output=True, text=True, timeout=600)

    def json(self, *arguments: object) -> Any:
        done = self(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def longform(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as server:
        server.on("/a.bin", Answer(body=CONTENT))
        yield server


# ---------------------------------------------------------------- the catalogue


def test_every_source_is_there_and_says_its_terms() -> None:
    found = listed()
    assert [each["source"] for each in found] == list(SOURCES)
    for each in found:
        assert all(each[name] for name in ("what", "licence", "attribution")), each["source"]
        assert each["fetch"] or each["read"], each["source"]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("act", ["fetch", "read"])
def test_every_setting_says_what_it_means(source: str, act: Act) -> None:
    module = module_of(source)
    if not hasattr(module, act):
        pytest.skip(f"{source} has no {act}")
    assert isinstance(module.TERMS, Terms)
    assert issubclass(getattr(module, act.capitalize()), BaseModel)
    assert all(setting["meaning"] for setting in settings_of(source, act))
    config_of(source, act, [])
    with pytest.raises(UsageError, match=f'{source} has no setting "nonsense".*`longform {act} {source}` shows all'):
        config_of(source, act, ["nonsense=1"])


def test_sources_are_listed(longform: Shell) -> None:
    shown = longform("sources")
    assert shown.returncode == 0
    assert all(source in shown.stdout for source in SOURCES)
    assert longform.json("sources") == listed()


def test_a_source_shows_what_can_be_fetched_and_read(longform: Shell) -> None:
    shown = longform("fetch", "stackexchange")
    assert shown.returncode == 0
    assert "beer.stackexchange.com" in shown.stdout
    assert "base_url" in shown.stdout
    assert "retrieved_at" in longform("read", "stackexchange").stdout
    assert longform.json("fetch", "url")["settings"][0]["name"] == "sha256"
    assert list(longform.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fetch", "redit", "x"], 'There is no source "redit"; did you mean "reddit"?'),
        (["read", "qqq", "x"], "there are stackexchange, reddit, "),
        (["read", "url", "x"], "url cannot be read by itself"),
        (["fetch", "url", "http://x/", "--set", "sha25=1"], 'url has no setting "sha25"; did you mean "sha256"?'),
        (["fetch", "url", "http://x/", "--set", "sha256"], "--set takes key=value"),
        (["fetch", "url", "http://x/", "--set", "sha256=12"], "sha256 = 12 does not fit"),
        (["fetch", "url", "http://x/", "--base-url", "http://y/"], 'url has no setting "base_url"'),
        (["read", "stackexchange", SAMPLE, "--set", "sit=a"], 'did you mean "site"?'),
    ],
)
def test_mistakes_are_said_in_a_sentence(longform: Shell, words: list[object], said: str) -> None:
    done = longform(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert list(longform.folder.iterdir()) == []


# ---------------------------------------------------------------- fetch


def test_a_file_is_fetched_once(longform: Shell, server: Server) -> None:
    command = ["fetch", "url", server.url + "/a.bin?key=hidden", "--set", f"sha256={SHA256}"]
    done = longform(*command)
    place = longform.folder / "data" / "sources" / "url" / "a.bin"
    assert (done.returncode, place.read_bytes()) == (0, CONTENT)
    assert f"{place}  10,000 bytes  {SHA256[:12]}  new" in done.stdout
    again = longform.json(*command)
    assert again["files"] == [{"path": str(place), "bytes": 10_000, "sha256": SHA256, "new": False}]
    assert len(server.asked) == 1
    assert "hidden" not in done.stdout + done.stderr + place.with_name("a.bin.fetch.json").read_text()


def test_the_exit_code_says_what_kind_of_error_it_was(longform: Shell, server: Server) -> None:
    server.on("/later", Answer(503, headers={"Retry-After": "86400"}))
    codes = {path: longform("fetch", "url", server.url + path).returncode for path in ("/gone", "/later")}
    wrong = longform("fetch", "url", server.url + "/a.bin", "--set", f"sha256={'0' * 64}")
    assert (codes, wrong.returncode) == ({"/gone": 5, "/later": 6}, 5)
    assert f"the sha256 {SHA256} where {'0' * 64} is expected" in wrong.stderr
    assert not list((longform.folder / "data").rglob("*.bin"))


def test_a_file_of_another_address_with_the_same_name_is_not_taken_for_it(server: Server, tmp_path: Path) -> None:
    """A checksum says that it is the same file, as from a mirror."""
    server.on("/x/a.bin", Answer(body=b"the one"))
    server.on("/y/a.bin", Answer(body=b"another"))
    for path in ("/x/a.bin", "/x/a.bin"):
        fetch("url", [server.url + path], url.Fetch(), tmp_path, accepted=True, progress=TransferLines())
    with pytest.raises(UsageError, match=r"was fetched from .*/x/a\.bin, not from .*/y/a\.bin: give another --to"):
        fetch("url", [server.url + "/y/a.bin"], url.Fetch(), tmp_path, accepted=True, progress=TransferLines())
    same = url.Fetch(sha256=hashlib.sha256(b"the one").hexdigest())
    (file,) = fetch("url", [server.url + "/y/a.bin"], same, tmp_path, accepted=True, progress=TransferLines())
    assert not file["new"]


@pytest.mark.parametrize("md5", [5, "abc", None, "z" * 32])
def test_an_md5_that_is_none_is_passed_over(server: Server, tmp_path: Path, md5: Any) -> None:
    listed = [{"name": "beer.stackexchange.com.7z", "md5": md5}]
    server.on(f"/metadata/{ITEM}", document({"files": listed}))
    server.on(f"/download/{ITEM}/beer.stackexchange.com.7z", Answer(body=b"7z"))
    config = config_of("stackexchange", "fetch", [f"base_url={server.url}"])
    done = fetch("stackexchange", ["beer.stackexchange.com"], config, tmp_path, accepted=True, progress=TransferLines())
    assert done[0]["bytes"] == 2


def test_names_of_files_are_never_paths(longform: Shell, server: Server) -> None:
    server.on("*", Answer(body=CONTENT))
    for name in (
        "../up",
        "/etc/up",
        ".hidden",
        "a\\b",
        "a\nb",
        "",
        "\udcff",
        "\u202egpj.exe",
        "a.part",
        "a.fetch.json",
    ):
        with pytest.raises(UsageError):
            url.file_name(name)
    assert url.name_of("https://example.org/a/b%20c.gz?x=/y") == "b c.gz"
    assert url.name_of("https://example.org/") == "index.html"
    assert longform("fetch", "url", server.url + "/a/%2e%2e%2fup", "--to", "in").returncode == 0
    assert [path.name for path in longform.folder.iterdir()] == ["in"]
    assert longform("fetch", "url", server.url + "/x/a", server.url + "/y/a").returncode == 2


@pytest.mark.parametrize(
    "address", ["http://u:s3cret@127.0.0.1:9/", "http://127.0.0.1:9/?key=s3cret", "http://h/#s3cret"]
)
@pytest.mark.parametrize("source", ["s2orc", "wildchat", "openreview", "stackexchange", "reddit", "msmarco"])
def test_an_address_of_a_source_holds_no_secret(source: str, address: str) -> None:
    with pytest.raises(UsageError, match="give it without user, password and query") as raised:
        config_of(source, "fetch", [f"base_url={address}"])
    assert "s3cret" not in str(raised.value)


def test_fetching_asks_first_for_agreement_to_the_terms() -> None:
    asked = [source for source in SOURCES if module_of(source).TERMS.decide]
    assert "reddit" in asked
    for source in asked:
        with pytest.raises(UsageError, match="--accept-terms") as raised:
            check_terms(source, False, f"longform fetch {source} x --accept-terms")
        assert module_of(source).TERMS.decide[:40] in str(raised.value)
        check_terms(source, True, "")


def test_the_command_to_agree_is_the_one_that_was_typed(longform: Shell) -> None:
    done = longform("fetch", "msmarco", "a b", "--set", "x=1 2", "--to", "there")
    assert done.returncode == 2  # settings come first: what is refused anyway asks for no decision
    done = longform("fetch", "msmarco", "a b", "--to", "there")
    assert "longform fetch msmarco 'a b' --to there --accept-terms" in done.stderr


@pytest.mark.parametrize(("decide", "noted"), [("Agree", {"terms_accepted": "true"}), ("", {})])
def test_an_agreement_is_noted_beside_the_file(server: Server, tmp_path: Path, decide: str, noted: Any) -> None:
    terms = Terms("files", "none", "none", decide=decide)
    with closing(RecordingDownloader(terms, accepted=True)) as http:
        http.download(server.url + "/a.bin", tmp_path / "a.bin")
    assert json.loads((tmp_path / "a.bin.fetch.json").read_text()).get("facts", {}) == noted


def test_what_is_fetched_is_reported_with_path_size_and_digest(server: Server, tmp_path: Path) -> None:
    config = config_of("url", "fetch", [])
    files = fetch("url", [server.url + "/a.bin"], config, tmp_path, accepted=True, progress=TransferLines())
    assert files == [{"path": str(tmp_path / "a.bin"), "bytes": 10_000, "sha256": SHA256, "new": True}]


# ---------------------------------------------------------------- Stack Exchange


def dump_7z(folder: Path) -> bytes:
    path = folder / "posts.7z"
    with py7zr.SevenZipFile(path, "w") as archive:
        archive.write(SAMPLE / "Posts.xml", "Posts.xml")
    content = path.read_bytes()
    path.unlink()
    return content


def item(files: dict[str, bytes]) -> Answer:
    entries = [
        {"name": name, "size": str(len(content)), "md5": hashlib.md5(content).hexdigest()}
        for name, content in files.items()
    ]
    return document({"files": [*entries, {"name": "stackexchange_meta.xml"}, "odd"]})


def test_a_site_is_fetched_and_read(longform: Shell, server: Server) -> None:
    content = dump_7z(longform.folder)
    name = "beer.stackexchange.com.7z"
    server.on(f"/metadata/{ITEM}", item({name: content}))
    server.on(f"/download/{ITEM}/{name}", Answer(302, headers={"Location": "/mirror/x"}))
    server.on("/mirror/x", Answer(body=content, drop_after=len(content) // 2 + 1, etag='"1"', ranges=True))
    done = longform("fetch", "stackexchange", "alcohol.stackexchange.com", "--base-url", server.url)
    assert done.returncode == 0, done.stderr
    folder = longform.folder / "data" / "sources" / "stackexchange"
    noted = json.loads((folder / f"{name}.fetch.json").read_text())
    assert noted["md5"] == hashlib.md5(content).hexdigest()
    assert noted["facts"] == {"item": ITEM}

    first = longform("read", "stackexchange", folder / name, "--to", "out")
    assert first.returncode == 0, first.stderr
    posts = pq.read_table(longform.folder / "out" / "read_posts.parquet")
    rejected = pq.read_table(longform.folder / "out" / "read_posts.rejected.parquet")
    whole = (SAMPLE / "Posts.xml").read_bytes().count(b"<row ")
    assert posts.num_rows + rejected.num_rows == whole
    assert rejected.schema.equals(REJECTED)
    assert set(posts["site"].to_pylist()) == {"alcohol.stackexchange.com"}
    assert posts["retrieved_at"].null_count == 0
    assert f"{posts.num_rows:,} rows" in first.stdout

    again = longform.json("read", "stackexchange", folder, "--to", "out")
    assert {stage["state"] for stage in again["stages"]} == {"reuse"}
    read = again["stages"][0]
    assert (read["stage"], read["rows"]) == ("read_posts", posts.num_rows)
    assert sum(read["filtered"].values()) + sum(read["rejected"].values()) == rejected.num_rows
    assert sum(pq.read_metadata(path).num_rows for path in read["files"]) == posts.num_rows
    threads = pq.read_table(longform.folder / "out" / "join_threads.parquet")
    assert threads.num_rows == again["stages"][2]["rows"]
    assert sorted(path.name for path in (longform.folder / "out").iterdir()) == [
        ".longform-read.json",
        "DATASHEET.md",
        *(
            f"{stage}{kind}.parquet"
            for stage in ("join_threads", "read_posts", "read_users")
            for kind in ("", ".rejected")
        ),
    ]


def test_a_mirror_without_a_list_of_files_will_do(longform: Shell, server: Server) -> None:
    server.on("/download/stackexchange/stackoverflow.com-Posts.7z", Answer(body=CONTENT))
    done = longform.json("fetch", "stackexchange", "stackoverflow.com", "--base-url", server.url + "/")
    assert done["files"][0]["sha256"] == SHA256


def test_a_dump_that_is_not_what_the_item_lists_is_refused(longform: Shell, server: Server) -> None:
    name = "beer.stackexchange.com.7z"
    server.on(f"/metadata/{ITEM}", item({name: b"other bytes" * 1_000}))
    server.on(f"/download/{ITEM}/{name}", Answer(body=CONTENT))
    done = longform("fetch", "stackexchange", "beer.stackexchange.com", "--base-url", server.url)
    assert (done.returncode, "11,000 are expected" in done.stderr) == (5, True)


@pytest.mark.parametrize(
    ("host", "archive"),
    [
        ("beer.stackexchange.com", "beer.stackexchange.com.7z"),
        ("Alcohol.StackExchange.com", "beer.stackexchange.com.7z"),
        ("stackoverflow.com", "stackoverflow.com-Posts.7z"),
        ("es.meta.stackoverflow.com", None),
    ],
)
def test_archives_are_found_by_host(host: str, archive: str | None) -> None:
    known = {name: {} for name in ("beer.stackexchange.com.7z", "stackoverflow.com-Posts.7z", "Sites.xml")}
    if archive is None:
        with pytest.raises(UsageError, match="lists no dump"):
            archive_of(host, known)
    else:
        assert archive_of(host, known) == archive


@pytest.mark.parametrize("host", ["../../etc", "beer", "a/b.c", "beer.stackexchange.com?x", ".a.b"])
def test_hosts_are_never_paths(host: str) -> None:
    with pytest.raises(UsageError, match="no host"):
        archive_of(host, {})


def test_later_dumps_ask_for_a_decision(longform: Shell, server: Server) -> None:
    command = ["fetch", "stackexchange", "beer.stackexchange.com", "--base-url", server.url, "--set", "item=later"]
    refused = longform(*command)
    assert (refused.returncode, server.asked) == (2, [])
    assert "do not train a large language model" in refused.stderr
    server.on("/download/later/beer.stackexchange.com.7z", Answer(body=CONTENT))
    place = Path(longform.json(*command, "--set", "agreement=true")["files"][0]["path"])
    noted = json.loads(place.with_name(place.name + ".fetch.json").read_text())
    assert noted["facts"] == {"item": "later", "download_agreement": "accepted"}


def test_a_source_that_cannot_be_read_says_why(longform: Shell) -> None:
    (longform.folder / "beer.stackexchange.com.7z").write_bytes(b"no archive")
    done = longform("read", "stackexchange", "beer.stackexchange.com.7z", "--to", "out")
    assert done.returncode == 5
    assert "Traceback" not in done.stderr
    assert not (longform.folder / "out").exists()


# ---------------------------------------------------------------- progress


def test_progress_without_a_terminal_is_a_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    lines = TransferLines()
    lines.begin("small", 10, 0)
    lines.advance("small", 10)
    lines.end("small")
    assert capsys.readouterr().err == ""
    lines.begin("large\x1b[2J", 40_000_000, 10_000_000)
    lines.advance("large\x1b[2J", 20_000_000)
    lines.end("large\x1b[2J")
    said = capsys.readouterr().err
    assert said.startswith("large\\u001b[2J: 30.0 of 40.0 MB (10.0 kept), ")
    assert said.endswith(" MB/s\n")
    lines.end("never begun")


@pytest.mark.parametrize("done", [0, 200_000_000, 280_000_000])
def test_the_time_left_of_a_resumed_download_comes_from_the_rate_of_this_run(
    done: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 MB, of which `done` are there: after 5 s and 10 MB more, 2 MB/s; at the end nothing is left to say."""
    now = [1_000.0]
    lines = TransferLines()
    monkeypatch.setattr(lines.bar, "get_time", lambda: now[0])
    lines.begin("a", 300_000_000, done)
    now[0] += 5
    lines.last_line = -1_000.0
    lines.advance("a", 10_000_000)
    said = capsys.readouterr().err
    left = {0: "2 min left", 200_000_000: "45 s left", 280_000_000: "5 s left"}[done]
    kept = f" ({done / 1e6:.1f} kept)" if done else ""
    assert said == f"a: {(done + 10_000_000) / 1e6:.1f} of 300.0 MB{kept}, 2.0 MB/s, {left}\n"
    now[0] += 10
    lines.advance("a", 300_000_000 - done - 10_000_001)
    capsys.readouterr()
    lines.last_line = -1_000.0
    lines.advance("a", 0)
    assert "1 s left" in capsys.readouterr().err
    lines.advance("a", 1)
    lines.end("a")
    assert " left" not in capsys.readouterr().err


class Lists(BaseModel):
    names: list[str] | None = None
    years: list[int] = []
    shards: int | list[int] | None = None
    title: str = ""


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("names=explainlikeimfive,askscience", ["explainlikeimfive", "askscience"]),
        ("names=explainlikeimfive", ["explainlikeimfive"]),
        ("names= a , b ,", ["a", "b"]),
        ("names=2023,1e5,true", ["2023", "1e5", "true"]),
        ('names="a","b"', ["a", "b"]),
        ('names=["a, b", "c"]', ["a, b", "c"]),
        ("names=[]", []),
        ("names=none", None),
        ("years=2023", [2023]),
        ("years=2023,2024", [2023, 2024]),
        ("years=[2023, 2024]", [2023, 2024]),
        ("shards=1", 1),
        ("shards=[1, 2]", [1, 2]),
        ("title=one, two", "one, two"),
    ],
)
def test_lists_are_set_with_commas_or_as_json(setting: str, value: Any) -> None:
    config = configuration.read("toy", Lists, None, [setting])
    assert getattr(config, setting.partition("=")[0]) == value


def test_a_list_that_does_not_fit_is_named() -> None:
    with pytest.raises(UsageError, match="years"):
        configuration.read("toy", Lists, None, ["years=2023,soon"])
    assert config_of("reddit", "read", ["subreddits=explainlikeimfive"]).subreddits == ["explainlikeimfive"]


def test_iclr_with_its_pdfs_is_fetched_as_typed(longform: Shell) -> None:
    with serve() as server:
        note = {"id": "n1", "forum": "n1", "number": 1, "invitations": ["ICLR.cc/2024/Conference/-/Submission"]}
        note["content"] = {"title": {"value": "Kites"}, "pdf": {"value": "/pdf/1.pdf"}}  # type: ignore[assignment]
        server.on("/notes", lambda asked: document({"notes": [] if "after" in asked.query else [note]}))
        server.on("/pdf", Answer(body=b"%PDF-1.4 kites"))
        done = longform.json("fetch", "iclr", "2024", "--pdfs", "--base-url", server.url, "--to", "in")
    assert done["source"] == "openreview"
    assert (longform.folder / "in" / "pdfs" / "n1.pdf").read_bytes() == b"%PDF-1.4 kites"
