"""Audits: equal feedback on several aspects, texts on both sides, judges that are none, changes that are none."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from expertqa_tables import Home, filled

from longform.artifacts.rows import Row
from longform.engine.health import Gate
from schemas.llmcrit import CHANGED, CHECKS, DEMONSTRATIONS, PUBLISHED_FEEDBACK, TEXTS
from tasks.llmcrit.audits import AUDITS, OF_CHANGES, OF_DEMONSTRATIONS, OF_FEEDBACK
from tasks.publishing.audits import Audits, Finding, audit_version, rejected_by

SCHEMAS: dict[str, pa.Schema] = {
    "feedback": PUBLISHED_FEEDBACK, "demonstrations": DEMONSTRATIONS, "texts": TEXTS, "checks": CHECKS,
}  # fmt: skip
VERSION = Audits(version=AUDITS.version)
MODEL = {"model": "m", "response": "0f"}


def audited(path: Path, **tables: list[Row]) -> tuple[dict[str, list[Finding]], dict[str, Gate]]:
    """audit -> findings, audit -> gate, of a version with these tables; its files are divided in two."""
    home = Home(path)
    rows = {
        config: home.table(SCHEMAS[config], of[::2], of[1::2], keys=("jars/0-00000", "jars/0-00001"))
        for config, of in tables.items()
    }
    files = {config: {"jars": [Path(file) for file in of.paths]} for config, of in rows.items() if of.count}
    findings, gates = audit_version([], rows, files, VERSION, ())
    found = defaultdict(list)
    for each in findings:
        found[each.audit].append(each)
    return found, {gate.gate: gate for gate in gates}


def keys(findings: list[Finding]) -> set[str | None]:
    return {each.key for each in findings}


def feedback(key: str, aspect: str | None, text: str = "Say more of it.", **given: Any) -> Row:
    own = {"text_id": "jars/1", "strategy": "crit", "granularity": "aspect", "task": "jars", **MODEL}
    return filled(PUBLISHED_FEEDBACK, feedback_id=key, aspect_id=aspect, feedback=text, **own | given)


def test_the_same_feedback_on_several_aspects_of_a_text_is_found(tmp_path: Path) -> None:
    rows = [
        feedback("a", "one"), feedback("b", "two", "say  more\nof it. "), feedback("c", "three"),
        feedback("d", "four", "Say less of it."), feedback("e", "one", strategy="cricl"),
        feedback("f", "one", text_id="jars/2"), feedback("g", "two", model="other"), feedback("h", "three"),
    ]  # fmt: skip
    found, gates = audited(tmp_path, feedback=rows)
    assert keys(found["equal_feedback"]) == {"a", "b", "c", "h"}
    assert {each.what for each in found["equal_feedback"]} == {"the feedback of 3 aspects"}
    gate = gates["equal_feedback"]
    assert (gate.found, gate.checked, gate.is_above) == (4, 8, True)


BASE = {"aspect_id": None, "granularity": "text", "strategy": "base"}


@pytest.mark.parametrize("more", [{"aspect_id": "one"}, BASE, {"aspect_id": "two", "granularity": "criterion"}])
def test_other_feedback_that_is_equal_is_not_found(tmp_path: Path, more: Row) -> None:
    found, _ = audited(tmp_path, feedback=[feedback("a", "one"), {**feedback("b", "two"), **more}])
    assert found["equal_feedback"] == []


def test_one_equal_pair_in_fifty_is_let_through_and_told(tmp_path: Path) -> None:
    rows = [feedback(f"f{n}", f"aspect {n}", f"Say {max(n, 1)}.") for n in range(50)]
    found, gates = audited(tmp_path, feedback=rows)
    assert keys(found["equal_feedback"]) == {"f0", "f1"}
    assert not gates["equal_feedback"].is_above


def demonstration(key: str, text: str, text_id: str | None = None, task: str = "jars") -> Row:
    return filled(DEMONSTRATIONS, demonstration_id=key, input=text, output="Good.", text_id=text_id, task=task)


def of_test(key: str, text: str, original: str | None = None) -> Row:
    return filled(TEXTS, text_id=f"jars/{key}", task="jars", text=text, original=original)


def test_a_text_of_the_test_among_the_demonstrations_is_found_by_its_id_and_its_words(tmp_path: Path) -> None:
    rows = [
        demonstration("by_id", "Changed.", "jars/t1"),
        demonstration("by_words", "Plum\njam,  1999 ", None),
        demonstration("by_original", "FIG jam."),
        demonstration("other", "Pear jam.", "jars/t9"),
        demonstration("of another task", "Plum jam, 1999", task="lids"),
    ]
    found, gates = audited(
        tmp_path, demonstrations=rows, texts=[of_test("t1", "Plum jam, 1999"), of_test("t2", "Worse.", "Fig jam.")]
    )
    assert {each.key: each.what for each in found["text_on_both_sides"]} == {
        "by_id": "a text of the test: jars/t1",
        "by_words": "a text of the test: jars/t1",
        "by_original": "a text of the test: jars/t2",
    }
    gate = gates["text_on_both_sides"]
    assert (gate.found, gate.checked, gate.is_above) == (3, 5, True)


@pytest.mark.parametrize("lacking", ["demonstrations", "texts"])
def test_a_version_without_demonstrations_or_texts_has_none_on_both_sides(tmp_path: Path, lacking: str) -> None:
    tables = {"demonstrations": [demonstration("a", "Plum.")], "texts": [of_test("t", "Plum.")], lacking: []}
    found, gates = audited(tmp_path, **tables)
    assert found["text_on_both_sides"] == []
    assert ("text_on_both_sides" in gates) == (lacking != "demonstrations")


def checks(layer: str, planted: str, hits: int, of: int, **given: Any) -> list[Row]:
    own = {
        "layer": layer,
        "planted": planted,
        "task": "jars",
        "split": "jars",
        "model": "judge",
        "verdict": "said",
        **given,
    }
    names = (f"{layer}/{planted}/{own['task']}/{own['model']}/{n}" for n in range(of))
    return [filled(CHECKS, check_id=name, **own, hit=n < hits) for n, name in enumerate(names)]


LAYERS = [
    ("validity", "advice"), ("validity", "other text"), ("validity", "own"), ("context", "other text"),
    ("context", "own"), ("constructive", "praise"), ("constructive", "vague"), ("helpful", "vague"),
]  # fmt: skip
WRONG = [("validity", "advice"), ("context", "other text"), ("constructive", "praise"), ("helpful", "vague")]


def test_a_judge_that_says_yes_to_everything_is_found_in_each_layer_and_a_good_one_is_not(tmp_path: Path) -> None:
    always = [row for of in LAYERS for row in checks(*of, 0 if of in WRONG else 10, 10, model="always")]
    good = [row for of in LAYERS for row in checks(*of, 9, 10, model="good")]
    found, gates = audited(tmp_path, checks=always + good)
    assert keys(found["planted_feedback"]) == {
        f"{layer}/{planted}/jars/always/{n}" for layer, planted in WRONG for n in range(10)
    }
    assert "helpful: the judge of jars says said of planted feedback (vague), as of most of it" in {
        each.what for each in found["planted_feedback"]
    }
    assert gates["planted_feedback"].is_above
    found, gates = audited(tmp_path / "good", checks=good)
    assert found["planted_feedback"] == []
    assert not gates["planted_feedback"].is_above


@pytest.mark.parametrize(("hits", "of", "found"), [(0, 4, 0), (0, 5, 5), (2, 5, 3), (3, 5, 0), (5, 10, 0), (4, 10, 6)])
def test_a_judge_is_none_where_it_misses_more_than_half_of_five_or_more(
    tmp_path: Path, hits: int, of: int, found: int
) -> None:
    rows = checks("validity", "advice", hits, of) + checks("validity", "advice", 9, 9, task="lids")
    assert len(audited(tmp_path, checks=rows)[0]["planted_feedback"]) == found


PLUM, FIG = "The jar holds plums from the garden.", "A jar of figs, without a date or a name."
SAME = (PLUM, f"# {PLUM.upper()}\n")
OFFLINE = {"model": "offline-rules-1", "response": "0f"}


def changed(kind: int, text: str, original: str | None = PLUM, **made: Any) -> Row:
    return filled(CHANGED, change_id="x", kind=kind, text=text, original=original or "", **made or MODEL)


@pytest.mark.parametrize(
    ("kind", "text", "made", "audit"),
    [
        (1, FIG, MODEL, None),
        (4, FIG, MODEL, None),
        *((kind, text, made, "unchanged") for kind in (1, 2, 3) for text in SAME for made in (MODEL, OFFLINE)),
        (4, PLUM, OFFLINE, None),
        (4, PLUM, MODEL, None),
        (3, "I'm sorry, but I can't help with that.", MODEL, "refusal"),
        (3, "plums and plums " * 40, MODEL, "degenerate"),
    ],
)  # fmt: skip
def test_a_change_that_leaves_the_text_or_writes_none_is_found(
    kind: int, text: str, made: Row, audit: str | None
) -> None:
    found = rejected_by(changed(kind, text, **made), OF_CHANGES, "change_id")
    assert (found and (found.key, found.reason)) == (audit and ("x", f"audit: {audit}"))


def test_feedback_and_demonstrations_that_give_back_their_text_are_found() -> None:
    row = {"feedback_id": "f", "text": PLUM, "feedback": PLUM, "input": PLUM, "output": PLUM, **MODEL}
    for audits, key in ((OF_FEEDBACK, "feedback_id"), (OF_DEMONSTRATIONS, "feedback_id")):
        found = rejected_by(row, audits, key)
        assert found
        assert found.reason == "audit: degenerate"
        assert rejected_by({**row, "feedback": f"Say when. {FIG}", "output": f"Say when. {FIG}"}, audits, key) is None
