"""The identity of a stage's output: what determines its rows (the recipe), and its hash (the fingerprint)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa


def fingerprint(value: Any) -> str:
    """The first 20 hex digits of the SHA-256 of a JSON value, independent of the order of its keys. ValueError for NaN
    or infinity in it.
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def identity(value: Any) -> Any:
    """A stage argument as a JSON value for the recipe, item by item in mappings and sequences. Objects with a method
    `identity()`, such as endpoints, prompts and sources, define their own. TypeError for paths and for other types
    that are no JSON.
    """
    if hasattr(value, "identity"):
        return value.identity()
    if isinstance(value, Mapping):
        return {str(name): identity(item) for name, item in value.items()}
    if isinstance(value, Path):
        raise TypeError("a path is no identity: pass what the file holds")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [identity(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"{type(value).__name__} cannot be a stage argument")


def shape(schema: pa.Schema) -> list[list[str]]:
    """The part of a schema that belongs to the recipe: [name, type, `null` if nulls are allowed, else `set`] for each
    column, then [`key`, column] and [`cut`, column], with an empty column if the schema's metadata names none.
    Documentation is left out.
    """
    columns = [[field.name, str(field.type), "null" if field.nullable else "set"] for field in schema]
    keyed = [[name, (schema.metadata or {}).get(name.encode(), b"").decode()] for name in ("key", "cut")]
    return columns + keyed


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that determines a stage's rows. `revision`: of the stage's code. `schema`: the columns, as `shape`
    gives them, and how the stage divides its parts, if it does. `arguments`: the stage's keyword arguments, each as
    `identity` gives it. `inputs`: input name -> fingerprint of the stage that made it, or the identities of sources.
    """

    stage: str
    revision: int
    schema: list[list[str]]
    arguments: dict[str, Any]
    inputs: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """field -> value, a JSON value."""
        return {
            "stage": self.stage,
            "revision": self.revision,
            "schema": self.schema,
            "arguments": self.arguments,
            "inputs": self.inputs,
        }

    @property
    def fingerprint(self) -> str:
        """The first 20 hex digits of the SHA-256 of the recipe."""
        return fingerprint(self.as_dict())

    def unit(self, input_hashes: dict[str, list[str]]) -> str:
        """The id of one unit of work: a hash of the recipe without its inputs, and of `input_hashes`: input -> the
        hashes of the parts or sources that this unit reads, and `keys` -> the keys of the parts it makes.
        """
        return fingerprint([self.stage, self.revision, self.schema, self.arguments, input_hashes])

    def differences(self, other: Recipe) -> list[str]:
        """What changed from `other`, the older recipe, to this one, as short phrases: `revision 1 -> 2`, `schema
        changed`, `k: 10 -> 12`, `prompt changed`, `its input x changes`. An argument that one of them lacks counts as
        None. Empty if nothing changed.
        """
        found = [] if self.revision == other.revision else [f"revision {other.revision} -> {self.revision}"]
        found += [] if self.schema == other.schema else ["schema changed"]
        names = sorted(self.arguments.keys() | other.arguments.keys())
        values = ((name, other.arguments.get(name), self.arguments.get(name)) for name in names)
        found += [_change(name, before, now) for name, before, now in values if before != now]
        inputs = sorted(self.inputs.keys() | other.inputs.keys())
        changed = [name for name in inputs if self.inputs.get(name) != other.inputs.get(name)]
        return found + [f"its input {name} changes" for name in changed]


def _change(name: str, before: Any, now: Any) -> str:
    """A phrase for an argument that changed: `k: 10 -> 12`. Of a dict only the keys that changed, as `name.key: 10 ->
    12`; of the argument `prompt` only that it changed.
    """
    if name == "prompt":
        return "prompt changed"
    if isinstance(now, dict) and isinstance(before, dict):
        keys = [key for key in sorted(now.keys() | before.keys()) if now.get(key) != before.get(key)]
        return ", ".join(f"{name}.{key}: {before.get(key)} -> {now.get(key)}" for key in keys)
    return f"{name}: {before} -> {now}"
