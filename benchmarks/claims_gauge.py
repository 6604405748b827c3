"""How well answers are cut into claims, on texts for which no rule was written.

    python benchmarks/claims_gauge.py [--posts Posts.xml …] [--answers FILE.jsonl] [--number 400] [--seed 1] [--json]

Two truths that no splitter made:

* `abbreviations`: two neighbouring claims, of released answers (by default the samples), are joined after an
  abbreviation with a citation, in the forms `the U.S. [1]. Moreover`, `et al. [3] Later` and `Acme Inc.[2] It`; found:
  the share of the two that come out to the letter. `mid_sentence`: the abbreviation and its citation stand within a
  sentence, which is to stay whole.
* `blocks` (needs --posts): answers of a Stack Exchange site as Markdown. Their HTML says where paragraphs, items,
  quotes, headings and code begin and end. `whole`: the share of paragraphs, items and quotes whose claims, put
  together, are the block's text; `stray`: the share of claims with words of a heading or code, or of two blocks.

Beside each other: spaCy's sentencizer on the folded text, and the splitters `sentences` and `lists`.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import iterparse

from lxml import html

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.claims import released_answers, their_splitter  # noqa: E402
from tasks.expertqa.answers.claims import claims_of  # noqa: E402

Split = Callable[[str], list[str]]
Block = tuple[str, str]  # kind and text
ENDING = (
    "the U.S.",
    "Keller et al.",
    "nails, screws, etc.",
    "Acme Inc.",
    "Acme Ltd.",
    "8 p.m.",
    "a Ph.D.",
    "H. Jones Jr.",
)
WITHIN = (
    "by Keller et al. [3] and others",
    "in the U.S. [1] and Canada",
    "see e.g. [2] or others",
    "of Acme Inc. [4] too",
)
FORMS = (" [{}].", " [{}]", ".[{}]")
KINDS = {
    "p": "text",
    "li": "item",
    "blockquote": "quote",
    "pre": "code",
    **{f"h{level}": "head" for level in range(1, 7)},
}


def splitters() -> dict[str, Split]:
    spacy = their_splitter()

    def plain(text: str) -> list[str]:
        folded = " ".join(text.split())
        return [folded[start:end].strip() for start, end in spacy(folded)]

    def ours(name: str) -> Split:
        return lambda text: [
            claim.text
            for claim in claims_of(text, splitter=name, least_characters=1, small_talk=False, questions=False)
        ]

    return {"spacy": plain, "sentences": ours("sentences"), "lists": ours("lists")}


# ---------------------------------------------------------------- abbreviations


def neighbours(texts: list[str], spacy: Split) -> Iterator[tuple[str, str]]:
    """Pairs of plain neighbouring sentences: words, a full stop, and a capital at the beginning."""
    plain = re.compile(r"[A-Z][a-z]+ [\w ,'-]{20,200}[a-z]\.")
    for text in texts:
        for one, other in pairwise(spacy(re.sub(r" ?\[[^\]]*\]", "", text))):
            if plain.fullmatch(one) and plain.fullmatch(other):
                yield one, other


def joined(pairs: list[tuple[str, str]], chance: random.Random) -> Iterator[tuple[str, list[str]]]:
    """(text, its two sentences): the first ends in an abbreviation and a citation."""
    for one, other in pairs:
        form = chance.choice(FORMS).format(chance.randrange(1, 9))
        ending = chance.choice(ENDING)
        first = f"{one[:-1]} in {ending}{form[1:] if form[0] == '.' else form}"
        yield f"{first} {other}", [first, other]


def within(pairs: list[tuple[str, str]], chance: random.Random) -> Iterator[tuple[str, list[str]]]:
    """(text, its two sentences): the abbreviation and its citation stand in the middle of the first."""
    for one, other in pairs:
        words = one.split()
        middle = len(words) // 2
        first = " ".join([*words[:middle], chance.choice(WITHIN), *words[middle:]])
        yield f"{first} {other}", [first, other]


def share_found(cases: list[tuple[str, list[str]]], split: Split) -> float | None:
    found = sum(len(set(truth) & set(split(text))) for text, truth in cases)
    return round(found / sum(len(truth) for _, truth in cases), 3) if cases else None


# ---------------------------------------------------------------- blocks of posts


def answers_of(path: Path) -> Iterator[str]:
    """The bodies, as HTML, of the answers in a dump's Posts.xml."""
    for _, element in iterparse(path):
        if element.get("PostTypeId") == "2":
            yield element.get("Body", "")
        element.clear()


def blocks_of(body: str) -> list[Block] | None:
    """The innermost blocks of a body in order; None if it has text outside of them, or none that is short and plain."""
    tree = html.fragment_fromstring(body, create_parent="div")
    found: list[Block] = []
    for element in tree.iter(*KINDS):
        inner = [child for child in element.iterdescendants() if child.tag in KINDS]
        text = " ".join(element.text_content().split())
        if not inner and text and element.getparent() is not None:
            parent = next((up.tag for up in element.iterancestors() if up.tag in KINDS), None)
            found.append((KINDS[parent if element.tag == "p" and parent else element.tag], text))
    said = " ".join(tree.text_content().split())
    plain = sum(len(text) for _, text in found) >= 0.98 * len(said.replace(" ", "")) and len(found) > 1
    return found if plain and not re.search(r"[|*_`#<>]|\d[.)] ", said) else None


def markdown(blocks: list[Block]) -> str:
    """The blocks as Markdown: items numbered, quotes and headings marked, code fenced, the others as paragraphs."""
    lines, number = [], 0
    for kind, text in blocks:
        number = number + 1 if kind == "item" else 0
        marks = {"item": f"{number}. ", "quote": "> ", "head": "## ", "code": "```\n", "text": ""}
        lines.append(marks[kind] + text + ("\n```" if kind == "code" else "") + ("\n" if kind == "item" else "\n\n"))
    return "".join(lines)


def measure_blocks(posts: list[list[Block]], split: Split) -> dict[str, float]:
    whole = blocks = stray = claims = 0
    for post in posts:
        found = split(markdown(post))
        said = [text for kind, text in post if kind in ("text", "item", "quote")]
        wanted = ["".join(text.split()) for text in said]
        pieces = ["".join(claim.split()) for claim in found]
        claims += len(pieces)
        stray += sum(not any(piece in text for text in wanted) for piece in pieces)
        blocks += len(wanted)
        whole += sum("".join(piece for piece in pieces if piece in text) == text for text in wanted)
    return {"whole": round(whole / blocks, 3), "stray": round(stray / claims, 3)}


def measure(number: int, seed: int, posts: list[Path], answers: Path) -> dict[str, Any]:
    chance = random.Random(seed)
    split = splitters()
    texts = released_answers(answers)
    pairs = list(neighbours(texts, split["spacy"]))[:number]
    cases = {"abbreviations": list(joined(pairs, chance)), "mid_sentence": list(within(pairs, chance))}
    found: dict[str, Any] = {"pairs": len(pairs), "source": answers.name}
    for what, own in cases.items():
        found[what] = {name: share_found(own, way) for name, way in split.items()}
    read = [blocks for path in posts for body in answers_of(path) if (blocks := blocks_of(body))][:number]
    if read:
        found["posts"] = len(read)
        found["blocks"] = {name: measure_blocks(read, way) for name, way in split.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--posts", type=Path, nargs="*", default=[])
    parser.add_argument("--answers", type=Path, default=ROOT / "data/samples/expertqa/released.jsonl")
    parser.add_argument("--number", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.number, options.seed, options.posts, options.answers)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for what, value in found.items():
        for name, each in value.items() if isinstance(value, dict) else [("", value)]:
            print(f"{what + ' ' + name:<28}{each}")


if __name__ == "__main__":
    main()
