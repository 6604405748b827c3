"""What a stage asks a model, and what comes back. No transport here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model behind an OpenAI-compatible API.

    `name`, `model` and `parameters` are its identity (they change what it says); address, key,
    concurrency and time-out are not. `limit_field` is what the server calls the limit of a reply's tokens.
    """

    name: str
    model: str
    parameters: tuple[tuple[str, Any], ...] = ()
    base_url: str | None = None
    key_env: str | None = None
    concurrency: int = 16
    timeout_seconds: float = 120.0
    limit_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"

    @property
    def offline(self) -> bool:
        return self.base_url is None

    def identity(self) -> dict[str, Any]:
        return {"endpoint": self.name, "model": self.model, "parameters": dict(self.parameters)}


@dataclass(frozen=True, slots=True)
class Request:
    """One call: the rendered messages, and which rule the offline model follows (`task`, not sent as content).

    `prompt` is kept beside the stored reply, e.g. the hash of the prompt file; it changes neither call nor key.
    """

    messages: tuple[tuple[str, str], ...]
    task: str
    max_tokens: int = 2048
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's reply. `key` names it in the response store; `text` is what it said, unparsed."""

    text: str
    key: str
    model: str
    finish: str
    input_tokens: int
    output_tokens: int
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that this request can never get an answer to (too long, refused by a filter)."""

    kind: Literal["request", "filter", "length"]
    message: str
    key: str
    detail: dict[str, Any] = field(default_factory=dict)
