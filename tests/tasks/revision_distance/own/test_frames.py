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


def test_what_is_no_frame_or_no_list_is_refused_with_what_to_give() -> None:
    for given in ([{"draft": "a"}], "a", None):
        with pytest.raises(UsageError, match=r"takes a pandas.DataFrame, and this is of type (list|str|NoneType): "):
            measure(given)  # type: ignore[arg-type]
    twice = pd.DataFrame([["a", "b", "c"]], columns=["draft", "draft", "reference"])
    with pytest.raises(UsageError, match="has 2 columns draft"):
        measure(twice)
    with pytest.raises(UsageError, match=r"predictions is one text, .* give predictions=\[...\]"):
        compute(predictions="abc", references="abd")
    with pytest.raises(UsageError, match="references is one text"):
        compute(predictions=["abc"], references="abd")
    with pytest.raises(UsageError, match="predictions is of type int"):
        compute(predictions=1)  # type: ignore[arg-type]


def test_a_row_that_is_no_text_is_rejected_alone_with_its_id_and_system() -> None:
    frame = pd.DataFrame(
        {
            "id": ["q1", 2, "q\ud800", "q4", None],
            "system": ["a", "b", "c", None, "e"],
            "draft": ["Tea.", "a\ud800", "Tea.", 7, "Tea."],
            "reference": [None, "Tea.", "Tea.", "Tea.", "Cups."],
        },
        dtype=object,
    )
    found = measure(frame)
    no_reference = "no reference, although other drafts have one"
    assert found.rejected.tolist()[:4] == [no_reference, "no valid Unicode", "no valid Unicode", "the draft is no text"]
    assert found.system.tolist()[:3] == ["a", "b", "c"]
    assert found.id.tolist()[:4] == ["q1", "2", "q?", "q4"]
    assert pd.isna(found.rejected[4])
    assert found.corrected[4] == 1


def test_compute_says_why_predictions_could_not_be_measured() -> None:
    found = compute(predictions=["Tea.", 1, "a\ud800"], references=["Tea.", "Tea.", 2])  # type: ignore[list-item]
    assert (found["unusable"], found["scores"]) == (2, [0.0, None, None])
    assert found["reasons"] == {"the draft is no text": 1, "a reference is no text": 1}
    found = compute(predictions=[1], references=[2])  # type: ignore[list-item]
    assert (found["corrected"], found["unusable"]) == (None, 1)


def test_compute_warns_of_lists_that_say_nothing() -> None:
    found = compute(predictions=["Tea is old.", "Tea is red."], references=["Tea is old.", "Tea is new."])
    assert (found["faults"]["silent"], found["warnings"]) == (0, [])
    silent = compute(predictions=["Tea is old.", "Milk is white."])
    assert silent["corrected"] == 0
    assert silent["faults"]["silent"] == 2
    assert "no edit with an effect" in silent["warnings"][0]
