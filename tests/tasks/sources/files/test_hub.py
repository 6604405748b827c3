"""The hub's stand-in is a real server; that it answers as the hub does, the hub's own client says."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from http_server import Answer, Server, document, serve
from huggingface_hub import HfApi

from longform.artifacts.rows import Source
from longform.errors import HttpError, Incomplete, SourceError, UsageError
from longform.net.download import Downloader
from tasks.sources.files.hub import fetch_hub, hub_file, list_hub, origin_of, pinned

REPO, COMMIT = "someone/some-set", "0123456789abcdef0123456789abcdef01234567"
TREE = f"/api/datasets/{REPO}/tree/{COMMIT}"
BIG, SMALL = b"PAR1 " * 50_000, b'{"a": 1}\n' * 40
TOKEN = "hf_" + "x" * 20


def git(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def entry(path: str, content: bytes, *, lfs: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "file", "path": path, "size": len(content), "oid": git(content)}
    if lfs:
        found["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
    return found


class Hub:
    """A repository of two files: a large one that lies on another host, and a small one."""

    def __init__(self, hub: Server, store: Server) -> None:
        self.hub, self.store = hub, store
        first = [{"type": "directory", "path": "data", "oid": "1" * 40}, entry("data/a-0.parquet", BIG, lfs=True)]
        second = [entry("README.md", SMALL, lfs=False)]
        link = f'<{hub.url}{TREE}?recursive=true&cursor=2>; rel="next"'
        hub.on(TREE, lambda asked: document(second) if "cursor" in asked.query else document(first, Link=link))
        signed = f"{store.url}/blob?X-Signature=secret"
        hub.on(self.file("data/a-0.parquet"), Answer(302, headers={"Location": signed, "X-Linked-Etag": '"a"'}))
        hub.on(self.file("README.md"), Answer(body=SMALL, etag='"b"'))
        store.on("/blob", Answer(body=BIG, etag='"a"', ranges=True))

    def file(self, path: str) -> str:
        return f"/datasets/{REPO}/resolve/{COMMIT}/{path}"

    def fetch(self, folder: Path, *paths: str, revision: str = COMMIT, http: Downloader | None = None) -> list[Path]:
        return fetch_hub(http or client(), REPO, revision, paths, folder, base_url=self.hub.url)


def client(waits: list[float] | None = None) -> Downloader:
    return Downloader(tries=3, sleep=(waits if waits is not None else []).append)


@pytest.fixture
def hub():
    with serve() as hub, serve("127.0.0.2") as store:
        yield Hub(hub, store)


def test_the_hubs_own_client_lists_the_same_files(hub):
    theirs = HfApi(endpoint=hub.hub.url, token=False).list_repo_tree(
        REPO, recursive=True, revision=COMMIT, repo_type="dataset"
    )
    known = {
        (one.path, one.size, one.lfs.sha256 if one.lfs else None, one.blob_id) for one in theirs if hasattr(one, "size")
    }
    ours = {(one.path, one.size, one.sha256, one.git) for one in list_hub(client(), REPO, COMMIT, base_url=hub.hub.url)}
    assert ours == known
    assert len(ours) == 2


def test_files_arrive_whole_under_their_commit_and_only_once(hub, tmp_path):
    first = hub.fetch(tmp_path, "*.md", "data/*.parquet")
    assert {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in first} == {
        f"{COMMIT}/README.md": SMALL,
        f"{COMMIT}/data/a-0.parquet": BIG,
    }
    asked = len(hub.hub.asked) + len(hub.store.asked)
    assert hub.fetch(tmp_path, "*.md", "data/*.parquet") == first
    assert [one.path for one in hub.hub.asked[-2:]] == [TREE, TREE]
    assert len(hub.hub.asked) + len(hub.store.asked) == asked + 2


def test_the_token_goes_to_the_hub_and_to_no_other_host(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    paths = hub.fetch(tmp_path, "*")
    assert {asked.headers.get("authorization") for asked in hub.hub.asked} == {f"Bearer {TOKEN}"}
    assert [asked.headers.get("authorization") for asked in hub.store.asked] == [None]
    noted = "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*.fetch.json"))
    assert TOKEN not in noted
    assert "secret" not in noted
    assert len(paths) == 2


def test_what_a_fetch_noted_makes_the_columns_of_origin(hub, tmp_path):
    [path] = hub.fetch(tmp_path, "*.parquet")
    source = Source("some", str(path), "0" * 64, (("name", path.name),), ((0, -1),))
    [known] = pinned([source], repository=None, revision="f" * 40)
    assert origin_of(known) == {"revision": COMMIT, "url": f"https://huggingface.co/datasets/{REPO}/tree/{COMMIT}"}
    [local] = pinned(
        [Source("some", str(tmp_path / "other"), "0" * 64, (), ((0, -1),))], repository=None, revision=None
    )
    assert origin_of(local) == {"revision": None, "url": None}
    with pytest.raises(UsageError, match="is no commit"):
        pinned([source], repository=None, revision="main")


@pytest.mark.parametrize("revision", ["main", "refs/convert/parquet", COMMIT[:12], COMMIT.upper(), ""])
def test_a_branch_is_refused_before_anything_is_asked(hub, tmp_path, revision):
    with pytest.raises(UsageError, match=r"40 hex digits of a commit from .*/commits/main"):
        hub.fetch(tmp_path, "*", revision=revision)
    assert not hub.hub.asked


@pytest.mark.parametrize("repo", ["one", "../../etc", "a/b/c", "a/..", "a b/c"])
def test_what_names_no_repository_is_refused(hub, tmp_path, repo):
    with pytest.raises(UsageError, match="names no dataset repository"):
        fetch_hub(client(), repo, COMMIT, ["*"], tmp_path, base_url=hub.hub.url)


def test_a_gated_repository_says_what_to_do(hub, tmp_path):
    hub.hub.on(TREE, document({"error": "Access is restricted"}, 401))
    with pytest.raises(HttpError, match=f"accept its terms at .*{REPO} and set HF_TOKEN") as told:
        hub.fetch(tmp_path, "*")
    assert told.value.status == 401


def test_an_unknown_commit_says_where_commits_are(hub, tmp_path):
    hub.hub.on(TREE, document({"error": "Invalid rev id"}, 404))
    with pytest.raises(HttpError, match=f"knows no commit {COMMIT} of {REPO}: look at .*/commits/main"):
        hub.fetch(tmp_path, "*")


def test_a_pattern_without_a_file_says_what_there_is(hub, tmp_path):
    with pytest.raises(SourceError, match=r"has no file \*\.jsonl: it holds README\.md, data/a-0\.parquet"):
        hub.fetch(tmp_path, "*.jsonl")


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../x", "a//x", "a\\x", "C:x", "a/./x", "", "a\nb"])
def test_a_path_that_leads_out_is_refused(hub, tmp_path, path):
    with pytest.raises(ValueError, match="is none of a file"):
        hub_file(entry(path, b"", lfs=False))
    hub.hub.on(TREE, document([entry(path, b"", lfs=False)]))
    with pytest.raises(SourceError, match="is not what the hub's interface gives"):
        hub.fetch(tmp_path, "*")
    assert not list(tmp_path.iterdir())


def test_a_listing_that_goes_on_elsewhere_is_not_followed(hub, tmp_path):
    hub.hub.on(TREE, document([], Link=f'<{hub.store.url}/more>; rel="next"'))
    with pytest.raises(SourceError, match="goes on at another host"):
        hub.fetch(tmp_path, "*")
    assert not hub.store.asked


@pytest.mark.parametrize("listing", [{"error": "x"}, [1], [{"type": "file"}], "no"])
def test_a_listing_of_another_shape_is_an_error(hub, tmp_path, listing):
    hub.hub.on(TREE, document(listing))
    with pytest.raises(SourceError, match="is base_url a hub"):
        hub.fetch(tmp_path, "*")


def test_a_small_file_with_another_git_hash_is_not_kept(hub, tmp_path):
    hub.hub.on(hub.file("README.md"), Answer(body=SMALL[::-1]))
    with pytest.raises(SourceError, match="another git hash"):
        hub.fetch(tmp_path, "README.md")
    assert not (tmp_path / COMMIT / "README.md").exists()


def test_a_large_file_with_another_sha256_is_not_kept(hub, tmp_path):
    hub.store.on("/blob", Answer(body=BIG[::-1], etag='"a"'))
    with pytest.raises((SourceError, Incomplete)):
        hub.fetch(tmp_path, "*.parquet")
    assert not (tmp_path / COMMIT / "data/a-0.parquet").exists()


def test_a_dropped_download_goes_on_where_it_stopped(hub, tmp_path):
    hub.store.on(
        "/blob",
        Answer(body=BIG, etag='"a"', ranges=True, drop_after=100_000),
        Answer(body=BIG, etag='"a"', ranges=True),
    )
    [path] = hub.fetch(tmp_path, "*.parquet")
    assert path.read_bytes() == BIG
    assert hub.store.asked[-1].headers["range"].startswith("bytes=")


def test_the_limits_own_header_says_how_long_to_wait(hub, tmp_path):
    waits: list[float] = []
    listing = document([entry("README.md", SMALL, lfs=False)])
    hub.hub.on(TREE, Answer(429, headers={"RateLimit": '"api";r=0;t=55'}), listing)
    hub.fetch(tmp_path, "README.md", http=client(waits))
    assert waits == [55.0]


def test_the_side_file_names_repository_and_commit(hub, tmp_path):
    [path] = hub.fetch(tmp_path, "*.parquet")
    noted = json.loads(path.with_name(path.name + ".fetch.json").read_bytes())
    assert noted["facts"] == {"repository": REPO, "revision": COMMIT}
    assert noted["sha256"] == hashlib.sha256(BIG).hexdigest()
