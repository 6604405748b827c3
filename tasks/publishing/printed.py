"""What a paper prints, beside what we compute.

A file of printed figures holds a table of the paper as text of comma-separated values, its columns named as ours:

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
    """The figures that the paper prints in this table, whole numbers as such; NA where it leaves one out.

    Raises KeyError for a table that the file does not have.
    """
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    return pd.read_csv(StringIO(document[table]["csv"].strip()), dtype_backend="numpy_nullable")


def beside(ours: pd.DataFrame, paper: pd.DataFrame, *, on: list[str]) -> pd.DataFrame:
    """Ours, and after each column that the paper prints also `… paper` and `… difference` (ours less the paper's).

    Rows are those of ours, matched by the columns `on`; a column of which the paper prints none of them is not added.
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
