"""OpenReview's APIs v1 and v2: notes by invitation, venueid, forum or id, page after page; PDFs one by one or as zips.

    GET  /notes?invitation=…&sort=id&limit=1000&after=<id>[&details=directReplies]
    GET  /pdf?id=<note>        GET /attachment?name=pdf&ids=<note>,<note>        POST /login

A note with `invitations` is of v2, one with `invitation` of v1. Only PDFs count for the limit of requests; a 429 says
in its body when the window ends.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from longform.standin.sources.calls import Answer, Call, Refused, as_file, as_json, plain_key
from longform.standin.sources.library import PDF, Print

MOST_NOTES = 1_000
MOST_ATTACHMENTS = 50
TITLE_IN_NAMES = 40
NAMES = {
    400: "InvalidFieldError",
    401: "UnauthorizedError",
    403: "ForbiddenError",
    404: "NotFoundError",
    429: "RateLimitError",
}

Note = dict[str, Any]


def read_notes(folders: Sequence[Path]) -> list[Note]:
    """The notes in the .jsonl files of these folders; of files of one name only the first folder's count."""
    files: dict[str, Path] = {}
    for folder in folders:
        files = {path.name: path for path in sorted(folder.glob("*.jsonl"))} | files
    return [orjson.loads(line) for path in files.values() for line in path.read_bytes().splitlines() if line.strip()]


def is_v2(note: Note) -> bool:
    """Whether the note is one of API v2."""
    return "invitations" in note


class OpenReview:
    """One of the two APIs, with its notes and the replies to them. `prints`: PDFs by note id; `version`: 1 or 2."""

    limited = frozenset(("GET /pdf", "GET /attachment", "GET /pdf/{name}"))
    key: Callable[[Call], str] = staticmethod(plain_key)

    def __init__(self, notes: Iterable[Note], prints: Mapping[str, Print], version: int) -> None:
        self.prefix = "/openreview" if version == 2 else "/openreview-v1"
        self._prints, self._version = prints, version
        own = [note for note in notes if is_v2(note) == (version == 2)]
        replies = [reply for note in own for reply in note.get("details", {}).get("directReplies", [])]
        self._notes = sorted({note["id"]: note for note in [*replies, *own]}.values(), key=lambda note: note["id"])

    def routes(self) -> Mapping[str, Answer]:
        """What the API answers."""
        return {
            "GET /notes": self._found,
            "GET /pdf": lambda call: self._pdf(call.query.get("id", "")),
            "GET /pdf/{name}": self._by_path,
            "GET /attachment": self._attachment,
            "POST /login": self._login,
        }

    def error(self, status: int, seconds: float | None) -> web.Response:
        """The error with this status; a 429 says in its body when the limit ends, and in no header."""
        if status == 429 and seconds is not None:
            ends = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")
            return self._error(429, "Too many requests", limit=0, remaining=0, resetTime=ends.replace("+00:00", "Z"))
        reply = self._error(status, "The request failed")
        if seconds is not None:
            reply.headers["Retry-After"] = f"{seconds:g}"
        return reply

    def _error(self, status: int, message: str, **details: Any) -> web.Response:
        """An error body as OpenReview sends it."""
        name = NAMES.get(status, "Error")
        return as_json({"name": name, "message": message, "status": status, "details": details}, status)

    def usage(self, url: str) -> list[str]:
        """How submissions and PDFs are fetched; v1 is named beside v2."""
        if self._version == 1:
            return []
        one = url.replace("/openreview", "/openreview-v1")
        return [f"longform fetch openreview 2024 --set pdfs=true --base-url {url} --set base_url_v1={one}"]

    # notes

    def _found(self, call: Call) -> web.Response:
        """One page of the notes that the query names, by id. Refused (400) for a query that names none."""
        tests = [(name, value) for name, value in call.query.items() if name in FIELDS or name.startswith("content.")]
        if not tests:
            raise Refused(self._error(400, "The request needs an invitation, a venueid, a forum or an id"))
        found = [note for note in self._notes if all(_fits(note, name, value) for name, value in tests)]
        count, after = len(found), call.query.get("after", "")
        start = _number(call, "offset", 0)
        page = [note for note in found if note["id"] > after][start:][: min(_number(call, "limit", 1000), MOST_NOTES)]
        detailed = "directReplies" in call.query.get("details", "")
        return as_json({"notes": [_with_replies(note) if detailed else _plain(note) for note in page], "count": count})

    def _login(self, call: Call) -> web.Response:
        """A token for any account with a password."""
        try:
            account = json.loads(call.body)
            name, password = account["id"], account["password"]
        except (ValueError, KeyError, TypeError):
            name = password = ""
        if not (name and password):
            raise Refused(self._error(400, "Invalid username or password"))
        return as_json({"token": "standin", "user": {"id": str(name)}})

    # PDFs

    def _pdf(self, note_id: str) -> web.Response:
        """The PDF of the note with this id. Refused (404) if there is none."""
        if note_id not in self._prints or not any(note["id"] == note_id for note in self._notes):
            raise Refused(self._error(404, "The Note was not found"))
        return as_file(self._prints[note_id].pdf, PDF)

    def _by_path(self, call: Call) -> web.Response:
        """The PDF at the path that its note names, /pdf/<hash>.pdf."""
        path = f"/pdf/{call.match['name']}"
        return self._pdf(next((note["id"] for note in self._notes if _content(note, "pdf") == path), ""))

    def _attachment(self, call: Call) -> web.Response:
        """A zip of the PDFs of `ids`, up to 50, or the PDF of `id`. Refused (400, 404) if one of them has none."""
        if call.query.get("name") != "pdf":
            raise Refused(self._error(400, "Only the field pdf has attachments here"))
        if "ids" not in call.query:
            return self._pdf(call.query.get("id", ""))
        ids = call.query["ids"].split(",")
        if len(ids) > MOST_ATTACHMENTS:
            raise Refused(self._error(400, f"At most {MOST_ATTACHMENTS} ids are taken"))
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for note_id in ids:
                pdf: Any = self._pdf(note_id).body
                archive.writestr(zipfile.ZipInfo(self._name(note_id)), pdf)
        return as_file(file.getvalue(), "application/zip", "attachments.zip")

    def _name(self, note_id: str) -> str:
        """The name of a note's PDF in a zip: <number>_<title, cut short>.pdf."""
        note = next(note for note in self._notes if note["id"] == note_id)
        title = re.sub(r"\W+", "_", str(_content(note, "title")))[:TITLE_IN_NAMES]
        return f"{note.get('number', note_id)}_{title}.pdf"


FIELDS = ("invitation", "id", "forum", "number", "replyto")


def _content(note: Note, name: str) -> Any:
    """The value of a field of a note's content, in either API's form; None if it has none."""
    value = note.get("content", {}).get(name)
    return value.get("value") if isinstance(value, dict) and "value" in value else value


def _fits(note: Note, name: str, value: str) -> bool:
    """Whether the note has this value in the field that a query names."""
    if name == "invitation":
        return value in note.get("invitations", [note.get("invitation")])
    found = _content(note, name.removeprefix("content.")) if name.startswith("content.") else note.get(name)
    return str(found) == value


def _plain(note: Note) -> Note:
    """The note without what only `details` asks for."""
    return {name: value for name, value in note.items() if name != "details"}


def _with_replies(note: Note) -> Note:
    """The note with its direct replies."""
    return {**note, "details": {"directReplies": note.get("details", {}).get("directReplies", [])}}


def _number(call: Call, name: str, default: int) -> int:
    """A parameter as a number from 0 on; the default if it is none."""
    text = call.query.get(name, "")
    return int(text) if text.isdecimal() else default
