"""The stand-in server's replies: completions by the offline model's rules, JSON where the request has a schema,
embeddings.

A request for which there is no rule gets a text that says so, or made-up values that fit its schema, drawn from the
sha256 of the request.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import random
import re
import struct
import time
from functools import lru_cache
from typing import Any

from longform.llm import offline
from longform.llm.ask.types import Request
from longform.llm.offline import Rules
from longform.standin.faults import REPLY_FAULTS, faulty_message
from longform.standin.questions import DIMENSIONS, Question, Texts, refusal

FINGERPRINT = "fp_offline_1"
UNCUT = 1_000_000
MAX_DEPTH = 8
SIGNS_PER_WORD = 8

_NO_RULE = (
    "No rule of the offline model fits this request, so there is nothing to say about it.",
    "The offline model knows only the prompts of this project, and this is none of them.",
    "This was answered by fixed rules, and none of them reads such a request.",
)
_WORDS = ("grey", "seven", "harbour", "paper", "slow", "river", "window", "early", "salt", "round", "north", "stone")


def complete(
    question: Question, digest: bytes, rules: Rules, fault: str | None = None, say: str | None = None
) -> dict[str, Any]:
    """The completion object for a request, in OpenAI's shape, with a new random id. `digest`: sha256 of the request,
    from which made-up text is drawn. `fault`: one of REPLY_FAULTS replaces the message, others change nothing. `say`:
    the text of every reply, in place of the rules'. ErrorReply (400) for a JSON schema that cannot be read.
    """
    choices, tokens = [], 0
    for sample in range(question.choices):
        text, finish = (say, "stop") if say is not None else _text(question, digest, rules, sample)
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if fault in REPLY_FAULTS:
            changes, finish = faulty_message(fault or "", text, question.limit)
            message |= changes
        written = message["content"] or message["refusal"] or ""
        tokens += question.limit if finish == "length" else offline.tokens(len(written))
        logprobs = _logprobs(written, question.top_logprobs or 0) if question.logprobs else None
        choices.append({"index": sample, "message": message, "logprobs": logprobs, "finish_reason": finish})
    return {
        "id": f"chatcmpl-{random.getrandbits(96):024x}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": offline.MODEL,
        "choices": choices,
        "usage": usage(question.prompt_tokens, tokens),
        "service_tier": "default",
        "system_fingerprint": FINGERPRINT,
    }


def as_response(document: dict[str, Any]) -> dict[str, Any]:
    """A completion object with one choice as the reply of the Responses API."""
    choice, used = document["choices"][0], document["usage"]
    message, finish = choice["message"], choice["finish_reason"]
    if message["refusal"]:
        part = {"type": "refusal", "refusal": message["refusal"]}
    else:
        part = {"type": "output_text", "text": message["content"] or "", "annotations": []}
        part["logprobs"] = (choice["logprobs"] or {}).get("content") or []
    reason = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(finish)
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    return {
        "id": document["id"].replace("chatcmpl-", "resp_"),
        "object": "response",
        "created_at": document["created"],
        "model": document["model"],
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "error": None,
        "output": [{"type": "reasoning", "id": "rs_1", "summary": []}, item],
        "usage": {
            "input_tokens": used["prompt_tokens"],
            "input_tokens_details": used["prompt_tokens_details"],
            "output_tokens": used["completion_tokens"],
            "output_tokens_details": used["completion_tokens_details"],
            "total_tokens": used["total_tokens"],
        },
    }


def usage(prompt: int, completion: int) -> dict[str, Any]:
    """OpenAI's usage object for these numbers of tokens."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _text(question: Question, digest: bytes, rules: Rules, sample: int) -> tuple[str, str]:
    """(text, finish reason) of the choice with the index `sample`: by the offline model's rule for this request, as
    JSON if the request has a schema; without a rule a text that says so. Cut off at the request's token limit, with
    the finish reason length, else stop.
    """
    request, schema = _known_request(question, rules), question.schema_asked
    if schema is not None:
        text = _json_text(question, digest, rules, schema, request, sample)
    elif request is not None:
        text, finish, _, _ = offline.respond(rules, request, sample, question.effort)
        return text, finish
    else:
        random_bytes = hashlib.sha256(digest + bytes([sample])).digest()
        text = f"{_NO_RULE[random_bytes[0] % len(_NO_RULE)]} (Number {random_bytes[1]}.)\n{offline.END_MARK}"
    max_characters = question.limit * offline.CHARACTERS_PER_TOKEN
    return text[:max_characters], "length" if len(text) > max_characters else "stop"


def _known_request(question: Question, rules: Rules) -> Request | None:
    """The request up to its last user message that a rule answers; None if there is no such message. Messages after
    it, such as a faulty reply and the request to repair it, are left out.
    """
    messages = tuple((message.role, message.text) for message in question.messages)
    for end in range(len(messages), 0, -1):
        task = offline.task_of(rules, messages[:end]) if messages[end - 1][0] == "user" else None
        if task is not None:
            return Request(messages[:end], task, question.limit)
    return None


def _json_text(
    question: Question, digest: bytes, rules: Rules, schema: dict[str, Any], request: Request | None, sample: int
) -> str:
    """A reply as JSON text, not cut off: the rule's reply if its fields are those of the schema, else made-up values.
    `request` is None if there is no rule. ErrorReply (400) for a schema that cannot be read.
    """
    found = None
    if request is not None:
        whole = Request(request.messages, request.task, UNCUT)
        text, _, _, _ = offline.respond(rules, whole, sample, question.effort)
        found = _from_json(text, schema) if rules[request.task].gives_object else _from_tags(text, schema)
    try:
        found = found or _filled(schema, schema, random.Random(digest + bytes([sample])), 0)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise refusal(400, "The JSON schema cannot be read.", "response_format", "invalid_value") from None
    return json.dumps(found, ensure_ascii=False)


def _from_json(text: str, schema: dict[str, Any]) -> dict[str, Any] | None:
    """The JSON object at the beginning of a rule's reply; None if its fields are not those of the schema."""
    found: dict[str, Any] = json.JSONDecoder().raw_decode(text)[0]
    return found if found.keys() == schema.get("properties", {}).keys() else None


def _from_tags(text: str, schema: dict[str, Any]) -> dict[str, Any] | None:
    """The fields of the schema, read from tags of the same names in a rule's reply; None if a tag is missing or all
    are empty. Array fields collect all tags of the name, and may have none.
    """
    found: dict[str, Any] = {}
    for name, field in schema.get("properties", {}).items():
        tag = re.escape(name)
        if field.get("type") == "array":
            items = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
            found[name] = [item.strip() for item in items if item.strip()]
        elif match := re.search(rf"<{tag}>(.*)</{tag}>", text, re.DOTALL):
            found[name] = int(match[1]) if field.get("type") == "integer" else match[1].strip()
        else:
            return None
    return found if any(value not in ("", []) for value in found.values()) else None


def _filled(schema: Any, whole: dict[str, Any], dice: random.Random, depth: int) -> Any:
    """A made-up value for a JSON schema; `whole` is the schema that its $refs point into. Types, enums, and bounds of
    numbers, lengths and items are kept; patterns and formats are not. Of anyOf, oneOf and allOf one branch is drawn.
    Deeper than MAX_DEPTH levels (`depth`) null, where it is a branch, and the shortest lists are chosen, so that
    recursive schemas end. None for a schema that is no object, and for a $ref at 2 * MAX_DEPTH levels or deeper.
    """
    if not isinstance(schema, dict):
        return None
    if isinstance(schema.get("$ref"), str):
        return _filled(_referred(schema["$ref"], whole), whole, dice, depth + 1) if depth < 2 * MAX_DEPTH else None
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return dice.choice(schema["enum"])
    branches = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if branches:
        last = [branch for branch in branches if branch.get("type") == "null"] if depth > MAX_DEPTH else []
        return _filled(dice.choice(last or branches), whole, dice, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = dice.choice(kind) if isinstance(kind, list) and kind else kind
    if kind == "object":
        return {name: _filled(field, whole, dice, depth + 1) for name, field in schema.get("properties", {}).items()}
    if kind == "array":
        least = schema.get("minItems", 0)
        number = max(least, min(schema.get("maxItems", 3), 1 + dice.randrange(3))) if depth <= MAX_DEPTH else least
        return [_filled(schema.get("items", {}), whole, dice, depth + 1) for _ in range(number)]
    return _plain(kind, schema, dice)


def _plain(kind: Any, schema: dict[str, Any], dice: random.Random) -> Any:
    """A made-up integer (also for the type number), boolean, null or, for any other type, text of a few words, within
    the schema's bounds. If no integer lies within them, the first one above the lower bound.
    """
    if kind in ("integer", "number"):
        least = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
        most = schema.get("maximum", max(least, schema.get("exclusiveMaximum", least + 10) - 1))
        return dice.randint(math.ceil(least), max(math.ceil(least), math.floor(most)))
    if kind == "boolean":
        return dice.random() < 0.5
    if kind == "null":
        return None
    words = " ".join(dice.choice(_WORDS) for _ in range(3 + dice.randrange(6)))
    while len(words) < schema.get("minLength", 0):
        words += f" {dice.choice(_WORDS)}"
    return words[: schema.get("maxLength", len(words))]


def _referred(name: str, whole: dict[str, Any]) -> Any:
    """The schema at a $ref such as #/$defs/Name; None if there is none."""
    found: Any = whole
    for step in name.removeprefix("#").split("/")[1:]:
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _logprobs(text: str, alternatives: int) -> dict[str, Any]:
    """The logprobs object of a text: one entry for each CHARACTERS_PER_TOKEN characters, counted as a token, with
    made-up log probabilities drawn from the text. `alternatives` is the request's top_logprobs; the token itself is
    the first of them.
    """
    dice = random.Random(text)
    size = offline.CHARACTERS_PER_TOKEN
    content = []
    for at in range(0, len(text), size):
        first = -dice.random() * 0.7
        entry = _logprob(text[at : at + size], first)
        others = [_logprob(f" {dice.choice(_WORDS)}{n}", first - 0.7 * n) for n in range(1, alternatives)]
        content.append({**entry, "top_logprobs": [entry, *others][:alternatives]})
    return {"content": content, "refusal": None}


def _logprob(token: str, logprob: float) -> dict[str, Any]:
    """OpenAI's entry for one token: its text, log probability and UTF-8 bytes."""
    return {"token": token, "logprob": logprob, "bytes": [*token.encode("utf-8", "surrogatepass")]}


def embed(request: Texts) -> dict[str, Any]:
    """The reply to an embeddings request, in OpenAI's shape: a vector for each text, in order, as numbers or in
    base64.
    """
    vectors = [vector(text, request.dimensions or DIMENSIONS) for text in request.texts]
    encode = _base64 if request.encoding_format == "base64" else list
    data = [{"object": "embedding", "index": at, "embedding": encode(each)} for at, each in enumerate(vectors)]
    counted = dict.fromkeys(("prompt_tokens", "total_tokens"), request.tokens_admitted)
    return {"object": "list", "data": data, "model": offline.MODEL, "usage": counted}


def vector(text: str, dimensions: int) -> list[float]:
    """An embedding of length 1: the normalized sum of pseudo-random vectors of the words, in lower case, so that texts
    with common words are similar. The same text always gets the same embedding.
    """
    sums = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()) or [text]:
        for place, sign in _signs(word, dimensions):
            sums[place] += sign
    length = math.sqrt(sum(value * value for value in sums))
    if not length:
        sums[0] = length = 1.0
    return [round(value / length, 8) for value in sums]


@lru_cache(maxsize=50_000)
def _signs(word: str, dimensions: int) -> list[tuple[int, float]]:
    """The vector of a word as SIGNS_PER_WORD entries (index, +1 or -1), drawn from the word's hash. An index may occur
    twice: then its entries are added.
    """
    digest = hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()
    numbers = struct.unpack(f">{SIGNS_PER_WORD}I", digest)
    return [((number >> 1) % dimensions, 1.0 if number & 1 else -1.0) for number in numbers]


def _base64(numbers: list[float]) -> str:
    """The numbers as little-endian 32-bit floats, in base64."""
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()
