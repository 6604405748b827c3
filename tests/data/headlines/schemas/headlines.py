"""Headlines of questions."""

import pyarrow as pa

from schemas import column, table
from schemas.made_by import MADE_BY

HEADLINES = table(
    "headlines",
    column("headline_id", pa.string(), "headline/<post_id>"),
    column("post_id", pa.string(), "parent: posts.post_id; the question"),
    column("site", pa.string(), "host of today"),
    column("licence", pa.string(), "of the question, e.g. CC BY-SA 4.0"),
    column("text", pa.string(), "one line that says what is asked"),
    column("split", pa.string(), "train or test"),
    *MADE_BY,
    key="headline_id",
)
SOURCES = table(
    "sources",
    column("post_id", pa.string(), "<site>/<upstream id>"),
    column("site", pa.string(), "host of today"),
    column("author", pa.string(), "display name, where the dump has one", null=True),
    column("licence", pa.string(), "e.g. CC BY-SA 4.0"),
    key="post_id",
)
LABELS = table(
    "labels",
    column("label_id", pa.string(), "headline and annotator"),
    column("headline_id", pa.string(), "parent: headlines.headline_id"),
    column("annotator_id", pa.string(), "a number or a pseudonym"),
    column("clear", pa.string(), "Yes or No"),
    key="label_id",
)
