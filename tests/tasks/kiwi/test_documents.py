"""Document sets and passages: the drop rules of both routes at their bounds, look-up by id and title, takedowns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from expertqa_tables import Home, filled
from hypothesis import given
from hypothesis import strategies as st

from longform.artifacts.rows import Row, Rows
from schemas.kiwi import ASKED, QUESTIONS
from schemas.sources.papers import DUPLICATES, PAPERS, RELATED
from tasks.kiwi.documents import (
    evidence_paragraphs,
    find_documents,
    match_evidence,
    split_passages,
)
from tasks.sources.papers.named import title_id


def paper(number: int, *paragraphs: str, **given: Any) -> Row:
    """A paper s2/<number> with these paragraphs; without any it has no text."""
    starts = [sum(len(text) + 2 for text in paragraphs[:place]) for place in range(len(paragraphs))]
    spans = [
        {"section": None, "start": start, "end": start + len(text), "citations": []}
        for start, text in zip(starts, paragraphs, strict=True)
    ]
    own = {"title": f"Paper {number}", "text": "\n\n".join(paragraphs), "paragraphs": spans, "licence": "CCBY"}
    return filled(PAPERS, paper_id=f"s2/{number}", **{**own, **given})


def texts(*numbers: int) -> list[Row]:
    return [paper(number, f"This is the paragraph number {number} here.") for number in numbers]


def related(key: str, *cited: int, **given: Any) -> Row:
    references = [
        {"ref_id": f"b{number}", "paper_id": f"s2/{number}", "title": f"Paper {number}", "year": None}
        for number in cited
    ]
    own = {"title": "On jars", "text": f"Paragraph {key}.", "references": references, "venue": "Jars 2025"}
    return filled(RELATED, related_id=key, paper_id="s2/1000", **{**own, **given})


def documents(path: Path, rows: list[Row], papers: list[Row], venues: tuple[str, ...] = ()) -> tuple[Rows, Any]:
    home = Home(path)
    tables = (home.table(RELATED, rows), home.table(PAPERS, papers), home.table(DUPLICATES, []))
    made = home.run(find_documents, *tables, venues=list(venues))
    return made, home.rejected(made)


# ---------------------------------------------------------------- of paragraphs


@pytest.mark.parametrize(
    ("cited", "at_hand", "reason"),
    [
        (4, 4, None),
        (5, 4, None),
        (6, 4, "too many cited papers missing"),
        (10, 7, None),
        (10, 6, "too many cited papers missing"),
        (3, 3, "fewer than 4 cited papers at hand"),
        (4, 3, "fewer than 4 cited papers at hand"),
        (4, 2, "too many cited papers missing"),
        (0, 0, "fewer than 4 cited papers at hand"),
        (20, 14, None),
        (20, 13, "too many cited papers missing"),
    ],
)
def test_a_paragraph_is_dropped_above_30_percent_missing_or_below_4_at_hand(
    tmp_path: Path, cited: int, at_hand: int, reason: str | None
) -> None:
    made, rejected = documents(tmp_path, [related("r", *range(cited))], texts(*range(at_hand)))
    assert rejected == ({"r": reason} if reason else {})
    found = [([each["paper_id"] for each in row["documents"]], row["cited"], row["missing"]) for row in made]
    assert found == ([] if reason else [([f"s2/{n}" for n in range(at_hand)], cited, cited - at_hand)])


def test_a_paper_without_paragraphs_is_missing(tmp_path: Path) -> None:
    _, rejected = documents(tmp_path, [related("r", 1, 2, 3, 4)], [*texts(1, 2, 3), paper(4)])
    assert rejected == {"r": "fewer than 4 cited papers at hand"}


@pytest.mark.parametrize(("venues", "kept"), [((), "abcd"), (("jars",), "ab"), (("cups", "2024"), "bc"), (("x",), "")])
def test_source_papers_are_bounded_by_parts_of_the_names_of_venues(
    tmp_path: Path, venues: tuple[str, ...], kept: str
) -> None:
    names = {"a": "Jars 2025", "b": "Jars 2024", "c": "CUPS", "d": None}
    rows = [related(key, 1, 2, 3, 4, venue=venue) for key, venue in names.items()]
    made, rejected = documents(tmp_path, rows, texts(1, 2, 3, 4), venues)
    assert "".join(sorted(row["related_id"] for row in made)) == kept
    assert rejected == dict.fromkeys({*names} - {*kept}, "another venue")


# ---------------------------------------------------------------- of questions by people


def asked(*evidence: Row | str, given: Any = (), **more: Any) -> Row:
    papers = [{"paper_id": "", "title": each} if isinstance(each, str) else each for each in evidence]
    own = {"question_id": "q", "question": "What are jars?", "evidence": papers, "given": list(given)}
    return filled(ASKED, **{**own, **more})


UNKNOWN = title_id("Unknown")


def by_id(number: int, title: str = "") -> Row:
    return {"paper_id": f"s2/{number}", "title": title}


def matched(path: Path, row: Row, papers: list[Row], takedowns: tuple[str, ...] = ()) -> tuple[list[Row], Any]:
    home = Home(path)
    more = {"takedowns": list(takedowns)} if takedowns else {}
    made = home.run(match_evidence, home.table(ASKED, [row]), home.table(PAPERS, papers), **more)
    return list(made), home.rejected(made)


@pytest.mark.parametrize(
    ("named", "at_hand", "reason"),
    [
        (4, 4, None),
        (4, 3, None),
        (4, 2, "more than one evidence paper missing"),
        (3, 3, "fewer than 4 evidence papers"),
        (3, 2, "fewer than 4 evidence papers"),
        (6, 5, None),
        (6, 4, "more than one evidence paper missing"),
        (30, 29, None),
        (30, 28, "more than one evidence paper missing"),
    ],
)
def test_a_question_by_a_person_is_dropped_with_two_papers_missing_or_below_4_in_all(
    tmp_path: Path, named: int, at_hand: int, reason: str | None
) -> None:
    found, rejected = matched(tmp_path, asked(*(by_id(n) for n in range(named))), texts(*range(at_hand)))
    assert rejected == ({"q": reason} if reason else {})
    assert [(len(row["documents"]), row["cited"], row["missing"], row["origin"]) for row in found] == (
        [] if reason else [(at_hand, named, named - at_hand, "people")]
    )


@pytest.mark.parametrize(
    "written",
    ["Paper 4", "PAPER 4", "paper: 4!", "  Paper\n4 ", "Paper—4"],
    ids=["as", "case", "marks", "space", "dash"],
)
def test_a_paper_is_found_by_its_title_whatever_case_and_marks(tmp_path: Path, written: str) -> None:
    (row,), _ = matched(tmp_path, asked(by_id(1), by_id(2), by_id(3), written), texts(1, 2, 3, 4))
    assert [each["paper_id"] for each in row["documents"]] == ["s2/1", "s2/2", "s2/3", "s2/4"]


def test_papers_named_by_number_alone_get_their_titles_and_keep_their_own_paragraphs(tmp_path: Path) -> None:
    given = [{"paper": 4, "text": "Brought for eight."}, {"paper": 5, "text": "Brought for nine."}]
    row = asked(*(by_id(n) for n in (1, 2, 3, 4, 8, 9)), given=given)
    (found,), _ = matched(tmp_path, row, texts(1, 2, 3, 4))
    assert [each["title"] for each in found["documents"]] == [*(f"Paper {n}" for n in range(1, 5)), "", ""]
    home = Home(tmp_path / "passages")
    questions = home.table(QUESTIONS, [found])
    evidence = home.run(evidence_paragraphs, home.table(PAPERS, []), questions)
    made = home.run(split_passages, questions, evidence, home.table(ASKED, [row]))
    assert {each["passage_id"]: each["text"] for each in made} == {
        "q/s2/8#0": "Brought for eight.",
        "q/s2/9#0": "Brought for nine.",
    }


def test_an_id_counts_before_a_title_and_a_paper_without_a_text_is_missing(tmp_path: Path) -> None:
    row = asked(by_id(1, "Paper 2"), by_id(99, "Paper 3"), by_id(5, "Paper 5"), by_id(4))
    (found,), _ = matched(tmp_path, row, [*texts(1, 2, 3, 4), paper(5)])
    assert [each["paper_id"] for each in found["documents"]] == ["s2/1", "s2/3", "s2/4"]


def test_paragraphs_that_the_file_brings_make_a_paper_at_hand_under_its_id_or_its_title(tmp_path: Path) -> None:
    given = [{"paper": place, "text": "A whole paragraph of a paper."} for place in (0, 1)]
    row = asked(by_id(77, "Far"), "Unknown", by_id(3), by_id(4), given=given)
    (found,), _ = matched(tmp_path, row, texts(3, 4))
    assert [each["paper_id"] for each in found["documents"]] == ["s2/77", title_id("Unknown"), "s2/3", "s2/4"]


@pytest.mark.parametrize(
    ("source_id", "title", "expected"),
    [("s2/9", "Paper 1", "s2/9"), (None, "paper 1.", "s2/1"), (None, "Far", None), (None, None, None)],
)
def test_the_source_paper_is_the_one_that_the_file_names_by_id_else_by_title(
    tmp_path: Path, source_id: str | None, title: str | None, expected: str | None
) -> None:
    row = asked(*(by_id(n) for n in range(4)), source_id=source_id, source_paper=title)
    (found,), _ = matched(tmp_path, row, texts(*range(4)))
    assert found["source_id"] == expected


@pytest.mark.parametrize(
    ("listed", "left"),
    [
        ("s2/3", ["s2/1", "s2/2", "s2/4", UNKNOWN]),
        (UNKNOWN, ["s2/1", "s2/2", "s2/3", "s2/4"]),
        ("s2/1000", []),
        (title_id("On Jars"), []),
        ("s2/5", ["s2/1", "s2/2", "s2/3", "s2/4", UNKNOWN]),
    ],
)
def test_what_a_file_brings_of_a_paper_that_is_taken_down_is_not_used(
    tmp_path: Path, listed: str, left: list[str]
) -> None:
    given = [{"paper": place, "text": "A whole paragraph of a paper."} for place in range(5)]
    row = asked(*(by_id(n) for n in (1, 2, 3, 4)), "Unknown", given=given, source_id="s2/1000", source_paper="On jars")
    found, rejected = matched(tmp_path, row, texts(1, 2), takedowns=(listed,))
    assert [each["paper_id"] for row in found for each in row["documents"]] == left
    assert rejected == ({} if left else {"q": "taken down"})


# ---------------------------------------------------------------- passages


def question(*papers: int, key: str = "q") -> Row:
    named = [{"paper_id": f"s2/{number}", "title": f"Paper {number}"} for number in papers]
    return filled(QUESTIONS, question_id=key, question="What?", documents=named)


def test_passages_are_the_paragraphs_of_a_questions_papers_without_scraps(tmp_path: Path) -> None:
    home = Home(tmp_path)
    one = paper(1, "One two three four five.", "Table 3.", "Six seven eight nine ten.")
    papers = home.table(PAPERS, [one, *texts(2, 3)])
    questions = home.table(QUESTIONS, [question(1, 2), question(2, key="r")])
    evidence = home.run(evidence_paragraphs, papers, questions)
    assert home.rejected(evidence) == {"s2/3": "evidence of no question"}
    made = home.run(split_passages, questions, evidence, home.table(ASKED, []))
    assert {row["passage_id"]: row["text"] for row in made} == {
        "q/s2/1#0": "One two three four five.",
        "q/s2/1#2": "Six seven eight nine ten.",
        "q/s2/2#0": "This is the paragraph number 2 here.",
        "r/s2/2#0": "This is the paragraph number 2 here.",
    }
    assert {(row["licence"], row["title"]) for row in made} == {("CCBY", "Paper 1"), ("CCBY", "Paper 2")}


def test_paragraphs_of_the_file_stand_in_for_a_paper_without_a_text_alone(tmp_path: Path) -> None:
    home = Home(tmp_path)
    given = [{"paper": 0, "text": "Brought for one."}, {"paper": 1, "text": "Brought for two."}]
    row = asked(by_id(1, "Paper 1"), by_id(2, "Paper 2"), given=given, licence="CC0-1.0")
    questions = home.table(QUESTIONS, [question(1, 2), question(9, key="none")])
    evidence = home.run(evidence_paragraphs, home.table(PAPERS, texts(1)), questions)
    made = home.run(split_passages, questions, evidence, home.table(ASKED, [row]))
    assert {row["passage_id"]: (row["text"], row["licence"]) for row in made} == {
        "q/s2/1#0": ("This is the paragraph number 1 here.", "CCBY"),
        "q/s2/2#0": ("Brought for two.", "CC0-1.0"),
    }
    assert home.rejected(made) == {"none": "no passage of its papers"}


@given(st.text(min_size=1, max_size=9), st.text(min_size=1, max_size=9))
def test_ids_of_titles_are_equal_where_the_titles_are_but_for_case(one: str, other: str) -> None:
    assert (title_id(one) == title_id(other)) == (one.casefold() == other.casefold())
