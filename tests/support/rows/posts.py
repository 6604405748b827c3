"""Dumps of Stack Exchange with hostile posts."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def write_posts(path: Path, questions: list[Row]) -> Path:
    """A dump of posts with `title`, `body` (plain text), `tags`, `user` and `answers`, a list of the same."""
    number, rows = 1, []
    for question in questions:
        own, number = number, number + 1
        rows.append(_row(own, 1, question, 5, Title=question["title"], Tags=question.get("tags", "|beer|")))
        for place, answer in enumerate(question["answers"]):
            rows.append(_row(number, 2, answer, 9 - 4 * place, ParentId=str(own)))
            number += 1
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('<?xml version="1.0" encoding="utf-8"?>\n<posts>\n' + "\n".join(rows) + "\n</posts>\n")
    return path


def _row(number: int, kind: int, post: Row, score: int, **more: str) -> str:
    fields = {
        "Id": str(number),
        "PostTypeId": str(kind),
        "CreationDate": f"2024-07-01T00:00:{number % 60:02d}.000",
        "Score": str(score),
        "Body": "".join(f"<p>{html.escape(line)}</p>" for line in post["body"].split("\n") if line.strip()),
        "OwnerDisplayName": post.get("user", f"somebody {number}"),
        "ContentLicense": "CC BY-SA 4.0",
        **more,
    }
    written = " ".join(f'{name}="{_attribute(value)}"' for name, value in fields.items())
    return f"  <row {written} />"


def _attribute(text: str) -> str:
    """The value as dumps write it: characters that XML forbids become references."""
    return re.sub(r"[\x00-\x1f\ufffe]", lambda found: f"&#x{ord(found[0]):X};", html.escape(text))
