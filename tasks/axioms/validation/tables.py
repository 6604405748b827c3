"""The tables of the report on validation: which pair types stay in training and why, how often each is preferred (table
6 of the paper), and the flaws of answers (table 8). Figures are not rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from longform.artifacts.rows import Row, Rows, grouped
from tasks.axioms.paper_tables import PRINTED
from tasks.axioms.people.form import FLAWS
from tasks.axioms.validation.rates import (
    JUDGE,
    PEOPLE,
    SIDES,
    counted,
    equal_scores,
    flagged,
    kappa,
    mean_difference,
    same_in_both_orders,
)
from tasks.publishing.card import ReportTable

if TYPE_CHECKING:
    import pandas as pd

ALL = "all pair types"
COLUMNS = (
    *("who", "pair_id", "pair_type", "axiom", "shown_first", "better", "points"),
    *(f"{side}_{name}" for side in SIDES for name in ("source", "score", "flaws")),
)
OF_DECISIONS = (
    "A pair type of train that is preferred in a smaller share of its judged pairs than the settings ask for leaves "
    "training. People decide where they decided on enough pairs, else the judge; where nobody did, the type is "
    "unvalidated and stays. Pairs are those of which a majority prefers one answer, from and to a 95 % interval "
    "(Wilson), p that of a share of one half (binomial test, two-sided)."
)
OF_TABLE_6 = (
    "Preferred: share of the decided pairs whose preferred answer the majority prefers; undecided are pairs without a "
    "majority. A judge is asked in both orders of the answers and has decided where it says the same in both; a tie is "
    "a judgement that scores both answers alike. Score difference: mean over judgements, on a scale of 1 to 10. Kappa "
    "is Fleiss', of which answer is better and of the scale of six, over the pairs with the most frequent number of "
    "judgements, which stand beside it. The paper's axiom 0 and 5 are our top human > worst human and combined > top "
    "human, combined > second best; its judge, GPT-4, was asked once a pair."
)
OF_TABLE_8 = (
    "Share of the pairs of which any judgement flags a flaw of the preferred or of the other answer. The "
    "paper's figures are of answers to research questions, beside which they stand."
)


def validation_tables(judgements: Rows | None, decisions: Rows | None) -> list[ReportTable]:
    """The tables of the report on what people and a judge say of pairs; [] if nobody judges. The card shows the first
    of them.
    """
    if judgements is None or decisions is None:
        return []
    rows = list(judgements.as_dicts(*COLUMNS))
    return [
        ReportTable("Validation of pair types", OF_DECISIONS, decided(decisions), on_card=True),
        ReportTable("Preferences by pair type (table 6 of the paper)", OF_TABLE_6, table_6_preferences(rows)),
        ReportTable("Flaws of answers (table 8 of the paper)", OF_TABLE_8, table_8_flaws(rows)),
    ]


def decided(decisions: Iterable[Row]) -> pd.DataFrame:
    """A row for each pair type: whether it stays in training, on whose evidence, and the figures of that."""
    import pandas as pd

    rows = [
        {
            "pair type": row["pair_type"],
            "training": "left out" if row["left_out"] else "stays" if row["trained"] else "has none",
            "evidence": row["evidence"],
            "pairs": row["preferred"] + row["rejected"],
            "preferred %": _percent(row["rate"]),
            "preferred % from": _percent(row["low"]),
            "preferred % to": _percent(row["high"]),
            "p": row["p_value"],
            "undecided": row["undecided"],
            "judgements a pair": _range(row["least_raters"], row["most_raters"]),
        }
        for row in decisions
    ]
    return pd.DataFrame(rows)


def table_6_preferences(judgements: Sequence[Row]) -> pd.DataFrame:
    """Table 6: a row for each pair type and one for all, with the figures of people and of the judge, as far as they
    judged, and the paper's beside them.
    """
    import pandas as pd

    from tasks.publishing.printed import beside, printed

    of_type = grouped(judgements, "pair_type")
    kinds: list[tuple[str, list[Row]]] = sorted(of_type.items(), key=lambda item: (item[1][0]["axiom"], item[0]))
    whos = {row["who"] for row in judgements}
    rows = []
    for kind, own in [*kinds, (ALL, list(judgements))]:
        row: Row = {"pair type": kind}
        for who, figures in FIGURES.items():
            if who in whos:
                of = figures([each for each in own if each["who"] == who])
                row |= {f"{who}: {name}": value for name, value in of.items()}
        rows.append(row)
    found = pd.DataFrame(rows)
    missing = found.drop(columns="pair type").select_dtypes("object").columns  # None in a row, or in all
    found, paper = found.astype(dict.fromkeys(missing, float)), printed(PRINTED, "table_6")
    return beside(found, paper[[name for name in paper if name in found]], on=["pair type"])


def _of_people(judgements: list[Row]) -> Row:
    side, pairs, size = kappa(judgements)
    scale, *_ = kappa(judgements, "points")
    return {
        **_figures(judgements),
        "kappa": side,
        "kappa of six": scale,
        "pairs of kappa": pairs,
        "judgements of each": size,
    }


def _of_judge(judgements: list[Row]) -> Row:
    return {
        **_figures(judgements),
        "same in both orders %": _percent(same_in_both_orders(judgements)),
        "ties %": _percent(equal_scores(judgements)),
    }


FIGURES: dict[str, Callable[[list[Row]], Row]] = {PEOPLE: _of_people, JUDGE: _of_judge}


def _figures(judgements: list[Row]) -> Row:
    found = counted(judgements)
    low, high = found.bounds
    return {
        "pairs": found.decided,
        "preferred %": _percent(found.rate),
        "preferred % from": _percent(low),
        "preferred % to": _percent(high),
        "p": found.p_value,
        "undecided": found.undecided,
        "score difference": mean_difference(judgements),
    }


def table_8_flaws(judgements: Iterable[Row]) -> pd.DataFrame:
    """Table 8: who judged, pair type, answer (preferred or rejected), its source, pairs, and the percentage of the
    pairs with each flaw. The paper prints that of pairs of answers to research questions alone.
    """
    import pandas as pd

    rows = [
        {
            "who": who,
            "pair type": kind,
            "answer": side,
            "written as": own[0][f"{side}_source"],
            "pairs": len({row["pair_id"] for row in own}),
            **{f"{flaw} %": 100 * flagged(own, side, flaw) for flaw in FLAWS},
        }
        for who, of in sorted(grouped(judgements, "who").items(), reverse=True)
        for kind, own in sorted(grouped(of, "pair_type").items())
        for side in SIDES
    ]
    return pd.DataFrame(rows)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _range(least: int, most: int) -> str:
    return f"{least}" if least == most else f"{least} to {most}"
