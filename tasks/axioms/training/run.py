"""One training from a published version to a folder that holds the model, to be evaluated before it is finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from longform.artifacts.versions import Version
from tasks.axioms.training.folder import STATE, TEST, TRAIN, RunFolder
from tasks.axioms.training.pairs import Pair, PairFile, write_pairs
from tasks.axioms.training.settings import Training

if TYPE_CHECKING:
    from tasks.axioms.training.inputs import Reader
    from tasks.axioms.training.loop import Progress, Report

READ_TOGETHER = 32
TEXTS = ("question", "preferred", "rejected")


@dataclass(frozen=True, slots=True)
class Ended:
    """What a training did: reports of loss and held-out accuracy, axiom -> pairs trained on, questions."""

    reports: Sequence[Report]
    pairs: dict[int, int]
    questions: int
    seconds: float


def train(version: Version, settings: Training, folder: RunFolder, progress: Progress) -> Ended:
    """Train on the split train of a version and save the model in `folder.model`; goes on where an earlier run with
    these settings ended. Held-out pairs, of the split test, are only looked at.

    UsageError if there is no pair to train on, or the backbone cannot be loaded. StoreError if the state is damaged, or
    the folder cannot be written.
    """
    from tasks.axioms.training import backbone, checkpoint
    from tasks.axioms.training.inputs import Reader
    from tasks.axioms.training.loop import Trainer, deterministic

    folder.begin()
    pairs = write_pairs(version, "train", settings.axioms, settings.margins, folder.unfinished / TRAIN)
    held_out = write_pairs(version, "test", settings.axioms, "votes", folder.unfinished / TEST)
    kept = checkpoint.load(folder.unfinished / STATE)
    deterministic(settings.threads, kept)
    model, tokenizer, most = backbone.load(
        settings.backbone, texts=pairs.texts(*TEXTS), max_tokens=settings.max_tokens, seed=settings.seed
    )
    model.config.question_tokens = settings.question_tokens
    reader = Reader(tokenizer, settings.question_tokens, most)
    trainer = Trainer(model, reader, settings, folder.unfinished / STATE, kept)
    progress.begin(folder.place.name, settings.steps, trainer.state.step)
    sample = sample_of(held_out, settings.report_pairs, settings.seed)
    reports = trainer.run(pairs, lambda: accuracy(model, reader, sample), progress)
    folder.save(model.cpu(), tokenizer)
    return Ended(reports, pairs.counts(), len(pairs.questions), trainer.state.seconds)


def sample_of(pairs: PairFile, most: int, seed: int) -> list[Pair]:
    """At most so many pairs, each as likely as any other, in the order of the file."""
    places = np.random.Generator(np.random.PCG64(seed & (2**64 - 1))).permutation(len(pairs))[:most]
    return [pairs.pair(int(place)) for place in sorted(places)]


def accuracy(model: Any, reader: Reader, pairs: Sequence[Pair]) -> float:
    """Share of the pairs, read without evidence, whose preferred answer has the higher score; ties count one half."""
    from tasks.axioms.training.loop import scores

    texts = [(pair.question, (), answer) for pair in pairs for answer in (pair.preferred, pair.rejected)]
    found = np.array(scores(model, reader, texts, READ_TOGETHER)).reshape(-1, 2)
    return float(((found[:, 0] > found[:, 1]) + (found[:, 0] == found[:, 1]) / 2).mean())
