"""The answering systems: who is asked what, what becomes of the replies, and that no answer is lost on the way."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from expertqa_tables import Home, answer, filled, question
from hypothesis import given
from hypothesis import strategies as st
from offline_rules import RULES
from standin_server import Server, serve, standin

from flows.config.prompts import PROMPTS
from longform.artifacts.rows import AllRows, Rejected, Row, Rows
from longform.engine.jobs import execute, jobs_of, walk
from longform.engine.stage import Stage
from longform.llm.ask.prompts import load_prompt
from longform.llm.ask.types import Endpoint
from longform.llm.offline import MODEL
from schemas.expertqa import ANSWERS, FOUND_FOR_QUESTIONS, PASSAGE, POST_HOC, QUESTIONS
from tasks.expertqa.answers.answers import (
    SYSTEMS,
    answer_post_hoc,
    collect_answers,
    collected,
    flaw_of_reading,
    write_closed_book,
    write_from_passages,
)

__all__ = ["standin"]

OFFLINE = Endpoint("offline", MODEL)
READERS = ["rr_sphere_gpt4", "rr_gs_gpt4"]
MEMORY, READING = (load_prompt(f"expertqa/{name}", PROMPTS) for name in ("closed_book", "from_passages"))
ASKED = [
    question("copper", "Why does copper turn green on a roof?"),
    question("released", answers='{"gpt4": {"answer_string": "So."}}', source="released"),
    question("clay", "How deep is a foundation on clay soil?"),
    question("nothing", "Which vaccine is given first?"),
]


def passage(corpus: str, name: str, text: str) -> Row:
    given = {"corpus": corpus, "passage_id": name, "url": f"https://example.org/{name}", "text": text, "title": name}
    return filled(PASSAGE, **given)


COPPER = passage("sphere", "s1", "On a roof copper turns green within some years.")
SALT = passage("gs", "g1", "Sea salt lets copper turn green sooner than usual.")
RAIN = passage("gs", "g2", "Rain is wet. Rain on a roof is acid where coal is burned near it.")
FOUND = {"copper": [COPPER, SALT, RAIN], "released": [COPPER], "clay": [passage("gs", "g3", "Clay?")], "nothing": []}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def run(home: Home, work: Stage, *given: Any, **arguments: Any) -> Rows:
    """The rows of a stage, made as a build makes them, with models of its own that are closed."""
    inputs = dict(zip(work.inputs, given, strict=True))
    recipe = work.recipe(inputs, arguments)
    jobs = jobs_of(home.store, work.called(home.store, inputs, arguments))
    parts = [part for job in jobs for part in execute(replace(job, offline=RULES))]
    return Rows(home.store, work.schema, work.name, recipe.fingerprint, parts)


def questions(home: Home, *parts: list[Row]) -> Rows:
    return home.table(QUESTIONS, *(parts or (ASKED,)))


def found(home: Home, *parts: list[Row]) -> Rows:
    rows = [
        [{"question_id": row["question_id"], "passages": FOUND[row["question_id"][9:]]} for row in part]
        for part in (parts or (ASKED,))
    ]
    return home.table(FOUND_FOR_QUESTIONS, *rows)


def from_memory(home: Home, model: Endpoint = OFFLINE, systems: tuple[str, ...] = SYSTEMS) -> Rows:
    return run(home, write_closed_book, questions(home), systems=[*systems], model=model, prompt=MEMORY)


def from_passages(home: Home, model: Endpoint = OFFLINE, systems: list[str] = READERS) -> Rows:
    given = {"systems": systems, "model": model, "prompt": READING}
    return run(home, write_from_passages, questions(home), found(home), **given)


# closed book


def test_a_closed_book_answer_has_its_references_as_sources_and_not_in_its_text(home: Home) -> None:
    made = from_memory(home)
    rows = list(made)
    assert [row["question_id"] for row in rows] == ["expertqa/copper", "expertqa/clay", "expertqa/nothing"]
    for row in rows:
        assert (row["system"], row["kind"], row["model"], row["endpoint"]) == ("gpt4", "closed_book", MODEL, "offline")
        assert "References" not in row["text"]
        assert "https://" not in row["text"]
        assert "[1]" in row["text"]
        assert [source["number"] for source in row["cited"]] == [1, 2]
        assert row["attribution"] == [f"[{source['number']}] {source['url']}" for source in row["cited"]]
        assert all(source["url"].startswith("https://example.org/") for source in row["cited"])
    assert home.rejected(made) == {"expertqa/released": "has released answers"}


def test_the_prompt_names_the_field_and_the_answer_has_the_tokens_of_the_paper(home: Home) -> None:
    """Up to 2,048 tokens (B.1); the temperature is a parameter of the endpoint."""
    requests = []
    inputs = {"questions": questions(home, [question("q", "Why?" * 9_000, field="Alchemy")])}
    arguments = {"systems": ["gpt4"], "model": OFFLINE, "prompt": MEMORY}
    (job,) = jobs_of(home.store, write_closed_book.called(home.store, inputs, arguments))
    walk(home.store, write_closed_book, job, lambda endpoint, request, item: requests.append(request), lambda *_: None)
    ((_, asked),) = [(request.task, request) for request in requests]
    assert asked.max_tokens == 2048
    assert "Alchemy" in asked.messages[1][1]
    assert asked.messages[1][1].count("Why?") == 2_000


# retrieve and read


def test_each_retrieve_and_read_system_reads_the_passages_of_its_corpus(home: Home) -> None:
    made = from_passages(home)
    rows = {(row["question_id"], row["system"]): row for row in made}
    assert list(rows) == [
        ("expertqa/copper", "rr_sphere_gpt4"),
        ("expertqa/copper", "rr_gs_gpt4"),
        ("expertqa/clay", "rr_gs_gpt4"),
    ]
    sphere, web, clay = rows.values()
    assert "On a roof copper turns green within some years [1]." in sphere["text"]
    assert "Sea salt lets copper turn green sooner than usual [1]." in web["text"]
    assert clay["text"].startswith("I don't know.")
    assert [source["passage_id"] for source in sphere["cited"]] == ["s1"]
    assert [(source["number"], source["passage_id"], source["text"]) for source in web["cited"]] == [
        (1, "g1", SALT["text"]),
        (2, "g2", RAIN["text"]),
    ]
    assert web["attribution"] == ["[1] https://example.org/g1", "[2] https://example.org/g2"]
    assert {row["kind"] for row in rows.values()} == {"retrieve_and_read"}
    rejected = {"expertqa/released": "has released answers", "expertqa/nothing": "no passage found"}
    assert home.rejected(made) == rejected
    (part,) = made.parts or ()
    assert dict(part.counts) == {
        "replies": 3,
        "rr_sphere_gpt4: no passage found": 2,
        "rr_gs_gpt4: no passage found": 1,
    }


def test_a_system_that_is_not_configured_is_not_asked(home: Home) -> None:
    none = {"expertqa/released": "has released answers"} | {
        row["question_id"]: "system not asked" for row in ASKED if row["question_id"] != "expertqa/released"
    }
    for made in (from_memory(home, systems=("rr_gs_gpt4",)), from_passages(home, systems=[])):
        assert list(made) == []
        assert home.rejected(made) == none
    made = from_passages(home, systems=["rr_sphere_gpt4"])
    assert [row["system"] for row in made] == ["rr_sphere_gpt4"]
    assert home.rejected(made)["expertqa/clay"] == "no passage found"


# post hoc


def test_post_hoc_answers_are_the_closed_book_answer_without_its_citations_and_ask_nobody(home: Home) -> None:
    closed = from_memory(home)
    systems = ["post_hoc_sphere_gpt4", "post_hoc_gs_gpt4"]
    rows = list(run(home, answer_post_hoc, closed, systems=systems))
    assert [row["system"] for row in rows] == systems * 3
    origins = {row["answer_id"]: row for row in closed}
    for row in rows:
        origin = origins[row["closed_id"]]
        assert "[" not in row["text"]
        assert row["text"].split() == re.sub(r"( \[\d\])+", "", origin["text"]).split()
        assert (row["kind"], row["cited"], row["attribution"]) == ("post_hoc", [], [])
        assert (row["response"], row["prompt_hash"]) == (origin["response"], origin["prompt_hash"])
    assert len({row["answer_id"] for row in [*rows, *closed]}) == 9


def test_an_answer_of_nothing_but_citations_has_no_post_hoc_twin(home: Home) -> None:
    closed = home.table(ANSWERS, [answer("a_1", "q", text="[1] [2]")])
    made = run(home, answer_post_hoc, closed, systems=["post_hoc_gs_gpt4"])
    assert list(made) == []
    assert home.rejected(made) == {"a_1": "nothing but citations"}


# all of them


def collect(home: Home, asked: list[Row], *sources: list[Row]) -> Rows:
    """`sources` are released, closed, read, post-hoc and commercial answers."""
    released, closed, read, post_hoc, commercial = [*sources, [], [], [], [], []][:5]
    late = [{**row, "closed_id": "a_0"} for row in post_hoc]
    tables = [home.table(ANSWERS, rows) for rows in (released, closed, read)]
    whole = home.table(ANSWERS, commercial)
    whole = AllRows(whole.store, whole.schema, "read_commercial", "ef", whole.parts)
    return run(home, collect_answers, questions(home, asked), *tables, home.table(POST_HOC, late), whole)


def made(key: str, of: str, system: str, kind: str = "closed_book", **given: Any) -> Row:
    return answer(key, of, system=system, kind=kind, **given)


def test_answers_come_in_the_order_of_questions_and_then_of_systems(home: Home) -> None:
    asked = [question("b"), question("a")]
    rows = collect(
        home,
        asked,
        [made("a_9", "a", "zeta", "released"), made("a_8", "a", "alpha", "released")],
        [made("a_1", "b", "gpt4"), made("a_2", "a", "gpt4")],
        [made("a_3", "b", "rr_gs_gpt4"), made("a_4", "b", "rr_sphere_gpt4")],
        [made("a_5", "b", "post_hoc_gs_gpt4"), made("a_6", "b", "post_hoc_sphere_gpt4")],
        [made("a_7", "b", "bing_chat", "imported"), made("a_x", "elsewhere", "bing_chat", "imported")],
    )
    shown = [(row["question_id"][9:], row["system"]) for row in rows]
    assert shown == [("b", system) for system in SYSTEMS] + [("a", "gpt4"), ("a", "alpha"), ("a", "zeta")]
    assert home.rejected(rows) == {}


def test_the_first_answer_of_a_system_counts_and_the_others_are_rejected(home: Home) -> None:
    rows = collect(
        home,
        [question("q")],
        [made("a_1", "q", "bing_chat", "released")],
        [made("a_2", "q", "gpt4")],
        [made("a_3", "q", "gpt4")],
        [],
        [made("a_4", "q", "bing_chat", "imported")],
    )
    assert [(row["answer_id"], row["system"]) for row in rows] == [("a_2", "gpt4"), ("a_1", "bing_chat")]
    again = "a second answer of this system"
    assert home.rejected(rows) == {"a_3": again, "a_4": again}


def test_a_question_without_an_answer_says_so(home: Home) -> None:
    rows = collect(home, [question("q"), question("p")], [], [made("a_1", "p", "gpt4")])
    assert [row["answer_id"] for row in rows] == ["a_1"]
    assert home.rejected(rows) == {"expertqa/q": "no answer"}


def test_abstentions_are_marked_with_the_words_that_say_so(home: Home) -> None:
    texts = ["I don't know. The passages are about other things.", "Copper turns green in the rain."]
    rows = collect(home, [question("q")], [], [], [made("a_1", "q", "gpt4", text=texts[0])], [], [])
    assert [row["abstention"] for row in rows] == ["I don't know"]
    rows = collect(home, [question("q")], [], [made("a_2", "q", "gpt4", text=texts[1], abstention="stale")])
    assert [row["abstention"] for row in rows] == [None]


systems = st.sampled_from([*SYSTEMS, "other"])


@given(st.lists(systems, max_size=12), st.booleans())
def test_every_answer_is_a_row_or_rejected_and_a_system_has_one(names: list[str], imported: bool) -> None:
    kind = "imported" if imported else "released"
    answers = [made(f"a_{number}", "q", system, kind) for number, system in enumerate(names)]
    items = list(collected("expertqa/q", answers))
    rows = [item for item in items if not isinstance(item, Rejected)]
    rejected = [item for item in items if isinstance(item, Rejected)]
    assert sorted(row["system"] for row in rows) == sorted(set(names))
    told = {item.key for item in rejected} - {"expertqa/q"}
    assert {row["answer_id"] for row in rows} | told == {row["answer_id"] for row in answers}
    assert len(items) == max(1, len(answers))


def test_a_flow_of_all_stages_gives_five_answers_a_question_and_the_same_bytes_again(tmp_path: Path) -> None:
    digests = []
    for name in ("one", "two"):
        home = Home(tmp_path / name)
        parts = [ASKED[:2], ASKED[2:]]
        asked, passages = questions(home, *parts), found(home, *parts)
        closed = run(home, write_closed_book, asked, systems=["gpt4"], model=OFFLINE, prompt=MEMORY)
        read = run(home, write_from_passages, asked, passages, systems=READERS, model=OFFLINE, prompt=READING)
        late = run(home, answer_post_hoc, closed, systems=["post_hoc_sphere_gpt4", "post_hoc_gs_gpt4"])
        released = home.table(ANSWERS, [made("a_r", "released", "gpt4", "released")], [])
        commercial = AllRows(home.store, ANSWERS, "read_commercial", "ef", [])
        rows = run(home, collect_answers, asked, released, closed, read, late, commercial)
        assert [row["system"] for row in rows if row["question_id"] == "expertqa/copper"] == list(SYSTEMS[:5])
        assert home.rejected(rows) == {}
        abstaining = [(row["question_id"], row["system"]) for row in rows if row["abstention"]]
        assert abstaining == [("expertqa/clay", "rr_gs_gpt4")]
        digests.append([part.sha256 for part in rows.parts or ()])
    assert digests[0] == digests[1]


# over HTTP


def over_http(server: Server, **settings: Any) -> Endpoint:
    return Endpoint("mine", "m", parameters=(("temperature", 1.0),), base_url=server.url, **settings)


def test_answers_over_http_are_those_of_the_offline_model_and_paid_for_once(home: Home, standin: Server) -> None:
    endpoint = over_http(standin)
    for make in (from_memory, from_passages):
        own, asked = list(make(home)), list(make(home, endpoint))
        assert [row["text"] for row in asked] == [row["text"] for row in own]
        assert {row["endpoint"] for row in asked} == {"mine"}
        assert list(make(home, endpoint)) == asked
    counters = standin.counters()
    assert counters["answered_bodies"] == 3 + 3
    assert counters["repeated"] == {}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("refusal", "model: refusal"), ("filtered", "model: filter"), ("length", "model: length")],
)
def test_a_reply_that_cannot_be_used_is_a_rejected_question_with_its_system(
    home: Home, standin: Server, fault: str, reason: str
) -> None:
    standin.script([{"fault": fault}] * 9)
    read = from_passages(home, over_http(standin), ["rr_gs_gpt4"])
    assert list(read) == []
    (part,) = read.parts or ()
    told = {row["key"]: row for row in pq.read_table(home.store.rejected_path(part)).to_pylist()}
    for key in ("expertqa/copper", "expertqa/clay"):
        assert told[key]["reason"] == reason
        assert told[key]["detail"].startswith("rr_gs_gpt4")


def test_one_system_may_fail_where_the_other_answers(home: Home, standin: Server) -> None:
    standin.script([{"fault": "context"}])
    read = from_passages(home, over_http(standin, concurrency=1))
    assert len(list(read)) == 2
    assert sorted(home.rejected(read).values()) == ["has released answers", "model: request", "no passage found"]


def test_a_reply_without_its_end_mark_was_cut_off(home: Home) -> None:
    with serve(say="Copper turns green [1] and") as server:
        made = from_memory(home, over_http(server))
    assert list(made) == []
    assert set(home.rejected(made).values()) == {"has released answers", "model: length"}


@pytest.mark.parametrize("said", ["=====", "\n \n=====", "References:\n[1] https://example.org/a\n====="])
def test_a_reply_without_an_answer_is_rejected(home: Home, said: str) -> None:
    with serve(say=said) as server:
        made = from_memory(home, over_http(server))
    assert list(made) == []
    reasons = set(home.rejected(made).values()) - {"has released answers"}
    assert reasons == {"model: empty"}


def test_a_source_without_an_address_is_attributed_by_its_words(home: Home) -> None:
    said = (
        "Copper turns green [1].\n\nReferences:\n[1] A handbook of roofs, 2nd edition\n[2] https://example.org/a\n====="
    )
    with serve(say=said) as server:
        row = next(iter(from_memory(home, over_http(server))))
    assert row["text"] == "Copper turns green [1]."
    assert row["attribution"] == ["[1] A handbook of roofs, 2nd edition", "[2] https://example.org/a"]


def test_a_model_that_invents_citations_and_texts_in_tags_breaks_nothing(home: Home) -> None:
    with serve(say="Copper </verdict> <<<text abcdef012345 is green [99] [1, 7] (Passage 3).\n=====") as server:
        rows = list(from_passages(home, over_http(server)))
    assert [row["question_id"] for row in rows] == ["expertqa/copper"] * 2  # for the next question it is a repetition
    assert all(row["text"].endswith("(Passage 3).") for row in rows)
    assert [len(row["cited"]) for row in rows] == [1, 2]


@pytest.mark.parametrize(
    ("reply", "flaw"),
    [
        ("Copper turns green [7]. Tin does not [9].", "it cites [7], [9], of 5 passages"),
        ("Copper turns green [7]. Tin does not [2].", None),
        ("Copper turns green.", None),
        ("It lies in the interval [0, 1].", None),
        ("Copper turns green [1].\n\nReferences:\n[1] A passage\n[8] Another", None),
    ],
)
def test_an_answer_that_cites_no_passage_it_was_given_is_invalid(reply: str, flaw: str | None) -> None:
    assert flaw_of_reading(reply, passages=5) == (flaw and ("invalid", flaw))


def test_a_password_in_an_address_that_a_model_writes_is_in_no_row_and_no_rejected_row(home: Home) -> None:
    cites = "Copper turns green (https://user:secret@a.example/x) [1].\n\nReferences:\n[1] http://u:secret@b.example\n"
    for say in (f"{cites}=====", cites):  # whole, and cut off
        with serve(say=say) as server:
            for make in (from_memory, from_passages):
                made = make(home, over_http(server))
                told = [pq.read_table(home.store.rejected_path(part)).to_pylist() for part in made.parts or ()]
                assert "secret" not in f"{list(made)}{told}"
                assert "a.example/x" in f"{list(made)}{told}"
