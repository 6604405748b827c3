"""What model replies are read into: contracts, no logic. A prompt's `reply:` names one of these.

The names of fields are those of the tags, or of the JSON, that the prompt asks for.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Reply(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WrittenAnswer(Reply):
    """An answer in Markdown, without its end mark."""

    text: Text = Field(description="the answer")


class Corruption(Reply):
    """A wrong but believable rewriting of an answer (Axiomatic Preference Modeling, axiom 3)."""

    claim: list[str] = Field(description="verifiable claims of the answer; none where it states nothing")
    corrupted_claim: list[str] = Field(description="the claims that were changed, as changed")
    corrupted_answer: Text = Field(description="the answer rewritten with the changed claims")


def _as_word(said: object) -> object:
    """How models write a verdict: `True`, true, "Not_supported." are `true` and `not supported`."""
    if isinstance(said, bool):
        return str(said).lower()
    return " ".join(said.replace("_", " ").split()).strip(" .\"'*`").lower() if isinstance(said, str) else said


class Entailment(Reply):
    """Whether evidence says what a claim says (ExpertQA, section 5: AutoAIS)."""

    verdict: Annotated[Literal["supported", "not supported"], BeforeValidator(_as_word)]


class AtomicClaims(Reply):
    """A claim taken apart (ExpertQA, section 5: FActScore)."""

    atomic_claim: list[str] = Field(description="short statements that each say one thing")


class Judgement(Reply):
    """Whether a statement of fact is true, given passages (ExpertQA, section 5: FActScore)."""

    verdict: Annotated[Literal["true", "false"], BeforeValidator(_as_word)]
