"""What model replies are read into: contracts, no logic. A prompt's `reply:` names one of these."""

from pydantic import BaseModel, ConfigDict, Field


class Reply(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WrittenAnswer(Reply):
    """An answer in Markdown, without its end mark."""

    text: str = Field(min_length=1, description="the answer")


class Corruption(Reply):
    """A wrong but believable rewriting of an answer (Axiomatic Preference Modeling, axiom 3)."""

    claims: list[str] = Field(description="verifiable claims of the answer; none where it states nothing")
    corrupted_claims: list[str] = Field(description="the claims that were changed, as changed")
    answer: str = Field(min_length=1, description="the answer rewritten with the changed claims")
