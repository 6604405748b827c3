"""Claims of answers: our sentence splitter beside spaCy's, and the list-aware splitter beside the plain one.

    python benchmarks/claims.py [--texts 2000] [--real FILE.jsonl] [--random 20000] [--seed 1] [--json]

`ratio_warm` and `ratio_cold`: how many times the texts a second of `nlp(text).sents`, in the same run, with the words
seen before and with none. `same_texts` and `same_random_texts`: how many have the same sentences either way, of the
texts and of random strings over marks, quotes, emoticons and odd blanks; it fails where one has not. The planted
answers hold lists and tables with the claims a reader would name: `planted` is the share of these that each splitter
finds (recall), and the share of what it finds that is such (precision). `over_long`: the share of claims over 300
signs. `--real` reads released ExpertQA examples.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tasks.expertqa.answers.claims import claims_of  # noqa: E402
from tasks.text.lists import OVER_LONG  # noqa: E402
from tasks.text.sentences import sentence_spans, splitter  # noqa: E402

Spans = list[tuple[int, int]]
SPLITTERS = ("sentences", "lists")
ROUNDS = 3
SUBJECTS = ("Copper", "The old bridge", "A slow kiln", "Salt water", "This alloy (see Fig. 3)", "Dr. Vane's method")
VERBS = ("weakens", "carries", "needs", "changes", "costs about 3.5% more than", "was built before")
OBJECTS = ("the joint", "a coat of lime, e.g. two", '"green" timber', "U.S. grade 4", "its own weight", "12km of pipe")
ENDS = (". ", ". ", ". ", " [1]. ", " [2] [3]. ", "? ", "! ", '." ', ".\n\n", ":\n- ")
SIGNS = list(".!?…。！？।؟۔,;:'\"()[]{}<>*_-–—/\\|=~^@#&%$€°+“”‘’·abzOD018Zé")
BLANKS = [*" " * 14, "  ", "\n", "\n\n", " \n", "\t", "\u00a0", "\u2003", "\u200b", "\u3000", "\r\n"]
WORDS = [
    *(
        "www.",
        "http://a.com/b?c=d.",
        "e.g.",
        "Dr.",
        "U.S.",
        "a.m.",
        "10a.m.",
        "n't",
        "'s",
        "can't",
        "5km.",
        "C.",
        "°C.",
    ),
    *("o.O", "o. O", "._.", ":)", ":-(", "foo/a.", "x-", "...", "....", "你好。", "नमस्ते।", "مرحبا؟", "e\u0301.", "😀"),
]

# An answer, and the claims a reader would name in it.
PLANTED: list[tuple[str, list[str]]] = [
    (
        "A dry stone wall needs three things:\n1. A level footing\n2. Long through stones [1]\n3. A cope on top\n\n"
        "None of them needs mortar [2].",
        [
            "A dry stone wall needs three things:",
            "A level footing",
            "Long through stones [1]",
            "A cope on top",
            "None of them needs mortar [2].",
        ],
    ),
    (
        "Bees need: 1. Forage within two miles. It must bloom early [1]. 2. Water nearby. 3. Shelter from wind [2].",
        [
            "Bees need:",
            "Forage within two miles.",
            "It must bloom early [1].",
            "Water nearby.",
            "Shelter from wind [2].",
        ],
    ),
    (
        "Tools for the job:\n- Chisel: cuts the mortise. Keep it sharp.\n- Mallet: drives the chisel\n  without marring"
        " it\n- Marking gauge\n\nStart with the gauge [3].",
        [
            "Tools for the job:",
            "Chisel: cuts the mortise.",
            "Keep it sharp.",
            "Mallet: drives the chisel without marring it",
            "Marking gauge",
            "Start with the gauge [3].",
        ],
    ),
    (
        "| Wood | Weight |\n|---|---|\n| Oak | heavy [1] |\n| Balsa | light [2] |\n\nOak lasts longer.",
        ["Wood | Weight", "Oak | heavy [1]", "Balsa | light [2]", "Oak lasts longer."],
    ),
    (
        "1. Prepare the dough\n   - Weigh the flour\n   - Add salt [1]\n2. Let it rest\n"
        "   a) in a bowl\n   b) under a cloth",
        [
            "Prepare the dough",
            "Weigh the flour",
            "Add salt [1]",
            "Let it rest",
            "in a bowl",
            "under a cloth",
        ],
    ),
    (
        "Rust forms in damp air. [1] Paint keeps the damp out. [2] [3] Zinc does too.",
        ["Rust forms in damp air. [1]", "Paint keeps the damp out. [2] [3]", "Zinc does too."],
    ),
    (
        'Pick "Save" from the menu [1]. "Save" writes over the old file. **Warning** follows only once.',
        [
            'Pick "Save" from the menu [1].',
            '"Save" writes over the old file.',
            "**Warning** follows only once.",
        ],
    ),
    (
        "## Glazes\nAsh glazes run when hot. • Celadon: cools to green [1] • Tenmoku: cools to brown [2]\n"
        "* Shino: cools to white",
        [
            "Ash glazes run when hot.",
            "Celadon: cools to green [1]",
            "Tenmoku: cools to brown [2]",
            "Shino: cools to white",
        ],
    ),
    (
        "It began in 1890. Two mills stood by chapter 1. The third came later, at No. 2. Nobody counted them.",
        [
            "It began in 1890.",
            "Two mills stood by chapter 1.",
            "The third came later, at No. 2.",
            "Nobody counted them.",
        ],
    ),
    (
        "Plain prose stays as it is [1]. It has no list - only a dash - and ends here.\n"
        "This line goes on\nafter a break.",
        [
            "Plain prose stays as it is [1].",
            "It has no list - only a dash - and ends here.",
            "This line goes on after a break.",
        ],
    ),
]


def their_splitter() -> Callable[[str], Spans]:
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    return lambda text: [(sentence.start_char, sentence.end_char) for sentence in nlp(text).sents]


def made_texts(number: int, chance: random.Random) -> list[str]:
    """Answers of about 1,000 signs, of sentences that repeat little."""
    pick = chance.choice
    return [
        "".join(
            f"{pick(SUBJECTS)} {pick(VERBS)} {pick(OBJECTS)} number {chance.randrange(10**4)}{pick(ENDS)}"
            for _ in range(18)
        ).strip()
        for _ in range(number)
    ]


def random_texts(number: int, chance: random.Random) -> Iterable[str]:
    """Short strings of what tokenizers trip over, as words between all kinds of white space."""
    atoms = [*SIGNS, *".!?" * 4, *WORDS * 2, *BLANKS]
    return ("".join(chance.choices(atoms, k=chance.randrange(1, 24))) for _ in range(number))


def released_answers(path: Path) -> list[str]:
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    return [answer["answer_string"] for record in records for answer in record["answers"].values()]


def rate(split: Callable[[str], Any], texts: list[str]) -> float:
    """Texts a second, of one pass."""
    started = time.perf_counter()
    for text in texts:
        split(text)
    return len(texts) / (time.perf_counter() - started)


def speeds(texts: list[str], theirs: Callable[[str], Spans]) -> dict[str, float]:
    """The best of some rounds of each, in turn; cold: each round with nothing remembered."""
    rate(theirs, texts[:50]), rate(sentence_spans, texts)
    their_best = ours_warm = ours_cold = 0.0
    for _ in range(ROUNDS):
        their_best = max(their_best, rate(theirs, texts))
        ours_warm = max(ours_warm, rate(sentence_spans, texts))
        ours_cold = max(ours_cold, rate(splitter().spans, texts))
    return {
        "spacy_texts_per_second": round(their_best),
        "ours_warm_per_second": round(ours_warm),
        "ours_cold_per_second": round(ours_cold),
        "ratio_warm": round(ours_warm / their_best, 2),
        "ratio_cold": round(ours_cold / their_best, 2),
    }


def same(texts: Iterable[str], theirs: Callable[[str], Spans]) -> int:
    """The number of texts, all of which have the same sentences; SystemExit names the first that has not."""
    number = 0
    for text in texts:
        if sentence_spans(text) != theirs(text):
            raise SystemExit(f"the sentences of {text!r} are {sentence_spans(text)}, spaCy's are {theirs(text)}")
        number += 1
    return number


def planted(name: str) -> dict[str, float]:
    """Of the planted claims, the share that is found to the letter; and of what is found, the share that is planted."""
    found = [[claim.text for claim in claims_of(text, splitter=name, least_characters=1)] for text, _ in PLANTED]
    hits = sum(len(set(named) & set(claims)) for (_, named), claims in zip(PLANTED, found, strict=True))
    return {
        "recall": round(hits / sum(len(named) for _, named in PLANTED), 3),
        "precision": round(hits / sum(map(len, found)), 3),
    }


def over_long(texts: list[str], name: str) -> float:
    claims = [claim for text in texts for claim in claims_of(text, splitter=name)]
    return round(sum(len(claim.text) > OVER_LONG for claim in claims) / len(claims), 4)


def measure(number: int, strings: int, seed: int, real: Path | None) -> dict[str, Any]:
    chance = random.Random(seed)
    theirs = their_splitter()
    texts = released_answers(real) if real else made_texts(number, chance)
    return {
        "texts": len(texts),
        "source": real.name if real else "generated",
        **speeds(texts, theirs),
        "same_texts": same(texts, theirs),
        "same_random_texts": same(random_texts(strings, chance), theirs),
        "planted": {name: planted(name) for name in SPLITTERS},
        "over_long": {name: over_long(texts, name) for name in SPLITTERS},
        "cores": len(os.sched_getaffinity(0)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=2_000)
    parser.add_argument("--random", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--real", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.texts, options.random, options.seed, options.real)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for name in ("planted", "over_long"):
        for way, value in found.pop(name).items():
            print(f"{name + ', ' + way:<28}{value}")
    for name, value in found.items():
        print(f"{name:<28}{value:>12}")


if __name__ == "__main__":
    main()
