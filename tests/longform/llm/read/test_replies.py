import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longform.llm.read.replies import cited_passages, strip_end_mark, whole_reply
from longform.llm.send.bodies import read_completion, read_embeddings
from longform.llm.send.faults import fault_of, scrub
from longform.llm.send.secrets import Cleaner


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("An answer.\n=====", "An answer."),
        ("An answer. =====\n\n", "An answer."),
        ("An answer.\n==========", "An answer."),
        ("An answer.\n“=====”", "An answer."),
        ("An answer.\n**=====**", "An answer."),
        ("An answer.\n=====.", "An answer."),
        ('He said "yes"\n=====', 'He said "yes"'),
        ("It is **so**\n=====", "It is **so**"),
        ("Title\n=====\nand text.\n=====", "Title\n=====\nand text."),
        ("\n\n    code\n\ntext\n=====", "    code\n\ntext"),
        ("=====", ""),
        ("<think>\nFirst tea.\n=====\n</think>\n\nAn answer.\n=====", "An answer."),
        ("The tag <think> and </think> stay.\n=====", "The tag <think> and </think> stay."),
        ("<think>First tea.\n=====", "<think>First tea."),
        ("An answ", None),
        ("Title\n=====\nand te", None),
        ("```\n=====\n```", None),
        ("====", None),
        ("", None),
    ],
)
def test_a_reply_without_its_end_mark_is_cut_off(reply: str, text: str | None) -> None:
    assert strip_end_mark(reply) == text


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("Tea is hot.", "Tea is hot."),
        ("Tea is hot [1].\n", "Tea is hot [1]."),
        ("Tea is hot. [1] [2, 3]", "Tea is hot. [1] [2, 3]"),
        ("Tea is hot.[^1^]", "Tea is hot.[^1^]"),
        ('"Tea is hot!"', '"Tea is hot!"'),
        ("**Tea is hot.**", "**Tea is hot.**"),
        ("茶は熱い。", "茶は熱い。"),
        ("चाय गरम है।", "चाय गरम है।"),
        ("Tea is hot ☕", "Tea is hot ☕"),
        ("Tea:\n- green\n- black", "Tea:\n- green\n- black"),
        ("Tea:\n\n1. green\n2) black", "Tea:\n\n1. green\n2) black"),
        ("| tea |\n|---|\n| hot |", "| tea |\n|---|\n| hot |"),
        ("Use this:\n```\nboil(tea)\n```", "Use this:\n```\nboil(tea)\n```"),
        ("It is $$\nt = 100\n$$", "It is $$\nt = 100\n$$"),
        (
            "It is hot [1].\n\nReferences:\n[1] https://a.example/tea",
            "It is hot [1].\n\nReferences:\n[1] https://a.example/tea",
        ),
        ("Hot ([Source](https://a.example/tea))", "Hot ([Source](https://a.example/tea))"),
        ("<think>Hm. Tea.</think>\n\nTea is hot.", "Tea is hot."),
        ("Hm. Is it tea?\n</think>\n\nTea is hot.", "Tea is hot."),
        ("Hm. Is it tea?\n</think>\n\nTea is hot\n=====", "Tea is hot"),
        ("The tag </think> ends a thought.", "The tag </think> ends a thought."),
        ("Tea is hot.\n=====", "Tea is hot."),
        ("Tea is hot [1].\n=====\nAsk away!", "Tea is hot [1]."),
        (
            "Is tea hot?\n=====\nIt is hot, and long may it stay so.",
            "Is tea hot?\n=====\nIt is hot, and long may it stay so.",
        ),
        ("<think>Hm. Tea is hot.", None),
        ("Tea is", None),
        ("Tea is hot [1", None),
        ("- green,", None),
        ("Tea is hot.\n====", None),
        ("Tea is hot:", None),
        ("Dear all, I", None),
        ("", None),
    ],
)
def test_a_reply_that_ends_a_sentence_needs_no_end_mark(reply: str, text: str | None) -> None:
    assert whole_reply(reply) == text


@pytest.mark.parametrize("unit", ["[1] ", ".", "[", " ", ". [1]", '"', "a.\n=====\n", "=", "</think>\n", "- a"])
def test_the_end_of_a_long_hostile_reply_is_found_in_linear_time(unit: str) -> None:
    started = time.process_time()
    whole_reply(unit * (1_000_000 // len(unit)))
    assert time.process_time() - started < 8


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("It does (Passage 4).", [4]),
        ("It does (Passage 4, 5).", [4, 5]),
        ("It does (Passages 5, 4) and again (passage 5).", [5, 4]),
        ("It does (Passage 4 and 5).", [4, 5]),
        ("It does (Passages 4, 5, and 6).", [4, 5, 6]),
        ("It does (Passage 4, Passage 5; passage 6).", [4, 5, 6]),
        ("It does ( Passages 1 & 2 ).", [1, 2]),
        ("Passage 4 says so, [5] too, (see Passage 6).", []),
        ("(Passage four) (Passage ) (Passages)", []),
        ("(Passage 12345678901234567890)", []),
        ("", []),
    ],
)
def test_citations_are_read_as_written_each_once(text: str, numbers: list[int]) -> None:
    assert cited_passages(text) == numbers


@given(st.text(alphabet="(Pasge 4,5and&;)=\n"))
def test_no_reply_breaks_the_reading(text: str) -> None:
    assert all(isinstance(number, int) for number in cited_passages(text))
    stripped = strip_end_mark(text + "\n=====")
    assert stripped is not None


@pytest.mark.parametrize("unit", ["(Passage 1, ", "(passage ", "=", "= ", "(Passage 1 and ", "((((", "(Passages 4,4,"])
def test_long_hostile_replies_are_read_in_linear_time(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    started = time.process_time()
    cited_passages(text)
    strip_end_mark(text)
    assert time.process_time() - started < 8


@given(st.binary() | st.text().map(str.encode))
def test_no_body_breaks_the_reading(body: bytes) -> None:
    assert read_completion(body) is None
    assert read_embeddings(body, 1) is None
    assert fault_of(400, body, Cleaner("some-long-key")).then in ("never", "unsure", "stop")


def test_a_reply_in_parts_and_without_usage_is_read() -> None:
    body = b'{"choices": [{"message": {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}}]}'
    completion = read_completion(body)
    assert completion is not None
    assert (completion.text, completion.finish, completion.tokens) == ("ab", "stop", (0, 0, 0))


def test_half_a_surrogate_pair_is_replaced_so_that_the_text_can_be_written() -> None:
    completion = read_completion(rb'{"choices": [{"message": {"content": "a\ud83db \ud83d\ude00"}}]}')
    assert completion is not None
    assert completion.text == "a�b 😀"


@pytest.mark.parametrize(
    ("status", "body", "then"),
    [
        (429, b'{"error": {"code": "rate_limit_exceeded"}}', "again"),
        (429, b'{"error": {"type": "insufficient_quota", "code": null}}', "stop"),
        (502, b"<html>", "again"),
        (0, b"the connection was lost", "again"),
        (400, b'{"error": {"code": "context_length_exceeded", "param": "messages"}}', "never"),
        (400, b'{"object": "error", "message": "maximum context length is 4096 tokens", "code": 400}', "never"),
        (400, b'{"error": {"code": "unsupported_parameter", "param": "max_tokens"}}', "stop"),
        (422, b'{"detail": [{"loc": ["body"]}]}', "unsure"),
        (400, b'{"error": "bad request"}', "unsure"),
        (404, b'{"error": null}', "stop"),
        (418, b"", "stop"),
    ],
)
def test_what_a_refusal_means(status: int, body: bytes, then: str) -> None:
    assert fault_of(status, body).then == then


def test_a_message_shows_no_key_and_stays_short() -> None:
    text = scrub("bad key abcdefgh-secret\nBearer sk-other-secret-12345 " + "x" * 900, Cleaner("abcdefgh-secret"))
    assert text.startswith("bad key [key] [key]")
    assert len(text) == 300
