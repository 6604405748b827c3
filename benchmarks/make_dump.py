"""Write a Posts.xml of any size that looks like a real dump, the same bytes for the same seed.

    python benchmarks/make_dump.py OUT --megabytes 100 --seed 1 [--site cooking.stackexchange.com] [--json]

OUT is the file, or a folder to put Posts.xml in (with --site: a folder of that name in it). Posts are sentences
over a Zipf-like vocabulary: common English words, and words of one of many topics that its questions, titles and
tags share. In it are paragraphs, code, lists, TeX, links, entities, near-duplicate questions (1 %), deleted users,
closed questions, community wikis, tag wikis, illegal characters, and answers before their questions; the file
ends within a thread, so that a few answers have no question.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from itertools import accumulate
from pathlib import Path

HEAD = b'\xef\xbb\xbf<?xml version="1.0" encoding="utf-8"?>\r\n<posts>\r\n'
END = b"</posts>"
ANSWERS = (0, 1, 1, 2, 2, 2, 3, 3, 4, 5)
SHUFFLED_THREADS = 40
NEAR_DUPLICATE_EVERY = 100
ILLEGAL_EVERY = 499
TAG_WIKI_EVERY = 41
FIRST_DAY = date(2010, 1, 1)
DAYS = 5_200

COMMON = """the of to a and in is it you that for on with as are this be or by not have from at but when can if
which one will there all so more some would they do how what about use out into than other time only then no
its over new any these may like first very just most after because where much before way also does should make
through each between while same need both off keep even cannot long right under too well still might never
usually often always rather almost enough without against until during several many few small large good
better"""
SYLLABLES = """ba be bri ca cor da del dri el fa fen gar go hal in ka kel lo lu mar men mi na nor o pa per pol qui ra
ren ri sa sol ta tel tor tri ul va ven vi wan xa yor zel zi"""
VERBS = "store clean measure replace repair compare combine protect adjust test improve prepare"
TITLES = (
    "How do I {v} the {a} {b} of a {c}?",
    "Why does my {a} {b} change after the {c}?",
    "Is it safe to {v} a {a} with {b} {c}?",
    "What is the difference between {a} and {b} {c}?",
    "When should one {v} {a} {b} in a {c}?",
    "Can the {a} {b} replace a {c}?",
)
FACTS = (
    "In {y} the {a} was measured at {n} degrees, which is {m} percent more than the {b}.",
    "A {a} holds about {n} {b} for each {c}, but never more than {m}.",
    "According to the {a} manual of {y}, every {b} needs {n} minutes before the {c} is ready.",
    "The {a} does not work without a {b}, because the {c} loses {n} units in {m} days.",
)
EXTRAS = (
    '<pre class="lang-py s-code-block"><code>def {a}(x):\n    if x &lt; {n}:\n        return x ** 2\n</code></pre>',
    "<ul>\n<li>the <strong>{a}</strong> comes first</li>\n<li>then {n} times {b}</li>\n<li>{c} &amp; {a}</li>\n</ul>",
    "<p>So $x_{n} \\leq \\frac{{{m}}}{{y_1}}$ holds, and \\(a\\_b \\to \\infty\\) for the {a}.</p>",
    '<p>See <a href="https://example.org/{a}/{b}?id={n}&amp;v=1" rel="nofollow">the page on {b}</a> for details.</p>',
    "<blockquote>\n<p>Every {a} needs a {b} &mdash; &quot;{c}&quot; is &gt; {n} years old.</p>\n</blockquote>",
    "<p>It cost 5 € at the café, and the <code>C:\\{a}\\{b}</code> folder is gone 🙂.</p>",
    '<p><img src="https://example.org/{a}.png" alt="a {b}"></p>',
)


@dataclass(frozen=True, slots=True)
class Dump:
    path: str
    bytes: int
    rows: int
    questions: int
    answers: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Topic:
    """Ready-made pieces, escaped as they stand in an attribute."""

    words: list[str]
    titles: list[str]
    sentences: list[str]
    extras: list[str]


def write_dump(path: Path, bytes_wanted: int, seed: int | str) -> Dump:
    """A whole Posts.xml of `bytes_wanted` bytes or a little more."""
    start = time.perf_counter()
    rng = random.Random(str(seed))
    topics = make_topics(rng, max(40, min(1_500, bytes_wanted // 500_000)))
    size, counts = len(HEAD) + len(END), {"1": 0, "2": 0, "5": 0}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(HEAD)
        for kind, row in make_rows(rng, topics):
            counts[kind] += 1
            size += file.write(row)
            if size >= bytes_wanted:
                break
        file.write(END)
    seconds = round(time.perf_counter() - start, 3)
    return Dump(str(path), size, sum(counts.values()), counts["1"], counts["2"], seconds)


def make_topics(rng: random.Random, number: int) -> list[Topic]:
    syllables = SYLLABLES.split()
    lexicon = sorted({"".join(rng.choices(syllables, k=rng.choice((2, 3, 3, 4)))) for _ in range(20 * number)})
    return [_topic(rng, rng.sample(lexicon, 12)) for _ in range(number)]


def _topic(rng: random.Random, words: list[str]) -> Topic:
    weights = list(accumulate(_zipf(len(COMMON.split())) + [weight * 0.8 for weight in _zipf(len(words))]))
    sentences = [_sentence(rng, words, weights) for _ in range(48)]
    titles = [_filled(rng, template, words) for template in TITLES for _ in range(8)]
    extras = [_attribute(_filled(rng, template, words)) for template in EXTRAS for _ in range(3)]
    return Topic(words, [_attribute(title) for title in titles], sentences, extras)


def _zipf(number: int) -> list[float]:
    return [1 / (rank + 2) for rank in range(number)]


def _sentence(rng: random.Random, words: list[str], weights: list[float]) -> str:
    if rng.random() < 0.25:
        return _attribute(_filled(rng, rng.choice(FACTS), words))
    chosen = rng.choices(COMMON.split() + words, cum_weights=weights, k=rng.randint(8, 18))
    return _attribute(" ".join(chosen).capitalize() + rng.choice((".", ".", ".", "?", "!")))


def _filled(rng: random.Random, template: str, words: list[str]) -> str:
    a, b, c = rng.sample(words, 3)
    n, m, y = rng.randint(2, 900), rng.randint(2, 90), rng.randint(1850, 2020)
    return template.format(a=a, b=b, c=c, n=n, m=m, y=y, v=rng.choice(VERBS.split()))


def _attribute(html: str) -> str:
    escaped = html.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    return escaped.replace("\n", "&#xA;")


def make_rows(rng: random.Random, topics: list[Topic]) -> Iterator[tuple[str, bytes]]:
    """(PostTypeId, row) without end; the rows of some threads at a time are in any order."""
    writer = _Writer(rng, topics)
    while True:
        rows = [row for _ in range(SHUFFLED_THREADS) for row in writer.thread()]
        rng.shuffle(rows)
        for kind, row in rows:
            yield kind, f"  <row {row} />\r\n".encode()


class _Writer:
    """Writes threads, one after the other; ids rise."""

    def __init__(self, rng: random.Random, topics: list[Topic]) -> None:
        self.rng, self.topics = rng, topics
        self.last_id = self.questions = self.posts = 0
        self.earlier: tuple[Topic, str, list[str]] | None = None
        self.days = [(FIRST_DAY + timedelta(days=day)).isoformat() for day in range(DAYS)]

    def thread(self) -> Iterator[tuple[str, str]]:
        """A question and its answers, as (PostTypeId, attributes)."""
        rng, self.questions = self.rng, self.questions + 1
        topic, title, body = self._question()
        question, day = self._id(), rng.randrange(DAYS - 60)
        answers = [self._id() for _ in range(rng.choice(ANSWERS))]
        yield "1", self._ask(question, topic, title, body, day, answers)
        for answer in answers:
            yield "2", self._answer(answer, question, topic, day + rng.randrange(50))
        if self.questions % TAG_WIKI_EVERY == 0:
            yield "5", self._post(self._id(), "5", "", ["", topic.sentences[0]], day)

    def _id(self) -> int:
        self.last_id += 1
        return self.last_id

    def _question(self) -> tuple[Topic, str, list[str]]:
        if self.earlier is not None and self.questions % NEAR_DUPLICATE_EVERY == 0:
            topic, title, body = self.earlier
            return topic, title, [*body, self.rng.choice(COMMON.split()).capitalize()]
        topic = self.rng.choice(self.topics)
        self.earlier = topic, self.rng.choice(topic.titles), self._body(topic, 8)
        return self.earlier

    def _body(self, topic: Topic, sentences: int) -> list[str]:
        """Pieces of HTML: paragraphs of 2 to 4 sentences, every third followed by an extra."""
        rng, chosen = self.rng, self.rng.sample(topic.sentences, self.rng.randint(3, sentences + 4))
        pieces: list[str] = []
        while chosen:
            cut = rng.randint(2, 4)
            pieces.append("&lt;p&gt;" + " ".join(chosen[:cut]) + "&lt;/p&gt;&#xA;")
            chosen = chosen[cut:]
            if rng.random() < 0.2:
                pieces.append("&#xA;" + rng.choice(topic.extras) + "&#xA;")
        return pieces

    def _ask(self, id: int, topic: Topic, title: str, body: list[str], day: int, answers: list[int]) -> str:
        rng = self.rng
        accepted = f'AcceptedAnswerId="{rng.choice(answers)}" ' if answers and rng.random() < 0.6 else ""
        tags = "|".join(rng.sample(topic.words[:5], rng.randint(1, 3)))
        closed = f' ClosedDate="{self.days[day + 9]}T00:00:00.000"' if rng.random() < 0.04 else ""
        views, number = rng.randrange(9_000), len(answers)
        more = f'{closed} Title="{title}" Tags="|{tags}|" AnswerCount="{number}" ViewCount="{views}"'
        return self._post(id, "1", accepted, [more, *body], day)

    def _answer(self, id: int, question: int, topic: Topic, day: int) -> str:
        wiki = f' CommunityOwnedDate="{self.days[day]}T01:00:00.000"' if self.rng.random() < 0.01 else ""
        return self._post(id, "2", f'ParentId="{question}" ', [wiki, *self._body(topic, 12)], day)

    def _post(self, id: int, kind: str, parent: str, pieces: list[str], day: int) -> str:
        """The attributes of a row; the first piece is those at its end, the others the body."""
        rng, self.posts = self.rng, self.posts + 1
        more, *body = pieces
        illegal = rng.choice(("&#x0E;", "&#x0;", "\x0b")) if self.posts % ILLEGAL_EVERY == 0 else ""
        score = int(rng.paretovariate(0.9)) % 5_000 - rng.choice((0, 0, 1, 1, 3))
        at = f"{self.days[day]}T{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}.{id % 1_000:03}"
        user = rng.randrange(2, 50_000)
        owner = f'OwnerDisplayName="user{user}"' if rng.random() < 0.03 else f'OwnerUserId="{user}"'
        text, licence = "".join(body), _licence(self.days[day])
        return (
            f'Id="{id}" PostTypeId="{kind}" {parent}CreationDate="{at}" Score="{score}" Body="{illegal}{text}" {owner} '
            f'LastActivityDate="{at}"{more} CommentCount="{user % 7}" ContentLicense="{licence}"'
        )


def _licence(day: str) -> str:
    version = "2.5" if day < "2011-04-08" else "3.0" if day < "2018-05-02" else "4.0"
    return f"CC BY-SA {version}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--site")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    folder = given.out / given.site if given.site else given.out
    path = folder if folder.suffix == ".xml" else folder / "Posts.xml"
    seed = f"{given.seed} {given.site}" if given.site else given.seed
    dump = asdict(write_dump(path, int(given.megabytes * 1_000_000), seed))
    print(json.dumps(dump) if given.json else "\n".join(f"{name:10} {value}" for name, value in dump.items()))


if __name__ == "__main__":
    main()
