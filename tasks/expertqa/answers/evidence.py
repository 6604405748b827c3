"""Evidence: passages of a local corpus (`sphere`) and of the web (`gs`) for questions, claims and atomic claims.

    found = find_for_questions(run, questions, corpus, pages, search=Search("bm25"), corpora=["sphere", "gs"],
                               embedding=None, web=None, crawl=None)

The corpus gives its best 5 passages, the web its best 10 windows (ExpertQA, section 3 and appendix). The web is a file
of pages that is ranked whole or, with `web`, a search whose results are fetched, cut into windows and ranked query by
query. Every call of the web is stored; one that fails for a passing reason leaves the part open.

`embedding`, `web` and `crawl` are arguments of their own, not fields of `Search`: a plan, and who keeps to the rates of
the web, look for them among a stage's arguments.
"""

from __future__ import annotations

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
    from longform.net.pages import Page
    from tasks.retrieval.hits import Hit

SPHERE, GS = "sphere", "gs"
CORPORA = (SPHERE, GS)
PAGES_KEPT = 64  # read, as claims of one answer lead to the same pages
OF_QUESTIONS = ["question_id", "question", "answers"]
KEPT = ["passage_id", "url", "title", "text"]
Query = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Search:
    """How passages are found: by bm25, tantivy, dense or hybrid, so many of each corpus.

    Of a web search `results` pages are read, and cut into windows of `size` tokens of `tokenizer`.
    """

    backend: str = "bm25"
    corpus_k: int = 5
    pages_k: int = 10
    results: int = 10
    tokenizer: str = "spacy-en"
    size: int = 1000
    overlap: int = 200

    def identity(self) -> dict[str, Any]:
        return asdict(self)


def check_search(
    search: Search, *, embedding: Endpoint | str | None, web: WebBackend | None, crawl: Crawl | None
) -> None:
    """Raise UsageError where evidence cannot be found that way, before any work is done."""
    check_backend(search.backend, embedding)
    check_windows(search.size, search.overlap)
    check_tokenizer(search.tokenizer)
    if web is not None and crawl is None:
        raise UsageError(f"A web search by {web.kind} needs to know how its pages are fetched: set crawl.")


def check_corpora(names: Iterable[str]) -> None:
    """Raise UsageError for a corpus that there is none of."""
    for name in names:
        if name not in CORPORA:
            raise UsageError(f'There is no corpus "{name}": choose one of {", ".join(CORPORA)}.')


# ---------------------------------------------------------------- stages


def _embedded(of: Sizes, queries: str) -> float:
    """Calls for queries, and, once a build, for what they are looked up in; of pages on the web nothing says it."""
    if of["web"] is not None:
        return UNKNOWN
    return embedding_calls(of[queries] + of["corpus"] + of["pages"], 2 + of.units)


@stage(FOUND_FOR_QUESTIONS, revision=1, at_most=AtMost(calls=lambda of: _embedded(of, "questions")))
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
    """The best passages of these corpora for each question; none for those that come with answers."""
    check_corpora(corpora)
    queries = [(row["question_id"], row["question"]) for row in _rows(questions, OF_QUESTIONS) if not row["answers"]]
    asked = dict.fromkeys(corpora, queries)
    yield from _found(context, questions, asked, _Places(corpus, pages, search, embedding, web, crawl))


@stage(FOUND_FOR_CLAIMS, revision=2, at_most=AtMost(calls=lambda of: _embedded(of, "claims")))
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
    """The best passages for each claim of a post-hoc system, of the corpus that `systems` names for it.

    The query is the claim without its citation marks. Claims of others, and released ones, which have their evidence,
    get an empty list.
    """
    check_corpora(systems.values())
    asked: dict[str, list[Query]] = {name: [] for name in CORPORA if name in systems.values()}
    for claim in _rows(claims, ["claim_id", "system", "text", "original"]):
        if claim["system"] in systems and claim["original"] is None:
            asked[systems[claim["system"]]].append((claim["claim_id"], without_marks(claim["text"])))
    yield from _found(context, claims, asked, _Places(corpus, pages, search, embedding, web, crawl))


@stage(FOUND_FOR_FACTS, revision=1, at_most=AtMost(calls=lambda of: _embedded(of, "facts")))
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
    """The best passages of these corpora for each atomic claim: FActScore reads 3 (`corpus_k`, `pages_k`)."""
    check_corpora(corpora)
    asked = dict.fromkeys(corpora, _texts(facts, ["fact_id", "text"]))
    yield from _found(context, facts, asked, _Places(corpus, pages, search, embedding, web, crawl))


@stage(CLAIMS, revision=1)
def link_evidence(context: StageContext, claims: Rows, found: Rows) -> Iterator[Row]:
    """The claims, those for which passages were found with these as their evidence; all others as they are."""
    for claim, own in zip(claims, found, strict=True):
        if claim["claim_id"] != own["claim_id"]:
            raise ConservationError(f"link_evidence: {own['claim_id']} was found where {claim['claim_id']} was asked.")
        evidence = [_evidence(passage) for passage in own["passages"]]
        yield {**claim, "evidence": evidence} if evidence else claim


def _evidence(passage: Row) -> Row:
    return {"number": None, "given": None, **{name: passage[name] for name in ("url", "passage_id", "text")}}


# ---------------------------------------------------------------- finding


class _Places(NamedTuple):
    """Where passages are looked for, and how."""

    corpus: Rows
    pages: Rows
    search: Search
    embedding: Endpoint | str | None
    web: WebBackend | None
    crawl: Crawl | None

    def local(self, asked: Mapping[str, Sequence[Query]]) -> dict[str, Rows]:
        """The corpora at hand of those that are asked, by name."""
        held = {SPHERE: self.corpus} if self.web else {SPHERE: self.corpus, GS: self.pages}
        return {name: rows for name, rows in held.items() if asked.get(name)}

    def most(self, corpus: str) -> int:
        return self.search.corpus_k if corpus == SPHERE else self.search.pages_k

    def ways(self) -> dict[str, Any]:
        return {"backend": self.search.backend, "embedding": self.embedding}


def _found(context: StageContext, rows: Rows, asked: Mapping[str, Sequence[Query]], places: _Places) -> Iterator[Row]:
    """A row for each of `rows`, in their order: passages of sphere, then of gs."""
    check_search(places.search, embedding=places.embedding, web=places.web, crawl=places.crawl)
    wanted = {name for own in asked.values() for name, _ in own}
    local = _find_local(context, asked, places)
    remote = _find_remote(context, asked.get(GS, ()), places)
    next_remote = next(remote, None)
    for row in _rows(rows, list(dict.fromkeys([rows.key, "question_id"]))):
        name = row[rows.key]
        passages = [local.passage(*hit) for hit in local.hits.get(name, ())]
        if next_remote and next_remote[0] == name:
            passages += next_remote[1]
            next_remote = next(remote, None)
        if name in wanted:
            context.count("searches", 1)
            context.count("searches without a passage", int(not passages))
        yield {**row, "passages": passages}


def _rows(rows: Rows, columns: list[str]) -> Iterator[Row]:
    for batch in rows.batches(columns):
        yield from batch.to_pylist()


def _texts(rows: Rows, columns: list[str]) -> list[Query]:
    return [(name, text) for name, text in (row.values() for row in _rows(rows, columns))]


def _passage(corpus: str, hit: Hit, row: Row) -> Row:
    return {"corpus": corpus, "score": hit.score, **{name: row[name] for name in KEPT}}


# ---------------------------------------------------------------- what is at hand


class _Local:
    """What was found, by query, and its passages, in a file that memory need not hold."""

    def __init__(self, hits: dict[str, list[tuple[str, Hit]]], file: Path, held: Iterable[Rows]) -> None:
        self.hits = hits
        wanted = {hit.passage_id for own in hits.values() for _, hit in own}
        _write_passages(file, held, pa.array(sorted(wanted), pa.string()))
        self._table = pa.ipc.open_file(pa.memory_map(str(file))).read_all()
        self._places = {name: place for place, name in enumerate(self._table.column("passage_id").to_pylist())}

    def passage(self, corpus: str, hit: Hit) -> Row:
        (row,) = self._table.slice(self._places[hit.passage_id], 1).to_pylist()
        return _passage(corpus, hit, row)


def _find_local(context: StageContext, asked: Mapping[str, Sequence[Query]], places: _Places) -> _Local:
    held, ways, k = places.local(asked), places.ways(), max(map(places.most, CORPORA))
    hits: dict[str, list[tuple[str, Hit]]] = {}
    for corpus, found in best_of_corpora(context, asked, held, **ways, k=k):
        for name, own in found.items():
            hits.setdefault(name, []).extend((corpus, hit) for hit in own[: places.most(corpus)])
    return _Local(hits, context.scratch() / "passages.arrow", held.values())


def _write_passages(file: Path, held: Iterable[Rows], wanted: pa.Array) -> None:
    columns = pa.schema([DOCUMENTS.field(name) for name in KEPT])
    with pa.ipc.new_file(file, columns) as writer:
        for batch in (batch for rows in held for batch in rows.batches(KEPT)):
            if (found := batch.filter(pc.is_in(batch.column("passage_id"), wanted))).num_rows:
                writer.write_batch(found.cast(columns))


# ---------------------------------------------------------------- the web


def _find_remote(context: StageContext, asked: Sequence[Query], places: _Places) -> Iterator[tuple[str, list[Row]]]:
    """The best windows of the pages that a web search leads to, for each query that has any, in their order."""
    web, crawl = places.web, places.crawl
    if web is None or crawl is None or not asked:
        return
    leading = {
        name: [found for found, _ in own if not crawl.leaves(found.url)]
        for (name, _), own in web_results(context, web, asked, places.search.results)
    }
    get = partial(get_page, visitor := context.web(crawl.manners), crawl)
    for _ in visitor.each(dict.fromkeys(found.url for own in leading.values() for found in own), get):
        pass  # all are stored, or known not to be had, before any is read
    held: dict[str, dict[str, Row]] = {}
    with Extractor(context.scratch()) as extractor:
        read = lru_cache(PAGES_KEPT)(lambda url: _windows(get(url), extractor, crawl, places.search))
        passages = _web_passages(leading, held, read)
        queries = {name: [(name, text)] for name, text in asked}
        for name, found in best_passages(context, queries, passages, **places.ways(), k=places.search.pages_k):
            windows = held.pop(name)
            yield name, [_passage(GS, hit, windows[hit.passage_id]) for hit in found[name]]


def _web_passages(
    leading: Mapping[str, Sequence[Found]], held: dict[str, dict[str, Row]], windows: Callable[[str], list[Row]]
) -> Iterator[Passage]:
    """The windows of each query's pages; `held` keeps their rows until somebody takes them out."""
    for name, found in leading.items():
        rows = [{**row, "title": row["title"] or one.title or None} for one in found for row in windows(one.url)]
        if rows:
            held[name] = {row["passage_id"]: row for row in rows}
            yield from (Passage(row["passage_id"], row["text"], name) for row in rows)


def _windows(page: Page, extractor: Extractor, crawl: Crawl, search: Search) -> list[Row]:
    """None of a page that could not be had or read, or leads to one that is taken down."""
    if crawl.leaves(page.final):
        return []
    try:
        text = page_text(page, extractor)
    except Unusable:
        return []
    document = Document(page.url, text.title, text.text, None, page.fetched_at)
    return [*passages_of(document, tokenizer=search.tokenizer, size=search.size, overlap=search.overlap)]
