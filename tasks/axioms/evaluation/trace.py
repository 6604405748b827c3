"""What `longform trace` shows of a row of an evaluation set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from tasks.publishing.lineage import Line, Record, built_by

RANKING, COMPARISONS = CONFIGS = ("ranking", "comparisons")
MADE_BY = {
    "stackexchange": ("rank_held_out", "rank_held_out_across_sites"),
    "eli5": ("rank_discussions",),
    "msmarco": ("rank_passages",),
    "webgpt": ("select_comparisons",),
}
MOST = 20  # answers shown


def trace_evaluation(store: Store, version: Version, config: str, row: Record) -> dict[str, Any]:
    """A row of a config of CONFIGS, and the stages it was made by. Keys: the config's name (the row); `calls` (none);
    `stages` (the version's stages -> fingerprint); `lines` of (title, text) to print. StoreError if the rows of a
    stage are no longer stored.
    """
    stage = next(name for name in MADE_BY[row["set"]] if name in version.stages)
    lines = [*(_ranking_lines(row) if config == RANKING else _comparison_lines(row))]
    lines.append(("built by", " <- ".join(built_by(store, version, stage))))
    return {config: row, "calls": {}, "stages": version.stages, "lines": lines}


def _ranking_lines(row: Record) -> Iterator[Line]:
    """The lines to print of a row of RANKING: its question, and its answers by gain."""
    yield "ranking", row["ranking_id"]
    yield "question", f'{row["question_id"]}   "{_title(row["question"])}"   {_credit(row)}'
    answers = sorted(row["answers"], key=lambda answer: (answer["negative"], -answer["gain"], answer["answer_id"]))
    for number, answer in enumerate(answers[:MOST]):
        what = "hard negative" if answer["negative"] else f"gain {answer['gain']:g}"
        yield "" if number else "answers", f"{answer['answer_id']}   {what}   {_credit(answer)}"
    if len(answers) > MOST:
        yield "", f"and {len(answers) - MOST:,} more"


def _comparison_lines(row: Record) -> Iterator[Line]:
    """The lines to print of a row of COMPARISONS."""
    yield "comparison", f"{row['comparison_id']}   {row['set']}, questions of {row['question_dataset'] or 'unknown'}"
    yield "question", f'"{_title(row["question"])}"   {row["licence"] or "no licence named"}   {row["url"]}'
    for side in ("preferred", "rejected"):
        answer = row[side]
        yield side, f"score {answer['score']:g}   {len(answer['evidence'])} quotations   {_title(answer['text'])}"


def _title(text: str) -> str:
    """The first line of a text."""
    return text.split("\n", 1)[0]


def _credit(row: Record) -> str:
    """Licence, author and address, as far as there are any."""
    return "   ".join(filter(None, (row["licence"], row["author"] and f"by {row['author']}", row["url"])))
