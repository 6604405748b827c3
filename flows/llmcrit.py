"""The llmcrit dataset: guidelines, their criteria, demonstrations, feedback, and its layered evaluation (LLMCrit)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from flows.config.endpoints import ModelSettings, endpoint_of, endpoint_of_stage, sampling
from flows.config.inputs import ACCOUNTS, check_accounts, listed, opened
from flows.config.prompts import PROMPTS
from flows.registry import model_stages
from flows.sources import commitpackft, reddit
from flows.sources import papers as own_papers
from longform.artifacts.rows import Rows, Source
from longform.engine.stage import Builder
from longform.errors import UsageError
from longform.llm.ask.prompts import load_prompt, prompt_folders
from longform.llm.ask.types import Endpoint
from longform.pseudonyms import NoAuthors
from tasks.llmcrit.audits import AUDITS
from tasks.llmcrit.criteria.criteria import distinct_criteria, propose_criteria
from tasks.llmcrit.criteria.guidelines import collect_aspects, open_guidelines, read_guidelines
from tasks.llmcrit.criteria.released import EXPORTS as EXPORTS
from tasks.llmcrit.criteria.released import (
    gather_demonstrations,
    open_released,
    released_aspects,
    released_criteria,
    released_demonstrations,
)
from tasks.llmcrit.feedback.feedback import TFIDF, check_embedding, choose_feedback, give_feedback
from tasks.llmcrit.feedback.layers import judge_context, judge_critiques, judge_validity
from tasks.llmcrit.feedback.planted import check_judges, mix_planted, plant_feedback
from tasks.llmcrit.form import FORMS as FORMS
from tasks.llmcrit.offline import RULES
from tasks.llmcrit.people.judgements import (
    collect_judgements,
    open_judgements,
    read_context_judgements,
    read_critique_judgements,
    read_validity_judgements,
)
from tasks.llmcrit.people.reviews import (
    open_reviews,
    read_criterion_reviews,
    read_demonstration_reviews,
    review_criteria,
    review_demonstrations,
)
from tasks.llmcrit.published import name_sources, publish_critiques, publish_feedback
from tasks.llmcrit.report import agreement_tables, doubts, figures, tables
from tasks.llmcrit.takedown import responses_of as responses_of
from tasks.llmcrit.task import WritingTask, load_tasks
from tasks.llmcrit.texts.changes import change_texts, plan_changes, take_texts, verify_changes
from tasks.llmcrit.texts.demonstrations import write_demonstrations
from tasks.llmcrit.texts.draw import (
    code_texts,
    draw_texts,
    open_texts,
    own_texts,
    post_texts,
    section_texts,
    settings_of,
)
from tasks.publishing.card import Paper, Wording
from tasks.publishing.publish import About, Table, set_publication
from tasks.sources.admission import listed_in
from tasks.sources.papers.paper_ids import PAPER_GROUPS
from tasks.sources.reddit.dumps import open_dumps

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "data" / "samples" / "llmcrit"
PROMPT_NAMES = (
    "propose_criteria", "violate", "meet", "meet_or_leave", "verify", "demonstrate", "feedback_base", "feedback_crit",
    "feedback_icl", "feedback_cricl", "judge_validity", "judge_context", "judge_critique",
)  # fmt: skip
OWN_GROUPS = ("own", "web", *PAPER_GROUPS)  # of takedowns that may mean a text of one's own, by its id or address
JUDGES = ("verify_changes", "judge_validity", "judge_context", "judge_critiques")

OFFLINE = RULES
ABOUT = About(
    dataset="llmcrit",
    title="Criteria, demonstrations, and feedback on writing with its layered evaluation",
    summary=(
        "Criteria that were derived from guidelines, texts that violate or meet them with feedback on them, and "
        "feedback on introductions of papers, program code and story prompts by four strategies: with nothing but the "
        "text, with criteria, with demonstrations, with both. Four layers say of each feedback whether it is specific, "
        "belongs to its text, criticises, and helps."
    ),
    paper=Paper(
        title="LLMCrit: Teaching Large Language Models to Use Criteria",
        citation=(
            "Weizhe Yuan, Pengfei Liu, Matthias Gallé. LLMCrit: Teaching Large Language Models to Use Criteria. 2024. "
            "arXiv:2403.01069."
        ),
    ),
    wording=Wording(
        licences="Each row names the licence of the text that it was made from, where that is known.",
        credit=(
            "Whoever passes on rows, or texts made from them, must name their sources: `attribution.parquet` lists the "
            "record of every text and the document of every guideline, with address, licence and, where that asks for "
            "them, authors."
        ),
        changes="Half of the test texts were changed by a model to violate criteria; the text before is in the row.",
        traced="its text and that text's record, its criteria, the model that wrote it, and each judge's verdict",
        tasks=("text-generation", "text-classification"),
    ),
    first_settings="tasks and model",
)


class LLMCritConfig(ModelSettings):
    """Settings of the llmcrit dataset."""

    MODEL_STAGES: ClassVar = model_stages(globals())

    tasks: list[str] = Field(
        [str(SAMPLES / name) for name in ("introductions", "code", "posts")],
        min_length=1,
        description="folders, one for each kind of writing: task.toml, guidelines/ or criteria.jsonl",
    )
    sources: dict[str, str | list[str]] = Field(
        {}, description="task -> where its texts are, in place of what its task.toml says"
    )
    texts: int = Field(100, ge=0, description="test texts of each task, half of them modified; 0: only criteria")
    limit: int | None = Field(None, ge=1, description="at most this many test texts of each task: a pilot")
    characters: int = Field(20_000, ge=200, description="longer texts are left out")
    retrieved_at: str | None = Field(None, description="when the files were fetched, where no fetch noted it")
    similar: float = Field(0.8, gt=0, le=1, description="shared words from which a proposed criterion is a duplicate")
    least_verified: float = Field(
        0.5, ge=0, le=1, description="share of its violations that the judge must find in a demonstration"
    )
    reviewed_only: bool = Field(False, description="leave out criteria and demonstrations that nobody accepted")
    strategies: list[Literal["base", "crit", "icl", "cricl"]] = Field(
        ["base", "crit", "icl", "cricl"], min_length=1, description="by which feedback is asked for"
    )
    single: list[str] = Field([], description="tasks of which crit is also asked one criterion at a time (table 4)")
    samples: int = Field(5, ge=1, le=20, description="of each feedback, of which the most central one is kept")
    sampling: dict[str, Any] = Field(
        {"temperature": 0.5, "top_p": 1.0},
        description="of feedback, where an endpoint does not say otherwise; set whole",
    )
    embedding: str = Field(
        TFIDF, description="by what samples are compared: tfidf, an endpoint, or a sentence-transformers model"
    )
    planted: int = Field(10, ge=0, description="texts of each task on which feedback is planted to check the judges")
    least_agreement: float = Field(
        0.8, ge=0, le=1, description="agreement with people below which a judge marks its tables"
    )
    seed: int = Field(0, description="of every draw")
    criterion_reviews: str | list[str] = Field([], description="filled-in sheets: longform sheets --form criteria")
    demonstration_reviews: str | list[str] = Field([], description="filled-in sheets: --form demonstrations")
    validity_judgements: str | list[str] = Field([], description="filled-in sheets: --form validity")
    context_judgements: str | list[str] = Field([], description="filled-in sheets: --form context")
    critique_judgements: str | list[str] = Field([], description="filled-in sheets: --form critiques")
    accounts: dict[str, dict[str, str]] = Field({}, description=ACCOUNTS)

    @model_validator(mode="after")
    def accounts_are_of_sheets(self) -> Self:
        """The settings unchanged; ValueError for accounts of files that no setting of sheets names."""
        named = [getattr(self, name) for name in type(self).model_fields if name.endswith(("_reviews", "_judgements"))]
        check_accounts(self.accounts, *named)
        return self


def rebuild(builder: Builder, config: LLMCritConfig) -> None:
    """Call the stages of the llmcrit dataset in order, and last `set_publication`, with the settings of `config`.

    UsageError or SourceError if a setting names a task, an endpoint, a prompt or a file that cannot be used. A `Method`
    with `until` ends the calls early, with UntilReached.
    """
    tasks, prompt = tasks_of(config), prompts(config)
    model, embedding = endpoints_by_stage(config), embedding_of(config)
    voices = {task.name: {"role": task.role, "noun": task.noun} for task in tasks}
    rubrics = {task.name: rubric(task) for task in tasks}
    kinds = {task.name: task.kinds for task in tasks if not task.criteria}

    def asking(stage: str, name: str) -> dict[str, Any]:
        """The arguments by which a stage asks its model with a prompt."""
        return {"model": model[stage], "prompt": prompt[name]}

    def sheets(opening: Any, setting: str) -> list[Source]:
        """The filled-in sheets that a setting names."""
        return opened(builder, partial(opening, accounts=config.accounts), getattr(config, setting))

    released = open_released(tasks, builder.digests)
    guided = read_guidelines(builder, open_guidelines(tasks, builder.digests))
    aspects = collect_aspects(builder, guided, released_aspects(builder, released))
    proposed = propose_criteria(builder, guided, **asking("propose_criteria", "propose_criteria"), voices=voices)
    distinct = distinct_criteria(builder, proposed, released_criteria(builder, released), similar=config.similar)
    said = read_criterion_reviews(builder, sheets(open_reviews, "criterion_reviews"), distinct, aspects)
    criteria = review_criteria(builder, distinct, said, reviewed_only=config.reviewed_only)

    imported = released_demonstrations(builder, released)
    drawn = draw_texts(
        builder,
        *candidates(builder, config, tasks),
        imported,
        texts=config.texts if config.limit is None else min(config.texts, config.limit),
        demonstrations={name: len(of) for name, of in kinds.items()},
        popular={task.name: task.texts.most_popular for task in tasks},
        characters=config.characters,
        seed=config.seed,
    )
    changes = plan_changes(builder, drawn, aspects, criteria, kinds=kinds, seed=config.seed)
    by_kind = {name: prompt[name] for name in ("violate", "meet", "meet_or_leave")}
    changed = change_texts(builder, changes, aspects, model=model["change_texts"], **by_kind, voices=voices)
    complied = verify_changes(builder, changed, **asking("verify_changes", "verify"), voices=voices)
    written = write_demonstrations(
        builder,
        changed,
        complied,
        aspects,
        **asking("write_demonstrations", "demonstrate"),
        voices=voices,
        least_verified=config.least_verified,
    )
    gathered = gather_demonstrations(builder, written, imported)
    said = read_demonstration_reviews(builder, sheets(open_reviews, "demonstration_reviews"), gathered)
    demonstrations = review_demonstrations(builder, gathered, said, reviewed_only=config.reviewed_only)

    texts = take_texts(builder, drawn, changed)
    given = give_feedback(
        builder,
        texts,
        aspects,
        criteria,
        demonstrations,
        model=model["give_feedback"],
        prompts={strategy: prompt[f"feedback_{strategy}"] for strategy in config.strategies},
        voices=voices,
        samples=config.samples,
        single=config.single,
    )
    feedback = choose_feedback(builder, given, texts, criteria, embedding=embedding)

    nouns = {task.name: task.noun for task in tasks}
    planted = plant_feedback(builder, texts, texts, criteria, number=config.planted, nouns=nouns, seed=config.seed)
    mixed = mix_planted(builder, feedback, planted)
    validity = judge_validity(builder, mixed, **asking("judge_validity", "judge_validity"), rubrics=rubrics)
    belongs = judge_context(
        builder, mixed, validity, texts, **asking("judge_context", "judge_context"), rubrics=rubrics
    )
    critiques = judge_critiques(
        builder, mixed, belongs, texts, criteria, **asking("judge_critiques", "judge_critique"), rubrics=rubrics
    )
    judged = sheets(open_judgements, "validity_judgements")
    of_validity = read_validity_judgements(builder, judged, feedback, validity)
    judged = sheets(open_judgements, "context_judgements")
    of_context = read_context_judgements(builder, judged, feedback, texts, belongs)
    judged = sheets(open_judgements, "critique_judgements")
    of_critiques = read_critique_judgements(builder, judged, critiques, feedback, texts, criteria)
    judgements = collect_judgements(builder, of_validity, of_context, of_critiques)

    published = publish_feedback(builder, feedback, validity, belongs, critiques, texts, aspects)
    by_criterion = publish_critiques(builder, critiques, feedback, texts, criteria)
    checks = check_judges(builder, planted, validity, belongs, critiques)
    further = {"aspects": aspects, "criteria": criteria, "demonstrations": demonstrations, "texts": texts}
    every = {"feedback": published, "critiques": by_criterion, **further, "checks": checks, "judgements": judgements}
    set_publication(
        builder,
        ABOUT,
        [Table(name, rows) for name, rows in every.items()],
        name_sources(builder, drawn, demonstrations, aspects),
        tables=lambda: [
            *tables(published, by_criterion, checks, criteria, texts, doubts(judgements, config.least_agreement)),
            *agreement_tables(judgements),
        ],
        figures=lambda: figures(published),
        audits=AUDITS,
    )


def tasks_of(config: LLMCritConfig) -> list[WritingTask]:
    """The tasks of the folders that the configuration names. UsageError for a wrong folder, and for a task that
    `sources` or `single` names and that there is not.
    """
    tasks = load_tasks(config.tasks)
    names = [task.name for task in tasks]
    for setting, of in (("sources", config.sources), ("single", config.single)):
        if unknown := [name for name in of if name not in names]:
            raise UsageError(f'{setting} names the task "{unknown[0]}"; there is {", ".join(names)}.')
    return tasks


def rubric(task: WritingTask) -> dict[str, Any]:
    """What the judges of a task are told of it."""
    told = task.model_dump(include={"noun", "role", "mixed", "unhelpful", "specific", "not_specific"})
    return {**told, "examples": [text for example in task.judged for text in example.shown()]}


def prompts(config: LLMCritConfig) -> dict[str, Any]:
    """prompt name -> prompt, for all prompts of the dataset; files in the folder of the setting `prompts` replace the
    project's. UsageError if that folder or a prompt in it is wrong.
    """
    folders = prompt_folders(config.prompts, PROMPTS)
    return {name: load_prompt(f"llmcrit/{name}", *folders) for name in PROMPT_NAMES}


def endpoints_by_stage(config: LLMCritConfig) -> dict[str, Endpoint]:
    """stage -> the endpoint that it asks, for all stages that ask a model: with the setting `sampling` where feedback
    is written, with temperature 0 where a judge is asked.
    """
    found = {stage: endpoint_of_stage(stage, config) for stage in config.MODEL_STAGES}
    found["give_feedback"] = sampling(found["give_feedback"], config.sampling)
    return found | {stage: sampling(found[stage], {"temperature": 0.0}) for stage in JUDGES}


def embedding_of(config: LLMCritConfig) -> str | Endpoint:
    """By what samples are compared: an endpoint, or a name. UsageError for a local model without its package."""
    known = config.embedding in config.endpoints
    embedding = endpoint_of(config.embedding, config.endpoints) if known else config.embedding
    check_embedding(embedding)
    return embedding


def candidates(builder: Builder, config: LLMCritConfig, tasks: list[WritingTask]) -> tuple[Rows, Rows, Rows, Rows]:
    """The texts that may be drawn: sections of papers, files of commits, posts, own texts; without what is taken down,
    and empty where no task has such texts.
    """

    def paths(source: str) -> list[Path]:
        of = [task for task in tasks if task.texts.source == source]
        return [path for task in of for path in where(config, task)]

    dumps = open_dumps(paths("posts"), builder.digests, config.retrieved_at) if paths("posts") else []
    own = [(task.name, where(config, task)) for task in tasks if task.texts.source == "files"]
    read = own_papers.gathered(builder, paths("papers"), own_papers.Read())
    commits = commitpackft.commits(builder, paths("commits"), config.retrieved_at)
    subreddits = {name.lower() for task in tasks if task.texts.source == "posts" for name in task.texts.subreddits}
    _, items = reddit.read_and_admit(builder, dumps, sorted(subreddits), NoAuthors())
    return (
        section_texts(builder, read, tasks=settings_of(tasks, "papers")),
        code_texts(builder, commits, tasks=settings_of(tasks, "commits")),
        post_texts(builder, items, tasks=settings_of(tasks, "posts")),
        own_texts(builder, open_texts(own, builder.digests), **listed_in(builder.store.home, OWN_GROUPS)),
    )


def where(config: LLMCritConfig, task: WritingTask) -> list[Path]:
    """Where the texts of a task are: what `sources` names for it, else its own paths."""
    return listed(config.sources[task.name]) if task.name in config.sources else task.paths
