"""Many answers in the making, step by step together: each round asks, scores, searches and reads for all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from longform.artifacts.rows import Rejected
from longform.engine.stage import StageContext
from longform.errors import Incomplete, LongformError, SourceError
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint, Flaw, Request
from schemas.replies import AnswerProblems, PagePassages, Reply, ResearchQueries
from tasks.answers import answered
from tasks.axioms.research.effects import Ask, Effect, Failed, Hit, Process, Read, Replied, Result, Score, Search
from tasks.text.audits.equality import equal_texts

REPLIES: dict[str, type[Reply]] = {
    "research_queries": ResearchQueries,
    "research_plan": ResearchQueries,
    "research_summarise": PagePassages,
    "research_review": AnswerProblems,
}
REWRITES = ("research_update", "research_repair")
MAX_TOKENS = {"research_queries": 512, "research_plan": 512, "research_summarise": 1024, "research_review": 1024}

Scores = Callable[[Sequence[tuple[str, Sequence[str]]]], Sequence[Sequence[float | None]]]
Kind = TypeVar("Kind", bound=Effect)
Pending = list[tuple[int, Kind]]  # (place of the process, what it asks for)


class Library(Protocol):
    """Where evidence is found: an index of one's own pages, or the web."""

    def search(self, queries: Sequence[str], k: int) -> Sequence[list[Hit] | Failed]:
        """For each query at most k pages, best first, or why there is no result."""
        ...

    def read(self, hits: Sequence[Hit]) -> Sequence[str | Failed]:
        """For each page its text, or why it cannot be read."""
        ...


@dataclass(frozen=True, slots=True)
class Doing:
    """What does what processes ask for. `model` is asked by `prompts` (name -> prompt); `score`: (question, texts) of
    each process -> their scores; `library`, None if nothing is searched; `results`: pages a query is to find.
    """

    model: Endpoint
    prompts: Mapping[str, Prompt]
    score: Scores
    library: Library | None = None
    results: int = 0


def run(
    context: StageContext, processes: Sequence[tuple[str, str, Process]], doing: Doing
) -> Iterator[tuple[str, Result]]:
    """(key, result) of each (key, question, process), in order. Raises Incomplete, after the search of all others, if
    all searches of a process failed for a passing reason; SourceError if those of all processes failed for good.
    """
    results: dict[int, Result] = {}
    sent: dict[int, Any] = dict.fromkeys(range(len(processes)))
    while sent:
        pending: list[tuple[int, Effect]] = []
        for place, value in sent.items():
            try:
                pending.append((place, processes[place][2].send(value)))
            except StopIteration as end:
                results[place] = end.value
        sent = _done(context, processes, pending, doing)
    yield from ((processes[place][0], results[place]) for place in range(len(processes)))


def _done(
    context: StageContext,
    processes: Sequence[tuple[str, str, Process]],
    pending: list[tuple[int, Effect]],
    doing: Doing,
) -> dict[int, Any]:
    """place of a process -> what came of what it asked for, in the order of the places."""
    done: dict[int, Any] = {}
    questions = {place: processes[place][1] for place, _ in pending}
    keys = {place: processes[place][0] for place, _ in pending}
    if asks := _of(pending, Ask):
        done |= _asked(context, asks, questions, keys, doing)
    if scores := _of(pending, Score):
        found = doing.score([(questions[place], each.texts) for place, each in scores])
        done |= {place: list(each) for (place, _), each in zip(scores, found, strict=True)}
    if searches := _of(pending, Search):
        done |= _searched(searches, doing)
    if reads := _of(pending, Read):
        done |= _read(reads, doing)
    return {place: done[place] for place, _ in pending}


def _of(pending: list[tuple[int, Effect]], kind: type[Kind]) -> Pending[Kind]:
    return [(place, each) for place, each in pending if isinstance(each, kind)]


def _asked(
    context: StageContext, asks: Pending[Ask], questions: Mapping[int, str], keys: Mapping[int, str], doing: Doing
) -> dict[int, list[Replied | Failed]]:
    """place -> the model's replies to its questions, in their order."""
    found: dict[tuple[int, int], Replied | Failed] = {}
    items = (
        (keys[place], (place, number), _request(doing, ask.prompt, inputs, questions[place]))
        for place, ask in asks
        for number, inputs in enumerate(ask.inputs)
    )
    for at, replies in answered(context, doing.model, items):
        if isinstance(replies, Rejected):
            found[at] = Failed(replies.reason, replies.detail)
        else:
            found[at] = Replied(replies[0].value, replies[0].key, replies[0].model)
    return {place: [found[place, number] for number in range(len(ask.inputs))] for place, ask in asks}


def _request(doing: Doing, name: str, inputs: Mapping[str, Any], question: str) -> Request:
    """A request by the prompt of this name. A rewriting may leave the answer as it is, which is looked at later."""
    rewrites = name in REWRITES
    return doing.prompts[name].request(
        doing.model,
        max_tokens=MAX_TOKENS.get(name, 2048),
        reply=REPLIES.get(name),
        check=_no_queries if REPLIES.get(name) is ResearchQueries else None,
        copies=rewrites,
        unchanged=partial(equal_texts, inputs["answer"]) if rewrites else None,
        subject=question,
        **inputs,
    )


def _no_queries(reply: ResearchQueries) -> Flaw | None:
    """What is wrong with a reply that proposes nothing to search for."""
    return None if any(text.strip() for text in reply.query) else ("invalid", "no query")


def _searched(searches: Pending[Search], doing: Doing) -> dict[int, list[list[Hit] | Failed]]:
    """place -> the hits of each of its queries; equal queries are searched once. Errors as by `run`."""
    assert doing.library is not None
    queries = list(dict.fromkeys(query for _, search in searches for query in search.queries))
    found = dict(zip(queries, doing.library.search(queries, doing.results), strict=True))
    results = {place: [found[query] for query in search.queries] for place, search in searches}
    lost = [hits for hits in results.values() if all(isinstance(each, Failed) for each in hits)]
    first = next((each for hits in lost for each in hits if isinstance(each, Failed) and each.passing), None)
    if first:
        raise Incomplete(f"The search got no answer ({first.detail or first.reason}); the model's replies are stored.")
    if lost and len(lost) == len(results):
        raise _refused(lost[0][0])
    return results


def _refused(failed: list[Hit] | Failed) -> LongformError:
    assert isinstance(failed, Failed)
    return SourceError(failed.detail or f"The search failed: {failed.reason}.")


def _read(reads: Pending[Read], doing: Doing) -> dict[int, list[str | Failed]]:
    """place -> the texts of its pages; equal pages are read once."""
    assert doing.library is not None
    pages = {hit.page_id: hit for _, read in reads for hit in read.hits}
    texts = dict(zip(pages, doing.library.read(list(pages.values())), strict=True))
    return {place: [texts[hit.page_id] for hit in read.hits] for place, read in reads}
