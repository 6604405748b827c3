"""Scores of a system that tells one label from another."""

from __future__ import annotations

import pandas as pd

from tasks.metrics.intervals import share_interval


def binary_scores(predicted: pd.Series, actual: pd.Series, positive: str) -> dict[str, float]:
    """items, accuracy with its 95 % interval (Wilson), precision, recall and F1 of the label `positive` (0 where there
    is nothing to divide by), and the share of items that are called so, in percent.
    """
    says, is_so = predicted.to_numpy() == positive, actual.to_numpy() == positive
    hits, right = int((says & is_so).sum()), int((says == is_so).sum())
    precision = hits / int(says.sum()) if says.any() else 0.0
    recall = hits / int(is_so.sum()) if is_so.any() else 0.0
    low, high = share_interval(right, len(says))
    return {
        "items": len(says),
        "accuracy": right / len(says),
        "accuracy from": low,
        "accuracy to": high,
        "precision": precision,
        "recall": recall,
        "F1": 2 * precision * recall / (precision + recall) if precision + recall else 0.0,
        "positive, %": 100 * float(says.mean()),
    }
