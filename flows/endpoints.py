"""[endpoints.NAME] of a configuration: models behind OpenAI-compatible APIs."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from longform.errors import EndpointError, UsageError
from longform.llm.offline import MODEL as OFFLINE_MODEL
from longform.llm.types import Endpoint
from longform.settings import api_key


class EndpointConfig(BaseModel):
    """One model. The key stays in the environment; `key_env` names the variable."""

    model_config = ConfigDict(extra="forbid", strict=True)

    base_url: str = Field(description="e.g. http://127.0.0.1:8000/v1", pattern="^https?://")
    model: str = Field(description="name the endpoint knows the model by")
    key_env: str | None = Field(None, description="environment variable that holds the key; none for local servers")
    parameters: dict[str, Any] = Field({}, description="sent with every request, e.g. temperature, seed")
    limit_field: Literal["max_completion_tokens", "max_tokens"] = Field(
        "max_completion_tokens",
        description="what the server calls the limit of a reply's tokens; older ones: max_tokens",
    )
    concurrency: int = Field(16, ge=1, description="requests in flight, at most")
    timeout_seconds: float = Field(120.0, gt=0, description="total time a request may take")


def endpoint_of(name: str, endpoints: dict[str, EndpointConfig]) -> Endpoint:
    """The endpoint of this name; `offline` is built in."""
    if name in endpoints:
        config = endpoints[name]
        return Endpoint(
            name=name,
            model=config.model,
            parameters=tuple(sorted(config.parameters.items())),
            base_url=config.base_url,
            key_env=config.key_env,
            concurrency=config.concurrency,
            timeout_seconds=config.timeout_seconds,
            limit_field=config.limit_field,
        )
    if name == "offline":
        return Endpoint(name="offline", model=OFFLINE_MODEL)
    names = ", ".join(["offline", *endpoints])
    raise UsageError(f'There is no endpoint "{name}"; there is {names}. Add [endpoints.{name}] to the configuration.')


def check_keys(used: list[str], endpoints: dict[str, EndpointConfig]) -> None:
    """Raise EndpointError where an endpoint in use names a variable that holds no key."""
    for name in used:
        variable = endpoints[name].key_env if name in endpoints else None
        if variable and api_key(variable) is None:
            raise EndpointError(
                f'The key {variable} of endpoint "{name}" is not set. '
                "Set it, or use --set model=offline. Nothing was run."
            )
