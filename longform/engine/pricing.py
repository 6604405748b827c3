"""What the model calls of a stage cost, as upper bound and as estimate, while the stage's inputs are not built.

Bounds follow from the longest question that a stage declares, estimates from stored answers to the same prompts. Where
inputs are built, plan.py makes the requests themselves, and longform/llm/estimate.py prices them.
"""

from __future__ import annotations

import math
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longform.engine.at_most import UNKNOWN, Sizes, tokens_at_most
from longform.engine.stage import StageCall
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint
from longform.llm.price import NANO, UNKNOWN_FIGURES, Figures
from longform.llm.send.usage import most_output

if TYPE_CHECKING:
    from longform.llm.responses.store import ResponseStore


def calls_only(most: float, about: float | None) -> Figures:
    """Figures with only the number of calls: the bound `most`, rounded up (infinite: unknown), and the estimate
    `about` (None: unknown). All other figures are unknown. For the offline model, and for plans without prices.
    """
    return Figures(**{**UNKNOWN_FIGURES, "calls": _whole(most), "calls_about": _rounded(about)})


class Pricing:
    """Bounds and estimates of costs. `where` is the path or address of the response store, which is opened read-only
    when it is first needed and closed by `close`.
    """

    def __init__(self, where: Path | str) -> None:
        self._where = where
        self._opened = ExitStack()
        self._longest: dict[str, tuple[int, int, int] | None] = {}
        self.close = self._opened.close

    @cached_property
    def store(self) -> ResponseStore:
        """The response store, opened read-only."""
        from longform.llm.responses.store import open_responses

        return self._opened.enter_context(closing(open_responses(self._where, read_only=True)))

    @cached_property
    def _stats(self) -> list[dict[str, Any]]:
        """`ResponseStore.stats()`, read once: for each endpoint, model and task the numbers of answers, tokens and so
        on.
        """
        return self.store.stats()

    def bounded(self, call: StageCall, endpoint: Endpoint, most: float, about: float | None, sizes: Sizes) -> Figures:
        """Calls, tokens and cost of a stage that calls an endpoint `most` times at most, and about `about` times:
        upper bounds from what the stage declares for `sizes`, estimates from the mean of stored answers. A figure is
        None where unknown; all are 0 if `most` is 0.
        """
        if not most:
            return Figures()
        input_tokens, output_tokens = self._tokens_at_most(call, endpoint, most, sizes)
        about_input, about_output = self._tokens_about(call, endpoint, about)
        return replace(
            calls_only(most, about),
            input_tokens=_rounded(about_input),
            input_tokens_at_most=_whole(input_tokens),
            output_tokens=_rounded(about_output),
            output_tokens_at_most=_whole(output_tokens),
            usd=_usd(endpoint, about_input, about_output),
            usd_at_most=_usd(endpoint, input_tokens, output_tokens),
            usd_batch_at_most=_usd(endpoint, input_tokens, output_tokens, batch="batch" in endpoint.capabilities),
            reasoning_tokens=None,
            cached_tokens=None,
            measured=about_input is not None,
        )

    def _tokens_at_most(self, call: StageCall, endpoint: Endpoint, calls: float, sizes: Sizes) -> tuple[float, float]:
        """Upper bounds of the tokens of (all prompts, all replies) of `calls` calls; for a stage that embeds texts,
        (all tokens it declares, 0). Infinity if the stage declares no bound.
        """
        if call.stage.at_most.tokens is not None:
            return call.stage.at_most.tokens(sizes), 0.0
        if (kinds := call.stage.at_most.kinds_of(endpoint, sizes)) is not None:
            replies = [(number, request.max_tokens * request.samples, request.samples) for number, request in kinds]
            return (
                sum(number * tokens_at_most(request) for number, request in kinds),
                sum(number * most_output(endpoint, *reply) for number, *reply in replies),
            )
        longest = self._longest_question(call, sizes)
        return (calls * longest[0], calls * most_output(endpoint, *longest[1:])) if longest else (UNKNOWN, UNKNOWN)

    def _longest_question(self, call: StageCall, sizes: Sizes) -> tuple[int, int, int] | None:
        """Upper bounds of the tokens of (one prompt, all replies to it) and of the number of these replies; None if the
        stage declares no questions.
        Worked out once for each call, with the first `sizes`.
        """
        fingerprint = call.recipe.fingerprint
        if fingerprint not in self._longest:
            declared = call.stage.at_most.questions
            requests = declared(sizes) if declared else ()
            replies = [request.max_tokens * request.samples for request in requests]
            samples = max((request.samples for request in requests), default=0)
            self._longest[fingerprint] = (
                (max(map(tokens_at_most, requests)), max(replies), samples) if requests else None
            )
        return self._longest[fingerprint]

    def _tokens_about(
        self, call: StageCall, endpoint: Endpoint, calls: float | None
    ) -> tuple[float | None, float | None]:
        """Estimated tokens of (all prompts, all replies) of `calls` calls, from the mean of this model's stored
        answers to the call's prompts. (0, 0) for no calls; (None, None) if `calls` is None or there are no such
        answers with known tokens.
        """
        if calls == 0:
            return 0.0, 0.0
        prompts = {value.name for value in call.arguments.values() if isinstance(value, Prompt)}
        asked_model = {"endpoint": endpoint.name, "model": endpoint.model}
        found = [row for row in self._stats if row["task"] in prompts and row.items() >= asked_model.items()]
        answers, input_tokens, output_tokens = (
            sum(row[name] for row in found) for name in ("answers", "input_tokens", "output_tokens")
        )
        return (
            (calls * input_tokens / answers, calls * output_tokens / answers)
            if calls is not None and answers and input_tokens
            else (None, None)
        )


def _usd(
    endpoint: Endpoint, input_tokens: float | None, output_tokens: float | None, *, batch: bool = False
) -> float | None:
    """The price of so many tokens in USD, at the price of the Batch API with `batch`. 0 for a model that costs
    nothing; None if the price is unknown, or a number is None or infinite.
    """
    from longform.llm.price import cost_nano, price_of

    price = price_of(endpoint)
    if price is None:
        return None
    if not (price.input or price.output):
        return 0.0
    if input_tokens is None or output_tokens is None or UNKNOWN in (input_tokens, output_tokens):
        return None
    return cost_nano(price, math.ceil(input_tokens), 0, math.ceil(output_tokens), batch=batch) / NANO


def _whole(number: float) -> int | None:
    """The number rounded up; None if it is infinite."""
    return None if number == UNKNOWN else math.ceil(number)


def _rounded(number: float | None) -> int | None:
    """The number rounded to the nearest whole one; None stays None."""
    return None if number is None else round(number)
