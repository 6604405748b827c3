"""What models cost: the price of an endpoint's model, figures of calls to come, and the budget of a build.

The price is the configured one, else that in the installed package genai-prices (nothing is fetched), which finds the
provider by the endpoint's address. The price of your own server is unknown, not zero, unless it is configured as `price
= {input = 0, output = 0}`. Where a provider charges more for long prompts, the price is that of shorter ones (the steps
begin at 32,000 tokens).

Money is reserved before a request is sent, and settled when its reply has come. So the sum of money spent and money
reserved never exceeds the cap. Amounts are in billionths of a US dollar (nano).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
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
    """The price of the endpoint's model, in USD per million tokens: the configured one, else zero for the offline
    model, else the one listed in genai-prices for the `service_tier` in the endpoint's parameters; None where unknown.
    """
    if endpoint.price is not None:
        return endpoint.price
    if endpoint.base_url is None:
        return FREE
    tier = dict(endpoint.parameters).get("service_tier")
    return _listed(endpoint.base_url, endpoint.model, None if tier in USUAL_TIERS else tier)


def cost_nano(price: Price, input_tokens: int, cached_tokens: int, output_tokens: int, *, batch: bool = False) -> int:
    """The cost of a call in billionths of a US dollar, rounded up. `cached_tokens` are part of `input_tokens`, and
    count as at most that many. `batch`: at the price of a batch.
    """
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
    """The price in genai-prices of the model at this address, of a service tier (None: the usual one); None where the
    model is not listed, or for the reasons of `_price`.
    """
    from genai_prices.data_snapshot import get_snapshot

    for alias, address in ALIASES.items():
        base_url = base_url.replace(alias, address)
    try:
        _, found = get_snapshot().find_provider_model(model, None, None, base_url)
    except LookupError:
        return None
    return _price(found, tier)


def _price(found: ModelInfo, tier: Any) -> Price | None:
    """A listed model's price now, with the factor of a batch (0.5 for any but the usual tier); 0 for replies without a
    price. None where the tier is not listed, where prompts have no price, or where anything of CHARGED_OTHERWISE is
    charged (requests, characters, reasoning or citation tokens at a price of their own).
    """
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
    """The price in a batch as a factor of the usual price: the larger one of input's and output's; 0.5 where none is
    listed.
    """
    if not any(variant.when == {"processing": "batch"} for variant in found.price_variants or ()):
        return 0.5
    prices = found.get_prices(now, {"processing": "batch"})
    pairs = ((_base(prices, "input_mtok"), per_input), (_base(prices, "output_mtok"), per_output))
    return max((batch / usual for batch, usual in pairs if batch is not None and usual), default=0.5)


def _base(prices: ModelPrice, name: str) -> float | None:
    """The model's price of this name per million tokens; where it rises in steps, the lowest step's. None if there is
    none.
    """
    value: Any = getattr(prices, name)
    base = getattr(value, "base", value)
    return None if base is None else float(base)


@dataclass(frozen=True, slots=True)
class Figures:
    """Estimated calls, tokens, cost and time of calls not made yet; all zero by default. None: unknown.

    `calls` is exact or an upper bound, `calls_about` an estimate. `cached`: replies that are stored already. Of tokens
    and USD there is an estimate, a likely range (`_low`, `_high`) and an upper bound (`_at_most`), which assumes a
    token for each byte of a prompt and replies as long as their limit and any reasoning beside it. `usd_batch_`: in
    batch mode. `cached_tokens` are about how many of the input the provider will have cached, `reasoning_tokens` how
    many of the output will be reasoning. `measured`: estimated from stored answers of the same task.
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
    cached_tokens: int | None = 0
    reasoning_tokens: int | None = 0
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
        """The sum of each figure, also of the seconds; None where one of the two is None. `measured` where both are."""
        return Figures(**{name: _sum(getattr(self, name), getattr(other, name)) for name in FIGURES})

    def as_fields(self) -> dict[str, Any]:
        """Name -> figure, in the order of the fields."""
        return {name: getattr(self, name) for name in FIGURES}


FIGURES = [each.name for each in fields(Figures)]
UNKNOWN_FIGURES: dict[str, Any] = {name: None for name in FIGURES if name != "measured"}


def _sum(one: Any, other: Any) -> Any:
    """The sum of two figures, None where one is None; of two truth values whether both are true."""
    if isinstance(one, bool):
        return one and other
    return None if one is None or other is None else one + other


@dataclass(slots=True)
class Cap:
    """A limit of what may be spent, in billionths of a US dollar. `name` is what sets it, `dataset` whose calls count
    (None: all). `before_nano`: what other runs have spent by the ledger; of the limit of a single run 0.
    """

    name: str
    limit_nano: int
    dataset: str | None = None
    before_nano: int = 0

    @property
    def rest_nano(self) -> int:
        """What this run may spend; below 0 where the limit is exceeded already."""
        return self.limit_nano - self.before_nano


MAX_COST, BUDGET, HOME_BUDGET = "--max-cost", "budget", "LONGFORM_BUDGET"
RAISED = {
    MAX_COST: "run the same command, or one with a higher --max-cost, to go on from there",
    BUDGET: "raise the budget of {dataset} (the setting budget, or --budget) to go on from there",
    HOME_BUDGET: "raise LONGFORM_BUDGET to go on from there",
}
OF_WHAT = {
    MAX_COST: "",
    BUDGET: ", the budget of {dataset} over all runs",
    HOME_BUDGET: ", LONGFORM_BUDGET for all datasets and runs",
}


def caps_of(dataset: str, budget: float | None, home_budget: float | None) -> tuple[Cap, ...]:
    """The limits in US dollars that are set over all runs: of a dataset, and of all datasets."""
    given = ((BUDGET, budget, dataset), (HOME_BUDGET, home_budget, None))
    return tuple(Cap(name, int(usd * NANO), of) for name, usd, of in given if usd is not None)


class Budget:
    """What a build has spent and reserved, in billionths of a US dollar, under its limits (`caps`; none: no limit).

    It only refuses: `reserve` returns None, and its caller decides whether to wait or to end with a BudgetError. To
    wait, a function is put into the list `freed`: all in it are called once, at the next `settle`. Threads may share
    it. `calls` counts the calls that were paid.
    """

    def __init__(self, cap_nano: int | None = None, caps: Sequence[Cap] = ()) -> None:
        """`cap_nano`: a limit of this run alone, besides `caps`."""
        self.caps = (*caps, *(() if cap_nano is None else (Cap(MAX_COST, cap_nano),)))
        self.spent_nano = 0
        self.reserved_nano = 0
        self.calls = 0
        self._by_stage: Counter[str] = Counter()
        self.freed: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._excess = 1.0

    def reserve(self, nano: int) -> int | None:
        """Reserve money for a request that costs at most `nano`; returns the amount reserved, or None where it does
        not fit under the cap now.

        Once a reply has cost more than was reserved for it, later amounts are raised by the same factor.
        """
        with self._lock:
            wanted = round(nano * self._excess)
            cap_nano = self.cap_nano
            if cap_nano is not None and self.spent_nano + self.reserved_nano + wanted > cap_nano:
                return None
            self.reserved_nano += wanted
            return wanted

    def settle(self, reserved: int, spent: int, *, calls: int = 1, stage: str = "") -> None:
        """Replace a reserved amount by what was really spent, add that to the total of `stage`, empty `freed` and call
        the functions that were in it. `reserved` is what `reserve` returned; `calls`: how many calls that paid for.
        """
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

    @property
    def cap_nano(self) -> int | None:
        """The most that this run may spend by the nearest limit; None without limits."""
        return min((max(0, cap.rest_nano) for cap in self.caps), default=None)

    def refusal(self, endpoint: str, cost: int) -> str:
        """The message of a BudgetError, where the next call to the endpoint of this name may cost up to `cost`: the
        nearest limit, what is spent under it, and what to do.
        """
        cap = min(self.caps, key=lambda cap: cap.rest_nano)
        limit, spent = cap.limit_nano / NANO, (cap.before_nano + self.spent_nano) / NANO
        of_what, raised = (text[cap.name].format(dataset=cap.dataset) for text in (OF_WHAT, RAISED))
        return (
            f"Stopped at USD {spent:,.{_digits(limit)}f} of {limit:,.{_digits(limit)}f}{of_what}: the next call to "
            f'"{endpoint}" may cost up to USD {cost / NANO:.{_digits(cost / NANO)}f}. What was answered is stored; '
            f"{raised}."
        )

    def spent_by(self, stage: str) -> int:
        """What this stage has spent, in billionths of a US dollar."""
        with self._lock:
            return self._by_stage[stage]

    @property
    def has_reservations(self) -> bool:
        """Whether money is reserved for calls in flight or open batches, of which some may be freed when they end."""
        return self.reserved_nano > 0


def _digits(amount: float) -> int:
    """How many decimals of an amount in US dollars are shown."""
    return 2 if amount >= 1 else 4 if amount >= 0.01 else 6
