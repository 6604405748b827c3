"""A comment and a submission of Reddit as the dumps have them."""

from __future__ import annotations

import json
from typing import Any

SECOND = 1_706_745_600


COMMENT = {
    "author": "sample_author_1",
    "body": "Salt &amp; ice.",
    "created_utc": SECOND,
    "edited": False,
    "id": "kod0b1",
    "link_id": "t3_1afw2c",
    "parent_id": "t3_1afw2c",
    "score": 12,
    "subreddit": "explainlikeimfive",
}


SUBMISSION = {
    "author": "sample_author_2",
    "created_utc": SECOND,
    "id": "1afw2c",
    "is_self": True,
    "num_comments": 3,
    "over_18": False,
    "score": 40,
    "selftext": "",
    "subreddit": "explainlikeimfive",
    "title": "ELI5: Why?",
    "upvote_ratio": 0.9,
}


def line(record: dict[str, Any], **changed: Any) -> bytes:
    """The record as a line, some fields replaced, added or (...) left out."""
    return json.dumps({name: value for name, value in {**record, **changed}.items() if value is not ...}).encode()
