"""Requests of LLMCrit: the longest that a plan reckons with, and the limits of replies."""

from __future__ import annotations

from typing import Any

from longform.artifacts.rows import Row
from longform.engine.at_most import Sizes, longest
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.tokens import count
from longform.llm.ask.types import Endpoint, Request

Voices = dict[str, Row]  # task -> the inputs of prompts that say what its texts are, and who speaks

REPLY_TOKENS = 2_048
MOST_CHARACTERS = 20_000  # of a section of a guideline
CRITERION_CHARACTERS = 1_000
BOUND = 8  # criteria, examples and grounds of a request, where a plan does not know how many there are


def tokens_to_rewrite(text: str) -> int:
    """The limit of a reply that writes a text again, in tokens: twice the text's, and REPLY_TOKENS."""
    return REPLY_TOKENS + 2 * count(text)


def longest_request(model: Endpoint, prompt: Prompt, given: Row | None = None, **options: Any) -> Request:
    """A request as long as they come, for a plan whose inputs are not built. `given`: inputs that are known; `options`:
    of the request.
    """
    text, criterion = longest(MOST_CHARACTERS), longest(CRITERION_CHARACTERS)
    known: dict[str, Any] = {"guideline": text, "text": text, "feedback": longest(REPLY_TOKENS)}
    known |= dict.fromkeys(("criteria", "required", "violated"), [criterion] * BOUND)
    known |= {"examples": [text] * BOUND, **(given or {})}
    return prompt.request(model, **options, **{name: known.get(name, criterion) for name in prompt.inputs})


def longest_of_prompt(sizes: Sizes, **options: Any) -> list[Request]:
    """The longest request of a stage with one prompt for each of its tasks, for a plan. `options`: of the request."""
    known = sizes.values.get("rubrics") or sizes["voices"]
    return [longest_request(sizes["model"], sizes["prompt"], given, **options) for given in known.values()]
