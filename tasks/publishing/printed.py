"""The figures that a paper prints, put beside the figures computed here.

A file of printed figures holds tables of the paper as comma-separated values, with the column names used here:

    [table_4]
    source = "section 3, table 4"
    csv = '''
    system,sampled
    gpt4,174
    '''

These files are tasks/axioms/printed.toml and tasks/<dataset>/tables/printed.toml.
"""

from __future__ import annotations

import tomllib
from io import StringIO
from pathlib import Path

import pandas as pd

BOUNDS = ("from", "to")
DECIMALS = 9  # of a difference: beyond them it has the noise of subtraction


def printed(file: Path, table: str) -> pd.DataFrame:
    """The table of this name in a TOML file of the numbers that a paper prints (printed.toml). KeyError if the file
    has no such table.

    Columns of whole numbers are integers; a number that the paper leaves out is NA.
    """
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    return pd.read_csv(StringIO(document[table]["csv"].strip()), dtype_backend="numpy_nullable")


def beside(ours: pd.DataFrame, paper: pd.DataFrame, *, on: list[str]) -> pd.DataFrame:
    """A copy of `ours` with the columns `… paper` and `… difference` (ours less the paper's) for each printed figure.

    Both follow their column, after its bounds (`… from`, `… to`) if it has any. `on`: the columns by which rows are
    matched; `paper` has each of their values once. A row that the paper does not print has NA; a column without any
    matched figure gets no such columns. A printed column that `ours` does not have is an error (IndexError).
    """
    matched = ours[on].merge(paper, on=on, how="left").set_index(ours.index)
    found = ours.copy()
    for name in paper.columns.difference(on, sort=False):
        if matched[name].notna().any():
            last = [column for column in (name, *(f"{name} {bound}" for bound in BOUNDS)) if column in found][-1]
            place = list(found.columns).index(last) + 1
            found.insert(place, f"{name} paper", matched[name])
            found.insert(place + 1, f"{name} difference", (found[name] - matched[name]).round(DECIMALS))
    return found


def above_paper(ours: pd.DataFrame, paper: pd.DataFrame, *, same: str = "") -> pd.DataFrame:
    """Our rows and below them the paper's, or those of its rows whose value in the column `same` we have, too; `source`
    says which is which.
    """
    own = ours.astype(dict.fromkeys(ours.select_dtypes("integer"), "Int64")).assign(source="this build")
    others = (paper[paper[same].isin(own[same])] if same else paper).assign(source="paper")
    return pd.concat([own, others], ignore_index=True)[["source", *ours.columns]]
