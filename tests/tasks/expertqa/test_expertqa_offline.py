from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import time
from typing import Any

import paths
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from offline_rules import respond, task_of

from longform.llm.ask.fence import unfenced
from longform.llm.ask.prompts import load_prompt
from longform.llm.ask.types import Request
from longform.llm.read.replies import strip_end_mark
from longform.llm.read.structured import read_reply
from schemas.replies import AtomicClaims, Entailment, Judgement
from tasks.expertqa.offline import atomic_claims, content, holds, share, supports

REPO = paths.ROOT
NAMES = ("closed_book", "from_passages", "entails", "break_claim", "judge_fact", "revise")
PROMPTS = {name: load_prompt(f"expertqa/{name}", REPO / "prompts") for name in NAMES}

QUESTION = "How deep should the foundation of a timber house on clay soil be?"
PASSAGES = [
    "Clay soil swells. A strip foundation on clay soil should be at least 0.9 m deep [7]. Is that deep?",
    "My dog likes the garden very much indeed.",
    "Timber houses are lighter than brick ones, so that a foundation may be narrower.\n\n```\nclay soil = 1.\n```",
]


def asking(name: str, *, max_tokens: int = 2048, **inputs: Any) -> Request:
    prompt = PROMPTS[name]
    return Request(prompt.render(form=prompt.forms[0], **inputs), prompt.name, max_tokens)


def reply(name: str, **inputs: Any) -> str:
    text, finish, _, _ = respond(asking(name, **inputs))
    assert finish == "stop"
    stripped = strip_end_mark(text)
    assert stripped is not None
    return stripped


def read(passages: list[str], question: str = QUESTION) -> str:
    return reply("from_passages", field="Architecture", question=question, passages=passages)


# closed book


def test_a_closed_book_answer_hedges_with_words_of_the_question_and_lists_reserved_addresses() -> None:
    text = reply("closed_book", field="Architecture", question=QUESTION)
    body, _, references = text.partition("\n\nReferences:\n")
    urls = re.findall(r"^\[(\d)\] (\S+)$", references, re.MULTILINE)
    assert [number for number, _ in urls] == ["1", "2"]
    assert all(url.startswith("https://example.org/") and url[20:] in QUESTION.lower() for _, url in urls)
    assert set(re.findall(r"\[(\d)\]", body)) == {"1", "2"}
    assert body.count(". ") >= 3
    assert not re.search(r"\d", re.sub(r"\[\d\]", "", body))


def test_closed_book_answers_differ_between_questions_and_samples() -> None:
    texts = {reply("closed_book", field="F", question=f"What is wrong with number {n} of these?") for n in range(40)}
    assert len(texts) > 10
    request = asking("closed_book", field="F", question=QUESTION)
    assert len({respond(request, sample)[0] for sample in range(8)}) > 2


def test_a_question_without_a_word_to_go_by_is_not_known() -> None:
    for question in ("", "Why is it so?", "???", "\n\n"):
        assert reply("closed_book", field="", question=question).startswith("I don't know")


# from passages


def test_an_answer_from_passages_quotes_what_shares_words_with_the_question_with_the_passage_number() -> None:
    text = read(PASSAGES).removesuffix(" Further than that the passages do not go.")
    assert text == (
        "A strip foundation on clay soil should be at least 0.9 m deep [1]. "
        "Timber houses are lighter than brick ones, so that a foundation may be narrower [3]."
    )


def test_the_same_sentence_of_two_windows_is_quoted_once() -> None:
    sentence = "A strip foundation on clay soil should be deep."
    assert read([sentence, sentence]).count("strip") == 1


@pytest.mark.parametrize("passages", [["", ""], [], ["My dog likes the garden very much indeed."], ["?!", "\n"]])
def test_passages_without_a_word_of_the_question_are_not_enough_to_know(passages: list[str]) -> None:
    assert read(passages).startswith("I don't know. ")
    assert "no word in common" in read(passages)


def test_near_passages_without_a_sentence_are_not_enough_to_know() -> None:
    assert read(["Clay soil?"]) == (
        "I don't know. "
        "The passages given here share words with the question, but have no sentence that could be quoted on it."
    )


def test_every_citation_is_the_number_of_a_passage_that_holds_the_sentence() -> None:
    passages = [f"Foundation number {n} of the {word} house is deep in the clay." for n, word in enumerate("abcdefgh")]
    text = read(passages)
    quotes = re.findall(r"(Foundation [^\[]*) \[(\d)\]\.", text)
    assert len(quotes) == 5
    assert all(f"{quote}." == passages[int(number) - 1] for quote, number in quotes)


# verdicts


@pytest.mark.parametrize(
    ("claim", "evidence", "supported"),
    [
        ("A strip foundation on clay is 0.9 m deep [1].", PASSAGES[0], True),
        ("A strip foundation on clay is 0.8 m deep [1].", PASSAGES[0], False),
        ("Dogs like gardens (Passage 2).", PASSAGES[1], True),
        ("Dogs dislike cats.", PASSAGES[1], False),
        ("It costs 1,500 in 2019.", "In 2019 the cost was 1500.", True),
        ("It is so.", "It is so.", False),
        ("[1] https://example.org/clay", "clay 1", False),
        ("2019", "in 2019", True),
        ("", "", False),
        ("Clay swells.", "", False),
    ],
)
def test_a_claim_is_supported_by_two_thirds_of_its_words_and_all_of_its_numbers(
    claim: str, evidence: str, supported: bool
) -> None:
    assert supports(evidence, claim) is supported
    verdict = read_reply(reply("entails", claim=claim, evidence=evidence), Entailment, "tags")
    assert verdict == Entailment(verdict="supported" if supported else "not supported")


def test_shares_are_of_words_without_endings() -> None:
    assert share(content("Storing berries pays."), content("He stored a berry.")) == 2 / 3
    assert share(content("a house"), content("many houses")) == 1.0
    assert share(content("house 3"), content("houses 4")) == 0.0


@pytest.mark.parametrize(
    ("fact", "true"),
    [
        ("Timber houses are lighter than brick ones.", True),
        ("Timber houses are not lighter than brick ones.", False),
        ("A strip foundation on clay soil should be 0.9 m deep.", True),
        ("A strip foundation on clay soil should be 1.9 m deep.", False),
        ("Timber gardens like brick dogs.", False),
        ("", False),
    ],
)
def test_a_fact_is_true_where_one_passage_holds_it_and_does_not_deny_it(fact: str, true: bool) -> None:
    text = reply("judge_fact", fact=fact, passages=PASSAGES)
    assert read_reply(text, Judgement, "tags") == Judgement(verdict="true" if true else "false")


def test_without_passages_nothing_is_true() -> None:
    assert "false" in reply("judge_fact", fact="Clay swells.", passages=[])


def test_a_double_negation_is_none() -> None:
    assert holds("Clay does not swell without water.", "Clay swells water.")
    assert not holds("Clay doesn’t swell in water.", "Clay swells in water.")


# atomic claims


@pytest.mark.parametrize(
    ("claim", "statements"),
    [
        (
            "Lime mortar was common until 1920; it hardens slowly [2].",
            ["Lime mortar was common until 1920.", "It hardens slowly."],
        ),
        (
            "Kegs need gas, ice, and a clean tap [1] [2].",
            ["Kegs need gas.", "Kegs need ice.", "Kegs need a clean tap."],
        ),
        (
            "- **Shear walls** are heavy and should not be pierced.",
            ["Shear walls are heavy.", "Shear walls should not be pierced."],
        ),
        (
            "The keg is cold and contains beer, ale and stout.",
            ["The keg is cold.", "The keg contains beer.", "The keg contains ale.", "The keg contains stout."],
        ),
        ("The pump is old, and it leaks.", ["The pump is old.", "It leaks."]),
        ("The pump is old, but the tap was replaced in 2019.", ["The pump is old.", "The tap was replaced in 2019."]),
        ("The pump, which is old, leaks and drips.", ["The pump, which is old, leaks and drips."]),
        ("One needs salt or pepper.", ["One needs salt or pepper."]),
        ("Hello", ["Hello."]),
        ("[1]", []),
        ("**", []),
        ("", []),
    ],
)
def test_claims_are_taken_apart_at_clauses_verbs_and_lists(claim: str, statements: list[str]) -> None:
    assert atomic_claims(claim) == statements
    parsed = read_reply(reply("break_claim", claim=claim), AtomicClaims, "tags")
    assert parsed == AtomicClaims(atomic_claim=statements)


def test_a_claim_gives_at_most_twenty_statements() -> None:
    listed = "Kegs need " + ", ".join(f"part {n}" for n in range(300)) + " and gas."
    assert len(atomic_claims(listed)) == 20


# revising


def revised(claims: list[str], evidence: list[str], answer: str = "The whole answer.") -> str:
    return reply("revise", question=QUESTION, answer=answer, claims=claims, evidence=evidence)


def test_claims_without_support_go_and_claims_without_evidence_stay_with_their_marks() -> None:
    claims = ["Clay soil swells [1].", "Dogs like cats [2] [3].", "Birds\nfly [4]."]
    assert revised(claims, ["Clay soils swell.", "Dogs bark.", ""]) == "Clay soil swells [1]. Birds fly [4]."


def test_an_answer_whose_claims_all_stay_is_left_in_its_form() -> None:
    answer = "# Clay\n\n- Clay soil swells [1].\n- Birds fly."
    assert revised(["Clay soil swells [1].", "Birds fly."], ["Clay soils swell.", ""], answer) == answer


def test_the_best_claim_stays_where_none_has_support() -> None:
    assert (
        revised(["Dogs like cats.", "Clay soil shrinks slowly [2]."], ["x", "clay"]) == "Clay soil shrinks slowly [2]."
    )


@pytest.mark.parametrize(("claims", "answer"), [(["", "="], "="), ([" "], ""), (["====="], "=====\n=====")])
def test_a_revised_answer_is_never_empty(claims: list[str], answer: str) -> None:
    assert revised(claims, [""] * len(claims), answer) == "Nothing of this answer can be kept."


def test_a_long_answer_without_claims_is_not_kept() -> None:
    request = asking("revise", max_tokens=500, question="q", answer="Clay swells. " * 1_000, claims=[], evidence=[])
    assert respond(request)[0].startswith("Nothing of this answer can be kept.")


def test_a_revised_answer_fits_into_the_limit_of_tokens() -> None:
    claims = [f"Claim number {n} is here." for n in range(400)]
    request = asking(
        "revise", max_tokens=500, question="q", answer=" ".join(claims), claims=claims, evidence=[""] * 400
    )
    text, finish, _, _ = respond(request)
    assert (finish, text[-5:]) == ("stop", "=====")
    assert len(text) > 1_900


# all of them


def requests() -> list[Request]:
    return [
        asking("closed_book", field="Architecture", question=QUESTION),
        asking("from_passages", field="Architecture", question=QUESTION, passages=PASSAGES),
        asking("entails", claim="Clay soil swells [1].", evidence=PASSAGES[0]),
        asking("break_claim", claim="The keg is cold and contains beer, ale and stout."),
        asking("judge_fact", fact="Clay soil swells.", passages=PASSAGES),
        asking("revise", question=QUESTION, answer="A.", claims=["Clay swells [1].", "B"], evidence=["no", ""]),
    ]


def test_the_task_of_each_prompt_is_found_by_its_labels() -> None:
    assert [task_of(request.messages) for request in requests()] == [request.task for request in requests()]


CHILD = """
import hashlib
from tests.tasks.expertqa import test_expertqa_offline as here
print(hashlib.sha256(repr([here.respond(r) for r in here.requests()]).encode()).hexdigest())
"""


@pytest.mark.parametrize("seed", ["0", "4711"])
def test_replies_are_the_same_in_every_process(seed: str) -> None:
    environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": paths.PYTHONPATH}
    ran = subprocess.run([sys.executable, "-c", CHILD], env=environment, capture_output=True, text=True, check=True)
    mine = hashlib.sha256(repr([respond(request) for request in requests()]).encode()).hexdigest()
    assert ran.stdout.strip() == mine


PIECES = (
    *("Clay is good in 2014. ", "It is not so", ". ", "; ", ", and it ", ", but the ", " and is ", "\n", "\n\n", "```"),
    *("- ", "1. ", "`", "**", "[1]", "[1, 2]", "[^1^]", "(Passage 2)", "https://example.org/a ", "# ", "> "),
    *("<atomic_claim>", "</atomic_claim>", "< / Atomic claim >", "<verdict>true</verdict>", "</verdict>", "=====", "<"),
    *("<<<text ", "abcdef012345 text>>>\n", "Claim 9:\n", "Passage 9:\n", "é 12,5 %", "\t", "?", '"', "\ud83d", "水は"),
)
pieces = st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=20).map("".join)


@settings(max_examples=60)
@given(pieces, pieces, pieces)
def test_no_text_breaks_a_reply(one: str, two: str, three: str) -> None:
    assert reply("closed_book", field=one, question=two).strip()
    assert reply("from_passages", field=one, question=two, passages=[three, one, ""]).strip()
    assert isinstance(read_reply(reply("entails", claim=one, evidence=two), Entailment, "tags"), Entailment)
    fact = reply("judge_fact", fact=one, passages=[two, three])
    assert isinstance(read_reply(fact, Judgement, "tags"), Judgement)
    request = asking("break_claim", claim=one)
    broken = read_reply(respond(request)[0], AtomicClaims, "tags")
    ((_, claim),) = unfenced(request.messages[1][1])
    assert isinstance(broken, AtomicClaims)
    whole = claim.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    shown = [text.replace("<", "‹") for text in atomic_claims(whole)]
    assert [text.replace("<", "‹") for text in broken.atomic_claim] == shown
    assert reply("revise", question=one, answer=two, claims=[two, three], evidence=[one, ""]).strip()


PLAIN = (
    "Clay is",
    " Kegs need",
    " gas",
    ", ",
    " and ",
    "; ",
    ", but ",
    ", and it ",
    " swells",
    " has",
    " 2014",
    ".",
    " x",
)


@given(st.lists(st.sampled_from(PLAIN), max_size=25).map("".join))
def test_statements_hold_only_words_of_the_claim(claim: str) -> None:
    known = set(re.findall(r"\w+", claim.lower()))
    assert all(set(re.findall(r"\w+", text.lower())) <= known for text in atomic_claims(claim))


def test_a_tag_in_a_claim_does_not_end_its_statement() -> None:
    text = reply("break_claim", claim="Write </atomic_claim> and <atomic_claim> here.")
    parsed = read_reply(text, AtomicClaims, "tags")
    assert parsed == AtomicClaims(atomic_claim=["Write ‹/atomic_claim> and ‹atomic_claim> here."])


@pytest.mark.parametrize(
    "unit", ["a", ". ", "Clay is. ", " and is ", ", ", "; ", ", but ", "[1", "[1]", "(passage ", "<"]
)
def test_long_hostile_texts_are_answered_in_time(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    started = time.process_time()
    for request in (
        asking("closed_book", field=text, question=text),
        asking("from_passages", field="f", question=text, passages=[text] * 10),
        asking("entails", claim=text, evidence=text),
        asking("break_claim", claim=text),
        asking("judge_fact", fact=text, passages=[text] * 3),
        asking("revise", question="q", answer=text, claims=[text] * 5, evidence=[text, ""] * 2 + [""]),
    ):
        respond(request)
    assert time.process_time() - started < 30
