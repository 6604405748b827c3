"""The pages that answers cite by their address, as evidence for the claims that cite them.

Each address that has no text yet is fetched once, politely, and its snapshot is kept in the page store; or it is looked
for among given pages. A page is cut into windows as those of a web search are, and the WINDOWS best for a claim become
its evidence. The systems that cite addresses (gpt4, bing_chat) have AutoAIS values in the paper's table 5, whose
authors' conversion of the data reads cited pages (ExpertQA, section 3).

A dead page is kept as such, with the month in which it was tried: cited addresses die, and models make some up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

import pyarrow.compute as pc

from longform.addresses import normal_url, without_logins_in
from longform.engine.stage import AllRows, Row, Rows, StageContext, stage
from longform.errors import ConservationError
from schemas.expertqa import CITED_PAGES, CLAIMS
from tasks.expertqa.answers.citations import in_full, without_marks
from tasks.expertqa.answers.evidence import KEPT, PAGES_KEPT, Search
from tasks.expertqa.corpora import Document, passages_of
from tasks.sources.web.extraction import Extractor, Unusable
from tasks.sources.web.search import Passage, best_passages
from tasks.sources.web.walls import wall_of
from tasks.sources.web.web import Crawl, get_page, page_text

CITED = "cited"
WINDOWS = 2
State = Literal["read", "dead", "unreadable", "taken down", "not among the pages"]


class Snapshot(NamedTuple):
    """What is known of a cited address. `windows`: rows with the columns KEPT; empty unless `state` is read."""

    state: State
    reason: str | None = None
    month: str | None = None
    title: str | None = None
    windows: tuple[Row, ...] = ()


@stage(CITED_PAGES, revision=3)
def read_cited_pages(
    context: StageContext, claims: Rows, pages: AllRows, *, search: Search, crawl: Crawl | None
) -> Iterator[Row]:
    """For each claim the pages of those addresses among its evidence that have no text, with their best windows.

    With `crawl` they are fetched and stored; without it they are looked for in `pages` (windows, as rows of DOCUMENTS).
    `search`: how pages are cut into windows, and the ranking, of which only words count (no embeddings). Counts cited
    pages by state, each once an answer. A page that does not answer is dead if the crawl's manners say `give_up`, else
    Incomplete is raised after all others.
    """
    rows = [claim | {"urls": _addresses(claim)} for claim in claims.as_dicts(*_COLUMNS)]
    wanted = dict.fromkeys(url for claim in rows for url in claim["urls"])
    if crawl is None or not wanted:
        yield from _found(context, rows, _given(pages, wanted))
        return
    with Extractor(context.scratch()) as extractor:  # which needs the extra web
        yield from _found(context, rows, _fetched(context, wanted, extractor, crawl, search))


def _found(context: StageContext, claims: list[Row], snapshot: Callable[[str], Snapshot]) -> Iterator[Row]:
    """The rows of CITED_PAGES of these claims, which have `urls`, in order; counts their pages by state."""
    best, counted = _best_windows(context, claims, snapshot), set[tuple[str, str]]()
    for claim in claims:
        found = [_page(url, snapshot(url), best) for url in claim["urls"]]
        for page in found:
            context.count(f"cited pages {page['state']}", (claim["answer_id"], page["url"]) not in counted)
            counted.add((claim["answer_id"], page["url"]))
        yield {name: claim[name] for name in ("claim_id", "answer_id", "question_id", "system")} | {"pages": found}


_COLUMNS = ("claim_id", "answer_id", "question_id", "system", "text", "evidence")


def _addresses(claim: Row) -> list[str]:
    """The addresses among a claim's evidence that have no text, in order, each once, `in_full`."""
    bare = (one["url"] for one in claim["evidence"] if one["url"] and not one["text"])
    return list(dict.fromkeys(map(in_full, bare)))


def _page(url: str, snapshot: Snapshot, best: Iterator[list[Row]]) -> Row:
    """A row of CITED_PAGE. `best`: yields the windows chosen for each readable page, in the order of the claims."""
    windows = next(best) if snapshot.windows else []
    return {"url": url, **snapshot._asdict(), "windows": windows}


def _best_windows(context: StageContext, claims: list[Row], snapshot: Callable[[str], Snapshot]) -> Iterator[list[Row]]:
    """For each claim and each readable page that it cites, in order: at most WINDOWS windows of the page, as rows of
    PASSAGE, best first; the first of the page where no word of the claim is in it.
    """
    cited = [(claim, url) for claim in claims for url in claim["urls"]]
    queries = {place: [("", _query(claim))] for place, (claim, _) in enumerate(cited)}
    held: dict[int, tuple[Row, ...]] = {}

    def passages() -> Iterator[Passage]:
        for place, (_, url) in enumerate(cited):
            if windows := snapshot(url).windows:
                held[place] = windows
                yield from (Passage(row["passage_id"], row["text"], place) for row in windows)

    for place, hits in best_passages(context, queries, passages(), backend="bm25", embedding=None, k=WINDOWS):
        windows = held.pop(place)
        rows = {row["passage_id"]: row for row in windows}
        found = [(rows[hit.passage_id], hit.score) for hit in hits.get("", [])] or [(windows[0], 0.0)]
        yield [{"corpus": CITED, "score": score, **{name: row[name] for name in KEPT}} for row, score in found]


def _query(claim: Row) -> str:
    """The words of a claim, without its citations."""
    return without_marks(claim["text"])


# ---------------------------------------------------------------- snapshots


def _given(pages: Rows, wanted: Iterable[str]) -> Callable[[str], Snapshot]:
    """A function from an address to its snapshot among given pages, which are windows in the order of their pages."""
    normal = {url: normal_url(url) for url in wanted}
    looked_for = {page for page in normal.values() if page}
    found: dict[str, list[Row]] = {}
    for batch in pages.batches([*KEPT, "retrieved_at"]) if looked_for else ():
        addresses = [normal_url(url) or "" for url in batch.column("url").to_pylist()]
        chosen = [address in looked_for for address in addresses]
        if any(chosen):
            rows = batch.filter(pc.equal(chosen, True)).to_pylist()
            for address, row in zip((one for one in addresses if one in looked_for), rows, strict=True):
                found.setdefault(address, []).append(row)

    def snapshot(url: str) -> Snapshot:
        if not (windows := found.get(normal[url] or "")):
            return Snapshot("not among the pages", "no such page is given")
        month, title = month_of(windows[0]["retrieved_at"]), windows[0]["title"]
        if len(windows) == 1 and (wall := wall_of(title, windows[0]["text"])):
            return Snapshot("unreadable", wall.kind, month)
        return Snapshot("read", None, month, title, tuple(windows))

    return snapshot


def _fetched(
    context: StageContext, wanted: Iterable[str], extractor: Extractor, crawl: Crawl, search: Search
) -> Callable[[str], Snapshot]:
    """A function from an address to its snapshot. All pages are fetched and stored before this returns."""
    normal = {url: normal_url(url) for url in wanted}
    client = context.web(crawl.manners)
    get = partial(get_page, client, crawl)
    for _ in client.each(dict.fromkeys(page for page in normal.values() if page and not crawl.leaves(page)), get):
        pass

    @lru_cache(PAGES_KEPT)
    def read(address: str) -> Snapshot:
        if crawl.leaves(address):
            return Snapshot("taken down", "its address is taken down")
        page = get(address)
        month = month_of(page.fetched_at)
        if page.error:
            return Snapshot("dead", page.error, month)
        if crawl.leaves(page.final_url):
            return Snapshot("taken down", "the address it leads to is taken down", month)
        try:
            text = page_text(page, extractor)
        except Unusable as error:
            return Snapshot("unreadable", error.reason, month)
        document = Document(address, text.title, text.text, None, page.fetched_at)
        windows = tuple(passages_of(document, tokenizer=search.tokenizer, size=search.size, overlap=search.overlap))
        return Snapshot("read", None, month, text.title, windows)

    def snapshot(url: str) -> Snapshot:
        address = normal[url]
        return read(address) if address else Snapshot("dead", "no address of a page")

    return snapshot


def month_of(moment: Any) -> str | None:
    """Year and month (UTC, such as 2026-11) of a moment, in milliseconds since 1970 or as a datetime; None of None."""
    if moment is None:
        return None
    when = moment if isinstance(moment, datetime) else datetime.fromtimestamp(moment / 1_000, UTC)
    return f"{when:%Y-%m}"


# ---------------------------------------------------------------- evidence


@stage(CLAIMS, revision=2)
def link_cited_pages(context: StageContext, claims: Rows, cited: Rows) -> Iterator[Row]:
    """All claims, with the windows of the pages they cite in place of evidence that is an address alone; addresses
    without a readable page stay, without user and password. ConservationError if `cited` is not in the
    order of the claims.
    """
    for claim, own in zip(claims, cited, strict=True):
        if claim["claim_id"] != own["claim_id"]:
            raise ConservationError(
                f"link_cited_pages: {own['claim_id']} was read where {claim['claim_id']} was asked."
            )
        windows = {page["url"]: page["windows"] for page in own["pages"] if page["windows"]}
        evidence = [without_logins_in(one) | {"url": one["url"] and in_full(one["url"])} for one in claim["evidence"]]
        yield {**claim, "evidence": [each for one in evidence for each in _with_text(one, windows)]}


def _with_text(evidence: Row, windows: dict[str, list[Row]]) -> list[Row]:
    """The piece of evidence once for each window of its page, as `given` the first alone; unchanged without one."""
    found = windows.get(evidence["url"] or "", []) if not evidence["text"] else []
    return [
        {**evidence, "passage_id": row["passage_id"], "text": row["text"]} | ({"given": None} if place else {})
        for place, row in enumerate(found)
    ] or [evidence]
