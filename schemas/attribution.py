"""Authors and licences of the posts in a published dataset: one row for each source post."""

import pyarrow as pa

from schemas import column, table
from schemas.sources.stackexchange import MOMENT

ATTRIBUTION = table(
    "attribution",
    column("post_id", pa.string(), "<site>/<upstream id>"),
    column("question_id", pa.string(), "parent: threads.question_id"),
    column("kind", pa.string(), "question or answer"),
    column("site", pa.string(), "current host name of the site"),
    column("title", pa.string(), "title of the question"),
    column("url", pa.string(), "permalink"),
    column("author", pa.string(), "display name, where the source row carries one", null=True),
    column("author_url", pa.string(), "address of the author's profile; null for deleted users", null=True),
    column("licence", pa.string(), "e.g. CC BY-SA 4.0"),
    column("created", MOMENT, "when the post was written, UTC"),
    column("retrieved_at", MOMENT, "when the dump was fetched, where known", null=True),
    column("scrubbed", pa.int32(), "mail addresses, phone numbers and handles replaced in title and text"),
    key="post_id",
    cut="question_id",
)
