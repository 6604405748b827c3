"""The offline model for Revision Distance: checks, drafts, edits as JSON, ratings, through the prompts and a server."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jsonschema
import paths
import pytest
from hypothesis import given
from hypothesis import strategies as st
from offline_rules import RULES, respond, task_of
from standin_server import Server, serve, standin

from longform.llm import offline
from longform.llm.ask.prompts import load_prompt
from longform.llm.ask.types import Answer, Endpoint, Failure, Form, Request
from longform.llm.models import Models
from longform.llm.read.replies import strip_end_mark
from longform.llm.read.structured import read_reply, response_format
from schemas.replies import ProposedEdit, Rating, RevisionEdits, WritingCheck
from tasks.revision_distance.drafts.placing import apply, place
from tasks.revision_distance.offline import edits_as_json, rating
from tasks.revision_distance.offline_editor import asks_for, edit
from tasks.text.revision_edits import revise

__all__ = ["standin"]

REPO = paths.ROOT
NAMES = (
    "check_request", "write", "related_vanilla", "recall", "segment", "related_cot",
    "edit_to_reference", "edit_freely", "rate",
)  # fmt: skip
PROMPTS = {name: load_prompt(f"revision_distance/{name}", REPO / "prompts") for name in NAMES}
REPLIES: dict[str, Any] = {
    "check_request": WritingCheck,
    "rate": Rating,
    "edit_to_reference": RevisionEdits,
    "edit_freely": RevisionEdits,
}
FIELDS = (
    "action_name", "revision_description", "revision_level", "revision_intention",
    "original_snippet", "revised_snippet", "preceding_snippet",
)  # fmt: skip
INTENTIONS = {"fluency", "clarity", "coherence", "style", "meaning", "other"}

REQUEST = (
    "Write an email to my landlord about the broken heating in my flat and ask him to repair it before Friday. "
    "Mention that I called twice. Keep it polite."
)
OWN = (
    "Pruning of sparse translation models\nWe prune translation models after training. Our method removes attention "
    "heads by their gradient. It keeps quality with half of the parameters."
)
PAPERS = [
    "Attention heads in translation\nWe study the attention heads of translation models. Most heads can be removed "
    "after training without loss of quality.",
    "Reading stories aloud\nChildren read stories and answer questions. We build a set of such questions with answers.",
    "Sparse models by gradient\nGradient information tells which parameters matter. We remove parameters during "
    "training of translation models and keep quality on three sets.",
]
DRAFT = "Dear landlord,\n\nmy heating is very very cold.\n\nKind regards"
REFERENCE = "Dear landlord,\n\nthe heating in my flat is broken. Please repair it.\n\nKind regards"
INPUTS: dict[str, dict[str, Any]] = {
    "check_request": {"message": REQUEST},
    "write": {"request": REQUEST},
    "related_vanilla": {"own": OWN, "papers": PAPERS},
    "recall": {"own": OWN, "papers": PAPERS},
    "segment": {"own": OWN, "papers": PAPERS, "knowledge": "Pruning removes parts.", "perspective": "Methods: how."},
    "related_cot": {"own": OWN, "papers": PAPERS, "knowledge": "Pruning removes parts.", "segments": ["One.", "Two."]},
    "edit_to_reference": {"draft": DRAFT, "reference": REFERENCE},
    "edit_freely": {"request": REQUEST, "draft": DRAFT},
    "rate": {"request": REQUEST, "reference": REFERENCE, "draft": DRAFT},
}


def asking(name: str, form: Form | None = None, **inputs: Any) -> Request:
    prompt = PROMPTS[name]
    asked = form or prompt.forms[0]
    given = {**INPUTS[name], **inputs}
    return Request(prompt.render(form=asked, **given), prompt.name, 65_536, reply=REPLIES.get(name), form=asked)


def reply(name: str, effort: str = "", **inputs: Any) -> str:
    text, finish, _, _ = respond(asking(name, **inputs), 0, effort)
    assert finish == "stop"
    stripped = strip_end_mark(text)
    assert stripped is not None
    return stripped


def edits_of(name: str, **inputs: Any) -> list[dict[str, Any]]:
    read = read_reply(respond(asking(name, **inputs))[0], RevisionEdits, "tags")
    assert isinstance(read, RevisionEdits), read
    return [each.model_dump() for each in read.edits]


def applied(draft: str, edits: list[dict[str, Any]]) -> str:
    """What exact edits make of a draft, worked out here: each must be found, and none may overlap with another."""
    changes = []
    for number, each in enumerate(edits):
        before, old = each["preceding_snippet"], each["original_snippet"]
        assert draft.count(before or old) >= 1
        at = draft.index(old) if before is None else draft.index(before) + len(before)
        assert draft[at : at + len(old)] == old
        assert before is not None or old
        changes.append((at, at + len(old), number, each["revised_snippet"]))
    changes.sort()
    made, reached = "", 0
    for start, end, _, new in changes:
        assert start >= reached
        made, reached = f"{made}{draft[reached:start]}{new}", end
    return made + draft[reached:]


# recognised


@pytest.mark.parametrize("name", NAMES)
def test_the_task_of_each_prompt_is_found_by_its_labels(name: str) -> None:
    for form in PROMPTS[name].forms:
        assert task_of(asking(name, form).messages) == f"revision_distance/{name}"


@pytest.mark.parametrize("name", ["related_vanilla", "recall", "segment", "related_cot"])
def test_the_task_is_found_without_a_cited_paper_and_with_many(name: str) -> None:
    for papers in ([], PAPERS * 5):
        assert task_of(asking(name, papers=papers).messages) == f"revision_distance/{name}"
        assert reply(name, papers=papers)


def test_texts_that_look_like_other_labels_change_nothing() -> None:
    hostile = "Reference:\n<<<text 0123456789ab\nx\n0123456789ab text>>>\nDraft:\nx"
    for name, field in (("edit_freely", "draft"), ("rate", "reference"), ("write", "request")):
        assert task_of(asking(name, **{field: hostile}).messages) == f"revision_distance/{name}"


def test_replies_are_the_same_in_another_process() -> None:
    program = (
        "import json, sys; from tests.tasks.revision_distance import test_revision_offline as t;"
        "json.dump([t.respond(t.asking(name))[0] for name in t.NAMES], sys.stdout)"
    )
    env = {"PYTHONHASHSEED": "7", "PYTHONPATH": paths.PYTHONPATH}
    again = subprocess.run([sys.executable, "-c", program], cwd=REPO, capture_output=True, check=True, env=env)
    assert json.loads(again.stdout) == [respond(asking(name))[0] for name in NAMES]


# what is asked for


@pytest.mark.parametrize(
    ("message", "verdict", "kind"),
    [
        (REQUEST, "yes", "email"),
        ("Please draft a cover letter for the post of a gardener.", "yes", "letter"),
        ("write a 500 word blog post on balcony tomatoes", "yes", "article"),
        ("Compose a poem about rain", "yes", "other"),
        ("Could you create an article about sleep?", "yes", "article"),
        ("How do I boil an egg?", "no", "other"),
        ("Translate this email into French: Dear all, ...", "no", "other"),
        ("Write a python function that validates an email address", "no", "other"),
        ("Give me a list of email subjects", "no", "other"),
        ("", "no", "other"),
        ("What is an article?", "no", "other"),
    ],
)
def test_a_message_is_checked_by_its_words(message: str, verdict: str, kind: str) -> None:
    read = read_reply(respond(asking("check_request", message=message))[0], WritingCheck, "tags")
    assert read == WritingCheck(verdict=verdict, kind=kind)
    assert asks_for(message) == (verdict, kind)


# drafts


def test_a_message_has_a_greeting_paragraphs_a_closing_and_the_requested_points() -> None:
    text = reply("write")
    assert text.startswith("Subject: The broken heating in my flat\n\nDear landlord,\n\n")
    assert text.endswith("\n\nKind regards,")
    assert "I called twice" in text
    assert "please repair it before Friday" in text
    assert "polite" not in text


def test_an_article_has_a_title_and_neither_greeting_nor_closing() -> None:
    text = reply("write", request="Write an article about compost on balconies. Speak of smell, worms and rain.")
    assert text.startswith("# Compost on balconies\n\n")
    assert "smell, worms and rain" in text
    assert "Dear" not in text
    assert "regards" not in text


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


@pytest.mark.parametrize("name", ["write", "related_vanilla", "related_cot"])
def test_with_low_effort_a_draft_is_shorter_with_fewer_points(name: str) -> None:
    plain, low = reply(name), reply(name, "low")
    assert low
    assert len(low) < len(plain)
    assert low != plain
    assert reply(name, "high") == plain


def test_low_effort_changes_no_edit_and_no_rating() -> None:
    for name in ("check_request", "edit_freely", "rate", "recall"):
        assert reply(name, "low") == reply(name)


def test_the_effort_is_a_parameter_of_the_endpoint(tmp_path: Path) -> None:
    weak = Endpoint("offline", offline.MODEL, parameters=(("effort", "low"),))
    strong = Endpoint("offline", offline.MODEL)
    with Models(tmp_path / "r.sqlite", offline=RULES) as models:
        texts, keys = [], []
        for endpoint in (weak, strong):
            [(_, answer)] = models.client(endpoint).ask([(0, asking("write"))])
            assert isinstance(answer, Answer)
            texts.append(answer.text)
            keys.append(answer.key)
    assert texts == [respond(asking("write"), 0, "low")[0], respond(asking("write"))[0]]
    assert keys[0] != keys[1]


def test_drafts_differ_between_requests() -> None:
    texts = {reply("write", request=f"Write an email about lamp number {n}. It must be back soon.") for n in range(30)}
    assert len(texts) == 30


def test_vanilla_quotes_a_sentence_of_each_paper_in_their_order_by_title() -> None:
    text = reply("related_vanilla")
    places = [text.index(paper.partition("\n")[0]) for paper in PAPERS]
    assert places == sorted(places)
    for paper in PAPERS:
        quoted = re.split(r"(?<=\.) ", paper.partition("\n")[2])
        assert sum(sentence in text for sentence in quoted) == 1


def test_step_by_step_groups_papers_by_shared_words_and_merges_segments() -> None:
    segment = "A remark of the segments alone is that pruning has many faces."
    text = reply("related_cot", segments=[segment, segment])
    first, alone, near = (text.index(paper.partition("\n")[0]) for paper in PAPERS)
    assert first < near < alone
    assert text.count(segment) == 1
    assert "Several of these works" in text
    assert text != reply("related_vanilla")


def test_a_segment_goes_by_its_perspective() -> None:
    stories = reply("segment", perspective="Readers: children, stories and questions.")
    assert "questions with answers" in stories or "answer questions" in stories
    assert reply("segment", perspective="Methods: gradient and pruning.") != stories


def test_nothing_is_recalled_that_could_be_a_fact() -> None:
    text = reply("recall")
    assert not re.search(r"\d", text)
    assert "looked up" in text
    assert "pruning" in text.lower()


def test_papers_without_an_abstract_are_named_as_unknown() -> None:
    for name in ("related_vanilla", "related_cot"):
        text = reply(name, papers=["A Title {x} of its own"])
        assert 'Of "A Title {x} of its own" only the title is known here.' in text.replace(": of", ": Of")


def test_a_paragraph_fits_into_the_limit_of_its_reply() -> None:
    for name in ("related_vanilla", "related_cot"):
        request = asking(name, papers=PAPERS * 40)
        text, finish, _, _ = respond(Request(request.messages, request.task, 300))
        assert finish == "stop"
        assert len(text) <= 1_200


# edits as JSON

anything = st.text(st.characters(exclude_categories=["Cs"])) | st.lists(
    st.sampled_from(
        ["<edits>", "</edits>", "=====", "\n", "```", '{"edits": []}', "{", "}", '"', "\\", "\\u003c", "[", "\u2028",
         "<original_snippet>", "original_snippet", "]}", "\x00", "\x1b[2J", "\u202e", "{{ 7*7 }}", "</s>"]
    ),
    max_size=8,
).map("".join)  # fmt: skip
edit_lists = st.lists(
    st.fixed_dictionaries(
        {
            "action_name": st.sampled_from(["move", "remove", "<edit>"]),
            "revision_description": anything,
            "revision_level": anything,
            "revision_intention": st.sampled_from(sorted(INTENTIONS)),
            "original_snippet": anything,
            "revised_snippet": anything,
            "preceding_snippet": st.none() | anything,
        }
    ),
    max_size=5,
)


@given(edit_lists)
def test_edits_read_back_to_the_letter_in_both_forms_with_the_end_mark_and_without(edits: list[Any]) -> None:
    text = edits_as_json(edits)
    assert "<" not in text
    assert "\n" not in text
    for form in ("json", "tags"):
        for said in (text, f"{text}\n=====", f"```json\n{text}\n```"):
            read = read_reply(said, RevisionEdits, form)
            assert isinstance(read, RevisionEdits), read
            assert [each.model_dump() for each in read.edits] == edits


@given(anything, anything)
def test_any_draft_gets_edits_in_the_form_of_the_prompt(draft: str, request: str) -> None:
    for each in edits_of("edit_freely", draft=draft, request=request):
        assert tuple(each) == FIELDS
        assert each["revision_intention"] in INTENTIONS


def test_edits_to_a_reference_are_those_of_the_reviser() -> None:
    wanted = revise(DRAFT, REFERENCE)
    assert edits_of("edit_to_reference") == wanted
    assert wanted
    assert edits_of("edit_to_reference", reference=DRAFT) == []


def test_a_draft_longer_than_other_rules_read_is_edited_whole() -> None:
    draft = " ".join(f"Sentence {n} says that lamp number {n} is grey." for n in range(1_000))
    assert len(draft) > 40_000
    reference = draft.replace("lamp number 990 is grey", "lamp number 990 is blue")
    assert edits_of("edit_to_reference", draft=draft, reference=reference) == revise(draft, reference)
    assert len(edits_of("edit_to_reference", draft=draft, reference=reference)) == 1
    assert len(edits_of("edit_freely", draft=f"{draft} The the end.", request="")) == 1


# edits without a reference

CLEAN = "Dear landlord,\n\nthe heating in my flat is broken, and I called twice. Please repair it before Friday."


def freely(draft: str, request: str = "") -> list[dict[str, Any]]:
    return list(edit(draft, request))


def test_a_draft_with_nothing_to_see_gets_no_edit() -> None:
    assert freely(CLEAN) == []
    assert freely(f"{CLEAN}\n\nKind regards", REQUEST) == []


@pytest.mark.parametrize(
    ("draft", "revised"),
    [
        ("Sure, here is the note:\n\nThe lamp is grey.", "The lamp is grey."),
        ("Here's your article:\n\nThe lamp is grey.", "The lamp is grey."),
        ("The lamp is grey. As an AI language model, I see no lamp. It is old.", "The lamp is grey. It is old."),
        ("The lamp is grey.\n\nLet me know if you need any changes!", "The lamp is grey.\n\n"),
        ("Dear [Recipient's Name],\n\nthe lamp is grey.\n\n[Your Name]",
         "Dear [Recipient's Name],\n\nthe lamp is grey.\n\n[Your Name]"),
        ("The lamp is is grey.", "The lamp is grey."),
        ("The lamp that that man had had is grey.", "The lamp that that man had had is grey."),
        ("In order to see, I lit it. It is important to note that light is good.", "To see, I lit it. Light is good."),
        ("The grey lamp hangs in the hall. It is old. The grey lamp hangs in the hall.",
         "The grey lamp hangs in the hall. It is old."),
        ("The old grey lamp still hangs in the", "The old grey lamp still hangs in the."),
        ("The old grey lamp still hangs here,", "The old grey lamp still hangs here."),
        ("Call [phone] or write to [mail] [1] or [the site](https://example.org).",
         "Call [phone] or write to [mail] [1] or [the site](https://example.org)."),
    ],
)  # fmt: skip
def test_obvious_defects_are_edited(draft: str, revised: str) -> None:
    assert applied(draft, freely(draft)) == revised


def test_a_long_sentence_is_cut_in_two_where_it_can_be() -> None:
    half = " ".join(f"w{n}" for n in range(30))
    draft = f"The lamp {half}, and the table {half} too."
    assert applied(draft, freely(draft)) == f"The lamp {half}. The table {half} too."
    assert freely(f"The lamp {half} {half}.".replace("w1 ", "v1 ", 1)) == []


def test_a_message_gets_the_greeting_and_the_closing_that_it_lacks() -> None:
    draft = "Subject: heating\n\nThe heating in my flat is broken. I called my landlord twice. Repair it before Friday."
    revised = applied(draft, freely(draft, REQUEST))
    assert revised == f"{draft}\n\nKind regards".replace("\n\nThe heating", "\n\nHello,\n\nThe heating")
    assert freely(draft, "Write an article about heating.") == []
    assert freely(draft, "") == []


def test_words_of_the_request_that_are_never_taken_up_are_asked_for_before_the_closing() -> None:
    draft = "Hello,\n\nthe heating is broken.\n\nKind regards"
    revised = applied(draft, freely(draft, "Write a letter about the broken heating and the bicycle in the cellar."))
    assert revised == (
        "Hello,\n\nthe heating is broken. More is to be said here on bicycle. More is to be said here on cellar.\n\n"
        "Kind regards"
    )


def test_an_empty_draft_gets_what_it_lacks() -> None:
    for draft in ("", " \n "):
        revised = applied(draft, freely(draft, REQUEST))
        assert "landlord" in revised
        assert "Kind regards" in revised


messy = st.lists(
    st.sampled_from(
        ["As an AI model, I wait.", "the the", "[Your Name]", "\n", "In order to", "Sure, here it is:", " ", "a lamp",
         "Kind regards", "Dear all,", "Let me know if you want changes.", ". ", "The grey lamp hangs in the old hall. ",
         "It is worth noting that", ", and the " + "long " * 30]
    )
    | st.text(max_size=5),
    max_size=14,
).map(" ".join)  # fmt: skip


@given(messy, st.sampled_from(["", REQUEST, "Write an article about bees."]))
def test_every_edit_without_a_reference_applies_and_none_overlaps(draft: str, request: str) -> None:
    edits = freely(draft, request)
    revised = applied(draft, edits)
    assert bool(edits) == (revised != draft)
    placed = place(draft, [ProposedEdit(**each) for each in edits])
    assert all(each.applied and each.placed == "exactly" for each in placed)
    assert "".join(apply(draft, placed).split()) == "".join(revised.split())


@given(messy)
def test_what_was_edited_needs_fewer_edits(draft: str) -> None:
    for _ in range(8):
        edits = freely(draft, REQUEST)
        draft = applied(draft, edits)
    assert freely(draft, REQUEST) == []


# a rating


def test_a_rating_is_100_for_the_reference_and_falls_with_what_is_missing() -> None:
    assert rating(REFERENCE, REFERENCE, REQUEST) == 100
    assert rating(f" {REFERENCE}\n", REFERENCE, REQUEST) == 100
    half = REFERENCE[: len(REFERENCE) // 2]
    assert 100 > rating(half, REFERENCE, REQUEST) > rating("Of bees.", REFERENCE, REQUEST) >= 0
    assert rating("", "x", "") == 0


def test_a_rating_is_read_from_its_reply() -> None:
    read = read_reply(respond(asking("rate"))[0], Rating, "tags")
    assert read == Rating(score=rating(DRAFT, REFERENCE, REQUEST))


# hostile texts


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000,
        "the " * 250_000,
        "[a] " * 250_000,
        "In order to " * 80_000,
        "As an AI " * 100_000,
        "write an email " * 60_000,
        "\n" * 1_000_000,
        "a, and the b " * 80_000,
        "Kind regards\n" * 80_000,
        "One two three four five six. " * 40_000,
        "[" * 1_000_000,
        " ".join(f"Word{n} word{n} is here." for n in range(40_000)),
    ],
    ids=lambda text: repr(text[:12]),
)
def test_a_megabyte_of_anything_is_worked_through(text: str) -> None:
    started = time.process_time()
    edits = edits_of("edit_freely", draft=text, request=text)
    applied(text, edits)
    for name, field in (("check_request", "message"), ("write", "request"), ("rate", "draft"), ("recall", "own")):
        reply(name, **{field: text})
    reply("related_cot", own=text, papers=[text] * 3, knowledge=text, segments=[text])
    assert time.process_time() - started < 60


# the stand-in


def sent(server: Server, body: dict[str, Any]) -> str:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=600)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        document = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return str(document["choices"][0]["message"]["content"])


def body_of(request: Request, **more: Any) -> dict[str, Any]:
    messages = [{"role": role, "content": content} for role, content in request.messages]
    return {"model": "m", "messages": messages, "max_tokens": 65_536, **more}


@pytest.mark.parametrize("name", NAMES)
def test_the_stand_in_answers_every_task_with_a_schema_and_without(standin: Server, name: str) -> None:
    assert sent(standin, body_of(asking(name))) == respond(asking(name))[0]
    if name not in REPLIES:
        return
    request = asking(name, "json")
    said = sent(standin, body_of(request, response_format=response_format(REPLIES[name])))
    jsonschema.validate(json.loads(said), response_format(REPLIES[name])["json_schema"]["schema"])
    assert read_reply(said, REPLIES[name], "json") == read_reply(respond(request)[0], REPLIES[name], "tags")


def test_the_stand_in_knows_a_weak_writer(standin: Server) -> None:
    assert sent(standin, body_of(asking("write"), effort="low")) == respond(asking("write"), 0, "low")[0]


def test_a_draft_without_edits_is_none_also_with_a_schema(standin: Server) -> None:
    request = asking("edit_freely", "json", draft=CLEAN, request="")
    said = sent(standin, body_of(request, response_format=response_format(RevisionEdits)))
    assert json.loads(said) == {"edits": []}


@pytest.mark.parametrize("capabilities", [frozenset(), frozenset({"json_schema"})], ids=["tags", "json"])
def test_a_client_reads_edits_of_a_server_in_either_form(standin: Server, tmp_path: Path, capabilities: Any) -> None:
    draft = 'In order to see </edits> {"edits": []} ```\n=====\nthe the lamp, "look" \\n \u2028 [Your Name] closely.'
    endpoint = Endpoint("mine", "m", base_url=standin.url, capabilities=capabilities)
    request = PROMPTS["edit_freely"].request(
        endpoint, max_tokens=4_096, reply=RevisionEdits, draft=draft, request="Write about the lamp."
    )
    with Models(tmp_path / "r.sqlite", offline=RULES) as models:
        [(_, answer)] = models.client(endpoint).ask([(0, request)])
    assert isinstance(answer, Answer), answer
    edits = [each.model_dump() for each in answer.value.edits]
    assert edits == freely(draft, "Write about the lamp.")
    assert len(edits) >= 2
    assert standin.counters()["requests"]["POST /v1/chat/completions"] == 1


def test_a_reply_without_edits_in_it_is_sent_back_with_a_request_for_json(tmp_path: Path) -> None:
    with serve(say="I made three edits.") as server, Models(tmp_path / "r.sqlite") as models:
        endpoint = Endpoint("mine", "m", base_url=server.url)
        request = PROMPTS["edit_freely"].request(endpoint, reply=RevisionEdits, draft=DRAFT, request=REQUEST)
        [(_, failure)] = models.client(endpoint).ask([(0, request)])
        assert isinstance(failure, Failure)
        assert (failure.kind, failure.message) == ("invalid", "no JSON object in the reply")
        again = json.loads(models.store.get([failure.key])[failure.key].request)["messages"][-1]["content"]
        assert "JSON object" in again
        assert "tags" not in again
