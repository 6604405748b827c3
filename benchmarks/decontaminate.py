"""Comparing training texts with evaluation texts (tasks/text/copies/contamination.py), against the plain way.

    python benchmarks/decontaminate.py [--evaluated 10000] [--texts 100000] [--json]

Texts are 120 words, as frequent as words are (Zipf). One text in a hundred has a run of 13 words of an evaluation text,
one in a hundred is such a text with some words changed. Each way runs in a process of its own:

    ours     an index of the evaluation texts, searched with 1,000 texts at a time
    plain    a Python set of all 13-grams of the evaluation texts, and an exact join of all texts by word 3-grams
             (tasks/text/copies/duplicates.py), as the audit does it

Seconds are of one processor. `ratio`: those of ours as a share of those of the plain way. `same`: both find the same
texts.
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

SIMILARITY, WORDS, VOCABULARY, AT_ONCE, RUN = 0.5, 120, 50_000, 1_000, 13


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--evaluated", type=int, default=10_000)
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure, given.evaluated, given.texts)))
        return
    found = compare(given.evaluated, given.texts)
    print(json.dumps(found, indent=1) if given.json else "\n".join(f"{name:20} {found[name]}" for name in found))


def compare(evaluated: int, texts: int) -> dict[str, Any]:
    ours, plain = (measured(way, evaluated, texts) for way in WAYS)
    return {
        "evaluated": evaluated,
        "texts": texts,
        "seconds": ours["seconds"],
        "texts_per_second": round(texts / ours["seconds"]),
        "peak_mb": ours["peak_mb"],
        "plain_seconds": plain["seconds"],
        "plain_peak_mb": plain["peak_mb"],
        "ratio": round(ours["seconds"] / plain["seconds"], 2),
        "found": len(ours["found"]),
        "same": ours["found"] == plain["found"],
    }


def measured(way: str, evaluated: int, texts: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", way, "--evaluated", str(evaluated), "--texts", str(texts)]
    done: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return done


def measure(way: str, evaluated: int, texts: int) -> dict[str, Any]:
    known, others = made(evaluated, texts)
    began = time.process_time()
    found = WAYS[way](known, others)
    seconds = round(time.process_time() - began, 2)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {"seconds": max(seconds, 0.01), "peak_mb": peak, "found": found}


def made(evaluated: int, texts: int) -> tuple[list[str], list[str]]:
    """(evaluation texts, training texts)."""
    draw = np.random.default_rng(3)
    words = np.array([f"word{number}" for number in range(VOCABULARY)])
    share = 1 / np.arange(1, VOCABULARY + 1)
    drawn = [words[draw.choice(VOCABULARY, (size, WORDS), p=share / share.sum())] for size in (evaluated, texts)]
    known, others = drawn
    for place in range(0, texts, 50):
        of = known[place % evaluated]
        if place % 100:
            others[place, 40 : 40 + RUN] = of[20 : 20 + RUN]
        else:
            others[place] = of
            others[place, draw.integers(0, WORDS, 6)] = "changed"
    return [" ".join(text) for text in known], [" ".join(text) for text in others]


def ours(known: list[str], others: list[str]) -> list[int]:
    from tasks.text.copies.contamination import Index, Text

    index = Index.of((Text(text, number, 0, False) for number, text in enumerate(known)), SIMILARITY)
    starts = range(0, len(others), AT_ONCE)
    found = (match for at in starts for match in index.matches([(text, False) for text in others[at : at + AT_ONCE]]))
    return [place for place, match in enumerate(found) if match]


def plain(known: list[str], others: list[str]) -> list[int]:
    from tasks.text.copies.duplicates import near_duplicates
    from tasks.text.copies.shingles import shingle_hashes

    runs = {run for text in known for run in grams(text)}
    found = {place for place, text in enumerate(others) if any(run in runs for run in grams(text))}
    size = len(known)
    pairs = near_duplicates([shingle_hashes(text) for text in (*known, *others)], SIMILARITY)
    return sorted(found | {other - size for one, other in pairs if one < size <= other})


def grams(text: str) -> list[tuple[str, ...]]:
    words = text.split()
    return [tuple(words[start : start + RUN]) for start in range(len(words) - RUN + 1)]


WAYS = {"ours": ours, "plain": plain}

if __name__ == "__main__":
    main()
