"""Criteria: what a model lists for an aspect, and which of several that say the same is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from expertqa_tables import Home, filled, kept, refused
from hypothesis import given
from hypothesis import strategies as st
from revision_drafts import OFFLINE, SAID, Scripted, rejected, run, texts

from flows.config.prompts import PROMPTS
from longform.artifacts.rows import Rejected, Row
from longform.llm.ask.prompts import load_prompt
from longform.llm.ask.types import Endpoint, Failure
from schemas.llmcrit import ASPECTS, CRITERIA
from tasks.answers import NO_MODEL
from tasks.llmcrit.criteria.criteria import criterion_rows, distinct_criteria, label, propose_criteria, shown

PROMPT = load_prompt("llmcrit/propose_criteria", PROMPTS)
VOICES = {"jars": {"noun": "label of a jar", "role": "a cook"}}
END = "\n====="


def aspect(key: str, guideline: str = "Say what is in the jar.") -> Row:
    return filled(ASPECTS, aspect_id=f"jars/{key}", task="jars", position=1, name=key.title(), guideline=guideline)


def criterion(check: str, key: str = "", **given: Any) -> Row:
    key = key or check
    return filled(CRITERIA, criterion_id=key, check=check, **{"task": "jars", "aspect_id": "jars/labels", **given})


# ---------------------------------------------------------------- rows


def test_rows_of_criteria_have_each_criterion_once_and_a_place_from_1() -> None:
    listed = [("Fruit", "Is it named?"), ("", "Is it dated?"), ("Fruit", "Is it named?"), ("Lid", "")]
    rows = list(criterion_rows(aspect("labels"), listed, {**NO_MODEL, "model": "m"}))
    assert [(row["position"], row["name"], row["check"]) for row in rows] == [
        (1, "Fruit", "Is it named?"),
        (2, "", "Is it dated?"),
        (3, "Lid", "Lid"),
    ]
    assert {(row["aspect_id"], row["task"], row["state"], row["reviewers"], row["model"]) for row in rows} == {
        ("jars/labels", "jars", "proposed", 0, "m")
    }
    assert [set(row) for row in rows] == [set(CRITERIA.names)] * 3


PAIRS = st.lists(st.tuples(st.text(max_size=3), st.text(min_size=1, max_size=3)), max_size=5)


@given(PAIRS, PAIRS)
def test_ids_of_criteria_are_equal_where_aspect_name_and_check_are(one: list[Any], other: list[Any]) -> None:
    ids = [
        {(key, name, check): row["criterion_id"] for (name, check), row in zip(dict.fromkeys(pairs), rows, strict=True)}
        for key, pairs in (("a", one), ("b", other), ("a", other))
        for rows in [list(criterion_rows(aspect(key), pairs, NO_MODEL))]
    ]
    everything = {**ids[0], **ids[1], **ids[2]}
    assert all(everything[key] == value for of in ids for key, value in of.items())
    assert len(set(everything.values())) == len(everything)


def test_a_criterion_is_shown_with_its_name_in_bold_and_labelled_by_it_where_it_has_one() -> None:
    named, bare = {"name": "Fruit", "check": "Is it named?"}, {"name": "", "check": "Is it dated?"}
    assert [(shown(each), label(each)) for each in (named, bare)] == [
        ("**Fruit**: Is it named?", "Fruit"),
        ("Is it dated?", "Is it dated?"),
    ]


# ---------------------------------------------------------------- proposed


def proposed(
    reply: str | Failure, *aspects: Row, model: Endpoint = SAID
) -> tuple[list[Row], list[tuple[str, str]], Scripted]:
    spoken = Scripted(lambda _: reply)
    items = list(propose_criteria.body(spoken, aspects, model=model, prompt=PROMPT, voices=VOICES))
    return kept(items), refused(items), spoken


def test_criteria_are_proposed_from_the_guideline_alone() -> None:
    reply = "Here they are:\n\n1. **Fruit**: Is it named?\n2. **Date**: Is there one?\n\nThat is all." + END
    rows, left_out, spoken = proposed(reply, aspect("labels"), aspect("lids", "Close the jar."))
    assert [texts(request) for request in spoken.requests] == [
        {"What is written": "label of a jar", "Section of the guideline": guideline}
        for guideline in ("Say what is in the jar.", "Close the jar.")
    ]
    assert [(row["aspect_id"], row["position"], row["name"], row["check"]) for row in rows] == [
        (f"jars/{key}", *each)
        for key in ("labels", "lids")
        for each in ((1, "Fruit", "Is it named?"), (2, "Date", "Is there one?"))
    ]
    assert {(row["prompt"], row["endpoint"], row["model"]) for row in rows} == {(PROMPT.name, SAID.name, "served")}
    assert not left_out


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("There is nothing in this section that can be checked in a label of a jar." + END, "model: invalid"),
        (Failure("refusal", "declined", "k"), "model: refusal"),
    ],
)
def test_an_aspect_without_a_usable_list_is_rejected_with_its_id(reply: str | Failure, reason: str) -> None:
    assert proposed(reply, aspect("labels"))[:2] == ([], [("jars/labels", reason)])


def test_of_a_list_without_an_end_the_first_fifty_criteria_are_taken() -> None:
    reply = "\n".join(f"{n}. **Name {n}**: Is it {n}?" for n in range(1, 71)) + END
    rows, _, _ = proposed(reply, aspect("labels"))
    assert [row["check"] for row in rows] == [f"Is it {n}?" for n in range(1, 51)]


def test_an_aspect_that_is_longer_than_the_window_is_rejected_and_the_others_are_asked() -> None:
    model = Endpoint("small", "m", base_url="http://127.0.0.1:1/v1", window=3_500)
    long = aspect("long", "Say what is in the jar. " * 1_000)
    rows, left_out, spoken = proposed("1. **Fruit**: Is it named?" + END, long, aspect("short"), model=model)
    assert [row["aspect_id"] for row in rows] == ["jars/short"]
    assert left_out == [("jars/long", "longer than the endpoint's window")]
    assert len(spoken.requests) == 1


def test_the_offline_model_proposes_a_criterion_for_each_bullet_of_a_guideline(tmp_path: Path) -> None:
    home = Home(tmp_path)
    guideline = "## Labels\n\n- **Fruit.** Name the fruit.\n- **Date.** Give the day of filling.\n- Write by hand."
    rows = list(
        run(home, propose_criteria, home.table(ASPECTS, [aspect("labels", guideline)]),
            model=OFFLINE, prompt=PROMPT, voices=VOICES)
    )  # fmt: skip
    assert [row["position"] for row in rows] == [1, 2, 3]
    assert [row["name"] for row in rows[:2]] == ["Fruit", "Date"]
    assert ["fruit" in rows[0]["check"], "filling" in rows[1]["check"], "hand" in rows[2]["check"]] == [True] * 3


# ---------------------------------------------------------------- distinct


def distinct(path: Path, rows: list[Row], released: list[Row] | None = None, similar: float = 0.8) -> Any:
    """(ids that are kept, in order; id that is left out -> detail)."""
    home = Home(path)
    made = run(
        home, distinct_criteria, home.table(CRITERIA, rows), home.table(CRITERIA, released or []), similar=similar
    )
    return [row["criterion_id"] for row in made], {key: row["detail"] for key, row in rejected(home, made).items()}


@pytest.mark.parametrize(
    ("other", "similar", "same"),
    [
        ("Is the fruit NAMED?", 0.8, True),
        ("named, the fruit is", 1.0, True),
        ("Is the fruit named there?", 0.8, True),  # 4 of 5 words
        ("Is the fruit named there?", 0.81, False),
        ("Is the fruit named there too?", 0.8, False),
        ("Is the fruit is the fruit named?", 1.0, True),
        ("Is the fruit?", 0.75, True),
        ("Ist die Frucht genannt?", 0.1, False),
    ],
)  # fmt: skip
def test_a_criterion_is_a_duplicate_from_the_share_of_common_words_on(
    tmp_path: Path, other: str, similar: float, same: bool
) -> None:
    rows = [criterion("Is the fruit named?", "one", name="Fruit"), criterion(other, "other", name="Other")]
    found = distinct(tmp_path, rows, similar=similar)
    detail = {"other": "**Fruit**: Is the fruit named?"} if same else {}
    assert found == (["one"] if same else ["one", "other"], detail)


def test_criteria_of_other_tasks_and_imported_ones_are_no_duplicates(tmp_path: Path) -> None:
    same = {"check": "Is the fruit named?"}
    rows = [criterion(key="a", **same), criterion(key="b", task="lids", aspect_id="lids/x", **same)]
    released = [criterion(key=key, task="jars", **same) for key in ("c", "d")]
    assert distinct(tmp_path, rows, released) == (["a", "b", "c", "d"], {})
    later = [criterion(key="a", **same), criterion(key="e", aspect_id="jars/other", **same)]
    assert distinct(tmp_path / "later", later) == (["a"], {"e": "Is the fruit named?"})


@given(st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5).map(" ".join), max_size=8))
def test_those_kept_differ_and_each_left_out_is_like_an_earlier_one(checks: list[str]) -> None:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.metrics import pairwise_distances

    rows = [criterion(check, f"c{n}") for n, check in enumerate(checks)]
    items = list(distinct_criteria.body(None, rows, [], similar=0.5))
    assert [item.key if isinstance(item, Rejected) else item["criterion_id"] for item in items] == [
        row["criterion_id"] for row in rows
    ]
    if checks:
        seen = CountVectorizer(token_pattern=r"\w+", binary=True).fit_transform(checks).toarray().astype(bool)
        alike = 1 - pairwise_distances(seen, metric="jaccard") >= 0.5 - 1e-9
        stays = [at for at, item in enumerate(items) if not isinstance(item, Rejected)]
        for at in range(len(checks)):
            assert any(alike[at, before] for before in stays if before < at) is (at not in stays)
