"""Table schemas of posts and threads of community question answering sites."""

import pyarrow as pa

from schemas import column, table

MOMENT = pa.timestamp("ms", tz="UTC")

POSTS = table(
    "posts",
    column("post_id", pa.string(), "<site>/<upstream id>"),
    column("kind", pa.string(), "question or answer"),
    column("question_id", pa.string(), "<site>/<upstream id> of the question: its own, or the one it answers"),
    column("question_hash", pa.uint64(), "xxh3 of question_id: the order of parts and rows from here on"),
    column("site", pa.string(), "current host name of the site, e.g. cooking.stackexchange.com"),
    column("number", pa.int64(), "upstream id"),
    column("title", pa.string(), "questions only", null=True),
    column("text", pa.string(), "body as Markdown; never empty"),
    column("tags", pa.list_(pa.string()), "questions only; empty for answers"),
    column("votes", pa.int32(), "upstream Score: upvotes minus downvotes, may be negative"),
    column("created", MOMENT, "CreationDate, UTC"),
    column("accepted_id", pa.string(), "questions only: <site>/<id> of the accepted answer", null=True),
    column("closed", pa.bool_(), "closed (off-topic, duplicate, ...)"),
    column("wiki", pa.bool_(), "community wiki: votes mean something else"),
    column("author_id", pa.string(), "upstream user id; null for deleted users", null=True),
    column("author", pa.string(), "display name where the row carries one (deleted users)", null=True),
    column("licence", pa.string(), "as the row says, else by its creation date, e.g. CC BY-SA 3.0"),
    column("retrieved_at", MOMENT, "when the dump was fetched, where the fetch or the user said so", null=True),
    column("repairs", pa.int32(), "illegal characters removed from the row"),
    column(
        "scrubbed",
        pa.int32(),
        "mail addresses, phone numbers and handles replaced by [mail], [phone] and [handle] in title and text",
    ),
    key="post_id",
    cut="question_id",
    level=1,
)

ANSWER = pa.struct(
    [
        column("answer_id", pa.string(), "<site>/<upstream id>"),
        column("text", pa.string(), "body as Markdown"),
        column("votes", pa.int32(), "upvotes minus downvotes"),
        column("created", MOMENT, "UTC"),
        column("accepted", pa.bool_(), "the asker accepted it"),
        column("wiki", pa.bool_(), "community wiki"),
        column("author_id", pa.string(), "upstream user id", null=True),
        column("author", pa.string(), "display name where the row carries one", null=True),
        column("licence", pa.string(), "e.g. CC BY-SA 3.0"),
        column("scrubbed", pa.int32(), "mail addresses, phone numbers and handles replaced in text"),
    ]
)

THREADS = table(
    "threads",
    column("question_id", pa.string(), "<site>/<upstream id>"),
    column("site", pa.string(), "current host name of the site"),
    column("title", pa.string(), "title, plain text"),
    column("text", pa.string(), "question body as Markdown"),
    column("tags", pa.list_(pa.string()), "as written, in order"),
    column("votes", pa.int32(), "upvotes minus downvotes"),
    column("created", MOMENT, "UTC"),
    column("closed", pa.bool_(), "closed (off-topic, duplicate, ...)"),
    column("wiki", pa.bool_(), "community wiki"),
    column("author_id", pa.string(), "upstream user id", null=True),
    column("author", pa.string(), "display name where the row carries one", null=True),
    column("licence", pa.string(), "of the question"),
    column("retrieved_at", MOMENT, "of the dump", null=True),
    column("scrubbed", pa.int32(), "mail addresses, phone numbers and handles replaced in title and text"),
    column("answers", pa.list_(ANSWER), "most votes first, then by upstream id; may be empty"),
    key="question_id",
    parents={"post_id": ["question_id", "answers.answer_id"]},
    link="https://{0}/q/{1}",
)

# names of the users of community question answering sites, as far as attribution needs them
USERS = table(
    "users",
    column("user_id", pa.string(), "<site>/u<upstream id>"),
    column("name", pa.string(), "display name"),
    key="user_id",
)

# PostLinks.xml, as far as a site closed a question as a duplicate of another
LINKS = table(
    "links",
    column("link_id", pa.string(), "<site>/l<upstream id of the link>"),
    column("question_id", pa.string(), "<site>/<upstream id> of the duplicate; its post may be deleted"),
    column("duplicate_of", pa.string(), "<site>/<upstream id> of the original; its post may be deleted"),
    column("created", MOMENT, "when it was linked, UTC"),
    key="link_id",
    cut="question_id",
)

DUPLICATES = table(
    "duplicates",
    column("duplicate_id", pa.string(), "<question_id> <duplicate_of>"),
    column("question_id", pa.string(), "<site>/<upstream id> of a question that its site closed as a duplicate"),
    column("duplicate_of", pa.string(), "<site>/<upstream id> of the question that it is a duplicate of"),
    column("created", MOMENT, "when it was linked, UTC; null where only the question's text says it", null=True),
    column("link_id", pa.string(), "the link; null where only the question's text says it", null=True),
    key="duplicate_id",
    cut="question_id",
)
