"""A posted form becomes values as sheets have them, and every exchange format takes them back unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import ImmutableMultiDict
from toy_form import FILLED, FORM, PAIRS, VALUES, pairs, task

from flows.page.work import entries
from flows.page.work.exchange import Annotation, exported
from longform.artifacts.rows import Shard
from longform.files import sha256_of
from tasks.annotation.files import FORMATS, Format, open_sheets, read_file
from tasks.annotation.form import Form, Task
from tasks.annotation.labelling import Checked

AT = 1_790_000_000_000


def posted(values: dict[str, Any], form: Form = FORM, of: Task | None = None) -> entries.Read:
    pairs = [(name, each) for name, of in values.items() for each in ([of] if isinstance(of, str) else of)]
    of = of or task(0)
    return entries.read(form, of, "p1", entries.own_pairs(form, of, ImmutableMultiDict(pairs)))


def test_every_kind_of_field_is_read_in_the_spelling_of_the_form() -> None:
    found = posted(FILLED | {"csrf": "x", "task.unknown": "y", "7.support": "Yes"})
    assert (found.values, found.errors) == (VALUES, {})


def test_what_was_submitted_fills_the_controls_again() -> None:
    held = entries.given(FORM, task(0), VALUES)
    assert held["task.flaws"] == ["too long", "unsafe"]
    assert held["1.sources"] == ["https://a.example\n---\nA passage."]
    assert posted(held).values == VALUES


@pytest.mark.parametrize(
    ("changed", "control", "message", "forged"),
    [
        ({"task.usefulness": ""}, "task.usefulness", "This needs an answer.", False),
        ({"1.support": []}, "1.support", "This needs an answer.", False),
        ({"task.usefulness": "Superb"}, "task.usefulness", "Choose one of the answers.", True),
        ({"task.usefulness": ["Useful", "Not useful"]}, "task.usefulness", "Choose one of the answers.", True),
        ({"task.flaws": ["too long", "<b>"]}, "task.flaws", "Choose among the answers.", True),
        ({"task.quality": "6"}, "task.quality", "Give a whole number from 1 to 5.", False),
        ({"task.quality": "nan"}, "task.quality", "Give a whole number from 1 to 5.", False),
        ({"task.minutes": "soon"}, "task.minutes", "Give a number.", False),
    ],
)
def test_what_does_not_fit_has_its_message_at_its_control(
    changed: dict[str, Any], control: str, message: str, forged: bool
) -> None:
    found = posted(FILLED | changed)
    assert found.errors == {control: message}
    assert bool(found.forged) == forged


def test_a_rule_of_the_form_is_told_at_the_part_it_is_broken_in() -> None:
    form = Form(**{**{name: getattr(FORM, name) for name in FORM.__slots__}, "unfit": _no_sources_without_support})
    found = posted(FILLED | {"0.sources": "A page."}, form)
    assert found.errors == {"0.": "These answers do not go together: a source for what is supported."}


def _no_sources_without_support(values: Any) -> str | None:
    return "a source for what is supported" if "sources" in values and values.get("support") == "Yes" else None


def test_a_field_for_experts_is_neither_asked_nor_taken_of_annotators() -> None:
    found = posted(FILLED | {"task.secret": "I am none"}, FORM.seen_by("annotator"))
    assert ("", "secret") not in found.values


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_is_read_back_as_it_was_entered(format: Format, tmp_path: Path) -> None:
    of = task(0)
    file = tmp_path / ("filled.csv" if "csv" in format else "filled.json")
    file.write_bytes(exported(FORM, [Annotation(of, "p1", VALUES, 12.5, AT)], format))
    found = _read_back(FORM, file, of)
    assert {cell: value for each in found for cell, value in each.values.items()} == VALUES
    assert {each.annotator for each in found} == {"p1"}
    if format in ("jsonl", "label-studio"):
        assert sum(each.seconds or 0 for each in found) == pytest.approx(12.5)
    if format != "argilla":
        assert {each.labelling.at for each in found} == {AT}


def _read_back(form: Form, file: Path, of: Task) -> list[Checked]:
    (source,) = open_sheets([file], sha256_of, group="g", accounts={})
    found = list(read_file(form, Shard(source, 0), {of.id: of}))
    assert all(isinstance(each, Checked) for each in found), found
    return [each for each in found if isinstance(each, Checked)]


@pytest.mark.parametrize("format", FORMATS)
def test_a_preference_says_on_which_side_it_was_shown(format: Format, tmp_path: Path) -> None:
    ours = pairs(1).tasks[0]
    shown = Task(ours.id, {**ours.texts, "text_a": ours.texts["text_b"], "text_b": ours.texts["text_a"]})
    file = tmp_path / ("filled.csv" if "csv" in format else "filled.json")
    values = {("", "better"): "A", ("", "quality_a"): 5}
    file.write_bytes(exported(PAIRS, [Annotation(shown, "p1", values, 1, AT)], format))
    (found,) = _read_back(PAIRS, file, ours)
    assert found.swapped
    assert found.values == values
