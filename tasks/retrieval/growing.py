"""BM25 over a corpus that changes: a tantivy index on disk; passages can be added and deleted.

    with GrowingIndex(folder, write=True) as index:
        index.add([("a#0", "How to brew tea.")])
        index.delete(["b#3"])                       # a takedown
        index.commit()
        index.search(["tea"], 10)

Committed changes survive a kill; others are lost. One process may write while others read. Scores are Lucene's BM25
with k1 1.2, b 0.75 and lengths rounded to 256 steps: near to those of a FixedIndex, not equal. A deleted passage is
never found again, but its words count in the statistics until its segment is merged; the index has no text, only words.
To remove these words at once, build the index anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from longform.errors import BusyError
from tasks.retrieval.hits import Hit, best, index_words

DECIMALS = 4
MEMORY_BYTES = 64_000_000
ID_BYTES = 60_000  # tantivy forgets longer ones in silence
MORE = 16


class GrowingIndex:
    """A BM25 index in a folder; both are made if missing. `write`: open it for writing, too.

    BusyError if `write` and it is open for writing elsewhere, in this process or another. Methods: `add`, `delete`,
    `commit`, `search` and `close`; as a context manager it closes itself, without a commit.
    """

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
        """Add (id, text) pairs, in a writable index; a passage replaces the one with its id. Takes effect at `commit`.

        ValueError for an id longer than ID_BYTES; the pairs before it stay added.
        """
        import tantivy

        for name, text in passages:
            if len(name.encode()) > ID_BYTES:
                raise ValueError(f"an id of {len(name.encode()):,} bytes is too long for an index: {name[:40]!r}…")
            self._writer.delete_documents_by_term("id", name)
            self._writer.add_document(tantivy.Document(id=name, words=" ".join(index_words(text))))

    def delete(self, ids: Iterable[str]) -> None:
        """Delete the passages with these ids, in a writable index; takes effect at `commit`.

        An id that the index does not have is ignored.
        """
        for name in ids:
            self._writer.delete_documents_by_term("id", name)

    def commit(self) -> None:
        """Make all changes so far permanent and visible to searches."""
        self._writer.commit()

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """For each query the k best committed passages, best first, ties by id; fewer if fewer share a word with it.

        A word that a query repeats counts each time. Scores are rounded to DECIMALS.
        """
        self._index.reload()
        searcher = self._index.searcher()
        return [self._found(searcher, text, min(k, searcher.num_docs)) for text in queries]

    def close(self) -> None:
        """Release the index for other writers; changes that are not committed are lost. It can still be searched."""
        if self._writer is not None:
            self._writer.rollback()
            self._writer.wait_merging_threads()
        self._writer = None

    def _found(self, searcher: Any, text: str, k: int) -> list[Hit]:
        """The k best hits for a query, ties by id; [] for a query without words.

        tantivy is asked for more than k, until no passage that it left out can have the score of the k-th.
        """
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
        """A tantivy query for passages with any word of the text; None for a text without words.

        Each word is weighted by how often the text has it.
        """
        from tantivy import Occur, Query

        terms = [
            (Occur.Should, Query.boost_query(Query.term_query(self._schema, "words", word, "freq"), float(times)))
            for word, times in sorted(Counter(index_words(text)).items())
        ]
        return Query.boolean_query(terms) if terms else None


def _schema() -> Any:
    """The tantivy schema: `id`, stored, and `words`, searchable but not stored."""
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("words", stored=False, tokenizer_name="whitespace", index_option="freq")
    return builder.build()
