"""Drafts: a weak and a strong model for easy writing, one call or steps of thought for related work, or as given.

Related work in steps (appendix C): the model recalls what it knows of the subject, writes a segment from each of three
perspectives, and makes one paragraph of all of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby

from longform.artifacts.recipe import fingerprint
from longform.engine.at_most import Sizes, bound_by, longest
from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from schemas.revision_distance import DRAFTS, KNOWLEDGE, SEGMENTS
from tasks.answers import NO_MODEL, made_by, refused, usable
from tasks.revision_distance.drafts.edits import REQUEST_CHARACTERS

PERSPECTIVES = {
    "problems": "Problems: which question or shortcoming each of the papers takes up, how far it gets with it, and "
    "which of these problems remains for the own paper.",
    "methods": "Methods: by which methods, models or data the papers work, which of them work alike and which "
    "differ, and where the own paper's method stands among them.",
    "history": "History: how the work on this subject has developed, which paper builds on which or answers it, and "
    "how the own paper carries this on.",
}
GIVEN_TASKS = ("free", "structure")
DRAFT_TOKENS = 4_096
STEP_TOKENS = 2_048
TITLE_CHARACTERS = 500
ABSTRACT_CHARACTERS = 4_000
CITED_PAPERS = 60
KNOWLEDGE_CHARACTERS = 8_000
SEGMENT_CHARACTERS = 8_000

_RELATED_REQUEST = "Write one paragraph for the related-work section of this paper:"
_CITED_REQUEST = "It is to speak of these papers:"

Inputs = Callable[[Row], Row]


# ---------------------------------------------------------------- what is asked at most


def _cases_of(task: str, times: Callable[[Sizes], int] = lambda of: 1) -> Callable[[Sizes], float]:
    """The cases of a task, as many as are drawn, each so many times."""

    def most(of: Sizes) -> float:
        numbers = of.arguments_of("cases").get("numbers", {})
        return float(min(of["cases"], bound_by(numbers.get(task))) * times(of))

    return most


def _longest_request(of: Sizes) -> list[Request]:
    return [of["prompt"].request(of["model"], max_tokens=DRAFT_TOKENS, request=longest(REQUEST_CHARACTERS))]


def _longest_papers() -> Row:
    paper = longest(TITLE_CHARACTERS + 1 + ABSTRACT_CHARACTERS)
    return {"own": paper, "papers": [paper] * CITED_PAPERS}


def _longest_vanilla(of: Sizes) -> list[Request]:
    return [of["prompt"].request(of["model"], max_tokens=DRAFT_TOKENS, **_longest_papers())]


def _longest_recalling(of: Sizes) -> list[Request]:
    return [of["prompt"].request(of["model"], max_tokens=STEP_TOKENS, **_longest_papers())]


def _longest_segment(of: Sizes) -> list[Request]:
    texts = {"knowledge": longest(KNOWLEDGE_CHARACTERS), "perspective": max(PERSPECTIVES.values(), key=len)}
    return [of["prompt"].request(of["model"], max_tokens=STEP_TOKENS, **texts, **_longest_papers())]


def _longest_cot(of: Sizes) -> list[Request]:
    segments = [longest(SEGMENT_CHARACTERS)] * len(of.arguments_of("segments")["perspectives"])
    texts = {"knowledge": longest(KNOWLEDGE_CHARACTERS), "segments": segments}
    return [of["prompt"].request(of["model"], max_tokens=DRAFT_TOKENS, **texts, **_longest_papers())]


_EASY, _HARD, _SEGMENTS = _cases_of("easy"), _cases_of("hard"), _cases_of("hard", lambda of: len(of["perspectives"]))


# ---------------------------------------------------------------- easy writing


@stage(DRAFTS, revision=2, at_most=AtMost(rows=_EASY, calls=_EASY, questions=_longest_request))
def write_weak(context: StageContext, cases: Rows, *, model: Endpoint, prompt: Prompt) -> Iterator[Row | Rejected]:
    """What the weak model writes, by the request alone."""
    yield from _drafts(context, cases, "easy", "weak", _request, model, prompt)


@stage(DRAFTS, revision=2, at_most=AtMost(rows=_EASY, calls=_EASY, questions=_longest_request))
def write_strong(context: StageContext, cases: Rows, *, model: Endpoint, prompt: Prompt) -> Iterator[Row | Rejected]:
    """What the strong model writes, by the request alone."""
    yield from _drafts(context, cases, "easy", "strong", _request, model, prompt)


# ---------------------------------------------------------------- related work


@stage(DRAFTS, revision=2, at_most=AtMost(rows=_HARD, calls=_HARD, questions=_longest_vanilla))
def write_vanilla(context: StageContext, cases: Rows, *, model: Endpoint, prompt: Prompt) -> Iterator[Row | Rejected]:
    """A related-work paragraph from the paper and the papers it cites, in one call."""
    yield from _drafts(context, cases, "hard", "vanilla", papers_of, model, prompt)


@stage(KNOWLEDGE, revision=2, at_most=AtMost(rows=_HARD, calls=_HARD, questions=_longest_recalling))
def recall_knowledge(
    context: StageContext, cases: Rows, *, model: Endpoint, prompt: Prompt
) -> Iterator[Row | Rejected]:
    """Step 1: what the model knows of the subject."""
    for case, made in _written(context, cases, "hard", papers_of, model, prompt, STEP_TOKENS):
        key = {"knowledge_id": f"k_{fingerprint(case['case_id'])}", "case_id": case["case_id"]}
        yield made if isinstance(made, Rejected) else {**key, **made}


@stage(SEGMENTS, revision=2, at_most=AtMost(rows=_SEGMENTS, calls=_SEGMENTS, questions=_longest_segment))
def write_segments(
    context: StageContext, cases: Rows, knowledge: Rows, *, model: Endpoint, prompt: Prompt, perspectives: list[str]
) -> Iterator[Row | Rejected]:
    """Step 2: a segment from each perspective. A case has all of them or none: one that fails rejects the case."""
    known = {row["case_id"]: row["text"] for row in knowledge}
    ready, others = _ready(cases, {"no knowledge": known})
    yield from others
    inputs = ((case, name, _segment(case, known, name)) for case in ready for name in perspectives)
    requests = (((case, name), prompt.request(model, max_tokens=STEP_TOKENS, **given)) for case, name, given in inputs)
    replies = context.ask(model, requests)
    for _, segments in groupby(replies, key=lambda reply: str(reply[0][0]["case_id"])):
        yield from _all_or_none([_one_segment(case, name, said, model, prompt) for (case, name), said in segments])


def _segment(case: Row, known: dict[str, str], perspective: str) -> Row:
    knowledge = known[case["case_id"]][:KNOWLEDGE_CHARACTERS]
    return {**papers_of(case), "knowledge": knowledge, "perspective": PERSPECTIVES[perspective]}


def _one_segment(
    case: Row, perspective: str, answer: Answer | Failure, model: Endpoint, prompt: Prompt
) -> Row | Rejected:
    key = case["case_id"]
    made = _made(key, answer, model, prompt)
    if isinstance(made, Rejected):
        return replace(made, detail=f"{perspective}: {made.detail}" if made.detail else perspective)
    segment = f"s_{fingerprint([key, perspective])}"
    return {"segment_id": segment, "case_id": key, "perspective": perspective, **made}


def _all_or_none(segments: list[Row | Rejected]) -> list[Row | Rejected]:
    return [each for each in segments if isinstance(each, Rejected)] or segments


@stage(DRAFTS, revision=2, at_most=AtMost(rows=_HARD, calls=_HARD, questions=_longest_cot))
def write_cot(
    context: StageContext, cases: Rows, knowledge: Rows, segments: Rows, *, model: Endpoint, prompt: Prompt
) -> Iterator[Row | Rejected]:
    """Step 3: one paragraph of the papers, what was recalled, and the segments."""
    known = {row["case_id"]: row["text"] for row in knowledge}
    parts: defaultdict[str, list[str]] = defaultdict(list)
    for row in segments:
        parts[row["case_id"]].append(row["text"][:SEGMENT_CHARACTERS])
    ready, others = _ready(cases, {"no knowledge": known, "no segments": parts})
    yield from others

    def inputs(case: Row) -> Row:
        knowledge = known[case["case_id"]][:KNOWLEDGE_CHARACTERS]
        return {**papers_of(case), "knowledge": knowledge, "segments": parts[case["case_id"]]}

    yield from _drafts(context, ready, "hard", "cot", inputs, model, prompt)


def _ready(cases: Iterable[Row], needed: dict[str, Mapping[str, object]]) -> tuple[list[Row], list[Rejected]]:
    """Cases of related work that all steps before gave something for, and the other cases, with what they lack."""
    ready: list[Row] = []
    others: list[Rejected] = []
    for case in cases:
        lacks = next((reason for reason, given in needed.items() if case["case_id"] not in given), None)
        if case["task"] != "hard":
            others.append(_another_task(case))
        elif lacks:
            others.append(Rejected(case["case_id"], "filtered", lacks))
        else:
            ready.append(case)
    return ready, others


# ---------------------------------------------------------------- as given, and all of them


@stage(DRAFTS, revision=1, at_most=AtMost(rows=lambda of: 2 * of["cases"]))  # chosen and rejected
def take_given(context: StageContext, cases: Rows) -> Iterator[Row | Rejected]:
    """The drafts that cases without a writer of ours come with, as they came."""
    for case in cases:
        if case["task"] not in GIVEN_TASKS:
            yield _another_task(case)
        elif not case["given"]:
            yield Rejected(case["case_id"], "filtered", "no draft given")
        else:
            yield from (_given(case, given) for given in case["given"])


def _given(case: Row, given: Row) -> Row | Rejected:
    if not given["text"].strip():
        return Rejected(case["case_id"], "defect", "the given draft is empty", detail=given["system"])
    made = {"text": given["text"], "writer": given["writer"], **NO_MODEL}
    return draft_row(case, given["system"], made)


@stage(
    DRAFTS,
    revision=1,
    at_most=AtMost(rows=lambda of: of["weak"] + of["strong"] + of["vanilla"] + of["cot"] + of["given"]),
)
def collect_drafts(
    context: StageContext, cases: Rows, weak: Rows, strong: Rows, vanilla: Rows, cot: Rows, given: Rows
) -> Iterator[Row | Rejected]:
    """All drafts in the order of the cases, then of these inputs; a case without any is rejected."""
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for source in (weak, strong, vanilla, cot, given):
        for draft in source:
            found[draft["case_id"]].append(draft)
    for case in cases:
        if case["case_id"] not in found:
            yield Rejected(case["case_id"], "filtered", "no draft")
        yield from found[case["case_id"]]


# ---------------------------------------------------------------- what is asked, and what comes of it


def papers_of(case: Row) -> Row:
    """`own` and `papers` of a prompt: titles with their abstracts, cut where they are very long."""
    return {"own": paper_text(case), "papers": [paper_text(cited) for cited in case["cited"][:CITED_PAPERS]]}


def paper_text(paper: Row) -> str:
    """A title on one line, and the abstract below it; what is not known is left out."""
    title = " ".join((paper["title"] or "").split())[:TITLE_CHARACTERS]
    abstract = (paper["abstract"] or "").strip()[:ABSTRACT_CHARACTERS]
    return "\n".join(text for text in (title, abstract) if text)


def request_of(case: Row) -> str:
    """What the writer of a case was asked; for related work, which nobody asked for in words, said in ours."""
    if case["task"] != "hard":
        return case["request"] or ""
    papers = papers_of(case)
    titles = [text.partition("\n")[0] for text in papers["papers"]]
    cited = [f"[{number}] {title}" for number, title in enumerate(titles, 1)]
    return "\n".join([_RELATED_REQUEST, papers["own"], _CITED_REQUEST, *cited])


def draft_row(case: Row, system: str, made: Row) -> Row:
    """`made` has the text and who wrote it."""
    key = case["case_id"]
    draft = f"d_{fingerprint([key, system, made['text']])}"
    return {"draft_id": draft, "case_id": key, "task": case["task"], "system": system, **made}


def _request(case: Row) -> Row:
    return {"request": request_of(case)[:REQUEST_CHARACTERS]}


def _drafts(
    context: StageContext, cases: Iterable[Row], task: str, system: str, inputs: Inputs, model: Endpoint, prompt: Prompt
) -> Iterator[Row | Rejected]:
    for case, made in _written(context, cases, task, inputs, model, prompt, DRAFT_TOKENS):
        yield made if isinstance(made, Rejected) else draft_row(case, system, {**made, "writer": None})


def _written(
    context: StageContext, cases: Iterable[Row], task: str, inputs: Inputs, model: Endpoint, prompt: Prompt, tokens: int
) -> Iterator[tuple[Row, Row | Rejected]]:
    """Each case with the model's text and who wrote it, or why there is none; cases of another task come first."""
    asked = []
    for case in cases:
        if case["task"] == task:
            asked.append(case)
        else:
            yield case, _another_task(case)
    requests = ((case, prompt.request(model, max_tokens=tokens, **inputs(case))) for case in asked)
    for case, answer in context.ask(model, requests):
        yield case, _made(case["case_id"], answer, model, prompt)


def _made(key: str, answer: Answer | Failure, model: Endpoint, prompt: Prompt) -> Row | Rejected:
    if isinstance(answer, Failure):
        return refused(key, answer)
    text = usable(key, answer)
    return text if isinstance(text, Rejected) else {"text": text, **made_by(answer, model, prompt)}


def _another_task(case: Row) -> Rejected:
    return Rejected(case["case_id"], "filtered", "another task")
