"""Revision edits offline: how many planted edits are found, and what the distance says of independent texts.

    python benchmarks/revise_units.py [--seeds 12] [--posts Posts.xml …] [--answers FILE.jsonl …] [--drafts FOLDER …]
                                      [--json]

`planted`: by language, the share of texts with one to five planted edits (words, sentences, merges, splits, list items,
lines of code) in which as many edits are found, each of its kind with the words that go and come. `independent`: for
each file the Spearman correlation of the distance, and of the corrected one, with the sentences of draft and reference
together, with the number of pairs, their mean distance and their mean number of sentences. A distance that only counts
sentences has 1.

Pairs are the first two answers to each question of a Stack Exchange dump (`--posts`), answers to neighbouring questions
of released ExpertQA examples (`--answers`), and the drafts and references of a published split of revision-distance
(`--drafts`, a folder of Parquet).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from planting import KINDS, LANGUAGES, Planted, plant  # noqa: E402

from tasks.revision_distance.drafts.corrected import needed  # noqa: E402
from tasks.text.edit_sentences import sentences  # noqa: E402
from tasks.text.revision_edits import Edit, revise  # noqa: E402

TextPairs = list[tuple[str, str]]


def is_found(edits: list[Edit], planted: list[Planted]) -> bool:
    left = list(planted)
    for edit in edits:
        action, original, revised = (str(edit[name]) for name in ("action_name", "original_snippet", "revised_snippet"))
        fitting = (one for one in left if one.kind == action and one.old in original and one.new in revised)
        if (one := next(fitting, None)) is None:
            return False
        left.remove(one)
    return not left


def share_found(name: str, seeds: int) -> float:
    found = []
    for number in range(1, 6):
        for seed in range(seeds):
            pick = random.Random(f"gauge {name} {number} {seed}")
            draft, reference, planted = plant(LANGUAGES[name], pick.sample(KINDS, number), pick)
            found.append(is_found(revise(draft, reference), planted))
    return round(fmean(found), 4)


def of_posts(path: Path) -> TextPairs:
    from lxml import html

    answers: dict[str, list[str]] = defaultdict(list)
    for _, row in ElementTree.iterparse(path):
        if row.get("PostTypeId") == "2":
            body = html.fromstring(f"<div>{row.get('Body')}</div>")
            parts = [
                part.text_content() if part.tag == "pre" else " ".join(part.text_content().split())
                for part in body.iter("p", "li", "pre")
            ]
            answers[str(row.get("ParentId"))].append("\n\n".join(filter(str.strip, parts)))
    both = ([text for text in own if text][:2] for own in answers.values())
    return [(own[0], own[1]) for own in both if len(own) == 2]


def of_answers(path: Path) -> TextPairs:
    examples = (json.loads(line)["answers"] for line in path.read_text().splitlines())
    texts = [next(iter(answers.values()))["answer_string"] for answers in examples if answers]
    return list(pairwise(texts))


def of_drafts(path: Path) -> TextPairs:
    import pyarrow.parquet as pq

    rows = pq.read_table(path, columns=["draft", "reference"]).to_pylist()
    return [(row["draft"], row["reference"]) for row in rows if row["draft"] and row["reference"]]


def correlation(pairs: TextPairs) -> dict[str, float]:
    from scipy.stats import spearmanr

    distances, corrected = [len(revise(*pair)) for pair in pairs], [needed(*pair) for pair in pairs]
    sizes = [sum(len(sentences(text)) for text in pair) for pair in pairs]
    found = {"pairs": len(pairs), "distance": round(fmean(distances), 2), "sentences": round(fmean(sizes), 2)}
    of_corrected = {"spearman_corrected": round(float(spearmanr(sizes, corrected)[0]), 3)}
    return {**found, "spearman": round(float(spearmanr(sizes, distances)[0]), 3), **of_corrected}


def measure(seeds: int, independent: Iterable[tuple[Path, TextPairs]]) -> dict[str, Any]:
    planted = {name: share_found(name, seeds) for name in LANGUAGES}
    found = {"/".join(path.parts[-2:]): correlation(pairs) for path, pairs in independent if len(pairs) > 2}
    return {"planted": planted, "independent": found, "cores": len(os.sched_getaffinity(0))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=12)
    readers = {"posts": of_posts, "answers": of_answers, "drafts": of_drafts}
    for name in readers:
        parser.add_argument(f"--{name}", type=Path, nargs="*", default=[])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    files = ((path, read(path)) for name, read in readers.items() for path in getattr(options, name))
    found = measure(options.seeds, files)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for name, share in found["planted"].items():
        print(f"{name:<12}{share:>8.1%} of texts with planted edits")
    for name, own in found["independent"].items():
        print(
            f"{name:<34}{own['pairs']:>5} pairs {own['distance']:>7.2f} edits {own['sentences']:>7.2f} sentences, "
            f"Spearman {own['spearman']:.3f}, corrected {own['spearman_corrected']:.3f}"
        )


if __name__ == "__main__":
    main()
