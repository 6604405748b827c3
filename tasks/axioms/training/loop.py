"""The training loop: margin loss over the pairs of questions drawn uniformly, with a state to go on from.

    loss = max(0, margin - [f(question, preferred) - f(question, rejected)])      (the paper's equation 1)

averaged over the pairs of a question, then over the questions of a step. A step depends on seed, number and state
alone: a run that was killed and goes on ends, on the same CPU, with the same bits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from longform.errors import UsageError
from tasks.axioms.training import checkpoint
from tasks.axioms.training.inputs import Reader
from tasks.axioms.training.pairs import Pair, PairFile
from tasks.axioms.training.sampling import QuestionOrder, drawn, shows_evidence
from tasks.axioms.training.settings import Training

Report = dict[str, float]  # step, loss (mean since the last report), accuracy on held-out pairs, seconds


class Progress(Protocol):
    """Who is told how a training goes on."""

    def begin(self, name: str, steps: int, done: int) -> None:
        """A training of so many steps begins, or goes on after `done` of them."""

    def at(self, step: int, loss: float) -> None:
        """A step ended; `step` of them are done."""

    def report(self, report: Report) -> None:
        """Loss and accuracy after a number of steps."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A pair of a step: its weight in the loss, and whether its evidence is shown."""

    pair: Pair
    weight: float
    evidence: Sequence[str]


@dataclass(slots=True)
class State:
    """Where a training is: steps done, the losses since the last report, all reports, threads, seconds."""

    step: int = 0
    losses: list[float] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    threads: int = 1
    seconds: float = 0.0


def margin_loss(preferred: torch.Tensor, rejected: torch.Tensor, margins: torch.Tensor) -> torch.Tensor:
    """The loss of each pair: max(0, margin - (preferred - rejected)), all (pairs,) float32."""
    return torch.clamp(margins - (preferred - rejected), min=0)


def draws(pairs: PairFile, order: QuestionOrder, settings: Training, step: int) -> Iterator[Drawn]:
    """The pairs of a step, question by question; their weights sum to 1."""
    questions = order.at(step)
    for place, question in enumerate(questions, start=step * settings.questions_per_step):
        rows = drawn(pairs.rows(question), settings.pairs_per_question, settings.seed, place)
        shown = shows_evidence(settings.evidence_share, settings.seed, place)
        for row in rows:
            pair = pairs.pair(row)
            yield Drawn(pair, 1 / len(rows) / len(questions), pair.evidence if shown else ())


class Trainer:
    """A training of a model on pairs; its state is kept in the file `state_file`. `kept`: that of an earlier run."""

    def __init__(
        self, model: Any, reader: Reader, settings: Training, state_file: Path, kept: dict[str, Any] | None = None
    ) -> None:
        self.model, self.reader, self.settings, self.state_file = model, reader, settings, state_file
        self.device = device()
        self.model.to(self.device)
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self.state = self._restored(kept)

    def _restored(self, kept: dict[str, Any] | None) -> State:
        if kept is None:
            return State(threads=torch.get_num_threads())
        self.model.load_state_dict(kept["model"])
        self.optimizer.load_state_dict(kept["optimizer"])
        return State(**kept["state"])

    def run(self, pairs: PairFile, accuracy: Callable[[], float], progress: Progress) -> list[Report]:
        """Train to the last step, from the first or where an earlier run was; returns all reports.

        `accuracy`: the share of held-out pairs that the model gets right by now, asked after every `report_every`
        steps and at the end.
        """
        order = QuestionOrder(len(pairs.questions), self.settings.questions_per_step, self.settings.seed)
        last = time.monotonic()
        while self.state.step < self.settings.steps:
            loss = self.step(list(draws(pairs, order, self.settings, self.state.step)))
            self.state.step += 1
            self.state.losses.append(loss)
            progress.at(self.state.step, loss)
            ended = self.state.step == self.settings.steps
            if ended or self.state.step % self.settings.report_every == 0:
                progress.report(self._report(accuracy()))
            now = time.monotonic()
            self.state.seconds, last = self.state.seconds + now - last, now
            if ended or self.state.step % self.settings.checkpoint_every == 0:
                self._keep()
        return self.state.reports

    def step(self, step: Sequence[Drawn]) -> float:
        """One step of the optimizer on these pairs; returns the loss. UsageError if that is no number."""
        torch.manual_seed(self.settings.seed * self.settings.steps + self.state.step)
        self.model.train()
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.rate(self.state.step)
        loss = 0.0
        for start in range(0, len(step), self.settings.pairs_at_once):
            part = self.loss(step[start : start + self.settings.pairs_at_once])
            part.backward()
            loss += float(part.detach())
        if not math.isfinite(loss):
            raise UsageError(
                f"The loss of step {self.state.step + 1:,} is no number: take a lower learning_rate than "
                f"{self.settings.learning_rate:g}, or precision=float32, and another folder."
            )
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.max_gradient_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    def loss(self, pairs: Sequence[Drawn]) -> torch.Tensor:
        """The weighted sum of these pairs' losses. A text that stands in several of them is read once."""
        numbers: dict[tuple[str, str, bool], int] = {}
        read: list[dict[str, list[int]]] = []

        def number(each: Drawn, answer_id: str, answer: str) -> int:
            key = (each.pair.question_id, answer_id, bool(each.evidence))
            if key not in numbers:
                numbers[key] = len(read)
                read.append(self.reader.read(each.pair.question, each.evidence, answer))
            return numbers[key]

        preferred = [number(each, each.pair.preferred_id, each.pair.preferred) for each in pairs]
        rejected = [number(each, each.pair.rejected_id, each.pair.rejected) for each in pairs]
        scores = forward(self.model, self.reader.batch(read), self.device, self.settings.precision)
        margins = torch.tensor([each.pair.margin for each in pairs], device=self.device)
        weights = torch.tensor([each.weight for each in pairs], device=self.device)
        return (weights * margin_loss(scores[preferred], scores[rejected], margins)).sum()

    def _report(self, accuracy: float) -> Report:
        losses = self.state.losses
        report = {"step": self.state.step, "loss": sum(losses) / len(losses), "accuracy": accuracy}
        self.state.losses = []
        self.state.reports.append(report)
        return report

    def _keep(self) -> None:
        state = {name: getattr(self.state, name) for name in State.__dataclass_fields__}
        kept = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "state": state}
        checkpoint.save(self.state_file, kept)


def device() -> torch.device:
    """The accelerator of this machine, else its CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu")


def deterministic(threads: int | None, kept: dict[str, Any] | None) -> None:
    """Let torch add numbers in the same order each time: with the threads of the state that was kept, else with this
    number, else with as many as there are. To be called before weights are drawn.
    """
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_num_threads(kept["state"]["threads"] if kept else threads or torch.get_num_threads())


def forward(model: Any, inputs: dict[str, torch.Tensor], on: torch.device, precision: str) -> torch.Tensor:
    """The score of each text: (texts,) float32."""
    half = precision == "bfloat16" or (precision == "auto" and on.type == "cuda" and torch.cuda.is_bf16_supported())
    with torch.autocast(on.type, dtype=torch.bfloat16, enabled=half):
        logits = model(**{name: values.to(on) for name, values in inputs.items()}).logits
    scores: torch.Tensor = logits.float().reshape(len(inputs["input_ids"]), -1)[:, 0]
    return scores


def scores(model: Any, reader: Reader, texts: Sequence[tuple[str, Sequence[str], str]], at_once: int) -> list[float]:
    """The score of each (question, evidence, answer), in their order; those of similar length are read together."""
    read = [reader.read(*each) for each in texts]
    by_length = sorted(range(len(read)), key=lambda place: (len(read[place]["input_ids"]), place))
    found = [0.0] * len(read)
    model.eval()
    on = next(model.parameters()).device
    with torch.no_grad():
        for start in range(0, len(read), at_once):
            places = by_length[start : start + at_once]
            values = forward(model, reader.batch([read[place] for place in places]), on, "float32")
            for place, value in zip(places, values.tolist(), strict=True):
                found[place] = value
    return found
