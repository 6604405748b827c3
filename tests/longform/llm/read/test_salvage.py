"""Lists of objects that cannot be read whole: what is kept, what is lost, and what is no list."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from longform.llm.read.salvage import salvaged, salvaged_items
from longform.llm.read.structured import read_reply
from schemas.replies import RevisionEdits, WrittenAnswer

EDIT: dict[str, Any] = {
    "action_name": "a", "revision_description": "d", "revision_level": "word", "revision_intention": "style",
    "original_snippet": "x", "revised_snippet": 'y, "z" } {', "preceding_snippet": None,
}  # fmt: skip
GOOD = json.dumps(EDIT)
WRONG = json.dumps({**EDIT, "original_snippet": 7})
BROKEN = GOOD.replace('"style"', 'style"')


@pytest.mark.parametrize(
    ("text", "kept", "lost"),
    [
        (f'{{"edits": [{GOOD}, {BROKEN}, {GOOD}]}}', 2, 1),
        (f'{{"edits": [{BROKEN}, {GOOD}]}}', 1, 1),
        (f'{{"edits": [{GOOD}, {WRONG}, 3, null]}}', 1, 3),
        (f'{{"edits": [{GOOD}, {GOOD[:40]}', 1, 1),
        (f'{{"edits": [{GOOD},', 1, 1),
        (f'{{"edits": [{GOOD}', 1, 1),
        (f'{{"edits": [{GOOD}, {GOOD}]', 2, 0),
        (f"[{GOOD}, {GOOD}]", 2, 0),
        (f"```json\n[{GOOD}]\n```", 1, 0),
        (f'Here they are:\n```json\n{{"edits": [{GOOD}, {WRONG}]}}\n```', 1, 1),
        (json.dumps({"edits": [{**EDIT, "confidence": 1}]}), 1, 0),
        (json.dumps({"edits": [{k: v for k, v in EDIT.items() if k != "preceding_snippet"}, 1]}), 1, 1),
        (f'<think>{{"edits": [{GOOD}]}}</think>{{"edits": [{GOOD}, {WRONG}]}}', 1, 1),
    ],
)
def test_what_can_be_read_is_kept_and_the_rest_counted(text: str, kept: int, lost: int) -> None:
    found = salvaged(text, RevisionEdits)
    assert found is not None
    assert (salvaged_items(found[0]), found[1]) == (kept, lost)
    assert isinstance(found[0], RevisionEdits)
    assert found[0].edits[0].revised_snippet == EDIT["revised_snippet"]


@pytest.mark.parametrize(
    "text",
    [
        "", "No.", "[]", '{"edits": []}', '{"edits": [', f'{{"edits": [{WRONG}]}}',
        f'The user said "{{"edits": [{GOOD}]}}', f'{{"edits": [{GOOD}]}} or rather {{"edits": [{GOOD}]}}',
        f'{{"answer": {{"edits": [{GOOD}, {WRONG}]}}}}', f"not a list: [{GOOD}]",
    ],
)  # fmt: skip
def test_what_is_no_list_of_its_own_is_not_read(text: str) -> None:
    assert salvaged(text, RevisionEdits) is None


def test_other_models_have_nothing_to_salvage() -> None:
    class Numbers(BaseModel):
        edits: list[int]

    assert salvaged('{"edits": [1, 2', Numbers) is None
    assert salvaged('{"text": "a', WrittenAnswer) is None


@given(st.integers(0, 5), st.integers(0, 400))
def test_a_list_that_is_cut_off_never_looks_whole(number: int, cut: int) -> None:
    text = json.dumps({"edits": [EDIT] * number})
    shorter = text[: max(0, len(text) - 3 - cut)]
    assert isinstance(read_reply(shorter, RevisionEdits, "json"), str)
    found = salvaged(shorter, RevisionEdits)
    assert found is None or (found[1] >= 1 and salvaged_items(found[0]) <= number)
