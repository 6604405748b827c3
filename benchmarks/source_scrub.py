"""Scrubbing posts of personal data, beside a bare scan of the same text: three functions for a harness.

The text is made of common words; one post in fifty names a mail address, a telephone number or a handle, and one in
five holds plain numbers or code.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa

BATCH_ROWS = 1_000
POST_WORDS = 150
WORDS = [
    "the",
    "a",
    "of",
    "to",
    "and",
    "in",
    "that",
    "it",
    "is",
    "was",
    "for",
    "on",
    "with",
    "as",
    "be",
    "at",
    "by",
    "this",
    "had",
    "not",
    "are",
    "but",
    "from",
    "or",
    "have",
    "an",
    "they",
    "which",
    "one",
    "you",
    "were",
    "all",
    "her",
    "she",
    "there",
    "would",
    "their",
    "we",
    "him",
    "been",
    "has",
    "when",
    "who",
    "will",
    "no",
    "more",
    "if",
    "out",
    "so",
    "up",
    "said",
    "what",
    "its",
    "about",
    "than",
    "into",
    "them",
    "can",
    "only",
    "other",
    "time",
    "new",
    "some",
    "could",
    "these",
    "two",
    "may",
    "first",
    "then",
    "do",
    "any",
    "like",
    "my",
    "now",
    "over",
    "such",
    "our",
    "man",
    "me",
    "even",
    "most",
    "made",
    "after",
    "also",
    "did",
    "many",
    "off",
    "before",
    "must",
    "well",
    "back",
    "through",
    "years",
    "where",
    "much",
    "your",
    "way",
    "down",
    "should",
    "because",
]
PERSONAL = ("write to jo.doe@firm.test", "call 212-555-0187", "as @jo_doe said", "Tel: +44 20 7946 0018")
PLAIN = ("in 2014 it cost 3.50", "from 1841 to 1911", "`x = @property`", "version 10.0.19041", "on 2014-01-21 at 20:26")


def generate(folder: Path, megabytes: float) -> Path:
    """A text file of about that size, one post a line."""
    draw = random.Random(7)
    posts = [_post(draw, number) for number in range(1_000)]
    path, left = folder / "posts.txt", int(megabytes * 1e6)
    with path.open("w", encoding="utf-8") as file:
        while left > 0:
            left -= file.write(f"{draw.choice(posts)}\n")
    return path


def _post(draw: random.Random, number: int) -> str:
    words = draw.choices(WORDS, k=POST_WORDS)
    words += [PERSONAL[number // 50 % 4]] if number % 50 == 0 else []
    words += [PLAIN[number // 5 % 5]] if number % 5 == 0 else []
    return " ".join(words)


def ours(path: Path, home: Path) -> int:
    """Scrub every post, batch by batch as the stage does; returns how many there are."""
    from tasks.sources.stackexchange.posts import scrubbed_texts
    from tasks.text.scrub import REGIONS

    posts = marks = 0
    for batch in _batches(path):
        marks += sum(found.marks for found in scrubbed_texts(batch, list(REGIONS)).values())
        posts += len(batch)
    if not marks:
        raise SystemExit("no mark was put into these posts")
    return posts


def bare(path: Path) -> int:
    """Look at every character of every post once: a search for what is not there."""
    import pyarrow.compute as pc

    posts = 0
    for batch in _batches(path):
        if pc.any(pc.match_substring(batch, "\1")).as_py():
            raise SystemExit("these posts are damaged")
        posts += len(batch)
    return posts


def _batches(path: Path) -> Iterator[pa.Array]:
    with path.open(encoding="utf-8") as file:
        while lines := list(islice(file, BATCH_ROWS)):
            yield pa.array(lines)
