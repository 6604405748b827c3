"""The HTTP client of all downloads, API readers and web searches: it names itself in the User-Agent, retries a limited
number of times, keeps to a rate per host, and follows redirects itself so that credentials stay with their host.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from http.client import responses
from string import punctuation
from typing import Any, TypeVar
from urllib.parse import quote, urljoin

import requests
from urllib3.exceptions import InvalidHeader
from urllib3.util import Retry

from longform import __version__
from longform.addresses import origin, shown
from longform.errors import HttpError, SourceError, UsageError
from longform.net import wire
from longform.net.hosts import Unreached
from longform.net.wire import Dropped
from longform.settings import contact as contact_of

REDIRECTS = 5
MOVED = (301, 302, 303, 307, 308)
PASSING = (408, 425, 429)
LIMITED = (429, 503)
LONGEST_BACKOFF_SECONDS = 60.0
LONGEST_HOST_PAUSE_SECONDS = 600.0
LONGEST_WAIT_SECONDS = 10 * 366 * 86_400
ERROR_BYTES = 1 << 16
MAX_BYTES = 64 << 20
ADVICE = {
    **dict.fromkeys(MOVED, "it redirects, but does not say where to, try again later"),
    **dict.fromkeys((401, 403, 407), "check the key, and whether you may read this"),
    **dict.fromkeys((404, 410), "it is not there, check the name and the address"),
    451: "it may not be given out for legal reasons",
}
OTHER_ADVICE = "the server does not take this request, check what was asked for"
SECRET_HEADERS = ("authorization", "cookie", "proxy-authorization", "x-api-key")

_RESET = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\b")
_WINDOW = re.compile(r"\bt=(\d{1,9})\b")


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply with its whole body. `url` is the address after redirects; header names are looked up in any case."""

    url: str
    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        """The body parsed as JSON. SourceError if it is not JSON."""
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError):
            start = self.content[:40].decode("utf-8", "replace")
            raise SourceError(f"{shown(self.url)} answers no JSON, but {start!r}: is it the right address?") from None


Wait = Callable[[Reply], float | None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """One request to send, with the rules by which its redirects are followed. `data` is posted as a form, `json` as a
    JSON document. `credentials` are headers that go to the host of `url` alone. `check` is called with every address
    before it is requested, and raises to refuse it. `public_only` refuses connections to IP addresses that are not
    public; it holds by itself for what a host of the public internet redirects to.
    """

    method: str
    url: str
    params: Mapping[str, str | int] | None = None
    credentials: Mapping[str, str] | None = None
    headers: Mapping[str, str] | None = None
    data: Mapping[str, str] | None = None
    json: Any = None
    check: Callable[[str], None] | None = None
    public_only: bool = False

    def request(self) -> requests.Request:
        """The request for the library requests, its headers with the credentials."""
        return requests.Request(
            self.method,
            self.url,
            {**(self.headers or {}), **(self.credentials or {})},
            data=self.data,
            params=self.params,
            json=self.json,
        )

    def moved(self, status: int, location: str) -> Call:
        """The request after a redirect with this status and Location header, without `params`. To another origin
        (scheme, host and port) no credentials and no secret headers are sent. A POST becomes a GET after 301, 302 and
        303.

        SourceError for a Location that is no http(s) address, for a redirect of secrets from https to plain http, and
        for a POST that would be sent on to another origin.
        """
        try:
            url = urljoin(self.url, quote(location.encode("latin-1"), safe=punctuation))  # bytes of any encoding
            here, there = origin(self.url), origin(url)
        except (ValueError, SourceError):
            raise SourceError(
                f"{shown(self.url)} redirects to {shown(location)!r}, which is no plain address of the web: that is "
                "not followed."
            ) from None
        call = replace(self, url=url, params=None)
        if there != here:
            kept = {name: value for name, value in (self.headers or {}).items() if name.lower() not in SECRET_HEADERS}
            if (self.credentials or kept != (self.headers or {})) and (here[0], there[0]) == ("https", "http"):
                raise SourceError(f"{shown(self.url)} redirects to plain http, {shown(url)}: that is not followed.")
            call = replace(call, credentials=None, headers=kept)
        if self.method == "POST" and status in (301, 302, 303):
            return replace(call, method="GET", data=None, json=None)
        if self.method == "POST" and there != here:
            raise SourceError(f"{shown(self.url)} redirects what was posted to another host: that is not followed.")
        return call


class Http:
    """An HTTP client that keeps to a rate per host and retries. Threads may share one.

    `per_second` limits the requests to each host, None: no limit. `tries` is the most attempts for one request,
    `patience_seconds` the longest time that the waits between them may take in sum, and that the body of one reply to
    `get` or `post` may take. `timeout_seconds`: for connecting, and for the head of a reply and single reads of its
    body, each at most `patience_seconds`. `contact` goes into the User-Agent as in `user_agent`, with its UsageError.
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
        self._turns, self._rates = dict[str, float](), dict[str, float]()
        self._lock = threading.Lock()
        self._wire = wire.Wire(user_agent(contact))

    def keep_rate(self, url: str, per_second: float) -> None:
        """From now on request the host of `url` at most `per_second` times a second, and pause (at most
        LONGEST_HOST_PAUSE_SECONDS) when the headers of its replies say that its limit is used up and when it is reset.
        SourceError for a URL that is no http(s) address.
        """
        self._rates[origin(url)[1]] = per_second

    def get(
        self,
        url: str,
        *,
        params: Mapping[str, str | int] | None = None,
        credentials: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        max_bytes: int = MAX_BYTES,
        check: Callable[[str], None] | None = None,
        public_only: bool = False,
        retry_after: Wait | None = None,
    ) -> Reply:
        """The reply to a GET request, read whole; waits for the host's rate and between attempts. Parameters as in
        Call; `retry_after` reads from a 429 or 503 reply without a usable Retry-After header the seconds to wait.

        HttpError (a SourceError) for a status that no retry helps (4xx except 408, 425, 429, and a redirect without an
        address); Incomplete if the attempts or the time for them are used up (connection failed, 408, 425, 429, 5xx);
        SourceError for an invalid address, a body larger than `max_bytes` (also when unpacked) or in an unknown
        encoding, a bad certificate, or a redirect that is not followed; UsageError for a header that cannot be sent;
        with `public_only` Refused if the IP address connected to is not public; and what `check` raises.
        """
        return self._whole(
            Call("GET", url, params, credentials, headers, check=check, public_only=public_only), max_bytes, retry_after
        )

    def post(
        self,
        url: str,
        *,
        data: Mapping[str, str] | None = None,
        json: Any = None,
        credentials: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        retry_after: Wait | None = None,
    ) -> Reply:
        """The reply to a POST request, of at most MAX_BYTES, with the exceptions of `get`. `data` is sent as a form,
        `json` as a JSON document; neither is sent on to another host: a redirect by 307 or 308 to one is a SourceError.
        """
        return self._whole(Call("POST", url, None, credentials, headers, data, json), MAX_BYTES, retry_after)

    def close(self) -> None:
        self._wire.close()

    def _whole(self, call: Call, max_bytes: int, retry_after: Wait | None) -> Reply:
        """The reply to a request, its body read whole; waits and retries after failures that may pass, with the
        exceptions of `get`.
        """
        tries = RetryBudget(self, retry_after)
        while True:
            try:
                with self.open(call) as response:
                    content = wire.body(response, limit=max_bytes, within=self.patience_seconds)
                    return Reply(response.url, response.status_code, response.headers, content)
            except Dropped as failure:
                tries.wait(failure, call.url)

    def open(self, call: Call, *, also: Container[int] = ()) -> requests.Response:
        """The reply to one attempt, redirects followed, its body not yet read: the caller reads and closes it. Its
        status is below 400 or one in `also`.

        Dropped if another attempt may help (408, 425, 429, 5xx, failed connection); HttpError for any other status;
        SourceError for a redirect that is not followed, or more than REDIRECTS of them; also what `Wire.send` and
        `call.check` raise.
        """
        for moved in range(REDIRECTS + 1):
            response = self._send(call, moved=moved > 0)
            location = response.headers.get("Location")
            if response.status_code not in MOVED or not location:
                return self._accepted(response, also)
            response.close()
            outside = call.public_only or origin(call.url)[1].rstrip(".") in self._wire.public_hosts
            call = replace(call.moved(response.status_code, location), public_only=outside)
        raise SourceError(f"{shown(call.url)} is reached by more than {REDIRECTS} redirects: that is not followed.")

    def _send(self, call: Call, *, moved: bool) -> requests.Response:
        """The reply to one request, redirects not followed, after waiting for the host's rate; its body is not yet
        read. Dropped for a failed connection; also what `Wire.send` and `call.check` raise. If the reply of a host of
        `keep_rate` says that its limit is used up, the host's next request has to wait. `moved`: the request is due to
        a redirect, which the message of Dropped then says.
        """
        _, host, _ = origin(call.url)
        if call.check:
            call.check(call.url)
        self._take_turn(host)
        connect, read = (min(seconds, self.patience_seconds) for seconds in self.timeout_seconds)
        try:
            response = self._wire.send(call.request(), (connect, read), public_only=call.public_only)
        except Dropped as failure:
            if moved:
                failure = Dropped(f"redirects to {shown(call.url)}, which {failure}", reason=failure.reason)
            raise failure from None
        if host in self._rates and _used_up(response.headers):
            self._turn(host, min(limit_seconds(response.headers) or 0, LONGEST_HOST_PAUSE_SECONDS))
        return response

    def _take_turn(self, host: str) -> None:
        """Wait until this host may be requested again. Each waiting thread gets a time slot of its own, in order of
        arrival.
        """
        rate = self._rates.get(host, self._per_second)
        seconds = self._turn(host, 1 / rate if rate else 0)
        if seconds > 0:
            self.sleep(seconds)

    def _turn(self, host: str, seconds: float) -> float:
        """Reserve this host from its next free moment for `seconds`; return the seconds from now until that moment."""
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._turns.get(host, now))
            self._turns[host] = turn + seconds
        return turn - now

    def _accepted(self, response: requests.Response, also: Container[int]) -> requests.Response:
        """The response, if its status is in `also`, or below 400 and no redirect. Else its body is read and closed:
        Dropped for 408, 425, 429 and 5xx, HttpError for any other status.
        """
        status = response.status_code
        if status in also or (status < 400 and status not in MOVED):
            return response
        with response:
            reply = Reply(response.url, status, response.headers, self._error_body(response))
        if status in PASSING or status >= 500:
            raise Dropped(f"answered {status_phrase(status)}", reply)
        advice = ADVICE.get(status, OTHER_ADVICE)
        raise HttpError(
            f"{shown(reply.url)} answered {status_phrase(status)}: {advice}.", status=status, body=reply.content
        )

    def _error_body(self, response: requests.Response) -> bytes:
        """The body of an error reply; empty if it has more than ERROR_BYTES or cannot be read."""
        try:
            return wire.body(response, limit=ERROR_BYTES, within=self.timeout_seconds[1])
        except (Dropped, SourceError):
            return b""


class Login:
    """Credentials that expire: fetched by `log_in` at the first use, and again after a reply of 401.

    `log_in` returns the headers to send, or None if the user has no account: then the request goes without, and the
    next use calls `log_in` again.
    """

    def __init__(self, log_in: Callable[[], dict[str, str] | None]) -> None:
        self._log_in = log_in
        self.credentials: dict[str, str] | None = None

    def use(self, ask: Callable[[dict[str, str] | None], T]) -> T:
        """The result of `ask(credentials)`. If it raises HttpError 401 although there are credentials, logs in again
        and calls `ask` once more. Other errors are passed on.
        """
        self.credentials = self.credentials or self._log_in()
        try:
            return ask(self.credentials)
        except HttpError as error:
            if error.status != 401 or self.credentials is None:
                raise
        self.credentials = self._log_in()
        return ask(self.credentials)


class RetryBudget:
    """Counts the failed attempts for one request and sleeps between attempts, within the client's limits for both
    (`tries`, `patience_seconds`). `retry_after` reads the seconds to wait from a 429 or 503 reply.
    """

    def __init__(self, http: Http, retry_after: Wait | None = None) -> None:
        self.http, self.retry_after = http, retry_after
        self.progress()

    def progress(self) -> None:
        """Set the failed attempts and the time waited back to zero, as after bytes arrived."""
        self.failed, self.waited = 0, 0.0

    def wait(self, failure: Dropped, url: str) -> None:
        """Count a failed attempt and sleep before the next: for the seconds that the server asks for, else exponential
        backoff (at most LONGEST_BACKOFF_SECONDS). Unreached if no attempt is left, or all waits would exceed
        `patience_seconds`.
        """
        self.failed += 1
        asked = self._asked_for(failure.reply)
        backoff = min(LONGEST_BACKOFF_SECONDS, 2.0 ** (self.failed - 1)) * random.uniform(0.5, 1)
        seconds = backoff if asked is None else asked
        times = ""
        if self.waited + seconds > self.http.patience_seconds:
            at = datetime.now(UTC) + timedelta(seconds=seconds)
            when = f"run this again after {at:%Y-%m-%d %H:%M:%S} UTC (in {seconds:,.0f} s)"
        elif self.failed >= self.http.tries:
            times, when = f", {self.failed} times", "run this again later"
        else:
            self.waited += seconds
            return self.http.sleep(seconds)
        raise Unreached(f"{shown(url)} {failure}{times}: {when}, what is there is kept.", failure.reason) from None

    def _asked_for(self, reply: Reply | None) -> float | None:
        """The seconds that the server asks to wait: by its Retry-After header; without it for 429 and 503 by
        `retry_after`, else by its rate limit headers. None if it does not say, or there is no reply.
        """
        if reply is None:
            return None
        seconds = retry_after_seconds(reply.headers.get("Retry-After", ""))
        if seconds is None and reply.status in LIMITED:
            seconds = limit_seconds(reply.headers)
            if self.retry_after and (own := self.retry_after(reply)) is not None:
                return own
        return seconds


def retry_after_seconds(text: str) -> float | None:
    """The seconds to wait by a Retry-After header, which holds a whole number or an HTTP date (one in the past: 0), at
    most LONGEST_WAIT_SECONDS; None for any other text.
    """
    try:
        return float(Retry(retry_after_max=LONGEST_WAIT_SECONDS).parse_retry_after(text))
    except (InvalidHeader, ValueError, OverflowError):
        return None


def limit_seconds(headers: Mapping[str, str]) -> float | None:
    """Seconds until a rate limit is reset, read from the first of these headers that a reply has; None if they do not
    say. Of several limits in a header the first. A RateLimit header without `t=` is passed over.

        RateLimit: "api";r=0;t=55
        RateLimit-Reset: 55
        X-RateLimit-Reset: 1, 1419704

    A reset given as a Unix timestamp is not supported.
    """
    if found := _WINDOW.search(headers.get("RateLimit", "")):
        return float(found[1])
    reset = headers.get("RateLimit-Reset") or headers.get("X-RateLimit-Reset", "")
    return float(found[1]) if (found := _RESET.match(reset)) else None


def _used_up(headers: Mapping[str, str]) -> bool:
    """Whether a reply's headers say that no request is left in the rate limit: the value of X-RateLimit-Remaining,
    else of RateLimit-Remaining, begins with 0.
    """
    return headers.get("X-RateLimit-Remaining", headers.get("RateLimit-Remaining", "")).lstrip().startswith("0")


def user_agent(contact: str | None = None) -> str:
    """The User-Agent header: longform/0.1.0 (dataset rebuilding; mail@example.org). `contact`: by default
    LONGFORM_CONTACT, else the words "no contact set". UsageError if it is not printable ASCII.
    """
    known = contact or contact_of() or "no contact set"
    if not (known.isascii() and known.isprintable()):
        raise UsageError("LONGFORM_CONTACT holds characters that no header may hold: give a mail address or a page.")
    return f"longform/{__version__} (dataset rebuilding; {known})"


def status_phrase(status: int) -> str:
    """A status with its standard phrase, 404 (Not Found); a status that has none alone."""
    return f"{status} ({responses[status]})" if status in responses else str(status)
