"""Windows of tokens over a text, each sharing some with the one before it: passages of long documents.

The 1,000 tokens with 200 of overlap are ExpertQA's (appendix, on retrieval), which does not name its tokenizer. Here
it has a name: `spacy-en`, the English tokenizer of spaCy without any model, or an encoding of tiktoken (cl100k_base).

`spacy-en` cuts a text word by word: each run without white space is what spaCy makes of it alone, so that a run seen
before need not be looked at again, and memory does not grow with the text. In a whole text spaCy differs where signs of
its special words meet over a blank (`tea'' ''tea`), which prose does not hold. A run of more than RUN_CHARACTERS
is none of its words (a key, a table, a script written without blanks) and would cost it the square of its length:
every RUN_TOKEN characters of it count as a token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from importlib import import_module
from itertools import pairwise

from longform.errors import UsageError
from tasks.text.english import Spans, english

SPACY = "spacy-en"
RUN_CHARACTERS, RUN_TOKEN = 200, 5
REMEMBERED_WORDS = 200_000

Span = tuple[int, int]
Tokens = Callable[[str], Iterator[Span]]
_RUN = re.compile(r"\S++|\s++")


def windows(text: str, *, tokenizer: str, size: int = 1000, overlap: int = 200) -> list[Span]:
    """(start, end) in characters of windows of `size` tokens, in order; each shares `overlap` tokens with the next.

    Every token is in some window; the last window may be shorter. A text of at most `size` tokens is one window, an
    empty one has none. `tokenizer`: `spacy-en` or the name of an encoding of tiktoken. UsageError if that tokenizer
    cannot be used, or if the overlap is negative or not less than the size.
    """
    check_windows(size, overlap)
    if tokenizer == SPACY and 0 < len(text) <= size:
        return [(0, len(text))]  # it has no more tokens than characters
    starts, ends, seen, end, step = [], [], 0, 0, size - overlap
    for start, end in check_tokenizer(tokenizer)(text):
        if seen % step == 0:
            starts.append(start)
        seen += 1
        if seen >= size and (seen - size) % step == 0:
            ends.append(end)
    if seen > (size + (len(ends) - 1) * step if ends else 0):
        ends.append(end)
    return list(zip(starts, ends, strict=False))  # behind the last window others could have begun


def check_windows(size: int, overlap: int) -> None:
    """Raise UsageError unless the overlap is at least 0 and less than the size."""
    if not 0 <= overlap < size:
        raise UsageError(
            f"Windows of {size:,} tokens cannot share {overlap:,}: the overlap must be less than the size."
        )


def check_tokenizer(name: str) -> Tokens:
    """The function that yields (start, end) of each token of a text. `name`: `spacy-en` or an encoding of tiktoken.

    UsageError if tiktoken is not installed or cannot load this encoding.
    """
    return _spacy_tokens if name == SPACY else _tiktoken(name)


# ---------------------------------------------------------------- spaCy's English


def _spacy_tokens(text: str) -> Iterator[Span]:
    """(start, end) of each token of the text, in order, as spaCy's English tokenizer cuts each run without white
    space.

    A run of white space is a token too, without the blank at its beginning if that ends a word. A run without white
    space of more than RUN_CHARACTERS characters is cut into tokens of RUN_TOKEN characters.
    """
    for run in _RUN.finditer(text):
        start, end = run.span()
        if text[start].isspace():
            start += text[start] == " " and start > 0
            yield from [(start, end)] if start < end else []
        elif end - start > RUN_CHARACTERS:
            yield from ((at, min(at + RUN_TOKEN, end)) for at in range(start, end, RUN_TOKEN))
        else:
            for low, high in _word(run[0]):
                yield start + low, start + high


@lru_cache(maxsize=REMEMBERED_WORDS)
def _word(run: str) -> Spans:
    """(start, end) of each token of spaCy's English tokenizer in a run without white space; the latest results are
    cached.
    """
    return english().tokens(run)


# ---------------------------------------------------------------- tiktoken


@cache
def _tiktoken(name: str) -> Tokens:
    """The function that yields (start, end) of each token of a text, by the encoding `name` of tiktoken. UsageError if
    tiktoken is not installed or cannot load this encoding.
    """
    try:
        encoding = import_module("tiktoken").get_encoding(name)
    except ImportError:
        raise UsageError(
            f'The tokenizer "{name}" needs tiktoken, which is not installed: install it with `pip install tiktoken`, '
            f'or use "{SPACY}".'
        ) from None
    except (OSError, ValueError) as error:
        reason = (str(error).splitlines() or ["?"])[0][:200]
        raise UsageError(
            f'The tokenizer "{name}" of tiktoken cannot be loaded ({reason}): put its file into the folder that '
            f'TIKTOKEN_CACHE_DIR names, or use "{SPACY}".'
        ) from None
    return lambda text: _spans(encoding.decode_with_offsets(encoding.encode_ordinary(text))[1], len(text))


def _spans(starts: list[int], length: int) -> Iterator[Span]:
    """(start, end) in characters of each token: it ends where the next one starts, the last one at `length`, the
    length of the text. Tokens that share a character each have all of it.
    """
    return ((start, max(start + 1, after)) for start, after in pairwise([*starts, length]))
