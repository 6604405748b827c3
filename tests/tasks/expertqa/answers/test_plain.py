"""Answers without marks: every form that was seen goes, what reads alike stays, and nothing is left over."""

from __future__ import annotations

import difflib
import json
import re
import time

import paths
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.expertqa.answers.audits import OF_REVISIONS
from tasks.expertqa.answers.citations import cited_numbers
from tasks.expertqa.answers.plain import marks_in, plain, sources_of
from tasks.publishing.audits import rejected_by

REAL = paths.REAL_DATA / "expertqa" / "rand_val.jsonl"
TOKEN = re.compile(r"\w+|[^\w\s]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("[1]", ""),
        ("Tin melts [1].", "Tin melts."),
        ("Tin melts [1][2]; lead [3], too.", "Tin melts; lead, too."),
        ("Tin [^1^] melts[^2^].", "Tin melts."),
        ("Tin melts [cite: 1, 2]. [cite_start]Lead melts.", "Tin melts. Lead melts."),
        ("Tin melts.¹ Lead² does, gold³,⁴ too.¹²", "Tin melts. Lead does, gold too."),
        ("Tin <sup>1</sup> melts<sup>2,3</sup>⁽⁴⁾.", "Tin melts."),
        ("Tin 【1†L3】 [2†source] [#3] [1, p. 5] melts \\[4\\] ^[2].", "Tin melts."),
        ("Tin melts [1] .", "Tin melts."),
        ("Tin melts. [1]. Lead melts.", "Tin melts. Lead melts."),
        ("Tin melts.[1]Lead melts.", "Tin melts. Lead melts."),
        ("Tin [1], [2], and [3] melts.", "Tin melts."),
        ("Tin (see [1]) melts ([2], [3]).", "Tin melts."),
        ("Tin **[1]** melts.", "Tin melts."),
        ("As shown in [3], tin melts [4].", "As shown in, tin melts."),
        ("[1] Tin melts.", "Tin melts."),
        ("- [1]\n- Tin [2]\n1. [3]", "- Tin"),
        ("1[16].\nTin", "1.\nTin"),
        ("Tin [1] [2]\n[3]\nLead", "Tin\nLead"),
        ("Tin [melts](https://a.example/x) [1](https://a.example/y).", "Tin melts."),
        ("Tin melts (https://a.example/x) <https://a.example/y>.", "Tin melts."),
        ("Tin melts.\nhttps://a.example/x\nLead.https://a.example/y.", "Tin melts.\nLead."),
        ("Tin.\n\nReferences:\n[1] https://a.example\n[2] B. Author, Book.", "Tin."),
        ("Tin [^1].\n\n[^1]: https://a.example", "Tin."),
        ("| a [1] | b |\n|---|---|\n| c | d [2] |", "| a | b |\n|---|---|\n| c | d |"),
    ],
)
def test_marks_go_without_a_trace(text: str, expected: str) -> None:
    assert plain(text) == expected
    assert not marks_in(expected)
    assert bool(marks_in(text)) == (text != expected)


@pytest.mark.parametrize(
    "text",
    [
        "x in [0, 1], the interval [2, 5], 95% CI [1, 3], values between [1, 2]",
        "Tin (2) and 3) of them, s34(6)",
        "T² and Z², 10 km², m³, Fe³⁺, 10⁻³, 40 feet², x²y",
        "`x[1]` and a[0] and matrix[1][2] = 4 and f[1](x)",
        "```\nx[1] = y[2]\n```",
        "Years [1990-2000] and [2019], [EMIM][TfO], [a], [Smith 2020], []",
        "Go to https://a.example/x to download it.",
        "1. World Bank: https://a.example\n2. Tin",
        "Wait ... what . Yes",
        "![picture](https://a.example/x.png)",
    ],
)
def test_what_reads_alike_stays(text: str) -> None:
    assert plain(text) == text


@given(st.text(alphabet="ab1² ,-^[]().*\n:/h", max_size=60))
def test_a_plain_text_is_left_as_it_is(text: str) -> None:
    once = plain(text)
    assert plain(once) == once


def test_hostile_texts_take_no_time() -> None:
    started = time.monotonic()
    for text in ("[1] " * 20_000, "[" * 50_000, "¹,²;" * 20_000, "https://a" * 10_000, "(see " * 20_000, "`" * 30_000):
        plain(text)
    assert time.monotonic() - started < 20


@pytest.mark.skipif(not REAL.exists(), reason="the released examples are not beside the project")
def test_of_all_released_revised_answers_nothing_but_marks_goes() -> None:
    """The marks as a plain pattern sees them; beyond these only references, addresses and doubled signs may go."""
    others = 0
    for line in REAL.read_text().splitlines():
        for answer in json.loads(line)["answers"].values():
            text = answer["revised_answer_string"] or ""
            made = plain(text)
            assert not re.search(r"\[\^?\d[^\[\]]*\]", made)
            assert not marks_in(made)
            simply = re.sub(r"\[\^?\d+\^?(?:, \d+)*\]", "", text)
            first, second = TOKEN.findall(simply), TOKEN.findall(made)
            for kind, start, end, *_ in difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
                gone = " ".join(first[start:end])
                assert kind in ("equal", "delete"), gone
                if kind == "delete" and gone != ".":
                    others += 1
                    assert re.match(r"https :|(: )?References|\( Passage ID \d \)$", gone), gone
    assert others < 20


def test_an_answer_that_still_holds_a_mark_is_left_out_with_its_reason() -> None:
    row = {"row_id": "r", "revised_by": "person", "response": None, "model": None, "question": "Why?"}
    left_out = rejected_by({**row, "answer": "Tin melts [1] and [2]."}, OF_REVISIONS, "row_id")
    assert left_out is not None
    assert (left_out.reason, left_out.detail) == ("audit: marks", "marks in the answer: [1], [2]")
    assert rejected_by({**row, "answer": "Tin melts."}, OF_REVISIONS, "row_id") is None


def test_sources_are_those_that_are_cited_by_number_with_what_is_known_of_them() -> None:
    listed = [
        {"number": 1, "url": "https://a.example/1", "title": "A", "text": None},
        {"number": 2, "url": "https://a.example/2", "title": None, "text": None},
    ]
    evidence = [
        {"number": 1, "url": None, "text": "Tin."},
        {"number": 5, "url": "https://a.example/5", "text": "Lead."},
        {"number": None, "url": "https://a.example/9", "text": "Gold."},
    ]
    assert sources_of("Tin [5] [1] [7].", listed, [{"evidence": evidence}]) == [
        {"number": 1, "url": "https://a.example/1", "title": "A", "text": "Tin."},
        {"number": 5, "url": "https://a.example/5", "title": None, "text": "Lead."},
    ]
    assert sources_of("Tin.", listed, [{"evidence": evidence}]) == [
        {"number": None, "url": "https://a.example/9", "title": None, "text": None}
    ]


@pytest.mark.parametrize("text", [
    "The area is (x + 1)² here.", "It slows in seconds², acre² or alpha².", "A metre squared² is (width)².",
    "Let f(x)² be 5 m<sup>2</sup>.",
])  # fmt: skip
def test_exponents_stay_and_cite_nothing(text: str) -> None:
    assert plain(text) == text
    assert cited_numbers(text) == []
