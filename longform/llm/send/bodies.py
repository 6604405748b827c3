"""The JSON bodies of requests (chat completions and embeddings), and the checked reading of an endpoint's JSON replies.

A reply is a chat completion or a list of embeddings. Reading it gives None where it has another shape:

    {"choices": [{"message": {"content": "..."}, "finish_reason": "stop"}], "model": "...",
     "usage": {"prompt_tokens": 9, "completion_tokens": 5}}
    {"data": [{"index": 0, "embedding": [0.1, ...]}], "model": "..."}

Differences between servers are allowed for. Usage may be missing (then 0), `content` may be a list of text parts, and
`finish_reason` may be missing (then stop) or another word of the same meaning. A finish reason that says that the reply
was broken off makes it no reply. Vectors may be base64 of 32-bit floats, and may lack their index.
"""

from __future__ import annotations

import base64
import json
import math
from array import array
from collections import Counter
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

import orjson

from longform.llm.ask.keys import SENT, Encoded, canonical, key_of
from longform.llm.ask.types import Endpoint, Request
from longform.llm.read.replies import writable
from longform.llm.send import openai_responses

CHAT, EMBEDDINGS = "/chat/completions", "/embeddings"
FINISH = {
    "length": ("length", "max_tokens", "model_length", "max_length"),
    "content_filter": (
        "content_filter",
        "safety",
        "sensitive",
        "prohibited_content",
        "guardrail_intervened",
        "blocklist",
        "recitation",
    ),
    "": (
        "error",
        "abort",
        "aborted",
        "cancelled",
        "network_error",
        "insufficient_system_resource",
        "load",
        "unload",
    ),
}
OURS = {theirs: ours for ours, words in FINISH.items() for theirs in words}  # "": broken off
SAYING_NOTHING = ("reasoning", "reasoning_content", "tool_calls")


def body_of(endpoint: Endpoint, request: Request, sample: int = 0) -> dict[str, Any]:
    """The body of the request for one sample, without `n` (the number of samples): with the field `response_format`
    where a reply model is to be filled as JSON, `logprobs` where they are wanted, and with the endpoint's parameters,
    which replace fields of the same name. Samples differ in `seed` only, if the endpoint sets one and does not take
    `n`.
    """
    body: dict[str, Any] = {
        "model": endpoint.model,
        "messages": [{"role": role, "content": content} for role, content in request.messages],
        endpoint.limit_field: request.max_tokens,
    }
    if request.reply is not None and request.form == "json":
        from longform.llm.read.structured import response_format

        body["response_format"] = response_format(request.reply)
    if request.logprobs is not None:
        body["logprobs"] = True
        if request.logprobs:
            body["top_logprobs"] = request.logprobs
    if endpoint.api == "responses":
        body = openai_responses.from_chat(body, endpoint.limit_field)
    body |= dict(endpoint.parameters)
    if sample and isinstance(body.get("seed"), int) and "n" not in endpoint.capabilities:
        body["seed"] += sample
    return body


class Bodies:
    """The bodies of requests to an endpoint in canonical form: `sent` gives the same text as `canonical(body_of(...))`,
    in a quarter of the time, as all but the messages is made once for requests of the same kind.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._frames: dict[tuple[Any, ...], tuple[str, str]] = {}
        names = [name for name, _ in endpoint.parameters]
        self._seeded = "seed" in names and "n" not in endpoint.capabilities
        self._messages = fields_of(endpoint)[0]
        self._replaced = self._messages in names

    def sent(self, request: Request, sample: int = 0) -> str:
        """The body of the request for one sample, in canonical form."""
        if self._replaced:
            return canonical(body_of(self._endpoint, request, sample))
        kind = request.reply, request.form, request.max_tokens, request.logprobs, sample if self._seeded else 0
        frame = self._frames.get(kind)
        if frame is None:
            body = {**body_of(self._endpoint, request, sample), self._messages: _MESSAGES}
            before, _, after = canonical(body).partition(_MESSAGES.json)
            frame = self._frames[kind] = before, after
        messages = ",".join([f'{{"role":{quoted(role)},"content":{quoted(text)}}}' for role, text in request.messages])
        return f"{frame[0]}[{messages}]{frame[1]}"


_MESSAGES = Encoded({})
_MESSAGES.json = "\0"  # which no JSON text has


def on_wire(endpoint: Endpoint, path: str, sent: str, prompt: str = "") -> str:
    """A body in canonical form with the fields that are sent and are no part of the key: those of the endpoint's
    parameters and, where it takes one, a key by which the provider sends prompts that begin alike to the same cache
    (`prompt`: the hash of the prompt file).
    """
    fields: dict[str, Any] = {"store": False} if path == openai_responses.PATH else {}
    fields |= {name: value for name, value in endpoint.parameters if name in SENT}
    if prompt and "prompt_cache_key" in endpoint.capabilities:
        fields.setdefault("prompt_cache_key", prompt)
    return f"{sent[:-1]},{json.dumps(fields, separators=(',', ':'))[1:]}" if fields else sent


def path_of(endpoint: Endpoint) -> str:
    """The path of the API to which questions are sent."""
    return openai_responses.PATH if endpoint.api == "responses" else CHAT


def fields_of(endpoint: Endpoint) -> tuple[str, str, str]:
    """The names that a body has for the messages, the limit of tokens, and the form of the reply."""
    if endpoint.api == "responses":
        return "input", "max_output_tokens", "text"
    return "messages", endpoint.limit_field, "response_format"


def chat_key(endpoint: Endpoint, sent: str, sample: int = 0, attempt: int = 0) -> str:
    """The key in the response store of the reply to one attempt at one sample; `sent` is the attempt's body in
    canonical form.
    """
    return key_of(endpoint.name, path_of(endpoint), sent, sample=sample, attempt=attempt)


def embedding_body(endpoint: Endpoint, texts: str | list[str]) -> dict[str, Any]:
    """The body of a request for the vector of each of the texts."""
    return {"model": endpoint.model, "input": texts, **dict(endpoint.parameters)}


def embedding_sent(endpoint: Endpoint, text: str) -> str:
    """The body of a request for this text alone, in canonical form: the key of its vector is made from it."""
    return canonical(embedding_body(endpoint, text))


def embedding_key(endpoint: Endpoint, sent: str) -> str:
    """The key of a text's vector in the response store; `sent` is the result of `embedding_sent` for the text."""
    return key_of(endpoint.name, EMBEDDINGS, sent)


@dataclass(slots=True)
class ReplyFacts:
    """What a reply says about itself. `finish` is why it ended (None: of an embedding). `served_model` and
    `fingerprint`: the model, and its configuration, that the server names. `tokens`: (of the prompt, of these cached,
    of the reply); `reasoning_tokens` are part of the last. 0 where the reply does not say.
    """

    finish: str | None
    served_model: str
    fingerprint: str | None
    tokens: tuple[int, int, int]
    reasoning_tokens: int

    def columns(self) -> dict[str, Any]:
        """The facts as the fields of a Record."""
        return {
            "finish": self.finish,
            "served_model": self.served_model,
            "fingerprint": self.fingerprint,
            "input_tokens": self.tokens[0],
            "cached_tokens": self.tokens[1],
            "output_tokens": self.tokens[2],
            "reasoning_tokens": self.reasoning_tokens,
        }


@dataclass(slots=True)
class Completion(ReplyFacts):
    """One choice of a chat completion: its text (may be empty), the model's refusal (empty if it is none) and its
    log-probabilities (None if there are none). `finish` is "stop", "length", "content_filter" or the server's own
    word.
    """

    finish: str
    text: str
    refusal: str
    logprobs: Any


def read_completion(body: bytes) -> Completion | None:
    """The first choice of the chat completion in the body, or the reply of the Responses API. None if the body is
    neither, or if the choice is malformed, empty without a reason, or ended by an error of the server. A reply cut at
    the token limit is returned.
    """
    document = openai_responses.as_chat(read_json(body))
    choices = document.get("choices")
    return _completion(document, choices[0]) if isinstance(choices, list) and choices else None


def read_choices(body: bytes, number: int) -> list[tuple[bytes, Completion] | None] | None:
    """The first `number` choices of a chat completion, each as (body of a reply with that choice only, completion), or
    None where it is one for which `read_completion` gives None. The usage is kept in the first body only. None where
    none of them can be used.

    There may be fewer choices: a server that does not know `n` returns one.
    """
    document = read_json(body)
    choices = document.get("choices")
    if not isinstance(choices, list) or not choices:
        return None
    found: list[tuple[bytes, Completion] | None] = []
    usage = document.get("usage")
    for choice in choices[:number]:
        alone = {**document, "choices": [choice], "usage": usage}
        completion = _completion(alone, choice)
        if completion is None:
            found.append(None)
            continue
        usage = {}
        found.append(
            (json.dumps(alone, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"), completion)
        )
    return found if any(found) else None


def read_embeddings(body: bytes, texts: int) -> list[tuple[bytes, ReplyFacts] | None] | None:
    """For each of so many texts, in their order, (the JSON {"embedding": vector}, facts of the reply), or None where
    there is no valid vector for it; only the first has the tokens used. Vectors are ordered by their `index`, or as
    they are listed where there is one for each text and these are not 0, 1, 2 ... A vector of another length than most
    is not valid.

    None where no more than half of the texts have one: such a server does not take several texts.
    """
    document = read_json(body)
    data = document.get("data")
    if not isinstance(data, list) or len(data) > texts or not all(isinstance(item, dict) for item in data):
        return None
    vectors = [_vector(item.get("embedding")) for item in _ordered(data, texts)]
    length, _ = Counter(len(vector) for vector in vectors if vector).most_common(1)[0] if any(vectors) else (0, 0)
    served, fingerprint, tokens, _ = _facts_of(document)
    found: list[tuple[bytes, ReplyFacts] | None] = []
    for vector in vectors:
        if vector is None or len(vector) != length:
            found.append(None)
            continue
        body = json.dumps({"embedding": vector}, separators=(",", ":")).encode()
        found.append((body, ReplyFacts(None, served, fingerprint, tokens, 0)))
        tokens = (0, 0, 0)
    return found if 2 * sum(map(bool, found)) > texts else None


def _ordered(data: list[dict[str, Any]], texts: int) -> list[dict[str, Any]]:
    """The items of a reply with vectors in the order of the texts, an empty dict where one is missing; see
    `read_embeddings`.
    """
    places = [item.get("index") for item in data]
    found = {place: item for place, item in zip(places, data, strict=True) if type(place) is int and 0 <= place < texts}
    if len(found) == len(data):
        return [found.get(place, {}) for place in range(texts)]
    return data if len(data) == texts else []


def read_json(body: bytes) -> dict[str, Any]:
    """The JSON object in the body; an empty dict where it is no JSON object."""
    try:
        document = orjson.loads(body)
    except ValueError:  # also of what the slower parser takes: NaN, half a surrogate pair, UTF-16
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            return {}
    return document if isinstance(document, dict) else {}


def _completion(document: dict[str, Any], choice: Any) -> Completion | None:
    """One choice of a chat completion, with the usage of the document. None where the choice is malformed, has an
    error, was broken off, or has neither text nor refusal nor a sign that it is whole without one (a reasoning, a tool
    call, or an end at the token limit or by a filter).

    `tokens` are all 0 where there is a text but no count of its tokens. Halves of surrogate pairs become U+FFFD.
    """
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        return None
    finish, refusal = _text(choice.get("finish_reason")) or "stop", _text(message.get("refusal"))
    finish = OURS.get(finish.lower(), finish)
    text = _content(message.get("content"))
    if not finish or choice.get("error") or (text is None and not refusal and not _silent(message, finish)):
        return None
    logprobs = choice.get("logprobs")
    served, fingerprint, tokens, reasoning = _facts_of(document)
    if text and not tokens[2]:
        tokens = (0, 0, 0)
    return Completion(
        finish=finish,
        served_model=served,
        fingerprint=fingerprint,
        tokens=tokens,
        reasoning_tokens=reasoning,
        text=writable(text or ""),
        refusal=writable(refusal),
        logprobs=logprobs.get("content") if isinstance(logprobs, dict) else None,
    )


def _silent(message: dict[str, Any], finish: str) -> bool:
    """Whether a message without a text or a refusal is whole nevertheless: see `_completion`."""
    return finish in ("length", "content_filter") or any(name in message for name in ("content", *SAYING_NOTHING))


def _facts_of(document: dict[str, Any]) -> tuple[str, str | None, tuple[int, int, int], int]:
    """(served model, fingerprint, tokens, reasoning tokens) of a reply, as in ReplyFacts; empty, None or 0 where it
    has none. Without a count of the reply's tokens it is the total less the prompt's.
    """
    usage = document.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    asked = _count(usage, "prompt_tokens")
    tokens = (
        asked,
        min(asked, _count(usage.get("prompt_tokens_details"), "cached_tokens")),
        _count(usage, "completion_tokens") or max(0, _count(usage, "total_tokens") - asked),
    )
    reasoning = _count(usage.get("completion_tokens_details"), "reasoning_tokens")
    return _text(document.get("model")), _text(document.get("system_fingerprint")) or None, tokens, reasoning


def _content(content: Any) -> str | None:
    """The text of a message's `content`: a string, or the joined texts of a list of parts; None where it is neither,
    or the list has no part.
    """
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str)) if parts else None
    return content if isinstance(content, str) else None


def _text(value: Any) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def _count(usage: Any, name: str) -> int:
    """The count of this name in `usage`; 0 where there is none, or it is no whole number from 0 on."""
    number = usage.get(name) if isinstance(usage, dict) else None
    if type(number) is int:
        return max(0, number)
    if type(number) is float and number.is_integer():  # as integers of more than 64 bits are read
        return max(0, int(number))
    return 0


def _vector(value: Any) -> list[float] | None:
    """A list of finite floats, also from base64 of 32-bit floats; None where the value is neither, or empty."""
    try:
        if isinstance(value, str):
            value = array("f", base64.b64decode(value, validate=True)).tolist()
        return value if isinstance(value, list) and value and all(map(math.isfinite, value)) else None
    except (TypeError, ValueError, OverflowError):
        return None
