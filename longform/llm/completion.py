"""What an endpoint's JSON says, checked: a chat completion, or a list of embeddings. None where the shape is wrong.

    {"choices": [{"message": {"content": "..."}, "finish_reason": "stop"}], "model": "...",
     "usage": {"prompt_tokens": 9, "completion_tokens": 5}}
    {"data": [{"index": 0, "embedding": [0.1, ...]}], "model": "..."}

Usage may be missing (then 0), `content` may be a list of text parts, `finish_reason` may be missing (then stop).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Completion:
    text: str
    finish: str
    refusal: str
    served_model: str
    fingerprint: str | None
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int


def read_completion(body: bytes) -> Completion | None:
    document = read_json(body)
    choices = document.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        return None
    finish, refusal = _text(choice.get("finish_reason")) or "stop", _text(message.get("refusal"))
    text = _content(message.get("content"))
    if text is None and not refusal and finish not in ("length", "content_filter"):
        return None
    return _completion(document, text or "", finish, refusal)


def read_embeddings(body: bytes, texts: int) -> list[list[float]] | None:
    """One vector a text, in the order of the texts."""
    data = read_json(body).get("data")
    if not isinstance(data, list) or len(data) != texts or not all(isinstance(item, dict) for item in data):
        return None
    vectors = {item.get("index", place): item.get("embedding") for place, item in enumerate(data)}
    ordered = [vectors.get(place) for place in range(texts)]
    return [vector for vector in ordered if vector] if all(map(_is_vector, ordered)) else None


def read_json(body: bytes) -> dict[str, Any]:
    """The JSON object, or an empty one where it is none."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _completion(document: dict[str, Any], text: str, finish: str, refusal: str) -> Completion:
    usage = document.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Completion(
        text=_writable(text),
        finish=finish,
        refusal=_writable(refusal),
        served_model=_text(document.get("model")),
        fingerprint=_text(document.get("system_fingerprint")) or None,
        input_tokens=_count(usage, "prompt_tokens"),
        cached_tokens=_count(usage.get("prompt_tokens_details"), "cached_tokens"),
        output_tokens=_count(usage, "completion_tokens"),
        reasoning_tokens=_count(usage.get("completion_tokens_details"), "reasoning_tokens"),
    )


def _content(content: Any) -> str | None:
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str)) if parts else None
    return content if isinstance(content, str) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(usage: Any, name: str) -> int:
    number = usage.get(name) if isinstance(usage, dict) else None
    return number if type(number) is int and number >= 0 else 0


def _is_vector(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(number) in (int, float) for number in value)


def _writable(text: str) -> str:
    """The text with halves of surrogate pairs, which UTF-8 cannot hold, replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
