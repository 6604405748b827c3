"""Table schema of conversations between people and language models."""

import pyarrow as pa

from schemas import column, table
from schemas.sources.stackexchange import MOMENT

TURN = pa.struct(
    [
        column("role", pa.string(), "user or assistant, as written"),
        column("content", pa.string(), "as distributed; may be empty"),
        column("language", pa.string(), "a full name, as detected upstream", null=True),
        column("toxic", pa.bool_(), "flagged by a moderation model", null=True),
        column("redacted", pa.bool_(), "upstream masked personal data in it", null=True),
    ]
)

CONVERSATIONS = table(
    "conversations",
    column("conversation_id", pa.string(), "<group>/<upstream id>"),
    column("model", pa.string(), "that answered, as written", null=True),
    column("created", MOMENT, "when the conversation was logged, UTC", null=True),
    column("language", pa.string(), "most used, a full name: English", null=True),
    column("turns", pa.list_(TURN), "in order, never empty"),
    column("toxic", pa.bool_(), "flagged by a moderation model, in any turn"),
    column("redacted", pa.bool_(), "personal data was masked upstream, in any turn"),
    column("licence", pa.string(), "of the set, as published"),
    column("revision", pa.string(), "commit of the repository that the file is of, where known", null=True),
    column("url", pa.string(), "of the set at this revision, where known: a conversation has none", null=True),
    column("retrieved_at", MOMENT, "when the file was fetched, where known", null=True),
    key="conversation_id",
    level=1,
)

LOGGED = table(
    "logged",
    column("logged_id", pa.string(), "<group>/<upstream id>, one row a record in its order; empty where it has none"),
    column("created", MOMENT, "when the conversation was logged, UTC", null=True),
    key="logged_id",
)
