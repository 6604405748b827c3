"""What model replies are read into: contracts, no logic. A prompt's `reply:` names one of these.

The names of fields are those of the tags, or of the JSON, that the prompt asks for.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

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
