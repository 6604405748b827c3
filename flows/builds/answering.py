"""One question answered, without building a dataset: what would be asked and what it costs, and the answer."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from flows.axioms import OFFLINE, AxiomsConfig
from flows.builds.unpublished import Kind, asking, left_out, plan_of, reading
from flows.config.inputs import opened
from flows.preference.research import research_pages, research_runs
from longform.artifacts.rows import Row, Rows
from longform.engine.build import Build, Progress, Tasks
from longform.engine.plan import Plan
from longform.engine.stage import Builder
from longform.errors import SourceError, UsageError
from longform.files import write_bytes
from longform.llm.retry import Retry
from tasks.axioms.audits import OF_RESEARCH
from tasks.axioms.research.answers import Condition
from tasks.axioms.research.questions import LONGEST_QUESTION, question_id_of, read_research_questions
from tasks.publishing.audits import rejected_by
from tasks.sources.files.inputs import open_files

KIND = Kind("axioms", "answer", OFFLINE)
FOLDER = "answers"  # of the home: the questions that were asked
MODES: dict[str, tuple[str, list[Condition]]] = {
    "closed": ("answer_research_closed", ["closed_book"]),
    "naive": ("assist_research", ["assistant_naive"]),
    "guided": ("assist_research", ["assistant_guided"]),
    "plan": ("plan_research", ["plan_search"]),
    "repair": ("repair_research", ["assistant_guided", "repair"]),
}  # mode -> (the stage that makes its answer, the conditions that it needs)
MADE_FROM = {"repair": ["assist_research"]}  # mode -> the stages whose answer stands where nothing was repaired
NEXT = {
    "no page was found": "give other pages with --index or --search, or ask --mode closed",
    "no page holds evidence": "give other pages with --index or --search, or ask --mode closed",
    "no query was proposed": "ask again with --retry-errors, or another --model",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and how it is answered: a key of MODES."""

    question: str
    mode: str

    @property
    def conditions(self) -> list[Condition]:
        """The conditions that the mode needs, for the setting `research_conditions`."""
        return MODES[self.mode][1]


def check_question(question: str) -> str:
    """The question on one line. UsageError if it is blank or too long."""
    text = " ".join(question.split())
    if not text:
        raise UsageError("The question is empty: give one, in quotes.")
    if len(text) > LONGEST_QUESTION:
        raise UsageError(f"The question has {len(text):,} characters: shorten it to {LONGEST_QUESTION:,}.")
    return text


def method(builder: Builder, asked: Asked, config: AxiomsConfig) -> list[Rows]:
    """Call the stages that answer the question; the answer is the row of the last one that has any."""
    runs = research_runs(builder, config, _questions(builder, asked))
    return [runs[name]() for name in [*MADE_FROM.get(asked.mode, []), MODES[asked.mode][0]]]


def _questions(builder: Builder, asked: Asked) -> Rows:
    """The question, which is kept as a file in the home: a source as others are."""
    file = builder.store.home / FOLDER / f"{question_id_of(asked.question)}.jsonl"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(file, json.dumps({"question": asked.question}, ensure_ascii=False).encode() + b"\n")
    return read_research_questions(builder, opened(builder, partial(open_files, group="asked", endings=()), str(file)))


def plan(asked: Asked, config: AxiomsConfig, home: Path, progress: Progress) -> Plan:
    """What answering would do for each stage, and what it costs at most; nothing is sent. Pages of one's own are read
    into the home. SourceError if none of them can be used.
    """
    with reading(KIND, home, progress) as build:
        _questions(build, asked)
        pages = research_pages(build, config) if asked.mode != "closed" and config.research_web is None else None
        build.finish()
        if pages is not None and not pages.count:
            reasons = Counter(row["reason"] for row in left_out(build.store, build))
            told = ", ".join(f"{number:,} {reason}" for reason, number in reasons.most_common(3))
            raise SourceError(f"The files of --index hold no page that can be used ({told or 'they are empty'}).")
    return plan_of(config, home, lambda builder: method(builder, asked, config))


def answer(
    asked: Asked,
    config: AxiomsConfig,
    home: Path,
    *,
    tasks: Tasks,
    progress: Progress,
    max_cost: float | None = None,
    retry: Retry,
) -> Row:
    """The row of RESEARCH_RUNS that answers the question, reusing what is there; waits until it is made.

    Where nothing was repaired that is the guided answer. SourceError, with what was left out on the way, if there is
    no answer. BusyError if another question is being
    answered in this home.
    """
    with asking(KIND, config, home, tasks=tasks, progress=progress, max_cost=max_cost, retry=retry) as build:
        made = method(build, asked, config)
        build.finish()
    found = [row for rows in reversed(made) for row in rows if row["condition"] in asked.conditions]
    if not found:
        raise _no_answer(asked, build)
    if rejected := rejected_by(found[0], OF_RESEARCH, "research_answer_id"):
        raise SourceError(f"The reply is no answer ({rejected.reason.removeprefix('audit: ')}: {rejected.detail}).")
    return found[0]


def _no_answer(asked: Asked, build: Build) -> SourceError:
    """The error that says why there is no answer."""
    lost = [row for row in left_out(build.store, build) if row["stage"] == MODES[asked.mode][0]]
    last = lost[-1] if lost else {"reason": "nothing was left out", "detail": None}
    detail = f" ({last['detail']})" if last["detail"] else ""
    step = NEXT.get(str(last["reason"]), "look at `longform responses`, or ask another --model")
    if "(private address)" in detail:
        step += "; pages in your own network need private_hosts = true in research_web of --config, without --search"
    return SourceError(f"There is no answer: {last['reason']}{detail}; {step}.")
