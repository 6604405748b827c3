"""Argilla 2: a folder for `rg.Dataset.from_disk`, and its records read back, as `records.to_json` or flattened.

    {"id": "a_4f…", "fields": {"question": "…", "answer": "…", "claim_0": "…", "evidence_0": "…"}, "metadata": {…},
     "responses": {"usefulness": [{"value": "Useful", "user_id": "3f9c…"}],
                   "support_0": [{"value": "Partial", "user_id": "3f9c…"}]}, "suggestions": {}, "vectors": {}}

    {"id": "a_4f…", "question": "…", "claim_0": "…", "support_0.responses": ["Partial"],
     "support_0.responses.users": ["3f9c…"], "support_0.responses.status": ["submitted"], …}

A data set of Argilla has the same questions for all records: those of each claim carry its number from 0, for as many
claims as the longest answer has. A form with a text field cannot say that a claim is to be left out: `left_out_0` asks.
Only flattened records say which responses are drafts or discarded; they do not count. Fields show plain texts, not
Markdown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from longform.artifacts.rows import Rejected, Row
from tasks.expertqa.given import (
    ANSWER_PROPERTIES,
    CLAIM_PROPERTIES,
    CLAIM_RATINGS,
    DIVIDER,
    LEFT_OUT,
    Given,
    ill_formed,
    misspelt,
    name_of,
    without_empty,
)
from tasks.expertqa.sheets.sheets import ASKED, shown
from tasks.expertqa.vocabulary import ratings

NAME = "expertqa"
GUIDELINES = (
    "Judge an answer and each of its claims as an expert of the field. Rate the claims of the answer that are shown, "
    "from 0 on. Several texts of evidence are divided by a line of three dashes (---)."
)
_QUESTION = re.compile(r"([a-z_]+?)(?:_(\d{1,6}))?")
_OF_CLAIMS = (*CLAIM_PROPERTIES[:-2], LEFT_OUT, *CLAIM_PROPERTIES[-2:])
RESPONSES = ".responses"
SETTINGS = ".argilla"


def record(sheet: Row) -> Row:
    """A record to import."""
    fields = {name: sheet[name] for name in ("field", "question", "answer")}
    for place, claim in enumerate(sheet["claims"]):
        fields |= {f"claim_{place}": claim["claim"], f"evidence_{place}": shown(claim["evidence"])}
    known = {name: sheet[name] for name in ("answer_id", "question_id", "annotator_id")}
    metadata = {name: value for name, value in known.items() if value is not None}
    return {
        "id": sheet["answer_id"],
        "fields": fields,
        "metadata": metadata,
        "suggestions": {},
        "responses": {},
        "vectors": {},
    }


def dataset() -> Row:
    """What `.argilla/dataset.json` holds."""
    return {"name": NAME, "guidelines": GUIDELINES, "allow_extra_metadata": False}


def settings(most_claims: int) -> Row:
    """What `.argilla/settings.json` holds, for answers of up to `most_claims` claims."""
    fields = [_field(name, name.capitalize(), required=True) for name in ("field", "question", "answer")]
    questions = [_labels("usefulness", ASKED["usefulness"], ratings("usefulness"), required=True)]
    for place in range(most_claims):
        fields += [_field(f"{name}_{place}", f"{name.capitalize()} {place}") for name in ("claim", "evidence")]
        questions += [_question(name, place) for name in _OF_CLAIMS]
    return {
        "guidelines": GUIDELINES,
        "allow_extra_metadata": False,
        "fields": fields,
        "questions": [*questions, _text("revised_answer", ASKED["revised_answer"])],
        "metadata": [_metadata(name) for name in ("answer_id", "question_id", "annotator_id")],
        "vectors": [],
    }


def _question(name: str, place: int) -> Row:
    title = f"Claim {place}: {ASKED[name]}"
    if name == "left_out":
        return _labels(f"{name}_{place}", title, ("Yes", "No"))
    return (
        _labels(f"{name}_{place}", title, ratings(name)) if name in CLAIM_RATINGS else _text(f"{name}_{place}", title)
    )


def _field(name: str, title: str, required: bool = False) -> Row:
    return {"name": name, "title": title, "required": required, "settings": {"type": "text", "use_markdown": False}}


def _text(name: str, title: str) -> Row:
    return {"name": name, "title": title, "required": False, "settings": {"type": "text", "use_markdown": False}}


def _labels(name: str, title: str, values: Sequence[str], required: bool = False) -> Row:
    options = [{"value": value, "text": value} for value in values]
    return {
        "name": name,
        "title": title,
        "required": required,
        "settings": {"type": "label_selection", "options": options},
    }


def _metadata(name: str) -> Row:
    kind = {"type": "terms", "visible_for_annotators": True}
    return {"name": name, "title": name, **kind, "settings": {**kind, "values": None}}


def is_record(record: Row) -> bool:
    nested = isinstance(record.get("fields"), dict) and "responses" in record
    return nested or any(name.endswith(RESPONSES) for name in record)


def read_record(record: Row, key: str, raw: str) -> Iterator[Given | Rejected]:
    """What each user who responded to a record says."""
    fields = record["fields"] if isinstance(record.get("fields"), dict) else record
    metadata = record["metadata"] if isinstance(record.get("metadata"), dict) else record
    answer_id = metadata.get("answer_id") or record.get("id")
    if not isinstance(answer_id, str):
        yield ill_formed(key, "no answer_id", raw)
        return
    shown_texts = _shown(fields)
    try:
        users = _by_user(_nested(record) if "responses" in record else _flattened(record))
    except ValueError as error:
        yield ill_formed(answer_id, "ill-formed responses", raw, str(error))
        return
    if not users:
        yield Rejected(answer_id, "filtered", "not labelled")
    for user, (answers, states) in users.items():
        yield _given(answer_id, user, answers, states, shown_texts, raw)


def _shown(fields: Row) -> dict[str | int, str]:
    numbered = ((_QUESTION.fullmatch(name), text) for name, text in fields.items())
    return {
        int(found[2]): text
        for found, text in numbered
        if found and found[1] == "claim" and found[2] is not None and isinstance(text, str)
    }


def _nested(record: Row) -> Iterator[tuple[str, Any, Any, Any]]:
    """(question, value, user, status) of each response; ValueError where it is none."""
    responses = record["responses"] or {}
    if not isinstance(responses, dict):
        raise ValueError("responses")
    for name, given in responses.items():
        if not isinstance(given or [], list) or not all(isinstance(one, dict) for one in given or []):
            raise ValueError(name)
        yield from ((name, one.get("value"), one.get("user_id"), one.get("status")) for one in given or [])


def _flattened(record: Row) -> Iterator[tuple[str, Any, Any, Any]]:
    for column, values in record.items():
        if not column.endswith(RESPONSES) or values is None:
            continue
        users, states = record.get(f"{column}.users"), record.get(f"{column}.status")
        if not isinstance(values, list) or not isinstance(users, list):
            raise ValueError(column)
        states = states if isinstance(states, list) else [None] * len(values)
        if not len(values) == len(users) == len(states):
            raise ValueError(column)
        name = column.removesuffix(RESPONSES)
        yield from ((name, *one) for one in zip(values, users, states, strict=True))


def _by_user(responses: Iterator[tuple[str, Any, Any, Any]]) -> dict[str | None, tuple[Row, set[Any]]]:
    """What each user said, question by question, and with which states."""
    users: defaultdict[str | None, tuple[Row, set[Any]]] = defaultdict(lambda: ({}, set()))
    for name, value, user, status in responses:
        answers, states = users[name_of(user)]
        if name in answers:
            raise ValueError(f"{name} twice by one user")
        answers[name] = value
        states.add(status if status is None else str(status))
    return dict(users)


def _given(
    answer_id: str, user: str | None, answers: Row, states: set[Any], shown_texts: dict[str | int, str], raw: str
) -> Given | Rejected:
    of_claims: defaultdict[str | int, Row] = defaultdict(dict)
    said: Row = {}
    for question, value in answers.items():
        found = _QUESTION.fullmatch(question)
        name, place = found.groups() if found else (None, None)
        if name in ANSWER_PROPERTIES and place is None:
            said[name] = value
        elif name in _OF_CLAIMS and place is not None:
            of_claims[int(place)][name] = value
        elif meant := misspelt(question):
            return ill_formed(answer_id, f"unknown question, perhaps of {meant}", raw, question)
    unfinished = next((state for state in ("discarded", "draft") if state in states), None)
    return Given(
        "argilla",
        answer_id,
        user,
        without_empty(said.items()),
        {place: without_empty(values.items()) for place, values in of_claims.items()},
        shown_texts,
        void=f"{unfinished} by its annotator" if unfinished else None,
    )


def joined(texts: Sequence[str]) -> str:
    """Several texts as the one that a text question takes."""
    return f"\n{DIVIDER}\n".join(texts)
