"""Simulated sessions with scripted models: what each prompt is shown, references, turns that are given up, the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from expertqa_tables import Home, filled, kept, refused
from revision_drafts import Scripted

from flows.config.prompts import PROMPTS
from longform.artifacts.rows import Rejected, Row
from longform.llm.ask.fence import unfenced
from longform.llm.ask.prompts import load_prompt
from longform.llm.ask.types import Endpoint, Failure, Request
from schemas.kiwi import ANSWERS, PASSAGES, QUESTIONS
from tasks.kiwi.sessions.simulated import answer_first, simulate_sessions

IN_SESSIONS = ("summarise", "update_information", "update_style", "instruct", "rate")
PROMPT = {name: load_prompt(f"kiwi/{name}", PROMPTS) for name in ("answer", *IN_SESSIONS)}
READER, WRITER, OTHER = (Endpoint(name, f"{name}-model", base_url="http://127.0.0.1:1/v1") for name in ("r", "w", "o"))
QUESTION = "How do people keep jars of fruit closed over the winter?"
FIRST = "People keep the jars of fruit closed with wax and with lids made of tin over the whole winter [0]."
WITHOUT = "All references of this answer are gone, which nobody had asked for."
SUBJECTS = ("wax", "tin", "cork", "glass", "cloth", "paper", "clay")
BM25 = {"retrieval": "bm25", "embedding": None}


class Talk(Scripted):
    """Models that reply by the name of the prompt: a text, or a list of which each call takes the next."""

    def __init__(self, **replies: Any) -> None:
        self.replies, self.endpoints = replies, list[str]()
        super().__init__(self._reply)

    def _reply(self, request: Request) -> str | Failure:
        name = request.task.removeprefix("kiwi/")
        reply = self.replies[name]
        text = reply.pop(0) if isinstance(reply, list) else reply
        return text if isinstance(text, Failure) else f"{text}\n====="

    def goes_on_from_replies(self) -> None:
        pass

    def shown(self, name: str) -> list[list[tuple[str, str]]]:
        """The fenced texts of each request by this prompt, with their labels."""
        return [unfenced(each.messages[1][1]) for each in self.requests if each.task == f"kiwi/{name}"]


def table(path: Path, schema: Any, rows: list[Row]) -> Any:
    return Home(path).table(schema, rows)


def passages(path: Path, question: str = "q") -> Any:
    rows = [
        filled(
            PASSAGES, passage_id=f"{question}/s2/{n}#0", question_id=question, paper_id=f"s2/{n}", title=f"On {name}",
            text=f"In this paper we study how {name} holds a lid of a jar, and find that {name} does so for {n} years.",
        )
        for n, name in enumerate(SUBJECTS)
    ]  # fmt: skip
    return table(path, PASSAGES, rows)


def answered(path: Path, *systems: str) -> Any:
    shown = [{"passage_id": f"q/s2/{n}#0", "title": f"On {SUBJECTS[n]}", "text": "So."} for n in range(5)]
    rows = [
        filled(
            ANSWERS, session_id=f"s_{name}", question_id="q", question=QUESTION, system=name, passages=shown,
            answer=FIRST,
        )
        for name in systems or ("w",)
    ]  # fmt: skip
    return table(path, ANSWERS, rows)


def instruct(kind: str, text: str = "") -> str:
    return f"<kind>{kind}</kind><instruction>{text}</instruction>"


def rate(rating: str, edited: str = "") -> str:
    return f"<rating>{rating}</rating><comment>For this reason.</comment><edited>{edited}</edited>"


def more(*words: str) -> str:
    return " ".join(
        [FIRST, *(f"It is also known that people use {word} for the jars in winter [5]." for word in words)]
    )


def simulate(path: Path, talk: Talk, *systems: str, turns: int = 3, second: Endpoint | None = None) -> list[Any]:
    return list(
        simulate_sessions.body(
            talk, answered(path / "a", *systems), passages(path / "p"), model=READER, writer=WRITER, second=second,
            third=None, prompts={name: PROMPT[name] for name in IN_SESSIONS}, turns=turns, **BM25,
        )
    )  # fmt: skip


# ---------------------------------------------------------------- first answers


def test_a_first_answer_shows_the_five_nearest_passages_to_each_writer(tmp_path: Path) -> None:
    talk = Talk(answer=FIRST)
    questions = table(tmp_path / "q", QUESTIONS, [filled(QUESTIONS, question_id="q", question=f"{QUESTION} cork clay")])
    rows = list(
        answer_first.body(
            talk, questions, passages(tmp_path / "p"), model=WRITER, second=OTHER, third=None,
            prompt=PROMPT["answer"], **BM25,
        )
    )  # fmt: skip
    assert [(row["system"], row["answer"]) for row in kept(rows)] == [("w", FIRST), ("o", FIRST)]
    assert len({row["session_id"] for row in kept(rows)}) == 2
    for shown in talk.shown("answer"):
        labels = [label for label, _ in shown]
        assert labels == [name for n in range(5) for name in (f"Title of document {n}", f"Document {n}")] + ["Question"]
        assert {"On cork", "On clay"} <= {text for _, text in shown}
        assert "In this paper we study how" in shown[1][1]


def test_a_question_without_passages_or_writers_is_filtered(tmp_path: Path) -> None:
    questions = table(tmp_path / "q", QUESTIONS, [filled(QUESTIONS, question_id="q", question=QUESTION)])
    none = table(tmp_path / "none", PASSAGES, [])
    for found, writer, reason in ((none, WRITER, "no passage is near"), (none, None, "no model answers")):
        items = answer_first.body(
            Talk(), questions, found, model=writer, second=None, third=None, prompt=PROMPT["answer"], **BM25
        )
        assert refused(items) == [("q", reason)]


# ---------------------------------------------------------------- sessions


def test_an_information_seeking_turn_is_summarised_and_a_stylistic_one_is_not(tmp_path: Path) -> None:
    talk = Talk(
        instruct=[instruct("information", "Say what cork does."), instruct("style", "Move it up."), instruct("done")],
        summarise="Cork holds a lid for two years [5].",
        update_information=more("cork"),
        update_style=f"{more('cork')} That is all there is to be said of it.",
        rate=[rate("good"), rate("neutral", "The answer as I want it [0].")],
    )
    (row,) = simulate(tmp_path, talk)
    assert [(turn["position"], turn["kind"], turn["summary"]) for turn in row["turns"]] == [
        (1, "information", "Cork holds a lid for two years [5]."), (2, "style", None),
    ]  # fmt: skip
    assert [len(turn["passages"]) for turn in row["turns"]] == [5, 0]
    assert row["turns"][0]["passages"][0]["title"] == "On cork"
    assert [turn["before"] for turn in row["turns"]] == [FIRST, more("cork")]
    assert (row["final"], row["origin"], row["annotator_id"], row["system"]) == (
        "The answer as I want it [0].", "simulated", "simulated/r-model", "w",
    )  # fmt: skip
    (shown,) = talk.shown("summarise")
    assert [text for label, text in shown if label == "Number of the document"] == ["5", "6", "7", "8", "9"]
    (given,) = talk.shown("update_information")
    assert dict(given) == {
        "Question": QUESTION, "Previous answer": FIRST, "Instruction": "Say what cork does.",
        "Information": "Cork holds a lid for two years [5].",
    }  # fmt: skip
    assert [label for label, _ in talk.shown("update_style")[0]] == ["Question", "Previous answer", "Instruction"]
    earlier = [[text for label, text in each if label.startswith("Earlier")] for each in talk.shown("instruct")]
    assert earlier == [[], ["Say what cork does."], ["Say what cork does.", "Move it up."]]


def test_numbers_of_passages_go_on_after_a_kept_turn_and_stay_after_one_that_was_given_up(tmp_path: Path) -> None:
    talk = Talk(
        instruct=[instruct("information", f"Say what {name} does.") for name in ("cork", "clay", "glass")],
        summarise=[f"{name} holds a lid for years [5]." for name in ("Cork", "Clay", "Glass")],
        update_information=[more("cork"), WITHOUT, more("cork", "glass")],
        rate=rate("good"),
    )  # fmt: skip
    items = simulate(tmp_path, talk)
    numbers = [next(text for label, text in each if label.startswith("Number")) for each in talk.shown("summarise")]
    assert numbers == ["5", "10", "10"]
    (row,) = kept(items)
    assert [turn["instruction"] for turn in row["turns"]] == ["Say what cork does.", "Say what glass does."]
    assert [turn["position"] for turn in row["turns"]] == [1, 2]
    (left_out,) = [item for item in items if isinstance(item, Rejected)]
    assert (left_out.key, left_out.reason) == ("s_w", "audit: references_lost")
    assert left_out.detail is not None
    assert left_out.detail.startswith("s_w#2: ")
    earlier = [text for label, text in talk.shown("instruct")[2] if label.startswith("Earlier")]
    assert earlier == ["Say what cork does.", "Say what clay does."], "the reader is told what was given up"


def test_a_bad_answer_left_unedited_is_dropped_before_the_next_turn(tmp_path: Path) -> None:
    talk = Talk(
        instruct=[instruct("style", "Move it."), instruct("style", "Cut it."), instruct("done")],
        update_style=[more("tin"), more("wax")],
        rate=[rate("bad"), rate("good")],
    )
    (row,) = simulate(tmp_path, talk)
    assert [turn["before"] for turn in row["turns"]] == [FIRST, FIRST]
    assert row["final"] == more("wax")


def test_an_edit_of_a_good_answer_or_one_that_changes_nothing_is_none(tmp_path: Path) -> None:
    talk = Talk(
        instruct=[instruct("style", "Move it."), instruct("style", "Cut it.")],
        update_style=[more("tin"), more("wax")],
        rate=[rate("good", "Other words."), rate("neutral", more("wax"))],
    )
    (row,) = simulate(tmp_path, talk, turns=2)
    assert [turn["edited"] for turn in row["turns"]] == [None, None]


FAULT = Failure("invalid", "no reply", "k", {"text": "?"})


@pytest.mark.parametrize(
    ("name", "turns_kept"), [("instruct", 1), ("summarise", 2), ("update_information", 2), ("rate", 1)]
)
def test_a_failed_reply_is_a_rejected_row_of_its_session_which_ends_only_where_the_reader_failed(
    name: str, turns_kept: int, tmp_path: Path
) -> None:
    replies: dict[str, Any] = {
        "instruct": [instruct("information", f"Say what {each} does.") for each in ("cork", "clay", "glass")],
        "summarise": [f"{each} holds it for years [5]." for each in ("Cork", "Clay", "Glass")],
        "update_information": [more("cork"), more("cork", "clay"), more("cork", "clay", "glass")],
        "rate": [rate("good")] * 3,
    }
    replies[name][1] = FAULT
    items = simulate(tmp_path, Talk(**replies))
    assert refused(items) == [("s_w", "model: invalid")]
    (row,) = kept(items)
    assert [turn["position"] for turn in row["turns"]] == [*range(1, turns_kept + 1)]


@pytest.mark.parametrize("first", [instruct("done"), instruct("style", "  "), FAULT])
def test_a_session_without_a_turn_is_rejected(first: Any, tmp_path: Path) -> None:
    items = simulate(tmp_path, Talk(instruct=[first]))
    assert kept(items) == []
    assert refused(items)[-1] == ("s_w", "no turn was made")


def test_no_session_has_more_turns_than_are_asked_for(tmp_path: Path) -> None:
    texts = [more(*SUBJECTS[:n]) for n in range(1, 5)]
    talk = Talk(instruct=instruct("style", "Say more."), update_style=texts, rate=rate("good"))
    (row,) = simulate(tmp_path, talk, turns=4)
    assert len(row["turns"]) == 4
    assert len(talk.shown("instruct")) == 4


def test_each_session_is_revised_by_its_own_writer(tmp_path: Path) -> None:
    class Who(Talk):
        def ask(self, endpoint: Endpoint, items: Any) -> Any:
            for item, request in items:
                self.endpoints.append(f"{request.task}:{endpoint.name}:{item[0] if isinstance(item, tuple) else ''}")
                yield from super().ask(endpoint, [(item, request)])

    talk = Who(instruct=instruct("style", "Say more."), update_style=[more("a"), more("b")], rate=rate("good"))
    rows = simulate(tmp_path, talk, "w", "o", turns=1, second=OTHER)
    assert {row["session_id"]: row["turns"][0]["endpoint"] for row in rows} == {"s_w": "w", "s_o": "o"}
    assert [each for each in talk.endpoints if "update" in each] == [
        "kiwi/update_style:w:s_w#1", "kiwi/update_style:o:s_o#1",
    ]  # fmt: skip
