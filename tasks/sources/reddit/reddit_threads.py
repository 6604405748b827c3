"""Submissions joined with their top-level comments, and which threads the published datasets take from Reddit.

The join is out of core: a comment may stand in a later month's dump.

ELI5 (Fan et al. 2019; the rules are those of its download script): submissions of 2011-07 to 2018-07 with a score of
2 or more, comments with a score of 2 or more and 8 words, no AutoModerator, no notice of removal; the tag goes from
the title. Not taken over from the script: lines that merely name the subreddit, double unescaping, tokenised texts
and numbered links in place of addresses, and titles that were kept of submissions whose text was deleted.

WritingPrompts (Fan et al. 2018, section 2): prompts that are tagged [WP] or as one of its kin, stories of 30 words or
more; no posts of bots and moderators, no announcements. The sticky comment for off-topic talk is a bot's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longform.artifacts.rows import Rejected, Row, Rows
from longform.engine.stage import PerGroup, StageContext, stage
from schemas.sources.reddit import ITEMS, REDDIT_THREADS
from tasks.sources.files.hash_join import in_lists, joined

ELI5_SUBREDDITS = ["explainlikeimfive"]
PROMPT_SUBREDDITS = ["WritingPrompts"]

_ELI5_TAG = re.compile(r"^\s*[\[({]?\s*eli[5f]\b\s*[\])}]?\s*[:;,.\-–—]*\s*", re.IGNORECASE)
_TITLE_TAG = re.compile(r"^\s*[\[({]\s*([A-Za-z]{2,3})\s*[\])}]\s*[:\-–—]*\s*")
_REMOVED = "Your submission has been removed"
_NEWEST = "seen_at desc nulls last, retrieved_at desc nulls last, votes, length(text), md5(text), title, created"


# ---------------------------------------------------------------- the join


def threads(paths: list[str], scratch: Path, *, memory_limit_mb: int = 512) -> Iterator[pa.RecordBatch | Rejected]:
    """Record batches of REDDIT_THREADS in order of (question_hash, question_id), from Parquet files of ITEMS in any
    order; a Rejected for each item left out.

    Of items with one id, the one that was read from Reddit last is kept. Temporary files are written to `scratch`.
    """
    yield from joined(
        paths,
        scratch,
        ITEMS,
        same="kind, number",
        keep_order=_NEWEST,
        kind="submission",
        leave_out=_left_out,
        masks=lambda items: {
            "reply to a comment": pc.fill_null(pc.not_equal(items["parent_id"], items["question_id"]), False)
        },
        nest=_threads,
        orphan_reason="no submission in these dumps",
        memory_limit_mb=memory_limit_mb,
    )


def _left_out(items: pa.RecordBatch, reason: str) -> Iterator[Rejected]:
    """A Rejected with this reason for each item."""
    yield from (Rejected(key, "filtered", reason) for key in items["post_id"].to_pylist())


def _threads(questions: pa.RecordBatch, answers: pa.RecordBatch, counts: np.ndarray) -> pa.RecordBatch:
    """A batch of REDDIT_THREADS. `counts`: the number of answers of each question, in order."""
    own = {**{name: answers[name] for name in ITEMS.names}, "answer_id": answers["post_id"]}
    derived = {
        "site": pc.binary_join_element_wise("reddit.com/r/", questions["community"], ""),
        "answers": in_lists(own, counts, REDDIT_THREADS.field("answers").type),
    }
    columns = [derived[name] if name in derived else questions[name] for name in REDDIT_THREADS.names]
    return pa.RecordBatch.from_arrays(columns, schema=REDDIT_THREADS)


@stage(REDDIT_THREADS, revision=1)
def join_reddit(context: StageContext, items: PerGroup) -> Iterator[pa.RecordBatch | Rejected]:
    """Submissions with the comments that answer them, in whatever order and file these came.

    A comment whose submission is not in the dumps, or was deleted or removed, is left out.
    """
    yield from threads(items.paths, context.scratch())


# ---------------------------------------------------------------- selection


def without_eli5(title: str) -> str:
    """The title without the tag before it that the subreddit asks for: "ELI5: Why?", "[ELI5] Why?", "eli5 why"."""
    return _ELI5_TAG.sub("", title, count=1).strip()


def title_tag(title: str) -> tuple[str | None, str]:
    """("WP", "You wake up ...") of "[WP] You wake up ..."; (None, the title) where it starts with no tag."""
    match = _TITLE_TAG.match(title)
    return (match[1].upper(), title[match.end() :].strip()) if match else (None, title)


def sift(context: StageContext, thread: Row, leave_out: Callable[[Row], str | None]) -> list[Row]:
    """The answers of a thread for which `leave_out` returns None, in order. The others are counted by the reason it
    returns, as they have no rows of their own to be rejected.
    """
    reasons = [leave_out(answer) for answer in thread["answers"]]
    for reason in filter(None, reasons):
        context.count(f"answers: {reason}", 1)
    return [answer for answer, reason in zip(thread["answers"], reasons, strict=True) if reason is None]


def first_reason(*rules: tuple[str, Any]) -> str | None:
    """The reason of the first (reason, condition) whose condition is true; None where none is."""
    return next((reason for reason, holds in rules if holds), None)


def too_few(votes: int | None, least: int | None) -> bool:
    """Whether the votes are fewer than `least`, or unknown; never where `least` is None."""
    return least is not None and (votes is None or votes < least)


@stage(REDDIT_THREADS, revision=1)
def select_eli5(
    context: StageContext,
    threads: Rows,
    *,
    min_score: int,
    min_words: int,
    first_month: str | None,
    last_month: str | None,
) -> Iterator[Row | Rejected]:
    """Questions and answers by ELI5's rules. Months are those of the question, e.g. 2011-07, both included."""

    def leave_out(answer: Row) -> str | None:
        return first_reason(
            ("a bot's", answer["bot"]),
            ("notice of removal", answer["text"].startswith(_REMOVED)),
            ("too few votes", too_few(answer["votes"], min_score)),
            ("too few words", len(answer["text"].split()) < min_words),
        )

    for thread in threads:
        month, title = f"{thread['created']:%Y-%m}", without_eli5(thread["title"])
        reason = first_reason(
            ("a link, no question", thread["is_self"] is False),
            ("a bot's or moderator's", thread["bot"] or thread["distinguished"]),
            ("no comments", thread["num_comments"] == 0),
            ("too few votes", too_few(thread["votes"], min_score)),
            ("outside the months", month < (first_month or month) or month > (last_month or month)),
        )
        answers = [] if reason else sift(context, thread, leave_out)
        if reason or not title or not answers:
            yield Rejected(thread["question_id"], "filtered", reason or ("no answer left" if title else "empty title"))
        else:
            best = sorted(
                answers, key=lambda one: (one["votes"], len(one["text"].split()), one["answer_id"]), reverse=True
            )
            yield {**thread, "title": title, "answers": best}


@stage(REDDIT_THREADS, revision=1)
def select_prompts(
    context: StageContext, threads: Rows, *, tags: list[str], min_words: int, min_score: int | None
) -> Iterator[Row | Rejected]:
    """Prompts with one of these title tags and their stories, by the rules of WritingPrompts."""
    wanted = {tag.upper() for tag in tags}

    def leave_out(story: Row) -> str | None:
        return first_reason(
            ("a bot's, sticky or moderator's", story["bot"] or story["stickied"] or story["distinguished"]),
            ("too few votes", too_few(story["votes"], min_score)),
            ("too few words", len(story["text"].split()) < min_words),
        )

    for thread in threads:
        tag, prompt = title_tag(thread["title"])
        reason = first_reason(
            ("no prompt by its tag", tag not in wanted),
            ("a bot's or moderator's", thread["bot"] or thread["stickied"] or thread["distinguished"]),
            ("empty prompt", not prompt),
        )
        stories = [] if reason else sift(context, thread, leave_out)
        if reason or not stories:
            yield Rejected(thread["question_id"], "filtered", reason or "no story left")
        else:
            tagged = list(dict.fromkeys((*thread["tags"], tag)))
            yield {**thread, "title": prompt, "tags": tagged, "answers": stories}
