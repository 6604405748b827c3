"""The headlines dataset: one line for each question of a site."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import ClassVar

from pydantic import Field
from tasks.headlines.form import open_labels, read_labels
from tasks.headlines.form import sheets as sheets
from tasks.headlines.offline import RULES
from tasks.headlines.stages import name_posts, write_headlines
from tasks.headlines.takedown import responses_of as responses_of

from flows.config.endpoints import ModelSettings, endpoint_of_stage
from flows.config.inputs import ACCOUNTS, opened
from flows.config.prompts import PROMPTS
from flows.registry import model_stages
from longform.engine.stage import Builder
from longform.llm.ask.prompts import load_prompt
from tasks.publishing.card import Paper
from tasks.publishing.publish import About, Table, set_publication
from tasks.sources.admission import admit_posts, taken_down
from tasks.sources.stackexchange.posts import open_dumps, read_posts

SAMPLES = Path(__file__).parent.parent / "data" / "samples" / "community.example"
OFFLINE = RULES
ABOUT = About(
    dataset="headlines",
    title="Headlines of community questions",
    summary="One line for each question of a Stack Exchange site.",
    paper=Paper(title="A dataset of a test", citation="Of no paper."),
)


class HeadlinesConfig(ModelSettings):
    """Settings of the headlines dataset."""

    MODEL_STAGES: ClassVar = model_stages(globals())

    dump: str = Field(str(SAMPLES), description="a Stack Exchange dump")
    labels: str | list[str] = Field([], description="filled-in sheets")
    accounts: dict[str, dict[str, str]] = Field({}, description=ACCOUNTS)


def rebuild(builder: Builder, config: HeadlinesConfig) -> None:
    """The method, stage by stage."""
    dumps = open_dumps(config.dump, None, None, builder.digests)
    listed = taken_down(builder.store.home, {dump.group for dump in dumps})
    posts = admit_posts(builder, read_posts(builder, dumps), takedowns=listed)
    prompt = load_prompt("headlines/headline", PROMPTS)
    headlines = write_headlines(builder, posts, model=endpoint_of_stage("write_headlines", config), prompt=prompt)
    filled_in = opened(builder, partial(open_labels, accounts=config.accounts), config.labels)
    labels = read_labels(builder, filled_in, headlines)
    published = [Table("headlines", headlines), Table("labels", labels)]
    set_publication(builder, about(config), published, name_posts(builder, posts), tables=lambda: [])


def about(config: HeadlinesConfig) -> About:
    return ABOUT
