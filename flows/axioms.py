"""The axioms dataset: preference pairs for long-form answers (Axiomatic Preference Modeling), axioms 0 to 5."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from flows import preference as preference
from flows.config.endpoints import endpoint_of, endpoint_of_stage
from flows.config.inputs import check_accounts, listed, opened
from flows.config.prompts import PROMPTS
from flows.preference.community import SAMPLES as SAMPLES
from flows.preference.evaluation import EvaluationSettings, compared_answers, discussions_to_rank, evaluation_terms
from flows.preference.passages import PassageSettings, msmarco_terms, passages_of_queries, passages_to_rank
from flows.preference.research import CONVERSING_STAGES, ResearchSettings, answered_research, questions_for_research
from flows.preference.validation import ValidationSettings, judged
from flows.registry import model_stages
from flows.sources import msmarco
from longform.engine.stage import Builder
from longform.errors import UsageError
from longform.llm.ask.prompts import load_prompt, prompt_folders
from longform.llm.offline import ENDPOINT as OFFLINE_ENDPOINT
from tasks.axioms.across import find_related_across_sites
from tasks.axioms.answers import answer_closed_book, answer_open_book, combine_answers, corrupt_answers
from tasks.axioms.audits import AUDITS
from tasks.axioms.evaluation.contamination import decontaminate
from tasks.axioms.evaluation.ranking import rank_held_out, rank_held_out_across_sites
from tasks.axioms.evaluation.tables import decontamination_table, set_tables
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
from tasks.axioms.judging.critic import criticise_answers
from tasks.axioms.judging.margins import score_pairs, take_critic_margins
from tasks.axioms.judging.report import critic_figures, critic_tables
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
from tasks.axioms.research.compared import sheets as sheets_of_research
from tasks.axioms.research.report import research_figures, research_tables
from tasks.axioms.sealed.same import find_paraphrases, find_same, sign_questions
from tasks.axioms.sealed.sealing import find_copies, find_generated_copies, list_candidates, list_generated, list_texts
from tasks.axioms.sealed.splits import assign_splits
from tasks.axioms.takedown import responses_of as responses_of
from tasks.axioms.trace import example_row_id as example_row_id
from tasks.axioms.trace import trace as trace
from tasks.axioms.validation.gate import (
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
from tasks.sources.released.msmarco import LICENCE as LICENCE_OF_MSMARCO
from tasks.sources.stackexchange.links import join_duplicates, open_links, read_links
from tasks.sources.stackexchange.posts import open_dumps, read_posts, scrub_posts
from tasks.sources.stackexchange.threads import join_threads, open_users, read_users
from tasks.text.scrub import REGIONS

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
JUDGES = {judge_negatives.name: "negatives_judge", judge_validation.name: "validation_judge"}
CRITIC = criticise_answers.name
PROMPT_NAMES = (
    *("open_book", "closed_book", "corrupt", "combine", "irrelevant_book"),
    *("judge_negative", "judge_pairwise", "judge_listwise"),
)
TRACED_BY_IDS = ("research", "research_steps", "research_pairs", "research_judgements")  # all else by `trace`
OF_SAMPLES = ("msmarco", "eli5", "webgpt", "research_questions")
FORMS = {"research": sheets_of_research}  # beside `sheets`, which needs no name


class AxiomsConfig(ResearchSettings, EvaluationSettings, ValidationSettings, PassageSettings):
    """Settings of the axioms dataset."""

    MODEL_STAGES: ClassVar = model_stages(globals())
    CONVERSING: ClassVar = CONVERSING_STAGES

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

    @model_validator(mode="after")
    def samples_stand_beside_samples(self) -> Self:
        """The settings; where `dump` is not our sample, other settings that still name samples (OF_SAMPLES) name
        nothing, so that no row of ours comes into a version of one's own.
        """
        if self.dump != type(self).model_fields["dump"].default:
            for name in OF_SAMPLES:
                if getattr(self, name) == type(self).model_fields[name].default:
                    setattr(self, name, [])
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
    questions = questions_for_research(builder, config)
    clean, evaluated = assembled, None
    if config.decontamination:
        own_texts = read_evaluation_texts(builder, opened(builder, open_texts, config.decontaminate))
        evaluated = list_evaluation_texts(
            builder, own_texts, held_out, discussions, passages_ranked, comparisons, questions, assembled
        )
        clean = decontaminate(builder, assembled, evaluated, similarity=config.contaminated_similarity)
    pairs = clean
    research = answered_research(builder, config, questions)
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
        *([Table("comparisons", comparisons)] if listed(config.webgpt) else []),
        *(Table(name, rows) for name, rows in research.items()),
        *validated,
    ]
    about = replace(
        ABOUT,
        terms=terms_of(config),
        terms_sentence=" ".join([TERMS[config.terms], *msmarco_terms(config), *evaluation_terms(config)]),
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
            *set_tables((held_out, discussions, passages_ranked), compared, comparisons),
            *([decontamination_table(evaluated, assembled, clean)] if evaluated else []),
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
        gates=lambda: gates(clean, decisions),
        languages=lambda: languages_of(kept, ["title", "text"]),
    )


def terms_of(config: AxiomsConfig) -> str:
    """The terms of the sources as a version's recipe has them: those of MS MARCO only where somebody decided."""
    return config.terms if config.msmarco_terms == "undecided" else f"{config.terms}, MS MARCO {config.msmarco_terms}"


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
