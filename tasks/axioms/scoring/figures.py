"""Distributions of scores as figures of a report: by kind of answer (figures 1 and 4 of the paper), of two models side
by side (figure 3), and of judges that are asked in several ways (figure 5).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tasks.axioms.scoring.kinds import HARD_NEGATIVE, HELD_OUT, HUMAN
from tasks.axioms.scoring.scorers import Scorer
from tasks.publishing.card import Figure
from tasks.publishing.charts import Counts, histograms
from tasks.publishing.plots import svg_of

if TYPE_CHECKING:
    import pandas as pd

BINS = 10
LONGEST_NAME = 44
GENERATED = ("open_book", "closed_book", "combined")
MADE_WORSE = ("corrupted", "irrelevant_grounding")
KINDS = (HUMAN, HARD_NEGATIVE, *GENERATED, *MADE_WORSE, "passage")
CRITIQUE, PLAIN = "critique first", "without critique"

BY_KIND = (
    "Share of the answers of a kind by score, the mean as a dashed line (as figures 1 and 4 of the paper): held-out "
    "answers of the set stackexchange, and the answers of test pairs, each read without evidence. A hard negative "
    "answers another question."
)
SIDE_BY_SIDE = (
    "Share of the answers by score, each scorer on its own scale, means as dashed lines: human answers of the sets "
    "stackexchange and pairs, without hard negatives; generated ones of pairs (open-book, closed-book, combined). "
    "{which}. This is figure 3 of the paper if the first model was trained with constant margins, the second with "
    "those of a critic."
)
VARIANTS = (
    "Share of a judge's scores from 1 to 100 of the answers of the set stackexchange, by how it was asked, means as "
    "dashed lines (figure 5 of the paper, whose scale is another)."
)

Series = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Scale:
    """Bins of equal width from `low` upwards, and their labels."""

    labels: tuple[str, ...]
    low: float
    width: float

    def place(self, score: float) -> int:
        """The number of the score's bin, from 0; what is below the first or above the last counts there."""
        return min(max(int((score - self.low) / self.width), 0), len(self.labels) - 1)

    def across(self, score: float) -> float:
        """Where the score is on an axis on which the middle of bin n is at n."""
        return (score - self.low) / self.width - 0.5


JUDGED = Scale(tuple(f"{low + 1}–{low + 10}" for low in range(0, 100, 10)), 0.5, 10.0)


def scale_of(scores: Iterable[float]) -> Scale:
    """BINS bins from the lowest to the highest score, each labelled by its lower end. ValueError without a score."""
    known = list(scores)
    low, high = min(known), max(known)
    width = (high - low) / BINS or 1.0
    digits = max(0, 1 - math.floor(math.log10(width)))
    ends = [low + width * number for number in range(BINS)]
    return Scale(tuple(f"{end:.{digits}f}" if digits <= 3 else f"{end:.3g}" for end in ends), low, width)


def panel(title: str, series: Series, scale: Scale) -> Counts:
    """How many scores of each series fall into each bin, and the means; series without a score are left out."""
    known = {name: own for name, own in series.items() if len(own)}
    counts = {name: [0] * len(scale.labels) for name in known}
    for name, own in known.items():
        for score in own:
            counts[name][scale.place(score)] += 1
    return Counts(title, counts, {name: scale.across(_mean(own)) for name, own in known.items()}, scale.labels)


def score_histograms(name: str, title: str, note: str, scores: Series, scale: Scale | None = None) -> Figure:
    """A panel for each kind of answer with the distribution of its scores, all on one scale, the mean as a line and in
    its title. `scores`: kind -> its scores, not all empty. `scale`: else it is that of these scores.
    """
    shared = scale or scale_of(score for own in scores.values() for score in own)
    panels = [
        panel(f"{kind}: mean {_digits(_mean(own))} of {len(own):,}", {"scores": own}, shared)
        for kind, own in scores.items()
        if len(own)
    ]
    return _figure(name, title, note, panels)


def _figure(name: str, title: str, note: str, panels: Sequence[Counts]) -> Figure:
    what = "score" if all(each.bins == JUDGED.labels for each in panels) else "score, from"
    return Figure(name, title, note, svg_of(partial(histograms, (), panels, what), title))


# of an evaluation


def evaluation_figures(scores: pd.DataFrame, kinds: pd.DataFrame, scorers: Sequence[Scorer]) -> list[Figure]:
    """The figures of an evaluation: for each scorer its scores by kind of answer; the encoders and files of scores side
    by side, and the judges by how they are asked, if there are at least two. A scorer that has scored no such answer
    is in none. `scores`: scorer, set, question_id, answer_id, evidence, score; `kinds`: as from `kinds_of`.
    """
    bare = scores[scores["evidence"] == ""]
    known = bare.merge(kinds, on=["set", "question_id", "answer_id"], validate="many_to_one")
    own = {scorer.name: known[known["scorer"] == scorer.name] for scorer in scorers}
    found = [
        score_histograms(
            f"scores-{number}",
            f"Scores by kind of answer: {_shown(scorer.name)}",
            BY_KIND,
            by_kind(own[scorer.name]),
            JUDGED if scorer.is_judge else None,
        )
        for number, scorer in enumerate(scorers, start=1)
        if len(own[scorer.name])
    ]
    models = {each.name: people_and_models(own[each.name]) for each in scorers if each.kind in ("encoder", "file")}
    models = {name: series for name, series in models.items() if any(series.values())}
    judges = [(each, held) for each in scorers if each.is_judge and (held := held_out(own[each.name]))]
    return [
        *found,
        *([_side_by_side(models)] if len(models) > 1 else []),
        *([_figure("judge-variants", "Ways to ask a judge", VARIANTS, variants(judges))] if len(judges) > 1 else []),
    ]


def by_kind(known: pd.DataFrame) -> dict[str, list[float]]:
    """`<set>: <kind>` -> scores, the set stackexchange first, kinds in the order of KINDS. `known`: set, kind and score
    of each answer.
    """
    found = {(str(key[0]), str(key[1])): list(own["score"]) for key, own in known.groupby(["set", "kind"], sort=True)}
    ordered = sorted(
        found, key=lambda key: (key[0] != HELD_OUT, KINDS.index(key[1]) if key[1] in KINDS else len(KINDS))
    )
    return {": ".join(key): found[key] for key in ordered}


def people_and_models(known: pd.DataFrame) -> dict[str, list[float]]:
    """human and generated -> scores: of answers by people to the question itself, and of those by a model that were
    not made worse on purpose; an answer of both sets counts once.
    """
    once = known.drop_duplicates(["question_id", "answer_id"])
    kinds = {HUMAN: (HUMAN,), "generated": GENERATED}
    return {name: list(once[once["kind"].isin(of)]["score"]) for name, of in kinds.items()}


def held_out(known: pd.DataFrame) -> list[float]:
    """The scores of the answers of the set stackexchange."""
    return list(known[known["set"] == HELD_OUT]["score"])


def variants(scores: Sequence[tuple[Scorer, Sequence[float]]]) -> list[Counts]:
    """A panel for each shape in which a judge is asked (listwise, pointwise), of several endpoints for each of them; in
    it a series with and one without critique, where these are among the judges.
    """
    several = len({judge.endpoint.name for judge, _ in scores if judge.endpoint}) > 1
    panels: dict[str, dict[str, Sequence[float]]] = {}
    for judge, own in scores:
        shape = judge.kind.removeprefix("judge-")
        endpoint = f"{judge.endpoint.name} " if several and judge.endpoint else ""
        plain = judge.prompt is not None and judge.prompt.name.endswith("_plain")
        panels.setdefault(endpoint + shape, {})[PLAIN if plain else CRITIQUE] = own
    return [
        panel(title, {way: of[way] for way in (CRITIQUE, PLAIN) if way in of}, JUDGED) for title, of in panels.items()
    ]


def _side_by_side(models: Mapping[str, Series]) -> Figure:
    """Figure 3: a panel for each model, numbered as in the caption, which has its means."""
    panels, which = [], []
    for number, (name, series) in enumerate(models.items(), start=1):
        scale = scale_of(score for own in series.values() for score in own)
        panels.append(panel(f"{number}: {_shown(name)}", series, scale))
        means = [f"{kind}: mean {_digits(_mean(own))} of {len(own):,}" for kind, own in series.items() if own]
        which.append(f"{number} is {_shown(name)} ({'; '.join(means)})")
    return _figure("side-by-side", "Scorers side by side", SIDE_BY_SIDE.format(which=", ".join(which)), panels)


def _mean(scores: Sequence[float]) -> float:
    return math.fsum(scores) / len(scores)


def _digits(mean: float) -> str:
    return f"{mean:.1f}" if abs(mean) >= 10 else f"{mean:.2f}"


def _shown(name: str) -> str:
    """A name for a caption: on one line, of a long one the end, which tells folders apart."""
    plain = "".join(each if each.isprintable() else "�" for each in name)
    return plain if len(plain) <= LONGEST_NAME else f"…{plain[-LONGEST_NAME:]}"
