"""How often each label was given, by system, field or question type (figures 5, 8, 9 and 10).

A frame of counts has a row for each group and a last row TOTAL, which counts each claim once, also one that is in
several groups. It has a column for each label, in the order of table 3, and a last column NO_LABEL for what nobody
labelled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import pandas as pd

from tasks.expertqa.tables.paper_tables import TOTAL, in_order
from tasks.expertqa.vocabulary import LABELLED, ratings, type_texts

By = Literal["system", "field", "question_types"]
NO_LABEL, NO_TYPE = "", "none"
GROUPS = {"system": "system", "field": "field", "question_types": "question type"}


class Labels(NamedTuple):
    """Counts of one property's labels by group. `by`: what the groups are. `what`: what is counted, answers or claims.
    `which`: the selection of them that is counted, such as cite-worthy claims; may be empty if all are. `counts`: the
    frame that `label_counts` returns.
    """

    property: str
    by: By
    what: str
    which: str
    counts: pd.DataFrame


def figure_5_by_system(answers: pd.DataFrame, claims: pd.DataFrame) -> Iterator[Labels]:
    """Figure 5, counts by system: usefulness of answers, then each property of claims in the order of LABELLED;
    support comes twice, first of cite-worthy claims alone.

    `answers`: system, usefulness. `claims`: system and the properties.
    """
    yield Labels("usefulness", "system", "answers", "", label_counts(answers, "usefulness", "system"))
    worthy = label_counts(claims[claims.worthiness == "Yes"], "support", "system")
    yield Labels("support", "system", "claims", "cite-worthy claims", worthy)
    for name in LABELLED:
        which = "all claims" if name == "support" else ""
        yield Labels(name, "system", "claims", which, label_counts(claims, name, "system"))


def figures_9_and_10(claims: pd.DataFrame, by: By) -> Iterator[Labels]:
    """Figure 9 (by field) or 10 (by question type): counts of each property of claims, in the order of LABELLED.
    `claims`: a frame with the column `by` and the properties.
    """
    for name in LABELLED:
        yield Labels(name, by, "claims", "", label_counts(claims, name, by))


def figure_8_types_by_field(questions: pd.DataFrame) -> pd.DataFrame:
    """Figure 8: how many questions of each field have each type, the largest field first, of equals by name, and a
    last row TOTAL.

    The first column, `questions`, is the number of questions of the field; then comes a column for each type, I to
    VII. A question of several types counts in each, one without a type only in `questions`.
    """
    types = questions[["field", "question_types"]].explode("question_types")
    counts = pd.crosstab(types.field, types.question_types.fillna(NO_LABEL)).reindex(
        columns=list(type_texts()), fill_value=0
    )
    counts.insert(0, "questions", questions.field.value_counts())
    counts = counts.sort_index().sort_values("questions", ascending=False, kind="stable")
    return pd.concat([counts, counts.sum().to_frame(TOTAL).T]).rename_axis("field")


def label_counts(rows: pd.DataFrame, property: str, by: By) -> pd.DataFrame:
    """The frame of counts of one property: a row for each group and a last row TOTAL, a column for each label and a
    last column NO_LABEL. `rows`: a frame with the columns `by` and `property`.

    Systems come in the paper's order, question types from I to VII, fields from the largest down; other groups by
    name. A row of several question types counts in each of them, but once in TOTAL; a row without any counts in the
    group `none`. Labels that are not of table 3 come after those that are.
    """
    known = ratings(property)
    every = rows[[by, property]].fillna({property: NO_LABEL})
    grouped = every.explode(by).fillna({by: NO_TYPE})
    counts = pd.crosstab(grouped[by], grouped[property])
    order = _order(by, counts.sum(axis=1))
    counts = pd.concat([counts.loc[order], every[property].value_counts().to_frame(TOTAL).T]).fillna(0).astype(int)
    others = sorted({*counts.columns} - {*known, NO_LABEL})
    return counts.reindex(columns=[*known, *others, NO_LABEL], fill_value=0).rename_axis(GROUPS[by])


def _order(by: By, sizes: pd.Series[int]) -> list[str]:
    """The names of the groups in the order of the frame, as `label_counts` says. `sizes`: number of rows of each
    group.
    """
    if by == "system":
        return in_order(sizes.index)
    if by == "field":
        return list(sizes.sort_index().sort_values(ascending=False, kind="stable").index)
    known = [name for name in type_texts() if name in sizes.index]
    return known + sorted({*sizes.index} - {*known})


# ---------------------------------------------------------------- tables of the counts


def with_total(counts: pd.DataFrame) -> pd.DataFrame:
    """The counts with a last row TOTAL, the sums of the other rows."""
    return pd.concat([counts, counts.sum().to_frame(TOTAL).T])


def labels_table(labels: Labels) -> pd.DataFrame:
    """A row for each group and a last one for all: each label's count and its share of the labelled, in percent (NaN
    if nothing is labelled); the number labelled, and the number without a label.
    """
    counts = labels.counts.drop(columns=NO_LABEL)
    labelled = counts.sum(axis=1)
    rows = with_shares(counts, labelled)
    rows[f"{labels.what} labelled"], rows["without a label"] = labelled, labels.counts[NO_LABEL]
    return rows.rename_axis(GROUPS[labels.by]).reset_index()


def types_table(counts: pd.DataFrame) -> pd.DataFrame:
    """Figure 8 as a table: for each field, and last for all, the number of questions, and each type's count and share
    of these questions, in percent.

    `counts`: the frame of `figure_8_types_by_field`.
    """
    rows = with_shares(counts.drop(columns="questions"), counts.questions)
    rows.insert(0, "questions", counts.questions)
    return rows.reset_index()


def with_shares(counts: pd.DataFrame, wholes: pd.Series[int]) -> pd.DataFrame:
    """Each column of counts, followed by a column `<name> %`, its share in percent of `wholes`, which has a number for
    each row.
    """
    shares = (100 * counts).div(wholes, axis=0).add_suffix(" %")
    return pd.concat([counts, shares], axis=1)[[both for name in counts.columns for both in (name, f"{name} %")]]
