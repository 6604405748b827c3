"""The scores of drafts that tables compare, and the order of tasks and systems in them."""

from __future__ import annotations

from typing import NamedTuple

TASKS = ("easy", "hard", "free", "structure")
SYSTEMS = ("weak", "strong", "vanilla", "cot", "rejected", "chosen", "reordered")
WEAK_AND_STRONG = {"easy": ("weak", "strong"), "hard": ("vanilla", "cot"), "free": ("rejected", "chosen")}


class Metric(NamedTuple):
    """A column of drafts and its name in tables; `sign` is -1 where less is better."""

    column: str
    name: str
    sign: int = 1


ROUGE = (Metric("rouge1", "ROUGE-1"), Metric("rouge2", "ROUGE-2"), Metric("rougeL", "ROUGE-L"))
BERTSCORE = Metric("bertscore", "BERTScore")
DISTANCES = (Metric("distance", "distance", -1), Metric("weighted", "weighted distance", -1))
GPT_SCORE = Metric("gpt_score", "GPT-Score")
SOURCE = Metric("source_score", "the source's own score")
METRICS = (*ROUGE, BERTSCORE, GPT_SCORE, *DISTANCES)
