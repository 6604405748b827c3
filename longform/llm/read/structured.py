"""Structured replies: JSON under a strict schema where the endpoint supports one, else fields between tags.

    {"claim": ["Casks are served at 12 degrees."], "corrupted_claim": [], "corrupted_answer": "..."}

    <claim>Casks are served at 12 degrees.</claim>
    <corrupted_answer>...</corrupted_answer>
    =====

Both are read into a Pydantic model of schemas.replies. A reply that cannot be read gives the reason instead: a short
phrase that contains nothing of the reply, so that rows can be counted by it; longform/llm/client.py then asks once
more. A form that a reply only quotes is never read as the reply: where two readings are possible and differ, there is
none.

A model whose fields hold objects, such as a list of edits, is always read as JSON, because tags cannot express it:

    {"edits": [{"action_name": "remove", "original_snippet": "very very", "revised_snippet": "very", ...}]}

Where no server checks the schema, the prompt describes that object in words.
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
_NAME_ENDS = re.compile(r'"\s*:')
_THINKS = re.compile(r"\s*<think>")
_OPENS_QUOTATION = tuple("\"'`“”„‘’‚«‹<>\\")
_BLANK_ESCAPE = re.compile(r"\\[nrt]")
_KEPT = ("description", "type", "enum")
_SCALARS = ("string", "integer", "number", "boolean", "null")


def form_of(request: Request) -> Form:
    """The form in which the request's reply is read, and asked for again if it cannot be read: "json", also for a
    model whose fields hold objects; else "tags".
    """
    return "json" if request.form == "json" or (request.reply and inner_models(request.reply)) else "tags"


# the schema of a reply


@cache
def response_format(model: type[BaseModel]) -> dict[str, Any]:
    """The field `response_format` of a request for a reply of this model, with its schema. Cached: the same object
    each time, not to be changed. TypeError where strict mode cannot express the model (see `strict_schema`).
    """
    name = re.sub(r"[^A-Za-z0-9_-]", "_", model.__name__)[:64]
    schema = {"name": name, "strict": True, "schema": strict_schema(model)}
    return Encoded({"type": "json_schema", "json_schema": schema})


def strict_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a model as strict mode takes it: every object closed, every property required, no references.

    Bounds (lengths, ranges, patterns) are left out, because not every server knows them: `read_reply` checks them.
    Raises TypeError for what strict mode cannot express: defaults, dicts, pairs and other fixed tuples, sets, Any,
    recursion, models without fields.
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
    """One node of a schema as strict mode takes it (see `strict_schema`); TypeError where that cannot be. `defs` are
    the definitions for its references, `where` is its name in errors, `above` are the references that lead to it: one
    that comes again is recursion.
    """
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
    """The part of a strict schema that describes an object's fields: `properties`, `required` (all of them) and
    `additionalProperties`. TypeError for a dict, an object without fields, or a field with a default.
    """
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
    """The reply read into `model`, or a string: the reason why it cannot be read. Takes linear time. The model's
    thought (<think>...</think>) is ignored.

    JSON may come after a sentence or in a code fence; objects that share no field with the model are ignored. The
    names of tags may be in any case, with `_`, `-`, a space or nothing between words. A reply without any sign of the
    form asked for is read in the other form. Types are strict, but a number or truth value may be written as a string
    ("4"), and a whole number with a decimal point (4.0). For a model with one field of fixed choices the choice alone
    will do.

    A model whose fields hold objects is read as JSON only, and only if the JSON is not part of something else: not
    after a quotation mark or an open bracket, and no field of its inner objects is named outside of it. An empty list
    must end its line, and begin it or follow a colon. A nullable field of an inner object may be missing.
    """
    text = without_thought(text)
    if inner_models(model):
        return _read_json(text, model)
    if form == "json":
        read = _whole_json(text, model) or _read_json(text, model)
        other = _read_tags(text, model) if read == NO_JSON else read
    else:
        read = _read_tags(text, model)
        other = read if _tags_of(model).pattern.search(text) else _read_json(text, model)
    found = read if isinstance(other, str) else other
    return _bare_choice(text, model) or found if isinstance(found, str) else found


def _bare_choice(text: str, model: type[BaseModel]) -> BaseModel | None:
    """The model with its one field, one of fixed choices, where the reply is nothing but one of these, such as `True`,
    with or without an end mark; None for any other reply or model, and above LONGEST_CHOICE characters.
    """
    (name, field), *others = model.model_fields.items()
    if others or get_origin(field.annotation) is not Literal or len(text) > LONGEST_CHOICE:
        return None
    read = fitted({name: text.strip("= \t\r\n")}, model, "")
    return None if isinstance(read, str) else read


def _whole_json(text: str, model: type[BaseModel]) -> BaseModel | None:
    """The model where the whole text is its JSON, each field there once, and nothing in it needs a second look; else
    None. Gives the same as `_read_json` in a third of the time.
    """
    names = _quoted_names(model)
    if not text.startswith("{") or ("\\" in text and "\\u" in text) or "NaN" in text or "Infinity" in text:
        return None
    if not names or len(_NAME_ENDS.findall(text)) != len(names):
        return None
    for name in names:
        if text.count(name) != 1:
            return None
    try:
        return model.model_validate_json(text, strict=True)
    except ValidationError:
        return None


@cache
def _quoted_names(model: type[BaseModel]) -> tuple[str, ...]:
    """The names of a model's fields in quotation marks; empty for a model with inner objects."""
    return () if inner_models(model) else tuple(f'"{name}"' for name in model.model_fields)


class _Found(NamedTuple):
    """A JSON object in the reply that fits the model: its value, and where it begins and ends."""

    value: BaseModel
    start: int
    end: int


def _read_json(text: str, model: type[BaseModel]) -> BaseModel | str:
    """The model read from the JSON objects in the text, or the reason why it cannot be.

    Objects that share no field with the model are passed over; one that shares a field must fit. Several that fit must
    be equal, and with OBJECTS_READ or more objects nothing is read. Nor is it if a text that looks like an object is
    broken or has a field twice, with different values; nor, for a model with inner objects, if the JSON may be only
    quoted or mentioned (see `_quoted` and `_only_mentioned`).
    """
    found: list[_Found] = []
    reason, at = NO_JSON, 0
    for _ in range(OBJECTS_READ):
        begin = _OBJECT.search(text, at)
        if begin is None:
            break
        try:
            value, at = strict_decoder().raw_decode(text, begin.start())
        except _Twice:
            return TWICE
        except (ValueError, RecursionError):
            return BROKEN_JSON
        read = fitted(value, model, "the reply's JSON does not fit")
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
    if found and inner_models(model) and (_quoted(text, found, model) or _only_mentioned(text, found)):
        return QUOTED
    return found[0].value if found else reason


def _quoted(text: str, found: list[_Found], model: type[BaseModel]) -> bool:
    """Whether one of the JSON objects in `found` may be part of something else: the text before it ends in a quotation
    mark (or `<`, `>`, a backslash) or leaves a { or [ open, or the text outside the objects names a field of the
    model's inner objects or has a tag of the model. Only for models with inner objects (`inner_models`).
    """
    ends = [0, *(each.end for each in found)]
    outside = [text[end : each.start] for end, each in zip(ends, found, strict=False)]
    named = _inner_names(model)
    return any(
        before.rstrip().removesuffix("```").endswith(_OPENS_QUOTATION)
        or before.count("{") + before.count("[") > before.count("}") + before.count("]")
        for before in outside
    ) or any(named.search(part) for part in (*outside, text[ends[-1] :]))


def _only_mentioned(text: str, found: list[_Found]) -> bool:
    """Whether JSON whose fields are all empty (an empty list) may be talked about in the reply and not be its answer;
    reading it would wrongly give the answer "none". So it is where other words stand on its line (a colon may precede
    it), or where the reply begins with a `<think>` that is never closed. False if a field is not empty. `found`: equal
    objects, at least one.
    """
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
    """A pattern for what must not occur outside the JSON: the names of the inner objects' fields, and tags named as
    the model's own fields.
    """
    inner = sorted({name for each in inner_models(model) for name in each.model_fields})
    own = "|".join(model.model_fields)
    return re.compile(rf"\b(?:{'|'.join(inner)})\b|<\s{{0,3}}/?\s{{0,3}}(?:{own})\s{{0,3}}>", re.IGNORECASE)


@cache
def strict_decoder() -> json.JSONDecoder:
    """A decoder that accepts line breaks and other control characters inside strings, which small models write.
    ValueError for the words NaN, Infinity and -Infinity; _Twice for an object with two different values of one field.
    """

    def refuse(constant: str) -> None:
        raise ValueError

    def fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        document = dict(pairs)
        if len(document) < len(pairs) and any(document[name] != value for name, value in pairs):
            raise _Twice
        return document

    return json.JSONDecoder(strict=False, parse_constant=refuse, object_pairs_hook=fields)


class _Twice(ValueError):
    """Raised for an object with two different values of one field, of which the last would hide the others."""


def fitted(data: dict[str, Any], model: type[BaseModel], misfit: str) -> BaseModel | str:
    """The data as the model, or the reason why they do not fit, which mostly begins with `misfit`. Values of a wrong
    type are corrected once, in `data` itself (see `_correct`).
    """
    problems: list[Any] = []
    for _ in range(2):
        try:
            return model.model_validate_json(
                writable(json.dumps(data, ensure_ascii=False, allow_nan=False)), strict=True
            )
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False)
            corrected = [_correct(data, problem, model) for problem in problems]
            if not any(corrected):
                break
        except (ValueError, RecursionError):
            return BROKEN_JSON
    return _reason(problems[0], misfit)


def _correct(data: Any, problem: Any, model: type[BaseModel]) -> bool:
    """Correct the value in `data` that a validation error (`problem`) is about, and say whether it was changed: a
    missing nullable field of an inner object becomes null; "4" becomes 4, "True" true, "null" null, 4.0 4.
    """
    *path, last = problem["loc"] or ("",)
    missing = problem["type"] == "missing"
    value = None if missing else _plain(problem["input"])
    if type(value) is type(problem["input"]) or (missing and not (path and last in _nullable_inner_names(model))):
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
def _nullable_inner_names(model: type[BaseModel]) -> frozenset[str]:
    """The names of fields that may be null in at least one of the `inner_models` (those at any depth inside the
    model); the model's own fields do not count. Cached.
    """
    return frozenset(
        name
        for inner in inner_models(model)
        for name, field in inner.model_fields.items()
        if _kind(field.annotation)[1]
    )


def _plain(refused: Any) -> Any:
    """The value that a refused string or float stands for: 4 for "4" or 4.0, True for "True", None for "null"; any
    other value unchanged, also a string of more than NUMBER_CHARACTERS characters.
    """
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
    """The reason of a validation error in a few words: `misfit`, the field's name and what is wrong, or a fixed phrase
    for broken JSON and for an empty text. It contains nothing of the reply.
    """
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
    """The models of the objects that the model's fields hold, at any depth, each once; empty where all fields are
    plain.

    A model with inner models is read as JSON also where the endpoint takes no schema.
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
    """How a model's fields are read from tags. `pattern` finds a tag of any field; `names` maps a name in lower case
    without separators to the field; `lists` and `optional` (may be None) are names of fields. `tail` is the name of
    the last field if that is text, which may itself contain tags; else None.
    """

    pattern: re.Pattern[str]
    names: dict[str, str]
    lists: tuple[str, ...]
    optional: frozenset[str]
    tail: str | None


@cache
def _tags_of(model: type[BaseModel]) -> _Tags:
    """How the model's fields are read from tags."""
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
    """(type, whether it may be None) of a field's annotation. The type is `list` of list[str], `Literal` of choices."""
    branches = [branch for branch in get_args(annotation) if branch is not type(None)]
    optional = type(None) in get_args(annotation)
    inner = branches[0] if optional and len(branches) == 1 else annotation
    return get_origin(inner) or inner, optional


def _read_tags(text: str, model: type[BaseModel]) -> BaseModel | str:
    """The model read from tags, or the reason why it cannot be. A list is a repeated tag; an empty pair of tags is no
    item.

    The first list needs at least one pair of tags, be it empty, unless it may be None: a reply without any did not
    keep to the form. Other lists may be missing, and are then empty; missing fields that may be None are None.
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
    return fitted(data, model, "the reply's tags do not fit")


def _tagged(text: str, tags: _Tags) -> dict[str, Any] | str:
    """Field -> the text between its tags (for a list, the texts), or the reason why tags cannot be read. Missing
    fields are left out, except that a last text field which may not be None is then the reason.

    Other fields' tags inside a text are part of the text; a list's item that is not closed is dropped. A last field
    that is text goes to the last of its closing tags, and ends the reading.
    """
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
    """The positions of the tags that close this field, from `begin` on."""
    found = tags.pattern.finditer(text, begin)
    return [tag.start() for tag in found if tag[1] and tags.names[_bare(tag[2])] == name]


def _add(data: dict[str, Any], name: str, content: str, tags: _Tags) -> None:
    """Put the content of a pair of tags into `data`: to a list as one more item on one line, if it is not blank; else
    as the field's text, without line breaks around it and white space at its end.
    """
    if name in tags.lists:
        item = " ".join(content.split())
        data.setdefault(name, []).extend([item] if item else [])
    else:
        data[name] = content.strip("\r\n").rstrip()


def _bare(name: str) -> str:
    """The name in lower case without `_`, `-` and spaces."""
    return re.sub("[ _-]", "", name).lower()


def _words(name: str) -> str:
    """The field's name with spaces for underscores."""
    return name.replace("_", " ")


# asking again


def repair_messages(messages: Messages, reply_text: str, reason: str, form: Form) -> Messages:
    """The messages of the request that asks for a readable reply: the conversation, the reply that could not be read
    (of a long one the first REPEATED_CHARACTERS), and a user message with the reason. `form` is the one to ask for.
    """
    shown = reply_text if len(reply_text) <= REPEATED_CHARACTERS else f"{reply_text[:REPEATED_CHARACTERS]}\n[...]"
    wanted = {
        "json": "with nothing but one JSON object that has exactly the fields asked for",
        "tags": "in the tags asked for, each opened and closed, and with the end mark where one was asked for",
    }[form]
    again = f"This reply cannot be read: {reason}. Give the whole reply again, {wanted}."
    return (*messages, ("assistant", shown), ("user", again))


def blank_tail(text: str) -> bool:
    """Whether at least nine tenths of the last 200 characters of a reply are white space, as which an escaped line
    break or tab in JSON (two characters) counts too. False for an empty reply.
    """
    tail = _BLANK_ESCAPE.sub("  ", text[-TAIL_CHARACTERS:])
    blank = sum(character.isspace() for character in tail)
    return bool(tail) and blank >= TAIL_BLANK * len(tail)
