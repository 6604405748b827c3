"""HTTP for everything that is fetched: an unmistakable User-Agent, bounded retries, polite rates, whole files."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urljoin

import requests

from longform import __version__
from longform.errors import HttpError, Incomplete, SourceError, UsageError
from longform.net import wire
from longform.net.wire import Dropped, origin, shown
from longform.settings import contact as contact_of

REDIRECTS = 5
MOVED = (301, 302, 303, 307, 308)
PASSING = (408, 425, 429)
LONGEST_BACKOFF_SECONDS = 60.0
LONGEST_WAIT_SECONDS = 10 * 366 * 86_400.0
ERROR_BYTES = 1 << 16
SECRET_HEADERS = ("authorization", "cookie", "proxy-authorization", "x-api-key")


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply with a status below 400."""

    url: str
    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        """The document; SourceError where the content is none."""
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError):
            start = self.content[:40].decode("utf-8", "replace")
            raise SourceError(f"{shown(self.url)} answers no JSON, but {start!r}: is it the right address?") from None


Wait = Callable[[requests.Response], float | None]


@dataclass(frozen=True, slots=True)
class Call:
    """One request, redirects included."""

    method: str
    url: str
    params: Mapping[str, str | int] | None = None
    credentials: Mapping[str, str] | None = None
    headers: Mapping[str, str] | None = None
    data: Mapping[str, str] | bytes | None = None
    check: Callable[[str], None] | None = None

    def moved(self, status: int, location: str) -> Call:
        """The request after a redirect: credentials and secret headers stay with the host they were given for."""
        url, there = _target(self.url, location)
        moved = replace(self, url=url, params=None)
        if there != origin(self.url):
            secret = self.credentials or any(name.lower() in SECRET_HEADERS for name in self.headers or ())
            if secret and origin(self.url)[0] == "https" and there[0] == "http":
                raise SourceError(f"{shown(self.url)} redirects to plain http, {shown(url)}: that is not followed.")
            kept = {name: value for name, value in (self.headers or {}).items() if name.lower() not in SECRET_HEADERS}
            moved = replace(moved, credentials=None, headers=kept)
        if self.method == "POST" and status in (301, 302, 303):
            return replace(moved, method="GET", data=None)
        if self.data is not None and there != origin(self.url):
            raise SourceError(f"{shown(self.url)} redirects what was posted to another host: that is not followed.")
        return moved


class Http:
    """One polite client: what a fetch, an API reader or a web search sends goes through one of these.

    `per_second` bounds requests to one host. `credentials` of a call are headers for the host that the call names:
    they are never sent to another, also when redirected. `check` sees every address before it is asked, also those
    that a server redirects to, and raises to refuse. `retry_after` reads from a 429 or 503 how many seconds the
    server wants to wait, where the Retry-After header does not say. Threads may share it.
    """

    def __init__(
        self,
        *,
        contact: str | None = None,
        tries: int = 6,
        patience_seconds: float = 300,
        per_second: float | None = None,
        timeout_seconds: tuple[float, float] = (10, 60),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.tries, self.patience_seconds, self.sleep = tries, patience_seconds, sleep
        self.timeout_seconds, self._per_second = timeout_seconds, per_second
        self._turns: dict[str, float] = {}
        self._lock = threading.Lock()
        self._session = wire.new_session(user_agent(contact))

    def get(
        self,
        url: str,
        *,
        params: Mapping[str, str | int] | None = None,
        credentials: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        max_bytes: int = 64 << 20,
        check: Callable[[str], None] | None = None,
        retry_after: Wait | None = None,
    ) -> Reply:
        """The whole reply. HttpError for a status that no retry mends (4xx but 408, 425, 429), Incomplete where
        retries are used up (connection, 408, 425, 429, 5xx), SourceError where it is larger than `max_bytes`."""
        call = Call("GET", url, params, credentials, headers, check=check)
        return self._whole(call, max_bytes, retry_after)

    def post(
        self,
        url: str,
        *,
        data: Mapping[str, str] | None = None,
        json: Any = None,
        params: Mapping[str, str | int] | None = None,
        credentials: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        max_bytes: int = 64 << 20,
        check: Callable[[str], None] | None = None,
        retry_after: Wait | None = None,
    ) -> Reply:
        """As `get`; what is posted is never sent on to another host."""
        if json is not None:
            headers = {"Content-Type": "application/json", **(headers or {})}
        call = Call("POST", url, params, credentials, headers, _document(json) if data is None else data, check)
        return self._whole(call, max_bytes, retry_after)

    def close(self) -> None:
        self._session.close()

    def _whole(self, call: Call, max_bytes: int, retry_after: Wait | None) -> Reply:
        tries = Tries(self, retry_after)
        while True:
            try:
                with self.open(call) as response:
                    content = wire.body(response, limit=max_bytes, within=self.patience_seconds)
                    return Reply(response.url, response.status_code, response.headers, content)
            except Dropped as failure:
                tries.wait(failure, call.url)

    def open(self, call: Call, *, also: Container[int] = ()) -> requests.Response:
        """The head of a reply below 400 (or of a status in `also`), redirects followed; its body is still to be read,
        and it is to be closed. One try: Dropped where another may help, HttpError where none does."""
        for moved in range(REDIRECTS + 1):
            response = self._send(call, moved=moved > 0)
            location = response.headers.get("Location")
            if response.status_code not in MOVED or not location:
                return self._accepted(response, also)
            response.close()
            call = call.moved(response.status_code, _text(location))
        raise SourceError(f"{shown(call.url)} is reached by more than {REDIRECTS} redirects: that is not followed.")

    def _send(self, call: Call, *, moved: bool) -> requests.Response:
        _, host, _ = origin(call.url)
        if call.check:
            call.check(call.url)
        self._take_turn(host)
        headers = {**(call.headers or {}), **(call.credentials or {})}
        request = requests.Request(call.method, call.url, headers=headers, params=call.params, data=call.data)
        try:
            return wire.send(self._session, request, self.timeout_seconds, self.patience_seconds)
        except Dropped as failure:
            raise Dropped(f"redirects to {shown(call.url)}, which {failure}") if moved else failure from None

    def _take_turn(self, host: str) -> None:
        """Wait until this host may be asked again: turns are given out in order, also to many threads."""
        if not self._per_second:
            return
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._turns.get(host, now))
            self._turns[host] = turn + 1 / self._per_second
        if turn > now:
            self.sleep(turn - now)

    def _accepted(self, response: requests.Response, also: Container[int]) -> requests.Response:
        status = response.status_code
        if status in also or (status < 400 and status not in MOVED):
            return response
        with response:
            start = self._start_of(response)
        vars(response).update(_content=start, _content_consumed=True)  # what a Wait may read is bounded
        if status in PASSING or status >= 500:
            raise Dropped(f"answered {named(status)}", response)
        raise HttpError(
            f"{shown(response.url)} answered {named(status)}: {_advice(status)}.", status=status, body=start
        )

    def _start_of(self, response: requests.Response) -> bytes:
        try:
            return wire.body(response, limit=ERROR_BYTES, within=self.timeout_seconds[1])
        except (Dropped, SourceError):
            return b""


class Tries:
    """How often and how long a request is tried again; what arrives begins the count anew."""

    def __init__(self, http: Http, retry_after: Wait | None = None) -> None:
        self.http, self.retry_after = http, retry_after
        self.begin_anew()

    def begin_anew(self) -> None:
        self.failed, self.waited = 0, 0.0

    def wait(self, failure: Dropped, url: str) -> float:
        """Sleep before the next try, for the seconds returned; Incomplete where there is none."""
        self.failed += 1
        asked = self._asked_for(failure.response)
        seconds = self._backoff() if asked is None else asked
        if self.waited + seconds > self.http.patience_seconds:
            when = f"{failure}: run this again {_when(seconds)}"
        elif self.failed >= self.http.tries:
            when = f"{failure}, {self.failed} times: run this again later"
        else:
            when = ""
        if when:
            raise Incomplete(f"{shown(url)} {when}, what is there is kept.") from None
        self.waited += seconds
        self.http.sleep(seconds)
        return seconds

    def _backoff(self) -> float:
        return min(LONGEST_BACKOFF_SECONDS, 2.0 ** (self.failed - 1)) * random.uniform(0.5, 1)

    def _asked_for(self, response: requests.Response | None) -> float | None:
        """Seconds that the server wants to be left alone, if it says."""
        if response is None:
            return None
        seconds = retry_after_seconds(response.headers.get("Retry-After", ""))
        if seconds is None and self.retry_after and response.status_code in (429, 503):
            seconds = self.retry_after(response)
        return None if seconds is None or not seconds >= 0 else min(seconds, LONGEST_WAIT_SECONDS)


def retry_after_seconds(text: str) -> float | None:
    """Retry-After as seconds or as a date of HTTP; None for anything else."""
    if re.fullmatch(r"\s*\d{1,12}(\.\d{1,9})?\s*", text):
        return float(text)
    try:
        date = parsedate_to_datetime(text)
        return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def user_agent(contact: str | None = None) -> str:
    """longform/0.1.0 (dataset rebuilding; mail@example.org)"""
    known = contact or contact_of() or "no contact set"
    if not (known.isascii() and known.isprintable()):
        raise UsageError("LONGFORM_CONTACT holds characters that no header may hold: give a mail address or a page.")
    return f"longform/{__version__} (dataset rebuilding; {known})"


def named(status: int) -> str:
    """404 (Not Found)"""
    try:
        return f"{status} ({HTTPStatus(status).phrase})"
    except ValueError:
        return str(status)


def _advice(status: int) -> str:
    if status in MOVED:
        return "it redirects, but does not say where to, try again later"
    if status in (401, 403, 407):
        return "check the key, and whether you may read this"
    if status in (404, 410):
        return "it is not there, check the name and the address"
    if status == 451:
        return "it may not be given out for legal reasons"
    return "the server does not take this request, check what was asked for"


def _when(seconds: float) -> str:
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    return f"after {at:%Y-%m-%d %H:%M:%S} UTC (in {seconds:,.0f} s)"


def _target(url: str, location: str) -> tuple[str, tuple[str, str, int]]:
    """Where a redirect leads, with its origin."""
    try:
        target = urljoin(url, location)
        return target, origin(target)
    except ValueError:
        target = location
    except SourceError:
        pass
    raise SourceError(
        f"{shown(url)} redirects to {shown(target)!r}, which is no plain address of the web: that is not followed."
    )


def _text(header: str) -> str:
    """A header that holds UTF-8 comes as Latin-1."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        return header


def _document(value: Any) -> bytes | None:
    return None if value is None else json.dumps(value).encode()
