"""Windows of tokens, beside spaCy's own tokens of each word and of whole pages, and by hand."""

from __future__ import annotations

import importlib.util
import re
import time
from functools import cache
from itertools import pairwise
from typing import Any

import paths
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from longform.errors import UsageError
from tasks.text import windows as module
from tasks.text.windows import RUN_CHARACTERS, check_tokenizer, windows

BLANKS = ["\x1c", "\x85", "\xa0", "\u2003", "\u2028", "\u3000", "\t", "\n", "\r\n", "  ", " "]
WORDS = ["tea", "isn't", "(pot)", "10am", "U.S.", "e.g.", ":-)", "https://tea.example/a?b=(1)", "[1]", "…", "茶を飲む",
         "😀", "it's", "a.b", "3,000.5", "\ufeff", "\x00", "''", "e\u0301", "well-known", "$5/kg"]  # fmt: skip
TEXT = st.lists(
    st.one_of(st.sampled_from([*BLANKS, " ", " "]), st.sampled_from(WORDS), st.characters(codec="utf-8"))
).map("".join)


@cache
def tokenizer() -> Any:
    import spacy

    return spacy.blank("en").tokenizer


def whole(text: str) -> list[tuple[int, int]]:
    """The tokens of the whole text, as spaCy makes them."""
    return [(token.idx, token.idx + len(token)) for token in tokenizer()(text)]


def word_by_word(text: str) -> list[tuple[int, int]]:
    """spaCy's tokens of each run by itself, and the blanks between runs that are tokens."""
    found = []
    for run in re.finditer(r"\S+|\s+", text):
        blank = run[0].isspace()
        start = run.start() + (blank and run[0][0] == " " and run.start() > 0)
        if start < run.end():
            found += [(start, run.end())] if blank else [(start + a, start + b) for a, b in whole(run[0])]
    return found


@given(TEXT)
@example(" ")
@example("  a  b \n\n c ")
@example("\n a \t")
@example("tea'' ''tea")
@settings(max_examples=400)
def test_tokens_are_spacys_word_by_word(text: str) -> None:
    assert list(check_tokenizer("spacy-en")(text)) == word_by_word(text)


@pytest.mark.parametrize("page", ["README.md", "docs/expertqa.md", "docs/sources.md", "DECISIONS.md"])
def test_tokens_of_prose_are_those_of_the_whole_text(page: str) -> None:
    text = (paths.ROOT / page).read_text()
    assert list(check_tokenizer("spacy-en")(text)) == whole(text)


@given(TEXT, st.integers(1, 7), st.integers(0, 6))
@settings(max_examples=300)
def test_windows_hold_every_token_and_share_the_overlap(text: str, size: int, overlap: int) -> None:
    if overlap >= size:
        with pytest.raises(UsageError, match="must be less than the size"):
            windows(text, tokenizer="spacy-en", size=size, overlap=overlap)
        return
    tokens = word_by_word(text)
    inside = [
        [token for token in tokens if start <= token[0] and token[1] <= end]
        for start, end in windows(text, tokenizer="spacy-en", size=size, overlap=overlap)
    ]
    assert list(dict.fromkeys(token for held in inside for token in held)) == tokens
    assert all(len(held) == size for held in inside[:-1])
    assert all(one[len(one) - overlap :] == two[:overlap] for one, two in pairwise(inside))
    assert all(overlap < len(held) <= size for held in inside[1:])
    assert len(inside) == (bool(tokens) if len(tokens) <= size else 1 - (size - len(tokens)) // (size - overlap))


def test_windows_by_hand() -> None:
    text = "a b c d e f g"
    cut = [text[start:end] for start, end in windows(text, tokenizer="spacy-en", size=3, overlap=1)]
    assert cut == ["a b c", "c d e", "e f g"]
    cut = [text[start:end] for start, end in windows(text, tokenizer="spacy-en", size=4, overlap=2)]
    assert cut == ["a b c d", "c d e f", "e f g"]
    assert windows("", tokenizer="spacy-en") == []
    assert windows("one", tokenizer="spacy-en") == [(0, 3)]


def test_the_usual_window_is_a_thousand_tokens_of_which_two_hundred_come_again() -> None:
    words = [f"w{number}" for number in range(2_500)]
    text = " ".join(words)
    cut = [text[start:end].split() for start, end in windows(text, tokenizer="spacy-en")]
    assert cut == [words[0:1000], words[800:1800], words[1600:2500]]


@pytest.mark.parametrize("signs", ["(", "'s", "😀", ".", "a", "a(b)"])
def test_a_run_without_blanks_costs_no_more_than_its_length(signs: str) -> None:
    text = signs * (300_000 // len(signs))
    started = time.process_time()
    found = windows(f"tea {text} pot", tokenizer="spacy-en")
    assert time.process_time() - started < 5
    assert found[0][0] == 0
    assert found[-1][1] == len(text) + 8
    assert max(end - start for start, end in found) <= 5_000


def test_a_run_is_spacys_up_to_its_limit() -> None:
    text = "(" * RUN_CHARACTERS
    assert list(check_tokenizer("spacy-en")(text)) == whole(text)
    assert list(check_tokenizer("spacy-en")("(" * (RUN_CHARACTERS + 1))) == [
        (at, min(at + 5, RUN_CHARACTERS + 1)) for at in range(0, RUN_CHARACTERS + 1, 5)
    ]


def test_an_encoding_that_is_not_there_is_named() -> None:
    if importlib.util.find_spec("tiktoken"):
        pytest.skip("tiktoken is installed")
    with pytest.raises(UsageError, match=r'"cl100k_base" needs tiktoken, which is not installed: .* or use "spacy-en"'):
        windows("tea", tokenizer="cl100k_base")


def test_an_encoding_has_windows_of_its_tokens() -> None:
    tiktoken = pytest.importorskip("tiktoken")
    try:
        encoding = tiktoken.get_encoding("cl100k_base")
    except OSError:
        pytest.skip("the file of cl100k_base is not at hand")
    text = "Tea is poured over the leaves 茶. " * 200
    cut = windows(text, tokenizer="cl100k_base", size=100, overlap=20)
    assert cut[0][0] == 0
    assert cut[-1][1] == len(text)
    assert all(len(encoding.encode_ordinary(text[start:end])) <= 103 for start, end in cut)


def test_tokens_that_share_a_character_have_all_of_it() -> None:
    """Starts of tokens as an encoder of bytes tells them: the second and third are halves of one character."""
    assert list(module._spans([0, 3, 3, 4], 6)) == [(0, 3), (3, 4), (3, 4), (4, 6)]
    assert list(module._spans([], 0)) == []


@pytest.mark.soak
def test_five_megabytes_take_seconds() -> None:
    text = " ".join(f"word{number % 50_000}, (and) isn't" for number in range(220_000))
    assert len(text) > 5_000_000
    started = time.process_time()
    assert len(windows(text, tokenizer="spacy-en")) > 1_000
    assert time.process_time() - started < 15
