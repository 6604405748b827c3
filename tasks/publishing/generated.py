"""Audits of texts that models wrote: refusal, degenerate, language, topic, wrapping and ending, with one ceiling.

Texts that people wrote or that were released are not looked at, nor those of the offline model, which quotes people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from longform.artifacts.rows import Row
from longform.llm.read.degenerate import SALAD, degenerate
from longform.llm.read.refusals import refusal_in
from tasks.publishing.audits import Audit
from tasks.text.audits.endings import unfinished
from tasks.text.audits.equality import equal_texts
from tasks.text.audits.language import other_language
from tasks.text.audits.topic import off_topic
from tasks.text.audits.wrapping import wrapped

CEILING = 0.05
CEILING_OF_TOPIC = 0.1  # where answers go to the wrong callers, it finds more, and words alone are no sure sign
REMEMBERED = 2_000  # texts: one stands in several rows that follow each other

Texts = Callable[[Row], Iterable[tuple[str, str, str]]]
Finds = Callable[[Row], str | None]


def is_generated(response: str | None, model: str | None) -> bool:
    """Whether a model of ours wrote a text, and not the offline one, whose names no server's model has in a row
    (`recorded_name`). `response`, `model`: of the text's row.
    """
    return response is not None and not (model or "").startswith("offline-")


def generated(model: str = "model", response: str = "response") -> str:
    """The SQL condition of `is_generated`; the arguments name the columns."""
    return f"({response} IS NOT NULL AND {model} NOT LIKE 'offline-%')"


def audits_of_texts(
    texts: Texts,
    among: str,
    *,
    abstains: Callable[[str], object] = lambda text: None,
    answers: bool = True,
    whole: bool = False,
) -> tuple[Audit, ...]:
    """The audits `refusal`, `degenerate`, `language` and `wrapped` of generated texts; with `answers`, for texts that
    speak of what their question speaks of, `off_topic`; and with `whole`, for texts that are not made from those of
    people, who often leave out the last full stop, `unfinished`.

    `texts`: row -> (name, question, text) of each generated text in it. `among`: as of an Audit. `abstains`: whether a
    text abstains, which the method counts: then it may decline, be one word, or break off.
    """

    def declines(row: Row) -> Iterator[str]:
        found = ((name, refusal_in(text), text) for name, _, text in texts(row))
        return (f"{name}: {words}" for name, words, text in found if words and not abstains(text))

    def is_degenerate(row: Row) -> Iterator[str]:
        found = ((name, _degenerate(question, text), text) for name, question, text in texts(row))
        return (f"{name}: {what}" for name, what, text in found if what and not abstains(text))

    def is_foreign(row: Row) -> Iterator[str]:
        return (f"{name}: in {found}" for name, question, text in texts(row) if (found := _language(question, text)))

    def is_wrapped(row: Row) -> Iterator[str]:
        return (f"{name}: {what}" for name, _, text in texts(row) if (what := _wrapped(text)))

    def is_off_topic(row: Row) -> Iterator[str]:
        found = ((name, question, text) for name, question, text in texts(row) if _off_topic(question, text))
        return (f"{name}: no word of its question" for name, _, text in found if not abstains(text))

    def is_unfinished(row: Row) -> Iterator[str]:
        return (f"{name}: breaks off" for name, _, text in texts(row) if _unfinished(text) and not abstains(text))

    audits = (
        Audit("refusal", CEILING, _first(declines), among),
        Audit("degenerate", CEILING, _first(is_degenerate), among),
        Audit("language", CEILING, _first(is_foreign), among),
        Audit("wrapped", CEILING, _first(is_wrapped), among),
    )
    topic = Audit("off_topic", CEILING_OF_TOPIC, _first(is_off_topic), among)
    ending = Audit("unfinished", CEILING, _first(is_unfinished), among)
    return (*audits, *[topic] * answers, *[ending] * whole)


def _first(found: Callable[[Row], Iterator[str]]) -> Finds:
    """A function that returns the first of what is found in a row, or None."""
    return lambda row: next(found(row), None)


@lru_cache(REMEMBERED)
def _degenerate(question: str, text: str) -> str | None:
    if equal_texts(question, text):
        return "its question"
    found = degenerate(text)
    return None if found == SALAD else found  # judged when the reply came, beside its prompt, which it may quote


@lru_cache(REMEMBERED)
def _language(question: str, text: str) -> str | None:
    return other_language(question, text)


@lru_cache(REMEMBERED)
def _off_topic(question: str, text: str) -> bool:
    return off_topic(question, text)


@lru_cache(REMEMBERED)
def _wrapped(text: str) -> str | None:
    return wrapped(text)


@lru_cache(REMEMBERED)
def _unfinished(text: str) -> bool:
    return unfinished(text)
