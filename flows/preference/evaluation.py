"""The sets that scorers of answers are evaluated on: discussions of Reddit, and what people compared for WebGPT."""

from __future__ import annotations

from functools import partial

from pydantic import Field

from flows.config.inputs import listed, opened
from flows.preference.community import ALL_SAMPLES, CommunitySettings
from flows.sources import reddit, webgpt
from longform.artifacts.rows import Rows
from longform.engine.stage import Builder
from longform.pseudonyms import NoAuthors
from tasks.axioms.evaluation.compared import select_comparisons
from tasks.axioms.evaluation.discussions import (
    MIN_SCORE,
    MIN_WORDS,
    SUBREDDITS,
    attribute_discussions,
    find_related_discussions,
    rank_discussions,
    select_discussions,
)
from tasks.sources.admission import listed_in
from tasks.sources.files.inputs import open_files
from tasks.sources.reddit.dumps import GROUP as REDDIT
from tasks.sources.reddit.dumps import open_dumps as open_dumps_of_reddit
from tasks.sources.reddit.reddit_threads import join_reddit, select_eli5
from tasks.sources.released.webgpt import ENDINGS as ENDINGS_OF_WEBGPT
from tasks.sources.released.webgpt import GROUP as WEBGPT
from tasks.text.scrub import REGIONS

TERMS = {  # setting -> what its rows may be used for
    "eli5": "Posts of Reddit (config ranking) are their authors', under its User Agreement and Data API terms: for "
    "evaluation only, never to train on; what is deleted there has to go here, too.",
    "webgpt": "The comparisons of WebGPT (config comparisons) name no licence; most of their questions are Reddit's.",
}


class EvaluationSettings(CommunitySettings):
    """Settings of the evaluation sets, and of what no training text may hold."""

    eli5: str | list[str] = Field(
        str(ALL_SAMPLES / "eli5"),
        description="evaluation: Reddit dumps with r/explainlikeimfive, r/askscience or r/AskHistorians; [] for none",
    )
    eli5_questions: int = Field(7_000, ge=1, description="evaluation: at most this many questions of a subreddit")
    webgpt: str | list[str] = Field(
        str(ALL_SAMPLES / "webgpt"), description="evaluation: comparisons.jsonl of WebGPT; [] for none"
    )
    decontamination: bool = Field(
        True, description="leave out training pairs that show what an evaluation set holds, see docs/axioms.md"
    )
    decontaminate: str | list[str] = Field(
        [],
        description="files of further evaluation texts (.jsonl, .parquet, .txt) that no training text may hold",
    )
    contaminated_similarity: float = Field(
        0.5, gt=0, le=0.8, description="training texts sharing this much of an evaluation text's word 3-grams leave"
    )


def discussions_to_rank(builder: Builder, config: EvaluationSettings) -> tuple[Rows, Rows]:
    """(questions of Reddit as answers to rank, the attribution of these posts); empty if the setting names no file."""
    dumps = open_dumps_of_reddit(listed(config.eli5), builder.digests) if listed(config.eli5) else []
    _, items = reddit.read_and_admit(builder, dumps, list(SUBREDDITS), NoAuthors())
    threads = select_discussions(
        builder,
        select_eli5(
            builder,
            join_reddit(builder, items, **listed_in(builder.store.home, [REDDIT])),
            min_score=MIN_SCORE,
            min_words=MIN_WORDS,
            first_month=None,
            last_month=None,
        ),
        min_answers=config.min_answers,
        min_vote_ratio=config.min_vote_ratio,
        questions=config.eli5_questions,
    )
    related = find_related_discussions(
        builder,
        threads,
        k=config.neighbours,
        below=config.paraphrase_similarity,
        same=config.duplicate_similarity,
        negatives=config.negatives,
        seed=config.seed,
    )
    regions = list(REGIONS) if config.scrub else []
    ranking = rank_discussions(builder, threads, related, threads, regions=regions)
    return ranking, attribute_discussions(builder, threads, regions=regions)


def compared_answers(builder: Builder, config: EvaluationSettings) -> tuple[Rows, Rows]:
    """(all comparisons of WebGPT, those without ties as published); empty if the setting names no file."""
    opening = partial(open_files, group=WEBGPT, endings=ENDINGS_OF_WEBGPT)
    read = webgpt.read_and_admit(builder, opened(builder, opening, config.webgpt))
    return read, select_comparisons(builder, read)


def evaluation_terms(config: EvaluationSettings) -> list[str]:
    """What the card says of the terms of the sets of which the settings name files."""
    return [terms for name, terms in TERMS.items() if listed(getattr(config, name))]
