"""Edits and ratings of Revision Distance: what the model is asked, and what becomes of every draft and every reply."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from expertqa_tables import Home, kept
from revision_drafts import OFFLINE, SAID, Scripted, case, draft, over_http, rejected, run, texts
from standin_server import Server, serve, standin

from flows.config.prompts import PROMPTS
from longform.artifacts.rows import Rejected, Row, Rows
from longform.llm.ask.prompts import load_prompt
from longform.llm.ask.types import Endpoint, Failure, Request
from schemas.revision_distance import CASES, DRAFTS
from tasks.revision_distance.drafts.editing import propose_edits
from tasks.revision_distance.drafts.measure import edit_request
from tasks.revision_distance.drafts.scores import rate_drafts

__all__ = ["standin"]

TO_REFERENCE, FREELY, RATE = (
    load_prompt(f"revision_distance/{name}", PROMPTS) for name in ("edit_to_reference", "edit_freely", "rate")
)
EDITORS = {"to_reference": TO_REFERENCE, "freely": FREELY}
FIELDS = (
    "action_name",
    "revision_description",
    "revision_level",
    "revision_intention",
    "original_snippet",
    "revised_snippet",
    "preceding_snippet",
)
CASES_GIVEN = [case("easy/a"), case("free/c")]
DRAFTS_GIVEN = [draft("easy/a", "weak", "Dear members,\nthis is it."), draft("free/c", "chosen", "Roses.")]


def edit(*values: str | None) -> Row:
    return dict(zip(FIELDS, values, strict=True))


REMOVED = edit("remove", "Takes it out.", "word", "style", "very ", "", None)
MOVED = edit("move", 'Puts "it" first.', "sentence", "coherence", "B.", "B.", "")


def reply(*edits: Row) -> str:
    return f"{json.dumps({'edits': edits})}\n====="


def proposed(
    say: Callable[[Request], str | Failure], drafts: list[Row] | None = None, cases: list[Row] | None = None
) -> tuple[list[Any], Scripted]:
    spoken = Scripted(say)
    items = propose_edits.body(spoken, drafts or DRAFTS_GIVEN, cases or CASES_GIVEN, model=SAID, **EDITORS)
    return list(items), spoken


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def tables(home: Home) -> tuple[Rows, Rows]:
    return home.table(DRAFTS, DRAFTS_GIVEN), home.table(CASES, CASES_GIVEN)


# what is asked


def test_a_draft_is_edited_to_its_reference_and_without_one_towards_its_request() -> None:
    _, spoken = proposed(lambda _: reply())
    bound, free = spoken.requests
    assert bound.task == "revision_distance/edit_to_reference"
    assert texts(bound) == {"Draft": "Dear members,\nthis is it.", "Reference": CASES_GIVEN[0]["reference"]}
    assert free.task == "revision_distance/edit_freely"
    assert texts(free) == {"Request": CASES_GIVEN[1]["request"], "Draft": "Roses."}


def asked(draft: str, reference: str | None, request: str = "", model: Endpoint = SAID) -> Request:
    return edit_request(draft, reference, request, model, **EDITORS)


def test_draft_and_reference_are_never_cut_and_a_request_is_read_up_to_20_000_characters() -> None:
    long = "ab " * 100_000
    assert texts(asked(long, f"{long}c")) == {"Draft": long, "Reference": f"{long}c"}
    assert texts(asked(long, None, "r" * 20_001)) == {"Request": "r" * 20_000, "Draft": long}
    assert texts(asked("", "")) == {"Draft": "", "Reference": ""}


@pytest.mark.parametrize(
    ("characters", "tokens"), [(0, 4_096), (8_000, 4_096), (8_194, 4_097), (20_000, 10_000), (120_000, 16_384)]
)
def test_the_room_for_edits_grows_with_the_texts(characters: int, tokens: int) -> None:
    half = characters // 2
    assert asked("d" * half, "r" * (characters - half)).max_tokens == tokens
    assert asked("d" * characters, None, "not counted").max_tokens == tokens


def test_the_offline_editor_has_room_for_all_characters_as_often_as_it_may_quote_them() -> None:
    for characters in (0, 1_000, 200_000):
        assert asked("d" * characters, "r", "", OFFLINE).max_tokens * 4 >= max(32_768, 8 * characters)


@pytest.mark.parametrize("capabilities", [frozenset(), frozenset(["json_schema"])])
def test_edits_are_asked_for_as_one_json_object_in_either_form(capabilities: Any) -> None:
    request = asked("d", "r", model=Endpoint("a", "m", base_url="http://x/v1", capabilities=capabilities))
    assert request.form == ("json" if capabilities else "tags")
    assert "JSON object" in request.messages[1][1]


# what becomes of it


def test_edits_are_rows_as_the_model_listed_them() -> None:
    items, _ = proposed(lambda request: reply(REMOVED, MOVED, REMOVED) if "Reference" in texts(request) else reply())
    first, second = kept(items)
    assert first["edits"] == [REMOVED, MOVED, REMOVED]
    assert second["edits"] == []
    assert [(row["draft_id"], row["case_id"]) for row in (first, second)] == [
        ("d_easy/a/weak", "easy/a"),
        ("d_free/c/chosen", "free/c"),
    ]
    assert (first["prompt"], first["prompt_hash"]) == ("revision_distance/edit_to_reference", TO_REFERENCE.hash)
    assert (second["prompt"], second["prompt_hash"]) == ("revision_distance/edit_freely", FREELY.hash)
    assert first["edits_id"] != second["edits_id"]


def test_an_intention_that_is_none_of_ours_is_an_edit_all_the_same() -> None:
    items, _ = proposed(lambda _: reply({**REMOVED, "revision_intention": "Simplify"}))
    assert [edit["revision_intention"] for row in kept(items) for edit in row["edits"]] == ["other", "other"]


def test_a_draft_is_left_out_whole_where_it_would_have_to_be_cut() -> None:
    reference = "r" * 60_000
    cases = [case("easy/a", reference=reference), case("free/c")]
    long = [draft("easy/a", "weak", "d" * 60_001), draft("easy/a", "strong", "d" * 60_000)]
    longer = [draft("free/c", "chosen", "d" * 120_001), draft("free/c", "rejected", "d" * 120_000)]
    items, spoken = proposed(lambda _: reply(), [*long, *longer], cases)
    assert [row["draft_id"] for row in kept(items)] == ["d_easy/a/strong", "d_free/c/rejected"]
    assert [item for item in items if isinstance(item, Rejected)] == [
        Rejected(key, "filtered", "too long to revise", "120,001 characters with its reference, at most 120,000")
        for key in ("d_easy/a/weak", "d_free/c/chosen")
    ]
    assert len(spoken.requests) == 2


@pytest.mark.parametrize("kind", ["request", "filter", "refusal", "length", "whitespace", "invalid", "empty"])
def test_a_failure_is_a_rejected_draft_and_never_a_distance_of_zero(kind: Any) -> None:
    items, _ = proposed(lambda _: Failure(kind, "so it is", "k", {"text": "what was said"}))
    assert items == [
        Rejected(row["draft_id"], "defect", f"model: {kind}", "so it is", "what was said") for row in DRAFTS_GIVEN
    ]


def test_null_words_are_none_and_a_null_intention_is_another(home: Home) -> None:
    odd = {**REMOVED, "revised_snippet": None, "revision_intention": None}
    with serve(say=json.dumps({"edits": [odd]})) as server:
        made = run(home, propose_edits, *tables(home), model=over_http(server), **EDITORS)
    found = [edit for row in made for edit in row["edits"]]
    assert {(edit["revised_snippet"], edit["revision_intention"]) for edit in found} == {("", "other")}


@pytest.mark.parametrize(
    "said",
    [
        "The draft is fine as it is.\n=====",
        "=====",
        "{}\n=====",
        '{"edits": null}\n=====',
        '{"edits": [{"action_name": "remove"}]}\n=====',
        json.dumps({"edits": [{**REMOVED, "original_snippet": 7}]}),
        json.dumps({"edits": [{**REMOVED, "action_name": " "}]}),
        reply(REMOVED) + "\nNo, rather:\n" + reply(MOVED),
    ],
)
def test_an_unreadable_reply_rejects_the_draft_and_is_kept(home: Home, said: str) -> None:
    with serve(say=said) as server:
        made = run(home, propose_edits, *tables(home), model=over_http(server), **EDITORS)
    assert list(made) == []
    told = rejected(home, made)
    assert told.keys() == {row["draft_id"] for row in DRAFTS_GIVEN}
    assert {(row["kind"], row["reason"], row["raw"]) for row in told.values()} == {("defect", "model: invalid", said)}


@pytest.mark.parametrize("capabilities", [frozenset(), frozenset(["json_schema"])])
def test_edits_that_a_server_gives_are_read_in_either_form(home: Home, capabilities: Any) -> None:
    with serve(say=reply(REMOVED, MOVED)) as server:
        made = run(home, propose_edits, *tables(home), model=over_http(server, capabilities=capabilities), **EDITORS)
    assert [row["edits"] for row in made] == [[REMOVED, MOVED]] * 2
    assert home.rejected(made) == {}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("refusal", "model: refusal"),
        ("filtered", "model: filter"),
        ("length", "model: length"),
        ("context", "model: request"),
    ],
)
def test_faults_over_http_are_rejected_drafts(home: Home, fault: str, reason: str) -> None:
    with serve(say=reply(REMOVED)) as server:
        server.script([{"fault": fault}] * 9)
        made = run(home, propose_edits, *tables(home), model=over_http(server), **EDITORS)
    assert home.rejected(made) == {row["draft_id"]: reason for row in DRAFTS_GIVEN}


# offline


def proposed_offline(home: Home, draft_text: str, reference: str) -> Row:
    given = home.table(DRAFTS, [draft("easy/a", "weak", draft_text)])
    made = run(
        home, propose_edits, given, home.table(CASES, [case("easy/a", reference=reference)]), model=OFFLINE, **EDITORS
    )
    (row,) = list(made)
    return row


def test_offline_the_same_text_needs_no_edit_and_another_order_one(home: Home) -> None:
    text = "First, the pond was dug. Second, the reeds were planted. Third, the frogs came by themselves."
    swapped = "First, the pond was dug. Third, the frogs came by themselves. Second, the reeds were planted."
    assert proposed_offline(home, text, text)["edits"] == []
    assert [edit["action_name"] for edit in proposed_offline(home, swapped, text)["edits"]] == ["move"]


def test_offline_edits_of_thousands_of_short_sentences_are_not_cut_off(home: Home) -> None:
    sentences = [f"Go {number}." for number in range(2_000)]
    mixed = random.Random(1).sample(sentences, len(sentences))
    assert len(proposed_offline(home, " ".join(mixed), " ".join(sentences))["edits"]) > 1_000


def test_edits_of_an_answer_are_those_of_the_reply() -> None:
    spoken = Scripted(lambda _: reply(REMOVED, MOVED))
    ((_, answer),) = spoken.ask(SAID, [(None, asked("d", "r"))])
    assert not isinstance(answer, Failure)
    assert [edit.model_dump() for edit in answer.value.edits] == [REMOVED, MOVED]


# ratings


def rated(say: Callable[[Request], str | Failure], drafts: list[Row], cases: list[Row]) -> tuple[list[Any], Scripted]:
    spoken = Scripted(say)
    return list(rate_drafts.body(spoken, drafts, cases, model=SAID, prompt=RATE)), spoken


def test_a_draft_is_rated_beside_its_reference_and_is_null_without_one() -> None:
    items, spoken = rated(lambda _: "<score>88</score>\n=====", DRAFTS_GIVEN, CASES_GIVEN)
    scores = {row["draft_id"]: (row["gpt_score"], row["model"]) for row in kept(items)}
    assert scores == {"d_easy/a/weak": (88.0, "served"), "d_free/c/chosen": (None, None)}
    assert [texts(request) for request in spoken.requests] == [
        {
            "Request": CASES_GIVEN[0]["request"],
            "Reference": CASES_GIVEN[0]["reference"],
            "Draft": DRAFTS_GIVEN[0]["text"],
        }
    ]


def test_related_work_is_rated_by_what_a_writer_of_it_is_asked() -> None:
    _, spoken = rated(lambda _: "<score>0</score>\n=====", [draft("hard/b", "cot")], [case("hard/b")])
    asked = texts(spoken.requests[0])["Request"]
    assert "On hard/b\nWe sort hard/b." in asked
    assert "[2] Paper 2" in asked


def test_a_draft_that_would_have_to_be_cut_is_not_rated() -> None:
    given = [draft("easy/a", "weak", "d" * 120_000)]
    items, spoken = rated(lambda _: "<score>0</score>", given, [case("easy/a")])
    assert [(item.key, item.kind, item.reason) for item in items] == [("d_easy/a/weak", "filtered", "too long to rate")]
    assert spoken.requests == []


@pytest.mark.parametrize(
    "said", ["<score>101</score>", "<score>-1</score>", "<score>high</score>", "88", "<score></score>"]
)
def test_a_rating_off_the_scale_is_a_rejected_draft(home: Home, said: str) -> None:
    with serve(say=f"{said}\n=====") as server:
        made = run(home, rate_drafts, *tables(home), model=over_http(server), prompt=RATE)
    assert [(row["draft_id"], row["gpt_score"]) for row in made] == [("d_free/c/chosen", None)]
    assert home.rejected(made) == {"d_easy/a/weak": "model: invalid"}


def test_without_a_model_no_draft_is_rated(home: Home) -> None:
    made = run(home, rate_drafts, *tables(home), model=None, prompt=None)
    assert [(row["draft_id"], row["gpt_score"]) for row in made] == [(row["draft_id"], None) for row in DRAFTS_GIVEN]


@pytest.mark.parametrize("capabilities", [frozenset(), frozenset(["json_schema"])])
def test_ratings_over_http_are_those_of_the_offline_model(home: Home, standin: Server, capabilities: Any) -> None:
    own = run(home, rate_drafts, *tables(home), model=OFFLINE, prompt=RATE)
    asked = run(home, rate_drafts, *tables(home), model=over_http(standin, capabilities=capabilities), prompt=RATE)
    assert [row["gpt_score"] for row in own] == [row["gpt_score"] for row in asked]
    assert all(row["gpt_score"] is None or 0 <= row["gpt_score"] <= 100 for row in own)


@pytest.mark.parametrize(
    ("said", "kept", "lost"),
    [
        ('{"edits": [' + json.dumps(REMOVED), [REMOVED], 1),
        ('{"edits": [' + json.dumps(REMOVED) + ", " + json.dumps(MOVED)[:50], [REMOVED], 1),
        (reply(REMOVED, {**MOVED, "original_snippet": 7}), [REMOVED], 1),
        (reply({**REMOVED, "action_name": " "}, MOVED), [MOVED], 1),
        (reply(REMOVED).replace("}]}", ", }, ") + json.dumps(MOVED) + "]}", [MOVED], 1),
        (json.dumps([REMOVED, MOVED]), [REMOVED, MOVED], 0),
        (reply({**REMOVED, "confidence": 0.9}, MOVED), [REMOVED, MOVED], 0),
    ],
)
def test_edits_that_can_be_read_are_kept_and_the_others_counted(
    home: Home, said: str, kept: list[Row], lost: int
) -> None:
    with serve(say=said) as server:
        made = run(home, propose_edits, *tables(home), model=over_http(server), **EDITORS)
    assert [(row["edits"], row["lost_edits"]) for row in made] == [(kept, lost)] * 2
    assert home.rejected(made) == {}
