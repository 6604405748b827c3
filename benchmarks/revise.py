"""Revision edits offline: the seconds for drafts of 1,000, 5,000 and 50,000 words, beside difflib.

    python benchmarks/revise.py [--words 1000,5000,50000] [--seed 1] [--json]

`seconds` of `revise(draft, reference)`, and the number of its edits, for references of sentences that repeat little:

- `planted`: the reference with ten changes;
- `shuffled`: its sentences in any order, a tenth of their words replaced;
- `different`: none of its sentences.

Each figure is the best of three rounds. `difflib_seconds` is `difflib.SequenceMatcher` over the words of both texts,
sentence by sentence in one list, and `ratio` how many times as long it took in the same run; both are of the drafts
with ten changes. difflib knows no moves, and counts runs of words.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tasks.text.revision_edits import revise  # noqa: E402

SIZES = "1000,5000,50000"
SENTENCE = 20
CHANGES = 10
ROUNDS = 3
SMALL_WORDS = ("the", "of", "a", "in", "and", "to", "that", "is")

Texts = list[list[str]]


def vocabulary(chance: random.Random) -> list[str]:
    return ["".join(chance.choices("abdefgiklmnoprstuvw", k=chance.randrange(3, 10))) for _ in range(8_000)]


def made(number: int, chance: random.Random, words: list[str]) -> Texts:
    """Sentences of 20 words, two in five of them small ones."""
    pools = [chance.choices((words, SMALL_WORDS), (3, 2), k=SENTENCE) for _ in range(number)]
    sentences = [[chance.choice(pool) for pool in sentence] for sentence in pools]
    return [[sentence[0].capitalize(), *sentence[1:-1], sentence[-1] + "."] for sentence in sentences]


def planted(reference: Texts, chance: random.Random, words: list[str]) -> Texts:
    """Ten sentences, or all of a short text, with another word in their middle."""
    draft = [list(sentence) for sentence in reference]
    for at in chance.sample(range(len(draft)), min(CHANGES, len(draft))):
        draft[at][SENTENCE // 2] = chance.choice(words) + "x"
    return draft


def shuffled(reference: Texts, chance: random.Random, words: list[str]) -> Texts:
    draft = chance.sample(reference, len(reference))
    return [[word if chance.random() < 0.9 else chance.choice(words) for word in sentence] for sentence in draft]


def text(sentences: Texts) -> str:
    return " ".join(" ".join(sentence) for sentence in sentences)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the best round, and what came of it."""
    best, found = float("inf"), None
    for _ in range(ROUNDS):
        started = time.perf_counter()
        found = work()
        best = min(best, time.perf_counter() - started)
    return best, found


def measure(sizes: list[int], seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    words = vocabulary(chance)
    found: dict[str, Any] = {name: {} for name in ("seconds", "edits", "difflib_seconds", "ratio")}
    for size in sizes:
        number = max(1, size // SENTENCE)
        reference = made(number, chance, words)
        drafts = {
            "planted": planted(reference, chance, words),
            "shuffled": shuffled(reference, chance, words),
            "different": made(number, chance, words),
        }
        results = {
            name: timed(lambda draft=draft, other=reference: revise(text(draft), text(other)))  # type: ignore[misc]
            for name, draft in drafts.items()
        }
        found["seconds"][size] = {name: round(seconds, 5) for name, (seconds, _) in results.items()}
        found["edits"][size] = {name: len(edits) for name, (_, edits) in results.items()}
        one, other = (text(sentences).split() for sentences in (drafts["planted"], reference))
        theirs, _ = timed(lambda one=one, other=other: SequenceMatcher(None, one, other, False).get_opcodes())  # type: ignore[misc]
        found["difflib_seconds"][size] = round(theirs, 5)
        found["ratio"][size] = round(theirs / results["planted"][0], 2)
    return {**found, "cores": len(os.sched_getaffinity(0)), "python": sys.version.split()[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", default=SIZES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure([int(size) for size in options.words.split(",")], options.seed)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for size, seconds in found["seconds"].items():
        print(f"{size:,} words")
        for name, value in seconds.items():
            print(f"    {name:<12}{value:>9.3f} s{found['edits'][size][name]:>8,} edits")
        print(f"    {'difflib':<12}{found['difflib_seconds'][size]:>9.3f} s{found['ratio'][size]:>8} times")


if __name__ == "__main__":
    main()
