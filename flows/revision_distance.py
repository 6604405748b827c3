"""The revision-distance dataset: drafts, the edits that a reader would still make, their count (Revision Distance)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from flows.config.endpoints import (
    ModelSettings,
    check_request_parameters,
    endpoint_of_stage,
    sampling,
)
from flows.config.inputs import ACCOUNTS, check_accounts, listed, opened
from flows.config.prompts import PROMPTS
from flows.registry import model_stages
from flows.sources import paper_sets, ultrafeedback, wildchat
from longform.artifacts.rows import Rows
from longform.engine.stage import Builder
from longform.errors import UsageError
from longform.llm.ask.prompts import load_prompt, prompt_folders
from longform.llm.ask.types import Endpoint
from schemas.replies import INTENTIONS
from tasks.publishing.card import Paper, Wording
from tasks.publishing.publish import About, Table, set_publication
from tasks.revision_distance.audits import AUDITS
from tasks.revision_distance.cases.draws import check_requests, draw_candidates, take_cases
from tasks.revision_distance.cases.related import find_cited
from tasks.revision_distance.cases.requests import check_languages
from tasks.revision_distance.cases.selection import select_conversations, select_preferences
from tasks.revision_distance.cases.structure import open_pairs, read_structure
from tasks.revision_distance.cases.versions import keep_one_version
from tasks.revision_distance.drafts.drafting import (
    PERSPECTIVES,
    collect_drafts,
    recall_knowledge,
    take_given,
    write_cot,
    write_segments,
    write_strong,
    write_vanilla,
    write_weak,
)
from tasks.revision_distance.drafts.editing import place_edits, propose_edits
from tasks.revision_distance.drafts.measure import WEIGHTS
from tasks.revision_distance.drafts.scores import check_bertscore, rate_drafts, score_drafts
from tasks.revision_distance.drafts.signature import named
from tasks.revision_distance.form import sheets as sheets
from tasks.revision_distance.judgements import collect_judgements, open_judgements, read_judgements
from tasks.revision_distance.offline import RULES
from tasks.revision_distance.published import name_sources, publish_drafts, publish_edits
from tasks.revision_distance.report import figures, tables
from tasks.revision_distance.takedown import responses_of as responses_of
from tasks.revision_distance.trace import trace as trace
from tasks.sources.papers import duplicates
from tasks.sources.papers.related import related_paragraphs
from tasks.text.scrub import REGIONS

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "data" / "samples" / "revision_distance"
PROMPT_NAMES = (
    "check_request",
    "write",
    "related_vanilla",
    "recall",
    "segment",
    "related_cot",
    "edit_to_reference",
    "edit_freely",
    "rate",
)
LOW_EFFORT = (("effort", "low"),)

OFFLINE = RULES
ABOUT = About(
    dataset="revision-distance",
    title="Drafts and the edits that a reader would still make",
    summary=(
        "Drafts of e-mails, letters, articles and related-work paragraphs by a weaker and a stronger writer, with "
        "the list of edits that a reader would still make to each: towards a reference text, or towards the text "
        "the reader has in mind. Their number is the revision distance: the lower, the better. Beside it stand "
        "ROUGE, other baselines, and which of two texts was preferred."
    ),
    paper=Paper(
        title=(
            "From Model-centered to Human-Centered: Revision Distance as a Metric for Text Evaluation in "
            "LLMs-based Applications"
        ),
        citation=(
            "Yongqiang Ma, Lizhi Qing, Jiawei Liu, Yangyang Kang, Yue Zhang, Wei Lu, Xiaozhong Liu, Qikai Cheng. "
            "From Model-centered to Human-Centered: Revision Distance as a Metric for Text Evaluation in LLMs-based "
            "Applications. 2024. arXiv:2404.07108."
        ),
    ),
    wording=Wording(
        licences="Each row names the licence of the record it was made from, where that is known.",
        credit=(
            "Whoever passes on rows, or texts made from them, must name their sources: `attribution.parquet` lists "
            "the record of every case and every cited paper, with address, licence and, where that asks for them, "
            "authors."
        ),
        changes="Mail addresses, phone numbers and handles in the texts of cases are replaced by marks.",
        traced="the source's record, the draft and its model, the edits and their placement, what experts said",
        tasks=("text-generation",),
    ),
    first_settings="wildchat, ultrafeedback, papers and model",
)


class RevisionDistanceConfig(ModelSettings):
    """Settings of the revision-distance dataset."""

    MODEL_STAGES: ClassVar = model_stages(globals())

    wildchat: str | list[str] = Field(
        str(SAMPLES / "wildchat.jsonl"), description="WildChat's files, for the easy task; [] leaves it out"
    )
    ultrafeedback: str | list[str] = Field(
        str(SAMPLES / "ultrafeedback.jsonl"), description="UltraFeedback's files, for the task without references"
    )
    papers: str | list[str] = Field(
        str(SAMPLES / "acl_ocl"), description="papers, for the hard task: folders or files of `papers_source`"
    )
    papers_source: paper_sets.PapersSource = Field(
        "acl_ocl", description="what `papers` are; files: PDFs and TEI of your own, e.g. fetched from OpenReview"
    )
    metadata: str | list[str] = Field(
        [], description="for papers_source = files: cited papers, as .jsonl of your own, of OpenReview or of S2"
    )
    structure: str | list[str] = Field(
        str(SAMPLES / "structure.jsonl"), description="pairs of texts that differ in order only (table 5): .jsonl"
    )
    retrieved_at: str | None = Field(None, description="when the files were fetched, where no fetch noted it")
    toxic: bool = Field(False, description="keep conversations that were flagged as toxic")
    kinds: list[Literal["email", "letter", "article"]] = Field(
        ["email", "letter", "article"], min_length=1, description="kinds of writing of the easy task"
    )
    languages: list[str] = Field(["English"], min_length=1, description="of conversations, as WildChat names them")
    easy: int | None = Field(147, ge=0, description="cases of the easy task; unset (--set easy=none): all there are")
    hard: int | None = Field(90, ge=0, description="cases of the hard task; unset: all there are")
    free: int | None = Field(41, ge=0, description="cases of the task without references; unset: all there are")
    limit: int | None = Field(None, ge=1, description="at most this many cases of each task: a pilot")
    least_words: int = Field(50, ge=1, description="shorter references are left out")
    most_words: int = Field(2_000, ge=1, description="longer references are left out")
    least_cited: int = Field(2, ge=1, description="cited papers with abstracts that a related-work paragraph needs")
    check: bool = Field(True, description="let the model check that a request asks for a piece of writing")
    spare: float = Field(1.5, ge=1, le=10, description="requests checked for each case that is wanted")
    easy_parameters: dict[str, Any] = Field(
        {"temperature": 0.9, "top_p": 0.95, "seed": 41, "stop": ["</s>"]},
        description="of the writers of the easy task, where an endpoint does not say otherwise (table 4); set whole",
    )
    hard_parameters: dict[str, Any] = Field(
        {"temperature": 1.0}, description="of the writers of related work (appendix C); set whole"
    )
    editor_parameters: dict[str, Any] = Field(
        {"temperature": 0, "seed": 41},
        description="of the model that lists the edits, where its endpoint does not say otherwise; set whole, {} for a "
        "server that takes none of these",
    )
    seed: int = Field(0, description="of every draw: cases, rejected texts, sides of sheets")
    weights: dict[str, float] = Field(
        dict(WEIGHTS), description="of edits by intention, for the weighted distance; the paper counts each as 1"
    )
    gpt_score: bool = Field(True, description="let the model rate drafts from 0 to 100 beside their references")
    bertscore: str | None = Field(
        None, description="model of BERTScore, e.g. roberta-large; needs the package bert_score"
    )
    judgements: str | list[str] = Field(
        [],
        description="filled-in sheets of the expert study: .jsonl, .csv, or exports of Label Studio or Argilla as JSON",
    )
    accounts: dict[str, dict[str, str]] = Field({}, description=ACCOUNTS)

    @field_validator("weights")
    @classmethod
    def weights_are_of_intentions(cls, value: dict[str, float]) -> dict[str, float]:
        """The weights, with the default weight for each intention that is not given; ValueError for an unknown
        intention, or a weight outside 0 to 1000.
        """
        for name, weight in value.items():
            if name not in INTENTIONS:
                raise ValueError(f"there is no intention {name}; there is {', '.join(INTENTIONS)}")
            if not 0 <= weight <= 1_000:
                raise ValueError(f"the weight of {name} is {weight}: give a number from 0 to 1000")
        return {**WEIGHTS, **value}

    @field_validator("easy_parameters", "hard_parameters", "editor_parameters")
    @classmethod
    def are_not_set_by_build(cls, value: dict[str, Any]) -> dict[str, Any]:
        """The request parameters unchanged; ValueError if one of them is set by the build itself."""
        return check_request_parameters(value)

    @model_validator(mode="after")
    def settings_agree(self) -> Self:
        """The settings unchanged; ValueError for accounts of files that `judgements` does not name, and if least_words
        is more than most_words.
        """
        check_accounts(self.accounts, self.judgements)
        if self.least_words > self.most_words:
            raise ValueError("least_words is more than most_words, so that no text fits")
        return self


def rebuild(builder: Builder, config: RevisionDistanceConfig) -> None:
    """Call the stages of the revision-distance dataset in order, and last `set_publication`, with the settings of
    `config`. `builder` makes the stages, or only records the calls (a `Method`).

    UsageError or SourceError if a setting names an endpoint, a prompt or a file that cannot be used. A `Method` with
    `until` ends the calls early, with UntilReached.
    """
    model, prompt, case_numbers = endpoints_by_stage(config), prompts(config), cases_by_task(config)
    lengths = {"least_words": config.least_words, "most_words": config.most_words}
    check_bertscore(config.bertscore)
    check_languages(config.languages)

    conversations, completions = conversations_of(builder, config), completions_of(builder, config)
    papers, metadata = paper_sets.texts_and_metadata(
        builder, config.papers_source, listed(config.papers), listed(config.metadata), config.retrieved_at
    )
    easy = select_conversations(
        builder, conversations, kinds=config.kinds, languages=config.languages, regions=list(REGIONS), **lengths
    )
    free = select_preferences(builder, completions, seed=config.seed, regions=list(REGIONS), **lengths)
    related = related_paragraphs(builder, papers)
    versions = duplicates.find_duplicates_of(builder, papers)
    cited = find_cited(builder, related, papers, metadata, versions, least_cited=config.least_cited, **lengths)
    hard = keep_one_version(builder, cited, versions)
    structure = read_structure(builder, opened(builder, open_pairs, config.structure))

    spare = config.spare if config.check else 1.0  # requests for each case that is wanted: 1 if no check declines any
    candidates = draw_candidates(builder, easy, free, hard, numbers=case_numbers, spare=spare, seed=config.seed)
    checked = check_requests(
        builder,
        candidates,
        model=model["check_requests"] if config.check else None,
        prompt=prompt["check_request"] if config.check else None,
    )
    cases = take_cases(builder, candidates, checked, structure, numbers=case_numbers, seed=config.seed)

    weak = write_weak(builder, cases, model=model["write_weak"], prompt=prompt["write"])
    strong = write_strong(builder, cases, model=model["write_strong"], prompt=prompt["write"])
    vanilla = write_vanilla(builder, cases, model=model["write_vanilla"], prompt=prompt["related_vanilla"])
    knowledge = recall_knowledge(builder, cases, model=model["recall_knowledge"], prompt=prompt["recall"])
    segments = write_segments(
        builder,
        cases,
        knowledge,
        model=model["write_segments"],
        prompt=prompt["segment"],
        perspectives=list(PERSPECTIVES),
    )
    cot = write_cot(builder, cases, knowledge, segments, model=model["write_cot"], prompt=prompt["related_cot"])
    drafts = collect_drafts(builder, cases, weak, strong, vanilla, cot, take_given(builder, cases))

    edits = propose_edits(
        builder,
        drafts,
        cases,
        model=model["propose_edits"],
        to_reference=prompt["edit_to_reference"],
        freely=prompt["edit_freely"],
    )
    distances = place_edits(builder, edits, drafts, cases, weights=config.weights, editor=named(model["propose_edits"]))
    scores = score_drafts(builder, drafts, cases, bertscore=config.bertscore)
    ratings = rate_drafts(
        builder,
        drafts,
        cases,
        model=model["rate_drafts"] if config.gpt_score else None,
        prompt=prompt["rate"] if config.gpt_score else None,
    )
    opening = partial(open_judgements, accounts=config.accounts)
    filled_in = read_judgements(builder, opened(builder, opening, config.judgements), drafts)
    judgements = collect_judgements(builder, filled_in)

    published = publish_drafts(builder, drafts, cases, distances, edits, scores, ratings, judgements)
    edit_rows = publish_edits(builder, distances, edits)
    sources = name_sources(builder, cases, papers, metadata)
    set_publication(
        builder,
        ABOUT,
        [Table("drafts", published), Table("edits", edit_rows)],
        sources,
        tables=lambda: tables(cases, candidates, checked, published, judgements),
        figures=lambda: figures(published),
        audits=AUDITS,
    )


def prompts(config: RevisionDistanceConfig) -> dict[str, Any]:
    """prompt name -> prompt, for all prompts of the dataset; files in the folder of the setting `prompts` replace the
    project's. UsageError if that folder or a prompt in it is wrong.
    """
    folders = prompt_folders(config.prompts, PROMPTS)
    return {name: load_prompt(f"revision_distance/{name}", *folders) for name in PROMPT_NAMES}


def cases_by_task(config: RevisionDistanceConfig) -> dict[str, int | None]:
    """task (easy, hard, free) -> the number of cases to take at most: the task's own setting or `limit`, whichever is
    less; None, for all cases, if neither is set.
    """
    numbers = {"easy": config.easy, "hard": config.hard, "free": config.free}
    limits = {task: [most for most in (number, config.limit) if most is not None] for task, number in numbers.items()}
    return {task: min(most, default=None) for task, most in limits.items()}


def endpoints_by_stage(config: RevisionDistanceConfig) -> dict[str, Endpoint]:
    """stage -> the endpoint that it asks, for all stages that ask a model. Stages that write drafts have the sampling
    parameters of the configuration (by default the paper's), and so has the one that lists edits.

    If write_weak asks the offline model, it follows the same rules with less effort. Else UsageError if write_weak and
    write_strong ask the same model, unless no easy cases are wanted.
    """
    found = {stage: endpoint_of_stage(stage, config) for stage in config.MODEL_STAGES}
    easy = dict.fromkeys(("write_weak", "write_strong"), config.easy_parameters)
    hard = dict.fromkeys(("write_vanilla", "recall_knowledge", "write_segments", "write_cot"), config.hard_parameters)
    editor = {"propose_edits": config.editor_parameters}
    found |= {stage: sampling(found[stage], own) for stage, own in {**easy, **hard, **editor}.items()}
    weak, strong = found["write_weak"], found["write_strong"]
    if weak.offline:
        found["write_weak"] = replace(weak, parameters=LOW_EFFORT)
    elif weak.identity() == strong.identity() and config.easy != 0:
        raise UsageError(
            f'write_weak and write_strong both ask the model {weak.model} of endpoint "{weak.name}": '
            'name another endpoint in [stages.write_weak] model = "...", or set easy = 0.'
        )
    return found


def conversations_of(builder: Builder, config: RevisionDistanceConfig) -> Rows:
    """The conversations of the WildChat files that the configuration names, without records that are taken down and,
    unless `toxic` is set, without those flagged as toxic; an empty table if it names no file.
    """
    paths = listed(config.wildchat)
    reading = wildchat.Read(toxic=config.toxic, retrieved_at=config.retrieved_at)
    return wildchat.conversations(
        builder, wildchat.opened(builder, paths, reading) if paths else [], toxic=config.toxic
    )


def completions_of(builder: Builder, config: RevisionDistanceConfig) -> Rows:
    """The instructions of the UltraFeedback files that the configuration names, each with the rated answers of several
    models, without records that are taken down; an empty table if it names no file.
    """
    paths = listed(config.ultrafeedback)
    reading = ultrafeedback.Read(retrieved_at=config.retrieved_at)
    return ultrafeedback.completions(builder, ultrafeedback.opened(builder, paths, reading) if paths else [])
