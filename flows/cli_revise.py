"""The command that measures one text: its edits as a coloured diff, and their number."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.arguments import ConfigFile, Home, Json, MaxCost, PromptsFolder, Settings, print_json, with_prompts

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from tasks.revision_distance.measure import Revision
    from tasks.revision_distance.placing import Placement

app = typer.Typer()

SHOWN_BEFORE = 60
INDENT = 5
COMPARED_WORDS = 2_000
REMOVED, ADDED, CHANGED = "red", "green", "bold underline"


@app.command("revise")
def revise(
    draft: Annotated[str, typer.Argument(metavar="DRAFT", help="the text to measure: a file, or - for standard input")],
    reference: Annotated[
        Path | None, typer.Option("--reference", metavar="FILE", help="the text it should become; else one of its own")
    ] = None,
    request: Annotated[
        str, typer.Option("--request", metavar="TEXT", help="what the text was to be, where there is no reference")
    ] = "",
    config: ConfigFile = None,
    settings: Settings = None,
    prompts: PromptsFolder = None,
    home: Home = None,
    max_cost: MaxCost = None,
    as_json: Json = False,
) -> None:
    """Measure one text: the edits that a reader would still make, each as a diff, and their number."""
    from longform.errors import UsageError
    from longform.llm.models import Models
    from longform.settings import home as home_of
    from longform.settings import responses
    from tasks.revision_distance import distance

    if reference is not None and request:
        raise UsageError("--request says what a text without a reference was to be: leave out one of the two.")
    text, wanted = _read(draft), None if reference is None else _read(str(reference))
    editor, measuring = _editor(config, with_prompts(settings, prompts))
    root = home_of(home)
    with Models(responses(root), max_cost=max_cost, dataset="revision-distance") as models:
        found = distance(text, wanted, models.client(editor, stage="revise"), request=request, **measuring)
    if as_json:
        return print_json(document(found))
    show(found)


def _read(name: str) -> str:
    """The text of a file, or of standard input, without a byte order mark."""
    from longform.errors import UsageError

    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(
            f"{name} cannot be read ({error.strerror}): give a text file, or - for standard input."
        ) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is no UTF-8 at byte {error.start:,}: save it as UTF-8 text.") from None
    if not text.strip():
        raise UsageError(f"{name} holds no text: give the text to measure.")
    return text


def _editor(config: Path | None, settings: list[str]) -> tuple[Any, dict[str, Any]]:
    """The endpoint that lists the edits, and what else a configuration says of measuring; offline without one."""
    if config is None and not settings:
        from longform.llm.offline import ENDPOINT

        return ENDPOINT, {}
    from flows import configuration
    from flows.arguments import model_of
    from flows.endpoints import check_keys
    from flows.endpoints import model_of as endpoint_of
    from flows.revision_distance import prompts

    chosen = configuration.read("revision-distance", model_of("revision-distance"), config, settings)
    editor = endpoint_of("propose_edits", chosen)
    check_keys([editor.name], chosen.endpoints)
    loaded = prompts(chosen)
    measuring = {"to_reference": loaded["edit_to_reference"], "freely": loaded["edit_freely"]}
    return editor, {**measuring, "weights": chosen.weights}


def document(found: Revision) -> dict[str, Any]:
    """As one JSON value: each edit with its place in the draft beside its seven fields."""
    edits = []
    for placed in found.edits:
        place = {name: value for name, value in asdict(placed).items() if name != "edit"}
        edits.append({**placed.edit.model_dump(), **place})
    whole = {name: getattr(found, name) for name in found.__slots__ if name != "edits"}
    return {**whole, "edits": edits}


def show(found: Revision) -> None:
    from flows.console import console

    out = console()
    out.print(_head(found))
    for number, placed in enumerate(found.edits, start=1):
        out.print()
        _show_edit(out, number, placed)
    out.print()
    for line in _foot(found):
        out.print(line)


def _head(found: Revision) -> str:
    return f"distance {found.distance:,} · weighted {found.weighted:g} · edits by {found.model}"


def _foot(found: Revision) -> Iterator[str]:
    if found.not_placed:
        yield f"{found.not_placed:,} not found in the draft: counted, not applied."
    if overlapping := found.not_applied - found.not_placed:
        yield f"{overlapping:,} in the way of one before: counted, not applied."
    if found.reproduces == "exactly":
        yield "Applied to the draft, they give the reference."
    elif found.reproduces == "words":
        yield "Applied to the draft, they give the words of the reference; its white space differs."
    elif found.reproduces == "no":
        yield "Applied to the draft, they do not give the reference."
    elif not found.distance:
        yield "Nothing left to do."


def _show_edit(out: Console, number: int, placed: Placement) -> None:
    from rich.text import Text

    from flows.console import visible

    edit = placed.edit
    told = f"{edit.action_name} · {edit.revision_level} · {edit.revision_intention}"
    removed, added = _diff(edit.original_snippet.strip(), edit.revised_snippet.strip())
    _hanging(out, str(number), "bold", Text(visible(told), style="bold"))
    _hanging(out, "", "", Text(visible(edit.revision_description.strip())))
    _hanging(out, "-", REMOVED, removed)
    _hanging(out, "@", "dim", _where(placed))
    _hanging(out, "+", ADDED, added)
    if placed.why_not:
        _hanging(out, "!", "yellow", Text(f"{placed.why_not}: counted, not applied", style="yellow"))


def _hanging(out: Console, sign: str, style: str, text: Text) -> None:
    """A sign, and the text beside it, however many lines it takes; nothing where there is no text."""
    from rich.text import Text

    for number, line in enumerate(text.wrap(out, out.width - INDENT) if text.plain else ()):
        line.rstrip()
        out.print(Text.assemble((f"{'' if number else sign:>{INDENT - 2}}  ", style), line))


def _where(placed: Placement) -> Text:
    """After which words, where that is not the place of the words taken away."""
    from rich.text import Text

    from flows.console import visible

    before = placed.edit.preceding_snippet
    if before is None or (placed.at is not None and placed.at == placed.start and placed.edit.original_snippet):
        return Text("")
    folded = " ".join(before.split())
    shown = folded if len(folded) <= SHOWN_BEFORE else f"…{folded[-SHOWN_BEFORE:]}"
    return Text(visible(f"after “{shown}”" if shown else "at the beginning"))


def _diff(original: str, revised: str) -> tuple[Text, Text]:
    """The two texts, the words marked in which they differ."""
    old, new = original.split(" "), revised.split(" ")
    if not original or not revised or len(old) + len(new) > COMPARED_WORDS:
        return _words([(" ".join(old), False)], REMOVED), _words([(" ".join(new), False)], ADDED)
    left: list[tuple[str, bool]] = []
    right: list[tuple[str, bool]] = []
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        left.append((" ".join(old[a:b]), tag != "equal"))
        right.append((" ".join(new[c:d]), tag != "equal"))
    return _words(left, REMOVED), _words(right, ADDED)


def _words(pieces: list[tuple[str, bool]], style: str) -> Text:
    from rich.text import Text

    from flows.console import visible

    shown = Text(style=style)
    for text, differs in pieces:
        if text:
            shown.append(" " if shown.plain else "")
            shown.append(visible(text), style=CHANGED if differs else None)
    return shown
