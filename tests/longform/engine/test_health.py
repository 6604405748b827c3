"""The statistic of gates against scipy's own, and what a stage's health says of replies and rows."""

import pickle
import random
from collections import deque
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_stages import ITEMS

from longform.artifacts.parts import Parts
from longform.artifacts.rows import Rejected
from longform.artifacts.store import Part, Store
from longform.engine.health import (
    PILOT,
    Ceilings,
    Gate,
    Health,
    fault_of,
    gate_error,
    gates_of,
    lower_bound_is_above,
    quote,
    refusal,
)
from longform.errors import GateError
from longform.llm.ask.types import Answer, Failure, Request

ANSWER = Answer("Yes.", "k", "m", "stop", 1, 1)


def failure(kind: str = "refusal", text: str = "I'm sorry, but I can't help with that.") -> Failure:
    return Failure(kind, text, "k")  # type: ignore[arg-type]


@given(st.integers(1, 400), st.data(), st.sampled_from([0.0, 0.02, 0.1, 0.5, 1.0]))
def test_the_bound_is_that_of_clopper_and_pearson(checked: int, data: st.DataObject, ceiling: float) -> None:
    from scipy.stats import binomtest

    found = data.draw(st.integers(0, checked))
    interval = binomtest(found, checked, alternative="greater").proportion_ci(0.95, method="exact")
    if abs(interval.low - ceiling) > 1e-9 or found == 0:
        assert lower_bound_is_above(found, checked, ceiling) == (interval.low > ceiling)


def test_twenty_replies_that_decline_stop_the_stage_and_fewer_do_not() -> None:
    health = Health("answer", Ceilings())
    for _ in range(19):
        health.add_reply(failure())
    with pytest.raises(
        GateError, match=r"^answer: 20 of its first 20 replies decline \(ceiling 10 %\), e\.g\. \"I'm"
    ) as e:
        health.add_reply(failure())
    assert e.value.exit_code == 7
    assert "--accept answer" in str(e.value)
    with pytest.raises(GateError):  # of other units, too
        health.add_reply(ANSWER)


def test_a_pilot_passes_with_thirty_replies_of_which_three_are_bad() -> None:
    passed: list[int] = []
    health = Health("answer", Ceilings(), lambda: passed.append(1))
    list(health.counted((n, Request((), task="x")) for n in range(PILOT)))
    assert health.room() == 0
    for n in range(PILOT):
        assert not health.decided
        health.add_reply(failure() if n % 10 == 0 else ANSWER)
    assert health.decided
    assert passed == [1]
    assert health.room() > 1_000_000


def test_rows_tell_faults_that_replies_do_not_and_what_a_rule_filters_is_none() -> None:
    health = Health("answer", Ceilings())
    for n in range(1_000):
        health.add_item(Rejected(str(n), "filtered", "utilization above maximum"))
    for n in range(19):
        health.add_item(Rejected(str(n), "defect", "model: length", raw="It begins with"))
    with pytest.raises(GateError, match=r'20 of its first 20 replies are cut off.*"It begins with"'):
        health.add_item(Rejected("k", "defect", "model: length", raw="It begins with"))


def test_rows_that_no_model_was_asked_for_do_not_hide_bad_ones() -> None:
    health = Health("check", Ceilings())
    for _ in range(1_000):
        health.add_item({"response": None})
    for n in range(19):
        health.add_item(Rejected(str(n), "defect", "model: invalid", raw="{"))
    with pytest.raises(GateError):
        health.add_item(Rejected("k", "defect", "model: invalid", raw="{"))


@pytest.mark.parametrize(("reason", "fault"), [
    ("model: degenerate", "degenerate"), ("model: repeated", "repeated"),
    ("model: refusal", "refused"), ("model: filter", "refused"), ("model: length", "cut_off"),
    ("model: whitespace", "cut_off"), ("model: unanswered", "unreadable"), ("model: invalid", "unreadable"),
    ("the reply is empty", "unreadable"), ("model: request", "not_taken"), ("the reply is cut off", "cut_off"),
    ("no passage found", None), ("a given draft is empty", None),
])  # fmt: skip
def test_the_reason_of_a_rejected_row_tells_the_fault(reason: str, fault: str | None) -> None:
    assert fault_of(reason) == fault


def part(rows: int, counted: int | None = None, **faults: int) -> Part:
    rejected = tuple(("defect", f"model: {kind}", n) for kind, n in faults.items())
    return Part("s", "all/0-00000", "p", rows, 0, "", rejected, counts=(("replies", counted),) if counted else ())


def test_one_bad_reply_of_several_blocks_nothing_and_one_of_one_does() -> None:
    assert not any(gate.is_above for gate in gates_of("s", [part(3, 4, refusal=1)], Ceilings()))
    assert any(gate.is_above for gate in gates_of("s", [part(3, 5, refusal=2)], Ceilings()))
    assert any(gate.is_above for gate in gates_of("s", [part(0, 1, refusal=1)], Ceilings()))


def test_replies_that_a_rule_filtered_afterwards_count_as_replies() -> None:
    gates = gates_of("s", [part(10, 100, length=8)], Ceilings())
    assert {gate.checked for gate in gates} == {100}
    assert [(gate.what, gate.found) for gate in gates if gate.found] == [("replies are cut off", 8)]
    assert gates[1].sentence == "s: 8 of 100 replies are cut off (8 %)"


def test_an_accepted_stage_says_so_where_it_is_above_its_ceiling() -> None:
    gates = gates_of("s", [part(0, 40, refusal=40)], Ceilings(), accepted=True)
    assert [gate.what for gate in gates if gate.accepted] == ["replies decline"]


def counting(**counters: int) -> Part:
    counts = (
        ("replies", 40),
        *((name.replace("_of_", " of: ").replace("__", ": "), n) for name, n in counters.items()),
    )
    return Part("s", "all/0-00000", "p", 40, 0, "", (), counts=counts)


def test_each_system_has_a_share_of_abstentions_of_its_own_over_all_parts() -> None:
    parts = [
        counting(**{".abstained_of_gs": 12, "abstained__gs": 12, ".abstained_of_sphere": 10}),
        counting(**{".abstained_of_sphere": 10, "abstained__sphere": 3, ".abstained_of_gs": 3, "abstained__gs": 1}),
    ]
    told = [gate for gate in gates_of("s", parts, Ceilings()) if "abstain" in gate.what]
    assert [(gate.what, gate.found, gate.checked, gate.is_above) for gate in told] == [
        ("replies of gs abstain", 13, 15, True),
        ("replies of sphere abstain", 3, 20, False),
    ]
    assert not any(gate.is_above for gate in gates_of("s", parts, Ceilings(abstained=0.9)))


def test_a_few_texts_that_are_left_as_they_were_say_nothing() -> None:
    few, more = (counting(**{".unchanged_of_": n, "unchanged__": n}) for n in (4, 5))
    assert not any(gate.is_above for gate in gates_of("s", [few], Ceilings()))
    assert [gate.what for gate in gates_of("s", [more], Ceilings()) if gate.is_above] == [
        "replies leave the text as it was"
    ]


def test_a_system_that_only_abstains_stops_its_stage_whatever_others_do_and_in_any_order() -> None:
    replies = [("gs", True)] * 20 + [("sphere", False)] * 40
    for seed in range(5):
        random.Random(seed).shuffle(replies)
        health = Health("read", Ceilings())
        with pytest.raises(GateError, match=r"^read: 20 of its first 20 replies of gs abstain \(ceiling 80 %\)"):
            deque(health.add_reply(ANSWER, None, of, {"abstained": abstains}) for of, abstains in replies)


def test_only_failures_are_said_to_be_asked_again() -> None:
    declined, abstained = (
        f's: 20 of its first 20 replies {what} (ceiling 10 %), e.g. "They abstain"'
        for what in ("decline", "of gs abstain")
    )
    assert "--retry-errors" in str(gate_error({"s": declined}))
    assert "--retry-errors" in str(gate_error({"s": declined, "t": abstained}))
    assert "then run the same command; --accept t goes on" in str(gate_error({"t": abstained}))


def test_an_example_is_one_short_line_without_control_characters() -> None:
    assert quote("I\x1b[31m am\n\n sorry\u202e, " + "x" * 300) == '"I am sorry , ' + "x" * 86 + '…"'
    assert quote("\n") == ""


def test_an_example_is_cut_between_words_and_keeps_what_joins_letters() -> None:
    words = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    assert quote(words) == f'"{words[:96]}…"'
    assert words[:96].endswith("sixteen")
    joined = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f469\u200d\U0001f52c"
    assert quote(joined) == f'"{joined}"'


@pytest.mark.parametrize(("found", "checked", "said"), [
    (2, 41, "2 of 41 replies decline (4.9 %)"),
    (1, 33, "1 of 33 replies declines (3 %)"),
    (1, 1, "1 of 1 reply declines (100 %)"),
    (0, 1, "0 of 1 reply decline (0 %)"),
])  # fmt: skip
def test_a_gate_speaks_of_one_reply_in_the_singular(found: int, checked: int, said: str) -> None:
    assert Gate("s", "stage", "replies decline", found, checked, 0.1).sentence == f"s: {said}"


@pytest.mark.parametrize(("kind", "said"), [
    ("length", "1 of its 1 reply is cut off (ceiling 10 %)"),
    ("empty", "1 of its 1 reply cannot be read (ceiling 10 %)"),
    ("request", "1 of its 1 question is not taken by the endpoint (ceiling 10 %)"),
])  # fmt: skip
def test_the_error_of_a_stage_with_one_reply_is_in_the_singular(kind: str, said: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    parts = Parts(store, "s", ITEMS, ["all/0-00000"], None, None)
    parts.add(Rejected("tea.example/7", "defect", f"model: {kind}", raw="It be\x1b]0;title\x07gins"))
    error = refusal("s", store, parts.finish(), Ceilings())
    assert str(error).startswith(f's: {said}, e.g. "It be gins" (tea.example/7): look at')


def test_examples_name_three_rows_also_where_all_replies_are_equal() -> None:
    health = Health("answer", Ceilings())
    for number in range(19):
        health.add_reply(failure(), (f"x.com/{number}", ["a passage"]))
    with pytest.raises(GateError) as caught:
        health.add_reply(failure(), ("x.com/19", ["a passage"]))
    sorry = "\"I'm sorry, but I can't help with that.\""
    assert f"e.g. {sorry} (x.com/0; x.com/1; x.com/2): look" in str(caught.value)


def test_examples_of_different_texts_name_their_rows_and_an_empty_reply_is_called_that() -> None:
    health, texts = Health("answer", Ceilings()), ["", "No.", "Never.\x1b[2J", "Not at all."]
    rows = [Rejected(f"x.com/{number}", "defect", "model: empty", raw=texts[number % 4]) for number in range(20)]
    for row in rows[:-1]:
        health.add_item(row)
    with pytest.raises(GateError) as caught:
        health.add_item(rows[-1])
    assert 'e.g. no text (x.com/0), "No." (x.com/1), "Never." (x.com/2): look' in str(caught.value)


def test_an_example_is_quoted_without_the_thought_of_a_model() -> None:
    assert quote("<think>Policy says no.</think>\n\nI can't help with that.") == '"I can\'t help with that."'
    assert quote("<think>Policy says no.</think>") == '"<think>Policy says no.</think>"'


def test_the_error_of_a_gate_keeps_its_findings_on_the_way_from_a_worker() -> None:
    error = pickle.loads(pickle.dumps(gate_error({"answer": "answer: 20 of its first 20 replies decline"})))
    assert error.findings == {"answer": "answer: 20 of its first 20 replies decline"}
    assert str(error).endswith("--accept answer goes on as it is, and the card will say so.")
