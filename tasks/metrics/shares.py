"""Sums of groups and the shares that one is of another, in percent, with their intervals (95 %)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from tasks.metrics.intervals import ratio_interval, share_interval


def sums_and_shares(
    groups: Any, columns: list[str], shares: Mapping[str, tuple[str, str]] | None = None, *, over_texts: bool = False
) -> pd.DataFrame:
    """A row for each of the groups (of a pandas groupby): the sums of its columns, and its shares, name -> the column
    that is a part of the other. Intervals are Wilson's, or by bootstrap over the group's rows, each of a text.
    """
    rows = groups[columns].sum()
    for name, (part, whole) in (shares or {}).items():
        if over_texts:
            bounds = [ratio_interval(own[part], own[whole]) for _, own in groups]
        else:
            bounds = [share_interval(*numbers) for numbers in zip(rows[part], rows[whole], strict=True)]
        rows[name] = 100 * rows[part] / rows[whole]
        rows[[f"{name} from", f"{name} to"]] = 100 * np.array(bounds, float).reshape(-1, 2)
    found: pd.DataFrame = rows.reset_index()
    return found.astype(dict.fromkeys(found.select_dtypes("category"), object))
