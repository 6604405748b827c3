"""Retrieval of evidence from a local corpus (`sphere`) and the web (`gs`) for questions, claims and atomic claims.

    found = find_for_questions(builder, questions, corpus, pages, search=Search("bm25"), corpora=["sphere", "gs"],
                               embedding=None, web=None, crawl=None)

Each query gets the 5 best passages of the corpus and the 10 best windows of web pages (ExpertQA, section 3 and
appendix). The web is either a file of pages, ranked as one collection, or, with `web`, a search whose result pages are
fetched, cut into windows and ranked for each query. Web responses are stored; after a transient failure the part stays
unfinished, and the next build continues it.

`embedding`, `web` and `crawl` are arguments of the stages, not fields of `Search`, because plans and rate limits look
for them among a stage's arguments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from longform.engine.at_most import UNKNOWN, Sizes, embedding_calls
from longform.engine.stage import AllRows, AtMost, Row, Rows, StageContext, stage
from longform.errors import ConservationError, UsageError
from longform.llm.ask.types import Endpoint
from schemas.expertqa import CLAIMS, DOCUMENTS, FOUND_FOR_CLAIMS, FOUND_FOR_FACTS, FOUND_FOR_QUESTIONS
from tasks.expertqa.answers.citations import without_marks
from tasks.expertqa.corpora import Document, passages_of
from tasks.sources.web.extraction import Extractor, Unusable
from tasks.sources.web.search import Passage, best_of_corpora, best_passages, check_backend
from tasks.sources.web.web import Crawl, Found, WebBackend, get_page, page_text, web_results
from tasks.text.windows import check_tokenizer, check_windows

if TYPE_CHECKING:
    from longform.net.web import Page
    from tasks.retrieval.hits import Hit

SPHERE, GS = "sphere", "gs"
CORPORA = (SPHERE, GS)
PAGES_KEPT = 64  # windows cached in memory: claims of one answer lead to the same pages
KEPT = ["passage_id", "url", "title", "text"]
Query = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Search:
    """Settings of retrieval. `backend`: bm25, tantivy, dense or hybrid.

    `corpus_k`, `pages_k`: how many passages one query gets, at most, from the local corpus and from the web.
    `results`: how many pages are read for each web search; they are cut into windows of `size` tokens of `tokenizer`,
    of which neighbours share `overlap` tokens.
    """

    backend: str = "bm25"
    corpus_k: int = 5
    pages_k: int = 10
    results: int = 10
    tokenizer: str = "spacy-en"
    size: int = 1000
    overlap: int = 200

    def identity(self) -> dict[str, Any]:
        """All settings by name, as they stand in the recipe of a stage."""
        return asdict(self)


def check_search(
    search: Search, *, embedding: Endpoint | str | None, web: WebBackend | None, crawl: Crawl | None
) -> None:
    """Raise UsageError for settings that cannot work together, an unknown backend or tokenizer, or a package that is
    not installed, before any work is done.
    """
    check_backend(search.backend, embedding)
    check_windows(search.size, search.overlap)
    check_tokenizer(search.tokenizer)
    if web is not None and crawl is None:
        raise UsageError(f"A web search by {web.kind} needs to know how its pages are fetched: set crawl.")


# ---------------------------------------------------------------- stages


def _embedding_calls_at_most(of: Sizes, queries: str) -> float:
    """Upper bound of embedding calls for the queries and, once per build, the corpora; UNKNOWN for a web search. `of`:
    the sizes and arguments of the stage. `queries`: the input whose rows are the queries.
    """
    if of["web"] is not None:
        return UNKNOWN
    return embedding_calls(of[queries] + of["corpus"] + of["pages"], 2 + of.units)


@stage(FOUND_FOR_QUESTIONS, revision=3, at_most=AtMost(calls=lambda of: _embedding_calls_at_most(of, "questions")))
def find_for_questions(
    context: StageContext,
    questions: Rows,
    corpus: AllRows,
    pages: AllRows,
    *,
    search: Search,
    corpora: list[str],
    embedding: Endpoint | str | None,
    web: WebBackend | None,
    crawl: Crawl | None,
) -> Iterator[Row]:
    """For each question the best passages of these corpora: `sphere` (the local `corpus`) and `gs` (the web: a search
    by `web`, or, without one, the given `pages`). Passages of sphere come first, each corpus best first.

    An empty list for questions that came with answers in the released data. UsageError for unknown corpora and
    settings that cannot work together.
    """
    rows = questions.as_dicts("question_id", "question", "answers")
    queries = [(row["question_id"], row["question"]) for row in rows if not row["answers"]]
    retrieval = _Retrieval(corpus, pages, search, embedding, web, crawl)
    yield from _with_passages(context, questions, dict.fromkeys(corpora, queries), retrieval)


@stage(FOUND_FOR_CLAIMS, revision=4, at_most=AtMost(calls=lambda of: _embedding_calls_at_most(of, "claims")))
def find_for_claims(
    context: StageContext,
    claims: Rows,
    corpus: AllRows,
    pages: AllRows,
    *,
    search: Search,
    systems: dict[str, str],
    embedding: Endpoint | str | None,
    web: WebBackend | None,
    crawl: Crawl | None,
) -> Iterator[Row]:
    """For each claim of a post-hoc system the best passages of that system's corpus. `systems`: system -> corpus,
    sphere or gs (see `find_for_questions`).

    The query is the claim without its citation marks. Claims of other systems get an empty list, and so do released
    claims, which have evidence already. UsageError for unknown corpora and settings that cannot work together.
    """
    asked: dict[str, list[Query]] = {name: [] for name in systems.values()}
    for claim in claims.as_dicts("claim_id", "system", "text", "original"):
        if claim["system"] in systems and claim["original"] is None:
            asked[systems[claim["system"]]].append((claim["claim_id"], without_marks(claim["text"])))
    yield from _with_passages(context, claims, asked, _Retrieval(corpus, pages, search, embedding, web, crawl))


@stage(FOUND_FOR_FACTS, revision=3, at_most=AtMost(calls=lambda of: _embedding_calls_at_most(of, "facts")))
def find_for_facts(
    context: StageContext,
    facts: Rows,
    corpus: AllRows,
    pages: AllRows,
    *,
    search: Search,
    corpora: list[str],
    embedding: Endpoint | str | None,
    web: WebBackend | None,
    crawl: Crawl | None,
) -> Iterator[Row]:
    """For each atomic claim the best passages of these corpora, sphere and gs (see `find_for_questions`): at most
    `search.corpus_k` and `search.pages_k` of them, 3 each for FActScore. UsageError for unknown corpora and settings
    that cannot work together.
    """
    queries = [(row["fact_id"], row["text"]) for row in facts.as_dicts("fact_id", "text")]
    retrieval = _Retrieval(corpus, pages, search, embedding, web, crawl)
    yield from _with_passages(context, facts, dict.fromkeys(corpora, queries), retrieval)


@stage(CLAIMS, revision=1)
def link_evidence(context: StageContext, claims: Rows, found: Rows) -> Iterator[Row]:
    """All claims, with the passages found for a claim in place of its evidence; a claim for which none was found stays
    unchanged.

    ConservationError if `found` is not in the order of the claims.
    """
    for claim, own in zip(claims, found, strict=True):
        if claim["claim_id"] != own["claim_id"]:
            raise ConservationError(f"link_evidence: {own['claim_id']} was found where {claim['claim_id']} was asked.")
        evidence = [
            {"number": None, "given": None, **{name: passage[name] for name in ("url", "passage_id", "text")}}
            for passage in own["passages"]
        ]
        yield {**claim, "evidence": evidence} if evidence else claim


# ---------------------------------------------------------------- finding


class _Retrieval(NamedTuple):
    """The passages to search, `corpus` (named sphere) and `pages` (named gs), and the settings of the search. With
    `web`, gs is a web search, and `pages` is not used.
    """

    corpus: Rows
    pages: Rows
    search: Search
    embedding: Endpoint | str | None
    web: WebBackend | None
    crawl: Crawl | None

    def k(self, corpus: str) -> int:
        """Maximum number of passages of a corpus, sphere or gs, for one query."""
        return self.search.corpus_k if corpus == SPHERE else self.search.pages_k

    def ranking(self) -> dict[str, Any]:
        """The keyword arguments of the search functions that choose how passages are ranked: `backend` and
        `embedding`.
        """
        return {"backend": self.search.backend, "embedding": self.embedding}


def _with_passages(
    context: StageContext, rows: Rows, asked: Mapping[str, Sequence[Query]], retrieval: _Retrieval
) -> Iterator[Row]:
    """For each of `rows`, in order: its key, question id and passages; passages of sphere come before those of gs,
    each best first.

    `asked`: corpus -> queries (key of a row, text) in the order of `rows`; rows without a query get an empty list.
    UsageError for unknown corpora and for settings that cannot work together. Counts the rows with a query, and those
    of them without a passage.
    """
    check_search(retrieval.search, embedding=retrieval.embedding, web=retrieval.web, crawl=retrieval.crawl)
    if unknown := set(asked) - set(CORPORA):
        raise UsageError(f'There is no corpus "{min(unknown)}": choose one of {", ".join(CORPORA)}.')
    wanted = {name for own in asked.values() for name, _ in own}
    local = _search_local(context, asked, retrieval)
    remote = _search_web(context, asked.get(GS, ()), retrieval)
    next_remote = next(remote, None)
    for row in rows.as_dicts(*dict.fromkeys([rows.key, "question_id"])):
        name = row[rows.key]
        passages = local(name)
        if next_remote and next_remote[0] == name:
            passages += next_remote[1]
            next_remote = next(remote, None)
        if name in wanted:
            context.count("searches", 1)
            context.count("searches without a passage", int(not passages))
        yield {**row, "passages": passages}


def _passage(corpus: str, hit: Hit, row: Row) -> Row:
    """A row of PASSAGE from a hit in a corpus (sphere or gs) and the row of the passage that was hit."""
    return {"corpus": corpus, "score": hit.score, **{name: row[name] for name in KEPT}}


# ---------------------------------------------------------------- local corpora


def _search_local(
    context: StageContext, asked: Mapping[str, Sequence[Query]], retrieval: _Retrieval
) -> Callable[[str], list[Row]]:
    """A function from the id of a query to its best passages (rows of PASSAGE) in the corpora that are files: sphere,
    and gs unless it is a web search. [] for a query without a hit.

    `asked`: corpus -> queries (id, text). All queries are searched at once; the texts of their hits are kept in a
    memory-mapped file in the scratch folder.
    """
    held = {SPHERE: retrieval.corpus} if retrieval.web else {SPHERE: retrieval.corpus, GS: retrieval.pages}
    held = {name: rows for name, rows in held.items() if asked.get(name)}
    hits: defaultdict[str, list[tuple[str, Hit]]] = defaultdict(list)
    best = best_of_corpora(context, asked, held, **retrieval.ranking(), k=max(map(retrieval.k, CORPORA)))
    for corpus, found in best:
        for name, own in found.items():
            hits[name] += [(corpus, hit) for hit in own[: retrieval.k(corpus)]]
    file = context.scratch() / "passages.arrow"
    wanted = {hit.passage_id for own in hits.values() for _, hit in own}
    _write_passages(file, held.values(), pa.array(sorted(wanted), pa.string()))
    table = pa.ipc.open_file(pa.memory_map(str(file))).read_all()
    places = {name: place for place, name in enumerate(table.column("passage_id").to_pylist())}

    def passages(query: str) -> list[Row]:
        rows = [(corpus, hit, table.slice(places[hit.passage_id], 1)) for corpus, hit in hits.get(query, ())]
        return [_passage(corpus, hit, row.to_pylist()[0]) for corpus, hit, row in rows]

    return passages


def _write_passages(file: Path, held: Iterable[Rows], wanted: pa.Array) -> None:
    """Write the passages whose ids are in `wanted` to an Arrow file, with the columns KEPT. `held`: the tables to look
    in; a passage that is in several is written several times.
    """
    columns = pa.schema([DOCUMENTS.field(name) for name in KEPT])
    with pa.ipc.new_file(file, columns) as writer:
        for batch in (batch for rows in held for batch in rows.batches(KEPT)):
            if (found := batch.filter(pc.is_in(batch.column("passage_id"), wanted))).num_rows:
                writer.write_batch(found.cast(columns))


# ---------------------------------------------------------------- the web


def _search_web(
    context: StageContext, asked: Sequence[Query], retrieval: _Retrieval
) -> Iterator[tuple[str, list[Row]]]:
    """(query id, at most `pages_k` best windows, as rows of PASSAGE, of the pages that its web search found), in the
    order of the queries. Nothing without a web search or queries.

    Pages that were taken down are left out, and so are queries whose results have no readable page. All pages are
    fetched and stored before any is read. EndpointError if the search refuses, Incomplete if a search or page failed
    for a passing reason.
    """
    web, crawl, search = retrieval.web, retrieval.crawl, retrieval.search
    if web is None or crawl is None or not asked:
        return
    results = {
        name: [found for found, _ in own if not crawl.leaves(found.url)]
        for (name, _), own in web_results(context, web, asked, search.results)
    }
    get = partial(get_page, client := context.web(crawl.manners), crawl)
    for _ in client.each(dict.fromkeys(found.url for own in results.values() for found in own), get):
        pass  # fetch and store every page before reading any
    held: dict[str, dict[str, Row]] = {}
    with Extractor(context.scratch()) as extractor:
        read = lru_cache(PAGES_KEPT)(lambda url: _windows(get(url), extractor, crawl, search))
        passages = _web_passages(results, held, read)
        queries = {name: [(name, text)] for name, text in asked}
        for name, found in best_passages(context, queries, passages, **retrieval.ranking(), k=search.pages_k):
            windows = held.pop(name)
            yield name, [_passage(GS, hit, windows[hit.passage_id]) for hit in found[name]]


def _web_passages(
    results: Mapping[str, Sequence[Found]], held: dict[str, dict[str, Row]], windows: Callable[[str], list[Row]]
) -> Iterator[Passage]:
    """The windows of the pages found for each query, as passages to rank.

    `results`: query id -> pages found; the title of a result replaces a missing one. `windows`: function from an
    address to the page's windows. Before the passages of a query come, their rows are put in `held` (query id ->
    passage id -> row); queries without a window are left out.
    """
    for name, found in results.items():
        rows = [{**row, "title": row["title"] or one.title or None} for one in found for row in windows(one.url)]
        if rows:
            held[name] = {row["passage_id"]: row for row in rows}
            yield from (Passage(row["passage_id"], row["text"], name) for row in rows)


def _windows(page: Page, extractor: Extractor, crawl: Crawl, search: Search) -> list[Row]:
    """Windows of a page as rows of DOCUMENTS; [] if it is unreadable or redirects to an address that was taken down."""
    if crawl.leaves(page.final_url):
        return []
    try:
        text = page_text(page, extractor)
    except Unusable:
        return []
    document = Document(page.url, text.title, text.text, None, page.fetched_at)
    return [*passages_of(document, tokenizer=search.tokenizer, size=search.size, overlap=search.overlap)]
