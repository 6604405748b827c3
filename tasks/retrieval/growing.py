"""BM25 over a corpus that grows: a tantivy index on disk, to which passages are added and from which they are deleted.

    with GrowingIndex(folder, write=True) as index:
        index.add([("a#0", "How to brew tea.")])
        index.delete(["b#3"])                       # a takedown
        index.commit()
        index.search(["tea"], 10)

What is committed survives a kill; what is not is gone. One process may write, others may read meanwhile.
Scores are Lucene's BM25 with k1 1.2, b 0.75 and lengths in 256 steps: near to those of a fixed index, not equal.
A deleted passage is never found again, but counts in the statistics of words until its segment is merged; its text is
not in the index, only which words it had. To be rid of those too, build the index anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from longform.errors import BusyError
from tasks.retrieval.hits import Hit, best, words

DECIMALS = 4
MEMORY_BYTES = 64_000_000
ID_BYTES = 60_000  # tantivy forgets longer ones in silence
MORE = 16


class GrowingIndex:
    """BusyError where it is opened to be written while somebody else writes it."""

    def __init__(self, folder: Path, *, write: bool = False) -> None:
        import tantivy

        folder.mkdir(parents=True, exist_ok=True)
        self._schema = _schema()
        self._index = tantivy.Index(self._schema, path=str(folder), reuse=True)
        try:
            self._writer: Any = self._index.writer(MEMORY_BYTES, num_threads=1) if write else None
        except ValueError as error:
            if "LockBusy" not in str(error):
                raise
            raise BusyError(f"The index {folder} is being written by somebody else: wait until that is done.") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, passages: Iterable[tuple[str, str]]) -> None:
        """Add (id, text) pairs; one with an id that is there takes its place."""
        import tantivy

        for name, text in passages:
            if len(name.encode()) > ID_BYTES:
                raise ValueError(f"an id of {len(name.encode()):,} bytes is too long for an index: {name[:40]!r}…")
            self._writer.delete_documents_by_term("id", name)
            self._writer.add_document(tantivy.Document(id=name, words=" ".join(words(text))))

    def delete(self, ids: Iterable[str]) -> None:
        """Ids that are not there are left alone."""
        for name in ids:
            self._writer.delete_documents_by_term("id", name)

    def commit(self) -> None:
        self._writer.commit()

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Over what is committed. A word that a query repeats counts each time."""
        self._index.reload()
        searcher = self._index.searcher()
        return [self._found(searcher, text, min(k, searcher.num_docs)) for text in queries]

    def close(self) -> None:
        """Let go of the index; what is not committed is forgotten."""
        if self._writer is not None:
            self._writer.rollback()
            self._writer.wait_merging_threads()
        self._writer = None

    def _found(self, searcher: Any, text: str, k: int) -> list[Hit]:
        """Asks for more than k, until no passage that was left out can score as much as the last."""
        query, limit = self._query(text), k + MORE
        if query is None or k <= 0:
            return []
        while True:
            found = searcher.search(query, limit=limit, count=False).hits
            scores = [round(score, DECIMALS) for score, _ in found]
            if len(found) < limit or scores[-1] < scores[k - 1]:
                break
            limit *= 4
        tied = sum(score >= scores[k - 1] for score in scores) if len(scores) >= k else len(scores)
        names = (searcher.doc(address).get_first("id") for _, address in found[:tied])
        return best(dict(zip(names, scores, strict=False)), k)

    def _query(self, text: str) -> Any:
        from tantivy import Occur, Query

        terms = [
            (Occur.Should, Query.boost_query(Query.term_query(self._schema, "words", word, "freq"), float(times)))
            for word, times in sorted(Counter(words(text)).items())
        ]
        return Query.boolean_query(terms) if terms else None


def _schema() -> Any:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("words", stored=False, tokenizer_name="whitespace", index_option="freq")
    return builder.build()
