"""The stand-in for sources: OpenReview, Reddit, GROBID, Semantic Scholar and archive.org on one port, with faults.

    with serve(samples=Path("data/samples"), faults={"429": 0.05}) as server:
        ...                          # server.url + "/openreview", "/grobid", …
        server.counters()["repeated"]

What is fetched and read is rehearsed with it, without network and keys: docs/standin.md.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from anyio.from_thread import start_blocking_portal

from longform.errors import UsageError
from longform.standin.faults import Fault, Faults, reset, slow_seconds
from longform.standin.listening import Running, listening, until_stopped
from longform.standin.sources.calls import Answer, Call, Refused, Source, as_json, ranged
from longform.standin.sources.faults import FAULTS, LOST, REFUSALS, as_page, retry_seconds, with_fault
from longform.standin.sources.grobid import Grobid
from longform.standin.sources.library import Library, prints_of
from longform.standin.sources.openreview import OpenReview, read_notes
from longform.standin.sources.reddit import Reddit
from longform.standin.sources.semantic_scholar import SemanticScholar, read_records
from longform.standin.sources.stackexchange import StackExchange
from longform.standin.sources.windows import Window

MOST_BYTES = 512 << 20
GROBID_VERSION = "0.8.2-standin"
LINK_SECONDS = 3_600.0
PROBES = frozenset(f"GET {Grobid.prefix}/api/{name}" for name in ("isalive", "version", "health"))
OWN = "standin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the stand-in. `samples`: the folder of the project's samples; `folder`: files of your own, of which a
    sub-folder (openreview, papers, reddit, s2orc, stackexchange) takes the place of the samples of that kind.

    `faults` map names to shares; `script` holds lines as in longform/standin/faults.py. Each source answers `requests`
    requests in `window_seconds`, then 429 (None: any number). `link_seconds`: how long a signed link is good.
    """

    samples: Path
    folder: Path | None = None
    latency_seconds: float = 0.0
    faults: Mapping[str, float] = field(default_factory=dict)
    script: Iterable[Mapping[str, Any]] = ()
    seed: int = 0
    requests: int | None = None
    window_seconds: float = 60.0
    link_seconds: float = LINK_SECONDS
    grobid_version: str = GROBID_VERSION

    def folders(self, kind: str) -> list[Path]:
        """The folders in which files of a kind are looked for: the user's own, else those of the samples."""
        own = self.folder / kind if self.folder else None
        return [own] if own and own.is_dir() else [self.samples / OWN / kind, self.samples / kind]


def sources_of(settings: Settings) -> list[Source]:
    """The sources that are served. UsageError if `folder` is no folder, or has none of the sub-folders."""
    kinds = ("openreview", "papers", "reddit", "s2orc", "stackexchange")
    if settings.folder and not any((settings.folder / kind).is_dir() for kind in kinds):
        raise UsageError(f"{settings.folder} has none of the folders {', '.join(kinds)}: put your files into these.")
    papers = prints_of(settings.folders("papers"), settings.grobid_version)
    of_notes = prints_of([one / "papers" for one in settings.folders("openreview")], settings.grobid_version)
    notes = read_notes(settings.folders("openreview"))
    sites = settings.folders("stackexchange")
    return [
        OpenReview(notes, of_notes, 2),
        OpenReview(notes, of_notes, 1),
        Grobid({**papers, **{f"note {name}": one for name, one in of_notes.items()}}, settings.grobid_version),
        SemanticScholar(read_records(settings.folders("s2orc")), settings.link_seconds),
        Reddit(settings.folders("reddit")),
        StackExchange(sites if len(sites) == 1 else [*sites, settings.samples]),
        Library(papers),
    ]


class Counts:
    """The counters of the stand-in since its start or last reset: requests by route, outcomes (`answered`, `limited`,
    `refused`, or the fault's name), and whole answers by what was asked for.
    """

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.in_flight = self.highest = 0

    def document(self) -> dict[str, Any]:
        """The counters as GET /standin/counters returns them; `repeated` is what was answered whole more than once."""
        return {
            "requests": dict(self.requests),
            "outcomes": dict(self.outcomes),
            "answered": len(self.answers),
            "repeated": {key: number for key, number in self.answers.items() if number > 1},
            "in_flight": self.in_flight,
            "in_flight_highest": self.highest,
        }


class Standin:
    """The application of the stand-in with its state; it is used in one event loop. UsageError for settings that do not
    fit.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.faults = Faults(settings.faults, {}, settings.seed, FAULTS)
        self.faults.add_script(settings.script)
        self.sources = sources_of(settings)
        self._counts = Counts()
        self._windows = {
            source.prefix: Window(settings.requests, settings.window_seconds, time.monotonic) for source in self.sources
        }

    def counters(self) -> dict[str, Any]:
        """The counters, as GET /standin/counters returns them."""
        return self._counts.document()

    def reset(self) -> None:
        """Set all counters to zero."""
        self._counts = Counts()

    def application(self) -> web.Application:
        """The aiohttp application with all routes."""
        app = web.Application(client_max_size=MOST_BYTES)
        app.router.add_get("/", self._index)
        app.router.add_get("/standin/counters", self._show_counters)
        app.router.add_post("/standin/reset", self._reset_counters)
        for source in self.sources:
            for name, answer in source.routes().items():
                method, path = name.split(" ", 1)
                app.router.add_route(method, source.prefix + path, self._handler(source, name, answer))
                if not path.endswith(("/", "}")):
                    app.router.add_route(method, f"{source.prefix}{path}/", self._handler(source, name, answer))
        return app

    def usage(self, url: str) -> str:
        """The lines that a user types to use each source, with its address."""
        lines = [line for source in self.sources for line in source.usage(f"{url}{source.prefix}")]
        return "\n".join([f"Listening on {url} (Ctrl-C stops; counters: {url}/standin/counters).", "", *lines])

    async def _index(self, request: web.Request) -> web.StreamResponse:
        """The lines of `usage`."""
        return web.Response(text=self.usage(_origin(request)) + "\n")

    async def _show_counters(self, request: web.Request) -> web.StreamResponse:
        """The response to GET /standin/counters."""
        return as_json(self.counters())

    async def _reset_counters(self, request: web.Request) -> web.StreamResponse:
        """The response to POST /standin/reset: the counters after the reset."""
        self.reset()
        return await self._show_counters(request)

    def _handler(self, source: Source, name: str, answer: Answer) -> Any:
        """A handler for a route of a source, which counts its requests and those in flight."""
        route = name.replace(" ", f" {source.prefix}", 1)

        async def handle(request: web.Request) -> web.StreamResponse:
            counts = self._counts
            counts.requests[route] += 1
            counts.in_flight += 1
            counts.highest = max(counts.highest, counts.in_flight)
            try:
                return await self._respond(source, name, route, answer, request)
            finally:
                counts.in_flight -= 1

        return handle

    async def _respond(
        self, source: Source, name: str, route: str, answer: Answer, request: web.Request
    ) -> web.StreamResponse:
        """The response to a request, under the fault drawn for it and the limit of its source."""
        fault = self.faults.draw(route, asks_model=route not in PROBES)
        if fault and fault.name == "reset-early":
            self._counts.outcomes[fault.name] += 1
            return reset(request)
        call = await _call(request)
        latency = self._settings.latency_seconds
        await asyncio.sleep(max(latency, slow_seconds(fault, latency)))
        outcome, reply = self._answered(source, name, answer, call, fault)
        if reply.status == 200 and outcome not in LOST:
            self._counts.answers[source.key(call)] += 1
        self._counts.outcomes[outcome] += 1
        if name in source.limited:
            reply.headers.update(self._windows[source.prefix].headers())
        return with_fault(fault, request, ranged(call, reply))

    def _answered(
        self, source: Source, name: str, answer: Answer, call: Call, fault: Fault | None
    ) -> tuple[str, web.Response]:
        """(name of the fault, `answered`, `limited` or `refused`; the response, whole)."""
        if fault and (page := as_page(fault)):
            return fault.name, page
        if fault and fault.name in REFUSALS:
            return fault.name, source.error(REFUSALS[fault.name], retry_seconds(fault))
        if name in source.limited and (left := self._windows[source.prefix].take()) is not None:
            return "limited", source.error(429, max(1.0, round(left + 0.5)))
        try:
            return fault.name if fault else "answered", answer(call)
        except Refused as refused:
            return "refused", refused.reply


def _origin(request: web.Request) -> str:
    """The server's own address, as the client names it."""
    return f"{request.scheme}://{request.host}"


async def _call(request: web.Request) -> Call:
    """The request as sources see it: files of a form are read whole."""
    form: dict[str, Any] = {}
    body = b""
    if request.content_type.startswith("multipart/"):
        for name, value in (await request.post()).items():
            form[name] = value.file.read() if isinstance(value, web.FileField) else value
    else:
        body = await request.read()
    query = dict(request.query)
    line = f"{request.method} {request.path}"
    return Call(line, _origin(request), query, request.headers, dict(request.match_info), form, body)


# running it


@contextmanager
def serve(*, host: str = "127.0.0.1", port: int = 0, **settings: Any) -> Iterator[Running]:
    """Run a stand-in in a thread of this process for the `with` block, which gets it. `settings` are the fields of
    Settings; port 0 takes a free one. UsageError if it cannot listen or a setting does not fit.
    """
    standin = Standin(Settings(**settings))
    with (
        start_blocking_portal(name="standin-sources") as portal,
        portal.wrap_async_context_manager(listening(standin.application(), host, port)) as url,
    ):
        yield Running(standin, url, portal)


def run(settings: Settings, host: str, port: int) -> None:
    """Serve until the process gets SIGINT or SIGTERM; prints the lines that a user types to use each source. UsageError
    if it cannot listen or a setting does not fit.
    """
    asyncio.run(_run(Standin(settings), host, port))


async def _run(standin: Standin, host: str, port: int) -> None:
    """Print the lines of use, and serve until the process gets SIGINT or SIGTERM."""
    async with listening(standin.application(), host, port) as url:
        print(standin.usage(url), flush=True)
        await until_stopped()
