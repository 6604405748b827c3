"""The command that answers one question, and shows how."""

from __future__ import annotations

import json
from contextlib import closing
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
from flows.cli.shared.asking import agree, print_plan, refuse_unwritable
from longform.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from longform.artifacts.rows import Row

app = typer.Typer()

SECTIONS = {"query": "queries", "result": "pages", "page": "", "passage": "passages", "update": "updates"}
SECTIONS |= {"review": "problems", "repair": "repairs", "answer": "answer"}
GUIDED = "assistant_guided"
SHOWN = 400  # characters of a step, before the console cuts it to its line


@app.command("answer")
def answer(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="the question, in quotes")],
    mode: Annotated[
        str,
        typer.Option(
            "--mode",
            help="guided (search; an update is kept only if the score rises), naive (search; every update is kept), "
            "plan (search once, rewrite), repair (guided, then corrected), closed (no search)",
        ),
    ] = "guided",
    index: Annotated[
        list[str] | None,
        typer.Option("--index", metavar="FILE|FOLDER", help="pages to search: .jsonl, .parquet, .md, .txt"),
    ] = None,
    search: Annotated[
        str | None, typer.Option("--search", metavar="URL", help="a SearXNG server to search the web with instead")
    ] = None,
    scorer: Annotated[
        str | None,
        typer.Option("--scorer", help="what guides: judge:ENDPOINT:pointwise, encoder:FOLDER or length"),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="ENDPOINT", help="who writes; else as configured")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="write the answer: .json with all steps, else Markdown")
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
    """Answer a question from pages of your own or the web, step by step, and show what each step brought."""
    from flows.builds import answering
    from flows.builds.console import Bars, Lines, console
    from flows.config import configuration
    from flows.registry import config_class
    from longform.engine.thread_tasks import Threads
    from longform.hints import hint
    from longform.llm.retry import Retry
    from longform.settings import home as home_of

    if mode not in answering.MODES:
        raise UsageError(f'There is no mode "{mode}"; {hint(mode, answering.MODES, "there is")}')
    asked = answering.Asked(answering.check_question(question), mode)
    given = [f"research_conditions={json.dumps(asked.conditions)}", *_settings(index, search, scorer, model)]
    given += with_prompts(settings, prompts)
    chosen = configuration.read("axioms", config_class("axioms"), config, given)
    if mode != "closed" and not {"research_pages", "research_web"} & chosen.model_fields_set:
        raise UsageError("There is nothing to search: give pages (--index) or a server (--search), or --mode closed.")
    root = home_of(home)
    refuse_unwritable(to)
    out = console(stderr=True)
    with closing(Bars(out) if out.is_terminal else Lines()) as progress:
        planned = answering.plan(asked, chosen, root, progress)
    if plan_only:
        return print_plan(planned, as_json)
    agree(planned, yes)
    with closing(Bars(out) if out.is_terminal else Lines()) as progress:
        found = answering.answer(
            asked, chosen, root, tasks=Threads(), progress=progress, max_cost=amount(max_cost),
            retry=Retry.of(retry_errors),
        )  # fmt: skip
    if to:
        _write(to, found)
    if as_json:
        return print_json(found)
    _print(console(), found, mode)
    if to:
        print(to)


def _settings(index: list[str] | None, search: str | None, scorer: str | None, model: str | None) -> list[str]:
    """The options as settings, KEY=VALUE. UsageError if both pages and a server are given."""
    if index and search:
        raise UsageError("--index and --search are two places to search: give one of them.")
    given = [f"research_pages={json.dumps(index)}"] if index else []
    given += [f'research_web={{ kind = "searxng", url = {json.dumps(search)} }}'] if search else []
    given += [f"research_guide={json.dumps(scorer)}"] if scorer else []
    return [*given, *([f"model={json.dumps(model)}"] if model else [])]


def _write(to: Path, found: Row) -> None:
    """Write the answer: as JSON with all steps if the file's name ends so, else its text and sources as Markdown."""
    from longform.files import write_bytes
    from tasks.publishing.exports import json_line

    if to.suffix in (".json", ".jsonl"):
        return write_bytes(to, json_line(found))
    lines = [f"- (Passage {number}) {title} <{url}>" for number, title, url in _sources(found)]
    text = "\n".join([f"# {found['question']}", "", found["text"], *(["", "## Sources", "", *lines] if lines else [])])
    write_bytes(to, f"{text}\n".encode())


def _sources(found: Row) -> list[tuple[int, str, str]]:
    """(number, title, address) of the passages that the answer rests on."""
    return [(each["number"], each["title"], each["url"]) for each in found["evidence"]]


def _print(out: Console, found: Row, mode: str) -> None:
    """Print how the answer was made, the answer, its sources, and whether it is less than `mode` asks for."""
    from rich.text import Text

    from flows.builds.console import visible

    if len(found["steps"]) > 1:
        out.print(_steps(found["steps"]))
        out.print()
    out.print(Text(visible(found["text"])), soft_wrap=True)
    if found["evidence"]:
        out.print()
    cited = set(found["cites"])
    for number, title, url in _sources(found):
        mark = "" if number in cited else "  not cited"
        place = Text.assemble((f"  (Passage {number})  ", "cyan"), visible(title), (f"  {visible(url)}{mark}", "dim"))
        out.print(place, soft_wrap=True)
    scored = "" if found["score"] is None else f" · score {found['score']:.4g} by {found['scorer']}"
    kept = [step for step in found["steps"] if step["kind"] == "update"]
    told = f" · {sum(step['kept'] for step in kept)} of {len(kept)} updates kept" if kept else ""
    if kept and found["condition"] == GUIDED and found["score"] is None:
        scored = " · the scorer gave no score that can be used, so that nothing could be kept"
    out.print(f"{found['condition']} · {found['model']}{told}{scored}", soft_wrap=True)
    if mode == "repair" and found["condition"] == GUIDED:
        out.print("nothing was repaired: this is the guided answer, as it was", soft_wrap=True)


def _steps(steps: list[Row]) -> RenderableType:
    """A line for each step but the draft: what it is, its score, its text, and why it was not used."""
    from rich.table import Column, Table
    from rich.text import Text

    from flows.builds.console import visible

    table = Table(
        Column(style="bold", no_wrap=True), Column(justify="right", no_wrap=True),
        Column(no_wrap=True, overflow="ellipsis", ratio=1), Column(no_wrap=True, style="dim"),
        box=None, show_header=False, pad_edge=False, expand=True,
    )  # fmt: skip
    last = ""
    for step in steps:
        if step["kind"] == "draft" and step["score"] is None:
            continue
        section = SECTIONS.get(step["kind"], step["kind"])
        style = "" if step["kept"] else "dim"
        table.add_row("" if section == last else section, _score(step), Text(visible(_text(step)), style), _note(step))
        last = section or last
    return table


def _score(step: Row) -> str:
    """The score of a step; of an update also the score before it."""
    if step["score"] is None:
        return ""
    before = f"{step['score_before']:.4g} → " if step["score_before"] is not None else ""
    return f"{before}{step['score']:.4g}"


def _text(step: Row) -> str:
    """What a step is about, on one line: a page's title and address, an update's source, else its text."""
    words: dict[str, Any] = {
        "result": f"{step['title'] or ''}  {step['url'] or step['text']}",
        "page": f"{step['title'] or ''}  {step['url'] or ''}",
        "update": f"from {step['title'] or ''}  {step['url'] or ''}",
        "draft": "the answer to begin with",
    }
    return " ".join(str(words.get(step["kind"], step["text"]))[:SHOWN].split())


def _note(step: Row) -> str:
    """Whether an update was kept, or why a step was not used."""
    if step["kept"]:
        return "kept" if step["kind"] in ("update", "repair") else ""
    return str(step["reason"] or "")
