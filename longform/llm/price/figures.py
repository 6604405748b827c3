"""What questions take: tokens, USD and time, counted or estimated."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


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
