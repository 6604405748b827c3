"""A configuration that holds a key, a user or a password is refused, and the message does not repeat it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from flows.axioms import AxiomsConfig
from flows.cli.main import _run_command
from flows.config.configuration import read
from flows.config.endpoints import EndpointConfig
from flows.expertqa import WebConfig
from longform.errors import UsageError

SECRET = "canary8e7d5f3b"
KEY = f"sk-{SECRET}4f6b9d2e"

ADDRESSES = [
    f"https://bob:{SECRET}@models.example/v1",
    f"https://{SECRET}@models.example/v1",
    f"http://models.example@{SECRET}@x/v1",
    f"https://models.example/v1?api_key={SECRET}",
    f"https://models.example?key={SECRET}",
    f"https://models.example/v1?api-version=2024-10-21&subscription-key={SECRET}",
    f"https://models.example/v1?access_token={SECRET}",
    f"https://models.example/v1?code={SECRET}",
    f"https://models.example/v1?sig={SECRET}",
    f"https://models.example/v1?%61pi_key={SECRET}",
    f"https://models.example/v1#token={SECRET}",
    f"https://models.example/{KEY}/v1",
    f"https://models.example/%73k-{SECRET}4f6b9d2e/v1",
    f"https://models.example/v1?x={KEY}",
    f"https://models.example/v1#{KEY}",
    f"ftp://bob:{SECRET}@models.example/v1",
    f"bob:{SECRET}@models.example/v1",
    f"models.example/v1?key={SECRET}",
    f"https:\\\\bob:{SECRET}@models.example/v1",
    f"https://models.example:{SECRET}/v1",
    f"https://models.example/v1/zQ8x3K1mW0r7YtL2pA9cVb4N{SECRET}",
]
GOOD = [
    "http://127.0.0.1:8000/v1",
    "http://[::1]:8000/v1",
    "https://models.example",
    "https://one.openai.azure.com/openai/deployments/gpt-4o-2024-08-06?api-version=2024-10-21-preview",
    "https://api.cloudflare.com/client/v4/accounts/023e105f4ecef8ad9ca31a8372d0c353/ai/v1",
    "https://gateway.example/v1/3f2b8c1e-9a4d-4e6f-8b7a-1c2d3e4f5a6b/openai",
    "https://aiplatform.googleapis.com/v1/projects/my-project-12345/locations/us-central1/endpoints/openapi",
    "https://models.example/deployments/llama-v3p1-405b-instruct-fp8/v1",
]


def configured(**endpoint: Any) -> list[str]:
    """`--set` texts of an endpoint with these settings."""
    settings = {"base_url": "https://models.example/v1", "model": "m", **endpoint}
    return [
        f"endpoints.one.{name}={value if isinstance(value, str) else _toml(value)}" for name, value in settings.items()
    ]


def _toml(value: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)} = {_item(each)}" for name, each in value.items()) + "}"


def _item(value: Any) -> str:
    return _toml(value) if isinstance(value, dict) else json.dumps(value)


def refused(settings: list[str]) -> str:
    with pytest.raises(UsageError) as refusal:
        read("axioms", AxiomsConfig, None, settings)
    assert refusal.value.__cause__ is None
    return str(refusal.value)


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_with_a_secret_is_refused_and_not_repeated(address: str) -> None:
    message = refused(configured(base_url=address))
    assert message.startswith("axioms: endpoints.one.base_url does not fit: an address ")
    assert "canary" not in message
    for validate in (
        lambda: EndpointConfig(base_url=address, model="m"),
        lambda: AxiomsConfig(endpoints={"one": {"base_url": address, "model": "m"}}),
    ):
        with pytest.raises(ValidationError) as error:
            validate()
        assert "canary" not in str(error.value)


@pytest.mark.parametrize("address", GOOD)
def test_an_address_without_a_secret_is_taken(address: str) -> None:
    config = read("axioms", AxiomsConfig, None, configured(base_url=address))
    assert config.endpoints["one"].base_url == address


@pytest.mark.parametrize(
    "name", [KEY, "gsk_canaryQmW0r7YtLpA2", "a1canary2d3e4f5a6b7c8d9e0f1a2b3c4", "my key canary", "MY-canary"]
)
def test_a_key_in_place_of_its_variable_is_refused_and_not_repeated(name: str) -> None:
    message = refused(configured(key_env=name))
    assert "key_env is the name of an environment variable" in message
    assert "canary" not in message
    with pytest.raises(ValidationError, match="name of an environment variable"):
        WebConfig(kind="brave", key_env=name)


@pytest.mark.parametrize(
    "parameters",
    [
        {"api_key": SECRET},
        {"Authorization": f"Bearer {SECRET}"},
        {"extra_headers": {"X-Api-Key": SECRET}},
        {"user": KEY},
        {"metadata": {"of": [f"Bearer {SECRET}4f6b"]}},
    ],
    ids=lambda given: next(iter(given)),
)
def test_a_key_among_the_parameters_is_refused_and_not_repeated(parameters: dict[str, Any]) -> None:
    message = refused(configured(parameters=parameters))
    assert "the key belongs into a variable" in message or "it belongs into a variable" in message
    assert "canary" not in message


def test_parameters_of_requests_are_taken() -> None:
    parameters = {"seed": 1, "user": "pipeline-7", "prompt_cache_key": "axioms", "reasoning_effort": "low"}
    config = read("axioms", AxiomsConfig, None, configured(parameters=parameters))
    assert config.endpoints["one"].parameters == parameters


@pytest.mark.parametrize(
    "settings",
    [
        [f"endpoints.one.api_key={KEY}"],
        [f"endpoints.one={KEY}"],
        [f"endpoints={KEY}"],
        [f"{KEY}"],
        [f"neighbours={KEY}"],
        [f"neighbours=https://bob:{SECRET}@x"],
        ["endpoints=3", f"endpoints.one.key_env={KEY}"],
        [*configured(), f"endpoints.one.price={KEY}"],
        [*configured(), f"endpoints.one.limit_field={KEY}"],
    ],
)
def test_no_message_on_a_configuration_repeats_a_key(settings: list[str]) -> None:
    assert "canary" not in refused(settings)


@pytest.mark.parametrize(
    "settings",
    [
        [f"model={KEY}"],
        [*configured(), "model=one", f"endpoints.one.model={KEY}"],
        [*(each.replace("endpoints.one", f"endpoints.{KEY}") for each in configured())],
        [*configured(), f"stages.answer_open_book.model={KEY}"],
        [*configured(), f"stages.{KEY}.model=one"],
    ],
)
def test_a_key_in_place_of_a_name_is_refused_and_not_repeated(settings: list[str]) -> None:
    message = refused(settings)
    assert "a name of a model or an endpoint is no key" in message
    assert "canary" not in message


def test_a_setting_of_an_endpoint_named_like_a_key_is_refused_without_that_name() -> None:
    assert "canary" not in refused([f"endpoints.{KEY}.api_key=1"])


@pytest.mark.parametrize(
    "model",
    [
        "accounts/fireworks/models/llama-v3p1-405b-instruct",
        "ft:gpt-4o-mini-2024-07-18:org::9Abc1De2",
        "deepseek-r1-distill-qwen-1.5b-q4_k_m",
        "0d9f1c52-6b1e-4f0a-9d3e-7c1d2e3f4a5b",
        "meta-llama/Llama-3.1-8B-Instruct-GPTQ-Int4",
        "hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M",
    ],
)
def test_a_name_of_a_model_is_taken(model: str) -> None:
    config = read("axioms", AxiomsConfig, None, configured(model=model))
    assert config.endpoints["one"].model == model


@pytest.mark.parametrize("command", ["plan", "build"])
def test_no_command_prints_or_writes_an_address_with_a_secret(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dump").write_text("")
    words = [f"--set={each}" for each in [*configured(base_url=ADDRESSES[0]), "model=one", f"dump={tmp_path / 'dump'}"]]
    monkeypatch.setattr(
        sys, "argv", ["longform", command, "axioms", "--home", str(tmp_path / "home"), "--json", *words]
    )
    assert _run_command() == 2
    printed = capfd.readouterr()
    assert "canary" not in printed.out + printed.err
    assert not any("canary" in path.read_text("latin-1") for path in tmp_path.rglob("*") if path.is_file())


def test_parameters_of_a_deployment_with_a_secret_are_refused_without_it() -> None:
    from prefect.exceptions import ParameterTypeError

    from flows import deployed

    given = {"config": {"endpoints": {"one": {"base_url": ADDRESSES[0], "model": "m"}}}}
    with pytest.raises(ParameterTypeError, match="an address holds no user") as error:
        deployed.FLOWS["axioms"].validate_parameters(given)
    assert "canary" not in str(error.value)
