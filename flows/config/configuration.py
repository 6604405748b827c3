"""A configuration of a dataset or source: read from TOML and `--set`, checked by its pydantic model, and written as
documented TOML.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from datetime import date, time
from pathlib import Path
from typing import Any, get_args, get_origin

import tomlkit
from pydantic import BaseModel, ValidationError

from flows.config.secrets import looks_like_key, may_hold_secret
from longform.errors import UsageError


def read(
    subject: str, model: type[BaseModel], file: Path | None, settings: list[str], *, listing: str | None = None
) -> Any:
    """The configuration of a dataset or source (`subject`, for messages) as an instance of `model`, from a TOML file
    (None: no file) and `settings`. UsageError if the file cannot be read, a text is no `key=value`, or a setting is
    missing, unknown or does not fit the model.

    `settings` are texts `key=value` that win over the file; a key such as `stages.x.mode` reaches into tables. A
    setting that is a list also takes `a,b`, or one value.
    `listing`: the command that shows all settings, by default `longform config SUBJECT`.
    """
    listing_command = listing or f"longform config {subject}"
    values = _from_file(file, listing_command) if file else {}
    listing_hint = f"`{listing_command}` shows all of them."
    for setting in settings:
        _set(values, listing_hint, setting, model)
    try:
        return model(
            **{name: _meaning_of_none(model, name) if value is None else value for name, value in values.items()}
        )
    except ValidationError as error:
        raise UsageError(_explain(subject, model, error, listing_hint)) from None


def _from_file(file: Path, listing_command: str) -> dict[str, Any]:
    """The settings in a TOML file; dates and times at its top level become text. UsageError if the file is missing,
    unreadable or no TOML. `listing_command`: the command that prints all settings, for a message.
    """
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UsageError(
            f"There is no configuration {file}: write one with `{listing_command}`, which prints all settings."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The configuration {file} cannot be read ({error}).") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"The configuration {file} is no TOML: {error}.") from None
    return {name: value.isoformat() if isinstance(value, date | time) else value for name, value in values.items()}


def _set(values: dict[str, Any], listing_hint: str, setting: str, model: type[BaseModel]) -> None:
    """Put one text `key=value` (`setting`) into the dict `values`; each dot in the key reaches into a nested dict,
    which is made if missing. UsageError if the text has another form, or if a name before a dot is that of no table.
    `listing_hint`: the end of that message. `model` says which settings are lists.
    """
    name, equals, text = setting.partition("=")
    if not equals or not name.strip():
        shown = "" if may_hold_secret([], setting) else f', not "{setting}"'
        raise UsageError(f"--set takes key=value{shown}; {listing_hint}")
    *tables, key = name.strip().split(".")
    for table in tables:
        values = values.setdefault(table, {})
        if not isinstance(values, dict):
            raise UsageError(f'--set {name}: "{table}" is no table of settings.')
    items = None if tables else _list_items(model, key)
    values[key] = _value(text.strip()) if items is None else _listed(text.strip(), items)


def _value(text: str) -> Any:
    """The value as TOML reads it. A date or time, or text that is no TOML, stays a string, so that quotes are not
    needed. None for `none` and `null`.
    """
    if text in ("none", "null"):
        return None
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return text if isinstance(value, date | time) else value


def _list_items(model: type[BaseModel], name: str) -> Any:
    """The type of the items of a setting that is a list, e.g. str for `list[str] | None`; None if it is none, or may
    be something else besides, as `int | list[int]`.
    """
    field = model.model_fields.get(name)
    annotation = None if field is None else field.annotation
    kinds = [annotation] if get_origin(annotation) is list else list(get_args(annotation))
    lists = [kind for kind in kinds if get_origin(kind) is list]
    return get_args(lists[0])[0] if len(lists) == 1 and set(kinds) <= {lists[0], type(None)} else None


def _listed(text: str, items: Any) -> Any:
    """The value of a list: `a,b` and `a` are split at their commas, blanks around a value and empty ones left out; a
    text in brackets, such as ["a, b", "c"], and `none` are read as by `_value`. `items`: the type of an item.
    """
    if text.startswith("[") or text in ("none", "null"):
        return _value(text)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    unquoted = [part[1:-1] if len(part) > 1 and part[0] == part[-1] and part[0] in "\"'" else part for part in parts]
    return unquoted if items is str else [_value(part) for part in parts]


def _meaning_of_none(model: type[BaseModel], name: str) -> str | None:
    """What `--set name=none` sets: the word "none" if that is one of the choices of the setting, else None."""
    field = model.model_fields.get(name)
    return "none" if field and "none" in get_args(field.annotation) else None


def _explain(dataset: str, model: type[BaseModel], error: ValidationError, listing_hint: str) -> str:
    """The message for a configuration that does not fit its model: an unknown setting, if there is one, with a similar
    name; else the first setting that is missing or does not fit, its value (unless it may hold a secret) and the
    rule. `listing_hint`: the last sentence.
    """
    problem = min(error.errors(include_url=False), key=lambda found: found["type"] != "extra_forbidden")
    path = ["[key]" if looks_like_key(str(piece)) else str(piece) for piece in problem["loc"]]
    value = "" if may_hold_secret(path, problem["input"]) else f" = {json.dumps(problem['input'], default=str)}"
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        near = difflib.get_close_matches(path[-1], _names(model, path[:-1]), n=1, cutoff=0.5)
        hint = f'; did you mean "{near[0]}"?' if near else "."
        return f'{dataset} has no setting "{".".join(path)}"{hint} {listing_hint}'
    if problem["type"] == "missing":
        return f'{dataset}: the setting "{".".join(path)}" is missing. {listing_hint}'
    if not path:
        return f"{dataset}: {message}. {listing_hint}"
    if problem["type"] in ("model_type", "model_attributes_type"):
        example = _example_table(path)
        return f"{dataset}: {'.'.join(path)}{value} does not fit: it takes a table, e.g. {example}. {listing_hint}"
    name = ".".join(piece for piece in path if piece not in ("str", "list[str]") and not piece.isdigit())
    return f"{dataset}: {name}{value} does not fit: {message[0].lower()}{message[1:]}. {listing_hint}"


def _names(model: type[BaseModel], tables: list[str]) -> list[str]:
    """The names of the settings in the table that `tables` leads to, e.g. ["endpoints", "local"]; [] is the
    configuration itself. A name that is no setting, as that of an endpoint, is passed over.
    """
    for table in tables:  # the name in [endpoints.name] is that of no field
        if table in model.model_fields:
            model = _table_model(model.model_fields[table].annotation) or model
    return list(model.model_fields)


def _table_model(annotation: Any) -> type[BaseModel] | None:
    """The pydantic model in the annotation of a setting that is a table: X for `X`, `X | None` and `dict[str, X]`; None
    if there is no model.
    """
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_table_model, get_args(annotation))), None)


def _example_table(path: list[str]) -> str:
    """An example of the TOML table that belongs at this path of settings, for a message."""
    examples = {
        "price": "{ input = 2.5, output = 10 }",
        "web": '{ kind = "searxng", url = "http://127.0.0.1:8080" }',
        "stages": '{ mode = "batch" }',
    }
    endpoint = '{ base_url = "http://127.0.0.1:8000/v1", model = "my-model" }'
    return examples.get(path[-1]) or examples.get(path[0], endpoint)


def toml(dataset: str, model: type[BaseModel]) -> str:
    """The default configuration of a dataset as TOML, every setting with its description. Settings whose default is
    None are commented out, and so are examples of the tables `endpoints` and `stages`.

    The dataset's own settings come first and tables last, as in TOML everything after a table's header belongs to it.
    """
    document = tomlkit.document()
    document.add(tomlkit.comment(f"longform {dataset}: every setting with its default. Build with"))
    document.add(tomlkit.comment(f"    longform build {dataset} --config {dataset}.toml"))
    general = [each for each in model.__mro__ if issubclass(each, BaseModel)][-2].model_fields
    fields = sorted(model.model_fields.items(), key=lambda item: item[0] in general)
    for name, field in sorted(fields, key=lambda item: isinstance(item[1].default, dict | BaseModel)):
        document.add(tomlkit.nl())
        document.add(tomlkit.comment(str(field.description)))
        if name == "endpoints":
            _endpoint_example(document)
        elif name == "stages":
            _stage_example(document, model)
        elif isinstance(field.default, BaseModel):
            document.add(name, _table(field.default))
        elif field.default is None:
            document.add(tomlkit.comment(f"{name} ="))
        else:
            document.add(name, tomlkit.item(field.default))
    return tomlkit.dumps(document)


def _table(settings: BaseModel) -> tomlkit.items.Table:
    """The settings of a table, each with its description behind it."""
    table = tomlkit.table()
    for name, field in type(settings).model_fields.items():
        table.add(name, getattr(settings, name))
        table[name].comment(str(field.description))
    return table


def _stage_example(document: tomlkit.TOMLDocument, model: type[BaseModel]) -> None:
    """Add an example of a table [stages.NAME] to the document, as comments, with each setting of a stage."""
    from flows.config.endpoints import StageConfig

    document.add(tomlkit.comment(f"[stages.{model.MODEL_STAGES[0]}]    # or {', '.join(model.MODEL_STAGES[1:])}"))  # type: ignore[attr-defined]
    for name, field in StageConfig.model_fields.items():
        document.add(tomlkit.comment(f"{name} =    # {field.description}"))


def _endpoint_example(document: tomlkit.TOMLDocument) -> None:
    """Add an example of a table [endpoints.local] to the document, as comments, with each setting of an endpoint."""
    from flows.config.endpoints import EndpointConfig

    document.add(tomlkit.comment("[endpoints.local]"))
    examples = {
        "base_url": '"http://127.0.0.1:8000/v1"',
        "model": '"my-model"',
        "key_env": '"MY_KEY"',
        "parameters": "{}",
        "capabilities": '["json_schema"]',
        "rpm": "600",
        "tpm": "200000",
        "window": "32768",
        "price": "{ input = 0.0, output = 0.0 }",
    }
    for name, field in EndpointConfig.model_fields.items():
        value = examples.get(name) or tomlkit.item(field.default).as_string()
        document.add(tomlkit.comment(f"{name} = {value}    # {field.description}"))
