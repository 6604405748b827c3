"""The stage that gives every question of the bank its side in both splits: see tasks/expertqa/splits.py."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from longform.artifacts.parts import key_hash
from longform.engine.stage import AllRows, PerGroup, Row, StageContext, stage
from schemas.expertqa import SIDES
from tasks.expertqa.bank import file_number
from tasks.expertqa.splits import OVERLAP, deal, folded, near_questions

CONFIGS = ("random", "domain")


@stage(SIDES, revision=2)
def deal_sides(
    context: StageContext, questions: PerGroup, released: AllRows, *, seed: int, shares: list[float]
) -> Iterator[Row]:
    """The sides of each question, whether or not it has an answer yet, ordered by the hash of its id. Questions that
    stand earlier in the bank (file by file) are decided first; released ones before all others.

    Counts, by config, near-duplicates of released questions on different sides, and questions between two sides.
    UsageError for shares that are not three of 0 or more that sum to 1.
    """
    bank = list(questions.as_dicts("question_id", "question", "position"))
    in_order = sorted(bank, key=lambda row: (file_number(row["question_id"]), row["position"], row["question_id"]))
    texts = [folded(row["question"]) for row in in_order]
    sides: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in released:
        sides[row["config"]][row["question"]].add(row["split"])
    near = near_questions(list(dict.fromkeys([*texts, *(text for of in sides.values() for text in of)])))
    found = {config: deal(texts, sides[config], near, salt=f"{seed}/{config}", shares=shares) for config in CONFIGS}
    for config in CONFIGS:
        context.count(f"released near-duplicates across sides ({config})", _across(sides[config], near))
        context.count(
            f"questions between two sides ({config})", sum(found[config][text].split == OVERLAP for text in texts)
        )
    ids: defaultdict[str, list[str]] = defaultdict(list)
    for row, text in zip(in_order, texts, strict=True):
        ids[text].append(row["question_id"])
    for row in sorted(bank, key=lambda row: (key_hash(row["question_id"]), row["question_id"])):
        text = folded(row["question"])
        yield {
            "question_id": row["question_id"],
            **{config: found[config][text].split for config in CONFIGS},
            **{f"{config}_from": found[config][text].decided_by for config in CONFIGS},
            "like": sorted(key for other in near.get(text, ()) for key in ids[other] if other in ids),
        }


def _across(released: dict[str, set[str]], near: dict[str, set[str]]) -> int:
    """The number of pairs of released questions that are near-duplicates, or the same, on different sides."""
    same = sum(len(splits) > 1 for splits in released.values())
    pairs = ((text, other) for text in released for other in near.get(text, ()) if other in released and text < other)
    return same + sum(len(released[one] | released[other]) > 1 for one, other in pairs)
