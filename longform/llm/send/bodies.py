"""What goes on the wire for a question or for texts to embed, and the keys under which the replies are stored."""

from __future__ import annotations

from typing import Any

from longform.llm.ask.keys import canonical, key_of
from longform.llm.ask.types import Endpoint, Request

CHAT, EMBEDDINGS = "/chat/completions", "/embeddings"


def body_of(endpoint: Endpoint, request: Request, sample: int = 0) -> dict[str, Any]:
    """What is sent for one sample of a request, without `n`."""
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
    body |= dict(endpoint.parameters)
    if sample and isinstance(body.get("seed"), int) and "n" not in endpoint.capabilities:
        body["seed"] += sample
    return body


def chat_key(endpoint: Endpoint, sent: str, sample: int = 0, attempt: int = 0) -> str:
    """The key of a reply to a question; `sent` is its body in canonical form."""
    return key_of(endpoint.name, CHAT, sent, sample=sample, attempt=attempt)


def embedding_body(endpoint: Endpoint, texts: str | list[str]) -> dict[str, Any]:
    return {"model": endpoint.model, "input": texts, **dict(endpoint.parameters)}


def embedding_sent(endpoint: Endpoint, text: str) -> str:
    """The body of a call for one text, in canonical form: what the key of its vector is made of."""
    return canonical(embedding_body(endpoint, text))


def embedding_key(endpoint: Endpoint, sent: str) -> str:
    return key_of(endpoint.name, EMBEDDINGS, sent)
