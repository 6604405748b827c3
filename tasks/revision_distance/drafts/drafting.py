"""Drafts of all tasks: by a weak and a strong model, by one call or a chain of thought, or from the source data.

The chain of thought for related work (appendix C): the model recalls what it knows of the subject, writes a segment
from each of three perspectives, and combines these into one paragraph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, groupby
from types import MappingProxyType

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import grouped
from longform.engine.at_most import Sizes, bound_by, longest
from longform.engine.stage import AtMost, Rejected, Row, Rows, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint, Failure, Request
from schemas.revision_distance import DRAFTS, KNOWLEDGE, SEGMENTS
from tasks.answers import NO_MODEL, made_by, unanswered
from tasks.revision_distance.audits import audited_draft
from tasks.revision_distance.drafts.measure import REQUEST_CHARACTERS

PERSPECTIVES = {
    "problems": "Problems: which question or shortcoming each of the papers takes up, how far it gets with it, and "
    "which of these problems remains for the own paper.",
    "methods": "Methods: by which methods, models or data the papers work, which of them work alike and which "
    "differ, and where the own paper's method stands among them.",
    "history": "History: how the work on this subject has developed, which paper builds on which or answers it, and "
    "how the own paper carries this on.",
}
TASKS_WITH_DRAFTS = ("free", "structure")
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


def _only(*tasks: str) -> str:
    """The SQL condition of the cases of these tasks."""
    return " OR ".join(f"task = '{task}'" for task in tasks)


# ---------------------------------------------------------------- upper bounds of a plan


def _cases_of(task: str, of: Sizes) -> float:
    """Upper bound of the number of cases of a task, for a plan."""
    number = of.arguments_of("cases").get("numbers", {}).get(task)
    return float(min(of["cases"], bound_by(number)))


def _segments(of: Sizes) -> float:
    """Upper bound of the number of segments: one for each hard case and perspective."""
    return _HARD(of) * len(of["perspectives"])


def _longest_request(of: Sizes) -> list[Request]:
    """The longest request for a draft of an easy case, for a plan."""
    return [of["prompt"].request(of["model"], max_tokens=DRAFT_TOKENS, request=longest(REQUEST_CHARACTERS))]


def _longest_related(of: Sizes, tokens: int, **texts: str | list[str]) -> list[Request]:
    """The longest request about the papers of a hard case, for a plan.

    `tokens`: limit of the reply. `texts`: the prompt's further inputs.
    """
    paper = longest(TITLE_CHARACTERS + 1 + ABSTRACT_CHARACTERS)
    papers = {"own": paper, "papers": [paper] * CITED_PAPERS}
    return [of["prompt"].request(of["model"], max_tokens=tokens, **texts, **papers)]


def _longest_cot(of: Sizes) -> list[Request]:
    """The longest request of the last step of the chain of thought, for a plan."""
    segments = [longest(SEGMENT_CHARACTERS)] * len(of.arguments_of("segments")["perspectives"])
    return _longest_related(of, DRAFT_TOKENS, knowledge=longest(KNOWLEDGE_CHARACTERS), segments=segments)


_EASY, _HARD = partial(_cases_of, "easy"), partial(_cases_of, "hard")
_longest_segment = partial(
    _longest_related,
    tokens=STEP_TOKENS,
    knowledge=longest(KNOWLEDGE_CHARACTERS),
    perspective=max(PERSPECTIVES.values(), key=len),
)


# ---------------------------------------------------------------- easy writing


@stage(DRAFTS, revision=5, at_most=AtMost(rows=_EASY, calls=_EASY, questions=_longest_request), only=_only("easy"))
def write_weak(context: StageContext, cases: Rows, *, model: Endpoint, prompt: Prompt) -> Iterator[Row | Rejected]:
    """The weak model's draft of each easy case, written from the request alone.

    A Rejected for a case without a usable reply.
    """
    yield from _drafts(context, _ready(cases, "easy"), "weak", _request, model, prompt)


@stage(DRAFTS, revision=5, at_most=AtMost(rows=_EASY, calls=_EASY, questions=_longest_request), only=_only("easy"))
def write_strong(context: StageContext, cases: Rows, *, model: Endpoint, prompt: Prompt) -> Iterator[Row | Rejected]:
    """The strong model's draft of each easy case, written from the request alone.

    A Rejected for a case without a usable reply.
    """
    yield from _drafts(context, _ready(cases, "easy"), "strong", _request, model, prompt)


# ---------------------------------------------------------------- related work


@stage(
    DRAFTS,
    revision=5,
    at_most=AtMost(rows=_HARD, calls=_HARD, questions=partial(_longest_related, tokens=DRAFT_TOKENS)),
    only=_only("hard"),
)
def write_vanilla(context: StageContext, cases: Rows, *, model: Endpoint, prompt: Prompt) -> Iterator[Row | Rejected]:
    """A related-work paragraph for each hard case, written in one call from the paper and the papers to cite.

    A Rejected for a case without a usable reply.
    """
    yield from _drafts(context, _ready(cases, "hard"), "vanilla", papers_of, model, prompt)


@stage(
    KNOWLEDGE,
    revision=5,
    at_most=AtMost(rows=_HARD, calls=_HARD, questions=partial(_longest_related, tokens=STEP_TOKENS)),
    only=_only("hard"),
)
def recall_knowledge(
    context: StageContext, cases: Rows, *, model: Endpoint, prompt: Prompt
) -> Iterator[Row | Rejected]:
    """Step 1 of the chain of thought: what the model knows about the subject of each hard case.

    A Rejected for a case without a usable reply.
    """
    ready, others = _ready(cases, "hard")
    yield from others
    for case, written in _written(context, ready, papers_of, model, prompt, STEP_TOKENS):
        key = {"knowledge_id": f"k_{fingerprint(case['case_id'])}", "case_id": case["case_id"]}
        yield written if isinstance(written, Rejected) else {**key, **written}


@stage(
    SEGMENTS,
    revision=5,
    at_most=AtMost(rows=_segments, calls=_segments, questions=_longest_segment),
    only=_only("hard"),
)
def write_segments(
    context: StageContext, cases: Rows, knowledge: Rows, *, model: Endpoint, prompt: Prompt, perspectives: list[str]
) -> Iterator[Row | Rejected]:
    """Step 2 of the chain of thought: a segment of each hard case from each perspective, a key of PERSPECTIVES.

    If a segment of a case has no usable reply, the case has no segments, but a Rejected for each one that failed. A
    Rejected also for a case without knowledge.
    """
    known = {row["case_id"]: row["text"] for row in knowledge}
    ready, others = _ready(cases, "hard", {"no knowledge": known})
    yield from others
    asked = ({**case, "perspective": name} for case in ready for name in perspectives)

    def inputs(case: Row) -> Row:
        knowledge = known[case["case_id"]][:KNOWLEDGE_CHARACTERS]
        return {**papers_of(case), "knowledge": knowledge, "perspective": PERSPECTIVES[case["perspective"]]}

    replies = _written(context, asked, inputs, model, prompt, STEP_TOKENS)
    for _, own in groupby(replies, key=lambda reply: str(reply[0]["case_id"])):
        segments = [_segment(case, written) for case, written in own]
        yield from [each for each in segments if isinstance(each, Rejected)] or segments


def _segment(case: Row, written: Row | Rejected) -> Row | Rejected:
    """The row of SEGMENTS of a text that was written; a Rejected is returned with the perspective in its detail.

    `case`: a case with its `perspective`; `written`: `text` and the columns of MADE_BY.
    """
    key, perspective = case["case_id"], case["perspective"]
    if isinstance(written, Rejected):
        return replace(written, detail=f"{perspective}: {written.detail}" if written.detail else perspective)
    segment = f"s_{fingerprint([key, perspective])}"
    return {"segment_id": segment, "case_id": key, "perspective": perspective, **written}


@stage(DRAFTS, revision=5, at_most=AtMost(rows=_HARD, calls=_HARD, questions=_longest_cot), only=_only("hard"))
def write_cot(
    context: StageContext, cases: Rows, knowledge: Rows, segments: Rows, *, model: Endpoint, prompt: Prompt
) -> Iterator[Row | Rejected]:
    """Step 3 of the chain of thought: one paragraph from the papers, the recalled knowledge and the segments.

    A Rejected for a case without knowledge or segments, and for one without a usable reply.
    """
    known = {row["case_id"]: row["text"] for row in knowledge}
    segments_of = grouped(segments, "case_id")

    def inputs(case: Row) -> Row:
        knowledge = known[case["case_id"]][:KNOWLEDGE_CHARACTERS]
        texts = [segment["text"][:SEGMENT_CHARACTERS] for segment in segments_of[case["case_id"]]]
        return {**papers_of(case), "knowledge": knowledge, "segments": texts}

    ready = _ready(cases, "hard", {"no knowledge": known, "no segments": segments_of})
    yield from _drafts(context, ready, "cot", inputs, model, prompt)


# ---------------------------------------------------------------- asking


def _ready(
    cases: Iterable[Row], task: str, needed: Mapping[str, Mapping[str, object]] = MappingProxyType({})
) -> tuple[list[Row], list[Rejected]]:
    """(cases of the task that are in all of `needed`, a Rejected for each other case of the task).

    `needed`: reason for rejecting a case that is missing -> the case ids for which an earlier step succeeded (as
    keys).
    """
    ready: list[Row] = []
    others: list[Rejected] = []
    for case in cases:
        if case["task"] != task:
            continue
        missing = (reason for reason, present in needed.items() if case["case_id"] not in present)
        reason = next(missing, None)
        if reason:
            others.append(Rejected(case["case_id"], "filtered", reason))
        else:
            ready.append(case)
    return ready, others


def _drafts(
    context: StageContext,
    cases: tuple[list[Row], list[Rejected]],
    system: str,
    inputs: Inputs,
    model: Endpoint,
    prompt: Prompt,
) -> Iterator[Row | Rejected]:
    """Rows of DRAFTS: the system's draft of each case that is ready; a Rejected for every other case.

    A Rejected also for a case without a usable reply. `cases`: (ready ones, Rejecteds of others), as by `_ready`.
    `inputs`: case -> inputs of the prompt.
    """
    ready, others = cases
    yield from others
    for case, written in _written(context, ready, inputs, model, prompt, DRAFT_TOKENS):
        yield written if isinstance(written, Rejected) else draft_row(case, system, {**written, "writer": None})


def _written(
    context: StageContext, cases: Iterable[Row], inputs: Inputs, model: Endpoint, prompt: Prompt, tokens: int
) -> Iterator[tuple[Row, Row | Rejected]]:
    """For each case (case, {"text": …} with the columns of MADE_BY), or (case, Rejected) without a usable reply.

    `inputs`: case -> inputs of the prompt. `tokens`: limit of a reply.
    """
    requests = ((case, prompt.request(model, max_tokens=tokens, **inputs(case))) for case in cases)
    for case, answer in context.ask(model, requests):
        if isinstance(answer, Failure):
            yield case, unanswered(case["case_id"], answer)
        else:
            yield case, {"text": answer.value, **made_by(answer, model, prompt)}


def draft_row(case: Row, system: str, written: Row) -> Row:
    """The row of DRAFTS of a system's draft. `written`: the columns `text`, `writer` and those of MADE_BY."""
    draft = f"d_{fingerprint([case['case_id'], system, written['text']])}"
    return {"draft_id": draft, "case_id": case["case_id"], "task": case["task"], "system": system, **written}


def _request(case: Row) -> Row:
    """The inputs of the prompt for an easy case: its request, cut to REQUEST_CHARACTERS."""
    return {"request": request_of(case)[:REQUEST_CHARACTERS]}


# ---------------------------------------------------------------- drafts of the source data, and all drafts


@stage(
    DRAFTS,
    revision=2,
    at_most=AtMost(rows=lambda of: 2 * of["cases"]),  # chosen and rejected
    only=_only(*TASKS_WITH_DRAFTS),
)
def take_given(context: StageContext, cases: Rows) -> Iterator[Row | Rejected]:
    """The drafts that the source data has for cases of the tasks free and structure, unchanged.

    A Rejected for a case without such drafts, and for each empty draft.
    """
    for case in cases:
        if case["task"] not in TASKS_WITH_DRAFTS:
            continue
        if not case["given"]:
            yield Rejected(case["case_id"], "filtered", "no draft given")
        else:
            for draft in case["given"]:
                written = {"text": draft["text"], "writer": draft["writer"], **NO_MODEL}
                empty = Rejected(case["case_id"], "defect", "the given draft is empty", detail=draft["system"])
                yield draft_row(case, draft["system"], written) if draft["text"].strip() else empty


@stage(
    DRAFTS,
    revision=3,
    at_most=AtMost(rows=lambda of: of["weak"] + of["strong"] + of["vanilla"] + of["cot"] + of["given"]),
)
def collect_drafts(
    context: StageContext, cases: Rows, weak: Rows, strong: Rows, vanilla: Rows, cot: Rows, given: Rows
) -> Iterator[Row | Rejected]:
    """All drafts in the order of the cases, then of the inputs; a Rejected for each draft that an audit finds, and for
    a case without another draft.
    """
    found = grouped(chain(weak, strong, vanilla, cot, given), "case_id")
    for case in cases:
        drafts = [audited_draft(draft, case) or draft for draft in found[case["case_id"]]]
        if all(isinstance(each, Rejected) for each in drafts):
            yield Rejected(case["case_id"], "filtered", "no draft")
        yield from drafts


# ---------------------------------------------------------------- requests and replies


def papers_of(case: Row) -> Row:
    """The prompt inputs `own` and `papers`: title and abstract of the case's paper, and of each cited paper.

    At most CITED_PAPERS cited papers, the first ones.
    """
    return {"own": paper_text(case), "papers": [paper_text(cited) for cited in case["cited"][:CITED_PAPERS]]}


def paper_text(paper: Row) -> str:
    """A paper's title on one line and its abstract below it; an unknown one is left out, "" if both are.

    The title is cut to TITLE_CHARACTERS, the abstract to ABSTRACT_CHARACTERS.
    """
    title = " ".join((paper["title"] or "").split())[:TITLE_CHARACTERS]
    abstract = (paper["abstract"] or "").strip()[:ABSTRACT_CHARACTERS]
    return "\n".join(text for text in (title, abstract) if text)


def request_of(case: Row) -> str:
    """The request that the writer of a case answers: the case's own, "" if it has none.

    For a hard case instead a request in our own words, with title and abstract of the paper and the titles of at most
    CITED_PAPERS cited papers.
    """
    if case["task"] != "hard":
        return case["request"] or ""
    papers = papers_of(case)
    titles = [text.partition("\n")[0] for text in papers["papers"]]
    cited = [f"[{number}] {title}" for number, title in enumerate(titles, 1)]
    return "\n".join([_RELATED_REQUEST, papers["own"], _CITED_REQUEST, *cited])
