"""How related questions of all sites are found: time against the number of questions, and recall.

    python benchmarks/related.py [--questions 40000] [--times 4] [--json]

Heads are 70 words, as frequent as words are (Zipf), a quarter of them of one of 159 sites and a tenth of one of its
topics. Vectors are near one of 3,000 topics, which are near one of 159 sites, and differ in 64 directions, as those of
models do, and a little in all 384. Each is measured at `questions` and at `questions / times`, in a process of its own:

    words       tasks/retrieval/many.py: an exact sparse product; a tenth of the questions asked, extrapolated
    vectors     tasks/retrieval/many.py: lists of an inverted file, cosines exact; all questions asked
    all_pairs   numpy: products with all vectors, a block at a time, the ten largest; a tenth asked, extrapolated

`..._growth`: how many times longer for `times` as many questions (the square of `times` would be quadratic).
`vectors_to_all_pairs`: its time, as a share of the exact way's. `recall`: share of the ten nearest, by an exact search
for 500 questions, that `vectors` finds.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

K, BELOW, WIDTH, SITES, TOPICS = 10, 0.95, 384, 159, 3_000
WORDS, VOCABULARY = 70, 200_000
SHARE, CHECKED, ROWS = 10, 500, 400


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--questions", type=int, default=40_000)
    parser.add_argument("--times", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(WAYS[given.measure](given.questions)))
        return
    found = compare(given.questions, given.times)
    print(json.dumps(found, indent=1) if given.json else "\n".join(f"{name:28} {found[name]}" for name in found))


def compare(questions: int, times: int) -> dict[str, Any]:
    found: dict[str, Any] = {"questions": questions}
    for way in WAYS:
        few, many = measured(way, questions // times), measured(way, questions)
        found |= {f"{way}_{name}": value for name, value in many.items()}
        found[f"{way}_growth"] = round(many["seconds"] / few["seconds"], 1)
    found["vectors_to_all_pairs"] = round(found["vectors_seconds"] / found["all_pairs_seconds"], 3)
    return found


def measured(way: str, questions: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", way, "--questions", str(questions)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    run: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return run


def figures(seconds: float, **more: float) -> dict[str, float]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return {"seconds": round(seconds, 2), "peak_mb": round(peak), **more}


def heads(questions: int) -> Any:
    """The heads one by one, as a stage reads them."""
    rng = np.random.default_rng(1)
    weights = 1 / np.arange(1, VOCABULARY + 1)
    frequency = np.cumsum(weights / weights.sum())
    for start in range(0, questions, 1_000):
        size = min(1_000, questions - start)
        site = rng.integers(0, SITES, (size, 1))
        topic = 20 * site + rng.integers(0, 20, (size, 1))
        word, kind = np.searchsorted(frequency, rng.random((size, WORDS))), rng.random((size, WORDS))
        word = np.where(kind < 0.25, (word * 7_919 + site * 104_729) % VOCABULARY, word)
        word = np.where(kind > 0.9, (word * 7_907 + topic * 15_485_863) % VOCABULARY, word)
        yield from (" ".join(f"w{number}" for number in row) for row in word.tolist())


def vectors(questions: int) -> Any:
    rng = np.random.default_rng(2)
    site = rng.normal(size=(SITES, WIDTH))
    topic = site[rng.integers(0, SITES, TOPICS)] + 0.7 * rng.normal(size=(TOPICS, WIDTH))
    directions = rng.normal(size=(64, WIDTH)) / np.sqrt(np.arange(1, 65))[:, None]
    made = np.empty((questions, WIDTH), np.float32)
    for start in range(0, questions, 10_000):
        block = made[start : start + 10_000]
        block[:] = topic[rng.integers(0, TOPICS, len(block))]
        block += 0.7 * rng.normal(size=(len(block), 64)) @ directions + 0.3 * rng.normal(size=block.shape)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def words(questions: int) -> dict[str, float]:
    from tasks.retrieval.many import NearestWords

    started = time.perf_counter()
    index = NearestWords(heads(questions), sides=np.zeros(questions, np.int64), groups=np.arange(questions))
    built = time.perf_counter()
    index.nearest(np.arange(0, questions, SHARE), K, BELOW)
    searched = time.perf_counter() - built
    return figures(built - started + SHARE * searched, build_seconds=round(built - started, 2))


def by_vectors(questions: int) -> dict[str, float]:
    from tasks.retrieval.many import NearestVectors

    held = vectors(questions)
    index = NearestVectors(held, sides=np.zeros(questions, np.int64), groups=np.arange(questions), exact=0)
    started = time.perf_counter()
    found, _ = index.nearest(np.arange(questions), K, BELOW)
    seconds = time.perf_counter() - started
    checked = np.linspace(0, questions - 1, CHECKED).astype(np.int64)
    cosines = held[checked] @ held.T
    cosines[np.arange(CHECKED), checked] = 0
    cosines[cosines >= BELOW] = 0
    best = np.argpartition(cosines, -K, axis=1)[:, -K:]
    recall = np.mean([len(np.intersect1d(one, other)) / K for one, other in zip(found[checked], best, strict=True)])
    return figures(seconds, recall=round(float(recall), 4))


def all_pairs(questions: int) -> dict[str, float]:
    held = vectors(questions)
    started = time.perf_counter()
    for start in range(0, questions // SHARE, ROWS):
        products = held[start : start + ROWS] @ held.T
        np.argpartition(products, -K, axis=1)
    return figures(SHARE * (time.perf_counter() - started))


WAYS = {"words": words, "vectors": by_vectors, "all_pairs": all_pairs}

if __name__ == "__main__":
    main()
