"""The settings of what is read from community sites, paired and answered (axioms 0 to 3 and 5)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from flows.config.endpoints import EndpointName, ModelSettings
from flows.config.inputs import ACCOUNTS

ALL_SAMPLES = Path(__file__).parent.parent.parent / "data" / "samples"
SAMPLES = ALL_SAMPLES / "community.example"

Share = Annotated[float, Field(ge=0, le=1)]


class CommunitySettings(ModelSettings):
    """Settings of the posts, the questions, the splits, and what every part shares: seeds, scrubbing, cuts."""

    dump: str | list[str] = Field(
        str(SAMPLES),
        description="Stack Exchange dumps: a .7z, a folder, or a Posts.xml, or a list; from where you type",
    )
    site: str | list[str] | None = Field(
        None, description="host of each dump, e.g. beer.stackexchange.com, where its name does not tell"
    )
    retrieved_at: str | None = Field(None, description="when the dumps were fetched, e.g. 2024-04-02, if known")
    embedding: str = Field(
        "tfidf",
        description="how similar questions are found: tfidf (offline), an endpoint, or a sentence-transformers model",
    )
    scrub: bool = Field(
        True, description="replace mail addresses, phone numbers and handles in posts by [mail], [phone], [handle]"
    )
    terms: Literal["undecided", "no-agreement", "agreement"] = Field(
        "undecided",
        description=(
            "how the dumps were got: no-agreement (before 2024-07, or from a mirror, without a download agreement) or "
            "agreement (downloaded under it by someone who decided that this use fits); see docs/data-policy.md"
        ),
    )
    accounts: dict[str, dict[str, str]] = Field({}, description=ACCOUNTS)
    seed: int = Field(0, description="of every draw: hard negatives, caps")
    split_seed: int = Field(0, description="of the splits")
    limit: int | None = Field(None, ge=1, description="at most this many questions of each site: a pilot")
    min_answers: int = Field(2, ge=2, description="answers a question must have")
    min_vote_ratio: float = Field(1.3, ge=1, description="some answer must have this many times another's votes")
    closed: bool = Field(True, description="keep closed questions")
    wiki: bool = Field(True, description="keep community-wiki questions and answers")
    questions_per_site: int = Field(97_646, ge=1, description="larger sites are subsampled to this many questions")
    pairs_per_question: int | None = Field(None, ge=1, description="axiom 0: at most this many pairs a question")
    neighbours: int = Field(10, ge=1, le=100, description="axiom 1: related questions looked at")
    neighbours_across_sites: bool = Field(
        False,
        description="axiom 1: related questions of all sites, not of its own; a site added then changes them all",
    )
    paraphrase_similarity: Share = Field(0.8, description="axiom 1: questions at least this similar are paraphrases")
    negatives: int = Field(40, ge=1, description="axiom 1: hard negatives a question, at most")
    negatives_with_all_answers: bool = Field(
        False, description="axiom 1: pair each negative with every answer, not one"
    )
    negatives_judge: EndpointName | None = Field(
        None,
        description="axiom 1: judges whether a hard negative answers the question after all, which leaves it out: an "
        "endpoint, or a cross-encoder of sentence-transformers; unset, as in the paper: nobody judges",
    )
    negatives_answer_above: Share = Field(
        0.5, description="axiom 1: a negative with a higher score of the cross-encoder answers the question"
    )
    text_characters: int = Field(
        30_000,
        ge=1_000,
        description="a longer question, answer or passage is cut in prompts, and marked; no post of the site is longer",
    )
    passages: int = Field(5, ge=1, le=50, description="axiom 2: passages an open-book answer is given")
    passage_words: int = Field(120, ge=20, description="axiom 2: words of a passage, about")
    utilization_above: float = Field(
        0.35, ge=0, le=2, description="axiom 5: a combined answer uses more of its parents"
    )
    utilization_below: float = Field(
        1.85, ge=0, le=2.1, description="axiom 5: and less than this, else it only repeats them"
    )
    utilization_words: int = Field(2, ge=1, description="axiom 5: n of the n-grams that utilization counts")
    test_share: Share = Field(0.1, description="share of the questions held out for testing")
    duplicate_similarity: float = Field(
        0.5, gt=0, le=1, description="questions sharing this much of their word 3-grams (Jaccard) stay in one split"
    )

    @model_validator(mode="after")
    def some_utilization_is_kept(self) -> Self:
        """The settings unchanged; ValueError unless utilization_above is less than utilization_below."""
        if self.utilization_above >= self.utilization_below:
            raise ValueError("utilization_above must be less than utilization_below, else no combined answer is kept")
        return self
