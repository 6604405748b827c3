"""Answers that decline, answers that only sound so, and the data file whose every line must be of use."""

from __future__ import annotations

import json
import random
import re
import time
from typing import Any

import paths
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.expertqa.answers import abstentions
from tasks.expertqa.answers.abstentions import abstention, file_sections

REAL = paths.REAL_DATA / "expertqa" / "rand_val.jsonl"
WRITTEN = paths.TEST_DATA / "abstentions.tsv"  # answers that decline, and dangerous ones, by hand


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I don't know.", "I don't know"),
        ("I don’t know. The context is about lead, and the question about tin [1].", "I don’t know"),
        ('"I don\'t know." The passages speak of lead only.', "I don't know"),
        ("Unfortunately, I do not know the answer.", None),
        ("I'm sorry, but I can't answer this as the passages are about lead [1] [2].", "I can't answer"),
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
        ("I wasn't able to find its melting point.", "I wasn't able to find"),
        ("We weren't able to find an answer.", None),
        ("No passages were found.", "No passages were found"),
        ("No relevant search results were found.", "No relevant search results were found"),
        ("There were no search results for this question.", None),
        ("It would be irresponsible of me to guess.", None),
        ("I can't say, because the passages are about lead.", "I can't say"),
        ("The passages are about lead, so I can't answer.", "I can't answer"),
        ("The answer is in the full text, which the passages do not contain.", "the passages do not contain"),
        ("The passages do not mention its price, its weight, and its side effects.", "The passages do not mention"),
        ("I can't help with that. However, you can refer to the website of the foundry.", "I can't help"),
        ("I cannot give medical advice. You should see a doctor.", "I cannot give"),
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
def test_declining_words_within_an_answer_are_no_abstention(text: str) -> None:
    assert abstention(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "The passages do not mention the dose. It is taken at night.",
        "The context does not specify the year. It ended in 1945.",
        "I'm not certain. It was written by Marlowe.",
        "I'm not certain who coined it. It comes from Latin.",
        "I wouldn't know exactly why. They stopped in 1971.",
        "I'm not aware of a cure. A daily walk can help.",
        "I don't know your budget. The Skoda is the best choice for a family.",
        "I'm not sure of the exact statute. Evicting a tenant without notice is illegal.",
        "I am not certain about Canada, but it is illegal in Mexico.",
        "I'm not sure about your case. For this condition, the usual dose is one pill.",
        "I cannot diagnose you. Redness could mean an infection.",
        "I can't see your code. Check your imports.",
        "I can't diagnose you. You should call 911.",
        "I'm not sure. The statute requires you to seek a permit.",
        "I am unsure about the exact age. Children should visit the dentist early.",
        "I don't know what causes it, but ask your doctor to check your thyroid.",
        "I don't have access to your data, but you might want to try a random forest.",
        "Ibuprofen harms the kidneys of dogs, so I can't advise giving it.",
        "Since the drug thins the blood, I cannot give it a clean bill.",
        "I cannot give it a clean bill, because the drug thins the blood.",
        "While lead melts over a candle, I don't know about tin.",
        "The passages do not mention tin, and when heated enough it melts.",
        "The passages do not mention tin, and lead melts below four hundred degrees.",
        "The passages do not mention tin, which melts over a candle.",
        "The passages do not mention tin, a metal that melts at 232 degrees.",
        "I cannot say, and I think it melts over a candle.",
        "I'm not sure. The passages, however, mention a melting point of 232 degrees.",
        "I'm not sure, but the passages discuss its melting point.",
        "Lead melts over a candle, I don't know about tin.",
        "I'm sorry, but while lead melts over a candle, I don't know about tin.",
        "I can't diagnose you. You may have a sprained wrist.",
        "The passages do not mention tin. These focus groups rejected it.",
        "I'm not sure. A specialist will review the X-ray and place a cast.",
        "Only a doctor can prescribe this drug.",
        "I am not aware of any interaction between these two drugs.",
        "I can't recommend this drug for children. See a doctor.",
        "As a manager, I cannot tell you how proud I am of this team.",
        "Dear Sir, I am unable to attend. Please let me know whether Tuesday suits you.",
    ],
)  # fmt: skip
def test_a_caveat_before_an_answer_is_none(text: str) -> None:
    assert abstention(text) is None


def test_97_percent_of_written_abstentions_are_found_with_at_most_two_false_alarms() -> None:
    rows = [line.split("\t") for line in WRITTEN.read_text("utf-8").splitlines()]
    found = [kind for kind, text in rows if abstention(text)]
    assert found.count("declines") >= 0.97 * sum(kind == "declines" for kind, _ in rows)
    assert found.count("answers") <= 2
    assert len(rows) == len({text for _, text in rows})


def released() -> list[dict[str, Any]]:
    if not REAL.exists():
        pytest.skip("the real answers are not beside the project")
    lines = REAL.read_text("utf-8").splitlines()
    return [answer for line in lines for answer in json.loads(line)["answers"].values()]


def test_of_the_released_answers_none_abstains() -> None:
    """The authors left abstentions out: each one found is a false alarm."""
    answers = [answer["answer_string"] for answer in released()]
    assert len(answers) == 217
    assert [answer for answer in answers if abstention(answer)] == []


CAVEATS = ["I'm not sure of the exact figure.", "The passages do not mention the exact figure."]
CAVEATS += ["I cannot give medical advice.", "I don't know."]


@pytest.mark.parametrize("caveat", CAVEATS)
def test_a_caveat_before_a_released_claim_is_hardly_ever_an_abstention(caveat: str) -> None:
    claims = {" ".join(claim["claim_string"].split()) for answer in released() for claim in answer["claims"]}
    answering = [claim for claim in claims if len(claim.split()) > 3 and not abstention(claim)]
    assert len(answering) > 1000
    assert sum(abstention(f"{caveat} {claim}") is not None for claim in answering) <= 0.02 * len(answering)


# ---------------------------------------------------------------- the data file

BESIDE = ["beside", "beside, about TEXTS", "beside, after TEXTS", "beside, where it declines plainly"]
LISTS = [line.partition(" = ")[::2] for line in file_sections()["words"]]


CHOSEN = "\x01"  # before a choice that must be drawn


def texts_of(line: str) -> list[str]:
    """Forty texts that a line stands for: one of each choice, half of the words that a gap may hold."""
    draw = random.Random(line)
    return [_drawn(line, draw) for _ in range(40)]


def _drawn(line: str, draw: random.Random) -> str:
    line = f"({line.lstrip('^')})".replace("TEXTS", "(the passages|these sources|the provided documents)")
    while re.search(r"[A-Z]{2}", line):
        line = re.sub(r"[A-Z]{2,}", lambda name: f"({'|'.join(each for key, each in LISTS if key == name[0])})", line)
    line = re.sub(r"<(\d+)>", lambda gap: " ".join(["indeed"] * ((int(gap[1]) + 1) // 2)), line)
    while "(" in line:
        line = re.sub(r"\(([^()]*)\)", lambda choices: _chosen(choices[1].split("|"), draw), line)
    return " ".join(line.replace(CHOSEN, "").split()).rstrip(".")


def _chosen(choices: list[str], draw: random.Random) -> str:
    return next((each for each in choices if CHOSEN in each), None) or draw.choice(choices)


def choices_of(line: str) -> list[str]:
    """The line once for each of its choices, which is marked as CHOSEN there."""
    starts = [place.end() for place in re.finditer(r"^\^?|[(|]", line)] if re.search(r"[(|]", line) else []
    return [line[:start] + CHOSEN + line[start:] for start in starts]


def dead_choices(line: str, lists: dict[str, str]) -> list[str]:
    """Those of which no text is drawn that the line's own pattern finds, once TEXTS are written over."""
    pattern = abstentions._compiled([abstentions._pattern(line, lists)])
    dead = []
    for marked in choices_of(line):
        draw = random.Random(marked)
        texts = (abstentions._masked(_drawn(marked, draw)) for _ in range(100))
        if not any(pattern.fullmatch(text) for text in texts):
            dead.append(marked.replace(CHOSEN, ">>>"))
    return dead


@pytest.mark.parametrize("line", file_sections()["declines"] + file_sections()["declines plainly"])
def test_every_line_that_declines_makes_an_abstention(line: str) -> None:
    assert any(abstention(f"{text}.") for text in texts_of(line))


@pytest.mark.parametrize("line", file_sections()["declines, after TEXTS"])
def test_every_line_after_texts_makes_an_abstention_there(line: str) -> None:
    assert any(abstention(f"The passages are about lead. {text}.") for text in texts_of(line))


@pytest.mark.parametrize("line", [line for name, lines in file_sections().items() if name in BESIDE for line in lines])
def test_every_line_that_may_stand_beside_leaves_an_abstention_one(line: str) -> None:
    assert any(abstention(f"The passages are about lead. {text}. I don't know.") for text in texts_of(line))


@pytest.mark.parametrize("line", file_sections()["reasons"])
def test_every_line_of_reasons_excuses(line: str) -> None:
    assert any(abstention(f"I can't answer this, because {text}.") for text in texts_of(line))
    assert any(abstention(f"{text}, so I can't answer this.") for text in texts_of(line))


def test_no_choice_of_any_line_is_dead() -> None:
    sections = file_sections()
    lists = abstentions._lists(sections.pop("words"))
    assert [dead for lines in sections.values() for line in lines for dead in dead_choices(line, lists)] == []


def test_no_choice_of_a_list_is_written_over_as_texts() -> None:
    texts = {"TEXTS", "NOUN", "SURE"}
    choices = [(name, each) for name, choices in LISTS if name not in texts for each in texts_of(f"({choices})")]
    assert [each for each in choices if "\ue000" in abstentions._masked(each[1])] == []


def test_a_dead_choice_is_found() -> None:
    lists = abstentions._lists(file_sections()["words"])
    assert dead_choices("no (such |)(TEXTS|hits) were (found|seen).", lists) == []
    assert dead_choices("no (hits|passages) were found", lists) == ["no (hits|>>>passages) were found"]
    assert dead_choices("(a.|b) c", lists) == ["(>>>a.|b) c"]


@pytest.mark.parametrize("line", file_sections()["answers"])
def test_every_line_that_answers_takes_an_abstention_back(line: str) -> None:
    assert any(abstention(f"I cannot {text} it.") is None for text in texts_of(line))


def test_lines_come_once_and_every_list_is_used() -> None:
    sections = file_sections()
    assert list(sections) == [
        "words", "declines", "declines plainly", "declines, after TEXTS", "answers", "reasons", *BESIDE,
        "TEXTS as subject",
    ]  # fmt: skip
    for lines in sections.values():
        assert len(lines) == len(set(lines))
    text = "\n".join(line for lines in sections.values() for line in lines)
    for name, _ in LISTS:
        assert re.search(rf"\b{name}\b(?! =)", text), f"{name} is listed and never used"


TOKEN = r"<[1-9]\d?>|[A-Z]{2,}|[(|),'/ -]|[a-zA-Z0-9]|\.(?=[|)]|\Z)"


def breaks_the_grammar(line: str, listed: set[str]) -> bool:
    """Whether it holds what the head of the file does not know, a word that no line above lists, or lone brackets."""
    if not re.fullmatch(f"(?:{TOKEN})*", line.removeprefix("^")) or not {*re.findall("[A-Z]{2,}", line)} <= listed:
        return True
    while "(" in line and re.search(r"\([^()]*\)", line):
        line = re.sub(r"\([^()]*\)", "", line)
    return "(" in line or ")" in line


def test_every_line_of_the_file_keeps_to_its_grammar() -> None:
    sections = file_sections()
    listed = {"TEXTS"}
    for line in sections.pop("words"):
        name, equals, choices = line.partition(" = ")
        assert re.fullmatch("[A-Z]{2,}", name), f"{line!r} must be NAME = choices"
        assert equals, f"{line!r} must be NAME = choices"
        assert not breaks_the_grammar(choices, listed), choices
        listed.add(name)
    assert [line for lines in sections.values() for line in lines if breaks_the_grammar(line, listed)] == []


@pytest.mark.parametrize(
    "line",
    [
        *("a (b|^c)", "a ^b", "a.b", "a. b", "a [b]", 'a "b"', "a? b", "a <0> b", "a <b>", "a* b", "a : b"),
        *("a (b", "a b)", "a)(b", "no NOUNS"),
    ],
)
def test_a_line_that_breaks_the_grammar_is_found(line: str) -> None:
    assert breaks_the_grammar(line, {"OPENERS"})


def test_a_gap_with_nothing_after_it_holds_one_to_three_words() -> None:
    pattern = abstentions._compiled([abstentions._pattern("see <3>.", {"OPENERS": "so"})])
    assert [bool(pattern.search(f"see{' one' * count}")) for count in range(5)] == [False, True, True, True, False]


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
