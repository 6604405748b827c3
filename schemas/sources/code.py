"""Table schema of commits to code repositories."""

import pyarrow as pa

from schemas import column, table
from schemas.sources.stackexchange import MOMENT

COMMITS = table(
    "commits",
    column("commit_id", pa.string(), "commitpackft/<commit>/<name of the file after it>"),
    column("commit", pa.string(), "SHA-1 of the commit, lower case"),
    column("language", pa.string(), "as the source names it"),
    column("old_file", pa.string(), "name of the file before"),
    column("new_file", pa.string(), "name of the file after"),
    column("old_contents", pa.string(), "the file before; empty where the commit created it"),
    column("new_contents", pa.string(), "the file after; never empty"),
    column("subject", pa.string(), "first line of the message"),
    column("message", pa.string(), "the whole message"),
    column("repos", pa.list_(pa.string()), "repositories that have the commit, each once, in the source's order"),
    column("licence", pa.string(), "of the repository, as the source says", null=True),
    column("url", pa.string(), "of the commit in the first repository; null where its name is invalid", null=True),
    column("retrieved_at", MOMENT, "when the file was fetched, where known", null=True),
    key="commit_id",
    level=1,
)
