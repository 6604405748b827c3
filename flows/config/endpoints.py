"""The settings of models: [endpoints.NAME] for models behind OpenAI-compatible APIs, and which stage asks which
endpoint.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from flows.config.secrets import address_without_secrets, model_name, parameters_without_secrets, variable_name
from longform.engine.health import Ceilings
from longform.errors import EndpointError, UsageError
from longform.llm.ask.types import Capability, Endpoint, Price
from longform.llm.offline import ENDPOINT as OFFLINE
from longform.settings import api_key

SET_BY_BUILD = frozenset({
    "background", "include", "input", "logprobs", "max_completion_tokens", "max_output_tokens", "max_tokens",
    "messages", "model", "n", "response_format", "stream", "stream_options", "text", "top_logprobs",
})  # fmt: skip

EndpointName = Annotated[str, AfterValidator(model_name)]


def endpoint_address(address: str) -> str:
    """The URL unchanged; ValueError if it does not begin with http:// or https://, or holds a user, password or key."""
    if not address.startswith(("http://", "https://")):
        raise ValueError("an address begins with http:// or https://, and mostly ends in /v1")
    return address_without_secrets(address)


def check_request_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """The request parameters unchanged; ValueError if one of them is set by the build itself (SET_BY_BUILD), or holds a
    secret.
    """
    for name in parameters:
        if name in SET_BY_BUILD:
            raise ValueError(f"{name} is set by the build itself; it takes no {name} here")
    return parameters_without_secrets(parameters)


class PriceConfig(BaseModel):
    """USD per million tokens."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    input: float = Field(ge=0, description="of prompts")
    output: float = Field(ge=0, description="of replies")
    cached_input: float | None = Field(None, ge=0, description="of prompt tokens that the provider had cached")
    batch: float = Field(0.5, ge=0, le=1, description="what a batch costs of these prices")


class EndpointConfig(BaseModel):
    """One model. Its key stays in the environment; `key_env` names the variable."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

    base_url: Annotated[str, AfterValidator(endpoint_address)] = Field(description="e.g. http://127.0.0.1:8000/v1")
    model: Annotated[str, AfterValidator(model_name)] = Field(description="name the endpoint knows the model by")
    key_env: Annotated[str, AfterValidator(variable_name)] | None = Field(
        None, description="environment variable that holds the key; none for local servers"
    )
    parameters: Annotated[dict[str, Any], AfterValidator(check_request_parameters)] = Field(
        {}, description="sent with every request, e.g. temperature, seed"
    )
    limit_field: Literal["max_completion_tokens", "max_tokens"] = Field(
        "max_completion_tokens",
        description="what the server calls the limit of a reply's tokens; older ones: max_tokens",
    )
    capabilities: list[Capability] = Field(
        [],
        description="what the server can do: json_schema, n (samples in one call), logprobs, batch, idempotency, "
        "prompt_cache_key; reasoning: its replies may think beside the limit",
    )
    api: Literal["chat", "responses"] = Field(
        "chat", description="chat completions, or OpenAI's Responses API, which has neither n nor, here, batches"
    )
    concurrency: int = Field(16, ge=1, description="requests in flight, at most")
    rpm: int | None = Field(None, ge=1, description="requests allowed a minute, where the server does not say it")
    tpm: int | None = Field(None, ge=1, description="tokens allowed a minute, where the server does not say it")
    price: PriceConfig | None = Field(
        None,
        description="USD per million tokens, also cached_input, batch; known of large providers; your own server: 0",
    )
    window: int | None = Field(
        None, ge=1, description="tokens that a prompt and its reply may have together; llmcrit leaves out longer ones"
    )
    timeout_seconds: float = Field(120.0, gt=0, allow_inf_nan=False, description="total time a request may take")

    @model_validator(mode="after")
    def _capabilities_of_the_api(self) -> Self:
        """ValueError if the Responses API is said to do what only chat completions do."""
        wrong = [name for name in ("n", "batch") if self.api == "responses" and name in self.capabilities]
        if wrong:
            raise ValueError(f'"{wrong[0]}" needs api = "chat": take it out of the capabilities, or api out')
        return self


def sampling(endpoint: Endpoint, parameters: dict[str, Any]) -> Endpoint:
    """The endpoint with these sampling parameters added; parameters that the endpoint sets itself win. The offline
    model is returned unchanged.
    """
    if endpoint.offline:
        return endpoint
    return replace(endpoint, parameters=tuple(sorted({**parameters, **dict(endpoint.parameters)}.items())))


def endpoint_of(name: str, endpoints: dict[str, EndpointConfig]) -> Endpoint:
    """The endpoint that [endpoints.<name>] describes, or the built-in one for `offline`.
    UsageError if there is none.
    """
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
            capabilities=frozenset(config.capabilities),
            rpm=config.rpm,
            tpm=config.tpm,
            price=Price(**config.price.model_dump()) if config.price else None,
            api=config.api,
            window=config.window,
        )
    if name == "offline":
        return OFFLINE
    names = ", ".join(["offline", *endpoints])
    raise UsageError(f'There is no endpoint "{name}"; there is {names}. Add [endpoints.{name}] to the configuration.')


def check_endpoints(endpoints: dict[str, EndpointConfig]) -> dict[str, EndpointConfig]:
    """The endpoints unchanged; ValueError if one is named `offline`, as the built-in one is, or like a key."""
    for name in endpoints:
        model_name(name)
    if "offline" in endpoints:
        raise ValueError("[endpoints.offline] takes the name of the built-in model: name the endpoint otherwise")
    return endpoints


def check_keys(used: list[str], endpoints: dict[str, EndpointConfig]) -> None:
    """Raise EndpointError if the environment variable with the API key of one of the endpoints named in `used` is not
    set. Names that are not in `endpoints`, such as `offline`, need no key.
    """
    for name in used:
        variable = endpoints[name].key_env if name in endpoints else None
        if variable and api_key(variable) is None:
            raise EndpointError(
                f'The key {variable} of endpoint "{name}" is not set. '
                "Set it, or use --set model=offline. Nothing was run."
            )


def check_prices(used: list[str], endpoints: dict[str, EndpointConfig]) -> None:
    """Raise UsageError if the price of one of the endpoints named in `used` is unknown, as a cost limit could not
    hold. Names that are not in `endpoints`, such as `offline`, are ignored.
    """
    from longform.llm.models import unpriced
    from longform.llm.price import price_of

    for endpoint in (endpoint_of(name, endpoints) for name in used if name in endpoints):
        if price_of(endpoint) is None:
            raise UsageError(unpriced(endpoint))


Share = Annotated[float, Field(ge=0, le=1)]


class CeilingsConfig(BaseModel):
    """The shares of a model stage's replies, from 0 to 1, above which it is stopped and nothing is published."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    refused: Share = Field(0.1, description="the model declines, or a filter holds question or reply back")
    cut_off: Share = Field(0.1, description="the reply breaks off")
    unreadable: Share = Field(0.1, description="the reply is empty, or has not the form that was asked for")
    not_taken: Share = Field(0.1, description="the endpoint does not take the question: too long, not acceptable")
    degenerate: Share = Field(
        0.1, description="the reply is one word, words in no order, the same over and over, or its prompt"
    )
    repeated: Share = Field(0.1, description="the reply is, nearly or word for word, that to another question")
    abstained: Share = Field(
        0.8, description="the reply of a system abstains, which is counted: no fault, unless nearly all do"
    )
    unchanged: Share = Field(0.9, description="the reply leaves the text it was to work on as it is: likewise")


class StageConfig(BaseModel):
    """Settings of one stage that differ from the dataset's."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

    model: EndpointName | None = Field(None, description="endpoint that this stage asks, instead of `model`")
    mode: Literal["online", "batch"] | None = Field(None, description="how this stage asks, instead of `mode`")
    ceilings: CeilingsConfig | None = Field(
        None, description="a table as [ceilings] for this stage, e.g. { refused = 0.3 }; it leaves the others as there"
    )
    unbatched: Literal["wait", "online"] | None = Field(
        None, description="what becomes of questions that a batch leaves unanswered, instead of `unbatched`"
    )


class ModelSettings(BaseModel):
    """The settings of every dataset's configuration that say which models it asks, and how.

    `MODEL_STAGES` are the stages that ask a model; `CONVERSING` those of them whose next question depends on the reply
    to the last one, again and again, so that no batch can hold their questions: they are never in batch mode.
    """

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)
    MODEL_STAGES: ClassVar[tuple[str, ...]]
    CONVERSING: ClassVar[tuple[str, ...]] = ()

    model: EndpointName = Field(
        "offline", description="endpoint that is asked: offline (built in), or one of [endpoints]"
    )
    mode: Literal["online", "batch"] = Field(
        "online", description="batch: through the provider's Batch API, at about half the price, within a day"
    )
    unbatched: Literal["wait", "online"] = Field(
        "wait",
        description="questions that a batch leaves unanswered wait for the next run, or go online, at full price",
    )
    prompts: str | None = Field(
        None, description="folder whose files take the place of those in prompts/, e.g. its axioms/corrupt.md"
    )
    budget: float | None = Field(
        None, ge=0, lt=1e9, description="USD that all builds of this dataset may spend together; none: no limit"
    )
    failed_runs: int = Field(
        3, ge=1, description="a question that so many runs have asked in vain is left out (model: unanswered)"
    )
    ceilings: CeilingsConfig = Field(
        CeilingsConfig(), description="shares of replies of no use, above which a stage is stopped, 0 to 1"
    )
    stages: dict[str, StageConfig] = Field({}, description="what single stages do otherwise, one table each")
    endpoints: Annotated[dict[str, EndpointConfig], AfterValidator(check_endpoints)] = Field(
        {}, description="models behind OpenAI-compatible APIs, one table each"
    )

    @model_validator(mode="after")
    def stages_ask_models(self) -> Self:
        """The settings unchanged; ValueError if [stages] names a stage that asks no model, or has a batch mode for one
        of CONVERSING.
        """
        for name in self.stages:
            if name not in self.MODEL_STAGES:
                model_name(name)
                raise ValueError(
                    f'stages has "{name}", which asks no model; those that do: {", ".join(self.MODEL_STAGES)}'
                )
            if name in self.CONVERSING and self.stages[name].mode == "batch":
                raise ValueError(f"stages.{name} asks each question after the last reply, which no batch can")
        return self

    def endpoint_name(self, stage: str) -> str | None:
        """The name of the endpoint that a stage asks: `model` of its own table in [stages], else of the whole
        configuration. A dataset whose stage has a setting of its own says None where that names no endpoint.
        """
        return getattr(self.stages.get(stage), "model", None) or self.model


def _chosen(stage: str, config: ModelSettings, setting: Literal["mode", "unbatched"]) -> str:
    """The setting `mode` or `unbatched` of a stage: from its own table in [stages], else that of the whole
    configuration.
    """
    return str(getattr(config.stages.get(stage), setting, None) or getattr(config, setting))


def endpoint_of_stage(stage: str, config: ModelSettings) -> Endpoint:
    """The endpoint that a stage asks, by the configuration, which must name one for it. UsageError if it names none of
    the endpoints.
    """
    return endpoint_of(str(config.endpoint_name(stage)), config.endpoints)


def ceilings_of_stages(config: ModelSettings) -> dict[str, Ceilings]:
    """stage -> the shares of its replies that may be of no use: each from its own table in [stages], else from
    [ceilings].
    """
    own = {stage: getattr(config.stages.get(stage), "ceilings", None) for stage in config.MODEL_STAGES}
    general = config.ceilings.model_dump()
    return {
        stage: Ceilings(**{**general, **(table.model_dump(exclude_unset=True) if table else {})})
        for stage, table in own.items()
    }


def batched(config: ModelSettings) -> frozenset[str]:
    """The names of the stages that send their requests through the provider's Batch API: those with mode = "batch", but
    not those of CONVERSING.
    """
    asking = filter(config.endpoint_name, config.MODEL_STAGES)
    chosen = {stage for stage in asking if _chosen(stage, config, "mode") == "batch"}
    return frozenset(chosen.difference(config.CONVERSING))


def unbatched(config: ModelSettings) -> dict[str, str]:
    """stage -> what becomes of its questions that a batch leaves unanswered, "wait" or "online"; of the stages in batch
    mode.
    """
    return {stage: _chosen(stage, config, "unbatched") for stage in config.MODEL_STAGES if stage in batched(config)}


def check_batches(config: ModelSettings) -> None:
    """Raise UsageError if a stage in batch mode asks an endpoint without the capability `batch` (the offline model
    needs none), or one that does not exist.
    """
    for stage in sorted(batched(config)):
        endpoint = endpoint_of_stage(stage, config)
        if not endpoint.offline and "batch" not in endpoint.capabilities:
            raise UsageError(
                f'The stage {stage} is in batch mode, but the endpoint "{endpoint.name}" does not declare batches: '
                f'add "batch" to [endpoints.{endpoint.name}] capabilities, or set mode = "online".'
            )


def endpoints_used(config: ModelSettings) -> list[str]:
    """The endpoint names of all stages that ask a model, and the setting `embedding` if there is one (which need not
    name an endpoint); each once.
    """
    models = map(config.endpoint_name, config.MODEL_STAGES)
    return list(dict.fromkeys(filter(None, [*models, getattr(config, "embedding", None)])))
