"""What a stage asks a model, and what comes back. No transport here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from longform.errors import Incomplete

if TYPE_CHECKING:
    from pydantic import BaseModel

Capability = Literal["json_schema", "n", "logprobs", "batch"]
Form = Literal["text", "json", "tags"]
FailureKind = Literal["request", "filter", "refusal", "length", "whitespace", "invalid", "empty"]


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens. `cached_input`: of prompt tokens the provider had cached. `batch`: factor of a batch."""

    input: float
    output: float
    cached_input: float | None = None
    batch: float = 0.5


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model behind an OpenAI-compatible API.

    `name`, `model`, `parameters` and whether it takes a JSON schema are its identity (they change what it says);
    address, key, limits, price and time-out are not. `limit_field` is what the server calls the limit of a reply's
    tokens. `rpm` and `tpm` are requests and tokens allowed a minute, where the server does not say so itself.
    """

    name: str
    model: str
    parameters: tuple[tuple[str, Any], ...] = ()
    base_url: str | None = None
    key_env: str | None = None
    concurrency: int = 16
    timeout_seconds: float = 120.0
    limit_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    capabilities: frozenset[Capability] = frozenset()
    rpm: int | None = None
    tpm: int | None = None
    price: Price | None = None

    @property
    def offline(self) -> bool:
        return self.base_url is None

    @property
    def form(self) -> Literal["json", "tags"]:
        """How it is asked for a structured reply."""
        return "json" if "json_schema" in self.capabilities else "tags"

    def identity(self) -> dict[str, Any]:
        shown = {"endpoint": self.name, "model": self.model, "parameters": dict(self.parameters)}
        return {**shown, "json_schema": True} if self.form == "json" else shown


@dataclass(frozen=True, slots=True)
class Request:
    """One question: the rendered messages, and which rule the offline model follows (`task`, not sent).

    `prompt` is kept beside the stored reply, e.g. the hash of the prompt file; it changes neither call nor key.
    With `reply` the answer is read into that model, from JSON or from tags (`form`). `samples` are asked for as
    separate answers; `logprobs` is how many alternatives to return at each position (0: of the chosen token only).
    """

    messages: tuple[tuple[str, str], ...]
    task: str
    max_tokens: int = 2048
    prompt: str = ""
    reply: type[BaseModel] | None = None
    form: Form = "text"
    samples: int = 1
    logprobs: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's reply. `key` names it in the response store; `text` is what it said; `value` is it read into `reply`.

    `logprobs` is the choice's `logprobs.content` as it came, where it was asked for.
    """

    text: str
    key: str
    model: str
    finish: str
    input_tokens: int
    output_tokens: int
    cached: bool = False
    value: Any = None
    sample: int = 0
    logprobs: Any = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that this request can never get a usable answer to.

    request     refused for what it is: too long, not acceptable
    filter      held back by a provider's filter, of the question or of the reply
    refusal     the model declined
    length      cut off at the limit of tokens, also with twice the limit
    whitespace  ran into the limit with nothing but white space
    invalid     not in the form that was asked for, even after one repair
    empty       nothing said

    `detail["text"]` is what the model said, where it said anything.
    """

    kind: FailureKind
    message: str
    key: str
    detail: dict[str, Any] = field(default_factory=dict)
    sample: int = 0


def broken_off() -> Incomplete:
    """What who asks is told once the models are closed."""
    return Incomplete("The build was broken off: run the same command again.")
