"""Revised answers: a person's text unchanged, a person's claims joined, a model's revision marked as such."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import paths
import pytest
from expertqa_tables import Home, answer, claim, claim_label, filled, kept, label, question, refused
from hypothesis import given
from hypothesis import strategies as st
from replied import replied

from longform.artifacts.rows import Row, Rows
from longform.llm.ask.prompts import Prompt, load_prompt
from longform.llm.ask.types import Answer, Endpoint, Failure, Request
from schemas.expertqa import ANSWERS, ATTRIBUTIONS, CLAIMS, LABELS, QUESTIONS, REVISED, SAMPLES
from tasks.expertqa.answers.abstentions import abstention
from tasks.expertqa.answers.revised import by_people, join_revised_claims, revise_answers

REAL = paths.REAL_DATA / "expertqa" / "rand_val.jsonl"
MODEL = Endpoint("somewhere", "a-model")
PROMPT = """---
inputs: question, answer, claims, evidence
reply: WrittenAnswer
---
# system
Revise.
# user
{{ question | fenced }}
{{ answer | fenced }}
{% for claim in claims %}
{{ claim | fenced }}
{% endfor %}
{% for text in evidence %}
{{ text | fenced }}
{% endfor %}
"""


class Asked:
    """A run whose model says what it is told to; it keeps what it was asked."""

    def __init__(self, **replies: str | Failure) -> None:
        self.replies = replies
        self.requests: dict[str, Request] = {}

    def ask(self, endpoint: Endpoint, items: Iterable[tuple[Row, Request]]) -> Iterator[tuple[Row, Answer | Failure]]:
        for item, request in items:
            key = item["answer_id"]
            self.requests[key] = request
            reply = self.replies[key]
            yield item, reply if isinstance(reply, Failure) else replied(request, reply, f"key-{key}")


@pytest.fixture
def prompt(tmp_path: Path) -> Prompt:
    file = tmp_path / "prompts" / "expertqa" / "revise.md"
    file.parent.mkdir(parents=True)
    file.write_text(PROMPT)
    return load_prompt("expertqa/revise", tmp_path / "prompts")


def tables(home: Home, labels: list[Row], answers: int = 3) -> list[Rows]:
    """Answers a0, a1, … of two claims each, all but the last one sampled."""
    keys = [f"a{number}" for number in range(answers)]
    sampled = [filled(SAMPLES, answer_id=key, question_id=f"expertqa/q{key}", system="gpt4") for key in keys[:-1]]
    estimates = [
        filled(ATTRIBUTIONS, claim_id=f"{key}#0", answer_id=key, question_id=f"expertqa/q{key}", evidence="Read.")
        for key in keys
    ]
    return [
        home.table(ANSWERS, [answer(key, f"q{key}") for key in keys]),
        home.table(CLAIMS, [claim(key, n, f"q{key}") for key in keys for n in range(2)]),
        home.table(SAMPLES, sampled),
        home.table(LABELS, labels),
        home.table(ATTRIBUTIONS, estimates),
        home.table(QUESTIONS, [question(f"q{key}") for key in keys]),
    ]


def test_without_a_model_only_what_people_wrote_is_revised(tmp_path: Path) -> None:
    home = Home(tmp_path)
    labels = [label("a0", "e1", "qa0", revised_answer="\n Better.\n")]
    made = home.run(revise_answers, *tables(home, labels), model=None, prompt=None)
    [row] = list(made)
    assert row == filled(REVISED) | {
        "revised_id": row["revised_id"],
        "answer_id": "a0",
        "question_id": "expertqa/qa0",
        "system": "gpt4",
        "text": "\n Better.\n",
        "revised_by": "person",
        "annotator_id": "e1",
    }
    assert home.rejected(made) == {"a1": "no revised answer", "a2": "answer not sampled"}


def revised_claims(key: str, *texts: str | None) -> list[Row]:
    return [claim_label(f"{key}#{number}", revised_claim=text) for number, text in enumerate(texts)]


def people(labels: list[Row]) -> Any:
    return by_people(answer("a", "q"), [claim("a", n, "q") for n in range(3)], labels)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("One.", "Two.", "Three."), "One.\nTwo.\nThree."),
        (("One.", "", "Three."), "One.\nThree."),
        ((None, "Two.", None), "Claim 0 of a.\nTwo.\nClaim 2 of a."),
        (("One.",), "One.\nClaim 1 of a.\nClaim 2 of a."),
        (("", " ", None), "Claim 2 of a."),
    ],
)
def test_revised_claims_are_joined_one_a_line(texts: tuple[str | None, ...], expected: str) -> None:
    row = people([label("a", "e1", "q", revised_claims("a", *texts))])
    assert (row["text"], row["revised_by"], row["annotator_id"]) == (expected, "claims", "e1")


PARAGRAPHS = "One. Two. Three.\n\n- Four.\n- Five."
WORDS = ("One.", "Two.", "Three.", "Four.", "Five.")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((None, "", None, None, None), "One. Three.\n\nFour.\nFive."),
        ((None, None, "", None, None), "One. Two.\n\nFour.\nFive."),
        ((None, None, None, "", None), "One. Two. Three.\n\nFive."),
        (("", None, None, None, ""), "Two. Three.\n\nFour."),
        ((None, "2.", None, "", ""), "One. 2. Three."),
    ],
)
def test_claims_are_joined_by_what_stood_between_them(texts: tuple[str | None, ...], expected: str) -> None:
    claims = [
        claim("a", place, "q", text=word, start=PARAGRAPHS.index(word), end=PARAGRAPHS.index(word) + len(word))
        for place, word in enumerate(WORDS)
    ]
    said = [label("a", "e1", "q", revised_claims("a", *texts))]
    row = by_people(answer("a", "q", text=PARAGRAPHS), claims, said)
    assert row is not None
    assert row["text"] == expected


def test_a_person_who_leaves_out_every_claim_leaves_nothing() -> None:
    assert people([label("a", "e1", "q", revised_claims("a", "", "", ""))]).reason == "every claim left out by a person"


@pytest.mark.parametrize("labels", [[], [label("a", "e", "q")], [label("a", "e", "q", revised_claims("a", None))]])
def test_labels_without_a_revision_are_none(labels: list[Row]) -> None:
    assert people(labels) is None


def test_the_first_annotator_by_id_revises_and_whole_answers_go_before_claims() -> None:
    by_claims = label("a", "e0", "q", revised_claims("a", "One."))
    empty = label("a", "e1", "q", revised_answer=" \n")
    second, third = (label("a", who, "q", revised_answer=who.upper()) for who in ("e2", "e3"))
    for order in ([by_claims, empty, second, third], [third, second, empty, by_claims]):
        assert people(order)["text"] == "E2"
        assert people([row for row in order if row not in (second, third)])["annotator_id"] == "e0"


@given(st.lists(st.one_of(st.none(), st.text("ab ", max_size=3)), max_size=6))
def test_every_claim_is_kept_changed_or_left_out(texts: list[str | None]) -> None:
    claims = [claim("a", number, "q") for number in range(len(texts))]
    revised = {f"a#{number}": text for number, text in enumerate(texts)}
    kept_or_changed = [f"Claim {n} of a." if text is None else text for n, text in enumerate(texts)]
    together = join_revised_claims("", claims, revised)
    assert together.split("\n") == ([text for text in kept_or_changed if text.strip()] or [""])


def test_a_model_revises_what_people_left_and_its_answers_say_so(tmp_path: Path, prompt: Prompt) -> None:
    home, run = Home(tmp_path / "home"), Asked(a1="Revised. [1]\n=====")
    labels = [label("a0", "e1", "qa0", revised_answer="Better.")]
    items = list(revise_answers.body(run, *tables(home, labels), model=MODEL, prompt=prompt))
    first, second = kept(items)
    assert (first["answer_id"], first["revised_by"]) == ("a0", "person")
    assert (second["answer_id"], second["text"], second["revised_by"]) == ("a1", "Revised. [1]", "model")
    assert (second["annotator_id"], second["response"], second["model"]) == (None, "key-a1", "served")
    assert (second["prompt"], second["prompt_hash"]) == ("expertqa/revise", prompt.hash)
    assert refused(items) == [("a2", "answer not sampled")]
    assert list(run.requests) == ["a1"]


def test_the_prompt_holds_each_claim_with_its_evidence_or_none(tmp_path: Path, prompt: Prompt) -> None:
    home, run = Home(tmp_path / "home"), Asked(a0="R\n=====", a1="R\n=====")
    list(revise_answers.body(run, *tables(home, []), model=MODEL, prompt=prompt))
    expected = prompt.request(
        MODEL,
        question="What is qa1?",
        answer="It is a1.",
        claims=["Claim 0 of a1.", "Claim 1 of a1."],
        evidence=["Read.", ""],
        copies=True,
        abstains=abstention,
        subject="expertqa/qa1",
    )
    assert run.requests["a1"] == expected


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("Revised, but", "model: length"),
        (" \n=====", "model: empty"),
        (Failure("filter", "held back", "k"), "model: filter"),
    ],
)
def test_a_reply_that_is_no_answer_is_a_rejected_row(
    reply: str | Failure, reason: str, tmp_path: Path, prompt: Prompt
) -> None:
    home, run = Home(tmp_path / "home"), Asked(a0=reply, a1="R\n=====")
    items = list(revise_answers.body(run, *tables(home, []), model=MODEL, prompt=prompt))
    assert refused(items) == [("a0", reason), ("a2", "answer not sampled")]
    assert [row["answer_id"] for row in kept(items)] == ["a1"]


def test_rows_come_in_the_order_of_the_answers(tmp_path: Path, prompt: Prompt) -> None:
    home, run = Home(tmp_path / "home"), Asked(**{f"a{n}": "R\n=====" for n in range(5)})
    labels = [label(f"a{n}", "e1", f"qa{n}", revised_answer="B") for n in (3, 1)]
    items = revise_answers.body(run, *tables(home, labels, answers=6), model=MODEL, prompt=prompt)
    assert [row["answer_id"] for row in kept(items)] == ["a0", "a1", "a2", "a3", "a4"]


def test_released_revised_answers_are_their_revised_claims_one_a_line() -> None:
    if not REAL.exists():
        pytest.skip("the released file is not beside the project")
    records = [json.loads(line) for line in REAL.read_text().splitlines()]
    given = [row for record in records for row in record["answers"].values()]
    alike = [_folded(_together(row)) == _folded(row["revised_answer_string"]) for row in given]
    assert (len(alike), sum(alike)) == (217, 201)


def _together(row: dict[str, Any]) -> str:
    claims = [claim("a", number, "q", text=one["claim_string"]) for number, one in enumerate(row["claims"])]
    return join_revised_claims(
        "", claims, {f"a#{number}": one["revised_claim"] for number, one in enumerate(row["claims"])}
    )


def _folded(text: str) -> str:
    return " ".join(text.split())
