"""Label Studio's files: tasks to import, the labelling configuration, and its JSON export read back.

    {"id": 7, "data": {"answer_id": "a_4f…", "claims": [{"claim_id": "a_4f…#0", "claim": "…", "evidence": "…"}], …},
     "annotations": [{"completed_by": 3, "was_cancelled": false, "lead_time": 61.2, "updated_at": "2026-11-21T…Z",
       "result": [
         {"from_name": "support_0", "to_name": "claim_0", "type": "choices", "value": {"choices": ["Partial"]}},
         {"from_name": "revised_claim_0", …, "type": "textarea", "value": {"text": ["At 11 degrees."]}}]}]}

A control's number is the claim's place in data.claims, from 0 (the tag Repeater). `completed_by` is a number or an
object with an `id`; skipped tasks stay as annotations with `was_cancelled`. The configuration is the same for all
tasks and holds nothing of them; texts are shown by the tag Text, which escapes them, with valueType="text", since
Label Studio would else fetch a text that is an address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any
from xml.etree import ElementTree

from longform.artifacts.rows import Rejected, Row
from tasks.expertqa.given import (
    ANSWER_PROPERTIES,
    CLAIM_PROPERTIES,
    CLAIM_RATINGS,
    LEFT_OUT,
    SHOWN_CHARS,
    Given,
    filled,
    ill_formed,
    misspelt,
    moment,
    name_of,
    seconds,
    without_empty,
)
from tasks.expertqa.sheets.sheets import ASKED, shown
from tasks.expertqa.vocabulary import ratings

INDEX = "{{idx}}"
_CONTROL = re.compile(r"([a-z_]+?)(?:_(\d{1,6}))?")
_OF_CLAIMS = {*CLAIM_PROPERTIES, LEFT_OUT}


def task(sheet: Row) -> Row:
    """A task to import."""
    names = ("answer_id", "question_id", "annotator_id", "field", "question", "answer")
    claims = [
        {"claim_id": claim["claim_id"], "claim": claim["claim"], "evidence": shown(claim["evidence"])}
        for claim in sheet["claims"]
    ]
    return {"data": {**{name: sheet[name] for name in names}, "claims": claims}}


def configuration() -> str:
    """The labelling configuration: usefulness, then every property of each claim, then the revised answer."""
    view = ElementTree.Element("View")
    ElementTree.SubElement(view, "Style").text = ".htx-text { white-space: pre-wrap; }"
    for name in ("field", "question", "answer"):
        ElementTree.SubElement(view, "Header", value=name.capitalize())
        _text(view, name, f"${name}")
    _choices(view, "usefulness", "answer", ratings("usefulness"))
    repeated = ElementTree.SubElement(view, "Repeater", on="$claims", indexFlag=INDEX)
    for name in ("claim", "evidence"):
        ElementTree.SubElement(repeated, "Header", value=name.capitalize())
        _text(repeated, f"{name}_{INDEX}", f"$claims[{INDEX}].{name}")
    for name in (*CLAIM_PROPERTIES[:-2], "left_out", *CLAIM_PROPERTIES[-2:]):
        _control(repeated, name)
    _area(view, "revised_answer", "revised_answer", "answer", rows="10")
    ElementTree.indent(view)
    return ElementTree.tostring(view, encoding="unicode") + "\n"


def _text(parent: ElementTree.Element, name: str, value: str) -> None:
    ElementTree.SubElement(parent, "Text", name=name, value=value, valueType="text", selectionEnabled="false")


def _control(parent: ElementTree.Element, name: str) -> None:
    control, shown_in = f"{name}_{INDEX}", f"claim_{INDEX}"
    if name == "left_out":
        _choices(parent, name, shown_in, ("Yes", "No"), control, required="false")
    elif name in CLAIM_RATINGS:
        _choices(parent, name, shown_in, ratings(name), control)
    else:
        _area(parent, name, control, shown_in, rows="2")


def _choices(
    parent: ElementTree.Element,
    name: str,
    to: str,
    values: Sequence[str],
    control: str | None = None,
    required: str = "true",
) -> None:
    ElementTree.SubElement(parent, "Header", value=ASKED[name], size="6")
    choices = ElementTree.SubElement(
        parent, "Choices", name=control or name, toName=to, choice="single", showInline="true", required=required
    )
    for value in values:
        ElementTree.SubElement(choices, "Choice", value=value)


def _area(parent: ElementTree.Element, name: str, control: str, to: str, rows: str) -> None:
    """A field for one text; for several, where evidence is asked for."""
    ElementTree.SubElement(parent, "Header", value=ASKED[name], size="6")
    area = ElementTree.SubElement(parent, "TextArea", name=control, toName=to, rows=rows, editable="true")
    if name != "revised_evidence":
        area.set("maxSubmissions", "1")


def is_task(record: Row) -> bool:
    return isinstance(record.get("data"), dict)


def is_minimal(record: Row) -> bool:
    """Whether a record is of the export JSON-MIN, which mixes labels with the data of the task."""
    return "annotator" in record and "annotation_id" in record


def read_task(record: Row, key: str, raw: str) -> Iterator[Given | Rejected]:
    """What each annotation of an exported task says."""
    data, annotations = record["data"], record.get("annotations", [])
    answer_id, claims = data.get("answer_id"), data.get("claims")
    if not isinstance(answer_id, str) or not answer_id:
        yield ill_formed(key, "no answer_id", raw)
    elif not isinstance(claims, list) or not all(_is_claim(claim) for claim in claims):
        yield ill_formed(answer_id, "missing or ill-formed claims", raw)
    elif not isinstance(annotations, list):
        yield ill_formed(answer_id, "missing or ill-formed annotations", raw)
    elif not annotations:
        yield Rejected(answer_id, "filtered", "not labelled")
    else:
        for annotation in annotations:
            yield _read(annotation, answer_id, claims, raw)


def _is_claim(claim: Any) -> bool:
    return isinstance(claim, dict) and isinstance(claim.get("claim_id"), str)


def _read(annotation: Any, answer_id: str, claims: list[Row], raw: str) -> Given | Rejected:
    result = annotation.get("result") if isinstance(annotation, dict) else None
    if not isinstance(result, list) or not all(isinstance(item, dict) for item in result):
        return ill_formed(answer_id, "missing or ill-formed result", raw)
    who = annotation.get("completed_by")
    annotator = name_of(who.get("id") if isinstance(who, dict) else who)
    said: Row = {}
    of_claims: dict[str | int, Row] = {claim["claim_id"]: {} for claim in claims}
    for item in result:
        problem = _take(item, said, of_claims, claims)
        if problem:
            return ill_formed(f"{answer_id}/{annotator}", problem, raw, str(item.get("from_name")))
    dates = [annotation.get("updated_at"), annotation.get("created_at")]
    at = next((when for when in map(moment, dates) if when is not None), None)
    if at is None and any(map(filled, dates)):
        return ill_formed(f"{answer_id}/{annotator}", "ill-formed updated_at", raw, str(dates[0])[:SHOWN_CHARS])
    said["annotation_time"] = seconds(annotation.get("lead_time"))
    return Given(
        "label-studio",
        answer_id,
        annotator,
        without_empty(said.items()),
        {name: without_empty(values.items()) for name, values in of_claims.items()},
        {claim["claim_id"]: claim["claim"] for claim in claims if isinstance(claim.get("claim"), str)},
        at,
        "skipped by its annotator" if annotation.get("was_cancelled") else None,
    )


def _take(item: Row, said: Row, of_claims: dict[str | int, Row], claims: list[Row]) -> str | None:
    """Put an item of a result where it belongs; why it cannot be. Controls that are none of ours are left alone,
    but for those that are called nearly as one."""
    found = _CONTROL.fullmatch(item["from_name"]) if isinstance(item.get("from_name"), str) else None
    name, place = found.groups() if found else (None, None)
    if place is None and name in ANSWER_PROPERTIES:
        target = said
    elif place is not None and name in _OF_CLAIMS:
        if int(place) >= len(claims):
            return "a control of no claim"
        target = of_claims[claims[int(place)]["claim_id"]]
    else:
        meant = misspelt(item["from_name"]) if isinstance(item.get("from_name"), str) else None
        return f"unknown control, perhaps of {meant}" if meant else None
    value = item.get("value")
    values = value.get("choices", value.get("text")) if isinstance(value, dict) else None
    values = [values] if isinstance(values, str) else values
    if not isinstance(values, list) or name in target:
        return "ill-formed value" if name not in target else "a control given twice"
    if name != "revised_evidence" and len(values) > 1:
        return "several values where one is asked for"
    target[str(name)] = values if name == "revised_evidence" else next(iter(values), None)
    return None
