"""Which messages ask for a piece of writing: measured on labelled requests; which conversations become cases."""

import random
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paths
import pytest
from expertqa_tables import filled
from expertqa_toys import rejected_of, toy_source
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_stages import building

from longform.artifacts.rows import Row, Shard
from longform.engine.stage import StageContext, stage
from longform.errors import UsageError
from schemas.revision_distance import EASY, FREE
from schemas.sources.conversations import CONVERSATIONS
from schemas.sources.preferences import COMPLETIONS
from tasks.revision_distance.cases.requests import asked, check_languages, words_of
from tasks.revision_distance.cases.selection import (
    chosen_and_rejected,
    easy_case,
    free_case,
    refusal,
    select_conversations,
)

DATA = paths.TEST_DATA
KINDS = ["email", "letter", "article"]
EVERY_KIND = set(words_of("English").kinds.values())
REQUEST = "Write an email to the caretaker about the broken lamp on the stairs."
REPLY = "Subject: Lamp\n\nHello,\n\n" + "The lamp on the stairs is broken. " * 10


def labelled(name: str) -> list[tuple[str, str]]:
    """(kind or no, message)"""
    return [(line.split("\t")[0], line.split("\t")[1]) for line in (DATA / name).read_text().splitlines()]


def measured(requests: list[tuple[str, str]], kinds: list[str]) -> tuple[float, float]:
    """Precision and recall of these kinds; a piece that is found as another kind is wrong in both."""
    wanted = [(message, kind if kind in kinds else "no") for kind, message in requests]
    found = [(message, answer.kind) for message, _ in wanted if (answer := asked(message)) and answer.kind in kinds]
    right = len({*found} & {one for one in wanted if one[1] != "no"})
    return right / len(found), right / sum(kind != "no" for _, kind in wanted)


# ---------------------------------------------------------------- the rules


@pytest.mark.parametrize(
    ("name", "least"),
    [("revision_requests.tsv", 150), ("revision_requests_held_out.tsv", 60)],
    ids=["tuned", "held out"],
)
@pytest.mark.parametrize("kinds", [KINDS, EVERY_KIND], ids=["easy", "free"])
def test_at_least_nine_of_ten_labelled_requests_are_classified_right(name: str, least: int, kinds: list[str]) -> None:
    requests = labelled(name)
    assert len({message for _, message in requests}) == len(requests) >= least
    precision, recall = measured(requests, kinds)
    assert min(precision, recall) >= 0.95, (precision, recall)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("Write a cover letter for a baker.", "letter"),
        ("Write a blog post about bread.", "article"),
        ("Write a press release about bread.", "article"),
        ("Write an essay about bread.", "essay"),
        ("Write a story about bread.", "story"),
        ("Write a poem about bread.", None),
        ("Write a song about an email.", None),
        ("Write a scene in which a letter is read.", None),
        ("Write a tweet about our article.", None),
    ],
)
def test_what_counts_as_what_is_decided_here(message: str, kind: str | None) -> None:
    found = asked(message)
    assert (found.kind if found else None) == kind


def test_the_rule_names_the_words_that_matched() -> None:
    found = asked("Could you please write me a short, polite cover letter?")
    assert found is not None
    assert found.rule == "write … cover letter"
    alone = asked("Letter to a friend, 200 words")
    assert alone is not None
    assert alone.rule == "letter to"


def test_a_request_may_follow_long_notes_but_not_be_in_code_or_a_quotation() -> None:
    notes = "The pump was replaced and the tank was cleaned by two people. " * 200
    assert asked(f"{notes}\nWrite an email to the tenants with this.") is not None
    assert asked("What does this print?\n```\nWrite an email to the tenants.\n```") is None
    assert asked('Why is this prompt bad? "Write an email to the tenants about the pump and the tank."') is None


def test_a_language_without_words_is_a_usage_error_before_any_work() -> None:
    check_languages(["English"])
    with pytest.raises(UsageError, match=r'languages names "Klingon".*known are English'):
        check_languages(["English", "Klingon"])


@pytest.mark.parametrize(
    "message",
    [
        "write " * 200_000,
        "write a " + "very, " * 200_000 + "email",
        "a" * 1_000_000,
        '"' * 500_000,
        "```" * 300_000,
        "write an email.\n" * 1 + "\n" * 900_000,
        "reply to " * 100_000,
        "\x00\u202e\ufffd" * 200_000,
    ],
    ids=range(8),
)
def test_a_message_of_a_megabyte_takes_no_time(message: str) -> None:
    started = time.process_time()
    asked(message)
    assert time.process_time() - started < 2


@settings(max_examples=300)
@given(st.text(max_size=300))
def test_no_message_breaks_the_rules(message: str) -> None:
    found = asked(message)
    assert found is None or found.kind in EVERY_KIND


# ---------------------------------------------------------------- conversations


def turn(role: str, content: str, **given: Any) -> Row:
    return {"role": role, "content": content, "language": "English", "toxic": False, "redacted": False, **given}


def conversation(*contents: str, number: str = "a", **given: Any) -> Row:
    turns = [turn("assistant" if place % 2 else "user", content) for place, content in enumerate(contents)]
    known = {"conversation_id": f"wildchat/{number}", "model": "gpt-4-0314", "language": "English", "turns": turns}
    return filled(CONVERSATIONS, **{**known, "licence": "ODC-BY-1.0", "toxic": False, "redacted": False, **given})


def case_of(row: Row) -> Row | str:
    return easy_case(row, KINDS, ["English"], least_words=20, most_words=500, regions=["US"])


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (conversation(REQUEST, REPLY, toxic=True), "flagged as toxic"),
        (conversation(REQUEST, REPLY, turns=[turn("user", REQUEST, language="German")]), "another language"),
        (
            conversation(REQUEST, REPLY, language="German", turns=[turn("user", REQUEST, language=None)]),
            "another language",
        ),
        (
            conversation(turns=[turn("user", REQUEST), turn("assistant", REPLY, language="French")]),
            "another language",
        ),
        (conversation("Name a tree.", "Oak."), "no writing request"),
        (
            conversation("Name a tree.", "Oak.", "Now write an article on oaks.", REPLY),
            "asked for in a later turn only",
        ),
        (conversation("Write a story about an oak.", REPLY), "another kind of writing"),
        (conversation("Write letter", REPLY), "request too short"),
        (conversation(f"{REQUEST} {'It is dark. ' * 200}", REPLY), "request too long"),
        (conversation(REQUEST), "no reply"),
        (conversation(REQUEST, " \n"), "no reply"),
        (conversation(turns=[turn("user", REQUEST), turn("user", "Hello?"), turn("assistant", REPLY)]), "no reply"),
        (conversation(REQUEST, "I'm sorry, but I cannot help with that."), "reply refuses"),
        (conversation(REQUEST, "As an AI language model, I have no stairs. " + REPLY), "reply refuses"),
        (conversation(REQUEST, "Gladly! Could you please provide the name of the caretaker?"), "reply asks back"),
        (conversation(REQUEST, "Subject: Lamp\n\nIt is broken."), "text too short"),
        (conversation(REQUEST, REPLY * 10), "text too long"),
        (conversation(turns=[turn("assistant", REPLY)]), "no writing request"),
    ],
)
def test_what_is_no_case_says_why(row: Row, reason: str) -> None:
    assert case_of(row) == reason


def test_a_case_holds_the_first_request_and_the_first_reply_without_personal_data() -> None:
    request = f"{REQUEST} My address is tenant.one@mail.test, my phone 212-555-0187."
    case = case_of(conversation(request, f"{REPLY} Call 212-555-0187.", "Shorter, please.", "It is broken."))
    assert isinstance(case, dict)
    assert case.keys() == {*EASY.names}
    assert case["case_id"] == "easy/wildchat/a"
    assert case["kind"] == "email"
    assert case["rule"] == "write … email"
    assert case["request"] == f"{REQUEST} My address is [mail], my phone [phone]."
    assert case["reference"] == f"{REPLY} Call [phone]."
    assert case["scrubbed"] == 3
    assert case["reference_by"] == "gpt-4-0314"
    assert case["given"] == []


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("I cannot write such a message.", "reply refuses"),
        ("Sorry, but I can't do that.", "reply refuses"),
        ("I cannot forget the day on which the harbour froze.", None),
        ("Subject: Cancelled\n\nDear Tom,\n\nI'm sorry, but I cannot come.", None),
        ("Dear Sir,\n\ncould you please provide a copy of the invoice?\n\nYours faithfully", None),
        ("Which lamp? Please provide more details.", "reply asks back"),
    ],
)
def test_a_letter_that_declines_or_asks_is_no_refusal(reply: str, reason: str | None) -> None:
    assert refusal(reply) == reason


# ---------------------------------------------------------------- preferences


def rated(model: str, score: float | None, text: str = "", **given: Any) -> Row:
    fields = COMPLETIONS.field("completions").type.value_type
    names = [fields.field(number) for number in range(fields.num_fields)]
    return filled(names, model=model, response=text or f"The text of {model}. " * 10, fine_grained_score=score, **given)


def instruction(*completions: Row, text: str = REQUEST) -> Row:
    return filled(COMPLETIONS, instruction_id="ultrafeedback/a", instruction=text, completions=list(completions))


scores = st.lists(st.one_of(st.none(), st.sampled_from([1.0, 2.5, 4.0, 4.25, 5.0])), min_size=2, max_size=5)


@given(scores, st.integers(0, 50))
def test_chosen_is_a_highest_and_rejected_a_lower_one(values: list[float | None], seed: int) -> None:
    completions = [rated(f"m{place}", value) for place, value in enumerate(values)]
    known = [value for value in values if value is not None]
    found = chosen_and_rejected(completions, "ultrafeedback/a", seed)
    if not known:
        assert found == "no rated completion"
    elif len(set(known)) == 1:
        assert found == "no completion with a lower score"
    else:
        assert not isinstance(found, str)
        chosen, rejected = found
        assert chosen["fine_grained_score"] == max(known) > rejected["fine_grained_score"]
        shuffled = random.Random(seed).sample(completions, len(completions))
        assert chosen_and_rejected(shuffled, "ultrafeedback/a", seed) == found


def test_every_lower_completion_is_drawn_by_some_seed_and_overall_scores_do_not_count() -> None:
    completions = [rated("a", 2.0, overall_score=10.0, doubt="10 may stand for 1"), rated("b", 5.0), rated("c", 3.0)]
    found = [chosen_and_rejected(completions, f"ultrafeedback/{seed}", seed) for seed in range(400)]
    drawn = [pair[1]["model"] for pair in found if isinstance(pair, tuple)]
    assert {pair[0]["model"] for pair in found if isinstance(pair, tuple)} == {"b"}
    assert 140 < drawn.count("a") < 260
    assert drawn.count("a") + drawn.count("c") == 400


def test_two_ratings_of_one_text_are_no_pair() -> None:
    best, same, worse = rated("a", 5.0, "One two."), rated("b", 2.0, " One\ntwo. "), rated("c", 3.0, "Three.")
    assert chosen_and_rejected([best, same], "ultrafeedback/a", 0) == "no completion with a lower score"
    for seed in range(20):
        assert chosen_and_rejected([same, best, worse], "ultrafeedback/a", seed) == (best, worse)


def test_a_case_without_reference_holds_both_texts_with_their_writers_and_scores() -> None:
    row = instruction(rated("a", 5.0), rated("b", 2.0, "Ask jo.doe@mail.test."))
    case = free_case(row, seed=0, least_words=20, most_words=100, regions=["US"])
    assert isinstance(case, dict)
    assert case.keys() == {*FREE.names}
    assert [(one["system"], one["writer"], one["score"]) for one in case["given"]] == [
        ("chosen", "a", 5.0),
        ("rejected", "b", 2.0),
    ]
    assert case["given"][1]["text"] == "Ask [mail]."
    assert case["scrubbed"] == 1
    assert case["reference"] is None


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (instruction(rated("a", 5.0), rated("b", 2.0), text="Name a tree."), "no writing request"),
        (instruction(rated("a", 5.0), rated("b", 2.0), text="Write a haiku about bread."), "no writing request"),
        (instruction(rated("a", 5.0), rated("b", 5.0)), "no completion with a lower score"),
        (instruction(rated("a", None), rated("b", None)), "no rated completion"),
        (instruction(rated("a", 5.0, "Short."), rated("b", 2.0)), "text too short"),
        (instruction(rated("a", 5.0, "I'm sorry, but I cannot do that."), rated("b", 2.0)), "reply refuses"),
    ],
)
def test_instructions_that_make_no_case_say_why(row: Row, reason: str) -> None:
    assert free_case(row, seed=0, least_words=20, most_words=100, regions=["US"]) == reason


# ---------------------------------------------------------------- many


@stage(CONVERSATIONS, revision=1)
def make_conversations(context: StageContext, files: Shard, *, number: int) -> Iterator[Row]:
    """Every tenth asks for an e-mail; texts of some 2,000 characters."""
    for place in range(number):
        request = f"{REQUEST} It is number {place}." if place % 10 == 0 else f"Tell me about oak number {place}."
        yield conversation(request, f"{REPLY} Number {place}. " * 3, "And then?", REPLY * 3, number=f"{place:06d}")


def test_twenty_thousand_conversations_take_seconds_and_little_memory(tmp_path: Path) -> None:
    with building(tmp_path) as run:
        made = make_conversations(run, [toy_source(tmp_path)], number=20_000)
        settings = {"kinds": KINDS, "languages": ["English"], "regions": ["US"], "least_words": 20, "most_words": 500}
        before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        easy = select_conversations(run, made, **settings)
        seconds = time.process_time() - started
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert easy.count == 2_000
        assert len(rejected_of(easy)) == 18_000
        assert seconds < 120
        assert grown < 200 * 1_024
