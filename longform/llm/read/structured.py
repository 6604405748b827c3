"""Replies in a form: as JSON under a strict schema where the endpoint takes one, else between tags.

    {"claim": ["Casks are served at 12 degrees."], "corrupted_claim": [], "corrupted_answer": "..."}

    <claim>Casks are served at 12 degrees.</claim>
    <corrupted_answer>...</corrupted_answer>
    =====

Either is read into a model of schemas.replies, or into the reason why it cannot be: a short phrase that holds nothing
of the reply, so that rows can be counted by it. What a reply quotes is never taken for the reply: where two readings
differ there is none.

A model whose fields hold objects, such as a list of edits, is JSON in either form, because tags have no place for it:

    {"edits": [{"action_name": "remove", "original_snippet": "very very", "revised_snippet": "very", ...}]}

With tags, where no server checks the schema, the prompt asks for that object in words.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema

from longform.llm.ask.keys import Encoded
from longform.llm.ask.types import Request
from longform.llm.read.replies import without_thought, writable

Form = Literal["json", "tags"]
Messages = tuple[tuple[str, str], ...]

NO_JSON = "no JSON object in the reply"
BROKEN_JSON = "the JSON in the reply is broken"
MORE_THAN_ONE = "more than one answer in the reply"
QUOTED = "the JSON in the reply stands within something else"
TWICE = "a field of the reply's JSON stands there twice"

OBJECTS_READ = 20
LONGEST_CHOICE = 100
REPEATED_CHARACTERS = 8_000
NUMBER_CHARACTERS = 40
TAIL_CHARACTERS = 200
TAIL_BLANK = 0.9

_OBJECT = re.compile(r'\{\s*+"(?:[^"\\]++|\\.)*+"\s*+:', re.DOTALL)
_THINKS = re.compile(r"\s*<think>")
_OPENS_QUOTATION = tuple("\"'`“”„‘’‚«‹<>\\")
_BLANK_ESCAPE = re.compile(r"\\[nrt]")
_KEPT = ("description", "type", "enum")
_SCALARS = ("string", "integer", "number", "boolean", "null")


def form_of(request: Request) -> Form:
    """How its reply is to be read and, where it cannot be, asked for again."""
    return "json" if request.form == "json" or (request.reply and inner_models(request.reply)) else "tags"


# the schema of a reply


@cache
def response_format(model: type[BaseModel]) -> dict[str, Any]:
    """The field of a request that asks for this reply. The same object each time: not to be changed."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", model.__name__)[:64]
    schema = {"name": name, "strict": True, "schema": strict_schema(model)}
    return Encoded({"type": "json_schema", "json_schema": schema})


def strict_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a model as strict mode takes it: every object closed, every property required, no references.

    Bounds (lengths, ranges, patterns) are left out, because not every server knows them: `read_reply` checks them.
    Raises TypeError for what strict mode cannot express: defaults, dicts, pairs and other fixed tuples, sets, Any,
    recursion.
    """
    try:
        schema = model.model_json_schema()
    except PydanticInvalidForJsonSchema as error:
        raise TypeError(f"{model.__name__} has no JSON schema: {error.message}") from None
    strict = _strict(schema, schema.get("$defs", {}), model.__name__, ())
    if strict.get("type") != "object":
        raise TypeError(f"{model.__name__} is no object: a reply needs fields")
    return strict


def _strict(node: dict[str, Any], defs: dict[str, Any], where: str, above: tuple[str, ...]) -> dict[str, Any]:
    if "$ref" in node:
        name = node["$ref"].removeprefix("#/$defs/")
        if name in above:
            raise TypeError(f"{where} holds itself: a strict schema ends somewhere")
        node, above = {**defs[name], **node}, (*above, name)
    if "default" in node or "prefixItems" in node or "uniqueItems" in node:
        raise TypeError(f"{where} has a default, or is a tuple or a set: a strict schema has none of these")
    strict = {key: node[key] for key in _KEPT if key in node}
    if "const" in node:
        strict["enum"] = [node["const"]]
    if "anyOf" in node:
        strict["anyOf"] = [_strict(branch, defs, where, above) for branch in node["anyOf"]]
    elif node.get("type") == "object":
        strict |= _strict_object(node, defs, where, above)
    elif node.get("type") == "array" and "items" in node:
        strict["items"] = _strict(node["items"], defs, where, above)
    elif node.get("type") not in _SCALARS:
        raise TypeError(f"{where} is not of one plain type: a strict schema needs it")
    return strict


def _strict_object(node: dict[str, Any], defs: dict[str, Any], where: str, above: tuple[str, ...]) -> dict[str, Any]:
    properties = node.get("properties", {})
    if node.get("additionalProperties") or not properties:
        raise TypeError(f"{where} is a dict, or has no fields: a strict schema names them")
    optional = [name for name in properties if name not in node.get("required", [])]
    if optional:
        raise TypeError(f"{where}.{optional[0]} has a default: a strict schema requires every field")
    fields = {name: _strict(field, defs, f"{where}.{name}", above) for name, field in properties.items()}
    return {"properties": fields, "required": list(fields), "additionalProperties": False}


# reading a reply


def read_reply(text: str, model: type[BaseModel], form: Form) -> BaseModel | str:
    """The reply read into `model`, or the reason why it cannot be. Linear in its length, whatever it holds.

    JSON may stand behind a sentence or in a code fence; objects that share no field with the model are passed over.
    Tags are read in any case and with `_`, `-`, a space or nothing between words. A reply that shows nothing of the
    form that was asked for is read in the other one. Types are checked strictly, but a number or truth value may be
    written as a string ("4"), and a whole number with a point (4.0). Of a model of one choice the bare word will do.

    A model that holds objects is read as JSON in either form, and only where the object stands by itself: not behind a
    quotation mark or an open bracket, and with no field of its inner objects named outside of it; one that lists
    nothing at the end of its line, and at its beginning or behind a colon. A field of an inner object that may be null
    may be missing. What a model thinks before it speaks (<think>...</think>) is passed over.
    """
    text = without_thought(text)
    if inner_models(model):
        return _read_json(text, model)
    if form == "json":
        read = _read_json(text, model)
        other = _read_tags(text, model) if read == NO_JSON else read
    else:
        read = _read_tags(text, model)
        other = read if _tags_of(model).pattern.search(text) else _read_json(text, model)
    found = read if isinstance(other, str) else other
    return _bare_choice(text, model) or found if isinstance(found, str) else found


def _bare_choice(text: str, model: type[BaseModel]) -> BaseModel | None:
    """A reply that is one of the words a model of one field takes, and nothing else: `True.`"""
    (name, field), *others = model.model_fields.items()
    if others or get_origin(field.annotation) is not Literal or len(text) > LONGEST_CHOICE:
        return None
    read = _fitted({name: text.strip("= \t\r\n")}, model, "")
    return None if isinstance(read, str) else read


class _Found(NamedTuple):
    value: BaseModel
    start: int
    end: int


def _read_json(text: str, model: type[BaseModel]) -> BaseModel | str:
    """The first thing that looks like an object must be one: inside a broken one everything may be a quotation."""
    found: list[_Found] = []
    reason, at = NO_JSON, 0
    for _ in range(OBJECTS_READ):
        begin = _OBJECT.search(text, at)
        if begin is None:
            break
        try:
            value, at = _decoder().raw_decode(text, begin.start())
        except _Twice:
            return TWICE
        except (ValueError, RecursionError):
            return BROKEN_JSON
        read = _fitted(value, model, "the reply's JSON does not fit")
        if not isinstance(read, str):
            found.append(_Found(read, begin.start(), at))
        elif value.keys() & model.model_fields.keys():
            return read
        elif reason == NO_JSON:
            reason = read
    else:
        return MORE_THAN_ONE
    if any(other.value != found[0].value for other in found[1:]):
        return MORE_THAN_ONE
    if found and inner_models(model) and (_quoted(text, found, model) or _mentioned(text, found)):
        return QUOTED
    return found[0].value if found else reason


def _quoted(text: str, found: list[_Found], model: type[BaseModel]) -> bool:
    """Whether an object may be part of something else: of tags, of a list in another notation, of a quoted draft."""
    ends = [0, *(each.end for each in found)]
    outside = [text[end : each.start] for end, each in zip(ends, found, strict=False)]
    named = _inner_names(model)
    return any(
        before.rstrip().removesuffix("```").endswith(_OPENS_QUOTATION)
        or before.count("{") + before.count("[") > before.count("}") + before.count("]")
        for before in outside
    ) or any(named.search(part) for part in (*outside, text[ends[-1] :]))


def _mentioned(text: str, found: list[_Found]) -> bool:
    """Whether a sentence, or a thought without an end, may only speak of an empty list: read, it would say "none"."""
    if any(getattr(found[0].value, name) for name in type(found[0].value).model_fields):
        return False
    return any(
        text[: each.start].rpartition("\n")[2].rstrip(" \t`*")[-1:] not in ("", ":", "\ufeff")
        or bool(text[each.end :].partition("\n")[0].strip(" \t\r`="))
        or _THINKS.match(text, 0, each.start) is not None
        for each in found
    )


@cache
def _inner_names(model: type[BaseModel]) -> re.Pattern[str]:
    """Names of the fields of inner objects, and tags of the model's own."""
    inner = sorted({name for each in inner_models(model) for name in each.model_fields})
    own = "|".join(model.model_fields)
    return re.compile(rf"\b(?:{'|'.join(inner)})\b|<\s{{0,3}}/?\s{{0,3}}(?:{own})\s{{0,3}}>", re.IGNORECASE)


@cache
def _decoder() -> json.JSONDecoder:
    """Takes line breaks inside strings, which small models write, but no NaN, and no field twice with two values."""

    def refuse(constant: str) -> None:
        raise ValueError

    def fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        document = dict(pairs)
        if len(document) < len(pairs) and any(document[name] != value for name, value in pairs):
            raise _Twice
        return document

    return json.JSONDecoder(strict=False, parse_constant=refuse, object_pairs_hook=fields)


class _Twice(Exception):
    """An object says two things of one field; the last would hide the first."""


def _fitted(data: dict[str, Any], model: type[BaseModel], misfit: str) -> BaseModel | str:
    problems: list[Any] = []
    for _ in range(2):
        try:
            return model.model_validate_json(
                writable(json.dumps(data, ensure_ascii=False, allow_nan=False)), strict=True
            )
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False)
            mended = [_mended(data, problem, model) for problem in problems]
            if not any(mended):
                break
        except (ValueError, RecursionError):
            return BROKEN_JSON
    return _reason(problems[0], misfit)


def _mended(data: Any, problem: Any, model: type[BaseModel]) -> bool:
    """Whether a missing field of an inner object was put in as null, where it may be that, or a refused value into its
    plain form: "4" into 4, "True" into true, 4.0 into 4."""
    *path, last = problem["loc"] or ("",)
    missing = problem["type"] == "missing"
    value = None if missing else _plain(problem["input"])
    if type(value) is type(problem["input"]) or (missing and not (path and last in _nullable(model))):
        return False
    try:
        for step in path:
            data = data[step]
        if isinstance(data, dict) and last not in data if missing else data[last] == problem["input"]:
            data[last] = value
            return True
    except (KeyError, IndexError, TypeError):
        pass
    return False


@cache
def _nullable(model: type[BaseModel]) -> frozenset[str]:
    return frozenset(
        name
        for inner in inner_models(model)
        for name, field in inner.model_fields.items()
        if _kind(field.annotation)[1]
    )


def _plain(refused: Any) -> Any:
    if isinstance(refused, float) and refused.is_integer():
        return int(refused)
    if not isinstance(refused, str) or len(refused) > NUMBER_CHARACTERS:
        return refused
    try:
        value = json.loads(refused.strip().lower())
    except (ValueError, RecursionError):
        return refused
    return refused if isinstance(value, str | list | dict) else value


def _reason(problem: Any, misfit: str) -> str:
    name = ".".join(step for step in problem["loc"] if isinstance(step, str)) or "the whole"
    kind = problem["type"]
    if kind == "json_invalid":
        return BROKEN_JSON
    if kind == "string_too_short" and not problem["input"].strip():
        return f"the {_words(name)} is empty"
    if kind == "extra_forbidden":
        return f"{misfit}: more fields than asked for"
    if kind == "missing":
        return f"{misfit}: {name} missing"
    fixed = "not allowed" if kind in ("value_error", "assertion_error") else problem["msg"].partition(" after ")[0]
    return f"{misfit}: {name}: {fixed[0].lower()}{fixed[1:]}"


# objects in a reply


@cache
def inner_models(model: type[BaseModel]) -> tuple[type[BaseModel], ...]:
    """The models of the objects that its fields hold, at any depth, each once.

    One that holds any is asked for as JSON in either form.
    """
    found: list[type[BaseModel]] = []
    waiting: list[Any] = [field.annotation for field in model.model_fields.values()]
    while waiting:
        annotation = waiting.pop(0)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            if annotation not in found:
                found.append(annotation)
                waiting += [field.annotation for field in annotation.model_fields.values()]
        else:
            waiting += get_args(annotation)
    return tuple(found)


# tags


class _Tags(NamedTuple):
    """How a model's fields are tagged. `tail` is its last field where that is text: it may itself hold tags."""

    pattern: re.Pattern[str]
    names: dict[str, str]
    lists: tuple[str, ...]
    optional: frozenset[str]
    tail: str | None


@cache
def _tags_of(model: type[BaseModel]) -> _Tags:
    kinds = {name: _kind(field.annotation) for name, field in model.model_fields.items()}
    spelled = "|".join(name.replace("_", "[ _-]?") for name in sorted(kinds, key=len, reverse=True))
    *_, (last, (kind, _)) = kinds.items()
    return _Tags(
        pattern=re.compile(rf"<\s{{0,3}}(/?)\s{{0,3}}({spelled})\s{{0,3}}>", re.IGNORECASE),
        names={_bare(name): name for name in kinds},
        lists=tuple(name for name, (kind, _) in kinds.items() if kind in (list, tuple)),
        optional=frozenset(name for name, (_, optional) in kinds.items() if optional),
        tail=last if kind is str else None,
    )


def _kind(annotation: Any) -> tuple[Any, bool]:
    """(list, str or whatever it is, whether it may be missing)"""
    branches = [branch for branch in get_args(annotation) if branch is not type(None)]
    optional = type(None) in get_args(annotation)
    inner = branches[0] if optional and len(branches) == 1 else annotation
    return get_origin(inner) or inner, optional


def _read_tags(text: str, model: type[BaseModel]) -> BaseModel | str:
    """Fields in the model's order, a list as repeated tags: an empty pair is no item.

    The first list must be tagged, if only by an empty pair: a reply without any of its tags did not keep to the form.
    """
    tags = _tags_of(model)
    data = _tagged(text, tags)
    if isinstance(data, str):
        return data
    for name in model.model_fields:
        if name in data:
            continue
        if name in tags.lists[:1] and name not in tags.optional:
            return f"no {_words(name)} tags in the reply"
        if name not in tags.lists and name not in tags.optional:
            return f"no {_words(name)} in the reply"
        data[name] = None if name in tags.optional else []
    return _fitted(data, model, "the reply's tags do not fit")


def _tagged(text: str, tags: _Tags) -> dict[str, Any] | str:
    """Field -> what its tags hold. Other tags inside a text are part of it; a list's unclosed item is dropped."""
    data: dict[str, Any] = {}
    name, begin = "", 0
    for tag in tags.pattern.finditer(text):
        closes, tagged = bool(tag[1]), tags.names[_bare(tag[2])]
        within = bool(name) and name not in tags.lists
        if closes and tagged == name:
            _add(data, name, text[begin : tag.start()], tags)
            name = ""
        elif within:
            continue
        elif tagged in data and tagged not in tags.lists:
            return f"more than one {_words(tagged)} in the reply"
        elif not closes and tagged == tags.tail:
            if name and _closings(name, text, tag.end(), tags):
                return MORE_THAN_ONE  # it may be quoted in the open item
            ends = _closings(tagged, text, tag.end(), tags)
            if not ends:
                return f"the {_words(tagged)} is not closed"
            _add(data, tagged, text[tag.end() : ends[-1]], tags)
            return data
        elif not closes:
            name, begin = tagged, tag.end()
    if name and name not in tags.lists:
        return f"the {_words(name)} is not closed"
    return f"no {_words(tags.tail)} in the reply" if tags.tail and tags.tail not in tags.optional else data


def _closings(name: str, text: str, begin: int, tags: _Tags) -> list[int]:
    """Where the tags stand that close this field behind a place."""
    found = tags.pattern.finditer(text, begin)
    return [tag.start() for tag in found if tag[1] and tags.names[_bare(tag[2])] == name]


def _add(data: dict[str, Any], name: str, content: str, tags: _Tags) -> None:
    if name in tags.lists:
        item = " ".join(content.split())
        data.setdefault(name, []).extend([item] if item else [])
    else:
        data[name] = content.strip("\r\n").rstrip()


def _bare(name: str) -> str:
    return re.sub("[ _-]", "", name).lower()


def _words(name: str) -> str:
    return name.replace("_", " ")


# asking again


def repair_messages(messages: Messages, reply_text: str, reason: str, form: Form) -> Messages:
    """The conversation with the reply that could not be read (its beginning) and a request for one that can.

    `form` is how it was asked for: `json` also for a model that holds objects.
    """
    shown = reply_text if len(reply_text) <= REPEATED_CHARACTERS else f"{reply_text[:REPEATED_CHARACTERS]}\n[...]"
    wanted = {
        "json": "with nothing but one JSON object that has exactly the fields asked for",
        "tags": "in the tags asked for, each opened and closed, and with the end mark where one was asked for",
    }[form]
    again = f"This reply cannot be read: {reason}. Give the whole reply again, {wanted}."
    return (*messages, ("assistant", shown), ("user", again))


def blank_tail(text: str) -> bool:
    """Whether a reply that reached its limit of tokens got there by white space, as such or as \\n inside JSON."""
    tail = _BLANK_ESCAPE.sub("  ", text[-TAIL_CHARACTERS:])
    blank = sum(character.isspace() for character in tail)
    return bool(tail) and blank >= TAIL_BLANK * len(tail)
