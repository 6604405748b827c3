"""The axioms dataset: preference pairs for long-form answers (Axiomatic Preference Modeling), axioms 0, 1, 2, 3, 5."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from flows.config.endpoints import EndpointName, ModelSettings, endpoint_of, endpoint_of_stage
from flows.config.inputs import listed, opened
from flows.config.prompts import PROMPTS
from flows.registry import model_stages
from flows.sources import msmarco, reddit, webgpt
from longform.artifacts.rows import Rows
from longform.engine.stage import Builder
from longform.errors import UsageError
from longform.llm.ask.prompts import load_prompt, prompt_folders
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
from tasks.axioms.evaluation.tables import decontamination_table, set_tables
from tasks.axioms.evaluation.texts import list_evaluation_texts, open_texts, read_evaluation_texts
from tasks.axioms.exports import EXPORTS as EXPORTS
from tasks.axioms.negatives.judge import judge_negatives, keep_negatives
from tasks.axioms.offline import RULES
from tasks.axioms.pairs import pair_by_votes, pair_combined, pair_generated, pair_with_related
from tasks.axioms.paper_tables import tables
from tasks.axioms.people.form import sheets as sheets
from tasks.axioms.preference import draw_one_a_question, view_as_chats, view_as_texts
from tasks.axioms.published import assemble_pairs, assemble_pairs_across_sites
from tasks.axioms.questions import attribute_posts, select_questions
from tasks.axioms.related import check_embedding, find_related, retrieve_passages
from tasks.axioms.report.examples import examples
from tasks.axioms.report.mixture import mixture_tables
from tasks.axioms.report.negatives import judged_negatives
from tasks.axioms.report.plots import figures
from tasks.axioms.sealed.same import find_paraphrases, find_same, sign_questions
from tasks.axioms.sealed.sealing import find_copies, find_generated_copies, list_candidates, list_generated, list_texts
from tasks.axioms.sealed.splits import assign_splits
from tasks.axioms.takedown import responses_of as responses_of
from tasks.axioms.trace import example_row_id as example_row_id
from tasks.axioms.trace import trace as trace
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
from tasks.text.scrub import REGIONS

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "data" / "samples" / "community.example"
EVALUATION = {name: ROOT / "data" / "samples" / name for name in ("eli5", "msmarco", "webgpt")}

OFFLINE = RULES
ABOUT = About(
    dataset="axioms",
    title="Axiomatic preference pairs for long-form answers",
    summary=(
        "Pairs of answers to community questions, of which one is preferred by an axiom: more votes (0), an answer to "
        "this rather than a related question (1), grounded in evidence rather than not (2), true rather than corrupted "
        "(3), two good answers combined rather than a lesser one (5). Rebuilt from a Stack Exchange data dump."
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

TERMS_OF_SETS = {  # setting -> what its rows may be used for
    "eli5": "Posts of Reddit (config ranking) are their authors', under its User Agreement and Data API terms: for "
    "evaluation only, never to train on; what is deleted there has to go here, too.",
    "msmarco_ranking": "Passages and queries of MS MARCO (config ranking) are for non-commercial research only.",
    "webgpt": "The comparisons of WebGPT (config comparisons) name no licence; most of their questions are Reddit's.",
}

Share = Annotated[float, Field(ge=0, le=1)]
JUDGE = judge_negatives.name
PROMPT_NAMES = ("open_book", "closed_book", "corrupt", "combine", "judge_negative")


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
    utilization_above: float = Field(
        0.35, ge=0, le=2, description="axiom 5: a combined answer uses more of its parents"
    )
    utilization_below: float = Field(
        1.85, ge=0, le=2.1, description="axiom 5: and less than this, else it only repeats them"
    )
    utilization_words: int = Field(2, ge=1, description="axiom 5: n of the n-grams that utilization counts")
    test_share: Share = Field(0.1, description="share of the questions held out for testing")
    duplicate_similarity: float = Field(
        0.5, gt=0, le=1, description="questions sharing this much of their word 3-grams (Jaccard) stay in one split"
    )

    eli5: str | list[str] = Field(
        str(EVALUATION["eli5"]),
        description="evaluation: Reddit dumps with r/explainlikeimfive, r/askscience or r/AskHistorians; [] for none",
    )
    eli5_questions: int = Field(20_000, ge=1, description="evaluation: at most this many questions of a subreddit")
    msmarco_ranking: str | list[str] = Field(
        str(EVALUATION["msmarco"]),
        description="evaluation: MS MARCO's collection, queries and qrels, as files or folders; [] for none",
    )
    msmarco_negatives: int = Field(1_000, ge=1, description="evaluation: passages without a label a query, at most")
    webgpt: str | list[str] = Field(
        str(EVALUATION["webgpt"]), description="evaluation: comparisons.jsonl of WebGPT; [] for none"
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

    @model_validator(mode="after")
    def some_utilization_is_kept(self) -> Self:
        """The settings unchanged; ValueError unless utilization_above is less than utilization_below."""
        if self.utilization_above >= self.utilization_below:
            raise ValueError("utilization_above must be less than utilization_below, else no combined answer is kept")
        return self

    @model_validator(mode="after")
    def judge_has_one_setting(self) -> Self:
        """The settings unchanged; ValueError if the judge of negatives is named in [stages], too."""
        if JUDGE in self.stages and self.stages[JUDGE].model:
            raise ValueError(f"stages.{JUDGE} has a model, but negatives_judge says who judges: set it there alone")
        return self

    def endpoint_name(self, stage: str) -> str | None:
        """The name of the endpoint that a stage asks; None for the judge of negatives if `negatives_judge` is unset or
        names a cross-encoder.
        """
        if stage != JUDGE:
            return super().endpoint_name(stage)
        return self.negatives_judge if self.negatives_judge in (OFFLINE_ENDPOINT.name, *self.endpoints) else None


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
    authors = attribute_posts(builder, threads, splits)
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
            model=model.get(JUDGE),
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
    by_thoroughness = pair_combined(builder, kept, combined, splits)

    generated = list_generated(builder, splits, open_book, closed_book, corrupted, combined)
    generated_copies = find_generated_copies(builder, generated, texts, sites=sites)

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
    )
    held_out = (rank_held_out_across_sites if config.neighbours_across_sites else rank_held_out)(
        builder, kept, related, splits, copies, candidates
    )
    discussions, authors_of_discussions = discussions_to_rank(builder, config)
    passages_ranked = passages_to_rank(builder, config)
    compared, comparisons = compared_answers(builder, config)
    pairs, evaluated = assembled, None
    if config.decontamination:
        own_texts = read_evaluation_texts(builder, opened(builder, open_texts, config.decontaminate))
        evaluated = list_evaluation_texts(
            builder, own_texts, held_out, discussions, passages_ranked, comparisons, assembled
        )
        pairs = decontaminate(builder, assembled, evaluated, similarity=config.contaminated_similarity)
    chats = view_as_chats(builder, pairs, seed=config.seed)
    published = [
        Table("pairs", pairs, apart=("overlap",)),
        Table("preference", chats, view=True),
        Table("preference_sampled", draw_one_a_question(builder, chats), view=True),
        Table("preference_text", view_as_texts(builder, chats), view=True),
        Table("ranking", held_out, more=(discussions, passages_ranked)),
        *([Table("comparisons", comparisons)] if listed(config.webgpt) else []),
    ]
    about = replace(
        ABOUT,
        terms=config.terms,
        terms_sentence=" ".join([TERMS[config.terms], *(TERMS_OF_SETS[name] for name in evaluation_sources(config))]),
        licences=[LICENCE_OF_MSMARCO] if "msmarco_ranking" in evaluation_sources(config) else [],
    )
    set_publication(
        builder,
        about,
        published,
        [authors, authors_of_discussions],
        tables=lambda: [
            *tables(kept, pairs),
            *mixture_tables(pairs, chats),
            *set_tables((held_out, discussions, passages_ranked), compared, comparisons),
            *([decontamination_table(evaluated, assembled, pairs)] if evaluated else []),
            *(
                [judged_negatives(drawn, verdicts, kept, by_relevance, with_all_answers=all_answers)]
                if verdicts
                else []
            ),
        ],
        figures=lambda: figures(pairs),
        examples=lambda: examples(pairs, authors),
        audits=AUDITS,
        languages=lambda: languages_of(kept, ["title", "text"]),
    )


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


def passages_to_rank(builder: Builder, config: AxiomsConfig) -> Rows:
    """Queries of MS MARCO as passages to rank; empty if the setting names no file."""
    files = msmarco.opened(builder, listed(config.msmarco_ranking)) if listed(config.msmarco_ranking) else []
    passages, _, queries, qrels = msmarco.read_and_admit(builder, files, repair=True)
    return rank_passages(builder, queries, qrels, passages, negatives=config.msmarco_negatives)


def compared_answers(builder: Builder, config: AxiomsConfig) -> tuple[Rows, Rows]:
    """(all comparisons of WebGPT, those without ties as published); empty if the setting names no file."""
    opening = partial(open_files, group=WEBGPT, endings=ENDINGS_OF_WEBGPT)
    read = webgpt.read_and_admit(builder, opened(builder, opening, config.webgpt))
    return read, select_comparisons(builder, read)


def judging_encoder(config: AxiomsConfig, builder: Builder) -> CrossEncoderSetting | None:
    """The cross-encoder that judges negatives; None if an endpoint or nobody does. UsageError if the package
    sentence-transformers is not installed. Nothing is loaded.
    """
    name = config.negatives_judge
    if name is None or config.endpoint_name(JUDGE):
        return None
    if not has_cross_encoders():
        raise UsageError(
            f'negatives_judge = "{name}" names no endpoint, so a cross-encoder of sentence-transformers, which is not '
            'installed: install the extra with `pip install -c constraints.txt -e ".[dense]"`, or add '
            f"[endpoints.{name}] to the configuration."
        )
    return cross_encoder(name, builder.digests)
