"""What feedback costs beside the model's reply: choosing one of five samples, and reading its remarks.

    python benchmarks/feedback.py [--feedback 2000] [--criteria 20] [--seed 1] [--json]

`chosen_per_second`: feedback texts, of five samples each, of which the most central one is found by TF-IDF
(tasks/retrieval/consistency.py). `ratio_to_sklearn`: how many times as fast that is as scikit-learn's TfidfVectorizer
and cosines on the same samples, one feedback at a time; `same_choice`: the share on which both choose the same sample
(scikit-learn leaves out words of one letter). `remarks_per_second`: feedback texts whose remarks are read and given to
their criteria. Each figure is the best of three rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tasks.retrieval.consistency import most_central, tfidf  # noqa: E402
from tasks.text.markdown.remarks import remarks  # noqa: E402

SAMPLES = 5
REMARKS = 6
ROUNDS = 3


def words(chance: random.Random, number: int, of: list[str]) -> str:
    return " ".join(chance.choices(of, k=number))


def made(number: int, criteria: int, chance: random.Random) -> tuple[list[list[str]], list[dict[str, Any]]]:
    """(five samples for each feedback, which say much the same; criteria that they name)."""
    vocabulary = ["".join(chance.choices("abdefgiklmnoprstuvw", k=chance.randrange(2, 10))) for _ in range(3_000)]
    listed = [
        {"criterion_id": f"c{n}", "name": words(chance, 3, vocabulary), "check": words(chance, 12, vocabulary)}
        for n in range(criteria)
    ]

    def sample(own: list[str]) -> str:
        named = chance.sample(listed, min(REMARKS, criteria))
        parts = (f"{n}. **{each['name']}**: {words(chance, 25, own)}." for n, each in enumerate(named, 1))
        return "\n".join(parts)

    return [[sample(chance.sample(vocabulary, 200)) for _ in range(SAMPLES)] for _ in range(number)], listed


def by_sklearn(samples: list[str]) -> int:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.metrics.pairwise import cosine_similarity

    similar = cosine_similarity(TfidfVectorizer().fit_transform(samples))
    return int((similar.sum(axis=1).round(9)).argmax())


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the best round, and what came of it."""
    best, found = float("inf"), None
    for _ in range(ROUNDS):
        started = time.perf_counter()
        found = work()
        best = min(best, time.perf_counter() - started)
    return best, found


def measured(number: int, criteria: int, seed: int) -> dict[str, Any]:
    given, listed = made(number, criteria, random.Random(seed))
    ours, chosen = timed(lambda: [most_central(tfidf(samples))[0] for samples in given])
    theirs, others = timed(lambda: [by_sklearn(samples) for samples in given])
    reading, _ = timed(lambda: [remarks(samples[0], listed) for samples in given])
    return {
        "feedback": number,
        "chosen_per_second": round(number / ours),
        "ratio_to_sklearn": round(theirs / ours, 2),
        "same_choice": sum(map(int.__eq__, chosen, others)) / number,
        "remarks_per_second": round(number / reading),
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--feedback", type=int, default=2_000)
    parser.add_argument("--criteria", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measured(given.feedback, given.criteria, given.seed)
    if given.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:<20} {value}")


if __name__ == "__main__":
    main()
