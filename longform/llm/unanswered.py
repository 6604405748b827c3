"""The error of stages whose questions got no answer for a passing reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from longform.errors import Incomplete

MOST_STAGES = 4


def unanswered_error(unanswered: Mapping[str, tuple[int, str]], step: str) -> Incomplete:
    """The error that names, of each stage, how many questions got no answer, and the last fault: up to MOST_STAGES
    stages, those with most questions first, and how many more there are. `step`: what to do.
    """
    stages = sorted(unanswered, key=lambda stage: -unanswered[stage][0])
    phrases: list[str] = []
    said = ""
    for stage in stages[:MOST_STAGES]:
        number, fault = unanswered[stage]
        questions = "" if phrases else " question got no answer" if number == 1 else " questions got no answer"
        why = "" if fault == said else f" (at last: {fault})"
        phrases.append(f"{number:,}{questions}{f' in {stage}' if stage else ''}{why}")
        said = fault
    if more := stages[MOST_STAGES:]:
        number = sum(unanswered[stage][0] for stage in more)
        phrases.append(f"{number:,} in {len(more)} more stage{'s' if len(more) > 1 else ''}")
    found = " and ".join(filter(None, (", ".join(phrases[:-1]), phrases[-1])))
    return Incomplete(f"{found}: answers so far are stored; {step}.", step=step, unanswered=unanswered)


def merged(errors: Iterable[Exception]) -> Incomplete | None:
    """One error for all that tell of questions without an answer; None if none does."""
    unanswered: dict[str, tuple[int, str]] = {}
    step = ""
    for error in errors:
        for stage, (number, fault) in error.unanswered.items() if isinstance(error, Incomplete) else ():
            unanswered[stage] = unanswered.get(stage, (0, ""))[0] + number, fault
            step = error.step if isinstance(error, Incomplete) else step
    return unanswered_error(unanswered, step) if unanswered else None
