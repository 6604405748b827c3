"""Dense retrieval: passages by the cosine of embeddings, exact, over a file of vectors in blocks (FAISS IndexFlatIP).

    vectors.f32     (n, d) float32, each of length 1, or 0 where the embedding was 0
    ids.arrow       the ids of its rows
    shape.json      n and d, written last

Memory does not grow with the corpus, neither when the index is built nor when it is searched.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longform.errors import UsageError
from tasks.retrieval.hits import Hit, best

Vectors = NDArray[np.float32]
Candidates = tuple[NDArray[np.int64], Vectors]  # positions, scores
Embed = Callable[[list[str]], Any]  # texts -> (n, d), as lists or as an array

DECIMALS = 5  # of a similarity: the noise of float32 sums does not order passages
NOISE = 1e-4  # more than the noise of a float32 product of vectors of length 1
ROWS_AT_ONCE = 1_024
QUERIES_AT_ONCE = 1_024
BLOCK_BYTES = 64 << 20
MORE = 8


class DenseIndex:
    """An index of embeddings in a folder, which `write_vectors` made; FileNotFoundError without one.

    `embed` must be the function that made its vectors. A search reads the vectors in blocks of `block_bytes` bytes,
    one of which is in memory at a time.
    """

    def __init__(self, folder: Path, embed: Embed, *, block_bytes: int = BLOCK_BYTES) -> None:
        shape = json.loads((folder / "shape.json").read_bytes())
        self._embed, self._rows, self._width = embed, shape["rows"], shape["width"]
        self._path = folder / "vectors.f32"
        ids = pa.ipc.open_file(pa.memory_map(str(folder / "ids.arrow"))).read_all()  # in chunks of ROWS_AT_ONCE
        self._ids = ids.column("id")
        self._rows_per_block = max(1, block_bytes // (4 * self._width))

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """For each query the k best hits by cosine, best first, ties by id; also hits with a low or negative cosine.

        A query that is empty or white space has no hits and is not embedded. Cosines are rounded to DECIMALS.
        ValueError if `embed` gives vectors that are not finite or not as wide as those of the index.
        """
        found: dict[int, list[Hit]] = {}
        asked = [place for place, text in enumerate(queries) if text.strip()]
        for start in range(0, len(asked) if self._rows and k > 0 else 0, QUERIES_AT_ONCE):
            places = asked[start : start + QUERIES_AT_ONCE]
            vectors = unit(self._embed([queries[place] for place in places]), self._width)
            found |= zip(places, self._nearest(vectors, min(k, self._rows)), strict=True)
        return [found.get(place, []) for place in range(len(queries))]

    def _nearest(self, queries: Vectors, k: int) -> list[list[Hit]]:
        """The k best hits for each query vector; the vectors have length 1.

        FAISS only finds candidates, whose cosines are then computed in float64: its products of equal vectors may
        differ in the last digits.
        """
        near: list[Candidates] = [(np.empty(0, np.int64), np.empty(0, np.float32))] * len(queries)
        for start in range(0, self._rows, self._rows_per_block):
            found = _block_best(self._block(start), queries, k)
            near = [_kept(*old, new[0] + start, new[1], k) for old, new in zip(near, found, strict=True)]
        return [self._hits(positions, query, k) for (positions, _), query in zip(near, queries, strict=True)]

    def _block(self, start: int) -> Vectors:
        """The vectors of `_rows_per_block` rows from the row `start` on (fewer at the end), read from the file."""
        rows = min(self._rows_per_block, self._rows - start)
        block = np.fromfile(self._path, np.float32, rows * self._width, offset=4 * self._width * start)
        return block.reshape(rows, self._width)

    def _hits(self, positions: NDArray[np.int64], query: Vectors, k: int) -> list[Hit]:
        """The k best hits for one query vector among the passages at these positions, by exact cosines."""
        vectors = np.memmap(self._path, np.float32, "r", shape=(self._rows, self._width))
        blocks = (positions[start : start + ROWS_AT_ONCE] for start in range(0, positions.size, ROWS_AT_ONCE))
        exact = np.concatenate([(vectors[block].astype(np.float64) * query).sum(axis=1) for block in blocks])
        ids = (self._ids.chunk(at // ROWS_AT_ONCE)[at % ROWS_AT_ONCE].as_py() for at in positions.tolist())
        return best(dict(zip(ids, (exact.round(DECIMALS) + 0.0).tolist(), strict=True)), k)


def _kept(
    positions: NDArray[np.int64], scores: Vectors, more: NDArray[np.int64], more_scores: Vectors, k: int
) -> Candidates:
    """(positions, scores) of the k best of two lists of candidates together, in no order.

    Candidates whose score is at most NOISE below the k-th best are kept as well, since exact scores may be equal.
    """
    positions, scores = np.append(positions, more), np.append(scores, more_scores)
    if scores.size <= k:
        return positions, scores
    near = scores >= np.partition(scores, -k)[-k] - NOISE
    return positions[near], scores[near]


def write_vectors(passages: Iterable[tuple[str, Sequence[float]]], folder: Path) -> None:
    """Write an index of (id, embedding) pairs to the folder, which is made if missing; an older index is replaced.

    ValueError for an embedding that is not finite or not as long as the first; the folder then holds no index.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "shape.json").unlink(missing_ok=True)
    passages, rows, width = iter(passages), 0, 1
    names = pa.schema([("id", pa.string())])
    with (folder / "vectors.f32").open("wb") as file, pa.ipc.new_file(folder / "ids.arrow", names) as ids:
        while block := list(islice(passages, ROWS_AT_ONCE)):
            width = width if rows else len(block[0][1])
            file.write(unit([vector for _, vector in block], width).tobytes())
            ids.write_batch(pa.record_batch([pa.array([name for name, _ in block], pa.string())], schema=names))
            rows += len(block)
    (folder / "shape.json").write_text(json.dumps({"rows": rows, "width": width}))


def embedded(passages: Iterable[tuple[str, str]], embed: Embed) -> Iterator[tuple[str, Sequence[float]]]:
    """Yield (id, embedding) for each (id, text) pair, in order; `embed` gets at most ROWS_AT_ONCE texts at a time."""
    passages = iter(passages)
    while block := list(islice(passages, ROWS_AT_ONCE)):
        yield from zip((name for name, _ in block), embed([text for _, text in block]), strict=True)


def unit(vectors: Any, width: int) -> Vectors:
    """The vectors scaled to length 1, (n, width) float32; a zero vector stays zero.

    ValueError for a vector that does not have `width` numbers, or has one that is not finite.
    """
    try:
        rows = np.asarray(vectors, np.float64).reshape(-1, width)
    except ValueError:
        raise ValueError(f"an embedding is not of {width} numbers as the others are") from None
    if len(rows) != len(vectors) or not np.isfinite(rows).all():
        raise ValueError(f"an embedding holds no {width} finite numbers")
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def check_local_models(model: str) -> None:
    """Raise UsageError if sentence-transformers is not installed. `model` is only named in the message."""
    if find_spec("sentence_transformers") is None:
        raise UsageError(
            f'The embedding model "{model}" needs sentence-transformers: install the extra with '
            '`pip install -c constraints.txt -e ".[dense]"`, or give an endpoint.'
        )


def local_model(model: str) -> Embed:
    """The embedding function of a sentence-transformers model; its vectors have length 1.

    `model`: a name or a folder. UsageError if sentence-transformers is not installed or cannot load the model.
    """
    check_local_models(model)
    from sentence_transformers import SentenceTransformer

    try:
        loaded = SentenceTransformer(model)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0][:200]
        raise UsageError(
            f'The sentence-transformers model "{model}" cannot be loaded ({reason}): give a folder that holds it.'
        ) from None
    return lambda texts: loaded.encode(texts, normalize_embeddings=True)


def _block_best(block: Vectors, queries: Vectors, k: int) -> list[Candidates]:
    """(positions in the block, inner products) for each query: of the block's k best rows, best first.

    With them at least all rows whose product may equal the k-th best; more rows may follow.
    """
    import faiss

    index = faiss.IndexFlatIP(block.shape[1])
    index.add(block)
    found: list[Any] = [None] * len(queries)
    open_queries, ask = np.arange(len(queries)), k + MORE
    while open_queries.size:
        ask = min(ask, len(block))
        scores, positions = index.search(queries[open_queries], ask)
        settled = (scores[:, -1] < scores[:, min(k, ask) - 1] - NOISE) | (ask == len(block))
        for row in np.flatnonzero(settled):
            found[open_queries[row]] = positions[row], scores[row]
        open_queries, ask = open_queries[~settled], 4 * ask
    return found
