"""Which changes of served models refuse a version, and which are only noted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from longform.artifacts.versions import Version
from longform.engine.served import Served
from tasks.publishing.served import fingerprint_notes, served_gates


def by(*names: str, stage: str = "answer", endpoint: str = "mine", asked: str = "m", fingerprint: str = "") -> Served:
    """What served 10 replies by each of these names; "" for replies that name no model."""
    models = {name: 10 for name in names if name}
    return Served(stage, endpoint, asked, models, 10 * ("" in names), {fingerprint: 10} if fingerprint else {})


def version(number: int, *served: Served) -> Version:
    manifest = {"number": number, "served": [asdict(each) for each in served]}
    return Version("toy", f"v{number}", Path(), manifest)


OF_ANOTHER_RELEASE = Version("toy", "v0", Path(), {"number": 0})
CHANGED = {
    "another": ([version(1, by("m-1"))], by("m-2"), "answer: m was served by m-1 in v1, now by m-2", 10),
    "one more": ([version(1, by("m-1"))], by("m-1", "y"), "answer: m was served by m-1 in v1, now by m-1 and y", 10),
    "alias": ([version(1, by("m"))], by("m-1"), "answer: m was served by m in v1, now by m-1", 10),
    "back": ([version(1, by("m-1"))], by("m"), "answer: m was served by m-1 in v1, now by m", 10),
    "unnamed": ([version(1, by(""))], by("y"), "answer: m was served by m in v1, now by y", 10),
    "stage": ([version(1, by("m-1", stage="check"))], by("y"), "answer: m was served by m-1 in v1, now by y", 10),
    "offline": ([version(1, by("m-1")), version(2)], by("y"), "answer: m was served by m-1 in v1, now by y", 10),
    "newest": ([version(1, by("y")), version(2, by("x"))], by("y"), "answer: m was served by x in v2, now by y", 10),
}
SAME = {
    "first": ([], by("m-1")),
    "equal": ([version(1, by("m-1"))], by("m-1")),
    "gone": ([version(1, by("m-1", "y"))], by("y")),
    "no name": ([version(1, by("m-1"))], by("")),
    "no name any more": ([version(1, by("m-1"))], by("m-1", "")),
    "unnamed": ([version(1, by(""))], by("m")),
    "endpoint": ([version(1, by("m-1", endpoint="other"))], by("y")),
    "asked": ([version(1, by("m-1", asked="n"))], by("y")),
    "other stage": ([version(1, by("m-1", stage="check"), by("y"))], by("m-1")),
    "fingerprint": ([version(1, by("m-1", fingerprint="fp_1"))], by("m-1", fingerprint="fp_2")),
    "release": ([OF_ANOTHER_RELEASE], by("m-1")),
}


@pytest.mark.parametrize("case", CHANGED)
def test_a_name_that_was_not_there_before_refuses_the_version(case: str) -> None:
    earlier, now, sentence, found = CHANGED[case]
    (gate,) = served_gates([now], earlier)
    assert gate.is_above
    assert (gate.gate, gate.found, gate.checked) == ("served_model", found, now.replies)
    assert gate.what == f"replies of {sentence}"


@pytest.mark.parametrize("case", SAME)
def test_what_is_no_new_name_refuses_nothing(case: str) -> None:
    earlier, now = SAME[case]
    (gate,) = served_gates([now], earlier)
    assert (gate.is_above, gate.found, gate.checked) == (False, 0, now.replies)


def test_a_version_of_the_offline_model_has_no_such_gate() -> None:
    assert served_gates([], [version(1, by("m-1"))]) == []


def test_each_stage_with_another_model_is_named() -> None:
    now = [by("y"), by("m-1", stage="check"), by("y", stage="rate")]
    assert [gate.what for gate in served_gates(now, [version(1, by("m-1"))])] == [
        f"replies of {stage}: m was served by m-1 in v1, now by y" for stage in ("answer", "rate")
    ]


@pytest.mark.parametrize(
    ("now", "notes"),
    [
        (by("m-1", fingerprint="fp_2"), ["answer: m had the fingerprint fp_1 in v1, now fp_2"]),
        (by("m-1", fingerprint="fp_1"), []),
        (by("m-1"), []),
        (by("y", fingerprint="fp_2"), []),  # that is a gate
    ],
)
def test_another_fingerprint_of_the_same_model_is_a_note(now: Served, notes: Sequence[str]) -> None:
    assert list(fingerprint_notes(version(2, now), [version(1, by("m-1", fingerprint="fp_1"))])) == notes
