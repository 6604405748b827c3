"""Why a figure of ours differs from the paper's, as far as a build can know it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from tasks.expertqa.estimates.autoais import RELEASED

QUESTIONS = 2_177  # of the paper
NEARLY_ALL = 0.99
TRUE_NLI = "t5_xxl_true_nli_mixture"
REASON = "reason"
NOTHING = "nothing of this was scored here"
NONE = f"none of the paper's {QUESTIONS:,} questions"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a version's figures rest on. `questions`: how many questions are in the bank, None if not known; `claimed`:
    how many of the paper's have a claim (`of_the_paper`), `others`: how many others have. `writers`: system -> models
    of ours that wrote its answers. `backends`, `judges`: who said AutoAIS and FActScore. `tested`: whether the authors'
    test sides are known.
    """

    questions: int | None = None
    claimed: int = 0
    writers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    backends: Sequence[str] = ()
    judges: Sequence[str] = ()
    tested: bool = False
    others: int = 0

    @property
    def is_part(self) -> bool:
        """Whether fewer of the paper's questions than it has have claims."""
        return self.claimed < NEARLY_ALL * QUESTIONS

    @property
    def share(self) -> str:
        """How many questions of the paper have claims, in words."""
        return f"{self.claimed:,} of the paper's {QUESTIONS:,} questions" if self.claimed else NONE

    @property
    def strangers(self) -> int:
        """How many questions of the bank have no claim or are not the paper's."""
        return self.others if self.questions is None else self.questions - self.claimed


def of_the_paper(claims: pd.DataFrame) -> pd.Series[bool]:
    """Whether each claim is of a question of the paper: one that stands in the authors' files of a split.

    `claims`: a frame with random_split_from and domain_split_from.
    """
    return (claims.random_split_from == RELEASED) | (claims.domain_split_from == RELEASED)


def facts_of(claims: pd.DataFrame, questions: int | None) -> Facts:
    """The facts of published claims, a frame with question_id, system, model, autoais_backend, fact_score_model,
    random_split_from and domain_split_from. `questions`: the number of questions of the bank.
    """
    written = claims.dropna(subset="model").groupby("system").model.unique()
    paper = claims[of_the_paper(claims)].question_id.nunique()
    return Facts(
        questions,
        paper,
        {str(system): sorted(models) for system, models in written.items()},
        sorted(claims.autoais_backend.dropna().unique()),
        sorted(claims.fact_score_model.dropna().unique()),
        bool((claims.domain_split_from == RELEASED).any()),
        claims.question_id.nunique() - paper,
    )


def reason(table: str, system: str, facts: Facts) -> str:
    """Why our figures of a system ("" for none) in a table of printed.toml differ from the paper's; "" where nothing is
    known.
    """
    return "; ".join(filter(None, _reasons(table, system, facts)))


def _reasons(table: str, system: str, facts: Facts) -> Iterable[str]:
    """The reasons, in order."""
    if table == "table_2" and facts.questions not in (None, QUESTIONS):
        yield f"the bank has {facts.questions:,} questions, the paper {QUESTIONS:,}"
    if table != "table_2" and facts.is_part and not table.startswith("table_14"):
        yield facts.share
    if table != "table_2" and facts.others and not table.startswith("table_14"):
        yield f"{facts.others:,} other question{'s' * (facts.others > 1)} among them"
    models = facts.writers.get(system, ())
    if models:
        yield f"{system} is {' and '.join(models)} here"
    elif system == "all" and facts.writers:
        yield f"answers by {' and '.join(sorted({each for of in facts.writers.values() for each in of}))} among them"
    if table in ("table_5", "table_6_zero_shot"):
        yield _judged(facts.backends, TRUE_NLI, "AutoAIS")
    if table == "table_6_zero_shot" and not facts.tested:
        yield "the authors' test questions are not known (released_splits)"
    if table == "table_8":
        yield _judged(facts.judges, "gpt-3.5-turbo", "FActScore")


def _judged(by: Sequence[str], paper: str, what: str) -> str:
    """Who judged, where it is not who judged in the paper; "" if it is."""
    others = [name for name in by if name != RELEASED and not name.endswith(paper)]
    return f"{what} by {' and '.join(others)}, in the paper by {paper}" if others else ""


def with_reasons(frame: pd.DataFrame, table: str, facts: Facts) -> pd.DataFrame:
    """A copy of a frame that has printed figures beside ours (`… difference`), with a last column REASON: "" in rows
    that do not differ, NOTHING where the paper has a figure and nothing was scored here. A frame without such figures
    has none.
    """
    names = [name for name in frame.columns if str(name).endswith(" difference")]
    if not names:
        return frame
    differs = (frame[names].fillna(0) != 0).any(axis=1)
    printed = frame[[name.replace(" difference", " paper") for name in names]]
    nothing = (printed.notna().to_numpy() & frame[names].isna().to_numpy()).any(axis=1)
    found = [
        NOTHING if empty else reason(table, str(row.get("system", "")), facts) if apart else ""
        for row, apart, empty in zip(frame.to_dict("records"), differs, nothing, strict=True)
    ]
    return frame.assign(**{REASON: found})
