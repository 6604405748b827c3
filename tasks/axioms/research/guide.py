"""The scorer that guides the assistant: one whose scores of an answer do not depend on what else it scores, so that an
answer's score can be compared with that of a later one.
"""

from __future__ import annotations

from collections.abc import Sequence

from longform.engine.stage import StageContext
from longform.errors import UsageError
from tasks.axioms.research.running import Scores
from tasks.axioms.scoring.groups import Group
from tasks.axioms.scoring.scorers import Scorer, score_groups

ALONE = ("length", "judge-pointwise", "encoder")


def check_guide(guide: Scorer) -> Scorer:
    """The scorer unchanged; UsageError if its scores cannot be compared from one call to the next."""
    if guide.kind not in ALONE:
        raise UsageError(
            f'The scorer "{guide.name}" cannot guide an answer, as what it gives depends on what else it scores: take '
            "judge:ENDPOINT:pointwise, encoder:FOLDER or length."
        )
    return guide


def guiding(context: StageContext, guide: Scorer) -> Scores:
    """A function from (question, texts) of each answer in the making to the scores of the texts, None where the scorer
    gives none.
    """

    def scores(asked: Sequence[tuple[str, Sequence[str]]]) -> list[list[float | None]]:
        groups = [
            Group(str(place), question, (), [(str(number), text) for number, text in enumerate(texts)])
            for place, (question, texts) in enumerate(asked)
        ]
        found = {group.key: given for group, given in score_groups(context, guide, groups)}
        return [found[group.key] for group in groups]

    return scores
