"""What the prompts of ExpertQA ask for (paper, B.2), and how replies to them are read. Fences: test_prompts.py."""

from __future__ import annotations

import re
from typing import Any

import paths
import pytest
from hypothesis import given
from hypothesis import strategies as st
from offline_rules import task_of

from longform.llm.ask.fence import unfenced
from longform.llm.ask.prompts import Prompt, load_prompt
from longform.llm.read.structured import read_reply, strict_schema
from schemas.replies import AtomicClaims, Entailment, Judgement, Reply

FOLDER = paths.ROOT / "prompts"
INPUTS: dict[str, dict[str, Any]] = {
    "closed_book": {"field": "Chemistry", "question": "Why does copper turn green?"},
    "from_passages": {"field": "Chemistry", "question": "Why?", "passages": ["one", "two"]},
    "entails": {"claim": "Copper turns green [1].", "evidence": "It does."},
    "break_claim": {"claim": "Copper turns green [1]."},
    "judge_fact": {"fact": "Copper turns green.", "passages": ["one"]},
    "closed_book_as_in_paper": {"field": "Chemistry", "question": "Why does copper turn green?"},
    "judge_fact_as_in_paper": {"fact": "Copper turns green.", "passages": ["one"]},
    "revise": {"question": "Why?", "answer": "So.", "claims": ["a [1]", "b"], "evidence": ["", "c"]},
}
LABELS = {
    "closed_book": ["Field", "Question"],
    "from_passages": ["Passage 1", "Passage 2", "Field", "Question"],
    "entails": ["Evidence", "Claim"],
    "break_claim": ["Claim"],
    "judge_fact": ["Passage 1", "Statement"],
    "closed_book_as_in_paper": ["Field", "Question"],
    "judge_fact_as_in_paper": ["Passage 1", "Statement"],
    "revise": ["Question", "Answer", "Claim 1", "Claim 2", "Evidence 1", "Evidence 2"],
}


def prompt_of(name: str) -> Prompt:
    return load_prompt(f"expertqa/{name}", FOLDER)


def message(name: str, **inputs: Any) -> str:
    prompt = prompt_of(name)
    return prompt.render(form=prompt.forms[0], **(inputs or INPUTS[name]))[1][1]


def test_these_are_all_prompts_of_the_dataset() -> None:
    assert {path.stem for path in (FOLDER / "expertqa").glob("*.md")} == INPUTS.keys()


@pytest.mark.parametrize("name", INPUTS)
def test_each_text_stands_under_its_label_by_which_the_task_is_found(name: str) -> None:
    texts = unfenced(message(name))
    assert [label for label, _ in texts] == LABELS[name]
    assert task_of([("user", message(name))]) == f"expertqa/{name.removesuffix('_as_in_paper')}"


def test_claims_and_evidence_have_the_same_numbers_and_missing_evidence_is_an_empty_fence() -> None:
    texts = dict(unfenced(message("revise")))
    assert [texts[f"Claim {n}"] for n in (1, 2)] == ["a [1]", "b"]
    assert [texts[f"Evidence {n}"] for n in (1, 2)] == ["", "c"]


def test_a_statement_without_passages_is_still_a_statement_to_judge() -> None:
    asked = message("judge_fact", fact="Copper turns green.", passages=[])
    assert task_of([("user", asked)]) == "expertqa/judge_fact"


@pytest.mark.parametrize("name", ["closed_book", "from_passages"])
def test_an_answer_is_asked_for_as_in_the_paper(name: str) -> None:
    """The asker's field, at most 500 words, citations [1] and [1] [2] in the text, leave not to know and to say why."""
    prompt = prompt_of(name)
    system = " ".join(prompt.system.split())
    assert "Chemistry" in message(name)
    assert "500 words" in system
    assert "500 words" in message(name)
    assert "[1]" in message(name) or "in square brackets" in message(name)
    assert re.search(r"\[\d\] \[\d\]", system)
    assert re.search(r"don't know|do not know", system)
    assert re.search(r"say why|explain what", system)


def test_memory_is_to_cite_addresses_and_reading_is_to_cite_passages() -> None:
    assert "address" in prompt_of("closed_book").system
    assert "References:" in message("closed_book")
    assert "number of the passage" in prompt_of("from_passages").system
    assert "no list of references" in " ".join(prompt_of("from_passages").system.split())


def test_taking_claims_apart_is_shown_by_at_least_five_examples_of_one_or_more_statements() -> None:
    shown = [part.strip().split("\n") for part in prompt_of("break_claim").system.split("Sentence: ")[1:]]
    examples = [[line for line in lines if line.startswith("- ")] for lines in shown]
    assert len(examples) >= 5
    assert {1, 3} <= {len(statements) for statements in examples}
    assert not any("[" in statement for statements in examples for statement in statements)


# replies


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("<verdict>true</verdict>\n=====", "true"),
        ("Here it is.\n<Verdict> False. </Verdict>", "false"),
        ('{"verdict": "TRUE"}', "true"),
        ('{"verdict": false}', "false"),
        ('```json\n{"verdict": "false"}\n```', "false"),
    ],
)
def test_a_judgement_is_read_as_models_write_it(said: str, read: str) -> None:
    assert read_reply(said, Judgement, "tags") == Judgement(verdict=read)


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("<verdict>supported</verdict>", "supported"),
        ("<verdict>Not_Supported</verdict>", "not supported"),
        ("<verdict>\nnot  supported\n</verdict>", "not supported"),
        ('{"verdict": "Supported."}', "supported"),
    ],
)
def test_an_entailment_is_read_as_models_write_it(said: str, read: str) -> None:
    assert read_reply(said, Entailment, "tags") == Entailment(verdict=read)


@pytest.mark.parametrize("model", [Entailment, Judgement])
@pytest.mark.parametrize(
    "said",
    [
        "",
        "true or false",
        "supported, I think",
        "<verdict>maybe</verdict>",
        "<verdict></verdict>",
        "<verdict>true</verdict><verdict>false</verdict>",
        "<verdict>supported</verdict> <verdict>not supported</verdict>",
        "<verdict>true",
        '{"verdict": null}',
        '{"verdict": 1}',
        '{"verdict": ["true"]}',
        '{"verdict": "true", "why": "so"}',
    ],
)
def test_a_reply_without_a_verdict_is_a_reason(model: type[Reply], said: str) -> None:
    for form in ("tags", "json"):
        assert isinstance(read_reply(said, model, form), str)  # type: ignore[arg-type]


def test_atomic_claims_are_read_from_tags_and_from_json() -> None:
    tags = "<atomic_claim>A is b.</atomic_claim>\n<Atomic-Claim>A\nis c.</Atomic-Claim>\n====="
    json = '{"atomic_claim": ["A is b.", "A is c."]}'
    wanted = AtomicClaims(atomic_claim=["A is b.", "A is c."])
    assert read_reply(tags, AtomicClaims, "tags") == read_reply(json, AtomicClaims, "json") == wanted
    assert isinstance(read_reply("- A is b.\n- A is c.", AtomicClaims, "tags"), str)


def test_verdicts_are_an_enumeration_in_the_schema_that_servers_get() -> None:
    assert strict_schema(Judgement)["properties"]["verdict"]["enum"] == ["true", "false"]
    assert strict_schema(Entailment)["properties"]["verdict"]["enum"] == ["supported", "not supported"]
    assert strict_schema(AtomicClaims)["properties"]["atomic_claim"]["items"] == {"type": "string"}


noise = st.lists(
    st.sampled_from(["<verdict>", "</verdict>", "<atomic_claim>", "</atomic_claim>", "true", '{"verdict":', "}"])
    | st.text(max_size=4)
).map("".join)


@given(noise)
def test_parsing_never_raises_for_any_reply(said: str) -> None:
    for model in (Entailment, Judgement, AtomicClaims):
        assert isinstance(read_reply(said, model, "tags"), model | str)
        assert isinstance(read_reply(said, model, "json"), model | str)
