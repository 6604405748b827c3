"""The settings of a training of the preference model; their defaults are the paper's (section 3)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from longform.artifacts.recipe import fingerprint

AXIOMS = (0, 1, 2, 3, 4, 5)
NOT_IDENTITY = ("threads", "checkpoint_every", "report_every", "report_pairs")  # they change no weight
REVISION = 1  # of the code, raised when equal settings give other weights


def _known(axioms: list[int]) -> list[int]:
    """The axioms in order, each once; ValueError for one that the paper has not, and for none."""
    if not axioms:
        raise ValueError("name one axiom or more, e.g. 0,1")
    if unknown := sorted(set(axioms) - set(AXIOMS)):
        raise ValueError(f"there is no axiom {unknown[0]}")
    return sorted(set(axioms))


class Training(BaseModel):
    """How a preference model is trained. The defaults are the paper's, and what it does not print is said so."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backbone: str = Field(
        "google/flan-t5-base",
        description="what training starts from: a folder or a name of the Hugging Face hub (an encoder, or a decoder), "
        "or random:tiny or random:small, a small encoder of random weights that needs no download",
    )
    axioms: Annotated[list[int], AfterValidator(_known)] = Field(
        [*AXIOMS], description="axioms whose pairs are trained on; those that a version has no pair of are left out"
    )
    margins: Literal["votes", "critic"] = Field(
        "votes", description="the margin of a pair: by votes, else a constant (votes), or the critic's (critic; + λ)"
    )
    steps: int = Field(16_000, ge=1, description="steps of the optimizer")
    warmup_steps: int = Field(1_000, ge=0, description="steps in which the learning rate rises from 0, in a line")
    learning_rate: float = Field(5e-6, gt=0, description="after these steps")
    decay: Literal["none", "linear"] = Field(
        "none", description="linear: the learning rate falls to 0 at the last step; the paper names no decay"
    )
    weight_decay: float = Field(0.0, ge=0, description="of AdamW; the paper names none")
    max_gradient_norm: float = Field(1.0, gt=0, description="larger gradients are scaled down; the paper names none")
    questions_per_step: int = Field(
        56, ge=1, description='questions of a step: 905,000 questions in 16,000 steps, "just under one epoch"'
    )
    pairs_per_question: int | None = Field(
        None, ge=1, description="at most so many pairs of a question a step, drawn anew each time; unset: all of them"
    )
    pairs_at_once: int = Field(
        8, ge=1, description="pairs whose gradients are computed together: smaller needs less memory, and changes noise"
    )
    evidence_share: float = Field(
        0.5, ge=0, le=1, description="share of draws in which a question's evidence is shown; the paper names none"
    )
    question_tokens: int = Field(256, ge=1, description="a longer question is cut")
    max_tokens: int = Field(2_048, ge=8, description="question, evidence and answer together; the longest is cut")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="auto: bfloat16 on an accelerator that has it, else float32"
    )
    seed: int = Field(0, description="of the order of questions, of draws, dropout and random weights")
    threads: int | None = Field(
        None, ge=1, description="threads of the CPU; a run that goes on takes those it began with"
    )
    checkpoint_every: int = Field(200, ge=1, description="steps after which the state is kept, to go on from")
    report_every: int = Field(500, ge=1, description="steps after which the accuracy on held-out pairs is shown")
    report_pairs: int = Field(500, ge=1, description="held-out pairs of that accuracy, drawn by the seed")

    def identity(self) -> dict[str, Any]:
        """The settings that change the weights."""
        return {name: value for name, value in self.model_dump().items() if name not in NOT_IDENTITY}

    def run_id(self, manifest: dict[str, Any]) -> str:
        """The hash of what determines the weights: these settings, and the recipe and files of the version."""
        files = {name: file["sha256"] for name, file in manifest["files"].items() if name.endswith(".parquet")}
        return fingerprint([REVISION, self.identity(), manifest["recipe"], files])

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0: the first is 1 / warmup_steps of the whole."""
        rising = min(1.0, (step + 1) / self.warmup_steps) if self.warmup_steps else 1.0
        left = (self.steps - step) / max(1, self.steps - self.warmup_steps) if self.decay == "linear" else 1.0
        return self.learning_rate * rising * min(1.0, left)
