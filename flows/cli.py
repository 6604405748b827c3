"""The command line: longform."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import typer

from flows import cli_exports, cli_models, cli_revise, cli_sheets, cli_sources, cli_takedowns, cli_versions
from flows.arguments import (
    ConfigFile,
    Dataset,
    Force,
    Home,
    Json,
    Limit,
    MaxCost,
    PromptsFolder,
    RetryErrors,
    Settings,
    Until,
    VersionName,
    amount,
    model_of,
    print_json,
    read_options,
    summary,
    with_prompts,
)

INTERRUPTED, TERMINATED = 130, 143  # as shells name the ends by SIGINT and SIGTERM

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Rebuild datasets for long-form question answering and writing from raw public sources.",
)
app.add_typer(cli_versions.app)
app.add_typer(cli_models.app)
app.add_typer(cli_takedowns.app)
app.add_typer(cli_sources.app)
app.add_typer(cli_sheets.app)
app.add_typer(cli_exports.app)
app.add_typer(cli_revise.app)


@app.command("config")
def show_config(dataset: Dataset) -> None:
    """Print the whole default configuration, commented, as TOML."""
    from flows.configuration import toml

    print(toml(dataset, model_of(dataset)), end="")


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
    settings = with_prompts(settings, prompts)
    chosen, options = read_options(dataset, config, settings, version, home, limit, until, force)
    options = replace(options, max_cost=amount(max_cost), retry_errors=retry_errors)
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

    settings = with_prompts(settings, prompts)
    chosen, options = read_options(dataset, config, settings, version, home, limit, until, force)
    planned, known = building.plan(dataset, chosen, options, priced=True)
    _say_terms(chosen)
    if as_json:
        return print_json(
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


def _say_terms(chosen: Any) -> None:
    """One line, while nobody has decided whether the sources' terms allow this."""
    if getattr(chosen, "terms", None) == "undecided":
        print("terms = undecided: read docs/data-policy.md before you use real dumps, then set terms.", file=sys.stderr)


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
    _say_terms(chosen)
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
        return print_json(
            {**summary(version), "new": False, "folder": str(version.folder), "seconds": round(seconds, 2)}
        )
    print(f"Nothing to do: {version.dataset} {version.name} has this recipe ({seconds:.1f} s).")
    print(f"  {version.folder}")


def _stopped(dataset: str, until: str | None, as_json: bool) -> None:
    if as_json:
        return print_json({"dataset": dataset, "version": None, "stopped_after": until})
    print(f"Stopped after {until}; nothing was published. Run without --until to go on from there.")


def _built(version: Any, seconds: float, as_json: bool) -> None:
    if as_json:
        return print_json(
            {**summary(version), "new": True, "folder": str(version.folder), "seconds": round(seconds, 2)}
        )
    from flows.inspection import summary_lines

    for line in summary_lines(version, seconds):
        print(line)


def main() -> None:
    """Entry point: one sentence and an exit code for everything that can go wrong."""
    signal.signal(signal.SIGTERM, _terminate)
    leave(_run_command())


def _terminate(*_: object) -> NoReturn:
    """What Prefect, which takes SIGTERM first while a flow runs, hands on to when the flow has ended."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # another one would break off the cleaning up
    raise SystemExit(TERMINATED)


def _run_command() -> int:
    from longform.errors import LongformError

    try:
        app(standalone_mode=True)
    except SystemExit as end:
        if end.code in (INTERRUPTED, TERMINATED):  # the first is what typer makes of a KeyboardInterrupt
            return _interrupted(end.code)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except LongformError as error:
        from flows.console import visible

        print(visible(str(error)), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return _interrupted(INTERRUPTED)
    return 0


def _interrupted(code: int) -> int:
    print("Interrupted. What was finished is kept; run the same command again to go on.", file=sys.stderr)
    return code


def leave(code: int) -> None:
    """End the process after its exit functions, without taking the interpreter down.

    Threads that Prefect leaves running would else make DuckDB's binding report leaked objects at the end.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # it ends already
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
