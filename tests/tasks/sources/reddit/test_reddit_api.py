import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import paths
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from axioms_builds import Silent
from http_server import Answer, Asked, Server, document, serve

from flows.sources.reddit import Fetch, Read, fetch, read
from longform.artifacts.store import Store
from longform.engine.build import Build
from longform.engine.runners import ThreadRunner
from longform.engine.thread_tasks import SequentialStages
from longform.errors import HttpError, Incomplete, SourceError, UsageError
from longform.llm.models import Models
from longform.net.download import Downloader
from longform.settings import reddit_client
from tasks.sources.reddit.states import (
    RedditApi,
    States,
    fullname,
    fullnames_in,
    refresh_states,
    state_of,
    things,
    write_takedowns,
)

SAMPLES = paths.SAMPLES / "reddit"
NOW = "2026-11-21T10:00:00+00:00"


def thing(kind: str, **data: Any) -> dict[str, Any]:
    return {"kind": kind, "data": data}


def listing(*children: Any) -> dict[str, Any]:
    return thing("Listing", after=None, children=list(children))


# ---------------------------------------------------------------- documents


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("reddit/t1_kod0b1", "t1_kod0b1"),
        ("t3_1afw2c", "t3_1afw2c"),
        ("https://www.reddit.com/r/explainlikeimfive/comments/1afw2c/why_salt/", "t3_1afw2c"),
        ("https://old.reddit.com/r/explainlikeimfive/comments/1afw2c/why_salt/kod0b1/?context=3", "t1_kod0b1"),
        ("https://www.reddit.com/r/explainlikeimfive/comments/1afw2c/_/kod0b1/", "t1_kod0b1"),
        ("https://www.reddit.com/comments/1afw2c", "t3_1afw2c"),
        ("https://www.reddit.com.example/comments/1afw2c", None),
        ("https://www.reddit.com/r/explainlikeimfive", None),
        ("t5_2sokd", None),
        ("t1_KOD", "t1_kod"),
        ("t1_kod0b1,t1_x", None),
        ("", None),
    ],
)
def test_a_full_name_is_read_from_ids_and_permalinks(text: str, name: str | None) -> None:
    assert fullname(text) == name


PAGE = [
    listing(thing("t3", id="1afw2c", title="Why?")),
    listing(
        thing("t1", id="c1", body="a", replies=listing(thing("t1", id="c2", body="b", replies=""))),
        thing("t1", id="c3", body="c", replies=""),
        thing("more", id="c4", children=["c4", "c5", 7, None, "../x"], count=2),
        thing("more", id="_", children=[], count=0),
    ),
]


def test_a_page_of_comments_is_read_in_its_order() -> None:
    assert [(kind, data["id"]) for kind, data in things(PAGE)] == [
        ("t3", "1afw2c"),
        ("t1", "c1"),
        ("t1", "c2"),
        ("t1", "c3"),
        ("more", "c4"),
        ("more", "_"),
    ]


@pytest.mark.parametrize(
    "odd", [None, "", 3, {}, {"kind": "Listing"}, {"kind": 1, "data": {}}, [[]], listing(None, "x")]
)
def test_what_is_no_thing_is_passed_over(odd: Any) -> None:
    assert list(things(odd)) == []


def test_replies_as_deep_as_a_server_likes_do_no_harm() -> None:
    page: Any = ""
    for number in range(50_000):
        page = listing(thing("t1", id=f"c{number}", replies=page))
    assert sum(1 for _ in things(page)) == 50_000


@pytest.mark.parametrize(
    ("kind", "data", "state"),
    [
        ("t1", {"id": "c1", "body": "Salt.", "score": 7}, "present"),
        ("t1", {"id": "c1", "body": "[deleted]", "author": "[deleted]", "score": 7}, "deleted"),
        ("t1", {"id": "c1", "body": "[removed]"}, "removed"),
        ("t3", {"id": "c1", "title": "Why?", "selftext": "", "removed_by_category": "deleted"}, "deleted"),
        ("t3", {"id": "c1", "title": "Why?", "selftext": "[removed]", "removed_by_category": "moderator"}, "removed"),
        ("t3", {"id": "c1", "title": "[ Removed by Reddit ]", "selftext": "[ Removed by Reddit ]"}, "removed"),
    ],
)
def test_the_state_of_an_item_holds_no_text_and_no_name(kind: str, data: dict[str, Any], state: str) -> None:
    found = state_of(kind, {"author": "sample_author_1", **data}, NOW)
    assert found is not None
    assert (found["id"], found["state"], found["checked_at"]) == (f"reddit/{kind}_c1", state, NOW)
    assert found["votes"] == (7 if state == "present" else None)
    assert not {"body", "title", "selftext", "author"} & found.keys()


def test_what_is_no_item_has_no_state() -> None:
    assert state_of("t5", {"id": "x"}, NOW) is None
    assert state_of("t1", {"id": "../x"}, NOW) is None


# ---------------------------------------------------------------- a server that speaks as Reddit does


GONE = {"t1_b": {"body": "[deleted]", "author": "[deleted]"}, "t1_c": {"body": "[removed]", "author": "[deleted]"}}


def info(asked: Asked) -> Answer:
    """Every item there is, in another order; t1_missing* is unknown."""
    names = [name for name in asked.query["id"].split(",") if not name.startswith("t1_missing")]
    found = [
        thing(name[:2], id=name[3:], name=name, score=41, **GONE.get(name, {"body": "x", "author": "some"}))
        for name in sorted(names, reverse=True)
    ]
    return document(listing(*found))


class Quiet:
    def begin(self, name: str, total_bytes: int | None, done_bytes: int) -> None: ...
    def advance(self, name: str, bytes: int) -> None: ...
    def end(self, name: str) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as running:
        running.on("/api/v1/access_token", document({"access_token": "token-1", "expires_in": 86_400}))
        running.on("/api/info", info)
        yield running


def api_of(server: Server, slept: list[float] | None = None, **settings: Any) -> RedditApi:
    http = Downloader(sleep=(slept if slept is not None else []).append, tries=3)
    token_url = server.url + "/api/v1/access_token"
    return RedditApi(http, ("app", "secret"), base_url=server.url, token_url=token_url, **settings)


def test_a_token_is_asked_for_once_and_sent_with_every_request(server: Server) -> None:
    api = api_of(server, account="sample_account")
    states = api.states(["t1_a", "t1_b", "t1_c", "t1_missing"], NOW)
    api.states(["t3_x"], NOW)
    assert [state["state"] for state in states] == ["present", "deleted", "removed", "missing"]
    assert [state["id"] for state in states] == [f"reddit/t1_{own}" for own in ("a", "b", "c", "missing")]
    token, first, second = server.asked
    assert (token.method, token.body) == ("POST", b"grant_type=client_credentials")
    assert token.headers["authorization"] == "Basic " + base64.b64encode(b"app:secret").decode()
    assert {one.headers["authorization"] for one in (first, second)} == {"bearer token-1"}
    assert first.query["raw_json"] == "1"
    assert "longform:" in first.headers["user-agent"]
    assert first.headers["user-agent"].endswith("(by /u/sample_account)")


def test_an_expired_token_is_renewed_once(server: Server) -> None:
    server.on("/api/v1/access_token", document({"access_token": "old"}), document({"access_token": "new"}))
    server.on("/api/info", lambda asked: info(asked) if asked.headers["authorization"] == "bearer new" else Answer(401))
    assert api_of(server).states(["t1_a"], NOW)[0]["state"] == "present"
    server.on("/api/info", Answer(401))
    with pytest.raises(HttpError, match="401"):
        api_of(server).states(["t1_a"], NOW)


def test_a_refused_app_and_an_odd_answer_are_errors(server: Server) -> None:
    server.on("/api/v1/access_token", Answer(401))
    with pytest.raises(HttpError, match="refused the app of REDDIT_CLIENT_ID with status 401") as refused:
        api_of(server).states(["t1_a"], NOW)
    assert "secret" not in str(refused.value).replace("its secret", "")
    for odd in ({"error": "x"}, [], {"access_token": "a\r\nb"}):
        server.on("/api/v1/access_token", document(odd))
        with pytest.raises(SourceError, match="gave no token"):
            api_of(server).states(["t1_a"], NOW)


@pytest.mark.parametrize("odd", [[], {"kind": "t3"}, "x", {"error": 403}])
def test_a_reply_that_is_no_listing_takes_nothing_for_missing(server: Server, odd: Any) -> None:
    server.on("/api/info", document(odd))
    with pytest.raises(SourceError, match="no listing"):
        api_of(server).states(["t1_a"], NOW)


def test_the_rate_is_kept(server: Server) -> None:
    slept: list[float] = []
    api = api_of(server, slept, requests_a_minute=0.06)
    for _ in range(3):
        api.states(["t1_a"], NOW)
    assert [round(seconds, -2) for seconds in slept] == [1_000, 2_000, 3_000], "the token is asked for at this host too"


def test_where_a_limit_is_used_up_the_next_request_waits_until_it_is_lifted(server: Server) -> None:
    slept: list[float] = []
    api = api_of(server, slept, requests_a_minute=60_000_000)
    spent = {"X-Ratelimit-Remaining": "0.0", "X-Ratelimit-Reset": "370"}
    server.on("/api/info", Answer(200, json.dumps(listing()).encode(), {**spent, "X-Ratelimit-Remaining": "1.0"}))
    api.states(["t1_a"], NOW)
    api.states(["t1_a"], NOW)
    assert sum(slept) < 1
    server.on("/api/info", Answer(200, json.dumps(listing()).encode(), spent))
    api.states(["t1_a"], NOW)
    api.states(["t1_a"], NOW)
    assert slept[-1] == pytest.approx(370, abs=60)


def test_a_429_waits_for_the_next_period(server: Server) -> None:
    slept: list[float] = []
    server.on("/api/info", Answer(429, headers={"X-Ratelimit-Reset": "5"}), info)
    assert api_of(server, slept).states(["t1_a"], NOW)[0]["state"] == "present"
    assert 5 in slept


def test_the_token_goes_to_no_other_host(server: Server) -> None:
    with serve("127.0.0.2") as other:
        other.on("/api/info", info)
        server.on("/api/info", Answer(302, headers={"Location": other.url + "/api/info?id=t1_a"}))
        api_of(server).states(["t1_a"], NOW)
        assert [one.headers.get("authorization") for one in other.asked] == [None]


# ---------------------------------------------------------------- checks


def test_ids_are_read_from_the_command_line_and_from_files(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("t1_a\n\nreddit/t1_b\nhttps://www.reddit.com/comments/c/\n")
    (tmp_path / "rows.jsonl").write_text('{"post_id": "reddit/t1_d"}\n{"id": "reddit/t1_a", "state": "present"}\n')
    answers = [[{"answer_id": "reddit/t1_e"}, {"answer_id": "reddit/t1_f"}], []]
    pq.write_table(
        pa.table({"question_id": ["reddit/t3_g", "reddit/t3_h"], "answers": answers}), tmp_path / "a.parquet"
    )
    what = ["t1_z", *(str(tmp_path / name) for name in ("ids.txt", "rows.jsonl", "a.parquet"))]
    assert fullnames_in(what) == ["t1_z", "t1_a", "t1_b", "t3_c", "t1_d", "t3_g", "t1_e", "t1_f", "t3_h"]
    (tmp_path / "odd.txt").write_text("t1_a\nnone\n")
    with pytest.raises(UsageError, match="line 2, holds no id"):
        fullnames_in([str(tmp_path / "odd.txt")])
    with pytest.raises(UsageError, match="neither an id of Reddit"):
        fullnames_in(["t9_x"])
    pq.write_table(pa.table({"x": [1]}), tmp_path / "b.parquet")
    with pytest.raises(UsageError, match="none of the columns"):
        fullnames_in([str(tmp_path / "b.parquet")])
    (tmp_path / "c.parquet").write_text("none")
    with pytest.raises(SourceError, match="no Parquet file"):
        fullnames_in([str(tmp_path / "c.parquet")])


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 11, 21, 10, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


class Asking:
    """Answers `present`, notes what was asked, and fails at a call if told to."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.asked: list[list[str]] = []
        self.fails_at = fails_at

    def __call__(self, names: list[str], checked_at: str) -> list[dict[str, Any]]:
        if len(self.asked) == self.fails_at:
            raise Incomplete("the server is away: run this again.")
        self.asked.append(names)
        return [{"id": f"reddit/{name}", "state": "present", "checked_at": checked_at} for name in names]


def test_a_check_that_was_stopped_goes_on_and_a_finished_one_asks_nothing(tmp_path: Path) -> None:
    names, place, clock = [f"t1_{number}" for number in range(250)], tmp_path / "states.jsonl", Clock()
    given: dict[str, Any] = {"max_age": timedelta(hours=24), "now": clock, "progress": Quiet()}
    with pytest.raises(Incomplete):
        refresh_states(Asking(fails_at=2), names, place, **given)
    assert not place.exists()
    partial = place.with_name("states.jsonl.partial")
    partial.write_bytes(partial.read_bytes()[:-9])  # as a kill may leave it: the last line is asked for again
    again = Asking()
    refresh_states(again, names, place, **given)
    assert [len(batch) for batch in again.asked] == [51]
    assert again.asked[0][0] == "t1_199"
    assert len(place.read_bytes().splitlines()) == 250
    content = place.read_bytes()
    refresh_states(third := Asking(), names, place, **given)
    assert (third.asked, place.read_bytes(), partial.exists()) == ([], content, False)


def test_old_states_are_asked_for_again_and_others_stay(tmp_path: Path) -> None:
    place, clock = tmp_path / "states.jsonl", Clock()
    given: dict[str, Any] = {"max_age": timedelta(hours=24), "now": clock, "progress": Quiet()}
    refresh_states(Asking(), ["t1_a", "t1_b"], place, **given)
    clock.now += timedelta(hours=30)
    refresh_states(asking := Asking(), ["t1_b", "t1_c"], place, **given)
    assert asking.asked == [["t1_b", "t1_c"]]
    states = [json.loads(line) for line in place.read_bytes().splitlines()]
    assert [(state["id"][-1], state["checked_at"][:13]) for state in states] == [
        ("a", "2026-11-21T10"),
        ("b", "2026-11-22T16"),
        ("c", "2026-11-22T16"),
    ]


def test_what_is_gone_becomes_takedowns(tmp_path: Path) -> None:
    lines = [
        {"id": f"reddit/t1_{own}", "state": state, "checked_at": NOW}
        for own, state in (("a", "present"), ("b", "deleted"), ("c", "removed"), ("d", "missing"))
    ]
    odd: list[dict[str, Any]] = [
        {"state": "deleted", "checked_at": NOW},
        {"id": 7, "state": "deleted", "checked_at": NOW},
        {"id": "reddit/t1_e", "state": ["deleted"], "checked_at": NOW},
        {"id": "reddit/t1_f", "state": "deleted"},
    ]
    (tmp_path / "s").write_text("".join(json.dumps(line) + "\n" for line in [*lines, *odd]))
    assert write_takedowns(tmp_path / "s", tmp_path / "t", also_missing=False) == 2
    assert [json.loads(line) for line in (tmp_path / "t").read_text().splitlines()] == [
        {"id": "reddit/t1_b", "reason": "deleted on Reddit", "date": "2026-11-21"},
        {"id": "reddit/t1_c", "reason": "removed on Reddit", "date": "2026-11-21"},
    ]
    assert write_takedowns(tmp_path / "s", tmp_path / "t", also_missing=True) == 3


# ---------------------------------------------------------------- the source's fetch and read


def test_fetch_writes_states_and_takedowns(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDDIT_CLIENT_ID", "app")
    monkeypatch.setenv("REDDIT_CLIENT_SECRET", "secret")
    config, http = Fetch(base_url=server.url), Downloader(sleep=lambda seconds: None)
    paths = fetch(http, ["t1_a", "t1_b", "t1_c", "t1_missing"], tmp_path / "out", config, Quiet())
    assert [path.name for path in paths] == ["states.jsonl", "gone.jsonl"]
    assert [json.loads(line)["id"] for line in paths[1].read_text().splitlines()] == ["reddit/t1_b", "reddit/t1_c"]
    requests = len(server.asked)
    fetch(http, ["t1_a", "t1_b"], tmp_path / "out", config, Quiet())
    assert len(server.asked) == requests
    assert "secret" not in "".join(path.read_text() for path in (tmp_path / "out").iterdir())


def test_fetch_without_an_app_says_where_to_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDDIT_CLIENT_ID", raising=False)
    monkeypatch.delenv("REDDIT_CLIENT_SECRET", raising=False)
    with pytest.raises(UsageError, match="REDDIT_CLIENT_ID and REDDIT_CLIENT_SECRET are not set"):
        fetch(Downloader(), ["t1_a"], tmp_path, Fetch(), Quiet())
    monkeypatch.setenv("REDDIT_CLIENT_ID", "app")
    with pytest.raises(UsageError, match="belong together"):
        reddit_client()


def test_newer_scores_and_deletions_reach_the_threads(tmp_path: Path) -> None:
    states = [
        {"id": "reddit/t3_19a001", "state": "present", "votes": 500, "upvote_ratio": 0.5, "num_comments": 9},
        {"id": "reddit/t1_kx0001", "state": "present", "votes": 3, "author_deleted": True},
        {"id": "reddit/t1_kx0002", "state": "deleted", "votes": None},
        {"id": "reddit/t3_19a002", "state": "removed", "votes": None},
    ]
    defaults = {"upvote_ratio": None, "num_comments": None, "author_deleted": False, "checked_at": NOW}
    (tmp_path / "states").write_text("".join(json.dumps({**defaults, **state}) + "\n" for state in states))
    (tmp_path / "all.jsonl").write_bytes(b"".join(path.read_bytes() for path in sorted(SAMPLES.glob("R*.jsonl"))))
    home = tmp_path / "home"
    run = Build(
        Store(home),
        tasks=SequentialStages(),
        runner=ThreadRunner(),
        progress=Silent(),
        models=Models(home / "responses.sqlite"),
    )
    *_, threads = read(run, [tmp_path / "all.jsonl"], Read(states=str(tmp_path / "states")))
    run.close()
    found = {row["question_id"]: row for row in threads}
    assert "reddit/t3_19a002" not in found
    thread = found["reddit/t3_19a001"]
    assert (thread["votes"], thread["upvote_ratio"], thread["num_comments"]) == (500, 0.5, 9)
    assert thread["seen_at"] == datetime(2026, 11, 21, 10, tzinfo=UTC)
    assert thread["score_age_s"] == (thread["seen_at"] - thread["created"]).total_seconds()
    assert [(answer["answer_id"][-4:], answer["votes"]) for answer in thread["answers"]] == [
        ("0101", 6),
        ("0001", 3),
        ("0003", -14),
    ]
    assert thread["answers"][1]["author_id"] is None
    entry = run.done[-1].artifact
    assert {reason: number for (_, reason), number in entry.rejected().items()} == {"removed on Reddit": 1}
    assert entry.counts() == {"answers gone from Reddit": 1, "refreshed": 3}


def test_a_file_of_states_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="longform fetch reddit"):
        States(tmp_path / "none", lambda path: "")
    (tmp_path / "s").write_text('{"id": "reddit/t1_a", "state": "odd", "checked_at": "2026-11-21"}\n')
    with pytest.raises(SourceError, match="line 1, is no state"):
        States(tmp_path / "s", lambda path: "").by_id()
