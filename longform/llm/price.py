"""What models cost: the price of one, what questions take, and what a build may spend.

A price is as the configuration says, else from a list of hosted models that comes with a package.
The list (genai-prices) is the one installed; nothing is fetched. A provider is known by the address of the endpoint.
A server of one's own is of unknown price, not free: `price = {input = 0, output = 0}` says that it is.
Where a provider charges more for long prompts, the price is that of shorter ones (the steps begin at 32,000 tokens).

Money is reserved before a request is sent and settled when its reply has come. So the sum of what was spent and of
what is on its way never exceeds the cap. In billionths of a US dollar.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from longform.llm.ask.types import Endpoint, Price

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice

NANO = 1_000_000_000
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


@dataclass(frozen=True, slots=True)
class Figures:
    """Of calls not made yet; of none at first. What is not known is None.

    `calls` is exact or a bound, with an estimate beside it. `cached` are replies that are stored. Of tokens and USD
    there is an estimate with a likely range (`_low`, `_high`), and a bound (`_at_most`): as many tokens as bytes in,
    and in replies as many as they may have. `measured`: stored answers of the same task told how many tokens it takes.
    """

    calls: int | None = 0
    calls_about: int | None = 0
    cached: int | None = 0
    input_tokens: int | None = 0
    input_tokens_at_most: int | None = 0
    output_low: int | None = 0
    output_tokens: int | None = 0
    output_high: int | None = 0
    output_tokens_at_most: int | None = 0
    usd_low: float | None = 0.0
    usd: float | None = 0.0
    usd_high: float | None = 0.0
    usd_at_most: float | None = 0.0
    usd_batch_low: float | None = 0.0
    usd_batch_high: float | None = 0.0
    usd_batch_at_most: float | None = 0.0
    seconds: float | None = 0.0
    measured: bool = True

    def __add__(self, other: Figures) -> Figures:
        """Of both, one after the other."""
        return Figures(**{name: _sum(getattr(self, name), getattr(other, name)) for name in FIGURES})

    def as_fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in FIGURES}


FIGURES = [each.name for each in fields(Figures)]
UNKNOWN_FIGURES: dict[str, Any] = {name: None for name in FIGURES if name != "measured"}


def _sum(one: Any, other: Any) -> Any:
    if isinstance(one, bool):
        return one and other
    return None if one is None or other is None else one + other


class Budget:
    """`cap_nano` None: no limit, only a count."""

    def __init__(self, cap_nano: int | None = None) -> None:
        self.cap_nano = cap_nano
        self.spent_nano = 0
        self.reserved_nano = 0
        self.calls = 0
        self._by_stage: Counter[str] = Counter()
        self.freed: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._excess = 1.0

    def reserve(self, nano: int) -> int | None:
        """What was set aside for a request that costs at most `nano`, or None where it does not fit now.

        Where a reply has once cost more than its bound, later ones are reserved that much higher.
        """
        with self._lock:
            wanted = round(nano * self._excess)
            if self.cap_nano is not None and self.spent_nano + self.reserved_nano + wanted > self.cap_nano:
                return None
            self.reserved_nano += wanted
            return wanted

    def settle(self, reserved: int, spent: int, *, calls: int = 1, stage: str = "") -> None:
        with self._lock:
            self._by_stage[stage] += spent
            if spent > reserved > 0:
                self._excess *= spent / reserved
            self.reserved_nano -= reserved
            self.spent_nano += spent
            self.calls += calls
            waiting, self.freed = self.freed, []
        for tell in waiting:
            tell()

    def spent_by(self, stage: str) -> int:
        """Of it what one stage spent."""
        with self._lock:
            return self._by_stage[stage]

    @property
    def waiting(self) -> bool:
        """Whether something is on its way that may cost less than was set aside for it."""
        return self.reserved_nano > 0
