"""What questions that are not known yet cost at most, and about, going by stored answers to the same prompts."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longform.engine.at_most import UNKNOWN, Sizes, tokens_at_most
from longform.engine.stage import StageCall
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint, Price
from longform.llm.price.budget import NANO
from longform.llm.price.figures import UNKNOWN_FIGURES, Figures

if TYPE_CHECKING:
    from longform.llm.responses.store import ResponseStore


def free(most: float, about: float | None) -> Figures:
    """Of so many questions that cost nothing, or of which no price is asked for."""
    return Figures(**{**UNKNOWN_FIGURES, "calls": _whole(most), "calls_about": _rounded(about)})


class Pricing:
    """The response store, read only, opened where it is first needed, and what its answers took."""

    def __init__(self, where: Path | str) -> None:
        self._where = where
        self._opened: ResponseStore | None = None
        self._stats: list[dict[str, Any]] | None = None
        self._longest: dict[str, tuple[int, int] | None] = {}

    def store(self) -> ResponseStore:
        from longform.llm.responses.store import open_responses

        if self._opened is None:
            self._opened = open_responses(self._where, read_only=True)
        return self._opened

    def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def bounded(self, call: StageCall, endpoint: Endpoint, most: float, about: float | None, sizes: Sizes) -> Figures:
        """Of at most so many questions to an endpoint, about `about`."""
        if not most:
            return Figures()
        sent, made = self._tokens_at_most(call, most, sizes)
        about_sent, about_made = self._tokens_about(call, endpoint, about)
        return replace(
            free(most, about),
            input_tokens=_rounded(about_sent),
            input_tokens_at_most=_whole(sent),
            output_tokens=_rounded(about_made),
            output_tokens_at_most=_whole(made),
            usd=_usd(endpoint, about_sent, about_made),
            usd_at_most=_usd(endpoint, sent, made),
            usd_batch_at_most=_usd(endpoint, sent, made, batch="batch" in endpoint.capabilities),
            measured=about_sent is not None,
        )

    def _tokens_at_most(self, call: StageCall, calls: float, sizes: Sizes) -> tuple[float, float]:
        """Of all prompts, and of all replies."""
        if call.stage.at_most.tokens is not None:
            return call.stage.at_most.tokens(sizes), 0.0
        longest = self._longest_question(call, sizes)
        return (calls * longest[0], calls * longest[1]) if longest else (UNKNOWN, UNKNOWN)

    def _longest_question(self, call: StageCall, sizes: Sizes) -> tuple[int, int] | None:
        """Tokens of the longest prompt and of the longest reply; None where nothing bounds them."""
        mark = call.recipe.fingerprint
        if mark not in self._longest:
            declared = call.stage.at_most.questions
            asked = declared(sizes) if declared else ()
            replies = [request.max_tokens * request.samples for request in asked]
            self._longest[mark] = (max(map(tokens_at_most, asked)), max(replies)) if asked else None
        return self._longest[mark]

    def _tokens_about(
        self, call: StageCall, endpoint: Endpoint, calls: float | None
    ) -> tuple[float | None, float | None]:
        """As the stored answers to the same prompts, whatever their wording was, took on average."""
        if calls == 0:
            return 0.0, 0.0
        if self._stats is None:
            self._stats = self.store().stats()
        prompts = {value.name for value in call.arguments.values() if isinstance(value, Prompt)}
        asked = {"endpoint": endpoint.name, "model": endpoint.model}
        found = [row for row in self._stats if row["task"] in prompts and row.items() >= asked.items()]
        answers, sent, made = (sum(row[name] for row in found) for name in ("answers", "input_tokens", "output_tokens"))
        return (
            (calls * sent / answers, calls * made / answers) if calls is not None and answers and sent else (None, None)
        )


def _usd(endpoint: Endpoint, sent: float | None, made: float | None, *, batch: bool = False) -> float | None:
    from longform.llm.price.prices import cost_nano, price_of

    price = price_of(endpoint)
    if price is None:
        return None
    if _is_free(price):
        return 0.0
    if sent is None or made is None or UNKNOWN in (sent, made):
        return None
    return cost_nano(price, math.ceil(sent), 0, math.ceil(made), batch=batch) / NANO


def _is_free(price: Price) -> bool:
    return not (price.input or price.output)


def _whole(number: float) -> int | None:
    return None if number == UNKNOWN else math.ceil(number)


def _rounded(number: float | None) -> int | None:
    return None if number is None else round(number)
