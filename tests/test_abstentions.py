"""Answers that decline, answers that only sound so, and the data file whose every line must be of use."""

from __future__ import annotations

import json
import random
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.expertqa import abstentions
from tasks.expertqa.abstentions import abstention, file_sections

REAL = Path(__file__).parents[1].parent / "shared" / "data" / "expertqa" / "rand_val.jsonl"
WRITTEN = Path(__file__).parent / "data" / "abstentions.tsv"  # answers that decline, and dangerous ones, by hand


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I don't know.", "I don't know"),
        ("I don’t know. The context is about lead, and the question about tin [1].", "I don’t know"),
        ('"I don\'t know." The passages speak of lead only.', "I don't know"),
        ("Unfortunately, I do not know the answer.", None),
        ("I'm sorry, but I can't answer this as the passages are about lead [1] [2].", "I can't"),
        ("The provided context does not contain the\nmelting point of tin.", "The provided context does not contain"),
        ("The provided  passages [1][2] do not mention tin.", "The provided passages do not mention"),
        ("The passages [1], [2] and [3] do not mention tin.", "The passages do not mention"),
        ("I DON'T KNOW", "I DON'T KNOW"),
        ("Based on the passages, there is not enough information in the context to say.", None),
        ("It is not possible to answer this question from the passages.", None),
        ("Although the passages speak of lead, the passages do not mention tin.", "the passages do not mention"),
        ("The passages are about lead. They do not mention tin.", "They do not mention"),
        ("It is unclear what is meant by «tin» here. Please clarify.", None),
        ("I don't know. The passages of the smith praise tin [1], but say nothing of its price.", "I don't know"),
        ("Do you mean the metal? Please let me know!", "Do you mean the metal?"),
    ],
)  # fmt: skip
def test_an_answer_that_declines_is_an_abstention(text: str, words: str | None) -> None:
    found = abstention(text)
    assert found is not None
    assert words in (None, found)
    assert found in " ".join(re.sub(r"(,| and)? ?\[\d\]", "", text).split())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Thank you for your question!",
        "Tin melts at 232 degrees [1].",
        "Tin melts at 232 degrees [1]. I don't know when lead does.",
        "When a patient says 'I don't know', ask again [1].",
        "I don't know of a single cause, but damp air is the main one [1].",
        "I don't know all of it, but tin melts at 232 degrees [1].",
        "Hi don't knowingly heat tin.",
        "If I don't have enough information, I ask the smith; so should you [1].",
        "When the passages do not mention tin, look for pewter [1].",
        '"I don\'t know" is an answer that surveys should offer [1].',
        "The provided passages do not mention tin. However, they say that lead melts at 327 degrees [1].",
        "The passages do not mention tin, and it melts at 232 degrees.",
        "The question cannot be answered with yes or no; it depends on the load [1].",
        "Not enough information in the deed makes it void [2].",
        "I don't know the exact figure. The passages put it between 230 and 235 degrees [1][3].",
        "I don't know. However, the passages put it at 232 degrees [1].",
        "Do you mean the metal? It melts at 232 degrees.",
        "I don't know. " + "Yet tin melts at 232 degrees, as the first source says [1]. " * 20,
        "I don't know. " + "I cannot say. " * 60,
    ],
)  # fmt: skip
def test_an_answer_that_only_says_so_is_none(text: str) -> None:
    assert abstention(text) is None


def test_of_the_written_answers_nearly_all_are_told_apart() -> None:
    rows = [line.split("\t") for line in WRITTEN.read_text("utf-8").splitlines()]
    found = [kind for kind, text in rows if abstention(text)]
    assert found.count("declines") >= 0.97 * sum(kind == "declines" for kind, _ in rows)
    assert found.count("answers") <= 2
    assert len(rows) == len({text for _, text in rows})


@pytest.mark.skipif(not REAL.exists(), reason="the real answers are not beside the project")
def test_of_the_released_answers_none_abstains() -> None:
    """The authors left abstentions out: each one found is a false alarm."""
    answers = [
        answer for line in REAL.read_text("utf-8").splitlines() for answer in json.loads(line)["answers"].values()
    ]
    assert len(answers) == 217
    assert [answer["answer_string"] for answer in answers if abstention(answer["answer_string"])] == []


# ---------------------------------------------------------------- the data file

LISTS = [line.partition(" = ")[::2] for line in file_sections()["words"]]


def texts_of(line: str) -> list[str]:
    """Forty texts that a line stands for: one of each choice, half of the words that a gap may hold."""
    draw = random.Random(line)
    return [_drawn(line, draw) for _ in range(40)]


def _drawn(line: str, draw: random.Random) -> str:
    line = line.lstrip("^").replace("TEXTS", "(the passages|these sources|the provided documents)")
    while re.search(r"[A-Z]{2}", line):
        line = re.sub(r"[A-Z]{2,}", lambda name: f"({'|'.join(each for key, each in LISTS if key == name[0])})", line)
    line = re.sub(r"<(\d+)>", lambda gap: " ".join(["indeed"] * ((int(gap[1]) + 1) // 2)), line)
    while "(" in line:
        line = re.sub(r"\(([^()]*)\)", lambda choice: draw.choice(choice[1].split("|")), line)
    return " ".join(line.split()).rstrip(".")


@pytest.mark.parametrize("line", file_sections()["declines"] + file_sections()["declines plainly"])
def test_every_line_that_declines_makes_an_abstention(line: str) -> None:
    assert any(abstention(f"{text}.") for text in texts_of(line))


@pytest.mark.parametrize("line", file_sections()["declines, after TEXTS"])
def test_every_line_after_texts_makes_an_abstention_there(line: str) -> None:
    assert any(abstention(f"The passages are about lead. {text}.") for text in texts_of(line))


@pytest.mark.parametrize("line", file_sections()["beside"] + file_sections()["beside, where it declines plainly"])
def test_every_line_that_may_stand_beside_leaves_an_abstention_one(line: str) -> None:
    assert any(abstention(f"{text}. I don't know.") for text in texts_of(line))


@pytest.mark.parametrize("line", file_sections()["answers"])
def test_every_line_that_answers_takes_an_abstention_back(line: str) -> None:
    assert any(abstention(f"I cannot {text} it.") is None for text in texts_of(line))


def test_lines_come_once_and_every_list_is_used() -> None:
    sections = file_sections()
    assert list(sections) == [
        "words", "declines", "declines plainly", "declines, after TEXTS", "answers", "beside",
        "beside, where it declines plainly",
    ]  # fmt: skip
    for lines in sections.values():
        assert len(lines) == len(set(lines))
    text = "\n".join(line for lines in sections.values() for line in lines)
    for name, _ in LISTS:
        assert re.search(rf"\b{name}\b(?! =)", text), f"{name} is listed and never used"


def test_a_word_that_is_not_listed_is_named() -> None:
    with pytest.raises(ValueError, match="uses NOUNS, which no line above lists"):
        abstentions._pattern("no NOUNS", {"OPENERS": "so"})


# ---------------------------------------------------------------- hostile text

PIECES = ["I", "the passages", "do not", "mention", "know", "cannot", "be", "answered", "?", ". ", ", ", "; ", " - "]
PIECES += [
    "—",
    "'",
    '"',
    "“",
    "[1]",
    "(",
    ")",
    " ",
    "but ",
    "and ",
    "so ",
    "although ",
    "\ue000",
    "\ue001",
    "\x00",
    "İ",
]
HOSTILE = [
    "I don't know",
    "the passages do not ",
    "the answer ",
    "'",
    '" ',
    "a,",
    "? ",
    "— ",
    "[1]",
    "\ue000 ",
    "x",
    "no ",
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=60).map("".join))
def test_no_text_makes_it_fail_and_what_is_found_stands_there(text: str) -> None:
    found = abstention(text)
    assert found is None or (found and len(found) <= len(text))


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_megabyte_costs_a_moment(piece: str) -> None:
    abstention("I don't know.")
    started = time.process_time()
    assert abstention(piece * (1_000_000 // len(piece))) is None
    abstention(piece * (2_000 // len(piece)))
    assert time.process_time() - started < 10
