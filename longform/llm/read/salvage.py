"""What can be kept of a reply whose list of objects cannot be read whole.

    {"edits": [{"action_name": "remove", ...}, {"action_name": , ...}, {"action_name": "ad

The first object is kept, the second is lost, and one more for the end that is missing. Objects are read one by one;
after one that is broken, reading goes on where the next one begins with the name of one of its fields. What stands
around the list is looked at as for whole replies: a list that is only quoted, or one of several, is not read.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from longform.llm.read.replies import without_thought
from longform.llm.read.structured import fitted, inner_models, strict_decoder

MOST_ITEMS = 100_000
_BETWEEN = re.compile(r"[\s,]*")
_QUOTING = tuple("\"'`“”„‘’‚«‹<>\\")


def salvaged(text: str, model: type[BaseModel]) -> tuple[BaseModel, int] | None:
    """(the model with the items of its list that can be read, how many are lost), of a reply to a request for it; a
    list that is cut off has lost one more.

    Fields of an item that nobody asked for are dropped. None if no item can be read, if there is no list or more than
    one, if it is quoted in something else, or if the model is not one list of objects.
    """
    named = _list_of(model)
    if named is None:
        return None
    name, item = named
    text = without_thought(text)
    begin = _beginning(text, name)
    if begin is None:
        return None
    found, lost, end = _items(text, begin, name, model, item)
    if not found or re.search(rf'"{name}"\s*:\s*\[', text[end:]):
        return None
    fields: dict[str, Any] = {name: found}
    return model.model_construct(None, **fields), lost


def salvaged_items(value: BaseModel) -> int:
    """The number of items in the list of a model that `salvaged` returned."""
    return len(getattr(value, next(iter(type(value).model_fields))))


@cache
def _list_of(model: type[BaseModel]) -> tuple[str, type[BaseModel]] | None:
    """(name of the model's one field, the model of the objects in its list); None for any other model."""
    (name, field), *others = model.model_fields.items()
    inner = get_args(field.annotation)
    if others or get_origin(field.annotation) is not list or inner_models(model)[:1] != inner[:1]:
        return None
    return name, inner[0]


def _beginning(text: str, name: str) -> int | None:
    """The offset right after the [ that begins the list: after the field's name in an object, or at the beginning of
    the reply, alone or in a fence. None if there is none, if there are several, or if it is quoted.
    """
    starts = [*re.finditer(rf'\{{\s*"{name}"\s*:\s*\[', text)]
    if not starts:
        bare = re.match(r"\s*(?:```\w*\s*)?\[(?=\s*\{)", text)
        return bare.end() if bare else None
    before = text[: starts[0].start()].rstrip().removesuffix("```json").removesuffix("```").rstrip()
    if (
        len(starts) > 1
        or before.endswith(_QUOTING)
        or before.count("{") + before.count("[") > before.count("}") + before.count("]")
    ):
        return None
    return starts[0].end()


def _items(
    text: str, at: int, name: str, model: type[BaseModel], inner: type[BaseModel]
) -> tuple[list[BaseModel], int, int]:
    """(items that can be read, how many are lost, where the list ends), from the offset `at` in the list on. `name`: of
    the model's one field, whose objects are of the model `inner`.
    """
    next_item = _next_item(inner)
    found: list[BaseModel] = []
    lost = 0
    for _ in range(MOST_ITEMS):
        blank = _BETWEEN.match(text, at)
        at = blank.end() if blank else at
        if text.startswith("]", at):
            return found, lost, at + 1
        data, end = _decoded(text, at)
        known = {key: value for key, value in data.items() if key in inner.model_fields} if data else {}
        read = fitted({name: [known]}, model, "") if known else ""
        if isinstance(read, str):
            lost += 1
        else:
            found += getattr(read, name)
        if end is None:
            following = next_item.search(text, at + 1)
            if following is None:
                return found, lost, len(text)
            end = following.start()
        at = end
    return found, lost + 1, at


def _decoded(text: str, at: int) -> tuple[dict[str, Any] | None, int | None]:
    """(the object that begins at an offset, None for anything else; where it ends, None where its JSON is broken)."""
    try:
        data, end = strict_decoder().raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, None
    return (data if isinstance(data, dict) else None), end


@cache
def _next_item(model: type[BaseModel]) -> re.Pattern[str]:
    """A pattern for the beginning of an object whose first field is one of the model's."""
    return re.compile(rf'\{{\s*"(?:{"|".join(model.model_fields)})"\s*:')
