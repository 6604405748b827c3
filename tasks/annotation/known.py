"""How far people agree among themselves, and with what was known of an item before: a model's label, a first rating."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def agreement(said: pd.DataFrame) -> pd.DataFrame:
    """A row for each form that people filled in: labels, items, people, how far people agree among themselves and, in
    percent, with what was known (a model's label, the first rating).
    """
    import pandas as pd

    from tasks.metrics.intervals import share_interval

    rows = []
    for form, own in said.groupby("form"):
        by_item = own.groupby("item_id").label
        several = by_item.count() > 1
        compared = own.dropna(subset=["known"])
        hits = int((compared.label == compared.known).sum())
        low, high = share_interval(hits, len(compared)) if len(compared) else (None, None)
        rows.append({
            "form": form,
            "labels": len(own),
            "items": own.item_id.nunique(),
            "people": own.annotator_id.nunique(),
            "people agree, %": 100 * (by_item.nunique()[several] == 1).mean() if several.any() else None,
            "compared": len(compared),
            "as known, %": 100 * hits / len(compared) if len(compared) else None,
            "as known, % from": None if low is None else 100 * low,
            "as known, % to": None if high is None else 100 * high,
        })  # fmt: skip
    return pd.DataFrame(rows)
