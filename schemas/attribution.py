"""Who wrote what a published dataset holds: one row a source post."""

import pyarrow as pa

from schemas import column, table
from schemas.sources.stackexchange import MOMENT

ATTRIBUTION = table(
    "attribution",
    column("post_id", pa.string(), "<site>/<upstream id>"),
    column("question_id", pa.string(), "parent: threads.question_id"),
    column("kind", pa.string(), "question or answer"),
    column("site", pa.string(), "host of today"),
    column("title", pa.string(), "of the question"),
    column("url", pa.string(), "permalink"),
    column("author", pa.string(), "display name, where the source row carries one", null=True),
    column("author_url", pa.string(), "profile; null for deleted users", null=True),
    column("licence", pa.string(), "e.g. CC BY-SA 4.0"),
    column("created", MOMENT, "UTC"),
    column("retrieved_at", MOMENT, "when the dump was fetched, where known", null=True),
    column("scrubbed", pa.int32(), "mail addresses, phone numbers and handles replaced in title and text"),
    key="post_id",
    cut="question_id",
)
