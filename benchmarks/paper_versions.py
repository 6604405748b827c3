"""How versions of papers are found: time and memory against the number of papers, and against comparing all pairs.

    python benchmarks/paper_versions.py [--papers 40000] [--times 4] [--json]

Papers have titles of nine words and abstracts of 160, as frequent as words are (Zipf), half of an abstract of one of 50
fields; each tenth has a second version with a changed title and a tenth of the abstract's words changed. Each number
of papers is measured in a process of its own:

    versions    tasks/sources/papers/duplicates.py: sketches, papers that share a key, their verdicts
    all_pairs   the same verdict of each pair of a thousandth of the papers, extrapolated

`growth`: how many times longer for `times` as many papers (the square of `times` would be quadratic). `recall`: share
of the second versions that are found; `precision`: of the pairs called the same, those that are.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import combinations, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

VOCABULARY, FIELDS, TITLE, ABSTRACT = 30_000, 50, 9, 160
VERSION_EVERY, CHANGED, LEAST_PAIRS = 10, 0.1, 50
AT_ONCE = 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--papers", type=int, default=40_000)
    parser.add_argument("--times", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(versions(given.measure)))
        return
    few, many = measured(given.papers // given.times), measured(given.papers)
    found = {"papers": given.papers, **many, "growth": round(many["seconds"] / few["seconds"], 1)}
    found["peak_growth"] = round(many["peak_mb"] / few["peak_mb"], 2)
    found["all_pairs_seconds"] = round(all_pairs(given.papers))
    print(json.dumps(found, indent=1) if given.json else "\n".join(f"{name:20} {found[name]}" for name in found))


def measured(papers: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", str(papers)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    run: dict[str, Any] = json.loads(done.stdout)
    return run


def records(number: int) -> Iterator[dict[str, Any]]:
    """Rows of METADATA, of which the id of a second version is that of the first with a v2 behind it."""
    rng = np.random.default_rng(number)
    weights = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    for paper in range(number - number // (VERSION_EVERY + 1)):
        word = np.searchsorted(weights / weights[-1], rng.random(TITLE + ABSTRACT))
        word = np.where(rng.random(len(word)) < 0.5, (word * 7_919 + paper % FIELDS * 104_729) % VOCABULARY, word)
        authors = [f"Nora {spelled(rng.integers(5_000))}" for _ in range(3)]
        yield record(f"test/{paper}", word, authors)
        if paper % VERSION_EVERY == 0:
            other = np.where(rng.random(len(word)) < CHANGED, rng.integers(VOCABULARY, size=len(word)), word)
            yield record(f"test/{paper}v2", other, authors)


def record(paper_id: str, words: Any, authors: list[str]) -> dict[str, Any]:
    text = [spelled(number) for number in words.tolist()]
    title, abstract = " ".join(text[:TITLE]), " ".join(text[TITLE:])
    return {"paper_id": paper_id, "title": title, "authors": authors, "abstract": abstract}


def spelled(number: int) -> str:
    """A word for a number, in letters, as digits in titles count parts."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return (
        letters[number // 17_576 % 26] + letters[number // 676 % 26] + letters[number // 26 % 26] + letters[number % 26]
    )


def versions(number: int) -> dict[str, Any]:
    from schemas.sources.papers import METADATA
    from tasks.sources.papers.duplicates import duplicates_in_files

    with TemporaryDirectory() as folder:
        file, rows = Path(folder) / "papers.parquet", records(number)
        with pq.ParquetWriter(file, METADATA) as writer:
            while some := list(islice(rows, AT_ONCE)):
                writer.write_batch(pa.RecordBatch.from_pylist(some, schema=METADATA))
        started = time.perf_counter()
        pairs = [row for row in duplicates_in_files([file], Path(folder)) if row["verdict"] == "same"]
        seconds = time.perf_counter() - started
        second = sum(one.endswith("v2") for one in pq.read_table(file, columns=["paper_id"])["paper_id"].to_pylist())
    right = sum(row["second_id"] == f"{row['first_id']}v2" for row in pairs)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return {
        "seconds": round(seconds, 2),
        "peak_mb": round(peak),
        "recall": round(right / second, 4),
        "precision": round(right / len(pairs), 4),
    }


def all_pairs(number: int) -> float:
    """Seconds that comparing all pairs of so many papers would take, by a sample of them."""
    from tasks.sources.papers.duplicates import row_of
    from tasks.sources.papers.sketches import sketch_of

    sketches = [sketch_of(row) for row in islice(records(number), max(LEAST_PAIRS, number // 1_000))]
    pairs = list(combinations(sketches, 2))
    started = time.perf_counter()
    for one, other in pairs:
        row_of(one, other)
    return (time.perf_counter() - started) / len(pairs) * number * (number - 1) / 2


if __name__ == "__main__":
    main()
