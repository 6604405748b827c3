"""The validation gate: which pairs people and a judge compare, and what they say of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pydantic import Field

from flows.config.endpoints import EndpointName
from flows.config.inputs import opened
from flows.preference.community import CommunitySettings, Share
from longform.artifacts.rows import Rows
from longform.engine.stage import Builder
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint
from tasks.axioms.people.judgements import open_judgements, read_judgements
from tasks.axioms.validation.gate import collect_both_judgements, collect_judgements
from tasks.axioms.validation.judge import judge_validation


class ValidationSettings(CommunitySettings):
    """Settings of the validation gate."""

    validation_questions: int = Field(
        1_000, ge=1, description="questions of a site, at most, of which pairs of table 6 are made for validation alone"
    )
    validation_pairs: int = Field(
        20, ge=0, description="pairs of each type that people and a judge compare (config validation); 0: none"
    )
    judgements: str | list[str] = Field([], description="filled-in sheets of these pairs: files or folders")
    validation_judge: EndpointName | None = Field(
        None, description="compares these pairs, too: an endpoint, asked twice a pair; unset: people alone"
    )
    validation_at_least: Share = Field(
        0.7, description="a pair type that is preferred in a smaller share of its judged pairs leaves training"
    )
    validation_min_pairs: int = Field(
        10, ge=1, description="judged pairs with a majority that decide on a pair type; with fewer it is unvalidated"
    )


def judged(
    builder: Builder,
    config: ValidationSettings,
    pairs: Rows,
    for_validation: Rows,
    sample: Rows,
    model: Endpoint | None,
    prompt: Mapping[str, Prompt],
) -> Rows | None:
    """What people say of pairs, and what the judge behind `model` says of those of the sample; None if the settings
    name neither sheets nor a judge.
    """
    if not config.judgements and model is None:
        return None
    files = opened(builder, partial(open_judgements, accounts=config.accounts), config.judgements)
    by_people = read_judgements(builder, files, pairs, for_validation)
    if model is None:
        return collect_judgements(builder, by_people)
    most = config.text_characters
    by_judge = judge_validation(builder, sample, model=model, prompt=prompt["judge_pairwise"], characters=most)
    return collect_both_judgements(builder, by_people, by_judge)
