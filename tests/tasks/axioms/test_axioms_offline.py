import hashlib
import subprocess
import sys
import time
from typing import Any

import paths
import pytest
from hypothesis import given
from hypothesis import strategies as st
from offline_rules import respond

from longform.errors import UsageError
from longform.llm.ask.prompts import load_prompt
from longform.llm.ask.types import Request
from longform.llm.read.replies import cited_passages, strip_end_mark
from longform.llm.read.structured import read_reply
from schemas.replies import Corruption
from tasks.axioms.corruption import corrupt
from tasks.text.prose import blocks, sentences

FOLDER = paths.ROOT / "prompts"
REPO = paths.ROOT
PROMPTS = {name: load_prompt(f"axioms/{name}", FOLDER) for name in ("open_book", "closed_book", "corrupt", "combine")}

QUESTION = "How long does an opened keg of beer keep?\n\nI poured half of it on Friday."
PASSAGES = [
    "Kegs are made of steel. An opened keg of beer keeps for six weeks if it stays cold. Is that long?",
    "My dog likes the garden very much indeed.",
    "With a hand pump, air gets into the keg, and the beer goes flat after 12 hours.\n\n"
    "```\nkeg beer opened keep = 1.\n```",
]
ANSWER = (
    "It depends on the tap. An opened keg of beer keeps for 6 weeks in the cold (Passage 1). "
    "Beer from the Pilsen brewery is not pasteurised. In 1842 it was brewed by Josef Groll in Pilsen."
)


def asking(name: str, *, max_tokens: int = 2048, **inputs: Any) -> Request:
    prompt = PROMPTS[name]
    return Request(prompt.render(form=prompt.forms[0], **inputs), prompt.name, max_tokens)


def reply(name: str, **inputs: Any) -> str:
    text, finish, _, _ = respond(asking(name, **inputs))
    assert finish == "stop"
    stripped = strip_end_mark(text)
    assert stripped is not None
    return stripped


def corrupted(answer: str, passages: list[str] | None = None) -> Corruption:
    text = reply("corrupt", question=QUESTION, passages=passages or PASSAGES, answer=answer)
    parsed = read_reply(text, Corruption, "tags")
    assert isinstance(parsed, Corruption)
    return parsed


def corrupted_claims(sentence: str, first_draw: int, evidence: str = "") -> list[str]:
    """The corrupted claims of a sentence. `first_draw` 0 begins with numbers, 1 with opposites, 2 with names."""
    return corrupt(sentence, evidence, bytes([0, first_draw] * 16), read=20_000)[1]


# open book


def test_an_open_book_answer_quotes_the_sentences_nearest_to_the_question_and_cites_them() -> None:
    text = reply("open_book", question=QUESTION, passages=PASSAGES)
    frame, quotes = text.split("\n\n")
    assert frame.endswith(":")
    assert quotes == (
        "An opened keg of beer keeps for six weeks if it stays cold (Passage 1). "
        "With a hand pump, air gets into the keg, and the beer goes flat after 12 hours (Passage 3)."
    )


def test_two_passages_are_quoted_even_if_one_alone_is_near_the_question() -> None:
    near = " ".join(
        f"The opened keg of beer number {n} will keep long enough."
        for n in ["one", "two", "three", "four", "five", "six"]
    )
    text = reply("open_book", question=QUESTION, passages=[near, "My dog likes the garden very much indeed."])
    assert cited_passages(text) == [1, 2]


def test_passages_without_a_sentence_give_an_answer_without_quotation() -> None:
    text = reply("open_book", question=QUESTION, passages=["```\nkeg = beer\n```", "Why?"])
    assert text == "The passages given here say nothing that could be quoted on this question."


# closed book


def test_a_closed_book_answer_hedges_with_the_words_of_the_question_and_cites_nothing() -> None:
    text = reply("closed_book", question=QUESTION)
    quoted = text.split('"')[1]
    assert quoted in QUESTION
    assert cited_passages(text) == []
    assert not any(sign.isdigit() for sign in text)


def test_closed_book_answers_differ_between_questions() -> None:
    texts = {reply("closed_book", question=f"What is wrong with number {n} of this?") for n in range(40)}
    assert len(texts) > 10


# corrupt


def test_claims_are_sentences_of_the_answer_and_the_rewritten_answer_has_exactly_the_changes() -> None:
    found = corrupted(ANSWER)
    assert found.claim == [
        "It depends on the tap.",
        "An opened keg of beer keeps for 6 weeks in the cold (Passage 1).",
        "Beer from the Pilsen brewery is not pasteurised.",
        "In 1842 it was brewed by Josef Groll in Pilsen.",
    ]
    kept = [claim for claim in found.claim if claim in found.corrupted_answer]
    assert len(found.corrupted_claim) == 2
    assert len(kept) == 2
    assert all(claim in found.corrupted_answer and claim not in ANSWER for claim in found.corrupted_claim)
    rebuilt = iter(found.corrupted_claim)
    assert found.corrupted_answer == " ".join(claim if claim in kept else next(rebuilt) for claim in found.claim)


def test_a_number_becomes_another_number_but_a_citation_stays() -> None:
    ((changed),) = corrupted_claims("See (Passage 4): the keg keeps for 6 weeks.", 0)
    assert changed.startswith("See (Passage 4): the keg keeps for ")
    assert changed.endswith(" weeks.")
    assert changed.split()[-2] in set("1234578" + "9")


def test_a_year_stays_a_year_of_its_century() -> None:
    (changed,) = corrupted_claims("It was first brewed in 1842 by monks.", 0)
    assert changed[23:25] == "18"
    assert changed[25] != "4"
    assert changed[26:] == "2 by monks."


@pytest.mark.parametrize(
    ("claim", "changed"),
    [
        ("The cold beer cannot be stored.", {"The hot beer cannot be stored.", "The cold beer can be stored."}),
        ("Beer is not made from grapes.", {"Beer is made from grapes."}),
        ("Beer is made from barley malt.", {"Beer is not made from barley malt."}),
        ("It never helps to shake the keg.", {"It always helps to shake the keg."}),
        (
            "Warm beer doesn't taste like this.",
            {"Cool beer doesn't taste like this.", "Warm beer does taste like this."},
        ),
        ("More malt makes more foam here.", {"Less malt makes more foam here.", "More malt makes less foam here."}),
    ],
)
def test_a_claim_becomes_its_opposite(claim: str, changed: set[str]) -> None:
    assert set(corrupted_claims(claim, 1)) <= changed
    assert corrupted_claims(claim, 1)


def test_a_name_becomes_another_name_of_the_evidence() -> None:
    evidence = "They say that Josef Groll and a man called Anton Dreher knew it."
    assert set(corrupted_claims("The recipe came from Gabriel Sedlmayr himself.", 2, evidence)) <= {
        "The recipe came from Josef Groll himself.",
        "The recipe came from Anton Dreher himself.",
    }
    assert corrupted_claims("The recipe came from Gabriel Sedlmayr himself.", 2, evidence)


def test_an_answer_without_a_claim_comes_back_unchanged_with_an_empty_claim() -> None:
    answer = "Why do you ask?\n\n```python\nkeg = 4  # it is not a claim.\n```\n\n## Beer is not good at all times"
    text = reply("corrupt", question=QUESTION, passages=PASSAGES, answer=answer)
    assert text.startswith("<claim></claim>\n<corrupted_answer>")
    assert corrupted(answer) == Corruption(claim=[], corrupted_claim=[], corrupted_answer=answer)


MARKDOWN = """# Beer is not 4 things

The keg of `beer is 4.0` is opened with [a tap](http://is.not/4) and was filled in 2014 by hand.

```sh
keg --is not --for 4 weeks. It was never so in 2014.
```

- It is always better to keep 12 kegs than one.
- Many kegs are not made of steel today.

    indented = "is 4 not 5. It was always so."

| is | 4 | never | it was so in 2014 |
|----|---|-------|-------------------|

> It was not said in 2014 that this is so.
"""


def test_code_links_tables_headings_and_quotations_stay_as_they_are() -> None:
    answer = MARKDOWN.strip()
    found = corrupted(answer)
    assert len(found.claim) == 3
    assert found.corrupted_answer != answer
    changed = set(answer.split("\n")) - set(found.corrupted_answer.split("\n"))
    assert all(line.startswith(("The keg", "- ")) for line in changed)
    assert "`beer is 4.0`" in found.corrupted_answer
    assert "[a tap](http://is.not/4)" in found.corrupted_answer


# combine


def test_combined_answers_keep_order_blocks_and_say_nothing_twice() -> None:
    first = "Keep the keg cold.\n\n```\ncold = 4.0\n\nkeg. Cold.\n```\n\n- one thing\n- another thing"
    second = "Keep the keg very cold. An opened keg of beer keeps longer under gas. My cat is called Paul."
    text = reply("combine", question=QUESTION, first=first, second=second)
    assert text == f"{first}\n\nAn opened keg of beer keeps longer under gas."


def test_an_unclosed_code_block_of_the_first_answer_does_not_swallow_the_second() -> None:
    text = reply("combine", question=QUESTION, first="Run this:\n\n```\ntap --open", second="The beer keeps for weeks.")
    assert text == "Run this:\n\n```\ntap --open\n```\n\nThe beer keeps for weeks."


def test_a_combined_answer_fits_into_the_limit_of_tokens() -> None:
    made = [hashlib.sha256(str(n).encode()).hexdigest() for n in range(200)]
    texts = [" ".join(f"It {word[:9]} an {word[9:20]}." for word in half) for half in (made[:100], made[100:])]
    text, finish, _, output = respond(
        asking("combine", max_tokens=300, question=QUESTION, first=texts[0], second=texts[1])
    )
    assert (finish, text[-5:]) == ("stop", "=====")
    assert 200 < output <= 300


# all of them


def test_a_reply_that_does_not_fit_is_cut_off_like_a_real_one() -> None:
    text, finish, _, output = respond(asking("corrupt", max_tokens=50, question="q", passages=[], answer=ANSWER * 9))
    assert (finish, len(text), output) == ("length", 200, 50)
    assert strip_end_mark(text) is None


def test_tokens_are_counted_at_four_characters_each() -> None:
    request = asking("closed_book", question="Why?")
    text, _, read, written = respond(request)
    characters = sum(len(content) for _, content in request.messages)
    assert 4 * read - 4 < characters <= 4 * read
    assert 4 * written - 4 < len(text) <= 4 * written


def test_an_unknown_task_is_an_error_that_names_what_there_is() -> None:
    with pytest.raises(UsageError, match="no rule for axioms/judge, only for axioms/open_book"):
        respond(Request((("user", "hello"),), "axioms/judge"))


def test_a_prompt_without_its_labels_is_an_error_that_names_the_label() -> None:
    with pytest.raises(UsageError, match='no fenced text under "Question:" in prompt axioms/closed_book'):
        respond(Request((("user", "Why is the sky blue?"),), "axioms/closed_book"))


def requests() -> list[Request]:
    return [
        asking("open_book", question=QUESTION, passages=PASSAGES),
        asking("closed_book", question=QUESTION),
        asking("corrupt", question=QUESTION, passages=PASSAGES, answer=ANSWER + "\n\n" + MARKDOWN),
        asking("combine", question=QUESTION, first=ANSWER, second=MARKDOWN),
    ]


CHILD = """
import hashlib, sys
from tests.tasks.axioms import test_axioms_offline as t
print(hashlib.sha256(repr([t.respond(r) for r in t.requests()]).encode()).hexdigest())
"""


@pytest.mark.parametrize("seed", ["0", "4711"])
def test_replies_are_the_same_in_every_process(seed: str) -> None:
    environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": paths.PYTHONPATH}
    ran = subprocess.run([sys.executable, "-c", CHILD], env=environment, capture_output=True, text=True, check=True)
    here = hashlib.sha256(repr([respond(request) for request in requests()]).encode()).hexdigest()
    assert ran.stdout.strip() == here


PIECES = (
    *(
        "Beer is good in 2014. ",
        "It is not so",
        ". ",
        "\n",
        "\n\n",
        "```",
        "- ",
        "1. ",
        "    ",
        "`",
        "*",
        "**",
        "[a](b)",
    ),
    *(
        "# ",
        "> ",
        "<claim>",
        "</corrupted_answer>",
        "<<<text ",
        "=====",
        "\n---\n",
        "~~~\n",
        "é 12,5 %",
        "\t",
        "?",
        "|",
    ),
)
pieces = st.sampled_from(PIECES)
markdown = st.lists(pieces | st.text(max_size=6), max_size=30).map("".join)


@given(question=markdown, passages=st.lists(markdown, max_size=3), first=markdown, second=markdown)
def test_no_text_breaks_a_reply(question: str, passages: list[str], first: str, second: str) -> None:
    reply("open_book", question=question, passages=passages)
    reply("closed_book", question=question)
    reply("combine", question=question, first=first, second=second)
    text = reply("corrupt", question=question, passages=passages, answer=first)
    parsed = read_reply(text, Corruption, "tags")
    assert isinstance(parsed, Corruption) or not first.strip()


@given(answer=markdown, evidence=markdown, dice=st.binary(min_size=32, max_size=32))
def test_the_answer_changes_exactly_where_claims_were_corrupted(answer: str, evidence: str, dice: bytes) -> None:
    claims, changed, rewritten = corrupt(answer, evidence, dice, read=20_000)
    assert (rewritten != answer) == bool(changed)
    assert len(changed) <= (len(claims) + 1) // 2
    assert [b.kind for b in blocks(answer)] == [b.kind for b in blocks(rewritten)]
    code = [answer[b.start : b.end] for b in blocks(answer) if b.kind in ("code", "other")]
    assert code == [rewritten[b.start : b.end] for b in blocks(rewritten) if b.kind in ("code", "other")]
    flat = " ".join(rewritten.split())
    assert all(claim in flat for claim in changed)


@given(markdown)
def test_blocks_and_sentences_lie_in_order_and_blocks_cover_all_text(text: str) -> None:
    found = blocks(text)
    bounds = [bound for block in found for bound in (block.start, block.end)]
    assert bounds == sorted(bounds)
    covered = "".join(text[block.start : block.end] for block in found)
    assert "".join(covered.split()) == "".join(text.split())
    spans = sentences(text)
    assert all(text[span.start : span.end].strip() == text[span.start : span.end] != "" for span in spans)


HOSTILE = [
    "a",
    ". ",
    "Aa. ",
    "is 4 not ",
    "```\n",
    "- a\n",
    "[",
    "](",
    "`a",
    "(Passage ",
    "$a",
    "<",
    "\n",
    " ",
    "A b Cc ",
    "# ",
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_long_hostile_texts_are_answered_in_time(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    started = time.process_time()
    for request in (
        asking("open_book", question=text, passages=[text]),
        asking("closed_book", question=text),
        asking("corrupt", question="q", passages=[text], answer=text),
        asking("combine", question="q", first=text, second=text),
    ):
        respond(request)
    assert time.process_time() - started < 10


def test_corrupting_700_characters_takes_less_than_a_millisecond_even_on_a_busy_machine() -> None:
    request = asking("corrupt", question=QUESTION, passages=PASSAGES, answer=(ANSWER * 4)[:700])
    best = min(_timed(request) for _ in range(20))
    assert best < 0.001


def _timed(request: Request) -> float:
    started = time.process_time()
    respond(request)
    return time.process_time() - started
