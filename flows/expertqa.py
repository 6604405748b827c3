"""The expertqa dataset: experts' questions, attributed answers of six systems, claims, labels, estimates (ExpertQA)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

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
from flows.config.web import WebConfig as WebConfig
from flows.config.web import backend_of, crawl_of
from flows.registry import model_stages
from longform.artifacts.rows import Rows
from longform.engine.stage import Builder
from longform.errors import UsageError
from longform.llm.ask.prompts import load_prompt, prompt_folders
from longform.llm.ask.types import Endpoint
from longform.net.web import Manners
from longform.settings import qafacteval_models
from tasks.expertqa.annotators import publish_labels
from tasks.expertqa.answers.answers import CORPORA as READ
from tasks.expertqa.answers.answers import answer_post_hoc, collect_answers, write_closed_book, write_from_passages
from tasks.expertqa.answers.cited_pages import link_cited_pages, read_cited_pages
from tasks.expertqa.answers.claims import split_claims
from tasks.expertqa.answers.evidence import (
    GS,
    SPHERE,
    Search,
    check_search,
    find_for_claims,
    find_for_facts,
    find_for_questions,
    link_evidence,
)
from tasks.expertqa.answers.released import open_commercial, read_commercial, read_released, unknown_systems
from tasks.expertqa.answers.revised import revise_answers
from tasks.expertqa.answers.sampling import sample_answers, take_claims
from tasks.expertqa.audits import AUDITS
from tasks.expertqa.bank import open_banks, read_questions, take_questions
from tasks.expertqa.corpora import open_corpora, read_corpus, read_pages
from tasks.expertqa.estimates.autoais import estimate_attribution, opened_backend
from tasks.expertqa.estimates.factscore import break_claims, judge_facts, leave_facts
from tasks.expertqa.estimates.predictions import (
    open_entailments,
    open_predictions,
    read_entailments,
    read_predictions,
    scorer_of,
)
from tasks.expertqa.exports import EXPORTS as EXPORTS
from tasks.expertqa.form import question_sheets
from tasks.expertqa.form import sheets as sheets
from tasks.expertqa.labels import collect_labels, open_labels, read_labels, read_second_labels
from tasks.expertqa.offline import RULES
from tasks.expertqa.published import name_sources, publish_claims, split_by_field, split_randomly
from tasks.expertqa.report import figures, tables
from tasks.expertqa.sides.audits import released_gates
from tasks.expertqa.sides.dealing import deal_sides
from tasks.expertqa.sides.released import open_released_sides, read_released_sides
from tasks.expertqa.tables.version import parity_of as PARITY  # noqa: F401, N812
from tasks.expertqa.takedown import admit_commercial, admit_corpus, admit_pages, admit_questions
from tasks.expertqa.takedown import responses_of as responses_of
from tasks.expertqa.trace import trace as trace
from tasks.publishing.card import Paper, Wording
from tasks.publishing.publish import About, Table, set_publication
from tasks.sources.admission import admit, taken_down
from tasks.sources.web.extraction import check_extractor
from tasks.sources.web.web import Crawl

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "data" / "samples" / "expertqa"
QUESTIONS = [str(SAMPLES / "questions.jsonl"), str(SAMPLES / "released.jsonl")]
OF_SAMPLES = {"commercial": "bing_chat", "corpus": "corpus", "pages": "pages"}

System = Literal["gpt4", "rr_sphere_gpt4", "rr_gs_gpt4", "post_hoc_sphere_gpt4", "post_hoc_gs_gpt4"]
SYSTEMS: tuple[System, ...] = ("gpt4", "rr_sphere_gpt4", "rr_gs_gpt4", "post_hoc_sphere_gpt4", "post_hoc_gs_gpt4")
POST_HOC = {"post_hoc_sphere_gpt4": SPHERE, "post_hoc_gs_gpt4": GS}
SHARES = [0.8, 0.1, 0.1]
ANSWERING = ("write_closed_book", "write_from_passages")
JUDGING = ("estimate_attribution", "break_claims", "judge_facts")
AS_IN_PAPER = ("closed_book", "judge_fact")  # of PROMPT_NAMES those that have another wording in the preset parity
PROMPT_NAMES = ("closed_book", "from_passages", "entails", "break_claim", "judge_fact", "revise")

OFFLINE = RULES
FORMS = {"questions": question_sheets}  # beside `sheets`, which needs no name
ABOUT = About(
    dataset="expertqa",
    title="Experts' questions with attributed and verified answers",
    summary=(
        "Questions by experts, long answers to them that people revised (or a model, where the row says so), and the "
        "claims of the original answers with their evidence, people's labels, and automatic estimates of attribution "
        "(AutoAIS) and factuality (FActScore). Splits by chance and by field."
    ),
    paper=Paper(
        title="ExpertQA: Expert-Curated Questions and Attributed Answers",
        citation=(
            "Chaitanya Malaviya, Subin Lee, Sihao Chen, Elizabeth Sieber, Mark Yatskar, Dan Roth. "
            "ExpertQA: Expert-Curated Questions and Attributed Answers. NAACL 2024."
        ),
    ),
    wording=Wording(
        licences="Each row names the licence of its question, where that is known.",
        credit=(
            "Whoever passes on rows, or texts made from them, must name their sources: `attribution.parquet` lists "
            "the origin of every question and the address of every evidence, with its licence where that is known."
        ),
        changes="White space in claims is folded; claims and answers of released files are as released.",
        traced="the question, the answer and its model, the claims with their evidence and labels",
    ),
    first_settings="questions, corpus, web and model",
)


class ExpertqaConfig(ModelSettings):
    """Settings of the expertqa dataset."""

    MODEL_STAGES: ClassVar = model_stages(globals())

    questions: str | list[str] = Field(
        list(QUESTIONS),
        description="the bank of questions: released .jsonl, own .jsonl or .csv, or a list; from where you type",
    )
    released_splits: str | list[str] = Field(
        [],
        description="the authors' split files, under their names (rand_lfqa_train.json, domain_val.jsonl …), or the "
        "folder: their questions keep these sides; such files among `questions` count as well",
    )
    licence: str | None = Field(None, description="of the questions, e.g. MIT for the released ones")
    systems: list[System] = Field(
        list(SYSTEMS), description="that answer the questions which come without answers; [] asks none"
    )
    commercial: str | list[str] | None = Field(
        None, description="answers of a commercial system, imported: .jsonl; unset: none, of the samples theirs"
    )
    commercial_system: str = Field("bing_chat", description="what that system is called")
    corpus: str | list[str] | None = Field(
        None, description="the local corpus (sphere): .jsonl or .parquet with url and text; unset: as commercial"
    )
    pages: str | list[str] | None = Field(
        None, description="pages that stand in for the web (gs), in the form of the corpus; unset: as commercial"
    )
    web: WebConfig | None = Field(
        None,
        description='a search engine instead of pages, e.g. { kind = "searxng", url = "http://127.0.0.1:8080" }; '
        "it also takes key_env, parameters, private_hosts",
    )
    cited_pages: Literal["fetch", "pages"] | None = Field(
        None,
        description="pages that answers cite by address, as evidence: fetched, or looked for in pages; unset: fetched "
        "with web, or with a model that is not offline where there are no pages",
    )
    retrieved_at: str | None = Field(None, description="when corpus and pages were fetched, where no record says it")
    answer_parameters: dict[str, Any] = Field(
        {"temperature": 1.0},
        description="of the answering systems, where an endpoint does not say otherwise (section 3); set whole",
    )
    backend: Literal["bm25", "tantivy", "dense", "hybrid"] = Field("bm25", description="how passages are ranked")
    embedding: str | None = Field(
        None, description="of dense and hybrid: an endpoint's name, or a sentence-transformers model"
    )
    preset: Literal["own", "parity"] = Field(
        "own",
        description="parity: as the paper, whatever settings below say: its authors' rules in the tables, sentences as "
        "claims, prompts with its wishes, judges at temperature 0 where an endpoint does not say otherwise",
    )
    seed: int = Field(0, description="of every draw: sampling of answers, splits")
    limit: int | None = Field(None, ge=1, description="at most this many questions of each file: a pilot")
    passages: int = Field(5, ge=1, le=50, description="passages of the corpus an answer or a claim is given")
    web_passages: int = Field(10, ge=1, le=50, description="passages of the web an answer or a claim is given")
    fact_passages: int = Field(3, ge=1, le=20, description="passages an atomic claim is judged by")
    window: int = Field(1_000, ge=10, description="tokens of a passage, at most")
    overlap: int = Field(200, ge=0, description="tokens a passage shares with the next")
    tokenizer: str = Field("spacy-en", description="that counts these: spacy-en, or one of tiktoken, e.g. cl100k_base")
    splitter: Literal["sentences", "lists"] = Field(
        "lists", description="of new answers into claims: one that knows lists, tables and quotes, or the paper's"
    )
    least_characters: int = Field(6, ge=1, description="a shorter claim is dropped")
    small_talk: bool = Field(True, description="drop what a chatbot says about itself")
    most_claims: int = Field(10, ge=1, description="longer answers are not sampled for annotation; imports are")
    labels: str | list[str] = Field(
        [], description="filled-in annotation sheets: .jsonl, .csv, or exports of Label Studio or Argilla as JSON"
    )
    second_labels: str | list[str] = Field([], description="a second labelling, for the agreement (figure 4)")
    accounts: dict[str, dict[str, str]] = Field({}, description=ACCOUNTS)
    autoais: str = Field(
        "lexical",
        description="AutoAIS by: lexical (words), model (the endpoint), nli:<Hugging Face model>, released",
    )
    nli_precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="of an entailment model; bfloat16 for one of billions of parameters, e.g. the paper's"
    )
    nli_batch: int = Field(
        1, ge=1, le=1_024, description="pairs that it reads at once; more are faster and change the last decimals"
    )
    factscore: Literal["model", "released", "none"] = Field(
        "model", description="FActScore by: model (two calls a claim and more), released (what claims came with), none"
    )
    revise_with_model: bool = Field(
        True, description="let the model revise answers that no person has revised; such rows say so"
    )
    entailments: str | list[str] = Field(
        [], description="what an entailment model says of published claims: claim_id, model, label (table 6)"
    )
    predictions: str | list[str] = Field(
        [], description="predicted answers to the test questions, scored by ROUGE (tables 9 and 14)"
    )

    @field_validator("answer_parameters")
    @classmethod
    def are_not_set_by_build(cls, value: dict[str, Any]) -> dict[str, Any]:
        """The request parameters unchanged; ValueError if one of them is set by the build itself."""
        return check_request_parameters(value)

    @model_validator(mode="after")
    def settings_agree(self) -> Self:
        """The settings unchanged. ValueError for an overlap that is not less than the window, no file of questions, a
        system that is named twice, a commercial system with the name of another system, accounts of files that are not
        named, both pages and web, and a post-hoc system without gpt4, whose answers it cites.
        """
        if self.overlap >= self.window:
            raise ValueError("overlap must be less than window, else a passage would not move on")
        if not listed(self.questions):
            raise ValueError("questions names no file: give one, or a list")
        if len(set(self.systems)) < len(self.systems):
            raise ValueError("systems names one of them twice: name each once")
        if self.commercial_system in SYSTEMS:
            raise ValueError(
                f'commercial_system is "{self.commercial_system}", which one of ours is called: name another'
            )
        check_accounts(self.accounts, self.labels, self.second_labels)
        if self.web is not None and self.pages:
            raise ValueError("pages and web are both set: pages stand in for the web, so leave out one of them")
        if any(name in POST_HOC for name in self.systems) and "gpt4" not in self.systems:
            raise ValueError('systems names a post-hoc system, which cites the answers of gpt4: add "gpt4"')
        return self


def rebuild(builder: Builder, config: ExpertqaConfig) -> None:
    """Call the stages of the expertqa dataset in order, and last `set_publication`, with the settings of `config`.
    `builder` makes the stages, or only records the calls (a `Method`).

    UsageError or SourceError if a setting names an endpoint, a prompt or a file that cannot be used, or settings
    cannot work together. A `Method` with `until` ends the calls early, with UntilReached.
    """
    model = {stage: endpoint_of_stage(stage, config) for stage in config.MODEL_STAGES}
    model |= {stage: sampling(model[stage], config.answer_parameters) for stage in ANSWERING}
    folders = prompt_folders(config.prompts, PROMPTS)
    prompt = {name: load_prompt(f"expertqa/{name}", *folders) for name in PROMPT_NAMES}
    splitter = config.splitter
    if config.preset == "parity":
        model |= {stage: sampling(model[stage], {"temperature": 0.0}) for stage in JUDGING}
        prompt |= {name: load_prompt(f"expertqa/{name}_as_in_paper", *folders) for name in AS_IN_PAPER}
        splitter = "sentences"
    autoais, nli = opened_backend(
        config.autoais, builder.digests, precision=config.nli_precision, batch=config.nli_batch
    )
    judge = config.autoais == "model"
    takedowns = tuple(taken_down(builder.store.home))
    search, search_backends = search_settings(config, takedowns)

    bank = read_questions(builder, opened(builder, open_banks, config.questions), licence=config.licence)
    questions = admit(builder, admit_questions, bank)
    asked = take_questions(builder, questions, limit=config.limit)
    corpus, pages = corpora(builder, config)

    released_sides = read_released_sides(
        builder,
        open_released_sides(listed(config.released_splits), listed(config.questions), digest=builder.digests),
    )

    released = read_released(builder, asked)
    needed = [READ[name] for name in config.systems if name in READ]
    found = find_for_questions(builder, asked, corpus, pages, search=search, corpora=needed, **search_backends)
    closed = write_closed_book(
        builder,
        asked,
        systems=[name for name in config.systems if name == "gpt4"],
        model=model["write_closed_book"],
        prompt=prompt["closed_book"],
    )
    read = write_from_passages(
        builder,
        asked,
        found,
        systems=[name for name in config.systems if name in READ],
        model=model["write_from_passages"],
        prompt=prompt["from_passages"],
    )
    post_hoc = answer_post_hoc(builder, closed, systems=[name for name in config.systems if name in POST_HOC])
    imported = read_commercial(
        builder,
        opened(builder, open_commercial, setting_files(config, "commercial")),
        questions,
        system=config.commercial_system,
    )
    commercial = admit(builder, admit_commercial, imported)
    answers = collect_answers(builder, asked, released, closed, read, post_hoc, commercial)

    split = split_claims(
        builder,
        answers,
        splitter=splitter,
        least_characters=config.least_characters,
        small_talk=config.small_talk,
    )
    samples = sample_answers(builder, asked, answers, split, most_claims=config.most_claims, seed=config.seed)
    taken = take_claims(builder, split, samples)
    linked = link_evidence(
        builder,
        taken,
        find_for_claims(builder, taken, corpus, pages, search=search, systems=POST_HOC, **search_backends),
    )
    cited = read_cited_pages(builder, linked, pages, search=search, crawl=crawl_of_cited(config, takedowns, model))
    claims = link_cited_pages(builder, linked, cited)

    opening = partial(open_labels, accounts=config.accounts)
    filled_in = read_labels(builder, opened(builder, opening, config.labels), claims, answers)
    second = read_second_labels(builder, opened(builder, opening, config.second_labels), claims, answers)
    labels = collect_labels(builder, answers, claims, filled_in)

    attributions = estimate_attribution(
        builder,
        claims,
        backend=autoais,
        nli=nli,
        model=model["estimate_attribution"] if judge else None,
        prompt=prompt["entails"] if judge else None,
    )
    facts = (
        break_claims(builder, claims, model=model["break_claims"], prompt=prompt["break_claim"])
        if config.factscore == "model"
        else leave_facts(builder, claims)
    )
    fact_search = Search(**{**search.identity(), "corpus_k": config.fact_passages, "pages_k": config.fact_passages})
    corpus_name = GS if config.web or setting_files(config, "pages") else SPHERE
    evidence = find_for_facts(
        builder, facts, corpus, pages, search=fact_search, corpora=[corpus_name], **search_backends
    )
    judged = judge_facts(builder, facts, evidence, model=model["judge_facts"], prompt=prompt["judge_fact"])

    revised = revise_answers(
        builder,
        answers,
        claims,
        samples,
        labels,
        attributions,
        asked,
        model=model["revise_answers"] if config.revise_with_model else None,
        prompt=prompt["revise"] if config.revise_with_model else None,
    )
    sides = deal_sides(builder, questions, released_sides, seed=config.seed, shares=SHARES)
    random = split_randomly(builder, revised, asked, answers, claims, sides)
    domain = split_by_field(builder, revised, asked, answers, claims, sides)
    published = publish_claims(
        builder,
        claims,
        asked,
        answers,
        labels,
        attributions,
        facts,
        judged,
        sides,
        released_scores=config.factscore == "released",
    )
    sources = name_sources(builder, published, asked, corpus, pages)
    entailed = read_entailments(builder, opened(builder, open_entailments, config.entailments), published)
    scorer = scorer_of(qafacteval_models())
    predictions = read_predictions(
        builder, opened(builder, open_predictions, config.predictions), random, domain, scorer=scorer
    )
    set_publication(
        builder,
        ABOUT,
        [
            Table("random", random),
            Table("domain", domain),
            Table("claims", published),
            Table("labels", publish_labels(builder, labels)),
        ],
        sources,
        tables=lambda: tables(
            asked,
            answers,
            samples,
            cited,
            published,
            attributions,
            labels,
            second,
            entailed,
            predictions,
            random,
            domain,
            preset=config.preset,
        ),
        figures=lambda: figures(asked, published, labels, second),
        audits=AUDITS,
        gates=lambda: [*unknown_systems(answers), *released_gates(released_sides)],
    )


def search_settings(config: ExpertqaConfig, takedowns: Sequence[str]) -> tuple[Search, dict[str, Any]]:
    """(the settings of the passage search, the keyword arguments `embedding`, `web` and `crawl` of the search stages).

    The arguments are the embedding model (an endpoint, or the name of a local model), the web search engine, and the
    fetcher of its pages; None where the configuration names none. `takedowns`: ids of records whose pages are not
    fetched. UsageError if the settings cannot work together, or the tokenizer or the model cannot be used.
    """
    search = Search(
        backend=config.backend,
        corpus_k=config.passages,
        pages_k=config.web_passages,
        tokenizer=config.tokenizer,
        size=config.window,
        overlap=config.overlap,
    )
    known = config.embedding in config.endpoints
    search_backends: dict[str, Any] = {
        "embedding": endpoint_of(config.embedding, config.endpoints)
        if known and config.embedding
        else config.embedding,
        "web": config.web and backend_of(config.web),
        "crawl": config.web and crawl_of(config.web, tuple(takedowns)),
    }
    check_search(search, **search_backends)
    return search, search_backends


def crawl_of_cited(config: ExpertqaConfig, takedowns: tuple[str, ...], models: Mapping[str, Endpoint]) -> Crawl | None:
    """How pages that answers cite are fetched, each host at most once a second (`web` may say otherwise), one that does
    not answer counting as dead; None if they are looked for among the given pages. `models`: stage -> endpoint.
    UsageError, before anything is bought, if the package that reads pages is missing.
    """
    real = config.web or not (models["write_closed_book"].offline or setting_files(config, "pages"))
    if config.cited_pages == "pages" or (config.cited_pages is None and not real):
        return None
    try:
        check_extractor()
    except UsageError as error:
        raise UsageError(
            f'{error} Or set cited_pages = "pages", and the pages that answers cite are not read.'
        ) from None
    if config.web:
        return crawl_of(config.web, takedowns, give_up=True)
    return Crawl(takedowns=takedowns, manners=Manners(give_up=True))


def corpora(builder: Builder, config: ExpertqaConfig) -> tuple[Rows, Rows]:
    """(the local corpus, the pages that are searched in place of the web), both cut into windows of tokens and without
    records that are taken down. A table is empty if its setting names no file; there are no pages if a search engine
    is configured.
    """
    windows: dict[str, Any] = {"tokenizer": config.tokenizer, "size": config.window, "overlap": config.overlap}
    opening = partial(open_corpora, retrieved_at=config.retrieved_at)
    local = opened(builder, partial(opening, group=SPHERE), setting_files(config, "corpus"))
    stand_in = opened(builder, partial(opening, group=GS), [] if config.web else setting_files(config, "pages"))
    corpus, pages = read_corpus(builder, local, **windows), read_pages(builder, stand_in, **windows)
    return admit(builder, admit_corpus, corpus), admit(builder, admit_pages, pages)


def setting_files(config: ExpertqaConfig, name: str) -> str | list[str]:
    """The files that the setting `name` lists. Where it is unset (None): the sample file of that setting if `questions`
    is the default, which is the sample questions; else no files.
    """
    files: str | list[str] | None = getattr(config, name)
    if files is None:
        return str(SAMPLES / f"{OF_SAMPLES[name]}.jsonl") if config.questions == QUESTIONS else []
    return files
