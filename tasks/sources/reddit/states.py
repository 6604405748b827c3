"""The present state of Reddit's posts and comments: asked of its Data API, kept in a file, applied to threads.

What a dump itself shows as deleted is left out by `gone` in dumps.py beside it.

    GET /api/info?id=t3_1afw2c,t1_kod0b1&raw_json=1            up to 100 ids; those that are gone for good are left out
    {"kind": "Listing", "data": {"after": null, "children": [
        {"kind": "t3", "data": {"id": "1afw2c", "score": 12, "removed_by_category": null, ...}},
        {"kind": "t1", "data": {"id": "kod0b1", "body": "[deleted]", "author": "[deleted]", "replies": "", ...}}]}}

A page of comments is a list of two listings, the submission and the comments; `replies` is a listing or ""; a `more`
stands for comments that were left out. With raw_json=1 nothing is escaped. The token of an app is asked for with
HTTP Basic at another host, is good for a day at most, and goes to the API's host only. 100 requests a minute are
granted; X-Ratelimit-Remaining and X-Ratelimit-Reset say what is left.

The file has a line for each item:

    {"id": "reddit/t1_x", "state": "present", "votes": 12, ..., "checked_at": "2026-11-21T10:00:00+00:00"}

`state` is present, deleted (by the author), removed (by moderators or Reddit) or missing (Reddit does not show it:
gone for good, or its subreddit is private or banned).
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from longform import __version__
from longform.artifacts.rows import Rejected, Row, Rows
from longform.engine.stage import StageContext, stage
from longform.errors import HttpError, SourceError, UsageError
from longform.files import unwritable, write_bytes
from longform.net.download import Progress
from longform.net.http import Http, Login
from schemas.sources.reddit import REDDIT_THREADS
from tasks.sources.permalinks import record_of
from tasks.sources.reddit.dumps import BY_AUTHOR, GROUP, Record, bare_id, gone, ratio, votes

API = "https://oauth.reddit.com"
TOKEN_URL = "https://www.reddit.com/api/v1/access_token"
IDS_A_REQUEST = 100
REQUESTS_A_MINUTE = 100
STATES = ("present", "deleted", "removed", "missing")
REASONS = {"deleted": "deleted on Reddit", "removed": "removed on Reddit", "missing": "no longer on Reddit"}

_KINDS = {"t1": "t1_", "t3": "t3_"}
_FULLNAME = re.compile(r"reddit/(t[13]_[0-9a-z]{1,12})")
_EVER = datetime.min.replace(tzinfo=UTC)
_ID_FIELDS = ("id", "post_id", "question_id", "answer_id", "name")

Ask = Callable[[list[str], str], list[Record]]
Clock = Callable[[], datetime]


# ---------------------------------------------------------------- documents


def fullname(text: str) -> str | None:
    """The full name (t3_<id> of a submission, t1_<id> of a comment) from "reddit/t1_x", "t1_x" or a permalink; None for
    any other text.
    """
    try:
        match = _FULLNAME.fullmatch(record_of(text))
    except UsageError:
        return None
    return match[1] if match else None


def things(document: Any) -> Iterator[tuple[str, Record]]:
    """(kind, data) of each item in a reply of Reddit's API, which may be a listing, a list of listings or a single
    item, in the reply's order; a comment comes before the replies inside it.

    Kinds are t1 (comment), t3 (submission), more (for comments left out) and others; anything of another form is
    skipped.
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
    """The state of an item, from its kind and data in the API's reply, without text and author; None if it is neither
    comment nor submission, or has no valid id. `checked_at`: ISO 8601. The votes of what is gone are null.

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


# ---------------------------------------------------------------- requests


class RedditApi:
    """Reddit's Data API (`states` of items, `get` for any path), with the token of an app, which is requested at first
    use and again when it has expired.
    `client`: (the app's id, its secret); `account`: the Reddit user named to the API in the header User-Agent. Sets the
    rate of requests to the API's host on `http`.
    """

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

    def states(self, names: Sequence[str], checked_at: str) -> list[Record]:
        """The state (in the form that `state_of` gives) of each item in `names`, up to IDS_A_REQUEST full names, in
        their order, by one request. An item that Reddit does not return is `missing`. SourceError if the reply is no
        listing, HttpError if the API refuses. `checked_at`: ISO 8601.
        """
        listing = self.get("/api/info", {"id": ",".join(names), "raw_json": 1})
        data = listing.get("data") if isinstance(listing, dict) and listing.get("kind") == "Listing" else None
        if not (isinstance(data, dict) and isinstance(data.get("children"), list)):  # else all would be missing
            raise SourceError(f"{self.base_url}/api/info answers no listing: is it the address of Reddit's Data API?")
        found = [state for kind, data in things(listing) if (state := state_of(kind, data, checked_at))]
        known = {state["id"]: state for state in found}
        missing = {  # what Reddit no longer knows, or shows to nobody: of a closed or private subreddit
            "state": "missing",
            **dict.fromkeys(("votes", "upvote_ratio", "num_comments")),
            "author_deleted": False,
            "checked_at": checked_at,
        }
        return [known.get(f"{GROUP}/{name}") or {"id": f"{GROUP}/{name}", **missing} for name in names]

    def get(self, path: str, params: Mapping[str, str | int]) -> Any:
        """The JSON value at `path`, below the API's address, with the app's token. HttpError if the API refuses."""
        url = f"{self.base_url}{path}"
        return self.login.use(
            lambda token: self.http.get(url, params=params, credentials=token, headers=self.headers).json()
        )

    def _log_in(self) -> dict[str, str]:
        """The Authorization header with a new token. HttpError if Reddit refuses the app, SourceError if the reply has
        no token.
        """
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


# ---------------------------------------------------------------- which items


def fullnames_in(what: Iterable[str]) -> list[str]:
    """The full names (t1_x, t3_x), each once, in order, of ids, permalinks, and files of ids. UsageError for any other
    text, for a line of a file that holds no id (blank lines are skipped), and for a Parquet file without a column of
    ids; in that column other values are skipped.

    A file is Parquet (of posts, or of threads with their answers), JSON lines with an id, or text with an id a line.
    """
    return list(dict.fromkeys(name for text in what for name in _names(text)))


def _names(text: str) -> Iterator[str]:
    """The full names that one text means: an id, a permalink, or the name of a file of ids (Parquet if it ends in
    .parquet, else lines). UsageError if it is none of these, or a line of the file, if not blank, holds no id.
    """
    path = Path(text)
    if name := fullname(text):
        yield name
    elif not path.is_file():
        raise UsageError(f'"{text}" is neither an id of Reddit, such as reddit/t1_kod0b1, nor a file of them.')
    elif path.suffix == ".parquet":
        yield from _in_parquet(path)
    else:
        with path.open("rb") as file:
            lines = ((number, line.decode(errors="replace").strip()) for number, line in enumerate(file, 1))
            yield from (_in_line(line, f"{path}, line {number}") for number, line in lines if line)


def _in_line(text: str, place: str) -> str:
    """The full name in a line of a file: the line is an id or permalink, or a JSON object with one in the first of
    _ID_FIELDS that is a text. UsageError, which names `place`, if there is none.
    """
    fields = _record_of(text) or {}
    name = next((fields[field] for field in _ID_FIELDS if isinstance(fields.get(field), str)), text)
    if found := fullname(name):
        return found
    raise UsageError(f"{place}, holds no id of Reddit: write one a line, such as reddit/t1_kod0b1.")


def _in_parquet(path: Path) -> Iterator[str]:
    """The full names in the first of the columns _ID_FIELDS that a Parquet file has, each followed by those of the
    row's answers; values that are no id of Reddit are skipped. UsageError if the file has no such column; SourceError
    if it is no Parquet file.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            column = next((name for name in _ID_FIELDS if name in names), None)
            if column is None:
                raise UsageError(f"{path} has none of the columns {', '.join(_ID_FIELDS)}: give posts or threads.")
            for batch in file.iter_batches(columns=[column, *(["answers"] if "answers" in names else [])]):
                for row in batch.to_pylist():
                    ids = [row[column], *(answer["answer_id"] for answer in row.get("answers") or ())]
                    yield from (name for own in ids if (name := fullname(str(own))))
    except pa.ArrowInvalid as error:
        raise SourceError(f"{path} is no Parquet file ({error}): give another.") from error


def _record_of(text: str | bytes) -> Record | None:
    """The JSON object that the text is; None if it is none."""
    try:
        record = json.loads(text)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


# ---------------------------------------------------------------- asking


def refresh_states(
    ask: Ask, names: Collection[str], place: Path, *, max_age: timedelta, now: Clock, progress: Progress
) -> Path:
    """Bring the file of states at `place` up to date, so that each of `names` (full names) has a state no older than
    `max_age`; return `place`.

    Only states that are missing or older are asked for, with `ask(names, time)`, IDS_A_REQUEST at once. These are on
    the disk (in <name>.partial) before the next are asked for: an interrupted check continues there. States of other
    items are kept. StoreError if the files cannot be written; errors of `ask` are passed on.
    """
    partial = place.with_name(f"{place.name}.partial")
    known = _carried_over(place, partial, {f"{GROUP}/{name}" for name in names}, now() - max_age)
    progress.begin(place.name, len(names), sum(f"{GROUP}/{name}" in known for name in names))
    open_names = (name for name in names if f"{GROUP}/{name}" not in known)
    try:
        with partial.open("ab") as file:
            while batch := list(islice(open_names, IDS_A_REQUEST)):
                states = ask(batch, now().isoformat(timespec="seconds"))
                file.write(b"".join(json.dumps(state).encode() + b"\n" for state in states))
                file.flush()
                os.fsync(file.fileno())
                progress.advance(place.name, len(batch))
        partial.replace(place)
    except OSError as error:
        raise unwritable(place, error) from None
    return place


def _carried_over(place: Path, partial: Path, wanted: set[str], oldest: datetime) -> set[str]:
    """Write to `partial` the states in the files `place` and `partial` that need not be asked for again: the last one
    of each id, unless the id is in `wanted` and the state was checked before `oldest`. Return the ids of those written.
    """
    kept: dict[str, bytes] = {}
    for line in (*_whole_lines(place), *_whole_lines(partial)):
        state = _record_of(line)
        if state and isinstance(state.get("id"), str):
            kept.pop(state["id"], None)
            if state["id"] not in wanted or _is_fresh(state, oldest):
                kept[state["id"]] = line
    write_bytes(partial, b"".join(line + b"\n" for line in kept.values()))
    return set(kept)


def _whole_lines(path: Path) -> list[bytes]:
    """The lines of a file, without their line feeds, and without a last one that has none, as a killed process leaves
    it; empty if there is no file.
    """
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def _is_fresh(state: Record, oldest: datetime) -> bool:
    """Whether the state was checked at `oldest` or later, in UTC if it names no zone; False if its time is missing or
    ill-formed.
    """
    try:
        checked = datetime.fromisoformat(state["checked_at"])
    except (KeyError, TypeError, ValueError):
        return False
    return checked.replace(tzinfo=checked.tzinfo or UTC) >= oldest


def write_takedowns(states: Path, place: Path, *, also_missing: bool) -> int:
    """Write to `place` a file for `longform takedowns add --file` with the items that the file `states` says are
    deleted or removed, and with `also_missing` those that are missing; return how many lines it has. Lines that are no
    state are ignored. A line:

    {"id": "reddit/t1_x", "reason": "deleted on Reddit", "date": "2026-11-21"}
    """
    gone = REASONS.keys() - (() if also_missing else ("missing",))
    found = [
        {"id": state["id"], "reason": REASONS[state["state"]], "date": state["checked_at"][:10]}
        for line in _whole_lines(states)
        if (state := _record_of(line))
        and _is_fresh(state, _EVER)
        and isinstance(state.get("id"), str)
        and isinstance(state.get("state"), str)
        and state["state"] in gone
    ]
    write_bytes(place, b"".join(json.dumps(line).encode() + b"\n" for line in found))
    return len(found)


# ---------------------------------------------------------------- using


class States:
    """A file of states as an argument of a stage, identified in its recipe by the hash of its content; `by_id` reads
    it. UsageError if there is no such file. `digest`: the SHA-256 of a file.
    """

    def __init__(self, path: Path, digest: Callable[[Path], str]) -> None:
        if not path.is_file():
            raise UsageError(f"{path} does not exist: make it with `longform fetch reddit`, or leave states unset.")
        self.path, self.sha256 = path, digest(path)

    def identity(self) -> dict[str, str]:
        """What identifies the file in a recipe: the SHA-256 of its content."""
        return {"sha256": self.sha256}

    def by_id(self) -> dict[str, Record]:
        """Item id (reddit/t1_x) -> its last state in the file. SourceError for a line that is no state."""
        found = {}
        for number, line in enumerate(_whole_lines(self.path), 1):
            state = _record_of(line)
            if state is None or not (
                state.get("state") in STATES and isinstance(state.get("id"), str) and _is_fresh(state, _EVER)
            ):
                raise SourceError(f"{self.path}, line {number}, is no state of an item: check the items again.")
            found[state["id"]] = state
        return found


@stage(REDDIT_THREADS, revision=1)
def refresh_threads(context: StageContext, threads: Rows, *, states: States) -> Iterator[Row | Rejected]:
    """Threads with the scores that Reddit showed when the states were read, in the same order; answers by their new
    votes, most first. A Rejected for a thread whose submission was gone by then; answers that were gone are left out
    and counted.

    Items without a state stay as they are. SourceError if the file of states has a line that is no state.
    """
    known = states.by_id()
    for thread in threads:
        state = known.get(thread["question_id"], {})
        if state.get("state", "present") != "present":
            yield Rejected(thread["question_id"], "filtered", REASONS[state["state"]])
            continue
        answers = [(answer, known.get(answer["answer_id"], {})) for answer in thread["answers"]]
        here = [refreshed(answer, own) for answer, own in answers if own.get("state", "present") == "present"]
        context.count("answers gone from Reddit", len(answers) - len(here))
        context.count("refreshed", bool(state) + sum(bool(own) for _, own in answers))
        # as threads are joined: most votes first, unknown last, then by id, which counts in base 36
        here.sort(key=lambda one: (one["votes"] is None, -(one["votes"] or 0), len(one["answer_id"]), one["answer_id"]))
        yield {**refreshed(thread, state), "answers": here}


def refreshed(row: Row, state: Record) -> Row:
    """A copy of the row with votes, upvote ratio and number of comments from its state, as far as the row has such
    columns and the state knows them; with new votes also `seen_at` and `score_age_s`. A deleted account loses its
    pseudonym. The row itself if the state is empty.
    """
    if not state:
        return row
    seen = datetime.fromisoformat(state["checked_at"]).astimezone(UTC)
    newer: dict[str, Any] = {name: state.get(name) for name in ("votes", "upvote_ratio", "num_comments") if name in row}
    newer = {name: value for name, value in newer.items() if value is not None}
    if "votes" in newer:
        newer |= {"seen_at": seen, "score_age_s": int((seen - row["created"]).total_seconds())}
    gone = {"author_id": None, "author_deleted": True} if state.get("author_deleted") else {}
    return {**row, **newer, **gone}
