"""Exports of the axioms dataset as JSON lines: the pairs as trainers read them, from the published files.

{"prompt": [{"role": "user", "content": "…"}], "chosen": […], "rejected": […], "margin": 0.3, …}
"""

from __future__ import annotations

import orjson

from longform.artifacts.rows import Row
from tasks.publishing.exports import Export, Format

CONFIGS = ("preference", "preference_sampled", "preference_text")


def line(row: Row) -> bytes:
    """A row as one line of a JSONL file, in UTF-8 with a line end; times are in ISO 8601. Other characters that some
    readers take for line ends are escaped.
    """
    text = orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
    for end in ("\x85", "\u2028", "\u2029"):
        text = text.replace(end.encode(), f"\\u{ord(end):04x}".encode())
    return text


EXPORTS = {"preference-jsonl": Format(Export.published, line, ("train", "test"), CONFIGS, "train")}
