"""The axioms dataset: preference pairs for long-form answers (Axiomatic Preference Modeling), axioms 0 to 5."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from flows.config.endpoints import EndpointName, ModelSettings, endpoint_of, endpoint_of_stage
from flows.config.inputs import ACCOUNTS, check_accounts, listed, opened
from flows.config.prompts import PROMPTS
from flows.config.web import WebConfig, backend_of, crawl_of
from flows.registry import model_stages
from flows.sources import msmarco, reddit, webgpt
from longform.artifacts.rows import Rows
from longform.engine.stage import Builder
from longform.errors import UsageError
from longform.llm.ask.prompts import Prompt, load_prompt, prompt_folders
from longform.llm.ask.types import Endpoint
from longform.llm.offline import ENDPOINT as OFFLINE_ENDPOINT
from longform.pseudonyms import NoAuthors
from tasks.axioms.across import find_related_across_sites
from tasks.axioms.answers import answer_closed_book, answer_open_book, combine_answers, corrupt_answers
from tasks.axioms.audits import AUDITS
from tasks.axioms.evaluation.compared import select_comparisons
from tasks.axioms.evaluation.contamination import decontaminate
from tasks.axioms.evaluation.discussions import (
    MIN_SCORE,
    MIN_WORDS,
    SUBREDDITS,
    attribute_discussions,
    find_related_discussions,
    rank_discussions,
    select_discussions,
)
from tasks.axioms.evaluation.passages import rank_passages
from tasks.axioms.evaluation.ranking import rank_held_out, rank_held_out_across_sites
from tasks.axioms.evaluation.tables import evaluation_tables
from tasks.axioms.evaluation.texts import list_evaluation_texts, open_texts, read_evaluation_texts
from tasks.axioms.exports import EXPORTS as EXPORTS
from tasks.axioms.for_validation.pairs import (
    assemble_validation_pairs,
    assemble_validation_pairs_across_sites,
    pair_for_validation,
)
from tasks.axioms.grounding.answers import (
    answer_from_irrelevant,
    answer_from_relevant,
    find_grounded_copies,
    list_grounded,
    pair_by_evidence,
)
from tasks.axioms.grounding.queries import select_queries
from tasks.axioms.grounding.retrieved import retrieve_candidates
from tasks.axioms.grounding.shown import choose_passages
from tasks.axioms.judging.critic import criticise_answers
from tasks.axioms.judging.margins import score_pairs, take_critic_margins
from tasks.axioms.judging.report import critic_figures, critic_tables
from tasks.axioms.judging.requests import JUDGE_PROMPTS
from tasks.axioms.negatives.judge import judge_negatives, keep_negatives
from tasks.axioms.offline import RULES
from tasks.axioms.pairs import pair_by_votes, pair_combined, pair_generated, pair_with_related
from tasks.axioms.paper_tables import tables
from tasks.axioms.people.form import sheets as sheets
from tasks.axioms.people.judgements import open_judgements, read_judgements
from tasks.axioms.preference import draw_one_a_question, view_as_chats, view_as_texts
from tasks.axioms.published import assemble_pairs, assemble_pairs_across_sites
from tasks.axioms.questions import attribute_posts, select_questions
from tasks.axioms.related import check_embedding, find_related, retrieve_passages
from tasks.axioms.report.examples import examples
from tasks.axioms.report.mixture import mixture_tables
from tasks.axioms.report.negatives import judged_negatives
from tasks.axioms.report.plots import figures
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
from tasks.axioms.research.compared import sheets as research_sheets
from tasks.axioms.research.guide import check_guide
from tasks.axioms.research.questions import (
    PAGE_ENDINGS,
    QUESTION_ENDINGS,
    read_research_pages,
    read_research_questions,
)
from tasks.axioms.research.report import research_figures, research_tables
from tasks.axioms.scoring.scorers import Scorer, scorer_of
from tasks.axioms.sealed.same import find_paraphrases, find_same, sign_questions
from tasks.axioms.sealed.sealing import find_copies, find_generated_copies, list_candidates, list_generated, list_texts
from tasks.axioms.sealed.splits import assign_splits
from tasks.axioms.takedown import responses_of as responses_of
from tasks.axioms.trace import example_row_id as example_row_id
from tasks.axioms.trace import trace as trace
from tasks.axioms.validation.gate import (
    collect_both_judgements,
    collect_judgements,
    decide_pair_types,
    gates,
    leave_out_pair_types,
)
from tasks.axioms.validation.judge import judge_validation
from tasks.axioms.validation.sample import sample_validation
from tasks.axioms.validation.tables import validation_tables
from tasks.publishing.card import Paper, Wording
from tasks.publishing.languages import languages_of
from tasks.publishing.publish import About, Table, set_publication
from tasks.retrieval.cross_encoder import CrossEncoderSetting, cross_encoder, has_cross_encoders
from tasks.sources.admission import admit_posts, listed_in, taken_down
from tasks.sources.files.inputs import open_files
from tasks.sources.reddit.dumps import GROUP as REDDIT
from tasks.sources.reddit.dumps import open_dumps as open_dumps_of_reddit
from tasks.sources.reddit.reddit_threads import join_reddit, select_eli5
from tasks.sources.released.msmarco import LICENCE as LICENCE_OF_MSMARCO
from tasks.sources.released.webgpt import ENDINGS as ENDINGS_OF_WEBGPT
from tasks.sources.released.webgpt import GROUP as WEBGPT
from tasks.sources.stackexchange.links import join_duplicates, open_links, read_links
from tasks.sources.stackexchange.posts import open_dumps, read_posts, scrub_posts
from tasks.sources.stackexchange.threads import join_threads, open_users, read_users
from tasks.sources.web.documents import PIECE_BYTES
from tasks.text.scrub import REGIONS

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "data" / "samples" / "community.example"
EVALUATION = {name: ROOT / "data" / "samples" / name for name in ("eli5", "webgpt")}
MSMARCO = [str(SAMPLES.with_name(name)) for name in ("msmarco", "msmarco_train")]

OFFLINE = RULES
ABOUT = About(
    dataset="axioms",
    title="Axiomatic preference pairs for long-form answers",
    summary=(
        "Pairs of answers to community questions, of which one is preferred by an axiom: more votes (0), an answer to "
        "this rather than a related question (1), grounded in evidence rather than not (2), true rather than corrupted "
        "(3), grounded in relevant rather than irrelevant passages (4), two good answers combined rather than a lesser "
        "one (5). Rebuilt from Stack Exchange data dumps and MS MARCO."
    ),
    paper=Paper(
        title="Axiomatic Preference Modeling for Longform Question Answering",
        citation=(
            "Corby Rosset, Guoqing Zheng, Victor Dibia, Ahmed Awadallah, Paul Bennett. "
            "Axiomatic Preference Modeling for Longform Question Answering. EMNLP 2023."
        ),
    ),
    wording=Wording(
        licences="Each row names the licence of each of its texts.",
        credit=(
            "Whoever passes on rows, or texts made from them, must name their authors and link to the posts: "
            "`attribution.parquet` lists every post with its permalink, author, author profile and licence."
        ),
        changes="Texts of posts were converted from HTML to Markdown.",
        traced="posts, their authors and licences; for generated text the model, the prompt and the response",
    ),
    first_settings="dump and model",
)

TERMS = {
    "undecided": "Whoever built this version did not state under which terms the dumps were got (docs/data-policy.md).",
    "no-agreement": "The dumps were got without a download agreement: the licences of the posts apply.",
    "agreement": (
        "The dumps were downloaded under Stack Exchange's agreement by someone who decided that this use fits it; "
        "whoever passes this version on has to decide the same."
    ),
}
MSMARCO_TERMS = {
    "undecided": (
        "Queries and passages of the site msmarco have the terms of MS MARCO, non-commercial research only: whoever "
        "built this version did not state that this use fits them (docs/data-policy.md)."
    ),
    "non-commercial": (
        "Queries and passages of the site msmarco have the terms of MS MARCO, non-commercial research only: whoever "
        "built this version decided that this use fits them, and whoever passes it on has to decide the same."
    ),
}

TERMS_OF_SETS = {  # setting -> what its rows may be used for
    "eli5": "Posts of Reddit (config ranking) are their authors', under its User Agreement and Data API terms: for "
    "evaluation only, never to train on; what is deleted there has to go here, too.",
    "webgpt": "The comparisons of WebGPT (config comparisons) name no licence; most of their questions are Reddit's.",
}

Share = Annotated[float, Field(ge=0, le=1)]
JUDGES = {judge_negatives.name: "negatives_judge", judge_validation.name: "validation_judge"}
CRITIC = criticise_answers.name
PROMPT_NAMES = (
    *("open_book", "closed_book", "corrupt", "combine", "irrelevant_book", "judge_negative"), *JUDGE_PROMPTS,
    *("research_queries", "research_plan", "research_summarise", "research_update", "research_ground"),
    *("research_review", "research_repair"),
)  # fmt: skip
RESEARCH_STAGES = ("answer_research_closed", "assist_research", "plan_research", "repair_research")
RESEARCH = ROOT / "data" / "samples" / "research"
PAGES = ("web",)  # the group of takedowns that may mean a page
TRACED_BY_IDS = ("research", "research_steps", "research_pairs", "research_judgements")  # all else by `trace`
FORMS = {"research": research_sheets}  # beside `sheets`, which needs no name


class AxiomsConfig(ModelSettings):
    """Settings of the axioms dataset."""

    MODEL_STAGES: ClassVar = model_stages(globals())

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
    msmarco: str | list[str] = Field(
        MSMARCO,
        description="axiom 4: MS MARCO's collection, queries and qrels, as files or folders; [] for none",
    )
    msmarco_terms: Literal["undecided", "non-commercial"] = Field(
        "undecided",
        description="MS MARCO is for non-commercial research: say so if your use is that; see docs/data-policy.md",
    )
    msmarco_retrieval: Literal["bm25", "tantivy"] = Field(
        "bm25", description="axiom 4: how passages are found: bm25, in memory, or tantivy, for the whole collection"
    )
    msmarco_queries: int = Field(48_800, ge=1, description="axiom 4: at most this many queries with a labelled passage")
    msmarco_depth: int = Field(1_000, ge=2, le=10_000, description="axiom 4: passages looked at for a query")
    msmarco_k: int = Field(5, ge=2, le=50, description="axiom 4: P+ are the best so many, and the labelled passages")
    msmarco_below: float = Field(
        0.7, gt=0, le=1, description="axiom 4: P- are passages with less than this share of the query's best score"
    )
    msmarco_irrelevant: int = Field(5, ge=2, le=50, description="axiom 4: passages in P-")
    utilization_above: float = Field(
        0.35, ge=0, le=2, description="axiom 5: a combined answer uses more of its parents"
    )
    utilization_below: float = Field(
        1.85, ge=0, le=2.1, description="axiom 5: and less than this, else it only repeats them"
    )
    utilization_words: int = Field(2, ge=1, description="axiom 5: n of the n-grams that utilization counts")
    margins: Literal["votes", "critic"] = Field(
        "votes",
        description="critic: besides the margins by votes, those of a critic that criticises, then scores the answers "
        "(config preference_critic); it asks the endpoint of [stages.criticise_answers], else `model`",
    )
    critic_answers: int = Field(
        10, ge=2, le=50, description="answers of a question that the critic is shown, in one call, at most"
    )
    critic_min_difference: int = Field(
        5, ge=1, le=99, description="points by which the critic's scores of a pair must differ for a margin"
    )
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
    accounts: dict[str, dict[str, str]] = Field({}, description=ACCOUNTS)
    validation_at_least: Share = Field(
        0.7, description="a pair type that is preferred in a smaller share of its judged pairs leaves training"
    )
    validation_min_pairs: int = Field(
        10, ge=1, description="judged pairs with a majority that decide on a pair type; with fewer it is unvalidated"
    )
    test_share: Share = Field(0.1, description="share of the questions held out for testing")
    duplicate_similarity: float = Field(
        0.5, gt=0, le=1, description="questions sharing this much of their word 3-grams (Jaccard) stay in one split"
    )

    eli5: str | list[str] = Field(
        str(EVALUATION["eli5"]),
        description="evaluation: Reddit dumps with r/explainlikeimfive, r/askscience or r/AskHistorians; [] for none",
    )
    eli5_questions: int = Field(20_000, ge=1, description="evaluation: at most this many questions of a subreddit")
    msmarco_negatives: int = Field(1_000, ge=1, description="evaluation: passages without a label a query, at most")
    webgpt: str | list[str] = Field(
        str(EVALUATION["webgpt"]), description="evaluation: comparisons.jsonl of WebGPT; [] for none"
    )
    decontaminate: str | list[str] = Field(
        [],
        description="files of further evaluation texts (.jsonl, .parquet, .txt) that no training text may hold, "
        "see docs/axioms.md",
    )
    contaminated_similarity: float = Field(
        0.5, gt=0, le=0.8, description="training texts sharing this much of an evaluation text's word 3-grams leave"
    )

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

    @model_validator(mode="after")
    def some_utilization_is_kept(self) -> Self:
        """The settings unchanged; ValueError unless utilization_above is less than utilization_below."""
        if self.utilization_above >= self.utilization_below:
            raise ValueError("utilization_above must be less than utilization_below, else no combined answer is kept")
        return self

    @model_validator(mode="after")
    def judge_has_one_setting(self) -> Self:
        """The settings unchanged; ValueError if the endpoint of a judge is named in [stages], too."""
        for stage, setting in JUDGES.items():
            if stage in self.stages and self.stages[stage].model:
                raise ValueError(f"stages.{stage} has a model, but {setting} says who judges: set it there alone")
        return self

    @model_validator(mode="after")
    def accounts_are_of_judgements(self) -> Self:
        """The settings unchanged; ValueError for accounts of files that no setting of judgements names."""
        check_accounts(self.accounts, self.judgements, self.research_judgements)
        return self

    def endpoint_name(self, stage: str) -> str | None:
        """The name of the endpoint that a stage asks; None for the judge of negatives if `negatives_judge` is unset or
        names a cross-encoder, and for the critic unless `margins` asks for it.
        """
        if stage == CRITIC and self.margins != "critic":
            return None
        if stage not in JUDGES:
            return super().endpoint_name(stage)
        judge: str | None = getattr(self, JUDGES[stage])
        is_endpoint = judge in (OFFLINE_ENDPOINT.name, *self.endpoints)
        return judge if is_endpoint or stage != judge_negatives.name else None


def rebuild(builder: Builder, config: AxiomsConfig) -> None:
    """Call the stages of the axioms dataset in order, and last `set_publication`, with the settings of `config`.
    `builder` makes the stages, or only records the calls (a `Method`).

    UsageError or SourceError if a setting names an endpoint, a prompt or a dump that cannot be used. A `Method` with
    `until` ends the calls early, with UntilReached.
    """
    model = {stage: endpoint_of_stage(stage, config) for stage in config.MODEL_STAGES if config.endpoint_name(stage)}
    embedding = (
        endpoint_of(config.embedding, config.endpoints) if config.embedding in config.endpoints else config.embedding
    )
    check_embedding(embedding)
    encoder = judging_encoder(config, builder)
    folders = prompt_folders(config.prompts, PROMPTS)
    prompt = {name: load_prompt(f"axioms/{name}", *folders) for name in PROMPT_NAMES}

    dumps = open_dumps(config.dump, config.site, config.retrieved_at, builder.digests)
    groups = {dump.group for dump in dumps}
    takedowns = taken_down(builder.store.home, groups)
    admitted = admit_posts(builder, read_posts(builder, dumps), takedowns=takedowns)
    posts = scrub_posts(builder, admitted, regions=list(REGIONS)) if config.scrub else admitted
    users = read_users(builder, open_users(dumps, builder.digests))
    threads = join_threads(builder, posts, users, **listed_in(builder.store.home, groups))
    kept = select_questions(
        builder,
        threads,
        min_answers=config.min_answers,
        min_vote_ratio=config.min_vote_ratio,
        closed=config.closed,
        wiki=config.wiki,
        questions_per_site=min(config.questions_per_site, config.limit or config.questions_per_site),
    )
    sites = list(dict.fromkeys(dump.group for dump in dumps))
    signed = sign_questions(builder, threads, kept, others=config.questions_per_site)
    paraphrases = find_paraphrases(builder, signed, embedding=embedding, at_least=config.paraphrase_similarity)
    duplicates = join_duplicates(builder, posts, read_links(builder, open_links(dumps, builder.digests)))
    same = find_same(builder, signed, paraphrases, duplicates, similarity=config.duplicate_similarity, sites=sites)
    splits = assign_splits(builder, signed, same, test_share=config.test_share, sites=sites, seed=config.split_seed)
    texts = list_texts(builder, threads, splits, words=config.passage_words)
    copies = find_copies(builder, texts, sites=sites)
    candidates = list_candidates(builder, threads, splits, copies)

    by_votes = pair_by_votes(builder, kept, pairs_per_question=config.pairs_per_question, seed=config.seed)
    related = (find_related_across_sites if config.neighbours_across_sites else find_related)(
        builder,
        kept,
        candidates,
        embedding=embedding,
        k=config.neighbours,
        below=config.paraphrase_similarity,
        negatives=config.negatives,
        seed=config.seed,
    )
    most = config.text_characters
    drawn, verdicts = related, None
    if config.negatives_judge is not None:
        verdicts = judge_negatives(
            builder,
            drawn,
            kept,
            candidates,
            model=model.get(judge_negatives.name),
            prompt=None if encoder else prompt["judge_negative"],
            encoder=encoder,
            above=config.negatives_answer_above if encoder else None,
            characters=most,
        )
        related = keep_negatives(builder, drawn, verdicts)
    all_answers = config.negatives_with_all_answers
    by_relevance = pair_with_related(builder, related, kept, with_all_answers=all_answers, seed=config.seed)

    passages = retrieve_passages(builder, kept, candidates, passages=config.passages, words=config.passage_words)
    open_book = answer_open_book(
        builder, kept, passages, model=model["answer_open_book"], prompt=prompt["open_book"], characters=most
    )
    closed_book = answer_closed_book(
        builder, kept, model=model["answer_closed_book"], prompt=prompt["closed_book"], characters=most
    )
    corrupted = corrupt_answers(
        builder,
        open_book,
        kept,
        passages,
        model=model["corrupt_answers"],
        prompt=prompt["corrupt"],
        characters=most,
    )
    by_grounding = pair_generated(builder, kept, open_book, closed_book, corrupted)

    combined = combine_answers(
        builder,
        kept,
        model=model["combine_answers"],
        prompt=prompt["combine"],
        characters=most,
        above=config.utilization_above,
        below=config.utilization_below,
        n=config.utilization_words,
    )
    marco = msmarco.read(builder, listed(config.msmarco), msmarco.Read())
    asked = passages_of_queries(builder, config, marco, texts)
    authors = attribute_posts(builder, threads, splits, asked)
    relevant = answer_from_relevant(
        builder, asked, model=model["answer_from_relevant"], prompt=prompt["open_book"], characters=most
    )
    irrelevant = answer_from_irrelevant(
        builder, asked, model=model["answer_from_irrelevant"], prompt=prompt["irrelevant_book"], characters=most
    )
    by_evidence = pair_by_evidence(builder, asked, relevant, irrelevant)

    by_thoroughness = pair_combined(builder, kept, combined, splits)

    generated = list_generated(builder, splits, open_book, closed_book, corrupted, combined)
    generated_copies = find_generated_copies(builder, generated, texts, sites=sites)
    grounded = list_grounded(builder, asked, relevant, irrelevant)
    grounded_copies = find_grounded_copies(builder, grounded, texts, generated, sites=sites)

    assembled = (assemble_pairs_across_sites if config.neighbours_across_sites else assemble_pairs)(
        builder,
        kept,
        by_votes,
        by_relevance,
        by_grounding,
        by_thoroughness,
        open_book,
        closed_book,
        corrupted,
        combined,
        passages,
        splits,
        copies,
        generated_copies,
        candidates,
        asked,
        by_evidence,
        relevant,
        irrelevant,
        grounded_copies,
    )
    to_validate = pair_for_validation(
        builder,
        kept,
        related,
        open_book,
        closed_book,
        corrupted,
        combined,
        questions_per_site=config.validation_questions,
    )
    further = (assemble_validation_pairs_across_sites if config.neighbours_across_sites else assemble_validation_pairs)(
        builder,
        to_validate,
        kept,
        open_book,
        closed_book,
        corrupted,
        combined,
        passages,
        splits,
        copies,
        generated_copies,
        candidates,
    )
    held_out = (rank_held_out_across_sites if config.neighbours_across_sites else rank_held_out)(
        builder, kept, related, splits, copies, candidates
    )
    discussions, authors_of_discussions = discussions_to_rank(builder, config)
    passages_ranked = passages_to_rank(builder, config, marco)
    compared, comparisons = compared_answers(builder, config)
    own_texts = read_evaluation_texts(builder, opened(builder, open_texts, config.decontaminate))
    evaluated = list_evaluation_texts(
        builder, own_texts, held_out, discussions, passages_ranked, comparisons, assembled
    )
    pairs = decontaminate(builder, assembled, evaluated, similarity=config.contaminated_similarity)
    research = answered_research(builder, config)
    sample = sample_validation(builder, pairs, further, each=config.validation_pairs, seed=config.seed)
    validated = [Table("validation", sample)] if config.validation_pairs else []
    judgements = judged(builder, config, pairs, further, sample, model.get(judge_validation.name), prompt)
    decisions = None
    if judgements is not None:
        decisions = decide_pair_types(
            builder,
            pairs,
            judgements,
            at_least=config.validation_at_least,
            least_pairs=config.validation_min_pairs,
        )
        pairs = leave_out_pair_types(builder, pairs, decisions)
        validated.append(Table("judgements", judgements))
    critiques = None
    if config.margins == "critic":
        critiques = criticise_answers(
            builder,
            pairs,
            model=model[CRITIC],
            prompt=prompt["judge_listwise"],
            answers=config.critic_answers,
            passages=config.passages,
            characters=most,
            seed=config.seed,
        )
        pairs = score_pairs(builder, pairs, critiques, min_difference=config.critic_min_difference)
    chats = view_as_chats(builder, pairs, seed=config.seed)
    by_critic = (
        [
            Table("preference_critic", take_critic_margins(builder, chats), view=True),
            Table("critiques", critiques, view=True),
        ]
        if critiques is not None
        else []
    )
    published = [
        Table("pairs", pairs, apart=("overlap",)),
        Table("preference", chats, view=True),
        Table("preference_sampled", draw_one_a_question(builder, chats), view=True),
        Table("preference_text", view_as_texts(builder, chats), view=True),
        *by_critic,
        Table("ranking", held_out, more=(discussions, passages_ranked)),
        Table("comparisons", comparisons),
        *(Table(name, rows) for name, rows in research.items()),
        *validated,
    ]
    about = replace(
        ABOUT,
        terms=terms_of(config),
        terms_sentence=terms_sentence(config),
        licences=[LICENCE_OF_MSMARCO] if listed(config.msmarco) else [],
    )
    set_publication(
        builder,
        about,
        published,
        [authors, authors_of_discussions],
        tables=lambda: [
            *tables(kept, pairs),
            *mixture_tables(pairs, chats),
            *evaluation_tables(
                (held_out, discussions, passages_ranked), compared, comparisons, evaluated, assembled, pairs
            ),
            *validation_tables(judgements, decisions),
            *(critic_tables(pairs, critiques, least=config.critic_min_difference) if critiques is not None else []),
            *(
                [judged_negatives(drawn, verdicts, kept, by_relevance, with_all_answers=all_answers)]
                if verdicts
                else []
            ),
            *research_tables(research),
        ],
        figures=lambda: [*figures(pairs), *critic_figures(pairs), *research_figures(research)],
        examples=lambda: examples(pairs, authors),
        audits=replace(AUDITS, applied={"pairs": assembled.stage}),
        gates=lambda: gates(assembled, decisions),
        languages=lambda: languages_of(kept, ["title", "text"]),
    )


def passages_of_queries(builder: Builder, config: AxiomsConfig, marco: list[Rows], texts: Rows) -> Rows:
    """Queries of MS MARCO with passages that are relevant to them, and passages that are not (axiom 4). `marco`: its
    four tables; `texts`: of the community sites, with their sides.
    """
    passages, _, all_queries, qrels = marco
    regions = list(REGIONS) if config.scrub else []
    queries = select_queries(
        builder,
        all_queries,
        qrels,
        most=config.msmarco_queries,
        similarity=config.duplicate_similarity,
        test_share=config.test_share,
        regions=regions,
        seed=config.seed,
        split_seed=config.split_seed,
    )
    found = retrieve_candidates(
        builder,
        queries,
        passages,
        backend=config.msmarco_retrieval,
        depth=config.msmarco_depth,
        best=config.msmarco_k,
        far=config.msmarco_irrelevant,
        below=config.msmarco_below,
        seed=config.seed,
    )
    return choose_passages(
        builder,
        queries,
        found,
        passages,
        texts,
        k=config.msmarco_k,
        irrelevant=config.msmarco_irrelevant,
        similarity=config.duplicate_similarity,
        regions=regions,
    )


def terms_of(config: AxiomsConfig) -> str:
    """The terms of the sources as a version's recipe has them: those of MS MARCO only where somebody decided."""
    return config.terms if config.msmarco_terms == "undecided" else f"{config.terms}, MS MARCO {config.msmarco_terms}"


def terms_sentence(config: AxiomsConfig) -> str:
    """What the card says of the terms of the sources that a configuration names."""
    of_msmarco = [MSMARCO_TERMS[config.msmarco_terms]] if listed(config.msmarco) else []
    of_sets = (TERMS_OF_SETS[name] for name in evaluation_sources(config))
    return " ".join([TERMS[config.terms], *of_msmarco, *of_sets])


def judged(
    builder: Builder,
    config: AxiomsConfig,
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


def evaluation_sources(config: AxiomsConfig) -> list[str]:
    """The settings of evaluation sets that name files."""
    return [name for name in TERMS_OF_SETS if listed(getattr(config, name))]


def discussions_to_rank(builder: Builder, config: AxiomsConfig) -> tuple[Rows, Rows]:
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


def passages_to_rank(builder: Builder, config: AxiomsConfig, marco: list[Rows]) -> Rows:
    """Queries of MS MARCO as passages to rank. `marco`: its four tables."""
    passages, _, queries, qrels = marco
    return rank_passages(builder, queries, qrels, passages, negatives=config.msmarco_negatives)


def compared_answers(builder: Builder, config: AxiomsConfig) -> tuple[Rows, Rows]:
    """(all comparisons of WebGPT, those without ties as published); empty if the setting names no file."""
    opening = partial(open_files, group=WEBGPT, endings=ENDINGS_OF_WEBGPT)
    read = webgpt.read_and_admit(builder, opened(builder, opening, config.webgpt))
    return read, select_comparisons(builder, read)


def answered_research(builder: Builder, config: AxiomsConfig) -> dict[str, Rows]:
    """config -> rows: answers to research questions in every condition, how they were made, pairs of them for people,
    and what these say; {} if no questions are given.
    """
    if not listed(config.research_questions):
        return {}
    opening = partial(open_files, group="research", endings=QUESTION_ENDINGS)
    questions = read_research_questions(builder, opened(builder, opening, config.research_questions))
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


def research_pages(builder: Builder, config: AxiomsConfig) -> Rows:
    """The pages to search; none if the web is searched."""
    opening = partial(open_files, group="research", endings=PAGE_ENDINGS, piece_bytes=PIECE_BYTES)
    files = opened(builder, opening, [] if config.research_web else config.research_pages)
    return read_research_pages(builder, files, scrubbed=config.scrub, **listed_in(builder.store.home, PAGES))


def research_runs(builder: Builder, config: AxiomsConfig, questions: Rows) -> dict[str, Callable[[], Rows]]:
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


def research_guide(builder: Builder, config: AxiomsConfig) -> Scorer:
    """The scorer that guides the assistant. UsageError if there is none of this name, or it cannot guide."""
    own = f"judge:{config.endpoint_name('assist_research')}:pointwise"
    return check_guide(research_scorer(builder, config, config.research_guide or own))


def research_scorer(builder: Builder, config: AxiomsConfig, name: str) -> Scorer:
    """The scorer of this name, with the endpoints and the prompts of the configuration."""
    folders = prompt_folders(config.prompts, PROMPTS)
    prompts = {each: load_prompt(f"axioms/{each}", *folders) for each in JUDGE_PROMPTS}
    endpoints = {each: endpoint_of(each, config.endpoints) for each in (OFFLINE_ENDPOINT.name, *config.endpoints)}
    return scorer_of(name, endpoints, builder.digests, prompts)


def judging_encoder(config: AxiomsConfig, builder: Builder) -> CrossEncoderSetting | None:
    """The cross-encoder that judges negatives; None if an endpoint or nobody does. UsageError if the package
    sentence-transformers is not installed. Nothing is loaded.
    """
    name = config.negatives_judge
    if name is None or config.endpoint_name(judge_negatives.name):
        return None
    if not has_cross_encoders():
        raise UsageError(
            f'negatives_judge = "{name}" names no endpoint, so a cross-encoder of sentence-transformers, which is not '
            'installed: install the extra with `pip install -c constraints.txt -e ".[dense]"`, or add '
            f"[endpoints.{name}] to the configuration."
        )
    return cross_encoder(name, builder.digests)
