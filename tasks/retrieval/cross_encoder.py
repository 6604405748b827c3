"""Cross-encoders: models of sentence-transformers that read two texts together and give one score (extra dense)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from longform.artifacts.recipe import fingerprint
from longform.errors import UsageError

MOST_TOKENS = 2_048
DECIMALS = 6  # of a score: below it floating point differs from machine to machine
UNLOADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError)

Scores = Callable[[Sequence[tuple[str, str]]], list[float]]  # pairs of texts -> a score in [0, 1] of each

_LOADING = threading.Lock()


@dataclass(frozen=True, slots=True)
class CrossEncoderSetting:
    """A cross-encoder as a setting; its weights are not loaded. `place`: a folder, or a name of the Hugging Face hub.

    `name`: what rows call it, of a folder its name. `digest`: hash of the folder's files, None for the hub; name and
    digest are its identity in the recipe of a stage.
    """

    name: str
    place: str
    digest: str | None
    one_process: ClassVar[bool] = True  # workers would load it once each

    def identity(self) -> dict[str, Any]:
        """Name and digest, as they stand in the recipe of a stage."""
        return {"name": self.name, "digest": self.digest}


def cross_encoder(place: str, digest: Callable[[Path], str]) -> CrossEncoderSetting:
    """The cross-encoder in a folder, or of this name, as a setting; nothing is loaded. `digest`: the hash of a file."""
    folder = Path(place)
    if not folder.is_dir():
        return CrossEncoderSetting(place, place, None)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = [[path.relative_to(folder).as_posix(), digest(path)] for path in files]
    return CrossEncoderSetting(folder.resolve().name, place, fingerprint(names))


def has_cross_encoders() -> bool:
    """Whether sentence-transformers is installed."""
    return find_spec("sentence_transformers") is not None


def load_cross_encoder(place: str) -> Scores:
    """The function that scores pairs of texts with a cross-encoder, loaded once a process: the sigmoid of what the
    model gives, whatever activation it is set up with, rounded to DECIMALS. The model cuts what is too long for it.

    UsageError if it cannot be loaded, gives several scores for a pair, or none that is a number.
    """
    model = load_raw(place)

    def scores(pairs: Sequence[tuple[str, str]]) -> list[float]:
        given = model.raw(pairs)
        return [round(float(score), DECIMALS) for score in 1 / (1 + np.exp(-given.clip(-500, 500)))]

    return scores


def load_raw(place: str) -> CrossEncoder:
    """The cross-encoder in a folder, or of this name, loaded once a process; it reads at most MOST_TOKENS tokens.
    UsageError if it cannot be loaded.
    """
    with _LOADING:
        return _loaded(place)


class CrossEncoder:
    """A cross-encoder that is loaded. `place`: its folder or name; `model`: the one of sentence-transformers.

    Threads take turns: how a tokenizer cuts and pads is set in the tokenizer itself by each call.
    """

    def __init__(self, place: str, model: Any) -> None:
        self._place, self._model, self._turn = place, model, threading.Lock()
        self._as_they_are = import_module("torch").nn.Identity()

    def raw(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """What the model gives for each pair, before any activation: (pairs,). It cuts what is too long for it.
        UsageError if it gives several scores for a pair, or none that is a number.
        """
        if not pairs:
            return np.empty(0)
        with self._turn:
            predicted = self._model.predict(list(pairs), activation_fn=self._as_they_are, show_progress_bar=False)
        given = np.asarray(predicted, np.float64)
        if given.ndim != 1 and given.shape[1:] != (1,):
            raise UsageError(
                f'The model "{self._place}" gives {given.shape[-1]} scores for a pair of texts: choose a cross-encoder '
                "that gives one."
            )
        if not np.isfinite(given).all():
            raise UsageError(
                f'The cross-encoder "{self._place}" gave no number for a pair of texts: its weights are damaged, so '
                "choose another."
            )
        return given.ravel()

    def beginning(self, text: str, tokens: int) -> str:
        """The beginning of a text that has at most so many of the model's tokens; the text itself if it has no more."""
        with self._turn:
            return _beginning(self._model.tokenizer, text, tokens)


def _beginning(tokenizer: Any, text: str, tokens: int) -> str:
    """As CrossEncoder.beginning."""
    if not getattr(tokenizer, "is_fast", False):
        ids = tokenizer(text, add_special_tokens=False, verbose=False).input_ids
        return text if len(ids) <= tokens else str(tokenizer.decode(ids[:tokens]))
    places = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    return text if len(places) <= tokens else text[: places[tokens - 1][1]]


@cache
def _loaded(place: str) -> CrossEncoder:
    """As load_raw; cached."""
    try:
        model = import_module("sentence_transformers").CrossEncoder(place)
    except UNLOADABLE as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise UsageError(
            f'The cross-encoder "{place}" cannot be loaded ({reason}): give a folder that holds one, or an endpoint.'
        ) from None
    limits = (getattr(model, "max_length", None), getattr(model.tokenizer, "model_max_length", None))
    model.max_length = min(MOST_TOKENS, *filter(None, limits))
    return CrossEncoder(place, model)
