"""Measuring from Python: a frame in, a frame out; predictions and references as lists."""

from __future__ import annotations

import pandas as pd
import pytest

from longform.errors import UsageError
from tasks.revision_distance import compute, measure


def test_a_frame_keeps_its_index_and_says_why_a_row_is_rejected() -> None:
    frame = pd.DataFrame(
        {"draft": ["Tea is old.", "", None, "Cups come."], "reference": ["Tea is new.", "Milk.", "x", "Cups come."]},
        index=list("wxyz"),
    )
    found = measure(frame)
    assert list(found.index) == list("wxyz")
    assert found.corrected.tolist()[:2] == [1, 1]
    assert found.corrected["z"] == 0
    assert found.rejected["y"] == "no draft"
    assert pd.isna(found.corrected["y"])
    assert found.signature["w"].startswith("revdist|editor:offline-rules-1(lexical baseline)")


def test_repeats_give_a_row_each() -> None:
    found = measure(pd.DataFrame({"draft": ["a b.", "c d."], "reference": ["a c.", "c d."]}), repeats=2)
    assert list(found.index) == [0, 0, 1, 1]
    assert found.repeat.tolist() == [0, 1, 0, 1]


def test_the_nearest_reference_counts() -> None:
    found = compute(predictions=["Tea is old. B."], references=[["Far. Away.", "Tea is old. B."]])
    assert (found["corrected"], found["valid"], found["scores"]) == (0.0, 1.0, [0.0])


def test_without_references_what_needs_one_is_none() -> None:
    found = compute(predictions=["Tea tea is old."])
    assert found["corrected"] == 1
    assert (found["valid"], found["ter"], found["coverage"]) == (None, None, None)


def test_nothing_is_none_and_not_zero() -> None:
    found = compute(predictions=[], references=[])
    assert (found["corrected"], found["scores"], found["unusable"]) == (None, [], 0)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="2 predictions and 1 references"):
        compute(predictions=["a", "b"], references=["a"])
    with pytest.raises(UsageError, match="has no column draft"):
        measure(pd.DataFrame({"text": ["a"]}))
    with pytest.raises(UsageError, match="repeats is 0"):
        measure(pd.DataFrame({"draft": ["a"]}), repeats=0)
