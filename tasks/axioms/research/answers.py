"""Stages whose rows are answers to research questions, in every condition of sections B.1 and E."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import AllRows, Rejected, Row, Rows
from longform.engine.at_most import Sizes, longest
from longform.engine.stage import AtMost, StageContext, stage
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint, Request
from longform.llm.read.replies import cited_passages
from schemas.axioms.research import RESEARCH_RUNS, RESEARCH_STEPS
from tasks.answers import answered
from tasks.axioms.judging.requests import pointwise_request
from tasks.axioms.research.assistant import UNUSED, Limits, assist, plan_and_search, repair
from tasks.axioms.research.effects import Failed, Hit, Passage, Replied, Result, Step
from tasks.axioms.research.guide import guiding
from tasks.axioms.research.running import MAX_TOKENS, REPLIES, Doing, run
from tasks.axioms.research.searching import WINDOW_CHARACTERS, best_window, library_of
from tasks.axioms.scoring.scorers import Scorer
from tasks.retrieval.cross_encoder import CrossEncoderSetting
from tasks.sources.web.web import Crawl, WebBackend

Assistance = Literal["assistant_naive", "assistant_guided"]
Condition = Literal["closed_book", "assistant_naive", "assistant_guided", "plan_search", "repair"]
CLOSED, PLAN, NAIVE, GUIDED, REPAIR = "closed_book", "plan_search", "assistant_naive", "assistant_guided", "repair"
CONDITIONS: tuple[Condition, ...] = get_args(Condition)
MOST_MODELS = 4  # that answer closed-book, as in the paper
Kind = tuple[Endpoint, float, Request]
BYTES_A_TOKEN = 6
LONGEST_QUESTION = 2_000  # characters
LONGEST_ANSWER, LONGEST_PASSAGE = "a" * 2048 * BYTES_A_TOKEN, "a" * 1024 * BYTES_A_TOKEN
MOST_STEPS = 200  # of an answer, that a plan reckons with
SPLIT = "test"
NOT_ASKED = "not asked for"
LOST_SHOWN = 5
IN_ASSISTANT = ("closed_book", "research_queries", "research_summarise", "research_update")
IN_PLAN = ("closed_book", "research_plan", "research_ground")
IN_REPAIR = ("research_review", "research_repair")


def _kinds(of: Sizes, rows: str, numbers: Callable[[Limits], Mapping[str, float]], scored: float) -> list[Kind]:
    """What a stage asks for each of its `rows`: the prompts of its model as often as `numbers` says, and its judge of
    `scored` texts.
    """
    if of["model"] is None:
        return []
    limits: Limits = of["limits"]
    each = float(of[rows])
    found = [
        (of["model"], each * number, longest_request(of["model"], of["prompts"][name], limits))
        for name, number in numbers(limits).items()
    ]
    guide: Scorer | None = of.values.get("guide")
    if guide is None or guide.endpoint is None or guide.prompt is None or not scored:
        return found
    judged = pointwise_request(guide.endpoint, guide.prompt, longest(LONGEST_QUESTION), LONGEST_ANSWER)
    return [*found, (guide.endpoint, each * scored, judged)]


def longest_request(model: Endpoint, prompt: Prompt, limits: Limits) -> Request:
    """A request by a prompt of an answer as long as it comes. What a model wrote before has no more tokens than its
    reply could have, each taken for six bytes.
    """
    name = prompt.name.partition("/")[2]
    grounded = name == "research_ground"
    passage = longest(WINDOW_CHARACTERS) if grounded else LONGEST_PASSAGE
    number = limits.queries * limits.results if grounded else limits.updates
    inputs: dict[str, Any] = {
        "question": longest(LONGEST_QUESTION),
        "answer": LONGEST_ANSWER,
        "page": longest(limits.page_characters),
        "title": longest(500),
        "number": "10",
        "passages": [passage] * number,
        "problems": [LONGEST_PASSAGE],
    }
    tokens = MAX_TOKENS.get(name, 2048)
    own = {each: inputs[each] for each in prompt.inputs}
    return prompt.request(model, max_tokens=tokens, reply=REPLIES.get(name), **own)


def _total(kinds: Sequence[Kind]) -> float:
    """All calls of the endpoint that is asked most."""
    calls: dict[str, float] = {}
    for endpoint, number, _ in kinds:
        calls[endpoint.name] = calls.get(endpoint.name, 0) + number
    return max(calls.values(), default=0)


# ---------------------------------------------------------------- closed book


def writers_of(*given: Endpoint | None) -> dict[str, Endpoint]:
    """endpoint name -> endpoint, of those that are given."""
    return {each.name: each for each in given if each is not None}


@stage(
    RESEARCH_RUNS,
    revision=1,
    at_most=AtMost(
        rows=lambda of: of["questions"] * len(writers_of(of["model"], of["second"], of["third"], of["fourth"])),
        calls=lambda of: of["questions"],
        questions=lambda of: (
            [of["prompt"].request(of["model"], question=longest(LONGEST_QUESTION))] if of["model"] else []
        ),
    ),
)
def answer_research_closed(
    context: StageContext,
    questions: Rows,
    *,
    model: Endpoint | None,
    second: Endpoint | None,
    third: Endpoint | None,
    fourth: Endpoint | None,
    prompt: Prompt,
) -> Iterator[Row | Rejected]:
    """Closed-book answers of up to four models to each question; a Rejected for each that is not usable, and for every
    question if `model` is None."""
    rows = list(questions)
    if model is None:
        yield from _not_asked(rows)
    for writer in writers_of(model, second, third, fourth).values():
        items = ((row["research_question_id"], row, prompt.request(writer, question=row["question"])) for row in rows)
        for row, replies in answered(context, writer, items):
            if isinstance(replies, Rejected):
                yield replies
                continue
            reply = Replied(replies[0].value, replies[0].key, replies[0].model)
            steps = [Step("draft", reply.value, True, response=reply.response)]
            result = Result(reply.value, prompt="closed_book", reply=reply, steps=steps)
            yield _row(row, CLOSED, result, writer, {"closed_book": prompt})


# ---------------------------------------------------------------- with a search


def _of_assistant(of: Sizes) -> list[Kind]:
    conditions = len(of["conditions"])

    def numbers(limits: Limits) -> dict[str, float]:
        often = {"closed_book": 1, "research_queries": 1, "research_summarise": limits.pages}
        return {name: number * conditions for name, number in {**often, "research_update": limits.updates}.items()}

    return _kinds(of, "questions", numbers, of["limits"].scored() if GUIDED in of["conditions"] else 0)


@stage(
    RESEARCH_RUNS,
    revision=3,
    at_most=AtMost(
        rows=lambda of: of["questions"] * len(of["conditions"]),
        calls=lambda of: _total(_of_assistant(of)),
        kinds=_of_assistant,
    ),
)
def assist_research(
    context: StageContext,
    questions: Rows,
    pages: AllRows,
    *,
    model: Endpoint | None,
    judge: Endpoint | None,
    judge_prompt: Prompt | None,
    encoder: CrossEncoderSetting | None,
    guide: Scorer,
    prompts: dict[str, Prompt],
    conditions: list[Assistance],
    limits: Limits,
    web: WebBackend | None,
    crawl: Crawl | None,
    scrubbed: bool,
) -> Iterator[Row | Rejected]:
    """The research assistant's answer to each question in each of `conditions`: assistant_naive, assistant_guided. A
    Rejected for one without a usable draft or without evidence. `pages` are searched, or, with `web`, the web.
    `judge`, `judge_prompt` and `encoder` are those of `guide`, `judge` only if it is another endpoint than `model`.
    Errors as by `running.run`.
    """
    rows = list(questions)
    if model is None:
        yield from _not_asked(rows)
        return
    context.goes_on_from_replies()
    asked = [(row, each) for row in rows for each in conditions]
    library = library_of(context, pages, web, crawl, scrubbed=scrubbed)
    doing = Doing(model, prompts, guiding(context, guide), library, limits.results)
    processes = [
        (row["research_question_id"], row["question"], assist(row["question"], limits, guided=each == GUIDED))
        for row, each in asked
    ]
    for (row, condition), (_, result) in zip(asked, run(context, processes, doing), strict=True):
        scorer = guide.name if condition == GUIDED else None
        yield _row(row, condition, result, model, prompts, scorer=scorer)


def _of_plan(of: Sizes) -> list[Kind]:
    return _kinds(of, "questions", lambda limits: dict.fromkeys(IN_PLAN, 1.0), 0)


@stage(
    RESEARCH_RUNS,
    revision=2,
    at_most=AtMost(rows=lambda of: of["questions"], calls=lambda of: _total(_of_plan(of)), kinds=_of_plan),
)
def plan_research(
    context: StageContext,
    questions: Rows,
    pages: AllRows,
    *,
    model: Endpoint | None,
    prompts: dict[str, Prompt],
    limits: Limits,
    web: WebBackend | None,
    crawl: Crawl | None,
    scrubbed: bool,
) -> Iterator[Row | Rejected]:
    """An answer to each question by "plan and search" (figure 15); a Rejected for one without evidence or without a
    usable answer. `pages`, `web`: as by `assist_research`.
    """
    rows = list(questions)
    if model is None:
        yield from _not_asked(rows)
        return
    context.goes_on_from_replies()
    library = library_of(context, pages, web, crawl, scrubbed=scrubbed)
    doing = Doing(model, prompts, _unscored, library, limits.results)
    processes = [
        (row["research_question_id"], row["question"], plan_and_search(row["question"], limits, best_window))
        for row in rows
    ]
    for row, (_, result) in zip(rows, run(context, processes, doing), strict=True):
        yield _row(row, PLAN, result, model, prompts)


def _of_repair(of: Sizes) -> list[Kind]:
    rounds = float(of["limits"].rounds)
    return _kinds(of, "runs", lambda limits: dict.fromkeys(IN_REPAIR, rounds), 1 + rounds)


@stage(
    RESEARCH_RUNS,
    revision=1,
    at_most=AtMost(rows=lambda of: of["runs"], calls=lambda of: _total(_of_repair(of)), kinds=_of_repair),
)
def repair_research(
    context: StageContext,
    runs: Rows,
    *,
    model: Endpoint | None,
    judge: Endpoint | None,
    judge_prompt: Prompt | None,
    encoder: CrossEncoderSetting | None,
    guide: Scorer,
    prompts: dict[str, Prompt],
    limits: Limits,
) -> Iterator[Row | Rejected]:
    """The guided assistant's answers among `runs` as another model repairs them in a feedback loop; a Rejected for
    those in which nothing is repaired, and for the runs of other conditions.
    """
    rows = [row for row in runs if row["condition"] == GUIDED and model is not None]
    for row in runs.as_dicts("research_answer_id", "condition"):
        if not rows or row["condition"] != GUIDED:
            yield Rejected(row["research_answer_id"], "filtered", NOT_ASKED, REPAIR)
    if model is None or not rows:
        return
    context.goes_on_from_replies()
    doing = Doing(model, prompts, guiding(context, guide))
    processes = [
        (row["research_question_id"], row["question"], repair(row["question"], _result_of(row), limits)) for row in rows
    ]
    for row, (_, result) in zip(rows, run(context, processes, doing), strict=True):
        yield _row(row, REPAIR, result, model, prompts, scorer=guide.name, made_from=row["research_answer_id"])


def _not_asked(rows: Sequence[Row]) -> Iterator[Rejected]:
    return (Rejected(row["research_question_id"], "filtered", NOT_ASKED) for row in rows)


def _unscored(groups: Sequence[tuple[str, Sequence[str]]]) -> list[list[float | None]]:
    return [[None] * len(texts) for _, texts in groups]


# ---------------------------------------------------------------- rows


def _row(
    question: Row,
    condition: str,
    result: Result,
    model: Endpoint,
    prompts: dict[str, Prompt],
    *,
    scorer: str | None = None,
    made_from: str | None = None,
) -> Row | Rejected:
    """A row of RESEARCH_RUNS; the Rejected of the question, or of the answer `made_from`, if there is no answer."""
    key = question["research_question_id"]
    if result.failed or result.reply is None:
        failed = result.failed or Failed("no answer")
        defect = failed.reason.startswith("model: ")
        told = [condition, *([failed.detail] if failed.detail else _lost(result.steps))]
        return Rejected(made_from or key, "defect" if defect else "filtered", failed.reason, ": ".join(told))
    prompt = prompts[result.prompt]
    return {
        "research_answer_id": f"ra_{fingerprint([key, condition, model.name, result.reply.response])}",
        "research_question_id": key,
        "question": question["question"],
        "condition": condition,
        "kind": f"{model.name} {condition}",
        "text": result.text,
        "cites": cited_passages(result.text) if result.evidence else [],
        "evidence": [_evidence(number, each) for number, each in enumerate(result.evidence, start=1)],
        "score": result.score,
        "scorer": scorer if result.score is not None else None,
        "made_from": made_from,
        "response": result.reply.response,
        "prompt": prompt.name,
        "prompt_hash": prompt.hash,
        "endpoint": model.name,
        "model": result.reply.model,
        "steps": [_step(number, each) for number, each in enumerate(result.steps, start=1)],
    }


def _lost(steps: Sequence[Step]) -> list[str]:
    """What went wrong on the way, as one text of at most LOST_SHOWN steps, in a list; [] if nothing did."""
    lost = [step for step in steps if step.reason and not step.kept and step.reason != UNUSED]
    told = [f"{step.url or step.text} ({step.reason})" for step in lost]
    return [" · ".join(dict.fromkeys(told[:LOST_SHOWN]))] if told else []


def _evidence(number: int, passage: Passage) -> Row:
    page = passage.page
    own = {"page_id": page.page_id, "url": page.url, "title": page.title, "licence": page.licence}
    return {"number": number, "text": passage.text, **own}


def _step(number: int, step: Step) -> Row:
    return {
        "position": number,
        "kind": step.kind,
        "text": step.text,
        "url": step.url,
        "title": step.title,
        "score": step.score,
        "score_before": step.before,
        "kept": step.kept,
        "reason": step.reason,
        "detail": step.detail,
        "response": step.response,
    }


def _result_of(row: Row) -> Result:
    """The answer of a row of RESEARCH_RUNS, to go on from."""
    evidence = tuple(
        Passage(each["text"], Hit(each["page_id"], each["url"], each["title"], "", each["licence"]))
        for each in row["evidence"]
    )
    reply = Replied(row["text"], row["response"], row["model"])
    return Result(row["text"], evidence, row["score"], row["prompt"].partition("/")[2], reply)


@stage(RESEARCH_STEPS, revision=1, split_by="split", at_most=AtMost(rows=lambda of: MOST_STEPS * of["answers"]))
def list_research_steps(
    context: StageContext, answers: AllRows, closed: AllRows, assisted: AllRows, planned: AllRows, repaired: AllRows
) -> Iterator[Row]:
    """Every step of every answer that is published, in order; the others are the runs that they come from."""
    of_answer = ("research_answer_id", "research_question_id", "condition")
    published = {row["research_answer_id"] for row in answers.as_dicts("research_answer_id")}
    for run_ in (row for rows in (closed, assisted, planned, repaired) for row in rows.as_dicts(*of_answer, "steps")):
        if run_["research_answer_id"] in published:
            for step in run_["steps"]:
                own = {name: run_[name] for name in of_answer}
                yield {"step_id": f"{own['research_answer_id']}#{step['position']}", **own, **step, "split": SPLIT}
