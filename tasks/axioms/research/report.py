"""Answers to research questions in a version's report: tables 4, 5, 8 and 9 of the paper, and figure 16.

A scorer agrees with people if it gives the higher score to the answer that most of them prefer; equal scores agree by
half, as a draw would. Pairs without a majority are left out. Of tied answers the reciprocal rank is the mean over all
their orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longform.artifacts.rows import Rows
from tasks.axioms.people.form import FLAWS
from tasks.axioms.scoring.figures import score_histograms
from tasks.metrics.ranking import pair_wins, reciprocal_rank, spearman
from tasks.publishing.card import Figure, ReportTable
from tasks.publishing.charts import Points, scatters
from tasks.publishing.plots import svg_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Plot

PRINTED = Path(__file__).parents[1] / "printed.toml"
SIGNIFICANT = 0.05
MOST_EXAMPLES = 20
OF_ANSWER = ("research_answer_id", "research_question_id", "question", "kind", "condition", "words", "scores")
NOBODY = "Nobody has compared pairs of these answers yet: `longform sheets axioms --form research` makes the sheets."


def research_tables(research: Mapping[str, Rows]) -> list[ReportTable]:
    """The tables of research questions, with the paper's figures below ours; none if there is no answer. `research`:
    config -> its rows.
    """
    if "research" not in research or not research["research"].count:
        return []
    answers = answers_of(research["research"])
    said = judgements_of(research["research_judgements"]) if "research_judgements" in research else None
    return [
        ReportTable(
            "Agreement of scorers with people (table 4 of the paper)",
            f"{NOBODY if said is None else kappa_note(said)} Columns of scorers: how often they prefer A, and "
            "agree with most people, equal scores by half; in percent. Significance by a two-sided binomial test.",
            _with_paper(agreement_with_people(said, answers), "table_4"),
        ),
        ReportTable(
            "Mean reciprocal rank by kind of answer (table 5 of the paper)",
            "Of the answers to a question by each scorer; of equal scores the mean over all orders.",
            _with_paper(mean_reciprocal_ranks(answers), "table_5"),
        ),
        ReportTable(
            "Flaws by pair of kinds (table 8 of the paper)",
            f"{NOBODY if said is None else 'A flaw counts if any person marked it.'} Percent of the pairs.",
            _above(flaws_by_kind(said), _printed_flaws()),
        ),
        ReportTable(
            "Score against length (figure 16b of the paper)",
            "Spearman's rank correlation of an answer's score with its words, and the p value that it is 0.",
            _with_paper(scores_against_length(answers), "figure_16"),
        ),
        ReportTable("Research questions (table 9 of the paper)", "The first of them.", example_questions(answers)),
    ]


def _with_paper(ours: pd.DataFrame, name: str) -> pd.DataFrame:
    """Our rows, and below them those that the paper prints, with its columns."""
    from tasks.publishing.printed import printed

    return _above(ours, printed(PRINTED, name))


def _above(ours: pd.DataFrame, paper: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    both = pd.concat([ours.assign(source="this build"), paper.assign(source="paper")], ignore_index=True)
    return both[["source", *[name for name in both.columns if name != "source"]]].convert_dtypes()


def _printed_flaws() -> pd.DataFrame:
    """The paper's table 8, which is printed by pair type, with the columns of `flaws_by_kind`."""
    from tasks.publishing.printed import printed

    paper = printed(PRINTED, "table_8")
    paper[["A", "B"]] = paper["pair type"].str.split(" > ", expand=True)
    sides = paper.answer.map({"preferred": "A", "rejected": "B"})
    return paper.drop(columns="pair type").assign(answer=sides)


def answers_of(rows: Rows) -> pd.DataFrame:
    """A row for each answer and scorer: the columns OF_ANSWER, with `scorer` and `score` (NaN: none) for `scores`; one
    row, without a scorer, for an answer that none was asked about.
    """
    import pandas as pd

    flat = [
        {**{name: row[name] for name in OF_ANSWER if name != "scores"}, **scored}
        for row in rows.as_dicts(*OF_ANSWER)
        for scored in row["scores"] or [{"scorer": None, "score": None}]
    ]
    return pd.DataFrame(flat).astype({"score": "float64"})


def judgements_of(rows: Rows) -> pd.DataFrame | None:
    """The judgements; None if there are none."""
    import pandas as pd

    found = list(rows)
    return pd.DataFrame(found) if found else None


# ---------------------------------------------------------------- table 4


def agreement_with_people(said: pd.DataFrame | None, answers: pd.DataFrame) -> pd.DataFrame:
    """Table 4: for each two kinds, and overall, the pairs with a majority, how often people prefer A, whether that is
    significant, and for each scorer how often it prefers A, its ties and its agreement. No row if nobody judged.
    """
    import pandas as pd

    columns = ["A", "B", "pairs", "people prefer A"]
    if said is None:
        return pd.DataFrame(columns=columns)
    pairs = majorities(said)
    scorers = list(answers.scorer.dropna().unique())
    for scorer in scorers:
        own = answers[answers.scorer == scorer].set_index("research_answer_id").score
        first, second = (pairs[f"answer_{side}_id"].map(own).to_numpy() for side in "ab")
        pairs[f"{scorer} prefers A"] = pair_wins(first, second)
        pairs[f"{scorer} tie"] = pd.Series(first == second, pairs.index).where(~pd.isna(first) & ~pd.isna(second))
        wins = pd.Series(pair_wins(first, second), pairs.index)
        pairs[f"{scorer} agrees"] = wins.where(pairs.prefers_a, 1 - wins)
    rows = [
        _pair_row({"A": kinds[0], "B": kinds[1]}, own, scorers)
        for kinds, own in pairs.groupby(["kind_a", "kind_b"], sort=True)
    ]
    overall = _pair_row({"A": "overall", "B": ""}, pairs, scorers)
    return pd.DataFrame([*rows, {**overall, "people prefer A": None, "significant": None}])


def _pair_row(kinds: dict[str, Any], own: pd.DataFrame, scorers: Sequence[str]) -> dict[str, Any]:
    from scipy.stats import binomtest

    wins = int(own.prefers_a.sum())
    row: dict[str, Any] = {**kinds, "pairs": len(own), "people prefer A": _percent(own.prefers_a)}
    row["significant"] = "yes" if len(own) and binomtest(wins, len(own)).pvalue < SIGNIFICANT else "no"
    for scorer in scorers:
        row |= {f"{scorer} {what}": _percent(own[f"{scorer} {what}"]) for what in ("prefers A", "tie", "agrees")}
    return row


def _percent(values: pd.Series[Any]) -> float | None:
    known = values.dropna().astype(float)
    return round(100 * float(known.mean()), 1) if len(known) else None


def majorities(said: pd.DataFrame) -> pd.DataFrame:
    """A row for each judged pair that most people prefer one answer of, with `prefers_a`; the others are left out."""
    of_pair = ["research_pair_id", "kind_a", "kind_b", "answer_a_id", "answer_b_id"]
    share = (said.assign(for_a=said.better == "a")).groupby(of_pair, as_index=False, sort=True).for_a.mean()
    decided: pd.DataFrame = share[share.for_a != 0.5].reset_index(drop=True)
    return decided.assign(prefers_a=decided.for_a > 0.5)


def kappa_note(said: pd.DataFrame) -> str:
    """Pairs, people and Fleiss' kappa of who is better, as a sentence; without kappa where it is undefined."""
    from tasks.annotation.agreement import fleiss

    units = [list(own.better) for _, own in said.groupby("research_pair_id")]
    kappa = fleiss(units).value
    people = said.annotator_id.nunique()
    told = f"{len(units):,} pairs by {people:,} {'person' if people == 1 else 'people'}, the majority counts"
    return f"{told}; Fleiss' kappa {kappa:.2f} (the paper: 0.42)." if kappa is not None else f"{told}."


# ---------------------------------------------------------------- tables 5, 8, 9


def mean_reciprocal_ranks(answers: pd.DataFrame) -> pd.DataFrame:
    """Table 5: for each kind of answer and scorer the mean over the questions of 1 / its rank among the answers with a
    score; a question with one such answer says nothing.
    """
    import pandas as pd

    ranks: dict[tuple[str, str], list[float]] = {}
    scored = answers.dropna(subset=["score"])
    for (scorer, _), own in scored.groupby(["scorer", "research_question_id"], sort=False):
        if len(own) > 1:
            for place, kind in enumerate(own.kind):
                gains = [float(place == other) for other in range(len(own))]
                ranks.setdefault((kind, str(scorer)), []).append(reciprocal_rank(own.score.to_numpy(), gains))
    kinds, scorers = list(answers.kind.unique()), [*answers.scorer.dropna().unique()]
    rows = [{"kind": kind, **{name: _mean(ranks.get((kind, name), [])) for name in scorers}} for kind in sorted(kinds)]
    return pd.DataFrame(rows, columns=["kind", *scorers])


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 3) if values else None


def flaws_by_kind(said: pd.DataFrame | None) -> pd.DataFrame:
    """Table 8: for each two kinds and each of their two answers the percent of pairs in which a flaw was marked."""
    import pandas as pd

    if said is None:
        return pd.DataFrame(columns=["A", "B", "answer", "pairs"])
    rows = []
    for (first, second), own in said.groupby(["kind_a", "kind_b"], sort=True):
        of_pair = own.groupby("research_pair_id")
        for side in "ab":
            row: dict[str, Any] = {"A": first, "B": second, "answer": side.upper(), "pairs": len(of_pair)}
            marked = of_pair[f"flaws_{side}"]
            rows.append(row | {f"{flaw} %": _percent(marked.agg(partial(_any_has, flaw))) for flaw in FLAWS})
    return pd.DataFrame(rows)


def _any_has(flaw: str, marked: Iterable[Iterable[str]]) -> bool:
    return any(flaw in each for each in marked)


def scores_against_length(answers: pd.DataFrame) -> pd.DataFrame:
    """Figure 16b: for each kind and scorer Spearman's correlation of score and words, its p value, the mean score."""
    import pandas as pd

    rows = []
    for (kind, scorer), own in answers.dropna(subset=["score"]).groupby(["kind", "scorer"], sort=True):
        rho, p = spearman(own.words.to_numpy(), own.score.to_numpy())
        mean = round(float(own.score.mean()), 2)
        rows.append({"kind": kind, "scorer": scorer, "answers": len(own), "mean score": mean, "rho": rho, "p": p})
    frame = pd.DataFrame(rows, columns=["kind", "scorer", "answers", "mean score", "rho", "p"])
    return frame.round({"rho": 3, "p": 4})


def example_questions(answers: pd.DataFrame) -> pd.DataFrame:
    """The first questions, each once."""
    first = answers.drop_duplicates("research_question_id").sort_values("research_question_id").head(MOST_EXAMPLES)
    return first[["research_question_id", "question"]].rename(columns={"research_question_id": "id"})


# ---------------------------------------------------------------- figures


def research_figures(research: Mapping[str, Rows]) -> list[Figure]:
    """Figure 16: scores by kind of answer, a figure for each scorer, and score against length; none without scores."""
    if "research" not in research or not research["research"].count:
        return []
    scored = answers_of(research["research"]).dropna(subset=["score"])
    if scored.empty:
        return []
    names = [*scored.scorer.unique()]
    found = [
        score_histograms(
            f"research-scores-{number}",
            f"Scores of answers to research questions by {name}",
            "Share of the answers of a kind by score, the mean as a dashed line.",
            {kind: list(own.score) for kind, own in scored[scored.scorer == name].groupby("kind", sort=True)},
        )
        for number, name in enumerate(names, start=1)
    ]
    panels = [
        Points(
            f"by {name}",
            {
                condition: list(zip(own.words.astype(float), own.score, strict=True))
                for condition, own in scored[scored.scorer == name].groupby("condition", sort=True)
            },
        )
        for name in names
    ]
    length = _figure(
        "research-length", "Score against length", "Of answers to research questions: words and score.",
        partial(scatters, panels, "words", "score"),
    )  # fmt: skip
    return [*found, length]


def _figure(name: str, title: str, note: str, draw: Callable[[], Plot]) -> Figure:
    return Figure(name, title, note, svg_of(draw, title))
