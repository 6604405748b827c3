import hashlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from longform.llm.ask.keys import LEFT_OUT, canonical, key_of
from longform.llm.ask.types import Endpoint, Request
from longform.llm.send.bodies import Bodies, body_of
from schemas.replies import Corruption

BODY = {
    "model": "model-x",
    "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Why?"}],
    "max_completion_tokens": 2048,
}


def key(body: dict[str, Any], **changes: Any) -> str:
    return key_of("test", "/chat/completions", canonical(body), **changes)


def test_the_key_is_the_hash_of_this_very_text_so_that_stores_outlive_releases() -> None:
    text = (
        '[1,"test","/chat/completions",{"max_completion_tokens":2048,"messages":['
        '{"role":"system","content":"Be short."},{"role":"user","content":"Why?"}],"model":"model-x"},0,0]'
    )
    assert key(BODY) == hashlib.sha256(text.encode()).hexdigest()


def test_the_order_of_fields_does_not_count_but_the_order_inside_them_does() -> None:
    assert key(dict(reversed(BODY.items()))) == key(BODY)
    assert key({**BODY, "messages": list(reversed(BODY["messages"]))}) != key(BODY)  # type: ignore[call-overload]
    schema = {"properties": {"a": 1, "b": 2}}
    turned = {"properties": {"b": 2, "a": 1}}
    assert key({**BODY, "response_format": schema}) != key({**BODY, "response_format": turned})


def test_endpoint_path_sample_and_attempt_count() -> None:
    keys = {key(BODY), key(BODY, sample=1), key(BODY, attempt=1), key_of("other", "/chat/completions", canonical(BODY))}
    assert len({*keys, key_of("test", "/embeddings", canonical(BODY))}) == 5


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(name=st.text(min_size=1).filter(lambda name: name not in LEFT_OUT and name not in BODY), value=json_values)
def test_any_further_field_changes_the_key(name: str, value: Any) -> None:
    assert key({**BODY, name: value}) != key(BODY)


@given(name=st.sampled_from(sorted(LEFT_OUT)), value=json_values)
def test_a_field_that_cannot_change_the_reply_does_not_change_the_key(name: str, value: Any) -> None:
    assert key({**BODY, name: value}) == key(BODY)


@given(content=st.text())
def test_another_text_has_another_key(content: str) -> None:
    changed = {**BODY, "messages": [{"role": "user", "content": content}]}
    assert key(changed) != key({**BODY, "messages": [{"role": "user", "content": content + " "}]})


PARAMETERS = st.dictionaries(
    st.sampled_from(["seed", "temperature", "stop", "zeta", "user", "a"]),
    st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(), st.lists(st.text())),
)


@given(
    parameters=PARAMETERS,
    messages=st.lists(st.tuples(st.sampled_from(["system", "user"]), st.text()), min_size=1, max_size=3),
    samples=st.lists(st.integers(0, 3), min_size=1, max_size=4),
    schema=st.booleans(),
    logprobs=st.sampled_from([None, 0, 5]),
    capabilities=st.sampled_from([frozenset(), frozenset({"n"})]),
)
def test_bodies_made_in_a_hurry_are_the_canonical_ones(
    parameters: dict[str, Any],
    messages: list[tuple[str, str]],
    samples: list[int],
    schema: bool,
    logprobs: int | None,
    capabilities: Any,
) -> None:
    endpoint = Endpoint("e", "m", tuple(sorted(parameters.items())), capabilities=capabilities)
    more: dict[str, Any] = {"reply": Corruption, "form": "json"} if schema else {}
    request = Request(tuple(messages), task="t", logprobs=logprobs, **more)
    bodies = Bodies(endpoint)
    for sample in samples:
        assert bodies.sent(request, sample) == canonical(body_of(endpoint, request, sample))
