"""Texts of papers, commits and posts that may be drawn."""

from __future__ import annotations

from typing import Any

import pytest
from expertqa_tables import filled, kept, refused

from longform.artifacts.rows import Row
from schemas.sources.code import COMMITS
from schemas.sources.papers import PAPERS
from schemas.sources.reddit import ITEMS
from tasks.llmcrit.texts.draw import code_texts, post_texts, section_texts
from tasks.sources.paper_body import Paragraph, Section, laid_out

CODE = "".join(f"line_{number} = {number}\n" for number in range(30))


def settings(**given: Any) -> Row:
    return {"section": "introduction", "strata": [["accept", "oral"], ["reject"]], "language": "Python"} | {
        "least_lines": 30,
        "subreddits": ["WritingPrompts"],
        "tags": ["wp"],
        **given,
    }


def paper(key: str, decision: str | None = "oral", heads: tuple[str, ...] = ("Introduction", "Jars")) -> Row:
    body = [Section(None, head, [Paragraph(f"{head}, first."), Paragraph(f"{head}, second.")]) for head in heads]
    given = {"paper_id": key, "decision": decision, "licence": "CC BY 4.0", "authors": ["A. Cook"]}
    return filled(PAPERS, **{**laid_out(body, [], []), **given})


def test_the_text_of_a_paper_is_its_section_with_all_paragraphs_and_its_stratum_the_first_decision() -> None:
    (row,) = section_texts.body(None, [paper("openreview/a")], tasks={"intros": settings()})
    assert row["text"] == "Introduction, first.\n\nIntroduction, second."
    assert (row["text_id"], row["stratum"], row["authors"]) == ("intros/openreview/a", "accept", ["A. Cook"])
    assert row["licence"] == "CC BY 4.0"


def test_a_paper_without_the_section_or_with_another_decision_is_left_out_with_the_reason() -> None:
    papers = [
        paper("a", heads=("Results", "Jars")),
        paper("b", decision="withdrawn"),
        paper("c", decision=None),
        paper("d", decision="reject"),
    ]
    items = list(section_texts.body(None, papers, tasks={"related": settings(section="related_work")}))
    assert refused(items) == [
        ("a", "no section of the role related_work"),
        ("b", "no such decision"),
        ("c", "no such decision"),
        ("d", "no section of the role related_work"),
    ]
    items = list(section_texts.body(None, papers[1:3], tasks={"any": settings(strata=[])}))
    assert [row["stratum"] for row in kept(items)] == ["", ""], "without strata any decision will do"


@pytest.mark.parametrize(
    ("language", "contents", "reason"),
    [
        ("python", CODE, None),
        ("Python", f"\n\n{CODE}\n", None),
        ("Perl", CODE, "another language"),
        ("Python", CODE.split("\n", 1)[1], "too few lines of code"),
        ("Python", CODE.split("\n", 1)[1] + "\n\n# a comment\n   \n", "too few lines of code"),
    ],
)
def test_the_text_of_a_commit_is_the_file_after_it_if_it_has_so_many_lines_of_code(
    language: str, contents: str, reason: str | None
) -> None:
    commit = filled(COMMITS, commit_id="commitpackft/1", language=language, new_contents=contents, old_contents="x")
    items = list(code_texts.body(None, [commit], tasks={"code": settings()}))
    assert [row["text"] for row in kept(items)] == ([] if reason else [CODE.strip("\n")])
    assert refused(items) == ([("commitpackft/1", reason)] if reason else [])


PROMPT = {"kind": "submission", "title": "[WP] A jar that never empties", "text": "", "community": "writingprompts"}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, None),
        ({"title": "[wp] A jar that never empties"}, None),
        ({"kind": "comment"}, "a comment"),
        ({"title": None}, "a comment"),
        ({"community": "jars"}, "another subreddit"),
        ({"title": "[EU] A jar"}, "no such tag"),
        ({"title": "A jar without a tag"}, "no such tag"),
        ({"bot": True}, "a bot's or moderator's"),
        ({"stickied": True}, "a bot's or moderator's"),
        ({"distinguished": "moderator"}, "a bot's or moderator's"),
    ],
)
def test_the_text_of_a_post_is_title_and_text_of_a_submission_with_the_tag(given: Row, reason: str | None) -> None:
    item = filled(ITEMS, **{"post_id": "reddit/t3_1", "votes": 7, "distinguished": None, **PROMPT, **given})
    items = list(post_texts.body(None, [item], tasks={"posts": settings()}))
    assert refused(items) == ([("reddit/t3_1", reason)] if reason else [])
    for row in kept(items):
        assert (row["text"], row["popularity"]) == (f"Title: {item['title']}", 7)


def test_each_task_takes_what_it_wants_of_the_same_posts() -> None:
    item = filled(ITEMS, **{"post_id": "reddit/t3_1", "votes": None, "distinguished": None, **PROMPT, "text": "More."})
    tasks = {"posts": settings(), "all": settings(subreddits=[], tags=[]), "eu": settings(tags=["EU"])}
    items = list(post_texts.body(None, [item], tasks=tasks))
    assert [(row["task"], row["popularity"]) for row in kept(items)] == [("posts", 0), ("all", 0)]
    assert {row["text"] for row in kept(items)} == {"Title: [WP] A jar that never empties\n\nMore."}
