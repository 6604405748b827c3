"""The command line: longform."""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Rebuild datasets for long-form question answering and writing from raw public sources.",
)

Dataset = Annotated[str, typer.Argument(metavar="DATASET", help="axioms")]
Address = Annotated[str, typer.Argument(metavar="DATASET[@VERSION]", help="without a version: the latest")]
Home = Annotated[
    Path | None, typer.Option("--home", metavar="DIR", help="where everything is kept; else LONGFORM_HOME, else ./data")
]
Json = Annotated[bool, typer.Option("--json", help="print one JSON document")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE.toml", help="settings; see `longform config`")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="one setting; wins over the file")
]
VersionName = Annotated[str | None, typer.Option("--version", metavar="NAME", help="else today's date")]
Limit = Annotated[
    int | None, typer.Option("--limit", metavar="N", min=1, help="at most N questions of each site: a pilot")
]
Until = Annotated[str | None, typer.Option("--until", metavar="STAGE", help="stop after this stage, publish nothing")]
Force = Annotated[
    str | None, typer.Option("--force", metavar="STAGE", help="make this stage again even if it is there")
]

MaxCost = Annotated[float | None, typer.Option("--max-cost", metavar="USD", help="stop before more than this is spent")]
RetryErrors = Annotated[
    bool, typer.Option("--retry-errors", help="ask again what a model could not answer (rejected rows `model: …`)")
]
PromptsFolder = Annotated[
    str | None, typer.Option("--prompts", metavar="DIR", help="folder whose files take the place of those in prompts/")
]


@app.command("config")
def show_config(dataset: Dataset) -> None:
    """Print the whole default configuration, commented, as TOML."""
    from flows.configuration import toml

    print(toml(dataset, _model(dataset)), end="")


@app.command()
def build(
    dataset: Dataset,
    config: ConfigFile = None,
    settings: Settings = None,
    version: VersionName = None,
    home: Home = None,
    limit: Limit = None,
    until: Until = None,
    force: Force = None,
    prompts: PromptsFolder = None,
    max_cost: MaxCost = None,
    retry_errors: RetryErrors = False,
    as_json: Json = False,
) -> None:
    """Build a dataset and publish it as a version; what is there already is reused."""
    from flows import building

    started = time.monotonic()
    settings = _with_prompts(settings, prompts)
    chosen, options = _options(dataset, config, settings, version, home, limit, until, force)
    options = replace(options, max_cost=_amount(max_cost), retry_errors=retry_errors)
    planned, known = building.plan(dataset, chosen, options)
    if known and planned.nothing_to_do:
        return _nothing_to_do(known, time.monotonic() - started, as_json)
    _check_endpoints(chosen, options)
    published = _run(dataset, chosen, options)
    if published is None:
        return _stopped(dataset, until, as_json)
    from longform.versions import find

    _built(find(options.home, f"{dataset}@{Path(published).name}"), time.monotonic() - started, as_json)


@app.command()
def plan(
    dataset: Dataset,
    config: ConfigFile = None,
    settings: Settings = None,
    version: VersionName = None,
    home: Home = None,
    limit: Limit = None,
    until: Until = None,
    force: Force = None,
    prompts: PromptsFolder = None,
    as_json: Json = False,
) -> None:
    """Say what a build would do and why; sends and writes nothing."""
    from flows import building
    from flows.console import console, plan_foot, plan_table

    settings = _with_prompts(settings, prompts)
    chosen, options = _options(dataset, config, settings, version, home, limit, until, force)
    planned, known = building.plan(dataset, chosen, options, priced=True)
    if as_json:
        return _print_json(
            {
                "dataset": dataset,
                "nothing_to_do": bool(known) and planned.nothing_to_do,
                "version": known.name if known else None,
                "stages": [stage.as_dict() for stage in planned.stages],
            }
        )
    out = console()
    out.print(f"{dataset}, against endpoint {chosen.model}\n")
    out.print(plan_table(planned.stages))
    for number, line in enumerate(plan_foot(planned.stages)):
        out.print(f"{'' if number else chr(10)}{line}", soft_wrap=True)
    if known and planned.nothing_to_do:
        out.print(f"\nNothing to do: {dataset} {known.name} has this recipe.")
    elif planned.nothing_to_do and not until:
        out.print("\nEvery stage is there; only publishing is left.")


@app.command("prompts")
def list_prompts(
    dataset: Annotated[str | None, typer.Argument(metavar="[DATASET]", help="else of every dataset")] = None,
    render: Annotated[
        str | None, typer.Option("--render", metavar="NAME", help="print its messages, with made-up texts in them")
    ] = None,
    form: Annotated[
        str | None, typer.Option("--form", metavar="tags|json", help="with --render: how the reply is asked for")
    ] = None,
    prompts: PromptsFolder = None,
    as_json: Json = False,
) -> None:
    """List the prompts: what goes into each, what is read from its reply, its hash; or render one."""
    from flows.console import console, table
    from flows.prompts import described, rendered
    from longform.errors import UsageError

    if form and not render:
        raise UsageError("--form says how to render a prompt: name it with --render.")
    if render is not None:
        messages = rendered(render, form, prompts)
        if as_json:
            return _print_json([{"role": role, "content": content} for role, content in messages])
        return print("\n\n".join(f"# {role}\n{content}" for role, content in messages))
    found = described(_known(dataset) if dataset else None, prompts)
    if as_json:
        return _print_json(found)
    columns = {"prompt": "", "inputs": "", "reply": "", "asked for as": "", "hash": ""}
    rows = [
        (each["name"], ", ".join(each["inputs"]), each["reply"], " or ".join(each["forms"]), each["hash"][:12])
        for each in found
    ]
    console().print(table(columns, rows))


@app.command("ls")
def list_versions(
    dataset: Annotated[str | None, typer.Argument(metavar="[DATASET]")] = None, home: Home = None, as_json: Json = False
) -> None:
    """List the published versions."""
    from flows.console import console, table
    from longform import versions
    from longform.settings import home as home_of

    root = home_of(home)
    names = [_known(dataset)] if dataset else versions.datasets(root)
    found = [version for name in names for version in versions.versions(root, name)]
    rows = [_summary(version) for version in found]
    if as_json:
        return _print_json(rows)
    if not rows:
        print(f"No version in {root}. Build one: longform build axioms")
        return None
    columns = {"dataset": "", "version": "", "rows": "right", "splits": "", "": "", "recipe": ""}
    cells = [
        (
            r["dataset"],
            r["version"],
            r["rows"],
            _splits(r["splits"]),
            "offline" if r["offline"] else "",
            r["recipe"][:12],
        )
        for r in rows
    ]
    console().print(table(columns, cells))


@app.command()
def show(address: Address, home: Home = None, as_json: Json = False) -> None:
    """Show a version's stages: fingerprints, rows in and out, filtered, rejected by reason, duration."""
    from flows.console import console, table
    from flows.inspection import describe

    store, version = _version(address, home)
    stages = describe(store, version)
    if as_json:
        return _print_json({**_summary(version), "folder": str(version.folder), "stages": stages})
    out = console()
    mark = "   holds rows of the offline model" if version.manifest["offline"] else ""
    out.print(f"{version.dataset} {version.name}   recipe {version.recipe}{mark}\n{version.folder}\n")
    columns = {
        "stage": "",
        "fingerprint": "",
        "in": "right",
        "out": "right",
        "filtered": "right",
        "rejected": "right",
        "s": "right",
    }
    names = ("stage", "fingerprint", "rows_in", "rows_out", "filtered", "rejected", "seconds")
    rows = [["–" if stage[name] is None else stage[name] for name in names] for stage in stages]
    out.print(table(columns, [[row[0], row[1][:12], *row[2:]] for row in rows]))
    for stage in stages:
        for reason in stage["reasons"]:
            out.print(f"  {stage['stage']}: {reason['rows']:,} {reason['kind']}: {reason['reason']}")
        for name, number in stage["counts"].items():
            out.print(f"  {stage['stage']}: {number:,} {name}")


@app.command()
def rejects(
    address: Address,
    stage: Annotated[str | None, typer.Option("--stage", metavar="S", help="of this stage only")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="rows to print")] = 20,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Print the rows a build left out, each with its reason and, for a defect, its raw text."""
    from flows.console import console, table
    from flows.inspection import rejected_rows

    store, version = _version(address, home)
    rows = rejected_rows(store, version, stage)
    if as_json:
        for row in rows:
            _print_json(row, indent=None)
        return
    shown: list[tuple[str, ...]] = []
    more = 0
    for row in rows:
        if len(shown) < limit:
            shown.append((row["stage"], row["kind"], row["reason"], row["key"], _short(row["detail"] or row["raw"])))
        else:
            more += 1
    console().print(table({"stage": "", "kind": "", "reason": "", "row": "", "detail or raw text": ""}, shown))
    if more:
        print(f"… and {more:,} more: --limit N shows more, --json all of them")


@app.command()
def trace(
    address: Address,
    row_id: Annotated[str, typer.Argument(metavar="ROW_ID", help="a pair_id, or the beginning of one")],
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show how a published row came to be: its posts, prompts, model calls, and the stages that made it."""
    from flows.console import console
    from flows.inspection import trace_lines
    from tasks.axioms.trace import trace_pair

    store, version = _version(address, home)
    found = trace_pair(store, version, row_id)
    if as_json:
        return _print_json(found)
    out = console()
    for line in trace_lines(found):
        out.print(line, soft_wrap=True)


@app.command()
def costs(address: Address, home: Home = None, as_json: Json = False) -> None:
    """Show what was paid for a dataset, or under a version's recipes: calls, tokens and USD by stage and model."""
    from flows.console import console
    from flows.costs import costs_lines, costs_table, paid
    from longform.settings import home as home_of

    _known(address.partition("@")[0])
    found = paid(home_of(home), address)
    if as_json:
        return _print_json(found)
    out = console()
    if found["stages"]:
        out.print(costs_table(found))
    for line in costs_lines(found):
        out.print(line, soft_wrap=True)


@app.command()
def diff(
    first: Annotated[str, typer.Argument(metavar="DATASET@A")],
    second: Annotated[str, typer.Argument(metavar="DATASET@B")],
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Compare two versions: recipes, row counts, rows added, removed and changed."""
    from flows.console import console, table
    from flows.inspection import compare

    store, before = _version(first, home)
    _, after = _version(second, home)
    found = compare(store, before, after)
    if as_json:
        return _print_json(found)
    out = console()
    out.print(f"{first} -> {second}: {'the same recipe' if found['same_recipe'] else 'another recipe'}")
    for change in found["stages"]:
        out.print(f"  {change['stage']}: {change['why']}")
    rows = [(s["split"], s["before"], s["after"], s["added"], s["removed"], s["changed"]) for s in found["splits"]]
    columns = {
        "split": "",
        "rows before": "right",
        "after": "right",
        "added": "right",
        "removed": "right",
        "changed": "right",
    }
    out.print(table(columns, rows))


@app.command()
def verify(
    address: Annotated[str | None, typer.Argument(metavar="[DATASET[@VERSION]]", help="else every version")] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Check files against their checksums, schemas and the stages they were built from, and conservation."""
    from flows.inspection import check
    from longform import versions
    from longform.settings import home as home_of
    from longform.store import Store

    root = home_of(home)
    store = Store(root)
    chosen = (
        [_version(address, home)[1]]
        if address
        else [version for name in versions.datasets(root) for version in versions.versions(root, name)]
    )
    names = [chosen[0].dataset] if address else versions.datasets(root)
    broken = [] if address else [(name, path) for name in names for path in versions.wrecks(root, name)]
    found = [{"dataset": v.dataset, "version": v.name, "problems": list(check(store, v))} for v in chosen]
    found += [
        {"dataset": name, "version": path.name, "problems": [f"{path} has no readable manifest.json"]}
        for name, path in broken
    ]
    if as_json:
        _print_json(found)
    else:
        for entry in found:
            print(f"{entry['dataset']} {entry['version']}: {'sound' if not entry['problems'] else 'NOT sound'}")
            for problem in entry["problems"]:
                print(f"  {problem}")
            if entry["problems"]:
                print("  a stage: build again with --force STAGE; a published file: withdraw this version, build again")
        if not found:
            print(f"No version in {root}.")
    if any(entry["problems"] for entry in found):
        raise typer.Exit(1)


@app.command()
def withdraw(address: Annotated[str, typer.Argument(metavar="DATASET@VERSION")], home: Home = None) -> None:
    """Remove a published version; its stages stay until `longform gc`."""
    from longform import versions
    from longform.errors import UsageError
    from longform.settings import home as home_of
    from longform.store import Store

    if "@" not in address or address.endswith(("@", "@latest")):
        raise UsageError(f"Name the version to withdraw, as {address.split('@')[0]}@VERSION; `longform ls` lists them.")
    dataset, _, name = address.partition("@")
    root = home_of(home)
    broken = {path.name: path for path in versions.wrecks(root, _known(dataset))}
    folder = broken[name] if name in broken else versions.find(root, address).folder
    with Store(root).lock(dataset):
        versions.withdraw(folder)
    print(f"Withdrew {dataset} {name}. `longform gc` frees what only it needed.")


@app.command()
def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would go")] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Delete parts and leftovers that no published version needs; model responses stay."""
    from contextlib import ExitStack

    from flows.building import DATASETS
    from longform import versions
    from longform.settings import home as home_of
    from longform.store import Store, remove

    store = Store(home_of(home))
    with ExitStack() as locks:
        if not dry_run and store.home.exists():
            for dataset in DATASETS:
                locks.enter_context(store.lock(dataset))
        found = versions.garbage(store)
        if not dry_run:
            for path, _ in found:
                remove(path)
    size = sum(size for _, size in found)
    if as_json:
        return _print_json({"dry_run": dry_run, "paths": [str(path) for path, _ in found], "bytes": size})
    if dry_run:
        for path, _ in found:
            print(path)
    print(f"{'Would free' if dry_run else 'Freed'} {size / 1e6:,.1f} MB in {len(found):,} files and folders.")


@app.command()
def standin(
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one")] = 8090,
    host: Annotated[str, typer.Option("--host", help="address to listen on")] = "127.0.0.1",
    latency: Annotated[float, typer.Option("--latency", metavar="SECONDS", min=0, help="of every answer")] = 0.0,
    rpm: Annotated[float | None, typer.Option("--rpm", metavar="N", min=1, help="requests allowed a minute")] = None,
    tpm: Annotated[float | None, typer.Option("--tpm", metavar="N", min=1, help="tokens allowed a minute")] = None,
    burst: Annotated[
        float | None, typer.Option("--burst", metavar="N", min=1, help="requests allowed at once; else --rpm")
    ] = None,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="send no x-ratelimit headers")] = False,
    fault: Annotated[
        list[str] | None, typer.Option("--fault", metavar="NAME=SHARE", help="so many of the requests; see --faults")
    ] = None,
    faults: Annotated[bool, typer.Option("--faults", help="list what can go wrong, and leave")] = False,
    script: Annotated[
        Path | None, typer.Option("--script", metavar="FILE", help="a JSON line for each request")
    ] = None,
    batch_seconds: Annotated[float, typer.Option("--batch-seconds", metavar="S", min=0, help="a batch takes")] = 1.0,
    batch_fault: Annotated[
        list[str] | None, typer.Option("--batch-fault", metavar="expired|failed|cancelled=SHARE", help="of the batches")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="the only model served; else any")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="the only key accepted; else any")] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="of the draws of faults")] = 0,
    say: Annotated[str | None, typer.Option("--say", metavar="TEXT", help="answer this, instead of by rules")] = None,
) -> None:
    """Serve the offline model as an OpenAI-compatible API that fails as it is told to: to rehearse a build."""
    from longform.llm.standin import Settings, run
    from longform.llm.standin_faults import FAULTS, read_script, shares_of

    if faults:
        return print("\n".join(f"{name:<12} {what}" for name, what in FAULTS.items()))
    chosen = Settings(
        latency_seconds=latency,
        rpm=rpm,
        tpm=tpm,
        burst=burst,
        headers=not no_headers,
        faults=shares_of(fault or []),
        script=read_script(script) if script else (),
        batch_seconds=batch_seconds,
        batch_faults=shares_of(batch_fault or []),
        model=model,
        key=key,
        seed=seed,
        say=say,
    )
    run(chosen, host, port)


responses = typer.Typer(no_args_is_help=True, help="Export, import and count the stored model responses.")
app.add_typer(responses, name="responses")


@responses.command("export")
def export_responses(
    words: Annotated[list[str], typer.Argument(metavar="[DATASET[@VERSION]] FILE", help="without a dataset: all")],
    home: Home = None,
) -> None:
    """Write responses to a Parquet file: all, or those a version used, which rebuild it without a call."""
    from flows.responses import address_and_file, export
    from longform.settings import home as home_of

    address, path = address_and_file(words)
    version = _version(address, home)[1] if address else None
    done = export(home_of(home), path, version)
    print(f"Exported {done.rows:,} responses ({done.bytes / 1e6:,.1f} MB) to {path}.")
    if done.missing:
        print(f"{done.missing:,} more that {address} used are not stored here: a rebuild will ask for them again.")


@responses.command("import")
def import_responses(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="made by `longform responses export`")],
    home: Home = None,
) -> None:
    """Add the responses of a Parquet file to those stored here; what is there stays as it is."""
    from flows.responses import load
    from longform.settings import home as home_of

    added, there = load(home_of(home), file)
    print(f"Imported {added:,} responses; {there:,} were there already.")


@responses.command("stats")
def count_responses(home: Home = None, as_json: Json = False) -> None:
    """Count the stored responses by endpoint, model and task."""
    from flows.console import console, table
    from flows.responses import stats
    from longform.settings import home as home_of

    rows = stats(home_of(home))
    if as_json:
        return _print_json(rows)
    if not rows:
        return print("No response is stored.")
    names = ("endpoint", "model", "task", "answers", "errors", "input_tokens", "output_tokens")
    titles = (*names[:5], "tokens in", "tokens out")
    columns = {title: "right" if place > 2 else "" for place, title in enumerate(titles)}
    cells = [
        (*(row[name] for name in names), f"{row['cost_nano'] / 1e9:,.2f}", f"{row['bytes'] / 1e6:,.1f}") for row in rows
    ]
    console().print(table({**columns, "USD": "right", "MB": "right"}, cells))


@app.command("batches")
def list_batches(
    cancel: Annotated[
        str | None, typer.Option("--cancel", metavar="NAME|all", help="stop this job; needs its endpoint's address")
    ] = None,
    config: ConfigFile = None,
    settings: Settings = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List the batch jobs that are open at a provider, or stop them; a build collects what they have made."""
    from flows import batches
    from flows.console import console
    from longform.settings import home as home_of

    jobs = batches.open_jobs(home_of(home))
    if cancel is not None:
        jobs = batches.chosen(jobs, cancel)
        stopped = batches.stop(home_of(home), jobs, config, settings or [])
        if as_json:
            return _print_json([{**batches.shown(job), "stopped": stopped[job.name]} for job in jobs])
        for job in jobs:
            print(f"{job.name[:12]}: {'asked to stop' if stopped[job.name] else 'unknown to the provider, given up'}")
        if any(stopped.values()):
            print("What was finished until then is collected by the next build in batch mode.")
        return None
    if as_json:
        return _print_json([batches.shown(job) for job in jobs])
    if not jobs:
        return print("No batch job is open.")
    console().print(batches.jobs_table(jobs))


def _known(dataset: str) -> str:
    import difflib

    from flows.building import DATASETS
    from longform.errors import UsageError

    if dataset not in DATASETS:
        near = difflib.get_close_matches(dataset, DATASETS, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"there is {', '.join(DATASETS)}."
        raise UsageError(f'There is no dataset "{dataset}"; {hint}')
    return dataset


def _model(dataset: str) -> Any:
    from flows.axioms import AxiomsConfig

    return {"axioms": AxiomsConfig}[_known(dataset)]


def _options(
    dataset: str,
    config: Path | None,
    settings: list[str] | None,
    version: str | None,
    home: Path | None,
    limit: int | None,
    until: str | None,
    force: str | None,
) -> tuple[Any, Any]:
    from flows import configuration
    from flows.building import Options
    from longform.settings import home as home_of

    given = list(settings or []) + ([f"limit={limit}"] if limit is not None else [])
    chosen = configuration.read(dataset, _model(dataset), config, given)
    return chosen, Options(home_of(home), version, until, force)


def _with_prompts(settings: list[str] | None, folder: str | None) -> list[str]:
    return [*(settings or []), *([] if folder is None else [f"prompts={json.dumps(folder)}"])]


def _amount(usd: float | None) -> float | None:
    from longform.errors import UsageError

    if usd is not None and not 0 <= usd < 1e9:
        raise UsageError(f"--max-cost {usd} is no amount of US dollars: give a number, e.g. 50 or 0.5.")
    return usd


def _check_endpoints(chosen: Any, options: Any) -> None:
    from flows.endpoints import check_keys, check_prices, endpoints_used

    used = endpoints_used(chosen)
    check_keys(used, chosen.endpoints)
    if options.max_cost is not None:
        check_prices(used, chosen.endpoints)


def _run(dataset: str, chosen: Any, options: Any) -> str | None:
    """The flow, with progress on stderr: a bar on a terminal, else plain lines."""
    from flows.console import Bars, Lines, console
    from longform.settings import prefect_server_given, quiet_prefect
    from longform.store import Store

    store = Store(options.home)
    store.prepare()
    with store.lock(dataset):
        pass
    quiet_prefect()
    out = console(stderr=True)
    out.print(f"{dataset} in {options.home}")
    if not prefect_server_given():
        out.print("starting Prefect's local server (some seconds; set PREFECT_API_URL to use one of yours)")
    from flows import deployed

    progress = Bars(out) if out.is_terminal else Lines()
    try:
        return deployed.start(dataset, chosen, options, progress)
    finally:
        progress.close()


def _nothing_to_do(version: Any, seconds: float, as_json: bool) -> None:
    if as_json:
        return _print_json(
            {**_summary(version), "new": False, "folder": str(version.folder), "seconds": round(seconds, 2)}
        )
    print(f"Nothing to do: {version.dataset} {version.name} has this recipe ({seconds:.1f} s).")
    print(f"  {version.folder}")


def _stopped(dataset: str, until: str | None, as_json: bool) -> None:
    if as_json:
        return _print_json({"dataset": dataset, "version": None, "stopped_after": until})
    print(f"Stopped after {until}; nothing was published. Run without --until to go on from there.")


def _built(version: Any, seconds: float, as_json: bool) -> None:
    if as_json:
        return _print_json(
            {**_summary(version), "new": True, "folder": str(version.folder), "seconds": round(seconds, 2)}
        )
    from flows.inspection import summary_lines

    for line in summary_lines(version, seconds):
        print(line)


def _version(address: str, home: Path | None) -> tuple[Any, Any]:
    from longform import versions
    from longform.settings import home as home_of
    from longform.store import Store

    _known(address.partition("@")[0])
    root = home_of(home)
    return Store(root), versions.find(root, address)


def _summary(version: Any) -> dict[str, Any]:
    splits = version.manifest["splits"]
    return {
        "dataset": version.dataset,
        "version": version.name,
        "rows": sum(splits.values()),
        "splits": splits,
        "offline": version.manifest["offline"],
        "recipe": version.recipe,
    }


def _splits(splits: dict[str, int]) -> str:
    return ", ".join(f"{name} {rows:,}" for name, rows in splits.items())


def _short(text: str | None) -> str:
    flat = " ".join((text or "").split())
    return flat if len(flat) <= 60 else f"{flat[:59]}…"


def _print_json(document: Any, indent: int | None = 2) -> None:
    from flows.console import visible

    for line in json.dumps(document, indent=indent, ensure_ascii=False).split("\n"):
        print(visible(line))


def main() -> None:
    """Entry point: one sentence and an exit code for everything that can go wrong."""
    leave(_run_command())


def _run_command() -> int:
    from longform.errors import LongformError

    try:
        app(standalone_mode=True)
    except SystemExit as end:
        if end.code == 130:  # what typer makes of a KeyboardInterrupt
            return _interrupted()
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except LongformError as error:
        from flows.console import visible

        print(visible(str(error)), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return _interrupted()
    return 0


def _interrupted() -> int:
    print("Interrupted. What was finished is kept; run the same command again to go on.", file=sys.stderr)
    return 130


def leave(code: int) -> None:
    """End the process after its exit functions, without taking the interpreter down.

    Threads that Prefect leaves running would else make DuckDB's binding report leaked objects at the end.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
