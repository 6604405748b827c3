import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64

from tasks.text.copies.shingles import shingle_hashes, words


def hashes(*shingles):
    return sorted({xxh3_64(shingle.encode("utf-8")).intdigest() for shingle in shingles})


@pytest.mark.parametrize(
    ("text", "n", "shingles"),
    [
        ("The cat sat on it", 3, ["the cat sat", "cat sat on", "sat on it"]),
        ("**The** cat,  sat\n\non `it`!", 3, ["the cat sat", "cat sat on", "sat on it"]),
        ("no no no no no", 3, ["no no no"]),
        ("Two words", 3, ["two words"]),
        ("One", 1, ["one"]),
        ("a b a b", 2, ["a b", "b a"]),
        ("Grüße aus Łódź, 日本", 2, ["grüße aus", "aus łódź", "łódź 日本"]),
        ("", 3, []),
        (" .,; \n", 3, []),
    ],
)
def test_shingles_are_the_lower_cased_word_n_grams(text, n, shingles):
    found = shingle_hashes(text, n)
    assert found.dtype == np.uint64
    assert found.tolist() == hashes(*shingles)


def test_a_word_bound_is_part_of_a_shingle():
    assert shingle_hashes("ab c", 2).tolist() != shingle_hashes("a bc", 2).tolist()


def test_hashes_are_the_same_in_every_release():
    assert shingle_hashes("one two three").tolist() == [7211743416349135538]


@given(st.text(alphabet="aBé ,.\n_7", max_size=60), st.integers(1, 5))
def test_hashes_are_those_of_plain_joined_words_sorted_each_once(text, n):
    parts = words(text)
    grams = [parts[i : i + n] for i in range(len(parts) - n + 1)] or [parts] * bool(parts)
    assert shingle_hashes(text, n).tolist() == hashes(*(" ".join(gram) for gram in grams))
