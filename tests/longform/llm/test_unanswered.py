"""The sentence of stages whose questions got no answer."""

import pickle

from longform.errors import EndpointError, Incomplete
from longform.llm.unanswered import merged, unanswered_error

FIRST, SECOND = 'endpoint "a" at http://x/v1: 500 boom', 'endpoint "b" at http://y/v1: 502 Bad Gateway, a page'
AGAIN = "run the same command again"


def test_every_stage_is_named_with_its_number_and_its_last_fault() -> None:
    error = unanswered_error({"answer": (1_200, FIRST), "check": (1, SECOND)}, AGAIN)
    assert str(error) == (
        f"1,200 questions got no answer in answer (at last: {FIRST}) and 1 in check (at last: {SECOND}): "
        "answers so far are stored; run the same command again."
    )
    assert str(unanswered_error({"check": (1, SECOND)}, AGAIN)).startswith("1 question got no answer in check (at last")


def test_parts_of_a_stage_are_added_up_and_other_errors_tell_nothing() -> None:
    parts = [unanswered_error({"answer": (number, fault)}, AGAIN) for number, fault in ((3, FIRST), (4, SECOND))]
    error = merged([pickle.loads(pickle.dumps(parts[0])), Incomplete("left unfinished"), EndpointError("?"), parts[1]])
    assert error is not None
    assert str(error).startswith(f"7 questions got no answer in answer (at last: {SECOND}): answers so far")
    assert merged([Incomplete("left unfinished")]) is None


def test_only_a_few_stages_are_named_those_with_most_questions_first() -> None:
    error = unanswered_error({f"stage{number}": (number, FIRST) for number in range(1, 10)}, AGAIN)
    assert str(error) == (
        f"9 questions got no answer in stage9 (at last: {FIRST}), 8 in stage8, 7 in stage7, 6 in stage6 and 15 in 5 "
        "more stages: answers so far are stored; run the same command again."
    )
