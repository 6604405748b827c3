"""The tables of KIWI over pandas frames of the published turns: one function a table."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from longform.artifacts.rows import Row
from tasks.kiwi.audits import SIMULATED
from tasks.kiwi.evaluation import GOOD, label_of
from tasks.kiwi.interaction import INFORMATION, RATINGS, STYLE
from tasks.kiwi.labels import CATEGORIES, ERRORS
from tasks.metrics.binary import binary_scores
from tasks.metrics.intervals import share_interval
from tasks.publishing.printed import above_paper, beside, printed

PRINTED = Path(__file__).with_name("printed.toml")
LEAST_SHARE = 0.05  # of the turns; smaller categories are counted as others (A.3)
FIRST = ("majority", "random", "zero-shot", "few-shot")  # systems, as in table 5
NONE = float("nan")  # a share of nothing
OTHERS, TOTAL, PEOPLE = "others", "total", "people"
MEASURED = {
    "instruction_words": "words of instruction",
    "source_words": "words of source",
    "target_words": "words of target",
    "length_ratio": "length ratio",
    "edit_distance": "edit distance",
    "edit_ratio": "edit ratio",
}


def counted(turns: pd.DataFrame) -> pd.DataFrame:
    """The turns that tables 3, 4 and 6 count: those of people, or the simulated ones where there are no others."""
    people = turns[turns.origin != SIMULATED]
    return people if len(people) else turns


def _with_readers(turns: pd.DataFrame) -> pd.DataFrame:
    return turns.assign(readers=turns.origin.where(turns.origin == SIMULATED, PEOPLE))


def _shares(own: pd.DataFrame, column: str, values: tuple[str, ...]) -> dict[str, float]:
    """The shares of these values among those that are not missing, in percent; NaN where all are."""
    known = own[column].dropna()
    return {f"{value}, %": 100 * (known == value).mean() if len(known) else NONE for value in values}


def table_2_turns(turns: pd.DataFrame) -> pd.DataFrame:
    """A row for each model and in total, by readers: turns, edits, length, kinds; the paper's rows below."""
    rows = []
    for readers, of_readers in _with_readers(turns).groupby("readers"):
        for system, own in [*of_readers.groupby("system"), (TOTAL, of_readers)]:
            rows.append({
                "readers": readers,
                "system": system,
                "turns": len(own),
                "edited": int(own.edited.notna().sum()),
                "turns per session": len(own) / own.session_id.nunique(),
                **_shares(own, "kind", (INFORMATION, STYLE)),
            })  # fmt: skip
    return above_paper(pd.DataFrame(rows), printed(PRINTED, "table_2"))


def ratings(turns: pd.DataFrame) -> pd.DataFrame:
    """A row for each model and kind of instruction (figure 2): turns and shares of the ratings."""
    rows = []
    for (readers, system), of_system in _with_readers(turns).groupby(["readers", "system"]):
        for kind, own in [*of_system.groupby("kind"), ("both", of_system)]:
            of = {"readers": readers, "system": system, "kind": kind, "turns": len(own)}
            rows.append({**of, **_shares(own, "rating", RATINGS)})
    return pd.DataFrame(rows)


def kinds_by_position(turns: pd.DataFrame) -> pd.DataFrame:
    """A row for each place in a session (figure 2): turns and shares of the kinds of instruction."""
    groups = counted(turns).groupby("position")
    rows = [{"turn": at, "turns": len(own), **_shares(own, "kind", (INFORMATION, STYLE))} for at, own in groups]
    return pd.DataFrame(rows)


def merged(categories: pd.Series) -> pd.Series:
    """Categories, in which those of fewer than 5 % of the turns are others."""
    shares = categories.value_counts(normalize=True)
    return categories.where(~categories.isin(shares.index[shares < LEAST_SHARE]), OTHERS)


def table_3_categories(turns: pd.DataFrame) -> pd.DataFrame:
    """A row for each category of instructions: turns, share, kinds and ratings (figure 3), beside the paper's."""
    own = counted(turns).dropna(subset=["category"])
    own = own.assign(category=merged(own.category))
    rows: list[Row] = []
    for category, of_category in own.groupby("category"):
        low, high = share_interval(len(of_category), len(own))
        share = {"share, %": 100 * len(of_category) / len(own), "share, % from": 100 * low, "share, % to": 100 * high}
        shares = {**_shares(of_category, "kind", (INFORMATION, STYLE)), **_shares(of_category, "rating", RATINGS)}
        rows.append({"category": category, "turns": len(of_category), **share, **shares})
    return _beside(rows, "table_3", "category", CATEGORIES)


def ratings_by_category(turns: pd.DataFrame) -> pd.DataFrame:
    """A row for each category and model (figure 3): turns and shares of the ratings."""
    own = counted(turns).dropna(subset=["category"])
    groups = own.assign(category=merged(own.category)).groupby(["category", "system"])
    rows = [
        {"category": category, "system": system, "turns": len(of), **_shares(of, "rating", RATINGS)}
        for (category, system), of in groups
    ]
    return pd.DataFrame(rows)


def table_4_errors(turns: pd.DataFrame) -> pd.DataFrame:
    """A row for each kind of error of neutral and bad turns: turns and share, beside the paper's."""
    own = counted(turns).dropna(subset=["error"])
    rows: list[Row] = []
    for error, of_error in own.groupby("error"):
        low, high = share_interval(len(of_error), len(own))
        share = {"share, %": 100 * len(of_error) / len(own), "share, % from": 100 * low, "share, % to": 100 * high}
        rows.append({"error": error, "turns": len(of_error), **share})
    return _beside(rows, "table_4", "error", ERRORS)


def _beside(rows: list[Row], table: str, key: str, order: tuple[str, ...]) -> pd.DataFrame:
    """The rows in this order of their key, beside the paper's; empty without rows."""
    if not rows:
        return pd.DataFrame()
    found = sorted(rows, key=lambda row: order.index(str(row[key])))
    return beside(pd.DataFrame(found), printed(PRINTED, table), on=[key])


def table_5_evaluation(turns: pd.DataFrame, predictions: pd.DataFrame, said: pd.DataFrame) -> pd.DataFrame:
    """Scores of each system on turns of test, and of people who rated again; the paper's rows below."""
    labels = turns.set_index("turn_id").label
    rows = []
    systems = dict.fromkeys([*(each for each in FIRST if each in set(predictions.system)), *predictions.system])
    for system in systems:
        own = predictions[predictions.system == system]
        rows.append({"system": system, **binary_scores(own.predicted, own.turn_id.map(labels), GOOD)})
    again = said[said.form == "ratings"]
    if len(again):
        rows.append({"system": "human", **binary_scores(again.label.map(label_of), again.known.map(label_of), GOOD)})
    named = {"items": "turns", "positive, %": "good, %"}
    return (
        above_paper(pd.DataFrame(rows).rename(columns=named), printed(PRINTED, "table_5")) if rows else pd.DataFrame()
    )


def table_6_edits(turns: pd.DataFrame) -> pd.DataFrame:
    """Means of what an edit took, by category, kind, model, and all together; the paper's rows below."""
    own = counted(turns)
    own = own.assign(category=merged(own.category)).dropna(subset=["target"])
    if not len(own):
        return pd.DataFrame()
    groups = [("category", "category", own), ("kind", "kind", own), ("model", "system", own)]
    rows = [(of, str(name), part) for of, column, frame in groups for name, part in frame.groupby(column)]
    rows.append(("all", TOTAL, own))
    found = [
        {"of": of, "type": name, "turns": len(part), **{MEASURED[each]: part[each].mean() for each in MEASURED}}
        for of, name, part in rows
    ]
    return above_paper(pd.DataFrame(found), printed(PRINTED, "table_6"))


def with_two_labels(said: pd.DataFrame) -> pd.DataFrame:
    """What people say, with second ratings once more as good or bad, in which neutral ones count as bad: as the paper
    counts its agreement.
    """
    again = said[said.form == "ratings"]
    two = again.assign(form="ratings, good or not", label=again.label.map(label_of), known=again.known.map(label_of))
    return pd.concat([said, two], ignore_index=True) if len(again) else said


def filters(numbers: dict[str, tuple[int, int]]) -> pd.DataFrame:
    """A row for each step of the selection (step -> in, stayed), with the share dropped, beside the paper's."""
    rows = [
        {"step": step, "in": before, "stay": after, "dropped, %": 100 * (before - after) / before if before else NONE}
        for step, (before, after) in numbers.items()
    ]
    return beside(pd.DataFrame(rows), printed(PRINTED, "filters"), on=["step"])


def retrieval_failures(said: pd.DataFrame) -> pd.DataFrame:
    """A row for what people say of the retrieved passages: turns and share, beside the paper's; empty without any."""
    own = said[said.form == "failures"]
    if not len(own):
        return pd.DataFrame()
    found = own.label.value_counts()
    rows = pd.DataFrame(
        {"label": found.index, "turns": found.to_numpy(), "share, %": 100 * found.to_numpy() / len(own)}
    )
    return beside(rows, printed(PRINTED, "failures"), on=["label"])
