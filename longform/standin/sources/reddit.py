"""Reddit's Data API over the records of monthly dumps, and these dumps as files.

    POST /api/v1/access_token            any app
    GET  /api/info?id=t3_…,t1_…          up to 100; what nobody knows is left out
    GET  /comments/{id}                  the submission and its tree; what is over `limit` hangs in a `more`
    GET  /api/morechildren?link_id=t3_…&children=…
    GET  /dumps/RC_2023-03.zst           for `longform fetch url`

What has gone since the dump is named in `gone.tsv` beside the dumps (full name, tab, `deleted`, `removed` or
`missing`), or by `_meta.was_deleted_later`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from longform.standin.sources.calls import Answer, Call, Refused, as_file, as_json, plain_key

TOKEN = "standin"
IDS_A_REQUEST = 100
COMMENTS_SHOWN = 200
GONE_FILE = "gone.tsv"

Record = dict[str, Any]


class Reddit:
    """The API over the dumps in the first of these folders that holds some."""

    prefix = "/reddit"
    limited = frozenset(("GET /api/info", "GET /comments/{id}", "GET /api/morechildren"))
    key: Callable[[Call], str] = staticmethod(plain_key)

    def __init__(self, folders: Sequence[Path]) -> None:
        dumps = [sorted(folder.glob("R[CS]_*.jsonl")) for folder in folders]
        self._dumps = {path.stem: path for path in next((paths for paths in dumps if paths), [])}
        self._gone = _gone(next((path.parent for path in self._dumps.values()), None))
        records = [record for path in self._dumps.values() for record in _records(path)]
        self._things = {_full_name(record): record for record in records}
        self._children: dict[str, list[str]] = defaultdict(list)
        for name, record in self._things.items():
            if name.startswith("t1_"):
                self._children[str(record.get("parent_id"))].append(name)

    def routes(self) -> Mapping[str, Answer]:
        """What the API answers, and the dumps."""
        return {
            "POST /api/v1/access_token": self._token,
            "GET /api/info": self._info,
            "GET /comments/{id}": self._comments,
            "GET /api/morechildren": self._more_children,
            "GET /dumps": lambda call: as_json([f"{name}.zst" for name in self._dumps]),
            "GET /dumps/{name}": self._dump,
        }

    def error(self, status: int, seconds: float | None) -> web.Response:
        """The error with this status; a 429 says in x-ratelimit-reset when the window ends."""
        reply = as_json({"message": "Too Many Requests" if status == 429 else "Error", "error": status}, status)
        if seconds is not None:
            reply.headers["x-ratelimit-remaining"] = "0.0"
            reply.headers["x-ratelimit-reset"] = f"{seconds:g}"
            reply.headers["Retry-After"] = f"{seconds:g}"
        return reply

    def usage(self, url: str) -> list[str]:
        """How dumps are fetched, and states asked for; any app does."""
        files = " ".join(f"{url}/dumps/{name}.zst" for name in self._dumps)
        app = "REDDIT_CLIENT_ID=standin REDDIT_CLIENT_SECRET=standin"
        return [
            f"longform fetch url {files} --to dumps",
            f"{app} longform fetch reddit IDS --accept-terms --base-url {url} --to checks",
        ]

    # the API

    def _token(self, call: Call) -> web.Response:
        """A token for any app that gives an id and a secret."""
        if not call.headers.get("Authorization", "").startswith("Basic "):
            raise Refused(as_json({"message": "Unauthorized", "error": 401}, 401))
        return as_json({"access_token": TOKEN, "token_type": "bearer", "expires_in": 86_400, "scope": "*"})

    def _info(self, call: Call) -> web.Response:
        """The things of these full names, up to 100, in the order of the request."""
        self._check_token(call)
        names = call.query.get("id", "").split(",")[:IDS_A_REQUEST]
        there = [name for name in names if name in self._things and self._gone.get(name) != "missing"]
        return as_json(_listing([self._thing(name) for name in there]))

    def _comments(self, call: Call) -> web.Response:
        """A submission and its comments, as two listings. Refused (404) if there is none."""
        self._check_token(call)
        name = f"t3_{call.match['id'].removesuffix('.json')}"
        if name not in self._things:
            raise Refused(self.error(404, None))
        asked = call.query.get("limit", "")
        left = [int(asked) if asked.isdecimal() else COMMENTS_SHOWN]
        return as_json([_listing([self._thing(name)]), _listing(self._tree(name, left))])

    def _tree(self, parent: str, left: list[int]) -> list[Record]:
        """The things below a parent, each with its replies; once `left` (one number, counted down) is used up, a `more`
        that names the others.
        """
        found: list[Record] = []
        children = self._children[parent]
        for place, name in enumerate(children):
            if left[0] <= 0:
                rest = children[place:]
                more = {"count": len(rest), "children": [one[3:] for one in rest], "parent_id": parent}
                return [*found, {"kind": "more", "data": {"id": rest[0][3:], "name": rest[0], **more}}]
            left[0] -= 1
            thing = self._thing(name)
            thing["data"]["replies"] = _listing(below) if (below := self._tree(name, left)) else ""
            found.append(thing)
        return found

    def _more_children(self, call: Call) -> web.Response:
        """The comments of these ids and what is below them, one after another."""
        self._check_token(call)
        names = [f"t1_{own}" for own in call.query.get("children", "").split(",")]
        known = [name for name in names if name in self._things]
        things = [{**thing, "data": {**thing["data"], "replies": ""}} for name in known for thing in self._branch(name)]
        return as_json({"json": {"errors": [], "data": {"things": things}}})

    def _branch(self, name: str) -> list[Record]:
        """A comment and all comments below it, parents first."""
        return [self._thing(name), *(thing for child in self._children[name] for thing in self._branch(child))]

    def _check_token(self, call: Call) -> None:
        """Refused (401) if the call does not carry the token."""
        if call.headers.get("Authorization", "").lower() != f"bearer {TOKEN}":
            raise Refused(as_json({"message": "Unauthorized", "error": 401}, 401))

    def _thing(self, name: str) -> Record:
        """The thing of this full name, as the API shows it now."""
        record = self._things[name]
        later = (record.get("_meta") or {}).get("was_deleted_later")
        state = self._gone.get(name, "deleted" if later else None)
        shown = {field: value for field, value in record.items() if field != "_meta"}
        texts = {field: f"[{state}]" for field in ("body", "selftext") if state and field in record}
        by = {"author": "[deleted]"} if state else {}
        why = {"removed_by_category": "moderator"} if state == "removed" and "title" in record else {}
        return {"kind": name[:2], "data": {**shown, **texts, **by, **why, "name": name}}

    # dumps

    def _dump(self, call: Call) -> web.Response:
        """A dump, packed as the archives pack them. Refused (404) if there is none."""
        name = call.match["name"].removesuffix(".zst")
        if name not in self._dumps:
            raise Refused(self.error(404, None))
        from backports import zstd

        window: dict[int, int] = {zstd.CompressionParameter.window_log: 31, zstd.CompressionParameter.checksum_flag: 1}
        return as_file(zstd.compress(self._dumps[name].read_bytes(), options={**window}), "application/zstd")


def _records(path: Path) -> list[Record]:
    """The records of a dump that are objects with an id; broken lines are no things."""
    found = []
    for line in path.read_bytes().splitlines():
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(record, dict) and isinstance(record.get("id"), str):
            found.append(record)
    return found


def _gone(folder: Path | None) -> dict[str, str]:
    """Full name -> what became of it since the dump, from GONE_FILE in the folder; empty if there is none."""
    file = folder / GONE_FILE if folder else None
    lines = file.read_text().splitlines() if file and file.is_file() else []
    return {name: state for name, _, state in (line.partition("\t") for line in lines if "\t" in line)}


def _full_name(record: Record) -> str:
    """t3_<id> of a submission, t1_<id> of a comment."""
    return f"{'t3' if 'title' in record else 't1'}_{record['id']}"


def _listing(children: list[Record]) -> Record:
    """A listing of these things."""
    return {"kind": "Listing", "data": {"after": None, "before": None, "dist": len(children), "children": children}}
