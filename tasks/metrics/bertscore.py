"""BERTScore (Zhang et al. 2020) by the package `bert_score`, where it is installed: F1 times 100, not rescaled.

The package silently cuts texts that are too long for its tokenizer. Here a text that the model cannot read whole gets
no score, and the reason instead.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from longform.errors import UsageError

PACKAGE = "bert_score"
MOST_TOKENS = 512
LIFTED = 1_000_000  # tokens at which the package would cut: no text of so many is handed to it
BATCH = 16
DECIMALS = 4  # of a score: below it floating point differs from machine to machine

Pair = tuple[str, str]  # text, reference


@dataclass(frozen=True, slots=True)
class Bert:
    """A model for BERTScore. `count`: the number of tokens of a text; `most_tokens`: how many the model can read.

    `f1`: the F1 of pairs (text, reference) that both fit, in general from 0 to 1, in their order.
    """

    model: str
    most_tokens: int
    count: Callable[[str], int]
    f1: Callable[[list[Pair]], list[float]]


def bertscore(bert: Bert, pairs: Sequence[Pair]) -> list[tuple[float | None, str | None]]:
    """For each pair (text, reference), in order: (F1 times 100, None), or (None, the reason why it has no score). F1
    is seldom below 0.

    No score for pairs of which a text is empty or too long for the model, or for which the model gives no finite
    number.
    """
    counted = {text: bert.count(text) for pair in pairs for text in pair if text.strip()}
    reasons = [_left_out(bert, *(counted.get(text, 0) for text in pair)) for pair in pairs]
    fit = [pair for pair, reason in zip(pairs, reasons, strict=True) if reason is None]
    found = iter(bert.f1(fit) if fit else [])
    return [(None, reason) if reason else _shown(next(found)) for reason in reasons]


def _left_out(bert: Bert, text: int, reference: int) -> str | None:
    """Why a pair gets no score, from the numbers of tokens of its text and reference: one is empty, or longer than the
    model can read. None if it gets one.
    """
    sides = {"draft": text, "reference": reference}
    if empty := [name for name, tokens in sides.items() if not tokens]:
        return f"empty {empty[0]}"
    long = [name for name, tokens in sides.items() if tokens > bert.most_tokens]
    return f"{' and '.join(long)} over {bert.most_tokens} tokens" if long else None


def _shown(f1: float) -> tuple[float | None, str | None]:
    """(F1 times 100, rounded to DECIMALS; None), or (None, reason) if it is no finite number."""
    return (round(100 * f1, DECIMALS), None) if math.isfinite(f1) else (None, "the package gave no number")


def check_bertscore(model: str | None, package: str = PACKAGE) -> None:
    """Raise UsageError if a model is set and the package is missing. Whether the model can be loaded is not checked.
    `model`: None if BERTScore is not asked for.
    """
    if model and package not in sys.modules and find_spec(package) is None:
        raise UsageError(
            f'BERTScore by the model "{model}" needs the package {package}: install it with `pip install bert-score`, '
            "or leave bertscore unset, and the column is empty."
        )


@cache
def load_bertscore(model: str, package: str = PACKAGE) -> Bert:
    """A model that the package knows, by its name or in a folder of that name; cached, on a graphics card if there is
    one.

    UsageError if the package is missing, knows no layer for this model, or cannot load it.
    """
    check_bertscore(model, package)
    utils = import_module(f"{package}.utils")
    layers = utils.model2layers.get(model) or utils.model2layers.get(Path(model).name)
    if layers is None:
        raise UsageError(
            f'The package {package} has no layer for the model "{model}": '
            "set bertscore to a model that it knows, such as roberta-large, or to a folder of that name."
        )
    try:
        tokenizer, network = utils.get_tokenizer(model), utils.get_model(model, layers)
    except (OSError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise UsageError(
            f'The model "{model}" of BERTScore cannot be loaded ({reason}): set bertscore to a folder that holds it, '
            "or leave it unset."
        ) from None
    return _bert(model, tokenizer, network, utils)


def _bert(model: str, tokenizer: Any, network: Any, utils: Any) -> Bert:
    """A Bert that scores as the package's own `score` does, on a graphics card if there is one. It sets the
    tokenizer's limit to LIFTED, since the tokenizer would cut the texts whose tokens are to be counted.

    `network`: the loaded model. `utils`: the package's module of that name.
    """
    most = min(MOST_TOKENS, int(tokenizer.model_max_length))
    tokenizer.model_max_length = LIFTED
    device = "cuda" if import_module("torch").cuda.is_available() else "cpu"
    network.to(device)
    weights = defaultdict(lambda: 1.0, {tokenizer.sep_token_id: 0, tokenizer.cls_token_id: 0})  # of a token, by its id

    def f1(pairs: list[Pair]) -> list[float]:
        texts, references = (list(side) for side in zip(*pairs, strict=True))
        found = utils.bert_cos_score_idf(
            network, references, texts, tokenizer, weights, batch_size=BATCH, device=device
        )
        return [float(one) for _, _, one in found]

    return Bert(model, most, lambda text: len(utils.sent_encode(tokenizer, text)), f1)
