"""Training pairs that show what an evaluation set holds are left out: see tasks/text/copies/contamination.py.

A question leaves with all its pairs where a text of its own does: the question, an answer to it, a passage shown with
it. A hard negative answers another question: where it is one with an evaluation text, the pairs that show it leave.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import pyarrow as pa

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Rows
from longform.engine.stage import AllRows, AtMost, Rejected, Row, StageContext, stage
from schemas.axioms import PAIRS
from tasks.text.copies.contamination import NEAR, OVERLAP, SAME, Index, Match, Text

TRAIN = "train"
AT_ONCE = 1_000  # texts
REASONS = {
    NEAR: "near-duplicate of an evaluation text",
    OVERLAP: "words in common with an evaluation text",
    SAME: "a question of an evaluation set",
}
IDS = ("pair_id", "question_id", "preferred_id", "rejected_id", "related_question_id", "evidence_ids")
TEXTS = ("question", "preferred", "rejected", "evidence")


class Found(NamedTuple):
    """The evaluation text with which a shown text counts as one, its set, and by which measure."""

    set: str
    text_id: str
    match: Match

    def rejected(self, pair_id: str, shown_id: str) -> Rejected:
        """The Rejected of a pair for its text `shown_id`."""
        near = self.match.measure == NEAR
        shared = f"similarity {self.match.value:.2f}" if near else f"{self.match.value:.0f} words"
        what = f"{self.set}: {shown_id} and {self.text_id.removeprefix(self.set + ' ')}: {shared}"
        return Rejected(pair_id, "filtered", REASONS[self.match.measure], detail=what)


@stage(PAIRS, revision=1, at_most=AtMost(rows=lambda sizes: float(sizes["pairs"]), keeps=True))
def decontaminate(
    context: StageContext, pairs: Rows, texts: AllRows, *, similarity: float
) -> Iterator[pa.RecordBatch | Rejected]:
    """The pairs without those of the split train that show what counts as one with an evaluation text; a Rejected for
    each of these.

    `texts`: of the evaluation sets. `similarity`: Jaccard similarity of word 3-grams from which texts are
    near-duplicates. Memory: an index of `texts`, which all units of a build map, and the ids of one part.
    """
    yield from without_contaminated(context, pairs, texts, similarity)


def without_contaminated(
    context: StageContext, pairs: Rows, texts: Rows, similarity: float
) -> Iterator[pa.RecordBatch | Rejected]:
    """See `decontaminate`: the body of a stage of whatever pairs, so that pairs of several stages can be filtered."""
    if not all(part.key.endswith(f"/{TRAIN}") for part in pairs.parts or ()):
        yield from pairs.batches()
        return
    index, names = open_index(context, texts, similarity)
    found = {key: Found(*names[match.number], match) for key, match in _matches(context, index, pairs)}
    gone = dict[str, tuple[Found, str]]()
    for row in pairs.as_dicts(*IDS) if found else ():
        for key in own_ids(row):
            if key in found:
                gone.setdefault(row["question_id"], (found[key], key))
    for batch in pairs.batches():
        rejected = [_rejected(row, gone, found) for row in batch.select(list(IDS)).to_pylist()]
        yield batch.filter(pa.array([each is None for each in rejected], pa.bool_()))
        yield from filter(None, rejected)


def own_ids(row: Row) -> list[str]:
    """The ids of what a pair shows of its own question: all texts but a hard negative."""
    answers = [row["preferred_id"], *([row["rejected_id"]] if row["related_question_id"] is None else [])]
    return [row["question_id"], *answers, *row["evidence_ids"]]


def _rejected(row: Row, gone: dict[str, tuple[Found, str]], found: dict[str, Found]) -> Rejected | None:
    """The Rejected of a pair whose question is gone, or whose hard negative was found."""
    if of_question := gone.get(row["question_id"]):
        return of_question[0].rejected(row["pair_id"], of_question[1])
    negative = found.get(row["rejected_id"])
    return negative.rejected(row["pair_id"], row["rejected_id"]) if negative else None


def _matches(context: StageContext, index: Index, pairs: Rows) -> Iterator[tuple[str, Match]]:
    """(id, match) of each text of the pairs that is one with an evaluation text."""
    texts = shown_texts(pairs.as_dicts(*IDS, *TEXTS))
    while some := list(islice(texts, AT_ONCE)):
        context.count("texts compared with evaluation texts", len(some))
        found = index.matches([(text, asks) for _, asks, text in some])
        yield from ((key, match) for (key, _, _), match in zip(some, found, strict=True) if match)


def shown_texts(rows: Iterable[Row]) -> Iterator[tuple[str, bool, str]]:
    """(id, whether it asks, text) of every text that pairs show, each once."""
    seen = set[str]()
    for row in rows:
        answers = [(row[f"{side}_id"], False, row[side]) for side in ("preferred", "rejected")]
        passages = [(key, False, text) for key, text in zip(row["evidence_ids"], row["evidence"], strict=True)]
        for shown in ((row["question_id"], True, row["question"]), *answers, *passages):
            if shown[0] not in seen:
                seen.add(shown[0])
                yield shown


def open_index(context: StageContext, texts: Rows, similarity: float) -> tuple[Index, list[tuple[str, str]]]:
    """(an index of the texts, (set, id) of each), made once for all units of a build."""
    with context.shared() as folder:
        place = folder / fingerprint(["contamination", similarity, [part.sha256 for part in texts.parts or ()]])
        if not place.exists():
            making = folder / "contamination.making"
            shutil.rmtree(making, ignore_errors=True)
            Index.of(_numbered(texts), similarity).save(making)
            making.rename(place)
    names = texts.table(["set", "text_id"])
    return Index.load(place, similarity), list(
        zip(*(names[name].to_pylist() for name in names.column_names), strict=True)
    )


def _numbered(texts: Rows) -> Iterator[Text]:
    """The texts with numbers for their posts and sets."""
    posts, sets = dict[str, int](), dict[str, int]()
    for row in texts.as_dicts("set", "of", "asks", "text"):
        post = posts.setdefault(f"{row['set']} {row['of']}", len(posts))
        yield Text(row["text"], post, sets.setdefault(row["set"], len(sets)), row["asks"])
