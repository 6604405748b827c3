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
from collections.abc import Callable, Collection, Iterator
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
NEWEST = "seen_at desc nulls last, retrieved_at desc nulls last, votes, length(text), md5(text), title, created"


# ---------------------------------------------------------------- the join


def threads(
    paths: list[str], scratch: Path, *, takedowns: Collection[str] = (), memory_limit_mb: int = 512
) -> Iterator[pa.RecordBatch | Rejected]:
    """Record batches of REDDIT_THREADS (submissions, each with the comments that answer it directly) in order of
    (question_hash, question_id), from Parquet files of ITEMS in any order.

    A Rejected for each item left out: a repeated id (the item that was read from Reddit last is kept), a reply to a
    comment, and a comment whose submission is missing, or is one of `takedowns`. Temporary files are written to
    `scratch`.
    """
    listed = pa.array(sorted(takedowns), pa.string())
    yield from joined(
        paths,
        scratch,
        ITEMS,
        same="kind, number",
        keep_order=NEWEST,
        kind="submission",
        leave_out=_left_out,
        masks=lambda items: {
            "reply to a comment": pc.fill_null(pc.not_equal(items["parent_id"], items["question_id"]), False),
            "submission taken down": pc.is_in(items["question_id"], value_set=listed),
        },
        nest=_threads,
        orphan_reason="no submission in these dumps",
        memory_limit_mb=memory_limit_mb,
    )


def _left_out(items: pa.RecordBatch, reason: str) -> Iterator[Rejected]:
    """A Rejected (filtered) with this reason for each item, under its post_id."""
    yield from (Rejected(key, "filtered", reason) for key in items["post_id"].to_pylist())


def _threads(questions: pa.RecordBatch, answers: pa.RecordBatch, counts: np.ndarray) -> pa.RecordBatch:
    """A batch of REDDIT_THREADS: a row for each question, with its answers. Both are batches of ITEMS; `answers` are in
    the order of the questions, and `counts` is the number of answers of each question.
    """
    own = {**{name: answers[name] for name in ITEMS.names}, "answer_id": answers["post_id"]}
    derived = {
        "site": pc.binary_join_element_wise("reddit.com/r/", questions["community"], ""),
        "answers": in_lists(own, counts, REDDIT_THREADS.field("answers").type),
    }
    columns = [derived[name] if name in derived else questions[name] for name in REDDIT_THREADS.names]
    return pa.RecordBatch.from_arrays(columns, schema=REDDIT_THREADS)


@stage(REDDIT_THREADS, revision=1)
def join_reddit(
    context: StageContext, items: PerGroup, *, takedowns: Collection[str] = ()
) -> Iterator[pa.RecordBatch | Rejected]:
    """A row for each submission with the comments that answer it directly, in whatever order and file these came; rows
    in order of (question_hash, question_id).

    A Rejected for an item whose id repeats, for a reply to a comment, and for a comment whose submission is not among
    the items, as it is one of `takedowns`, is not in the dumps, or was deleted or removed.
    """
    yield from threads(items.paths, context.scratch(), takedowns=takedowns)


# ---------------------------------------------------------------- selection


def without_eli5(title: str) -> str:
    """The title without the tag that the subreddit asks for at its beginning: "Why?" of "ELI5: Why?" and of "[ELI5]
    Why?", "why" of "eli5 why". "" if nothing else is left.
    """
    return _ELI5_TAG.sub("", title, count=1).strip()


def title_tag(title: str) -> tuple[str | None, str]:
    """(tag in capitals, rest of the title): ("WP", "You wake up ...") of "[WP] You wake up ..."; (None, the title) if
    it does not begin with two or three letters in brackets.
    """
    match = _TITLE_TAG.match(title)
    return (match[1].upper(), title[match.end() :].strip()) if match else (None, title)


def sift(context: StageContext, thread: Row, leave_out: Callable[[Row], str | None]) -> list[Row]:
    """The answers of a thread for which `leave_out` returns None, in order. For the others it returns a reason, under
    which the stage counts them, as they have no rows of their own to be rejected.
    """
    reasons = [leave_out(answer) for answer in thread["answers"]]
    for reason in filter(None, reasons):
        context.count(f"answers: {reason}", 1)
    return [answer for answer, reason in zip(thread["answers"], reasons, strict=True) if reason is None]


def first_reason(*rules: tuple[str, Any]) -> str | None:
    """The reason of the first (reason, condition) whose condition is true; None if none is."""
    return next((reason for reason, holds in rules if holds), None)


def too_few(votes: int | None, least: int | None) -> bool:
    """Whether the votes are fewer than `least`, or unknown (None); False if `least` is None."""
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
    """Threads by ELI5's rules, with the title without its tag and the answers that are left, most votes first; a
    Rejected for each other thread.

    Left out are links, posts of bots and moderators, threads without comments, empty titles, fewer votes than
    `min_score` (or unknown), questions outside the months (such as 2011-07; both included; None: no limit), and threads
    without an answer left. An answer is left out if it is a bot's, a notice of removal, or has fewer votes than
    `min_score` or fewer words than `min_words`; such answers are counted.
    """

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
    """Threads whose title begins with one of these tags, by the rules of WritingPrompts: the prompt is the title
    without the tag, which is added to the thread's tags, and the answers are its stories. A Rejected for each other
    thread.

    Left out are also posts of bots and moderators, sticky ones, empty prompts, and threads without a story left. A
    story is left out if it is a bot's, a moderator's or sticky, or has fewer votes than `min_score` (None: no limit) or
    fewer words than `min_words`; such stories are counted.
    """
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
