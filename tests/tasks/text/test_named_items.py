"""Lists of named items: each form in which models and people write them gives the same names and checks."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.text.markdown.named_items import named_items

Items = list[tuple[str, str]]

FORMS = (
    "{n}. **{name}**: {check}", "{n}) **{name}**: {check}", "({n}) **{name}**: {check}", "{n}: **{name}**: {check}",
    "{n}\\. **{name}**: {check}", "{roman}. **{name}**: {check}", "({roman}) **{name}**: {check}",
    "Criterion {n}: **{name}**: {check}", "**Criterion {n}:** {name}: {check}", "**Criterion {n}: {name}**\n{check}",
    "### {n}. {name}\n{check}", "## {n}) **{name}**\n\n{check}", "#### Criterion {n}: {name}\n\n{check}",
    "**{n}. {name}**: {check}", "**{n}. {name}:** {check}", "**{n}.** **{name}**: {check}", "1. **{name}**: {check}",
    "{n:>2}. **{name}**: {check}", "{skipped}. **{name}**: {check}", "{n}. **{name}:** {check}",
    "{n}. **{name}** : {check}", "{n}. **{name}**：{check}", "{n}. **{name}** - {check}", "{n}. **{name}** – {check}",
    "{n}. **{name}**—{check}", "{n}. **{name}** {check}", "{n}. __{name}__: {check}", "{n}. *{name}*: {check}",
    "{n}. {name}: {check}", "{n}.**{name}**: {check}", "{n}.\t**{name}**:\t{check}", "{n}. **{name}**:\n   {check}",
    "{n}. **{name}**\n\n   {check}", "{n}. **{name}**\n   - {check}", "{n}. **{name}**:\n\t* {check}",
    "- **{name}**: {check}", "* **{name}**: {check}", "• **{name}**: {check}", "- [ ] **{name}**: {check}",
    "**{name}**: {check}", "**{name}**\n{check}",
)  # fmt: skip
ROMAN = ["i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii"]
TWO = [("Title length", "Has it at most ten words?"), ("Open end", "Check that nothing is settled.")]

STARTS = st.sampled_from(["Title", "Use of `with`", "Reader's place", "Time-outs", "Ex-ante", "C++"])
MORE = st.sampled_from(["and length", "`def f(x)`", "of 3 parts", "(as such)", "in R&D", "don’t", "“quoted”"])
NAMES = st.builds(" ".join, st.builds(lambda one, more: [one, *more], STARTS, st.lists(MORE, max_size=2)))
BEGINS = st.sampled_from(["Is it", "Check that it is", "Does the text say:", "Verify that https://a.example/b#1 is"])
SIGNS = ("so:", "**bold**,", "*a*", "1.", "2)", "-", "–", "`x: y`", "http://b.example:80/?q=1", "10:30", "2.5")
WORDS = st.lists(st.sampled_from(SIGNS))
CHECKS = st.builds(lambda start, words, end: " ".join([start, *words]) + end, BEGINS, WORDS, st.sampled_from("?."))


def rendered(form: str, items: Items, gap: str = "\n") -> str:
    lines = []
    for n, (name, check) in enumerate(items, 1):
        told = {"n": n, "roman": ROMAN[n - 1], "skipped": 3 * n - 2, "name": name, "check": check}
        lines.append(form.format(**told))
    return gap.join(lines)


@pytest.mark.parametrize("form", FORMS)
def test_named_items_reads_a_list_in_this_form(form: str) -> None:
    assert named_items(rendered(form, TWO)) == TWO


@given(st.data(), st.sampled_from(FORMS), st.sampled_from(["\n", "\n\n", "\r\n", "\n\n\n"]))
def test_named_items_finds_what_was_written_in_any_form(data: st.DataObject, form: str, gap: str) -> None:
    items = data.draw(st.lists(st.tuples(NAMES, CHECKS), min_size=1, max_size=12))
    text = rendered(form, items, gap)
    if data.draw(st.booleans()):
        text = f"Sure! Here is what a reader looks for:\n\n{text}\n\nI hope that these are of use."
    assert named_items(text) == items
    assert named_items(text.replace("\r\n", "\n").replace("\n", "\r\n")) == items
    assert named_items("```markdown\n" + text.replace("\r\n", "\n") + "\n```") == items


A, B, C, D = ("Aim", "Is it told?"), ("Basis", "Is it sound?"), ("Course", "Is it clear?"), ("Drift", "Is it right?")
A1, B2, C3, D4 = (f"{n}. **{name}**: {check}" for n, (name, check) in enumerate((A, B, C, D), 1))
BARE = [line[3:] for line in (A1, B2, C3, D4)]


def case(name: str, *given: Any) -> Any:
    return pytest.param(*given, id=name)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        (f"{A1}\n{B2}\n\n1. {BARE[2]}", [A, B, C]),
        (f"    {A1}\n    {B2}", [A, B]),
        ("1. Is it told?\n2. is it sound: in all?", [("", "Is it told?"), ("", "is it sound: in all?")]),
        ("- Is it told?\n- Is it sound?", [("", "Is it told?"), ("", "Is it sound?")]),
        (f"1. **Aim**: Is it told\nin the first line?\n{B2}", [(A[0], "Is it told in the first line?"), B]),
        (f"{A1}\n\nNow the others.\n\n{B2}\n\n---\n\nBye.", [A, B]),
        ("1. **Aim**\n2. **Basis**:", [("Aim", ""), ("Basis", "")]),
        (f"{A1}\n{A1}", [A, A]),
        (f"1.\n{B2}", [B]),
        ("1. Is the title short: under ten words?", [("", "Is the title short: under ten words?")]),
        ("1. Is it? See: the rules.", [("", "Is it? See: the rules.")]),
        (f"1. {'Many ' * 12}words: so?", [("", f"{'Many ' * 12}words: so?")]),
        ("1. **A: b**: Is it: so?", [("A: b", "Is it: so?")]),
        ("1. **`a` in `b`**: Is it `c: d`?", [("`a` in `b`", "Is it `c: d`?")]),
        ("1. **Aim**: See https://c.example/d: is it?", [("Aim", "See https://c.example/d: is it?")]),
        ("1. See https://c.example/d for it?", [("", "See https://c.example/d for it?")]),
        case("``` is in the check", f"```\n{A1}\n```\n\nBye.", [A]),
        case("``` of a fence with CRLF is in the check", f"```\r\n{A1}\r\n```", [A]),
        case("items two columns right are lost", f"  {A1}\n 10. {BARE[1]}\n100. {BARE[2]}", [A, B, C]),
        case("an indented list whose first line was stripped is an item", f"{A1}\n   {B2}\n   {C3}", [A, B, C]),
        case("items with dots in their numbers are one", f"1.1 {BARE[0]}\n1.2 {BARE[1]}", [A, B]),
        case("the check begins with *:", "1. ***Aim***: Is it told?", [A]),
        case("a rule of *** is in the check", f"{A1}\n\n***\n\nBye.", [A]),
        case("a remark that begins bold is in the check", f"{A1}\n\n**Note:** this is all.", [A]),
        case("a number that begins a line is lost", "1. **Aim**: Is it\n   2.5 cm?", [("Aim", "Is it 2.5 cm?")]),
        case("the name is in the check", "1. Aim:\n   - Is it told?\n   - How?", [("Aim", "Is it told? How?")]),
        case("only A to Z begin a name", "1. Überblick: Ist er da?", [("Überblick", "Ist er da?")]),
    ],
)
def test_named_items_reads_odd_lists(text: str, items: Items) -> None:
    assert named_items(text) == items


@pytest.mark.parametrize(
    ("text", "check"),
    [
        (f"{A1}\n   - in one line\n   - early\n{B2}", "Is it told? in one line early"),
        (f"{A1}\n- in one line\n* early\n{B2}", "Is it told? in one line early"),
        (f"- {BARE[0]}\n  - in one line\n  - early\n- {BARE[1]}", "Is it told? in one line early"),
        (f"{A1}\n   1. Where?\n   2. How?\n{B2}", "Is it told? Where? How?"),
        (f"{A1}\n1.1 Where?\n1.2. How?\n{B2}", "Is it told? Where? How?"),
        (f"{A1}\n    a) Where?\n    b) How?\n{B2}", "Is it told? Where? How?"),
        (f"1. **Aim**\n\n   - Where?\n\n   - How?\n     And why?\n{B2}", "Where? How? And why?"),
        (f"1. **Aim**:\n\tIs it told?\n\t- Where?\n{B2}", "Is it told? Where?"),
    ],
)
def test_named_items_adds_what_is_below_an_item_to_its_check(text: str, check: str) -> None:
    assert named_items(text) == [("Aim", check), B]


def grouped(heading: str, item: str) -> str:
    """Two groups of two items: `heading` with {n} and {name}, `item` with {n} of its group, {k} in it, {at} of all."""
    lines = [item.format(n=1 + at // 2, k=1 + at % 2, at=1 + at, item=bare) for at, bare in enumerate(BARE)]
    heads = [heading.format(n=n, name=name) for n, name in ((1, "Form"), (2, "Way"))]
    return "\n".join([heads[0], *lines[:2], heads[1], *lines[2:]])


@pytest.mark.parametrize(
    "text",
    [
        grouped("{n}. **{name}**", "   - {item}"),
        grouped("{n}. {name}", "   {k}. {item}"),
        grouped("{n}. {name}:", "{n}.{k} {item}"),
        grouped("## {name}", "{at}. {item}"),
        grouped("## {name}", "{k}. {item}"),
        grouped("- **{name}**", "  - {item}"),
        grouped("## {n}. {name}", "- {item}"),
        grouped("**{name}**\n", "- {item}"),
        case("the heading is in the check before it", grouped("\n**{name}**", "{at}. {item}")),
        case("numbered headings are items as well", grouped("## {n}. {name}", "{k}. {item}")),
        case(
            "a group of one item is the item",
            f"1. **Form**\n   - {BARE[0]}\n2. **Way**\n   - " + "\n   - ".join(BARE[1:]),
        ),
    ],
)
def test_named_items_takes_named_items_below_group_headings_for_the_items(text: str) -> None:
    assert named_items(text) == [A, B, C, D]


REFUSAL = "I'm sorry, but I can't help with that."
NO_LIST = (
    "",
    " \n\t\n",
    "```\n```",
    REFUSAL,
    "Give me the guideline:\n\nit is missing.",
    "Note: it was in 1984.",
    "---",
)


@pytest.mark.parametrize("text", [*NO_LIST, "The year was\n1984. It was cold.", "## Aim\n\nIt is told.", "1. \n2. "])
def test_named_items_finds_nothing_in_a_text_that_is_no_list(text: str) -> None:
    assert named_items(text) == []


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("".join(f"{n % 999}. **Name {n}**: Is it {n}?\n" for n in range(10_000)), 10_000),
        ("1. **Aim**: Is it\n" + "told in many words\n" * 10_000, 1),
        ("1. **Aim**:\n" + "\n   told in many words\n" * 10_000, 1),
        ("1. **Aim**:\n" + "   - told in many words\n" * 10_000, 1),
        ("1. **Form**\n" + "   - **Aim**: Is it told?\n" * 10_000, 10_000),
        ("**Aim**: Is it told?\n\n" * 10_000, 10_000),
        ("1. " + "**" * 100_000, 1),
        ("```\n" + "```  x\n" * 10_000, 0),
    ],
    ids=["items", "lines", "paragraphs", "bullets", "group", "names", "asterisks", "fences"],
)
def test_named_items_reads_long_texts_in_a_second(text: str, items: int) -> None:
    start = time.process_time()
    assert len(named_items(text)) == items
    assert time.process_time() - start < 1
