"""Checks and drafts of Revision Distance: who is asked what, and what becomes of every case and every reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from expertqa_tables import Home, filled, kept, refused
from hypothesis import given
from hypothesis import strategies as st
from revision_drafts import (
    OFFLINE,
    SAID,
    Scripted,
    case,
    cited,
    draft,
    draft_given,
    over_http,
    rejected,
    run,
    texts,
)
from standin_server import Server, serve, standin

from flows.config.prompts import PROMPTS
from longform.artifacts.rows import Rejected, Row, Rows
from longform.engine.jobs import jobs_of, walk
from longform.errors import ConservationError
from longform.llm.ask.prompts import load_prompt
from longform.llm.ask.types import Endpoint, Failure, Request
from schemas.revision_distance import CANDIDATES, CASES, DRAFTS, KNOWLEDGE, SEGMENTS
from tasks.revision_distance.cases.draws import check_requests
from tasks.revision_distance.drafts.drafting import (
    PERSPECTIVES,
    collect_drafts,
    paper_text,
    recall_knowledge,
    request_of,
    take_given,
    write_cot,
    write_segments,
    write_strong,
    write_vanilla,
    write_weak,
)

__all__ = ["standin"]

NAMES = ("check_request", "write", "related_vanilla", "recall", "segment", "related_cot")
PROMPT = {name: load_prompt(f"revision_distance/{name}", PROMPTS) for name in NAMES}
ALL = list(PERSPECTIVES)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


MIXED = [case("easy/a"), case("hard/b"), case("free/c"), case("structure/d"), case("easy/e"), case("hard/f")]


def cases(home: Home, *parts: Sequence[Row]) -> Rows:
    return home.table(CASES, *(parts or (MIXED,)))


def stages(home: Home, given: Rows, model: Endpoint = OFFLINE) -> dict[str, Rows]:
    """All stages of drafts, one after the other."""
    made = {
        "weak": run(home, write_weak, given, model=model, prompt=PROMPT["write"]),
        "strong": run(home, write_strong, given, model=model, prompt=PROMPT["write"]),
        "vanilla": run(home, write_vanilla, given, model=model, prompt=PROMPT["related_vanilla"]),
        "knowledge": run(home, recall_knowledge, given, model=model, prompt=PROMPT["recall"]),
    }
    known = made["knowledge"]
    made["segments"] = run(home, write_segments, given, known, model=model, prompt=PROMPT["segment"], perspectives=ALL)
    made["cot"] = run(home, write_cot, given, known, made["segments"], model=model, prompt=PROMPT["related_cot"])
    made["given"] = run(home, take_given, given)
    sources = [made[name] for name in ("weak", "strong", "vanilla", "cot", "given")]
    return made | {"drafts": run(home, collect_drafts, given, *sources)}


# whether it is a writing request


def checks(asked: Sequence[Row], say: Callable[[Request], str | Failure]) -> tuple[list[Any], Scripted]:
    spoken = Scripted(say)
    items = check_requests.body(spoken, asked, model=SAID, prompt=PROMPT["check_request"])
    return list(items), spoken


def test_requests_of_conversations_and_preferences_are_checked_and_related_work_is_not() -> None:
    items, spoken = checks(MIXED, lambda request: "<verdict>yes</verdict><kind>letter</kind>\n=====")
    rows = {row["case_id"]: row for row in kept(items)}
    assert rows.keys() == {row["case_id"] for row in MIXED}
    for key, row in rows.items():
        asked = key.startswith(("easy", "free"))
        assert (row["checked"], row["checked_kind"]) == (("yes", "letter") if asked else (None, None))
        assert (row["model"], row["endpoint"]) == (("served", "somewhere") if asked else (None, None))
    assert [texts(request) for request in spoken.requests] == [
        {"Message": row["request"]} for row in MIXED if row["task"] in ("easy", "free")
    ]
    assert len({row["check_id"] for row in rows.values()}) == len(rows)


def test_a_message_is_read_up_to_20_000_characters() -> None:
    _, spoken = checks([case("easy/long", request="a" * 20_001)], lambda _: Failure("refusal", "no", "k"))
    assert texts(spoken.requests[0])["Message"] == "a" * 20_000


def test_a_check_that_fails_is_a_rejected_candidate() -> None:
    items, _ = checks([case("easy/a")], lambda _: Failure("invalid", "no verdict", "k", {"text": "Well."}))
    assert items == [Rejected("easy/a", "defect", "model: invalid", detail="no verdict", raw="Well.")]


def test_without_a_model_nothing_is_checked(home: Home) -> None:
    candidates = [{name: row[name] for name in CANDIDATES.names} for row in MIXED]
    made = run(home, check_requests, home.table(CANDIDATES, candidates), model=None, prompt=None)
    assert [(row["case_id"], row["checked"], row["response"]) for row in made] == [
        (row["case_id"], None, None) for row in MIXED
    ]


# easy writing


def test_only_cases_of_its_task_are_written_and_others_are_passed_over() -> None:
    for work, system in ((write_weak, "weak"), (write_strong, "strong")):
        spoken = Scripted(lambda request: f"Dear all,\n\n{len(request.messages)}\n=====")
        items = list(work.body(spoken, MIXED, model=SAID, prompt=PROMPT["write"]))
        rows = kept(items)
        assert [(row["case_id"], row["system"], row["task"]) for row in rows] == [
            ("easy/a", system, "easy"),
            ("easy/e", system, "easy"),
        ]
        assert {row["text"] for row in rows} == {"Dear all,\n\n2"}
        assert (rows[0]["model"], rows[0]["writer"], rows[0]["prompt"]) == ("served", None, "revision_distance/write")
        assert refused(items) == []
        assert [texts(request) for request in spoken.requests] == [
            {"Writing task": MIXED[0]["request"]},
            {"Writing task": MIXED[4]["request"]},
        ]
        assert {request.max_tokens for request in spoken.requests} == {4_096}  # table 4


@pytest.mark.parametrize(
    ("reply", "reason", "raw"),
    [
        ("Dear all, I", "model: length", "Dear all, I"),
        (" \n=====", "model: empty", " \n====="),
        (Failure("filter", "held back", "k"), "model: filter", None),
        (Failure("length", "too long", "k", {"text": "Dear"}), "model: length", "Dear"),
    ],
)
def test_a_reply_that_is_no_draft_rejects_the_case_and_is_kept(
    reply: str | Failure, reason: str, raw: str | None
) -> None:
    asked = (
        (write_weak, "write", case("easy/a")),
        (write_vanilla, "related_vanilla", case("hard/b")),
        (recall_knowledge, "recall", case("hard/b")),
    )
    for work, name, one in asked:
        (item,) = work.body(Scripted(lambda _: reply), [one], model=SAID, prompt=PROMPT[name])
        assert (item.key, item.kind, item.reason, item.raw) == (one["case_id"], "defect", reason, raw)


# related work


def test_a_paragraph_is_written_from_the_titles_and_abstracts_in_the_order_of_the_citations() -> None:
    papers = [cited(3), cited(1, abstract=None), cited(2, title=" Two \n lines "), cited(4, title=None, abstract=None)]
    spoken = Scripted(lambda _: "So.\n=====")
    items = write_vanilla.body(spoken, [case("hard/b", cited=papers)], model=SAID, prompt=PROMPT["related_vanilla"])
    assert [row["system"] for row in kept(items)] == ["vanilla"]
    assert texts(spoken.requests[0]) == {
        "Own paper": "On hard/b\nWe sort hard/b.",
        "Cited paper 1": "Paper 3\nIt is about 3 things.",
        "Cited paper 2": "Paper 1",
        "Cited paper 3": "Two lines\nIt is about 2 things.",
        "Cited paper 4": "",
    }


def test_very_long_papers_and_very_many_are_cut_to_what_is_documented() -> None:
    text = paper_text({"title": "t" * 999, "abstract": "a" * 9_999})
    assert text == "t" * 500 + "\n" + "a" * 4_000
    spoken = Scripted(lambda _: "So.\n=====")
    given = [case("hard/b", cited=[cited(number) for number in range(99)])]
    list(write_vanilla.body(spoken, given, model=SAID, prompt=PROMPT["related_vanilla"]))
    assert len(texts(spoken.requests[0])) == 1 + 60


def knowledge(key: str, text: str = "It is known.") -> Row:
    return filled(KNOWLEDGE, knowledge_id=f"k_{key}", case_id=key, text=text)


def segment(key: str, perspective: str, text: str) -> Row:
    return filled(SEGMENTS, segment_id=f"{key}/{perspective}", case_id=key, perspective=perspective, text=text)


def segments_of(given: list[Row], known: list[Row], say: Callable[[Request], str | Failure]) -> tuple[Any, Scripted]:
    spoken = Scripted(say)
    arguments = {"model": SAID, "prompt": PROMPT["segment"], "perspectives": ALL}
    return list(write_segments.body(spoken, given, known, **arguments)), spoken


def test_a_case_has_a_segment_of_each_perspective_with_what_was_recalled() -> None:
    items, spoken = segments_of(MIXED, [knowledge("hard/b"), knowledge("hard/f")], lambda _: "So.\n=====")
    assert ALL == ["problems", "methods", "history"]
    assert [(row["case_id"], row["perspective"]) for row in kept(items)] == [
        (key, name) for key in ("hard/b", "hard/f") for name in ALL
    ]
    assert len({row["segment_id"] for row in kept(items)}) == 6
    assert refused(items) == []
    asked = [texts(request) for request in spoken.requests]
    assert [each["Perspective"] for each in asked] == [PERSPECTIVES[name] for name in ALL] * 2
    assert {each["Knowledge"] for each in asked} == {"It is known."}


def test_a_segment_that_fails_rejects_its_case_and_no_other() -> None:
    def say(request: Request) -> str | Failure:
        fails = "hard/b" in texts(request)["Own paper"] and texts(request)["Perspective"] == PERSPECTIVES["methods"]
        return Failure("refusal", "I will not", "k", {"text": "No."}) if fails else "So.\n====="

    items, _ = segments_of([MIXED[1], MIXED[5]], [knowledge("hard/b"), knowledge("hard/f")], say)
    assert [row["case_id"] for row in kept(items)] == ["hard/f"] * 3
    (left,) = [item for item in items if isinstance(item, Rejected)]
    assert (left.key, left.reason, left.detail, left.raw) == (
        "hard/b",
        "model: refusal",
        "methods: I will not",
        "No.",
    )


def test_a_step_without_the_one_before_it_is_not_asked() -> None:
    items, spoken = segments_of([MIXED[1], MIXED[5]], [knowledge("hard/f")], lambda _: "So.\n=====")
    assert refused(items) == [("hard/b", "no knowledge")]
    assert len(spoken.requests) == 3
    spoken = Scripted(lambda _: "So.\n=====")
    known, parts = [knowledge("hard/b"), knowledge("hard/f")], [segment("hard/f", "history", "It began.")]
    items = list(write_cot.body(spoken, MIXED, known, parts, model=SAID, prompt=PROMPT["related_cot"]))
    assert ("hard/b", "no segments") in refused(items)
    assert [row["case_id"] for row in kept(items)] == ["hard/f"]
    items = list(write_cot.body(spoken, [MIXED[1]], [], [], model=SAID, prompt=PROMPT["related_cot"]))
    assert refused(items) == [("hard/b", "no knowledge")]


def test_a_paragraph_in_steps_is_asked_for_with_all_that_was_made_for_it() -> None:
    parts = [segment("hard/f", name, f"Text on {name}.") for name in ALL] + [segment("hard/b", "history", "Other.")]
    known = [knowledge("hard/b", "b is old."), knowledge("hard/f", "f is new.")]
    spoken = Scripted(lambda _: "So.\n=====")
    items = list(write_cot.body(spoken, [MIXED[5]], known, parts, model=SAID, prompt=PROMPT["related_cot"]))
    assert [(row["case_id"], row["system"]) for row in kept(items)] == [("hard/f", "cot")]
    assert texts(spoken.requests[0]) == {
        "Own paper": "On hard/f\nWe sort hard/f.",
        "Cited paper 1": "Paper 1\nIt is about 1 things.",
        "Cited paper 2": "Paper 2\nIt is about 2 things.",
        "Knowledge": "f is new.",
        "Segment 1": "Text on problems.",
        "Segment 2": "Text on methods.",
        "Segment 3": "Text on history.",
    }


def test_a_plan_counts_three_segments_a_case(home: Home) -> None:
    known = home.table(KNOWLEDGE, [knowledge("hard/b"), knowledge("hard/f")])
    inputs = {"cases": cases(home), "knowledge": known}
    arguments = {"model": OFFLINE, "prompt": PROMPT["segment"], "perspectives": ALL}
    (job,) = jobs_of(home.store, write_segments.called(home.store, inputs, arguments))
    requests: list[Request] = []
    walk(home.store, write_segments, job, lambda _, request, item: requests.append(request), lambda *_: None)
    assert [request.task for request in requests] == ["revision_distance/segment"] * 6


def test_what_a_writer_of_related_work_was_asked_names_the_papers() -> None:
    asked = request_of(MIXED[1])
    assert "On hard/b\nWe sort hard/b." in asked
    assert asked.endswith("[1] Paper 1\n[2] Paper 2")
    assert request_of(MIXED[0]) == MIXED[0]["request"]
    assert request_of(MIXED[3]) == ""


# given, and all of them


def test_drafts_of_the_source_data_are_kept_unchanged_with_their_writers() -> None:
    strange = case("free/x", given=[draft_given("chosen", "\n a \n", writer="w"), draft_given("rejected", " \n")])
    items = list(take_given.body(None, [*MIXED, strange, case("free/y", given=[])]))
    shown = [(row["case_id"], row["system"], row["text"], row["writer"], row["model"]) for row in kept(items)]
    assert shown == [
        ("free/c", "chosen", "Roses.", "a", None),
        ("free/c", "rejected", "Weeds.", "b", None),
        ("structure/d", "reordered", "B. A.", None, None),
        ("free/x", "chosen", "\n a \n", "w", None),
    ]
    assert refused(items) == [
        ("free/x", "the given draft is empty"),
        ("free/y", "no draft given"),
    ]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["weak", "strong", "cot"])), unique=True))
def test_all_drafts_are_collected_in_the_order_of_cases_and_of_systems(pairs: list[tuple[str, str]]) -> None:
    order = ["weak", "strong", "vanilla", "cot", "given"]
    sources = [[draft(f"easy/{key}", system) for key, system in pairs if system == name] for name in order]
    given = [case(f"easy/{key}") for key in "cab"]
    items = list(collect_drafts.body(None, given, *sources))
    places = [("cab".index(row["case_id"][-1]), order.index(row["system"])) for row in kept(items)]
    assert places == sorted(("cab".index(key), order.index(system)) for key, system in pairs)
    assert {key for key, _ in refused(items)} == {f"easy/{key}" for key in "abc"} - {f"easy/{key}" for key, _ in pairs}


def test_a_draft_of_no_case_is_not_lost_silently(home: Home) -> None:
    sources = [home.table(DRAFTS, rows) for rows in ([draft("easy/zz", "weak")], [], [], [], [])]
    with pytest.raises(ConservationError, match="d_easy/zz/weak"):
        run(home, collect_drafts, cases(home, [case("easy/a")]), *sources)


# all stages, as a build runs them


def test_all_drafts_are_made_offline_in_parts_and_the_same_bytes_again(tmp_path: Path) -> None:
    digests = []
    for name in ("one", "two"):
        home = Home(tmp_path / name)
        made = stages(home, cases(home, MIXED[:3], MIXED[3:], [case("free/none", given=[])]))
        found = [(row["case_id"], row["system"]) for row in made["drafts"]]
        assert found == [
            ("easy/a", "weak"),
            ("easy/a", "strong"),
            ("hard/b", "vanilla"),
            ("hard/b", "cot"),
            ("free/c", "chosen"),
            ("free/c", "rejected"),
            ("structure/d", "reordered"),
            ("easy/e", "weak"),
            ("easy/e", "strong"),
            ("hard/f", "vanilla"),
            ("hard/f", "cot"),
        ]
        assert home.rejected(made["drafts"]) == {"free/none": "no draft"}
        assert len({row["draft_id"] for row in made["drafts"]}) == len(found)
        assert all(row["text"].strip() and "=====" not in row["text"] for row in made["drafts"])
        digests.append([part.sha256 for part in made["drafts"].parts or ()])
    assert digests[0] == digests[1]


def test_drafts_over_http_are_those_of_the_offline_model_and_paid_for_once(home: Home, standin: Server) -> None:
    own = [row["text"] for row in stages(home, cases(home))["drafts"] if row["case_id"] != "hard/f"]
    for _ in range(2):
        asked = list(stages(home, cases(home), over_http(standin))["drafts"])
        assert [row["text"] for row in asked] == own  # hard/f cites as hard/b does: its drafts only repeat others
    counters = standin.counters()
    assert counters["answered_bodies"] == 2 + 2 + 2 + 2 * 3 + 1  # weak and strong ask the same; hard/f has no segments
    assert counters["repeated"] == {}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("refusal", "model: refusal"), ("filtered", "model: filter"), ("length", "model: length")],
)
def test_faults_over_http_are_rejected_cases(home: Home, standin: Server, fault: str, reason: str) -> None:
    standin.script([{"fault": fault}] * 9)
    made = run(home, write_weak, cases(home), model=over_http(standin), prompt=PROMPT["write"])
    assert list(made) == []
    found = {key: row["reason"] for key, row in rejected(home, made).items()}
    assert {found["easy/a"], found["easy/e"]} == {reason}


@pytest.mark.parametrize(("said", "reason"), [("Dear members,", "model: length"), ("\n=====\n", "model: empty")])
def test_what_a_model_says_without_an_end_or_a_text_is_kept_with_the_rejected_case(
    home: Home, said: str, reason: str
) -> None:
    with serve(say=said) as server:
        made = run(home, write_weak, cases(home), model=over_http(server), prompt=PROMPT["write"])
    assert list(made) == []
    told = rejected(home, made)["easy/a"]
    assert (told["reason"], told["raw"]) == (reason, said)


@pytest.mark.parametrize("capabilities", [frozenset(), frozenset(["json_schema"])])
def test_a_check_over_http_in_either_form(home: Home, standin: Server, capabilities: Any) -> None:
    candidates = home.table(CANDIDATES, [{name: row[name] for name in CANDIDATES.names} for row in MIXED])
    asked = {
        model.name: [(row["case_id"], row["checked"], row["checked_kind"]) for row in made]
        for model in (OFFLINE, over_http(standin, capabilities=capabilities))
        for made in [run(home, check_requests, candidates, model=model, prompt=PROMPT["check_request"])]
    }
    assert asked["offline"] == asked["mine"]
    assert {verdict for key, verdict, _ in asked["mine"] if key.startswith(("easy", "free"))} <= {"yes", "no"}
