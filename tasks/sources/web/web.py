"""Web search through an HTTP JSON API, and the pages it leads to.

SearXNG, self-hosted (docs.searxng.org, Search API): GET <address>/search?q=…&format=json&pageno=1

    {"query": "why is the sky blue", "number_of_results": 0, "unresponsive_engines": [["one", "timeout"]],
     "results": [{"url": "https://example.org/sky", "title": "Sky", "content": "Light is scattered.",
                  "engine": "two", "engines": ["two"], "score": 1.0, "positions": [1], "category": "general"}]}

JSON must be allowed in its settings (search.formats), else it answers 403. The number of results of a page is not for
the caller to choose. When all its engines fail it answers 200 with no result: that is no answer to keep.

Brave Search (api.search.brave.com, Web Search API): GET /res/v1/web/search?q=…&count=20&offset=0, offset counts pages,
0 to 9; the key goes into the header X-Subscription-Token; a query has up to 400 characters and 50 words.

    {"type": "search", "query": {"original": "why is the sky blue", "more_results_available": true},
     "web": {"type": "search", "results": [{"title": "Sky", "url": "https://example.org/sky",
                                            "description": "Light is <strong>scattered</strong>."}]}}

`web` is left out where nothing is found. Titles and descriptions are HTML.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from longform.addresses import normal_url
from longform.engine.stage import Rejected, Row, Rows, StageContext, stage
from longform.errors import EndpointError, HttpError, Incomplete, SourceError
from longform.net.http import Reply
from longform.net.web import Manners, PageRequest
from longform.settings import api_key
from schemas.sources.search import WEB_PAGES, WEB_RESULTS
from tasks.sources.permalinks import ids_of_address
from tasks.sources.web.extraction import Extractor, Text, Unusable, clean
from tasks.sources.web.walls import wall_of

if TYPE_CHECKING:
    from longform.net.web import Page, PageClient

BRAVE = "https://api.search.brave.com"
BRAVE_COUNT, BRAVE_PAGES, BRAVE_CHARACTERS, BRAVE_WORDS = 20, 10, 400, 50
SEARXNG_PAGES = 5
TITLE_CHARACTERS, SNIPPET_CHARACTERS = 500, 2_000
_TAG = re.compile(r"<[^<>]{0,200}>")


@dataclass(frozen=True, slots=True)
class WebBackend:
    """A search API at `url`. `key_env` names the environment variable with the key (None: no key).

    Its kind and `parameters` (language, engines, country, safesearch, ...), which are sent with every query, are its
    identity, as they change what it finds; address, key and manners are not.
    """

    kind: Literal["searxng", "brave"]
    url: str = BRAVE
    key_env: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    manners: Manners = field(default_factory=lambda: Manners(at_once=4))

    def identity(self) -> dict[str, Any]:
        """What the results depend on, for recipes and their hashes: kind and parameters."""
        return {"kind": self.kind, "parameters": dict(self.parameters)}


@dataclass(frozen=True, slots=True)
class Crawl:
    """How pages are fetched.

    `private_hosts` allows addresses that are not public, for an intranet; `robots`: obey robots.txt. `takedowns`: ids
    of pages and records that must not be used; an empty list is no part of the identity.
    """

    private_hosts: bool = False
    robots: bool = True
    takedowns: tuple[str, ...] = ()
    manners: Manners = field(default_factory=Manners)

    def identity(self) -> dict[str, Any]:
        """What the fetched pages depend on, for recipes and their hashes: everything but the manners."""
        listed = {"takedowns": list(self.takedowns)} if self.takedowns else {}
        return {"private_hosts": self.private_hosts, "robots": self.robots, **listed}

    def leaves(self, url: str | None) -> bool:
        """Whether the page at this address, or the record that it shows, is in `takedowns`; False for None or ""."""
        return bool(self.takedowns and url) and any(name in self.takedowns for name in ids_of_address(url or ""))


class Found(NamedTuple):
    """One search result. `engine`: the search engine that found it, or the kind of the API if it names none."""

    url: str
    title: str
    snippet: str
    engine: str


# replies


def read_searxng(reply: Any) -> list[Found]:
    """The results in a reply of SearXNG, in its order; [] if it has none. Results without an address are left out."""
    return _results(reply, "content", str, "searxng")


def read_brave(reply: Any) -> list[Found]:
    """The results in a reply of Brave Search, in its order, titles and snippets without HTML markup.

    [] if it has none. Results without an address are left out.
    """
    found = reply.get("web") if isinstance(reply, dict) else None
    return _results(found, "description", lambda text: html.unescape(_TAG.sub("", text)), "brave")


def _results(reply: Any, snippet: str, plain: Callable[[str], str], engine: str) -> list[Found]:
    """The results in the list `results` of a reply, in its order; those without an address are left out.

    `snippet`: the field with the description; `plain` removes markup; `engine`: the name for results that name no
    engine.
    """
    listed = reply.get("results") if isinstance(reply, dict) else None
    fields = ("url", "title", snippet, "engine")
    texts = [
        [value if isinstance(value := one.get(name), str) else "" for name in fields]
        for one in (listed if isinstance(listed, list) else [])
        if isinstance(one, dict)
    ]
    return [Found(url, plain(title), plain(text), own or engine) for url, title, text, own in texts if url]


# searching


@stage(WEB_RESULTS, revision=1)
def search_web(
    context: StageContext, questions: Rows, *, backend: WebBackend, k: int, query: str
) -> Iterator[Row | Rejected]:
    """Up to k results for each question, whose text is in the column `query`: best first, each address once.

    A question without any result, or with a blank text, is Rejected (filtered). Raises EndpointError if the API
    refuses, or its key is not set; SourceError if a reply is no JSON; Incomplete, after all other questions, if one
    failed for a passing reason.
    """
    key = questions.key
    for (name, text), found in web_results(context, backend, ((row[key], row[query] or "") for row in questions), k):
        if not found:
            yield Rejected(name, "filtered", "no search result" if text else "empty query")
        for rank, (result, moment) in enumerate(found, start=1):
            yield {
                "result_id": f"{name}#{rank}",
                "query_id": name,
                "rank": rank,
                **result._asdict(),
                "fetched_at": moment,
            }


def web_results(
    context: StageContext, backend: WebBackend, asked: Iterable[tuple[str, str]], k: int
) -> Iterator[tuple[tuple[str, str], list[tuple[Found, int]]]]:
    """((id, query), results) for each of `asked`, (id, query), in order, with at most k results, best first.

    A result is (Found, time of its fetch in milliseconds since 1970). The query is put on one line; an empty one has
    no results. Results come from the store, or are fetched and stored. Raises EndpointError if the API refuses or its
    key is not set; SourceError if a reply is no JSON; Incomplete, after all other queries, if one failed for a passing
    reason.
    """
    client = context.web(backend.manners)
    search = partial(_search, client, backend, _credentials(backend), k)
    cleaned = ((name, clean(text, one_line=True)) for name, text in asked)
    yield from client.each(cleaned, lambda pair: search(pair[1]))


def results_or_errors(
    context: StageContext, backend: WebBackend, asked: Iterable[tuple[str, str]], k: int
) -> Iterator[list[tuple[Found, int]] | EndpointError | SourceError | Incomplete]:
    """What `web_results` finds for each of `asked`, in order, or the error of the query: one that fails ends no other.
    EndpointError if the key is not set.
    """
    client = context.web(backend.manners)
    search = partial(_search, client, backend, _credentials(backend), k)

    def found(pair: tuple[str, str]) -> list[tuple[Found, int]] | EndpointError | SourceError | Incomplete:
        try:
            return search(clean(pair[1], one_line=True))
        except (EndpointError, SourceError, Incomplete) as error:
            return error

    yield from (results for _, results in client.each(asked, found))


def _search(
    client: PageClient, backend: WebBackend, credentials: Mapping[str, str] | None, k: int, text: str
) -> list[tuple[Found, int]]:
    """Up to k pairs (result, time of its fetch in milliseconds since 1970), best first, each address once.

    [] for no text. Page after page of results is asked for, until there are k results, a page brings no new one, or
    SEARXNG_PAGES or BRAVE_PAGES are read. Results without a valid address are left out. Raises what `_answer` raises.
    """
    read, pages = _READERS[backend.kind]
    found: dict[str, tuple[Found, int]] = {}
    for number in range(pages if text else 0):
        page = _answer(client, backend, _ask(backend, credentials, text, number))
        results = [_normal(one) for one in read(Reply(page.url, page.status, page.headers, page.content).json())]
        new = {one.url: (one, page.fetched_at) for one in results if one.url and one.url not in found}
        found |= new
        if len(found) >= k or not new:
            break
    return list(found.values())[:k]


def _answer(client: PageClient, backend: WebBackend, request: PageRequest) -> Page:
    """One page of results, stored or fetched now.

    Raises EndpointError if the API refuses, SourceError if the reply is no JSON, Incomplete if it failed for a passing
    reason.
    """
    try:
        return client.get(request)
    except HttpError as error:
        hint = "is JSON allowed in its settings, search.formats?" if backend.kind == "searxng" else "is the key right?"
        raise EndpointError(f"The search API {backend.kind} refused: {error} {hint.capitalize()}") from None


def _normal(found: Found) -> Found:
    """The result with its address normalised ("" if it is none), and its texts on one line.

    Title, snippet and engine are cut to TITLE_CHARACTERS, SNIPPET_CHARACTERS and 100 characters.
    """
    title, snippet = clean(found.title, one_line=True), clean(found.snippet, one_line=True)
    engine = clean(found.engine, one_line=True)[:100]
    return Found(normal_url(found.url) or "", title[:TITLE_CHARACTERS], snippet[:SNIPPET_CHARACTERS], engine)


def _credentials(backend: WebBackend) -> dict[str, str] | None:
    """The header with the key; None for SearXNG without a `key_env`.

    Raises EndpointError if that variable is not set, or Brave has no `key_env`.
    """
    if backend.key_env is None and backend.kind != "brave":
        return None
    key = api_key(backend.key_env) if backend.key_env else None
    if key is None:
        variable = backend.key_env or "(key_env)"
        raise EndpointError(f"The key {variable} of the search API {backend.kind} is not set: set it, or use another.")
    return {"X-Subscription-Token": key} if backend.kind == "brave" else {"Authorization": f"Bearer {key}"}


def _ask(backend: WebBackend, credentials: Mapping[str, str] | None, text: str, page: int) -> PageRequest:
    """The request for one page of results; `page` counts from 0.

    For Brave, `text` is cut to BRAVE_WORDS words and BRAVE_CHARACTERS characters. The backend's `parameters` are added,
    and replace those of the same name.
    """
    params, path = {"q": text, "format": "json", "pageno": str(page + 1)}, "/search"
    if backend.kind == "brave":
        fitting = " ".join(text.split()[:BRAVE_WORDS])[:BRAVE_CHARACTERS]
        params, path = {"q": fitting, "count": str(BRAVE_COUNT), "offset": str(page)}, "/res/v1/web/search"
    params |= dict(backend.parameters)
    return PageRequest(
        backend.url.rstrip("/") + path, tuple(params.items()), backend.kind, credentials, is_storable=_is_storable
    )


def _is_storable(reply: Reply) -> bool:
    """Whether a reply is worth storing. One without results is not, if it names search engines that failed.

    Brave, which is one engine, names none: all its replies are stored. Raises SourceError if the reply is no JSON.
    """
    document = reply.json()
    return not isinstance(document, dict) or bool(document.get("results")) or not document.get("unresponsive_engines")


_READERS = {"searxng": (read_searxng, SEARXNG_PAGES), "brave": (read_brave, BRAVE_PAGES)}


# pages


@stage(WEB_PAGES, revision=3)
def fetch_pages(context: StageContext, results: Rows, *, crawl: Crawl) -> Iterator[Row | Rejected]:
    """The pages that results lead to, as text: each once, in the order of its first result.

    Every result whose page cannot be had, or has no text, is Rejected (filtered). Raises Incomplete, after all other
    pages, if one failed for a passing reason, unless the crawl's manners say `give_up`; UsageError if trafilatura is
    not installed.
    """
    client = context.web(crawl.manners)
    leading: dict[str, list[Row]] = {}
    for batch in results.batches(["result_id", "query_id", "rank", "url"]):
        for row in batch.to_pylist():
            leading.setdefault(row.pop("url"), []).append(row)
    with Extractor(context.scratch()) as extractor:
        for url, page in client.each(leading, partial(get_page, client, crawl)):
            yield from _page(url, page, extractor, leading[url])


def get_page(client: PageClient, crawl: Crawl, url: str) -> Page:
    """The stored page of an address, else one fetched and stored now; of a lasting failure, a page with an `error`.

    Raises Incomplete if it failed for a passing reason; with `give_up` in the client's manners that is an `error` too.
    """
    return client.get(PageRequest(url, private_hosts=crawl.private_hosts, robots=crawl.robots))


def page_text(page: Page, extractor: Extractor) -> Text:
    """The text of a page. Raises Unusable if the page is a failure (has an `error`), `Extractor.text` refuses it, or it
    is a notice in place of a text (`wall_of`).
    """
    if page.error:
        raise Unusable(page.error, page.detail)
    text = extractor.text(page.content, page.headers)
    if wall := wall_of(text.title, text.text):
        raise Unusable(*wall)
    return text


def _page(url: str, page: Page, extractor: Extractor, leading: list[Row]) -> Iterator[Row | Rejected]:
    """The row of WEB_PAGES for a page; if it has no text, a Rejected (filtered) for each result that led to it.

    `leading`: these results, as {result_id, query_id, rank}.
    """
    try:
        text = page_text(page, extractor)
    except Unusable as error:
        yield from (Rejected(row["result_id"], "filtered", error.reason, detail=error.detail) for row in leading)
        return
    yield {
        "page_id": "web/" + hashlib.sha256(url.encode()).hexdigest()[:16],
        "url": url,
        "final_url": page.final_url,
        "status": page.status,
        **text._asdict(),
        "licence": None,
        "retrieved_at": page.fetched_at,
        "found_by": leading,
    }
