"""The pages of Look: GET and HEAD only, nothing is written. Each answers from the files of the home."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import anyio.to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import FileResponse, RedirectResponse, Response

from flows.builds.building import gate_lines, served_lines
from flows.page.look import catalogue, runs
from flows.page.look.comparing import compared
from flows.page.look.reports import tables_of
from flows.page.look.rows import query_of, question_of, sorted_by, with_columns, without
from flows.page.look.shown import FILTERS
from flows.page.look.stages import (
    left_out_table,
    licences,
    recipe_of,
    sources_of,
    split_table,
    stage_table,
    stages_of,
)
from flows.page.look.tables import HOWS, Page, Table, exactly, page_of
from flows.page.look.tracing import traced
from flows.page.rendering import environment, render
from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from longform.errors import StoreError, UsageError
from longform.hints import hint

LEFT_OUT_ROWS = 20

READERS = 6  # pages that read at a time; others wait, without taking threads from the part Work

router = APIRouter()
_readers = anyio.CapacityLimiter(READERS)
environment().filters.update(FILTERS)

Texts = Annotated[list[str], Query()]


def page(path: str) -> Callable[[Callable[..., Response]], Callable[..., Response]]:
    """A decorator: the function answers GET and HEAD of this path, in a thread of this part's own."""

    def added(answer: Callable[..., Response]) -> Callable[..., Response]:
        @wraps(answer)
        async def answering(**asked: Any) -> Response:
            return await anyio.to_thread.run_sync(partial(answer, **asked), limiter=_readers)

        router.api_route(path, methods=["GET", "HEAD"], include_in_schema=False, response_model=None)(answering)
        return answer

    return added


def _home(request: Request) -> Path:
    home: Path = request.app.state.serving.home
    return home


def _show(request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
    return render(request, f"look/{template}.html", status=status, **{"part": "look", **values})


@page("/")
def datasets(request: Request) -> Response:
    home = _home(request)
    found = catalogue.catalogue(home)
    latest = runs.runs(home)
    return _show(
        request,
        "datasets",
        home=home,
        catalogue={name: versions for name, versions in found.items() if versions},
        unbuilt=[name for name, versions in found.items() if not versions],
        running=[run for run in latest if run.running],
        latest=latest[:5],
    )


@page("/datasets/{dataset}")
def dataset(request: Request, dataset: str) -> Response:
    home = _home(request)
    catalogue.dataset_named(home, dataset)
    found = catalogue.listed(home, dataset)
    return _show(request, "dataset", dataset=dataset, versions=found, runs=runs.runs(home, dataset)[:10])


@page("/datasets/{dataset}/{name}")
def version(request: Request, dataset: str, name: str) -> Response:
    home, found = _version(request, dataset, name)
    problems: list[str] = []
    return _show(
        request,
        "version",
        **_of(found),
        listed=catalogue.Listed(dataset, found.name, found),
        gates=gate_lines(home, found),
        served=served_lines(home, found),
        licences=_or_problem(lambda: licences(home, found), problems, []),
        published=catalogue.published_on(found),
        settings=runs.settings_of(home, found),
        problems=problems,
    )


def _or_problem(read: Callable[[], Any], problems: list[str], otherwise: Any) -> Any:
    """What `read` returns; `otherwise` if a file is damaged, which becomes one of the problems."""
    try:
        return read()
    except StoreError as error:
        problems.append(str(error))
        return otherwise


@page("/datasets/{dataset}/{name}/stages")
def stages(request: Request, dataset: str, name: str) -> Response:
    home, found = _version(request, dataset, name)
    return _show(request, "stages", **_of(found), stages=stages_of(Store(home), found))


@page("/datasets/{dataset}/{name}/stages/{stage}")
def stage(request: Request, dataset: str, name: str, stage: str) -> Response:
    home, found = _version(request, dataset, name)
    _check_stage(found, stage)
    store = Store(home)
    all_stages = stages_of(store, found)
    facts = next(each for each in all_stages.facts if each.name == stage)
    recipe = recipe_of(store, found, stage)
    return _show(
        request,
        "stage",
        **_of(found),
        facts=facts,
        recipe=recipe,
        columns=[column for column in recipe.schema if len(column) == 3] if recipe else [],
        sources=sources_of(recipe),
        read_by=[each.name for each in all_stages.facts if stage in each.inputs],
        problems=all_stages.problems,
    )


@page("/datasets/{dataset}/{name}/report")
def report(request: Request, dataset: str, name: str) -> Response:
    _, found = _version(request, dataset, name)
    problems: list[str] = []
    tables = _or_problem(lambda: tables_of(found), problems, [])
    plots = {name: catalogue.figure_title(found, name) for name in catalogue.figures(found)}
    return _show(request, "report", **_of(found), tables=tables, plots=plots, problems=problems)


@page("/datasets/{dataset}/{name}/figures/{plot}.svg")
def plot(request: Request, dataset: str, name: str, plot: str) -> Response:
    _, found = _version(request, dataset, name)
    return FileResponse(catalogue.figure_file(found, plot), media_type="image/svg+xml")


@page("/datasets/{dataset}/{name}/rows")
def first_rows(request: Request, dataset: str, name: str) -> Response:
    _, found = _version(request, dataset, name)
    config = next(iter(found.configs), "")
    split = next(iter(found.configs.get(config, {})), "")
    return RedirectResponse(f"{_of(found)['base']}/rows/{quote(config)}/{quote(split)}", 307)


@page("/datasets/{dataset}/{name}/rows/{config}/{split}")
def rows(
    request: Request,
    dataset: str,
    name: str,
    config: str,
    split: str,
    column: Texts = [],  # noqa: B006 - FastAPI copies it
    how: Texts = [],  # noqa: B006
    value: Texts = [],  # noqa: B006
    q: str = "",
    sort: str = "",
    down: bool = False,
    page: int = 1,
    show: Texts = [],  # noqa: B006
) -> Response:
    home, found = _version(request, dataset, name)
    if split not in found.configs.get(config, {}):
        known = [f"{of}/{each}" for of, splits in found.configs.items() for each in splits]
        raise UsageError(f"{dataset} {name} has no such split; {hint(f'{config}/{split}'[:80], known, 'it has')}")
    table = split_table(home, found, config, split)
    asked = {"search": q, "sort": sort, "down": down, "number": page, "shown": show}
    values = {**_of(found), "config": config, "split": split, "stage": ""}
    return _rows(request, table, values, (column, how, value), asked)


@page("/datasets/{dataset}/{name}/stages/{stage}/rows")
def stage_rows(
    request: Request,
    dataset: str,
    name: str,
    stage: str,
    column: Texts = [],  # noqa: B006
    how: Texts = [],  # noqa: B006
    value: Texts = [],  # noqa: B006
    q: str = "",
    sort: str = "",
    down: bool = False,
    page: int = 1,
    show: Texts = [],  # noqa: B006
) -> Response:
    home, found = _version(request, dataset, name)
    _check_stage(found, stage)
    table = stage_table(Store(home), found, stage)
    asked = {"search": q, "sort": sort, "down": down, "number": page, "shown": show}
    values = {**_of(found), "config": "", "split": "", "stage": stage}
    return _rows(request, table, values, (column, how, value), asked)


def _rows(
    request: Request,
    table: Table,
    values: dict[str, Any],
    filters: tuple[list[str], list[str], list[str]],
    asked: dict[str, Any],
) -> Response:
    """A page of a table's rows. A question that does not fit the table is said beside the form."""
    problem, question, found = "", question_of([], [], []), Page([], 1, 1, 0)
    try:
        question = question_of(*filters, **asked)
        found = page_of(table, with_columns(table, question))
    except UsageError as error:
        problem = str(error)
    columns = {column.name: column for column in table.columns}
    shown = [columns[name] for name in with_columns(table, question).columns if name in columns]
    return _show(
        request,
        "rows",
        status=400 if problem else 200,
        **values,
        table=table,
        asked=question,
        page=found,
        shown=shown,
        problem=problem,
        hows=HOWS,
        query=query_of,
        sorted_by=sorted_by,
        without=without,
    )


@page("/datasets/{dataset}/{name}/row")
def row(request: Request, dataset: str, name: str, id: str = "") -> Response:
    home, found = _version(request, dataset, name)
    if not id:
        raise UsageError(f"This address names no row: take one of the rows of {dataset} {name}.")
    trace = traced(Store(home), found, id[:500])
    return _show(request, "row", **_of(found), trace=trace, key=str(trace.row[found.key(trace.config)]))


@page("/datasets/{dataset}/{name}/left-out")
def left_out(
    request: Request,
    dataset: str,
    name: str,
    stage: str = "",
    kind: str = "",
    reason: str = "",
    page: int = 1,
) -> Response:
    home, found = _version(request, dataset, name)
    if stage:
        _check_stage(found, stage)
    store = Store(home)
    all_stages = stages_of(store, found)
    reasons = [
        {"stage": facts.name, **each} for facts in all_stages.facts if facts.known for each in facts.known["reasons"]
    ]
    reasons.sort(key=lambda each: (each["kind"] != "defect", -each["rows"]))
    chosen = [
        each
        for each in reasons
        if stage in ("", each["stage"]) and kind in ("", each["kind"]) and reason in ("", each["reason"])
    ]
    number = sum(each["rows"] for each in chosen)
    pages = max(1, -(-number // LEFT_OUT_ROWS))
    at = min(max(1, page), pages)
    problems = list(all_stages.problems)
    rows: list[dict[str, Any]] = []
    if chosen and not problems:
        table = left_out_table(store, found, list(dict.fromkeys(each["stage"] for each in chosen)))
        wanted = {name: text for name, text in (("kind", kind), ("reason", reason)) if text}
        found_rows = _or_problem(lambda: exactly(table, wanted, LEFT_OUT_ROWS, (at - 1) * LEFT_OUT_ROWS), problems, [])
        rows = [{**each, "stage": Path(each["filename"]).parents[2].name} for each in found_rows]
    picked = {"stage": stage, "kind": kind, "reason": reason}
    return _show(
        request,
        "left_out",
        **_of(found),
        reasons=reasons,
        rows=rows,
        number=number,
        at=at,
        pages=pages,
        problems=problems,
        picked=picked,
        query=lambda **changes: "?" + urlencode({k: v for k, v in {**picked, **changes}.items() if v}),
    )


@page("/compare")
def compare(request: Request, a: str = "", b: str = "") -> Response:
    home = _home(request)
    addresses = [
        f"{dataset}@{each.name}"
        for dataset, versions in catalogue.catalogue(home).items()
        for each in versions
        if each.version
    ]
    found, before, after = None, None, None
    if a and b:
        before, after = (_addressed(home, address) for address in (a, b))
        found = compared(Store(home), before, after)
    return _show(request, "compare", a=a, b=b, addresses=addresses, found=found, before=before, after=after)


def _addressed(home: Path, address: str) -> Version:
    dataset, _, name = address.partition("@")
    return catalogue.version_named(home, dataset, name or "latest")


@page("/runs")
def all_runs(request: Request) -> Response:
    found = runs.runs(_home(request))
    return _show(request, "runs", runs=found, prefect=runs.prefect_page(), most=runs.MOST_SHOWN)


@page("/runs/{dataset}/{name}")
def run(request: Request, dataset: str, name: str) -> Response:
    home = _home(request)
    catalogue.dataset_named(home, dataset)
    found = runs.run_named(home, dataset, name)
    made = runs.progress(home, found) if found.running else []
    there = found.record.version in {each.name for each in catalogue.listed(home, dataset)}
    return _show(request, "run", run=found, progress=made, prefect=runs.prefect_page(), is_there=there)


def _version(request: Request, dataset: str, name: str) -> tuple[Path, Version]:
    """(the home, the version that an address names)."""
    home = _home(request)
    return home, catalogue.version_named(home, dataset, name)


def _of(version: Version) -> dict[str, Any]:
    """What every page of a version shows."""
    return {"dataset": version.dataset, "version": version, "base": f"/datasets/{version.dataset}/{version.name}"}


def _check_stage(version: Version, stage: str) -> None:
    if stage not in version.stages:
        near = hint(stage[:80], version.stages, "it has")
        raise UsageError(f"{version.dataset} {version.name} has no such stage; {near}")
