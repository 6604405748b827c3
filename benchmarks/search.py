"""How fast passages are found and pages become text, by ratios within one run.

    python benchmarks/search.py [--passages 20000] [--queries 500] [--json]

Passages and queries are drawn from a vocabulary whose words are as frequent as words are (Zipf); vectors are random.
One process for each way; a rate is of one run over all queries, ten passages each.

    fixed      tasks/retrieval/bm25.py: bm25s's index in a folder, searched by one sparse product
    bm25s      bm25s's own numpy retrieve over the same index, equal scores in any order
    in_memory  tasks/retrieval/bm25.py, what the axioms dataset uses
    growing    tasks/retrieval/growing.py: tantivy
    dense      tasks/retrieval/dense.py: FAISS, a block at a time from a file
    matmul     numpy: all products in memory, the ten largest
    extracted  MB/s of pages as tasks/sources/web/extraction.py makes text of them, in its own process
    parsed     MB/s of the same pages parsed by lxml, and nothing else
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

K, WIDTH = 10, 384
VOCABULARY, PASSAGE_WORDS, QUERY_WORDS = 30_000, 90, 8
PAGES = 300


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--passages", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(WAYS[given.measure](given.passages, given.queries)))
        return
    found = compare(given.passages, given.queries)
    print(json.dumps(found, indent=1) if given.json else "\n".join(f"{name:28} {found[name]}" for name in found))


def compare(passages: int, queries: int) -> dict[str, Any]:
    runs = {way: measured(way, passages, queries) for way in WAYS}
    figures = {f"{way}_{name}": value for way, run in runs.items() for name, value in run.items()}
    rate = {way: run.get("per_second") or run["mb_per_second"] for way, run in runs.items()}
    return {
        "passages": passages,
        "queries": queries,
        **figures,
        "fixed_to_bm25s": round(rate["fixed"] / rate["bm25s"], 2),
        "fixed_to_in_memory": round(rate["fixed"] / rate["in_memory"], 2),
        "growing_to_fixed": round(rate["growing"] / rate["fixed"], 2),
        "dense_to_matmul": round(rate["dense"] / rate["matmul"], 2),
        "extracted_to_parsed": round(rate["extracted"] / rate["parsed"], 3),
    }


def measured(way: str, passages: int, queries: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", way, "--passages", str(passages), "--queries", str(queries)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    run: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return run


def texts(number: int, length: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, VOCABULARY + 1)
    drawn = rng.choice(VOCABULARY, size=(number, length), p=weights / weights.sum())
    return [" ".join(f"w{word}" for word in row) for row in drawn.tolist()]


def corpus(passages: int, queries: int) -> tuple[list[tuple[str, str]], list[str]]:
    named = [(f"p{n:07}", text) for n, text in enumerate(texts(passages, PASSAGE_WORDS, seed=1))]
    return named, texts(queries, QUERY_WORDS, seed=2)


def rates(started: float, built: float, queries: int) -> dict[str, float]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    seconds = time.perf_counter() - built
    return {
        "build_seconds": round(built - started, 4),
        "per_second": round(queries / seconds, 1),
        "peak_mb": round(peak),
    }


def fixed(passages: int, queries: int) -> dict[str, float]:
    from tasks.retrieval.bm25 import FixedIndex

    held, asked = corpus(passages, queries)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        FixedIndex.build(held, Path(folder, "index"))
        index = FixedIndex(Path(folder, "index"))
        built = time.perf_counter()
        index.search(asked, K)
        return rates(started, built, queries)


def bm25s_alone(passages: int, queries: int) -> dict[str, float]:
    import bm25s

    from tasks.retrieval.hits import index_words

    held, asked = corpus(passages, queries)
    started = time.perf_counter()
    index = bm25s.BM25(k1=1.5, b=0.75, method="lucene", backend="numpy")
    index.index([index_words(text) for _, text in held], show_progress=False)
    built = time.perf_counter()
    index.retrieve([index_words(text) for text in asked], k=K, show_progress=False)
    return rates(started, built, queries)


def in_memory(passages: int, queries: int) -> dict[str, float]:
    from tasks.retrieval.bm25 import Index

    held, asked = corpus(passages, queries)
    started = time.perf_counter()
    index = Index([text for _, text in held], np.arange(passages, dtype=np.int64))
    built = time.perf_counter()
    index.top(asked, np.full(queries, -1, np.int64), K)
    return rates(started, built, queries)


def growing(passages: int, queries: int) -> dict[str, float]:
    from tasks.retrieval.growing import GrowingIndex

    held, asked = corpus(passages, queries)
    with tempfile.TemporaryDirectory() as folder, GrowingIndex(Path(folder), write=True) as index:
        started = time.perf_counter()
        index.add(held)
        index.commit()
        built = time.perf_counter()
        index.search(asked, K)
        return rates(started, built, queries)


def vectors(number: int, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=(number, WIDTH)).astype(np.float32)


def dense(passages: int, queries: int) -> dict[str, float]:
    from tasks.retrieval.dense import DenseIndex, write_vectors

    asked = vectors(queries, 2)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        write_vectors(((f"p{n:07}", vector) for n, vector in enumerate(vectors(passages, 1))), Path(folder))
        index = DenseIndex(Path(folder), lambda texts: [asked[int(text)] for text in texts])
        built = time.perf_counter()
        index.search([str(n) for n in range(queries)], K)
        return rates(started, built, queries)


def matmul(passages: int, queries: int) -> dict[str, float]:
    held, asked = vectors(passages, 1), vectors(queries, 2)
    started = time.perf_counter()
    held /= np.linalg.norm(held, axis=1, keepdims=True)
    built = time.perf_counter()
    np.argpartition(asked @ held.T, -K, axis=1)
    return rates(started, built, queries)


def pages() -> list[bytes]:
    """Articles of about 45 KB among menus, links, tables and scripts."""
    made = []
    for n, body in enumerate(texts(PAGES, 4_000, seed=3)):
        words = body.split()
        paragraphs = "".join(f"<p>{' '.join(words[at : at + 60])}.</p>" for at in range(0, len(words), 60))
        menu = "<ul>" + "".join(f"<li><a href='/{word}'>{word}</a></li>" for word in words[:80]) + "</ul>"
        rows = "".join(f"<tr><td>{a}</td><td>{b}</td></tr>" for a, b in zip(words[:30], words[30:60], strict=True))
        head = f"<html lang=en><head><title>Page {n}</title><script>var x = 1;</script></head>"
        text = f"<article><h1>{words[0]}</h1>{paragraphs}<table>{rows}</table></article>"
        made.append(f"{head}<body><nav>{menu}</nav>{text}<footer>{menu}</footer></body></html>".encode())
    return made


def extracted(passages: int, queries: int) -> dict[str, float]:
    from tasks.sources.web.extraction import Extractor

    made = pages()
    with tempfile.TemporaryDirectory() as folder, Extractor(Path(folder)) as extractor:
        extractor.text(made[0], {"content-type": "text/html"})
        started = time.perf_counter()
        kept = sum(len(extractor.text(page, {"content-type": "text/html"}).text) for page in made)
        seconds = time.perf_counter() - started
    megabytes = sum(map(len, made)) / 1e6
    return {"mb_per_second": round(megabytes / seconds, 2), "kept_characters": kept}


def parsed(passages: int, queries: int) -> dict[str, float]:
    from lxml import html

    made = pages()
    started = time.perf_counter()
    for page in made:
        html.document_fromstring(page)
    return {"mb_per_second": round(sum(map(len, made)) / 1e6 / (time.perf_counter() - started), 2)}


WAYS = {
    "fixed": fixed,
    "bm25s": bm25s_alone,
    "in_memory": in_memory,
    "growing": growing,
    "dense": dense,
    "matmul": matmul,
    "extracted": extracted,
    "parsed": parsed,
}


if __name__ == "__main__":
    main()
