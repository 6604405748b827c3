"""QAFactEval (Fabbri et al. 2022) by its own package `qafacteval`, where it and its models are installed.

QAFactEval asks questions about a text and lets the reference answer them; the score, from 0 to 5, is that of LERC. The
package comes without models: its own script downloads them into a folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any

PACKAGE = "qafacteval"
MODELS = ("quip-512-mocha", "generation/model.tar.gz", "answering", "lerc/model.tar.gz", "lerc/pretraining.tar.gz")


def installed(models: Path | None, package: str = PACKAGE) -> bool:
    """Whether the package is installed and the folder `models` has all models that QAFactEval needs; False for None."""
    return models is not None and find_spec(package) is not None and all((models / name).exists() for name in MODELS)


def qafacteval(scorer: Any, pairs: Sequence[tuple[str, Sequence[str]]]) -> list[float | None]:
    """For each pair (text, its references, at least one), in order, the score of the text, from 0 to 5: the mean over
    the references, each of which the text is checked against. None for a blank text.

    `scorer`: the package's QAFactEval, of which only `score_batch_qafacteval` is called.
    """
    asked = [(text, references) for text, references in pairs if text.strip()]
    sources = [reference for _, references in asked for reference in references]
    texts = [[text] for text, references in asked for _ in references]
    found = scorer.score_batch_qafacteval(sources, texts, return_qa_pairs=True) if sources else []
    scores = iter([float(metrics[0]["qa-eval"]["lerc_quip"]) for metrics in found])
    return [fmean(next(scores) for _ in references) if text.strip() else None for text, references in pairs]


@cache
def load_scorer(models: Path) -> Any:
    """The package's QAFactEval with the models of this folder, on the first graphics card if there is one, else on the
    processor; cached. Only where `installed` holds: it does not check.
    """
    quip, generation, answering, lerc, pretrained = (str(models / name) for name in MODELS)
    return import_module(PACKAGE).QAFactEval(
        lerc_quip_path=quip,
        generation_model_path=generation,
        answering_model_dir=answering,
        lerc_model_path=lerc,
        lerc_pretrained_model_path=pretrained,
        cuda_device=0 if import_module("torch").cuda.is_available() else -1,
        use_lerc_quip=True,
        verbose=False,
        generation_batch_size=32,
        answering_batch_size=32,
        lerc_batch_size=8,
    )
