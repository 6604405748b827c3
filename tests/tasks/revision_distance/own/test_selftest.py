"""The self-test: an editor that does what is planted is fit; others are not, and it says why."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from longform.artifacts.rows import Row
from tasks.revision_distance.drafts.measure import WEIGHTS, measure
from tasks.revision_distance.own.measuring import numbers
from tasks.revision_distance.own.selftest import Case, cases, verdict
from tasks.text.revision_edits import Edit, revise


def edit(old: str, new: str) -> Edit:
    told: Edit = {"action_name": "x", "revision_description": "", "revision_level": "word"}
    return {
        **told,
        "revision_intention": "meaning",
        "original_snippet": old,
        "revised_snippet": new,
        "preceding_snippet": None,
    }


def told_by(say: Callable[[Case], list[Edit]]) -> list[Row]:
    found = [(case, measure(case.draft, case.reference, say(case), WEIGHTS)) for case in cases()]
    return [
        {
            "id": case.id,
            "repeat": 0,
            "revised": each.revised,
            "edits": [{"start": one.start, "end": one.end, "applied": one.applied} for one in each.edits],
            **numbers(each),
        }
        for case, each in found
    ]


def honest(case: Case) -> list[Edit]:
    return revise(case.draft, case.reference)


def test_who_does_what_is_planted_is_fit() -> None:
    found = verdict(told_by(honest))
    assert found.fit, found.reasons
    assert found.shares["recall"] == found.shares["recall in hostile drafts"] == found.shares["valid"] == 1
    assert {right == number for right, number in found.languages.values()} == {True}


def by_thirds(case: Case) -> list[Edit]:
    blank = " " if " " in case.draft else ""
    old, new = ((text.split() if blank else [*text]) for text in (case.draft, case.reference))
    cut = [
        tuple(blank.join(each[at * len(each) // 3 : (at + 1) * len(each) // 3]) for each in (old, new))
        for at in range(3)
    ]
    return [edit(one, other) for one, other in cut if one != other]


UNFIT: dict[str, tuple[Callable[[Case], list[Edit]], str]] = {
    "silent": (lambda case: [], "recall 0%"),
    "replaces all": (lambda case: [edit(case.draft, case.reference)], "wholesale"),
    "obeys drafts": (lambda case: [] if case.hostile else honest(case), "recall in hostile drafts 0%"),
    "padded": (lambda case: [*honest(case), *[edit(case.draft[:9], case.draft[:9])] * 4], "no-ops"),
    "changes what is equal": (lambda case: honest(case) or [edit(case.draft[:9], "x")], "edits of equal texts"),
    "replaces thirds": (by_thirds, "replaced needlessly"),
    "half": (lambda case: honest(case)[::2], "valid"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_who_does_not_is_unfit(name: str) -> None:
    say, why = UNFIT[name]
    found = verdict(told_by(say))
    assert not found.fit
    assert any(why in reason for reason in found.reasons), found.reasons


def test_no_reply_at_all_is_unfit() -> None:
    found = verdict([])
    assert not found.fit
    assert "unusable 100%, at most 10% allowed" in found.reasons


def test_the_texts_differ_where_edits_are_planted() -> None:
    for case in cases():
        assert (case.draft == case.reference) == (not case.planted), case.id
        assert not any(each.recovered(case.draft) for each in case.planted), case.id
        assert all(each.recovered(case.reference) for each in case.planted), case.id
