"""What the rules of the offline model read: the fenced texts of a user message, by their labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from longform.errors import UsageError
from longform.llm.ask.fence import unfenced
from longform.llm.prose import balanced

READ_CHARACTERS = 20_000

_COMMON_WORDS = """
a about after all also am an and another any anyone are as at be because been before being between both but by
can could did different do does doing for from had has have having how i if in into is it its just know like
make many may me might more most much my need no not of off on one only or other our out over really same
should since so some someone something such than that the their them then there these they thing things this
those through to too use used using very want was way we were what when where which while who why will with
without would you your
"""
COMMON = frozenset(_COMMON_WORDS.split())


class Material:
    """The fenced texts of a user message. `effort` "low" is a weaker writer: rules that write drafts go by it."""

    def __init__(self, task: str, message: str, effort: str = "") -> None:
        self.task, self.effort = task, effort
        self.texts = unfenced(message)

    def one(self, label: str) -> str:
        for name, text in self.texts:
            if name == label:
                return text
        raise UsageError(
            f'The offline model finds no fenced text under "{label}:" in prompt {self.task}: '
            "restore that line of the prompt, or set another model."
        )

    def passages(self) -> list[tuple[int, str]]:
        """(number, text)"""
        return self.numbered("Passage")

    def numbered(self, label: str) -> list[tuple[int, str]]:
        """(number, text) of those under `<label> 1:`, `<label> 2:` and so on."""
        start = f"{label} "
        numbered = ((name.removeprefix(start), text) for name, text in self.texts if name.startswith(start))
        return [(int(number), text) for number, text in numbered if number.isdecimal()]


def fit_to_quote(ranked: Iterable[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    """Of (score, passage number, sentence) those that can stand alone, on one line, each once.

    No questions, announcements, images or HTML.
    """
    seen = set()
    for score, number, raw in ranked:
        sentence = " ".join(raw.split())
        whole = sentence[-1] not in "?:," and "![" not in sentence and "<" not in sentence and balanced(sentence)
        if whole and sentence not in seen:
            seen.add(sentence)
            yield score, number, sentence
