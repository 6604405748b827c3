"""How answers are made with a search: a research assistant, guided by a scorer or not, "plan and search", and repair
(sections B.1 and E), as pure steps.

    draft ─ queries ─ search ─ pages ─ passages ─ update, update, ... each kept only if the score rises

The model writes a draft from what it knows, and queries; the pages found are summarised to passages; for each of the
best passages the answer gets a small update. Guided, a scorer ranks queries, results and passages, and an update is
kept only if the answer's score rises: it never falls. Naive, nothing is ranked and every update is kept. Either way an
update that lost the answer or its references is not taken (`unfit`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from tasks.axioms.research.effects import (
    Ask,
    Effect,
    Failed,
    Hit,
    Passage,
    Process,
    Read,
    Replied,
    Result,
    Score,
    Search,
    Step,
)
from tasks.axioms.research.unfit import AUDITED, speaks_to_a_model, stands_in, unfit_revision, unfit_text

NO_QUERY, NO_PAGE, NO_PASSAGE = "no query was proposed", "no page was found", "no page holds evidence"
NOT_HIGHER, NOT_AS_HIGH, NO_SCORE = "the score does not rise", "the score falls", "no score"
ORDERS = "its page speaks to a model"
UNUSED, REPEATED = "ranked lower", "found before"
UPDATE_KEEPS, REPAIR_KEEPS = 0.5, 0.25  # least share of an answer's words that stands afterwards
QUERY_CHARACTERS = 300

T = TypeVar("T")
Windows = Callable[[str, str], str]  # (query, text of a page) -> the part of it that fits best


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is done for one answer, at most. `proposed`: queries the model is asked for; `queries`: those searched;
    `results`: results of a query; `pages`: pages read, of all queries; `passages`: passages taken from a page;
    `updates`: passages worked into the answer, one by one; `rounds`: of repair; `page_characters`: of a page that is
    shown.
    """

    proposed: int = 6
    queries: int = 3
    results: int = 4
    pages: int = 4
    passages: int = 3
    updates: int = 5
    rounds: int = 2
    page_characters: int = 12_000

    def identity(self) -> dict[str, Any]:
        """All of them by name, as they stand in the recipe of a stage."""
        return asdict(self)

    def calls(self) -> int:
        """The most calls to the model for one answer of the assistant: draft, queries, pages, updates."""
        return 2 + self.pages + self.updates

    def scored(self) -> int:
        """The most texts that are scored for one answer of the assistant."""
        ranked = self.proposed + self.queries * self.results + self.pages * self.passages
        return ranked + 1 + self.updates


def assist(question: str, limits: Limits, *, guided: bool) -> Process:
    """An answer by the research assistant, guided by the scorer or naive (section E.1)."""
    steps: list[Step] = []
    draft = yield from _draft(question, steps)
    if isinstance(draft, Failed):
        return Result(failed=draft, steps=steps)
    queries = yield from _queries(Ask("research_queries", (_wish(question, limits),)), limits, steps, guided)
    hits = yield from _results(queries, limits, steps, guided)
    passages = yield from _passages(question, hits, limits, steps, guided)
    now = Result(draft.value, prompt="closed_book", reply=draft, steps=steps)
    if not passages:
        return now.left_out(NO_PASSAGE if hits else NO_PAGE if queries else NO_QUERY)
    if guided:
        (score,) = yield Score((now.text,))
        now = replace(now, score=score)
    steps[0] = replace(steps[0], score=now.score)
    for passage in passages:
        now = yield from _updated(question, now, passage, guided)
    return now


def plan_and_search(question: str, limits: Limits, window: Windows) -> Process:
    """An answer by "plan and search" (figure 15): a draft, queries that would substantiate it, and a rewriting that is
    grounded in what they find. `window`: which part of a page is shown. What an audit would find stays to be found.
    """
    steps: list[Step] = []
    draft = yield from _draft(question, steps)
    if isinstance(draft, Failed):
        return Result(failed=draft, steps=steps)
    wish = {**_wish(question, limits), "answer": draft.value}
    queries = yield from _queries(Ask("research_plan", (wish,)), limits, steps, False)
    found = yield from _hits(queries, limits, steps)
    hits = [hit for _, hit in found]
    pages = yield from _pages(hits[: limits.queries * limits.results], steps)
    query_of = {hit.page_id: query for query, hit in found}
    windows = [Passage(window(query_of[hit.page_id], text), hit) for hit, text in pages]
    faults = [_no_evidence(each.text, each.text) for each in windows]
    passages = tuple(each for each, reason in zip(windows, faults, strict=True) if reason is None)
    steps += [_step_of(each, reason is None, reason) for each, reason in zip(windows, faults, strict=True)]
    if not passages:
        return Result(steps=steps).left_out(NO_PASSAGE if hits else NO_PAGE if queries else NO_QUERY)
    shown = [each.text for each in passages]
    (reply,) = yield Ask("research_ground", ({"question": question, "answer": draft.value, "passages": shown},))
    if isinstance(reply, Failed):
        return Result(failed=reply, steps=steps)
    why = unfit_text(question, reply.value, shown)
    steps.append(Step("answer", reply.value, why is None, why, response=reply.response))
    result = Result(reply.value, passages, prompt="research_ground", reply=reply, steps=steps)
    return result.left_out(f"the answer {why}") if why and why not in AUDITED else result


def repair(question: str, start: Result, limits: Limits) -> Process:
    """The answer `start` as another model repairs it in a feedback loop (section B.1): it lists what is wrong, rewrites
    the answer, and looks again. A rewriting is kept if it is fit and, where it can be scored, its score does not fall.
    Without a kept one there is no answer.
    """
    steps: list[Step] = []
    shown = [each.text for each in start.evidence]
    (score,) = yield Score((start.text,))
    now, kept = replace(start, score=score, steps=steps), 0
    steps.append(Step("draft", start.text, True, score=score, response=start.reply.response if start.reply else None))
    for _ in range(limits.rounds):
        texts = {"question": question, "answer": now.text, "passages": shown}
        (review,) = yield Ask("research_review", (texts,))
        if isinstance(review, Failed):
            steps.append(Step("review", "", False, review.reason, review.detail))
            break
        problems = [text.strip() for text in review.value.problem if text.strip()]
        steps += [Step("review", text, True, response=review.response) for text in problems]
        if not problems:
            break
        (reply,) = yield Ask("research_repair", ({**texts, "problems": problems},))
        tried, why = yield from _tried(question, now, reply, "repair", REPAIR_KEEPS, falls=NOT_AS_HIGH, scored=True)
        steps.append(tried)
        if why or isinstance(reply, Failed):
            break
        now, kept = replace(now, text=reply.value, score=tried.score, prompt="research_repair", reply=reply), kept + 1
    return now if kept else now.left_out("nothing was repaired")


# ---------------------------------------------------------------- steps that several of them have


def _wish(question: str, limits: Limits) -> dict[str, str]:
    return {"question": question, "number": str(limits.proposed)}


def _draft(question: str, steps: list[Step]) -> Generator[Effect, Any, Replied | Failed]:
    """The answer that the model gives without looking anything up."""
    reply: Replied | Failed
    (reply,) = yield Ask("closed_book", ({"question": question},))
    if isinstance(reply, Replied):
        steps.append(Step("draft", reply.value, True, response=reply.response))
    return reply


def _queries(ask: Ask, limits: Limits, steps: list[Step], guided: bool) -> Generator[Effect, Any, list[str]]:
    """The queries to search for, at most `limits.queries`; [] if the model proposes none."""
    (reply,) = yield ask
    if isinstance(reply, Failed):
        steps.append(Step("query", "", False, reply.reason, reply.detail))
        return []
    lines = (" ".join(text.split())[:QUERY_CHARACTERS] for text in reply.value.query)
    proposed = list({line.casefold(): line for line in lines if line}.values())[: limits.proposed]
    ranked = yield from _ranked(proposed, str, guided)
    for place, (query, score) in enumerate(ranked):
        used = place < limits.queries
        steps.append(Step("query", query, used, None if used else UNUSED, score=score, response=reply.response))
    return [query for query, _ in ranked[: limits.queries]]


def _hits(queries: Sequence[str], limits: Limits, steps: list[Step]) -> Generator[Effect, Any, list[tuple[str, Hit]]]:
    """(query, hit) of each page found, query by query in the order of the search, each page once."""
    if not queries:
        return []
    found: dict[str, tuple[str, Hit]] = {}
    results = yield Search(tuple(queries))
    for query, hits in zip(queries, results, strict=True):
        if isinstance(hits, Failed):
            steps.append(Step("result", query, False, hits.reason, hits.detail))
        elif not hits:
            steps.append(Step("result", query, False, "no search result"))
        else:
            for hit in hits[: limits.results]:
                found.setdefault(hit.page_id, (query, hit))
    return list(found.values())


def _results(
    queries: Sequence[str], limits: Limits, steps: list[Step], guided: bool
) -> Generator[Effect, Any, list[tuple[Hit, str]]]:
    """(hit, text) of the pages to take evidence from, best first."""
    hits = yield from _hits(queries, limits, steps)
    ranked = yield from _ranked([hit for _, hit in hits], _text_to_rank, guided)
    for place, (hit, score) in enumerate(ranked):
        used = place < limits.pages
        steps.append(
            Step("result", hit.snippet, used, None if used else UNUSED, url=hit.url, title=hit.title, score=score)
        )
    return (yield from _pages([hit for hit, _ in ranked[: limits.pages]], steps))


def _text_to_rank(hit: Hit) -> str:
    """What a search shows of a page."""
    return f"{hit.title}\n{hit.snippet}".strip()


def _pages(hits: Sequence[Hit], steps: list[Step]) -> Generator[Effect, Any, list[tuple[Hit, str]]]:
    """(hit, text) of the pages that can be read."""
    if not hits:
        return []
    texts = yield Read(tuple(hits))
    read = []
    for hit, text in zip(hits, texts, strict=True):
        if isinstance(text, Failed):
            steps.append(Step("page", "", False, text.reason, text.detail, url=hit.url, title=hit.title))
        else:
            read.append((hit, text))
    return read


def _passages(
    question: str, pages: Sequence[tuple[Hit, str]], limits: Limits, steps: list[Step], guided: bool
) -> Generator[Effect, Any, list[Passage]]:
    """The passages to work into the answer, best first: what the model says that the pages hold on the question."""
    if not pages:
        return []
    inputs = [{"question": question, "title": hit.title, "page": text[: limits.page_characters]} for hit, text in pages]
    replies = yield Ask("research_summarise", tuple(inputs))
    found: list[Passage] = []
    for (hit, text), reply in zip(pages, replies, strict=True):
        if isinstance(reply, Failed):
            steps.append(Step("page", "", False, reply.reason, reply.detail, hit.url, hit.title))
            continue
        given = [" ".join(each.split()) for each in reply.value.passage if each.strip()][: limits.passages]
        if not given:
            steps.append(Step("page", "", False, "nothing on the question", None, hit.url, hit.title))
        orders = any(map(speaks_to_a_model, reply.value.passage))
        for passage in given:
            if why := _no_evidence(passage, text) or (ORDERS if orders else None):
                steps.append(_step_of(Passage(passage, hit), False, why))
            else:
                found.append(Passage(passage, hit))
    ranked = yield from _ranked(list({each.text: each for each in found}.values()), lambda each: each.text, guided)
    for place, (one, score) in enumerate(ranked):
        used = place < limits.updates
        steps.append(replace(_step_of(one, used, None if used else UNUSED), score=score))
    return [passage for passage, _ in ranked[: limits.updates]]


def _no_evidence(passage: str, page: str) -> str | None:
    """Why a passage is no evidence; None if it may be."""
    if speaks_to_a_model(passage):
        return "speaks to a model"
    return None if stands_in(passage, page) else "is not what the page says"


def _step_of(passage: Passage, kept: bool, reason: str | None = None) -> Step:
    return Step("passage", passage.text, kept, reason, url=passage.page.url, title=passage.page.title)


def _ranked(
    items: Sequence[T], text: Callable[[T], str], guided: bool
) -> Generator[Effect, Any, list[tuple[T, float | None]]]:
    """(item, score), best first, those without a score last and else in their order; unguided in their order, without
    scores.
    """
    if not guided or not items:
        return [(item, None) for item in items]
    scores = yield Score(tuple(map(text, items)))
    pairs = zip(items, scores, strict=True)
    return sorted(pairs, key=lambda pair: (pair[1] is None, -(pair[1] or 0.0)))


def _updated(question: str, now: Result, passage: Passage, guided: bool) -> Generator[Effect, Any, Result]:
    """The answer with this passage worked in; the answer as it was where that is not kept."""
    evidence = (*now.evidence, passage)
    inputs = {"question": question, "answer": now.text, "passages": [each.text for each in evidence]}
    (reply,) = yield Ask("research_update", (inputs,))
    tried, why = yield from _tried(
        question, replace(now, evidence=evidence), reply, "update", UPDATE_KEEPS, falls=NOT_HIGHER, scored=guided
    )
    now.steps.append(replace(tried, url=passage.page.url, title=passage.page.title))
    if why or isinstance(reply, Failed):
        return now
    return replace(now, text=reply.value, evidence=evidence, score=tried.score, prompt="research_update", reply=reply)


def _tried(
    question: str, now: Result, reply: Replied | Failed, kind: Any, keeps: float, *, falls: str, scored: bool
) -> Generator[Effect, Any, tuple[Step, str | None]]:
    """(the step of a rewriting, why it is not kept or None). `now`: the answer that it would take the place of, with
    the evidence that was shown; `falls`: the reason where its score is too low: NOT_HIGHER also for an equal one;
    `scored`: the score counts.
    """
    if isinstance(reply, Failed):
        return Step(kind, "", False, reply.reason, reply.detail, before=now.score), reply.reason
    shown = [each.text for each in now.evidence]
    why = unfit_revision(question, now.text, reply.value, shown, keeps=keeps, references=kind == "update")
    score: float | None = None
    if scored and why is None:
        (score,) = yield Score((reply.value,))
        why = too_low(now.score, score, strictly=falls == NOT_HIGHER)
    step = Step(kind, reply.value, why is None, why, before=now.score, score=score, response=reply.response)
    return step, why


def too_low(before: float | None, score: float | None, *, strictly: bool) -> str | None:
    """Why a score does not let an answer take the place of one that has `before`; None if it does. A missing score is
    never taken for a good one: updates (`strictly`) need both, repairs may do without either.
    """
    if score is None or before is None:
        return NO_SCORE if strictly or score is not before else None
    if strictly:
        return None if score > before else NOT_HIGHER
    return None if score >= before else NOT_AS_HIGH
