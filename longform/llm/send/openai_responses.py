"""OpenAI's Responses API, as another form of what longform/llm/send/bodies.py asks and reads (endpoints with `api =
"responses"`). The request of a chat completion and its reply are rewritten field by field:

    {"input": [{"role": "user", "content": "..."}], "max_output_tokens": 9, "text": {"format": {...}}, "model": "..."}
    {"status": "completed", "output": [{"type": "reasoning", ...}, {"type": "message", "content": [
        {"type": "output_text", "text": "...", "logprobs": [...]} or {"type": "refusal", "refusal": "..."}]}],
     "usage": {"input_tokens": 9, "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 3}}, "error": null}

A call has one reply (there is no `n`) and no seed. Nothing is kept at the provider (`store` is false).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PATH = "/responses"
LOGPROBS = "message.output_text.logprobs"
FINISH = {"max_output_tokens": "length", "content_filter": "content_filter"}
SAID = ("message", "reasoning")


def from_chat(body: Mapping[str, Any], limit_field: str) -> dict[str, Any]:
    """The body of a request for the same reply. `limit_field`: the name of the limit of tokens in `body`."""
    asked = {"input": body["messages"], "max_output_tokens": body[limit_field], "model": body["model"]}
    if schema := body.get("response_format"):
        asked["text"] = {"format": {"type": "json_schema", **schema["json_schema"]}}
    if body.get("logprobs"):
        asked["include"] = [LOGPROBS]
        asked |= {"top_logprobs": body["top_logprobs"]} if "top_logprobs" in body else {}
    return asked


def as_chat(document: dict[str, Any]) -> dict[str, Any]:
    """The same reply as a chat completion; any other document unchanged. One that failed, was cancelled or is not ready
    has the finish reason `error`.
    """
    items = document.get("output")
    if "choices" in document or not isinstance(items, list):
        return document
    items = [item for item in items if isinstance(item, dict)]
    contents = [item.get("content") for item in items if item.get("type") == "message"]
    parts = [part for content in contents if isinstance(content, list) for part in content if isinstance(part, dict)]
    said: dict[str, Any] = {}
    if any(item.get("type") in SAID for item in items):
        said["content"] = _joined(parts, "text") if any("text" in part for part in parts) else None
        said["refusal"] = _joined(parts, "refusal")
    logprobs = [each for part in parts for each in part.get("logprobs") or []]
    choice = {"message": said, "finish_reason": _finish(document), "logprobs": {"content": logprobs or None}}
    return {
        "choices": [{**choice, "error": document.get("error")}],
        "model": document.get("model"),
        "usage": _usage(document.get("usage")),
    }


def _joined(parts: list[dict[str, Any]], name: str) -> str:
    """The texts of this name in the parts of a message, one after the other."""
    return "".join(text for part in parts if isinstance(text := part.get(name), str))


def _finish(document: dict[str, Any]) -> str:
    """Why the reply ended, in the words of chat completions."""
    details = document.get("incomplete_details")
    if document.get("status", "completed") == "completed":
        return "stop"
    reason = str(details.get("reason")) if isinstance(details, dict) else ""
    return FINISH.get(reason, "error") if document["status"] == "incomplete" else "error"


def _usage(usage: Any) -> dict[str, Any]:
    """The usage in the words of chat completions."""
    usage = usage if isinstance(usage, dict) else {}
    return {
        "prompt_tokens": usage.get("input_tokens"),
        "prompt_tokens_details": usage.get("input_tokens_details"),
        "completion_tokens": usage.get("output_tokens"),
        "completion_tokens_details": usage.get("output_tokens_details"),
        "total_tokens": usage.get("total_tokens"),
    }
