"""Feedback taken apart into remarks, and the criterion that each belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.text.markdown.remarks import remarks

FRUIT = {"criterion_id": "c1", "name": "Name of the fruit", "check": "Does the label tell the fruit and its variety?"}
DATE = {"criterion_id": "c2", "name": "Date", "check": "Is there a day, month and year of filling?"}
BARE = {"criterion_id": "c3", "name": "", "check": "Check that no brand, slogan or advertisement occurs."}
QUOTED = {"criterion_id": "c4", "name": "Grower's “own” words", "check": "Are sayings of growers quoted?"}
CRITERIA = [FRUIT, DATE, BARE, QUOTED]
Found = list[tuple[str | None, str, str]]


def found(feedback: str, criteria: list[dict[str, str]] = CRITERIA) -> Found:
    told = remarks(feedback, criteria)
    assert all(each.keys() == {"criterion_id", "by", "text"} for each in told)
    return [(each["criterion_id"], str(each["by"]), str(each["text"])) for each in told]


# ---------------------------------------------------------------- by name

ONE, TWO = ("c1", "name", "It says plum."), ("c2", "name", "There is none.")


@pytest.mark.parametrize(
    "feedback",
    [
        "1. **Name of the fruit**:\n    - It says plum.\n\n2. **Date**:\n    - There is none.",
        "1. **Name of the fruit**: It says plum.\n2. **Date**: There is none.",
        "1) **Name of the fruit:** It says plum.\n2) **Date.** There is none.",
        "(1) **Name of the fruit** - It says plum.\n(2) **Date** – There is none.",
        "1.\t**Name of the fruit**:\n\t- It says plum.\n2.\t**Date**:\n\t* There is none.",
        "- **Name of the fruit**: It says plum.\n- **Date**: There is none.",
        "* __Name of the fruit__: It says plum.\n• __Date__: There is none.",
        "**Name of the fruit**\nIt says plum.\n\n**Date**\n\nThere is none.",
        "### Name of the fruit\nIt says plum.\n\n### Date\nThere is none.",
        "### 1. **Name of the fruit**\n\nIt says plum.\n\n### 2. **Date**\n\nThere is none.",
        "1. Name of the fruit: It says plum.\n2. Date: There is none.",
        "1. Name of the fruit\n   - It says plum.\n2. Date\n   - There is none.",
        "1. **Name of the fruit**:\r\n    - It says plum.\r\n\r\n2. **Date**:\r\n    - There is none.\r\n",
        "1. **NAME OF THE FRUIT**: It says plum.\n2. **date:** There is none.",
        "1. **“Name of the fruit”**: It says plum.\n2. **`Date`**: There is none.",
        "1. **'Name  of the fruit'.**: It says plum.\n2. **\"Date\"**: There is none.",
        "**1. Name of the fruit**: It says plum.\n**2. Date**: There is none.",
        "### 1. Name of the fruit\nIt says plum.\n\n### 2. Date\nThere is none.",
        " 9. **Name of the fruit**: It says plum.\n10. **Date**: There is none.",
        "  1. **Name of the fruit**: It says plum.\n  2. **Date**: There is none.",
        "**Criterion 1: Name of the fruit**: It says plum.\n**Criterion 2: Date**: There is none.",
    ],
)  # fmt: skip
def test_a_remark_belongs_to_the_criterion_whose_name_it_begins_with(feedback: str) -> None:
    assert found(feedback) == [ONE, TWO]


@pytest.mark.parametrize(
    "name", ['Grower\'s "own" words', "GROWER’S ‘own’ words", "Growers own words", "`Grower's` own words:"]
)
def test_names_are_the_same_but_for_case_and_quotation_marks(name: str) -> None:
    assert found(f"1. **{name}**:\n    - Quote one.") == [("c4", "name", "Quote one.")]


@pytest.mark.parametrize(
    ("feedback", "expected"),
    [
        ("1. **Date**:\n    - No day.\n    - No year.\n2. **Name of the fruit**: Good.",
         [("c2", "name", "No day.\nNo year."), ("c1", "name", "Good.")]),
        ("1. **Date**:\n    - **Strong**: the month.\n    - **Weak**: the day.",
         [("c2", "name", "**Strong**: the month.\n**Weak**: the day.")]),
        ("1. **Date**: No day.\n2. **Date**: No year.", [("c2", "name", "No day."), ("c2", "name", "No year.")]),
        ("1. **Date**:\n\n2. **Name of the fruit**: Good.", [("c1", "name", "Good.")]),
        ("1. **Date**: See **Name of the fruit** above.", [("c2", "name", "See **Name of the fruit** above.")]),
        ("Here it is:\n\n1. **Date**: No day.", [(None, "none", "Here it is:"), ("c2", "name", "No day.")]),
        ("1. **Colours**:\n    - Too blue.\n2. **Date**: No day.",
         [(None, "none", "Colours: Too blue."), ("c2", "name", "No day.")]),
        ("1. **Hype**:\n    - Leave the slogan, the brand and this advertisement out.",
         [("c3", "words", "Hype: Leave the slogan, the brand and this advertisement out.")]),
        ("1. **Colours**:", [(None, "none", "Colours")]),
        ("", []),
        (" \n\n \n", []),
        ("1. **Date**:\n    - No day.\n\nThe label tells neither fruit nor variety.",
              [("c2", "name", "No day."), ("c1", "words", "The label tells neither fruit nor variety.")]),
        ("1. **Date**:\n    - No day.\n\nGood luck!",
              [("c2", "name", "No day."), (None, "none", "Good luck!")]),
        ("**Great** jar.\n\n1. **Date**: No day.",
              [(None, "none", "**Great** jar."), ("c2", "name", "No day.")]),
    ],
)  # fmt: skip
def test_remarks_of_odd_feedback(feedback: str, expected: Found) -> None:
    assert found(feedback) == expected


# ---------------------------------------------------------------- by words


@pytest.mark.parametrize(
    ("feedback", "criterion"),
    [
        ("The label should tell which variety of fruit it holds.", "c1"),
        ("A day, a month and a YEAR are missing.", "c2"),
        ("Neither a brand nor a slogan, no advertisement: well done.", "c3"),
        ("We miss day and month.", None),
        ("There is a nice lid on it.", None),
        ("Give day, month, year; then brand, slogan, advertisement.", None),  # three of each
        ("It is what it is.", None),
    ],
)
def test_a_paragraph_without_names_belongs_to_the_criterion_of_its_rarer_words(
    feedback: str, criterion: str | None
) -> None:
    assert found(feedback) == [(criterion, "words" if criterion else "none", feedback)]


def test_paragraphs_without_names_are_remarks_of_their_own() -> None:
    first, second = "Dear grower,", "the day, month and year are there.\nThat is good."
    assert found(f"{first}\n\n{second}\n \n\n- It tells fruit and variety on its label.") == [
        (None, "none", first),
        ("c2", "words", second),
        ("c1", "words", "It tells fruit and variety on its label."),
    ]


def test_to_a_single_criterion_all_remarks_belong() -> None:
    assert found("Well done.\n\n1. **Colours**: Blue.\n2. **Date**: None.", [DATE]) == [
        ("c2", "words", "Well done."),
        ("c2", "words", "Colours: Blue."),
        ("c2", "name", "None."),
    ]


def test_without_criteria_no_remark_belongs_to_any() -> None:
    assert found("Well done.\n\n**Date**: None.", []) == [(None, "none", "Well done."), (None, "none", "Date: None.")]


def test_of_two_criteria_of_one_name_it_is_the_first() -> None:
    assert found("**Date**: None.", [FRUIT, DATE, {**DATE, "criterion_id": "c9"}]) == [("c2", "name", "None.")]


def test_base_feedback_finds_its_criteria_among_many() -> None:
    many = [
        {"criterion_id": f"m{n}", "name": f"Point {n}", "check": f"Is thing{n} near place{n} on day{n}?"}
        for n in range(60)
    ]
    feedback = (
        "I like it.\n\nMove thing41 to place41, as on day41.\n\n**Point 7**: Good.\n**Point 59**: thing8, place8, day8."
    )
    assert [(criterion, by) for criterion, by, _ in found(feedback, many)] == [
        (None, "none"), ("m41", "words"), ("m7", "name"), ("m59", "name"),
    ]  # fmt: skip


PARTS = st.lists(
    st.tuples(
        st.sampled_from(["Name of the fruit", "Date", "Colours", "Grower's “own” words"]),
        st.lists(
            st.sampled_from(["It is so.", "See “plum”: good.", "`x = 1` is *odd*.", "Add 3.5 g of it."]), min_size=1
        ),
    ),
    min_size=1,
)
IDS = {"Name of the fruit": "c1", "Date": "c2", "Colours": None, "Grower's “own” words": "c4"}


@given(PARTS)
def test_feedback_in_the_released_form_comes_apart_as_it_was_written(parts: list[tuple[str, list[str]]]) -> None:
    items = [
        f"{n}. **{name}**:\n" + "\n".join(f"    - {each}" for each in said) for n, (name, said) in enumerate(parts, 1)
    ]
    told = found("\n\n".join(items))
    assert [(criterion, by) for criterion, by, _ in told] == [
        (IDS[name], "name" if IDS[name] else "none") for name, _ in parts
    ]
    for (name, said), (criterion, _, text) in zip(parts, told, strict=True):
        whole = "\n".join(said)
        assert text == (whole if criterion else f"{name}: {whole}")


@given(st.text(st.sampled_from("ab *_-#1.):\n\r\t“”é"), max_size=80) | st.text(max_size=60))
def test_any_feedback_comes_apart_and_loses_no_letter_but_names_of_criteria(feedback: str) -> None:
    letters = [sign for sign in feedback if sign.isalpha()]
    told = [sign for _, _, text in found(feedback, [BARE, FRUIT]) for sign in text if sign.isalpha()]
    assert told == letters
