import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paths
import pytest
from http_server import Answer, Server, document, serve

from flows.builds.fetching import config_of
from flows.sources import s2orc as source
from longform.errors import Incomplete, SourceError, UsageError
from longform.net.download import Downloader
from tasks.sources.s2orc.s2_api import PER_SECOND, DatasetsApi, fetch_differences, fetch_release, file_names
from tasks.sources.s2orc.s2_releases import open_release

SAMPLES = paths.SAMPLES / "s2orc"
KEY = "k-3f9c"
SIGNED = "X-Sig=topsecret"


@pytest.fixture
def api() -> Iterator[Server]:
    with serve() as server:
        yield server


@pytest.fixture
def storage() -> Iterator[Server]:
    with serve() as server:
        yield server


def client(api: Server, key: str | None = KEY) -> DatasetsApi:
    return DatasetsApi(Downloader(sleep=lambda seconds: None), api.url + "/v1", key=key, per_second=1e6)


def released(api: Server, storage: Server, names: list[str], *, sign: str = SIGNED) -> list[dict[str, Any]]:
    """A release whose s2orc has files of these names, with their links."""
    links = [f"{storage.url}/staging/2025-01-07/s2orc/{name}?{sign}" for name in names]
    listing = {"name": "s2orc", "README": "Read me.", "files": links}
    api.on("/v1/release/latest", document({"release_id": "2025-01-07", "datasets": []}))
    api.on("/v1/release/2025-01-07/dataset/s2orc", document(listing))
    for number, name in enumerate(names):
        content = (SAMPLES / "s2orc.jsonl").read_bytes().splitlines(keepends=True)[number % 4]
        storage.on(f"/staging/2025-01-07/s2orc/{name}", Answer(body=content, etag=f'"{number}"', ranges=True))
    return [listing]


def everything(folder: Path) -> str:
    return "".join(str(path) + (path.read_text() if path.is_file() else "") for path in folder.rglob("*"))


def test_a_release_is_fetched_and_read(api: Server, storage: Server, tmp_path: Path) -> None:
    released(api, storage, ["a.jsonl", "b.jsonl", "c.jsonl"])
    files = fetch_release(client(api), ["s2orc"], tmp_path, "latest", None, None)
    folder = tmp_path / "2025-01-07" / "s2orc"
    assert files == [folder / "a.jsonl", folder / "b.jsonl", folder / "c.jsonl"]
    found = open_release([tmp_path], digest=lambda path: path.name)["papers"]
    facts = dict(found[0].facts)
    assert (len(found), facts["release"], facts["change"], facts["dataset"]) == (3, "2025-01-07", "base", "s2orc")
    assert facts["retrieved_at"]


def test_links_and_key_are_never_written_down(api: Server, storage: Server, tmp_path: Path) -> None:
    released(api, storage, ["a.jsonl"])
    fetch_release(client(api), ["s2orc"], tmp_path, "latest", None, None)
    manifest = json.loads((tmp_path / "2025-01-07" / "manifest.json").read_text())
    assert manifest == {
        "release": "2025-01-07",
        "datasets": {"s2orc": {"README": "Read me.", "files": ["/staging/2025-01-07/s2orc/a.jsonl"]}},
    }
    noted = json.loads((tmp_path / "2025-01-07" / "s2orc" / "a.jsonl.fetch.json").read_text())
    assert noted["facts"] == {"release": "2025-01-07", "dataset": "s2orc", "readme": "Read me."}
    assert "topsecret" not in everything(tmp_path)
    assert KEY not in everything(tmp_path)


def test_the_key_goes_to_the_api_only(api: Server, storage: Server, tmp_path: Path) -> None:
    released(api, storage, ["a.jsonl"])
    fetch_release(client(api), ["s2orc"], tmp_path, "latest", None, None)
    assert {asked.headers.get("x-api-key") for asked in api.asked} == {KEY}
    assert [asked for asked in storage.asked if "x-api-key" in asked.headers or KEY in str(asked.query)] == []
    assert storage.asked[0].query == {"X-Sig": "topsecret"}


def test_a_second_fetch_downloads_nothing(api: Server, storage: Server, tmp_path: Path) -> None:
    released(api, storage, ["a.jsonl", "b.jsonl"])
    fetch_release(client(api), ["s2orc"], tmp_path, "latest", None, None)
    before = len(storage.asked)
    released(api, storage, ["a.jsonl", "b.jsonl"], sign="X-Sig=another")
    fetch_release(client(api), ["s2orc"], tmp_path, "latest", None, None)
    assert len(storage.asked) == before


def test_an_expired_link_is_asked_for_again(api: Server, storage: Server, tmp_path: Path) -> None:
    old, new = (f"{storage.url}/x/a.jsonl?{SIGNED}&n={n}" for n in (1, 2))
    api.on("/v1/release/latest", document({"release_id": "2025-01-07"}))
    api.on(
        "/v1/release/2025-01-07/dataset/s2orc",
        document({"README": "", "files": [old]}),
        document({"README": "", "files": [new]}),
    )
    storage.on(
        "/x/a.jsonl",
        lambda asked: Answer(403, b"<Error>expired</Error>") if asked.query["n"] == "1" else Answer(body=b"{}\n"),
    )
    (file,) = fetch_release(client(api), ["s2orc"], tmp_path, "latest", None, None)
    assert file.read_bytes() == b"{}\n"
    assert [asked.query["n"] for asked in storage.asked] == ["1", "2"]
    assert "topsecret" not in everything(tmp_path)


def test_a_link_that_is_always_refused_ends(api: Server, storage: Server, tmp_path: Path) -> None:
    released(api, storage, ["a.jsonl"])
    storage.on("/staging/2025-01-07/s2orc/a.jsonl", Answer(403, b"<Error>denied</Error>"))
    with pytest.raises((SourceError, Incomplete)) as caught:
        fetch_release(client(api), ["s2orc"], tmp_path, "latest", None, None)
    assert "topsecret" not in str(caught.value)
    assert len(storage.asked) < 10


def test_too_fast_is_waited_for(api: Server, storage: Server, tmp_path: Path) -> None:
    (listing,) = released(api, storage, ["a.jsonl"])
    api.scripts["/v1/release/2025-01-07/dataset/s2orc"] = []
    api.on("/v1/release/2025-01-07/dataset/s2orc", Answer(429), Answer(429), document(listing))
    waited: list[float] = []
    slow = DatasetsApi(Downloader(sleep=waited.append), api.url + "/v1", key=KEY, per_second=1e6)
    assert len(fetch_release(slow, ["s2orc"], tmp_path, "latest", None, None)) == 1
    assert len(waited) == 2
    assert waited[1] > waited[0] / 2


def test_a_rate_is_kept(api: Server, storage: Server, tmp_path: Path) -> None:
    released(api, storage, ["a.jsonl"])
    waited: list[float] = []
    polite = DatasetsApi(Downloader(sleep=waited.append), api.url + "/v1", key=KEY, per_second=0.001)
    fetch_release(polite, ["s2orc"], tmp_path, "latest", None, None)
    assert [round(seconds, -2) for seconds in waited] == [1_000, 2_000], "the API and storage are one host here"
    assert PER_SECOND == 1


@pytest.mark.parametrize(("key", "said"), [(None, "S2_API_KEY is not set"), (KEY, "refuses the key in S2_API_KEY")])
@pytest.mark.parametrize("status", [401, 403])
def test_a_key_is_asked_for(
    api: Server, storage: Server, tmp_path: Path, key: str | None, said: str, status: int
) -> None:
    released(api, storage, ["a.jsonl"])
    api.scripts["/v1/release/2025-01-07/dataset/s2orc"] = [Answer(status, b'{"message": "Forbidden"}')]
    with pytest.raises(UsageError, match=said) as caught:
        fetch_release(client(api, key), ["s2orc"], tmp_path, "latest", None, None)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (document([1]), "no JSON object"),
        (document({"release_id": "../../etc"}), "which is no date"),
        (Answer(404, b"{}"), "has no release/latest"),
        (Answer(body=b"<html>"), "JSON"),
    ],
)
def test_what_is_no_datasets_api(api: Server, tmp_path: Path, answer: Answer, message: str) -> None:
    api.on("/v1/release/latest", answer)
    with pytest.raises(SourceError, match=message):
        fetch_release(client(api), ["s2orc"], tmp_path, "latest", None, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("shards", "expected"), [(2, ["a.jsonl", "b.jsonl"]), ([2], ["c.jsonl"]), (3, ["a.jsonl", "b.jsonl", "c.jsonl"])]
)
def test_some_shards(api: Server, storage: Server, tmp_path: Path, shards: Any, expected: list[str]) -> None:
    released(api, storage, ["a.jsonl", "b.jsonl", "c.jsonl"])
    files = fetch_release(client(api), ["s2orc"], tmp_path, "latest", shards, None)
    assert [file.name for file in files] == expected


@pytest.mark.parametrize("shards", [0, 4, 99, [3], [0, 99], [-1], []])
def test_shards_that_are_not_there(api: Server, storage: Server, tmp_path: Path, shards: Any) -> None:
    released(api, storage, ["a.jsonl", "b.jsonl", "c.jsonl"])
    with pytest.raises(UsageError, match="does not fit s2orc, which has 3 of them: give how many, from 1 to 3"):
        fetch_release(client(api), ["s2orc"], tmp_path, "latest", shards, None)
    assert not list(tmp_path.rglob("*.jsonl"))


@pytest.mark.parametrize(("text", "shards"), [("2", 2), ("0,2", [0, 2]), ("[0, 2]", [0, 2]), ("none", None)])
def test_shards_are_set_as_a_number_or_a_list(text: str, shards: Any) -> None:
    assert config_of("s2orc", "fetch", [f"shards={text}"]).shards == shards


@pytest.mark.parametrize("text", ["a", "0,a", "1.5", '["a"]', "0,"])
def test_shards_that_are_no_numbers_are_refused_by_the_name_of_the_setting(text: str) -> None:
    with pytest.raises(UsageError, match=r"^s2orc: shards = .* does not fit: write how many, such as 1, or which"):
        config_of("s2orc", "fetch", [f"shards={text}"])


def test_differences_are_fetched_and_read(api: Server, storage: Server, tmp_path: Path) -> None:
    released(api, storage, ["a.jsonl"])
    fetch_release(client(api), ["s2orc"], tmp_path, "latest", None, None)
    steps = [("2025-01-07", "2025-01-14"), ("2025-01-14", "2025-01-21")]
    diffs = [
        {
            "from_release": first,
            "to_release": last,
            "update_files": [f"{storage.url}/{last}/u.jsonl?{SIGNED}"],
            "delete_files": [f"{storage.url}/{last}/d.jsonl?{SIGNED}"],
        }
        for first, last in steps
    ]
    api.scripts.pop("/v1/release/latest")
    api.on("/v1/release/latest", document({"release_id": "2025-01-21"}))
    api.on("/v1/diffs/2025-01-07/to/2025-01-21/s2orc", document({"dataset": "s2orc", "diffs": diffs}))
    for _, last in steps:
        storage.on(f"/{last}/u.jsonl", Answer(body=(SAMPLES / "s2orc.jsonl").read_bytes().splitlines()[1] + b"\n"))
        storage.on(f"/{last}/d.jsonl", Answer(body=b'{"corpusid": 1001}\n'))
    files = fetch_differences(client(api), ["s2orc"], tmp_path, "2025-01-07", "latest", None, None)
    assert [str(file.relative_to(tmp_path)) for file in files] == [
        "2025-01-07-to-2025-01-14/s2orc/update/u.jsonl",
        "2025-01-07-to-2025-01-14/s2orc/delete/d.jsonl",
        "2025-01-14-to-2025-01-21/s2orc/update/u.jsonl",
        "2025-01-14-to-2025-01-21/s2orc/delete/d.jsonl",
    ]
    found = open_release([tmp_path], digest=lambda path: path.read_text()[:40])["papers"]
    told = [(dict(one.facts)["release"], dict(one.facts)["change"]) for one in found]
    assert sorted(told) == [
        ("2025-01-07", "base"),
        ("2025-01-14", "delete"),
        ("2025-01-14", "update"),
        ("2025-01-21", "delete"),
        ("2025-01-21", "update"),
    ]
    assert "topsecret" not in everything(tmp_path)


def test_a_difference_is_fetched_whole(api: Server, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="shards cannot be chosen with since"):
        fetch_differences(client(api), ["s2orc"], tmp_path, "2025-01-07", "latest", 2, None)
    with pytest.raises(UsageError, match="is no release"):
        fetch_differences(client(api), ["s2orc"], tmp_path, "../x", "latest", None, None)


@pytest.mark.parametrize(
    "diffs",
    [
        None,
        {},
        ["x"],
        [],
        [{"from_release": "2025-01-10", "to_release": "2025-01-21", "update_files": [], "delete_files": []}],
        [{"from_release": "2025-01-07", "to_release": "2025-01-14", "update_files": [], "delete_files": []}],
    ],
    ids=["none", "an object", "a text", "empty", "begins later", "ends earlier"],
)
def test_differences_that_do_not_lead_to_the_release_are_refused(api: Server, tmp_path: Path, diffs: Any) -> None:
    api.on("/v1/release/latest", document({"release_id": "2025-01-21"}))
    api.on("/v1/diffs/2025-01-07/to/2025-01-21/s2orc", document({"dataset": "s2orc", "diffs": diffs}))
    with pytest.raises(SourceError, match="differences"):
        fetch_differences(client(api), ["s2orc"], tmp_path, "2025-01-07", "latest", None, None)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("since", ["2025-01-21", "2025-02-04"])
def test_nothing_is_newer_than_the_newest_release(api: Server, tmp_path: Path, since: str) -> None:
    api.on("/v1/release/latest", document({"release_id": "2025-01-21"}))
    with pytest.raises(UsageError, match=f"since {since} is not older than the release 2025-01-21"):
        fetch_differences(client(api), ["s2orc"], tmp_path, since, "latest", None, None)


def test_names_of_files_are_never_paths() -> None:
    paths = ["/a/x.gz", "/b/x.gz", "/c/..", "/c/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/d/.hidden", "/e/a b;c.gz", "/"]
    names = file_names(paths)
    assert names["/a/x.gz"] == "00000-x.gz"
    assert names["/b/x.gz"] == "00001-x.gz"
    assert names["/e/a b;c.gz"] == "a_b_c.gz"
    assert len(set(names.values())) == len(paths)
    for name in names.values():
        assert "/" not in name
        assert not name.startswith(".")


def test_the_flow_fetches(api: Server, storage: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released(api, storage, ["a.jsonl", "b.jsonl"])
    monkeypatch.setenv("S2_API_KEY", KEY)
    config = source.Fetch(base_url=api.url + "/v1", shards=1)
    files = source.fetch(Downloader(), ["s2orc"], tmp_path, config, None)  # type: ignore[arg-type]
    assert [file.name for file in files] == ["a.jsonl"]
    assert api.asked[-1].headers["x-api-key"] == KEY
    with pytest.raises(UsageError, match='has no dataset "tldrs"'):
        source.fetch(Downloader(), ["tldrs"], tmp_path, config, None)  # type: ignore[arg-type]
