"""Identity: what changes a fingerprint, what does not, and how a change is told."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longform.artifacts.recipe import Recipe, fingerprint, identity, shape
from longform.artifacts.rows import Source
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint
from schemas import column, table

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)
ITEMS = [column("item_id", pa.string(), "an id"), column("value", pa.int32(), "a number")]
ENDPOINT = Endpoint("small", "model-1", (("seed", 1), ("temperature", 0.5)), "http://127.0.0.1:1/v1", "KEY", 4, 9.0)
PROMPT = Prompt("axioms/combine", "0" * 64, ("question",), "WrittenAnswer", "system", "user")


def recipe(**changed: Any) -> Recipe:
    fields = {
        "stage": "find_related",
        "revision": 1,
        "schema": shape(table("items", *ITEMS, key="item_id")),
        "arguments": identity({"k": 10, "below": 0.8, "model": ENDPOINT, "prompt": PROMPT}),
        "inputs": {"threads": "aaaa", "passages": "bbbb"},
    }
    return Recipe(**{**fields, **changed})  # type: ignore[arg-type]


# ---------------------------------------------------------------- fingerprints


def test_a_fingerprint_is_the_sha256_of_the_plainest_json() -> None:
    text = '{"a":[1,0.5,"ü",null],"b":true}'
    assert fingerprint({"b": True, "a": [1, 0.5, "ü", None]}) == hashlib.sha256(text.encode()).hexdigest()[:20]


@given(JSON)
def test_a_fingerprint_does_not_know_the_order_of_keys(value: Any) -> None:
    assert fingerprint(backwards(value)) == fingerprint(value)


def backwards(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: backwards(inner) for key, inner in reversed(value.items())}
    return [backwards(inner) for inner in value] if isinstance(value, list) else value


@given(JSON, JSON)
def test_fingerprints_are_equal_where_the_json_is(one: Any, two: Any) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)
    assert (fingerprint(one) == fingerprint(two)) == same


def test_a_list_keeps_its_order_and_a_number_its_kind() -> None:
    values = [[1, 2], [2, 1], 1, 1.0, True, "1", None, "", [], {}]
    assert len({fingerprint(value) for value in values}) == len(values)


def test_nan_and_infinity_have_no_fingerprint() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        fingerprint({"below": float("nan")})


# ---------------------------------------------------------------- recipes

CHANGES: dict[str, dict[str, Any]] = {
    "its stage": {"stage": "find_unrelated"},
    "its revision": {"revision": 2},
    "the value of an argument": {"arguments": {**recipe().arguments, "k": 11}},
    "a further argument": {"arguments": {**recipe().arguments, "seed": 0}},
    "an argument less": {"arguments": {"k": 10}},
    "an input": {"inputs": {"threads": "aaaa", "passages": "cccc"}},
    "a further input": {"inputs": {**recipe().inputs, "splits": "dddd"}},
    "inputs the other way round": {"inputs": {"threads": "bbbb", "passages": "aaaa"}},
    "a column's type": {"schema": shape(table("i", ITEMS[0], column("value", pa.int64(), "a number"), key="item_id"))},
    "a column's name": {"schema": shape(table("i", ITEMS[0], column("number", pa.int32(), ""), key="item_id"))},
    "a column that may be null": {
        "schema": shape(table("i", ITEMS[0], column("value", pa.int32(), "", null=True), key="item_id"))
    },
    "the order of columns": {"schema": shape(table("items", *reversed(ITEMS), key="item_id"))},
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_recipe_changes_with(what: str) -> None:
    assert recipe(**CHANGES[what]).fingerprint != recipe().fingerprint


def test_a_recipe_does_not_change_with_the_documentation() -> None:
    documented = [field.with_metadata({"doc": "said better"}) for field in ITEMS]
    assert recipe(schema=shape(table("renamed", *documented, key="item_id"))).fingerprint == recipe().fingerprint


def test_the_fields_of_structs_are_identity() -> None:
    def of(field: str, null: bool) -> list[list[str]]:
        inner = pa.struct([column(field, pa.int32(), "", null=null)])
        return shape(table("items", column("marks", pa.list_(inner), ""), key="marks"))

    shapes = [of("start", False), of("end", False), of("start", True)]
    assert len({fingerprint(found) for found in shapes}) == 3


def test_the_id_of_a_unit_changes_with_its_contents_and_not_with_where_they_are_from() -> None:
    hashes = {"threads": ["ale/0-00000 abc"]}
    same = recipe(inputs={"threads": "other", "passages": "other"})
    assert same.unit(hashes) == recipe().unit(hashes)
    assert recipe().unit({"threads": ["ale/0-00000 abd"]}) != recipe().unit(hashes)
    assert recipe(**CHANGES["the value of an argument"]).unit(hashes) != recipe().unit(hashes)
    assert recipe(revision=2).unit(hashes) != recipe().unit(hashes)


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    "same",
    [{"base_url": "https://elsewhere.example/v1"}, {"key_env": None}, {"concurrency": 64}, {"timeout_seconds": 1.0}],
)
def test_where_and_how_fast_an_endpoint_is_asked_is_not_identity(same: dict[str, Any]) -> None:
    assert identity(endpoint(**same)) == identity(ENDPOINT)


@pytest.mark.parametrize(
    "other",
    [{"name": "large"}, {"model": "model-2"}, {"parameters": (("seed", 2), ("temperature", 0.5))}, {"parameters": ()}],
)
def test_which_model_an_endpoint_is_and_how_it_is_set_is_identity(other: dict[str, Any]) -> None:
    assert fingerprint(identity(endpoint(**other))) != fingerprint(identity(ENDPOINT))


def endpoint(**changed: Any) -> Endpoint:
    return Endpoint(**{**{name: getattr(ENDPOINT, name) for name in Endpoint.__slots__}, **changed})


def test_the_identity_of_a_source_is_its_bytes_and_its_facts() -> None:
    def of(**changed: Any) -> Source:
        fields = {"group": "ale", "path": "/here", "sha256": "ab", "facts": (("site", "ale"),), "pieces": ((0, 9),)}
        return Source(**{**fields, **changed})

    assert identity(of(path="/there")) == identity(of())
    for changed in ({"sha256": "ac"}, {"facts": (("site", "tea"),)}, {"group": "tea"}):
        assert fingerprint(identity(of(**changed))) != fingerprint(identity(of()))


@pytest.mark.parametrize("value", [Path("data"), {"dump": Path("data")}, [Path("data")], {1, 2}, object()])
def test_values_without_a_stable_identity_are_refused_as_arguments(value: Any) -> None:
    with pytest.raises(TypeError, match=r"path is no identity|cannot be a stage argument"):
        identity(value)


def test_tuples_and_lists_are_the_same_argument() -> None:
    assert identity({"sites": ("a", ["b"])}) == {"sites": ["a", ["b"]]}


# ---------------------------------------------------------------- differences

PHRASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({}, []),
    "an argument": ({"arguments": {**recipe().arguments, "k": 12}}, ["k: 10 -> 12"]),
    "two arguments": (
        {"arguments": {**recipe().arguments, "k": 12, "below": 0.9}},
        ["below: 0.8 -> 0.9", "k: 10 -> 12"],
    ),
    "the revision": ({"revision": 3}, ["revision 1 -> 3"]),
    "the schema": ({"schema": []}, ["schema changed"]),
    "an input": ({"inputs": {"threads": "aaaa", "passages": "cccc"}}, ["its input passages changes"]),
    "the prompt": ({"arguments": {**recipe().arguments, "prompt": "1" * 64}}, ["prompt changed"]),
    "the model": (
        {"arguments": {**recipe().arguments, "model": identity(endpoint(model="model-2"))}},
        ["model.model: model-1 -> model-2"],
    ),
    "an input that is gone": ({"inputs": {"threads": "aaaa"}}, ["its input passages changes"]),
    "all of them": (
        {"revision": 2, "schema": [], "arguments": {**recipe().arguments, "k": 9}, "inputs": {"threads": "x"}},
        ["revision 1 -> 2", "schema changed", "k: 10 -> 9", "its input passages changes", "its input threads changes"],
    ),
}


def test_a_key_that_an_argument_lost_is_reported() -> None:
    older, newer = (recipe(arguments={"limits": limits}) for limits in ({"k": 1, "n": 2}, {"k": 1}))
    assert newer.differences(older) == ["limits.n: 2 -> None"]
    assert older.differences(newer) == ["limits.n: None -> 2"]


@pytest.mark.parametrize("what", PHRASES)
def test_recipe_differences_are_short_phrases(what: str) -> None:
    changed, phrases = PHRASES[what]
    assert recipe(**changed).differences(recipe()) == phrases
