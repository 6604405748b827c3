"""Table schemas of submissions, comments and threads of Reddit."""

import pyarrow as pa

from schemas import column, table
from schemas.sources.stackexchange import MOMENT

ITEMS = table(
    "reddit_items",
    column("post_id", pa.string(), "reddit/t3_<id> of a submission, reddit/t1_<id> of a comment"),
    column("kind", pa.string(), "submission or comment"),
    column("question_id", pa.string(), "reddit/t3_<id> of the thread: its own, or the one it is in"),
    column("question_hash", pa.uint64(), "xxh3 of question_id: the order of parts and rows from here on"),
    column("parent_id", pa.string(), "comments: what it replies to, reddit/t3_<id> or reddit/t1_<id>", null=True),
    column("subreddit", pa.string(), "as the line writes it, e.g. explainlikeimfive"),
    column("community", pa.string(), "the subreddit in lower case: what filters compare"),
    column("number", pa.int64(), "upstream id, read as a number of base 36"),
    column("title", pa.string(), "submissions only, plain text", null=True),
    column("text", pa.string(), "Markdown as its author wrote it; empty for submissions of a title or link alone"),
    column("tags", pa.list_(pa.string()), "submissions only: the flair, if any"),
    column("votes", pa.int32(), "upstream score; may be negative; null where the line has none", null=True),
    column("upvote_ratio", pa.float64(), "submissions only, in [0, 1]; from 2019-09 on", null=True),
    column("num_comments", pa.int32(), "submissions only: all comments, replies included, as Reddit counts", null=True),
    column("created", MOMENT, "UTC"),
    column("edited", pa.bool_(), "whether its author changed it"),
    column("edited_at", MOMENT, "when it was changed last, where the line says so", null=True),
    column("seen_at", MOMENT, "when the archive read it from Reddit, the time of its votes", null=True),
    column("score_age_s", pa.int64(), "seconds from created to seen_at, in which votes were counted", null=True),
    column("author_id", pa.string(), "keyed hash of the author's name; null where there is none", null=True),
    column("author_deleted", pa.bool_(), "the author's account was gone, the text was not"),
    column("distinguished", pa.string(), "moderator, admin or special: role in which it was written", null=True),
    column("stickied", pa.bool_(), "pinned by a moderator"),
    column("bot", pa.bool_(), "AutoModerator, a name that ends in -bot, _bot or Bot, or a text that says so"),
    column("locked", pa.bool_(), "closed to new comments"),
    column("over_18", pa.bool_(), "submissions only: marked as not safe for work", null=True),
    column("is_self", pa.bool_(), "submissions only: a text, not a link", null=True),
    column("link", pa.string(), "submissions of a link only: what it links", null=True),
    column("url", pa.string(), "permalink"),
    column("licence", pa.string(), "Reddit User Agreement"),
    column("retrieved_at", MOMENT, "when the dump was fetched, where the fetch or the user said so", null=True),
    column("repairs", pa.int32(), "number of its texts with ill-formed characters, replaced by U+FFFD"),
    key="post_id",
    level=1,
    cut="question_id",
)

_SHARED = ("edited", "edited_at", "seen_at", "score_age_s", "author_id", "author_deleted", "distinguished", "stickied")

REDDIT_ANSWER = pa.struct(
    [
        column("answer_id", pa.string(), "reddit/t1_<id>"),
        column("text", pa.string(), "Markdown"),
        column("votes", pa.int32(), "upstream score", null=True),
        column("created", MOMENT, "UTC"),
        *(ITEMS.field(name) for name in (*_SHARED, "bot", "url", "licence")),
    ]
)

REDDIT_THREADS = table(
    "reddit_threads",
    column("question_id", pa.string(), "reddit/t3_<id>"),
    column("site", pa.string(), "reddit.com/r/<subreddit in lower case>"),
    column("subreddit", pa.string(), "as the submission writes it"),
    column("title", pa.string(), "plain text"),
    column("text", pa.string(), "Markdown; may be empty"),
    column("tags", pa.list_(pa.string()), "the flair, if any; for a writing prompt also the tag of its title"),
    column("votes", pa.int32(), "upstream score", null=True),
    column("upvote_ratio", pa.float64(), "in [0, 1]", null=True),
    column("num_comments", pa.int32(), "all comments, replies included, as Reddit counts", null=True),
    column("created", MOMENT, "UTC"),
    *(ITEMS.field(name) for name in (*_SHARED, "bot", "locked", "over_18", "is_self", "link", "url", "licence")),
    column("retrieved_at", MOMENT, "of the dump that held the submission", null=True),
    column("answers", pa.list_(REDDIT_ANSWER), "top-level comments: most votes first, then by id; may be empty"),
    key="question_id",
    parents={"post_id": ["question_id", "answers.answer_id"]},
)

REDDIT_GONE = table(
    "reddit_gone",
    column(
        "gone_id", pa.string(), "reddit/t1_<id> of a comment that was deleted or removed; nothing else of it is kept"
    ),
    column("question_id", pa.string(), "reddit/t3_<id> of the thread it was in"),
    column("question_hash", pa.uint64(), "xxh3 of question_id: the order of parts"),
    column("parent_id", pa.string(), "what it replied to, reddit/t3_<id> or reddit/t1_<id>"),
    key="gone_id",
    cut="question_id",
)

REDDIT_TREES = table(
    "reddit_trees",
    *ITEMS,
    column("root_id", pa.string(), "reddit/t3_<id> of the thread: equal to question_id"),
    column("depth", pa.int32(), "0 the submission, 1 its direct replies; null where no way to it is known", null=True),
    column(
        "path",
        pa.list_(pa.string()),
        "ids from the root, or from the highest known ancestor, to the item itself; deleted comments and a missing one "
        "at its beginning included",
    ),
    column(
        "missing_id", pa.string(), "the ancestor that is not in these dumps, first of the path; null: none", null=True
    ),
    column("gone_above", pa.int32(), "how many comments of the path were deleted or removed"),
    column("replies", pa.int32(), "direct replies to it that are rows of this table"),
    key="post_id",
    level=1,
    cut="question_id",
)
