"""Search for passages that fit questions. Indexes are built for it, and deleted when the build ends at the latest.

    results = search_passages(run, questions, paragraphs, backend="hybrid", k=5, query="question",
                              within="set_id", embedding=endpoint)

Backends: bm25 (exact, in memory) · tantivy (BM25 on disk, for corpora that memory does not hold) · dense (embeddings) ·
hybrid (bm25 and dense, fused). Whatever the backend, equal inputs give equal results.
"""

from __future__ import annotations

import shutil
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import xxhash

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import read_parquet
from longform.engine.stage import AllRows, Row, Rows, StageContext, stage
from longform.errors import UsageError
from longform.llm.ask.types import Endpoint
from schemas.sources.search import RESULTS

if TYPE_CHECKING:
    from tasks.retrieval.hits import Hit, Searcher

BACKENDS = {"bm25": ["bm25s"], "tantivy": ["tantivy"], "dense": ["faiss"], "hybrid": ["bm25s", "faiss"]}
BY_WORDS = ("bm25", "tantivy")
FETCHED = 1_000
Vector = Sequence[float]


class Passage(NamedTuple):
    """A passage. `name`: its id; `value`: the index it belongs to (None: the only one); `vector`: its embedding."""

    name: str
    text: str
    value: Any = None
    vector: Vector = ()


@stage(RESULTS, revision=1)
def search_passages(
    context: StageContext,
    questions: Rows,
    passages: AllRows,
    *,
    backend: str,
    k: int,
    query: str,
    within: str | None,
    embedding: Endpoint | str | None,
) -> Iterator[Row]:
    """A row for each question with its k best passages, best first; `results` is empty if there is none.

    The text of a question is in the column `query`; passages have a column `text`. `within` names a column of both:
    only passages with the question's value of it are searched (a document set, a topic), each value in an index of its
    own. `embedding` is an endpoint, or the name of a local model; dense and hybrid need it. Raises UsageError if the
    backend is unknown, not installed or lacks its embedding.
    """
    check_backend(backend, embedding)
    asked = _queries_by_value(questions, query, within)
    rows = (row for row in _rows(context, passages, within) if row.value in asked)
    found: dict[str, list[Hit]] = {}
    for _, hits in best_passages(context, asked, rows, backend=backend, embedding=embedding, k=k):
        found |= hits
    for name in (name for batch in questions.batches([questions.key]) for name in batch.column(0).to_pylist()):
        ranked = enumerate(found.get(name, []), start=1)
        yield {"query_id": name, "results": [{**hit._asdict(), "rank": rank} for rank, hit in ranked]}
    context.count("queries without a passage", questions.count - sum(map(bool, found.values())))


def best_passages(
    context: StageContext,
    asked: Mapping[Any, Sequence[tuple[str, str]]],
    passages: Iterable[Passage],
    *,
    backend: str,
    embedding: Endpoint | str | None,
    k: int,
) -> Iterator[tuple[Any, dict[str, list[Hit]]]]:
    """(value, hits) for each run of passages with the same `value`, in their order; hits: id of a query -> its k best
    of them. Each value has an index of its own.

    `passages`: those of one value follow each other. `asked`: value -> (id, text) of its queries; it must have every
    passage's value. `backend`: one of BACKENDS; `embedding`: an endpoint or local model, used by dense and hybrid
    only, which embed all queries first, also those without passages, and leave out blank passages.
    """
    queries: dict[str, Vector] = {}
    if embedding and backend in ("dense", "hybrid"):
        texts = [text for own in asked.values() for _, text in own]
        queries, passages = _embedded(context, embedding, texts, passages)
    for value, own in groupby(passages, key=attrgetter("value")):
        folder = context.scratch() / "index"
        try:
            _write_index(backend, own, folder)
            yield value, _hits_by_query(_open_index(backend, queries, folder), asked[value], k)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def best_of_corpora(
    context: StageContext,
    asked: Mapping[str, Sequence[tuple[str, str]]],
    corpora: Mapping[str, Rows],
    *,
    backend: str,
    embedding: Endpoint | str | None,
    k: int,
) -> Iterator[tuple[str, dict[str, list[Hit]]]]:
    """(name, hits) for each corpus that has passages; hits: id of a query -> its k best passages.

    `asked`: name of a corpus -> (id, text) of each query. Indexes are built once, for all units of the build; corpora
    of the same parts share one. Passages have a column `text`; one that is in several parts of a corpus counts once,
    by its id. For `backend` and `embedding` see `best_passages`.
    """
    queries: dict[str, Vector] = {}
    made_by = [backend, embedding.identity() if isinstance(embedding, Endpoint) else embedding]
    with context.shared() as folder:
        places = {
            name: folder / fingerprint([*made_by, [part.sha256 for part in rows.parts or ()]])
            for name, rows in corpora.items()
        }
        missing = {place: name for name, place in reversed(places.items()) if not place.exists()}.values()
        passages: Iterator[Passage] = (Passage(*pair, name) for name in missing for pair in _each_once(corpora[name]))
        if embedding and backend in ("dense", "hybrid"):
            texts = [text for name in corpora for _, text in asked[name]]
            queries, passages = _embedded(context, embedding, texts, passages)
        for name, own in groupby(passages, key=attrgetter("value")):
            making = folder / "index.making"
            shutil.rmtree(making, ignore_errors=True)
            _write_index(backend, own, making)
            making.rename(places[name])
    for name, place in places.items():
        if place.exists():
            yield name, _hits_by_query(_open_index(backend, queries, place), asked[name], k)


def shared_index(context: StageContext, passages: Rows, *, backend: str) -> Searcher | None:
    """An index of the passages by words, built once for all units of the build; None if there is no passage.

    `backend`: bm25 or tantivy; with tantivy memory does not grow with the passages, which have a column `text`.
    UsageError if it is unknown, or not installed.
    """
    if backend not in BY_WORDS:
        raise UsageError(f'"{backend}" is no search by words: choose one of {", ".join(BY_WORDS)}.')
    check_backend(backend, None)
    if not passages.count:
        return None
    with context.shared() as folder:
        place = folder / fingerprint([backend, [part.sha256 for part in passages.parts or ()]])
        if not place.exists():
            making = folder / "index.making"
            shutil.rmtree(making, ignore_errors=True)
            _write_index(backend, _rows(context, passages, None), making)
            making.rename(place)
    return _open_index(backend, {}, place)


def _each_once(rows: Rows) -> Iterator[tuple[str, str]]:
    """(id, text) of the passages in `rows`, in order; of those with one id the first."""
    seen: set[int] = set()
    for batch in rows.batches([rows.key, "text"]):
        for name, text in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            digest = xxhash.xxh3_64_intdigest(name.encode())
            if digest not in seen:
                seen.add(digest)
                yield name, text


def check_backend(backend: str, embedding: Endpoint | str | None) -> None:
    """Raise UsageError if the backend is unknown or not installed, or lacks the embedding it needs.

    `embedding`: an endpoint or the name of a local model; dense and hybrid need one. Of a local model it is only
    checked that the library for it is installed.
    """
    if backend not in BACKENDS:
        raise UsageError(f'There is no search backend "{backend}": choose one of {", ".join(BACKENDS)}.')
    missing = [name for name in BACKENDS[backend] if find_spec(name) is None]
    if missing:
        raise UsageError(
            f'The search backend "{backend}" needs {" and ".join(missing)}: '
            'install the extra with `pip install -c constraints.txt -e ".[search]"`.'
        )
    if backend in ("dense", "hybrid") and not embedding:
        raise UsageError(f'The search backend "{backend}" needs an embedding: set an endpoint or a local model.')
    if backend in ("dense", "hybrid") and isinstance(embedding, str):
        from tasks.retrieval.dense import check_local_models

        check_local_models(embedding)


def _queries_by_value(questions: Rows, query: str, within: str | None) -> dict[Any, list[tuple[str, str]]]:
    """Value of the column `within` -> (id, text) of the questions with that value.

    The key is None if `within` is None. `query`: the column with the text; null becomes "".
    """
    columns = list(dict.fromkeys([questions.key, query, *([within] if within else [])]))
    asked: defaultdict[Any, list[tuple[str, str]]] = defaultdict(list)
    for batch in questions.batches(columns):
        for row in batch.to_pylist():
            asked[row[within] if within else None].append((row[questions.key], row[query] or ""))
    return asked


def _rows(context: StageContext, passages: Rows, within: str | None) -> Iterator[Passage]:
    """The passages, without vectors; with `within`, those with the same value of that column follow each other."""
    if within is not None:
        yield from _sorted(context, passages, within)
        return
    for batch in passages.batches([passages.key, "text"]):
        yield from (Passage(row[passages.key], row["text"]) for row in batch.to_pylist())


def _sorted(context: StageContext, passages: Rows, within: str) -> Iterator[Passage]:
    """The passages, sorted by the column `within`, then by id; on disk if they do not fit into memory."""
    import duckdb

    if not passages.paths:
        return
    columns = ", ".join(f'"{name}"' for name in (passages.key, "text", within))
    query = f"SELECT {columns} FROM {read_parquet(passages.paths)} ORDER BY 3, 1"
    settings: dict[str, Any] = {"memory_limit": "512MB", "threads": 2, "temp_directory": str(context.scratch())}
    with duckdb.connect(config=settings) as database:
        rows = database.execute(query)
        while chunk := rows.fetchmany(FETCHED):
            yield from (Passage(*row) for row in chunk)


def _embedded(
    context: StageContext, embedding: Endpoint | str, queries: Iterable[str], rows: Iterable[Passage]
) -> tuple[dict[str, Vector], Iterator[Passage]]:
    """(text of a query -> its vector, the passages with their vectors).

    Queries and passages of blank text are left out. The queries are embedded at once, the passages as they are taken;
    all texts are one sequence, so that a plan can count them.
    """
    asked = [text for text in dict.fromkeys(queries) if text.strip()]
    waiting: deque[Passage] = deque()
    vectors = _vectors(context, embedding, chain(asked, _noting(rows, waiting)))
    return {text: next(vectors) for text in asked}, (waiting.popleft()._replace(vector=one) for one in vectors)


def _noting(rows: Iterable[Passage], waiting: deque[Passage]) -> Iterator[str]:
    """The texts of the passages that are not blank, in order.

    Each of these passages is also appended to `waiting`, from which it is taken when its vector is there.
    """
    for row in rows:
        if row.text.strip():
            waiting.append(row)
            yield row.text


def _vectors(context: StageContext, embedding: Endpoint | str, texts: Iterable[str]) -> Iterator[Vector]:
    """One vector for each text, in order, from an endpoint or a local model."""
    if isinstance(embedding, Endpoint):
        yield from context.embeddings(embedding, texts)
        return
    from tasks.retrieval.dense import embedded, local_model

    yield from (vector for _, vector in embedded((("", text) for text in texts), local_model(embedding)))


def _hits_by_query(searcher: Searcher, asked: Sequence[tuple[str, str]], k: int) -> dict[str, list[Hit]]:
    """id of a query -> its k best hits, best first. `asked`: (id, text) of each query."""
    hits = searcher.search([text for _, text in asked], k)
    return dict(zip((name for name, _ in asked), hits, strict=True))


def _write_index(backend: str, passages: Iterable[Passage], folder: Path) -> None:
    """Write the index that the backend needs to `folder`, which must not exist. For hybrid these are two.

    For dense and hybrid the passages have vectors.
    """
    from tasks.retrieval.bm25 import FixedIndex
    from tasks.retrieval.dense import write_vectors
    from tasks.retrieval.growing import GrowingIndex

    folder.mkdir()
    if backend == "tantivy":
        with GrowingIndex(folder / "tantivy", write=True) as index:
            index.add((row.name, row.text) for row in passages)
            return index.commit()
    if backend != "bm25":
        texts: deque[Passage] = deque(maxlen=None if backend == "hybrid" else 0)
        write_vectors(_vectors_of(passages, texts), folder)
        passages = texts
    if backend != "dense":
        FixedIndex.build(((row.name, row.text) for row in passages), folder / "bm25")
    return None


def _vectors_of(passages: Iterable[Passage], texts: deque[Passage]) -> Iterator[tuple[str, Vector]]:
    """(id, vector) of each passage; the passage without its vector is appended to `texts`."""
    for row in passages:
        texts.append(row._replace(vector=()))
        yield row.name, row.vector


def _open_index(backend: str, queries: dict[str, Vector], folder: Path) -> Searcher:
    """The index in `folder`, ready to be searched.

    `queries`: text of a query -> its vector, for dense and hybrid; other queries than these cannot be searched then.
    """
    from tasks.retrieval.bm25 import FixedIndex
    from tasks.retrieval.dense import DenseIndex
    from tasks.retrieval.growing import GrowingIndex
    from tasks.retrieval.hits import Hybrid

    if backend == "bm25":
        return FixedIndex(folder / "bm25")
    if backend == "tantivy":
        return GrowingIndex(folder / "tantivy")
    dense = DenseIndex(folder, lambda asked: [queries[text] for text in asked])
    return dense if backend == "dense" else Hybrid([FixedIndex(folder / "bm25"), dense])
