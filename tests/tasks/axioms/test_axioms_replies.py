import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longform.llm.read.structured import read_reply
from schemas.replies import Corruption


def parse_corruption(text: str) -> Corruption | str:
    read = read_reply(text, Corruption, "tags")
    assert isinstance(read, Corruption | str)
    return read


GOOD = """
<claim>Casks are served at 12 degrees.</claim>
<claim>Kegs hold
50 litres.</claim>
<corrupted_claim>Casks are served at 2 degrees.</corrupted_claim>
<corrupted_answer>
Casks are served at 2 degrees.

    $ code
</corrupted_answer>
"""


def test_claims_corrupted_claims_and_answer_are_read() -> None:
    assert parse_corruption(GOOD) == Corruption(
        claim=["Casks are served at 12 degrees.", "Kegs hold 50 litres."],
        corrupted_claim=["Casks are served at 2 degrees."],
        corrupted_answer="Casks are served at 2 degrees.\n\n    $ code",
    )


def test_case_white_space_and_spelling_of_the_tags_do_not_matter() -> None:
    loose = GOOD.replace("<claim>", "< Claim >").replace("</claim>", "</CLAIM>")
    loose = loose.replace("corrupted_claim", "CorruptedClaim").replace("<corrupted_answer>", "<Corrupted Answer >")
    assert parse_corruption(loose) == parse_corruption(GOOD)


def test_an_answer_without_claims_has_an_empty_list() -> None:
    reply = "<claim></claim>\n<corrupted_answer>Well, it depends.</corrupted_answer>"
    assert parse_corruption(reply) == Corruption(claim=[], corrupted_claim=[], corrupted_answer="Well, it depends.")


def test_tags_inside_the_answer_are_text_of_the_answer() -> None:
    inside = "Write <claim>this</claim> and </corrupted_answer>, then <corrupted_answer>."
    parsed = parse_corruption(f"<claim>a</claim><corrupted_answer>{inside}</corrupted_answer>")
    assert isinstance(parsed, Corruption)
    assert (parsed.claim, parsed.corrupted_answer) == (["a"], inside)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("I will not do this.", "no corrupted answer in the reply"),
        ("<claim>a</claim><corrupted_answer>cut", "the corrupted answer is not closed"),
        ("<claim>a</claim><corrupted_answer> \n </corrupted_answer>", "the corrupted answer is empty"),
        ("<corrupted_answer>text</corrupted_answer>", "no claim tags in the reply"),
        ("<claim>a<corrupted_answer>text</corrupted_answer>", "no claim tags in the reply"),
        ("<corrupted_claim>a</corrupted_claim><corrupted_answer>b</corrupted_answer>", "no claim tags in the reply"),
    ],
)
def test_an_unreadable_corruption_reply_has_a_reason(reply: str, reason: str) -> None:
    assert parse_corruption(reply) == reason


tags = st.sampled_from(["<claim>", "</claim>", "<corrupted_claim>", "</corrupted_claim>", "<corrupted_answer>"])
noise = st.lists(tags | st.just("</corrupted_answer>") | st.text(max_size=5)).map("".join)


@given(noise)
def test_parsing_never_raises_for_any_reply(reply: str) -> None:
    assert isinstance(parse_corruption(reply), Corruption | str)


@pytest.mark.parametrize("unit", ["<claim>", "<", "< ", "<corrupted_answer>", "</claim>", "<corrupted_answer></"])
def test_long_hostile_replies_are_read_in_linear_time(unit: str) -> None:
    started = time.process_time()
    parse_corruption(unit * (1_000_000 // len(unit)))
    assert time.process_time() - started < 8
