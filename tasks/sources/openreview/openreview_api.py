"""OpenReview's two APIs: all submissions of a conference's year, as JSON lines, page after page.

    GET <api>/notes?invitation=ICLR.cc/2021/Conference/-/Blind_Submission&sort=id&limit=1000[&after=<last id>]
        {"notes": [{...}, ...], "count": 2594}

Years to 2023 are on API v1 under Blind_Submission, later ones on API v2 under Submission; some were moved, so the
other API is tried where the first has nothing. Of API v1, withdrawn and desk-rejected submissions have invitations of
their own; of API v2, venueids. Pages go on after the last id, as offsets move while notes are added; a server that
does not know `after` is paged by offset. A page may be shorter than asked for: only an empty one is the last. A program
without a login may get an HTML page with status 200. When the rate limit is reached, the body says when it ends:

    429 {"name": "RateLimitError", "details": {"limit": 36, "resetTime": "2026-08-31T08:59:25.212Z"}}
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import orjson

from longform.errors import HttpError, SourceError, UsageError
from longform.files import remove, sha256_of, write_json
from longform.net.download import Downloader, Progress, note_fetch, side_file
from longform.net.http import Login, Reply
from longform.settings import openreview_login
from tasks.sources.files.inputs import read_notes
from tasks.sources.openreview.submissions import REPLIES

API_V1 = "https://api.openreview.net"
API_V2 = "https://api2.openreview.net"
FIRST_YEAR = 2018
LAST_YEAR_OF_V1 = 2023
YEARS_DECIDED_IN_REPLIES = (2019, 2020, 2021)
PAGE = 1_000
T = TypeVar("T")
NOT_THERE = (400, 404)
REFUSED = (401, 403)


def limit_reset(reply: Reply) -> float | None:
    """Seconds to wait until OpenReview's rate limit ends, and one second more, from the body of a 429 reply; None if
    the body does not say when it ends.
    """
    try:
        when = datetime.fromisoformat(orjson.loads(reply.content)["details"]["resetTime"])
    except (ValueError, KeyError, TypeError):
        return None
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds()) + 1


# ---------------------------------------------------------------- one API


@dataclass
class Api:
    """One of OpenReview's two APIs (`version`: 1 or 2), with a login of its own: a token is never sent to the other
    API's host.
    """

    http: Downloader
    base_url: str
    version: int

    def __post_init__(self) -> None:
        self.login = Login(self._credentials)

    def notes(self, params: Mapping[str, str | int]) -> list[dict[str, Any]]:
        """The notes that one request with these parameters returns, as JSON objects that have an id. SourceError if the
        reply is no list of notes, or the login gives no token; HttpError if the API refuses (of 401 and 403 it says
        what to do).
        """
        url = f"{self.base_url}/notes"
        reply = self.asked(lambda token: self._page(url, params, token))
        found = reply.get("notes") if isinstance(reply, dict) else None
        if not isinstance(found, list) or not all(isinstance(n, dict) and isinstance(n.get("id"), str) for n in found):
            raise SourceError(f"{url} answers no list of notes: is {self.base_url} OpenReview's API v{self.version}?")
        return found

    def asked(self, ask: Callable[[dict[str, str] | None], T]) -> T:
        """What `ask` returns for this API's login headers (None without an account); if it raises HttpError 401 despite
        a login, it is called once more with new headers. An HttpError 401 or 403 says what to do; other errors of
        `ask` are passed on. SourceError if the login gives no token.
        """
        try:
            return self.login.use(ask)
        except HttpError as error:
            if error.status not in REFUSED:
                raise
            own = self.login.credentials is not None
            advice = "your account may not read this" if own else "set OPENREVIEW_USERNAME and OPENREVIEW_PASSWORD"
            problem = f"{self.base_url} refuses what was asked for ({error.status}): {advice}."
            raise HttpError(problem, status=error.status, body=error.body) from error

    def _credentials(self) -> dict[str, str] | None:
        """The Authorization header with a new token; None if the user has set no account. SourceError if the API gives
        no token.
        """
        login = openreview_login()
        return {"Authorization": f"Bearer {self._log_in(*login)}"} if login else None

    def _page(self, url: str, params: Mapping[str, str | int], credentials: dict[str, str] | None) -> Any:
        """The reply to a GET of `url`, as a JSON value. SourceError if it is an HTML page, or no JSON."""
        reply = self.http.get(url, params=params, credentials=credentials, retry_after=limit_reset)
        if reply.content.lstrip()[:1] == b"<":
            raise SourceError(
                f"{url} answers with a page for browsers, not with notes, as OpenReview does to programs without a "
                "login: set OPENREVIEW_USERNAME and OPENREVIEW_PASSWORD."
            )
        return reply.json()

    def _log_in(self, name: str, password: str) -> str:
        """A new token for the account with this name and password. SourceError if the API gives none."""
        url = f"{self.base_url}/login"
        try:
            reply = self.http.post(url, json={"id": name, "password": password}, retry_after=limit_reset).json()
        except HttpError as error:
            raise self._no_login(error.body.decode("utf-8", "replace"), error.status) from None
        token = reply.get("token") if isinstance(reply, dict) else None
        if not isinstance(token, str) or not token:
            raise self._no_login(json.dumps(reply), 200)
        return token

    def _no_login(self, text: str, status: int) -> SourceError:
        """The error to raise for a login that gave no token. `text`: the body of the reply, which may ask for a second
        factor.
        """
        if "mfa" in text.lower() or "multi-factor" in text.lower():
            return SourceError(
                f"The account of OPENREVIEW_USERNAME at {self.base_url} asks for a second factor, which a program "
                "cannot give: use an account without one, or unset OPENREVIEW_USERNAME."
            )
        return SourceError(
            f"{self.base_url} gives no token for OPENREVIEW_USERNAME (status {status}): check it and "
            "OPENREVIEW_PASSWORD."
        )


# ---------------------------------------------------------------- a year


@dataclass(frozen=True, slots=True)
class Query:
    """A query for notes. `version`: of the API to ask; `params`: (name, value) of its parameters; `page`: how many
    notes to ask for at once; `at_most`: how many to fetch (None: all).
    """

    version: int
    params: tuple[tuple[str, str], ...]
    page: int = PAGE
    at_most: int | None = None

    def facts(self) -> dict[str, str]:
        """What is recorded of the query beside the file with its answer: the API's version, the parameters and
        `at_most`, not the page size. Two queries with the same facts have the same answer.
        """
        return {"api": f"v{self.version}", **dict(self.params), "at_most": str(self.at_most or "all")}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to fetch of a conference's year: submissions, at most `at_most` for each query (None: all); with `ratings`,
    the direct replies to them too, on pages of `replies_page` submissions. `venue`: such as ICLR.cc. `refresh`: also
    what was fetched before.
    """

    venue: str
    year: int
    ratings: bool
    replies_page: int
    at_most: int | None
    refresh: bool = False

    @property
    def conference(self) -> str:
        """OpenReview's name of the conference of this year, such as ICLR.cc/2021/Conference."""
        return f"{self.venue}/{self.year}/Conference"

    def query(self, version: int, name: str, value: str, *, replies: bool) -> Query:
        """The query of API `version` for notes with the parameter `name` at this value; with `replies`, each note
        carries its direct replies, and pages have `replies_page` notes.
        """
        details = (("details", "directReplies"),) if replies else ()
        page = self.replies_page if replies else PAGE
        return Query(version, ((name, value), *details), page, self.at_most)


def submissions_queries(wanted: Wanted) -> list[Query]:
    """The queries that may find the year's submissions, the likeliest first: API and invitation differ by year. Replies
    come along if ratings are wanted, or if the year's decisions are in them (YEARS_DECIDED_IN_REPLIES).
    """
    replies = wanted.ratings or wanted.year in YEARS_DECIDED_IN_REPLIES
    of_v1 = [(1, "Blind_Submission"), (2, "Submission"), (1, "Submission")]
    places = of_v1 if wanted.year <= LAST_YEAR_OF_V1 else [(2, "Submission"), (1, "Blind_Submission")]
    return [
        wanted.query(version, "invitation", f"{wanted.conference}/-/{name}", replies=replies)
        for version, name in places
    ]


def other_queries(wanted: Wanted, version: int) -> dict[str, Query]:
    """File name -> query for what else belongs to the year: withdrawn and desk-rejected submissions, and for 2018 the
    decisions, if it is on API v1. `version`: of the API that has the year's submissions.
    """
    name, pattern = ("invitation", "{}/-/{}") if version == 1 else ("content.venueid", "{}/{}")
    kinds = {"withdrawn": "Withdrawn_Submission", "desk_rejected": "Desk_Rejected_Submission"}
    queries = {
        f"{wanted.year}-{kind}.jsonl": wanted.query(
            version, name, pattern.format(wanted.conference, last), replies=False
        )
        for kind, last in kinds.items()
    }
    if version == 1 and wanted.year == 2018:
        decisions = Query(1, (("invitation", f"{wanted.conference}/-/Acceptance_Decision"),))
        queries[f"{wanted.year}-decisions{REPLIES}"] = decisions
    return queries


def fetch_year(apis: Mapping[int, Api], wanted: Wanted, folder: Path, progress: Progress) -> list[Path]:
    """Fetch the year's files of notes (JSON lines) into `folder`, and return those that exist: submissions, withdrawn
    and desk-rejected ones (without those among the submissions), and 2018's decisions. Complete files are not fetched
    again, unless `wanted` says so; a query without notes leaves no file. `apis`: version -> API. HttpError if an API
    refuses, SourceError if none has the year.
    """
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{wanted.year}-submissions.jsonl"
    query = query_answered_by(place, submissions_queries(wanted)) or probe(apis, wanted)
    others = {folder / name: other for name, other in other_queries(wanted, query.version).items()}
    if wanted.refresh:
        for file, own in {place: query, **others}.items():
            if is_whole(file, own):
                remove(side_file(file))
    fetch_listing(apis[query.version], query, place, progress)
    known = frozenset(ids_of(place))
    for file, other in others.items():
        fetch_listing(apis[other.version], other, file, progress, leave_out=known)
    return [file for file in (place, *others) if file.exists()]


def probe(apis: Mapping[int, Api], wanted: Wanted) -> Query:
    """The first of the queries for the year's submissions that finds a note, asked one after another. If none does:
    the last HttpError by which an API refused (401 or 403), else SourceError. An HttpError with another status than
    these, 400 and 404 is passed on at once. `apis`: version -> API.
    """
    refused: HttpError | None = None
    for query in submissions_queries(wanted):
        try:
            if apis[query.version].notes({**dict(query.params[:1]), "limit": 1, "sort": "id"}):
                return query
        except HttpError as error:
            if error.status not in (*NOT_THERE, *REFUSED):
                raise
            refused = error if error.status in REFUSED else refused
    raise refused or SourceError(
        f"Neither API of OpenReview holds submissions of {wanted.conference}: check the year, and the setting venue."
    )


# ---------------------------------------------------------------- one listing, one file


def query_answered_by(place: Path, queries: list[Query]) -> Query | None:
    """The first of `queries` whose complete answer is in the file `place`; None if there is none."""
    return next((query for query in queries if is_whole(place, query)), None)


def is_whole(place: Path, query: Query) -> bool:
    """Whether the file `place` is the complete answer to this query: <name>.fetch.json beside it records the query and
    the file's size. An empty answer has no file, only this record.
    """
    notes = read_notes(side_file(place))
    return bool(
        notes.get("facts") == query.facts() and notes.get("bytes") == (place.stat().st_size if place.exists() else 0)
    )


def fetch_listing(
    api: Api, query: Query, place: Path, progress: Progress, *, leave_out: frozenset[str] = frozenset()
) -> None:
    """Write the notes that a query finds to the file `place`, one a line as JSON, without those whose id is in
    `leave_out`; no file if there are none. Continues an interrupted attempt; does nothing if the file is complete.
    """
    if is_whole(place, query):
        return
    part, seen = _resumed(place, query)
    progress.begin(place.name, None, part.stat().st_size)
    try:
        with part.open("ab") as file:
            for notes in pages(api, query, seen):
                lines = b"".join(json.dumps(note).encode() + b"\n" for note in notes if note["id"] not in leave_out)
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
                progress.advance(place.name, len(lines))
        _finish(api, query, part, place)
    finally:
        progress.end(place.name)


def pages(api: Api, query: Query, seen: list[str]) -> Iterator[list[dict[str, Any]]]:
    """The notes that the query finds, page after page, one request each, up to `query.at_most` in all. `seen`: the ids
    of notes fetched before, in order; these count, but are not yielded. An empty page ends the listing. If a page after
    the last id has notes, but no new ones, as from a server that does not know `after`, offsets are used from there on.
    """
    known, by_offset = dict.fromkeys(seen), False
    while query.at_most is None or len(known) < query.at_most:
        limit = query.page if query.at_most is None else min(query.page, query.at_most - len(known))
        params: dict[str, str | int] = {**dict(query.params), "limit": limit, "sort": "id"}
        if known:
            params |= {"offset": len(known)} if by_offset else {"after": next(reversed(known))}
        notes = _page(api, params)
        if new := [note for note in notes if note["id"] not in known][:limit]:
            yield new
            known |= dict.fromkeys(note["id"] for note in new)
        elif by_offset or not notes:
            return
        else:
            by_offset = True


def _page(api: Api, params: Mapping[str, str | int]) -> list[dict[str, Any]]:
    """One page of notes; empty if the API answers the request for a first page with 400 or 404, as it does for an
    invitation that does not exist.
    """
    try:
        return api.notes(params)
    except HttpError as error:
        if error.status in NOT_THERE and "after" not in params and "offset" not in params:
            return []
        raise


def ids_of(file: Path) -> list[str]:
    """The ids of the notes in a JSONL file, in its order; empty if there is no file."""
    if not file.exists():
        return []
    with file.open("rb") as lines:
        return [orjson.loads(line)["id"] for line in lines]


def _resumed(place: Path, query: Query) -> tuple[Path, list[str]]:
    """(<name>.part beside `place`, the ids of the notes in it): the file in which an interrupted attempt is continued,
    made if there is none. A last line that is cut short is removed from it; a file of another query starts anew.
    """
    part, of = place.with_name(place.name + ".part"), place.with_name(place.name + ".part.json")
    if read_notes(of) != query.facts():
        remove(part)
        write_json(of, query.facts())
    with part.open("ab+") as stream:
        stream.seek(0)
        torn = next((line for line in stream if not line.endswith(b"\n")), b"")
        stream.truncate(stream.tell() - len(torn))
    return part, ids_of(part)


def _finish(api: Api, query: Query, part: Path, place: Path) -> None:
    """Make the file `part` the finished file `place`, or remove it if it is empty. The record of the query beside it
    (<name>.fetch.json) is written first: it counts only for a file of the size it states.
    """
    size = part.stat().st_size
    note_fetch(place, f"{api.base_url}/notes", size, {"sha256": sha256_of(part)}, query.facts())
    part.replace(place)
    if not size:
        remove(place)
    remove(place.with_name(place.name + ".part.json"))


def years(what: list[str]) -> list[int]:
    """The years that texts such as `2019` and `2018-2021` name, each once, sorted. UsageError for any other text, for a
    year before FIRST_YEAR, and if no year is named; `2021-2018` names none.
    """
    found: set[int] = set()
    for words in what:
        if not re.fullmatch(r"[0-9]{4}(-[0-9]{4})?", words):
            raise UsageError(f'"{words}" is no year: write 2024, or 2018-2021.')
        found |= set(range(int(words[:4]), int(words[-4:]) + 1))
    if not found or min(found) < FIRST_YEAR:
        raise UsageError(f"Give the years to fetch, from {FIRST_YEAR} on, e.g. 2024 or 2018-2021.")
    return sorted(found)
