"""What a model costs: as the configuration says, else from a list of hosted models that comes with a package.

The list (genai-prices) is the one installed; nothing is fetched. A provider is known by the address of the endpoint.
A server of one's own is of unknown price, not free: `price = {input = 0, output = 0}` says that it is.
Where a provider charges more for long prompts, the price is that of shorter ones (the steps begin at 32,000 tokens).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from longform.llm.ask.types import Endpoint, Price

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice

FREE = Price(0.0, 0.0)
MICRO = 1_000_000
CHARGED_OTHERWISE = ("requests_kcount", "input_mchars", "output_reasoning_mtok", "output_citation_mtok")
ALIASES = {"://api.together.ai": "://api.together.xyz"}
USUAL_TIERS = ("auto", "default", "standard", "standard_only")


def price_of(endpoint: Endpoint) -> Price | None:
    """USD per million tokens; None where it is not known."""
    if endpoint.price is not None:
        return endpoint.price
    if endpoint.base_url is None:
        return FREE
    tier = dict(endpoint.parameters).get("service_tier")
    return _listed(endpoint.base_url, endpoint.model, None if tier in USUAL_TIERS else tier)


def cost_nano(price: Price, input_tokens: int, cached_tokens: int, output_tokens: int, *, batch: bool = False) -> int:
    """Billionths of a US dollar, rounded up. `cached_tokens` are part of `input_tokens`."""
    cached = min(cached_tokens, input_tokens)
    cached_price = price.input if price.cached_input is None else price.cached_input
    pico = (
        (input_tokens - cached) * round(price.input * MICRO)
        + cached * round(cached_price * MICRO)
        + output_tokens * round(price.output * MICRO)
    )
    if batch:
        pico = -(-pico * round(price.batch * MICRO) // MICRO)
    return -(-pico // 1000)


def _listed(base_url: str, model: str, tier: Any) -> Price | None:
    from genai_prices.data_snapshot import get_snapshot

    for alias, address in ALIASES.items():
        base_url = base_url.replace(alias, address)
    try:
        _, found = get_snapshot().find_provider_model(model, None, None, base_url)
    except LookupError:
        return None
    return _price(found, tier)


def _price(found: ModelInfo, tier: Any) -> Price | None:
    now = datetime.now(UTC)
    if tier is not None and not any(variant.when == {"service_tier": tier} for variant in found.price_variants or ()):
        return None
    context = {} if tier is None else {"service_tier": str(tier)}
    prices = found.get_prices(now, context)
    per_input = _base(prices, "input_mtok")
    if per_input is None or any(getattr(prices, name) is not None for name in CHARGED_OTHERWISE):
        return None
    per_output = _base(prices, "output_mtok") or 0.0
    half = _batch_factor(found, now, per_input, per_output) if tier is None else 0.5
    return Price(per_input, per_output, _base(prices, "cache_read_mtok"), half)


def _batch_factor(found: ModelInfo, now: datetime, per_input: float, per_output: float) -> float:
    """What a batch costs of the usual price: the larger share of input and output, half where nothing is said."""
    if not any(variant.when == {"processing": "batch"} for variant in found.price_variants or ()):
        return 0.5
    prices = found.get_prices(now, {"processing": "batch"})
    pairs = ((_base(prices, "input_mtok"), per_input), (_base(prices, "output_mtok"), per_output))
    return max((batch / usual for batch, usual in pairs if batch is not None and usual), default=0.5)


def _base(prices: ModelPrice, name: str) -> float | None:
    value: Any = getattr(prices, name)
    base = getattr(value, "base", value)
    return None if base is None else float(base)
