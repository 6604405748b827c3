"""Reddit's Data API: what became of items that are held already, their scores of today and whether they are gone.

    GET /api/info?id=t3_1afw2c,t1_kod0b1&raw_json=1            up to 100 ids; those that are gone for good are left out
    {"kind": "Listing", "data": {"after": null, "children": [
        {"kind": "t3", "data": {"id": "1afw2c", "score": 12, "removed_by_category": null, ...}},
        {"kind": "t1", "data": {"id": "kod0b1", "body": "[deleted]", "author": "[deleted]", "replies": "", ...}}]}}

A page of comments is a list of two listings, the submission and the comments; `replies` is a listing or ""; a `more`
stands for comments that were left out. With raw_json=1 nothing is escaped. The token of an app is asked for with
HTTP Basic at another host, is good for a day at most, and goes to the API's host only. 100 requests a minute are
granted; X-Ratelimit-Remaining and X-Ratelimit-Reset say what is left.
"""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from longform import __version__
from longform.errors import HttpError, SourceError, UsageError
from longform.net.http import Http, Login
from tasks.sources.permalinks import record_of
from tasks.sources.reddit.dumps import BY_AUTHOR, GROUP, Record, bare_id, gone, ratio, votes

API = "https://oauth.reddit.com"
TOKEN_URL = "https://www.reddit.com/api/v1/access_token"
IDS_A_REQUEST = 100
REQUESTS_A_MINUTE = 100

_KINDS = {"t1": "t1_", "t3": "t3_"}
_FULLNAME = re.compile(r"reddit/(t[13]_[0-9a-z]{1,12})")


# ---------------------------------------------------------------- documents


def fullname(text: str) -> str | None:
    """t3_<id> or t1_<id> of "reddit/t1_x", "t1_x" or a permalink; None for anything else."""
    try:
        match = _FULLNAME.fullmatch(record_of(text))
    except UsageError:
        return None
    return match[1] if match else None


def things(document: Any) -> Iterator[tuple[str, Record]]:
    """(kind, data) of all that a listing, a page of comments or one thing holds, a comment before its replies.

    Kinds are t1 (comment), t3 (submission), more and others; what has no such form is passed over.
    """
    waiting = [document]
    while waiting:
        thing = waiting.pop()
        if isinstance(thing, list):
            waiting += reversed(thing)
        elif isinstance(thing, dict) and isinstance(thing.get("data"), dict):
            kind, data = thing.get("kind"), thing["data"]
            if kind == "Listing":
                waiting.append(data.get("children"))
            elif isinstance(kind, str):
                yield kind, data
                waiting.append(data.get("replies"))


def state_of(kind: str, data: Record, checked_at: str) -> Record | None:
    """What became of an item, without its text and author; None for what is neither comment nor submission.

    {"id": "reddit/t1_x", "state": "present", "votes": 12, "upvote_ratio": null, "num_comments": null,
     "author_deleted": false, "checked_at": "2026-11-21T10:00:00+00:00"}
    """
    own = bare_id(data.get("id"), _KINDS[kind]) if kind in _KINDS else None
    if own is None:
        return None
    reason = gone(data)
    state = "present" if reason is None else "deleted" if reason[0] == BY_AUTHOR else "removed"
    return {
        "id": f"{GROUP}/{_KINDS[kind]}{own}",
        "state": state,
        "votes": votes(data.get("score")) if state == "present" else None,
        "upvote_ratio": ratio(data.get("upvote_ratio")),
        "num_comments": votes(data.get("num_comments")) if kind == "t3" else None,
        "author_deleted": data.get("author") == "[deleted]",
        "checked_at": checked_at,
    }


def missing(name: str, checked_at: str) -> Record:
    """The state of an item that Reddit no longer knows, or shows to nobody: of a closed or private subreddit."""
    unknown = dict.fromkeys(("votes", "upvote_ratio", "num_comments"))
    return {"id": f"{GROUP}/{name}", "state": "missing", **unknown, "author_deleted": False, "checked_at": checked_at}


# ---------------------------------------------------------------- requests


class RedditApi:
    """The API under one app's token, which is asked for when first needed and when it has expired."""

    def __init__(
        self,
        http: Http,
        client: tuple[str, str],
        *,
        base_url: str = API,
        token_url: str = TOKEN_URL,
        account: str | None = None,
        requests_a_minute: int = REQUESTS_A_MINUTE,
    ) -> None:
        self.http, self.client, self.base_url, self.token_url = http, client, base_url.rstrip("/"), token_url
        self.headers = {"User-Agent": f"{sys.platform}:longform:{__version__} (by /u/{account})"} if account else {}
        self.login = Login(self._log_in)
        http.keep_rate(self.base_url, requests_a_minute / 60)

    def info(self, names: Sequence[str]) -> Any:
        """The listing of up to 100 items."""
        return self.get("/api/info", {"id": ",".join(names), "raw_json": 1})

    def states(self, names: Sequence[str], checked_at: str) -> list[Record]:
        """The state of each of up to 100 items, in their order."""
        listing = self.info(names)
        if not (isinstance(listing, dict) and listing.get("kind") == "Listing"):
            raise SourceError(f"{self.base_url}/api/info answers no listing: is it the address of Reddit's Data API?")
        found = [state for kind, data in things(listing) if (state := state_of(kind, data, checked_at))]
        known = {state["id"]: state for state in found}
        return [known.get(f"{GROUP}/{name}") or missing(name, checked_at) for name in names]

    def get(self, path: str, params: Mapping[str, str | int]) -> Any:
        """The document at `path`."""
        url = f"{self.base_url}{path}"
        return self.login.use(
            lambda token: self.http.get(url, params=params, credentials=token, headers=self.headers).json()
        )

    def _log_in(self) -> dict[str, str]:
        basic = base64.b64encode(":".join(self.client).encode()).decode()
        try:
            reply = self.http.post(
                self.token_url,
                data={"grant_type": "client_credentials"},
                credentials={"Authorization": f"Basic {basic}"},
                headers=self.headers,
            )
        except HttpError as error:
            raise HttpError(
                f"Reddit refused the app of REDDIT_CLIENT_ID with status {error.status}: check it and its secret at "
                "https://www.reddit.com/prefs/apps.",
                status=error.status,
            ) from None
        document = reply.json()
        token = document.get("access_token") if isinstance(document, dict) else None
        if not (isinstance(token, str) and token.isascii() and token.isprintable()):
            raise SourceError(f"{self.token_url} gave no token: check REDDIT_CLIENT_ID and the address.")
        return {"Authorization": f"bearer {token}"}
