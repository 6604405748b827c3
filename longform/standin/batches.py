"""Files and batches of the stand-in, in OpenAI's shapes, kept in memory.

    {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {...}}      a line of the input
    {"id": "batch_req_1", "custom_id": "a", "response": {"status_code": 200, "body": {...}}, "error": null}

A batch is checked, worked off in the background and ends in one of the statuses that providers end in; lines that were
refused stand in its error file, lines that got lost in neither file.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from longform.standin.http import Reply, as_json, refusal
from longform.standin.replies import usage

MOST_LINES = 50_000
MOST_FILE_BYTES = 200 << 20
DAY_SECONDS = 86_400
MONTH_SECONDS = 30 * DAY_SECONDS
MOST_PAIRS, MOST_NAME, MOST_VALUE = 16, 64, 512
URLS = ("/v1/chat/completions", "/v1/embeddings")
MOST_PROBLEMS = 20
ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_UNDONE = {
    "expired": ("batch_expired", "This request could not be executed before the completion window expired."),
    "cancelled": ("batch_cancelled", "This request was not executed because the batch was cancelled."),
}


class Line(NamedTuple):
    """What became of a request of a batch. `body` is written as it is; None: it got lost."""

    status: int
    body: bytes | None
    prompt_tokens: int = 0
    completion_tokens: int = 0


AnswerLine = Callable[[str, dict[str, Any]], Line]


@dataclass(slots=True)
class File:
    shown: dict[str, Any]
    content: bytes


@dataclass(slots=True)
class Batch:
    """`shown` is what a client sees; `end` how it was decided that it ends, None: completed."""

    shown: dict[str, Any]
    content: bytes
    end: str | None
    output: list[bytes] = field(default_factory=list)
    errors: list[bytes] = field(default_factory=list)
    tokens: Counter[str] = field(default_factory=Counter)

    def turn(self, status: str) -> None:
        self.shown["status"] = status
        self.shown[f"{status}_at"] = int(time.time())


class Batches:
    """`answer_line` answers one request (url, body); `draw_end` says how the next batch ends."""

    def __init__(self, seconds: float, answer_line: AnswerLine, draw_end: Callable[[], str | None]) -> None:
        self._seconds, self._answer_line, self._draw_end = seconds, answer_line, draw_end
        self._files: dict[str, File] = {}
        self._batches: dict[str, Batch] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.created: Counter[str] = Counter()

    # files

    def upload(self, fields: dict[str, tuple[str, bytes]]) -> Reply:
        """`fields` of the form: name -> (file name, content)."""
        purpose = fields.get("purpose", ("", b""))[1].decode("utf-8", "replace").strip()
        if "file" not in fields:
            raise refusal(400, "'file' is a required property.", "file")
        if purpose != "batch":
            raise refusal(400, "Only files of purpose 'batch' are taken here.", "purpose")
        name, content = fields["file"]
        return as_json(self._keep(name or "file.jsonl", content, purpose).shown)

    def files(self, query: dict[str, str]) -> Reply:
        wanted = [file.shown for file in self._files.values() if query.get("purpose") in (None, file.shown["purpose"])]
        return _page(wanted if query.get("order") == "asc" else wanted[::-1], query, most=10_000, usual=10_000)

    def file(self, name: str) -> Reply:
        return as_json(self._file(name).shown)

    def content(self, name: str) -> Reply:
        return Reply(200, self._file(name).content, media="application/octet-stream")

    def delete(self, name: str) -> Reply:
        self._file(name)
        del self._files[name]
        return as_json({"id": name, "object": "file", "deleted": True})

    def _file(self, name: str) -> File:
        if name not in self._files:
            raise refusal(404, f"No such File object: {name[:100]}", "id")
        return self._files[name]

    def _keep(self, name: str, content: bytes, purpose: str) -> File:
        now = int(time.time())
        shown = {
            "id": _id("file-"),
            "object": "file",
            "bytes": len(content),
            "created_at": now,
            "expires_at": now + MONTH_SECONDS,
            "filename": name,
            "purpose": purpose,
            "status": "processed",
            "status_details": None,
        }
        file = File(shown, content)
        self._files[str(shown["id"])] = file
        return file

    # batches

    def create(self, body: Any) -> Reply:
        """Take a batch on; it is worked off in the background."""
        if not isinstance(body, dict):
            raise refusal(400, "The body is no JSON object.")
        if body.get("endpoint") not in URLS:
            raise refusal(400, f"endpoint must be one of {', '.join(URLS)}.", "endpoint", "invalid_value")
        if body.get("completion_window") != "24h":
            raise refusal(400, "completion_window must be '24h'.", "completion_window", "invalid_value")
        metadata = _metadata(body.get("metadata"))
        name = body.get("input_file_id")
        if not isinstance(name, str) or name not in self._files:
            raise refusal(400, f"No such File object: {str(name)[:100]}", "input_file_id")
        batch = Batch(_shown(body, metadata), self._files[name].content, self._draw_end())
        self._batches[batch.shown["id"]] = batch
        self.created[(metadata or {}).get("job", "")] += 1
        task = asyncio.get_running_loop().create_task(self._work(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return as_json(batch.shown)

    def batches(self, query: dict[str, str]) -> Reply:
        return _page([batch.shown for batch in self._batches.values()][::-1], query, most=100, usual=20)

    def batch(self, name: str) -> Reply:
        return as_json(self._batch(name).shown)

    def cancel(self, name: str) -> Reply:
        batch = self._batch(name)
        if batch.shown["status"] in ENDED:
            raise refusal(409, f"Cannot cancel a batch with status '{batch.shown['status']}'.")
        batch.turn("cancelling")
        return as_json(batch.shown)

    async def close(self) -> None:
        """Give up what is being worked on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _batch(self, name: str) -> Batch:
        if name not in self._batches:
            raise refusal(404, f"No batch found with id '{name[:100]}'.", "batch_id")
        return self._batches[name]

    # the work

    async def _work(self, batch: Batch) -> None:
        """From validating to an end; the whole takes about the seconds that were set."""
        started = asyncio.get_running_loop().time()
        await asyncio.sleep(self._seconds / 10)
        lines, problems = _checked(batch.content, batch.shown["endpoint"])
        batch.content = b""
        if batch.end == "failed" and not problems:
            problems = [_problem("token_limit_exceeded", "Enqueued token limit reached for this model.", None)]
        if problems:
            batch.shown["errors"] = {"object": "list", "data": problems}
            return batch.turn("failed")
        batch.shown["request_counts"]["total"] = len(lines)
        if batch.shown["status"] != "cancelling":
            batch.turn("in_progress")
        undone = await self._answer(batch, lines, started)
        self._finish(batch, undone)

    async def _answer(self, batch: Batch, lines: list[dict[str, Any]], started: float) -> list[dict[str, Any]]:
        """Answer the lines, evenly over the time; those that are left when it expires or is cancelled."""
        loop = asyncio.get_running_loop()
        last = len(lines) // 2 if batch.end in _UNDONE else len(lines)
        for number, line in enumerate(lines):
            due = started + self._seconds * (0.1 + 0.9 * number / len(lines))
            await asyncio.sleep(max(0.0, due - loop.time()))
            if number == last or batch.shown["status"] == "cancelling":
                return lines[number:]
            self._answer_one(batch, line)
        await asyncio.sleep(max(0.0, started + self._seconds - loop.time()))
        return []

    def _answer_one(self, batch: Batch, line: dict[str, Any]) -> None:
        answer = self._answer_line(line["url"], line["body"])
        counts = batch.shown["request_counts"]
        counts["completed" if answer.status == 200 and answer.body is not None else "failed"] += 1
        if answer.body is None:
            return
        batch.tokens.update(prompt=answer.prompt_tokens, completion=answer.completion_tokens)
        (batch.output if answer.status == 200 else batch.errors).append(_line(line["custom_id"], answer))

    def _finish(self, batch: Batch, undone: list[dict[str, Any]]) -> None:
        status = "completed"
        if batch.shown["status"] == "cancelling" or batch.end == "cancelled":
            status = "cancelled"
        elif batch.end == "expired":
            status = "expired"
        if status in _UNDONE:
            batch.errors += [_not_done(line["custom_id"], *_UNDONE[status]) for line in undone]
        batch.turn("finalizing")
        for kind, written in (("output", batch.output), ("error", batch.errors)):
            if written:
                file = self._keep(f"{batch.shown['id']}_{kind}.jsonl", b"\n".join(written) + b"\n", "batch_output")
                batch.shown[f"{kind}_file_id"] = file.shown["id"]
        batch.shown["usage"] = _batch_usage(batch.tokens)
        batch.turn(status)
        batch.output, batch.errors = [], []


def form_fields(media: str, body: bytes) -> dict[str, tuple[str, bytes]]:
    """The parts of a multipart form: name -> (file name, content). Raises Refused (400) where it is none."""
    kind, *parameters = [part.strip() for part in media.split(";")]
    boundary = next((p[9:].strip('"') for p in parameters if p.lower().startswith("boundary=")), "")
    if kind.lower() != "multipart/form-data" or not boundary:
        raise refusal(400, "A file is uploaded as multipart/form-data with a boundary.")
    fields = {}
    for part in (b"\r\n" + body).split(f"\r\n--{boundary}".encode())[1:-1]:
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        names = dict(_disposition(head.decode("utf-8", "replace")))
        fields[names.get("name", "")] = (names.get("filename", ""), content)
    return fields


def _disposition(head: str) -> Iterator[tuple[str, str]]:
    for line in head.split("\r\n"):
        name, _, value = line.partition(":")
        if name.strip().lower() == "content-disposition":
            for parameter in value.split(";")[1:]:
                key, _, text = parameter.strip().partition("=")
                yield key.lower(), text.strip('"')


def _checked(content: bytes, url: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(lines, problems)"""
    lines: list[dict[str, Any]] = []
    problems: list[dict[str, Any]] = []
    seen: set[str] = set()
    models: set[str] = set()
    for number, written in enumerate(_written(content), 1):
        if number > MOST_LINES:
            return [], [_problem("too_many_requests", f"A batch holds at most {MOST_LINES} requests.", number)]
        line = _read_line(written)
        wrong = _wrong(line, url, seen, models)
        if wrong:
            problems.append(_problem(*wrong, number))
        seen.add(str(line.get("custom_id")))
        models.add(_model(line))
        lines.append(line)
    if not lines:
        problems.append(_problem("empty_file", "The file holds no request.", None))
    return lines, problems[:MOST_PROBLEMS]


def _written(content: bytes) -> Iterable[bytes]:
    return (line for line in content.split(b"\n") if line.strip())


def _read_line(written: bytes) -> dict[str, Any]:
    try:
        line = json.loads(written)
    except (ValueError, RecursionError):
        return {}
    return line if isinstance(line, dict) else {}


def _wrong(line: dict[str, Any], url: str, seen: set[str], models: set[str]) -> tuple[str, str] | None:
    """(code, message)"""
    name, body = line.get("custom_id"), line.get("body")
    if not line:
        return "invalid_json_line", "This line is no JSON object."
    if not isinstance(name, str) or not name:
        return "missing_required_parameter", "custom_id is missing."
    if name in seen:
        return "duplicate_custom_id", "The custom_id stands in another line as well."
    if line.get("method") != "POST":
        return "invalid_method", "method must be POST."
    if line.get("url") != url:
        return "invalid_url", f"url must be {url}, as the batch says."
    if not isinstance(body, dict):
        return "missing_required_parameter", "body is missing."
    if models and _model(line) not in models:
        return "mismatched_model", "A batch asks one model only."
    return None


def _model(line: dict[str, Any]) -> str:
    body = line.get("body")
    return str(body.get("model")) if isinstance(body, dict) else ""


def _problem(code: str, message: str, line: int | None) -> dict[str, Any]:
    return {"code": code, "message": message, "param": None, "line": line}


def _line(custom_id: str, answer: Line) -> bytes:
    head = json.dumps({"id": _id("batch_req_"), "custom_id": custom_id})[:-1]
    response = f'"response": {{"status_code": {answer.status}, "request_id": "{_id("req_")}", "body": '
    return f"{head}, {response}".encode() + (answer.body or b"null") + b'}, "error": null}'


def _not_done(custom_id: str, code: str, message: str) -> bytes:
    error = {"code": code, "message": message}
    return json.dumps({"id": _id("batch_req_"), "custom_id": custom_id, "response": None, "error": error}).encode()


def _shown(body: dict[str, Any], metadata: dict[str, str] | None) -> dict[str, Any]:
    now = int(time.time())
    moments = ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled")
    return {
        "id": _id("batch_"),
        "object": "batch",
        "endpoint": body["endpoint"],
        "errors": None,
        "input_file_id": body["input_file_id"],
        "completion_window": "24h",
        "status": "validating",
        "output_file_id": None,
        "error_file_id": None,
        "created_at": now,
        "expires_at": now + DAY_SECONDS,
        **{f"{moment}_at": None for moment in moments},
        "request_counts": {"total": 0, "completed": 0, "failed": 0},
        "usage": None,
        "metadata": metadata,
    }


def _metadata(given: Any) -> dict[str, str] | None:
    pairs = given.items() if isinstance(given, dict) else []
    fits = all(isinstance(value, str) and len(name) <= MOST_NAME and len(value) <= MOST_VALUE for name, value in pairs)
    if given is not None and not (isinstance(given, dict) and len(given) <= MOST_PAIRS and fits):
        raise refusal(400, f"metadata must hold at most {MOST_PAIRS} pairs of short texts.", "metadata")
    return given


def _batch_usage(tokens: Counter[str]) -> dict[str, Any]:
    counted = usage(tokens["prompt"], tokens["completion"])
    return {
        "input_tokens": counted["prompt_tokens"],
        "input_tokens_details": counted["prompt_tokens_details"],
        "output_tokens": counted["completion_tokens"],
        "output_tokens_details": counted["completion_tokens_details"],
        "total_tokens": counted["total_tokens"],
    }


def _page(rows: list[dict[str, Any]], query: dict[str, str], *, most: int, usual: int) -> Reply:
    """A list from after the row `after`, at most `limit` long."""
    limit = query.get("limit", str(usual))
    if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit[:6]) <= most:
        raise refusal(400, f"limit must be a whole number from 1 to {most}.", "limit", "invalid_value")
    after = query.get("after")
    names = [row["id"] for row in rows]
    if after is not None and after not in names:
        raise refusal(400, f"There is nothing with the id '{after[:100]}' to go on after.", "after", "invalid_value")
    start = names.index(after) + 1 if after is not None else 0
    page = rows[start : start + int(limit)]
    ends = {"first_id": page[0]["id"] if page else None, "last_id": page[-1]["id"] if page else None}
    return as_json({"object": "list", "data": page, **ends, "has_more": start + len(page) < len(rows)})


def _id(prefix: str) -> str:
    return f"{prefix}{random.getrandbits(96):024x}"
