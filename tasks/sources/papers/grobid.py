"""GROBID: a PDF goes to a server, TEI comes back.

    GET  /api/isalive                      "true"; from 0.9 on 503 until its models are loaded
    GET  /api/version                      {"version": "0.8.2", "revision": "a91ee48"}; very old ones: plain text
    POST /api/processFulltextDocument      multipart, part `input`
         200 TEI, whose body may be empty    204 no content       400 bad request
             rarely ill-formed, and of a proxy before it any page, or TEI that is cut off
         500 "[TIMEOUT] PDF to XML …"        every failure of processing; the text may be missing
         503                                 all engines are busy: wait

No client library is used: one form is all that is sent, and the existing libraries retry without end on a 503, report
a lost connection as a 400, and have no deadline for a PDF as a whole. Consolidation is off: it asks Crossref, so
results would change from run to run.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import requests

from longform.addresses import origin, shown
from longform.artifacts.rows import Row
from longform.errors import Incomplete, SourceError
from longform.net import wire
from longform.net.http import user_agent
from longform.net.web import in_order
from longform.net.wire import Dropped, Wire
from tasks.sources.files.bundles import Member
from tasks.sources.paper_body import UnreadableError
from tasks.sources.papers import tei
from tasks.sources.papers.paper_ids import taken_down_files
from tasks.sources.papers.parsed import Parsed, Result, sha256_of_pdf
from tasks.sources.papers.pdf.pdfium import check

SERVICE = "/api/processFulltextDocument"
FORM = {
    "consolidateHeader": "0",
    "consolidateCitations": "0",
    "consolidateFunders": "0",
    "includeRawCitations": "1",
}
CONCURRENCY = 4
SECONDS = 300.0
PATIENCE_SECONDS = 600.0
READY_SECONDS = 120.0
CONNECT_SECONDS = 10.0
PAUSE_SECONDS = 2.0
LOST_TRIES = 3
ANSWERED_WITHIN = 3  # tries that may get no answer
BUSY = frozenset({429, 500, 502, 503, 504})
CODES = frozenset(
    (
        "BAD_INPUT_DATA",
        "NO_BLOCKS",
        "TOO_MANY_BLOCKS",
        "TOO_MANY_TOKENS",
        "TIMEOUT",
        "TAGGING_ERROR",
        "PARSING_ERROR",
        "PDFALTO_CONVERSION_FAILURE",
        "GENERAL",
    )
)
ONCE_MORE = ("TIMEOUT", "GENERAL", "")
TOO_SLOW = "GROBID: too slow"
NO_DOCUMENT = frozenset({"no TEI", "ill-formed XML"})
ENDS_WITHIN = 4_096

Ask = Callable[[str], tuple[int | None, bytes]]  # path -> status and body

_CODE = re.compile(r"\s*\[([A-Z_]{3,40})\]\s*(.*)", re.DOTALL)
_PATH = re.compile(r"(?:[A-Za-z]:)?(?:[/\\][\w.~%+-]+){2,}[/\\]?")
_BEGIN = re.compile(rb"<(?:\w+:)?TEI[\s>]")
_END = re.compile(rb"</(?:\w+:)?TEI\s*>\s*\Z")
_START = (
    "start one (docker run --rm --init -p 8070:8070 grobid/grobid:0.8.2-crf) and set GROBID_URL to its address, "
    "or unset it to read PDFs without a server"
)


def send(connections: Wire, url: str, content: bytes, seconds: float) -> tuple[int, bytes]:
    """Ask the server to parse one PDF: (status, body) of its reply. `content`: the PDF; `url`: of the service.

    UnreadableError if the whole takes more than `seconds`, or the reply's body has more than tei.MAX_BYTES bytes;
    Dropped if the connection was lost before.
    """
    until = time.monotonic() + seconds
    file = {"input": ("input.pdf", content, "application/pdf")}
    request = requests.Request("POST", url, files=file, data=FORM, headers={"Accept": "application/xml"})
    try:
        with connections.send(request, (CONNECT_SECONDS, seconds)) as reply:
            body = wire.body(reply, limit=tei.MAX_BYTES, within=max(0.1, until - time.monotonic()))
            return reply.status_code, body
    except Dropped:
        if time.monotonic() <= until - 0.05 * seconds:
            raise
        raise UnreadableError(TOO_SLOW, f"more than {seconds:g} seconds") from None
    except SourceError:
        raise UnreadableError("GROBID: reply too large") from None


# ---------------------------------------------------------------- the server


def connect(
    url: str,
    *,
    concurrency: int = CONCURRENCY,
    seconds: float = SECONDS,
    patience_seconds: float = PATIENCE_SECONDS,
    ready_seconds: float = READY_SECONDS,
    connect_seconds: float = CONNECT_SECONDS,
    pause_seconds: float = PAUSE_SECONDS,
) -> Grobid:
    """The GROBID server at this address, after waiting up to `ready_seconds` until it is ready. SourceError if no
    server answers, or another than GROBID, or `url` is no http address; Incomplete if it is not ready by then.

    `concurrency` PDFs are sent at once, fewer if the server has fewer engines. A PDF may take `seconds`, and wait
    `patience_seconds` while the server is busy; between two attempts it waits about `pause_seconds`. `connect_seconds`
    bound a request about the server itself.
    """
    base = url.rstrip("/").removesuffix("/api")
    origin(base)
    ask = partial(_get, Wire(user_agent()), base, connect_seconds)
    _wait_until_ready(ask, base, ready_seconds, pause_seconds)
    at_once = min(concurrency, _engines(ask) or concurrency)
    return Grobid(
        base,
        _version(ask, base, min(pause_seconds, ready_seconds / 10)),
        max(1, at_once),
        seconds,
        patience_seconds,
        pause_seconds,
    )


def _wait_until_ready(ask: Ask, base: str, seconds: float, pause_seconds: float) -> None:
    """Return once the server says that it is ready. Incomplete if it still starts, or fails, after `seconds`;
    SourceError if no server answers in ANSWERED_WITHIN tries, or another than GROBID.
    """
    until, unanswered = time.monotonic() + seconds, 0
    while True:
        status, body = ask("isalive")
        if status == 200 and body.strip().lower() == b"true":
            return
        unanswered += status is None
        if unanswered == ANSWERED_WITHIN:
            raise SourceError(f"No GROBID server answers at {shown(base)}: {_START}.")
        if status is not None and status not in BUSY:
            raise SourceError(f"{shown(base)} answers, but not as GROBID does (status {status}): {_START}.")
        if time.monotonic() > until:
            state = "still starting" if status == 503 else f"failing (status {status or 'none'})"
            raise Incomplete(f"GROBID at {shown(base)} is {state}: run the same command again in a minute.")
        time.sleep(min(pause_seconds, seconds / 10))


def _get(connections: Wire, base: str, seconds: float, path: str) -> tuple[int | None, bytes]:
    """(status, body) of a GET of <base>/api/<path>, which may take `seconds`; (None, b"") if no server answers."""
    request = requests.Request("GET", f"{base}/api/{path}")
    try:
        with connections.send(request, (seconds, seconds)) as reply:
            return reply.status_code, wire.body(reply, limit=1 << 20, within=seconds)
    except Dropped:
        return None, b""


def _version(ask: Ask, base: str, pause_seconds: float) -> str:
    """The server's version and revision, such as "0.8.2 a91ee48"; "unknown" if it does not say. Incomplete if it fails
    ANSWERED_WITHIN times: what is kept of this version could not be told from another one's.
    """
    status, body = ask("version")
    for _ in range(1, ANSWERED_WITHIN):
        if status is not None and status not in BUSY:
            break
        time.sleep(pause_seconds)
        status, body = ask("version")
    if status is None or status in BUSY:
        raise Incomplete(f"GROBID at {shown(base)} does not tell its version: run the same command again in a minute.")
    try:
        document = json.loads(body)
    except ValueError:
        document = body.decode(errors="replace")
    parts = [document.get("version"), document.get("revision")] if isinstance(document, dict) else [document]
    named = " ".join(" ".join(str(part).split()) for part in parts if part)[:60]
    return named if status == 200 and named else "unknown"


def _engines(ask: Ask) -> int | None:
    """How many PDFs the server can work on at once; None if it does not say (before version 0.9)."""
    try:
        engines = json.loads(ask("health")[1])["pool"]["maxActive"]
    except (ValueError, KeyError, TypeError):
        return None
    return engines if isinstance(engines, int) and engines > 0 else None


class Grobid:
    """A parser of PDFs: a GROBID server that was ready; `papers` sends PDFs to it. `concurrency`: how many at once; for
    the times see `connect`.
    """

    def __init__(
        self,
        base: str,
        version: str,
        concurrency: int,
        seconds: float,
        patience_seconds: float,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self.base, self.version, self.concurrency = base, version, concurrency
        self.seconds, self.patience_seconds, self.pause_seconds = seconds, patience_seconds, pause_seconds

    def identity(self) -> dict[str, Any]:
        """What identifies the parser in a recipe: version, options and the deadline of a PDF, as a longer one may give
        rows for PDFs that were too slow; not the address, nor how long a busy server is waited for.
        """
        return {**self.answers(), "seconds": self.seconds}

    def answers(self) -> dict[str, Any]:
        """What determines the server's answer for a PDF: its version, and all that it is sent beside the PDF."""
        named = {"parser": f"grobid {self.version}", "consolidate": False, "raw_citations": True}
        return {**named, "service": SERVICE, "form": FORM}

    def papers(self, members: Iterable[Member], home: Path) -> Iterator[tuple[Member, Row | UnreadableError]]:
        """(PDF, the row of PAPERS, without paper_id and retrieved_at, or the error that says why there is none) for
        each PDF, in their order. `self.concurrency` are sent at once, by all processes of `home` together (its folder
        `locks`), and at most one more is in memory. What the server answered before is not asked for again
        (tasks.sources.papers.parsed). Incomplete if the server stays busy or is gone, or gives pages that are no TEI
        or cut off; SourceError if it answers as no GROBID does.
        """
        asking = _Asking(self, home)
        pool = ThreadPoolExecutor(self.concurrency, thread_name_prefix="grobid")
        try:
            for member, future in in_order(pool, asking.paper, members, self.concurrency):
                yield member, future.result()
        finally:
            asking.stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)


# ---------------------------------------------------------------- asking


class _Asking:
    """Asks a server for the PDFs of one unit of work. `stopped`: when set, waiting requests end with Incomplete."""

    def __init__(self, server: Grobid, home: Path) -> None:
        self.server, self.locks = server, home / "locks"
        self.results = Parsed(home, server.answers())
        self.taken_down = taken_down_files(home)
        self.stopped = threading.Event()
        self.connections = Wire(user_agent())

    def paper(self, member: Member) -> Row | UnreadableError:
        """The row of PAPERS made from a PDF, without paper_id and retrieved_at, or the UnreadableError (returned) that
        says why there is none. Incomplete and SourceError are raised, as by `tei`.
        """
        try:
            check(member)
            row = tei.paper_of(self.stored(member))
        except UnreadableError as error:
            return error
        return {**row, "source": "pdf", "pdf_sha": hashlib.md5(member.content, usedforsecurity=False).hexdigest()}

    def stored(self, member: Member) -> bytes:
        """The TEI of a PDF, as bytes: what the server answered before, else what it answers now, which is kept at once,
        as is a refusal of the PDF. UnreadableError for a refusal; Incomplete and SourceError as in `tei`.
        """
        pdf = sha256_of_pdf(member.content)
        result = self._known(pdf)
        if result is None:
            with self.results.asking(pdf, self.stopped):
                result = self._known(pdf) or self._new(pdf, member)
        if result.reason:
            raise UnreadableError(result.reason, result.detail)
        return result.content

    def _known(self, pdf: str) -> Result | None:
        """The stored result of a PDF; None if there is none, or it was too slow for a shorter deadline than now, or is
        no TEI document.
        """
        result = self.results.get(pdf)
        if result is None or (result.seconds and result.seconds < self.server.seconds):
            return None
        return result if result.reason or not defect_of(result.content) else None

    def _new(self, pdf: str, member: Member) -> Result:
        """The server's answer for a PDF, or its refusal, after it was kept. What is no well-formed TEI document is not
        kept, nor is what a PDF says that is taken down.
        """
        try:
            result = Result(self.tei(member))
        except UnreadableError as error:
            slow = self.server.seconds if error.reason == TOO_SLOW else None
            result = Result(b"", error.reason, error.detail, slow)
        if pdf[:16] not in self.taken_down and result.reason not in NO_DOCUMENT:
            self.results.put(pdf, result)
        return result

    def tei(self, member: Member) -> bytes:
        """The TEI of a PDF, as bytes, from the server. Waits and tries again for `patience_seconds` while the server is
        busy (429, 503), up to LOST_TRIES times in all if the connection fails (also 502, 504) or the reply is no
        well-formed TEI document, and once more after a failure in ONCE_MORE. UnreadableError if the PDF cannot be
        parsed, or TEI that begins and ends as such is ill-formed each time; Incomplete if it may be in a later run, as
        after pages of a proxy and TEI that is cut off; SourceError if the server answers as no GROBID does.
        """
        tries = lost = 0
        busy_until = time.monotonic() + self.server.patience_seconds
        while True:
            status, body, fault = self._sent(member.content)
            defect = defect_of(body) if status == 200 and body else None
            if status == 200 and body and not defect:
                return body
            if status in (429, 503):
                self._wait(busy_until, "is busy")
            elif fault or defect:
                lost += 1
                if defect and lost == LOST_TRIES and is_whole(body):
                    raise defect
                told = f"answers for {member.name} with what is no TEI document ({defect})" if defect else ""
                self._wait(busy_until if lost < LOST_TRIES else 0.0, told or f"failed ({fault})")
            else:
                tries += 1
                self._raise_unless_once_more(status, body, tries)

    def _sent(self, content: bytes) -> tuple[int, bytes, str]:
        """(status, body, fault) of one attempt to have a PDF parsed. `fault`: what failed between here and the server,
        else "". UnreadableError as by `send`.
        """
        try:
            with _slot(self.locks, self.server.concurrency, self.stopped):
                status, body = send(self.connections, self.server.base + SERVICE, content, self.server.seconds)
        except Dropped as error:
            return 0, b"", str(error)
        return status, body, str(status) if status in (502, 504) else ""

    def _wait(self, until: float, what: str) -> None:
        """Wait a random time around `pause_seconds` (at most a twentieth of `patience_seconds` counts). Incomplete if
        that would end after `until` (a time of time.monotonic), or once `stopped` is set; `what` says what the server
        does, for the message.
        """
        pause = random.uniform(1.25, 3.75) * min(self.server.pause_seconds, self.server.patience_seconds / 20)
        if time.monotonic() + pause > until or self.stopped.wait(pause):
            raise Incomplete(
                f"GROBID at {shown(self.server.base)} {what}: what was finished is kept; run the same command again."
            )

    def _raise_unless_once_more(self, status: int, body: bytes, tries: int) -> None:
        """Return if the failure may pass (status 500 with a code in ONCE_MORE) and `tries`, the attempts so far, is 1.
        Else UnreadableError, which says why this PDF has no TEI; SourceError for a status that GROBID never gives.
        """
        if status in (200, 204):
            raise UnreadableError("GROBID: no content")
        if status == 500:
            code, message = code_of(body)
            if code in ONCE_MORE and tries == 1:
                return
            raise UnreadableError(f"GROBID: {code if code in CODES else 'failed'}", message or None)
        if status in (400, 411, 413, 415, 422):
            raise UnreadableError("GROBID: refused", f"status {status} {code_of(body)[1]}".strip())
        raise SourceError(
            f"{shown(self.server.base)} answers with status {status}, as GROBID never does: correct GROBID_URL."
        )


def defect_of(body: bytes) -> UnreadableError | None:
    """Why a reply is no TEI document, by one of the reasons in NO_DOCUMENT; None if it is one."""
    try:
        tei.parse(body)
    except UnreadableError as error:
        return error if error.reason in NO_DOCUMENT else None
    return None


def is_whole(body: bytes) -> bool:
    """Whether a reply begins and ends as a TEI document does, well-formed or not: no page of a proxy, nor cut off."""
    return bool(_BEGIN.search(body[:ENDS_WITHIN]) and _END.search(body[-ENDS_WITHIN:]))


def code_of(body: bytes) -> tuple[str, str]:
    """(code, message) in the body of a failure, `[CODE] message`; the code is "" if it has none. In the message, of at
    most 300 characters, paths of files become "…" and tags blanks.
    """
    text = body[:4_000].decode(errors="replace")
    match = _CODE.match(text)
    code, message = (match[1], match[2]) if match else ("", text)
    return code, " ".join(_PATH.sub("…", re.sub(r"<[^>]*>", " ", message)).split())[:300]


@contextmanager
def _slot(locks: Path, number: int, stopped: threading.Event) -> Iterator[None]:
    """A context in which one of `number` lock files in the folder `locks` is held, to bound the requests of all
    processes that share it; waits for a free one. A process that dies releases its lock. Incomplete if `stopped` is set
    while waiting.
    """
    locks.mkdir(parents=True, exist_ok=True)
    while True:
        for place in range(number):
            with (locks / f"grobid-{place}.lock").open("a") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    continue
                yield
                return
        if stopped.wait(0.05):
            raise Incomplete("Another PDF of this unit could not be read now: run the same command again.")
