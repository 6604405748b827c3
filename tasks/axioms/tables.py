"""The paper's tables about its data, counted over a stream: 7 (questions by axiom) and 10 (sites).

All sums are of integers, hence exact: the order of the rows changes no digit. Standard deviations
are those of a population (divided by n, not n - 1), as the tables describe all of the data.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from longform.rows import Row


@dataclass(slots=True)
class _Moments:
    count: int = 0
    total: int = 0
    squares: int = 0

    def add(self, value: int) -> None:
        self.count += 1
        self.total += value
        self.squares += value * value

    def columns(self, name: str) -> Row:
        """Mean and standard deviation; null of nothing."""
        if not self.count:
            return {name: None, f"{name}_std": None}
        spread = self.count * self.squares - self.total**2
        return {name: self.total / self.count, f"{name}_std": math.sqrt(spread) / self.count}


class Table10:
    """Per site: questions, answers per question, words and votes per answer, each mean and deviation."""

    def __init__(self) -> None:
        self._sites: dict[str, tuple[_Moments, _Moments, _Moments]] = {}

    def add(self, site: str, answers: Iterable[tuple[str, int]]) -> None:
        """Counts one question: text and votes of each of its answers. Words are what white space separates."""
        if site not in self._sites:
            self._sites[site] = (_Moments(), _Moments(), _Moments())
        per_question, words, votes = self._sites[site]
        before = words.count
        for text, count in answers:
            words.add(len(text.split()))
            votes.add(count)
        per_question.add(words.count - before)

    def rows(self) -> list[Row]:
        """The largest site first, ties by name."""
        largest = sorted(self._sites.items(), key=lambda item: (-item[1][0].count, item[0]))
        return [
            {"site": site, "questions": per_question.count}
            | per_question.columns("answers_per_question")
            | words.columns("words_per_answer")
            | votes.columns("votes_per_answer")
            for site, (per_question, words, votes) in largest
        ]


class Table7:
    """Per axiom and split: its questions, and the answers it adds to a question, mean and deviation."""

    def __init__(self) -> None:
        self._cells: defaultdict[tuple[int, str], _Moments] = defaultdict(_Moments)

    def add(self, split: str, pairs: Iterable[tuple[int, str, str]]) -> None:
        """Counts one question by all of its pairs: axiom, preferred_id and rejected_id of each."""
        for axiom, answers in answers_added(pairs).items():
            self._cells[axiom, split].add(answers)

    def rows(self) -> list[Row]:
        """By axiom, then split."""
        return [
            {"axiom": axiom, "split": split, "questions": answers.count} | answers.columns("answers_added")
            for (axiom, split), answers in sorted(self._cells.items())
        ]


def answers_added(pairs: Iterable[tuple[int, str, str]]) -> dict[int, int]:
    """Of each axiom among one question's pairs: the answers in its pairs that are in none of a lower axiom."""
    answers: defaultdict[int, set[str]] = defaultdict(set)
    for axiom, preferred, rejected in pairs:
        answers[axiom].update((preferred, rejected))
    seen: set[str] = set()
    added = {}
    for axiom in sorted(answers):
        added[axiom] = len(answers[axiom] - seen)
        seen |= answers[axiom]
    return added
