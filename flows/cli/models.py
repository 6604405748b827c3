"""Commands about models: prompts, costs, stored responses, batch jobs, the stand-in servers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.builds import completion
from flows.cli.shared.arguments import (
    Address,
    ConfigFile,
    Home,
    Json,
    PromptsFolder,
    Settings,
    home_of_group,
    print_json,
    version_at,
)
from flows.registry import checked_name
from longform.errors import StoreError, UsageError
from longform.settings import home as home_of

app = typer.Typer()
responses = typer.Typer(
    no_args_is_help=True,
    callback=home_of_group,
    help="Export, import, count and check the stored model responses.",
)
app.add_typer(responses, name="responses")
standins = typer.Typer(invoke_without_command=True)
app.add_typer(standins, name="standin")
SAMPLES = Path(__file__).parents[2] / "data" / "samples"


@app.command("prompts")
def list_prompts(
    dataset: Annotated[
        str | None,
        typer.Argument(metavar="[DATASET]", help="else of every dataset", autocompletion=completion.datasets),
    ] = None,
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
    from flows.builds.console import console, table
    from flows.config.prompts import described, rendered

    if form and not render:
        raise UsageError("--form says how to render a prompt: name it with --render.")
    if render is not None:
        messages = rendered(render, form, prompts)
        if as_json:
            return print_json([{"role": role, "content": content} for role, content in messages])
        return print("\n\n".join(f"# {role}\n{content}" for role, content in messages))
    found = described(checked_name(dataset) if dataset else None, prompts)
    if as_json:
        return print_json(found)
    columns = {"prompt": "", "inputs": "", "reply": "", "asked for as": "", "hash": ""}
    rows = [
        (each["name"], ", ".join(each["inputs"]), each["reply"], " or ".join(each["forms"]), each["hash"][:12])
        for each in found
    ]
    listed = table(columns, rows)
    listed.columns[0].no_wrap = listed.columns[-1].no_wrap = True
    console().print(listed)


@app.command()
def costs(address: Address, home: Home = None, as_json: Json = False) -> None:
    """Show what was paid for a dataset, or under a version's recipes: calls, tokens and USD by stage and model."""
    from flows.builds.console import console
    from flows.inspection.costs import costs_lines, costs_table, paid

    checked_name(address.partition("@")[0])
    found = paid(home_of(home), address)
    if as_json:
        return print_json(found)
    out = console()
    if found["stages"]:
        out.print(costs_table(found))
    for line in costs_lines(found):
        out.print(line, soft_wrap=True)


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
    from flows.builds.console import console
    from flows.cli.shared import batches

    jobs = batches.open_jobs(home_of(home))
    if cancel is not None:
        jobs = batches.chosen(jobs, cancel)
        stopped = batches.stop(home_of(home), jobs, config, settings or [])
        if as_json:
            return print_json([{**batches.described(job), "stopped": stopped[job.name]} for job in jobs])
        for job in jobs:
            print(f"{job.name[:12]}: {'asked to stop' if stopped[job.name] else 'unknown to the provider, given up'}")
        if any(stopped.values()):
            print("What was finished until then is collected by the next build in batch mode.")
        return None
    if as_json:
        return print_json([batches.described(job) for job in jobs])
    if not jobs:
        return print("No batch job is open.")
    console().print(batches.jobs_table(jobs))


Host = Annotated[str, typer.Option("--host", help="address to listen on")]
Latency = Annotated[float, typer.Option("--latency", metavar="SECONDS", min=0, help="of every answer")]
Fault = Annotated[
    list[str] | None, typer.Option("--fault", metavar="NAME=SHARE", help="so many of the requests; see --faults")
]
Faults = Annotated[bool, typer.Option("--faults", help="list what can go wrong, and leave")]
Script = Annotated[Path | None, typer.Option("--script", metavar="FILE", help="a JSON line for each request")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="of the draws of faults")]


@standins.callback()
def standin(
    context: typer.Context,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one")] = 8090,
    host: Host = "127.0.0.1",
    latency: Latency = 0.0,
    rpm: Annotated[float | None, typer.Option("--rpm", metavar="N", min=1, help="requests allowed a minute")] = None,
    tpm: Annotated[float | None, typer.Option("--tpm", metavar="N", min=1, help="tokens allowed a minute")] = None,
    burst: Annotated[
        float | None, typer.Option("--burst", metavar="N", min=1, help="requests allowed at once; else --rpm")
    ] = None,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="send no x-ratelimit headers")] = False,
    fault: Fault = None,
    faults: Faults = False,
    script: Script = None,
    batch_seconds: Annotated[float, typer.Option("--batch-seconds", metavar="S", min=0, help="a batch takes")] = 1.0,
    batch_fault: Annotated[
        list[str] | None, typer.Option("--batch-fault", metavar="expired|failed|cancelled=SHARE", help="of the batches")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="the only model served; else any")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="the only key accepted; else any")] = None,
    seed: Seed = 0,
    say: Annotated[str | None, typer.Option("--say", metavar="TEXT", help="answer this, instead of by rules")] = None,
) -> None:
    """Serve the offline model as an OpenAI-compatible API that fails on request: to rehearse a build."""
    if context.invoked_subcommand:
        return _refuse_options(context)
    from flows.registry import offline_rules
    from longform.standin.faults import FAULTS, read_script, shares_of
    from longform.standin.server import Settings, run

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
        rules=offline_rules(),
    )
    run(chosen, host, port)


def _refuse_options(context: typer.Context) -> None:
    """UsageError if an option was given before the sub-command, where it would say nothing."""
    given = [name for name in context.params if str(context.get_parameter_source(name)).endswith("COMMANDLINE")]
    if given:
        option, command = given[0].replace("_", "-"), f"longform standin {context.invoked_subcommand}"
        raise UsageError(f"--{option} is of the stand-in for models: put options behind `{command}`.")


@standins.command("sources")
def standin_sources(
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one")] = 8091,
    host: Host = "127.0.0.1",
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="DIR", help="files of yours, in openreview/, papers/, reddit/, s2orc/, …"),
    ] = None,
    latency: Latency = 0.0,
    requests: Annotated[
        int | None, typer.Option("--requests", metavar="N", min=1, help="each source answers so many, then 429")
    ] = None,
    window: Annotated[
        float, typer.Option("--window", metavar="SECONDS", min=0.1, help="after which --requests counts anew")
    ] = 60.0,
    link_seconds: Annotated[
        float, typer.Option("--link-seconds", metavar="SECONDS", min=0, help="a signed link is good so long")
    ] = 3_600.0,
    fault: Fault = None,
    faults: Faults = False,
    script: Script = None,
    seed: Seed = 0,
) -> None:
    """Serve samples as OpenReview, Reddit, GROBID, Semantic Scholar and archive.org do: to rehearse fetch and read."""
    from longform.standin.faults import read_script, shares_of
    from longform.standin.sources.faults import FAULTS
    from longform.standin.sources.server import Settings, run

    if faults:
        return print("\n".join(f"{name:<12} {what}" for name, what in FAULTS.items()))
    chosen = Settings(
        samples=SAMPLES,
        folder=folder,
        latency_seconds=latency,
        requests=requests,
        window_seconds=window,
        link_seconds=link_seconds,
        faults=shares_of(fault or []),
        script=read_script(script, FAULTS) if script else (),
        seed=seed,
    )
    run(chosen, host, port)


@responses.command("export")
def export_responses(
    words: Annotated[list[str], typer.Argument(metavar="[DATASET[@VERSION]] FILE", help="without a dataset: all")],
    home: Home = None,
) -> None:
    """Write responses to a Parquet file: all, or those a version used, which rebuild it without a call."""
    from flows.cli.shared.responses import address_and_file, export

    address, path = address_and_file(words)
    done = export(home_of(home), path, version_at(address, home)[1] if address else None)
    print(f"Exported {done.rows:,} responses ({done.bytes / 1e6:,.1f} MB) to {path}.")
    if done.missing:
        print(f"{done.missing:,} more that {address} used are not stored here: a rebuild will ask for them again.")


@responses.command("import")
def import_responses(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="made by `longform responses export`")],
    home: Home = None,
) -> None:
    """Add the responses of a Parquet file to those stored here; what is there stays as it is."""
    from flows.cli.shared.responses import load

    added, there = load(home_of(home), file)
    print(f"Imported {added:,} responses; {there:,} were there already.")


@responses.command("stats")
def count_responses(home: Home = None, as_json: Json = False) -> None:
    """Count the stored responses by endpoint, model and task."""
    from flows.builds.console import console, table
    from flows.cli.shared.responses import stats

    rows = stats(home_of(home))
    if as_json:
        return print_json(rows)
    if not rows:
        return print("No response is stored.")
    names = ("endpoint", "model", "task", "answers", "errors", "input_tokens", "output_tokens")
    titles = (*names[:5], "tokens in", "tokens out")
    columns = {title: "right" if place > 2 else "" for place, title in enumerate(titles)}
    cells = [
        (*(row[name] for name in names), f"{row['cost_nano'] / 1e9:,.2f}", f"{row['bytes'] / 1e6:,.1f}") for row in rows
    ]
    console().print(table({**columns, "USD": "right", "MB": "right"}, cells))


@responses.command("check")
def check_responses(
    drop: Annotated[bool, typer.Option("--drop", help="delete damaged responses: a build asks for them again")] = False,
    home: Home = None,
) -> None:
    """Look for responses that were altered where they are stored: they are never used."""
    from flows.cli.shared.responses import check

    damaged, faults = check(home_of(home), drop=drop)
    for line in (*damaged, *faults):
        print(line)
    if faults:
        raise StoreError("The response store is damaged as a file: restore it from a backup.")
    if damaged and not drop:
        raise StoreError(
            f"{len(damaged):,} stored responses are damaged: restore the store from a backup, or run "
            "`longform responses check --drop` to delete them and have them asked again."
        )
    print(f"Deleted {len(damaged):,} damaged responses." if damaged else "No stored response is damaged.")


@responses.command("forget")
def forget_store(home: Home = None) -> None:
    """Take the response store that is there, although the home used another one or one with more answers."""
    from flows.cli.shared.responses import forget

    known = forget(home_of(home))
    print(
        "The next build takes the response store that is there." if known else "The home remembers no response store."
    )
