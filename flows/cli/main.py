"""The command line `longform`: building, planning and configuration; other commands come from the modules
beside this.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.builds.options import flags
from flows.cli import (
    annotating,
    answer,
    critique,
    evaluate,
    exports,
    models,
    prefect_setup,
    serve,
    sheets,
    sources,
    takedowns,
    train,
    versions,
)
from flows.cli.papers import parity
from flows.cli.revision import measure, revise
from flows.cli.shared.arguments import (
    ConfigFile,
    Dataset,
    Home,
    Json,
    Limit,
    PromptsFolder,
    Retrying,
    Settings,
    print_json,
    read_options,
    with_prompts,
)
from flows.cli.shared.ending import INTERRUPTED, Ending, end_soon
from flows.cli.shared.outputs import outputs
from flows.registry import config_class
from longform.errors import LongformError

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Rebuild datasets for long-form question answering and writing from raw public sources.",
)
for commands in (
    versions,
    models,
    takedowns,
    sources,
    sheets,
    exports,
    revise,
    measure,
    critique,
    evaluate,
    answer,
    train,
    serve,
    annotating,
    prefect_setup,
    parity,
):
    app.add_typer(commands.app)


def _say_version(context: typer.Context, asked: bool) -> None:
    """The callback of --version: if it was given, print the release and end the command. Does nothing while the shell
    completes words.
    """
    if asked and not context.resilient_parsing:
        from longform import __version__

        print(f"longform {__version__}")
        raise typer.Exit


@app.callback()
def before_the_command(
    home: Home = None,
    version: Annotated[
        bool, typer.Option("--version", help="print the release and leave", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """Options before the command; `--home` may also stand after it, where it wins."""


@app.command("config")
def show_config(dataset: Dataset) -> None:
    """Print the whole default configuration, commented, as TOML."""
    from flows.config.configuration import toml

    print(toml(dataset, config_class(dataset)), end="")


@app.command(cls=Retrying)
@flags()
def build(
    dataset: Dataset,
    config: ConfigFile = None,
    settings: Settings = None,
    home: Home = None,
    limit: Limit = None,
    prompts: PromptsFolder = None,
    *,
    options: dict[str, Any],
    as_json: Json = False,
) -> None:
    """Build a dataset and publish it as a version; what is there already is reused."""
    from flows.builds import building

    started = time.monotonic()
    settings = with_prompts(settings, prompts)
    chosen, run_options = read_options(dataset, config, settings, home, limit, options)
    method = building.declare(dataset, chosen, run_options)
    planned, existing = building.plan(method, run_options)
    if existing and planned.nothing_to_do:
        return _finished(existing, time.monotonic() - started, as_json, new=False)
    _check_prices(dataset, chosen, run_options)
    published = _run(dataset, chosen, run_options, method)
    if published is None:
        return _stopped(dataset, run_options.until, as_json)
    from longform.artifacts.versions import find

    version = find(run_options.home, f"{dataset}@{Path(published).name}")
    _finished(version, time.monotonic() - started, as_json, new=True)


@app.command(cls=Retrying)
@flags("version", "until", "force", "budget", "retry_errors")
def plan(
    dataset: Dataset,
    config: ConfigFile = None,
    settings: Settings = None,
    home: Home = None,
    limit: Limit = None,
    prompts: PromptsFolder = None,
    *,
    options: dict[str, Any],
    as_json: Json = False,
) -> None:
    """Say what a build would do and why; sends and writes nothing."""
    from flows.builds import building
    from flows.builds.console import console
    from flows.builds.plan_table import plan_foot, plan_table
    from flows.inspection.costs import budget_lines, spent_of
    from longform.engine.plan import total

    settings = with_prompts(settings, prompts)
    chosen, run_options = read_options(dataset, config, settings, home, limit, options)
    planned, existing = building.plan(
        building.declare(dataset, chosen, run_options), run_options, priced=True, config=chosen
    )
    budgets = spent_of(run_options.home, building.caps(dataset, chosen, run_options))
    _say_terms(chosen)
    if as_json:
        return print_json(
            {
                "dataset": dataset,
                "nothing_to_do": bool(existing) and planned.nothing_to_do,
                "version": existing.name if existing else None,
                "stages": [stage.as_dict() for stage in planned.stages],
                "total": total(planned.stages),
                "budgets": budgets,
            }
        )
    out = console()
    out.print(f"{dataset}, against endpoint {chosen.model}\n")
    out.print(plan_table(planned.stages))
    for number, line in enumerate([*plan_foot(planned.stages), *budget_lines(budgets)]):
        out.print(f"{'' if number else chr(10)}{line}", soft_wrap=True)
    if existing and planned.nothing_to_do:
        out.print(f"\nNothing to do: {dataset} {existing.name} has this recipe.")
    elif planned.nothing_to_do and not run_options.until:
        out.print("\nEvery stage is there; only publishing is left.")


def _say_terms(chosen: Any) -> None:
    """Print a line to stderr if the setting `terms` of the configuration is "undecided": nobody has said yet whether
    the terms of the sources allow this use. Datasets without this setting get none.
    """
    if getattr(chosen, "terms", None) == "undecided":
        print("terms = undecided: read docs/data-policy.md before you use real dumps, then set terms.", file=sys.stderr)


def _check_prices(dataset: str, chosen: Any, options: Any) -> None:
    """Raise UsageError if there is a limit of cost and the price of an endpoint in use is unknown. `chosen`: the
    configuration; `options`: those of the build.
    """
    from flows.builds.building import caps
    from flows.config.endpoints import check_prices, endpoints_used

    if options.max_cost is not None or caps(dataset, chosen, options):
        check_prices(endpoints_used(chosen), chosen.endpoints)


def _run(dataset: str, chosen: Any, options: Any, method: Any) -> str | None:
    """Run the dataset's flow with progress on stderr, and wait for its end. `chosen`: the configuration, `method`: the
    recorded calls of its stages.

    Returns the folder of the published version; None if the build ended at --until. BusyError if the dataset is being
    built, UsageError or ServerError if the runner or Prefect's server cannot be used; the error of a failed build is
    raised.
    """
    from flows.builds.console import Bars, Lines, console
    from flows.builds.server import check_still_reachable, connected
    from longform.artifacts.store import Store
    from longform.engine.runners import check
    from longform.settings import quiet_prefect

    check(*options.engine)
    store = Store(options.home)
    store.prepare()
    with store.lock(dataset):
        pass
    _say_terms(chosen)
    quiet_prefect()
    out = console(stderr=True)
    out.print(f"{dataset} in {options.home}")
    with connected(out.print, lambda: import_module("flows.deployed")):  # which takes a second
        from flows import deployed

        progress = Bars(out) if out.is_terminal else Lines()
        try:
            by = deployed.CommandLine(progress, method, end_soon)
            return deployed.start(dataset, chosen, options, by)
        except LongformError:
            raise
        except Exception as error:
            check_still_reachable(error)
            raise
        finally:
            progress.close()


def _stopped(dataset: str, until: str | None, as_json: bool) -> None:
    """Print that the build ended after the stage `until` (--until), as sentences or as JSON."""
    if as_json:
        return print_json({"dataset": dataset, "version": None, "stopped_after": until})
    print(f"Stopped after {until}; nothing was published. Run without --until to go on from there.")


def _finished(version: Any, seconds: float, as_json: bool, *, new: bool) -> None:
    """Print the version that a build ended with: its summary if it is new, else that there was nothing to do; as lines
    or as JSON. `seconds`: how long the command took.
    """
    from flows.inspection.describe import summary, summary_lines

    if as_json:
        return print_json({**summary(version), "new": new, "folder": str(version.folder), "seconds": round(seconds, 2)})
    if not new:
        return print(
            f"Nothing to do: {version.dataset} {version.name} has this recipe ({seconds:.1f} s).\n  {version.folder}"
        )
    print("\n".join(summary_lines(version, seconds)))


def main() -> None:
    """The entry point of `longform`: runs the command and ends the process with its exit code. An expected error prints
    one sentence to stderr.
    """
    Ending().leave(_run_command())


def _run_command() -> int:
    """Run the command of sys.argv and return its exit code. The message of a LongformError is printed to stderr; an
    interruption has the code 130; other errors pass through.
    """

    try:
        with outputs():
            app(standalone_mode=True)
    except SystemExit as end:  # typer makes one of a KeyboardInterrupt, with the code of an interruption
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except LongformError as error:
        from flows.builds.console import visible

        print(visible(str(error)), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    main()
