"""What the stand-in says: completions by the offline model's rules, JSON where a schema asks for it, embeddings.

What no rule is for gets a text that says so, or made-up values in the schema that was asked for, drawn from the sha256
of the request.
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
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from longform.llm import offline
from longform.llm.ask.types import Request
from longform.llm.offline import Rules
from longform.standin.faults import SPOKEN, spoken
from longform.standin.http import refusal

FINGERPRINT = "fp_offline_1"
DEFAULT_LIMIT = 2048
MOST_CHOICES = 128
MOST_INPUTS = 2048
MOST_ALTERNATIVES = 20
DIMENSIONS = 256
UNCUT = 1_000_000
DEEPEST = 8
SIGNS_PER_WORD = 8

Messages = tuple[tuple[str, str], ...]

_NOTHING = (
    "No rule of the offline model fits this request, so there is nothing to say about it.",
    "The offline model knows only the prompts of this project, and this is none of them.",
    "This was answered by fixed rules, and none of them reads such a request.",
)
_FILL = ("grey", "seven", "harbour", "paper", "slow", "river", "window", "early", "salt", "round", "north", "stone")


@dataclass(frozen=True, slots=True)
class Question:
    """A checked request for a completion. `schema` is what its JSON must be; None: plain text.

    `effort` is the offline model's parameter of that name.
    """

    model: str
    messages: Messages
    limit: int
    choices: int
    schema: dict[str, Any] | None
    alternatives: int | None
    digest: bytes
    effort: str = ""

    @property
    def prompt_tokens(self) -> int:
        return offline.tokens(sum(len(content) for _, content in self.messages))

    @property
    def tokens_admitted(self) -> int:
        return self.prompt_tokens + self.limit * self.choices


@dataclass(frozen=True, slots=True)
class Said:
    """A completion, and what it costs."""

    document: dict[str, Any]
    prompt_tokens: int
    completion_tokens: int


def read_question(body: Any, digest: bytes) -> Question:
    """Raises Refused (400) for what is no request for a completion."""
    if not isinstance(body, dict):
        raise refusal(400, "The body is no JSON object.")
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise refusal(400, "You must provide a model parameter.", "model")
    if body.get("stream"):
        raise refusal(400, "Streaming is not supported here.", "stream", "unsupported_value")
    limits = [_whole(body, name, 1, 10_000_000) for name in ("max_completion_tokens", "max_tokens")]
    return Question(
        model=body["model"],
        messages=_messages(body.get("messages")),
        limit=next((limit for limit in limits if limit is not None), DEFAULT_LIMIT),
        choices=_whole(body, "n", 1, MOST_CHOICES) or 1,
        schema=_schema(body.get("response_format")),
        alternatives=_alternatives(body),
        digest=digest,
        effort=str(body.get("effort", "")),
    )


def complete(question: Question, rules: Rules, fault: str | None = None, say: str | None = None) -> Said:
    """The completion of a question: under a fault of SPOKEN, or with the text `say`."""
    choices, tokens = [], 0
    for sample in range(question.choices):
        text, finish = (say, "stop") if say is not None else _text(question, rules, sample)
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if fault in SPOKEN:
            changes, finish = spoken(fault or "", text, question.limit)
            message |= changes
        said = message["content"] or message["refusal"] or ""
        tokens += question.limit if finish == "length" else offline.tokens(len(said))
        logprobs = None if question.alternatives is None else _logprobs(said, question.alternatives)
        choices.append({"index": sample, "message": message, "logprobs": logprobs, "finish_reason": finish})
    document = {
        "id": _name("chatcmpl-"),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": offline.MODEL,
        "choices": choices,
        "usage": usage(question.prompt_tokens, tokens),
        "service_tier": "default",
        "system_fingerprint": FINGERPRINT,
    }
    return Said(document, question.prompt_tokens, tokens)


def usage(prompt: int, completion: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _name(prefix: str) -> str:
    return f"{prefix}{random.getrandbits(96):024x}"


# reading a question


def _messages(given: Any) -> Messages:
    if not isinstance(given, list) or not given:
        raise refusal(400, "messages must be a list that holds at least one message.", "messages")
    return tuple((_role(at, message), _content(at, message)) for at, message in enumerate(given))


def _role(at: int, message: Any) -> str:
    role = message.get("role") if isinstance(message, dict) else None
    if not isinstance(role, str):
        raise refusal(400, f"messages[{at}] has no role.", f"messages[{at}].role")
    return role


def _content(at: int, message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        content = _joined([part.get("text") if isinstance(part, dict) else None for part in content])
    if not isinstance(content, str):
        raise refusal(400, f"messages[{at}] has no text as its content.", f"messages[{at}].content")
    return content


def _joined(parts: list[Any]) -> str | None:
    return "".join(parts) if all(isinstance(part, str) for part in parts) else None


def _whole(body: dict[str, Any], name: str, least: int, most: int) -> int | None:
    value = body.get(name)
    if value is not None and (type(value) is not int or not least <= value <= most):
        raise refusal(400, f"{name} must be a whole number from {least} to {most}.", name, "invalid_value")
    return value


def _alternatives(body: dict[str, Any]) -> int | None:
    """How many alternatives a token is to have; None: no logprobs."""
    top = _whole(body, "top_logprobs", 0, MOST_ALTERNATIVES)
    if top is not None and body.get("logprobs") is not True:
        raise refusal(400, "top_logprobs needs logprobs to be true.", "top_logprobs")
    return (top or 0) if body.get("logprobs") is True else None


def _schema(given: Any) -> dict[str, Any] | None:
    kind = given.get("type") if isinstance(given, dict) else given
    if kind is None or kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    schema = given.get("json_schema") if kind == "json_schema" else None
    if not isinstance(schema, dict) or not isinstance(schema.get("schema"), dict):
        message = "response_format must be of type text, json_object or json_schema, with its schema."
        raise refusal(400, message, "response_format")
    found: dict[str, Any] = schema["schema"]
    return found


# answering it


def _text(question: Question, rules: Rules, sample: int) -> tuple[str, str]:
    """(text, finish)"""
    known = _known(rules, question.messages)
    if question.schema is not None:
        text = _as_json(question, rules, question.schema, known, sample)
    elif known is not None:
        asked = Request(known[1], known[0], question.limit)
        text, finish, _, _ = offline.respond(rules, asked, sample, question.effort)
        return text, finish
    else:
        dice = hashlib.sha256(question.digest + bytes([sample])).digest()
        text = f"{_NOTHING[dice[0] % len(_NOTHING)]} (Number {dice[1]}.)\n{offline.END_MARK}"
    room = question.limit * offline.CHARACTERS_PER_TOKEN
    return text[:room], "length" if len(text) > room else "stop"


def _known(rules: Rules, messages: Messages) -> tuple[str, Messages] | None:
    """The task, and the messages up to the one that sets it: a request to repair a reply stands behind."""
    for end in range(len(messages), 0, -1):
        task = offline.task_of(rules, messages[:end]) if messages[end - 1][0] == "user" else None
        if task is not None:
            return task, messages[:end]
    return None


def _as_json(
    question: Question, rules: Rules, schema: dict[str, Any], known: tuple[str, Messages] | None, sample: int
) -> str:
    found = None
    if known is not None:
        text, _, _, _ = offline.respond(rules, Request(known[1], known[0], UNCUT), sample, question.effort)
        found = _from_json(text, schema) if rules[known[0]].gives_object else _from_tags(text, schema)
    if found is None:
        found = _made_up(schema, random.Random(question.digest + bytes([sample])))
    return json.dumps(found, ensure_ascii=False)


def _from_json(text: str, schema: dict[str, Any]) -> dict[str, Any] | None:
    """The object of a reply that is one already; None where its fields are others."""
    found: dict[str, Any] = json.JSONDecoder().raw_decode(text)[0]
    return found if found.keys() == schema.get("properties", {}).keys() else None


def _from_tags(text: str, schema: dict[str, Any]) -> dict[str, Any] | None:
    """The tags of a reply as an object of this schema; None where they are others."""
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


def _made_up(schema: dict[str, Any], dice: random.Random) -> Any:
    try:
        return _filled(schema, schema, dice, 0)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise refusal(400, "The JSON schema cannot be read.", "response_format", "invalid_value") from None


def _filled(schema: Any, whole: dict[str, Any], dice: random.Random, depth: int) -> Any:
    """A value of a JSON schema; of what it cannot bind, the bounds of numbers and lengths are kept."""
    if not isinstance(schema, dict):
        return None
    if isinstance(schema.get("$ref"), str):
        return _filled(_referred(schema["$ref"], whole), whole, dice, depth + 1) if depth < 2 * DEEPEST else None
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return dice.choice(schema["enum"])
    branches = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if branches:
        last = [branch for branch in branches if branch.get("type") == "null"] if depth > DEEPEST else []
        return _filled(dice.choice(last or branches), whole, dice, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = dice.choice(kind) if isinstance(kind, list) and kind else kind
    if kind == "object":
        return {name: _filled(field, whole, dice, depth + 1) for name, field in schema.get("properties", {}).items()}
    if kind == "array":
        least = schema.get("minItems", 0)
        number = max(least, min(schema.get("maxItems", 3), 1 + dice.randrange(3))) if depth <= DEEPEST else least
        return [_filled(schema.get("items", {}), whole, dice, depth + 1) for _ in range(number)]
    return _plain(kind, schema, dice)


def _plain(kind: Any, schema: dict[str, Any], dice: random.Random) -> Any:
    if kind in ("integer", "number"):
        least = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
        most = schema.get("maximum", max(least, schema.get("exclusiveMaximum", least + 10) - 1))
        return dice.randint(math.ceil(least), max(math.ceil(least), math.floor(most)))
    if kind == "boolean":
        return dice.random() < 0.5
    if kind == "null":
        return None
    words = " ".join(dice.choice(_FILL) for _ in range(3 + dice.randrange(6)))
    while len(words) < schema.get("minLength", 0):
        words += f" {dice.choice(_FILL)}"
    return words[: schema.get("maxLength", len(words))]


def _referred(name: str, whole: dict[str, Any]) -> Any:
    found: Any = whole
    for step in name.removeprefix("#").split("/")[1:]:
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _logprobs(text: str, alternatives: int) -> dict[str, Any]:
    """One entry a token of the usage count, with a probability drawn from where it stands."""
    dice = random.Random(text)
    size = offline.CHARACTERS_PER_TOKEN
    content = []
    for at in range(0, len(text), size):
        first = -dice.random() * 0.7
        entry = _logprob(text[at : at + size], first)
        others = [_logprob(f" {word}", first - 0.7 * rank) for rank, word in enumerate(_others(dice, alternatives), 1)]
        content.append({**entry, "top_logprobs": [entry, *others][:alternatives]})
    return {"content": content, "refusal": None}


def _others(dice: random.Random, number: int) -> list[str]:
    return [f"{dice.choice(_FILL)}{at}" for at in range(1, number)]


def _logprob(token: str, logprob: float) -> dict[str, Any]:
    return {"token": token, "logprob": logprob, "bytes": [*token.encode("utf-8", "surrogatepass")]}


# embeddings


@dataclass(frozen=True, slots=True)
class Texts:
    """A checked request for embeddings."""

    model: str
    inputs: tuple[str, ...]
    dimensions: int
    base64: bool

    @property
    def tokens_admitted(self) -> int:
        return sum(max(1, offline.tokens(len(text))) for text in self.inputs)


def read_texts(body: Any) -> Texts:
    """Raises Refused (400) for what is no request for embeddings."""
    if not isinstance(body, dict):
        raise refusal(400, "The body is no JSON object.")
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise refusal(400, "You must provide a model parameter.", "model")
    given = body.get("input")
    inputs = given if isinstance(given, list) and not _is_tokens(given) else [given]
    texts = tuple(_embedded(each) for each in inputs)
    if not 1 <= len(texts) <= MOST_INPUTS or not all(texts):
        raise refusal(400, f"input must be a text or 1 to {MOST_INPUTS} texts, none of them empty.", "input")
    if body.get("encoding_format") not in (None, "float", "base64"):
        raise refusal(400, "encoding_format must be float or base64.", "encoding_format", "invalid_value")
    dimensions = _whole(body, "dimensions", 1, 4096) or DIMENSIONS
    return Texts(body["model"], texts, dimensions, body.get("encoding_format") == "base64")


def embed(texts: Texts) -> Said:
    data = [
        {"object": "embedding", "index": at, "embedding": _shown(vector(text, texts.dimensions), texts.base64)}
        for at, text in enumerate(texts.inputs)
    ]
    tokens = texts.tokens_admitted
    counted = {"prompt_tokens": tokens, "total_tokens": tokens}
    return Said({"object": "list", "data": data, "model": offline.MODEL, "usage": counted}, tokens, 0)


def vector(text: str, dimensions: int) -> list[float]:
    """Of length 1: the sum of its words' vectors, so that texts with the same words are near each other."""
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
    """Some places of the vector, each with +1 or -1."""
    digest = hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()
    numbers = struct.unpack(f">{SIGNS_PER_WORD}I", digest)
    return [((number >> 1) % dimensions, 1.0 if number & 1 else -1.0) for number in numbers]


def _embedded(given: Any) -> str:
    """The text, or the numbers of its tokens as one; empty for anything else."""
    if _is_tokens(given):
        return " ".join(str(number) for number in given)
    return given if isinstance(given, str) else ""


def _is_tokens(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(number) is int for number in value)


def _shown(numbers: list[float], as_base64: bool) -> list[float] | str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode() if as_base64 else numbers
