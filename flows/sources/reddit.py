"""Reddit: submissions and comments of monthly dumps as threads; current scores and deletions from its Data API."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, field_validator, model_validator

from flows.sources import Defect, Terms
from longform.artifacts.rows import Rows, Source
from longform.engine.stage import Builder
from longform.errors import UsageError
from longform.files import unwritable
from longform.net.download import Downloader, Progress
from longform.pseudonyms import NoAuthors, Pseudonyms
from longform.settings import reddit_client
from tasks.sources.admission import admit, admit_items, listed_in
from tasks.sources.reddit.dumps import GROUP, LICENCE, open_dumps, read_items
from tasks.sources.reddit.reddit_threads import (
    ELI5_SUBREDDITS,
    PROMPT_SUBREDDITS,
    join_reddit,
    select_eli5,
    select_prompts,
)
from tasks.sources.reddit.states import (
    API,
    REQUESTS_A_MINUTE,
    TOKEN_URL,
    RedditApi,
    States,
    fullnames_in,
    refresh_states,
    refresh_threads,
    write_takedowns,
)
from tasks.sources.reddit.trees import grow_trees, read_gone, refresh_trees

STATES_FILE = "states.jsonl"
GONE_FILE = "gone.jsonl"

TERMS = Terms(
    what="submissions and comments of Reddit, from monthly dumps; their scores and deletions from its Data API",
    licence=f"{LICENCE}: texts remain their authors', nothing grants you their use beyond Reddit's terms",
    attribution="permalink; no names: authors are keyed hashes",
    decide=(
        "Reddit's Data API terms ask for approval before research and for a contract before commercial use, do not "
        "allow models to be trained on its content without permission, and bind you to remove what is deleted on "
        "Reddit, so to repeat this check for as long as you hold texts: read "
        "https://redditinc.com/policies/data-api-terms and decide whether your use is covered"
    ),
)

DEFECTS = (
    Defect(
        "Texts of deleted and removed posts are gone, or only their placeholder is left.",
        ("deleted by its author", "removed by moderators", "removed by Reddit"),
    ),
    Defect(
        "Some texts hold ill-formed characters, which are replaced by U+FFFD.",
        ("repaired",),
    ),
    Defect(
        "Votes are those of the moment when the post was archived, often within minutes of its writing.",
    ),
)


_USED = {  # setting -> the presets that use it
    "min_score": ("eli5", "writing_prompts"),
    "min_words": ("eli5", "writing_prompts"),
    "tags": ("writing_prompts",),
}
_SUBREDDIT = re.compile(r"[a-z0-9][a-z0-9_.:-]{0,49}")


class Fetch(BaseModel, extra="forbid"):
    """Asks for the current state of items, named by id, permalink, or a file of them (Parquet of posts or threads, JSON
    lines, or one id on each line). Dumps are not fetched: their archives distribute them by BitTorrent.
    """

    base_url: str = Field(API, description="the Data API")
    token_url: str | None = Field(None, description="where tokens are given; unset: Reddit's, or below base_url")
    account: str | None = Field(
        None, pattern=r"[A-Za-z0-9_-]{1,40}", description="your account's name, which Reddit wants in the User-Agent"
    )
    max_age_hours: float = Field(24, ge=0, description="items that were checked within so many hours are not asked for")
    missing: bool = Field(False, description="also take down what Reddit does not show: its subreddit may be private")
    requests_a_minute: int = Field(REQUESTS_A_MINUTE, ge=1, le=600, description="what Reddit grants you")


def fetch(http: Downloader, what: list[str], folder: Path, config: Fetch, progress: Progress) -> list[Path]:
    """Write states.jsonl (the items' current states) and gone.jsonl, for `longform takedowns add --file`."""
    client = reddit_client()
    if client is None:
        raise UsageError(
            "REDDIT_CLIENT_ID and REDDIT_CLIENT_SECRET are not set: make an app of the type script at "
            "https://www.reddit.com/prefs/apps, and set both."
        )
    names = fullnames_in(what)
    own = TOKEN_URL if config.base_url == API else config.base_url.rstrip("/") + "/api/v1/access_token"
    api = RedditApi(
        http,
        client,
        base_url=config.base_url,
        token_url=config.token_url or own,
        account=config.account,
        requests_a_minute=config.requests_a_minute,
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from None
    max_age = timedelta(hours=config.max_age_hours)
    states = refresh_states(
        api.states, names, folder / STATES_FILE, max_age=max_age, now=lambda: datetime.now(UTC), progress=progress
    )
    progress.end(STATES_FILE)
    write_takedowns(states, folder / GONE_FILE, also_missing=config.missing)
    return [states, folder / GONE_FILE]


class Read(BaseModel):
    subreddits: list[str] | None = Field(None, description="of these only; unset: those of the preset, else all")
    preset: Literal["none", "eli5", "writing_prompts"] = Field(
        "none", description="rules of a published dataset: eli5, writing_prompts, or none"
    )
    min_score: int | None = Field(None, description="presets: of questions and answers; unset: eli5 2, prompts any")
    min_words: int | None = Field(None, ge=0, description="presets: of answers and stories; unset: eli5 8, prompts 30")
    first_month: str | None = Field(None, description="eli5: of the questions (paper: 2011-07)")
    last_month: str | None = Field(None, description="eli5: of the questions (paper: 2018-07)")
    tags: list[str] = Field(["WP"], description="writing_prompts: tags of titles, without their brackets")
    trees: bool = Field(False, description="also every comment with its depth and path; threads are made from them")
    states: str | None = Field(None, description="states.jsonl of a check: newer scores, without what was deleted")
    retrieved_at: str | None = Field(None, description="when the dumps were fetched, where no side file says it")

    @field_validator("subreddits")
    @classmethod
    def _names(cls, values: list[str] | None) -> list[str] | None:
        """The names in lower case without `r/` and slashes; ValueError for none, and for what can be no name."""
        names = None if values is None else [value.strip().strip("/").removeprefix("r/").lower() for value in values]
        if names is not None and not (names and all(map(_SUBREDDIT.fullmatch, names))):
            raise ValueError("write names of subreddits such as askscience,explainlikeimfive; none reads all")
        return names

    @field_validator("first_month", "last_month")
    @classmethod
    def _month(cls, value: str | None) -> str | None:
        """The month, as 2023-01; ValueError for any other text."""
        if value is not None and not re.fullmatch(r"[0-9]{4}-(0[1-9]|1[0-2])", value):
            raise ValueError("write year and month, from 01 to 12, such as 2023-01")
        return value

    @model_validator(mode="after")
    def _months(self) -> Read:
        """The settings; ValueError for months in the wrong order, and for months that no preset uses."""
        first, last = self.first_month, self.last_month
        if first and last and first > last:
            raise ValueError(f"first_month = {first} is after last_month = {last}: swap them")
        if (first or last) and self.preset != "eli5":
            raise ValueError(
                f"first_month and last_month have no effect with preset = {self.preset}: add preset=eli5, or leave "
                "them out"
            )
        if idle := sorted(
            self.model_fields_set & _USED.keys() - {name for name in _USED if self.preset in _USED[name]}
        ):
            raise ValueError(
                f"{', '.join(idle)} has no effect with preset = {self.preset}: add a preset, or leave it out"
            )
        return self


def read(builder: Builder, paths: list[Path], config: Read) -> list[Rows]:
    """Submissions and comments, and threads of direct answers, from dumps a month (RC_2024-01.zst, RS_2024-01.zst) or a
    subreddit (askscience_comments.zst, askscience_submissions.zst), mixed as you like; with `trees` whole trees too.
    """
    states = States(Path(config.states), builder.digests) if config.states else None
    dumps = open_dumps(paths, builder.digests, config.retrieved_at)
    items, admitted = read_and_admit(builder, dumps, _subreddits(config), Pseudonyms(builder.store.home))
    listed = listed_in(builder.store.home, [GROUP])
    if config.trees:
        gone = read_gone(builder, dumps, subreddits=_subreddits(config))
        trees = grow_trees(builder, items, gone, **listed)
        trees = refresh_trees(builder, trees, states=states) if states else trees
        return [admitted, trees, _selected(builder, join_reddit(builder, trees, **listed), config)]
    threads = join_reddit(builder, admitted, **listed)
    threads = refresh_threads(builder, threads, states=states) if states else threads
    return [admitted, _selected(builder, threads, config)]


def read_and_admit(
    builder: Builder, dumps: list[Source], subreddits: list[str], authors: Pseudonyms | NoAuthors
) -> tuple[Rows, Rows]:
    """(the submissions and comments of these dumps, those of them that are not taken down), of some subreddits, in
    lower case and sorted; [] for all. `authors`: makes the pseudonyms of authors.
    """
    items = read_items(builder, dumps, subreddits=subreddits, authors=authors)
    return items, admit(builder, admit_items, items, [GROUP])


def _subreddits(config: Read) -> list[str]:
    """The names of the subreddits to read, in lower case, sorted: those of the settings, else those of
    the preset; empty for all.
    """
    of_preset = {"none": [], "eli5": ELI5_SUBREDDITS, "writing_prompts": PROMPT_SUBREDDITS}[config.preset]
    chosen = of_preset if config.subreddits is None else config.subreddits
    return sorted({name.lower() for name in chosen})


def _selected(builder: Builder, threads: Rows, config: Read) -> Rows:
    """The threads that the preset's rules (eli5 or writing_prompts) select, with the limits of the settings or else
    those of the preset; all threads without a preset.
    """
    if config.preset == "eli5":
        return select_eli5(
            builder,
            threads,
            min_score=2 if config.min_score is None else config.min_score,
            min_words=8 if config.min_words is None else config.min_words,
            first_month=config.first_month,
            last_month=config.last_month,
        )
    if config.preset == "writing_prompts":
        min_words = 30 if config.min_words is None else config.min_words
        return select_prompts(builder, threads, tags=config.tags, min_words=min_words, min_score=config.min_score)
    return threads
