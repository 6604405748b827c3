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


@dataclass(frozen=True, slots=True)
class Facts:
    """What a version's figures rest on. `questions`: how many questions are in the bank, None if not known; `claimed`:
    how many have a claim. `writers`: system -> models of ours that wrote its answers. `backends`, `judges`: who said
    AutoAIS and FActScore. `tested`: whether the authors' test sides are known.
    """

    questions: int | None = None
    claimed: int = 0
    writers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    backends: Sequence[str] = ()
    judges: Sequence[str] = ()
    tested: bool = False

    @property
    def is_part(self) -> bool:
        """Whether fewer questions than the paper's have claims."""
        return self.claimed < NEARLY_ALL * QUESTIONS


def facts_of(claims: pd.DataFrame, questions: int | None) -> Facts:
    """The facts of published claims, a frame with question_id, system, model, autoais_backend, fact_score_model and
    domain_split_from. `questions`: the number of questions of the bank.
    """
    written = claims.dropna(subset="model").groupby("system").model.unique()
    return Facts(
        questions,
        claims.question_id.nunique(),
        {str(system): sorted(models) for system, models in written.items()},
        sorted(claims.autoais_backend.dropna().unique()),
        sorted(claims.fact_score_model.dropna().unique()),
        bool((claims.domain_split_from == RELEASED).any()),
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
        yield f"{facts.claimed:,} of the paper's {QUESTIONS:,} questions"
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
    that do not differ. A frame without such figures has none.
    """
    names = [name for name in frame.columns if str(name).endswith(" difference")]
    if not names:
        return frame
    differs = (frame[names].fillna(0) != 0).any(axis=1)
    found = [
        reason(table, str(row.get("system", "")), facts) if apart else ""
        for row, apart in zip(frame.to_dict("records"), differs, strict=True)
    ]  # fmt: skip
    return frame.assign(**{REASON: found})
