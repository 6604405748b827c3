"""Markdown as a document: its front matter and sections, a fence around the whole, names as parts of ids."""

from __future__ import annotations

import string
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tasks.text.markdown.document import front_matter, sections, slug_of, unfenced


def case(name: str, *given: Any) -> Any:
    return pytest.param(*given, id=name)


# ---------------------------------------------------------------- front matter


@pytest.mark.parametrize(
    ("text", "fields", "rest"),
    [
        ("---\ntitle: Jars\nlicence: MIT\n---\n# Jars\n", {"title": "Jars", "licence": "MIT"}, "# Jars\n"),
        ("\ufeff---\na: b\n---\nc", {"a": "b"}, "c"),
        ("---\r\na: b\r\n---\r\nc\r\nd", {"a": "b"}, "c\nd"),
        ("---  \na :  b  \n\n---\t\nc", {"a": "b"}, "c"),
        ("---\na: \"b: c\"\nd: 'e'\n---\n", {"a": "b: c", "d": "e"}, ""),
        ("---\nsource: https://a.example/b#c\n---\n", {"source": "https://a.example/b#c"}, ""),
        ("---\na:\n---\nb", {"a": ""}, "b"),
        ("---\na: b\n---\nc\n---\nd: e\n---\n", {"a": "b"}, "c\n---\nd: e\n---\n"),
        ("# Jars\n---\na: b\n---\n", {}, "# Jars\n---\na: b\n---\n"),
        ("---\na: b\nc", {}, "---\na: b\nc"),
        ("a: b\n", {}, "a: b\n"),
        ("", {}, ""),
    ],
)  # fmt: skip
def test_front_matter_is_apart_from_the_text_only_at_its_beginning(
    text: str, fields: dict[str, str], rest: str
) -> None:
    assert front_matter(text) == (fields, rest)


KEYS = st.text(string.ascii_lowercase, min_size=1, max_size=8)
VALUES = st.text(string.ascii_letters + string.digits + " .,/()é語", max_size=20).map(str.strip)


@given(st.dictionaries(KEYS, VALUES), st.text(string.ascii_letters + "\n# -:", max_size=30))
def test_front_matter_reads_simple_fields_as_yaml_does(fields: dict[str, str], body: str) -> None:
    head = "".join(f'{name}: "{value}"\n' for name, value in fields.items())
    assert (yaml.load(head, yaml.BaseLoader) or {}) == fields
    assert front_matter(f"---\n{head}---\n{body}") == (fields, body)


# ---------------------------------------------------------------- sections


@pytest.mark.parametrize(
    ("markdown", "headings"),
    [
        ("# T\n\nx\n\n## A\na\n\n## B\nb", ["A", "B"]),
        ("# T\n## A\n### A1\n### A2\n## B\n### B1", ["A", "B"]),
        ("# A\na\n# B\nb\n## c\n## d", ["A", "B"]),
        ("# T\n## A\n### A1\n### A2", ["A1", "A2"]),
        ("# T\n## A\n### A1", ["A1"]),
        ("# T\nx", ["T"]),
        ("x\n\ny", []),
        ("", []),
        ("A\n===\na\n\nB\n===\nb", ["A", "B"]),
        ("T\n===\n\nA\n---\na\n\nB\n---\nb", ["A", "B"]),
        ("T\n===\n\n## A\na\n\nB\n---\nb", ["A", "B"]),
        ("## A\n```\n## no\n```\n## B\n~~~python\n## no\n~~~", ["A", "B"]),
        ("## A\n\n    ## no\n\n## B\n`\n## C", ["A", "B", "C"]),
        ("## A\n> ## no\n\n- ## no\n\n## B\n<!--\n## no\n-->", ["A", "B"]),
        ("#no\n\n## A ##\n\n   ## B\n#######  no", ["A", "B"]),
        ("## **A** *of* `b`\n## [C](d)", ["A of b", "[C](d)"]),
        ("## A\nx\n\n***\n\ny\n\n---\n\nz\n## B", ["A", "B"]),
        ("## Same\n## Same", ["Same", "Same"]),
        ("## A\r\na\r\n## B\r\nb", ["A", "B"]),
        case("underscores within a word are left out", "## Use of snake_case\n## B", ["Use of snake_case", "B"]),
    ],
)
def test_sections_are_those_of_the_highest_level_that_comes_again(markdown: str, headings: list[str]) -> None:
    assert [heading for heading, _ in sections(markdown)] == headings


@pytest.mark.parametrize(
    ("markdown", "texts"),
    [
        ("before\n## A\na\n### A1\nb\n## B\nc", ["## A\na\n### A1\nb", "## B\nc"]),
        ("## A\na\n# Top\nnot of A\n## B\nb", ["## A\na", "## B\nb"]),
        ("A\n---\n\na\n\nB\n---\nb\n", ["A\n---\n\na\n", "B\n---\nb\n"]),
        ("## A\n```\n## B\n```\n## C", ["## A\n```\n## B\n```", "## C"]),
        case("a lone carriage return shifts sections", "x\ry\n## A\na\n## B\nb", ["## A\na", "## B\nb"]),
    ],
)
def test_a_section_has_its_heading_and_ends_before_the_next_of_its_level_or_above(
    markdown: str, texts: list[str]
) -> None:
    assert [text for _, text in sections(markdown)] == texts


BODIES = st.lists(st.sampled_from(["word", "- item", "", "```\n## code\n```", "### deeper", "> quote", "a | b"]))


@given(st.lists(st.tuples(st.sampled_from(["One", "Two", "Three of `x`"]), BODIES), min_size=2, max_size=6))
def test_sections_together_are_the_document(parts: list[tuple[str, list[str]]]) -> None:
    texts = ["\n".join([f"## {heading}", *body, ""]) for heading, body in parts]
    found = sections("# Title\n\nIntroduction.\n\n" + "\n".join(texts))
    assert [heading for heading, _ in found] == [heading.replace("`", "") for heading, _ in parts]
    assert [text for _, text in found] == texts


# ---------------------------------------------------------------- fences and slugs


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("```\na\nb\n```", "a\nb"),
        ("\n ```python\n    a\n```  \n", "    a"),
        ("~~~md\na\n~~~", "a"),
        ("````\n```\na\n```\n````", "```\na\n```"),
        ("```c++\na\n```", "a"),
        ("```\n```", ""),
        ("```\na\n~~~", None),
        ("```\na", None),
        ("a\n```\nb\n```", None),
        ("```\na\n```\nb", None),
        ("`a`", None),
        ("", None),
        case("CRLF hides a fence", "```\r\na\r\n```", "a"),
        case("two blocks are taken for one", "```\na\n```\nb\n```\nc\n```", None),
    ],
)
def test_unfenced_gives_what_is_inside_of_a_fence_around_the_whole(text: str, inside: str | None) -> None:
    assert unfenced(text) == inside


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="`~"), max_size=40), st.booleans())
def test_unfenced_gives_back_what_was_fenced(text: str, tilde: bool) -> None:
    fence = "~~~~" if tilde else "```"
    assert unfenced(f"{fence}text\n{text}\n{fence}") == text


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Contents on the label", "contents-on-the-label"),
        ("  1. Titles: how long?  ", "1-titles-how-long"),
        ("snake_case & `code`", "snake-case-code"),
        ("Über 第一 ẞ", "über-第一-ss"),
        ("introductions/headings", "introductions-headings"),
        ("a" * 70, "a" * 60),
        ("", "section"),
        ("?!_", "section"),
        case("a cut before a word leaves a hyphen", "a" * 59 + " b", "a" * 59),
    ],
)
def test_a_slug_has_the_words_of_a_name_in_lower_case_with_hyphens(name: str, slug: str) -> None:
    assert slug_of(name) == slug


@given(st.text(max_size=59))
def test_a_slug_is_a_part_of_an_id_and_its_own_slug(name: str) -> None:
    slug = slug_of(name)
    assert slug
    assert not set(slug) & set(string.whitespace + string.punctuation) - {"-"}
    assert slug == slug.strip("-")
    assert slug_of(slug) == slug
