"""The stand-in server's files and batches, in OpenAI's shapes, kept in memory.

    {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {...}}      a line of the input
    {"id": "batch_req_1", "custom_id": "a", "response": {"status_code": 200, "body": {...}}, "error": null}

A batch is validated, answered in the background and ends with a status of OpenAI's. Requests that were refused are in
its error file; requests whose answer was lost (faults such as `reset`) are in neither of its files.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aiohttp import web

from longform.standin.questions import BatchRequest, FileListRequest, ListRequest, as_json, checked, refusal
from longform.standin.replies import usage

MAX_LINES = 50_000
MAX_FILE_BYTES = 200 << 20
DAY_SECONDS = 86_400
MONTH_SECONDS = 30 * DAY_SECONDS
MAX_PROBLEMS = 20
TOKENS = ("prompt_tokens", "completion_tokens")
FINAL_STATUSES = frozenset({"completed", "failed", "expired", "cancelled"})
_UNANSWERED = {
    "expired": {
        "code": "batch_expired",
        "message": "This request could not be executed before the completion window expired.",
    },
    "cancelled": {
        "code": "batch_cancelled",
        "message": "This request was not executed because the batch was cancelled.",
    },
}


class Line(NamedTuple):
    """The answer to one request of a batch: HTTP status, body and token usage (OpenAI's usage object, {} if no model
    was asked). `body` is JSON text, written to the result file unchanged; None: the answer is lost and written
    nowhere.
    """

    status: int
    body: bytes | None
    usage: Mapping[str, Any]


AnswerLine = Callable[[str, dict[str, Any]], Line]


@dataclass(slots=True)
class File:
    """A stored file: OpenAI's file object (`document`), and the bytes."""

    document: dict[str, Any]
    content: bytes


@dataclass(slots=True)
class Batch:
    """A batch in progress or ended. `document` is OpenAI's batch object; `content` the bytes of its input file,
    emptied when they are read; `end` the final status chosen for it, None: completed. `output` and `errors` collect
    the lines of its two result files, `tokens` the token counts of its answers by name (TOKENS).
    """

    document: dict[str, Any]
    content: bytes
    end: str | None
    output: list[bytes] = field(default_factory=list)
    errors: list[bytes] = field(default_factory=list)
    tokens: Counter[str] = field(default_factory=Counter)

    def set_status(self, status: str) -> None:
        """Set the status in the batch object, and the time of it in seconds since 1970 (`<status>_at`)."""
        self.document["status"] = status
        self.document[f"{status}_at"] = int(time.time())


class Batches:
    """All files and batches of a server, in memory. A batch takes about `seconds`. `answer_line(url, body)` answers
    one request of a batch; `draw_end` returns the final status of a new batch, None: completed.

    Public methods answer one API call each; they raise ErrorReply for an unknown id or an invalid request. `created`
    counts the created batches by the `job` of their metadata ("" without one).
    """

    def __init__(self, seconds: float, answer_line: AnswerLine, draw_end: Callable[[], str | None]) -> None:
        self._seconds, self._answer_line, self._draw_end = seconds, answer_line, draw_end
        self._files: dict[str, File] = {}
        self._batches: dict[str, Batch] = {}
        self._by_key: dict[str, Batch] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.created: Counter[str] = Counter()

    # files

    def upload(self, name: str, content: bytes, purpose: str) -> web.Response:
        """The file object of a new file with this name and content. ErrorReply (400) for a purpose other than
        `batch`.
        """
        if purpose != "batch":
            raise refusal(400, "Only files of purpose 'batch' are taken here.", "purpose")
        return as_json(self._keep(name, content, purpose).document)

    def files(self, query: Mapping[str, str]) -> web.Response:
        """One page of the file objects, newest first unless `order` is asc, only those of a `purpose` that is given.
        `query`: `after`, `limit`, `order`, `purpose`. ErrorReply (400) for an invalid query.
        """
        request = checked(FileListRequest, dict(query))
        rows = [f.document for f in self._files.values() if request.purpose in (None, f.document["purpose"])]
        return _page(rows if request.order == "asc" else rows[::-1], request)

    def file(self, name: str) -> web.Response:
        """The file object with the id `name`. ErrorReply (404) if there is none."""
        return as_json(self._file(name).document)

    def content(self, name: str) -> web.Response:
        """The bytes of the file with the id `name`. ErrorReply (404) if there is none."""
        return web.Response(body=self._file(name).content, content_type="application/octet-stream")

    def delete(self, name: str) -> web.Response:
        """Delete the file with the id `name`; the reply says so. ErrorReply (404) if there is none."""
        self._file(name)
        del self._files[name]
        return as_json({"id": name, "object": "file", "deleted": True})

    def _file(self, name: str) -> File:
        """The file with the id `name`. ErrorReply (404) if there is none."""
        if name not in self._files:
            raise refusal(404, f"No such File object: {name[:100]}", "id")
        return self._files[name]

    def _keep(self, name: str, content: bytes, purpose: str) -> File:
        """A new file with this file name, content and purpose, stored under a new id."""
        now, key = int(time.time()), _id("file-")
        document = {
            "id": key,
            "object": "file",
            "bytes": len(content),
            "created_at": now,
            "expires_at": now + MONTH_SECONDS,
            "filename": name,
            "purpose": purpose,
            "status": "processed",
            "status_details": None,
        }
        return self._files.setdefault(key, File(document, content))

    # batches

    def create(self, body: Any, key: str | None = None) -> web.Response:
        """The batch object of a new batch, which is answered in the background from now on; it must be called in a
        running event loop. With an idempotency `key` that was given before, that of the batch created then. ErrorReply
        (400) for an invalid body or an unknown input file.
        """
        if key is not None and key in self._by_key:
            return as_json(self._by_key[key].document)
        request = checked(BatchRequest, body)
        name = request.input_file_id
        if name not in self._files:
            raise refusal(400, f"No such File object: {name[:100]}", "input_file_id")
        batch = Batch(_batch_document(request), self._files[name].content, self._draw_end())
        self._batches[batch.document["id"]] = batch
        self._by_key |= {} if key is None else {key: batch}
        self.created[(request.metadata or {}).get("job", "")] += 1
        task = asyncio.get_running_loop().create_task(self._work(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return as_json(batch.document)

    def batches(self, query: Mapping[str, str]) -> web.Response:
        """One page of the batch objects, newest first. `query`: `after` and `limit`. ErrorReply (400) for an invalid
        query.
        """
        rows = [batch.document for batch in self._batches.values()]
        return _page(rows[::-1], checked(ListRequest, dict(query)))

    def batch(self, name: str) -> web.Response:
        """The batch object with the id `name`. ErrorReply (404) if there is none."""
        return as_json(self._batch(name).document)

    def cancel(self, name: str) -> web.Response:
        """The batch object with the id `name`, now `cancelling`; the background work ends it soon. ErrorReply (404) if
        there is none, (409) if the batch has ended.
        """
        batch = self._batch(name)
        if batch.document["status"] in FINAL_STATUSES:
            raise refusal(409, f"Cannot cancel a batch with status '{batch.document['status']}'.")
        batch.set_status("cancelling")
        return as_json(batch.document)

    async def close(self) -> None:
        """Cancel the background work of all batches and wait until it has stopped."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _batch(self, name: str) -> Batch:
        """The batch with the id `name`. ErrorReply (404) if there is none."""
        if name not in self._batches:
            raise refusal(404, f"No batch found with id '{name[:100]}'.", "batch_id")
        return self._batches[name]

    # the work

    async def _work(self, batch: Batch) -> None:
        """Take a batch from `validating` to its final status, which takes about the configured seconds. It fails,
        early and with nothing answered, if its input file is ill-formed or its drawn end is `failed`.
        """
        started = asyncio.get_running_loop().time()
        await asyncio.sleep(self._seconds / 10)
        lines, problems = _read_lines(batch.content, batch.document["endpoint"])
        batch.content = b""
        if batch.end == "failed" and not problems:
            problems = [_problem("token_limit_exceeded", "Enqueued token limit reached for this model.", None)]
        if problems:
            batch.document["errors"] = {"object": "list", "data": problems}
            return batch.set_status("failed")
        batch.document["request_counts"]["total"] = len(lines)
        if batch.document["status"] != "cancelling":
            batch.set_status("in_progress")
        unanswered = await self._answer(batch, lines, started)
        self._finish(batch, unanswered)

    async def _answer(self, batch: Batch, lines: list[dict[str, Any]], started: float) -> list[dict[str, Any]]:
        """Answer the lines, evenly spread over the batch's seconds from `started` (the event loop's time). Returns the
        lines left unanswered: the second half if the batch is to expire or be cancelled, the rest once a client
        cancels it, else [].
        """
        loop = asyncio.get_running_loop()
        last = len(lines) // 2 if batch.end in _UNANSWERED else len(lines)
        for number, line in enumerate(lines):
            due = started + self._seconds * (0.1 + 0.9 * number / len(lines))
            await asyncio.sleep(max(0.0, due - loop.time()))
            if number == last or batch.document["status"] == "cancelling":
                return lines[number:]
            self._answer_one(batch, line)
        await asyncio.sleep(max(0.0, started + self._seconds - loop.time()))
        return []

    def _answer_one(self, batch: Batch, line: dict[str, Any]) -> None:
        """Answer one line: count it as completed or failed, and append the answer to the batch's output (status 200)
        or errors. A lost answer is neither counted nor written anywhere.
        """
        answer = self._answer_line(line["url"], line["body"])
        if answer.body is None:
            return
        counts = batch.document["request_counts"]
        counts["completed" if answer.status == 200 else "failed"] += 1
        batch.tokens.update({name: answer.usage.get(name, 0) for name in TOKENS})
        response = b'{"status_code": %d, "request_id": "%b", "body": %b}'
        written = response % (answer.status, _id("req_").encode(), answer.body)
        (batch.output if answer.status == 200 else batch.errors).append(
            _result_line(line["custom_id"], written, b"null")
        )

    def _finish(self, batch: Batch, unanswered: list[dict[str, Any]]) -> None:
        """Write the batch's result files (none without lines) and usage, then set its final status: cancelled if a
        client cancelled it, else the `end` drawn for it. If it expired or was cancelled, each of the `unanswered` lines
        gets an error line. Empties `batch.output` and `batch.errors`.
        """
        status = "cancelled" if batch.document["status"] == "cancelling" else batch.end or "completed"
        if status in _UNANSWERED:
            error = json.dumps(_UNANSWERED[status]).encode()
            batch.errors += [_result_line(line["custom_id"], b"null", error) for line in unanswered]
        batch.set_status("finalizing")
        for kind, written in (("output", batch.output), ("error", batch.errors)):
            if written:
                file = self._keep(f"{batch.document['id']}_{kind}.jsonl", b"\n".join(written) + b"\n", "batch_output")
                batch.document[f"{kind}_file_id"] = file.document["id"]
        batch.document["usage"] = {
            name.replace("prompt_", "input_").replace("completion_", "output_"): number
            for name, number in usage(*(batch.tokens[name] for name in TOKENS)).items()
        }
        batch.set_status(status)
        batch.output, batch.errors = [], []


def _read_lines(content: bytes, url: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(lines, problems) of an input file. `problems` are OpenAI's error objects, at most one for each line and
    MAX_PROBLEMS in all; a batch with any problem fails. `url` is the endpoint that all lines must name. Without a
    line, or with more than MAX_LINES, there is one problem and no lines. Blank lines are skipped and not counted.
    """
    texts = list(filter(bytes.strip, content.split(b"\n")))
    if not texts:
        return [], [_problem("empty_file", "The file holds no request.", None)]
    if len(texts) > MAX_LINES:
        return [], [_problem("too_many_requests", f"A batch holds at most {MAX_LINES} requests.", MAX_LINES + 1)]
    lines = list(map(_read_line, texts))
    problems: list[dict[str, Any]] = []
    seen: set[str] = set()
    models: set[str] = set()
    for number, line in enumerate(lines, 1):
        problems += [_problem(*broken, number) for broken in _broken_rules(line, url, seen, models)[:1]]
        seen.add(str(line.get("custom_id")))
        models.add(_model(line))
    return lines, problems[:MAX_PROBLEMS]


def _read_line(text: bytes) -> dict[str, Any]:
    """The line as a dict; {} if it is not a JSON object."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return line if isinstance(line, dict) else {}


def _broken_rules(line: dict[str, Any], url: str, seen: set[str], models: set[str]) -> list[tuple[str, str]]:
    """(code, message) of each rule that the line breaks. `url` is the endpoint that it must name; `seen` and `models`
    are the custom_ids and models of the lines before it.
    """
    name, body = line.get("custom_id"), line.get("body")
    rules = [
        (bool(line), "invalid_json_line", "This line is no JSON object."),
        (isinstance(name, str) and name != "", "missing_required_parameter", "custom_id is missing."),
        (str(name) not in seen, "duplicate_custom_id", "The custom_id stands in another line as well."),
        (line.get("method") == "POST", "invalid_method", "method must be POST."),
        (line.get("url") == url, "invalid_url", f"url must be {url}, as the batch says."),
        (isinstance(body, dict), "missing_required_parameter", "body is missing."),
        (_model(line) in (models or {_model(line)}), "mismatched_model", "A batch asks one model only."),
    ]
    return [(code, message) for kept, code, message in rules if not kept]


def _model(line: dict[str, Any]) -> str:
    """The model that the request in a line of the input names; "" if it has no body, "None" if the body names none."""
    body = line.get("body")
    return str(body.get("model")) if isinstance(body, dict) else ""


def _problem(code: str, message: str, line: int | None) -> dict[str, Any]:
    """OpenAI's error object for line number `line` of an input file (from 1, blank ones not counted); None: for all of
    it.
    """
    return {"code": code, "message": message, "param": None, "line": line}


def _result_line(custom_id: str, response: bytes, error: bytes) -> bytes:
    """One line of a result file, as JSON without a line break, with a new id. `response` and `error` are JSON text."""
    names = json.dumps({"id": _id("batch_req_"), "custom_id": custom_id}).encode()
    return b'%b, "response": %b, "error": %b}' % (names[:-1], response, error)


def _batch_document(request: BatchRequest) -> dict[str, Any]:
    """OpenAI's batch object for a new batch, in status `validating`."""
    now = int(time.time())
    moments = ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled")
    return {
        "id": _id("batch_"),
        "object": "batch",
        "endpoint": request.endpoint,
        "errors": None,
        "input_file_id": request.input_file_id,
        "completion_window": "24h",
        "status": "validating",
        "output_file_id": None,
        "error_file_id": None,
        "created_at": now,
        "expires_at": now + DAY_SECONDS,
        **{f"{moment}_at": None for moment in moments},
        "request_counts": {"total": 0, "completed": 0, "failed": 0},
        "usage": None,
        "metadata": request.metadata,
    }


def _page(rows: list[dict[str, Any]], request: ListRequest) -> web.Response:
    """One page of a list, as OpenAI returns it: at most `limit` rows after the row with the id `after`, in the order
    of `rows`. ErrorReply (400) for an unknown `after`.
    """
    after, names = request.after, [row["id"] for row in rows]
    if after is not None and after not in names:
        raise refusal(400, f"There is no row with the id '{after[:100]}' to continue after.", "after", "invalid_value")
    start = names.index(after) + 1 if after is not None else 0
    page = rows[start : start + request.limit]
    ends = {"first_id": page[0]["id"] if page else None, "last_id": page[-1]["id"] if page else None}
    return as_json({"object": "list", "data": page, **ends, "has_more": start + len(page) < len(rows)})


def _id(prefix: str) -> str:
    """A new random id: the prefix and 24 hex digits."""
    return f"{prefix}{random.getrandbits(96):024x}"
