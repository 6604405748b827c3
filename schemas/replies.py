"""Structured forms of model replies. A prompt's front matter names one of these classes as `reply:`.

Field names are those of the tags, or of the JSON keys, that the prompt asks for. Docstrings and descriptions are
part of the JSON schema in a request: changing one changes the request.
"""

from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Reply(BaseModel):
    """Base of all replies: immutable, unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class WrittenAnswer(Reply):
    """An answer in Markdown, without its end mark."""

    text: Text = Field(description="the answer")


class Corruption(Reply):
    """A wrong but believable rewriting of an answer (Axiomatic Preference Modeling, axiom 3)."""

    claim: list[str] = Field(description="verifiable claims of the answer; none where it states nothing")
    corrupted_claim: list[str] = Field(description="the claims that were changed, as changed")
    corrupted_answer: Text = Field(description="the answer rewritten with the changed claims")


def _as_word(value: object) -> object:
    """A verdict in lower case, with underscores as blanks, single blanks, and without full stops, quotes, asterisks and
    backticks around it: `True` and true become `true`, "Not_supported." becomes `not supported`. A value that is
    neither text nor boolean is returned unchanged, for pydantic to refuse.
    """
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(value.replace("_", " ").split()).strip(" .\"'*`").lower() if isinstance(value, str) else value


class Relevance(Reply):
    """Whether an answer that was written to another question answers this one (Axiomatic Preference Modeling, axiom
    1).
    """

    verdict: Annotated[Literal["yes", "no"], BeforeValidator(_as_word)]


class ResearchQueries(Reply):
    """What to look up for a question (Axiomatic Preference Modeling, B.1 and E.1)."""

    query: list[str] = Field(description="queries for a search engine")


class PagePassages(Reply):
    """What a page holds on a question (Axiomatic Preference Modeling, E.1)."""

    passage: list[str] = Field(description="short passages, each understandable by itself; none if it holds nothing")


class AnswerProblems(Reply):
    """What is wrong with an answer (Axiomatic Preference Modeling, B.1: repair in a feedback loop)."""

    problem: list[str] = Field(description="what to correct, one by one; none if the answer can stay as it is")


Score = Annotated[int, Field(ge=1, le=100)]
PREFERENCES = ("strongly A", "moderately A", "slightly A", "slightly B", "moderately B", "strongly B")
FLAWS = ("unclear", "repetitive", "irrelevant", "too narrow", "too broad", "inaccurate")


def _as_preference(value: object) -> object:
    """A preference in the spelling of PREFERENCES: `slightly_a` becomes `slightly A`. Any other value is returned for
    pydantic to refuse.
    """
    word = _as_word(value)
    return f"{word[:-1]}{word[-1].upper()}" if isinstance(word, str) and word[-2:] in (" a", " b") else value


def _as_flaws(value: object) -> object:
    """The flaws in lower case, each once, without those by which models say that there are none."""
    if not isinstance(value, list):
        return value
    words = dict.fromkeys(map(_as_word, value)) if all(isinstance(each, str) for each in value) else value
    return [word for word in words if word not in ("", "none", "no flaw", "no flaws", "n/a")]


Preference = Annotated[
    Literal["strongly A", "moderately A", "slightly A", "slightly B", "moderately B", "strongly B"],
    BeforeValidator(_as_preference),
]
Flaws = Annotated[
    list[Literal["unclear", "repetitive", "irrelevant", "too narrow", "too broad", "inaccurate"]],
    BeforeValidator(_as_flaws),
]


class CandidateCritique(Reply):
    """What is good about one of several answers, what is bad, and what it lacks."""

    candidate_number: int
    strengths: list[str]
    weaknesses: list[str]
    missing_information: list[str]


class CandidateScore(Reply):
    """The score of one of several answers."""

    candidate_number: int
    candidate_score: Score


Candidate = TypeVar("Candidate", CandidateCritique, CandidateScore)


def _each_once(items: list[Candidate]) -> list[Candidate]:
    """The items unchanged; ValueError unless their candidates are numbered from 1, each once."""
    if sorted(each.candidate_number for each in items) != list(range(1, len(items) + 1)):
        raise ValueError("each candidate once")
    return items


Critiques = Annotated[list[CandidateCritique], AfterValidator(_each_once)]
Scores = Annotated[list[CandidateScore], AfterValidator(_each_once)]


class ListwiseScores(Reply):
    """Critiques, then scores, of several answers to one question (Axiomatic Preference Modeling, B.3)."""

    critiques: Critiques
    explanation: Text = Field(description="which candidates are better than which others, and why")
    scores: Scores


class PlainListwiseScores(Reply):
    """Scores of several answers to one question, without critiques (Axiomatic Preference Modeling, figure 5)."""

    scores: Scores


class PointwiseScore(Reply):
    """Critique, then score, of one answer (Axiomatic Preference Modeling, B.3)."""

    strength: list[str]
    weakness: list[str]
    missing_information: list[str]
    explanation: str | None = Field(description="how these weigh up")
    score: Score


class PlainPointwiseScore(Reply):
    """The score of one answer, without a critique (Axiomatic Preference Modeling, figure 5)."""

    score: Score


class PlainPairwiseScores(Reply):
    """Scores of two answers, which one is better, and their flaws (Axiomatic Preference Modeling, table 8)."""

    score_a: Score
    score_b: Score
    preference: Preference
    flaw_a: Flaws
    flaw_b: Flaws


class PairwiseScores(Reply):
    """Critiques, then scores, of two answers, which one is better, and their flaws (Axiomatic Preference Modeling,
    B.3).
    """

    strength_a: list[str]
    weakness_a: list[str]
    missing_a: list[str]
    strength_b: list[str]
    weakness_b: list[str]
    missing_b: list[str]
    explanation: str | None = Field(description="which answer is better, and why")
    score_a: Score
    score_b: Score
    preference: Preference
    flaw_a: Flaws
    flaw_b: Flaws


class Entailment(Reply):
    """Whether evidence says what a claim says (ExpertQA, section 5: AutoAIS)."""

    verdict: Annotated[Literal["supported", "not supported"], BeforeValidator(_as_word)]


class AtomicClaims(Reply):
    """A claim taken apart (ExpertQA, section 5: FActScore)."""

    atomic_claim: list[str] = Field(description="short statements that each say one thing")


class Judgement(Reply):
    """Whether a statement of fact is true, given passages (ExpertQA, section 5: FActScore)."""

    verdict: Annotated[Literal["true", "false"], BeforeValidator(_as_word)]


class WritingCheck(Reply):
    """Whether a message asks for a piece of writing, and which kind (Revision Distance, appendix A)."""

    verdict: Annotated[Literal["yes", "no"], BeforeValidator(_as_word)]
    kind: Annotated[Literal["email", "letter", "article", "other"], BeforeValidator(_as_word)]


INTENTIONS = ("fluency", "clarity", "coherence", "style", "meaning", "other")


def _as_intention(value: object) -> object:
    """The intention in the spelling of INTENTIONS; null and unknown words become `other`, so that the edit is kept.
    Any other value is returned for pydantic to refuse.
    """
    word = _as_word(value)
    return "other" if value is None or (isinstance(value, str) and word not in INTENTIONS) else word


def _as_text(value: object) -> object:
    """The value unchanged; an empty text for null, which models write where text is only added or only removed."""
    return "" if value is None else value


class ProposedEdit(Reply):
    """An edit that a reader would still make (Revision Distance, section 3 and appendix D)."""

    action_name: Text = Field(description="what is done, in a word or two, e.g. reorder, simplify, add")
    revision_description: str = Field(description="what changes and why, in a sentence")
    revision_level: str = Field(description="word, phrase, sentence, paragraph, reference or text")
    revision_intention: Annotated[
        Literal["fluency", "clarity", "coherence", "style", "meaning", "other"], BeforeValidator(_as_intention)
    ]
    original_snippet: Annotated[str, BeforeValidator(_as_text)] = Field(
        description="words of the draft, to the letter; empty where text is only added"
    )
    revised_snippet: Annotated[str, BeforeValidator(_as_text)] = Field(
        description="what takes their place; empty where text is only removed"
    )
    preceding_snippet: str | None = Field(
        description="words of the draft right before the place where the revised snippet goes, empty for the very "
        "beginning; null where it simply takes the place of the original snippet"
    )


class RevisionEdits(Reply):
    """All edits from a draft to its reference, or to the text its reader has in mind; none: nothing to do."""

    edits: list[ProposedEdit]


class Rating(Reply):
    """How well a draft does, beside a reference (Revision Distance, table 2: GPT-Score)."""

    score: Annotated[int, Field(ge=0, le=100, description="0: useless, 100: as good as the reference or better")]


class Compliance(Reply):
    """Whether a text meets a criterion (LLMCrit, section 3.3: checking the texts of demonstrations)."""

    reasoning: str | None = Field(description="which place of the text decides")
    verdict: Annotated[Literal["met", "violated", "not applicable"], BeforeValidator(_as_word)]


class Validity(Reply):
    """Whether a text is feedback on a particular text (LLMCrit, table 13: validity)."""

    reasoning: str | None = Field(description="thoughts, step by step")
    verdict: Annotated[Literal["specific", "not specific"], BeforeValidator(_as_word)]


class Contextualization(Reply):
    """Whether feedback belongs to the text at hand (LLMCrit, table 14: contextualization)."""

    reasoning: str | None = Field(description="thoughts, step by step")
    verdict: Annotated[Literal["match", "not match", "unsure"], BeforeValidator(_as_word)]


class Critique(Reply):
    """What feedback says against a text with regard to a criterion, and whether that helps (LLMCrit, table 15)."""

    reasoning: str | None = Field(description="thoughts, step by step")
    extraction: str | None = Field(description="what criticises or suggests, copied; empty if there is nothing")
    critique: Annotated[Literal["yes", "no"], BeforeValidator(_as_word)]
    helpful: Annotated[Literal["yes", "no"], BeforeValidator(_as_word)]


class Answerable(Reply):
    """Whether a paragraph answers a question (KIWI, appendix A.6: filter 2)."""

    verdict: Annotated[Literal["yes", "no", "partially"], BeforeValidator(_as_word)]


class ReaderInstruction(Reply):
    """What a simulated reader asks for next, or that nothing is left to ask for (KIWI, section 2.2)."""

    kind: Annotated[Literal["information", "style", "done"], BeforeValidator(_as_word)]
    instruction: str | None = Field(description="what the writer is to do; empty where nothing is left to ask for")


class ReaderRating(Reply):
    """How a simulated reader rates a revision, why, and the answer as corrected (KIWI, section 2.2)."""

    rating: Annotated[Literal["good", "neutral", "bad"], BeforeValidator(_as_word)]
    comment: Text = Field(description="the reason, in a sentence")
    edited: str | None = Field(description="the answer as it should have been; empty where it is left as it is")


class InstructionCategory(Reply):
    """What kind of instruction it is (KIWI, table 3)."""

    category: Annotated[
        Literal[
            "more information", "expand coverage", "clarification", "remove", "specific edit", "condense",
            "reorganize", "others",
        ],
        BeforeValidator(_as_word),
    ]  # fmt: skip


class ErrorCategory(Reply):
    """How a revision went wrong, by the reader's comment (KIWI, table 4)."""

    category: Annotated[
        Literal["unrequested change", "ignored", "constraint failure", "poor integration", "others"],
        BeforeValidator(_as_word),
    ]


class Following(Reply):
    """Whether a revised answer follows its instruction (KIWI, section 5)."""

    rating: Annotated[Literal["good", "bad"], BeforeValidator(_as_word)]
