"""Forms: what annotators are shown of a task and what they are asked, declared once for files, annotation tools and
pages.

    FORM = Form(
        name="claims", guidance="Judge every claim.", key="answer_id", annotator="annotator_id",
        shown=(Shown("answer"), Shown("claim", of_item=True)),
        fields=(
            Field("usefulness", "How useful is it?", "choice", ("Useful", "Not useful"), required=True),
            Field("support", "Is it supported?", "choice", ("Yes", "No"), of_item=True),
        ),
        items="claims", item_key="claim_id",
    )

A task is what one sheet is about, such as an answer; its items are the parts that some fields are asked about one by
one, such as its claims. Names are in lower case; none ends in a number. In a form with a pairwise field, two shown
texts (the sides) end in `_a` and `_b`, and so do fields that are asked about one of them; which text is shown on which
side is drawn at random for each task.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from longform.artifacts.parts import key_hash

Kind = Literal["choice", "choices", "text", "texts", "number", "pairwise"]
Role = Literal["annotator", "expert", "adjudicator"]
ROLES: tuple[Role, ...] = ("annotator", "expert", "adjudicator")
NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Shown:
    """A plain text that is shown: of the task, or of each of its items (`of_item`). `required`: Argilla refuses a
    record without it. `seen_by`: the first role in ROLES that sees it; later roles see it too.
    """

    name: str
    of_item: bool = False
    required: bool = True
    seen_by: Role = "annotator"


@dataclass(frozen=True, slots=True)
class Field:
    """A question to annotators, about the task or each of its items (`of_item`). `choices`: in the order shown;
    `also`: another accepted spelling -> choice; `scale`: (least, greatest) whole number, None: any number; `seen_by`:
    the first role in ROLES that sees it.

    `kind`: `choice` is one of the choices, `choices` any of them, `text` one text, `texts` any number of texts,
    `number` a number, `pairwise` A, B or neither, or one of `choices` where there are some. `blank`: in JSON an empty
    text is an answer, unlike null. `not_beside`: (another field, one of its choices) beside which this one has no
    answer.
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
    not_beside: tuple[str, str] | None = None

    @property
    def offered(self) -> tuple[str, ...]:
        """The choices; of a pairwise field without choices A, B and neither; () for texts and numbers."""
        return self.choices or (("A", "B", NEITHER) if self.kind == "pairwise" else ())


@dataclass(frozen=True, slots=True)
class Form:
    """What is shown and asked. `key`, `item_key`, `annotator`: the columns of the task's id, the item's id and the
    annotator's id; `context`: further id columns written into the sheets. `items`: the key of the list of items in
    JSON; "" if tasks have no items. `ordered`: items keep their order instead of being shuffled. `unfit`: field name ->
    value, of a task or of one of its items, to the reason why these values do not go together, else None.
    """

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
    unfit: Callable[[Mapping[str, Any]], str | None] | None = None

    def asked(self, *, of_item: bool) -> tuple[Field, ...]:
        """The fields asked about each item (`of_item`), or those about the task as a whole."""
        return tuple(each for each in self.fields if each.of_item == of_item)

    def texts(self, *, of_item: bool) -> tuple[Shown, ...]:
        """The texts shown of each item (`of_item`), or those of the task as a whole."""
        return tuple(each for each in self.shown if each.of_item == of_item)

    def belongs_to_items(self) -> dict[str, bool]:
        """The name of each text and field -> whether it belongs to items."""
        return {each.name: each.of_item for each in self.shown} | {each.name: each.of_item for each in self.fields}

    def pairwise(self) -> set[str]:
        """The names of the fields that compare two texts."""
        return {each.name for each in self.fields if each.kind == "pairwise"}

    def sides(self) -> tuple[str, ...]:
        """The names of the two texts that a pairwise field compares (they end in `_a` and `_b`), in the form's order;
        () if the form has no such field.
        """
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
    """An item of a task; `texts`: name of one of the form's texts -> text."""

    id: str
    texts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Task:
    """What one sheet is about. `texts`: name of one of the form's texts -> text. `annotator`: the id of the annotator
    it is meant for, None: anybody; `not_for`: the one who must not do it, as it is about their own work. `context`:
    values of the form's context columns. `group` and `stratum` are for `draw`, which draws whole groups from each
    stratum.
    """

    id: str
    texts: Mapping[str, str] = field(default_factory=dict)
    items: tuple[Item, ...] = ()
    context: Mapping[str, str | None] = field(default_factory=dict)
    annotator: str | None = None
    not_for: str | None = None
    group: str = ""
    stratum: str = ""


@dataclass(frozen=True, slots=True)
class Sheets:
    """What annotators can fill in for a built version of a dataset: a form and its tasks. By default at most `most`
    groups of each stratum are handed out; None: all.

    `setting`: the dataset's setting in which the filled-in files are listed; "": there is none. `missing`: the message
    for a version without tasks.
    """

    form: Form
    tasks: list[Task]
    setting: str
    missing: str
    most: int | None = None


def draw(tasks: Iterable[Task], most: int | None, seed: int) -> list[Task]:
    """The tasks of at most `most` groups of each stratum, drawn by `seed`, in their given order; None: all groups. A
    draw with a smaller `most` is a subset of one with a larger.
    """
    kept = list(tasks)
    groups: defaultdict[str, set[str]] = defaultdict(set)
    for task in kept:
        groups[task.stratum].add(task.group)
    drawn = {(name, group) for name, of in groups.items() for group in _ranked(of, "task", seed)[:most]}
    return [task for task in kept if (task.stratum, task.group) in drawn]


def arranged(form: Form, tasks: Iterable[Task], seed: int) -> list[Task]:
    """The tasks in the order and form in which annotators are shown them: sorted by annotator, those for anybody last;
    within these, tasks, the items of each task (unless the form is `ordered`) and its two sides are shuffled by
    `seed`. Of tasks with the same id only the last is kept.

    The sheets do not record which side is which: when they are read, their texts are compared with the task's.
    """
    of = {task.id: task for task in tasks}
    drawn = [_shuffled(form, of[name], seed) for name in _ranked(of, "task", seed)]
    return sorted(drawn, key=lambda task: (task.annotator is None, task.annotator or ""))


def _shuffled(form: Form, task: Task, seed: int) -> Task:
    """The task with its items (unless the form is `ordered`) and, in a form with a pairwise field, the texts of its
    two sides in an order drawn by `seed`.
    """
    of = {item.id: item for item in task.items}
    items = task.items if form.ordered else tuple(of[name] for name in _ranked(of, f"item\x1f{task.id}", seed))
    sides = form.sides()[:: -1 if _rank("side", seed, task.id) & 1 else 1]
    exchanged = dict(zip(form.sides(), (task.texts[name] for name in sides), strict=True))
    return replace(task, items=items, texts={**task.texts, **exchanged})


def _ranked(names: Iterable[str], what: str, seed: int) -> list[str]:
    """The names in an order drawn by `seed`; `what` (task or item) makes draws independent of each other."""
    return sorted(names, key=lambda name: (_rank(what, seed, name), name))


def _rank(what: str, seed: int, name: str) -> int:
    """The hash of a name by which it is ordered: 64 bits that depend on all three arguments."""
    return key_hash(f"{what}\x1f{seed}\x1f{name}")
