import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.text.passages import CODE_LIMIT, cut


def prose(n, word="word"):
    return " ".join([word] * n)


def code(n, fence="```"):
    return f"{fence}py\n" + "x = 1\n" * n + fence  # 1 + 3 * n + 1 words


def sizes(passages):
    return [len(passage.split()) for passage in passages]


def test_a_short_text_is_one_passage_as_it_is():
    text = "# Tea\n\nSteep *two* minutes.\n\n```\nboil()\n\n  wait()\n```\n\n- green\n- black"
    assert cut(text) == [text]


def test_a_blank_text_has_no_passages():
    assert cut("") == cut(" \n\n\t\n") == []


def test_paragraphs_fill_a_passage_as_far_as_they_go():
    text = "\n\n".join([prose(50, "a"), prose(60, "b"), prose(20, "c"), prose(90, "d")])
    first, second = cut(text)
    assert first == prose(50, "a") + "\n\n" + prose(60, "b")
    assert second == prose(20, "c") + "\n\n" + prose(90, "d")


def test_a_paragraph_is_not_cut_where_it_fits_into_the_next_passage():
    assert cut(f"{prose(100)}\n\n{prose(30)}") == [prose(100), prose(30)]


def test_a_long_list_is_cut_between_its_items():
    items = [f"- {prose(49, 'abc'[i % 3])}" for i in range(5)]
    assert cut("\n".join(items)) == ["\n".join(items[:2]), "\n".join(items[2:4]), items[4]]


def test_a_long_line_is_cut_between_its_sentences():
    sentences = [prose(49, "a") + " stop.", prose(49, "b") + " stop?", prose(49, "c") + " stop!", "End."]
    assert cut(" ".join(sentences)) == [" ".join(sentences[:2]), " ".join(sentences[2:])]


def test_a_long_sentence_is_cut_between_words():
    assert sizes(cut(prose(290))) == [120, 120, 50]
    assert cut("a b c d e", words=2) == ["a b", "c d", "e"]


def test_code_stays_whole_with_its_blank_lines_and_indents():
    block = "```py\n    if x:\n\n\n        y()\n```"
    passages = cut(f"{prose(118)}\n\n{block}\n\n{prose(119)}")
    assert passages == [prose(118), block, prose(119)]


@pytest.mark.parametrize("fence", ["```", "~~~", "`````"])
def test_code_stays_whole_up_to_its_limit_and_is_cut_at_lines_above(fence):
    whole = code((CODE_LIMIT * 120 - 2) // 3, fence)
    assert cut(whole) == [whole]
    longer = code(CODE_LIMIT * 120 // 3 + 1, fence)
    passages = cut(longer)
    assert len(passages) > CODE_LIMIT
    assert max(sizes(passages)) <= 120
    assert "\n".join(passages) == longer


def test_code_in_lists_and_quotes_and_after_a_paragraph_is_code():
    for opening, end in [
        ("- ```\n", "\n  ```"),
        ("> ```\n", "\n> ```"),
        ("1. ~~~\n", "\n   ~~~"),
        ("So:\n```\n", "\n```"),
    ]:
        block = opening + "a b c d\n\n" * 40 + end.lstrip("\n")
        assert len(cut(f"{prose(119)}\n\n{block}")) <= 3, opening
        assert max(sizes(cut(block))) >= 160, opening


def test_inline_code_and_shorter_fences_open_and_close_nothing():
    inline = "\n\n".join(["```not a fence```"] * 100)
    assert max(sizes(cut(inline))) <= 120
    inner = "`````\n" + "```\nx y\n" * 50 + "`````"
    assert cut(inner) == [inner]


def test_a_heading_stays_with_what_it_heads():
    text = f"{prose(110)}\n\n## How\n\n{prose(115)}"
    assert cut(text) == [prose(110), f"## How\n\n{prose(115)}"]
    assert cut(f"# Top\n\n{prose(120)}\n\nend") == [f"# Top\n\n{prose(120)}", "end"]


def test_a_hash_inside_a_line_is_no_heading():
    assert cut("a b # c d", words=3) == ["a b #", "c d"]
    assert cut("a # b c", words=2) == ["a #", "b c"]


def test_many_headings_are_cut_too():
    assert max(sizes(cut("## a b\n\n" * 500))) <= 123


MARKDOWN = st.lists(
    st.sampled_from(
        [
            "word",
            "Stop.",
            " ",
            "\n",
            "\n\n",
            "```",
            "~~~",
            "`",
            "# ",
            "> ",
            "- ",
            "1. ",
            "    ",
            "\t",
            "é!",
            "\r\n",
            "|",
            "\x85",
        ]
    ),
    max_size=120,
).map("".join)


@given(MARKDOWN, st.integers(1, 9))
def test_no_word_is_lost_or_changed_and_every_passage_is_a_slice(text, words):
    passages = cut(text, words=words)
    assert " ".join(passages).split() == text.split()
    place = 0
    for passage in passages:
        assert passage.strip()
        place = text.index(passage, place) + len(passage)


@given(MARKDOWN, st.integers(1, 9))
def test_only_code_and_headings_make_a_passage_longer(text, words):
    heading = max((len(line.split()) for line in text.split("\n") if re.match(r"#{1,6}[ \t]", line)), default=0)
    limit = words * (CODE_LIMIT if "```" in text or "~~~" in text else 1) + min(heading, words)
    assert max(sizes(cut(text, words=words)), default=0) <= limit


@pytest.mark.parametrize(
    "unit", ["a", "a ", "\n", ". ", "# h\n\n", "```\n", "`", "> ", "- ", "a.\n", "1", "```x ", "- > 1. ", "```\n\n"]
)
def test_the_time_is_linear_in_the_text(unit):
    text = unit * (300_000 // len(unit)) + "```"
    start = time.process_time()
    passages = cut(text)
    assert time.process_time() - start < 12
    assert " ".join(passages).split() == text.split()
