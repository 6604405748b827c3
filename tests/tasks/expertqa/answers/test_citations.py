"""Citation marks and lists of references, in every form that was seen and in hostile ones."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.expertqa.answers.citations import (
    citation_spans,
    cited_numbers,
    urls,
    without_marks,
)
from tasks.expertqa.answers.references import cited_sources, references


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("No mark.", []),
        ("Tin [1].", [1]),
        ("Tin [1] [2].", [1, 2]),
        ("Tin [1][2].", [1, 2]),
        ("Tin [2, 1].", [2, 1]),
        ("Tin [1,2;3 & 4 and 5].", [1, 2, 3, 4, 5]),
        ("Tin [1-3].", [1, 2, 3]),
        ("Tin [1–3, 7].", [1, 2, 3, 7]),
        ("Tin [1 — 2].", [1, 2]),
        ("Tin [3-1].", [3, 1]),
        ("Tin [1-999999999].", [1, 999_999_999]),
        ("Tin [^1^].", [1]),
        ("Tin[^1^][^12^].", [1, 12]),
        ("Tin [^1].", [1]),
        ("Tin [1] and lead [1].", [1]),
        ("Tin [ 4 ].", [4]),
        ("Tin [Passage 2].", [2]),
        ("Tin [ID 5].", [5]),
        ("Tin [id_4].", [4]),
        ("Tin (IDs: 1, 2).", [1, 2]),
        ("Tin [1]-[3].", [1, 2, 3]),
        ("Tin [1]–[3].", [1, 2, 3]),
        ("Tin [4 to 6].", [4, 5, 6]),
        ("Tin (grid 5) [idle 3].", []),
        ("Tin [Passage ID: 2].", [2]),
        ("Tin (Passages 2, 3 and 4).", [2, 3, 4]),
        ("Tin [Passage 2, Passage 3].", [2, 3]),
        ("Tin [source 9].", [9]),
        ("Tin [1](https://a.example/b).", [1]),
        ("Tin 【3†source】.", [3]),
        ("Tin [[1]] [[2]](https://a.example/b).", [1, 2]),
        ("Tin [Document 2] [doc 3] [passage_id: 4].", [2, 3, 4]),
        ("x in [0, 1]", []),
        ("Tin (2) and [a] and [1a] and []", []),
        ("Tin [1.5]", []),
        ("Tin [12345678901]", []),
        ("Tin [-1]", []),
        ("Tin [https://a.example/1]", []),
        ("Tin 〔4〕 ⟦5⟧ &#91;6&#93; [\u200b7\u200b] <a href='#c1'>[8]</a> word^9.", [4, 5, 6, 7, 8, 9]),
        ("Tin 【2:3†file.pdf】 <sup><a href='#2'>3</a></sup>.", [3]),
        ("SO₄²⁻, CrO₄²⁻ and feet^2 or x^3", []),
    ],
)  # fmt: skip
def test_numbers_in_marks_are_read_in_order_each_once(text: str, expected: list[int]) -> None:
    assert cited_numbers(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tin melts [1].", "Tin melts."),
        ("Tin melts[1] [2].", "Tin melts."),
        ("Tin [^1^] melts.", "Tin melts."),
        ("Tin (Passage 3) melts.", "Tin melts."),
        ("Tin [https://a.example/b?c=1] melts (https://a.example/d_(e)).", "Tin melts."),
        ("Tin [https://a.example/b https://a.example/c].", "Tin."),
        ("Tin [Source: https://a.example/b].", "Tin."),
        ("Tin <https://a.example>.", "Tin."),
        ("Tin (see https://a.example/b; https://a.example/c).", "Tin."),
        ("Tin [1: https://a.example/b] [[2]](https://a.example/b).", "Tin."),
        ("Tin [melts](https://a.example/b) [1](https://a.example/b).", "Tin melts."),
        ("Tin\n[1] melts", "Tin\n melts"),
        ("x in [0, 1], a (2), [b] and f(x)", "x in [0, 1], a (2), [b] and f(x)"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_text_without_its_marks_keeps_its_words(text: str, expected: str) -> None:
    assert without_marks(text) == expected


@given(st.text(alphabet="ab1,-–^[]()\n .:/", max_size=60))
def test_spans_of_marks_are_in_order_and_what_is_between_them_stays(text: str) -> None:
    spans = citation_spans(text)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert sorted(spans) == spans
    kept, at = [], 0
    for start, end in spans:
        assert start >= at
        kept.append(text[at:start])
        at = end
    assert without_marks(text) == "".join(kept) + text[at:]


# ---------------------------------------------------------------- references

A, B = "https://a.example/x", "https://b.example/y_(z)"


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        (f"\n\n[1] {A}\n[2] {B}", {1: A, 2: B}),
        (f"\n\n[1] {A}\n\n[2] {B}\n\n", {1: A, 2: B}),
        (f"\n[1]: {A}\n[2]: <{B}>.", {1: A, 2: B}),
        (f"\n[^1]: {A} \"Title\"", {1: A}),
        (f"\n1. {A}\n2. {B}", {1: A, 2: B}),
        (f"\n1) {A}", {1: A}),
        (f"\n\nReferences:\n1. A book, {A}\n2. Another: {B}.", {1: A, 2: B}),
        (f"\n\n**References**\n\n[1] A book. {A}", {1: A}),
        (f"\n## Sources:\n- {A}\n- {B}", {1: A, 2: B}),
        (f"\nSOURCES\n1. A book\n{A}\n2. Another\n{B}", {1: A, 2: B}),
        ("\nReferences\n1. A book\n2. Another", {}),
        ("\nReferences:", {}),
        (f"\nSource: {A}", {1: A}),
        (f" Sources: {A}, <{B}>.", {1: A, 2: B}),
        (f"\nReferences:\n[1] {A}, {B}", {1: A}),
        (f"\n\nLinks:\n[1] {A}", {1: A}),
        (f" References: [1] {A} [2] {B}", {1: A, 2: B}),
        (f" Sources: 1. {A}, 2. {B}", {1: A, 2: B}),
        (f"\n[2] {B}\n[1] {A}\n[2] {A}", {2: B, 1: A}),
    ],
)  # fmt: skip
def test_a_list_of_references_at_the_end_is_split_off(tail: str, expected: dict[int, str]) -> None:
    body = "Tin melts at 232 degrees [1]. Lead melts later [2]."
    end, sources = references(body + tail)
    found = {number: source.url for number, source in sources.items() if source.url}
    assert (body + tail)[:end].rstrip() == body
    assert found == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Tin melts [1].",
        f"Read these:\n1. The page {A} says why.\n2. And {B} says more.",
        "Steps:\n1. Melt the tin\n2. Pour it",
        f"Tin melts, says {A}",
        f"[1] {A}\n\nTin melts, after all.",
        "References are of use.",
        "The references: 1. none",
    ],
)  # fmt: skip
def test_what_is_no_list_of_references_stays(text: str) -> None:
    assert references(text) == (len(text), {})


def test_sources_are_those_listed_and_those_named_in_the_text() -> None:
    text = f"Tin melts [1](https://c.example/). Lead too [3]. So does [zinc]({B}) [{A}].\n\nReferences:\n[3] Lead. {A}"
    body, cited = cited_sources(text)
    assert body == f"Tin melts [1](https://c.example/). Lead too [3]. So does [zinc]({B}) [{A}]."
    assert [(row["number"], row["url"], row["title"]) for row in cited] == [
        (1, "https://c.example/", None),
        (3, A, "Lead"),
        (4, B, None),
    ]
    assert all(row.keys() == {"number", "url", "passage_id", "title", "text"} for row in cited)


@pytest.mark.parametrize("text", [f"“{A}”", f"`{A}`.", f"{{{A}}}", f"{A}’,", f"{A},{A}", f"| {A}|", f"({A}; {A})"])
def test_signs_around_an_address_are_no_part_of_it(text: str) -> None:
    assert urls(text) == [A]


def test_a_source_without_an_address_is_known_by_its_title() -> None:
    _, cited = cited_sources("Tin [1].\n\nReferences:\n1. Vane, On Tin, 1911")
    assert [(row["number"], row["url"], row["title"]) for row in cited] == [(1, None, "Vane, On Tin, 1911")]


def test_an_answer_without_sources_is_its_own_body() -> None:
    assert cited_sources("Tin melts.\n") == ("Tin melts.\n", [])


# ---------------------------------------------------------------- hostile text

HOSTILE = [
    "[" * 200_000,
    "[1" * 100_000,
    "[1, " * 50_000,
    "[1-" * 70_000,
    "[^" * 100_000,
    "(passage " * 20_000,
    " " * 200_000,
    "[https://" * 20_000,
    "(https://a" * 20_000,
    "https://a.example/" + "(a)" * 60_000,
    "[a](https://b " * 15_000,
    "\n[1] https://a.example" * 10_000,
    "\n1. " * 50_000,
    "References: [1] " * 12_000,
    "- " * 100_000,
    "\n" * 200_000,
    "【1†" * 60_000,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_costs_time_in_proportion_to_its_length(text: str) -> None:
    started = time.process_time()
    cited_numbers(text), without_marks(text), citation_spans(text), references(text), cited_sources(text)
    assert time.process_time() - started < 8


@pytest.mark.parametrize("text", [
    f"It lives near the harbour {A}. See also the sea.",
    f"It lives near the harbour. {A} See also the sea.",
    f"It lives near the harbour, {A}.",
    f"It lives near the harbour [1] {A}",
    f"It lives near the harbour {A}, {A}\nMore.",
])  # fmt: skip
def test_a_bare_address_at_the_end_of_a_sentence_is_its_citation(text: str) -> None:
    _, cited = cited_sources(text)
    assert [row["url"] for row in cited] == [A]
    assert "http" not in without_marks(text)


@pytest.mark.parametrize("text", [
    f"Go to {A}. See also {B}. It is at {A}",
    f"The page {A} says why, and {B} agrees with it.",
    f"1. World Bank {A}\n2. Tin: {B}",
    f"Its website, {A}. See e.g. {B}. Run `curl {A}`. Set x={A}.",
])  # fmt: skip
def test_an_address_that_a_sentence_speaks_of_is_text(text: str) -> None:
    assert cited_sources(text) == (text, [])
    assert without_marks(text) == text


def test_sources_on_one_line_may_be_named_without_a_scheme() -> None:
    text = "Tin melts.\n\nSources: [1] a.example, [2] b.example/x."
    _, sources = references(text)
    assert {number: source.title for number, source in sources.items()} == {1: "a.example", 2: "b.example/x"}
    assert references("Sources: [1] says so, [2] does not.")[1] == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It melts (HTTP://Example.ORG/x).", "http://Example.ORG/x"),
        ("It melts at 232 degrees [www.example.org/x].", "https://www.example.org/x"),
        ("Tin melts at 232 degrees. www.example.org/x", "https://www.example.org/x"),
        ("It melts [so](www.example.org/x).", "https://www.example.org/x"),
        ("It melts (doi:10.1000/xyz).", "https://doi.org/10.1000/xyz"),
        ("It melts (DOI: 10.1000/S0140-6736(20)30183-5).", "https://doi.org/10.1000/S0140-6736(20)30183-5"),
        ("Tin melts at 232 degrees. doi.org/10.1000/xyz", "https://doi.org/10.1000/xyz"),
        ("Tin melts [1].\n\n[1] www.example.org", "https://www.example.org"),
        ("Tin melts [1].\n\n1. doi:10.1000/xyz", "https://doi.org/10.1000/xyz"),
        ("It melts (https://user:secret@a.example/x).", "https://a.example/x"),
    ],
)
def test_addresses_are_known_however_they_are_written(text: str, expected: str) -> None:
    body, cited = cited_sources(text)
    assert [row["url"] for row in cited] == [expected]
    assert without_marks(body).rstrip(".") in ("It melts", "It melts so", "Tin melts", "It melts at 232 degrees", TIN)


TIN = "Tin melts at 232 degrees"


@pytest.mark.parametrize("text", ["The www. is old.", "Write to a@www.example.org now.", "A doi: 10 of 20.", "www.a"])
def test_what_only_looks_like_an_address_is_none(text: str) -> None:
    assert urls(text) == []
