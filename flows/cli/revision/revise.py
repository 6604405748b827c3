"""The command that measures one text: it shows the edits that the text still needs as a coloured diff, and their
number.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, fields
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.shared.arguments import (
    ConfigFile,
    Home,
    Json,
    MaxCost,
    PlanOnly,
    PromptsFolder,
    RetryErrors,
    Settings,
    Yes,
    amount,
    print_json,
    with_prompts,
)
from longform.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from tasks.revision_distance.drafts.measure import Revision
    from tasks.revision_distance.drafts.placing import Placement

app = typer.Typer()

DATASET = "revision-distance"
MAX_BYTES = 1_000_000  # 160,000 words, a novel
MAX_CONTEXT_CHARACTERS = 60
CONTEXT_CHARACTERS = 400
MIN_UNIQUE_CHARACTERS = 12
INDENT = 5
MAX_COMPARISONS = 500_000
REMOVED, ADDED, CHANGED = "red", "green", "bold underline"
GIVE_TEXT = "give the text to measure"
GIVE_REFERENCE = "give the text it should become, or leave out --reference"
NOTHING_LEFT = {
    None: "The editor finds nothing to change.",
    "exactly": "The draft is the reference.",
    "words": "The draft has the words of the reference; only white space differs.",
    "no": "The draft is not the reference, but the editor finds nothing to change.",
}
OUTCOMES = {
    "exactly": "give the reference.",
    "words": "give the words of the reference; its white space differs.",
    "no": "do not give the reference.",
}
_CHARACTER = "\u3000-\u30ff\u3400-\u9fff\uff00-\uffef"
_SIGN = r"!\"#$%&()*+,./:;<=>?@\[\\\]^`{|}~«»“”„…–—।؟،؛۔"
_WORD = re.compile(rf"(?:[{_CHARACTER}]|[{_SIGN}]|[^\s{_CHARACTER}{_SIGN}]+)\s*|\s+")


@app.command("revise")
def revise(
    draft: Annotated[
        str | None, typer.Argument(metavar="[DRAFT]", help="the text to measure: a file, or - for standard input")
    ] = None,
    reference: Annotated[
        Path | None, typer.Option("--reference", metavar="FILE", help="the text it should become; else one of its own")
    ] = None,
    request: Annotated[
        str, typer.Option("--request", metavar="TEXT", help="what the text was to be, where there is no reference")
    ] = "",
    self_test: Annotated[
        str | None,
        typer.Option(
            "--self-test", metavar="ENDPOINT", help="instead: is this model fit to list edits? Exit code 0 or 1"
        ),
    ] = None,
    yes: Yes = False,
    plan_only: PlanOnly = False,
    config: ConfigFile = None,
    settings: Settings = None,
    prompts: PromptsFolder = None,
    home: Home = None,
    max_cost: MaxCost = None,
    retry_errors: RetryErrors = False,
    as_json: Json = False,
) -> None:
    """Measure one text: the edits that a reader would still make, each as a diff, and their number. Or test an editor.

    The options --yes and --plan are those of a self-test, which asks for several lists of edits.
    """
    from longform.llm.models import Models
    from longform.llm.price import caps_of
    from longform.llm.retry import Retry
    from longform.settings import budget, responses
    from longform.settings import home as home_of
    from tasks.revision_distance import distance
    from tasks.revision_distance.offline import RULES

    if self_test is not None:
        if draft is not None or reference is not None or request:
            raise UsageError("--self-test brings its own texts: leave out DRAFT, --reference and --request.")
        return _self_test(
            self_test, config, with_prompts(settings, prompts), home_of(home),
            yes=yes, plan_only=plan_only, max_cost=amount(max_cost), retry_errors=retry_errors, as_json=as_json,
        )  # fmt: skip
    if draft is None:
        raise UsageError(f"No text is named: {GIVE_TEXT}, as a file or - for standard input.")
    if yes or plan_only:
        raise UsageError("--yes and --plan are options of --self-test: one text is one call, see --max-cost.")
    if reference is not None and request:
        raise UsageError("--request says what a text without a reference was to be: leave out one of the two.")
    if draft == "-" == str(reference):
        raise UsageError("Standard input is one text: name a file for the draft or for --reference.")
    text = _read(draft, GIVE_TEXT, may_be_empty=reference is not None or bool(request))
    reference_text = None if reference is None else _read(str(reference), GIVE_REFERENCE)
    editor, editor_options, of_dataset = _editor(config, with_prompts(settings, prompts))
    own: dict[str, Any] = {"run": f"revise-{time.time_ns()}-{os.getpid()}", "dataset": DATASET, "offline": RULES}
    own |= {"home": home_of(home), "caps": caps_of(DATASET, of_dataset, budget()), "retry": Retry.of(retry_errors)}
    with Models(responses(home_of(home)), max_cost=amount(max_cost), **own) as models:
        found = distance(text, reference_text, models.client(editor, stage="revise"), request=request, **editor_options)
    if as_json:
        return print_json(document(found))
    show(found, text)


def _self_test(endpoint: str, config: Path | None, settings: list[str], home: Path, **options: Any) -> None:
    """Test an endpoint by the configuration; `options`: as of `self_test`."""
    from flows.cli.revision.self_test import self_test
    from flows.config import configuration
    from flows.measuring.measuring import MeasureConfig

    self_test(endpoint, configuration.read(DATASET, MeasureConfig, config, settings), home, **options)


def _read(name: str, next_step: str, *, may_be_empty: bool = False) -> str:
    """The text of the file `name`, or of standard input for `-`, without a byte order mark. UsageError if it cannot be
    read, has more than MAX_BYTES bytes, is no UTF-8 text, has a zero byte, or is only white space, unless it
    `may_be_empty`. `next_step`: the advice that ends the messages.
    """

    subject = "Standard input" if name == "-" else name
    raw = _bytes(name, next_step)
    if len(raw) > MAX_BYTES:
        raise UsageError(f"{subject} has more than {MAX_BYTES // 1_000_000} MB, which is no one text: {next_step}.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{subject} is no UTF-8 at byte {error.start:,}: save it as UTF-8 text.") from None
    if (at := raw.find(0)) >= 0:
        raise UsageError(f"{subject} is no text, it has a zero at byte {at:,}: save it as UTF-8 text.")
    if not text.strip() and not may_be_empty:
        raise UsageError(f"{subject} holds no text: {next_step}.")
    return text


def _bytes(name: str, next_step: str) -> bytes:
    """The first MAX_BYTES + 1 bytes of the file `name`, or of standard input for `-`; the one more shows that it is too
    long. UsageError, with the advice `next_step`, if it cannot be read.
    """

    if name == "-":
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        with Path(name).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"{name} cannot be read ({error.strerror}): {next_step}, as a file or - for standard input."
        ) from None


def _editor(config: Path | None, settings: list[str]) -> tuple[Any, dict[str, Any], float | None]:
    """(the endpoint of the model that lists the edits, keyword arguments for `distance`: prompts and weights, the
    budget of the dataset), by the configuration file and the texts `key=value` of --set; (the offline model, {}, None)
    if there are neither. UsageError for a wrong setting.
    """
    if config is None and not settings:
        from longform.llm.offline import ENDPOINT

        return ENDPOINT, {}, None
    from flows.config import configuration
    from flows.config.endpoints import endpoint_of_stage, sampling
    from flows.registry import config_class
    from flows.revision_distance import prompts

    chosen = configuration.read(DATASET, config_class(DATASET), config, settings)
    editor = sampling(endpoint_of_stage("propose_edits", chosen), chosen.editor_parameters)
    loaded = prompts(chosen)
    editor_options = {"to_reference": loaded["edit_to_reference"], "freely": loaded["edit_freely"]}
    return editor, {**editor_options, "weights": chosen.weights}, chosen.budget


def document(found: Revision) -> dict[str, Any]:
    """The measurement as one JSON value: the fields of Revision, and its numbers. Each of its `edits` is a dict of the
    edit's own fields and those of its Placement: `start`, `end` and `at` (offsets in the draft, None without a place),
    `placed` (how its snippets were found), and `why_not` (why it was not applied; None if it was).
    """
    from tasks.revision_distance.drafts.measure import numbers_of

    edits = [
        placed.edit.model_dump() | {name: value for name, value in asdict(placed).items() if name != "edit"}
        for placed in found.edits
    ]
    left = ("edits", "numbers", "lost_edits")
    summary = {field.name: getattr(found, field.name) for field in fields(found) if field.name not in left}
    return {**summary, **numbers_of(found), "edits": edits}


def show(found: Revision, draft: str) -> None:
    """Print the measurement: its numbers, each edit as a diff, and whether the edits turn the
    draft into the reference.
    """
    from rich.text import Text

    from flows.builds.console import console, on_one_line

    out = console()
    out.print(on_one_line(f"distance {found.distance:,} · weighted {found.weighted:g} · edits by {found.model}"))
    out.print(_numbers(found), soft_wrap=True)
    out.print(on_one_line(f"signature {found.signature}"), soft_wrap=True)
    for number, placed in enumerate(found.edits, start=1):
        out.print(Text("\n").join([Text(), *_edit_lines(out, number, placed, draft)]), soft_wrap=True)
    out.print()
    for line in _foot(found):
        out.print(line)


def _numbers(found: Revision) -> str:
    """The corrected distance and what it is made of, as one line."""
    numbers = found.numbers
    if numbers.corrected is None or numbers.normalised is None:
        return "corrected: none, the texts are too long to be aligned"
    said = [f"corrected {numbers.corrected:,}", f"{numbers.normalised:.1f} per 100 words"]
    if numbers.residual is not None:
        said += [f"{numbers.residual:,} left to the reference", f"coverage {numbers.coverage:.0%}"]
        said += [f"TER {numbers.ter:.1f}" if numbers.ter is not None else f"no TER: {numbers.ter_left_out}"]
    return " · ".join(said)


def _foot(found: Revision) -> Iterator[str]:
    """The last lines, each only where it applies: the number of edits that were not found in the draft, and of those
    in the way of an earlier one (both are counted, not applied); if there is a reference, whether the applied edits
    give it; without any edit, that nothing is left to change, and whether the draft is the reference.
    """
    if found.not_placed:
        yield f"{found.not_placed:,} not found in the draft: counted, not applied."
    numbers = found.numbers
    without = numbers.no_ops + numbers.duplicates
    if overlapping := found.not_applied - found.not_placed - without:
        yield f"{overlapping:,} in the way of one before: counted, not applied."
    if without:
        yield f"{numbers.no_ops:,} without effect, {numbers.duplicates:,} twice: not in the corrected distance."
    if found.lost_edits:
        yield f"{found.lost_edits:,} more could not be read."
    if numbers.wholesale:
        yield "Together they replace most of the draft: the corrected distance counts them as an alignment does."
    if numbers.silent:
        yield "No edit has an effect, although the texts differ: the distance says nothing here."
    if not found.distance:
        yield NOTHING_LEFT[found.reproduces]
    elif found.reproduces is not None:
        yield f"Applied to the draft, they {OUTCOMES[found.reproduces]}"


def _edit_lines(out: Console, number: int, placed: Placement, draft: str) -> Iterator[Text]:
    """The lines of one edit: its number, kind and description, the removed text, the place in the draft, the added
    text and, if it was not applied, why. Empty texts have no line.
    """
    from rich.text import Text

    from flows.builds.console import on_one_line, visible

    edit = placed.edit
    title = f"{edit.action_name} · {edit.revision_level} · {edit.revision_intention}"
    removed, added = _diff(edit.original_snippet.strip(), edit.revised_snippet.strip())
    yield from _hanging(out, str(number), "bold", Text(on_one_line(title), style="bold"))
    yield from _hanging(out, "", "", Text(visible(edit.revision_description.strip())))
    yield from _hanging(out, "-", REMOVED, removed)
    yield from _hanging(out, "@", "dim", _where(placed, draft))
    yield from _hanging(out, "+", ADDED, added)
    if placed.why_not:
        yield from _hanging(out, "!", "yellow", Text(f"{placed.why_not}: counted, not applied", style="yellow"))


def _hanging(out: Console, sign: str, style: str, text: Text) -> Iterator[Text]:
    """The text wrapped to the console's width as a hanging indent, with `sign` in `style` before its first line; no
    lines if the text is empty.
    """
    from rich.text import Text

    for number, line in enumerate(text.wrap(out, out.width - INDENT) if text.plain else ()):
        line.rstrip()
        yield Text.assemble((f"{'' if number else sign:>{INDENT - 2}}  ", style), line)


def _where(placed: Placement, draft: str) -> Text:
    """The words of the draft before the edit, as `after “…”` or `at the beginning`. For an edit that was not found in
    the draft, the words that it names itself. Empty if it names none, or if the removed text starts at this place and
    has at least MIN_UNIQUE_CHARACTERS characters, so that it shows the place by itself.
    """
    from rich.text import Text

    from flows.builds.console import visible

    if placed.at is None:
        before = placed.edit.preceding_snippet
    elif placed.at == placed.start and len(placed.edit.original_snippet.strip()) >= MIN_UNIQUE_CHARACTERS:
        before = None
    else:
        before = draft[max(0, placed.at - CONTEXT_CHARACTERS) : placed.at]
    if before is None:
        return Text("")
    context = _last_words(before)
    return Text(visible(f"after “{context}”" if context else "at the beginning"))


def _last_words(text: str) -> str:
    """The end of a text on one line, single blanks for its white space: `…` and the last MAX_CONTEXT_CHARACTERS
    characters without their first word, which may be cut (a single word stays). The whole text if it is no longer.
    """
    folded = " ".join(text.split())
    if len(folded) <= MAX_CONTEXT_CHARACTERS:
        return folded
    end = folded[-MAX_CONTEXT_CHARACTERS:]
    return f"…{end.partition(' ')[2] or end}"


def _diff(original: str, revised: str) -> tuple[Text, Text]:
    """(the removed text, the added text) in their colours, with the words that differ highlighted. Without highlights
    if one of them is empty, or if there are more than MAX_COMPARISONS pairs of equal words to compare.
    """
    old, new = _WORD.findall(original), _WORD.findall(revised)
    old_words, new_words = [word.strip() for word in old], [word.strip() for word in new]
    if not old or not new or _comparisons(old_words, new_words) > MAX_COMPARISONS:
        return _words([(original, False)], REMOVED), _words([(revised, False)], ADDED)
    left: list[tuple[str, bool]] = []
    right: list[tuple[str, bool]] = []
    for tag, a, b, c, d in SequenceMatcher(None, old_words, new_words, autojunk=False).get_opcodes():
        left.append(("".join(old[a:b]), tag != "equal"))
        right.append(("".join(new[c:d]), tag != "equal"))
    return _words(left, REMOVED), _words(right, ADDED)


def _comparisons(old: list[str], new: list[str]) -> int:
    """The number of pairs of equal words, one of each list; the time of a word diff grows with it."""
    counts = Counter(new)
    return sum(number * counts[word] for word, number in Counter(old).items())


def _words(pieces: list[tuple[str, bool]], style: str) -> Text:
    """The pieces joined into one text in `style`. A piece is (text, whether it differs from the other side); one that
    differs is highlighted, without the white space at its end. Control characters are escaped.
    """
    from rich.text import Text

    from flows.builds.console import visible

    marked = Text(style=style)
    for text, differs in pieces:
        words = text.rstrip()
        marked.append(visible(words), style=CHANGED if differs else None)
        marked.append(visible(text[len(words) :]))
    return marked
