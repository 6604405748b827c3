"""The layered evaluation: who is asked what, what becomes of each reply, and that no layer judges what one refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from expertqa_tables import Home, filled, kept, refused
from revision_drafts import OFFLINE, SAID, Scripted

from flows.config.prompts import PROMPTS
from longform.artifacts.rows import Row, Rows
from longform.engine.jobs import execute, jobs_of
from longform.engine.stage import Stage
from longform.llm.ask.fence import unfenced
from longform.llm.ask.prompts import load_prompt
from longform.llm.ask.types import Failure, Request
from longform.llm.offline import PromptInputs, Rule
from schemas.llmcrit import CONTEXT, CRITERIA, PLANTED, TEXTS
from tasks.llmcrit.feedback.layers import judge_context, judge_critiques, judge_validity

NAMES = {"validity": "judge_validity", "context": "judge_context", "critiques": "judge_critique"}
PROMPT = {layer: load_prompt(f"llmcrit/{name}", PROMPTS) for layer, name in NAMES.items()}
RUBRIC: Row = {"noun": "label", "role": "a cook", "mixed": "not match", "specific": ["This."], "not_specific": ["Any."]}
RUBRICS = {"jars": {**RUBRIC, "unhelpful": ["Vague."], "examples": ["Plum.", "Say more.", "Date?", "critique: yes"]}}
KINDS = ["advice", "other text", "praise", "vague", "own"]
OF_VALIDITY, OF_CONTEXT, OF_CRITIQUES = {"advice", "other text", "own"}, {"other text", "own"}, {"praise", "vague"}
CHECKED = dict(zip(NAMES, (OF_VALIDITY, OF_CONTEXT, OF_CRITIQUES), strict=True))


def feedback(key: str, planted: str | None = None, criteria: tuple[str, ...] = ("a", "b")) -> Row:
    told = {"feedback": f"Feedback {key}.", "criteria": list(criteria), "planted": planted}
    return filled(PLANTED, feedback_id=key, text_id="jars/t", task="jars", **told)


TEXT = filled(TEXTS, text_id="jars/t", task="jars", text="Plum jam.")
CRITERIA_ROWS = [
    filled(CRITERIA, criterion_id=key, task="jars", name=name, check=f"Is {key} told?")
    for key, name in (("a", "Fruit"), ("b", ""), ("c", "Other"))
]


class Table(list[Row]):
    """Rows in memory, which a stage reads as it reads a table."""

    def as_dicts(self, *columns: str) -> Any:
        return ({name: row[name] for name in columns} for row in self)


def verdicts(**of: str) -> Table:
    return Table({"feedback_id": key, "verdict": verdict.replace("_", " ")} for key, verdict in of.items())


def tags(**given: str) -> str:
    return "".join(f"<{name}>{value}</{name}>\n" for name, value in given.items()) + "====="


YES = {
    "validity": tags(reasoning="So.", verdict="specific"),
    "context": tags(reasoning="So.", verdict="match"),
    "critiques": tags(reasoning="So.", extraction="Say more.", critique="yes", helpful="yes"),
}


Judged = tuple[list[Row], list[tuple[str, str]], list[Request]]


def judged(layer: str, rows: list[Row], passed: Table, reply: str | Failure = "") -> Judged:
    """Rows, (key, reason) of what is rejected, and requests of a layer. `passed`: the verdicts of the one before."""
    spoken, texts = Scripted(lambda _: reply or YES[layer]), Table([TEXT])
    stage: Any = {"validity": judge_validity, "context": judge_context, "critiques": judge_critiques}[layer]
    tables = {"validity": (), "context": (passed, texts), "critiques": (passed, texts, Table(CRITERIA_ROWS))}[layer]
    items = list(stage.body(spoken, Table(rows), *tables, model=SAID, prompt=PROMPT[layer], rubrics=RUBRICS))
    return kept(items), refused(items), spoken.requests


@pytest.mark.parametrize("layer", NAMES)
def test_planted_feedback_goes_only_to_the_layers_that_it_checks_whatever_passed_before(layer: str) -> None:
    rows, left_out, _ = judged(layer, [feedback(f"p{kind}", kind) for kind in KINDS], Table())
    assert {row["planted"] for row in rows} == CHECKED[layer]
    assert {key for key, _ in left_out} == {f"p{kind}" for kind in KINDS if kind not in CHECKED[layer]}
    assert {reason for _, reason in left_out} == {"planted to check another layer"}


@pytest.mark.parametrize(
    ("layer", "passed", "reason"),
    [
        ("context", verdicts(f1="specific", f2="not_specific"), "not specific"),
        ("critiques", verdicts(f1="match", f2="not_match", f4="unsure"), "it does not match its text"),
    ],
)
def test_a_layer_never_judges_what_an_earlier_one_refused(layer: str, passed: Table, reason: str) -> None:
    rows, left_out, requests = judged(layer, [feedback(f"f{n}") for n in (1, 2, 3, 4)], passed)
    assert {row["feedback_id"] for row in rows} == {"f1"}
    assert left_out == [("f2", reason), ("f3", reason), ("f4", reason)]
    assert all("Feedback f1." in dict(unfenced(request.messages[1][1])).values() for request in requests)


def test_validity_is_judged_without_the_text_and_the_others_with_it() -> None:
    shown = {}
    for layer in NAMES:
        passed = verdicts(f1="specific" if layer == "context" else "match")
        _, _, (request, *more) = judged(layer, [feedback("f1")], passed)
        assert len(more) == (layer == "critiques")
        shown[layer] = unfenced(request.messages[1][1])
        assert ("Feedback", "Feedback f1.") in shown[layer]
    assert "Plum jam." not in dict(shown["validity"]).values()
    assert ("Specific 1", "This.") in shown["validity"]
    assert {("Text", "Plum jam.")} <= set(shown["context"]) & set(shown["critiques"])
    assert "not match" in dict(shown["context"]).values()
    assert {("Criterion", "**Fruit**: Is a told?"), ("Not helpful 1", "Vague.")} <= set(shown["critiques"])


def test_each_criterion_of_a_feedback_is_a_question_and_a_row_with_its_reasoning() -> None:
    of = [feedback("f1"), feedback("f2", criteria=("c",))]
    rows, _, requests = judged("critiques", of, verdicts(f1="match", f2="match"))
    assert [row["critique_id"] for row in rows] == ["f1#a", "f1#b", "f2#c"]
    asked = [dict(unfenced(request.messages[1][1]))["Criterion"] for request in requests]
    assert asked == ["**Fruit**: Is a told?", "Is b told?", "**Other**: Is c told?"]
    assert {row["reasoning"] for row in rows} == {"So."}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"extraction": "Feedback f1.", "critique": "yes", "helpful": "no"}, ("Feedback f1.", True, False)),
        ({"extraction": "Well done.", "critique": "no", "helpful": "no"}, ("", False, None)),
        ({"extraction": "Well done.", "critique": "No", "helpful": "Yes"}, ("", False, None)),
        ({"extraction": "", "critique": "no", "helpful": "no"}, ("", False, None)),
        ({"extraction": " ", "critique": "yes", "helpful": "yes"}, ("", False, None)),
        ({"extraction": "It was made up.", "critique": "yes", "helpful": "yes"}, ("", False, None)),
    ],
)
def test_without_a_critique_there_is_no_extraction_and_no_word_on_its_help(said: Row, expected: Any) -> None:
    rows, _, _ = judged("critiques", [feedback("f1")], verdicts(f1="match"), tags(reasoning="So.", **said))
    assert [(row["extraction"], row["constructive"], row["helpful"]) for row in rows] == [expected] * 2


@pytest.mark.parametrize("layer", NAMES)
@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (tags(reasoning="So.", verdict="perhaps", extraction="", critique="perhaps", helpful="no"), "model: invalid"),
        ("It is specific and matches.\n=====", "model: invalid"),
        (Failure("filter", "held back", "k"), "model: filter"),
    ],
)
def test_feedback_without_a_verdict_that_can_be_read_is_rejected(layer: str, reply: Any, reason: str) -> None:
    passed = verdicts(f1="specific" if layer == "context" else "match")
    rows, left_out, requests = judged(layer, [feedback("f1")], passed, reply)
    assert rows == []
    assert left_out == [("f1", reason)] * len(requests)


def made(home: Home, work: Stage, *given: Any, say: Callable[[PromptInputs], str]) -> Rows:
    """The rows of a layer, made as a build makes them, with an offline model that says this."""
    prompt = PROMPT[work.name.removeprefix("judge_")]
    rule = Rule(lambda inputs, _, __: say(inputs).removesuffix("\n====="), {"Feedback"})
    inputs = dict(zip(work.inputs, given, strict=True))
    arguments = {"model": OFFLINE, "prompt": prompt, "rubrics": RUBRICS}
    jobs = jobs_of(home.store, work.called(home.store, inputs, arguments))
    parts = [part for job in jobs for part in execute(replace(job, offline={prompt.name: rule}))]
    return Rows(home.store, work.schema, work.name, work.recipe(inputs, arguments).fingerprint, parts)


def test_feedback_goes_through_all_layers_of_a_build_and_each_is_counted_once(tmp_path: Path) -> None:
    home = Home(tmp_path)
    rows = [feedback(f"f{n}") for n in range(6)] + [feedback(f"p{kind}", kind, ("c",)) for kind in KINDS]
    mixed, texts, criteria = home.table(PLANTED, rows), home.table(TEXTS, [TEXT]), home.table(CRITERIA, CRITERIA_ROWS)

    def verdict(yes: str, no: str, *wrong: str) -> Callable[[PromptInputs], str]:
        return lambda of: tags(reasoning="So.", verdict=no if any(key in of.one("Feedback") for key in wrong) else yes)

    validity = made(home, judge_validity, mixed, say=verdict("specific", "not specific", "f0", "f1", "padvice"))
    belongs = made(home, judge_context, mixed, validity, texts, say=verdict("match", "unsure", "f1", "f2", "f3"))
    critiques = made(home, judge_critiques, mixed, belongs, texts, criteria, say=lambda _: YES["critiques"])
    assert [validity.count, belongs.count, critiques.count] == [9, 6, 2 * 2 + 2]
    assert {row["feedback_id"] for row in critiques} == {"f4", "f5", "ppraise", "pvague"}
    reasons = Counter(home.rejected(critiques).values())
    assert reasons == {"it does not match its text": 4, "planted to check another layer": 3}
    assert len(home.rejected(belongs)) + belongs.count == len(rows)


def test_feedback_on_no_criterion_at_all_is_rejected_by_the_layer_of_critiques(tmp_path: Path) -> None:
    home = Home(tmp_path)
    belongs = home.table(CONTEXT, [filled(CONTEXT, feedback_id="f1", verdict="match")])
    tables = (home.table(PLANTED, [feedback("f1", criteria=())]), belongs, home.table(TEXTS, [TEXT]))
    critiques = made(home, judge_critiques, *tables, home.table(CRITERIA), say=lambda _: "")
    assert home.rejected(critiques).keys() == {"f1"}
