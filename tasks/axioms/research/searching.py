"""Where evidence is found: pages of one's own, indexed here, or the web through a search API.

    library.search(["tides at night"], 4)    [[Hit("p_1", "https://tides.example/", "Tides", "At night …"), ...]]
    library.read(hits)                       ["The whole text …", Failed("status 404")]

What a page says is material for prompts, never an instruction; personal data is replaced by marks before it is used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from longform.artifacts.rows import Row
from longform.engine.stage import StageContext
from longform.errors import EndpointError, Incomplete, SourceError, UsageError
from tasks.axioms.research.effects import Failed, Hit
from tasks.retrieval.bm25 import Index
from tasks.sources.web.extraction import Extractor, Unusable
from tasks.sources.web.web import Crawl, Found, WebBackend, get_page, page_text, results_or_errors
from tasks.text.passages import cut
from tasks.text.scrub import scrub

if TYPE_CHECKING:
    from longform.net.web import Page

WINDOW_WORDS, WINDOW_CHARACTERS = 120, 1_500
SNIPPET_CHARACTERS = 400
WINDOWS_A_PAGE = 8  # of the best windows, how many a page may have before the next page comes
TAKEN_DOWN = "taken down"


class Indexed:
    """A BM25 index of pages of one's own, in memory: a page is found by the best of its windows of WINDOW_WORDS.
    `pages`: rows of RESEARCH_PAGES.
    """

    def __init__(self, pages: Iterable[Row]) -> None:
        self._pages = {row["page_id"]: row for row in pages}

    @cached_property
    def _windows(self) -> list[tuple[str, str]]:
        """(page id, text) of all windows."""
        return [(key, text) for key, row in self._pages.items() for text in cut(row["text"], words=WINDOW_WORDS)]

    @cached_property
    def _index(self) -> Index:
        return Index(
            [f"{self._pages[key]['title']}\n{text}" for key, text in self._windows],
            np.arange(len(self._windows), dtype=np.int64),
        )

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit] | Failed]:
        """For each query at most k pages that share a word with it, best first."""
        if not self._windows:
            return [[] for _ in queries]
        most = min(k * WINDOWS_A_PAGE, len(self._windows))
        places, _ = self._index.top(queries, np.full(len(queries), -1, dtype=np.int64), most)
        return [self._hits(row, k) for row in places.tolist()]

    def _hits(self, places: Sequence[int], k: int) -> list[Hit]:
        best: dict[str, str] = {}
        for place in places:
            if place >= 0:
                best.setdefault(*self._windows[place])
        return [self._hit(key, window) for key, window in list(best.items())[:k]]

    def _hit(self, key: str, window: str) -> Hit:
        row = self._pages[key]
        return Hit(key, row["url"], row["title"], " ".join(window.split())[:SNIPPET_CHARACTERS], row["licence"])

    def read(self, hits: Sequence[Hit]) -> list[str | Failed]:
        """The text of each page."""
        return [self._pages[hit.page_id]["text"] for hit in hits]


class Web:
    """A web search, and the pages it finds. Results and pages are kept in the home and not asked for again; a page that
    cannot be had is Failed. `scrubbed`: replace personal data by marks.
    """

    def __init__(self, context: StageContext, backend: WebBackend, crawl: Crawl, *, scrubbed: bool) -> None:
        self._context, self._backend, self._crawl, self._scrubbed = context, backend, crawl, scrubbed

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit] | Failed]:
        """For each query at most k pages, best first, without those that were taken down; Failed if the search refuses,
        answers nonsense or does not answer. EndpointError if its key is not set.
        """
        found = results_or_errors(self._context, self._backend, [(query, query) for query in queries], k)
        return [each if isinstance(each, Failed) else self._hits(each) for each in map(_failed_or, found)]

    def _hits(self, results: Sequence[tuple[Found, int]]) -> list[Hit]:
        return [
            Hit(page_id_of(found.url), found.url, self._plain(found.title), self._plain(found.snippet))
            for found, _ in results
            if not self._crawl.leaves(found.url)
        ]

    def read(self, hits: Sequence[Hit]) -> list[str | Failed]:
        """The main text of each page, or why there is none: every page is fetched before the first one is read."""
        client = self._context.web(self._crawl.manners)
        get = partial(get_page, client, self._crawl)
        pages = dict(client.each(dict.fromkeys(hit.url for hit in hits), get))
        with Extractor(self._context.scratch()) as extractor:
            return [self._text(pages[hit.url], extractor) for hit in hits]

    def _text(self, page: Page, extractor: Extractor) -> str | Failed:
        if self._crawl.leaves(page.final_url):
            return Failed(TAKEN_DOWN)
        try:
            return self._plain(page_text(page, extractor).text)
        except Unusable as error:
            return Failed(error.reason, error.detail)

    def _plain(self, text: str) -> str:
        return scrub(text).text if self._scrubbed else text


def _failed_or(
    found: list[tuple[Found, int]] | EndpointError | SourceError | Incomplete,
) -> list[tuple[Found, int]] | Failed:
    if isinstance(found, list):
        return found
    passing = isinstance(found, Incomplete)
    return Failed("the search did not answer" if passing else "the search refused", str(found), passing)


def page_id_of(url: str) -> str:
    """The id of a page of the web."""
    return "web/" + hashlib.sha256(url.encode()).hexdigest()[:16]


@lru_cache(256)
def best_window(query: str, text: str) -> str:
    """The part of a page of about WINDOW_WORDS, at most WINDOW_CHARACTERS, that fits a query best; its beginning if
    none shares a word with it.
    """
    windows = cut(text, words=WINDOW_WORDS)
    if len(windows) < 2:
        return windows[0][:WINDOW_CHARACTERS] if windows else ""
    places, _ = Index(windows, np.arange(len(windows), dtype=np.int64)).top([query], np.array([-1]), 1)
    return windows[max(int(places[0][0]), 0)][:WINDOW_CHARACTERS]


def library_of(
    context: StageContext, pages: Iterable[Row], web: WebBackend | None, crawl: Crawl | None, *, scrubbed: bool
) -> Indexed | Web:
    """The web if a search API is set, else an index of the pages. UsageError if nobody says how pages are fetched."""
    if web is None:
        return Indexed(pages)
    if crawl is None:
        raise UsageError(f"A web search by {web.kind} needs to know how its pages are fetched: set crawl.")
    return Web(context, web, crawl, scrubbed=scrubbed)
