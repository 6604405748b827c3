"""Questions: layouts of files, filter 1 by its words, lists that models write, filter 2, ids and limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from expertqa_tables import Home, filled, kept, refused
from revision_drafts import SAID, Scripted, rejected, texts

from flows.config.prompts import PROMPTS
from longform.artifacts.rows import Row, Source
from longform.errors import SourceError
from longform.files import sha256_of
from longform.llm.ask.prompts import load_prompt
from longform.llm.ask.types import Failure
from schemas.kiwi import DOCUMENT_SETS, QUESTIONS
from tasks.kiwi.questions import (
    check_answerable,
    collect_questions,
    drop_anchored,
    listed_questions,
    propose_questions,
    question_id_of,
    read_questions,
)

ASK = "How are jars closed?"
TITLES = ["One", "Two", "Three", "Four"]


def read(path: Path, *records: Any) -> tuple[Home, Any]:
    home, file = Home(path / "home"), path / "questions.jsonl"
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    facts = (("name", file.name), ("licence", "CC0-1.0"))
    return home, home.run(read_questions, [Source("questions", str(file), sha256_of(file), facts, ((0, -1),))])


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("papers", "found"),
    [
        (["One", {"title": "Two"}], [("", "One"), ("", "Two")]),
        ([5101, "5102"], [("s2/5101", ""), ("s2/5102", "")]),
        ([{"corpus_id": 1}, {"corpus_id": "2"}, {"corpusid": "3 "}], [("s2/1", ""), ("s2/2", ""), ("s2/3", "")]),
        ([{"paper_id": 4}, {"paper_id": "acl/x.1"}], [("s2/4", ""), ("acl/x.1", "")]),
        ([{"corpus_id": "s2/6"}], [("s2/6", "")]),
        ({"7": "Seven", "s2/8": {"title": "Eight"}, "9": None}, [("s2/7", "Seven"), ("s2/8", "Eight"), ("s2/9", "")]),
        (["One", "ONE", {"title": "one", "corpus_id": 1}], [("s2/1", "one")]),
        (["One", None, 0.5, {}, [], ""], [("", "One")]),
    ],
    ids=str,
)  # fmt: skip
def test_cited_papers_are_titles_numbers_or_objects_each_once(
    tmp_path: Path, papers: Any, found: list[tuple[str, str]]
) -> None:
    _, rows = read(tmp_path, {"question": ASK, "cited_papers": papers})
    (row,) = rows
    assert [(each["paper_id"], each["title"]) for each in row["evidence"]] == found


@pytest.mark.parametrize(
    ("paragraphs", "given"),
    [
        ([["a", "b"], ["c"]], [(0, "a"), (0, "b"), (1, "c")]),
        (["a", " ", "c"], [(0, "a"), (2, "c")]),
        ([{"title": "TWO", "text": "b"}], [(1, "b")]),
        ([{"title": "Two", "paragraphs": ["b", {"text": "c"}]}], [(1, "b"), (1, "c")]),
        ([{"corpus_id": "9", "paragraph": "z"}], [(4, "z")]),
        ([{"title": "Unknown", "text": "a"}, 3, None], []),
        ("a text", []),
    ],
    ids=str,
)
def test_cited_paragraphs_belong_to_papers_by_order_title_or_id(
    tmp_path: Path, paragraphs: Any, given: list[tuple[int, str]]
) -> None:
    record = {"question": ASK, "cited_papers": [*TITLES, {"title": "Nine", "corpus_id": 9}]}
    _, rows = read(tmp_path, {**record, "cited_paragraphs": paragraphs})
    (row,) = rows
    assert [(each["paper"], each["text"]) for each in row["given"]] == given


def test_a_record_without_a_question_or_papers_is_rejected_and_others_stay(tmp_path: Path) -> None:
    good = {
        "question": ASK,
        "cited_papers": TITLES,
        "id": 7,
        "topic": "jars",
        "source_paper": {"title": "On", "corpus_id": 3},
    }
    home, rows = read(tmp_path, good, {"cited_papers": TITLES}, {"question": ASK}, [], "words")
    (row,) = rows
    shown = {name: row[name] for name in ("question_id", "question", "topic", "source_paper", "source_id", "licence")}
    assert shown == {
        "question_id": "7", "question": ASK, "topic": "jars", "source_paper": "On", "source_id": "s2/3",
        "licence": "CC0-1.0",
    }  # fmt: skip
    assert [each["reason"] for each in rejected(home, rows).values()] == [
        "no question", "no cited papers", "no question", "no question",
    ]  # fmt: skip


def test_a_file_without_a_question_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="holds no question with papers: give JSON lines"):
        read(tmp_path, {"question": ASK})


# ---------------------------------------------------------------- generated

DOCUMENTS = filled(
    DOCUMENT_SETS, related_id="r", paper_id="s2/1", title="On jars", text="Jars.", venue="Jars 2025", cited=4
)


@pytest.mark.parametrize(
    ("reply", "questions"),
    [
        ("1. How are jars closed?\n2. How are lids made?", ["How are jars closed?", "How are lids made?"]),
        ("- How are jars closed?\n- How are jars closed?", ["How are jars closed?"]),
        ("How are jars closed?\nAnd so on.\nHow are lids made?", ["How are jars closed?", "How are lids made?"]),
        ("1. **Lids**: How are they made?", ["Lids: How are they made?"]),
        ("1. 壶是怎么关的？", ["壶是怎么关的？"]),
        ("Jars are closed with lids.", []),
        ("\n".join(f"{n}. What is {n}?" for n in range(1, 40)), [f"What is {n}?" for n in range(1, 21)]),
    ],
    ids=range(7),
)
def test_questions_of_a_reply_are_its_items_that_ask(reply: str, questions: list[str]) -> None:
    assert listed_questions(reply) == questions


def test_proposed_questions_keep_their_paragraph_and_papers_and_a_model_sees_title_and_paragraph_alone() -> None:
    said = Scripted(lambda request: "1. How are jars closed?\n2. How are lids made?\n=====")
    prompt = load_prompt("kiwi/propose_questions", PROMPTS)
    rows = kept(propose_questions.body(said, [DOCUMENTS], model=SAID, prompt=prompt))
    assert [row["question_id"] for row in rows] == [
        question_id_of("How are jars closed?", "Jars."), question_id_of("How are lids made?", "Jars."),
    ]  # fmt: skip
    assert {(row["source_id"], row["origin"], row["topic"], row["cited"]) for row in rows} == {
        ("s2/1", "generated", "Jars 2025", 4)
    }
    assert texts(said.requests[0]) == {"Title of the paper": "On jars", "Paragraph": "Jars."}


def test_without_a_model_no_question_is_generated() -> None:
    prompt = load_prompt("kiwi/propose_questions", PROMPTS)
    items = list(propose_questions.body(Scripted(lambda request: ""), [DOCUMENTS], model=None, prompt=prompt))
    assert refused(items) == [("r", "no questions are generated")]


def asked(question: str, key: str = "", **given: Any) -> Row:
    return filled(QUESTIONS, question_id=key or question, question=question, paragraph="Jars.", **given)


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("What does this paper say of jars?", "this paper"),
        ("How well do THE AUTHORS close jars?", "THE AUTHORS"),
        ("Which of the mentioned lids fit?", "mentioned"),
        ("How is the aforementioned lid made?", "aforementioned"),
        ("What did Lid et al. find?", "et al"),
        ("Which author closes jars?", "author"),
        ("What is the purpose of these studies?", "these studies"),
        ("Which models are cited for lids?", "cited"),
        ("How are jars closed?", None),
        ("How do wallpapers stick?", None),
        ("How is authorship attributed to texts?", None),
        ("How does paper age in a cellar?", None),
        ("Which studies of lids use wax?", None),
        ("How does authority work?", None),
    ],
)
def test_filter_1_drops_a_question_that_is_anchored_to_a_paper_by_a_word(question: str, word: str | None) -> None:
    items = list(drop_anchored.body(None, [asked(question)]))
    assert refused(items) == ([(question, "anchored to one paper")] if word else [])
    assert [item.detail for item in items if word] == ([word] if word else [])


def test_a_question_that_is_proposed_twice_stays_once() -> None:
    items = list(drop_anchored.body(None, [asked(ASK, "q"), asked(ASK, "q")]))
    assert (len(kept(items)), refused(items)) == (1, [("q", "the question is there already")])


def test_filter_2_keeps_yes_alone_and_rejects_what_cannot_be_read() -> None:
    verdicts = {"a?": "yes", "b?": "Partially", "c?": "no", "d?": "perhaps"}
    said = Scripted(lambda request: f"<verdict>{verdicts[texts(request)['Question']]}</verdict>\n=====")

    def say(request: Any) -> str | Failure:
        verdict = verdicts[texts(request)["Question"]]
        return Failure("invalid", "no", "k", {"text": verdict}) if verdict == "perhaps" else said.say(request)

    prompt = load_prompt("kiwi/check_answerable", PROMPTS)
    scripted = Scripted(say)
    items = list(check_answerable.body(scripted, [asked(text) for text in verdicts], model=SAID, prompt=prompt))
    assert [(row["question"], row["answerable"]) for row in kept(items)] == [("a?", "yes")]
    assert refused(items) == [
        ("b?", "not answered by its paragraph"), ("c?", "not answered by its paragraph"), ("d?", "model: invalid"),
    ]  # fmt: skip
    assert texts(scripted.requests[0]) == {"Question": "a?", "Paragraph": "Jars."}


# ---------------------------------------------------------------- all


@pytest.mark.parametrize(("limit", "left"), [(None, "abcd"), (1, "a"), (3, "abc"), (9, "abcd")])
def test_questions_of_people_come_first_each_id_once_and_at_most_as_many_as_the_limit(
    tmp_path: Path, limit: int | None, left: str
) -> None:
    home = Home(tmp_path)
    people, generated = [asked(ASK, "a"), asked(ASK, "b")], [asked(ASK, "c"), asked(ASK, "b"), asked(ASK, "d")]
    rows = home.run(collect_questions, home.table(QUESTIONS, people), home.table(QUESTIONS, [], generated), limit=limit)
    assert sorted(row["question_id"] for row in rows) == [*left]
