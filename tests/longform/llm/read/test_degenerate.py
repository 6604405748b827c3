"""Replies that say nothing: one word, words in no order or again and again, their prompt, that to another question."""

from __future__ import annotations

import random
import re
from html import unescape
from pathlib import Path
from typing import Any

import paths
import pytest
from endpoint_server import Server, says, server

from longform.llm.ask.fence import fenced
from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from longform.llm.models import Models
from longform.llm.read.alike import REMEMBERED
from longform.llm.read.degenerate import degenerate
from longform.llm.read.repeated import Repeats
from longform.llm.retry import Retry
from schemas.replies import Corruption, Entailment

__all__ = ["server"]

SITES = paths.REAL_DATA / "stackexchange"
SENTENCE = "It is important to weigh all of the relevant factors before a decision is made. "
PROSE = (
    "Lime mortar hardens slowly, because it takes up carbon dioxide from the air. Keep the wall damp for a week, shade "
    "it from the sun, and do not paint it within a year: paint shuts the air out. Where frost is near, wait for spring."
)
PROMPT = f"Question:\n{fenced('What is lime mortar, and how long does it take to harden?')}\n\nAnswer it in Markdown."


@pytest.mark.parametrize("text", ["Yes.", "42", "**No**", "`ls`", "unknown", "да", "好的", "はい。", "ใช่"])
def test_one_word_is_no_text(text: str) -> None:
    assert degenerate(text) == "one word"


@pytest.mark.parametrize("text", ["It depends.", "17 °C", "這取決於很多因素。", "先に熱くします", "Ask Kim", ""])
def test_a_few_words_are_a_text(text: str) -> None:
    assert degenerate(text) is None


@pytest.mark.parametrize(
    "text",
    [
        SENTENCE * 5,
        PROSE + " " + SENTENCE * 8,
        PROSE + " " + SENTENCE * 8 + "It is important to we",
        "the answer " * 60,
        "ha" + " ha" * 60,
        "这个问题很复杂。" * 20,
        "- Close the valve.\n" * 30,
        (PROSE + " ") * 6,
    ],
)
def test_the_same_words_over_and_over_are_no_text(text: str) -> None:
    assert degenerate(text) == "the same words over and over"


OTHERS = ["of", "the", "table", "running", "blue", "seven", "however", "never", "matrix"]


def salad(drawn: random.Random, number: int = 90) -> str:
    """Words of a question and a few others in no order."""
    words = [*re.findall(r"[a-z]{4,}", PROSE.lower())[:10], *OTHERS]
    return " ".join(drawn.choice(words) for _ in range(number))


def shuffled(text: str, drawn: random.Random) -> str:
    words = text.split()
    drawn.shuffle(words)
    return " ".join(words)


def test_words_in_no_order_are_no_text() -> None:
    drawn = random.Random(0)
    found = [degenerate(salad(drawn)) for _ in range(200)]
    assert found.count("words in no order") >= 150
    tail = "\n\nReferences:\n[1] https://example.org/lime/mortar\n[2] https://example.org/a.b.c"
    assert [degenerate(salad(drawn) + tail) for _ in range(200)].count("words in no order") >= 150
    long = " ".join([PROSE, SENTENCE, *LINES])
    assert [degenerate(shuffled(long, drawn)) for _ in range(50)].count("words in no order") >= 30
    assert degenerate(f"Keep it damp.\n\n{salad(drawn, 200)}") == "words in no order"


LINES = (  # poetry, a list, and prose in one breath
    "Because the mason did not stop for lime, it kindly stopped for him, and the wall held but just a while the rain",
    "valve of the tap and the pipe of the well and the rope of the bell and the door of the house that the men built",
    "He said that he had gone to the well with the rope that his father had left in the barn when the men went to war",
)


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(LINES),
        " ".join(LINES),
        "\n".join(f"- copper pipe size {n} of the old kind" for n in range(60)),
        "Jabberwocky begins so. " + "a the of the and is the of " * 3,  # fewer words than a salad
        f"Vitamin A and iron are in it, and what of the The Hague trials, and of is and or? {PROSE} {PROSE.upper()}",
        "Die Fässer lagern bei zwölf Grad in einem Keller unter dem Brauhaus und der Braumeister prüft jeden Morgen ob "
        "die Hefe noch arbeitet und wer das Bier zu früh abfüllt verliert einen großen Teil des Geschmacks und muss es "
        "am Ende wieder wegschütten weil es keiner mehr trinken will",
        "ไม่มีเครื่องหมาย " * 3 + " ".join(chr(0xE01 + n % 40) * 5 + chr(0xE01 + n * 7 % 40) for n in range(90)),
        "select name from casks\nwhere litres\nis not null\n"
        + "\n".join(f"    mov a of the of is {n}" for n in range(60)),
    ],
)
def test_poems_lists_long_sentences_and_scripts_without_marks_are_texts(text: str) -> None:
    assert degenerate(text) is None


@pytest.mark.parametrize(
    "text",
    [
        PROSE,
        SENTENCE * 2,
        f"{PROSE}\n\n```\n{'0 0 0 0 1 0 0 0' * 80}\n```",
        f"{PROSE}\n\n" + "| a b | c d | a b | c d |\n" * 40,
        f"{PROSE}\n\n" + "".join(f"[{n}] https://example.org/lime/mortar/{n}\n" for n in range(40)),
        f"{PROSE}\n\n" + "    add r1, r2\n" * 60,
    ],
)
def test_tables_code_and_references_may_repeat_themselves(text: str) -> None:
    assert degenerate(text) is None


def test_words_drawn_by_chance_are_no_loop_and_a_few_that_come_again_and_again_are() -> None:
    drawn = random.Random(0)
    words = ["".join(drawn.choices("abcdefgh", k=6)) for _ in range(400)]
    assert degenerate(" ".join(drawn.choices(words, k=300))) != "the same words over and over"
    for period in (1, 7, 30, 50):
        assert degenerate(" ".join(words[:period] * (400 // period))) is not None


def test_a_text_of_the_prompt_is_no_reply() -> None:
    question = "What is lime mortar, and how long does it take to harden?"
    for text in (PROMPT, question, question.replace("long ", "long\n"), "Answer it in Markdown."):
        assert degenerate(text, PROMPT) == "a text of the prompt", text
    assert degenerate(f"I was asked:\n\n{PROMPT}\n\nAnd this is it.", PROMPT) == "a text of the prompt"
    assert degenerate(f"What is lime mortar? {PROSE}", PROMPT) is None


def test_answers_of_real_people_are_not_degenerate() -> None:
    if not SITES.exists():
        pytest.skip("the sites are not here")
    texts = [
        unescape(re.sub("<[^>]+>", "", unescape(body)))
        for path in sorted(SITES.glob("*_20*/Posts.xml"))
        for body in re.findall(r'PostTypeId="2"[^>]*? Body="([^"]*)"', path.read_text("utf-8-sig"))
    ]
    assert len(texts) > 1_900
    assert [text for text in texts if text.strip() and degenerate(text)] == []


# replies


def asked(home: Path, server: Server, request: Request, **options: Any) -> Answer | Failure:
    endpoint = Endpoint("mine", "m", base_url=f"http://127.0.0.1:{server.server_address[1]}/v1")
    with Models(home / "responses.sqlite", **options) as models:
        ((_, answer),) = models.client(endpoint).ask([(None, request)])
    return answer


def question(text: str = PROMPT, **more: Any) -> Request:
    return Request((("user", text),), task="x", whole=True, **more)


@pytest.mark.parametrize("text", ["Yes.", SENTENCE * 12, PROMPT, "Answer it in Markdown."])
def test_such_a_reply_is_a_failure_bought_once_and_asked_again_if_wanted(
    text: str, tmp_path: Path, server: Server
) -> None:
    server.fails = says(f"{text}\n=====")
    for _ in range(2):
        reply = asked(tmp_path, server, question())
        assert isinstance(reply, Failure)
        assert reply.kind == "degenerate"
    assert sum(server.bodies.values()) == 1
    server.fails = says(f"{PROSE}\n=====")
    assert isinstance(asked(tmp_path, server, question(), retry=Retry.of(["x:degenerate"])), Failure)
    assert isinstance(asked(tmp_path, server, question(), retry=Retry.of(True)), Answer)


def test_what_may_copy_or_abstain_is_an_answer_all_the_same(tmp_path: Path, server: Server) -> None:
    server.fails = says("Answer it in Markdown.\n=====")
    assert isinstance(asked(tmp_path, server, question(copies=True)), Answer)
    server.fails = says("Unknown.\n=====")
    assert isinstance(asked(tmp_path, server, question("Q", abstains=lambda text: text == "Unknown.")), Answer)


def test_a_text_within_a_structured_reply_is_judged_and_a_verdict_is_not(tmp_path: Path, server: Server) -> None:
    server.fails = says("<verdict>supported</verdict>\n=====")
    assert isinstance(asked(tmp_path, server, question("Q", reply=Entailment, form="tags")), Answer)
    server.fails = says(
        "<claim>Tin melts at 232 degrees.</claim><corrupted_claim>At 332.</corrupted_claim>"
        "<corrupted_answer>Wrong.</corrupted_answer>\n====="
    )
    reply = asked(tmp_path, server, question("R", reply=Corruption, form="tags"))
    assert isinstance(reply, Failure)
    assert reply.kind == "degenerate"


# ---------------------------------------------------------------- the reply to another question


def reply(text: str) -> Answer:
    return Answer(text, "key", "m", "stop", 1, 1, value=text)


def kinds(pairs: list[tuple[Request, str]]) -> list[str | None]:
    repeats = Repeats()
    found = [repeats.checked(request, reply(text)) for request, text in pairs]
    return [each.kind if isinstance(each, Failure) else None for each in found]


def test_how_many_replies_repeat_one_does_not_depend_on_their_order() -> None:
    pairs = [(question(f"Q{n}"), ("Salt." if n % 3 else f"Sugar {n}.")) for n in range(30)]
    drawn = random.Random(1)
    for _ in range(10):
        drawn.shuffle(pairs)
        assert kinds(pairs).count("repeated") == 19


TEMPLATE = (
    "The matter of {0} depends on several factors such as context and resources [1]. Specialists should review the "
    "guidelines before they decide [2]. Careful documentation reduces errors [1]. Costs should be weighed against "
    "benefits [2]."
)
NAMES = ["lime", "tin", "casks", "wax", "yeast", "rope", "bells", "ink", "salt", "rust", "glass", "felt"]


def test_replies_with_a_word_or_two_exchanged_repeat_each_other() -> None:
    assert kinds([(question(f"Q{n}"), TEMPLATE.format(name)) for n, name in enumerate(NAMES)]) == [
        None, None, *["repeated"] * 10
    ]  # fmt: skip
    both = [f"{TEMPLATE.format(name)} {PROSE} It is the same with {name}, to be sure." for name in NAMES]
    assert kinds([(question(f"Q{n}"), text) for n, text in enumerate(both)]).count("repeated") == 10
    chinese = [
        f"关于{n}的问题取决于许多因素，例如环境和资源。专家在做出决定之前应当查阅指南。认真记录可以减少错误。"
        for n in "锡铅铜金"
    ]
    assert kinds([(question(f"Q{n}"), text) for n, text in enumerate(chinese)]).count("repeated") == 2


def test_texts_that_share_phrases_or_take_their_words_from_their_prompts_do_not_repeat_each_other() -> None:
    own = "{0} of all kinds was made by hand in these parts until the last works closed and took its secrets along."
    mixed = [
        f"{TEMPLATE.format(name)} {own.format(name)} {' '.join(f'{name}{n} stands' for n in range(20))}"
        for name in NAMES
    ]
    assert kinds([(question(f"Q{n}"), text) for n, text in enumerate(mixed)]).count("repeated") == 0
    edited = [TEMPLATE.format(name) for name in NAMES]
    assert kinds([(question(f"Edit this: {text}"), text[:-5]) for text in edited]).count("repeated") == 0
    assert kinds([(question(f"Q{n}"), TEMPLATE.format(name)) for n, name in enumerate(NAMES[:2])]) == [None, None]
    assert kinds([(question("Q"), TEMPLATE.format(name)) for name in NAMES]) == [None] * 12
    short = [(question(f"Q{n}"), f"It melts at {n} degrees, as all of its kind do.") for n in range(9)]
    assert kinds(short) == [None] * 9


def test_memory_of_replies_is_bounded_and_a_repeat_among_thousands_is_found() -> None:
    repeats, found = Repeats(), []
    for n in range(6_000):
        words = random.Random(n)
        text = TEMPLATE.format(n) if n % 9 == 0 else " ".join(str(words.randrange(900)) for _ in range(40))
        found.append(isinstance(repeats.checked(question(f"Q{n}"), reply(text)), Failure))
    assert sum(found) == len(range(0, 6_000, 9)) - 2
    assert len(repeats._sketches._known) == REMEMBERED
    assert len(repeats._sketches._holders) <= REMEMBERED * 32


def test_answers_of_real_people_do_not_repeat_each_other() -> None:
    if not SITES.exists():
        pytest.skip("the sites are not here")
    texts = [
        unescape(re.sub("<[^>]+>", "", unescape(body)))
        for path in sorted(SITES.glob("*_20*/Posts.xml"))
        for body in re.findall(r'PostTypeId="2"[^>]*? Body="([^"]*)"', path.read_text("utf-8-sig"))
    ]
    assert kinds([(question(f"Q{n}"), text) for n, text in enumerate(dict.fromkeys(texts))]).count("repeated") <= 3


def test_the_same_question_one_subject_and_abstentions_repeat_nothing() -> None:
    assert kinds([(question("Q"), PROSE), (question("Q"), PROSE)]) == [None, None]
    assert kinds([(question("Q"), PROSE), (question("R"), PROSE.upper().replace(" ", "\n"))]) == [None, "repeated"]
    of_one = [(question(text, subject="q/1"), PROSE) for text in "QR"]
    assert kinds([*of_one, (question("Q", subject="q/2"), PROSE)]) == [None, None, "repeated"]
    assert kinds([(question(text, abstains=lambda _: True), "I don't know.") for text in "QR"]) == [None, None]


def test_repeated_replies_are_asked_again_if_wanted_but_the_first(tmp_path: Path, server: Server) -> None:
    endpoint = Endpoint("mine", "m", base_url=f"http://127.0.0.1:{server.server_address[1]}/v1")
    server.fails = says(f"{PROSE}\n=====")
    for retry, sent in ((None, 5), (None, 0), ("stage:empty", 0), ("stage:repeated", 4)):
        before = sum(server.bodies.values())
        with Models(tmp_path / "responses.sqlite", retry=Retry.of([retry] if retry else None)) as models:
            client = models.client(endpoint, stage="stage", recipe="r")
            assert len(list(client.ask((n, question(f"Question {n}?")) for n in range(5)))) == 5
        assert sum(server.bodies.values()) - before == sent
