"""The types of what a stage asks a model (endpoint, request) and of what comes back (answer, failure). Nothing here
sends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from longform.errors import Incomplete

if TYPE_CHECKING:
    from pydantic import BaseModel

Capability = Literal["json_schema", "n", "logprobs", "batch", "idempotency", "prompt_cache_key", "reasoning"]
Form = Literal["text", "json", "tags"]
FailureKind = Literal[
    "request", "filter", "refusal", "length", "whitespace", "invalid", "empty", "degenerate", "repeated", "oversized",
    "unanswered",
]  # fmt: skip
Flaw = tuple[FailureKind, str]


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens, of the prompt (`input`) and of the reply (`output`). `cached_input`: for prompt tokens
    that the provider had cached (None: as `input`). `batch`: the factor by which batch mode changes all prices.
    """

    input: float
    output: float
    cached_input: float | None = None
    batch: float = 0.5


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model behind an OpenAI-compatible API; without `base_url` the built-in offline model.

    `parameters`: further fields of each request's body, as (name, value). `name`, `model`, `parameters`, whether it
    takes a JSON schema, and `api` where it is "responses" are its identity, as they change its replies; address, key,
    limits, price and time-out are not. `key_env` is the environment variable with the API key. `concurrency`: requests
    at the same time. `limit_field` is the server's name for the limit of a reply's tokens, in chat completions.
    `capabilities`: what the server offers besides plain chat; `reasoning`: its replies may think beside that limit.
    `rpm` and `tpm` are requests and tokens allowed a minute, where the server does not say so itself. `price` None: as
    in the installed price list, if it is there.
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
    api: Literal["chat", "responses"] = "chat"
    window: int | None = None

    @property
    def offline(self) -> bool:
        """Whether this is the built-in offline model, which has no address."""
        return self.base_url is None

    @property
    def form(self) -> Literal["json", "tags"]:
        """The form in which the endpoint is asked for a structured reply: JSON if it takes a schema, else tags."""
        return "json" if "json_schema" in self.capabilities else "tags"

    def identity(self) -> dict[str, Any]:
        """What identifies the endpoint in a recipe, as a JSON value: name, model, parameters, and `json_schema` if it
        takes one; `api` if it is the Responses API; `window` if that is known, as it says which requests are made.
        """
        shown: dict[str, Any] = {"endpoint": self.name, "model": self.model, "parameters": dict(self.parameters)}
        shown |= {"api": self.api} if self.api != "chat" else {}
        shown |= {"window": self.window} if self.window is not None else {}
        return {**shown, "json_schema": True} if self.form == "json" else shown


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model: the rendered messages, as (role, content), the limit of the reply's tokens and how
    often to ask.

    `task` names the prompt: statistics are kept by it, and the offline model's rule is chosen by it; it is not sent.
    `prompt`, e.g. the hash of the prompt file, is stored beside the reply; it changes neither what is sent nor the
    key. With `reply` the answer is read into that pydantic model, from JSON or from tags (`form`). `samples`: how many
    separate answers are wanted. `logprobs`: how many alternatives to return at each position (0: only the chosen
    token's probability; None: none at all).

    `salvage`: where no attempt gives a reply that can be read whole, the items of its list that can be read are an
    answer, which says how many are lost (`Answer.lost`); of models whose one field is a list of objects.

    `whole`: a plain reply must be whole, with its end mark or a plausible end (`whole_reply`). `check` says of a reply,
    as it is in `Answer.value`, why it is of no use, as (kind of failure, why); None if it is. `declines`: a reply that
    declines to answer is an answer, because the method counts such replies; else it is a Failure. `copies`: so is one
    that is a text of the prompt. `abstains`: whether a reply, as it is in `Answer.value`, abstains, which the method
    counts; such replies may be one word, and equal. `unchanged`: whether a reply leaves the text it was to work on as
    it is, which it may where nothing is left to do. Both shares are judged by themselves, for each `system` in whose
    name is asked. `subject`: what is asked about, by default the messages; replies on one subject may be equal.
    """

    messages: tuple[tuple[str, str], ...]
    task: str
    max_tokens: int = 2048
    prompt: str = ""
    reply: type[BaseModel] | None = None
    salvage: bool = False
    form: Form = "text"
    samples: int = 1
    logprobs: int | None = None
    whole: bool = False
    check: Callable[[Any], Flaw | None] | None = None
    declines: bool = False
    copies: bool = False
    abstains: Callable[[Any], object] | None = None
    unchanged: Callable[[Any], object] | None = None
    system: str = ""
    subject: str = ""


@dataclass(slots=True)  # not frozen: it would take three times as long to make
class Answer:
    """A model's reply to one sample of a request. `text` is the reply; `value` is the reply read into the request's
    `reply` model, or for a `whole` one its text without thought and end mark, else None. `key` is its key in the
    response store; `cached`: it was stored before. `finish`: why the reply ended. `model`: the one that the server
    names, else the endpoint's. `sample`: the number of the sample, from 0. Token counts are 0 where the server gives
    none. `served`: (model, fingerprint of its set-up) as the server names them, None where it does not.

    `logprobs` is the choice's `logprobs.content` as received; None where there is none. `lost`: items of its list that
    could not be read, one more where the list is cut off; 0 for a reply that was read whole.
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
    served: tuple[str | None, str | None] = (None, None)
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """The final result of a request that got no usable answer. `kind` is the reason:

        request     refused for its content: too long, not acceptable
        filter      the question or the reply was held back by a provider's filter
        refusal     the model declined, as the server says or by its words (longform/llm/read/refusals.py)
        length      the reply was cut off at the limit of tokens, or ended in the middle of a sentence
        whitespace  the reply was cut off at the limit of tokens, and its end is nearly all white space
        invalid     the reply did not have the form that was asked for, even after one repair; or it failed the
                    request's check
        empty       the reply was empty
        degenerate  the reply was one word, words in no order, the same over and over, or a text of the prompt
        repeated    the reply was that to another question, too (the first one stays an answer)
        unanswered  several runs got no reply that can be read; asked again only if that is wanted

    The kind is that of the last attempt: `length`, `whitespace` and `empty` are final only in a second or third one
    (the offline model has one attempt). `detail["text"]` is the text of its reply or of the model's refusal; without
    a reply `detail` is empty. `key` is its key in the response store, `sample` the number of the sample, from 0.
    """

    kind: FailureKind
    message: str
    key: str
    detail: dict[str, Any] = field(default_factory=dict)
    sample: int = 0


def broken_off() -> Incomplete:
    """The error (Incomplete) that callers get once the build is stopped and the models are closed."""
    return Incomplete("The build was broken off: run the same command again.")
