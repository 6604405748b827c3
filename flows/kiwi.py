"""The kiwi dataset: research questions, and sessions in which an answer is revised by instructions (KIWI)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from flows.config.endpoints import (
    ModelSettings,
    check_request_parameters,
    endpoint_of,
    endpoint_of_stage,
    sampling,
)
from flows.config.inputs import ACCOUNTS, check_accounts, listed, opened
from flows.config.prompts import PROMPTS
from flows.registry import model_stages
from flows.sources import paper_sets
from longform.artifacts.rows import Source
from longform.engine.stage import Builder
from longform.llm.ask.prompts import load_prompt, prompt_folders
from longform.llm.ask.types import Endpoint
from tasks.kiwi.audits import AUDITS
from tasks.kiwi.documents import evidence_paragraphs, find_documents, match_evidence, split_passages
from tasks.kiwi.evaluation import collect_predictions, judge_following, predict_baselines, read_predictions
from tasks.kiwi.form import FORMS as FORMS
from tasks.kiwi.interaction import MOST_TURNS, SAMPLING
from tasks.kiwi.labels import label_errors, label_instructions
from tasks.kiwi.offline import RULES
from tasks.kiwi.people import (
    collect_said,
    open_said,
    read_category_labels,
    read_error_labels,
    read_failure_labels,
    read_second_ratings,
    read_written_questions,
)
from tasks.kiwi.published import name_sources, publish_questions, publish_sessions, publish_turns
from tasks.kiwi.questions import (
    check_answerable,
    collect_asked,
    collect_questions,
    drop_anchored,
    propose_questions,
    read_questions,
)
from tasks.kiwi.report import figures, tables
from tasks.kiwi.retrieval import Kind, check_retrieval
from tasks.kiwi.sessions.released import EXPORTS as EXPORTS
from tasks.kiwi.sessions.released import read_sessions
from tasks.kiwi.sessions.simulated import answer_first, simulate_sessions
from tasks.kiwi.sessions.turns import SplitBy, collect_sessions, list_turns, measure_edits, split_turns
from tasks.kiwi.takedown import responses_of as responses_of
from tasks.kiwi.trace import trace as trace
from tasks.publishing.card import Paper, Wording
from tasks.publishing.publish import About, Table, set_publication
from tasks.sources.admission import listed_in
from tasks.sources.files.inputs import open_files
from tasks.sources.papers import duplicates
from tasks.sources.papers.named import TITLES
from tasks.sources.papers.paper_ids import PAPER_GROUPS
from tasks.sources.papers.related import related_paragraphs

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "data" / "samples" / "kiwi"
PROMPT_NAMES = (
    "propose_questions", "check_answerable", "answer", "summarise", "update_information", "update_style", "instruct",
    "rate", "classify_instruction", "classify_error", "judge",
)  # fmt: skip
IN_SESSIONS = ("summarise", "update_information", "update_style", "instruct", "rate")
MOST_WRITERS = 3  # as in the paper
TAKEN_DOWN = (*PAPER_GROUPS, TITLES)  # groups of takedowns that may mean a paper
PAGE = Path("page") / "kiwi"  # of the home: the sessions that were finished on the page

OFFLINE = RULES
ABOUT = About(
    dataset="kiwi",
    title="Instructions for revising answers to research questions",
    summary=(
        "Sessions in which a reader has a model revise a long-form answer to a research question, turn by turn: the "
        "question with the papers that answer it, each instruction with its kind, the answer before and after, a "
        "rating with its reason, and the answer as the reader corrected it. Beside it what the instructions ask for, "
        "how revisions went wrong, what edits take, and whether a model can tell if an instruction was followed."
    ),
    paper=Paper(
        title="KIWI: A Dataset of Knowledge-Intensive Writing Instructions for Answering Research Questions",
        citation=(
            "Fangyuan Xu, Kyle Lo, Luca Soldaini, Bailey Kuehl, Eunsol Choi, David Wadden. KIWI: A Dataset of "
            "Knowledge-Intensive Writing Instructions for Answering Research Questions. Findings of ACL 2024. "
            "arXiv:2403.03866."
        ),
    ),
    wording=Wording(
        licences="Each row names the licence of the file or paper it was made from, where that is known.",
        credit=(
            "Whoever passes on rows, or texts made from them, must name their sources: `attribution.parquet` lists the "
            "source paper and the evidence papers of every question, with address and licence, and every session."
        ),
        changes="Answers and their revisions are by models; edited answers are by readers.",
        traced="its session, its question and papers, the passages, each model call, and what people said of it",
        tasks=("text-generation", "text-classification"),
    ),
    first_settings="papers, questions, sessions and model",
)


class KiwiConfig(ModelSettings):
    """Settings of the kiwi dataset."""

    MODEL_STAGES: ClassVar = model_stages(globals())
    CONVERSING: ClassVar = (simulate_sessions.name,)

    papers: str | list[str] = Field(
        str(SAMPLES / "s2orc"), description="papers, source and cited ones: folders or files of `papers_source`"
    )
    papers_source: paper_sets.PapersSource = Field(
        "s2orc", description="what `papers` are; files: PDFs and TEI of your own"
    )
    metadata: str | list[str] = Field([], description="for papers_source = files: further metadata of papers, .jsonl")
    venues: list[str] = Field([], description="of source papers, by parts of their names; []: any")
    questions: str | list[str] = Field(
        [str(SAMPLES / "questions.jsonl"), str(SAMPLES / "longform_sciqa.jsonl")],
        description="questions by people: .jsonl with question and cited_papers, or the released longform_sciqa",
    )
    written_questions: str | list[str] = Field([], description="filled-in sheets: longform sheets --form questions")
    generate: bool = Field(True, description="let a model propose questions for related-work paragraphs")
    check: bool = Field(True, description="let a model check that the paragraph answers them (filter 2)")
    limit: int | None = Field(None, ge=1, description="at most this many questions, those of people first: a pilot")
    retrieved_at: str | None = Field(None, description="when the files were fetched, where no fetch noted it")
    retrieval: Kind = Field("bm25", description="how passages are found: bm25, dense or hybrid; the paper: dense")
    embedding: str | None = Field(
        None, description="of dense: an endpoint, or a model such as facebook/contriever-msmarco (extra `dense`)"
    )
    writers: list[str] = Field(
        [], max_length=MOST_WRITERS, description="endpoints that answer, each in sessions of its own; []: `model`"
    )
    turns: int = Field(
        3, ge=0, le=MOST_TURNS, description="of sessions with a simulated reader, at most; 0: no such sessions"
    )
    sampling: dict[str, Any] = Field(
        dict(SAMPLING), description="of answers and revisions, where an endpoint does not say otherwise; set whole"
    )
    sessions: str | list[str] = Field(
        str(SAMPLES / "interaction_data.jsonl"),
        description="sessions: the released interaction data, or files of your own, .jsonl",
    )
    page_sessions: bool = Field(True, description="take the sessions that were finished on this home's page")
    split_by: SplitBy = Field(
        "questions", description="what stands on one side whole; turns: as in the paper, where answers stand on two"
    )
    shots: int = Field(10, ge=0, le=100, description="examples that the few-shot judge is shown")
    predictions: str | list[str] = Field([], description="of other models on turns of test: .jsonl or .csv")
    second_ratings: str | list[str] = Field([], description="filled-in sheets: longform sheets --form ratings")
    category_labels: str | list[str] = Field([], description="filled-in sheets: --form categories")
    error_labels: str | list[str] = Field([], description="filled-in sheets: --form errors")
    failure_labels: str | list[str] = Field([], description="filled-in sheets: --form failures")
    seed: int = Field(4, description="of every draw; 4: the samples have all sides")
    accounts: dict[str, dict[str, str]] = Field({}, description=ACCOUNTS)

    @field_validator("sampling")
    @classmethod
    def is_not_set_by_build(cls, value: dict[str, Any]) -> dict[str, Any]:
        """The request parameters unchanged; ValueError if one of them is set by the build itself."""
        return check_request_parameters(value)

    @model_validator(mode="after")
    def settings_agree(self) -> Self:
        """ValueError for accounts of files that no setting names, and for a writer that is named twice."""
        check_accounts(self.accounts, self.written_questions, *(getattr(self, name) for name in SHEETS))
        if len(set(self.writers)) < len(self.writers):
            raise ValueError("writers names an endpoint twice: a reader never gets the same question twice")
        return self


SHEETS = ("second_ratings", "category_labels", "error_labels", "failure_labels")


def rebuild(builder: Builder, config: KiwiConfig) -> None:
    """Call the stages of the kiwi dataset in order, and last `set_publication`, with the settings of `config`.

    UsageError or SourceError if a setting names an endpoint, a prompt or a file that cannot be used. A `Method` with
    `until` ends the calls early, with UntilReached.
    """
    model, prompt, embedding = endpoints_by_stage(config), prompts(config), embedding_of(config)
    first, second, third = writers_of(config)
    search: Any = {"retrieval": config.retrieval, "embedding": embedding}

    def sheets(setting: str) -> list[Source]:
        """The filled-in sheets that a setting names."""
        return opened(builder, partial(open_said, accounts=config.accounts), getattr(config, setting))

    papers, _ = paper_sets.texts_and_metadata(
        builder, config.papers_source, listed(config.papers), listed(config.metadata), config.retrieved_at
    )
    related = related_paragraphs(builder, papers)
    versions = duplicates.find_duplicates_of(builder, papers)
    documents = find_documents(builder, related, papers, versions, venues=config.venues)

    read = read_questions(builder, files_of(builder, config.questions, "questions", config.retrieved_at))
    written = read_written_questions(builder, sheets("written_questions"), documents)
    asked = collect_asked(builder, read, written)
    people = match_evidence(builder, asked, papers, **listed_in(builder.store.home, TAKEN_DOWN))
    proposed = propose_questions(
        builder,
        documents,
        model=model["propose_questions"] if config.generate else None,
        prompt=prompt["propose_questions"],
    )
    standing = drop_anchored(builder, proposed)
    answerable = check_answerable(
        builder,
        standing,
        model=model["check_answerable"] if config.generate and config.check else None,
        prompt=prompt["check_answerable"],
    )
    questions = collect_questions(builder, people, answerable, limit=config.limit)
    evidence = evidence_paragraphs(builder, papers, questions)
    passages = split_passages(builder, questions, evidence, asked)

    answers = answer_first(
        builder, questions, passages, model=first, second=second, third=third, prompt=prompt["answer"], **search
    )
    simulated = simulate_sessions(
        builder,
        answers,
        passages,
        model=model["simulate_sessions"],
        writer=first,
        second=second,
        third=third,
        prompts={name: prompt[name] for name in IN_SESSIONS},
        turns=config.turns,
        **search,
    )
    finished = read_sessions(builder, sessions_of(builder, config))
    taken_down = listed_in(builder.store.home, TAKEN_DOWN)
    sessions = collect_sessions(builder, finished, simulated, questions, asked, **taken_down)
    turns = list_turns(builder, sessions)
    sides = split_turns(builder, turns, split_by=config.split_by, seed=config.seed)
    measures = measure_edits(builder, turns)
    categories = label_instructions(
        builder, turns, model=model["label_instructions"], prompt=prompt["classify_instruction"]
    )
    errors = label_errors(builder, turns, model=model["label_errors"], prompt=prompt["classify_error"])

    judged = judge_following(
        builder, turns, turns, sides, model=model["judge_following"], prompt=prompt["judge"], shots=config.shots
    )
    imported = read_predictions(builder, files_of(builder, config.predictions, "predictions", None), turns)
    baselines = predict_baselines(builder, turns, sides, seed=config.seed)
    predictions = collect_predictions(builder, baselines, judged, imported)
    said = collect_said(
        builder,
        read_second_ratings(builder, sheets("second_ratings"), turns),
        read_category_labels(builder, sheets("category_labels"), turns, categories),
        read_error_labels(builder, sheets("error_labels"), turns, errors),
        read_failure_labels(builder, sheets("failure_labels"), turns),
    )

    published = publish_turns(builder, turns, sides, categories, errors, measures)
    every = {
        "turns": published,
        "sessions": publish_sessions(builder, sessions, sides),
        "questions": publish_questions(builder, questions, sides),
        "predictions": predictions,
        "said": said,
    }
    set_publication(
        builder,
        ABOUT,
        [Table(name, rows) for name, rows in every.items()],
        name_sources(builder, questions, evidence, sessions),
        tables=lambda: tables(
            published,
            predictions,
            said,
            {
                "paragraphs with their papers": (related.count, documents.count),
                "questions by people": (asked.count, people.count),
                "anchored to a paper (filter 1)": (proposed.count, standing.count),
                "not answered by the paragraph (filter 2)": (standing.count, answerable.count),
            },
        ),
        figures=lambda: figures(published),
        audits=AUDITS,
    )


def prompts(config: KiwiConfig) -> dict[str, Any]:
    """prompt name -> prompt; the setting `prompts` names a folder of others. UsageError if one of it is wrong."""
    folders = prompt_folders(config.prompts, PROMPTS)
    return {name: load_prompt(f"kiwi/{name}", *folders) for name in PROMPT_NAMES}


def endpoints_by_stage(config: KiwiConfig) -> dict[str, Endpoint]:
    """stage -> the endpoint that it asks; judges and labels are asked at temperature 0, questions at 1 (A.3, A.6)."""
    found = {stage: endpoint_of_stage(stage, config) for stage in config.MODEL_STAGES}
    exact = {"temperature": 0, "top_p": 1}
    own = dict.fromkeys(("label_instructions", "label_errors", "judge_following", "check_answerable"), exact)
    own |= {"propose_questions": {"temperature": 1, "top_p": 1}, "simulate_sessions": config.sampling}
    return {stage: sampling(endpoint, own.get(stage, {})) for stage, endpoint in found.items()}


def writers_of(config: KiwiConfig) -> tuple[Endpoint | None, ...]:
    """The endpoints that answer, MOST_WRITERS of them, None where there are fewer. UsageError for an unknown one."""
    names = config.writers or [endpoint_of_stage("answer_first", config).name]
    found = [sampling(endpoint_of(name, config.endpoints), config.sampling) for name in names]
    return (*found, *[None] * (MOST_WRITERS - len(found)))


def embedding_of(config: KiwiConfig) -> str | Endpoint | None:
    """The endpoint, or local model, of the setting `embedding`; UsageError if retrieval needs one, and has none."""
    found = config.endpoints and config.embedding in config.endpoints
    embedding = endpoint_of(str(config.embedding), config.endpoints) if found else config.embedding
    check_retrieval(config.retrieval, embedding)
    return embedding if config.retrieval != "bm25" else None


def files_of(builder: Builder, setting: str | list[str], group: str, retrieved_at: str | None) -> list[Source]:
    """The files of JSON or CSV that a setting names."""
    opening = partial(open_files, group=group, endings=(".jsonl", ".json", ".csv"), retrieved_at=retrieved_at)
    return opened(builder, opening, setting)


def sessions_of(builder: Builder, config: KiwiConfig) -> list[Source]:
    """The files of sessions that the configuration names, and those that were finished on the home's page."""
    own = files_of(builder, config.sessions, "sessions", config.retrieved_at)
    page = builder.store.home / PAGE
    there = config.page_sessions and page.is_dir() and any(page.glob("*.jsonl"))
    return [*own, *(files_of(builder, str(page), "page", None) if there else [])]
