"""Forms: what annotators are shown of a task and what they are asked, declared once for sheets, tools and pages.

    FORM = Form(
        name="claims", guidance="Judge every claim.", key="answer_id", annotator="annotator_id",
        shown=(Shown("answer"), Shown("claim", of_item=True)),
        fields=(
            Field("usefulness", "How useful is it?", "choice", ("Useful", "Not useful"), required=True),
            Field("support", "Is it supported?", "choice", ("Yes", "No"), of_item=True),
        ),
        items="claims", item_key="claim_id",
    )

A task is what one sheet is about; its items are what some fields are asked about one by one. Names are in lower case;
none ends in a number. In a form with a pairwise field, two shown texts end in `_a` and `_b`, and so do fields that are
asked of one of them; which text is which is drawn for each task.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from longform.artifacts.parts import key_hash

Kind = Literal["choice", "choices", "text", "texts", "number", "pairwise"]
Role = Literal["annotator", "expert", "adjudicator"]
ROLES: tuple[Role, ...] = ("annotator", "expert", "adjudicator")
NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Shown:
    """A plain text that is shown: of the task, or of each item. `seen_by`: that role and those after it in ROLES."""

    name: str
    of_item: bool = False
    required: bool = True
    seen_by: Role = "annotator"


@dataclass(frozen=True, slots=True)
class Field:
    """What is asked. `choices`: in their order; `also`: other spelling -> choice. `scale`: least and most of a number.

    `choices` takes any of the choices, `texts` any number of texts, `pairwise` A, B or neither. `blank`: in JSON an
    empty text is an answer and differs from null.
    """

    name: str
    question: str
    kind: Kind
    choices: tuple[str, ...] = ()
    also: Mapping[str, str] = field(default_factory=dict)
    scale: tuple[int, int] | None = None
    of_item: bool = False
    required: bool = False
    guidance: str = ""
    blank: bool = False
    seen_by: Role = "annotator"

    @property
    def offered(self) -> tuple[str, ...]:
        """What can be chosen; empty for texts and numbers."""
        return ("A", "B", NEITHER) if self.kind == "pairwise" else self.choices


@dataclass(frozen=True, slots=True)
class Form:
    """`key`, `item_key`, `annotator`: columns of a task's id, an item's id, and of who fills in; `context`: further ids
    that go along. `items`: what JSON calls the list of items. `ordered`: items are shown in their own order."""

    name: str
    guidance: str
    key: str
    annotator: str
    shown: tuple[Shown, ...]
    fields: tuple[Field, ...]
    items: str = ""
    item_key: str = ""
    context: tuple[str, ...] = ()
    ordered: bool = False

    def asked(self, *, of_item: bool) -> tuple[Field, ...]:
        """The fields of each item, or those of the task as a whole."""
        return tuple(each for each in self.fields if each.of_item == of_item)

    def texts(self, *, of_item: bool) -> tuple[Shown, ...]:
        """The texts shown of each item, or those of the task as a whole."""
        return tuple(each for each in self.shown if each.of_item == of_item)

    def names(self) -> dict[str, bool]:
        """The names of texts and fields, and whether they are of items."""
        return {each.name: each.of_item for each in self.shown} | {each.name: each.of_item for each in self.fields}

    def pairwise(self) -> set[str]:
        """The names of the fields that compare two texts."""
        return {each.name for each in self.fields if each.kind == "pairwise"}

    def sides(self) -> tuple[str, ...]:
        """The two shown texts that a pairwise field compares; () in a form without one."""
        if not self.pairwise():
            return ()
        return tuple(each.name for each in self.texts(of_item=False) if each.name.endswith(("_a", "_b")))

    def seen_by(self, role: Role) -> Form:
        """The form without the texts and the fields that this role may not see."""
        hidden = ROLES[ROLES.index(role) + 1 :]
        shown = tuple(each for each in self.shown if each.seen_by not in hidden)
        return replace(self, shown=shown, fields=tuple(each for each in self.fields if each.seen_by not in hidden))


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a task, with its texts by the names of the form."""

    id: str
    texts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Task:
    """What one sheet is about. `annotator`: whom it is meant for, None for anybody; draws take whole groups."""

    id: str
    texts: Mapping[str, str] = field(default_factory=dict)
    items: tuple[Item, ...] = ()
    context: Mapping[str, str | None] = field(default_factory=dict)
    annotator: str | None = None
    group: str = ""
    stratum: str = ""


@dataclass(frozen=True, slots=True)
class Sheets:
    """What annotators can fill in of a version: a form and its tasks, at most `most` groups of a stratum by default.

    `setting`: the setting of the dataset that names the filled-in files. `missing`: the message for a version without
    tasks.
    """

    form: Form
    tasks: list[Task]
    setting: str
    missing: str
    most: int | None = None


def draw(tasks: Iterable[Task], most: int | None, seed: int) -> list[Task]:
    """The tasks of at most so many groups of each stratum, of all where `most` is None; a smaller draw is part of a
    larger one."""
    kept = list(tasks)
    groups: defaultdict[str, set[str]] = defaultdict(set)
    for task in kept:
        groups[task.stratum].add(task.group)
    drawn = {(name, group) for name, of in groups.items() for group in _ranked(of, "task", seed)[:most]}
    return [task for task in kept if (task.stratum, task.group) in drawn]


def arranged(form: Form, tasks: Iterable[Task], seed: int) -> list[Task]:
    """The tasks as annotators are shown them: by annotator, those meant for anybody last; order, items and sides drawn.

    Nothing of what is drawn is written into a sheet: read back, the texts say which side is which.
    """
    of = {task.id: task for task in tasks}
    drawn = [_shuffled(form, of[name], seed) for name in _ranked(of, "task", seed)]
    return sorted(drawn, key=lambda task: (task.annotator is None, task.annotator or ""))


def _shuffled(form: Form, task: Task, seed: int) -> Task:
    of = {item.id: item for item in task.items}
    items = task.items if form.ordered else tuple(of[name] for name in _ranked(of, f"item\x1f{task.id}", seed))
    sides = form.sides()[:: -1 if _rank("side", seed, task.id) & 1 else 1]
    exchanged = dict(zip(form.sides(), (task.texts[name] for name in sides), strict=True))
    return replace(task, items=items, texts={**task.texts, **exchanged})


def _ranked(names: Iterable[str], what: str, seed: int) -> list[str]:
    return sorted(names, key=lambda name: (_rank(what, seed, name), name))


def _rank(what: str, seed: int, name: str) -> int:
    return key_hash(f"{what}\x1f{seed}\x1f{name}")
