"""Research questions: answered in every condition, scored, and compared by people (section 4.3 of the paper)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Self

from pydantic import Field, model_validator

from flows.config.endpoints import EndpointName, endpoint_of, endpoint_of_stage
from flows.config.inputs import listed, opened
from flows.config.prompts import PROMPTS
from flows.config.web import WebConfig, backend_of, crawl_of
from flows.preference.community import ALL_SAMPLES, CommunitySettings
from longform.artifacts.rows import Rows
from longform.engine.stage import Builder
from longform.errors import UsageError
from longform.llm.ask.prompts import Prompt, load_prompt, prompt_folders
from longform.llm.ask.types import Endpoint
from longform.llm.offline import ENDPOINT as OFFLINE_ENDPOINT
from tasks.axioms.judging.requests import JUDGE_PROMPTS
from tasks.axioms.research.answers import (
    CLOSED,
    CONDITIONS,
    GUIDED,
    IN_ASSISTANT,
    IN_PLAN,
    IN_REPAIR,
    MOST_MODELS,
    NAIVE,
    PLAN,
    REPAIR,
    Condition,
    answer_research_closed,
    assist_research,
    list_research_steps,
    plan_research,
    repair_research,
)
from tasks.axioms.research.assistant import Limits
from tasks.axioms.research.compared import (
    MOST_JUDGES,
    collect_research_judgements,
    pair_research,
    read_research_judgements,
    score_research,
)
from tasks.axioms.research.compared import open_judgements as open_research_judgements
from tasks.axioms.research.guide import check_guide
from tasks.axioms.research.questions import (
    PAGE_ENDINGS,
    QUESTION_ENDINGS,
    read_research_pages,
    read_research_questions,
)
from tasks.axioms.scoring.scorers import Scorer, scorer_of
from tasks.sources.admission import listed_in, taken_down
from tasks.sources.files.inputs import open_files
from tasks.sources.web.documents import PIECE_BYTES

RESEARCH = ALL_SAMPLES / "research"
CONVERSING_STAGES = ("assist_research", "plan_research", "repair_research")
RESEARCH_STAGES = ("answer_research_closed", *CONVERSING_STAGES)
PROMPT_NAMES = (
    *("closed_book", "research_queries", "research_plan", "research_summarise", "research_update", "research_ground"),
    *("research_review", "research_repair"),
)
PAGES = ("web",)  # the group of takedowns that may mean a page


class ResearchSettings(CommunitySettings):
    """Settings of research questions."""

    research_questions: str | list[str] = Field(
        str(RESEARCH / "questions.jsonl"), description="research: hard questions, .jsonl with question; [] for none"
    )
    research_conditions: list[Condition] = Field(
        list(CONDITIONS), description="research: the ways in which they are answered; repair needs assistant_guided"
    )
    research_models: list[EndpointName] = Field(
        [],
        max_length=MOST_MODELS,
        description="research: endpoints that answer closed-book; []: `model`. The others: [stages.assist_research], "
        "plan_research, repair_research",
    )
    research_pages: str | list[str] = Field(
        str(RESEARCH / "pages.jsonl"),
        description="research: pages to search, .jsonl or .parquet with url and text, .md, .txt",
    )
    research_web: WebConfig | None = Field(
        None,
        description='research: a search engine instead, e.g. { kind = "searxng", url = "http://127.0.0.1:8080" }',
    )
    research_guide: str | None = Field(
        None,
        description="research: the scorer that guides the assistant: judge:ENDPOINT:pointwise, encoder:FOLDER or "
        "length; unset: a judge by the assistant's own endpoint",
    )
    research_queries: int = Field(3, ge=1, le=20, description="research: queries that are searched for an answer")
    research_results: int = Field(4, ge=1, le=20, description="research: results of a query that are looked at")
    research_updates: int = Field(5, ge=1, le=20, description="research: passages worked into an answer, one by one")
    research_rounds: int = Field(2, ge=1, le=10, description="research: rounds of repair, at most")
    research_scorers: list[str] = Field(
        ["length", "bm25", "judge:offline"],
        description="research: scorers of the report: length, bm25, judge:ENDPOINT[:pointwise][:plain], "
        "encoder:FOLDER, a file of scores; at most three judges",
    )
    research_pairs: int = Field(
        20, ge=0, description="research: pairs of answers for people, of each two kinds, at most; 0: none"
    )
    research_judgements: str | list[str] = Field(
        [], description="research: filled-in sheets of these pairs: longform sheets --form research"
    )

    @model_validator(mode="after")
    def research_can_be_done(self) -> Self:
        """The settings unchanged; ValueError for a condition, an endpoint or a scorer that is named twice, repair
        without the guided assistant, and a search without pages or web.
        """
        for name in ("research_conditions", "research_models", "research_scorers"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name} names one of them twice: name each once")
        if REPAIR in self.research_conditions and GUIDED not in self.research_conditions:
            raise ValueError(f"research_conditions has {REPAIR}, which repairs answers of {GUIDED}: name both")
        searching = listed(self.research_questions) and set(self.research_conditions) - {CLOSED}
        if searching and self.research_web is None and not listed(self.research_pages):
            raise ValueError("research_pages names no file and research_web is unset: set one, or leave out searches")
        return self


def questions_for_research(builder: Builder, config: ResearchSettings) -> Rows:
    """The questions for research; none if the setting names no file."""
    opening = partial(open_files, group="research", endings=QUESTION_ENDINGS)
    return read_research_questions(builder, opened(builder, opening, config.research_questions))


def answered_research(builder: Builder, config: ResearchSettings, questions: Rows) -> dict[str, Rows]:
    """config -> rows: answers to research questions in every condition, how they were made, pairs of them for people,
    and what these say; {} if no questions are given.
    """
    if not listed(config.research_questions):
        return {}
    runs = [make() for make in research_runs(builder, config, questions).values()]
    scorers = [research_scorer(builder, config, name) for name in config.research_scorers]
    judges = [scorer.endpoint for scorer in scorers if scorer.endpoint]
    if len(judges) > MOST_JUDGES:
        raise UsageError(f"research_scorers names {len(judges)} judges: at most {MOST_JUDGES} judge in one build.")
    first, second, third = [*judges, None, None, None][:3]
    encoder = next((scorer.encoder for scorer in scorers if scorer.encoder), None)
    answers = score_research(
        builder, questions, *runs, scorers=scorers, model=first, second=second, third=third, encoder=encoder
    )
    found = {"research": answers, "research_steps": list_research_steps(builder, answers, *runs)}
    if config.research_pairs:
        pairs = pair_research(builder, answers, each=config.research_pairs, seed=config.seed)
        found["research_pairs"] = pairs
        if listed(config.research_judgements):
            opening = partial(open_research_judgements, accounts=config.accounts)
            said = read_research_judgements(builder, opened(builder, opening, config.research_judgements), pairs)
            found["research_judgements"] = collect_research_judgements(builder, said)
    return found


def research_pages(builder: Builder, config: ResearchSettings) -> Rows:
    """The pages to search; none if the web is searched."""
    opening = partial(open_files, group="research", endings=PAGE_ENDINGS, piece_bytes=PIECE_BYTES)
    files = opened(builder, opening, [] if config.research_web else config.research_pages)
    return read_research_pages(builder, files, scrubbed=config.scrub, **listed_in(builder.store.home, PAGES))


def research_runs(builder: Builder, config: ResearchSettings, questions: Rows) -> dict[str, Callable[[], Rows]]:
    """stage -> the call that makes its answers to the questions, for each of RESEARCH_STAGES, in order. Stages of
    conditions that are not wanted make none.
    """
    wanted = set(config.research_conditions)
    folders = prompt_folders(config.prompts, PROMPTS)
    prompt = {name: load_prompt(f"axioms/{name}", *folders) for name in PROMPT_NAMES}
    model = {stage: endpoint_of_stage(stage, config) for stage in RESEARCH_STAGES}
    names = config.research_models or [model["answer_research_closed"].name]
    writers = [endpoint_of(name, config.endpoints) for name in names] if CLOSED in wanted else []
    first, second, third, fourth = [*writers, None, None, None, None][:MOST_MODELS]
    assisting: list[Any] = [name for name in (NAIVE, GUIDED) if name in wanted]
    guide, web = research_guide(builder, config), config.research_web
    search: Any = {
        "web": web and backend_of(web),
        "crawl": web and crawl_of(web, tuple(taken_down(builder.store.home)), give_up=True),
        "scrubbed": config.scrub,
    }
    guided: Any = {"judge_prompt": guide.prompt, "encoder": guide.encoder, "guide": guide}
    limits = Limits(
        proposed=2 * config.research_queries,
        queries=config.research_queries,
        results=config.research_results,
        pages=max(4, config.research_updates - 1),
        updates=config.research_updates,
        rounds=config.research_rounds,
    )

    def judge_of(stage: str) -> Endpoint | None:
        """The endpoint of the guide, where the stage does not ask it anyway."""
        return guide.endpoint if guide.endpoint and guide.endpoint.name != model[stage].name else None

    def prompts_of(names: tuple[str, ...]) -> dict[str, Prompt]:
        return {name: prompt[name] for name in names}

    pages = cache(lambda: research_pages(builder, config))

    @cache
    def assisted() -> Rows:
        return assist_research(
            builder, questions, pages(), model=model["assist_research"] if assisting else None,
            judge=judge_of("assist_research"),
            prompts=prompts_of(IN_ASSISTANT), conditions=assisting, limits=limits, **guided, **search,
        )  # fmt: skip

    return {
        "answer_research_closed": lambda: answer_research_closed(
            builder, questions, model=first, second=second, third=third, fourth=fourth, prompt=prompt["closed_book"]
        ),
        "assist_research": assisted,
        "plan_research": lambda: plan_research(
            builder, questions, pages(), model=model["plan_research"] if PLAN in wanted else None,
            prompts=prompts_of(IN_PLAN), limits=limits, **search,
        ),
        "repair_research": lambda: repair_research(
            builder, assisted(), model=model["repair_research"] if REPAIR in wanted else None,
            judge=judge_of("repair_research"),
            prompts=prompts_of(IN_REPAIR), limits=limits, **guided,
        ),
    }  # fmt: skip


def research_guide(builder: Builder, config: ResearchSettings) -> Scorer:
    """The scorer that guides the assistant. UsageError if there is none of this name, or it cannot guide."""
    own = f"judge:{config.endpoint_name('assist_research')}:pointwise"
    return check_guide(research_scorer(builder, config, config.research_guide or own))


def research_scorer(builder: Builder, config: ResearchSettings, name: str) -> Scorer:
    """The scorer of this name, with the endpoints and the prompts of the configuration."""
    folders = prompt_folders(config.prompts, PROMPTS)
    prompts = {each: load_prompt(f"axioms/{each}", *folders) for each in JUDGE_PROMPTS}
    endpoints = {each: endpoint_of(each, config.endpoints) for each in (OFFLINE_ENDPOINT.name, *config.endpoints)}
    return scorer_of(name, endpoints, builder.digests, prompts)
